/* Predictions for a CSR matrix. Each thread checks and predicts a block of rows at a time, so the matrix is read from memory
 * once. Rows with 64-bit keys are copied, a block at a time, because column numbers must be sorted and equal ones merged. */
#include "lib/internal.h"

#include "base/mem.h"
#include "base/team.h"
#include "model/model.h"
#include <string.h>

enum { BLOCK = 2048, MIN_ROWS = 16384 }; /* of a thread */

typedef struct {
    const yk_trained *trained;
    const yoke_csr *csr;
    float *out;
    size_t columns;          /* of `out` */
    yk_positions *positions; /* the fields of the model; NULL: not by position */
    int threads;
} job;

/* Memory of one thread. */
typedef struct {
    yk_workspace *work;
    float *p;                  /* [BLOCK][outputs] */
    uint64_t start[BLOCK + 1]; /* of the rows of a block, relative to its first entry */
    int32_t label[BLOCK];      /* zeros */
    uint32_t pick[BLOCK];      /* 0, 1, 2, ... */
    yk_rows copy;              /* of the block, with column numbers for keys, or with fields by position */
} state;

static uint64_t start_of(const yoke_csr *csr, size_t r)
{
    return csr->start64 ? (uint64_t)csr->start64[r] : (uint64_t)(int64_t)csr->start32[r];
}

/* Rows first to first + n - 1. */
static yk_status block_of(const yoke_csr *csr, size_t first, size_t n, state *s, yk_rows *out)
{
    const uint64_t base = start_of(csr, first), entries = start_of(csr, csr->rows);
    for (size_t r = 0; r <= n; r++) {
        const uint64_t at = start_of(csr, first + r);
        if (at > entries || (int64_t)at < 0 ||
            (r && at < base + s->start[r - 1])) /* a negative start is large here */
            return yk_fail(YK_EDATA, "row %zu starts at entry %llu but ends at entry %lld",
                           first + r - (r > 0), (unsigned long long)(r ? base + s->start[r - 1] : base),
                           (long long)at);
        s->start[r] = at - base;
    }
    *out = (yk_rows){.kind = YK_ROWS_SPARSE,
                     .n = n,
                     .dim = csr->columns,
                     .start = s->start,
                     .index = csr->index ? (uint32_t *)csr->index + base : NULL,
                     .value = csr->value ? (float *)csr->value + base : NULL,
                     .field = csr->field ? (uint16_t *)csr->field + base : NULL,
                     .label = s->label,
                     .raw_keys = true};
    return YK_OK;
}

/* Replaces a block with a sorted copy that has column numbers, and fields. */
static yk_status copy_sorted(const job *j, size_t first, state *s, yk_rows *block)
{
    const yk_model_shape *shape = &j->trained->model->shape;
    const yoke_csr *csr = j->csr;
    const yk_key_space keys = {.features = shape->dim, .hash = shape->hashed};
    const int64_t *key = csr->index64 ? csr->index64 + start_of(csr, first) : NULL;
    yk_rows from = *block;
    yk_status st = YK_OK;
    if (shape->fields < 2 || j->positions)
        from.field = NULL; /* entries that differ only in their field are merged */
    yk_rows_clear(&s->copy);
    for (size_t r = 0; !st && r < from.n; r++)
        st = yk_memory_append_sorted(&from, key, r, keys, first + r, &s->copy);
    size_t row = 0;
    if (!st && j->positions && (st = yk_positions_number(j->positions, &s->copy, &row)) == YK_EDATA)
        st = yk_fail(YK_EDATA, "row %zu: %s, and the model was trained on fields by position", first + row,
                     yk_error());
    *block = s->copy;
    block->dim = shape->dim;
    block->raw_keys = true;
    return st;
}

/* s->p of a block. */
static yk_status predict_block(const yk_model *model, const yk_view *view, yk_rows *rows, size_t first,
                               state *s)
{
    if (model->ops->predict_unchecked && model->ops->predict_unchecked(model, s->work, view, rows, s->p))
        return YK_OK;
    yk_status st = yk_memory_check_block(rows, first);
    const uint32_t known = model->shape.fields, n = st || known < 2 ? 0 : yk_rows_count_fields(rows);
    if (n > known)
        st = yk_fail(YK_EDATA,
                     "rows %zu to %zu: an entry has field %u, but the model was trained on %u fields", first,
                     first + rows->n - 1, n - 1, known);
    if (!st)
        model->ops->predict(model, s->work, view, &(yk_batch){.rows = rows, .pick = s->pick, .n = rows->n},
                            s->p, NULL);
    return st;
}

