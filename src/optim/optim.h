/* Update rules: how a gradient changes the weights, and how the workers' copies of hot weights are merged.
 *
 * Example:
 *     const yk_optim_step o = yk_optim_at(&config, step); // learning rate and bias corrections of this step
 *     const yk_optim_rule *rule = yk_optim_rule_of(config.kind);
 *     rule->dense(&view, 0, n, g, 1.0f / examples, &o); // all weights; g is a sum over examples
 *     rule->pairs(&view, key, g, n, 1.0f / examples, &o); // only these keys
 *     rule->wide(&view, key, g, n, 8, 1.0f / examples, &o); // the same for vectors of 8 floats per key
 *
 * With G the mean gradient (plus l2 w), per weight:
 *
 *     sgd       w -= lr G
 *     momentum  v = mu v + G;                     w -= lr v
 *     adagrad   s += G^2;                         w -= lr G / (sqrt(s) + eps)               (Duchi et al. 2011)
 *     rowwise-adagrad  the same, but s += the mean of G^2 over the vector of a key: one step size for all of it. Its
 *               elements have equal s
 *     adam      m, v: moving means of G and G^2;  w -= lr m^ / (sqrt(v^) + eps)             (Kingma, Ba 2015)
 *     ftrl      z += G - w (sqrt(n + G^2) - sqrt(n)) / lr;  n += G^2
 *               w = 0 where |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / lr + l2)  (McMahan et al. 2013)
 *
 * For all but ftrl, l1 is a soft threshold of lr * l1 after the step. A sparse update changes only the keys of the batch,
 * including their momentum, decay and thresholds. For sgd, the store later applies the decay that other weights have missed
 * (store/decay.c), so that they converge to the optimum of the regularized loss.
 *
 * The functions are pure. The caller decides which threads may work on the same memory.
 */
#ifndef YK_OPTIM_OPTIM_H
#define YK_OPTIM_OPTIM_H

#include "base/optim_config.h"
#include "base/status.h"
#include "base/view.h"
#include "kern/isa.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The parameters [begin, end) of a dense model, which have their own learning rate, e.g. biases. */
typedef struct {
    size_t begin, end;
    double lr; /* factor of the learning rate; 0: they do not change (not with ftrl, which divides by it) */
    double decay; /* factor of l1 and l2 */
} yk_optim_range;

/* The hyperparameters of one step. */
typedef struct {
    float lr, l1, l2, momentum, beta1, beta2, epsilon, ftrl_beta;
    float damping;
    float correct1, correct2; /* adam: 1 / (1 - beta^t) */
} yk_optim_step;

/* Merges a worker's copy of hot weights with the shared table:
 *
 *     delta = mine - base;  shared += alpha delta;  mine = base = shared
 *
 * alpha = 1 / (1 + (T - 1) rho), rho = x / (1 + x), x = eta moves f: how far each of T workers moves a weight between two
 * merges. If each moves it all the way to its optimum (rho near 1), the moves are averaged, because their sum would overshoot
 * T-fold. If each takes a small step, the moves are added. With a small learning rate, adam was too slow with this rule. It
 * multiplies rho by h = (1 + u) / (2 + u), u = (T - 1) x, which grows from 1/2 to 1: together, small moves then go about as far
 * as those of one worker that took all of these steps, 1 - e^-u of the way (docs/convergence.md). Other optimizers gained
 * nothing from h, and deepfm with adagrad lost 0.016. eta is the step size of the weight, which the rule knows. The
 * weights of an example move together: a step is not limited by the curvature of a single weight, c f, but by the sum of its
 * row of the Hessian (Gershgorin), at most c f |x|^2. With c f alone, 8 workers diverged on clicks with 39 entries; with the
 * full bound, mini-batches lost a little; |x|^1.5 was the best that was tried (docs/performance.md). */
typedef struct {
    const yk_view *mine;           /* a view with copies of keys below mine->hot */
    float *base[1 + YK_MAX_SLOTS]; /* the copies after the last merge: w, s0, s1 */
    const float *freq; /* expected sum of squared values per example, by key; NULL: `flat` for all */
    float flat;
    float moves;           /* steps since the last merge * curvature c * (mean |x|^2)^0.75 */
    float steps, examples; /* since the last merge */
    int workers;           /* T */
} yk_optim_merge;

/* The curvature of the log-loss, p (1 - p), on average. */
#define YK_CURVATURE 0.2

