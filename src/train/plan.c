#include "train/plan_internal.h"

#include <math.h>
#include <string.h>

const char *const yk_placement_name[] = {"local", "replicas", "servers", "shards"};

/* ---- groups ---- */

uint64_t yk__plan_bound(const yk_config *c, const char *group, bool keyed)
{
    const double given = yk_by_group_of(&c->staleness, group, keyed, -1.0);
    if (given >= 0.0)
        return (uint64_t)given;
    return c->mode && strcmp(c->mode, "async") == 0 ? YK_ASYNC : 0;
}

/* All workers take the same steps if a group is synchronous. */
static uint64_t smallest_bound(const yk_config *c)
{
    const uint64_t dense = yk__plan_bound(c, "", false), keyed = yk__plan_bound(c, "", true);
    uint64_t min = keyed < dense ? keyed : dense;
    for (int i = YK_GROUP_NAMED; i < YK_GROUP_PARTS; i++) {
        const uint64_t own = yk__plan_bound(c, c->staleness.part[i].name, true);
        min = own < min ? own : min;
    }
    return min;
}

/* With a sum of 0, the first steps of an embedding vector are as long as lr allows, whatever its gradient is
 * (docs/convergence.md). */
static double initial_accumulator(const yk_config *c, bool vectors, yk_optim_kind kind)
{
    const double given = c->initial_accumulator, initial = given >= 0.0 ? given : vectors ? 1e-4 : 0.0;
    return yk_optim_rule_of(kind)->accumulates ? initial : 0.0;
}

/* The model has a learning rate for its own optimizer; each other optimizer has its own. */
static double default_lr(const yk__plan_input *in, int g, bool keyed)
{
    const yk_group *group = &in->model->group[g];
    const yk_optim_kind kind = yk_config_optimizer(in->c, in->model->optimizer, group->name, keyed),
                        own = yk_config_optimizer(&(yk_config){0}, in->model->optimizer, group->name, keyed);
    return kind == own ? in->model->lr[g] : yk_optim_rule_of(kind)->lr;
}

static yk_optim_config optimizer_of(const yk__plan_input *in, const yk_group *group, bool keyed, double usual)
{
    const yk_config *c = in->c;
    const yk_optim_kind kind = yk_config_optimizer(c, in->model->optimizer, group->name, keyed);
    yk_optim_config o = yk_optim_defaults(kind);
    const double lr = yk_by_group_of(&c->lr, group->name, keyed, usual);
    o.lr = lr == YK_ALL ? usual : lr; /* before the search, the default */
    o.l1 = c->l1;
    o.l2 = c->l2;
    o.momentum = c->momentum >= 0.0 ? c->momentum : o.momentum;
    o.initial = initial_accumulator(c, keyed && group->width > 1, kind);
    o.earlier = in->data->earlier;
    o.first = in->data->continues ? o.earlier : 0;
    (void)yk_config_betas(c, &o.beta1, &o.beta2);
    o.epsilon = c->epsilon >= 0.0 ? c->epsilon : o.epsilon;
    o.lr_decay_every = (uint64_t)c->lr_decay_every;
    o.schedule = (yk_lr_schedule)yk_by_group_of(&c->lr_schedule, group->name, keyed, YK_LR_CONSTANT);
    o.lr_decay = yk_by_group_of(&c->lr_decay, group->name, keyed, yk_lr_schedules[o.schedule].decay);
    o.warm_up = (uint64_t)yk_by_group_of(&c->warm_up, group->name, keyed, 0.0);
    return o;
}

static void set_groups(const yk__plan_input *in, yk_plan *p)
{
    p->ngroups = in->model->ngroups;
    for (int g = 0; g < p->ngroups; g++) {
        const yk_group *group = &in->model->group[g];
        const bool keyed = yk__plan_is_keyed(in, g);
        const double lr = default_lr(in, g, keyed),
                     servers = yk_by_group_of(&in->c->servers, group->name, keyed, -1.0);
        const bool replicated = p->replicates && servers == 0.0;
        p->group[g] = (yk_group_plan){.optim = optimizer_of(in, group, keyed, lr),
                                      .default_lr = lr,
                                      .staleness = yk__plan_bound(in->c, group->name, keyed),
                                      .placement = replicated ? YK_PLACEMENT_REPLICAS : p->placement};
    }
}

/* ---- processes and threads ---- */

