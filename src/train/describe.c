/* Describes a run: the notes at its start, --dry-run and --profile. */
#include "train/setup.h"

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/text.h"
#include "kern/block.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What --servers by group means for the parameters. */
typedef struct {
    bool network;       /* replicated, next to servers */
    bool keyed, served; /* some keyed groups are on the processes that train, some on the servers */
} placements;

static placements placements_of(const yk__trainer *t)
{
    placements at = {0};
    for (int g = 0; t->plan->servers && g < t->model->ngroups; g++) {
        const bool replicated = t->plan->group[g].placement == YK_PLACEMENT_REPLICAS;
        at.network |= replicated && !t->model->group[g].keyed;
        at.keyed |= replicated && t->model->group[g].keyed;
        at.served |= !replicated && t->model->group[g].keyed;
    }
    return at;
}

/* What is sent of sparse models. */
static const char *keys_text(const yk__trainer *t, placements at)
{
    if (!t->model->sparse)
        return "";
    return at.network               ? "; the servers get only the keys of a batch"
           : at.keyed && !at.served ? "; the servers have only the network"
                                    : "; only the keys of a batch are sent";
}

static void print_processes(const yk__trainer *t)
{
    char lost[256];
    const yk_plan *p = t->plan;
    const placements at = placements_of(t);
    const char *library = yk_comm_library(t->cluster.comm), *keys = keys_text(t, at),
               *how = yk_plan_exchange_text(p, t->cluster.memory.at);
    const int n = p->workers_per_process, serving = p->serving_threads;
    if (p->whole)
        yk_note("%d processes (%s), each with all parameters; %s", p->processes, library, how);
    else if (p->servers == 1)
        yk_note("%d processes (%s): a parameter server with %d thread%s (rank 0), the others train%s%s",
                p->processes, library, serving, yk_plural((uint64_t)serving), keys, how);
    else if (p->servers)
        yk_note("%d processes (%s): %d parameter servers (ranks 0 to %d; rank 0 has %d thread%s), the others "
                "train%s%s",
                p->processes, library, p->servers, p->servers - 1, serving, yk_plural((uint64_t)serving),
                keys, how);
    else
        yk_note("%d processes (%s), each with %d worker%s and a shard of the parameters%s%s", p->processes,
                library, n, yk_plural((uint64_t)n), keys, how);
    if (at.network)
        yk_note("the network is replicated: the processes that train sum its gradients, and each updates a "
                "part of the parameters");
    if (at.keyed)
        yk_note("%s are divided among the processes that train: each owns a part, and gets the "
                "other keys of a batch from the others",
                at.served ? "some of the keyed parameters" : "the keyed parameters");
    if (t->result->numa_nodes)
        yk_note("each process is bound to its share of the %d NUMA nodes of its host", t->result->numa_nodes);
    yk_plan_lost_process_text(t->config, p, lost);
    yk_note("%s", lost);
}

static void print_data(const yk__trainer *t)
{
    const yk_config *c = t->config;
    const yk_dataset *d = &t->train;
    char examples[48] = "streamed";
    if (d->examples)
        snprintf(examples, sizeof examples, "%llu example%s%s", (unsigned long long)d->examples,
                 yk_plural(d->examples), yk__is_streamed(t) ? ", streamed" : "");
    char classes[32] = "";
    if (!t->loss->numbers)
        snprintf(classes, sizeof classes, ", %u classes", d->classes);
    yk_note("%s, %llu parameter%s, on %s: %s, %zu column%s%s", c->model,
            (unsigned long long)t->result->params, yk_plural(t->result->params), c->data, examples, d->dim,
            yk_plural(d->dim), classes);
    char *columns = d->source->schema ? yk_schema_summary(d->source->schema) : NULL;
    if (columns)
        yk_note("%s", columns);
    free(columns);
    if (d->positional && d->fields > 1)
        yk_note("%u fields: the rows have no field numbers, so the position of an entry in its row is its "
                "field%s",
                d->fields, d->source->by_position ? "" : " (?fields=one puts all in one field)");
}

