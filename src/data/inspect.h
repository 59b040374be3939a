/* Statistics of a data set, from one pass over all of it (`yoke data inspect`).
 *
 * Example:
 *     yk_inspection i;
 *     st = yk_inspect(source, YK_SPLIT_TRAIN, 3, &i);      // copies the first 3 rows
 *     show(i.examples, i.classes, i.ranking.distinct);
 *     yk_inspection_fini(&i);                              // before the source is freed
 *
 * The source is read block by block: memory depends on the numbers of classes and columns, not of examples. A binary cache
 * is verified first (checksums, finite values, order), which loading it for training skips. Bad records are skipped as by
 * any reader (--skip-bad). A data set without examples is YK_EDATA.
 *
 * The inspection refers to the source, which must outlive it. Not thread-safe.
 */
#ifndef YK_DATA_INSPECT_H
#define YK_DATA_INSPECT_H

#include "data/keycount.h"
#include "data/schema.h"
#include "data/source.h"

/* ---- the distribution of a quantity whose range is not known in advance */

#define YK_DISTRIBUTION_BINS ((size_t)1 << 17)

/* A histogram. Bin i counts values in [k * width, (k + 1) * width) for k = i - YK_DISTRIBUTION_BINS / 2. A value outside of all bins
 * doubles the width. */
typedef struct {
    uint64_t n;
    double sum, min, max;
    double width; /* a power of two */
    uint64_t *bin;
} yk_distribution;

/* A bar of a plot: n values in [from, to). The last bar of a long tail has an infinite `to`. */
typedef struct {
    double from, to;
    uint64_t n;
} yk_bar;

yk_status yk_distribution_init(yk_distribution *s, double width);
void yk_distribution_fini(yk_distribution *s);              /* zeroed is fine */
void yk_distribution_add(yk_distribution *s, double value); /* must be finite */

/* The lower end of the bin that holds the quantile. */
double yk_distribution_quantile(const yk_distribution *s, double fraction);

/* Divides the values into at most `max` (at least 2) bars of equal width, a power of two. If the largest 0.1 % of the values
 * are far away, they share the last bar. Returns the number of bars. */
size_t yk_distribution_bars(const yk_distribution *s, size_t max, yk_bar *out);

/* ---- the inspection */

#define YK_INSPECT_CUTS 4

/* ranking.sum[i] counts the entries of the yk_inspect_cut[i] most frequent features: 10, 100, 1000, 10000. */
extern const uint64_t yk_inspect_cut[YK_INSPECT_CUTS];

enum { YK_INSPECT_ROWS = 100000, YK_INSPECT_EXAMPLES = 3 };

/* A column of a table, in its first YK_INSPECT_ROWS rows. */
typedef struct {
    const char *type; /* borrowed: a constant */
    uint64_t missing;
    yk_schema_values seen;              /* seen.n distinct values */
    char *example[YK_INSPECT_EXAMPLES]; /* the first values, at most 48 bytes each; NULL: fewer */
} yk_inspected_column;

typedef struct {
    const yk_source *source; /* borrowed */
    yk_split split;          /* which one was read, if it has both */
    bool has_truth;          /* generated: the probabilities of the labels are known */
    bool verified;           /* a cache whose checksums are correct */

    uint64_t examples;
    uint64_t bad;   /* skipped */
    size_t columns; /* of the source, or 1 + the largest index */

    size_t classes;        /* 1 + the largest label, or the source's if more; 0: numbers, or no labels */
    uint64_t *class_count; /* [classes] */
    size_t majority;       /* the most frequent class */
    bool numbers;          /* labels are numbers; else the next ones are not finite */
    double label_min, label_max, label_mean;

    /* Values: pixels as bytes (0 to 255), floats; sparse rows: only stored entries. */
    uint64_t entries;
    double min, max, mean, deviation;
    uint64_t zeros;
    bool ones;   /* all are 1 */
    float scale; /* pixels: the factor from byte to value */

    /* Sparse rows */
    uint64_t empty;                /* rows without entries */
    uint32_t index_min, index_max; /* 0 if there are no entries */
    uint32_t fields;               /* 1 + the largest field number; 0: none */
    yk_key_ranking ranking;

    yk_distribution histogram; /* sparse: entries per row; dense: mean of a row */
    yk_rows first;
    /* [ntable] the columns of the schema, if the source was opened with carry "*"; else NULL. Of the source's arena */
    yk_inspected_column *table;
    size_t ntable;
    double seconds;
} yk_inspection;

yk_status yk_inspect(yk_source *s, yk_split split, size_t first, yk_inspection *out);
void yk_inspection_fini(yk_inspection *i);

#endif
