/* One verdict from the measurements of all processes, during training and at the end. */
#include "observe/observe_internal.h"

#include <stdlib.h>
#include <string.h>

static bool same_host(const yk_process *a, const yk_process *b)
{
    return strcmp(a->usage.host, b->usage.host) == 0;
}

/* Threads of a process that need a core: workers, or one that serves. A worker uses at most as many --threads as cores. */
static int threads_of(const yk_observer *o, const yk_process *p)
{
    const int cores = p->usage.cores >= 1.0 ? (int)p->usage.cores : 1, wanted = o->c.plan->threads,
              threads = wanted > cores ? cores : wanted;
    return p->workers ? p->workers * (threads > 1 ? threads : 1) : 1;
}

void yk__usage_of_host(const yk_process *p, int n, int i, yk_usage *out)
{
    *out = p[i].usage;
    for (int k = 0; k < n; k++) {
        if (k == i || !same_host(&p[k], &p[i]))
            continue;
        const double part =
            p[i].usage.seconds > 0.0 ? fmin(p[k].usage.seconds / p[i].usage.seconds, 1.0) : 0.0;
        out->cpu.mean += part * p[k].usage.cpu.mean;
        out->delayed.mean += part * p[k].usage.delayed.mean;
    }
}

static double bytes_per_step(const yk_process *p)
{
    const uint64_t all = p->bytes_sent + p->bytes_received,
                   bytes = all > p->probe_bytes ? all - p->probe_bytes : 0;
    return p->phases.steps ? (double)bytes / (double)p->phases.steps : 0.0;
}

/* How much a link carried, and more if the rate was constant: of two directions, this finds the one that limits the other. */
static double fullness(const yk_mean_peak *m)
{
    return m->peak > 0.0 ? m->mean * m->mean / m->peak : 0.0;
}

/* The fullest interface and direction of process i's host. Probes measured lower bounds for both of their ends (link.c): the
 * host of the chief, and the first other host, which is the other end of `peer_rate`. */
static yk_link_evidence link_of(const yk_process *p, int n, int i)
{
    const yk_usage *u = &p[i].usage;
    yk_mean_peak busiest = {0};
    int other = 0;
    for (int k = 0; k < 2 * u->nnics; k++) {
        const yk_mean_peak *one = k % 2 ? &u->nic[k / 2].out : &u->nic[k / 2].in;
        busiest = fullness(one) > fullness(&busiest) ? *one : busiest;
    }
    if (!u->nnics)
        busiest = u->sent.mean > u->received.mean ? u->sent : u->received;
    double highest = busiest.peak;
    while (other < n - 1 && same_host(&p[other], &p[0]))
        other++;
    for (int k = 0; k < n; k++)
        if (!same_host(&p[k], &p[0])) {
            const bool own = same_host(&p[k], &p[i]);
            highest = fmax(highest, own || same_host(&p[i], &p[0]) ? p[k].link_rate : 0.0);
            highest = fmax(highest, own || same_host(&p[i], &p[other]) ? p[k].peer_rate : 0.0);
        }
    const double trained = p[i].phases.seconds;
    return (yk_link_evidence){trained > 0.0 ? busiest.mean * u->seconds / trained : 0.0, busiest.peak,
                              highest};
}

/* Lists the workers that are not lost (the threads of one process, or the ranks that train) and, after them, the servers that
 * do not train. */
static void list_measured(const yk_observer *o, yk_observation *w)
{
    const int n = w->nprocesses;
    for (int i = 0; o->single_process && i < o->c.workers; i++) {
        w->measured[w->nmeasured].worker = i;
        yk_phases_read(&o->c.phases[i], &w->measured[w->nmeasured++].phases);
    }
    for (int k = 0; !o->single_process && k < 2 * n; k++) {
        const yk_process *p = &w->process[k % n];
        const yk_phases_sample *s = &p->phases;
        const bool server = k >= n;
        if (p->lost || server != !p->workers)
            continue;
        w->measured[w->nmeasured + w->nservers] = (yk_process_evidence){
            .rank = p->rank,
            .worker = -1,
            .host = p->usage.host,
            .phases = *s,
            .busy = s->seconds > 0.0 ? 1.0 - s->phase[YK_PHASE_WAITING] / s->seconds : 0.0,
            .cpu = p->usage.cpu.mean,
            .stopped = p->usage.stopped,
            .delayed = p->usage.delayed.mean,
            .bytes_per_step = bytes_per_step(p),
            .link = link_of(w->process, n, k % n)};
        *(server ? &w->nservers : &w->nmeasured) += 1;
    }
}

