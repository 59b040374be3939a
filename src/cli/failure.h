/* The JSON object of a run that failed, on stdout: with --json, scripts always get one.
 *
 * Example:
 *     yk_failure_expect();                                      // --json: this process prints the object
 *     yk_failure_print("idx:/nowhere: no such directory", 3);   // {"state": "failed", "error": "...", "exit_code": 3}
 *
 * A run that got as far as a summary prints that instead: it has the same keys, and all others. Only the first call of any
 * of the print functions prints. Nothing is printed before yk_failure_expect(). One thread.
 */
#ifndef YK_CLI_FAILURE_H
#define YK_CLI_FAILURE_H

#include <time.h>

void yk_failure_expect(void);
void yk_failure_print(const char *error, int code);
void yk_failure_print_text(const char *json);

/* RUN/summary.json, if it was written since then. */
void yk_failure_print_summary(const char *run_dir, time_t since);

#endif
