/* Instances of the native transport, and how the ranks of a job find each other (native.h): rank 0 gathers what each rank says
 * about itself, and broadcasts it. Ranks that cannot share memory connect to each other, the higher rank to the lower one. */
#include "comm/native_internal.h"

#include "base/clock.h"
#include "base/wait.h"
#include "comm/comm_internal.h"
#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LEAVES = -1 }; /* instead of the number of ranks: a rank was stopped by a signal, which ends the job */

/* Ranks that connect in the meantime are told that the job ends; later ones wait for rank 0 until their timeout. */
static const double leave_seconds = 3.0;

/* ---- addresses ---- */

/* The address of one end of a connection; "": a Unix socket. */
static void address_of(int fd, bool own, char *out, size_t size)
{
    struct sockaddr_storage at = {0};
    socklen_t n = sizeof at;
    *out = '\0';
    (own ? getsockname : getpeername)(fd, (struct sockaddr *)&at, &n);
    if (at.ss_family != AF_UNIX)
        getnameinfo((struct sockaddr *)&at, n, out, (socklen_t)size, NULL, 0, NI_NUMERICHOST);
    if (strncmp(out, "::ffff:", 7) == 0) /* IPv4 */
        memmove(out, out + 7, strlen(out + 7) + 1);
}

static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

/* Ranks on the host of rank 0 may reach it by a loopback address, which the others cannot use: they get the one by which the
 * others reach rank 0. */
static void replace_loopback(yk__native *t)
{
    char address[INET6_ADDRSTRLEN] = "";
    for (int i = 1; i < t->job.size && !*address; i++)
        if (!is_loopback(t->hello[i].address))
            address_of(t->peer[i].fd, true, address, sizeof address);
    for (int i = 0; *address && i < t->job.size; i++)
        if (i == 0 || is_loopback(t->hello[i].address))
            memcpy(t->hello[i].address, address, sizeof address);
}

/* Where a rank listens, unless it is rank 0 at `master`. */
static const char *listen_address(const yk__native *t, int rank, char out[static YK_ADDRESS_MAX])
{
    const yk_hello *h = &t->hello[rank];
    if (strncmp(t->job.master, "unix:", 5) == 0)
        snprintf(out, YK_ADDRESS_MAX, "%.200s-%d", t->job.master, rank);
    else
        snprintf(out, YK_ADDRESS_MAX, strchr(h->address, ':') ? "[%s]:%d" : "%s:%d", h->address, h->port);
    return out;
}

/* ---- what the ranks say about themselves ---- */

static yk_status name_missing(const yk__native *t)
{
    char ranks[256] = "";
    int missing = 0;
    for (int i = 0; i < t->job.size; i++)
        if (i != t->job.rank && t->peer[i].fd < 0 && ++missing && strlen(ranks) < sizeof ranks - 16)
            snprintf(ranks + strlen(ranks), sizeof ranks - strlen(ranks), "%s%d", *ranks ? ", " : "", i);
    return yk_fail(YK_ELOST,
                   "rank%s %s did not connect within %.0f s; check that every process was started and can "
                   "reach %s",
                   missing == 1 ? "" : "s", ranks, t->timeout, t->job.master);
}

/* Accepts the connections of `count` ranks, from `first` on. YK_EINTERRUPTED: one was stopped. */
static yk_status accept_ranks(yk__native *t, int first, int count)
{
    while (count > 0) {
        yk_hello hello;
        const int fd = yk_listener_accept(t->listener, fmin(fmax(t->until - yk_now(), 0.0), 0.1), &hello);
        if (atomic_load(&t->leaving))
            t->until = fmin(t->until, yk_now() + leave_seconds);
        if (fd < 0 && yk_now() < t->until)
            continue;
        if (fd < 0 && atomic_load(&t->leaving))
            break;
        if (fd < 0)
            return name_missing(t);
        yk__native_peer *p = hello.rank >= first && hello.rank < t->job.size ? &t->peer[hello.rank] : NULL;
        const bool leaves = hello.size == LEAVES, is_new = p && p->fd < 0;
        if (!leaves && (!is_new || hello.size != t->job.size)) {
            close(fd);
            return yk_fail(YK_EUSAGE,
                           "a process connected as rank %d of %d to rank %d of %d: the numbers of processes "
                           "differ, or two processes have the same rank; check how they were started",
                           hello.rank, hello.size, t->job.rank, t->job.size);
        }
        if (leaves) /* it has connected to announce that it will not take part */
            atomic_store(&t->leaving, true);
        if (!is_new) {
            close(fd);
            continue;
        }
        p->fd = fd;
        t->hello[hello.rank] = hello;
        address_of(fd, false, t->hello[hello.rank].address, sizeof hello.address);
        count--;
    }
    return atomic_load(&t->leaving) ? yk_fail(YK_EINTERRUPTED, "a rank was stopped by a signal") : YK_OK;
}

/* Connects to a lower rank. */
static yk_status dial(yk__native *t, int rank, const char *address)
{
    const yk_status st =
        yk_dial(address, t->job.token, &t->hello[t->job.rank], t->until - yk_now(), &t->peer[rank].fd);
    return st ? yk_fail(st, "rank %d cannot reach rank %d: %s", t->job.rank, rank, yk_error()) : YK_OK;
}

