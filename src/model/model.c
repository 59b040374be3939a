#include "model/model.h"

#include "base/arena.h"
#include "base/mem.h"
#include "model/branches.h"
#include "model/layer_list.h"
#include "model/models.h"
#include <string.h>

/* A new model is a file with its functions and an entry here. Any other name is that of a network, or a list of layers. */
static const yk_model_ops *const models[] = {&yk_softmax_ops, &yk_logreg_ops, &yk_linear_model_ops};

static const yk_model_ops *linear_model(const char *name)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strcmp(name, models[i]->name) == 0)
            return models[i];
    return NULL;
}

static const yk_model_ops *ops_of(const char *name)
{
    const yk_model_ops *linear = linear_model(name);
    return linear ? linear : yk__list_is_branches(name) ? &yk_branches_ops : &yk_net_ops;
}

yk_status yk_model_loss(const char *model, const yk_loss *given, const yk_loss **out)
{
    const yk_model_ops *ops = ops_of(model);
    yk_status st = yk_loss_find(ops->loss, out);
    if (st || !given || given == *out)
        return st;
    if (ops->own_loss || (ops->one_output && given->per_class))
        return yk_fail(YK_EUSAGE,
                       "--model %.60s cannot be trained with --loss %s; use --model %s, or leave out --loss",
                       model, given->name, given->per_class ? "softmax or a network" : "linear");
    *out = given;
    return YK_OK;
}

yk_status yk_model_create(const char *name, const yk_model_shape *shape, yk_model **out)
{
    if (shape->net.given && linear_model(name))
        return yk_fail(YK_EUSAGE,
                       "--init, --init-bias, --standardize, --augment and --profile are for "
                       "networks; --model %s is not a network",
                       name);
    const yk_model_ops *ops = ops_of(name);
    yk_model_shape s = *shape;
    yk_status st = yk_model_loss(name, shape->loss, &s.loss);
    if (!st)
        st = ops->create(name, &s, out);
    if (st)
        return st;
    (*out)->ops = (*out)->ops ? (*out)->ops : ops;
    (*out)->loss = s.loss;
    return YK_OK;
}

/* A sum of branches has the same groups for all data, so the smallest possible one has them too. */
yk_status yk_model_parse(const char *text, yk_model_description *out)
{
    static const yk_model_shape smallest = {
        .kind = YK_ROWS_SPARSE, .dim = 1, .classes = 2, .fields = 1, .bias = true, .threads = 1};
    const yk_model_ops *ops = ops_of(text);
    yk_model *m = NULL;
    yk_status st = YK_OK;
    *out = (yk_model_description){.input = ops->input, .linear = ops->linear};
    if (ops->input == YK_INPUT_SPARSE) {
        st = ops->create(text, &smallest, &m);
        for (; !st && out->ngroups < m->ngroups; out->ngroups++) {
            out->group[out->ngroups] = m->group[out->ngroups];
            out->group[out->ngroups].keys = 0; /* not known yet */
        }
        ops = st ? ops : m->ops;
    } else {
        out->group[out->ngroups++] = (yk_group){.name = "network", .width = 1};
        if (ops->linear)
            strcpy(out->group[0].name, "linear");
        else
            st = yk__net_check_name(text);
    }
    out->needs_fields = ops->needs_fields;
    out->uses_threads = ops->threads;
    out->optimizer = ops->optimizer ? ops->optimizer : "sgd";
    for (int g = 0; g < out->ngroups; g++)
        out->lr[g] = !ops->optimizer ? 0.1 : out->group[g].keyed ? ops->keyed_lr : ops->dense_lr;
    yk_model_free(m);
    return st;
}

yk_status yk__model_check(const char *text, const yk_model_shape *shape)
{
    if (shape->classes > 2 && !(shape->loss && shape->loss->numbers))
        return yk_fail(YK_EDATA,
                       "--model %.60s is for two classes, with the labels 0 and 1; the data has labels up to "
                       "%u: use --model softmax, or change the labels",
                       text, shape->classes - 1);
    if (shape->dim > YK_MAX_FEATURES)
        return yk_fail(YK_EUSAGE, "%zu features are too many: at most %d", shape->dim, YK_MAX_FEATURES);
    return YK_OK;
}

