/* The data of a job: each process that trains reads a part of the files and broadcasts it to the others; servers only get
 * the shape. */
#include "train/setup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static yk_status gather_rows(void *trainer, yk_rows *rows)
{
    yk__trainer *t = trainer;
    yk__cluster *k = &t->cluster;
    char *mine;
    size_t bytes;
    yk_rows all;
    yk_status st = yk_rows_pack(rows, &mine, &bytes);
    if (st)
        return st;
    yk_startup_enter(k->startup, YK_STARTUP_WAITING, "");
    yk_rows_init(&all, rows->kind, rows->dim);
    for (int w = 0; !st && w < k->clients; w++) {
        const int root = k->first_client + w;
        uint64_t size = bytes;
        char *part = mine;
        yk_rows from;
        if ((st = yk_comm_broadcast_range(k->comm, root, k->first_client, k->clients, &size, sizeof size,
                                          t->plan->startup_timeout, "a part of the data")))
            break;
        if (k->rank != root && !(part = malloc(size)))
            st = yk_fail_memory(size, "another process's part of the data");
        if (!st)
            st = yk_comm_broadcast_range(k->comm, root, k->first_client, k->clients, part, size,
                                         t->plan->startup_timeout, "a part of the data");
        if (!st && !(st = yk_rows_unpack(part, size, &from)) && from.n) {
            if (all.kind != YK_ROWS_SPARSE && !all.dim)
                yk_rows_init(&all, from.kind, from.dim);
            st = yk_rows_append(&all, &from, 0, from.n);
        }
        if (k->rank != root)
            free(part);
    }
    yk_startup_enter(k->startup, YK_STARTUP_BUSY, "loading the data");
    free(mine);
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
    const bool trains = !k->joined && k->role != YK__SINGLE && k->role != YK__SERVER;
    const yk_dataset_partition partition = {.here = yk_comm_local_size(k->comm),
                                            .part = trains ? k->rank - k->first_client : 0,
                                            .parts = trains ? k->clients : 1,
                                            .gather = gather_rows,
                                            .context = t};
    yk_dataset_set_partition(&partition);
}

/* ---- the shape of the data: servers do not read it ---- */

typedef struct {
    uint64_t dim, examples, classes, fields, earlier, streams, ordered;
} shape;

/* The examples of a chunk, which are those of a copy (store/copies.h). A longer copy has fewer keys per example, so less is
 * sent and served: chunks of 8,192 examples trained 1.5 times as fast as those of 2,048. But copies are short at first
 * (copies.h), so a chunk is only made longer if a worker trains on at least 500 of them. Without a staleness bound, and for
 * sgd: with adagrad, longer copies lost more. 0: there are too few examples for chunks. */
static uint64_t unit_of(const yk__trainer *t)
{
    enum { PER_EPOCH = 8, IN_ALL = 500 };
    const yk_plan *p = t->plan;
    const double examples = (double)t->train.examples, workers = (double)p->workers,
                 steps = p->steps == UINT64_MAX ? HUGE_VAL : (double)p->steps * (double)p->batch,
                 all = fmin(steps, p->epochs == UINT64_MAX ? HUGE_VAL : examples * (double)p->epochs);
    uint64_t unit = p->copy_lifetime * p->batch;
    if (examples < PER_EPOCH * workers * (double)unit)
        return 0;
    if (p->staleness != YK_ASYNC || p->group[1].optimizer != YK_SGD)
        return unit;
    for (int longer = 2; longer <= YK__LONGEST_COPY; longer *= 2)
        if (examples >= 2 * PER_EPOCH * workers * (double)unit &&
            all >= 2 * IN_ALL * workers * (double)unit &&
            (!p->eval_every || 2 * unit <= p->eval_every * p->batch)) /* a push skips no evaluation */
            unit *= 2;
    return unit;
}

