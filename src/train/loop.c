/* The loop that every worker runs, and the meetings in which all of them evaluate and save.
 *
 *     in step       all workers make the same steps; a meeting is due after the same step for all of them.
 *     otherwise     whoever sees that one is due raises `meeting`; each comes when it has ended its step. A worker without
 *                   data waits for the next meeting; when all have none, that is the last one.
 */
#include "train/trainer.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/wait.h"
#include "model/burst.h"
#include "store/burst.h"
#include <math.h>
#include <string.h>

/* ---- evaluation: each worker takes a share of the test set, on the frozen table ---- */

static yk_status eval_rows(yk__trainer *t, yk__trainee *w, const yk_view *v, const yk_rows *rows,
                           size_t begin, size_t end)
{
    uint32_t pick[YK__EVAL_BATCH];
    for (size_t at = begin; at < end; at += YK__EVAL_BATCH) {
        size_t n = end - at < YK__EVAL_BATCH ? end - at : YK__EVAL_BATCH;
        for (size_t i = 0; i < n; i++)
            pick[i] = (uint32_t)(at + i);
        yk_batch b = {rows, pick, n, 0};
        t->model->ops->predict(t->model, w->work, v, &b, w->p, &w->tally.loss);
        yk_status st = yk_tally_add(&w->tally, w->p, t->model->outputs, &b);
        if (st)
            return st;
    }
    return YK_OK;
}

/* A test set that is streamed: blocks are dealt out. */
static yk_status eval_stream(yk__trainer *t, yk__trainee *w, int share, int of, const yk_view *v)
{
    yk_rows part;
    yk_rows_init(&part, t->test.kind, t->test.dim);
    yk_status st = YK_OK;
    for (size_t b = (size_t)share; !st && b < t->test.source->nblocks; b += (size_t)of) {
        yk_reader *r;
        size_t got = 1;
        if ((st = yk_source_read(t->test.source, b, &r)))
            break;
        while (!st && got) {
            yk_rows_clear(&part);
            if (!(st = yk_reader_next(r, &part, 4096, &got)) && !(st = yk_dataset_check(&t->test, &part)) &&
                t->names)
                st = yk_keymap_rows(t->names, &part);
            if (!st)
                st = eval_rows(t, w, v, &part, 0, part.n);
        }
        yk_reader_free(r);
    }
    yk_rows_fini(&part);
    return st;
}

yk_status yk__evaluate(yk__trainer *t, int me, int share, int of, const yk_view *v)
{
    yk__trainee *w = &t->trainee[me];
    yk_tally_clear(&w->tally);
    if (!t->test.rows)
        return eval_stream(t, w, share, of, v);
    const size_t n = t->test.rows->n;
    return eval_rows(t, w, v, t->test.rows, n * (size_t)share / (size_t)of,
                     n * ((size_t)share + 1) / (size_t)of);
}

/* Nobody's loss is that high but that of weights which grow with every step; it may take many steps more to overflow. */
const double yk__most_loss = 1e6;

yk_status yk__diverged(const yk__trainer *t, const char *what, double value, uint64_t step)
{
    return yk_fail(YK_EDIVERGED,
                   "training diverged at step %llu: %s is %g; the learning rate %g is too large for this "
                   "data; try --lr %g",
                   (unsigned long long)step, what, value, t->result->lr, t->result->lr / 10.0);
}

