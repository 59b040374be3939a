#include "store/remote_internal.h"

#include "base/clock.h"
#include "base/wait.h"
#include "watch/trace.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static yk_status make_mergers(size_t n, yk_merger **out)
{
    yk_status st = (*out = yk_alloc(n, sizeof **out, "the connections to the servers")) ? YK_OK : YK_ESYSTEM;
    for (size_t i = 0; !st && i < n; i++)
        st = yk_merger_init(&(*out)[i], 1024);
    return st;
}

static yk_status make_channel(yk_remote *r, yk__remote_channel *l)
{
    const size_t servers = (size_t)r->config.servers, shares = (size_t)yk__remote_shares(r);
    yk_mutex_init(&l->lock);
    l->queue = yk_alloc(servers, sizeof *l->queue, "the connections to the servers");
    yk_status st = l->queue ? make_mergers(shares, &l->keys) : YK_ESYSTEM;
    if (!st && shares > 1)
        st = make_mergers(servers, &l->united);
    for (size_t k = 0; l->queue && k < servers; k++)
        yk_mutex_init(&l->queue[k].lock);
    for (int i = 0; !st && i < YK__MAX_OUTSTANDING; i++) {
        l->slot[i].share = yk_alloc(shares, sizeof(yk__share), "the connections to the servers");
        l->slot[i].part = yk_alloc(shares, sizeof(yk__part), "the connections to the servers");
        l->slot[i].answer = yk_alloc(servers, sizeof *l->slot[i].answer, "the connections to the servers");
        st = l->slot[i].share && l->slot[i].part && l->slot[i].answer ? YK_OK : YK_ESYSTEM;
    }
    return st;
}

yk_status yk_remote_create(const yk_remote_config *config, yk_remote **out)
{
    yk_remote *r = yk_alloc(1, sizeof *r, "the connections to the servers");
    if (!r)
        return YK_ESYSTEM;
    r->config = *config;
    for (int g = 0; g < config->ngroups; g++)
        if (config->group[g].keyed) {
            const int i = r->owners[0].n && r->owners[0].first != config->group[g].first_owner;
            r->owners[i].first = config->group[g].first_owner;
            r->owners[i].n = config->group[g].owners;
        }
    r->server = yk_alloc((size_t)config->servers, sizeof *r->server, "the connections to the servers");
    r->channel = yk_alloc((size_t)config->channels, sizeof *r->channel, "the connections to the servers");
    r->leases = yk_alloc((size_t)config->threads, sizeof *r->leases, "the leases");
    yk_status st = r->server && r->channel && r->leases ? YK_OK : YK_ESYSTEM;
    for (int k = 0; !st && k < config->servers; k++) {
        r->server[k].peer = config->peer ? config->peer[k] : k;
        r->server[k].layout = yk__layout_of(config->group, config->ngroups, config->arrays, k);
    }
    for (int i = 0; !st && i < config->channels; i++)
        st = make_channel(r, &r->channel[i]);
    if (st)
        yk_remote_free(r);
    else
        *out = r;
    return st;
}

static void free_channel(const yk_remote *r, yk__remote_channel *l)
{
    for (int i = 0; i < YK__MAX_OUTSTANDING; i++)
        yk__request_fini(&l->slot[i], yk__remote_shares(r), r->config.servers);
    for (int k = 0; l->queue && k < r->config.servers; k++)
        for (int i = 0; i < YK__QUEUE_SIZE; i++)
            free(l->queue[k].message[i].data);
    for (int i = 0; l->keys && i < yk__remote_shares(r); i++)
        yk_merger_fini(&l->keys[i]);
    for (int k = 0; l->united && k < r->config.servers; k++)
        yk_merger_fini(&l->united[k]);
    yk_free(l->keys);
    yk_free(l->united);
    free(l->squares);
    free(l->used_at);
    yk_free(l->queue);
}

void yk_remote_free(yk_remote *r)
{
    if (!r)
        return;
    for (int i = 0; r->channel && i < r->config.channels; i++)
        free_channel(r, &r->channel[i]);
    for (int k = 0; r->server && k < r->config.servers; k++)
        free(r->server[k].in.data);
    yk_free(r->server);
    yk_free(r->channel);
    yk_free(r->leases);
    yk_free(r);
}

