/* Collectives. All go through rank 0, so that it can name the missing ranks. */
#include "comm/comm_internal.h"

#include <stdlib.h>
#include <string.h>

/* The root sends a message to each of `count` ranks from `first` on, or (gather) receives one: piece i of `buf`. */
static yk_status star(yk_comm *c, bool gather, int root, int first, int count, void *buf, size_t bytes,
                      double seconds, const char *what)
{
    const int tag = YK__TAG_COLLECTIVE;
    if (c->rank != root)
        return gather ? yk_comm_send_wait(c, root, tag, YK_PURPOSE_CONTROL, buf, bytes, seconds, what)
                      : yk_comm_recv_wait(c, root, tag, YK_PURPOSE_CONTROL, buf, bytes, seconds, what);
    yk_op *op = calloc((size_t)count, sizeof *op);
    if (!op)
        return yk_fail_memory((size_t)count * sizeof *op, "messages");
    yk_status st = YK_OK;
    for (int i = 0; !st && i < count; i++)
        if (first + i != root)
            st = gather ? yk_comm_recv(c, first + i, tag, YK_PURPOSE_CONTROL, (char *)buf + (size_t)i * bytes,
                                       bytes, &op[i])
                        : yk_comm_send(c, first + i, tag, YK_PURPOSE_CONTROL, buf, bytes, &op[i]);
    if (!st)
        st = yk_comm_wait(c, op, count, seconds, what);
    free(op);
    return st;
}

yk_status yk_comm_gather(yk_comm *c, const void *mine, size_t bytes, void *all, double seconds,
                         const char *what)
{
    if (c->rank == 0)
        memcpy(all, mine, bytes);
    return star(c, true, 0, 0, c->size, c->rank ? (void *)(uintptr_t)mine : all, bytes, seconds, what);
}

void yk_comm_pieces_free(yk_comm_pieces *p)
{
    for (int i = 0; p->data && i < p->n; i++)
        free(p->data[i]);
    free(p->data);
    free(p->bytes);
    *p = (yk_comm_pieces){0};
}

yk_status yk_comm_gatherv(yk_comm *c, const void *mine, size_t bytes, yk_comm_pieces *out, double seconds,
                          const char *what)
{
    *out = (yk_comm_pieces){0};
    if (c->rank == 0) {
        *out = (yk_comm_pieces){c->size, calloc((size_t)c->size, sizeof *out->data),
                                calloc((size_t)c->size, sizeof *out->bytes)};
        if (!out->data || !out->bytes)
            return yk_fail_memory((size_t)c->size * sizeof *out->data, "messages");
    }
    yk_status st = yk_comm_gather(c, &bytes, sizeof bytes, out->bytes, seconds, what);
    if (c->rank != 0)
        return st ? st
                  : yk_comm_send_wait(c, 0, YK__TAG_COLLECTIVE, YK_PURPOSE_CONTROL, mine, bytes, seconds,
                                      what);
    for (int i = 0; !st && i < c->size; i++) {
        if (!(out->data[i] = malloc(out->bytes[i] + 1)))
            return yk_fail_memory(out->bytes[i], "messages");
        if (i == 0)
            memcpy(out->data[i], mine, bytes);
        else
            st = yk_comm_recv_wait(c, i, YK__TAG_COLLECTIVE, YK_PURPOSE_CONTROL, out->data[i], out->bytes[i],
                                   seconds, what);
    }
    return st;
}

yk_status yk_comm_broadcast_range(yk_comm *c, int root, int first, int count, void *buf, size_t bytes,
                                  double seconds, const char *what)
{
    const size_t max = (size_t)1 << 28;
    for (; bytes > max; buf = (char *)buf + max, bytes -= max) {
        yk_status st = yk_comm_broadcast_range(c, root, first, count, buf, max, seconds, what);
        if (st)
            return st;
    }
    return star(c, false, root, first, count, buf, bytes, seconds, what);
}

yk_status yk_comm_broadcast(yk_comm *c, void *buf, size_t bytes, double seconds, const char *what)
{
    return yk_comm_broadcast_range(c, 0, 0, c->size, buf, bytes, seconds, what);
}

yk_status yk_comm_all_gather(yk_comm *c, const void *mine, size_t bytes, void *all, double seconds,
                             const char *what)
{
    yk_status st = yk_comm_gather(c, mine, bytes, all, seconds, what);
    /* rank 0 can name the missing rank, so it times out first */
    return st ? st : yk_comm_broadcast(c, all, (size_t)c->size * bytes, seconds + 1.0, what);
}

yk_status yk_comm_barrier(yk_comm *c, double seconds, const char *what)
{
    char here = 1, *all = c->rank == 0 ? malloc((size_t)c->size) : NULL;
    if (c->rank == 0 && !all)
        return yk_fail_memory((size_t)c->size, "messages");
    yk_status st = yk_comm_gather(c, &here, 1, all, seconds, what);
    free(all);
    return st ? st : yk_comm_broadcast(c, &here, 1, seconds + 1.0, what); /* as above */
}