/* Worker 0, after all have evaluated: puts the results together and says them. */
yk_status yk__conclude(yk__trainer *t)
{
    double loss = 0.0;
    uint64_t examples = 0;
    yk_tally *tallies = yk_alloc((size_t)t->plan->workers, sizeof *tallies, "an evaluation");
    if (!tallies)
        return YK_ESYSTEM;
    for (int i = 0; i < t->plan->workers; i++) {
        tallies[i] = t->trainee[i].tally;
        loss += t->trainee[i].period_loss;
        examples += t->trainee[i].period_examples;
        t->trainee[i].period_loss = 0.0;
        t->trainee[i].period_examples = 0;
    }
    yk_status st = t->tested ? yk_score_make(tallies, t->plan->workers, &t->result->test) : YK_OK;
    yk_free(tallies);
    if (st)
        return st;
    t->result->tested = t->tested;
    if (examples)
        t->result->train_loss = loss / (double)examples;
    if (examples && t->result->train_loss < t->lowest_loss)
        t->lowest_loss = t->result->train_loss;
    t->last_eval = t->step;
    if (t->tested && !(t->result->test.loss <= yk__most_loss))
        return yk__diverged(t, "the test loss", t->result->test.loss, t->step);
    return yk__journal_eval(t, t->result->train_loss);
}

/* A checkpoint of a settled store. */
yk_status yk__save(yk__trainer *t, yk_store *store, const yk_progress_state *p)
{
    const float *w = yk_store_table(store).w;
    if (!t->result->run_dir)
        return YK_OK;
    for (size_t i = 0; i < t->model->nparams; i++)
        if (!isfinite(w[i])) /* to go on from such a checkpoint would be of no use */
            return yk__diverged(t, "a weight", (double)w[i], p->step);
    yk__stage(t, YK_STAGE_SAVING);
    yk_status st = yk_checkpoint_save(t->result->run_dir, t->config->model, t->model, store, t->names, p,
                                      &t->result->checkpoint);
    yk__stage(t, YK_STAGE_SAVED);
    return st;
}

static yk_status save(yk__trainer *t)
{
    yk_progress_state p = {.step = t->step,
                           .epoch = t->epoch,
                           .examples = t->earlier_examples,
                           .seconds = t->earlier_seconds + yk_now() - t->began,
                           .nplace = yk_feed_place_size(t->feed)};
    for (int i = 0; i < t->plan->workers; i++) {
        p.examples += t->trainee[i].examples;
        p.period_loss += t->trainee[i].period_loss;
        p.period_examples += t->trainee[i].period_examples;
    }
    p.place = yk_alloc(p.nplace, sizeof *p.place, "the place in the data");
    if (!p.place)
        return YK_ESYSTEM;
    yk_feed_place_save(t->feed, p.place);
    yk_status st = yk__save(t, t->store, &p);
    yk_free(p.place);
    t->last_save = t->step;
    t->saved_at = yk_now();
    return st;
}

/* All workers come together on a settled store: evaluate, save, or end, as worker 0 decides. */
static yk_status meet(yk__trainer *t, int me)
{
    yk_phases *p = t->trainee[me].phases;
    yk_phases_now(p);
    yk_phase_to(p, YK_PHASE_WORKERS);
    yk_status st = yk_store_settle(t->store, me);
    double began = yk_now();
    const yk_phase for_what = t->do_eval ? YK_PHASE_EVAL : YK_PHASE_CHECKPOINT;
    yk_phase_to(p, for_what); /* with the waiting for those who need longer for their share of it */
    yk_view table = yk_store_table(t->store);
    if (!st && t->do_eval && t->tested)
        st = yk__evaluate(t, me, me, t->plan->workers, &table);
    if (!st)
        st = yk_team_meet(t->team, me);
    if (!st && me == 0) {
        if (t->do_eval)
            st = yk__conclude(t);
        double evaluated = yk_now();
        t->result->eval_seconds += evaluated - began;
        if (!st && t->do_save) {
            yk_phase_to(p, YK_PHASE_CHECKPOINT);
            st = save(t);
            t->result->checkpoint_seconds += yk_now() - evaluated;
        }
        atomic_store(&t->meeting, false);
    } else if (t->do_save) {
        yk_phase_to(p, YK_PHASE_CHECKPOINT);
    }
    if (!st)
        st = yk_team_meet(t->team, me);
    yk_phase_to(p, YK_PHASE_OTHER);
    return st || t->end ? st : yk_store_resume(t->store, me);
}

