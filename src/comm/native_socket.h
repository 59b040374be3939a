/* Authenticated connections: sockets whose other end has proven that it knows the token.
 *
 * Example:
 *     yk_listener *l;
 *     yk_status st = yk_listener_create("unix:job-4711", -1, token, &l);
 *     yk_hello hello;
 *     int fd = yk_listener_accept(l, &hello);                         // -1: none yet
 *     st = yk_dial("unix:job-4711", token, &hello, 60.0, &fd);        // the other process
 *
 * Client and server send nonces of 32 bytes, then proofs; each message has a fixed length, and only nonces and proofs are
 * used before the other end is authenticated:
 *
 *     both     magic, nonce: C, S
 *     client   HMAC(token, "client" C S hello), hello
 *     server   HMAC(token, "server" C S); closes the connection if the client's is wrong
 *
 * Connections that are not authenticated yet are bounded in number and in time: when there are too many, the oldest is closed.
 * Without a token, both ends must be Unix sockets of the same user.
 */
#ifndef YK_COMM_NATIVE_SOCKET_H
#define YK_COMM_NATIVE_SOCKET_H

#include "comm/native.h"

typedef struct yk_listener yk_listener;

/* What a process says about itself. Plain data, sent as bytes. */
typedef struct {
    int32_t rank, size;
    int64_t pid;
    uint64_t host;   /* equal for processes that can share memory */
    int32_t segment; /* the descriptor of its memory (native_ring.h); -1: none */
    int32_t port;    /* where it listens; 0: nowhere */
} yk_hello;

/* listen_fd: a socket that listens there already, which is closed with the listener; -1: none. */
yk_status yk_listener_create(const char *address, int listen_fd, const unsigned char *token,
                             yk_listener **out);
void yk_listener_address(const yk_listener *l, yk_address *out); /* with the actual port */
int yk_listener_port(const yk_listener *l);                      /* 0: a Unix socket */
int yk_listener_descriptor(const yk_listener *l);                /* readable: there is something to do */
void yk_listener_free(yk_listener *l);                           /* NULL is fine */

/* Works on all connections, without blocking. Returns a socket (non-blocking) that is authenticated; -1: none yet. */
int yk_listener_accept(yk_listener *l, yk_hello *out);

/* Connects, and tries again until the timeout if nobody listens yet. The socket is blocking. YK_EUSAGE: the tokens
 * differ; YK_ELOST: cannot be reached. */
yk_status yk_dial(const char *address, const unsigned char *token, const yk_hello *hello, double timeout,
                  int *out);

yk_status yk_socket_listen(const char *address, int *out); /* a listening socket, non-blocking */
int yk_socket_port(int fd);                                /* at which it listens; 0: a Unix socket */

/* Sends or receives all bytes of a blocking or non-blocking socket, until a time (base/clock.h). */
bool yk_socket_send_all(int fd, const void *data, size_t n, double until);
bool yk_socket_recv_all(int fd, void *out, size_t n, double until);

#endif
