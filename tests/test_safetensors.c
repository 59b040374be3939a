/* format/safetensors.h: round trips, every rule of the format broken once, and failing disks.
 *
 * tests/interop/safetensors_test.py calls it with arguments:
 *     test_safetensors --write FILE     writes the tensors that the Python test expects
 *     test_safetensors --read FILE      prints the tensors, one per line
 */
#include "scratch.h"

#include "format/safetensors.h"
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

static char path[128];

static int set_up(void **state)
{
    if (make_test_directory(state))
        return -1;
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    return 0;
}

/* ---- the data of the interop test */

static const float weight[6] = {0.5f, -1.25f, 3e-30f, 4e30f, 0, -0.0f};
static const double losses[2] = {0.1, 1e300};
static const uint8_t bytes[3] = {1, 2, 255};
static const int64_t steps[1] = {-5000000000};
static const uint32_t keys[2] = {33762577, 4000000000u};

/* 2.5 MB, so that it is written in several chunks: element i is i. */
#define LONG 312501u

static yk_status count_up(void *context, uint64_t offset, void *to, size_t n)
{
    (void)context;
    for (size_t i = 0; i < n / 8; i++)
        ((uint64_t *)to)[i] = offset / 8 + i;
    return YK_OK;
}

static const yk_tensor samples[] = {
    {.name = "bytes", .dtype = YK_DTYPE_U8, .rank = 1, .shape = {3}, .data = bytes},
    {.name = "weight", .dtype = YK_DTYPE_F32, .rank = 2, .shape = {2, 3}, .data = weight},
    {.name = "losses", .dtype = YK_DTYPE_F64, .rank = 1, .shape = {2}, .data = losses},
    {.name = "step", .dtype = YK_DTYPE_I64, .rank = 0, .data = steps},
    {.name = "clés", .dtype = YK_DTYPE_U32, .rank = 1, .shape = {2}, .data = keys},
    {.name = "empty", .dtype = YK_DTYPE_I32, .rank = 2, .shape = {0, 7}},
    {.name = "long", .dtype = YK_DTYPE_U64, .rank = 1, .shape = {LONG}, .fill = count_up},
};
#define SAMPLES (sizeof samples / sizeof samples[0])

static const yk_pair pairs[] = {{"step", "1200"}, {"said", "a \"quoted\"\nline"}};

/* ---- valid files */

static void test_round_trip(void **state)
{
    (void)state;
    assert_int_equal(yk_safetensors_write(NULL, path, samples, SAMPLES, pairs, 2), YK_OK);
    assert_int_equal(entries(), 1); /* no temporary file is left */
    yk_safetensors *s;
    assert_int_equal(yk_safetensors_open(path, &s), YK_OK);
    assert_int_equal(s->n, SAMPLES);
    assert_string_equal(yk_safetensors_meta(s, "step"), "1200");
    assert_string_equal(yk_safetensors_meta(s, "said"), pairs[1].value);
    assert_null(yk_safetensors_meta(s, "none"));
    assert_null(yk_safetensors_find(s, "none"));
    for (size_t i = 0; i < SAMPLES; i++) {
        const yk_tensor *t = yk_safetensors_find(s, samples[i].name);
        assert_non_null(t);
        assert_int_equal(t->dtype, samples[i].dtype);
        assert_int_equal(t->rank, samples[i].rank);
        assert_memory_equal(t->shape, samples[i].shape, sizeof t->shape);
        assert_int_equal((uintptr_t)t->data % yk_dtypes[t->dtype].bytes, 0);
        if (samples[i].data)
            assert_memory_equal(t->data, samples[i].data, t->bytes);
    }
    const yk_tensor *t = yk_safetensors_find(s, "long");
    assert_int_equal(t->bytes, LONG * 8);
    for (size_t i = 0; i < LONG; i++)
        assert_int_equal(((const uint64_t *)t->data)[i], i);
    assert_ptr_equal(s->tensor[0].data, yk_safetensors_find(s, "losses")->data);
    yk_safetensors_free(s);
}

