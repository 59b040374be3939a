#include "store/server_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/wait.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double tick_seconds = 0.02;
static const uint64_t polling_ns = 5000; /* an iteration of the loop that only polls takes no longer */

yk_status yk__client_add(yk_server *s, int peer, yk__client **out)
{
    if (s->nclients == YK__MAX_WORKERS)
        return yk_fail(YK_ELOST, "too many workers: at most %d processes can train", YK__MAX_WORKERS);
    yk__client *c = &s->client[s->nclients];
    *c = (yk__client){.peer = peer, .active = true};
    c->thread =
        yk_arena_alloc(&s->memory, (size_t)s->plan->workers_per_process, sizeof *c->thread, "a client");
    c->pull = yk_arena_alloc(&s->memory, (size_t)s->npulls, sizeof *c->pull, "a client");
    s->nclients++;
    s->active++;
    *out = c;
    return s->memory.status;
}

/* Chunks of a resumed job have the length in its checkpoint, which may differ from that in this plan. */
static uint64_t longest_copy(const yk_plan *p)
{
    return yk_plan_copy_steps(p) * (p->copy_lifetime && p->staleness == YK_ASYNC ? YK_LONGEST_COPY : 1);
}

yk_status yk_server_create(const yk_server_config *config, yk_server **out)
{
    yk_server *s = yk_alloc(1, sizeof *s, "the server");
    if (!s)
        return YK_ESYSTEM;
    s->config = *config;
    s->plan = config->plan;
    s->rounds = yk__rounds_of(s->plan);
    s->copy_steps = longest_copy(s->plan);
    s->me = yk_comm_rank(config->comm);
    s->chief = s->me == 0;
    s->npulls = s->plan->channels * YK__MAX_OUTSTANDING;
    s->stale = !s->copy_steps && !s->rounds->close;
    int arrays[YK_MAX_GROUPS];
    for (int g = 0; g < s->plan->ngroups; g++) {
        arrays[g] = 1 + (s->copy_steps ? yk_local_raw(config->table, g).rule->slots : 0);
        s->immediate[g] = s->rounds->close && s->plan->group[g].staleness > 0;
        const yk_group piece = yk_group_piece(&config->group[g], s->me, &(size_t){0});
        s->rows = piece.keyed && piece.keys ? piece.keys : s->rows;
    }
    s->layout = yk__layout_of(config->group, s->plan->ngroups, arrays, s->me);
    s->client = yk_arena_alloc(&s->memory, YK__MAX_WORKERS, sizeof *s->client, "the workers");
    if (s->plan->clip_norm > 0.0 && s->rounds->close && !s->copy_steps)
        s->squares = yk_arena_alloc(&s->memory, (size_t)s->plan->owners, sizeof *s->squares, "the servers");
    yk_status st = s->memory.status;
    if (!st && s->plan->serving_threads > 1)
        st = yk_thread_pool_create(s->plan->serving_threads, &s->pool);
    for (int i = 0; !st && i < s->plan->clients; i++) {
        yk__client *c;
        st = yk__client_add(s, s->plan->first_client + i, &c);
    }
    if (st)
        yk_server_free(s);
    else
        *out = s;
    return st;
}

void yk_server_free(yk_server *s)
{
    if (!s)
        return;
    yk_thread_pool_free(s->pool);
    for (int i = 0; s->client && i < s->nclients; i++) {
        yk__client *c = &s->client[i];
        for (int p = 0; c->pull && p < s->npulls; p++) {
            free(c->pull[p].key);
            free(c->pull[p].at);
            free(c->pull[p].out);
        }
        free(c->in.data);
    }
    yk_merger_fini(&s->keys);
    for (int g = 0; g < YK_MAX_GROUPS; g++)
        free(s->sum[g]);
    for (int k = 0; s->read && k < s->plan->owners; k++)
        free(s->read[k].key);
    free(s->parts);
    free(s->parts_op);
    yk_arena_free(&s->memory);
    yk_free(s);
}

