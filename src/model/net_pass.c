/* A pass over a batch: in chunks, and each chunk in stages.
 *
 *     stage    0        1 ... L             L + 1    L + 2 ...                                                  leaves
 *              input    layers, forward     loss     layers, backward (the last one first, some in parts)       what is left
 *
 * The threads of a worker share each stage and meet after it. Workers in step that are done before the others need not wait:
 * one that works alone lets another one in between two stages (a guest), and from there on both go through its pass as two
 * threads do. Since threads never change a result, neither does a guest. It may be another process, on memory that both see:
 * that one does not know the batch, so its host takes input and loss by itself.
 *
 * Leaves are parts of the way back that nothing else waits for, the gradients of filters. They lie in pieces on the desk as soon as
 * they can be done. A guest takes pieces from there, without a meeting, while its host goes on alone with what leads to the
 * next ones; then the host takes what is left.
 *
 *     worker 0     | input | conv | ... | conv back | leaves | done; knocks at 1 ..  | dense back | leaves        |
 *     worker 1     |  input  |  conv  | ...             |  dense back                | dense back | conv | leaves |
 */
#include "model/net_work.h"

#include "base/clock.h"
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { TIME_EVERY = 8, SPIN = 2000, LOOK = 1024 };

/* ---- the stages ---- */

static yk__run run_of(yk_work *w, int me, int threads, yk_team *team)
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
                     .threads = threads,
                     .team = threads > 1 ? team : NULL};
}

