/* The native transport: between processes that this test forks, over shared memory, Unix sockets and TCP. */
#include "comm/native_internal.h"
#include "scratch.h"

#include "base/clock.h"
#include "base/sha256.h"
#include "transport_conformance.h"
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static const char token[] = "a token for tests", other_token[] = "x";

/* ---- processes ---- */

typedef struct {
    yk_rendezvous at;
    double timeout;
    bool sockets;
    yk_status (*rank_main)(const yk_transport *t, int rank, int size);
} job;

static int free_port(int *fd_out)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(fd, 100), 0);
    getsockname(fd, (struct sockaddr *)&at, &size);
    *fd_out = fd;
    return ntohs(at.sin_port);
}

static void unix_master(job *j)
{
    static int number;
    snprintf(j->at.master, sizeof j->at.master, "unix:yoke-test-%d-%d", (int)getpid(), number++);
}

static int run_rank(const job *j, int rank)
{
    yk_rendezvous c = j->at;
    yk_transport t;
    yk_world world;
    c.rank = rank;
    c.listen_fd = rank == 0 ? c.listen_fd : -1;
    alarm(60);
    yk_status st = yk_native_create(&c, j->timeout, j->sockets, &t);
    const int code = st ? 0 : t.ops->start(t.self, &world);
    if (code) {
        st = code <= YK_TRANSPORT_STATUS ? (yk_status)(YK_TRANSPORT_STATUS - code) : YK_ELOST;
    }
    if (!st)
        st = j->rank_main(&t, rank, c.size);
    if (!st)
        t.ops->stop(t.self);
    if (st)
        fprintf(stderr, "rank %d: %s\n", rank, yk_error());
    return st ? 1 : 0;
}

static pid_t fork_rank(const job *j, int rank)
{
    const pid_t pid = fork();
    if (pid == 0)
        _exit(run_rank(j, rank));
    return pid;
}

/* Forks the ranks of a job. status[]: as from waitpid(). */
static void run(job *j, int *status)
{
    pid_t pid[64];
    for (int r = 0; r < j->at.size; r++)
        pid[r] = fork_rank(j, r);
    for (int r = 0; r < j->at.size; r++)
        waitpid(pid[r], &status[r], 0);
}

static void run_all_well(job *j)
{
    int status[64];
    run(j, status);
    for (int r = 0; r < j->at.size; r++)
        assert_int_equal(status[r], 0);
}

/* ---- conformance ---- */

static void test_shared_memory(void **state)
{
    (void)state;
    for (int size = 2; size <= 5; size += 3) {
        job j = {.at = {.size = size, .listen_fd = -1}, .timeout = 30.0, .rank_main = conform};
        unix_master(&j);
        run_all_well(&j);
    }
}

static void test_unix_sockets(void **state)
{
    (void)state;
    job j = {.at = {.size = 4, .listen_fd = -1}, .timeout = 30.0, .sockets = true, .rank_main = conform};
    unix_master(&j);
    run_all_well(&j);
}

static void test_tcp(void **state)
{
    (void)state;
    int fd;
    job j = {.at = {.size = 4}, .timeout = 30.0, .sockets = true, .rank_main = conform};
    snprintf(j.at.master, sizeof j.at.master, "127.0.0.1:%d", free_port(&fd));
    j.at.listen_fd = fd;
    memcpy(j.at.token, token, sizeof token);
    run_all_well(&j);
    close(fd);
}

/* ---- deaths ---- */

static bool becomes_lost(const yk_transport *t, int peer, double seconds)
{
    const double until = yk_now() + seconds;
    while (!t->ops->lost(t->self, peer))
        if (yk_now() > until)
            return false;
    return true;
}

/* Rank 1 sends two messages and kills itself: rank 0 receives both, then notices its death at once. */
static yk_status dies(const yk_transport *t, int rank, int size)
{
    static char text[200000];
    uint64_t request;
    size_t bytes;
    (void)size;
    if (rank == 1) {
        EXPECT(t->ops->send(t->self, 0, 8, "one", 4, &request) == 0);
        EXPECT(t->ops->send(t->self, 0, 8, "two", 4, &request) == 0);
        raise(SIGKILL);
    }
    if (rank == 0) {
        EXPECT(becomes_lost(t, 1, 10.0));
        for (int i = 0; i < 2; i++) {
            EXPECT(t->ops->recv(t->self, 1, 8, text, sizeof text, &request) == 0);
            CHECK(finish(t, &request, &bytes));
            EXPECT(strcmp(text, i ? "two" : "one") == 0);
        }
        bool done;
        EXPECT(t->ops->recv(t->self, 1, 8, text, sizeof text, &request) == 0);
        EXPECT(t->ops->test(t->self, &request, &done, &bytes) == 0 && !done);
        EXPECT(t->ops->send(t->self, 1, 8, text, sizeof text, &request) == 0); /* goes nowhere */
        EXPECT(t->ops->test(t->self, &request, &done, &bytes) == 0 && !done);
        t->ops->abandon(t->self);
    }
    return YK_OK;
}

