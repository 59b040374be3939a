/* Changes: what steps that were made elsewhere did to parameters and to their optimizer state.
 *
 * For --local-steps: a worker trains on a copy of its own for some steps, and what goes to where the parameters are (a
 * server), or to all others (replicas), is how that copy has changed.
 *
 *     where the parameters are: a table             elsewhere: a copy of these parameters
 *     yk_changes_read(table, key, n, &v)    ---->   yk_changes_begin(copy, n, &v, steps)
 *                                                   pull, grad, push, clock;  pull, grad, push, clock; ...
 *     yk_changes_add(table, key, n, &v, ..) <----   yk_changes_take(copy, NULL, n, NULL, &v)     v holds changes now
 *
 * Both are stores of one worker (store.h); a copy of a sparse model has just the keys of these steps, as numbers 0 .. n - 1.
 * State travels too, so that the table is all there is to save, and a copy nothing that could be lost.
 *
 * What is added of the changes of N workers, to weights and state alike:
 *
 *     in step    their mean, once all are here: what replicas do, which have all parameters
 *     freely     1/N of each as it comes. Why not all of it, as of a gradient (Downpour SGD, Dean et al. 2012)? Of some steps
 *                by itself a worker comes a good part rho of the way to where its data pulls a weight, and N - 1 others
 *                are on the same way from the same place meanwhile. The distance x then goes as x <- x - rho x', x' what
 *                it was N - 1 updates ago: with three workers that swings up from rho = 0.62 on; with rho / N it never
 *                does. Moving means of the optimizer, of which nothing is left after some steps, have rho = 1.
 *
 * Test loss of 3 workers with sgd at one learning rate, the median of five seeds and their range (smaller rates, which would
 * bear more, were not tried):
 *
 *                                       H    in full               1/N                    in step
 *     softmax, MNIST, lr 0.5            4    0.63 (0.54 - 0.72)    0.316 (0.298 - 0.330)   0.323
 *                                      64    4.9  (4.0 - 16)       0.353 (0.318 - 0.428)   0.341
 *     logreg, synthetic clicks, lr 0.3  4    0.460                 0.456                   0.456
 *                                      64    1.7  (0.49 - 3.0)     0.457                   0.456
 *
 * Where a weight's decay is caught up on lazily (decay.c), a change is the difference to what decay alone would have made of
 * the weight meanwhile, and it is added to what decay makes of it in the table: it counts once, however many
 * workers touched the weight, or none.
 */
#ifndef YK_STORE_CHANGES_H
#define YK_STORE_CHANGES_H

#include "base/keys.h"
#include "store/store.h"

int yk_changes_arrays(const yk_store *s); /* weights, and the arrays of the optimizer's state */

/* Arrays of n that lie one after the other: | weights | state 0 | state 1 | as far as there is such state. */
yk_view yk_changes_view(float *block, size_t n);

/* Of keys, or of all parameters (key NULL, n of them): weights and state, as fresh as they can be. */
void yk_changes_read(yk_store *s, const uint32_t *key, size_t n, const yk_view *out);

/* A copy: its parameters 0 .. n - 1 are `values`, made by so many steps. */
void yk_changes_begin(yk_store *copy, size_t n, const yk_view *values, uint64_t steps);

/* `values` are what these keys were (NULL: parameters 0 .. n - 1), and become their changes; the store has the old values again.
 * since[i]: when key i was up to date with its old value; NULL: when the copy began. */
void yk_changes_take(yk_store *s, const uint32_t *key, size_t n, const uint32_t *since,
                     const yk_view *values);

/* Adds their mean over so many workers; the store is so many steps further. */
void yk_changes_add(yk_store *s, const uint32_t *key, size_t n, const yk_view *changes, int workers,
                    uint64_t steps);

/* ---- the sum of several, each key once, in the order in which they are added ---- */

typedef struct {
    int arrays;
    yk_merger keys; /* keys.n of them, keys.key */
    float *sum;
    size_t room, cap;
} yk_changes;

yk_status yk_changes_init(yk_changes *c, int arrays);
void yk_changes_fini(yk_changes *c);
yk_status yk_changes_reserve(yk_changes *c, size_t keys); /* room for so many; empties it */
void yk_changes_sum(yk_changes *c, const uint32_t *key, size_t n, const float *block); /* [arrays][n] */
yk_view yk_changes_sums(const yk_changes *c);

#endif
