/* Evaluation: each worker evaluates a share of the test set and of the validation set, and the chief combines the results. */
#include "train/loop.h"

#include "base/number.h"
#include "train/infer.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Training has diverged if the loss is higher. An overflow to infinity may take many more steps. Squares may be large. */
double yk__max_loss(const yk__trainer *t)
{
    return t->loss->numbers ? 1e30 : 1e6;
}

yk__largest_lr yk__largest_lr_of(const yk__trainer *t)
{
    const yk_local_group *of = NULL;
    yk__largest_lr out = {0};
    for (const yk_local_group *g = t->group; g < t->group + t->model->ngroups; g++) {
        const double usual = t->plan->group[g - t->group].default_lr;
        if (of && g->optim.lr * out.usual <= out.lr * usual)
            continue;
        of = g;
        out.lr = g->optim.lr;
        out.usual = usual;
    }
    for (const yk_local_group *g = t->group; g < t->group + t->model->ngroups; g++) {
        const bool differs = g->optim.lr != of->optim.lr || g->optim.kind != of->optim.kind;
        if (differs && g->shape.keyed == of->shape.keyed)
            snprintf(out.prefix, sizeof out.prefix, "%s=", of->shape.name);
        else if (differs && !*out.prefix)
            snprintf(out.prefix, sizeof out.prefix, "%s=", of->shape.keyed ? "keyed" : "dense");
    }
    return out;
}

yk_status yk__diverged(const yk__trainer *t, const char *what, double value, uint64_t step)
{
    const yk__largest_lr lr = yk__largest_lr_of(t);
    const bool stale = t->plan->staleness && t->plan->workers > 1;
    value = isnan(value) ? (double)NAN : value; /* not "-nan" */
    if (yk_data_is_unscaled(&t->data_check))
        return yk_fail(
            YK_EDIVERGED,
            "training diverged at step %llu: %s is %g; the values of column %lld (counted from 0) are about "
            "%.3g: scale the features (csv: ?scale=standard)",
            (unsigned long long)step, what, value, (long long)t->data_check.large.column,
            t->data_check.large.size);
    /* no update was applied; other asynchronous workers may have applied one that this worker did not count */
    if (step == t->result->resumed_from && (t->plan->lockstep || t->plan->workers == 1 || t->config->init))
        return yk_fail(
            YK_EDIVERGED,
            "%s is %g before the first update, so the initial parameters are too large: use a "
            "smaller --init or --init-bias, another --warm-start, or larger deviations in --standardize",
            what, value);
    return yk_fail(YK_EDIVERGED,
                   "training diverged at step %llu: %s is %g; the learning rate %g (default %g) is too large "
                   "for this data%s; use a smaller --lr%s%s%s%s",
                   (unsigned long long)step, what, value, lr.lr, lr.usual,
                   stale ? " and asynchronous workers" : "", *lr.prefix ? " " : "", lr.prefix,
                   *lr.prefix ? "X" : "", stale ? ", or fewer workers" : "");
}

typedef struct {
    const yk__trainer *t;
    const yk_dataset *data;
} streamed_set;

/* Rows of a set that is streamed. */
static yk_status prepare(void *set, yk_rows *rows, size_t number)
{
    (void)number;
    const streamed_set *s = set;
    yk_status st = yk_dataset_check(s->data, rows);
    return st || !s->t->remap ? st : yk_keymap_rows(s->t->remap, rows);
}

static yk_status evaluate_set(const yk__trainer *t, int set, yk__worker_state *w, int share, int of,
                              const yk_view *v, yk_tally *tally)
{
    streamed_set s = {t, &t->set[set].data};
    const yk_rows *rows = s.data->rows;
    const uint64_t n = rows ? rows->n : 0, wanted = set == YK__TEST ? (uint64_t)t->config->test_examples : 0;
    const yk_perm order = yk_perm_make(n ? n : 1, 1); /* the same examples in each evaluation */
    const yk__predictor o = {.order = wanted && wanted < n ? &order : NULL,
                             .max = wanted,
                             .model = t->model,
                             .work = w->work,
                             .view = v,
                             .batch = YK__EVAL_BATCH,
                             .p = w->p,
                             .tally = tally,
                             .prepare = prepare,
                             .context = &s};
    yk_tally_clear(tally);
    return yk__predict(&o, rows, s.data->source, (size_t)share, (size_t)of);
}

yk_status yk__evaluate(const yk__trainer *t, yk__worker_state *w, int share, int of, const yk_view *v)
{
    yk_status st = YK_OK;
    for (int i = 0; !st && i < YK__SETS; i++)
        st = t->set[i].used ? evaluate_set(t, i, w, share, of, v, &w->tally[i]) : YK_OK;
    return st;
}

yk_status yk__evaluate_best(yk__trainer *t, const yk_view *v)
{
    return evaluate_set(t, YK__TEST, t->evaluator, 0, 1, v, &t->selection.tested);
}

