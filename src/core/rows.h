/* Examples as plain data: a growable block of rows, and a batch that points into one.
 *
 * Dense rows are [n][dim] of u8 (pixels stay bytes; x = byte * scale) or of f32. Sparse rows are CSR: row r has the entries
 * start[r] .. start[r+1] - 1 of index[], value[] and field[]. value is NULL while every value so far is 1; field is NULL while
 * no row has field numbers. The entries of a row ascend by (index, field), and no such pair occurs twice. Labels are
 * class numbers from 0; with two classes 0 is negative, 1 is positive. For regression, `target` has the labels, and all rows
 * are of class 0. An example of weight 2 counts as if it occurred twice.
 *
 *     start  | 0 | 3 | 5 | ...         n + 1 entries
 *     index  | 7 19 402 | 7 33 | ...   u32, below dim
 *     value  | 1.  .5 2. | 1. 1. | ... f32, or NULL
 *     field  | 0   0   3 | 1  2  | ... u16, or NULL
 *
 * Example:
 *     yk_rows rows;
 *     uint32_t *index;
 *     float *value;
 *     yk_rows_init(&rows, YK_ROWS_SPARSE, 0);
 *     yk_status st = yk_rows_sparse(&rows, 39, &index, &value); // reserves a row of at most 39 entries
 *     index[0] = 7;
 *     value[0] = 0.5f;
 *     if (!st)
 *         st = yk_rows_commit(&rows, 1, label); // adds it with one entry
 *     yk_rows_fini(&rows);
 *
 * One thread at a time may add rows; afterwards any number of threads may read them.
 */
#ifndef YK_CORE_ROWS_H
#define YK_CORE_ROWS_H

#include "base/perm.h"
#include "base/rng.h"
#include "base/status.h"

/* The maximum number of columns of sparse rows. Vector instructions use signed 32-bit indices, and the bias needs one. */
enum { YK_MAX_FEATURES = INT32_MAX - 1 };

typedef enum { YK_ROWS_U8, YK_ROWS_F32, YK_ROWS_SPARSE } yk_rows_kind;

/* The key of a feature in a data file. Rows hold 32-bit internal ids: the key itself, or a hash of it. */
typedef uint64_t yk_key;

/* How keys become internal ids. */
typedef struct {
    uint64_t features; /* exclusive upper bound of ids; 0: that of the format. Required with `hash` */
    bool hash;         /* keys are hashed; otherwise a key is its own id, and must be below that */
    bool of_model;     /* for messages: `features` is that of a model */
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
    YK_ROWS_WEIGHT,
    YK_ROWS_TARGET,
    YK_ROWS_PIXELS,
    YK_ROWS_FLOATS,
    YK_ROWS_ARRAYS
} yk_rows_array;

typedef struct {
    yk_rows_kind kind;
    size_t n;
    size_t dim;      /* dense: columns; sparse: 1 + the largest index so far */
    float scale;     /* u8: converts a byte to a float: 1/255 */
    uint8_t *u8;     /* [n][dim] */
    float *f32;      /* [n][dim] */
    uint64_t *start; /* [n + 1] */
    uint32_t *index; /* [start[n]] */
    float *value;    /* [start[n]] or NULL: all are 1 */
    uint16_t *field; /* [start[n]] or NULL: one field */
    int32_t *label;  /* [n] */
    float *truth;    /* [n] or NULL: the probability of class 1 that a generator drew the label from */
    float *weight;   /* [n] or NULL: all are 1 */
    float *target;   /* [n] or NULL: the labels are the class numbers */
    /* Sparse: frequent keys may be anywhere in the table, so kernels prefetch all parameters. */
    bool raw_keys;
    /* memory */
    size_t cap[YK_ROWS_ARRAYS]; /* allocated elements */
    float *spare;               /* values of the reserved row while value is NULL */
    size_t spare_cap;
    /* The mapping that contains the arrays (binary cache); NULL: they were allocated with malloc(). */
    void *map;
    size_t map_size;
} yk_rows;

/* For code that treats all arrays alike. Array a of a block; NULL: it has none. */
void *yk_rows_get(const yk_rows *rows, int a);
void yk_rows_set(yk_rows *rows, int a, void *array); /* borrowed */
/* Bit a: the block has the optional array a. */
unsigned yk_rows_arrays(const yk_rows *rows);
/* Bytes of an element of array a; 0: blocks of this kind with these optional arrays do not have it. */
size_t yk_rows_width(yk_rows_kind kind, unsigned arrays, int a);
/* Elements of array a for n rows. */
uint64_t yk_rows_length(int a, uint64_t n, uint64_t dim, uint64_t entries);

void yk_rows_init(yk_rows *rows, yk_rows_kind kind, size_t dense_dim);
void yk_rows_fini(yk_rows *rows);
void yk_rows_clear(yk_rows *rows); /* removes all rows; keeps the memory and the kind */

/* Reserves a row. Pointers are valid until the next call on `rows`. Values are set to 1. After yk_rows_sparse(),
 * yk_rows_fields() reserves the field numbers of the row and sets them to 0. */
yk_status yk_rows_sparse(yk_rows *rows, size_t max_entries, uint32_t **index_out, float **value_out);
yk_status yk_rows_fields(yk_rows *rows, size_t max_entries, uint16_t **field_out);
yk_status yk_rows_dense_u8(yk_rows *rows, uint8_t **out);
yk_status yk_rows_dense_f32(yk_rows *rows, float **out);

/* Adds the reserved row. Sparse: with its first `entries` entries. An unsorted row is sorted; values of entries with the same
 * index and field are summed. Dense: `entries` is ignored. */
yk_status yk_rows_commit(yk_rows *rows, size_t entries, int32_t label);

