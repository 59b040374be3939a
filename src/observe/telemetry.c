/* Telemetry: statistics that the processes of a job send to the chief during training, so that one verdict covers all of
 * them.
 *
 *     rank 2   step step [send] step step step ... step [send] step ...   leave | last message
 *                            \                              \                        \
 *     rank 0   serving ....... [receive] ................... [receive] ......... receives the last messages
 *                                 \ verdict, progress line, live page, metrics
 *
 * A message has the state of a process (yk_process): phases, steps, examples, bytes by purpose, resources and the latest
 * sample; about 4 kB, with its own tag, once a second, counted as YK_PURPOSE_CONTROL. The sampling thread decides when to send; between messages, the
 * cost per step is one atomic load. No process waits: a rank whose last message is still in transit skips one, and the chief
 * receives the messages that have arrived. All ranks send: servers, replicas, and workers that joined. The latest message of a
 * lost rank is kept, and the rank is marked as lost.
 *
 * At the end of the job, the chief gathers the last messages of all ranks:
 *
 *     rank r    <- alive, alive ... ready | last telemetry ->                <- is a rank lost?
 *     rank 0    evaluates              -> | <- that of all ranks             ->
 *               one list: the ranks (a lost rank by its latest telemetry), then the workers that joined
 */
#include "observe/observe_internal.h"

#include <stdlib.h>
#include <string.h>

enum { TAG_STATE = 12, TAG_TELEMETRY = 15, MAGIC = 0x74656c6c, MAX_WORKERS = 1024 };

/* ---- sending ---- */

yk_bytes yk__bytes_total(yk_comm *c)
{
    const yk_traffic *traffic = yk_comm_counted(c)->traffic;
    yk_bytes all = {0};
    for (int p = 0; p < YK_PURPOSES; p++) {
        all.sent += traffic[p].sent;
        all.received += traffic[p].received;
    }
    return all;
}

void yk__count_traffic(const yk_observer *o, yk_process *p)
{
    const yk_comm_counts *counts = yk_comm_counted(o->c.comm);
    const yk_bytes all = yk__bytes_total(o->c.comm);
    memcpy(p->traffic, counts->traffic, sizeof p->traffic);
    memcpy(p->values_sent, counts->values_sent, sizeof p->values_sent);
    for (int i = 0; o->host_of && i < o->c.ranks; i++)
        if (o->host_of[i] < YK_MAX_HOSTS)
            p->sent_to[o->host_of[i]] += counts->sent_to[i];
    p->bytes_sent = all.sent;
    p->bytes_received = all.received;
    p->cpu_seconds = (double)clock() / CLOCKS_PER_SEC;
}

static yk_status send_message(yk_observer *o)
{
    yk__telemetry_state *t = &o->telemetry;
    return yk_comm_send(o->c.comm, o->c.chief, TAG_TELEMETRY, YK_PURPOSE_CONTROL, &t->out, sizeof t->out,
                        &t->op);
}

static void compose(yk_observer *o, const yk_process *self)
{
    yk__telemetry *w = &o->telemetry.out;
    yk_sample sample = w->process.sample;
    if (yk_mutex_trylock(&o->lock)) { /* else the last one again */
        sample = o->history.sample;
        yk_mutex_unlock(&o->lock);
    }
    w->magic = MAGIC;
    w->process = *self;
    w->process.rank = o->shared_dir ? self->rank : -1;
    w->process.sample = sample;
    yk__count_traffic(o, &w->process);
}

void yk__telemetry_send(yk_observer *o)
{
    yk__telemetry_state *t = &o->telemetry;
    yk_process self;
    bool done;
    if (t->unreachable)
        return;
    yk_status st = yk_comm_test(o->c.comm, &t->op, &done);
    if (!st && done) {
        yk__observer_self(o, &self);
        compose(o, &self);
        st = send_message(o);
    }
    t->unreachable = st != YK_OK; /* training reports the loss of the chief */
}

/* If the last message of a rank does not arrive in time, the job fails, or the rank is lost if the job can succeed without it. A
 * worker that joined is then omitted. */
