#include "comm/comm_internal.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/team.h"
#include "base/wait.h"
#include "comm/plugin.h"
#include "comm/rendezvous.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

const char *const yk_purpose_name[YK_PURPOSES] = {"pull", "push", "all-reduce", "control"};

/* ---- this process ---- */

uint64_t yk__host_id(void)
{
    char text[256];
    uint64_t hash = 14695981039346656037u;
    yk_file_text(text, 64, "/proc/sys/kernel/random/boot_id");
    size_t n = strlen(text);
    for (int net = 0; net < 2; net++) {
        const ssize_t more =
            readlink(net ? "/proc/self/ns/net" : "/proc/self/ns/pid", text + n, sizeof text - n);
        n += more > 0 ? (size_t)more : 0;
    }
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return hash;
}

/* YOKE_SHARED_MEMORY=0, or a user who excludes shared memory from the transports of Open MPI. */
static bool wants_messages(void)
{
    if (yk_env_number("YOKE_SHARED_MEMORY", 1) == 0)
        return true;
    const char *btl = getenv("OMPI_MCA_btl");
    return btl && *btl != '^' && !strstr(btl, "vader") && !strstr(btl, "sm");
}

static yk_status exchange_addresses(yk_comm *c, double timeout)
{
    yk__address mine = {0}; /* 0 where ranks are not processes: the kernel does not know their state */
    if (c->world.processes) {
        mine = (yk__address){getpid(), yk__host_id(), !wants_messages()};
        gethostname(mine.name, sizeof mine.name - 1);
    }
    c->address = calloc((size_t)c->size, sizeof *c->address);
    if (!c->address)
        return yk_fail_memory((size_t)c->size * sizeof *c->address, "the processes");
    return yk_comm_all_gather(c, &mine, sizeof mine, c->address, timeout, "all processes to start");
}

/* ---- start and end ---- */

/* The transport of this thread. ops NULL: that of the engine. */
static _Thread_local struct {
    yk_transport transport;
    yk_place place;
} own;

void yk_transport_set(const yk_transport *t, int rank, int size)
{
    own.transport = t ? *t : (yk_transport){0};
    own.place = (yk_place){rank, size};
}

/* yk_comm_start() reports errors in the environment: one process is expected at least. */
yk_place yk_comm_expected(void)
{
    yk_rendezvous r;
    if (own.transport.ops)
        return own.place;
    return yk_rendezvous_read(&r) ? (yk_place){0, 1} : (yk_place){r.rank, r.size};
}

yk_status yk__transport_error(const yk_comm *c, int code, const char *what, int peer)
{
    char text[512] = "?", rank[24] = "";
    if (peer >= 0)
        snprintf(rank, sizeof rank, " rank %d", yk__rank_of(c, peer));
    const yk_transport *t = yk__route(c, &peer);
    if (code == YK_TRANSPORT_STOPPED)
        return yk_fail(YK_EINTERRUPTED, "stopped by a signal to another process before training began");
    if (code <= YK_TRANSPORT_STATUS)
        return (yk_status)(YK_TRANSPORT_STATUS - code);
    t->ops->error_text(t->self, code, text, sizeof text);
    return yk_fail(YK_ELOST, "%s: %s%s: %s", t->ops->mpi ? "MPI" : "transport", what, rank, text);
}

/* MPI, if its launcher started this process. Otherwise, or if the plug-in is missing and the processes can find each other
 * without it, the native transport. */
static yk_status choose_transport(const char *run_dir, double timeout, yk_rendezvous *r, yk_transport *out)
{
    yk_status st = yk_rendezvous_read(r);
    if (st || (r->mpi && (!(st = yk_mpi_load(&out->ops)) || !*r->master)))
        return st;
    if (r->mpi && r->rank == 0)
        yk_note("%s; this job runs without MPI", yk_error());
    if ((st = yk_rendezvous_token(r, run_dir, timeout)))
        return st;
    return yk_native_create(r, timeout, wants_messages(), out);
}

