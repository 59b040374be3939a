/* Describes a run: the notes at its start, --dry-run and --profile. */
#include "train/loop.h"
#include "train/setup.h"

#include "base/log.h"
#include "kern/block.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Why workers cannot join this job, which has servers for it; NULL: they can. */
static const char *join_obstacle(const yk__trainer *t)
{
    const char *reason = getenv("YK_NOT_JOINABLE"); /* from the launcher */
    if (getenv("YK_JOINABLE"))
        return t->plan->cursor_kind == YK_CURSOR_LEASE ? NULL : "its data is streamed";
    return reason ? reason : "it was not started by yoke train --launch or --hosts";
}

/* What the loss of a process means for the job. */
static void print_losses(const yk__trainer *t)
{
    const yk_plan *p = t->plan;
    const char *obstacle = p->joinable ? join_obstacle(t) : NULL;
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

static void print_processes(const yk__trainer *t)
{
    const yk__cluster *k = &t->cluster;
    bool network = false, keyed = false, served = false;
    for (int g = 0; t->plan->servers && g < t->model->ngroups; g++) {
        const bool replicated = t->plan->group[g].placement == YK_PLACEMENT_REPLICAS;
        network |= replicated && !t->model->group[g].keyed;
        keyed |= replicated && t->model->group[g].keyed;
        served |= !replicated && t->model->group[g].keyed;
    }
    const char *library = yk_comm_library(k->comm),
               *keys = !t->model->sparse  ? ""
                       : network          ? "; the servers get only the keys of a batch"
                       : keyed && !served ? "; the servers have only the network"
                                          : "; only the keys of a batch are sent",
               *deltas = t->plan->local_steps ? "; deltas are sent every --local-steps steps" : "";
    const int n = t->plan->workers_per_process;
    if (t->plan->whole)
        yk_note("%d processes (%s), each with all parameters; %s", k->ranks, library,
                t->plan->local_steps ? "parameters are averaged every --local-steps steps"
                : k->memory.at       ? "gradients are all-reduced through shared memory"
                                     : "gradients are all-reduced");
    else if (t->plan->servers == 1)
        yk_note("%d processes (%s): a parameter server with %d thread%s (rank 0), the others train%s%s",
                k->ranks, library, t->plan->serving_threads, yk_plural((uint64_t)t->plan->serving_threads),
                keys, deltas);
    else if (t->plan->servers)
        yk_note("%d processes (%s): %d parameter servers (ranks 0 to %d; rank 0 has %d thread%s), the others "
                "train%s%s",
                k->ranks, library, t->plan->servers, t->plan->servers - 1, t->plan->serving_threads,
                yk_plural((uint64_t)t->plan->serving_threads), keys, deltas);
    else
        yk_note("%d processes (%s), each with %d worker%s and a shard of the parameters%s%s", k->ranks,
                library, n, yk_plural((uint64_t)n), keys, deltas);
    if (network)
        yk_note("the network is replicated: the processes that train sum its gradients, and each updates a "
                "part of the parameters");
    if (keyed)
        yk_note("%s are divided among the processes that train: each owns a part, and gets the "
                "other keys of a batch from the others",
                served ? "some of the keyed parameters" : "the keyed parameters");
    if (t->result->numa_nodes)
        yk_note("each process is bound to its share of the %d NUMA nodes of its host", t->result->numa_nodes);
    print_losses(t);
}

/* Groups whose gradients are applied immediately, while all workers take the same steps. */
static void print_asynchronous_groups(const yk__trainer *t)
{
    char names[YK_MAX_GROUPS * (YK_GROUP_NAME + 2)] = "";
    for (int g = 0; g < t->model->ngroups; g++)
        if (t->group[g].staleness)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", *names ? ", " : "",
                     t->model->group[g].name);
    if (*names)
        yk_note("asynchronous parameter groups: %s; the others are synchronous", names);
}