void yk__gradient(yk__trainer *t, int me, int number, const yk_view *view, const yk_batch *batch,
                  yk_grad *out)
{
    const uint64_t began = number == t->slow_worker ? yk_now_ns() : 0;
    t->model->ops->grad(t->model, t->trainee[me].work, view, batch, out);
    if (began) {
        const uint64_t now = yk_now_ns(),
                       until = now + (uint64_t)((double)(now - began) * (t->slow_factor - 1.0));
        while (yk_now_ns() < until)
            ;
        if (t->slow_seconds > 0.0)
            yk_nap(t->slow_seconds);
    }
}

/* One step with this batch, which may be empty in step. */
static yk_status step(yk__trainer *t, int me, const yk_batch *batch, yk_step_result *out)
{
    yk__trainee *w = &t->trainee[me];
    yk_phases *p = t->trainee[me].phases;
    yk_view view;
    yk_grad grad = {.bias_key = UINT32_MAX};
    yk_phase_to(p, YK_PHASE_PARAMETERS);
    yk_status st = yk_store_pull(t->store, me, batch, &view);
    if (st)
        return st;
    yk_phase_to(p, YK_PHASE_COMPUTE);
    if (batch->n)
        yk__gradient(t, me, me, &view, batch, &grad);
    else
        grad.rows = *batch;
    yk_phase_to(p, YK_PHASE_APPLY);
    if (!(grad.loss <= yk__most_loss * (double)grad.examples))
        return yk__diverged(t, "the training loss", grad.loss / (double)grad.examples,
                            yk_store_steps(t->store));
    if ((st = yk_store_push(t->store, me, &grad)) || (st = yk_store_clock(t->store, me, out)))
        return st;
    yk_phase_to(p, YK_PHASE_OTHER);
    yk_phases_done(p, grad.examples > 0, grad.examples);
    w->period_loss += grad.loss;
    w->period_examples += grad.examples;
    w->examples += grad.examples;
    return YK_OK;
}

/* Whether steps are made many at once (model/burst.h). */
static bool bursts(const yk__trainer *t)
{
    return yk_model_bursts(t->model) && yk_store_bursts(t->store);
}

/* As many steps as the batch has rows, one after the other. */
static yk_status burst(yk__trainer *t, int me, const yk_batch *batch, yk_step_result *out)
{
    yk__trainee *w = &t->trainee[me];
    yk_view view;
    float lr, loss[YK_BURST];
    yk_phase_to(t->trainee[me].phases, YK_PHASE_COMPUTE);
    yk_store_burst_begin(t->store, me, &view, &lr);
    yk_model_burst(t->model, w->work, &view, batch, lr, loss);
    *out = (yk_step_result){.examples = batch->n};
    for (size_t i = 0; i < batch->n; i++) {
        if (!((double)loss[i] <= yk__most_loss))
            return yk__diverged(t, "the training loss", (double)loss[i], yk_store_steps(t->store) + i);
        w->period_loss += (double)loss[i];
        out->loss += (double)loss[i];
    }
    yk_phase_to(t->trainee[me].phases, YK_PHASE_APPLY);
    yk_store_burst_end(t->store, me, batch->n);
    yk_phase_to(t->trainee[me].phases, YK_PHASE_OTHER);
    yk_phases_done(t->trainee[me].phases, batch->n, batch->n);
    w->period_examples += batch->n;
    w->examples += batch->n;
    return YK_OK;
}

/* ---- in step ---- */

enum { GO_ON, SAVE, STOP };

/* It is long since anything was saved, and nobody said when to. */
bool yk__save_is_overdue(const yk__trainer *t)
{
    return t->saves_by_time && yk_now() - t->saved_at > YK__SAVE_SECONDS;
}

