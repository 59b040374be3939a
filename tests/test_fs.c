/* The file system in memory (fs_memory.h), and the guarantees of base/file.h, with a power failure at every
 * possible point. */
#include "fs_memory.h"
#include "scratch.h"

#include "base/dir.h"
#include "base/file.h"
#include "base/log.h"
#include "train/checkpoint.h"
#include "train/checkpoint_dir.h"
#include <errno.h>
#include <stdbool.h>

enum { OLD = 700, NEW = 5000 };

static yk_fs_memory *disk;

static void use_disk(uint64_t seed)
{
    disk = yk_fs_memory_create(seed);
    assert_non_null(disk);
    yk_fs_set(yk_fs_memory_fs(disk));
}

static void drop_disk(void)
{
    yk_fs_set(NULL);
    yk_fs_memory_free(disk);
}

static yk_status write_file(const char *name, char what, size_t n)
{
    char *text = malloc(n);
    yk_file *f;
    assert_non_null(text);
    memset(text, what, n);
    yk_status st = yk_file_create_in("run", name, &f);
    if (!st) {
        st = yk_file_write(f, text, n / 2);
        if (!st)
            st = yk_file_flush(f); /* two writes */
        if (!st)
            st = yk_file_write(f, text, n - n / 2);
        st = yk_file_close(f, st);
    }
    free(text);
    return st;
}

/* The size of a file whose bytes are all `what`; -1: no such file, or it has other bytes. */
static long holds(const char *name, char what)
{
    char text[2 * NEW];
    const int fd = yk_open_in("run", name, O_RDONLY);
    if (fd < 0)
        return -1;
    const long n = (long)yk_sys->read(fd, text, sizeof text);
    assert_int_equal(yk_fs_close(fd), 0);
    for (long i = 0; i < n; i++)
        if (text[i] != what)
            return -1;
    return n;
}

static size_t entries_of_run(void)
{
    size_t n = 0;
    const int fd = yk_dir_open("run", NULL);
    char **names = fd < 0 ? NULL : yk_sys->list(fd);
    while (names && names[n])
        n++;
    yk_fs_list_free(names);
    if (fd >= 0)
        yk_fs_close(fd);
    return n;
}

static void test_as_a_file_system(void **state)
{
    static const char *const all[] = {"a*", "below/", "below/*", NULL};
    (void)state;
    use_disk(1);
    assert_int_equal(yk_open_in("run", "a", O_RDONLY), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(yk_dir_make("run"), YK_OK);
    assert_int_equal(yk_dir_make_in("run", "below/more"), YK_OK);
    assert_int_equal(write_file("a", 'x', OLD), YK_OK);
    assert_int_equal(write_file("below/more/b", 'y', OLD), YK_OK);
    assert_int_equal(holds("a", 'x'), OLD);
    assert_int_equal(holds("below/more/b", 'y'), OLD);
    assert_int_equal(write_file("a", 'z', NEW), YK_OK); /* replaces the file */
    assert_int_equal(holds("a", 'z'), NEW);
    assert_int_equal(entries_of_run(), 2);
    assert_int_equal(yk_remove_in("run", "below/more/b"), YK_OK);
    assert_int_equal(holds("below/more/b", 'y'), -1);
    const int fd = yk_dir_open("run", NULL);
    assert_int_equal(yk_dir_clear(fd, all), 1); /* below/more is not a file */
    yk_fs_close(fd);
    assert_int_equal(access("run", F_OK), -1); /* nothing exists on the real disk */
    drop_disk();
}

static yk_status two_files(void)
{
    yk_status st = yk_dir_make("run");
    if (!st)
        st = yk_dir_sync(".");
    return st ? st : write_file("a", 'o', OLD);
}

/* The old file or the new one exists; the new one if the write was reported as done. */
static void test_power_cut_at_every_change(void **state)
{
    int old = 0, new = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++)
        for (uint64_t at = 1;; at++) {
            use_disk(seed);
            assert_int_equal(two_files(), YK_OK);
            yk_fs_memory_cut_at(disk, yk_fs_memory_changes(disk) + at);
            const yk_status st = write_file("a", 'n', NEW);
            yk_fs_memory_restart(disk);
            const bool is_old = holds("a", 'o') == OLD, is_new = holds("a", 'n') == NEW;
            if (!is_old && !is_new)
                fail_msg("seed %d, cut at change %d: neither the old nor the new file", (int)seed, (int)at);
            if (!st)
                assert_true(is_new);
            assert_int_equal(write_file("a", 'm', NEW), YK_OK); /* later writes work */
            old += is_old;
            new += is_new;
            drop_disk();
            if (!st)
                break;
        }
    assert_true(old > 100 && new > 50);
}

