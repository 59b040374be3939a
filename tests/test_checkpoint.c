/* Robustness of checkpoints: child processes are killed at random moments, files are damaged, writes fail. The run must
 * always be resumable, with the results of an uninterrupted run. */
#include "training.h"

#include "base/crc.h"
#include "base/rng.h"
#include "train/checkpoint.h"
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#define CLICKS "model=logreg data=synth:ctr?features=20000&examples=4000"
#define DIGITS "model=softmax data=synth:digits?examples=500"

/* ---- processes */

/* Trains in a child process. max_bytes: the largest file that it can write; 0: no limit. */
static pid_t spawn(const char *options, uint64_t max_bytes)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child)
        return child;
    struct rlimit limit = {max_bytes, max_bytes};
    signal(SIGXFSZ, SIG_IGN);
    if (max_bytes && setrlimit(RLIMIT_FSIZE, &limit))
        _exit(99);
    yk_result r;
    yk_status st = train(options, 0, &r);
    yk_result_fini(&r);
    _exit((int)st);
}

/* The yk_status of the process, or minus the signal that killed it. */
static int reap(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* kill -9 at random moments until the run finishes; returns how often it was killed. `seconds`: its duration if it is not
 * killed. The time until the next kill grows, so that the run also finishes on a busy host. */
static int run_with_kills(const char *options, double seconds, yk_rng *rng)
{
    int killed = 0;
    for (double max = 0.6 * seconds;; max *= 1.06) {
        char resumed[512];
        snprintf(resumed, sizeof resumed, "%s resume=true", options);
        pid_t child = spawn(resumed, 0);
        double wait = yk_rng_unit(rng) * max, whole = floor(wait);
        nanosleep(&(struct timespec){(time_t)whole, (long)((wait - whole) * 1e9)}, NULL);
        kill(child, SIGKILL);
        int how = reap(child);
        if (how == YK_OK)
            return killed;
        assert_int_equal(how, -SIGKILL);
        killed++;
        assert_true(killed < 1000);
    }
}

static void killed_at_any_moment(void **state)
{
    (void)state;
    static const char *const runs[] = {
        CLICKS " batch=10 epochs=3 checkpoint-every=40 optimizer=adam",
        CLICKS " batch=10 epochs=3 checkpoint-every=20 workers=3 l2=1e-3",
        CLICKS " batch=10 epochs=3 checkpoint-every=20 workers=3 optimizer=ftrl stream=always",
        DIGITS " batch=5 epochs=3 checkpoint-every=30 optimizer=momentum",
    };
    yk_rng rng = yk_rng_seed((uint64_t)getpid(), (uint64_t)time(NULL));
    int killed = 0;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i += 1 + SANITIZED) {
        char options[512];
        yk_result whole, part;
        double began = yk_now();
        assert_int_equal(train_f(&whole, "%s out=whole", runs[i]), YK_OK);
        snprintf(options, sizeof options, "%s out=part", runs[i]);
        killed += run_with_kills(options, yk_now() - began, &rng);
        assert_int_equal(train("out=part resume=true", 0, &part), YK_OK);
        assert_int_equal(part.examples, whole.examples);
        assert_int_equal(part.steps, whole.steps);
        assert_same_model(&whole, &part);
        yk_result_fini(&whole);
        yk_result_fini(&part);
        remove_run("out=whole");
        remove_run("out=part");
    }
    assert_true(killed >= 4); /* otherwise nothing was tested */
}

/* Asynchronous runs are not bit-identical, but use the same number of examples. */
static void killed_asynchronously(void **state)
{
    (void)state;
    yk_rng rng = yk_rng_seed((uint64_t)getpid(), (uint64_t)time(NULL));
    static const char *const runs[] = {
        CLICKS " batch=3 epochs=5 checkpoint-every=200 workers=3 mode=async",
        CLICKS " batch=3 epochs=5 checkpoint-every=200 workers=3 staleness=3 stream=always",
    };
    for (size_t i = 0; i < 2; i++) {
        char options[512];
        snprintf(options, sizeof options, "%s out=part", runs[i]);
        run_with_kills(options, SANITIZED ? 0.4 : 0.1, &rng);
        yk_result r;
        assert_int_equal(train("out=part resume=true", 0, &r), YK_OK);
        assert_int_equal(r.examples, 5 * 4000);
        yk_result_fini(&r);
        remove_run("out=part");
    }
}

/* ---- the contents of the directory */

