/* Jobs with simulated messages and time: sim.h and the layers above it. test_sim_train.c tests training. */
#include "simulation.h"

#include "base/sync.h"
#include "comm/comm.h"
#include "fs_memory.h"
#include "store/exchange.h"
#include "train/checkpoint.h"
#include "train/checkpoint_dir.h"
#include "transport_conformance.h"
#include "watch/proc.h"

enum { RANKS = 3, LONG = 20000 };

/* ---- what every transport does ---- */

static yk_status conforms(void *context, int rank)
{
    yk_transport t;
    yk_world world;
    (void)context;
    yk_sim_transport(&t);
    WANT(t.ops->start(t.self, &world) == 0);
    return conform(&t, rank, RANKS);
}

static void test_conformance(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < (SANITIZED ? 1 : 3); seed++)
        simulate(RANKS, seed, conforms, NULL);
}

/* ---- two ranks ---- */

static yk_status two_ranks(void *context, int rank)
{
    yk_traffic *traffic = context;
    yk_comm *c;
    int all[2] = {-1, -1}, mine = 40 + rank, shared = rank == 0 ? 77 : 0;
    char *text = rank == 0 ? "zero" : "one, which is longer";
    yk_comm_pieces p;
    WANT(yk_comm_expected().size == 2 && yk_comm_expected().rank == rank);
    TRY(yk_comm_start(NULL, NULL, 30.0, &c));
    WANT(yk_comm_rank(c) == rank && yk_comm_size(c) == 2);
    WANT(strcmp(yk_comm_library(c), "simulated") == 0);
    WANT(!yk_comm_on_one_host(c) && yk_comm_state(c, 1 - rank) == 0);
    TRY(yk_comm_gather(c, &mine, sizeof mine, all, 8.0, "numbers"));
    WANT(rank != 0 || (all[0] == 40 && all[1] == 41));
    TRY(yk_comm_broadcast(c, &shared, sizeof shared, 8.0, "a number"));
    WANT(shared == 77);
    TRY(yk_comm_gatherv(c, text, strlen(text), &p, 8.0, "texts"));
    WANT(rank != 0 || (p.n == 2 && p.bytes[1] == strlen("one, which is longer")));
    yk_comm_pieces_free(&p);
    TRY(yk_comm_barrier(c, 8.0, "the end"));
    traffic[rank] = yk_comm_counted(c)->traffic[YK_PURPOSE_CONTROL];
    yk_comm_stop(c, true);
    return YK_OK;
}

static void test_two_ranks(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        yk_traffic t[2];
        const yk_sim_result r = simulate(2, seed, two_ranks, t);
        assert_int_equal(t[0].sent, t[1].received);
        assert_int_equal(t[1].sent, t[0].received);
        assert_int_equal(r.messages, t[0].messages_sent + t[1].messages_sent);
        assert_int_equal(r.bytes, t[0].sent + t[1].sent);
        assert_true(r.seconds > 1e-5 && r.seconds < 0.1);
    }
}

static void test_same_seed_same_run(void **state)
{
    yk_traffic t[2];
    (void)state;
    const yk_sim_result a = simulate(2, 5, two_ranks, t), b = simulate(2, 5, two_ranks, t),
                        c = simulate(2, 6, two_ranks, t);
    assert_true(a.digest == b.digest && a.seconds == b.seconds);
    assert_true(a.digest != c.digest && a.seconds != c.seconds);
}

/* What the real host does changes nothing: an alert, for example, would be a write to the disk, which takes time. */
static yk_status sample_host(void *context, int rank)
{
    yk_proc_sample s;
    (void)context, (void)rank;
    yk_proc_read("/proc", "/sys", NULL, &s);
    WANT(s.at > 0.0 && isnan(s.user) && isnan(s.host_busy) && isnan(s.host_used) && s.nnics == 0);
    return YK_OK;
}

static void test_the_host_is_not_sampled(void **state)
{
    (void)state;
    simulate(1, 1, sample_host, NULL);
}

static yk_status read_wall_clock(void *context, int rank)
{
    const double began = yk_wall();
    (void)context, (void)rank;
    WANT(began >= 1e9 && began < 1e9 + 1.0);
    yk_sleep_ns(90000000000);
    WANT(fabs(yk_wall() - began - 90.0) < 1e-3);
    return YK_OK;
}

static void test_the_wall_clock_is_simulated(void **state)
{
    (void)state;
    simulate(2, 1, read_wall_clock, NULL);
    assert_true(yk_wall() > 1.7e9);
}

/* ---- order ---- */

