/* Examples as plain data: a growable block of rows, and a batch that points into one.
 *
 * Dense rows are [n][dim] of u8 (pixels stay bytes; x = byte * scale) or of f32. Sparse rows are CSR: row r has
 * the entries start[r] .. start[r+1] of index[], value[] and field[]. value is NULL while every value so far is 1, field
 * while no row has field numbers. Within a row entries ascend by (index, field), and no such pair occurs twice. Labels
 * are class numbers from 0; for two classes 0 is "no", 1 is "yes".
 *
 *     start  | 0 | 3 | 5 | ...         n + 1 entries
 *     index  | 7 19 402 | 7 33 | ...   u32, below dim
 *     value  | 1.  .5 2. | 1. 1. | ... f32, or NULL
 *     field  | 0   0   3 | 1  2  | ... u16, or NULL
 *
 *     yk_rows rows;
 *     yk_rows_init(&rows, YK_ROWS_SPARSE, 0);
 *     uint32_t *index; float *value;
 *     st = yk_rows_sparse(&rows, 39, &index, &value);   // room for a row of at most 39 entries
 *     ... fill in the entries ...
 *     yk_rows_commit(&rows, 38, label);                 // it had 38; nothing is added without a commit
 *     yk_rows_fini(&rows);
 *
 * Not thread-safe while it grows; read by any number of threads afterwards.
 */
#ifndef YK_BASE_ROWS_H
#define YK_BASE_ROWS_H

#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { YK_ROWS_U8, YK_ROWS_F32, YK_ROWS_SPARSE } yk_rows_kind;

/* A feature as a data file names it. Rows hold internal ids of 32 bits: the key itself, or a hash of it. */
typedef uint64_t yk_key;

/* How keys become internal ids. */
typedef struct {
    uint64_t features; /* ids are below it; 0: as many as the format allows. With `hash` never 0 */
    bool hash;         /* any key is hashed; else a key is its own id, and a large one an error */
} yk_key_space;

/* The id of a hash (yk_mix64() of a key), below `features` <= 2^32. */
static inline uint32_t yk_key_id(uint64_t hash, uint64_t features)
{
    return (uint32_t)((hash >> 32) * features >> 32);
}

/* The arrays of a block. */
typedef enum {
    YK_ROWS_START,
    YK_ROWS_INDEX,
    YK_ROWS_VALUE,
    YK_ROWS_FIELD,
    YK_ROWS_LABEL,
    YK_ROWS_TRUTH,
    YK_ROWS_PIXELS,
    YK_ROWS_FLOATS,
    YK_ROWS_ARRAYS
} yk_rows_array;

typedef struct {
    yk_rows_kind kind;
    size_t n;
    size_t dim;      /* dense: columns; sparse: 1 + the largest index so far */
    float scale;     /* u8: the factor to a float, 1/255 */
    uint8_t *u8;     /* [n][dim] */
    float *f32;      /* [n][dim] */
    uint64_t *start; /* [n + 1] */
    uint32_t *index; /* [start[n]] */
    float *value;    /* [start[n]] or NULL: all are 1 */
    uint16_t *field; /* [start[n]] or NULL: one field */
    int32_t *label;  /* [n] */
    float *truth;    /* [n] or NULL: the probability of class 1 that a generator drew the label with */
    /* how it is held */
    size_t cap[YK_ROWS_ARRAYS]; /* elements that there is memory for */
    float *spare;               /* where values of the row being filled in go while value is NULL */
    size_t spare_cap;
    void *map; /* the mapping that the arrays lie in (binary cache), NULL where they are malloc memory */
    size_t map_size;
} yk_rows;

void yk_rows_init(yk_rows *rows, yk_rows_kind kind, size_t dense_dim);
void yk_rows_fini(yk_rows *rows);
void yk_rows_clear(yk_rows *rows); /* no rows; keeps the memory and the kind */

/* Room for one more row. Pointers are valid until the next call on `rows`. value_out comes filled with 1. After
 * yk_rows_sparse(), yk_rows_fields() makes room for the row's field numbers, filled with 0. */
yk_status yk_rows_sparse(yk_rows *rows, size_t max_entries, uint32_t **index_out, float **value_out);
yk_status yk_rows_fields(yk_rows *rows, size_t max_entries, uint16_t **field_out);
yk_status yk_rows_dense_u8(yk_rows *rows, uint8_t **out);
yk_status yk_rows_dense_f32(yk_rows *rows, float **out);

/* Adds the row that the last call made room for. Sparse: with its first `entries` entries; entries with the same index and
 * field are merged (their values added), an unsorted row is sorted. Dense: `entries` is ignored. */
yk_status yk_rows_commit(yk_rows *rows, size_t entries, int32_t label);
yk_status yk_rows_commit_truth(yk_rows *rows, size_t entries, int32_t label, float truth);

/* Appends rows `first` .. `first + n` of `from`, which is of the same kind. */
yk_status yk_rows_append(yk_rows *rows, const yk_rows *from, size_t first, size_t n);

/* All rows as bytes, for another process: free() them. And a block that borrows its arrays from such bytes, which are aligned to
 * 8; YK_EDATA where they make no sense. */
yk_status yk_rows_pack(const yk_rows *rows, char **out, size_t *bytes_out);
yk_status yk_rows_unpack(const char *from, size_t bytes, yk_rows *borrowed_out);

/* Drops the field numbers, for a model without fields: entries that differed only in them are merged. Not for rows whose
 * keys were renamed (keymap.h). */
yk_status yk_rows_drop_fields(yk_rows *rows);

/* Puts sparse rows into a random order, by as many threads as there are cores; the same order for the same seed. Takes the
 * memory twice while it works. */
yk_status yk_rows_mix(yk_rows *rows, uint64_t seed);

size_t yk_rows_bytes(const yk_rows *rows); /* memory that the rows take */
void yk_rows_finish(yk_rows *rows);        /* no more will come: makes random reading cheap (huge pages) */

/* Inside base: an empty block of the same kind with room for all that `like` holds. */
yk_status yk__rows_like(const yk_rows *like, yk_rows *out);

static inline size_t yk_rows_entries(const yk_rows *rows, size_t r)
{
    return (size_t)(rows->start[r + 1] - rows->start[r]);
}

/* Some rows of a block: pick[0..n) are their numbers, and pick[n .. n + ahead) those that will probably come next
 * (for prefetching). All borrowed. */
typedef struct {
    const yk_rows *rows;
    const uint32_t *pick;
    size_t n;
    size_t ahead;
    uint64_t
        noise; /* a number that no other batch of the run has: what dropout drops follows from it, also after a resume */
    bool renamed;  /* its keys are places in a table of its own, by a store */
    uint32_t bias; /* renamed: the place of a bias */
} yk_batch;

#endif
