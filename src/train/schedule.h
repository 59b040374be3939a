/* When a run evaluates, saves, reports its progress and ends. The schedule only decides; loop.c, barrier.c and chief.c act on
 * its decisions.
 *
 *                            evaluation                  checkpoint
 *     before the first step  if there is a test or       -
 *                            validation set
 *     during the run         --eval-every; else after    --checkpoint-every; else every 10 s, or less often,
 *                            each epoch                  so that it takes at most 1 % of the time; the best model
 *                                                        so far, by the validation set (selection.h)
 *     at the end             always                      always
 *
 * Nothing is done twice at the same step. A run ends after --steps or --epochs, after an evaluation
 * that ends it (--patience), or after the step in which it is asked to stop.
 * A run that is resumed after its last step only evaluates. Steps are those of all workers together: rounds, or the
 * updates of workers that take separate steps (pacing.h).
 *
 * Example:
 *     yk__due due = yk__due_first(s, step, epoch);
 *     while (evaluate_and_save(due), !due.end) { // calls yk__evaluated() and yk__saved()
 *         const bool save = yk__save_is_overdue(s, rounds++), epoch_over = !train_round();
 *         step += !epoch_over;
 *         epoch += epoch_over;
 *         due = yk__due_sync(s, step, epoch, epoch_over, stop, save);
 *     }
 *
 * In rounds, all workers ask after each one and get the same answer. Workers that take separate steps check now and then whether
 * anything is due, and if so, enter a barrier. So that no evaluation or checkpoint is late, they share a quota: the steps
 * until the next one. With servers, the chief asks after each update.
 *
 * Progress: a run reports 200 to 2,000 points of the training curves, or one for each step if it has fewer steps. They are
 * 1/400 of the run apart; if that takes longer than half a second, half a second or 1/2000 of the run, whichever is longer.
 * They are closer together at the beginning of a long run. --log-every N: every N steps. The progress line is updated five
 * times a second.
 *
 * Threads: worker 0 or the chief changes the schedule, while the other workers wait. There are two exceptions: any worker may
 * call yk__acquire_quota() at any time, and yk__is_due_async() and yk__report_due() while no other worker is in one of them.
 */
#ifndef YK_TRAIN_SCHEDULE_H
#define YK_TRAIN_SCHEDULE_H

#include "base/mem.h"
#include "core/plan.h"
#include <stdatomic.h>

/* When something is due, in steps. */
typedef struct {
    uint64_t every, last, next; /* next: used only by asynchronous workers */
} yk__interval;

/* What to do at a barrier, or with a snapshot. */
typedef struct {
    bool eval, save, end;
    bool best;  /* save only because it is the best model so far */
    bool extra; /* the evaluation is due only because the run ends here: a longer run has none at this step */
} yk__due;

/* What to report after a step: a point of the training curves, the progress line. */
typedef struct {
    bool point, line;
} yk__report;

typedef struct {
    const yk_plan *plan;
    /* set before yk__schedule_init() */
    bool evaluates;   /* there is a test or validation set */
    bool saves;       /* there is a run directory */
    bool reports;     /* this process reports progress to its observer */
    double save_cost; /* seconds of training that a checkpoint costs; estimated before the first one */

    yk__interval eval, save;
    atomic_bool stopped;        /* by an evaluation: the run is complete */
    double saved_at;            /* the time of the last checkpoint */
    atomic_bool saving;         /* a thread is writing a checkpoint, and will then set save_cost */
    atomic_uint_fast64_t quota; /* asynchronous: steps until something is due, minus those given to workers */

    /* Progress. Changes after each step, so it is not in a cache line that all workers read. */
    _Alignas(YK_ALIGN) uint64_t calls, next_call; /* of yk__report_due(); the next one that reads the clock */
    double began, first_step;         /* when training began; when the first step was complete, 0: not yet */
    double point_at, line_at;         /* when the last point and the last progress line were reported */
    atomic_uint_fast64_t point_every; /* steps between points */
    uint64_t point_last, point_next;
} yk__schedule;

static inline uint64_t yk__min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* When the first step of this process is known. epoch_examples: examples per epoch; 0: not known yet. */
void yk__schedule_init(yk__schedule *s, const yk_plan *plan, uint64_t step, uint64_t epoch_examples);

/* Whether the run has completed all requested steps or epochs, or was stopped by an evaluation. */
bool yk__is_complete(const yk__schedule *s, uint64_t step, uint64_t epoch);
/* Whether the run takes no more steps because of that. The number of epochs counts only if all workers end them together: others
 * continue until no examples are left. */
bool yk__is_done(const yk__schedule *s, uint64_t step, uint64_t epoch);

/* Before the first step. */
yk__due yk__due_first(const yk__schedule *s, uint64_t step, uint64_t epoch);
/* After a round, or at the end of an epoch (epoch_over). stop, save: what the workers want; ignored at the end of an epoch. */
yk__due yk__due_sync(const yk__schedule *s, uint64_t step, uint64_t epoch, bool epoch_over, bool stop,
                     bool save);
bool yk__is_due_async(yk__schedule *s, uint64_t step);           /* whether anything is due */
yk__due yk__due_async(yk__schedule *s, uint64_t step, bool end); /* what is due; schedules the next */
/* Whether a run evaluates at this step, or after this epoch, even if it does not end there. */
bool yk__evaluates_at(const yk__schedule *s, uint64_t step, bool epoch_over);
/* At the end. outdated: what to repeat even if it was already done at this step. */
yk__due yk__due_last(const yk__schedule *s, uint64_t step, yk__due outdated);

/* What was done at this step. A checkpoint may still have to be written by a thread. */
void yk__evaluated(yk__schedule *s, uint64_t step);
void yk__saved(yk__schedule *s, uint64_t step);
void yk__save_begins(yk__schedule *s);             /* before a thread writes a checkpoint */
void yk__save_ended(yk__schedule *s, double cost); /* it was written, by a thread or not; cost: save_cost */

/* Whether a checkpoint is due by time (without --checkpoint-every). Reads the clock every 16 rounds. */
bool yk__save_is_overdue(const yk__schedule *s, unsigned round);
uint64_t yk__until_due(void *schedule, uint64_t step); /* steps until something is due; in rounds only */

/* Asynchronous workers */
uint64_t yk__check_after(const yk__schedule *s, int me); /* steps until worker `me` checks again */
uint64_t yk__acquire_quota(yk__schedule *s); /* steps that a worker may take; 0: something is due */

/* The number of steps of the run; HUGE_VAL: not known. epoch_examples: examples per epoch; 0: not known yet. */
double yk__run_steps(const yk__schedule *s, uint64_t epoch_examples);

/* What to report after a step. Cheap: reads the clock only for a point, and about every 20 ms. shows: the caller may update the
 * progress line. */
yk__report yk__report_due(yk__schedule *s, uint64_t step, uint64_t epoch_examples, bool shows);

#endif
