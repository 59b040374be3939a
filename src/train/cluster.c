#include "train/cluster.h"

#include "base/clock.h"
#include "base/log.h"
#include "store/copies.h"
#include "store/local_sgd.h"
#include "store/replicas.h"
#include "store/shards.h"
#include "train/trainer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- roles ---- */

/* What a launcher's option promised. */
static yk_status check_world(const yk__trainer *t)
{
    const yk_config *c = t->config;
    const int ranks = t->cluster.ranks;
    if (c->launch && c->launch != ranks)
        return yk_fail(YK_EUSAGE, "--launch %lld, but there %s %d process%s: was it started twice?",
                       (long long)c->launch, ranks == 1 ? "is" : "are", ranks, ranks == 1 ? "" : "es");
    if (ranks == 1 && (c->servers > 0 || c->quorum > 1))
        return yk_fail(YK_EUSAGE,
                       "--servers and --quorum need several processes; this one is alone: start it with "
                       "--launch N, mpirun or srun");
    return YK_OK;
}

/* One more worker of a job that runs: its ranks are not ours, its servers are found by name. */
static yk_status join(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    k->joined = true;
    k->rank = 1; /* not the chief */
    k->role = YK__WORKER;
    k->cursor_kind = 2;
    if (t->host->ranked)
        t->host->ranked(-1);
    yk_status st = yk_plan_make(t->config, 0, &t->result->plan);
    k->servers = k->first = t->plan->servers;
    k->clients = 1;
    k->driven = t->plan->workers_per_process > 1;
    if (!st && !t->plan->joinable)
        return yk_fail(YK_EUSAGE,
                       "%s cannot be joined: its %s; asynchronous jobs with dedicated servers (--mode async "
                       "--servers K) can",
                       t->config->join,
                       t->plan->synchronous ? "steps need all of its workers"
                                            : "processes own the parameters that they train");
    return st;
}

static yk_status find_servers(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    yk_status st = YK_OK;
    k->server_peer = yk_alloc((size_t)k->servers, sizeof *k->server_peer, "the servers");
    if (!k->server_peer)
        return YK_ESYSTEM;
    for (int i = 0; !st && i < k->servers; i++) {
        char name[32];
        snprintf(name, sizeof name, "yoke-server-%d", i);
        st = yk_comm_connect(k->comm, name, &k->server_peer[i]);
    }
    return st;
}

void yk__stage(const yk__trainer *t, yk_train_stage stage)
{
    if (t->cluster.comm && t->cluster.rank == 0 && t->host->stage)
        t->host->stage(stage, t->plan->workers);
}

static void alive(void *trainer)
{
    const yk__trainer *t = trainer;
    t->host->stage(YK_STAGE_ALIVE, 0);
}

static yk_status begin_startup(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    const yk_startup_config config = {.limit = t->plan->start_limit,
                                      .stop = t->stop,
                                      .alive = t->host->stage ? alive : NULL,
                                      .context = t,
                                      .end_process = t->host->end_process};
    return yk_startup_begin(&config, &k->startup);
}

static void set_role(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    const yk_plan *p = t->plan;
    const bool all = p->placement == YK_PLACEMENT_SHARDS;
    k->servers = all ? k->ranks : p->servers;
    k->first = p->servers;
    k->clients = k->ranks - p->servers;
    k->role = all                                     ? YK__SHARD
              : p->placement == YK_PLACEMENT_REPLICAS ? YK__REPLICA
              : k->rank < k->servers                  ? YK__SERVER
                                                      : YK__WORKER;
    k->driven = all || (k->role == YK__WORKER && p->workers_per_process > 1);
    k->first_worker = k->role == YK__SERVER ? 0 : (k->rank - k->first) * p->workers_per_process;
}

yk_status yk__cluster_start(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    const yk_config *c = t->config;
    k->ranks = 1;
    yk_status st = yk_plan_make(c, 1, &t->result->plan);
    if (st)
        return st;
    if (t->host->single || yk_comm_expected() == 0) {
        if (c->servers > 0 || c->quorum || c->local_steps)
            return yk_fail(YK_EUSAGE,
                           "--servers, --quorum and --local-steps are for several processes: start them with "
                           "--launch N, --hosts, mpirun or srun");
        return YK_OK;
    }
    if (!(st = begin_startup(t)))
        st = yk_comm_start(getenv("YK_JOINABLE") || c->join ? YK_COMM_ACCEPTS : YK_COMM_SINGLE, k->startup,
                           &k->comm);
    if (!k->comm)
        return st;
    k->rank = yk_comm_rank(k->comm);
    k->ranks = yk_comm_size(k->comm);
    if (t->host->ranked)
        t->host->ranked(k->ranks > 1 ? k->rank : -1);
    if (c->join)
        return st ? st : join(t);
    if (st || (st = check_world(t)) || (st = yk_plan_make(c, k->ranks, &t->result->plan)))
        return st;
    if (k->ranks == 1) /* a world of one needs no messages */
        return YK_OK;
    set_role(t);
    st = yk_comm_barrier(k->comm, t->plan->start_limit, "all processes to start");
    if (!st)
        yk__stage(t, YK_STAGE_BEGUN);
    return st;
}

