#include "comm/sim.h"

#include "base/clock.h"
#include "base/rng.h"
#include "comm/transport.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_NS = 20, LEAST_YIELD_NS = 1000, MOST_YIELD_NS = 1000000 };
enum { TRUNCATED = 1, NO_MEMORY };
static const uint64_t first_ns = 1000000000000u; /* no run begins at 0, which often means "never" */

typedef struct sim sim;

typedef struct request {
    struct request *other; /* list of all requests of this rank */
    struct request *next;  /* posted receives, in their order */
    bool used, incoming, done;
    int peer, tag, error;
    void *buf;
    size_t cap, bytes;
} request;

typedef struct message {
    struct message *next; /* to the same receiver, in sending order */
    int source, tag;
    uint64_t arrives;
    size_t bytes;
    const void *data;
    request *sender; /* the data is in the buffer of this sender, which waits; NULL: it is a copy */
} message;

typedef struct {
    sim *sim;
    int rank;
    pthread_t thread;
    pthread_cond_t go;
    uint64_t now, pause; /* ns; pause: how long the next yield lasts */
    bool started, ended, killed;
    message *inbox;
    request *requests, *posted;
    yk_clock clock;
    yk_sim_rank *result;
} task;

struct sim {
    yk_sim_config config;
    yk_status (*rank_main)(void *context, int rank);
    void *context;
    pthread_mutex_t lock; /* held while choosing the next task */
    pthread_cond_t all_ended;
    task *running;
    yk_rng rng;
    bool aborted;
    yk_sim_result *result;
    task task[YK_SIM_MOST_RANKS];
};

static _Thread_local task *this_task;

/* ---- scheduling ---- */

/* The task with the earliest time; among several, a random one. NULL: all have ended. */
static task *choose(sim *s)
{
    task *best = NULL;
    uint32_t equal = 0;
    for (int i = 0; i < s->config.ranks; i++) {
        task *t = &s->task[i];
        if (t->ended || (best && t->now > best->now))
            continue;
        equal = best && t->now == best->now ? equal + 1 : 1;
        if (equal == 1 || yk_rng_below(&s->rng, equal) == 0)
            best = t;
    }
    return best;
}

static void kill_all(sim *s)
{
    for (int i = 0; i < s->config.ranks; i++)
        s->task[i].killed = true;
}

/* With the lock held. */
static void hand_over(sim *s)
{
    task *next = choose(s);
    if (next && (double)(next->now - first_ns) * 1e-9 > s->config.most_seconds)
        kill_all(s);
    s->running = next;
    if (next)
        s->result->digest = yk_mix64(s->result->digest ^ next->now) + (uint64_t)next->rank;
    pthread_cond_signal(next ? &next->go : &s->all_ended);
}

/* Drops messages to a rank that has ended, and messages from it that are still in its buffers. */
static void drop(task *t, bool (*gone)(const message *m, const task *of), const task *of)
{
    for (message **at = &t->inbox; *at;) {
        message *m = *at;
        if (!gone(m, of)) {
            at = &m->next;
            continue;
        }
        *at = m->next;
        if (!m->sender)
            free((void *)m->data);
        free(m);
    }
}

static bool any(const message *m, const task *of)
{
    (void)m, (void)of;
    return true;
}

static bool unsent(const message *m, const task *of)
{
    return m->sender && m->source == of->rank;
}

static void end_task(task *t)
{
    sim *s = t->sim;
    pthread_mutex_lock(&s->lock);
    t->ended = true;
    t->result->seconds = (double)(t->now - first_ns) * 1e-9;
    if (t->result->seconds > s->result->seconds)
        s->result->seconds = t->result->seconds;
    drop(t, any, t);
    for (int i = 0; i < s->config.ranks; i++)
        drop(&s->task[i], unsent, t);
    for (request *r = t->requests; r; r = t->requests) {
        t->requests = r->other;
        free(r);
    }
    hand_over(s);
    pthread_mutex_unlock(&s->lock);
}

static void die(task *t)
{
    t->result->end = t->sim->aborted ? YK_SIM_ABORTED : YK_SIM_KILLED;
    end_task(t);
    pthread_exit(NULL);
}

/* Runs the other tasks that come before t->now. */
static void pass(task *t)
{
    sim *s = t->sim;
    pthread_mutex_lock(&s->lock);
    hand_over(s);
    while (s->running != t)
        pthread_cond_wait(&t->go, &s->lock);
    pthread_mutex_unlock(&s->lock);
    if (t->killed)
        die(t);
}

void yk_sim_kill(int rank)
{
    task *t = this_task;
    if (!t || rank < 0 || rank >= t->sim->config.ranks)
        return;
    t->sim->task[rank].killed = true;
    if (rank == t->rank)
        die(t);
    if (t->sim->task[rank].now > t->now)
        t->sim->task[rank].now = t->now; /* it may be in a long sleep */
}

