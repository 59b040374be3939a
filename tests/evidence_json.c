/* The evidence of a verdict as JSON, which test_replay.c replays. */
#include "evidence_json.h"

static void list(yk_json *j, const char *name, const yk_process_evidence *w, int n)
{
    yk_json_array(j, name);
    for (; n > 0; n--, w++) {
        const yk_phases_sample *p = &w->phases;
        yk_json_object(j, NULL);
        YK_JSON_INTS(j, {"rank", w->rank}, {"worker", w->worker}, {"steps", p->steps},
                     {"examples", p->examples}, {"timed", p->timed}, {"barriers", p->barriers},
                     {"last", p->last});
        yk_json_text(j, "host", w->host);
        YK_JSON_REALS(j, {"seconds", p->seconds}, {"step_mean", p->step_mean},
                      {"step_deviation", p->step_deviation}, {"busy", w->busy}, {"cpu", w->cpu},
                      {"stopped", w->stopped}, {"delayed", w->delayed}, {"bytes_per_step", w->bytes_per_step},
                      {"carried", w->link.carried}, {"sampled", w->link.sampled},
                      {"highest", w->link.highest});
        yk_json_object(j, "phases"); /* seconds */
        for (int k = 0; k < YK_PHASES; k++)
            yk_json_real(j, yk_phase_name((yk_phase)k), p->phase[k]);
        yk_json_end(j);
        yk_json_end(j);
    }
    yk_json_end(j);
}

void evidence_json(yk_json *j, const yk_evidence *e)
{
    const yk_usage *u = e->usage;
    yk_json_object(j, NULL);
    yk_json_bool(j, "waits", e->waits);
    yk_json_bool(j, "network", e->network);
    yk_json_bool(j, "streamed", e->streamed);
    YK_JSON_TEXTS(j, {"do_not_wait", e->do_not_wait}, {"send_less", e->send_less});
    YK_JSON_INTS(j, {"workers", e->workers}, {"ranks", e->ranks}, {"hosts", e->hosts},
                 {"threads", e->threads}, {"batch", e->batch}, {"host_threads", e->host_threads},
                 {"saves", e->saves});
    YK_JSON_REALS(j, {"seconds", e->seconds}, {"round_trips", e->round_trips}, {"round_trip", e->round_trip});
    yk_json_object(j, "usage");
    YK_JSON_REALS(j, {"cores", u->cores}, {"host_cores", u->host_cores}, {"cpu", u->cpu.mean},
                  {"cpu_host", u->cpu_host.mean}, {"delayed", u->delayed.mean},
                  {"disk_busy", u->disk_busy.mean}, {"memory_stall", u->memory_stall.mean},
                  {"major_faults", u->major_faults.mean});
    yk_json_end(j);
    list(j, "measured", e->measured, e->nmeasured);
    list(j, "servers", e->server, e->nservers);
    yk_json_end(j);
}
