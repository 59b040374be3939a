/* Whether a run has diverged although its loss is still finite (yk__diverged() reports both kinds).
 *
 * The rule: after 10 % of the run and at least 200 steps, the mean training loss of the last 5 % of the run is above 1.5
 * times that of an untrained model. While the length of a run is not known, the steps so far count as the run. The mean is over
 * at least 200 examples, because single losses vary too much. A resumed run is judged by its own steps: it may have a
 * smaller learning rate, and needs time to recover.
 *
 * Example:
 *     yk__divergence d = {.untrained = 0.693};
 *     const yk__loss_mark now = {.step = 300, .examples = 3000, .weight = 3000.0, .loss = 2700.0};
 *     double mean;
 *     bool diverged = now.step >= d.next && yk__divergence_found(&d, 1000.0, now, &mean);
 *
 * A caller that asks only when step >= next asks about 100 times in a run. One thread at a time.
 */
#ifndef YK_TRAIN_DIVERGENCE_H
#define YK_TRAIN_DIVERGENCE_H

#include <stdbool.h>
#include <stdint.h>

enum { YK__LOSS_MARKS = 5 };

/* Totals since this process started. weight, loss: sums over the examples */
typedef struct {
    uint64_t step, examples;
    double weight, loss;
} yk__loss_mark;

typedef struct {
    double untrained;                   /* the loss of an untrained model; 0: the rule is off */
    uint64_t next;                      /* the step of the next mark */
    unsigned marks;                     /* so far */
    yk__loss_mark mark[YK__LOSS_MARKS]; /* the last ones, 1 % of the run apart; before the first: zero */
} yk__divergence;

/* Adds a mark. run_steps: the length of the run; HUGE_VAL: not known. *mean_out: the mean loss if it has diverged. */
bool yk__divergence_found(yk__divergence *d, double run_steps, yk__loss_mark now, double *mean_out);

#endif
