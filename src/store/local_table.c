/* Applies gradients to the table of a parameter group. */
#include "store/local_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SCRATCH = 4 }; /* floats after the sums of frequent keys, which add_row() writes and nobody reads */

/* Sums of sgd's gradients: those of keys that are in many batches are summed in an array per worker, all others as pairs. For a
 * key that occurs in a share p of the batches, 4 bytes are written and read instead of 8 p, and nothing is hashed. Keys of
 * the array that are not in any batch do not change, so the rule must be that of sgd. */
static uint32_t choose_frequent(const yk__table *t)
{
    const yk_local_config *c = &t->store->config;
    const double min = 0.125; /* occurrences per batch */
    uint32_t n = 0;
    if (!t->ops->clock || !t->config.shape.keyed || t->width > 1 || !t->rule->plain || t->touched ||
        !c->keymap)
        return 0;
    while (n < c->keymap->hot && (double)c->keymap->freq[n] * (double)c->batch >= min)
        n++;
    return n / 16 * 16; /* cache lines */
}

static const yk__table_ops each, summed;

static void make_worker(yk__table *t, int me)
{
    const int workers = t->store->config.workers;
    yk_arena *memory = &t->store->memory;
    yk__table_worker *w = &t->worker[me];
    w->view.shared = t->concurrent && !t->hot;
    yk__table_prepare(t, me, 0);
    if (t->frequent)
        w->sum_of_frequent =
            yk_arena_alloc(memory, t->frequent + SCRATCH, sizeof(float), "the gradient of frequent keys");
    w->parts.begin = yk_arena_alloc(memory, (size_t)workers + 1, sizeof(size_t), "the workers");
    w->pairs.width = w->sum.width = t->width;
}

yk_status yk__table_create(yk__table *t, yk_local *s, const yk_local_group *config)
{
    const int workers = s->config.workers;
    t->store = s;
    t->config = *config;
    t->width = config->shape.width;
    t->floats = yk_group_floats(&config->shape);
    t->rule = yk_optim_rule_of(config->optim.kind);
    t->concurrent = config->staleness && workers > 1;
    t->ops = config->staleness == 0 && s->sums ? &summed : &each;
    t->worker = yk_arena_alloc(&s->memory, (size_t)workers, sizeof *t->worker, "the workers");
    if (!t->worker)
        return YK_ESYSTEM;
    yk__decay_create(t);
    yk__hot_create(t);
    yk__stale_create(t);
    t->frequent = choose_frequent(t);
    for (int i = 0; i < workers; i++)
        make_worker(t, i);
    return s->memory.status;
}

void yk__table_free(yk__table *t)
{
    for (int i = 0; t->worker && i < t->store->config.workers; i++) {
        yk__table_worker *w = &t->worker[i];
        yk_merger_fini(&w->pairs);
        yk_merger_fini(&w->sum);
        free(w->parts.key);
        free(w->parts.value);
        free(w->cold);
        free(w->cold_value);
    }
}

void yk__table_prepare(yk__table *t, int me, uint64_t step)
{
    yk__table_worker *w = &t->worker[me];
    w->optim = yk_optim_at(&t->config.optim, step);
    w->warm_up = yk__stale_adjust(t, step, &w->optim);
}

static const yk_group_grad *grad_of(const yk__table *t, int worker)
{
    return &t->store->worker[worker].grad.group[t - t->store->table];
}

/* ---- dense ---- */

/* Applies the rule to parameters first .. first + n, each with the learning rate of its range. */
static void apply_dense(const yk__table *t, const yk_view *v, size_t first, size_t n, const float *g,
                        float scale, const yk_optim_step *o)
{
    for (size_t at = first, end; at < first + n; at = end) {
        const yk_optim_step own = yk_optim_in_range(o, t->config.range, t->config.nranges, at, &end);
        end = end < first + n ? end : first + n;
        t->rule->dense(v, at, end - at, g + (at - first), scale, &own);
    }
}

/* Divides work among the threads of a worker, if there are enough parameters or keys to be worth a barrier. */
enum { MIN_PARALLEL = 1 << 15, MIN_KEYS = 1 << 10 };

/* What the threads of worker `me` apply; each thread applies a part of begin .. end. */
typedef struct {
    yk__table *t;
    int me;
    const yk_merger *pairs; /* NULL: begin .. end are parameters */
    size_t begin, end;
    float scale;
    double *squares; /* not NULL: only adds the squares, in one thread */
} update;

static YK_RACY void apply_range(yk__table *t, int me, size_t from, size_t to, const void *scale)
{
    const yk__table_worker *w = &t->worker[me];
    apply_dense(t, &w->view, from, to - from, grad_of(t, me)->dense + from, *(const float *)scale, &w->optim);
}

