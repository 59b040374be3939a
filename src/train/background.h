/* Runs a function in a thread of its own. The thread that joins it gets its error.
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

/* An error of a thread, or of a function that cannot return it: saved with the message of the calling thread, and raised later,
 * possibly in another thread. */
typedef struct {
    yk_status st;
    char text[2048];
} yk__saved_error;

void yk__error_save(yk__saved_error *e, yk_status st);
yk_status yk__error_raise(const yk__saved_error *e);

typedef struct {
    yk_status (*run)(void *context);
    void *context;
    yk_thread thread;
    bool started; /* and not joined */
    atomic_bool over;
    yk__saved_error error; /* once it is over */
} yk__background;

yk_status yk__background_start(yk__background *b, yk_status (*run)(void *context), void *context,
                               const char *what);
/* Waits until the function returns. Returns `so_far` if that is an error, else the error of the function. Returns `so_far` at
 * once if the thread was not started or is already joined. */
yk_status yk__background_join(yk__background *b, yk_status so_far);

#endif
