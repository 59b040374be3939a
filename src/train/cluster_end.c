/* The end of a job: what each rank did, to the chief, which puts it together and checks that it was one training.
 *
 *     rank r    last word (tell.h) | report ->          <- are all still there?
 *     rank 0    hears all of them  | <- reports of all  ->
 *               one list: the ranks, those that were lost as they were last heard of, then those who joined
 */
#include "train/trainer.h"

#include "train/observe.h"
#include "train/tell.h"
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { TAG_REPORT = 13 };

void yk__report_of(const yk__trainer *t, const yk_process *self, yk_rank_report *out)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    *out = (yk_rank_report){.role = t->cluster.role,
                            .process = *self,
                            .steps = t->step,
                            .examples = t->trainee[0].examples,
                            .cpu_seconds =
                                (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec * 1e-6 +
                                (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec * 1e-6,
                            .peak_rss = (double)usage.ru_maxrss * 1024.0};
    memcpy(out->traffic, yk_comm_traffic(t->cluster.comm), sizeof out->traffic);
    out->process.bytes_sent = out->process.bytes_received = 0;
    for (int p = 0; p < YK_PURPOSES; p++) {
        out->process.bytes_sent += out->traffic[p].sent;
        out->process.bytes_received += out->traffic[p].received;
    }
    gethostname(out->host, sizeof out->host - 1);
}

/* What a training of several processes must have done: exchanged something. */
static yk_status check_exchange(const yk__trainer *t)
{
    const yk__cluster *k = &t->cluster;
    for (int i = 0; i < k->ranks; i++) {
        const yk_rank_report *r = &t->result->report[i];
        uint64_t bytes = 0;
        for (int p = 0; p < YK_FOR_CONTROL; p++)
            bytes += r->traffic[p].sent;
        if (!bytes && t->step > t->result->resumed_from && r->examples)
            return yk_fail(YK_ELOST,
                           "rank %d trained on %llu examples and sent nothing: this was not one training", i,
                           (unsigned long long)r->examples);
    }
    return YK_OK;
}

static bool is_lost(const yk__trainer *t, int rank)
{
    const yk__observer *o = t->observer;
    for (int i = 0; i < o->ntellers; i++)
        if (o->teller[i]->peer == rank)
            return o->teller[i]->lost_now;
    return false;
}

/* From all that are still there. */
static yk_status gather_reports(yk__trainer *t, const yk_rank_report *mine)
{
    yk__cluster *k = &t->cluster;
    yk_op *op = yk_alloc((size_t)k->ranks, sizeof *op, "the reports");
    if (!op)
        return YK_ESYSTEM;
    yk_status st = k->rank == 0
                       ? YK_OK
                       : yk_comm_send(k->comm, 0, TAG_REPORT, YK_FOR_CONTROL, mine, sizeof *mine, &op[0]);
    for (int i = 1; !st && k->rank == 0 && i < k->ranks; i++)
        if (!is_lost(t, i))
            st = yk_comm_recv(k->comm, i, TAG_REPORT, YK_FOR_CONTROL, &k->report[i], sizeof *mine, &op[i]);
    if (!st)
        st = yk_comm_wait(k->comm, op, k->ranks, 30.0, "the last counters");
    /* and back: whether all are still there, so that everybody knows what can be done together */
    char lost = (char)k->lost_somebody;
    if (!st && k->rank != 0)
        st = yk_comm_recv(k->comm, 0, TAG_REPORT, YK_FOR_CONTROL, &lost, 1, &op[0]);
    for (int i = 1; !st && k->rank == 0 && i < k->ranks; i++)
        if (k->report[i].role) /* it has sent one */
            st = yk_comm_send(k->comm, i, TAG_REPORT, YK_FOR_CONTROL, &lost, 1, &op[i]);
    if (!st)
        st = yk_comm_wait(k->comm, op, k->ranks, 30.0, "the last word");
    k->lost_somebody = lost;
    yk_free(op);
    return st;
}

/* Of ranks that are gone what was heard of them; behind the ranks, those who joined. */
static void take_heard(yk__trainer *t, yk_rank_report *report, int *n)
{
    const yk__observer *o = t->observer;
    for (int i = 0; i < o->ntellers; i++) {
        const yk__teller *teller = o->teller[i];
        const int peer = teller->peer;
        if (peer >= t->cluster.ranks && teller->known)
            report[(*n)++] = teller->word.report;
        else if (peer < t->cluster.ranks && !report[peer].role && teller->known)
            report[peer] = teller->word.report;
        else if (peer < t->cluster.ranks)
            yk__tell_blame(t, peer, &report[peer].process.look);
        if (peer < t->cluster.ranks)
            report[peer].process.lost = teller->lost_now;
    }
}

static void add_up(yk_result *r)
{
    for (int i = 0; i < r->nreports; i++) {
        r->cpu_seconds += r->report[i].cpu_seconds;
        for (int p = 0; p < YK_PURPOSES; p++) {
            r->traffic[p].sent += r->report[i].traffic[p].sent;
            r->traffic[p].received += r->report[i].traffic[p].received;
            r->traffic[p].messages_sent += r->report[i].traffic[p].messages_sent;
            r->traffic[p].messages_received += r->report[i].traffic[p].messages_received;
        }
    }
}

void yk__cluster_salvage(yk__trainer *t)
{
    yk_result *r = t->result;
    int heard;
    if (t->cluster.role == YK__ALONE || !t->observer || r->report)
        return;
    yk__telling *others = yk__heard(t->observer, &heard);
    if ((r->report = yk_alloc((size_t)heard + 1, sizeof *r->report, "the reports"))) {
        yk__report_of(t, &t->self, &r->report[0]);
        for (int i = 0; i < heard; i++)
            r->report[i + 1] = others[i].report;
        r->nreports = heard + 1;
        add_up(r);
    }
    free(others);
}

static void take_counters(yk__trainer *t)
{
    yk_result *r = t->result;
    yk_server_state s;
    yk_server_state_of(t->cluster.server, &s);
    r->observed = s.staleness;
    r->late = t->earlier_late + s.late;
    r->late_examples = t->earlier_late_examples + s.late_examples;
    r->lost = s.lost;
    r->joined = s.joined;
    r->returned = s.returned;
    t->cluster.lost_somebody |= s.lost > 0;
}

yk_status yk__cluster_finish(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    yk_result *r = t->result;
    yk_rank_report mine;
    if (k->role == YK__ALONE)
        return YK_OK;
    if (k->rank != 0)
        yk__tell_last(t);
    if (k->joined) {
        k->no_farewell = k->lost_somebody = true; /* its farewell would wait for the job that it joined */
        return YK_OK;
    }
    if (k->rank == 0)
        yk__hear_last(t);
    yk__report_of(t, &t->self, &mine);
    const size_t most = (size_t)k->ranks + (size_t)t->observer->ntellers;
    if (k->rank == 0 && !(k->report = yk_alloc(most, sizeof *k->report, "the reports")))
        return YK_ESYSTEM;
    if (k->server && k->rank == 0)
        take_counters(t);
    yk_status st = gather_reports(t, &mine);
    if (st || k->rank != 0)
        return st;
    k->report[0] = mine;
    r->nreports = k->ranks;
    take_heard(t, k->report, &r->nreports);
    r->report = k->report;
    k->report = NULL;
    add_up(r);
    return r->lost ? YK_OK : check_exchange(t);
}
