/* Sources of images: CIFAR-10, class directories, TFRecords of encoded images. test_synth_images.c tests generated images. */
#include "encode.h"
#include "read_all.h"

#include "base/file.h"
#include "format/example.h"
#include "format/tfrecord.h"
#include <sys/stat.h>

static uint8_t bytes[1 << 18];

static void refuse(const char *spec, yk_split split, yk_status expected, const char *part)
{
    yk_source *s = NULL;
    assert_error(yk_source_open(spec, split, NULL, &s), expected, part);
}

static void make_directory(const char *name)
{
    assert_int_equal(mkdir(in_directory(name), 0777), 0);
}

static void check_shape(const yk_source *s, size_t height, size_t width, size_t channels)
{
    assert_int_equal(s->kind, YK_ROWS_U8);
    assert_int_equal(s->height, height);
    assert_int_equal(s->width, width);
    assert_int_equal(s->channels, channels);
    assert_int_equal(s->dim, height * width * channels);
}

/* ---- CIFAR-10 */

enum { RECORD = 3073 };

static void put_cifar(const char *path, size_t n, unsigned first)
{
    uint8_t *all = malloc(n * RECORD);
    assert_non_null(all);
    for (size_t i = 0; i < n; i++) {
        all[i * RECORD] = (uint8_t)((first + i) % 10);
        for (size_t k = 1; k < RECORD; k++)
            all[i * RECORD + k] = (uint8_t)(first + i + k);
    }
    put(path, all, n * RECORD);
    free(all);
}

static void cifar_directory_has_two_splits(void **state)
{
    (void)state;
    make_directory("cifar");
    char spec[300];
    snprintf(spec, sizeof spec, "cifar10:%s", in_directory("cifar"));
    refuse(spec, YK_SPLIT_TRAIN, YK_EDATA, "no data_batch_1.bin");
    put_cifar(in_directory("cifar/data_batch_1.bin"), 700, 0); /* more than a block */
    put_cifar(in_directory("cifar/plain"), 3, 700);
    put_cifar(in_directory("cifar/data_batch_2.bin"), 3, 700);
    for (int form = 0; form < 3; form++) { /* with the format name, without it, with a compressed file */
        if (form == 2) {
            compress_file(in_directory("cifar/plain"), in_directory("cifar/data_batch_2.bin.gz"), GZIP);
            unlink(in_directory("cifar/data_batch_2.bin"));
        }
        const char *as = form == 1 ? in_directory("cifar") : spec;
        yk_source *s = open_well(as, YK_SPLIT_TRAIN);
        assert_string_equal(s->ops->name, "cifar10");
        check_shape(s, 32, 32, 3);
        assert_int_equal(s->classes, 10);
        assert_int_equal(s->examples, form == 2 ? 0 : 703);
        assert_int_equal(s->nblocks, 4);
        assert_false(s->has_test);
        yk_source_free(s);
        yk_rows rows;
        assert_int_equal(read_all(as, NULL, 100, &rows, NULL), YK_OK);
        assert_int_equal(rows.n, 703);
        for (size_t i = 0; i < 703; i++) {
            assert_int_equal(rows.label[i], i % 10);
            assert_int_equal(rows.u8[i * 3072], (uint8_t)(i + 1));
            assert_int_equal(rows.u8[i * 3072 + 3071], (uint8_t)(i + 3072));
        }
        yk_rows_fini(&rows);
    }
    refuse(spec, YK_SPLIT_TEST, YK_EDATA, "no test_batch.bin");
    put_cifar(in_directory("cifar/test_batch.bin"), 5, 0);
    put(in_directory("cifar/batches.meta.txt"), "a\nb\n", 4); /* damaged */
    yk_source *s = open_well(spec, YK_SPLIT_TEST);
    assert_int_equal(s->examples, 5);
    assert_true(s->has_test);
    assert_null(s->class_names);
    yk_source_free(s);
    put(in_directory("cifar/batches.meta.txt"), "a\nb\na\n", 6);
    refuse(spec, YK_SPLIT_TEST, YK_EDATA, "batches.meta.txt: two classes have the name 'a'");
    put(in_directory("cifar/batches.meta.txt"), "a\nb\nc\nd\ne\nf\ng\nh\ni\ntruck\n\n", 25);
    s = open_well(spec, YK_SPLIT_TEST);
    assert_string_equal(s->class_names->name[9], "truck");
    yk_source_free(s);
    refuse("cifar10:x?size=3", YK_SPLIT_TRAIN, YK_EUSAGE, "unknown option size");
}

