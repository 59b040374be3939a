/* Messages of a client to servers: each channel queues them, and the thread that pumps sends them. Pulls and pushes; a client also
 * joins, leases examples, and leaves. */
#include "store/remote_internal.h"

#include "base/clock.h"
#include "base/wait.h"
#include "watch/trace.h"
#include <string.h>

/* Sends queued messages in order, and counts those that are done. */
static yk_status send_queued(yk_remote *r, yk__queue *queue, yk__connection *to)
{
    const unsigned queued = atomic_load_explicit(&queue->queued, memory_order_acquire);
    unsigned done = atomic_load_explicit(&queue->done, memory_order_relaxed);
    yk_status st = YK_OK;
    for (; !st && queue->sent != queued; queue->sent++) {
        struct yk__message *l = &queue->message[queue->sent % YK__QUEUE_SIZE];
        st = yk_comm_send(r->config.comm, to->peer, YK__TAG_UP, l->purpose, l->data, l->bytes, &l->op);
        const yk__up *up = (const yk__up *)(const void *)l->data;
        to->left += up->kind == YK__UP_LEAVE;
        if (!st && l->pull_bytes)
            yk_comm_change_purpose(r->config.comm, false, l->purpose, YK_PURPOSE_PULL, l->pull_bytes, 0);
        if (!st && up->npush)
            yk__count_values(r->config.comm, &to->layout, l->pushed_keys);
    }
    for (bool gone = true; !st && gone && done != queue->sent;) {
        st = yk_comm_test(r->config.comm, &queue->message[done % YK__QUEUE_SIZE].op, &gone);
        if (!st && gone) {
            atomic_store_explicit(&queue->done, ++done, memory_order_release);
            atomic_fetch_sub_explicit(&r->waiting, 1, memory_order_relaxed);
        }
    }
    return st;
}

yk_status yk__remote_send_queued(yk_remote *r)
{
    yk_status st = YK_OK;
    for (int i = 0; !st && i < r->config.channels; i++)
        for (int k = 0; !st && k < r->config.servers; k++)
            st = send_queued(r, &r->channel[i].queue[k], &r->server[k]);
    return st;
}

/* Waits until at most `max` messages are queued. */
static yk_status drain(yk_remote *r, yk__queue *queue, unsigned max, int server)
{
    yk_wait w = yk_wait_begin(r->config.wait, r->config.timeout);
    while (atomic_load(&queue->queued) - atomic_load_explicit(&queue->done, memory_order_acquire) > max) {
        bool busy;
        yk_status st = r->config.has_progress_thread ? YK_OK : yk_remote_pump(r, &busy);
        if (st)
            return st;
        if (atomic_load(&r->failed))
            return yk_fail(YK_ESTOP, "another thread stopped the run");
        if (!yk_wait_poll(&w))
            return yk_fail(YK_ELOST, "server %d (rank %d) did not receive a message within %.1f s", server,
                           server, r->config.timeout);
    }
    return YK_OK;
}

static yk_status new_message(yk_remote *r, int channel, int server, size_t bytes, yk_purpose purpose,
                             yk__up **out)
{
    yk__queue *queue = &r->channel[channel].queue[server];
    yk_status st = drain(r, queue, YK__QUEUE_SIZE - 1, server);
    if (st)
        return st;
    struct yk__message *l = &queue->message[atomic_load(&queue->queued) % YK__QUEUE_SIZE];
    if (YK_RESERVE(l->data, l->cap, bytes + 16, "a message"))
        return YK_ESYSTEM;
    l->bytes = bytes;
    l->purpose = purpose;
    l->pull_bytes = 0;
    *out = (yk__up *)(void *)l->data;
    return YK_OK;
}

static yk_status queue_message(yk_remote *r, int channel, int server)
{
    yk__queue *queue = &r->channel[channel].queue[server];
    atomic_fetch_add_explicit(&r->waiting, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&r->activity, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&queue->queued, 1, memory_order_release);
    return r->config.has_progress_thread ? YK_OK : send_queued(r, queue, &r->server[server]);
}

