/* The loop of a replica: every rank has all parameters and makes the same steps; gradients are summed over the ranks.
 *
 *     next  pull  grad -------------------------> sum over ranks  push (the sum)  clock | meeting, after the same step for all
 *                  \ buckets leave as they are ready
 *
 * With --local-steps H a rank pushes its own gradients, and every H steps parameters and optimizer state are averaged.
 */
#include "train/trainer.h"

#include "base/clock.h"
#include "base/log.h"
#include "format/crc.h"
#include "store/changes.h"
#include <stdlib.h>
#include <string.h>

enum { GO_ON, SAVE, STOP }; /* a rank's word for a round; the largest counts */
enum { FIRST_SECONDS = 120, PATIENCE = 10 };

typedef struct {
    yk__trainer *t;
    unsigned rounds;
    double longest, ended; /* seconds of a round; when the last one ended */
    yk_status hook;        /* what went wrong while a gradient was being made */
    uint64_t own;          /* examples of this rank in this round */
    /* --local-steps on a sparse model: the keys that changed since the last average, and what they were then */
    yk_merger touched;
    size_t ntouched, before_cap[1 + YK_MAX_SLOTS], since_cap;
    float *before[1 + YK_MAX_SLOTS];
    uint32_t *since; /* when each was up to date with its decay */
    yk_changes sums;
    char *out;
    size_t out_cap;
    const char **data; /* [ranks] what the others sent */
    size_t *bytes;
} replica;

/* How long to wait for the others: much longer than any round took; at first nobody knows. */
static double patience(const replica *r)
{
    const double silence = r->t->plan->heartbeat_timeout, usual = PATIENCE * r->longest;
    if (r->rounds < 2)
        return FIRST_SECONDS;
    return usual > silence ? usual : silence;
}

/* A meeting takes as long as its test and checkpoint take. */
static double patience_in_meeting(const replica *r)
{
    return patience(r) + FIRST_SECONDS;
}

/* ---- meetings ---- */

/* Everybody's share of the test, to the chief. */
static yk_status gather_tallies(replica *r)
{
    yk__trainer *t = r->t;
    char *mine;
    size_t bytes;
    yk_comm_pieces all;
    yk_status st = yk_tally_pack(&t->trainee[0].tally, &mine, &bytes);
    if (st)
        return st;
    st = yk_comm_collect(t->cluster.comm, mine, bytes, &all, patience_in_meeting(r), "a share of the test");
    for (int i = 1; !st && i < all.n; i++)
        st = yk_tally_unpack(&t->trainee[i].tally, all.data[i], all.bytes[i]);
    yk_comm_pieces_free(&all);
    free(mine);
    return st;
}

uint64_t yk__parameter_hash(yk__trainer *t)
{
    return yk_crc32c(yk_store_raw(t->store).live.w, t->model->nparams * sizeof(float));
}

/* Replicas that do not have the same parameters are not replicas. */
static yk_status compare(replica *r)
{
    yk__trainer *t = r->t;
    const int n = t->cluster.ranks;
    struct {
        uint64_t step, hash;
    } mine = {t->step, yk__parameter_hash(t)}, *all = yk_alloc((size_t)n, sizeof *all, "the comparison");
    if (!all)
        return YK_ESYSTEM;
    yk_status st = yk_comm_gather(t->cluster.comm, &mine, sizeof mine, all, patience_in_meeting(r),
                                  "the parameters' hash");
    for (int i = 1; !st && t->cluster.rank == 0 && i < n; i++)
        if (all[i].step != mine.step || all[i].hash != mine.hash)
            st = yk_fail(YK_ELOST,
                         "rank %d is at step %llu with parameters %08llx, rank 0 at step %llu with %08llx: "
                         "they are not "
                         "one training",
                         i, (unsigned long long)all[i].step, (unsigned long long)all[i].hash,
                         (unsigned long long)mine.step, (unsigned long long)mine.hash);
    yk_free(all);
    return st;
}

