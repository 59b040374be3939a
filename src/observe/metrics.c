/* The metrics of a run: metrics.jsonl, one JSON object per line, and the progress line on a terminal.
 *
 *     {"kind":"train","step":400,"examples":25600,"epoch":0.43,"seconds":1.02,"loss":0.41,"examples_per_second":25098,
 *      "steps_per_second":392,"learning_rate":0.1,"bottleneck":"cpu","share":0.97}
 *     {"kind":"eval","step":938,...,"train_loss":0.40,"test_loss":0.33,"test_accuracy":0.907,"majority_accuracy":0.1135}
 *
 * The schedule of the run (train/schedule.h) decides when to write a train line. An evaluation is written if at least a
 * thousandth of the steps so far have passed since the last one that was written; the first 1,000 at regular intervals always
 * are. Of the others, the best ones and the last one are written later, before the next line or at the end.
 *
 * A resumed run removes the lines of steps after its checkpoint, since it repeats these steps. If the step of the checkpoint
 * was already evaluated, the evaluation is not written again.
 */
#include "observe/observe_internal.h"

#include "observe/lines.h"
#include <string.h>

static const char name[] = "metrics.jsonl";
enum { EVALUATIONS = 1000, BESTS = YK__METRICS - YK__TEST_LOSS };
const char *const yk_metric_names[] = {
    "epoch",    "seconds",           "train_loss",      "test_loss",           "test_accuracy",
    "test_auc", "majority_accuracy", "validation_loss", "validation_accuracy", "validation_auc",
    NULL};
const char *const yk__rate_names[YK_RATES] = {"learning_rate", "dense_learning_rate", "learning_rate_2",
                                              "learning_rate_3", "learning_rate_4"};
static const double rate_seconds = 0.2, measure_every = 0.5, flush_every = 0.2; /* seconds */

/* A moment that rates and losses are computed from. */
typedef struct {
    double time;
    yk_run_position at;
} mark;

struct yk__metrics {
    yk_file *file;  /* NULL: nothing is written */
    bool evaluated; /* the file already has the evaluation of the step that the run was resumed from */
    double resumed_loss;
    yk_json line;
    /* times: of the last flush; of the last event with resources and phases; 0: not yet */
    double flushed, measured;
    yk_evaluation last, best[BESTS]; /* the last one; the best ones by loss, accuracy and AUC of each set */
    double best_value[BESTS];        /* higher is better */
    bool has_evaluation;             /* written by this process */
    uint64_t evaluation_step;        /* of the last one written */
    mark shown, written;             /* the last progress line; the last train line */
    /* The rates of a train line are measured since `from`, at least rate_seconds earlier. `then` is the next `from`. */
    mark from, then;
};

/* ---- opening ---- */

bool yk_observer_resumed_loss(const yk_observer *o, double *train_loss_out)
{
    if (!o->metrics || !o->metrics->evaluated)
        return false;
    *train_loss_out = o->metrics->resumed_loss;
    return true;
}

yk_status yk__metrics_open(yk_observer *o)
{
    const char *dir = o->c.run_dir;
    yk__metrics *m = yk_alloc(1, sizeof *m, "the metrics");
    if (!m)
        return YK_ESYSTEM;
    o->metrics = m;
    for (int i = 0; i < BESTS; i++)
        m->best_value[i] = -HUGE_VAL;
    if (!dir)
        return YK_OK;
    yk_status st = o->c.config->resume ? yk_lines_cut(dir, name, "step", (double)o->c.resumed_from) : YK_OK;
    if (!st && o->c.config->resume) {
        /* The training loss is the mean since the last evaluation. A checkpoint of the same step may still have the sums from
         * before the evaluation. */
        char line[1024];
        yk_lines_last(dir, name, "train_loss", line, sizeof line);
        m->evaluated = yk_line_number(line, "step") == (double)o->c.resumed_from;
        m->resumed_loss = yk_line_number(line, "train_loss");
    }
    if (!st)
        st = yk_file_append_in(dir, name, &m->file);
    return st ? st : yk__tensorboard_open(o, dir);
}

