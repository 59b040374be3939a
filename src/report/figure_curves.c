/* The curves of all runs: loss, accuracy and speed; and the resources that they use. A curve is the mean of a group. */
#include "report/figure.h"

#include <stdlib.h>

enum { FEW_CURVES = 12, MANY_PANELS = 12 };

/* A figure of panel p. */
static yk_figure *add_panel(const yk_compare *c, size_t p, const char *title, yk_figures *fs)
{
    return yk__figure_add(fs, title, c->panels > 1 ? c->panel[p] : NULL, NULL);
}

/* Adds the curve of a group: the mean of `of`(run) for its runs. */
static yk_series *add_group(const yk_compare *c, const yk_config_group *g,
                            void (*of)(const yk_compare *c, size_t run, const void *what, yk_series *out),
                            const void *what, yk_figure *f)
{
    yk_series *s = yk__series_add(f, c->groups > 1 ? g->label : c->run[g->run[0]].name, (int)g->line);
    yk_series *part = calloc(g->n, sizeof *part);
    s->failed |= !part;
    for (size_t k = 0; part && k < g->n; k++) {
        part[k].axes = s->axes;
        of(c, g->run[k], what, &part[k]);
    }
    if (part)
        yk__series_mean(part, g->n, s);
    free(part);
    return s;
}

/* ---- curves ---- */

typedef struct {
    const char *title;
    bool eval;
    size_t offset;
    yk_unit unit;
    bool from_zero;
    bool key;   /* drawn even if there are many panels */
    bool error; /* 1 - the metric */
} curve;

#define METRIC(field) offsetof(yk_metric, field)

static const curve curves[] = {
    {"Test accuracy", true, METRIC(test_accuracy), YK_UNIT_PERCENT_EXACT, false, true},
    {"Test error", true, METRIC(test_accuracy), YK_UNIT_PERCENT_EXACT, false, false, .error = true},
    {"Test AUC", true, METRIC(test_auc), YK_UNIT_PLAIN, false, true},
    {"Test loss", true, METRIC(test_loss), YK_UNIT_PLAIN, false, true},
    {"Validation loss", true, METRIC(validation_loss), YK_UNIT_PLAIN, false, true},
    {"Training loss", false, METRIC(loss), YK_UNIT_PLAIN, false, true},
    {"Examples per second", false, METRIC(examples_per_second), YK_UNIT_COUNT, true, false},
    {"Steps per second", false, METRIC(steps_per_second), YK_UNIT_COUNT, true, false},
    {"Learning rate", false, METRIC(learning_rate), YK_UNIT_PLAIN, true, false},
    {"Learning rate of the network", false, METRIC(dense_learning_rate), YK_UNIT_PLAIN, true, false},
    {"Learning rate of keyed group 2", false, METRIC(learning_rate_2), YK_UNIT_PLAIN, true, false},
    {"Learning rate of keyed group 3", false, METRIC(learning_rate_3), YK_UNIT_PLAIN, true, false},
    {"Learning rate of keyed group 4", false, METRIC(learning_rate_4), YK_UNIT_PLAIN, true, false},
};

/* Old runs did not log rates: these are computed from the previous line. */
static double metric_at(const yk_metrics *m, size_t i, size_t offset)
{
    static const yk_metric begin;
    const yk_metric *at = &m->row[i], *before = i ? at - 1 : &begin;
    double x = yk_double_at(at, offset), seconds = at->seconds - before->seconds;
    if (isfinite(x) || !(seconds > 0.0))
        return x;
    return offset == METRIC(steps_per_second)      ? (at->step - before->step) / seconds
           : offset == METRIC(examples_per_second) ? (at->examples - before->examples) / seconds
                                                   : x;
}

static void mark_plateau(const yk_plateau *f, size_t offset, yk_series *s)
{
    for (size_t i = 0; f->reached && f->offset == offset && i < s->n; i++)
        if (s->point[i].x[YK_X_STEP] == f->step) {
            s->marked = true;
            s->mark = s->point[i];
        }
}

