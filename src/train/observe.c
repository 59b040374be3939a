#include "train/observe.h"

#include "base/clock.h"
#include "base/log.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const double judge_every = 1.0, write_every = 0.5, tell_every = 1.0; /* seconds */
enum { TRACE_EVENTS = 1 << 18, MOST_OF_A_TRACK = 1 << 15, LEAST_OF_A_TRACK = 1 << 11, COUNTERS = 1 << 14 };

/* ---- history, on the sampling thread ---- */

static void remember(yk__history *h, const yk__observer *o, const yk_sample *s)
{
    h->sample = *s;
    if (h->seen++ % h->every)
        return;
    if (h->npoints == YK__POINTS) {
        for (int i = 0; i < YK__POINTS / 2; i++)
            memcpy(h->point[i], h->point[2 * i], sizeof h->point[0]);
        h->npoints /= 2;
        h->every *= 2;
    }
    double *p = h->point[h->npoints++];
    p[YK__AT_SECONDS] = s->seconds;
    p[YK__AT_STEP] = (double)atomic_load_explicit(&o->step, memory_order_relaxed);
    p[YK__AT_LOSS] = atomic_load_explicit(&o->loss, memory_order_relaxed);
    p[YK__AT_RATE] = atomic_load_explicit(&o->rate, memory_order_relaxed);
    p[YK__AT_CPU] = s->cpu_user + s->cpu_system;
    p[YK__AT_CPU_HOST] = s->cpu_host;
    p[YK__AT_RSS] = s->rss;
    p[YK__AT_NET_IN] = s->net_in;
    p[YK__AT_NET_OUT] = s->net_out;
    p[YK__AT_DISK_READ] = s->disk_read;
    p[YK__AT_DISK_WRITTEN] = s->disk_written;
}

static void count_in_trace(yk__observer *o, const yk_sample *s)
{
    const uint64_t now = yk_now_ns();
    yk_trace_counter(o->counters, "cpu cores", now, s->cpu_user + s->cpu_system);
    yk_trace_counter(o->counters, "resident MB", now, s->rss * 1e-6);
    yk_trace_counter(o->counters, "loss", now, atomic_load_explicit(&o->loss, memory_order_relaxed));
    yk_trace_counter(o->counters, "examples/s", now, atomic_load_explicit(&o->rate, memory_order_relaxed));
    yk_trace_counter(o->counters, "network MB/s", now, (s->net_in + s->net_out) * 1e-6);
    yk_trace_counter(o->counters, "disk MB/s", now, (s->disk_read + s->disk_written) * 1e-6);
}

/* Of a rank that is not the chief nobody else writes to its folder. */
static void write_own_folder(yk__observer *o, const yk_sample *s)
{
    const double nan = (double)NAN;
    const yk__progress p = {nan, nan, nan, nan, nan, nan};
    if (o->t->cluster.rank == 0 || s->seconds - o->written_at < write_every)
        return;
    o->written_at = s->seconds;
    yk__board_progress(o->t, s->steps, &p);
}

/* The chief hears as often as it can, the others tell it now and then. */
static void remind(yk__observer *o, double now)
{
    if (o->t->cluster.rank != 0 && now - o->told_at < tell_every)
        return;
    o->told_at = now;
    atomic_store_explicit(&o->tell_due, true, memory_order_relaxed);
}

static void each_sample(void *context, const yk_sample *s)
{
    yk__observer *o = context;
    yk_verdict v;
    yk_usage u;
    const double now = yk_now();
    bool judged = o->t->cluster.rank == 0 && now - o->judged_at >= judge_every;
    count_in_trace(o, s);
    remind(o, now);
    if (judged) {
        judged = yk__judge_so_far(o, &u, &v);
        o->judged_at = now;
    }
    pthread_mutex_lock(&o->lock);
    remember(&o->history, o, s);
    if (judged) {
        o->history.verdict = v;
        o->history.usage = u;
        o->history.judged = true;
    }
    pthread_mutex_unlock(&o->lock);
    write_own_folder(o, s);
}

/* ---- what worker 0 leaves ---- */

void yk__observe_progress(yk__trainer *t, uint64_t step, uint64_t examples, const yk__progress *p)
{
    yk__observer *o = t->observer;
    if (!o)
        return;
    atomic_store_explicit(&o->step, step, memory_order_relaxed);
    atomic_store_explicit(&o->examples, examples, memory_order_relaxed);
    atomic_store_explicit(&o->loss, p->loss, memory_order_relaxed);
    atomic_store_explicit(&o->rate, p->rate, memory_order_relaxed);
    atomic_store_explicit(&o->step_rate, p->step_rate, memory_order_relaxed);
    atomic_store_explicit(&o->epoch, p->epoch, memory_order_relaxed);
    atomic_store_explicit(&o->seconds_left, p->seconds_left, memory_order_relaxed);
    atomic_store_explicit(&o->lr, p->lr, memory_order_relaxed);
}