yk_status yk__cluster_ready(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    yk_status st = k->comm ? yk_comm_ready(k->comm) : YK_OK;
    yk_startup_end(k->startup);
    k->startup = NULL;
    if (!st)
        yk__stage(t, YK_STAGE_TRAINING);
    return st;
}

/* ---- stores ---- */

/* The biases' rates that fall into a server's piece. */
static size_t cut_ranges(const yk__trainer *t, size_t begin, size_t end, yk_optim_range *out)
{
    size_t n = 0;
    for (size_t i = 0; i < t->nranges; i++) {
        const yk_optim_range *g = &t->range[i];
        if (g->end <= begin || g->begin >= end)
            continue;
        out[n] = *g;
        out[n].begin = g->begin > begin ? g->begin - begin : 0;
        out[n++].end = (g->end < end ? g->end : end) - begin;
    }
    return n;
}

enum { MOST_SHARED = 64 << 20 }; /* bytes of a rank: what is larger is sent while the rest is computed */

/* Replicas on one machine exchange gradients in memory. */
static yk_status share_memory(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    const size_t bytes = yk_exchange_near_bytes(t->model->nparams);
    if (k->ranks == 1 || t->model->sparse || t->plan->local_steps || bytes > MOST_SHARED)
        return YK_OK;
    yk_status st = yk_memory_create(k->comm, bytes, t->plan->start_limit, &k->memory);
    if (!st && k->memory.at)
        yk_exchange_near(k->exchange, k->memory.at);
    return st;
}

/* What all kinds of local SGD have in common. */
static yk_local_sgd_config local_sgd_of(yk__trainer *t)
{
    return (yk_local_sgd_config){.team = t->team,
                                 .phases = t->phases,
                                 .workers = t->plan->workers_per_process,
                                 .steps = t->plan->local_steps,
                                 .first_step = t->step,
                                 .synchronous = t->plan->synchronous,
                                 .lockstep = t->plan->lockstep,
                                 .bias_key = t->model->sparse ? t->model->bias_key : UINT32_MAX,
                                 .until_due = yk__until_due,
                                 .context = t};
}

static yk_status make_replica(yk__trainer *t, const yk_local_config *whole)
{
    yk__cluster *k = &t->cluster;
    yk_local_config own = *whole;
    own.workers = t->plan->workers_per_process;
    yk_status st = yk_exchange_create(k->comm, t->model->group, t->model->ngroups, &k->exchange);
    if (!st)
        st = share_memory(t);
    return st ? st : yk_local_create(&own, &t->local);
}

static yk_status make_client(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    const bool together = t->plan->synchronous || t->plan->local_steps;
    yk_status st = k->joined ? find_servers(t) : YK_OK;
    if (st)
        return st;
    yk_remote_config c = {.comm = k->comm,
                          .peer = k->server_peer,
                          .servers = k->servers,
                          .ngroups = t->model->ngroups,
                          .lanes = together ? 1 : t->plan->workers_per_process,
                          .threads = t->plan->workers_per_process,
                          .lockstep = t->plan->lockstep,
                          .driven = k->driven,
                          .bias_key = t->model->sparse ? t->model->bias_key : UINT32_MAX,
                          .timeout = t->plan->server_timeout,
                          .alive = t->plan->heartbeat_every,
                          .phases = t->phases,
                          .leave = k->joined ? t->stop : NULL};
    for (int g = 0; g < c.ngroups; g++) {
        c.group[g] = t->model->group[g];
        c.arrays[g] =
            t->plan->local_steps || t->plan->copy_lifetime ? 1 + yk_optim_rule_of(t->optim.kind)->slots : 1;
    }
    return yk_remote_create(&c, &k->remote);
}

