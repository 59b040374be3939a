/* Copies of the hottest keys. On power-law data, a few keys are in every example. If all workers write them in one array, their
 * cache lines move between the cores all the time, and sixteen threads train slower than one. So each worker has a copy of the
 * H hottest keys, which it periodically merges with the shared ones. All other keys are shared.
 *
 *     key           0 ....... 2047 | 2048 ............ H-1 | H ......................... n-1
 *                   hottest        | hot                   | shared, lock-free
 *     merged after  hottest_every  | all_every examples    | immediately
 *
 * The copies fit into half of a core's L2 cache, and hot keys occurred more than once in a sample. docs/convergence.md has the
 * intervals. A staleness bound or weight decay shortens both, and then only keys that are used often enough between merges are
 * hot. A merge adds a share of the worker's delta (optim/optim.h), and briefly locks each range of 256 floats.
 *
 * Dense groups, and models with several groups, have no copies: their steps take so long that sharing costs little.
 */
#include "store/local_internal.h"

#include "store/local_copy.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

static const double max_decay = 0.01; /* of a weight between merges */
static const double max_hottest = YK_COPY_EXAMPLES, max_all = YK_LONGEST_COPY * YK_COPY_EXAMPLES;
static const double min_uses = 0.03; /* of a copy between merges; a cache line has 16 of them */

/* The number of keys with copies; 0 if copies do not help. */
static uint32_t choose_hot(const yk__table *t)
{
    const yk_local_config *c = &t->store->config;
    const uint64_t bound = t->config.staleness;
    if (c->workers == 1 || bound == 0 || c->ngroups > 1 || t->width > 1 || !t->config.shape.keyed)
        return 0;
    const long known_size = sysconf(_SC_LEVEL2_CACHE_SIZE); /* 0 or -1 if unknown (many arm64 machines) */
    const size_t level2 = known_size > 0 ? (size_t)known_size : (size_t)1 << 20;
    const size_t fits = level2 / 2 / (sizeof(float) * (size_t)(1 + t->rule->slots));
    size_t known = c->keymap ? c->keymap->hot : 0, n = known < fits ? known : fits;
    while (t->hot_examples < max_all && n > 0 && (double)c->keymap->freq[n - 1] * t->hot_examples < min_uses)
        n--;
    return (uint32_t)n;
}

/* The lifetime of a copy. A staleness bound K allows K / 4 steps, at least one: a copy that is merged in every step is no
 * staler than a shared key. Copies do not decay, so the decay of the steps of all workers must be small. */
static void choose_lifetime(yk__table *t)
{
    const yk_local_config *c = &t->store->config;
    const uint64_t k = t->config.staleness;
    double steps = k == YK_ASYNC ? INFINITY : (double)(k / 4);
    if (t->touched) {
        const yk_optim_config *o = &t->config.optim;
        steps = fmin(steps, max_decay / (o->lr * (o->l1 + o->l2) * (double)c->workers));
    }
    steps = fmax(1.0, floor(steps));
    t->hot_lifetime = steps < 1e18 ? (uint64_t)steps : YK_ASYNC;
    t->hot_examples = fmin(max_all, steps * (double)c->batch);
}

/* At clock c of a worker, its copy is at most D steps old. When it was merged, the others had taken at least
 * c - D - bound steps, and all but D - 1 of them were merged. That must be at least c - K steps. */
uint64_t yk__hot_bound(const yk__table *t)
{
    const uint64_t k = t->config.staleness;
    return k == YK_ASYNC || !t->hot ? k : k + 1 - 2 * t->hot_lifetime;
}

/* The examples that a worker processes between merges. */
static void choose_intervals(yk__table *t, int me)
{
    const yk_local *s = t->store;
    yk__table_worker *w = &t->worker[me];
    const double batch = (double)s->config.batch;
    const double each =
                     (double)s->restored_steps / (double)s->config.workers + (double)s->worker[me].own_steps,
                 so_far = each * batch;
    const bool young = t->config.staleness == YK_ASYNC;
    w->hottest_every =
        fmin(t->hot_examples, young ? fmin(max_hottest, fmax(batch, so_far / YK_COPY_AGE)) : max_hottest);
    w->all_every = fmin(t->hot_examples, YK_LONGEST_COPY * w->hottest_every);
}

static void make_copies(yk__table *t, int me)
{
    yk__table_worker *w = &t->worker[me];
    w->view.hot = t->hot;
    w->view.shift = (int32_t)(((int64_t)me - t->store->config.workers) * (int64_t)t->hot_pad);
    choose_intervals(t, me);
    w->base = yk_arena_alloc(&t->store->memory, t->hot_pad * (size_t)(1 + t->rule->slots), sizeof(float),
                             "copies of hot weights");
}

/* The arrays of a table, each after the copies of all workers. */
static void make_arrays(yk__table *t)
{
    const size_t copies = t->hot_pad * (size_t)t->store->config.workers, total = copies + t->floats;
    for (int a = 0; a < 1 + t->rule->slots; a++) {
        float *block = yk_arena_alloc(&t->store->memory, total, sizeof *block,
                                      a ? "the optimizer's state" : "the parameters");
        float *shared = block ? block + copies : NULL;
        for (size_t i = 0; shared && a == 1 && t->config.optim.initial > 0.0 && i < t->floats; i++)
            shared[i] = (float)t->config.optim.initial;
        *(a ? &t->shared.s[a - 1] : &t->shared.w) = shared;
    }
}

