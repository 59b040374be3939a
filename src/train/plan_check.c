/* Finds options that conflict with each other, with the model, the job or the data. */
#include "train/plan_internal.h"

#include "data/spec.h"
#include <stdio.h>
#include <string.h>

/* ---- processes ---- */

static yk_status check_single(const yk__plan_input *in)
{
    const yk_config *c = in->c;
    return in->job->single && (yk__plan_servers_of(c).job > 0 || c->quorum || c->prefetch > 0)
               ? yk_fail(YK_EUSAGE,
                         "--servers, --quorum and --prefetch need several processes: start the job "
                         "with --launch N, --hosts, mpirun or srun%s",
                         c->quorum ? ""
                         : c->resume
                             ? "; to resume it in one process, add --launch 0 --servers 0 --prefetch auto"
                             : "")
               : YK_OK;
}

/* One process can be a job, for example to resume a run with fewer processes. */
static yk_status check_processes(const yk__plan_input *in, const yk_plan *p)
{
    if (p->processes == 1 && (yk__plan_servers_of(in->c).job > 0 || in->c->quorum > 1))
        return yk_fail(YK_EUSAGE,
                       "--servers and --quorum need several processes; this job has one: start it with "
                       "--launch N, mpirun or srun");
    if (p->processes > 1 && p->servers >= p->processes)
        return yk_fail(YK_EUSAGE,
                       "--servers %d of %d processes leaves no worker; start at least %d processes",
                       p->servers, p->processes, p->servers + 1);
    return YK_OK;
}

static yk_status check_quorum(const yk__plan_input *in, const yk_plan *p)
{
    const bool replicas = yk__plan_servers_of(in->c).job == 0;
    if (replicas && !p->synchronous)
        return yk_fail(YK_EUSAGE, "--servers 0 (replicas) needs --mode sync; asynchronous training needs "
                                  "--servers all, or --servers 1 or more");
    if (replicas && p->quorum)
        return yk_fail(YK_EUSAGE,
                       "--quorum needs --servers all, or --servers 1 or more: only a server can end a step "
                       "before all gradients have arrived");
    if (p->quorum && !p->synchronous)
        return yk_fail(YK_EUSAGE, "--quorum needs --mode sync: asynchronous steps wait for no other worker");
    const int train = p->workers / p->workers_per_process;
    if (p->processes && p->quorum > train)
        return yk_fail(YK_EUSAGE, "--quorum %d, but there %s only %d %s", p->quorum,
                       train == 1 ? "is" : "are", train,
                       train == 1 ? "process that trains" : "processes that train");
    return YK_OK;
}

/* Asynchronous local SGD. */
static yk_status check_local_steps(const yk_plan *p)
{
    const long long steps = (long long)p->local_steps;
    if (!p->local_steps || p->synchronous)
        return YK_OK;
    if (p->staleness < p->local_steps)
        return yk_fail(
            YK_EUSAGE,
            "--staleness %lld cannot be guaranteed with --local-steps %lld: other workers do not see "
            "local steps before the round ends; use a bound of %lld or more",
            (long long)p->staleness, steps, steps);
    if (p->eval_every && p->eval_every < p->local_steps)
        return yk_fail(
            YK_EUSAGE,
            "--eval-every %lld is not possible with asynchronous --local-steps %lld: the steps of a "
            "round arrive together; evaluate every %lld steps or more",
            (long long)p->eval_every, steps, steps);
    return YK_OK;
}

static yk_status check_prefetch(const yk_plan *p)
{
    const int ahead = p->depth - 1;
    if (ahead && !p->copy_lifetime)
        return yk_fail(
            YK_EUSAGE,
            "--prefetch %d needs asynchronous logistic regression on sparse data with --servers all, or "
            "--servers 1 or more, and without --local-steps: only copies are prefetched",
            ahead);
    if (p->staleness < (uint64_t)ahead)
        return yk_fail(YK_EUSAGE,
                       "--staleness %lld cannot be guaranteed with --prefetch %d: prefetched parameters do "
                       "not include the last %d updates; use a bound of %d or more",
                       (long long)p->staleness, ahead, ahead, ahead);
    return YK_OK;
}

