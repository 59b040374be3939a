#include "watch/http.h"

#include "base/clock.h"
#include "base/number.h"
#include "base/socket.h"
#include <arpa/inet.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MAX_CONNECTIONS = 64,
    MAX_OF_CLIENT = 16,
    MAX_CLOSING = 64, /* that libmicrohttpd has not closed yet */
    IDLE_SECONDS = 10,
    MAX_BYTES = 32 << 10
};

/* A connection. Only the server thread uses these. */
typedef struct {
    struct MHD_Connection *connection; /* NULL: this entry is free */
    int fd;
    bool closing;
    double since; /* when it was opened, or when its last request was answered */
    struct in6_addr client;
} connection;

struct yk_http {
    const yk_http_route *routes;
    void *context;
    int fd; /* the listening socket */
    struct MHD_Daemon *daemon;
    char url[128];
    char not_found[256]; /* the reply; lists the paths */
    bool loopback;       /* only programs on this host can connect */
    connection connection[MAX_CONNECTIONS + MAX_CLOSING];
};

/* ---- the address */

yk_status yk_http_check(const char *address)
{
    const char *colon = strrchr(address, ':'), *port = colon ? colon + 1 : address;
    const size_t n = colon ? (size_t)(colon - address) : 0;
    if (n && address[0] != '[' && memchr(address, ':', n))
        return yk_fail(YK_EUSAGE, "--http %s: put an IPv6 address in brackets, as in [::1]:8080", address);
    uint64_t number;
    const char *end = yk_digits(port, 65535, &number);
    if (!end || *end || (colon && n == 0))
        return yk_fail(YK_EUSAGE,
                       "--http %s: expected [ADDR:]PORT, as in 8080, 0.0.0.0:8080 or [::1]:8080; port 0 "
                       "chooses a free port",
                       address);
    return YK_OK;
}

/* ---- connections: libmicrohttpd closes a connection that is idle, but not one on which a byte arrives now and then */

static void close_connection(connection *c)
{
    c->closing = true;
    shutdown(c->fd, SHUT_RDWR); /* libmicrohttpd sees the end and frees it */
}

static struct in6_addr address_of(const struct sockaddr *a)
{
    struct in6_addr out = {0};
    if (a && a->sa_family == AF_INET6)
        out = ((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
    else if (a && a->sa_family == AF_INET)
        memcpy(&out, &((const struct sockaddr_in *)(const void *)a)->sin_addr, sizeof(struct in_addr));
    return out;
}

/* Closes the connections whose request takes too long. */
static void close_overdue(yk_http *h)
{
    const double now = yk_now();
    for (connection *c = h->connection; c < h->connection + MAX_CONNECTIONS + MAX_CLOSING; c++)
        if (c->connection && !c->closing && now - c->since > IDLE_SECONDS)
            close_connection(c);
}

/* Closes the oldest connection, of all or of one client, if there are `max` of them. */
static void make_room(yk_http *h, const struct in6_addr *client, int max)
{
    connection *oldest = NULL;
    int n = 0;
    for (connection *c = h->connection; c < h->connection + MAX_CONNECTIONS + MAX_CLOSING; c++) {
        if (!c->connection || c->closing || (client && memcmp(&c->client, client, sizeof *client)))
            continue;
        oldest = !oldest || c->since < oldest->since ? c : oldest;
        n++;
    }
    if (n >= max)
        close_connection(oldest);
}

static void on_connection(void *context, struct MHD_Connection *c, void **entry,
                          enum MHD_ConnectionNotificationCode what)
{
    yk_http *h = context;
    connection *at = h->connection;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (*entry)
            *(connection *)*entry = (connection){0};
        return;
    }
    /* libmicrohttpd 1.0 returns the same union each time: copy the value before the next call */
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    const int fd = info ? info->connect_fd : -1;
    info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct in6_addr client = address_of(info ? info->client_addr : NULL);
    while (at < h->connection + MAX_CONNECTIONS + MAX_CLOSING && at->connection)
        at++;
    if (fd < 0 || at == h->connection + MAX_CONNECTIONS + MAX_CLOSING)
        return;
    close_overdue(h);
    make_room(h, &client, MAX_OF_CLIENT);
    make_room(h, NULL, MAX_CONNECTIONS);
    *at = (connection){.connection = c, .fd = fd, .since = yk_now(), .client = client};
    *entry = at;
}

static void on_answered(void *context, struct MHD_Connection *c, void **state,
                        enum MHD_RequestTerminationCode why)
{
    const union MHD_ConnectionInfo *entry = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    (void)context, (void)state, (void)why;
    if (entry && entry->socket_context)
        ((connection *)entry->socket_context)->since = yk_now();
}

/* ---- answering */

/* `taken`: free()d after use. */
static enum MHD_Result reply(struct MHD_Connection *c, unsigned code, const char *type, const char *text,
                             bool taken)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(
        strlen(text), (void *)text, taken ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
    if (!r) {
        if (taken)
            free((void *)text);
        return MHD_NO;
    }
    MHD_add_response_header(r, "Content-Type", type);
    MHD_add_response_header(r, "Cache-Control", "no-store");
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    /* the page is self-contained and connects only to this server */
    MHD_add_response_header(
        r, "Content-Security-Policy",
        "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'unsafe-inline'; "
        "connect-src 'self'; img-src data:");
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(r, "Allow", "GET, HEAD");
    enum MHD_Result ok = MHD_queue_response(c, code, r);
    MHD_destroy_response(r);
    return ok;
}

static enum MHD_Result refuse(struct MHD_Connection *c, unsigned code, const char *text)
{
    return reply(c, code, "text/plain; charset=utf-8", text, false);
}

/* A page of another site must not read ours through a name that resolves to this host (DNS rebinding): on loopback, only
 * its addresses and localhost are accepted. */
static bool knows(const yk_http *h, const char *host)
{
    if (!h->loopback)
        return true;
    if (!host)
        return false;
    const size_t n = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    struct in_addr ip;
    char name[80];
    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), host);
    return !strcasecmp(name, "localhost") || !strcmp(name, "[::1]") ||
           (inet_pton(AF_INET, name, &ip) == 1 && ntohl(ip.s_addr) >> 24 == 127);
}