/* The entries of RUN/checkpoints in descending order, separated by blanks. */
static const char *listing(const char *run)
{
    static char text[512];
    char path[300];
    struct dirent **e;
    snprintf(path, sizeof path, "%s/checkpoints", in_directory(run));
    int n = scandir(path, &e, NULL, alphasort);
    assert_true(n >= 2);
    text[0] = '\0';
    while (n-- > 0) {
        if (strcmp(e[n]->d_name, ".") && strcmp(e[n]->d_name, ".."))
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", *text ? " " : "", e[n]->d_name);
        free(e[n]);
    }
    free(e);
    return text;
}

static void two_checkpoints_are_kept(void **state)
{
    (void)state;
    yk_result r;
    assert_int_equal(train(CLICKS " batch=40 steps=75 checkpoint-every=10 out=run", 0, &r), YK_OK);
    assert_string_equal(listing("run"), "step-75 step-70");
    yk_result_fini(&r);
    /* the next save removes the leftovers of a killed run */
    assert_int_equal(mkdir(in_directory("run/checkpoints/.saving"), 0777), 0);
    put(in_directory("run/checkpoints/.saving/model.safetensors.1-0.tmp"), "half", 4);
    assert_int_equal(train("steps=82 out=run resume=true", 0, &r), YK_OK);
    assert_string_equal(listing("run"), "step-82 step-80");
    yk_result_fini(&r);
}

typedef void damage(const char *checkpoint);

static void flip_model(const char *checkpoint)
{
    char path[300];
    snprintf(path, sizeof path, "%s/model.safetensors", checkpoint);
    patch(path, 5000, 0x10);
}

static void truncate_state(const char *checkpoint)
{
    char path[300];
    struct stat info;
    snprintf(path, sizeof path, "%s/state.safetensors", checkpoint);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size - 1), 0);
}

static void remove_done(const char *checkpoint)
{
    char path[300];
    snprintf(path, sizeof path, "%s/DONE", checkpoint);
    assert_int_equal(unlink(path), 0);
}

static void cut_done(const char *checkpoint)
{
    char path[300];
    snprintf(path, sizeof path, "%s/DONE", checkpoint);
    assert_int_equal(truncate(path, 30), 0);
}

static void remove_state(const char *checkpoint)
{
    char path[300];
    snprintf(path, sizeof path, "%s/state.safetensors", checkpoint);
    assert_int_equal(unlink(path), 0);
}

static void damaged_checkpoints_are_skipped(void **state)
{
    (void)state;
    static damage *const ways[] = {flip_model, truncate_state, remove_done, cut_done, remove_state};
    yk_result whole, r;
    assert_int_equal(
        train(CLICKS " batch=40 steps=60 optimizer=adam checkpoint-every=20 out=whole", 0, &whole), YK_OK);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        assert_int_equal(train(CLICKS " batch=40 steps=50 optimizer=adam checkpoint-every=20 out=run", 0, &r),
                         YK_OK);
        assert_string_equal(listing("run"), "step-50 step-40");
        ways[i](r.checkpoint);
        yk_result_fini(&r);
        char *found = NULL;
        int aside = divert_stderr();
        assert_int_equal(yk_checkpoint_find(in_directory("run"), &found), YK_OK); /* as eval and predict do */
        restore_stderr(aside);
        assert_string_equal(strrchr(found, '/'), "/step-40");
        free(found);
        /* saves before the step of the damaged one: it is removed, two good ones are kept */
        assert_int_equal(train("steps=45 out=run resume=true", 0, &r), YK_OK);
        assert_int_equal(r.resumed_from, 40);
        assert_true(warned("step-50: skipping this checkpoint"));
        assert_string_equal(listing("run"), "step-45 step-40");
        yk_result_fini(&r);
        assert_int_equal(train("steps=60 out=run resume=true", 0, &r), YK_OK);
        assert_int_equal(r.resumed_from, 45);
        assert_false(warned("passed over"));
        assert_same_model(&whole, &r);
        yk_result_fini(&r);
        remove_run("out=run");
    }
    yk_result_fini(&whole);
}

/* ---- writes that fail */

