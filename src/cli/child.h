/* Runs this program again, for commands that are made of others (sweep: train, report).
 *
 *     yk_child_catch_signals();                                      // SIGINT and SIGTERM: yk_cli_stop, and on to the child
 *     const char *argv[] = {"yoke", "train", "--json", NULL};
 *     yk_child c;
 *     st = yk_child_run(argv, "run", "log.txt", false, tick, me, &c); // tick(me) four times a second
 *     c.status, c.text                                               // exit status (128 + a signal), stdout
 *     yk_child_fini(&c);
 *
 * The child is the very program that is running, also if its file was replaced meanwhile: the runs of a sweep are made by
 * one version. Its stdin is empty, its stderr goes to the log. It is told to end (SIGTERM) when its parent dies. One
 * child at a time; one thread.
 */
#ifndef YK_CLI_CHILD_H
#define YK_CLI_CHILD_H

#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    int status;
    double seconds;
    char *text; /* what it wrote to stdout; never NULL after a good yk_child_run() */
    size_t size, cap;
} yk_child;

void yk_child_catch_signals(void);

/* The log is DIR/LOG, as in base/dir.h. YK_ESTOP: a signal came before it could begin. `tick` may be NULL. */
yk_status yk_child_run(const char *const *argv, const char *dir, const char *log, bool append,
                       void (*tick)(void *), void *me, yk_child *out);
void yk_child_fini(yk_child *c);

/* The last error in the log of a child (without "yoke: error: "), else its last line; on one line. The caller frees it;
 * NULL: out of memory. */
char *yk_child_last_error(const char *log);

#endif
