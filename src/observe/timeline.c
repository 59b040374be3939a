/* The trace: a timeline of each worker and the counters of each process; all ranks in one file. */
#include "observe/observe_internal.h"

#include <stdlib.h>
#include <string.h>

enum { TRACE_EVENTS = 1 << 18, MAX_TRACK = 1 << 15, MIN_TRACK = 1 << 11, COUNTERS = 1 << 14 };

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
    return st ? st : add_track(o, "counters", COUNTERS, &o->counters);
}

void yk__timeline_sample(yk_observer *o, const yk_sample *s, const yk_progress_report *p)
{
    const uint64_t now = yk_now_ns();
    yk_trace_counter(o->counters, "CPU cores", now, s->cpu);
    yk_trace_counter(o->counters, "resident MB", now, s->rss * 1e-6);
    yk_trace_counter(o->counters, "loss", now, p->loss);
    yk_trace_counter(o->counters, "examples/s", now, p->examples_per_second);
    yk_trace_counter(o->counters, "sent MB/s", now, s->sent * 1e-6);
    yk_trace_counter(o->counters, "received MB/s", now, s->received * 1e-6);
    if (o->first_of_host) {
        yk_trace_counter(o->counters, "host interfaces received MB/s", now, s->net_in * 1e-6);
        yk_trace_counter(o->counters, "host interfaces sent MB/s", now, s->net_out * 1e-6);
    }
    yk_trace_counter(o->counters, "disk MB/s", now, (s->disk_read + s->disk_written) * 1e-6);
}

yk_status yk__timeline_save(yk_observer *o, bool single_process)
{
    char *text;
    yk_comm_pieces all = {0};
    if (!o->trace)
        return YK_OK;
    yk_trace_clock(o->trace, o->clock_offset, o->clock_zero ? o->clock_zero : o->began_ns);
    yk_status st = yk_trace_text(o->trace, &text);
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
