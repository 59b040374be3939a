#include "comm/memory.h"

#include "comm/comm_internal.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

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

char *yk_memory_map(int fd, size_t bytes)
{
    void *p = fd < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

char *yk_memory_open(int64_t pid, int64_t descriptor, size_t bytes)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)pid, (long long)descriptor);
    const int fd = descriptor < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC);
    char *p = lseek(fd, 0, SEEK_END) == (off_t)bytes ? yk_memory_map(fd, bytes) : NULL;
    if (fd >= 0)
        close(fd);
    return p;
}

yk_status yk_shared_memory_create(yk_comm *comm, size_t bytes, double seconds, yk_shared_memory *out)
{
    typedef struct {
        int64_t bytes, fd; /* fd < 0: not possible */
    } part;
    const int n = comm->size, me = comm->rank;
    *out = (yk_shared_memory){.n = n, .bytes = bytes};
    if (!yk_comm_on_one_host(comm))
        return YK_OK;
    part *all = calloc((size_t)n, sizeof *all);
    out->at = calloc((size_t)n, sizeof *out->at);
    if (!all || !out->at) {
        free(all);
        yk_shared_memory_free(out);
        return yk_fail_memory((size_t)n * sizeof *all, "shared memory");
    }
    const part mine = {(int64_t)bytes, bytes ? create_own(bytes) : -1};
    yk_status st = yk_comm_all_gather(comm, &mine, sizeof mine, all, seconds, "shared memory");
    int64_t ok = !st;
    for (int r = 0; ok && r < n; r++)
        ok = all[r].bytes == all[0].bytes &&
             (out->at[r] = r == me ? yk_memory_map((int)mine.fd, bytes)
                                   : yk_memory_open(comm->address[r].pid, all[r].fd, bytes)) != NULL;
    if (!st)
        st = yk_comm_all_gather(comm, &ok, sizeof ok, all, seconds, "shared memory"); /* then close */
    for (int r = 0; r < n; r++)
        ok &= ((int64_t *)all)[r];
    if (mine.fd >= 0)
        close((int)mine.fd);
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
