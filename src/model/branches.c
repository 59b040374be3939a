/* A sum of branches as a model: creation, workspace, and passes. branches.h has the definition. */
#include "model/branches.h"

#include "base/mem.h"
#include "kern/linear.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Vectors begin with uniform random numbers up to +-0.1 / sqrt(width). At zero, interactions would have no gradient. */
static const double init_limit = 0.1;

/* ---- creation ---- */

static void free_model(yk_model *model)
{
    yk__branches *m = (yk__branches *)model;
    if (m->net)
        yk_model_free(&m->net->model);
    free(m->list);
    yk_free(m);
}

static yk_status check(const char *text, const yk_model_shape *s)
{
    if (s->kind != YK_ROWS_SPARSE)
        return yk_fail(YK_EUSAGE, "--model %.60s needs sparse data; for dense data use logreg, or a network",
                       text);
    if (s->classes > 2)
        return yk_fail(YK_EDATA,
                       "--model %.60s is for two classes, with the labels 0 and 1; the data has labels up to "
                       "%u: use --model softmax, or change the labels",
                       text, s->classes - 1);
    if (s->dim > YK_MAX_FEATURES)
        return yk_fail(YK_EUSAGE, "%zu features are too many: at most %d", s->dim, YK_MAX_FEATURES);
    if (s->net.standardize || s->net.flip || s->net.crop)
        return yk_fail(YK_EUSAGE, "--standardize and --augment are for images; --model %.60s has sparse data",
                       text);
    return YK_OK;
}

/* Declares the parameter groups and tensors. */
static yk_status add_groups(yk__branches *m)
{
    yk_model *o = &m->model;
    const size_t dim = o->shape.dim;
    const bool bias = m->linear && o->shape.bias;
    const uint64_t keys = dim + bias;
    if (m->linear + m->ntables + (m->net != NULL) > YK_MAX_GROUPS)
        return yk_fail(YK_EUSAGE, "--model: too many embedding tables: let branches share one with name=v");
    o->bias_key = bias ? (uint32_t)dim : UINT32_MAX;
    if (m->linear) {
        yk_model_add_group(o, (yk_group){.name = "linear", .keyed = true, .keys = keys});
        o->tensor[o->ntensors++] = (yk_model_tensor){"linear.weight", 2, {1, dim}, dim};
    }
    if (bias)
        o->tensor[o->ntensors++] = (yk_model_tensor){"linear.bias", 1, {1}, 1, .offset = dim, .bias = true};
    for (int i = 0; i < m->ntables; i++) {
        yk__vectors *t = &m->table[i];
        yk_group group = {.keyed = true, .width = t->width, .keys = keys};
        t->group = o->ngroups;
        snprintf(group.name, sizeof group.name, "%s", t->name);
        yk_model_tensor to = {.rank = 2, .shape = {dim, t->width}, .size = dim * t->width, .group = t->group};
        snprintf(to.name, sizeof to.name, "%s.weight", t->name);
        o->tensor[o->ntensors++] = to;
        yk_model_add_group(o, group);
    }
    if (!m->net)
        return YK_OK;
    m->net_group = o->ngroups;
    if (o->ntensors + m->net->model.ntensors > YK_MAX_TENSORS)
        return yk_fail(YK_EUSAGE, "--model: too many layers with weights");
    for (int i = 0; i < m->net->model.ntensors; i++) {
        yk_model_tensor *to = &o->tensor[o->ntensors++];
        *to = m->net->model.tensor[i];
        to->group = m->net_group;
        to->earlier[0] = '\0';
        snprintf(to->name, sizeof to->name, "network.%.20s", m->net->model.tensor[i].name);
    }
    yk_model_add_group(o, (yk_group){.name = "network", .keys = m->net->model.nparams});
    return YK_OK;
}

static yk_status create(const char *text, const yk_model_shape *shape, yk_model **out)
{
    yk__branches *m = yk_alloc(1, sizeof *m, "the model");
    yk_status st = m ? check(text, shape) : YK_ESYSTEM;
    if (!st)
        st = yk__branches_parse(text, shape, m);
    if (!st) {
        m->model.ops = m->net ? &yk_branches_net_ops : &yk_branches_ops;
        m->model.shape = *shape;
        m->model.shape.classes = 2;
        m->model.outputs = 1;
        m->model.list = strcmp(m->list, text) ? m->list : NULL;
        st = add_groups(m);
    }
    if (st && m)
        free_model(&m->model);
    else if (!st)
        *out = &m->model;
    return st;
}