/* The unit of the order of examples, and the lifetime of copies, which follows from it. */
void yk__cluster_set_unit(yk__trainer *t, uint64_t unit)
{
    t->unit = unit;
    if (unit)
        t->result->copy_lifetime = (unit + t->plan->batch - 1) / t->plan->batch;
}

/* A worker pushes all steps on a copy together, and each worker may push once more after the last step. Copies are short
 * compared with --steps, so that this adds few steps. Leases end at the last step. */
static void limit_copies(const yk_plan *p, uint64_t *lifetime)
{
    enum { PARTS = 8 };
    const uint64_t max = p->steps / (PARTS * (uint64_t)(p->workers * p->depth));
    *lifetime = yk__min(*lifetime, max ? max : 1);
}

yk_status yk__cluster_shape(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    const size_t dim = t->train.dim > t->test.dim ? t->train.dim : t->test.dim, earlier = t->start.shape.dim;
    shape mine = {.dim = dim > earlier ? dim : earlier,
                  .examples = t->train.examples,
                  .classes = t->train.classes,
                  .fields = t->train.fields,
                  .earlier = t->start.earlier,
                  .streams = k->role != YK__SERVER && !t->train.rows,
                  .ordered = k->role != YK__SERVER && !t->train.shuffled},
          *all = NULL, max = {0};
    t->result->copy_lifetime = t->plan->copy_lifetime;
    if (k->role == YK__SINGLE || k->joined)
        return k->joined && !t->train.rows
                   ? yk_fail(YK_EUSAGE, "a job that streams its data cannot be joined: its blocks were "
                                        "assigned to workers at the start")
                   : YK_OK;
    if (k->rank == 0 && !(all = yk_alloc((size_t)k->ranks, sizeof *all, "the shape of the data")))
        return YK_ESYSTEM;
    yk_status st =
        yk_comm_gather(k->comm, &mine, sizeof mine, all, t->plan->startup_timeout, "the data to be loaded");
    for (int i = 0; !st && k->rank == 0 && i < k->ranks; i++) {
        max.dim = all[i].dim > max.dim ? all[i].dim : max.dim;
        max.examples = all[i].examples > max.examples ? all[i].examples : max.examples;
        max.classes = all[i].classes > max.classes ? all[i].classes : max.classes;
        max.fields = all[i].fields > max.fields ? all[i].fields : max.fields;
        max.earlier |= all[i].earlier; /* only the chief knows it */
        max.streams |= all[i].streams;
        max.ordered |= all[i].ordered;
        if (i >= k->first_client && all[i].examples != all[k->first_client].examples)
            st = yk_fail(YK_EDATA, "rank %d has different data: %llu examples, but rank %d has %llu", i,
                         (unsigned long long)all[i].examples, k->first_client,
                         (unsigned long long)all[k->first_client].examples);
    }
    yk_free(all);
    if (!st)
        st = yk_comm_broadcast(k->comm, &max, sizeof max, t->plan->startup_timeout, "the data to be loaded");
    if (st)
        return st;
    if (t->train.kind == YK_ROWS_SPARSE)
        t->train.dim = max.dim;
    t->train.examples = max.examples;
    t->train.classes = t->test.classes = (uint32_t)max.classes;
    t->train.fields = (uint32_t)max.fields;
    t->start.earlier = max.earlier;
    k->cursor_kind = max.streams         ? YK__STREAM_CURSOR
                     : t->plan->lockstep ? YK__LOCKSTEP_CURSOR
                                         : YK__LEASE_CURSOR;
    if (k->cursor_kind == YK__STREAM_CURSOR && t->plan->copy_lifetime && t->plan->steps != UINT64_MAX)
        limit_copies(t->plan, &t->result->copy_lifetime);
    if (k->cursor_kind == YK__LEASE_CURSOR && !max.ordered &&
        t->plan->copy_lifetime) /* neighbors are unrelated */
        yk__cluster_set_unit(t, unit_of(t));
    return YK_OK;
}
