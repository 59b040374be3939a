/* Handles the messages of clients: steps, requests for leases, heartbeats, leave messages; lets workers join; and answers, as soon
 * as the staleness bound allows it. */
#include "store/server_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include <string.h>

/* Leases a range of examples; empty: there are none for now. */
static yk_status lease_range(yk_server *s, yk__client *c, const yk__up *up, yk__down *out)
{
    const int worker = yk__leaseholder(s, c, up->thread);
    yk_lease range = {0};
    /* others take the first steps, unless all of them have run out of examples */
    const bool begins_later =
        s->plan->staggered && s->state.updates < yk_steps_before(worker) && s->config.assignment->nheld > 0;
    yk_status st =
        s->stopping || begins_later ? YK_OK : yk_assignment_lease(s->config.assignment, worker, &range);
    out->n = (uint32_t)s->config.assignment->chunk_rows;
    out->examples = range.epoch;
    out->begin = range.begin;
    out->end = range.end;
    return st;
}

/* The same for a stream. */
static void lease_stream(yk_server *s, yk__client *c, const yk__up *up, yk__down *out)
{
    const int worker = yk__leaseholder(s, c, up->thread);
    uint64_t cursor[YK_CURSOR_SIZE] = {up->last[0], up->last[1], up->last[2], up->last[3]};
    if (up->stream)
        yk_streams_return(s->config.streams, worker, (int)up->stream - 1, cursor, up->next_epoch);
    const int number = s->stopping ? -1 : yk_streams_lease(s->config.streams, worker, cursor);
    if (number < 0)
        return;
    out->flags = YK__STREAM;
    out->n = (uint32_t)number;
    out->round = cursor[0];
    out->examples = cursor[1];
    out->begin = cursor[2];
    out->end = cursor[3];
}

/* Answers a thread that requests examples, or leaves and gets none. */
static yk_status lease(yk_server *s, yk__client *c, const yk__up *up)
{
    yk__client_thread *t = &c->thread[up->thread];
    yk__down *out = &t->lease;
    bool done;
    yk_status st = yk_comm_test(s->config.comm, &t->lease_op, &done);
    if (st)
        return st;
    if (!done)
        return yk_fail(YK_ELOST, "rank %d sent two requests for examples at the same time", c->peer);
    *out = (yk__down){.magic = YK__MAGIC,
                      .incarnation = (uint32_t)c->incarnation,
                      .kind = YK__DOWN_LEASE,
                      .pull = up->thread};
    if (up->kind == YK__UP_LEASE) {
        if (s->config.streams)
            lease_stream(s, c, up, out);
        else if ((st = lease_range(s, c, up, out)))
            return st;
        const bool none = s->config.streams ? !(out->flags & YK__STREAM) : out->begin == out->end;
        out->flags |=
            (none || s->config.streams) && !s->stopping && yk__has_examples(s) ? YK__RETRY_LATER : 0;
        t->idle = none && (up->flags & YK__IDLE);
    }
    return yk_comm_send(s->config.comm, c->peer, YK__TAG_DOWN, YK_PURPOSE_CONTROL, out, sizeof *out,
                        &t->lease_op);
}

void yk__count_shares(yk_server *s, yk__client *c)
{
    const yk__up *up = yk__header_of(c);
    const yk__share *share = yk__shares_of(c);
    for (uint32_t i = 0; i < up->nshares; i++) {
        if (!share[i].examples)
            continue;
        if (s->config.streams)
            yk_streams_used(s->config.streams, share[i].cursor);
        else if (s->config.assignment)
            yk_assignment_used(s->config.assignment, yk__leaseholder(s, c, up->thread + i),
                               share[i].examples);
    }
}

/* Whether its examples were leased to other workers in the meantime. If only some were, its other leases are returned as well,
 * because its gradient is over all of them. */
