/* The speed of a worker while the others pause: the reference for contention (observe/verdict.h).
 *
 * Asynchronous workers of one process update the same parameters, and each update takes a cache line from the other cores.
 * The only symptom is slow computation. So, once per run, the others pause for a few milliseconds between two of their steps,
 * and worker 0 computes gradients of random examples, which it does not use:
 *
 *     worker 0   step step [wait][compute compute compute ...][go] step step ...
 *     worker 1   step step step [pause ......................] step step ...
 *
 * Linear models on data in memory only: a step of a network takes so long that contention matters little.
 */
#include "train/loop.h"

#include "base/clock.h"
#include "base/rng.h"
#include "base/wait.h"
#include "model/model.h"
#include <math.h>
#include <stdlib.h>

enum { CHUNKS = 9, MAX_PICK = 4096, AHEAD = 16, TRIES = 3 };
static const double first_at = 0.3, again_after = 0.3; /* seconds */
static const double pause_seconds = 2e-3, chunk_seconds = 3e-4;

void yk__baseline_init(yk__trainer *t)
{
    const bool useful = t->plan->role == YK_ROLE_SINGLE && !t->plan->lockstep && t->plan->workers > 1 &&
                        !t->model->ops->profile && t->train.rows && t->train.rows->n &&
                        t->plan->batch <= MAX_PICK;
    t->baseline.tries = useful ? TRIES : 0;
    t->baseline.at = yk_now() + first_at;
}

void yk__baseline_pause(yk__trainer *t)
{
    yk_wait w = yk_wait_begin(YK_WAIT_THREADS, 1.0);
    atomic_fetch_add(&t->baseline.paused, 1);
    while (atomic_load(&t->baseline.pause) && yk_wait_poll(&w))
        ;
    atomic_fetch_sub(&t->baseline.paused, 1);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void yk__sort(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_value);
}

/* Bursts (store/store.h) compute and apply the gradient of one example after the other. They cannot be repeated without
 * changing parameters, so a larger batch is measured, and multiplied by the usual ratio. */
static const double burst_ratio = 2.4;

static size_t batch_of(const yk__trainer *t)
{
    const size_t batch = (size_t)t->plan->batch;
    return t->model->sparse && batch < YK__EVAL_BATCH ? YK__EVAL_BATCH : batch;
}

/* The next row: in the order in which workers go through the data, which is random in memory unless it was shuffled when it
 * was loaded. */
static uint32_t next_row(const yk__trainer *t, yk_rng *rng, uint32_t *at)
{
    const uint32_t n = (uint32_t)t->train.rows->n;
    *at = t->train.shuffled ? (*at + 1) % n : yk_rng_below(rng, n);
    return *at;
}

/* The median seconds per example of some chunks of batches. */
static double compute(yk__trainer *t, yk__worker_state *w)
{
    const yk_rows *rows = t->train.rows;
    const size_t n = batch_of(t);
    yk_rng rng = yk_rng_seed(1, t->baseline.tries);
    yk_view view[YK_MAX_GROUPS];
    uint32_t pick[MAX_PICK + AHEAD];
    double each[CHUNKS];
    uint32_t row = yk_rng_below(&rng, (uint32_t)rows->n);
    yk_local_tables(t->local, view);
    for (size_t i = 0; i < AHEAD; i++)
        pick[n + i] = next_row(t, &rng, &row);
    for (int c = 0; c < CHUNKS; c++) {
        const double began = yk_now();
        double spent = 0.0, examples = 0.0;
        while (yk_now() - began < chunk_seconds) {
            for (size_t i = 0; i < n; i++)
                pick[i] = i < AHEAD ? pick[n + i] : next_row(t, &rng, &row);
            for (size_t i = 0; i < AHEAD; i++)
                pick[n + i] = next_row(t, &rng, &row);
            const yk_batch batch = {.rows = rows, .pick = pick, .n = n, .ahead = AHEAD};
            yk_grad unused = {0};
            const double at = yk_now();
            t->model->ops->grad(t->model, w->work, view, &batch, &unused);
            spent += yk_now() - at;
            examples += (double)n;
        }
        each[c] = spent / examples;
    }
    yk__sort(each, CHUNKS);
    return each[CHUNKS / 2];
}

void yk__baseline_measure(yk__trainer *t, yk__worker_state *w)
{
    const double now = yk_now();
    const int others = t->plan->workers - 1;
    if (!t->baseline.tries || now < t->baseline.at)
        return;
    t->baseline.tries--;
    t->baseline.at = now + again_after;
    atomic_store(&t->baseline.pause, true);
    yk_wait turns = yk_wait_begin(YK_WAIT_THREADS, HUGE_VAL);
    while (atomic_load(&t->baseline.paused) < others && yk_now() - now < pause_seconds)
        yk_wait_poll(&turns);
    /* with a staleness bound, the others may wait for this worker instead: then they do not compute, either */
    if (atomic_load(&t->baseline.paused) == others || t->plan->staleness != YK_ASYNC) {
        const bool bursts = t->store->burst && yk_model_can_burst(t->model);
        atomic_store(&t->baseline.seconds, compute(t, w) * (bursts ? burst_ratio : 1.0));
        t->baseline.tries = 0;
    }
    atomic_store(&t->baseline.pause, false);
}
