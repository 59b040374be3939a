/* Joining a running job, by name (comm.h). */
#include "comm/comm_inside.h"

#include <stdlib.h>
#include <string.h>

/* Names are known beyond this job. */
static MPI_Info everywhere(void)
{
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "ompi_global_scope", "true");
    return info;
}

yk_status yk_comm_open(yk_comm *c, const char *name, char **port_out)
{
    char port[MPI_MAX_PORT_NAME];
    MPI_Info info = everywhere();
    (void)c;
    int code = MPI_Open_port(MPI_INFO_NULL, port);
    if (!code)
        code = MPI_Publish_name(name, info, port);
    MPI_Info_free(&info);
    if (code)
        return yk__mpi_error(code, "cannot open a port for others to join", YK_ANY);
    *port_out = strdup(port);
    return *port_out ? YK_OK : yk_fail_memory(sizeof port, "a port");
}

yk_status yk_comm_accept(yk_comm *c, const char *port, void **handle_out)
{
    MPI_Comm *other = malloc(sizeof *other);
    (void)c;
    if (!other)
        return yk_fail_memory(sizeof *other, "a new worker");
    int code = MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, other);
    if (code) {
        free(other);
        return yk__mpi_error(code, "a worker that wanted to join failed", YK_ANY);
    }
    *handle_out = other;
    return YK_OK;
}

yk_status yk_comm_adopt(yk_comm *c, void *handle, int *peer_out)
{
    MPI_Comm *other = handle;
    if (c->njoined == YK__MOST_JOINED) {
        free(other);
        return yk_fail(YK_ELOST, "more than %d workers have joined", YK__MOST_JOINED);
    }
    MPI_Comm_set_errhandler(*other, MPI_ERRORS_RETURN);
    c->joined[c->njoined] = *other;
    *peer_out = c->size + c->njoined++;
    free(other);
    return YK_OK;
}

yk_status yk_comm_connect(yk_comm *c, const char *name, int *peer_out)
{
    char port[MPI_MAX_PORT_NAME];
    MPI_Info info = everywhere();
    MPI_Comm *other = malloc(sizeof *other);
    if (!other)
        return yk_fail_memory(sizeof *other, "the job");
    yk_startup_enter(c->startup, YK_STARTUP_BLOCKED, "connecting to the job");
    int code = MPI_Lookup_name(name, info, port);
    MPI_Info_free(&info);
    if (!code)
        code = MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, other);
    yk_startup_enter(c->startup, YK_STARTUP_WAITING, "");
    if (code) {
        free(other);
        return yk__mpi_error(code, "cannot join the job; is it still running?", YK_ANY);
    }
    return yk_comm_adopt(c, other, peer_out);
}
