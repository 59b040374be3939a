/* What every transport (comm/transport.h) does, tested against each of them: simulated (test_sim.c), native (test_native.c), MPI
 * (test_mpi_transport.c, under mpirun).
 *
 *     yk_status st = conform(&transport, rank, size); // all ranks; the transport has started
 */
#ifndef YK_TESTS_TRANSPORT_CONFORMANCE_H
#define YK_TESTS_TRANSPORT_CONFORMANCE_H

#include "base/status.h"
#include "base/wait.h"
#include "comm/transport.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                                    \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            return yk_fail(YK_EDATA, "%s:%d: %s", __FILE__, __LINE__, #condition);                           \
    } while (0)
#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        const yk_status check_status = (call);                                                               \
        if (check_status)                                                                                    \
            return check_status;                                                                             \
    } while (0)

static inline yk_status finish(const yk_transport *t, uint64_t *request, size_t *bytes_out)
{
    yk_wait w = yk_wait_begin(YK_WAIT_RANKS, 30.0);
    bool done = false;
    for (;;) {
        EXPECT(t->ops->test(t->self, request, &done, bytes_out) == 0);
        if (done)
            return YK_OK;
        EXPECT(yk_wait_poll(&w));
    }
}

static inline unsigned char byte_of(int from, int tag, size_t i)
{
    return (unsigned char)(31 * from + 7 * tag + (int)(i % 251) + (int)(i / 4096));
}

static inline void fill(unsigned char *buf, size_t n, int from, int tag)
{
    for (size_t i = 0; i < n; i++)
        buf[i] = byte_of(from, tag, i);
}

static inline bool is_filled(const unsigned char *buf, size_t n, int from, int tag)
{
    for (size_t i = 0; i < n; i++)
        if (buf[i] != byte_of(from, tag, i))
            return false;
    return true;
}

typedef struct {
    uint64_t send, recv;
    unsigned char *out, *in;
} exchange;

/* Messages of many lengths to every rank and from every rank, also to itself, all in flight at once. Every other message is received before it
 * is sent, the rest after. */
static inline yk_status all_to_all(const yk_transport *t, int rank, int size)
{
    static const size_t length[] = {0, 1, 31, 4096, 65535, 65536, 65537, 300000, 3000001};
    enum { N = sizeof length / sizeof *length };
    exchange *all = calloc((size_t)size * N, sizeof *all);
    size_t bytes = 99;
    for (int i = 0; i < size * N; i++) {
        const int peer = i / N, k = i % N;
        exchange *e = &all[i];
        e->out = malloc(length[k] + 1);
        e->in = malloc(length[k] + 1);
        fill(e->out, length[k], rank, 20 + k);
        if (k % 2)
            EXPECT(t->ops->recv(t->self, peer, 20 + k, e->in, length[k], &e->recv) == 0);
        EXPECT(t->ops->send(t->self, peer, 20 + k, e->out, length[k], &e->send) == 0);
    }
    for (int i = 0; i < size * N; i++)
        if (i % N % 2 == 0)
            EXPECT(t->ops->recv(t->self, i / N, 20 + i % N, all[i].in, length[i % N], &all[i].recv) == 0);
    for (int i = 0; i < size * N; i++) {
        const int peer = i / N, k = i % N;
        CHECK(finish(t, &all[i].recv, &bytes));
        EXPECT(bytes == length[k] && is_filled(all[i].in, length[k], peer, 20 + k));
        CHECK(finish(t, &all[i].send, &bytes));
        free(all[i].in);
        free(all[i].out);
    }
    free(all);
    return YK_OK;
}

/* Messages with the same tag arrive in the order in which they were sent, short and long ones mixed; the other tag is received
 * first. */
static inline yk_status order(const yk_transport *t, int rank, int size)
{
    enum { N = 300, LONGEST = 100000 };
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    unsigned char *out = malloc((size_t)N * LONGEST), *in = malloc(LONGEST);
    uint64_t *send = calloc(2 * N, sizeof *send);
    size_t bytes;
    for (int i = 0; i < N; i++) {
        unsigned char *buf = out + (size_t)i * LONGEST;
        memcpy(buf, &i, sizeof i);
        EXPECT(t->ops->send(t->self, next, 40, buf, i % 10 == 3 ? LONGEST : 8 + (size_t)i, &send[2 * i]) ==
               0);
        EXPECT(t->ops->send(t->self, next, 41, buf, sizeof i, &send[2 * i + 1]) == 0);
    }
    for (int tag = 41; tag >= 40; tag--)
        for (int i = 0; i < N; i++) {
            uint64_t recv;
            EXPECT(t->ops->recv(t->self, before, tag, in, LONGEST, &recv) == 0);
            CHECK(finish(t, &recv, &bytes));
            EXPECT(memcmp(in, &i, sizeof i) == 0);
            EXPECT(bytes == (tag == 41 ? sizeof i : i % 10 == 3 ? (size_t)LONGEST : 8 + (size_t)i));
        }
    for (int i = 0; i < 2 * N; i++)
        CHECK(finish(t, &send[i], &bytes));
    free(send), free(in), free(out);
    return YK_OK;
}

/* Rank 0 finds messages of any rank by probing, of a length that it does not know. */
static inline yk_status probing(const yk_transport *t, int rank, int size)
{
    enum { N = 50 };
    size_t bytes;
    if (rank > 0) {
        for (int i = 0; i < N; i++) {
            const size_t n = (size_t)(rank + 1) * (i % 5 == 4 ? 40000 : 16);
            unsigned char *buf = malloc(n);
            uint64_t send;
            fill(buf, n, rank, i);
            EXPECT(t->ops->send(t->self, 0, 50, buf, n, &send) == 0);
            CHECK(finish(t, &send, &bytes));
            free(buf);
        }
        return YK_OK;
    }
    int *seen = calloc((size_t)size, sizeof *seen);
    yk_wait w = yk_wait_begin(YK_WAIT_RANKS, 30.0);
    for (int left = N * (size - 1); left > 0;) {
        yk_arrival there;
        bool found;
        EXPECT(t->ops->probe(t->self, -1, 50, &found, &there) == 0);
        if (!found) {
            EXPECT(yk_wait_poll(&w));
            continue;
        }
        const int i = seen[there.peer]++;
        unsigned char *buf = malloc(there.bytes);
        EXPECT(there.peer > 0 && there.bytes == (size_t)(there.peer + 1) * (i % 5 == 4 ? 40000 : 16));
        uint64_t request;
        EXPECT(t->ops->recv(t->self, there.peer, 50, buf, there.bytes, &request) == 0);
        CHECK(finish(t, &request, &bytes));
        EXPECT(is_filled(buf, there.bytes, there.peer, i));
        free(buf);
        yk_wait_restart(&w);
        left--;
    }
    free(seen);
    return YK_OK;
}

static inline yk_status conform(const yk_transport *t, int rank, int size)
{
    for (int i = 0; i < 2; i++) {
        CHECK(all_to_all(t, rank, size));
        CHECK(order(t, rank, size));
        CHECK(probing(t, rank, size));
    }
    return YK_OK;
}

#endif
