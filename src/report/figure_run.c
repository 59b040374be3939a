/* The figures of one run: resources of each process over time, the phases of its time; calibration and confusion matrix. */
#include "report/figure.h"

#include <stdio.h>

/* A figure of run i; x is time. */
static yk_figure *add_figure(const yk_compare *c, size_t i, const char *title, const char *panel,
                             yk_unit unit, yk_figures *fs)
{
    yk_figure *f = yk__figure_add(fs, title, panel, c->n > 1 ? c->label[i] : NULL);
    f->run = (int)i;
    f->x_unit = YK_UNIT_SECONDS;
    f->y_unit = unit;
    f->from_zero = true;
    return f;
}

/* Observed frequencies by predicted probability; a calibrated model is on the diagonal. */
static void make_reliability(const yk_compare *c, size_t i, const json_t *metrics, yk_figures *fs)
{
    yk_figure *f = add_figure(c, i, "Calibration", NULL, YK_UNIT_PLAIN, fs);
    const json_t *bins = json_object_get(metrics, "reliability"), *bin;
    size_t k;
    double high = 0.0;
    f->section = "metrics";
    f->x_title = "predicted probability";
    f->x_unit = YK_UNIT_PLAIN;
    yk_series *s = yk__series_add(f, "observed frequency", -1);
    s->color = 0;
    s->dots = true;
    json_array_foreach(bins, k, bin)
    {
        const double p = yk_number_at(bin, "probability"), frequency = yk_number_at(bin, "frequency");
        yk__series_point(s, p, frequency);
        high = fmax(high, fmax(p, frequency)); /* ignores NaN */
    }
    if (s->n) {
        s = yk__series_add(f, "calibrated", -1);
        s->dash = 1;
        yk__series_point(s, 0.0, 0.0);
        yk__series_point(s, high, high);
    }
    yk__figure_end(fs);
}

/* A series for each label, with a point for each prediction. */
static void make_confusion(const yk_compare *c, size_t i, const json_t *metrics, yk_figures *fs)
{
    yk_figure *f = add_figure(c, i, "Confusion matrix", NULL, YK_UNIT_PLAIN, fs);
    const json_t *rows = json_object_get(metrics, "confusion"), *row, *cell;
    const size_t n = json_array_size(rows);
    size_t r, k;
    f->section = "metrics";
    f->kind = YK_MATRIX;
    f->x_title = "prediction";
    json_array_foreach(rows, r, row)
    {
        const json_t *of = json_array_get(json_object_get(metrics, "classes"), r);
        const char *name = yk_string_at(of, "name");
        char number[24];
        if (n > YK_MAX_MATRIX || json_array_size(row) != n)
            break;
        snprintf(number, sizeof number, "%zu", r);
        yk_series *s = yk__series_add(f, name ? name : number, -1);
        json_array_foreach(row, k, cell)
        {
            const double weight = json_number_value(cell);
            yk__series_point(s, (double)k, weight > 0.0 ? weight : 0.0);
        }
    }
    if (f->n < n) /* too many classes, or damaged */
        for (r = 0; r < f->n; r++)
            f->series[r].n = 0;
    yk__figure_end(fs);
}

enum { MAX_PROCESSES = 4 * YK_MAX_CURVES, MAX_BARS = 64, MAX_BANDS = 64 };

#define AT(field)  offsetof(yk_run_sample, field)
#define LOG(field) offsetof(yk_process_log, field)

const yk__resource yk__resources[YK__RESOURCES] = {
    {"CPU: busy cores over time", YK_UNIT_CORES, AT(cpu), "cpu", "all cores", LOG(cores), .host = true},
    {"Memory over time", YK_UNIT_BYTES, AT(rss), "memory", "all memory", LOG(memory)},
    {"Network: bytes sent per second", YK_UNIT_RATE, AT(sent_rate), ""},
    {"Network: bytes received per second", YK_UNIT_RATE, AT(received_rate), ""},
    {"Disk: bytes read per second", YK_UNIT_RATE, AT(disk_read), "disk"},
    {"Disk: bytes written per second", YK_UNIT_RATE, AT(disk_written), "disk"},
};

static bool share_host(const yk_run *r)
{
    bool share = r->logs > 0;
    for (size_t i = 1; i < r->logs; i++)
        share &= !strcmp(r->log[i].host, r->log[0].host);
    return share;
}

