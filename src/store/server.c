#include "store/server_inside.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/wait.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE = 10 }; /* a worker may be silent for so many times its longest step */
static const double tick_seconds = 0.02, farewell_seconds = 1.0;

static yk_status sender(yk_server *s, int peer, yk__client **out)
{
    for (int i = 0; i < s->nclients; i++)
        if (s->client[i].peer == peer) {
            *out = &s->client[i];
            return YK_OK;
        }
    return yk_fail(YK_ELOST, "a message from rank %d, which is no worker", peer);
}

yk_status yk_server_create(const yk_server_config *config, yk_server **out)
{
    yk_server *s = yk_alloc(1, sizeof *s, "the server");
    if (!s)
        return YK_ESYSTEM;
    s->config = *config;
    s->me = yk_comm_rank(config->comm);
    s->chief = s->me == 0;
    s->piece = yk__piece_size(config->nparams, config->sparse, s->me, config->servers);
    s->w = yk_store_raw(config->table).live.w;
    s->arrays = config->local_steps ? yk_changes_arrays(config->table) : 1;
    s->client = yk_alloc(YK__MOST_WORKERS, sizeof *s->client, "the workers");
    bool ok = s->client != NULL;
    if (ok && config->in_step && !config->sparse)
        ok = (s->sum = yk_alloc(s->piece * (size_t)s->arrays, sizeof *s->sum, "the gradients")) != NULL;
    if (ok && config->in_step && config->sparse)
        ok = yk_changes_init(&s->sums, s->arrays) == YK_OK;
    if (!ok) {
        yk_server_free(s);
        return YK_ESYSTEM;
    }
    for (int i = 0; i < config->workers; i++)
        s->client[s->nclients++] = (yk__client){.peer = config->servers + i, .here = true};
    s->here = s->nclients;
    *out = s;
    return YK_OK;
}

void yk_server_free(yk_server *s)
{
    if (!s)
        return;
    for (int i = 0; s->client && i < s->nclients; i++) {
        free(s->client[i].in);
        for (int p = 0; p < YK__OUTSTANDING; p++) {
            free(s->client[i].pull[p].key);
            free(s->client[i].pull[p].out);
        }
    }
    yk_changes_fini(&s->sums);
    yk_free(s->client);
    yk_free(s->sum);
    yk_free(s);
}

/* ---- what comes in ---- */

static yk_status deal(yk_server *s, yk__client *c, const yk__up *up)
{
    yk_lease run = {0};
    bool done;
    yk_status st = s->stopping ? YK_OK : yk_dealer_deal(s->config.dealer, c->peer, &run);
    if (st || (st = yk_comm_test(s->config.comm, &c->deal_op, &done)))
        return st;
    if (!done)
        return yk_fail(YK_ELOST, "rank %d asks for examples twice", c->peer);
    const bool none = run.begin == run.end;
    const bool later = none && !s->stopping && !yk_dealer_over(s->config.dealer);
    c->idle = none && (up->flags & YK__IDLE);
    c->dealt = (yk__down){.magic = YK__MAGIC,
                          .life = c->life,
                          .kind = YK__DOWN_DEAL,
                          .flags = later ? YK__LATER : 0,
                          .examples = run.epoch,
                          .begin = run.begin,
                          .end = run.end};
    return yk_comm_send(s->config.comm, c->peer, YK__TAG_DOWN, YK_FOR_CONTROL, &c->dealt, sizeof c->dealt,
                        &c->deal_op);
}

/* A gradient that arrived too late for its round: its examples count as used and are not used again in this epoch. */
static void drop(yk_server *s, yk__client *c, const yk__up *up)
{
    memcpy(c->place, up->place, sizeof c->place);
    s->late_examples += up->examples;
    if (s->config.dealer)
        yk_dealer_used(s->config.dealer, c->peer, up->examples);
}

