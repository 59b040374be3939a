/* Where a curve stops improving.
 *
 * Curves are noisy: the first evaluation within 1 % of the whole improvement (accuracy and AUC: or within 0.001) of the
 * best value counts as equally good. */
#include "report/facts.h"

#include <math.h>
#include <stddef.h>

static size_t count(const yk_metrics *e, size_t offset)
{
    size_t n = 0;
    for (size_t i = 0; i < e->n; i++)
        n += isfinite(yk_double_at(&e->row[i], offset));
    return n;
}

const char *yk_when_text(double epoch, double step, char out[32])
{
    snprintf(out, 32, isfinite(epoch) ? "epoch %.3g" : "step %.0f", isfinite(epoch) ? epoch : step);
    return out;
}

void yk_plateau_find(const yk_metrics *e, yk_plateau *out)
{
    enum { MIN_POINTS = 4 };
    static const struct {
        size_t offset;
        const char *what;
        bool up;
    } kinds[] = {{offsetof(yk_metric, test_auc), "test AUC", true},
                 {offsetof(yk_metric, test_accuracy), "test accuracy", true},
                 {offsetof(yk_metric, test_loss), "test loss", false},
                 {offsetof(yk_metric, train_loss), "training loss", false}};
    *out = (yk_plateau){0};
    size_t k = 0;
    while (k < 4 && count(e, kinds[k].offset) < MIN_POINTS)
        k++;
    if (k == 4)
        return;
    size_t offset = kinds[k].offset;
    double sign = kinds[k].up ? 1.0 : -1.0, best = -INFINITY, first = NAN;
    /* the model before training is no measure of progress */
    const size_t trained = e->row[0].step == 0.0 && e->n > 1;
    for (size_t i = trained; i < e->n; i++) {
        double v = sign * yk_double_at(&e->row[i], offset);
        if (isfinite(v)) {
            first = isfinite(first) ? first : v;
            best = v > best ? v : best;
        }
    }
    double noise = 0.01 * (best - first);
    if (kinds[k].up && noise < 0.001)
        noise = 0.001;
    size_t i = trained;
    while (!(sign * yk_double_at(&e->row[i], offset) >= best - noise))
        i++;
    const yk_metric *m = &e->row[i], *end = &e->row[e->n - 1];
    *out = (yk_plateau){.what = kinds[k].what,
                        .offset = offset,
                        .best = sign * best,
                        .epoch = m->epoch,
                        .step = m->step,
                        .rest = end->seconds > 0.0 ? 1.0 - m->seconds / end->seconds : 0.0};
    out->reached = e->n - 1 - i >= 3 && out->rest >= 0.15;
}
