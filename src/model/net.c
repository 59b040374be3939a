/* A network as a model: creation and workspace. The passes are in net_pass.c. */
#include "model/net_workspace.h"

#include "base/mem.h"
#include "model/layer_list.h"
#include "model/models.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A batch is processed in chunks. For networks with up to SMALL parameters, a chunk fits into the cache of a core; for larger
 * ones it is as large as possible, because reading the weights is what costs. */
enum { SMALL = 1 << 21, CACHE_BYTES = 3 << 19 };

/* By blocks: memory of a wave; multiplications per stage and thread below which another thread does not help. */
enum { WAVE_BYTES = 1 << 26, MIN_PRODUCTS = 1 << 16 };

/* ---- creation ---- */

/* Nothing needs the gradient of the input of the first layer with parameters, or of any layer before it. */
static void mark_no_input_gradient(yk__net *net)
{
    for (int i = 0; i < net->nlayers; i++) {
        net->layer[i].no_input_gradient = true;
        if (net->layer[i].weights)
            return;
    }
}

/* Makes the borders of layers with equal_borders equal. Repeated, since that changes the borders of neighboring layers. */
static void choose_borders(yk__net *net)
{
    for (int round = 0; round < net->nlayers; round++)
        for (int i = 0; i < net->nlayers; i++) {
            yk__edge *a = &net->edge[net->layer[i].in], *b = &net->edge[net->layer[i].out];
            if (!net->layer[i].ops->equal_borders)
                continue;
            size_t max = a->border;
            max = a->grad_border > max ? a->grad_border : max;
            max = b->border > max ? b->border : max;
            max = b->grad_border > max ? b->grad_border : max;
            a->border = a->grad_border = b->border = b->grad_border = max;
        }
}

static yk_status add_tensors(yk__net *net)
{
    yk_model *m = &net->model;
    size_t offset = 0;
    choose_borders(net);
    for (int i = 0; i < net->nlayers; i++) {
        yk__layer *l = &net->layer[i];
        yk__layer_set_edges(l, &net->edge[l->in], &net->edge[l->out]);
        if (!l->weights)
            continue;
        if (m->ntensors + 2 > YK_MAX_TENSORS)
            return yk_fail(YK_EUSAGE, "too many layers with weights: at most %d", YK_MAX_TENSORS / 2);
        l->weights_offset = offset;
        l->biases_offset = offset + l->weights;
        offset += l->weights + l->biases;
        yk_model_tensor *w = &m->tensor[m->ntensors++], *b = &m->tensor[m->ntensors++];
        const size_t inputs = l->ops->weight_rank == 4 ? l->in_edge.channels : l->fan_in;
        *w = (yk_model_tensor){.rank = l->ops->weight_rank,
                               .shape = {l->count, inputs, l->kernel_h, l->kernel_w},
                               .size = l->weights,
                               .offset = l->weights_offset};
        *b = (yk_model_tensor){
            .rank = 1, .shape = {l->count}, .size = l->biases, .offset = l->biases_offset, .bias = true};
        snprintf(w->name, sizeof w->name, "%d.weight", i);
        snprintf(b->name, sizeof b->name, "%d.bias", i);
        snprintf(w->earlier, sizeof w->earlier, "%d.weight", l->stream);
        snprintf(b->earlier, sizeof b->earlier, "%d.bias", l->stream);
    }
    yk_model_add_group(m, (yk_group){.name = "network", .keys = offset});
    return YK_OK;
}

/* Checks the options against the shape of the data. */
static yk_status check_options(const yk__net *net)
{
    const yk_net_options *o = &net->model.shape.net;
    const yk__edge *in = &net->edge[0];
    if (o->standardize == YK_STANDARDIZE_CHANNEL && o->channels != in->channels)
        return yk_fail(YK_EUSAGE,
                       "--standardize channel: mean and deviation of %zu channel%s are given, but the data "
                       "has %zu channel%s",
                       o->channels, yk_plural(o->channels), in->channels, yk_plural(in->channels));
    if ((o->flip || o->crop) && in->height == 1)
        return yk_fail(YK_EUSAGE, "--augment is for images; the data has rows of %zu numbers", in->width);
    if (o->crop && (o->crop >= in->height || o->crop >= in->width))
        return yk_fail(YK_EUSAGE, "--augment crop:%zu is too large for images of %zux%zu", o->crop,
                       in->height, in->width);
    return YK_OK;
}

static size_t outputs_of(const yk_model_shape *shape)
{
    return shape->loss && !shape->loss->per_class ? 1 : shape->classes;
}

