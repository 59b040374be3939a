/* Inside of a network: what one worker has to compute with; shared by net.c, which makes it, and net_pass.c, which uses it. */
#ifndef YK_MODEL_NET_WORK_H
#define YK_MODEL_NET_WORK_H

#include "base/mem.h"
#include "base/sync.h"
#include "model/net.h"

enum { YK__MOST_BLOCKS = 64, YK__MOST_PARTS = 3 }; /* of a chunk; of a layer's backward */

typedef struct {
    yk_work *work;
    int me;
    yk_thread thread;
} yk__helper;

struct yk_work {
    const yk__net *net;
    yk__layer layer[YK__MOST_LAYERS]; /* with tables for this worker's chunk */
    size_t chunk;                     /* blocks */
    struct {
        int layer, part;
        bool last; /* of the layer: after it all gradients of the layer are complete */
    } back[YK__MOST_LAYERS * YK__MOST_PARTS]; /* the stages after the loss */
    int nback;
    void *memory; /* of what follows, up to of_image, and the layers' rooms */
    float *x[YK__MOST_LAYERS + 1], *dx[YK__MOST_LAYERS + 1];
    float *grad;
    float (*of_image)[2]; /* [16 * chunk] see yk__input_take(); NULL where it is not needed */
    yk__profile *profile; /* NULL: nothing is measured */
    uint64_t npasses, forward_ns, backward_ns; /* the time of one training pass in eight */
    int threads;
    yk_team *team;
    yk__helper *helpers;
    int started;
    yk_crew crew;                                /* the same threads, for others */
    void (*job)(void *context, int me, int all); /* NULL: a pass */
    void *job_context;
    /* the pass that is under way */
    const yk_batch *batch;
    const float *params;
    float *p; /* probabilities, or NULL */
    bool training, quit;
    uint64_t noise;
    double loss, block_loss[YK__MOST_BLOCKS];
    yk_ready_hook *ready; /* NULL: nobody wants to know */
    void *ready_context;
};

yk_status yk__start_helpers(yk_work *w); /* w->threads - 1 of them */
void yk__stop_helpers(yk_work *w);
void yk__pass(yk_work *w); /* over w->batch */

#endif
