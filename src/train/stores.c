/* Creates the parameters of this process, and the store that its workers train on. Only this file chooses among the stores. */
#include "train/setup.h"
#include <string.h>

yk_local_config yk__store_config(yk__trainer *t)
{
    const bool single = t->plan->alone;
    yk_local_config c = {.ngroups = t->model->ngroups,
                         .team = t->team,
                         .workers = single ? t->plan->workers : 1,
                         .batch = t->plan->batch,
                         .keymap = t->remap,
                         .clip_norm = t->plan->clip_norm,
                         .stale_rules = t->plan->stale_rules,
                         .linear = t->description.linear,
                         .staggered = t->plan->staggered,
                         .max_warm_up = t->plan->max_warm_up,
                         .phases = t->phases,
                         .until_due = yk__until_due,
                         .context = &t->schedule,
                         .interrupted = &t->barrier_due};
    memcpy(c.group, t->group, sizeof c.group);
    for (int g = 0; !single && g < c.ngroups; g++) /* the server or the all-reduce enforces the bound */
        c.group[g].staleness = 0;
    return c;
}

/* The ranges of a group that lie in one shard of it (biases have their own learning rate). */
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

/* ---- replicas ---- */

enum { MAX_SHARED = 64 << 20 }; /* bytes per rank; larger gradients are sent during the backward pass */

static yk_status make_replica(yk__trainer *t, const yk_local_config *whole)
{
    yk__cluster *k = &t->cluster;
    yk_local_config own = *whole;
    own.workers = t->plan->workers_per_process;
    own.local_steps = t->plan->local_steps;
    yk_status st = yk_exchange_create(k->comm, t->model->nparams, t->plan->heartbeat_timeout,
                                      t->plan->first_step_timeout, &k->exchange);
    const size_t bytes = yk_exchange_shared_memory_bytes(t->model->nparams);
    if (!st && !own.local_steps && bytes <= MAX_SHARED)
        st = yk_shared_memory_create(k->comm, bytes, t->plan->startup_timeout, &k->memory);
    if (!st && k->memory.at) /* all replicas are on one host */
        yk_exchange_use_shared_memory(k->exchange, k->memory.at, t->plan->wait);
    own.exchange = k->exchange;
    return st ? st : yk_local_create(&own, &t->local);
}

/* ---- servers and shards ---- */

static yk_status make_client(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    yk_shards_config c = {.comm = k->comm,
                          .plan = t->plan,
                          .joined = k->joined,
                          .bias_key = t->model->sparse ? t->model->bias_key : UINT32_MAX,
                          .phases = t->phases,
                          .stop = k->joined || k->rank == 0 ? NULL : t->caller->stop,
                          .leave = k->joined ? t->caller->stop : NULL};
    place_groups(t, c.group);
    return yk_shards_create(&c, &k->shards);
}

/* Creates the shard that this process owns. */
static yk_status make_shard(yk__trainer *t, const yk_local_config *whole, yk_server_config *c)
{
    yk_local_config part = *whole;
    part.clip_norm = 0.0; /* the clients or the server clip gradients */
    yk_optim_range *range = t->cluster.range;
    place_groups(t, c->group);
    for (int g = 0; g < t->model->ngroups; g++) {
        size_t begin;
        part.group[g].shape = yk_group_piece(&c->group[g], t->cluster.rank, &begin);
        part.group[g].range = range;
        part.group[g].nranges = cut_ranges(&t->group[g], begin, begin + part.group[g].shape.keys, range);
        range += part.group[g].nranges;
    }
    yk_status st = yk_local_create(&part, &t->local);
    c->table = t->local;
    return st;
}

/* The chief assigns examples, and has memory for a snapshot of all parameters. */
static yk_status make_chief(yk__trainer *t, const yk_local_config *whole, yk_server_config *c)
{
    yk__cluster *k = &t->cluster;
    const yk_plan *p = t->plan;
    yk_status st = yk_local_create(whole, &k->whole);
    if (p->cursor_kind == YK_CURSOR_LEASE) {
        c->assignment = &k->assignment;
        yk_assignment_init(&k->assignment, t->train.examples, p->epochs, p->leased_steps, p->batch,
                           p->workers, p->chunk_rows);
    }
    if (st || p->cursor_kind != YK_CURSOR_STREAM)
        return st;
    c->streams = &k->streams;
    return yk_streams_init(&k->streams, p->workers, p->epochs);
}

