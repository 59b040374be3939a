/* A data set made ready: in memory where it fits, else streamed from its source.
 *
 *     yk_dataset d;
 *     st = yk_dataset_open(spec, YK_SPLIT_TRAIN, &options, YK_STREAM_AUTO, &d);
 *     d.rows                       // all rows, or NULL when it is streamed
 *     yk_dataset_fini(&d);
 */
#ifndef YK_DATA_DATASET_H
#define YK_DATA_DATASET_H

#include "base/keymap.h"
#include "data/source.h"

/* Shape: nothing is read that need not be; columns and classes that are not known without are 0. */
typedef enum { YK_STREAM_AUTO, YK_STREAM_ALWAYS, YK_STREAM_NEVER, YK_STREAM_SHAPE } yk_stream_choice;

typedef struct {
    yk_source *source;
    yk_rows *rows; /* &loaded, or the source's own; NULL when streamed */
    yk_rows loaded;
    bool
        mixed; /* rows were put into a random order when they were loaded: neighbours in memory have nothing in common */
    yk_rows_kind kind;
    size_t dim;       /* columns: as given, or 1 + the largest index seen (streams: in a first pass) */
    uint32_t classes; /* at least 2 */
    uint64_t examples;
} yk_dataset;

/* Streams whose number of columns nobody gave are read once beforehand to find it. */
yk_status yk_dataset_open(const char *spec, yk_split split, const yk_source_options *options,
                          yk_stream_choice stream, yk_dataset *out);
/* The same of an open source, which is taken: the data set frees it, also after a failure. */
yk_status yk_dataset_take(yk_source *s, yk_split split, yk_stream_choice stream, yk_dataset *out);
void yk_dataset_fini(yk_dataset *d);

/* Several processes hold the same training data in memory: each reads one part of the files, and gather() makes the rows of its
 * part those of all parts, in order. Set before anything is opened; NULL: this process is alone. */
typedef struct {
    int here; /* processes of this machine: what fits into its memory is divided by it */
    int part, parts;
    yk_status (*gather)(void *context, yk_rows *rows);
    void *context;
} yk_dataset_party;

void yk_dataset_with(const yk_dataset_party *others);

/* Up to `most` rows from all over the set, for counting keys; `out` is initialised here. */
yk_status yk_dataset_sample(yk_dataset *d, size_t most, yk_rows *out);

/* Renames the keys of rows in memory; streams are renamed as they are read (feed.h). */
yk_status yk_dataset_rename(yk_dataset *d, const yk_keymap *map);

/* Streams, before they are renamed: whether rows that were just read have no more columns and classes than a first pass,
 * --features or the format promised; models have no room for more. */
yk_status yk_dataset_check(const yk_dataset *d, const yk_rows *rows);

#endif
