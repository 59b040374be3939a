#include "train/cluster.h"

#include "base/numa.h"
#include "base/number.h"
#include "store/replicas.h"
#include "store/shards.h"
#include "train/loop.h"
#include "train/setup.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- roles ---- */

/* Checks that the job has as many processes as --launch says. */
static yk_status check_world(const yk__trainer *t)
{
    const yk_config *c = t->config;
    const int ranks = t->cluster.ranks;
    if (c->launch && c->launch != ranks)
        return yk_fail(
            YK_EUSAGE,
            "--launch %lld, but the job has %d process%s; do not combine --launch with mpirun or srun",
            (long long)c->launch, ranks, ranks == 1 ? "" : "es");
    return YK_OK;
}

/* The topology, as this process sees it, and its plan. cores: of each process. */
static yk_status plan_process(yk__trainer *t, int cores)
{
    const yk__cluster *k = &t->cluster;
    const int servers = yk_plan_servers(t->config, k->ranks);
    t->topology = (yk_topology){.processes = k->joined ? 0 : k->ranks,
                                .cores = cores,
                                .rank = k->rank,
                                .own_cores = yk_cores(),
                                .sharing = yk_comm_sharing(k->comm),
                                .bound = t->result->numa_nodes > 0,
                                .servers_here = k->joined ? 0 : yk_comm_ranks_here(k->comm, 0, servers),
                                .clients_here =
                                    k->joined ? 1 : yk_comm_ranks_here(k->comm, servers, k->ranks - servers)};
    return yk__plan(t);
}

/* Becomes an additional worker of a running job. Its ranks have other numbers here; its servers are found by name. */
static yk_status join(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    k->joined = true;
    k->rank = 1; /* not the chief */
    if (t->caller->ranked)
        t->caller->ranked(-1);
    yk_status st = plan_process(t, yk_cores());
    if (!st && !t->plan->joinable)
        return yk_fail(
            YK_EUSAGE,
            "%s cannot be joined: its %s; only asynchronous jobs with dedicated servers (--mode async "
            "--servers K) can be joined",
            t->config->join,
            t->plan->synchronous ? "steps need all of its workers"
                                 : "processes own the parameters that they train");
    return st;
}

static yk_status find_servers(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    yk_status st = YK_OK;
    k->server_peer = yk_alloc((size_t)t->plan->owners, sizeof *k->server_peer, "the servers");
    if (!k->server_peer)
        return YK_ESYSTEM;
    for (int i = 0; !st && i < t->plan->owners; i++) {
        char name[32];
        snprintf(name, sizeof name, "yoke-server-%d", i);
        st = yk_comm_connect(k->comm, name, &k->server_peer[i]);
    }
    return st;
}

void yk__report_stage(const yk__trainer *t, yk_train_stage stage)
{
    if (t->cluster.comm && t->cluster.rank == 0 && t->caller->stage)
        t->caller->stage(stage, t->plan->workers);
}

static void report_alive(void *trainer)
{
    const yk__trainer *t = trainer;
    t->caller->stage(YK_STAGE_ALIVE, 0);
}

/* --workers auto: the cores per process, on the host where there are fewest. */
static yk_status agree_on_cores(yk__trainer *t, int *cores_out)
{
    yk_comm *comm = t->cluster.comm;
    const int own = yk_cores_per_process(yk_comm_local_size(comm));
    *cores_out = own;
    if (t->config->workers != YK_AUTO || t->cluster.ranks == 1)
        return YK_OK;
    int *all = yk_alloc((size_t)t->cluster.ranks, sizeof *all, "the cores of the processes");
    if (!all)
        return YK_ESYSTEM;
    yk_status st =
        yk_comm_gather(comm, &own, sizeof own, all, t->plan->startup_timeout, "the number of cores");
    for (int i = 0; !st && t->cluster.rank == 0 && i < t->cluster.ranks; i++)
        *cores_out = all[i] < *cores_out ? all[i] : *cores_out;
    yk_free(all);
    return st ? st
              : yk_comm_broadcast(comm, cores_out, sizeof *cores_out, t->plan->startup_timeout,
                                  "the number of cores");
}

