/* A function that runs in a thread of its own; the thread that joins it gets its error.
 *
 * Example:
 *     yk__background b = {0};
 *     yk_status st = yk__background_start(&b, run, context, "the thread that waits"); // run(context) returns a yk_status
 *     while (!st && !atomic_load(&b.over))
 *         yk_yield();
 *     st = yk__background_join(&b, st);
 *
 * It belongs to the thread that starts it, and must not move until it is joined.
 */
#ifndef YK_TRAIN_BACKGROUND_H
#define YK_TRAIN_BACKGROUND_H

#include "base/status.h"
#include "base/sync.h"
#include <stdatomic.h>
#include <stdbool.h>

/* The error of a thread, or of a function that cannot return it. */
typedef struct {
    yk_status st;
    char error[2048];
} yk__outcome;

void yk__outcome_keep(yk__outcome *o, yk_status st);
yk_status yk__outcome_raise(const yk__outcome *o);

typedef struct {
    yk_status (*run)(void *context);
    void *context;
    yk_thread thread;
    bool started; /* and not joined */
    atomic_bool over;
    yk__outcome outcome; /* once it is over */
} yk__background;

yk_status yk__background_start(yk__background *b, yk_status (*run)(void *context), void *context,
                               const char *what);
/* Returns `so_far`, or else its error. Does nothing else if it was not started, or is joined already. */
yk_status yk__background_join(yk__background *b, yk_status so_far);

double yk__thread_seconds(void); /* CPU time of this thread; 0 in a simulation */

#endif