static void test_data_begins_at_64(void **state)
{
    (void)state;
    /* Names of many lengths move the end of the header through every remainder. */
    char name[80];
    for (int n = 1; n < 70; n++) {
        memset(name, 'x', sizeof name);
        name[n] = 0;
        yk_tensor t = {.name = name, .dtype = YK_DTYPE_U8, .rank = 1, .shape = {3}, .data = bytes};
        assert_int_equal(yk_safetensors_write(NULL, path, &t, 1, NULL, 0), YK_OK);
        char file[512];
        size_t size = get_file(path, file, sizeof file);
        uint64_t header;
        memcpy(&header, file, 8);
        assert_int_equal((8 + header) % 64, 0);
        assert_int_equal(size, 8 + header + 3);
        yk_safetensors *s;
        assert_int_equal(yk_safetensors_open(path, &s), YK_OK);
        yk_safetensors_free(s);
    }
}

static void test_empty_file(void **state)
{
    (void)state;
    assert_int_equal(yk_safetensors_write(NULL, path, NULL, 0, NULL, 0), YK_OK);
    yk_safetensors *s;
    assert_int_equal(yk_safetensors_open(path, &s), YK_OK);
    assert_int_equal(s->n, 0);
    yk_safetensors_free(s);
}

static void test_need(void **state)
{
    (void)state;
    assert_int_equal(yk_safetensors_write(NULL, path, samples, SAMPLES, NULL, 0), YK_OK);
    yk_safetensors *s;
    const yk_tensor *t;
    assert_int_equal(yk_safetensors_open(path, &s), YK_OK);
    assert_int_equal(yk_safetensors_need(s, "weight", YK_DTYPE_F32, 2, (uint64_t[]){2, 3}, &t), YK_OK);
    assert_ptr_equal(t, yk_safetensors_find(s, "weight"));
    assert_int_equal(yk_safetensors_need(s, "weight", YK_DTYPE_F32, 2, (uint64_t[]){3, 2}, &t), YK_EDATA);
    assert_message("F32[2,3]");
    assert_message("F32[3,2]");
    assert_message(path);
    assert_int_equal(yk_safetensors_need(s, "weight", YK_DTYPE_F64, 2, (uint64_t[]){2, 3}, &t), YK_EDATA);
    assert_int_equal(yk_safetensors_need(s, "bias", YK_DTYPE_F64, 1, (uint64_t[]){2}, &t), YK_EDATA);
    assert_message("bias");
    yk_safetensors_free(s);
}

static void test_writer_refuses(void **state)
{
    (void)state;
    yk_tensor two[2] = {samples[0], samples[0]};
    assert_int_equal(yk_safetensors_write(NULL, path, two, 2, NULL, 0), YK_EUSAGE);
    two[0].name = "__metadata__";
    assert_int_equal(yk_safetensors_write(NULL, path, two, 1, NULL, 0), YK_EUSAGE);
    two[0].name = "\xff";
    assert_int_equal(yk_safetensors_write(NULL, path, two, 1, NULL, 0), YK_EUSAGE);
    two[0] = (yk_tensor){.name = "a", .rank = 3, .shape = {1ull << 40, 1ull << 40, 0}, .data = bytes};
    assert_int_equal(yk_safetensors_write(NULL, path, two, 1, NULL, 0), YK_EUSAGE);
    yk_pair twice[2] = {{"a", "1"}, {"a", "2"}};
    assert_int_equal(yk_safetensors_write(NULL, path, samples, 1, twice, 2), YK_EUSAGE);
    assert_int_equal(entries(), 0);
}

/* ---- invalid files: each breaks one rule, and the error names it */

static void expect_bad(const void *file, size_t size, const char *reason)
{
    put(path, file, size);
    yk_safetensors *s;
    yk_status st = yk_safetensors_open(path, &s);
    if (st != YK_EDATA)
        fail_msg("status %d, expected \"%s\"", st, reason);
    assert_null(s);
    assert_message(path);
    assert_message(reason);
}

