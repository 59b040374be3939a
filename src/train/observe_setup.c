/* Connects the trainer to its observer (observe/observe.h): the observer's configuration and callbacks. */
#include "train/loop.h"
#include "train/setup.h"

#include <math.h>
#include <string.h>

/* ---- callbacks ---- */

static void position(void *trainer, yk_run_position *out)
{
    const yk__trainer *t = trainer;
    yk_phases_sample all = {
        .examples = t->trained_examples, .weight = t->trained_weight, .loss = t->trained_loss};
    if (t->plan->alone && !t->plan->lockstep) /* the workers take separate steps */
        yk_phases_read_all(t->phases, t->local_workers, &all);
    *out = (yk_run_position){.step = yk_local_steps(t->local),
                             .examples = t->resumed.examples + all.examples,
                             .late_examples = t->late_examples,
                             .epoch_examples = yk__epoch_examples(t),
                             .trained_examples = all.examples,
                             .trained_weight = all.weight,
                             .trained_loss = all.loss};
}

static yk_workspace *work(void *trainer, int worker)
{
    return ((const yk__trainer *)trainer)->worker[worker].work;
}

/* Called during an evaluation, when no worker changes it. */
static void staleness(void *trainer, int worker, yk_staleness *out)
{
    const yk__trainer *t = trainer;
    yk_server_state s;
    if (t->cluster.server) {
        yk_server_state_of(t->cluster.server, &s);
        *out = s.staleness;
    } else {
        yk_local_staleness(t->local, worker == 0 ? -1 : worker, out);
    }
}

static void progress(void *trainer, const yoke_progress *p)
{
    yk__trainer *t = trainer;
    if (t->caller->progress(t->caller->context, p))
        atomic_store(&t->canceled, true);
}

static int worker_status(void *trainer, yk_worker_status *out, int max)
{
    return yk_server_workers(((const yk__trainer *)trainer)->cluster.server, out, max);
}

/* ---- the observer ---- */

static void set_optimizers(const yk__trainer *t, yk_observer_config *c)
{
    const int keyed = yk_model_first_group(t->model, true), dense = yk_model_first_group(t->model, false);
    c->optim[0] = &t->group[keyed >= 0 ? keyed : dense].optim;
    if (keyed < 0)
        return;
    c->optim[1] = dense >= 0 ? &t->group[dense].optim : NULL;
    for (int g = keyed + 1, n = 2; g < t->model->ngroups; g++)
        if (t->model->group[g].keyed)
            c->optim[n++] = &t->group[g].optim;
}

yk_status yk__observe(yk__trainer *t)
{
    const yk__cluster *k = &t->cluster;
    yk_observer_config c = {.config = t->config,
                            .plan = t->plan,
                            .model = t->model,
                            .comm = k->comm,
                            .rank = k->rank,
                            .ranks = k->ranks,
                            .chief = k->joined ? 1 : 0,
                            .joined = k->joined,
                            .streamed = yk__is_streamed(t),
                            .workers = t->local_workers,
                            .phases = t->phases,
                            .serving = t->plan->trains && t->plan->serves ? yk__serving_phases(t) : NULL,
                            .run_dir = t->result->run_dir,
                            .http = t->http,
                            .resumed_from = t->result->resumed_from,
                            .earlier_examples = t->resumed.examples,
                            .earlier_seconds = t->resumed.seconds,
                            .best_loss = t->result->best_known ? t->result->best.loss : (double)NAN,
                            .best_auc = t->result->best_known ? t->result->best.auc : (double)NAN,
                            .context = t,
                            .progress = t->caller->progress ? progress : NULL,
                            .position = position,
                            .work = work,
                            .staleness = staleness,
                            .worker_status = k->server ? worker_status : NULL};
    set_optimizers(t, &c);
    yk_status st = yk_observer_create(&c, &t->observer);
    if (!st)
        st = yk_observer_open(t->observer);
    if (!st && yk_observer_resumed_loss(t->observer, &t->result->train_loss))
        yk__start_period(t);
    return st;
}

void yk__begin_progress(yk__trainer *t)
{
    t->schedule.began = t->schedule.point_at = t->schedule.line_at = yk_now();
    yk_observer_begin(t->observer);
}

/* The loss of an untrained model is the largest of these: that of a uniform guess, the test loss before the first step, and the
 * training loss of the first step. Networks may begin far above a uniform guess. */
static yk_status check_divergence(yk__trainer *t, uint64_t steps)
{
    yk__divergence *d = &t->divergence;
    yk_run_position at;
    double mean;
    char what[128];
    if (t->loss->numbers) /* one example says nothing about the loss of an untrained model */
        return YK_OK;
    position(t, &at);
    d->untrained = fmax(d->untrained, log((double)t->model->shape.classes));
    if (steps == 1 && at.trained_weight > 0.0)
        d->untrained = fmax(d->untrained, at.trained_loss / at.trained_weight);
    const yk__loss_mark now = {steps, at.trained_examples, at.trained_weight, at.trained_loss};
    if (!yk__divergence_found(d, yk__run_steps(&t->schedule, yk__epoch_examples(t)), now, &mean) ||
        t->config->no_stop_on_divergence)
        return YK_OK;
    snprintf(what, sizeof what, "the mean training loss of the last 5 %% of the run (untrained model: %.4g)",
             d->untrained);
    yk_status st = yk__diverged(t, what, mean, at.step);
    return yk_fail(st, "%s; --no-stop-on-divergence turns this check off", yk_error());
}

