#include "core/rows.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- the arrays of a block, so that code for all of them is written once */

enum { U8 = 1 << YK_ROWS_U8, F32 = 1 << YK_ROWS_F32, SPARSE = 1 << YK_ROWS_SPARSE, ANY = U8 | F32 | SPARSE };

static const struct {
    size_t offset; /* of the pointer in yk_rows */
    size_t width;
    int kinds; /* of blocks that have the array */
    bool optional;
    const char *what;
} array[YK_ROWS_ARRAYS] = {
    [YK_ROWS_START] = {offsetof(yk_rows, start), sizeof(uint64_t), SPARSE, false, "row starts"},
    [YK_ROWS_INDEX] = {offsetof(yk_rows, index), sizeof(uint32_t), SPARSE, false, "indices"},
    [YK_ROWS_VALUE] = {offsetof(yk_rows, value), sizeof(float), SPARSE, true, "values"},
    [YK_ROWS_FIELD] = {offsetof(yk_rows, field), sizeof(uint16_t), SPARSE, true, "field numbers"},
    [YK_ROWS_LABEL] = {offsetof(yk_rows, label), sizeof(int32_t), ANY, false, "labels"},
    [YK_ROWS_TRUTH] = {offsetof(yk_rows, truth), sizeof(float), ANY, true, "true probabilities"},
    [YK_ROWS_WEIGHT] = {offsetof(yk_rows, weight), sizeof(float), ANY, true, "weights"},
    [YK_ROWS_TARGET] = {offsetof(yk_rows, target), sizeof(float), ANY, true, "labels"},
    [YK_ROWS_PIXELS] = {offsetof(yk_rows, u8), sizeof(uint8_t), U8, false, "pixels"},
    [YK_ROWS_FLOATS] = {offsetof(yk_rows, f32), sizeof(float), F32, false, "values"},
};

void *yk_rows_get(const yk_rows *rows, int a)
{
    void *p;
    memcpy(&p, (const char *)rows + array[a].offset, sizeof p);
    return p;
}

void yk_rows_set(yk_rows *rows, int a, void *p)
{
    memcpy((char *)rows + array[a].offset, &p, sizeof p);
}

static inline yk_status grow(yk_rows *rows, int a, size_t need)
{
    return yk__reserve((char *)rows + array[a].offset, &rows->cap[a], need, array[a].width, array[a].what);
}

unsigned yk_rows_arrays(const yk_rows *rows)
{
    unsigned arrays = 0;
    for (int a = 0; a < YK_ROWS_ARRAYS; a++)
        arrays |= array[a].optional && yk_rows_get(rows, a) ? 1u << a : 0;
    return arrays;
}

size_t yk_rows_width(yk_rows_kind kind, unsigned arrays, int a)
{
    const bool has = (array[a].kinds >> kind & 1) && (!array[a].optional || arrays >> a & 1);
    return has ? array[a].width : 0;
}

uint64_t yk_rows_length(int a, uint64_t n, uint64_t dim, uint64_t entries)
{
    switch (a) {
    case YK_ROWS_START:
        return n + 1;
    case YK_ROWS_LABEL:
    case YK_ROWS_TRUTH:
    case YK_ROWS_WEIGHT:
    case YK_ROWS_TARGET:
        return n;
    case YK_ROWS_PIXELS:
    case YK_ROWS_FLOATS:
        return n * dim;
    default:
        return entries;
    }
}

static size_t entries_so_far(const yk_rows *rows)
{
    return rows->kind == YK_ROWS_SPARSE && rows->n ? (size_t)rows->start[rows->n] : 0;
}

static size_t bytes_of(const yk_rows *rows, int a)
{
    return (size_t)yk_rows_length(a, rows->n, rows->dim, entries_so_far(rows)) * array[a].width;
}

