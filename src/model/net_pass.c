/* A pass over a batch: forward, and backward when training. It processes the batch in chunks, and each chunk in stages:
 *
 *     stage    0        1 ... L             L + 1    L + 2 ...
 *              input    layers, forward     loss     layers, backward (from the last to the first, some in parts)
 *
 * The threads of a worker share each stage, with a barrier after it. The number of threads does not change the result. */
#include "model/net_workspace.h"

#include "base/clock.h"
#include "base/sync.h"
#include <stdlib.h>
#include <string.h>

enum { TIME_EVERY = 8 }; /* passes */

/* ---- stages ---- */

static yk__pass context_of(yk_workspace *w, int me)
{
    return (yk__pass){.net = w->net,
                      .block = yk_block(),
                      .lanes = yk_lanes(),
                      .params = w->params,
                      .grad = w->grad,
                      .x = w->x,
                      .dx = w->dx,
                      .training = w->training,
                      .thread = me,
                      .threads = w->threads,
                      .team = w->threads > 1 ? w->team : NULL};
}

/* The loss and its gradient. */
static void compute_loss(yk_workspace *w, const yk__pass *ctx, size_t first)
{
    const yk__net *net = w->net;
    const int last = net->nedges - 1;
    /* the last edge has no border (net_parse.c): [block][classes][16] */
    const size_t classes = net->model.outputs, block = classes * YK_LANES;
    size_t begin, end;
    yk__thread_range(ctx, ctx->blocks, 1, &begin, &end);
    for (size_t b = begin; b < end; b++) {
        int32_t label[YK_LANES] = {0};
        const size_t at = first + b * YK_LANES, n = w->batch->n - at < YK_LANES ? w->batch->n - at : YK_LANES;
        float *logits = ctx->dx[last] + b * block;
        for (size_t i = 0; i < n; i++)
            label[i] = w->batch->rows->label[w->batch->pick[at + i]];
        memcpy(logits, ctx->x[last] + b * block, block * sizeof *logits);
        w->block_loss[b] = ctx->lanes->softmax(logits, classes, label, n, w->p ? w->p + at * classes : NULL);
    }
}

static void do_stage(yk_workspace *w, yk__pass *ctx, size_t at, int stage)
{
    const int layers = w->net->nlayers, back = stage - layers - 2;
    if (stage == 0)
        yk__load_images(ctx, w->batch, at * YK_LANES, w->noise, w->image_stats);
    else if (stage <= layers)
        w->layer[stage - 1].ops->forward(&w->layer[stage - 1], ctx);
    else if (stage == layers + 1)
        compute_loss(w, ctx, at * YK_LANES);
    else {
        const yk__layer *l = &w->layer[w->back[back].layer];
        ctx->part = w->back[back].part;
        l->ops->backward(l, ctx);
    }
}

/* Time measurement of thread 0. */
typedef struct {
    yk__profile *profile; /* NULL: layers are not measured */
    bool timed;           /* the passes are measured */
    uint64_t since, lap;  /* start of the layer and of the pass */
} timer;

static void lap(timer *c, uint64_t *sum)
{
    if (!c->timed)
        return;
    const uint64_t now = yk_now_ns();
    *sum += now - c->lap;
    c->lap = now;
}

static void after_stage(yk_workspace *w, const yk__pass *ctx, int stage, bool last_chunk, timer *c)
{
    const int layers = w->net->nlayers, back = stage - layers - 2;
    const yk__layer *l = back < 0 ? NULL : &w->layer[w->back[back].layer];
    const bool last = !l || w->back[back].last;
    const int slot = l ? yk__slot_backward(w->net, w->back[back].layer) : stage;
    if (stage == layers + 1) {
        for (size_t b = 0; b < ctx->blocks; b++)
            w->loss += w->block_loss[b];
        lap(c, &w->forward_ns);
    }
    if (c->profile && last)
        c->since = yk__profile_add(c->profile, slot, c->since, ctx->blocks);
    if (l && last_chunk && w->ready) /* also without new gradients: the hook may use the time */
        w->ready(w->ready_context, w->grad, l->weights_offset,
                 l->weights_offset + (last ? l->weights + l->biases : 0));
}