/* --bind. Before other threads are created, which inherit it. Returns the number of nodes; 0: not bound. */
static int bind_to_nodes(yk__trainer *t)
{
    const char *how = t->config->bind ? t->config->bind : "auto",
               *sys = getenv("YK_SYSFS"); /* set by tests */
    int processes;
    const int process = yk_comm_local_rank(t->cluster.comm, &processes);
    cpu_set_t *allowed = &t->cluster.cores, own;
    yk_numa numa;
    yk_numa_read(sys ? sys : "/sys", &numa);
    if (strcmp(how, "none") == 0 || sched_getaffinity(0, sizeof *allowed, allowed))
        return 0;
    const bool restricted = yk_numa_restrict(&numa, allowed);
    if ((restricted && strcmp(how, "auto") == 0) || !yk_numa_part(&numa, process, processes, &own) ||
        sched_setaffinity(0, sizeof own, &own))
        return 0;
    yk_comm_set_sharing(t->cluster.comm, (processes + numa.nodes - 1) / numa.nodes);
    return numa.nodes;
}

/* Makes a plan before MPI starts: the timeouts are needed, and most errors in the options are found early. The options are not
 * checked if the launcher seems to have started only one process, because there may be more, or if this process joins a job,
 * whose size is unknown. */
static yk_status plan_early(yk__trainer *t, int expected)
{
    const bool known = expected > 1 && !t->config->join;
    t->topology = (yk_topology){.processes = known ? expected : 1, .cores = yk_cores()};
    const yk_status st = yk__plan(t);
    return known ? st : YK_OK;
}

yk_status yk__cluster_start(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    const yk_config *c = t->config;
    const int expected = t->caller->single ? 0 : yk_comm_expected();
    k->ranks = 1;
    if (!expected) {
        t->topology = (yk_topology){.processes = 1, .cores = yk_cores(), .single = true};
        return yk__plan(t);
    }
    yk_status st = plan_early(t, expected);
    if (st)
        return st;
    const yk_startup_config startup = {.limit = t->plan->startup_timeout,
                                       .stop = t->caller->stop,
                                       .alive = t->caller->stage ? report_alive : NULL,
                                       .context = t,
                                       .end_process = t->caller->end_process};
    if (!(st = yk_startup_begin(&startup, &k->startup)))
        st = yk_comm_start(getenv("YK_JOINABLE") || c->join ? YK_COMM_ACCEPTS : YK_COMM_SINGLE, k->startup,
                           t->plan->heartbeat_timeout, &k->comm);
    if (!k->comm)
        return st;
    k->rank = yk_comm_rank(k->comm);
    k->ranks = yk_comm_size(k->comm);
    if (t->caller->ranked)
        t->caller->ranked(k->ranks > 1 ? k->rank : -1);
    if (c->join)
        return st ? st : join(t);
    int cores = 1;
    if (st || (st = check_world(t)) || (st = agree_on_cores(t, &cores)))
        return st;
    if (k->ranks > 1)
        t->result->numa_nodes = bind_to_nodes(t);
    if ((st = plan_process(t, cores)) || k->ranks == 1) /* one process needs no messages */
        return st;
    st = yk_comm_barrier(k->comm, t->plan->startup_timeout, "all processes to start");
    if (!st)
        yk__report_stage(t, YK_STAGE_CONNECTED);
    return st;
}

yk_status yk__cluster_ready(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    yk_status st = k->comm ? yk_comm_ready(k->comm) : YK_OK;
    yk_startup_end(k->startup);
    k->startup = NULL;
    if (!st)
        yk__report_stage(t, YK_STAGE_TRAINING);
    return st;
}

/* ---- stores ---- */

static uint32_t bias_key_of(const yk__trainer *t)
{
    return t->model->sparse ? t->model->bias_key : UINT32_MAX;
}

/* The rates of the biases in one shard of a group. */
static size_t cut_ranges(const yk_local_group *group, size_t begin, size_t end, yk_optim_range *out)
{
    size_t n = 0;
    for (size_t i = 0; i < group->nranges; i++) {
        const yk_optim_range *g = &group->range[i];
        if (g->end <= begin || g->begin >= end)
            continue;
        out[n] = *g;
        out[n].begin = g->begin > begin ? g->begin - begin : 0;
        out[n++].end = (g->end < end ? g->end : end) - begin;
    }
    return n;
}

/* The groups of the model, with the processes that own them. */
static void place_groups(const yk__trainer *t, yk_group *out)
{
    for (int g = 0; g < t->model->ngroups; g++) {
        out[g] = t->model->group[g];
        const bool dedicated = t->plan->group[g].placement == YK_PLACEMENT_SERVERS;
        out[g].first_owner = dedicated ? 0 : t->plan->first_client;
        out[g].owners = dedicated ? t->plan->servers : t->plan->clients;
    }
}

