/* A small HTTP server for a run in progress: a web page, its data, and metrics for Prometheus.
 *
 * Example:
 *     yk_http_config c = {.address = "8080", .make = make_document, .context = run};
 *     yk_http *h;
 *     yk_status st = yk_http_start(&c, &h); // listens on 127.0.0.1:8080, on its own thread
 *     if (!st)
 *         yk_note("live page: %s", yk_http_url(h));
 *     yk_http_stop(h);
 *
 *     GET /             the page (watch/page.html), which fetches status.json once a second
 *     GET /status.json  make(YK_HTTP_STATUS)
 *     GET /metrics      make(YK_HTTP_METRICS)
 *
 * `address` is [ADDR:]PORT. Without ADDR the server listens on the loopback address only; 0.0.0.0:8080 or [::]:8080 listens
 * on all addresses; port 0 chooses a free port. There is no authentication: do not expose it to untrusted networks.
 *
 * make() runs on the server thread and must not wait for training. The thread serves all connections without blocking. A
 * request, with its reply, has 10 s, however slowly a client sends or reads. There are at most 64 connections, and 16 from
 * one address: one more replaces the oldest. So slow clients cannot lock out others.
 */
#ifndef YK_WATCH_HTTP_H
#define YK_WATCH_HTTP_H

#include "base/status.h"

typedef enum { YK_HTTP_STATUS, YK_HTTP_METRICS } yk_http_document;

typedef struct {
    const char *address;
    char *(*make)(void *context, yk_http_document which); /* the server frees it; NULL: out of memory */
    void *context;
} yk_http_config;

typedef struct yk_http yk_http;

/* Checks the syntax: YK_EUSAGE if it is not [ADDR:]PORT. Resolves no names. */
yk_status yk_http_check(const char *address);

yk_status yk_http_start(const yk_http_config *config, yk_http **out);
const char *yk_http_url(const yk_http *h); /* "http://127.0.0.1:8080/" */
void yk_http_stop(yk_http *h);             /* NULL is fine */

#endif
