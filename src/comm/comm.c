#include "comm/comm_inside.h"

#include "base/clock.h"
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(MPI_Request) <= sizeof(((yk_op *)0)->request), "an MPI_Request fits into yk_op");

const char *const yk_purpose_name[YK_PURPOSES] = {"pull", "push", "all-reduce", "control"};

/* ---- start and end ---- */

int yk__from_environment(const char *name)
{
    const char *text = getenv(name);
    return text ? atoi(text) : 0;
}

int yk_comm_expected(void)
{
    int n = yk__from_environment("OMPI_COMM_WORLD_SIZE"); /* mpirun of Open MPI */
    if (n <= 0)
        n = yk__from_environment("PMI_SIZE");                  /* mpirun of MPICH; srun --mpi=pmi2 */
    if (n <= 0 && (getenv("PMIX_RANK") || getenv("PMI_RANK"))) /* srun --mpi=pmix */
        n = yk__from_environment("SLURM_STEP_NUM_TASKS") > 0 ? yk__from_environment("SLURM_STEP_NUM_TASKS")
                                                             : 1;
    return n > 0 ? n : 0;
}

int yk_comm_expected_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
    int rank = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && !rank; i++)
        rank = yk__from_environment(names[i]);
    return rank;
}

bool yk_comm_is_open_mpi(void)
{
#ifdef OPEN_MPI
    return true;
#else
    return false;
#endif
}

yk_status yk__mpi_error(int code, const char *what, int peer)
{
    char text[MPI_MAX_ERROR_STRING] = "?";
    int n = 0;
    MPI_Error_string(code, text, &n);
    if (peer < 0)
        return yk_fail(YK_ELOST, "MPI: %s: %s", what, text);
    return yk_fail(YK_ELOST, "MPI: %s rank %d: %s", what, peer, text);
}

/* With a `startup` another thread sends heartbeats while this one computes, never both at a time. */
static int thread_level(yk_comm_kind kind, const yk_startup *startup)
{
    return kind == YK_COMM_ACCEPTS ? MPI_THREAD_MULTIPLE
           : startup               ? MPI_THREAD_SERIALIZED
                                   : MPI_THREAD_FUNNELED;
}

static void describe(yk_comm *c)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int n = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN); /* of those who join, or wait for them */
    MPI_Comm_rank(MPI_COMM_WORLD, &c->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &c->size);
    MPI_Get_library_version(version, &n);
    snprintf(c->library, sizeof c->library, "%.95s", version);
    c->library[strcspn(c->library, ",\n")] = '\0';
}

yk_status yk_comm_start(yk_comm_kind kind, yk_startup *startup, yk_comm **out)
{
    const int expected = yk_comm_expected(), wanted = thread_level(kind, startup);
    int got;
    signal(SIGPIPE, SIG_IGN); /* a peer that died is found out by silence, not by a signal */
    yk_comm *c = calloc(1, sizeof *c);
    if (!c)
        return yk_fail_memory(sizeof *c, "the processes");
    yk_startup_enter(startup, YK_STARTUP_BLOCKED, "MPI_Init");
    int code = MPI_Init_thread(NULL, NULL, wanted, &got);
    yk_startup_enter(startup, YK_STARTUP_WAITING, "");
    if (code) {
        free(c);
        return yk__mpi_error(code, "it cannot be started", YK_ANY);
    }
    describe(c);
    *out = c;
    if (expected > 1 && c->size == 1)
        return yk_fail(
            YK_EUSAGE,
            "the launcher started %d processes, but each is alone in its world: it belongs to another "
            "MPI than this program (%s); use that one's mpirun, srun --mpi=pmix, or yoke train --launch %d",
            expected, c->library, expected);
    if (got < wanted)
        return yk_fail(
            YK_ESYSTEM,
            "%s does not allow calls from several threads, which heartbeats and workers that join need",
            c->library);
    yk_status st = startup ? yk__heartbeats_begin(c, startup) : YK_OK;
    return st ? st : yk__meet_neighbours(c);
}

void yk_comm_stop(yk_comm *c, bool clean)
{
    if (!c)
        return;
    if (clean)
        MPI_Finalize();
    free(c->neighbour);
    free(c->heard);
    free(c->beat_op);
    free(c);
}

void yk_comm_abort(yk_comm *c, int status)
{
    (void)c;
    fflush(NULL);
    MPI_Abort(MPI_COMM_WORLD, status);
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
    const int n = yk__from_environment("OMPI_COMM_WORLD_LOCAL_SIZE");
    return c ? n > 0                                         ? n
               : yk__from_environment("MPI_LOCALNRANKS") > 0 ? yk__from_environment("MPI_LOCALNRANKS")
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
        return yk__mpi_error(code, "cannot send to", peer);
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
        return yk__mpi_error(code, "cannot receive from", peer);
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
        return yk__mpi_error(code, op->incoming ? "cannot receive from" : "cannot send to", op->peer);
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
        return yk__mpi_error(code, "cannot look for messages of", peer);
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

static const double stopped_seconds = 8.0; /* who is stopped for longer will not come back soon */

/* Before training begins, silence counts instead of the time that all of it takes. */
static bool is_overdue(const yk_comm *c, const yk_op *op, double began, double now, double seconds)
{
    if (c->limit == 0.0)
        return now - began > seconds;
    const double margin = c->rank == 0 ? 0.0 : 1.0; /* rank 0 knows better who is missing: it speaks first */
    return now - yk__silent_since(c, op->peer, began) > c->limit + margin;
}

static yk_status check_overdue(const yk_comm *c, const yk_op *op, int n, double began, double now,
                               double seconds, const char *what)
{
    char who[256] = "";
    for (int i = 0; i < n && strlen(who) < sizeof who - 16; i++)
        if (op[i].active && is_overdue(c, &op[i], began, now, seconds))
            snprintf(who + strlen(who), sizeof who - strlen(who), "%s%d", *who ? ", " : "", op[i].peer);
    return !*who ? YK_OK
                 : yk_fail(
                       YK_ELOST,
                       "waited %.0f s for %s: nothing from rank %s; it has died, hangs, or cannot be reached",
                       now - began, what, who);
}

/* What a wait looks at now and then. */
static yk_status check_wait(yk_comm *c, const yk_op *op, int n, double seconds, const char *what,
                            double *began, double *looked)
{
    const double now = yk_now();
    *began = *began > 0.0 ? *began : now;
    *looked = *looked > 0.0 ? *looked : now;
    yk_status st = yk__heartbeat(c, now);
    if (!st)
        st = check_overdue(c, op, n, *began, now, seconds, what);
    if (!st && yk_startup_stopped(c->startup))
        st = yk_fail(YK_EINTERRUPTED, "stopped by a signal before training began");
    if (st || now - *looked <= 0.5)
        return st;
    *looked = now;
    return yk__find_dead(c, op, n, now - *began > stopped_seconds, what);
}

yk_status yk_comm_wait(yk_comm *c, yk_op *op, int n, double seconds, const char *what)
{
    double began = 0.0, looked = 0.0;
    unsigned turn = 0;
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
        yk_status st = turn % 256 ? YK_OK : check_wait(c, op, n, seconds, what, &began, &looked);
        if (st)
            return st;
    }
}

void yk_comm_forget(yk_op *op)
{
    if (op->active)
        MPI_Request_free(request_of(op));
    op->active = false;
}