/* MPI_Init may never return; the native transport has a deadline of its own. */
static yk_status start_transport(yk_comm *c, yk_startup *startup)
{
    yk__startup_attach(startup, c);
    yk_startup_enter(startup, YK_STARTUP_BUSY);
    const int code = c->transport[YK__RANKS].ops->start(c->transport[YK__RANKS].self, &c->world);
    yk_startup_enter(startup, YK_STARTUP_WAITING);
    if (code) {
        yk__startup_attach(startup, NULL);
        return yk__transport_error(c, code, "cannot start", YK_ANY);
    }
    c->rank = c->world.rank;
    c->size = c->world.size;
    return YK_OK;
}

yk_status yk_comm_start(const char *run_dir, yk_startup *startup, double timeout, yk_comm **out)
{
    yk_rendezvous r = {0};
    yk_transport t = own.transport;
    prctl(PR_SET_TIMERSLACK,
          1000); /* ns, for this thread and those it starts: short sleeps end on time (wait.h) */
    yk_status st =
        t.ops ? YK_OK : choose_transport(run_dir, startup ? startup->config.limit : timeout, &r, &t);
    if (st)
        return st;
    yk_comm *c = calloc(1, sizeof *c);
    if (!c)
        return yk_fail_memory(sizeof *c, "the processes");
    c->transport[YK__RANKS] = t;
    if (r.local_size)
        yk_wait_set_share((double)yk_cores() / r.local_size);
    c->job = r;
    c->stopped_timeout = timeout;
    st = start_transport(c, startup);
    yk_rendezvous_done(&r, run_dir);
    if (st) {
        free(c);
        return st;
    }
    *out = c;
    if (!(c->counts.sent_to = calloc((size_t)c->size, sizeof *c->counts.sent_to)))
        return yk_fail_memory((size_t)c->size * sizeof *c->counts.sent_to, "the processes");
    if (r.size > 1 && c->size == 1)
        return yk_fail(YK_EUSAGE,
                       "the launcher started %d processes, but each has an MPI_COMM_WORLD of its own: the "
                       "launcher belongs "
                       "to a different MPI implementation than this program (%s); use the mpirun of that "
                       "implementation, srun --mpi=pmix, or yoke train --launch %d",
                       r.size, c->world.library, r.size);
    st = startup ? yk__heartbeats_begin(c, startup) : YK_OK;
    if (!st)
        st = exchange_addresses(c, timeout);
    if (!st && c->world.processes)
        yk_wait_set_share((double)yk_cores() / yk_comm_local_size(c));
    return st;
}

void yk_comm_stop(yk_comm *c, bool clean)
{
    if (!c)
        return;
    for (const yk_transport *t = c->transport; t <= &c->transport[YK__JOINED]; t++)
        if (t->ops &&
            (clean || t->ops->lost)) /* a transport that detects lost peers does not wait for them */
            t->ops->stop(t->self);
    free(c->description);
    free(c->address);
    free(c->counts.sent_to);
    free(c->heartbeat);
    free(c);
}

void yk_comm_abandon(yk_comm *c)
{
    for (int i = 0; c && i <= YK__JOINED; i++)
        if (c->transport[i].ops && c->transport[i].ops->abandon)
            c->transport[i].ops->abandon(c->transport[i].self);
}

void yk_comm_ask_to_stop(yk_comm *c)
{
    const yk_transport *t = &c->transport[YK__RANKS];
    uint64_t request; /* nobody waits for it */
    if (!c->asked)
        t->ops->send(t->self, 0, YK__TAG_STOP, &c->asked, 0, &request);
    c->asked = true;
}

bool yk_comm_is_asked_to_stop(yk_comm *c)
{
    int from;
    c->asked |= !yk__receive_empty(c, YK__RANKS, YK__TAG_STOP, &from) && from >= 0;
    return c->asked;
}

