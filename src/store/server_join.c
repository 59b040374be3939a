/* Workers that join a running job: a thread accepts them, the serving thread takes them on. */
#include "store/server_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/sync.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* Where others come in. It outlives the server: its thread waits inside MPI until the process ends. */
struct yk__listener {
    yk_thread thread;
    pthread_mutex_t lock;
    yk_comm *comm;
    char name[32], *port;
    uint64_t identity;
    void *waiting[16];
    int n;
};

/* All of it runs in a thread: if the name server has died, MPI_Publish_name does not return, but the job can run
 * without workers that join. */
static void *accept_all(void *context)
{
    struct yk__listener *d = context;
    if (yk_comm_open(d->comm, d->name, &d->port)) {
        yk_warn("%s; nobody can join this job", yk_error());
        return NULL;
    }
    for (;;) {
        void *handle;
        if (yk_comm_accept(d->comm, d->port, &handle)) {
            yk_warn("%s; nobody can join any more", yk_error());
            return NULL;
        }
        pthread_mutex_lock(&d->lock);
        if (d->n < (int)(sizeof d->waiting / sizeof *d->waiting))
            d->waiting[d->n++] = handle;
        pthread_mutex_unlock(&d->lock);
    }
}

yk_status yk_server_open(yk_server *s, uint64_t identity)
{
    struct yk__listener *d = calloc(1, sizeof *d);
    if (!d)
        return yk_fail_memory(sizeof *d, "the join listener");
    pthread_mutex_init(&d->lock, NULL);
    d->comm = s->config.comm;
    d->identity = identity;
    snprintf(d->name, sizeof d->name, "yoke-server-%d", s->me);
    s->listener = d;
    if (yk_thread_start(&d->thread, accept_all, d))
        return yk_fail(YK_ESYSTEM, "cannot start a thread for workers that join");
    pthread_detach(d->thread.thread);
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
    const uint64_t least = yk__slowest(s); /* of the others */
    yk__client *c;
    if ((st = yk__client_add(s, peer, &c)))
        return st;
    c->joined = true;
    c->heard = yk_now();
    c->skipped = least == UINT64_MAX ? 0 : least;
    return YK_OK;
}

/* The first word of one that joins. */
yk_status yk__take_hello(yk_server *s, yk__client *c, const yk__up *up)
{
    const bool fits = s->listener && up->hello == s->listener->identity;
    c->alive = (yk__down){.magic = YK__MAGIC, .kind = fits ? YK__DOWN_ALIVE : YK__DOWN_REFUSED};
    if (fits && s->chief)
        yk_note("a worker has joined: %d train now", s->here);
    if (!fits) {
        c->here = false;
        c->bye = true;
        s->here--;
        if (s->chief)
            yk_warn("refused a worker that tried to join: its program, options, data or model differ from "
                    "those of the job");
    }
    return yk_comm_send(s->config.comm, c->peer, YK__TAG_DOWN, YK_FOR_CONTROL, &c->alive, sizeof c->alive,
                        &c->alive_op);
}
