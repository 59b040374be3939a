#include "sim_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLOCK_NS = 20, MAX_WAKE_NS = 20000, MIN_YIELD_NS = 1000, MAX_YIELD_NS = 50000000 };
static const uint64_t first_ns = 1000000000000u; /* no run begins at 0, which often means "never" */

_Thread_local yk__task *yk__this_task;

/* ---- scheduling ---- */

static double seconds_at(uint64_t ns)
{
    return (double)(ns - first_ns) * 1e-9;
}

double yk_sim_now(void)
{
    return seconds_at(yk__this_task->now);
}

void yk__sim_trace(const yk__sim *s, uint64_t now, int rank, const char *format, ...)
{
    char text[256];
    va_list args;
    if (!s->config.trace)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    s->config.trace(s->context, seconds_at(now), rank, text);
}

/* When a task runs next. A paused rank that was killed ends immediately. */
static uint64_t time_of(const yk__task *t)
{
    return t->at < t->rank->paused_until && !t->rank->killed ? t->rank->paused_until : t->at;
}

/* The task with the earliest time; a random one among equals. NULL: all have ended. */
static yk__task *choose(yk__sim *s, uint64_t *at_out)
{
    yk__task *best = NULL;
    uint64_t best_at = UINT64_MAX;
    uint32_t equal = 0;
    for (yk__task *t = s->first; t; t = t->next) {
        const uint64_t at = t->ended ? UINT64_MAX : time_of(t);
        if (t->ended || (best && at > best_at))
            continue;
        equal = best && at == best_at ? equal + 1 : 1;
        best_at = at;
        if (equal == 1 || yk_rng_below(&s->rng, equal) == 0)
            best = t;
    }
    *at_out = best_at;
    return best;
}

/* Its tasks end at that time, or earlier if they would run before. */
static void kill_rank(yk__rank *r, uint64_t at)
{
    r->killed = true;
    for (yk__task *t = r->sim->first; t; t = t->next) {
        if (t->rank != r)
            continue;
        t->at = t->at > at ? at : t->at;
        t->on = NULL; /* what it waits for may be freed, and its address used again, before this task ends */
    }
}

static void kill_all(yk__sim *s, uint64_t at)
{
    for (int i = 0; i < s->all; i++)
        kill_rank(&s->rank[i], at);
}

static void apply_to(yk__sim *s, const yk_sim_event *e, yk__rank *r, uint64_t at)
{
    if (r->ended || r->killed)
        return;
    if (e->action == YK_SIM_KILL) {
        kill_rank(r, at);
        yk__sim_trace(s, at, r->number, "is killed");
    } else if (e->action == YK_SIM_PAUSE) {
        r->paused_until = at + (uint64_t)(e->seconds * 1e9);
        yk__sim_trace(s, at, r->number, "is paused for %g s", e->seconds);
    } else {
        *e->flag = 1;
        yk__sim_trace(s, at, r->number, "receives a signal");
    }
}

/* Applies the events before that time; false: there are none. */
static bool apply_events(yk__sim *s, uint64_t before)
{
    const int first = s->next_event;
    for (; s->next_event < s->config.events; s->next_event++) {
        const yk_sim_event *e = &s->config.event[s->next_event];
        const uint64_t at = first_ns + (uint64_t)(e->at * 1e9);
        if (at > before)
            break;
        for (int i = 0; i < s->all; i++)
            if (e->rank < 0 ? i < s->config.ranks : e->rank == i)
                apply_to(s, e, &s->rank[i], at);
    }
    return s->next_event > first;
}

/* Passes control to the next task. Only the task in control accesses the simulation. */
static void run_next(yk__sim *s)
{
    uint64_t at;
    yk__task *next = choose(s, &at);
    while (next && apply_events(s, at))
        next = choose(s, &at);
    if (next && at == UINT64_MAX) { /* all wait for each other */
        s->stuck = true;
        kill_all(s, next->now);
        next = choose(s, &at);
    }
    if (next && seconds_at(at) > s->config.max_seconds) {
        s->result->timed_out = true;
        kill_all(s, at);
    }
    if (next) {
        next->at = at;
        s->result->digest = yk_mix64(s->result->digest ^ at) + next->number;
    }
    sem_post(next ? &next->go : &s->all_ended);
}

