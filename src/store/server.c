#include "store/server_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/wait.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE = 10 }; /* a worker may be silent for so many times its longest step */
static const double tick_seconds = 0.02;
const double yk__leave_seconds = 1.0;

static yk_status sender(yk_server *s, int peer, yk__client **out)
{
    for (int i = 0; i < s->nclients; i++)
        if (s->client[i].peer == peer) {
            *out = &s->client[i];
            return YK_OK;
        }
    return yk_fail(YK_ELOST, "unexpected message from rank %d, which is not a worker", peer);
}

yk_status yk__client_add(yk_server *s, int peer, yk__client **out)
{
    if (s->nclients == YK__MOST_WORKERS)
        return yk_fail(YK_ELOST, "too many processes that train: at most %d", YK__MOST_WORKERS);
    yk__client *c = &s->client[s->nclients];
    *c = (yk__client){.peer = peer, .here = true};
    c->thread = yk_alloc((size_t)s->config.threads, sizeof *c->thread, "a client");
    c->pull = yk_alloc((size_t)s->npulls, sizeof *c->pull, "a client");
    s->nclients++;
    s->here++;
    *out = c;
    return c->thread && c->pull ? YK_OK : YK_ESYSTEM;
}

static void make_layout(yk_server *s)
{
    const yk_server_config *c = &s->config;
    s->layout.ngroups = c->ngroups;
    for (int g = 0; g < c->ngroups; g++) {
        uint64_t begin;
        const uint64_t n = yk__piece(&c->group[g], s->me, c->servers, &begin);
        s->layout.group[g].keyed = c->group[g].keyed;
        s->layout.group[g].each = c->group[g].keyed ? c->group[g].width : (size_t)n;
        s->layout.group[g].arrays = c->local_steps ? yk_delta_arrays(c->table, g) : 1;
    }
}

yk_status yk_server_create(const yk_server_config *config, yk_server **out)
{
    yk_server *s = yk_alloc(1, sizeof *s, "the server");
    if (!s)
        return YK_ESYSTEM;
    s->config = *config;
    s->me = yk_comm_rank(config->comm);
    s->chief = s->me == 0;
    s->npulls = config->lanes * YK__OUTSTANDING;
    make_layout(s);
    s->client = yk_alloc(YK__MOST_WORKERS, sizeof *s->client, "the workers");
    yk_status st = s->client ? YK_OK : YK_ESYSTEM;
    for (int g = 0; !st && config->synchronous && g < config->ngroups; g++)
        if (!config->group[g].keyed &&
            !(s->sum = yk_alloc(yk__layout_floats(&s->layout, g, 0), sizeof *s->sum, "the gradients")))
            st = YK_ESYSTEM;
    if (!st && config->synchronous)
        st = yk_delta_sums_init(&s->sums, config->table, config->local_steps > 0);
    for (int i = 0; !st && i < config->clients; i++) {
        yk__client *c;
        st = yk__client_add(s, config->first_client + i, &c);
    }
    if (st) {
        yk_server_free(s);
        return st;
    }
    *out = s;
    return YK_OK;
}

void yk_server_free(yk_server *s)
{
    if (!s)
        return;
    for (int i = 0; s->client && i < s->nclients; i++) {
        yk__client *c = &s->client[i];
        for (int p = 0; c->pull && p < s->npulls; p++) {
            free(c->pull[p].key);
            free(c->pull[p].out);
        }
        free(c->in);
        yk_free(c->pull);
        yk_free(c->thread);
    }
    yk_delta_sums_fini(&s->sums);
    free(s->parts);
    yk_free(s->client);
    yk_free(s->sum);
    yk_free(s);
}

/* ---- what comes in ---- */

static yk_status begin_receiving(yk_server *s, yk__client *c, size_t bytes)
{
    char *grown = yk_grow(c->in, &c->in_cap, bytes + 1, 1, "a worker's message");
    if (!grown)
        return YK_ESYSTEM;
    c->in = grown;
    c->receiving = true;
    return yk_comm_recv(s->config.comm, c->peer, YK__TAG_UP, YK_FOR_PUSH, c->in, bytes, &c->in_op);
}

/* Whether a message of this worker may be taken now: not while its gradient is still needed. */
static bool can_take(const yk__client *c)
{
    return !c->receiving && !c->pushed;
}