/* `header`, then `data_size` bytes of data. */
static size_t compose(char *file, const char *header, size_t data_size)
{
    uint64_t n = strlen(header);
    memcpy(file, &n, 8);
    memcpy(file + 8, header, n);
    memset(file + 8 + n, 7, data_size);
    return 8 + n + data_size;
}

static void test_broken_rules(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        const char *reason;
    } cases[] = {
        {"[]", 0, "not a JSON object"},
        {" {}", 0, "not a JSON object"},
        {"{}x", 0, "not a JSON object"},
        {"", 0, "not a JSON object"},
        {"{\"a\":{\"dtype\":\"U8\",}", 0, "header, byte"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
         2, "duplicate"},
        {"{\"a\":1}", 0, "Expected object, got integer"},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "not found: dtype"},
        {"{\"a\":{\"dtype\":\"F12\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "dtype F12"},
        {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "not found: shape"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", 1, "dimension 0"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}}", 1, "dimension 0"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1,
         "9 dimensions"},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[4611686018427387904,2],\"data_offsets\":[0,0]}}", 0,
         "too large"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "not found: data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "data_offsets of two numbers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "data_offsets [4, 0)"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, "data_offsets [-4, 0)"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4,
         "data_offsets [0, 8), but there are 4"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
         "8 bytes according to its shape, but 4"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
         3, "gap or an overlap"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
         3, "gap or an overlap"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 2, "gap or an overlap"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 2, "end at byte 1 of 2"},
        {"{}", 1, "end at byte 0 of 1"},
        {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "not a string"},
        {"{\"\xff\":{}}", 0, "header, byte"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[99999999999999999999],\"data_offsets\":[0,1]}}", 1,
         "header, byte"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char file[1024];
        expect_bad(file, compose(file, cases[i].header, cases[i].data), cases[i].reason);
    }
}

static void test_broken_lengths(void **state)
{
    (void)state;
    char file[64];
    expect_bad("", 0, "empty");
    expect_bad("1234567", 7, "7 bytes");
    for (int k = 0; k < 3; k++) {
        const uint64_t lengths[] = {UINT64_MAX, 100000001, 3};
        memcpy(file, &lengths[k], 8);
        memcpy(file + 8, "{}", 2);
        expect_bad(file, 10, "does not fit");
    }
    yk_safetensors *s;
    assert_int_equal(yk_safetensors_open(directory, &s), YK_EDATA);
    assert_message("is a directory");
    unlink(path);
    assert_int_equal(yk_safetensors_open(path, &s), YK_EDATA);
    assert_message("cannot read");
}

static void test_padding_and_order(void **state)
{
    (void)state;
    /* Entries in another order than the data, an empty tensor in the middle, padding, an unknown field. */
    const char *header = "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3],\"new\":[]},"
                         "\"e\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[1,1]},"
                         "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}      ";
    char file[512];
    put(path, file, compose(file, header, 3));
    yk_safetensors *s;
    assert_int_equal(yk_safetensors_open(path, &s), YK_OK);
    assert_string_equal(s->tensor[0].name, "a");
    assert_string_equal(s->tensor[1].name, "e");
    assert_string_equal(s->tensor[2].name, "b");
    assert_int_equal(s->n, 3);
    yk_safetensors_free(s);
}

static void test_truncated_anywhere(void **state)
{
    (void)state;
    assert_int_equal(yk_safetensors_write(NULL, path, samples, 5, pairs, 2), YK_OK);
    char file[2048];
    size_t size = get_file(path, file, sizeof file);
    for (size_t cut = 0; cut < size; cut++) {
        put(path, file, cut);
        yk_safetensors *s;
        assert_int_equal(yk_safetensors_open(path, &s), YK_EDATA);
    }
}

/* ---- disk errors */