/* ---- receiving ---- */

/* The times between messages are measured exactly, those of a message as often as the phases want it (watch/phase.h). */
static void wait_ends(yk_server *s, uint64_t now)
{
    if (!s->idle)
        return;
    yk_phase_waited(s->config.phases, YK_PHASE_WAITING, now > s->idle ? now - s->idle : 0);
    s->idle = 0;
}

/* Receives the next message of a worker, unless its gradient is still needed. */
static yk_status receive(yk_server *s, yk__client *c, bool *busy)
{
    const bool receiving = c->in.op.active;
    bool done;
    if (c->pushed)
        return YK_OK;
    yk_status st = yk_inbox_receive(s->config.comm, &c->in, c->peer, YK__TAG_UP, YK_PURPOSE_PUSH, &done);
    *busy |= done || c->in.op.active != receiving;
    if (!st && done) { /* it may have begun in an earlier turn */
        wait_ends(s, yk_now_ns());
        yk_phase_to(s->config.phases, YK_PHASE_RECEIVING);
        st = yk__handle_message(s, c);
    }
    if (!st && done && s->rounds->decides) /* a step uses exactly that many gradients */
        st = s->rounds->close(s);
    return st;
}

/* An evaluation may end the job while answers wait: all workers see it in the same round. */
static void pause_if_asked(yk_server *s)
{
    const yk_server_hooks *h = &s->hooks;
    const bool before = s->paused;
    s->paused = s->chief && h->paused && h->paused(h->context);
    if (before && !s->paused && s->rounds->close)
        yk__stop_if_asked(s);
}

static yk_status receive_all(yk_server *s, bool *busy)
{
    bool found = false;
    int peer;
    size_t bytes;
    yk__client *first = NULL;
    if (s->paused && !s->rounds->close)
        return YK_OK;
    yk_status st = yk__control_receive(s, &found);
    if (st || found || (st = yk_comm_probe(s->config.comm, YK_ANY, YK__TAG_UP, &found, &peer, &bytes)))
        return st;
    if (found) {
        wait_ends(s, yk_now_ns());
        yk_phases_step(s->config.phases);
        yk_phase_to(s->config.phases, YK_PHASE_RECEIVING); /* in case this is one of several at once */
        for (int i = 0; i < s->nclients; i++)
            first = s->client[i].peer == peer ? &s->client[i] : first;
        if (!first)
            return yk_fail(YK_ELOST, "unexpected message from rank %d, which is not a worker", peer);
    }
    /* if this message cannot be received yet, there may be messages of others behind it */
    const bool each = first && (first->pushed || first->in.op.active);
    for (int i = 0; !st && i < s->nclients; i++) {
        yk__client *c = &s->client[i];
        if (each || c == first || c->joined || c->in.op.active)
            st = receive(s, c, busy);
    }
    return st;
}

/* ---- lost workers ---- */

static yk_status declare_lost(yk_server *s, yk__client *c, double seconds)
{
    uint64_t back = 0;
    char why[64] = "has died";
    if (!yk_comm_is_dead(s->config.comm, c->peer))
        snprintf(why, sizeof why, "sent no heartbeat for %.1f s", seconds);
    if (!s->plan->survives_loss)
        return yk_fail(YK_ELOST,
                       "the worker of rank %d %s%s; %s cannot continue without it "
                       "(--restarts restarts from the last checkpoint)",
                       c->peer, why,
                       strcmp(why, "has died") ? ": it has died, is hung, or cannot be reached" : "",
                       s->rounds->close ? "synchronous training" : "training without dedicated servers");
    c->active = false;
    c->pushed = c->counts = false;
    s->active--;
    yk_status st = yk__return_leases(s, c, &back);
    s->state.returned += back;
    if (s->config.streams)
        yk_warn("the worker of rank %d %s: declared lost; the remaining workers (%d) read the rest of its "
                "part of "
                "the data",
                c->peer, why, s->active);
    else if (s->chief)
        yk_warn("the worker of rank %d %s: declared lost; its %llu examples go to the remaining workers (%d)",
                c->peer, why, (unsigned long long)back, s->active);
    return st;
}