/* Values and weights are 1 by default, fields and targets 0. */
static void fill_default(yk_rows *rows, int a, size_t from, size_t to)
{
    float *ones = a == YK_ROWS_VALUE || a == YK_ROWS_WEIGHT ? yk_rows_get(rows, a) : NULL;
    for (size_t i = from; ones && i < to; i++)
        ones[i] = 1.0f;
    if (!ones && to > from)
        memset((char *)yk_rows_get(rows, a) + from * array[a].width, 0, (to - from) * array[a].width);
}

/* ---- */

void yk_rows_init(yk_rows *rows, yk_rows_kind kind, size_t dense_dim)
{
    *rows = (yk_rows){.kind = kind, .dim = dense_dim, .scale = 1.0f / 255.0f};
}

void yk_rows_fini(yk_rows *rows)
{
    if (rows->map)
        munmap(rows->map, rows->map_size);
    for (int a = 0; a < YK_ROWS_ARRAYS && !rows->map; a++)
        free(yk_rows_get(rows, a));
    free(rows->spare);
    *rows = (yk_rows){0};
}

void yk_rows_clear(yk_rows *rows)
{
    rows->n = 0;
    if (rows->kind == YK_ROWS_SPARSE)
        rows->dim = 0;
}

yk_status yk_rows_sparse(yk_rows *rows, size_t max_entries, uint32_t **index_out, float **value_out)
{
    size_t at = entries_so_far(rows);
    if (grow(rows, YK_ROWS_START, rows->n + 2) || grow(rows, YK_ROWS_LABEL, rows->n + 1) ||
        grow(rows, YK_ROWS_INDEX, at + max_entries))
        return YK_ESYSTEM;
    rows->start[0] = 0;
    if (rows->value) {
        if (grow(rows, YK_ROWS_VALUE, rows->cap[YK_ROWS_INDEX]))
            return YK_ESYSTEM;
        *value_out = rows->value + at;
    } else {
        if (YK_RESERVE(rows->spare, rows->spare_cap, max_entries, "values"))
            return YK_ESYSTEM;
        *value_out = rows->spare;
    }
    *index_out = rows->index + at;
    for (size_t i = 0; i < max_entries; i++)
        (*value_out)[i] = 1.0f;
    uint16_t *field;
    return rows->field ? yk_rows_fields(rows, max_entries, &field) : YK_OK;
}

yk_status yk_rows_fields(yk_rows *rows, size_t max_entries, uint16_t **field_out)
{
    size_t at = entries_so_far(rows), known = rows->field ? at : 0;
    if (grow(rows, YK_ROWS_FIELD, rows->cap[YK_ROWS_INDEX]))
        return YK_ESYSTEM;
    fill_default(rows, YK_ROWS_FIELD, known, at + max_entries);
    *field_out = rows->field + at;
    return YK_OK;
}

yk_status yk_rows_dense_u8(yk_rows *rows, uint8_t **out)
{
    if (grow(rows, YK_ROWS_LABEL, rows->n + 1) || grow(rows, YK_ROWS_PIXELS, (rows->n + 1) * rows->dim))
        return YK_ESYSTEM;
    *out = rows->u8 + rows->n * rows->dim;
    return YK_OK;
}

yk_status yk_rows_dense_f32(yk_rows *rows, float **out)
{
    if (grow(rows, YK_ROWS_LABEL, rows->n + 1) || grow(rows, YK_ROWS_FLOATS, (rows->n + 1) * rows->dim))
        return YK_ESYSTEM;
    *out = rows->f32 + rows->n * rows->dim;
    return YK_OK;
}

/* ---- sorting a row */

/* The entries of a row; field is NULL if there are none. Entries are sorted by (index, field) as one number. */
typedef struct {
    uint32_t *index;
    float *value;
    uint16_t *field;
} row_entries;

static inline uint64_t order_of(const row_entries *e, size_t i)
{
    return (uint64_t)e->index[i] << 16 | (e->field ? e->field[i] : 0);
}

static inline void put_entry(const row_entries *e, size_t i, uint64_t order, float value)
{
    e->index[i] = (uint32_t)(order >> 16);
    e->value[i] = value;
    if (e->field)
        e->field[i] = (uint16_t)order;
}

