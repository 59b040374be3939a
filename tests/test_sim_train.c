/* Training on simulated ranks and threads. For every seed, the results equal those without simulation. simulate.c runs many more
 * kinds of jobs, with faults. */
#include "simulation.h"

#include "base/sync.h"
#include "comm/comm.h"
#include "fs_memory.h"
#include "train/checkpoint.h"
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>

enum { SLOWER = SANITIZED ? 4 : 1 }; /* with a sanitizer, a schedule takes several times as long */

enum { MAX = 4 };

typedef struct {
    yk_sim_config network;
    const char *options; /* as in test_train.c, but each job has its own out=DIR */
    yk_result result[MAX];
    void (*stage)(yk_train_stage what, int workers);
    yk_fs_memory *disk; /* NULL: the real one */
    int victim;         /* the rank that is killed; -1: none */
    double after;       /* simulated seconds */
    yk_thread thread;   /* kills it */
    uint64_t examples;  /* trained by all ranks that returned */
} job;

static void *kill_later(void *context)
{
    const job *j = context;
    yk_sleep_ns((uint64_t)(1e9 * j->after));
    yk_sim_kill(j->victim);
    return NULL;
}

static yk_status train_one(job *j, int rank)
{
    char *options = strdup(j->options), *save = NULL;
    yk_config c;
    WANT(options);
    if (j->victim >= 0 && rank == (j->victim == 0))
        WANT(yk_thread_start(&j->thread, kill_later, j) == 0);
    yk_fs_set(j->disk ? yk_fs_memory_fs(j->disk) : NULL);
    yk_config_init(&c);
    yk_status st = yk_config_set(&c, "out", "none");
    for (char *word = strtok_r(options, " ", &save); !st && word; word = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(word, '=');
        *equals = '\0';
        const bool real = strcmp(word, "out") == 0 && !j->disk;
        st = yk_config_set(&c, word, real ? in_directory(equals + 1) : equals + 1);
    }
    if (!st)
        st = yk_train(&c, &(yk_train_caller){.stop = &no_signal, .started = yk_now(), .stage = j->stage},
                      &j->result[rank]);
    yk_comm_stop(j->result[rank].comm, !st);
    j->examples += j->result[rank].trained_here;
    yk_config_fini(&c);
    free(options);
    return st;
}

/* The memory of a killed rank is leaked (sim.h): leaks of this function and of threads are not reported. */
__attribute__((noinline)) static yk_status train_victim(job *j, int rank)
{
    yk_status st = train_one(j, rank);
    return st ? st : yk_fail(YK_EDATA, "rank %d has survived", rank);
}

const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:train_victim\nleak:yk__thread_main\n";
}

static yk_status train_rank(void *context, int rank)
{
    job *j = context;
    return rank == j->victim ? train_victim(j, rank) : train_one(j, rank);
}

static void free_results(job *j)
{
    for (int i = 0; i < MAX; i++)
        yk_result_fini(&j->result[i]);
}

static int schedules;

static yk_sim_result train_ranks(int n, uint64_t seed, job *j)
{
    yk_sim_result r;
    int aside = divert_stderr();
    j->network.ranks = n;
    j->network.seed = seed;
    simulate_as(&j->network, train_rank, j, &r);
    restore_stderr(aside);
    schedules++;
    return r;
}

static yk_sim_result train_all(int n, uint64_t seed, job *j)
{
    j->victim = -1;
    const yk_sim_result r = train_ranks(n, seed, j);
    assert_returned(n, seed);
    assert_true(r.messages > 50);
    assert_int_equal(j->result[0].plan.processes, n);
    return r;
}

/* ---- synchronous: bit-identical to one process ---- */

static void assert_trains_as(int n, uint64_t seed, const char *options, const yk_result *alone)
{
    job j = {.options = options};
    train_all(n, seed, &j);
    assert_int_equal(j.result[0].examples, alone->examples);
    assert_true(j.result[0].train_loss == alone->train_loss);
    assert_true(j.result[0].test.loss == alone->test.loss);
    free_results(&j);
}

#define RUN "model=softmax data=synth:digits?examples=512 epochs=3 batch=16 "

static void test_replicas(void **state)
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

#define SMALL "model=softmax data=synth:digits?examples=128 batch=8 epochs=2 "

/* Every process trains with two threads and owns a shard; the chief evaluates in the background; threads read
 * ahead. Two times two gradients are summed in another order than four. */
static void test_lockstep(void **state)
{
    static const char *const how[] = {"", "stream=always ", "eval-every=3 ", "stream=always eval-every=1 "};
    (void)state;
    for (uint64_t i = 0; i < 4; i++) {
        char options[256];
        yk_result alone;
        snprintf(options, sizeof options, SMALL "%sservers=all workers=2", how[i]);
        job j = {.options = options};
        assert_int_equal(train_f(&alone, SMALL "%sworkers=4", how[i]), YK_OK);
        train_all(2, 1, &j);
        assert_int_equal(j.result[0].examples, alone.examples);
        assert_true(fabs(j.result[0].test.loss - alone.test.loss) < 1e-6);
        for (uint64_t seed = 0; seed < 8 / SLOWER; seed++)
            assert_trains_as(2, 1000 * i + seed, options, &j.result[0]);
        yk_result_fini(&alone);
        free_results(&j);
    }
}