static void wake(yk__sim *s, const void *on, uint64_t now)
{
    for (yk__task *t = s->first; t; t = t->next)
        if (t->on == on && !t->ended) {
            t->on = NULL;
            t->at = (now > t->now ? now : t->now) + yk_rng_below(&s->rng, MAX_WAKE_NS);
        }
}

void yk__sim_shorten_yields(yk__rank *r, uint64_t until, bool restart)
{
    for (yk__task *t = r->sim->first; t; t = t->next) {
        if (t->rank != r || t->ended)
            continue;
        t->pause = restart ? MIN_YIELD_NS : t->pause;
        if (t->yields && t->at > until)
            t->at = until > t->now ? until : t->now;
    }
}

/* The main thread of the rank has ended, and the others with it. */
static void end_rank(const yk__task *t)
{
    yk__rank *r = t->rank;
    yk_sim_result *out = r->sim->result;
    r->ended = true;
    r->result->seconds = seconds_at(t->now);
    yk__sim_trace(r->sim, t->now, r->number, "has ended%s%s", *r->result->error ? ": " : "",
                  r->result->error);
    if (r->result->seconds > out->seconds)
        out->seconds = r->result->seconds;
    yk__sim_drop_messages(r);
    kill_rank(r, t->now);
}

static void end_task(yk__task *t)
{
    yk__sim *s = t->rank->sim;
    t->ended = true;
    if (!t->started)
        end_rank(t);
    wake(s, t, t->now);
    run_next(s);
}

static void die(yk__task *t)
{
    const yk__sim *s = t->rank->sim;
    if (!t->started)
        t->rank->result->end = s->aborted ? YK_SIM_ABORTED : s->stuck ? YK_SIM_STUCK : YK_SIM_KILLED;
    end_task(t);
    pthread_exit(NULL);
}

static void wait_for_turn(yk__task *t)
{
    while (sem_wait(&t->go)) /* a signal */
        ;
    t->now = t->at > t->now ? t->at : t->now;
    if (t->rank->killed)
        die(t);
    if (!t->yields && !t->on) /* it has slept or was woken: others may see effects of it now */
        yk__sim_shorten_yields(t->rank, t->now, true);
    t->on = NULL;
    t->yields = false;
}

/* Runs the other tasks until t->at. */
static void run_others(yk__task *t)
{
    run_next(t->rank->sim);
    wait_for_turn(t);
}

void yk_sim_kill(int rank)
{
    yk__task *t = yk__this_task;
    if (!t || rank < 0 || rank >= t->rank->sim->all)
        return;
    kill_rank(&t->rank->sim->rank[rank], t->now); /* it may be in a long sleep */
    if (rank == t->rank->number)
        die(t);
}

void yk__sim_abort(yk__rank *r)
{
    yk__task *t = yk__this_task;
    r->sim->aborted = true;
    kill_all(r->sim, t->now);
    die(t);
}

/* ---- the clock ---- */

static uint64_t sim_now(void *self)
{
    yk__task *t = self;
    return t->now += CLOCK_NS;
}

/* A run begins on 9 September 2001, at second 1e9. */
static double sim_wall(void *self)
{
    const yk__task *t = self;
    return 1e9 + seconds_at(t->now);
}

static void sim_sleep(void *self, uint64_t ns)
{
    yk__task *t = self;
    t->at = t->now + ns;
    run_others(t);
}

static void sim_yield(void *self)
{
    yk__task *t = self;
    t->at = yk__sim_next_arrival(t->rank, t->now, t->now + t->pause);
    t->pause = t->pause * 4 < MAX_YIELD_NS ? t->pause * 4 : MAX_YIELD_NS;
    t->yields = true;
    run_others(t);
}

static void sim_block(void *self, const void *on, uint64_t until)
{
    yk__task *t = self;
    t->on = on;
    t->at = until;
    run_others(t);
}

static void sim_wake(void *self, const void *on)
{
    const yk__task *t = self;
    wake(t->rank->sim, on, t->now);
}

void yk_sim_transport(yk_transport *out)
{
    *out = (yk_transport){&yk__sim_transport, yk__this_task->rank};
}

/* ---- tasks ---- */

