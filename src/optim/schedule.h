/* Learning-rate schedules. A schedule begins after the warm-up of W steps, in which the rate of step t (from 0) is lr (t + 1) / W.
 * With t counted from the end of the warm-up, T the steps from there to the end of the run, and d = lr_decay, the rate is
 *
 *     constant   lr
 *     step       lr d^(t / lr_decay_every), rounded down
 *     inverse    lr / (1 + d t)
 *     cosine     from lr to d lr: lr (d + (1 - d) (1 + cos(pi t / T)) / 2)                     (Loshchilov, Hutter 2017)
 *     one-cycle  from lr / 25 to lr in the first W steps (default: 30 % of the run), then to d lr, both along half a cosine;
 *                the last step has the rate d lr                                               (Smith, Topin 2018)
 *     plateau    lr d^reductions: an evaluation that does not improve may reduce it (train/selection.h)
 *
 * Example:
 *     double now = yk_lr_at(&config, step), then = yk_lr_sum(&config, 0, step); // the sum over steps 0 .. step - 1
 *
 * To add a schedule: a value of yk_lr_schedule (core/optim_config.h), a row of yk_lr_schedules[], and its formula here. The
 * functions are pure.
 */
#ifndef YK_OPTIM_SCHEDULE_H
#define YK_OPTIM_SCHEDULE_H

#include "base/status.h"
#include "core/optim_config.h"

typedef struct {
    const char *name;
    double decay;     /* the default of lr_decay */
    double max_decay; /* its range is 0 to this value; excludes 0 only if `above_zero` */
    bool above_zero;
    bool needs_length;                                  /* the number of steps must be known */
    bool rises;                                         /* it has a warm-up of its own */
    bool monitors;                                      /* it depends on the results of evaluations */
    double (*rate)(const yk_optim_config *c, double t); /* t, and n, count from the end of the warm-up */
    double (*sum)(const yk_optim_config *c, double n);  /* of steps 0 .. n - 1; may be an integral */
} yk_lr_schedule_row;

extern const yk_lr_schedule_row yk_lr_schedules[YK_LR_SCHEDULES];

const char *yk_lr_name(int schedule);             /* NULL: there are fewer schedules */
yk_status yk_lr_check(const yk_optim_config *c);  /* YK_EUSAGE, with the reason */
bool yk_lr_is_constant(const yk_optim_config *c); /* the rate is the same in all steps */
double yk_lr_at(const yk_optim_config *c, uint64_t step);
double yk_lr_sum(const yk_optim_config *c, uint64_t from, uint64_t to); /* of steps from .. to - 1 */

#endif