/* ---- asynchronous: each example once ---- */

enum { FEATURES = 150 };

/* Each example has its own feature, so that each weight shows how often its example was used. */
static void write_own_features(const char *name)
{
    FILE *f = fopen(in_directory(name), "w");
    assert_non_null(f);
    for (int i = 1; i <= FEATURES; i++)
        fprintf(f, "%d %d:1\n", i % 2, i);
    assert_int_equal(fclose(f), 0);
}

#define ONCE "model=logreg no-bias=true optimizer=sgd lr=0.5 batch=1 epochs=1 mode=async eval-every=40 "

/* Options for training on that file; returns their length. */
static int once(char *options, size_t size, const char *how)
{
    return snprintf(options, size, ONCE "data=libsvm:%s test=libsvm:%s %s", in_directory("own"),
                    in_directory("own"), how);
}

/* Replaces the function of the C library in this program: counts how often the file of write_own_features() is opened. */
static atomic_int opens;

int open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const int mode = flags & O_CREAT ? va_arg(rest, int) : 0;
    va_end(rest);
    opens += strcmp(path, in_directory("own")) == 0;
    return openat(AT_FDCWD, path, flags, mode);
}

/* Each process that reads a file opens it once per pass, and planning does not open it. */
static void test_opens(void **state)
{
    static const char *const how[] = {"servers=all", "servers=2", "mode=sync", "stream=always epochs=3"};
    char options[900];
    (void)state;
    write_own_features("own");
    for (int i = 0; i < 4; i++) {
        job j = {.options = options};
        const int passes = i == 3 ? 5 : 1; /* it counts the features, then each worker reads 3 times */
        snprintf(options, sizeof options, "model=logreg batch=10 mode=async test=none data=%s %s",
                 in_directory("own"), how[i]);
        opens = 0;
        train_all(3, 1, &j);
        assert_in_range(opens, 1, (i == 1 ? 2 : 3) * passes); /* servers: the chief and the worker */
        free_results(&j);
    }
    FILE *csv = fopen(in_directory("own"), "w");
    assert_non_null(csv);
    fputs("label,a,b\n1,2,3\n0,1,2\n", csv);
    fclose(csv);
    snprintf(options, sizeof options, "model=logreg test=none data=csv:%s", in_directory("own"));
    yk_result alone;
    opens = 0;
    assert_int_equal(train(options, 0, &alone), YK_OK);
    assert_int_equal(opens, 1);
    yk_result_fini(&alone);
    yk_config c;
    yk_plan plan;
    yk_config_init(&c);
    assert_int_equal(yk_config_set(&c, "model", "logreg"), YK_OK);
    assert_int_equal(yk_config_set(&c, "data", in_directory("own")), YK_OK);
    opens = 0;
    assert_int_equal(yk_plan_options(&c, &(yk_topology){.processes = 2, .cores = 1}, &plan), YK_OK);
    assert_int_equal(opens, 0);
    yk_config_fini(&c);
}

static void test_asynchronous(void **state)
{
    static const char *const how[] = {"stream=never", "stream=always"};
    (void)state;
    write_own_features("own");
    for (int i = 0; i < 2; i++) {
        char options[900];
        yk_result alone;
        const int n = once(options, sizeof options, how[i]);
        assert_int_equal(train(options, 0, &alone), YK_OK);
        assert_int_equal(alone.examples, FEATURES);
        snprintf(options + n, sizeof options - (size_t)n, " servers=all workers=2");
        for (uint64_t seed = 0; seed < 8 / SLOWER; seed++) {
            job j = {.options = options};
            train_all(2, seed, &j);
            assert_int_equal(j.result[0].examples, FEATURES);
            assert_int_equal(j.examples, FEATURES);
            assert_true(j.result[0].test.loss == alone.test.loss); /* every example was used once */
            free_results(&j);
        }
        yk_result_fini(&alone);
    }
}

/* Two of six workers have all examples. The others leave at once, and nothing waits for them. */
static void test_some_leave_early(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 5; seed++) {
        job j = {.options = "model=softmax data=synth:digits?examples=128 batch=2 epochs=1 mode=async "
                            "stream=always servers=all workers=2 deadline=2",
                 .network = {.min_delay = 0.04, .max_delay = 0.06}};
        assert_true(train_all(3, seed, &j).seconds > 3.0);
        assert_int_equal(j.examples, 128);
        free_results(&j);
    }
}

static void save_slowly(yk_train_stage what, int workers)
{
    (void)workers;
    if (what == YK_STAGE_SAVING)
        yk_sleep_ns(3000000000u);
}