/* Rank 0 sends 1, 2, 3 ... with two tags in turn. context: how often the later tag arrived before the earlier one. */
static yk_status two_tags(void *context, int rank)
{
    yk_comm *c;
    int word[40], next[2] = {0, 1}, *overtaken = context;
    yk_op op[40];
    TRY(yk_comm_start(NULL, NULL, 30.0, &c));
    for (int i = 0; rank == 0 && i < 40; i++) {
        word[i] = i;
        TRY(yk_comm_send(c, 1, 20 + i % 2, YK_PURPOSE_PUSH, &word[i], sizeof word[i], &op[i]));
    }
    if (rank == 0)
        TRY(yk_comm_wait(c, op, 40, 8.0, "words"));
    while (rank == 1 && (next[0] < 40 || next[1] < 41)) {
        for (int k = 0; k < 2; k++) {
            bool found;
            int peer, got;
            size_t bytes;
            TRY(yk_comm_probe(c, YK_ANY, 20 + k, &found, &peer, &bytes));
            if (!found)
                continue;
            WANT(peer == 0 && bytes == sizeof got);
            TRY(yk_comm_recv(c, 0, 20 + k, YK_PURPOSE_PUSH, &got, sizeof got, op));
            TRY(yk_comm_wait(c, op, 1, 8.0, "a word"));
            WANT(got == next[k]); /* messages with one tag are in order */
            next[k] += 2;
            *overtaken += next[1] > next[0] + 1;
        }
        yk_yield();
    }
    TRY(yk_comm_barrier(c, 8.0, "the end"));
    yk_comm_stop(c, true);
    return YK_OK;
}

static void test_order(void **state)
{
    int overtaken = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 10; seed++)
        simulate(2, seed, two_tags, &overtaken);
    assert_true(overtaken > 0);
}

/* ---- all-reduce with messages longer than `eager` ---- */

static yk_status sum(void *context, int rank)
{
    yk_comm *c;
    yk_exchange *x;
    yk_round round;
    float *g = malloc(LONG * sizeof *g);
    WANT(g);
    (void)context;
    TRY(yk_comm_start(NULL, NULL, 30.0, &c));
    TRY(yk_exchange_create(c, LONG, 8.0, 8.0, &x));
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < LONG; i++)
            g[i] = (float)(i % 100 + rank);
        yk_grad grad = {.examples = 1, .group = {{.dense = g}}};
        TRY(yk_exchange_sum(x, &grad, 0, NULL, &round));
        WANT(round.examples == RANKS);
        for (int i = 0; i < LONG; i++)
            WANT(g[i] == (float)(RANKS * (i % 100) + RANKS * (RANKS - 1) / 2));
    }
    TRY(yk_comm_barrier(c, 8.0, "the end"));
    yk_exchange_free(x);
    yk_comm_stop(c, true);
    free(g);
    return YK_OK;
}

static void test_sum(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 5; seed++)
        simulate(RANKS, seed, sum, NULL);
}

/* ---- after an error ---- */

/* Rank 0 gives up a long message, and frees its buffer. No one reads it any more. */
static yk_status gives_up(void *context, int rank)
{
    yk_comm *c;
    yk_op op;
    char *buf = calloc(LONG, 1);
    WANT(buf);
    (void)context;
    TRY(yk_comm_start(NULL, NULL, 30.0, &c));
    if (rank == 0) {
        TRY(yk_comm_send(c, 1, 20, YK_PURPOSE_PUSH, buf, LONG, &op));
        yk_comm_abandon(c);
        free(buf);
        yk_sleep_ns(3000000000u);
    } else {
        yk_sleep_ns(1000000000u);
        WANT(yk_comm_recv_wait(c, 0, 20, YK_PURPOSE_PUSH, buf, LONG, 1.0, "a long message") == YK_ELOST);
        yk_comm_abandon(c);
        free(buf);
    }
    yk_comm_stop(c, false);
    return YK_OK;
}

static void test_abandon(void **state)
{
    (void)state;
    simulate(2, 1, gives_up, NULL);
}

/* ---- missing heartbeats ---- */

/* Before training: rank 1 hangs for 1000 s, or is in time; context: which of them. */
static yk_status starts_late(void *context, int rank)
{
    const double *late = context;
    const yk_startup_config config = {.limit = 60.0, .stop = &no_signal};
    yk_startup *s;
    yk_comm *c = NULL;
    TRY(yk_startup_begin(&config, &s));
    yk_status st = yk_comm_start(NULL, s, 30.0, &c);
    if (!st && rank == 1)
        yk_sleep_ns((uint64_t)(1e9 * *late));
    if (!st)
        st = yk_comm_barrier(c, 8.0, "the data");
    if (!st)
        st = yk_comm_ready(c);
    yk_startup_end(s);
    yk_comm_stop(c, !st);
    return st;
}

