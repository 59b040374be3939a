/* A small server for a run that goes on: a page to look at, its numbers, and metrics for Prometheus.
 *
 *     yk_http_config c = {.where = "8080", .make = make_document, .context = run};
 *     yk_http *h;
 *     st = yk_http_start(&c, &h);             // listens on 127.0.0.1:8080, on a thread of its own
 *     yk_note("look at %s", yk_http_url(h));
 *     yk_http_stop(h);
 *
 *     GET /             the page (watch/page.html): it asks for status.json once a second and draws
 *     GET /status.json  what make() gives for YK_HTTP_STATUS
 *     GET /metrics      what make() gives for YK_HTTP_METRICS
 *
 * `where` is [ADDR:]PORT: without an address this machine only, 0.0.0.0:8080 or [::]:8080 for everybody, port 0 for one that
 * is free. Nobody is asked for a password: do not let strangers in.
 *
 * make() runs on the server's thread and must not wait for training. One thread serves everybody without waiting for any:
 * a browser that never reads, or never asks, holds one of 64 connections until it has been silent for 10 s.
 */
#ifndef YK_WATCH_HTTP_H
#define YK_WATCH_HTTP_H

#include "base/status.h"

typedef enum { YK_HTTP_STATUS, YK_HTTP_METRICS } yk_http_document;

typedef struct {
    const char *where;
    char *(*make)(void *context, yk_http_document which); /* malloc'ed text, or NULL: no memory */
    void *context;
} yk_http_config;

typedef struct yk_http yk_http;

/* Is it [ADDR:]PORT? YK_EUSAGE with the reason where not; nothing is looked up. */
yk_status yk_http_check(const char *where);

yk_status yk_http_start(const yk_http_config *config, yk_http **out);
const char *yk_http_url(const yk_http *h); /* "http://127.0.0.1:8080/" */
void yk_http_stop(yk_http *h);             /* NULL is fine */

#endif
