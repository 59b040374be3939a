/* Memory shared by the processes of a job, if all of them are on one host.
 *
 * Example:
 *     yk_shared_memory m;
 *     yk_status st = yk_shared_memory_create(comm, bytes, 30.0, &m); // all ranks call it
 *     if (!st && m.at)
 *         memcpy(m.at[yk_comm_rank(comm)], gradient, bytes); // the bytes of rank r are at m.at[r], zero at first
 *     yk_shared_memory_free(&m);
 *
 * m.at is NULL, without an error, where memory cannot be shared: the processes are on several hosts or in several
 * containers, may not open each other's files, or asked for different sizes. Use messages instead.
 *
 * The memory has no name in the file system: a rank opens that of the others through /proc. The kernel frees it when the
 * last process that maps it ends. One thread of each process calls these functions.
 */
#ifndef YK_COMM_MEMORY_H
#define YK_COMM_MEMORY_H

#include "comm/comm.h"

typedef struct {
    char **at; /* [n] */
    int n;
    size_t bytes;
} yk_shared_memory;

yk_status yk_shared_memory_create(yk_comm *comm, size_t bytes, double seconds, yk_shared_memory *out);
void yk_shared_memory_free(yk_shared_memory *m); /* a zeroed one is fine */

/* Maps memory of this process, or memory of this size of another process, which has the descriptor. NULL: not possible. */
char *yk_memory_map(int fd, size_t bytes);
char *yk_memory_open(int64_t pid, int64_t descriptor, size_t bytes);

#endif
