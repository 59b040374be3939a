/* Parts of a data set, so that one file gives training and test data: `?split=0.9` has the rows whose hash is in [0, 0.9), and
 * `?split=0.9..1` has the others.
 *
 * Example:
 *     yk_spec spec;
 *     yk_status st = yk_spec_parse("clicks.libsvm?split=0.9", &spec);
 *     yk_split_range part = yk_spec_split(&spec);                  // part.on: the option is given
 *     bool is_in = yk_split_has(&part, yk_split_of_row(17));
 *     bool same = yk_split_has(&part, yk_split_of_text("u17", 3)); // by a column: ?split-by=user
 *     yk_spec_fini(&spec);
 *
 * The hash is that of the row's number, counted from 0 over all files in their order. It follows from the data alone: not from
 * blocks, compression, threads, processes or the seed of a run. Lines that are not rows (comments, headers, bad records) have
 * no number. A model is judged on one part after training on another, so the hashes must never change.
 *
 * Blocks are read in any order, so the number of a block's first row must be known: yk__split_number() counts the rows of the
 * blocks before it, when a reader needs that for the first time. Formats count without parsing where they can
 * (yk_source_ops.count). A data set of one block, such as a compressed file or standard input, needs no counting.
 *
 * --validation divides training data in the same way: a yk_hold_out divides the range of the spec, or all rows, in two. The rows
 * that are held back have the highest hashes (0.1: as ?split=0.9..1), or are the last ones in their order (last:0.1), for data
 * that is ordered by time. The latter needs the number of all rows.
 *
 *     yk_hold_out h;
 *     if (yk_hold_out_parse("0.1", &h)) {      // else a spec of its own
 *         yk_source_options rest = {.hold_out = h}, held = {.hold_out = h};
 *         held.hold_out.held = true;
 *     }
 */
#ifndef YK_DATA_SPLIT_H
#define YK_DATA_SPLIT_H

#include "base/rng.h"
#include "data/spec.h"

typedef struct {
    bool on;           /* else all rows are in it */
    double begin, end; /* hashes in [begin, end), as fractions of their range */
    bool ordered;      /* the same for row numbers: first to last - 1, once all rows were counted */
    uint64_t first, last;
} yk_split_range;

typedef struct {
    double fraction; /* of the rows; 0: none */
    bool last;       /* the last rows, rather than those with the highest hashes */
    bool held;       /* the rows that are held back, rather than the others */
} yk_hold_out;

/* "0.1" or "last:0.1"; false: another text, or a fraction that is not between 0 and 1. */
bool yk_hold_out_parse(const char *text, yk_hold_out *out);

yk_split_range yk_spec_split(yk_spec *spec);

/* The hash of a value, given as text: equal values have equal hashes, whatever the format. */
uint64_t yk_split_of_text(const char *text, size_t n);

static inline uint64_t yk_split_of_row(uint64_t number)
{
    return yk_mix64(yk_mix64(number + 0x9e3779b97f4a7c15u) + 0x73706c6974u);
}

static inline bool yk_split_has(const yk_split_range *part, uint64_t hash)
{
    const double at = (double)(hash >> 11) * 0x1p-53; /* exact */
    return !part->on || (at >= part->begin && at < part->end);
}

static inline bool yk_split_has_row(const yk_split_range *part, uint64_t number)
{
    return part->ordered ? number >= part->first && number < part->last
                         : yk_split_has(part, yk_split_of_row(number));
}

#endif
