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
#include "data/files.h"
#include "data/formats.h"
#include "data/tfrecord_pictures.h"
#include "format/example.h"
#include <stdlib.h>

#define COUNT_MOST                                                                                           \
    ((uint64_t)4 << 30) /* further into a file, counting its records only for a message takes too long */
#define BAD_SHOWN 3     /* skipped records that are told one by one, as in source.c */

typedef struct {
    yk_source base;
    yk_files files;
    uint64_t features;
    yk__tfr_pictures pictures;
} tfr_source;

typedef struct {
    yk_reader base;
    yk_input *in;
    const yk_file_block *block;
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
    yk_source *s = r->base.source;
    uint64_t skipped = atomic_load(&s->bad), number = r->records;
    if (r->block->begin > 0)
        number =
            skipped < BAD_SHOWN || skipped >= s->skip_bad ? count_up_to(r->block->path, offset) : UINT64_MAX;
    return yk_source_bad(s, r->block->path, number, offset, "%s", reason);
}

/* The input failed: where a compressed file is damaged, that is a bad record and the end of the file. */
static yk_status broken_input(tfr_reader *r, yk_status st)
{
    r->ended = true;
    r->records++;
    return st == YK_EDATA ? bad_record(r, yk_input_offset(r->in), yk_input_reason(r->in)) : st;
}

/* At the block's end: is there a record that the next block will find? */
static yk_status check_behind(tfr_reader *r)
{
    bool here;
    yk_tfr rec;
    yk_status st = yk_tfr_here(r->in, &here);
    r->ended = true;
    if (!st && !here)
        st = yk_tfr_next(r->in, &rec);
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
            return yk_fail(YK_EDATA, "%s: is empty", r->block->path);
        return YK_OK;
    }
    r->records++;
    yk_status st = bad_record(r, rec->offset, rec->reason);
    bool found = rec->kind == YK_TFR_BAD_DATA; /* its length is right: the next record follows */
    if (!st && rec->kind == YK_TFR_BAD_LENGTH) {
        yk_input_skip(r->in, 1);
        if ((st = yk_tfr_resync(r->in, r->block->end, &found)))
            return broken_input(r, st);
    }
    r->ended = !found;
    return st;
}

static yk_status decode(tfr_reader *r, const yk_tfr *rec, yk_rows *rows)
{
    const tfr_source *s = (const tfr_source *)r->base.source;
    if (!r->decoder)
        return yk_example_decode(rec->data, rec->size, s->features, rows);
    return yk__tfr_pictures_add(&s->pictures, r->decoder, rec->data, rec->size, rows);
}

static yk_status tfr_next(yk_reader *reader, yk_rows *rows, size_t max, size_t *got_out)
{
    tfr_reader *r = (tfr_reader *)reader;
    uint64_t end = r->block->end;
    size_t got = 0;
    yk_status st = YK_OK;
    while (got < max && !r->ended && !st) {
        yk_tfr rec;
        if (yk_input_offset(r->in) >= end) {
            st = check_behind(r);
            break;
        }
        if ((st = yk_tfr_next(r->in, &rec))) {
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
                st = yk_fail(st, "%s: at byte %llu: %s", r->block->path, (unsigned long long)rec.offset,
                             yk_error());
        }
    }
    *got_out = got;
    return st;
}

static void tfr_reader_free(yk_reader *reader)
{
    tfr_reader *r = (tfr_reader *)reader;
    yk_image_decoder_free(r->decoder);
    yk_input_free(r->in);
    free(r);
}

static yk_status tfr_read(yk_source *source, size_t block, yk_reader **out)
{
    tfr_source *s = (tfr_source *)source;
    tfr_reader *r = calloc(1, sizeof *r);
    if (!r)
        return yk_fail_memory(sizeof *r, "a reader");
    r->base = (yk_reader){source, block};
    r->block = &s->files.block[block];
    yk_status st = yk_input_open(r->block->path, r->block->begin, &r->in);
    if (st) {
        free(r);
        return st;
    }
    yk_input_expect(r->in, r->block->end);
    bool found = true;
    if (s->pictures.on)
        st = yk_image_decoder_create(&r->decoder);
    if (!st && r->block->begin > 0)
        st = yk_tfr_resync(r->in, r->block->end, &found);
    if (st) {
        tfr_reader_free(&r->base);
        return st;
    }
    r->ended = !found;
    *out = &r->base;
    return YK_OK;
}

static void tfr_free(yk_source *source)
{
    tfr_source *s = (tfr_source *)source;
    yk_files_fini(&s->files);
    free(s);
}

static const yk_source_ops tfr_ops = {
    .name = "tfrecord",
    .reader = tfr_read,
    .next = tfr_next,
    .reader_free = tfr_reader_free,
    .free = tfr_free,
};

yk_status yk_tfrecord_open(const yk_spec *spec, yk_split split, const yk_source_options *o, yk_source **out)
{
    (void)split;
    uint64_t features, block;
    yk_status st = yk_spec_check(spec, "features block " YK__TFR_PICTURES_KEYS);
    if (!st)
        st = yk_spec_u64(spec, "features", o->features, 1, YK_EXAMPLE_INDICES, &features);
    if (!st)
        st = yk_spec_u64(spec, "block", YK_BLOCK_BYTES, 1, UINT64_MAX, &block);
    if (st)
        return st;
    tfr_source *s = calloc(1, sizeof *s);
    if (!s)
        return yk_fail_memory(sizeof *s, "a source");
    s->base.ops = &tfr_ops;
    if ((st = yk_files_find(spec->where, &s->files)) || (st = yk_files_blocks(&s->files, block, true)) ||
        (st = yk__tfr_pictures_open(spec, &s->files, &s->pictures))) {
        tfr_free(&s->base);
        return st;
    }
    s->features = features;
    s->base.kind = YK_ROWS_SPARSE;
    s->base.nblocks = s->files.nblocks;
    s->base.bytes = s->files.bytes;
    s->base.dim = (size_t)features;
    if (s->pictures.on) {
        yk__pictures_shape(&s->base, &s->pictures.form);
        s->base.classes = s->pictures.classes;
    }
    *out = &s->base;
    return YK_OK;
}