static void test_death(void **state)
{
    (void)state;
    for (int sockets = 0; sockets < 2; sockets++) {
        int status[3];
        job j = {.at = {.size = 3, .listen_fd = -1}, .timeout = 30.0, .sockets = sockets, .rank_main = dies};
        unix_master(&j);
        run(&j, status);
        assert_int_equal(status[0], 0);
        assert_true(WIFSIGNALED(status[1]));
    }
}

/* Rank 1 sends more than rank 0 stores, and waits until rank 0 receives it. */
static yk_status sends_much(const yk_transport *t, int rank, int size)
{
    enum { MESSAGES = 40, BYTES = 1 << 20, MAX = (1 << 24) + 8 * BYTES };
    static char data[MESSAGES][BYTES];
    uint64_t request[MESSAGES];
    size_t bytes;
    const yk__native *own = t->self;
    (void)size;
    for (int i = 0; rank == 1 && i < MESSAGES; i++) {
        memset(data[i], 'A' + i, BYTES);
        EXPECT(t->ops->send(t->self, 0, i % 2, data[i], BYTES, &request[i]) == 0);
    }
    const double until = yk_now() + 0.3;
    while (rank == 0 && yk_now() < until && own->peer[1].stored_bytes <= MAX)
        EXPECT(!t->ops->lost(t->self, 1));
    for (int i = 0; rank == 0 && i < 1000; i++)
        EXPECT(!t->ops->lost(t->self, 1));
    if (rank == 0)
        EXPECT(own->peer[1].stored_bytes <= MAX + BYTES);
    for (int tag = 1; rank == 0 && tag >= 0; tag--) /* tag 1 first: messages of tag 0 are in between */
        for (int i = tag; i < MESSAGES; i += 2) {
            EXPECT(t->ops->recv(t->self, 1, tag, data[0], BYTES, &request[0]) == 0);
            CHECK(finish(t, &request[0], &bytes));
            EXPECT(bytes == BYTES && data[0][0] == 'A' + i && data[0][BYTES - 1] == 'A' + i);
        }
    for (int i = 0; rank == 1 && i < MESSAGES; i++)
        CHECK(finish(t, &request[i], &bytes));
    return YK_OK;
}

static void test_backpressure(void **state)
{
    (void)state;
    for (int sockets = 0; sockets < 2; sockets++) {
        job j = {
            .at = {.size = 2, .listen_fd = -1}, .timeout = 30.0, .sockets = sockets, .rank_main = sends_much};
        unix_master(&j);
        run_all_well(&j);
    }
}

/* Rank 0 fails while it receives, or sends, a part of a large message: rank 1 is alive, and learns that the job ends. */
static yk_status fails_in_message(const yk_transport *t, int rank, bool receives)
{
    enum { BYTES = 1 << 25 };
    char *data = calloc(1, BYTES), text[100];
    yk__native *own = t->self;
    uint64_t request[2];
    bool found = false, done = false;
    yk_arrival arrival;
    size_t bytes;
    int code = 0;
    EXPECT(data);
    if ((rank == 0) != receives)
        EXPECT(t->ops->send(t->self, 1 - rank, 8, data, BYTES, &request[0]) == 0);
    if (rank == 1)
        EXPECT(t->ops->recv(t->self, 0, 9, text, sizeof text, &request[1]) == 0);
    const double until = yk_now() + 10.0;
    while (rank == 0 && receives && !own->peer[1].got && yk_now() < until)
        EXPECT(t->ops->probe(t->self, 1, 8, &found, &arrival) == 0 && !found);
    if (rank == 0) {
        EXPECT(t->ops->is_receiving(t->self) == receives);
        t->ops->abandon(t->self);
        free(data);
        EXPECT(!t->ops->lost(t->self, 1));
        t->ops->abort(t->self, 3);
        return yk_fail(YK_EDATA, "as expected");
    }
    while (!code && yk_now() < until)
        code = t->ops->test(t->self, &request[1], &done, &bytes);
    EXPECT(code && !done);
    t->ops->abandon(t->self);
    free(data);
    t->ops->error_text(t->self, code, text, sizeof text);
    EXPECT(strstr(text, "rank 0 "));
    return YK_OK;
}

static yk_status fails_while_receiving(const yk_transport *t, int rank, int size)
{
    (void)size;
    return fails_in_message(t, rank, true);
}

