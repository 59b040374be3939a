#include "store/remote_internal.h"

#include "base/clock.h"
#include "base/wait.h"
#include "watch/trace.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static yk_status make_lane(yk_remote *r, yk__remote_lane *l)
{
    const size_t servers = (size_t)r->config.servers, shares = (size_t)(r->config.threads / r->config.lanes);
    yk_mutex_init(&l->lock);
    l->ring = yk_alloc(servers, sizeof *l->ring, "the connection to the servers");
    yk_status st = l->ring ? yk_merger_init(&l->keys, 1024) : YK_ESYSTEM;
    for (int i = 0; !st && i < YK__OUTSTANDING; i++) {
        l->slot[i].begin = yk_alloc(servers + 1, sizeof(size_t), "the connection to the servers");
        l->slot[i].share = yk_alloc(shares, sizeof(yk__share), "the connection to the servers");
        st = l->slot[i].begin && l->slot[i].share ? YK_OK : YK_ESYSTEM;
    }
    return st;
}

yk_status yk_remote_create(const yk_remote_config *config, yk_remote **out)
{
    yk_remote *r = yk_alloc(1, sizeof *r, "the connection to the servers");
    if (!r)
        return YK_ESYSTEM;
    r->config = *config;
    for (int g = 0; g < config->ngroups; g++)
        r->keyed |= config->group[g].keyed;
    r->line = yk_alloc((size_t)config->servers, sizeof *r->line, "the connection to the servers");
    r->lane = yk_alloc((size_t)config->lanes, sizeof *r->lane, "the connection to the servers");
    r->leases = yk_alloc((size_t)config->threads, sizeof *r->leases, "the leases");
    yk_status st = r->line && r->lane && r->leases ? YK_OK : YK_ESYSTEM;
    for (int k = 0; !st && k < config->servers; k++)
        r->line[k].peer = config->peer ? config->peer[k] : k;
    for (int i = 0; !st && i < config->lanes; i++)
        st = make_lane(r, &r->lane[i]);
    if (st) {
        yk_remote_free(r);
        return st;
    }
    *out = r;
    return YK_OK;
}

static void free_lane(const yk_remote *r, yk__remote_lane *l)
{
    for (int i = 0; i < YK__OUTSTANDING; i++)
        yk__asked_fini(&l->slot[i]);
    for (int k = 0; l->ring && k < r->config.servers; k++)
        for (int i = 0; i < YK__RING; i++)
            free(l->ring[k].letter[i].data);
    yk_merger_fini(&l->keys);
    yk_free(l->ring);
}

void yk_remote_free(yk_remote *r)
{
    if (!r)
        return;
    for (int i = 0; r->lane && i < r->config.lanes; i++)
        free_lane(r, &r->lane[i]);
    for (int k = 0; r->line && k < r->config.servers; k++)
        free(r->line[k].in);
    yk_free(r->line);
    yk_free(r->lane);
    yk_free(r->leases);
    yk_free(r);
}

yk__layout yk__remote_layout(const yk_remote *r, int server)
{
    yk__layout l = {.ngroups = r->config.ngroups};
    for (int g = 0; g < l.ngroups; g++) {
        const yk_group *group = &r->config.group[g];
        uint64_t begin;
        l.group[g].keyed = group->keyed;
        l.group[g].arrays = r->config.arrays[g];
        l.group[g].each =
            group->keyed ? group->width : (size_t)yk__piece(group, server, r->config.servers, &begin);
    }
    return l;
}

/* ---- what servers say ---- */

/* The part of [arrays][keys] values that belongs to server k, to or from where the server has it. */
static float *move_keyed(const yk__asked *a, int k, size_t width, size_t arrays, float *values,
                         float *message, bool in)
{
    for (size_t array = 0; a->chunk && array < arrays; array++, values += a->nkeys * width) {
        const size_t n = (a->begin[k + 1] - a->begin[k]) * width;
        float *value = values + a->begin[k] * width;
        memcpy(in ? value : message, in ? message : value, n * sizeof *value);
        message += n;
    }
    for (size_t array = 0; !a->chunk && array < arrays; array++, values += a->nkeys * width)
        for (size_t i = a->begin[k]; i < a->begin[k + 1]; i++) {
            float *value = values + a->order[i] * width;
            if (width == 1 && in)
                *value = *message;
            else if (width == 1)
                *message = *value;
            else
                memcpy(in ? value : message, in ? message : value, width * sizeof *value);
            message += width;
        }
    return message;
}

