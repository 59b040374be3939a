/* `tfrecord:GLOB`: examples from files of TFRecords, each a tf.train.Example: sparse ones (format/example.h), or
 * pictures (tfrecord_pictures.h).
 *
 * A plain file is cut at any byte. Who owns what then has one rule: a block owns the records that begin in it, and its
 * reader also looks at the place behind its last one. If no record can be found there, the reader of the next block
 * would pass over the damage in silence, so the block before reports it.
 *
 *         block 3        |        block 4
 *     ... [rec][rec][rec | ][damaged][rec]           block 3 reports `damaged`, block 4 begins with what follows it
 */
#include "format/tfrecord.h"
#include "data/formats.h"
#include "data/tfrecord_pictures.h"
#include "format/example.h"

#define COUNT_MOST                                                                                           \
    ((uint64_t)4 << 30) /* further into a file, counting its records only for a message takes too long */
#define BAD_SHOWN 3     /* skipped records that are told one by one, as in source.c */

typedef struct {
    yk__file_source base;
    yk_key_space keys;
    yk__tfr_pictures pictures;
} tfr_source;

typedef struct {
    yk__file_reader base;
    uint64_t records; /* met so far, bad ones included */
    bool ended;
    yk_image_decoder *decoder; /* NULL: the records are sparse */
} tfr_reader;

/* The number of the record that begins at `offset`, by walking over the headers before it. */
static uint64_t count_up_to(const char *path, uint64_t offset)
{
    yk_input *in;
    uint64_t count = 1, length;
    if (offset > COUNT_MOST || yk_input_open(path, 0, &in))
        return UINT64_MAX;
    while (yk_input_offset(in) < offset) {
        const uint8_t *p;
        size_t have;
        bool found = false;
        if (yk_input_peek(in, YK_TFR_HEADER, &p, &have) || have < YK_TFR_HEADER)
            break;
        count++;
        if (!yk_tfr_header(p, &length)) {
            if (yk_tfr_resync(in, offset, &found) || !found)
                break;
            continue;
        }
        size_t whole = (size_t)length + YK_TFR_FRAME;
        if (have < whole && (yk_input_peek(in, whole, &p, &have) || have < whole))
            break;
        yk_input_skip(in, whole);
    }
    yk_input_free(in);
    return count;
}

static yk_status bad_record(tfr_reader *r, uint64_t offset, const char *reason)
{
    yk_source *s = r->base.base.source;
    uint64_t skipped = atomic_load(&s->bad), number = r->records;
    if (r->base.block->begin > 0)
        number = skipped < BAD_SHOWN || skipped >= s->skip_bad ? count_up_to(r->base.block->path, offset)
                                                               : UINT64_MAX;
    return yk_source_bad(s, r->base.block->path, number, offset, "%s", reason);
}

/* The input failed: where a compressed file is damaged, that is a bad record and the end of the file. */
static yk_status broken_input(tfr_reader *r, yk_status st)
{
    r->ended = true;
    r->records++;
    return st == YK_EDATA ? bad_record(r, yk_input_offset(r->base.in), yk_input_reason(r->base.in)) : st;
}

/* At the block's end: is there a record that the next block will find? */
static yk_status check_behind(tfr_reader *r)
{
    bool here;
    yk_tfr rec;
    yk_status st = yk_tfr_here(r->base.in, &here);
    r->ended = true;
    if (!st && !here)
        st = yk_tfr_next(r->base.in, &rec);
    if (st)
        return broken_input(r, st);
    if (here || rec.kind == YK_TFR_END)
        return YK_OK;
    r->records++;
    return bad_record(r, rec.offset, rec.reason);
}

