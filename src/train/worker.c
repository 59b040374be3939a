/* The loop of a worker whose parameters are on servers.
 *
 *     in step     ask 0 | pull 0  grad 0  next 1  push 0 + ask 1 | pull 1 (all have pushed 0)  grad 1 ...
 *     otherwise   ask 0, ask 1 | pull 0  grad 0  next 2  push 0 + ask 2 | pull 1 (is here already)  grad 1 ...
 *
 * The servers' answers say when to stop, and in step when an epoch is over: a round in which nobody had examples.
 * Sparse batches are fetched ahead, because their keys are asked for ahead; of a dense model all parameters are.
 * With --local-steps the loop is that of worker_apart.c.
 */
#include "train/trainer.h"

#include "base/clock.h"
#include "base/log.h"

typedef struct {
    yk__trainer *t;
    yk__trainee *me;
    int number; /* among the workers */
    yk_remote_news news;
    uint64_t place[4][5], life[4], fetched,
        pushed;     /* of a stream: where reading stood after each batch that is under way */
    yk_status hook; /* what went wrong while a gradient was being made */
} worker;

/* feed.h: the next run of examples. */
yk_status yk__deal(void *trainer, uint64_t *epoch, uint64_t *begin, uint64_t *end)
{
    yk__trainer *t = trainer;
    yk_lease run;
    yk_status st = yk_remote_deal(t->cluster.remote, t->waits_for_examples, &run);
    t->dealt_life = yk_remote_life(t->cluster.remote);
    *epoch = run.epoch;
    *begin = run.begin;
    *end = run.end;
    return st;
}

static void poll(void *context, float *dense, size_t begin, size_t end)
{
    worker *w = context;
    (void)dense, (void)begin, (void)end;
    if (!w->hook)
        w->hook = yk_remote_poll(w->t->cluster.remote);
}

yk_status yk__fetch(yk__trainer *t, int number, bool wait, yk_batch *out)
{
    yk_phase_to(t->trainee[0].phases, YK_PHASE_INPUT);
    t->waits_for_examples = wait;
    /* have they given us up, and what was left of our run to others? */
    if (yk_remote_life(t->cluster.remote) > t->dealt_life)
        yk_feed_forget(t->feed, number);
    return yk_feed_next(t->feed, number, out);
}

static yk_status fetch(worker *w, bool wait, yk_batch *out)
{
    yk_status st = yk__fetch(w->t, w->number, wait, out);
    if (!st && out->n) {
        yk_feed_place_of(w->t->feed, w->number, w->place[w->fetched % 4]);
        w->life[w->fetched++ % 4] = w->t->dealt_life;
    }
    return st;
}

static yk_status gradient(worker *w, const yk_view *view, const yk_batch *batch, yk_grad *out)
{
    yk__trainer *t = w->t;
    yk_phase_to(w->me->phases, YK_PHASE_COMPUTE);
    *out = (yk_grad){.bias_key = UINT32_MAX};
    yk__gradient(t, 0, w->number, view, batch, out);
    if (!(out->loss <= yk__most_loss * (double)out->examples))
        return yk__diverged(t, "the training loss", out->loss / (double)out->examples, w->news.round);
    w->me->examples += out->examples;
    yk_phases_done(w->me->phases, 1, out->examples);
    yk__observe_traffic(t);
    return w->hook;
}

static yk_status pull(worker *w, yk_view *view, yk_batch *batch)
{
    yk_phase_to(w->me->phases, YK_PHASE_PARAMETERS);
    return yk_remote_pull(w->t->cluster.remote, view, batch, &w->news);
}

static yk_status push(worker *w, const yk_grad *g, const yk_batch *next)
{
    yk_phase_to(w->me->phases, YK_PHASE_SENDING);
    if (g->examples)
        yk_remote_place(w->t->cluster.remote, w->life[w->pushed % 4], w->place[w->pushed % 4]);
    w->pushed += g->examples > 0;
    return yk_remote_push(w->t->cluster.remote, g, next);
}

/* ---- in step ---- */

