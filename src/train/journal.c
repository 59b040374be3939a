/* What a run writes about itself: metrics.jsonl, one JSON object per line, and the progress line on a terminal.
 *
 *     {"kind":"train","step":400,"examples":25600,"epoch":0.43,"seconds":1.02,"loss":0.41,"examples_per_second":25098,
 *      "steps_per_second":392,"learning_rate":0.1,"bottleneck":"cpu","share":0.97}
 *     {"kind":"eval","step":938,...,"train_loss":0.40,"test_loss":0.33,"test_accuracy":0.907,"majority_accuracy":0.1135}
 *
 * A run that is resumed drops the lines of steps beyond the checkpoint: those steps are made again. If the step of the
 * checkpoint was already evaluated, that is not written again. TensorBoard's files are board.c.
 */
#include "train/trainer.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct yk__journal {
    yk_file *file;  /* NULL: nothing is kept */
    bool evaluated; /* the file already has the evaluation of the step that the run was resumed from */
    yk_json line;
    uint64_t calls, next_call;
    double told, written;
    double loss_sum; /* since the last line */
    uint64_t loss_count;
    double shown_loss;
    uint64_t told_examples, told_step;
    double rate;
};

/* An evaluation ends a period: a checkpoint that was written at the same time may still have its sums. */
static yk_status find_evaluation(yk__trainer *t)
{
    char line[1024], *path;
    if (asprintf(&path, "%s/metrics.jsonl", t->result->run_dir) < 0)
        return yk_fail_memory(64, "a path");
    yk__lines_last(path, "train_loss", line, sizeof line);
    free(path);
    t->journal->evaluated = yk__line_number(line, "step") == (double)t->step;
    if (!t->journal->evaluated)
        return YK_OK;
    t->result->train_loss = yk__line_number(line, "train_loss");
    for (int i = 0; i < t->plan->workers; i++) {
        t->trainee[i].period_loss = 0.0;
        t->trainee[i].period_examples = 0;
    }
    return YK_OK;
}

yk_status yk__journal_open(yk__trainer *t)
{
    yk__journal *j = yk_alloc(1, sizeof *j, "the journal");
    if (!j)
        return YK_ESYSTEM;
    t->journal = j;
    j->told_examples = t->earlier_examples;
    j->told_step = t->step;
    if (!t->result->run_dir)
        return YK_OK;
    const char *dir = t->result->run_dir, *name = "metrics.jsonl";
    yk_status st = t->config->resume ? yk__lines_cut(dir, name, "step", (double)t->step) : YK_OK;
    if (!st && t->config->resume)
        st = find_evaluation(t);
    if (!st)
        st = yk_file_append_in(dir, name, &j->file);
    return st ? st : yk__board_open(t, dir);
}

static uint64_t examples_so_far(const yk__trainer *t)
{
    if (t->cluster.role != YK__ALONE)
        return t->earlier_examples + t->trainee[0].examples;
    /* Others count theirs without telling; in step everybody does as much as worker 0, otherwise steps are known. */
    return t->earlier_examples + (yk_local_steps(t->local) - t->result->resumed_from) * t->plan->batch *
                                     (t->plan->lockstep ? (uint64_t)t->plan->workers : 1);
}

/* Epochs as a fraction, including the current one. Examples of late gradients count as used. */
static double epochs_done(const yk__trainer *t, uint64_t examples)
{
    return t->train.examples ? (double)(examples + t->late_examples) / (double)t->train.examples : 0.0;
}

static void head(yk__trainer *t, const char *kind, uint64_t step, uint64_t examples)
{
    yk_json *j = &t->journal->line;
    yk_json_object(j, NULL);
    yk_json_text(j, "kind", kind);
    YK_JSON_WHOLES(j, {"step", step}, {"examples", examples});
    yk_json_real(j, "epoch", epochs_done(t, examples));
    yk_json_real(j, "seconds", t->earlier_seconds + yk_now() - t->began);
}

static yk_status write_line(yk__journal *j)
{
    yk_json_end(&j->line);
    const yk_status st = yk_json_write(&j->line, j->file), flushed = yk_file_flush(j->file);
    return st ? st : flushed;
}

/* What part of the run is done, 0: not known. */
static double part_done(const yk__trainer *t, uint64_t step, uint64_t examples)
{
    const double total = t->plan->steps != UINT64_MAX ? (double)t->plan->steps
                         : t->train.examples          ? (double)t->plan->epochs
                                                      : 0.0;
    return total > 0.0 ? (t->plan->steps != UINT64_MAX ? (double)step : epochs_done(t, examples)) / total
                       : 0.0;
}

/* At the pace of this process. */
static double seconds_left(const yk__trainer *t, uint64_t step, uint64_t examples)
{
    const double part = part_done(t, step, examples),
                 before = part_done(t, t->result->resumed_from, t->earlier_examples);
    return part > before ? (yk_now() - t->began) * fmax(1.0 - part, 0.0) / (part - before) : (double)NAN;
}

/* "436 k" */
static void shorten(double rate, char out[24])
{
    const bool millions = rate >= 1e6, thousands = rate >= 1e3;
    snprintf(out, 24, "%.3g%s",
             rate / (millions    ? 1e6
                     : thousands ? 1e3
                                 : 1.0),
             millions    ? " M"
             : thousands ? " k"
                         : "");
}

