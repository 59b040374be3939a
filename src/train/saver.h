/* Checkpoints are written while training continues: workers pause only to copy the parameters and the optimizer's state.
 *
 * At a barrier:
 *
 *     worker 0       begin: waits for the previous checkpoint; without a copy, the caller writes the store itself
 *     all workers    a barrier; copy: each worker copies its part; a barrier
 *     worker 0       start: a thread writes the copy, and training continues
 *
 * At the end, finish() waits until the last checkpoint is complete.
 *
 * There is one copy. It takes as much memory as what is saved: 4 bytes for each parameter, and as much for each array of
 * the optimizer. It is allocated for the first checkpoint before the end. If the memory is not available, and at the end of
 * a run, the store itself is written while the workers wait.
 *
 * A failed write ends the run with its error: at the next step of worker 0 (yk__saver_failed), or in finish().
 *
 * What a checkpoint costs is measured: the seconds in which the workers wait, and the CPU time of the thread. It determines
 * the interval between checkpoints (schedule.c).
 */
#ifndef YK_TRAIN_SAVER_H
#define YK_TRAIN_SAVER_H

#include "train/background.h"
#include "train/checkpoint.h"
#include "train/schedule.h"

typedef yk_status yk__write(void *context, const yk_checkpoint_arrays *arrays, const yk_progress_state *p);

typedef struct {
    yk__schedule *schedule;            /* borrowed: knows what a checkpoint costs */
    yk_checkpoint_arrays arrays, from; /* the copy; the arrays of the store */
    float *memory;                     /* of the copy; NULL: none */
    bool refused;                      /* there is no memory for a copy */
    /* From begin to start: whether the workers have to copy. */
    bool copies;
    yk__background thread; /* writes the copy */
    yk__write *write;
    void *context;
    yk_progress_state at;
    double began, waited; /* the barrier; seconds that the workers waited for the copy */
} yk__saver;

/* Takes p->cursor. last: the run ends, so that a copy is not worth it. */
yk_status yk__saver_begin(yk__saver *s, yk_local *store, const yk_progress_state *p, bool last);
void yk__saver_copy(const yk__saver *s, int me, int workers);
yk_status yk__saver_start(yk__saver *s, yk__write *write, void *context);

/* Waits for the thread. Returns `so_far`, or else the error of the thread. */
yk_status yk__saver_finish(yk__saver *s, yk_status so_far);
void yk__saver_fini(yk__saver *s);

/* Whether a checkpoint could not be written. Then yk__saver_finish() returns the error. */
static inline bool yk__saver_failed(const yk__saver *s)
{
    return s->thread.started && atomic_load(&s->thread.over) && s->thread.error.st;
}

#endif