/* ---- pulls and pushes ---- */

/* The keys of a request that a server has. */
typedef struct {
    size_t n;
    const uint32_t *row; /* their rows there */
    size_t first;        /* the index of the first one among all keys of the request */
    const uint32_t *at;  /* the index of each of them; NULL: they are consecutive */
} keys_there;

static keys_there keys_on(const yk_remote *r, const yk__request *a, int k)
{
    for (int i = 0; a->keys && i < 2; i++) {
        const yk_chunk *keys = i ? &a->others : a->keys;
        const int owner = k - r->owners[i].first;
        if (owner < 0 || owner >= r->owners[i].n)
            continue;
        const size_t begin = keys->begin[owner];
        return (keys_there){keys->begin[owner + 1] - begin, keys->row + begin, begin,
                            i ? a->others_at + begin : NULL};
    }
    return (keys_there){0};
}

size_t yk__remote_keys_on(const yk_remote *r, const yk__request *a, int k)
{
    return keys_on(r, a, k).n;
}

/* Copies the values of the keys that server k has from a message, or into one. */
static void move_keyed(const keys_there *keys, size_t width, float *value, float *message, bool in)
{
    if (!keys->at) {
        value += keys->first * width;
        memcpy(in ? value : message, in ? message : value, keys->n * width * sizeof *value);
        return;
    }
    for (size_t i = 0; i < keys->n; i++) {
        float *of_key = value + keys->at[i] * width, *there = message + i * width;
        memcpy(in ? of_key : there, in ? there : of_key, width * sizeof *value);
    }
}

void yk__remote_move(const yk_remote *r, int k, const yk__request *a, float *const *values, float *message,
                     bool in)
{
    const keys_there keys = keys_on(r, a, k);
    for (int g = 0; g < r->config.ngroups; g++) {
        const yk_group *group = &r->config.group[g];
        const size_t width = group->width;
        uint64_t begin;
        size_t n = (size_t)yk__piece(group, k, &begin), all = (size_t)group->keys;
        if (group->keyed) {
            all = a->keys->nkeys * width;
            n = n ? keys.n * width : 0; /* 0: it has keys of other groups only */
        }
        for (int array = 0; n && array < r->config.arrays[g]; array++, message += n) {
            float *value = values[g] + (size_t)array * all + begin;
            if (group->keyed)
                move_keyed(&keys, width, value, message, in);
            else
                memcpy(in ? value : message, in ? message : value, n * sizeof *value);
        }
    }
}

/* Writes the header of a push, and the shares of the threads. Their values follow. */
static void write_push(const yk_remote *r, const yk__request *of, const yk_remote_pushed *p, size_t npush,
                       yk__up *up)
{
    yk__share *share = (yk__share *)(void *)(up + 1);
    up->flags = (uint16_t)(YK__HAS_PUSH | p->reductions << YK__REDUCTIONS_SHIFT);
    up->push_of = of ? of->number : 0;
    up->npush = (uint32_t)npush;
    up->nshares = (uint32_t)yk__remote_shares(r);
    up->round = p->round;
    up->steps = p->steps;
    up->examples = p->examples;
    up->extra_weight = p->extra_weight;
    up->loss = p->loss;
    for (size_t i = 0; i < up->nshares; i++) {
        share[i] = of ? of->share[i] : (yk__share){0};
        share[i].examples = p->share ? p->share[i] : 0;
    }
}

/* Writes that a message is also a request, and its keys. */
static void write_pull(const yk__request *request, const keys_there *keys, yk__up *up, float *at)
{
    up->flags |= YK__HAS_PULL | (request->batches ? YK__WANTS : 0);
    up->pull = request->number;
    up->npull = (uint32_t)keys->n;
    if (keys->n)
        memcpy(at, keys->row, keys->n * sizeof *keys->row);
}