static YK_RACY void apply_own_part(void *context, int me, int all)
{
    update u = *(const update *)context;
    yk_part_of_range(&u.begin, &u.end, 16, me, all);
    apply_range(u.t, u.me, u.begin, u.end, &u.scale);
}

/* The whole gradient of a worker. */
static void apply_dense_own(yk__table *t, int me, float scale)
{
    yk__table_worker *w = &t->worker[me];
    const yk_grad *g = &t->store->worker[me].grad;
    update u = {t, me, NULL, 0, t->floats, scale, NULL};
    yk__stale_step step;
    const bool stale = t->sample && g->read_at && t->store->in_flight > 1;
    const float lr = w->optim.lr;
    w->optim.lr *= stale ? yk__stale_begin(t, me, &step) : 1.0f;
    if (t->range) /* a linear model that threads share: without locks, many of their updates would be lost */
        yk__each_range(t, me, 0, t->floats, apply_range, &scale);
    else
        yk_thread_pool_run(u.end >= MIN_PARALLEL ? g->pool : NULL, apply_own_part, &u);
    w->optim.lr = lr;
    if (stale)
        yk__stale_end(t, me, &step);
}

/* Adds the dense gradients, or those of the frequent keys, in worker order, and applies the sum once. */
static void apply_sum_part(void *context, int me, int all)
{
    enum { MAX = 1024 };
    update u = *(const update *)context;
    const yk_local *s = u.t->store;
    yk_part_of_range(&u.begin, &u.end, 16, me, all);
    for (size_t at = u.begin; at < u.end; at += MAX) {
        const size_t count = u.end - at < MAX ? u.end - at : MAX;
        float sum[MAX] = {0};
        for (int i = 0; i < s->config.workers; i++) {
            const float *g = u.t->frequent ? u.t->worker[i].sum_of_frequent : grad_of(u.t, i)->dense;
            for (size_t k = 0; s->worker[i].grad.examples && k < count; k++)
                sum[k] += g[at + k];
        }
        if (u.squares)
            *u.squares += yk_squares(sum, count);
        else
            apply_dense(u.t, &u.t->shared, at, count, sum, u.scale, &u.t->worker[u.me].optim);
    }
}

/* ---- keyed ---- */

/* Applies the rule to some keys, with the hyperparameters of worker `me`. read: NULL, or the parameters that a stale gradient
 * was computed with. */
static YK_RACY void apply_pairs(yk__table *t, int me, const yk_view *v, const yk_merger *pairs,
                                const float *read, float scale)
{
    const uint32_t now = (uint32_t)yk__global_step(t->store, &t->store->worker[me]);
    t->rule->pairs(v, pairs->key, pairs->value, read, pairs->n, t->width, scale, &t->worker[me].optim);
    for (size_t i = 0; t->touched && i < pairs->n; i++)
        yk__decay_advance(t, pairs->key[i], now + 1);
}

/* Merges the rows of a worker's gradient. */
static yk_status merge_rows(yk__table *t, int me, const yk_group_grad *g)
{
    /* the same key may be in several fields of a row */
    const bool distinct = g->rows.n && !g->rows.rows->field;
    return yk_grad_merge(g, &t->worker[me].pairs, distinct ? t->store->kern->merge : yk_merger_add_all);
}

/* Adds n entries of a row: sum[key] += err * value for frequent keys. The other keys and their values are appended to key_out and
 * value_out, which have space for n more; returns their number. Whether a key is frequent is unpredictable, so there is no
 * branch: the values of other keys are added to scratch floats after the sums. */
static size_t add_row(float *sum, uint32_t frequent, const uint32_t *key, const float *value, float err,
                      size_t n, uint32_t *restrict key_out, float *restrict value_out)
{
    size_t others = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t k = key[i], other = k >= frequent;
        const float x = value ? err * value[i] : err;
        sum[other ? frequent + (uint32_t)(i % SCRATCH) : k] += x;
        key_out[others] = k;
        value_out[others] = x;
        others += other;
    }
    return others;
}

