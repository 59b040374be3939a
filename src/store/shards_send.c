/* Messages of a client to servers: each channel queues them, and the thread that calls yk_shards_pump() sends them. Pulls and
 * pushes; a client also joins, leases examples, and leaves. */
#include "store/shards_internal.h"

#include "base/clock.h"
#include "base/wait.h"
#include "watch/trace.h"
#include <string.h>

/* Sends queued messages in order, and counts those that are done. */
static yk_status send_queued(yk_shards *s, yk__queue *queue, yk__connection *to)
{
    const unsigned queued = atomic_load_explicit(&queue->queued, memory_order_acquire);
    unsigned done = atomic_load_explicit(&queue->done, memory_order_relaxed);
    yk_status st = YK_OK;
    for (; !st && queue->sent != queued; queue->sent++) {
        struct yk__message *m = &queue->message[queue->sent % YK__QUEUE_SIZE];
        st = yk_comm_send(s->config.comm, to->peer, YK__TAG_UP, m->purpose, m->data, m->bytes, &m->op);
        const yk__up *up = (const yk__up *)(const void *)m->data;
        to->left += up->kind == YK__UP_LEAVE;
        if (!st && m->purpose == YK_PURPOSE_PUSH && up->npull)
            yk_comm_change_purpose(s->config.comm, false, m->purpose, YK_PURPOSE_PULL, 4 * (size_t)up->npull,
                                   0);
        if (!st && up->npush)
            yk__count_values(s->config.comm, &to->layout, m->pushed_keys);
    }
    for (bool gone = true; !st && gone && done != queue->sent;) {
        st = yk_comm_test(s->config.comm, &queue->message[done % YK__QUEUE_SIZE].op, &gone);
        if (!st && gone) {
            atomic_store_explicit(&queue->done, ++done, memory_order_release);
            atomic_fetch_sub_explicit(&s->waiting, 1, memory_order_relaxed);
        }
    }
    return st;
}

yk_status yk__shards_send_queued(yk_shards *s)
{
    yk_status st = YK_OK;
    for (int i = 0; !st && i < s->plan->channels; i++)
        for (int k = 0; !st && k < s->plan->owners; k++)
            st = send_queued(s, &s->channel[i].queue[k], &s->server[k]);
    return st;
}

/* Waits until at most `max` messages are queued. */
static yk_status drain(yk_shards *s, yk__queue *queue, unsigned max, int server)
{
    yk_wait w = yk_wait_begin(s->plan->wait, s->plan->server_timeout);
    while (atomic_load(&queue->queued) - atomic_load_explicit(&queue->done, memory_order_acquire) > max) {
        bool busy;
        yk_status st = s->plan->has_progress_thread ? YK_OK : yk_shards_pump(s, &busy);
        if (st)
            return st;
        if (atomic_load(&s->failed))
            return yk_fail(YK_ESTOP, "another thread stopped the run");
        if (!yk_wait_poll(&w))
            return yk_fail(YK_ELOST, "server %d (rank %d) did not receive a message within %.1f s", server,
                           server, s->plan->server_timeout);
    }
    return YK_OK;
}

static yk_status new_message(yk_shards *s, yk__channel *c, int server, size_t bytes, yk_purpose purpose,
                             struct yk__message **out)
{
    yk__queue *queue = &c->queue[server];
    yk_status st = drain(s, queue, YK__QUEUE_SIZE - 1, server);
    if (st)
        return st;
    struct yk__message *m = &queue->message[atomic_load(&queue->queued) % YK__QUEUE_SIZE];
    if (YK_RESERVE(m->data, m->cap, bytes + 16, "a message"))
        return YK_ESYSTEM;
    m->bytes = bytes;
    m->purpose = purpose;
    *out = m;
    return YK_OK;
}

static yk_status queue_message(yk_shards *s, yk__channel *c, int server)
{
    yk__queue *queue = &c->queue[server];
    atomic_fetch_add_explicit(&s->waiting, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->activity, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&queue->queued, 1, memory_order_release);
    return s->plan->has_progress_thread ? YK_OK : send_queued(s, queue, &s->server[server]);
}

/* ---- pulls and pushes ---- */

/* The keys of a request that a server owns. */
typedef struct {
    size_t n;
    const uint32_t *row; /* their rows there */
    size_t first;        /* the index of the first one among all keys of the request */
    const uint32_t *at;  /* the index of each of them; NULL: they are consecutive */
} server_keys;