static yk_status listen_to(yk_server *s, yk__client *c, bool *busy)
{
    bool found;
    int peer;
    size_t bytes;
    yk_status st =
        can_take(c) ? yk_comm_probe(s->config.comm, c->peer, YK__TAG_UP, &found, &peer, &bytes) : YK_OK;
    if (st || !can_take(c) || !found)
        return st;
    *busy = true;
    return begin_receiving(s, c, bytes);
}

static yk_status listen_all(yk_server *s, bool *busy)
{
    bool found, each = false;
    int peer;
    size_t bytes;
    yk__client *c = NULL;
    yk_status st = s->chief || s->decided
                       ? YK_OK /* (act on a decision of server 0 before the next one) */
                       : yk_comm_probe(s->config.comm, 0, YK__TAG_CTRL, &found, &peer, &bytes);
    if (!st && !s->chief && !s->decided && found)
        return yk__control_take(s, bytes);
    if (!st)
        st = yk_comm_probe(s->config.comm, YK_ANY, YK__TAG_UP, &found, &peer, &bytes);
    if (st)
        return st;
    if (found) {
        if ((st = sender(s, peer, &c)))
            return st;
        if (can_take(c)) {
            *busy = true;
            st = begin_receiving(s, c, bytes);
        } else {
            each = true; /* that one has to wait; there may be others behind it */
        }
    }
    for (int i = 0; !st && i < s->nclients; i++) {
        c = &s->client[i];
        if (each || c->joined)
            st = listen_to(s, c, busy);
        bool done;
        if (!st && c->receiving && !(st = yk_comm_test(s->config.comm, &c->in_op, &done)) && done) {
            c->receiving = false;
            *busy = true;
            st = yk__take_message(s, c);
            if (!st && s->config.quorum) /* a step uses exactly that many gradients */
                st = yk__close_round_if_all(s);
        }
    }
    return st;
}

/* ---- who is still there ---- */

static yk_status lose(yk_server *s, yk__client *c, double silent)
{
    uint64_t back = 0;
    if (!s->config.survives_loss)
        return yk_fail(
            YK_ELOST,
            "worker of rank %d was silent for %.1f s: it has died, hangs, or cannot be reached; %s cannot go "
            "on without it (--restarts starts again from the last checkpoint)",
            c->peer, silent,
            s->config.synchronous ? "synchronous training" : "training without dedicated servers");
    c->here = false;
    c->lost = true;
    c->pushed = c->counts = false;
    s->here--;
    yk_status st = yk__return_leases(s, c, &back);
    s->returned += back;
    if (s->chief)
        yk_warn("the worker of rank %d was silent for %.1f s: declared lost; its %llu examples go to "
                "the %d remaining workers",
                c->peer, silent, (unsigned long long)back, s->here);
    return st;
}

static yk_status look_for_lost(yk_server *s, double now)
{
    for (int i = 0; i < s->nclients; i++) {
        yk__client *c = &s->client[i];
        bool owed = false;
        for (int p = 0; p < s->npulls; p++)
            owed |= c->pull[p].owed;
        if (!c->here || c->pushed || owed) { /* one that waits for us may be silent */
            c->heard = now;
            continue;
        }
        double most = c->messages < 2 && !c->joined ? s->config.first_timeout : s->config.timeout;
        if (PATIENCE * c->longest > most)
            most = PATIENCE * c->longest;
        const bool dead = now - c->heard > 0.5 && yk_comm_dead(s->config.comm, c->peer);
        yk_status st = dead || now - c->heard > most ? lose(s, c, now - c->heard) : YK_OK;
        if (st)
            return st;
    }
    if (s->here == 0 && s->chief) {
        bool all_bye = true;
        for (int i = 0; i < s->nclients; i++)
            all_bye &= s->client[i].bye || s->client[i].joined;
        if (!all_bye && s->config.assignment && !yk_assignment_done(s->config.assignment))
            return yk_fail(YK_ELOST, "no worker is left");
    }
    return YK_OK;
}

bool yk__all_have_left(const yk_server *s)
{
    bool all = true;
    for (int i = 0; i < s->nclients; i++)
        all &= !s->client[i].here || s->client[i].bye;
    return all;
}

/* Server 0 may have heard all goodbyes before the others have: they listen a little longer, lest a message is lost; but
 * one that is lost will not say any. */