/* Server k will answer the next message. */
static void expect_answer(yk_remote *r, int k)
{
    if (atomic_fetch_add(&r->server[k].pending_answers, 1) == 0 && !r->config.has_progress_thread)
        r->server[k].last_message = 0.0; /* the timeout starts with the next check */
}

/* Sends the values of a push, the keys of a request, or both, to server k. */
static yk_status send_step(yk_remote *r, int channel, int k, const yk_remote_pushed *p,
                           const yk__request *request)
{
    const yk__remote_channel *l = &r->channel[channel];
    const bool values = p && p->examples;
    const size_t pushed = values ? keys_on(r, l->current, k).n : 0,
                 npush = values ? yk__layout_all(&r->server[k].layout, pushed) : 0,
                 shares = p ? (size_t)yk__remote_shares(r) : 0;
    const keys_there pulled = request ? keys_on(r, request, k) : (keys_there){0};
    const size_t bytes = sizeof(yk__up) + shares * sizeof(yk__share) + 4 * (npush + pulled.n);
    yk__up *up;
    yk_status st = new_message(r, channel, k, bytes, p ? YK_PURPOSE_PUSH : YK_PURPOSE_PULL, &up);
    if (st)
        return st;
    float *v = (float *)(void *)((yk__share *)(void *)(up + 1) + shares);
    *up = (yk__up){.magic = YK__MAGIC, .kind = YK__UP_STEP, .thread = (uint32_t)channel};
    if (p) {
        struct yk__message *m = &l->queue[k].message[atomic_load(&l->queue[k].queued) % YK__QUEUE_SIZE];
        m->pull_bytes = 4 * pulled.n;
        m->pushed_keys = pushed;
        write_push(r, l->current, p, npush, up);
    }
    if (npush)
        yk__remote_move(r, k, l->current, (float *const *)(void *)p->value, v, false);
    if (request) {
        write_pull(request, &pulled, up, v + npush);
        expect_answer(r, k);
    }
    return queue_message(r, channel, k);
}

/* Sends them to servers me, me + all, ... */
static yk_status send_steps(yk_remote *r, int channel, const yk_remote_pushed *p, yk__request *request,
                            int me, int all)
{
    yk__remote_channel *l = &r->channel[channel];
    yk_trace_track *track = r->config.phases ? r->config.phases[channel + me].track : NULL;
    const uint64_t began = track ? yk_now_ns() : 0;
    yk_status st = YK_OK;
    if (request && me == 0)
        request->requested_at = began;
    for (int k = me; !st && k < r->config.servers; k += all) {
        yk_mutex_lock(&l->queue[k].lock); /* another thread may send a lease request or an idle message */
        st = send_step(r, channel, k, p, request);
        yk_mutex_unlock(&l->queue[k].lock);
        if (!st && p && track)
            yk_trace_message(track, "push", r->server[k].peer, 0, began, yk_now_ns() - began);
    }
    return st;
}

yk_status yk_remote_pull(yk_remote *r, int channel)
{
    yk__request *a;
    yk_status st = yk__request_close(r, channel, &a);
    return st ? st : send_steps(r, channel, NULL, a, 0, 1);
}

yk_status yk_remote_begin_push(yk_remote *r, int channel)
{
    yk__remote_channel *l = &r->channel[channel];
    l->sending = NULL;
    return l->open || r->config.rounds ? yk__request_close(r, channel, &l->sending) : YK_OK;
}

yk_status yk_remote_push_part(yk_remote *r, int channel, const yk_remote_pushed *p, int me, int all)
{
    return send_steps(r, channel, p, r->channel[channel].sending, me, all);
}

yk_status yk_remote_push(yk_remote *r, int channel, const yk_remote_pushed *p)
{
    yk_status st = yk_remote_begin_push(r, channel);
    return st ? st : yk_remote_push_part(r, channel, p, 0, 1);
}

