/* The formats below data/: input, crc, tfrecord, idx; on files in a temporary directory. */
#include "scratch.h"

#include "base/crc.h"
#include "base/file.h"
#include "base/rng.h"
#include "format/idx.h"
#include "format/input.h"
#include "format/tfrecord.h"
#include <zstd.h>

static char path[128];

static int make_path(void **state)
{
    int rc = make_test_directory(state);
    snprintf(path, sizeof path, "%s/file", directory);
    return rc;
}

/* ---- input */

#define TEXT_BYTES 700000u /* more than two buffers */

static uint8_t *some_bytes(size_t n)
{
    uint8_t *p = malloc(n);
    assert_non_null(p);
    yk_rng r = yk_rng_seed(5, n);
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)("abcdefgh"[yk_rng_below(&r, 8)]);
    return p;
}

/* Reads the file from `begin` in pieces of varying size and compares it. */
static void assert_reads(const uint8_t *expected, size_t n, uint64_t begin)
{
    yk_input *in;
    assert_int_equal(yk_input_open(path, begin, &in), YK_OK);
    size_t at = begin, want = 1;
    for (;;) {
        const uint8_t *p;
        size_t have;
        assert_int_equal(in->offset, at);
        assert_int_equal(yk_input_peek(in, want, &p, &have), YK_OK);
        if (have == 0)
            break;
        assert_true(have >= want || at + have == n);
        size_t take = want < have ? want : have;
        assert_memory_equal(p, expected + at, take);
        yk_input_skip(in, take);
        at += take;
        want = want * 3 % 600011 + 1;
    }
    assert_int_equal(at, n);
    yk_input_free(in);
}

static void input_reads_plain_and_compressed(void **state)
{
    (void)state;
    uint8_t *data = some_bytes(TEXT_BYTES), *packed = malloc(2 * TEXT_BYTES);
    bool compressed;
    put(path, data, TEXT_BYTES);
    assert_reads(data, TEXT_BYTES, 0);
    assert_reads(data, TEXT_BYTES, 123457);
    assert_int_equal(yk_input_compressed(path, &compressed), YK_OK);
    assert_false(compressed);

    size_t n = deflated(data, TEXT_BYTES, ZLIB, packed, 2 * TEXT_BYTES);
    put(path, packed, n);
    assert_reads(data, TEXT_BYTES, 0);
    assert_int_equal(yk_input_compressed(path, &compressed), YK_OK);
    assert_true(compressed);

    /* three gzip members, the middle one empty, then padding */
    n = deflated(data, 300000, GZIP, packed, TEXT_BYTES);
    n += deflated(data, 0, GZIP, packed + n, TEXT_BYTES);
    n += deflated(data + 300000, TEXT_BYTES - 300000, GZIP, packed + n, TEXT_BYTES);
    memset(packed + n, 0, 512);
    put(path, packed, n + 512);
    assert_reads(data, TEXT_BYTES, 0);

    /* two frames of Zstandard; zeros fill the buffer without more input */
    n = ZSTD_compress(packed, TEXT_BYTES, data, 300000, 3);
    n += ZSTD_compress(packed + n, TEXT_BYTES, data + 300000, TEXT_BYTES - 300000, 3);
    put(path, packed, n);
    assert_reads(data, TEXT_BYTES, 0);
    assert_int_equal(yk_input_compressed(path, &compressed), YK_OK);
    assert_true(compressed);
    memset(data, 0, TEXT_BYTES);
    put(path, packed, ZSTD_compress(packed, TEXT_BYTES, data, TEXT_BYTES, 3));
    assert_reads(data, TEXT_BYTES, 0);
    free(data);
    free(packed);
}

static yk_status read_through(uint64_t *offset_out)
{
    yk_input *in;
    const uint8_t *p;
    size_t have;
    yk_status st = yk_input_open(path, 0, &in);
    if (st)
        return st;
    while (!(st = yk_input_peek(in, 1, &p, &have)) && have)
        yk_input_skip(in, have);
    *offset_out = in->offset;
    yk_input_free(in);
    return st;
}