static yk_status predict_rows(const job *j, size_t begin, size_t end, state *s)
{
    const yk_model *model = j->trained->model;
    yk_view view[YK_MAX_GROUPS] = {0};
    yk_status st = YK_OK;
    for (int g = 0; g < model->ngroups; g++)
        view[g].w = j->trained->params + yk_model_group_offset(model, g);
    for (size_t first = begin; !st && first < end; first += BLOCK) {
        const size_t n = end - first < BLOCK ? end - first : BLOCK;
        yk_rows rows;
        st = block_of(j->csr, first, n, s, &rows);
        if (!st && (j->csr->index64 || j->positions))
            st = copy_sorted(j, first, s, &rows);
        if (!st)
            st = predict_block(model, view, &rows, first, s);
        const size_t outputs = model->outputs;
        float *to = j->out + first * j->columns;
        if (!st && outputs == j->columns)
            memcpy(to, s->p, n * outputs * sizeof *to);
        for (size_t i = 0; !st && outputs != j->columns && i < n; i++) {
            to[2 * i] = 1.0f - s->p[i];
            to[2 * i + 1] = s->p[i];
        }
    }
    return st;
}

/* The share of one thread. */
static yk_status predict_part(void *context, int me)
{
    const job *j = context;
    const size_t begin = j->csr->rows * (size_t)me / (size_t)j->threads,
                 end = j->csr->rows * ((size_t)me + 1) / (size_t)j->threads;
    const yk_model *model = j->trained->model;
    state *s = yk_alloc(1, sizeof *s, "predictions");
    if (!s)
        return YK_ESYSTEM;
    for (uint32_t i = 0; i < BLOCK; i++)
        s->pick[i] = i;
    yk_rows_init(&s->copy, YK_ROWS_SPARSE, 0);
    yk_status st = yk_workspace_create(model, BLOCK, &s->work);
    if (!st && !(s->p = yk_alloc(BLOCK * model->outputs, sizeof *s->p, "predictions")))
        st = YK_ESYSTEM;
    if (!st)
        st = predict_rows(j, begin, end, s);
    yk_rows_fini(&s->copy);
    yk_free(s->p);
    yk_workspace_free(model, s->work);
    yk_free(s);
    return st;
}

static yk_status check(const yk_trained *t, const yoke_csr *csr, size_t columns)
{
    const yk_model_shape *shape = &t->model->shape;
    const size_t outputs = t->model->outputs;
    if (columns != outputs && !(outputs == 1 && columns == 2))
        return yk_fail(YK_EUSAGE, "yoke_predict_csr: the model has %zu output%s, not %zu", outputs,
                       yk_plural(outputs), columns);
    if (shape->kind != YK_ROWS_SPARSE)
        return yk_fail(YK_EDATA, "the rows are sparse, but the model was trained on dense rows");
    if (shape->fields > 1 && !shape->positional && !csr->field)
        return yk_fail(YK_EDATA, "the model was trained on %u fields, but the matrix has no field numbers",
                       shape->fields);
    if (csr->columns != shape->dim && !(csr->index64 && shape->hashed))
        return yk_fail(YK_EDATA, "the matrix has %zu columns, but the model was trained on %zu", csr->columns,
                       shape->dim);
    return start_of(csr, 0) ? yk_fail(YK_EDATA, "row 0 does not start at entry 0") : YK_OK;
}

yoke_status yoke_predict_csr(const yoke_model *m, const yoke_csr *given, float *out, size_t columns,
                             yoke_error *error)
{
    yoke_csr csr;
    job j = {.trained = (const yk_trained *)m, .csr = &csr, .out = out, .columns = columns};
    const yk_model_shape *shape = &j.trained->model->shape;
    yk_positions positions;
    yk_positions_init(&positions, shape->fields);
    if (shape->fields > 1 && shape->positional)
        j.positions = &positions;
    yk_status st = yk_api_csr(given, &csr);
    if (!st)
        st = check(j.trained, &csr, columns);
    j.threads = yk_cores_for(csr.rows / MIN_ROWS + 1);
    if (!st)
        st = yk_team_once(j.threads, predict_part, &j);
    yk_positions_fini(&positions);
    return yk_api_status(st, error);
}
