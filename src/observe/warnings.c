/* Warnings about conclusions that people would draw wrongly from a run. */
#include "observe/observer_internal.h"

#include "base/log.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void warn(yk_observation *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* On stderr, and into the results; if memory runs out, on stderr only. */
static void warn(yk_observation *w, const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0)
        return;
    yk_warn("%s", text);
    char **grown = realloc(w->warning, ((size_t)w->nwarnings + 1) * sizeof *grown);
    if (!grown) {
        free(text);
        return;
    }
    w->warning = grown;
    w->warning[w->nwarnings++] = text;
}

static void check_losses(const yk_outcome *r, yk_observation *w)
{
    const yk_evaluation *e = &r->last;
    const double untrained = log((double)r->classes), lowest = r->lowest_train_loss;
    if (e->train_loss > untrained * 1.02)
        warn(w,
             "the training loss %.4f is above %.4f, that of a model that knows nothing: the learning rate "
             "%g is too large; "
             "try --lr %g",
             e->train_loss, untrained, r->lr, r->lr / 10.0);
    else if (e->tested && e->test_loss > untrained * 1.02)
        warn(w,
             "the test loss %.4f is above %.4f, that of a model that knows nothing: it has learned the "
             "training examples "
             "by heart; try --l2 1e-6, fewer --epochs, or more data",
             e->test_loss, untrained);
    else if (e->train_loss > 1.05 * lowest && e->train_loss > lowest + 0.02 * untrained)
        warn(w,
             "the training loss %.4f is higher than it was (%.4f): the learning rate %g is too large at the "
             "end; try --lr %g",
             e->train_loss, lowest, r->lr, r->lr / 3.0);
}

/* Times of a run that had to share the machine do not compare with others. */
static void check_machine(yk_observation *w)
{
    for (int i = 0; i < w->nprocesses; i++) {
        yk_usage u;
        int workers;
        yk__usage_of_host(w->process, w->nprocesses, i, &u, &workers);
        const double others = u.cpu_host.mean - u.cpu.mean;
        if (u.seconds >= 0.5 && others > 0.25 && u.cpu_host.mean > 0.8 * u.host_cores) {
            warn(w,
                 "other programs used %.1f of the %.0f cores of %s: its times do not compare with those of "
                 "other runs",
                 others, u.host_cores, u.host);
            return;
        }
    }
}

void yk_observation_warn(const yk_outcome *r, yk_observation *w)
{
    const yk_evaluation *e = &r->last;
    check_losses(r, w);
    if (e->tested && e->accuracy <= e->majority_accuracy + 1e-9) {
        char auc[96] = "";
        if (isfinite(e->auc))
            snprintf(auc, sizeof auc, " (its AUC of %.3f tells more: 0.5 is chance)", e->auc);
        warn(w, "%.2f %% accuracy is no better than always guessing the commonest class, which is %.2f %%%s",
             100.0 * e->accuracy, 100.0 * e->majority_accuracy, auc);
    }
    if (r->bad_records)
        warn(w, "%llu bad record%s skipped", (unsigned long long)r->bad_records,
             r->bad_records == 1 ? " was" : "s were");
    check_machine(w);
}
