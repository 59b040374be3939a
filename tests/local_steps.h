/* The steps of a worker on a store of one process. */
#ifndef YK_TESTS_LOCAL_STEPS_H
#define YK_TESTS_LOCAL_STEPS_H

#include "store/local.h"

static inline yk_status local_pull(yk_local *l, int me, const yk_batch *batch, yk_view *out)
{
    yk_store *s = yk_local_store(l);
    yk_batch same;
    const yk_status st = s->ops->announce(s, me, batch, (const uint64_t[YK_CURSOR_SIZE]){0});
    return st ? st : s->ops->pull(s, me, &same, out);
}

static inline yk_status local_push(yk_local *l, int me, const yk_grad *g)
{
    yk_store *s = yk_local_store(l);
    return s->ops->push(s, me, g);
}

static inline yk_status local_clock(yk_local *l, int me, yk_step_result *out)
{
    yk_store *s = yk_local_store(l);
    return s->ops->clock(s, me, YK_ACTION_CONTINUE, out);
}

static inline void local_finish(yk_local *l, int me)
{
    yk_store *s = yk_local_store(l);
    s->ops->finish(s, me);
}

#endif
