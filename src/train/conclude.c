/* From what each process saw of itself to one verdict, and one timeline: the end of yk__observe (observe.h). */
#include "train/observe.h"

#include "base/clock.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the verdict ---- */

static yk_evidence evidence_of(const yk__trainer *t, const yk_witness *w, int n, const yk_usage *u)
{
    double seconds = 0.0;
    for (int i = 0; i < n; i++)
        seconds = fmax(seconds, w[i].look.seconds);
    return (yk_evidence){
        .in_step = t->plan->staleness == 0,
        .network = t->model->ops->profile != NULL,
        .streamed = t->cluster.role == YK__SERVER ? t->cluster.place_kind == 3 /* it reads nothing */
                                                  : t->train.rows == NULL,
        .workers = t->plan->workers,
        .ranks = t->cluster.ranks,
        .threads = (int)t->config->threads,
        .batch = t->plan->batch,
        .seconds = seconds,
        .round_trips = (t->cluster.role == YK__REPLICA ? 2.0 : 1.0) / fmax(1.0, (double)t->plan->local_steps),
        .witness = w,
        .nwitnesses = n,
        .usage = u};
}

/* What all of our processes on the host of process i use together; the rest of that host is others'. Of one that was not there
 * for as long only as much counts. */
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

/* Witnesses are the workers that are there: threads of one process, or the ranks that train. */
static int call_witnesses(const yk__trainer *t, const yk_process *p, int n, yk_witness *out)
{
    int found = 0;
    for (int i = 0; t->cluster.role == YK__ALONE && i < t->here; i++) {
        out[found] = (yk_witness){.worker = i};
        yk_phases_read(&t->phases[i], &out[found++].look);
    }
    for (int i = 0; t->cluster.role != YK__ALONE && i < n; i++)
        if (p[i].workers > 0 && !p[i].lost)
            out[found++] = (yk_witness){.rank = p[i].rank, .worker = -1, .look = p[i].look};
    return found;
}

/* From what n processes saw of themselves, and their workers as witnesses. */
static void judge(const yk__trainer *t, const yk_process *p, int n, const yk_witness *w, int witnesses,
                  yk_verdict *out)
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
            steps += (double)p[i].look.steps;
        }
    }
    yk_evidence e = evidence_of(t, w, witnesses, &worst);
    e.host_workers = worst_workers;
    e.bytes_per_step = steps > 0.0 ? bytes / steps : 0.0;
    e.link_rate = isfinite(rate) ? rate : 0.0;
    e.round_trip = trip;
    yk_verdict_find(&e, out);
}

/* This process while it runs, as the sampling thread can see it. */
static yk_process self_so_far(const yk__observer *o, const yk_usage *usage)
{
    const yk__trainer *t = o->t;
    yk_process self = {.workers = t->cluster.role == YK__SERVER ? 0 : t->here,
                       .usage = *usage,
                       .link_rate = t->self.link_rate,
                       .round_trip = t->self.round_trip,
                       .bytes_sent = atomic_load_explicit(&o->sent, memory_order_relaxed),
                       .bytes_received = atomic_load_explicit(&o->received, memory_order_relaxed)};
    yk_phases_read(&t->phases[0], &self.look);
    return self;
}

bool yk__judge_so_far(yk__observer *o, yk_usage *usage_out, yk_verdict *out)
{
    const yk__trainer *t = o->t;
    int heard;
    yk__telling *others = yk__heard(o, &heard);
    yk_process *p = calloc((size_t)heard + 1, sizeof *p);
    yk_witness *w = calloc((size_t)(heard + t->here), sizeof *w);
    *out = (yk_verdict){0};
    yk_resources_usage(o->resources, usage_out);
    int witnesses = 0;
    if (p && w) {
        p[0] = self_so_far(o, usage_out);
        for (int i = 0; i < heard; i++)
            p[i + 1] = others[i].report.process;
        if ((witnesses = call_witnesses(t, p, heard + 1, w)) > 0)
            judge(t, p, heard + 1, w, witnesses, out);
    }
    free(others);
    free(p);
    free(w);
    return witnesses > 0;
}

