/* Reference implementation of the update rules of optim.h, in doubles, and helpers for their tests.
 *
 *     EACH_ISA(isa) EACH_KIND(kind) {
 *         weight p = {w, s0, s1};
 *         reference_update(kind, &p, g, &step);              // one step of the reference
 *         assert_weight(&got, &p, 1e-6, name, isa, i);
 *     }
 */
#ifndef YK_TESTS_REFERENCE_OPTIM_H
#define YK_TESTS_REFERENCE_OPTIM_H

#include "scratch.h"

#include "base/rng.h"
#include "optim/kinds.h"
#include "optim/optim.h"
#include <math.h>
#include <stdbool.h>

static yk_rng random_state;

static inline float uniform(double low, double high)
{
    return (float)(low + (high - low) * yk_rng_unit(&random_state));
}

#define EACH_ISA(isa)   for (yk_isa isa = YK_ISA_BASE; isa <= yk_isa_best(); isa++)
#define EACH_KIND(kind) for (yk_optim_kind kind = YK_SGD; kind < YK_OPTIM_KINDS; kind++)

static inline const yk_optim_rule *rule_of(yk_isa isa, yk_optim_kind kind)
{
    return &YK_ISA_AT(yk_optim_rules, isa)->rule[kind];
}

static inline void assert_close(double got, double expected, double bound, const char *what, const char *rule,
                                yk_isa isa, size_t i)
{
    if (!(fabs(got - expected) <= bound))
        fail_msg("%s of %s, %s, number %zu: %.9g is not %.9g (to %.2g)", what, rule, yk_isa_name(isa), i, got,
                 expected, bound);
}

/* ---- one weight, with the formulas of the header */

typedef struct {
    double w, s0, s1;
} weight;

static inline double soft_threshold(double w, double by)
{
    return fabs(w) <= by ? 0 : w > 0 ? w - by : w + by;
}

static inline double ftrl_weight(double z, double n, const yk_optim_step *o)
{
    double l1 = (double)o->l1;
    if (fabs(z) <= l1)
        return 0;
    return -(z - copysign(l1, z)) / (((double)o->ftrl_beta + sqrt(n)) / (double)o->lr + (double)o->l2);
}

static inline void reference_update(yk_optim_kind kind, weight *p, double g, const yk_optim_step *o)
{
    const double lr = (double)o->lr, b1 = (double)o->beta1, b2 = (double)o->beta2;
    if (kind == YK_ADAMW)
        p->w -= lr * (double)o->l2 * p->w;
    else if (kind != YK_FTRL)
        g += (double)o->l2 * p->w;
    if (kind == YK_SGD) {
        p->w -= lr * g;
    } else if (kind == YK_MOMENTUM) {
        p->s0 = (double)o->momentum * p->s0 + g;
        p->w -= lr * p->s0;
    } else if (kind == YK_NESTEROV) {
        p->s0 = (double)o->momentum * p->s0 + g;
        p->w -= lr * (g + (double)o->momentum * p->s0);
    } else if (kind == YK_ADAGRAD || kind == YK_ROWWISE) { /* of one float per key */
        p->s0 += g * g;
        p->w -= lr * g / (sqrt(p->s0) + (double)o->epsilon);
    } else if (kind == YK_ADAM || kind == YK_ADAMW) {
        p->s0 = b1 * p->s0 + (1 - b1) * g;
        p->s1 = b2 * p->s1 + (1 - b2) * g * g;
        const double v = p->s1 * (double)o->correct2,
                     damped = o->damping > 0 ? 1 + (double)o->damping * g * g / v : 1;
        p->w -= lr * p->s0 * (double)o->correct1 / (sqrt(v) + (double)o->epsilon) / damped;
    } else if (kind == YK_FTRL) {
        p->s0 += g - p->w * (sqrt(p->s1 + g * g) - sqrt(p->s1)) / lr;
        p->s1 += g * g;
        p->w = ftrl_weight(p->s0, p->s1, o);
        return;
    } else {
        fail_msg("no definition of %s", yk_optim_rule_of(kind)->name);
    }
    p->w = soft_threshold(p->w, lr * (double)o->l1);
}

static inline void assert_weight(const weight *got, const weight *expected, double bound, const char *rule,
                                 yk_isa isa, size_t i)
{
    assert_close(got->w, expected->w, bound, "weight", rule, isa, i);
    assert_close(got->s0, expected->s0, bound * (1 + fabs(expected->s0)), "first state", rule, isa, i);
    assert_close(got->s1, expected->s1, bound * (1 + fabs(expected->s1)), "second state", rule, isa, i);
}

static inline yk_optim_config config_of(yk_optim_kind kind, int penalties)
{
    yk_optim_config c = yk_optim_defaults(kind);
    c.lr = 0.1;
    c.l1 = penalties & 1 ? 0.3 : 0;
    c.l2 = penalties & 2 ? 0.2 : 0;
    return c;
}

#endif