static yk_status leased_again(yk_server *s, yk__client *c, bool *again_out)
{
    const yk__up *up = yk__header_of(c);
    const yk__share *share = yk__shares_of(c);
    const uint32_t now = (uint32_t)c->incarnation;
    bool old = false, current = false;
    for (uint32_t i = 0; (s->config.assignment || s->config.streams) && i < up->nshares; i++) {
        old |= share[i].examples && share[i].incarnation != now;
        current |= share[i].examples && share[i].newest == now;
    }
    *again_out = old;
    return old && current ? yk__return_leases(s, c, &s->state.returned) : YK_OK;
}

/* Those of threads first .. end - 1 of a client. */
static yk_status return_leases(yk_server *s, yk__client *c, int first, int end, uint64_t *examples)
{
    yk_status st = YK_OK;
    for (int i = first; !st && i < end; i++) {
        const int worker = yk__leaseholder(s, c, (uint32_t)i);
        uint64_t some = 0;
        if (s->config.streams)
            yk_streams_release(s->config.streams, worker);
        else if (s->config.assignment)
            st = yk_assignment_return(s->config.assignment, worker, &some);
        *examples += some;
    }
    return st;
}

yk_status yk__return_leases(yk_server *s, yk__client *c, uint64_t *examples)
{
    c->incarnation++;
    return return_leases(s, c, 0, s->plan->workers_per_process, examples);
}

/* Whether all keys that were sent with a pull are on this server. */
static bool has_keys(const yk_server *s, const uint32_t *key, size_t n)
{
    uint32_t max = 0;
    for (size_t i = 0; i < n; i++)
        max = max > key[i] ? max : key[i];
    return !n || max < s->rows;
}

static yk_status handle_pull(yk_server *s, yk__client *c, const yk__up *up)
{
    const float *keys = yk__values_of(c) + up->npush;
    yk__pull *p = yk__pull_of(s, c, up->pull);
    if (!has_keys(s, (const uint32_t *)(const void *)keys, up->npull))
        return yk_fail(YK_ELOST, "rank %d requested parameters that server %d does not have", c->peer, s->me);
    if (p->unanswered)
        return yk_fail(YK_ELOST, "rank %d sent a pull before the previous one was answered", c->peer);
    p->number = c->newest = up->pull;
    p->placed = false;
    p->n = up->npull;
    p->unanswered = true;
    p->of_push = (up->flags & YK__HAS_PUSH) != 0;
    p->wants = (up->flags & YK__WANTS) != 0;
    if (YK_RESERVE(p->key, p->key_cap, (size_t)up->npull + 1, "the keys of a worker"))
        return YK_ESYSTEM;
    memcpy(p->key, keys, up->npull * sizeof *p->key);
    return YK_OK;
}

static yk_status handle_step(yk_server *s, yk__client *c, const yk__up *up)
{
    for (uint32_t i = 0; i < up->nshares || i == 0; i++)
        c->thread[up->thread + i].idle = false;
    yk_status st = up->flags & YK__HAS_PULL ? handle_pull(s, c, up) : YK_OK;
    if (st || !(up->flags & YK__HAS_PUSH))
        return st;
    bool again;
    if (up->flags >> YK__REDUCTIONS_SHIFT > yk_local_reductions(s->config.table))
        yk_local_reduce(s->config.table, up->flags >> YK__REDUCTIONS_SHIFT);
    c->thread[up->thread].rounds++;
    if ((st = leased_again(s, c, &again)))
        return st;
    const bool late = up->round < s->round; /* the worker gets the current parameters */
    s->state.late += again || late;
    if (late && !again) { /* its examples count as used in this epoch */
        yk__count_shares(s, c);
        c->pushes += up->steps;
        c->examples += up->examples;
        s->state.late_examples += up->examples;
    }
    return late ? YK_OK : s->rounds->push(s, c, again);
}