static void cifar_damage_is_reported(void **state)
{
    (void)state;
    const char *path = new_path(".bin");
    char spec[300];
    yk_rows rows;
    uint64_t bad;
    snprintf(spec, sizeof spec, "cifar10:%s", path);
    put_cifar(path, 6, 0);
    patch(path, 2 * RECORD, 0x08); /* 2 becomes 10 */
    assert_error(read_all(spec, NULL, 4, &rows, NULL), YK_EDATA,
                 "record 3 at byte 6146: the label 10 is not a class");
    yk_rows_fini(&rows);
    assert_int_equal(truncate(path, 5 * RECORD + 100), 0);
    assert_int_equal(read_all(spec, &(yk_source_options){.skip_bad = 2}, 4, &rows, &bad), YK_OK);
    assert_int_equal(bad, 2);
    assert_int_equal(rows.n, 4);
    assert_int_equal(rows.label[2], 3);
    yk_rows_fini(&rows);
    assert_error(read_all(spec, &(yk_source_options){.skip_bad = 1}, 4, &rows, &bad), YK_EDATA,
                 "record 6 at byte 15365: truncated: a record has 3073 bytes, but the file ends after 100");
    yk_rows_fini(&rows);
    put_cifar(path, 6, 0);
    const char *packed = new_path(".gz");
    compress_file(path, packed, GZIP);
    struct stat st;
    assert_int_equal(stat(packed, &st), 0);
    assert_int_equal(truncate(packed, st.st_size / 2), 0);
    snprintf(spec, sizeof spec, "cifar10:%s", packed);
    assert_error(read_all(spec, NULL, 4, &rows, NULL), YK_EDATA, "the compressed file is truncated");
    yk_rows_fini(&rows);
}

/* ---- directories */

static void put_png(const char *name, size_t w, size_t h)
{
    put(in_directory(name), bytes,
        encode_png(w, h, &(png_kind){PNG_COLOR_TYPE_RGB, 8, false}, bytes, sizeof bytes));
}

static void put_jpeg(const char *name, size_t w, size_t h)
{
    put(in_directory(name), bytes, encode_jpeg(w, h, &(jpeg_kind){3, 90, false}, bytes, sizeof bytes));
}