/* Set the weight (otherwise 1), the target (otherwise 0, if other rows have one) and the probability of class 1, which all rows or none
 * have, of the row that was added last. */
yk_status yk_rows_set_weight(yk_rows *rows, float weight);
yk_status yk_rows_set_target(yk_rows *rows, float target);
yk_status yk_rows_set_truth(yk_rows *rows, float truth);

/* Appends rows `first` .. `first + n - 1` of `from`, which has the same kind. */
yk_status yk_rows_append(yk_rows *rows, const yk_rows *from, size_t first, size_t n);
/* Appends sparse rows pick[0] .. pick[n - 1] of `from`, without the probabilities that their labels were drawn from. */
yk_status yk_rows_append_picked(yk_rows *rows, const yk_rows *from, const uint32_t *pick, size_t n);

/* There will be about n rows; sparse ones as long as those so far. Reserves memory in huge pages, if there is enough. */
void yk_rows_expect(yk_rows *rows, size_t n);

/* Sends all rows to another process, or receives them: initializes `rows`, which the caller also frees after an error. Calls
 * move() for the same number of bytes on both sides. */
typedef yk_status (*yk_rows_move)(void *context, void *data, size_t bytes);
yk_status yk_rows_transfer(yk_rows *rows, bool sends, yk_rows_move move, void *context);

/* Removes the field numbers, for a model without fields. Values of entries that differ only in their field are summed. Not for
 * rows whose keys were remapped (keymap.h). */
yk_status yk_rows_drop_fields(yk_rows *rows);

/* 1 + the largest field number, at least 1. */
uint32_t yk_rows_count_fields(const yk_rows *rows);

/* Copies the sparse rows of n blocks in random order, with as many threads as there are cores. The order depends on the seed and
 * the number of rows only. Initializes `out`. */
yk_status yk_rows_shuffled_copy(const yk_rows *blocks, size_t n, uint64_t seed, yk_rows *out);

/* Makes the same copy while the rows are read, if their number is known, and most have about as many entries as they can have. */
typedef struct {
    yk_perm order;
    size_t width; /* entries of a row, at most */
    yk_rows *to;
} yk_scatter;

/* There will be n rows, with the optional arrays of `like`. Initializes `out`. */
yk_status yk_scatter_init(yk_scatter *s, const yk_rows *like, size_t n, size_t width, uint64_t seed,
                          yk_rows *out);
/* `first`: the number of the first row. false: they have an array that `like` lacks. Any thread may call it. */
bool yk_scatter_put(const yk_scatter *s, const yk_rows *from, size_t first);
void yk_scatter_end(yk_scatter *s); /* all rows were put */

size_t yk_rows_bytes(const yk_rows *rows); /* memory of the rows */
void yk_rows_finish(yk_rows *rows);        /* after the last row: makes random reads cheap (huge pages) */

/* Private to core: memory for n rows with these optional arrays, in huge pages. */
yk_status yk__rows_reserve(yk_rows *rows, size_t n, size_t entries, unsigned arrays);

static inline size_t yk_rows_entries(const yk_rows *rows, size_t r)
{
    return (size_t)(rows->start[r + 1] - rows->start[r]);
}

static inline float yk_rows_value(const yk_rows *rows, uint64_t e)
{
    return rows->value ? rows->value[e] : 1.0f;
}

static inline float yk_rows_weight(const yk_rows *rows, size_t r)
{
    return rows->weight ? rows->weight[r] : 1.0f;
}

static inline float yk_rows_target(const yk_rows *rows, size_t r)
{
    return rows->target ? rows->target[r] : (float)rows->label[r];
}

/* Some rows of a block: pick[0..n) are their numbers; pick[n .. n + ahead) will probably be used next, for prefetching. All
 * borrowed. */
typedef struct {
    const yk_rows *rows;
    const uint32_t *pick;
    size_t n;
    size_t ahead;
    /* Unique within the run, the same after a resume; remapped: yk_batch_noise() of the original batch. */
    uint64_t noise;
    bool remapped; /* by a store: its rows are copies, and its keys are indices into a table of this batch */
    uint32_t bias; /* remapped: the index of the bias */
    bool raw;      /* predictions of models with one output: log-odds instead of probabilities */
    const float *class_weight; /* [classes] training: factors of the weights; NULL: all are 1 */
} yk_batch;

static inline bool yk_batch_weighted(const yk_batch *b)
{
    return b->rows->weight || b->class_weight;
}

/* The weight of example i of a batch. */
static inline float yk_batch_weight(const yk_batch *b, size_t i)
{
    const float w = yk_rows_weight(b->rows, b->pick[i]);
    return b->class_weight ? w * b->class_weight[b->rows->label[b->pick[i]]] : w;
}

/* Examples first .. first + n - 1. */
static inline yk_batch yk_batch_part(const yk_batch *b, size_t first, size_t n)
{
    yk_batch part = *b;
    part.pick += first;
    part.n = n;
    part.ahead += b->n - first - n;
    return part;
}

/* The sum of the weights. */
static inline double yk_batch_total(const yk_batch *b)
{
    double sum = 0.0;
    if (!b->n || !yk_batch_weighted(b))
        return (double)b->n;
    for (size_t i = 0; i < b->n; i++)
        sum += (double)yk_batch_weight(b, i);
    return sum;
}

/* The random seed of dropout. It depends only on the original batch, so that it is the same after a resume and with every
 * placement. */
static inline uint64_t yk_batch_noise(const yk_batch *b)
{
    uint64_t noise = b->remapped ? b->noise : yk_mix64(b->noise + b->n);
    for (size_t i = 0; !b->remapped && i < b->n; i++)
        noise = yk_mix64(noise + b->pick[i]);
    return noise;
}

#endif
