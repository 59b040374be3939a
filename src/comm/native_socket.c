/* Authenticated connections: sockets whose other end has proven that it knows the token.
 *
 * Client and server send nonces of 32 bytes, then proofs; each message has a fixed length, and only nonces and proofs are
 * used before the other end is authenticated:
 *
 *     both     magic, nonce: C, S
 *     client   HMAC(token, "client" C S hello), hello
 *     server   HMAC(token, "server" C S); closes the connection if the client's is wrong
 *
 * Connections that are not authenticated yet are bounded in number and in time: when there are too many, the oldest is closed.
 * Without a token, both ends must be Unix sockets of the same user. */
#include "comm/native_internal.h"

#include "base/clock.h"
#include "base/number.h"
#include "base/sha256.h"
#include "base/wait.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { NONCE = 32, PROOF = YK_SHA256_BYTES, MAX_PENDING = 128 };
static const double handshake_timeout = 10.0;
static const char magic[8] = "yoke 4\n";

typedef struct {
    char magic[8];
    unsigned char nonce[NONCE];
} opening;

typedef struct {
    unsigned char proof[PROOF];
    yk_hello hello;
} introduction;

/* ---- sending and receiving with a deadline ---- */

static bool wait_for(int fd, short events, double until)
{
    struct pollfd p = {.fd = fd, .events = events};
    const double left = until - yk_now();
    return left > 0.0 && poll(&p, 1, (int)(left * 1e3) + 1) > 0;
}

static bool transient(void)
{
    return errno == EAGAIN || errno == EINTR;
}

bool yk_socket_transfer(int fd, bool send_it, void *data, size_t n, double until)
{
    for (char *p = data; n;) {
        const ssize_t k =
            send_it ? send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, p, n, MSG_DONTWAIT);
        if (k == 0 || (k < 0 && (!transient() || !wait_for(fd, send_it ? POLLOUT : POLLIN, until))))
            return false;
        p += k > 0 ? k : 0;
        n -= k > 0 ? (size_t)k : 0;
    }
    return true;
}

/* ---- proofs ---- */

static void prove(const char *token, const char *who, const unsigned char *client,
                  const unsigned char *server, const yk_hello *hello, unsigned char *out)
{
    unsigned char text[8 + 2 * NONCE + sizeof *hello] = {0};
    memcpy(text, who, strlen(who));
    memcpy(text + 8, client, NONCE);
    memcpy(text + 8 + NONCE, server, NONCE);
    if (hello)
        memcpy(text + 8 + 2 * NONCE, hello, sizeof *hello);
    yk_hmac_sha256(token, strlen(token), text, sizeof text, out);
}

static bool make_opening(opening *out)
{
    memcpy(out->magic, magic, sizeof magic);
    return getrandom(out->nonce, NONCE, 0) == NONCE;
}

/* Without a token, the kernel says who is at the other end. */
static bool same_user(int fd)
{
    struct ucred who;
    socklen_t size = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == geteuid();
}

static yk_status check_token(const char *address, const char *token)
{
    if (*token || yk_address_is_unix(address))
        return YK_OK;
    return yk_fail(YK_EUSAGE,
                   "%s: processes on several hosts need a token, so that only they can connect: set "
                   "YOKE_TOKEN_FILE to a file with 64 hexadecimal digits that only you can read "
                   "(openssl rand -hex 32)",
                   address);
}

/* ---- the server ---- */

typedef struct {
    int fd;
    double since;
    opening own;
    struct {
        opening first;
        introduction second;
    } theirs;
    size_t got; /* bytes of `theirs` */
} pending;

struct yk_listener {
    int fd;
    char token[YK_TOKEN_TEXT]; /* "": none */
    int n;
    pending pending[MAX_PENDING]; /* [n], the oldest first */
};

/* Removes a connection, and returns its socket. */
static int take(yk_listener *l, int i)
{
    const int fd = l->pending[i].fd;
    memmove(&l->pending[i], &l->pending[i + 1], (size_t)(--l->n - i) * sizeof *l->pending);
    return fd;
}

yk_status yk_listener_create(const char *address, int listen_fd, const char *token, yk_listener **out)
{
    yk_status st = check_token(address, token);
    yk_listener *l = st ? NULL : calloc(1, sizeof *l);
    if (!l)
        return st ? st : yk_fail_memory(sizeof *l, "a listening socket");
    l->fd = listen_fd;
    snprintf(l->token, sizeof l->token, "%s", token);
    if (listen_fd < 0)
        st = yk_socket_listen(address, &l->fd);
    else
        fcntl(listen_fd, F_SETFL, O_NONBLOCK);
    if (st)
        yk_listener_free(l);
    else
        *out = l;
    return st;
}

void yk_listener_free(yk_listener *l)
{
    if (!l)
        return;
    while (l->n)
        close(take(l, 0));
    if (l->fd >= 0)
        close(l->fd);
    free(l);
}

int yk_listener_port(const yk_listener *l)
{
    return yk_socket_port(l->fd);
}