static yk_status make_server(yk__trainer *t, const yk_local_config *whole)
{
    yk__cluster *k = &t->cluster;
    yk_server_config c = {.comm = k->comm, .plan = t->plan, .phases = yk__serving_phases(t)};
    yk_status st = k->rank == 0 ? make_chief(t, whole, &c) : YK_OK;
    if (st || (st = make_shard(t, whole, &c)))
        return st;
    return yk_server_create(&c, &k->server);
}

static yk_status prepare_chunks(void *trainer, int me)
{
    const yk__trainer *t = trainer;
    return yk_chunks_prepare(t->cluster.chunks, me, t->plan->workers_per_process);
}

static yk_status make_chunks(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    yk_startup_enter(k->startup, YK_STARTUP_BUSY);
    yk_status st =
        yk_chunks_create(t->train.rows, t->plan->chunk_rows, t->plan->owners, t->model->bias_key, &k->chunks);
    if (!st)
        st = yk_team_run(t->team, prepare_chunks, t);
    yk_startup_enter(k->startup, YK_STARTUP_WAITING);
    return st;
}

/* The store of a process that trains: it sends gradients, or the deltas of copies (local SGD; linear models: copy_lifetime). */
static yk_status use_shards(yk__trainer *t)
{
    const yk_plan *p = t->plan;
    const bool scaled = p->copy_lifetime > 0;
    yk_local_config copy = yk__store_config(t);
    yk_status st = p->chunk_rows ? yk_dataset_shuffle(&t->train) : YK_OK;
    copy.keymap = NULL; /* a sparse copy has its own internal ids */
    copy.workers = scaled ? 1 : p->workers_per_process;
    if (scaled)
        copy.phases = NULL;
    if (!st && scaled && p->chunk_rows)
        st = make_chunks(t);
    return st ? st
              : yk_shards_store(t->cluster.shards, &copy, t->cluster.chunks,
                                scaled || !p->local_steps ? 0 : t->step, &t->store);
}

/* ---- the parameters and the store of this process ---- */

yk_status yk__set_initial(yk__trainer *t, const yk_local_group *group, yk_local *whole)
{
    const yk_trained *start = t->caller->start;
    if (!whole || (!t->model->ops->init && !start))
        return YK_OK;
    const bool continues = yk__continues(t->caller);
    yk_status st =
        start ? yk_trained_restore(start, t->config->model, t->model, whole, t->remap, continues) : YK_OK;
    for (int g = 0; !st && !start && g < t->model->ngroups; g++) {
        float *w = yk_local_raw(whole, g).live.w;
        t->model->ops->init(t->model, g, w, (uint64_t)t->config->seed);
        if (t->remap && t->model->group[g].keyed)
            st = yk_keymap_move(t->remap, w, t->model->group[g].width, false);
    }
    if (continues) /* the state is consistent with the weights */
        yk_local_restore(whole, 0);
    else
        yk__parameters_set(t->model, group, whole);
    return st;
}

yk_status yk__make_parameters(yk__trainer *t)
{
    const yk_plan *p = t->plan;
    const yk_local_config whole = yk__store_config(t);
    yk_status st = p->alone ? yk_local_create(&whole, &t->local) : YK_OK;
    if (p->whole && !p->alone)
        st = make_replica(t, &whole);
    if (p->serves)
        st = make_server(t, &whole);
    if (!st && !p->whole && p->trains)
        st = make_client(t);
    /* NULL: on another rank */
    return st ? st : yk__set_initial(t, t->group, p->serves ? t->cluster.whole : t->local);
}

yk_status yk__make_store(yk__trainer *t)
{
    if (t->plan->whole)
        t->store = yk_local_store(t->local);
    return t->plan->whole || !t->plan->trains ? YK_OK : use_shards(t);
}