yk__servers yk__plan_servers_of(const yk_config *c)
{
    int zeros = 0;
    yk__servers s = {.job = -1};
    for (int i = YK_GROUP_KEYED; i < YK_GROUP_PARTS; i++) {
        const double k = yk_by_group_of(&c->servers, i >= YK_GROUP_NAMED ? c->servers.part[i].name : "",
                                        i == YK_GROUP_KEYED, -1.0);
        zeros += k == 0.0;
        if (k == 0.0 || k == -1.0)
            continue;
        s.differ |= s.job != -1 && s.job != (int)k;
        s.job = (int)k;
    }
    s.replicates = zeros && s.job != -1;
    s.job = zeros && s.job == -1 ? 0 : s.job;
    return s;
}

int yk_plan_servers(const yk_config *c, int processes)
{
    const int servers = yk__plan_servers_of(c).job;
    return processes != 1 && servers > 0 ? servers : 0;
}

/* The placement of all groups; if only some are replicated, of the others. Synchronous training of dense models uses replicas.
 * Otherwise every process owns a shard: a step needs only some of the keyed parameters, and the results are the same. */
static yk_placement placement_of(const yk__plan_input *in, const yk_plan *p)
{
    if (p->processes == 1)
        return YK_PLACEMENT_LOCAL;
    if (p->servers)
        return YK_PLACEMENT_SERVERS;
    return yk__plan_servers_of(in->c).job != YK_ALL && p->lockstep && !in->sparse ? YK_PLACEMENT_REPLICAS
                                                                                  : YK_PLACEMENT_SHARDS;
}

/* Whether the workers of a process become threads of one worker. The steps are the same, but a network computes 16 examples
 * at a time, so that workers with 4 examples each would waste three quarters of their time. */
static bool shares_batch(const yk__plan_input *in, const yk_plan *p)
{
    return in->c->global_batch && !in->c->batch && p->lockstep && in->model->uses_threads;
}

static void set_workers(const yk__plan_input *in, yk_plan *p)
{
    const yk_config *c = in->c;
    const int cores = in->job->cores, own = in->job->own_cores ? in->job->own_cores : cores;
    p->workers_per_process = c->workers != YK_AUTO     ? (int)c->workers
                             : cores > (int)c->threads ? cores / (int)c->threads
                                                       : 1;
    if (shares_batch(in, p)) {
        p->threads *= p->workers_per_process;
        p->workers_per_process = 1;
    }
    p->usable_threads = p->threads < own ? p->threads : own;
    p->workers = p->workers_per_process * (p->processes > p->servers ? p->processes - p->servers : 1);
}

enum { MAX_SERVING_THREADS = 16 };

/* A dedicated server uses the cores of its host that the workers there leave free, shared with the other servers there. */
static int serving_threads_of(const yk_plan *p, const yk_topology *job)
{
    if (p->trains)
        return 1;
    const int busy = job->clients_here * p->workers_per_process * p->threads;
    const int n = job->bound              ? job->own_cores / job->sharing
                  : job->servers_here > 0 ? (job->own_cores - busy) / job->servers_here
                                          : 1;
    return n < 1 ? 1 : n > MAX_SERVING_THREADS ? MAX_SERVING_THREADS : n;
}

/* If the threads of an asynchronous job share cores, waiting threads soon sleep, so that the others can compute and send what
 * the waiting ones need. Synchronous steps are often shorter than such a sleep. Replicas wait for each other in shared memory. */
static yk_wait_kind wait_of(const yk_plan *p, const yk_topology *job)
{
    if (p->whole)
        return job->sharing <= job->own_cores ? YK_WAIT_MEMORY : YK_WAIT_RANKS;
    const int own = p->workers_per_process * p->threads + p->has_progress_thread;
    const bool shared = own * job->sharing > job->own_cores;
    return shared && !p->synchronous ? YK_WAIT_OVERSUBSCRIBED : YK_WAIT_RANKS;
}

