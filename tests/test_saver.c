/* Checkpoints beside training: training continues while one is written, the checkpoint is of exactly one step, and an error
 * of the disk ends the run. The disk of these tests is the real one, with a sync that waits or fails. */
#include "training.h"

#include "base/fs.h"
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define CLICKS "model=logreg data=synth:ctr?features=20000&examples=4000 test=none batch=10 eval-every=10 "

static atomic_ullong step;                        /* of training, every 10 steps */
static atomic_bool waited;                        /* a sync after step 90 has waited for training */
static atomic_bool overtaken;                     /* and training continued */
static bool disk_waits;                           /* at a sync after step 90 */
static unsigned long long full_from = ULLONG_MAX; /* from this step on, a sync fails */

static bool on_metrics(void *context, const yoke_metrics *m)
{
    (void)context;
    atomic_store(&step, m->step);
    return false;
}

/* The first sync of the checkpoint of step 100 waits until training has made more steps, but at most 10 s. */
static int slow_sync(int fd)
{
    const unsigned long long began = atomic_load(&step);
    if (began >= full_from) {
        errno = ENOSPC;
        return -1;
    }
    if (disk_waits && began >= 90 && !atomic_exchange(&waited, true))
        for (int i = 0; i < 10000 && !atomic_load(&overtaken); i++) {
            yk_sleep_ns(1000000);
            atomic_store(&overtaken, atomic_load(&step) > 110);
        }
    return fsync(fd);
}

static char written[256]; /* the names of the checkpoints, in this order */

static int record_rename(int from_dir, const char *from, int to_dir, const char *to)
{
    if (strncmp(to, "step-", 5) == 0)
        snprintf(written + strlen(written), sizeof written - strlen(written), " %s", to);
    return renameat(from_dir, from, to_dir, to);
}

/* ---- runs ---- */

static yk_fs slow_disk;

static yk_status train_on(const char *options, yk_result *out)
{
    const volatile sig_atomic_t stop = 0;
    yk_config c;
    yk_config_init(&c);
    set_all(&c, options);
    yk_terminal_use();
    yk_terminal_quiet(true);
    atomic_store(&step, 0);
    atomic_store(&waited, false);
    atomic_store(&overtaken, false);
    slow_disk = *yk_sys;
    slow_disk.sync = slow_sync;
    slow_disk.rename = record_rename;
    *written = '\0';
    yk_fs_set(&slow_disk);
    const int aside = divert_stderr();
    yk_status st =
        yk_train(&c, &(yk_train_caller){.stop = &stop, .started = yk_now(), .metrics = on_metrics}, out);
    restore_stderr(aside);
    yk_fs_set(NULL);
    yk_config_fini(&c);
    return st;
}

/* The first checkpoint is synced only after training has continued; the run resumes from it with the same bits. */
static void training_continues(void **state)
{
    static const char *const runs[] = {
        "workers=1 optimizer=adagrad",
        "workers=3 optimizer=adagrad l2=1e-3",
        "workers=2 mode=async optimizer=ftrl",
    };
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char options[512];
        yk_result whole, part;
        const bool async = strstr(runs[i], "async");
        snprintf(options, sizeof options, CLICKS "steps=%d checkpoint-every=100 out=whole %s",
                 async ? 800 : 300, runs[i]);
        disk_waits = true;
        assert_int_equal(train_on(options, &whole), YK_OK);
        assert_true(atomic_load(&overtaken));
        disk_waits = false;
        if (!async) {
            assert_int_equal(train_f(&part, CLICKS "steps=150 checkpoint-every=100 out=part %s", runs[i]),
                             YK_OK);
            remove_run("out=part/checkpoints/step-150"); /* resumes from step 100 */
            yk_result_fini(&part);
            assert_int_equal(train("steps=300 out=part resume=true", 0, &part), YK_OK);
            assert_int_equal(part.resumed_from, 100);
            assert_same_model(&whole, &part);
            yk_result_fini(&part);
            remove_run("out=part");
        }
        yk_result_fini(&whole);
        remove_run("out=whole");
    }
}

/* A checkpoint that cannot be written ends the run, long before its last step. */
static void a_failure_is_reported(void **state)
{
    (void)state;
    yk_result r;
    full_from = 90;
    for (int workers = 1; workers <= 2; workers++) {
        char options[512];
        snprintf(options, sizeof options, CLICKS "epochs=100000 checkpoint-every=1000 workers=%d out=run",
                 workers);
        assert_int_equal(train_on(options, &r), YK_ESYSTEM);
        assert_non_null(strstr(r.error ? r.error : yk_error(), "the disk is full"));
        yk_result_fini(&r);
        remove_run("out=run");
    }
    full_from = ULLONG_MAX;
}

/* A model that a better one replaces soon is not written, but the best one is before a checkpoint that refers to it. */
static void the_best_model_is_written_when_it_is_needed(void **state)
{
    (void)state;
    yk_result r;
    assert_int_equal(
        train_on(CLICKS "validation=0.1 lr=0.01 steps=100 checkpoint-every=25 workers=1 out=run", &r), YK_OK);
    assert_string_equal(written, " step-20 step-25 step-50 step-70 step-75 step-100");
    yk_result_fini(&r);
    remove_run("out=run");
    assert_int_equal(
        train_on(CLICKS "validation=0.1 lr=0.5 epochs=5 checkpoint-every=100000 workers=1 out=run", &r),
        YK_OK);
    char expected[64];
    snprintf(expected, sizeof expected, " step-%d step-%d", (int)r.selected.step, (int)r.steps);
    assert_string_equal(written, expected);
    yk_result_fini(&r);
    remove_run("out=run");
    assert_int_equal(train_on(CLICKS "validation=0.1 lr=30 epochs=50 workers=1 out=run", &r), YK_EDIVERGED);
    assert_string_equal(written, " step-10"); /* at the end of a failed run, too */
    yk_result_fini(&r);
    remove_run("out=run");
    full_from = 10;
    assert_int_equal(train_on(CLICKS "validation=0.1 lr=30 epochs=50 workers=1 out=run", &r), YK_EDIVERGED);
    full_from = ULLONG_MAX;
    char text[1 << 12];
    assert_true(yk_file_text(text, sizeof text, "%s", in_directory("stderr")));
    assert_non_null(strstr(text, "warning: cannot write the best model: "));
    yk_result_fini(&r);
    remove_run("out=run");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(training_continues, clear_runs),
        cmocka_unit_test_setup(a_failure_is_reported, clear_runs),
        cmocka_unit_test_setup(the_best_model_is_written_when_it_is_needed, clear_runs),
    };
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