static yk_status check_global_batch(const yk_config *c, const yk_plan *p)
{
    const long long wanted = (long long)c->global_batch;
    const unsigned long long workers = (unsigned long long)(p->global_batch / p->batch);
    if (!wanted || (p->processes && (uint64_t)wanted == p->global_batch))
        return YK_OK;
    if (!p->processes)
        return yk_fail(YK_EUSAGE,
                       "a worker cannot join a job with --global-batch, because it would change the "
                       "batch of all others; start the job with --batch");
    if (c->batch)
        return yk_fail(YK_EUSAGE,
                       "--global-batch %lld contradicts --batch %lld: %llu worker%s with this batch %s %llu "
                       "examples; use one of these options",
                       wanted, (long long)c->batch, workers, workers == 1 ? "" : "s",
                       workers == 1 ? "uses" : "use", (unsigned long long)p->global_batch);
    return yk_fail(YK_EUSAGE,
                   "--global-batch %lld cannot be divided equally among %llu workers: use a multiple of %llu",
                   wanted, workers, workers);
}

/* ---- data ---- */

/* Standard input can be read once, and only by one process. */
static yk_status check_stdin(const yk_config *c, const yk_plan *p)
{
    const bool data = c->data && yk_spec_is_stdin(c->data), test = c->test && yk_spec_is_stdin(c->test);
    const char *spec = data ? c->data : c->test;
    if (!data && !test)
        return YK_OK;
    const bool streamed = data && !(c->stream && *c->stream == 'n');
    const struct {
        bool wrong;
        const char *text;
    } rule[] = {
        {p->processes != 1, "standard input can be read by one process only; save the data in a file"},
        {c->resume, "a run that read standard input cannot be resumed; save the data in a file"},
        {streamed && p->epochs != 1,
         "standard input can be read for one epoch only: use --epochs 1, or --stream never to load it into "
         "memory"},
        {streamed && p->workers != 1,
         "standard input can be streamed to one worker only: use --workers 1, or --stream never to load it "
         "into memory"},
    };
    for (size_t i = 0; i < sizeof rule / sizeof *rule; i++)
        if (rule[i].wrong)
            return yk_fail(YK_EUSAGE, "%s: %s", spec, rule[i].text);
    return YK_OK;
}

/* Schedules that need the length of an epoch, or of the run. */
static yk_status check_lengths(const yk__plan_input *in, const yk_plan *p)
{
    const char *option = in->c->lr_decay_epochs > 0.0                ? "lr-decay-epochs"
                         : yk_by_group_given(&in->c->warm_up_epochs) ? "warm-up-epochs"
                                                                     : NULL,
               *instead = option && *option == 'w' ? "--warm-up" : "--lr-decay-every";
    for (int g = 0; !option && g < p->ngroups; g++)
        if (p->run_steps == UINT64_MAX && yk_lr_schedules[p->group[g].optim.schedule].needs_length) {
            option = "lr-schedule";
            instead = "--steps";
        }
    if (p->monitors && !yk_config_validation(in->c))
        return yk_fail(YK_EUSAGE, "--lr-schedule plateau needs --validation: it follows the monitored value");
    if (!option || !in->data->counted || p->steps_per_epoch)
        return YK_OK;
    if (p->quorum)
        return yk_fail(YK_EUSAGE,
                       "--%s: with --quorum the number of steps in an epoch is not known in advance; use "
                       "%s STEPS",
                       option, instead);
    return yk_fail(YK_EUSAGE,
                   "--%s: the length of an epoch of %s is not known in advance; use %s STEPS, or --stream "
                   "never",
                   option, in->c->data, instead);
}

/* ---- groups ---- */

