/* The trace: a timeline of each worker and the history of each process as counters; all ranks in one file. */
#include "observe/observe_internal.h"

#include <stdlib.h>
#include <string.h>

enum { TRACE_EVENTS = 1 << 18, MAX_TRACK = 1 << 15, MIN_TRACK = 1 << 11 };

static yk_status add_track(yk_observer *o, const char *name, size_t events, yk_trace_track **out)
{
    *out = yk_trace_add(o->trace, name, events);
    return *out ? YK_OK : yk_fail_memory(events * 40, "the trace");
}

yk_status yk__timeline_start(yk_observer *o)
{
    const yk_observer_config *c = &o->c;
    if (!c->config->trace)
        return YK_OK;
    yk_status st = yk_trace_create(c->rank, o->base.role, &o->trace);
    size_t events = TRACE_EVENTS / (size_t)c->plan->workers;
    events = events > MAX_TRACK ? MAX_TRACK : events < MIN_TRACK ? MIN_TRACK : events;
    for (int i = 0; !st && i < c->workers; i++) {
        char name[32];
        snprintf(name, sizeof name, "worker %d", i);
        st = add_track(o, c->workers > 1 ? name : o->base.role, events, &c->phases[i].track);
        if (!st && c->model->ops->network)
            yk_net_timeline(c->model->ops->network(c->work(c->context, i)), c->phases[i].track);
    }
    if (!st && c->serving)
        st = add_track(o, "server", events, &c->serving->track);
    return st;
}

/* The history as counters. */
static yk_status add_counters(yk_observer *o)
{
    enum { COUNTERS = 9 };
    const yk__curve *h = &o->history.process;
    if (o->counters) /* the run fails after it was saved */
        return YK_OK;
    yk_status st = add_track(o, "counters", 2 * COUNTERS * YK__POINTS, &o->counters);
    yk_trace_track *w = o->counters;
    for (const yk__point *p = h->point; !st && p < h->point + h->n; p++) {
        const uint64_t at = (uint64_t)p->at;
        yk_trace_counter(w, "CPU cores", at, p->process.cpu);
        yk_trace_counter(w, "resident MB", at, p->process.rss * 1e-6);
        yk_trace_counter(w, "loss", at, p->loss);
        yk_trace_counter(w, "examples/s", at, p->examples_per_second);
        yk_trace_counter(w, "sent MB/s", at, p->process.sent * 1e-6);
        yk_trace_counter(w, "received MB/s", at, p->process.received * 1e-6);
        if (o->first_of_host) {
            yk_trace_counter(w, "host interfaces received MB/s", at, p->net_in * 1e-6);
            yk_trace_counter(w, "host interfaces sent MB/s", at, p->net_out * 1e-6);
        }
        yk_trace_counter(w, "disk MB/s", at, (p->disk_read + p->disk_written) * 1e-6);
    }
    return st;
}

yk_status yk__timeline_save(yk_observer *o, bool single_process)
{
    char *text;
    yk_comm_pieces all = {0};
    if (!o->trace)
        return YK_OK;
    yk_trace_clock(o->trace, o->clock_offset, o->clock_zero ? o->clock_zero : o->began_ns);
    yk_status st = add_counters(o);
    if (!st)
        st = yk_trace_text(o->trace, &text);
    if (st)
        return st;
    if (!single_process)
        st = yk_comm_gatherv(o->c.comm, text, strlen(text) + 1, &all, o->c.plan->report_timeout,
                             "the traces of the ranks");
    if (o->c.rank != 0) /* if a rank is lost, the chief does not gather; that is not an error */
        st = YK_OK;
    else if (!st && !o->unchanged)
        st = yk_trace_save(o->c.run_dir, "trace.json", all.n ? all.data : &text, all.n ? (size_t)all.n : 1);
    yk_comm_pieces_free(&all);
    free(text);
    return st;
}