static void input_reports_damage(void **state)
{
    (void)state;
    uint8_t *data = some_bytes(TEXT_BYTES), *packed = malloc(2 * TEXT_BYTES);
    uint64_t offset = 0;
    size_t n = deflated(data, TEXT_BYTES, GZIP, packed, 2 * TEXT_BYTES);
    put(path, packed, n - 9);
    assert_error(read_through(&offset), YK_EDATA, "truncated");
    assert_non_null(strstr(yk_error(), path));
    assert_int_equal(offset, TEXT_BYTES); /* the data before the damage is returned */
    packed[n - 6] ^= 1;                   /* in the checksum */
    put(path, packed, n);
    assert_error(read_through(&offset), YK_EDATA, "at byte 700000: incorrect data check");
    packed[n - 6] ^= 1;
    memcpy(packed + n, "garbage", 7);
    put(path, packed, n + 7);
    assert_error(read_through(&offset), YK_EDATA, "uncompressed bytes after the compressed stream");
    n = ZSTD_compress(packed, TEXT_BYTES, data, TEXT_BYTES, 3);
    put(path, packed, n - 9);
    assert_error(read_through(&offset), YK_EDATA, "truncated");
    memcpy(packed + n, "garbage", 7);
    put(path, packed, n + 7);
    assert_error(read_through(&offset), YK_EDATA, "at byte 700000: Unknown frame descriptor");
    put(path, "BZh91AY&SYabcdef", 16);
    assert_error(read_through(&offset), YK_EDATA, "compressed with bzip2");
    assert_message("| yoke train --data FORMAT:-, such as csv:-");
    put(path,
        "\xfd"
        "7zXZ\0abcdef",
        12);
    assert_error(read_through(&offset), YK_EDATA, "compressed with xz");
    assert_message("use a pipe: xzcat ");
    put(path, "BZh", 3);
    assert_int_equal(read_through(&offset), YK_OK);
    assert_error(yk_input_open("/nonexistent/file", 0, &(yk_input *){NULL}), YK_EDATA, "No such file");
    assert_error(yk_input_open(directory, 0, &(yk_input *){NULL}), YK_EDATA, "is a directory");
    free(data);
    free(packed);
}

static void input_returns_lines(void **state)
{
    (void)state;
    static const char text[] = "one\n\ntwo\r\nlast";
    static const char *const lines[] = {"one", "", "two", "last"};
    put(path, text, strlen(text));
    yk_input *in;
    const char *line;
    size_t n;
    uint64_t spanned;
    assert_int_equal(yk_input_open(path, 0, &in), YK_OK);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(yk_input_line(in, false, &line, &n, &spanned), YK_OK);
        assert_int_equal(n, strlen(lines[i]));
        assert_memory_equal(line, lines[i], n);
    }
    assert_int_equal(yk_input_line(in, false, &line, &n, &spanned), YK_OK);
    assert_null(line);
    yk_input_free(in);

    uint8_t *data = some_bytes(TEXT_BYTES); /* a line longer than the buffer */
    data[TEXT_BYTES - 2] = '\n';
    put(path, data, TEXT_BYTES);
    assert_int_equal(yk_input_open(path, 0, &in), YK_OK);
    in->expected = 1000;
    assert_int_equal(yk_input_line(in, false, &line, &n, &spanned), YK_OK);
    assert_int_equal(n, TEXT_BYTES - 2);
    assert_memory_equal(line, data, n);
    assert_int_equal(yk_input_line(in, false, &line, &n, &spanned), YK_OK);
    assert_int_equal(n, 1);
    yk_input_free(in);
    free(data);
}

/* ---- crc and framing */

static uint32_t crc_bit_by_bit(const uint8_t *p, size_t n)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static void crc_equals_its_definition(void **state)
{
    (void)state;
    assert_int_equal(yk_crc32c("123456789", 9), 0xe3069283u);
    assert_int_equal(yk_crc32c_masked("123456789", 9), 0xc78ab0e5u);
    uint8_t *data = some_bytes(5000);
    for (size_t n = 0; n < 5000; n = n * 5 / 4 + 1) {
        size_t skip = n % 7;
        assert_int_equal(yk_crc32c(data + skip, n - skip), crc_bit_by_bit(data + skip, n - skip));
    }
    free(data);
}

/* A file of records of 0, 37, 74, ... bytes; returns its size and the offsets. */
#define RECORDS 40
static size_t write_records(uint64_t offset[RECORDS + 1])
{
    yk_file *f;
    uint8_t *data = some_bytes(RECORDS * 37);
    assert_int_equal(yk_file_create_in(NULL, path, &f), YK_OK);
    offset[0] = 0;
    for (size_t i = 0; i < RECORDS; i++) {
        assert_int_equal(yk_tfr_write(f, data, 37 * i), YK_OK);
        offset[i + 1] = offset[i] + 37 * i + YK_TFR_FRAME;
    }
    assert_int_equal(yk_file_close(f, YK_OK), YK_OK);
    free(data);
    return (size_t)offset[RECORDS];
}

