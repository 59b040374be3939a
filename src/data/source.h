/* A source yields the examples of a data set, block by block, independent of its format.
 *
 * Example:
 *     yk_source *s;
 *     st = yk_source_open("tfrecord:clicks/part-*", YK_SPLIT_TRAIN, &options, &s);
 *     for (size_t b = 0; b < s->nblocks; b++) {
 *         yk_reader *r;
 *         size_t got = 1;
 *         st = yk_source_read(s, b, &r);
 *         while (!st && got)
 *             st = yk_reader_next(r, &rows, 4096, &got);            // appends up to 4096 examples
 *         yk_reader_free(r);
 *     }
 *     yk_source_free(s);
 *
 * A block is a part of the data that can be read independently: about a megabyte of a plain file, a whole compressed file,
 * or a range of generated examples. The blocks in order contain every example exactly once. Several readers of a source may
 * work at the same time, each in one thread.
 *
 * A spec is `format:where?name=value&name=value`; the format of a bare path is detected from its content.
 */
#ifndef YK_DATA_SOURCE_H
#define YK_DATA_SOURCE_H

#include "base/arena.h"
#include "base/text.h"
#include "core/rows.h"
#include "data/files.h"
#include "data/positions.h"
#include "data/schema.h"
#include "data/spec.h"
#include "data/split.h"
#include <stdatomic.h>

typedef enum {
    YK_SPLIT_TRAIN,
    YK_SPLIT_TEST
} yk_split; /* for data sets that have both (idx, synth, cifar10, images) */

typedef struct yk_source yk_source;
typedef struct yk_reader yk_reader;
struct yk_text_reader;

/* Which field numbers the rows get (core/rows.h). */
typedef enum {
    YK_FIELDS_NONE, /* none: the model does not use them */
    YK_FIELDS_STORED, /* those that are in the data: libffm, TFRecords, the binary cache; others with ?fields=1 */
    YK_FIELDS_ALL /* also those that follow from the format: columns (criteo, csv), groups of features (synth:ctr) */
} yk_fields;

/* Finds the names of hashed features: readers of csv, parquet, vw, criteo, libsvm and libffm call add() for each occurrence of a
 * wanted feature, with its name: COLUMN, SEPARATOR, VALUE. One thread at a time may read. */
typedef struct {
    const uint32_t *wanted; /* [features] not 0: its name is wanted; NULL: none are */
    void (*add)(void *context, uint32_t feature, const char *column, size_t n, char separator,
                const char *value, size_t m);
    void *context;
} yk_feature_names;

typedef struct {
    uint64_t skip_bad;  /* --skip-bad N: skips up to N bad records */
    bool unlabeled;     /* for predictions: rows without a label are not bad */
    bool numbers;       /* labels are numbers: rows get targets (core/rows.h) */
    bool two_classes;   /* the model has one output: the number of classes need not be found */
    unsigned hash_bits; /* --hash-bits B: hashes keys into 2^B features; 0: the default of the format */
    uint64_t features;  /* --features N: columns, with hash_bits the range of the hash; 0: from the data */
    /* of a model: what neither the spec nor the two above say. Not hashed: the limit of indices; 0: none */
    yk_key_space keys;
    yk_hold_out hold_out;
    bool in_order;   /* --no-shuffle: loaded rows stay in order */
    bool shape_only; /* the examples are not used: they need not be checked */
    yk_fields fields;
    /* The schema of a model: columns and encodings are those (tabular.h). Borrowed: it must outlive the source. NULL: none */
    const struct yk_schema *schema;
    const struct yk_schema *images; /* the same, for the size of images, and for options of its format */
    /* "id,city", or "*" for all: columns of a table whose texts are needed with the rows (yk_reader_cell). NULL: none */
    const char *carry;
    bool inspects; /* yoke data inspect: a label, and roles of columns with texts, need not be given */
    const yk_feature_names *names; /* must outlive the source; NULL: names are not wanted */
    bool bits_from_rows; /* training data: the default number of hash bits depends on the number of rows */
    const void *from; /* the data of the caller: yk_source_from_frame() and yk_source_from_memory() set it */
    struct yk_fit *fit; /* of a table: gets the cells of all rows, for statistics (tabular.h). NULL: none */
    /* The model needs fields: a data set without field numbers gets them by position, or is refused. NULL: it has one field. */
    yk_positions *positions;
} yk_source_options;

typedef yk_status yk_next(yk_reader *r, yk_rows *rows, size_t max, size_t *got_out);

