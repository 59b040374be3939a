#include "optim/optim.h"

#include "optim/step_size.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

yk_optim_config yk_optim_defaults(yk_optim_kind kind)
{
    static const double lr[] = {[YK_SGD] = 0.1,    [YK_MOMENTUM] = 0.01, [YK_ADAGRAD] = 0.05,
                                [YK_ADAM] = 0.001, [YK_FTRL] = 0.1,      [YK_ROWWISE] = 0.05};
    _Static_assert(sizeof lr == YK_OPTIM_KINDS * sizeof *lr, "every optimizer has a default");
    return (yk_optim_config){.kind = kind,
                             .lr = lr[kind],
                             .lr_decay_every = 1000,
                             .lr_decay = 0.1,
                             .momentum = 0.9,
                             .beta1 = 0.9,
                             .beta2 = 0.999,
                             .epsilon = kind == YK_ADAM ? 1e-8 : 1e-10,
                             .ftrl_beta = 1.0};
}

const yk_optim_rule *yk_optim_rule_of(yk_optim_kind kind)
{
    return &YK_ISA_CHOOSE(yk_optim_rules)->rule[kind];
}

yk_status yk_optim_find(const char *name, yk_optim_kind *out)
{
    for (int k = 0; k < YK_OPTIM_KINDS; k++)
        if (strcmp(name, yk_optim_rule_of((yk_optim_kind)k)->name) == 0) {
            *out = (yk_optim_kind)k;
            return YK_OK;
        }
    return yk_fail(YK_EUSAGE,
                   "unknown --optimizer %s; choose sgd, momentum, adagrad, rowwise-adagrad, ftrl or adam",
                   name);
}

yk_status yk_optim_check(const yk_optim_config *c)
{
    if (!(c->lr >= 0.0) || !isfinite(c->lr))
        return yk_fail(YK_EUSAGE, "--lr %g must be 0 or more", c->lr);
    if (c->kind == YK_FTRL && (float)c->lr == 0.0f)
        return yk_fail(YK_EUSAGE, "--lr %g must be above 0 for --optimizer ftrl, which divides by it", c->lr);
    if (!(c->l1 >= 0.0 && c->l2 >= 0.0) || !isfinite(c->l1 + c->l2))
        return yk_fail(YK_EUSAGE, "--l1 and --l2 must be 0 or more");
    if ((c->kind == YK_SGD || c->kind == YK_MOMENTUM) && c->lr * c->l2 >= 1.0)
        return yk_fail(YK_EUSAGE,
                       "--lr %g times --l2 %g is 1 or more: every step would flip the signs of the weights; "
                       "lower one of them",
                       c->lr, c->l2);
    if (!(c->momentum >= 0.0 && c->momentum < 1.0))
        return yk_fail(YK_EUSAGE, "--momentum %g must be at least 0 and less than 1", c->momentum);
    if (c->schedule == YK_LR_STEP && !(c->lr_decay > 0.0 && c->lr_decay <= 1.0))
        return yk_fail(YK_EUSAGE, "--lr-decay %g must be above 0 and at most 1 with --lr-schedule step",
                       c->lr_decay);
    if (c->schedule == YK_LR_STEP && c->lr_decay_every == 0)
        return yk_fail(YK_EUSAGE, "--lr-decay-every must be 1 or more steps");
    if (c->schedule == YK_LR_INVERSE && !(c->lr_decay >= 0.0))
        return yk_fail(YK_EUSAGE, "--lr-decay %g must be 0 or more", c->lr_decay);
    return YK_OK;
}

yk_optim_step yk_optim_at(const yk_optim_config *c, uint64_t step)
{
    double lr = c->lr;
    if (c->schedule == YK_LR_STEP)
        lr *= pow(c->lr_decay, (double)(step / c->lr_decay_every));
    else if (c->schedule == YK_LR_INVERSE)
        lr /= 1.0 + c->lr_decay * (double)step;
    yk_optim_step o = {.lr = (float)lr,
                       .l1 = (float)c->l1,
                       .l2 = (float)c->l2,
                       .momentum = (float)c->momentum,
                       .beta1 = (float)c->beta1,
                       .beta2 = (float)c->beta2,
                       .epsilon = (float)c->epsilon,
                       .ftrl_beta = (float)c->ftrl_beta,
                       .damping = (float)c->damping,
                       .correct1 = 1.0f,
                       .correct2 = 1.0f};
    if (c->kind == YK_ADAM) {
        double t = (double)(c->earlier + step) + 1.0;
        o.correct1 = (float)(1.0 / (1.0 - pow(c->beta1, t)));
        o.correct2 = (float)(1.0 / (1.0 - pow(c->beta2, t)));
    }
    return o;
}