enum { MAX_SHARED = 64 << 20 }; /* bytes per rank; larger gradients are sent during the backward pass */

static yk_status make_replica(yk__trainer *t, const yk_local_config *whole)
{
    yk__cluster *k = &t->cluster;
    yk_local_config own = *whole;
    own.workers = t->plan->workers_per_process;
    yk_status st = yk_exchange_create(k->comm, t->model->nparams, t->plan->heartbeat_timeout,
                                      t->plan->first_step_timeout, &k->exchange);
    const size_t bytes = yk_exchange_shared_memory_bytes(t->model->nparams);
    if (!st && !t->plan->local_steps && bytes <= MAX_SHARED)
        st = yk_shared_memory_create(k->comm, bytes, t->plan->startup_timeout, &k->memory);
    if (!st && k->memory.at) /* all replicas are on one host */
        yk_exchange_use_shared_memory(k->exchange, k->memory.at);
    return st ? st : yk_local_create(&own, &t->local);
}

static yk_status make_client(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    yk_status st = k->joined ? find_servers(t) : YK_OK;
    if (st)
        return st;
    yk_remote_config c = {.comm = k->comm,
                          .peer = k->server_peer,
                          .servers = t->plan->owners,
                          .ngroups = t->model->ngroups,
                          .channels = t->plan->channels,
                          .threads = t->plan->workers_per_process,
                          .rounds = t->plan->lockstep,
                          .driven = t->plan->driven,
                          .bias_key = bias_key_of(t),
                          .timeout = t->plan->server_timeout,
                          .heartbeat_every = t->plan->heartbeat_every,
                          .wait = t->plan->wait,
                          .phases = t->phases,
                          .leave = k->joined ? t->caller->stop : NULL};
    place_groups(t, c.group);
    for (int g = 0; g < c.ngroups; g++) {
        c.arrays[g] = t->plan->local_steps || t->plan->copy_lifetime
                          ? 1 + yk_optim_rule_of(t->group[g].optim.kind)->slots
                          : 1;
    }
    return yk_remote_create(&c, &k->remote);
}

/* A job may be resumed with the chunks of its checkpoint, which may be longer or shorter. */
static uint64_t longest_copy(const yk__trainer *t)
{
    return t->plan->copy_lifetime * (t->plan->staleness == YK_ASYNC ? YK_LONGEST_COPY : 1);
}

static yk_status make_server(yk__trainer *t, const yk_local_config *whole)
{
    yk__cluster *k = &t->cluster;
    yk_local_config part = *whole;
    yk_server_config c = {
        .comm = k->comm,
        .servers = t->plan->owners,
        .first_client = t->plan->first_client,
        .clients = t->plan->clients,
        .threads = t->plan->workers_per_process,
        .serving_threads = t->plan->serving_threads,
        .channels = t->plan->channels,
        .ngroups = t->model->ngroups,
        .staleness = t->plan->staleness,
        .rounds = t->plan->quorum        ? &yk_rounds_first
                  : t->plan->synchronous ? &yk_rounds_all
                                         : &yk_rounds_none,
        .round_size = t->plan->quorum,
        .copy_steps = t->plan->copy_lifetime ? longest_copy(t) : t->plan->local_steps,
        .scaled = t->plan->copy_lifetime > 0,
        .survives_loss = t->plan->survives_loss,
        .timeout = t->plan->worker_timeout,
        .first_timeout = t->plan->first_step_timeout,
        .control_timeout = t->plan->control_timeout,
        .leave_timeout = t->plan->leave_timeout,
        .dead_timeout = t->plan->dead_timeout,
        .heartbeat_every = t->plan->heartbeat_every,
        .staggered = whole->staggered,
        .assignment = k->rank == 0 && t->plan->cursor_kind == YK_CURSOR_LEASE ? &k->assignment : NULL,
        .wait = t->plan->wait,
        .phases = yk__serving_phases(t),
        .streams = k->rank == 0 && t->plan->cursor_kind == YK_CURSOR_STREAM ? &k->streams : NULL};
    yk_status st = k->rank == 0 ? yk_local_create(whole, &k->whole) : YK_OK;
    yk_optim_range *range = k->range;
    place_groups(t, c.group);
    for (int g = 0; !st && g < c.ngroups; g++) {
        size_t begin;
        c.immediate[g] = t->plan->synchronous && t->group[g].staleness > 0;
        part.group[g].shape = yk_server_piece(&c.group[g], k->rank, &begin);
        part.group[g].range = range;
        part.group[g].nranges = cut_ranges(&t->group[g], begin, begin + part.group[g].shape.keys, range);
        range += part.group[g].nranges;
    }
    if (st || (st = yk_local_create(&part, &t->local)))
        return st;
    c.table = t->local;
    if (c.assignment)
        yk_assignment_init(&k->assignment, t->train.examples, t->plan->epochs, t->plan->leased_steps,
                           t->plan->batch, t->plan->workers, t->plan->unit);
    if (c.streams && (st = yk_streams_init(&k->streams, t->plan->workers, t->plan->epochs)))
        return st;
    return yk_server_create(&c, &k->server);
}

