/* The simulated transport: a message is put into the receiver's inbox with a time of arrival. */
#include "sim_internal.h"

#include "comm/native.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { TRUNCATED = 1, NO_MEMORY };

typedef struct yk__sim_request request;
typedef struct yk__sim_message message;

struct yk__sim_request {
    request *other; /* list of all requests of this rank */
    request *next;  /* posted receives, in their order */
    bool used, incoming, done;
    int peer, tag, error;
    void *buf;
    size_t cap, bytes;
};

struct yk__sim_message {
    message *next; /* to the same receiver, in sending order */
    int source, tag;
    uint64_t arrives;
    size_t bytes;
    const void *data;
    request *sender; /* the data is in the buffer of this sender, which waits; NULL: it is a copy */
};

/* Drops the messages in an inbox that rank `unsent` has not sent completely; -1: all messages. */
static void drop(yk__rank *me, int unsent)
{
    for (message **at = &me->inbox; *at;) {
        message *m = *at;
        if (unsent >= 0 && !(m->sender && m->source == unsent)) {
            at = &m->next;
            continue;
        }
        *at = m->next;
        if (!m->sender)
            free((void *)m->data);
        free(m);
    }
}

void yk__sim_drop_messages(yk__rank *r)
{
    drop(r, -1);
    for (int i = 0; i < r->sim->all; i++)
        drop(&r->sim->rank[i], r->number);
    while (r->requests) {
        request *first = r->requests;
        r->requests = first->other;
        free(first);
    }
}

uint64_t yk__sim_next_arrival(const yk__rank *r, uint64_t after, uint64_t before)
{
    for (const message *m = r->inbox; m; m = m->next)
        if (m->arrives > after && m->arrives < before)
            before = m->arrives;
    return before;
}

static int sim_start(void *self, yk_world *out)
{
    const yk__rank *me = self;
    *out = (yk_world){.rank = me->number, .size = me->sim->config.ranks};
    snprintf(out->library, sizeof out->library, "simulated");
    return 0;
}

static void sim_stop(void *self)
{
    (void)self;
}

static void sim_abort(void *self, int status)
{
    (void)status;
    yk__sim_abort(self);
}

static void sim_error_text(void *self, int code, char *out, size_t size)
{
    (void)self;
    snprintf(out, size, "%s", code == TRUNCATED ? "a message is longer than its buffer" : "out of memory");
}

/* An unused request, with these values. Requests are freed when the rank ends, because not every send is tested until done. */
static request *add_request(yk__rank *me, const request *values)
{
    request *r = me->requests, *other;
    while (r && r->used)
        r = r->other;
    if (!r && (r = calloc(1, sizeof *r))) {
        r->other = me->requests;
        me->requests = r;
    }
    if (!r)
        return NULL;
    other = r->other;
    *r = *values;
    r->other = other;
    r->used = true;
    return r;
}

static uint64_t delay_ns(yk__sim *s)
{
    const yk_sim_config *c = &s->config;
    return (uint64_t)(1e9 * (c->min_delay + yk_rng_unit(&s->rng) * (c->max_delay - c->min_delay)));
}