/* What the host of the processes has; NAN if they are on several hosts, or disagree. */
static double capacity(const yk_run *r, size_t offset)
{
    const double first = share_host(r) ? yk_double_at(&r->log[0], offset) : NAN;
    for (size_t i = 1; i < r->logs; i++)
        if (yk_double_at(&r->log[i], offset) != first)
            return NAN;
    return first;
}

/* Merges alerts that overlap, of all processes, into one band. */
static void add_bands(yk_figure *f, const yk_process_log *w, const char *what)
{
    const json_t *a;
    size_t i;
    json_array_foreach(w->alerts, i, a)
    {
        const char *is = yk_string_at(a, "what");
        const double seconds = yk_number_at(a, "seconds");
        double begin = yk_number_at(a, "begin"), end = begin + seconds;
        if (!is || strcmp(is, what) || !(seconds > 0.0) || !isfinite(begin))
            continue;
        for (size_t k = 0; k < f->bands;)
            if (f->band[k].begin <= end && begin <= f->band[k].end) {
                begin = fmin(begin, f->band[k].begin);
                end = fmax(end, f->band[k].end);
                f->band[k] = f->band[--f->bands];
            } else {
                k++;
            }
        if (f->bands == MAX_BANDS)
            continue;
        if (*f->status || (*f->status = YK_RESERVE(f->band, f->band_cap, f->bands + 1, "a figure")))
            return;
        f->band[f->bands].begin = begin;
        f->band[f->bands++].end = end;
    }
}

/* A line of a process: a field of its samples, at most `most`. Returns the highest y. */
static double add_line(yk_figure *f, const yk_process_log *p, const char *name, size_t offset, double most,
                       int color, int dash)
{
    double max = 0.0;
    yk_series *s = yk__series_add(f, name, -1);
    s->color = color;
    s->dash = dash;
    for (size_t m = 0; m < p->sample.n; m++) {
        const double y = yk_double_at(&p->sample.row[m], offset);
        yk__series_point(s, p->sample.row[m].seconds, y < most ? y : most);
        max = fmax(max, y);
    }
    return max;
}

/* The lines of the processes from number `first` on, at most YK_MAX_CURVES. */
static void make_panel(const yk_compare *c, size_t i, const yk__resource *q, size_t first, yk_figures *fs)
{
    const yk_run *r = &c->run[i];
    const size_t last = first + YK_MAX_CURVES < r->logs ? first + YK_MAX_CURVES : r->logs;
    double max = 0.0;
    char panel[48] = "", name[64];
    if (r->logs > YK_MAX_CURVES)
        snprintf(panel, sizeof panel, "ranks %d to %d", r->log[first].rank, r->log[last - 1].rank);
    yk_figure *f = add_figure(c, i, q->title, panel, q->unit, fs);
    for (size_t w = first; w < last; w++) {
        const yk_process_log *p = &r->log[w];
        snprintf(name, sizeof name, "%s %d", p->role[0] ? p->role : "worker", p->rank);
        max = fmax(max, r->logs == 1 ? add_line(f, p, "this run", q->offset, INFINITY, 0, 0)
                                     : add_line(f, p, name, q->offset, INFINITY, p->rank, 0));
        add_bands(f, p, q->alert);
    }
    if (q->host && !first && share_host(r) && isfinite(r->log[0].mean.cpu_host))
        add_line(f, r->log, "all programs on the host", AT(cpu_host), r->log[0].cores, -1, 0); /* rounding */
    for (size_t k = 0; max <= 0.0 && k < f->n; k++)
        f->series[k].n = 0;
    f->limit_text = q->limit;
    if (q->limit)
        f->limit = capacity(r, q->capacity);
    if (q->host && f->limit <= 4.0 * max)
        f->high = f->limit;
    yk__figure_end(fs);
}

/* A line for each direction of an interface. */
static void add_interface(yk_figure *f, const yk_process_log *p, const char *name, size_t offset)
{
    static const char *const way[] = {"in", "out"};
    const int color = (int)f->n / 2;
    for (int k = 0; k < 2; k++) {
        char text[112];
        snprintf(text, sizeof text, "%.60s %s, %s", p->host, name, way[k]);
        add_line(f, p, text, offset + (size_t)k * sizeof(double), INFINITY, color, k);
    }
}