static void a_failed_write_keeps_the_last_checkpoint(void **state)
{
    (void)state;
    yk_result whole, r;
    assert_int_equal(train(CLICKS " batch=40 steps=60 optimizer=adam out=whole", 0, &whole), YK_OK);
    assert_int_equal(train(CLICKS " batch=40 steps=20 optimizer=adam out=run", 0, &r), YK_OK);
    yk_result_fini(&r);
    /* the model has 80 kB, the state 160 kB: one or both of them are cut off */
    static const uint64_t limits[] = {1, 50000, 100000, 200000};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        int how = reap(spawn("steps=60 out=run resume=true checkpoint-every=10", limits[i]));
        if (i == 3) {
            assert_int_equal(how, YK_OK); /* enough: the other runs failed because of the limit */
            break;
        }
        assert_int_equal(how, YK_ESYSTEM);
        assert_string_equal(listing("run"), "step-20");
        char *found;
        assert_int_equal(yk_checkpoint_find(in_directory("run"), &found), YK_OK);
        assert_non_null(found);
        free(found);
    }
    assert_int_equal(train("steps=60 out=run resume=true", 0, &r), YK_OK);
    assert_same_model(&whole, &r);
    yk_result_fini(&r);
    yk_result_fini(&whole);
}

/* ---- refusals */

static void checkpoints_of_other_runs_are_refused(void **state)
{
    (void)state;
    yk_result r;
    assert_int_equal(train(CLICKS " batch=40 steps=20 out=run", 0, &r), YK_OK);
    yk_result_fini(&r);
    size_t n, m;
    uint8_t *before = bytes_of(in_directory("run/config.ini"), &n);
    assert_error(train(CLICKS " batch=40 steps=20 out=run", 0, &r), YK_EUSAGE, "already holds a run");
    yk_result_fini(&r);
    assert_error(train("steps=30 optimizer=adam out=run resume=true", 0, &r), YK_EUSAGE, "--optimizer");
    yk_result_fini(&r);
    assert_error(train("steps=30 data=synth:ctr?features=21000&examples=4000 out=run resume=true", 0, &r),
                 YK_EDATA, "");
    yk_result_fini(&r);
    assert_error(train("steps=30 stream=always out=run resume=true", 0, &r), YK_EUSAGE, "--stream never");
    yk_result_fini(&r);
    assert_error(train("model=softmax steps=30 out=run resume=true", 0, &r), YK_EDATA, "");
    yk_result_fini(&r);
    uint8_t *after = bytes_of(in_directory("run/config.ini"), &m);
    assert_int_equal(n, m);
    assert_memory_equal(before, after, n);
    free(before);
    free(after);
    /* none of them changed it */
    assert_int_equal(train("steps=30 out=run resume=true", 0, &r), YK_OK);
    assert_int_equal(r.resumed_from, 20);
    yk_result_fini(&r);
    yk_config c;
    yk_config_init(&c);
    assert_int_equal(yk_config_set(&c, "model", "logreg"), YK_OK);
    assert_int_equal(yk_config_set(&c, "data", "synth:ctr"), YK_OK);
    assert_int_equal(yk_config_set(&c, "resume", "true"), YK_OK);
    assert_error(yk_config_check(&c), YK_EUSAGE, "--resume needs --out");
    assert_int_equal(yk_config_set(&c, "out", "none"), YK_OK);
    assert_error(yk_config_check(&c), YK_EUSAGE, "--resume needs --out");
    yk_config_fini(&c);
}

/* Replaces text in the metadata of a file with text of the same length, and updates DONE. */
static void edit_metadata(const char *checkpoint, const char *file, const char *from, const char *to)
{
    static const char *const files[] = {"model.safetensors", "state.safetensors"};
    char path[300], done[200] = "";
    assert_int_equal(strlen(from), strlen(to));
    for (int i = 0; i < 2; i++) {
        size_t n;
        snprintf(path, sizeof path, "%s/%s", checkpoint, files[i]);
        uint8_t *bytes = bytes_of(path, &n);
        if (strcmp(file, files[i]) == 0) {
            char *at = memmem(bytes, n, from, strlen(from));
            assert_non_null(at);
            memcpy(at, to, strlen(to));
            put(path, bytes, n);
        }
        snprintf(done + strlen(done), sizeof done - strlen(done), "%s %zu %08x\n", files[i], n,
                 yk_crc32c(bytes, n));
        free(bytes);
    }
    snprintf(path, sizeof path, "%s/DONE", checkpoint);
    put(path, done, strlen(done));
}