/* All batches of an epoch, and then rounds without any until nobody has one. */
static yk_status epoch_in_step(worker *w)
{
    yk_remote *r = w->t->cluster.remote;
    yk_batch next, batch;
    bool pushed = false;
    yk_status st = fetch(w, false, &next);
    if (!st && next.n)
        st = yk_remote_ask(r, &next);
    while (!st && next.n) {
        yk_view view;
        yk_grad grad;
        yk_phases_step(w->me->phases);
        if ((st = pull(w, &view, &batch)) || w->news.stop)
            return st;
        if (!w->t->model->sparse)
            batch = next;
        if ((st = gradient(w, &view, &batch, &grad)) || (st = fetch(w, false, &next)))
            return st;
        st = push(w, &grad, next.n ? &next : NULL);
        pushed = true;
    }
    yk_phase_to(w->me->phases, YK_PHASE_WORKERS);
    if (!st && pushed)
        st = yk_remote_round(r, &w->news);
    for (bool over = false; !st && !over && !w->news.stop; over = w->news.examples == 0) {
        const yk_grad none = {.bias_key = UINT32_MAX};
        if (!(st = push(w, &none, NULL)))
            st = yk_remote_round(r, &w->news);
    }
    return st;
}

static yk_status train_in_step(worker *w)
{
    yk_status st = YK_OK;
    for (uint64_t epoch = w->t->epoch; !st && !w->news.stop;) {
        st = epoch_in_step(w);
        yk_feed_epoch(w->t->feed, w->number, ++epoch);
    }
    return st;
}

/* ---- at its own pace ---- */

/* Asks for the parameters of one more batch, if there is one. Dense: of any batch; it is fetched when it is its turn. */
static yk_status ask_freely(worker *w, bool wait, int *under_way)
{
    yk_batch next = {.n = 1};
    yk_status st = w->t->model->sparse ? fetch(w, wait, &next) : YK_OK;
    if (st || !next.n)
        return st;
    ++*under_way;
    return yk_remote_ask(w->t->cluster.remote, &next);
}

static yk_status train_freely(worker *w)
{
    const bool sparse = w->t->model->sparse;
    const int depth =
        w->t->plan->quorum ? 1 : 2; /* parameters requested before the last round would arrive too late */
    int under_way = 0;
    yk_status st = YK_OK;
    while (!st && !w->news.stop && !yk_remote_leaves(w->t->cluster.remote)) {
        yk_view view;
        yk_batch batch, next = {.n = 1};
        yk_grad grad;
        for (bool first = true; !st && under_way < depth; first = false) {
            const int before = under_way;
            st = ask_freely(w, first && under_way == 0, &under_way);
            if (under_way == before)
                break;
        }
        if (st || under_way == 0) /* all examples are used */
            break;
        yk_phases_step(w->me->phases);
        under_way--;
        if ((st = pull(w, &view, &batch)) || w->news.stop)
            break;
        if (!sparse && !(st = fetch(w, true, &batch)) && !batch.n)
            break;
        if (st || (st = gradient(w, &view, &batch, &grad)) || (sparse && (st = fetch(w, false, &next))))
            break;
        under_way += next.n > 0;
        st = push(w, &grad, next.n ? &next : NULL);
    }
    for (; !st && under_way > 0; under_way--) { /* answers that nobody needs any more */
        yk_view view;
        yk_batch batch;
        st = pull(w, &view, &batch);
    }
    return st;
}

yk_status yk__train_remote(yk__trainer *t)
{
    worker w = {
        .t = t, .me = &t->trainee[0], .number = t->cluster.joined ? 0 : t->cluster.rank - t->cluster.servers};
    yk_status st = YK_OK;
    if (t->cluster.joined)
        yk_note("joined the job in %s as one more worker", t->config->join);
    yk_model_on_ready(t->model, w.me->work, poll, &w);
    if (yk__is_done(t, t->step, t->epoch)) /* resumed after its last step; the chief knows as well */
        st = YK_OK;
    else if (t->plan->local_steps)
        st = yk__train_apart(t, w.number);
    else
        st = t->plan->lockstep ? train_in_step(&w) : train_freely(&w);
    if (!st)
        st = yk_remote_bye(t->cluster.remote);
    if (!st && t->cluster.joined)
        yk_note("trained on %llu examples for it", (unsigned long long)w.me->examples);
    return st;
}