/* Short runs have evaluations, but hardly a line between them. All runs are drawn alike. */
static bool uses_eval(const yk_compare *c, const curve *k)
{
    bool eval = k->eval;
    for (size_t i = 0; i < c->n; i++)
        eval |= c->run[i].train.n < 4 && c->run[i].eval.n > c->run[i].train.n;
    return eval;
}

static void run_curve(const yk_compare *c, size_t run, const void *what, yk_series *out)
{
    const curve *k = what;
    const yk_run *r = &c->run[run];
    const bool eval = uses_eval(c, k);
    const size_t offset = eval && k->offset == METRIC(loss) ? METRIC(train_loss) : k->offset;
    const yk_metrics *m = eval ? &r->eval : &r->train;
    /* the evaluation before training would take most of the height */
    const size_t first = m->n > 2 && m->row[0].step == 0.0;
    for (size_t p = first; p < m->n; p++) {
        const yk_metric *at = &m->row[p];
        const double y = metric_at(m, p, offset);
        /* if the epoch is not known, the point can still be drawn over the other axes */
        yk__series_put(out,
                       &(yk_point){.x = {at->step, yk_known_or(at->epoch, 0.0), at->examples, at->seconds},
                                   .y = k->error ? 1.0 - y : y,
                                   .spread = NAN});
    }
}

/* A constant learning rate is among the options. */
static void drop_constant(yk_figure *f)
{
    bool changes = false;
    for (size_t i = 0; i < f->n; i++)
        for (size_t p = 1; p < f->series[i].n; p++)
            changes |= f->series[i].point[p].y != f->series[i].point[0].y;
    for (size_t i = 0; !changes && i < f->n; i++)
        f->series[i].n = 0;
}

static void make_curve(const yk_compare *c, const curve *k, size_t panel, yk_figures *fs)
{
    yk_figure *f = add_panel(c, panel, k->title, fs);
    bool same = true;
    f->steps_or_time = true;
    f->y_unit = k->unit;
    f->from_zero = k->from_zero;
    for (size_t g = 0; g < c->groups; g++) {
        const yk_config_group *group = &c->group[g];
        const yk_facts *facts = &c->facts[group->run[0]];
        same &= facts->majority == c->facts[0].majority;
        if (group->panel != panel)
            continue;
        yk_series *s = add_group(c, group, run_curve, k, f);
        s->dots = s->n == 1 || (uses_eval(c, k) && s->n <= 60 && c->groups <= FEW_CURVES);
        if (c->groups <= FEW_CURVES && group->n == 1 && !k->error)
            mark_plateau(&facts->plateau, k->offset, s);
    }
    if (!strncmp(k->title, "Learning rate", strlen("Learning rate")))
        drop_constant(f);
    if (k->offset == METRIC(test_accuracy) && same) {
        f->limit = !k->error ? c->facts[0].majority : 1.0 - c->facts[0].majority;
        f->limit_text = "majority class";
    }
    yk__figure_end(fs);
}

void yk__figures_of_curves(const yk_compare *c, yk_figures *fs)
{
    for (size_t k = 0; k < sizeof curves / sizeof *curves; k++) {
        const size_t first = fs->n;
        for (size_t p = 0; p < c->panels && (c->panels <= MANY_PANELS || curves[k].key); p++)
            make_curve(c, &curves[k], p, fs);
        yk__figures_share_y(fs, first);
    }
}

/* ---- resources of all processes together ---- */

#define SAMPLE(field) offsetof(yk_run_sample, field)

typedef struct {
    const char *title;
    size_t offset, other; /* their sum; other 0: one field only */
    bool traffic;         /* not shown if it is 0: threads send nothing */
    yk_unit unit;
} resource;

static const resource resources[] = {
    {"CPU: busy cores over time", SAMPLE(cpu), 0, false, YK_UNIT_CORES},
    {"Memory over time", SAMPLE(rss), 0, false, YK_UNIT_BYTES},
    {"Network: bytes sent per second", SAMPLE(sent_rate), 0, true, YK_UNIT_RATE},
    {"Network: bytes received per second", SAMPLE(received_rate), 0, true, YK_UNIT_RATE},
    {"Disk: bytes read and written per second", SAMPLE(disk_read), SAMPLE(disk_written), false, YK_UNIT_RATE},
};

