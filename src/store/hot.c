/* Copies of the hottest keys. On power-law data a few keys are in every example; if all workers write them in one array,
 * their cache lines travel between the cores all the time, and sixteen threads train slower than one. So each worker
 * has a copy of the H hottest keys, which it merges with the shared ones now and then; the rest is shared.
 *
 *     key           0 ..... 255 | 256 ............. H-1 | H ......................... n-1
 *                   hottest     | hot                 | shared, lock-free
 *     merged every  tier_every  | all_every examples  | at once
 *
 * The sizes follow from the machine and the data: H is what half of a core's L2 cache holds and the keys that occurred
 * more than once in a sample; the intervals are such that merging costs a small share of the time, measured as we go.
 * How much of a worker's change is taken, yk_optim_merge tells. A short lock per 4,096 keys guards a merge; who finds one
 * taken waits for it.
 *
 * A small dense model (softmax) is hot as a whole. A network is not: its steps take so long that sharing costs little, and
 * averaging momentum over copies cost LeNet half a point of accuracy (SPEED.md).
 */
#include "store/local.h"

#include "base/clock.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

/* The curvature of the log-loss, p (1 - p), on average; and the share of the time that merging may take. */
static const double curvature = 0.2, merge_share = 0.02;
static const double least_tier = 512, least_all = 4096, most_all = 65536;

static size_t level2_bytes(void)
{
    long size = sysconf(_SC_LEVEL2_CACHE_SIZE); /* 0 or -1 where the kernel does not tell (many arm64) */
    return size > 0 ? (size_t)size : (size_t)1 << 20;
}

/* How many keys get copies; 0 where copies bring nothing. */
static uint32_t choose_hot(const yk_store *s)
{
    const yk_store_config *c = &s->config;
    if (c->workers == 1 || c->staleness == 0 || s->touched)
        return 0;
    if (c->staleness != YK_ASYNC && c->staleness < 64)
        return 0; /* a copy is merged every K / 4 steps at least, below that it is not worth having */
    size_t per_key = sizeof(float) * (size_t)(1 + s->rule->slots);
    size_t fits = level2_bytes() / 2 / per_key;
    if (!c->sparse)
        return c->nparams <= fits && c->mean_square > 0.0f ? (uint32_t)c->nparams : 0;
    size_t known = c->keymap ? c->keymap->hot : 0;
    return (uint32_t)(known < fits ? known : fits);
}

/* Examples between merges, at most: a bound on staleness bounds how long a change may stay unseen. */
static double longest(const yk_store *s)
{
    const yk_store_config *c = &s->config;
    double bound = c->staleness == YK_ASYNC ? most_all : (double)(c->staleness / 4) * (double)c->batch;
    return bound < most_all ? bound : most_all;
}

yk_status yk__hot_create(yk_store *s)
{
    const yk_store_config *c = &s->config;
    s->hot = choose_hot(s);
    s->hot_pad = (uint32_t)YK_ROUND_UP(s->hot, 1024u);
    size_t total = (size_t)s->hot_pad * (size_t)c->workers + c->nparams;
    for (int a = 0; a < 1 + s->rule->slots; a++) {
        s->block[a] = yk_alloc(total, sizeof(float), a ? "the optimizer's state" : "the parameters");
        if (!s->block[a])
            return YK_ESYSTEM;
        float *shared = s->block[a] + (size_t)s->hot_pad * (size_t)c->workers;
        if (a)
            s->shared.s[a - 1] = shared;
        else
            s->shared.w = shared;
    }
    for (int i = 0; i < c->workers; i++) {
        yk__worker *w = &s->worker[i];
        w->view = w->copies = s->shared;
        if (!s->hot)
            continue;
        w->copies.hot = s->hot;
        w->copies.shift = (int32_t)(((int64_t)i - c->workers) * s->hot_pad);
        if (c->sparse) {
            w->view = w->copies;
        } else { /* everything is hot: a plain table at another place */
            w->view.w += w->copies.shift;
            for (int k = 0; k < s->rule->slots; k++)
                w->view.s[k] += w->copies.shift;
        }
        for (int a = 0; a < 1 + s->rule->slots; a++)
            if (!(w->base[a] = yk_alloc(s->hot, sizeof(float), "copies of hot weights")))
                return YK_ESYSTEM;
        w->tier_every = least_tier;
        w->all_every = !c->sparse ? (double)c->batch : least_all < longest(s) ? least_all : longest(s);
    }
    s->hot_lock = yk_alloc(s->hot / YK__HOT_RANGE + 1, sizeof *s->hot_lock, "the locks of hot weights");
    return s->hot_lock ? YK_OK : YK_ESYSTEM;
}

