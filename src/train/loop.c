/* The training loop. Every worker runs it, over the store interface (store/store.h):
 *
 *     feed -> announce -> pull -> gradient -> announce ahead -> push -> clock -> what is due (pacing.h)
 */
#include "train/loop.h"

#include "train/pacing.h"

/* ---- one step ---- */

static yk_status next_batch(yk__loop *w, size_t max, yk_batch *out)
{
    yk__trainer *t = w->t;
    if (!t->plan->alone)
        yk_phase_to(w->state->phases, YK_PHASE_INPUT);
    return yk_feed_next(t->feed, w->number, max, out);
}

/* Announces as many batches as the store wants. */
static yk_status announce(yk__loop *w)
{
    while (w->store->ops->wants(w->store, w->me) > 0) {
        yk_batch batch;
        uint64_t cursor[YK_CURSOR_SIZE] = {0};
        yk_status st = next_batch(w, 1, &batch);
        if (st)
            return st;
        const int stream = yk_feed_cursor_of(w->t->feed, w->number, cursor);
        cursor[YK_CURSOR_SIZE - 1] |= (uint64_t)stream << YK_STREAM_SHIFT;
        if ((st = w->store->ops->announce(w->store, w->me, &batch, cursor)))
            return st;
    }
    return YK_OK;
}

static void on_ready(void *context, float *dense, size_t begin, size_t end)
{
    yk__loop *w = context;
    if (!w->ready)
        w->ready = w->store->ops->ready(w->store, w->me, dense, begin, end);
}

static yk_status gradient(yk__loop *w, const yk_view *view, yk_batch *batch, yk_grad *out)
{
    yk__trainer *t = w->t;
    *out = (yk_grad){0};
    if (!batch->n)
        return YK_OK;
    batch->class_weight = t->class_weight;
    t->model->ops->grad(t->model, w->state->work, view, batch, out);
    if (out->status)
        return out->status;
    yk__add_weights(batch, out);
    const double weight = (double)batch->n + out->extra_weight;
    if (!(out->loss <= yk__max_loss(t) * weight))
        return yk__diverged(t, "the training loss", out->loss / weight,
                            w->store->ops->steps(w->store, w->me));
    return w->ready;
}

static yk_status step(yk__loop *w, yk_step_result *out)
{
    yk_phases *p = w->state->phases;
    yk_view view[YK_MAX_GROUPS];
    yk_batch batch;
    yk_grad grad;
    yk_status st = announce(w);
    yk_phase_to(p, YK_PHASE_PARAMETERS);
    if (st || (st = w->store->ops->pull(w->store, w->me, &batch, view)))
        return st;
    yk_phase_to(p, YK_PHASE_COMPUTE);
    if ((st = gradient(w, view, &batch, &grad)) || (st = announce(w)))
        return st;
    yk_phase_to(p, YK_PHASE_APPLY);
    if ((st = w->store->ops->push(w->store, w->me, &grad)) || (w->store->ahead && (st = announce(w))) ||
        (st = w->store->ops->clock(w->store, w->me, w->action, out)))
        return st;
    yk_phase_to(p, YK_PHASE_OTHER);
    w->weight += (double)grad.examples + grad.extra_weight;
    w->loss += grad.loss;
    if (!w->t->cluster.exchange) { /* replicas count the examples of all (pacing.c) */
        w->state->period_loss += grad.loss;
        w->state->period_examples += grad.examples;
        w->state->period_extra_weight += grad.extra_weight;
        w->state->examples += grad.examples;
    }
    return YK_OK;
}

/* One step for each example. Weights do not matter, because a gradient is divided by the sum of its weights, but an example of
 * weight 0 has no gradient. */
static void take_steps(yk__loop *w, const yk_view *view, const yk_batch *b, float lr, float *loss)
{
    const yk_model *m = w->t->model;
    for (size_t i = 0, n = b->n; i < b->n; i += n) {
        bool none = false;
        if (yk_batch_weighted(b)) {
            none = yk_batch_weight(b, i) == 0.0f;
            for (n = 1; i + n < b->n && (yk_batch_weight(b, i + n) == 0.0f) == none; n++)
                loss[i + n] = 0.0f;
            loss[i] = 0.0f;
        }
        const yk_batch some = yk_batch_part(b, i, n);
        if (!none)
            m->ops->burst(m, w->state->work, view, &some, lr, loss + i);
    }
}

