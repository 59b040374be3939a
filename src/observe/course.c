#include "observe/observer_internal.h"

#include <math.h>

void yk__course_add(yk_observer *o, const yk_evaluation *e)
{
    const double nan = (double)NAN;
    const uint64_t since = o->ncourse ? o->course_steps : o->c.resumed_from,
                   before = o->ncourse ? o->course_examples : o->c.earlier_examples;
    if (o->ncourse && e->at.step == o->course_steps)
        return;
    if (o->ncourse ==
        YK__COURSE) { /* drops every other point; the counts of the rest are then those of a half */
        o->ncourse /= 2;
        for (size_t i = 0; i < o->ncourse; i++)
            o->course[i] = o->course[2 * i + 1];
    }
    o->course[o->ncourse++] =
        (yk_course_point){.epoch = e->at.epoch_examples ? (double)(e->at.examples + e->at.late_examples) /
                                                              (double)e->at.epoch_examples
                                                        : nan,
                          .train_loss = e->train_loss,
                          .test_loss = e->tested ? e->test_loss : nan,
                          .accuracy = e->tested ? e->accuracy : nan,
                          .steps = e->at.step - since,
                          .examples = e->at.examples - before};
    o->course_steps = e->at.step;
    o->course_examples = e->at.examples;
}

const yk_course_point *yk_observer_course(const yk_observer *o, size_t *n_out)
{
    *n_out = o ? o->ncourse : 0;
    return o ? o->course : NULL;
}