/* All groups of server k: values of the client from a message, or into one. */
static void move(const yk_remote *r, int k, const yk__asked *a, float *const *values, float *message, bool in)
{
    for (int g = 0; g < r->config.ngroups; g++) {
        const yk_group *group = &r->config.group[g];
        const size_t arrays = (size_t)r->config.arrays[g];
        if (group->keyed) {
            message = move_keyed(a, k, group->width, arrays, values[g], message, in);
            continue;
        }
        uint64_t begin;
        const uint64_t n = yk__piece(group, k, r->config.servers, &begin);
        for (size_t array = 0; array < arrays; array++, message += n) {
            float *value = values[g] + array * group->keys + begin;
            memcpy(in ? value : message, in ? message : value, n * sizeof *value);
        }
    }
}

static void values_of(const yk_remote *r, const yk__asked *a, float **out)
{
    for (int g = 0; g < r->config.ngroups; g++)
        out[g] = a->w + a->at[g];
}

static yk_status take_values(yk_remote *r, int k, const yk__down *down, size_t bytes)
{
    const uint32_t lanes = (uint32_t)r->config.lanes;
    yk__asked *a = &r->lane[down->pull % lanes].slot[down->pull / lanes % YK__OUTSTANDING];
    const yk__layout layout = yk__remote_layout(r, k);
    const size_t n = a->batches ? yk__layout_all(&layout, a->begin[k + 1] - a->begin[k]) : 0;
    if (bytes != sizeof *down + down->n * sizeof(float) || a->number != down->pull ||
        atomic_load(&a->missing) == 0 || down->n != n)
        return yk_fail(YK_ELOST, "server %d sent an answer that was not asked for", k);
    float *values[YK_MAX_GROUPS];
    values_of(r, a, values);
    if (n)
        move(r, k, a, values, (float *)(void *)(down + 1), true);
    a->bytes += bytes;
    atomic_fetch_sub(&r->line[k].owes, 1);
    if (k == 0) {
        if (down->flags & YK__STOP)
            atomic_store(&r->stopped, true);
        a->news = (yk_remote_news){down->round, down->end, down->examples, down->loss, down->begin, false};
    }
    atomic_fetch_sub_explicit(&a->missing, 1, memory_order_release);
    return YK_OK;
}

static yk_status take(yk_remote *r, int k)
{
    yk__line *l = &r->line[k];
    const yk__down *down = (const yk__down *)(const void *)l->in;
    const size_t bytes = l->in_op.bytes;
    l->heard = yk_now();
    if (bytes < sizeof *down || down->magic != YK__MAGIC)
        return yk_fail(YK_ELOST, "server %d sent a malformed message of %zu bytes", k, bytes);
    if (k == 0 && down->incarnation > atomic_load(&r->incarnation))
        atomic_store(&r->incarnation, down->incarnation);
    if (down->kind == YK__DOWN_VALUES)
        return take_values(r, k, down, bytes);
    yk_comm_recount(r->config.comm, true, YK_FOR_PULL, YK_FOR_CONTROL, bytes, 1);
    if (down->kind == YK__DOWN_REFUSED)
        return yk_fail(
            YK_EUSAGE,
            "the job refused this worker: its program, options, data or model differ from those of the job");
    r->greeted += down->kind == YK__DOWN_ALIVE;
    if (down->kind == YK__DOWN_LEASE) {
        if (down->pull >= (uint32_t)r->config.threads)
            return yk_fail(YK_ELOST, "server %d sent a lease to thread %u, which does not exist", k,
                           down->pull);
        yk__leases *t = &r->leases[down->pull];
        atomic_fetch_sub(&l->owes, 1);
        t->here = true;
        t->later = (down->flags & YK__LATER) != 0;
        t->lease = (yk_lease){down->examples, down->begin, down->end};
        t->unit = down->n;
        t->leased_by = down->incarnation;
        atomic_store_explicit(&t->pending, false, memory_order_release);
    }
    return YK_OK;
}

