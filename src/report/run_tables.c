#include "report/run_tables.h"

#include <math.h>
#include <stdio.h>

/* A number of the summary, or else of the samples. */
static double field_or(const json_t *o, const char *name, double otherwise)
{
    return yk_known_or(yk_number_at(o, name), otherwise);
}

static void processes(const yk_compare *c, size_t i, yk_table *t)
{
    static const yk_column columns[] = {
        {"rank", NULL, YK_UNIT_INTEGER},
        {"role", .words = true},
        {"host", .words = true},
        {"time", NULL, YK_UNIT_SECONDS},
        {"steps", NULL, YK_UNIT_INTEGER},
        {"examples", NULL, YK_UNIT_INTEGER},
        {"accuracy", "on its share of the training data, before training on it", YK_UNIT_PERCENT_EXACT},
        {"CPU", "mean number of busy cores", YK_UNIT_CORES},
        {"CPU peak", NULL, YK_UNIT_CORES},
        {"memory peak", NULL, YK_UNIT_BYTES},
        {"disk read", NULL, YK_UNIT_BYTES},
        {"disk written", NULL, YK_UNIT_BYTES},
        {"sent", "bytes of messages", YK_UNIT_BYTES},
        {"received", "bytes of messages", YK_UNIT_BYTES},
        {"sent/s", "mean", YK_UNIT_RATE},
        {"received/s", "mean", YK_UNIT_RATE},
        {"switches/s", "context switches per second", YK_UNIT_COUNT},
        {"involuntary/s", "involuntary context switches per second", YK_UNIT_COUNT}};
    const yk_run *r = &c->run[i];
    yk_process_log unknown;
    yk__process_log_init(0, &unknown);
    t->id = "processes";
    YK_TABLE_COLUMNS(t, columns);
    for (size_t k = 0; k < yk_run_processes(r); k++) {
        const yk_run_process p = yk_run_process_at(r, k);
        const yk_process_log *w = p.log ? p.log : &unknown;
        const json_t *o = p.summary;
        char role[48];
        snprintf(role, sizeof role, "%.16s%s%s", p.role,
                 json_is_true(json_object_get(o, "joined")) ? ", joined" : "",
                 json_is_true(json_object_get(o, "lost")) ? ", lost" : "");
        yk_table_row(t, -1);
        yk_table_number(t, p.rank, NAN);
        yk_table_text(t, role);
        yk_table_text(t, p.host);
        YK_TABLE_NUMBERS(
            t, field_or(o, "seconds", w->last.seconds), field_or(o, "steps", w->last.steps),
            yk_number_at(o, "examples"), yk_number_at(o, "train_accuracy"),
            field_or(o, "cpu_mean", w->mean.cpu), field_or(o, "cpu_peak", w->peak.cpu),
            field_or(o, "rss_peak", fmax(w->peak.rss, w->peak.rss_peak)),
            field_or(o, "disk_read_bytes", w->mean.disk_read * w->last.seconds),
            field_or(o, "disk_written_bytes", w->mean.disk_written * w->last.seconds),
            field_or(o, "bytes_sent", w->last.sent), field_or(o, "bytes_received", w->last.received),
            field_or(o, "sent_rate", w->mean.sent_rate), field_or(o, "received_rate", w->mean.received_rate),
            w->mean.switches, w->mean.switches_forced);
    }
}

/* In a synchronous run, a slow worker is the last one at the barriers. */
static void workers(const yk_compare *c, size_t i, yk_table *t)
{
    static const yk_column columns[] = {
        {"rank", NULL, YK_UNIT_INTEGER},
        {"worker", NULL, YK_UNIT_INTEGER},
        {"steps", NULL, YK_UNIT_INTEGER},
        {"examples", NULL, YK_UNIT_INTEGER},
        {"steps/s", "1 / mean time per step", YK_UNIT_COUNT},
        {"\u03bcs per step", "mean and standard deviation", YK_UNIT_COUNT},
        {"was last", "share of the barriers at which the other workers waited for it", YK_UNIT_PERCENT}};
    const json_t *list = yk_value_at(c->run[i].summary, "processes"), *process, *one;
    const bool several = json_array_size(list) > 1;
    size_t k, w;
    t->id = "workers";
    YK_TABLE_COLUMNS(t, columns);
    json_array_foreach(list, k, process)
    {
        json_array_foreach(json_object_get(process, "workers"), w, one)
        {
            const bool old = !json_object_get(one, "barriers"); /* version 0.1.0 */
            const double seconds = yk_number_at(one, "step_seconds"),
                         barriers = yk_number_at(one, old ? "meetings" : "barriers");
            if (t->rows == 256)
                break;
            yk_table_row(t, -1);
            YK_TABLE_NUMBERS(t, several ? yk_number_at(process, "rank") : NAN, yk_number_at(one, "worker"),
                             yk_number_at(one, "steps"), yk_number_at(one, "examples"),
                             seconds > 0.0 ? 1.0 / seconds : NAN);
            yk_table_number(t, seconds * 1e6, yk_number_at(one, "step_deviation") * 1e6);
            yk_table_number(t, barriers > 0.0 ? yk_number_at(one, "came_last") / barriers : NAN, NAN);
        }
    }
}

static void traffic(const yk_compare *c, size_t i, yk_table *t)
{
    static const yk_column columns[] = {{"purpose", .words = true},
                                        {"sent", NULL, YK_UNIT_BYTES},
                                        {"received", NULL, YK_UNIT_BYTES},
                                        {"messages", NULL, YK_UNIT_INTEGER}};
    const char *name;
    json_t *o, *all = (json_t *)yk_value_at(c->run[i].summary, "traffic"); /* it is only read */
    t->id = "traffic";
    YK_TABLE_COLUMNS(t, columns);
    json_object_foreach(all, name, o)
    {
        if (!json_is_object(o) || !(yk_number_at(o, "sent") + yk_number_at(o, "received") > 0.0))
            continue;
        yk_table_row(t, -1);
        yk_table_text(t, name);
        YK_TABLE_NUMBERS(t, yk_number_at(o, "sent"), yk_number_at(o, "received"),
                         yk_number_at(o, "messages"));
    }
}

static void alerts(const yk_compare *c, size_t i, yk_table *t)
{
    static const yk_column columns[] = {{"resource", .words = true},
                                        {"rank", NULL, YK_UNIT_INTEGER},
                                        {"start", NULL, YK_UNIT_SECONDS},
                                        {"duration", NULL, YK_UNIT_SECONDS},
                                        {"level", "share of the capacity", YK_UNIT_PERCENT}};
    const yk_run *r = &c->run[i];
    t->id = "alerts";
    t->note = "Times at which a resource stayed above 90 % of its capacity; shaded in the plots.";
    YK_TABLE_COLUMNS(t, columns);
    for (size_t w = 0; w < r->logs; w++)
        for (size_t k = 0; k < r->log[w].alerts && t->rows < 40; k++) {
            const yk_run_alert *a = &r->log[w].alert[k];
            yk_table_row(t, -1);
            yk_table_text(t, a->what);
            YK_TABLE_NUMBERS(t, r->log[w].rank, a->begin, a->seconds, a->level);
        }
}

void yk_run_table_make(const yk_compare *c, size_t i, yk_run_table which, yk_table *out)
{
    static void (*const make[YK_RUN_TABLES])(const yk_compare *c, size_t i,
                                             yk_table *t) = {workers, processes, traffic, alerts};
    *out = (yk_table){.id = ""};
    make[which](c, i, out);
}