void yk__observe_traffic(yk__trainer *t)
{
    yk__observer *o = t->observer;
    if (!o || !t->cluster.comm)
        return;
    const yk_traffic *traffic = yk_comm_traffic(t->cluster.comm);
    uint64_t sent = 0, received = 0;
    for (int p = 0; p < YK_PURPOSES; p++) {
        sent += traffic[p].sent;
        received += traffic[p].received;
    }
    atomic_store_explicit(&o->sent, sent, memory_order_relaxed);
    atomic_store_explicit(&o->received, received, memory_order_relaxed);
    if (!atomic_load_explicit(&o->tell_due, memory_order_relaxed) || t->cluster.role == YK__ALONE)
        return;
    atomic_store_explicit(&o->tell_due, false, memory_order_relaxed);
    if (t->cluster.rank == 0)
        yk__hear(t);
    else
        yk__tell(t);
}

static yk_bytes bytes_so_far(void *context)
{
    yk__observer *o = context;
    return (yk_bytes){atomic_load_explicit(&o->sent, memory_order_relaxed),
                      atomic_load_explicit(&o->received, memory_order_relaxed)};
}

void yk__observe_eval(yk__trainer *t)
{
    yk__observer *o = t->observer;
    if (!o || !t->tested)
        return;
    const yk_score *s = &t->result->test;
    atomic_store_explicit(&o->accuracy, s->accuracy, memory_order_relaxed);
    atomic_store_explicit(&o->test_loss, s->loss, memory_order_relaxed);
    pthread_mutex_lock(&o->lock);
    yk__history *h = &o->history;
    if (h->ntests == YK__TESTS) {
        for (int i = 0; i < YK__TESTS / 2; i++)
            h->test[i] = h->test[2 * i];
        h->ntests /= 2;
    }
    h->test[h->ntests++] =
        (yk__test_point){t->earlier_seconds + yk_now() - t->began, (double)t->step, s->loss, s->accuracy};
    pthread_mutex_unlock(&o->lock);
}

bool yk__observe_verdict(yk__trainer *t, yk_verdict *out)
{
    yk__observer *o = t->observer;
    bool known = false;
    if (!o || pthread_mutex_trylock(&o->lock))
        return false;
    if (o->history.judged && o->history.verdict.kind != YK_VERDICT_NONE) {
        *out = o->history.verdict;
        known = true;
    }
    pthread_mutex_unlock(&o->lock);
    return known;
}

bool yk__observe_sample(yk__trainer *t, yk_sample *out)
{
    yk__observer *o = t->observer;
    if (!o || pthread_mutex_trylock(&o->lock))
        return false;
    const bool known = o->history.npoints > 0;
    *out = o->history.sample;
    pthread_mutex_unlock(&o->lock);
    return known;
}

/* ---- beginning ---- */

static const char *role_of(const yk__trainer *t)
{
    return t->cluster.rank == 0 ? "chief" : t->cluster.role == YK__SERVER ? "server" : "worker";
}

static yk_status start_trace(yk__observer *o)
{
    yk__trainer *t = o->t;
    if (!t->config->trace)
        return YK_OK;
    yk_status st = yk_trace_create(t->cluster.rank, role_of(t), &o->trace);
    size_t room = TRACE_EVENTS / (size_t)t->plan->workers;
    room = room > MOST_OF_A_TRACK ? MOST_OF_A_TRACK : room < LEAST_OF_A_TRACK ? LEAST_OF_A_TRACK : room;
    for (int i = 0; !st && i < t->here; i++) {
        char name[32];
        snprintf(name, sizeof name, "worker %d", i);
        t->phases[i].track = yk_trace_add(o->trace, t->here > 1 ? name : role_of(t), room);
        if (!t->phases[i].track)
            st = yk_fail_memory(room * 40, "the timeline");
        else if (t->model->ops->timeline)
            t->model->ops->timeline(t->trainee[i].work, t->phases[i].track);
    }
    if (!st && !(o->counters = yk_trace_add(o->trace, "counters", COUNTERS)))
        st = yk_fail_memory(COUNTERS * 40, "the timeline");
    return st;
}

/* The run directory, with this process's folder in it; NULL: there is none. */
static yk_status own_folder(const yk__trainer *t, const char **run_dir_out)
{
    char name[32];
    *run_dir_out = t->cluster.rank == 0 ? t->result->run_dir : t->shared_dir;
    snprintf(name, sizeof name, "worker-%d", t->number);
    return *run_dir_out ? yk_dir_make_in(*run_dir_out, name) : YK_OK;
}