/* The vector of a key depends only on the seed, the table and the key. */
static void init(const yk_model *model, int group, float *params, uint64_t seed)
{
    const yk__branches *m = (const yk__branches *)model;
    if (m->net && group == m->net_group)
        yk__net_init(&m->net->model, 0, params, seed);
    for (int i = 0; i < m->ntables; i++) {
        const yk__vectors *t = &m->table[i];
        const double limit = init_limit / sqrt((double)t->width);
        for (size_t key = 0; t->group == group && key < model->shape.dim; key++) {
            yk_rng rng = yk_rng_seed(seed + 0x66616374u, (uint64_t)i << 40 | key);
            for (uint32_t j = 0; j < t->width; j++)
                params[key * t->width + j] = (float)(limit * (2.0 * yk_rng_unit(&rng) - 1.0));
        }
    }
}

/* ---- workspace ---- */

struct yk_workspace {
    const yk__branches *m;
    const yk_linear_ops *linear;
    const yk_factors_ops *factors;
    const yk_lanes_ops *lanes;
    float *z, *err;               /* [max_batch] */
    float *sum[YK__MAX_BRANCHES]; /* [max_batch][width] of each fm branch */
    size_t *entry;                /* [max_batch + 1] the number of the first entry of each row */
    uint32_t *slot;               /* [entries] the index of its key in keys.key[] */
    size_t slot_cap;
    yk_merger keys;                  /* of the batch, with the gradient of linear */
    yk_merger pairs[YK__MAX_TABLES]; /* gradients; their keys are those of `keys` */
    size_t value_cap[YK__MAX_TABLES];
    float *rows;       /* [16][fields * width] the input of the network, or its gradient, of a block */
    yk_workspace *net; /* that of the network */
    yk__branch_hooks hooks;
    /* the current pass */
    const yk_view *view;
    const yk_batch *batch;
};

static void workspace_free(yk_workspace *w)
{
    yk_free(w->z);
    yk_free(w->err);
    yk_free(w->entry);
    yk_free(w->rows);
    free(w->slot);
    for (int i = 0; i < YK__MAX_BRANCHES; i++)
        yk_free(w->sum[i]);
    for (int i = 0; i < YK__MAX_TABLES; i++)
        free(w->pairs[i].value);
    yk_merger_fini(&w->keys);
    if (w->net)
        yk_workspace_free(&w->m->net->model, w->net);
    yk_free(w);
}

/* ---- the network ---- */

/* Up to 16 examples of the batch, from `first` on. The examples after them are its `ahead`. */
static yk_batch block_of(const yk_workspace *w, size_t first)
{
    yk_batch b = *w->batch;
    b.pick += first;
    b.n = w->batch->n - first < YK_LANES ? w->batch->n - first : YK_LANES;
    b.ahead += w->batch->n - first - b.n;
    return b;
}

static void load(void *context, const yk__pass *ctx, size_t first)
{
    const yk_workspace *w = context;
    const yk__branches *m = w->m;
    const yk__vectors *t = &m->table[m->embed];
    const size_t values = m->fields * t->width;
    for (size_t i = 0; i < ctx->blocks; i++) {
        const yk_batch b = block_of(w, first + i * YK_LANES);
        const float *row[YK_LANES] = {NULL};
        w->factors->embed(&w->view[t->group], t->width, &b, m->fields, w->rows);
        for (size_t k = 0; k < b.n; k++)
            row[k] = w->rows + k * values;
        w->lanes->interleave_f32(row, 0, values, ctx->x[0] + i * values * YK_LANES);
    }
}

static double network_loss(void *context, const yk__pass *ctx, size_t first)
{
    const yk_workspace *w = context;
    const int last = w->m->net->nedges - 1;
    const size_t left = w->batch->n - first, max = ctx->blocks * YK_LANES, n = left < max ? left : max;
    const yk_batch b = {.rows = w->batch->rows, .pick = w->batch->pick + first, .n = n};
    float *d = ctx->dx[last];
    for (size_t i = 0; i < n; i++)
        w->z[first + i] += ctx->x[last][i];
    const double loss = w->linear->logistic(w->z + first, &b, w->err + first);
    memcpy(d, w->err + first, n * sizeof *d);
    memset(d + n, 0, (max - n) * sizeof *d);
    return loss;
}