void yk_comm_abort(yk_comm *c, int status)
{
    fflush(NULL);
    if (c->transport[YK__RANKS].ops)
        c->transport[YK__RANKS].ops->abort(c->transport[YK__RANKS].self, status);
}

int yk_comm_rank(const yk_comm *c)
{
    return c->rank;
}
int yk_comm_size(const yk_comm *c)
{
    return c->size;
}
int yk_comm_local_size(const yk_comm *c)
{
    const int here = c ? yk_comm_ranks_here(c, 0, c->size) : 1;
    return here ? here : c->size;
}

const char *yk_comm_library(const yk_comm *c)
{
    return c->world.library;
}

yk_comm_counts *yk_comm_counted(yk_comm *c)
{
    return &c->counts;
}

/* ---- the other processes, without messages: whether they are alive ---- */

bool yk_comm_on_one_host(const yk_comm *c)
{
    const yk__address *first = c->address;
    bool all = true;
    for (int r = 0; r < c->size; r++)
        all &= first[r].host == first->host && first[r].shares_memory;
    return all;
}

int yk_comm_ranks_here(const yk_comm *c, int first, int count)
{
    int n = 0;
    for (int r = first; c->world.processes && r < first + count; r++)
        n += c->address[r].host == c->address[c->rank].host;
    return n;
}

bool yk_comm_is_lost(const yk_comm *c, int peer)
{
    if (peer == c->rank)
        return false;
    const yk_transport *t = yk__route(c, &peer);
    return t->ops && t->ops->lost && t->ops->lost(t->self, peer);
}

bool yk_comm_is_receiving(const yk_comm *c)
{
    bool any = false;
    for (const yk_transport *t = c->transport; t <= &c->transport[YK__JOINED]; t++)
        any |= t->ops && t->ops->is_receiving && t->ops->is_receiving(t->self);
    return any;
}

char yk_comm_state(const yk_comm *c, int peer)
{
    char text[512];
    if (yk_comm_is_lost(c, peer))
        return 'X';
    if (!c->address || peer >= c->size || c->address[peer].host != c->address[c->rank].host ||
        !c->address[peer].pid) /* not exchanged yet */
        return 0;
    if (!yk_file_text(text, sizeof text, "/proc/%lld/stat", (long long)c->address[peer].pid))
        return 'X';
    const char *state = strrchr(text, ')');
    return !state || strlen(state) < 3 ? 0 : state[2] == 'Z' ? 'X' : state[2];
}

/* A transport that detects deaths does so without reading a file for each peer. */
bool yk_comm_is_dead(const yk_comm *c, int peer)
{
    const bool detects = peer >= c->size || c->transport[YK__RANKS].ops->lost;
    return detects ? yk_comm_is_lost(c, peer) : yk_comm_state(c, peer) == 'X';
}

/* "rank 2" in "rank 2 has died" and in "ranks 1, 2 did not send", but not in "rank 21". */
static bool mentions(const char *text, int rank)
{
    uint64_t named;
    for (const char *at = text; (at = strstr(at, "rank"));) {
        at += at[4] == 's' ? 5 : 4;
        for (const char *next = at; *at == ' ' && (next = yk_digits(at + 1, INT_MAX, &named));) {
            if (named == (uint64_t)rank)
                return true;
            at = next + (*next == ',');
        }
    }
    return false;
}

