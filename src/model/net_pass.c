/* A pass over a batch: forward, and backward when training. It processes the batch in chunks, and each chunk in stages:
 *
 *     input    layers, forward    loss    layers, backward (from the last to the first, some in parts)
 *
 * A group of threads shares each stage, with a barrier after it. By layers, all threads are one group. By blocks, each group
 * processes its own blocks of a wave, and a barrier follows the wave (net.h). The number of threads does not change the
 * result. */
#include "model/net_workspace.h"

#include "base/clock.h"
#include <string.h>

enum { TIME_EVERY = 8 }; /* passes */

/* ---- stages ---- */

static yk__pass context_of(yk_workspace *w, int me)
{
    yk__net_group *g = &w->group[me / w->division.size];
    return (yk__pass){.net = w->net,
                      .block = yk_block(),
                      .lanes = yk_lanes(),
                      .params = w->params,
                      .grad = w->grad,
                      .x = g->x,
                      .dx = g->dx,
                      .training = w->training,
                      .thread = me % w->division.size,
                      .threads = w->division.size,
                      .team = g->team};
}

/* The same for a block of a network with one output, to which another model may add its margins. */
static double compute_points(const yk_workspace *w, const float *out, size_t first, size_t n, float *err)
{
    float z[YK_LANES];
    const yk_loss *loss = w->net->model.loss;
    const yk_batch b = yk_batch_part(w->batch, first, n);
    for (size_t i = 0; i < n; i++)
        z[i] = w->hooks.z ? w->hooks.z[first + i] + out[i] : out[i];
    for (size_t i = 0; w->p && i < n; i++)
        w->p[first + i] = b.raw ? z[i] : loss->link(z[i]);
    memset(err, 0, YK_LANES * sizeof *err);
    const double sum = yk_loss_batch(loss, z, &b, err);
    if (w->hooks.err)
        memcpy(w->hooks.err + first, err, n * sizeof *err);
    return sum;
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
        const size_t at = first + b * YK_LANES, n = w->batch->n - at < YK_LANES ? w->batch->n - at : YK_LANES;
        float *logits = ctx->dx[last] + b * block;
        if (!net->model.loss->per_class) {
            w->block_loss[ctx->in_wave + b] = compute_points(w, ctx->x[last] + b * block, at, n, logits);
            continue;
        }
        memcpy(logits, ctx->x[last] + b * block, block * sizeof *logits);
        w->block_loss[ctx->in_wave + b] =
            ctx->lanes->softmax(logits, classes, w->batch, at, n, w->p ? w->p + at * classes : NULL);
    }
}

/* What thread 0 measures and reports; other threads have zeros. */
typedef struct {
    yk__profile *profile; /* NULL: layers are not measured */
    bool timed;           /* the passes are measured */
    uint64_t since, lap;  /* start of the layer and of the pass */
    size_t blocks;        /* of all groups in this chunk: thread 0 measures its own */
    bool ready;           /* the hook is called for the layers of this chunk */
} progress;

static void add_lap(progress *p, _Atomic uint64_t *sum)
{
    if (!p->timed)
        return;
    const uint64_t now = yk_now_ns();
    atomic_fetch_add_explicit(sum, now - p->lap, memory_order_relaxed);
    p->lap = now;
}

/* Ends a stage. slot: of the profile, if it is complete; otherwise -1. */
static void end_stage(const yk__pass *ctx, progress *p, int slot)
{
    yk__pass_barrier(ctx);
    if (p->profile && slot >= 0)
        p->since = yk__profile_add(p->profile, slot, p->since, p->blocks);
}

/* By layers, the gradient of a layer is final after its last part in the last chunk. The hook is called after each part: it may
 * use the time. */
static void backward(const yk_workspace *w, yk__pass *ctx, int layer, progress *p)
{
    const yk__layer *l = &w->layer[layer];
    const int parts = l->ops->weight_parts + !l->no_input_gradient;
    for (ctx->part = 0; ctx->part < parts; ctx->part++) {
        const bool last = ctx->part + 1 == parts;
        l->ops->run(l, ctx, true);
        end_stage(ctx, p, last ? YK__SLOT_BACKWARD + layer : -1);
        if (p->ready)
            w->ready(w->ready_context, w->grad, l->weights_offset,
                     l->weights_offset + (last ? l->weights + l->biases : 0));
    }
}

/* All stages of the blocks of a group from example `first` on. */
static void run_stages(yk_workspace *w, yk__pass *ctx, size_t first, progress *p)
{
    const yk__net *net = w->net;
    const yk__branch_hooks *hooks = &w->hooks;
    if (hooks->load)
        hooks->load(hooks->context, ctx, first);
    else
        yk__load_images(ctx, w->batch, first, w->noise);
    end_stage(ctx, p, YK__SLOT_INPUT);
    for (int i = 0; i < net->nlayers; i++) {
        w->layer[i].ops->run(&w->layer[i], ctx, false);
        end_stage(ctx, p, i);
    }
    compute_loss(w, ctx, first);
    end_stage(ctx, p, YK__SLOT_LOSS);
    add_lap(p, &w->forward_ns);
    for (int i = net->nlayers - 1; w->training && i >= 0; i--)
        backward(w, ctx, i, p);
    if (hooks->input_gradient && w->training)
        hooks->input_gradient(hooks->context, ctx, first);
}

