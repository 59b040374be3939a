/* Deltas: how steps on a copy have changed parameters and their optimizer state.
 *
 * In local SGD, a worker trains on its own copy for some steps. It then sends the delta of that copy to the owner of the
 * parameters (a server), or to all other workers (replicas).
 *
 *     owner of the parameters: a table                 worker: a copy of these parameters
 *     yk_delta_read(table, g, &keys, .., v)    ---->   yk_delta_begin(copy, n, v, steps)
 *                                                      pull, grad, push, clock;  pull, grad, push, clock; ...
 *     yk_delta_add(table, g, &keys, v, ..)     <----   yk_delta_end(copy, n, v)                v now holds deltas
 *
 * Both are stores of one process (local.h); g is a parameter group. A copy of a keyed group has just the keys of these steps,
 * numbered 0 .. n - 1. The optimizer's state is sent too, so that the table is all there is to save.
 *
 * Values are blocks of a group's arrays, one after the other, each with `width` floats per key:
 *
 *     | weights [n][width] | state 0 [n][width] | state 1 [n][width] |     as many as the optimizer has
 *
 * How the deltas of N workers are added, to weights and state alike:
 *
 *     synchronous    their mean, once all have arrived
 *     asynchronous   1/N of each as it arrives. Adding deltas in full, as Downpour SGD adds gradients (Dean et al. 2012),
 *                    overshoots: in a few steps a worker moves a weight by a fraction rho of the distance to the optimum of
 *                    its data, and N - 1 others meanwhile make the same move from the same point. The distance x then
 *                    follows x <- x - rho x', with x' its value N - 1 updates ago. With three workers that diverges for
 *                    rho >= 0.62; with rho / N it never does. Moving averages of the optimizer, which forget everything
 *                    within a few steps, have rho = 1.
 *
 * Test loss of 3 workers with sgd at one learning rate, the median of five seeds and their range (smaller rates, which
 * may tolerate full deltas, were not tried):
 *
 *                                       H    in full               1/N                    synchronous
 *     softmax, MNIST, lr 0.5            4    0.63 (0.54 - 0.72)    0.316 (0.298 - 0.330)   0.323
 *                                      64    4.9  (4.0 - 16)       0.353 (0.318 - 0.428)   0.341
 *     logreg, synthetic clicks, lr 0.3  4    0.460                 0.456                   0.456
 *                                      64    1.7  (0.49 - 3.0)     0.457                   0.456
 *
 * With lazy decay (decay.c), a delta is the difference from what decay alone would have made of the weight in the meantime.
 * It is added to the decayed weight in the table: decay counts once, no matter how many workers used the weight.
 *
 * One thread calls these functions, while no worker is in a call of the store. Several threads may read, add and reconcile at
 * the same time if their keys are different.
 */
#ifndef YK_STORE_DELTA_H
#define YK_STORE_DELTA_H

#include "base/keys.h"
#include "store/local.h"

int yk_delta_arrays(const yk_local *s, int group); /* the weights, and the optimizer's state */
float *yk_delta_array(yk_local *s, int group, int number);

/* Keys begin .. end - 1 of a list of keys, each once (NULL: of 0, 1, ..., for a dense group). `stride`: the distance between
 * the arrays of their values, in keys, at least the length of the list. */
typedef struct {
    const uint32_t *key;
    size_t begin, end, stride;
} yk_delta_keys;

/* The first `arrays` arrays of these keys, with pending decay applied. */
void yk_delta_read(yk_local *s, int group, const yk_delta_keys *k, int arrays, float *out);

/* Creates *copy, or replaces it if it has too little memory for `keys` keys. config: of all parameters. */
yk_status yk_delta_make_copy(const yk_local_config *config, size_t keys, yk_local **copy, size_t *capacity);

/* Sets a copy to the values of each group, which are the result of `steps` steps. Keyed groups: keys 0 .. keys - 1. */
void yk_delta_begin(yk_local *copy, size_t keys, float *const *values, uint64_t steps);
/* Replaces these values with their deltas. The copy gets the old values again. */
void yk_delta_end(yk_local *copy, size_t keys, float *const *values);

/* The same for some keys of a group of any store (NULL: keys 0 .. n - 1). since[i]: the step up to which the old value of key i
 * was decayed; NULL: the first step of the copy. */
void yk_delta_extract(yk_local *s, int group, const uint32_t *key, size_t n, const uint32_t *since,
                      float *values);

/* Adds the sum of the deltas of `workers` workers, divided by their number, to a store that will be at step `now`. After all
 * groups, call yk_local_restore(s, now). */
void yk_delta_add(yk_local *s, int group, const yk_delta_keys *k, const float *deltas, int workers,
                  uint64_t now);

/* After scaled deltas (copies.h) were added: makes the optimizer's state consistent with the weights. */
void yk_delta_reconcile(yk_local *s, int group, const yk_delta_keys *k);

/* ---- the sum of several deltas or gradients, each key once, in the order in which they are added ---- */

typedef struct {
    int ngroups;
    struct {
        int arrays; /* 0: the group is not keyed, or the store has no keys of it */
        uint32_t width;
        float *sum; /* [arrays][capacity][width] */
        size_t cap;
    } group[YK_MAX_GROUPS];
    yk_merger keys;
    size_t capacity;
} yk_delta_sums;

/* For the keyed groups of `s`: all arrays of each, or the weights only. */
yk_status yk_delta_sums_init(yk_delta_sums *d, const yk_local *s, bool all_arrays);
void yk_delta_sums_fini(yk_delta_sums *d);
/* Empties it; reserves memory for `keys` keys. */
yk_status yk_delta_sums_reserve(yk_delta_sums *d, size_t keys);

/* block[g]: [arrays][n][width] of a keyed group; not used for others */
void yk_delta_sums_add(yk_delta_sums *d, const uint32_t *key, size_t n, const float *const *block);

#endif