/* How asynchronous workers change the optimizer (docs/convergence.md). */
static void print_rules(const yk__trainer *t)
{
    const yk_plan *p = t->plan;
    char text[256] = "";
    size_t n = 0;
    bool warms_up = false;
    if (p->staleness == 0 || p->workers == 1 || p->copy_lifetime || p->local_steps ||
        (p->processes == 1 && t->description.linear && t->model->group[0].keyed))
        return;
    for (int g = 0; g < t->model->ngroups; g++)
        warms_up |= yk_optim_rule_of(t->group[g].optim.kind)->warms_up;
    if (p->staggered)
        n += (size_t)snprintf(text, sizeof text, "; they begin one after the other, %llu steps apart",
                              (unsigned long long)yk_steps_before(1));
    else if (warms_up)
        n += (size_t)snprintf(
            text, sizeof text, "; learning rates warm up over the first %llu steps",
            (unsigned long long)yk_warm_up_steps(p->workers, t->model->sparse ? UINT64_MAX : p->max_warm_up));
    const yk_local_group *last = &t->group[t->model->ngroups - 1];
    if (!last->shape.keyed && (p->processes > 1 || p->staleness != YK_ASYNC || t->description.linear))
        n += (size_t)snprintf(text + n, sizeof text - n, "; stale gradients are scaled down");
    if (yk_optim_rule_of(last->optim.kind)->velocity == YK_VELOCITY_SUM)
        snprintf(text + n, sizeof text - n, "; momentum is reduced from %g to %.2g", last->optim.momentum,
                 (double)yk_reduced_momentum((float)last->optim.momentum, p->workers));
    if (*text)
        yk_note("%d asynchronous workers: %s", p->workers, text + 2);
}

void yk__print_plan(const yk__trainer *t)
{
    const yk_config *c = t->config;
    const yk_plan *p = t->plan;
    char mode[64], examples[48] = "streamed";
    if (p->quorum)
        snprintf(mode, sizeof mode, "synchronous with a quorum of %d", p->quorum);
    else if (p->synchronous || p->staleness == YK_ASYNC)
        snprintf(mode, sizeof mode, "%s", p->synchronous ? "synchronous" : "asynchronous");
    else
        snprintf(mode, sizeof mode, "asynchronous with a staleness bound of %llu",
                 (unsigned long long)p->staleness);
    if (t->train.examples)
        snprintf(examples, sizeof examples, "%llu example%s%s", (unsigned long long)t->train.examples,
                 yk_plural(t->train.examples), t->train.rows || !t->plan->trains ? "" : ", streamed");
    yk_note("%s, %llu parameter%s, on %s: %s, %zu column%s, %u classes", c->model,
            (unsigned long long)t->result->params, yk_plural(t->result->params), c->data, examples,
            t->train.dim, yk_plural(t->train.dim), t->train.classes);
    char *columns = t->train.source->schema ? yk_schema_summary(t->train.source->schema) : NULL;
    if (columns)
        yk_note("%s", columns);
    free(columns);
    if (t->train.positional && t->train.fields > 1)
        yk_note("%u fields: the rows have no field numbers, so the position of an entry in its row is its "
                "field%s",
                t->train.fields, t->train.source->by_position ? "" : " (?fields=one puts all in one field)");
    yk_note("%d worker%s, %s, batch %llu per worker (global batch %llu), %s, learning rate %g", p->workers,
            yk_plural((uint64_t)p->workers), mode, (unsigned long long)p->batch,
            (unsigned long long)p->global_batch, yk_optim_rule_of(t->group[0].optim.kind)->name,
            t->result->lr);
    const yk_local_group *last = &t->group[t->model->ngroups - 1];
    for (const yk_local_group *g = t->group + 1; g <= last && g->shape.keyed; g++)
        if (g->optim.kind != t->group[0].optim.kind || g->optim.lr != t->group[0].optim.lr)
            yk_note("%s: %s, learning rate %g", g->shape.name, yk_optim_rule_of(g->optim.kind)->name,
                    g->optim.lr);
    if (t->model->sparse && !last->shape.keyed)
        yk_note("the network: %s, learning rate %g", yk_optim_rule_of(last->optim.kind)->name,
                last->optim.lr);
    if (p->synchronous)
        print_asynchronous_groups(t);
    print_rules(t);
    if (c->local_steps && p->processes == 1)
        yk_note("--local-steps has no effect in one process: there is nothing to average");
    if (t->tested && !c->eval_every && p->steps_per_epoch && p->eval_every > p->steps_per_epoch)
        yk_note(
            "an epoch has only %llu step%s, and the %llu steps of a round (--local-steps) arrive together: "
            "evaluating every %llu epochs",
            (unsigned long long)p->steps_per_epoch, p->steps_per_epoch == 1 ? "" : "s",
            (unsigned long long)p->local_steps, (unsigned long long)(p->eval_every / p->steps_per_epoch));
    if (p->lockstep && p->workers_per_process > 1 && p->batch < YK_LANES && t->model->ops->profile)
        yk_note("a network computes %d examples at a time, but the batch of a worker has only %llu: "
                "--global-batch %llu instead of --batch takes the same steps in less time",
                YK_LANES, (unsigned long long)p->batch, (unsigned long long)p->global_batch);
    if (p->threads > c->threads)
        yk_note("--global-batch %lld: the workers of %s process share its batches as threads of one worker",
                (long long)c->global_batch, p->processes > 1 ? "each" : "this");
    if (p->threads > 1)
        yk_note("each worker uses %d of --threads %d%s", t->result->threads_used, p->threads,
                !t->model->ops->threads ? ": linear models use one thread per worker; use --workers"
                : t->result->threads_used < p->threads
                    ? ": more do not help with this model, batch size and number of cores"
                    : "");
    if (c->hash_bits && !t->train.source->hashed_into)
        yk_note("--hash-bits %lld has no effect: the keys of %s are not hashed", (long long)c->hash_bits,
                c->data);
    if (!t->plan->alone)
        print_processes(t);
    if (t->result->best_known)
        yk_note("the best that any model can reach on this test set: loss %.4f, AUC %.4f",
                t->result->best.loss, t->result->best.auc);
}

