/* format/cache.h, data/cache.c and data/export.c: data survives a round trip, and damaged files are refused. */
#include "base/crc.h"
#include "base/rng.h"
#include "data/dataset.h"
#include "data/export.h"
#include "format/cache.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[64], path[128], other[128], spec[256];

static int make_test_directory(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/yoke-test-XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/data.cache", directory);
    snprintf(other, sizeof other, "%s/other", directory);
    return 0;
}

static int remove_test_directory(void **state)
{
    (void)state;
    unlink(path);
    unlink(other);
    return rmdir(directory); /* fails if a temporary file was left behind */
}

static yk_source *open_well(const char *text)
{
    yk_source *s;
    if (yk_source_open(text, YK_SPLIT_TRAIN, NULL, &s))
        fail_msg("%s", yk_error());
    return s;
}

static void read_all(yk_source *s, yk_rows *rows)
{
    yk_rows_init(rows, s->kind, s->kind == YK_ROWS_SPARSE ? 0 : s->dim);
    for (size_t b = 0; b < s->nblocks; b++) {
        yk_reader *r;
        size_t got = 1;
        assert_int_equal(yk_source_read(s, b, &r), YK_OK);
        while (got)
            if (yk_reader_next(r, rows, 999, &got))
                fail_msg("%s", yk_error());
        yk_reader_free(r);
    }
}

static void assert_same_rows(const yk_rows *a, const yk_rows *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->label, b->label, a->n * sizeof *a->label);
    assert_int_equal(!a->truth, !b->truth);
    if (a->truth)
        assert_memory_equal(a->truth, b->truth, a->n * sizeof *a->truth);
    if (a->kind == YK_ROWS_U8)
        assert_memory_equal(a->u8, b->u8, a->n * a->dim);
    if (a->kind == YK_ROWS_F32)
        assert_memory_equal(a->f32, b->f32, a->n * a->dim * sizeof *a->f32);
    if (a->kind != YK_ROWS_SPARSE)
        return;
    assert_memory_equal(a->start, b->start, (a->n + 1) * sizeof *a->start);
    assert_memory_equal(a->index, b->index, a->start[a->n] * sizeof *a->index);
    for (size_t i = 0; i < a->start[a->n]; i++)
        assert_true((a->value ? a->value[i] : 1.0f) == (b->value ? b->value[i] : 1.0f));
}

static yk_export_stats export_well(yk_source *s, const char *format, const char *to)
{
    yk_export_stats stats;
    if (yk_export(s, format, to, &stats))
        fail_msg("%s", yk_error());
    struct stat file;
    assert_int_equal(stat(to, &file), 0);
    assert_int_equal(file.st_size, stats.bytes);
    return stats;
}