/* A format. Its sources embed yk_source as their first member, its readers yk_reader; other members start as zeros. Functions
 * marked with * may be NULL. free() and reader_close() are also called after a failed open. */
typedef struct {
    const char *name, *usage;        /* "tfrecord"; * "tfrecord:FILES" */
    const char *options;             /* * options of a spec: "bits features"; NULL: open() checks them */
    const char *kept;                /* * those that other data of a model needs, too: yk_spec_kept() */
    const char *record;              /* * word for a record in messages; NULL: "record" */
    bool two_sets;                   /* may have a test set of its own */
    bool by_number;                  /* records are identified by their numbers: offsets are those of pages */
    bool has_paths;                  /* the only text that readers carry is the file of an example */
    bool has_texts;                  /* readers can carry texts: yk_source_options.carry */
    size_t source_size, reader_size; /* * bytes; 0: those of yk_source and yk_reader, or of yk_text_reader */
    bool (*has_directory)(const char *path); /* * the directory has files of this format */
    yk_status (*open)(yk_source *s);
    void (*free)(yk_source *s);             /* * frees the members, not the source itself */
    yk_status (*reader_open)(yk_reader *r); /* * */
    void (*reader_close)(yk_reader *r);     /* * */
    /* * At the end of a block: YK_EDATA if the file has changed; not needed for yk_reader.in. */
    yk_status (*reader_check)(const yk_reader *r);
    /* Adds the next row, or nothing: a bad record that is skipped. Sets yk_reader.ended at the end of the block. */
    yk_status (*row)(yk_reader *r, yk_rows *rows);
    yk_next *next; /* instead of `row`: several rows at a time */
    /* * Text (text.h), which can also be read from standard input: adds the example of the line to rows, or nothing (a bad record that
     * is skipped). */
    yk_status (*parse)(struct yk_text_reader *r, const char *line, size_t length, yk_rows *rows);
    /* * Text: neither empty nor a comment; NULL: all lines are */
    bool (*is_row)(const char *line, size_t length);
    yk_status (*verify)(const yk_source *s); /* * checks more than open() does */
} yk_source_ops;

struct yk_source {
    const yk_source_ops *ops;
    yk_next *next;             /* the rows of its readers */
    yk_source_options options; /* texts are valid until it is open */
    yk_split split;
    const char *spec; /* as given; memory: its name */
    yk_spec parsed;   /* owned, with `spec` and the texts of options; empty without a spec */
    const char *kept; /* yk_spec_kept(), for other data of the model */
    yk_rows_kind kind;
    size_t nblocks;
    yk_files files;    /* of a format with files: owned. Else none */
    yk_arena arena;    /* of the format: freed with the source */
    yk__names names;   /* of classes or namespaces: owned. Else none */
    bool quoted;       /* text: line breaks between double quotes are part of a line; a file is one block */
    uint64_t examples; /* of the part; 0: not known without reading */
    uint64_t rows, block_rows; /* of all data, and of all blocks but the last; 0: not known without reading */
    size_t dim;                /* columns; 0: not known without reading (sparse files) */
    uint32_t classes;          /* 0: not known without reading */
    uint32_t fields;           /* exclusive upper bound of field numbers; 1: rows have none. 0: not known */
    yk_positions *positions;   /* for rows without field numbers; NULL: these are all in one field */
    bool by_position;          /* as requested: readers number the fields by position */
    yk_positions own_positions;     /* used if the caller has none */
    uint64_t hashed_into;           /* columns that keys are hashed into; 0: not hashed */
    bool may_have_hashes;           /* the column numbers in the file may be hashes already (binary cache) */
    const struct yk_schema *schema; /* of a table; NULL: another format */
    /* [classes]; NULL or empty: classes have no names. Owned by the schema or the format */
    const yk__names *class_names;
    size_t ncarry;                  /* columns of yk_source_options.carry; 0: none */
    size_t height, width, channels; /* images; 0 otherwise */
    const char *fit;                /* how images are scaled; NULL: they are not. Static */
    yk_split_range part;            /* the rows that readers return, by their number */
    uint64_t *first_row;   /* [nblocks] the number of the first row of each block; NULL: not counted */
    const yk_rows *memory; /* all rows, for readers that copy them (yk__cached_next); borrowed. Else NULL */
    yk_rows *cached; /* the same, if they can be used in place (idx, binary cache); borrowed. Else NULL */
    bool read_only;  /* the cached rows belong to the caller and must not be modified */
    bool mixed;      /* cached sparse rows are in random order, judging by their labels */
    const yk_rows *caller; /* sparse rows of the caller, to be copied as they are. Else NULL */
    bool has_test; /* the data set has a test split (idx, cifar10, images, synth): --test is not needed */
    bool once; /* standard input, or a stream of the caller: it can be read once, and its size is not known */
    atomic_uint_fast64_t bad;  /* distinct records skipped so far: another pass does not count them again */
    yk_schema_values bad_seen; /* hashes of (file, offset) of these */
};

