#include "sweep/table.h"

#include "base/json.h"
#include "base/moments.h"
#include "format/json_value.h"
#include <stdlib.h>
#include <string.h>

/* ---- results of runs */

void yk_sweep_result_take(yk_sweep_result *r, json_t *summary)
{
    yk_sweep_result_fini(r);
    r->state = json_is_true(json_object_get(summary, "interrupted")) ? YK_SWEEP_STOPPED : YK_SWEEP_DONE;
    r->summary = summary;
    if (!json_is_true(json_object_get(summary, "diverged")))
        return;
    const char *error = json_string_value(json_object_get(summary, "error"));
    r->state = YK_SWEEP_DIVERGED;
    r->problem = error ? strdup(error) : NULL;
    r->summary = NULL; /* its values are not results */
    json_decref(summary);
}

void yk_sweep_result_fini(yk_sweep_result *r)
{
    json_decref(r->summary);
    free(r->problem);
    *r = (yk_sweep_result){0};
}

bool yk_sweep_result_failed(const yk_sweep_result *r)
{
    return r->state == YK_SWEEP_FAILED || r->state == YK_SWEEP_DIVERGED;
}

double yk_sweep_result_number(const yk_sweep_result *r, const char *name)
{
    return yk_number_at(r->summary, name);
}

/* The time of training alone. A resumed run knows only the time since it was resumed: the time of the whole run follows
 * from that rate. */
static double train_seconds_of(const yk_sweep_result *r)
{
    double seconds = yk_sweep_result_number(r, "examples") / yk_sweep_result_number(r, "examples_per_second");
    return isfinite(seconds) ? seconds : yk_sweep_result_number(r, "train_seconds");
}

/* Cores in use on average: of the samples, or else the CPU time of the process. */
static double cpu_of(const yk_sweep_result *r)
{
    const double mean = yk_sweep_result_number(r, "resources.cpu.mean"),
                 loading = yk_sweep_result_number(r, "load_seconds");
    return isfinite(mean) ? mean
                          : yk_sweep_result_number(r, "cpu_seconds") /
                                (yk_sweep_result_number(r, "seconds") + (isfinite(loading) ? loading : 0.0));
}

/* Of all processes together if it was sampled, but not below a short peak between two samples. */
static double memory_of(const yk_sweep_result *r)
{
    return fmax(yk_sweep_result_number(r, "resources.memory.peak"),
                yk_sweep_result_number(r, "peak_rss_bytes")); /* ignores NaN */
}

/* ---- measures: results that are averaged, and their format */

enum { RATE = -1 }; /* as digits: "12 k", "1.23 M" */

static const struct {
    const char *name, *heading;             /* in files; in the printed table, NULL: not shown */
    double factor;                          /* to the unit of the printed table */
    int digits, small_digits;               /* after the point; of values below 10 */
    bool spread;                            /* is printed too */
    double (*of)(const yk_sweep_result *r); /* NULL: the number of this name in the summary */
} measures[] = {
    {"steps", "steps", 1.0, 0, 0},
    {"examples"},
    {"train_seconds", "seconds", 1.0, 1, 2, true, train_seconds_of},
    {"examples_per_second", "examples/s", 1.0, RATE},
    {"train_loss"},
    {"test_loss", "test loss", 1.0, 4, 4, true},
    {"test_accuracy", "accuracy %", 100.0, 2, 2, true},
    {"majority_accuracy"},
    {"test_auc", "AUC", 1.0, 4, 4, true},
    {"cpu_cores", "CPU cores", 1.0, 2, 2, false, cpu_of},
    {"memory_bytes", "memory MB", 1e-6, 0, 1, false, memory_of},
    {"bytes_sent", "sent MB", 1e-6, 0, 1},
};

enum { MEASURES = sizeof measures / sizeof *measures };

static double measure(const yk_sweep_result *r, size_t m)
{
    if (r->state != YK_SWEEP_DONE)
        return (double)NAN;
    return measures[m].of ? measures[m].of(r) : yk_sweep_result_number(r, measures[m].name);
}

