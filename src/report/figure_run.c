/* The figures of one run: what each of its processes used over time, and where their time went. */
#include "report/figure.h"

#include "base/mem.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ONE_X = 1 << YK_X_STEP, MOST_LINES = 12, MOST_BARS = 64, MOST_BANDS = 64 };

typedef struct {
    const char *id, *title;
    const char *alert; /* what of its alerts is shaded */
    yk_unit unit;
    bool so_far; /* a count: what is drawn is how fast it grows */
    struct {
        const char *name;
        size_t offset;
    } part[2];
} resource;

#define AT(field) offsetof(yk_run_sample, field)

static const resource resources[] = {
    {"cpu", "CPU", "cpu", YK_UNIT_CORES, false, {{NULL, AT(cpu)}}},
    {"memory", "Memory", "memory", YK_UNIT_BYTES, false, {{NULL, AT(rss)}}},
    {"traffic",
     "Sent and received by the program",
     NULL,
     YK_UNIT_RATE,
     true,
     {{"sent", AT(sent)}, {"received", AT(received)}}},
    {"network",
     "Network interfaces",
     "network",
     YK_UNIT_RATE,
     false,
     {{"in", AT(net_in)}, {"out", AT(net_out)}}},
    {"loopback",
     "Network within the machine",
     NULL,
     YK_UNIT_RATE,
     false,
     {{"in", AT(lo_in)}, {"out", AT(lo_out)}}},
    {"disk", "Disk", "disk", YK_UNIT_RATE, false, {{"read", AT(disk_read)}, {"written", AT(disk_written)}}},
};

/* Sample m of a process: itself, or, of a count, its growth since the one before. */
static double drawn(const yk_run_worker *w, size_t m, const resource *q, int part)
{
    const yk_run_sample *s = &w->sample.row[m];
    double now = yk_double_at(s, q->part[part].offset);
    if (!q->so_far)
        return now;
    double before = m ? yk_double_at(s - 1, q->part[part].offset) : 0.0,
           since = s->seconds - (m ? (s - 1)->seconds : 0.0);
    return since > 0.0 && now >= before ? (now - before) / since : NAN; /* a resumed run counts anew */
}

static void name_process(const yk_run *r, const yk_run_worker *w, const char *part, char *out, size_t room)
{
    const char *role = w->role[0] ? w->role : "worker";
    if (r->workers == 1)
        snprintf(out, room, "%s", part ? part : "this run");
    else
        snprintf(out, room, "%s %d%s%s", role, w->rank, part ? ", " : "", part ? part : "");
}

/* What there is on the host of the processes, where they share one; NAN where not. */
static double there_is(const yk_run *r, const char *id)
{
    double most = NAN;
    for (size_t i = 0; i < r->workers; i++) {
        double x = !strcmp(id, "cpu")      ? r->worker[i].cores
                   : !strcmp(id, "memory") ? r->worker[i].memory
                                           : r->worker[i].link;
        if (strcmp(r->worker[i].host, r->worker[0].host) || (i && x != most))
            return NAN;
        most = x;
    }
    return most;
}

/* Alerts of several processes at the same time are one band. */
static void add_bands(yk_figure *f, const yk_run_worker *w, const char *what)
{
    for (size_t i = 0; what && i < w->alerts; i++) {
        const yk_run_alert *a = &w->alert[i];
        if (strcmp(a->what, what) || !(a->seconds > 0.0) || !isfinite(a->begin))
            continue;
        double begin = a->begin, end = a->begin + a->seconds;
        for (size_t k = 0; k < f->bands;)
            if (f->band[k].begin <= end && begin <= f->band[k].end) { /* grows by it, and takes its place */
                begin = fmin(begin, f->band[k].begin);
                end = fmax(end, f->band[k].end);
                f->band[k] = f->band[--f->bands];
            } else {
                k++;
            }
        if (f->bands == MOST_BANDS)
            continue;
        if (YK_RESERVE(f->band, f->band_cap, f->bands + 1, "a figure")) {
            f->lost.failed = true;
            return;
        }
        f->band[f->bands].begin = begin;
        f->band[f->bands++].end = end;
    }
}

/* What all programs on the host use, ours among them: where the processes share one. */
static void add_host(yk_figure *f, const yk_run *r, int run)
{
    for (size_t i = 1; i < r->workers; i++)
        if (strcmp(r->worker[i].host, r->worker[0].host))
            return;
    if (!r->workers || !isfinite(r->worker[0].mean.cpu_host))
        return;
    yk_series *s = yk__series_add(f, "all programs", run, ONE_X);
    s->colour = -1;
    for (size_t m = 0; m < r->worker[0].sample.n; m++)
        yk__series_point(
            s, r->worker[0].sample.row[m].seconds, NAN, NAN,
            fmin(r->worker[0].sample.row[m].cpu_host, r->worker[0].cores)); /* but for rounding */
}

