/* A job of several processes: their roles, and the checks that they belong to the same training run.
 *
 *     role       ranks                 does                                          its store
 *     replica    all, --servers 0      trains on all parameters, all-reduce          store/local.h
 *     server     0 .. K-1              owns a shard of the parameters                store/server.h
 *     worker     K .. K+N-1            trains, pulls and pushes                      store/shards.h
 *     shard      all, --servers all    both of the last two                          both
 *
 * Workers run the loop of loop.c. A process that owns a shard serves it in chief.c.
 *
 * Rank 0 is the chief: it evaluates, saves, and writes the run directory; the other ranks write only their worker-N/.
 *
 *     yk__cluster_start     connects the processes, if an engine started this one; assigns roles
 *     yk__combine_facts       all ranks get the same facts about the data
 *     yk__cluster_check     checks that options, data, program and parameters are the same; an error names the rank and
 *                           the difference
 */
#include "train/loop.h"
#include "train/setup.h"

#include "base/numa.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The topology, as this process sees it, and its plan. cores: of each process. */
static yk_status plan_process(yk__trainer *t, int cores)
{
    const yk__cluster *k = &t->cluster;
    const int servers = yk_plan_servers(t->config, k->ranks), here = yk_comm_local_size(k->comm),
              nodes = t->result->numa_nodes; /* to which it is bound */
    t->topology = (yk_topology){.processes = k->joined ? 0 : k->ranks,
                                .cores = cores,
                                .rank = k->rank,
                                .own_cores = yk_cores(),
                                .sharing = nodes ? (here + nodes - 1) / nodes : here,
                                .bound = nodes > 0,
                                .servers_here = k->joined ? 0 : yk_comm_ranks_here(k->comm, 0, servers),
                                .clients_here =
                                    k->joined ? 1 : yk_comm_ranks_here(k->comm, servers, k->ranks - servers)};
    return yk__plan(t);
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

static yk_status fewest_cores(const yk__trainer *t, const void *all, void *out)
{
    const int *cores = all;
    int *min = out;
    for (int i = 0; i < t->cluster.ranks; i++)
        *min = cores[i] < *min ? cores[i] : *min;
    return YK_OK;
}

/* --workers auto: the cores per process, on the host where there are fewest. */
static yk_status agree_on_cores(yk__trainer *t, int *cores_out)
{
    *cores_out = yk_cores_per_process(yk_comm_local_size(t->cluster.comm));
    return t->config->workers != YK_AUTO || t->cluster.ranks == 1
               ? YK_OK
               : yk__all_reduce(t, cores_out, sizeof *cores_out, fewest_cores, "the number of cores");
}

/* --bind. Before other threads are created, which inherit it. Returns the number of nodes; 0: not bound. */
static int bind_to_nodes(yk__trainer *t)
{
    const char *how = t->config->bind ? t->config->bind : "auto";
    const yk_comm *comm = t->cluster.comm;
    const int processes = yk_comm_local_size(comm), process = yk_comm_ranks_here(comm, 0, yk_comm_rank(comm));
    cpu_set_t *allowed = &t->cluster.cores, own;
    yk_numa numa;
    yk_numa_read("/sys", &numa);
    if (strcmp(how, "none") == 0 || sched_getaffinity(0, sizeof *allowed, allowed))
        return 0;
    const bool restricted = yk_numa_restrict(&numa, allowed);
    const bool done = !(restricted && strcmp(how, "auto") == 0) &&
                      yk_numa_part(&numa, process, processes, &own) &&
                      !sched_setaffinity(0, sizeof own, &own);
    return done ? numa.nodes : 0;
}

static yk_status begin_startup(yk__trainer *t)
{
    const yk_startup_config startup = {.limit = t->plan->startup_timeout,
                                       .stop = t->caller->stop,
                                       .alive = t->caller->stage ? report_alive : NULL,
                                       .context = t,
                                       .end_process = t->caller->end_process};
    return yk_startup_begin(&startup, &t->cluster.startup);
}

/* Becomes an additional worker of a running job. Its ranks have other numbers here. */
static yk_status join(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    k->joined = true;
    k->rank = 1; /* not the chief */
    if (t->caller->ranked)
        t->caller->ranked(-1);
    t->topology = (yk_topology){.processes = 1, .cores = yk_cores()};
    yk__plan(t); /* the timeouts; its errors concern a job of this size */
    yk_status st = begin_startup(t);
    if (!st)
        st = yk_comm_join(t->config->join_text, k->startup, t->plan->startup_timeout, &k->comm);
    if (!st)
        st = plan_process(t, yk_cores());
    if (!st && (!t->plan->joinable || t->plan->owners != yk_comm_joined(k->comm)))
        return yk_fail(
            YK_EUSAGE,
            "%s cannot be joined: its %s; only asynchronous jobs with dedicated servers (--mode async "
            "--servers K) can be joined",
            t->config->join,
            t->plan->joinable    ? "servers do not match its options"
            : t->plan->staleness ? "processes own the parameters that they train"
                                 : "steps need all of its workers");
    return st;
}

/* Even if it fails, there may be a `comm`, which says who this process is. */
static yk_status connect(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    const char *out = t->config->out;
    yk_status st = begin_startup(t);
    if (!st)
        st = yk_comm_start(out && strcmp(out, "none") ? out : NULL, k->startup, t->plan->heartbeat_timeout,
                           &k->comm);
    if (!k->comm)
        return st;
    k->rank = yk_comm_rank(k->comm);
    k->ranks = yk_comm_size(k->comm);
    if (t->caller->ranked)
        t->caller->ranked(k->ranks > 1 ? k->rank : -1);
    return st;
}

/* All processes of the job start. */
static yk_status begin_job(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    const long long launched = (long long)t->config->launch;
    int cores = 1;
    if (launched && launched != k->ranks)
        return yk_fail(
            YK_EUSAGE,
            "--launch %lld, but the job has %d process%s; do not combine --launch with mpirun or srun",
            launched, k->ranks, k->ranks == 1 ? "" : "es");
    yk_status st = agree_on_cores(t, &cores);
    if (st)
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

yk_status yk__cluster_start(yk__trainer *t)
{
    const int expected = t->caller->single ? 0 : yk_comm_expected().size;
    t->cluster.ranks = 1;
    if (t->config->join)
        return join(t);
    if (!expected) {
        t->topology = (yk_topology){.processes = 1, .cores = yk_cores(), .single = true};
        return yk__plan(t);
    }
    /* The timeouts are needed before the processes connect, and most errors in the options are found early. They are not checked if one
     * process is expected, because there may be more (comm.h). */
    t->topology = (yk_topology){.processes = expected, .cores = yk_cores()};
    yk_status st = yk__plan(t);
    if ((st && expected > 1) || (st = connect(t)) || !t->cluster.comm)
        return st;
    return begin_job(t);
}

/* The chief: workers can join from now on, because the run directory has the options. */
static void publish(yk__trainer *t)
{
    const char *run_dir = t->result->run_dir, *addresses = strchr(t->cluster.join_text, '\n') + 1;
    char options[1 << 16], *description = NULL;
    yk_file_text(options, sizeof options, "%s/config.ini", run_dir);
    if (asprintf(&description, "%s\n%s", addresses, options) >= 0)
        yk_comm_describe(t->cluster.comm, description);
    if (yk_file_save_private(run_dir, "join", t->cluster.join_text))
        yk_warn("workers cannot join this job: %s", yk_error());
}

yk_status yk__cluster_ready(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    yk_status st = k->comm ? yk_comm_ready(k->comm) : YK_OK;
    yk_startup_end(k->startup);
    k->startup = NULL;
    if (!st && k->join_text && t->result->run_dir)
        publish(t);
    if (!st)
        yk__report_stage(t, YK_STAGE_TRAINING);
    return st;
}

void yk__cluster_free(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    yk_startup_end(k->startup);
    if (k->rank_lost) /* answers to it are in buffers that are freed here */
        yk_comm_abandon(k->comm);
    if (t->result->numa_nodes) /* the program that called the library may do something else now */
        sched_setaffinity(0, sizeof k->cores, &k->cores);
    yk_exchange_free(k->exchange);
    yk_shared_memory_free(&k->memory);
    yk_shards_free(k->shards);
    yk_chunks_free(k->chunks);
    yk_server_free(k->server);
    yk_local_free(k->whole);
    yk_assignment_fini(&k->assignment);
    yk_streams_fini(&k->streams);
    if (k->join_text && t->result->run_dir)
        yk_remove_in(t->result->run_dir, "join");
    free(k->join_text);
    t->result->comm = k->comm;
    t->result->clean = !k->rank_lost || k->joined;
    t->result->chief = k->rank == 0;
    t->result->dispensable = t->plan->trains && !k->joined && t->plan->survives_loss;
}

yk_status yk__broadcast(const yk__trainer *t, int root, int first, int count, char **data, uint64_t *bytes,
                        const char *what)
{
    const double limit = t->plan->startup_timeout;
    yk_comm *c = t->cluster.comm;
    yk_status st = yk_comm_broadcast_range(c, root, first, count, bytes, sizeof *bytes, limit, what);
    if (st || !*bytes)
        return st;
    if (t->cluster.rank != root && !(*data = malloc(*bytes)))
        return yk_fail_memory(*bytes, what);
    return yk_comm_broadcast_range(c, root, first, count, *data, *bytes, limit, what);
}

/* ---- the data: each process that trains reads a part of the files and broadcasts it to the others ---- */

typedef struct {
    const yk__trainer *t;
    int root;
} row_sender;

static yk_status broadcast_rows(void *context, void *data, size_t bytes)
{
    const row_sender *s = context;
    const yk_plan *p = s->t->plan;
    return yk_comm_broadcast_range(s->t->cluster.comm, s->root, p->first_client, p->clients, data, bytes,
                                   p->startup_timeout, "a part of the data");
}

static yk_status gather_rows(void *trainer, yk_rows *rows)
{
    yk__trainer *t = trainer;
    yk__cluster *k = &t->cluster;
    yk_rows all;
    yk_status st = YK_OK;
    yk_startup_enter(k->startup, YK_STARTUP_WAITING);
    yk_rows_init(&all, rows->kind, rows->dim);
    for (int w = 0; !st && w < t->plan->clients; w++) {
        row_sender s = {t, t->plan->first_client + w};
        const bool sends = k->rank == s.root;
        yk_rows part = sends ? *rows : (yk_rows){0};
        st = yk_rows_transfer(&part, sends, broadcast_rows, &s);
        if (!st && part.n && all.kind != YK_ROWS_SPARSE && !all.dim)
            yk_rows_init(&all, part.kind, part.dim);
        if (!st)
            st = yk_rows_append(&all, &part, 0, part.n);
        if (!sends)
            yk_rows_fini(&part);
    }
    yk_startup_enter(k->startup, YK_STARTUP_BUSY);
    if (st) {
        yk_rows_fini(&all);
        return st;
    }
    yk_rows_fini(rows);
    *rows = all;
    return YK_OK;
}

void yk__set_partition(yk__trainer *t)
{
    const yk__cluster *k = &t->cluster;
    const bool trains = t->plan->trains && !t->plan->alone && !k->joined;
    const yk_dataset_partition partition = {.here = yk_comm_local_size(k->comm),
                                            .part = trains ? k->rank - t->plan->first_client : 0,
                                            .parts = trains ? t->plan->clients : 1,
                                            .gather = gather_rows,
                                            .context = t};
    yk_dataset_set_partition(&partition);
}

/* ---- facts about the data: servers do not read it ---- */

yk_status yk__plan(yk__trainer *t)
{
    return yk_plan_make(t->config, &t->description, &t->facts, &t->topology, &t->result->plan);
}

/* What this process knows. */
static yk_data_facts own_facts(const yk__trainer *t)
{
    const yk_dataset *d = &t->train;
    const yk_source *s = d->source;
    if (!s) /* a server */
        return (yk_data_facts){0};
    const size_t dim = yk__columns_seen(t), earlier = t->start.shape.dim;
    const bool read = t->plan->trains;
    return (yk_data_facts){
        .opened = 1,
        .counted = 1,
        .sparse = d->kind == YK_ROWS_SPARSE,
        .streamed = read && !d->rows,
        /* joined: the order of the examples comes from the job */
        .ordered = read && (!yk_dataset_can_shuffle(d) || t->cluster.joined || t->config->no_shuffle),
        .examples = d->examples,
        .columns = dim > earlier ? dim : earlier,
        .kind = d->kind,
        .classes = d->classes,
        .fields = d->fields,
        .positional = read && d->positional,
        .channels = s->channels,
        .height = s->height,
        .width = s->width,
        .earlier = t->start.earlier,
        .continues = yk__continues(t->caller)};
}

enum { FACTS = sizeof(yk_data_facts) / sizeof(uint64_t) };

/* yk__all_reduce(): the maximum of each fact. */
static yk_status combine(const yk__trainer *t, const void *facts, void *out)
{
    const int first = t->plan->first_client;
    const yk_data_facts *all = facts;
    for (int i = 0; i < t->cluster.ranks; i++) {
        const uint64_t *from = (const uint64_t *)&all[i];
        uint64_t *to = out;
        for (int f = 0; f < FACTS; f++)
            to[f] = from[f] > to[f] ? from[f] : to[f];
        if (i >= first && all[i].examples != all[first].examples)
            return yk_fail(YK_EDATA, "rank %d has different data: %llu examples, but rank %d has %llu", i,
                           (unsigned long long)all[i].examples, first,
                           (unsigned long long)all[first].examples);
    }
    return YK_OK;
}

static void set_classes(yk__trainer *t, uint32_t n)
{
    t->train.classes = n;
    for (int i = 0; i < YK__SETS; i++)
        t->set[i].data.classes = n;
}

yk_status yk__combine_facts(yk__trainer *t)
{
    yk_dataset *d = &t->train;
    const yk_model_shape *run = &t->start.shape; /* the model has all of its classes and fields */
    if (d->classes < run->classes)
        set_classes(t, run->classes);
    if (d->fields < run->fields)
        d->fields = run->fields;
    t->facts = own_facts(t);
    if (t->cluster.joined && !d->rows)
        return yk_fail(YK_EUSAGE, "a job that streams its data cannot be joined: its blocks were "
                                  "assigned to workers at the start");
    if (!t->plan->alone && !t->cluster.joined) {
        const yk_status st = yk__all_reduce(t, &t->facts, sizeof t->facts, combine, "the data to be loaded");
        if (st)
            return st;
        if (t->facts.sparse || !d->source)
            d->dim = t->facts.columns;
        d->kind = (yk_rows_kind)t->facts.kind;
        d->examples = t->facts.examples;
        set_classes(t, (uint32_t)t->facts.classes);
        d->fields = (uint32_t)t->facts.fields;
        d->positional = t->facts.positional;
        t->start.earlier = t->facts.earlier; /* only the chief knows it */
    }
    return yk__plan(t);
}
