#include "sweep/table.h"

#include "base/json.h"
#include "base/moments.h"
#include "format/json_value.h"
#include "report/facts.h"
#include "report/table.h"
#include "sweep/dir.h"
#include <stdlib.h>
#include <string.h>

/* The time of training alone. A resumed run knows only the time since it was resumed: the time of the whole run follows
 * from that rate. */
static double train_seconds_of(const yk_sweep_run *r)
{
    double seconds = yk_number_at(r->summary, "examples") / yk_number_at(r->summary, "examples_per_second");
    return isfinite(seconds) ? seconds : yk_number_at(r->summary, "train_seconds");
}

/* Cores in use on average: of the samples, or else the CPU time of the process. */
static double cpu_of(const yk_sweep_run *r)
{
    const double mean = yk_number_at(r->summary, "resources.cpu.mean"),
                 loading = yk_number_at(r->summary, "load_seconds");
    return isfinite(mean) ? mean
                          : yk_number_at(r->summary, "cpu_seconds") /
                                (yk_number_at(r->summary, "seconds") + (isfinite(loading) ? loading : 0.0));
}

/* Of all processes together if it was sampled, but not below a short peak between two samples. */
static double memory_of(const yk_sweep_run *r)
{
    return fmax(yk_number_at(r->summary, "resources.memory.peak"),
                yk_number_at(r->summary, "peak_rss_bytes")); /* ignores NaN */
}

/* ---- measures: results that are averaged, and their format */

static const char best_value[] = "best_value"; /* on the validation set: its heading names the metric */

typedef struct {
    double factor;            /* to the unit of the printed table */
    int digits, small_digits; /* after the point; of values below 10 */
} unit;

/* rate: "12 k", "1.23 M" */
static const unit whole = {1.0, 0, 0}, seconds = {1.0, 1, 2}, rate = {1.0, 0, 0}, plain = {1.0, 4, 4},
                  percent = {100.0, 2, 2}, cores = {1.0, 2, 2}, megabytes = {1e-6, 0, 1};

static const struct {
    const char *name, *heading;          /* in files; in the printed table, NULL: not shown */
    const unit *unit;                    /* NULL: that of the monitored metric */
    bool spread;                         /* is printed too */
    double (*of)(const yk_sweep_run *r); /* NULL: the number of this name in the summary */
} measures[] = {
    {"steps", "steps", &whole},
    {"examples"},
    {"train_seconds", "seconds", &seconds, true, train_seconds_of},
    {"examples_per_second", "examples/s", &rate},
    {"train_loss", "train loss", &plain, true},
    {"test_loss", "test loss", &plain, true},
    {"test_accuracy", "accuracy %", &percent, true},
    {"majority_accuracy"},
    {"test_auc", "AUC", &plain, true},
    {best_value, "monitored value", NULL, true},
    {"cpu_cores", "CPU cores", &cores, false, cpu_of},
    {"memory_bytes", "memory MB", &megabytes, false, memory_of},
    {"bytes_sent", "sent MB", &megabytes},
};

enum { MEASURES = sizeof measures / sizeof *measures };

/* The training loss is shown only if there is no test loss. */
static bool is_shown(const yk_sweep_plan *p, size_t m)
{
    bool shown = measures[m].heading != NULL;
    for (size_t i = 0; i < p->nruns && shown && !strcmp(measures[m].name, "train_loss"); i++)
        shown = !isfinite(yk_number_at(p->run[i].summary, "test_loss"));
    return shown;
}

bool yk_sweep_in_percent(const yk_sweep_plan *p)
{
    return p->monitor && !strcmp(p->monitor->name, "accuracy");
}

static double measure(const yk_sweep_run *r, size_t m)
{
    if (r->state != YK_SWEEP_DONE)
        return (double)NAN;
    return measures[m].of ? measures[m].of(r) : yk_number_at(r->summary, measures[m].name);
}

/* Of the repeats of a point. */
static yk_moments moments_of(const yk_sweep_plan *p, size_t point, size_t m)
{
    yk_moments all = {0};
    for (size_t i = point; i < p->nruns; i += p->npoints)
        yk_moments_add(&all, measure(&p->run[i], m));
    return all;
}

