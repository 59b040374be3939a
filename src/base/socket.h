/* Listening sockets, and socket addresses: "HOST:PORT", "[ADDRESS]:PORT" or "unix:NAME" (an abstract name, this host only).
 *
 * Example:
 *     int fd = -1; // port 0: any free port
 *     const int port = yk_socket_listen("127.0.0.1:0", &fd) ? 0 : yk_socket_port(fd);
 *
 * Any thread may call these.
 */
#ifndef YK_BASE_SOCKET_H
#define YK_BASE_SOCKET_H

#include "base/status.h"
#include <sys/socket.h>

enum { YK_ADDRESS_MAX = 280 };

typedef struct {
    struct sockaddr_storage at;
    socklen_t size;
} yk_endpoint;

bool yk_address_is_unix(const char *address);

/* passive: an address to listen on; an empty host means all interfaces. YK_ELOST: the name of the host is unknown. */
yk_status yk_endpoint_find(const char *address, bool passive, yk_endpoint *out);

yk_status yk_socket_listen(const char *address, int *out); /* a listening socket, non-blocking */
int yk_socket_port(int fd);                                /* on which it listens; 0: a Unix socket */

#endif
