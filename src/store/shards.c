#include "store/shards_internal.h"

#include "base/clock.h"
#include "base/wait.h"
#include "watch/trace.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *allocate(yk_shards *s, int n, size_t size)
{
    return yk_arena_alloc(&s->memory, (size_t)n, size, "the connections to the servers");
}

static void make_channel(yk_shards *s, int first)
{
    yk__channel *c = &s->channel[first];
    const int threads = s->plan->channels > 1 ? 1 : s->plan->workers_per_process, servers = s->plan->owners;
    c->first = first;
    c->end = first + threads;
    c->current = &c->slot[YK__MAX_OUTSTANDING - 1]; /* empty: the first request is slot[0] */
    yk_mutex_init(&c->lock);
    c->share = allocate(s, threads, sizeof *c->share);
    c->queue = allocate(s, servers, sizeof *c->queue);
    c->keys = allocate(s, threads, sizeof *c->keys);
    if (threads > 1)
        c->united = allocate(s, servers, sizeof *c->united);
    for (int k = 0; c->queue && k < servers; k++)
        yk_mutex_init(&c->queue[k].lock);
    for (yk__request *a = c->slot; a < c->slot + YK__MAX_OUTSTANDING; a++) {
        a->share = allocate(s, threads, sizeof *a->share);
        a->part = allocate(s, threads, sizeof *a->part);
        a->answer = allocate(s, servers, sizeof *a->answer);
    }
}

yk_status yk_shards_create(const yk_shards_config *config, yk_shards **out)
{
    yk_shards *s = yk_alloc(1, sizeof *s, "the connections to the servers");
    if (!s)
        return YK_ESYSTEM;
    s->config = *config;
    s->plan = config->plan;
    s->copy_steps = yk_plan_copy_steps(s->plan);
    const int servers = s->plan->owners, threads = s->plan->workers_per_process;
    for (int g = 0; g < s->plan->ngroups; g++) {
        s->arrays[g] = 1 + (s->copy_steps ? yk_optim_rule_of(s->plan->group[g].optim.kind)->slots : 0);
        if (config->group[g].keyed) {
            const int i = s->owners[0].n && s->owners[0].first != config->group[g].first_owner;
            s->owners[i].first = config->group[g].first_owner;
            s->owners[i].n = config->group[g].owners;
        }
    }
    s->server = allocate(s, servers, sizeof *s->server);
    s->channel = allocate(s, s->plan->channels, sizeof *s->channel);
    s->thread = allocate(s, threads, sizeof *s->thread);
    for (int k = 0; s->server && k < servers; k++) {
        s->server[k].peer = k + config->joined;
        s->server[k].layout = yk__layout_of(config->group, s->plan->ngroups, s->arrays, k);
    }
    for (int i = 0; s->channel && i < s->plan->channels; i++)
        make_channel(s, i);
    const yk_status st = s->memory.status;
    if (st)
        yk_shards_free(s);
    else
        *out = s;
    return st;
}

static void free_channel(const yk_shards *s, yk__channel *c)
{
    for (int i = 0; i < YK__MAX_OUTSTANDING; i++)
        yk__request_fini(&c->slot[i], yk__threads_of(c), s->plan->owners);
    for (int k = 0; c->queue && k < s->plan->owners; k++)
        for (int i = 0; i < YK__QUEUE_SIZE; i++)
            free(c->queue[k].message[i].data);
    for (int i = 0; c->keys && i < yk__threads_of(c); i++)
        yk_merger_fini(&c->keys[i]);
    for (int k = 0; c->united && k < s->plan->owners; k++)
        yk_merger_fini(&c->united[k]);
    free(c->used);
    free(c->squares);
    free(c->used_at);
    for (int g = 0; g < YK_MAX_GROUPS; g++)
        yk_free(c->sum[g]);
    yk_local_free(c->local);
}

void yk_shards_free(yk_shards *s)
{
    if (!s)
        return;
    for (int i = 0; s->channel && i < s->plan->channels; i++)
        free_channel(s, &s->channel[i]);
    for (int k = 0; s->server && k < s->plan->owners; k++)
        free(s->server[k].in.data);
    for (int i = 0; s->thread && i < s->plan->workers_per_process; i++) {
        for (int g = 0; g < YK_MAX_GROUPS; g++)
            yk_free(s->thread[i].sum[g]);
        free(s->thread[i].held_pick);
    }
    yk_arena_free(&s->memory);
    yk_free(s);
}

/* ---- messages from servers ---- */