/* The busiest host, and the threads of this run on it. */
static void find_busiest(const yk_observer *o, const yk_process *p, int n, yk_usage *out, int *threads_out)
{
    yk_usage u;
    *out = (yk_usage){0};
    *threads_out = 0;
    for (int i = 0; i < n; i++) {
        yk__usage_of_host(p, n, i, &u);
        if (p[i].lost ||
            (out->host[0] && u.cpu_host.mean / u.host_cores <= out->cpu_host.mean / out->host_cores))
            continue;
        *out = u;
        *threads_out = 0;
        for (int k = 0; k < n; k++)
            if (!p[k].lost && same_host(&p[k], &p[i]))
                *threads_out += threads_of(o, &p[k]);
    }
}

/* The verdict from the measurements of the processes and their workers in `w`. */
static void find_verdict(const yk_observer *o, yk_observation *w)
{
    const yk_plan *plan = o->c.plan;
    const yk_process *p = w->process;
    const int n = w->nprocesses;
    yk_usage busiest;
    yk_evidence e = {.waits = !plan->staleness,
                     .do_not_wait =
                         o->c.ranks > 1 && !plan->quorum ? "--mode async, or --quorum" : "--mode async",
                     .send_less = plan->local_steps > 1 ? "a larger --local-steps" : "--local-steps",
                     .saves = atomic_load(&o->saves),
                     .network = o->c.model->ops->threads != NULL,
                     .streamed = o->c.streamed,
                     .workers = plan->workers,
                     .ranks = o->c.ranks,
                     .threads = plan->threads,
                     .batch = plan->batch,
                     .measured = w->measured,
                     .nmeasured = w->nmeasured,
                     .server = w->measured + w->nmeasured,
                     .nservers = w->nservers,
                     .usage = &busiest,
                     .round_trips = (plan->placement == YK_PLACEMENT_REPLICAS ? 2.0 : 1.0) /
                                    fmax(1.0, (double)plan->local_steps)};
    for (int i = 0; i < w->nmeasured; i++)
        e.seconds = fmax(e.seconds, w->measured[i].phases.seconds);
    find_busiest(o, p, n, &busiest, &e.host_threads);
    for (int i = 0; i < n; i++) {
        e.hosts += yk__first_of_host(p, i);
        if (!same_host(&p[i], &p[0]))
            e.round_trip = fmax(e.round_trip, p[i].round_trip);
    }
    yk_verdict_find(&e, &w->verdict);
}

/* Completes the observations from the processes in `w`. */
static yk_status conclude(const yk_observer *o, yk_observation *w)
{
    const int max = w->nprocesses + o->c.workers;
    w->measured = w->process ? calloc((size_t)max, sizeof *w->measured) : NULL;
    if (!w->measured)
        return yk_fail_memory((size_t)max * (sizeof *w->measured + sizeof *w->process), "the measurements");
    list_measured(o, w);
    find_verdict(o, w);
    return YK_OK;
}

bool yk__verdict_so_far(yk_observer *o, yk_usage *usage_out, yk_verdict *out)
{
    yk_observation w = {0};
    yk_resources_usage(o->resources, usage_out);
    const yk_process self = yk__self_so_far(o, usage_out);
    w.process = yk__processes(o, &self, &w.nprocesses);
    const bool known = !conclude(o, &w) && w.nmeasured > 0;
    *out = w.verdict;
    yk_observation_fini(&w);
    return known;
}

/* ---- at the end ---- */

yk_status yk__list_processes(yk_observer *o, yk_observation *w)
{
    yk_process self = o->self;
    w->job = !o->single_process;
    if (w->job)
        yk__count_traffic(o, &self);
    w->process = yk__processes(o, &self, &w->nprocesses);
    return w->process ? YK_OK : yk_fail_memory(sizeof *w->process, "the measurements");
}

static yk_status conclude_run(yk_observer *o, yk_observation *w)
{
    yk_status st = w->process ? YK_OK : yk__list_processes(o, w);
    return st ? st : conclude(o, w);
}

yk_status yk_observer_conclude(yk_observer *o, bool lost, yk_observation *out)
{
    yk_status st = yk__timeline_save(o, o->single_process || lost);
    return st || o->c.rank ? st : conclude_run(o, out);
}

yk_status yk_observer_conclude_failed(yk_observer *o, yk_observation *out)
{
    if (!o || !o->started || out->measured)
        return YK_OK;
    yk_status st = o->c.rank ? YK_OK : yk__timeline_save(o, true);
    return st ? st : conclude_run(o, out);
}