static void input_gradient(void *context, const yk__pass *ctx, size_t first)
{
    const yk_workspace *w = context;
    const yk__branches *m = w->m;
    const uint32_t width = m->table[m->embed].width;
    const size_t values = m->fields * width;
    for (size_t i = 0; i < ctx->blocks; i++) {
        const yk_batch b = block_of(w, first + i * YK_LANES);
        const float *d = ctx->dx[0] + i * values * YK_LANES;
        for (size_t k = 0; k < b.n; k++)
            for (size_t j = 0; j < values; j++)
                w->rows[k * values + j] = d[j * YK_LANES + k];
        w->factors->embed_grad(width, &b, m->fields, w->rows, w->slot + w->entry[first + i * YK_LANES],
                               w->pairs[m->embed].value);
    }
}

static yk_status workspace_create(const yk_model *model, size_t max_batch, yk_workspace **out)
{
    const yk__branches *m = (const yk__branches *)model;
    yk_workspace *w = yk_alloc(1, sizeof *w, "the workspace of a worker");
    if (!w)
        return YK_ESYSTEM;
    w->m = m;
    w->linear = yk_linear();
    w->factors = yk_factors();
    w->lanes = yk_lanes();
    w->hooks = (yk__branch_hooks){load, network_loss, input_gradient, w};
    w->z = yk_alloc(max_batch, sizeof *w->z, "the margins of a batch");
    w->err = yk_alloc(max_batch, sizeof *w->err, "the errors of a batch");
    w->entry = yk_alloc(max_batch + 1, sizeof *w->entry, "the rows of a batch");
    yk_status st = w->z && w->err && w->entry ? yk_merger_init(&w->keys, 64) : YK_ESYSTEM;
    for (int i = 0; !st && i < m->nfm; i++)
        if (!(w->sum[i] =
                  yk_alloc(max_batch * m->table[m->fm[i]].width, sizeof(float), "the sums of a batch")))
            st = YK_ESYSTEM;
    for (int i = 0; i < m->ntables; i++)
        w->pairs[i].width = m->table[i].width;
    if (!st && m->net)
        st = yk_workspace_create(&m->net->model, max_batch, &w->net);
    if (!st && m->net &&
        !(w->rows = yk_alloc(YK_LANES * m->net->model.shape.dim, sizeof(float), "the input of a network")))
        st = YK_ESYSTEM;
    if (st)
        workspace_free(w);
    else
        *out = w;
    return st;
}

/* ---- passes ---- */

/* z and err of the batch; with `training`, also the gradient of the network and its input. Returns the loss. */
static YK_RACY double forward(yk_workspace *w, const yk_view *v, const yk_batch *b, bool training)
{
    const yk__branches *m = w->m;
    const uint32_t bias = yk_model_bias(&m->model, b);
    w->view = v;
    w->batch = b;
    if (m->linear)
        w->linear->margins(v, b, w->z);
    const float from = bias == UINT32_MAX ? 0.0f : v->w[yk_view_at(v, bias)];
    for (size_t i = 0; i < b->n; i++)
        w->z[i] = (m->linear ? w->z[i] : 0.0f) + from;
    for (int i = 0; i < m->nfm; i++) {
        const yk__vectors *t = &m->table[m->fm[i]];
        w->factors->interact(&v[t->group], t->width, b, w->sum[i], w->z);
    }
    return m->net ? yk__net_branch_pass(w->net, &w->hooks, v[m->net_group].w, b, training)
                  : w->linear->logistic(w->z, b, w->err);
}

/* Finds the keys of the batch, and clears their gradients. */
static yk_status find_keys(yk_workspace *w, const yk_batch *b)
{
    enum { LINE = 16 }; /* keys in a cache line */
    const yk_rows *rows = b->rows;
    w->entry[0] = 0;
    for (size_t i = 0; i < b->n; i++) {
        w->entry[i + 1] = w->entry[i] + yk_rows_entries(rows, b->pick[i]);
        for (uint64_t e = rows->start[b->pick[i]]; e < rows->start[b->pick[i] + 1]; e += LINE)
            __builtin_prefetch(rows->index + e);
    }
    yk_status st = yk_merger_reserve(&w->keys, w->entry[b->n] + 1);
    if (st || YK_RESERVE(w->slot, w->slot_cap, w->entry[b->n] + 1, "the keys of a batch"))
        return YK_ESYSTEM;
    for (size_t i = 0; i < b->n; i++)
        yk_merger_slots(&w->keys, rows->index + rows->start[b->pick[i]], w->entry[i + 1] - w->entry[i],
                        w->slot + w->entry[i]);
    for (int i = 0; i < w->m->ntables; i++) {
        yk_merger *p = &w->pairs[i];
        p->n = w->keys.n;
        p->key = w->keys.key;
        if (YK_RESERVE(p->value, w->value_cap[i], p->n * p->width + 1, "the gradient of a batch"))
            return YK_ESYSTEM;
        memset(p->value, 0, p->n * p->width * sizeof *p->value);
    }
    return YK_OK;
}