static yk_status meet(replica *r)
{
    yk__trainer *t = r->t;
    const double began = yk_now();
    yk_phases_now(t->trainee[0].phases);
    yk_phase_to(t->trainee[0].phases, YK_PHASE_EVAL);
    yk_status st = yk_store_settle(t->store, 0);
    yk_view table = yk_store_table(t->store);
    if (!st)
        st = compare(r);
    if (!st && t->do_eval && t->tested)
        st = yk__evaluate(t, 0, t->cluster.rank, t->cluster.ranks, &table);
    if (!st && t->do_eval && t->tested)
        st = gather_tallies(r);
    if (!st && t->do_eval && t->cluster.rank == 0)
        st = yk__conclude(t);
    if (t->do_eval)
        t->last_eval = t->step;
    const double evaluated = yk_now();
    t->result->eval_seconds += evaluated - began;
    yk_phase_to(t->trainee[0].phases, YK_PHASE_CHECKPOINT);
    if (!st && t->do_save)
        st = yk__save_replicas(t, patience_in_meeting(r));
    if (t->do_save)
        t->last_save = t->step;
    t->result->checkpoint_seconds += yk_now() - evaluated;
    yk_phase_to(t->trainee[0].phases, YK_PHASE_WORKERS);
    if (!st)
        st = yk_comm_barrier(t->cluster.comm, patience_in_meeting(r), "the end of a test or checkpoint");
    yk_phase_to(t->trainee[0].phases, YK_PHASE_OTHER);
    return st || t->end ? st : yk_store_resume(t->store, 0);
}

/* ---- steps ---- */

/* The model has gradients that will not change any more. */
static void ready(void *context, float *dense, size_t begin, size_t end)
{
    replica *r = context;
    if (!r->hook)
        r->hook = yk_exchange_ready(r->t->cluster.exchange, dense, begin, end);
}

static yk_status own_gradient(replica *r, const yk_batch *batch, yk_grad *out)
{
    yk__trainer *t = r->t;
    yk_view view;
    *out = (yk_grad){.bias_key = UINT32_MAX};
    yk_status st = yk_store_pull(t->store, 0, batch, &view);
    if (st)
        return st;
    yk_phase_to(t->trainee[0].phases, YK_PHASE_COMPUTE);
    if (batch->n)
        yk__gradient(t, 0, t->cluster.rank, &view, batch, out);
    else
        out->rows = *batch;
    if (!(out->loss <= yk__most_loss * (double)out->examples))
        return yk__diverged(t, "the training loss", out->loss / (double)out->examples,
                            yk_store_steps(t->store));
    return r->hook;
}

static yk_status apply(replica *r, const yk_grad *g)
{
    yk_step_result result;
    yk_phase_to(r->t->trainee[0].phases, YK_PHASE_APPLY);
    yk_status st = yk_store_push(r->t->store, 0, g);
    return st ? st : yk_store_clock(r->t->store, 0, &result);
}

static void round_over(replica *r, const yk_round *round)
{
    const double now = yk_now();
    r->longest *= 0.99; /* a round that took long once is forgotten after some hundred */
    if (r->rounds++ > 0 && now - r->ended > r->longest)
        r->longest = now - r->ended;
    r->ended = now;
    yk_phases_met(r->t->trainee[0].phases, round->last < 0);
    if (round->last >= 0) /* what it waited until all had come is no sending */
        yk_phase_move(r->t->trainee[0].phases, YK_PHASE_SENDING, YK_PHASE_WORKERS,
                      (uint64_t)(round->last_wait * 1e9));
}

/* One step of all ranks. */
static yk_status step_together(replica *r, uint32_t word, yk_round *out)
{
    yk__trainer *t = r->t;
    yk_batch batch;
    yk_grad grad;
    yk_status st = yk_feed_next(t->feed, t->cluster.rank, &batch);
    if (st || (st = own_gradient(r, &batch, &grad)))
        return st;
    r->own = grad.examples;
    yk_phase_to(t->trainee[0].phases, YK_PHASE_SENDING);
    st = yk_exchange_sum(t->cluster.exchange, &grad, word, 1, patience(r), out);
    if (!st && out->examples)
        st = apply(r, &grad);
    round_over(r, out);
    return st;
}

/* ---- --local-steps ---- */

static float *array_of(const replica *r, int a)
{
    const yk_store_state s = yk_store_raw(r->t->store);
    return a == 0 ? s.live.w : s.live.s[a - 1];
}

static yk_status begin_apart(replica *r)
{
    const size_t ranks = (size_t)r->t->cluster.ranks;
    if (!r->t->model->sparse)
        return YK_OK;
    bool ok = (r->data = yk_alloc(ranks, sizeof *r->data, "messages")) != NULL;
    ok = ok && (r->bytes = yk_alloc(ranks, sizeof *r->bytes, "messages")) != NULL;
    ok = ok && !yk_merger_init(&r->touched, 1024);
    return ok ? yk_changes_init(&r->sums, yk_changes_arrays(r->t->store)) : YK_ESYSTEM;
}

