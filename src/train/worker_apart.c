/* The loop of a worker whose parameters are on servers, with --local-steps H: rounds of up to H steps on a copy of its own.
 *
 *     ask 0 | pull 0  step step step step  gather 1  push changes 0 + ask 1 | pull 1  step step step step ...
 *
 * The copy is a store like that of one process: of a dense model all parameters, of a sparse one those of the round's batches,
 * which are gathered before they are asked for. Of a dense model only the first batch is, so that one knows that there
 * is one; the others are fetched when it is their turn.
 *
 * In step everybody makes the same rounds: H steps, or fewer where a test, a checkpoint or the end is due; whoever has no batches
 * left sends nothing, until nobody has any. All know the step that a round begins with, so that nobody asks.
 * Otherwise the servers' count goes into learning rates and decay; a worker counts its own steps on from it, and that others
 * make steps meanwhile it sees in the next round.
 */
#include "train/trainer.h"

#include "store/changes.h"

/* Where batches come from: the life that they were dealt in (store/messages.h); of a stream, where reading stands after them. */
typedef struct {
    uint64_t life, place[5];
} origin;

typedef struct {
    yk__trainer *t;
    yk__trainee *me;
    yk_remote *remote;
    int number; /* among the workers */
    yk_store *copy;
    size_t room; /* parameters that fit into it */
    yk_remote_news news;
    uint64_t gathered; /* batches of the next round */
    origin now, next;  /* of this round's batches, and the next one's */
    yk_status hook;    /* what went wrong while a gradient was being made */
} apart;

static void poll(void *context, float *dense, size_t begin, size_t end)
{
    apart *a = context;
    (void)dense, (void)begin, (void)end;
    if (!a->hook && !(a->hook = yk_remote_poll(a->remote)))
        a->hook = yk_remote_alive(a->remote);
}

/* The maximum number of steps of a round that begins with this step. With a quorum, the first step of a round can only
 * be guessed before it begins. */
static uint64_t most_from(const apart *a, uint64_t step)
{
    const uint64_t h = (uint64_t)a->t->plan->local_steps;
    if (!a->t->plan->synchronous)
        return h;
    const uint64_t most = yk__least(h, yk__until_due(a->t, step));
    return most || a->t->plan->lockstep ? most : 1;
}

/* One more batch from the feed. What came before it in the same round may have been given to others meanwhile: then *anew. */
static yk_status fetch(apart *a, bool wait, bool first, origin *from, yk_batch *out, bool *anew)
{
    yk_status st = yk__fetch(a->t, a->number, wait, out);
    if (st || !out->n)
        return st;
    *anew = !first && from->life != a->t->dealt_life;
    from->life = a->t->dealt_life;
    yk_feed_place_of(a->t->feed, a->number, from->place);
    return YK_OK;
}

/* The batches of a round that begins with `step`, or of a dense model the first of them. */
static yk_status gather(apart *a, uint64_t step, bool wait)
{
    const uint64_t most = a->t->model->sparse ? most_from(a, step) : yk__least(1, most_from(a, step));
    yk_status st = YK_OK;
    a->gathered = 0;
    while (!st && a->gathered < most) {
        yk_batch batch;
        bool anew = false;
        st = fetch(a, wait && !a->gathered, !a->gathered, &a->next, &batch, &anew);
        if (st || !batch.n)
            break;
        if (anew) {
            yk_remote_drop(a->remote);
            a->gathered = 0;
        }
        if (!(st = yk_remote_gather(a->remote, &batch)))
            a->gathered++;
    }
    return st;
}

/* The copy has room for n parameters: that of a sparse model grows with its rounds. */
static yk_status make_room(apart *a, size_t n)
{
    if (n <= a->room)
        return YK_OK;
    yk_store_config c = a->t->cluster.copy;
    yk_store_free(a->copy);
    a->copy = NULL;
    a->room = c.nparams = a->t->model->sparse ? n + n / 2 : n;
    return yk_store_create(&c, &a->copy);
}

yk_status yk__step_apart(yk__trainer *t, yk_store *store, int number, const yk_batch *batch,
                         yk_step_result *out)
{
    yk_view view;
    yk_grad grad = {.bias_key = UINT32_MAX};
    yk_phase_to(t->trainee[0].phases, YK_PHASE_APPLY); /* decay that the batch's weights have missed */
    yk_status st = yk_store_pull(store, 0, batch, &view);
    if (st)
        return st;
    yk_phase_to(t->trainee[0].phases, YK_PHASE_COMPUTE);
    yk__gradient(t, 0, number, &view, batch, &grad);
    if (!(grad.loss <= yk__most_loss * (double)grad.examples))
        return yk__diverged(t, "the training loss", grad.loss / (double)grad.examples, yk_store_steps(store));
    yk_phase_to(t->trainee[0].phases, YK_PHASE_APPLY);
    st = yk_store_push(store, 0, &grad);
    return st ? st : yk_store_clock(store, 0, out);
}

/* What a round was. */
typedef struct {
    uint64_t steps, examples;
    double loss;
} made;

