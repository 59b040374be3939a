/* A source yields the examples of one data set, block by block. Which format it is, is known only in here.
 *
 *     yk_source *s;
 *     st = yk_source_open("tfrecord:clicks/part-*", YK_SPLIT_TRAIN, &options, &s);
 *     for (size_t b = 0; b < s->nblocks; b++) {
 *         yk_reader *r;
 *         st = yk_source_read(s, b, &r);
 *         while (!(st = yk_reader_next(r, &rows, 4096, &got)) && got) ...   // appends up to 4096 examples
 *         yk_reader_free(r);
 *     }
 *     yk_source_free(s);
 *
 * A block is a part of the data that can be read on its own: about a megabyte of a plain file, a whole compressed
 * file, or a run of generated examples. The blocks in order hold every example exactly once. Several readers may be
 * at work at a time, each used by one thread.
 *
 * A spec is `format:where?key=value&key=value`; a bare path is recognised by its content.
 */
#ifndef YK_DATA_SOURCE_H
#define YK_DATA_SOURCE_H

#include "base/rows.h"
#include "base/status.h"
#include "data/spec.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    YK_SPLIT_TRAIN,
    YK_SPLIT_TEST
} yk_split; /* which half of a set that has two (idx, synth, cifar10) */

typedef struct yk_source yk_source;
typedef struct yk_reader yk_reader;

/* Which field numbers the rows shall carry (base/rows.h). */
typedef enum {
    YK_FIELDS_NONE,   /* none: the model has no use for them */
    YK_FIELDS_STORED, /* those that the data has: libffm, the binary cache */
    YK_FIELDS_ALL     /* also those that follow from the format: Criteo's columns */
} yk_fields;

typedef struct {
    uint64_t skip_bad;  /* --skip-bad N: so many bad records may be skipped and counted */
    unsigned hash_bits; /* --hash-bits: keys are hashed into 2^bits features; 0: the format's default */
    uint64_t
        features; /* --features N: columns of the model; 0: found from the data. With hash_bits: hashed into N */
    yk_fields fields;
} yk_source_options;

/* A format. A source of that format embeds yk_source as its first member, a reader yk_reader. Both begin as zeros, but for
 * those. Verbs marked with * may be NULL; free() and reader_close() come also after a failed open. */
typedef struct {
    const char *name, *usage;        /* "tfrecord", "tfrecord:FILES" */
    bool has_test;                   /* every set of this format has a test half */
    size_t source_size, reader_size; /* bytes */
    yk_status (*open)(yk_source *s, const yk_spec *spec, yk_split split, const yk_source_options *o);
    void (*free)(yk_source *s);             /* * what the source holds, not the source itself */
    yk_status (*reader_open)(yk_reader *r); /* * */
    void (*reader_close)(yk_reader *r);     /* * */
    yk_status (*next)(yk_reader *r, yk_rows *rows, size_t max, size_t *got_out);
    void (*file)(const yk_reader *r, size_t i, char *path,
                 size_t size);               /* * sources with a file for each example */
    yk_status (*verify)(const yk_source *s); /* * checks what opening leaves out: every checksum */
} yk_source_ops;

struct yk_source {
    const yk_source_ops *ops;
    char *
        spec; /* as given, for messages and the run's configuration; set and freed by yk_source_open() and _free() */
    yk_rows_kind kind;
    size_t nblocks;
    uint64_t bytes;                 /* to be read, 0 for generated data */
    uint64_t files, disk_bytes;     /* that it is made of; 0: none, or not known */
    uint64_t examples;              /* 0: not known without reading */
    size_t dim;                     /* columns; 0: not known without reading (sparse files) */
    uint32_t classes;               /* 0: not known without reading */
    size_t height, width, channels; /* images; 0 otherwise */
    yk_rows *cached; /* all rows at once where they are in memory (idx, binary cache); borrowed. Else NULL */
    bool read_only;  /* the cached rows are somebody else's: they must not be modified */
    bool has_test;   /* the set has a test half of its own */
    uint64_t skip_bad;
    atomic_uint_fast64_t
        bad;            /* different records skipped so far: another pass over the data counts none again */
    uint64_t *bad_seen; /* [bad_cap] which ones: a hash table that yk_source_bad() keeps */
    size_t bad_cap;
};

struct yk_reader {
    yk_source *source;
    size_t block;
};

yk_status yk_source_open(const char *spec, yk_split split, const yk_source_options *options, yk_source **out);
void yk_source_free(yk_source *s); /* NULL is fine */

yk_status yk_source_read(yk_source *s, size_t block, yk_reader **out);

/* Appends up to `max` examples to `rows`, which is of the source's kind; *got_out is 0 at the block's end. */
yk_status yk_reader_next(yk_reader *r, yk_rows *rows, size_t max, size_t *got_out);
void yk_reader_free(yk_reader *r); /* NULL is fine */

/* All examples in order, some thousand at a time. */
typedef yk_status yk_visitor(void *context, const yk_rows *rows);
yk_status yk_source_each(yk_source *s, yk_visitor *visit, void *context);

/* The file of example `i` of those that the last yk_reader_next() gave, cut off where `size` is too small; false: the format
 * has no file for each. */
bool yk_reader_file(const yk_reader *r, size_t i, char *path, size_t size);

/* Whether the set has a test half of its own (idx, cifar10, synth): then --test may be left out. */
bool yk_source_has_test_split(const yk_source *s);

/* For formats: a bad record was met. Counts it and returns YK_OK while --skip-bad allows it (the record is then
 * skipped); otherwise YK_EDATA with the text: file, record, byte offset and reason. Records of a file count from 1;
 * UINT64_MAX where the number is not known. */
yk_status yk_source_bad(yk_source *s, const char *file, uint64_t record, uint64_t offset, const char *reason,
                        ...) __attribute__((format(printf, 5, 6), cold));

#endif
