/* `tfrecord:GLOB`: examples from files of TFRecords, each a tf.train.Example: sparse ones (format/example.h), or
 * images. ?label=click&index=ids&value=weights sets the names of the features.
 *
 * Records of images, such as ImageNet's, have an encoded image and its class:
 *
 *     image/encoded        bytes[1]   JPEG or PNG       (or `image`, as TensorFlow Datasets writes it)
 *     image/class/label    int64[1]   the class         (or `label`)
 *
 *     tfrecord:GLOB?size=224&fit=crop&channels=3&classes=1000&base=1
 *
 * base: the number of the first class in the files; 1 for ImageNet, 0 by default. classes: the number of classes; a label
 * out of range is a bad record; by default, classes are counted when the data is loaded. label and image: names of the
 * features. form=image or form=sparse sets the kind of the records; by default, the first good record decides. The other
 * options are those of image_options.h.
 *
 * A plain file is divided at any byte. A block has the records that begin in it. Its reader also checks the bytes after its
 * last record: if no record begins there, the reader of the next block would skip the damage without a message, so the
 * reader of the block before it reports it.
 *
 *         block 3        |        block 4
 *     ... [rec][rec][rec | ][damaged][rec]           block 3 reports `damaged`, block 4 begins after it
 */
#include "format/tfrecord.h"
#include "data/image_options.h"
#include "format/example.h"
#include <math.h>
#include <string.h>

#define MAX_CLASSES 65536
#define PROBED      16 /* records that are tried to find a good one */

/* Of sparse rows, of both, and of images. */
enum { WEIGHT = YK_EXAMPLE_FEATURES, TARGET, OF_ROWS, CLASS = OF_ROWS, ENCODED, IMAGE, FEATURES };

typedef struct {
    yk_source base;
    yk_key_space keys;
    yk_feature feature[FEATURES]; /* names */
    yk_example_rules rules;
    bool images; /* the records are images */
    yk_image_form form;
    int64_t first_class;
} tfr_source;

typedef struct {
    yk_reader base;
    uint64_t records;          /* so far, including bad ones */
    yk_image_decoder *decoder; /* NULL: the records are sparse */
} tfr_reader;

/* ---- images */

static const yk_feature *picture_of(const yk_feature f[FEATURES])
{
    return &f[f[IMAGE].kind && !f[ENCODED].kind ? IMAGE : ENCODED];
}

/* Decodes the image of one record into a new row. YK_EDATA: yk_error() is the reason, without file and record. */
static yk_status add_image(const tfr_source *s, yk_image_decoder *d, const yk_feature f[FEATURES],
                           yk_rows *rows)
{
    const yk_feature *const image = picture_of(f),
                            *const label =
                                &f[f[YK_EXAMPLE_LABEL].kind && !f[CLASS].kind ? YK_EXAMPLE_LABEL : CLASS];
    const int64_t max = (s->base.classes ? s->base.classes : MAX_CLASSES) - 1;
    int64_t number = s->first_class;
    yk_status st = yk_feature_one(image, YK_FEATURE_BYTES, NULL);
    if (st ||
        ((label->kind || !s->rules.unlabeled) && (st = yk_feature_one(label, YK_FEATURE_INTS, &number))))
        return st;
    if (number < s->first_class || number - s->first_class > max)
        return yk_fail(YK_EDATA, "the label %lld is not in the range %lld to %lld%s", (long long)number,
                       (long long)s->first_class, (long long)(s->first_class + max),
                       s->base.classes ? " (options base and classes)" : "");
    st = yk__image_add(d, image->bytes, image->size, &s->form, (int32_t)(number - s->first_class), rows);
    if (st == YK_EDATA)
        return yk_fail(st, "at byte %zu of the image: %s", yk_image_offset(d), yk_error());
    return st;
}

/* ---- records */