/* ---- the clock ---- */

static uint64_t sim_now(void *self)
{
    task *t = self;
    return t->now += LOOK_NS;
}

static void sim_sleep(void *self, uint64_t ns)
{
    task *t = self;
    t->now += ns;
    pass(t);
}

static void sim_yield(void *self)
{
    task *t = self;
    uint64_t until = t->now + t->pause;
    for (const message *m = t->inbox; m; m = m->next)
        if (m->arrives > t->now && m->arrives < until)
            until = m->arrives;
    t->pause = t->pause * 2 < MOST_YIELD_NS ? t->pause * 2 : MOST_YIELD_NS;
    t->now = until;
    pass(t);
}

/* ---- messages ---- */

static int sim_start(void *self, yk_threads wanted, yk_world *out)
{
    const task *t = self;
    *out = (yk_world){.rank = t->rank, .size = t->sim->config.ranks, .threads = wanted};
    snprintf(out->library, sizeof out->library, "simulated");
    return 0;
}

static void sim_stop(void *self)
{
    (void)self;
}

static void sim_abort(void *self, int status)
{
    task *t = self;
    (void)status;
    t->sim->aborted = true;
    kill_all(t->sim);
    for (int i = 0; i < t->sim->config.ranks; i++)
        if (t->sim->task[i].now > t->now)
            t->sim->task[i].now = t->now;
    die(t);
}

static void sim_error_text(void *self, int code, char *out, size_t size)
{
    (void)self;
    snprintf(out, size, "%s", code == TRUNCATED ? "a message is longer than its buffer" : "out of memory");
}

/* An unused request, with these values. Requests are freed when the rank ends, because not every send is tested until done. */
static request *add_request(task *t, const request *values)
{
    request *r = t->requests, *other;
    while (r && r->used)
        r = r->other;
    if (!r && (r = calloc(1, sizeof *r))) {
        r->other = t->requests;
        t->requests = r;
    }
    if (!r)
        return NULL;
    other = r->other;
    *r = *values;
    r->other = other;
    r->used = true;
    return r;
}

static uint64_t delay_ns(sim *s)
{
    const yk_sim_config *c = &s->config;
    return (uint64_t)(1e9 * (c->least_delay + yk_rng_unit(&s->rng) * (c->most_delay - c->least_delay)));
}

static int sim_send(void *self, int peer, int tag, const void *buf, size_t bytes, uint64_t *request_out)
{
    task *t = self, *to = &t->sim->task[peer];
    const bool eager = bytes <= t->sim->config.eager;
    message *m = calloc(1, sizeof *m);
    void *copy = eager ? malloc(bytes + 1) : NULL;
    request *r = add_request(t, &(request){.done = eager, .peer = peer});
    if (!r || !m || (eager && !copy)) {
        free(m);
        free(copy);
        return NO_MEMORY;
    }
    if (eager && bytes)
        memcpy(copy, buf, bytes);
    *m =
        (message){NULL, t->rank, tag, t->now + delay_ns(t->sim), bytes, eager ? copy : buf, eager ? NULL : r};
    *request_out = (uint64_t)(uintptr_t)r;
    t->sim->result->messages++;
    t->sim->result->bytes += bytes;
    if (to->ended) { /* no one receives it */
        free(copy);
        free(m);
        return 0;
    }
    message **end = &to->inbox;
    for (; *end; end = &(*end)->next)
        if ((*end)->source == t->rank && (*end)->tag == tag && (*end)->arrives >= m->arrives)
            m->arrives = (*end)->arrives + 1;
    *end = m;
    return 0;
}

/* The next message with that source and tag, if it has arrived. */
static message **find(task *t, int source, int tag)
{
    for (message **at = &t->inbox; *at; at = &(*at)->next)
        if ((*at)->source == source && (*at)->tag == tag)
            return (*at)->arrives <= t->now ? at : NULL;
    return NULL;
}

static int receive(task *t, message **at, void *buf, size_t cap, size_t *bytes_out)
{
    message *m = *at;
    const int code = m->bytes > cap ? TRUNCATED : 0;
    *at = m->next;
    if (!code && m->bytes)
        memcpy(buf, m->data, m->bytes);
    *bytes_out = m->bytes;
    if (m->sender)
        m->sender->done = true;
    else
        free((void *)m->data);
    free(m);
    t->pause = LEAST_YIELD_NS; /* there is something to do */
    return code;
}

/* Matches messages that have arrived to receives, in the order in which these were posted. */
static void match(task *t)
{
    for (request **at = &t->posted; *at;) {
        request *r = *at;
        message **m = find(t, r->peer, r->tag);
        if (!m) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        r->error = receive(t, m, r->buf, r->cap, &r->bytes);
        r->done = true;
    }
}

