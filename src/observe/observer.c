#include "observe/observe_internal.h"

#include "observe/lines.h"
#include <stdlib.h>
#include <string.h>

static const double judge_every = 1.0, write_every = 0.5, send_every = 1.0; /* seconds */

/* ---- history, on the sampling thread ---- */

void yk__thin(void *points, size_t width, int *n)
{
    *n /= 2;
    for (int i = 0; i < *n; i++)
        memcpy((char *)points + (size_t)i * width, (const char *)points + 2 * (size_t)i * width, width);
}

void yk__curve_add(yk__curve *c, const yk_sample *s, yk__point p)
{
    const yk__point *last = c->n ? &c->point[c->n - 1] : NULL;
    p.process = (yk__process_point){s->seconds, s->cpu, s->rss, s->sent, s->received};
    if (!(s->seconds > 0.0) || (last && s->seconds - last->process.seconds < c->every))
        return;
    if (c->n == YK__POINTS) {
        c->every = 1.9 * (last->process.seconds - c->point[0].process.seconds) / c->n;
        yk__thin(c->point, sizeof *c->point, &c->n);
    }
    c->point[c->n++] = p;
}

/* Under the lock. Bytes are those of all processes: of the others, by their latest telemetry. */
static void remember(yk_observer *o, const yk_sample *s)
{
    yk__history *h = &o->history;
    const yoke_progress *now = &h->progress.now;
    yk__point point = {{0},         (double)now->step, now->loss,       now->examples_per_second,
                       s->cpu_host, s->sent,           s->received,     s->net_in,
                       s->net_out,  s->disk_read,      s->disk_written, (double)yk_now_ns()};
    for (int i = 0; i < o->telemetry.npeers; i++) {
        const yk__peer *p = o->telemetry.peer[i];
        if (p->known && !p->over && !p->status.lost && p->newest.process.sample.seconds > 0.0) {
            point.sent += p->newest.process.sample.sent;
            point.received += p->newest.process.sample.received;
        }
    }
    h->sample = *s;
    yk__curve_add(&h->process, s, point);
}

/* A rank that is not the chief writes TensorBoard events to its own directory. */
static void write_own_events(yk_observer *o, const yk_sample *s)
{
    if (o->c.rank == 0 || s->seconds - o->written_at < yk_log_gap(s->seconds, write_every))
        return;
    o->written_at = s->seconds;
    const yk_progress_report p = yk__progress_unknown(s->steps);
    yk__tensorboard_progress(o, &p, false);
}

/* The chief receives telemetry as often as it can; the others send it once a second. */
static void set_due(yk_observer *o, double now)
{
    if (o->c.rank != 0 && now - o->sent_at < send_every)
        return;
    o->sent_at = now;
    atomic_store_explicit(&o->telemetry.due, true, memory_order_relaxed);
}

static void each_sample(void *context, const yk_sample *s)
{
    yk_observer *o = context;
    yk_verdict v;
    yk_usage u;
    const double now = yk_now();
    bool judged = o->c.rank == 0 && now - o->judged_at >= judge_every;
    set_due(o, now);
    if (judged) {
        judged = yk__verdict_so_far(o, &u, &v);
        o->judged_at = now;
    }
    yk_mutex_lock(&o->lock);
    remember(o, s);
    if (judged) {
        o->history.verdict = v;
        o->history.usage = u;
        o->history.judged = true;
    }
    yk_mutex_unlock(&o->lock);
    write_own_events(o, s);
}

/* ---- progress, written by worker 0 ---- */

yk_progress_report yk__progress_unknown(uint64_t step)
{
    const double nan = (double)NAN;
    return (yk_progress_report){{step, 0, nan, nan, nan, nan, nan, NULL}, {nan, nan, nan, nan, nan}};
}

static void count_bytes(yk_observer *o)
{
    const yk_bytes all = yk__bytes_total(o->c.comm);
    atomic_store_explicit(&o->sent, all.sent, memory_order_relaxed);
    atomic_store_explicit(&o->received, all.received, memory_order_relaxed);
}

