/* `tfrecord:GLOB`: examples from files of TFRecords, each a tf.train.Example: sparse ones (format/example.h), or
 * images (tfrecord_images.h). ?label=click&index=ids&value=weights sets the names of the features.
 *
 * A plain file is divided at any byte. A block has the records that begin in it. Its reader also checks the bytes after its
 * last record: if no record begins there, the reader of the next block would skip the damage without a message, so the
 * reader of the block before it reports it.
 *
 *         block 3        |        block 4
 *     ... [rec][rec][rec | ][damaged][rec]           block 3 reports `damaged`, block 4 begins after it
 */
#include "format/tfrecord.h"
#include "data/formats.h"
#include "data/tfrecord_images.h"
#include "format/example.h"
#include <math.h>

typedef struct {
    yk_source base;
    yk_key_space keys;
    yk_example_names names;
    yk__tfr_images images;
    const char *weight, *target; /* names of features; NULL: none */
} tfr_source;

typedef struct {
    yk_reader base;
    uint64_t records; /* so far, including bad ones */
    bool ended;
    yk_image_decoder *decoder; /* NULL: the records are sparse */
} tfr_reader;

/* The number of the record that begins at `offset`: 1 + the records before it. */
static uint64_t count_up_to(const char *path, uint64_t offset)
{
    yk_input *in;
    yk_tfr rec;
    uint64_t count = 1;
    bool found = true;
    if (yk_input_open(path, 0, &in))
        return UINT64_MAX;
    for (; found && yk_input_offset(in) < offset && !yk_tfr_next(in, &rec); count++) {
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
    r->ended = true;
    r->records++;
    return st == YK_EDATA ? bad_record(r, yk_input_offset(r->base.in), yk_input_reason(r->base.in)) : st;
}

/* At the end of the block: reports damage up to the next record, which the reader of the next block skips. */
static yk_status check_block_end(tfr_reader *r)
{
    r->ended = true;
    for (;;) {
        bool here;
        yk_tfr rec;
        yk_status st = yk_tfr_is_record(r->base.in, &here);
        if (!st && here)
            return YK_OK;
        if (st || (st = yk_tfr_next(r->base.in, &rec)))
            return broken_input(r, st);
        if (rec.kind == YK_TFR_END)
            return YK_OK;
        r->records++;
        if ((st = bad_record(r, rec.offset, rec.reason)) || rec.kind != YK_TFR_BAD_DATA)
            return st; /* after bad data the next record is known, because the length is correct */
    }
}

/* The end of the file, or a damaged frame. */
static yk_status skip_fault(tfr_reader *r, const yk_tfr *rec)
{
    if (rec->kind == YK_TFR_END) {
        r->ended = true;
        if (rec->offset == 0)
            return yk_fail(YK_EDATA, "%s: is empty", r->base.range->path);
        return YK_OK;
    }
    r->records++;
    yk_status st = bad_record(r, rec->offset, rec->reason);
    bool found = rec->kind == YK_TFR_BAD_DATA; /* the length is correct, so the next record is known */
    if (!st && rec->kind == YK_TFR_BAD_LENGTH) {
        yk_input_skip(r->base.in, 1);
        if ((st = yk_tfr_resync(r->base.in, r->base.range->end, &found)))
            return broken_input(r, st);
    }
    r->ended = !found;
    return st;
}

static yk_status decode(tfr_reader *r, const yk_tfr *rec, yk_rows *rows)
{
    const tfr_source *s = (const tfr_source *)r->base.source;
    if (!r->decoder) {
        const yk_status st = yk_example_decode(rec->data, rec->size, s->keys, &s->names, rows);
        return st || !s->base.by_position ? st : yk_positions_number_last(s->base.positions, rows);
    }
    return yk__tfr_images_add(&s->images, r->decoder, rec->data, rec->size, rows);
}

/* A feature with one number. */
static yk_status read_number(const yk_feature *f, bool negative, float *out)
{
    *out = f->kind == YK_FEATURE_FLOATS ? f->real : (float)f->number;
    if (f->kind != YK_FEATURE_FLOATS && f->kind != YK_FEATURE_INTS)
        return yk_fail(YK_EDATA, "there is no number in the feature '%s'", f->name);
    return f->count == 1 && isfinite(*out) && (negative || *out >= 0.0f)
               ? YK_OK
               : yk_fail(YK_EDATA, "'%s' is not one finite number%s", f->name,
                         negative ? "" : " of at least 0");
}

/* The same with a weight, or a label that is a number. */
static yk_status decode_numbers(tfr_reader *r, const yk_tfr *rec, yk_rows *rows)
{
    const tfr_source *s = (const tfr_source *)r->base.source;
    yk_feature f[2] = {{.name = s->weight ? s->weight : ""}, {.name = s->target ? s->target : ""}};
    float weight = 1.0f, target = 0.0f;
    yk_status st = yk_example_find(rec->data, rec->size, f, 2);
    const bool labeled = s->target && (f[1].kind || !s->base.options.unlabeled);
    if (st || (s->weight && (st = read_number(&f[0], false, &weight))) ||
        (labeled && (st = read_number(&f[1], true, &target))) || (st = decode(r, rec, rows)))
        return st;
    if (s->weight && (st = yk_rows_set_weight(rows, weight)))
        return st;
    return s->target ? yk_rows_set_target(rows, target) : YK_OK;
}

static yk_status tfr_next(yk_reader *reader, yk_rows *rows, size_t max, size_t *got_out)
{
    tfr_reader *r = (tfr_reader *)reader;
    const tfr_source *s = (const tfr_source *)reader->source;
    const bool plain = !s->weight && !s->target;
    uint64_t end = r->base.range->end;
    size_t got = 0;
    yk_status st = YK_OK;
    while (got < max && !r->ended && !st) {
        yk_tfr rec;
        if (yk_input_offset(r->base.in) >= end) {
            st = check_block_end(r);
            break;
        }
        if ((st = yk_tfr_next(r->base.in, &rec))) {
            st = broken_input(r, st);
        } else if (rec.kind != YK_TFR_RECORD) {
            st = skip_fault(r, &rec);
        } else {
            r->records++;
            st = plain ? decode(r, &rec, rows) : decode_numbers(r, &rec, rows);
            if (!st)
                got++;
            else if (st == YK_EDATA)
                st = bad_record(r, rec.offset, yk_error());
            else
                st = yk_fail(st, "%s: at byte %llu: %s", r->base.range->path, (unsigned long long)rec.offset,
                             yk_error());
        }
    }
    *got_out = got;
    return st;
}

static yk_status tfr_reader_open(yk_reader *reader)
{
    tfr_reader *r = (tfr_reader *)reader;
    bool found = true;
    yk_status st = yk__file_reader_open(reader);
    if (!st && ((const tfr_source *)reader->source)->images.on)
        st = yk_image_decoder_create(&r->decoder);
    if (!st && r->base.range->begin > 0)
        st = yk_tfr_resync(r->base.in, r->base.range->end, &found);
    r->ended = !found;
    return st;
}

static void tfr_reader_close(yk_reader *reader)
{
    yk_image_decoder_free(((tfr_reader *)reader)->decoder);
}

/* ?label=NAME and the like. Without ?field=NAME, field numbers are read if they are wanted and there. */
static yk_status name_features(tfr_source *s, const yk_spec *spec, bool fields, bool numbers)
{
    static const char *const keys[] = {"label", "index", "value", "field", "image", "weight"};
    const char *name[6];
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        name[i] = yk_spec_text(spec, keys[i]);
        if (name[i] && !*name[i])
            return yk_fail(YK_EUSAGE, "%s: %s: the name of the feature is missing", spec->text, keys[i]);
    }
    s->names = (yk_example_names){
        .label = name[0], .index = name[1], .value = name[2], .unlabeled = s->base.options.unlabeled};
    s->images.unlabeled = s->base.options.unlabeled;
    if (fields) {
        s->names.field = name[3] ? name[3] : "field";
        s->names.field_needed = name[3];
    }
    s->images.label_name = name[0];
    s->images.image_name = name[4];
    s->weight = s->base.options.unlabeled ? NULL : name[5];
    if (numbers) { /* then the label need not be an integer: decode() finds none */
        s->target = name[0] ? name[0] : "label";
        s->names.label = s->images.label_name = "";
        s->names.unlabeled = s->images.unlabeled = true;
    }
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
    source->fields = fields ? yk__spec_nfields(source) : 1;
    yk_status st = spec->status ? spec->status : yk_files_find(spec->where, &s->base.files);
    if (st || (st = name_features(s, spec, fields && !source->by_position, source->options.numbers)) ||
        (st = yk__file_blocks(source, block)) ||
        (st = yk__tfr_images_open(source, &s->base.files, &s->images)))
        return st;
    s->names.nfields = source->fields;
    source->kind = YK_ROWS_SPARSE;
    source->dim = (size_t)s->keys.features;
    if (s->images.on) {
        yk__image_set_shape(source, &s->images.form);
        source->classes = s->images.classes;
        source->fields = 1;
    }
    return YK_OK;
}

const yk_source_ops yk__tfrecord_source = {
    .name = "tfrecord",
    .usage = "tfrecord:FILES",
    .options = "bits features block label weight index value field fields nfields " YK__TFR_IMAGE_KEYS,
    .source_size = sizeof(tfr_source),
    .reader_size = sizeof(tfr_reader),
    .open = tfr_open,
    .reader_open = tfr_reader_open,
    .reader_close = tfr_reader_close,
    .next = tfr_next,
};