static void tfrecord_has_the_expected_bytes(void **state)
{
    (void)state;
    static const uint8_t known[] = {9,   0,   0,   0,   0,   0,   0,   0,   0x37, 0xf9, 0x71, 0x39, '1',
                                    '2', '3', '4', '5', '6', '7', '8', '9', 0xe5, 0xb0, 0x8a, 0xc7};
    yk_file *f;
    assert_int_equal(yk_file_create_in(NULL, path, &f), YK_OK);
    assert_int_equal(yk_tfr_write(f, "123456789", 9), YK_OK);
    assert_int_equal(yk_file_close(f, YK_OK), YK_OK);
    FILE *r = fopen(path, "rb");
    uint8_t got[sizeof known + 1];
    assert_non_null(r);
    assert_int_equal(fread(got, 1, sizeof got, r), sizeof known);
    fclose(r);
    assert_memory_equal(got, known, sizeof known);
}

static void tfrecord_distinguishes_errors(void **state)
{
    (void)state;
    uint64_t offset[RECORDS + 1];
    write_records(offset);
    patch(path, offset[3] + 1, 1);                 /* length */
    patch(path, offset[7] + YK_TFR_HEADER + 5, 4); /* data */
    assert_int_equal(truncate(path, (off_t)offset[RECORDS] - 1), 0);
    yk_input *in;
    yk_tfr rec;
    bool found;
    assert_int_equal(yk_input_open(path, 0, &in), YK_OK);
    for (size_t i = 0; i < RECORDS; i++) {
        assert_int_equal(yk_tfr_next(in, &rec), YK_OK);
        assert_int_equal(rec.offset, offset[i]);
        if (i == 3) {
            assert_int_equal(rec.kind, YK_TFR_BAD_LENGTH);
            assert_int_equal(yk_tfr_resync(in, UINT64_MAX, &found), YK_OK);
            assert_true(found);
        } else if (i == RECORDS - 1) {
            assert_int_equal(rec.kind, YK_TFR_TRUNCATED);
        } else {
            assert_int_equal(rec.kind, i == 7 ? YK_TFR_BAD_DATA : YK_TFR_RECORD);
            assert_int_equal(rec.size, 37 * i);
        }
    }
    yk_input_free(in);
}

/* The data of a record contains a header, as if a record began there that has damaged data and ends with the file. */
static void tfrecord_headers_in_data(void **state)
{
    (void)state;
    enum { BEFORE = 20, AFTER = 10, SECOND = 30 };
    uint8_t data[BEFORE + YK_TFR_HEADER + AFTER] = {0}, second[SECOND] = {1};
    const uint64_t length = AFTER + 4 + YK_TFR_FRAME + SECOND - 4;
    memcpy(data + BEFORE, &length, 8);
    const uint32_t crc = yk_crc32c_masked(data + BEFORE, 8);
    memcpy(data + BEFORE + 8, &crc, 4);
    yk_file *f;
    yk_input *in;
    bool found;
    assert_int_equal(yk_file_create_in(NULL, path, &f), YK_OK);
    assert_int_equal(yk_tfr_write(f, data, sizeof data), YK_OK);
    assert_int_equal(yk_tfr_write(f, second, sizeof second), YK_OK);
    assert_int_equal(yk_file_close(f, YK_OK), YK_OK);
    assert_int_equal(yk_input_open(path, 1, &in), YK_OK);
    assert_int_equal(yk_tfr_resync(in, UINT64_MAX, &found), YK_OK);
    assert_true(found);
    assert_int_equal(in->offset, sizeof data + YK_TFR_FRAME);
    yk_input_free(in);
}

/* The next undamaged record is found from every byte of the file. */
static void tfrecord_resyncs_from_anywhere(void **state)
{
    (void)state;
    uint64_t offset[RECORDS + 1];
    write_records(offset);
    patch(path, offset[5] + YK_TFR_HEADER + 5, 4);
    size_t next = 1;
    for (uint64_t at = 1; at < offset[12]; at++) {
        yk_input *in;
        bool found;
        while (offset[next] < at || next == 5)
            next++;
        assert_int_equal(yk_input_open(path, at, &in), YK_OK);
        assert_int_equal(yk_tfr_resync(in, offset[next], &found), YK_OK);
        assert_false(found);
        yk_input_free(in);
        assert_int_equal(yk_input_open(path, at, &in), YK_OK);
        assert_int_equal(yk_tfr_resync(in, offset[next] + 1, &found), YK_OK);
        assert_true(found);
        assert_int_equal(in->offset, offset[next]);
        yk_input_free(in);
    }
}

