/* The staleness of a worker's weights: the number of steps of other workers between its pull and its clock, measured in a
 * sample of steps. */
#include "store/local_internal.h"

uint64_t yk__steps_of_others(const yk_local *s, int me)
{
    uint64_t sum = 0;
    for (int i = 0; i < s->config.workers; i++)
        if (i != me)
            sum += atomic_load_explicit(&s->worker[i].steps, memory_order_relaxed);
    return sum;
}

void yk_staleness_add(yk_staleness *s, uint64_t late)
{
    const int bucket = late == 0 ? 0 : 64 - __builtin_clzll(late);
    s->bucket[bucket < YK_STALENESS_BUCKETS ? bucket : YK_STALENESS_BUCKETS - 1]++;
    s->observed++;
    s->sum += (double)late;
    s->max = (double)late > s->max ? (double)late : s->max;
}

void yk__record_staleness(yk_local *s, int me)
{
    yk__worker *w = &s->worker[me];
    yk_staleness_add(&w->stale, yk__steps_of_others(s, me) - w->stale_at_pull);
    uint64_t every = 4096 / (s->config.batch < 4096 ? s->config.batch : 4096);
    w->next_sample = w->own_steps + (every < 1 ? 1 : every > 1024 ? 1024 : every);
}

void yk_local_staleness(const yk_local *s, int worker, yk_staleness *out)
{
    const int first = worker < 0 ? 0 : worker, end = worker < 0 ? s->config.workers : worker + 1;
    const yk__table *copied = &s->table[0]; /* only models with one group have copies (local_hot.c) */
    *out = (yk_staleness){.hot = copied->hot};
    double merged = 0.0, steps = 0.0;
    for (int i = first; i < end; i++) {
        const yk_staleness *w = &s->worker[i].stale;
        for (int b = 0; b < YK_STALENESS_BUCKETS; b++)
            out->bucket[b] += w->bucket[b];
        out->observed += w->observed;
        out->sum += w->sum;
        out->max = w->max > out->max ? w->max : out->max;
        out->merges += copied->worker[i].merges;
        merged += (double)copied->worker[i].merged_examples;
        steps += (double)copied->worker[i].merged_steps;
    }
    out->mean = out->observed ? out->sum / (double)out->observed : 0.0;
    out->merge_every = out->merges ? merged / (double)out->merges : 0.0;
    out->merge_steps = out->merges ? steps / (double)out->merges : 0.0;
}