static yk_status send_last(yk_observer *o, double timeout)
{
    yk__telemetry_state *t = &o->telemetry;
    yk_status st = yk_comm_wait(o->c.comm, &t->op, 1, timeout, "telemetry to be received");
    if (st)
        return st;
    compose(o, &o->self);
    t->out.last = true;
    yk_process *p = &t->out.process; /* counts this message */
    p->traffic[YK_PURPOSE_CONTROL].sent += sizeof t->out;
    p->traffic[YK_PURPOSE_CONTROL].messages_sent++;
    p->bytes_sent += sizeof t->out;
    if (o->host_of && o->host_of[0] < YK_MAX_HOSTS)
        p->sent_to[o->host_of[0]] += sizeof t->out;
    st = send_message(o);
    return st ? st : yk_comm_wait(o->c.comm, &t->op, 1, timeout, "the last telemetry to be received");
}

/* ---- receiving ---- */

static yk_status add_peer(yk__telemetry_state *t, int peer, yk__peer **out)
{
    if (YK_RESERVE(t->peer, t->cap, (size_t)t->npeers + 1, "telemetry"))
        return YK_ESYSTEM;
    if (!(*out = calloc(1, sizeof **out)))
        return yk_fail_memory(sizeof **out, "telemetry");
    (*out)->peer = peer;
    t->peer[t->npeers++] = *out;
    return YK_OK;
}

yk_status yk__telemetry_start(yk_observer *o)
{
    yk__peer *peer;
    yk_status st = YK_OK;
    atomic_store(&o->telemetry.due, true);
    for (int i = 1; !st && o->c.rank == 0 && i < o->c.ranks; i++)
        st = add_peer(&o->telemetry, i, &peer);
    return st;
}

void yk__telemetry_free(yk_observer *o)
{
    for (int i = 0; i < o->telemetry.npeers; i++)
        free(o->telemetry.peer[i]);
    free(o->telemetry.peer);
}

static yk__peer *find_peer(const yk_observer *o, int peer)
{
    for (int i = 0; i < o->telemetry.npeers; i++)
        if (o->telemetry.peer[i]->peer == peer)
            return o->telemetry.peer[i];
    return NULL;
}

/* Updates the status of the workers from the servers: some may be new or lost. Call it under the lock. */
static void read_worker_status(yk_observer *o)
{
    yk_worker_status *w = o->c.worker_status ? malloc(MAX_WORKERS * sizeof *w) : NULL;
    const int n = w ? o->c.worker_status(o->c.context, w, MAX_WORKERS) : 0;
    for (int i = 0; i < n; i++) {
        if (w[i].peer == o->c.rank) /* the chief itself, if it trains */
            continue;
        yk__peer *p = find_peer(o, w[i].peer);
        if (!p && add_peer(&o->telemetry, w[i].peer, &p))
            break; /* out of memory: receives nothing from it */
        const bool stays_lost = o->telemetry.ending && p->status.lost;
        p->status = w[i];
        p->status.lost |= stays_lost;
    }
    free(w);
}

/* Receives all messages of a peer that have arrived. */
static void receive_from(yk_comm *c, yk__peer *p)
{
    while (!p->over && !p->fresh) {
        bool found = true, done = false;
        int peer;
        size_t bytes;
        yk_status st = YK_OK;
        if (!p->receiving) {
            st = yk_comm_probe(c, p->peer, TAG_TELEMETRY, &found, &peer, &bytes);
            if (!st && found)
                st =
                    yk_comm_recv(c, p->peer, TAG_TELEMETRY, YK_PURPOSE_CONTROL, &p->in, sizeof p->in, &p->op);
        }
        if (!st && found)
            st = yk_comm_test(c, &p->op, &done);
        p->over = st != YK_OK;
        p->receiving = !st && found && !done;
        if (st || !done)
            return;
        p->fresh = p->in.magic == MAGIC;
        p->over = p->in.last || !p->fresh;
    }
}

/* The number of a process in the results: its rank; if it joined, that of its directory unless another process has it. */
static int number_of(const yk_observer *o, const yk__peer *p)
{
    const yk__telemetry_state *t = &o->telemetry;
    if (p->peer < o->c.ranks)
        return p->peer;
    if (p->known)
        return p->newest.process.rank;
    int number = p->in.process.rank >= o->c.ranks ? p->in.process.rank : p->peer;
    for (int i = 0; i < t->npeers; i++)
        if (t->peer[i]->known && t->peer[i]->newest.process.rank == number) {
            number++;
            i = -1;
        }
    return number;
}