static bool send_now(int fd, const void *data, size_t n)
{
    return send(fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n;
}

static void accept_new(yk_listener *l)
{
    static const int at_once = 64; /* the caller has other work */
    for (int fd, i = 0; i < at_once && (fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;
         i++) {
        if (l->n == MAX_PENDING)
            close(take(l, 0));
        pending *p = &l->pending[l->n++];
        *p = (pending){.fd = fd, .since = yk_now()};
        if ((!*l->token && !same_user(fd)) || !make_opening(&p->own) || !send_now(fd, &p->own, sizeof p->own))
            close(take(l, l->n - 1));
    }
}

/* 1: authenticated; 0: not yet; -1: refused, or gone. */
static int continue_handshake(const yk_listener *l, pending *p)
{
    const opening *client = &p->theirs.first;
    unsigned char expected[PROOF], own[PROOF];
    const ssize_t got = recv(p->fd, (char *)&p->theirs + p->got, sizeof p->theirs - p->got, MSG_DONTWAIT);
    if (got <= 0)
        return got < 0 && transient() ? 0 : -1;
    p->got += (size_t)got;
    if (p->got < sizeof p->theirs)
        return 0;
    prove(l->token, "client", client->nonce, p->own.nonce, &p->theirs.second.hello, expected);
    prove(l->token, "server", client->nonce, p->own.nonce, NULL, own);
    const bool sent = memcmp(client->magic, magic, sizeof magic) == 0 && send_now(p->fd, own, sizeof own);
    return sent && yk_equal_secret(expected, p->theirs.second.proof, PROOF) ? 1 : -1;
}

/* Looks only at connections that are ready, without a system call for the others: strangers may keep many of them open. */
int yk_listener_accept(yk_listener *l, double seconds, yk_hello *out)
{
    struct pollfd at[MAX_PENDING + 1];
    for (int i = 0; i < l->n; i++)
        at[i] = (struct pollfd){.fd = l->pending[i].fd, .events = POLLIN};
    at[l->n] = (struct pollfd){.fd = l->fd, .events = POLLIN};
    poll(at, (nfds_t)l->n + 1, (int)ceil(seconds * 1e3));
    const double now = yk_now();
    for (int i = l->n; i-- > 0;) {
        pending *p = &l->pending[i];
        const bool late = now - p->since > handshake_timeout;
        const int result = late ? -1 : at[i].revents ? continue_handshake(l, p) : 0, on = 1;
        if (result > 0) {
            *out = p->theirs.second.hello;
            setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* fails for Unix sockets: fine */
            return take(l, i);
        }
        if (result < 0)
            close(take(l, i));
    }
    accept_new(l);
    return -1;
}

/* ---- the client ---- */

/* -1: failed; errno says why. */
static int connect_until(const yk_endpoint *e, double until)
{
    const int fd = socket(e->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    int error = 0;
    socklen_t size = sizeof error;
    if (fd < 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(fd, (const struct sockaddr *)&e->at, e->size) == 0)
        return fd;
    error = errno;
    if (error == EINPROGRESS &&
        (!wait_for(fd, POLLOUT, until) || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size)))
        error = ETIMEDOUT;
    if (!error)
        return fd;
    close(fd);
    errno = error;
    return -1;
}

/* A server that is restarted, or has too many connections, may close this one: the caller tries again. */
static yk_status authenticate(int fd, const char *address, const char *token, const yk_hello *hello,
                              double until)
{
    opening own, theirs;
    introduction mine = {.hello = *hello};
    unsigned char expected[PROOF], proof[PROOF];
    if (!*token && !same_user(fd))
        return yk_fail(YK_EUSAGE, "%s: the process that listens there belongs to another user", address);
    if (!make_opening(&own) || !yk_socket_transfer(fd, true, &own, sizeof own, until) ||
        !yk_socket_transfer(fd, false, &theirs, sizeof theirs, until))
        return yk_fail(YK_ELOST, "%s: no answer", address);
    if (memcmp(theirs.magic, magic, sizeof magic))
        return yk_fail(YK_EUSAGE, "%s: the program that listens there is not this version of yoke", address);
    prove(token, "client", own.nonce, theirs.nonce, hello, mine.proof);
    prove(token, "server", own.nonce, theirs.nonce, NULL, expected);
    if (!yk_socket_transfer(fd, true, &mine, sizeof mine, until) ||
        !yk_socket_transfer(fd, false, proof, sizeof proof, until))
        return yk_fail(YK_ELOST, "%s: the connection was closed", address);
    if (!yk_equal_secret(expected, proof, PROOF))
        return yk_fail(YK_EUSAGE,
                       "%s: the process that listens there has a different token; use the same one for all "
                       "processes (YOKE_TOKEN_FILE or YOKE_TOKEN)",
                       address);
    return YK_OK;
}

yk_status yk_dial(const char *address, const char *token, const yk_hello *hello, double timeout, int *out)
{
    const double until = yk_now() + timeout;
    yk_wait w = yk_wait_every(0.001, timeout);
    bool over = false;
    yk_status st = check_token(address, token);
    if (st)
        return st;
    do {
        yk_endpoint e = {.size = 0};
        int fd = -1;
        if ((st = yk_endpoint_find(address, false, &e)) ==
            YK_EUSAGE) /* a name may be unknown until its host has started */
            return st;
        if (!st && (fd = connect_until(&e, until)) < 0) {
            over = hello->rank < 0 && errno == ECONNREFUSED; /* a job that can be joined listens already */
            st = yk_fail(YK_ELOST, "%s: cannot connect: %s", address, strerror(errno));
        }
        if (!st && !(st = authenticate(fd, address, token, hello, until))) {
            *out = fd;
            return YK_OK;
        }
        if (fd >= 0)
            close(fd);
        if (w.pause < 0.1) /* many processes may wait for one that starts slowly */
            w.pause *= 1.5;
    } while (st == YK_ELOST && !over && yk_wait_poll(&w));
    return st;
}
