/* Deltas: what steps that were made elsewhere did to parameters and to their optimizer state.
 *
 * For local SGD: a worker trains on a copy of its own for some steps. What it sends to where the parameters are (a
 * server), or to all others (replicas), is how that copy has changed.
 *
 *     where the parameters are: a table               elsewhere: a copy of these parameters
 *     yk_delta_read(table, g, key, n, v)      ---->   yk_delta_begin(copy, g, n, v, steps)
 *                                                     pull, grad, push, clock;  pull, grad, push, clock; ...
 *     yk_delta_add(table, g, key, n, v, ..)   <----   yk_delta_take(copy, g, NULL, n, NULL, v)     v holds deltas now
 *
 * Both are stores of one process (local.h); g is a parameter group. A copy of a keyed group has just the keys of these
 * steps, as numbers 0 .. n - 1. The optimizer's state travels too, so that the table is all there is to save.
 *
 * Values lie in blocks of a group's arrays, one after the other, each with `width` floats per key:
 *
 *     | weights [n][width] | state 0 [n][width] | state 1 [n][width] |     as far as there is such state
 *
 * What is added of the deltas of N workers, to weights and state alike:
 *
 *     synchronous    their mean, once all are here: what replicas do, which have all parameters
 *     asynchronous   1/N of each as it comes. Why not all of it, as of a gradient (Downpour SGD, Dean et al. 2012)? In
 *                    some steps a worker goes a good part rho of the way to where its data pulls a weight, and N - 1
 *                    others go the same way from the same point meanwhile. The distance x then follows x <- x - rho x',
 *                    x' what it was N - 1 updates ago: with three workers that diverges from rho = 0.62 on; with
 *                    rho / N it never does. Moving means of the optimizer, which forget everything within some steps,
 *                    have rho = 1.
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
 * Where a weight's decay is caught up on lazily (decay.c), a delta is the difference to what decay alone would have made
 * of the weight meanwhile, and it is added to what decay makes of it in the table: decay counts once, however many
 * workers touched the weight, or none.
 */
#ifndef YK_STORE_DELTA_H
#define YK_STORE_DELTA_H

#include "base/keys.h"
#include "store/local.h"

int yk_delta_arrays(const yk_local *s, int group); /* weights, and the arrays of the optimizer's state */

/* Of keys, or of all of a dense group (key NULL, n floats): weights and state, up to date. */
void yk_delta_read(yk_local *s, int group, const uint32_t *key, size_t n, float *out);

/* Makes *copy anew if it is NULL, or has fewer than so many keys. config: of all parameters. */
yk_status yk_delta_make_copy(const yk_local_config *config, size_t keys, yk_local **copy, size_t *room);

/* A copy: its keys 0 .. n - 1 are `values`, made by so many steps. After all groups: yk_local_restore(copy, steps). */
void yk_delta_begin(yk_local *copy, int group, size_t n, const float *values, uint64_t steps);

/* `values` are what these keys were (NULL: keys 0 .. n - 1), and become their deltas; the store has the old values again.
 * since[i]: when key i was up to date with its old value; NULL: when the copy began. */
void yk_delta_take(yk_local *s, int group, const uint32_t *key, size_t n, const uint32_t *since,
                   float *values);

/* Adds their mean over so many workers to a store that will be at step `now`. `stride`: keys from one array of `deltas`
 * to the next. After all groups: yk_local_restore(s, now). */
void yk_delta_add(yk_local *s, int group, const uint32_t *key, size_t n, const float *deltas, size_t stride,
                  int workers, uint64_t now);

/* What copies sent was added in full (copies.h): makes the optimizer's state fit the weights. */
void yk_delta_reconcile(yk_local *s, int group, const uint32_t *key, size_t n);

/* ---- the sum of several deltas or gradients, each key once, in the order in which they are added ---- */

typedef struct {
    int ngroups;
    struct {
        int arrays; /* 0: not a keyed group */
        uint32_t width;
        float *sum; /* [arrays][room][width] */
        size_t cap;
    } group[YK_MAX_GROUPS];
    yk_merger keys; /* keys.n of them, keys.key */
    size_t room;
} yk_delta_sums;

/* The keyed groups of `s`: all arrays of each, or their weights only. */
yk_status yk_delta_sums_init(yk_delta_sums *d, const yk_local *s, bool all_arrays);
void yk_delta_sums_fini(yk_delta_sums *d);
yk_status yk_delta_sums_reserve(yk_delta_sums *d, size_t keys); /* room for so many; empties it */

/* block[g]: of group g, [arrays][n][width]; NULL for other groups */
void yk_delta_sums_add(yk_delta_sums *d, const uint32_t *key, size_t n, const float *const *block);

#endif