yk_progress_state yk__progress_now(const yk__trainer *t)
{
    yk_progress_state p = {.step = t->step,
                           .epoch = t->epoch,
                           .late_examples = t->late_examples,
                           .examples = t->resumed.examples,
                           .data_examples = yk__epoch_examples(t),
                           .seconds = t->resumed.seconds + yk_now() - t->training_started,
                           .best = t->selection.best};
    for (int i = 0; i < t->nevaluators; i++) {
        p.examples += t->evaluator[i].examples;
        p.period_loss += t->evaluator[i].period_loss;
        p.period_examples += t->evaluator[i].period_examples;
        p.period_extra_weight += t->evaluator[i].period_extra_weight;
    }
    return p;
}

void yk__start_period(yk__trainer *t)
{
    for (int i = 0; i < t->nevaluators; i++) {
        t->evaluator[i].period_extra_weight = t->evaluator[i].period_loss = 0.0;
        t->evaluator[i].period_examples = 0;
    }
}

/* Merges the tallies of all evaluators. */
static yk_status score_set(yk__trainer *t, int set, yk_score *out)
{
    yk_tally *all = &t->set[set].tally;
    yk_status st = YK_OK;
    yk_tally_clear(all);
    for (int i = 0; !st && i < t->nevaluators; i++)
        st = yk_tally_merge(all, &t->evaluator[i].tally[set]);
    return st ? st : yk_score_make(all, out);
}

/* Of the best model: its test tally; its parameters, for a caller without a run directory. */
static yk_status keep_best(yk__trainer *t)
{
    yk__selection *s = &t->selection;
    const size_t n = yk_model_group_offset(t->model, t->model->ngroups);
    yk_tally_clear(&s->tested);
    const yk_status st = yk_tally_merge(&s->tested, &t->set[YK__TEST].tally);
    if (st)
        return st;
    if (!t->caller->keep_model || t->result->run_dir || !t->plan->alone)
        return YK_OK;
    if (!s->parameters && !(s->parameters = yk_alloc(n, sizeof *s->parameters, "the best model")))
        return YK_ESYSTEM;
    for (int g = 0; g < t->model->ngroups; g++)
        memcpy(s->parameters + yk_model_group_offset(t->model, g), yk_local_table(t->local, g).w,
               yk_group_floats(&t->model->group[g]) * sizeof(float));
    return YK_OK;
}

static yk_status check_score(const yk__trainer *t, int set, const yk_score *score, uint64_t step)
{
    const char *name = set == YK__TEST ? "test" : "validation";
    char loss[32];
    if (score->examples && !(score->weight > 0.0))
        return yk_fail(YK_EDATA,
                       "all examples of the %s set have zero weight: use other data, or other rows, for --%s",
                       name, name);
    snprintf(loss, sizeof loss, "the %s loss", name);
    return score->loss <= yk__max_loss(t) ? YK_OK : yk__diverged(t, loss, score->loss, step);
}

yk_status yk__score_evaluation(yk__trainer *t, const yk_progress_state *at, bool extra)
{
    yk_result *r = t->result;
    yk_score *const score[YK__SETS] = {[YK__TEST] = &r->test, [YK__VALIDATION] = &r->validation};
    yk__selection *s = &t->selection;
    yk_status st = YK_OK;
    s->best.improved = false;
    r->tested = t->set[YK__TEST].used;
    r->validated = t->set[YK__VALIDATION].used;
    const double weight = (double)at->period_examples + at->period_extra_weight;
    if (weight > 0.0)
        r->train_loss = at->period_loss / weight;
    for (int i = 0; !st && i < YK__SETS; i++)
        st = t->set[i].used ? score_set(t, i, score[i]) : YK_OK;
    for (int i = 0; !st && i < YK__SETS; i++)
        st = t->set[i].used ? check_score(t, i, score[i], at->step) : YK_OK;
    if (st || !r->validated || (at->step && at->step == s->resumed))
        return st;
    st = yk__select(s, &t->set[YK__VALIDATION].tally, at->step, extra, &r->validation, &r->test);
    return st || !s->best.improved ? st : keep_best(t);
}

bool yk__saves_best(const yk__trainer *t)
{
    return t->set[YK__VALIDATION].used && t->selection.best.improved && !yk_env_number("YK_DROP_MODEL", 0);
}

void yk__set_reductions(yk__trainer *t, void (*set)(yk_local *s, uint32_t n))
{
    const uint32_t n = (uint32_t)t->selection.best.reductions;
    for (int g = 0; g < t->model->ngroups; g++)
        t->group[g].optim.reductions = n; /* for the metrics */
    if (t->local)
        set(t->local, n);
    if (t->cluster.whole)
        set(t->cluster.whole, n);
}

void yk__follow_evaluation(yk__trainer *t)
{
    yk__set_reductions(t, yk_local_reduce);
    if (yk__selection_is_over(&t->selection))
        atomic_store(&t->schedule.stopped, true);
}