static yk_status handle_values(yk_shards *s, int k, const yk__down *down, size_t bytes)
{
    const uint32_t channels = (uint32_t)s->plan->channels;
    yk__request *a = &s->channel[down->pull % channels].slot[down->pull / channels % YK__MAX_OUTSTANDING];
    const size_t n = a->batches ? yk__layout_all(&s->server[k].layout, yk__shards_keys_on(s, a, k)) : 0;
    if (bytes != sizeof *down + down->n * sizeof(float) || a->number != down->pull ||
        atomic_load(&a->missing) == 0 || down->n != n)
        return yk_fail(YK_ELOST, "server %d replied to a request that does not exist", k);
    const yk_inbox read = a->answer[k]; /* the channel's thread copies the values, to keep this one free */
    a->answer[k] = s->server[k].in;
    s->server[k].in = read;
    a->bytes += bytes;
    atomic_fetch_sub(&s->server[k].pending_answers, 1);
    if (k == 0) {
        if (down->flags & YK__STOP)
            atomic_store(&s->stopped, true);
        atomic_store_explicit(&s->orphans, (down->flags & YK__ORPHANS) != 0, memory_order_relaxed);
    }
    atomic_fetch_sub_explicit(&a->missing, 1, memory_order_release);
    return YK_OK;
}

static yk_status handle(yk_shards *s, int k)
{
    yk__connection *server = &s->server[k];
    const yk__down *down = (const yk__down *)(const void *)server->in.data;
    const size_t bytes = server->in.op.bytes;
    server->last_message = yk_now();
    if (bytes < sizeof *down || down->magic != YK__MAGIC)
        return yk_fail(YK_ELOST, "server %d sent a malformed message of %zu bytes", k, bytes);
    if (k == 0 && down->incarnation > atomic_load(&s->incarnation))
        atomic_store(&s->incarnation, down->incarnation);
    if (down->kind == YK__DOWN_VALUES)
        return handle_values(s, k, down, bytes);
    yk_comm_change_purpose(s->config.comm, true, YK_PURPOSE_PULL, YK_PURPOSE_CONTROL, bytes, 1);
    if (down->kind == YK__DOWN_REFUSED)
        return yk_fail(
            YK_EUSAGE,
            "the job refused this worker: its program, options, data or model differ from those of the job");
    s->join_replies += down->kind == YK__DOWN_ALIVE;
    if (down->kind == YK__DOWN_LEASE) {
        if (down->pull >= (uint32_t)s->plan->workers_per_process)
            return yk_fail(YK_ELOST, "server %d sent a lease for thread %u, which does not exist", k,
                           down->pull);
        yk__thread *t = &s->thread[down->pull];
        atomic_fetch_sub(&server->pending_answers, 1);
        t->ready = true;
        t->lease = *down;
        atomic_store_explicit(&t->pending, 0, memory_order_release);
    }
    return YK_OK;
}

/* Receives the next message of server k, if it has arrived. */
static yk_status receive(yk_shards *s, int k, bool *busy_out)
{
    yk__connection *server = &s->server[k];
    bool done;
    yk_status st =
        yk_inbox_receive(s->config.comm, &server->in, server->peer, YK__TAG_DOWN, YK_PURPOSE_PULL, &done);
    if (st || !done)
        return st;
    *busy_out = true;
    return handle(s, k);
}

/* Asks once whether anything has arrived, not once per server: there may be hundreds, and most calls find nothing. */
yk_status yk_shards_pump(yk_shards *s, bool *busy_out)
{
    bool each = s->config.joined; /* its servers are not ranks of its own job */
    if (s->config.stop && *s->config.stop)
        yk_comm_ask_to_stop(s->config.comm);
    yk_status st =
        atomic_load_explicit(&s->waiting, memory_order_acquire) ? yk__shards_send_queued(s) : YK_OK;
    for (int i = 0; !st && !each && i < s->plan->owners; i++) {
        bool found;
        int k;
        size_t bytes;
        st = yk_comm_probe(s->config.comm, YK_ANY, YK__TAG_DOWN, &found, &k, &bytes);
        if (st || !found)
            break;
        st = receive(s, k, busy_out);
        each = s->server[k].in.op.active; /* part of a message is missing: others may follow it */
    }
    for (int k = 0; !st && k < s->plan->owners; k++)
        if (each || s->server[k].in.op.active)
            st = receive(s, k, busy_out);
    return st;
}

void yk_shards_fail(yk_shards *s)
{
    atomic_store(&s->failed, true);
}

/* ---- heartbeats ---- */

static yk_status send_heartbeats(yk_shards *s, double now)
{
    static const yk__up alive = {.magic = YK__MAGIC, .kind = YK__UP_ALIVE};
    s->heartbeat_at = now;
    for (int k = 0; k < s->plan->owners; k++) {
        bool done;
        yk_status st = yk_comm_test(s->config.comm, &s->server[k].alive_op, &done);
        if (!st && done && s->server[k].left < s->plan->channels)
            st = yk_comm_send(s->config.comm, s->server[k].peer, YK__TAG_UP, YK_PURPOSE_CONTROL, &alive,
                              sizeof alive, &s->server[k].alive_op);
        if (st)
            return st;
    }
    return YK_OK;
}