/* Without sync this does not hold: the disk loses and tears data. */
static void test_unsynced_data_is_torn(void **state)
{
    char text[NEW];
    int lost = 0, torn = 0, whole = 0;
    (void)state;
    memset(text, 't', sizeof text);
    for (uint64_t seed = 0; seed < 200; seed++) {
        use_disk(seed);
        assert_int_equal(yk_dir_make("run"), YK_OK);
        assert_int_equal(yk_dir_sync("."), YK_OK);
        const int fd = yk_open_in("run", "t", O_WRONLY | O_CREAT);
        assert_int_equal(yk_sys->write(fd, text, sizeof text), sizeof text);
        yk_fs_memory_restart(disk);
        const long n = holds("t", 't');
        struct stat s;
        const bool there = yk_sys->stat(AT_FDCWD, "run/t", &s, 0) == 0;
        lost += !there;
        whole += n == NEW;
        torn += there && n != NEW;
        drop_disk();
    }
    assert_true(lost > 20 && torn > 20 && whole > 0);
}

/* Whichever call fails, the old file is kept, no temporary file is left, and the error has the reason. */
static void test_every_failure(void **state)
{
    static const int errors[] = {EIO, ENOSPC};
    int failed = 0;
    (void)state;
    for (size_t e = 0; e < sizeof errors / sizeof *errors; e++)
        for (uint64_t at = 1;; at++) {
            use_disk(at);
            assert_int_equal(two_files(), YK_OK);
            yk_fs_memory_fail_at(disk, yk_fs_memory_changes(disk) + at, errors[e]);
            const yk_status st = write_file("a", 'n', NEW);
            const bool is_new = holds("a", 'n') == NEW;
            assert_true(is_new || holds("a", 'o') == OLD);
            assert_int_equal(entries_of_run(), 1);
            if (st) {
                assert_int_equal(st, YK_ESYSTEM);
                assert_message(errors[e] == EIO ? "the device failed" : "the disk is full");
                failed++;
            }
            drop_disk();
            if (!st)
                break;
        }
    assert_int_equal(failed,
                     12); /* create, write, write, sync, rename, sync the directory: each with both errors */
}

static void test_full_disk(void **state)
{
    (void)state;
    use_disk(0);
    assert_int_equal(two_files(), YK_OK);
    yk_fs_memory_capacity(disk, OLD + NEW - 1);
    assert_int_equal(write_file("a", 'n', NEW), YK_ESYSTEM);
    assert_message("the disk is full");
    assert_int_equal(holds("a", 'o'), OLD);
    assert_int_equal(entries_of_run(), 1);
    yk_fs_memory_capacity(disk, OLD + NEW); /* both exist for a moment */
    assert_int_equal(write_file("a", 'n', NEW), YK_OK);
    assert_int_equal(write_file("b", 'n', OLD), YK_OK);
    drop_disk();
}

/* ---- checkpoints ---- */

static yk_status save(uint64_t step)
{
    char *path = NULL;
    yk_status st = yk__checkpoint_begin("run");
    if (!st)
        st = write_file(YK__SAVING "/" YK__MODEL_FILE, (char)('0' + step), NEW);
    if (!st)
        st = write_file(YK__SAVING "/" YK__STATE_FILE, (char)('0' + step), OLD);
    st = yk__checkpoint_end("run", step, 0, st, &path);
    free(path);
    return st;
}

/* The step of the checkpoint that a resumed run finds, whose content is that step's; -1: none. */
static int resumes_from(void)
{
    char *path, name[64];
    int step = -1;
    assert_int_equal(yk_checkpoint_find("run", &path), YK_OK);
    if (!path)
        return -1;
    assert_int_equal(sscanf(path, "run/checkpoints/step-%d", &step), 1);
    snprintf(name, sizeof name, "checkpoints/step-%d/" YK__MODEL_FILE, step);
    assert_int_equal(holds(name, (char)('0' + step)), NEW);
    free(path);
    return step;
}