/* name: NULL: it has none, see yk__net_parse(). */
static yk_status create_net(const char *name, const char *list, size_t begin, size_t end,
                            const yk_model_shape *shape, bool is_branch, yk__net **out)
{
    yk__net *net = yk_alloc(1, sizeof *net, "the network");
    if (!net)
        return YK_ESYSTEM;
    net->is_branch = is_branch;
    net->model = (yk_model){.ops = &yk_net_ops,
                            .shape = *shape,
                            .loss = shape->loss,
                            .outputs = is_branch ? 1 : outputs_of(shape),
                            .bias_key = UINT32_MAX};
    yk_status st = yk__net_parse(net, name, list, begin, end);
    if (!st && (shape->dim == 0 || yk__edge_size(&net->edge[0]) != shape->dim))
        st = yk_fail(YK_EDATA, "rows of %zu columns are not images of %zu x %zu x %zu", shape->dim,
                     shape->channels, shape->height, shape->width);
    if (!st)
        st = check_options(net);
    if (!is_branch)
        mark_no_input_gradient(net);
    if (!st)
        st = add_tensors(net);
    if (!st && net->model.nparams == 0)
        st = yk__list_error(list, end, "the network has no parameters: add a conv or dense layer");
    if (st)
        yk_free(net);
    else
        *out = net;
    return st;
}

yk_status yk__net_branch(const char *list, size_t begin, size_t end, const yk_model_shape *shape,
                         yk__net **out)
{
    return create_net(NULL, list, begin, end, shape, true, out);
}

static yk_status create(const char *text, const yk_model_shape *shape, yk_model **out)
{
    yk_model_shape s = *shape;
    yk__net *net;
    char *list;
    if (!s.channels) { /* not images: one row of values */
        s.channels = s.height = 1;
        s.width = s.dim;
    }
    yk_status st = yk__list_expand(text, outputs_of(&s), &list);
    if (st)
        return st;
    if (s.kind == YK_ROWS_SPARSE && !yk__list_is_word(list)) /* a word is probably an unknown model */
        st = yk_fail(YK_EUSAGE, "networks need dense data: read a table with encode=dense; for other sparse "
                                "data use --model logreg or wide-deep");
    if (!st && s.loss && !s.loss->per_class && !s.loss->numbers)
        st = yk__model_check(text, &s);
    if (!st)
        st = create_net(yk__list_is_named(text) ? text : NULL, list, 0, strlen(list), &s, false, &net);
    if (!st)
        *out = &net->model;
    free(list);
    return st;
}

/* ---- workspace ---- */

static void workspace_fini(yk_workspace *w)
{
    yk_thread_pool_free(w->pool);
    for (int g = 0; w->group && g < w->division.groups; g++)
        yk_team_free(w->group[g].team);
}

/* Blocks per chunk. It does not depend on the number of threads, since it changes the order of additions. */
static size_t chunk_of(const yk__net *net, size_t max_batch)
{
    const size_t blocks = (max_batch + YK_LANES - 1) / YK_LANES;
    size_t bytes = 0;
    for (int e = 0; e < net->nedges; e++)
        bytes += yk__edge_bytes(&net->edge[e], 1);
    size_t chunk = net->model.nparams > SMALL ? YK__MAX_BLOCKS : (size_t)CACHE_BYTES / bytes;
    chunk = chunk < 1 ? 1 : chunk > YK__MAX_BLOCKS ? YK__MAX_BLOCKS : chunk;
    return chunk < blocks ? chunk : blocks;
}

/* Large networks are divided by layers, because their weights should be read once per chunk. Threads that share a block wait
 * for each other after each stage, so groups are as small as possible, and never larger than the work justifies. */