/* The number of the record that begins at `offset`: 1 + the records before it. */
static uint64_t count_up_to(const char *path, uint64_t offset)
{
    yk_input *in;
    yk_tfr rec;
    uint64_t count = 1;
    bool found = true;
    if (yk_input_open(path, 0, &in))
        return UINT64_MAX;
    for (; found && in->offset < offset && !yk_tfr_next(in, &rec); count++) {
        found = rec.kind == YK_TFR_RECORD || rec.kind == YK_TFR_BAD_DATA;
        if (rec.kind == YK_TFR_BAD_LENGTH && yk_tfr_resync(in, offset, &found))
            break;
    }
    yk_input_free(in);
    return count;
}

static yk_status bad_record(tfr_reader *r, uint64_t offset, const char *reason)
{
    yk_source *s = r->base.source;
    uint64_t number = r->records;
    if (r->base.range->begin > 0)
        number = yk_source_bad_numbered(s, offset) ? count_up_to(r->base.range->path, offset) : UINT64_MAX;
    return yk_source_bad(s, r->base.range->path, number, offset, "%s", reason);
}

/* The input failed. A damaged compressed file is a bad record, and ends there. */
static yk_status broken_input(tfr_reader *r, yk_status st)
{
    r->base.ended = true;
    r->records++;
    return st == YK_EDATA ? bad_record(r, r->base.in->offset, r->base.in->reason) : st;
}

/* The end of the file, or a damaged frame. After the end of the block, damage is reported up to the next record, which the reader of
 * the next block skips. */
static yk_status skip_fault(tfr_reader *r, const yk_tfr *rec)
{
    if (rec->kind == YK_TFR_END) {
        r->base.ended = true;
        if (rec->offset == 0)
            return yk_fail(YK_EDATA, "%s: is empty", r->base.range->path);
        return YK_OK;
    }
    r->records++;
    yk_status st = bad_record(r, rec->offset, rec->reason);
    bool found = rec->kind == YK_TFR_BAD_DATA; /* the length is correct, so the next record is known */
    if (!st && rec->kind == YK_TFR_BAD_LENGTH && rec->offset < r->base.range->end) {
        yk_input_skip(r->base.in, 1);
        if ((st = yk_tfr_resync(r->base.in, r->base.range->end, &found)))
            return broken_input(r, st);
    }
    r->base.ended = !found;
    return st;
}

/* A weight, or a label that is a number. */
static yk_status read_number(const yk_feature *f, bool target, bool needed, float *out)
{
    int64_t number;
    if (!f->name || (!f->kind && !needed))
        return YK_OK;
    if (f->kind != YK_FEATURE_FLOATS && f->kind != YK_FEATURE_INTS)
        return yk_fail(YK_EDATA, "there is no number in the feature '%s'", f->name);
    const yk_status st = yk_feature_one(f, f->kind, &number);
    if (st)
        return st;
    if (f->kind == YK_FEATURE_FLOATS)
        memcpy(out, f->bytes, sizeof *out);
    else
        *out = (float)number;
    return isfinite(*out) && (target || *out >= 0.0f) ? YK_OK
                                                      : yk_fail(YK_EDATA, "'%s' is not one finite number%s",
                                                                f->name, target ? "" : " of at least 0");
}

static yk_status add_row(tfr_reader *r, const yk_tfr *rec, yk_rows *rows)
{
    const tfr_source *s = (const tfr_source *)r->base.source;
    const size_t n = r->decoder ? FEATURES : OF_ROWS;
    float weight = 1.0f, target = 0.0f;
    yk_feature f[FEATURES];
    memcpy(f, s->feature, sizeof f);
    yk_status st = yk_example_find(rec->data, rec->size, f, n);
    if (st)
        return st;
    if (!(st = read_number(&f[WEIGHT], false, true, &weight)) &&
        !(st = read_number(&f[TARGET], true, !s->base.options.unlabeled, &target)))
        st = r->decoder ? add_image(s, r->decoder, f, rows) : yk_example_row(f, s->keys, &s->rules, rows);
    if (!st && s->base.by_position && !r->decoder)
        st = yk_positions_number_last(s->base.positions, rows);
    if (!st && f[WEIGHT].name)
        st = yk_rows_set_weight(rows, weight);
    if (!st && f[TARGET].name)
        st = yk_rows_set_target(rows, target);
    yk_features_fini(f, n);
    return st;
}

