/* The parts of a plan that depend on the processes of the job and on the data. */
#include "base/number.h"
#include "train/plan.h"
#include <math.h>
#include <string.h>

/* ---- this process ---- */

enum { MAX_SERVING_THREADS = 16 };

/* A dedicated server uses the cores of its host that the workers there leave free, shared with the other servers there. */
static int serving_threads_of(const yk_plan *p, const yk_plan_process *process)
{
    if (p->trains)
        return 1;
    const int busy = process->clients_here * p->workers_per_process * p->threads;
    const int given =
        (int)fmin(yk_env_number("YK_SERVING_THREADS", -1), MAX_SERVING_THREADS); /* set by tests */
    const int n = given >= 0                  ? given
                  : process->bound            ? process->cores / process->sharing
                  : process->servers_here > 0 ? (process->cores - busy) / process->servers_here
                                              : 1;
    return n < 1 ? 1 : n > MAX_SERVING_THREADS ? MAX_SERVING_THREADS : n;
}

/* If the threads of an asynchronous job share cores, waiting threads soon sleep, so that the others can compute and send what
 * the waiting ones need. Synchronous steps are often shorter than such a sleep. */
static yk_wait_kind wait_of(const yk_plan *p, const yk_plan_process *process)
{
    const int own = p->workers_per_process * p->threads + p->driven;
    const bool shared = own * process->sharing > process->cores;
    return shared && !p->synchronous ? YK_WAIT_OVERSUBSCRIBED : YK_WAIT_RANKS;
}

void yk_plan_set_process(yk_plan *p, const yk_plan_process *process)
{
    /* if only some groups are on dedicated servers, the processes that train own the others */
    p->owners = p->placement == YK_PLACEMENT_SHARDS || p->replicates ? p->processes : p->servers;
    p->trains = process->joined || process->rank >= p->servers;
    p->serves = !process->joined && process->rank < p->owners;
    p->whole = p->placement == YK_PLACEMENT_REPLICAS;
    p->first_client = p->servers;
    p->clients = process->joined ? 1 : p->processes - p->servers;
    p->first_worker =
        process->joined || !p->trains ? 0 : (process->rank - p->first_client) * p->workers_per_process;
    p->driven = p->trains && (p->serves || (!p->whole && p->workers_per_process > 1));
    p->wait = wait_of(p, process);
    p->serving_threads = serving_threads_of(p, process);
    p->usable_threads = p->threads < process->cores ? p->threads : process->cores;
}

/* ---- the data ---- */

/* The examples of a chunk, which are those of a copy (store/shards.h). A longer copy has fewer keys per example, so less is
 * sent and served: chunks of 8,192 examples trained 1.5 times as fast as those of 2,048. But copies are short at first
 * (shards.h), so a chunk is only made longer if a worker trains on at least 500 of them. This is done only without a
 * staleness bound, and only for sgd: with adagrad, longer copies increased the loss more. 0: there are too few examples for
 * chunks. */
static uint64_t unit_of(const yk_plan *p, double examples, bool sgd)
{
    enum { PER_EPOCH = 8, IN_ALL = 500 };
    const double workers = (double)p->workers,
                 steps = p->steps == UINT64_MAX ? HUGE_VAL : (double)p->steps * (double)p->batch,
                 all = fmin(steps, p->epochs == UINT64_MAX ? HUGE_VAL : examples * (double)p->epochs);
    uint64_t unit = p->copy_lifetime * p->batch;
    if (examples < PER_EPOCH * workers * (double)unit)
        return 0;
    if (p->staleness != YK_ASYNC || !sgd)
        return unit;
    for (int longer = 2; longer <= YK_LONGEST_COPY; longer *= 2)
        if (examples >= 2 * PER_EPOCH * workers * (double)unit &&
            all >= 2 * IN_ALL * workers * (double)unit &&
            (!p->eval_every || 2 * unit <= p->eval_every * p->batch)) /* a push must not skip an evaluation */
            unit *= 2;
    return unit;
}

