#include "comm/comm.h"

#include "base/clock.h"
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(MPI_Request) <= sizeof(((yk_op *)0)->request), "an MPI_Request fits into yk_op");

const char *const yk_purpose_name[YK_PURPOSES] = {"pull", "push", "all-reduce", "control"};

enum { MOST_JOINED = 256, TAG_COLLECTIVE = 1 };

struct yk_comm {
    int rank, size;
    int njoined;
    MPI_Comm joined[MOST_JOINED]; /* each with one process at the other end */
    yk_traffic traffic[YK_PURPOSES];
    char library[96];
    const volatile sig_atomic_t *heed;
    struct neighbour {
        int64_t pid;
        uint64_t machine; /* the same for processes that see each other's numbers */
        uint64_t
            network; /* the same for those that would be one host to all others; 0: it asked for messages */
    } * neighbour;   /* [size] */
};

/* ---- start and end ---- */

static int from_environment(const char *name)
{
    const char *text = getenv(name);
    return text ? atoi(text) : 0;
}

int yk_comm_expected(void)
{
    int n = from_environment("OMPI_COMM_WORLD_SIZE"); /* mpirun of Open MPI */
    if (n <= 0)
        n = from_environment("PMI_SIZE");                      /* mpirun of MPICH; srun --mpi=pmi2 */
    if (n <= 0 && (getenv("PMIX_RANK") || getenv("PMI_RANK"))) /* srun --mpi=pmix */
        n = from_environment("SLURM_STEP_NUM_TASKS") > 0 ? from_environment("SLURM_STEP_NUM_TASKS") : 1;
    return n > 0 ? n : 0;
}

bool yk_comm_is_open_mpi(void)
{
#ifdef OPEN_MPI
    return true;
#else
    return false;
#endif
}

static yk_status meet_neighbours(yk_comm *c);

static yk_status mpi_error(int code, const char *what, int peer)
{
    char text[MPI_MAX_ERROR_STRING] = "?";
    int n = 0;
    MPI_Error_string(code, text, &n);
    if (peer < 0)
        return yk_fail(YK_ELOST, "MPI: %s: %s", what, text);
    return yk_fail(YK_ELOST, "MPI: %s rank %d: %s", what, peer, text);
}

yk_status yk_comm_start(yk_comm_kind kind, yk_comm **out)
{
    const int expected = yk_comm_expected();
    int got, wanted = kind == YK_COMM_ACCEPTS ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED;
    signal(SIGPIPE, SIG_IGN); /* a peer that died is found out by silence, not by a signal */
    yk_comm *c = calloc(1, sizeof *c);
    if (!c)
        return yk_fail_memory(sizeof *c, "the processes");
    int code = MPI_Init_thread(NULL, NULL, wanted, &got);
    if (code) {
        free(c);
        return mpi_error(code, "it cannot be started", YK_ANY);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN); /* of those who join, or wait for them */
    MPI_Comm_rank(MPI_COMM_WORLD, &c->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &c->size);
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int n = 0;
    MPI_Get_library_version(version, &n);
    snprintf(c->library, sizeof c->library, "%.95s", version);
    c->library[strcspn(c->library, ",\n")] = '\0';
    *out = c;
    if (expected > 1 && c->size == 1)
        return yk_fail(
            YK_EUSAGE,
            "the launcher started %d processes, but each is alone in its world: it belongs to another "
            "MPI than this program (%s); use that one's mpirun, srun --mpi=pmix, or yoke train --launch %d",
            expected, c->library, expected);
    if (got < wanted)
        return yk_fail(YK_ESYSTEM,
                       "%s does not allow calls from several threads, which a job that others may "
                       "join needs",
                       c->library);
    return meet_neighbours(c);
}

void yk_comm_stop(yk_comm *c, bool clean)
{
    if (!c)
        return;
    if (clean)
        MPI_Finalize();
    free(c->neighbour);
    free(c);
}

void yk_comm_abort(yk_comm *c, int status)
{
    (void)c;
    fflush(NULL);
    MPI_Abort(MPI_COMM_WORLD, status);
    _Exit(status);
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
    const int n = from_environment("OMPI_COMM_WORLD_LOCAL_SIZE");
    return c ? n > 0                                     ? n
               : from_environment("MPI_LOCALNRANKS") > 0 ? from_environment("MPI_LOCALNRANKS")
                                                         : c->size
             : 1;
}

