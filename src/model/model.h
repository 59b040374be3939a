/* A model computes the loss and the gradient of a batch. It owns no parameters: those are in the store.
 *
 * Example:
 *     yk_model *m;
 *     st = yk_model_create("lenet5", &shape, &m);         // shape: what the data looks like
 *     yk_workspace *work;
 *     st = yk_workspace_create(m, 64, &work);                   // one per worker, for batches of up to 64 examples
 *     m->ops->grad(m, work, &view, &batch, &grad);        // sums over the batch
 *     m->ops->predict(m, work, &view, &batch, p, &loss);  // probabilities
 *     yk_workspace_free(m, work);
 *     yk_model_free(m);
 *
 * A model declares parameter groups (core/group.h); grad and predict get a view of each, in an array [ngroups]. The layout of
 * the parameters within a group is private to the model. Checkpoints use tensors with the names and shapes of PyTorch instead:
 * yk_model_export() and yk_model_import() convert. A model is read-only after its creation and shared by all workers. A
 * workspace (yk_workspace) belongs to one worker and is used by one thread at a time. grad and predict allocate nothing.
 */
#ifndef YK_MODEL_MODEL_H
#define YK_MODEL_MODEL_H

#include "base/text.h"
#include "core/grad.h"
#include "core/rows.h"
#include "core/view.h"
#include "model/description.h"
#include "model/loss.h"
#include "model/net_options.h"
#include <stdio.h>

/* What a model needs to know about the data. */
typedef struct {
    yk_rows_kind kind;
    size_t dim;
    uint32_t classes;
    uint32_t fields; /* exclusive upper bound of the rows' field numbers; 0 or 1: they have none */
    bool positional; /* the fields are positions (data/positions.h) */
    bool bias;
    bool hashed;                    /* its columns are hashes of the keys in the data */
    bool not_hashed;                /* they are the indices in the data. Neither: not known */
    size_t channels, height, width; /* images; 0 otherwise */
    int threads;                    /* per worker */
    yk_net_options net;             /* networks only; zero: the defaults */
    const yk_loss *loss;            /* NULL: the default of the model */
} yk_model_shape;

struct yk_trace_track; /* watch/trace.h */

typedef struct yk_model yk_model;
typedef struct yk_workspace yk_workspace; /* workspace of one worker; each model defines its own */

enum { YK_MAX_RANK = 4, YK_MAX_TENSORS = 64 };

typedef struct {
    char name[32];
    int rank;
    size_t shape[YK_MAX_RANK];
    size_t size;       /* elements */
    int group;         /* parameter group */
    size_t offset;     /* in the parameters of the group */
    size_t transposed; /* 0: contiguous; otherwise element (r, c) is at offset + c * transposed + r */
    bool bias;
    char earlier[32]; /* its name in files of yoke 0.1.0; "": the same */
} yk_model_tensor;

enum { YK_MAX_LINES = 80, YK_MAX_PROFILE_LINES = 2 * YK_MAX_LINES }; /* more than a model has layers */

/* Description of a layer. */
typedef struct {
    char text[64];
    int rank;
    size_t shape[3]; /* of its output: channels, height, width; or values */
    size_t params;
    double flops, flops_back; /* multiplications and additions of its products per example; 0: none */
    size_t bytes;             /* of activations and their gradients, per worker */
} yk_layer_line;

/* The time of one worker in one pass of a layer. */
typedef struct {
    char text[64];
    const char *pass; /* "forward" or "backward" */
    int rank;
    size_t shape[3];
    uint64_t calls;
    double seconds, flops, bytes; /* totals; bytes: at least this many are read and written */
} yk_profile_line;

/* Called on the thread that called grad() when the range [begin, end) of the dense gradient, possibly empty, is final. */
typedef void yk_ready_hook(void *context, float *dense, size_t begin, size_t end);

