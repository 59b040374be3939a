#include "optim/optim.h"

#include "optim/kinds.h"
#include <math.h>

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

const char *yk_optim_name(int kind)
{
    return kind < YK_OPTIM_KINDS ? yk_optim_rule_of(kind)->name : NULL;
}

static yk_status check_parameters(const yk_optim_config *c)
{
    if (!(c->momentum >= 0.0 && c->momentum < 1.0))
        return yk_fail(YK_EUSAGE, "--momentum %g must be at least 0 and less than 1", c->momentum);
    if (!(c->beta1 >= 0.0 && c->beta1 < 1.0 && c->beta2 >= 0.0 && c->beta2 < 1.0))
        return yk_fail(YK_EUSAGE, "--adam-betas %g,%g: each must be at least 0 and less than 1", c->beta1,
                       c->beta2);
    if (!(c->epsilon >= 0.0) || !isfinite(c->epsilon))
        return yk_fail(YK_EUSAGE, "--epsilon %g must be 0 or more", c->epsilon);
    return YK_OK;
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
    if ((!rule->normalizes || rule->decoupled) && c->lr * c->l2 >= 1.0)
        return yk_fail(YK_EUSAGE,
                       "--lr %g times --l2 %g is 1 or more: every step would flip the signs of the weights; "
                       "lower one of them",
                       c->lr, c->l2);
    if (rule->derives && yk_lr_schedules[c->schedule].needs_length && c->lr_decay == 0.0)
        return yk_fail(
            YK_EUSAGE,
            "--optimizer %s divides by the learning rate, which --lr-schedule %s reduces to 0: set "
            "--lr-decay above 0",
            rule->name, yk_lr_schedules[c->schedule].name);
    const yk_status st = check_parameters(c);
    return st ? st : yk_lr_check(c);
}

yk_optim_step yk_optim_at(const yk_optim_config *c, uint64_t step)
{
    yk_optim_step o = {.lr = (float)yk_lr_at(c, step),
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