static yk_status tfr_row(yk_reader *reader, yk_rows *rows)
{
    tfr_reader *r = (tfr_reader *)reader;
    yk_tfr rec;
    yk_status st = YK_OK;
    if (reader->in->offset >= reader->range->end) /* of the block */
        st = yk_tfr_is_record(reader->in, &reader->ended);
    if (reader->ended)
        return st;
    if (st || (st = yk_tfr_next(reader->in, &rec)))
        return broken_input(r, st);
    if (rec.kind != YK_TFR_RECORD)
        return skip_fault(r, &rec);
    r->records++;
    st = add_row(r, &rec, rows);
    if (st == YK_EDATA)
        return bad_record(r, rec.offset, yk_error());
    return st ? yk_fail(st, "%s: at byte %llu: %s", reader->range->path, (unsigned long long)rec.offset,
                        yk_error())
              : YK_OK;
}

static yk_status tfr_reader_open(yk_reader *reader)
{
    tfr_reader *r = (tfr_reader *)reader;
    bool found = true;
    yk_status st = yk__file_reader_open(reader, 0);
    if (!st && ((const tfr_source *)reader->source)->images)
        st = yk_image_decoder_create(&r->decoder);
    if (!st && r->base.range->begin > 0)
        st = yk_tfr_resync(r->base.in, r->base.range->end, &found);
    r->base.ended = !found;
    return st;
}

static void tfr_reader_close(yk_reader *reader)
{
    yk_image_decoder_free(((tfr_reader *)reader)->decoder);
}

/* ---- opening */

/* Searches the first records for an image, and takes its shape unless the options set it. Damaged records are skipped:
 * reading the data will report them. */
static yk_status probe(tfr_source *s, bool *found_out)
{
    const char *path = s->base.files.path[0];
    yk_input *in;
    yk_status st = yk_input_open(path, 0, &in);
    *found_out = false;
    if (st)
        return st;
    for (int i = 0; i < PROBED && !*found_out; i++) {
        yk_tfr rec;
        yk_feature f[FEATURES];
        memcpy(f, s->feature, sizeof f);
        if (yk_tfr_next(in, &rec) || (rec.kind != YK_TFR_RECORD && rec.kind != YK_TFR_BAD_DATA))
            break;
        const yk_feature *image = f;
        bool usable = rec.kind == YK_TFR_RECORD && !yk_example_find(rec.data, rec.size, f, FEATURES);
        if (usable)
            usable = !yk_feature_one(image = picture_of(f), YK_FEATURE_BYTES, NULL);
        if (usable && !s->form.height)
            st = yk__image_form_like(image->bytes, image->size, &s->form);
        yk_features_fini(f, FEATURES);
        if (!usable)
            continue;
        *found_out = !st || st == YK_EUSAGE;
        if (st == YK_ESYSTEM)
            break;
    }
    yk_input_free(in);
    return st == YK_EUSAGE ? yk_fail(st, "%s: %s", path, yk_error()) : st == YK_ESYSTEM ? st : YK_OK;
}

static bool has_any(const yk_spec *spec, const char *const *keys)
{
    while (*keys && !yk_spec_text(spec, *keys))
        keys++;
    return *keys;
}

/* Reads the options of images; if they do not decide whether the records are images, also the first records. */
static yk_status open_images(tfr_source *s)
{
    enum { FORM_IMAGE, FORM_SPARSE, FORM_AUTO };
    static const char *const of_sparse[] = {"features", "bits", "index", "value", "field", NULL};
    static const char *const of_images[] = {"size", "fit", "channels", "base", "classes", "image", NULL};
    yk_spec *spec = &s->base.parsed;
    const int form = yk_spec_choice(spec, "form", "image sparse", FORM_AUTO);
    const bool sparse = form == FORM_SPARSE || has_any(spec, of_sparse),
               images = form == FORM_IMAGE || has_any(spec, of_images);
    yk_status st = spec->status;
    if (!st && sparse && images)
        return yk_fail(YK_EUSAGE, "%s: options of images and of sparse records cannot be combined",
                       spec->text);
    if (st || sparse)
        return st;
    s->first_class = (int64_t)yk_spec_u64(spec, "base", 0, 0, INT32_MAX);
    const uint32_t classes = (uint32_t)yk_spec_u64(spec, "classes", 0, 1, MAX_CLASSES);
    s->images = true;
    if ((st = yk__image_options(&s->base, &s->form)) ||
        ((!images || !s->form.height) && (st = probe(s, &s->images))))
        return st;
    if (!s->images && images)
        return yk_fail(YK_EDATA,
                       "%s: none of the first %d records has a valid image in 'image/encoded', so the size "
                       "is not known: add size=224",
                       s->base.files.path[0], PROBED);
    if (!s->images)
        return YK_OK;
    yk__set_images(&s->base, s->form.height, s->form.width, s->form.channels);
    s->base.classes = classes;
    s->base.fields = 1;
    s->base.hashed_into = 0;
    return YK_OK;
}