/* ---- lines ---- */

static double epochs_done(const yk_run_position *at, uint64_t examples)
{
    const double done = (double)(examples + at->late_examples);
    return at->epoch_examples ? done / (double)at->epoch_examples : done > 0.0 ? (double)NAN : 0.0;
}

double yk_epochs_done(const yk_run_position *at)
{
    return epochs_done(at, at->examples);
}

static void begin_line(yk_observer *o, const char *kind, uint64_t step, uint64_t examples, double epoch,
                       double seconds)
{
    yk_json *j = &o->metrics->line;
    YK_JSON(j, YK_OBJECT(NULL), YK_TEXT("kind", kind), YK_INT("step", step), YK_INT("examples", examples),
            YK_REAL("epoch", epoch), YK_REAL("seconds", seconds));
}

static yk_status write_line(yk__metrics *m, bool flush)
{
    yk_json_end(&m->line);
    const yk_status st = yk_json_write(&m->line, m->file), flushed = flush ? yk_file_flush(m->file) : YK_OK;
    return st ? st : flushed;
}

/* The fraction of the run that is done; 0: not known. */
static double fraction_done(const yk_observer *o, const yk_run_position *at, uint64_t step, uint64_t examples)
{
    const yk_plan *plan = o->c.plan;
    if (plan->steps != UINT64_MAX)
        return plan->steps ? (double)step / (double)plan->steps : 0.0;
    return at->epoch_examples && plan->epochs ? epochs_done(at, examples) / (double)plan->epochs : 0.0;
}

/* At the rate of this process. */
static double seconds_left(const yk_observer *o, const yk_run_position *at)
{
    const double done = fraction_done(o, at, at->step, at->examples),
                 before = fraction_done(o, at, o->c.resumed_from, o->c.earlier_examples);
    return done > before ? (yk_now() - o->began) * fmax(1.0 - done, 0.0) / (done - before) : (double)NAN;
}

/* The terminal leaves out the last fields if its line is too short. */
static void show(yk_observer *o, yoke_progress p)
{
    if (!yk_progress_wanted() && !o->c.progress)
        return;
    const double accuracy = o->history.tested.m.test_accuracy; /* this thread sets it */
    yk_verdict verdict;
    yk_text line = {0};
    const double rate = p.examples_per_second, prefix = rate >= 1e6 ? 1e6 : rate >= 1e3 ? 1e3 : 1.0;
    yk_text_print(&line, "step %llu", (unsigned long long)p.step);
    if (isfinite(p.epoch))
        yk_text_print(&line, "  epoch %.2f", p.epoch);
    yk_text_print(&line, "  loss %.3f", p.loss);
    if (isfinite(accuracy))
        yk_text_print(&line, "  test %.1f %%", 100.0 * accuracy);
    yk_text_print(&line, "  %.3g%s/s", rate / prefix, rate >= 1e6 ? " M" : rate >= 1e3 ? " k" : "");
    if (isfinite(p.seconds_left))
        yk_text_print(&line, "  %d:%02d left", (int)p.seconds_left / 60, (int)p.seconds_left % 60);
    if (yk__observer_verdict(o, &verdict))
        yk_text_print(&line, "  bottleneck: %s", yk_verdict_name(verdict.kind));
    p.text = line.s ? line.s : "";
    yk_progress("%s", p.text);
    if (o->c.progress)
        o->c.progress(o->c.context, &p);
    yk_text_fini(&line);
}

/* ---- lines of evaluations ---- */