static int sim_recv(void *self, int peer, int tag, void *buf, size_t cap, uint64_t *request_out)
{
    task *t = self;
    request *r =
        add_request(t, &(request){.incoming = true, .peer = peer, .tag = tag, .buf = buf, .cap = cap});
    if (!r)
        return NO_MEMORY;
    request **end = &t->posted;
    while (*end)
        end = &(*end)->next;
    *end = r;
    *request_out = (uint64_t)(uintptr_t)r;
    return 0;
}

static int sim_test(void *self, uint64_t *handle, bool *done_out, size_t *bytes_out)
{
    request *r = (request *)(uintptr_t)*handle;
    match(self);
    *done_out = r->done;
    if (!r->done)
        return 0;
    const int code = r->error;
    *bytes_out = r->bytes;
    *handle = 0;
    r->used = false;
    return code;
}

static int sim_probe(void *self, int peer, int tag, bool *found_out, yk_arrival *out)
{
    task *t = self;
    const message *best = NULL;
    match(t);
    for (int i = 0; i < t->sim->config.ranks; i++) {
        message **m = peer < 0 || peer == i ? find(t, i, tag) : NULL;
        if (m && (!best || (*m)->arrives < best->arrives))
            best = *m;
    }
    *found_out = best;
    if (best)
        *out = (yk_arrival){best->source, best->bytes};
    return 0;
}

static int sim_take(void *self, int peer, int tag, void *buf, size_t bytes)
{
    message **m = find(self, peer, tag);
    size_t got;
    return m ? receive(self, m, buf, bytes, &got) : TRUNCATED;
}

static const yk_transport_ops sim_ops = {.start = sim_start,
                                         .stop = sim_stop,
                                         .abort = sim_abort,
                                         .error_text = sim_error_text,
                                         .send = sim_send,
                                         .recv = sim_recv,
                                         .test = sim_test,
                                         .probe = sim_probe,
                                         .take = sim_take};

/* ---- a run ---- */

static void *run_rank(void *context)
{
    task *t = context;
    sim *s = t->sim;
    this_task = t;
    pthread_mutex_lock(&s->lock);
    while (s->running != t)
        pthread_cond_wait(&t->go, &s->lock);
    pthread_mutex_unlock(&s->lock);
    if (t->killed)
        die(t);
    yk_clock_set(&t->clock);
    yk_transport_set(&(yk_transport){&sim_ops, t}, t->rank, s->config.ranks);
    t->result->status = s->rank_main(s->context, t->rank);
    if (t->result->status)
        snprintf(t->result->error, sizeof t->result->error, "%s", yk_error());
    end_task(t);
    return NULL;
}

static void set_defaults(yk_sim_config *c)
{
    if (c->least_delay == 0.0 && c->most_delay == 0.0) {
        c->least_delay = 1e-5;
        c->most_delay = 1e-3;
    }
    c->eager = c->eager ? c->eager : 4096;
    c->most_seconds = c->most_seconds > 0.0 ? c->most_seconds : 86400.0;
}

yk_status yk_sim_run(const yk_sim_config *config, yk_status (*rank_main)(void *context, int rank),
                     void *context, yk_sim_rank *ranks, yk_sim_result *out)
{
    if (config->ranks < 1 || config->ranks > YK_SIM_MOST_RANKS)
        return yk_fail(YK_EUSAGE, "a simulated job has 1 to %d ranks", YK_SIM_MOST_RANKS);
    sim *s = calloc(1, sizeof *s);
    if (!s)
        return yk_fail_memory(sizeof *s, "a simulated job");
    *s = (sim){.config = *config, .rank_main = rank_main, .context = context, .result = out};
    *out = (yk_sim_result){0};
    set_defaults(&s->config);
    s->rng = yk_rng_seed(config->seed, 0);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->all_ended, NULL);
    int e = 0;
    for (int i = 0; i < config->ranks; i++) {
        task *t = &s->task[i];
        ranks[i] = (yk_sim_rank){0};
        *t = (task){.sim = s, .rank = i, .now = first_ns, .pause = LEAST_YIELD_NS, .result = &ranks[i]};
        t->clock = (yk_clock){sim_now, sim_sleep, sim_yield, t};
        pthread_cond_init(&t->go, NULL);
        e = e ? e : pthread_create(&t->thread, NULL, run_rank, t);
        t->started = !e;
        t->ended = !!e;
    }
    pthread_mutex_lock(&s->lock);
    if (e)
        kill_all(s);
    hand_over(s);
    while (s->running)
        pthread_cond_wait(&s->all_ended, &s->lock);
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < config->ranks; i++) {
        if (s->task[i].started)
            pthread_join(s->task[i].thread, NULL);
        pthread_cond_destroy(&s->task[i].go);
    }
    pthread_cond_destroy(&s->all_ended);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return e ? yk_fail(YK_ESYSTEM, "cannot start the threads of a simulated job: %s", strerror(e)) : YK_OK;
}
