/* From what each process saw of itself to one verdict, and one timeline: the end of yk__observe (observe.h). */
#include "train/observe.h"

#include "base/clock.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the verdict ---- */

static yk_evidence evidence_of(const yk__trainer *t, const yk_witness *w, int n, const yk_usage *u)
{
    double seconds = 0.0;
    for (int i = 0; i < n; i++)
        seconds = fmax(seconds, w[i].look.seconds);
    return (yk_evidence){.in_step = t->result->staleness == 0,
                         .network = t->model->ops->profile != NULL,
                         .streamed = t->train.rows == NULL,
                         .workers = t->workers,
                         .ranks = t->cluster.ranks,
                         .threads = (int)t->config->threads,
                         .batch = t->batch,
                         .seconds = seconds,
                         .round_trips = t->cluster.role == YK__REPLICA ? 2.0 : 1.0,
                         .witness = w,
                         .nwitnesses = n,
                         .usage = u};
}

void yk__judge_so_far(yk__observer *o, yk_usage *usage_out, yk_verdict *out)
{
    const yk__trainer *t = o->t;
    yk_witness *w = calloc((size_t)t->here, sizeof *w);
    *out = (yk_verdict){0};
    yk_resources_usage(o->resources, usage_out);
    if (!w)
        return;
    uint64_t steps = 0;
    for (int i = 0; i < t->here; i++) {
        w[i].rank = t->cluster.rank;
        w[i].worker = t->cluster.role == YK__ALONE ? i : -1;
        yk_phases_read(&t->phases[i], &w[i].look);
        steps += w[i].look.steps;
    }
    yk_evidence e = evidence_of(t, w, t->here, usage_out);
    const double bytes = (double)atomic_load_explicit(&o->sent, memory_order_relaxed) +
                         (double)atomic_load_explicit(&o->received, memory_order_relaxed);
    e.bytes_per_step = steps ? bytes / (double)steps : 0.0;
    e.link_rate = t->self.link_rate;
    e.round_trip = t->self.round_trip;
    yk_verdict_find(&e, out);
    free(w);
}

/* What all of our processes on the host of process i use together; the rest of that host is others'. */
void yk__usage_of_host(const yk_process *p, int n, int i, yk_usage *out, int *workers_out)
{
    *out = p[i].usage;
    *workers_out = p[i].workers;
    for (int k = 0; k < n; k++) {
        if (k == i || strcmp(p[k].usage.host, p[i].usage.host))
            continue;
        out->cpu.mean += p[k].usage.cpu.mean;
        out->delayed.mean += p[k].usage.delayed.mean;
        *workers_out += p[k].workers;
    }
}

/* Witnesses are the workers: threads of one process, or the ranks that train. */
static void call_witnesses(yk__trainer *t, yk_watched *w)
{
    for (int i = 0; t->cluster.role == YK__ALONE && i < t->here; i++) {
        yk_witness *one = &w->witness[w->nwitnesses++];
        one->worker = i;
        yk_phases_read(&t->phases[i], &one->look);
    }
    for (int i = 0; t->cluster.role != YK__ALONE && i < w->nprocesses; i++)
        if (w->process[i].workers > 0)
            w->witness[w->nwitnesses++] =
                (yk_witness){.rank = w->process[i].rank, .worker = -1, .look = w->process[i].look};
}

static void judge(yk__trainer *t)
{
    yk_watched *w = &t->result->watched;
    yk_usage u, worst = {0};
    double rate = HUGE_VAL, trip = 0.0, bytes = 0.0, steps = 0.0;
    int workers, worst_workers = 0;
    for (int i = 0; i < w->nprocesses; i++) {
        const yk_process *p = &w->process[i];
        yk__usage_of_host(w->process, w->nprocesses, i, &u, &workers);
        if (i == 0 || u.cpu_host.mean / u.host_cores > worst.cpu_host.mean / worst.host_cores) {
            worst = u;
            worst_workers = workers;
        }
        rate = p->link_rate > 0.0 ? fmin(rate, p->link_rate) : rate;
        trip = fmax(trip, p->round_trip);
        w->forward += p->forward;
        w->backward += p->backward;
        if (p->workers > 0) {
            bytes += (double)p->bytes_sent + (double)p->bytes_received;
            steps += (double)p->look.steps;
        }
    }
    yk_verdict_shares(w->witness, w->nwitnesses, w->phase);
    yk_evidence e = evidence_of(t, w->witness, w->nwitnesses, &worst);
    e.host_workers = worst_workers;
    e.bytes_per_step = steps > 0.0 ? bytes / steps : 0.0;
    e.link_rate = isfinite(rate) ? rate : 0.0;
    e.round_trip = trip;
    yk_verdict_find(&e, &w->verdict);
}

/* ---- the timeline ---- */

/* Pieces of all ranks come to the chief. */
static yk_status save_timeline(yk__trainer *t)
{
    yk__observer *o = t->observer;
    yk__cluster *k = &t->cluster;
    const double seconds = 20.0;
    char *text, *path;
    yk_comm_pieces all = {0};
    if (!o || !o->trace)
        return YK_OK;
    yk_trace_clock(o->trace, t->clock_offset, t->clock_zero ? t->clock_zero : o->began_ns);
    yk_status st = yk_trace_text(o->trace, &text);
    if (st)
        return st;
    if (k->role != YK__ALONE && !k->lost_somebody)
        st = yk_comm_collect(k->comm, text, strlen(text) + 1, &all, seconds, "the timelines");
    if (k->rank != 0) /* the chief may have gone without, because somebody was lost: no reason to fail */
        st = YK_OK;
    if (!st && k->rank == 0) {
        if (all.n > 0)
            all.data[0] = all.data[0] ? all.data[0] : text;
        if (asprintf(&path, "%s/trace.json", t->result->run_dir) < 0) {
            st = yk_fail_memory(64, "a path");
        } else {
            st = all.n > 0 ? yk_trace_save(path, all.data, (size_t)all.n) : yk_trace_save(path, &text, 1);
            free(path);
        }
    }
    if (all.n > 0 && all.data[0] == text)
        all.data[0] = NULL;
    yk_comm_pieces_free(&all);
    free(text);
    return st;
}

yk_status yk__observe_conclude(yk__trainer *t)
{
    yk_watched *w = &t->result->watched;
    yk_status st = save_timeline(t);
    if (st || t->cluster.rank)
        return st;
    const int n = t->result->report ? t->cluster.ranks : 1;
    const int most = n > t->here ? n : t->here;
    w->process = calloc((size_t)n, sizeof *w->process);
    w->witness = calloc((size_t)most, sizeof *w->witness);
    if (!w->process || !w->witness)
        return yk_fail_memory((size_t)n * sizeof *w->process, "the results");
    for (int i = 0; i < n; i++)
        w->process[i] = t->result->report ? t->result->report[i].process : t->self;
    w->nprocesses = n;
    call_witnesses(t, w);
    judge(t);
    return YK_OK;
}

/* ---- before the first step: where is the chief, and how far away? ---- */

enum { TAG_PROBE = 14, PROBES = 8, PROBE_BYTES = 256 << 10 };

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

yk_status yk__observe_share(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    const double seconds = 120.0;
    char path[4096] = "";
    if (k->role == YK__ALONE)
        return YK_OK;
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
