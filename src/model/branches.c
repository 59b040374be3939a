/* A sum of branches as a model: workspace and passes. branches.h has the definition.
 *
 * The threads of a worker divide a batch by rows for the forward pass, and by keys for the gradients (key_parts.h). The network
 * has its own division (net.h), over the same threads. The number of threads does not change the result.
 */
#include "model/branches.h"

#include "base/mem.h"
#include "kern/linear.h"
#include "model/key_parts.h"
#include <stdlib.h>
#include <string.h>

/* ---- workspace ---- */

enum { MIN_ROWS = 16 }; /* of a batch per thread; with fewer, waiting costs more than a thread saves */

struct yk_workspace {
    yk_arena memory; /* must be first */
    const yk__branches *m;
    const yk_linear_ops *linear;
    const yk_factors_ops *factors;
    const yk_lanes_ops *lanes;
    yk__key_parts parts;
    yk_thread_pool *pool;         /* its threads; NULL: one. Owned by the network, if there is one */
    float *z, *err;               /* [max_batch] */
    float *sum[YK__MAX_BRANCHES]; /* [max_batch][width] of each fm branch */
    uint32_t *key;                /* of the batch */
    size_t key_cap;
    struct {
        float *value; /* gradients of the keys */
        float *read;  /* copies of their parameters */
        size_t value_cap, read_cap;
    } keyed[YK__MAX_TABLES + 1];         /* for each table */
    yk_merger pairs[YK__MAX_TABLES + 1]; /* key and value as lists; they borrow their arrays */
    float *rows;       /* [wave][fields * width] the input of the network, or its gradient */
    yk_workspace *net; /* that of the network */
    yk__branch_net branch;
    /* the current pass */
    bool training;
    const yk_view *view;
    const yk_batch *batch;
    const yk_batch *entries; /* the same rows, with the keys of `view` */
    bool copies;             /* training, and others may change the parameters: they are copied */
    struct {
        uint32_t *key;
        float *value, *read;
        size_t key_cap, value_cap, read_cap;
    } ordered; /* the gradient of linear: order_by_line() */
    yk_view copy[YK_MAX_GROUPS];
    float bias;
};

static void workspace_fini(yk_workspace *w)
{
    if (w->net)
        yk_workspace_free(&w->m->net->model, w->net);
    else
        yk_thread_pool_free(w->pool);
    yk__key_parts_fini(&w->parts);
    free(w->key);
    for (int i = 0; i <= YK__MAX_TABLES; i++) {
        free(w->keyed[i].value);
        free(w->keyed[i].read);
    }
    free(w->ordered.key);
    free(w->ordered.value);
    free(w->ordered.read);
}

/* ---- gradients of keys ---- */

/* Each with space for the bias. */
static yk_status reserve_gradients(yk_workspace *w)
{
    const yk__branches *m = w->m;
    yk_status st = yk__key_parts_number(&w->parts);
    const size_t n = w->parts.n;
    if (!st)
        st = YK_RESERVE(w->key, w->key_cap, n + 1, "the keys of a batch");
    for (int i = 0; !st && i < m->nkeyed; i++) {
        const uint32_t width = m->table[i].width;
        st = YK_RESERVE(w->keyed[i].value, w->keyed[i].value_cap, (n + 1) * width, "the gradient of a batch");
        if (!st && w->copies)
            st = YK_RESERVE(w->keyed[i].read, w->keyed[i].read_cap, (n + 1) * width,
                            "the parameters of a batch");
        w->pairs[i] = (yk_merger){.n = n, .width = width, .key = w->key, .value = w->keyed[i].value};
    }
    return st;
}

/* ---- copies of shared parameters ---- */

/* Of a thread's keys. */
static void copy_parameters(yk_workspace *w, int me)
{
    const yk__branches *m = w->m;
    for (int i = 0; i < m->nkeyed; i++)
        yk__key_parts_copy(&w->parts, me, &w->view[m->table[i].group], m->table[i].width, w->keyed[i].read);
}

/* From now on, the pass reads the copies. So the parameters of a key are read once, not for each entry: others write to the cache
 * lines of frequent keys all the time. */
static yk_status use_copies(yk_workspace *w)
{
    const yk__branches *m = w->m;
    yk_status st = yk__key_parts_renumber(&w->parts);
    copy_parameters(w, 0);
    memcpy(w->copy, w->view, (size_t)m->model.ngroups * sizeof *w->copy);
    for (int i = 0; i < m->nkeyed; i++)
        w->copy[m->table[i].group] = (yk_view){.w = w->keyed[i].read};
    w->view = w->copy;
    w->entries = w->parts.batch;
    return st;
}

