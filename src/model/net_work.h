/* Inside of a network: what one worker has to compute with; shared by net.c, which makes it, and net_pass.c, which uses it. */
#ifndef YK_MODEL_NET_WORK_H
#define YK_MODEL_NET_WORK_H

#include "base/mem.h"
#include "model/net.h"
#include <pthread.h>
#include <stdatomic.h>

enum { YK__MOST_BLOCKS = 64, YK__MOST_PARTS = 3 }; /* of a chunk; of a layer's backward */

typedef struct {
    yk_work *work;
    int me;
    pthread_t thread;
} yk__helper;

/* Another worker that has nothing to do may take part in a pass, from the next stage on or with leaves (net_pass.c). */
typedef enum {
    YK__GUEST_CLOSED, /* there is no pass */
    YK__GUEST_NONE,
    YK__GUEST_KNOCKS,
    YK__GUEST_INSIDE,
    YK__GUEST_LATER /* the host is alone until the next chunk, or the end */
} yk__guest;

enum { YK__LEAF_OPEN = 16, YK__LEAF_CHUNK = 32 }; /* shifts in yk__desk.leaves */

/* What a worker and its guests have to know of each other and of the pass. */
typedef struct yk__desk {
    atomic_uint_fast64_t guest; /* yk__guest, of which visit, in which round */
    size_t at;                  /* where it begins: the chunk, and the stage in it */
    int stage;
    _Alignas(YK_ALIGN) atomic_uint_fast64_t leaves; /* pieces taken; opened so far; the number of the chunk */
    atomic_uint_fast64_t leaves_done;               /* pieces, of all chunks */
    size_t leaves_at;                               /* their chunk; who has taken a piece may read it */
    size_t images;                                  /* of the batch */
    uint64_t noise;
    double block_loss[YK__MOST_BLOCKS];
    double patience;    /* seconds for the other one to come to a meeting; 0: for ever */
    atomic_bool broken; /* it did not */
    struct {
        _Alignas(YK_ALIGN) atomic_uint meetings; /* of all visits: both have come to as many after each */
    } side[2];
} yk__desk;

/* Of these, `memory` may be shared with other processes: then another process has a work of its own on the same memory, with
 * tables and parameters of its own, to help with. */
struct yk_work {
    const yk__net *net;
    yk__layer layer[YK__MOST_LAYERS]; /* with tables for this worker's chunk */
    size_t chunk;                     /* blocks */
    struct {
        int layer, part;
        bool last;                            /* of the layer */
        bool final;                           /* after it all gradients of the layer are there */
    } back[YK__MOST_LAYERS * YK__MOST_PARTS]; /* the stages after the loss */
    int nback;
    struct {
        int layer;
        int opens;           /* when so many stages after the loss are done */
        int pieces;          /* that it is done in */
    } leaf[YK__MOST_LAYERS]; /* what has time until after these */
    int nleaves;
    void *memory; /* of what follows, up to of_image, and the layers' rooms; NULL: not ours */
    bool afar;    /* guests are other processes, and see nothing else */
    yk__desk *desk;
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
    bool training, quit, welcomes;
    uint64_t round; /* that guests are welcome in */
    uint32_t visit; /* the door was opened so often */
    double loss;
    yk_ready_hook *ready; /* NULL: nobody wants to know */
    void *ready_context;
};

yk_status yk__start_helpers(yk_work *w); /* w->threads - 1 of them */
void yk__stop_helpers(yk_work *w);
void yk__pass(yk_work *w); /* over w->batch */

void yk__welcome_guests(yk_work *w, uint64_t round, double patience);
bool yk__help(yk_work *w, uint64_t round, const float *params);

#endif
