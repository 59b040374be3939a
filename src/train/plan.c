#include "train/plan.h"

#include "base/number.h"
#include "data/source.h"
#include <math.h>
#include <string.h>

const char *const yk_placement_name[] = {"local", "replicas", "servers", "shards"};

/* Whether workers send each gradient, or the delta of a copy, without waiting for others. */
static bool sends_gradients(const yk_plan *p)
{
    const bool shards = p->placement == YK_PLACEMENT_SHARDS || p->placement == YK_PLACEMENT_SERVERS;
    return shards && !p->synchronous && !p->local_steps;
}

/* The bound of a group of this name; "": of groups that --staleness does not name. */
static uint64_t staleness_of(const yk_config *c, const char *group, bool keyed)
{
    const double given = yk_by_group_named(&c->staleness, group, yk_by_group_of(&c->staleness, keyed, -1.0));
    if (given >= 0.0)
        return (uint64_t)given;
    return c->mode && strcmp(c->mode, "async") == 0 ? YK_ASYNC : 0;
}

static yk_optim_config optimizer_of(const yk_config *c, const char *group, bool keyed)
{
    yk_optim_kind kind = YK_SGD;
    (void)yk_config_optimizer(c, group, keyed, &kind); /* yk_config_check() reports unknown ones */
    yk_optim_config o = yk_optim_defaults(kind);
    o.lr = yk_by_group_named(&c->lr, group, yk_by_group_of(&c->lr, keyed, o.lr));
    o.l1 = c->l1;
    o.l2 = c->l2;
    o.momentum = c->momentum >= 0.0 ? c->momentum : o.momentum;
    o.lr_decay_every = (uint64_t)c->lr_decay_every;
    if (c->lr_schedule)
        o.schedule = !strcmp(c->lr_schedule, "step")      ? YK_LR_STEP
                     : !strcmp(c->lr_schedule, "inverse") ? YK_LR_INVERSE
                                                          : YK_LR_CONSTANT;
    o.lr_decay = c->lr_decay >= 0.0 ? c->lr_decay : o.schedule == YK_LR_INVERSE ? 1e-3 : 0.1;
    return o;
}

/* All workers take the same steps if a group is synchronous. */
static void set_groups(const yk_config *c, yk_plan *p)
{
    for (int keyed = 0; keyed < 2; keyed++) {
        p->group[keyed].optim = optimizer_of(c, "", keyed);
        p->group[keyed].staleness = staleness_of(c, "", keyed);
    }
    const uint64_t dense = p->group[0].staleness, keyed = p->group[1].staleness;
    p->staleness = keyed < dense ? keyed : dense;
    for (int i = 0; i < YK_MAX_GROUPS && *c->staleness.named[i].name; i++) {
        const uint64_t own = staleness_of(c, c->staleness.named[i].name, true);
        p->staleness = own < p->staleness ? own : p->staleness;
    }
}

/* Whether the parameters are keyed: the model needs sparse data, or it accepts sparse data and the data is sparse. If the data
 * cannot be opened, the error is reported later, when it is read. */
static bool is_sparse(const yk_config *c)
{
    yk_source *s;
    const yk_source_options o = {
        .hash_bits = (unsigned)c->hash_bits, .features = (uint64_t)c->features, .shape_only = true};
    const yk_model_description model = yk_config_model(c);
    if (model.needs_sparse || !c->data || !model.takes_sparse)
        return model.needs_sparse;
    if (yk_source_open(c->data, YK_SPLIT_TRAIN, &o, &s))
        return true;
    const bool sparse = s->kind == YK_ROWS_SPARSE;
    yk_source_free(s);
    return sparse;
}

/* Whether the model has groups of both kinds. */
static bool is_mixed(const yk_config *c)
{
    const yk_model_description model = yk_config_model(c);
    int keyed = 0;
    for (int g = 0; g < model.ngroups; g++)
        keyed += model.group[g].keyed;
    return keyed && keyed < model.ngroups;
}

/* --servers for keyed or dense groups; -1: not given. */
static int servers_of(const yk_config *c, bool keyed)
{
    return (int)yk_by_group_of(&c->servers, keyed, -1);
}

