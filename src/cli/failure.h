/* Prints a JSON object for a command that failed, or a run that was stopped before it trained, to stdout: with --json, scripts
 * always get an object.
 *
 * Example:
 *     yk_failure_expect();                                      // --json: this process prints the object
 *     yk_failure_print("idx:/nowhere: no such directory", 3);   // {"state": "failed", "error": "...", "exit_code": 3}
 *
 * A run that has a summary prints the summary instead, which has these keys and others. Only the first call to a print
 * function prints anything. Nothing is printed before yk_failure_expect(). Not thread-safe.
 */
#ifndef YK_CLI_FAILURE_H
#define YK_CLI_FAILURE_H

#include <time.h>

void yk_failure_expect(void);
void yk_failure_expect_option(int argc,
                              char **argv); /* if there is --json: also for errors in the command line */
void yk_failure_print(const char *error, int code); /* code 0: "stopped", not "failed" */
void yk_failure_print_text(const char *json);

/* Prints RUN/summary.json if it was written at or after `since`. */
void yk_failure_print_summary(const char *run_dir, time_t since);

#endif
