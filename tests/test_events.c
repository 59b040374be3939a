/* format/events.h: the bytes of each kind of event, their frames, and failing disks. tests/interop/events_test.py
 * checks that TensorBoard reads the values back. It calls this program:
 *     test_events --write DIRECTORY     writes the events that the Python test expects
 */
#include "base/crc.h"
#include "base/dir.h"
#include "format/events.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

static char root[64], directory[96];

static int make_test_directory(void **state)
{
    (void)state;
    strcpy(root, "/tmp/yoke-test-XXXXXX");
    if (!mkdtemp(root))
        return -1;
    snprintf(directory, sizeof directory, "%s/run/w-0", root); /* the writer creates it */
    return 0;
}

static int remove_test_directory(void **state)
{
    (void)state;
    DIR *d = opendir(directory);
    for (struct dirent *e; d && (e = readdir(d));) {
        char name[400];
        snprintf(name, sizeof name, "%s/%s", directory, e->d_name);
        if (e->d_name[0] != '.')
            unlink(name);
    }
    if (d)
        closedir(d);
    rmdir(directory);
    *strrchr(directory, '/') = 0;
    rmdir(directory);
    return rmdir(root);
}

/* Loads the whole file and checks each frame. */
static uint8_t file[1 << 20];
static size_t file_size, at;

static void load(const char *path)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    file_size = fread(file, 1, sizeof file, f);
    fclose(f);
    at = 0;
}

static const uint8_t *frame(size_t *size_out)
{
    assert_true(file_size - at >= 16);
    uint64_t length;
    uint32_t crc;
    memcpy(&length, file + at, 8);
    memcpy(&crc, file + at + 8, 4);
    assert_int_equal(crc, yk_crc32c_masked(file + at, 8));
    assert_true(length <= file_size - at - 16);
    const uint8_t *data = file + at + 12;
    memcpy(&crc, data + length, 4);
    assert_int_equal(crc, yk_crc32c_masked(data, length));
    at += 16 + length;
    *size_out = length;
    return data;
}

/* The next frame is an event with the time 1.5, followed by `rest`. */
static void expect(const char *rest, size_t size)
{
    static const uint8_t time[] = {0x09, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f};
    size_t length;
    const uint8_t *data = frame(&length);
    assert_int_equal(length, sizeof time + size);
    assert_memory_equal(data, time, sizeof time);
    assert_memory_equal(data + sizeof time, rest, size);
}

#define EXPECT(text) expect(text, sizeof(text) - 1)

static void test_first_event(void **state)
{
    (void)state;
    yk_events *e, *other;
    assert_int_equal(yk_events_create(root, "run/w-0", &e), YK_OK);
    assert_int_equal(yk_events_create(root, "run/w-0", &other), YK_OK);
    assert_string_not_equal(yk_events_path(e), yk_events_path(other));
    const char *name = strrchr(yk_events_path(e), '/') + 1;
    long long when;
    int host;
    assert_int_equal(sscanf(name, "events.out.tfevents.%10lld.%n", &when, &host), 1);
    assert_true(when > 1700000000);
    char pid[32];
    snprintf(pid, sizeof pid, ".%ld.", (long)getpid());
    assert_non_null(strstr(name + host, pid));

    load(yk_events_path(e)); /* the file exists before anything else is written */
    size_t size;
    const uint8_t *data = frame(&size);
    assert_int_equal(size, 9 + 2 + 13);
    assert_memory_equal(data + 9,
                        "\x1a\x0d"
                        "brain.Event:2",
                        15);
    assert_int_equal(at, file_size);
    assert_int_equal(yk_events_close(e, YK_OK), YK_OK);
    assert_int_equal(yk_events_close(other, YK_EDATA), YK_EDATA);
    assert_int_equal(yk_events_close(NULL, YK_OK), YK_OK);
}

