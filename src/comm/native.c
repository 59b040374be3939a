#include "comm/native_internal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/wait.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

static const double end_timeout = 5.0; /* seconds for what was sent to leave this process */

static const double events_every =
    2e-3; /* seconds: a job of many processes asks for each peer whether it is lost */

/* ---- peers ---- */

const unsigned char *yk__native_token(const yk__native *t)
{
    return t->has_token ? t->token : NULL;
}

/* A peer with the socket `fd`, which it owns; -1: none. */
yk_status yk__native_add_peer(yk__native *t, int fd, const yk_hello *hello)
{
    const int index = t->npeers;
    yk__native_peer *p = &t->peer[index];
    *p = (yk__native_peer){.hello = *hello, .fd = fd, .pidfd = -1, .out.fd = -1};
    TAILQ_INIT(&p->outputs);
    TAILQ_INIT(&p->announced);
    TAILQ_INIT(&p->posted);
    TAILQ_INIT(&p->granted);
    if (fd >= 0 && !yk__native_watch(t, fd, YK__EVENT_SOCKET, index))
        return yk_fail(YK_ESYSTEM, "cannot add a connection to epoll: %s", strerror(errno));
    t->watched += fd >= 0;
    if (fd < 0 && index != t->rank) { /* shares memory: the kernel says when its process ends */
        p->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)hello->pid, 0);
        p->exited = p->pidfd < 0 && errno == ESRCH;
        if (p->pidfd >= 0)
            yk__native_watch(t, p->pidfd, YK__EVENT_PROCESS, index);
    }
    t->npeers++;
    return YK_OK;
}

/* Also those that are done but were never tested. */
static void free_requests(yk__native *t)
{
    for (yk__message *r; (r = LIST_FIRST(&t->requests));) {
        LIST_REMOVE(r, of_all);
        free(r);
    }
}

/* Forgets its requests. */
static void clear_peer(yk__native *t, yk__native_peer *p)
{
    if (p->store && p->store->wanted) { /* is in no list */
        free(p->store->data);
        free(p->store);
    }
    p->receiver = NULL;
    p->store = NULL;
    for (yk__output *o; (o = TAILQ_FIRST(&p->outputs));) {
        TAILQ_REMOVE(&p->outputs, o, entry);
        free(o);
    }
    TAILQ_INIT(&p->announced);
    TAILQ_INIT(&p->posted);
    TAILQ_INIT(&p->granted);
    for (yk__stored *s = TAILQ_FIRST(&t->stored), *next; s; s = next) {
        next = TAILQ_NEXT(s, entry);
        if (s->peer != p - t->peer)
            continue;
        TAILQ_REMOVE(&t->stored, s, entry);
        free(s->data);
        free(s);
    }
    p->got = 0;
    p->broken = true;
}

void yk__native_free(yk__native *t)
{
    for (int i = 0; i < t->npeers; i++) {
        yk__native_peer *p = &t->peer[i];
        clear_peer(t, p);
        yk_segment_free(&p->out);
        free(p->buffer);
        if (p->fd >= 0)
            close(p->fd);
        if (p->pidfd >= 0)
            close(p->pidfd);
    }
    free_requests(t);
    yk_segment_free(&t->segment);
    yk_listener_free(t->listener);
    if (t->epoll >= 0)
        close(t->epoll);
    free(t->peer);
    free(t);
}

/* ---- start and end ---- */

static int native_start(void *self, yk_world *out)
{
    yk__native *t = self;
    const yk_status st = t->size > 1 ? yk__native_connect_ranks(t) : YK_OK;
    if (st) {
        snprintf(t->error, sizeof t->error, "%s", yk_error());
        return st == YK_EINTERRUPTED ? YK_TRANSPORT_STOPPED : YK_TRANSPORT_STATUS - (int)st;
    }
    atomic_store(&t->started, true);
    *out = (yk_world){.rank = t->rank, .size = t->size, .processes = true};
    memcpy(out->host, t->host, sizeof t->host);
    snprintf(out->library, sizeof out->library, "%s",
             t->sockets   ? "sockets"
             : t->watched ? "shared memory and TCP"
                          : "shared memory");
    return 0;
}