/* A power failure at any change of the third save: the second or the third checkpoint is found, and the third if its
 * save was reported as done. */
static void test_power_cut_while_saving(void **state)
{
    int found[4] = {0};
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++)
        for (uint64_t at = 1;; at++) {
            use_disk(seed);
            assert_int_equal(yk_dir_make("run"), YK_OK);
            assert_int_equal(yk_dir_sync("."), YK_OK);
            assert_int_equal(save(1), YK_OK);
            assert_int_equal(save(2), YK_OK);
            yk_fs_memory_cut_at(disk, yk_fs_memory_changes(disk) + at);
            const yk_status st = save(3);
            yk_fs_memory_restart(disk);
            const int step = resumes_from();
            if (step != 2 && step != 3)
                fail_msg("seed %d, cut at change %d: found step %d", (int)seed, (int)at, step);
            if (!st)
                assert_int_equal(step, 3);
            found[step]++;
            assert_int_equal(save(4), YK_OK);
            assert_int_equal(resumes_from(), 4);
            drop_disk();
            if (!st)
                break;
        }
    assert_true(found[2] > 100 && found[3] > 20);
}

static char warned[1024];

static void remember_warning(void *context, yk_log_level level, const char *text)
{
    (void)context, (void)level;
    snprintf(warned, sizeof warned, "%s", text);
}

/* Whichever change fails, a warning about the old checkpoint has the reason. */
static void test_failure_to_remove_a_checkpoint(void **state)
{
    const yk_log log = {.line = remember_warning};
    int warnings = 0;
    (void)state;
    yk_log_set(&log);
    for (uint64_t at = 0, changes = 0; at <= changes; at++) { /* 0: none fails */
        use_disk(at);
        for (uint64_t step = 1; step <= 3; step++) {
            const uint64_t before = yk_fs_memory_changes(disk);
            *warned = '\0';
            yk_fs_memory_fail_at(disk, step == 3 ? before + at : 0, EIO);
            const yk_status st = yk_dir_make("run");
            assert_true((!st && !save(step)) || step == 3);
            changes = at ? changes : yk_fs_memory_changes(disk) - before;
        }
        if (*warned)
            assert_non_null(strstr(warned, strerror(EIO)));
        warnings += *warned != '\0';
        drop_disk();
    }
    yk_log_set(NULL);
    assert_int_equal(warnings, 4); /* DONE, two files, the directory */
}

/* A process was killed between the creation of a directory and the sync of its parent. The next one uses that directory. */
static void test_directory_of_a_killed_process(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        use_disk(seed);
        assert_int_equal(yk_sys->make_dir(AT_FDCWD, "above", 0777), 0);
        assert_int_equal(yk_dir_make(seed % 2 ? "above/run" : "above"), YK_OK);
        yk_fs_memory_restart(disk);
        assert_non_null(find(disk, AT_FDCWD, seed % 2 ? "above/run" : "above"));
        drop_disk();
    }
}

/* Each change fails once: creating a directory, and syncing its parent. */
static void test_directory_that_is_not_synced(void **state)
{
    (void)state;
    use_disk(4);
    assert_int_equal(yk_dir_make("a/b"), YK_OK);
    const uint64_t changes = yk_fs_memory_changes(disk);
    drop_disk();
    assert_true(changes >= 4);
    for (uint64_t at = 1; at <= changes; at++) {
        use_disk(4);
        yk_fs_memory_fail_at(disk, at, EIO);
        assert_int_equal(yk_dir_make("a/b"), YK_ESYSTEM);
        assert_non_null(strstr(yk_error(), strerror(EIO)));
        drop_disk();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_a_file_system),
        cmocka_unit_test(test_power_cut_at_every_change),
        cmocka_unit_test(test_unsynced_data_is_torn),
        cmocka_unit_test(test_every_failure),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_power_cut_while_saving),
        cmocka_unit_test(test_failure_to_remove_a_checkpoint),
        cmocka_unit_test(test_directory_of_a_killed_process),
        cmocka_unit_test(test_directory_that_is_not_synced),
    };
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