static yk_status take_step(yk_server *s, yk__client *c, const yk__up *up)
{
    c->idle = false;
    if (up->flags & YK__HAS_PULL) {
        yk__pull *p = &c->pull[up->pull % YK__OUTSTANDING];
        if (p->owed)
            return yk_fail(YK_ELOST, "rank %d asks for more than it was answered", c->peer);
        p->number = up->pull;
        p->n = up->npull;
        p->owed = true;
        p->of_push = (up->flags & YK__HAS_PUSH) != 0;
        if (s->config.sparse) {
            uint32_t *grown =
                yk_grow(p->key, &p->key_cap, (size_t)up->npull + 1, sizeof *p->key, "the keys of a worker");
            if (!grown)
                return YK_ESYSTEM;
            p->key = grown;
            memcpy(p->key, yk__values_of(c) + up->npush, up->npull * sizeof *p->key);
        }
    }
    if (!(up->flags & YK__HAS_PUSH))
        return YK_OK;
    const bool dealt_again =
        s->config.dealer && up->life != c->life; /* its examples went to other workers meanwhile */
    const bool late = s->config.in_step && up->round < s->round; /* the worker gets the current parameters */
    s->late += dealt_again || late;
    c->late += dealt_again || late;
    if (late && !dealt_again)
        drop(s, c, up);
    if (late || (dealt_again && !s->config.in_step))
        return YK_OK;
    if (!s->config.in_step)
        return yk__take_push(s, c, up);
    c->pushed = true;
    c->counts |= !dealt_again && (s->chief || !s->config.quorum); /* else server 0 decides, or has decided */
    c->pushed_at = c->heard;
    return YK_OK;
}

/* Does what it pushes fit what it pulled? */
static bool makes_sense(const yk_server *s, const yk__client *c, const yk__up *up)
{
    const yk__pull *p = &c->pull[up->push_of % YK__OUTSTANDING];
    const size_t n = (size_t)s->arrays * (s->config.sparse ? p->n : s->piece);
    const uint64_t most = s->config.local_steps ? s->config.local_steps : 1;
    if (!(up->flags & YK__HAS_PUSH) || !up->examples)
        return up->npush == 0;
    return up->npush == n && up->steps >= 1 && up->steps <= most;
}

static yk_status handle(yk_server *s, yk__client *c)
{
    const yk__up *up = (const yk__up *)(const void *)c->in;
    const size_t bytes = c->in_op.bytes;
    const uint32_t keys = s->config.sparse ? up->npull : 0;
    if (bytes < sizeof *up || up->magic != YK__MAGIC ||
        bytes != sizeof *up + ((size_t)up->npush + keys) * 4 || !makes_sense(s, c, up))
        return yk_fail(YK_ELOST, "rank %d sent a message of %zu bytes that makes no sense", c->peer, bytes);
    if (up->kind != YK__UP_STEP)
        yk_comm_recount(s->config.comm, true, YK_FOR_PUSH, YK_FOR_CONTROL, bytes, 1);
    else if (up->flags & YK__HAS_PUSH)
        yk_comm_recount(s->config.comm, true, YK_FOR_PUSH, YK_FOR_PULL, keys * 4u, 0);
    else
        yk_comm_recount(s->config.comm, true, YK_FOR_PUSH, YK_FOR_PULL, bytes, 1);
    const double now = yk_now();
    c->longest *= 0.99; /* a step that took long once is forgotten after some hundred */
    if (c->messages++ > 0 && now - c->heard > c->longest && c->here)
        c->longest = now - c->heard;
    c->heard = c->alive_at = now;
    if (!c->here && !c->bye && s->chief)
        yk_note("rank %d is back", c->peer);
    if (!c->here && !c->bye)
        yk__skip_missed(s, c);
    s->here += !c->here && !c->bye;
    c->here = true;
    c->lost = false;
    switch (up->kind) {
    case YK__UP_STEP:
        return take_step(s, c, up);
    case YK__UP_DEAL:
        return s->config.dealer ? deal(s, c, up)
                                : yk_fail(YK_ELOST, "rank %d asks server %d for examples", c->peer, s->me);
    case YK__UP_ALIVE:
        return YK_OK;
    case YK__UP_HELLO:
        return yk__greet(s, c, up);
    case YK__UP_BYE:
        c->bye = true;
        c->here = false;
        s->here--;
        if (c->joined && s->chief && !s->stopping && s->config.dealer && !yk_dealer_over(s->config.dealer))
            yk_note("a worker that had joined has left: %d train now", s->here);
        return s->config.dealer ? yk_dealer_return(s->config.dealer, c->peer, &(uint64_t){0}) : YK_OK;
    default:
        return yk_fail(YK_ELOST, "rank %d sent a message of a kind that does not exist", c->peer);
    }
}

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
    yk_status st = yk_comm_probe(s->config.comm, YK_ANY, YK__TAG_UP, &found, &peer, &bytes);
    if (st)
        return st;
    if (found && peer < s->config.servers && !s->decided)
        return yk__control_take(s, bytes);
    if (found && peer < s->config.servers) {
        each = true; /* act on its decision first */
    } else if (found) {
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
            st = handle(s, c);
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
    if (s->config.in_step && !(s->chief ? s->config.dealer != NULL : s->config.quorum))
        return yk_fail(
            YK_ELOST,
            "worker of rank %d was silent for %.1f s: it has died, hangs, or cannot be reached; synchronous "
            "training cannot go on without it (--restarts starts again from the last checkpoint)",
            c->peer, silent);
    c->life++;
    c->here = false;
    c->lost = true;
    c->pushed = c->counts = false;
    s->here--;
    yk_status st = s->config.dealer ? yk_dealer_return(s->config.dealer, c->peer, &back) : YK_OK;
    s->returned += back;
    if (s->chief)
        yk_warn("the worker of rank %d was silent for %.1f s and is given up; its %llu examples go to the %d "
                "that are left",
                c->peer, silent, (unsigned long long)back, s->here);
    return st;
}

