/* Update rules: how a gradient changes the weights, and how workers' copies of them are merged.
 *
 * Example:
 *     const yk_optim_step o = yk_optim_at(&config, step); // learning rate and bias corrections of this step
 *     const yk_optim_rule *rule = yk_optim_rule_of(config.kind);
 *     rule->dense(&view, 0, n, g, 1.0f / examples, &o); // all weights; g is a sum over examples
 *     rule->pairs(&view, key, g, NULL, n, 8, 1.0f / examples, &o); // only these keys, with 8 floats per key
 *
 * kinds.h has the formulas. For all but ftrl, l1 is a soft threshold of lr * l1 after the step. A sparse update changes only the
 * keys of the batch, including their momentum, decay and thresholds. For sgd, the store later applies the decay that other
 * weights have missed (store/local_decay.c), so that they converge to the optimum of the regularized loss.
 *
 * Stale gradients (adagrad, rowwise-adagrad): others have changed w since it was read. B, the sum of their gradients, follows from
 * how far w has moved. s changes as if B and G were one gradient, and the steps of the others are revised accordingly
 * (AdaptiveRevision: McMahan, Streeter 2014):
 *
 *     B = (read - w) sqrt(s) / lr;  s' = max(s + G^2 + 2 G B, 0.9 s);  w += (lr / sqrt(s) - lr / sqrt(s')) B - lr G / sqrt(s')
 *
 * s may shrink: if G and B are noise, positive and negative products must cancel. s would otherwise grow by far too much.
 *
 * The functions are pure. The caller decides which threads may work on the same memory.
 */
#ifndef YK_OPTIM_OPTIM_H
#define YK_OPTIM_OPTIM_H

#include "base/status.h"
#include "core/optim_config.h"
#include "core/view.h"
#include "kern/isa.h"
#include "optim/schedule.h"

/* The parameters [begin, end) of a dense model, which have their own learning rate, e.g. biases. */
typedef struct {
    size_t begin, end;
    double lr; /* factor of the learning rate; 0: they do not change (not with ftrl, which divides by it) */
    double decay; /* factor of l1 and l2 */
} yk_optim_range;

/* The hyperparameters of one step. */
typedef struct {
    float lr, l1, l2, momentum, beta1, beta2, epsilon, ftrl_beta;
    float damping;            /* adam on copies: yk_optim_without_velocity(); 0: none */
    float correct1, correct2; /* adam: 1 / (1 - beta^t) */
} yk_optim_step;

/* How the copies of T workers are merged with a table. Each worker takes some steps on a copy of some weights, and then adds a
 * share alpha of its delta, new - old, to the table:
 *
 *     alpha = 1 / (1 + (T - 1) rho),  rho = x / (1 + x),  x = eta c |x|^1.5 (sum of the weight's squared inputs) / batch
 *
 * rho is how far each worker moves a weight on its way to the optimum. If each moves it all the way (rho near 1), the moves are
 * averaged, because their sum would overshoot T-fold. If each takes a small step, the moves are added. eta is the step size of
 * the weight, which the rule knows, and c the curvature of the loss. The weights of an example move together: a step is not
 * limited by the curvature of a single weight, but by the sum of its row of the Hessian (Gershgorin), |x|^2 times as much;
 * |x|^1.5 was the best that was tried (docs/experiments-log.md).
 *
 * With a small learning rate, a scale-free rule was too slow with this. It multiplies rho by h = (1 + u) / (2 + u),
 * u = (T - 1) x, which grows from 1/2 to 1: together, small moves then go about as far as those of one worker that took all of
 * these steps, 1 - e^-u of the way (docs/convergence.md). Other rules gained nothing from h. */
