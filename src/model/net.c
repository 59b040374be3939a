/* A network as a model: made from its layers, with all memory planned beforehand. The passes are in net_pass.c. */
#include "model/net_work.h"

#include "base/mem.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Chunks of a batch go through the layers together; small networks in chunks that stay in a core's cache, large ones all
 * at once, because then it is the weights that must not be read too often. */
enum { SMALL = 1 << 21, CACHE_BYTES = 3 << 19 };

/* ---- creation ---- */

static void free_net(yk_model *m)
{
    yk__net *net = (yk__net *)m;
    free(net->text);
    yk_free(net);
}

/* Layers whose input nobody needs the gradient of: up to and with the first that has parameters. */
static void mark_first(yk__net *net)
{
    for (int i = 0; i < net->nlayers; i++) {
        net->layer[i].first = true;
        if (net->layer[i].weights)
            return;
    }
}

/* Where a layer needs equal borders, a border that grows on one side of it must grow on the other. */
static void choose_borders(yk__net *net)
{
    for (int round = 0; round < net->nlayers; round++)
        for (int i = 0; i < net->nlayers; i++) {
            yk__edge *a = &net->edge[net->layer[i].in], *b = &net->edge[net->layer[i].out];
            if (!net->layer[i].ops->equal_borders)
                continue;
            size_t most = a->border;
            most = a->grad_border > most ? a->grad_border : most;
            most = b->border > most ? b->border : most;
            most = b->grad_border > most ? b->grad_border : most;
            a->border = a->grad_border = b->border = b->grad_border = most;
        }
}

static yk_status lay_out(yk__net *net)
{
    yk_model *m = &net->model;
    size_t at = 0;
    choose_borders(net);
    mark_first(net);
    for (int i = 0; i < net->nlayers; i++) {
        yk__layer *l = &net->layer[i];
        l->in_edge = net->edge[l->in];
        l->out_edge = net->edge[l->out];
        if (!l->weights)
            continue;
        if (m->ntensors + 2 > YK_MAX_TENSORS)
            return yk_fail(YK_EUSAGE, "too many layers with weights");
        l->weights_at = at;
        l->biases_at = at + l->weights;
        at += l->weights + l->biases;
        yk_model_tensor *w = &m->tensor[m->ntensors++], *b = &m->tensor[m->ntensors++];
        if (l->ops->weight_rank == 4)
            *w = (yk_model_tensor){.rank = 4,
                                   .shape = {l->count, l->in_edge.channels, l->kernel_h, l->kernel_w}};
        else
            *w = (yk_model_tensor){.rank = 2, .shape = {l->count, l->fan_in}};
        *b = (yk_model_tensor){.rank = 1, .shape = {l->count}, .size = l->biases};
        w->size = l->weights;
        snprintf(w->name, sizeof w->name, "%d.weight", i);
        snprintf(b->name, sizeof b->name, "%d.bias", i);
    }
    yk_model_add_group(m, (yk_group){.name = "network", .keys = at});
    return YK_OK;
}

/* Whether what is asked of the input goes with the data's shape. */
static yk_status check_options(const yk__net *net)
{
    const yk_net_options *o = &net->model.shape.net;
    const yk__edge *in = &net->edge[0];
    if (o->standardize == YK_STANDARDIZE_CHANNEL && o->channels != in->channels)
        return yk_fail(YK_EUSAGE,
                       "--standardize channel: mean and deviation of %zu channel%s are given, but the data "
                       "has %zu channel%s",
                       o->channels, o->channels == 1 ? "" : "s", in->channels, in->channels == 1 ? "" : "s");
    if ((o->flip || o->crop) && in->height == 1)
        return yk_fail(YK_EUSAGE, "--augment is for images; the data has rows of %zu numbers", in->width);
    if (o->crop && (o->crop >= in->height || o->crop >= in->width))
        return yk_fail(YK_EUSAGE, "--augment crop:%zu would move images of %zux%zu out of sight", o->crop,
                       in->height, in->width);
    return YK_OK;
}