/* Between two requests for examples that others may return. There is no limit on how long that takes: a stream may last
 * for hours. But each request has a deadline (yk__remote_wait()), and server 0 declares workers lost. */
static const double retry_seconds = 0.02;

/* ---- joining ---- */

yk_status yk_remote_join(yk_remote *r, uint64_t identity)
{
    const yk__up up = {.magic = YK__MAGIC, .kind = YK__UP_JOIN, .identity = identity};
    yk_status st = YK_OK;
    for (int k = 0; !st && k < r->config.servers; k++) {
        yk_wait w = yk_wait_begin(r->config.wait, r->config.timeout);
        st = yk_comm_send_wait(r->config.comm, r->server[k].peer, YK__TAG_UP, YK_PURPOSE_CONTROL, &up,
                               sizeof up, r->config.timeout, "a server to receive the join request");
        for (r->join_replies = 0; !st && !r->join_replies;) {
            bool busy;
            st = yk_remote_pump(r, &busy);
            if (!st && !r->join_replies && !yk_wait_poll(&w))
                st = yk_fail(YK_ELOST, "server %d did not answer the join request within %.0f s", k,
                             r->config.timeout);
        }
    }
    return st;
}

/* ---- examples ---- */

/* Sends a control message to servers first .. end - 1. */
static yk_status send_control(yk_remote *r, int channel, int first, int end, const yk__up *message)
{
    yk_status st = YK_OK;
    for (int k = first; !st && k < end; k++) {
        yk__queue *queue = &r->channel[channel].queue[k];
        yk__up *up;
        yk_mutex_lock(&queue->lock);
        if (!(st = new_message(r, channel, k, sizeof *up, YK_PURPOSE_CONTROL, &up))) {
            *up = *message;
            up->magic = YK__MAGIC;
            st = queue_message(r, channel, k);
        }
        yk_mutex_unlock(&queue->lock);
    }
    return st;
}

/* Server 0 will answer the next message with a lease for this thread. */
static void expect_lease(yk_remote *r, int thread)
{
    r->leases[thread].ready = false;
    atomic_store(&r->leases[thread].pending, 1);
    expect_answer(r, 0);
}

/* `up`: the rest of the request. */
static yk_status request_lease(yk_remote *r, int thread, bool idle, yk__up up)
{
    const int channel = r->config.channels > 1 ? thread : 0;
    up.kind = YK__UP_LEASE;
    up.flags = idle ? YK__IDLE : 0;
    up.thread = (uint32_t)thread;
    expect_lease(r, thread);
    yk_status st = send_control(r, channel, 0, 1, &up);
    up.kind = YK__UP_ALIVE; /* tells the other servers that this thread is idle */
    if (!st && idle)
        st = send_control(r, channel, 1, r->config.servers, &up);
    return st;
}

yk_status yk_remote_lease(yk_remote *r, int thread, yk_lease *out, uint64_t *chunk_rows_out)
{
    yk__leases *t = &r->leases[thread];
    yk_status st = YK_OK;
    *out = (yk_lease){0};
    do { /* again if it was revoked in the meantime */
        if (!atomic_load(&t->pending) && !t->ready)
            st = request_lease(r, thread, t->idle, (yk__up){0});
        if (!st)
            st = yk__remote_wait(r, &t->pending, "examples");
        const bool none = t->lease.begin == t->lease.end;
        t->ready = none && !(t->lease.flags & YK__RETRY_LATER); /* none are left: do not ask again */
        if (st || none)
            return st;
    } while (t->lease.incarnation < atomic_load(&r->incarnation));
    *out = (yk_lease){t->lease.examples, t->lease.begin, t->lease.end};
    *chunk_rows_out = t->lease.n;
    t->used_by = t->lease.incarnation;
    return request_lease(r, thread, false, (yk__up){0}); /* in advance */
}

