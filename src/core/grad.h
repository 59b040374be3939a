/* A gradient as a model passes it to a store: sums over the examples of one batch. The store computes the mean.
 *
 *     dense group               one float per parameter
 *     keyed, one float per key  the rows of the batch, each with a factor: the gradient of a linear model
 *     keyed                     keys with their values, each key once
 *
 * A store that only adds rows to the weights does so row by row. One that needs each key once merges the rows first
 * (yk_grad_merge). Plain data; everything is borrowed until the next gradient of the worker.
 */
#ifndef YK_CORE_GRAD_H
#define YK_CORE_GRAD_H

#include "base/team.h"
#include "core/group.h"
#include "core/keys.h"
#include "core/rows.h"

/* The gradient of one parameter group (group.h). */
typedef struct {
    float *dense;     /* [parameters] of a dense group; NULL: a keyed group */
    yk_batch rows;    /* keyed, one float per key: the sum over i of err[i] * row i */
    const float *err; /* [rows.n] */
    bool bias;        /* key bias_key gets the sum of err */
    uint32_t bias_key;
    const yk_merger *pairs; /* keyed: keys and their values, each key once, instead of rows; NULL: rows */
    const float *read;      /* [pairs->n][width] the parameters that it was computed with; NULL: not known */
} yk_group_grad;

typedef struct {
    size_t examples;
    uint64_t steps; /* how many steps' gradients this is the sum of; 0: one */
    /* The sum of the weights minus `examples`, so that it is 0 without weights. The store divides by the sum of the weights. */
    double extra_weight;
    double loss;      /* summed over the examples, each times its weight */
    yk_status status; /* not YK_OK: there is no gradient (out of memory) */
    const struct yk_stale_mark
        *read_at; /* the parameters that it was computed with (store/local.h); NULL: it is not stale */
    float clip;   /* its factor (--clip-norm), if that is known; 0: the store limits the norm */
    yk_thread_pool *pool; /* threads that can help to apply it; NULL: none */
    yk_group_grad group[YK_MAX_GROUPS];
} yk_grad;

/* The factor that makes the mean of a gradient from its sum. weights: their sum. If all weights are 0, so is the gradient. */
static inline float yk_grad_factor(double weights, uint64_t steps)
{
    return weights > 0.0 ? (float)(steps > 1 ? steps : 1) / (float)weights : 0.0f;
}

/* Replaces the contents of `m` with the (key, value) pairs of a gradient of rows, each key once. add: yk_merger_add_all(), or a
 * faster function for these rows (kern/linear.h). */
typedef void (*yk_merger_add_fn)(yk_merger *m, const uint32_t *key, const float *value, float scale,
                                 size_t n);
yk_status yk_grad_merge(const yk_group_grad *g, yk_merger *m, yk_merger_add_fn add);
/* sum[key] += the gradient of rows: the same bits as yk_grad_merge(). */
void yk_grad_add(const yk_group_grad *g, float *sum);

/* The sum of the squares of n floats. */
double yk_squares(const float *x, size_t n);

/* The factor of a gradient with this sum of squares, so that the norm of its mean is at most `max`. weights: as above. As
 * clip_grad_norm_ of PyTorch. */
float yk_clip_factor(double squares, double weights, double max);

#endif
