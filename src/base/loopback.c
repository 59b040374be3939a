#include "base/loopback.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Thread_local bool suspended;

void yk_loopback_suspend(bool on)
{
    suspended = on;
}

static int bind_system(int fd, const void *address, socklen_t size)
{
    return (int)syscall(SYS_bind, fd, address, size);
}

/* If IPv6 is disabled there is no ::1, so bind to the IPv4 loopback address. */
static int bind_loopback6(int fd, struct sockaddr_in6 *a)
{
    a->sin6_addr = in6addr_loopback;
    if (bind_system(fd, a, sizeof *a) == 0)
        return 0;
    if (errno != EADDRNOTAVAIL)
        return -1;
    a->sin6_addr = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){0}, sizeof(int));
    return bind_system(fd, a, sizeof *a);
}

__attribute__((visibility("default"))) int bind(int fd, const struct sockaddr *address, socklen_t size)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    const bool confined = address && !suspended && getenv(YK_LOOPBACK);
    if (confined && address->sa_family == AF_INET && size >= sizeof v4) {
        memcpy(&v4, address, sizeof v4);
        if (v4.sin_addr.s_addr == htonl(INADDR_ANY))
            v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return bind_system(fd, &v4, sizeof v4);
    }
    if (confined && address->sa_family == AF_INET6 && size >= sizeof v6) {
        memcpy(&v6, address, sizeof v6);
        if (IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr))
            return bind_loopback6(fd, &v6);
    }
    return bind_system(fd, address, size);
}
