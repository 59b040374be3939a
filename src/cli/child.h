/* Runs this program as a child, for yoke sweep, which runs yoke train.
 *
 * Example:
 *     yk_child_catch_signals(); // SIGINT and SIGTERM set yk_cli_stop and are passed on to the child
 *     static char yoke[] = "yoke", train[] = "train", json[] = "--json";
 *     char *const argv[] = {yoke, train, json, NULL};
 *     yk_child c;
 *     yk_status st = yk_child_run(argv, "run", "log.txt", false, NULL, NULL, &c);
 *     if (!st)
 *         printf("exit status %d, stdout: %s\n", c.status, c.text);
 *     yk_child_fini(&c);
 *
 * The child is the running version of the program even if its file was replaced, so all runs of a sweep use one version.
 * Its stdin is empty, its stderr goes to the log. It receives SIGTERM when its parent dies. One child at a time, main
 * thread only.
 */
#ifndef YK_CLI_CHILD_H
#define YK_CLI_CHILD_H

#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    int status;       /* exit status, or 128 + the number of the signal that killed it */
    char killed[400]; /* why the kernel killed it; "": it did not, or the reason is not known */
    double seconds;
    char *text; /* its stdout, owned; not NULL if yk_child_run() succeeded */
    size_t size, cap;
} yk_child;

void yk_child_catch_signals(void);

/* The log is DIR/LOG (base/dir.h). tick(context) is called about four times a second; `tick` may be NULL. YK_ESTOP: a
 * signal arrived before the child was started. */
yk_status yk_child_run(char *const *argv, const char *dir, const char *log, bool append, void (*tick)(void *),
                       void *context, yk_child *out);
void yk_child_fini(yk_child *c);

/* Why a child failed: the last error in its log, without "yoke: error: ", or else the error in its JSON output, or else the last
 * line of the log. A log on a full disk is empty. Newlines become blanks. The caller frees it; NULL: out of memory. */
char *yk_child_last_error(const yk_child *c, const char *log);

#endif
