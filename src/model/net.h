/* Inside of a network: a list of layers, each a file with the same verbs.
 *
 *     input -> [edge 0] -> conv -> [edge 1] -> relu -> [edge 1] -> maxpool -> [edge 2] -> ... -> dense -> [edge n] -> softmax
 *
 * An edge is what flows between two layers: activations going forward, and gradients of the loss by them coming back. Layers
 * that work in place (relu, dropout) have the same edge on both sides. An edge is stored as [block][channel][row][column][16
 * images], with a border of zeros as wide as the convolutions beside it need (they then have no special case at the border).
 *
 * A pass over a batch goes in chunks of a few blocks that fit into the cache; in a chunk, layer by layer, all threads of the
 * worker share each layer and meet after it. What a thread does never changes the result.
 */
#ifndef YK_MODEL_NET_H
#define YK_MODEL_NET_H

#include "base/rng.h"
#include "base/thread.h"
#include "kern/block.h"
#include "kern/lanes.h"
#include "model/model.h"

enum { YK__MOST_LAYERS = 64 };

typedef struct {
    size_t channels, height, width;
    size_t border, grad_border; /* zeros around activations, and around gradients */
} yk__edge;

static inline size_t yk__edge_size(const yk__edge *e)
{
    return e->channels * e->height * e->width;
}

/* Floats between rows, channels and blocks, and where pixel (0, 0) of channel 0 lies; with this border. */
typedef struct {
    size_t row, channel, block, origin;
} yk__strides;

static inline yk__strides yk__strides_of(const yk__edge *e, size_t border)
{
    const size_t row = (e->width + 2 * border) * YK_LANES, channel = row * (e->height + 2 * border);
    return (yk__strides){row, channel, channel * e->channels, border * row + border * YK_LANES};
}

static inline int32_t yk__offset(const yk__strides *s, size_t c, int64_t y, int64_t x)
{
    return (int32_t)((int64_t)(c * s->channel + s->origin) + y * (int64_t)s->row + x * YK_LANES);
}

typedef struct yk__layer yk__layer;
typedef struct yk__net yk__net;
typedef struct yk__profile yk__profile;
typedef struct yk__run yk__run;

/* What a layer's backward pass reads of its own output, and what a layer that overwrites it in place preserves of it. */
typedef enum { YK__NO_VALUES, YK__SIGNS, YK__ALL_VALUES } yk__values;

/* A kind of layer: what it does, and the traits by which other code treats kinds differently. That code never compares
 * pointers to ops. */
typedef struct {
    const char *name;
    const char *usage; /* "conv FILTERS HxW [/STRIDE] [same|valid|pad N]" */

    /* Reads the words after the name into l; returns what is wrong, or NULL. */
    const char *(*parse)(yk__layer *l, int nwords, char **word);

    /* l->in is known: sets l->out, the borders it needs of in and out, and the sizes of its parameters. YK_EUSAGE with a
     * reason in words. */
    yk_status (*shape)(yk__layer *l, yk__edge *in, yk__edge *out);

    yk_status (*plan)(yk__layer *l, size_t max_blocks); /* borders are final: makes its tables. May be NULL */
    void (*forward)(const yk__layer *l, const yk__run *r);
    void (*backward)(const yk__layer *l,
                     const yk__run *r); /* first its own gradient, then that of its input */
    void (*free)(yk__layer *l);         /* may be NULL */

    int parts; /* of backward, one call each: all threads meet in between. The last is for its input, and left out where
                  nobody needs that. 0: one call, which sees to it itself */

    yk__values backward_reads; /* of its own output */
    bool elementwise;          /* computes each value on its own: it may work in place, */
    yk__values preserves;      /* if it preserves what the backward pass of the previous layer reads */
    bool equal_borders;        /* its input and output must have the same border */
    bool output_border;        /* its output may have a border */
    bool flat_output;          /* its output is described as one dimension */
    int weight_rank; /* 4: [count][channels][kernel_h][kernel_w]; 2: [count][fan_in]; 0: no weights */
} yk__layer_ops;