/* Server 0 tells the others that it is alive if they may wait for it during training, until it decides on a round. They also
 * wait for server 0 when they have no active clients. */
static yk_status check_chief(yk_server *s, double now)
{
    const bool decides = s->rounds->decides;
    bool waits = s->active == 0;
    for (int i = 0; decides && i < s->nclients; i++)
        waits |= s->client[i].pushed;
    if (s->chief && decides && now - s->control_at > s->plan->heartbeat_every) {
        s->control_at = now;
        return yk_server_alive(s);
    }
    if (s->chief)
        return YK_OK;
    if (!waits || s->over)
        s->control_at = now;
    if (now - s->control_at > s->plan->control_timeout)
        return yk_fail(
            YK_ELOST, "server 0 (rank 0) sent nothing for %.1f s: it has died, is hung, or cannot be reached",
            now - s->control_at);
    return YK_OK;
}

/* Declares a client lost if it missed its heartbeat timeout. */
static yk_status check_client(yk_server *s, yk__client *c, double now)
{
    /* a worker that waits sends heartbeats, but they are not received before its gradient was applied */
    if (!c->active || c->pushed || (s->rounds->close ? yk__awaits_answer(s, c) : s->paused)) {
        c->last_message = now;
        return YK_OK;
    }
    const double silent = now - c->last_message,
                 max = c->messages < 2 && !c->joined ? s->plan->first_step_timeout : s->plan->worker_timeout;
    const bool dead = yk_comm_is_lost(s->config.comm, c->peer) ||
                      (silent > s->plan->dead_timeout && yk_comm_is_dead(s->config.comm, c->peer));
    return dead || silent > fmax(max, YK_TIMEOUT_FACTOR * c->longest) ? declare_lost(s, c, silent) : YK_OK;
}

/* Fails if workers were lost, the others have left, and there are examples that nobody has used. */
static yk_status check_workers_remain(const yk_server *s)
{
    bool all_bye = true;
    for (int i = 0; i < s->nclients; i++)
        all_bye &= s->client[i].left || s->client[i].joined;
    return s->active == 0 && s->chief && !all_bye && !s->stopping && yk__has_examples(s)
               ? yk_fail(YK_ELOST, "no worker is left")
               : YK_OK;
}

static yk_status check_timeouts(yk_server *s, double now)
{
    yk_status st = YK_OK;
    for (int i = 0; !st && i < s->nclients; i++)
        st = check_client(s, &s->client[i], now);
    st = st ? st : check_chief(s, now);
    return st ? st : check_workers_remain(s);
}

bool yk__all_have_left(const yk_server *s)
{
    bool all = true;
    for (int i = 0; i < s->nclients; i++)
        all &= !s->client[i].active || s->client[i].left;
    return all;
}

/* Server 0 may receive all leave messages before the other servers do. These wait for them a little longer, so that no message
 * is missed. A lost worker sends none. */
static bool ended(const yk_server *s)
{
    const bool all_gone = yk__all_have_left(s) && !s->awaits_squares; /* of the last round */
    if (s->chief)
        return all_gone;
    return s->over && (all_gone || yk_now() - s->over_at > s->plan->leave_timeout);
}

/* Whether a message is being received or sent in parts. */
static bool is_moving(const yk_server *s)
{
    if (yk_comm_is_receiving(s->config.comm))
        return true;
    for (int i = 0; i < s->nclients; i++) {
        const yk__client *c = &s->client[i];
        if (c->in.op.active)
            return true;
        for (int p = 0; p < s->npulls; p++)
            if (c->pull[p].op.active)
                return true;
    }
    return false;
}

/* A turn of the loop ends. A turn that began while the server waited may have sent or received for the workers of this process,
 * or moved parts of a large message, which takes longer than polling: that is not waiting. MPI may give the core to another
 * process in the next call, so the next wait begins now. */
