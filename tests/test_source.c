/* Sources: specs, files, detection by content, and idx sets, valid and invalid. */
#include "read_all.h"

#include "base/file.h"
#include "data/files.h"
#include "data/spec.h"
#include "format/tfrecord.h"
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static void refuse_open(const char *spec, yk_status expected, const char *part)
{
    yk_source *s = NULL;
    assert_int_equal(yk_source_open(spec, YK_SPLIT_TRAIN, NULL, &s), expected);
    assert_message(part);
}

/* ---- specs */

static void spec_is_parsed(void **state)
{
    (void)state;
    yk_spec s;
    assert_int_equal(yk_spec_parse("synth:ctr?features=1000&skew=1.5&name=a=b&fit=pad", &s), YK_OK);
    assert_string_equal(s.format, "synth");
    assert_string_equal(s.where, "ctr");
    assert_int_equal(yk_spec_u64(&s, "features", 7, 1, 1000), 1000);
    assert_int_equal(yk_spec_u64(&s, "seed", 7, 1, 1000), 7);
    assert_true(yk_spec_real(&s, "skew", 0, 0, 2) == 1.5);
    assert_int_equal(yk_spec_choice(&s, "fit", "crop pad resize", 2), 1);
    assert_int_equal(yk_spec_choice(&s, "form", "image sparse", 2), 2);
    assert_int_equal(s.status, YK_OK);
    assert_string_equal(yk_spec_text(&s, "name"), "a=b");
    assert_int_equal(yk_spec_check(&s, "skew features name fit"), YK_OK);
    assert_int_equal(yk_spec_check(&s, "skew featuresx name"), YK_EUSAGE);
    assert_message("unknown option features");
    assert_int_equal(yk_spec_u64(&s, "features", 7, 1, 999), 7);
    assert_int_equal(s.status, YK_EUSAGE);
    assert_int_equal(yk_spec_u64(&s, "skew", 7, 1, 999), 7);
    assert_message("features=1000: must be between 1 and 999"); /* the first error is kept */
    s.status = YK_OK;
    yk_spec_u64(&s, "skew", 7, 1, 999);
    assert_int_equal(s.status, YK_EUSAGE);
    s.status = YK_OK;
    yk_spec_real(&s, "name", 0, 0, 2);
    assert_int_equal(s.status, YK_EUSAGE);
    s.status = YK_OK;
    yk_spec_choice(&s, "fit", "crop padding", 0);
    assert_int_equal(s.status, YK_EUSAGE);
    assert_message("fit=pad: must be one of: crop padding");
    yk_spec_fini(&s);

    static const struct {
        const char *text, *format, *where;
        size_t options;
    } cases[] = {
        {"tfrecord:part-0?", "tfrecord", "part-0?", 0},
        {"tfrecord:part-?.x?features=5", "tfrecord", "part-?.x", 1},
        {"/data/day=?/x=1", "", "/data/day=?/x=1", 0},
        {"./a:b", "", "./a:b", 0},
        {"c:x", "", "c:x", 0},
        {"idx:a?labels=/x/b?c&n=1", "idx", "a", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(yk_spec_parse(cases[i].text, &s), YK_OK);
        assert_string_equal(s.format, cases[i].format);
        assert_string_equal(s.where, cases[i].where);
        assert_int_equal(s.noptions, cases[i].options);
        yk_spec_fini(&s);
    }
    assert_int_equal(yk_spec_parse("", &s), YK_EUSAGE);
    assert_int_equal(yk_spec_parse("synth:ctr?a=1&b", &s), YK_EUSAGE);
    assert_message("'b' is not an option");
    assert_int_equal(yk_spec_parse("synth:ctr?a=1&a=2", &s), YK_EUSAGE);
    assert_message("a is given twice");
    assert_int_equal(
        yk_spec_parse("x:y?a=1&b=1&c=1&d=1&e=1&f=1&g=1&h=1&i=1&j=1&k=1&l=1&m=1&n=1&o=1&p=1&q=1", &s),
        YK_EUSAGE);
}

/* ---- files */

static void files_are_found_and_divided(void **state)
{
    (void)state;
    const char *dir = in_directory("files");
    assert_int_equal(mkdir(dir, 0777), 0);
    assert_int_equal(mkdir(in_directory("files/part-directory"), 0777), 0);
    put(in_directory("files/part-2"), "0123456789", 10);
    put(in_directory("files/part-1"), "01234", 5);
    put(in_directory("files/.hidden"), "x", 1);
    put(in_directory("files/_SUCCESS"), "", 0);
    yk_files f;
    for (int form = 0; form < 2; form++) {
        assert_int_equal(yk_files_find(in_directory(form ? "files/part-*" : "files"), &f), YK_OK);
        assert_int_equal(f.n, 2);
        assert_string_equal(f.path[0], in_directory("files/part-1"));
        assert_int_equal(f.state[1].st_size, 10);
        assert_int_equal(f.bytes, 15);
        assert_int_equal(yk_files_blocks(&f, 4), YK_OK);
        static const uint64_t begins[] = {0, 4, 0, 4, 8}, ends[] = {4, 5, 4, 8, 10};
        assert_int_equal(f.nblocks, 5);
        for (size_t i = 0; i < 5; i++) {
            assert_int_equal(f.block[i].begin, begins[i]);
            assert_int_equal(f.block[i].end, ends[i]);
            assert_ptr_equal(f.block[i].path, f.path[i / 2 < 2 ? i / 2 : 1]);
        }
        yk_files_fini(&f);
    }
    put(in_directory("files/part-3"), "", 0);
    assert_int_equal(yk_files_find(in_directory("files/part-*"), &f), YK_EDATA);
    assert_message("part-3: is empty");
    assert_int_equal(yk_files_find(in_directory("files/nothing-*"), &f), YK_EDATA);
    assert_message("no file matches");
    assert_int_equal(yk_files_find(in_directory("files/part-directory"), &f), YK_EDATA);
    assert_message("no data files");
    assert_int_equal(yk_files_find("", &f), YK_EUSAGE);
    if (geteuid() != 0) { /* root may read everything */
        assert_int_equal(chmod(in_directory("files/part-1"), 0), 0);
        assert_int_equal(yk_files_find(in_directory("files/part-1"), &f), YK_EDATA);
        assert_message("Permission denied");
    }
}

/* One file with several names is read once. */
static void repeated_files_are_dropped(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_directory("repeated"), 0777), 0);
    put(in_directory("repeated/a"), "1 1:1\n", 6);
    put(in_directory("repeated/b"), "0 1:1\n", 6);
    assert_int_equal(symlink("b", in_directory("repeated/c")), 0);
    char list[2048];
    snprintf(list, sizeof list, "%s,%s/./a,%s", in_directory("repeated/a"), in_directory("repeated"),
             in_directory("repeated"));
    yk_files f;
    assert_int_equal(yk_files_find(list, &f), YK_OK);
    assert_int_equal(f.n, 2);
    assert_string_equal(f.path[0], in_directory("repeated/a"));
    assert_string_equal(f.path[1], in_directory("repeated/b"));
    assert_int_equal(f.bytes, 12);
    yk_files_fini(&f);
}