double yk_sweep_point_loss(const yk_sweep_plan *p, size_t point)
{
    double sum = 0.0;
    for (size_t i = point; i < p->nruns; i += p->npoints) {
        const json_t *summary = p->run[i].summary;
        const double test = yk_number_at(summary, "test_loss"),
                     loss = p->monitor       ? -p->monitor->sign * yk_number_at(summary, best_value)
                            : isfinite(test) ? test
                                             : yk_number_at(summary, "train_loss");
        sum += p->run[i].state == YK_SWEEP_DONE && isfinite(loss) ? loss : (double)INFINITY;
    }
    return sum;
}

/* The runs from number `first` on, in steps of `step`. */
static void count_runs(const yk_sweep_plan *p, size_t first, size_t step, size_t *done_out,
                       size_t *failed_out)
{
    *done_out = *failed_out = 0;
    for (size_t i = first; i < p->nruns; i += step) {
        *done_out += p->run[i].state == YK_SWEEP_DONE;
        *failed_out += yk_sweep_run_failed(&p->run[i]);
    }
}

/* ---- the printed table */

enum { CELL = 48, WIDEST_VALUE = 28 };

static void put_moments(const yk_sweep_plan *p, yk_table *t, const yk_moments *of, size_t m)
{
    char cell[CELL] = "";
    const unit *u = measures[m].unit ? measures[m].unit : yk_sweep_in_percent(p) ? &percent : &plain;
    const double x = of->mean * u->factor, spread = yk_moments_deviation(of, 2) * u->factor;
    const int digits = x < 10.0 ? u->small_digits : u->digits;
    if (u == &rate && x >= 9.995e5)
        snprintf(cell, CELL, "%.2f M", x * 1e-6);
    else if (u == &rate && x >= 1e4)
        snprintf(cell, CELL, "%.0f k", x * 1e-3);
    else if (measures[m].spread && isfinite(spread))
        snprintf(cell, CELL, "%.*f ± %.*f", digits, x, digits, spread);
    else
        snprintf(cell, CELL, "%.*f", digits, x);
    const bool bytes = !strcmp(measures[m].name, "bytes_sent"); /* threads send nothing */
    yk_table_text(t, of->n && (of->mean > 0.0 || !bytes) ? cell : "");
}

/* The bottleneck of the first run of a point that has one. */
static void put_bottleneck(const yk_sweep_plan *p, size_t point, yk_table *t)
{
    char cell[48] = "";
    for (size_t i = point; i < p->nruns && !*cell; i += p->npoints)
        if (p->run[i].state == YK_SWEEP_DONE)
            yk_bottleneck_text(p->run[i].summary, cell);
    yk_table_text(t, cell);
}

static void put_point_row(const yk_sweep_plan *p, size_t i, yk_table *t)
{
    char cell[CELL];
    size_t done, failed;
    yk_table_row(t, (int)i);
    for (size_t k = 0; k < p->nshown; k++) {
        const char *value = p->run[i].shown[k];
        snprintf(cell, CELL, strlen(value) > WIDEST_VALUE ? "%.*s..." : "%.*s",
                 yk_utf8_cut(value, WIDEST_VALUE), value);
        yk_table_text(t, cell);
    }
    count_runs(p, i, p->npoints, &done, &failed);
    snprintf(cell, CELL, failed ? "%zu, %zu failed" : "%zu", done, failed);
    yk_table_text(t, cell);
    yk_table_number(t, p->run[i].rung ? p->run[i].rung : (double)NAN, (double)NAN);
    for (size_t m = 0; m < MEASURES; m++)
        if (is_shown(p, m)) {
            const yk_moments x = moments_of(p, i, m);
            put_moments(p, t, &x, m);
        }
    put_bottleneck(p, i, t);
}

