/* A run in words as it begins, in numbers before it begins (--dry-run) and after it has ended (--profile). */
#include "train/trainer.h"

#include "base/log.h"
#include <stdio.h>
#include <stdlib.h>

/* What the loss of a process means for the job. */
static void introduce_losses(const yk_plan *p)
{
    if (p->placement != YK_PLACEMENT_SERVERS)
        yk_note("a lost process ends the job; only dedicated servers (--servers K) allow workers to be lost "
                "or to join "
                "without a restart");
    else if (!p->survives_loss)
        yk_note(
            "a lost process ends the job: synchronous steps need all workers; with servers, --mode async and "
            "--quorum allow workers to be lost without a restart");
    else
        yk_note("the servers allow workers to be lost%s without a restart", p->joinable ? " or to join" : "");
}

void yk__introduce(const yk__trainer *t)
{
    const yk_config *c = t->config;
    char mode[64];
    if (t->plan->quorum)
        snprintf(mode, sizeof mode, "synchronous with a quorum of %d", t->plan->quorum);
    else if (t->plan->synchronous)
        snprintf(mode, sizeof mode, "synchronous");
    else if (t->plan->staleness == YK_ASYNC)
        snprintf(mode, sizeof mode, "asynchronous");
    else
        snprintf(mode, sizeof mode, "asynchronous, at most %llu steps apart",
                 (unsigned long long)t->plan->staleness);
    char examples[48] = "streamed";
    if (t->train.examples)
        snprintf(examples, sizeof examples, "%llu examples%s", (unsigned long long)t->train.examples,
                 t->train.rows || t->cluster.role == YK__SERVER ? "" : ", streamed");
    yk_note("%s, %llu parameters, on %s: %s, %zu columns, %u classes", c->model,
            (unsigned long long)t->result->params, c->data, examples, t->train.dim, t->train.classes);
    yk_note("%d worker%s, %s, batch %llu each (%llu together), %s, learning rate %g", t->plan->workers,
            t->plan->workers > 1 ? "s" : "", mode, (unsigned long long)t->plan->batch,
            (unsigned long long)t->plan->global_batch, yk_local_rule(t->local, 0)->name, t->result->lr);
    const yk__cluster *k = &t->cluster;
    if (k->role == YK__REPLICA)
        yk_note("%d processes (%s), each with all parameters; %s", k->ranks, yk_comm_library(k->comm),
                t->plan->local_steps ? "parameters are averaged every --local-steps steps"
                : k->memory.at       ? "gradients are all-reduced through shared memory"
                                     : "gradients are all-reduced");
    else if (k->role == YK__SERVER)
        yk_note("%d processes (%s): %d parameter server%s (rank%s 0%s), the others train%s%s", k->ranks,
                yk_comm_library(k->comm), k->servers, k->servers > 1 ? "s" : "", k->servers > 1 ? "s" : "",
                k->servers > 1 ? " and following" : "",
                t->model->sparse ? "; only the keys of a batch are sent" : "",
                t->plan->local_steps ? "; deltas are sent every --local-steps steps" : "");
    else if (k->role == YK__SHARD)
        yk_note("%d processes (%s), each with %d worker%s and a shard of the parameters%s%s", k->ranks,
                yk_comm_library(k->comm), t->plan->workers_per_process,
                t->plan->workers_per_process > 1 ? "s" : "",
                t->model->sparse ? "; only the keys of a batch are sent" : "",
                t->plan->local_steps ? "; deltas are sent every --local-steps steps" : "");
    if (k->role != YK__ALONE)
        introduce_losses(t->plan);
    if (t->result->best_known)
        yk_note("the best that any model can reach on this test set: loss %.4f, AUC %.4f",
                t->result->best.loss, t->result->best.auc);
}

yk_status yk__describe(yk__trainer *t)
{
    yk_description *d = calloc(1, sizeof *d);
    if (!d)
        return yk_fail_memory(sizeof *d, "a description");
    t->result->description = d;
    const yk_optim_rule *rule = yk_optim_rule_of(t->optim.kind);
    d->nlines = yk_model_describe(t->model, yk__most_batch(t), d->line, YK_MAX_LINES);
    for (int i = 0; i < d->nlines; i++) {
        d->params += d->line[i].params;
        d->flops += d->line[i].flops;
        d->flops_back += d->line[i].flops_back;
        d->activation_bytes += d->line[i].bytes;
    }
    d->optimizer = rule->name;
    d->batch = t->plan->batch;
    d->workers = t->plan->workers;
    d->examples = t->train.examples;
    d->weight_bytes = t->model->nparams * sizeof(float);
    d->gradient_bytes = t->model->sparse ? 0 : d->weight_bytes;
    d->state_bytes = d->weight_bytes * (size_t)rule->slots;
    return YK_OK;
}

static int by_falling_time(const void *a, const void *b)
{
    const yk_profile_line *x = a, *y = b;
    return x->seconds > y->seconds ? -1 : x->seconds < y->seconds;
}

yk_status yk__profile_take(yk__trainer *t)
{
    if (!t->config->profile || !t->model->ops->profile)
        return YK_OK;
    yk_profile *p = calloc(1, sizeof *p);
    if (!p)
        return yk_fail_memory(sizeof *p, "a profile");
    t->result->profile = p;
    p->nlines = t->model->ops->profile(t->worker[0].work, p->line, YK_MAX_PROFILE_LINES);
    p->threads = t->model->shape.threads;
    p->peak = t->peak;
    p->train_seconds = t->result->train_seconds;
    qsort(p->line, (size_t)p->nlines, sizeof *p->line, by_falling_time);
    return YK_OK;
}