static yk_status create(const char *text, const yk_model_shape *shape, yk_model **out)
{
    yk__net *net = yk_alloc(1, sizeof *net, "the network");
    if (!net)
        return YK_ESYSTEM;
    net->model.ops = &yk_net_ops;
    net->model.shape = *shape;
    yk_model_shape *s = &net->model.shape;
    if (!s->channels) { /* rows without a shape: one long row */
        s->channels = s->height = 1;
        s->width = s->dim;
    }
    net->model.outputs = shape->classes;
    net->model.bias_key = UINT32_MAX;
    yk_status st = yk__net_parse(text, s, net);
    if (!st && (s->dim == 0 || s->channels * s->height * s->width != s->dim))
        st = yk_fail(YK_EDATA, "rows of %zu columns are not images of %zu x %zu x %zu", s->dim, s->channels,
                     s->height, s->width);
    if (!st)
        st = check_options(net);
    if (!st)
        st = lay_out(net);
    if (!st && net->model.nparams == 0)
        st = yk_fail(YK_EUSAGE, "this network has nothing to learn: it needs a conv or dense layer");
    if (st) {
        free_net(&net->model);
        return st;
    }
    *out = &net->model;
    return YK_OK;
}

/* ---- memory ---- */

static void work_free(yk_work *w)
{
    yk__stop_helpers(w);
    for (int i = 0; i < w->net->nlayers; i++)
        if (w->layer[i].ops->free)
            w->layer[i].ops->free(&w->layer[i]);
    yk_free(w->memory);
    yk_free(w->profile);
    yk_team_free(w->team);
    free(w->helpers);
    yk_free(w);
}

static size_t chunk_of(const yk__net *net, size_t blocks)
{
    size_t bytes = 0;
    for (int e = 0; e < net->nedges; e++)
        bytes += (yk__strides_of(&net->edge[e], net->edge[e].border).block +
                  yk__strides_of(&net->edge[e], net->edge[e].grad_border).block) *
                 sizeof(float);
    size_t chunk = net->model.nparams > SMALL
                       ? YK__MOST_BLOCKS
                       : (size_t)CACHE_BYTES / bytes; /* not by threads: they must not change results */
    chunk = chunk < 1 ? 1 : chunk > YK__MOST_BLOCKS ? YK__MOST_BLOCKS : chunk;
    return chunk < blocks ? chunk : blocks;
}

/* The next so many bytes of w's memory, if it has any; counts them in any case. */
static void *cut(char *memory, size_t *used, size_t bytes)
{
    void *piece = memory ? memory + *used : NULL;
    *used += YK_ROUND_UP(bytes, YK_ALIGN);
    return piece;
}

/* Everything that passes write to, one behind the other in w's memory; returns how much it is. */
static size_t lay_out_workspace(yk_work *w, char *memory)
{
    const yk__net *net = w->net;
    size_t used = 0;
    w->grad = cut(memory, &used, net->model.nparams * sizeof(float));
    for (int e = 0; e < net->nedges; e++) {
        const yk__edge *edge = &net->edge[e];
        w->x[e] = cut(memory, &used, w->chunk * yk__strides_of(edge, edge->border).block * sizeof(float));
        w->dx[e] =
            cut(memory, &used, w->chunk * yk__strides_of(edge, edge->grad_border).block * sizeof(float));
    }
    for (int i = 0; i < net->nlayers; i++) {
        yk__layer *l = &w->layer[i];
        l->workspace =
            cut(memory, &used, (l->workspace_block * w->chunk + l->workspace_more) * sizeof(float));
    }
    if (net->model.shape.net.standardize == YK_STANDARDIZE_IMAGE)
        w->of_image = cut(memory, &used, w->chunk * YK_LANES * sizeof *w->of_image);
    return used;
}

/* What is done after the loss, the last layer first. */
static void plan_backward(yk_work *w)
{
    for (int i = w->net->nlayers - 1; i >= 0; i--) {
        const yk__layer *l = &w->layer[i];
        const int parts = l->ops->parts ? l->ops->parts - l->first : 1;
        for (int part = 0; part < parts; part++) {
            w->back[w->nback].layer = i;
            w->back[w->nback].part = part;
            w->back[w->nback++].last = part + 1 == parts;
        }
    }
}

