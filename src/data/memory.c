#include "data/memory.h"

#include "data/formats.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- checks ---- */

static yk_status check_labels(yk_memory_data *m)
{
    enum { MOST_CLASSES = 1 << 24 };
    int32_t most = 1;
    for (size_t i = 0; i < m->rows.n; i++) {
        const int32_t label = m->rows.label[i];
        if (label < 0 || label >= (m->classes ? (int32_t)m->classes : MOST_CLASSES))
            return yk_fail(YK_EDATA, "row %zu: label %d is not a class from 0 to %d", i, label,
                           (m->classes ? (int32_t)m->classes : MOST_CLASSES) - 1);
        most = label > most ? label : most;
    }
    m->classes = m->classes ? m->classes : (uint32_t)most + 1;
    return YK_OK;
}

static yk_status check_row(const yk_rows *rows, size_t r, bool *ascending)
{
    const uint64_t begin = rows->start[r], end = rows->start[r + 1];
    if (begin > end || end > rows->start[rows->n] || (r == 0 && begin))
        return yk_fail(YK_EDATA, "row %zu: it starts at entry %llu and ends at entry %llu", r,
                       (unsigned long long)begin, (unsigned long long)end);
    for (uint64_t e = begin; e < end; e++) {
        if (rows->index[e] >= rows->dim) /* a negative one is large here */
            return yk_fail(YK_EDATA, "row %zu: index %d is not one of %zu columns", r,
                           (int32_t)rows->index[e], rows->dim);
        if (rows->value && !isfinite(rows->value[e]))
            return yk_fail(YK_EDATA, "row %zu: the value of index %u is not finite", r, rows->index[e]);
        *ascending &= e == begin || rows->index[e] > rows->index[e - 1];
    }
    return YK_OK;
}

yk_status yk_memory_check(yk_memory_data *m)
{
    const yk_rows *rows = &m->rows;
    if (!rows->n || !rows->dim)
        return yk_fail(YK_EDATA, "the data has no %s", rows->n ? "columns" : "rows");
    if (rows->dim >= INT32_MAX || rows->n >= UINT32_MAX)
        return yk_fail(YK_EUSAGE, "the data has %zu rows and %zu columns; at most 2^32 - 2 and 2^31 - 2 fit",
                       rows->n, rows->dim);
    if (m->height && m->channels * m->height * m->width != rows->dim)
        return yk_fail(YK_EUSAGE, "images of %zu channels, %zux%zu pixels do not have %zu columns",
                       m->channels, m->height, m->width, rows->dim);
    yk_status st = check_labels(m);
    m->ascending = true;
    for (size_t r = 0; !st && rows->kind == YK_ROWS_SPARSE && r < rows->n; r++)
        st = check_row(rows, r, &m->ascending);
    for (size_t i = 0; !st && rows->kind == YK_ROWS_F32 && i < rows->n * rows->dim; i++)
        if (!isfinite(rows->f32[i]))
            st = yk_fail(YK_EDATA, "row %zu: the value in column %zu is not finite", i / rows->dim,
                         i % rows->dim);
    if (!st && m->in_place && !m->ascending)
        st = yk_fail(YK_EUSAGE, "training in place needs indices that ascend within each row; without it, "
                                "training makes a sorted copy");
    return st;
}

/* ---- the source ---- */

typedef struct {
    yk_source base;
    const yk_memory_data *data;
} memory_source;

/* Rows whose indices do not ascend are sorted. */
static yk_status append_sorted(const yk_rows *from, size_t r, yk_rows *rows)
{
    const size_t n = yk_rows_entries(from, r);
    uint32_t *index;
    float *value;
    yk_status st = yk_rows_sparse(rows, n, &index, &value);
    if (st)
        return st;
    memcpy(index, from->index + from->start[r], n * sizeof *index);
    if (from->value)
        memcpy(value, from->value + from->start[r], n * sizeof *value);
    return yk_rows_commit(rows, n, from->label[r]);
}

static yk_status next(yk_reader *reader, yk_rows *rows, size_t max, size_t *got_out)
{
    yk__cached_reader *r = (yk__cached_reader *)reader;
    const yk_memory_data *m = ((const memory_source *)reader->source)->data;
    const size_t first = reader->block * YK__CACHED_BLOCK + r->at, left = m->rows.n - first,
                 block = YK__CACHED_BLOCK - r->at;
    size_t n = max < left ? max : left;
    n = n < block ? n : block;
    yk_status st = m->ascending ? yk_rows_append(rows, &m->rows, first, n) : YK_OK;
    for (size_t i = 0; !st && !m->ascending && i < n; i++)
        st = append_sorted(&m->rows, first + i, rows);
    r->at += n;
    *got_out = n;
    return st;
}

static const yk_source_ops memory_ops = {.name = "memory",
                                         .usage = "memory",
                                         .source_size = sizeof(memory_source),
                                         .reader_size = sizeof(yk__cached_reader),
                                         .next = next};

yk_status yk_source_from_memory(const yk_memory_data *m, yk_source **out)
{
    memory_source *s = calloc(1, sizeof *s);
    char *name = strdup("memory");
    if (!s || !name) {
        free(s);
        free(name);
        return yk_fail_memory(sizeof *s, "a data source");
    }
    const bool in_place = m->in_place || m->rows.kind != YK_ROWS_SPARSE;
    s->data = m;
    s->base = (yk_source){.ops = &memory_ops,
                          .spec = name,
                          .kind = m->rows.kind,
                          .nblocks = (m->rows.n + YK__CACHED_BLOCK - 1) / YK__CACHED_BLOCK,
                          .examples = m->rows.n,
                          .dim = m->rows.dim,
                          .classes = m->classes,
                          .channels = m->channels,
                          .height = m->height,
                          .width = m->width,
                          .cached = in_place ? (yk_rows *)&m->rows : NULL,
                          .read_only = in_place};
    *out = &s->base;
    return YK_OK;
}
