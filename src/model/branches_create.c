/* Creates a sum of branches: its parameter groups, tensors and initial values. branches.h has the definition. */
#include "model/branches.h"

#include "base/mem.h"
#include "model/models.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Vectors begin with uniform random numbers up to +-0.1 / sqrt(width). At zero, interactions would have no gradient. */
static const double init_limit = 0.1;

void yk__branches_free(yk_model *model)
{
    yk__branches *m = (yk__branches *)model;
    if (m->net)
        yk_model_free(&m->net->model);
    free(m->list);
    yk_free(m);
}

/* Declares the parameter groups and tensors. */
static yk_status add_groups(yk__branches *m)
{
    yk_model *o = &m->model;
    const size_t dim = o->shape.dim;
    const bool bias = m->linear && o->shape.bias;
    const uint64_t keys = dim + bias;
    m->nkeyed = m->ntables + m->linear;
    if (m->nkeyed + (m->net != NULL) > YK_MAX_GROUPS)
        return yk_fail(YK_EUSAGE, "--model: too many embedding tables: let branches share one with name=v");
    o->bias_key = bias ? (uint32_t)dim : UINT32_MAX;
    if (m->linear) {
        m->table[m->ntables] = (yk__vectors){.name = "linear", .width = 1};
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

yk_status yk__branches_create(const char *text, const yk_model_shape *shape, yk_model **out)
{
    yk__branches *m = yk_alloc(1, sizeof *m, "the model");
    yk_status st = m ? YK_OK : YK_ESYSTEM;
    if (!st && shape->kind != YK_ROWS_SPARSE)
        st = yk_fail(YK_EUSAGE, "--model %.60s needs sparse data; for dense data use logreg, or a network",
                     text);
    if (!st && (shape->net.standardize || shape->net.flip || shape->net.crop))
        st = yk_fail(YK_EUSAGE, "--standardize and --augment are for images; --model %.60s has sparse data",
                     text);
    if (!st && !(st = yk__model_check(text, shape)))
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
        yk__branches_free(&m->model);
    else if (!st)
        *out = &m->model;
    return st;
}

/* The vector of a key depends only on the seed, the table and the key. */
void yk__branches_init(const yk_model *model, int group, float *params, uint64_t seed)
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