static yk_status make_server(yk__trainer *t, const yk_local_config *whole)
{
    yk__cluster *k = &t->cluster;
    yk_local_config part = *whole;
    yk_server_config c = {
        .comm = k->comm,
        .servers = k->servers,
        .first_client = k->first,
        .clients = k->clients,
        .threads = t->plan->workers_per_process,
        .lanes = t->plan->synchronous || t->plan->local_steps ? 1 : t->plan->workers_per_process,
        .ngroups = t->model->ngroups,
        .staleness = t->plan->staleness,
        .quorum = t->plan->quorum,
        .local_steps = t->plan->copy_lifetime ? t->plan->copy_lifetime : t->plan->local_steps,
        .scaled = t->plan->copy_lifetime > 0,
        .synchronous = t->plan->synchronous,
        .survives_loss = t->plan->survives_loss,
        .timeout = t->plan->worker_timeout,
        .first_timeout = t->plan->first_step_timeout,
        .assignment = k->rank == 0 && k->cursor_kind == 2 ? &k->assignment : NULL};
    yk_status st = k->rank == 0 ? yk_local_create(whole, &k->whole) : YK_OK;
    for (int g = 0; !st && g < c.ngroups; g++) {
        size_t begin;
        c.group[g] = t->model->group[g];
        part.group[g].shape = yk_server_piece(&c.group[g], k->rank, k->servers, &begin);
        part.group[g].range = k->range;
        part.group[g].nranges =
            c.group[g].keyed ? 0 : cut_ranges(t, begin, begin + part.group[g].shape.keys, k->range);
    }
    if (st || (st = yk_local_create(&part, &t->local)))
        return st;
    c.table = t->local;
    if (c.assignment)
        yk_assignment_init(&k->assignment, t->train.examples, t->plan->epochs,
                           t->plan->synchronous ? UINT64_MAX : t->plan->steps, t->plan->batch,
                           t->plan->workers, t->unit); /* synchronous: a step is more than one batch */
    return yk_server_create(&c, &k->server);
}

yk_status yk__cluster_stores(yk__trainer *t, const yk_local_config *whole)
{
    yk__cluster *k = &t->cluster;
    if (k->role == YK__REPLICA)
        return make_replica(t, whole);
    yk_status st = yk__serves(k->role) ? make_server(t, whole) : YK_OK;
    return st || k->role == YK__SERVER ? st : make_client(t);
}

static yk_status make_shards(yk__trainer *t)
{
    yk_shards_config c = {.remote = t->cluster.remote,
                          .team = t->team,
                          .phases = t->phases,
                          .workers = t->plan->workers_per_process,
                          .together = t->plan->synchronous,
                          .lockstep = t->plan->lockstep,
                          .depth = t->plan->synchronous || !t->model->sparse ? 1 : 2,
                          .ngroups = t->model->ngroups};
    memcpy(c.group, t->model->group, sizeof c.group);
    return yk_shards_create(&c, &t->store);
}

static yk_status prepare_chunks(void *trainer, int me)
{
    const yk__trainer *t = trainer;
    return yk_chunks_prepare(t->cluster.chunks, me, t->plan->workers_per_process);
}

static yk_status make_chunks(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    yk_startup_enter(k->startup, YK_STARTUP_BUSY, "finding the keys of the examples");
    yk_status st = yk_chunks_create(t->train.rows, t->unit, k->servers, t->model->bias_key, &k->chunks);
    if (!st)
        st = yk_team_run(t->team, prepare_chunks, t);
    yk_startup_enter(k->startup, YK_STARTUP_WAITING, "");
    return st;
}

static yk_status make_copies(yk__trainer *t, const yk_local_config *copy)
{
    yk_copies_config c = {.remote = t->cluster.remote,
                          .phases = t->phases,
                          .workers = t->plan->workers_per_process,
                          .all_workers = t->plan->workers,
                          .lifetime = t->plan->copy_lifetime,
                          .depth = t->plan->copies,
                          .copy = *copy};
    c.copy.workers = 1;
    c.copy.phases = NULL;
    yk_status st = YK_OK;
    if (t->unit && yk_feed_unit(t->feed) == t->unit)
        st = make_chunks(t);
    c.chunks = t->cluster.chunks;
    return st ? st : yk_copies_create(&c, &t->store);
}

yk_status yk__cluster_store(yk__trainer *t, const yk_local_config *whole)
{
    yk__cluster *k = &t->cluster;
    yk_local_sgd_config sgd = local_sgd_of(t);
    if (k->role == YK__REPLICA && !t->plan->local_steps) {
        const yk_replicas_config c = {.exchange = k->exchange,
                                      .local = t->local,
                                      .team = t->team,
                                      .phases = t->phases,
                                      .workers = t->plan->workers_per_process,
                                      .heartbeat_timeout = t->plan->heartbeat_timeout};
        return yk_replicas_create(&c, &t->store);
    }
    sgd.exchange = k->exchange;
    sgd.local = t->local;
    sgd.heartbeat_timeout = t->plan->heartbeat_timeout;
    sgd.remote = k->remote;
    sgd.copy = *whole;
    sgd.copy.keymap = NULL; /* a sparse copy has numbers of its own */
    sgd.copy.workers = t->plan->workers_per_process;
    if (t->plan->copy_lifetime)
        return make_copies(t, &sgd.copy);
    return t->plan->local_steps ? yk_local_sgd_create(&sgd, &t->store) : make_shards(t);
}

/* ---- going on ---- */

typedef struct {
    uint64_t found, step, epoch, examples, period_examples, ncursor;
    double period_loss, seconds;
} progress;