/* Short enough for 80 columns, unless the bottleneck has a long name. */
static void show(yk__trainer *t, uint64_t step, const yk__progress *p)
{
    if (!yk_progress_wanted())
        return;
    char test[40] = "", by[80] = "", left[40] = "", rate[24];
    yk_verdict held;
    shorten(p->rate, rate);
    if (t->result->tested)
        snprintf(test, sizeof test, "  test %.1f %%", 100.0 * t->result->test.accuracy);
    if (yk__observe_verdict(t, &held))
        snprintf(by, sizeof by, "  %s", held.brief);
    if (isfinite(p->seconds_left))
        snprintf(left, sizeof left, "  %d:%02d left", (int)p->seconds_left / 60, (int)p->seconds_left % 60);
    yk_progress("step %llu  epoch %.2f  loss %.3f%s  %s/s%s%s", (unsigned long long)step, p->epoch, p->loss,
                test, rate, left, by);
}

/* As it is now, for whoever finds this run without an end. */
static void put_verdict(yk__trainer *t)
{
    yk_verdict v;
    if (!yk__observe_verdict(t, &v))
        return;
    yk_json_text(&t->journal->line, "bottleneck", yk_verdict_name(v.kind));
    yk_json_real(&t->journal->line, "share", v.share);
}

/* Everybody who wants to know. */
static void tell(yk__trainer *t, uint64_t step, uint64_t examples, double since, bool write)
{
    yk__journal *j = t->journal;
    const yk__progress p = {.loss = j->shown_loss,
                            .rate = j->rate,
                            .step_rate = (double)(step - j->told_step) / since,
                            .epoch = epochs_done(t, examples),
                            .seconds_left = seconds_left(t, step, examples),
                            .lr = (double)yk_optim_at(&t->optim, step).lr};
    yk__observe_progress(t, step, examples, &p);
    if (write && j->file) {
        head(t, "train", step, examples);
        YK_JSON_REALS(&j->line, {"loss", p.loss}, {"examples_per_second", p.rate},
                      {"steps_per_second", p.step_rate}, {"learning_rate", p.lr});
        put_verdict(t);
        write_line(j); /* the first error is kept and reported at the end */
        yk__board_progress(t, step, &p);
    }
    show(t, step, &p);
}

/* What happened in the last `since` seconds. */
static void sum_up(yk__trainer *t, double now, double since)
{
    yk__journal *j = t->journal;
    const uint64_t examples = examples_so_far(t), step = yk_local_steps(t->local);
    j->rate = (double)(examples - j->told_examples) / since;
    j->told_examples = examples;
    j->told = now;
    j->shown_loss = j->loss_sum / (double)j->loss_count;
    const bool write = now - j->written >= 0.5;
    j->written = write ? now : j->written;
    tell(t, step, examples, since, write);
    j->told_step = step;
    j->loss_sum = 0.0;
    j->loss_count = 0;
}

void yk__journal_progress(yk__trainer *t, double loss)
{
    yk__journal *j = t->journal;
    if (!j) /* another process writes it */
        return;
    if (t->result->first_step_seconds == 0.0)
        t->result->first_step_seconds = yk_now() - t->started;
    j->loss_sum += loss;
    j->loss_count++;
    if (++j->calls < j->next_call)
        return;
    double now = yk_now(), since = now - (j->told > 0.0 ? j->told : t->began);
    /* look again after about 20 ms */
    uint64_t gap =
        j->told > 0.0 && since > 0.0 ? (uint64_t)((double)(j->calls) / (now - t->began) * 0.02) : 1;
    j->next_call = j->calls + (gap < 1 ? 1 : gap);
    if (since < 0.2)
        return;
    sum_up(t, now, since);
}

yk_status yk__journal_close(yk__trainer *t)
{
    yk__journal *j = t->journal;
    if (!j)
        return YK_OK;
    if (j->file && j->written == 0.0 && j->loss_count) /* too short for a line; so this is it */
        sum_up(t, yk_now(), yk_now() - t->began);
    yk_progress_end();
    yk_status st = yk__board_close(t, yk_file_close(j->file, YK_OK));
    yk_json_fini(&j->line);
    yk_free(j);
    t->journal = NULL;
    return st;
}

yk_status yk__journal_eval(yk__trainer *t, double train_loss)
{
    yk__journal *j = t->journal;
    const yk_score *s = &t->result->test;
    uint64_t examples = t->earlier_examples;
    for (int i = 0; i < t->plan->workers; i++)
        examples += t->trainee[i].examples;
    char trained[48] = "";
    if (isfinite(train_loss))
        snprintf(trained, sizeof trained, "train loss %.4f%s", train_loss, t->tested ? ", " : "");
    if (t->tested) {
        char auc[48] = "";
        if (isfinite(s->auc))
            snprintf(auc, sizeof auc, ", AUC %.4f", s->auc);
        yk_note("step %llu, epoch %.2f: %stest loss %.4f, accuracy %.2f %% (majority class: %.2f %%)%s",
                (unsigned long long)t->step, epochs_done(t, examples), trained, s->loss, 100.0 * s->accuracy,
                100.0 * s->majority_accuracy, auc);
    } else {
        yk_note("step %llu, epoch %.2f: %s", (unsigned long long)t->step, epochs_done(t, examples), trained);
    }
    yk__observe_eval(t);
    if (!j->file || (j->evaluated && t->step == t->result->resumed_from))
        return YK_OK;
    head(t, "eval", t->step, examples);
    yk_json_real(&j->line, "train_loss", train_loss);
    if (t->tested) {
        YK_JSON_REALS(&j->line, {"test_loss", s->loss}, {"test_accuracy", s->accuracy}, {"test_auc", s->auc},
                      {"majority_accuracy", s->majority_accuracy});
    }
    const yk_status st = yk__board_eval(t, train_loss), written = write_line(j);
    return st ? st : written;
}