/* ?label=NAME and the like. Without ?field=NAME, field numbers are read if they are wanted and there. */
static yk_status name_features(tfr_source *s, const yk_spec *spec, bool fields)
{
    static const struct {
        const char *option, *usual;
    } names[FEATURES] = {{"label", "label"},
                         {"index", "index"},
                         {"value", "value"},
                         {"field", "field"},
                         {"weight", NULL},
                         {"label", NULL},
                         {"label", "image/class/label"},
                         {"image", "image/encoded"},
                         {"image", "image"}};
    yk_feature *const f = s->feature;
    const bool unlabeled = s->base.options.unlabeled, numbers = s->base.options.numbers;
    for (int i = 0; i < FEATURES; i++) {
        const char *given = yk_spec_text(spec, names[i].option);
        if (given && !*given)
            return yk_fail(YK_EUSAGE, "%s: %s: the name of the feature is missing", spec->text,
                           names[i].option);
        f[i].option = names[i].option;
        f[i].name = given ? given : names[i].usual;
    }
    s->rules = (yk_example_rules){.value_needed = yk_spec_text(spec, "value") != NULL,
                                  .field_needed = fields && yk_spec_text(spec, "field"),
                                  .unlabeled = unlabeled || numbers,
                                  .nfields = s->base.fields};
    f[YK_EXAMPLE_FIELD].name = fields ? f[YK_EXAMPLE_FIELD].name : NULL;
    f[WEIGHT].name = unlabeled ? NULL : f[WEIGHT].name;
    f[TARGET].name = numbers ? f[YK_EXAMPLE_LABEL].name : NULL;
    if (numbers) /* then the label need not be an integer */
        f[YK_EXAMPLE_LABEL].name = f[CLASS].name = NULL;
    return YK_OK;
}

static yk_status tfr_open(yk_source *source)
{
    yk_spec *spec = &source->parsed;
    tfr_source *s = (tfr_source *)source;
    s->keys = yk__spec_keys(source, 0, YK_EXAMPLE_INDICES);
    const uint64_t block = yk_spec_u64(spec, "block", YK_BLOCK_BYTES, 1, UINT64_MAX);
    source->hashed_into = s->keys.hash ? s->keys.features : 0;
    const bool fields = yk__spec_positions(source);
    source->fields = fields ? (uint32_t)yk_spec_u64(spec, "nfields", 0, 1, YK__MAX_FIELDS) : 1;
    yk_status st = spec->status ? spec->status : yk_files_find(spec->where, &s->base.files);
    if (st || (st = name_features(s, spec, fields && !source->by_position)) ||
        (st = yk__file_blocks(source, block)))
        return st;
    source->kind = YK_ROWS_SPARSE;
    source->dim = (size_t)s->keys.features;
    return open_images(s);
}

const yk_source_ops yk__tfrecord_source = {
    .name = "tfrecord",
    .options = "bits features block label weight index value field fields nfields " YK__IMAGE_KEYS
               " form base classes image",
    .kept = "label weight index value field form base classes image",
    .source_size = sizeof(tfr_source),
    .reader_size = sizeof(tfr_reader),
    .open = tfr_open,
    .reader_open = tfr_reader_open,
    .reader_close = tfr_reader_close,
    .row = tfr_row,
};
