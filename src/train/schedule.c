#include "train/schedule.h"

#include "base/clock.h"
#include <math.h>

/* Checkpoints by time: they cost at most 1 % of the training time, and are at least 10 s apart. */
static const double save_share = 0.01, save_seconds = 10.0;
/* Between progress lines; between points that are early; between readings of the clock. */
static const double line_seconds = 0.2, point_seconds = 0.5, clock_seconds = 0.02;
static const uint64_t never = UINT64_MAX / 2;
enum { CLOCK_ROUNDS = 16, MIN_POINTS = 400, MAX_POINTS = 2000 };
enum { CHECK_EVERY = 1024 }; /* steps, if this process does not report progress */

/* ---- asynchronous: steps until something is due ---- */

/* The workers stop when they have taken all steps until something is due, so no evaluation or checkpoint is skipped. */
static void set_next(yk__schedule *s, uint64_t step)
{
    s->eval.next = (step / s->eval.every + 1) * s->eval.every;
    s->eval.next += s->eval.next == s->plan->skipped_eval ? s->eval.every : 0;
    s->save.next = (step / s->save.every + 1) * s->save.every;
    atomic_store(&s->quota, yk__min(s->eval.next, s->save.next) - step);
}

/* The fewer steps are left, the fewer a worker gets, so that no worker has many left while the others wait. */
uint64_t yk__acquire_quota(yk__schedule *s)
{
    enum { MAX = 1024 };
    uint64_t left = atomic_load_explicit(&s->quota, memory_order_relaxed), n;
    do {
        n = yk__min(left / (2 * (uint64_t)s->plan->workers), MAX);
        n = n ? n : yk__min(left, 1);
    } while (n && !atomic_compare_exchange_weak(&s->quota, &left, left - n));
    return n;
}

/* Workers check rarely: reading the counters of all workers costs a cache miss each. */
uint64_t yk__check_after(const yk__schedule *s, int me)
{
    const uint64_t every =
        s->reports ? atomic_load_explicit(&s->point_every, memory_order_relaxed) : CHECK_EVERY;
    return me ? every - 1 : yk__min(256 / s->plan->batch, every / (uint64_t)s->plan->workers);
}

/* ---- progress ---- */

double yk__run_steps(const yk__schedule *s, uint64_t epoch_examples)
{
    const yk_plan *p = s->plan;
    double steps = p->steps == UINT64_MAX ? HUGE_VAL : (double)p->steps;
    if (epoch_examples && p->epochs != UINT64_MAX)
        steps = fmin(steps, ceil((double)epoch_examples * (double)p->epochs /
                                 (double)(p->batch * p->gradients_per_step)));
    return steps;
}

/* While the length of the run is not known, the gaps between points grow with it. */
static void set_next_point(yk__schedule *s, uint64_t step, uint64_t epoch_examples)
{
    const yk_plan *p = s->plan;
    const double steps = yk__run_steps(s, epoch_examples);
    const double gap = isfinite(steps) ? steps / MIN_POINTS : (double)step / (MIN_POINTS / 4);
    const uint64_t every = p->log_every ? p->log_every : (uint64_t)fmin(fmax(ceil(gap), 1.0), (double)never);
    s->point_every = every;
    s->point_next = (step / every + 1) * every;
    s->point_last = step;
}

/* Whether to report a point early, because the last one was half a second ago. The minimum distance in steps is smaller at the
 * beginning of a long run. */
static bool point_is_early(const yk__schedule *s, uint64_t step, double now)
{
    const uint64_t gap = yk__min(s->point_every / (MAX_POINTS / MIN_POINTS), step / (MIN_POINTS / 8));
    return !s->plan->log_every && now - s->point_at >= point_seconds && step >= s->point_last + gap;
}

yk__report yk__report_due(yk__schedule *s, uint64_t step, uint64_t epoch_examples, bool shows)
{
    if (!s->reports || (++s->calls < s->next_call && step < s->point_next))
        return (yk__report){0};
    const double now = yk_now();
    const yk__report due = {.point = step >= s->point_next || point_is_early(s, step, now),
                            .line = shows && now - s->line_at >= line_seconds};
    const double rate = s->line_at > s->began ? (double)s->calls / (now - s->began) : 0.0; /* of calls */
    s->next_call = s->calls + (uint64_t)fmax(rate * clock_seconds, 1.0);
    if (s->calls == 1)
        s->first_step = now;
    if (due.point) {
        set_next_point(s, step, epoch_examples);
        s->point_at = now;
    }
    if (due.line)
        s->line_at = now;
    return due;
}