static yk_status work(const yk_model *m, size_t max_batch, yk_work **out)
{
    yk_work *w = yk_alloc(1, sizeof *w, "a worker");
    if (!w)
        return YK_ESYSTEM;
    w->net = (const yk__net *)m;
    w->threads = m->shape.threads > 1 ? m->shape.threads : 1;
    w->chunk = chunk_of(w->net, (max_batch + YK_LANES - 1) / YK_LANES);
    memcpy(w->layer, w->net->layer, sizeof w->layer);
    plan_backward(w);
    w->memory = yk_alloc(1, lay_out_workspace(w, NULL), "activations and gradients");
    yk_status st = w->memory ? YK_OK : YK_ESYSTEM;
    if (!st)
        lay_out_workspace(w, w->memory);
    if (!st && m->shape.net.profile && !(w->profile = yk_alloc(1, sizeof *w->profile, "a profile")))
        st = YK_ESYSTEM;
    for (int i = 0; !st && i < w->net->nlayers; i++)
        if (w->layer[i].ops->plan)
            st = w->layer[i].ops->plan(&w->layer[i], w->chunk);
    if (!st && w->threads > 1)
        st = yk__start_helpers(w);
    if (st) {
        work_free(w);
        return st;
    }
    *out = w;
    return YK_OK;
}

/* ---- a model's verbs ---- */

static void grad(const yk_model *m, yk_work *w, const yk_view *v, const yk_batch *b, yk_grad *out)
{
    w->batch = b;
    w->params = v->w;
    w->p = NULL;
    w->training = true;
    /* what dropout drops follows from the batch, so that a resumed run drops the same */
    uint64_t noise = yk_mix64(b->noise + b->n);
    for (size_t i = 0; i < b->n; i++)
        noise = yk_mix64(noise + b->pick[i]);
    w->noise = noise;
    if (b->n == 0) /* otherwise the first chunk writes it */
        memset(w->grad, 0, m->nparams * sizeof *w->grad);
    yk__pass(w);
    *out = (yk_grad){.examples = b->n,
                     .loss = w->loss,
                     .group = {{.dense = w->grad}},
                     .crew = w->started ? &w->crew : NULL};
}

static void predict(const yk_model *m, yk_work *w, const yk_view *v, const yk_batch *b, float *p,
                    double *loss)
{
    (void)m;
    w->batch = b;
    w->params = v->w;
    w->p = p;
    w->training = false;
    yk__pass(w);
    *loss += w->loss;
}

static float *tensor_within(const yk_model *m, int t, float *params)
{
    for (int i = 0; i < t; i++)
        params += m->tensor[i].size;
    return params;
}

static void export_tensor(const yk_model *m, int t, const float *params, float *out)
{
    memcpy(out, tensor_within(m, t, (float *)params), m->tensor[t].size * sizeof *out);
}

static void import_tensor(const yk_model *m, int t, const float *in, float *params)
{
    memcpy(tensor_within(m, t, params), in, m->tensor[t].size * sizeof *in);
}

static int describe(const yk_model *m, size_t max_batch, yk_layer_line *out, int most)
{
    const yk__net *net = (const yk__net *)m;
    return yk__net_lines(net, chunk_of(net, (max_batch + YK_LANES - 1) / YK_LANES), out, most);
}

static void on_ready(yk_work *w, yk_ready_hook *hook, void *context)
{
    w->ready = hook;
    w->ready_context = context;
}

static int profile_lines(const yk_work *w, yk_profile_line *out, int most)
{
    return w->profile ? yk__profile_lines(w->profile, w->net, out, most) : 0;
}

static void passes(const yk_work *w, double *forward_out, double *backward_out)
{
    *forward_out = (double)w->forward_ns * 1e-9;
    *backward_out = (double)w->backward_ns * 1e-9;
}

static void timeline(yk_work *w, struct yk_trace_track *track)
{
    if (w->profile)
        yk__profile_trace(w->profile, w->net, track);
}

static int biases(const yk_model *m, yk_range *out, int most)
{
    const yk__net *net = (const yk__net *)m;
    int n = 0;
    for (int i = 0; i < net->nlayers && n < most; i++)
        if (net->layer[i].biases)
            out[n++] = (yk_range){net->layer[i].biases_at, net->layer[i].biases_at + net->layer[i].biases};
    return n;
}

const yk_model_ops yk_net_ops = {.name = "network",
                                 .create = create,
                                 .free = free_net,
                                 .work = work,
                                 .work_free = work_free,
                                 .grad = grad,
                                 .init = yk__net_init,
                                 .predict = predict,
                                 .on_ready = on_ready,
                                 .tensor_within = tensor_within,
                                 .export_tensor = export_tensor,
                                 .import_tensor = import_tensor,
                                 .describe = describe,
                                 .profile = profile_lines,
                                 .peak = yk__net_peak,
                                 .passes = passes,
                                 .timeline = timeline,
                                 .biases = biases};