static yk_status take_fault(tfr_reader *r, const yk_tfr *rec)
{
    if (rec->kind == YK_TFR_END) {
        r->ended = true;
        if (rec->offset == 0)
            return yk_fail(YK_EDATA, "%s: is empty", r->base.block->path);
        return YK_OK;
    }
    r->records++;
    yk_status st = bad_record(r, rec->offset, rec->reason);
    bool found = rec->kind == YK_TFR_BAD_DATA; /* its length is right: the next record follows */
    if (!st && rec->kind == YK_TFR_BAD_LENGTH) {
        yk_input_skip(r->base.in, 1);
        if ((st = yk_tfr_resync(r->base.in, r->base.block->end, &found)))
            return broken_input(r, st);
    }
    r->ended = !found;
    return st;
}

static yk_status decode(tfr_reader *r, const yk_tfr *rec, yk_rows *rows)
{
    const tfr_source *s = (const tfr_source *)r->base.base.source;
    if (!r->decoder)
        return yk_example_decode(rec->data, rec->size, s->keys, rows);
    return yk__tfr_pictures_add(&s->pictures, r->decoder, rec->data, rec->size, rows);
}

static yk_status tfr_next(yk_reader *reader, yk_rows *rows, size_t max, size_t *got_out)
{
    tfr_reader *r = (tfr_reader *)reader;
    uint64_t end = r->base.block->end;
    size_t got = 0;
    yk_status st = YK_OK;
    while (got < max && !r->ended && !st) {
        yk_tfr rec;
        if (yk_input_offset(r->base.in) >= end) {
            st = check_behind(r);
            break;
        }
        if ((st = yk_tfr_next(r->base.in, &rec))) {
            st = broken_input(r, st);
        } else if (rec.kind != YK_TFR_RECORD) {
            st = take_fault(r, &rec);
        } else {
            r->records++;
            st = decode(r, &rec, rows);
            if (!st)
                got++;
            else if (st == YK_EDATA)
                st = bad_record(r, rec.offset, yk_error());
            else
                st = yk_fail(st, "%s: at byte %llu: %s", r->base.block->path, (unsigned long long)rec.offset,
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
    if (!st && ((const tfr_source *)reader->source)->pictures.on)
        st = yk_image_decoder_create(&r->decoder);
    if (!st && r->base.block->begin > 0)
        st = yk_tfr_resync(r->base.in, r->base.block->end, &found);
    r->ended = !found;
    return st;
}

static void tfr_reader_close(yk_reader *reader)
{
    yk_image_decoder_free(((tfr_reader *)reader)->decoder);
    yk__file_reader_close(reader);
}

static yk_status tfr_open(yk_source *source, const yk_spec *spec, yk_split split, const yk_source_options *o)
{
    (void)split;
    tfr_source *s = (tfr_source *)source;
    uint64_t block;
    yk_status st = yk_spec_check(spec, "bits features block " YK__TFR_PICTURES_KEYS);
    if (!st)
        st = yk__spec_keys(spec, o, 0, YK_EXAMPLE_INDICES, &s->keys);
    if (!st)
        st = yk_spec_u64(spec, "block", YK_BLOCK_BYTES, 1, UINT64_MAX, &block);
    if (!st)
        st = yk_files_find(spec->where, &s->base.files);
    if (st || (st = yk__file_blocks(&s->base, block)) ||
        (st = yk__tfr_pictures_open(spec, &s->base.files, &s->pictures)))
        return st;
    source->kind = YK_ROWS_SPARSE;
    source->dim = (size_t)s->keys.features;
    if (s->pictures.on) {
        yk__pictures_shape(source, &s->pictures.form);
        source->classes = s->pictures.classes;
    }
    return YK_OK;
}

const yk_source_ops yk__tfrecord_source = {
    .name = "tfrecord",
    .usage = "tfrecord:FILES",
    .source_size = sizeof(tfr_source),
    .reader_size = sizeof(tfr_reader),
    .open = tfr_open,
    .free = yk__file_free,
    .reader_open = tfr_reader_open,
    .reader_close = tfr_reader_close,
    .next = tfr_next,
};