/* What a thread adds. */
typedef struct {
    yk_workspace *w;
    size_t first; /* of its keys */
    size_t row;   /* the first one that it adds */
    int branch;
} sums;

static void add_embeddings(void *context, const yk__key_share *s)
{
    const sums *to = context;
    const yk_workspace *w = to->w;
    const yk__branches *m = w->m;
    const size_t width = m->table[m->embed].width;
    w->factors->embed_grad((uint32_t)width, &s->batch, s->at, to->row, m->fields, w->rows, s->slot,
                           w->pairs[m->embed].value + to->first * width);
}

static void add_interactions(void *context, const yk__key_share *s)
{
    const sums *to = context;
    const yk_workspace *w = to->w;
    const int table = w->m->fm[to->branch];
    const yk__vectors *t = &w->m->table[table];
    w->factors->interact_grad(&w->view[t->group], t->width, &s->batch, s->at, w->sum[to->branch], w->err,
                              s->slot, w->pairs[table].value + to->first * t->width);
}

static void add_linear(void *context, const yk__key_share *s)
{
    const sums *to = context;
    const yk_workspace *w = to->w;
    const yk_rows *rows = s->batch.rows;
    const uint32_t *slot = s->slot;
    float *sum = w->pairs[w->m->ntables].value + to->first;
    for (size_t i = 0; i < s->batch.n; i++) {
        const uint64_t start = s->at ? i : rows->start[s->batch.pick[i]],
                       n = s->at ? 1 : rows->start[s->batch.pick[i] + 1] - start;
        const float *value = rows->value ? rows->value + start : NULL, err = w->err[s->at ? s->at[i] : i];
        for (size_t e = 0; e < n; e++)
            sum[slot[e]] += value ? err * value[e] : err;
        slot += n;
    }
}

/* Clears the gradients of a thread's keys. */
static void clear_gradients(yk_workspace *w, int me)
{
    size_t first;
    const yk_merger *own = yk__key_parts_own(&w->parts, me, &first);
    if (w->parts.used > 1 && w->copies)
        copy_parameters(w, me);
    memcpy(w->key + first, own->key, own->n * sizeof *w->key);
    for (int i = 0; i < w->m->nkeyed; i++)
        memset(w->pairs[i].value + first * w->pairs[i].width, 0, own->n * w->pairs[i].width * sizeof(float));
}

/* The gradients of a thread's keys, except those of the network. */
static void add_gradients(void *workspace, int me, int all)
{
    yk_workspace *w = workspace;
    const yk__branches *m = w->m;
    (void)all;
    if (!m->net)
        clear_gradients(w, me);
    sums to = {.w = w};
    yk__key_parts_own(&w->parts, me, &to.first);
    for (; to.branch < m->nfm; to.branch++)
        yk__key_parts_each(&w->parts, me, 0, w->batch->n, add_interactions, &to);
    if (m->linear)
        yk__key_parts_each(&w->parts, me, 0, w->batch->n, add_linear, &to);
}

/* ---- the network ---- */

/* Rows of the wave, [16][values] of a block. */
static float *rows_of(const yk_workspace *w, const yk__pass *ctx, size_t block)
{
    return w->rows + (ctx->in_wave + block) * YK_LANES * w->m->net->model.shape.dim;
}

static void load(void *context, const yk__pass *ctx, size_t first)
{
    const yk_workspace *w = context;
    const yk__branches *m = w->m;
    const yk__vectors *t = &m->table[m->embed];
    const size_t values = m->fields * t->width;
    size_t begin, end;
    yk__thread_range(ctx, ctx->blocks, 1, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        const size_t at = first + i * YK_LANES, left = w->batch->n - at,
                     n = left < YK_LANES ? left : YK_LANES;
        const yk_batch b = yk_batch_part(w->entries, at, n);
        const float *row[YK_LANES] = {NULL};
        float *rows = rows_of(w, ctx, i);
        w->factors->embed(&w->view[t->group], t->width, &b, m->fields, rows);
        for (size_t k = 0; k < n; k++)
            row[k] = rows + k * values;
        w->lanes->interleave_f32(row, 0, values, ctx->x[0] + i * values * YK_LANES);
    }
}

static void input_gradient(void *context, const yk__pass *ctx, size_t first)
{
    const yk_workspace *w = context;
    const size_t values = w->m->net->model.shape.dim;
    size_t begin, end;
    (void)first;
    yk__thread_range(ctx, ctx->blocks, 1, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        const float *d = ctx->dx[0] + i * values * YK_LANES;
        float *rows = rows_of(w, ctx, i);
        for (size_t k = 0; k < YK_LANES; k++)
            for (size_t j = 0; j < values; j++)
                rows[k * values + j] = d[j * YK_LANES + k];
    }
}