static void turn_ends(yk_server *s, bool busy, uint64_t began)
{
    yk_phases *p = s->config.phases;
    const uint64_t now = yk_now_ns();
    if (s->idle && (busy || (now - began > polling_ns && is_moving(s)))) {
        wait_ends(s, began);
        yk_phase_to(p, YK_PHASE_OTHER);
        yk_phase_move(p, YK_PHASE_WAITING, YK_PHASE_OTHER, now - began);
    }
    if (p && !s->idle) {
        s->idle = yk_now_ns();
        yk_phase_to(p, YK_PHASE_WAITING);
    }
}

void yk__stop_if_asked(yk_server *s)
{
    const yk_server_hooks *h = &s->hooks;
    s->stopping |= s->chief && h->stop && h->stop(h->context);
}

static yk_status tick(yk_server *s, double now)
{
    const yk_server_hooks *h = &s->hooks;
    yk_status st = check_timeouts(s, now);
    if (!st)
        st = yk__accept_join(s);
    if (!st && h->on_tick)
        st = h->on_tick(h->context);
    if (!st && !s->rounds->close) /* otherwise between two rounds: all workers see it in the same one */
        yk__stop_if_asked(s);
    return st;
}

/* An iteration of the loop, which began at `now`. A server that is always busy sends heartbeats, too. */
static yk_status take_turn(yk_server *s, const yk_wait *w, double now, double *ticked, bool *busy)
{
    const yk_server_hooks *h = &s->hooks;
    const yk__rounds *r = s->rounds;
    const bool ticks = now - *ticked > tick_seconds;
    yk_status st = receive_all(s, busy);
    if (!st && h->poll)
        st = h->poll(h->context, busy);
    if (!st && r->close)
        st = r->close(s);
    if (!st)
        st = yk__snapshot_send(s);
    if (!st) {
        pause_if_asked(s);
        st = yk__answer_all(s, ticks ? now : 0.0);
    }
    if (!st && r->prepare && !*busy && w->polls) /* answers have had time to leave */
        st = r->prepare(s);
    if (st || !ticks)
        return st;
    *ticked = now;
    return tick(s, now);
}

yk_status yk_server_run(yk_server *s)
{
    yk_wait w = yk_wait_begin(s->plan->wait, HUGE_VAL);
    double ticked = s->control_at = yk_now();
    yk_status st = YK_OK;
    for (int i = 0; i < s->nclients; i++)
        s->client[i].last_message = ticked;
    while (!st && !ended(s)) {
        bool busy = false;
        const uint64_t began = yk_now_ns();
        st = take_turn(s, &w, (double)began * 1e-9, &ticked, &busy);
        turn_ends(s, busy, began);
        if (busy)
            yk_wait_restart(&w);
        else
            yk_wait_poll(&w);
    }
    wait_ends(s, yk_now_ns());
    return st ? st : check_workers_remain(s);
}

/* ---- state ---- */

static bool is_lost(const yk__client *c)
{
    return !c->active && !c->left;
}

void yk_server_set_hooks(yk_server *s, const yk_server_hooks *hooks)
{
    s->hooks = *hooks;
}

void yk_server_state_of(const yk_server *s, yk_server_state *out)
{
    *out = s->state;
    out->steps = yk_local_steps(s->config.table);
    out->stopped = s->stopping;
    out->workers = s->active;
    for (int i = 0; i < s->nclients; i++) {
        out->lost += is_lost(&s->client[i]);
        out->joined += s->client[i].joined;
    }
}

int yk_server_workers(const yk_server *s, yk_worker_status *out, int max)
{
    const int n = s->nclients < max ? s->nclients : max;
    for (int i = 0; i < n; i++) {
        const yk__client *c = &s->client[i];
        out[i] = (yk_worker_status){c->peer, is_lost(c), c->pushes, c->examples, c->came_last};
    }
    return n;
}
