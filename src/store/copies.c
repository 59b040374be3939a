#include "store/copies.h"

#include "base/mem.h"
#include "store/copy.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { YK__COPY_AGE = 64 }; /* copies.h */

/* A worker, with its own channel. */
typedef struct {
    _Alignas(YK_ALIGN) yk_local *copy;
    size_t capacity; /* of the copy, in keys */
    yk_remote_answer answer;
    /* the chunk of the batches in the next request; a batch of the chunk after that */
    const yk_chunk *chunk;
    yk_merger scratch;
    bool held;
    yk_batch held_batch;
    uint32_t *held_pick;
    size_t held_cap;
    uint64_t held_cursor[YK_CURSOR_SIZE];
    size_t target;        /* batches of the next request */
    bool open, exhausted; /* it trains on a copy; there are no more batches, or none for now */
    size_t at;            /* index of the next batch of the copy */
    yk_grad grad;
    uint64_t steps, examples; /* with this copy */
    double loss;
} worker;

typedef struct {
    yk_store base;
    yk_copies_config config;
    worker *worker;
} copies;

static copies *copies_of(yk_store *s)
{
    return (copies *)(void *)s;
}

/* ---- announce, pull ---- */

/* M (copies.h), as the last answer says. Before the first one, only one step will be taken with a copy. */
static int copies_in_flight(const copies *s, const worker *w)
{
    const int workers = w->answer.status.workers;
    return (workers > 1 ? workers : 1) * s->config.depth;
}

/* The batches of the next copy, which depend on the steps so far. */
static size_t batches_of_next(const copies *s, const worker *w)
{
    const uint64_t all = (uint64_t)copies_in_flight(s, w),
                   young = w->answer.status.steps / (YK__COPY_AGE * all);
    return (size_t)(s->config.bounded            ? s->config.lifetime
                    : young < 1                  ? 1
                    : young < s->config.lifetime ? young
                                                 : s->config.lifetime);
}

static size_t wants(const yk_store *store, int me)
{
    const copies *s = (const copies *)(const void *)store;
    const worker *w = &s->worker[me];
    const yk_remote *r = s->config.remote;
    const size_t added = yk_remote_added(r, me), max = added ? w->target : batches_of_next(s, w);
    if (w->exhausted || (w->held && added > 0) ||
        (w->open && w->at < w->answer.batches)) /* not before the last batch of the copy */
        return 0;
    return yk_remote_outstanding(r, me) < s->config.depth && added < max ? max - added : 0;
}

/* Adds a batch to the next request. A batch of another chunk is held back until that request was sent. */
static yk_status add_to_chunk(copies *s, int me, const yk_batch *batch, const uint64_t cursor[YK_CURSOR_SIZE])
{
    worker *w = &s->worker[me];
    const yk_chunk *chunk;
    yk_status st = yk_chunks_get(s->config.chunks, batch->pick[0], &w->scratch, &chunk);
    if (st)
        return st;
    if (yk_remote_added(s->config.remote, me) > 0 && chunk != w->chunk) {
        if (YK_RESERVE(w->held_pick, w->held_cap, batch->n, "a batch"))
            return YK_ESYSTEM;
        memcpy(w->held_pick, batch->pick, batch->n * sizeof *w->held_pick);
        w->held_batch = *batch;
        w->held_batch.pick = w->held_pick;
        memcpy(w->held_cursor, cursor, sizeof w->held_cursor);
        w->held = true;
        return YK_OK;
    }
    w->chunk = chunk;
    return yk_remote_add(s->config.remote, me, me, batch, chunk, w->target == s->config.lifetime, cursor,
                         &(size_t){0});
}

/* Adds the batch that was held back, if the next request is empty. */
static yk_status add_held(copies *s, int me)
{
    worker *w = &s->worker[me];
    if (!w->held || yk_remote_added(s->config.remote, me) > 0)
        return YK_OK;
    w->held = false;
    w->target = batches_of_next(s, w);
    return add_to_chunk(s, me, &w->held_batch, w->held_cursor);
}