/* What --servers says about all groups together. */
typedef struct {
    int job;         /* for the groups that are not replicated; 0: all are; -1: not given */
    bool replicates; /* some groups are replicated, others are not */
    bool differ;     /* the groups that are not replicated have different values */
} servers_of_groups;

static servers_of_groups servers_of_all(const yk_config *c)
{
    double value[2 + YK_MAX_GROUPS] = {servers_of(c, true), servers_of(c, false)};
    int n = 2, zeros = 0;
    servers_of_groups s = {.job = -1};
    for (int i = 0; i < YK_MAX_GROUPS && *c->servers.named[i].name; i++)
        value[n++] = c->servers.named[i].value;
    for (int i = 0; i < n; i++) {
        zeros += value[i] == 0.0;
        if (value[i] == 0.0 || value[i] == -1.0)
            continue;
        s.differ |= s.job != -1 && s.job != (int)value[i];
        s.job = (int)value[i];
    }
    s.replicates = zeros && s.job != -1;
    s.job = zeros && s.job == -1 ? 0 : s.job;
    return s;
}

/* The placement of all groups; if only some are replicated, of the others. Synchronous training of dense models uses replicas.
 * Otherwise every process owns a shard: a step needs only some of the keyed parameters, and the results are the same. */
static yk_placement placement_of(const yk_config *c, const yk_plan *p)
{
    const int servers = servers_of_all(c).job;
    if (p->processes == 1)
        return YK_PLACEMENT_LOCAL;
    if (servers > 0)
        return YK_PLACEMENT_SERVERS;
    return servers != YK_ALL && p->lockstep && !is_sparse(c) ? YK_PLACEMENT_REPLICAS : YK_PLACEMENT_SHARDS;
}

/* --workers auto: as many as there are cores for. */
static int workers_of(const yk_config *c, int cores)
{
    return c->workers != YK_AUTO ? (int)c->workers : cores > c->threads ? cores / (int)c->threads : 1;
}

/* Whether the workers of a process become threads of one worker. The steps are the same, but a network computes 16 examples
 * at a time, so that workers with 4 examples each would waste three quarters of their time. */
static bool shares_batch(const yk_config *c, const yk_plan *p)
{
    return c->global_batch && !c->batch && p->lockstep && yk_config_model(c).uses_threads;
}

/* The batch of a worker. */
static void set_batch(const yk_config *c, yk_plan *p)
{
    enum { DEFAULT = 64 };
    const uint64_t gradients = (uint64_t)(p->quorum ? p->quorum * p->workers_per_process : p->workers),
                   share = (uint64_t)c->global_batch / gradients;
    p->batch = c->batch ? (uint64_t)c->batch : !c->global_batch ? DEFAULT : share ? share : 1;
    p->global_batch = p->batch * gradients;
    p->gradients_per_step = p->synchronous   ? gradients
                            : p->local_steps ? (uint64_t)p->workers_per_process
                                             : 1;
}

static yk_placement group_placement(const yk_config *c, const yk_plan *p, const char *name, bool keyed)
{
    const double servers = yk_by_group_named(&c->servers, name, servers_of(c, keyed));
    return p->replicates && servers == 0.0 ? YK_PLACEMENT_REPLICAS : p->placement;
}

/* With a sum of 0, the first steps of an embedding vector are as long as lr allows, whatever its gradient is
 * (docs/convergence.md). */
static double initial_accumulator(const yk_config *c, const yk_group *group, yk_optim_kind kind)
{
    const bool vectors = group->keyed && group->width > 1;
    const double given = c->initial_accumulator, initial = given >= 0.0 ? given : vectors ? 1e-4 : 0.0;
    return yk_optim_rule_of(kind)->accumulates ? initial : 0.0;
}

yk_group_plan yk_plan_group(const yk_config *c, const yk_plan *p, const yk_group *group)
{
    const char *name = group->name;
    const bool keyed = group->keyed;
    yk_group_plan g = p->group[keyed];
    g.optim = optimizer_of(c, name, keyed);
    g.optim.initial = initial_accumulator(c, group, g.optim.kind);
    g.optim.lr_decay_every = p->group[keyed].optim.lr_decay_every; /* may follow from the data */
    g.staleness = staleness_of(c, name, keyed);
    g.placement = group_placement(c, p, name, keyed);
    return g;
}

