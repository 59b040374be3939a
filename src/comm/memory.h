/* Memory that the processes of a job have in common, where all of them are on one machine.
 *
 *     yk_memory m;
 *     st = yk_memory_create(comm, bytes, 30.0, &m);      // all ranks call it
 *     if (m.at)
 *         ... m.at[r] ...                                // so many bytes of rank r, zero at first
 *     yk_memory_free(&m);
 *
 * There may be none (at is NULL), and that is no error: messages do the same. Then processes are on several machines, or in
 * several containers, or one may not look at another's files, or they did not all ask for as much.
 *
 * It has no name anywhere: a rank opens the others' through /proc. It is gone with the last process that has it, however
 * they end.
 */
#ifndef YK_COMM_MEMORY_H
#define YK_COMM_MEMORY_H

#include "comm/comm.h"

typedef struct {
    char **at; /* [n] */
    int n;
    size_t bytes;
} yk_memory;

yk_status yk_memory_create(yk_comm *comm, size_t bytes, double seconds, yk_memory *out);
void yk_memory_free(yk_memory *m); /* one that was never made is fine */

#endif