static yk_status announce(yk_store *store, int me, const yk_batch *batch,
                          const uint64_t cursor[YK_CURSOR_SIZE])
{
    copies *s = copies_of(store);
    worker *w = &s->worker[me];
    yk_remote *r = s->config.remote;
    yk_status held = add_held(s, me);
    if (held)
        return held;
    if (yk_remote_added(r, me) == 0)
        w->target = batches_of_next(s, w);
    w->exhausted = batch->n == 0;
    yk_status st = w->exhausted       ? YK_OK
                   : s->config.chunks ? add_to_chunk(s, me, batch, cursor)
                                      : yk_remote_add(r, me, me, batch, NULL, false, cursor, &(size_t){0});
    const size_t added = yk_remote_added(r, me);
    const bool complete = added == w->target || (added > 0 && (w->exhausted || w->held));
    return !st && complete && !w->open ? yk_remote_pull(r, me) : st; /* otherwise it is sent with the delta */
}

/* Begins the next copy, if there are batches. */
static yk_status begin(copies *s, int me)
{
    worker *w = &s->worker[me];
    yk_remote *r = s->config.remote;
    yk_status st = yk_remote_outstanding(r, me) == 0 ? add_held(s, me) : YK_OK;
    if (!st && yk_remote_outstanding(r, me) == 0 && yk_remote_added(r, me) > 0)
        st = yk_remote_pull(r, me);
    if (st || yk_remote_outstanding(r, me) == 0 || (st = yk_remote_await(r, me, &w->answer)) ||
        w->answer.status.stop)
        return st;
    yk_phase_to(yk_phases_of(s->config.phases, me), YK_PHASE_APPLY);
    if ((st = yk_copy_make(&s->config.copy, w->answer.keys, &w->copy, &w->capacity)))
        return st;
    yk_copy_begin(w->copy, w->answer.keys, w->answer.value, w->answer.status.steps);
    w->open = true;
    w->at = 0;
    w->steps = w->examples = 0;
    w->loss = 0.0;
    return YK_OK;
}

static yk_status pull(yk_store *store, int me, yk_batch *batch_out, yk_view *view_out)
{
    copies *s = copies_of(store);
    worker *w = &s->worker[me];
    yk_status st = w->open ? YK_OK : begin(s, me);
    *batch_out = (yk_batch){0};
    if (st || !w->open)
        return st;
    *batch_out = yk_remote_batch(&w->answer, w->at++);
    return yk_local_pull(w->copy, 0, batch_out, view_out);
}

/* ---- push, clock ---- */

static yk_status push(yk_store *store, int me, const yk_grad *g)
{
    worker *w = &copies_of(store)->worker[me];
    w->grad = *g;
    w->examples += g->examples;
    w->loss += g->loss;
    w->steps += g->examples > 0;
    return w->open ? yk_local_push(w->copy, 0, g) : YK_OK;
}

/* Scales the delta to the share that is sent. The copy has its old state again. */
static void scale(const copies *s, const worker *w)
{
    const yk_chunk *keys = w->answer.chunk;
    /* the sums of a chunk are over all of its examples, which are usually those of the copy */
    const double norm = keys->squares_sum / fmax(1.0, (double)w->examples);
    const float one = (float)(keys->squares_sum / fmax(1.0, (double)keys->entries));
    const yk_view old = yk_local_raw(w->copy, 0).live;
    const yk_optim_share share = {.squares = keys->squares,
                                  .times = 1.0f,
                                  .less = one,
                                  .one = one,
                                  .moves =
                                      (float)(YK_CURVATURE * pow(norm, 0.75) / (double)s->config.copy.batch),
                                  .steps = (float)w->steps,
                                  .workers = copies_in_flight(s, w),
                                  .state = {old.s[0], old.s[1]}};
    const yk_optim_step o = yk_optim_at(&s->config.copy.group[0].optim, w->answer.status.steps);
    yk_local_rule(w->copy, 0)->scale(&share, 0, w->answer.keys, w->answer.value[0], w->answer.keys, &o);
}