const char *yk_comm_library(const yk_comm *c)
{
    return c->library;
}
const yk_traffic *yk_comm_traffic(const yk_comm *c)
{
    return c->traffic;
}

/* ---- messages ---- */

static MPI_Comm comm_of(const yk_comm *c, int peer)
{
    return peer < c->size ? MPI_COMM_WORLD : c->joined[peer - c->size];
}

/* The number of a peer in its own communicator: one that joined is alone there. */
static int rank_of(const yk_comm *c, int peer)
{
    return peer < c->size ? peer : 0;
}

static MPI_Request *request_of(yk_op *op)
{
    return (MPI_Request *)(void *)op->request;
}

static yk_status too_long(size_t bytes)
{
    return yk_fail(YK_EUSAGE, "a message of %zu bytes is longer than MPI can send at once", bytes);
}

yk_status yk_comm_send(yk_comm *c, int peer, int tag, yk_purpose why, const void *buf, size_t bytes,
                       yk_op *op)
{
    *op = (yk_op){.peer = peer, .purpose = why, .bytes = bytes};
    if (bytes > INT32_MAX)
        return too_long(bytes);
    int code = MPI_Isend(buf, (int)bytes, MPI_BYTE, rank_of(c, peer), tag, comm_of(c, peer), request_of(op));
    if (code)
        return mpi_error(code, "cannot send to", peer);
    op->active = true;
    c->traffic[why].sent += bytes;
    c->traffic[why].messages_sent++;
    return YK_OK;
}

yk_status yk_comm_recv(yk_comm *c, int peer, int tag, yk_purpose why, void *buf, size_t cap, yk_op *op)
{
    *op = (yk_op){.peer = peer, .purpose = why, .incoming = true};
    if (cap > INT32_MAX)
        return too_long(cap);
    int code = MPI_Irecv(buf, (int)cap, MPI_BYTE, rank_of(c, peer), tag, comm_of(c, peer), request_of(op));
    if (code)
        return mpi_error(code, "cannot receive from", peer);
    op->active = true;
    return YK_OK;
}

void yk_comm_recount(yk_comm *c, bool incoming, yk_purpose from, yk_purpose to, size_t bytes,
                     unsigned messages)
{
    yk_traffic *a = &c->traffic[from], *b = &c->traffic[to];
    *(incoming ? &a->received : &a->sent) -= bytes;
    *(incoming ? &b->received : &b->sent) += bytes;
    *(incoming ? &a->messages_received : &a->messages_sent) -= messages;
    *(incoming ? &b->messages_received : &b->messages_sent) += messages;
}

void yk_comm_count(yk_comm *c, yk_purpose why, size_t bytes_in, size_t bytes_out, unsigned messages)
{
    yk_traffic *a = &c->traffic[why];
    a->received += bytes_in;
    a->sent += bytes_out;
    a->messages_received += messages;
    a->messages_sent += messages;
}

yk_status yk_comm_test(yk_comm *c, yk_op *op, bool *done_out)
{
    int done = 1, count = 0;
    MPI_Status status;
    *done_out = true;
    if (!op->active)
        return YK_OK;
    int code = MPI_Test(request_of(op), &done, &status);
    if (code) {
        op->active = false;
        return mpi_error(code, op->incoming ? "cannot receive from" : "cannot send to", op->peer);
    }
    if (!done) {
        *done_out = false;
        return YK_OK;
    }
    op->active = false;
    if (op->incoming) {
        MPI_Get_count(&status, MPI_BYTE, &count);
        op->bytes = (size_t)count;
        c->traffic[op->purpose].received += op->bytes;
        c->traffic[op->purpose].messages_received++;
    }
    return YK_OK;
}

yk_status yk_comm_probe(yk_comm *c, int peer, int tag, bool *found_out, int *peer_out, size_t *bytes_out)
{
    MPI_Status status;
    int found = 0, count = 0;
    const bool any = peer == YK_ANY;
    int code = MPI_Iprobe(any ? MPI_ANY_SOURCE : rank_of(c, peer), tag,
                          any ? MPI_COMM_WORLD : comm_of(c, peer), &found, &status);
    *found_out = false;
    if (code)
        return mpi_error(code, "cannot look for messages of", peer);
    if (!found)
        return YK_OK;
    MPI_Get_count(&status, MPI_BYTE, &count);
    *found_out = true;
    *peer_out = any ? status.MPI_SOURCE : peer;
    *bytes_out = (size_t)count;
    return YK_OK;
}