static yk_status write_evaluation(yk_observer *o, const yk_evaluation *e, bool late)
{
    yk__metrics *m = o->metrics;
    m->has_evaluation = true;
    m->evaluation_step = e->m.step;
    begin_line(o, "eval", e->m.step, e->m.examples, e->m.epoch, e->m.seconds);
    for (int k = YK__TRAIN_LOSS; k < YK__METRICS; k++)
        if (k == YK__TRAIN_LOSS || (k < YK__VALIDATION_LOSS ? e->tested : e->validated))
            yk_json_real(&m->line, yk_metric_names[k], yk__metrics_of(e)[k]);
    if (e->monitor)
        yk_json_real(&m->line, "monitored", e->monitored);
    const yk_status st = yk__tensorboard_evaluated(o, e, late), written = write_line(m, true);
    return st ? st : written;
}

static void compare_with_best(yk__metrics *m, const yk_evaluation *e)
{
    for (int i = 0; i < BESTS; i++) {
        const int k = YK__TEST_LOSS + i;
        const double value = yk__metrics_of(e)[k],
                     good = k == YK__TEST_LOSS || k == YK__VALIDATION_LOSS ? -value : value;
        if (good > m->best_value[i]) {
            m->best_value[i] = good;
            m->best[i] = *e;
        }
    }
}

/* Writes the best evaluations that were not written, in the order of their steps; at the end, also the last evaluation. */
static yk_status write_skipped(yk_observer *o, bool end)
{
    yk__metrics *m = o->metrics;
    for (yk_status st = YK_OK;;) {
        const yk_evaluation *next = NULL;
        for (int i = 0; i < BESTS + end; i++) {
            const yk_evaluation *e = i < BESTS ? &m->best[i] : &m->last;
            if (e->m.step > m->evaluation_step && (!next || e->m.step < next->m.step))
                next = e;
        }
        if (!next || (!end && next->m.step == m->last.m.step) || (st = write_evaluation(o, next, true)))
            return st;
    }
}

/* ---- points of the training curves ---- */

/* Whether two learning rates are always the same. */
static bool same_rate(const yk_optim_config *a, const yk_optim_config *b)
{
    return a->lr == b->lr && a->schedule == b->schedule && a->lr_decay == b->lr_decay &&
           a->warm_up == b->warm_up;
}

/* The progress since `from`, with rates since `rates`. */
static yk_progress_report progress_since(const yk_observer *o, const yk_run_position *at, double now,
                                         const mark *from, const mark *rates)
{
    const double seconds = now - rates->time;
    const yk_run_position *began = &rates->at;
    yk_progress_report p = {.now = {.step = at->step,
                                    .examples = at->examples,
                                    .loss = (at->trained_loss - from->at.trained_loss) /
                                            (at->trained_weight - from->at.trained_weight),
                                    .examples_per_second = (double)(at->examples - began->examples) / seconds,
                                    .steps_per_second = (double)(at->step - began->step) / seconds,
                                    .epoch = yk_epochs_done(at),
                                    .seconds_left = seconds_left(o, at)}};
    for (int g = 0; g < YK_RATES; g++) {
        const yk_optim_config *c = o->c.optim[g];
        p.rate[g] =
            c && (!g || !same_rate(c, o->c.optim[0])) ? (double)yk_optim_at(c, at->step).lr : (double)NAN;
    }
    return p;
}