static bool ended(const yk_server *s)
{
    const bool all_gone = yk__all_have_left(s);
    if (s->chief)
        return all_gone;
    return s->over && (all_gone || yk_now() - s->over_at > yk__leave_seconds);
}

yk_status yk_server_run(yk_server *s)
{
    const yk_server_hooks *h = &s->config.hooks;
    yk_wait w = yk_wait_begin(YK_WAIT_RANKS, HUGE_VAL);
    double ticked = yk_now();
    yk_status st = YK_OK;
    for (int i = 0; i < s->nclients; i++)
        s->client[i].heard = ticked;
    while (!st && !ended(s)) {
        bool busy = false;
        double now = 0.0;
        st = listen_all(s, &busy);
        if (!st && h->turn)
            st = h->turn(h->context, &busy);
        if (!st && s->config.synchronous)
            st = yk__close_round_if_all(s);
        if (!st)
            st = yk__snapshot_out(s);
        if (!busy && (w.turn % 64 == 0 || w.turn > w.yields))
            now = yk_now();
        if (!st)
            st = yk__answer_all(s, now);
        if (!st && now - ticked > tick_seconds) {
            ticked = now;
            st = look_for_lost(s, now);
            if (!st && s->listener)
                st = yk__accept_join(s);
            if (!st && h->now_and_then)
                st = h->now_and_then(h->context);
            if (!st && !s->config.synchronous && s->chief && h->stop && h->stop(h->context))
                s->stopping =
                    true; /* synchronous: only between two rounds, so that all workers see it in the same one */
        }
        if (busy)
            yk_wait_again(&w);
        else
            yk_wait_turn(&w);
    }
    return st;
}

yk_status yk_server_end(yk_server *s)
{
    return s->chief ? yk__control_end(s) : YK_OK;
}

/* ---- looking at it ---- */

void yk_server_hook(yk_server *s, const yk_server_hooks *hooks)
{
    s->config.hooks = *hooks;
}

/* Worker number i of all: a thread of a client. */
static yk__client_thread *worker_of(const yk_server *s, int i)
{
    return &s->client[i / s->config.threads].thread[i % s->config.threads];
}

void yk_server_cursors(const yk_server *s, uint64_t *out, size_t window_bytes, uint64_t epoch)
{
    const int workers = s->config.clients * s->config.threads;
    *out++ = 3;
    *out++ = window_bytes / (2 * (size_t)workers);
    for (int i = 0; i < workers; i++) {
        const uint64_t *cursor = worker_of(s, i)->cursor;
        memcpy(out + YK_CURSOR * i, cursor[0] < epoch ? (const uint64_t[YK_CURSOR]){epoch} : cursor,
               YK_CURSOR * sizeof *cursor);
    }
}

uint64_t yk_server_cursors_epoch(const yk_server *s)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < s->config.clients * s->config.threads; i++)
        least = worker_of(s, i)->cursor[0] < least ? worker_of(s, i)->cursor[0] : least;
    return least;
}

void yk_server_cursors_set(yk_server *s, const uint64_t *cursors)
{
    for (int i = 0; i < s->config.clients * s->config.threads; i++)
        memcpy(worker_of(s, i)->cursor, cursors + YK_CURSOR * i, sizeof worker_of(s, i)->cursor);
}

void yk_server_state_of(const yk_server *s, yk_server_state *out)
{
    *out = (yk_server_state){.steps = yk_local_steps(s->config.table),
                             .updates = s->updates,
                             .late = s->late,
                             .late_examples = s->late_examples,
                             .stopped = s->stopping,
                             .returned = s->returned,
                             .workers = s->here,
                             .staleness = s->staleness};
    for (int i = 0; i < s->nclients; i++) {
        out->lost += s->client[i].lost;
        out->joined += s->client[i].joined;
    }
    if (s->staleness.observed)
        out->staleness.mean = s->stale_sum / (double)s->staleness.observed;
}

int yk_server_workers(const yk_server *s, yk_server_worker *out, int most)
{
    const int n = s->nclients < most ? s->nclients : most;
    for (int i = 0; i < n; i++) {
        const yk__client *c = &s->client[i];
        out[i] = (yk_server_worker){c->peer,     c->joined, c->lost,      c->pushes,
                                    c->examples, c->late,   c->came_last, c->waited};
    }
    return n;
}