/* The arrays of the chief's replica, to all. */
static yk_status share_parameters(yk__trainer *t, uint64_t step)
{
    yk_comm *comm = t->cluster.comm;
    yk_status st = YK_OK;
    for (int g = 0; !st && g < t->model->ngroups; g++) {
        const yk_local_state s = yk_local_raw(t->local, g);
        const size_t bytes = yk_group_floats(&t->model->group[g]) * sizeof(float);
        st = yk_comm_broadcast(comm, s.live.w, bytes, t->plan->start_limit, "the checkpoint");
        for (int i = 0; !st && i < yk_local_rule(t->local, g)->slots; i++)
            st = yk_comm_broadcast(comm, s.live.s[i], bytes, t->plan->start_limit, "the checkpoint");
        if (!st && s.touched)
            st = yk_comm_broadcast(comm, s.touched, bytes, t->plan->start_limit, "the checkpoint");
    }
    if (!st)
        yk_local_restore(t->local, step);
    return st;
}

/* The chief has found a checkpoint and put it into `store` (NULL: none); all get what they need of it. */
yk_status yk__cluster_restore(yk__trainer *t, yk_local *store, yk_progress_state *p)
{
    yk__cluster *k = &t->cluster;
    if (k->joined)
        return YK_OK;
    progress all = {store != NULL,      p->step,    p->epoch,       p->examples,
                    p->period_examples, p->ncursor, p->period_loss, p->seconds};
    yk_status st = yk_comm_broadcast(k->comm, &all, sizeof all, t->plan->start_limit, "the checkpoint");
    if (st)
        return st;
    if (k->rank != 0)
        *p = (yk_progress_state){.step = all.step,
                                 .epoch = all.epoch,
                                 .examples = all.examples,
                                 .period_loss = all.period_loss,
                                 .period_examples = all.period_examples,
                                 .seconds = all.seconds,
                                 .ncursor = all.ncursor};
    if (k->rank != 0 && all.ncursor && !(p->cursor = calloc(all.ncursor, sizeof *p->cursor)))
        return yk_fail_memory(all.ncursor * sizeof *p->cursor, "the data cursor");
    if (all.ncursor && (st = yk_comm_broadcast(k->comm, p->cursor, all.ncursor * sizeof *p->cursor,
                                               t->plan->start_limit, "the checkpoint")))
        return st;
    if (k->role == YK__REPLICA && all.found)
        st = share_parameters(t, all.step);
    if (!st && k->server)
        st = yk_server_scatter(k->server, k->whole);
    if (st || !all.found)
        return st;
    t->step = t->last_save = t->result->resumed_from = p->step;
    t->last_eval = UINT64_MAX;
    t->epoch = p->epoch;
    t->earlier_examples = p->examples;
    t->earlier_seconds = p->seconds;
    if (k->role == YK__REPLICA || k->rank == 0) {
        t->evaluator->period_loss = p->period_loss;
        t->evaluator->period_examples = p->period_examples;
    }
    if (t->feed && (t->plan->lockstep || k->cursor_kind == 3))
        st = yk_feed_cursor_restore(t->feed, p->cursor, p->ncursor, p->step);
    else if (t->feed)
        yk_feed_unit_restore(t->feed, p->cursor, p->ncursor);
    if (st || !k->server || k->rank != 0)
        return st;
    t->used = p->ncursor >= 3 ? p->cursor[2] : 0;
    t->earlier_late = p->late;
    t->earlier_late_examples = t->late_examples = p->late_examples;
    if (t->plan->steps != UINT64_MAX && !t->plan->synchronous)
        k->assignment.steps_left = t->plan->steps > p->step ? t->plan->steps - p->step : 0;
    if (k->cursor_kind == 3) {
        if (p->ncursor ==
            2 + 5 * (size_t)t->plan
                        ->workers) /* else they restart the epoch, without the blocks that were used up */
            yk_server_cursors_set(k->server, p->cursor + 2);
        return YK_OK;
    }
    return k->cursor_kind == 2 ? yk_assignment_cursor_restore(&k->assignment, p->cursor, p->ncursor) : YK_OK;
}

void yk__cluster_free(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    yk_startup_end(k->startup);
    yk_store_free(t->store);
    yk_exchange_free(k->exchange);
    yk_memory_free(&k->memory);
    yk_remote_free(k->remote);
    yk_chunks_free(k->chunks);
    yk_server_free(k->server);
    yk_local_free(k->whole);
    yk_assignment_fini(&k->assignment);
    yk_free(k->server_peer);
    t->result->comm = k->comm;
    t->result->clean = !k->lost_somebody && !k->no_finalize;
    t->result->chief = k->rank == 0;
    t->result->dispensable = k->role == YK__WORKER && !k->joined && t->plan->survives_loss;
}
