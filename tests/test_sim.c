/* Jobs on simulated messages and time: comm/sim.h, and what runs above it, from collectives to whole training runs. */
#include "training.h"

#include "comm/comm.h"
#include "comm/sim.h"
#include "fs_memory.h"
#include "store/exchange.h"
#include "train/checkpoint.h"
#include "train/checkpoint_dir.h"
#include <time.h>

enum { RANKS = 3, LONG = 20000 };

/* In a rank, where cmocka cannot be called: fails the rank. */
#define WANT(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            return yk_fail(YK_EDATA, "line %d: %s", __LINE__, #condition);                                   \
    } while (0)
#define TRY(call)                                                                                            \
    do {                                                                                                     \
        yk_status try_status = (call);                                                                       \
        if (try_status)                                                                                      \
            return try_status;                                                                               \
    } while (0)

static double real_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static yk_sim_rank ranks[YK_SIM_MOST_RANKS];

static void simulate_as(const yk_sim_config *config, yk_status (*rank_main)(void *, int), void *context,
                        yk_sim_result *out)
{
    assert_int_equal(yk_sim_run(config, rank_main, context, ranks, out), YK_OK);
}

/* All ranks return OK. */
static yk_sim_result simulate(int n, uint64_t seed, yk_status (*rank_main)(void *, int), void *context)
{
    yk_sim_result r;
    simulate_as(&(yk_sim_config){.ranks = n, .seed = seed}, rank_main, context, &r);
    for (int i = 0; i < n; i++) {
        if (ranks[i].status)
            fail_msg("rank %d: %s", i, ranks[i].error);
        assert_int_equal(ranks[i].end, YK_SIM_RETURNED);
    }
    return r;
}

/* ---- two ranks ---- */