typedef struct {
    /* By weight: the sum of its squared inputs in the copy's examples, divided by `times` */
    const float *squares;
    float times;
    float less;  /* left out of the sum: a weight that was used once may be in no other copy */
    float one;   /* mean square of an input */
    float moves; /* c |x|^1.5 / batch */
    float steps; /* of the copy */
    int workers; /* T */
    const float *state[YK_MAX_SLOTS]; /* to which the delta of the state is added */
} yk_optim_share;

/* The curvature of the log-loss, p (1 - p), on average. */
#define YK_CURVATURE 0.2

/* A revision keeps at least this share of a sum of squares. */
#define YK_SUM_KEPT 0.9f

/* How the state of copies is merged. */
typedef enum {
    YK_MERGE_NONE, /* there is none */
    YK_MERGE_MEAN, /* a moving average: the mean of all copies */
    /* Like the weight. A sum of squared gradients: far from the optimum, T copies see the same gradients as one worker would, and
     * their sum would make steps too small for the rest of the run. */
    YK_MERGE_SUM,
    YK_MERGE_MEAN_SQUARE /* a moving average that moves by 1 - beta2 in each step with the weight: by how far it moved */
} yk_optim_merge;

/* What later steps repeat of a gradient. */
typedef enum {
    YK_VELOCITY_NONE,
    YK_VELOCITY_SUM, /* with the factor `momentum` */
    YK_VELOCITY_MEAN /* a moving mean with beta1, which is corrected by the number of the step */
} yk_optim_velocity;

/* An optimizer: its traits, which are all that other code knows about it, and its functions. */
typedef struct {
    const char *name;
    int slots; /* state floats per weight: 0, 1 or 2 */
    const char *slot_name[YK_MAX_SLOTS];
    yk_optim_merge slot_merge[YK_MAX_SLOTS];
    double lr, epsilon; /* defaults */
    bool plain;         /* w -= lr G, without state: gradients can be added to the weights in any order */
    bool normalizes;    /* its steps become smaller where gradients are large */
    bool accumulates;   /* its first slot is a sum of squares, which begins at yk_optim_config.initial */
    yk_optim_velocity velocity;
    /* Its steps do not depend on the size of gradients: the sum of m gradients moves as far as one, and stale gradients need no
     * warm-up (store/local_stale.c). */
    bool scale_free;
    bool derives;   /* the weight follows from its state, which divides by the learning rate */
    bool per_key;   /* one step size for the vector of a key */
    bool decoupled; /* l2 shrinks the weights by lr * l2 in each step, and is not part of the gradient */
    void (*dense)(const yk_view *v, size_t first, size_t n, const float *g, float scale,
                  const yk_optim_step *o);
    /* Keys with `width` floats each. read: the weights that a stale gradient was computed with, in the order of the keys, or NULL. */
    void (*pairs)(const yk_view *v, const uint32_t *key, const float *g, const float *read, size_t n,
                  size_t width, float scale, const yk_optim_step *o);
    /* Scales the deltas of weights first .. first + n - 1, and of their state, to the share that is added. delta:
     * [1 + slots][stride] */
    void (*scale)(const yk_optim_share *s, size_t first, size_t n, float *delta, size_t stride,
                  const yk_optim_step *o);
} yk_optim_rule;

typedef struct {
    const yk_optim_rule *rule; /* [YK_OPTIM_KINDS] */
} yk_optim_rules;

YK_ISA_DECLARE(yk_optim_rules, yk_optim_rules);

yk_optim_config yk_optim_defaults(yk_optim_kind kind);
const yk_optim_rule *yk_optim_rule_of(yk_optim_kind kind);
const char *yk_optim_name(int kind); /* NULL: there are fewer kinds */

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

/* After such deltas were added to weights and state: makes the state consistent with the weights (ftrl's z), for the keys
 * key[begin] .. key[end - 1]; if key is NULL, for the keys begin .. end - 1. */
void yk_optim_reconcile(const yk_optim_rule *rule, const yk_optim_step *o, const yk_view *v,
                        const uint32_t *key, size_t begin, size_t end);
#endif