static int sim_send(void *self, int peer, int tag, const void *buf, size_t bytes, uint64_t *request_out)
{
    yk__rank *me = self, *to = &me->sim->rank[peer];
    const bool eager = bytes <= me->sim->config.eager;
    message *m = calloc(1, sizeof *m);
    void *copy = eager ? malloc(bytes + 1) : NULL;
    request *r = add_request(me, &(request){.done = eager, .peer = peer});
    if (!r || !m || (eager && !copy)) {
        free(m);
        free(copy);
        return NO_MEMORY;
    }
    if (eager && bytes)
        memcpy(copy, buf, bytes);
    *m = (message){NULL,
                   me->number,
                   tag,
                   yk__this_task->now + delay_ns(me->sim),
                   bytes,
                   eager ? copy : buf,
                   eager ? NULL : r};
    *request_out = (uint64_t)(uintptr_t)r;
    yk__sim_trace(me->sim, yk__this_task->now, me->number, "sends %zu bytes with tag %d to rank %d", bytes,
                  tag, peer);
    if (me->sim->config.sends)
        me->sim->config.sends(me->sim->context, me->number, peer, tag, buf, bytes);
    me->sim->result->digest = yk_mix64(me->sim->result->digest ^ bytes) + (uint64_t)tag;
    me->sim->result->messages++;
    me->sim->result->bytes += bytes;
    if (to->ended) { /* no one receives it */
        free(copy);
        free(m);
        return 0;
    }
    message **end = &to->inbox;
    for (; *end; end = &(*end)->next)
        if ((*end)->source == me->number && (*end)->tag == tag && (*end)->arrives >= m->arrives)
            m->arrives = (*end)->arrives + 1;
    *end = m;
    yk__sim_shorten_yields(to, m->arrives, false);
    return 0;
}

/* The next message with that source and tag, if it has arrived. */
static message **find(yk__rank *me, int source, int tag)
{
    for (message **at = &me->inbox; *at; at = &(*at)->next)
        if ((*at)->source == source && (*at)->tag == tag)
            return (*at)->arrives <= yk__this_task->now ? at : NULL;
    return NULL;
}

static int receive(yk__rank *me, message **at, void *buf, size_t cap, size_t *bytes_out)
{
    message *m = *at;
    const int code = m->bytes > cap ? TRUNCATED : 0;
    yk__sim_trace(me->sim, yk__this_task->now, me->number, "receives %zu bytes with tag %d from rank %d",
                  m->bytes, m->tag, m->source);
    *at = m->next;
    if (!code && m->bytes)
        memcpy(buf, m->data, m->bytes);
    *bytes_out = m->bytes;
    if (m->sender)
        m->sender->done = true;
    else
        free((void *)m->data);
    free(m);
    yk__sim_shorten_yields(me, yk__this_task->now, true);
    return code;
}

/* Matches messages that have arrived to receives, in the order in which these were posted. */
static void match(yk__rank *me)
{
    for (request **at = &me->posted; *at;) {
        request *r = *at;
        message **m = find(me, r->peer, r->tag);
        if (!m) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        r->error = receive(me, m, r->buf, r->cap, &r->bytes);
        r->done = true;
    }
}

static int sim_recv(void *self, int peer, int tag, void *buf, size_t cap, uint64_t *request_out)
{
    yk__rank *me = self;
    request *r =
        add_request(me, &(request){.incoming = true, .peer = peer, .tag = tag, .buf = buf, .cap = cap});
    if (!r)
        return NO_MEMORY;
    request **end = &me->posted;
    while (*end)
        end = &(*end)->next;
    *end = r;
    *request_out = (uint64_t)(uintptr_t)r;
    return 0;
}

static int sim_test(void *self, uint64_t *handle, bool *done_out, size_t *bytes_out)
{
    request *r = (request *)(uintptr_t)*handle;
    match(self);
    *done_out = r->done;
    if (!r->done)
        return 0;
    const int code = r->error;
    *bytes_out = r->bytes;
    *handle = 0;
    r->used = false;
    return code;
}

static int sim_probe(void *self, int peer, int tag, bool *found_out, yk_arrival *out)
{
    yk__rank *me = self;
    const message *best = NULL;
    match(me);
    for (int i = 0; i < (peer < 0 ? me->sim->config.ranks : me->sim->all); i++) {
        message **m = peer < 0 || peer == i ? find(me, i, tag) : NULL;
        if (m && (!best || (*m)->arrives < best->arrives))
            best = *m;
    }
    *found_out = best;
    if (best)
        *out = (yk_arrival){best->source, best->bytes};
    return 0;
}

static void sim_abandon(void *self)
{
    yk__rank *me = self;
    me->posted = NULL;
    for (int i = 0; i < me->sim->all; i++)
        drop(&me->sim->rank[i], me->number);
}