/* Call it under the lock. */
static void publish(const yk_observer *o, yk__peer *p)
{
    yk_process *process = &p->newest.process;
    if (p->fresh) {
        const int number = number_of(o, p);
        p->newest = p->in;
        p->known = true;
        p->fresh = false;
        process->rank = number;
        process->joined = p->peer >= o->c.ranks;
        yk__curve_add(&p->curve, &p->newest.process.sample, (yk__point){0});
    }
    process->lost = p->status.lost;
    /* the last report of a lost process is old; those of others include gradients that were dropped */
    if (o->c.worker_status && o->telemetry.ending && (process->lost || p->status.steps)) {
        process->phases.steps = p->status.steps;
        process->phases.examples = p->status.examples;
    }
    if (o->c.worker_status &&
        !o->c.plan->staleness) { /* only the servers know who was last at a synchronous step */
        yk_phases_sample *l = &process->phases;
        l->barriers = l->steps;
        l->last = p->status.came_last < l->steps ? p->status.came_last : l->steps;
    }
}

static void receive_all(yk_observer *o)
{
    read_worker_status(o);
    for (int i = 0; i < o->telemetry.npeers; i++) {
        receive_from(o->c.comm, o->telemetry.peer[i]);
        publish(o, o->telemetry.peer[i]);
    }
}

void yk__telemetry_receive(yk_observer *o)
{
    if (!yk_mutex_trylock(&o->lock)) /* receives it next time */
        return;
    receive_all(o);
    yk_mutex_unlock(&o->lock);
}

/* Finds out which ranks are lost. From now on, a lost rank stays lost: it is not told to send its last telemetry. */
static void begin_end(yk_observer *o)
{
    yk_mutex_lock(&o->lock);
    receive_all(o);
    o->telemetry.ending = true;
    yk_mutex_unlock(&o->lock);
}

void yk__telemetry_curve(yk_observer *o, int rank, yk__curve *out)
{
    yk_mutex_lock(&o->lock);
    out->n = 0;
    for (int i = 0; i < o->telemetry.npeers; i++) {
        const yk__peer *p = o->telemetry.peer[i];
        if (p->known && p->newest.process.rank == rank)
            *out = p->curve;
    }
    yk_mutex_unlock(&o->lock);
}

/* Whether the job still succeeds if this rank is lost now, after the last step. */
static bool may_be_lost(const yk_observer *o, int rank)
{
    return o->c.plan->survives_loss && rank >= o->c.plan->servers;
}

/* Waits for a message to or from a rank, unless the rank is lost and the job succeeds without it. */
static yk_status wait_for(const yk_observer *o, int rank, yk_op *op, const char *what)
{
    const yk_status st = yk_comm_wait(o->c.comm, op, 1, o->c.plan->report_timeout, what);
    return st == YK_ELOST && may_be_lost(o, rank) ? YK_OK : st;
}

/* Whether the last message of a peer may still arrive. Processes that were refused when they tried to join never send one. */
static bool is_awaited(const yk_observer *o, const yk__peer *p)
{
    const bool rank = p->peer < o->c.ranks;
    return !p->over && !p->status.lost && !yk_comm_is_dead(o->c.comm, p->peer) &&
           (rank ? may_be_lost(o, p->peer) : p->known || p->status.steps > 0);
}

/* Waits for the last message of a rank without which the job fails. */
static yk_status wait_for_last(yk_observer *o, yk__peer *p)
{
    yk_comm *c = o->c.comm;
    yk_status st = YK_OK;
    while (!st && !(p->known && p->newest.last)) {
        if (!p->receiving)
            st = yk_comm_recv(c, p->peer, TAG_TELEMETRY, YK_PURPOSE_CONTROL, &p->in, sizeof p->in, &p->op);
        if (!st)
            st = yk_comm_wait(c, &p->op, 1, o->c.plan->report_timeout, "the reports of the ranks");
        p->receiving = false;
        p->fresh = !st;
        yk_mutex_lock(&o->lock);
        publish(o, p);
        yk_mutex_unlock(&o->lock);
    }
    return st;
}

