/* Workers that join a running job: a thread accepts them, and the serving thread adopts them. */
#include "store/server_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/sync.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* Accepts connections. It outlives the server, because its thread waits inside MPI until the process ends. */
struct yk__listener {
    yk_thread thread;
    pthread_mutex_t lock;
    yk_comm *comm;
    char name[32], *port;
    uint64_t identity;
    void *waiting[16];
    int n;
};

/* Publishing the name is also done in this thread: if the name server has died, MPI_Publish_name does not return, but the job
 * can run without workers that join. */
static void *accept_all(void *context)
{
    struct yk__listener *l = context;
    if (yk_comm_open(l->comm, l->name, &l->port)) {
        yk_warn("%s; workers cannot join this job", yk_error());
        return NULL;
    }
    for (;;) {
        void *handle;
        if (yk_comm_accept(l->comm, l->port, &handle)) {
            yk_warn("%s; no more workers can join", yk_error());
            return NULL;
        }
        pthread_mutex_lock(&l->lock);
        if (l->n < (int)(sizeof l->waiting / sizeof *l->waiting))
            l->waiting[l->n++] = handle;
        pthread_mutex_unlock(&l->lock);
    }
}

yk_status yk_server_open(yk_server *s, uint64_t identity)
{
    struct yk__listener *l = calloc(1, sizeof *l);
    if (!l)
        return yk_fail_memory(sizeof *l, "the join listener");
    pthread_mutex_init(&l->lock, NULL);
    l->comm = s->config.comm;
    l->identity = identity;
    snprintf(l->name, sizeof l->name, "yoke-server-%d", s->me);
    s->listener = l;
    if (yk_thread_start(&l->thread, accept_all, l))
        return yk_fail(YK_ESYSTEM, "cannot start a thread for workers that join");
    pthread_detach(l->thread.thread);
    return YK_OK;
}

yk_status yk__accept_join(yk_server *s)
{
    void *handle = NULL;
    int peer;
    pthread_mutex_lock(&s->listener->lock);
    if (s->listener->n)
        handle = s->listener->waiting[--s->listener->n];
    pthread_mutex_unlock(&s->listener->lock);
    if (!handle)
        return YK_OK;
    yk_status st = yk_comm_adopt(s->config.comm, handle, &peer);
    if (st)
        return st;
    const uint64_t min = yk__slowest(s); /* before the new client counts */
    yk__client *c;
    if ((st = yk__client_add(s, peer, &c)))
        return st;
    c->joined = true;
    c->last_message = yk_now();
    c->skipped = min == UINT64_MAX ? 0 : min;
    return YK_OK;
}

/* The first message of a worker that joins. */
yk_status yk__handle_join(yk_server *s, yk__client *c, const yk__up *up)
{
    const bool fits = s->listener && up->identity == s->listener->identity;
    c->alive = (yk__down){.magic = YK__MAGIC, .kind = fits ? YK__DOWN_ALIVE : YK__DOWN_REFUSED};
    if (fits && s->chief)
        yk_note("a worker has joined; %d %s training now", s->active, s->active == 1 ? "is" : "are");
    if (!fits) {
        c->active = false;
        c->left = true;
        s->active--;
        if (s->chief)
            yk_warn("refused a worker that tried to join: its program, options, data or model differ from "
                    "those of the job");
    }
    return yk_comm_send(s->config.comm, c->peer, YK__TAG_DOWN, YK_PURPOSE_CONTROL, &c->alive, sizeof c->alive,
                        &c->alive_op);
}