void yk__hot_free(yk_store *s)
{
    for (int a = 0; a < 1 + YK_MAX_SLOTS; a++)
        yk_free(s->block[a]);
    for (int i = 0; s->worker && i < s->config.workers; i++)
        for (int a = 0; a < 1 + YK_MAX_SLOTS; a++)
            yk_free(s->worker[i].base[a]);
    yk_free(s->hot_lock);
}

/* T stays the same when others have finished: the last to work would otherwise end with the noise of a single worker, which
 * cost 0.01 of log-loss whenever the workers did not end at the same moment. */

/* Merges keys first .. first + n that saw `examples` examples since their last merge. */
static void merge(yk_store *s, yk__worker *w, uint32_t first, uint32_t n, double examples)
{
    const yk_store_config *c = &s->config;
    yk_optim_merge m = {.mine = &w->copies,
                        .base = {w->base[0], w->base[1], w->base[2]},
                        .freq = c->sparse ? c->keymap->freq : NULL,
                        .flat = c->mean_square,
                        .moves =
                            (float)(examples / (double)c->batch * curvature * pow((double)c->norm, 0.75)),
                        .workers = c->workers};
    for (uint32_t at = first; at < first + n;) {
        uint32_t range = at / YK__HOT_RANGE, end = (range + 1) * YK__HOT_RANGE;
        end = end < first + n ? end : first + n;
        yk_wait turns = yk_team_wait(c->team);
        while (atomic_flag_test_and_set_explicit(&s->hot_lock[range], memory_order_acquire))
            yk_wait_turn(&turns);
        for (size_t from = at, to; from < end; from = to) { /* a group's step size is its own */
            const yk_optim_step own =
                yk_optim_in_group(&w->optim, c->group, c->sparse ? 0 : c->ngroups, from, &to);
            to = to < end ? to : end;
            s->rule->merge(&m, (uint32_t)from, (uint32_t)(to - from), &own);
        }
        atomic_flag_clear_explicit(&s->hot_lock[range], memory_order_release);
        at = end;
    }
}

/* An interval at which merging that takes `ns` costs merge_share of the time. */
static double interval(const yk__worker *w, uint64_t ns, double least, double most)
{
    double every = w->ns_per_example > 0.0 ? (double)ns / (merge_share * w->ns_per_example) : least;
    return every < least ? least : every > most ? most : every;
}

static void merge_all(yk_store *s, yk__worker *w)
{
    uint64_t begin = yk_now_ns();
    if (w->timed_from && w->timed_examples > 0.0)
        w->ns_per_example = (double)(begin - w->timed_from) / w->timed_examples;
    uint32_t tier = s->hot < YK__HOT_TIER ? s->hot : YK__HOT_TIER;
    merge(s, w, 0, tier, w->since_tier);
    if (s->hot > tier)
        merge(s, w, tier, s->hot - tier, w->since_all);
    uint64_t end = yk_now_ns();
    w->merges++;
    w->merged_examples += (uint64_t)w->since_all;
    w->since_all = w->since_tier = w->timed_examples = 0.0;
    w->timed_from = end;
    const double batch = (double)s->config.batch, most = longest(s);
    if (s->config.sparse) {
        double share = (double)tier / (double)s->hot;
        w->all_every = interval(w, end - begin, least_all < most ? least_all : most, most);
        w->tier_every = interval(w, (uint64_t)((double)(end - begin) * share), least_tier, w->all_every);
    } else {
        w->all_every = interval(w, end - begin, batch, 64 * batch < most ? 64 * batch : most);
    }
}

void yk__hot_step(yk_store *s, yk__worker *w, size_t examples)
{
    if (!s->hot)
        return;
    w->since_tier += (double)examples;
    w->since_all += (double)examples;
    w->timed_examples += (double)examples;
    if (w->since_all >= w->all_every) {
        merge_all(s, w);
    } else if (s->config.sparse && w->since_tier >= w->tier_every) {
        merge(s, w, 0, s->hot < YK__HOT_TIER ? s->hot : YK__HOT_TIER, w->since_tier);
        w->since_tier = 0.0;
    }
}

void yk__hot_merge(yk_store *s, yk__worker *w)
{
    if (s->hot && w->since_all > 0.0)
        merge_all(s, w);
}

void yk__hot_refresh(yk_store *s, yk__worker *w)
{
    for (int a = 0; s->hot && a < 1 + s->rule->slots; a++) {
        float *shared = a ? s->shared.s[a - 1] : s->shared.w;
        memcpy(shared + w->copies.shift, shared, s->hot * sizeof(float));
        memcpy(w->base[a], shared, s->hot * sizeof(float));
    }
    w->timed_from = yk_now_ns(); /* what was in between is not training */
    w->timed_examples = 0.0;
}