yk_status yk__report_progress(yk__trainer *t, uint64_t step, bool shows)
{
    const uint64_t steps = step - t->result->resumed_from; /* of this process */
    const yk__report due = yk__report_due(&t->schedule, step, yk__epoch_examples(t), shows);
    if (due.point || due.line)
        yk_observer_progress(t->observer, due.point, due.line);
    return t->schedule.reports && steps >= t->divergence.next ? check_divergence(t, steps) : YK_OK;
}

void yk__report_last(yk__trainer *t)
{
    if (t->schedule.reports)
        yk_observer_progress(t->observer, true, false);
}

static yk_evaluation evaluation_of(const yk__trainer *t, const yk_progress_state *at)
{
    const yk_result *r = t->result;
    const yk__selection *c = &t->selection;
    const bool monitored =
        r->validated && strcmp(c->monitor->name, "loss") && (!at->step || at->step != c->resumed);
    const yk_score *s = r->tested ? &r->test : &yk_score_unknown,
                   *v = r->validated ? &r->validation : &yk_score_unknown;
    const yk_run_position position = {.examples = at->examples,
                                      .late_examples = at->late_examples,
                                      .epoch_examples = yk__epoch_examples(t)};
    return (yk_evaluation){.m = {.step = at->step,
                                 .examples = at->examples,
                                 .epoch = yk_epochs_done(&position),
                                 .seconds = t->resumed.seconds + yk_now() - t->training_started,
                                 .train_loss = r->train_loss,
                                 .test_loss = s->loss,
                                 .test_accuracy = s->accuracy,
                                 .test_auc = s->auc,
                                 .majority_accuracy = s->majority_accuracy,
                                 .validation_loss = v->loss,
                                 .validation_accuracy = v->accuracy,
                                 .validation_auc = v->auc},
                           .tested = r->tested,
                           .validated = r->validated,
                           .monitor = monitored ? c->monitor->title : NULL,
                           .monitored = c->best.value};
}

yk_status yk__report_evaluation(yk__trainer *t, const yk_progress_state *at)
{
    const yk_evaluation e = evaluation_of(t, at);
    if (t->caller->metrics && t->caller->metrics(t->caller->context, &e.m))
        atomic_store(&t->canceled, true);
    if (!at->step && e.tested)
        t->divergence.untrained = e.m.test_loss;
    if (!t->schedule.calls)
        yk__begin_progress(t);
    return yk_observer_evaluated(t->observer, &e);
}

/* Whether the optimizers of all groups that are multiplied by values of the data adapt the step size of each parameter. In a
 * model with keyed groups, this excludes the network, whose inputs are sums of keyed parameters. */
static bool is_adaptive(const yk__trainer *t)
{
    bool adaptive = true;
    for (int g = 0; g < t->model->ngroups; g++)
        if (t->model->group[g].keyed == t->model->sparse)
            adaptive &= yk_optim_rule_of(t->group[g].optim.kind)->normalizes;
    return adaptive;
}

/* The steps until the warm-up of all groups is over; 0 if later calls may continue the run. */
static uint64_t warm_up_of(const yk__trainer *t)
{
    uint64_t steps = 0;
    for (int g = 0; g < t->model->ngroups && !t->caller->continues; g++)
        if (t->group[g].optim.warm_up > steps)
            steps = t->group[g].optim.warm_up;
    return steps;
}

void yk__add_warnings(yk__trainer *t)
{
    yk_result *r = t->result;
    const yk_progress_state at = yk__progress_now(t);
    const yk__largest_lr lr = yk__largest_lr_of(t);
    size_t points;
    const yk_evaluation *curve = yk_observer_curve(t->observer, &points);
    const yk__selection *s = &t->selection;
    const bool worse =
        r->selected.step && s->monitor->sign * (s->start - s->best.best) > 0.0; /* start may be NaN */
    const yk_outcome outcome = {.last = evaluation_of(t, &at),
                                .point = curve,
                                .points = points,
                                .lr = lr.lr,
                                .default_lr = lr.usual,
                                .lr_prefix = lr.prefix,
                                .steps = at.step,
                                .warm_up = warm_up_of(t),
                                .classes = t->loss->log_loss ? t->model->shape.classes : 0,
                                .examples = t->train.examples,
                                .test_examples = t->set[YK__TEST].data.examples,
                                .global_batch = r->plan.global_batch,
                                .workers = r->plan.workers,
                                .regularized = t->config->l1 > 0.0 || t->config->l2 > 0.0,
                                .reweighted = t->class_weight != NULL,
                                .adaptive = is_adaptive(t),
                                .asynchronous = r->plan.staleness != 0,
                                .bad_records = r->bad_records,
                                .selection = worse ? s->monitor->title : NULL,
                                .start = s->start,
                                .best = s->best.best,
                                .r2 = r->metrics.value[yk_metric_find("r2") - yk_metric_kinds],
                                .data = t->data_check};
    yk_observation_warn(&outcome, &r->observation);
}