size_t yk__parameter_bytes(const yk__trainer *t)
{
    size_t floats = 0;
    for (int g = 0; g < t->model->ngroups; g++)
        floats += yk_group_floats(&t->model->group[g]) *
                  (1 + (size_t)yk_optim_rule_of(t->group[g].optim.kind)->slots);
    return floats * sizeof(float);
}

yk_status yk__describe(yk__trainer *t)
{
    yk_description *d = calloc(1, sizeof *d);
    if (!d)
        return yk_fail_memory(sizeof *d, "a description");
    t->result->description = d;
    snprintf(d->list, sizeof d->list, "%s", t->model->list ? t->model->list : "");
    d->unit = t->model->sparse ? "example" : "image";
    d->nlines = yk_model_describe(t->model, yk__max_batch(t), d->line);
    for (int i = 0; i < d->nlines; i++) {
        d->params += d->line[i].params;
        d->flops += d->line[i].flops;
        d->flops_back += d->line[i].flops_back;
        d->activation_bytes += d->line[i].bytes;
    }
    const char *optimizer = t->config->optimizer;
    snprintf(d->optimizer, sizeof d->optimizer, "%s", optimizer ? optimizer : t->description.optimizer);
    d->batch = t->plan->batch;
    d->workers = t->plan->workers;
    d->examples = t->train.examples;
    d->weight_bytes = t->model->nparams * sizeof(float);
    for (int g = 0; g < t->model->ngroups; g++)
        d->gradient_bytes +=
            t->model->group[g].keyed ? 0 : yk_group_floats(&t->model->group[g]) * sizeof(float);
    d->state_bytes = yk__parameter_bytes(t) - d->weight_bytes;
    return YK_OK;
}

static int by_descending_time(const void *a, const void *b)
{
    const yk_profile_line *x = a, *y = b;
    return x->seconds > y->seconds ? -1 : x->seconds < y->seconds;
}

yk_status yk__profile_collect(yk__trainer *t)
{
    if (!t->config->profile)
        return YK_OK;
    yk_profile *p = calloc(1, sizeof *p);
    if (!p)
        return yk_fail_memory(sizeof *p, "a profile");
    t->result->profile = p;
    if (t->model->ops->profile && t->plan->trains)
        p->nlines = t->model->ops->profile(t->worker[0].work, p->line);
    p->threads = t->result->threads_used;
    p->peak = t->model->ops->peak ? t->model->ops->peak() : 0.0;
    p->train_seconds = t->result->train_seconds;
    qsort(p->line, (size_t)p->nlines, sizeof *p->line, by_descending_time);
    return YK_OK;
}