/* Of the repeats of a point. */
static yk_moments moments_of(const yk_sweep_plan *p, const yk_sweep_result *r, size_t point, size_t m)
{
    yk_moments all = {0};
    for (size_t i = point; i < p->nruns; i += p->npoints)
        yk_moments_add(&all, measure(&r[i], m));
    return all;
}

/* The runs from number `first` on, in steps of `step`. */
static void count_runs(const yk_sweep_plan *p, const yk_sweep_result *r, size_t first, size_t step,
                       size_t *done_out, size_t *failed_out)
{
    *done_out = *failed_out = 0;
    for (size_t i = first; i < p->nruns; i += step) {
        *done_out += r[i].state == YK_SWEEP_DONE;
        *failed_out += yk_sweep_result_failed(&r[i]);
    }
}

/* ---- the printed table */

enum { CELL = 48, WIDEST_VALUE = 28 };

static void show_moments(char *cell, const yk_moments *of, size_t m)
{
    if (!of->n) {
        snprintf(cell, CELL, "-");
        return;
    }
    const double x = of->mean * measures[m].factor, spread = yk_moments_deviation(of, 2) * measures[m].factor;
    const bool rate = measures[m].digits == RATE;
    const int digits = rate ? 0 : x < 10.0 ? measures[m].small_digits : measures[m].digits;
    if (rate && x >= 9.995e5)
        snprintf(cell, CELL, "%.2f M", x * 1e-6);
    else if (rate && x >= 1e4)
        snprintf(cell, CELL, "%.0f k", x * 1e-3);
    else if (measures[m].spread && isfinite(spread))
        snprintf(cell, CELL, "%.*f ± %.*f", digits, x, digits, spread);
    else
        snprintf(cell, CELL, "%.*f", digits, x);
}

