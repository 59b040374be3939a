/* A gradient as a model hands it to a store: sums over the examples of one batch; the store divides.
 *
 * Dense: one float per parameter. Sparse: never that, but the rows that the batch touched, each times a number (that is
 * what the gradient of a linear model is): a store that only adds them to the weights does so row by row, one that
 * needs each key once merges them first (yk_grad_merge). All borrowed until the worker's next gradient.
 */
#ifndef YK_BASE_GRAD_H
#define YK_BASE_GRAD_H

#include "base/keys.h"
#include "base/rows.h"

/* The threads of one worker: run() has each of them do its part of something, number `me` of `all`. */
typedef struct {
    void (*run)(void *threads, void (*part)(void *context, int me, int all), void *context);
    void *threads;
} yk_crew;

typedef struct {
    size_t examples;
    double loss;       /* summed over the examples */
    float *dense;      /* [parameters], or NULL for a sparse one: */
    yk_batch rows;     /* sum over i of err[i] * row i */
    const float *err;  /* [rows.n] */
    uint32_t bias_key; /* gets the sum of err; UINT32_MAX: no bias */
    const yk_merger
        *pairs;          /* NULL, or instead of rows: the sum itself, as (key, value) pairs, each key once */
    const yk_crew *crew; /* those who made it, and may share what is done with it; NULL: one thread */
} yk_grad;

/* The (key, value) pairs of a sparse gradient, each key once, into `m` (emptied first). */
yk_status yk_grad_merge(const yk_grad *g, yk_merger *m);

#endif