static void end_apart(replica *r)
{
    yk_free(r->data);
    yk_free(r->bytes);
    for (int a = 0; a < 1 + YK_MAX_SLOTS; a++)
        free(r->before[a]);
    free(r->since);
    free(r->out);
    yk_merger_fini(&r->touched);
    yk_changes_fini(&r->sums);
}

/* What keys of a sparse model are before they change for the first time since the last average. */
static yk_status remember(replica *r)
{
    const size_t n = r->touched.n;
    const yk_store_state s = yk_store_raw(r->t->store);
    for (int a = 0; a < yk_changes_arrays(r->t->store); a++) {
        float *grown = yk_grow(r->before[a], &r->before_cap[a], n + 1, sizeof *grown, "touched parameters");
        if (!grown)
            return YK_ESYSTEM;
        r->before[a] = grown;
        for (size_t i = r->ntouched; i < n; i++)
            grown[i] = array_of(r, a)[r->touched.key[i]];
    }
    uint32_t *since = yk_grow(r->since, &r->since_cap, n + 1, sizeof *since, "touched parameters");
    if (!since)
        return YK_ESYSTEM;
    r->since = since;
    for (size_t i = r->ntouched; i < n; i++)
        since[i] = s.touched ? s.touched[r->touched.key[i]] : 0;
    r->ntouched = n;
    return YK_OK;
}

/* A step with this batch will change these keys. */
static yk_status touch(replica *r, const yk_batch *b)
{
    const yk_model *m = r->t->model;
    size_t most = 1;
    if (!m->sparse)
        return YK_OK;
    for (size_t i = 0; i < b->n; i++)
        most += yk_rows_entries(b->rows, b->pick[i]);
    yk_status st = yk_merger_more(&r->touched, most);
    if (st)
        return st;
    for (size_t i = 0; i < b->n; i++)
        for (uint64_t e = b->rows->start[b->pick[i]]; e < b->rows->start[b->pick[i] + 1]; e++)
            yk_merger_place(&r->touched, b->rows->index[e]);
    if (m->bias_key != UINT32_MAX)
        yk_merger_place(&r->touched, m->bias_key);
    return remember(r);
}

/* Only what somebody touched: everybody sends its keys and their changes, and adds those of all in rank order, so that all have
 * the same bits.
 *
 *     | keys, u32 [n] | changes of weights, f32 [n] | of state, f32 [n] each |          */
static yk_status average_sparse(replica *r, uint64_t steps)
{
    yk_store *store = r->t->store;
    const int ranks = r->t->cluster.ranks, arrays = yk_changes_arrays(store);
    const size_t n = r->ntouched, each = 4 * (1 + (size_t)arrays);
    char *grown = yk_grow(r->out, &r->out_cap, n * each + 1, 1, "touched parameters");
    if (!grown)
        return YK_ESYSTEM;
    r->out = grown;
    const yk_view changes = {.w = r->before[0], .s = {r->before[1], r->before[2]}};
    if (n)
        yk_changes_take(store, r->touched.key, n, r->since, &changes);
    memcpy(r->out, r->touched.key, 4 * n);
    for (int a = 0; n && a < arrays; a++)
        memcpy(r->out + 4 * n * (1 + (size_t)a), r->before[a], 4 * n);
    yk_merger_clear(&r->touched);
    r->ntouched = 0;
    yk_status st = yk_exchange_all(r->t->cluster.exchange, r->out, n * each, patience(r), r->data, r->bytes);
    size_t most = 1;
    for (int k = 0; !st && k < ranks; k++)
        most += r->bytes[k] / each;
    if (st || (st = yk_changes_reserve(&r->sums, most)))
        return st;
    for (int k = 0; k < ranks; k++) {
        const uint32_t *key = (const uint32_t *)(const void *)r->data[k];
        const size_t count = r->bytes[k] / each;
        yk_changes_sum(&r->sums, key, count, (const float *)(const void *)(key + count));
    }
    const yk_view sums = yk_changes_sums(&r->sums);
    yk_store_restore(store, r->t->step);
    yk_changes_add(store, r->sums.keys.key, r->sums.keys.n, &sums, ranks, steps);
    return YK_OK;
}