/* A batch of several examples, and one step for each of them. */
static yk_status burst(yk__loop *w, yk_step_result *out)
{
    yk__trainer *t = w->t;
    yk__worker_state *state = w->state;
    yk_batch batch;
    yk_view view;
    float lr, loss[YK_MAX_BURST];
    yk_status st =
        next_batch(w, yk__min(w->store->burst->max(w->store, w->me), w->pacing->max_burst(w)), &batch);
    if (st)
        return st;
    yk_phase_to(state->phases, YK_PHASE_COMPUTE);
    w->store->burst->begin(w->store, w->me, &view, &lr);
    batch.class_weight = t->class_weight;
    take_steps(w, &view, &batch, lr, loss);
    *out = (yk_step_result){.examples = batch.n,
                            .weight = yk_batch_total(&batch),
                            .steps = batch.n,
                            .own = batch.n,
                            .action = w->action};
    out->over = batch.n == 0;
    const bool weighted = batch.n && yk_batch_weighted(&batch);
    for (size_t i = 0; i < batch.n; i++) {
        if (!((double)loss[i] <= yk__max_loss(t)))
            return yk__diverged(t, "the training loss", (double)loss[i],
                                w->store->ops->steps(w->store, w->me) + i);
        const double of_all = (double)loss[i] * (weighted ? (double)yk_batch_weight(&batch, i) : 1.0);
        state->period_loss += of_all;
        out->loss += of_all;
    }
    yk_phase_to(state->phases, YK_PHASE_APPLY);
    w->store->burst->end(w->store, w->me, batch.n);
    yk_phase_to(state->phases, YK_PHASE_OTHER);
    w->weight += out->weight;
    w->loss += out->loss;
    state->period_examples += batch.n;
    state->period_extra_weight += out->weight - (double)batch.n;
    state->examples += batch.n;
    return YK_OK;
}

/* ---- the loop ---- */

static yk_status train(yk__loop *w)
{
    yk__trainer *t = w->t;
    yk_status st = w->pacing->begin(w);
    for (; !st && !w->over; w->round++) {
        yk_step_result r;
        bool entered = false;
        w->action = yk__is_stopped(t) ? YK_ACTION_STOP : YK_ACTION_CONTINUE;
        if ((st = w->pacing->before(w, &entered)) || entered)
            continue;
        if (w->me == 0 && yk__saver_failed(&t->saver))
            return yk__saver_finish(t, YK_OK);
        yk_phases_step(w->state->phases);
        if ((st = w->bursts ? burst(w, &r) : step(w, &r)) || r.pending)
            continue;
        yk_phases_done(w->state->phases, r.own > 0 ? r.steps : 0, r.own, w->weight, w->loss);
        w->weight = w->loss = 0.0;
        st = w->pacing->after(w, &r);
    }
    return st;
}

static yk_status train_worker(void *trainer, int me)
{
    yk__trainer *t = trainer;
    /* t->step and t->epoch may be those of a chief in this process */
    const yk_progress_state *start = &t->resumed;
    yk__loop w = {.t = t,
                  .me = me,
                  .number = t->plan->first_worker + me,
                  .state = &t->worker[me],
                  .store = t->store,
                  .pacing = yk__pacing_of(t->plan),
                  .bursts = t->store->burst && yk_model_can_burst(t->model),
                  .done = start->step,
                  .epoch = start->epoch,
                  .seen = start->examples};
    yk_phases_begin(w.state->phases, t->plan->lockstep ? t->plan->workers : 1);
    if (t->model->ops->network)
        yk_net_on_ready(t->model->ops->network(w.state->work), w.store->ops->ready ? on_ready : NULL, &w);
    yk_status st = train(&w);
    yk_phases_end(w.state->phases);
    return st;
}

yk_status yk__run_workers(void *trainer)
{
    return yk_team_run(((yk__trainer *)trainer)->team, train_worker, trainer);
}