static server_keys keys_on(const yk_shards *s, const yk__request *a, int k)
{
    for (int i = 0; a->keys && i < 2; i++) {
        const yk_chunk *keys = i ? &a->keys_elsewhere : a->keys;
        const int owner = k - s->owners[i].first;
        if (owner < 0 || owner >= s->owners[i].n)
            continue;
        const size_t begin = keys->begin[owner];
        return (server_keys){keys->begin[owner + 1] - begin, keys->row + begin, begin,
                             i ? a->elsewhere_at + begin : NULL};
    }
    return (server_keys){0};
}

size_t yk__shards_keys_on(const yk_shards *s, const yk__request *a, int k)
{
    return keys_on(s, a, k).n;
}

/* Copies the values of the keys that a server owns from a message, or into one. */
static void move_keyed(const server_keys *keys, size_t width, float *value, float *message, bool in)
{
    if (!keys->at) {
        value += keys->first * width;
        memcpy(in ? value : message, in ? message : value, keys->n * width * sizeof *value);
        return;
    }
    for (size_t i = 0; i < keys->n; i++) {
        float *of_key = value + keys->at[i] * width, *in_message = message + i * width;
        memcpy(in ? of_key : in_message, in ? in_message : of_key, width * sizeof *value);
    }
}

void yk__shards_move(const yk_shards *s, int k, const yk__request *a, float *const *values, float *message,
                     bool in)
{
    const server_keys keys = keys_on(s, a, k);
    for (int g = 0; g < s->plan->ngroups; g++) {
        const yk_group *group = &s->config.group[g];
        const size_t width = group->width;
        size_t begin, n = (size_t)yk_group_piece(group, k, &begin).keys, all = (size_t)group->keys;
        if (group->keyed) {
            all = a->keys->nkeys * width;
            n = n ? keys.n * width : 0; /* 0: it has keys of other groups only */
        }
        for (int array = 0; n && array < s->arrays[g]; array++, message += n) {
            float *value = values[g] + (size_t)array * all + begin;
            if (group->keyed)
                move_keyed(&keys, width, value, message, in);
            else
                memcpy(in ? value : message, in ? message : value, n * sizeof *value);
        }
    }
}

/* Writes the header of a push, and the shares of the threads. Their values follow. */
static void write_push(const yk__channel *c, size_t npush, yk__up *up)
{
    yk__share *share = (yk__share *)(void *)(up + 1);
    *up = c->totals;
    up->flags = (uint16_t)(YK__HAS_PUSH | yk__reductions_of(c->status.flags) << YK__REDUCTIONS_SHIFT);
    up->push_of = c->current->number;
    up->npush = (uint32_t)npush;
    up->nshares = (uint32_t)yk__threads_of(c);
    up->round = c->status.round;
    for (size_t i = 0; i < up->nshares; i++) {
        share[i] = c->current->share[i];
        share[i].examples = c->share[i];
    }
}

/* Server k will answer the next message. */
static void expect_answer(yk_shards *s, int k)
{
    if (atomic_fetch_add(&s->server[k].pending_answers, 1) == 0 && !s->plan->has_progress_thread)
        s->server[k].last_message = 0.0; /* the timeout starts with the next check */
}

/* Sends the values of a push, the keys of a request, or both, to server k. */
static yk_status send_step(yk_shards *s, yk__channel *c, int k, bool pushes, const yk__request *request)
{
    const bool values = pushes && c->totals.examples;
    const size_t pushed = values ? keys_on(s, c->current, k).n : 0,
                 npush = values ? yk__layout_all(&s->server[k].layout, pushed) : 0,
                 shares = pushes ? (size_t)yk__threads_of(c) : 0;
    const server_keys pulled = request ? keys_on(s, request, k) : (server_keys){0};
    const size_t bytes = sizeof(yk__up) + shares * sizeof(yk__share) + 4 * (npush + pulled.n);
    struct yk__message *m;
    yk_status st = new_message(s, c, k, bytes, pushes ? YK_PURPOSE_PUSH : YK_PURPOSE_PULL, &m);
    if (st)
        return st;
    yk__up *up = (yk__up *)(void *)m->data;
    float *v = (float *)(void *)((yk__share *)(void *)(up + 1) + shares);
    *up = (yk__up){0};
    m->pushed_keys = pushed;
    if (pushes)
        write_push(c, npush, up);
    up->magic = YK__MAGIC;
    up->kind = YK__UP_STEP;
    up->thread = (uint32_t)c->first;
    if (npush)
        yk__shards_move(s, k, c->current, (float *const *)(void *)c->value, v, false);
    if (request) {
        up->flags |= YK__HAS_PULL | (request->batches ? YK__WANTS : 0);
        up->pull = request->number;
        up->npull = (uint32_t)pulled.n;
        if (pulled.n)
            memcpy(v + npush, pulled.row, pulled.n * sizeof *pulled.row);
        expect_answer(s, k);
    }
    return queue_message(s, c, k);
}

