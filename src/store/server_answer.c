/* The answers of a server: parameters, as soon as the staleness bound allows it. */
#include "store/server_internal.h"

#include <string.h>

uint64_t yk__slowest(const yk_server *s)
{
    uint64_t min = UINT64_MAX;
    for (int i = 0; i < s->nclients; i++) {
        const yk__client *c = &s->client[i];
        for (int l = 0; c->active && l < s->config.channels; l++) {
            const yk__client_thread *t = &c->thread[l];
            const bool idle = s->config.channels > 1 ? t->idle : yk__is_idle(s, c);
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
    bool sent;
    yk_status st = yk_comm_test(s->config.comm, &p->op, &sent);
    if (st || !sent)
        return st;
    if (YK_RESERVE(p->out, p->out_cap, bytes, "an answer"))
        return YK_ESYSTEM;
    yk__down *down = (yk__down *)(void *)p->out;
    *down =
        (yk__down){.magic = YK__MAGIC,
                   .incarnation = (uint32_t)c->incarnation,
                   .workers = (uint32_t)yk__active_workers(s),
                   .kind = YK__DOWN_VALUES,
                   .flags = (uint16_t)((s->stopping ? YK__STOP : 0) |
                                       (s->config.streams && s->config.streams->orphans ? YK__ORPHANS : 0) |
                                       yk_local_reductions(s->config.table) << YK__REDUCTIONS_SHIFT),
                   .pull = p->number,
                   .n = (uint32_t)n,
                   .round = s->round,
                   .examples = s->totals.examples,
                   .loss = s->totals.loss,
                   .begin = p->of_push ? (uint64_t)(c->gradient_waited * 1e9) : 0,
                   .end = yk_local_steps(s->config.table)};
    yk_phase_to(s->config.phases, YK_PHASE_LOOKUP);
    if (n)
        yk_thread_pool_run(yk__pool_for(s, n), look_up_part, &(lookup){s, p, (float *)(void *)(down + 1)});
    p->unanswered = false;
    p->updates_then = s->updates;
    if (s->stale)
        yk_local_set_in_flight(s->config.table, yk__active_workers(s));
    yk_local_mark(s->config.table, &p->mark);
    p->own_then = c->thread[p->number % (uint32_t)s->config.channels].pushes;
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
    if (!c->active || !(s->paused || yk__awaits_answer(s, c)) ||
        now - c->alive_at < s->config.heartbeat_every)
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
    const bool answers = !(s->paused && s->config.rounds->close); /* clients still get heartbeats */
    yk_status st = YK_OK;
    for (int i = 0; answers && i < s->nclients; i++) {
        yk__client *c = &s->client[i];
        /* in the order of their numbers: a worker waits for the oldest */
        for (yk__pull *p = c->pull; !st && c->active && p < c->pull + s->npulls; p++)
            if (p->unanswered && s->config.rounds->may_answer(s, c, p))
                st = answer(s, c, p);
    }
    for (int i = 0; !st && now > 0.0 && i < s->nclients; i++)
        st = send_heartbeat(s, &s->client[i], now);
    return st;
}
