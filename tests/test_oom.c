/* Out of memory: each allocation of a short run of each kind fails once. The run then either ends with an error that says
 * "out of memory", or gives the same result as without the failure. Nothing leaks (AddressSanitizer reports leaks at the
 * end), and the run can be resumed with the result of an undisturbed run. The processes of a job are simulated (sim.h).
 *
 * YK_OOM_STEP=N: every Nth allocation fails; 1 is `./dev oom`. YK_OOM_FIRST=K: from the Kth kind of run on. */
#include "oom.h"
#include "simulation.h"

#include "comm/comm.h"
#include <sched.h>

#include "base/number.h"

#define CLICKS                                                                                               \
    "model=logreg data=synth:ctr?features=3000&examples=400 test=synth:ctr?features=3000&examples=50 "       \
    "batch=10 "
#define DIGITS "data=synth:digits?examples=60&test=20 batch=10 "

#define FEW  "data=libffm:few.ffm test=libffm:few.ffm batch=5 deadline=2 epochs=1 checkpoint-every=3 "
#define DEEP "model=linear_+_fm_2_name=v_+_(embed_2_name=v,_dense_3,_relu,_dense_1) "

static const struct {
    const char *options;
    bool reproducible;
    int ranks; /* 0: one process */
} runs[] = {
    {CLICKS "epochs=2 checkpoint-every=15 optimizer=adagrad", true, 0},
    {CLICKS "epochs=2 checkpoint-every=15 workers=2 l2=1e-3", true, 0},
    {CLICKS "epochs=2 checkpoint-every=15 workers=2 mode=async", false, 0},
    {CLICKS "epochs=2 checkpoint-every=15 workers=2 stream=always", true, 0},
    {"model=softmax " DIGITS "epochs=2 checkpoint-every=5", true, 0},
    {"model=lenet5 " DIGITS "epochs=1 checkpoint-every=3 optimizer=momentum", true, 0},
    {"model=fm:2 " FEW "workers=2", true, 0},
    {DEEP FEW "mode=async workers=2", false, 0},
    {"model=logreg " FEW "servers=0", true, 2},
    {"model=logreg " FEW "servers=0 local-steps=3 stream=always", true, 2},
    {"model=logreg " FEW "servers=1 mode=async", false, 3},
    {"model=fm:2 " FEW "servers=all stream=always", true, 2},
    {DEEP FEW "servers=1 quorum=1", false, 3},
    {"model=logreg " FEW "servers=2 mode=async stream=always local-steps=2", false, 3},
    {"model=logreg data=parquet:" YK_SOURCE
     "/fuzz/corpus/parquet/v2-zstd?label=flag&scale=standard test=none batch=8 "
     "epochs=1 checkpoint-every=3",
     true, 0},
};

static const volatile sig_atomic_t stop;

/* Options, then a run. */
static yk_status run_process(const char *options, bool resume, yk_result *out)
{
    char copy[1024], path[300], *rest = copy;
    yk_config c;
    snprintf(copy, sizeof copy, "%s", options);
    snprintf(path, sizeof path, "%s/config.ini", in_directory("run"));
    yk_config_init(&c);
    yk_status st = resume && access(path, R_OK) == 0 ? yk_config_load(&c, path) : YK_OK;
    if (!st)
        st = yk_config_set(&c, "out", in_directory("run"));
    if (!st && resume)
        st = yk_config_set(&c, "resume", "true");
    for (char *word; !st && (word = strtok_r(rest, " ", &rest));) {
        char *equals = strchr(word, '=');
        *equals = '\0';
        for (char *at = equals + 1; *at && strcmp(word, "model") == 0; at++)
            *at = *at == '_' ? ' ' : *at;
        st = yk_config_set(&c, word, equals + 1);
    }
    if (!st)
        st = yk_train(&c, &(yk_train_caller){.stop = &stop, .started = yk_now()}, out);
    yk_config_fini(&c);
    return st;
}

typedef struct {
    const char *options;
    bool resume;
    yk_result result[YK_SIM_MAX_RANKS];
} job;

static yk_status run_rank(void *context, int rank)
{
    job *j = context;
    const yk_status st = run_process(j->options, j->resume, &j->result[rank]);
    yk_comm_stop(j->result[rank].comm, j->result[rank].clean && !st);
    return st;
}

/* Allocations of the simulated network, and of its threads, fail like those of MPI and of the system. */
static bool is_out_of_memory(const char *error)
{
    return strstr(error, "out of memory") || strstr(error, strerror(ENOMEM));
}

/* All processes of a job. If rank 0 fails, returns the error of the rank that ran out of memory, which the others only lose. */
static yk_status run_job(const char *options, int n, bool resume, yk_result *out)
{
    static job j;
    yk_sim_result r;
    j = (job){.options = options, .resume = resume};
    cpu_set_t all, one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_getaffinity(0, sizeof all, &all);
    sched_setaffinity(0, sizeof one, &one); /* threads that take turns do so faster on one core */
    yk_status st = yk_sim_run(&(yk_sim_config){.ranks = n, .seed = 1}, run_rank, &j, ranks, &r);
    sched_setaffinity(0, sizeof all, &all);
    int first = 0;
    for (int i = 1; !st && i < n; i++) {
        if (ranks[0].status && is_out_of_memory(ranks[i].error))
            first = i;
        yk_result_fini(&j.result[i]);
    }
    *out = j.result[0];
    for (int i = 0; !st && i < n; i++)
        if (ranks[i].end != YK_SIM_RETURNED)
            return yk_fail(YK_EDATA, "rank %d did not return", i);
    return st || !ranks[first].status ? st : yk_fail(ranks[first].status, "%s", ranks[first].error);
}