static void finish_wave(void *context, int me, size_t first, size_t n)
{
    yk_workspace *w = context;
    if (first == 0)
        clear_gradients(w, me);
    sums to = {.w = w, .row = first};
    yk__key_parts_own(&w->parts, me, &to.first);
    yk__key_parts_each(&w->parts, me, first, first + n, add_embeddings, &to);
}

/* ---- creation ---- */

static int threads_of(const yk_model *model, size_t max_batch)
{
    const yk__branches *m = (const yk__branches *)model;
    const int threads = model->shape.threads > 1 ? model->shape.threads : 1;
    const size_t most = max_batch / MIN_ROWS > 1 ? max_batch / MIN_ROWS : 1;
    if (m->net)
        return yk_net_ops.threads(&m->net->model, max_batch);
    return (size_t)threads < most ? threads : (int)most;
}

static yk_status workspace_init(const yk_model *model, yk_workspace *w, size_t max_batch)
{
    const yk__branches *m = w->m = (const yk__branches *)model;
    w->linear = yk_linear();
    w->factors = yk_factors();
    w->lanes = yk_lanes();
    w->z = yk_arena_alloc(&w->memory, max_batch, sizeof *w->z, "the margins of a batch");
    w->err = yk_arena_alloc(&w->memory, max_batch, sizeof *w->err, "the errors of a batch");
    for (int i = 0; i < m->nfm; i++)
        w->sum[i] = yk_arena_alloc(&w->memory, max_batch, m->table[m->fm[i]].width * sizeof(float),
                                   "the sums of a batch");
    yk_status st = yk__key_parts_init(&w->parts, &w->memory, threads_of(model, max_batch), max_batch);
    if (!st && m->net && !(st = yk_workspace_create(&m->net->model, max_batch, &w->net))) {
        w->branch =
            yk__net_connect(w->net, &(yk__branch_hooks){load, input_gradient, finish_wave, w, w->z, w->err});
        w->pool = w->branch.pool;
        w->rows = yk_arena_alloc(&w->memory, w->branch.division.wave * YK_LANES,
                                 m->net->model.shape.dim * sizeof(float), "the input of a network");
    } else if (!st && !m->net && w->parts.threads > 1)
        st = yk_thread_pool_create(w->parts.threads, &w->pool);
    return st;
}

/* ---- passes ---- */

/* z of some rows, without the network. */
static YK_RACY void add_margins(yk_workspace *w, size_t begin, size_t end)
{
    const yk__branches *m = w->m;
    const yk_view *v = w->view;
    const yk_batch b = yk_batch_part(w->entries, begin, end - begin);
    if (m->linear)
        w->linear->margins(v, &b, w->z + begin);
    for (size_t i = begin; i < end; i++)
        w->z[i] = (m->linear ? w->z[i] : 0.0f) + w->bias;
    for (int i = 0; i < m->nfm; i++) {
        const yk__vectors *t = &m->table[m->fm[i]];
        w->factors->interact(&v[t->group], t->width, &b, w->sum[i] + begin * t->width, w->z + begin);
    }
}

/* A thread's rows: their margins; when training, also the keys that the thread owns. */
static void begin_pass(void *workspace, int me, int all)
{
    yk_workspace *w = workspace;
    size_t begin, end;
    yk__key_parts_rows(&w->parts, me, &begin, &end);
    if (w->training)
        yk__key_parts_sort(&w->parts, me);
    if (!w->copies || all > 1)
        add_margins(w, begin, end);
    if (w->training && all > 1)
        yk_team_barrier(w->pool, me);
    if (w->training)
        yk__key_parts_find(&w->parts, me);
}

static yk_thread_pool *pool_of(const yk_workspace *w)
{
    return w->parts.used > 1 ? w->pool : NULL;
}

/* The loss and `err` of the batch. p: NULL when training; then also the keys, and the gradient of the network and its input. */
static YK_RACY yk_status forward(yk_workspace *w, const yk_view *v, const yk_batch *b, float *p, double *loss)
{
    const yk__branches *m = w->m;
    const uint32_t bias = yk_model_bias(&m->model, b);
    const bool training = !p;
    w->view = v;
    w->batch = w->entries = b;
    w->training = training;
    w->copies = training && v->shared;
    w->bias = bias == UINT32_MAX ? 0.0f : v->w[yk_view_at(v, bias)];
    const bool all = m->net || 4 * b->n >= (size_t)w->parts.threads * MIN_ROWS;
    yk__key_parts_begin(&w->parts, b, all ? w->parts.threads : 1);
    yk_thread_pool_run(pool_of(w), begin_pass, w);
    yk_status st = training ? reserve_gradients(w) : YK_OK;
    if (!st && w->copies && w->parts.used == 1 && !(st = use_copies(w)))
        add_margins(w, 0, b->n);
    if (st)
        return st;
    if (m->net)
        *loss = yk__net_pass(w->net, b, v[m->net_group].w, training, p);
    else
        *loss = yk_loss_batch(m->model.loss, w->z, b, w->err);
    for (size_t i = 0; p && !m->net && i < b->n; i++)
        p[i] = b->raw ? w->z[i] : m->model.loss->link(w->z[i]);
    return YK_OK;
}