/* ---- evaluations, checkpoints, the end ---- */

void yk__schedule_init(yk__schedule *s, const yk_plan *plan, uint64_t step, uint64_t epoch_examples)
{
    s->plan = plan;
    s->eval.every = plan->eval_every ? plan->eval_every : never;
    s->save.every = plan->checkpoint_every ? plan->checkpoint_every : never;
    set_next_point(s, step, epoch_examples);
    set_next(s, step);
}

bool yk__is_complete(const yk__schedule *s, uint64_t step, uint64_t epoch)
{
    return s->stopped || step >= s->plan->steps || epoch >= s->plan->epochs;
}

bool yk__is_done(const yk__schedule *s, uint64_t step, uint64_t epoch)
{
    return s->stopped || step >= s->plan->steps || (s->plan->lockstep && epoch >= s->plan->epochs);
}

void yk__evaluated(yk__schedule *s, uint64_t step)
{
    s->eval.last = step;
}

void yk__saved(yk__schedule *s, uint64_t step)
{
    s->save.last = step;
    s->saved_at = yk_now();
}

/* From here on, other workers do not read save_cost. */
void yk__save_begins(yk__schedule *s)
{
    atomic_store(&s->saving, true);
}

void yk__save_ended(yk__schedule *s, double cost)
{
    s->save_cost = cost;
    atomic_store(&s->saving, false);
}

/* A checkpoint that is still being written delays the next one. */
bool yk__save_is_overdue(const yk__schedule *s, unsigned round)
{
    return s->saves && !s->plan->checkpoint_every && round % CLOCK_ROUNDS == 0 &&
           !atomic_load_explicit(&s->saving, memory_order_acquire) &&
           yk_now() - s->saved_at > fmax(save_seconds, s->save_cost / save_share);
}

static yk__due unless_done(const yk__schedule *s, uint64_t step, bool eval, bool save)
{
    return (yk__due){.eval = eval && step != s->eval.last, .save = save && step != s->save.last};
}

yk__due yk__due_last(const yk__schedule *s, uint64_t step, yk__due outdated)
{
    return (yk__due){.eval = outdated.eval || step != s->eval.last,
                     .save = outdated.save || step != s->save.last,
                     .end = true};
}

yk__due yk__due_first(const yk__schedule *s, uint64_t step, uint64_t epoch)
{
    return yk__is_done(s, step, epoch) ? yk__due_last(s, step, (yk__due){0})
                                       : (yk__due){.eval = s->evaluates && !step};
}

bool yk__evaluates_at(const yk__schedule *s, uint64_t step, bool epoch_over)
{
    return s->plan->eval_every ? step % s->plan->eval_every == 0 : epoch_over;
}

yk__due yk__due_sync(const yk__schedule *s, uint64_t step, uint64_t epoch, bool epoch_over, bool stop,
                     bool save)
{
    /* stops only after a step, so that the checkpoint is always one of a new step */
    const bool eval = yk__evaluates_at(s, step, epoch_over);
    if (!yk__is_done(s, step, epoch) && (!stop || epoch_over))
        return unless_done(s, step, eval, !epoch_over && (save || step % s->save.every == 0));
    yk__due last = yk__due_last(s, step, (yk__due){0});
    last.extra = !eval;
    return last;
}

bool yk__is_due_async(yk__schedule *s, uint64_t step)
{
    if (yk__save_is_overdue(s, 0))
        s->save.next = step;
    return step >= s->eval.next || step >= s->save.next;
}

yk__due yk__due_async(yk__schedule *s, uint64_t step, bool end)
{
    const bool eval = step >= s->eval.next, save = step >= s->save.next;
    set_next(s, step);
    return end ? yk__due_last(s, step, (yk__due){0}) : unless_done(s, step, eval, save);
}

uint64_t yk__until_due(void *schedule, uint64_t step)
{
    const yk__schedule *s = schedule;
    return yk__min(s->plan->steps - step,
                   yk__min(s->eval.every - step % s->eval.every, s->save.every - step % s->save.every));
}