bool yk_remote_rounds(const yk_remote *r)
{
    return r->config.rounds;
}

/* ---- messages from servers ---- */

static yk_status handle_values(yk_remote *r, int k, const yk__down *down, size_t bytes)
{
    const uint32_t channels = (uint32_t)r->config.channels;
    yk__request *a = &r->channel[down->pull % channels].slot[down->pull / channels % YK__MAX_OUTSTANDING];
    const size_t n = a->batches ? yk__layout_all(&r->server[k].layout, yk__remote_keys_on(r, a, k)) : 0;
    if (bytes != sizeof *down + down->n * sizeof(float) || a->number != down->pull ||
        atomic_load(&a->missing) == 0 || down->n != n)
        return yk_fail(YK_ELOST, "server %d replied to a request that does not exist", k);
    const yk_inbox read = a->answer[k]; /* the channel's thread copies the values, to keep this one free */
    a->answer[k] = r->server[k].in;
    r->server[k].in = read;
    a->bytes += bytes;
    atomic_fetch_sub(&r->server[k].pending_answers, 1);
    if (k == 0) {
        if (down->flags & YK__STOP)
            atomic_store(&r->stopped, true);
        atomic_store_explicit(&r->orphans, (down->flags & YK__ORPHANS) != 0, memory_order_relaxed);
        a->status = (yk_remote_status){.round = down->round,
                                       .steps = down->end,
                                       .examples = down->examples,
                                       .loss = down->loss,
                                       .workers = (int)down->workers,
                                       .reductions = down->flags >> YK__REDUCTIONS_SHIFT,
                                       .gradient_waited = down->begin};
    }
    atomic_fetch_sub_explicit(&a->missing, 1, memory_order_release);
    return YK_OK;
}

static yk_status handle(yk_remote *r, int k)
{
    yk__connection *l = &r->server[k];
    const yk__down *down = (const yk__down *)(const void *)l->in.data;
    const size_t bytes = l->in.op.bytes;
    l->last_message = yk_now();
    if (bytes < sizeof *down || down->magic != YK__MAGIC)
        return yk_fail(YK_ELOST, "server %d sent a malformed message of %zu bytes", k, bytes);
    if (k == 0 && down->incarnation > atomic_load(&r->incarnation))
        atomic_store(&r->incarnation, down->incarnation);
    if (down->kind == YK__DOWN_VALUES)
        return handle_values(r, k, down, bytes);
    yk_comm_change_purpose(r->config.comm, true, YK_PURPOSE_PULL, YK_PURPOSE_CONTROL, bytes, 1);
    if (down->kind == YK__DOWN_REFUSED)
        return yk_fail(
            YK_EUSAGE,
            "the job refused this worker: its program, options, data or model differ from those of the job");
    r->join_replies += down->kind == YK__DOWN_ALIVE;
    if (down->kind == YK__DOWN_LEASE) {
        if (down->pull >= (uint32_t)r->config.threads)
            return yk_fail(YK_ELOST, "server %d sent a lease for thread %u, which does not exist", k,
                           down->pull);
        yk__leases *t = &r->leases[down->pull];
        atomic_fetch_sub(&l->pending_answers, 1);
        t->ready = true;
        t->lease = *down;
        atomic_store_explicit(&t->pending, 0, memory_order_release);
    }
    return YK_OK;
}

/* Receives the next message of server k, if it has arrived. */
static yk_status receive(yk_remote *r, int k, bool *busy_out)
{
    yk__connection *l = &r->server[k];
    bool done;
    yk_status st = yk_inbox_receive(r->config.comm, &l->in, l->peer, YK__TAG_DOWN, YK_PURPOSE_PULL, &done);
    if (st || !done)
        return st;
    *busy_out = true;
    return handle(r, k);
}

/* Asks once whether anything has arrived, not once per server: there may be hundreds, and most calls find nothing. */
yk_status yk_remote_pump(yk_remote *r, bool *busy_out)
{
    bool each = r->config.peer; /* this worker joined: its servers are not ranks of its own job */
    if (r->config.stop && *r->config.stop)
        yk_comm_ask_to_stop(r->config.comm);
    yk_status st =
        atomic_load_explicit(&r->waiting, memory_order_acquire) ? yk__remote_send_queued(r) : YK_OK;
    for (int i = 0; !st && !each && i < r->config.servers; i++) {
        bool found;
        int k;
        size_t bytes;
        st = yk_comm_probe(r->config.comm, YK_ANY, YK__TAG_DOWN, &found, &k, &bytes);
        if (st || !found)
            break;
        st = receive(r, k, busy_out);
        each = r->server[k].in.op.active; /* the end of a message is missing: others may be behind it */
    }
    for (int k = 0; !st && k < r->config.servers; k++)
        if (each || r->server[k].in.op.active)
            st = receive(r, k, busy_out);
    return st;
}