static yk__division divide(const yk__net *net, size_t max_batch)
{
    const size_t blocks = (max_batch + YK_LANES - 1) / YK_LANES, chunk = chunk_of(net, max_batch);
    const int threads = net->model.shape.threads > 1 ? net->model.shape.threads : 1;
    yk__division d = {.chunk = chunk, .wave = chunk, .groups = 1, .size = threads};
    d.by_blocks = threads > 1 && net->model.nparams <= SMALL && blocks > 0;
    if (!d.by_blocks)
        return d;
    size_t bytes = 1, stages = 2;
    double products = 0.0;
    for (int i = 0; i < net->nlayers; i++) {
        const yk__layer *l = &net->layer[i];
        bytes += (l->workspace_block + l->workspace_wave) * sizeof(float);
        stages += 2 + (size_t)l->ops->weight_parts;
        products += 1.5 * l->flops * YK_LANES; /* forward, weights, input */
    }
    size_t wave = (size_t)WAVE_BYTES / bytes;
    wave = wave < blocks ? wave : blocks;
    wave = wave < YK__MAX_BLOCKS ? wave : YK__MAX_BLOCKS;
    d.wave = wave == blocks ? blocks
             : wave > chunk ? wave / chunk * chunk
                            : chunk; /* every wave begins with a chunk */
    const int all = (int)(blocks < d.wave ? blocks : d.wave),
              max = 1 + (int)(products / (double)stages / MIN_PRODUCTS);
    d.size = threads / all < 1 ? 1 : threads / all;
    d.size = d.size < max ? d.size : max;
    d.groups = threads / d.size < all ? threads / d.size : all;
    if (d.groups * d.size == 1)
        d = (yk__division){.chunk = chunk, .wave = chunk, .groups = 1, .size = 1};
    return d;
}

/* Reserves the next bytes of `memory`; if that is NULL, only counts them. */
static void *reserve(char *memory, size_t *used, size_t bytes)
{
    void *piece = memory ? memory + *used : NULL;
    *used += YK_ROUND_UP(bytes, YK_ALIGN);
    return piece;
}

/* Sets the pointers of the workspace into `memory`, and returns its size in bytes. */
static size_t lay_out_workspace(yk_workspace *w, char *memory)
{
    const yk__net *net = w->net;
    const yk__division *d = &w->division;
    size_t used = 0;
    w->grad = reserve(memory, &used, net->model.nparams * sizeof(float));
    for (int g = 0; g < d->groups; g++) {
        yk__net_group *group = &w->group[g];
        for (int e = 0; e < net->nedges; e++) {
            const yk__edge *edge = &net->edge[e];
            const size_t x = yk__strides_of(edge, edge->border).block,
                         dx = yk__strides_of(edge, edge->grad_border).block;
            group->x[e] = reserve(memory, &used, d->chunk * x * sizeof(float));
            group->dx[e] = reserve(memory, &used, d->chunk * dx * sizeof(float));
        }
    }
    for (int i = 0; i < net->nlayers; i++) {
        yk__layer *l = &w->layer[i];
        const size_t block = l->workspace_block + (d->by_blocks ? l->workspace_wave : 0);
        l->workspace = reserve(memory, &used, (block * d->wave + l->workspace_more) * sizeof(float));
        l->mean.inputs = !l->weights ? 0 : l->ops->weight_rank == 4 ? l->in_edge.channels : l->fan_in;
        l->mean.mean = reserve(memory, &used, l->mean.inputs * sizeof(float));
    }
    return used;
}

/* Adds a block of inputs of a layer. The input of a filter is a channel. */
static void add_inputs(yk__layer *l, const float *x, size_t images)
{
    const size_t pixels = l->in_edge.height * l->in_edge.width,
                 per_input = l->in_edge.channels * pixels / l->mean.inputs;
    yk__mean_input_begin(&l->mean, images * per_input);
    for (size_t c = 0; c < l->in_edge.channels; c++)
        for (size_t p = 0; p < pixels; p++) {
            const float *at =
                x + yk__offset(&l->x, c, (int64_t)(p / l->in_edge.width), (int64_t)(p % l->in_edge.width));
            float sum = 0.0f;
            for (size_t i = 0; i < images; i++)
                sum += at[i];
            l->mean.mean[(c * pixels + p) / per_input] += l->mean.weight * sum;
        }
}

/* Of stale gradients. The inputs are those of the last block of the first group of threads. */
static void damp(yk_workspace *w, int in_flight)
{
    for (int i = 0; w->images && i < w->net->nlayers; i++) {
        yk__layer *l = &w->layer[i];
        if (!l->weights)
            continue;
        add_inputs(l, w->group[0].x[l->in], w->images);
        yk__mean_input_damp(&l->mean, l->fan_in / l->mean.inputs, in_flight, w->grad + l->weights_offset,
                            l->count);
    }
}

/* Offsets within a block are 32 bits wide. */
static yk_status check_sizes(const yk__net *net)
{
    for (int i = 0; i < net->nlayers; i++) {
        const yk__layer *l = &net->layer[i];
        const bool in = l->x.block > INT32_MAX || l->dx.block > INT32_MAX;
        const yk__edge *e = in ? &l->in_edge : &l->out_edge;
        if (in || l->y.block > INT32_MAX || l->dy.block > INT32_MAX)
            return yk_fail(YK_EUSAGE, "layer %d, %s: %zu x %zu x %zu values per image are too many", i,
                           l->text, e->channels, e->height, e->width);
    }
    return YK_OK;
}

