/* Conclusions that people draw wrongly from a run, said before they do. */
#include "train/trainer.h"

#include "base/log.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void say(yk__trainer *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* On stderr, and into the results; without memory for that, on stderr only. */
static void say(yk__trainer *t, const char *format, ...)
{
    yk_watched *w = &t->result->watched;
    char *text;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0)
        return;
    yk_warn("%s", text);
    char **grown = realloc(w->guard, ((size_t)w->nguards + 1) * sizeof *grown);
    if (!grown) {
        free(text);
        return;
    }
    w->guard = grown;
    w->guard[w->nguards++] = text;
}

static void guard_losses(yk__trainer *t)
{
    const yk_result *r = t->result;
    double untrained = log((double)t->model->shape.classes);
    if (r->train_loss > untrained * 1.02)
        say(t,
            "the training loss %.4f is above %.4f, that of a model that knows nothing: the learning rate "
            "%g is too large; "
            "try --lr %g",
            r->train_loss, untrained, r->lr, r->lr / 10.0);
    else if (r->tested && r->test.loss > untrained * 1.02)
        say(t,
            "the test loss %.4f is above %.4f, that of a model that knows nothing: it has learned the "
            "training examples "
            "by heart; try --l2 1e-6, fewer --epochs, or more data",
            r->test.loss, untrained);
    else if (r->train_loss > 1.05 * t->lowest_loss && r->train_loss > t->lowest_loss + 0.02 * untrained)
        say(t,
            "the training loss %.4f is higher than it was (%.4f): the learning rate %g is too large at the "
            "end; try --lr %g",
            r->train_loss, t->lowest_loss, r->lr, r->lr / 3.0);
}

/* Times of a run that had to share the machine do not compare with others. */
static void guard_machine(yk__trainer *t)
{
    const yk_watched *w = &t->result->watched;
    for (int i = 0; i < w->nprocesses; i++) {
        yk_usage u;
        int workers;
        yk__usage_of_host(w->process, w->nprocesses, i, &u, &workers);
        const double others = u.cpu_host.mean - u.cpu.mean;
        if (u.seconds >= 0.5 && others > 0.25 && u.cpu_host.mean > 0.8 * u.host_cores) {
            say(t,
                "other programs used %.1f of the %.0f cores of %s: its times do not compare with those of "
                "other runs",
                others, u.host_cores, u.host);
            return;
        }
    }
}

void yk__guard(yk__trainer *t)
{
    const yk_result *r = t->result;
    guard_losses(t);
    if (r->tested && r->test.accuracy <= r->test.majority_accuracy + 1e-9) {
        char auc[96] = "";
        if (isfinite(r->test.auc))
            snprintf(auc, sizeof auc, " (its AUC of %.3f tells more: 0.5 is chance)", r->test.auc);
        say(t, "%.2f %% accuracy is no better than always guessing the commonest class, which is %.2f %%%s",
            100.0 * r->test.accuracy, 100.0 * r->test.majority_accuracy, auc);
    }
    if (r->bad_records)
        say(t, "%llu bad record%s skipped", (unsigned long long)r->bad_records,
            r->bad_records == 1 ? " was" : "s were");
    guard_machine(t);
}