/* ---- the timeline ---- */

/* Pieces of all ranks come to the chief; where the run has failed, its own has to do. */
static yk_status save_timeline(yk__trainer *t, bool failed)
{
    yk__observer *o = t->observer;
    yk__cluster *k = &t->cluster;
    const double seconds = 20.0;
    char *text;
    yk_comm_pieces all = {0};
    if (!o || !o->trace || (failed && k->rank))
        return YK_OK;
    yk_trace_clock(o->trace, t->clock_offset, t->clock_zero ? t->clock_zero : o->began_ns);
    yk_status st = yk_trace_text(o->trace, &text);
    if (st)
        return st;
    if (k->role != YK__ALONE && !k->lost_somebody && !failed)
        st = yk_comm_collect(k->comm, text, strlen(text) + 1, &all, seconds, "the timelines");
    if (k->rank != 0) /* the chief may have gone without, because somebody was lost: no reason to fail */
        st = YK_OK;
    if (!st && k->rank == 0 && !yk__was_done(t)) {
        if (all.n > 0)
            all.data[0] = all.data[0] ? all.data[0] : text;
        st = yk_trace_save(t->result->run_dir, "trace.json", all.n > 0 ? all.data : &text,
                           all.n > 0 ? (size_t)all.n : 1);
    }
    if (all.n > 0 && all.data[0] == text)
        all.data[0] = NULL;
    yk_comm_pieces_free(&all);
    free(text);
    return st;
}

static yk_status call_processes(yk__trainer *t, yk_watched *w)
{
    const yk_result *r = t->result;
    const int n = r->report ? r->nreports : 1;
    w->process = calloc((size_t)n, sizeof *w->process);
    if (!w->process)
        return yk_fail_memory((size_t)n * sizeof *w->process, "the results");
    for (int i = 0; i < n; i++)
        w->process[i] = r->report ? r->report[i].process : t->self;
    w->nprocesses = n;
    return YK_OK;
}

yk_status yk__observe_conclude(yk__trainer *t, bool failed)
{
    yk_watched *w = &t->result->watched;
    yk_status st = save_timeline(t, failed);
    if (st || (t->cluster.rank && !failed) || (st = call_processes(t, w)))
        return st;
    const int most = w->nprocesses + t->here;
    w->witness = calloc((size_t)most, sizeof *w->witness);
    if (!w->witness)
        return yk_fail_memory((size_t)most * sizeof *w->witness, "the results");
    w->nwitnesses = call_witnesses(t, w->process, w->nprocesses, w->witness);
    for (int i = 0; i < w->nprocesses; i++) {
        w->forward += w->process[i].forward;
        w->backward += w->process[i].backward;
    }
    yk_verdict_shares(w->witness, w->nwitnesses, w->phase);
    judge(t, w->process, w->nprocesses, w->witness, w->nwitnesses, &w->verdict);
    return YK_OK;
}

/* ---- before the first step: where is the chief, and how far away? ---- */

enum { TAG_PROBE = 14, PROBES = 8, PROBE_BYTES = 256 << 10, MOST_FOLDERS = 10000 };

