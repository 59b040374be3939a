/* The commands. Each parses its own arguments, reports its error, and returns the exit status of the program. */
#ifndef YK_CLI_CLI_H
#define YK_CLI_CLI_H

#include "base/json.h"
#include "config/config.h"
#include "data/inspect.h"
#include <signal.h>
#include <time.h>
#include <yoke.h>

int yk_cmd_train(int argc, char **argv);
int yk_cmd_eval(int argc, char **argv);
int yk_cmd_predict(int argc, char **argv);
int yk_cmd_inspect(int argc, char **argv);
int yk_cmd_data(int argc, char **argv);
int yk_cmd_version(int argc, char **argv);
int yk_cmd_report(int argc, char **argv);
int yk_cmd_sweep(int argc, char **argv);

/* launch.c: the launcher of a job, for yoke train; returns the exit status. Main thread only. */
int yk_launch(const yk_config *c, int argc, char **argv);

/* show_inspection.c: prints an inspection to stdout, as text or as one line of JSON. */
yk_status yk_inspection_print(const char *spec, const yk_inspection *i);
yk_status yk_inspection_print_json(const char *spec, const yk_inspection *i);

/* When the program started (base/clock.h), and whether it received SIGINT, SIGTERM or SIGHUP. */
extern double yk_cli_started;
extern volatile sig_atomic_t yk_cli_stop, yk_cli_stop_again;
extern bool yk_cli_launcher; /* a second signal only sets yk_cli_stop_again */

/* From now on, SIGINT, SIGTERM and SIGHUP set yk_cli_stop. A second SIGINT or SIGTERM ends the program immediately. */
void yk_cli_catch_signals(void);
sigset_t yk_cli_stop_signals(void); /* these three */

/* Whether the program that reads stdout, such as head, has exited: it has all that it wanted. */
bool yk_cli_reader_left(void);

/* Reports this thread's error, if any, and returns the exit status. */
int yk_cli_exit(yk_status status);
int yk_cli_fail(const yoke_error *error); /* the same for an error of the library */

/* With --json, scripts always get an object, also from a command that failed, or a run that was stopped before it trained:
 * {"state": "failed", "error": "...", "exit_code": 3}. A run that has a summary prints it instead; it has these keys and others.
 * Nothing is printed before yk_json_result_expect(); after it, only the first of these calls prints. */
void yk_json_result_expect(void);
void yk_failure_print(const char *error, int code); /* code 0: "stopped", not "failed" */
void yk_json_result_print(const char *json);
/* Prints RUN/summary.json if it was written at or after `since`. */
void yk_failure_print_summary(const char *run_dir, time_t since);

/* Flushes stdout. YK_ESYSTEM: the results, or a part of them, could not be written. */
yk_status yk_cli_flush(void);
/* Prints a text (taken; NULL: out of memory) and what follows it, then flushes. */
yk_status yk_cli_print(char *text, const char *end);
yk_status yk_cli_print_json(yk_json *j); /* one line; j is empty afterwards */

#endif