/* Worker 0's word for this round; it looks at the clock now and then only. */
static int word_of(yk__trainer *t, unsigned round)
{
    if (*t->stop)
        return STOP;
    return round % 256 == 0 && yk__save_is_overdue(t) ? SAVE : GO_ON;
}

/* What is due after this step; the same answer for every worker. */
bool yk__due_in_step(yk__trainer *t, int me, uint64_t done, bool epoch_over, bool end, bool save_now)
{
    bool eval = end || (t->eval_every ? done % t->eval_every == 0 && !epoch_over : epoch_over);
    bool keep = end || save_now || (t->checkpoint_every && done % t->checkpoint_every == 0 && !epoch_over);
    if (me == 0) {
        t->do_eval = eval && done != t->last_eval;
        t->do_save = keep && done != t->last_save;
    }
    return eval || keep;
}

/* Steps that may be made before anything is due. */
uint64_t yk__until_due(const yk__trainer *t, uint64_t done)
{
    uint64_t left = t->plan->steps - done;
    if (t->eval_every)
        left = yk__least(left, t->eval_every - done % t->eval_every);
    if (t->checkpoint_every)
        left = yk__least(left, t->checkpoint_every - done % t->checkpoint_every);
    return left;
}

bool yk__is_done(const yk__trainer *t, uint64_t step, uint64_t epoch)
{
    return step >= t->plan->steps || (t->plan->lockstep && epoch >= t->plan->epochs);
}

static yk_status train_in_step(yk__trainer *t, int me)
{
    const bool many = bursts(t); /* then this worker is the only one */
    uint64_t done = t->step, epoch = t->epoch, seen = t->earlier_examples;
    if (yk__is_done(t, done, epoch)) { /* resumed after its last step: only evaluate it */
        yk__due_in_step(t, me, done, true, true, false);
        return meet(t, me);
    }
    for (unsigned round = 0;; round++) { /* nobody is two rounds ahead of another */
        yk_batch batch;
        yk_step_result result;
        yk_phases_step(t->trainee[me].phases);
        uint64_t most = 1;
        if (many && !*t->stop) /* when told to stop, one more step is made, as below */
            most = yk__least(yk_store_burst_most(t->store, me), yk__until_due(t, done));
        yk_status st = yk_feed_next_few(t->feed, me, most, &batch);
        if (me == 0)
            atomic_store_explicit(&t->word_at[round & 1], word_of(t, round), memory_order_relaxed);
        if (!st)
            st = many ? burst(t, me, &batch, &result) : step(t, me, &batch, &result);
        if (st)
            return st;
        bool epoch_over = result.examples == 0;
        done += many ? result.examples : !epoch_over;
        epoch += epoch_over;
        /* a stop is obeyed after a step: the state that is saved is then always that of a new step */
        const int word = atomic_load_explicit(&t->word_at[round & 1], memory_order_relaxed);
        bool stop = !epoch_over && word == STOP;
        const bool all = yk__is_done(t, done, epoch), end = stop || all;
        if (epoch_over) /* at the end too: a longer run may go on from here */
            yk_feed_epoch(t->feed, me, epoch);
        if (me == 0) {
            t->step = done;
            t->epoch = epoch;
            t->result->interrupted = stop && !all;
            seen += result.examples;
            if (epoch_over && !t->train.examples) /* a stream: now it is known how long an epoch is */
                t->train.examples = seen;
            if (!epoch_over && !t->unwatched)
                yk__journal_progress(t, result.loss / (double)result.examples);
            if (t->turns)
                yk__turns_step(t, result.examples);
        }
        if (yk__due_in_step(t, me, done, epoch_over, end, !epoch_over && word == SAVE) && (st = meet(t, me)))
            return st;
        if (end)
            return YK_OK;
    }
}

/* ---- each at its own pace ---- */

/* Worker 0 looks now and then whether it is time to meet. */
static void look(yk__trainer *t)
{
    uint64_t done = yk_store_steps(t->store);
    if (yk__save_is_overdue(t))
        t->next_save = done;
    if (*t->stop || done >= t->next_eval || done >= t->next_save)
        atomic_store(&t->meeting, true);
}

