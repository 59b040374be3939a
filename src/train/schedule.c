/* When a run evaluates, saves and ends. Steps are those of all workers together: rounds in synchronous mode, updates in
 * asynchronous mode. */
#include "train/loop.h"

#include "base/clock.h"
#include "base/log.h"
#include <math.h>

/* Checkpoints by time: they cost at most 1 % of the training time, and are at least 10 s apart. */
static const double save_share = 0.01, save_seconds = 10.0;

size_t yk__parameter_bytes(const yk__trainer *t)
{
    size_t floats = 0;
    for (int g = 0; g < t->model->ngroups; g++)
        floats += yk_group_floats(&t->model->group[g]) *
                  (1 + (size_t)yk_optim_rule_of(t->group[g].optim.kind)->slots);
    return floats * sizeof(float);
}

/* ---- asynchronous: steps until something is due ---- */

/* The workers stop when they have taken all steps until something is due, so none is skipped. */
static void set_quota(yk__trainer *t, uint64_t done)
{
    atomic_store(&t->quota, yk__min(t->eval.next, t->save.next) - done);
}

/* Takes some of the steps that all workers may take before something is due: the fewer are left, the fewer it takes, so that
 * no worker keeps many while the others wait. 0: none are left. */
uint64_t yk__acquire_quota(yk__trainer *t)
{
    enum { MAX = 1024 };
    uint64_t left = atomic_load_explicit(&t->quota, memory_order_relaxed), n;
    do {
        n = yk__min(left / (2 * (uint64_t)t->plan->workers), MAX);
        n = n ? n : yk__min(left, 1);
    } while (n && !atomic_compare_exchange_weak(&t->quota, &left, left - n));
    return n;
}

static void set_next(yk__interval *i, uint64_t done)
{
    i->every = i->every ? i->every : UINT64_MAX / 2;
    i->next = (done / i->every + 1) * i->every;
}

/* ---- what is due ---- */

void yk__schedule_init(yk__trainer *t)
{
    t->eval.every = t->plan->eval_every;
    t->save.every = t->plan->checkpoint_every;
    t->saves_by_time = t->result->run_dir && !t->save.every;
    t->save_cost = 1e-9 * (double)yk__parameter_bytes(t); /* all of it is copied and written, at 1 GB/s */
    if (t->plan->synchronous)
        return;
    set_next(&t->eval, t->step);
    set_next(&t->save, t->step);
    set_quota(t, t->step);
}

bool yk__is_done(const yk__trainer *t, uint64_t step, uint64_t epoch)
{
    return step >= t->plan->steps || (t->plan->lockstep && epoch >= t->plan->epochs);
}

/* Without --checkpoint-every. A checkpoint that is still being written delays the next one. */
bool yk__save_is_overdue(const yk__trainer *t)
{
    return t->saves_by_time && !atomic_load_explicit(&t->saving, memory_order_acquire) &&
           yk_now() - t->saved_at > fmax(save_seconds, t->save_cost / save_share);
}

yk__due yk__due_sync(const yk__trainer *t, uint64_t done, bool epoch_over, bool end, bool save_now)
{
    return (yk__due){.eval = end || (t->eval.every ? done % t->eval.every == 0 && !epoch_over : epoch_over),
                     .save = end || save_now || (t->save.every && done % t->save.every == 0 && !epoch_over)};
}

bool yk__is_due_async(yk__trainer *t, uint64_t done)
{
    if (yk__save_is_overdue(t))
        t->save.next = done;
    return done >= t->eval.next || done >= t->save.next;
}

yk__due yk__due_async(yk__trainer *t, uint64_t done)
{
    const yk__due due = {.eval = done >= t->eval.next, .save = done >= t->save.next};
    if (due.eval)
        set_next(&t->eval, done);
    if (due.save)
        set_next(&t->save, done);
    set_quota(t, done);
    return due;
}

yk__due yk__still_due(const yk__trainer *t, yk__due due)
{
    return (yk__due){.eval = due.eval && t->step != t->eval.last,
                     .save = due.save && t->step != t->save.last};
}

static uint64_t until(const yk__interval *i, uint64_t done)
{
    return i->every ? i->every - done % i->every : UINT64_MAX;
}

uint64_t yk__until_due(void *trainer, uint64_t done)
{
    const yk__trainer *t = trainer;
    return yk__min(t->plan->steps - done, yk__min(until(&t->eval, done), until(&t->save, done)));
}