yk_status yk_remote_stream(yk_remote *r, int thread, const uint64_t last[YK_CURSOR_SIZE], int *number,
                           uint64_t cursor[YK_CURSOR_SIZE])
{
    yk__leases *t = &r->leases[thread];
    yk__up up = {.stream = (uint64_t)(*number + 1), .next_epoch = cursor[0]};
    memcpy(up.last, last, sizeof up.last);
    do { /* again if it was revoked in the meantime */
        yk_status st = request_lease(r, thread, t->idle, up);
        if (!st)
            st = yk__remote_wait(r, &t->pending, "a stream");
        if (st)
            return st;
        up = (yk__up){0};
    } while (t->lease.flags & YK__STREAM && t->lease.incarnation < atomic_load(&r->incarnation));
    const yk__down *l = &t->lease;
    t->used_by = l->incarnation;
    *number = l->flags & YK__STREAM ? (int)l->n : -1;
    memcpy(cursor, (uint64_t[YK_CURSOR_SIZE]){l->round, l->examples, l->begin, l->end},
           YK_CURSOR_SIZE * sizeof *cursor);
    return YK_OK;
}

bool yk_remote_orphans(const yk_remote *r)
{
    return atomic_load_explicit(&r->orphans, memory_order_relaxed);
}

void yk_remote_end_step(yk_remote *r, int first, int end, bool stop, yk_step_result *out)
{
    const int channel = r->config.channels > 1 ? first : 0;
    /* it has announced batches: it got examples since this step began */
    const bool has = yk_remote_added(r, channel) > 0 || yk_remote_outstanding(r, channel) > 0;
    const bool leaves = r->config.leave && *r->config.leave; /* the job that it joined */
    bool later = false;
    for (int i = first; !out->examples && i < end; i++) /* a lease may be on its way */
        later |=
            !leaves && (atomic_load(&r->leases[i].pending) || r->leases[i].lease.flags & YK__RETRY_LATER);
    if (!out->examples && !r->config.rounds)
        *out = (yk_step_result){.pending = has || later, .over = !has && !later};
    if (out->pending && !has)
        yk_sleep(retry_seconds);
    out->action = stop ? YK_ACTION_STOP : YK_ACTION_CONTINUE;
    out->over |= stop || leaves;
    out->pending &= !out->over;
    for (int i = first; i < end; i++)
        r->leases[i].idle = out->pending && !has; /* servers do not wait for an idle thread */
}

bool yk_remote_revoked(const yk_remote *r, int thread)
{
    return atomic_load(&r->incarnation) > r->leases[thread].used_by;
}

yk_status yk_remote_leave(yk_remote *r, int channel)
{
    const yk__up up = {.kind = YK__UP_LEAVE, .thread = (uint32_t)channel};
    const int first = r->config.channels > 1 ? channel : 0,
              end = r->config.channels > 1 ? first + 1 : r->config.threads;
    yk_remote_answer unused;
    yk_status st = YK_OK;
    /* answers may wait for the steps of other workers, and theirs for steps of this one, which takes no more */
    for (int i = first; !st && i < end && yk_remote_outstanding(r, channel) > 0; i++) {
        const yk__up idle = {.kind = YK__UP_ALIVE, .flags = YK__IDLE, .thread = (uint32_t)i};
        st = send_control(r, channel, 0, r->config.servers, &idle);
    }
    while (!st && yk_remote_outstanding(r, channel) > 0)
        st = yk_remote_await(r, channel, &unused);
    /* a lease that was requested in advance is answered, too */
    for (int i = first; !st && i < end; i++)
        st = yk__remote_wait(r, &r->leases[i].pending, "examples");
    if (!st) {
        expect_lease(r, first);
        st = send_control(r, channel, 0, r->config.servers, &up);
    }
    for (int k = 0; !st && k < r->config.servers; k++)
        st = drain(r, &r->channel[channel].queue[k], 0, k);
    /* heartbeats of server 0 may be in flight: its answer comes after them */
    return st ? st : yk__remote_wait(r, &r->leases[first].pending, "server 0 to receive the leave message");
}