static void test_bytes(void **state)
{
    (void)state;
    yk_events *e;
    assert_int_equal(yk_events_create(root, "run/w-0", &e), YK_OK);
    assert_int_equal(yk_events_scalars(e, 1.5, 300, (yk_scalar[]){{"a", 1}, {"bc", -2}}, 2), YK_OK);
    assert_int_equal(yk_events_scalars(e, 1.5, -1, NULL, 0), YK_OK);
    yk_histogram h = {1, 2, 3, 4, 5, 1, (double[]){2}, (double[]){3}};
    assert_int_equal(yk_events_histogram(e, 1.5, 0, "h", &h), YK_OK);
    h.n = 0;
    assert_int_equal(yk_events_histogram(e, 1.5, 0, "h", &h), YK_OK);
    assert_int_equal(yk_events_flush(e), YK_OK);
    load(yk_events_path(e));
    size_t size;
    frame(&size);
    EXPECT("\x10\xac\x02\x2a\x15"
           "\x0a\x08\x0a\x01"
           "a"
           "\x15\0\0\x80\x3f"
           "\x0a\x09\x0a\x02"
           "bc"
           "\x15\0\0\0\xc0");
    EXPECT("\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x2a\x00");
#define MOMENTS                                                                                              \
    "\x09\0\0\0\0\0\0\xf0\x3f"                                                                               \
    "\x11\0\0\0\0\0\0\0\x40"                                                                                 \
    "\x19\0\0\0\0\0\0\x08\x40"                                                                               \
    "\x21\0\0\0\0\0\0\x10\x40"                                                                               \
    "\x29\0\0\0\0\0\0\x14\x40"
    EXPECT("\x10\0\x2a\x48\x0a\x46\x0a\x01"
           "h"
           "\x2a\x41" MOMENTS "\x32\x08\0\0\0\0\0\0\0\x40"
           "\x3a\x08\0\0\0\0\0\0\x08\x40");
    EXPECT("\x10\0\x2a\x34\x0a\x32\x0a\x01"
           "h"
           "\x2a\x2d" MOMENTS);
    assert_int_equal(at, file_size);
    assert_int_equal(yk_events_close(e, YK_OK), YK_OK);
}

/* A graph is an event whose field 4 has the nodes. events_test.py checks them with TensorBoard. */
static void test_graph(void **state)
{
    (void)state;
    yk_events *e;
    const yk_graph_node node[] = {
        {.name = "in", .op = "Placeholder", .rank = 1, .shape = {3}},
        {.name = "d", .op = "dense", .text = "dense 2", .input = "in", .params = 8, .rank = 1, .shape = {2}}};
    assert_int_equal(yk_events_create(root, "run/w-0", &e), YK_OK);
    assert_int_equal(yk_events_graph(e, 1.5, node, 0), YK_OK);
    assert_int_equal(yk_events_graph(e, 1.5, node, 2), YK_OK);
    assert_int_equal(yk_events_flush(e), YK_OK);
    load(yk_events_path(e));
    size_t size;
    frame(&size);
    EXPECT("\x22\x04\x22\x02\x08\x15"); /* only the version */
    const uint8_t *data = frame(&size);
    assert_int_equal(data[9], 0x22);
    assert_non_null(memmem(data, size, "\x0a\x02in\x12\x0bPlaceholder\x2a", 18));
    assert_non_null(memmem(data, size, "\x0a\x01\x64\x12\x05\x64\x65nse\x1a\x02in\x2a", 15));
    assert_non_null(memmem(data, size, "\x0a\x0aparameters\x12\x02\x18\x08", 16));
    assert_int_equal(at, file_size);
    assert_int_equal(yk_events_close(e, YK_OK), YK_OK);
}

/* Lengths of one, two and three bytes: the message moves by this number of bytes when its length is inserted. */
static void test_session(void **state)
{
    (void)state;
    yk_events *e;
    const uint8_t *data;
    size_t size;
    const yk_hyperparameter h[] = {{"lr", NULL, 2.0}, {"mode", "sync", 0}};
    assert_int_equal(yk_events_create(root, "run/w-0", &e), YK_OK);
    assert_int_equal(yk_events_session_begin(e, h, 2, (const char *const[]){"test/loss", NULL}), YK_OK);
    assert_int_equal(yk_events_session_end(e, true), YK_OK);
    assert_int_equal(yk_events_flush(e), YK_OK);
    load(yk_events_path(e));
    frame(&size);
    data = frame(&size); /* names and types; metrics */
    assert_non_null(
        memmem(data, size, "\x0a\x14_hparams_/experiment\x42\x08\x08\x01\x12\x04\x12\x02\x08\0\x4a", 33));
    assert_non_null(memmem(data, size, "\x0a\x07hparams\x12", 10));
    assert_non_null(memmem(data, size, "\x22\x06\x0a\x02lr\x20\x03\x22\x08\x0a\x04mode\x20\x01", 18));
    assert_non_null(memmem(data, size, "\x2a\x0d\x0a\x0b\x12\x09test/loss", 15));
    data = frame(&size);
    assert_non_null(memmem(data, size, "\x0a\x0f\x0a\x02lr\x12\x09\x11\0\0\0\0\0\0\0\x40", 17));
    assert_non_null(memmem(data, size, "\x0a\x0e\x0a\x04mode\x12\x06\x1a\x04sync", 16));
    data = frame(&size);
    assert_non_null(memmem(data, size, "\x22\x0b\x08\x01\x11", 5));
    assert_int_equal(at, file_size);
    assert_int_equal(yk_events_close(e, YK_OK), YK_OK);
}