static yk_status look_for_lost(yk_server *s, double now)
{
    for (int i = 0; i < s->nclients; i++) {
        yk__client *c = &s->client[i];
        bool owed = false;
        for (int p = 0; p < YK__OUTSTANDING; p++)
            owed |= c->pull[p].owed;
        if (!c->here || c->pushed || owed) { /* one that waits for us may be silent */
            c->heard = now;
            continue;
        }
        double most = c->messages < 2 && !c->joined ? s->config.first_silence : s->config.silence;
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
        if (!all_bye && s->config.dealer && !yk_dealer_over(s->config.dealer))
            return yk_fail(YK_ELOST, "no worker is left");
    }
    return YK_OK;
}

/* Server 0 may have heard all goodbyes before the others have: they listen a little longer, lest a message is lost; but
 * one that is lost will not say any. */
static bool ended(const yk_server *s)
{
    bool all_gone = true;
    for (int i = 0; i < s->nclients; i++)
        all_gone &= !s->client[i].here || s->client[i].bye;
    if (s->chief)
        return all_gone;
    return s->over && (all_gone || yk_now() - s->over_at > farewell_seconds);
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
        if (!st && s->config.in_step)
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
            if (!st && s->door)
                st = yk__let_in(s);
            if (!st && h->now_and_then)
                st = h->now_and_then(h->context);
            if (!st && !s->config.in_step && s->chief && h->stop && h->stop(h->context))
                s->stopping = true; /* in step only between two rounds: all must hear it in the same one */
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

void yk_server_places(const yk_server *s, uint64_t *out, size_t window_bytes, uint64_t epoch)
{
    *out++ = 3;
    *out++ = window_bytes / (2 * (size_t)s->config.workers);
    for (int i = 0; i < s->config.workers; i++)
        memcpy(out + YK__PLACE * i,
               s->client[i].place[0] < epoch ? (const uint64_t[YK__PLACE]){epoch} : s->client[i].place,
               sizeof s->client[i].place);
}

uint64_t yk_server_places_epoch(const yk_server *s)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < s->config.workers; i++)
        least = s->client[i].place[0] < least ? s->client[i].place[0] : least;
    return least;
}

void yk_server_places_set(yk_server *s, const uint64_t *places)
{
    for (int i = 0; i < s->config.workers; i++)
        memcpy(s->client[i].place, places + YK__PLACE * i, sizeof s->client[i].place);
}

void yk_server_state_of(const yk_server *s, yk_server_state *out)
{
    *out = (yk_server_state){.steps = yk_store_steps(s->config.table),
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