/* Opens a source, changes its file, and reads. */
static void refuse_changed(const char *spec, const char *path, const void *bytes, size_t n, bool replace,
                           const char *part)
{
    yk_source *s;
    yk_reader *r = NULL;
    assert_int_equal(yk_source_open(spec, YK_SPLIT_TRAIN, NULL, &s), YK_OK);
    char other[1024];
    snprintf(other, sizeof other, "%s.new", path);
    put(replace ? other : path, bytes, n);
    if (replace)
        assert_int_equal(rename(other, path), 0);
    assert_int_equal(yk_source_read(s, 0, &r), YK_EDATA);
    assert_message(path);
    assert_message("changed while it was being read");
    assert_message(part);
    yk_source_free(s);
}

static void changed_files_are_refused(void **state)
{
    (void)state;
    const char *path = in_directory("changed");
    char spec[1024];
    put(path, "1 1:1\n0 1:2\n", 12);
    snprintf(spec, sizeof spec, "libsvm:%s", path);
    refuse_changed(spec, path, "1 1:1\n", 6, false, "its size differs");
    refuse_changed(spec, path, "0 1:1\n", 6, true, "another file has replaced it");
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    refuse_changed(spec, path, "1 1:1\n", 6, false, "its modification time differs");

    /* While the last block is being read: at its end. */
    yk_source *s;
    yk_reader *r;
    yk_rows rows;
    size_t got;
    assert_int_equal(yk_source_open(spec, YK_SPLIT_TRAIN, NULL, &s), YK_OK);
    assert_int_equal(yk_source_read(s, 0, &r), YK_OK);
    yk_rows_init(&rows, YK_ROWS_SPARSE, 0);
    assert_int_equal(yk_reader_next(r, &rows, 1, &got), YK_OK);
    put(path, "1 1:1\n1 1:1\n", 12);
    assert_int_equal(yk_reader_next(r, &rows, 1, &got), YK_EDATA);
    assert_message("changed while it was being read");
    yk_reader_free(r);
    yk_source_free(s);

    /* A bad record: it may be bad because the file has changed. */
    put(path, "1 1:1\n1 1:x\n", 12);
    assert_int_equal(yk_source_open(spec, YK_SPLIT_TRAIN, NULL, &s), YK_OK);
    assert_int_equal(yk_source_read(s, 0, &r), YK_OK);
    assert_int_equal(yk_reader_next(r, &rows, 1, &got), YK_OK);
    put(path, "1 1:1\n", 6);
    assert_int_equal(yk_reader_next(r, &rows, 1, &got), YK_EDATA);
    assert_message("changed while it was being read: its size differs");
    yk_rows_fini(&rows);
    yk_reader_free(r);
    yk_source_free(s);
}