void yk_model_add_group(yk_model *m, yk_group group)
{
    group.width = group.width ? group.width : 1;
    m->group[m->ngroups++] = group;
    m->nparams += yk_group_floats(&group);
    m->sparse |= group.keyed;
}

int yk_model_first_group(const yk_model *m, bool keyed)
{
    for (int g = 0; g < m->ngroups; g++)
        if (m->group[g].keyed == keyed)
            return g;
    return -1;
}

uint64_t yk_model_keys(const yk_model *m)
{
    const int g = yk_model_first_group(m, true);
    return g >= 0 ? m->group[g].keys : 0;
}

size_t yk_model_group_offset(const yk_model *m, int group)
{
    size_t at = 0;
    for (int g = 0; g < group; g++)
        at += YK_ROUND_UP(yk_group_floats(&m->group[g]), 16);
    return at;
}

void yk_model_export(const yk_model *m, int t, const float *params, float *out)
{
    const yk_model_tensor *tensor = &m->tensor[t];
    params += tensor->offset;
    if (!tensor->transposed) {
        memcpy(out, params, tensor->size * sizeof *out);
        return;
    }
    for (size_t r = 0; r < tensor->shape[0]; r++)
        for (size_t c = 0; c < tensor->shape[1]; c++)
            out[r * tensor->shape[1] + c] = params[c * tensor->transposed + r];
}

void yk_model_import(const yk_model *m, int t, const void *in, float *params)
{
    const yk_model_tensor *tensor = &m->tensor[t];
    const char *from = in;
    params += tensor->offset;
    if (!tensor->transposed) {
        memcpy(params, in, tensor->size * sizeof *params);
        return;
    }
    for (size_t r = 0; r < tensor->shape[0]; r++)
        for (size_t c = 0; c < tensor->shape[1]; c++, from += sizeof *params)
            memcpy(params + c * tensor->transposed + r, from, sizeof *params);
}

void yk_model_free(yk_model *m)
{
    if (m && m->ops->free)
        m->ops->free(m);
    else
        yk_free(m);
}

yk_status yk_workspace_create(const yk_model *m, size_t max_batch, yk_workspace **out)
{
    yk_workspace *w = yk_alloc(1, m->ops->workspace_bytes, "the workspace of a worker");
    yk_status st = w ? m->ops->workspace_init(m, w, max_batch) : YK_ESYSTEM;
    if (!st)
        st = ((yk_arena *)w)->status;
    if (st)
        yk_workspace_free(m, w);
    else
        *out = w;
    return st;
}

void yk_model_torch(const yk_model *m, yk_text *to)
{
    if (m->ops->torch) {
        m->ops->torch(m, to);
        return;
    }
    const yk_model_tensor *w = &m->tensor[0];
    yk_text_print(to,
                  "from torch import nn\n\n# input: [N, %zu]%s\nmodel = nn.Sequential(\n    nn.Linear(%zu, "
                  "%zu%s),\n)\n",
                  w->shape[1], m->shape.kind == YK_ROWS_U8 ? ", bytes divided by 255" : "", w->shape[1],
                  w->shape[0], m->ntensors > 1 ? "" : ", bias=False");
}

int yk_model_describe(const yk_model *m, size_t max_batch, yk_layer_line out[static YK_MAX_LINES])
{
    if (m->ops->describe)
        return m->ops->describe(m, max_batch, out);
    /* a linear model has one layer */
    *out = (yk_layer_line){.rank = 1, .shape = {m->outputs}, .bytes = max_batch * m->outputs * sizeof(float)};
    snprintf(out->text, sizeof out->text, "%s", m->ops->name);
    for (int t = 0; t < m->ntensors; t++)
        out->params += m->tensor[t].size;
    if (m->shape.kind != YK_ROWS_SPARSE) /* sparse: two per entry, and rows differ */
        out->flops = out->flops_back = 2.0 * (double)m->tensor[0].size;
    return 1;
}

void yk_workspace_free(const yk_model *m, yk_workspace *w)
{
    if (!w)
        return;
    if (m->ops->workspace_fini)
        m->ops->workspace_fini(w);
    yk_arena_free((yk_arena *)w);
    yk_free(w);
}

bool yk_model_can_burst(const yk_model *m)
{
    return m->ops->burst && m->sparse;
}
