/* Saves checkpoints. They are written while training continues: at a barrier, worker 0 copies the parameters and the optimizer's
 * state, and a thread writes the copy. At the end, yk__saver_finish() waits until the last checkpoint is complete.
 *
 * There is one copy. It takes as much memory as what is saved: 4 bytes for each parameter, and as much for each array of
 * the optimizer. It is allocated for the first checkpoint before the end. If the memory is not available, and at the end of
 * a run, the store itself is written while the workers wait.
 *
 * The best model so far may be replaced soon. It is copied, and written at a barrier at least 10 s after the last copy began to be
 * written, before the next later checkpoint, which refers to it, or at the end, even if the run fails. A chief that is a server writes
 * each best model in the background, without this file's copy (chief.c).
 *
 * A failed write ends the run with its error: at the next step of worker 0 (yk__saver_failed), or in yk__saver_finish().
 *
 * What a checkpoint costs is measured: the seconds in which the workers wait, and the CPU time of the thread. It determines
 * the interval between checkpoints (schedule.c).
 */
#include "train/loop.h"

#include "base/cgroup.h"
#include "base/number.h"
#include "train/run_dir.h"
#include <math.h>
#include <string.h>

static const double spare_bytes = 64e6; /* stay available after a copy was allocated */
static const double best_seconds = 10.0;

/* ---- writing ---- */

/* A checkpoint with other weights could not be resumed. */
static yk_status check_weights(const yk__trainer *t, const yk_checkpoint_arrays *a, uint64_t step)
{
    for (int g = 0; g < t->model->ngroups; g++) {
        const float *w = a->array[g].data;
        for (size_t i = 0; i < a->array[g].size; i++)
            if (!isfinite(w[i]))
                return yk__diverged(t, "a weight", (double)w[i], step);
    }
    return YK_OK;
}

/* Leaves the arrays indexed by the keys of the data (checkpoint.h). */
static yk_status write_arrays(yk__trainer *t, const yk_checkpoint_arrays *a, const yk_progress_state *p)
{
    yk_result *r = t->result;
    yk_progress_state all = *p;
    yk_status st = check_weights(t, a, p->step);
    if (st || (st = yk_run_dir_verify(r->run_dir, t->lock)))
        return st;
    all.earlier = t->start.earlier;
    yk__report_stage(t, YK_STAGE_SAVING);
    st = yk_checkpoint_write(r->run_dir, t->config->model, t->schema_text, t->model, a, t->remap, &all,
                             &r->checkpoint);
    yk__report_stage(t, YK_STAGE_SAVED);
    if (!st)
        yk_observer_saved(t->observer);
    return st;
}

yk_status yk__save(yk__trainer *t, yk_local *parameters, const yk_progress_state *p)
{
    const bool complete = yk__is_complete(&t->schedule, p->step, p->epoch);
    yk_checkpoint_arrays a;
    if (!t->result->run_dir || (complete && yk_env_number("YK_DROP_MODEL", 0))) /* a sweep would remove it */
        return YK_OK;
    yk_checkpoint_arrays_of(parameters, &a, true);
    yk_status st = write_arrays(t, &a, p);
    return st ? st : yk_checkpoint_remap(&a, t->remap, false);
}

/* ---- the copy ---- */

/* Allocates the copy once. False: there is no memory for it. */
static bool allocate(yk__saver *s, const yk_checkpoint_arrays *from)
{
    double bytes = 0.0;
    if (s->memory.n || s->refused)
        return !s->refused;
    s->arrays = *from;
    for (size_t i = 0; i < from->n; i++)
        bytes += (double)from->array[i].size * sizeof(float);
    s->refused = yk_clock_is_real() && bytes + spare_bytes >= yk_memory_available("/proc", "/sys");
    for (size_t i = 0; i < from->n && !s->refused; i++) {
        s->arrays.array[i].data = yk_arena_alloc(&s->memory, from->array[i].size, sizeof(float),
                                                 "a copy of the parameters for checkpoints");
        s->refused = s->memory.status;
    }
    if (s->refused) {
        yk_arena_free(&s->memory);
        yk_warn(
            "not enough memory for a copy of the parameters (%.0f MB): training pauses while a checkpoint "
            "is written",
            bytes * 1e-6);
    }
    return !s->refused;
}

static yk_status write_copy(void *trainer)
{
    yk__trainer *t = trainer;
    const yk_status st = write_arrays(t, &t->saver.arrays, &t->saver.at);
    yk__save_ended(&t->schedule, t->saver.waited + yk_thread_seconds());
    return st;
}

static yk_status start(yk__trainer *t)
{
    t->saver.pending = false;
    t->saver.began = yk_now();
    yk__save_begins(&t->schedule);
    return yk__background_start(&t->saver.thread, write_copy, t, "the thread that writes checkpoints");
}

static yk_status join(yk__saver *s, yk_status so_far)
{
    return yk__background_join(&s->thread, so_far);
}

static void drop(yk__saver *s)
{
    yk_free(s->at.cursor);
    s->at.cursor = NULL;
    s->pending = false;
}

/* Whether checkpoint p refers to the copy, which is not written yet. */
static bool is_needed(const yk__saver *s, const yk_progress_state *p)
{
    return s->pending && s->at.step == p->best.step && s->at.step != p->step;
}

static bool is_recent(const yk__trainer *t)
{
    return yk_now() - fmax(t->saver.began, t->training_started) < best_seconds;
}

yk_status yk__save_async(yk__trainer *t, const yk_progress_state *p, bool best)
{
    yk__saver *s = &t->saver;
    const double began = yk_now();
    yk_checkpoint_arrays from;
    yk_status st = join(s, YK_OK);
    if (!st && is_needed(s, p))
        st = join(s, start(t));
    drop(s);
    s->at = *p;
    if (st)
        return st;
    yk_checkpoint_arrays_of(t->local, &from, true);
    if (t->due.end || !allocate(s, &from)) {
        st = yk__save(t, t->local, p);
        yk__save_ended(&t->schedule, yk_now() - began);
        return st;
    }
    for (size_t i = 0; i < from.n; i++)
        memcpy(s->arrays.array[i].data, from.array[i].data, from.array[i].size * sizeof(float));
    s->waited = yk_now() - began;
    s->pending = best && is_recent(t);
    return s->pending ? YK_OK : start(t);
}

yk_status yk__save_pending(yk__trainer *t)
{
    return t->saver.pending && !is_recent(t) ? start(t) : YK_OK;
}

yk_status yk__saver_finish(yk__trainer *t, yk_status so_far)
{
    yk__saved_error error;
    yk__error_save(&error, join(&t->saver, so_far));
    const yk_status st = t->saver.pending ? join(&t->saver, start(t)) : YK_OK;
    if (st && error.st)
        yk_warn("cannot write the best model: %s", yk_error());
    return error.st ? yk__error_raise(&error) : st;
}

void yk__saver_fini(yk__saver *s)
{
    yk_arena_free(&s->memory);
    yk_free(s->at.cursor);
}