yk_status yk_comm_explain(const yk_comm *c, yk_status st)
{
    enum { MAX_NAMED = 8 };
    char ranks[1024] = "";
    int nnamed = 0, more = 0;
    for (int i = 0; st == YK_ELOST && i < c->size && strlen(ranks) < sizeof ranks - 120; i++) {
        const char state = yk_comm_state(c, i), *host = c->address ? c->address[i].name : "";
        const bool lost = state == 'X' || state == 'T', named = mentions(yk_error(), i);
        char *to = ranks + strlen(ranks);
        const size_t size = sizeof ranks - strlen(ranks);
        nnamed += named || lost;
        if (lost && !named && nnamed > MAX_NAMED)
            more++;
        else if (lost && !named)
            snprintf(to, size, "%srank %d is %s", *ranks ? ", " : "", i, state == 'X' ? "dead" : "stopped");
        else if (named && *host && strcmp(host, c->address[c->rank].name) && !strstr(yk_error(), host))
            snprintf(to, size, "%srank %d runs on host %s", *ranks ? ", " : "", i, host);
    }
    if (*ranks && more)
        snprintf(ranks + strlen(ranks), 32, ", and %d more", more);
    return *ranks ? yk_fail(st, "%s (%s)", yk_error(), ranks) : st;
}

/* ---- messages ---- */

yk_status yk__receive_empty(const yk_comm *c, int kind, int tag, int *peer_out)
{
    const yk_transport *t = &c->transport[kind];
    yk_arrival there = {0};
    uint64_t request;
    bool done = false;
    size_t bytes;
    yk_wait w = yk_wait_begin(YK_WAIT_RANKS, 60.0);
    const int error = t->ops->probe(t->self, YK_ANY, tag, &done, &there);
    if (error)
        return yk__transport_error(c, error, "cannot probe for messages", YK_ANY);
    *peer_out = done ? there.peer : YK_ANY;
    if (!done)
        return YK_OK;
    int code = t->ops->recv(t->self, there.peer, tag, NULL, 0, &request);
    for (done = false; !code && !done && yk_wait_poll(&w);)
        code = t->ops->test(t->self, &request, &done, &bytes);
    return done && !code ? YK_OK
                         : yk_fail(YK_ELOST, "cannot receive a message from rank %d within 60 s", there.peer);
}

void yk_comm_count(yk_comm *c, yk_purpose why, bool incoming, size_t bytes, size_t messages)
{
    yk_traffic *t = &c->counts.traffic[why];
    *(incoming ? &t->received : &t->sent) += bytes;
    *(incoming ? &t->messages_received : &t->messages_sent) += messages;
}

static yk_status op_error(const yk_comm *c, const yk_op *op, int code)
{
    return yk__transport_error(c, code, op->incoming ? "cannot receive from" : "cannot send to", op->peer);
}

static yk_status begin(yk_comm *c, yk_op *op, int tag, void *buf, size_t bytes)
{
    int peer = op->peer;
    const yk_transport *t = yk__route(c, &peer);
    if (bytes > INT32_MAX)
        return yk_fail(YK_EUSAGE, "a message of %zu bytes is too long: at most 2 GB can be sent at once",
                       bytes);
    const int code = op->incoming ? t->ops->recv(t->self, peer, tag, buf, bytes, &op->request)
                                  : t->ops->send(t->self, peer, tag, buf, bytes, &op->request);
    op->active = !code;
    return code ? op_error(c, op, code) : YK_OK;
}

yk_status yk_comm_send(yk_comm *c, int peer, int tag, yk_purpose why, const void *buf, size_t bytes,
                       yk_op *op)
{
    *op = (yk_op){.peer = peer, .purpose = why, .bytes = bytes};
    const yk_status st = begin(c, op, tag, (void *)(uintptr_t)buf, bytes);
    if (st)
        return st;
    yk_comm_count(c, why, false, bytes, 1);
    if (peer < c->size)
        c->counts.sent_to[peer] += bytes;
    return YK_OK;
}

yk_status yk_comm_recv(yk_comm *c, int peer, int tag, yk_purpose why, void *buf, size_t cap, yk_op *op)
{
    *op = (yk_op){.peer = peer, .purpose = why, .incoming = true};
    return begin(c, op, tag, buf, cap);
}