/* The same, but the gradients of frequent keys are summed in their array. */
static yk_status merge_others(yk__table *t, int me, const yk_group_grad *g)
{
    yk__table_worker *w = &t->worker[me];
    const yk_rows *rows = g->rows.rows;
    size_t max = 1, n = 0;
    memset(w->sum_of_frequent, 0, t->frequent * sizeof *w->sum_of_frequent);
    if (g->pairs || !g->rows.n || rows->field) /* none are treated as frequent */
        return g->pairs ? YK_OK : merge_rows(t, me, g);
    for (size_t i = 0; i < g->rows.n; i++)
        max += yk_rows_entries(rows, g->rows.pick[i]);
    if (YK_RESERVE(w->cold, w->cold_cap, max, "the keys of a batch") ||
        YK_RESERVE(w->cold_value, w->cold_value_cap, max, "the gradient of a batch"))
        return YK_ESYSTEM;
    float bias = 0.0f;
    for (size_t i = 0; i < g->rows.n; i++) {
        const uint64_t begin = rows->start[g->rows.pick[i]], end = rows->start[g->rows.pick[i] + 1];
        bias += g->err[i];
        n += add_row(w->sum_of_frequent, t->frequent, rows->index + begin,
                     rows->value ? rows->value + begin : NULL, g->err[i], end - begin, w->cold + n,
                     w->cold_value + n);
    }
    yk_status st = yk_merger_reserve(&w->pairs, n + 1);
    if (st)
        return st;
    yk_merger_add_all(&w->pairs, w->cold, w->cold_value, 1.0f, n);
    if (g->bias && g->bias_key < t->frequent)
        w->sum_of_frequent[g->bias_key] += bias;
    else if (g->bias)
        yk_merger_add(&w->pairs, g->bias_key, bias);
    return YK_OK;
}

/* sgd with one float per key: adds the rows directly. */
static YK_RACY void add_rows(yk__table *t, int me, const yk_group_grad *g, float scale)
{
    yk__table_worker *w = &t->worker[me];
    float *coef = t->store->worker[me].coef, bias = 0.0f;
    for (size_t i = 0; i < g->rows.n; i++) {
        coef[i] = -w->optim.lr * scale * g->err[i];
        bias += coef[i];
    }
    t->store->kern->add_rows(&w->view, &g->rows, coef);
    if (g->bias && t->touched)
        yk__decay_keys(t, (uint32_t)yk__global_step(t->store, &t->store->worker[me]), &g->bias_key, 1);
    if (g->bias)
        w->view.w[yk_view_at(&w->view, g->bias_key)] += bias;
}

static void apply_pairs_part(void *context, int me, int all)
{
    update u = *(const update *)context;
    yk_part_of_range(&u.begin, &u.end, 16, me, all);
    const size_t first = u.begin * u.t->width;
    const yk_merger part = {
        .n = u.end - u.begin, .key = u.pairs->key + u.begin, .value = u.pairs->value + first};
    if (u.t->touched)
        yk__decay_keys(u.t, (uint32_t)yk__global_step(u.t->store, u.t->store->worker), part.key, part.n);
    const float *read = yk__stale_revises(u.t) ? grad_of(u.t, u.me)->read : NULL;
    apply_pairs(u.t, u.me, &u.t->worker[u.me].view, &part, read ? read + first : NULL, u.scale);
}

/* Applies the gradient of a worker to its view. */
static YK_RACY yk_status apply_own(yk__table *t, int me)
{
    yk__table_worker *w = &t->worker[me];
    const yk_grad *all = &t->store->worker[me].grad;
    const yk_group_grad *g = grad_of(t, me);
    const float scale =
        yk_grad_factor((double)all->examples + all->extra_weight, all->steps) * t->store->worker[me].clip;
    if (!all->examples || (!g->dense && !g->pairs && !g->rows.n)) /* no gradient for this group */
        return YK_OK;
    yk_status st = YK_OK;
    if (g->dense)
        apply_dense_own(t, me, scale);
    else if (g->pairs)
        yk_thread_pool_run(g->pairs->n >= MIN_KEYS ? all->pool : NULL, apply_pairs_part,
                           &(update){t, me, g->pairs, 0, g->pairs->n, scale, NULL});
    else if (t->rule->plain && t->width == 1 && (!t->touched || t->concurrent))
        add_rows(t, me, g, scale); /* if workers are concurrent, the next merge or pull decays */
    else if (!(st = merge_rows(t, me, g)))
        apply_pairs(t, me, &w->view, &w->pairs, NULL, scale);
    return st;
}

static yk_status own_squares(yk__table *t, int me, double *sum)
{
    const yk_group_grad *g = grad_of(t, me);
    const yk_merger *pairs = g->pairs ? g->pairs : &t->worker[me].pairs;
    yk_status st = YK_OK;
    if (g->dense)
        *sum += yk_squares(g->dense, t->floats);
    else if (g->pairs || (g->rows.n && !(st = merge_rows(t, me, g))))
        *sum += yk_squares(pairs->value, pairs->n * t->width);
    return st;
}

static const yk__table_ops each = {.push = apply_own, .squares = own_squares};

/* ---- sums ---- */