static yk_status start_sampler(yk__observer *o)
{
    yk__trainer *t = o->t;
    const char *dir;
    char name[64];
    yk_status st = own_folder(t, &dir);
    snprintf(name, sizeof name, "worker-%d/resources.jsonl", t->number);
    if (!st && dir && t->config->sample_every > 0.0 && t->config->resume)
        st = yk__lines_cut(dir, name, "seconds", t->earlier_seconds);
    const bool serves = t->cluster.role == YK__SERVER;
    const yk_resources_config c = {.every = t->config->sample_every,
                                   .dir = dir,
                                   .name = name,
                                   .rank = t->number,
                                   .role = role_of(t),
                                   .earlier = t->earlier_seconds,
                                   .phases = serves ? NULL : t->phases,
                                   .workers = serves ? 0 : t->here,
                                   .bytes = t->cluster.comm ? bytes_so_far : NULL,
                                   .each = each_sample,
                                   .context = o};
    if (!st)
        st = yk_resources_start(&c, &o->resources);
    return st;
}

static yk_status start_page(yk__observer *o)
{
    const char *where = o->t->config->http;
    if (!where || o->t->cluster.rank)
        return YK_OK;
    const yk_http_config c = {.where = where, .make = yk__live_document, .context = o};
    yk_status st = yk_http_start(&c, &o->http);
    if (!st)
        yk_note("look at it on %s", yk_http_url(o->http));
    return st;
}

/* A rank that cannot write where the chief writes goes without: its numbers reach the chief in any case. */
static void open_own_folder(yk__trainer *t)
{
    const char *dir;
    yk_status st = own_folder(t, &dir);
    if (!st)
        st = yk__board_open(t, t->shared_dir);
    if (!st)
        return;
    yk_warn("no curves of rank %d: %s", t->number, yk_error());
    yk__board_close(t, YK_OK);
    free(t->shared_dir);
    t->shared_dir = NULL;
}

yk_status yk__observe_start(yk__trainer *t)
{
    const double nan = (double)NAN;
    yk__observer *o = calloc(1, sizeof *o);
    if (!o)
        return yk_fail_memory(sizeof *o, "measuring");
    o->t = t;
    o->began_ns = yk_now_ns();
    o->history.every = 1;
    o->judged_at = yk_now();
    o->written_at = t->earlier_seconds;
    atomic_store(&o->step, t->step);
    atomic_store(&o->examples, t->earlier_examples);
    _Atomic double *const unknown[] = {&o->loss,         &o->rate, &o->step_rate, &o->epoch,
                                       &o->seconds_left, &o->lr,   &o->accuracy,  &o->test_loss};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        atomic_store(unknown[i], nan);
    pthread_mutex_init(&o->lock, NULL);
    atomic_store(&o->tell_due, true);
    t->observer = o;
    yk_status st = yk__tell_start(t);
    if (!st)
        st = start_trace(o);
    if (!st && t->cluster.rank > 0)
        open_own_folder(t);
    if (!st)
        st = start_sampler(o);
    return st ? st : start_page(o);
}

/* ---- end ---- */

/* All phases, of all workers of this process: means of seconds, sums of what was done. */
static void add_up(const yk__trainer *t, yk_phases_look *out)
{
    *out = (yk_phases_look){0};
    for (int i = 0; i < t->here; i++) {
        yk_phases_look l;
        yk_phases_read(&t->phases[i], &l);
        for (int k = 0; k < YK_PHASES; k++)
            out->phase[k] += l.phase[k] / t->here;
        out->seconds += l.seconds / t->here;
        out->steps += l.steps;
        out->examples += l.examples;
        out->timed += l.timed;
        out->step_mean += l.step_mean / t->here;
        out->step_deviation += l.step_deviation / t->here;
        out->step_slowest = fmax(out->step_slowest, l.step_slowest);
        out->meetings += l.meetings;
        out->last += l.last;
    }
}

void yk__observe_self(yk__trainer *t, yk_process *out)
{
    *out = t->self; /* with what is known of its link */
    out->rank = t->number;
    out->workers = t->cluster.role == YK__SERVER ? 0 : t->here;
    snprintf(out->role, sizeof out->role, "%s", role_of(t));
    if (t->observer->resources)
        yk_resources_usage(t->observer->resources, &out->usage);
    add_up(t, &out->look);
    out->forward = out->backward = 0.0;
    for (int i = 0; t->model->ops->passes && i < t->here; i++) {
        double forward, backward;
        t->model->ops->passes(t->trainee[i].work, &forward, &backward);
        out->forward += forward;
        out->backward += backward;
    }
}

yk_status yk__observe_stop(yk__trainer *t, yk_status so_far)
{
    yk__observer *o = t->observer;
    if (!o)
        return so_far;
    yk_http_stop(o->http);
    o->http = NULL;
    yk_status st = yk_resources_stop(o->resources, so_far, &t->self.usage);
    o->resources = NULL;
    yk__observe_self(t, &t->self);
    return t->cluster.rank > 0 ? yk__board_close(t, st) : st;
}

void yk__observe_free(yk__trainer *t)
{
    yk__observer *o = t->observer;
    yk_usage u;
    if (!o)
        return;
    yk_http_stop(o->http);
    yk_resources_stop(o->resources, YK_OK, &u);
    yk__board_close(t, YK_OK);
    yk_trace_free(o->trace);
    yk__tell_free(o);
    pthread_mutex_destroy(&o->lock);
    free(o);
    t->observer = NULL;
}
