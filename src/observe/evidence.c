/* One verdict from the measurements of all processes, during training and at the end. */
#include "observe/observer_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static yk_evidence evidence_of(const yk_observer *o, const yk_worker_evidence *w, int n, const yk_usage *u)
{
    const yk_plan *plan = o->c.plan;
    double seconds = 0.0;
    for (int i = 0; i < n; i++)
        seconds = fmax(seconds, w[i].phases.seconds);
    return (yk_evidence){.synchronous = plan->staleness == 0,
                         .network = o->c.model->ops->profile != NULL,
                         .streamed = o->c.streamed,
                         .workers = plan->workers,
                         .ranks = o->c.ranks,
                         .threads = plan->threads,
                         .batch = plan->batch,
                         .seconds = seconds,
                         .round_trips = (plan->placement == YK_PLACEMENT_REPLICAS ? 2.0 : 1.0) /
                                        fmax(1.0, (double)plan->local_steps),
                         .measured = w,
                         .nmeasured = n,
                         .usage = u};
}

void yk__usage_of_host(const yk_process *p, int n, int i, yk_usage *out, int *workers_out)
{
    *out = p[i].usage;
    *workers_out = p[i].workers;
    for (int k = 0; k < n; k++) {
        if (k == i || strcmp(p[k].usage.host, p[i].usage.host))
            continue;
        const double part =
            p[i].usage.seconds > 0.0 ? fmin(p[k].usage.seconds / p[i].usage.seconds, 1.0) : 0.0;
        out->cpu.mean += part * p[k].usage.cpu.mean;
        out->delayed.mean += part * p[k].usage.delayed.mean;
        *workers_out += p[k].lost ? 0 : p[k].workers;
    }
}

/* Lists the workers that are not lost: the threads of one process, or the ranks that train. */
static int list_workers(const yk_observer *o, const yk_process *p, int n, yk_worker_evidence *out)
{
    int found = 0;
    for (int i = 0; o->alone && i < o->c.workers; i++) {
        out[found] = (yk_worker_evidence){.worker = i};
        yk_phases_read(&o->c.phases[i], &out[found++].phases);
    }
    for (int i = 0; !o->alone && i < n; i++)
        if (p[i].workers > 0 && !p[i].lost)
            out[found++] = (yk_worker_evidence){.rank = p[i].rank, .worker = -1, .phases = p[i].phases};
    return found;
}

/* The verdict from the measurements of n processes and their workers. */
static void find_verdict(const yk_observer *o, const yk_process *p, int n, const yk_worker_evidence *w,
                         int measured, yk_verdict *out)
{
    yk_usage u, worst = {0};
    double rate = HUGE_VAL, trip = 0.0, bytes = 0.0, steps = 0.0;
    int workers, worst_workers = 0;
    for (int i = 0; i < n; i++) {
        yk__usage_of_host(p, n, i, &u, &workers);
        if (!p[i].lost &&
            (!worst.host[0] || u.cpu_host.mean / u.host_cores > worst.cpu_host.mean / worst.host_cores)) {
            worst = u;
            worst_workers = workers;
        }
        rate = p[i].link_rate > 0.0 ? fmin(rate, p[i].link_rate) : rate;
        trip = fmax(trip, p[i].round_trip);
        if (p[i].workers > 0) {
            bytes += (double)p[i].bytes_sent + (double)p[i].bytes_received;
            steps += (double)p[i].phases.steps;
        }
    }
    yk_evidence e = evidence_of(o, w, measured, &worst);
    e.host_workers = worst_workers;
    e.bytes_per_step = steps > 0.0 ? bytes / steps : 0.0;
    e.link_rate = isfinite(rate) ? rate : 0.0;
    e.round_trip = trip;
    yk_verdict_find(&e, out);
}

yk_process yk__self_so_far(const yk_observer *o, const yk_usage *usage)
{
    yk_process self = {.workers = o->c.server ? 0 : o->c.workers,
                       .usage = *usage,
                       .link_rate = o->self.link_rate,
                       .round_trip = o->self.round_trip,
                       .bytes_sent = atomic_load_explicit(&o->sent, memory_order_relaxed),
                       .bytes_received = atomic_load_explicit(&o->received, memory_order_relaxed)};
    yk_phases_read_all(o->c.phases, o->c.workers, &self.phases);
    return self;
}

/* Completes the observations from the processes in `w`. */
static yk_status conclude(const yk_observer *o, yk_observation *w)
{
    const int most = w->nprocesses + o->c.workers;
    w->measured = w->process ? calloc((size_t)most, sizeof *w->measured) : NULL;
    if (!w->measured) {
        w->nprocesses = 0;
        return yk_fail_memory((size_t)most * (sizeof *w->measured + sizeof *w->process), "the measurements");
    }
    w->nmeasured = list_workers(o, w->process, w->nprocesses, w->measured);
    for (int i = 0; i < w->nprocesses; i++) {
        w->forward += w->process[i].forward;
        w->backward += w->process[i].backward;
    }
    yk_verdict_shares(w->measured, w->nmeasured, w->phase);
    find_verdict(o, w->process, w->nprocesses, w->measured, w->nmeasured, &w->verdict);
    return YK_OK;
}

bool yk__judge_so_far(yk_observer *o, yk_usage *usage_out, yk_verdict *out)
{
    int received;
    yk__telemetry *others = yk__telemetry_copy(o, &received);
    yk_observation w = {.nprocesses = received + 1};
    w.process = calloc((size_t)w.nprocesses, sizeof *w.process);
    yk_resources_usage(o->resources, usage_out);
    for (int i = 0; w.process && i < w.nprocesses; i++)
        w.process[i] = i ? others[i - 1].report.process : yk__self_so_far(o, usage_out);
    const bool known = !conclude(o, &w) && w.nmeasured > 0;
    *out = w.verdict;
    yk_observation_fini(&w);
    free(others);
    return known;
}

/* ---- at the end ---- */

static yk_status conclude_run(const yk_observer *o, const yk_rank_report *reports, int n, yk_observation *w)
{
    w->nprocesses = reports ? n : 1;
    w->process = calloc((size_t)w->nprocesses, sizeof *w->process);
    for (int i = 0; w->process && i < w->nprocesses; i++)
        w->process[i] = reports ? reports[i].process : o->self;
    return conclude(o, w);
}

yk_status yk_observer_conclude(yk_observer *o, const yk_rank_report *reports, int n, bool lost,
                               yk_observation *out)
{
    yk_status st = yk__timeline_save(o, o->alone || lost);
    return st || o->c.rank ? st : conclude_run(o, reports, n, out);
}

yk_status yk_observer_conclude_failed(yk_observer *o, const yk_rank_report *reports, int n,
                                      yk_observation *out)
{
    if (!o || !o->started)
        return YK_OK;
    yk_status st = o->c.rank ? YK_OK : yk__timeline_save(o, true);
    return st ? st : conclude_run(o, reports, n, out);
}