/* --class-weight, as it is used. A server knows only the option. */
static void print_class_weights(const yk__trainer *t)
{
    yk_text text = {0};
    const uint32_t classes = t->class_weight ? t->model->shape.classes : 0;
    const yk__names *names = t->train.source ? t->train.source->class_names : NULL;
    for (uint32_t c = 0; c < classes; c++) {
        char number[24];
        snprintf(number, sizeof number, "%u", c);
        const char *name = names && c < names->n ? names->name[c] : number;
        if (yk_text_item(&text))
            yk_text_print(&text, "%.*s %.4g", yk_utf8_cut(name, 40), name, (double)t->class_weight[c]);
    }
    if (t->config->class_weight)
        yk_note("class weights: %s", text.s ? text.s : t->config->class_weight);
    yk_text_fini(&text);
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

static void print_optimizers(const yk__trainer *t)
{
    const yk_plan *p = t->plan;
    const yk_local_group *first = t->group, *last = &t->group[t->model->ngroups - 1];
    char mode[64];
    yk_plan_mode_text(p, mode);
    yk_note("%d worker%s, %s, batch %llu per worker (global batch %llu), %s, learning rate %g", p->workers,
            yk_plural((uint64_t)p->workers), mode, (unsigned long long)p->batch,
            (unsigned long long)p->global_batch, yk_optim_rule_of(first->optim.kind)->name, t->result->lr);
    for (const yk_local_group *g = first + 1; g <= last && g->shape.keyed; g++)
        if (g->optim.kind != first->optim.kind || g->optim.lr != first->optim.lr)
            yk_note("%s: %s, learning rate %g", g->shape.name, yk_optim_rule_of(g->optim.kind)->name,
                    g->optim.lr);
    if (t->model->sparse && !last->shape.keyed)
        yk_note("the network: %s, learning rate %g", yk_optim_rule_of(last->optim.kind)->name,
                last->optim.lr);
    if (!p->staleness)
        print_asynchronous_groups(p, t->model);
    if (p->stale_gradients)
        print_rules(p, t->model);
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

/* Options that have no effect, or a different one than expected. */
static void print_effects(const yk__trainer *t)
{
    const yk_config *c = t->config;
    const yk_plan *p = t->plan;
    const yk_model *model = t->model;
    const uint64_t epoch = p->steps_per_epoch;
    const struct {
        bool given;
        const char *option;
    } of_job[] = {{c->local_steps, "local-steps"}, {c->deadline != 8.0, "deadline"}, {c->network, "network"}};
    for (size_t i = 0; p->alone && i < sizeof of_job / sizeof *of_job; i++)
        if (of_job[i].given)
            yk_note("--%s has no effect in one process", of_job[i].option);
    if (t->set[YK__TEST].used && !c->eval_every && epoch && p->eval_every > epoch)
        yk_note(
            "an epoch has only %llu step%s, and the %llu steps of a round (--local-steps) arrive together: "
            "evaluating every %llu epochs",
            (unsigned long long)epoch, yk_plural(epoch), (unsigned long long)p->local_steps,
            (unsigned long long)(p->eval_every / epoch));
    if (yk__is_evaluated(t) && !p->synchronous && !p->eval_every && p->epochs != 1)
        yk_warn("asynchronous runs on streamed data of unknown length are evaluated only at the end: use "
                "--eval-every STEPS%s",
                t->set[YK__VALIDATION].used ? "; without it, --validation keeps the last model" : "");
    if (p->lockstep && p->workers_per_process > 1 && p->batch < YK_LANES && model->ops->network)
        yk_note("a network computes %d examples at a time, but the batch of a worker has only %llu: "
                "--global-batch %llu instead of --batch takes the same steps in less time",
                YK_LANES, (unsigned long long)p->batch, (unsigned long long)p->global_batch);
    print_threads(c, p, model);
}

void yk__print_plan(const yk__trainer *t)
{
    char *batch = yk_batch_warning(t->train.examples, t->plan->global_batch, t->plan->workers);
    print_data(t);
    print_class_weights(t);
    print_optimizers(t);
    if (batch)
        yk_warn("%s", batch);
    free(batch);
    print_effects(t);
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

/* Otherwise, the kernel would kill this process or another one when it uses the memory. */
yk_status yk__check_memory(const yk__trainer *t)
{
    const yk_plan *p = t->plan;
    yk_layer_line line[YK_MAX_LINES];
    double weights = 4.0 * (double)t->model->nparams,
           each = weights;                                     /* each worker: gradient and activations */
    if (t->model->sparse || !p->trains || !yk_clock_is_real()) /* sparse: memory is used as features occur */
        return YK_OK;
    for (int i = yk_model_describe(t->model, yk__max_batch(t), line); i-- > 0;)
        each += (double)line[i].bytes;
    const double needed = (p->whole ? (double)yk__parameter_bytes(t) : weights) + each * t->local_workers,
                 available = yk_memory_available("/proc", "/sys");
    return needed <= available
               ? YK_OK
               : yk_fail(
                     YK_ESYSTEM,
                     "--model needs %.1f GB of memory for weights, optimizer state, gradients and "
                     "activations, but only %.1f GB is available: use a smaller network or --batch, fewer "
                     "--workers, or an --optimizer with less state (--dry-run prints the details)",
                     needed * 1e-9, available * 1e-9);
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
    yk_config_optimizer_text(t->config, d->optimizer);
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
    if (t->model->ops->network && t->plan->trains)
        p->nlines = yk_net_profile(t->model->ops->network(t->worker[0].work), p->line);
    p->peak = t->model->ops->network ? yk_net_peak() : 0.0;
    qsort(p->line, (size_t)p->nlines, sizeof *p->line, by_descending_time);
    return YK_OK;
}
