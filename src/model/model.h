/* A model turns a batch and parameters into a loss and a gradient. It owns neither: parameters lie in the store.
 *
 *     yk_model *m;
 *     st = yk_model_create("lenet5", &shape, &m);          // shape: what the data looks like
 *     yk_work *work;
 *     st = yk_model_work(m, 64, &work);                   // one per worker: room for batches of up to 64
 *     m->ops->grad(m, work, &view, &batch, &grad);        // sums over the batch
 *     m->ops->predict(m, work, &view, &batch, p, &loss);  // probabilities
 *     yk_work_free(m, work); yk_model_free(m);
 *
 * A model declares parameter groups (base/group.h); grad and predict get a view of each: `v` is an array [ngroups].
 * Which float of a group is what is the model's own affair, and the tensors it shows to the world (names and shapes as
 * in PyTorch) are made by export and taken by import, each from the parameters of its group. A model is read-only after its creation and
 * shared by all workers; grad and predict allocate nothing.
 */
#ifndef YK_MODEL_MODEL_H
#define YK_MODEL_MODEL_H

#include "base/grad.h"
#include "base/rows.h"
#include "base/status.h"
#include "base/view.h"
#include "model/net_options.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a model needs to know of the data. */
typedef struct {
    yk_rows_kind kind;
    size_t dim;
    uint32_t classes;
    bool bias;
    size_t channels, height, width; /* images; 0 otherwise */
    int threads;                    /* of one worker */
    yk_net_options net;             /* networks only; zero: the defaults */
} yk_model_shape;

struct yk_trace_track; /* watch/trace.h */

typedef struct yk_model yk_model;
typedef struct yk_work yk_work; /* scratch memory of one worker; each model defines its own */

enum { YK_MAX_RANK = 4, YK_MAX_TENSORS = 64 };

typedef struct {
    char name[32];
    int rank;
    size_t shape[YK_MAX_RANK];
    size_t size; /* elements */
    int group;   /* that it is in */
} yk_model_tensor;

enum { YK_MAX_LINES = 72, YK_MAX_PROFILE_LINES = 2 * YK_MAX_LINES };

/* One layer, for people. */
typedef struct {
    char text[64];
    int rank;
    size_t shape[3]; /* of its output: channels, height, width, or [numbers] */
    size_t params;
    double flops,
        flops_back; /* multiplications and additions of its products, an example, forward and backward; 0: none */
    size_t bytes; /* of activations and their gradients, one worker */
} yk_layer_line;

/* Where the time of one worker went: a layer in one pass. */
typedef struct {
    char text[64];
    const char *pass; /* "forward" or "backward" */
    int rank;
    size_t shape[3];
    uint64_t calls;
    double seconds, flops, bytes; /* of all calls; bytes: read and written at least once */
} yk_profile_line;

typedef struct {
    size_t begin, end;
} yk_range;

/* Called on the thread that called grad(); begin .. end of the dense gradient will not change any more. It may be empty. */
typedef void yk_ready_hook(void *context, float *dense, size_t begin, size_t end);

typedef struct {
    const char *name;
    yk_status (*create)(const char *text, const yk_model_shape *shape, yk_model **out);
    void (*free)(yk_model *m); /* NULL: one block of memory */
    yk_status (*work)(const yk_model *m, size_t max_batch, yk_work **out);
    void (*work_free)(yk_work *w);
    void (*grad)(const yk_model *m, yk_work *w, const yk_view *v, const yk_batch *b, yk_grad *out);

    /* Optional (NULL: zeros): the parameters of a group to begin with. */
    void (*init)(const yk_model *m, int group, float *params, uint64_t seed);

    /* p[i][0..outputs): probabilities; adds the batch's summed loss to *loss where labels are known. */
    void (*predict)(const yk_model *m, yk_work *w, const yk_view *v, const yk_batch *b, float *p,
                    double *loss);

    /* Optional (NULL): from now on, says in grad() which parameters' gradients are final while the rest is still computed. */
    void (*on_ready)(yk_work *w, yk_ready_hook *hook, void *context);

    /* Optional (NULL): the tensor itself, where it lies in the parameters of its group in one piece as it is; else NULL. */
    float *(*tensor_within)(const yk_model *m, int t, float *params);

    /* Tensor number t from or into the parameters of its group (keys in the order of the data). */
    void (*export_tensor)(const yk_model *m, int t, const float *params, float *out);
    void (*import_tensor)(const yk_model *m, int t, const float *in, float *params);

    /* Optional (NULL: made from the tensors): its layers with room for batches of `max_batch`; returns how many. */
    int (*describe)(const yk_model *m, size_t max_batch, yk_layer_line *out, int most);

    /* Optional (NULL: nothing is measured): with shape.net.profile, where time went in gradients; and how many FLOP/s of
     * products one thread can do at best. */
    int (*profile)(const yk_work *w, yk_profile_line *out, int most);
    double (*peak)(void);

    /* Optional (NULL): how long the two passes of gradients took, in some of the steps: what counts is their ratio. */
    void (*passes)(const yk_work *w, double *forward_out, double *backward_out);

    /* Optional (NULL): with shape.net.profile, layers are slices of this row of the timeline. */
    void (*timeline)(yk_work *w, struct yk_trace_track *track);

    /* Optional (NULL): many steps of one example each; sparse models only. See model/burst.h. */
    void (*burst)(const yk_model *m, yk_work *w, const yk_view *v, const yk_batch *b, float lr, float *loss);

    /* Where biases are in the flat vector, ascending; returns how many ranges. Dense models only. */
    int (*biases)(const yk_model *m, yk_range *out, int most);
} yk_model_ops;

struct yk_model {
    const yk_model_ops *ops;
    yk_model_shape shape;
    int ngroups;
    yk_group group[YK_MAX_GROUPS];
    size_t nparams;    /* floats of all groups */
    bool sparse;       /* it has keyed groups; their keys may be renamed: */
    uint32_t bias_key; /* of its keyed groups, by its inside name; UINT32_MAX: none */
    size_t outputs;    /* probabilities per example: 1 (of class 1) or the number of classes */
    int ntensors;
    yk_model_tensor tensor[YK_MAX_TENSORS];
};

yk_status yk_model_create(const char *name, const yk_model_shape *shape, yk_model **out);
void yk_model_free(yk_model *m);                      /* NULL is fine */
void yk_model_add_group(yk_model *m, yk_group group); /* for create(); a width of 0 is 1 */
uint64_t yk_model_keys(const yk_model *m);            /* of its keyed groups; 0: it has none */

/* All groups in one block: where a group begins, in floats; of group ngroups: how long the block is. */
size_t yk_model_group_at(const yk_model *m, int group);
yk_status yk_model_work(const yk_model *m, size_t max_batch, yk_work **out);
void yk_work_free(const yk_model *m, yk_work *w);                                          /* NULL is fine */
void yk_model_on_ready(const yk_model *m, yk_work *w, yk_ready_hook *hook, void *context); /* NULL: no more */
int yk_model_describe(const yk_model *m, size_t max_batch, yk_layer_line *out, int most);

extern const yk_model_ops yk_softmax_ops, yk_logreg_ops, yk_net_ops;

#endif