static void make_resource(const yk_compare *c, size_t i, const resource *q, yk_figures *fs)
{
    const yk_run *r = &c->run[i];
    yk_figure *f = c->n > 1 ? yk__figure_add(fs, q->title, "run-%zu-%s", i + 1, q->id)
                            : yk__figure_add(fs, q->title, "%s", q->id);
    if (!f)
        return;
    f->run = (int)i;
    f->x_unit = YK_UNIT_SECONDS;
    f->y_unit = q->unit;
    f->from_zero = true;
    double most = 0.0;
    int parts = q->part[1].offset ? 2 : 1;
    for (size_t w = 0; w < r->workers && w < MOST_LINES; w++) {
        const yk_run_worker *p = &r->worker[w];
        for (int k = 0; k < parts; k++) {
            char name[96];
            name_process(r, p, q->part[k].name, name, sizeof name);
            yk_series *s = yk__series_add(f, name, (int)i, ONE_X);
            /* one run, one colour, where there are several; else a worker has one, or, of one worker, a line */
            s->colour = c->n > 1 ? (int)i : r->workers == 1 ? k : (int)w;
            s->dash = c->n > 1 ? (int)w * parts + k : r->workers == 1 ? 0 : k;
            for (size_t m = 0; m < p->sample.n; m++) {
                double x = p->sample.row[m].seconds, y = drawn(p, m, q, k);
                yk__series_point(s, x, NAN, NAN, y);
                most = y > most ? y : most;
            }
        }
        add_bands(f, p, q->alert);
    }
    if (!strcmp(q->id, "cpu"))
        add_host(f, r, (int)i);
    /* what one process has no use for; what is only the noise of others */
    bool local = !strcmp(q->id, "loopback"), own = !strcmp(q->id, "traffic");
    if (((local && (r->workers < 2 || most < 10e3)) || (own && most <= 0.0)))
        for (size_t k = 0; k < f->n; k++)
            f->series[k].n = 0;
    if (strcmp(q->id, "disk") && !local && !own) {
        f->limit = there_is(r, q->id);
        f->limit_text = !strcmp(q->id, "cpu")      ? "cores there are"
                        : !strcmp(q->id, "memory") ? "memory there is"
                                                   : "link";
    }
    if (!strcmp(q->id, "cpu") && isfinite(f->limit) && f->limit <= 4.0 * most)
        f->at_least = f->limit;
    yk__figure_end(fs);
}

/* A bar: the phases in an object of the summary, or of a sample; none where nothing is known. */
static void add_bar(yk_figure *f, const char *name, int run, const json_t *from, const yk_run_sample *or_else)
{
    double phase[YK_PHASES], sum = 0.0;
    for (int k = 0; k < YK_PHASES; k++) {
        const json_t *x = json_object_get(from, yk_phase_name((yk_phase)k));
        phase[k] = json_is_number(x) ? json_number_value(x) : 0.0;
        if (!json_is_object(from) && or_else && isfinite(or_else->phase[k]))
            phase[k] = or_else->phase[k];
        sum += phase[k] > 0.0 ? phase[k] : 0.0;
    }
    if (!(sum > 0.0) || f->n >= MOST_BARS)
        return;
    yk_series *s = yk__series_add(f, name, run, ONE_X);
    for (int k = 0; k < YK_PHASES; k++) {
        const double part = phase[yk_stacked[k].phase];
        yk__series_point(s, k, NAN, NAN, part > 0.0 ? part / sum : 0.0);
    }
}

/* A bar for each worker that the summary knows; else for each process; else by the last samples; else the mean of all. */
static void make_phases(const yk_compare *c, size_t i, yk_figures *fs)
{
    const yk_run *r = &c->run[i];
    const json_t *list = r->summary ? yk_summary_at(r->summary, "processes") : NULL;
    yk_figure *f = c->n > 1 ? yk__figure_add(fs, "Phases of each worker\u2019s time", "run-%zu-phases", i + 1)
                            : yk__figure_add(fs, "Phases of each worker\u2019s time", "phases");
    if (!f)
        return;
    f->run = (int)i;
    f->kind = YK_BARS;
    f->y_unit = YK_UNIT_SHARE;
    size_t processes = json_array_size(list) ? json_array_size(list) : r->workers;
    for (size_t w = 0; w < processes; w++) {
        const json_t *p = json_array_get(list, w), *workers = json_object_get(p, "workers"), *one;
        const yk_run_worker *sampled = NULL;
        const json_t *rank = json_object_get(p, "rank");
        int number = json_is_integer(rank) ? (int)json_integer_value(rank) : p ? (int)w : r->worker[w].rank;
        for (size_t k = 0; k < r->workers; k++)
            sampled = r->worker[k].rank == number ? &r->worker[k] : sampled;
        const char *role = json_string_value(json_object_get(p, "role"));
        role = role ? role : sampled && sampled->role[0] ? sampled->role : "worker";
        char name[96];
        size_t k;
        json_array_foreach(workers, k, one)
        {
            if (processes > 1)
                snprintf(name, sizeof name, "rank %d worker %zu", number, k);
            else
                snprintf(name, sizeof name, "worker %zu", k);
            if (json_array_size(workers) > 1)
                add_bar(f, name, (int)i, json_object_get(one, "phases"), NULL);
        }
        snprintf(name, sizeof name, "%.80s %d", role, number);
        if (json_array_size(workers) < 2)
            add_bar(f, processes == 1 ? "this run" : name, (int)i, yk_summary_at(p, "phases"),
                    sampled ? &sampled->last : NULL);
    }
    if (!f->n) {
        yk_run_sample mean = {.seconds = 0.0};
        memcpy(mean.phase, c->facts[i].phase, sizeof mean.phase);
        add_bar(f, "all workers", (int)i, NULL, &mean);
    }
    yk__figure_end(fs);
}

void yk__figures_of_run(const yk_compare *c, size_t i, yk_figures *fs)
{
    make_phases(c, i, fs);
    for (size_t k = 0; k < sizeof resources / sizeof *resources; k++)
        make_resource(c, i, &resources[k], fs);
}