static yk_status receive_last(yk_observer *o)
{
    yk_wait w = yk_wait_begin(YK_WAIT_RANKS, o->c.plan->report_timeout);
    yk_status st = YK_OK;
    for (bool more = true; more;) {
        more = false;
        yk_mutex_lock(&o->lock);
        for (int i = 0; i < o->telemetry.npeers; i++)
            more |= is_awaited(o, o->telemetry.peer[i]); /* before: finds what a rank sent before it died */
        receive_all(o);
        yk_mutex_unlock(&o->lock);
        more = more && yk_wait_poll(&w);
    }
    for (int i = 1; !st && i < o->c.ranks; i++) {
        yk__peer *p = find_peer(o, i);
        const bool complete = p->status.lost || (p->known && p->newest.last);
        if (!complete && !may_be_lost(o, i)) {
            st = wait_for_last(o, p);
        } else if (!complete) {
            p->status.lost = true;
            yk_note("rank %d was lost after the last step: its part of the report is incomplete", i);
        }
        yk_mutex_lock(&o->lock);
        p->known = true; /* every rank has a report, with zeros if it was lost too early */
        p->newest.process.rank = i;
        p->newest.process.lost = p->status.lost;
        yk_mutex_unlock(&o->lock);
    }
    return st;
}

yk_process *yk__processes(yk_observer *o, const yk_process *self, int *n_out)
{
    const yk__telemetry_state *t = &o->telemetry;
    *n_out = 0;
    yk_mutex_lock(&o->lock);
    yk_process *all = malloc(((size_t)t->npeers + 1) * sizeof *all);
    if (all) {
        all[0] = *self;
        all[0].sample = o->history.sample;
        *n_out = 1;
    }
    for (int i = 0; all && i < t->npeers; i++)
        if (t->peer[i]->known)
            all[(*n_out)++] = t->peer[i]->newest.process;
    yk_mutex_unlock(&o->lock);
    return all;
}

/* ---- the end of the job ---- */

/* Messages of the chief: it is alive; send the last telemetry; the run has ended, without or with a lost rank. */
static const char alive = 0, ready = 1, none_lost = 2, some_lost = 3;

/* To all ranks that are not lost. A heartbeat is left out if the last one was not received yet. */
static yk_status send_state(yk_observer *o, const char *state)
{
    yk_comm *c = o->c.comm;
    yk_status st = YK_OK;
    if (!o->state_op && !(o->state_op = yk_alloc((size_t)o->c.ranks, sizeof *o->state_op, "the heartbeats")))
        return YK_ESYSTEM;
    for (int i = 1; !st && i < o->c.ranks; i++) {
        yk_op *op = &o->state_op[i];
        bool done = true;
        if (find_peer(o, i)->status.lost)
            continue;
        if (*state == alive)
            st = yk_comm_test(c, op, &done);
        else
            st = wait_for(o, i, op, "a heartbeat to be received");
        if (!st && done)
            st = yk_comm_send(c, i, TAG_STATE, YK_PURPOSE_CONTROL, state, 1, op);
    }
    return st;
}

/* The next state that is not a heartbeat. */
static yk_status receive_state(const yk_observer *o, const char *what, char *out)
{
    yk_status st = YK_OK;
    for (*out = alive; !st && *out == alive;)
        st = yk_comm_recv_wait(o->c.comm, 0, TAG_STATE, YK_PURPOSE_CONTROL, out, 1, o->c.plan->end_timeout,
                               what);
    return st;
}

yk_status yk_observer_alive(yk_observer *o)
{
    return send_state(o, &alive);
}

/* No message after the last telemetry is counted. */
static yk_status gather_on_chief(yk_observer *o, bool *lost, yk_observation *out)
{
    begin_end(o);
    yk_status st = send_state(o, &ready);
    if (!st)
        st = receive_last(o);
    if (!st)
        st = yk__list_processes(o, out);
    for (int i = 1; !st && i < o->c.ranks; i++)
        *lost |= find_peer(o, i)->status.lost;
    if (!st)
        st = send_state(o, *lost ? &some_lost : &none_lost);
    for (int i = 1; !st && i < o->c.ranks; i++)
        st = wait_for(o, i, &o->state_op[i], "the end of the run to be received");
    return st;
}

yk_status yk_observer_gather(yk_observer *o, bool *lost, yk_observation *out)
{
    char state = none_lost;
    if (o->single_process)
        return YK_OK;
    if (o->c.rank == 0)
        return gather_on_chief(o, lost, out);
    if (o->c.joined) {
        send_last(o, o->c.plan->server_timeout);
        return YK_OK;
    }
    yk_status st = receive_state(o, "rank 0 to end the run", &state);
    if (!st)
        st = send_last(o, o->c.plan->end_timeout);
    if (!st)
        st = receive_state(o, "the reports of the other ranks", &state);
    *lost = state == some_lost;
    return st;
}
