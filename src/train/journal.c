/* What a run writes about itself: metrics.jsonl, one JSON object per line, and the progress line on a terminal.
 *
 *     {"kind":"train","step":400,"epoch":0.43,"seconds":1.02,"examples":25600,"loss":0.41,"examples_per_second":25098}
 *     {"kind":"eval","step":938,...,"train_loss":0.40,"test_loss":0.33,"test_accuracy":0.907,"majority_accuracy":0.1135}
 */
#include "train/trainer.h"

#include "base/clock.h"
#include "base/log.h"
#include "format/events.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct yk__journal {
    yk_file *file;     /* NULL: nothing is kept */
    yk_events *events; /* the same for TensorBoard */
    uint64_t calls, next_call;
    double told, written;
    double loss_sum; /* since the last line */
    uint64_t loss_count;
    double shown_loss;
    uint64_t told_examples, told_step;
    double rate;
};

yk_status yk__journal_open(yk__trainer *t)
{
    yk__journal *j = yk_alloc(1, sizeof *j, "the journal");
    if (!j)
        return YK_ESYSTEM;
    t->journal = j;
    j->told_examples = t->earlier_examples;
    if (!t->result->run_dir)
        return YK_OK;
    char *path;
    if (asprintf(&path, "%s/metrics.jsonl", t->result->run_dir) < 0)
        return yk_fail_memory(64, "a path");
    yk_status st = yk_file_append(path, &j->file);
    free(path);
    if (st || asprintf(&path, "%s/worker-0", t->result->run_dir) < 0)
        return st ? st : yk_fail_memory(64, "a path");
    st = yk_events_create(path, &j->events);
    free(path);
    return st;
}

yk_status yk__journal_close(yk__trainer *t)
{
    if (!t->journal)
        return YK_OK;
    yk_progress_end();
    yk_status st = yk_events_close(t->journal->events, yk_file_close(t->journal->file, YK_OK));
    yk_free(t->journal);
    t->journal = NULL;
    return st;
}

static uint64_t examples_so_far(const yk__trainer *t)
{
    /* Others count theirs without telling; in step everybody does as much as worker 0, otherwise steps are known. */
    return t->earlier_examples + (yk_store_steps(t->store) - t->result->resumed_from) * t->batch *
                                     (t->in_step ? (uint64_t)t->workers : 1);
}

/* ", "name": value" with null for what is not a number. */
static void number(yk_file *f, const char *name, double value)
{
    if (isfinite(value))
        yk_file_print(f, ",\"%s\":%.9g", name, value);
    else
        yk_file_print(f, ",\"%s\":null", name);
}

static void head(yk__trainer *t, const char *kind, uint64_t step, uint64_t examples)
{
    yk_file *f = t->journal->file;
    yk_file_print(f, "{\"kind\":\"%s\",\"step\":%llu,\"examples\":%llu", kind, (unsigned long long)step,
                  (unsigned long long)examples);
    number(f, "epoch", yk_feed_epochs_done(t->feed, examples));
    number(f, "seconds", t->earlier_seconds + yk_now() - t->began);
}

static void show(const yk__trainer *t, uint64_t step, uint64_t examples)
{
    const yk__journal *j = t->journal;
    double total = t->steps != UINT64_MAX ? (double)t->steps
                   : t->train.examples    ? (double)t->epochs * (double)t->train.examples
                                          : 0.0;
    double part = total > 0.0 ? (t->steps != UINT64_MAX ? (double)step : (double)examples) / total : 0.0;
    double left = part > 0.0 ? (yk_now() - t->began) * (1.0 - part) / part : 0.0;
    char test[64] = "";
    if (t->result->tested)
        snprintf(test, sizeof test, "  test %.2f %%", 100.0 * t->result->test.accuracy);
    yk_progress("step %llu  epoch %.2f  loss %.4f%s  %.3g examples/s  %.0f %%  %d:%02d left",
                (unsigned long long)step, yk_feed_epochs_done(t->feed, examples), j->shown_loss, test,
                j->rate, 100.0 * part, (int)left / 60, (int)left % 60);
}

void yk__journal_progress(yk__trainer *t, double loss)
{
    yk__journal *j = t->journal;
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
    uint64_t examples = examples_so_far(t), step = yk_store_steps(t->store);
    j->rate = (double)(examples - j->told_examples) / since;
    j->told_examples = examples;
    j->told = now;
    j->shown_loss = j->loss_sum / (double)j->loss_count;
    if (j->file && now - j->written >= 0.5) {
        j->written = now;
        head(t, "train", step, examples);
        number(j->file, "loss", j->shown_loss);
        number(j->file, "examples_per_second", j->rate);
        yk_file_print(j->file, "}\n");
        const yk_scalar scalars[] = {
            {"loss", (float)j->shown_loss},
            {"examples/sec", (float)j->rate},
            {"global_step/sec", (float)((double)(step - j->told_step) / since)},
            {"learning_rate", yk_optim_at(&t->optim, step).lr},
        };
        yk_events_scalars(j->events, 0, (int64_t)step, scalars, sizeof scalars / sizeof *scalars);
        yk_file_flush(j->file); /* the first error is kept and reported at the end */
        yk_events_flush(j->events);
    }
    j->told_step = step;
    j->loss_sum = 0.0;
    j->loss_count = 0;
    show(t, step, examples);
}

yk_status yk__journal_eval(yk__trainer *t, double train_loss)
{
    yk__journal *j = t->journal;
    const yk_score *s = &t->result->test;
    uint64_t examples = t->earlier_examples;
    for (int i = 0; i < t->workers; i++)
        examples += t->trainee[i].examples;
    char trained[48] = "";
    if (isfinite(train_loss))
        snprintf(trained, sizeof trained, "train loss %.4f%s", train_loss, t->tested ? ", " : "");
    if (t->tested) {
        char auc[48] = "";
        if (isfinite(s->auc))
            snprintf(auc, sizeof auc, ", AUC %.4f", s->auc);
        yk_note("step %llu, epoch %.2f: %stest loss %.4f, accuracy %.2f %% (majority class: %.2f %%)%s",
                (unsigned long long)t->step, yk_feed_epochs_done(t->feed, examples), trained, s->loss,
                100.0 * s->accuracy, 100.0 * s->majority_accuracy, auc);
    } else {
        yk_note("step %llu, epoch %.2f: %s", (unsigned long long)t->step,
                yk_feed_epochs_done(t->feed, examples), trained);
    }
    if (!j->file)
        return YK_OK;
    head(t, "eval", t->step, examples);
    number(j->file, "train_loss", train_loss);
    if (t->tested) {
        number(j->file, "test_loss", s->loss);
        number(j->file, "test_accuracy", s->accuracy);
        number(j->file, "test_auc", s->auc);
        number(j->file, "majority_accuracy", s->majority_accuracy);
    }
    yk_file_print(j->file, "}\n");
    const yk_scalar scalars[] = {{"train_loss", (float)train_loss},
                                 {"test/loss", (float)s->loss},
                                 {"test/accuracy", (float)s->accuracy},
                                 {"test/majority_accuracy", (float)s->majority_accuracy},
                                 {"test/auc", (float)s->auc}};
    size_t n = !t->tested ? 1 : isfinite(s->auc) ? 5 : 4;
    yk_status st = yk_events_scalars(j->events, 0, (int64_t)t->step, scalars, n);
    if (!st)
        st = yk_events_flush(j->events);
    return st ? st : yk_file_flush(j->file);
}