/* Yields for about a millisecond, as long as most answers take, and then naps: an idle process that only yields costs
 * those who share its cores a third of their time. */
void yk_comm_pause(unsigned *turn)
{
    if (++*turn < 2000)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

static yk_status missing(const yk_op *op, int n, double seconds, const char *what)
{
    char who[256] = "";
    for (int i = 0; i < n && strlen(who) < sizeof who - 16; i++)
        if (op[i].active)
            snprintf(who + strlen(who), sizeof who - strlen(who), "%s%d", *who ? ", " : "", op[i].peer);
    return yk_fail(YK_ELOST,
                   "waited %.0f s for %s: nothing from rank %s; it has died, hangs, or cannot be reached",
                   seconds, what, who);
}

void yk_comm_heed(yk_comm *c, const volatile sig_atomic_t *stop)
{
    c->heed = stop;
}

/* ---- who is dead: of the processes of this machine the kernel knows ---- */

/* This machine, as far as processes in the same namespace of this kind see it. */
static uint64_t this_machine(const char *space)
{
    char text[256] = "";
    uint64_t hash = 14695981039346656037u;
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    size_t n = f ? fread(text, 1, 64, f) : 0;
    if (f)
        fclose(f);
    ssize_t more = readlink(space, text + n, sizeof text - n);
    n += more > 0 ? (size_t)more : 0;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return hash;
}

/* Whoever tells MPI not to use shared memory wants messages to be sent. */
static bool wants_messages(void)
{
    const char *btl = getenv("OMPI_MCA_btl");
    return btl && *btl != '^' && !strstr(btl, "vader") && !strstr(btl, "sm");
}

static yk_status meet_neighbours(yk_comm *c)
{
    struct neighbour mine = {getpid(), this_machine("/proc/self/ns/pid"),
                             wants_messages() ? 0 : this_machine("/proc/self/ns/net")};
    c->neighbour = calloc((size_t)c->size, sizeof *c->neighbour);
    if (!c->neighbour)
        return yk_fail_memory((size_t)c->size * sizeof *c->neighbour, "the processes");
    yk_status st = yk_comm_gather(c, &mine, sizeof mine, c->neighbour, 30.0, "all processes to start");
    return st ? st
              : yk_comm_share(c, c->neighbour, (size_t)c->size * sizeof *c->neighbour, 31.0,
                              "all processes to start");
}

bool yk_comm_together(const yk_comm *c)
{
    const struct neighbour *first = c->neighbour;
    bool all = first->network != 0;
    for (int r = 1; r < c->size; r++)
        all &= first[r].machine == first->machine && first[r].network == first->network;
    return all;
}

int64_t yk_comm_pid(const yk_comm *c, int peer)
{
    return c->neighbour[peer].pid;
}

char yk_comm_state(const yk_comm *c, int peer)
{
    char path[64], text[512];
    if (!c->neighbour || peer >= c->size || c->neighbour[peer].machine != c->neighbour[c->rank].machine ||
        !c->neighbour[peer].pid) /* they have not met yet */
        return 0;
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)c->neighbour[peer].pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return 'X';
    const size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    const char *state = strrchr(text, ')');
    return !state || strlen(state) < 3 ? 0 : state[2] == 'Z' ? 'X' : state[2];
}

bool yk_comm_dead(const yk_comm *c, int peer)
{
    return yk_comm_state(c, peer) == 'X';
}

/* "rank 2" in "rank 2 has died", but not in "rank 21". */
static bool mentions(const char *text, int rank)
{
    char word[16];
    const int n = snprintf(word, sizeof word, "rank %d", rank);
    for (const char *at = text; (at = strstr(at, word)); at += n)
        if (at[n] < '0' || at[n] > '9')
            return true;
    return false;
}

yk_status yk_comm_explain(const yk_comm *c, yk_status st)
{
    char who[256] = "";
    for (int i = 0; st == YK_ELOST && i < c->size && strlen(who) < sizeof who - 32; i++) {
        const char state = yk_comm_state(c, i);
        if ((state == 'X' || state == 'T') && !mentions(yk_error(), i))
            snprintf(who + strlen(who), sizeof who - strlen(who), "%srank %d is %s", *who ? ", " : "", i,
                     state == 'X' ? "gone" : "stopped");
    }
    return *who ? yk_fail(st, "%s (%s)", yk_error(), who) : st;
}