/* Orders the gradient of linear by cache line of parameters, the most frequent lines first. Other threads write to these lines
 * all the time, so an update then takes each of them once, not once for each of its keys. */
static yk_status order_by_line(yk_workspace *w, yk_group_grad *linear)
{
    enum { KEYS = 16, LINES = 1024 }; /* of a line; the last one stands for all others */
    yk_merger *pairs = &w->pairs[w->m->ntables];
    uint32_t next[LINES + 1] = {0};
    if (YK_RESERVE(w->ordered.key, w->ordered.key_cap, pairs->n, "the keys of a batch") ||
        YK_RESERVE(w->ordered.value, w->ordered.value_cap, pairs->n, "the gradient of a batch") ||
        YK_RESERVE(w->ordered.read, w->ordered.read_cap, pairs->n, "the parameters of a batch"))
        return YK_ESYSTEM;
    for (size_t k = 0; k < pairs->n; k++)
        next[(pairs->key[k] / KEYS < LINES ? pairs->key[k] / KEYS : LINES - 1) + 1]++;
    for (size_t line = 1; line < LINES; line++)
        next[line] += next[line - 1];
    for (size_t k = 0; k < pairs->n; k++) {
        const uint32_t at = next[pairs->key[k] / KEYS < LINES ? pairs->key[k] / KEYS : LINES - 1]++;
        w->ordered.key[at] = pairs->key[k];
        w->ordered.value[at] = pairs->value[k];
        w->ordered.read[at] = linear->read[k];
    }
    pairs->key = w->ordered.key;
    pairs->value = w->ordered.value;
    linear->read = w->ordered.read;
    return YK_OK;
}

static void grad(const yk_model *model, yk_workspace *w, const yk_view *v, const yk_batch *b, yk_grad *out)
{
    const yk__branches *m = w->m;
    const uint32_t bias = yk_model_bias(model, b);
    *out = (yk_grad){.examples = b->n};
    if ((out->status = forward(w, v, b, NULL, &out->loss)))
        return;
    out->pool = pool_of(w);
    yk_thread_pool_run(out->pool, add_gradients, w);
    if (bias != UINT32_MAX) { /* the last key of linear; no entry has it */
        yk_merger *p = &w->pairs[m->ntables];
        float all = 0.0f;
        for (size_t i = 0; i < b->n; i++)
            all += w->err[i];
        if (w->copies)
            w->keyed[m->ntables].read[p->n] = w->bias;
        p->key[p->n] = bias;
        p->value[p->n++] = all;
    }
    for (int i = 0; i < m->nkeyed; i++)
        out->group[m->table[i].group] =
            (yk_group_grad){.pairs = &w->pairs[i], .read = w->copies ? w->keyed[i].read : NULL};
    if (m->linear && w->copies && w->parts.used == 1)
        out->status = order_by_line(w, &out->group[0]);
    if (m->net)
        out->group[m->net_group].dense = w->branch.grad;
}

static void predict(const yk_model *model, yk_workspace *w, const yk_view *v, const yk_batch *b, float *p,
                    double *loss)
{
    double sum = 0.0;
    (void)model;
    (void)forward(w, v, b, p, &sum); /* only the keys need memory */
    if (loss)
        *loss += sum;
}

static yk_workspace *network(yk_workspace *w)
{
    return w->net;
}

/* Of both kinds of sums. */
#define COMMON                                                                                               \
    .input = YK_INPUT_SPARSE, .create = yk__branches_create, .free = yk__branches_free,                      \
    .workspace_bytes = sizeof(yk_workspace), .workspace_init = workspace_init,                               \
    .workspace_fini = workspace_fini, .grad = grad, .init = yk__branches_init, .predict = predict,           \
    .threads = threads_of, .describe = yk__branches_describe, .torch = yk__branches_torch,                   \
    .loss = "logistic", .one_output = true

const yk_model_ops yk_branches_ops = {COMMON, .name = "sum of branches", .optimizer = "adagrad",
                                      .keyed_lr = 0.05};

const yk_model_ops yk_branches_net_ops = {COMMON,
                                          .name = "sum of branches with a network",
                                          .needs_fields = true,
                                          .optimizer = "keyed=adagrad,dense=adam",
                                          .keyed_lr = 0.05,
                                          .dense_lr = 0.001,
                                          .network = network};
