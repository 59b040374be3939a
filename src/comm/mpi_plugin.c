/* MPI as a transport: the only file that includes mpi.h. It is not part of the program. CMake builds a shared object
 * from it for each MPI. The object exports only yk_mpi_plugin_v5(), and comm/plugin.c loads it if a launcher started
 * the process.
 *
 * It calls no function of yoke, so the program needs to export none. */
#include "comm/transport.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum { NO_THREADS = -2 }; /* a code of this plug-in */

/* ---- requests ---- */

/* A handle is the address of one of these. Requests that are not done are in a list: before MPI_Finalize(), each must be
 * completed or freed (MPICH complains). */
typedef struct request {
    LIST_ENTRY(request) entry;
    MPI_Request mpi;
    bool incoming;
} request;

static LIST_HEAD(, request) pending;

static void free_request(request *r)
{
    LIST_REMOVE(r, entry);
    free(r);
}

/* ---- start and end ---- */

static int mpi_start(void *self, yk_world *out)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int got = MPI_THREAD_SINGLE, n = 0;
    (void)self;
    const int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &got);
    if (code || got < MPI_THREAD_SERIALIZED) /* heartbeats during the start come from another thread */
        return code ? code : NO_THREADS;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &out->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &out->size);
    out->processes = true;
    MPI_Get_library_version(version, &n);
    snprintf(out->library, sizeof out->library, "%.*s", (int)sizeof out->library - 1, version);
    out->library[strcspn(out->library, ",\n")] = '\0';
    return 0;
}

static void mpi_stop(void *self)
{
    (void)self;
    request *r;
    LIST_FOREACH(r, &pending, entry)
    {
        int done = 0;
        MPI_Test(&r->mpi, &done, MPI_STATUS_IGNORE);
        if (!done && r->incoming)
            MPI_Cancel(&r->mpi);
        if (!done)
            MPI_Request_free(&r->mpi);
    }
    MPI_Finalize();
}

static void mpi_abort(void *self, int status)
{
    (void)self;
    MPI_Abort(MPI_COMM_WORLD, status);
}

static void mpi_error_text(void *self, int code, char *out, size_t size)
{
    char text[MPI_MAX_ERROR_STRING] = "it does not support calls from several threads";
    int n = 0;
    (void)self;
    if (code != NO_THREADS)
        MPI_Error_string(code, text, &n);
    snprintf(out, size, "%s", text);
}

/* ---- messages ---- */

static int begin(bool incoming, int peer, int tag, void *buf, size_t bytes, uint64_t *request_out)
{
    request *r = malloc(sizeof *r);
    *request_out = (uintptr_t)r;
    if (!r)
        return MPI_ERR_NO_MEM;
    *r = (request){.incoming = incoming};
    LIST_INSERT_HEAD(&pending, r, entry);
    const int code = incoming ? MPI_Irecv(buf, (int)bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &r->mpi)
                              : MPI_Isend(buf, (int)bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &r->mpi);
    if (code)
        free_request(r);
    return code;
}

static int mpi_send(void *self, int peer, int tag, const void *buf, size_t bytes, uint64_t *request_out)
{
    (void)self;
    return begin(false, peer, tag, (void *)(uintptr_t)buf, bytes, request_out);
}

static int mpi_recv(void *self, int peer, int tag, void *buf, size_t cap, uint64_t *request_out)
{
    (void)self;
    return begin(true, peer, tag, buf, cap, request_out);
}

static int mpi_test(void *self, uint64_t *handle, bool *done_out, size_t *bytes_out)
{
    request *r = (request *)(uintptr_t)*handle;
    MPI_Status status;
    int done = 0, count = 0;
    (void)self;
    int code = MPI_Test(&r->mpi, &done, &status);
    *done_out = done != 0;
    if (!code && !done)
        return 0;
    free_request(r);
    if (!code)
        code = MPI_Get_count(&status, MPI_BYTE, &count);
    *bytes_out = (size_t)count;
    return code;
}

static int mpi_probe(void *self, int peer, int tag, bool *found_out, yk_arrival *out)
{
    const bool any = peer < 0;
    MPI_Status status;
    int found = 0, count = 0;
    (void)self;
    *found_out = false;
    int code = MPI_Iprobe(any ? MPI_ANY_SOURCE : peer, tag, MPI_COMM_WORLD, &found, &status);
    if (code || !found)
        return code;
    code = MPI_Get_count(&status, MPI_BYTE, &count);
    *out = (yk_arrival){any ? status.MPI_SOURCE : peer, (size_t)count};
    *found_out = !code;
    return code;
}

__attribute__((visibility("default"))) yk_mpi_plugin yk_mpi_plugin_v5;

const yk_transport_ops *yk_mpi_plugin_v5(void)
{
    static const yk_transport_ops ops = {
#ifdef OPEN_MPI
        .mpi = "Open MPI",
#else
        .mpi = "MPICH",
#endif
        .start = mpi_start,
        .stop = mpi_stop,
        .abort = mpi_abort,
        .error_text = mpi_error_text,
        .send = mpi_send,
        .recv = mpi_recv,
        .test = mpi_test,
        .probe = mpi_probe,
    };
    return &ops;
}