/* By validation data; with search = halving, of those that were trained longest. */
static void print_best(const yk_sweep_plan *p, FILE *f)
{
    size_t best = 0, results = 0;
    double least = (double)INFINITY;
    for (size_t i = 0; p->monitor && i < p->npoints; i++) {
        const double loss = yk_sweep_point_loss(p, i);
        const int more = p->run[i].rung - p->run[best].rung;
        results += isfinite(loss) != 0;
        if (isfinite(loss) && (!isfinite(least) || more > 0 || (!more && loss < least)))
            best = i, least = loss;
    }
    if (results > 1 && p->nshown) {
        fprintf(f, "best validation %s:", p->monitor->title);
        for (size_t k = 0; k < p->nshown; k++)
            fprintf(f, " %s=%s", p->shown[k], p->run[best].shown[k]);
        fprintf(f, "\n");
    }
}

yk_status yk_sweep_table_print(const yk_sweep_plan *p, FILE *f)
{
    yk_table t = {.title = "of the sweep"};
    for (size_t k = 0; k < p->nshown; k++) {
        yk_column column = {.words = !yk_option_is_number(yk_option_find(p->shown[k]))};
        snprintf(column.title, sizeof column.title, "%s", p->shown[k]);
        yk_table_column(&t, &column);
    }
    yk_table_column(&t, &(yk_column){"runs"});
    yk_table_column(&t, &(yk_column){"rung"});
    for (size_t m = 0; m < MEASURES; m++)
        if (is_shown(p, m)) {
            yk_column column = {""};
            if (measures[m].name == best_value && p->monitor)
                snprintf(column.title, sizeof column.title, "validation %s%s", p->monitor->title,
                         yk_sweep_in_percent(p) ? " %" : "");
            else
                snprintf(column.title, sizeof column.title, "%s", measures[m].heading);
            yk_table_column(&t, &column);
        }
    yk_table_column(&t, &(yk_column){"bottleneck", .words = true});
    for (size_t i = 0; i < p->npoints; i++)
        put_point_row(p, i, &t);
    yk_table_drop_empty_columns(&t);
    const yk_status st = yk_table_print(&t, false, "-", f);
    yk_table_fini(&t);
    for (size_t i = 0; i < p->nruns; i++) {
        double majority = yk_number_at(p->run[i].summary, "majority_accuracy");
        if (isfinite(majority)) { /* the baseline for accuracies */
            fprintf(f, "majority class: %.2f %%\n", 100.0 * majority);
            break;
        }
    }
    print_best(p, f);
    return st;
}

/* ---- CSV */

static const char *const states[] = {"not run", "stopped", "not run", "done", "failed", "diverged"};

/* A field with its separator. */
static void csv_text(yk_text *out, const char *text, const char *after)
{
    yk_text_csv(out, text);
    yk_text_add(out, after);
}

static void csv_number(yk_text *out, double x)
{
    yk_text_print(out, isfinite(x) ? ",%.9g" : ",", x);
}

static char *points_csv(const yk_sweep_plan *p)
{
    yk_text out = {0};
    for (size_t k = 0; k < p->nshown; k++)
        csv_text(&out, p->shown[k], ",");
    yk_text_add(&out, "done,failed");
    for (size_t m = 0; m < MEASURES; m++)
        yk_text_print(&out, ",%s,%s_spread", measures[m].name, measures[m].name);
    for (size_t i = 0; i < p->npoints; i++) {
        size_t done, failed;
        count_runs(p, i, p->npoints, &done, &failed);
        yk_text_add(&out, "\n");
        for (size_t k = 0; k < p->nshown; k++)
            csv_text(&out, p->run[i].shown[k], ",");
        yk_text_print(&out, "%zu,%zu", done, failed);
        for (size_t m = 0; m < MEASURES; m++) {
            const yk_moments x = moments_of(p, i, m);
            csv_number(&out, yk_moments_mean(&x));
            csv_number(&out, yk_moments_deviation(&x, 2));
        }
    }
    return yk_text_take(&out);
}