typedef struct {
    const char *name;
    yk_model_input input; /* this, and what follows: see description.h */
    bool linear, needs_fields;
    const char *optimizer;     /* NULL: sgd with a learning rate of 0.1 */
    double keyed_lr, dense_lr; /* default learning rates with this optimizer */
    const char *loss;          /* the default loss */
    bool own_loss;             /* it has no other */
    bool one_output; /* only losses of one output; otherwise the loss determines the number of outputs */
    /* Sets all except `loss`, and `ops` if it is this table. */
    yk_status (*create)(const char *text, const yk_model_shape *shape, yk_model **out);
    void (*free)(yk_model *m); /* NULL: yk_free() */

    /* The struct begins with a yk_arena, from which workspace_init() allocates. yk_workspace_create() checks its status. */
    size_t workspace_bytes;
    yk_status (*workspace_init)(const yk_model *m, yk_workspace *w, size_t max_batch);
    void (*workspace_fini)(
        yk_workspace *w); /* optional: frees what is not in the arena; also after a failed init */

    void (*grad)(const yk_model *m, yk_workspace *w, const yk_view *v, const yk_batch *b, yk_grad *out);

    /* Optional (NULL: zeros): initial parameters of a group. */
    void (*init)(const yk_model *m, int group, float *params, uint64_t seed);

    /* p[i][0..outputs): probabilities. Adds the sum of the losses to *loss, unless it is NULL. */
    void (*predict)(const yk_model *m, yk_workspace *w, const yk_view *v, const yk_batch *b, float *p,
                    double *loss);

    /* Optional (NULL): the same for all rows of a sparse block, in order, which need not have been checked. Returns false, with
     * p undefined, if an index is not below rows->dim, if a value is not finite, or for other reasons. */
    bool (*predict_unchecked)(const yk_model *m, yk_workspace *w, const yk_view *v, const yk_rows *rows,
                              float *p);

    /* Optional (NULL: 1): how many of shape.threads a worker uses for batches of `max_batch`: as many as improve its speed. */
    int (*threads)(const yk_model *m, size_t max_batch);

    /* Optional (NULL: it has no network): the workspace of its network, for the functions yk_net_*() below. */
    yk_workspace *(*network)(yk_workspace *w);

    /* Optional (NULL: derived from the tensors): its layers, for batches of `max_batch`; returns the number of lines. */
    int (*describe)(const yk_model *m, size_t max_batch, yk_layer_line out[static YK_MAX_LINES]);

    /* Optional (NULL: derived from the tensors): writes the layers as PyTorch modules. */
    void (*torch)(const yk_model *m, yk_text *to);

    /* Optional (NULL): a burst, for sparse data: b->n steps of plain sgd with one example each, in order, exactly as separate
     * steps would be; loss[i] is the loss of row i before its step. With a batch size of 1 a step takes about 150 ns, and
     * separate calls for the batch, the weights, the gradient and the clock would double that (store/store.h). */
    void (*burst)(const yk_model *m, yk_workspace *w, const yk_view *v, const yk_batch *b, float lr,
                  float *loss);
} yk_model_ops;

struct yk_model {
    const yk_model_ops *ops;
    yk_model_shape shape;
    int ngroups;
    yk_group group[YK_MAX_GROUPS];
    size_t nparams;    /* floats of all groups */
    bool sparse;       /* has keyed groups; their keys may be remapped */
    uint32_t bias_key; /* internal id, in its keyed groups; UINT32_MAX: none */
    const yk_loss *loss;
    size_t outputs;   /* predictions per example: 1 (for example, of class 1) or the number of classes */
    const char *list; /* the layer list of a named model; NULL: none, or the name is the list. Borrowed */
    int ntensors;
    yk_model_tensor tensor[YK_MAX_TENSORS];
};

/* The loss of a model; given: as requested, or NULL. YK_EUSAGE: the model cannot be trained with it. */
yk_status yk_model_loss(const char *model, const yk_loss *given, const yk_loss **out);

yk_status yk_model_create(const char *name, const yk_model_shape *shape, yk_model **out);
void yk_model_free(yk_model *m);                         /* NULL is fine */
void yk_model_add_group(yk_model *m, yk_group group);    /* for create(); width 0 means 1 */
uint64_t yk_model_keys(const yk_model *m);               /* of its keyed groups; 0: none */
int yk_model_first_group(const yk_model *m, bool keyed); /* the first group of this kind; -1: none */
bool yk_model_can_burst(const yk_model *m);

/* The key of the bias in a batch; UINT32_MAX: none. */
static inline uint32_t yk_model_bias(const yk_model *m, const yk_batch *b)
{
    return m->bias_key != UINT32_MAX && b->remapped ? b->bias : m->bias_key;
}

/* Offset of a group in an array of all groups, in floats; for group == ngroups, the length of that array. */
size_t yk_model_group_offset(const yk_model *m, int group);

/* Copies tensor t from or to the parameters of its group (keys in the order of the data). `in` need not be aligned. */
void yk_model_export(const yk_model *m, int t, const float *params, float *out);
void yk_model_import(const yk_model *m, int t, const void *in, float *params);

yk_status yk_workspace_create(const yk_model *m, size_t max_batch, yk_workspace **out);
void yk_workspace_free(const yk_model *m, yk_workspace *w); /* NULL is fine */
/* The model as Python source: a PyTorch module named `model`, into which model.safetensors can be loaded. */
void yk_model_torch(const yk_model *m, yk_text *to);
int yk_model_describe(const yk_model *m, size_t max_batch, yk_layer_line out[static YK_MAX_LINES]);

/* ---- networks: w is what ops->network() returns */

/* From now on, grad() calls the hook as soon as a part of the gradient is final. NULL: it does not. */
void yk_net_on_ready(yk_workspace *w, yk_ready_hook *hook, void *context);
/* With shape.net.profile, the time of each layer in grad(). Returns the number of lines. */
int yk_net_profile(const yk_workspace *w, yk_profile_line out[static YK_MAX_PROFILE_LINES]);
double yk_net_peak(void); /* the highest FLOP/s that one thread reaches in matrix products */
/* Seconds of the two passes, sampled in some of the steps: only their ratio is meaningful. */
void yk_net_passes(const yk_workspace *w, double *forward_out, double *backward_out);
/* With shape.net.profile, records the layers as slices of this row of the trace. */
void yk_net_timeline(yk_workspace *w, struct yk_trace_track *track);

extern const yk_model_ops yk_net_ops, yk_branches_ops, yk_branches_net_ops;

#endif