static void *run_task(void *context)
{
    yk__task *t = context;
    yk__rank *r = t->rank;
    yk__sim *s = r->sim;
    yk__this_task = t;
    wait_for_turn(t);
    yk_clock_set(&t->clock);
    yk_transport_set(&(yk_transport){&yk__sim_transport, r}, r->number, s->config.ranks);
    if (t->started) {
        yk__thread_main(t->started);
    } else {
        r->result->status = s->rank_main(s->context, r->number);
        if (r->result->status)
            snprintf(r->result->error, sizeof r->result->error, "%s", yk_error());
    }
    end_task(t);
    return NULL;
}

static int sim_start(void *self, yk_thread *thread);
static void sim_join(void *self, void *task);

/* `thread` NULL: the main thread of the rank. */
static int add_task(yk__rank *r, yk_thread *thread, uint64_t at, yk__task **out)
{
    yk__sim *s = r->sim;
    yk__task *t = calloc(1, sizeof *t);
    if (!t)
        return ENOMEM;
    *t = (yk__task){
        .rank = r,
        .number = s->tasks,
        .started = thread,
        .now = at,
        .at = at,
        .pause = MIN_YIELD_NS,
        .clock = {sim_now, sim_wall, sim_sleep, sim_yield, sim_start, sim_join, sim_block, sim_wake, t}};
    sem_init(&t->go, 0, 0);
    const int e = pthread_create(&t->thread, NULL, run_task, t);
    if (e) {
        sem_destroy(&t->go);
        free(t);
        return e;
    }
    s->tasks++;
    *s->end = t;
    s->end = &t->next;
    *out = t;
    return 0;
}

static int sim_start(void *self, yk_thread *thread)
{
    const yk__task *t = self;
    yk__sim *s = t->rank->sim;
    yk__task *task;
    const int e = add_task(t->rank, thread, t->now + yk_rng_below(&s->rng, MAX_WAKE_NS), &task);
    thread->task = e ? NULL : task;
    return e;
}

static void sim_join(void *self, void *task)
{
    yk__task *t = task;
    while (!t->ended)
        sim_block(self, t, UINT64_MAX);
    pthread_join(t->thread, NULL);
    t->joined = true;
}

/* ---- a run ---- */

static void set_defaults(yk_sim_config *c)
{
    if (c->min_delay == 0.0 && c->max_delay == 0.0) {
        c->min_delay = 1e-5;
        c->max_delay = 1e-3;
    }
    c->eager = c->eager ? c->eager : 4096;
    c->max_seconds = c->max_seconds > 0.0 ? c->max_seconds : 86400.0;
}

static void free_sim(yk__sim *s)
{
    while (s->first) {
        yk__task *t = s->first;
        s->first = t->next;
        if (!t->joined)
            pthread_join(t->thread, NULL);
        sem_destroy(&t->go);
        free(t);
    }
    sem_destroy(&s->all_ended);
    free(s);
}

yk_status yk_sim_run(const yk_sim_config *config, yk_status (*rank_main)(void *context, int rank),
                     void *context, yk_sim_rank *ranks, yk_sim_result *out)
{
    const int all = config->ranks + config->joiners;
    if (config->ranks < 1 || all > YK_SIM_MAX_RANKS)
        return yk_fail(YK_EUSAGE, "a simulated job has 1 to %d ranks", YK_SIM_MAX_RANKS);
    yk__sim *s = calloc(1, sizeof *s);
    if (!s)
        return yk_fail_memory(sizeof *s, "a simulated job");
    *s = (yk__sim){.config = *config, .rank_main = rank_main, .context = context, .result = out, .all = all};
    *out = (yk_sim_result){0};
    set_defaults(&s->config);
    s->rng = yk_rng_seed(config->seed, 0);
    s->end = &s->first;
    sem_init(&s->all_ended, 0, 0);
    int e = 0;
    for (int i = 0; i < all; i++) {
        yk__task *t;
        ranks[i] = (yk_sim_rank){0};
        s->rank[i] = (yk__rank){.sim = s, .number = i, .result = &ranks[i]};
        e = e ? e : add_task(&s->rank[i], NULL, first_ns, &t);
    }
    if (e)
        kill_all(s, first_ns);
    run_next(s);
    while (sem_wait(&s->all_ended))
        ;
    free_sim(s);
    return e ? yk_fail(YK_ESYSTEM, "cannot start the threads of a simulated job: %s", strerror(e)) : YK_OK;
}