/* The gradient of linear. */
static void add_linear(yk_workspace *w, const yk_batch *b, uint32_t bias)
{
    const yk_rows *rows = b->rows;
    float *to = w->keys.value, all = 0.0f;
    for (size_t i = 0; i < b->n; i++) {
        const uint32_t *slot = w->slot + w->entry[i];
        const size_t n = w->entry[i + 1] - w->entry[i];
        const float *value = rows->value ? rows->value + rows->start[b->pick[i]] : NULL, err = w->err[i];
        for (size_t e = 0; e < n; e++)
            to[slot[e]] += value ? err * value[e] : err;
        all += err;
    }
    if (bias != UINT32_MAX) { /* no entry has this key */
        w->keys.key[w->keys.n] = bias;
        w->keys.value[w->keys.n++] = all;
    }
}

static void grad(const yk_model *model, yk_workspace *w, const yk_view *v, const yk_batch *b, yk_grad *out)
{
    const yk__branches *m = w->m;
    const uint32_t bias = yk_model_bias(model, b);
    *out = (yk_grad){.examples = b->n};
    if (m->ntables && (out->status = find_keys(w, b)))
        return;
    out->loss = forward(w, v, b, true);
    for (int i = 0; i < m->nfm; i++) {
        const yk__vectors *t = &m->table[m->fm[i]];
        w->factors->interact_grad(&v[t->group], t->width, b, w->sum[i], w->err, w->slot,
                                  w->pairs[m->fm[i]].value);
    }
    for (int i = 0; i < m->ntables; i++)
        out->group[m->table[i].group].pairs = &w->pairs[i];
    if (m->linear && m->ntables) {
        add_linear(w, b, bias);
        out->group[0].pairs = &w->keys;
    } else if (m->linear) {
        out->group[0] =
            (yk_group_grad){.rows = *b, .err = w->err, .bias = bias != UINT32_MAX, .bias_key = bias};
    }
    if (m->net)
        out->group[m->net_group].dense = yk__net_branch_gradient(w->net);
}

static void predict(const yk_model *model, yk_workspace *w, const yk_view *v, const yk_batch *b, float *p,
                    double *loss)
{
    (void)model;
    const double sum = forward(w, v, b, false);
    if (loss)
        *loss += sum;
    for (size_t i = 0; i < b->n; i++)
        p[i] = 1.0f / (1.0f + expf(-w->z[i]));
}

/* ---- functions of the network ---- */

static void on_ready(yk_workspace *w, yk_ready_hook *hook, void *context)
{
    yk_net_ops.on_ready(w->net, hook, context);
}

static int profile_lines(const yk_workspace *w, yk_profile_line *out)
{
    return yk_net_ops.profile(w->net, out);
}

static void passes(const yk_workspace *w, double *forward_out, double *backward_out)
{
    yk_net_ops.passes(w->net, forward_out, backward_out);
}

static void timeline(yk_workspace *w, struct yk_trace_track *track)
{
    yk_net_ops.timeline(w->net, track);
}

const yk_model_ops yk_branches_ops = {.name = "sum of branches",
                                      .takes_sparse = true,
                                      .create = create,
                                      .free = free_model,
                                      .workspace_create = workspace_create,
                                      .workspace_free = workspace_free,
                                      .grad = grad,
                                      .init = init,
                                      .predict = predict,
                                      .describe = yk__branches_describe,
                                      .torch = yk__branches_torch};

const yk_model_ops yk_branches_net_ops = {.name = "sum of branches with a network",
                                          .takes_sparse = true,
                                          .create = create,
                                          .free = free_model,
                                          .workspace_create = workspace_create,
                                          .workspace_free = workspace_free,
                                          .grad = grad,
                                          .init = init,
                                          .predict = predict,
                                          .on_ready = on_ready,
                                          .describe = yk__branches_describe,
                                          .profile = profile_lines,
                                          .peak = yk__net_peak,
                                          .passes = passes,
                                          .timeline = timeline,
                                          .torch = yk__branches_torch};