void yk__hot_create(yk__table *t)
{
    const int workers = t->store->config.workers;
    choose_lifetime(t);
    t->hot = choose_hot(t);
    t->hot_pad = YK_ROUND_UP((size_t)t->hot, 1024u);
    make_arrays(t);
    for (int i = 0; i < workers; i++) {
        t->worker[i].view = t->shared;
        if (t->hot)
            make_copies(t, i);
    }
    if (t->hot && t->config.staleness == YK_ASYNC)
        t->config.optim = yk_optim_without_velocity(&t->config.optim);
    const bool shared = t->store->config.linear && t->concurrent && !t->config.shape.keyed;
    const size_t locked = shared ? t->floats : t->hot;
    if (locked) /* others are updated without locks */
        t->range = yk_arena_alloc(&t->store->memory, locked / YK__HOT_RANGE + 1, sizeof *t->range,
                                  "the locks of weights");
}

void yk__each_range(yk__table *t, int me, size_t begin, size_t end, yk__range_fn what, const void *context)
{
    const size_t low = begin / YK__HOT_RANGE, ranges = end > begin ? (end - 1) / YK__HOT_RANGE + 1 - low : 0;
    for (size_t i = 0, range = low + ranges * (size_t)me / (size_t)t->store->config.workers; i < ranges;
         i++) {
        const size_t from = range * YK__HOT_RANGE, to = from + YK__HOT_RANGE;
        yk_wait turns = yk_team_wait(t->store->config.team);
        while (atomic_flag_test_and_set_explicit(&t->range[range].lock, memory_order_acquire))
            yk_wait_poll(&turns);
        what(t, me, from > begin ? from : begin, to < end ? to : end, context);
        atomic_flag_clear_explicit(&t->range[range].lock, memory_order_release);
        range = range + 1 < low + ranges ? range + 1 : low;
    }
}

/* Makes the copy equal to the shared floats from .. to - 1. */
static void refresh(yk__table *t, int me, size_t from, size_t to, const void *unused)
{
    const yk__table_worker *w = &t->worker[me];
    (void)unused;
    for (int a = 0; a < 1 + t->rule->slots; a++) {
        float *shared = (a ? t->shared.s[a - 1] : t->shared.w) + from;
        memcpy(shared + w->view.shift, shared, (to - from) * sizeof(float));
        memcpy(w->base + (size_t)a * t->hot_pad + from, shared, (to - from) * sizeof(float));
    }
}

/* Merges floats from .. to - 1. `base` has the deltas in the meantime. */
static void merge_range(yk__table *t, int me, size_t from, size_t to, const void *share)
{
    const yk__table_worker *w = &t->worker[me];
    for (int a = 0; a < 1 + t->rule->slots; a++) {
        const float *mine = (a ? t->shared.s[a - 1] : t->shared.w) + w->view.shift;
        float *base = w->base + (size_t)a * t->hot_pad;
        for (size_t i = from; i < to; i++)
            base[i] = mine[i] - base[i];
    }
    t->rule->scale(share, from, to - from, w->base, t->hot_pad, &w->optim);
    const yk_copy_keys keys = {NULL, from, to, t->hot_pad};
    yk_copy_add(t->store, (int)(t - t->store->table), &keys, w->base, 0,
                yk__global_step(t->store, &t->store->worker[me]));
    refresh(t, me, from, to, NULL);
}

/* Merges keys first .. first + n - 1 after `examples` examples. c->workers is the number of all workers, even if some have
 * finished: otherwise the last active one would end with the noise of a single worker, which cost 0.01 of log-loss when the workers
 * did not end at the same time. */
static void merge(yk__table *t, int me, uint32_t first, uint32_t n, double examples)
{
    const yk_local_config *c = &t->store->config;
    const yk_optim_share share = {
        .squares = c->keymap->freq,
        .times = (float)examples,
        .one = 1.0f,
        .moves = (float)(YK_CURVATURE * pow((double)c->keymap->norm, 0.75) / (double)c->batch),
        .steps = (float)(examples / (double)c->batch),
        .workers = c->workers,
        .state = {t->shared.s[0], t->shared.s[1]}};
    yk__each_range(t, me, first, (size_t)first + n, merge_range, &share);
}

static void merge_all(yk__table *t, int me)
{
    yk__table_worker *w = &t->worker[me];
    const uint32_t hottest = t->hot < YK__HOTTEST ? t->hot : YK__HOTTEST;
    merge(t, me, 0, hottest, w->since_hottest);
    if (t->hot > hottest)
        merge(t, me, hottest, t->hot - hottest, w->since_all);
    w->merges++;
    w->merged_examples += (uint64_t)w->since_all;
    w->merged_steps += w->steps_since_all;
    w->steps_since_all = 0;
    w->since_all = w->since_hottest = 0.0;
    choose_intervals(t, me);
}

void yk__hot_step(yk__table *t, int me, size_t steps, size_t examples)
{
    yk__table_worker *w = &t->worker[me];
    if (!t->hot)
        return;
    w->since_hottest += (double)examples;
    w->since_all += (double)examples;
    w->steps_since_all += steps;
    if (w->since_all >= w->all_every || w->steps_since_all >= t->hot_lifetime) {
        merge_all(t, me);
    } else if (w->since_hottest >= w->hottest_every) {
        merge(t, me, 0, t->hot < YK__HOTTEST ? t->hot : YK__HOTTEST, w->since_hottest);
        w->since_hottest = 0.0;
    }
}

void yk__hot_merge(yk__table *t, int me)
{
    if (t->hot && t->worker[me].since_all > 0.0)
        merge_all(t, me);
}

/* Other workers may already be training and merging: a copy and its base must be from the same moment. Otherwise their difference
 * would be merged like a gradient, and could make a sum of squares negative. */
void yk__hot_refresh(yk__table *t, int me)
{
    yk__each_range(t, me, 0, t->hot, refresh, NULL);
}
