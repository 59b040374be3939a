/* Internals of networks. A network is a list of layers; each kind of layer is a file with the same functions.
 *
 *     input -> [edge 0] -> conv -> [edge 1] -> relu -> [edge 1] -> maxpool -> [edge 2] -> ... -> dense -> [edge n] -> softmax
 *
 * An edge holds what flows between two layers: activations forward, and the gradients of the loss with respect to them
 * backward. Layers that work in place (relu, dropout) have the same edge on both sides. An edge is stored as
 * [block][channel][row][column][16 images], with a border of zeros as wide as its convolutions need, so that they need no
 * special case there.
 *
 * A pass processes a batch in chunks of a few blocks that fit into the cache. The threads of a worker share its work in one of
 * two ways. The number of threads does not change the result.
 *
 *     by layers    all threads share each layer of a chunk, with a barrier after it: large networks
 *     by blocks    each group of threads takes its own blocks of a wave of chunks through all layers; then all threads compute
 *                  the gradients of the weights together, in finish(), in the order of the chunks: small networks
 *
 * A network is read-only after its creation. The workspace of a worker (net_workspace.h) has its own copy of the layers, with
 * tables for its chunk size.
 *
 * Example:
 *     yk__strides s = yk__strides_of(&edge, edge.border);
 *     float *pixel = x + block * s.block + yk__offset(&s, channel, row, column);   // pixel[0 .. 16): one float per image
 */
#ifndef YK_MODEL_NET_H
#define YK_MODEL_NET_H

#include "base/arena.h"
#include "base/team.h"
#include "kern/block.h"
#include "kern/lanes.h"
#include "model/mean_input.h"
#include "model/model.h"

enum { YK__MAX_LAYERS = 64 };

typedef struct {
    size_t channels, height, width;
    size_t border, grad_border; /* width of the zeros around activations, and around gradients */
} yk__edge;

static inline size_t yk__edge_size(const yk__edge *e)
{
    return e->channels * e->height * e->width;
}

/* Distances in floats between rows, channels and blocks; origin: offset of pixel (0, 0) of channel 0. */
typedef struct {
    size_t row, channel, block, origin;
} yk__strides;

static inline yk__strides yk__strides_of(const yk__edge *e, size_t border)
{
    const size_t row = (e->width + 2 * border) * YK_LANES, channel = row * (e->height + 2 * border);
    return (yk__strides){row, channel, channel * e->channels, border * row + border * YK_LANES};
}

/* Memory for the activations and gradients of an edge. */
static inline size_t yk__edge_bytes(const yk__edge *e, size_t blocks)
{
    return blocks * (yk__strides_of(e, e->border).block + yk__strides_of(e, e->grad_border).block) *
           sizeof(float);
}

static inline int32_t yk__offset(const yk__strides *s, size_t c, int64_t y, int64_t x)
{
    return (int32_t)((int64_t)(c * s->channel + s->origin) + y * (int64_t)s->row + x * YK_LANES);
}

typedef struct yk__layer yk__layer;
typedef struct yk__net yk__net;
typedef struct yk__profile yk__profile;
typedef struct yk__pass yk__pass;

/* What the backward pass of a layer reads of its output; what an in-place layer preserves of the values that it overwrites. */
typedef enum { YK__NO_VALUES, YK__SIGNS, YK__ALL_VALUES } yk__values;

typedef enum { YK__NOT_ELEMENTWISE, YK__ACTIVATION, YK__DROPOUT, YK__COPY } yk__elementwise;

/* A kind of layer: its functions, and the traits that other code checks. Other code never compares pointers to ops. */
typedef struct {
    const char *name;

    /* Parses the arguments after the name into l. Returns an error message, or NULL. */
    const char *(*parse)(yk__layer *l, int nargs, char **arg);

    /* Sets the shape of `out`, the borders that the layer needs on both edges, and the sizes of its parameters. YK_EUSAGE
     * if the input does not fit. */
    yk_status (*shape)(yk__layer *l, yk__edge *in, yk__edge *out);

    /* Creates the tables of a layer for chunks of max_blocks, in an arena whose status is checked later. May be NULL. */
    yk_status (*prepare)(yk__layer *l, size_t max_blocks, yk_arena *memory);

    void (*run)(const yk__layer *l, const yk__pass *ctx, bool back); /* forward or backward */

    /* By blocks: computes this thread's part of the weight gradients, from what run() stored for ctx->blocks blocks,
     * starting with the first block of the wave. NULL: no weights. */
    void (*finish)(const yk__layer *l, const yk__pass *ctx);

    /* The PyTorch module, "Conv2d", and its arguments, "1, 6, (5, 5), padding=2"; NULL: none. */
    const char *module;
    void (*torch)(const yk__layer *l, yk_text *to);

    /* Backward, run is called once per part, with a barrier after each: first weight_parts parts for the gradient of the weights,
     * then one for the gradient of the input, unless no_input_gradient. ctx->part is the number of the part. */
    int weight_parts;

    yk__values backward_reads; /* of its own output */
    /* An elementwise layer may work in place, unless the previous layer reads more than `preserves`. */
    yk__elementwise elementwise;
    yk__values preserves;
    bool equal_borders;       /* input and output must have the same border */
    bool output_border;       /* the output may have a border */
    bool flat_output;         /* described with one dimension */
    yk_activation activation; /* of relu, tanh and sigmoid */
    bool average;             /* of a pool: the mean, not the maximum */
    int weight_rank; /* 4: [count][channels][kernel_h][kernel_w]; 2: [count][fan_in]; 0: no weights */
} yk__layer_ops;

