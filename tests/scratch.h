/* A temporary directory for a test program, and helpers for tests of file formats.
 *
 *     cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);        // or one for each test
 *     put(in_directory("a.bin"), data, n);
 *     assert_message("a.bin: is empty");              // the thread's error message contains this
 *
 * It includes cmocka.h.
 */
#ifndef YK_TESTS_SCRATCH_H
#define YK_TESTS_SCRATCH_H

#include "base/status.h"
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

/* Sanitizers make a run several times slower; fewer runs are enough to find races and leaks. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SANITIZED 1
#elif defined __has_feature
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static char directory[32];

static inline int make_test_directory(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/yoke-test-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static inline int remove_one(const char *p, const struct stat *s, int kind, struct FTW *f)
{
    (void)s, (void)kind, (void)f;
    return remove(p);
}

static inline int remove_test_directory(void **state)
{
    (void)state;
    return nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* The number of files and directories in it. */
static inline int entries(void)
{
    DIR *d = opendir(directory);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

/* A path in the directory, valid for the next seven calls. */
static inline const char *in_directory(const char *name)
{
    static char paths[8][256];
    static unsigned turn;
    char *p = paths[turn++ % 8];
    snprintf(p, sizeof paths[0], "%s/%s", directory, name);
    return p;
}

/* An unused path. */
static inline const char *new_path(const char *ending)
{
    static int fresh;
    char name[64];
    snprintf(name, sizeof name, "f%d%s", fresh++, ending);
    return in_directory(name);
}

static inline void put(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* Reads the first bytes of a file; returns their number. */
static inline size_t get_file(const char *path, void *data, size_t room)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(data, 1, room, f);
    fclose(f);
    return n;
}

/* Flips bits of one byte of the file. */
static inline void patch(const char *path, uint64_t offset, uint8_t change)
{
    uint8_t c;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &c, 1, (off_t)offset), 1);
    c ^= change;
    assert_int_equal(pwrite(fd, &c, 1, (off_t)offset), 1);
    close(fd);
}

enum { GZIP = 31, ZLIB = 15 };

/* Compresses n bytes into `out`; returns the compressed size. */
static inline size_t deflated(const void *data, size_t n, int form, uint8_t *out, size_t room)
{
    z_stream z = {.next_in = (uint8_t *)data, .avail_in = (uInt)n, .next_out = out, .avail_out = (uInt)room};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, form, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t made = room - z.avail_out;
    deflateEnd(&z);
    return made;
}

/* Writes a compressed copy of a file of at most one megabyte. */
static inline void compress_file(const char *from, const char *to, int form)
{
    static uint8_t in[1 << 20], out[1 << 20];
    size_t n = get_file(from, in, sizeof in);
    put(to, out, deflated(in, n, form, out, sizeof out));
}

static inline void assert_message(const char *part)
{
    if (!strstr(yk_error(), part))
        fail_msg("the message '%s' does not contain '%s'", yk_error(), part);
}

static inline void assert_error(yk_status st, yk_status expected, const char *part)
{
    assert_int_equal(st, expected);
    assert_message(part);
}

#endif