static void set_roles(const yk_config *c, int cores, yk_plan *p)
{
    p->placement = placement_of(c, p);
    const bool dedicated = p->placement == YK_PLACEMENT_SERVERS;
    p->servers = dedicated ? servers_of_all(c).job : 0;
    p->replicates = p->processes != 1 && servers_of_all(c).replicates;
    for (int keyed = 0; keyed < 2; keyed++)
        p->group[keyed].placement = group_placement(c, p, "", keyed);
    p->workers_per_process = workers_of(c, cores);
    if (shares_batch(c, p)) {
        p->threads *= p->workers_per_process;
        p->workers_per_process = 1;
    }
    p->usable_threads = p->threads < cores ? p->threads : cores;
    p->workers = p->workers_per_process * (p->processes > p->servers ? p->processes - p->servers : 1);
    p->survives_loss = !p->lockstep && dedicated;
    p->joinable = !p->synchronous && dedicated;
}

/* Copies of keyed parameters (store/shards.h) are used long enough that a message has many keys, but within the bound. */
static uint64_t copy_lifetime_of(const yk_plan *p)
{
    const uint64_t long_enough = YK_COPY_EXAMPLES / p->batch > 1 ? YK_COPY_EXAMPLES / p->batch : 1,
                   bound = p->staleness / (uint64_t)p->depth;
    return bound < 1 ? 1 : bound < long_enough ? bound : long_enough;
}

static bool has_dense_group(const yk_config *c)
{
    return yk_config_model(c).needs_sparse ? is_mixed(c) : !is_sparse(c);
}

/* Workers train on copies of the parameters of a linear model, because an exchange per batch would take longer than the batch.
 * A copy is old at its end anyway, so the next one is prefetched. Gradients of all other models go to the owners of the
 * parameters: there, staleness costs more than waiting, and nothing is prefetched. */
static void set_prefetching(const yk_config *c, yk_plan *p)
{
    const bool copies = sends_gradients(p) && is_sparse(c) && !yk_config_model(c).needs_sparse,
               prefetches = copies && p->staleness > 1;
    p->depth = 1 + (c->prefetch != YK_AUTO ? (int)c->prefetch : prefetches);
    if (copies)
        p->copy_lifetime = copy_lifetime_of(p);
    if (p->eval_every && p->eval_every < p->copy_lifetime) /* a push must not skip an evaluation */
        p->copy_lifetime = p->eval_every;
}

static void set_timeouts(const yk_config *c, yk_plan *p)
{
    p->heartbeat_timeout = c->deadline;
    p->worker_timeout =
        p->synchronous ? c->deadline : c->deadline / 2.0; /* a false alarm costs less in asynchronous mode */
    p->server_timeout = c->deadline + 1.0;
    p->heartbeat_every = c->deadline / 8.0;
    p->startup_timeout = yk_env_number("YK_START_LIMIT", fmax(60.0, 8.0 * c->deadline)); /* set by tests */
    p->first_step_timeout = 2.0 * p->startup_timeout;
    p->report_timeout = fmax(30.0, 4.0 * c->deadline);
    p->end_timeout = 2.0 * p->report_timeout;
    p->barrier_timeout = 2.0 * p->first_step_timeout;
    p->control_timeout = 2.0 * p->worker_timeout + 5.0;
    p->leave_timeout = fmax(1.0, c->deadline / 8.0);
    p->dead_timeout = fmin(0.5, c->deadline / 16.0);
    p->team_timeout = fmax(600.0, 75.0 * c->deadline);
}

void yk_plan_describe(const yk_config *c, int processes, int cores, yk_plan *out)
{
    yk_plan p = {.quorum = (int)c->quorum,
                 .local_steps = processes == 1 ? 0 : (uint64_t)c->local_steps, /* nothing to average */
                 .processes = processes,
                 .threads = (int)c->threads,
                 .steps = c->steps ? (uint64_t)c->steps : UINT64_MAX,
                 .epochs = c->epochs  ? (uint64_t)c->epochs
                           : c->steps ? UINT64_MAX
                                      : 1,
                 .log_every = (uint64_t)c->log_every,
                 .eval_every = (uint64_t)c->eval_every,
                 .checkpoint_every = (uint64_t)c->checkpoint_every};
    set_groups(c, &p);
    p.synchronous = p.staleness == 0;
    p.mode = p.synchronous ? "sync" : "async";
    p.alone = p.trains = p.whole = processes == 1; /* otherwise, yk_plan_set_process() sets them */
    p.lockstep = p.synchronous && !p.quorum;
    set_roles(c, cores, &p);
    set_batch(c, &p);
    set_prefetching(c, &p);
    p.joint = p.synchronous || p.local_steps || has_dense_group(c);
    p.channels = p.joint ? 1 : p.workers_per_process;
    set_timeouts(c, &p);
    *out = p;
}

