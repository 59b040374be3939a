/* Out of memory: each allocation of a short run of each kind fails once. The run then either ends with an error that says
 * "out of memory", or gives the same result as without the failure. Nothing leaks (AddressSanitizer reports leaks at the
 * end), and the run can be resumed with the result of an undisturbed run.
 *
 * YK_OOM_STEP=N: every Nth allocation fails; 1 is `./dev oom`. */
#include "oom.h"
#include "training.h"

#include "base/number.h"

#define CLICKS                                                                                               \
    "model=logreg data=synth:ctr?features=3000&examples=400 test=synth:ctr?features=3000&examples=50 "       \
    "batch=10 "
#define DIGITS "data=synth:digits?examples=60&test=20 batch=10 "

static const struct {
    const char *options;
    bool reproducible;
} runs[] = {
    {CLICKS "epochs=2 checkpoint-every=15 optimizer=adagrad", true},
    {CLICKS "epochs=2 checkpoint-every=15 workers=2 l2=1e-3", true},
    {CLICKS "epochs=2 checkpoint-every=15 workers=2 mode=async", false},
    {CLICKS "epochs=2 checkpoint-every=15 workers=2 stream=always", true},
    {"model=softmax " DIGITS "epochs=2 checkpoint-every=5", true},
    {"model=lenet5 " DIGITS "epochs=1 checkpoint-every=3 optimizer=momentum", true},
};

/* Options, then a run. The error is yk_error(). */
static yk_status try_run(const char *options, bool resume, uint64_t fail_at, uint64_t *allocations_out,
                         yk_result *out)
{
    static const volatile sig_atomic_t stop;
    char copy[1024], path[300], *rest = copy;
    yk_config c;
    snprintf(copy, sizeof copy, "%s", options);
    snprintf(path, sizeof path, "%s/config.ini", in_directory("run"));
    *out = (yk_result){0};
    const int aside = divert_stderr();
    oom_arm(fail_at);
    yk_config_init(&c);
    yk_status st = resume && access(path, R_OK) == 0 ? yk_config_load(&c, path) : YK_OK;
    if (!st)
        st = yk_config_set(&c, "out", in_directory("run"));
    if (!st && resume)
        st = yk_config_set(&c, "resume", "true");
    for (char *word; !st && (word = strtok_r(rest, " ", &rest));) {
        char *equals = strchr(word, '=');
        *equals = '\0';
        st = yk_config_set(&c, word, equals + 1);
    }
    if (!st)
        st = yk_train(&c, &(yk_train_caller){.stop = &stop, .started = yk_now()}, out);
    *allocations_out = oom_disarm();
    yk_config_fini(&c);
    restore_stderr(aside);
    return st;
}

typedef struct {
    const char *options;
    bool reproducible;
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
    if (try_run(k->options, true, 0, &made, &r)) {
        wrong(k, at, "then --resume: %s", yk_error());
    } else {
        uint8_t *got = model_of(&r, &size);
        if (r.examples != k->examples || size != k->size || (k->reproducible && memcmp(got, k->model, size)))
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
    yk_status st = try_run(k->options, false, at, &made, &r);
    if (st && (st != YK_ESYSTEM || !strstr(yk_error(), "out of memory")))
        wrong(k, at, "status %d: %s", (int)st, yk_error());
    yk_result_fini(&r);
    k->failed += st != YK_OK;
    k->tolerated += !st && made >= at;
    resume(k, at);
    remove_run("out=run");
    return made >= at;
}

static void each_allocation_fails(void **state)
{
    const uint64_t every = (uint64_t)yk_env_number("YK_OOM_STEP", 151);
    uint64_t problems = 0;
    (void)state;
    yk_terminal_use();
    yk_terminal_quiet(true);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        kind k = {.options = runs[i].options, .reproducible = runs[i].reproducible};
        uint64_t made;
        yk_result r;
        assert_int_equal(try_run(k.options, false, 0, &made, &r), YK_OK);
        k.model = model_of(&r, &k.size);
        k.examples = r.examples;
        yk_result_fini(&r);
        remove_run("out=run");
        for (uint64_t at = 1 + i % every; fail_at(&k, at); at += every)
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