static void test_heartbeats(void **state)
{
    yk_sim_result r;
    double late =
        50.0; /* longer than the barrier's 8 s: before training only the heartbeat timeout applies */
    (void)state;
    r = simulate(2, 1, starts_late, &late);
    assert_true(r.seconds > 50.0 && r.seconds < 51.0);

    const double began = real_seconds();
    late = 1000.0;
    simulate_as(&(yk_sim_config){.ranks = 2, .seed = 1}, starts_late, &late, &r);
    assert_int_equal(ranks[0].status, YK_ELOST);
    assert_non_null(strstr(ranks[0].error, "no message from rank 1"));
    assert_true(ranks[0].seconds > 60.0 && ranks[0].seconds < 62.0); /* the limit */
    assert_true(r.seconds > 1000.0);
    assert_true(real_seconds() - began < 30.0); /* about 100 ms; longer on a busy machine with a sanitizer */
}

/* Rank 1 dies when all are about to start training. Rank 0 detects it, and no rank starts without it. */
static yk_status dies_when_ready(void *context, int rank)
{
    const yk_startup_config config = {.limit = 60.0, .stop = &no_signal};
    yk_startup *s;
    yk_comm *c = NULL;
    bool *began = context;
    TRY(yk_startup_begin(&config, &s));
    yk_status st = yk_comm_start(NULL, s, 30.0, &c);
    if (!st)
        st = yk_comm_barrier(c, 8.0, "the data");
    if (rank == 1) {
        yk_startup_end(s);
        yk_comm_stop(c, false);
        yk_sim_kill(1);
    }
    if (!st)
        st = yk_comm_ready(c);
    began[rank] = !st;
    yk_startup_end(s);
    yk_comm_stop(c, !st);
    return st;
}

static void test_killed_when_ready(void **state)
{
    yk_sim_result r;
    bool began[RANKS] = {false};
    (void)state;
    for (uint64_t seed = 0; seed < 10; seed++) {
        simulate_as(&(yk_sim_config){.ranks = RANKS, .seed = seed}, dies_when_ready, began, &r);
        assert_int_equal(ranks[0].status, YK_ELOST);
        assert_non_null(strstr(ranks[0].error, "no message from rank 1"));
        assert_int_equal(ranks[2].status, YK_ELOST);
        assert_true(ranks[0].seconds > 60.0 && ranks[2].seconds > ranks[0].seconds);
        assert_false(began[0] || began[2]);
    }
}

/* Rank 1 dies; rank 0 detects it after the timeout. */
static yk_status dies(void *context, int rank)
{
    yk_comm *c;
    const bool *twice = context;
    TRY(yk_comm_start(NULL, NULL, 30.0, &c));
    yk_status st = YK_OK;
    if (rank == 1 && !*twice) { /* frees what it can before it dies */
        yk_comm_stop(c, false);
        yk_sim_kill(1);
    }
    if (rank == 0 && *twice) /* another rank ends the job */
        yk_sleep_ns(1000000000);
    st = yk_comm_barrier(c, 8.0, "the other one");
    if (*twice && rank == 1) {
        yk_comm_stop(c, false);
        yk_sim_kill(1);
    }
    yk_comm_stop(c, false);
    return st;
}

static void test_killed(void **state)
{
    yk_sim_result r;
    bool twice = false;
    (void)state;
    simulate_as(&(yk_sim_config){.ranks = 2, .seed = 3}, dies, &twice, &r);
    assert_int_equal(ranks[1].end, YK_SIM_KILLED);
    assert_int_equal(ranks[0].end, YK_SIM_RETURNED);
    assert_int_equal(ranks[0].status, YK_ELOST);
    assert_non_null(strstr(ranks[0].error, "waited 8 s for the other one: no message from rank 1"));
    assert_true(ranks[0].seconds > 8.0 && ranks[0].seconds < 9.0);
    twice = true;
    simulate_as(&(yk_sim_config){.ranks = 2, .seed = 3}, dies, &twice, &r);
    assert_int_equal(ranks[0].status, YK_OK);
    assert_int_equal(ranks[1].end, YK_SIM_KILLED);
}

static yk_status sleeps(void *context, int rank)
{
    const bool *stop = context; /* never set */
    (void)rank;
    while (!*stop)
        yk_sleep_ns(1000000000);
    return YK_OK;
}

