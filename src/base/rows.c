#include "base/rows.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void yk_rows_init(yk_rows *rows, yk_rows_kind kind, size_t dense_dim)
{
    *rows = (yk_rows){.kind = kind, .dim = dense_dim, .scale = 1.0f / 255.0f};
}

void yk_rows_fini(yk_rows *rows)
{
    if (rows->map) {
        munmap(rows->map, rows->map_size);
    } else {
        free(rows->u8);
        free(rows->f32);
        free(rows->start);
        free(rows->index);
        free(rows->value);
        free(rows->label);
        free(rows->truth);
    }
    free(rows->spare);
    *rows = (yk_rows){0};
}

void yk_rows_clear(yk_rows *rows)
{
    rows->n = 0;
    if (rows->kind == YK_ROWS_SPARSE)
        rows->dim = 0;
}

#define GROW(array, cap, need, what)                                                                         \
    do {                                                                                                     \
        void *grown_ = yk_grow((array), &(cap), (need), sizeof *(array), (what));                            \
        if (!grown_)                                                                                         \
            return YK_ESYSTEM;                                                                               \
        (array) = grown_;                                                                                    \
    } while (0)

static size_t entries_so_far(const yk_rows *rows)
{
    return rows->n ? (size_t)rows->start[rows->n] : 0;
}

yk_status yk_rows_sparse(yk_rows *rows, size_t max_entries, uint32_t **index_out, float **value_out)
{
    size_t at = entries_so_far(rows);
    GROW(rows->start, rows->start_cap, rows->n + 2, "row starts");
    GROW(rows->label, rows->label_cap, rows->n + 1, "labels");
    GROW(rows->index, rows->entry_cap, at + max_entries, "indices");
    rows->start[0] = 0;
    if (rows->value) {
        GROW(rows->value, rows->value_cap, rows->entry_cap, "values");
        *value_out = rows->value + at;
    } else {
        GROW(rows->spare, rows->spare_cap, max_entries, "values");
        *value_out = rows->spare;
    }
    *index_out = rows->index + at;
    for (size_t i = 0; i < max_entries; i++)
        (*value_out)[i] = 1.0f;
    return YK_OK;
}

yk_status yk_rows_dense_u8(yk_rows *rows, uint8_t **out)
{
    GROW(rows->label, rows->label_cap, rows->n + 1, "labels");
    GROW(rows->u8, rows->cap, (rows->n + 1) * rows->dim, "pixels");
    *out = rows->u8 + rows->n * rows->dim;
    return YK_OK;
}

yk_status yk_rows_dense_f32(yk_rows *rows, float **out)
{
    GROW(rows->label, rows->label_cap, rows->n + 1, "labels");
    GROW(rows->f32, rows->cap, (rows->n + 1) * rows->dim, "values");
    *out = rows->f32 + rows->n * rows->dim;
    return YK_OK;
}

/* Insertion sort of a short, mostly sorted row, then adding up equal indices. Returns the entries left. */
static size_t sort_and_merge(uint32_t *index, float *value, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        uint32_t k = index[i];
        float v = value[i];
        size_t j = i;
        for (; j > 0 && index[j - 1] > k; j--) {
            index[j] = index[j - 1];
            value[j] = value[j - 1];
        }
        index[j] = k;
        value[j] = v;
    }
    size_t out = 0;
    for (size_t i = 0; i < n; i++) {
        if (out && index[out - 1] == index[i])
            value[out - 1] += value[i];
        else {
            index[out] = index[i];
            value[out++] = value[i];
        }
    }
    return out;
}

typedef struct {
    uint32_t index;
    float value;
    size_t place;
} entry;

static int compare_entries(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->index != y->index)
        return x->index < y->index ? -1 : 1;
    return x->place < y->place ? -1 : 1;
}

/* The same for long rows, where insertion would take quadratic time. */
static yk_status sort_long(uint32_t *index, float *value, size_t n)
{
    entry *e = malloc(n * sizeof *e);
    if (!e)
        return yk_fail_memory(n * sizeof *e, "sorting a row");
    for (size_t i = 0; i < n; i++)
        e[i] = (entry){index[i], value[i], i};
    qsort(e, n, sizeof *e, compare_entries);
    for (size_t i = 0; i < n; i++) {
        index[i] = e[i].index;
        value[i] = e[i].value;
    }
    free(e);
    return YK_OK;
}