static yk_status workspace_init(const yk_model *m, yk_workspace *w, size_t max_batch)
{
    w->net = (const yk__net *)m;
    w->division = divide(w->net, max_batch);
    w->threads = w->division.groups * w->division.size;
    memcpy(w->layer, w->net->layer, sizeof w->layer);
    for (int i = 0; i < w->net->nlayers; i++) {
        w->layer[i].chunk = w->division.chunk;
        w->layer[i].wave = w->division.by_blocks ? w->division.wave : 0;
    }
    w->group =
        yk_arena_alloc(&w->memory, (size_t)w->division.groups, sizeof *w->group, "the threads of a worker");
    yk_status st = w->group ? check_sizes(w->net) : YK_ESYSTEM;
    if (st)
        return st;
    lay_out_workspace(w,
                      yk_arena_alloc(&w->memory, 1, lay_out_workspace(w, NULL), "activations and gradients"));
    if (m->shape.net.profile)
        w->profile = yk_arena_alloc(&w->memory, 1, sizeof *w->profile, "a profile");
    for (int i = 0; !st && i < w->net->nlayers; i++)
        if (w->layer[i].ops->prepare)
            st = w->layer[i].ops->prepare(&w->layer[i], w->division.chunk, &w->memory);
    for (int g = 0; !st && w->division.size > 1 && g < w->division.groups; g++)
        st = yk_team_create(w->division.size, &w->group[g].team);
    return !st && w->threads > 1 ? yk_thread_pool_create(w->threads, &w->pool) : st;
}

/* ---- functions of the model ---- */

yk__branch_net yk__net_connect(yk_workspace *w, const yk__branch_hooks *hooks)
{
    w->hooks = *hooks;
    return (yk__branch_net){w->grad, w->pool, w->division};
}

static void grad(const yk_model *m, yk_workspace *w, const yk_view *v, const yk_batch *b, yk_grad *out)
{
    (void)m;
    const double loss = yk__net_pass(w, b, v->w, true, NULL);
    if (v->in_flight > 1)
        damp(w, v->in_flight);
    *out = (yk_grad){.examples = b->n, .loss = loss, .group = {{.dense = w->grad}}, .pool = w->pool};
}

static void predict(const yk_model *m, yk_workspace *w, const yk_view *v, const yk_batch *b, float *p,
                    double *loss)
{
    (void)m;
    const double sum = yk__net_pass(w, b, v->w, false, p);
    if (loss)
        *loss += sum;
}

static int describe(const yk_model *m, size_t max_batch, yk_layer_line *out)
{
    const yk__net *net = (const yk__net *)m;
    const yk__division d = divide(net, max_batch);
    return yk__net_describe(net, d.chunk * (size_t)d.groups, out);
}

static int threads(const yk_model *m, size_t max_batch)
{
    const yk__division d = divide((const yk__net *)m, max_batch);
    return d.groups * d.size;
}

void yk_net_on_ready(yk_workspace *w, yk_ready_hook *hook, void *context)
{
    w->ready = hook;
    w->ready_context = context;
}

int yk_net_profile(const yk_workspace *w, yk_profile_line out[static YK_MAX_PROFILE_LINES])
{
    return w->profile ? yk__profile_lines(w->profile, w->net, out) : 0;
}

void yk_net_passes(const yk_workspace *w, double *forward_out, double *backward_out)
{
    *forward_out = (double)w->forward_ns * 1e-9;
    *backward_out = (double)w->backward_ns * 1e-9;
}

static yk_workspace *network(yk_workspace *w)
{
    return w;
}

void yk_net_timeline(yk_workspace *w, struct yk_trace_track *track)
{
    if (w->profile)
        yk__profile_trace(w->profile, w->net, track);
}

const yk_model_ops yk_net_ops = {.name = "network",
                                 .loss = "softmax",
                                 .create = create,
                                 .workspace_bytes = sizeof(yk_workspace),
                                 .workspace_init = workspace_init,
                                 .workspace_fini = workspace_fini,
                                 .grad = grad,
                                 .init = yk__net_init,
                                 .predict = predict,
                                 .threads = threads,
                                 .network = network,
                                 .torch = yk__net_torch,
                                 .describe = describe};