typedef struct {
    uint64_t order;
    float value;
    uint32_t at; /* in the unsorted row: values of equal entries are added in this order */
} sorted;

static int compare(const void *a, const void *b)
{
    const sorted *x = a, *y = b;
    if (x->order != y->order)
        return x->order < y->order ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

static void insertion_sort(sorted *s, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const sorted x = s[i];
        size_t j = i;
        for (; j > 0 && s[j - 1].order > x.order; j--)
            s[j] = s[j - 1];
        s[j] = x;
    }
}

/* Sorts a row, and adds the values of equal entries. *n: the number of entries, then of those that remain. */
static yk_status sort_row(const row_entries *e, size_t *n)
{
    enum { SHORT = 256 }; /* for longer rows, insertion would take quadratic time */
    sorted few[SHORT], *s = *n <= SHORT ? few : malloc(*n * sizeof *s);
    size_t out = 0;
    if (!s)
        return yk_fail_memory(*n * sizeof *s, "sorting a row");
    for (size_t i = 0; i < *n; i++)
        s[i] = (sorted){order_of(e, i), e->value[i], (uint32_t)i};
    if (s == few)
        insertion_sort(s, *n);
    else
        qsort(s, *n, sizeof *s, compare);
    for (size_t i = 0; i < *n; i++) {
        if (out && s[i].order == s[i - 1].order)
            e->value[out - 1] += s[i].value;
        else
            put_entry(e, out++, s[i].order, s[i].value);
    }
    if (s != few)
        free(s);
    *n = out;
    return YK_OK;
}

static bool ascending(const row_entries *e, size_t n)
{
    bool up = true;
    if (e->field)
        for (size_t i = 0; i + 1 < n; i++)
            up &= order_of(e, i) < order_of(e, i + 1);
    else
        for (size_t i = 0; i + 1 < n; i++)
            up &= e->index[i] < e->index[i + 1];
    return up;
}

static yk_status commit_sparse(yk_rows *rows, size_t n)
{
    const size_t at = entries_so_far(rows);
    const row_entries e = {rows->index + at, rows->value ? rows->value + at : rows->spare,
                           rows->field ? rows->field + at : NULL};
    bool ones = true;
    if (!ascending(&e, n) && sort_row(&e, &n))
        return YK_ESYSTEM;
    for (size_t i = 0; i < n && !rows->value; i++)
        ones &= e.value[i] == 1.0f;
    if (!ones) {
        if (grow(rows, YK_ROWS_VALUE, rows->cap[YK_ROWS_INDEX]))
            return YK_ESYSTEM;
        fill_default(rows, YK_ROWS_VALUE, 0, at);
        memcpy(rows->value + at, e.value, n * sizeof *e.value);
    }
    rows->start[rows->n + 1] = at + n;
    if (n && e.index[n - 1] >= rows->dim)
        rows->dim = (size_t)e.index[n - 1] + 1;
    return YK_OK;
}

yk_status yk_rows_commit(yk_rows *rows, size_t entries, int32_t label)
{
    yk_status st;
    if (rows->kind == YK_ROWS_SPARSE && (st = commit_sparse(rows, entries)))
        return st;
    for (int a = YK_ROWS_WEIGHT; a <= YK_ROWS_TARGET; a++)
        if (yk_rows_get(rows, a)) {
            if (grow(rows, a, rows->n + 1))
                return YK_ESYSTEM;
            fill_default(rows, a, rows->n, rows->n + 1);
        }
    rows->label[rows->n++] = label;
    return YK_OK;
}

/* Sets element n - 1 of an optional array. */
static yk_status set_last(yk_rows *rows, int a, float v)
{
    const bool had = yk_rows_get(rows, a);
    if (grow(rows, a, rows->n))
        return YK_ESYSTEM;
    if (!had)
        fill_default(rows, a, 0, rows->n);
    ((float *)yk_rows_get(rows, a))[rows->n - 1] = v;
    return YK_OK;
}

yk_status yk_rows_set_weight(yk_rows *rows, float weight)
{
    return rows->weight || weight != 1.0f ? set_last(rows, YK_ROWS_WEIGHT, weight) : YK_OK;
}

