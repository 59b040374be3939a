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

/* yk__agree(): the maximum of each fact. */
static yk_status combine(const yk__cluster *k, const yk_plan *p, const void *facts, void *out)
{
    const int first = p->first_client;
    const yk_data_facts *all = facts;
    for (int i = 0; i < k->ranks; i++) {
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

yk_status yk__share_facts(yk__trainer *t)
{
    yk_dataset *d = &t->train;
    t->facts = own_facts(t);
    if (t->cluster.joined && !d->rows)
        return yk_fail(YK_EUSAGE, "a job that streams its data cannot be joined: its blocks were "
                                  "assigned to workers at the start");
    if (!t->plan->alone && !t->cluster.joined) {
        const yk_status st =
            yk__agree(&t->cluster, t->plan, &t->facts, sizeof t->facts, combine, "the data to be loaded");
        if (st)
            return st;
        if (t->facts.sparse || !d->source)
            d->dim = t->facts.columns;
        d->kind = (yk_rows_kind)t->facts.kind;
        d->examples = t->facts.examples;
        d->classes = t->test.classes = t->validation.classes = (uint32_t)t->facts.classes;
        d->fields = (uint32_t)t->facts.fields;
        d->positional = t->facts.positional;
        t->start.earlier = t->facts.earlier; /* only the chief knows it */
    }
    return yk__plan(t);
}
