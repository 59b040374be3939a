/* Copies: a worker takes some steps on a copy of some parameters and of their optimizer state, and then merges it: the delta of
 * the copy, new - old, is added to the table that it was taken from.
 *
 *     the table                                       a copy of these parameters
 *     yk_copy_read(table, g, &keys, .., v)    ---->   yk_copy_begin(copy, n, v, steps)
 *                                                     pull, grad, push, clock;  pull, grad, push, clock; ...
 *     yk_copy_add(table, g, &keys, v, ..)     <----   yk_copy_end(copy, n, v)                 v now holds deltas
 *
 *                          the copies of          have                               are merged
 *     local SGD            processes              all parameters, or some keys       after H steps of all: the weighted mean
 *                          asynchronous           the same                           after H steps of one: 1/N of its delta
 *     shards.h             threads of processes   the keys of some batches           when they are A examples old: a share
 *     local_hot.c          threads of a process   the hottest keys, in place         when they are A examples old: a share
 *
 * The share follows from the optimizer (optim/optim.h). Both are stores of one process (local.h); g is a parameter group. A copy of
 * a keyed group has just the keys of these steps, numbered 0 .. n - 1. The optimizer's state is a part of copies, so that
 * the table is all there is to save. Values are blocks of a group's arrays, one after the other, each with `width` floats per key:
 *
 *     | weights [n][width] | state 0 [n][width] | state 1 [n][width] |     as many as the optimizer has
 *
 * Adding the deltas of N workers in full, as Downpour SGD adds gradients (Dean et al. 2012), overshoots: N - 1 others meanwhile
 * make the same move from the same point. If each move covers 0.62 of the way to the optimum, three workers diverge (docs/convergence.md).
 *
 * With lazy decay (local_decay.c), a delta is the difference from what decay alone would have made of the weight in the meantime.
 * It is added to the decayed weight in the table: decay counts once, no matter how many workers used the weight.
 *
 * One thread calls these functions, while no worker is in a call of the store. Several threads may read, add and reconcile at
 * the same time if their keys are different.
 */
#ifndef YK_STORE_LOCAL_COPY_H
#define YK_STORE_LOCAL_COPY_H

#include "store/local.h"

float *yk_copy_array(yk_local *s, int group, int number); /* 0: the weights; then the optimizer's state */

/* Keys begin .. end - 1 of a list of keys, each once (NULL: of 0, 1, ..., for a dense group). `stride`: the distance between
 * the arrays of their values, in keys, at least the length of the list. */
typedef struct {
    const uint32_t *key;
    size_t begin, end, stride;
} yk_copy_keys;

/* The first `arrays` arrays of these keys, with pending decay applied. */
void yk_copy_read(yk_local *s, int group, const yk_copy_keys *k, int arrays, float *out);

/* Creates *copy, or replaces it if it has too little memory for `keys` keys. config: of all parameters. */
yk_status yk_copy_make(const yk_local_config *config, size_t keys, yk_local **copy, size_t *capacity);

/* Sets a copy to the values of each group, which are the result of `steps` steps. Keyed groups: keys 0 .. keys - 1. */
void yk_copy_begin(yk_local *copy, size_t keys, float *const *values, uint64_t steps);
/* Replaces these values with their deltas. The copy gets the old values again. */
void yk_copy_end(yk_local *copy, size_t keys, float *const *values);

/* What one of n copies is multiplied by before they are added and divided by n: the mean is then weighted by examples, as the mean
 * of a gradient is. n: those with examples. weight, all: the weights of its examples, and of those of all copies. */
static inline float yk_copy_factor(double weight, double all, int n)
{
    return all > 0.0 ? (float)(weight * n / all) : 1.0f;
}

/* Adds the sum of the deltas of `workers` workers, divided by their number, to a store that will be at step `now`. 0: a delta that
 * was scaled to its share (yk_optim_rule.scale). After all groups, call yk_local_restore(s, now). */
void yk_copy_add(yk_local *s, int group, const yk_copy_keys *k, const float *deltas, int workers,
                 uint64_t now);

#endif