void yk_remote_fail(yk_remote *r)
{
    atomic_store(&r->failed, true);
}

/* ---- heartbeats ---- */

static yk_status send_heartbeats(yk_remote *r, double now)
{
    r->heartbeat_at = now;
    r->alive = (yk__up){.magic = YK__MAGIC, .kind = YK__UP_ALIVE};
    for (int k = 0; k < r->config.servers; k++) {
        bool done;
        yk_status st = yk_comm_test(r->config.comm, &r->server[k].alive_op, &done);
        if (!st && done && r->server[k].left < r->config.channels)
            st = yk_comm_send(r->config.comm, r->server[k].peer, YK__TAG_UP, YK_PURPOSE_CONTROL, &r->alive,
                              sizeof r->alive, &r->server[k].alive_op);
        if (st)
            return st;
    }
    return YK_OK;
}

/* If the other threads hang, the thread that pumps must not send heartbeats for them. */
static bool made_progress(yk_remote *r)
{
    const unsigned now = atomic_load(&r->activity);
    const bool progress = !r->config.has_progress_thread || now != atomic_load(&r->activity_seen);
    atomic_store(&r->activity_seen, now);
    return progress;
}

yk_status yk_remote_alive(yk_remote *r)
{
    const double now = yk_now();
    bool waits = atomic_load(&r->waiting) > 0; /* a server must answer, or receive a message */
    for (int k = 0; k < r->config.servers; k++) {
        yk__connection *l = &r->server[k];
        const bool pending_answers = atomic_load(&l->pending_answers) > 0;
        waits |= pending_answers;
        if (!pending_answers || l->last_message == 0.0)
            l->last_message = now;
        const double silent = now - l->last_message; /* a system call only if a message is late */
        if ((silent > 0.05 && yk_comm_is_lost(r->config.comm, l->peer)) ||
            (silent > 1.0 && yk_comm_is_dead(r->config.comm, l->peer)))
            return yk_fail(YK_ELOST, "server %d (rank %d) has died", k, k);
        if (now - l->last_message > r->config.timeout)
            return yk_fail(
                YK_ELOST,
                "server %d (rank %d) sent nothing for %.1f s: it has died, is hung, or cannot be reached", k,
                k, now - l->last_message);
    }
    return now - r->heartbeat_at > r->config.heartbeat_every && (waits || made_progress(r))
               ? send_heartbeats(r, now)
               : YK_OK;
}

yk_status yk_remote_progress(yk_remote *r)
{
    bool busy;
    if (r->config.has_progress_thread)
        return YK_OK;
    yk_status st = yk_remote_pump(r, &busy);
    return st ? st : yk_remote_alive(r);
}

yk_status yk__remote_wait(yk_remote *r, const atomic_int *missing, const char *what)
{
    yk_wait w = yk_wait_begin(r->config.wait, HUGE_VAL); /* each server has its own deadline */
    bool began = false;
    while (atomic_load_explicit(missing, memory_order_acquire) > 0) {
        bool busy = false;
        yk_status st = r->config.has_progress_thread ? YK_OK : yk_remote_pump(r, &busy);
        if (st)
            return st;
        if (atomic_load_explicit(&r->failed, memory_order_relaxed))
            return yk_fail(YK_ESTOP, "another thread stopped the run");
        if (busy) {
            yk_wait_restart(&w);
            continue;
        }
        for (int k = 0; !began && !r->config.has_progress_thread && k < r->config.servers; k++)
            r->server[k].last_message =
                yk_now(); /* before the wait, this thread computed and received nothing */
        began = true;
        yk_wait_poll(&w);
        if (!yk_wait_is_check_due(&w) || r->config.has_progress_thread)
            continue;
        if ((st = yk_remote_alive(r)))
            return st == YK_ELOST ? yk_fail(st, "%s (waiting for %s)", yk_error(), what) : st;
    }
    return YK_OK;
}

