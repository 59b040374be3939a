/* A gradient as a model hands it to a store: sums over the examples of one batch; the store divides.
 *
 * Dense groups: one float per parameter. Keyed groups: the rows of the batch, each times a number, which is what the
 * gradient of a linear model is. A store that only adds them to the weights does so row by row; one that needs each key
 * once merges them first (yk_grad_merge). Or, with several floats per key, the keys with their values. All borrowed
 * until the worker's next gradient.
 */
#ifndef YK_BASE_GRAD_H
#define YK_BASE_GRAD_H

#include "base/group.h"
#include "base/keys.h"
#include "base/rows.h"

/* The threads of one worker: run() has each of them do its part of something, number `me` of `all`. */
typedef struct {
    void (*run)(void *threads, void (*part)(void *context, int me, int all), void *context);
    void *threads;
} yk_crew;

/* Of one parameter group (group.h). */
typedef struct {
    float *dense;     /* [parameters] of a dense group, else NULL: */
    yk_batch rows;    /* keyed, one float per key: sum over i of err[i] * row i */
    const float *err; /* [rows.n] */
    bool bias;        /* key bias_key gets the sum of err */
    uint32_t bias_key;
    const yk_merger
        *pairs; /* keyed: NULL, or instead of rows the sum itself: keys and their values, each key once */
} yk_group_grad;

typedef struct {
    size_t examples;
    double loss;         /* summed over the examples */
    const yk_crew *crew; /* those who made it, and may share what is done with it; NULL: one thread */
    yk_group_grad group[YK_MAX_GROUPS];
} yk_grad;

/* The (key, value) pairs of a gradient of rows, each key once, into `m` (emptied first). */
yk_status yk_grad_merge(const yk_group_grad *g, yk_merger *m);

#endif