void yk_observer_traffic(yk_observer *o)
{
    if (!o || !o->c.comm)
        return;
    count_bytes(o);
    if (!atomic_load_explicit(&o->telemetry.due, memory_order_relaxed) || o->single_process)
        return;
    atomic_store_explicit(&o->telemetry.due, false, memory_order_relaxed);
    if (o->c.rank == 0)
        yk__telemetry_receive(o);
    else
        yk__telemetry_send(o);
}

static yk_bytes bytes_so_far(void *context)
{
    yk_observer *o = context;
    return (yk_bytes){atomic_load_explicit(&o->sent, memory_order_relaxed),
                      atomic_load_explicit(&o->received, memory_order_relaxed)};
}

double yk__observer_seconds(const yk_observer *o)
{
    return o->c.earlier_seconds + yk_now() - o->began;
}

bool yk__observer_verdict(yk_observer *o, yk_verdict *out)
{
    bool known = false;
    if (!yk_mutex_trylock(&o->lock))
        return false;
    if (o->history.judged && o->history.verdict.kind != YK_VERDICT_NONE) {
        *out = o->history.verdict;
        known = true;
    }
    yk_mutex_unlock(&o->lock);
    return known;
}

/* ---- beginning ---- */

yk_status yk_observer_create(const yk_observer_config *config, yk_observer **out)
{
    yk_observer *o = calloc(1, sizeof *o);
    if (!o)
        return yk_fail_memory(sizeof *o, "the observer");
    o->c = *config;
    o->single_process = config->plan->placement == YK_PLACEMENT_LOCAL;
    o->base =
        (yk_process){.rank = config->rank, .host = -1, .workers = config->plan->trains ? config->workers : 0};
    snprintf(o->base.role, sizeof o->base.role, "%s", o->base.workers ? "worker" : "server");
    o->first_of_host = config->rank == 0;
    o->history.progress = yk__progress_unknown(config->resumed_from);
    o->history.progress.now.examples = config->earlier_examples;
    for (int k = 0; k < YK__METRICS; k++)
        (&o->history.tested.m.epoch)[k] = (double)NAN;
    yk_mutex_init(&o->lock);
    *out = o;
    return YK_OK;
}

yk_status yk_observer_open(yk_observer *o)
{
    yk_status st = yk__link_open(o);
    return st || o->c.rank ? st : yk__metrics_open(o);
}

const char *yk_observer_run_dir(const yk_observer *o)
{
    return !o ? NULL : o->c.rank == 0 ? o->c.run_dir : o->shared_dir;
}

/* Creates the directory of this process in the run directory; *run_dir_out is NULL if there is none. */
static yk_status make_own_dir(const yk_observer *o, const char **run_dir_out)
{
    char name[32];
    *run_dir_out = yk_observer_run_dir(o);
    snprintf(name, sizeof name, "worker-%d", o->base.rank);
    return *run_dir_out ? yk_dir_make_in(*run_dir_out, name) : YK_OK;
}

static yk_status start_sampler(yk_observer *o)
{
    const yk_observer_config *c = &o->c;
    const char *dir;
    char name[64];
    yk_status st = make_own_dir(o, &dir);
    snprintf(name, sizeof name, "worker-%d/resources.jsonl", o->base.rank);
    if (!st && dir && c->config->sample_every > 0.0 && c->config->resume)
        st = yk_lines_cut(dir, name, "seconds", o->c.earlier_seconds);
    const yk_resources_config r = {.every = c->config->sample_every,
                                   .dir = dir,
                                   .name = name,
                                   .rank = o->base.rank,
                                   .role = o->base.role,
                                   .earlier = o->c.earlier_seconds,
                                   .phases = c->phases,
                                   .workers = c->workers,
                                   .server = !o->base.workers,
                                   .other_writes_host = !o->first_of_host,
                                   .bytes = c->comm ? bytes_so_far : NULL,
                                   .each = each_sample,
                                   .context = o};
    return st ? st : yk_resources_start(&r, &o->resources);
}