static yk_status receive(yk_remote *r, int k, bool *busy)
{
    yk__line *l = &r->line[k];
    bool found = false, done = false;
    int peer;
    size_t bytes;
    yk_status st = YK_OK;
    if (!l->receiving) {
        if ((st = yk_comm_probe(r->config.comm, l->peer, YK__TAG_DOWN, &found, &peer, &bytes)) || !found)
            return st;
        char *grown = yk_grow(l->in, &l->in_cap, bytes + 1, 1, "an answer");
        if (!grown)
            return YK_ESYSTEM;
        l->in = grown;
        l->receiving = true;
        if ((st = yk_comm_recv(r->config.comm, l->peer, YK__TAG_DOWN, YK_FOR_PULL, l->in, bytes, &l->in_op)))
            return st;
    }
    if ((st = yk_comm_test(r->config.comm, &l->in_op, &done)) || !done)
        return st;
    l->receiving = false;
    *busy = true;
    return take(r, k);
}

yk_status yk_remote_pump(yk_remote *r, bool *busy_out)
{
    yk_status st =
        atomic_load_explicit(&r->waiting, memory_order_acquire) ? yk__remote_send_queued(r) : YK_OK;
    for (int k = 0; !st && k < r->config.servers; k++)
        st = receive(r, k, busy_out);
    return st;
}

void yk_remote_fail(yk_remote *r)
{
    atomic_store(&r->failed, true);
}

/* ---- heartbeats ---- */

static yk_status say_alive(yk_remote *r, double now)
{
    r->told = now;
    r->alive = (yk__up){.magic = YK__MAGIC, .kind = YK__UP_ALIVE};
    for (int k = 0; k < r->config.servers; k++) {
        bool done;
        yk_status st = yk_comm_test(r->config.comm, &r->line[k].alive_op, &done);
        if (!st && done)
            st = yk_comm_send(r->config.comm, r->line[k].peer, YK__TAG_UP, YK_FOR_CONTROL, &r->alive,
                              sizeof r->alive, &r->line[k].alive_op);
        if (st)
            return st;
    }
    return YK_OK;
}

/* A thread that hangs must not look alive because another one sends heartbeats for it. */
static bool has_moved(yk_remote *r)
{
    const unsigned now = atomic_load(&r->activity);
    const bool moved = !r->config.driven || now != atomic_load(&r->activity_told);
    atomic_store(&r->activity_told, now);
    return moved;
}

yk_status yk_remote_alive(yk_remote *r)
{
    const double now = yk_now();
    bool owed = atomic_load(&r->waiting) > 0; /* answers, or to receive a message */
    for (int k = 0; k < r->config.servers; k++) {
        yk__line *l = &r->line[k];
        const bool owes = atomic_load(&l->owes) > 0;
        owed |= owes;
        if (!owes || l->heard == 0.0)
            l->heard = now;
        if (now - l->heard > 1.0 && yk_comm_dead(r->config.comm, l->peer))
            return yk_fail(YK_ELOST, "server %d (rank %d) has died", k, l->peer);
        if (now - l->heard > r->config.timeout)
            return yk_fail(
                YK_ELOST,
                "server %d (rank %d) sent nothing for %.1f s while rank %d waited for it: it has died, "
                "hangs, or cannot be reached",
                k, l->peer, now - l->heard, yk_comm_rank(r->config.comm));
    }
    return now - r->told > r->config.alive && (owed || has_moved(r)) ? say_alive(r, now) : YK_OK;
}

yk_status yk_remote_compute(yk_remote *r, bool *busy_out)
{
    if (r->config.driven)
        return YK_OK;
    yk_status st = yk_remote_pump(r, busy_out);
    return st ? st : yk_remote_alive(r);
}

/* Until all have answered, or `pending` is false. */
yk_status yk__remote_wait(yk_remote *r, const yk__asked *asked, const atomic_bool *pending, const char *what)
{
    yk_wait w = yk_wait_begin(YK_WAIT_RANKS, HUGE_VAL); /* each server has its own deadline */
    bool began = false;
    while (asked ? atomic_load_explicit(&asked->missing, memory_order_acquire) > 0
                 : atomic_load_explicit(pending, memory_order_acquire)) {
        bool busy = false;
        yk_status st = r->config.driven ? YK_OK : yk_remote_pump(r, &busy);
        if (st)
            return st;
        if (atomic_load_explicit(&r->failed, memory_order_relaxed))
            return yk_fail(YK_ESTOP, "another thread stopped the run");
        if (busy) {
            yk_wait_again(&w);
            continue;
        }
        for (int k = 0; !began && !r->config.driven && k < r->config.servers; k++)
            r->line[k].heard = yk_now(); /* what came before the wait was our own computing */
        began = true;
        yk_wait_turn(&w);
        if (!yk_wait_polls(&w) || r->config.driven)
            continue;
        if ((st = yk_remote_alive(r)))
            return st == YK_ELOST ? yk_fail(st, "%s (waiting for %s)", yk_error(), what) : st;
    }
    return YK_OK;
}

