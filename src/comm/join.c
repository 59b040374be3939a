/* Workers that join a running job (comm.h). They are peers of a second, native transport, whatever that of the job is. */
#include "comm/comm_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/rendezvous.h"
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the address of this host, as others see it ---- */

/* The address of the first network interface. */
static void any_address(char *out, size_t size)
{
    struct ifaddrs *list = NULL;
    snprintf(out, size, "localhost");
    if (getifaddrs(&list))
        return;
    for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
        const bool four = i->ifa_addr && i->ifa_addr->sa_family == AF_INET;
        if (four && i->ifa_flags & IFF_UP && !(i->ifa_flags & IFF_LOOPBACK) &&
            getnameinfo(i->ifa_addr, sizeof(struct sockaddr_in), out, (socklen_t)size, NULL, 0,
                        NI_NUMERICHOST) == 0)
            break;
    }
    freeifaddrs(list);
}

/* Replaces the host in "[::]:4711". */
static void publish(const yk_comm *c, yk_address *a)
{
    char host[128], text[YK_ADDRESS_MAX];
    const char *port = strrchr(a->text, ':');
    snprintf(host, sizeof host, "%s", c->world.host);
    if (!*host)
        any_address(host, sizeof host);
    snprintf(text, sizeof text, strchr(host, ':') ? "[%s]%.7s" : "%s%.7s", host, port ? port : "");
    memcpy(a->text, text, sizeof text);
}

/* ---- servers ---- */

/* A server that cannot listen has no address: *out does not change. */
static void listen_at(yk_comm *c, bool anywhere, const char *token, yk_address *out)
{
    char address[YK_ADDRESS_MAX];
    const char *colon = strncmp(c->job.master, "unix:", 5) ? strrchr(c->job.master, ':') : NULL;
    const char *port = colon ? colon + 1 : "0";
    const bool has_port = strcmp(port, "0") != 0; /* the engine may use several hosts */
    snprintf(address, sizeof address, "[::]:%s", c->rank == 0 ? port : "0");
    if (yk_comm_local_size(c) == c->size && !anywhere && !has_port)
        snprintf(address, sizeof address, "unix:yoke-%u-%d-%llx", (unsigned)getuid(), (int)getpid(),
                 (unsigned long long)yk_now_ns());
    yk_status st = yk_native_listen(address, token, out, &c->transport[YK__JOINED]);
    if (st && c->rank == 0 && has_port)
        st = yk_native_listen("[::]:0", token, out, &c->transport[YK__JOINED]);
    if (st)
        yk_warn("workers cannot join this job: %s", yk_error());
    else if (strncmp(address, "unix:", 5))
        publish(c, out);
}

yk_status yk_comm_open(yk_comm *c, int servers, bool anywhere, double seconds, char **text_out)
{
    char token[YK_TOKEN_TEXT];
    yk_address mine = {""};
    yk_text text = {0};
    yk_address *all = c->rank == 0 ? calloc((size_t)c->size, sizeof *all) : NULL;
    yk_status st =
        c->rank == 0 && !all ? yk_fail_memory((size_t)c->size * sizeof *all, "the addresses") : YK_OK;
    *text_out = NULL;
    if (*c->job.token)
        memcpy(token, c->job.token, sizeof token);
    else if (!st)
        st = yk_token_create(token);
    if (!st)
        st = yk_comm_broadcast(c, token, sizeof token, seconds, "the token of workers that join");
    if (!st && c->rank < servers)
        listen_at(c, anywhere, token, &mine);
    if (!st)
        st = yk_comm_gather(c, &mine, sizeof mine, all, seconds, "the addresses of the servers");
    if (!st && c->rank == 0) {
        bool complete = true;
        yk_text_print(&text, "%s\n", token);
        for (int i = 0; i < servers; i++) {
            yk_text_print(&text, "%s\n", all[i].text);
            complete &= *all[i].text != '\0';
        }
        if (complete && !(*text_out = yk_text_take(&text)))
            st = YK_ESYSTEM;
    }
    yk_text_fini(&text);
    free(all);
    return st;
}

void yk_comm_describe(yk_comm *c, char *text)
{
    free(c->description);
    c->description = text;
}

int yk_comm_joined(yk_comm *c)
{
    const yk_transport *t = &c->transport[YK__JOINED];
    const int n = t->ops ? t->ops->peers(t->self) : 0;
    int from = YK_ANY;
    uint64_t request; /* nobody waits for it */
    if (n && c->description && !yk__receive_empty(c, YK__JOINED, YK__TAG_ASK, &from) && from >= 0)
        t->ops->send(t->self, from, YK__TAG_ASK, c->description, strlen(c->description) + 1, &request);
    return n;
}

/* ---- a worker ---- */

static yk_status connect_servers(const yk_address *server, int n, const char *token, double timeout,
                                 yk_comm **out)
{
    yk_comm *c = *out = calloc(1, sizeof *c);
    if (!c || !(c->counts.sent_to = calloc(1, sizeof *c->counts.sent_to)))
        return yk_fail_memory(sizeof *c, "the servers of the job");
    c->size = 1;
    c->stopped_timeout = timeout;
    snprintf(c->world.library, sizeof c->world.library, "native");
    return yk_native_connect(server, n, token, timeout, &c->transport[YK__JOINED]);
}

yk_status yk_comm_ask(const char *address, const char *token, double timeout, char **text_out)
{
    yk_address server;
    yk_comm *c;
    yk_op op;
    yk_inbox in = {0};
    bool done = false;
    snprintf(server.text, sizeof server.text, "%s", address);
    yk_status st = connect_servers(&server, 1, token, timeout, &c);
    if (!st && !(st = yk_comm_send(c, 1, YK__TAG_ASK, YK_PURPOSE_CONTROL, NULL, 0, &op))) {
        for (yk_wait w = yk_wait_every(0.001, timeout);
             !st && !done && yk_wait_poll(&w) && !yk_comm_is_lost(c, 1);)
            st = yk_inbox_receive(c, &in, 1, YK__TAG_ASK, YK_PURPOSE_CONTROL, &done);
        if (!done)
            st = yk_fail(YK_ELOST,
                         "the server did not send the options of the job: it is not server 0, or the job "
                         "has ended; use the address in the second line of RUN/join");
        else if (!(st = YK_RESERVE(in.data, in.cap, in.op.bytes + 1, "the options of the job")))
            in.data[in.op.bytes] = '\0';
    }
    yk_comm_stop(c, true);
    if (st)
        free(in.data);
    else
        *text_out = in.data;
    return st;
}

yk_status yk_comm_join(const char *text, yk_startup *startup, double timeout, yk_comm **out)
{
    char token[YK_TOKEN_TEXT];
    yk_address server[64];
    int n = 0;
    const char *line = yk_token_parse(text, token);
    for (; line && *line == '\n' && line[1] && n < (int)(sizeof server / sizeof *server); n++) {
        const size_t length = strcspn(line + 1, "\n");
        snprintf(server[n].text, sizeof server[n].text, "%.*s", (int)length, line + 1);
        line += 1 + length;
    }
    if (!n)
        return yk_fail(YK_EDATA, "the file with the addresses of the job (RUN/join) is damaged; copy it "
                                 "again while the job is running");
    yk_startup_enter(startup, YK_STARTUP_BUSY);
    yk_status st = connect_servers(server, n, token, timeout, out);
    yk_startup_enter(startup, YK_STARTUP_WAITING);
    if (st)
        return yk_fail(st, "cannot join the job: %s; check that it is still running", yk_error());
    return startup ? yk__heartbeats_begin(*out, startup) : YK_OK;
}