struct yk__layer {
    const yk__layer_ops *ops;
    char text[64]; /* as written */
    int number;
    int stream; /* of random numbers; also its number in files of yoke 0.1.0 (in named networks, without flatten) */
    int in, out;                          /* edges; equal for layers that work in place */
    bool no_input_gradient;               /* no layer before this one has parameters */
    size_t weights, biases;               /* numbers of parameters */
    size_t weights_offset, biases_offset; /* in the parameter vector of the network */
    size_t fan_in, fan_out;
    /* arguments; each kind uses some of them */
    size_t count, kernel_h, kernel_w, stride, pad;
    enum { YK__VALID, YK__SAME, YK__PADDED } padding;
    float rate, alpha, beta, bias;
    yk__edge in_edge, out_edge; /* copies of the final ones */
    yk__strides x, y, dx, dy;   /* of the input, the output, and their gradients */
    size_t chunk, wave;         /* blocks; wave: 0 by layers, otherwise a multiple of chunk */
    void *tables;               /* made by prepare() */
    /* Floats in addition to the edges: workspace_block per block of a chunk or wave, workspace_wave more if the work is
     * divided by blocks, and workspace_more once. Borrowed. */
    size_t workspace_block, workspace_wave, workspace_more;
    float *workspace;
    yk__mean_input mean; /* of its inputs; conv: of its input channels. Layers with weights */
    double flops;        /* multiplications and additions per image, forward */
};

struct yk__net {
    yk_model model; /* must be first */
    int nlayers, nedges;
    yk__layer layer[YK__MAX_LAYERS];
    yk__edge edge[YK__MAX_LAYERS + 1];
    bool is_branch; /* of another model, which provides its input and its loss */
};

/* What a layer needs in a pass; one per thread. */
struct yk__pass {
    const yk__net *net;
    const yk_block_ops *block;
    const yk_lanes_ops *lanes;
    const float *params;
    float *grad; /* [nparams] */
    /* The first chunk or wave of the batch: its gradients overwrite `grad`; those of the others are added. */
    bool first_chunk;
    float **x, **dx; /* [edge] activations and gradients */
    size_t blocks;   /* in this pass: of a chunk, or a part of one */
    size_t in_chunk; /* number of the first of them in its chunk; by layers 0 */
    size_t in_wave;  /* and in its wave; by layers 0 */
    bool training;
    uint64_t noise;
    int part; /* of backward */
    int thread, threads;
    yk_team *team; /* of these threads; NULL: one thread */
};

/* The range of n items for this thread, in multiples of `grain`. */
static inline void yk__thread_range(const yk__pass *ctx, size_t n, size_t grain, size_t *begin, size_t *end)
{
    const size_t grains = (n + grain - 1) / grain, t = (size_t)ctx->thread, all = (size_t)ctx->threads;
    *begin = grains * t / all * grain;
    *end = grains * (t + 1) / all * grain;
    *end = *end < n ? *end : n;
    *begin = *begin < *end ? *begin : *end;
}

static inline void yk__pass_barrier(const yk__pass *ctx)
{
    if (ctx->team)
        yk_team_barrier(ctx->team, ctx->thread);
}

/* shape() of layers whose output has the shape of their input. */
static inline yk_status yk__same_shape(yk__layer *l, yk__edge *in, yk__edge *out)
{
    (void)l;
    *out = (yk__edge){.channels = in->channels, .height = in->height, .width = in->width};
    return YK_OK;
}