static void send_to_all(yk__native *t, yk__frame_kind kind, int status, double seconds)
{
    for (int i = 0; i < t->npeers; i++)
        if (!yk__native_is_lost(t, &t->peer[i]) && (t->peer[i].fd >= 0 || t->peer[i].shares_memory))
            yk__native_queue(t, &t->peer[i], (yk__frame){.kind = kind, .tag = status}, NULL);
    yk__native_flush(t, yk_now() + seconds);
}

/* Closing a socket that has unread bytes may discard bytes that were sent. So each end waits for the leave message of the other. */
static bool all_left(const yk__native *t)
{
    for (int i = 0; i < t->npeers; i++)
        if (t->peer[i].fd >= 0 && !yk__native_is_lost(t, &t->peer[i]))
            return false;
    return true;
}

static void native_stop(void *self)
{
    yk__native *t = self;
    yk_wait w = yk_wait_every(1e-4, end_timeout);
    send_to_all(t, YK__FRAME_LEAVE, 0, end_timeout);
    while (!all_left(t) && yk_wait_poll(&w))
        yk__native_progress(t);
    yk__native_free(t);
}

static void native_abort(void *self, int status)
{
    yk__native *t = self;
    if (atomic_load(&t->started))
        send_to_all(t, YK__FRAME_ABORT, status, 1.0);
    else /* another thread of this process is connecting the ranks */
        yk__native_leave_early(t);
}

static void native_error_text(void *self, int code, char *out, size_t size)
{
    static const char *const text[] = {
        [YK__CODE_TOO_LONG] = "the message is longer than its buffer", [YK__CODE_MEMORY] = "out of memory"};
    const yk__native *t = self;
    if (code <= YK_TRANSPORT_STATUS)
        snprintf(out, size, "%s", t->error);
    else if (code == YK__CODE_ABORTED)
        snprintf(out, size, "rank %d has failed, and ended the job", t->aborted_by);
    else
        snprintf(out, size, "%s", text[code]);
}

/* ---- messages ---- */

static yk__message *new_request(yk__native *t, int peer, int tag, void *buf, size_t bytes)
{
    yk__message *r = malloc(sizeof *r);
    if (!r)
        return NULL;
    *r = (yk__message){.peer = peer, .tag = tag, .buf = buf, .bytes = bytes};
    LIST_INSERT_HEAD(&t->requests, r, of_all);
    return r;
}

static int aborted(const yk__native *t)
{
    return t->aborted_by < 0 ? 0 : t->aborted_status ? YK__CODE_ABORTED : YK_TRANSPORT_STOPPED;
}

static yk__message *request_of(uint64_t handle)
{
    return (yk__message *)(uintptr_t)handle;
}

static int native_send(void *self, int peer, int tag, const void *buf, size_t bytes, uint64_t *request_out)
{
    yk__message *r = new_request(self, peer, tag, (void *)(uintptr_t)buf, bytes);
    *request_out = (uintptr_t)r;
    return r ? yk__native_send(self, r) : YK__CODE_MEMORY;
}

static int native_recv(void *self, int peer, int tag, void *buf, size_t cap, uint64_t *request_out)
{
    yk__message *r = new_request(self, peer, tag, buf, cap);
    *request_out = (uintptr_t)r;
    return r ? yk__native_receive(self, r) : YK__CODE_MEMORY;
}

static int native_test(void *self, uint64_t *request, bool *done_out, size_t *bytes_out)
{
    yk__native *t = self;
    yk__message *r = request_of(*request);
    if (!r->done)
        yk__native_progress(t);
    *done_out = r->done;
    if (!r->done)
        return aborted(t);
    const int code = r->error;
    *bytes_out = r->bytes;
    LIST_REMOVE(r, of_all);
    free(r);
    return code;
}

static int native_probe(void *self, int peer, int tag, bool *found_out, yk_arrival *out)
{
    yk__native *t = self;
    const yk__stored *s = yk__native_find(t, peer, tag);
    if (!s) {
        yk__native_progress(t);
        s = yk__native_find(t, peer, tag);
    }
    *found_out = s;
    if (s)
        *out = (yk_arrival){s->peer, s->bytes};
    return s ? 0 : aborted(t);
}

