/* The native transport: shared memory between processes of one host, TCP between hosts.
 *
 * Example:
 *     const yk_rendezvous job = {.rank = 1, .size = 4, .master = "unix:job-4711", .listen_fd = -1};
 *     yk_transport t;
 *     yk_status st = yk_native_create(&job, 60.0, false, &t); // t.ops->start() connects the processes
 *
 * Messages are frames in a byte stream between two processes: a ring in shared memory (native_ring.c), or a socket. Rank 0
 * listens at `master`. The other ranks connect to it, prove that they know the token, and get the addresses of all ranks.
 * Then they map each other's memory, or connect to each other. After that, nothing listens.
 *
 * A message that arrives before there is a receive for it is stored. A sender has to wait once the receiver stores more
 * than 16 MB plus eight times the longest message from it. Frames on sockets have a CRC-32C.
 *
 * Authentication: both ends of a connection send a nonce and prove with HMAC-SHA-256 that they know the token, before any
 * other byte is interpreted. Without a token, only processes of the same user on this host can connect. The traffic is
 * not encrypted.
 *
 * A worker that joins a running job uses a transport of its own, in both processes:
 *
 *     yk_address address;
 *     yk_native_listen("unix:job-4711-0", token, &address, &t);    // a server: t.ops->peers() grows
 *     yk_native_connect(&address, 1, token, 60.0, &t);             // the worker: peer i is the server at address[i]
 *
 * One thread at a time calls a transport.
 */
#ifndef YK_COMM_NATIVE_H
#define YK_COMM_NATIVE_H

#include "comm/rendezvous.h"
#include "comm/transport.h"

/* As in base/socket.h. */
typedef struct {
    char text[YK_ADDRESS_MAX];
} yk_address;

/* The transport of a process of a job; `job` is copied. timeout: seconds for all processes to start. sockets: even where memory could
 * be shared. */
yk_status yk_native_create(const yk_rendezvous *job, double timeout, bool sockets, yk_transport *out);

/* Lets workers join: they appear as peers 0, 1, ... of `out`. Port 0: any free port. *bound_out: the address. */
yk_status yk_native_listen(const char *address, const char *token, yk_address *bound_out, yk_transport *out);

/* Connects to the servers of a job. */
yk_status yk_native_connect(const yk_address *address, int n, const char *token, double timeout,
                            yk_transport *out);

#endif