static yk_status commit_sparse(yk_rows *rows, size_t entries)
{
    size_t at = entries_so_far(rows);
    uint32_t *index = rows->index + at;
    float *value = rows->value ? rows->value + at : rows->spare;
    bool ascending = true, ones = true;
    for (size_t i = 0; i + 1 < entries; i++)
        ascending &= index[i] < index[i + 1];
    if (!ascending) {
        if (entries > 256 && sort_long(index, value, entries))
            return YK_ESYSTEM;
        entries = sort_and_merge(index, value, entries);
    }
    for (size_t i = 0; i < entries; i++)
        ones &= value[i] == 1.0f;
    if (!ones && !rows->value) {
        GROW(rows->value, rows->value_cap, rows->entry_cap, "values");
        for (size_t i = 0; i < at; i++)
            rows->value[i] = 1.0f;
        memcpy(rows->value + at, value, entries * sizeof *value);
    }
    rows->start[rows->n + 1] = at + entries;
    if (entries && index[entries - 1] >= rows->dim)
        rows->dim = (size_t)index[entries - 1] + 1;
    return YK_OK;
}

yk_status yk_rows_commit(yk_rows *rows, size_t entries, int32_t label)
{
    yk_status st;
    if (rows->kind == YK_ROWS_SPARSE && (st = commit_sparse(rows, entries)))
        return st;
    rows->label[rows->n++] = label;
    return YK_OK;
}

yk_status yk_rows_commit_truth(yk_rows *rows, size_t entries, int32_t label, float truth)
{
    GROW(rows->truth, rows->truth_cap, rows->n + 1, "true probabilities");
    rows->truth[rows->n] = truth;
    return yk_rows_commit(rows, entries, label);
}

yk_status yk_rows_append(yk_rows *rows, const yk_rows *from, size_t first, size_t n)
{
    if (n == 0)
        return YK_OK;
    GROW(rows->label, rows->label_cap, rows->n + n, "labels");
    rows->scale = from->scale;
    if (!from->truth && rows->truth) { /* not known of all: then of none */
        free(rows->truth);
        rows->truth = NULL;
        rows->truth_cap = 0;
    }
    if (from->truth && (rows->truth || rows->n == 0)) {
        GROW(rows->truth, rows->truth_cap, rows->n + n, "true probabilities");
        memcpy(rows->truth + rows->n, from->truth + first, n * sizeof *from->truth);
    }
    if (rows->kind == YK_ROWS_U8) {
        GROW(rows->u8, rows->cap, (rows->n + n) * rows->dim, "pixels");
        memcpy(rows->u8 + rows->n * rows->dim, from->u8 + first * from->dim, n * from->dim);
    } else if (rows->kind == YK_ROWS_F32) {
        GROW(rows->f32, rows->cap, (rows->n + n) * rows->dim, "values");
        memcpy(rows->f32 + rows->n * rows->dim, from->f32 + first * from->dim, n * from->dim * sizeof(float));
    } else {
        size_t at = entries_so_far(rows), begin = (size_t)from->start[first];
        size_t entries = (size_t)from->start[first + n] - begin;
        GROW(rows->start, rows->start_cap, rows->n + n + 1, "row starts");
        GROW(rows->index, rows->entry_cap, at + entries, "indices");
        rows->start[0] = 0;
        if (from->value && !rows->value) {
            GROW(rows->value, rows->value_cap, rows->entry_cap, "values");
            for (size_t i = 0; i < at; i++)
                rows->value[i] = 1.0f;
        }
        memcpy(rows->index + at, from->index + begin, entries * sizeof *from->index);
        if (rows->value) {
            GROW(rows->value, rows->value_cap, rows->entry_cap, "values");
            if (from->value)
                memcpy(rows->value + at, from->value + begin, entries * sizeof *from->value);
            else
                for (size_t i = 0; i < entries; i++)
                    rows->value[at + i] = 1.0f;
        }
        for (size_t i = 1; i <= n; i++)
            rows->start[rows->n + i] = at + (size_t)from->start[first + i] - begin;
        rows->dim = from->dim > rows->dim ? from->dim : rows->dim;
    }
    memcpy(rows->label + rows->n, from->label + first, n * sizeof *from->label);
    rows->n += n;
    return YK_OK;
}

size_t yk_rows_bytes(const yk_rows *rows)
{
    size_t bytes = rows->n * (sizeof *rows->label + (rows->truth ? sizeof *rows->truth : 0));
    if (rows->kind == YK_ROWS_U8)
        bytes += rows->n * rows->dim;
    else if (rows->kind == YK_ROWS_F32)
        bytes += rows->n * rows->dim * sizeof(float);
    else
        bytes += (rows->n + 1) * sizeof *rows->start + entries_so_far(rows) * (rows->value ? 8u : 4u);
    return bytes;
}