/* The network interfaces of the hosts, with the traffic of all programs, once each: one process of a host has them. All
 * processes of version 0.1.0 have the sum of their host's. */
static void make_interfaces(const yk_compare *c, size_t i, yk_figures *fs)
{
    const yk_run *r = &c->run[i];
    yk_figure *f = add_figure(c, i, "Network interfaces of the hosts, all programs", NULL, YK_UNIT_RATE, fs);
    for (size_t w = 0; w < r->logs; w++) {
        const yk_process_log *p = &r->log[w];
        bool seen = p->nics > 0 ? false : !isfinite(p->mean.net_in);
        for (size_t k = 0; k < w && !p->nics; k++)
            seen |= !strcmp(p->host, r->log[k].host);
        for (int n = 0; n < p->nics && f->n < YK_MAX_CURVES; n++)
            add_interface(f, p, p->nic[n], AT(nic) + (size_t)n * sizeof p->sample.row->nic[0]);
        if (!p->nics && !seen && f->n < YK_MAX_CURVES)
            add_interface(f, p, "all interfaces", AT(net_in));
        add_bands(f, p, "network");
    }
    f->limit_text = "link speed";
    f->limit = capacity(r, LOG(link));
    yk__figure_end(fs);
}

/* A bar of the phases in an object. */
static void add_bar(yk_figure *f, const char *name, const json_t *from)
{
    double phase[YK_PHASES], sum = 0.0;
    for (int k = 0; k < YK_PHASES; k++) {
        const double x = json_number_value(json_object_get(from, yk_phase_name((yk_phase)k)));
        phase[k] = x > 0.0 ? x : 0.0;
        sum += phase[k];
    }
    if (!(sum > 0.0) || f->n >= MAX_BARS)
        return;
    yk_series *s = yk__series_add(f, name, -1);
    for (int k = 0; k < YK_PHASES; k++)
        yk__series_point(s, k, phase[k] / sum);
}

/* One bar per worker if the summary has them; else one per process; else the mean of all. */
static void make_phases(const yk_compare *c, size_t i, yk_figures *fs)
{
    const yk_run *r = &c->run[i];
    yk_figure *f = add_figure(c, i, "Time of each worker by phase", NULL, YK_UNIT_PERCENT_EXACT, fs);
    const bool several = json_array_size(r->processes) > 1;
    const json_t *p, *one;
    size_t k, w;
    f->kind = YK_BARS;
    json_array_foreach(r->processes, k, p)
    {
        const json_t *workers = json_object_get(p, "workers");
        const char *role = yk_string_at(p, "role");
        const double rank = yk_known_or(yk_number_at(p, "rank"), (double)k);
        char name[96];
        json_array_foreach(workers, w, one)
        {
            if (several)
                snprintf(name, sizeof name, "rank %.0f worker %zu", rank, w);
            else
                snprintf(name, sizeof name, "worker %zu", w);
            if (json_array_size(workers) > 1)
                add_bar(f, name, json_object_get(one, "phases"));
        }
        snprintf(name, sizeof name, "%.80s %.0f", role ? role : "worker", rank);
        if (json_array_size(workers) < 2)
            add_bar(f, several ? name : "this run", json_object_get(p, "phases"));
    }
    if (!f->n)
        add_bar(f, "all workers", yk_value_at(r->summary, "phases"));
    yk__figure_end(fs);
}

void yk__figures_of_run(const yk_compare *c, size_t i, yk_figures *fs)
{
    const json_t *metrics = yk_value_at(c->run[i].summary, "test_metrics");
    if (metrics && c->n <= YK_MAX_DETAILED) {
        make_reliability(c, i, metrics, fs);
        make_confusion(c, i, metrics, fs);
    }
    make_phases(c, i, fs);
    for (int k = 0; k < YK__RESOURCES; k++) {
        const size_t begin = fs->n;
        for (size_t first = 0; first < c->run[i].logs && first < MAX_PROCESSES; first += YK_MAX_CURVES)
            make_panel(c, i, &yk__resources[k], first, fs);
        yk__figures_share_y(fs, begin);
    }
    make_interfaces(c, i, fs);
}