/* Orders a worker's gradient, if it is keyed, by the workers that apply it. */
static yk_status divide(yk__table *t, int me)
{
    yk__table_worker *w = &t->worker[me];
    struct yk__parts *p = &w->parts;
    const yk_group_grad *g = grad_of(t, me);
    const int workers = t->store->config.workers;
    const size_t width = t->width;
    if (!t->config.shape.keyed)
        return YK_OK;
    yk_status st = t->frequent ? merge_others(t, me, g) : g->pairs ? YK_OK : merge_rows(t, me, g);
    const yk_merger *pairs = g->pairs ? g->pairs : &w->pairs;
    const size_t n = t->store->worker[me].grad.examples ? pairs->n : 0;
    if (st || YK_RESERVE(p->key, p->cap_keys, n + 1, "the keys of a batch") ||
        YK_RESERVE(p->value, p->cap_values, n * width + 1, "the gradient of a batch"))
        return YK_ESYSTEM;
    /* begin[i + 1] becomes the number of pairs of part i, then where it begins, then where it ends */
    memset(p->begin, 0, ((size_t)workers + 1) * sizeof *p->begin);
    for (size_t k = 0; k < n; k++)
        p->begin[yk__part_of(pairs->key[k], workers) + 1]++;
    for (size_t i = 0, before = 0; i < (size_t)workers; i++) {
        const size_t count = p->begin[i + 1];
        p->begin[i + 1] = before;
        before += count;
    }
    for (size_t k = 0; k < n; k++) {
        const size_t to = p->begin[yk__part_of(pairs->key[k], workers) + 1]++;
        p->key[to] = pairs->key[k];
        for (size_t j = 0; j < width; j++)
            p->value[to * width + j] = pairs->value[k * width + j];
    }
    return YK_OK;
}

/* Another worker has written them. */
static void prefetch_part(const struct yk__parts *p, int part, size_t width)
{
    enum { LINE = YK_ALIGN / sizeof(float) };
    for (size_t k = p->begin[part]; k < p->begin[part + 1] + LINE; k += LINE)
        __builtin_prefetch(p->key + k);
    for (size_t k = p->begin[part] * width; k < p->begin[part + 1] * width + LINE; k += LINE)
        __builtin_prefetch(p->value + k);
}

/* Adds the pairs that worker `me` applies, in worker order. */
static yk_status add_parts(yk__table *t, int me)
{
    const int workers = t->store->config.workers;
    const uint32_t width = t->width;
    yk_merger *sum = &t->worker[me].sum;
    size_t max = 0;
    for (int i = 0; i < workers; i++)
        max += t->worker[i].parts.begin[me + 1] - t->worker[i].parts.begin[me];
    yk_status st = yk_merger_reserve(sum, max + 1);
    prefetch_part(&t->worker[0].parts, me, width);
    for (int i = 0; !st && i < workers; i++) {
        const struct yk__parts *p = &t->worker[i].parts;
        const size_t begin = p->begin[me], end = p->begin[me + 1];
        if (i + 1 < workers)
            prefetch_part(&t->worker[i + 1].parts, me, width);
        if (width == 1)
            t->store->kern->merge(sum, p->key + begin, p->value + begin, 1.0f, end - begin);
        for (size_t k = begin; width > 1 && k < end; k++)
            yk_merger_add_wide(sum, p->key[k], p->value + k * width, width);
    }
    return st;
}

/* The part of the dense parameters, or of the frequent keys, that a worker applies. */
static update own_part(yk__table *t, int me, float scale, double *squares)
{
    update u = {t, me, NULL, 0, t->frequent ? t->frequent : t->floats, scale, squares};
    yk_part_of_range(&u.begin, &u.end, 16, me, t->store->config.workers);
    return u;
}

static yk_status sum_squares(yk__table *t, int me, double *sum)
{
    update u = own_part(t, me, 1.0f, sum);
    if (!t->config.shape.keyed || t->frequent)
        apply_sum_part(&u, 0, 1);
    const yk_status st = t->config.shape.keyed ? add_parts(t, me) : YK_OK;
    if (!st && t->config.shape.keyed)
        *sum += yk_squares(t->worker[me].sum.value, t->worker[me].sum.n * t->width);
    return st;
}

static yk_status apply_part(yk__table *t, int me, double weight)
{
    const yk_local *s = t->store;
    yk__table_worker *w = &t->worker[me];
    const float scale = yk_grad_factor(weight, 1) * s->worker[me].clip;
    if (!t->config.shape.keyed || t->frequent) {
        update u = own_part(t, me, scale, NULL);
        yk_thread_pool_run(u.end - u.begin >= MIN_PARALLEL ? s->worker[me].grad.pool : NULL, apply_sum_part,
                           &u);
    }
    if (!t->config.shape.keyed)
        return YK_OK;
    yk_status st = s->config.clip_norm > 0.0 ? YK_OK : add_parts(t, me); /* sum_squares() added them */
    if (st)
        return st;
    if (t->touched) /* keys of other processes, which were not pulled here */
        yk__decay_keys(t, (uint32_t)yk__global_step(s, s->worker), w->sum.key, w->sum.n);
    apply_pairs(t, me, &t->shared, &w->sum, NULL, scale);
    return YK_OK;
}

static const yk__table_ops summed = {.push = divide, .clock = apply_part, .squares = sum_squares};
