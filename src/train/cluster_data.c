/* The data of a job: each process that trains reads a part of the files and broadcasts it to the others; servers only get
 * the shape. */
#include "train/setup.h"

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
    for (int w = 0; !st && w < t->plan->clients; w++) {
        const int root = t->plan->first_client + w;
        uint64_t size = bytes;
        char *part = mine;
        yk_rows from;
        if ((st = yk_comm_broadcast_range(k->comm, root, t->plan->first_client, t->plan->clients, &size,
                                          sizeof size, t->plan->startup_timeout, "a part of the data")))
            break;
        if (k->rank != root && !(part = malloc(size)))
            st = yk_fail_memory(size, "another process's part of the data");
        if (!st)
            st = yk_comm_broadcast_range(k->comm, root, t->plan->first_client, t->plan->clients, part, size,
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
    const bool trains = !k->joined && !t->plan->alone && t->plan->trains;
    const yk_dataset_partition partition = {.here = yk_comm_local_size(k->comm),
                                            .part = trains ? k->rank - t->plan->first_client : 0,
                                            .parts = trains ? t->plan->clients : 1,
                                            .gather = gather_rows,
                                            .context = t};
    yk_dataset_set_partition(&partition);
}

/* ---- the shape of the data: servers do not read it ---- */

typedef struct {
    uint64_t dim, examples, classes, fields, positional, earlier, streams, ordered;
} shape;

static yk_status set_data(yk__trainer *t, bool streamed, bool ordered)
{
    const yk_plan_data data = {.examples = t->train.examples, .streamed = streamed, .ordered = ordered};
    return yk_plan_set_data(&t->result->plan, t->config, &data);
}

yk_status yk__cluster_shape(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    const size_t dim = t->train.dim > t->test.dim ? t->train.dim : t->test.dim, earlier = t->start.shape.dim;
    shape mine = {.dim = dim > earlier ? dim : earlier,
                  .examples = t->train.examples,
                  .classes = t->train.classes,
                  .fields = t->train.fields,
                  .positional = t->plan->trains && t->train.positional,
                  .earlier = t->start.earlier,
                  .streams = t->plan->trains && !t->train.rows,
                  .ordered = t->plan->trains && !t->train.shuffled},
          *all = NULL, max = {0};
    if (k->joined && !t->train.rows)
        return yk_fail(YK_EUSAGE, "a job that streams its data cannot be joined: its blocks were "
                                  "assigned to workers at the start");
    if (t->plan->alone || k->joined)
        return set_data(t, mine.streams, k->joined || mine.ordered); /* joined: the unit comes from the job */
    if (k->rank == 0 && !(all = yk_alloc((size_t)k->ranks, sizeof *all, "the shape of the data")))
        return YK_ESYSTEM;
    yk_status st =
        yk_comm_gather(k->comm, &mine, sizeof mine, all, t->plan->startup_timeout, "the data to be loaded");
    for (int i = 0; !st && k->rank == 0 && i < k->ranks; i++) {
        max.dim = all[i].dim > max.dim ? all[i].dim : max.dim;
        max.examples = all[i].examples > max.examples ? all[i].examples : max.examples;
        max.classes = all[i].classes > max.classes ? all[i].classes : max.classes;
        max.fields = all[i].fields > max.fields ? all[i].fields : max.fields;
        max.positional |= all[i].positional;
        max.earlier |= all[i].earlier; /* only the chief knows it */
        max.streams |= all[i].streams;
        max.ordered |= all[i].ordered;
        if (i >= t->plan->first_client && all[i].examples != all[t->plan->first_client].examples)
            st = yk_fail(YK_EDATA, "rank %d has different data: %llu examples, but rank %d has %llu", i,
                         (unsigned long long)all[i].examples, t->plan->first_client,
                         (unsigned long long)all[t->plan->first_client].examples);
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
    t->train.positional = max.positional;
    t->start.earlier = max.earlier;
    return set_data(t, max.streams, max.ordered);
}