/* Rank 0 sends to all ranks that it can reach what they said about themselves, or that the job ends. */
static yk_status exchange_hellos(yk__native *t)
{
    const size_t bytes = (size_t)t->job.size * sizeof *t->hello;
    if (t->job.rank > 0) {
        yk_status st = dial(t, 0, t->job.master);
        if (!st && !yk_socket_transfer(t->peer[0].fd, false, t->hello, bytes, t->until))
            st = yk_fail(YK_ELOST, "rank 0 ended before all processes were connected; its error says why");
        return !st && t->hello[0].size == LEAVES ? YK_EINTERRUPTED : st;
    }
    yk_status st = accept_ranks(t, 1, t->job.size - 1);
    if (st == YK_EINTERRUPTED) {
        t->hello[0].size = LEAVES;
        t->until = yk_now() + 1.0;
    } else if (st) {
        return st;
    } else {
        replace_loopback(t);
    }
    for (int i = 1; i < t->job.size; i++)
        if (t->peer[i].fd >= 0 && !yk_socket_transfer(t->peer[i].fd, true, t->hello, bytes, t->until) && !st)
            st = yk_fail(YK_ELOST, "rank %d has ended, or cannot be reached", i);
    atomic_store(&t->told, true);
    return st;
}

/* Rank 0 tells the others in the thread that accepts them. */
void yk__native_leave_early(yk__native *t)
{
    const yk_hello hello = {.rank = t->job.rank, .size = LEAVES, .segment = -1};
    int fd;
    atomic_store(&t->leaving, true);
    for (yk_wait w = yk_wait_every(0.01, leave_seconds + 1.0);
         t->job.rank == 0 && !atomic_load(&t->told) && yk_wait_poll(&w);)
        ;
    if (t->job.rank > 0 && !yk_dial(t->job.master, t->job.token, &hello, 1.0, &fd))
        close(fd);
}

/* ---- connections ---- */