/* Images first .. first + 16 * blocks of the batch into edge 0; lanes without an image are zero. */
static void take_input(const yk_work *w, const yk__run *r, size_t first)
{
    if (yk__input_changes(w->net, r->training)) {
        yk__input_take(r, w->batch, first, w->desk->noise, w->of_image);
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
        w->desk->block_loss[b] =
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
    const bool final = !l || w->back[back].final;
    const int slot = l ? yk__slot_backward(w->net, w->back[back].layer) : stage;
    if (stage == layers + 1) {
        for (size_t b = 0; b < r->blocks; b++)
            w->loss += w->desk->block_loss[b];
        lap(c, &w->forward_ns);
    }
    if (c->profile && (!l || w->back[back].last))
        c->since = yk__profile_add(c->profile, slot, c->since);
    if (c->profile && final)
        yk__profile_count(c->profile, slot, r->blocks);
    if (l && last_chunk && w->ready) /* one without parameters, or with some to come, makes progress, too */
        w->ready(w->ready_context, w->grad, l->weights_at,
                 l->weights_at + (final ? l->weights + l->biases : 0));
}

/* ---- guests ---- */

/* What is on the door: a yk__guest, the number of the visit, and the round. A guest that sleeps finds another number on it. */
enum { GUEST_BITS = 3, ROUND_SHIFT = 32 };
static const uint64_t GUEST = (1 << GUEST_BITS) - 1;

static uint64_t door(const yk_work *w, yk__guest state)
{
    const uint32_t visit = w->visit << GUEST_BITS;
    return w->round << ROUND_SHIFT | visit | state;
}

static void set_door(const yk_work *w, yk__guest state)
{
    atomic_store_explicit(&w->desk->guest, door(w, state), memory_order_release);
}

static void open_door(yk_work *w)
{
    w->visit++;
    set_door(w, YK__GUEST_NONE);
}

void yk__welcome_guests(yk_work *w, uint64_t round, double patience)
{
    w->welcomes = w->threads == 1;
    w->round = round;
    w->desk->patience = patience;
}

/* Whoever knocks comes in, at this stage. */
static void welcome(yk_work *w, yk__run *r, size_t at, int stage)
{
    yk__desk *d = w->desk;
    uint64_t knocks = door(w, YK__GUEST_KNOCKS);
    if (atomic_load_explicit(&d->guest, memory_order_acquire) != knocks)
        return;
    d->at = at;
    d->stage = stage;
    if (!atomic_compare_exchange_strong(&d->guest, &knocks, door(w, YK__GUEST_INSIDE)))
        return; /* it has gone away */
    r->threads = 2;
    r->guest = d;
}

/* The guest has gone to the leaves, and nobody else comes in until the next chunk. */
static void say_goodbye(const yk_work *w, yk__run *r)
{
    r->threads = 1;
    r->guest = NULL;
    if (w->welcomes)
        set_door(w, YK__GUEST_LATER);
}

static void pause_a_moment(unsigned turn)
{
    if (turn > SPIN)
        sched_yield();
    else
        yk_relax();
}

/* Between two looks at what the other one does; false: it does nothing any more. After its time is up there is one more look:
 * it may be this one that slept. */
static bool go_on_waiting(yk__desk *d, unsigned turn, double *until)
{
    pause_a_moment(turn);
    if (*until < 0.0)
        atomic_store(&d->broken, true);
    else if (turn % LOOK == 0 && d->patience > 0.0) {
        const double now = yk_now();
        *until = *until > 0.0 ? *until : now + d->patience;
        *until = now > *until ? -1.0 : *until;
    }
    return !atomic_load_explicit(&d->broken, memory_order_relaxed);
}

void yk__meet_guest(const yk__run *r)
{
    yk__desk *d = r->guest;
    atomic_uint *mine = &d->side[r->thread].meetings, *other = &d->side[1 - r->thread].meetings;
    const unsigned number = atomic_load_explicit(mine, memory_order_relaxed) + 1;
    double until = 0.0;
    atomic_store_explicit(mine, number, memory_order_release);
    for (unsigned turn = 1; atomic_load_explicit(other, memory_order_acquire) + 1 == number; turn++)
        if (!go_on_waiting(d, turn, &until))
            return;
}

/* ---- leaves ---- */

/* Puts a new chunk's on the desk, closed. */
static void lay_leaves(yk_work *w, size_t at)
{
    yk__desk *d = w->desk;
    const uint64_t chunk = atomic_load_explicit(&d->leaves, memory_order_relaxed) >> YK__LEAF_CHUNK;
    d->leaves_at = at;
    atomic_store_explicit(&d->leaves, (chunk + 1) << YK__LEAF_CHUNK, memory_order_release);
}

/* Those of *next and the following that can be done after so many stages; *next and *pieces go on behind them. */
static void open_leaves(yk_work *w, int done, int *next, uint64_t *pieces)
{
    uint64_t more = 0;
    for (; *next < w->nleaves && w->leaf[*next].opens <= done; (*next)++)
        more += (uint64_t)w->leaf[*next].pieces;
    *pieces += more;
    if (more)
        atomic_fetch_add_explicit(&w->desk->leaves, more << YK__LEAF_OPEN, memory_order_release);
}

/* Does the next piece that is open; returns its leaf, -1: there is none. */
static int do_piece(yk_work *w)
{
    yk__desk *d = w->desk;
    uint64_t was = atomic_load_explicit(&d->leaves, memory_order_acquire);
    do {
        if ((uint16_t)was >= (uint16_t)(was >> YK__LEAF_OPEN))
            return -1;
    } while (!atomic_compare_exchange_weak(&d->leaves, &was, was + 1));
    int leaf = 0, piece = (uint16_t)was;
    for (; piece >= w->leaf[leaf].pieces; leaf++)
        piece -= w->leaf[leaf].pieces;
    const yk__layer *l = &w->layer[w->leaf[leaf].layer];
    const size_t blocks = (d->images + YK_LANES - 1) / YK_LANES, left = blocks - d->leaves_at;
    yk__run r = run_of(w, piece, w->leaf[leaf].pieces, NULL);
    r.blocks = left < w->chunk ? left : w->chunk;
    r.fresh = d->leaves_at == 0;
    l->ops->backward(l, &r);
    atomic_fetch_add_explicit(&d->leaves_done, 1, memory_order_release);
    return leaf;
}

/* The host does all that are open, and waits for what others have taken, until so many pieces are done; false: in vain. */
static bool do_leaves(yk_work *w, uint64_t pieces, clocks *c)
{
    yk__desk *d = w->desk;
    double until = 0.0;
    for (int leaf; (leaf = do_piece(w)) >= 0;)
        if (c->profile)
            c->since = yk__profile_add(c->profile, yk__slot_backward(w->net, w->leaf[leaf].layer), c->since);
    for (unsigned turn = 1; atomic_load_explicit(&d->leaves_done, memory_order_acquire) != pieces; turn++)
        if (!go_on_waiting(d, turn, &until))
            return false;
    return true;
}

/* Leaves begin .. end are done. */
static void after_leaves(yk_work *w, const yk__run *r, int begin, int end, bool last_chunk, const clocks *c)
{
    for (int i = begin; i < end; i++) {
        const yk__layer *l = &w->layer[w->leaf[i].layer];
        if (c->profile)
            yk__profile_count(c->profile, yk__slot_backward(w->net, w->leaf[i].layer), r->blocks);
        if (last_chunk && w->ready)
            w->ready(w->ready_context, w->grad, l->weights_at, l->weights_at + l->weights + l->biases);
    }
}

/* ---- the pass ---- */

/* One that only the host can do is done by it alone. */
static void do_share(yk_work *w, yk__run *r, size_t at, int stage)
{
    const bool alone = w->afar && r->guest && (stage == 0 || stage == w->net->nlayers + 1);
    yk__run by_itself = *r;
    by_itself.threads = 1;
    by_itself.guest = NULL;
    if (!alone || r->thread == 0)
        do_stage(w, alone ? &by_itself : r, at, stage);
}

/* From stage `stage` of the chunk at block `at` on. */
static void pass(yk_work *w, yk__run *r, size_t at, int stage)
{
    yk__desk *d = w->desk;
    const size_t blocks = (d->images + YK_LANES - 1) / YK_LANES;
    const int back = w->net->nlayers + 2, stages = back + (w->training ? w->nback : 0);
    const int nleaves = w->training ? w->nleaves : 0;
    const int alone = nleaves ? back + w->leaf[0].opens : INT_MAX; /* from this stage on, the host */
    clocks c = {0};
    if (r->thread == 0 && w->training) {
        c = (clocks){.profile = w->profile, .timed = w->npasses++ % TIME_EVERY == 0};
        c.since = c.turn = c.profile || c.timed ? yk_now_ns() : 0;
    }
    for (; at < blocks; at += w->chunk, stage = 0) {
        const bool last_chunk = at + w->chunk >= blocks;
        uint64_t pieces = atomic_load_explicit(&d->leaves_done, memory_order_relaxed); /* that will be done */
        int opened = 0, done = 0;                                                      /* leaves */
        r->blocks = blocks - at < w->chunk ? blocks - at : w->chunk;
        r->noise = yk_mix64(d->noise + at);
        r->fresh = at == 0;
        if (nleaves && r->thread == 0)
            lay_leaves(w, at);
        for (;; stage++) {
            if (stage == alone) {
                if (r->thread == 1)
                    return;
                say_goodbye(w, r);
            }
            if (stage >= alone)
                open_leaves(w, stage - back, &opened, &pieces);
            if (done < opened && (stage == stages || !w->welcomes)) { /* nobody will help: at once */
                if (!do_leaves(w, pieces, &c))
                    return;
                after_leaves(w, r, done, opened, last_chunk, &c);
                done = opened;
            }
            if (stage == stages)
                break;
            if (r->threads == 1 && w->welcomes && stage < alone)
                welcome(w, r, at, stage);
            do_share(w, r, at, stage);
            yk__meet(r);
            if (r->guest && atomic_load_explicit(&d->broken, memory_order_relaxed))
                return;
            if (r->thread == 0)
                after_stage(w, r, stage, last_chunk, &c);
        }
        if (nleaves && w->welcomes && !last_chunk)
            open_door(w);
        if (r->thread == 0 && w->training)
            lap(&c, &w->backward_ns);
    }
}

void yk__pass(yk_work *w)
{
    yk__run r = run_of(w, 0, w->threads, w->team);
    w->loss = 0.0;
    w->desk->images = w->batch->n;
    if (w->welcomes && w->training)
        open_door(w);
    if (w->threads > 1)
        yk_team_meet(w->team, 0);
    pass(w, &r, 0, 0);
    if (w->threads > 1)
        yk_team_meet(w->team, 0);
    set_door(w, YK__GUEST_CLOSED);
}

/* Comes in as a second thread; false: it was not let in. */
static bool visit(yk_work *w, uint64_t round, const float *params)
{
    yk__desk *d = w->desk;
    uint64_t none = atomic_load_explicit(&d->guest, memory_order_acquire), state;
    const uint64_t knocks = (none & ~GUEST) | YK__GUEST_KNOCKS;
    if ((none & GUEST) != YK__GUEST_NONE || none >> ROUND_SHIFT != (uint32_t)round ||
        !atomic_compare_exchange_strong(&d->guest, &none, knocks))
        return false;
    double until = 0.0;
    for (unsigned turn = 1; (state = atomic_load_explicit(&d->guest, memory_order_acquire)) == knocks;
         turn++) {
        pause_a_moment(turn);
        if (turn % LOOK || d->patience <= 0.0)
            continue;
        const double now = yk_now();
        until = until > 0.0 ? until : now + d->patience;
        state = knocks;
        if (now > until && atomic_compare_exchange_strong(&d->guest, &state, none))
            return false; /* it knocks no longer */
    }
    if (state != ((none & ~GUEST) | YK__GUEST_INSIDE))
        return false;
    yk__run r = run_of(w, 1, 2, NULL);
    r.guest = d;
    if (params) {
        r.params = params;
        w->training = r.training = true;
    }
    pass(w, &r, d->at, d->stage);
    return true;
}

/* Another process has something else to do in between; a thread of this one stays until the pass is over. */
bool yk__help(yk_work *w, uint64_t round, const float *params)
{
    const atomic_uint_fast64_t *guest = &w->desk->guest;
    bool helped = false;
    unsigned turn = 0;
    do {
        while (do_piece(w) >= 0)
            helped = true;
        helped |= visit(w, round, params);
        pause_a_moment(++turn);
    } while (!w->afar && (atomic_load_explicit(guest, memory_order_acquire) & GUEST) != YK__GUEST_CLOSED);
    return helped;
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
            yk__run r = run_of(w, h->me, w->threads, w->team);
            pass(w, &r, 0, 0);
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
        int e = pthread_create(&w->helpers[i].thread, NULL, help, &w->helpers[i]);
        if (e) {
            yk_team_stop(w->team);
            for (int k = 1; k < i; k++)
                pthread_join(w->helpers[k].thread, NULL);
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
        pthread_join(w->helpers[i].thread, NULL);
}
