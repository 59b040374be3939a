/* The data of a job: each process that trains reads a part of the files and broadcasts it to the others; servers only get
 * the shape. */
#include "train/trainer.h"

#include <stdlib.h>

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
                                          t->plan->start_limit, "its part of the data")))
            break;
        if (k->rank != root && !(part = malloc(size)))
            st = yk_fail_memory(size, "another process's part of the data");
        if (!st)
            st = yk_comm_broadcast_range(k->comm, root, k->first_client, k->clients, part, size,
                                         t->plan->start_limit, "its part of the data");
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
    uint64_t dim, examples, classes, kind, channels, height, width, streams;
} shape;

yk_status yk__cluster_shape(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    shape mine = {.dim = t->train.dim > t->test.dim ? t->train.dim : t->test.dim,
                  .examples = t->train.examples,
                  .classes = t->train.classes,
                  .streams = k->role != YK__SERVER && !t->train.rows},
          *all = NULL, most = {0};
    if (k->role == YK__SINGLE || k->joined)
        return k->joined && !t->train.rows
                   ? yk_fail(YK_EUSAGE, "a job that streams its data cannot be joined: its blocks were "
                                        "assigned to workers at the start")
                   : YK_OK;
    if (k->rank == 0 && !(all = yk_alloc((size_t)k->ranks, sizeof *all, "the shape of the data")))
        return YK_ESYSTEM;
    yk_status st =
        yk_comm_gather(k->comm, &mine, sizeof mine, all, t->plan->start_limit, "the data to be loaded");
    for (int i = 0; !st && k->rank == 0 && i < k->ranks; i++) {
        most.dim = all[i].dim > most.dim ? all[i].dim : most.dim;
        most.examples = all[i].examples > most.examples ? all[i].examples : most.examples;
        most.classes = all[i].classes > most.classes ? all[i].classes : most.classes;
        most.streams |= all[i].streams;
        if (i >= k->first_client && all[i].examples != all[k->first_client].examples)
            st = yk_fail(YK_EDATA, "rank %d has other data: %llu examples, rank %d has %llu", i,
                         (unsigned long long)all[i].examples, k->first_client,
                         (unsigned long long)all[k->first_client].examples);
    }
    yk_free(all);
    if (!st)
        st = yk_comm_broadcast(k->comm, &most, sizeof most, t->plan->start_limit, "the data to be loaded");
    if (st)
        return st;
    if (t->train.kind == YK_ROWS_SPARSE)
        t->train.dim = most.dim;
    t->train.examples = most.examples;
    t->train.classes = (uint32_t)most.classes;
    t->test.classes = (uint32_t)most.classes;
    k->cursor_kind = most.streams        ? YK__STREAM_CURSOR
                     : t->plan->lockstep ? YK__LOCKSTEP_CURSOR
                                         : YK__LEASE_CURSOR;
    /* the batches of a copy make a chunk, where there are enough of them for all workers */
    const uint64_t unit = t->plan->copy_lifetime * t->plan->batch;
    if (k->cursor_kind == YK__LEASE_CURSOR && t->train.examples >= 8 * unit * (uint64_t)t->plan->workers)
        t->unit = unit;
    return YK_OK;
}
