/* Arbitrary messages from two clients and from server 0 to a parameter server: answers or an error, never a crash.
 *
 * The first two bytes select the kind of job. Then messages follow: short ones, from which a header with valid sizes is made, to
 * reach more code, or the bytes of a message as they are. Nothing is sent: the transport forgets messages. */
#include "comm/comm_internal.h"
#include "optim/kinds.h"
#include "store/server_internal.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CLIENTS = 2, THREADS = 2, KEYS = 12, DENSE = 20, EXAMPLES = 40, SHORT = 16 };

/* ---- the transport */

static struct { /* the message that is received next */
    const uint8_t *data;
    size_t bytes;
} arrived;

static int receive(void *self, int peer, int tag, void *buf, size_t cap, uint64_t *request_out)
{
    (void)self, (void)peer, (void)tag;
    *request_out = 2;
    memcpy(buf, arrived.data, arrived.bytes < cap ? arrived.bytes : cap);
    return 0;
}

static int send_nothing(void *self, int peer, int tag, const void *buf, size_t bytes, uint64_t *request_out)
{
    (void)self, (void)peer, (void)tag, (void)buf, (void)bytes;
    *request_out = 1;
    return 0;
}

static int is_done(void *self, uint64_t *request, bool *done_out, size_t *bytes_out)
{
    (void)self;
    *done_out = true;
    *bytes_out = *request == 2 ? arrived.bytes : 0;
    return 0;
}

static int find(void *self, int peer, int tag, bool *found_out, yk_arrival *out)
{
    (void)self, (void)tag;
    *found_out = true;
    *out = (yk_arrival){.peer = peer, .bytes = arrived.bytes};
    return 0;
}

/* ---- the server */

typedef struct {
    yk_comm comm;
    yk_plan plan;
    uint64_t sent_to[2 + CLIENTS];
    yk_local *table;
    yk_assignment assignment;
    yk_streams streams;
    yk_server *server;
} job;

static void create(uint8_t how, bool chief, job *j)
{
    static const yk_transport_ops ops = {
        .send = send_nothing, .recv = receive, .test = is_done, .probe = find};
    const bool synchronous = how & 1, streamed = how & 2, local = how & 4;
    yk_optim_config optim = yk_optim_defaults(how & 64 ? YK_ADAGRAD : YK_SGD);
    optim.l2 = how & 128 ? 0.01 : 0.0;
    const int servers = chief ? 1 : 2;
    *j = (job){.comm = {.transport[YK__RANKS].ops = &ops,
                        .rank = servers - 1,
                        .size = servers + CLIENTS,
                        .counts.sent_to = j->sent_to}};
    yk_local_config table = {.ngroups = 2,
                             .group = {{{"linear", true, 1 + (how >> 3 & 1), KEYS}, optim, 0, NULL, 0},
                                       {{"network", false, 1, DENSE}, optim, 0, NULL, 0}},
                             .workers = 1,
                             .batch = 4};
    j->plan = (yk_plan){.ngroups = 2,
                        .staleness = synchronous ? 0
                                     : how & 16  ? 3
                                                 : YK_ASYNC,
                        .synchronous = synchronous,
                        .quorum = synchronous && how & 16,
                        .local_steps = local ? 4 : 0,
                        .owners = servers,
                        .first_client = servers,
                        .clients = CLIENTS,
                        .workers_per_process = THREADS,
                        .channels = how & 32 && !synchronous && !local ? THREADS : 1,
                        .survives_loss = true,
                        .worker_timeout = 1e9,
                        .first_step_timeout = 1e9,
                        .control_timeout = 1e9};
    yk_server_config c = {
        .comm = &j->comm, .plan = &j->plan, .group = {table.group[0].shape, table.group[1].shape}};
    for (int g = 0; g < table.ngroups; g++) {
        size_t begin;
        c.group[g].owners = servers;
        table.group[g].shape = yk_group_piece(&c.group[g], servers - 1, &begin);
    }
    if (yk_local_create(&table, &j->table))
        abort();
    c.table = j->table;
    yk_assignment_init(&j->assignment, EXAMPLES, 2, UINT64_MAX, 4, CLIENTS * THREADS, 0);
    if (yk_streams_init(&j->streams, CLIENTS * THREADS, 2))
        abort();
    c.streams = streamed && chief ? &j->streams : NULL;
    c.assignment = !streamed && chief && (!synchronous || how & 16) ? &j->assignment : NULL;
    if (yk_server_create(&c, &j->server))
        abort();
}

