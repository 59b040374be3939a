#include "train/divergence.h"

#include <math.h>

enum { MIN_STEPS = 200, MIN_EXAMPLES = 200 };
static const double begin_share = 0.1, window_share = 0.05, factor = 1.5;

bool yk__divergence_found(yk__divergence *d, double run_steps, yk__loss_mark now, double *mean_out)
{
    const double length = isfinite(run_steps) ? run_steps : (double)now.step;
    const yk__loss_mark zero = {0}, *last = d->marks ? &d->mark[(d->marks - 1) % YK__LOSS_MARKS] : &zero;
    d->next = now.step + 1;
    if (now.examples < last->examples + MIN_EXAMPLES / YK__LOSS_MARKS)
        return false;
    d->next = now.step + (uint64_t)fmax(ceil(length * window_share / YK__LOSS_MARKS), 1.0);
    /* the mark that the new one replaces is where the window begins */
    yk__loss_mark *first = &d->mark[d->marks++ % YK__LOSS_MARKS];
    const double mean = (now.loss - first->loss) / (now.weight - first->weight);
    const bool judged =
        d->marks >= YK__LOSS_MARKS && now.step >= MIN_STEPS && (double)now.step >= length * begin_share;
    *first = now;
    *mean_out = mean;
    return judged && d->untrained > 0.0 && mean > factor * d->untrained;
}