static void test_time_limit(void **state)
{
    yk_sim_result r;
    bool stop = false;
    (void)state;
    simulate_as(&(yk_sim_config){.ranks = 2, .max_seconds = 100.0}, sleeps, &stop, &r);
    assert_int_equal(ranks[0].end, YK_SIM_KILLED);
    assert_int_equal(ranks[1].end, YK_SIM_KILLED);
    assert_true(r.seconds > 99.0 && r.seconds < 102.0);
}

/* ---- threads of a rank ---- */

enum { THREADS = 4, TURNS = 50 };

typedef struct {
    yk_mutex lock;
    yk_cond changed;
    int entered; /* a thread holds the lock, and lets others run meanwhile */
    int turn, total, waits;
    yk_team *team;
} thread_state;

/* Threads take turns with a condition variable; each holds the lock while time passes. */
static yk_status take_turns(void *context, int me)
{
    thread_state *c = context;
    for (int i = 0; i < TURNS; i++) {
        TRY(yk_team_barrier(c->team, me));
        yk_mutex_lock(&c->lock);
        WANT(++c->entered == 1);
        yk_sleep_ns(1000);
        yk_yield();
        WANT(c->entered-- == 1);
        while (c->turn != me) {
            c->waits++;
            yk_cond_wait(&c->changed, &c->lock);
        }
        c->turn = (c->turn + 1) % THREADS;
        c->total++;
        yk_cond_broadcast(&c->changed);
        yk_mutex_unlock(&c->lock);
    }
    return YK_OK;
}

static yk_status has_threads(void *context, int rank)
{
    thread_state *c = (thread_state *)context + rank;
    const double began = yk_now();
    yk_mutex_init(&c->lock);
    yk_cond_init(&c->changed);
    yk_mutex_lock(&c->lock);
    WANT(!yk_cond_wait_until(&c->changed, &c->lock, yk_now_ns() + 3000000000u)); /* never signalled */
    yk_mutex_unlock(&c->lock);
    WANT(yk_now() - began >= 3.0 && yk_now() - began < 3.1);
    TRY(yk_team_create(THREADS, &c->team));
    TRY(yk_team_run(c->team, take_turns, c));
    WANT(c->total == THREADS * TURNS);
    yk_team_free(c->team);
    yk_cond_destroy(&c->changed);
    yk_mutex_destroy(&c->lock);
    return YK_OK;
}

static void test_threads(void **state)
{
    yk_sim_result r[3];
    int waits[3];
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        for (int i = 0; i < 3; i++) { /* two runs have the same seed */
            thread_state c[2] = {0};
            r[i] = simulate(2, seed + (i == 2), has_threads, c);
            waits[i] = c[0].waits;
        }
        assert_true(r[0].digest == r[1].digest && waits[0] == waits[1]);
        assert_true(r[0].digest != r[2].digest);
    }
}

/* Rank 0 waits for a condition that never changes; rank 1 joins a thread that waits for it, too. */
static void *waits_forever(void *context)
{
    thread_state *c = context;
    yk_mutex_lock(&c->lock);
    for (;;)
        yk_cond_wait(&c->changed, &c->lock);
    return NULL;
}

static yk_status gets_stuck(void *context, int rank)
{
    thread_state *c = (thread_state *)context + rank;
    yk_thread t;
    yk_mutex_init(&c->lock);
    yk_cond_init(&c->changed);
    if (rank == 0)
        waits_forever(c);
    WANT(yk_thread_start(&t, waits_forever, c) == 0);
    yk_thread_join(&t);
    return YK_OK;
}

static void test_stuck(void **state)
{
    thread_state c[2] = {0};
    yk_sim_result r;
    (void)state;
    simulate_as(&(yk_sim_config){.ranks = 2}, gets_stuck, c, &r);
    assert_int_equal(ranks[0].end, YK_SIM_STUCK);
    assert_int_equal(ranks[1].end, YK_SIM_STUCK);
    assert_true(r.seconds < 1.0);
}

/* The threads of a rank end with it: with its main thread, or when it is killed. */
static void *counts_on(void *context)
{
    for (int *n = context;; (*n)++)
        yk_sleep_ns(1000000);
    return NULL;
}

static yk_status leaves_a_thread(void *context, int rank)
{
    yk_thread t;
    WANT(yk_thread_start(&t, counts_on, (int *)context + rank) == 0);
    yk_sleep_ns(rank == 0 ? 10500000 : 20500000);
    if (rank == 0)
        yk_sim_kill(1);
    return YK_OK;
}