static void test_long_messages(void **state)
{
    (void)state;
    yk_events *e;
    assert_int_equal(yk_events_create(root, "run/w-0", &e), YK_OK);
    const size_t lengths[] = {0, 1, 90, 100, 127, 128, 200, 16300, 16384, 40000};
    char *text = malloc(40001);
    assert_non_null(text);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        memset(text, 'x', 40000);
        text[lengths[i]] = 0;
        assert_int_equal(yk_events_scalars(e, 1.5, 1, (yk_scalar[]){{text, 2}}, 1), YK_OK);
        assert_int_equal(yk_events_flush(e), YK_OK);
    }
    load(yk_events_path(e));
    size_t size;
    frame(&size);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        const uint8_t *data = frame(&size);
        /* From the end: the tag precedes the 5 bytes of the value. */
        assert_memory_equal(data + size - 5, "\x15\0\0\0\x40", 5);
        size_t n = 0;
        while (n < size && data[size - 6 - n] == 'x')
            n++;
        assert_int_equal(n, lengths[i]);
        /* From the start: the summary is the rest. */
        const uint8_t *p = data + 12;
        uint64_t length = 0;
        for (int shift = 0;; shift += 7) {
            length |= (uint64_t)(*p & 0x7f) << shift;
            if (!(*p++ & 0x80))
                break;
        }
        assert_int_equal(length, data + size - p);
    }
    free(text);
    assert_int_equal(yk_events_close(e, YK_OK), YK_OK);
}

static void test_full_disk(void **state)
{
    (void)state;
    yk_events *e;
    assert_int_equal(yk_events_create(root, "run/w-0", &e), YK_OK);
    struct rlimit old, tight;
    getrlimit(RLIMIT_FSIZE, &old);
    tight = old;
    tight.rlim_cur = 4096;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    yk_status st = YK_OK;
    for (int i = 0; i < 1000 && !st; i++)
        st = yk_events_scalars(e, 1.5, i, (yk_scalar[]){{"a", 1}}, 1);
    if (!st)
        st = yk_events_flush(e);
    char text[512];
    snprintf(text, sizeof text, "%s", yk_error());
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, handler);
    assert_int_equal(st, YK_ESYSTEM);
    assert_non_null(strstr(text, yk_events_path(e)));
    assert_int_equal(yk_events_close(e, YK_OK), YK_ESYSTEM); /* the error is sticky */
}

static void test_nowhere_to_write(void **state)
{
    (void)state;
    yk_events *e;
    assert_int_equal(yk_events_create("/proc/none", "here", &e), YK_ESYSTEM);
    assert_null(e);
    assert_non_null(strstr(yk_error(), "/proc/none"));
}

/* ---- for the interop test, which expects exactly these values */

static yk_status write_samples(const char *where)
{
    yk_events *e;
    yk_status st = yk_dir_make(where);
    if (!st)
        st = yk_events_create(where, ".", &e);
    for (int i = 0; !st && i < 200; i++) {
        yk_scalar s[] = {
            {"loss", 1.0f / (float)(i + 1)}, {"rate/examples", (float)i * 1e6f}, {"größe", -0.5f}};
        st = yk_events_scalars(e, 1700000000.25 + i, i * 10, s, 3);
    }
    if (!st)
        st = yk_events_scalars(e, 1700000200, 2000, (yk_scalar[]){{"odd", NAN}}, 1);
    if (!st)
        st = yk_events_scalars(e, 1700000201, 2001, (yk_scalar[]){{"odd", -INFINITY}}, 1);
    yk_histogram h = {0, 7, 60, 100, 250, 4, (double[]){0, 1, 3, 7}, (double[]){10, 20, 25, 5}};
    if (!st)
        st = yk_events_histogram(e, 1700000000.5, 42, "staleness", &h);
    const yk_graph_node node[] = {{.name = "input", .op = "Placeholder", .rank = 3, .shape = {1, 28, 28}},
                                  {.name = "conv_1",
                                   .op = "conv",
                                   .text = "conv 6 5x5 same",
                                   .input = "input",
                                   .rank = 3,
                                   .shape = {6, 28, 28},
                                   .params = 156},
                                  {.name = "loss", .op = "softmax_loss", .input = "conv_1"}};
    if (!st)
        st = yk_events_graph(e, 1700000000.5, node, 3);
    return yk_events_close(e, st);
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--write")) {
        yk_status st = write_samples(argv[2]);
        if (st)
            fprintf(stderr, "%s\n", yk_error());
        return st != YK_OK;
    }
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_test_directory, remove_test_directory)
    const struct CMUnitTest tests[] = {
        TEST(test_first_event),      TEST(test_bytes),         TEST(test_graph),
        TEST(test_session),          TEST(test_long_messages), TEST(test_full_disk),
        TEST(test_nowhere_to_write),
    };
    return cmocka_run_group_tests_name("events", tests, NULL, NULL);
}