static void test_full_disk_keeps_the_old_file(void **state)
{
    (void)state;
    assert_int_equal(yk_safetensors_write(NULL, path, samples, 2, NULL, 0), YK_OK);
    char before[1024], after[1024];
    size_t size = get_file(path, before, sizeof before);

    /* Writes beyond this size fail, as on a full disk. */
    struct rlimit old, tight = {.rlim_cur = 100000, .rlim_max = RLIM_INFINITY};
    getrlimit(RLIMIT_FSIZE, &old);
    tight.rlim_max = old.rlim_max;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    yk_status st = yk_safetensors_write(NULL, path, samples, SAMPLES, NULL, 0);
    char text[512];
    snprintf(text, sizeof text, "%s", yk_error());
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, handler);

    assert_int_equal(st, YK_ESYSTEM);
    assert_non_null(strstr(text, path));
    assert_non_null(strstr(text, "--out"));
    assert_int_equal(get_file(path, after, sizeof after), size);
    assert_memory_equal(before, after, size);
    assert_int_equal(entries(), 1); /* and no temporary file is left */
}

static yk_status give_up(void *context, uint64_t offset, void *to, size_t n)
{
    (void)context;
    memset(to, 0, n);
    return offset ? yk_fail(YK_EDIVERGED, "the source failed") : YK_OK;
}

static void test_failing_source_leaves_nothing(void **state)
{
    (void)state;
    yk_tensor t = {.name = "w", .dtype = YK_DTYPE_F32, .rank = 1, .shape = {1 << 20}, .fill = give_up};
    assert_int_equal(yk_safetensors_write(NULL, path, &t, 1, NULL, 0), YK_EDIVERGED);
    assert_string_equal(yk_error(), "the source failed");
    assert_int_equal(entries(), 0);
}

static void test_no_space(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK)) {
        print_message("skipped: /dev/full does not exist\n");
        skip();
    }
    assert_int_equal(symlink("/dev/full", path), 0);
    assert_int_equal(yk_safetensors_write(NULL, path, samples, SAMPLES, NULL, 0), YK_ESYSTEM);
    assert_message("the disk is full; free space or choose another --out");
}

static void test_nowhere_to_write(void **state)
{
    (void)state;
    char file[256];
    snprintf(file, sizeof file, "%s/none/model.safetensors", directory);
    assert_int_equal(yk_safetensors_write(NULL, file, samples, 1, NULL, 0), YK_ESYSTEM);
    assert_message(file);
    assert_message("create its directory");
    assert_int_equal(yk_safetensors_write(NULL, directory, samples, 1, NULL, 0), YK_ESYSTEM);
    assert_int_equal(entries(), 0);
}

/* ---- for the interop test */

static int print_file(const char *file)
{
    yk_safetensors *s;
    if (yk_safetensors_open(file, &s)) {
        printf("%s\n", yk_error());
        return 1;
    }
    for (size_t i = 0; i < s->n; i++) {
        const yk_tensor *t = &s->tensor[i];
        printf("%s %s", t->name, yk_dtypes[t->dtype].name);
        for (size_t k = 0; k < t->rank; k++)
            printf(" %llu", (unsigned long long)t->shape[k]);
        printf(" =");
        for (size_t k = 0; k < t->bytes; k++)
            printf(" %02x", ((const uint8_t *)t->data)[k]);
        printf("\n");
    }
    const char *said = yk_safetensors_meta(s, "said");
    printf("said %s\n", said ? said : "nothing");
    yk_safetensors_free(s);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--write")) {
        yk_status st = yk_safetensors_write(NULL, argv[2], samples, SAMPLES, pairs, 2);
        if (st)
            fprintf(stderr, "%s\n", yk_error());
        return st != YK_OK;
    }
    if (argc == 3 && !strcmp(argv[1], "--read"))
        return print_file(argv[2]);

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, remove_test_directory)
    const struct CMUnitTest tests[] = {
        TEST(test_round_trip),
        TEST(test_data_begins_at_64),
        TEST(test_empty_file),
        TEST(test_need),
        TEST(test_writer_refuses),
        TEST(test_broken_rules),
        TEST(test_broken_lengths),
        TEST(test_padding_and_order),
        TEST(test_truncated_anywhere),
        TEST(test_full_disk_keeps_the_old_file),
        TEST(test_failing_source_leaves_nothing),
        TEST(test_no_space),
        TEST(test_nowhere_to_write),
    };
    return cmocka_run_group_tests_name("safetensors", tests, NULL, NULL);
}
