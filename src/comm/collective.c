/* Collectives, and memory that the ranks of a host share. Each collective is a star around its root, which can name the missing
 * ranks. */
#include "comm/comm_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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
    char nothing[1] = ""; /* messages without contents */
    yk_status st = star(c, true, 0, 0, c->size, nothing, 0, seconds, what);
    return st ? st : yk_comm_broadcast(c, nothing, 0, seconds + 1.0, what); /* as above */
}

/* ---- shared memory ---- */

/* A file descriptor; < 0: there is no such memory. */
static int create_own(size_t bytes)
{
    const int fd = memfd_create("yoke", MFD_CLOEXEC);
    if (fd >= 0 && (ftruncate(fd, (off_t)bytes) || posix_fallocate(fd, 0, (off_t)bytes))) {
        close(fd);
        return -1;
    }
    return fd;
}

char *yk__memory_open(int64_t pid, int64_t descriptor, size_t bytes)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)pid, (long long)descriptor);
    const int fd = descriptor < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC);
    void *p = lseek(fd, 0, SEEK_END) == (off_t)bytes
                  ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                  : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    return p == MAP_FAILED ? NULL : p;
}

yk_status yk_shared_memory_create(yk_comm *comm, size_t bytes, double seconds, yk_shared_memory *out)
{
    const int n = comm->size;
    *out = (yk_shared_memory){.n = n, .bytes = bytes};
    if (!yk_comm_on_one_host(comm))
        return YK_OK;
    int64_t *all = calloc((size_t)n, sizeof *all);
    out->at = calloc((size_t)n, sizeof *out->at);
    if (!all || !out->at) {
        free(all);
        yk_shared_memory_free(out);
        return yk_fail_memory((size_t)n * sizeof *all, "shared memory");
    }
    const int64_t mine = bytes ? create_own(bytes) : -1; /* -1: not possible */
    yk_status st = yk_comm_all_gather(comm, &mine, sizeof mine, all, seconds, "shared memory");
    int64_t ok = !st;
    for (int r = 0; ok && r < n; r++)
        ok = (out->at[r] = yk__memory_open(comm->address[r].pid, all[r], bytes)) != NULL;
    if (!st)
        st = yk_comm_all_gather(comm, &ok, sizeof ok, all, seconds, "shared memory"); /* then close */
    for (int r = 0; r < n; r++)
        ok &= all[r];
    if (mine >= 0)
        close((int)mine);
    free(all);
    if (st || !ok)
        yk_shared_memory_free(out);
    return st;
}

void yk_shared_memory_free(yk_shared_memory *m)
{
    for (int r = 0; m->at && r < m->n; r++)
        if (m->at[r])
            munmap(m->at[r], m->bytes);
    free(m->at);
    m->at = NULL;
}