/* One round on what was pulled; `values` become changes. */
static yk_status steps(apart *a, size_t n, size_t batches, float *values, made *out)
{
    const bool sparse = a->t->model->sparse;
    const yk_view v = yk_changes_view(values, n);
    const uint64_t most = sparse ? batches : most_from(a, a->news.steps);
    yk_status st = YK_OK;
    yk_changes_begin(a->copy, n, &v, a->news.steps);
    *out = (made){0};
    for (uint64_t i = 0; !st && i < most; i++) {
        yk_batch batch = {0};
        yk_step_result one = {0};
        bool anew = false;
        if (sparse || i == 0)
            batch = yk_remote_batch(a->remote, i);
        else if ((st = fetch(a, false, false, &a->now, &batch, &anew)) || !batch.n)
            break;
        if (anew) {
            yk_changes_begin(a->copy, n, &v, a->news.steps);
            *out = (made){0};
        }
        if ((st = yk__step_apart(a->t, a->copy, a->number, &batch, &one)) || (st = a->hook) ||
            (st = yk_remote_alive(a->remote)))
            break;
        out->steps++;
        out->examples += one.examples;
        out->loss += one.loss;
        yk__observe_traffic(a->t);
    }
    /* collected for a different step than it turned out to be: do not skip an evaluation or checkpoint */
    out->steps = yk__least(out->steps, most_from(a, a->news.steps));
    yk_phase_to(a->me->phases, YK_PHASE_APPLY);
    if (!st)
        yk_changes_take(a->copy, NULL, n, NULL, &v);
    return st;
}

static yk_status push(apart *a, const made *m)
{
    yk_phase_to(a->me->phases, YK_PHASE_SENDING);
    yk_remote_place(a->remote, a->now.life, a->now.place);
    return yk_remote_push_changes(a->remote, m->steps, m->examples, m->loss);
}

/* What was asked for is trained on, and the next round is asked for, if there are batches for one. */
static yk_status round_of(apart *a)
{
    float *values;
    size_t n, batches;
    made m;
    yk_phases_step(a->me->phases);
    yk_phase_to(a->me->phases, YK_PHASE_PARAMETERS);
    yk_status st = yk_remote_pull_values(a->remote, &values, &n, &batches, &a->news);
    if (st || a->news.stop)
        return st;
    a->now = a->next;
    yk_phase_to(a->me->phases, YK_PHASE_APPLY);
    if ((st = make_room(a, n)) || (st = steps(a, n, batches, values, &m)))
        return st;
    a->me->examples += m.examples;
    yk_phases_done(a->me->phases, m.steps, m.examples);
    /* whoever has batches left has made as many steps as anybody: the next round begins after these */
    st = gather(a, a->news.steps + m.steps, false);
    return st ? st : push(a, &m);
}

/* All batches of an epoch, and then rounds without any until nobody has one. */
static yk_status epoch_in_step(apart *a, uint64_t step)
{
    const made none = {0};
    bool pushed = false;
    yk_status st = gather(a, step, false);
    if (!st && a->gathered)
        st = yk_remote_ask_gathered(a->remote);
    while (!st && a->gathered) {
        st = round_of(a);
        if (st || a->news.stop)
            return st;
        pushed = true;
    }
    yk_phase_to(a->me->phases, YK_PHASE_WORKERS);
    if (!st && pushed)
        st = yk_remote_round(a->remote, &a->news);
    for (bool over = false; !st && !over && !a->news.stop; over = a->news.examples == 0)
        if (!(st = push(a, &none)))
            st = yk_remote_round(a->remote, &a->news);
    return st;
}

static yk_status train_in_step(apart *a)
{
    yk__trainer *t = a->t;
    yk_status st = YK_OK;
    a->news.steps = t->step;
    for (uint64_t epoch = t->epoch; !st && !a->news.stop;) {
        st = epoch_in_step(a, a->news.steps);
        yk_feed_epoch(t->feed, a->number, ++epoch);
    }
    return st;
}

static yk_status train_freely(apart *a)
{
    yk_status st = YK_OK;
    a->news.steps = a->t->step;
    while (!st && !a->news.stop && !yk_remote_leaves(a->remote)) {
        if (!a->gathered && ((st = gather(a, a->news.steps, true)) || !a->gathered ||
                             (st = yk_remote_ask_gathered(a->remote)))) /* all examples are used */
            break;
        st = round_of(a);
    }
    float *values;
    size_t n, batches;
    if (!st && !a->news.stop && a->gathered) /* it leaves: an answer that it does not need any more */
        st = yk_remote_pull_values(a->remote, &values, &n, &batches, &a->news);
    return st;
}

yk_status yk__train_apart(yk__trainer *t, int number)
{
    apart a = {.t = t, .me = &t->trainee[0], .remote = t->cluster.remote, .number = number};
    yk_status st = t->model->sparse ? YK_OK : make_room(&a, t->model->nparams);
    yk_model_on_ready(t->model, a.me->work, poll, &a);
    if (!st)
        st = t->plan->lockstep ? train_in_step(&a) : train_freely(&a);
    yk_store_free(a.copy);
    return st;
}
