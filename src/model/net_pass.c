/* A pass over a batch: forward, and backward when training. It processes the batch in chunks, and each chunk in stages:
 *
 *     stage    0        1 ... L             L + 1    L + 2 ...
 *              input    layers, forward     loss     layers, backward (from the last to the first, some in parts)
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

/* The same for a block of a network with one output. */
static double compute_points(const yk_workspace *w, const float *z, size_t first, size_t n, float *err)
{
    const yk_loss *loss = w->net->model.loss;
    yk_batch b = *w->batch;
    b.pick += first;
    b.n = n;
    for (size_t i = 0; w->p && i < n; i++)
        w->p[first + i] = b.raw ? z[i] : loss->link(z[i]);
    memset(err, 0, YK_LANES * sizeof *err);
    return yk_loss_batch(loss, z, &b, err);
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
            yk_loss_lanes(logits, classes, w->batch, at, n, w->p ? w->p + at * classes : NULL);
    }
}

static void do_stage(yk_workspace *w, yk__pass *ctx, size_t at, int stage)
{
    const int layers = w->net->nlayers, back = stage - layers - 2;
    const yk__branch_hooks *hooks = w->hooks;
    if (stage == 0 && hooks)
        hooks->load(hooks->context, ctx, at * YK_LANES);
    else if (stage == layers + 1 && hooks)
        hooks->loss(hooks->context, ctx, at * YK_LANES);
    else if (stage == 0)
        yk__load_images(ctx, w->batch, at * YK_LANES, w->noise);
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

static void add_lap(timer *c, _Atomic uint64_t *sum)
{
    if (!c->timed)
        return;
    const uint64_t now = yk_now_ns();
    atomic_fetch_add_explicit(sum, now - c->lap, memory_order_relaxed);
    c->lap = now;
}

/* By layers, the gradient of a layer is final after its last stage of the last chunk. */
static void after_stage(yk_workspace *w, int stage, size_t blocks, bool last_chunk, timer *c)
{
    const int layers = w->net->nlayers, back = stage - layers - 2;
    const yk__layer *l = back < 0 ? NULL : &w->layer[w->back[back].layer];
    const bool last = !l || w->back[back].last;
    const int slot = l ? yk__slot_backward(w->net, w->back[back].layer) : stage;
    if (stage == layers + 1)
        add_lap(c, &w->forward_ns);
    if (c->profile && last)
        c->since = yk__profile_add(c->profile, slot, c->since, blocks);
    if (l && last_chunk && w->ready &&
        !w->division.by_blocks) /* also without new gradients: the hook may use the time */
        w->ready(w->ready_context, w->grad, l->weights_offset,
                 l->weights_offset + (last ? l->weights + l->biases : 0));
}

/* ---- passes ---- */

/* The blocks of this thread's group among n blocks from block `at`. */
static void run_stages(yk_workspace *w, int me, yk__pass *ctx, size_t at, size_t n, bool last_chunk, timer *c)
{
    const yk__division *d = &w->division;
    const int stages = w->net->nlayers + 2 + (w->training ? w->nback : 0);
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
        for (int stage = 0; stage < stages; stage++) {
            do_stage(w, ctx, at + b, stage);
            yk__pass_barrier(ctx);
            if (me == 0) /* its profile stands for all groups: scales its `end` blocks to n */
                after_stage(w, stage, n * (b + ctx->blocks) / end - n * b / end, last_chunk, c);
        }
        if (w->hooks && w->training)
            w->hooks->input_gradient(w->hooks->context, ctx, (at + b) * YK_LANES);
    }
}

/* By blocks: the gradients of the weights of a wave of n blocks. */
static void finish_layers(yk_workspace *w, int me, const yk__pass *ctx, size_t n, timer *c)
{
    yk__pass all = *ctx;
    all.thread = me;
    all.threads = w->threads;
    all.team = yk_thread_pool_team(w->pool);
    all.blocks = n;
    all.in_chunk = all.in_wave = 0;
    for (int i = w->net->nlayers - 1; i >= 0; i--) {
        const yk__layer *l = &w->layer[i];
        if (!l->ops->finish)
            continue;
        l->ops->finish(l, &all);
        if (c->profile)
            c->since = yk__profile_add(c->profile, yk__slot_backward(w->net, i), c->since, 0);
    }
}

static void pass(void *workspace, int me, int all)
{
    (void)all;
    yk_workspace *w = workspace;
    const size_t blocks = (w->batch->n + YK_LANES - 1) / YK_LANES;
    const yk__division *d = &w->division;
    yk_team *team =
        d->by_blocks || w->hooks ? yk_thread_pool_team(w->pool) : NULL; /* a barrier after each wave */
    yk__pass ctx = context_of(w, me);
    timer c = {0};
    if (me == 0 && w->training) {
        c = (timer){.profile = w->profile, .timed = w->npasses++ % TIME_EVERY == 0};
        c.since = c.lap = c.profile || c.timed ? yk_now_ns() : 0;
    }
    for (size_t at = 0; at < blocks; at += d->wave) {
        const size_t n = blocks - at < d->wave ? blocks - at : d->wave;
        const bool last = at + n == blocks;
        ctx.first_chunk = at == 0;
        run_stages(w, me, &ctx, at, n, last, &c);
        if (team)
            yk_team_barrier(team, me);
        if (d->by_blocks && w->training)
            finish_layers(w, me, &ctx, n, &c);
        if (w->hooks && w->training)
            w->hooks->finish(w->hooks->context, me, at * YK_LANES,
                             last ? w->batch->n - at * YK_LANES : n * YK_LANES);
        for (size_t b = 0; !w->hooks && me == 0 && b < n; b++)
            w->loss += w->block_loss[b];
        if (me == 0 && w->training)
            add_lap(&c, &w->backward_ns);
        if (team && !last)
            yk_team_barrier(team, me);
    }
}

/* By blocks, the gradients of all layers become final together. */
static void all_ready(yk_workspace *w)
{
    for (int i = w->net->nlayers - 1; w->ready && i >= 0; i--) {
        const yk__layer *l = &w->layer[i];
        w->ready(w->ready_context, w->grad, l->weights_offset, l->weights_offset + l->weights + l->biases);
    }
}

void yk__net_pass(yk_workspace *w)
{
    w->loss = 0.0;
    yk_thread_pool_run(w->pool, pass, w);
    if (w->division.by_blocks && w->training && w->batch->n)
        all_ready(w);
}