static yk_status average(replica *r, uint64_t steps)
{
    yk_status st = YK_OK;
    if (r->t->model->sparse)
        return average_sparse(r, steps);
    for (int a = 0; !st && a < yk_changes_arrays(r->t->store); a++)
        st = yk_exchange_mean(r->t->cluster.exchange, array_of(r, a), r->t->model->nparams, patience(r));
    return st;
}

/* Up to `most` steps of this rank alone, then the average of all. */
static yk_status steps_apart(replica *r, uint64_t most, uint32_t word, yk_round *out)
{
    yk__trainer *t = r->t;
    uint64_t steps = 0, examples = 0;
    double loss = 0.0;
    yk_status st = YK_OK;
    for (uint64_t i = 0; i < most; i++) {
        yk_batch batch;
        yk_step_result one;
        yk_phase_to(t->trainee[0].phases, YK_PHASE_INPUT);
        if ((st = yk_feed_next(t->feed, t->cluster.rank, &batch)))
            return st;
        if (!batch.n)
            continue;
        yk_phase_to(t->trainee[0].phases, YK_PHASE_APPLY);
        if ((st = touch(r, &batch)) || (st = yk__step_apart(t, t->store, t->cluster.rank, &batch, &one)))
            return st;
        steps++;
        examples += one.examples;
        loss += one.loss;
    }
    r->own = examples;
    yk_phase_to(t->trainee[0].phases, YK_PHASE_SENDING);
    st = yk_exchange_heads(t->cluster.exchange, examples, loss, word, steps, patience(r), out);
    if (!st && out->examples)
        st = average(r, out->steps);
    yk_store_restore(t->store, t->step + out->steps); /* some ranks had fewer batches than others */
    round_over(r, out);
    return st;
}

static uint32_t word_of(const replica *r)
{
    if (*r->t->stop)
        return STOP;
    return r->t->cluster.rank == 0 && r->rounds % 256 == 0 && yk__save_is_overdue(r->t) ? SAVE : GO_ON;
}

static yk_status train(replica *r)
{
    yk__trainer *t = r->t;
    yk__trainee *me = &t->trainee[0];
    const uint64_t apart = t->plan->local_steps;
    uint64_t seen = t->earlier_examples;
    if (yk__is_done(t, t->step, t->epoch)) { /* resumed after its last step: only evaluate it */
        yk__due_in_step(t, 0, t->step, true, true, false);
        return meet(r);
    }
    yk_exchange_trace(t->cluster.exchange, me->phases ? me->phases->track : NULL);
    yk_model_on_ready(t->model, me->work, apart ? NULL : ready, r);
    for (;;) {
        yk_round round;
        yk_phases_step(me->phases);
        yk_status st = apart ? steps_apart(r, yk__least(apart, yk__until_due(t, t->step)), word_of(r), &round)
                             : step_together(r, word_of(r), &round);
        if (st)
            return st;
        const bool epoch_over = round.examples == 0;
        t->step += epoch_over ? 0 : round.steps;
        t->epoch += epoch_over;
        const bool stop = !epoch_over && round.word == STOP;
        const bool done = yk__is_done(t, t->step, t->epoch), end = stop || done;
        if (epoch_over)
            yk_feed_epoch(t->feed, t->cluster.rank, t->epoch);
        t->result->interrupted = stop && !done;
        seen += round.examples;
        if (epoch_over && !t->train.examples)
            t->train.examples = seen;
        me->period_loss += round.loss;
        me->period_examples += round.examples;
        me->examples += round.examples;
        yk_phase_to(me->phases, YK_PHASE_OTHER);
        if (!epoch_over) {
            yk_phases_done(me->phases, round.steps, r->own);
            yk__observe_traffic(t);
            yk__journal_progress(t, round.loss / (double)round.examples);
        }
        t->end = end;
        if (yk__due_in_step(t, 0, t->step, epoch_over, end, !epoch_over && round.word == SAVE) &&
            (st = meet(r)))
            return st;
        if (end)
            return YK_OK;
    }
}

yk_status yk__train_replica(yk__trainer *t)
{
    replica r = {.t = t, .ended = yk_now()};
    yk_status st = t->plan->local_steps ? begin_apart(&r) : YK_OK;
    if (!st)
        st = train(&r);
    end_apart(&r);
    return st;
}