/* Rank 0 answers rank `other`, which measures: small messages, and a large one. */
static yk_status probe(yk__trainer *t, int other, char *buf)
{
    yk_comm *c = t->cluster.comm;
    const bool asks = t->cluster.rank == other;
    const int peer = asks ? 0 : other;
    double best = HUGE_VAL, large = HUGE_VAL;
    int64_t offset = 0;
    yk_status st = YK_OK;
    for (int i = 0; !st && i < PROBES + 2; i++) {
        const size_t bytes = i < PROBES ? sizeof(uint64_t) : PROBE_BYTES;
        yk_op op[2];
        memset(op, 0, sizeof op);
        const uint64_t began = yk_now_ns();
        if (asks) { /* there: all of it; back: the time there */
            uint64_t theirs = 0;
            if (!(st = yk_comm_recv(c, peer, TAG_PROBE, YK_FOR_CONTROL, &theirs, sizeof theirs, &op[0])) &&
                !(st = yk_comm_send(c, peer, TAG_PROBE, YK_FOR_CONTROL, buf, bytes, &op[1])))
                st = yk_comm_wait(c, op, 2, 60.0, "the answer to a probe");
            const uint64_t ended = yk_now_ns();
            const double took = (double)(ended - began) * 1e-9;
            if (i < PROBES && took < best) {
                best = took;
                offset = (int64_t)(theirs - began - (ended - began) / 2);
            } else if (i >= PROBES) {
                large = fmin(large, took);
            }
        } else {
            if (!(st = yk_comm_recv(c, peer, TAG_PROBE, YK_FOR_CONTROL, buf, PROBE_BYTES, &op[0])))
                st = yk_comm_wait(c, op, 1, 60.0, "a probe");
            uint64_t now = yk_now_ns();
            if (!st && !(st = yk_comm_send(c, peer, TAG_PROBE, YK_FOR_CONTROL, &now, sizeof now, &op[1])))
                st = yk_comm_wait(c, op + 1, 1, 60.0, "the answer to a probe");
        }
    }
    if (asks && !st) {
        t->self.round_trip = best;
        t->self.link_rate = PROBE_BYTES / fmax(large - best, 1e-6);
        t->clock_offset = offset;
    }
    return st;
}

/* One that joins has the run directory before it, and takes a folder in it that is nobody's; none: it goes without. How long
 * the run has been going on the chief's last line says. */
static yk_status take_folder(yk__trainer *t)
{
    char path[4096], folder[4096 + 32];
    char line[1024];
    if (!realpath(t->config->join, path) || access(path, W_OK))
        return YK_OK;
    snprintf(folder, sizeof folder, "%s/metrics.jsonl", path);
    yk__lines_last(folder, "seconds", line, sizeof line);
    const double seconds = yk__line_number(line, "seconds");
    t->earlier_seconds = seconds > 0.0 ? seconds : 0.0;
    for (t->number = 1; t->number < MOST_FOLDERS; t->number++) {
        snprintf(folder, sizeof folder, "%s/worker-%d", path, t->number);
        if (mkdir(folder, 0777) == 0)
            return (t->shared_dir = strdup(path)) ? YK_OK : yk_fail_memory(strlen(path), "a path");
        if (errno != EEXIST)
            break;
    }
    return YK_OK;
}

yk_status yk__observe_share(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    const double seconds = 120.0;
    char path[4096] = "";
    t->number = k->rank;
    if (k->role == YK__ALONE)
        return YK_OK;
    if (k->joined)
        return take_folder(t);
    if (k->rank == 0 && t->result->run_dir && !realpath(t->result->run_dir, path))
        path[0] = '\0';
    yk_status st = yk_comm_share(k->comm, path, sizeof path, seconds, "the run directory");
    if (st)
        return st;
    if (k->rank > 0 && path[0] && access(path, W_OK) == 0 && !(t->shared_dir = strdup(path)))
        return yk_fail_memory(strlen(path), "a path");
    char *buf = calloc(1, PROBE_BYTES);
    if (!buf)
        return yk_fail_memory(PROBE_BYTES, "a probe");
    for (int i = 1; !st && i < k->ranks; i++)
        if (k->rank == 0 || k->rank == i)
            st = probe(t, i, buf);
    free(buf);
    uint64_t zero = yk_now_ns();
    if (!st)
        st = yk_comm_share(k->comm, &zero, sizeof zero, seconds, "the others' probes");
    t->clock_zero = zero;
    return st;
}
