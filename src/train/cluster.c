#include "train/cluster.h"

#include "base/clock.h"
#include "base/log.h"
#include "train/trainer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
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
    k->place_kind = 2;
    yk_log_rank(-1);
    yk_status st = yk_plan_make(t->config, 0, &t->result->plan);
    k->servers = t->plan->servers;
    if (!st && !t->plan->joinable)
        return yk_fail(YK_EUSAGE,
                       "%s is a synchronous job: one cannot join it, since its steps are those of all its "
                       "workers; --mode async can be joined",
                       t->config->join);
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
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* no rank outlives mpirun */
    const yk_startup_config config = {.limit = t->plan->start_limit,
                                      .stop = t->stop,
                                      .alive = t->host->stage ? alive : NULL,
                                      .context = t,
                                      .end_process = t->host->end_process};
    return yk_startup_begin(&config, &k->startup);
}

yk_status yk__cluster_start(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    const yk_config *c = t->config;
    k->ranks = 1;
    yk_status st = yk_plan_make(c, 1, &t->result->plan);
    if (st)
        return st;
    if (yk_comm_expected() == 0) {
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
    yk_log_rank(k->ranks > 1 ? k->rank : -1);
    if (c->join)
        return st ? st : join(t);
    if (st || (st = check_world(t)) || (st = yk_plan_make(c, k->ranks, &t->result->plan)))
        return st;
    if (k->ranks == 1) /* a world of one needs no messages */
        return YK_OK;
    k->servers = t->plan->servers;
    k->role = k->servers == 0 ? YK__REPLICA : k->rank < k->servers ? YK__SERVER : YK__WORKER;
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
static size_t cut_groups(const yk__trainer *t, size_t begin, size_t end, yk_optim_group *out)
{
    size_t n = 0;
    for (size_t i = 0; i < t->ngroups; i++) {
        const yk_optim_group *g = &t->group[i];
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

/* `whole`: the configuration of a store for all parameters, with one worker. */
yk_status yk__cluster_stores(yk__trainer *t, const yk_store_config *whole)
{
    yk__cluster *k = &t->cluster;
    if (k->role == YK__REPLICA) {
        yk_status st = yk_exchange_create(k->comm, t->model->nparams, t->model->sparse, &k->exchange);
        return st ? st : share_memory(t);
    }
    if (k->role == YK__WORKER) {
        yk_status st = k->joined ? find_servers(t) : YK_OK;
        if (st)
            return st;
        yk_remote_config c = {.comm = k->comm,
                              .peer = k->server_peer,
                              .servers = k->servers,
                              .sparse = t->model->sparse,
                              .in_step = t->plan->lockstep,
                              .nparams = t->model->nparams,
                              .bias_key = t->model->sparse ? t->model->bias_key : UINT32_MAX,
                              .silence = t->plan->server_timeout,
                              .alive = t->plan->heartbeat_every,
                              .arrays = t->plan->local_steps ? 1 + yk_optim_rule_of(t->optim.kind)->slots : 0,
                              .phases = t->phases,
                              .leave = k->joined ? t->stop : NULL};
        k->copy = *whole;
        k->copy.keymap = NULL; /* a sparse copy has numbers of its own */
        if (t->model->sparse && t->model->bias_key != UINT32_MAX)
            t->model->bias_key = 0; /* batches are renamed: that is its place in each */
        return yk_remote_create(&c, &k->remote);
    }
    yk_store_config part = *whole;
    yk_status st = k->rank == 0 ? yk_store_create(whole, &k->whole) : YK_OK;
    if (st)
        return st;
    size_t begin, n;
    yk_server_piece(t->model->nparams, t->model->sparse, k->rank, k->servers, &begin, &n);
    part.nparams = n;
    part.group = k->group;
    part.ngroups = t->model->sparse ? 0 : cut_groups(t, begin, begin + n, k->group);
    if ((st = yk_store_create(&part, &t->store)))
        return st;
    yk_server_config c = {.comm = k->comm,
                          .servers = k->servers,
                          .workers = t->plan->workers,
                          .sparse = t->model->sparse,
                          .nparams = t->model->nparams,
                          .table = t->store,
                          .staleness = t->plan->staleness,
                          .quorum = t->plan->quorum,
                          .local_steps = t->plan->local_steps,
                          .in_step = t->plan->synchronous,
                          .silence = t->plan->worker_timeout,
                          .first_silence = t->plan->first_step_timeout,
                          .dealer = k->rank == 0 && k->place_kind == 2 ? &k->dealer : NULL};
    if (c.dealer)
        yk_dealer_init(&k->dealer, t->train.examples, t->plan->epochs,
                       t->plan->synchronous ? UINT64_MAX : t->plan->steps, t->plan->batch,
                       t->plan->workers); /* synchronous: a step is more than one batch */
    return yk_server_create(&c, &k->server);
}

/* ---- going on ---- */

typedef struct {
    uint64_t found, step, epoch, examples, period_examples, nplace;
    double period_loss, seconds;
} progress;

/* The chief has found a checkpoint and put it into `store` (NULL: none); all get what they need of it. */
yk_status yk__cluster_restore(yk__trainer *t, yk_store *store, yk_progress_state *p)
{
    yk__cluster *k = &t->cluster;
    if (k->joined)
        return YK_OK;
    progress all = {store != NULL,      p->step,   p->epoch,       p->examples,
                    p->period_examples, p->nplace, p->period_loss, p->seconds};
    yk_status st = yk_comm_share(k->comm, &all, sizeof all, t->plan->start_limit, "the checkpoint");
    if (st)
        return st;
    if (k->rank != 0)
        *p = (yk_progress_state){.step = all.step,
                                 .epoch = all.epoch,
                                 .examples = all.examples,
                                 .period_loss = all.period_loss,
                                 .period_examples = all.period_examples,
                                 .seconds = all.seconds,
                                 .nplace = all.nplace};
    if (k->rank != 0 && all.nplace && !(p->place = calloc(all.nplace, sizeof *p->place)))
        return yk_fail_memory(all.nplace * sizeof *p->place, "the place in the data");
    if (all.nplace && (st = yk_comm_share(k->comm, p->place, all.nplace * sizeof *p->place,
                                          t->plan->start_limit, "the checkpoint")))
        return st;
    if (k->role == YK__REPLICA && all.found) {
        const yk_store_state s = yk_store_raw(t->store);
        const size_t bytes = t->model->nparams * sizeof(float);
        st = yk_comm_share(k->comm, s.live.w, bytes, t->plan->start_limit, "the checkpoint");
        for (int i = 0; !st && i < yk_store_rule(t->store)->slots; i++)
            st = yk_comm_share(k->comm, s.live.s[i], bytes, t->plan->start_limit, "the checkpoint");
        if (!st && s.touched)
            st = yk_comm_share(k->comm, s.touched, bytes, t->plan->start_limit, "the checkpoint");
        if (!st)
            yk_store_restore(t->store, all.step);
    }
    if (!st && k->role == YK__SERVER)
        st = yk_server_spread(k->server, k->whole);
    if (st || !all.found)
        return st;
    t->step = t->last_save = t->result->resumed_from = p->step;
    t->last_eval = UINT64_MAX;
    t->epoch = p->epoch;
    t->earlier_examples = p->examples;
    t->earlier_seconds = p->seconds;
    if (k->role == YK__REPLICA || k->rank == 0) {
        t->trainee[0].period_loss = p->period_loss;
        t->trainee[0].period_examples = p->period_examples;
    }
    if (k->role != YK__SERVER)
        return t->plan->lockstep || k->place_kind == 3
                   ? yk_feed_place_restore(t->feed, p->place, p->nplace, p->step)
                   : YK_OK;
    if (k->rank != 0)
        return YK_OK;
    t->used = p->nplace >= 3 ? p->place[2] : 0;
    t->earlier_late = p->late;
    t->earlier_late_examples = t->late_examples = p->late_examples;
    if (t->plan->steps != UINT64_MAX && !t->plan->synchronous)
        k->dealer.steps_left = t->plan->steps > p->step ? t->plan->steps - p->step : 0;
    if (k->place_kind == 3) {
        if (p->nplace ==
            2 + 5 * (size_t)t->plan
                        ->workers) /* else they restart the epoch, without the blocks that were used up */
            yk_server_places_set(k->server, p->place + 2);
        return YK_OK;
    }
    return k->place_kind == 2 ? yk_dealer_place_restore(&k->dealer, p->place, p->nplace) : YK_OK;
}

/* A checkpoint of replicas: the chief writes it; of a stream it needs the places of all. */
yk_status yk__save_replicas(yk__trainer *t, double seconds)
{
    yk__cluster *k = &t->cluster;
    yk__trainee *me = &t->trainee[0];
    yk_progress_state p = {.step = t->step,
                           .epoch = t->epoch,
                           .examples = t->earlier_examples + me->examples,
                           .seconds = t->earlier_seconds + yk_now() - t->began,
                           .period_loss = me->period_loss,
                           .period_examples = me->period_examples,
                           .nplace = yk_feed_place_size(t->feed)};
    p.place = yk_alloc(p.nplace, sizeof *p.place, "the place in the data");
    if (!p.place)
        return YK_ESYSTEM;
    yk_feed_place_save(t->feed, p.place);
    yk_status st = YK_OK;
    if (k->place_kind == 3) {
        uint64_t mine[5] = {0}, *all = yk_alloc(5 * (size_t)k->ranks, sizeof *all, "the place in the data");
        yk_feed_place_of(t->feed, k->rank, mine);
        st =
            all ? yk_comm_gather(k->comm, mine, sizeof mine, all, seconds, "places in the data") : YK_ESYSTEM;
        if (!st)
            memcpy(p.place + 2, all, 5 * (size_t)k->ranks * sizeof *all);
        yk_free(all);
    } else if (k->rank != 0) { /* positions are the same for all */
        yk_free(p.place);
        return YK_OK;
    }
    if (!st && k->rank == 0)
        st = yk__save(t, t->store, &p);
    yk_free(p.place);
    return st;
}

void yk__cluster_free(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    yk_startup_end(k->startup);
    yk_exchange_free(k->exchange);
    yk_memory_free(&k->memory);
    yk_remote_free(k->remote);
    yk_server_free(k->server);
    yk_store_free(k->whole);
    yk_dealer_fini(&k->dealer);
    yk_free(k->report);
    yk_free(k->server_peer);
    t->result->comm = k->comm;
    t->result->clean = !k->lost_somebody && !k->no_farewell;
    t->result->chief = k->rank == 0;
    t->result->dispensable = k->role == YK__WORKER && !k->joined && t->plan->survives_loss;
}