/* ---- idx */

static void put_images(const char *path, uint8_t type, uint32_t n, uint32_t height, uint32_t width,
                       const void *data)
{
    uint8_t head[16] = {0, 0, type,          3, 0, 0, 0, (uint8_t)n, 0, 0, 0, (uint8_t)height, 0,
                        0, 0, (uint8_t)width};
    size_t bytes = (size_t)n * height * width * (type == 8 ? 1 : 4);
    uint8_t all[16 + 4096];
    memcpy(all, head, 16);
    memcpy(all + 16, data, bytes);
    put(path, all, 16 + bytes);
}

static void put_labels(const char *path, uint8_t n)
{
    uint8_t all[8 + 255] = {0, 0, 8, 1, 0, 0, 0, n};
    for (uint8_t i = 0; i < n; i++)
        all[8 + i] = i % 4;
    put(path, all, 8u + n);
}

static void idx_directory_has_two_splits(void **state)
{
    (void)state;
    uint8_t pixels[20 * 6];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(3 * i);
    assert_int_equal(mkdir(in_directory("idx"), 0777), 0);
    put_images(in_directory("idx/train-images-idx3-ubyte"), 8, 20, 2, 3, pixels);
    put_labels(in_directory("idx/plain"), 20);
    compress_file(in_directory("idx/plain"), in_directory("idx/train-labels.idx1-ubyte.gz"), GZIP);
    char spec[300];
    snprintf(spec, sizeof spec, "idx:%s", in_directory("idx"));
    for (int form = 0; form < 3; form++) {
        const char *as = form == 0 ? spec : in_directory(form == 1 ? "idx" : "idx/train-images-idx3-ubyte");
        if (form == 2) /* only the images file: the labels are found by name */
            compress_file(in_directory("idx/plain"), in_directory("idx/train-labels-idx1-ubyte"), GZIP);
        yk_source *s;
        assert_int_equal(yk_source_open(as, YK_SPLIT_TRAIN, NULL, &s), YK_OK);
        assert_string_equal(s->ops->name, "idx");
        assert_string_equal(s->spec, as);
        assert_int_equal(s->kind, YK_ROWS_U8);
        assert_int_equal(s->examples, 20);
        assert_int_equal(s->dim, 6);
        assert_int_equal(s->classes, 4);
        assert_int_equal(s->height, 2);
        assert_int_equal(s->width, 3);
        assert_int_equal(s->channels, 1);
        assert_false(s->has_test);
        assert_non_null(s->cached);
        assert_memory_equal(s->cached->u8, pixels, sizeof pixels);
        yk_source_free(s);
        yk_rows rows;
        assert_int_equal(read_all(as, NULL, 7, &rows, NULL), YK_OK);
        assert_int_equal(rows.n, 20);
        assert_memory_equal(rows.u8, pixels, sizeof pixels);
        assert_int_equal(rows.label[19], 3);
        yk_rows_fini(&rows);
    }
    yk_source *s;
    assert_int_equal(yk_source_open(spec, YK_SPLIT_TEST, NULL, &s), YK_EDATA);
    assert_message("no t10k-images-idx3-ubyte[.gz] in this directory");
    put_images(in_directory("idx/t10k-images-idx3-ubyte"), 8, 5, 2, 3, pixels);
    put_labels(in_directory("idx/t10k-labels-idx1-ubyte"), 5);
    assert_int_equal(yk_source_open(spec, YK_SPLIT_TEST, NULL, &s), YK_OK);
    assert_true(s->has_test);
    assert_int_equal(s->examples, 5);
    yk_source_free(s);
}