yk_status yk_rows_set_target(yk_rows *rows, float target)
{
    return set_last(rows, YK_ROWS_TARGET, target);
}

yk_status yk_rows_set_truth(yk_rows *rows, float truth)
{
    return set_last(rows, YK_ROWS_TRUTH, truth);
}

/* ---- whole blocks */

/* Appends one array of rows `first` .. `first + n` of `from`. */
static yk_status append_array(yk_rows *rows, const yk_rows *from, int a, size_t first, size_t n)
{
    const bool sparse = rows->kind == YK_ROWS_SPARSE, had = yk_rows_get(rows, a), has = yk_rows_get(from, a);
    const size_t begin = (size_t)yk_rows_length(a, first, from->dim, sparse ? from->start[first] : 0);
    const size_t end = (size_t)yk_rows_length(a, first + n, from->dim, sparse ? from->start[first + n] : 0);
    const size_t at = (size_t)yk_rows_length(a, rows->n, rows->dim, entries_so_far(rows)),
                 to = at + end - begin;
    const size_t width = array[a].width;
    if (!had && !has)
        return YK_OK;
    if (grow(rows, a, to))
        return YK_ESYSTEM;
    if (!had && array[a].optional && a != YK_ROWS_TRUTH)
        fill_default(rows, a, 0, at);
    if (has)
        memcpy((char *)yk_rows_get(rows, a) + at * width, (const char *)yk_rows_get(from, a) + begin * width,
               (end - begin) * width);
    else
        fill_default(rows, a, at, to);
    return YK_OK;
}

yk_status yk_rows_append(yk_rows *rows, const yk_rows *from, size_t first, size_t n)
{
    if (n == 0)
        return YK_OK;
    const bool truth = from->truth && (rows->truth || rows->n == 0);
    if (!truth) { /* known for some rows only */
        free(rows->truth);
        rows->truth = NULL;
        rows->cap[YK_ROWS_TRUTH] = 0;
    }
    rows->scale = from->scale;
    for (int a = YK_ROWS_INDEX; a < YK_ROWS_ARRAYS; a++)
        if ((truth || a != YK_ROWS_TRUTH) && append_array(rows, from, a, first, n))
            return YK_ESYSTEM;
    if (rows->kind == YK_ROWS_SPARSE) {
        const size_t at = entries_so_far(rows);
        if (grow(rows, YK_ROWS_START, rows->n + n + 1))
            return YK_ESYSTEM;
        rows->start[0] = 0;
        for (size_t i = 1; i <= n; i++)
            rows->start[rows->n + i] = at + (size_t)(from->start[first + i] - from->start[first]);
        rows->dim = from->dim > rows->dim ? from->dim : rows->dim;
    }
    rows->n += n;
    return YK_OK;
}

yk_status yk__rows_reserve(yk_rows *rows, size_t n, size_t entries, unsigned arrays)
{
    for (int a = 0; a < YK_ROWS_ARRAYS; a++) {
        if (!yk_rows_width(rows->kind, arrays, a))
            continue;
        const bool is_new = array[a].optional && !yk_rows_get(rows, a);
        if (grow(rows, a, (size_t)yk_rows_length(a, n, rows->dim, entries)))
            return YK_ESYSTEM;
        if (is_new)
            fill_default(rows, a, 0, bytes_of(rows, a) / array[a].width);
        yk_huge_pages(yk_rows_get(rows, a), rows->cap[a] * array[a].width);
    }
    return YK_OK;
}

static bool has_repeated_index(const yk_rows *rows)
{
    bool found = false;
    for (size_t r = 0; r < rows->n && !found; r++)
        for (uint64_t i = rows->start[r] + 1; i < rows->start[r + 1]; i++)
            found |= rows->index[i - 1] == rows->index[i];
    return found;
}