/* The unit of the order of examples, and the lifetime of copies, which follows from it. */
void yk_plan_set_unit(yk_plan *p, uint64_t unit)
{
    p->unit = unit;
    if (unit)
        p->copy_lifetime = (unit + p->batch - 1) / p->batch;
}

/* A worker pushes all steps on a copy together, and each worker may push once more after the last step. Copies are short
 * compared with --steps, so that this adds few steps. Leases do not need this limit: they end at the last step. */
static uint64_t limit_copies(const yk_plan *p)
{
    enum { PARTS = 8 };
    const uint64_t max = p->steps / (PARTS * (uint64_t)(p->workers * p->depth)), limit = max ? max : 1;
    return p->copy_lifetime < limit ? p->copy_lifetime : limit;
}

/* A step in lockstep uses a batch of each worker. An asynchronous step uses the batch of one worker or, with local SGD, a batch
 * of each worker of a process. */
static uint64_t steps_per_epoch(const yk_plan *p, uint64_t examples)
{
    const uint64_t per_step = p->batch * p->gradients_per_step;
    return p->quorum ? 0 : (examples + per_step - 1) / per_step;
}

/* Asynchronous, without --eval-every: once per epoch. The steps of a round of local SGD arrive together, so a round that is
 * longer than an epoch would skip evaluations. The interval is then several epochs. */
static uint64_t eval_interval(const yk_plan *p)
{
    const uint64_t one = p->steps_per_epoch, epochs = one ? (p->local_steps + one - 1) / one : 0;
    return epochs > 1 ? epochs * one : one;
}

/* --lr-decay-epochs */
static yk_status set_decay(yk_plan *p, const yk_config *c)
{
    if (c->lr_decay_epochs <= 0.0)
        return YK_OK;
    if (p->quorum)
        return yk_fail(YK_EUSAGE,
                       "--lr-decay-epochs: with --quorum the number of steps in an epoch is not known "
                       "in advance; use --lr-decay-every STEPS");
    if (!p->steps_per_epoch)
        return yk_fail(YK_EUSAGE,
                       "--lr-decay-epochs: the length of an epoch of %s is not known in advance; use "
                       "--lr-decay-every STEPS, or --stream never",
                       c->data);
    const double steps = floor(c->lr_decay_epochs * (double)p->steps_per_epoch + 0.5);
    for (int keyed = 0; keyed < 2; keyed++)
        p->group[keyed].optim.lr_decay_every = steps < 1.0 ? 1 : (uint64_t)steps;
    return YK_OK;
}

/* Whether all keyed groups are trained with sgd: --optimizer names no group, so that all have the same one. */
static bool all_sgd(const yk_plan *p, const yk_config *c)
{
    const char *option;
    char name[YK_GROUP_NAME];
    bool named = false;
    for (size_t i = 0; !named && yk_config_named_group(c, i, &option, name); i++)
        named = strcmp(option, "optimizer") == 0;
    return yk_optim_rule_of(p->group[1].optim.kind)->plain && !named;
}

yk_status yk_plan_set_data(yk_plan *p, const yk_config *c, const yk_plan_data *data)
{
    p->cursor_kind = data->streamed ? YK_CURSOR_STREAM : p->lockstep ? YK_CURSOR_LOCKSTEP : YK_CURSOR_LEASE;
    if (p->copy_lifetime && p->cursor_kind == YK_CURSOR_STREAM && p->steps != UINT64_MAX)
        p->copy_lifetime = limit_copies(p);
    if (p->copy_lifetime && p->cursor_kind == YK_CURSOR_LEASE && !data->ordered)
        yk_plan_set_unit(p, unit_of(p, (double)data->examples, all_sgd(p, c)));
    p->steps_per_epoch = steps_per_epoch(p, data->examples);
    if (!p->synchronous && !p->eval_every)
        p->eval_every = eval_interval(p);
    return set_decay(p, c);
}