static void directories_are_classes(void **state)
{
    (void)state;
    make_directory("pets");
    make_directory("pets/dog");
    make_directory("pets/Cat"); /* in byte order: before dog */
    make_directory("pets/.hidden");
    refuse(in_directory("pets"), YK_SPLIT_TRAIN, YK_EDATA, "pets");
    char spec[300], name[64];
    snprintf(spec, sizeof spec, "images:%s", in_directory("pets"));
    refuse(spec, YK_SPLIT_TRAIN, YK_EDATA, "no images");
    for (int i = 0; i < 70; i++) {
        snprintf(name, sizeof name, "pets/%s/%d.%s", i % 7 ? "dog" : "Cat", i, i % 2 ? "PNG" : "png");
        put_png(name, 8, 6);
    }
    put(in_directory("pets/dog/notes.txt"), "x", 1);
    put(in_directory("pets/.hidden/a.png"), "x", 1);
    for (int form = 0; form < 2; form++) {
        const char *as = form ? spec : in_directory("pets");
        yk_source *s = open_well(as, YK_SPLIT_TRAIN);
        assert_string_equal(s->ops->name, "images");
        check_shape(s, 6, 8, 3);
        assert_int_equal(s->examples, 70);
        assert_int_equal(s->classes, 2);
        assert_int_equal(s->nblocks, 3);
        assert_false(s->has_test);
        yk_source_free(s);
    }
    yk_rows rows;
    assert_int_equal(read_all(spec, NULL, 9, &rows, NULL), YK_OK);
    assert_int_equal(rows.n, 70);
    size_t cats = 0, early = 0;
    for (size_t i = 0; i < 70; i++) {
        cats += rows.label[i] == 0;
        early += i < 35 && rows.label[i] == 0;
        assert_int_equal(rows.u8[i * 144 + 3 * 8 + 5], pixel_at(5, 3, 0, 8, 6));
        assert_int_equal(rows.u8[i * 144 + 96 + 3 * 8 + 5], pixel_at(5, 3, 2, 8, 6));
    }
    assert_int_equal(cats, 10);
    assert_in_range(early, 1, 9); /* the classes are mixed */
    yk_rows_fini(&rows);
    /* another size has to be requested */
    put_jpeg("pets/dog/large.jpeg", 100, 50);
    assert_error(read_all(spec, NULL, 9, &rows, NULL), YK_EUSAGE,
                 "large.jpeg: the image has 50 x 100 pixels, but the others have");
    yk_rows_fini(&rows);
    snprintf(spec, sizeof spec, "images:%s?size=12x10&fit=pad&channels=1", in_directory("pets"));
    assert_int_equal(read_all(spec, NULL, 9, &rows, NULL), YK_OK);
    assert_int_equal(rows.n, 71);
    assert_int_equal(rows.dim, 120);
    yk_rows_fini(&rows);
    yk_source *s = open_well(spec, YK_SPLIT_TRAIN);
    check_shape(s, 12, 10, 1);
    yk_source_free(s);
    static const char *const wrong[][2] = {
        {"size=0", "size=0: must be size=224"},
        {"size=4x", "size=4x: must be"},
        {"size=9999", "size=9999: must be"},
        {"size=3x4x5", "size=3x4x5: must be"},
        {"size=9&fit=squeeze", "fit=squeeze: must be one of: crop pad resize"},
        {"fit=pad", "fit=pad needs a size"},
        {"channels=2", "channels=2: must be one of: 1 3"},
        {"classes=3", "unknown option classes"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(spec, sizeof spec, "images:%s?%s", in_directory("pets"), wrong[i][0]);
        refuse(spec, YK_SPLIT_TRAIN, YK_EUSAGE, wrong[i][1]);
    }
    refuse("images:", YK_SPLIT_TRAIN, YK_EUSAGE, "the directory is missing");
}

static void directories_have_two_splits(void **state)
{
    (void)state;
    static const char *const names[] = {"two",         "two/train", "two/train/a", "two/train/b",
                                        "two/train/c", "two/val",   "two/val/c"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        make_directory(names[i]);
    put_png("two/train/a/1.png", 4, 4);
    put_jpeg("two/train/b/1.jpg", 4, 4);
    put_png("two/val/c/1.png", 4, 4);
    put_png("two/val/c/2.png", 4, 4);
    char spec[300];
    snprintf(spec, sizeof spec, "images:%s", in_directory("two"));
    for (int test = 0; test < 2; test++) {
        yk_source *s = open_well(test ? in_directory("two") : spec, test ? YK_SPLIT_TEST : YK_SPLIT_TRAIN);
        assert_true(s->has_test);
        assert_int_equal(s->examples, 2);
        assert_int_equal(s->classes, 3); /* c has no training image, but is a class */
        yk_reader *r;
        yk_rows rows;
        size_t got;
        yk_rows_init(&rows, s->kind, s->dim);
        assert_int_equal(yk_source_read(s, 0, &r), YK_OK);
        assert_int_equal(yk_reader_next(r, &rows, 10, &got), YK_OK);
        assert_int_equal(got, 2);
        assert_int_equal(rows.label[0] + rows.label[1], test ? 4 : 1);
        yk_reader_free(r);
        yk_rows_fini(&rows);
        yk_source_free(s);
    }
    make_directory("two/val/d");
    refuse(spec, YK_SPLIT_TEST, YK_EDATA, "val/d: the training data has no class with this name");
    make_directory("one");
    make_directory("one/train");
    snprintf(spec, sizeof spec, "images:%s", in_directory("one"));
    refuse(spec, YK_SPLIT_TEST, YK_EDATA, "has train/, but neither test/ nor val/");
}

static void damaged_files_are_reported(void **state)
{
    (void)state;
    make_directory("harm");
    make_directory("harm/a");
    put_jpeg("harm/a/1.jpg", 64, 48);
    put_jpeg("harm/a/2.jpg", 64, 48);
    put_png("harm/a/3.png", 64, 48);
    struct stat st;
    assert_int_equal(stat(in_directory("harm/a/2.jpg"), &st), 0);
    assert_int_equal(truncate(in_directory("harm/a/2.jpg"), st.st_size / 2), 0);
    patch(in_directory("harm/a/3.png"), 60, 0xff);
    put(in_directory("harm/a/4.jpg"), "", 0);
    assert_int_equal(symlink("/nonexistent/5.jpg", in_directory("harm/a/5.jpg")),
                     0); /* a dangling link: ignored */
    char spec[300];
    yk_rows rows;
    uint64_t bad;
    snprintf(spec, sizeof spec, "images:%s?size=32", in_directory("harm"));
    yk_source *s = open_well(spec, YK_SPLIT_TRAIN);
    assert_int_equal(s->examples, 4);
    yk_source_free(s);
    assert_int_equal(read_all(spec, NULL, 2, &rows, NULL), YK_EDATA);
    assert_message("(--skip-bad N skips");
    yk_rows_fini(&rows);
    assert_int_equal(read_all(spec, &(yk_source_options){.skip_bad = 3}, 2, &rows, &bad), YK_OK);
    assert_int_equal(rows.n, 1);
    assert_int_equal(bad, 3);
    yk_rows_fini(&rows);
    unlink(in_directory("harm/a/3.png"));
    unlink(in_directory("harm/a/4.jpg"));
    assert_error(read_all(spec, NULL, 2, &rows, NULL), YK_EDATA, "2.jpg: at byte ");
    assert_message("remature end of");
    yk_rows_fini(&rows);
}

/* ---- TFRecords */

static uint8_t *put_field(uint8_t *p, unsigned field, const void *data, size_t n)
{
    *p++ = (uint8_t)(field << 3 | 2);
    size_t v = n;
    for (; v >= 0x80; v >>= 7)
        *p++ = (uint8_t)(v | 0x80);
    *p++ = (uint8_t)v;
    memcpy(p, data, n);
    return p + n;
}

/* A map entry `key`: a Feature of that kind whose list has `n` bytes as its field 1. */
static uint8_t *put_feature(uint8_t *p, const char *key, unsigned kind, const void *data, size_t n)
{
    static uint8_t list[1 << 17], feature[1 << 17], entry[1 << 17];
    size_t list_n = (size_t)(put_field(list, 1, data, n) - list);
    size_t feature_n = (size_t)(put_field(feature, kind, list, list_n) - feature);
    uint8_t *end = put_field(put_field(entry, 1, key, strlen(key)), 2, feature, feature_n);
    return put_field(p, 1, entry, (size_t)(end - entry));
}

/* A record with an image; label below 0x80. */
static size_t image_record(const char *encoded, const char *class, const uint8_t *encoded_image, size_t n,
                           uint8_t label, uint8_t *out)
{
    static uint8_t features[1 << 17];
    uint8_t *p = put_feature(features, "image/format", 1, "JPEG", 4);
    p = put_feature(p, encoded, 1, encoded_image, n);
    p = put_feature(p, class, 3, &label, 1);
    return (size_t)(put_field(out, 1, features, (size_t)(p - features)) - out);
}

static void features_are_found(void **state)
{
    (void)state;
    static uint8_t record[1 << 10], features[1 << 10];
    static const uint8_t numbers[] = {5, 0xac, 0x02};
    uint8_t *p = put_feature(features, "a", 1, "first", 5);
    p = put_feature(p, "b", 3, numbers, sizeof numbers);
    p = put_feature(p, "c", 2, "12345678", 8);
    p = put_feature(p, "a", 1, "second", 6);
    size_t n = (size_t)(put_field(record, 1, features, (size_t)(p - features)) - record);
    yk_feature f[5] = {{.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}, {.name = "a"}};
    int64_t number;
    assert_int_equal(yk_example_find(record, n, f, 5), YK_OK);
    assert_int_equal(f[0].kind, YK_FEATURE_BYTES);
    assert_int_equal(yk_feature_one(&f[0], YK_FEATURE_BYTES, NULL), YK_OK);
    assert_int_equal(f[0].size, 6);
    assert_memory_equal(f[0].bytes, "second", 6);
    assert_int_equal(f[1].kind, YK_FEATURE_INTS);
    assert_int_equal(yk_feature_count(&f[1]), 2);
    assert_int_equal(yk_feature_one(&f[1], YK_FEATURE_INTS, &number), YK_EDATA);
    assert_int_equal(f[2].kind, YK_FEATURE_FLOATS);
    assert_int_equal(yk_feature_count(&f[2]), 2);
    assert_int_equal(f[3].kind, YK_FEATURE_NONE);
    assert_int_equal(f[4].size, 6); /* the same name again */
    yk_features_fini(f, 5);
    for (size_t cut = 1; cut < n; cut++) {
        yk_feature again[1] = {{.name = "b"}};
        assert_int_equal(yk_example_find(record, cut, again, 1), YK_EDATA);
    }
    yk_feature none[1] = {{.name = "b"}};
    assert_int_equal(yk_example_find(record, 0, none, 1), YK_OK); /* an empty message is valid */
}

static void put_records(const char *path, size_t n, int damaged, uint8_t last_label)
{
    static uint8_t record[1 << 18];
    yk_file *file;
    assert_int_equal(yk_file_create_in(NULL, path, &file), YK_OK);
    for (size_t i = 0; i < n; i++) {
        bool png = i % 3 == 2;
        size_t size =
            png ? encode_png(30 + i, 20, &(png_kind){PNG_COLOR_TYPE_RGB, 8, false}, bytes, sizeof bytes)
                : encode_jpeg(30 + i, 20, &(jpeg_kind){3, 90, false}, bytes, sizeof bytes);
        if ((int)i == damaged)
            size /= 2;
        uint8_t label = i + 1 == n ? last_label : (uint8_t)(1 + i % 5);
        size_t m = i % 2 ? image_record("image/encoded", "image/class/label", bytes, size, label, record)
                         : image_record("image", "label", bytes, size, label, record);
        assert_int_equal(yk_tfr_write(file, record, m), YK_OK);
    }
    assert_int_equal(yk_file_close(file, YK_OK), YK_OK);
}

static void image_records_are_read(void **state)
{
    (void)state;
    const char *path = new_path(".tfr");
    put_records(path, 20, -1, 5);
    char spec[300];
    yk_rows whole, cut;
    snprintf(spec, sizeof spec, "%s?size=16x24&base=1&classes=5", path);
    yk_source *s = open_well(spec, YK_SPLIT_TRAIN);
    assert_string_equal(s->ops->name, "tfrecord");
    check_shape(s, 16, 24, 3);
    assert_int_equal(s->classes, 5);
    yk_source_free(s);
    assert_int_equal(read_all(spec, NULL, 7, &whole, NULL), YK_OK);
    assert_int_equal(whole.n, 20);
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(whole.label[i], i + 1 == 20 ? 4 : i % 5);
    /* wider than the target shape: its middle part, at 4/5 of its size */
    double x = (30.0 + 1.0) / 2.0;
    assert_true(abs(whole.u8[1152 + 8 * 24 + 12] - pixel_at((size_t)x, 10, 0, 31, 20)) < 12);
    snprintf(spec, sizeof spec, "tfrecord:%s?size=16x24&base=1&block=700", path);
    assert_int_equal(read_all(spec, NULL, 7, &cut, NULL), YK_OK);
    assert_int_equal(cut.n, 20);
    assert_memory_equal(cut.u8, whole.u8, 20 * whole.dim);
    yk_rows_fini(&whole);
    yk_rows_fini(&cut);
    /* the shape is detected or given; without a size, all images must have that of the first */
    assert_error(read_all(path, NULL, 7, &whole, NULL), YK_EUSAGE,
                 "the image has 20 x 31 pixels, but the others have 20 x 30");
    yk_rows_fini(&whole);
    snprintf(spec, sizeof spec, "tfrecord:%s?form=sparse", path);
    assert_error(read_all(spec, NULL, 7, &whole, NULL), YK_EDATA, "the feature 'index' is missing");
    yk_rows_fini(&whole);
    snprintf(spec, sizeof spec, "tfrecord:%s?features=4&size=3", path);
    refuse(spec, YK_SPLIT_TRAIN, YK_EUSAGE, "cannot be combined");
    snprintf(spec, sizeof spec, "tfrecord:%s?form=video", path);
    refuse(spec, YK_SPLIT_TRAIN, YK_EUSAGE, "must be one of: image sparse");
}

static void bad_image_records_are_reported(void **state)
{
    (void)state;
    const char *path = new_path(".tfr");
    put_records(path, 6, 3, 9);
    char spec[300];
    yk_rows rows;
    uint64_t bad;
    snprintf(spec, sizeof spec, "tfrecord:%s?size=16&base=1&classes=5", path);
    assert_error(read_all(spec, NULL, 7, &rows, NULL), YK_EDATA, "record 4 at byte ");
    assert_message("of the image: ");
    assert_message("remature end of");
    yk_rows_fini(&rows);
    assert_error(read_all(spec, &(yk_source_options){.skip_bad = 1}, 7, &rows, NULL), YK_EDATA,
                 "the label 9 is not in the range 1 to 5 (options base and classes)");
    yk_rows_fini(&rows);
    assert_int_equal(read_all(spec, &(yk_source_options){.skip_bad = 2}, 7, &rows, &bad), YK_OK);
    assert_int_equal(rows.n, 4);
    assert_int_equal(bad, 2);
    yk_rows_fini(&rows);
    /* records without an image */
    static uint8_t features[100], record[100];
    uint8_t *p = put_feature(features, "image/encoded", 3, "\001", 1);
    size_t n = (size_t)(put_field(record, 1, features, (size_t)(p - features)) - record);
    yk_file *file;
    assert_int_equal(yk_file_create_in(NULL, path, &file), YK_OK);
    assert_int_equal(yk_tfr_write(file, record, n), YK_OK);
    assert_int_equal(yk_tfr_write(file, record, 0), YK_OK);
    assert_int_equal(yk_file_close(file, YK_OK), YK_OK);
    assert_error(read_all(spec, NULL, 7, &rows, NULL), YK_EDATA, "'image/encoded' is not a list of bytes");
    yk_rows_fini(&rows);
    assert_error(read_all(spec, &(yk_source_options){.skip_bad = 1}, 7, &rows, NULL), YK_EDATA,
                 "record 2 at byte 42: the feature 'image/encoded' is missing");
    yk_rows_fini(&rows);
    snprintf(spec, sizeof spec, "tfrecord:%s?form=image", path);
    refuse(spec, YK_SPLIT_TRAIN, YK_EDATA, "none of the first 16 records has a valid image");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cifar_directory_has_two_splits), cmocka_unit_test(cifar_damage_is_reported),
        cmocka_unit_test(directories_are_classes),        cmocka_unit_test(directories_have_two_splits),
        cmocka_unit_test(damaged_files_are_reported),     cmocka_unit_test(features_are_found),
        cmocka_unit_test(image_records_are_read),         cmocka_unit_test(bad_image_records_are_reported),
    };
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
