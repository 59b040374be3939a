/* Transports carry messages between ranks: a small table of functions below comm.h.
 *
 *     native           native.h: shared memory and TCP
 *     MPI              mpi_plugin.c, a shared object that is loaded at run time (plugin.h)
 *     simulated        tests/sim.h: all ranks in one process, with simulated time
 *
 * comm.h does the rest, in the same way for all: traffic counters, waits, deadlines, heartbeats, collectives. It uses
 * the table set for its thread (yk_transport_set), or else the one that the job's engine suggests (rendezvous.h).
 *
 * Calls return 0 or an error code of the transport, which error_text() explains. None of them blocks, except start() and
 * stop(). Several threads may call them, one at a time. Between two peers, messages with the same tag arrive in the order in which
 * they were sent, as in MPI. No other order is guaranteed.
 *
 * A plug-in includes no other header of yoke. If the table changes, change YK_MPI_PLUGIN_SYMBOL.
 */
#ifndef YK_COMM_TRANSPORT_H
#define YK_COMM_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int rank, size;
    bool processes;   /* each rank is a separate process: the kernel knows whether it is alive */
    char library[96]; /* "Open MPI v4.1.4" */
    char host[64]; /* the numeric address by which processes on other hosts reach this one; "": not known */
} yk_world;

enum { YK_MAX_JOINED = 256 }; /* workers that join a job, in all */
/* Error codes. STOPPED: a signal to another rank has ended the job before training began. STATUS - s, only from start(): it failed
 * with status s (base/status.h), and yk_error() is the error. */
enum { YK_TRANSPORT_STOPPED = -1, YK_TRANSPORT_STATUS = -1000 };

typedef struct {
    int peer;
    size_t bytes;
} yk_arrival;

typedef struct {
    const char *mpi; /* "Open MPI", "MPICH"; NULL: not MPI */

    int (*start)(void *self, yk_world *out);
    void (*stop)(void *self);
    /* Ends the job: later calls of the other ranks fail, with YK_TRANSPORT_STOPPED if the status is 0. MPI kills them. */
    void (*abort)(void *self, int status);
    void (*error_text)(void *self, int code, char *out, size_t size);

    /* A message has at most INT32_MAX bytes. The buffer belongs to the transport until test() says done. */
    int (*send)(void *self, int peer, int tag, const void *buf, size_t bytes, uint64_t *request_out);
    int (*recv)(void *self, int peer, int tag, void *buf, size_t cap, uint64_t *request_out);
    /* *bytes_out: the size of the message, once it is done. A request that is done or failed is freed. */
    int (*test)(void *self, uint64_t *request, bool *done_out, size_t *bytes_out);

    /* peer < 0: any rank of the job. */
    int (*probe)(void *self, int peer, int tag, bool *found_out, yk_arrival *out);
    /* Ends all requests that are not done: their buffers can be freed. NULL: not supported, the process must end soon. */
    void (*abandon)(void *self);

    /* Whether a peer has ended, or its connection is lost. Requests that concern it never complete. NULL: not known. */
    bool (*lost)(void *self, int peer);
    int (*peers)(void *self); /* how many there are; NULL: as many as at the start */
    /* Optional. Returns the memory of a message that probe() has found; the caller frees it with free(). Returns NULL if the message
     * must be received with recv(). */
    char *(*take)(void *self, int peer, int tag, size_t *bytes_out);
    /* Optional: whether part of a frame, but not all of it, has arrived from some peer. */
    bool (*is_receiving)(void *self);
} yk_transport_ops;

typedef struct {
    const yk_transport_ops *ops;
    void *self;
} yk_transport;

/* From now on, yk_comm_start() in this thread uses `t` (copied), and yk_comm_expected() is `size`. NULL: as the engine
 * suggests, again. */
void yk_transport_set(const yk_transport *t, int rank, int size);

/* ---- the interface between a plug-in and its loader ---- */

/* const yk_transport_ops *yk_mpi_plugin_v5(void); its functions ignore `self` */
#define YK_MPI_PLUGIN_SYMBOL "yk_mpi_plugin_v5"
typedef const yk_transport_ops *yk_mpi_plugin(void);

#endif