static const double stopped_seconds = 8.0; /* who is stopped for longer will not come back soon */

static yk_status find_dead(const yk_comm *c, const yk_op *op, int n, bool stopped_too, const char *what)
{
    for (int i = 0; i < n; i++) {
        const char state = op[i].active ? yk_comm_state(c, op[i].peer) : 0;
        if (state == 'X' || (state == 'T' && stopped_too))
            return yk_fail(YK_ELOST, "rank %d %s (while rank %d waited for %s)", op[i].peer,
                           state == 'X' ? "has died" : "was stopped by a signal", c->rank, what);
    }
    return YK_OK;
}

yk_status yk_comm_wait(yk_comm *c, yk_op *op, int n, double seconds, const char *what)
{
    double looked = 0.0;
    unsigned turn = 0;
    double began = 0.0;
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
        yk_comm_pause(&turn);
        if (turn % 256 == 0) {
            double now = yk_now();
            began = began > 0.0 ? began : now;
            if (now - began > seconds)
                return missing(op, n, seconds, what);
            if (c->heed && *c->heed)
                return yk_fail(YK_ESTOP, "stopped by a signal before training began");
            looked = looked > 0.0 ? looked : now;
            if (now - looked > 0.5) {
                looked = now;
                yk_status st = find_dead(c, op, n, now - began > stopped_seconds, what);
                if (st)
                    return st;
            }
        }
    }
}

void yk_comm_forget(yk_op *op)
{
    if (op->active)
        MPI_Request_free(request_of(op));
    op->active = false;
}

/* ---- all of the job: by way of rank 0, which can so name who is missing ---- */

yk_status yk_comm_gather(yk_comm *c, const void *mine, size_t bytes, void *all, double seconds,
                         const char *what)
{
    if (c->rank != 0) {
        yk_op op;
        yk_status st = yk_comm_send(c, 0, TAG_COLLECTIVE, YK_FOR_CONTROL, mine, bytes, &op);
        return st ? st : yk_comm_wait(c, &op, 1, seconds, what);
    }
    yk_op *op = calloc((size_t)c->size, sizeof *op);
    if (!op)
        return yk_fail_memory((size_t)c->size * sizeof *op, "messages");
    yk_status st = YK_OK;
    memcpy(all, mine, bytes);
    for (int i = 1; !st && i < c->size; i++)
        st = yk_comm_recv(c, i, TAG_COLLECTIVE, YK_FOR_CONTROL, (char *)all + (size_t)i * bytes, bytes,
                          &op[i]);
    if (!st)
        st = yk_comm_wait(c, op, c->size, seconds, what);
    free(op);
    return st;
}

void yk_comm_pieces_free(yk_comm_pieces *p)
{
    for (int i = 0; p->data && i < p->n; i++)
        free(p->data[i]);
    free(p->data);
    free(p->bytes);
    *p = (yk_comm_pieces){0};
}

yk_status yk_comm_collect(yk_comm *c, const void *mine, size_t bytes, yk_comm_pieces *out, double seconds,
                          const char *what)
{
    yk_op op;
    *out = (yk_comm_pieces){0};
    if (c->rank == 0) {
        *out = (yk_comm_pieces){c->size, calloc((size_t)c->size, sizeof *out->data),
                                calloc((size_t)c->size, sizeof *out->bytes)};
        if (!out->data || !out->bytes)
            return yk_fail_memory((size_t)c->size * sizeof *out->data, "messages");
    }
    yk_status st = yk_comm_gather(c, &bytes, sizeof bytes, out->bytes, seconds, what);
    if (c->rank != 0) {
        if (!st)
            st = yk_comm_send(c, 0, TAG_COLLECTIVE, YK_FOR_CONTROL, mine, bytes, &op);
        return st ? st : yk_comm_wait(c, &op, 1, seconds, what);
    }
    for (int i = 0; !st && i < c->size; i++) {
        if (!(out->data[i] = malloc(out->bytes[i] + 1)))
            return yk_fail_memory(out->bytes[i], "messages");
        if (i == 0)
            memcpy(out->data[i], mine, bytes);
        else if (!(st = yk_comm_recv(c, i, TAG_COLLECTIVE, YK_FOR_CONTROL, out->data[i], out->bytes[i], &op)))
            st = yk_comm_wait(c, &op, 1, seconds, what);
    }
    return st;
}