static yk_status check(const yk_config *c, const yk_plan *p)
{
    const bool replicas = servers_of_all(c).job == 0;
    const long long bound = (long long)p->staleness, steps = (long long)p->local_steps;
    if (p->processes == 1)
        return YK_OK;
    if (p->processes && p->servers >= p->processes)
        return yk_fail(YK_EUSAGE,
                       "--servers %d of %d processes leaves no worker; start at least %d processes",
                       p->servers, p->processes, p->servers + 1);
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
    if (p->local_steps && !p->synchronous && p->staleness < p->local_steps)
        return yk_fail(
            YK_EUSAGE,
            "--staleness %lld cannot be guaranteed with --local-steps %lld: other workers do not see "
            "local steps before the round ends; use a bound of %lld or more",
            bound, steps, steps);
    if (p->local_steps && !p->synchronous && p->eval_every && p->eval_every < p->local_steps)
        return yk_fail(
            YK_EUSAGE,
            "--eval-every %lld is not possible with asynchronous --local-steps %lld: the steps of a "
            "round arrive together; evaluate every %lld steps or more",
            (long long)p->eval_every, steps, steps);
    if (p->depth > 1 && !p->copy_lifetime)
        return yk_fail(
            YK_EUSAGE,
            "--prefetch %d needs asynchronous logistic regression on sparse data with --servers all, or "
            "--servers 1 or more, and without --local-steps: only copies are prefetched",
            p->depth - 1);
    if (p->staleness < (uint64_t)p->depth - 1)
        return yk_fail(YK_EUSAGE,
                       "--staleness %lld cannot be guaranteed with --prefetch %d: prefetched parameters do "
                       "not include the last %d updates; use a bound of %d or more",
                       bound, p->depth - 1, p->depth - 1, p->depth - 1);
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

/* Standard input can be read once, and only by one process. */
static yk_status check_stdin(const yk_config *c, const yk_plan *p)
{
    const bool data = c->data && yk_spec_is_stdin(c->data), test = c->test && yk_spec_is_stdin(c->test);
    const char *spec = data ? c->data : c->test;
    if (!data && !test)
        return YK_OK;
    if (p->processes != 1)
        return yk_fail(YK_EUSAGE,
                       "%s: standard input can be read by one process only; save the data in a file", spec);
    if (c->resume)
        return yk_fail(YK_EUSAGE,
                       "%s: a run that read standard input cannot be resumed; save the data in a file", spec);
    if (!data || (c->stream && *c->stream == 'n'))
        return YK_OK;
    if (p->epochs != 1)
        return yk_fail(
            YK_EUSAGE,
            "%s: standard input can be read for one epoch only: use --epochs 1, or --stream never to load "
            "it into memory",
            spec);
    if (p->workers != 1)
        return yk_fail(
            YK_EUSAGE,
            "%s: standard input can be streamed to one worker only: use --workers 1, or --stream never to "
            "load it into memory",
            spec);
    return YK_OK;
}

/* Groups can be replicated, in lockstep, next to servers or shards for the others. keyed=all,dense=0 and keyed=0,dense=all are the
 * same as all: in lockstep, shards are replicas that divide the updates among themselves. */
static yk_status check_groups(const yk_config *c, const yk_plan *p)
{
    const int keyed = servers_of(c, true), dense = servers_of(c, false);
    const bool named = *c->servers.named[0].name;
    const servers_of_groups all = servers_of_all(c);
    if (all.differ || (named ? all.job == 0 : keyed != dense && (keyed == -1 || dense == -1)))
        return yk_fail(YK_EUSAGE,
                       "--servers with separate values must be keyed=K,dense=0 or keyed=0,dense=K, or NAME=0 "
                       "and NAME=K for individual groups: groups with K, the same for all of them, are on K "
                       "servers, or on all processes if K is all, and groups with 0 are replicated; for the "
                       "same placement of all groups, use --servers K or --servers 0");
    const char *group = named   ? "NAME"
                        : keyed ? "dense"
                                : "keyed",
               *parameters = named   ? "group"
                             : keyed ? "network"
                                     : "keyed parameters";
    /* yk_plan_check_group() checks the bounds of individual groups */
    const bool by_name = named || *c->staleness.named[0].name,
               synchronous = by_name ? p->synchronous : !p->group[keyed == 0].staleness;
    if (p->replicates && (!synchronous || p->quorum || p->local_steps))
        return yk_fail(YK_EUSAGE,
                       "--servers %s=0 (replicas) needs synchronous training of the %s: --mode sync or "
                       "--staleness %s=0, without --quorum or --local-steps",
                       group, parameters, group);
    return YK_OK;
}

/* One process can be a job, for example to resume a run with fewer processes. */
static yk_status check_single(const yk_config *c, const yk_plan *p)
{
    return p->processes == 1 && (servers_of_all(c).job > 0 || c->quorum > 1)
               ? yk_fail(YK_EUSAGE,
                         "--servers and --quorum need several processes; this job has one: start it with "
                         "--launch N, mpirun or srun")
               : YK_OK;
}

/* Local SGD updates all groups at once. */
static yk_status check_bound(const yk_plan *p, uint64_t staleness, yk_placement placement)
{
    if (p->replicates && placement == YK_PLACEMENT_REPLICAS && staleness)
        return yk_fail(YK_EUSAGE, "a replicated parameter group (--servers NAME=0) needs --staleness NAME=0");
    return p->processes != 1 && p->local_steps && staleness != p->staleness
               ? yk_fail(YK_EUSAGE,
                         "different --staleness bounds for parameter groups cannot be combined with "
                         "--local-steps, which updates all groups at once")
               : YK_OK;
}

/* Before data is read: models that have groups of both kinds. */
static yk_status check_bounds(const yk_config *c, const yk_plan *p)
{
    const bool both = is_mixed(c) && !*c->staleness.named[0].name;
    yk_status st = YK_OK;
    for (int keyed = 0; !st && keyed < 2 && both; keyed++)
        st = check_bound(p, p->group[keyed].staleness, p->placement);
    return st;
}

yk_status yk_plan_check_group(const yk_plan *p, const yk_group_plan *g)
{
    yk_status st = yk_optim_check(&g->optim);
    return st ? st : check_bound(p, g->staleness, g->placement);
}

/* Before data is read. If there are separate values for groups, yk_plan_check_group() checks those that the model uses. */
static yk_status check_optimizer(const yk_config *c, const yk_plan *p)
{
    const bool separate = (c->optimizer && strchr(c->optimizer, '=')) || !isnan(c->lr.keyed) ||
                          !isnan(c->lr.dense) || *c->lr.named[0].name;
    return separate ? YK_OK : yk_optim_check(&p->group[1].optim);
}

static yk_status check_all(const yk_config *c, const yk_plan *p)
{
    yk_model_description model;
    yk_status st = c->model ? yk_model_parse(c->model, &model) : YK_OK; /* before data is read */
    if (st || (st = check_optimizer(c, p)) || (st = check_groups(c, p)) || (st = check_single(c, p)) ||
        (st = check(c, p)) || (st = check_bounds(c, p)) || (st = check_global_batch(c, p)))
        return st;
    return check_stdin(c, p);
}

yk_status yk_plan_make(const yk_config *c, int processes, int cores, yk_plan *out)
{
    yk_plan_describe(c, processes, cores, out);
    return check_all(c, out);
}

yk_status yk_plan_make_alone(const yk_config *c, int cores, yk_plan *out)
{
    yk_plan_describe(c, 1, cores, out);
    if (servers_of_all(c).job > 0 || c->quorum || c->prefetch > 0)
        return yk_fail(YK_EUSAGE, "--servers, --quorum and --prefetch need several processes: start the job "
                                  "with --launch N, --hosts, mpirun or srun");
    return check_all(c, out);
}