/* Whether the push matches its pull. */
static bool is_consistent(const yk_server *s, const yk__client *c, const yk__up *up)
{
    const yk__pull *p = yk__pull_of(s, c, up->push_of);
    const uint64_t max_steps = s->copy_steps ? s->copy_steps : (uint64_t)s->plan->workers_per_process;
    if (up->nshares > (uint32_t)s->plan->workers_per_process ||
        up->thread > (uint32_t)s->plan->workers_per_process - (up->nshares ? up->nshares : 1))
        return false;
    if (!(up->flags & YK__HAS_PUSH) || !up->examples)
        return up->npush == 0;
    if (up->flags & YK__HAS_PULL &&
        yk__pull_of(s, c, up->pull) == p) /* it would replace the keys of the gradient */
        return false;
    return up->npush == yk__layout_all(&s->layout, p->n) && up->steps >= 1 && up->steps <= max_steps;
}

static yk_status check(const yk_server *s, const yk__client *c, size_t bytes)
{
    const yk__up *up = yk__header_of(c);
    bool ok = bytes >= sizeof *up && up->magic == YK__MAGIC &&
              bytes == sizeof *up + up->nshares * sizeof(yk__share) + (up->npush + (size_t)up->npull) * 4 &&
              is_consistent(s, c, up);
    for (uint32_t i = 0; ok && s->config.streams && i < up->nshares; i++)
        ok = yk__shares_of(c)[i].cursor[YK_CURSOR_SIZE - 1] >> YK_STREAM_SHIFT <
             (uint64_t)s->config.streams->n;
    if (!ok)
        return yk_fail(YK_ELOST, "rank %d sent a malformed message of %zu bytes", c->peer, bytes);
    return YK_OK;
}

/* A channel leaves. When all channels have, the client has left. Server 0, which also sends heartbeats to clients that do not
 * wait for an answer, sends an empty lease as its last message: a client that has received it has received all others. */
static yk_status handle_leave(yk_server *s, yk__client *c, const yk__up *up)
{
    bool all = true;
    c->thread[up->thread].left = true;
    for (int i = 0; i < s->plan->channels; i++)
        all &= c->thread[i].left;
    const int first = s->plan->channels > 1 ? (int)up->thread : 0,
              end = s->plan->channels > 1 ? first + 1 : s->plan->workers_per_process;
    yk_status st = return_leases(s, c, first, end, &(uint64_t){0});
    if (!st && s->chief)
        st = lease(s, c, up);
    if (st || !all)
        return st;
    c->left = true;
    c->active = false;
    s->active--;
    if (c->joined && s->chief && !s->stopping && yk__has_examples(s))
        yk_note("a worker that had joined has left; %d %s training now", s->active,
                s->active == 1 ? "is" : "are");
    return YK_OK;
}

/* ---- workers that join ---- */

void yk_server_open(yk_server *s, uint64_t identity)
{
    s->open = true;
    s->identity = identity;
}

/* A worker that has connected becomes a client when its first message arrives: it may only ask, or load its data for a while. */
yk_status yk__accept_join(yk_server *s)
{
    const int n = s->open ? yk_comm_joined(s->config.comm) : 0, size = yk_comm_size(s->config.comm);
    yk_status st = YK_OK;
    for (int i = 0; !st && i < n; i++) {
        bool found = false;
        int peer;
        size_t bytes;
        if (s->settled[i])
            continue;
        if (!(s->settled[i] = yk_comm_is_lost(s->config.comm, size + i)))
            st = yk_comm_probe(s->config.comm, size + i, YK__TAG_UP, &found, &peer, &bytes);
        if (!found)
            continue;
        s->settled[i] = true;
        const uint64_t min = yk__slowest(s); /* before the new client counts */
        yk__client *c;
        if (s->nclients == YK__MAX_WORKERS) {
            yk_warn("a worker cannot join: at most %d processes can train", YK__MAX_WORKERS);
        } else if (!(st = yk__client_add(s, size + i, &c))) {
            c->joined = true;
            c->last_message = yk_now();
            c->skipped = min == UINT64_MAX ? 0 : min;
        }
    }
    return st;
}

