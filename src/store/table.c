/* Applies gradients to the table of a parameter group. */
#include "store/local_internal.h"

#include <stdlib.h>
#include <string.h>

yk_status yk__table_create(yk__table *t, yk_local *s, const yk_local_group *config)
{
    const int workers = s->config.workers;
    t->store = s;
    t->config = *config;
    t->width = config->shape.width;
    t->floats = yk_group_floats(&config->shape);
    t->rule = yk_optim_rule_of(config->optim.kind);
    t->together = config->staleness == 0 && workers > 1;
    t->worker = yk_alloc((size_t)workers, sizeof *t->worker, "the workers");
    yk_status st = t->worker ? yk__decay_create(t) : YK_ESYSTEM;
    if (!st)
        st = yk__hot_create(t);
    for (int i = 0; !st && i < workers; i++) {
        yk__table_worker *w = &t->worker[i];
        w->optim = yk_optim_at(&config->optim, 0);
        if (config->shape.keyed)
            st = yk_merger_init_wide(&w->pairs, 64, t->width);
        if (!st && config->shape.keyed)
            st = yk_merger_init_wide(&w->part, 64, t->width);
    }
    return st;
}

void yk__table_free(yk__table *t)
{
    for (int i = 0; t->worker && i < t->store->config.workers; i++) {
        yk_merger_fini(&t->worker[i].pairs);
        yk_merger_fini(&t->worker[i].part);
        free(t->worker[i].cold);
    }
    yk__hot_free(t);
    yk_free(t->touched);
    yk_free(t->decayed);
    yk_free(t->worker);
}

