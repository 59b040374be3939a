/* Messages of a client to servers: each channel queues them, and the thread that pumps sends them. Pulls and pushes. */
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
        if (!st && up->npush) {
            const yk__layout layout =
                yk__layout_of(r->config.group, r->config.ngroups, r->config.arrays, (int)(to - r->server));
            yk__count_values(r->config.comm, &layout, l->pushed_keys);
        }
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
        yk_status st = r->config.driven ? YK_OK : yk_remote_pump(r, &busy);
        if (st)
            return st;
        if (atomic_load(&r->failed))
            return yk_fail(YK_ESTOP, "another thread stopped the run");
        if (!yk_wait_poll(&w))
            return yk_fail(YK_ELOST, "server %d (rank %d) did not receive a message within %.1f s", server,
                           r->server[server].peer, r->config.timeout);
    }
    return YK_OK;
}

yk_status yk__remote_drain(yk_remote *r, int channel, int server)
{
    return drain(r, &r->channel[channel].queue[server], 0, server);
}

yk_status yk__remote_message(yk_remote *r, int channel, int server, size_t bytes, yk_purpose purpose,
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

yk_status yk__remote_queue(yk_remote *r, int channel, int server)
{
    yk__queue *queue = &r->channel[channel].queue[server];
    atomic_fetch_add_explicit(&r->waiting, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&r->activity, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&queue->queued, 1, memory_order_release);
    return r->config.driven ? YK_OK : send_queued(r, queue, &r->server[server]);
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

/* Sends the values of a push, the keys of a request, or both, to server k. known: the servers remember the keys. */
static yk_status send_step(yk_remote *r, int channel, int k, const yk_remote_pushed *p,
                           const yk__request *request, bool known)
{
    const yk__remote_channel *l = &r->channel[channel];
    const yk__layout layout = yk__layout_of(r->config.group, r->config.ngroups, r->config.arrays, k);
    const yk__request *of = p ? l->current : NULL;
    const bool pushes = p && p->examples;
    const size_t pushed = pushes ? keys_on(r, of, k).n : 0,
                 npush = pushes ? yk__layout_all(&layout, pushed) : 0;
    const keys_there pulled = request ? keys_on(r, request, k) : (keys_there){0};
    const size_t npull = pulled.n, sent = known ? 0 : npull;
    const size_t shares = p ? (size_t)yk__remote_shares(r) : 0;
    const size_t bytes = sizeof(yk__up) + shares * sizeof(yk__share) + 4 * (npush + sent);
    yk__up *up;
    yk_status st = yk__remote_message(r, channel, k, bytes, p ? YK_PURPOSE_PUSH : YK_PURPOSE_PULL, &up);
    if (st)
        return st;
    *up = (yk__up){.magic = YK__MAGIC,
                   .kind = YK__UP_STEP,
                   .flags = (uint16_t)((p ? YK__HAS_PUSH : 0) | (request ? YK__HAS_PULL : 0)),
                   .pull = request ? request->number : 0,
                   .push_of = of ? of->number : 0,
                   .npush = (uint32_t)npush,
                   .npull = (uint32_t)npull,
                   .nshares = (uint32_t)shares,
                   .thread = (uint32_t)channel,
                   .round = p ? p->round : 0,
                   .steps = p ? p->steps : 0,
                   .examples = p ? p->examples : 0,
                   .loss = p ? p->loss : 0.0};
    if (request && request->batches)
        up->flags |= YK__WANTS;
    if (request && request->keys && request->keys->number) {
        up->chunk = request->keys->number;
        up->flags |= known ? YK__REMEMBERS : 0;
    }
    yk__share *share = (yk__share *)(void *)(up + 1);
    for (size_t i = 0; i < shares; i++) {
        share[i] = of ? of->share[i] : (yk__share){0};
        share[i].examples = p->share ? p->share[i] : 0;
    }
    float *v = (float *)(void *)(share + shares);
    if (npush)
        yk__remote_move(r, k, of, (float *const *)(void *)p->value, v, false);
    if (sent)
        memcpy(v + npush, pulled.row, sent * sizeof *pulled.row);
    if (p) {
        struct yk__message *m = &l->queue[k].message[atomic_load(&l->queue[k].queued) % YK__QUEUE_SIZE];
        m->pull_bytes = 4 * sent;
        m->pushed_keys = pushed;
    }
    if (request && atomic_fetch_add(&r->server[k].pending_answers, 1) == 0 && !r->config.driven)
        r->server[k].last_message = 0.0; /* the timeout starts with the next check */
    return yk__remote_queue(r, channel, k);
}

/* Sends them to servers me, me + all, ... */
static yk_status send_steps(yk_remote *r, int channel, const yk_remote_pushed *p, yk__request *request,
                            int me, int all)
{
    yk__remote_channel *l = &r->channel[channel];
    yk_trace_track *track = r->config.phases ? r->config.phases[channel + me].track : NULL;
    const uint64_t began = track ? yk_now_ns() : 0;
    const bool known =
        request && request->keys && request->keys->number && atomic_load(request->keys->remembered);
    yk_status st = YK_OK;
    if (request && me == 0)
        request->requested_at = began;
    for (int k = me; !st && k < r->config.servers; k += all) {
        if (k == 0)
            yk_mutex_lock(&l->lock); /* another thread may request examples from it */
        st = send_step(r, channel, k, p, request, known);
        if (k == 0)
            yk_mutex_unlock(&l->lock);
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
    return l->open || r->config.lockstep ? yk__request_close(r, channel, &l->sending) : YK_OK;
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