/* ---- passes ---- */

/* The blocks of this thread's group among n blocks from block `at`. */
static void run_group(yk_workspace *w, int me, yk__pass *ctx, size_t at, size_t n, progress *p)
{
    const yk__division *d = &w->division;
    const size_t group = (size_t)(me / d->size), groups = (size_t)d->groups,
                 end = (n * (group + 1) + groups - 1) / groups; /* rounded up: group 0 is never idle */
    for (size_t b = (n * group + groups - 1) / groups; b < end; b += ctx->blocks) {
        ctx->in_chunk = b % d->chunk;
        ctx->in_wave = b;
        ctx->blocks = end - b < d->chunk - ctx->in_chunk ? end - b : d->chunk - ctx->in_chunk;
        const size_t left = w->batch->n - (at + b) * YK_LANES;
        if (me == 0)
            w->images = left < YK_LANES ? left : YK_LANES;
        ctx->noise = yk_mix64(w->noise + at + b - ctx->in_chunk);
        p->blocks = n * (b + ctx->blocks) / end - n * b / end; /* for group 0: scales its `end` blocks to n */
        run_stages(w, ctx, (at + b) * YK_LANES, p);
    }
}

/* By blocks: the gradients of the weights of a wave of n blocks. */
static void finish_layers(yk_workspace *w, int me, const yk__pass *ctx, size_t n, progress *p)
{
    yk__pass all = *ctx;
    all.thread = me;
    all.threads = w->threads;
    all.team = w->pool;
    all.blocks = n;
    all.in_chunk = all.in_wave = 0;
    for (int i = w->net->nlayers - 1; i >= 0; i--) {
        const yk__layer *l = &w->layer[i];
        if (!l->ops->finish)
            continue;
        l->ops->finish(l, &all);
        if (p->profile)
            p->since = yk__profile_add(p->profile, YK__SLOT_BACKWARD + i, p->since, 0);
    }
}

static void pass(void *workspace, int me, int all)
{
    (void)all;
    yk_workspace *w = workspace;
    const size_t blocks = (w->batch->n + YK_LANES - 1) / YK_LANES;
    const yk__division *d = &w->division;
    yk_team *team = d->by_blocks || w->hooks.finish ? w->pool : NULL; /* a barrier after each wave */
    yk__pass ctx = context_of(w, me);
    progress p = {0};
    if (me == 0 && w->training) {
        p = (progress){.profile = w->profile, .timed = w->npasses++ % TIME_EVERY == 0};
        p.since = p.lap = p.profile || p.timed ? yk_now_ns() : 0;
    }
    for (size_t at = 0; at < blocks; at += d->wave) {
        const size_t n = blocks - at < d->wave ? blocks - at : d->wave;
        const bool last = at + n == blocks;
        p.ready = me == 0 && last && w->ready && !d->by_blocks;
        ctx.first_chunk = at == 0;
        run_group(w, me, &ctx, at, n, &p);
        if (team)
            yk_team_barrier(team, me);
        if (d->by_blocks && w->training)
            finish_layers(w, me, &ctx, n, &p);
        if (w->hooks.finish && w->training)
            w->hooks.finish(w->hooks.context, me, at * YK_LANES,
                            last ? w->batch->n - at * YK_LANES : n * YK_LANES);
        for (size_t b = 0; me == 0 && b < n; b++)
            w->loss += w->block_loss[b];
        add_lap(&p, &w->backward_ns);
        if (team && !last)
            yk_team_barrier(team, me);
    }
}

double yk__net_pass(yk_workspace *w, const yk_batch *batch, const float *params, bool training, float *p)
{
    w->batch = batch;
    w->params = params;
    w->training = training;
    w->noise = training ? yk_batch_noise(batch) : 0;
    w->p = p;
    w->loss = 0.0;
    if (training && batch->n == 0) /* otherwise the first chunk overwrites it */
        memset(w->grad, 0, w->net->model.nparams * sizeof *w->grad);
    yk_thread_pool_run(w->pool, pass, w);
    const bool ready = w->ready && w->division.by_blocks && w->training && w->batch->n;
    for (int i = w->net->nlayers - 1; ready && i >= 0;
         i--) { /* by blocks, all gradients become final together */
        const yk__layer *l = &w->layer[i];
        w->ready(w->ready_context, w->grad, l->weights_offset, l->weights_offset + l->weights + l->biases);
    }
    return w->loss;
}