static enum MHD_Result answer(void *context, struct MHD_Connection *c, const char *url, const char *method,
                              const char *version, const char *upload, size_t *upload_size, void **state)
{
    static char seen;
    yk_http *h = context;
    (void)version, (void)upload;
    close_overdue(h);
    /* the first call has only the headers, and a reply would close the connection; a body is discarded */
    if (!*state || *upload_size) {
        *state = &seen;
        *upload_size = 0;
        return MHD_YES;
    }
    if (strcmp(method, "GET") && strcmp(method, "HEAD"))
        return refuse(c, MHD_HTTP_METHOD_NOT_ALLOWED, "method not allowed: use GET\n");
    if (!knows(h, MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST)))
        return refuse(c, MHD_HTTP_FORBIDDEN, "unknown host name: use http://localhost or http://127.0.0.1\n");
    const yk_http_route *r = h->routes;
    while (r->path && strcmp(url, r->path))
        r++;
    if (!r->path)
        return refuse(c, MHD_HTTP_NOT_FOUND, h->not_found);
    const char *text = r->text ? r->text : r->make(h->context);
    if (!text)
        return refuse(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
    return reply(c, MHD_HTTP_OK, r->type, text, !r->text);
}

/* ---- starting */

static void set_url(yk_http *h)
{
    struct sockaddr_storage bound = {.ss_family = AF_INET};
    socklen_t n = sizeof bound;
    char host[80] = "127.0.0.1", port[8] = "0";
    if (getsockname(h->fd, (struct sockaddr *)&bound, &n) == 0)
        getnameinfo((struct sockaddr *)&bound, n, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    const bool v6 = bound.ss_family == AF_INET6;
    h->loopback = !strncmp(host, "127.", 4) || !strcmp(host, "::1");
    snprintf(h->url, sizeof h->url, v6 ? "http://[%s]:%s/" : "http://%s:%s/", host, port);
}

static void list_routes(yk_http *h)
{
    size_t n = (size_t)snprintf(h->not_found, sizeof h->not_found, "not found; available:");
    for (const yk_http_route *r = h->routes; r->path && n < sizeof h->not_found; r++)
        n += (size_t)snprintf(h->not_found + n, sizeof h->not_found - n, " %s%s", r->path,
                              r[1].path ? "" : "\n");
}

yk_status yk_http_listen(const char *address, yk_http **out)
{
    char whole[YK_ADDRESS_MAX];
    *out = NULL;
    yk_status st = yk_http_check(address);
    if (st)
        return st;
    yk_http *h = calloc(1, sizeof *h);
    if (!h)
        return yk_fail_memory(sizeof *h, "the HTTP server");
    snprintf(whole, sizeof whole, "%s%s", strchr(address, ':') ? "" : "127.0.0.1:", address);
    st = yk_socket_listen(whole, &h->fd);
    if (st) {
        free(h);
        return yk_fail(st == YK_ELOST ? YK_EUSAGE : st,
                       "--http %s; choose another port (0: any free port), or an address of this host",
                       yk_error());
    }
    set_url(h);
    *out = h;
    return YK_OK;
}

/* The server thread blocks all signals; other threads receive them. */
yk_status yk_http_start(yk_http *h, const yk_http_route *routes, void *context)
{
    sigset_t all, before;
    h->routes = routes;
    h->context = context;
    list_routes(h);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    h->daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO, 0, NULL, NULL, answer, h,
                                 MHD_OPTION_LISTEN_SOCKET, h->fd, MHD_OPTION_CONNECTION_LIMIT,
                                 (unsigned)(MAX_CONNECTIONS + MAX_CLOSING), MHD_OPTION_CONNECTION_TIMEOUT,
                                 (unsigned)IDLE_SECONDS, MHD_OPTION_NOTIFY_CONNECTION, on_connection, h,
                                 MHD_OPTION_NOTIFY_COMPLETED, on_answered, h,
                                 MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MAX_BYTES, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return h->daemon ? YK_OK : yk_fail(YK_ESYSTEM, "%s: cannot start the HTTP server", h->url);
}

const char *yk_http_url(const yk_http *h)
{
    return h->url;
}

void yk_http_stop(yk_http *h)
{
    if (!h)
        return;
    if (h->daemon)
        MHD_stop_daemon(h->daemon);
    else
        close(h->fd);
    free(h);
}
