/* What is in a data set: one reading of all of it, and the figures that one wants before training on it.
 *
 *     yk_inspection i;
 *     st = yk_inspect(source, YK_SPLIT_TRAIN, 3, &i);      // keeps the first 3 records
 *     i.examples, i.class_count[c], i.ranking.distinct     // and so on: see below
 *     yk_inspection_fini(&i);
 *
 * The source is read block by block and never held: memory goes by the number of classes and of columns, not of examples.
 * A binary cache is verified first (its checksums, and that all is finite and in order), which loading it for training
 * leaves out. Bad records count as in any reading (--skip-bad). A set without examples is YK_EDATA.
 *
 * The inspection owns what it points to, but for `format`; it does not need the source any more. One thread.
 */
#ifndef YK_DATA_INSPECT_H
#define YK_DATA_INSPECT_H

#include "data/keycount.h"
#include "data/source.h"

/* ---- how a quantity is spread, with nothing known about it beforehand */

#define YK_DISTRIBUTION_BINS ((size_t)1 << 16)

/* Bin i counts what lies in [(low + i) * width, (low + i + 1) * width). What does not fit doubles the width. */
typedef struct {
    uint64_t n;
    double sum, least, most;
    double width; /* a power of two */
    int64_t low;  /* 0, or half of the bins below zero */
    uint64_t *bin;
} yk_distribution;

/* A part of it as people read it: n values in [from, to); the last one of a long tail has no end (to is infinite). */
typedef struct {
    double from, to;
    uint64_t n;
} yk_bar;

yk_status yk_distribution_init(yk_distribution *s, double width, bool below_zero);
void yk_distribution_fini(yk_distribution *s);              /* zeroed is fine */
void yk_distribution_add(yk_distribution *s, double value); /* finite; the caller has seen to it */

double yk_distribution_quantile(const yk_distribution *s,
                                double share); /* the lower end of the bin where it lies */

/* Cuts it into at most `most` (2 at least) bars of one width, a power of two; where a thousandth lies far out, the last bar
 * is all of that. Returns how many there are. */
size_t yk_distribution_bars(const yk_distribution *s, size_t most, yk_bar *out);

/* ---- the inspection */

#define YK_INSPECT_CUTS 4

/* "The 10, 100, 1000, 10000 most frequent features have so many of all entries": ranking.sum[] goes with these. */
extern const uint64_t yk_inspect_cut[YK_INSPECT_CUTS];

typedef struct {
    const char *format; /* borrowed: a constant */
    yk_split split;     /* which half, where has_test */
    yk_rows_kind kind;
    uint64_t files, bytes; /* on disk; 0: none, or not known */
    bool has_test;         /* there is a test half, too */
    bool has_truth;        /* generated: the labels' probabilities are known */
    bool verified;         /* a cache whose checksums are right */

    uint64_t examples;
    uint64_t bad;                   /* skipped */
    size_t columns;                 /* as the source says, or 1 + the largest index */
    size_t height, width, channels; /* 0: no images */

    size_t classes;        /* 1 + the largest label, or what the source says where that is more */
    uint64_t *class_count; /* [classes] */
    size_t majority;       /* the class that has most */

    /* Values: pixels as bytes (0 to 255), floats as they are; of sparse rows the entries that are there. */
    uint64_t entries;
    double least, most, mean, deviation;
    uint64_t zeros;
    bool ones;   /* all are 1 */
    float scale; /* pixels: what a byte is multiplied with */

    /* Sparse rows */
    uint64_t empty;                   /* rows without an entry */
    uint32_t index_least, index_most; /* where there are entries */
    uint32_t fields;                  /* 1 + the largest field number; 0: there are none */
    yk_key_ranking ranking;

    yk_distribution histogram; /* sparse: of the number of entries in a row; dense: of the mean of a row */
    yk_rows first;
    double seconds;
} yk_inspection;

yk_status yk_inspect(yk_source *s, yk_split split, size_t first, yk_inspection *out);
void yk_inspection_fini(yk_inspection *i);

#endif