/* The rates of a point are those of the last fifth of a second or more: single steps vary too much. */
static void write_point(yk_observer *o, const yk_run_position *at, double now)
{
    yk__metrics *m = o->metrics;
    yk_verdict v;
    if (m->written.at.step == at->step || m->written.at.trained_weight == at->trained_weight)
        return;
    if (now - m->then.time >= rate_seconds) {
        m->from = m->then;
        m->then = (mark){now, *at};
    }
    const yk_progress_report p = progress_since(o, at, now, &m->written, &m->from);
    m->written = (mark){now, *at};
    if (!m->file)
        return;
    const bool flush = now - m->flushed >= flush_every, all = now - m->measured >= measure_every;
    begin_line(o, "train", at->step, at->examples, p.now.epoch, yk__observer_seconds(o));
    YK_JSON(&m->line, YK_REAL("loss", p.now.loss), YK_REAL("examples_per_second", p.now.examples_per_second),
            YK_REAL("steps_per_second", p.now.steps_per_second));
    for (int g = 0; g < YK_RATES; g++)
        if (isfinite(p.rate[g]))
            yk_json_real(&m->line, yk__rate_names[g], p.rate[g]);
    if (yk__observer_verdict(o, &v)) { /* in case the run is killed */
        YK_JSON(&m->line, YK_TEXT("bottleneck", yk_verdict_name(v.kind)), YK_REAL("share", v.share));
    }
    write_line(m, flush); /* the first error is kept and reported at the end */
    yk__tensorboard_progress(o, &p, !all);
    m->flushed = flush ? now : m->flushed;
    m->measured = all ? now : m->measured;
}

void yk_observer_begin(yk_observer *o)
{
    yk__metrics *m = o->metrics;
    if (!m) /* only the chief has metrics */
        return;
    m->written = (mark){yk_now(), {.step = o->c.resumed_from, .examples = o->c.earlier_examples}};
    m->from = m->then = m->shown = m->written;
}

void yk_observer_progress(yk_observer *o, bool point, bool line)
{
    yk__metrics *m = o->metrics;
    yk_run_position at;
    const double now = yk_now();
    o->c.position(o->c.context, &at);
    if (point)
        write_point(o, &at, now);
    if (line && at.trained_weight > m->shown.at.trained_weight) {
        const yk_progress_report p = progress_since(o, &at, now, &m->shown, &m->shown);
        if (yk_mutex_trylock(&o->lock)) { /* else the next update follows soon */
            o->history.progress = p;
            yk_mutex_unlock(&o->lock);
        }
        show(o, p.now);
        m->shown = (mark){now, at};
    }
}

yk_status yk__metrics_close(yk_observer *o)
{
    yk__metrics *m = o->metrics;
    if (!m)
        return YK_OK;
    m->flushed = 0.0;
    if (m->file && o->started && !o->unchanged)
        yk_observer_progress(o, true, false); /* the steps since the last line, if training failed */
    yk_progress_end();
    yk_status st = m->file ? write_skipped(o, true) : YK_OK;
    st = yk__tensorboard_close(o, yk_file_close(m->file, st));
    yk_json_fini(&m->line);
    yk_free(m);
    o->metrics = NULL;
    return st;
}

/* ---- evaluations ---- */

/* For the live page and for warnings. */
static void add_to_curve(yk_observer *o, const yk_evaluation *e)
{
    yk__history *h = &o->history;
    yk_evaluation point = *e;
    point.steps = e->m.step - (h->ncurve ? o->curve_steps : o->c.resumed_from);
    point.examples = e->m.examples - (h->ncurve ? o->curve_examples : o->c.earlier_examples);
    yk_mutex_lock(&o->lock);
    h->tested = *e;
    if (!h->ncurve || point.steps) {
        if (h->ncurve == YK__MAX_CURVE)
            yk__thin(h->curve, sizeof *h->curve, &h->ncurve);
        h->curve[h->ncurve++] = point;
    }
    yk_mutex_unlock(&o->lock);
    o->curve_steps = e->m.step;
    o->curve_examples = e->m.examples;
}

const yk_evaluation *yk_observer_curve(const yk_observer *o, size_t *n_out)
{
    *n_out = o ? (size_t)o->history.ncurve : 0;
    return o ? o->history.curve : NULL;
}

