#include "train/saver.h"

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/log.h"
#include <string.h>

static const double spare_bytes = 64e6; /* stay available after a copy was allocated */

/* ---- the copy ---- */

/* Floats of an array in the copy: each begins at a multiple of YK_ALIGN. */
static size_t floats_of(const yk_checkpoint_array *a)
{
    return YK_ROUND_UP(a->size, YK_ALIGN / sizeof(float));
}

/* Allocates the copy once. False: there is no memory for it. */
static bool allocate(yk__saver *s)
{
    size_t floats = 0;
    if (s->memory || s->refused)
        return s->memory != NULL;
    for (size_t i = 0; i < s->from.n; i++)
        floats += floats_of(&s->from.array[i]);
    const double bytes = (double)floats * sizeof(float);
    if (!yk_clock_is_real() || bytes + spare_bytes < yk_memory_available("/proc", "/sys"))
        s->memory = yk_alloc(floats, sizeof *s->memory, "a copy of the parameters for checkpoints");
    s->refused = !s->memory;
    if (s->refused)
        yk_warn(
            "not enough memory for a copy of the parameters (%.0f MB): training pauses while a checkpoint "
            "is written",
            bytes * 1e-6);
    return s->memory != NULL;
}

yk_status yk__saver_begin(yk__saver *s, yk_local *store, const yk_progress_state *p, bool last)
{
    s->began = yk_now();
    yk_status st = yk__saver_finish(s, YK_OK);
    s->at = *p;
    if (st)
        return st;
    yk_checkpoint_arrays_of(store, &s->from, true);
    if (last || !allocate(s))
        return YK_OK;
    float *at = s->memory;
    s->arrays = s->from;
    for (size_t i = 0; i < s->arrays.n; i++) {
        s->arrays.array[i].data = at;
        at += floats_of(&s->arrays.array[i]);
    }
    s->copies = true;
    yk__save_begins(s->schedule);
    return YK_OK;
}

void yk__saver_copy(const yk__saver *s, int me, int workers)
{
    const size_t k = (size_t)me, n = (size_t)workers;
    for (size_t i = 0; i < s->arrays.n; i++) {
        const yk_checkpoint_array *from = &s->from.array[i], *to = &s->arrays.array[i];
        const size_t begin = from->size / n * k, end = k + 1 == n ? from->size : from->size / n * (k + 1);
        memcpy(to->data + begin, from->data + begin, (end - begin) * sizeof(float));
    }
}

/* ---- the thread ---- */

static yk_status write_copy(void *saver)
{
    const yk__saver *s = saver;
    yk_status st = s->write(s->context, &s->arrays, &s->at);
    yk__save_ended(s->schedule, s->waited + yk_thread_seconds());
    return st;
}

yk_status yk__saver_start(yk__saver *s, yk__write *write, void *context)
{
    s->copies = false;
    s->write = write;
    s->context = context;
    s->waited = yk_now() - s->began;
    return yk__background_start(&s->thread, write_copy, s, "the thread that writes checkpoints");
}

yk_status yk__saver_finish(yk__saver *s, yk_status so_far)
{
    const yk_status st = yk__background_join(&s->thread, so_far);
    yk_free(s->at.cursor);
    s->at.cursor = NULL;
    return st;
}

void yk__saver_fini(yk__saver *s)
{
    yk_free(s->memory);
    yk_free(s->at.cursor);
}