static void set_process(const yk_topology *job, yk_plan *p)
{
    /* if only some groups are on dedicated servers, the processes that train own the others */
    p->owners = p->placement == YK_PLACEMENT_SHARDS || p->replicates ? p->processes : p->servers;
    p->alone = p->processes == 1;
    p->trains = !p->processes || job->rank >= p->servers;
    p->serves = p->processes && job->rank < p->owners;
    p->whole = p->alone || p->placement == YK_PLACEMENT_REPLICAS;
    p->leases = !p->whole && !p->lockstep;
    p->first_client = p->servers;
    p->clients = p->processes ? p->processes - p->servers : 1;
    p->first_worker = p->processes && p->trains ? (job->rank - p->first_client) * p->workers_per_process : 0;
    p->has_progress_thread = p->trains && (p->serves || (!p->whole && p->workers_per_process > 1));
    p->wait = p->alone ? YK_WAIT_THREADS : wait_of(p, job);
    p->serving_threads = serving_threads_of(p, job);
}

/* ---- steps ---- */

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
    p->leased_steps = !p->synchronous && p->gradients_per_step == 1 ? p->steps : UINT64_MAX;
}

/* Copies of keyed parameters (store/shards.h) are used long enough that a message has many keys, but within the bound. */
static uint64_t copy_lifetime_of(const yk_plan *p)
{
    const uint64_t long_enough = YK_COPY_EXAMPLES / p->batch > 1 ? YK_COPY_EXAMPLES / p->batch : 1,
                   bound = p->staleness / (uint64_t)p->depth;
    return bound < 1 ? 1 : bound < long_enough ? bound : long_enough;
}

/* Workers train on copies of the parameters of a linear model, because an exchange per batch would take longer than the batch.
 * A copy is old at its end anyway, so the next one is prefetched. Gradients of all other models go to the owners of the
 * parameters: there, staleness costs more than waiting, and nothing is prefetched. */
static void set_copies(const yk__plan_input *in, yk_plan *p)
{
    const yk_config *c = in->c;
    const bool shards = p->placement == YK_PLACEMENT_SHARDS || p->placement == YK_PLACEMENT_SERVERS,
               copies = shards && !p->synchronous && !p->local_steps && in->sparse && in->model->linear,
               prefetches = copies && p->staleness > 1;
    p->depth = 1 + (c->prefetch != YK_AUTO ? (int)c->prefetch : prefetches);
    if (copies)
        p->copy_lifetime = copy_lifetime_of(p);
    if (p->eval_every && p->eval_every < p->copy_lifetime) /* a push must not skip an evaluation */
        p->copy_lifetime = p->eval_every;
}

/* The gradients of the workers of a process are added, unless each needs other keys. */
static bool sums_workers(const yk__plan_input *in, const yk_plan *p)
{
    bool dense = false;
    for (int g = 0; g < in->model->ngroups; g++)
        dense |= !yk__plan_is_keyed(in, g);
    return p->synchronous || p->local_steps || dense;
}

/* A process that shares a core with many others runs rarely, and may be late without being lost. */
static void set_timeouts(const yk_config *c, const yk_topology *job, yk_plan *p)
{
    static const double usual = 8.0; /* processes per core */
    const double crowd = job->own_cores ? job->sharing / (usual * job->own_cores) : 1.0,
                 deadline = c->deadline * fmax(1.0, crowd);
    p->heartbeat_timeout = deadline;
    /* a false alarm costs less if the job survives it */
    p->worker_timeout = p->survives_loss && !p->synchronous ? deadline / 2.0 : deadline;
    p->server_timeout = deadline + 1.0;
    p->heartbeat_every = deadline / 8.0;
    p->startup_timeout = fmax(60.0, 8.0 * deadline);
    p->first_step_timeout = 2.0 * p->startup_timeout;
    p->report_timeout = fmax(30.0, 4.0 * deadline);
    p->end_timeout = 2.0 * p->report_timeout;
    p->barrier_timeout = 2.0 * p->first_step_timeout;
    p->control_timeout = 2.0 * p->worker_timeout + 5.0;
    p->leave_timeout = fmax(1.0, deadline / 8.0);
    p->dead_timeout = fmin(0.5, deadline / 16.0);
    p->team_timeout = fmax(600.0, 75.0 * deadline);
}

/* ---- the data ---- */

/* The examples of a chunk, which are those of a copy (store/shards.h). A longer copy has fewer keys per example, so less is
 * sent and served: chunks of 8,192 examples trained 1.5 times as fast as those of 2,048. But copies are short at first
 * (shards.h), so a chunk is only made longer if a worker trains on at least 500 of them. This is done only without a
 * staleness bound, and only for sgd: with adagrad, longer copies increased the loss more. 0: there are too few examples for
 * chunks. */
