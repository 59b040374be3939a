/* Instances of the native transport, and how the ranks of a job find each other (native.h): rank 0 collects what each rank says about itself, and sends the table
 * to all. Ranks that cannot share memory connect to each other, the higher rank to the lower one. */
#include "comm/native_internal.h"

#include "base/clock.h"
#include "base/wait.h"
#include "comm/comm_internal.h"
#include <errno.h>
#include <math.h>
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
enum { NONE = -1, GONE = -2 }; /* instead of a socket: not connected yet; was stopped before */

/* Ranks that connect in the meantime are told that the job ends; later ones wait for rank 0 until their timeout. */
static const double leave_seconds = 3.0;

typedef struct {
    yk_hello hello;
    char host[INET6_ADDRSTRLEN]; /* "": a Unix socket */
} entry;

typedef struct {
    yk__native *t;
    double until;
    entry *table;          /* [size] */
    int *fd;               /* [size] rank 0: to each rank; else only [0]; NONE, GONE */
    yk_listener *listener; /* of this rank; NULL: none */
} rendezvous;

/* ---- peers ---- */

static bool watch(yk__native *t, int fd, int what, int index)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)what << 32 | (uint32_t)index};
    return epoll_ctl(t->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static const unsigned char *token_of(const yk__native *t)
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
    if (fd >= 0 && !watch(t, fd, YK__EVENT_SOCKET, index))
        return yk_fail(YK_ESYSTEM, "cannot add a connection to epoll: %s", strerror(errno));
    t->watched += fd >= 0;
    if (fd < 0 && index != t->rank) { /* shares memory: the kernel says when its process ends */
        p->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)hello->pid, 0);
        p->exited = p->pidfd < 0 && errno == ESRCH;
        if (p->pidfd >= 0)
            watch(t, p->pidfd, YK__EVENT_PROCESS, index);
    }
    t->npeers++;
    return YK_OK;
}

/* ---- addresses ---- */