static void a_newer_format_is_refused(void **state)
{
    (void)state;
    static const char *const files[] = {"model.safetensors", "state.safetensors"};
    yk_result r;
    assert_int_equal(train(CLICKS " batch=40 steps=20 out=run", 0, &r), YK_OK);
    char checkpoint[256];
    snprintf(checkpoint, sizeof checkpoint, "%s", r.checkpoint);
    yk_result_fini(&r);
    for (int i = 0; i < 2; i++) {
        edit_metadata(checkpoint, files[i], "\"format_version\":\"1\"", "\"format_version\":\"2\"");
        assert_error(train("steps=30 out=run resume=true", 0, &r), YK_EDATA, "format version 2");
        assert_message(files[i]);
        yk_result_fini(&r);
        edit_metadata(checkpoint, files[i], "\"format_version\":\"2\"", "\"format_version\":\"p\"");
        assert_error(train("steps=30 out=run resume=true", 0, &r), YK_EDATA, "not a format version");
        yk_result_fini(&r);
        edit_metadata(checkpoint, files[i], "\"format_version\":\"p\"",
                      "\"farmot_version\":\"1\""); /* version 0 has no such field */
    }
    yk_trained *m;
    assert_int_equal(yk_trained_load(checkpoint, &m), YK_OK);
    yk_trained_release(m);
    assert_int_equal(train("steps=30 out=run resume=true", 0, &r), YK_OK);
    assert_int_equal(r.resumed_from, 20);
    yk_result_fini(&r);
}

/* In yoke 0.1.0, networks with a name had no flatten layer, which is layer 6 of lenet5. */
static void tensors_may_have_the_names_of_0_1_0(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"\"7.weight\"", "\"6.weight\""},   {"\"7.bias\"", "\"6.bias\""},
        {"\"9.weight\"", "\"8.weight\""},   {"\"9.bias\"", "\"8.bias\""},
        {"\"11.weight\"", "\"10.weight\""}, {"\"11.bias\"", "\"10.bias\""}};
    yk_result whole, part;
    assert_int_equal(
        train("model=lenet5 data=synth:digits?examples=60 optimizer=momentum batch=6 steps=8 out=run-whole",
              0, &whole),
        YK_OK);
    assert_int_equal(
        train("model=lenet5 data=synth:digits?examples=60 optimizer=momentum batch=6 steps=4 out=run", 0,
              &part),
        YK_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        edit_metadata(part.checkpoint, "model.safetensors", names[i][0], names[i][1]);
    yk_trained *m;
    assert_int_equal(yk_trained_load(part.checkpoint, &m), YK_OK);
    yk_trained_release(m);
    yk_result_fini(&part);
    assert_int_equal(train("steps=8 out=run resume=true", 0, &part), YK_OK);
    assert_int_equal(part.resumed_from, 4);
    assert_same_model(&whole, &part);
    yk_result_fini(&whole);
    yk_result_fini(&part);
}

/* A synchronous run is resumed asynchronously, and with another number of workers. */
static void workers_and_mode_may_change(void **state)
{
    (void)state;
    yk_result r;
    for (uint64_t step = 49; step <= 51; step++) { /* an epoch has 50 steps */
        assert_int_equal(train_f(&r, CLICKS " batch=40 workers=2 steps=%d out=run", (int)step), YK_OK);
        yk_result_fini(&r);
        assert_int_equal(train("epochs=2 workers=3 mode=async out=run resume=true", 0, &r), YK_OK);
        assert_int_equal(r.examples, 2 * 4000);
        yk_result_fini(&r);
        remove_run("out=run");
    }
    assert_int_equal(train(CLICKS " batch=40 workers=2 steps=33 out=run", 0, &r), YK_OK);
    yk_result_fini(&r);
    assert_int_equal(train("epochs=2 workers=5 out=run resume=true", 0, &r), YK_OK);
    assert_int_equal(r.examples, 2 * 4000);
    yk_result_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(killed_at_any_moment, clear_runs),
        cmocka_unit_test_setup(killed_asynchronously, clear_runs),
        cmocka_unit_test_setup(two_checkpoints_are_kept, clear_runs),
        cmocka_unit_test_setup(damaged_checkpoints_are_skipped, clear_runs),
        cmocka_unit_test_setup(a_failed_write_keeps_the_last_checkpoint, clear_runs),
        cmocka_unit_test_setup(checkpoints_of_other_runs_are_refused, clear_runs),
        cmocka_unit_test_setup(a_newer_format_is_refused, clear_runs),
        cmocka_unit_test_setup(tensors_may_have_the_names_of_0_1_0, clear_runs),
        cmocka_unit_test_setup(workers_and_mode_may_change, clear_runs),
    };
    return cmocka_run_group_tests_name("checkpoint", tests, make_test_directory, remove_test_directory);
}