/* The same for a shared table in another process: the share of a copy's delta that is sent there and added. */
typedef struct {
    /* By key: sum of its squared values in the copy's examples; NULL: the share is 1 / workers. */
    const float *squares;
    float one;     /* mean square of a value: that of a key which occurred once, perhaps only in this copy */
    size_t width;  /* floats per key */
    float moves;   /* curvature c * (mean |x|^2)^0.75 / examples of a step */
    float steps;   /* of the copy */
    int workers;   /* T */
    yk_view state; /* before the steps of the copy */
} yk_optim_share;

/* An optimizer: its traits, which are all that other code knows about it, and its functions. */
typedef struct {
    const char *name;
    int slots; /* state floats per weight: 0, 1 or 2 */
    const char *slot_name[YK_MAX_SLOTS];
    bool plain;      /* w -= lr G, without state: gradients can be added to the weights in any order */
    bool normalizes; /* its steps become smaller where gradients are large */
    bool
        accumulates; /* its first slot is a sum of squares, which may begin above 0 (yk_optim_config.initial) */
    bool velocity;   /* later steps repeat a gradient with the factor `momentum` */
    bool corrects;   /* its hyperparameters depend on the number of the step */
    bool
        scale_free; /* its steps do not depend on the size of gradients: the sum of m gradients moves as far as one */
    bool derives;  /* the weight follows from its state, which divides by the learning rate */
    bool warms_up; /* with stale gradients, its first steps must be smaller (store/stale.c) */
    void (*dense)(const yk_view *v, size_t first, size_t n, const float *g, float scale,
                  const yk_optim_step *o);
    void (*pairs)(const yk_view *v, const uint32_t *key, const float *g, size_t n, float scale,
                  const yk_optim_step *o);
    void (*wide)(const yk_view *v, const uint32_t *key, const float *g, size_t n, size_t width, float scale,
                 const yk_optim_step *o); /* pairs() for `width` floats per key */
    void (*merge)(const yk_optim_merge *m, uint32_t first, uint32_t n, const yk_optim_step *o);
} yk_optim_rule;

typedef struct {
    yk_optim_rule rule[YK_OPTIM_KINDS];
} yk_optim_rules;

YK_ISA_DECLARE(yk_optim_rules, yk_optim_rules);

yk_optim_config yk_optim_defaults(yk_optim_kind kind);
const yk_optim_rule *yk_optim_rule_of(yk_optim_kind kind);
yk_status yk_optim_find(const char *name, yk_optim_kind *out);

/* YK_EUSAGE, with the reason, if a value is invalid. */
yk_status yk_optim_check(const yk_optim_config *c);

/* For copies without a staleness bound: applies the whole effect of a gradient immediately, instead of adding it to a velocity
 * that later steps follow. If T copies applied the same velocity at the same time, it would be applied T times, and the
 * weights would oscillate. momentum becomes sgd with lr / (1 - mu); adam has beta1 = 0. The mean step is the same.
 *
 * The first gradients of a rare key need care: with g^2 (1 - beta2) as the mean square, the whole effect of the first one would
 * be 32 lr, which adam with velocity takes ten steps to reach. So adam's step is divided by 1 + damping g^2 / v: the first
 * step of a key is about 6 lr, and after a hundred steps there is hardly any difference. */
yk_optim_config yk_optim_without_velocity(const yk_optim_config *c);

/* Steps are counted from 0. */
yk_optim_step yk_optim_at(const yk_optim_config *c, uint64_t step);

/* The hyperparameters of parameter `at`, which apply up to parameter *end_out. Ranges ascend and do not overlap. */
yk_optim_step yk_optim_in_range(const yk_optim_step *o, const yk_optim_range *range, size_t n, size_t at,
                                size_t *end_out);

/* delta: of n weights and of their state, [1 + slots][n]. Scales it to the share that is added. */
void yk_optim_scale(yk_optim_kind kind, const yk_optim_step *o, const yk_optim_share *s, size_t n,
                    float *delta);

/* After such deltas were added to weights and state: makes the state consistent with the weights (ftrl's z), for the keys
 * key[begin] .. key[end - 1]; if key is NULL, for the keys begin .. end - 1. */
void yk_optim_reconcile(yk_optim_kind kind, const yk_optim_step *o, const yk_view *v, const uint32_t *key,
                        size_t begin, size_t end, size_t width);

/* The sum of the learning rates of steps from .. to - 1. */
double yk_optim_lr_sum(const yk_optim_config *c, uint64_t from, uint64_t to);

#endif