yk_status yk__cluster_parameters(yk__trainer *t, const yk_local_config *whole)
{
    if (t->plan->whole)
        return make_replica(t, whole);
    yk_status st = t->plan->serves ? make_server(t, whole) : YK_OK;
    return st || !t->plan->trains ? st : make_client(t);
}

static yk_status prepare_chunks(void *trainer, int me)
{
    const yk__trainer *t = trainer;
    return yk_chunks_prepare(t->cluster.chunks, me, t->plan->workers_per_process);
}

static yk_status make_chunks(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    yk_startup_enter(k->startup, YK_STARTUP_BUSY, "collecting the keys of the examples");
    yk_status st =
        yk_chunks_create(t->train.rows, t->plan->unit, t->plan->owners, t->model->bias_key, &k->chunks);
    if (!st)
        st = yk_team_run(t->team, prepare_chunks, t);
    yk_startup_enter(k->startup, YK_STARTUP_WAITING, "");
    return st;
}

/* With gradients, or with copies: local SGD, or, with a lifetime, copies of linear models. */
static yk_status make_shards(yk__trainer *t, const yk_local_config *whole)
{
    const yk_plan *p = t->plan;
    const bool scaled = p->copy_lifetime > 0;
    yk_shards_config c = {.remote = t->cluster.remote,
                          .team = t->team,
                          .phases = t->phases,
                          .workers = p->workers_per_process,
                          .joint = p->joint,
                          .one_step = p->synchronous,
                          .whole = *whole,
                          .steps = scaled ? p->copy_lifetime : p->local_steps,
                          .scaled = scaled,
                          .bounded = p->staleness != YK_ASYNC,
                          .depth = p->depth,
                          .first_step = p->local_steps ? t->step : 0,
                          .until_due = p->synchronous ? yk__until_due : NULL,
                          .context = &t->schedule};
    yk_status st = YK_OK;
    c.whole.keymap = NULL; /* a sparse copy has its own internal ids */
    c.whole.workers = scaled ? 1 : p->workers_per_process;
    if (scaled)
        c.whole.phases = NULL;
    if (scaled && p->unit && yk_feed_unit(t->feed) == p->unit)
        st = make_chunks(t);
    c.chunks = t->cluster.chunks;
    return st ? st : yk_shards_create(&c, &t->store);
}

static yk_status make_replicas(yk__trainer *t)
{
    const yk_replicas_config c = {.exchange = t->cluster.exchange,
                                  .local = t->local,
                                  .team = t->team,
                                  .phases = t->phases,
                                  .workers = t->plan->workers_per_process,
                                  .steps = t->plan->local_steps,
                                  .first_step = t->step,
                                  .until_due = yk__until_due,
                                  .context = &t->schedule};
    return yk_replicas_create(&c, &t->store);
}

yk_status yk__cluster_store(yk__trainer *t, const yk_local_config *whole)
{
    return t->plan->whole ? make_replicas(t) : make_shards(t, whole);
}

void yk__cluster_free(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    yk_startup_end(k->startup);
    if (t->result->numa_nodes) /* the program that called the library may do something else now */
        sched_setaffinity(0, sizeof k->cores, &k->cores);
    yk_store_free(t->store);
    yk_exchange_free(k->exchange);
    yk_shared_memory_free(&k->memory);
    yk_remote_free(k->remote);
    yk_chunks_free(k->chunks);
    yk_server_free(k->server);
    yk_local_free(k->whole);
    yk_assignment_fini(&k->assignment);
    yk_streams_fini(&k->streams);
    yk_free(k->server_peer);
    t->result->comm = k->comm;
    t->result->clean = !k->rank_lost && !k->no_finalize;
    t->result->chief = k->rank == 0;
    t->result->dispensable = t->plan->trains && !k->joined && t->plan->survives_loss;
}