static uint64_t chunk_rows_of(const yk_plan *p, double examples)
{
    enum { PER_EPOCH = 8, IN_ALL = 500 };
    const double workers = (double)p->workers,
                 steps = p->steps == UINT64_MAX ? HUGE_VAL : (double)p->steps * (double)p->batch,
                 all = fmin(steps, p->epochs == UINT64_MAX ? HUGE_VAL : examples * (double)p->epochs);
    uint64_t chunk_rows = p->copy_lifetime * p->batch;
    if (examples < PER_EPOCH * workers * (double)chunk_rows)
        return 0;
    if (p->staleness != YK_ASYNC || !yk_optim_rule_of(p->group[0].optim.kind)->plain)
        return chunk_rows;
    for (int longer = 2; longer <= YK_LONGEST_COPY; longer *= 2)
        if (examples >= 2 * PER_EPOCH * workers * (double)chunk_rows &&
            all >= 2 * IN_ALL * workers * (double)chunk_rows &&
            (!p->eval_every ||
             2 * chunk_rows <= p->eval_every * p->batch)) /* a push must not skip an evaluation */
            chunk_rows *= 2;
    return chunk_rows;
}

/* The rows of a chunk, and the lifetime of copies, which follows from it. */
static void set_chunk_rows(yk_plan *p, uint64_t chunk_rows)
{
    p->chunk_rows = chunk_rows;
    if (chunk_rows)
        p->copy_lifetime = (chunk_rows + p->batch - 1) / p->batch;
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
uint64_t yk_plan_epoch_steps(const yk_plan *p, uint64_t examples)
{
    const uint64_t per_step = p->batch * p->gradients_per_step;
    return p->quorum ? 0 : (examples + per_step - 1) / per_step;
}

/* Asynchronous steps are counted over all workers. */
double yk_plan_steps_each(const yk_plan *p, uint64_t steps)
{
    return (double)steps / (p->synchronous ? 1 : p->workers);
}

/* Asynchronous, without --eval-every: once per epoch. The steps of a round of local SGD arrive together, so a round that is
 * longer than an epoch would skip evaluations. The interval is then several epochs. */
static uint64_t eval_interval(const yk_plan *p)
{
    const uint64_t one = p->steps_per_epoch, epochs = one ? (p->local_steps + one - 1) / one : 0;
    return epochs > 1 ? epochs * one : one;
}

/* Not for sparse linear models in one process, whose threads train on copies of the hot keys. With a bound, workers
 * that begin early would wait for the others; and networks diverge if sums of gradients, which are large steps, do not warm up. */
static void set_stale_rules(const yk__plan_input *in, yk_plan *p)
{
    const bool hot_keys = p->alone && in->model->linear && in->sparse;
    p->max_warm_up = p->run_steps / 2;
    p->stale_gradients = p->staleness && p->workers > 1 && !p->copy_lifetime && !p->local_steps && !hot_keys;
    p->stale_rules = !hot_keys;
    const bool sums = !p->alone && p->sums_workers && p->workers_per_process > 1;
    p->staggered = p->stale_gradients && p->stale_rules && (in->sparse || !sums) &&
                   (p->alone || p->cursor_kind == YK_CURSOR_LEASE);
    for (int g = 0; g < p->ngroups; g++)
        p->staggered &= p->group[g].staleness == YK_ASYNC;
}

/* UINT64_MAX: not known. */
static uint64_t run_steps(const yk_plan *p)
{
    const uint64_t epoch = p->steps_per_epoch,
                   all = epoch && p->epochs <= UINT64_MAX / epoch ? p->epochs * epoch : UINT64_MAX;
    return all < p->steps ? all : p->steps;
}

/* What of the schedule of a group follows from the length of an epoch and of the run, and from the batch. */
static void set_schedule(const yk__plan_input *in, yk_plan *p, int group)
{
    const yk_config *c = in->c;
    const bool keyed = yk__plan_is_keyed(in, group);
    const double epoch = (double)p->steps_per_epoch,
                 warm_up = yk_by_group_of(&c->warm_up_epochs, in->model->group[group].name, keyed, 0.0);
    yk_optim_config *o = &p->group[group].optim;
    if (c->lr_decay_epochs > 0.0)
        o->lr_decay_every = (uint64_t)fmax(1.0, floor(c->lr_decay_epochs * epoch + 0.5));
    if (warm_up > 0.0)
        o->warm_up = (uint64_t)fmax(1.0, floor(warm_up * epoch + 0.5));
    if (c->lr_batch)
        o->lr *= (double)(p->batch * p->gradients_per_step) / (double)c->lr_batch;
    o->length = p->run_steps == UINT64_MAX ? 0 : p->run_steps;
    p->monitors |= yk_lr_schedules[o->schedule].monitors;
}

static void set_data(const yk__plan_input *in, yk_plan *p)
{
    const yk_data_facts *d = in->data;
    p->cursor_kind = d->streamed ? YK_CURSOR_STREAM : p->lockstep ? YK_CURSOR_LOCKSTEP : YK_CURSOR_LEASE;
    if (p->copy_lifetime && p->cursor_kind == YK_CURSOR_STREAM && p->steps != UINT64_MAX)
        p->copy_lifetime = limit_copies(p);
    if (p->copy_lifetime && p->cursor_kind == YK_CURSOR_LEASE && !d->ordered)
        set_chunk_rows(p, chunk_rows_of(p, (double)d->examples));
    if (d->resumed)
        set_chunk_rows(p, d->chunk_rows);
    p->steps_per_epoch = yk_plan_epoch_steps(p, d->examples);
    p->run_steps = run_steps(p);
    if (!p->synchronous && !p->eval_every) {
        p->eval_every = eval_interval(p);
        p->skipped_eval = p->run_steps; /* each worker may have a smaller last batch */
    }
    for (int g = 0; g < p->ngroups; g++)
        set_schedule(in, p, g);
    set_stale_rules(in, p);
}

yk_status yk_plan_make(const yk_config *c, const yk_model_description *model, const yk_data_facts *data,
                       const yk_topology *job, yk_plan *out)
{
    const bool known = data->opened || model->input != YK_INPUT_BOTH;
    const yk__plan_input in = {.c = c,
                               .model = model,
                               .data = data,
                               .job = job,
                               .certain = known && model->ngroups,
                               .sparse = model->input == YK_INPUT_SPARSE ||
                                         (model->input == YK_INPUT_BOTH && (data->sparse || !data->opened))};
    const int processes = job->processes;
    yk_plan p = {.staleness = smallest_bound(c),
                 .quorum = (int)c->quorum,
                 .clip_norm = c->clip_norm,
                 .local_steps = processes == 1 ? 0 : (uint64_t)c->local_steps, /* nothing to average */
                 .processes = processes,
                 .servers = yk_plan_servers(c, processes),
                 .threads = (int)c->threads,
                 .steps = c->steps ? (uint64_t)c->steps : UINT64_MAX,
                 .epochs = c->epochs  ? (uint64_t)c->epochs
                           : c->steps ? UINT64_MAX
                                      : 1,
                 .log_every = (uint64_t)c->log_every,
                 .eval_every = (uint64_t)c->eval_every,
                 .checkpoint_every = (uint64_t)c->checkpoint_every};
    p.synchronous = p.staleness == 0;
    p.mode = p.synchronous ? "sync" : "async";
    p.lockstep = p.synchronous && !p.quorum;
    p.placement = placement_of(&in, &p);
    p.replicates = processes != 1 && yk__plan_servers_of(c).replicates;
    p.survives_loss = !p.lockstep && p.placement == YK_PLACEMENT_SERVERS;
    p.joinable = !p.synchronous && p.placement == YK_PLACEMENT_SERVERS;
    set_groups(&in, &p);
    set_workers(&in, &p);
    set_batch(c, &p);
    set_copies(&in, &p);
    p.sums_workers = sums_workers(&in, &p);
    p.channels = p.sums_workers ? 1 : p.workers_per_process;
    set_timeouts(c, job, &p);
    set_process(job, &p);
    set_data(&in, &p);
    *out = p;
    return yk__plan_check(&in, out);
}

yk_status yk_plan_options(const yk_config *c, const yk_topology *job, yk_plan *out)
{
    yk_model_description model = {.optimizer = "sgd"};
    yk_status st = c->model ? yk_model_parse(c->model, &model) : YK_OK;
    const yk_status conflict = yk_plan_make(c, &model, &(yk_data_facts){0}, job, out);
    if (st) /* its message was replaced, if the options conflict, too */
        return yk_model_parse(c->model, &model);
    return conflict;
}