static void idx_bad_sets_are_refused(void **state)
{
    (void)state;
    float pixels[3][2] = {{1, 2}, {3, INFINITY}, {5, 6}};
    uint32_t turned[6];
    memcpy(turned, pixels, sizeof turned);
    for (size_t i = 0; i < 6; i++)
        turned[i] = __builtin_bswap32(turned[i]);
    const char *images = new_path("-images-idx3"), *labels = new_path("-labels");
    char spec[600];
    snprintf(spec, sizeof spec, "idx:%s?labels=%s", images, labels);
    put_images(images, 0x0d, 3, 1, 2, turned);
    refuse_open(spec, YK_EDATA, "no such file");
    put_labels(labels, 4);
    refuse_open(spec, YK_EDATA, "4 labels for the 3 images of");
    put_labels(labels, 3);
    refuse_open(spec, YK_EDATA, "record 2 at byte 28: value 1 of the image is infinite");
    yk_rows rows;
    uint64_t bad;
    assert_int_equal(read_all(spec, &(yk_source_options){.skip_bad = 1}, 2, &rows, &bad), YK_OK);
    assert_int_equal(rows.n, 2);
    assert_int_equal(bad, 1);
    assert_true(rows.f32[2] == 5.0f && rows.f32[3] == 6.0f);
    assert_int_equal(rows.label[1], 2);
    yk_rows_fini(&rows);
    put_images(images, 8, 0, 1, 2, turned);
    refuse_open(spec, YK_EDATA, "has no images");
    put_images(labels, 8, 3, 1, 1, turned);
    put_images(images, 8, 3, 1, 2, turned);
    refuse_open(spec, YK_EDATA, "labels must be bytes");
    snprintf(spec, sizeof spec, "idx:%s", labels);
    refuse_open(spec, YK_EUSAGE, "no labels file");
    snprintf(spec, sizeof spec, "idx:%s?colour=red", labels);
    refuse_open(spec, YK_EUSAGE, "unknown option colour");
}

/* ---- opening */

static void formats_are_recognized(void **state)
{
    (void)state;
    static const char svm[] = "# a comment\n+1 3:0.5 7:1\n-1 4:1\n";
    char clicks[] =
        "1\t5\t\t7\t\t\t\t\t\t\t\t\t\t\t68fd1e64\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\n";
    yk_source *s;
    const char *path = new_path(".svm");
    put(path, svm, strlen(svm));
    assert_int_equal(yk_source_open(path, YK_SPLIT_TRAIN, NULL, &s), YK_OK);
    assert_string_equal(s->ops->name, "libsvm");
    yk_source_free(s);
    const char *packed = new_path(".gz");
    compress_file(path, packed, GZIP);
    assert_int_equal(yk_source_open(packed, YK_SPLIT_TRAIN, NULL, &s), YK_OK);
    assert_string_equal(s->ops->name, "libsvm");
    yk_source_free(s);
    path = new_path(".txt");
    put(path, clicks, strlen(clicks));
    assert_int_equal(yk_source_open(path, YK_SPLIT_TRAIN, NULL, &s), YK_OK);
    assert_string_equal(s->ops->name, "criteo");
    yk_source_free(s);
    assert_int_equal(yk_source_open("synth:digits", YK_SPLIT_TRAIN, NULL, &s), YK_OK);
    assert_true(s->has_test);
    yk_source_free(s);

    refuse_open("orc:x", YK_EUSAGE, "unknown data format orc; use one of: idx:DIRECTORY, tfrecord:FILES");
    refuse_open(in_directory("nowhere"), YK_EDATA, "nowhere: no such file");
    refuse_open("tfrecord:", YK_EUSAGE, "has no file");
    path = new_path(".bin");
    put(path, "what is this\n", 13);
    refuse_open(path, YK_EDATA, "cannot detect the format");
    put(path, "", 0);
    refuse_open(path, YK_EDATA, "is empty");
    /* A record of 376 bytes begins like a zlib file: 78 01. */
    yk_file *f;
    yk_rows rows;
    path = new_path(".tfr");
    assert_int_equal(yk_file_create_in(NULL, path, &f), YK_OK);
    uint8_t record[376] = {0};
    assert_int_equal(yk_tfr_write(f, record, sizeof record), YK_OK);
    assert_int_equal(yk_file_close(f, YK_OK), YK_OK);
    assert_int_equal(read_all(path, NULL, 1, &rows, NULL), YK_EDATA);
    assert_message("record 1 at byte 0: not a well-formed");
    yk_rows_fini(&rows);
}

/* ---- several files, and standard input */

static void assert_files(const char *where, const char *names)
{
    char text[256] = "";
    yk_files f;
    if (yk_files_find(where, &f))
        fail_msg("%s", yk_error());
    for (size_t i = 0; i < f.n; i++)
        strcat(strcat(text, strrchr(f.path[i], '/') + 1), " ");
    assert_string_equal(text, names);
    yk_files_fini(&f);
}