/* The error is yk_error(). */
static yk_status try_run(const char *options, int n, bool resume, uint64_t fail_at, uint64_t *allocations_out,
                         yk_result *out)
{
    *out = (yk_result){0};
    const int aside = divert_stderr();
    oom_arm(fail_at);
    const yk_status st = n ? run_job(options, n, resume, out) : run_process(options, resume, out);
    *allocations_out = oom_disarm();
    restore_stderr(aside);
    return st;
}

typedef struct {
    const char *options;
    bool reproducible;
    int ranks;
    uint8_t *model; /* of an undisturbed run */
    size_t size;
    uint64_t examples;
    uint64_t failed, tolerated, wrong; /* runs */
} kind;

__attribute__((format(printf, 3, 4))) static void wrong(kind *k, uint64_t at, const char *format, ...)
{
    char text[3000];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    print_error("%s: allocation %llu failed: %s\n", k->options, (unsigned long long)at, text);
    k->wrong++;
}

static uint8_t *model_of(const yk_result *r, size_t *size)
{
    char path[400];
    assert_non_null(r->checkpoint);
    snprintf(path, sizeof path, "%s/model.safetensors", r->checkpoint);
    return bytes_of(path, size);
}

static void resume(kind *k, uint64_t at)
{
    uint64_t made;
    size_t size;
    yk_result r;
    if (try_run(k->options, k->ranks, true, 0, &made, &r)) {
        wrong(k, at, "then --resume: %s", yk_error());
    } else {
        uint8_t *got = model_of(&r, &size);
        if (r.examples + r.late_examples != k->examples || size != k->size ||
            (k->reproducible && memcmp(got, k->model, size)))
            wrong(k, at, "the result after --resume differs");
        free(got);
    }
    yk_result_fini(&r);
}

/* Returns whether there were that many allocations. */
static bool fail_at(kind *k, uint64_t at)
{
    uint64_t made;
    yk_result r;
    yk_status st = try_run(k->options, k->ranks, false, at, &made, &r);
    const char *error = st ? yk_error() : "";
    if (st && !(k->ranks ? is_out_of_memory(error) : st == YK_ESYSTEM && strstr(error, "out of memory")))
        wrong(k, at, "status %d: %s", (int)st, yk_error());
    yk_result_fini(&r);
    k->failed += st != YK_OK;
    k->tolerated += !st && made >= at;
    resume(k, at);
    remove_run("out=run");
    return made >= at;
}

/* 60 examples with 3 fields. */
static void write_few(void)
{
    assert_int_equal(chdir(directory), 0);
    FILE *f = fopen("few.ffm", "w");
    assert_non_null(f);
    for (int i = 0; i < 60; i++)
        fprintf(f, "%d 0:%d:1 1:%d:1 2:%d:1\n", i % 2, i % 10, 10 + i % 7, 20 + i % 3);
    assert_int_equal(fclose(f), 0);
}

static void each_allocation_fails(void **state)
{
    const uint64_t every = (uint64_t)yk_env_number("YK_OOM_STEP", 151);
    uint64_t problems = 0;
    (void)state;
    yk_terminal_use();
    yk_terminal_quiet(true);
    write_few();
    setenv("YK_START_LIMIT", "0.5", 1); /* simulated seconds */
    for (size_t i = (size_t)yk_env_number("YK_OOM_FIRST", 1) - 1; i < sizeof runs / sizeof *runs; i++) {
        kind k = {.options = runs[i].options, .reproducible = runs[i].reproducible, .ranks = runs[i].ranks};
        uint64_t made;
        yk_result r;
        assert_int_equal(try_run(k.options, k.ranks, false, 0, &made, &r), YK_OK);
        k.model = model_of(&r, &k.size);
        k.examples = r.examples + r.late_examples;
        yk_result_fini(&r);
        remove_run("out=run");
        const uint64_t step = k.ranks && every > 1 ? 8 * every : every; /* jobs take longer */
        for (uint64_t at = 1 + i * 31 % step; fail_at(&k, at); at += step)
            ;
        print_message("%4llu failed, %3llu tolerated: %s\n", (unsigned long long)k.failed,
                      (unsigned long long)k.tolerated, k.options);
        problems += k.wrong;
        free(k.model);
    }
    assert_int_equal(problems, 0);
}

/* In memory, if possible: these runs sync thousands of files. */
static int make_memory_directory(void **state)
{
    strcpy(directory, "/dev/shm/yoke-test-XXXXXX");
    return mkdtemp(directory) ? 0 : make_test_directory(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_allocation_fails, clear_runs),
    };
    return cmocka_run_group_tests(tests, make_memory_directory, remove_test_directory);
}
