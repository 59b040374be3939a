/* The end of a job: the reports of all ranks (observe/observe.h), checked and added up on the chief. */
#include "train/trainer.h"

/* What a training of several processes must have done: exchanged something. */
static yk_status check_exchange(const yk__trainer *t)
{
    const yk__cluster *k = &t->cluster;
    for (int i = 0; i < k->ranks; i++) {
        const yk_rank_report *r = &t->result->report[i];
        uint64_t bytes = 0;
        for (int p = 0; p < YK_FOR_CONTROL; p++)
            bytes += r->traffic[p].sent;
        const uint64_t examples = r->process.phases.examples;
        if (!bytes && t->step > t->result->resumed_from && examples)
            return yk_fail(YK_ELOST,
                           "rank %d trained on %llu examples and sent nothing: this was not one training", i,
                           (unsigned long long)examples);
    }
    return YK_OK;
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
    if (!r->report && !yk_observer_reports(t->observer, &r->report, &r->nreports) && r->report)
        add_up(r);
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
    if (k->role == YK__ALONE)
        return YK_OK;
    if (k->server && k->rank == 0)
        take_counters(t);
    yk_status st = yk_observer_gather(t->observer, &k->lost_somebody, &r->report, &r->nreports);
    if (k->joined)
        k->no_finalize = k->lost_somebody = true; /* its farewell would wait for the job that it joined */
    if (st || !r->report)
        return st;
    add_up(r);
    return r->lost ? YK_OK : check_exchange(t);
}