void yk_rows_settle(yk_rows *rows)
{
    if (rows->map)
        return;
    size_t entries = rows->kind == YK_ROWS_SPARSE ? entries_so_far(rows) : 0;
    yk_collapse(rows->u8, rows->u8 ? rows->n * rows->dim : 0);
    yk_collapse(rows->f32, rows->f32 ? rows->n * rows->dim * sizeof *rows->f32 : 0);
    yk_collapse(rows->start, rows->start ? rows->n * sizeof *rows->start : 0);
    yk_collapse(rows->index, entries * sizeof *rows->index);
    yk_collapse(rows->value, rows->value ? entries * sizeof *rows->value : 0);
}

/* ---- as bytes ---- */

/* | packed | start, u64 [n + 1] | index, u32 [entries] | value, f32 [entries] | label, i32 [n] | truth, f32 [n] | pixels |
 * each array padded to 8 bytes; those that are not there have no bytes */
typedef struct {
    uint64_t kind, n, dim, entries, has_value, has_truth;
    double scale;
} packed;

enum { ARRAYS = 7 };

static size_t array_bytes(const packed *p, int a)
{
    const bool sparse = p->kind == YK_ROWS_SPARSE;
    const uint64_t bytes[ARRAYS] = {sparse ? 8 * (p->n + 1) : 0,
                                    sparse ? 4 * p->entries : 0,
                                    sparse && p->has_value ? 4 * p->entries : 0,
                                    4 * p->n,
                                    p->has_truth ? 4 * p->n : 0,
                                    p->kind == YK_ROWS_U8 ? p->n * p->dim : 0,
                                    p->kind == YK_ROWS_F32 ? 4 * p->n * p->dim : 0};
    return YK_ROUND_UP(bytes[a], 8);
}

yk_status yk_rows_pack(const yk_rows *rows, char **out, size_t *bytes_out)
{
    const packed head = {
        rows->kind,          rows->n,
        rows->dim,           rows->kind == YK_ROWS_SPARSE && rows->n ? rows->start[rows->n] : 0,
        rows->value != NULL, rows->truth != NULL,
        (double)rows->scale};
    const void *array[ARRAYS] = {rows->start, rows->index, rows->value, rows->label,
                                 rows->truth, rows->u8,    rows->f32};
    const size_t width[ARRAYS] = {8, 4, 4, 4, 4, 1, 4};
    const size_t count[ARRAYS] = {rows->n + 1, head.entries,        head.entries,       rows->n,
                                  rows->n,     rows->n * rows->dim, rows->n * rows->dim};
    size_t total = sizeof head;
    for (int a = 0; a < ARRAYS; a++)
        total += array_bytes(&head, a);
    char *at = *out = calloc(1, total);
    if (!at)
        return yk_fail_memory(total, "rows for other processes");
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    for (int a = 0; a < ARRAYS; a++) {
        if (array_bytes(&head, a) && array[a] && rows->n)
            memcpy(at, array[a], width[a] * count[a]);
        at += array_bytes(&head, a);
    }
    *bytes_out = total;
    return YK_OK;
}

yk_status yk_rows_unpack(const char *from, size_t bytes, yk_rows *out)
{
    packed head;
    size_t total = sizeof head;
    if (bytes < sizeof head)
        return yk_fail(YK_EDATA, "rows of another process make no sense: %zu bytes", bytes);
    memcpy(&head, from, sizeof head);
    if (head.kind > YK_ROWS_SPARSE || head.n > bytes || head.entries > bytes ||
        (head.n && head.dim > UINT32_MAX))
        return yk_fail(YK_EDATA, "rows of another process make no sense");
    yk_rows_init(out, (yk_rows_kind)head.kind, head.dim);
    const char *array[ARRAYS];
    for (int a = 0; a < ARRAYS; a++) {
        array[a] = array_bytes(&head, a) ? from + total : NULL;
        total += array_bytes(&head, a);
    }
    if (total != bytes)
        return yk_fail(YK_EDATA, "rows of another process make no sense: %zu bytes instead of %zu", bytes,
                       total);
    out->n = head.n;
    out->dim = head.dim;
    out->scale = (float)head.scale;
    out->start = (uint64_t *)(void *)array[0];
    out->index = (uint32_t *)(void *)array[1];
    out->value = (float *)(void *)array[2];
    out->label = (int32_t *)(void *)array[3];
    out->truth = (float *)(void *)array[4];
    out->u8 = (uint8_t *)(void *)array[5];
    out->f32 = (float *)(void *)array[6];
    return YK_OK;
}
