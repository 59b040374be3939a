#include "optim/optim.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

yk_optim_config yk_optim_defaults(yk_optim_kind kind)
{
    return (yk_optim_config){.kind = kind,
                             .lr = yk_optim_rule_of(kind)->lr,
                             .lr_decay_every = 1000,
                             .lr_decay = 0.1,
                             .momentum = 0.9,
                             .beta1 = 0.9,
                             .beta2 = 0.999,
                             .epsilon = yk_optim_rule_of(kind)->epsilon,
                             .ftrl_beta = 1.0};
}

const yk_optim_rule *yk_optim_rule_of(yk_optim_kind kind)
{
    return &YK_ISA_CHOOSE(yk_optim_rules)->rule[kind];
}

int yk_optim_kinds(void)
{
    return YK_ISA_CHOOSE(yk_optim_rules)->kinds;
}

yk_status yk_optim_find(const char *name, yk_optim_kind *out)
{
    char names[256] = "";
    for (int k = 0; k < yk_optim_kinds(); k++) {
        const char *known = yk_optim_rule_of(k)->name;
        if (strcmp(name, known) == 0) {
            *out = k;
            return YK_OK;
        }
        const size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", k ? ", " : "", known);
    }
    return yk_fail(YK_EUSAGE, "unknown --optimizer %s; choose %s", name, names);
}

yk_status yk_optim_check(const yk_optim_config *c)
{
    const yk_optim_rule *rule = yk_optim_rule_of(c->kind);
    if (!(c->lr >= 0.0) || !isfinite(c->lr))
        return yk_fail(YK_EUSAGE, "--lr %g must be 0 or more", c->lr);
    if (rule->derives && (float)c->lr == 0.0f)
        return yk_fail(YK_EUSAGE, "--lr %g must be above 0 for --optimizer %s, which divides by it", c->lr,
                       rule->name);
    if (!(c->l1 >= 0.0 && c->l2 >= 0.0) || !isfinite(c->l1 + c->l2))
        return yk_fail(YK_EUSAGE, "--l1 and --l2 must be 0 or more");
    if (!rule->normalizes && c->lr * c->l2 >= 1.0)
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
    if (yk_optim_rule_of(c->kind)->velocity == YK_VELOCITY_MEAN) {
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
    switch (yk_optim_rule_of(c->kind)->velocity) {
    case YK_VELOCITY_NONE:
        break;
    case YK_VELOCITY_SUM:
        o.lr /= 1.0 - o.momentum;
        o.momentum = 0.0;
        break;
    case YK_VELOCITY_MEAN:
        o.damping = 0.5 * o.beta1 / (1.0 - o.beta1) * (1.0 - o.beta2);
        o.beta1 = 0.0;
        break;
    }
    return o;
}

/* ftrl's z for a weight and n. Where the weight is zero, z stays within the threshold. */
void yk_optim_reconcile(const yk_optim_rule *rule, const yk_optim_step *o, const yk_view *v,
                        const uint32_t *key, size_t begin, size_t end)
{
    for (size_t i = begin; rule->derives && i < end; i++) {
        const size_t k = key ? key[i] : i;
        const float w = v->w[k], z = v->s[0][k], n = v->s[1][k];
        v->s[0][k] = w == 0.0f ? fminf(fmaxf(z, -o->l1), o->l1)
                               : -(w * ((o->ftrl_beta + sqrtf(n)) / o->lr + o->l2)) - copysignf(o->l1, w);
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
