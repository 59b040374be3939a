#include "observe/observer_internal.h"

#include "base/log.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[YK_WARNING_KINDS] = {
#define YK_WARNING_NAME(kind, name) [YK_WARNING_##kind] = name,
    YK_WARNING_LIST(YK_WARNING_NAME)
#undef YK_WARNING_NAME
};

const char *yk_warning_name(yk_warning_kind kind)
{
    return names[kind];
}

yk_warning_kind yk_warning_find(const char *name)
{
    int kind = 0;
    while (kind < YK_WARNING_OTHER && strcmp(names[kind], name))
        kind++;
    return (yk_warning_kind)kind;
}

static void warn(yk_observation *w, yk_warning_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Prints the warning and adds it to the results; if memory runs out, it is only printed. */
static void warn(yk_observation *w, yk_warning_kind kind, const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0)
        return;
    yk_warn("%s", text);
    yk_warning *grown = realloc(w->warning, ((size_t)w->nwarnings + 1) * sizeof *grown);
    if (!grown) {
        free(text);
        return;
    }
    w->warning = grown;
    w->warning[w->nwarnings++] = (yk_warning){kind, text};
}

static void check_losses(const yk_outcome *r, yk_observation *w)
{
    const yk_evaluation *e = &r->last;
    const double uniform = log((double)r->classes), lowest = r->lowest_train_loss;
    if (e->train_loss > uniform * 1.02)
        warn(w, YK_WARNING_LOSS_ROSE,
             "the training loss %.4f is above %.4f, the loss of a uniform guess: the learning rate %g is too "
             "large; try --lr %g",
             e->train_loss, uniform, r->lr, r->lr / 10.0);
    else if (e->tested && e->test_loss > uniform * 1.02)
        warn(w, YK_WARNING_OVERFITTING,
             "the test loss %.4f is above %.4f, the loss of a uniform guess: the model overfits the training "
             "data; try --l2 1e-6, fewer --epochs, or more data",
             e->test_loss, uniform);
    else if (e->train_loss > 1.05 * lowest && e->train_loss > lowest + 0.02 * uniform)
        warn(w, YK_WARNING_LOSS_ROSE,
             "the training loss rose from %.4f to %.4f: the learning rate %g is too large at the end; try "
             "--lr %g",
             lowest, e->train_loss, r->lr, r->lr / 3.0);
}

/* On a busy host, a run takes longer than it would alone. */
static void check_hosts(yk_observation *w)
{
    for (int i = 0; i < w->nprocesses; i++) {
        yk_usage u;
        yk__usage_of_host(w->process, w->nprocesses, i, &u);
        const double others = u.cpu_host.mean - u.cpu.mean;
        if (u.seconds >= 0.5 && others > 0.25 && u.cpu_host.mean > 0.8 * u.host_cores) {
            warn(w, YK_WARNING_BUSY_HOST,
                 "other programs used %.1f of the %.0f cores of %s: do not compare the times of this run "
                 "with those of other runs",
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
        char auc[64] = "";
        if (isfinite(e->auc))
            snprintf(auc, sizeof auc, "; look at the AUC, %.3f (0.5 is chance)", e->auc);
        warn(w, YK_WARNING_MAJORITY,
             "accuracy %.2f %% is no better than always predicting the majority class (%.2f %%)%s",
             100.0 * e->accuracy, 100.0 * e->majority_accuracy, auc);
    }
    if (r->bad_records)
        warn(w, YK_WARNING_BAD_RECORDS, "%llu bad record%s skipped", (unsigned long long)r->bad_records,
             r->bad_records == 1 ? " was" : "s were");
    check_hosts(w);
}
