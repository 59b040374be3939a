/* The HTTP server: its replies, and that a client that does not read cannot block it. */
#include "scratch.h"

#include "base/clock.h"
#include "observe/prom.h"
#include "watch/http.h"
#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>

static atomic_size_t size_of_status;

static char *make_status(void *made)
{
    atomic_fetch_add((atomic_int *)made, 1);
    const size_t n = atomic_load(&size_of_status);
    char *text = malloc(n + 1);
    if (text) {
        memset(text, 'x', n);
        text[n] = '\0';
    }
    return text;
}

static char *make_metrics(void *made)
{
    atomic_fetch_add((atomic_int *)made, 1);
    return strdup("# HELP a b\n");
}

static char *fail_to_make(void *made)
{
    (void)made;
    return NULL;
}

static const yk_http_route routes[] = {
    {"/", "text/html; charset=utf-8", .text = "<html>a page</html>"},
    {"/status.json", "application/json; charset=utf-8", .make = make_status},
    {"/metrics", "text/plain; version=0.0.4; charset=utf-8", .make = make_metrics},
    {"/none", "text/plain", .make = fail_to_make},
    {NULL}};

typedef struct {
    yk_http *http;
    unsigned port;
    atomic_int made;
} server;

static void start(server *s)
{
    atomic_store(&size_of_status, 5);
    assert_int_equal(yk_http_listen("0", &s->http), YK_OK);
    assert_int_equal(yk_http_start(s->http, routes, &s->made), YK_OK);
    assert_int_equal(sscanf(yk_http_url(s->http), "http://127.0.0.1:%u/", &s->port), 1);
    assert_true(s->port > 0 && s->port < 65536);
}

static int dial(unsigned port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_true(fd >= 0);
    struct timeval timeout = {.tv_sec = 20};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* The whole response, with its headers. */
static const char *ask(unsigned port, const char *request)
{
    static char answer[1 << 17];
    int fd = dial(port);
    size_t n = 0;
    say(fd, request);
    for (ssize_t got; (got = recv(fd, answer + n, sizeof answer - 1 - n, 0)) > 0;)
        n += (size_t)got;
    close(fd);
    answer[n] = '\0';
    return answer;
}

static const char *get(unsigned port, const char *path)
{
    char request[200];
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
             path);
    return ask(port, request);
}

static void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%.300s' does not contain '%s'", text, part);
}