yk_status yk_comm_spread(yk_comm *c, int root, int first, int count, void *buf, size_t bytes, double seconds,
                         const char *what)
{
    const size_t most = (size_t)1 << 28;
    for (; bytes > most; buf = (char *)buf + most, bytes -= most) {
        yk_status st = yk_comm_spread(c, root, first, count, buf, most, seconds, what);
        if (st)
            return st;
    }
    if (c->rank != root) {
        yk_op op;
        yk_status st = yk_comm_recv(c, root, TAG_COLLECTIVE, YK_FOR_CONTROL, buf, bytes, &op);
        return st ? st : yk_comm_wait(c, &op, 1, seconds, what);
    }
    yk_op *op = calloc((size_t)count, sizeof *op);
    if (!op)
        return yk_fail_memory((size_t)count * sizeof *op, "messages");
    yk_status st = YK_OK;
    for (int i = 0; !st && i < count; i++)
        if (first + i != root)
            st = yk_comm_send(c, first + i, TAG_COLLECTIVE, YK_FOR_CONTROL, buf, bytes, &op[i]);
    if (!st)
        st = yk_comm_wait(c, op, count, seconds, what);
    free(op);
    return st;
}

yk_status yk_comm_share(yk_comm *c, void *buf, size_t bytes, double seconds, const char *what)
{
    return yk_comm_spread(c, 0, 0, c->size, buf, bytes, seconds, what);
}

yk_status yk_comm_barrier(yk_comm *c, double seconds, const char *what)
{
    char here = 1, *all = c->rank == 0 ? malloc((size_t)c->size) : NULL;
    if (c->rank == 0 && !all)
        return yk_fail_memory((size_t)c->size, "messages");
    yk_status st = yk_comm_gather(c, &here, 1, all, seconds, what);
    free(all);
    return st ? st
              : yk_comm_share(c, &here, 1, seconds + 1.0,
                              what); /* rank 0 knows better who is missing: it speaks first */
}

/* ---- joining ---- */

/* Names are known beyond this job. */
static MPI_Info everywhere(void)
{
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "ompi_global_scope", "true");
    return info;
}

yk_status yk_comm_open(yk_comm *c, const char *name, char **port_out)
{
    char port[MPI_MAX_PORT_NAME];
    MPI_Info info = everywhere();
    (void)c;
    int code = MPI_Open_port(MPI_INFO_NULL, port);
    if (!code)
        code = MPI_Publish_name(name, info, port);
    MPI_Info_free(&info);
    if (code)
        return mpi_error(code, "cannot open a port for others to join", YK_ANY);
    *port_out = strdup(port);
    return *port_out ? YK_OK : yk_fail_memory(sizeof port, "a port");
}

yk_status yk_comm_accept(yk_comm *c, const char *port, void **handle_out)
{
    MPI_Comm *other = malloc(sizeof *other);
    (void)c;
    if (!other)
        return yk_fail_memory(sizeof *other, "a new worker");
    int code = MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, other);
    if (code) {
        free(other);
        return mpi_error(code, "a worker that wanted to join failed", YK_ANY);
    }
    *handle_out = other;
    return YK_OK;
}

yk_status yk_comm_adopt(yk_comm *c, void *handle, int *peer_out)
{
    MPI_Comm *other = handle;
    if (c->njoined == MOST_JOINED) {
        free(other);
        return yk_fail(YK_ELOST, "more than %d workers have joined", MOST_JOINED);
    }
    MPI_Comm_set_errhandler(*other, MPI_ERRORS_RETURN);
    c->joined[c->njoined] = *other;
    *peer_out = c->size + c->njoined++;
    free(other);
    return YK_OK;
}

yk_status yk_comm_connect(yk_comm *c, const char *name, int *peer_out)
{
    char port[MPI_MAX_PORT_NAME];
    MPI_Info info = everywhere();
    MPI_Comm *other = malloc(sizeof *other);
    int code = MPI_Lookup_name(name, info, port);
    MPI_Info_free(&info);
    if (!other)
        return yk_fail_memory(sizeof *other, "the job");
    if (!code)
        code = MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, other);
    if (code) {
        free(other);
        return mpi_error(code, "cannot join the job; is it still running?", YK_ANY);
    }
    return yk_comm_adopt(c, other, peer_out);
}