static yk_status fails_while_sending(const yk_transport *t, int rank, int size)
{
    (void)size;
    return fails_in_message(t, rank, false);
}

static void test_failure_in_message(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        int status[2];
        job j = {.at = {.size = 2, .listen_fd = -1},
                 .timeout = 30.0,
                 .sockets = i % 2,
                 .rank_main = i / 2 ? fails_while_sending : fails_while_receiving};
        unix_master(&j);
        run(&j, status);
        assert_int_equal(WEXITSTATUS(status[0]), 1);
        assert_int_equal(status[1], 0);
    }
}

static yk_status aborts(const yk_transport *t, int rank, int size)
{
    char text[100];
    uint64_t request;
    bool done = false;
    size_t bytes;
    int code = 0;
    (void)size;
    if (rank == 1) {
        t->ops->abort(t->self, 3);
        return yk_fail(YK_EDATA, "as expected");
    }
    EXPECT(t->ops->recv(t->self, 1, 8, text, sizeof text, &request) == 0);
    const double until = yk_now() + 10.0;
    while (!code && yk_now() < until)
        code = t->ops->test(t->self, &request, &done, &bytes);
    EXPECT(code && !done);
    t->ops->error_text(t->self, code, text, sizeof text);
    EXPECT(strstr(text, "rank 1 "));
    return YK_OK;
}

static void test_abort(void **state)
{
    (void)state;
    int status[3];
    job j = {.at = {.size = 3, .listen_fd = -1}, .timeout = 30.0, .rank_main = aborts};
    unix_master(&j);
    run(&j, status);
    assert_int_equal(status[0], 0);
    assert_true(WEXITSTATUS(status[1]) == 1);
    assert_int_equal(status[2], 0);
}

/* ---- the start ---- */

static yk_status nothing(const yk_transport *t, int rank, int size)
{
    (void)t, (void)rank, (void)size;
    return YK_OK;
}

/* Rank 0 names the ranks that do not come. */
static void test_missing_rank(void **state)
{
    (void)state;
    yk_transport t;
    yk_world world;
    job j = {.at = {.rank = 0, .size = 3, .listen_fd = -1}, .timeout = 0.5, .rank_main = nothing};
    unix_master(&j);
    const pid_t pid = fork_rank(&j, 1);
    assert_int_equal(yk_native_create(&j.at, j.timeout, j.sockets, &t), YK_OK);
    const int code = t.ops->start(t.self, &world);
    assert_true(code);
    assert_non_null(strstr(yk_error(), "rank 2 did not connect within"));
    t.ops->stop(t.self);
    waitpid(pid, NULL, 0);
}

static void *start_and_wait(void *transport)
{
    const yk_transport *t = transport;
    yk_world world;
    return t->ops->start(t->self, &world) == YK_TRANSPORT_STOPPED ? t->self : NULL;
}

/* A rank that gets a signal before it is connected ends the job: nobody waits for it, also not a rank that starts later. */
static void test_stopped_rank(void **state)
{
    (void)state;
    for (int victim = 0; victim < 3; victim += 2) {
        pid_t pid[3];
        int status;
        job j = {.at = {.size = 3, .listen_fd = -1}, .timeout = 30.0, .rank_main = nothing};
        unix_master(&j);
        const double began = yk_now();
        for (int r = 0; r < 3; r++) {
            if ((pid[r] = fork()) != 0)
                continue;
            yk_transport t;
            pthread_t thread;
            j.at.rank = r;
            if (r == 1)
                usleep(300000);
            if (r == 1 || (r == 2 && victim == 0))
                _exit(run_rank(&j, r));
            if (yk_native_create(&j.at, j.timeout, j.sockets, &t) ||
                (r == 0 && pthread_create(&thread, NULL, start_and_wait, &t)))
                _exit(2);
            if (r == victim)
                t.ops->abort(t.self, 0); /* as the signal does, in another thread */
            void *stopped = &t;
            _exit(r == 0 && (pthread_join(thread, &stopped) || !stopped));
        }
        for (int r = 0; r < 3; r++) {
            assert_int_equal(waitpid(pid[r], &status, 0), pid[r]);
            assert_int_equal(status, r == victim || r == 0 ? 0 : 1 << 8);
        }
        assert_true(yk_now() - began < 20.0);
    }
}

static void test_wrong_token(void **state)
{
    (void)state;
    int fd, client = -1;
    yk_listener *l;
    yk_hello hello = {.rank = 1}, got;
    char address[64];
    const int port = free_port(&fd);
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    assert_int_equal(yk_listener_create(address, fd, token, &l), YK_OK);
    const pid_t pid = fork();
    if (pid == 0)
        _exit(yk_dial(address, other_token, &hello, 10.0, &client));
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) == 0)
        assert_int_equal(yk_listener_accept(l, 0.01, &got), -1);
    assert_int_equal(WEXITSTATUS(status), YK_EUSAGE);
    yk_listener_free(l);
    assert_int_equal(yk_listener_create("127.0.0.1:0", -1, "", &l), YK_EUSAGE);
    assert_non_null(strstr(yk_error(), "YOKE_TOKEN_FILE"));
}