/* drop: leaves out the majority class (1), the epoch (2), and the training loss (3). */
static void evaluation_text(const yk_evaluation *e, int drop, yk_text *out)
{
    const yoke_metrics *m = &e->m;
    const char *between = ": ";
    yk_text_print(out, "step %llu", (unsigned long long)m->step);
    if (isfinite(m->epoch) && drop < 2)
        yk_text_print(out, ", epoch %.2f", m->epoch);
    if (isfinite(m->train_loss) && drop < 3) {
        yk_text_print(out, "%strain loss %.4f", between, m->train_loss);
        between = ", ";
    }
    if (e->validated) {
        yk_text_print(out, "%svalidation loss %.4f", between, m->validation_loss);
        between = ", ";
        if (e->monitor && strcmp(e->monitor, "accuracy") == 0)
            yk_text_print(out, ", accuracy %.2f %%", 100.0 * e->monitored);
        else if (e->monitor)
            yk_text_print(out, ", %s %.4f", e->monitor, e->monitored);
    }
    if (e->tested)
        yk_text_print(out, "%stest loss %.4f", between, m->test_loss);
    if (isfinite(m->test_accuracy))
        yk_text_print(out, ", accuracy %.2f %%", 100.0 * m->test_accuracy);
    if (isfinite(m->test_accuracy) && drop < 1)
        yk_text_print(out, " (majority class: %.2f %%)", 100.0 * m->majority_accuracy);
    if (isfinite(m->test_auc))
        yk_text_print(out, ", AUC %.4f", m->test_auc);
}

/* Leaves something out if the window is narrow. In one that is too narrow even for the rest, the line wraps. */
static void print_evaluation(const yk_evaluation *e)
{
    yk_text line = {0};
    const int max = yk_log_width(), last = e->tested ? 3 : 2;
    for (int drop = 0; drop == 0 || ((int)line.n > max && drop <= last); drop++) {
        yk_text_fini(&line);
        evaluation_text(e, drop, &line);
    }
    if (line.s)
        yk_note("%.*s", max < 30 ? -1 : max, line.s);
    yk_text_fini(&line);
}

yk_status yk_observer_evaluated(yk_observer *o, const yk_evaluation *e)
{
    yk__metrics *m = o->metrics;
    if (e->m.step) /* the evaluation before the first step is only for the curves */
        print_evaluation(e);
    add_to_curve(o, e);
    if (!m->file || (m->evaluated && e->m.step == o->c.resumed_from))
        return YK_OK;
    compare_with_best(m, e);
    m->last = *e;
    if (m->has_evaluation && e->m.step - m->evaluation_step < e->m.step / EVALUATIONS)
        return YK_OK;
    const yk_status st = write_skipped(o, false);
    return st ? st : write_evaluation(o, e, false);
}

/* ---- reading ---- */

/* The part of a verdict that a line has. */
static void read_verdict(const char *line, yk_verdict *v)
{
    char kind[64];
    yk_line_text(line, "bottleneck", kind, sizeof kind);
    for (int k = YK_VERDICT_NONE + 1; k < YK_VERDICT_KINDS; k++)
        if (strcmp(kind, yk_verdict_name((yk_verdict_kind)k)) == 0)
            v->kind = (yk_verdict_kind)k;
    if (v->kind == YK_VERDICT_NONE)
        return;
    v->share = yk_line_number(line, "share");
    snprintf(v->text, sizeof v->text, "%s: %.0f %% of the time, according to the last lines of metrics.jsonl",
             kind, 100.0 * v->share);
}

void yk_metrics_read_end(const char *run_dir, yk_metrics_end *out)
{
    char line[1024];
    *out = (yk_metrics_end){0};
    yk_lines_last(run_dir, name, "step", line, sizeof line);
    out->steps = (uint64_t)fmax(yk_line_number(line, "step"), 0.0); /* fmax() ignores NaN */
    out->examples = (uint64_t)fmax(yk_line_number(line, "examples"), 0.0);
    out->epochs = yk_line_number(line, "epoch");
    out->seconds = fmax(yk_line_number(line, "seconds"), 0.0);
    yk_lines_last(run_dir, name, "bottleneck", line, sizeof line);
    read_verdict(line, &out->verdict);
}
