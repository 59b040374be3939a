/* A pass over a batch: in chunks, and each chunk in stages.
 *
 *     stage    0        1 ... L             L + 1    L + 2 ...
 *              input    layers, forward     loss     layers, backward (the last one first, some in parts)
 *
 * The threads of a worker share each stage and meet at a barrier after it. They never change a result. */
#include "model/net_work.h"

#include "base/clock.h"
#include "base/sync.h"
#include <stdlib.h>
#include <string.h>

enum { TIME_EVERY = 8 };

/* ---- the stages ---- */

static yk__run run_of(yk_work *w, int me)
{
    return (yk__run){.net = w->net,
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

/* Images first .. first + 16 * blocks of the batch into edge 0; lanes without an image are zero. */
static void take_input(const yk_work *w, const yk__run *r, size_t first)
{
    if (yk__input_changes(w->net, r->training)) {
        yk__input_take(r, w->batch, first, w->noise, w->of_image);
        return;
    }
    const yk_rows *rows = w->batch->rows;
    const yk__edge *e = &w->net->edge[0];
    const yk__strides s = yk__strides_of(e, e->border);
    const size_t lines = e->channels * e->height;
    size_t begin, end;
    yk__part(r, r->blocks * lines, 1, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        const size_t block = i / lines, line = i % lines;
        float *to =
            r->x[0] + block * s.block + yk__offset(&s, line / e->height, (int64_t)(line % e->height), 0);
        const uint8_t *u8[YK_LANES];
        const float *f32[YK_LANES];
        for (size_t lane = 0; lane < YK_LANES; lane++) {
            const size_t image = first + block * YK_LANES + lane;
            const bool there = image < w->batch->n;
            u8[lane] = there && rows->u8 ? rows->u8 + w->batch->pick[image] * rows->dim : NULL;
            f32[lane] = there && rows->f32 ? rows->f32 + w->batch->pick[image] * rows->dim : NULL;
        }
        if (rows->kind == YK_ROWS_U8)
            r->lanes->spread_u8(u8, line * e->width, e->width, rows->scale, to);
        else
            r->lanes->spread_f32(f32, line * e->width, e->width, to);
    }
}

/* Loss and its gradient, block by block. */
static void take_loss(yk_work *w, const yk__run *r, size_t first)
{
    const yk__net *net = w->net;
    const int last = net->nedges - 1;
    const yk__edge *e = &net->edge[last];
    const yk__strides x = yk__strides_of(e, e->border), dx = yk__strides_of(e, e->grad_border);
    const size_t classes = net->model.outputs, plane = e->height * e->width;
    size_t begin, end;
    yk__part(r, r->blocks, 1, &begin, &end);
    for (size_t b = begin; b < end; b++) {
        int32_t label[YK_LANES] = {0};
        const size_t at = first + b * YK_LANES, n = w->batch->n - at < YK_LANES ? w->batch->n - at : YK_LANES;
        float *to = r->dx[last] + b * dx.block;
        for (size_t i = 0; i < n; i++)
            label[i] = w->batch->rows->label[w->batch->pick[at + i]];
        /* classes are the numbers of the last edge in order; its borders are zero wide: the last layer is no convolution's input */
        for (size_t c = 0; c < classes; c++)
            memcpy(to + yk__offset(&dx, c / plane, (int64_t)(c % plane / e->width), (int64_t)(c % e->width)),
                   r->x[last] + b * x.block +
                       yk__offset(&x, c / plane, (int64_t)(c % plane / e->width), (int64_t)(c % e->width)),
                   YK_LANES * sizeof *to);
        w->block_loss[b] =
            r->lanes->softmax(to + dx.origin, classes, label, n, w->p ? w->p + at * classes : NULL);
    }
}

static void do_stage(yk_work *w, yk__run *r, size_t at, int stage)
{
    const int layers = w->net->nlayers, back = stage - layers - 2;
    if (stage == 0)
        take_input(w, r, at * YK_LANES);
    else if (stage <= layers)
        w->layer[stage - 1].ops->forward(&w->layer[stage - 1], r);
    else if (stage == layers + 1)
        take_loss(w, r, at * YK_LANES);
    else {
        const yk__layer *l = &w->layer[w->back[back].layer];
        r->part = w->back[back].part;
        l->ops->backward(l, r);
    }
}

/* What thread 0 measures. */
typedef struct {
    yk__profile *profile; /* NULL: no layers */
    bool timed;           /* forward and backward */
    uint64_t since, turn;
} clocks;

static void lap(clocks *c, uint64_t *sum)
{
    if (!c->timed)
        return;
    const uint64_t now = yk_now_ns();
    *sum += now - c->turn;
    c->turn = now;
}

static void after_stage(yk_work *w, const yk__run *r, int stage, bool last_chunk, clocks *c)
{
    const int layers = w->net->nlayers, back = stage - layers - 2;
    const yk__layer *l = back < 0 ? NULL : &w->layer[w->back[back].layer];
    const bool last = !l || w->back[back].last;
    const int slot = l ? yk__slot_backward(w->net, w->back[back].layer) : stage;
    if (stage == layers + 1) {
        for (size_t b = 0; b < r->blocks; b++)
            w->loss += w->block_loss[b];
        lap(c, &w->forward_ns);
    }
    if (c->profile && last)
        c->since = yk__profile_add(c->profile, slot, c->since);
    if (c->profile && last)
        yk__profile_count(c->profile, slot, r->blocks);
    if (l && last_chunk && w->ready) /* one without parameters, or with some to come, makes progress, too */
        w->ready(w->ready_context, w->grad, l->weights_at,
                 l->weights_at + (last ? l->weights + l->biases : 0));
}

/* ---- the pass ---- */

static void pass(yk_work *w, yk__run *r)
{
    const size_t blocks = (w->batch->n + YK_LANES - 1) / YK_LANES;
    const int stages = w->net->nlayers + 2 + (w->training ? w->nback : 0);
    clocks c = {0};
    if (r->thread == 0 && w->training) {
        c = (clocks){.profile = w->profile, .timed = w->npasses++ % TIME_EVERY == 0};
        c.since = c.turn = c.profile || c.timed ? yk_now_ns() : 0;
    }
    for (size_t at = 0; at < blocks; at += w->chunk) {
        const bool last_chunk = at + w->chunk >= blocks;
        r->blocks = blocks - at < w->chunk ? blocks - at : w->chunk;
        r->noise = yk_mix64(w->noise + at);
        r->fresh = at == 0;
        for (int stage = 0; stage < stages; stage++) {
            do_stage(w, r, at, stage);
            yk__meet(r);
            if (r->thread == 0)
                after_stage(w, r, stage, last_chunk, &c);
        }
        if (r->thread == 0 && w->training)
            lap(&c, &w->backward_ns);
    }
}

void yk__pass(yk_work *w)
{
    yk__run r = run_of(w, 0);
    w->loss = 0.0;
    if (w->threads > 1)
        yk_team_meet(w->team, 0);
    pass(w, &r);
    if (w->threads > 1)
        yk_team_meet(w->team, 0);
}

/* ---- the worker's own threads ---- */

static void *help(void *arg)
{
    yk__helper *h = arg;
    yk_work *w = h->work;
    for (;;) {
        if (yk_team_meet(w->team, h->me) || w->quit)
            return NULL;
        if (w->job) {
            w->job(w->job_context, h->me, w->threads);
        } else {
            yk__run r = run_of(w, h->me);
            pass(w, &r);
        }
        if (yk_team_meet(w->team, h->me))
            return NULL;
    }
}

static void run_job(void *threads, void (*part)(void *context, int me, int all), void *context)
{
    yk_work *w = threads;
    w->job = part;
    w->job_context = context;
    yk_team_meet(w->team, 0);
    part(context, 0, w->threads);
    yk_team_meet(w->team, 0);
    w->job = NULL;
}

yk_status yk__start_helpers(yk_work *w)
{
    yk_status st = yk_team_create(w->threads, &w->team);
    if (st)
        return st;
    yk_team_patient(w->team);
    w->helpers = calloc((size_t)w->threads, sizeof *w->helpers);
    if (!w->helpers)
        return yk_fail_memory((size_t)w->threads * sizeof *w->helpers, "threads");
    for (int i = 1; i < w->threads; i++) {
        w->helpers[i] = (yk__helper){.work = w, .me = i};
        int e = yk_thread_start(&w->helpers[i].thread, help, &w->helpers[i]);
        if (e) {
            yk_team_stop(w->team);
            for (int k = 1; k < i; k++)
                yk_thread_join(&w->helpers[k].thread);
            return yk_fail(YK_ESYSTEM, "thread %d of a worker could not be started: %s", i, strerror(e));
        }
    }
    w->started = w->threads - 1;
    w->crew = (yk_crew){run_job, w};
    return YK_OK;
}

void yk__stop_helpers(yk_work *w)
{
    if (!w->started)
        return;
    w->quit = true;
    yk_team_meet(w->team, 0);
    for (int i = 1; i <= w->started; i++)
        yk_thread_join(&w->helpers[i].thread);
}