/* The first message of a worker that joins. */
static yk_status handle_join(yk_server *s, yk__client *c, const yk__up *up)
{
    const bool fits = s->open && up->identity == s->identity;
    c->alive = (yk__down){.magic = YK__MAGIC, .kind = fits ? YK__DOWN_ALIVE : YK__DOWN_REFUSED};
    if (fits && s->chief)
        yk_note("a worker has joined; %d %s training now", s->active, s->active == 1 ? "is" : "are");
    if (!fits) {
        c->active = c->joined = false;
        c->left = true;
        s->active--;
        if (s->chief)
            yk_warn("refused a worker that tried to join: its program, options, data or model differ from "
                    "those of the job");
    }
    return yk_comm_send(s->config.comm, c->peer, YK__TAG_DOWN, YK_PURPOSE_CONTROL, &c->alive, sizeof c->alive,
                        &c->alive_op);
}

/* ---- messages ---- */

static void note_message(yk_server *s, yk__client *c)
{
    const double now = yk_now();
    c->longest *= 0.99; /* a single long step is forgotten after a few hundred */
    if (c->messages++ > 0 && now - c->last_message > c->longest && c->active)
        c->longest = now - c->last_message;
    c->last_message = c->alive_at = now;
    if (!c->active && !c->left && s->chief)
        yk_note("rank %d has sent a message again and is no longer lost", c->peer);
    const uint64_t min = c->active || c->left ? UINT64_MAX : yk__slowest(s), own = c->thread[0].clock;
    if (min != UINT64_MAX && min > c->skipped + own)
        c->skipped = min - own; /* it continues at the steps of the slowest one */
    s->active += !c->active && !c->left;
    c->active = !c->left; /* a client that has left may still send heartbeats */
}

yk_status yk__handle_message(yk_server *s, yk__client *c)
{
    const yk__up *up = yk__header_of(c);
    const size_t bytes = c->in.op.bytes;
    yk_status st = check(s, c, bytes);
    if (st)
        return st;
    const bool steps = up->kind == YK__UP_STEP, pushes = steps && up->flags & YK__HAS_PUSH;
    yk_comm_change_purpose(s->config.comm, true, YK_PURPOSE_PUSH,
                           steps ? YK_PURPOSE_PULL : YK_PURPOSE_CONTROL,
                           pushes ? 4 * (size_t)up->npull : bytes, !pushes);
    note_message(s, c);
    switch (up->kind) {
    case YK__UP_STEP:
        return handle_step(s, c, up);
    case YK__UP_LEASE:
        return s->config.assignment || s->config.streams
                   ? lease(s, c, up)
                   : yk_fail(YK_ELOST,
                             "rank %d requested examples from server %d, which does not assign them", c->peer,
                             s->me);
    case YK__UP_ALIVE:
        if (up->flags & YK__IDLE)
            c->thread[up->thread].idle = true;
        return YK_OK;
    case YK__UP_JOIN:
        return handle_join(s, c, up);
    case YK__UP_LEAVE:
        return handle_leave(s, c, up);
    default:
        return yk_fail(YK_ELOST, "rank %d sent a message of unknown kind %u", c->peer, up->kind);
    }
}

/* ---- answers ---- */

uint64_t yk__slowest(const yk_server *s)
{
    uint64_t min = UINT64_MAX;
    for (int i = 0; i < s->nclients; i++) {
        const yk__client *c = &s->client[i];
        for (int l = 0; c->active && l < s->plan->channels; l++) {
            const yk__client_thread *t = &c->thread[l];
            const bool idle = s->plan->channels > 1 ? t->idle : yk__is_idle(s, c);
            if (!idle && !t->left && c->skipped + t->clock < min)
                min = c->skipped + t->clock;
        }
    }
    return min;
}

typedef struct {
    const yk_server *s;
    const yk__pull *p;
    float *values;
} lookup;

/* The values of a pull; with local SGD, also the optimizer's state. */
static void look_up_part(void *context, int me, int all)
{
    const lookup *l = context;
    const yk__layout *y = &l->s->layout;
    float *values = l->values;
    for (int g = 0; g < y->ngroups; g++) {
        const yk_copy_keys k = yk__part_of_group(l->s, g, l->p->key, l->p->n, l->p->n, me, all);
        yk_copy_read(l->s->config.table, g, &k, y->group[g].arrays, values);
        values += yk__layout_floats(y, g, l->p->n);
    }
}