/* Columns on a terminal: one per UTF-8 character. */
static int width_of(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

typedef char cell_text[CELL];

typedef struct {
    size_t rows, columns;
    cell_text *cell; /* [columns][rows]; the first row has the headings */
    bool left[64 + MEASURES + 1];
} grid;

/* Returns the cells below the heading. */
static cell_text *add_column(grid *g, const char *heading, bool left)
{
    cell_text *first = g->cell + g->columns * g->rows;
    g->left[g->columns++] = left;
    snprintf(*first, CELL, "%s", heading);
    return first + 1;
}

static void print_grid(const grid *g, FILE *f)
{
    int width[64 + MEASURES + 2] = {0};
    for (size_t i = 0; i < g->rows * g->columns; i++) {
        int w = width_of(g->cell[i]), *widest = &width[i / g->rows];
        *widest = w > *widest ? w : *widest;
    }
    for (size_t i = 0; i < g->rows; i++)
        for (size_t k = 0; k < g->columns; k++) {
            const char *text = g->cell[k * g->rows + i];
            const bool last = k + 1 == g->columns;
            const int pad = width[k] - width_of(text);
            fprintf(f, "%*s%s%*s%s", g->left[k] ? 0 : pad, "", text, g->left[k] && !last ? pad : 0, "",
                    last ? "\n" : "  ");
        }
}

/* Whether any run has the measure; bytes sent: whether it is not 0. */
static bool is_shown(const yk_sweep_plan *p, const yk_sweep_result *r, size_t m)
{
    bool bytes = strcmp(measures[m].name, "bytes_sent") == 0;
    for (size_t i = 0; measures[m].heading && i < p->nruns; i++) {
        double x = measure(&r[i], m);
        if (isfinite(x) && (!bytes || x > 0.0))
            return true;
    }
    return false;
}

/* "cpu 77 %": the bottleneck of the first run of a point that has one; false: none has. */
static bool show_bottleneck(const yk_sweep_plan *p, const yk_sweep_result *r, size_t point, char *cell)
{
    snprintf(cell, CELL, "-");
    for (size_t i = point; i < p->nruns; i += p->npoints) {
        const json_t *b = r[i].state == YK_SWEEP_DONE ? yk_value_at(r[i].summary, "bottleneck") : NULL;
        const char *kind = yk_string_at(b, "kind");
        if (!kind)
            continue;
        const double share = yk_number_at(b, "share");
        if (share > 0.0 && strcmp(kind, "none"))
            snprintf(cell, CELL, "%.24s %.0f %%", kind, 100.0 * share);
        else
            snprintf(cell, CELL, "%.24s", kind);
        return true;
    }
    return false;
}

void yk_sweep_table_print(const yk_sweep_plan *p, const yk_sweep_result *r, FILE *f)
{
    const size_t shown = p->nshown < 64 ? p->nshown : 63;
    grid g = {.rows = p->npoints + 1};
    g.cell = calloc(g.rows * (shown + 2 + MEASURES + 1), sizeof *g.cell);
    if (!g.cell)
        return; /* the files have the same numbers */
    for (size_t k = 0; k < shown; k++) {
        cell_text *at = add_column(&g, p->shown[k], !yk_option_is_number(yk_option_find(p->shown[k])));
        for (size_t i = 0; i < p->npoints; i++) {
            const char *value = p->run[i].shown[k];
            snprintf(at[i], CELL, strlen(value) > WIDEST_VALUE ? "%.*s..." : "%.*s", WIDEST_VALUE, value);
        }
    }
    cell_text *runs = add_column(&g, "runs", false);
    for (size_t i = 0; i < p->npoints; i++) {
        size_t done, failed;
        count_runs(p, r, i, p->npoints, &done, &failed);
        snprintf(runs[i], CELL, failed ? "%zu, %zu failed" : "%zu", done, failed);
    }
    cell_text *rungs = p->file.halving ? add_column(&g, "rung", false) : NULL;
    for (size_t i = 0; rungs && i < p->npoints; i++)
        snprintf(rungs[i], CELL, r[i].rung ? "%d" : "-", r[i].rung);
    for (size_t m = 0; m < MEASURES; m++) {
        cell_text *at = is_shown(p, r, m) ? add_column(&g, measures[m].heading, false) : NULL;
        for (size_t i = 0; at && i < p->npoints; i++) {
            const yk_moments x = moments_of(p, r, i, m);
            show_moments(at[i], &x, m);
        }
    }
    cell_text *bottlenecks = add_column(&g, "bottleneck", true);
    bool known = false;
    for (size_t i = 0; i < p->npoints; i++)
        known |= show_bottleneck(p, r, i, bottlenecks[i]);
    g.columns -= !known;
    print_grid(&g, f);
    free(g.cell);
    for (size_t i = 0; i < p->nruns; i++) {
        double majority = yk_sweep_result_number(&r[i], "majority_accuracy");
        if (isfinite(majority)) { /* the baseline for accuracies */
            fprintf(f, "majority class: %.2f %%\n", 100.0 * majority);
            break;
        }
    }
}

/* ---- CSV */

static const char *const states[] = {"not run", "done", "failed", "stopped", "diverged"};

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

static char *points_csv(const yk_sweep_plan *p, const yk_sweep_result *r)
{
    yk_text out = {0};
    for (size_t k = 0; k < p->nshown; k++)
        csv_text(&out, p->shown[k], ",");
    yk_text_add(&out, "done,failed");
    for (size_t m = 0; m < MEASURES; m++)
        yk_text_print(&out, ",%s,%s_spread", measures[m].name, measures[m].name);
    for (size_t i = 0; i < p->npoints; i++) {
        size_t done, failed;
        count_runs(p, r, i, p->npoints, &done, &failed);
        yk_text_add(&out, "\n");
        for (size_t k = 0; k < p->nshown; k++)
            csv_text(&out, p->run[i].shown[k], ",");
        yk_text_print(&out, "%zu,%zu", done, failed);
        for (size_t m = 0; m < MEASURES; m++) {
            const yk_moments x = moments_of(p, r, i, m);
            csv_number(&out, yk_moments_mean(&x));
            csv_number(&out, yk_moments_deviation(&x, 2));
        }
    }
    return yk_text_take(&out);
}

static char *runs_csv(const yk_sweep_plan *p, const yk_sweep_result *r)
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
        const char *verdict = yk_string_at(r[i].summary, "verdict");
        yk_text_add(&out, "\n");
        for (size_t k = 0; k < p->nshown; k++)
            csv_text(&out, run->shown[k], ",");
        yk_text_print(&out, "%lld,", (long long)run->config.seed);
        csv_text(&out, run->directory, ",");
        yk_text_add(&out, states[r[i].state]);
        for (size_t m = 0; m < MEASURES; m++)
            csv_number(&out, measure(&r[i], m));
        yk_text_add(&out, ",");
        csv_text(&out, verdict ? verdict : "", ",");
        csv_text(&out, r[i].problem ? r[i].problem : "", "");
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

static void put_point(yk_json *j, const yk_sweep_plan *p, const yk_sweep_result *r, size_t i)
{
    size_t done, failed;
    count_runs(p, r, i, p->npoints, &done, &failed);
    yk_json_object(j, NULL);
    put_options(j, p, &p->run[i]);
    YK_JSON_INTS(j, {"done", done}, {"failed", failed});
    for (size_t m = 0; m < MEASURES; m++) {
        const yk_moments x = moments_of(p, r, i, m);
        yk_json_object(j, measures[m].name);
        YK_JSON_REALS(j, {"mean", yk_moments_mean(&x)}, {"spread", yk_moments_deviation(&x, 2)});
        yk_json_end(j);
    }
    yk_json_end(j);
}

static void put_run(yk_json *j, const yk_sweep_plan *p, const yk_sweep_result *r, size_t i)
{
    const yk_sweep_run *run = &p->run[i];
    yk_json_object(j, NULL);
    yk_json_text(j, "folder", run->directory);
    put_options(j, p, run);
    yk_json_int(j, "seed", run->config.seed);
    YK_JSON_TEXTS(j, {"state", states[r[i].state]}, {"error", r[i].problem});
    if (p->file.halving)
        yk_json_int(j, "rung", r[i].rung);
    char *summary = r[i].summary ? json_dumps(r[i].summary, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    yk_json_raw(j, "summary", summary ? summary : "null");
    free(summary);
    yk_json_end(j);
}

char *yk_sweep_table_json(const yk_sweep_plan *p, const yk_sweep_result *r, bool indent)
{
    yk_json all = {.indent = indent}, *j = &all;
    size_t done, failed;
    count_runs(p, r, 0, 1, &done, &failed);
    yk_json_object(j, NULL);
    YK_JSON_TEXTS(j, {"name", p->file.name}, {"file", p->file.path});
    YK_JSON_INTS(j, {"repeats", p->file.repeats}, {"runs_in_all", p->nruns}, {"done", done},
                 {"failed", failed});
    yk_json_array(j, "points");
    for (size_t i = 0; i < p->npoints; i++)
        put_point(j, p, r, i);
    yk_json_end(j);
    yk_json_array(j, "runs");
    for (size_t i = 0; i < p->nruns; i++)
        put_run(j, p, r, i);
    yk_json_end(j);
    yk_json_end(j);
    return yk_json_take(j);
}

yk_status yk_sweep_table_save(const yk_sweep_plan *p, const yk_sweep_result *r, const char *directory)
{
    static const char *const name[] = {"sweep.csv", "runs.csv", "sweep.json"};
    char *text[] = {points_csv(p, r), runs_csv(p, r), yk_sweep_table_json(p, r, true)};
    yk_status st = YK_OK;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        if (!st)
            st = text[i] ? yk_file_save(directory, name[i], "%s\n", text[i]) : YK_ESYSTEM;
        free(text[i]);
    }
    return st;
}