/* The address of one end of a connection; "": a Unix socket. */
static void address_of(int fd, bool own, char *out, size_t size)
{
    struct sockaddr_storage at = {0};
    socklen_t n = sizeof at;
    const struct sockaddr_in6 *six = (struct sockaddr_in6 *)&at;
    *out = '\0';
    if ((own ? getsockname : getpeername)(fd, (struct sockaddr *)&at, &n))
        return;
    if (at.ss_family == AF_INET)
        inet_ntop(AF_INET, &((struct sockaddr_in *)&at)->sin_addr, out, (socklen_t)size);
    else if (at.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
        inet_ntop(AF_INET, six->sin6_addr.s6_addr + 12, out, (socklen_t)size);
    else if (at.ss_family == AF_INET6)
        inet_ntop(AF_INET6, &six->sin6_addr, out, (socklen_t)size);
}

static bool is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

/* Ranks on the host of rank 0 may reach it by a loopback address, which the others cannot use: they get the one by which the
 * others reach rank 0. */
static void replace_loopback(rendezvous *r)
{
    char host[INET6_ADDRSTRLEN] = "";
    for (int i = 1; i < r->t->size && !*host; i++)
        if (!is_loopback(r->table[i].host))
            address_of(r->fd[i], true, host, sizeof host);
    for (int i = 0; *host && i < r->t->size; i++)
        if (i == 0 || is_loopback(r->table[i].host))
            memcpy(r->table[i].host, host, sizeof host);
}

/* Where a rank listens, unless it is rank 0 at `master`. */
static void listen_address(const rendezvous *r, int rank, char *out, size_t size)
{
    const entry *e = &r->table[rank];
    if (strncmp(r->t->master, "unix:", 5) == 0)
        snprintf(out, size, "%.200s-%d", r->t->master, rank);
    else
        snprintf(out, size, strchr(e->host, ':') ? "[%s]:%d" : "%s:%d", e->host, e->hello.port);
}

/* ---- collecting the table ---- */

static yk_status name_missing(const rendezvous *r, const char *what)
{
    char ranks[256] = "";
    int missing = 0;
    for (int i = 0; i < r->t->size; i++)
        if (i != r->t->rank && r->fd[i] < 0 && ++missing && strlen(ranks) < sizeof ranks - 16)
            snprintf(ranks + strlen(ranks), sizeof ranks - strlen(ranks), "%s%d", *ranks ? ", " : "", i);
    return yk_fail(YK_ELOST,
                   "rank%s %s did not %s within %.0f s; check that every process was started and can "
                   "reach %s",
                   missing == 1 ? "" : "s", ranks, what, r->t->timeout, r->t->master);
}

/* Waits until the listener may have something to do. False: it is too late. */
static bool wait_for_listener(const rendezvous *r)
{
    struct pollfd p = {.fd = yk_listener_descriptor(r->listener), .events = POLLIN};
    const double left = r->until - yk_now();
    if (left > 0.0)
        poll(&p, 1, left < 0.1 ? (int)(left * 1e3) + 1 : 100);
    return left > 0.0;
}

/* A rank that will not take part has connected to say so. Returns whether it had not connected before. */
static bool note_leaving(rendezvous *r, const yk_hello *hello, int fd)
{
    const bool known = hello->rank >= 0 && hello->rank < r->t->size,
               is_new = known && r->fd[hello->rank] == NONE;
    close(fd);
    atomic_store(&r->t->leaving, true);
    if (is_new)
        r->fd[hello->rank] = GONE;
    return is_new;
}

/* Accepts the connections of ranks from `first` on; rank i is at fd[i]. YK_EINTERRUPTED: one was stopped. */
static yk_status accept_ranks(rendezvous *r, int first, int count)
{
    for (bool leaving = false; count > 0;) {
        yk_hello hello;
        const int fd = yk_listener_accept(r->listener, &hello);
        if (!leaving && (leaving = atomic_load(&r->t->leaving)))
            r->until = fmin(r->until, yk_now() + leave_seconds);
        if (fd < 0 && !wait_for_listener(r)) {
            if (leaving)
                break;
            return name_missing(r, "connect");
        }
        if (fd < 0)
            continue;
        if (hello.size == LEAVES) {
            count -= note_leaving(r, &hello, fd);
            continue;
        }
        if (hello.size != r->t->size || hello.rank < first || hello.rank >= r->t->size ||
            r->fd[hello.rank] >= 0) {
            close(fd);
            return yk_fail(YK_EUSAGE,
                           "a process connected as rank %d of %d to rank %d of %d: the numbers of processes "
                           "differ, or two processes have the same rank; check how they were started",
                           hello.rank, hello.size, r->t->rank, r->t->size);
        }
        r->fd[hello.rank] = fd;
        r->table[hello.rank].hello = hello;
        address_of(fd, false, r->table[hello.rank].host, sizeof r->table->host);
        count--;
    }
    return atomic_load(&r->t->leaving) ? yk_fail(YK_EINTERRUPTED, "a rank was stopped by a signal") : YK_OK;
}

static size_t table_bytes(const rendezvous *r)
{
    return (size_t)r->t->size * sizeof *r->table;
}

/* Rank 0 sends `bytes` bytes to every rank that can be reached. */
static yk_status send_to_all(rendezvous *r, const void *data, size_t bytes)
{
    yk_status st = YK_OK;
    for (int i = 1; i < r->t->size; i++)
        if (r->fd[i] >= 0 && !yk_socket_send_all(r->fd[i], data, bytes, r->until))
            st = yk_fail(YK_ELOST, "rank %d has ended, or cannot be reached", i);
    return st;
}

static yk_status exchange_table(rendezvous *r, const yk_hello *mine)
{
    yk__native *t = r->t;
    yk_status st;
    if (t->rank == 0) {
        r->table[0].hello = *mine;
        st = accept_ranks(r, 1, t->size - 1);
        if (st == YK_EINTERRUPTED)
            r->table[0].hello.size = LEAVES;
        else if (st)
            return st;
        else
            replace_loopback(r);
        if (st)
            r->until = yk_now() + 1.0;
        const yk_status sent = send_to_all(r, r->table, table_bytes(r));
        atomic_store(&t->told, true);
        return st ? st : sent;
    }
    st = yk_dial(t->master, token_of(t), mine, r->until - yk_now(), &r->fd[0]);
    if (st)
        return yk_fail(st, "rank %d cannot reach rank 0: %s", t->rank, yk_error());
    if (!yk_socket_recv_all(r->fd[0], r->table, table_bytes(r), r->until))
        return yk_fail(YK_ELOST, "rank 0 ended before all processes were connected; its error says why");
    return r->table[0].hello.size == LEAVES ? YK_EINTERRUPTED : YK_OK;
}

/* Rank 0 tells the others in the thread that accepts them. */
void yk__native_leave_early(yk__native *t)
{
    const yk_hello hello = {.rank = t->rank, .size = LEAVES, .segment = -1};
    int fd;
    atomic_store(&t->leaving, true);
    for (yk_wait w = yk_wait_every(0.01, leave_seconds + 1.0);
         t->rank == 0 && !atomic_load(&t->told) && yk_wait_poll(&w);)
        ;
    if (t->rank > 0 && !yk_dial(t->master, token_of(t), &hello, 1.0, &fd))
        close(fd);
}

/* ---- connections ---- */

static bool same_host(const rendezvous *r, int rank)
{
    const yk_hello *a = &r->table[rank].hello, *b = &r->table[r->t->rank].hello;
    return a->host == b->host && a->segment >= 0 && b->segment >= 0;
}

/* Connects to the lower ranks that do not share memory with this one, and accepts connections of the higher ones. Those with
 * rank 0 exist. */
static yk_status connect_others(rendezvous *r)
{
    yk__native *t = r->t;
    yk_status st = YK_OK;
    int higher = 0;
    if (t->rank == 0)
        return YK_OK;
    for (int i = t->rank + 1; i < t->size; i++)
        higher += !same_host(r, i);
    if (higher && !r->listener) {
        char address[YK_ADDRESS_MAX];
        listen_address(r, t->rank, address, sizeof address);
        st = yk_listener_create(address, -1, token_of(t), &r->listener);
    }
    for (int i = 1; !st && i < t->rank; i++) {
        char address[YK_ADDRESS_MAX];
        if (same_host(r, i))
            continue;
        listen_address(r, i, address, sizeof address);
        if ((st = yk_dial(address, token_of(t), &r->table[t->rank].hello, r->until - yk_now(), &r->fd[i])))
            yk_fail(st, "rank %d cannot reach rank %d: %s", t->rank, i, yk_error());
    }
    return st || !higher ? st : accept_ranks(r, t->rank + 1, higher);
}

/* A peer on this host needs no socket: it shares its memory. */
static yk_status make_peer(rendezvous *r, int rank)
{
    yk__native *t = r->t;
    yk__native_peer *p = &t->peer[rank];
    const yk_hello *hello = &r->table[rank].hello;
    const bool shares = rank != t->rank && same_host(r, rank);
    if (shares && r->fd[rank] >= 0) {
        close(r->fd[rank]);
        r->fd[rank] = NONE;
    }
    const yk_status st = yk__native_add_peer(t, r->fd[rank], hello);
    if (st)
        return st;
    r->fd[rank] = NONE;
    p->shares_memory = shares;
    struct pollfd end = {.fd = p->pidfd, .events = POLLIN};
    for (yk_wait w = yk_wait_every(0.01, 1.0);
         shares && !p->exited && !yk_segment_open(hello->pid, hello->segment, t->size, &p->out);) {
        p->exited = poll(&end, 1, 0) == 1; /* perhaps it has sent something before */
        if (!p->exited && !yk_wait_poll(&w))
            return yk_fail(
                YK_ESYSTEM,
                "rank %d cannot open the shared memory of rank %d; set YOKE_SHARED_MEMORY=0 to use "
                "sockets",
                t->rank, rank);
    }
    return YK_OK;
}

static yk_status connect_ranks(rendezvous *r)
{
    yk__native *t = r->t;
    const bool local = strncmp(t->master, "unix:", 5) == 0;
    yk_status st = YK_OK;
    if (t->rank == 0)
        st = yk_listener_create(t->master, t->listen_fd, token_of(t), &r->listener);
    else if (!local)
        st = yk_listener_create("[::]:0", -1, token_of(t), &r->listener);
    if (st == YK_ESYSTEM && !local && t->rank == 0)
        yk_fail(st, "rank 0 cannot accept connections: %s; set YOKE_PORT to a free port, in all processes",
                yk_error());
    const yk_hello mine = {.rank = t->rank,
                           .size = t->size,
                           .pid = getpid(),
                           .host = yk__host_id(),
                           .segment = t->segment.at && prctl(PR_GET_DUMPABLE) == 1 ? t->segment.fd : -1,
                           .port = r->listener ? yk_listener_port(r->listener) : 0};
    if (!st && !(st = exchange_table(r, &mine)) && !is_loopback(r->table[t->rank].host))
        memcpy(t->host, r->table[t->rank].host, sizeof t->host);
    if (!st)
        st = connect_others(r);
    for (int i = 0; !st && i < t->size; i++)
        st = make_peer(r, i);
    return st;
}

static yk_status connect_all(yk__native *t)
{
    rendezvous r = {.t = t,
                    .until = yk_now() + t->timeout,
                    .table = calloc((size_t)t->size, sizeof *r.table),
                    .fd = calloc((size_t)t->size, sizeof *r.fd)};
    yk_status st =
        r.table && r.fd ? YK_OK : yk_fail_memory((size_t)t->size * sizeof *r.table, "the processes");
    for (int i = 0; !st && i < t->size; i++)
        r.fd[i] = NONE;
    if (!st && !t->sockets)
        st = yk_segment_create(t->size, &t->segment);
    if (!st)
        st = connect_ranks(&r);
    for (int i = 0; r.fd && i < t->size; i++)
        if (r.fd[i] > 0)
            close(r.fd[i]);
    yk_listener_free(r.listener);
    free(r.fd);
    free(r.table);
    return st;
}

int yk__native_start(void *self, yk_world *out)
{
    yk__native *t = self;
    const yk_status st = t->size > 1 ? connect_all(t) : YK_OK;
    if (st)
        return st == YK_EINTERRUPTED ? YK_TRANSPORT_STOPPED : YK_TRANSPORT_STATUS - (int)st;
    atomic_store(&t->started, true);
    *out = (yk_world){.rank = t->rank, .size = t->size, .processes = true};
    memcpy(out->host, t->host, sizeof t->host);
    snprintf(out->library, sizeof out->library, "%s",
             t->sockets   ? "sockets"
             : t->watched ? "shared memory and TCP"
                          : "shared memory");
    return 0;
}

/* ---- instances ---- */

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
    *out = (yk_transport){&yk__native_ops, t};
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
    if (!st && !watch(t, yk_listener_descriptor(t->listener), YK__EVENT_LISTENER, 0))
        st = yk_fail(YK_ESYSTEM, "%s: %s", address, strerror(errno));
    if (st) {
        yk__native_free(t);
        return st;
    }
    t->watched++;
    atomic_store(&t->started, true);
    yk_listener_address(t->listener, bound_out);
    *out = (yk_transport){&yk__native_ops, t};
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
        *out = (yk_transport){&yk__native_ops, t};
    return st;
}