/* ---- passes ---- */

static void pass(yk_workspace *w, yk__pass *ctx)
{
    const size_t blocks = (w->batch->n + YK_LANES - 1) / YK_LANES;
    const int stages = w->net->nlayers + 2 + (w->training ? w->nback : 0);
    timer c = {0};
    if (ctx->thread == 0 && w->training) {
        c = (timer){.profile = w->profile, .timed = w->npasses++ % TIME_EVERY == 0};
        c.since = c.lap = c.profile || c.timed ? yk_now_ns() : 0;
    }
    for (size_t at = 0; at < blocks; at += w->chunk) {
        const bool last_chunk = at + w->chunk >= blocks;
        ctx->blocks = blocks - at < w->chunk ? blocks - at : w->chunk;
        ctx->noise = yk_mix64(w->noise + at);
        ctx->first_chunk = at == 0;
        for (int stage = 0; stage < stages; stage++) {
            do_stage(w, ctx, at, stage);
            yk__pass_barrier(ctx);
            if (ctx->thread == 0)
                after_stage(w, ctx, stage, last_chunk, &c);
        }
        if (ctx->thread == 0 && w->training)
            lap(&c, &w->backward_ns);
    }
}

void yk__net_pass(yk_workspace *w)
{
    yk__pass ctx = context_of(w, 0);
    w->loss = 0.0;
    if (w->threads > 1)
        yk_team_barrier(w->team, 0);
    pass(w, &ctx);
    if (w->threads > 1)
        yk_team_barrier(w->team, 0);
}

/* ---- threads of the worker ---- */

static void *thread_main(void *arg)
{
    yk__net_thread *h = arg;
    yk_workspace *w = h->work;
    for (;;) {
        if (yk_team_barrier(w->team, h->me) || w->quit)
            return NULL;
        if (w->job) {
            w->job(w->job_context, h->me, w->threads);
        } else {
            yk__pass ctx = context_of(w, h->me);
            pass(w, &ctx);
        }
        if (yk_team_barrier(w->team, h->me))
            return NULL;
    }
}

static void run_job(void *threads, void (*part)(void *context, int me, int all), void *context)
{
    yk_workspace *w = threads;
    w->job = part;
    w->job_context = context;
    yk_team_barrier(w->team, 0);
    part(context, 0, w->threads);
    yk_team_barrier(w->team, 0);
    w->job = NULL;
}

yk_status yk__start_threads(yk_workspace *w)
{
    yk_status st = yk_team_create(w->threads, &w->team);
    if (st)
        return st;
    yk_team_no_timeout(w->team);
    w->others = calloc((size_t)w->threads, sizeof *w->others);
    if (!w->others)
        return yk_fail_memory((size_t)w->threads * sizeof *w->others, "threads");
    for (int i = 1; i < w->threads; i++) {
        w->others[i] = (yk__net_thread){.work = w, .me = i};
        int e = yk_thread_start(&w->others[i].thread, thread_main, &w->others[i]);
        if (e) {
            yk_team_stop(w->team);
            for (int k = 1; k < i; k++)
                yk_thread_join(&w->others[k].thread);
            return yk_fail(YK_ESYSTEM, "cannot start thread %d of a worker: %s", i, strerror(e));
        }
    }
    w->started = w->threads - 1;
    w->crew = (yk_worker_threads){run_job, w};
    return YK_OK;
}

void yk__stop_threads(yk_workspace *w)
{
    if (!w->started)
        return;
    w->quit = true;
    yk_team_barrier(w->team, 0);
    for (int i = 1; i <= w->started; i++)
        yk_thread_join(&w->others[i].thread);
}
