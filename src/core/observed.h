/* What stores count about workers and their gradients, for the results of a run and the live page. Plain data. */
#ifndef YK_CORE_OBSERVED_H
#define YK_CORE_OBSERVED_H

#include <stdbool.h>
#include <stdint.h>

enum { YK_STALENESS_BUCKETS = 40 };

/* The staleness of gradients. */
typedef struct {
    uint64_t observed; /* gradients: all if steps are long, a sample if they are short */
    /* 0, 1, 2-3, 4-7, ...: updates of other workers between pull and push */
    uint64_t bucket[YK_STALENESS_BUCKETS];
    double sum, mean, max;
    uint32_t hot;       /* keys with copies, in the group that has the most; 0: none */
    double merge_every; /* the lifetime of a copy: mean number of examples of a worker between full merges */
    double merge_steps; /* the same in steps */
    uint64_t merges;
} yk_staleness;

/* A worker, as seen by the parameter servers. */
typedef struct {
    int peer;
    bool lost;
    uint64_t steps, examples;
    uint64_t came_last; /* barriers at which this worker arrived last */
} yk_worker_status;

#endif