/* ---- steps ---- */

/* Counts one more batch of this thread. */
static void set_share(const yk_remote *r, yk__share *share, int thread, const uint64_t cursor[YK_CURSOR_SIZE])
{
    share->newest = r->leases[thread].used_by;
    if (share->batches++ == 0)
        share->incarnation = share->newest;
    memcpy(share->cursor, cursor, sizeof share->cursor);
}

yk_status yk_remote_add(yk_remote *r, int channel, int thread, const yk_batch *batch, const yk_chunk *chunk,
                        bool whole, const uint64_t cursor[YK_CURSOR_SIZE])
{
    yk__remote_channel *l = &r->channel[channel];
    const int number = thread - channel;
    yk_mutex_lock(&l->lock);
    yk__request *a = yk__request_open(r, l);
    a->found = false; /* if its keys were found, it had none */
    yk_mutex_unlock(&l->lock);
    yk__part *p = &a->part[number];
    yk_status st = yk__request_add(r, l, p, batch, chunk, whole);
    if (!st)
        set_share(r, &a->share[number], thread, cursor);
    return st;
}

void yk_remote_count_batch(yk_remote *r, int channel, int thread, const uint64_t cursor[YK_CURSOR_SIZE])
{
    set_share(r, &r->channel[channel].current->share[thread - channel], thread, cursor);
}

size_t yk_remote_added(const yk_remote *r, int channel)
{
    const yk__request *open = r->channel[channel].open;
    size_t n = 0;
    for (int i = 0; open && i < yk__remote_shares(r); i++)
        n += open->part[i].batches;
    return n;
}

int yk_remote_outstanding(const yk_remote *r, int channel)
{
    return (int)(r->channel[channel].requested - r->channel[channel].awaited);
}

yk_status yk_remote_await(yk_remote *r, int channel, yk_remote_answer *out)
{
    yk__remote_channel *l = &r->channel[channel];
    yk__request *a = &l->slot[l->awaited++ % YK__MAX_OUTSTANDING];
    yk_phases *phases = yk_phases_of(r->config.phases, channel);
    const uint64_t began = r->config.rounds && atomic_load(&a->missing) ? yk_now_ns() : 0;
    yk_status st = yk__remote_wait(r, &a->missing, "parameters");
    if (st)
        return st;
    if (began) { /* the part that was spent waiting for other workers */
        const uint64_t took = yk_now_ns() - began;
        yk_phase_waited(phases, YK_PHASE_WORKERS,
                        a->status.gradient_waited < took ? a->status.gradient_waited : took);
    }
    if (phases && phases->track)
        yk_trace_message(phases->track, "pull", YK_ANY, a->bytes, a->requested_at,
                         yk_now_ns() - a->requested_at);
    l->current = a;
    *out = (yk_remote_answer){.request = a,
                              .chunk = a->keys,
                              .keys = a->keys ? a->keys->nkeys : 0,
                              .batches = a->batches,
                              .status = a->status};
    out->status.stop = atomic_load(&r->stopped);
    for (int g = 0; g < r->config.ngroups; g++)
        out->value[g] = a->w + a->at[g];
    for (int k = 0; a->batches && k < r->config.servers; k++)
        yk__remote_move(r, k, a, out->value, (float *)(void *)(a->answer[k].data + sizeof(yk__down)), true);
    return YK_OK;
}

size_t yk_remote_batches(const yk_remote_answer *answer, int number)
{
    return ((const yk__request *)answer->request)->part[number].batches;
}

yk_batch yk_remote_batch(const yk_remote_answer *answer, int number, size_t i)
{
    const yk__request *a = answer->request;
    const yk__part *p = &a->part[number];
    if (!a->keys) /* no keyed groups: it was not copied */
        return p->dense;
    const size_t begin = i ? p->batch[i - 1].end : 0;
    return (yk_batch){.rows = p->rows,
                      .pick = p->pick + begin,
                      .n = p->batch[i].end - begin,
                      .ahead = p->batch[p->batches - 1].end - p->batch[i].end,
                      .noise = p->batch[i].noise,
                      .remapped = true,
                      .bias = p->whole ? p->whole->bias : p->bias};
}