static char *runs_csv(const yk_sweep_plan *p)
{
    yk_text out = {0};
    for (size_t k = 0; k < p->nshown; k++)
        csv_text(&out, p->shown[k], ",");
    yk_text_add(&out, "seed,folder,state");
    for (size_t m = 0; m < MEASURES; m++)
        yk_text_print(&out, ",%s", measures[m].name);
    yk_text_add(&out, ",verdict,error");
    for (size_t i = 0; i < p->nruns; i++) {
        const yk_sweep_run *run = &p->run[i];
        const char *verdict = yk_string_at(p->run[i].summary, "verdict");
        yk_text_add(&out, "\n");
        for (size_t k = 0; k < p->nshown; k++)
            csv_text(&out, run->shown[k], ",");
        yk_text_print(&out, "%lld,", (long long)run->config.seed);
        csv_text(&out, run->directory, ",");
        yk_text_add(&out, states[p->run[i].state]);
        for (size_t m = 0; m < MEASURES; m++)
            csv_number(&out, measure(&p->run[i], m));
        yk_text_add(&out, ",");
        csv_text(&out, verdict ? verdict : "", ",");
        csv_text(&out, p->run[i].problem ? p->run[i].problem : "", "");
    }
    return yk_text_take(&out);
}

/* ---- JSON */

static void put_options(yk_json *j, const yk_sweep_plan *p, const yk_sweep_run *run)
{
    yk_json_object(j, "options");
    for (size_t k = 0; k < p->nshown; k++)
        yk_json_text(j, p->shown[k], run->shown[k]);
    yk_json_end(j);
}

static void put_point(yk_json *j, const yk_sweep_plan *p, size_t i)
{
    size_t done, failed;
    count_runs(p, i, p->npoints, &done, &failed);
    yk_json_object(j, NULL);
    put_options(j, p, &p->run[i]);
    YK_JSON(j, YK_INT("done", done), YK_INT("failed", failed));
    for (size_t m = 0; m < MEASURES; m++) {
        const yk_moments x = moments_of(p, i, m);
        YK_JSON(j, YK_OBJECT(measures[m].name), YK_REAL("mean", yk_moments_mean(&x)),
                YK_REAL("spread", yk_moments_deviation(&x, 2)), YK_END);
    }
    yk_json_end(j);
}

static void put_run(yk_json *j, const yk_sweep_plan *p, size_t i)
{
    const yk_sweep_run *run = &p->run[i];
    YK_JSON(j, YK_OBJECT(NULL), YK_TEXT("folder", run->directory));
    put_options(j, p, run);
    char *summary = run->summary ? json_dumps(run->summary, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    YK_JSON(j, YK_INT("seed", run->config.seed), YK_TEXT("state", states[run->state]),
            YK_TEXT("error", run->problem), YK_IF(p->file.halving, YK_INT("rung", run->rung)));
    for (size_t m = 0; m < MEASURES; m++)
        yk_json_real(j, measures[m].name, measure(run, m));
    YK_JSON(j, YK_RAW("summary", summary), YK_END);
    free(summary);
}

char *yk_sweep_table_json(const yk_sweep_plan *p, bool indent)
{
    yk_json all = {.indent = indent}, *j = &all;
    size_t done, failed;
    count_runs(p, 0, 1, &done, &failed);
    YK_JSON(j, YK_OBJECT(NULL), YK_TEXT("name", p->file.name), YK_TEXT("file", p->file.path),
            YK_INT("repeats", p->file.repeats), YK_INT("runs_in_all", p->nruns), YK_INT("done", done),
            YK_INT("failed", failed), YK_ARRAY("points"));
    for (size_t i = 0; i < p->npoints; i++)
        put_point(j, p, i);
    YK_JSON(j, YK_END, YK_ARRAY("runs"));
    for (size_t i = 0; i < p->nruns; i++)
        put_run(j, p, i);
    YK_JSON(j, YK_END, YK_END);
    return yk_json_take(j);
}

yk_status yk_sweep_table_save(const yk_sweep_plan *p)
{
    static const char *const name[] = {"sweep.csv", "runs.csv", "sweep.json"};
    char *text[] = {points_csv(p), runs_csv(p), yk_sweep_table_json(p, true)};
    yk_status st = YK_OK;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        if (!st)
            st = text[i] ? yk_file_save(p->path, name[i], "%s\n", text[i]) : YK_ESYSTEM;
        free(text[i]);
    }
    return st;
}