static void requests_are_answered(void **state)
{
    (void)state;
    server s = {0};
    start(&s);
    const char *a = get(s.port, "/");
    assert_has(a, "200 OK");
    assert_has(a, "text/html");
    assert_has(a, "\r\n\r\n<html>a page</html>");
    assert_int_equal(atomic_load(&s.made), 0);
    a = get(s.port, "/status.json");
    assert_has(a, "application/json");
    assert_has(a, "\r\n\r\nxxxxx");
    a = get(s.port, "/metrics");
    assert_has(a, "text/plain; version=0.0.4");
    assert_has(a, "\r\n\r\n# HELP a b\n");
    assert_int_equal(atomic_load(&s.made), 2);
    assert_has(get(s.port, "/none"), " 500 ");
    a = get(s.port, "/etc/passwd");
    assert_has(a, " 404 ");
    assert_has(a, "\r\n\r\nnot found; available: / /status.json /metrics /none\n");
    assert_has(get(s.port, "/../../etc/passwd"), " 404 ");
    assert_has(ask(s.port,
                   "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc"),
               " 405 ");
    assert_has(ask(s.port, "DELETE / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), " 405 ");
    a = ask(s.port, "HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_has(a, "200 OK");
    assert_null(strstr(a, "</html>"));
    static const struct {
        const char *host, *status;
    } hosts[] = {{"127.0.0.1:80", " 200 "},   {"LOCALHOST:80", " 200 "},
                 {"[::1]:80", " 200 "},       {"127.0.0.2", " 200 "},
                 {"evil.example", " 403 "},   {"x:80", " 403 "},
                 {"localhost.evil", " 403 "}, {"", " 403 "}};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        char request[200];
        snprintf(request, sizeof request, "GET /metrics HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
                 hosts[i].host);
        assert_has(ask(s.port, request), hosts[i].status);
    }
    ask(s.port, "nonsense\r\n\r\n"); /* any response is fine, if the server survives */
    assert_has(get(s.port, "/metrics"), "200 OK");
    yk_http_stop(s.http);
}

static void clients_that_never_read(void **state)
{
    (void)state;
    enum { LAZY = 24 };
    server s = {0};
    int fd[2 * LAZY];
    start(&s);
    atomic_store(&size_of_status, 16 << 20); /* far more than a socket buffers */
    for (int i = 0; i < LAZY; i++) {
        fd[i] = dial(s.port);
        say(fd[i], "GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    for (int i = LAZY; i < 2 * LAZY; i++) { /* and some that send half a request */
        fd[i] = dial(s.port);
        say(fd[i], "GE");
    }
    const double began = yk_now();
    atomic_store(&size_of_status, 5);
    assert_has(get(s.port, "/metrics"), "200 OK");
    assert_has(get(s.port, "/"), "</html>");
    assert_true(yk_now() - began < 5.0);
    const double stop = yk_now();
    yk_http_stop(s.http); /* and they do not keep it from stopping */
    assert_true(yk_now() - stop < 5.0);
    for (int i = 0; i < 2 * LAZY; i++)
        close(fd[i]);
}

/* Clients that send a byte now and then do not lock out others: one more connection replaces the oldest. */
static void clients_that_send_slowly(void **state)
{
    (void)state;
    enum { SLOW = 150 };
    server s;
    start(&s);
    int fd[SLOW];
    char byte;
    const double began = yk_now();
    for (int i = 0; i < SLOW; i++) {
        fd[i] = dial(s.port);
        say(fd[i], "GET / HT");
    }
    assert_has(get(s.port, "/metrics"), "# HELP a b");
    assert_true(yk_now() - began < 5.0);
    assert_int_equal(recv(fd[0], &byte, 1, 0), 0);                               /* closed */
    say(fd[SLOW - 1], "TP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); /* one of the last 16 */
    assert_int_equal(recv(fd[SLOW - 1], &byte, 1, 0), 1);
    for (int i = 0; i < SLOW; i++)
        close(fd[i]);
    yk_http_stop(s.http);
}

static void addresses(void **state)
{
    (void)state;
    static const char *const good[] = {"0",          "8080",       "0.0.0.0:0", "127.0.0.1:65535",
                                       "[::1]:8080", "localhost:1"},
                             *const bad[] = {"",    "x",     "65536", ":80",       "1.2.3.4:", "-1",
                                             "80 ", "::1:8", "a:b:c", "999999999", "[::1]"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(yk_http_check(good[i]), YK_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (yk_http_check(bad[i]) != YK_EUSAGE)
            fail_msg("'%s' was accepted", bad[i]);
    server s = {0};
    start(&s);
    char where[32];
    snprintf(where, sizeof where, "127.0.0.1:%u", s.port);
    yk_http *second;
    assert_error(yk_http_listen(where, &second), YK_ESYSTEM, "cannot listen"); /* the port is in use */
    assert_error(yk_http_listen("203.0.113.7:0", &second), YK_ESYSTEM, "203.0.113.7"); /* of another host */
    assert_int_equal(yk_http_listen("0", &second), YK_OK);
    yk_http_stop(second); /* it was not started */
    yk_http_stop(s.http);
    yk_http_stop(NULL);
}

static void text_for_prometheus(void **state)
{
    (void)state;
    yk_prom p = {0};
    yk_prom_family(&p, "a_total", "Help \"x\".");
    yk_prom_sample(&p, (const char *[]){"worker", "0", "note", "a\"b\\c\nd", NULL}, 3.0);
    yk_prom_sample(&p, NULL, (double)NAN);
    yk_prom_family(&p, "b", "B.");
    yk_prom_sample(&p, NULL, (double)INFINITY);
    yk_prom_sample(&p, NULL, -0.125);
    char *text = yk_text_take(&p.out);
    assert_non_null(text);
    assert_string_equal(text, "# HELP a_total Help \"x\".\n# TYPE a_total counter\n"
                              "a_total{worker=\"0\",note=\"a\\\"b\\\\c\\nd\"} 3\na_total NaN\n"
                              "# HELP b B.\n# TYPE b gauge\nb +Inf\nb -0.125\n");
    free(text);
    assert_null(yk_text_take(&p.out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_answered),    cmocka_unit_test(clients_that_never_read),
        cmocka_unit_test(clients_that_send_slowly), cmocka_unit_test(addresses),
        cmocka_unit_test(text_for_prometheus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
