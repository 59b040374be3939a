/* Internal to data/: what several formats share. To add a format, write a file with a yk_source_ops named yk__NAME_source, and
 * add its name to the list in source.c.
 *
 * Functions named `open` find the spec in s->parsed, whose `where` is the part without "format:" and options; yk_spec_u64() and
 * the like read the options of the spec, and s->options has those of the caller. They set the members of yk_source that are known without reading (kind, dim, classes, examples);
 * others stay 0. Readers run in the threads that use them.
 */
#ifndef YK_DATA_FORMATS_H
#define YK_DATA_FORMATS_H

#include "data/files.h"
#include "data/source.h"
#include "format/input.h"

/* How keys are mapped to columns: by the options `features` and `bits` of the spec, or else by --features and --hash-bits, or else
 * as in a model. --features takes precedence over --hash-bits. By default, keys are hashed into 2^default_bits columns; 0: not
 * hashed. */
yk_key_space yk__spec_keys(yk_source *s, unsigned default_bits, uint64_t max);

/* The option `fields`, for formats whose field numbers follow from the format: whether rows get them. */
bool yk__spec_fields(yk_source *s);

/* The option `fields=one` or `fields=position`, for formats whose rows may have no field numbers: sets s->positions.
 * Returns whether rows may have field numbers: false with `one`, or if the model does not use them. Call it after
 * hashed_into is known. */
bool yk__spec_positions(yk_source *s);

/* The largest value of the option `nfields`, the exclusive upper bound of field numbers. */
enum { YK__MAX_FIELDS = UINT16_MAX + 1 };

/* source.c: opens a source of a format, and takes the spec if that succeeds. */
yk_status yk__source_create(const yk_source_ops *ops, yk_spec *spec, yk_split split,
                            const yk_source_options *o, yk_source **out);

/* The label of a row, and its weight. */
typedef struct {
    int32_t label;
    float target, weight; /* target: the label as a number */
} yk__label;

/* Adds the reserved row (yk_rows_commit()). numbers: its label is the target. */
static inline yk_status yk__commit(yk_rows *rows, size_t entries, const yk__label *of, bool numbers)
{
    yk_status st = yk_rows_commit(rows, entries, of->label);
    if (!st && (rows->weight || of->weight != 1.0f))
        st = yk_rows_set_weight(rows, of->weight);
    return st || !numbers ? st : yk_rows_set_target(rows, of->target);
}

/* source.c: a reader of all rows of a block, in the part or not; its next rows. */
yk_status yk__reader_open(yk_source *s, size_t block, yk_reader **out);
yk_next yk__reader_next;
/* Visits the rows of a reader, a few thousand at a time. */
yk_status yk__reader_each(yk_reader *r, yk_next *next, yk_visitor *visit, void *context);

/* split.c: divides the part of a spec. */
yk_status yk__split_hold_out(const yk_spec *spec, const yk_hold_out *h, yk_split_range *part);

/* split.c: the number of the first row of a block, which also completes an ordered part; the rows of a reader that are in the
 * part; a source whose number of examples is that of all rows, or 0, gets that of its part, and no rows in place. */
yk_status yk__split_number(yk_source *s, size_t block, uint64_t *row_out);
yk_status yk__split_next(yk_reader *r, yk_rows *rows, size_t max, size_t *got_out);
void yk__split_apply(yk_source *s);

yk_status yk__fail_empty(const yk_source *s); /* YK_EDATA: the source has no examples */

/* hashed.c: writes base + yk_key_id(hash[i], features) for all i to `out`, sorted, each index once. Returns their number.
 * Changes the order of hash[]. */
size_t yk__sort_hashes(uint64_t *hash, size_t n, uint64_t features, uint32_t base, uint32_t *out);
/* hashes with anything in their lower bits */
void yk__sort_words(const uint64_t *word, size_t n, uint64_t *out);

/* ---- readers.c: the shape of a source */

/* Rows are images of bytes: sets kind, dim, height, width and channels. */
void yk__set_images(yk_source *s, size_t height, size_t width, size_t channels);
/* The number of rows is known: sets examples, rows, block_rows and nblocks. */
void yk__set_rows(yk_source *s, uint64_t rows, uint64_t block_rows);

/* ---- readers.c: sources of files in blocks */

/* Divides s->files, which the caller has found, into blocks. */
yk_status yk__file_blocks(yk_source *s, uint64_t block_bytes);
/* Starts reading that many bytes before the block. */
yk_status yk__file_reader_open(yk_reader *r, uint64_t bytes_before);

/* ---- readers.c: sources that have all rows in memory. A reader copies a block of them. */

/* Sets kind, examples, columns, the number of blocks and yk_source.memory. */
void yk__cached_open(yk_source *s, const yk_rows *rows);

/* The next rows of the block, at most `max`: returns their number. */
size_t yk__cached_part(yk_reader *r, size_t max, size_t *first_out);

/* `next` of a source with yk_source.memory. */
yk_status yk__cached_next(yk_reader *reader, yk_rows *rows, size_t max, size_t *got_out);

#endif
