/* The figures of all runs: loss, accuracy and speed, resources, and where the time went. A curve is the mean of a group. */
#include "report/figure.h"

#include <stdlib.h>

enum { FEW_CURVES = 12, MANY_PANELS = 12 };

#define METRIC(field) offsetof(yk_metric, field)

typedef struct kind kind;
struct kind {
    const char *title;
    void (*of)(const yk_compare *c, size_t run, const kind *k, yk_series *out); /* adds the points of a run */
    yk_unit unit;
    size_t offset; /* in yk_metric or yk_run_sample */
    bool eval;
    bool error;  /* 1 - the metric */
    bool always; /* even if there are many panels */
    enum { ANY, NOT_ZERO, NOT_CONSTANT } shown;
    yk_figure_kind drawn;
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

/* Short runs have evaluations, but hardly a line between them. All runs are drawn alike. */
static bool uses_eval(const yk_compare *c, const kind *k)
{
    bool eval = k->eval;
    for (size_t i = 0; i < c->n; i++)
        eval |= c->run[i].train.n < 4 && c->run[i].eval.n > c->run[i].train.n;
    return eval;
}

static void run_curve(const yk_compare *c, size_t run, const kind *k, yk_series *out)
{
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

/* Processes take samples at different times: at each time of the first process, the latest sample of each counts. */
static void run_resource(const yk_compare *c, size_t run, const kind *q, yk_series *out)
{
    const yk_run *r = &c->run[run];
    size_t *at = calloc(r->logs + 1, sizeof *at);
    if (!at)
        *out->status = yk_fail_memory(r->logs * sizeof *at, "a figure");
    for (size_t p = 0; at && r->logs && p < r->log[0].sample.n; p++) {
        const double now = r->log[0].sample.row[p].seconds;
        double sum = 0.0;
        for (size_t w = 0; w < r->logs; w++) {
            const yk_process_log *k = &r->log[w];
            while (at[w] + 1 < k->sample.n && k->sample.row[at[w] + 1].seconds <= now)
                at[w]++;
            const yk_run_sample *s = k->sample.n ? &k->sample.row[at[w]] : NULL;
            sum += s ? yk_double_at(s, q->offset) : 0.0;
        }
        yk__series_point(out, now, sum);
    }
    free(at);
}

static const json_t *staleness_of(const yk_run *r)
{
    return yk_value_at(r->summary, "observed_staleness.counts_0_1_2to3_4to7_and_so_on");
}

/* All runs have the same buckets, so that a mean has all of them. */
static void run_staleness(const yk_compare *c, size_t run, const kind *k, yk_series *out)
{
    const json_t *counts = staleness_of(&c->run[run]);
    size_t n = 0;
    double sum = 0.0;
    (void)k;
    for (size_t i = 0; i < c->n; i++)
        n = json_array_size(staleness_of(&c->run[i])) > n ? json_array_size(staleness_of(&c->run[i])) : n;
    for (size_t i = 0; i < n; i++)
        sum += json_number_value(json_array_get(counts, i));
    for (size_t i = 0; sum > 0.0 && i < n && i < 64; i++)
        yk__series_point(out, (double)i, json_number_value(json_array_get(counts, i)) / sum);
}

static void run_phases(const yk_compare *c, size_t run, const kind *k, yk_series *out)
{
    (void)k;
    for (int p = 0; p < YK_PHASES; p++)
        yk__series_point(out, p, c->facts[run].phase[p]);
}

/* Evaluations; then lines about training; others. */
static const kind kinds[] = {
    {"Test accuracy", run_curve, YK_UNIT_PERCENT_EXACT, METRIC(test_accuracy), .eval = true, .always = true},
    {"Test error", run_curve, YK_UNIT_PERCENT_EXACT, METRIC(test_accuracy), .eval = true, .error = true},
    {"Test AUC", run_curve, YK_UNIT_PLAIN, METRIC(test_auc), .eval = true, .always = true},
    {"Test loss", run_curve, YK_UNIT_PLAIN, METRIC(test_loss), .eval = true, .always = true},
    {"Validation loss", run_curve, YK_UNIT_PLAIN, METRIC(validation_loss), .eval = true, .always = true},
    {"Training loss", run_curve, YK_UNIT_PLAIN, METRIC(loss), .always = true},
    {"Examples per second", run_curve, YK_UNIT_COUNT, METRIC(examples_per_second)},
    {"Steps per second", run_curve, YK_UNIT_COUNT, METRIC(steps_per_second)},
    /* a constant learning rate is among the options */
    {"Learning rate", run_curve, YK_UNIT_PLAIN, METRIC(learning_rate), .shown = NOT_CONSTANT},
    {"Learning rate of the network", run_curve, YK_UNIT_PLAIN, METRIC(dense_learning_rate),
     .shown = NOT_CONSTANT},
    {"Learning rate of keyed group 2", run_curve, YK_UNIT_PLAIN, METRIC(learning_rate_2),
     .shown = NOT_CONSTANT},
    {"Learning rate of keyed group 3", run_curve, YK_UNIT_PLAIN, METRIC(learning_rate_3),
     .shown = NOT_CONSTANT},
    {"Learning rate of keyed group 4", run_curve, YK_UNIT_PLAIN, METRIC(learning_rate_4),
     .shown = NOT_CONSTANT},
    {"Worker time by phase", run_phases, YK_UNIT_PERCENT_EXACT, .always = true, .drawn = YK_BARS},
    {"Staleness of updates", run_staleness, YK_UNIT_PERCENT_EXACT, .drawn = YK_HISTOGRAM},
};

/* Adds the curve of a group: the mean of its runs. */
static yk_series *add_group(const yk_compare *c, const yk_config_group *g, const kind *k, yk_figure *f)
{
    yk_series *s = yk__series_add(f, c->groups > 1 ? g->label : c->run[g->run[0]].name, (int)g->line);
    yk_series *part = calloc(g->n, sizeof *part);
    if (!part)
        *f->status = yk_fail_memory(g->n * sizeof *part, "a figure");
    for (size_t i = 0; part && i < g->n; i++) {
        part[i] = (yk_series){.axes = s->axes, .status = f->status};
        k->of(c, g->run[i], k, &part[i]);
    }
    if (part)
        yk__series_mean(part, g->n, s);
    free(part);
    return s;
}

static void mark_plateau(const yk_plateau *f, size_t offset, yk_series *s)
{
    for (size_t i = 0; f->reached && f->offset == offset && i < s->n; i++)
        if (s->point[i].x[YK_X_STEP] == f->step) {
            s->marked = true;
            s->mark = s->point[i];
        }
}

static bool is_shown(const kind *k, const yk_figure *f)
{
    bool changes = false, positive = false;
    for (size_t i = 0; i < f->n; i++)
        for (size_t p = 0; p < f->series[i].n; p++) {
            changes |= f->series[i].point[p].y != f->series[i].point[0].y;
            positive |= f->series[i].point[p].y > 0.0;
        }
    return k->shown == NOT_CONSTANT ? changes : k->shown == NOT_ZERO ? positive : true;
}

static void make_panel(const yk_compare *c, const kind *k, size_t panel, yk_figures *fs)
{
    const bool bars = k->drawn == YK_BARS; /* of all runs */
    yk_figure *f = yk__figure_add(fs, k->title, c->panels > 1 && !bars ? c->panel[panel] : NULL, NULL);
    bool same = true;
    f->kind = k->drawn;
    f->steps_or_time = k->of == run_curve;
    f->x_unit = f->steps_or_time ? YK_UNIT_PLAIN : YK_UNIT_SECONDS;
    f->y_unit = k->unit;
    f->from_zero = k->unit == YK_UNIT_COUNT || k->shown != ANY; /* not losses and accuracies */
    for (size_t g = 0; g < c->groups; g++) {
        const yk_config_group *group = &c->group[g];
        const yk_facts *facts = &c->facts[group->run[0]];
        same &= facts->majority == c->facts[0].majority;
        if (group->panel != panel && !bars)
            continue;
        yk_series *s = add_group(c, group, k, f);
        if (!f->steps_or_time)
            continue;
        s->dots = s->n == 1 || (uses_eval(c, k) && s->n <= 60 && c->groups <= FEW_CURVES);
        if (c->groups <= FEW_CURVES && group->n == 1 && !k->error)
            mark_plateau(&facts->plateau, k->offset, s);
    }
    if (f->steps_or_time && k->offset == METRIC(test_accuracy) && same) {
        f->limit = !k->error ? c->facts[0].majority : 1.0 - c->facts[0].majority;
        f->limit_text = "majority class";
    }
    const bool shown = is_shown(k, f);
    for (size_t i = 0; !shown && i < f->n; i++)
        f->series[i].n = 0;
    yk__figure_end(fs);
}

static void make_figures(const yk_compare *c, const kind *k, yk_figures *fs)
{
    const size_t first = fs->n, panels = k->drawn == YK_BARS ? 1 : c->panels;
    for (size_t p = 0; p < panels && (c->panels <= MANY_PANELS || k->always); p++)
        make_panel(c, k, p, fs);
    if (k->drawn == YK_LINES)
        yk__figures_share_y(fs, first);
}

/* The figures of a single run show more of its resources and phases. */
void yk__figures_of_runs(const yk_compare *c, yk_figures *fs)
{
    for (const kind *k = kinds; k < kinds + sizeof kinds / sizeof *kinds; k++)
        if (c->n > 1 || k->of != run_phases)
            make_figures(c, k, fs);
    for (const yk__resource *r = yk__resources; c->n > 1 && r < yk__resources + YK__RESOURCES; r++)
        make_figures(c, &(kind){r->title, run_resource, r->unit, r->offset, .shown = NOT_ZERO}, fs);
}
