#include "data/feed_internal.h"

#include "base/mem.h"

yk_status yk_feed_create(yk_dataset *data, const yk_feed_plan *plan, yk_feed **out)
{
    yk_feed *f = NULL;
    yk_status st = data->rows ? yk__feed_memory(data, plan, &f) : yk__feed_stream(data, plan, &f);
    if (!st && !(f->grant = yk_arena_alloc(&f->arena, (size_t)plan->workers, sizeof *f->grant, "the feed")))
        st = YK_ESYSTEM;
    if (st) {
        yk_feed_free(f);
        return st;
    }
    if (plan->rounds) /* the caller counts them */
        f->plan.steps = UINT64_MAX;
    *out = f;
    return YK_OK;
}

void yk_feed_free(yk_feed *f)
{
    if (!f)
        return;
    f->ops->fini(f);
    yk_arena_free(&f->arena);
    yk_free(f);
}

yk_status yk_feed_next(yk_feed *f, int me, size_t max, yk_batch *out)
{
    if (f->plan.revoked && f->plan.revoked(f->plan.lease_context, me))
        f->ops->drop_lease(f, me);
    if (f->plan.steps == UINT64_MAX)
        return f->ops->next(f, me, max, out);
    *out = (yk_batch){0};
    /* Workers get steps in small lots, so that all of them together make exactly plan.steps, whatever their speed. */
    uint64_t *left = &f->grant[me].left;
    if (*left == 0) {
        uint64_t so_far = atomic_load_explicit(&f->steps_granted, memory_order_relaxed), lot;
        do {
            uint64_t remain = f->plan.steps - so_far;
            lot = remain / (8 * (uint64_t)f->plan.workers);
            lot = lot > 256 ? 256 : lot < 1 ? 1 : lot;
            lot = lot > remain ? remain : lot;
        } while (!atomic_compare_exchange_weak(&f->steps_granted, &so_far, so_far + lot));
        *left = lot;
    }
    max = max < *left ? max : (size_t)*left; /* 0: plan.steps are used up */
    yk_status st = max ? f->ops->next(f, me, max, out) : YK_OK;
    *left -= (out->n + f->plan.batch - 1) / f->plan.batch;
    return st;
}

yk_status yk_feed_chunk_rows_set(yk_feed *f, int me, uint64_t chunk_rows)
{
    return f->ops->chunk_rows_set ? f->ops->chunk_rows_set(f, me, chunk_rows) : YK_OK;
}

yk_status yk_feed_chunk_rows_restore(yk_feed *f, const uint64_t *cursor, size_t n, size_t *out)
{
    yk_status st = YK_OK;
    *out = n ? (size_t)(cursor[0] >> YK_CURSOR_CHUNK_SHIFT) : 0;
    for (int i = 0; n && !st && i < f->plan.workers; i++)
        st = yk_feed_chunk_rows_set(f, i, *out);
    return st;
}

size_t yk_feed_chunk_rows(const yk_feed *f)
{
    return f->chunk_rows;
}

void yk_feed_epoch(yk_feed *f, int me, uint64_t epoch)
{
    f->ops->epoch(f, me, epoch);
}

int yk_feed_cursor_of(const yk_feed *f, int me, uint64_t out[YK_CURSOR_SIZE])
{
    return f->ops->cursor_of ? f->ops->cursor_of(f, me, out) : 0;
}

yk_status yk_feed_cursor(yk_feed *f, uint64_t **out, size_t *n_out)
{
    return f->ops->cursor(f, out, n_out);
}

yk_status yk_feed_cursor_restore(yk_feed *f, const uint64_t *cursor, size_t n, uint64_t steps_done)
{
    atomic_store(&f->steps_granted, steps_done < f->plan.steps ? steps_done : f->plan.steps);
    return f->ops->cursor_restore(f, cursor, n);
}
