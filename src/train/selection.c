#include "train/selection.h"

#include "base/mem.h"
#include <math.h>
#include <stdio.h>

yk_status yk__monitor_find(const yk_config *c, const yk_metric_kind **out)
{
    const char *name = c->monitor ? c->monitor : "loss";
    *out = yk_metric_find(name);
    return *out ? YK_OK
                : yk_fail(YK_EUSAGE, "--monitor %s: unknown metric; use one of: " YK_METRIC_NAMES, name);
}

yk_status yk__selection_init(yk__selection *s, const yk_config *c, uint32_t classes)
{
    yk_status st = yk__monitor_find(c, &s->monitor);
    s->validation = c->validation;
    s->start = (double)NAN;
    s->min_delta = fmax(c->min_delta, 0.0); /* negative: not given */
    s->patience = (uint64_t)c->patience;
    s->lr_patience = yk_config_monitors(c) ? (uint64_t)c->lr_patience : 0;
    const unsigned task = !classes ? YK_TASK_NUMBERS : classes == 2 ? YK_TASK_BINARY : YK_TASK_CLASSES;
    if (st || s->monitor->tasks & task)
        return st;
    if (!classes)
        return yk_fail(
            YK_EUSAGE,
            "--monitor %s is not defined for labels that are numbers: use --monitor loss, r2, mae or rmse",
            s->monitor->name);
    return yk_fail(YK_EUSAGE, "--monitor %s is not defined for %u classes: use --monitor loss or accuracy",
                   s->monitor->name, classes);
}

void yk__selection_fini(yk__selection *s)
{
    yk_tally_fini(&s->tested);
    yk_free(s->parameters);
}

/* How much better a is than b. */
static double gain(const yk__selection *s, double a, double b)
{
    return s->monitor->sign * (a - b);
}

/* Patience and plateaus. */
static void count(yk__selection *s)
{
    yk_best *b = &s->best;
    const bool enough = gain(s, b->value, b->mark) > s->min_delta;
    b->waited = enough && !yk__selection_is_over(s) ? 0 : b->waited + 1; /* a run that is over stays over */
    if (enough)
        b->mark = b->value;
    b->lr_waited = enough ? 0 : b->lr_waited + 1;
    if (s->lr_patience && b->lr_waited >= s->lr_patience && b->reductions < YK_MAX_REDUCTIONS) {
        b->lr_waited = 0;
        b->reductions++;
    }
}

yk_status yk__select(yk__selection *s, const yk_tally *tally, uint64_t step, bool extra,
                     const yk_score *validation, const yk_score *test)
{
    yk_best *b = &s->best;
    const bool first = !b->step;
    b->improved = false;
    if (!validation->examples)
        return yk_fail(YK_EDATA, "--validation %s has no examples: use a larger part of the data",
                       s->validation);
    const yk_status st = yk_metric_value(s->monitor, tally, &b->value);
    if (st)
        return st;
    if (isnan(b->value))
        return yk_fail(YK_EDATA,
                       "--monitor %s is not defined for the validation examples: all have the same class, or "
                       "--loss is not the log loss; use other validation data, or --monitor loss",
                       s->monitor->name);
    if (!step) {
        s->start = b->value;
        return YK_OK;
    }
    /* the last step of an asynchronous job may be evaluated again, with gradients that arrived later: its checkpoint is replaced */
    b->improved = first || step == b->step || gain(s, b->value, b->best) > 0.0;
    if (first)
        b->mark = -s->monitor->sign * (double)INFINITY;
    if (!extra)
        count(s);
    if (b->improved) {
        snprintf(b->monitor, sizeof b->monitor, "%s", s->monitor->name);
        b->step = step;
        b->best = b->value;
        b->validation = *validation;
        b->test = *test;
    }
    return YK_OK;
}
