/* Runs this program as a child, for yoke sweep, which runs yoke train.
 *
 * Example:
 *     yk_cli_launcher = true;
 *     yk_cli_catch_signals(); // the first signal, and a second one, are passed on to the child
 *     static char yoke[] = "yoke", train[] = "train", json[] = "--json";
 *     char *const argv[] = {yoke, train, json, NULL};
 *     yk_child c;
 *     yk_status st = yk_child_run(argv, "run", "log.txt", false, NULL, NULL, &c);
 *     if (!st && c.status)
 *         printf("exit status %d: %s\n", c.status, c.error);
 *
 * The child is the running version of the program even if its file was replaced, so all runs of a sweep use one version.
 * Its stdin is empty, its stderr goes to the log, and its stdout is only searched for an error. It receives SIGTERM when
 * its parent dies. One child at a time, main thread only.
 */
#ifndef YK_CLI_CHILD_H
#define YK_CLI_CHILD_H

#include "base/status.h"

typedef struct {
    int status; /* exit status, or 128 + the number of the signal that killed it */
    double seconds;
    char error[2048]; /* if it failed: why the kernel killed it, or its own error; one line */
} yk_child;

/* The log is DIR/LOG (base/dir.h). tick(context) is called about four times a second; `tick` may be NULL. YK_ESTOP: a
 * signal arrived before the child was started. */
yk_status yk_child_run(char *const *argv, const char *dir, const char *log, bool append, void (*tick)(void *),
                       void *context, yk_child *out);

#endif
