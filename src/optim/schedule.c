#include "optim/schedule.h"

#include <math.h>

static const double pi = 3.14159265358979323846, first_share = 1.0 / 25.0, rising_share = 0.3;

/* ---- the schedules ---- */

static double step_rate(const yk_optim_config *c, double t)
{
    return c->lr * pow(c->lr_decay, floor(t / (double)c->lr_decay_every));
}

static double step_sum(const yk_optim_config *c, double n)
{
    const double every = (double)c->lr_decay_every, periods = floor(n / every),
                 factor = pow(c->lr_decay, periods);
    if (c->lr_decay >= 1.0)
        return c->lr * n;
    return c->lr * (every * (1.0 - factor) / (1.0 - c->lr_decay) + (n - periods * every) * factor);
}

static double inverse_rate(const yk_optim_config *c, double t)
{
    return c->lr / (1.0 + c->lr_decay * t);
}

static double inverse_sum(const yk_optim_config *c, double n)
{
    return c->lr_decay > 0.0 ? c->lr / c->lr_decay * log1p(c->lr_decay * n) : c->lr * n;
}

/* Half a cosine from a to b in `length` steps, then b. */
static double half_cosine(double a, double b, double t, double length)
{
    return t < length ? b + (a - b) * (1.0 + cos(pi * t / length)) / 2.0 : b;
}

static double half_cosine_sum(double a, double b, double n, double length)
{
    const double m = fmin(n, length);
    return b * n + (length > 0.0 ? (a - b) * (m + length / pi * sin(pi * m / length)) / 2.0 : 0.0);
}

/* At least 1: a warm-up that is longer than the run rises to the first rate. */
static double length_of(const yk_optim_config *c)
{
    return c->length > c->warm_up ? (double)(c->length - c->warm_up) : 1.0;
}

static double cosine_rate(const yk_optim_config *c, double t)
{
    return half_cosine(c->lr, c->lr * c->lr_decay, t, length_of(c));
}

static double cosine_sum(const yk_optim_config *c, double n)
{
    return half_cosine_sum(c->lr, c->lr * c->lr_decay, n, length_of(c));
}

/* The step with the highest rate, and the steps after it until the last one. */
static double peak_of(const yk_optim_config *c, double *rest_out)
{
    const double last = c->length > 1 ? (double)c->length - 1.0 : 1.0,
                 peak = c->warm_up ? (double)c->warm_up : fmax(rising_share * (last + 1.0) - 1.0, 0.0);
    *rest_out = fmax(last - peak, 0.0);
    return peak;
}

static double one_cycle_rate(const yk_optim_config *c, double t)
{
    double rest;
    const double peak = peak_of(c, &rest);
    return t < peak ? half_cosine(c->lr * first_share, c->lr, t, peak)
                    : half_cosine(c->lr, c->lr * c->lr_decay, t - peak, rest);
}

static double one_cycle_sum(const yk_optim_config *c, double n)
{
    double rest;
    const double peak = peak_of(c, &rest);
    return half_cosine_sum(c->lr * first_share, c->lr, fmin(n, peak), peak) +
           (n > peak ? half_cosine_sum(c->lr, c->lr * c->lr_decay, n - peak, rest) : 0.0);
}

/* All groups count the reductions, also those whose rate is constant. */
static double reduced_rate(const yk_optim_config *c, double t)
{
    (void)t;
    return c->schedule == YK_LR_PLATEAU ? c->lr * pow(c->lr_decay, (double)c->reductions) : c->lr;
}

/* At the rate of now: the owner of the parameters applies all pending decay before it is reduced. */
static double reduced_sum(const yk_optim_config *c, double n)
{
    return reduced_rate(c, 0.0) * n;
}

/* clang-format off */
const yk_lr_schedule_row yk_lr_schedules[YK_LR_SCHEDULES] = {
    /*                  name         decay  at most   above 0  length  rises  monitors */
    [YK_LR_CONSTANT]  = {"constant",  0.0,   HUGE_VAL, false,   false,  false, false, reduced_rate, reduced_sum},
    [YK_LR_STEP]      = {"step",      0.1,   1.0,      true,    false,  false, false, step_rate, step_sum},
    [YK_LR_INVERSE]   = {"inverse",   0.001, HUGE_VAL, false,   false,  false, false, inverse_rate, inverse_sum},
    [YK_LR_COSINE]    = {"cosine",    0.0,   1.0,      false,   true,   false, false, cosine_rate, cosine_sum},
    [YK_LR_ONE_CYCLE] = {"one-cycle", 4e-6,  1.0,      false,   true,   true,  false, one_cycle_rate, one_cycle_sum},
    [YK_LR_PLATEAU]   = {"plateau",   0.1,   1.0,      true,    false,  false, true,  reduced_rate, reduced_sum}};
/* clang-format on */

/* ---- use ---- */

const char *yk_lr_name(int schedule)
{
    return schedule < YK_LR_SCHEDULES ? yk_lr_schedules[schedule].name : NULL;
}

yk_status yk_lr_check(const yk_optim_config *c)
{
    const yk_lr_schedule_row *s = &yk_lr_schedules[c->schedule];
    const double d = c->lr_decay;
    if (!(s->above_zero ? d > 0.0 : d >= 0.0) || d > s->max_decay)
        return yk_fail(YK_EUSAGE, "--lr-decay %g must be %s%s with --lr-schedule %s", d,
                       s->above_zero ? "above 0" : "0 or more", s->max_decay <= 1.0 ? " and at most 1" : "",
                       s->name);
    if (c->lr_decay_every == 0)
        return yk_fail(YK_EUSAGE, "--lr-decay-every must be 1 or more steps");
    return YK_OK;
}

bool yk_lr_is_constant(const yk_optim_config *c)
{
    return c->schedule == YK_LR_CONSTANT && !c->warm_up;
}

static uint64_t warm_up_of(const yk_optim_config *c)
{
    return yk_lr_schedules[c->schedule].rises ? 0 : c->warm_up;
}

double yk_lr_at(const yk_optim_config *c, uint64_t step)
{
    const uint64_t t = c->first + step, w = warm_up_of(c);
    return t < w ? yk_lr_schedules[c->schedule].rate(c, 0.0) * (double)(t + 1) / (double)w
                 : yk_lr_schedules[c->schedule].rate(c, (double)(t - w));
}

/* Of the first n steps of the schedule. */
static double sum_to(const yk_optim_config *c, uint64_t n)
{
    const yk_lr_schedule_row *s = &yk_lr_schedules[c->schedule];
    const uint64_t w = warm_up_of(c), rising = n < w ? n : w;
    const double before =
        w ? s->rate(c, 0.0) * (double)rising * ((double)rising + 1.0) / (2.0 * (double)w) : 0.0;
    return n > w ? before + s->sum(c, (double)(n - w)) : before;
}

double yk_lr_sum(const yk_optim_config *c, uint64_t from, uint64_t to)
{
    return to > from ? sum_to(c, c->first + to) - sum_to(c, c->first + from) : 0.0;
}