static yk_status answer(yk_server *s, yk__client *c, yk__pull *p)
{
    const size_t n = p->wants ? yk__layout_all(&s->layout, p->n) : 0;
    const size_t bytes = sizeof(yk__down) + n * sizeof(float);
    const int workers = s->active * s->plan->workers_per_process; /* that train now */
    bool sent;
    yk_status st = yk_comm_test(s->config.comm, &p->op, &sent);
    if (st || !sent)
        return st;
    if (YK_RESERVE(p->out, p->out_cap, bytes, "an answer"))
        return YK_ESYSTEM;
    yk__down *down = (yk__down *)(void *)p->out;
    *down = (yk__down){
        .magic = YK__MAGIC,
        .incarnation = (uint32_t)c->incarnation,
        .workers = (uint32_t)workers,
        .kind = YK__DOWN_VALUES,
        .flags = (uint16_t)((s->stopping ? YK__STOP : 0) |
                            (s->config.streams && yk_streams_orphans(s->config.streams) ? YK__ORPHANS : 0) |
                            yk_local_reductions(s->config.table) << YK__REDUCTIONS_SHIFT),
        .pull = p->number,
        .n = (uint32_t)n,
        .round = s->round,
        .examples = s->totals.examples,
        .begin = p->of_push ? (uint64_t)(c->gradient_waited * 1e9) : 0,
        .end = yk_local_steps(s->config.table)};
    yk_phase_to(s->config.phases, YK_PHASE_LOOKUP);
    if (n)
        yk_thread_pool_run(yk__pool_for(s, n), look_up_part, &(lookup){s, p, (float *)(void *)(down + 1)});
    p->unanswered = false;
    p->updates_then = s->state.updates;
    if (s->stale)
        yk_local_set_in_flight(s->config.table, workers);
    yk_local_mark(s->config.table, &p->mark);
    p->own_then = c->thread[p->number % (uint32_t)s->plan->channels].pushes;
    yk_phase_to(s->config.phases, YK_PHASE_SENDING);
    st = yk_comm_send(s->config.comm, c->peer, YK__TAG_DOWN, YK_PURPOSE_PULL, p->out, bytes, &p->op);
    if (!st && n)
        yk__count_values(s->config.comm, &s->layout, p->n);
    return st;
}

/* Sends a heartbeat to a client that waits for an answer. While the server is paused, its message may not be received yet. */
static yk_status send_heartbeat(yk_server *s, yk__client *c, double now)
{
    bool done;
    if (!c->active || !(s->paused || yk__awaits_answer(s, c)) || now - c->alive_at < s->plan->heartbeat_every)
        return YK_OK;
    yk_status st = yk_comm_test(s->config.comm, &c->alive_op, &done);
    if (st)
        return st;
    c->alive_at = now;
    c->alive = (yk__down){.magic = YK__MAGIC, .kind = YK__DOWN_ALIVE};
    return done ? yk_comm_send(s->config.comm, c->peer, YK__TAG_DOWN, YK_PURPOSE_CONTROL, &c->alive,
                               sizeof c->alive, &c->alive_op)
                : YK_OK;
}

yk_status yk__answer_all(yk_server *s, double now)
{
    const bool answers = !(s->paused && s->rounds->close); /* clients still get heartbeats */
    yk_status st = YK_OK;
    for (int i = 0; answers && i < s->nclients; i++) {
        yk__client *c = &s->client[i];
        /* in the order of their numbers: a worker waits for the oldest */
        for (yk__pull *p = c->pull; !st && c->active && p < c->pull + s->npulls; p++)
            if (p->unanswered && s->rounds->may_answer(s, c, p))
                st = answer(s, c, p);
    }
    for (int i = 0; !st && now > 0.0 && i < s->nclients; i++)
        st = send_heartbeat(s, &s->client[i], now);
    return st;
}
