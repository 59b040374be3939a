#include "observe/observer_internal.h"

#include "base/clock.h"
#include "base/dir.h"
#include "base/fs.h"
#include "base/log.h"
#include "observe/lines.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double judge_every = 1.0, write_every = 0.5, send_every = 1.0; /* seconds */

/* ---- history, on the sampling thread ---- */

static void remember(yk__history *h, const yk_observer *o, const yk_sample *s)
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

/* A rank that is not the chief writes the curves of its own folder. */
static void write_own_folder(yk_observer *o, const yk_sample *s)
{
    const double nan = (double)NAN;
    const yk__progress p = {nan, nan, nan, nan, nan, nan};
    if (o->c.rank == 0 || s->seconds - o->written_at < write_every)
        return;
    o->written_at = s->seconds;
    yk__tensorboard_progress(o, s->steps, &p);
}

/* The chief receives telemetry as often as it can; the others send it now and then. */
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
    yk__timeline_sample(o, s);
    set_due(o, now);
    if (judged) {
        judged = yk__judge_so_far(o, &u, &v);
        o->judged_at = now;
    }
    yk_mutex_lock(&o->lock);
    remember(&o->history, o, s);
    if (judged) {
        o->history.verdict = v;
        o->history.usage = u;
        o->history.judged = true;
    }
    yk_mutex_unlock(&o->lock);
    write_own_folder(o, s);
}

/* ---- what worker 0 leaves ---- */

void yk__observer_progress(yk_observer *o, uint64_t step, uint64_t examples, const yk__progress *p)
{
    atomic_store_explicit(&o->step, step, memory_order_relaxed);
    atomic_store_explicit(&o->examples, examples, memory_order_relaxed);
    atomic_store_explicit(&o->loss, p->loss, memory_order_relaxed);
    atomic_store_explicit(&o->rate, p->rate, memory_order_relaxed);
    atomic_store_explicit(&o->step_rate, p->step_rate, memory_order_relaxed);
    atomic_store_explicit(&o->epoch, p->epoch, memory_order_relaxed);
    atomic_store_explicit(&o->seconds_left, p->seconds_left, memory_order_relaxed);
    atomic_store_explicit(&o->lr, p->lr, memory_order_relaxed);
}

void yk_observer_traffic(yk_observer *o)
{
    if (!o->c.comm)
        return;
    const yk_traffic *traffic = yk_comm_traffic(o->c.comm);
    uint64_t sent = 0, received = 0;
    for (int p = 0; p < YK_PURPOSES; p++) {
        sent += traffic[p].sent;
        received += traffic[p].received;
    }
    atomic_store_explicit(&o->sent, sent, memory_order_relaxed);
    atomic_store_explicit(&o->received, received, memory_order_relaxed);
    if (!atomic_load_explicit(&o->telemetry.due, memory_order_relaxed) || o->alone)
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
    return o->earlier_seconds + yk_now() - o->began;
}

void yk__observer_test(yk_observer *o, const yk_evaluation *e)
{
    if (!e->tested)
        return;
    atomic_store_explicit(&o->accuracy, e->accuracy, memory_order_relaxed);
    atomic_store_explicit(&o->test_loss, e->test_loss, memory_order_relaxed);
    yk_mutex_lock(&o->lock);
    yk__history *h = &o->history;
    if (h->ntests == YK__TESTS) {
        for (int i = 0; i < YK__TESTS / 2; i++)
            h->test[i] = h->test[2 * i];
        h->ntests /= 2;
    }
    h->test[h->ntests++] =
        (yk__test_point){yk__observer_seconds(o), (double)e->at.step, e->test_loss, e->accuracy};
    yk_mutex_unlock(&o->lock);
}

bool yk__observer_verdict(yk_observer *o, yk_verdict *out)
{
    bool known = false;
    if (!yk_mutex_try(&o->lock))
        return false;
    if (o->history.judged && o->history.verdict.kind != YK_VERDICT_NONE) {
        *out = o->history.verdict;
        known = true;
    }
    yk_mutex_unlock(&o->lock);
    return known;
}

bool yk__observer_sample(yk_observer *o, yk_sample *out)
{
    if (!yk_mutex_try(&o->lock))
        return false;
    const bool known = o->history.npoints > 0;
    *out = o->history.sample;
    yk_mutex_unlock(&o->lock);
    return known;
}

void yk_observer_pause(yk_observer *o, bool pause)
{
    o->paused = pause;
    yk_resources_rest(o->resources, pause);
}

/* ---- beginning ---- */

const char *yk__observer_role(const yk_observer *o)
{
    return o->c.rank == 0 ? "chief" : o->c.server ? "server" : "worker";
}