/* The same to servers me, me + all, ... */
static yk_status send_steps(yk_shards *s, yk__channel *c, bool pushes, yk__request *request, int me, int all)
{
    yk_trace_track *track = s->config.phases ? s->config.phases[c->first + me].track : NULL;
    const uint64_t began = track ? yk_now_ns() : 0;
    yk_status st = YK_OK;
    if (request && me == 0)
        request->requested_at = began;
    for (int k = me; !st && k < s->plan->owners; k += all) {
        yk_mutex_lock(&c->queue[k].lock); /* another thread may send a lease request or an idle message */
        st = send_step(s, c, k, pushes, request);
        yk_mutex_unlock(&c->queue[k].lock);
        if (!st && pushes && track)
            yk_trace_message(track, "push", s->server[k].peer, 0, began, yk_now_ns() - began);
    }
    return st;
}

yk_status yk__shards_pull(yk_shards *s, yk__channel *c)
{
    yk__request *a;
    yk_status st = yk__shards_close(s, c, &a);
    return st ? st : send_steps(s, c, false, a, 0, 1);
}

yk_status yk__shards_begin_push(yk_shards *s, yk__channel *c)
{
    c->sending = NULL;
    return c->open || s->plan->lockstep ? yk__shards_close(s, c, &c->sending) : YK_OK;
}

yk_status yk__shards_push_part(yk_shards *s, yk__channel *c, int me, int all)
{
    return send_steps(s, c, true, c->sending, me, all);
}

/* ---- joining ---- */

yk_status yk_shards_join(yk_shards *s, uint64_t identity)
{
    const yk__up up = {.magic = YK__MAGIC, .kind = YK__UP_JOIN, .identity = identity};
    yk_status st = YK_OK;
    for (int k = 0; !st && k < s->plan->owners; k++) {
        yk_wait w = yk_wait_begin(s->plan->wait, s->plan->server_timeout);
        st = yk_comm_send_wait(s->config.comm, s->server[k].peer, YK__TAG_UP, YK_PURPOSE_CONTROL, &up,
                               sizeof up, s->plan->server_timeout, "a server to receive the join request");
        for (s->join_replies = 0; !st && !s->join_replies;) {
            bool busy;
            st = yk_shards_pump(s, &busy);
            if (!st && !s->join_replies && !yk_wait_poll(&w))
                st = yk_fail(YK_ELOST, "server %d did not answer the join request within %.0f s", k,
                             s->plan->server_timeout);
        }
    }
    return st;
}

/* ---- examples ---- */

/* Sends a control message to servers first .. end - 1. */
static yk_status send_control(yk_shards *s, yk__channel *c, int first, int end, const yk__up *message)
{
    yk_status st = YK_OK;
    for (int k = first; !st && k < end; k++) {
        yk__queue *queue = &c->queue[k];
        struct yk__message *m;
        yk_mutex_lock(&queue->lock);
        if (!(st = new_message(s, c, k, sizeof *message, YK_PURPOSE_CONTROL, &m))) {
            memcpy(m->data, message, sizeof *message);
            ((yk__up *)(void *)m->data)->magic = YK__MAGIC;
            st = queue_message(s, c, k);
        }
        yk_mutex_unlock(&queue->lock);
    }
    return st;
}

/* Server 0 will answer the next message with a lease for this thread. */
static void expect_lease(yk_shards *s, int thread)
{
    s->thread[thread].ready = false;
    atomic_store(&s->thread[thread].pending, 1);
    expect_answer(s, 0);
}

