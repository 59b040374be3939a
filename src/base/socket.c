#include "base/socket.h"

#include "base/number.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

bool yk_address_is_unix(const char *address)
{
    return strncmp(address, "unix:", 5) == 0;
}

/* An abstract name: no file is left behind. */
static yk_status unix_endpoint(const char *address, yk_endpoint *out)
{
    struct sockaddr_un *un = (struct sockaddr_un *)&out->at;
    const size_t n = strlen(address + 5);
    if (!n || n > sizeof un->sun_path - 1)
        return yk_fail(YK_EUSAGE, "%s: the name of a Unix socket has 1 to %zu characters", address,
                       sizeof un->sun_path - 1);
    *un = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(un->sun_path + 1, address + 5, n);
    out->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
    return YK_OK;
}

/* HOST:PORT or [ADDRESS]:PORT; an empty host listens on all interfaces. */
static yk_status tcp_endpoint(const char *address, bool passive, yk_endpoint *out)
{
    char host[YK_ADDRESS_MAX];
    const char *colon = strrchr(address, ':'), *begin = address;
    uint64_t port;
    const char *end = colon ? yk_digits(colon + 1, 65535, &port) : NULL;
    if (!end || *end || strlen(address) >= sizeof host)
        return yk_fail(YK_EUSAGE, "%s: not an address of the form HOST:PORT", address);
    size_t n = (size_t)(colon - address);
    if (n >= 2 && *begin == '[' && begin[n - 1] == ']') {
        begin++;
        n -= 2;
    }
    snprintf(host, sizeof host, "%.*s", (int)n, begin);
    const struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = passive ? AI_PASSIVE : 0};
    struct addrinfo *found = NULL;
    const int code = getaddrinfo(*host ? host : passive ? "::" : NULL, colon + 1, &want, &found);
    if (code)
        return yk_fail(YK_ELOST, "%s: cannot find the address of the host: %s", address, gai_strerror(code));
    memcpy(&out->at, found->ai_addr, found->ai_addrlen);
    out->size = found->ai_addrlen;
    freeaddrinfo(found);
    return YK_OK;
}

yk_status yk_endpoint_find(const char *address, bool passive, yk_endpoint *out)
{
    return yk_address_is_unix(address) ? unix_endpoint(address, out) : tcp_endpoint(address, passive, out);
}

static yk_status listen_at(const char *address, int *out)
{
    yk_endpoint e = {.size = 0};
    yk_status st = yk_endpoint_find(address, true, &e);
    if (st)
        return st;
    const int fd = socket(e.at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int on = 1, off = 0;
    if (fd >= 0 && e.at.ss_family != AF_UNIX)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd >= 0 && e.at.ss_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (fd < 0 || bind(fd, (struct sockaddr *)&e.at, e.size) || listen(fd, SOMAXCONN)) {
        st = yk_fail(YK_ESYSTEM, "%s: cannot listen: %s", address, strerror(errno));
        if (fd >= 0)
            close(fd);
        return st;
    }
    *out = fd;
    return YK_OK;
}

/* A host without IPv6 cannot listen on [::]: listens on all IPv4 addresses instead. */
yk_status yk_socket_listen(const char *address, int *out)
{
    char v4[YK_ADDRESS_MAX];
    yk_status st = listen_at(address, out);
    if (!st || strncmp(address, "[::]:", 5))
        return st;
    snprintf(v4, sizeof v4, "0.0.0.0:%s", address + 5);
    return listen_at(v4, out);
}

int yk_socket_port(int fd)
{
    struct sockaddr_storage at;
    socklen_t size = sizeof at;
    if (getsockname(fd, (struct sockaddr *)&at, &size))
        return 0;
    return at.ss_family == AF_INET    ? ntohs(((struct sockaddr_in *)&at)->sin_port)
           : at.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&at)->sin6_port)
                                      : 0;
}