struct yk__layer {
    const yk__layer_ops *ops;
    char text[64]; /* as written */
    int number;
    int in, out;                  /* edges; equal for layers that work in place */
    bool first;                   /* nobody needs the gradient of its input */
    size_t weights, biases;       /* how many parameters */
    size_t weights_at, biases_at; /* where they are in the flat vector */
    size_t fan_in, fan_out;
    /* what was asked for: each kind uses some */
    size_t count, kernel_h, kernel_w, stride, pad;
    enum { YK__VALID, YK__SAME, YK__PADDED } padding;
    yk_activation activation;
    float rate, alpha, beta, bias;
    yk__edge in_edge, out_edge; /* copies of the final ones */
    void *plan;                 /* tables; owned by the kind */
    size_t workspace_block,
        workspace_more; /* floats to work with, beside its edges: for each block of a chunk, and once */
    float *workspace;
    double flops; /* multiplications and additions of one image going forward */
};

struct yk__net {
    yk_model model; /* first: a network is a model */
    int nlayers, nedges;
    yk__layer layer[YK__MOST_LAYERS];
    yk__edge edge[YK__MOST_LAYERS + 1];
    char *text;
};

/* What a layer sees in a pass. */
struct yk__run {
    const yk__net *net;
    const yk_block_ops *block;
    const yk_lanes_ops *lanes;
    const float *params;
    float *grad;     /* [nparams], added to by all chunks of a batch but the first: */
    bool fresh;      /* its gradient is written, whatever was there */
    float **x, **dx; /* by edge */
    size_t blocks;   /* in this chunk */
    bool training;
    uint64_t noise;
    int part; /* of a layer's backward */
    int thread, threads;
    yk_team *team; /* of the threads; NULL when there is one */
};

/* Part `thread` of n things, in multiples of `grain`. */
static inline void yk__part(const yk__run *r, size_t n, size_t grain, size_t *begin, size_t *end)
{
    const size_t grains = (n + grain - 1) / grain, t = (size_t)r->thread, all = (size_t)r->threads;
    *begin = grains * t / all * grain;
    *end = grains * (t + 1) / all * grain;
    *end = *end < n ? *end : n;
    *begin = *begin < *end ? *begin : *end;
}

static inline void yk__meet(const yk__run *r)
{
    if (r->team)
        yk_team_meet(r->team, r->thread);
}

extern const yk__layer_ops yk__conv_ops, yk__dense_ops, yk__maxpool_ops, yk__avgpool_ops, yk__relu_ops,
    yk__tanh_ops, yk__sigmoid_ops, yk__dropout_ops, yk__lrn_ops, yk__flatten_ops;

/* net_input.c: images that are standardised, flipped or moved on their way into edge 0. of_image: [16 * blocks] room for the
 * mean and the reciprocal deviation of each. */
bool yk__input_changes(const yk__net *net, bool training);
void yk__input_take(const yk__run *r, const yk_batch *batch, size_t first, uint64_t noise,
                    float (*of_image)[2]);

/* net_profile.c: the time of each layer and pass, as thread 0 of a worker sees it; NULL where nobody asked. Slots are the
 * input, the layers forward, the loss, the layers backward. */
struct yk__profile {
    struct {
        uint64_t calls, blocks, ns;
    } slot[2 * YK__MOST_LAYERS + 2];
    struct yk_trace_track *track; /* NULL: no timeline */
    char name[2 * YK__MOST_LAYERS + 2][80];
};

static inline int yk__slot_forward(int layer)
{
    return 1 + layer;
}

static inline int yk__slot_loss(const yk__net *net)
{
    return 1 + net->nlayers;
}

static inline int yk__slot_backward(const yk__net *net, int layer)
{
    return 2 + net->nlayers + layer;
}

/* What was done since `since` was this slot's; returns the time now. All of it is done for so many blocks. */
uint64_t yk__profile_add(yk__profile *p, int slot, uint64_t since);
void yk__profile_count(yk__profile *p, int slot, size_t blocks);
void yk__profile_trace(yk__profile *p, const yk__net *net, struct yk_trace_track *track);
int yk__profile_lines(const yk__profile *p, const yk__net *net, yk_profile_line *out, int most);
double yk__net_peak(void);

/* net_describe.c: memory of edge e for so many blocks, and the layers for people. */
size_t yk__edge_bytes(const yk__net *net, int e, size_t blocks);
int yk__net_lines(const yk__net *net, size_t blocks, yk_layer_line *out, int most);
double yk__flops_back(const yk__layer *l);

/* net_init.c: the weights to begin with, as model.shape.net says. */
void yk__net_init(const yk_model *m, int group, float *params, uint64_t seed);

/* "conv 6 5x5 same, relu, ..." or a known name; errors point at the place in the string. */
yk_status yk__net_parse(const char *text, const yk_model_shape *shape, yk__net *net);

#endif