yk_status yk_rows_drop_fields(yk_rows *rows)
{
    if (!rows->field)
        return YK_OK;
    if (!rows->map)
        free(rows->field);
    rows->field = NULL;
    rows->cap[YK_ROWS_FIELD] = 0;
    if (!has_repeated_index(rows))
        return YK_OK;
    yk_rows merged;
    yk_rows_init(&merged, YK_ROWS_SPARSE, 0);
    yk_status st = YK_OK;
    for (size_t r = 0; r < rows->n && !st; r++) {
        const size_t n = yk_rows_entries(rows, r);
        uint32_t *index;
        float *value;
        if ((st = yk_rows_sparse(&merged, n, &index, &value)))
            break;
        memcpy(index, rows->index + rows->start[r], n * sizeof *index);
        if (rows->value)
            memcpy(value, rows->value + rows->start[r], n * sizeof *value);
        st = yk_rows_commit(&merged, n, rows->label[r]);
    }
    for (int a = YK_ROWS_TRUTH; a <= YK_ROWS_TARGET && !st; a++)
        if (yk_rows_get(rows, a) && !(st = grow(&merged, a, rows->n)))
            memcpy(yk_rows_get(&merged, a), yk_rows_get(rows, a), rows->n * array[a].width);
    merged.dim = rows->dim;
    yk_rows_fini(st ? &merged : rows);
    if (!st)
        *rows = merged;
    return st;
}

uint32_t yk_rows_count_fields(const yk_rows *rows)
{
    const size_t begin = rows->field && rows->n ? (size_t)rows->start[0] : 0,
                 end = rows->field ? entries_so_far(rows) : 0;
    uint16_t largest = 0;
    for (size_t i = begin; i < end; i++)
        largest = rows->field[i] > largest ? rows->field[i] : largest;
    return largest + 1u;
}

void yk_rows_expect(yk_rows *rows, size_t n)
{
    const size_t mean = rows->kind != YK_ROWS_SPARSE ? rows->dim
                        : rows->n                    ? entries_so_far(rows) / rows->n + 1
                                                     : 0;
    size_t all;
    if (n > rows->n && !__builtin_mul_overflow(n, mean, &all))
        yk__rows_reserve(rows, n, all, yk_rows_arrays(rows));
}

size_t yk_rows_bytes(const yk_rows *rows)
{
    const unsigned arrays = yk_rows_arrays(rows);
    size_t bytes = 0;
    for (int a = 0; a < YK_ROWS_ARRAYS; a++)
        if (yk_rows_width(rows->kind, arrays, a))
            bytes += bytes_of(rows, a);
    return bytes;
}

void yk_rows_finish(yk_rows *rows)
{
    for (int a = 0; a < YK_ROWS_ARRAYS && !rows->map; a++)
        if (yk_rows_get(rows, a))
            yk_collapse(yk_rows_get(rows, a), bytes_of(rows, a));
}

/* ---- transfer to other processes ---- */

typedef struct {
    uint64_t kind, arrays, n, dim, entries;
    double scale;
} shape;

yk_status yk_rows_transfer(yk_rows *rows, bool sends, yk_rows_move move, void *context)
{
    shape h = {rows->kind, yk_rows_arrays(rows), rows->n,
               rows->dim,  entries_so_far(rows), (double)rows->scale};
    yk_status st = move(context, &h, sizeof h);
    if (!st && h.kind > YK_ROWS_SPARSE)
        st = yk_fail(YK_EDATA, "invalid rows received from another process");
    if (!st && !sends) {
        yk_rows_init(rows, (yk_rows_kind)h.kind, h.dim);
        rows->scale = (float)h.scale;
        st = h.n ? yk__rows_reserve(rows, h.n, h.entries, (unsigned)h.arrays) : YK_OK;
        rows->n = st ? 0 : h.n;
    }
    for (int a = 0; !st && a < YK_ROWS_ARRAYS; a++) {
        const size_t width = yk_rows_width(rows->kind, (unsigned)h.arrays, a),
                     bytes = width * (size_t)yk_rows_length(a, h.n, h.dim, h.entries);
        if (h.n && bytes)
            st = move(context, yk_rows_get(rows, a), bytes);
    }
    return st;
}
