/* A small HTTP server for a run in progress.
 *
 * Example:
 *     static const yk_http_route routes[] = {{"/", "text/html; charset=utf-8", .text = page},
 *                                            {"/status.json", "application/json", .make = make_status},
 *                                            {NULL}};
 *     yk_http *h;
 *     yk_status st = yk_http_listen("8080", &h); // on 127.0.0.1:8080; requests wait
 *     if (!st)
 *         st = yk_http_start(h, routes, run); // answers them, on its own thread
 *     if (!st)
 *         yk_note("live page: %s", yk_http_url(h));
 *     yk_http_stop(h);
 *
 * The address is [ADDR:]PORT. Without ADDR the server listens on the loopback address only; 0.0.0.0:8080 or [::]:8080 listens
 * on all addresses; port 0 chooses a free port. There is no authentication: do not expose it to untrusted networks.
 *
 * make() runs on the server thread and must not wait for training. The thread serves all connections without blocking. A
 * request, with its reply, has 10 s, however slowly a client sends or reads. There are at most 64 connections, and 16 from
 * one address: one more replaces the oldest. So slow clients cannot lock out others.
 */
#ifndef YK_WATCH_HTTP_H
#define YK_WATCH_HTTP_H

#include "base/status.h"

/* A document, for GET and HEAD: a constant text (borrowed), or the result of make(). */
typedef struct {
    const char *path, *type; /* for example "/metrics" and "text/plain" */
    const char *text;
    char *(*make)(void *context); /* the server frees it; NULL: out of memory */
} yk_http_route;

typedef struct yk_http yk_http;

/* Checks the syntax: YK_EUSAGE if it is not [ADDR:]PORT. Resolves no names. */
yk_status yk_http_check(const char *address);

yk_status yk_http_listen(const char *address, yk_http **out);
/* routes: borrowed; the last one has no path. context: of make(). */
yk_status yk_http_start(yk_http *h, const yk_http_route *routes, void *context);
const char *yk_http_url(const yk_http *h); /* "http://127.0.0.1:8080/" */
void yk_http_stop(yk_http *h);             /* NULL is fine */

#endif