void yk_comm_change_purpose(yk_comm *c, bool incoming, yk_purpose from, yk_purpose to, size_t bytes,
                            unsigned messages)
{
    yk_comm_count(c, from, incoming, -bytes, -(size_t)messages);
    yk_comm_count(c, to, incoming, bytes, messages);
}

yk_status yk_comm_check(const yk_comm *c)
{
    const yk_transport *t = &c->transport[YK__RANKS];
    yk_arrival there;
    bool found;
    const int code = t->ops ? t->ops->probe(t->self, YK_ANY, YK__TAG_STOP, &found, &there) : 0;
    return code ? yk__transport_error(c, code, "the job was ended", YK_ANY) : YK_OK;
}

static void count_received(yk_comm *c, yk_op *op, size_t bytes)
{
    op->bytes = bytes;
    yk_comm_count(c, op->purpose, true, bytes, 1);
}

yk_status yk_comm_test(yk_comm *c, yk_op *op, bool *done_out)
{
    size_t bytes = 0;
    *done_out = true;
    if (!op->active)
        return YK_OK;
    int peer = op->peer;
    const yk_transport *t = yk__route(c, &peer);
    const int code = t->ops->test(t->self, &op->request, done_out, &bytes);
    op->active = !code && !*done_out;
    if (code)
        return op_error(c, op, code);
    if (*done_out && op->incoming)
        count_received(c, op, bytes);
    return YK_OK;
}

yk_status yk_comm_probe(yk_comm *c, int peer, int tag, bool *found_out, int *peer_out, size_t *bytes_out)
{
    yk_arrival there = {0};
    int from = peer;
    const yk_transport *t = yk__route(c, &from);
    const int code = t->ops->probe(t->self, from, tag, found_out, &there);
    if (code) {
        *found_out = false;
        return yk__transport_error(c, code, "cannot probe for messages from", peer);
    }
    if (*found_out) {
        *peer_out = peer < 0 ? there.peer : peer;
        *bytes_out = there.bytes;
    }
    return YK_OK;
}

/* YK_ELOST if a peer of an operation is lost; `thorough`: or has died, or (stopped_too) was stopped, as far as the kernel knows. */
static yk_status find_dead(const yk_comm *c, const yk_op *op, int n, bool thorough, bool stopped_too,
                           const char *what)
{
    for (int i = 0; i < n; i++) {
        const char state = !op[i].active ? 0
                           : thorough    ? yk_comm_state(c, op[i].peer)
                                         : (char)(yk_comm_is_lost(c, op[i].peer) ? 'X' : 0);
        if (state != 'X' && !(state == 'T' && stopped_too))
            continue;
        const yk_status st = yk_comm_check(c);
        return st ? st
                  : yk_fail(YK_ELOST, "rank %d %s (while waiting for %s)", yk__rank_of(c, op[i].peer),
                            state == 'X' ? "has died" : "was stopped by a signal", what);
    }
    return YK_OK;
}

/* With heartbeats, which ranks send before training begins, a rank is overdue if they stopped, however long the wait takes. All ranks are
 * checked, because a rank that this one waits for may itself wait for another. */
static yk_status check_overdue(const yk_comm *c, const yk_op *op, int n, double began, double now,
                               double seconds, const char *what)
{
    const bool heartbeats = c->heartbeat && c->size > 1;
    const double limit = c->startup ? c->startup->config.limit : seconds;
    char ranks[256] = "";
    int overdue = 0;
    for (int i = 0; i < (heartbeats ? c->size : n) && strlen(ranks) < sizeof ranks - 16; i++)
        if (heartbeats ? yk__missed_heartbeats(c, i, began, now) : op[i].active && now - began > limit)
            snprintf(ranks + strlen(ranks), sizeof ranks - strlen(ranks), "%s%d", overdue++ ? ", " : "",
                     heartbeats ? i : yk__rank_of(c, op[i].peer));
    if (!overdue)
        return YK_OK;
    return yk_fail(YK_ELOST, "waited %.0f s for %s: no message from rank%s %s; %s, or cannot be reached",
                   now - began, what, overdue > 1 ? "s" : "", ranks,
                   overdue > 1 ? "they have died, are hung" : "it has died, is hung");
}