void yk__table_prepare(yk__table *t, int me, uint64_t step)
{
    t->worker[me].optim = yk_optim_at(&t->config.optim, step);
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

/* Divides work among the threads of a worker, if there are enough parameters to be worth a barrier. */
enum { MIN_PARALLEL = 1 << 15 };

static void run_parts(const yk_worker_threads *crew, size_t n, void (*part)(void *, int, int), void *context)
{
    if (crew && n >= MIN_PARALLEL)
        crew->run(crew->threads, part, context);
    else
        part(context, 0, 1);
}

/* Part `me` of `all` of begin .. end, rounded to cache lines. */
static void part_of_range(size_t *begin, size_t *end, int me, int all)
{
    const size_t piece = YK_ROUND_UP((*end - *begin + (size_t)all - 1) / (size_t)all, 16),
                 from = *begin + piece * (size_t)me;
    *end = from + piece < *end ? from + piece : *end;
    *begin = from < *end ? from : *end;
}

/* The arguments of apply_own_part() and apply_sum_part(). */
typedef struct {
    yk__table *t;
    int me;
    size_t begin, end; /* parameters */
    float scale;
} dense_update;

static YK_RACY void apply_own_part(void *update, int me, int all)
{
    dense_update u = *(const dense_update *)update;
    const yk__table_worker *w = &u.t->worker[u.me];
    part_of_range(&u.begin, &u.end, me, all);
    apply_dense(u.t, &w->view, u.begin, u.end - u.begin, grad_of(u.t, u.me)->dense + u.begin, u.scale,
                &w->optim);
}

/* Adds the gradients in worker order, and applies the sum once. */
static void apply_sum_part(void *update, int me, int all)
{
    enum { MOST = 1024 };
    dense_update u = *(const dense_update *)update;
    const yk_local *s = u.t->store;
    part_of_range(&u.begin, &u.end, me, all);
    for (size_t at = u.begin; at < u.end; at += MOST) {
        const size_t count = u.end - at < MOST ? u.end - at : MOST;
        float sum[MOST] = {0};
        for (int i = 0; i < s->config.workers; i++) {
            const float *g = grad_of(u.t, i)->dense;
            for (size_t k = 0; s->worker[i].grad.examples && k < count; k++)
                sum[k] += g[at + k];
        }
        apply_dense(u.t, &u.t->shared, at, count, sum, u.scale, &u.t->worker[u.me].optim);
    }
}

/* ---- keyed ---- */

/* Applies the rule to some keys. */
static YK_RACY void apply_pairs(const yk__table *t, const yk_view *v, const yk_merger *pairs, float scale,
                                const yk_optim_step *o)
{
    if (t->width == 1) {
        t->rule->pairs(v, pairs->key, pairs->value, pairs->n, scale, o);
        return;
    }
    for (size_t i = 0; i < pairs->n; i++) {
        const size_t at = (size_t)pairs->key[i] * t->width;
        const ptrdiff_t shift = pairs->key[i] < v->hot ? v->shift : 0;
        const yk_view there = {.w = v->w + shift,
                               .s = {v->s[0] ? v->s[0] + shift : NULL, v->s[1] ? v->s[1] + shift : NULL}};
        t->rule->dense(&there, at, t->width, pairs->value + i * t->width, scale, o);
    }
}

static void mark_touched(yk__table *t, int me, const yk_merger *pairs)
{
    const uint32_t now = (uint32_t)yk__global_step(t->store, &t->store->worker[me]);
    for (size_t i = 0; t->touched && i < pairs->n; i++)
        yk__decay_advance(t, pairs->key[i], now + 1);
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
        yk__decay_key(t, me, g->bias_key);
    if (g->bias)
        w->view.w[yk_view_at(&w->view, g->bias_key)] += bias;
}

YK_RACY yk_status yk__table_apply_own(yk__table *t, int me)
{
    yk__table_worker *w = &t->worker[me];
    const yk_grad *all = &t->store->worker[me].grad;
    const yk_group_grad *g = grad_of(t, me);
    const float scale = 1.0f / (float)all->examples;
    if (!g->dense && !g->pairs && !g->rows.n) /* no gradient for this group */
        return YK_OK;
    if (g->dense) {
        dense_update u = {t, me, 0, t->floats, scale};
        run_parts(all->crew, u.end, apply_own_part, &u);
        return YK_OK;
    }
    if (g->pairs) { /* merged already, from several processes */
        if (t->touched)
            yk__decay_read(t, g->pairs->key, g->pairs->n);
        apply_pairs(t, &w->view, g->pairs, scale, &w->optim);
        mark_touched(t, me, g->pairs);
        return YK_OK;
    }
    if (t->config.optim.kind == YK_SGD && t->width == 1 && (!t->touched || yk__decay_deferred(t))) {
        add_rows(t, me, g, scale);
        return YK_OK;
    }
    yk_status st = yk_grad_merge(g, &w->pairs);
    if (st)
        return st;
    apply_pairs(t, &w->view, &w->pairs, scale, &w->optim);
    mark_touched(t, me, &w->pairs);
    return YK_OK;
}

/* The pairs of a worker's gradient in this round. */
static const yk_merger *pairs_of(const yk__table *t, int worker)
{
    const yk_group_grad *g = grad_of(t, worker);
    return g->pairs ? g->pairs : &t->worker[worker].pairs;
}

/* The pairs that worker `me` applies. */
static void add_part(const yk__table *t, const yk_merger *pairs, int me, yk_merger *sum)
{
    const int workers = t->store->config.workers;
    const uint32_t width = t->width;
    for (size_t k = 0; width == 1 && k < pairs->n; k++)
        if (yk__part_of(pairs->key[k], workers) == me)
            yk_merger_add(sum, pairs->key[k], pairs->value[k]);
    for (size_t k = 0; width > 1 && k < pairs->n; k++)
        if (yk__part_of(pairs->key[k], workers) == me)
            yk_merger_add_wide(sum, pairs->key[k], pairs->value + k * width, width);
}

yk_status yk__table_apply_part(yk__table *t, int me, size_t examples)
{
    const yk_local *s = t->store;
    yk__table_worker *w = &t->worker[me];
    const int workers = s->config.workers;
    const float scale = 1.0f / (float)examples;
    if (!t->config.shape.keyed) {
        dense_update u = {t, me, 0, t->floats, scale};
        part_of_range(&u.begin, &u.end, me, workers);
        run_parts(s->worker[me].grad.crew, u.end - u.begin, apply_sum_part, &u);
        return YK_OK;
    }
    size_t max = 0;
    for (int i = 0; i < workers; i++)
        max += s->worker[i].grad.examples ? pairs_of(t, i)->n : 0;
    yk_status st = yk_merger_reserve(&w->part, max + 1);
    for (int i = 0; !st && i < workers; i++)
        if (s->worker[i].grad.examples)
            add_part(t, pairs_of(t, i), me, &w->part);
    if (st)
        return st;
    if (t->touched) /* keys of other processes, which were not pulled here */
        yk__decay_read(t, w->part.key, w->part.n);
    apply_pairs(t, &t->shared, &w->part, scale, &w->optim);
    mark_touched(t, me, &w->part);
    return YK_OK;
}