yk_optim_step yk_optim_in_range(const yk_optim_step *o, const yk_optim_range *range, size_t n, size_t at,
                                size_t *end_out)
{
    yk_optim_step own = *o;
    *end_out = SIZE_MAX;
    while (n && at >= range->end)
        range++, n--;
    if (n && at < range->begin) {
        *end_out = range->begin;
    } else if (n) {
        own.lr *= (float)range->lr;
        own.l1 *= (float)range->decay;
        own.l2 *= (float)range->decay;
        *end_out = range->end;
    }
    return own;
}

yk_optim_config yk_optim_without_velocity(const yk_optim_config *c)
{
    yk_optim_config o = *c;
    if (o.kind == YK_MOMENTUM) {
        o.lr /= 1.0 - o.momentum;
        o.momentum = 0.0;
    }
    if (o.kind == YK_ADAM) {
        o.damping = 0.5 * o.beta1 / (1.0 - o.beta1) * (1.0 - o.beta2);
        o.beta1 = 0.0;
    }
    return o;
}

/* sgd with one float per key: alpha = 1 / (1 + (T - 1) x / (1 + x)) = (1 + x) / (1 + T x), in a form that the compiler can
 * vectorize. */
static void scale_sgd(const float *restrict squares, float one, float moves, float workers, size_t n,
                      float *restrict delta)
{
    for (size_t i = 0; i < n; i++) {
        const float often = squares[i] - one, x = moves * (often > 0.0f ? often : 0.0f);
        delta[i] *= (1.0f + x) / (1.0f + workers * x);
    }
}

void yk_optim_scale(yk_optim_kind kind, const yk_optim_step *o, const yk_optim_share *s, size_t n,
                    float *delta)
{
    const int slots = yk_optim_rule_of(kind)->slots;
    const float others = (float)(s->workers - 1), share = 1.0f / (float)s->workers;
    if (s->squares && kind == YK_SGD && s->width == 1) {
        scale_sgd(s->squares, s->one, o->lr * s->moves, (float)s->workers, n, delta);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        float state[YK_MAX_SLOTS] = {0}, alpha = share, square_share = share;
        for (int j = 0; j < slots; j++)
            state[j] = s->state.s[j][i] + delta[(size_t)(j + 1) * n + i];
        if (s->squares) {
            const float often = fmaxf(0.0f, s->squares[i / s->width] - s->one);
            const float x = yk__step_size(kind, state[0], state[1], o) * s->moves * often;
            alpha = yk__merged_share(kind, x, others);
            square_share = yk__mean_square_share(fminf(s->steps, often / s->one), others, o);
        }
        delta[i] *= alpha;
        for (int j = 0; j < slots; j++) {
            const bool is_mean_square = kind == YK_ADAM && j == 1;
            delta[(size_t)(j + 1) * n + i] *= yk__sums_squares(kind) ? alpha
                                              : is_mean_square       ? square_share
                                                                     : share;
        }
    }
}

void yk_optim_reconcile(yk_optim_kind kind, const yk_optim_step *o, const yk_view *v, const uint32_t *key,
                        size_t begin, size_t end, size_t width)
{
    for (size_t i = begin; kind == YK_FTRL && i < end; i++)
        for (size_t j = 0; j < width; j++) {
            const size_t at = (key ? key[i] : i) * width + j;
            v->s[0][at] = yk__ftrl_z(v->w[at], v->s[0][at], v->s[1][at], o);
        }
}

/* Of steps 0 .. n - 1. For the inverse schedule it is the integral, which is accurate to one step. */
static double lr_sum_to(const yk_optim_config *c, uint64_t n)
{
    if (c->schedule == YK_LR_STEP && c->lr_decay < 1.0) {
        uint64_t periods = n / c->lr_decay_every;
        double factor = pow(c->lr_decay, (double)periods);
        return c->lr * ((double)c->lr_decay_every * (1.0 - factor) / (1.0 - c->lr_decay) +
                        (double)(n % c->lr_decay_every) * factor);
    }
    if (c->schedule == YK_LR_INVERSE && c->lr_decay > 0.0)
        return c->lr / c->lr_decay * log1p(c->lr_decay * (double)n);
    return c->lr * (double)n;
}

double yk_optim_lr_sum(const yk_optim_config *c, uint64_t from, uint64_t to)
{
    return to > from ? lr_sum_to(c, to) - lr_sum_to(c, from) : 0.0;
}