/* The last checkpoint takes longer than the heartbeat interval. The other ranks get heartbeats, and receive all of them. */
static void test_slow_checkpoint(void **state)
{
    (void)state;
    job j = {.options = SMALL "mode=async servers=all deadline=2 out=slow", .stage = save_slowly};
    train_all(3, 0, &j);
    for (int p = 0; p < YK_PURPOSES; p++)
        assert_int_equal(j.result[0].traffic[p].sent, j.result[0].traffic[p].received);
    free_results(&j);
    remove_run("out=slow");
}

/* ---- a write fails ---- */

static void slow_disk(void *context)
{
    (void)context;
    if (!yk_clock_is_real())
        yk_sleep_ns(100000);
}

static uint64_t newest_checkpoint(yk_fs_memory *disk)
{
    char *path = NULL;
    unsigned long long step = 0;
    yk_fs_set(yk_fs_memory_fs(disk));
    yk_checkpoint_find("run", &path);
    yk_fs_set(NULL);
    if (path)
        sscanf(strrchr(path, '/'), "/step-%llu", &step);
    free(path);
    return step;
}

/* Change number `at` of the disk fails. A run that is successful nevertheless has its last checkpoint. Returns the changes. */
static uint64_t train_and_fail_at(const char *options, uint64_t at)
{
    job j = {.options = options, .victim = -1, .disk = yk_fs_memory_create(1)};
    assert_non_null(j.disk);
    j.disk->before_change = slow_disk;
    yk_fs_memory_fail_at(j.disk, at, ENOSPC);
    train_ranks(2, 1, &j);
    if (!ranks[0].status && newest_checkpoint(j.disk) != j.result[0].steps)
        fail_msg("%s: change %llu failed: the run has %llu steps, and its newest checkpoint %llu", options,
                 (unsigned long long)at, (unsigned long long)j.result[0].steps,
                 (unsigned long long)newest_checkpoint(j.disk));
    const uint64_t changes = j.disk->changes;
    free_results(&j);
    yk_fs_memory_free(j.disk);
    return changes;
}

/* Also while the last checkpoint is written and the evaluation of the same step is due. */
static void test_writes_fail(void **state)
{
    static const char options[] =
        "model=logreg data=synth:ctr?features=50&examples=40 batch=4 epochs=1 stream=always "
        "servers=1 quorum=1 checkpoint-every=10 out=run";
    (void)state;
    const uint64_t changes = train_and_fail_at(options, 0);
    for (uint64_t at = 2; at <= changes; at += 2 * SLOWER)
        train_and_fail_at(options, at);
}

/* ---- a rank is killed ---- */

/* All others fail. The first of them names the victim (yoke train then ends the job), if `named`; later ones may name that
 * rank. */
static void assert_lost(const job *j, int n, uint64_t seed, bool named)
{
    char name[16];
    int first = -1;
    snprintf(name, sizeof name, "rank %d", j->victim);
    assert_int_equal(ranks[j->victim].end, YK_SIM_KILLED);
    for (int i = 0; i < n; i++) {
        if (i == j->victim)
            continue;
        if (ranks[i].end != YK_SIM_RETURNED || ranks[i].status != YK_ELOST)
            fail_msg("%s, seed %llu, rank %d killed after %g s: rank %d ended as %d with status %d: %s",
                     j->options, (unsigned long long)seed, j->victim, j->after, i, (int)ranks[i].end,
                     (int)ranks[i].status, ranks[i].error);
        if (first < 0 || ranks[i].seconds < ranks[first].seconds)
            first = i;
    }
    if (named && !strstr(ranks[first].error, name))
        fail_msg("%s, seed %llu, rank %d killed after %g s: rank %d, the first, failed after %g s: %s",
                 j->options, (unsigned long long)seed, j->victim, j->after, first, ranks[first].seconds,
                 ranks[first].error);
}

/* Workers that only wait for examples also detect that server 0 is lost. */
static void test_server_0_is_killed(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 12 / SLOWER; seed++) {
        job j = {.options = SMALL "mode=async servers=1 workers=2 deadline=2",
                 .victim = 0,
                 .after = 0.011 + 0.0007 * (double)seed};
        train_ranks(3, seed, &j);
        assert_lost(&j, 3, seed, true);
        free_results(&j);
    }
}

int main(void)
{
    setenv("YK_STALE_RULES", "0", 1); /* the runs are too short for a warm-up */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replicas),
        cmocka_unit_test(test_servers),
        cmocka_unit_test(test_lockstep),
        cmocka_unit_test(test_asynchronous),
        cmocka_unit_test(test_some_leave_early),
        cmocka_unit_test(test_writes_fail),
        cmocka_unit_test(test_slow_checkpoint),
        cmocka_unit_test(test_server_0_is_killed),
        cmocka_unit_test(test_opens),
    };
    const double began = real_seconds();
    const int failed = cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
    printf("%d schedules in %.1f s\n", schedules, real_seconds() - began);
    return failed;
}