struct yk_reader {
    yk_source *source;
    size_t block;
    yk_arena arena; /* of the format: freed with the reader */
    /* data in files, if opened by yk__file_reader_open() or text.h: */
    yk_input *in;               /* owned */
    const yk_file_block *range; /* the part of a file that the block is */
    /* if known without reading: the numbers of the next row of the block, and of the row after its last one */
    uint64_t at, end;
    bool ended; /* yk_source_ops.row: the block has no more rows */
    /* with a split: */
    uint64_t row;   /* the number of the next row in the data set */
    yk_rows chunk;  /* the rows before it, in the part or not */
    uint32_t *kept; /* [rows that were returned] their indices in the chunk that the format read */
    size_t kept_cap;
    /* with ncarry: the texts of the rows of the last next(), each with a zero byte at its end */
    yk_text texts;
    size_t *cell; /* [ncells] where they begin */
    size_t ncells, cell_cap;
};

yk_status yk_source_open(const char *spec, yk_split split, const yk_source_options *options, yk_source **out);
void yk_source_free(yk_source *s); /* NULL is fine */

/* That of a table, or what is known about other formats: class names, the size of images. The source owns its texts. */
yk_schema yk_source_schema(const yk_source *s);

/* YK_EUSAGE: --hash-bits or --features are given, but have no effect on this data. */
yk_status yk_source_check_keys(const yk_source *s, const yk_source_options *given);

/* YK_EUSAGE: the features of the source are others than those of a model of this format (NULL: not known): columns, indices,
 * or hashes of one of the formats. Binary caches and memory may contain any of them. */
yk_status yk_source_fits(const yk_source *s, const char *format);

yk_status yk_source_read(yk_source *s, size_t block, yk_reader **out);

/* Appends up to `max` examples to `rows`, which must be of the source's kind; *got_out is 0 at the end of the block. */
yk_status yk_reader_next(yk_reader *r, yk_rows *rows, size_t max, size_t *got_out);
void yk_reader_free(yk_reader *r); /* NULL is fine */

/* Visits all examples in order, a few thousand at a time. */
typedef yk_status yk_visitor(void *context, const yk_rows *rows, const yk_reader *reader);
yk_status yk_source_each(yk_source *s, yk_visitor *visit, void *context);

/* The file of example `i` of the last yk_reader_next(); NULL: the format does not have one file per example. Borrowed until the
 * next one. */
const char *yk_reader_file(const yk_reader *r, size_t i);

/* The text of the k-th column of yk_source_options.carry for example `i` of the last yk_reader_next(). Borrowed until the
 * next one. */
const char *yk_reader_cell(const yk_reader *r, size_t i, size_t k);

/* For messages about yk_source.once. */
static inline const char *yk_source_once_name(const yk_source *s)
{
    return s->ops->parse ? "standard input" : "the stream";
}

/* For formats: a hashed feature with its name. */
static inline void yk_source_named(const yk_source *s, uint32_t feature, const char *column, size_t n,
                                   char separator, const char *value, size_t m)
{
    if (s->options.names && s->options.names->wanted && s->options.names->wanted[feature])
        s->options.names->add(s->options.names->context, feature, column, n, separator, value, m);
}

/* For formats: the texts of a row, if the source has ncarry. Begin one, and then set all of its cells, in any order. */
yk_status yk__carry_row(yk_reader *r);
void yk__carry(yk_reader *r, size_t k, const char *text, size_t n);

/* For formats: whether yk_source_bad() would print the number of a record at this offset, so that it is worth counting the
 * records before it. */
bool yk_source_bad_numbered(const yk_source *s, uint64_t offset);

/* For formats: reports a bad record. Returns YK_OK if --skip-bad allows the caller to skip it; otherwise YK_EDATA with file,
 * record, byte offset and reason. Records are numbered from 1 in each file; UINT64_MAX: not known, or there is no offset. */
yk_status yk_source_bad(yk_source *s, const char *file, uint64_t record, uint64_t offset, const char *reason,
                        ...) __attribute__((format(printf, 5, 6), cold));

#endif