const yk_transport_ops yk__sim_transport = {.start = sim_start,
                                            .stop = sim_stop,
                                            .abort = sim_abort,
                                            .error_text = sim_error_text,
                                            .send = sim_send,
                                            .recv = sim_recv,
                                            .test = sim_test,
                                            .probe = sim_probe,
                                            .abandon = sim_abandon};

/* ---- workers that join ---- */

static int joined_send(void *self, int peer, int tag, const void *buf, size_t bytes, uint64_t *request_out)
{
    const yk__rank *me = self;
    return sim_send(self, me->peer[peer], tag, buf, bytes, request_out);
}

static int joined_recv(void *self, int peer, int tag, void *buf, size_t cap, uint64_t *request_out)
{
    const yk__rank *me = self;
    return sim_recv(self, me->peer[peer], tag, buf, cap, request_out);
}

static int joined_probe(void *self, int peer, int tag, bool *found_out, yk_arrival *out)
{
    const yk__rank *me = self;
    const int code = sim_probe(self, me->peer[peer], tag, found_out, out);
    out->peer = peer;
    return code;
}

/* A connection ends after what was sent. */
static bool joined_lost(void *self, int peer)
{
    const yk__rank *me = self;
    bool lost = me->sim->rank[me->peer[peer]].ended;
    for (const message *m = me->inbox; m; m = m->next)
        lost &= m->source != me->peer[peer];
    return lost;
}

static int joined_peers(void *self)
{
    const yk__rank *me = self;
    return me->peers;
}

static const yk_transport_ops joined_transport = {.stop = sim_stop,
                                                  .error_text = sim_error_text,
                                                  .send = joined_send,
                                                  .recv = joined_recv,
                                                  .test = sim_test,
                                                  .probe = joined_probe,
                                                  .abandon = sim_abandon,
                                                  .lost = joined_lost,
                                                  .peers = joined_peers};

yk_status __real_yk_native_listen(const char *address, const char *token, yk_address *bound_out,
                                  yk_transport *out);
yk_status __wrap_yk_native_listen(const char *address, const char *token, yk_address *bound_out,
                                  yk_transport *out);
yk_status __real_yk_native_connect(const yk_address *address, int n, const char *token, double timeout,
                                   yk_transport *out);
yk_status __wrap_yk_native_connect(const yk_address *address, int n, const char *token, double timeout,
                                   yk_transport *out);
int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);

yk_status __wrap_yk_native_listen(const char *address, const char *token, yk_address *bound_out,
                                  yk_transport *out)
{
    if (!yk__this_task)
        return __real_yk_native_listen(address, token, bound_out, out);
    yk__rank *me = yk__this_task->rank;
    me->listens = true;
    snprintf(bound_out->text, sizeof bound_out->text, "simulated:%d", me->number);
    *out = (yk_transport){&joined_transport, me};
    return YK_OK;
}

yk_status __wrap_yk_native_connect(const yk_address *address, int n, const char *token, double timeout,
                                   yk_transport *out)
{
    if (!yk__this_task)
        return __real_yk_native_connect(address, n, token, timeout, out);
    yk__rank *me = yk__this_task->rank;
    for (int i = 0; i < n; i++) {
        int number = -1;
        sscanf(address[i].text, "simulated:%d", &number);
        yk__rank *server = number < 0 ? me : &me->sim->rank[number];
        yk_sleep_ns(delay_ns(me->sim));
        if (server->ended || !server->listens || server->peers == YK_SIM_MAX_RANKS)
            return yk_fail(YK_ELOST, "%s: cannot connect", address[i].text);
        server->peer[server->peers++] = me->number;
        me->peer[me->peers++] = number;
    }
    *out = (yk_transport){&joined_transport, me};
    return YK_OK;
}

int __wrap_socket(int domain, int type, int protocol)
{
    if (!yk__this_task)
        return __real_socket(domain, type, protocol);
    fprintf(stderr, "a simulated job has opened a real socket\n");
    abort();
}