/* ---- steps ---- */

/* One more batch of this thread. */
static void set_share(const yk_remote *r, yk__share *share, int thread, const uint64_t cursor[YK_CURSOR])
{
    share->newest = (uint32_t)r->leases[thread].used_by;
    if (share->batches++ == 0)
        share->incarnation = share->newest;
    memcpy(share->cursor, cursor, sizeof share->cursor);
}

yk_status yk_remote_add(yk_remote *r, int lane, int thread, const yk_batch *batch,
                        const uint64_t cursor[YK_CURSOR], size_t *index_out)
{
    yk__remote_lane *l = &r->lane[lane];
    yk_mutex_lock(&l->lock);
    yk_status st = yk__asked_add(r, l, batch, index_out);
    if (!st)
        set_share(r, &l->open->share[thread - lane], thread, cursor);
    yk_mutex_unlock(&l->lock);
    return st;
}

yk_status yk_remote_add_chunk(yk_remote *r, int lane, int thread, const yk_chunk *chunk,
                              const yk_batch *batch, const uint64_t cursor[YK_CURSOR])
{
    yk__remote_lane *l = &r->lane[lane];
    yk_status st = yk__asked_add_chunk(r, l, chunk, batch);
    if (!st)
        set_share(r, &l->open->share[thread - lane], thread, cursor);
    return st;
}

void yk_remote_share(yk_remote *r, int lane, int thread, const uint64_t cursor[YK_CURSOR])
{
    set_share(r, &r->lane[lane].current->share[thread - lane], thread, cursor);
}

void yk_remote_drop(yk_remote *r, int lane)
{
    r->lane[lane].open = NULL;
}

size_t yk_remote_added(const yk_remote *r, int lane)
{
    const yk__asked *open = r->lane[lane].open;
    return open ? open->batches : 0;
}

int yk_remote_under_way(const yk_remote *r, int lane)
{
    return (int)(r->lane[lane].asked - r->lane[lane].pulled);
}

/* The values of a push, the keys of `ask`, or both, to server k. */
static yk_status send_step(yk_remote *r, int lane, int k, const yk_remote_pushed *p, const yk__asked *ask)
{
    const yk__remote_lane *l = &r->lane[lane];
    const yk__layout layout = yk__remote_layout(r, k);
    const yk__asked *of = p ? l->current : NULL;
    const size_t npush = p && p->examples ? yk__layout_all(&layout, of->begin[k + 1] - of->begin[k]) : 0;
    const size_t npull = ask ? ask->begin[k + 1] - ask->begin[k] : 0;
    const size_t shares = p ? (size_t)(r->config.threads / r->config.lanes) : 0;
    const size_t bytes = sizeof(yk__up) + shares * sizeof(yk__share) + 4 * (npush + npull);
    yk__up *up;
    yk_status st = yk__remote_letter(r, lane, k, bytes, p ? YK_FOR_PUSH : YK_FOR_PULL, &up);
    if (st)
        return st;
    *up = (yk__up){.magic = YK__MAGIC,
                   .kind = YK__UP_STEP,
                   .flags = (uint16_t)((p ? YK__HAS_PUSH : 0) | (ask ? YK__HAS_PULL : 0)),
                   .pull = ask ? ask->number : 0,
                   .push_of = of ? of->number : 0,
                   .npush = (uint32_t)npush,
                   .npull = (uint32_t)npull,
                   .nshares = (uint32_t)shares,
                   .thread = (uint32_t)lane,
                   .round = p ? p->round : 0,
                   .steps = p ? p->steps : 0,
                   .examples = p ? p->examples : 0,
                   .loss = p ? p->loss : 0.0};
    if (ask && ask->batches)
        up->flags |= YK__WANTS;
    yk__share *share = (yk__share *)(void *)(up + 1);
    for (size_t i = 0; i < shares; i++) {
        share[i] = of ? of->share[i] : (yk__share){0};
        share[i].examples = p->share ? p->share[i] : 0;
    }
    float *v = (float *)(void *)(share + shares);
    if (npush)
        move(r, k, of, (float *const *)(void *)p->value, v, false);
    if (npull)
        memcpy(v + npush, (ask->chunk ? ask->chunk->row : ask->row) + ask->begin[k],
               npull * sizeof *ask->row);
    if (p)
        l->ring[k].letter[atomic_load(&l->ring[k].queued) % YK__RING].pull_bytes = 4 * npull;
    if (ask && atomic_fetch_add(&r->line[k].owes, 1) == 0 && !r->config.driven)
        r->line[k].heard = 0.0; /* its time begins when somebody looks */
    return yk__remote_post(r, lane, k);
}

