/* base/dir.h: nothing below a directory is written, truncated or removed through a link. */
#include "scratch.h"

#include "base/file.h"
#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>

static bool is_there(const char *name)
{
    struct stat s;
    return lstat(in_directory(name), &s) == 0;
}

static void make(const char *name)
{
    assert_int_equal(mkdir(in_directory(name), 0777), 0);
}

static void link_to(const char *target, const char *name)
{
    assert_int_equal(symlink(in_directory(target), in_directory(name)), 0);
}

static void assert_kept(const char *name)
{
    char text[16] = "";
    assert_int_equal(get_file(in_directory(name), text, sizeof text - 1), 4);
    assert_string_equal(text, "keep");
}

/* run/: where yoke writes; other/keep: must not change. */
static int set_up(void **state)
{
    if (make_test_directory(state))
        return -1;
    make("run");
    make("other");
    put(in_directory("other/keep"), "keep", 4);
    return 0;
}

static void write_in(const char *dir, const char *name, const char *text)
{
    yk_file *f;
    assert_int_equal(yk_file_create_in(dir, name, &f), YK_OK);
    assert_int_equal(yk_file_close(f, yk_file_print(f, "%s", text)), YK_OK);
}

static void files_below_a_directory(void **state)
{
    (void)state;
    yk_file *f;
    const char *run = in_directory("run");
    char text[16];
    assert_int_equal(yk_dir_make_in(run, "a/b"), YK_OK);
    assert_int_equal(yk_dir_make_in(run, "a/b"), YK_OK);
    write_in(run, "a/b/file", "new");
    write_in(run, "a/b/file", "newer");
    assert_int_equal(yk_file_append_in(run, "a/b/file", &f), YK_OK);
    assert_int_equal(yk_file_close(f, yk_file_print(f, "+")), YK_OK);
    assert_int_equal(get_file(in_directory("run/a/b/file"), text, sizeof text), 6);
    /* the directory itself may be reached through links */
    link_to("run", "alias");
    write_in(in_directory("alias"), "a/b/file", "x");
    assert_int_equal(get_file(in_directory("run/a/b/file"), text, sizeof text), 1);
    assert_error(yk_file_create_in(run, "none/file", &f), YK_ESYSTEM, "run/none/file");
    assert_null(f);
    assert_int_equal(yk_remove_in(run, "a/b/file"), YK_OK);
    assert_int_equal(yk_remove_in(run, "a/b/file"), YK_OK);
    assert_false(is_there("run/a/b/file"));
    assert_error(yk_remove_in(run, "a/b"), YK_ESYSTEM, "run/a/b: cannot remove");
}

static void no_link_is_followed(void **state)
{
    (void)state;
    yk_file *f;
    const char *run = in_directory("run");
    link_to("other/keep", "run/file");
    link_to("other", "run/below");
    link_to("other/missing", "run/dangling");
    static const char *const names[] = {"file", "below/keep", "below/new", "dangling"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_error(yk_file_create_in(run, names[i], &f), YK_ESYSTEM, "it is a symbolic link");
        assert_null(f);
        assert_error(yk_file_append_in(run, names[i], &f), YK_ESYSTEM, "it is a symbolic link");
        assert_int_equal(yk_open_in(run, names[i], O_WRONLY | O_CREAT | O_TRUNC), -1);
        assert_int_equal(errno, ELOOP);
        assert_error(yk_remove_in(run, names[i]), YK_ESYSTEM, "it is a symbolic link");
    }
    assert_error(yk_dir_make_in(run, "below"), YK_ESYSTEM, "it is a symbolic link");
    assert_error(yk_dir_make_in(run, "below/more"), YK_ESYSTEM, "it is a symbolic link");
    assert_int_equal(yk_dir_open(run, "below"), -1);
    assert_int_equal(errno, ELOOP);
    assert_kept("other/keep");
    assert_false(is_there("other/missing"));
    assert_false(is_there("other/new"));
    assert_true(is_there("run/file") && is_there("run/below") && is_there("run/dangling"));
}

static void only_regular_files_are_written(void **state)
{
    (void)state;
    yk_file *f;
    const char *run = in_directory("run");
    make("run/directory");
    assert_int_equal(mkfifo(in_directory("run/pipe"), 0666), 0);
    for (int i = 0; i < 2; i++) { /* does not wait for a reader of the pipe */
        assert_error(yk_file_create_in(run, i ? "pipe" : "directory", &f), YK_ESYSTEM,
                     "with this name exists");
        assert_error(yk_file_append_in(run, i ? "pipe" : "directory", &f), YK_ESYSTEM,
                     "with this name exists");
    }
}

/* The directory is replaced by a link while a file in it is open: writes go to the open file. */
static void a_directory_that_is_replaced(void **state)
{
    (void)state;
    yk_file *f;
    const char *run = in_directory("run");
    make("run/sub");
    assert_int_equal(yk_file_create_in(run, "sub/keep", &f), YK_OK);
    assert_int_equal(rename(in_directory("run/sub"), in_directory("run/moved")), 0);
    link_to("other", "run/sub");
    assert_int_equal(yk_file_close(f, yk_file_print(f, "new")), YK_OK);
    assert_kept("other/keep");
    assert_true(is_there("run/moved/keep"));
}

static void only_matching_entries_are_removed(void **state)
{
    (void)state;
    static const char *const ours[] = {"DONE", "model", "step-[0-9]*/", "step-[0-9]*/DONE", NULL};
    static const char *const plain[] = {"DONE",        "DONE.17-0.tmp", "model",
                                        "notes",       "DONE.tmp",      "step-1/DONE",
                                        "step-2/DONE", "step-2/notes",  "other/DONE"};
    char name[64];
    for (int i = 1; i <= 4; i++) {
        snprintf(name, sizeof name, "run/step-%d", i);
        if (i < 4)
            make(name);
    }
    make("run/other");
    make("run/step-3/inner");
    link_to("other", "run/step-4");
    link_to("other/keep", "run/step-3/DONE");
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        snprintf(name, sizeof name, "run/%s", plain[i]);
        put(in_directory(name), "keep", 4);
    }
    put(in_directory("other/DONE"), "keep", 4);
    const int fd = yk_dir_open(in_directory("run"), NULL);
    assert_true(fd >= 0);
    assert_int_equal(yk_dir_clear(fd, ours), 6); /* three files, step-1/DONE, step-2/DONE, step-1 */
    assert_int_equal(yk_dir_clear(fd, ours), 0);
    close(fd);
    assert_false(is_there("run/DONE") || is_there("run/DONE.17-0.tmp") || is_there("run/model") ||
                 is_there("run/step-1") || is_there("run/step-2/DONE"));
    static const char *const stay[] = {"run/notes",      "run/DONE.tmp",    "run/step-2/notes",
                                       "run/other/DONE", "run/step-3/DONE", "other/DONE",
                                       "other/keep"};
    for (size_t i = 0; i < sizeof stay / sizeof *stay; i++)
        assert_kept(stay[i]);
    assert_true(is_there("run/step-3/inner") && is_there("run/step-4"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, remove_test_directory)
    const struct CMUnitTest tests[] = {
        TEST(files_below_a_directory),           TEST(no_link_is_followed),
        TEST(only_regular_files_are_written),    TEST(a_directory_that_is_replaced),
        TEST(only_matching_entries_are_removed),
    };
    return cmocka_run_group_tests_name("dir", tests, NULL, NULL);
}