static void test_threads_end(void **state)
{
    int n[2] = {0};
    yk_sim_result r;
    (void)state;
    simulate_as(&(yk_sim_config){.ranks = 2}, leaves_a_thread, n, &r);
    assert_int_equal(ranks[0].end, YK_SIM_RETURNED);
    assert_int_equal(ranks[1].end, YK_SIM_KILLED);
    assert_int_equal(n[0], 10);
    assert_int_equal(n[1], 10);
}

/* ---- messages, time and disk ---- */

typedef struct {
    yk_fs_memory *disk;
    int saved; /* what the chief was told is saved */
} saving_job;

static yk_status save_sum(int sum, int step)
{
    static const char *const files[] = {YK__SAVING "/" YK__MODEL_FILE, YK__SAVING "/" YK__STATE_FILE};
    yk_file *f;
    char *path = NULL;
    yk_status st = yk__checkpoint_begin("run");
    for (int i = 0; !st && i < 2; i++)
        if (!(st = yk_file_create_in("run", files[i], &f)))
            st = yk_file_close(f, yk_file_print(f, "%d", sum));
    st = yk__checkpoint_end("run", (uint64_t)step, 0, st, &path);
    free(path);
    return st;
}

/* Rank 1 sends a number in each step, rank 0 saves their sum, and 10 s pass, until step 5 or a power failure. */
static yk_status sums_and_saves(void *context, int rank)
{
    saving_job *j = context;
    yk_comm *c;
    int all[2], sum = 0;
    yk_status st = yk_comm_start(NULL, NULL, 30.0, &c);
    yk_fs_set(yk_fs_memory_fs(j->disk));
    for (int step = 1; !st && step <= 5; step++) {
        const int mine = rank * step;
        if ((st = yk_comm_gather(c, &mine, sizeof mine, all, 8.0, "a number")))
            break;
        sum += all[1];
        if (rank == 0 && !(st = save_sum(sum, step)))
            j->saved = step;
        yk_sleep_ns(10000000000);
        if (!st)
            st = yk_comm_barrier(c, 8.0, "the next step");
    }
    yk_fs_set(NULL);
    yk_comm_stop(c, !st);
    return st;
}

static int found_step(yk_fs_memory *disk)
{
    char *path = NULL, text[16] = "";
    int step = 0, sum = 0;
    yk_fs_set(yk_fs_memory_fs(disk));
    assert_int_equal(yk_checkpoint_find("run", &path), YK_OK);
    if (path) {
        assert_int_equal(sscanf(path, "run/checkpoints/step-%d", &step), 1);
        const int fd = yk_open_in(path, YK__MODEL_FILE, O_RDONLY);
        assert_true(yk_sys->read(fd, text, sizeof text - 1) > 0);
        sum = atoi(text);
        assert_int_equal(sum, step * (step + 1) / 2);
    }
    yk_fs_set(NULL);
    free(path);
    return step;
}

static void test_messages_time_and_disk(void **state)
{
    int aside = divert_stderr();
    (void)state;
    for (uint64_t at = 0; at < 120; at++) {
        saving_job j = {.disk = yk_fs_memory_create(at)};
        yk_sim_result r;
        assert_non_null(j.disk);
        yk_fs_set(yk_fs_memory_fs(j.disk));
        assert_true(!yk_dir_make("run") && !yk_dir_sync("."));
        yk_fs_set(NULL);
        yk_fs_memory_cut_at(j.disk, at ? yk_fs_memory_changes(j.disk) + at : 0);
        simulate_as(&(yk_sim_config){.ranks = 2, .seed = at}, sums_and_saves, &j, &r);
        if (at == 0) {
            assert_int_equal(j.saved, 5);
            assert_true(r.seconds > 50.0 && r.seconds < 51.0);
        }
        yk_fs_memory_restart(j.disk);
        const int step = found_step(j.disk);
        assert_true(step == j.saved || step == j.saved + 1);
        yk_fs_memory_free(j.disk);
    }
    restore_stderr(aside);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conformance),
        cmocka_unit_test(test_two_ranks),
        cmocka_unit_test(test_same_seed_same_run),
        cmocka_unit_test(test_the_host_is_not_sampled),
        cmocka_unit_test(test_the_wall_clock_is_simulated),
        cmocka_unit_test(test_abandon),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_sum),
        cmocka_unit_test(test_heartbeats),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_killed_when_ready),
        cmocka_unit_test(test_time_limit),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_stuck),
        cmocka_unit_test(test_threads_end),
        cmocka_unit_test(test_messages_time_and_disk),
    };
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