static void destroy(job *j)
{
    yk_server_free(j->server);
    yk_streams_fini(&j->streams);
    yk_assignment_fini(&j->assignment);
    yk_local_free(j->table);
}

/* ---- messages */

static char *allocate(yk__client *c, size_t bytes)
{
    free(c->in.data); /* exactly as long as the message, so that reads beyond it are detected */
    c->in.data = malloc(bytes ? bytes : 1);
    c->in.cap = c->in.op.bytes = bytes;
    if (!c->in.data)
        abort();
    return c->in.data;
}

/* A message from SHORT bytes; keys and the rest are made of them. */
static void make_message(const yk_server *s, yk__client *c, const uint8_t *b)
{
    yk__up up = {.magic = YK__MAGIC,
                 .kind = b[0] % 9,
                 .flags = b[1] & 63,
                 .pull = b[2],
                 .push_of = b[3],
                 .npull = b[4] % 16,
                 .nshares = b[5] % 4,
                 .thread = b[5] / 4 % 4,
                 .round = s->round + b[6] % 4 - (b[6] & 4 ? 1 : 0),
                 .examples = b[7],
                 .loss = b[8],
                 .steps = b[9] % 8,
                 .stream = b[10],
                 .next_epoch = b[10] % 3,
                 .last = {b[11], b[12] % 4, b[13], b[14]}};
    if (up.flags & YK__HAS_PUSH && up.examples)
        up.npush = (uint32_t)yk__layout_all(&s->layout, yk__pull_of(s, c, up.push_of)->n);
    const size_t keys = up.npull;
    char *at = allocate(c, sizeof up + up.nshares * sizeof(yk__share) + (up.npush + keys) * 4);
    memcpy(at, &up, sizeof up);
    at += sizeof up;
    for (uint32_t i = 0; i < up.nshares; i++, at += sizeof(yk__share)) {
        const yk__share share = {.examples = b[7] / (i + 1),
                                 .incarnation = b[11] % 4,
                                 .newest = b[12] % 4,
                                 .cursor = {b[11], b[12] % 4, b[13], b[14], b[10]}};
        memcpy(at, &share, sizeof share);
    }
    for (uint32_t i = 0; i < up.npush; i++, at += 4)
        memcpy(at, &(float){(float)b[i % SHORT] / 64.0f}, 4);
    for (size_t i = 0; i < keys; i++, at += 4)
        memcpy(at, &(uint32_t){(uint32_t)(b[4] / 16 + i * (1 + (b[13] & 1)))}, 4);
}

/* What the server does after each message (server.c); c NULL: it is from server 0. */
static yk_status handle(yk_server *s, yk__client *c)
{
    bool found;
    yk_status st = !c ? yk__control_receive(s, &found) : c->pushed ? YK_OK : yk__handle_message(s, c);
    if (!st && s->rounds->close)
        st = s->rounds->close(s);
    if (!st)
        st = yk__snapshot_send(s);
    if (!st)
        st = yk__answer_all(s, 0.0);
    return st || !s->rounds->prepare ? st : s->rounds->prepare(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    yk_status st = YK_OK;
    job j;
    if (size < 3)
        return 0;
    create(data[0], !(data[1] & 1), &j);
    data += 2;
    size -= 2;
    while (!st && size > 1) {
        const uint8_t what = *data++;
        size--;
        yk__client *c = &j.server->client[what & 1];
        const bool raw = what & 2, control = what & 4 && !j.server->chief && !j.server->decided;
        size_t n = raw ? (size_t)(what & 0xf8) : SHORT;
        n = n < size ? n : size;
        arrived.data = data;
        arrived.bytes = n;
        if (!control && !c->pushed && raw) {
            memcpy(allocate(c, n), data, n);
        } else if (!control && !c->pushed) {
            uint8_t b[SHORT] = {0};
            memcpy(b, data, n);
            make_message(j.server, c, b);
        }
        st = handle(j.server, control ? NULL : c);
        data += n;
        size -= n;
    }
    if (st && st != YK_ELOST)
        abort();
    destroy(&j);
    return 0;
}