/* ---- strangers ---- */

/* Connects, writes `n` arbitrary bytes, and stays connected. */
static int stranger(int port, int n, unsigned seed)
{
    const struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char text[512];
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (connect(fd, (const struct sockaddr *)&at, sizeof at) && errno != EINPROGRESS)
        fail_msg("connect: %s", strerror(errno));
    for (int i = 0; i < n; i++)
        text[i] = (char)(seed = seed * 1103515245 + 12345);
    if (n > 8 && seed % 2)
        memcpy(text, "yoke 4\n", 8);
    for (int i = 0; i < 100 && send(fd, text, (size_t)n, MSG_NOSIGNAL) < 0; i++)
        usleep(100);
    return fd;
}

/* A worker joins although hundreds of strangers are connected, silent or with garbage. */
static void test_strangers(void **state)
{
    (void)state;
    enum { STRANGERS = 500 };
    yk_transport server, worker;
    yk_address address;
    static int fd[STRANGERS];
    assert_int_equal(yk_native_listen("127.0.0.1:0", token, &address, &server), YK_OK);
    const int port = atoi(strrchr(address.text, ':') + 1);
    for (int i = 0; i < STRANGERS; i++) {
        fd[i] = stranger(port, i % 3 ? i : 0, (unsigned)i);
        assert_int_equal(server.ops->peers(server.self), 0);
    }
    const pid_t pid = fork();
    if (pid == 0) {
        uint64_t request;
        size_t bytes;
        alarm(20);
        yk_status st = yk_native_connect(&address, 1, token, 10.0, &worker);
        if (!st && !worker.ops->send(worker.self, 0, 9, "hello", 6, &request))
            st = finish(&worker, &request, &bytes);
        worker.ops->stop(worker.self);
        _exit(st);
    }
    const double until = yk_now() + 20.0;
    while (server.ops->peers(server.self) == 0 && yk_now() < until)
        ;
    assert_int_equal(server.ops->peers(server.self), 1);
    uint64_t request;
    size_t bytes;
    char text[6];
    assert_int_equal(server.ops->recv(server.self, 0, 9, text, sizeof text, &request), 0);
    assert_int_equal(finish(&server, &request, &bytes), YK_OK);
    assert_string_equal(text, "hello");
    assert_true(becomes_lost(&server, 0, 10.0));
    server.ops->stop(server.self);
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    for (int i = 0; i < STRANGERS; i++)
        close(fd[i]);
}

/* ---- hashes ---- */

static void hex(const unsigned char *bytes, char *out)
{
    for (int i = 0; i < YK_SHA256_BYTES; i++)
        sprintf(out + 2 * i, "%02x", bytes[i]);
}

/* RFC 4231, and texts that end in all parts of a block of 64 bytes: sha256 of Python. */
static void test_hashes(void **state)
{
    (void)state;
    static const struct {
        size_t n;
        const char *mac;
    } cases[] = {{0, "5d5d139563c95b5967b9bd9a8c9b233a9dedb45072794cd232dc1b74832607d0"},
                 {55, "5c753ac4cf15a28e7b5a045ba8ce75e02545a313f326021d770912f768fb53ef"},
                 {56, "e9613a403652aa5873dba8b56f223826236e87559a8d8ac63190613796d2319a"},
                 {64, "77207571ea4243ad8e0f220679a62f9033b6d2f59f8d44517d8e9c4857b96fa0"},
                 {1000, "db636adca1d68c3ad2b38a24933870131c45f55262bf8f07b0c9bdc728ee5fb9"}};
    unsigned char out[YK_SHA256_BYTES];
    char text[65], letters[1000];
    memset(letters, 'a', sizeof letters);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        yk_hmac_sha256("key", 3, letters, cases[i].n, out);
        hex(out, text);
        assert_string_equal(text, cases[i].mac);
    }
    yk_hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, out);
    hex(out, text);
    assert_string_equal(text, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hashes),       cmocka_unit_test(test_shared_memory),
        cmocka_unit_test(test_unix_sockets), cmocka_unit_test(test_tcp),
        cmocka_unit_test(test_death),        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_backpressure), cmocka_unit_test(test_failure_in_message),
        cmocka_unit_test(test_missing_rank), cmocka_unit_test(test_wrong_token),
        cmocka_unit_test(test_stopped_rank), cmocka_unit_test(test_strangers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