static yk_status end_copy(copies *s, int me)
{
    worker *w = &s->worker[me];
    yk_remote_pushed p = {.steps = w->steps,
                          .examples = w->examples,
                          .loss = w->loss,
                          .round = w->answer.status.round,
                          .share = &w->examples};
    yk_copy_end(w->copy, w->answer.keys, w->answer.value);
    scale(s, w);
    memcpy(p.value, w->answer.value, sizeof p.value);
    w->open = false;
    yk_phase_to(yk_phases_of(s->config.phases, me), YK_PHASE_SENDING);
    return yk_remote_push(s->config.remote, me, &p);
}

static yk_status clock_step(yk_store *store, int me, yk_action action, yk_step_result *out)
{
    copies *s = copies_of(store);
    worker *w = &s->worker[me];
    yk_step_result one;
    yk_status st = w->open ? yk_local_clock(w->copy, 0, &one) : YK_OK;
    (void)action; /* the chief decides */
    *out = (yk_step_result){.examples = w->grad.examples,
                            .loss = w->grad.loss,
                            .steps = w->grad.examples > 0,
                            .own = w->grad.examples};
    if (!st && !w->open) {
        w->exhausted = false;
        yk_remote_out_of_examples(s->config.remote, me, me + 1, out);
    } else if (!st && w->at == w->answer.batches) {
        st = end_copy(s, me);
    }
    yk_remote_end_step(s->config.remote, me, me + 1, w->answer.status.stop, out);
    return st;
}

static yk_status finish(yk_store *store, int me)
{
    return yk_remote_leave(copies_of(store)->config.remote, me);
}

static uint64_t steps_so_far(const yk_store *store, int me)
{
    const worker *w = &((const copies *)(const void *)store)->worker[me];
    return w->answer.status.steps + w->steps;
}

static yk_status ready(yk_store *store, int me, float *dense, size_t begin_at, size_t end)
{
    (void)me, (void)dense, (void)begin_at, (void)end;
    return yk_remote_progress(copies_of(store)->config.remote);
}

static void free_worker(worker *w)
{
    yk_local_free(w->copy);
    yk_merger_fini(&w->scratch);
    free(w->held_pick);
}

static void free_all(yk_store *store)
{
    copies *s = copies_of(store);
    for (int i = 0; s->worker && i < s->config.workers; i++)
        free_worker(&s->worker[i]);
    yk_free(s->worker);
    yk_free(s);
}

static const yk_store_ops copies_ops = {.wants = wants,
                                        .announce = announce,
                                        .pull = pull,
                                        .push = push,
                                        .clock = clock_step,
                                        .finish = finish,
                                        .steps = steps_so_far,
                                        .ready = ready,
                                        .free = free_all};

yk_status yk_copies_create(const yk_copies_config *config, yk_store **out)
{
    copies *s = yk_alloc(1, sizeof *s, "the store");
    if (!s)
        return YK_ESYSTEM;
    s->base.ops = &copies_ops;
    s->config = *config;
    yk_optim_config *o = &s->config.copy.group[0].optim;
    if (!config->bounded)
        *o = yk_optim_without_velocity(o);
    if (yk_optim_rule_of(o->kind)->plain)
        o->l1 = o->l2 = 0.0; /* the servers apply it */
    s->worker = yk_alloc((size_t)config->workers, sizeof *s->worker, "the workers");
    yk_status st = s->worker ? YK_OK : YK_ESYSTEM;
    for (int i = 0; !st && config->chunks && i < config->workers; i++)
        st = yk_merger_init(&s->worker[i].scratch, 1024);
    if (st) {
        free_all(&s->base);
        return st;
    }
    *out = &s->base;
    return YK_OK;
}
