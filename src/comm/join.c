/* Joining a running job, by name (comm.h). */
#include "comm/comm_internal.h"

yk_status yk_comm_open(yk_comm *c, const char *name, char **port_out)
{
    if (!c->ops->open)
        return yk_fail(YK_ESYSTEM, "this transport does not let workers join a running job");
    const int code = c->ops->open(c->self, name, port_out);
    return code ? yk__transport_error(c, code, "cannot open a port for others to join", YK_ANY) : YK_OK;
}

yk_status yk_comm_accept(yk_comm *c, const char *port, void **handle_out)
{
    const int code = c->ops->accept(c->self, port, handle_out);
    return code ? yk__transport_error(c, code, "a worker failed to join", YK_ANY) : YK_OK;
}

yk_status yk_comm_adopt(yk_comm *c, void *handle, int *peer_out)
{
    if (c->njoined == YK_MAX_JOINED)
        return yk_fail(YK_ELOST, "more than %d workers have joined", YK_MAX_JOINED);
    const int code = c->ops->adopt(c->self, handle, peer_out);
    c->njoined += code == 0;
    return code ? yk__transport_error(c, code, "a worker failed to join", YK_ANY) : YK_OK;
}

yk_status yk_comm_connect(yk_comm *c, const char *name, int *peer_out)
{
    void *handle = NULL;
    if (!c->ops->connect)
        return yk_fail(YK_ESYSTEM, "this transport does not let workers join a running job");
    yk_startup_enter(c->startup, YK_STARTUP_BLOCKED, "connecting to the job");
    const int code = c->ops->connect(c->self, name, &handle);
    yk_startup_enter(c->startup, YK_STARTUP_WAITING, "");
    if (code)
        return yk__transport_error(c, code, "cannot join the job; check that it is still running", YK_ANY);
    return yk_comm_adopt(c, handle, peer_out);
}