static void several_files_and_patterns(void **state)
{
    (void)state;
    char where[256];
    yk_files f;
    assert_int_equal(mkdir(in_directory("list"), 0755), 0);
    for (const char *p = "abcd"; *p; p++) {
        char name[] = "list/x1";
        name[5] = *p;
        put(in_directory(name), "1 1:1\n", 6);
    }
    put(in_directory("list/a1,b1"), "1 1:1\n", 6);
    snprintf(where, sizeof where, "%s/list/d1,%s/list/b1", directory, directory);
    assert_files(where, "d1 b1 "); /* in the order of the list */
    snprintf(where, sizeof where, "%s/list/d1,%s/list/[a-d]1,%s/list/b1", directory, directory, directory);
    assert_files(where, "d1 a1 b1 c1 "); /* each file once */
    assert_files(in_directory("list/{c,a}1"), "a1 c1 ");
    assert_files(in_directory("list/a1,b1"), "a1,b1 "); /* a name with a comma */
    assert_files(in_directory("list/a1,b?"), "a1,b1 ");
    snprintf(where, sizeof where, "%s/list/d1,%s/list/nothing*", directory, directory);
    assert_error(yk_files_find(where, &f), YK_EDATA, "list/nothing*: no file matches this pattern");
    snprintf(where, sizeof where, "%s/list/d1,", directory);
    assert_error(yk_files_find(where, &f), YK_EUSAGE, "a name is missing");
}

/* The source may look at standard input before it is read, but only one reader can read it. */
static void standard_input_is_read_once(void **state)
{
    (void)state;
    static const char *const specs[] = {"csv:-?categorical=2", "-", "libsvm:-"};
    static const char *const texts[] = {"1,x\n0,y\n1,z\n", "1 1:1\n0 2:1\n1 3:1\n", "1 1:1\n0 2:1\n1 3:1\n"};
    const int saved = dup(0);
    for (int i = 0; i < 3; i++) {
        yk_rows rows;
        const char *path = new_path(".txt");
        put(path, texts[i], strlen(texts[i]));
        if (i == 2)
            compress_file(path, path, GZIP);
        const int fd = open(path, O_RDONLY);
        assert_true(fd >= 0 && dup2(fd, 0) == 0);
        close(fd);
        yk_source *s = open_well(specs[i], YK_SPLIT_TRAIN);
        assert_true(s->once && s->nblocks == 1 && s->files.bytes == 0);
        yk_source_free(s);
        assert_int_equal(read_all(specs[i], NULL, 2, &rows, NULL), YK_OK);
        assert_int_equal(rows.n, 3);
        yk_rows_fini(&rows);
        yk_rows none;
        yk_rows_init(&none, YK_ROWS_SPARSE, 0);
        assert_error(read_all(specs[i], NULL, 2, &none, NULL), YK_EUSAGE,
                     "standard input can be read only once");
        yk_rows_fini(&none);
    }
    dup2(saved, 0);
    close(saved);
    static const char *const others[] = {"idx:-", "cifar10:-", "images:-", "tfrecord:-", "cache:-"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        yk_source *s;
        assert_error(yk_source_open(others[i], YK_SPLIT_TRAIN, NULL, &s), YK_EUSAGE,
                     "standard input (-) is only for text formats (libsvm:FILES, libffm:FILES, ");
    }
}

/* ---- real data, if available */

static void real_mnist_reads(void **state)
{
    (void)state;
    char spec[512];
    yk_source *s;
    snprintf(spec, sizeof spec, "idx:%s/mnist", data_directory());
    for (int test = 0; test < 2; test++) {
        assert_int_equal(yk_source_open(spec, test ? YK_SPLIT_TEST : YK_SPLIT_TRAIN, NULL, &s), YK_OK);
        assert_int_equal(s->examples, test ? 10000 : 60000);
        assert_int_equal(s->dim, 784);
        assert_int_equal(s->classes, 10);
        assert_int_equal(s->cached->label[0], test ? 7 : 5);
        assert_true(s->has_test);
        yk_source_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spec_is_parsed),
        cmocka_unit_test(files_are_found_and_divided),
        cmocka_unit_test(repeated_files_are_dropped),
        cmocka_unit_test(changed_files_are_refused),
        cmocka_unit_test(idx_directory_has_two_splits),
        cmocka_unit_test(idx_bad_sets_are_refused),
        cmocka_unit_test(formats_are_recognized),
        cmocka_unit_test(several_files_and_patterns),
        cmocka_unit_test(standard_input_is_read_once),
        cmocka_unit_test(real_mnist_reads),
    };
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