static bool watch(yk__native *t, int fd, int what, int index)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)what << 32 | (uint32_t)index};
    return epoll_ctl(t->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

yk_status yk__native_add_peer(yk__native *t, int fd, pid_t pid)
{
    const int index = t->npeers;
    yk__native_peer *p = &t->peer[index];
    if (fd >= 0 && !watch(t, fd, YK__EVENT_SOCKET, index))
        return yk_fail(YK_ESYSTEM, "cannot add a connection to epoll: %s", strerror(errno));
    p->fd = fd;
    t->watched += fd >= 0;
    if (fd < 0 && index != t->job.rank) { /* shares memory: the kernel says when its process ends */
        p->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        p->exited = t->input = p->pidfd < 0 && errno == ESRCH;
        if (p->pidfd >= 0)
            watch(t, p->pidfd, YK__EVENT_PROCESS, index);
    }
    t->npeers++;
    return YK_OK;
}

static bool shares_memory(const yk__native *t, int rank)
{
    const yk_hello *a = &t->hello[rank], *b = &t->hello[t->job.rank];
    return rank != t->job.rank && a->host == b->host && a->segment >= 0 && b->segment >= 0;
}

/* Connects to the lower ranks that do not share memory with this one, and accepts connections of the higher ones. Those with
 * rank 0 exist. */
static yk_status connect_others(yk__native *t)
{
    char address[YK_ADDRESS_MAX];
    yk_status st = YK_OK;
    int higher = 0;
    if (t->job.rank == 0)
        return YK_OK;
    for (int i = t->job.rank + 1; i < t->job.size; i++)
        higher += !shares_memory(t, i);
    if (higher && !t->listener)
        st = yk_listener_create(listen_address(t, t->job.rank, address), -1, t->job.token, &t->listener);
    for (int i = 1; !st && i < t->job.rank; i++)
        if (!shares_memory(t, i))
            st = dial(t, i, listen_address(t, i, address));
    return st || !higher ? st : accept_ranks(t, t->job.rank + 1, higher);
}

/* A peer on this host needs no socket: it shares its memory. */
static yk_status make_peer(yk__native *t, int rank)
{
    yk__native_peer *p = &t->peer[rank];
    const yk_hello *h = &t->hello[rank];
    const bool shares = shares_memory(t, rank);
    if (shares && p->fd >= 0)
        close(p->fd);
    const yk_status st = yk__native_add_peer(t, shares ? -1 : p->fd, (pid_t)h->pid);
    if (st)
        return st;
    p->shares_memory = shares;
    struct pollfd end = {.fd = p->pidfd, .events = POLLIN};
    for (yk_wait w = yk_wait_every(0.01, 1.0);
         shares && !p->exited && !yk_segment_open(h->pid, h->segment, t->job.size, &p->out);) {
        p->exited = poll(&end, 1, 0) == 1; /* perhaps it has sent something before */
        if (!p->exited && !yk_wait_poll(&w))
            return yk_fail(
                YK_ESYSTEM,
                "rank %d cannot open the shared memory of rank %d; set YOKE_SHARED_MEMORY=0 to use "
                "sockets",
                t->job.rank, rank);
    }
    return YK_OK;
}

static yk_status connect_ranks(yk__native *t)
{
    const bool local = strncmp(t->job.master, "unix:", 5) == 0;
    yk_status st = YK_OK;
    t->until = yk_now() + t->timeout;
    if (t->job.rank == 0)
        st = yk_listener_create(t->job.master, t->job.listen_fd, t->job.token, &t->listener);
    else if (!local)
        st = yk_listener_create("[::]:0", -1, t->job.token, &t->listener);
    if (st == YK_ESYSTEM && !local && t->job.rank == 0)
        yk_fail(st, "rank 0 cannot accept connections: %s; set YOKE_PORT to a free port, in all processes",
                yk_error());
    t->hello[t->job.rank] =
        (yk_hello){.rank = t->job.rank,
                   .size = t->job.size,
                   .pid = getpid(),
                   .host = yk__host_id(),
                   .segment = t->segment.at && prctl(PR_GET_DUMPABLE) == 1 ? t->segment.fd : -1,
                   .port = t->listener ? yk_listener_port(t->listener) : 0};
    if (!st && !(st = exchange_hellos(t)))
        st = connect_others(t);
    for (int i = 0; !st && i < t->job.size; i++)
        st = make_peer(t, i);
    yk_listener_free(t->listener);
    t->listener = NULL;
    return st;
}

int yk__native_start(void *self, yk_world *out)
{
    yk__native *t = self;
    yk_status st = YK_OK;
    if (t->job.size > 1 && !t->sockets)
        st = yk_segment_create(t->job.size, &t->segment);
    if (!st && t->job.size > 1)
        st = connect_ranks(t);
    if (st)
        return st == YK_EINTERRUPTED ? YK_TRANSPORT_STOPPED : YK_TRANSPORT_STATUS - (int)st;
    atomic_store(&t->started, true);
    *out = (yk_world){.rank = t->job.rank, .size = t->job.size, .processes = true};
    const char *address = t->hello[t->job.rank].address;
    snprintf(out->host, sizeof out->host, "%s", is_loopback(address) ? "" : address);
    snprintf(out->library, sizeof out->library, "%s",
             t->sockets   ? "sockets"
             : t->watched ? "shared memory and TCP"
                          : "shared memory");
    return 0;
}

/* ---- instances ---- */

yk_status yk__native_create(const char *token, int peers, yk__native **out)
{
    const size_t bytes = sizeof(yk__native) + (size_t)peers * (sizeof(yk__native_peer) + sizeof(yk_hello));
    yk__native *t = calloc(1, bytes);
    if (!t) {
        yk_fail_memory(bytes, "the connections");
        return YK_ESYSTEM;
    }
    *t = (yk__native){
        .hello = (yk_hello *)&t->peer[peers], .max_peers = peers, .job.rank = -1, .aborted_by = -1};
    for (int i = 0; i < peers; i++) {
        yk__native_peer *p = &t->peer[i];
        *p = (yk__native_peer){.fd = -1, .pidfd = -1, .out.fd = -1};
        TAILQ_INIT(&p->outputs);
        TAILQ_INIT(&p->posted);
    }
    t->segment.fd = -1;
    snprintf(t->job.token, sizeof t->job.token, "%s", token);
    TAILQ_INIT(&t->stored);
    t->epoll = epoll_create1(EPOLL_CLOEXEC);
    *out = t;
    if (t->epoll >= 0)
        return YK_OK;
    const yk_status st = yk_fail(YK_ESYSTEM, "cannot create an epoll instance: %s", strerror(errno));
    yk__native_free(t);
    return st;
}

yk_status yk_native_create(const yk_rendezvous *job, double timeout, bool sockets, yk_transport *out)
{
    yk__native *t;
    const yk_status st = yk__native_create("", job->size, &t);
    if (st)
        return st;
    t->job = *job;
    t->timeout = timeout;
    t->sockets = sockets;
    *out = (yk_transport){&yk__native_ops, t};
    return YK_OK;
}

yk_status yk_native_listen(const char *address, const char *token, yk_address *bound_out, yk_transport *out)
{
    yk__native *t;
    yk_status st = yk__native_create(token, YK_MAX_JOINED, &t);
    if (st)
        return st;
    st = yk_listener_create(address, -1, token, &t->listener);
    if (st) {
        yk__native_free(t);
        return st;
    }
    if (yk_listener_port(t->listener))
        snprintf(bound_out->text, sizeof bound_out->text, "%.*s:%d", (int)(strrchr(address, ':') - address),
                 address, yk_listener_port(t->listener));
    else
        snprintf(bound_out->text, sizeof bound_out->text, "%s", address);
    *out = (yk_transport){&yk__native_ops, t};
    return YK_OK;
}

yk_status yk_native_connect(const yk_address *address, int n, const char *token, double timeout,
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
            st = yk__native_add_peer(t, fd, 0);
    }
    if (st)
        yk__native_free(t);
    else
        *out = (yk_transport){&yk__native_ops, t};
    return st;
}
