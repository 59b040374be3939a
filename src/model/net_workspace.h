/* The workspace of one worker that trains a network: layers with their tables, activations, gradients and threads. net.c
 * creates and frees it; net_pass.c uses it. Only its worker and the worker's own threads use a workspace.
 */
#ifndef YK_MODEL_NET_WORKSPACE_H
#define YK_MODEL_NET_WORKSPACE_H

#include "model/net.h"
#include <stdatomic.h>

enum { YK__MAX_BLOCKS = 64 }; /* of a chunk */

/* Threads that process the same blocks; by layers, all threads. */
typedef struct {
    float *x[YK__MAX_LAYERS + 1], *dx[YK__MAX_LAYERS + 1];
    yk_team *team; /* owned; NULL: one thread */
} yk__net_group;

struct yk_workspace {
    yk_arena memory; /* must be first */
    const yk__net *net;
    yk__layer layer[YK__MAX_LAYERS]; /* with tables for this chunk size */
    yk__division division;
    float *grad;
    yk__net_group *group; /* [groups] */
    yk__profile *profile; /* NULL: not measured */
    uint64_t npasses;
    _Atomic uint64_t forward_ns, backward_ns; /* of one training pass in eight; another thread reads them */
    int threads;                              /* groups * size */
    yk_thread_pool *pool;                     /* owned: these threads; NULL: one */
    yk__branch_hooks hooks;                   /* zeros: the network is the whole model */
    /* the current pass */
    const yk_batch *batch;
    const float *params;
    float *p; /* output: probabilities; may be NULL */
    bool training;
    uint64_t noise;
    size_t images; /* in the first block of the last chunk of group 0 */
    double loss, block_loss[YK__MAX_BLOCKS];
    yk_ready_hook *ready; /* may be NULL */
    void *ready_context;
};

#endif