/* If the other threads hang, the progress thread must not send heartbeats for them. */
static bool made_progress(yk_shards *s)
{
    const unsigned now = atomic_load(&s->activity);
    const bool progress = !s->plan->has_progress_thread || now != atomic_load(&s->activity_seen);
    atomic_store(&s->activity_seen, now);
    return progress;
}

yk_status yk_shards_alive(yk_shards *s)
{
    const double now = yk_now();
    bool waits = atomic_load(&s->waiting) > 0; /* a server must answer, or receive a message */
    for (int k = 0; k < s->plan->owners; k++) {
        yk__connection *server = &s->server[k];
        const bool pending_answers = atomic_load(&server->pending_answers) > 0;
        waits |= pending_answers;
        if (!pending_answers || server->last_message == 0.0)
            server->last_message = now;
        const double silent = now - server->last_message; /* a system call only if a message is late */
        if ((silent > 0.05 && yk_comm_is_lost(s->config.comm, server->peer)) ||
            (silent > 1.0 && yk_comm_is_dead(s->config.comm, server->peer)))
            return yk_fail(YK_ELOST, "server %d (rank %d) has died", k, k);
        if (now - server->last_message > s->plan->server_timeout)
            return yk_fail(
                YK_ELOST,
                "server %d (rank %d) sent nothing for %.1f s: it has died, is hung, or cannot be reached", k,
                k, now - server->last_message);
    }
    return now - s->heartbeat_at > s->plan->heartbeat_every && (waits || made_progress(s))
               ? send_heartbeats(s, now)
               : YK_OK;
}

yk_status yk__shards_progress(yk_shards *s)
{
    bool busy;
    if (s->plan->has_progress_thread)
        return YK_OK;
    yk_status st = yk_shards_pump(s, &busy);
    return st ? st : yk_shards_alive(s);
}

yk_status yk__shards_wait(yk_shards *s, const atomic_int *missing, const char *what)
{
    yk_wait w = yk_wait_begin(s->plan->wait, HUGE_VAL); /* each server has its own deadline */
    bool began = false;
    while (atomic_load_explicit(missing, memory_order_acquire) > 0) {
        bool busy = false;
        yk_status st = s->plan->has_progress_thread ? YK_OK : yk_shards_pump(s, &busy);
        if (st)
            return st;
        if (atomic_load_explicit(&s->failed, memory_order_relaxed))
            return yk_fail(YK_ESTOP, "another thread stopped the run");
        if (busy) {
            yk_wait_restart(&w);
            continue;
        }
        for (int k = 0; !began && !s->plan->has_progress_thread && k < s->plan->owners; k++)
            s->server[k].last_message =
                yk_now(); /* before the wait, this thread computed and received nothing */
        began = true;
        yk_wait_poll(&w);
        if (!yk_wait_is_check_due(&w) || s->plan->has_progress_thread)
            continue;
        if ((st = yk_shards_alive(s)))
            return st == YK_ELOST ? yk_fail(st, "%s (waiting for %s)", yk_error(), what) : st;
    }
    return YK_OK;
}

yk_status yk__shards_await(yk_shards *s, yk__channel *c)
{
    yk__request *a = &c->slot[c->awaited++ % YK__MAX_OUTSTANDING];
    yk_phases *phases = yk_phases_of(s->config.phases, c->first);
    const uint64_t began = s->plan->lockstep && atomic_load(&a->missing) ? yk_now_ns() : 0;
    yk_status st = yk__shards_wait(s, &a->missing, "parameters");
    if (st)
        return st;
    c->current = a;
    c->answered = a->batches > 0;
    c->status = *(const yk__down *)(const void *)a->answer[0].data;
    c->status.flags |= atomic_load(&s->stopped) ? YK__STOP : 0;
    if (began) { /* the part that was spent waiting for other workers */
        const uint64_t took = yk_now_ns() - began;
        yk_phase_waited(phases, YK_PHASE_WORKERS, c->status.waited < took ? c->status.waited : took);
    }
    if (phases && phases->track)
        yk_trace_message(phases->track, "pull", YK_ANY, a->bytes, a->requested_at,
                         yk_now_ns() - a->requested_at);
    for (int k = 0; a->batches && k < s->plan->owners; k++)
        yk__shards_move(s, k, a, a->value, (float *)(void *)(a->answer[k].data + sizeof(yk__down)), true);
    return YK_OK;
}