/* `up`: the rest of the request. */
static yk_status request_lease(yk_shards *s, int thread, bool idle, yk__up up)
{
    yk__channel *c = yk__channel_of(s, thread);
    up.kind = YK__UP_LEASE;
    up.flags = idle ? YK__IDLE : 0;
    up.thread = (uint32_t)thread;
    expect_lease(s, thread);
    yk_status st = send_control(s, c, 0, 1, &up);
    up.kind = YK__UP_ALIVE; /* tells the other servers that this thread is idle */
    if (!st && idle)
        st = send_control(s, c, 1, s->plan->owners, &up);
    return st;
}

yk_status yk_shards_lease(yk_shards *s, int thread, yk_lease *out, uint64_t *chunk_rows_out)
{
    yk__thread *t = &s->thread[thread];
    yk_status st = YK_OK;
    *out = (yk_lease){0};
    do { /* again if it was revoked in the meantime */
        if (!atomic_load(&t->pending) && !t->ready)
            st = request_lease(s, thread, t->idle, (yk__up){0});
        if (!st)
            st = yk__shards_wait(s, &t->pending, "examples");
        const bool none = t->lease.begin == t->lease.end;
        t->ready = none && !(t->lease.flags & YK__RETRY_LATER); /* none are left: do not ask again */
        if (st || none)
            return st;
    } while (t->lease.incarnation < atomic_load(&s->incarnation));
    *out = (yk_lease){t->lease.examples, t->lease.begin, t->lease.end};
    *chunk_rows_out = t->lease.n;
    t->lease_incarnation = t->lease.incarnation;
    return request_lease(s, thread, false, (yk__up){0}); /* in advance */
}

yk_status yk_shards_stream(yk_shards *s, int thread, const uint64_t last[YK_CURSOR_SIZE], int *number,
                           uint64_t cursor[YK_CURSOR_SIZE])
{
    yk__thread *t = &s->thread[thread];
    yk__up up = {.stream = (uint64_t)(*number + 1), .next_epoch = cursor[0]};
    memcpy(up.last, last, sizeof up.last);
    do { /* again if it was revoked in the meantime */
        yk_status st = request_lease(s, thread, t->idle, up);
        if (!st)
            st = yk__shards_wait(s, &t->pending, "a stream");
        if (st)
            return st;
        up = (yk__up){0};
    } while (t->lease.flags & YK__STREAM && t->lease.incarnation < atomic_load(&s->incarnation));
    const yk__down *lease = &t->lease;
    t->lease_incarnation = lease->incarnation;
    *number = lease->flags & YK__STREAM ? (int)lease->n : -1;
    memcpy(cursor, (uint64_t[YK_CURSOR_SIZE]){lease->round, lease->examples, lease->begin, lease->end},
           YK_CURSOR_SIZE * sizeof *cursor);
    return YK_OK;
}

bool yk_shards_orphans(const yk_shards *s)
{
    return atomic_load_explicit(&s->orphans, memory_order_relaxed);
}

bool yk_shards_revoked(const yk_shards *s, int thread)
{
    return atomic_load(&s->incarnation) > s->thread[thread].lease_incarnation;
}

yk_status yk__shards_leave(yk_shards *s, yk__channel *c)
{
    const yk__up up = {.kind = YK__UP_LEAVE, .thread = (uint32_t)c->first};
    yk_status st = YK_OK;
    /* answers may wait for the steps of other workers, and theirs for steps of this one, which takes no more */
    for (int i = c->first; !st && i < c->end && yk__outstanding(c) > 0; i++) {
        const yk__up idle = {.kind = YK__UP_ALIVE, .flags = YK__IDLE, .thread = (uint32_t)i};
        st = send_control(s, c, 0, s->plan->owners, &idle);
    }
    while (!st && yk__outstanding(c) > 0)
        st = yk__shards_await(s, c);
    /* a lease that was requested in advance is answered, too */
    for (int i = c->first; !st && i < c->end; i++)
        st = yk__shards_wait(s, &s->thread[i].pending, "examples");
    if (!st) {
        expect_lease(s, c->first);
        st = send_control(s, c, 0, s->plan->owners, &up);
    }
    for (int k = 0; !st && k < s->plan->owners; k++)
        st = drain(s, &c->queue[k], 0, k);
    /* heartbeats of server 0 may be in flight: its answer comes after them */
    return st ? st
              : yk__shards_wait(s, &s->thread[c->first].pending, "server 0 to receive the leave message");
}