/* Processes take samples at different times: at each time of the first process, the latest sample of each counts. */
static void run_resource(const yk_compare *c, size_t run, const void *what, yk_series *out)
{
    const yk_run *r = &c->run[run];
    const resource *q = what;
    size_t *at = calloc(r->logs + 1, sizeof *at);
    out->failed |= !at;
    for (size_t p = 0; at && r->logs && p < r->log[0].sample.n; p++) {
        const double now = r->log[0].sample.row[p].seconds;
        double sum = 0.0;
        for (size_t w = 0; w < r->logs; w++) {
            const yk_process_log *k = &r->log[w];
            while (at[w] + 1 < k->sample.n && k->sample.row[at[w] + 1].seconds <= now)
                at[w]++;
            const yk_run_sample *s = k->sample.n ? &k->sample.row[at[w]] : NULL;
            sum += s ? yk_double_at(s, q->offset) + (q->other ? yk_double_at(s, q->other) : 0.0) : 0.0;
        }
        yk__series_point(out, now, sum);
    }
    free(at);
}

void yk__figures_of_resources(const yk_compare *c, yk_figures *fs)
{
    for (size_t k = 0; k < sizeof resources / sizeof *resources; k++) {
        const resource *q = &resources[k];
        const size_t first = fs->n;
        for (size_t p = 0; p < c->panels && c->panels <= MANY_PANELS; p++) {
            yk_figure *f = add_panel(c, p, q->title, fs);
            double max = 0.0;
            f->x_unit = YK_UNIT_SECONDS;
            f->y_unit = q->unit;
            f->from_zero = true;
            for (size_t g = 0; g < c->groups; g++)
                if (c->group[g].panel == p) {
                    const yk_series *s = add_group(c, &c->group[g], run_resource, q, f);
                    for (size_t i = 0; i < s->n; i++)
                        max = fmax(max, s->point[i].y);
                }
            for (size_t i = 0; q->traffic && max <= 0.0 && i < f->n; i++)
                f->series[i].n = 0; /* threads send nothing */
            yk__figure_end(fs);
        }
        yk__figures_share_y(fs, first);
    }
}

/* ---- where the time went ---- */

static void run_staleness(const yk_compare *c, size_t run, const void *what, yk_series *out)
{
    const json_t *counts =
        yk_value_at(c->run[run].summary, "observed_staleness.counts_0_1_2to3_4to7_and_so_on");
    const size_t n = json_array_size(counts);
    double sum = 0.0;
    (void)what;
    for (size_t k = 0; k < n; k++)
        sum += json_number_value(json_array_get(counts, k));
    for (size_t k = 0; sum > 0.0 && k < n && k < 64; k++)
        yk__series_point(out, (double)k, json_number_value(json_array_get(counts, k)) / sum);
}

static void run_phases(const yk_compare *c, size_t run, const void *what, yk_series *out)
{
    (void)what;
    for (int p = 0; p < YK_PHASES; p++)
        yk__series_point(out, p, c->facts[run].phase[yk_stacked[p].phase]);
}

void yk__figures_of_time(const yk_compare *c, yk_figures *fs)
{
    if (c->n > 1) {
        yk_figure *f = yk__figure_add(fs, "Worker time by phase", NULL, NULL);
        f->kind = YK_BARS;
        f->y_unit = YK_UNIT_PERCENT_EXACT;
        for (size_t g = 0; g < c->groups; g++)
            add_group(c, &c->group[g], run_phases, NULL, f);
        yk__figure_end(fs);
    }
    for (size_t p = 0; p < c->panels && c->panels <= MANY_PANELS; p++) {
        yk_figure *f = add_panel(c, p, "Staleness of updates", fs);
        f->kind = YK_HISTOGRAM;
        f->y_unit = YK_UNIT_PERCENT_EXACT;
        f->from_zero = true;
        for (size_t g = 0; g < c->groups; g++)
            if (c->group[g].panel == p)
                add_group(c, &c->group[g], run_staleness, NULL, f);
        yk__figure_end(fs);
    }
}