static yk_status two_ranks(void *context, int rank)
{
    yk_traffic *traffic = context;
    yk_comm *c;
    int all[2] = {-1, -1}, mine = 40 + rank, shared = rank == 0 ? 77 : 0;
    char *text = rank == 0 ? "zero" : "one, which is longer";
    yk_comm_pieces p;
    WANT(yk_comm_expected() == 2 && yk_comm_expected_rank() == rank);
    TRY(yk_comm_start(YK_COMM_SINGLE, NULL, &c));
    WANT(yk_comm_rank(c) == rank && yk_comm_size(c) == 2);
    WANT(strcmp(yk_comm_library(c), "simulated") == 0);
    WANT(!yk_comm_together(c) && yk_comm_state(c, 1 - rank) == 0);
    TRY(yk_comm_gather(c, &mine, sizeof mine, all, 8.0, "numbers"));
    WANT(rank != 0 || (all[0] == 40 && all[1] == 41));
    TRY(yk_comm_share(c, &shared, sizeof shared, 8.0, "a number"));
    WANT(shared == 77);
    TRY(yk_comm_collect(c, text, strlen(text), &p, 8.0, "texts"));
    WANT(rank != 0 || (p.n == 2 && p.bytes[1] == strlen("one, which is longer")));
    yk_comm_pieces_free(&p);
    TRY(yk_comm_barrier(c, 8.0, "the end"));
    traffic[rank] = yk_comm_traffic(c)[YK_FOR_CONTROL];
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

/* ---- order ---- */

/* Rank 0 sends 1, 2, 3 ... with two tags in turn. context: how often the later tag was seen before the earlier one. */
static yk_status two_tags(void *context, int rank)
{
    yk_comm *c;
    int word[40], next[2] = {0, 1}, *overtaken = context;
    yk_op op[40];
    TRY(yk_comm_start(YK_COMM_SINGLE, NULL, &c));
    for (int i = 0; rank == 0 && i < 40; i++) {
        word[i] = i;
        TRY(yk_comm_send(c, 1, 20 + i % 2, YK_FOR_PUSH, &word[i], sizeof word[i], &op[i]));
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
            TRY(yk_comm_recv(c, 0, 20 + k, YK_FOR_PUSH, &got, sizeof got, op));
            TRY(yk_comm_wait(c, op, 1, 8.0, "a word"));
            WANT(got == next[k]); /* of one tag, in order */
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

/* ---- sums of replicas, by messages longer than `eager` ---- */

static yk_status sum(void *context, int rank)
{
    yk_comm *c;
    yk_exchange *x;
    yk_round round;
    float *g = malloc(LONG * sizeof *g);
    WANT(g);
    (void)context;
    TRY(yk_comm_start(YK_COMM_SINGLE, NULL, &c));
    TRY(yk_exchange_create(c, &(yk_group){.width = 1, .keys = LONG}, 1, &x));
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < LONG; i++)
            g[i] = (float)(i % 100 + rank);
        yk_grad grad = {.examples = 1, .group = {{.dense = g}}};
        TRY(yk_exchange_sum(x, &grad, 0, 1, 8.0, &round));
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

/* ---- missing heartbeats ---- */

static const volatile sig_atomic_t no_signal;

/* Before training: rank 1 hangs for 1000 s, or comes in time; context: which. */
static yk_status starts_late(void *context, int rank)
{
    const double *late = context;
    const yk_startup_config config = {.limit = 60.0, .stop = &no_signal};
    yk_startup *s;
    yk_comm *c = NULL;
    TRY(yk_startup_begin(&config, &s));
    yk_status st = yk_comm_start(YK_COMM_SINGLE, s, &c);
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
    assert_non_null(strstr(ranks[0].error, "nothing from rank 1"));
    assert_true(ranks[0].seconds > 60.0 && ranks[0].seconds < 62.0); /* the limit */
    assert_true(r.seconds > 1000.0);
    assert_true(real_seconds() - began <
                30.0); /* some 100 ms; a busy machine under a sanitizer takes longer */
}

/* Rank 1 dies; rank 0 finds out after its deadline. */
static yk_status dies(void *context, int rank)
{
    yk_comm *c;
    const bool *twice = context;
    TRY(yk_comm_start(YK_COMM_SINGLE, NULL, &c));
    yk_status st = YK_OK;
    if (rank == 1 && !*twice) { /* as much as it can give back */
        yk_comm_stop(c, false);
        yk_sim_kill(1);
    }
    if (rank == 0 && *twice) /* somebody else ends the job */
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
    assert_non_null(strstr(ranks[0].error, "waited 8 s for the other one: nothing from rank 1"));
    assert_true(ranks[0].seconds > 8.0 && ranks[0].seconds < 9.0);
    twice = true;
    simulate_as(&(yk_sim_config){.ranks = 2, .seed = 3}, dies, &twice, &r);
    assert_int_equal(ranks[0].status, YK_OK);
    assert_int_equal(ranks[1].end, YK_SIM_KILLED);
}

static yk_status sleeps(void *context, int rank)
{
    const bool *stop = context; /* nobody sets it */
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
    simulate_as(&(yk_sim_config){.ranks = 2, .most_seconds = 100.0}, sleeps, &stop, &r);
    assert_int_equal(ranks[0].end, YK_SIM_KILLED);
    assert_int_equal(ranks[1].end, YK_SIM_KILLED);
    assert_true(r.seconds > 99.0 && r.seconds < 102.0);
}

/* ---- training ---- */

typedef struct {
    const char *options;
    yk_result result[RANKS];
} job;

static yk_status train_rank(void *context, int rank)
{
    job *j = context;
    char *options = strdup(j->options), *save = NULL;
    yk_config c;
    WANT(options);
    yk_config_init(&c);
    yk_status st = yk_config_set(&c, "out", "none");
    for (char *word = strtok_r(options, " ", &save); !st && word; word = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(word, '=');
        *equals = '\0';
        st = yk_config_set(&c, word, equals + 1);
    }
    if (!st)
        st = yk_train(&c, &(yk_train_host){.stop = &no_signal, .started = yk_now()}, &j->result[rank]);
    yk_comm_stop(j->result[rank].comm, !st);
    yk_config_fini(&c);
    free(options);
    return st;
}

static void assert_trains_as(int n, uint64_t seed, const char *options, const yk_result *alone)
{
    job j = {.options = options};
    int aside = divert_stderr();
    const yk_sim_result r = simulate(n, seed, train_rank, &j);
    restore_stderr(aside);
    assert_true(r.messages > 100);
    assert_int_equal(j.result[0].plan.processes, n);
    assert_int_equal(j.result[0].examples, alone->examples);
    assert_true(j.result[0].train_loss == alone->train_loss);
    assert_true(j.result[0].test.loss == alone->test.loss);
    for (int i = 0; i < n; i++)
        yk_result_fini(&j.result[i]);
}

#define RUN "model=softmax data=synth:digits?examples=512 epochs=3 batch=16 "

static void test_training(void **state)
{
    yk_result alone;
    (void)state;
    assert_int_equal(train(RUN "workers=2", 0, &alone), YK_OK);
    for (uint64_t seed = 0; seed < 3; seed++)
        assert_trains_as(2, seed, RUN, &alone);
    yk_result_fini(&alone);
}

static void test_servers(void **state)
{
    yk_result alone;
    (void)state;
    assert_int_equal(train(RUN "workers=2", 0, &alone), YK_OK);
    for (uint64_t seed = 0; seed < 3; seed++)
        assert_trains_as(3, seed, RUN "servers=1", &alone);
    yk_result_fini(&alone);
}

/* ---- messages, time and disk ---- */

typedef struct {
    yk_fs_memory *disk;
    int saved; /* what the chief was told is on the disk */
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
    st = yk__checkpoint_end("run", (uint64_t)step, st, &path);
    free(path);
    return st;
}

/* Rank 1 sends a number in each step, rank 0 saves their sum, and 10 s pass, until step 5 or until the power goes. */
static yk_status sums_and_saves(void *context, int rank)
{
    saving_job *j = context;
    yk_comm *c;
    int all[2], sum = 0;
    yk_status st = yk_comm_start(YK_COMM_SINGLE, NULL, &c);
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
        assert_true(yk_fs_read(fd, text, sizeof text - 1) > 0);
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
        cmocka_unit_test(test_two_ranks),  cmocka_unit_test(test_same_seed_same_run),
        cmocka_unit_test(test_order),      cmocka_unit_test(test_sum),
        cmocka_unit_test(test_heartbeats), cmocka_unit_test(test_killed),
        cmocka_unit_test(test_time_limit), cmocka_unit_test(test_training),
        cmocka_unit_test(test_servers),    cmocka_unit_test(test_messages_time_and_disk),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