static void put_text(const char *to, const char *text)
{
    FILE *f = fopen(to, "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* From any source to a cache and back, mapped and in blocks. */
static void check_round_trip(const char *from)
{
    yk_source *s = open_well(from);
    yk_rows rows, again;
    read_all(s, &rows);
    yk_export_stats stats = export_well(s, "cache", path);
    assert_int_equal(stats.examples, rows.n);
    assert_int_equal(yk_cache_verify(path), YK_OK);
    snprintf(spec, sizeof spec, "cache:%s", path);
    yk_source *c = open_well(spec);
    assert_non_null(c->cached);
    assert_int_equal(c->examples, rows.n);
    assert_int_equal(c->dim, s->dim ? s->dim : rows.dim);
    assert_int_equal(c->height * c->width * c->channels, s->height * s->width * s->channels);
    if (s->classes)
        assert_int_equal(c->classes, s->classes);
    assert_same_rows(&rows, c->cached);
    read_all(c, &again);
    assert_same_rows(&rows, &again);
    yk_rows_fini(&again);
    yk_source_free(c);
    c = open_well(path); /* a bare path is recognized */
    assert_string_equal(c->ops->name, "cache");
    yk_source_free(c);
    yk_source_free(s);
    yk_rows_fini(&rows);
}

static void round_trips(void **state)
{
    (void)state;
    check_round_trip("synth:digits?examples=1500");
    check_round_trip("synth:ctr?examples=10000&features=50000");
    put_text(other, "3 1:0.5 7:2\n0\n2 100:1\n1 5:1\n");
    snprintf(spec, sizeof spec, "libsvm:%s", other);
    char copy[256];
    strcpy(copy, spec);
    check_round_trip(copy);
}

/* Used in place, rows have the order of the file. In random order they are the same rows, in the same order in each process. */
static void rows_can_be_shuffled(void **state)
{
    (void)state;
    yk_source *s = open_well("synth:ctr?examples=2000&features=5000");
    yk_dataset d, again;
    export_well(s, "cache", path);
    yk_source_free(s);
    assert_int_equal(yk_dataset_open(path, YK_SPLIT_TRAIN, NULL, YK_STREAM_AUTO, &d), YK_OK);
    assert_int_equal(yk_dataset_open(path, YK_SPLIT_TRAIN, NULL, YK_STREAM_AUTO, &again), YK_OK);
    const yk_rows *before = again.rows;
    assert_false(d.shuffled);
    assert_true(yk_dataset_can_shuffle(&d));
    assert_int_equal(yk_dataset_shuffle(&d), YK_OK);
    assert_int_equal(yk_dataset_shuffle(&d), YK_OK); /* only once */
    assert_true(d.shuffled && yk_dataset_can_shuffle(&d));
    assert_int_equal(d.rows->n, before->n);
    assert_memory_not_equal(d.rows->index, before->index, 1000 * sizeof *before->index);
    uint64_t sum[2] = {0}; /* of a hash of each row, in any order */
    for (int k = 0; k < 2; k++) {
        const yk_rows *r = k ? before : d.rows;
        for (size_t i = 0; i < r->n; i++) {
            uint64_t hash = (uint64_t)r->label[i];
            for (uint64_t e = r->start[i]; e < r->start[i + 1]; e++)
                hash = yk_mix64(hash + r->index[e]);
            sum[k] += hash;
        }
    }
    assert_int_equal(sum[0], sum[1]);
    assert_int_equal(yk_dataset_shuffle(&again), YK_OK);
    assert_same_rows(d.rows, again.rows);
    yk_dataset_fini(&again);
    assert_int_equal(yk_dataset_open(path, YK_SPLIT_TRAIN, NULL, YK_STREAM_AUTO, &again), YK_OK);
    yk_rows_init(&again.loaded, again.kind, again.dim); /* loaded, but in order */
    assert_int_equal(yk_rows_append(&again.loaded, again.rows, 0, again.rows->n), YK_OK);
    again.rows = &again.loaded;
    assert_int_equal(yk_dataset_shuffle(&again), YK_OK);
    assert_same_rows(d.rows, again.rows);
    yk_dataset_fini(&d);
    yk_dataset_fini(&again);
}

/* A file with fields has version 3, and readers get the fields on request; a file without fields has version 1. */
static void fields_are_kept(void **state)
{
    (void)state;
    const yk_source_options stored = {.fields = YK_FIELDS_STORED};
    yk_source *s, *c;
    yk_rows rows;
    put_text(other, "1 0:3:0.5 4:17:1 9:17:1\n0\n0 65535:2:1\n");
    snprintf(spec, sizeof spec, "libffm:%s", other);
    assert_int_equal(yk_source_open(spec, YK_SPLIT_TRAIN, &stored, &s), YK_OK);
    read_all(s, &rows);
    export_well(s, "cache", path);
    yk_source_free(s);
    assert_int_equal(yk_cache_verify(path), YK_OK);
    assert_int_equal(yk_source_open(path, YK_SPLIT_TRAIN, &stored, &c), YK_OK);
    assert_same_rows(&rows, c->cached);
    assert_memory_equal(rows.field, c->cached->field, rows.start[3] * sizeof *rows.field);
    export_well(c, "libffm", other); /* and as text */
    yk_source_free(c);
    yk_rows_fini(&rows);
    FILE *f = fopen(other, "r");
    char text[128];
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    assert_string_equal(text, "1 0:3:0.5 4:17:1 9:17:1\n0\n0 65535:2:1\n");

    c = open_well(path); /* a model without fields: entries with the same index are merged */
    assert_null(c->cached->field);
    assert_int_equal(c->cached->n, 3);
    assert_int_equal(c->cached->start[3], 3);
    assert_true(c->cached->index[1] == 17 && c->cached->value[1] == 2.0f && c->dim == 18);
    assert_true(c->files.bytes > 256);
    yk_source_free(c);

    f = fopen(path, "r+b"); /* a changed field does not match the checksum */
    yk_cache_header h;
    assert_non_null(f);
    assert_int_equal(fread(&h, sizeof h, 1, f), 1);
    assert_int_equal(h.version, 3);
    assert_int_equal(h.fields, 65536);
    assert_int_equal(fseek(f, (long)h.field.offset, SEEK_SET), 0);
    assert_int_equal(fputc(7, f), 7);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(yk_cache_verify(path), YK_EDATA);
    assert_non_null(strstr(yk_error(), "the field array is damaged"));

    s = open_well("synth:ctr?examples=100&features=50");
    export_well(s, "cache", path);
    yk_source_free(s);
    f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(&h, sizeof h, 1, f), 1);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(h.version, 1);
}

static void dense_floats(void **state)
{
    (void)state;
    yk_rows rows, again;
    yk_cache_shape shape = {.header = {.kind = YK_ROWS_F32,
                                       .n = 3,
                                       .dim = 2,
                                       .entries = 6,
                                       .classes = 2,
                                       .scale = 1.0f}},
                   back;
    yk_rows_init(&rows, YK_ROWS_F32, 2);
    for (int i = 0; i < 3; i++) {
        float *x;
        assert_int_equal(yk_rows_dense_f32(&rows, &x), YK_OK);
        x[0] = (float)i;
        x[1] = -0.5f;
        assert_int_equal(yk_rows_commit(&rows, 0, i % 2), YK_OK);
    }
    yk_cache_writer *w;
    assert_int_equal(yk_cache_create(path, &shape, &w), YK_OK);
    assert_int_equal(yk_cache_close(w, yk_cache_add(w, &rows)), YK_OK);
    assert_int_equal(yk_cache_map(path, &again, &back), YK_OK);
    assert_same_rows(&rows, &again);
    yk_rows_fini(&again);

    /* rows that differ from the announced number or kind */
    unlink(other);
    assert_int_equal(yk_cache_create(other, &shape, &w), YK_OK);
    assert_int_equal(yk_cache_add(w, &rows), YK_OK);
    assert_int_equal(yk_cache_close(w, yk_cache_add(w, &rows)), YK_EDATA);
    assert_int_equal(access(other, F_OK), -1);
    shape.header.n = 4;
    shape.header.entries = 8;
    assert_int_equal(yk_cache_create(other, &shape, &w), YK_OK);
    assert_int_equal(yk_cache_close(w, yk_cache_add(w, &rows)), YK_EDATA);
    assert_int_equal(access(other, F_OK), -1);
    yk_rows_fini(&rows);
}

/* ---- damage */

static size_t load(uint8_t **out)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    size_t size = (size_t)ftell(f);
    rewind(f);
    *out = malloc(size);
    assert_non_null(*out);
    assert_int_equal(fread(*out, 1, size, f), size);
    fclose(f);
    return size;
}