/* Everybody is here (or about to be); worker 0 decides what for. */
static yk_status meet_freely(yk__trainer *t, int me)
{
    yk_phases_now(t->trainee[me].phases);
    yk_phase_to(t->trainee[me].phases, YK_PHASE_WORKERS);
    yk_status st = yk_team_meet(t->team, me);
    if (st)
        return st;
    if (me == 0) {
        bool all_done = atomic_load(&t->finished) == t->plan->workers;
        uint64_t examples = t->earlier_examples;
        for (int i = 0; i < t->plan->workers; i++)
            examples += t->trainee[i].examples;
        t->step = yk_store_steps(t->store);
        t->epoch = t->train.examples ? examples / t->train.examples : 0;
        if (all_done && !yk__is_done(t, t->step, t->epoch)) /* no examples are left in any epoch */
            t->epoch = t->plan->epochs;
        t->end = all_done || *t->stop;
        t->result->interrupted = t->end && !all_done;
        t->do_eval = (t->end || t->step >= t->next_eval) && t->step != t->last_eval;
        t->do_save = (t->end || t->step >= t->next_save) && t->step != t->last_save;
        while (t->next_eval <= t->step)
            t->next_eval += t->eval_every;
        while (t->next_save <= t->step)
            t->next_save += t->checkpoint_every;
    }
    return meet(t, me);
}

static yk_status train_freely(yk__trainer *t, int me)
{
    yk__trainee *w = &t->trainee[me];
    const bool many = bursts(t);
    uint64_t next_look = 0;
    for (uint64_t done = 0;;) {
        yk_status st;
        if (w->finished) { /* nothing is left for it: it waits for the others */
            yk_phases_now(t->trainee[me].phases);
            yk_phase_to(t->trainee[me].phases, YK_PHASE_WORKERS);
        }
        while (w->finished && !atomic_load(&t->meeting)) {
            if (yk_team_stopped(t->team))
                return yk_fail(YK_ESTOP, "another worker stopped the run");
            if (me == 0)
                look(t);
            yk_nap(200e-6);
        }
        if (*t->stop) /* everybody looks: worker 0 may be waiting for a core */
            atomic_store(&t->meeting, true);
        if (atomic_load_explicit(&t->meeting, memory_order_relaxed)) {
            if ((st = meet_freely(t, me)) || t->end)
                return st;
            continue;
        }
        yk_batch batch;
        yk_phases_step(t->trainee[me].phases);
        const uint64_t quiet = me == 0 ? next_look + 1 - done : UINT64_MAX;
        const uint64_t most = many ? yk__least(yk_store_burst_most(t->store, me), quiet) : 1;
        if ((st = yk_feed_next_few(t->feed, me, most, &batch)))
            return st;
        if (batch.n == 0) {
            yk_store_finish(t->store, me);
            w->finished = true;
            if (atomic_fetch_add(&t->finished, 1) + 1 == t->plan->workers)
                atomic_store(&t->meeting, true);
            continue;
        }
        yk_step_result result;
        if ((st = many ? burst(t, me, &batch, &result) : step(t, me, &batch, &result)))
            return st;
        done += many ? result.examples : 1;
        if (me == 0 && done > next_look) {
            next_look =
                done + 256 / t->plan->batch; /* reading all workers' counters costs a cache miss each */
            look(t);
            yk__journal_progress(t, result.loss / (double)result.examples);
        }
    }
}

yk_status yk__train_worker(void *trainer, int me)
{
    yk__trainer *t = trainer;
    yk_phases_begin(t->trainee[me].phases, t->plan->lockstep ? t->plan->workers : 1);
    yk_status st = t->plan->lockstep ? train_in_step(t, me) : train_freely(t, me);
    yk_phases_end(t->trainee[me].phases);
    return st;
}
