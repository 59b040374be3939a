#include "train/plan_notes.h"

#include "base/log.h"
#include "kern/block.h"
#include "store/local.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void yk_plan_mode_text(const yk_plan *p, char out[static 64])
{
    if (p->quorum)
        snprintf(out, 64, "synchronous with a quorum of %d", p->quorum);
    else if (p->synchronous || p->staleness == YK_ASYNC)
        snprintf(out, 64, "%s", p->synchronous ? "synchronous" : "asynchronous");
    else
        snprintf(out, 64, "asynchronous with a staleness bound of %llu", (unsigned long long)p->staleness);
}

const char *yk_plan_exchange_text(const yk_plan *p, bool shared_memory)
{
    if (!p->whole)
        return p->local_steps ? "; deltas are sent every --local-steps steps" : "";
    if (p->local_steps)
        return "parameters are averaged every --local-steps steps";
    return shared_memory ? "gradients are all-reduced through shared memory" : "gradients are all-reduced";
}

const char *yk_plan_agreement_text(const yk_plan *p)
{
    return p->synchronous && p->local_steps <= 1
               ? "synchronous: all workers have the same parameters, so the test results apply to each"
               : NULL;
}

static void print_threads(const yk_config *c, const yk_plan *p, const yk_model *model)
{
    const int used = model->ops->threads ? model->ops->threads(model, p->batch) : 1;
    if (p->threads > c->threads)
        yk_note("--global-batch %lld: the workers of %s process share its batches as threads of one worker",
                (long long)c->global_batch, p->alone ? "this" : "each");
    if (p->threads > 1)
        yk_note("each worker uses %d of --threads %d%s", used, p->threads,
                !model->ops->threads ? ": linear models use one thread per worker; use --workers"
                : used < p->threads  ? ": more do not help with this model, batch size and number of cores"
                                     : "");
}

void yk_plan_print_notes(const yk_config *c, const yk_plan *p, const yk_model *model, bool tested)
{
    const uint64_t epoch = p->steps_per_epoch;
    if (c->local_steps && p->alone)
        yk_note("--local-steps has no effect in one process: there is nothing to average");
    if (tested && !c->eval_every && epoch && p->eval_every > epoch)
        yk_note(
            "an epoch has only %llu step%s, and the %llu steps of a round (--local-steps) arrive together: "
            "evaluating every %llu epochs",
            (unsigned long long)epoch, yk_plural(epoch), (unsigned long long)p->local_steps,
            (unsigned long long)(p->eval_every / epoch));
    if (p->lockstep && p->workers_per_process > 1 && p->batch < YK_LANES && model->ops->network)
        yk_note("a network computes %d examples at a time, but the batch of a worker has only %llu: "
                "--global-batch %llu instead of --batch takes the same steps in less time",
                YK_LANES, (unsigned long long)p->batch, (unsigned long long)p->global_batch);
    print_threads(c, p, model);
}

/* Groups whose gradients are applied immediately, while all workers take the same steps. */
static void print_asynchronous_groups(const yk_plan *p, const yk_model *model)
{
    char names[YK_MAX_GROUPS * (YK_GROUP_NAME + 2)] = "";
    for (int g = 0; g < p->ngroups; g++)
        if (p->group[g].staleness)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", *names ? ", " : "",
                     model->group[g].name);
    if (*names)
        yk_note("asynchronous parameter groups: %s; the others are synchronous", names);
}

/* How asynchronous workers change the optimizer (docs/convergence.md). */
static void print_rules(const yk_plan *p, const yk_model *model)
{
    const yk_optim_config *last = &p->group[p->ngroups - 1].optim;
    char text[320] = "";
    size_t n = 0;
    bool warms_up = false;
    for (int g = 0; g < p->ngroups; g++)
        warms_up |= !yk_optim_rule_of(p->group[g].optim.kind)->scale_free;
    if (p->staggered)
        n += (size_t)snprintf(text, sizeof text, "; they begin one after the other, %llu steps apart",
                              (unsigned long long)yk_steps_before(1));
    else if (warms_up)
        n += (size_t)snprintf(
            text, sizeof text, "; learning rates warm up over the first %llu steps",
            (unsigned long long)yk_warm_up_steps(p->workers, model->sparse ? UINT64_MAX : p->max_warm_up));
    if (!model->sparse && !model->group[p->ngroups - 1].keyed)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "; in the direction of the mean input, learning rates are divided by %d",
                              2 * p->workers - 1);
    if (yk_optim_rule_of(last->kind)->velocity == YK_VELOCITY_SUM)
        snprintf(text + n, sizeof text - n, "; momentum is reduced from %g to %.2g", last->momentum,
                 (double)yk_reduced_momentum((float)last->momentum, p->workers));
    if (*text)
        yk_note("%d asynchronous workers: %s", p->workers, text + 2);
}

void yk_plan_print_groups(const yk_plan *p, const yk_model *model)
{
    if (p->synchronous)
        print_asynchronous_groups(p, model);
    if (p->stale_gradients)
        print_rules(p, model);
}

const char *yk_plan_join_obstacle(const yk_config *c, const yk_plan *p)
{
    return !p->joinable                            ? "its steps need all of its workers"
           : c->out && strcmp(c->out, "none") == 0 ? "it has no run directory (--out)"
           : p->cursor_kind != YK_CURSOR_LEASE     ? "its data is streamed"
                                                   : NULL;
}

void yk_plan_print_losses(const yk_config *c, const yk_plan *p)
{
    const char *obstacle = p->joinable ? yk_plan_join_obstacle(c, p) : NULL;
    if (p->placement != YK_PLACEMENT_SERVERS)
        yk_note("a lost process ends the job; only dedicated servers (--servers K) allow workers to be lost "
                "or to join without a restart");
    else if (!p->survives_loss)
        yk_note(
            "a lost process ends the job: synchronous steps need all workers; with --servers K, --mode async "
            "or --quorum allows workers to be lost without a restart");
    else
        yk_note("the servers allow workers to be lost%s without a restart%s%s",
                p->joinable && !obstacle ? " or to join" : "",
                obstacle ? "; workers cannot join this job: " : "", obstacle ? obstacle : "");
}