/* Called when the borders are final. */
static inline void yk__layer_set_edges(yk__layer *l, const yk__edge *in, const yk__edge *out)
{
    l->in_edge = *in;
    l->out_edge = *out;
    l->x = yk__strides_of(in, in->border);
    l->dx = yk__strides_of(in, in->grad_border);
    l->y = yk__strides_of(out, out->border);
    l->dy = yk__strides_of(out, out->grad_border);
}

extern const yk__layer_ops yk__conv_ops, yk__dense_ops, yk__maxpool_ops, yk__avgpool_ops, yk__relu_ops,
    yk__tanh_ops, yk__sigmoid_ops, yk__dropout_ops, yk__lrn_ops, yk__flatten_ops;

/* net_torch.c */
void yk__net_torch(const yk_model *m, yk_text *to);
void yk__layer_torch(const yk__layer *l, yk_text *to);

/* net_input.c: copies images first .. first + 16 * blocks - 1 of the batch to edge 0, standardized and augmented. */
void yk__load_images(const yk__pass *ctx, const yk_batch *batch, size_t first, uint64_t noise);

/* net_describe.c: the time of each layer and pass, measured by thread 0 of a worker. Slot i is layer i, forward. */
enum {
    YK__SLOT_BACKWARD = YK__MAX_LAYERS, /* of layer 0 */
    YK__SLOT_INPUT = 2 * YK__MAX_LAYERS,
    YK__SLOT_LOSS,
    YK__SLOTS
};

struct yk__profile {
    struct {
        uint64_t calls, blocks, ns;
    } slot[YK__SLOTS];
    struct yk_trace_track *track; /* NULL: no timeline */
    char name[YK__SLOTS][80];
};

/* Adds the time since `since` to a slot and, unless `blocks` is 0, one call with that many blocks. Returns the current time. */
uint64_t yk__profile_add(yk__profile *p, int slot, uint64_t since, size_t blocks);
void yk__profile_trace(yk__profile *p, const yk__net *net, struct yk_trace_track *track);
int yk__profile_lines(const yk__profile *p, const yk__net *net, yk_profile_line *out);

/* Returns the number of lines. */
int yk__net_describe(const yk__net *net, size_t blocks, yk_layer_line *out);

/* net_init.c: initial weights, as specified by model.shape.net. */
void yk__net_init(const yk_model *m, int group, float *params, uint64_t seed);

/* net_parse.c */
yk_status yk__net_check_name(const char *text); /* YK_EUSAGE: a word that is neither a name nor a layer */
/* Sets the layers and edges from the part [begin, end) of a list; errors point into the list. name: that of a named network, or
 * NULL. */
yk_status yk__net_parse(yk__net *net, const char *name, const char *list, size_t begin, size_t end);

/* How the threads of a worker share the work: by layers or by blocks. */
typedef struct {
    bool by_blocks;
    size_t chunk, wave; /* blocks; wave: by layers, a chunk */
    int groups, size;   /* threads of a group */
} yk__division;

/* ---- a network as a branch of another model (branches.h) ---- */

/* What the other model provides: its own margins, and where the derivatives of the loss of the sum of both are stored. `first` is
 * the number of the first example of ctx->blocks blocks in the batch. All threads of a group call load() and input_gradient(), and a
 * barrier of the group follows. */
typedef struct {
    void (*load)(void *context, const yk__pass *ctx, size_t first);           /* fills edge 0 */
    void (*input_gradient)(void *context, const yk__pass *ctx, size_t first); /* reads that of edge 0 */
    /* All threads of the worker, after input_gradient() of n examples from `first` on: those of a chunk or wave. */
    void (*finish)(void *context, int me, size_t first, size_t n);
    void *context;
    const float *z; /* [max_batch] */
    float *err;     /* [max_batch] */
} yk__branch_hooks;

/* The layers in the part [begin, end) of the list. shape: one row of `channels` values. */
yk_status yk__net_branch(const char *list, size_t begin, size_t end, const yk_model_shape *shape,
                         yk__net **out);

/* What the network provides. */
typedef struct {
    float *grad;          /* [nparams] of the last pass */
    yk_thread_pool *pool; /* NULL: one thread */
    yk__division division;
} yk__branch_net;

/* From now on, the passes of this workspace of a network call the hooks. */
yk__branch_net yk__net_connect(yk_workspace *work, const yk__branch_hooks *hooks);

/* net_pass.c: a pass over a batch. p: see predict() in model.h; may be NULL. Returns the sum of the losses. */
double yk__net_pass(yk_workspace *work, const yk_batch *batch, const float *params, bool training, float *p);

#endif