yk_status yk_observer_create(const yk_observer_config *config, yk_observer **out)
{
    yk_observer *o = calloc(1, sizeof *o);
    if (!o)
        return yk_fail_memory(sizeof *o, "measuring");
    o->c = *config;
    o->alone = config->plan->placement == YK_PLACEMENT_LOCAL;
    o->number = config->rank;
    o->earlier_seconds = config->earlier_seconds;
    o->history.every = 1;
    atomic_store(&o->step, config->resumed_from);
    atomic_store(&o->examples, config->earlier_examples);
    _Atomic double *const unknown[] = {&o->loss,         &o->rate, &o->step_rate, &o->epoch,
                                       &o->seconds_left, &o->lr,   &o->accuracy,  &o->test_loss};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        atomic_store(unknown[i], (double)NAN);
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

/* Makes this process's folder in the run directory; *run_dir_out is NULL if there is none. */
static yk_status make_folder(const yk_observer *o, const char **run_dir_out)
{
    char name[32];
    *run_dir_out = yk_observer_run_dir(o);
    snprintf(name, sizeof name, "worker-%d", o->number);
    return *run_dir_out ? yk_dir_make_in(*run_dir_out, name) : YK_OK;
}

static yk_status start_sampler(yk_observer *o)
{
    const yk_observer_config *c = &o->c;
    const char *dir;
    char name[64];
    yk_status st = make_folder(o, &dir);
    snprintf(name, sizeof name, "worker-%d/resources.jsonl", o->number);
    if (!st && dir && c->config->sample_every > 0.0 && c->config->resume)
        st = yk_lines_cut(dir, name, "seconds", o->earlier_seconds);
    const yk_resources_config r = {.every = c->config->sample_every,
                                   .dir = dir,
                                   .name = name,
                                   .rank = o->number,
                                   .role = yk__observer_role(o),
                                   .earlier = o->earlier_seconds,
                                   .phases = c->server ? NULL : c->phases,
                                   .workers = c->server ? 0 : c->workers,
                                   .bytes = c->comm ? bytes_so_far : NULL,
                                   .each = each_sample,
                                   .context = o};
    return st ? st : yk_resources_start(&r, &o->resources);
}

static yk_status start_page(yk_observer *o)
{
    const char *where = o->c.config->http;
    if (!where || o->c.rank)
        return YK_OK;
    const yk_http_config c = {.where = where, .make = yk__live_document, .context = o};
    yk_status st = yk_http_start(&c, &o->http);
    if (!st)
        yk_note("look at it on %s", yk_http_url(o->http));
    return st;
}

/* A rank that cannot write to the run directory does without: its numbers reach the chief anyway. */
static void open_own_folder(yk_observer *o)
{
    const char *dir;
    yk_status st = make_folder(o, &dir);
    if (!st)
        st = yk__tensorboard_open(o, o->shared_dir);
    if (!st)
        return;
    yk_warn("no curves of rank %d: %s", o->number, yk_error());
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
    o->written_at = o->earlier_seconds;
    yk_status st = yk__telemetry_start(o);
    if (!st)
        st = yk__timeline_start(o);
    if (!st && o->c.rank > 0)
        open_own_folder(o);
    if (!st)
        st = start_sampler(o);
    return st ? st : start_page(o);
}

/* ---- end ---- */

void yk__observer_phases(const yk_observer *o, yk_phases_sample *out)
{
    const int n = o->c.workers;
    *out = (yk_phases_sample){0};
    for (int i = 0; i < n; i++) {
        yk_phases_sample l;
        yk_phases_read(&o->c.phases[i], &l);
        for (int k = 0; k < YK_PHASES; k++)
            out->phase[k] += l.phase[k] / n;
        out->seconds += l.seconds / n;
        out->steps += l.steps;
        out->examples += l.examples;
        out->timed += l.timed;
        out->step_mean += l.step_mean / n;
        out->step_deviation += l.step_deviation / n;
        out->step_slowest = fmax(out->step_slowest, l.step_slowest);
        out->barriers += l.barriers;
        out->last += l.last;
    }
}

void yk__observer_self(yk_observer *o, yk_process *out)
{
    const yk_observer_config *c = &o->c;
    *out = o->self; /* with the rate of its link */
    out->rank = o->number;
    out->workers = c->server ? 0 : c->workers;
    snprintf(out->role, sizeof out->role, "%s", yk__observer_role(o));
    if (o->resources)
        yk_resources_usage(o->resources, &out->usage);
    yk__observer_phases(o, &out->look);
    out->forward = out->backward = 0.0;
    for (int i = 0; c->model->ops->passes && i < c->workers; i++) {
        double forward, backward;
        c->model->ops->passes(c->work(c->context, i), &forward, &backward);
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
    yk_http_stop(o->http);
    o->http = NULL;
    yk_status st = yk_resources_stop(o->resources, so_far, &o->self.usage);
    o->resources = NULL;
    yk__observer_self(o, &o->self);
    return o->c.rank > 0 ? yk__tensorboard_close(o, st) : st;
}

yk_status yk_observer_close(yk_observer *o)
{
    return o ? yk__metrics_close(o) : YK_OK;
}

void yk_observer_free(yk_observer *o)
{
    yk_usage u;
    if (!o)
        return;
    yk_http_stop(o->http);
    yk_resources_stop(o->resources, YK_OK, &u);
    yk__metrics_close(o);
    yk__tensorboard_close(o, YK_OK);
    yk_trace_free(o->trace);
    yk__telemetry_free(o);
    yk_mutex_destroy(&o->lock);
    free(o->shared_dir);
    free(o);
}
