/* Replicas of dense models: every process has all parameters.
 *
 *     pull  grad ----------> sum of the workers' gradients, in their order    all-reduce    apply  clock
 *                \ buckets are sent as soon as they are final (one worker)
 *
 * N processes with T workers and batch b equal one worker with batch N T b, up to rounding. Gradients are added
 * in worker order within a process and in rank order between processes: the same bits every time, on every rank. The first
 * worker of a process sends and receives.
 *
 * Local SGD: a process takes up to H steps on its own, its workers together. Then parameters and optimizer
 * state become their mean over all ranks, weighted by the examples of the round:
 *
 *     | step step step step | mean of all | step step step step | mean of all | ...
 *
 * Such a round is shorter if an evaluation, a checkpoint or the end is due. All ranks know its first step, and so its length,
 * without a message. clock() reports `pending` for all steps but the last of a round.
 */
#include "store/exchange.h"
#include "store/local_copy.h"
#include "store/local_internal.h"
#include <string.h>

bool yk__replica_sums(const yk_local_config *c)
{
    return c->exchange && !c->local_steps;
}

/* Each worker adds its part of the gradients, 0 + g0 + g1 + ... */
static void add_workers(yk_local *s, int me)
{
    size_t begin = 0, end = s->table[0].floats;
    yk_part_of_range(&begin, &end, 16, me, s->config.workers);
    if (begin < end)
        memset(s->sum + begin, 0, (end - begin) * sizeof *s->sum);
    for (int i = 0; i < s->config.workers; i++) {
        const yk_grad *g = &s->worker[i].grad;
        for (size_t k = begin; g->examples && k < end; k++)
            s->sum[k] += g->group[0].dense[k];
    }
}

/* In worker 0. The other workers have no gradient afterwards. */
static yk_status sum_ranks(yk_local *s)
{
    yk_phases *phases = s->config.phases;
    yk_grad *total = &s->worker[0].grad;
    atomic_int *action = &s->action_at[(s->worker[0].calls - 1) & 1];
    yk_round round;
    for (int i = 1; i < s->config.workers; i++) {
        yk_grad *g = &s->worker[i].grad;
        total->examples += g->examples;
        total->extra_weight += g->extra_weight;
        total->loss += g->loss;
        total->group[0].dense = s->sum;
        *g = (yk_grad){.pool = g->pool};
    }
    yk_phase_to(phases, YK_PHASE_SENDING);
    yk_status st = yk_exchange_sum(s->config.exchange, total, (uint32_t)atomic_load(action),
                                   phases ? phases->track : NULL, &round);
    atomic_store(action, (int)round.action);
    yk_exchange_end_round(s->config.exchange, &round, phases);
    return st;
}

yk_status yk__replica_sum(yk_local *s, int me)
{
    if (s->config.workers > 1)
        add_workers(s, me);
    yk_status st = yk__local_barrier(s, me, false);
    if (!st && me == 0)
        st = sum_ranks(s);
    return st ? st : yk__local_barrier(s, me, false);
}

/* ---- local SGD ---- */

/* Ends a round of all ranks. */
static yk_status average(yk_local *s, const yk_step_result *own)
{
    yk_exchange *x = s->config.exchange;
    yk_round round;
    yk_phase_to(s->config.phases, YK_PHASE_SENDING);
    yk_status st = yk_exchange_headers(x, own, &round);
    for (int a = 0; !st && round.examples && a <= s->table[0].rule->slots; a++)
        st = yk_exchange_mean(x, &round, yk_copy_array(s, 0, a));
    if (st)
        return st;
    yk_local_restore(s, s->restored_steps + round.steps); /* some ranks had fewer batches than others */
    yk_exchange_end_round(x, &round, s->config.phases);
    s->round = (yk_step_result){.examples = round.examples,
                                .weight = (double)round.examples + round.extra_weight,
                                .loss = round.loss,
                                .steps = round.steps,
                                .action = (yk_action)round.action};
    return YK_OK;
}

yk_status yk__replica_end_step(yk_local *s, int me, yk_action action, const yk_step_result *one,
                               yk_step_result *out)
{
    const yk_local_config *c = &s->config;
    yk__worker *w = &s->worker[me];
    yk_step_result *sum = &w->round;
    const uint64_t due = c->until_due(c->context, s->restored_steps), /* the same in all steps of a round */
        max = due < c->local_steps ? due : c->local_steps;
    sum->examples += one->examples;
    sum->weight += one->weight;
    sum->loss += one->loss;
    sum->steps += one->steps;
    sum->own += one->own;
    sum->action = action > sum->action ? action : sum->action;
    *out = (yk_step_result){.pending = true, .own = sum->own};
    if (++w->round_calls < max)
        return YK_OK;
    yk_status st = yk__local_barrier(s, me, false);
    if (!st && me == 0)
        st = average(s, sum);
    if (st || (st = yk__local_barrier(s, me, false)))
        return st;
    *out = s->round;
    out->own = sum->own;
    w->round_calls = 0;
    *sum = (yk_step_result){0};
    return YK_OK;
}