static void native_abandon(void *self)
{
    yk__native *t = self;
    for (int i = 0; i < t->npeers; i++) {
        const yk__output *first = TAILQ_FIRST(&t->peer[i].outputs);
        const bool usable = (!first || !first->sent) && !yk__native_is_lost(t, &t->peer[i]);
        clear_peer(t, &t->peer[i]);
        t->peer[i].broken = !usable; /* to say that the job ends */
    }
    free_requests(t);
}

static bool native_lost(void *self, int peer)
{
    yk__native *t = self;
    const double now = yk_now();
    yk__native_progress(t);
    if (now - t->events_at > events_every) {
        t->events_at = now;
        yk__native_read_events(t);
    }
    return t->aborted_by >= 0 || yk__native_is_lost(t, &t->peer[peer]);
}

static int native_peers(void *self)
{
    yk__native *t = self;
    if (t->listener)
        yk__native_progress(t);
    return t->npeers;
}

/* ---- instances ---- */

static const yk_transport_ops ops = {.start = native_start,
                                     .stop = native_stop,
                                     .abort = native_abort,
                                     .error_text = native_error_text,
                                     .send = native_send,
                                     .recv = native_recv,
                                     .test = native_test,
                                     .probe = native_probe,
                                     .abandon = native_abandon,
                                     .lost = native_lost,
                                     .peers = native_peers};

yk_status yk__native_create(const unsigned char *token, int peers, yk__native **out)
{
    yk__native *t = calloc(1, sizeof *t);
    if (t)
        t->peer = calloc((size_t)peers, sizeof *t->peer);
    if (!t || !t->peer) {
        free(t);
        yk_fail_memory(sizeof *t, "the connections");
        return YK_ESYSTEM;
    }
    t->rank = -1;
    t->aborted_by = -1;
    t->listen_fd = -1;
    t->segment.fd = -1;
    t->has_token = token;
    if (token)
        memcpy(t->token, token, sizeof t->token);
    TAILQ_INIT(&t->stored);
    TAILQ_INIT(&t->blocked);
    t->epoll = epoll_create1(EPOLL_CLOEXEC);
    *out = t;
    if (t->epoll >= 0)
        return YK_OK;
    const yk_status st = yk_fail(YK_ESYSTEM, "cannot create an epoll instance: %s", strerror(errno));
    yk__native_free(t);
    return st;
}

yk_status yk_native_create(const yk_native_config *config, yk_transport *out)
{
    yk__native *t;
    const yk_status st = yk__native_create(config->token, config->size, &t);
    if (st)
        return st;
    t->rank = config->rank;
    t->size = config->size;
    snprintf(t->master, sizeof t->master, "%s", config->master ? config->master : "");
    t->listen_fd = config->listen_fd;
    t->timeout = config->timeout;
    t->sockets = config->sockets;
    *out = (yk_transport){&ops, t};
    return YK_OK;
}

yk_status yk_native_listen(const char *address, const unsigned char *token, yk_address *bound_out,
                           yk_transport *out)
{
    yk__native *t;
    yk_status st = yk__native_create(token, YK_MAX_JOINED, &t);
    if (st)
        return st;
    st = yk_listener_create(address, -1, token, &t->listener);
    if (!st && !yk__native_watch(t, yk_listener_descriptor(t->listener), YK__EVENT_LISTENER, 0))
        st = yk_fail(YK_ESYSTEM, "%s: %s", address, strerror(errno));
    if (st) {
        yk__native_free(t);
        return st;
    }
    t->watched++;
    atomic_store(&t->started, true);
    yk_listener_address(t->listener, bound_out);
    *out = (yk_transport){&ops, t};
    return YK_OK;
}

yk_status yk_native_connect(const yk_address *address, int n, const unsigned char *token, double timeout,
                            yk_transport *out)
{
    const double until = yk_now() + timeout;
    const yk_hello hello = {.rank = -1, .pid = getpid(), .segment = -1};
    yk__native *t;
    yk_status st = yk__native_create(token, n, &t);
    if (st)
        return st;
    for (int i = 0; !st && i < n; i++) {
        int fd;
        if (!(st = yk_dial(address[i].text, token, &hello, until - yk_now(), &fd)))
            st = yk__native_add_peer(t, fd, &hello);
    }
    atomic_store(&t->started, true);
    if (st)
        yk__native_free(t);
    else
        *out = (yk_transport){&ops, t};
    return st;
}
