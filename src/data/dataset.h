/* A data set that is ready for training: a source loaded into memory if it fits, otherwise streamed.
 *
 * Example:
 *     yk_dataset d;
 *     st = yk_dataset_open("synth:digits", YK_SPLIT_TRAIN, &options, YK_STREAM_AUTO, &d);
 *     use(d.rows);                                  // all rows; NULL: streamed, read d.source
 *     yk_dataset_fini(&d);
 *
 * The data set owns its source and its rows. One thread opens it; any thread may then read the rows.
 */
#ifndef YK_DATA_DATASET_H
#define YK_DATA_DATASET_H

#include "core/keymap.h"
#include "data/source.h"

/* SHAPE: opens the source but reads no examples; columns and classes are 0 if they depend on the examples. */
/* COUNT: the same, but reads what they depend on, as if for training; the data set must not be used for it. */
typedef enum {
    YK_STREAM_AUTO,
    YK_STREAM_ALWAYS,
    YK_STREAM_NEVER,
    YK_STREAM_SHAPE,
    YK_STREAM_COUNT
} yk_stream_choice;

typedef struct {
    yk_source *source;
    yk_rows *rows; /* &loaded, or the source's own; NULL when streamed */
    yk_rows loaded;
    bool shuffled; /* the rows were put into random order when they were loaded: neighbors are unrelated */
    yk_rows_kind kind;
    size_t dim;       /* columns: as given, or 1 + the largest index seen (streams: in a first pass) */
    uint32_t classes; /* at least 2 */
    uint32_t fields; /* exclusive upper bound of field numbers: as given, or from the largest seen; 1: none */
    bool positional; /* the fields are positions (positions.h) */
    uint64_t examples;
} yk_dataset;

/* A stream whose number of columns is not given is read once to find it. */
yk_status yk_dataset_open(const char *spec, yk_split split, const yk_source_options *options,
                          yk_stream_choice stream, yk_dataset *out);
/* The same for an open source. The data set takes ownership of the source and frees it, even after a failure. */
yk_status yk_dataset_take(yk_source *s, yk_split split, yk_stream_choice stream, yk_dataset *out);
void yk_dataset_fini(yk_dataset *d);

/* For several processes that hold the same training data in memory: each reads one part of the files, and gather() replaces
 * the rows of that part with the rows of all parts, in order. Applies to data sets that this thread opens later; NULL: this
 * process reads everything. */
typedef struct {
    int here; /* processes on this host, which share its memory */
    int part, parts;
    yk_status (*gather)(void *context, yk_rows *rows);
    void *context;
} yk_dataset_partition;

void yk_dataset_set_partition(const yk_dataset_partition *others);

/* Rows that are used in place (of a binary cache) keep the order of the file. Puts a copy of them into random order, like other
 * sparse rows; does nothing if they are. can: whether they are, or there is memory for the copy. */
bool yk_dataset_can_shuffle(const yk_dataset *d);
yk_status yk_dataset_shuffle(yk_dataset *d);

/* Samples up to `max` rows from all parts of the data, for counting keys; none if standard input is streamed. Initializes
 * `out`. */
yk_status yk_dataset_sample(yk_dataset *d, size_t max, yk_rows *out);

/* Remaps the keys of rows in memory. Streams are remapped as they are read (feed.h). */
yk_status yk_dataset_remap_keys(yk_dataset *d, const yk_keymap *map);

/* For streams, before keys are remapped: checks that newly read rows have no more columns and classes than expected,
 * because the model has no parameters for more. */
yk_status yk_dataset_check(const yk_dataset *d, const yk_rows *rows);

#endif
