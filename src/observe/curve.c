/* The evaluations of a run as points of a curve, for warnings (warnings.c). */
#include "observe/observer_internal.h"

#include <math.h>

void yk__curve_add(yk_observer *o, const yk_evaluation *e)
{
    const double nan = (double)NAN;
    const uint64_t since = o->ncurve ? o->curve_steps : o->c.resumed_from,
                   before = o->ncurve ? o->curve_examples : o->c.earlier_examples;
    if (o->ncurve && e->at.step == o->curve_steps)
        return;
    if (o->ncurve ==
        YK__MAX_CURVE) { /* drops every other point; the counts of the rest are then those of a half */
        o->ncurve /= 2;
        for (size_t i = 0; i < o->ncurve; i++)
            o->curve[i] = o->curve[2 * i + 1];
    }
    o->curve[o->ncurve++] =
        (yk_curve_point){.epoch = e->at.epoch_examples ? (double)(e->at.examples + e->at.late_examples) /
                                                             (double)e->at.epoch_examples
                                                       : nan,
                         .train_loss = e->train_loss,
                         .test_loss = e->tested ? e->test_loss : nan,
                         .accuracy = e->tested ? e->accuracy : nan,
                         .steps = e->at.step - since,
                         .examples = e->at.examples - before};
    o->curve_steps = e->at.step;
    o->curve_examples = e->at.examples;
}

const yk_curve_point *yk_observer_curve(const yk_observer *o, size_t *n_out)
{
    *n_out = o ? o->ncurve : 0;
    return o ? o->curve : NULL;
}