/* Groups can be replicated, in lockstep, next to servers or shards for the others. keyed=all,dense=0 and keyed=0,dense=all are the
 * same as all: in lockstep, shards are replicas that divide the updates among themselves. */
static yk_status check_servers(const yk_config *c)
{
    const double keyed = yk_by_group_of(&c->servers, "", true, -1),
                 dense = yk_by_group_of(&c->servers, "", false, -1);
    const bool named = *c->servers.part[YK_GROUP_NAMED].name;
    const yk__servers all = yk__plan_servers_of(c);
    if (all.differ || (named ? all.job == 0 : keyed != dense && (keyed == -1.0 || dense == -1.0)))
        return yk_fail(YK_EUSAGE,
                       "--servers with separate values must be keyed=K,dense=0 or keyed=0,dense=K, or NAME=0 "
                       "and NAME=K for individual groups: groups with K, the same for all of them, are on K "
                       "servers, or on all processes if K is all, and groups with 0 are replicated; for the "
                       "same placement of all groups, use --servers K or --servers 0");
    return YK_OK;
}

/* The groups that --servers replicates, by kind or by name, take the same steps. */
static yk_status check_replicated(const yk_config *c, const yk_plan *p)
{
    const bool named = *c->servers.part[YK_GROUP_NAMED].name,
               keyed = !named && yk_by_group_of(&c->servers, "", true, -1) == 0.0; /* else the dense groups */
    /* check_bound() checks the bounds of individual groups */
    const bool by_name = named || *c->staleness.part[YK_GROUP_NAMED].name,
               synchronous = by_name ? p->synchronous : !yk__plan_bound(c, "", keyed);
    const char *group = named   ? "NAME"
                        : keyed ? "keyed"
                                : "dense",
               *parameters = named   ? "group"
                             : keyed ? "keyed parameters"
                                     : "network";
    if (p->replicates && (!synchronous || p->quorum || p->local_steps))
        return yk_fail(YK_EUSAGE,
                       "--servers %s=0 (replicas) needs synchronous training of the %s: --mode sync or "
                       "--staleness %s=0, without --quorum or --local-steps",
                       group, parameters, group);
    return YK_OK;
}

/* Local SGD updates all groups at once. */
static yk_status check_bound(const yk_plan *p, const yk_group_plan *g)
{
    if (p->replicates && g->placement == YK_PLACEMENT_REPLICAS && g->staleness)
        return yk_fail(YK_EUSAGE, "a replicated parameter group (--servers NAME=0) needs --staleness NAME=0");
    return p->processes != 1 && p->local_steps && g->staleness != p->staleness
               ? yk_fail(YK_EUSAGE,
                         "different --staleness bounds for parameter groups cannot be combined with "
                         "--local-steps, which updates all groups at once")
               : YK_OK;
}

/* If it is not certain which groups the model has, separate values are checked later. */
static yk_status check_optimizers(const yk__plan_input *in, const yk_plan *p)
{
    const yk_config *c = in->c;
    const char *option;
    const bool separate =
        yk_config_only_for(c, true) || yk_config_only_for(c, false) || yk_config_named_group(c, 0, &option);
    yk_status st = YK_OK;
    for (int g = 0; !st && g < p->ngroups && (in->certain || !separate); g++)
        st = yk_optim_check(&p->group[g].optim);
    return st;
}

/* Checks the names of individual groups in options. */
static yk_status check_names(const yk__plan_input *in)
{
    const yk_model_description *m = in->model;
    const char *option, *name;
    char names[YK_MAX_GROUPS * (YK_GROUP_NAME + 2)] = "";
    for (int g = 0; g < m->ngroups; g++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", g ? ", " : "",
                 m->group[g].name);
    for (size_t i = 0; (name = yk_config_named_group(in->c, i, &option)); i++) {
        bool found = false;
        for (int g = 0; g < m->ngroups; g++)
            found |= strcmp(m->group[g].name, name) == 0;
        if (!found)
            return yk_fail(YK_EUSAGE,
                           "--%s %s=...: --model %.60s has no parameter group %s; its groups are: %s", option,
                           name, in->c->model, name, names);
    }
    return YK_OK;
}

