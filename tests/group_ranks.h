/* Jobs of simulated ranks for the tests of parameter groups: parameter servers and their clients. */
#ifndef YK_TESTS_GROUP_RANKS_H
#define YK_TESTS_GROUP_RANKS_H

#include "group_jobs.h"

#include "comm/comm.h"
#include "sim.h"
#include "store/server.h"
#include "store/shards.h"

/* ---- simulated ranks ---- */

static yk_sim_rank ranks[YK_SIM_MAX_RANKS];

static inline void simulate(int n, uint64_t seed, yk_status (*rank_main)(void *, int), void *context)
{
    yk_sim_result r;
    assert_int_equal(yk_sim_run(&(yk_sim_config){.ranks = n, .seed = seed}, rank_main, context, ranks, &r),
                     YK_OK);
    for (int i = 0; i < n; i++) {
        if (ranks[i].status)
            fail_msg("rank %d: %s", i, ranks[i].error);
        assert_int_equal(ranks[i].end, YK_SIM_RETURNED);
    }
}

static uint64_t nothing_due(void *context, uint64_t step)
{
    (void)context, (void)step;
    return UINT64_MAX;
}

/* The threads of a rank train; the first one is registered with the simulator, and sends and receives. */
typedef struct {
    job *j;
    yk_store *store;
    int first; /* number of the first worker */
} rank_threads;

static inline yk_status train_thread(void *context, int me)
{
    const rank_threads *c = context;
    return train(c->j, c->store, me, c->first + me);
}

static inline yk_status train_threads(job *j, yk_team *team, yk_store *s, int rank)
{
    return yk_team_run(team, train_thread, &(rank_threads){j, s, rank * j->threads});
}

/* ---- servers ---- */

/* A group of the model, with the servers that own it. */
static inline yk_group place(const job *j, int group)
{
    yk_group g = j->model.group[group];
    const bool last = j->separate == KEYED_LAST ? g.keyed : j->separate == LINEAR_LAST && group == LINEAR;
    g.first_owner = last ? SERVERS - 1 : 0;
    g.owners = !j->separate ? SERVERS : last ? 1 : SERVERS - 1;
    return g;
}

static inline yk_plan plan_of(const job *j)
{
    yk_plan p = {.ngroups = GROUPS,
                 .staleness = j->staleness,
                 .synchronous = j->lockstep,
                 .lockstep = j->lockstep,
                 .copy_lifetime = j->copies ? j->local_steps : 0,
                 .local_steps = j->copies ? 0 : j->local_steps,
                 .depth = j->copies ? j->depth : 1,
                 .owners = SERVERS,
                 .first_client = SERVERS,
                 .clients = j->workers / j->threads,
                 .workers_per_process = j->threads,
                 .channels = 1,
                 .worker_timeout = 20.0,
                 .server_timeout = 20.0,
                 .first_step_timeout = 60.0,
                 .control_timeout = 45.0,
                 .leave_timeout = 1.0,
                 .dead_timeout = 0.5,
                 .heartbeat_every = 1.0};
    for (int g = 0; g < GROUPS; g++) {
        p.group[g].optim = j->group[g].optim;
        p.group[g].staleness = j->immediate[g];
    }
    return p;
}

static inline yk_status serve(job *j, yk_comm *comm, int rank)
{
    yk_local_config c = store_config(j, 1);
    const yk_plan plan = plan_of(j);
    const yk_server_hooks hooks = {.context = j, .paused = j->paused};
    yk_server_config config = {.comm = comm, .plan = &plan};
    yk_server *s = NULL;
    yk_status st = rank == 0 ? yk_local_create(&c, &j->result) : YK_OK;
    if (!st && rank == 0)
        fill_store(j->result);
    for (int g = 0; g < GROUPS; g++) {
        size_t begin;
        config.group[g] = place(j, g);
        c.group[g].shape = yk_group_piece(&config.group[g], rank, &begin);
    }
    if (!st && !(st = yk_local_create(&c, &config.table)) && !(st = yk_server_create(&config, &s)))
        st = yk_server_scatter(s, rank == 0 ? j->result : NULL, NULL, 0);
    if (!st) {
        yk_server_set_hooks(s, &hooks);
        st = yk_server_run(s);
    }
    if (!st && rank == 0 && !(st = yk_server_snapshot(s, j->result, false)))
        yk_server_assemble(s, j->result);
    if (!st && rank == 0 && !(st = yk_local_quiesce(j->result, 0)))
        st = yk_server_end(s);
    yk_server_free(s);
    yk_local_free(config.table);
    return st;
}

static inline yk_status be_client(job *j, yk_comm *comm, int number)
{
    const yk_plan plan = plan_of(j);
    yk_shards_config config = {.comm = comm, .plan = &plan, .bias_key = j->model.bias_key};
    for (int g = 0; g < GROUPS; g++)
        config.group[g] = place(j, g);
    yk_team *team;
    yk_status st = yk_team_create(j->threads, &team);
    if (st)
        return st;
    if (!j->epochs)
        yk_sleep_ns(2500000000); /* it leaves late, without a step */
    yk_local_config whole = store_config(j, j->threads);
    whole.team = team;
    whole.until_due = nothing_due;
    yk_shards *s = NULL;
    yk_store *store;
    st = yk_shards_create(&config, &s);
    if (!st)
        st = yk_shards_store(s, &whole, NULL, 0, &store);
    if (!st)
        st = train_threads(j, team, store, number);
    yk_shards_free(s);
    yk_team_free(team);
    return st;
}

static inline yk_status server_or_client(void *context, int rank)
{
    yk_comm *comm;
    yk_status st = yk_comm_start(NULL, NULL, 30.0, &comm);
    if (st)
        return st;
    job *j = context;
    st = rank < SERVERS ? serve(j, comm, rank) : be_client(j, comm, rank - SERVERS);
    for (int i = 0; i < YK_PURPOSES; i++) {
        j->sent += yk_comm_counted(comm)->traffic[i].sent;
        j->received += yk_comm_counted(comm)->traffic[i].received;
    }
    yk_comm_stop(comm, !st);
    return st;
}

#endif
