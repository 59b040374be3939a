/* The evidence of a verdict as JSON, which test_replay.c replays. */
#include "evidence_json.h"

static void list(yk_json *j, const char *name, const yk_process_evidence *w, int n)
{
    yk_json_array(j, name);
    for (; n > 0; n--, w++) {
        const yk_phases_sample *p = &w->phases;
        YK_JSON(j, YK_OBJECT(NULL), YK_INT("rank", w->rank), YK_INT("worker", w->worker),
                YK_INT("steps", p->steps), YK_INT("examples", p->examples), YK_INT("timed", p->timed),
                YK_INT("barriers", p->barriers), YK_INT("last", p->last), YK_TEXT("host", w->host),
                YK_REAL("seconds", p->seconds), YK_REAL("step_mean", p->step_mean),
                YK_REAL("step_deviation", p->step_deviation), YK_REAL("busy", w->busy),
                YK_REAL("cpu", w->cpu), YK_REAL("stopped", w->stopped), YK_REAL("delayed", w->delayed),
                YK_REAL("bytes_per_step", w->bytes_per_step), YK_REAL("carried", w->link.carried),
                YK_REAL("sampled", w->link.sampled), YK_REAL("highest", w->link.highest));
        yk_json_object(j, "phases"); /* seconds */
        for (int k = 0; k < YK_PHASES; k++)
            yk_json_real(j, yk_phase_name((yk_phase)k), p->phase[k]);
        YK_JSON(j, YK_END, YK_END);
    }
    yk_json_end(j);
}

void evidence_json(yk_json *j, const yk_evidence *e)
{
    const yk_usage *u = e->usage;
    YK_JSON(j, YK_OBJECT(NULL), YK_BOOL("waits", e->waits), YK_BOOL("network", e->network),
            YK_BOOL("streamed", e->streamed), YK_TEXT("do_not_wait", e->do_not_wait),
            YK_TEXT("send_less", e->send_less), YK_INT("workers", e->workers), YK_INT("ranks", e->ranks),
            YK_INT("hosts", e->hosts), YK_INT("threads", e->threads), YK_INT("batch", e->batch),
            YK_INT("host_threads", e->host_threads), YK_INT("saves", e->saves),
            YK_REAL("seconds", e->seconds), YK_REAL("round_trips", e->round_trips),
            YK_REAL("round_trip", e->round_trip), YK_OBJECT("usage"), YK_REAL("cores", u->cores),
            YK_REAL("host_cores", u->host_cores), YK_REAL("cpu", u->cpu.mean),
            YK_REAL("cpu_host", u->cpu_host.mean), YK_REAL("delayed", u->delayed.mean),
            YK_REAL("disk_busy", u->disk_busy.mean), YK_REAL("memory_stall", u->memory_stall.mean),
            YK_REAL("major_faults", u->major_faults.mean), YK_END);
    list(j, "measured", e->measured, e->nmeasured);
    list(j, "servers", e->server, e->nservers);
    yk_json_end(j);
}