/* Checks options for groups of a kind that the model does not have. */
static yk_status check_kinds(const yk__plan_input *in)
{
    for (int keyed = 0; keyed < 2; keyed++) {
        bool used = false;
        for (int g = 0; g < in->model->ngroups; g++)
            used |= yk__plan_is_keyed(in, g) == keyed;
        const char *option = used ? NULL : yk_config_only_for(in->c, keyed);
        if (option)
            return yk_fail(YK_EUSAGE, "--%s %s=... has no effect: --model %.60s has no %s parameters", option,
                           keyed ? "keyed" : "dense", in->c->model, keyed ? "keyed" : "dense");
    }
    return YK_OK;
}

/* The smallest bound and the placements of the plan follow from the options alone, so they may be those of a kind of group that the
 * model does not have, or whose groups are all named: usually the bound of --mode. */
static yk_status check_groups(const yk_config *c, const yk_plan *p)
{
    uint64_t min = YK_ASYNC;
    bool replicated = false, other = false;
    yk_status st = YK_OK;
    for (int g = 0; !st && g < p->ngroups; g++) {
        const yk_group_plan *group = &p->group[g];
        min = group->staleness < min ? group->staleness : min;
        replicated |= group->placement == YK_PLACEMENT_REPLICAS;
        other |= group->placement != YK_PLACEMENT_REPLICAS;
        st = check_bound(p, group);
    }
    if (st)
        return st;
    if (min != p->staleness && p->synchronous)
        return yk_fail(
            YK_EUSAGE,
            "--staleness: all parameter groups of --model %.60s have a bound above 0, but the mode "
            "is synchronous: add --mode async, and no bound of 0",
            c->model);
    if (min != p->staleness)
        return yk_fail(YK_EUSAGE, "--staleness: no parameter group of --model %.60s has the bound %llu",
                       c->model, (unsigned long long)p->staleness);
    if (p->replicates && !(replicated && other))
        return yk_fail(YK_EUSAGE, "--servers: --model %.60s has no parameter group that is%s replicated",
                       c->model, replicated ? " not" : "");
    return YK_OK;
}

/* --lr auto */
static yk_status check_search(const yk_config *c, const yk_plan *p)
{
    if (!yk_by_group_has(&c->lr, YK_ALL))
        return YK_OK;
    if (c->lr_batch)
        return yk_fail(YK_EUSAGE,
                       "--lr-batch cannot be used with --lr auto, which searches with the batch of "
                       "this run: leave out --lr-batch");
    if (c->warm_start && p->processes != 1)
        return yk_fail(YK_EUSAGE,
                       "--lr auto cannot be used with --warm-start in a job: give a learning rate, --lr X");
    return YK_OK;
}

/* What only jobs of several processes have. */
static yk_status check_job(const yk__plan_input *in, const yk_plan *p)
{
    yk_status st = YK_OK;
    if (p->processes == 1 || (st = check_quorum(in, p)) || (st = check_local_steps(p)))
        return st;
    return check_prefetch(p);
}

yk_status yk__plan_check(const yk__plan_input *in, const yk_plan *p)
{
    const yk_config *c = in->c;
    yk_status st;
    if ((st = check_single(in)) || (st = check_optimizers(in, p)) || (st = check_servers(c)) ||
        (st = check_replicated(c, p)) || (st = check_processes(in, p)) || (st = check_job(in, p)) ||
        (st = check_search(c, p)) || (st = check_global_batch(c, p)) || (st = check_stdin(c, p)) ||
        (st = check_lengths(in, p)) || !in->certain)
        return st;
    if ((st = check_names(in)) || (st = check_kinds(in)))
        return st;
    return check_groups(c, p);
}