static yk_status send_steps(yk_remote *r, int lane, const yk_remote_pushed *p, yk__asked *ask)
{
    yk_trace_track *track = r->config.phases ? r->config.phases[lane].track : NULL;
    const uint64_t began = track ? yk_now_ns() : 0;
    yk_status st = YK_OK;
    if (ask)
        ask->asked_at = began;
    for (int k = 0; !st && k < r->config.servers; k++) {
        st = send_step(r, lane, k, p, ask);
        if (!st && p && track)
            yk_trace_message(track, "push", r->line[k].peer, 0, began, yk_now_ns() - began);
    }
    return st;
}

yk_status yk_remote_ask(yk_remote *r, int lane)
{
    yk__asked *a;
    yk_status st = yk__asked_close(r, lane, &a);
    return st ? st : send_steps(r, lane, NULL, a);
}

yk_status yk_remote_push(yk_remote *r, int lane, const yk_remote_pushed *p)
{
    yk__asked *a = NULL;
    yk_status st = r->lane[lane].open || r->config.lockstep ? yk__asked_close(r, lane, &a) : YK_OK;
    return st ? st : send_steps(r, lane, p, a);
}

yk_status yk_remote_await(yk_remote *r, int lane, yk_remote_answer *out)
{
    yk__remote_lane *l = &r->lane[lane];
    yk__asked *a = &l->slot[l->pulled++ % YK__OUTSTANDING];
    yk_phases *phases = r->config.phases ? &r->config.phases[lane] : NULL;
    const uint64_t began = r->config.lockstep && atomic_load(&a->missing) ? yk_now_ns() : 0;
    yk_status st = yk__remote_wait(r, a, NULL, "parameters");
    if (st)
        return st;
    if (began) { /* the part of it that was the others' fault */
        const uint64_t took = yk_now_ns() - began;
        yk_phase_waited(phases, YK_PHASE_WORKERS, a->news.kept < took ? a->news.kept : took);
    }
    if (phases && phases->track)
        yk_trace_message(phases->track, "pull", YK_ANY, a->bytes, a->asked_at, yk_now_ns() - a->asked_at);
    l->current = a;
    *out = (yk_remote_answer){.asked = a,
                              .keys = a->nkeys,
                              .batches = a->batches,
                              .squares = a->chunk ? a->chunk->squares : a->squares,
                              .squares_sum = a->squares_sum,
                              .entries = a->entries,
                              .news = a->news};
    out->news.stop = atomic_load(&r->stopped);
    values_of(r, a, out->value);
    return YK_OK;
}

yk_batch yk_remote_batch(const yk_remote_answer *answer, size_t i)
{
    const yk__asked *a = answer->asked;
    const size_t begin = i ? a->end[i - 1] : 0;
    if (a->chunk)
        return (yk_batch){.rows = a->chunk_rows,
                          .pick = a->pick + begin,
                          .n = a->end[i] - begin,
                          .ahead = a->end[a->batches - 1] - a->end[i],
                          .remapped = true,
                          .bias = a->chunk->bias};
    if (!a->rows.start) /* there are no keys: it was not copied */
        return a->dense;
    return (yk_batch){.rows = &a->rows, .pick = a->pick + begin, .n = a->end[i] - begin, .remapped = true};
}