/* The periodic checks of a wait. */
static yk_status check_wait(yk_comm *c, const yk_op *op, int n, double seconds, const char *what,
                            double *began, double *checked)
{
    const double now = yk_now();
    *began = *began > 0.0 ? *began : now;
    *checked = *checked > 0.0 ? *checked : now;
    yk_status st = yk__heartbeat(c, now);
    if (!st)
        st = check_overdue(c, op, n, *began, now, seconds, what);
    if (!st && c->startup && *c->startup->config.stop)
        st = yk_fail(YK_EINTERRUPTED, "stopped by a signal before training began");
    const bool thorough = now - *checked > 0.5;
    *checked = thorough ? now : *checked;
    return st ? st : find_dead(c, op, n, thorough, now - *began > c->stopped_timeout, what);
}

yk_status yk_comm_wait(yk_comm *c, yk_op *op, int n, double seconds, const char *what)
{
    double began = 0.0, checked = 0.0;
    yk_wait w = yk_wait_begin(YK_WAIT_RANKS, HUGE_VAL); /* check_wait() has the deadlines */
    for (int first = 0;;) {
        while (first < n && !op[first].active)
            first++;
        if (first == n)
            return YK_OK;
        for (int i = first; i < n; i++) {
            bool done;
            yk_status st = yk_comm_test(c, &op[i], &done);
            if (st)
                return st;
        }
        if (!op[first].active)
            continue;
        yk_wait_poll(&w);
        yk_status st =
            yk_wait_is_check_due(&w) ? check_wait(c, op, n, seconds, what, &began, &checked) : YK_OK;
        if (st)
            return st;
    }
}

yk_status yk_comm_send_wait(yk_comm *c, int peer, int tag, yk_purpose why, const void *buf, size_t bytes,
                            double seconds, const char *what)
{
    yk_op op;
    yk_status st = yk_comm_send(c, peer, tag, why, buf, bytes, &op);
    return st ? st : yk_comm_wait(c, &op, 1, seconds, what);
}

yk_status yk_comm_recv_wait(yk_comm *c, int peer, int tag, yk_purpose why, void *buf, size_t bytes,
                            double seconds, const char *what)
{
    yk_op op;
    yk_status st = yk_comm_recv(c, peer, tag, why, buf, bytes, &op);
    return st ? st : yk_comm_wait(c, &op, 1, seconds, what);
}

/* Takes over the memory of a message, instead of copying it. */
static bool take(yk_comm *c, yk_inbox *in, int peer, int tag, yk_purpose why)
{
    size_t bytes;
    int from = peer;
    const yk_transport *t = yk__route(c, &from);
    char *data = t->ops->take ? t->ops->take(t->self, from, tag, &bytes) : NULL;
    if (!data)
        return false;
    free(in->data);
    *in = (yk_inbox){data, bytes, {.peer = peer, .purpose = why, .incoming = true}};
    count_received(c, &in->op, bytes);
    return true;
}

yk_status yk_inbox_receive(yk_comm *c, yk_inbox *in, int peer, int tag, yk_purpose why, bool *done_out)
{
    bool found;
    int from;
    size_t bytes = 0;
    *done_out = false;
    if (!in->op.active) {
        yk_status st = yk_comm_probe(c, peer, tag, &found, &from, &bytes);
        if (st || !found)
            return st;
        if ((*done_out = take(c, in, peer, tag, why)))
            return YK_OK;
        if (YK_RESERVE(in->data, in->cap, bytes + 1, "a message"))
            return YK_ESYSTEM;
        if ((st = yk_comm_recv(c, peer, tag, why, in->data, bytes, &in->op)))
            return st;
    }
    return yk_comm_test(c, &in->op, done_out);
}