static void store(const uint8_t *data, size_t size)
{
    FILE *f = fopen(other, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static yk_status map_other(void)
{
    yk_rows rows;
    yk_cache_shape shape;
    yk_status st = yk_cache_map(other, &rows, &shape);
    if (!st)
        yk_rows_fini(&rows);
    return st;
}

static void make_clicks(void)
{
    yk_source *s = open_well("synth:ctr?examples=300&features=1000&nnz=6");
    export_well(s, "cache", path);
    yk_source_free(s);
}

/* The same with weights and targets: version 5. */
static void make_weighted(void)
{
    yk_rows mapped, rows;
    yk_cache_shape shape;
    yk_cache_writer *w;
    make_clicks();
    assert_int_equal(yk_cache_map(path, &mapped, &shape), YK_OK);
    yk_rows_init(&rows, YK_ROWS_SPARSE, 0);
    for (size_t i = 0; i < mapped.n; i++) {
        assert_int_equal(yk_rows_append(&rows, &mapped, i, 1), YK_OK);
        assert_int_equal(yk_rows_set_weight(&rows, (float)(i % 4)), YK_OK);
        assert_int_equal(yk_rows_set_target(&rows, (float)i - 100.5f), YK_OK);
    }
    shape.arrays |= 1u << YK_ROWS_WEIGHT | 1u << YK_ROWS_TARGET;
    assert_int_equal(yk_cache_create(path, &shape, &w), YK_OK);
    assert_int_equal(yk_cache_close(w, yk_cache_add(w, &rows)), YK_OK);
    yk_rows_fini(&mapped);
    assert_int_equal(yk_cache_map(path, &mapped, &shape), YK_OK);
    assert_memory_equal(rows.weight, mapped.weight, rows.n * sizeof *rows.weight);
    assert_memory_equal(rows.target, mapped.target, rows.n * sizeof *rows.target);
    yk_rows_fini(&mapped);
    yk_rows_fini(&rows);
}

/* Training, evaluation and conversion open a source; an altered index may still be in range. */
static void opening_checks_the_checksums(void **state)
{
    (void)state;
    make_clicks();
    uint8_t *data;
    const size_t size = load(&data);
    yk_cache_header h;
    yk_source *s;
    memcpy(&h, data, sizeof h);
    data[h.index.offset] ^= 1;
    store(data, size);
    assert_int_equal(map_other(), YK_OK);
    snprintf(spec, sizeof spec, "cache:%s", other);
    assert_int_equal(yk_source_open(spec, YK_SPLIT_TRAIN, NULL, &s), YK_EDATA);
    assert_non_null(strstr(yk_error(), "the index array is damaged: its checksum is wrong"));
    assert_int_equal(yk_source_open(spec, YK_SPLIT_TRAIN, &(yk_source_options){.shape_only = true}, &s),
                     YK_OK);
    yk_source_free(s);
    free(data);
}

static void check_damage(size_t header)
{
    uint8_t *data;
    size_t size = load(&data);
    for (size_t i = 0; i < header; i++) { /* every bit of the header is covered by its checksum */
        data[i] ^= (uint8_t)(1u << (i % 8));
        store(data, size);
        assert_int_equal(map_other(), YK_EDATA);
        data[i] ^= (uint8_t)(1u << (i % 8));
    }
    yk_rng r = yk_rng_seed(1, 1);
    for (int k = 0; k < 300;
         k++) { /* elsewhere: never a crash, and verify detects all changes except those in the padding */
        size_t i = header + yk_rng_below(&r, (uint32_t)(size - header));
        uint8_t was = data[i];
        data[i] = (uint8_t)yk_rng_u64(&r);
        store(data, size);
        yk_status st = map_other();
        assert_true(st == YK_OK || st == YK_EDATA);
        st = yk_cache_verify(other);
        yk_cache_header h;
        memcpy(&h, data, sizeof h);
        const bool more = h.version >= 5;
        const yk_cache_array arrays[] = {h.dense,
                                         h.label,
                                         h.start,
                                         h.index,
                                         h.value,
                                         h.truth,
                                         h.field,
                                         more ? h.weight : h.field,
                                         more ? h.target : h.field};
        bool inside = false;
        for (size_t a = 0; a < sizeof arrays / sizeof *arrays; a++)
            inside |= i >= arrays[a].offset && i < arrays[a].offset + arrays[a].size;
        assert_int_equal(st, inside && data[i] != was ? YK_EDATA : YK_OK);
        data[i] = was;
    }
    static const size_t cut[] = {0, 1, 8, 255, 256, 257, 1000};
    for (size_t k = 0; k < sizeof cut / sizeof *cut; k++) {
        store(data, cut[k]);
        assert_int_equal(map_other(), YK_EDATA);
    }
    store(data, size - 1);
    assert_int_equal(map_other(), YK_EDATA);
    assert_non_null(strstr(yk_error(), "truncated or extended"));
    assert_non_null(strstr(yk_error(), other));
    free(data);
}

static void damaged_bytes(void **state)
{
    (void)state;
    make_clicks();
    check_damage(YK_CACHE_HEADER);
    make_weighted();
    check_damage(sizeof(yk_cache_header));
}

/* A forged file with a valid checksum does not cause reads outside the file. */
static void store_forged(const uint8_t *data, size_t size, yk_cache_header h)
{
    uint8_t *copy = malloc(size);
    assert_non_null(copy);
    memcpy(copy, data, size);
    h.crc = yk_crc32c(&h, offsetof(yk_cache_header, crc));
    memcpy(copy, &h, YK_CACHE_HEADER);
    store(copy, size);
    free(copy);
}

static void forged_headers(void **state)
{
    (void)state;
    make_clicks();
    uint8_t *data;
    size_t size = load(&data);
    yk_cache_header good, h;
    memcpy(&good, data, sizeof good);
    store_forged(data, size, good);
    assert_int_equal(map_other(), YK_OK);
#define FORGE(change)                                                                                        \
    do {                                                                                                     \
        h = good;                                                                                            \
        change;                                                                                              \
        store_forged(data, size, h);                                                                         \
        assert_int_equal(map_other(), YK_EDATA);                                                             \
    } while (0)
    FORGE(h.version = 2);
    FORGE(h.version = 3);
    FORGE(h.version = 4);
    FORGE(h.fields = 1);
    FORGE(h.kind = 3);
    FORGE(h.kind = YK_ROWS_U8);
    FORGE(h.n = 0);
    FORGE(h.n++);
    FORGE(h.n = UINT64_MAX);
    FORGE(h.n = (uint64_t)1 << 61);
    FORGE(h.dim = 0);
    FORGE(h.dim = 5);
    FORGE(h.dim = (uint64_t)1 << 40);
    FORGE(h.entries--);
    FORGE(h.entries = (uint64_t)1 << 62);
    FORGE(h.classes = 0);
    FORGE(h.classes = 1);
    FORGE(h.classes = UINT32_MAX);
    FORGE(h.height = 3);
    FORGE(h.height = h.width = h.channels = UINT32_MAX);
    FORGE(h.file_size++);
    FORGE(h.index.offset += 64);
    FORGE(h.index.offset = UINT64_MAX - 63);
    FORGE(h.index.size = UINT64_MAX);
    FORGE(h.value.size = 8);
    FORGE(h.truth.size = 0);
    /* descending row starts: the header is valid, the check of the starts finds them */
    uint64_t back = 17;
    memcpy(data + good.start.offset + 8 * 200, &back, sizeof back);
    store(data, size);
    assert_int_equal(map_other(), YK_EDATA);
    assert_non_null(strstr(yk_error(), "starts of rows"));
    free(data);
}

static void features_and_options(void **state)
{
    (void)state;
    make_clicks();
    yk_source *s;
    yk_source_options o = {.features = 2000};
    snprintf(spec, sizeof spec, "cache:%s", path);
    assert_int_equal(yk_source_open(spec, YK_SPLIT_TRAIN, &o, &s), YK_OK);
    assert_int_equal(s->dim, 2000);
    assert_int_equal(s->cached->dim, 2000);
    yk_source_free(s);
    o.features = 900;
    assert_int_equal(yk_source_open(spec, YK_SPLIT_TRAIN, &o, &s), YK_EDATA);
    snprintf(spec, sizeof spec, "cache:%s?x=1", path);
    assert_int_equal(yk_source_open(spec, YK_SPLIT_TRAIN, NULL, &s), YK_EUSAGE);
    snprintf(spec, sizeof spec, "cache:%s/missing", directory);
    assert_int_equal(yk_source_open(spec, YK_SPLIT_TRAIN, NULL, &s), YK_EDATA);
}

/* ---- the other formats */

static void export_reads_back(void **state)
{
    (void)state;
    static const char *const format[] = {"libsvm", "tfrecord"};
    for (int i = 0; i < 2; i++) {
        yk_source *s = open_well("synth:ctr?examples=5000&features=3000&nnz=9");
        yk_rows rows, again;
        read_all(s, &rows);
        yk_export_stats stats = export_well(s, format[i], other);
        assert_int_equal(stats.examples, 5000);
        assert_int_equal(stats.entries, 45000);
        assert_int_equal(stats.dim, 3000);
        assert_int_equal(stats.classes, 2);
        yk_source_free(s);
        snprintf(spec, sizeof spec, "%s:%s", format[i], other);
        s = open_well(spec);
        read_all(s, &again);
        free(rows.truth); /* these formats do not store it */
        rows.truth = NULL;
        assert_same_rows(&rows, &again);
        yk_rows_fini(&again);
        yk_rows_fini(&rows);
        yk_source_free(s);
    }
}

/* Values with nine digits and pixels of images are read back exactly. */
static void export_keeps_values(void **state)
{
    (void)state;
    static const char *const format[] = {"libsvm", "tfrecord"};
    char text[20000], *p = text;
    yk_rng r = yk_rng_seed(5, 5);
    for (int i = 0; i < 400; i++)
        p += sprintf(p, "%d 3:%.9g 8:%.17g\n", i % 3, yk_rng_normal(&r), yk_rng_normal(&r) * 1e-30);
    for (int i = 0; i < 2; i++) {
        yk_rows rows, again;
        put_text(path, text);
        snprintf(spec, sizeof spec, "libsvm:%s", path);
        yk_source *s = open_well(spec);
        read_all(s, &rows);
        export_well(s, format[i], other);
        yk_source_free(s);
        snprintf(spec, sizeof spec, "%s:%s", format[i], other);
        s = open_well(spec);
        read_all(s, &again);
        assert_same_rows(&rows, &again);
        yk_rows_fini(&rows);
        yk_rows_fini(&again);
        yk_source_free(s);

        s = open_well("synth:digits?examples=40");
        read_all(s, &rows);
        export_well(s, format[i], other);
        yk_source_free(s);
        s = open_well(spec);
        read_all(s, &again);
        yk_source_free(s);
        assert_int_equal(again.n, 40);
        for (size_t k = 0; k < 40; k++) {
            assert_int_equal(again.label[k], rows.label[k]);
            uint64_t at = again.start[k];
            for (size_t x = 0; x < rows.dim; x++) {
                uint8_t pixel = rows.u8[k * rows.dim + x];
                if (!pixel)
                    continue;
                assert_int_equal(again.index[at], x);
                assert_true(again.value[at] == (float)pixel * rows.scale);
                at++;
            }
            assert_int_equal(at, again.start[k + 1]);
        }
        yk_rows_fini(&rows);
        yk_rows_fini(&again);
    }
}

static void bad_records_count_once(void **state)
{
    (void)state;
    put_text(other, "1 1:1\nx\n0 2:1\n1 2\n1 3:1\n");
    yk_source *s;
    yk_source_options o = {.skip_bad = 2};
    snprintf(spec, sizeof spec, "libsvm:%s", other);
    assert_int_equal(yk_source_open(spec, YK_SPLIT_TRAIN, &o, &s), YK_OK);
    yk_export_stats stats = export_well(s, "cache", path);
    assert_int_equal(stats.examples, 3);
    assert_int_equal(atomic_load(&s->bad), 2);
    yk_source_free(s);
}

static size_t files_in_directory(void)
{
    size_t n = 0;
    DIR *d = opendir(directory);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* A failed write leaves only the existing file. The limit on file sizes simulates
 * a full disk. */
static void failing_writes(void **state)
{
    (void)state;
    static const char *const format[] = {"cache", "libsvm", "tfrecord"};
    struct rlimit was, tight;
    unlink(path);
    unlink(other);
    put_text(other, "before");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    tight = was;
    tight.rlim_cur = 300000;
    signal(SIGXFSZ, SIG_IGN);
    for (int i = 0; i < 3; i++) {
        yk_source *s = open_well("synth:ctr?examples=20000");
        yk_export_stats stats;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
        yk_status st = yk_export(s, format[i], other, &stats);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
        assert_int_equal(st, YK_ESYSTEM);
        assert_non_null(strstr(yk_error(), other));
        yk_source_free(s);
        assert_int_equal(files_in_directory(), 1);
        struct stat file;
        assert_int_equal(stat(other, &file), 0);
        assert_int_equal(file.st_size, 6);
    }
    yk_source *s = open_well("synth:ctr?examples=20");
    yk_export_stats stats;
    assert_int_equal(yk_export(s, "parquet", other, &stats), YK_EUSAGE);
    assert_non_null(strstr(yk_error(), "tfrecord, libsvm, libffm, cache"));
    assert_int_equal(yk_export(s, "cache", "/dev/null", &stats), YK_EUSAGE);
    char missing[160];
    snprintf(missing, sizeof missing, "%s/no/such", directory);
    for (int i = 0; i < 3; i++)
        assert_int_equal(yk_export(s, format[i], missing, &stats), YK_ESYSTEM);
    yk_source_free(s);
    /* a source without examples */
    put_text(other, "# nothing\n");
    snprintf(spec, sizeof spec, "libsvm:%s", other);
    for (int i = 0; i < 3; i++) {
        s = open_well(spec);
        assert_int_equal(yk_export(s, format[i], path, &stats), YK_EDATA);
        assert_int_equal(access(path, F_OK), -1);
        yk_source_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),          cmocka_unit_test(rows_can_be_shuffled),
        cmocka_unit_test(dense_floats),         cmocka_unit_test(fields_are_kept),
        cmocka_unit_test(dense_floats),         cmocka_unit_test(opening_checks_the_checksums),
        cmocka_unit_test(damaged_bytes),        cmocka_unit_test(forged_headers),
        cmocka_unit_test(features_and_options), cmocka_unit_test(export_reads_back),
        cmocka_unit_test(export_keeps_values),  cmocka_unit_test(bad_records_count_once),
        cmocka_unit_test(failing_writes),
    };
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