/* If a rank cannot write to the run directory, the chief still gets its telemetry. */
static void open_own_events(yk_observer *o)
{
    const char *dir;
    yk_status st = make_own_dir(o, &dir);
    if (!st)
        st = yk__tensorboard_open(o, o->shared_dir);
    if (!st)
        return;
    yk_warn("rank %d writes no TensorBoard events: %s", o->base.rank, yk_error());
    yk__tensorboard_close(o, YK_OK);
    free(o->shared_dir);
    o->shared_dir = NULL;
}

yk_status yk_observer_start(yk_observer *o, double began)
{
    o->started = true;
    o->began = began;
    o->began_ns = yk_now_ns();
    o->judged_at = yk_now();
    o->written_at = o->c.earlier_seconds;
    yk_status st = yk__telemetry_start(o);
    if (!st)
        st = yk__timeline_start(o);
    if (!st && o->c.rank > 0)
        open_own_events(o);
    if (!st)
        st = start_sampler(o);
    return st ? st : yk__live_start(o);
}

/* ---- end ---- */

yk_usage yk__observer_usage(const yk_observer *o)
{
    yk_usage u = o->self.usage;
    if (o->resources)
        yk_resources_usage(o->resources, &u);
    return u;
}

yk_process yk__self_so_far(const yk_observer *o, const yk_usage *usage)
{
    yk_process self = o->base;
    self.usage = *usage;
    self.bytes_sent = atomic_load_explicit(&o->sent, memory_order_relaxed);
    self.bytes_received = atomic_load_explicit(&o->received, memory_order_relaxed);
    snprintf(self.usage.machine.transport, sizeof self.usage.machine.transport, "%s",
             o->c.comm ? yk_comm_library(o->c.comm) : "");
    yk_phases_read_all(o->c.phases, o->c.workers, &self.phases);
    if (o->c.serving)
        yk_phases_read(o->c.serving, &self.serving);
    return self;
}

void yk__observer_self(const yk_observer *o, yk_process *out)
{
    const yk_observer_config *c = &o->c;
    const yk_usage usage = yk__observer_usage(o);
    *out = yk__self_so_far(o, &usage);
    for (int i = 0; c->model->ops->network && i < c->workers; i++) {
        double forward, backward;
        yk_net_passes(c->model->ops->network(c->work(c->context, i)), &forward, &backward);
        out->forward += forward;
        out->backward += backward;
    }
}

yk_status yk_observer_stop(yk_observer *o, uint64_t steps, bool unchanged, yk_status so_far)
{
    if (!o)
        return so_far;
    o->steps = steps;
    o->unchanged = unchanged;
    if (!o->started)
        return so_far;
    if (o->c.comm)
        count_bytes(o);
    yk_status st = yk_resources_stop(o->resources, so_far, &o->self.usage);
    o->resources = NULL;
    yk__observer_self(o, &o->self);
    return o->c.rank > 0 ? yk__tensorboard_close(o, st) : st;
}

void yk_observer_saved(yk_observer *o)
{
    if (o)
        atomic_fetch_add(&o->saves, 1);
}

yk_status yk_observer_close(yk_observer *o, const char *state)
{
    if (!o)
        return YK_OK;
    o->state = state;
    return yk__metrics_close(o);
}

void yk_observer_free(yk_observer *o)
{
    yk_usage u;
    if (!o)
        return;
    yk_resources_stop(o->resources, YK_OK, &u);
    yk__metrics_close(o);
    yk__tensorboard_close(o, YK_OK);
    yk_trace_free(o->trace);
    yk__telemetry_free(o);
    yk_mutex_destroy(&o->lock);
    free(o->shared_dir);
    yk_free(o->state_op);
    yk_free(o->host_of);
    free(o);
}
