/* base/file.h: files that are replaced atomically, logs that are appended to, directories, and sticky errors. */
#include "scratch.h"

#include "base/file.h"
#include <sys/stat.h>
#include <unistd.h>

static char path[128];

static int set_up(void **state)
{
    if (make_test_directory(state))
        return -1;
    snprintf(path, sizeof path, "%s/file", directory);
    return 0;
}

static void test_file_appears_when_closed(void **state)
{
    (void)state;
    yk_file *f;
    put(path, "old", 3);
    assert_int_equal(yk_file_create_in(NULL, path, &f), YK_OK);
    assert_int_equal(yk_file_print(f, "%d %s", 12, "new"), YK_OK);
    assert_int_equal(yk_file_flush(f), YK_OK);
    char text[1024];
    assert_int_equal(get_file(path, text, sizeof text), 3); /* still the old file */
    assert_int_equal(yk_file_write(f, "\0\0", 2), YK_OK);
    assert_int_equal(yk_file_written(f), 8);
    assert_int_equal(yk_file_close(f, YK_OK), YK_OK);
    assert_int_equal(get_file(path, text, sizeof text), 8);
    assert_memory_equal(text, "12 new\0\0", 8);
    /* Permissions follow the umask: others may read it. */
    mode_t mask = umask(022);
    umask(mask);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0666 & ~mask);
    assert_int_equal(yk_file_save_private(directory, "file", "secret"), YK_OK);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(entries(), 1);
}

static void test_file_aborted(void **state)
{
    (void)state;
    yk_file *f;
    put(path, "old", 3);
    assert_int_equal(yk_file_create_in(NULL, path, &f), YK_OK);
    assert_int_equal(yk_file_write(f, "new", 3), YK_OK);
    assert_int_equal(yk_file_close(f, yk_fail(YK_ELOST, "lost")), YK_ELOST);
    assert_string_equal(yk_error(), "lost");
    char text[16];
    assert_int_equal(get_file(path, text, sizeof text), 3);
    assert_memory_equal(text, "old", 3);
    assert_int_equal(entries(), 1);
    assert_int_equal(yk_file_close(NULL, YK_EDATA), YK_EDATA);
}

static void test_file_appends(void **state)
{
    (void)state;
    yk_file *f;
    char *large = malloc(700000);
    assert_non_null(large);
    memset(large, 'x', 700000);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(yk_file_append_in(directory, "file", &f), YK_OK);
        assert_int_equal(yk_file_write(f, "head", 4), YK_OK);
        assert_int_equal(yk_file_write(f, large, 700000), YK_OK); /* longer than the buffer */
        assert_int_equal(yk_file_print(f, "%600d", 1), YK_OK);    /* longer than the small buffer */
        assert_int_equal(yk_file_close(f, YK_OK), YK_OK);
    }
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, 2 * 700604);
    free(large);
}

static void test_directories(void **state)
{
    (void)state;
    char deep[256];
    snprintf(deep, sizeof deep, "%s/a//b/c/", directory);
    assert_int_equal(yk_dir_make(deep), YK_OK);
    assert_int_equal(yk_dir_make(deep), YK_OK);
    struct stat info;
    assert_int_equal(stat(deep, &info), 0);
    assert_true(S_ISDIR(info.st_mode));
    assert_int_equal(yk_dir_sync(deep), YK_OK);
    for (const char *const *at = (const char *const[]){"a/b/c", "a/b", "a", NULL}; *at; at++) {
        snprintf(deep, sizeof deep, "%s/%s", directory, *at);
        assert_int_equal(rmdir(deep), 0);
    }
    put(path, "", 0);
    snprintf(deep, sizeof deep, "%s/below", path);
    assert_int_equal(yk_dir_make(deep), YK_ESYSTEM);
    assert_message("cannot create the directory");
    assert_int_equal(yk_dir_sync(deep), YK_ESYSTEM);
}

static void test_file_error_sticks(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK)) {
        print_message("skipped: /dev/full does not exist\n");
        skip();
    }
    assert_int_equal(symlink("/dev/full", path), 0);
    /* The error of a small write is reported by close at the latest. */
    yk_file *f;
    assert_int_equal(yk_file_create_in(NULL, path, &f), YK_OK);
    assert_int_equal(yk_file_print(f, "%s", "small"), YK_OK);
    assert_int_equal(yk_file_flush(f), YK_ESYSTEM);
    assert_int_equal(yk_file_write(f, "more", 4), YK_ESYSTEM);
    assert_int_equal(yk_file_close(f, YK_OK), YK_ESYSTEM);
    assert_message("the disk is full");
}

/* In an untrusted directory, only regular files are read. */
static void test_plain(void **state)
{
    (void)state;
    char other[160];
    int fd;
    snprintf(other, sizeof other, "%s/other", directory);
    assert_int_equal(yk_file_open_regular(path, 10, &fd), YK_OK);
    assert_int_equal(fd, -1);
    put(path, "0123456789", 10);
    assert_int_equal(yk_file_open_regular(path, 10, &fd), YK_OK);
    assert_true(fd >= 0);
    close(fd);
    assert_error(yk_file_open_regular(path, 9, &fd), YK_EDATA, "too large: 10 bytes");
    assert_int_equal(symlink(path, other), 0);
    assert_error(yk_file_open_regular(other, 10, &fd), YK_EDATA, "/other: not a regular file");
    assert_int_equal(fd, -1);
    assert_int_equal(unlink(other), 0);
    assert_int_equal(mkfifo(other, 0600), 0);
    assert_error(yk_file_open_regular(other, 10, &fd), YK_EDATA, "not a regular file");
    assert_int_equal(unlink(other), 0);
    assert_int_equal(mkdir(other, 0700), 0);
    assert_error(yk_file_open_regular(other, 10, &fd), YK_EDATA, "not a regular file");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, remove_test_directory)
    const struct CMUnitTest tests[] = {
        TEST(test_file_appears_when_closed), TEST(test_file_aborted), TEST(test_file_appends),
        TEST(test_file_error_sticks),        TEST(test_directories),  TEST(test_plain),
    };
    return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