/* ---- idx */

static void idx_loads_plain_and_gzip(void **state)
{
    (void)state;
    uint8_t file[16 + 24] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4}, packed[400];
    for (size_t i = 16; i < sizeof file; i++)
        file[i] = (uint8_t)i;
    for (int form = 0; form < 3; form++) {
        size_t n = 0;
        if (form == 0) {
            put(path, file, sizeof file);
        } else { /* one member, or two: then the size of the last one is not the total */
            size_t cut = form == 1 ? 0 : 30;
            if (cut)
                n = deflated(file, cut, GZIP, packed, sizeof packed);
            n += deflated(file + cut, sizeof file - cut, GZIP, packed + n, sizeof packed - n);
            put(path, packed, n);
        }
        yk_idx idx;
        assert_int_equal(yk_idx_load(path, &idx), YK_OK);
        assert_int_equal(idx.ndims, 3);
        assert_int_equal(idx.dim[0], 2);
        assert_int_equal(idx.stride, 12);
        assert_memory_equal(idx.u8, file + 16, 24);
        yk_idx_fini(&idx);
    }
    static const uint8_t floats[] = {0, 0, 0x0d, 1, 0, 0, 0, 2, 0x3f, 0x80, 0, 0, 0xc0, 0x20, 0, 0};
    put(path, floats, sizeof floats);
    yk_idx idx;
    assert_int_equal(yk_idx_load(path, &idx), YK_OK);
    assert_true(idx.f32[0] == 1.0f && idx.f32[1] == -2.5f);
    yk_idx_fini(&idx);
}

static void refuse_idx(const uint8_t *p, size_t n, const char *part)
{
    yk_idx idx;
    put(path, p, n);
    assert_error(yk_idx_load(path, &idx), YK_EDATA, part);
    assert_non_null(strstr(yk_error(), path));
}

static void idx_refuses_bad_files(void **state)
{
    (void)state;
    uint8_t file[16 + 24] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4}, packed[400];
    refuse_idx(file, 0, "is empty");
    refuse_idx(file, 3, "wrong magic");
    refuse_idx(file, 10, "at byte 10: truncated");
    refuse_idx(file, 39, "at byte 39: truncated: 24 bytes of elements expected, but only 23 found");
    file[7] = 1;
    refuse_idx(file, 40, "at byte 28: 12 bytes more than the header says");
    file[0] = 1;
    refuse_idx(file, 40, "at byte 0: wrong magic");
    file[0] = 0;
    file[2] = 0x0b;
    refuse_idx(file, 40, "unsupported element type 0b");
    file[2] = 8;
    memset(file + 4, 0xff, 12);
    refuse_idx(file, 40, "too large for a file");
    size_t n = deflated(file, sizeof file, GZIP, packed, sizeof packed);
    refuse_idx(packed, n - 12, "truncated");
    refuse_idx(packed, 5, "truncated");
    packed[n - 7] ^= 1;
    refuse_idx(packed, n, "incorrect data check");
    static uint8_t zeros[1 << 20], bomb[1 << 12]; /* refused before the damage at its end is reached */
    n = deflated(zeros, sizeof zeros, GZIP, bomb, sizeof bomb);
    bomb[n - 7] ^= 1;
    refuse_idx(bomb, n, "at byte 0: wrong magic");
    yk_idx idx;
    assert_error(yk_idx_load(directory, &idx), YK_EDATA, "is a directory");
    assert_error(yk_idx_load("/nonexistent", &idx), YK_EDATA, "No such file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(input_reads_plain_and_compressed),
        cmocka_unit_test(input_reports_damage),
        cmocka_unit_test(input_returns_lines),
        cmocka_unit_test(crc_equals_its_definition),
        cmocka_unit_test(tfrecord_has_the_expected_bytes),
        cmocka_unit_test(tfrecord_distinguishes_errors),
        cmocka_unit_test(tfrecord_headers_in_data),
        cmocka_unit_test(tfrecord_resyncs_from_anywhere),
        cmocka_unit_test(idx_loads_plain_and_gzip),
        cmocka_unit_test(idx_refuses_bad_files),
    };
    return cmocka_run_group_tests(tests, make_path, remove_test_directory);
}
