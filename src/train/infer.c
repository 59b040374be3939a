#include "train/infer.h"

#include "base/mem.h"
#include "model/model.h"
#include <stdlib.h>

enum { AT_A_TIME = 256 };

typedef struct {
    const yk_model *model;
    yk_work *work;
    const float *params;
    float *p;
    yk_tally tally;
    uint64_t seen; /* examples, for messages */
    yk_infer_each *each;
    void *user;
} inference;

/* Whether the model has a weight for every column and a name for every class of these rows. */
static yk_status check(const inference *in, const yk_source *s, const yk_rows *rows)
{
    const yk_model_shape *shape = &in->model->shape;
    if (rows->kind == YK_ROWS_SPARSE ? rows->dim > shape->dim : rows->dim != shape->dim)
        return yk_fail(
            YK_EDATA, "%s: near example %llu: %s %zu does not fit the model, which has %zu features", s->spec,
            (unsigned long long)in->seen, rows->kind == YK_ROWS_SPARSE ? "index" : "a row length of",
            rows->kind == YK_ROWS_SPARSE ? rows->dim - 1 : rows->dim, shape->dim);
    for (size_t i = 0; i < rows->n; i++)
        if ((uint32_t)rows->label[i] >= shape->classes)
            return yk_fail(YK_EDATA, "%s: example %llu is of class %d, but the model knows classes 0 to %u",
                           s->spec, (unsigned long long)in->seen + i, rows->label[i], shape->classes - 1);
    return YK_OK;
}

/* All rows; `reader` is the one that gave them, or NULL. */
static yk_status infer_rows(inference *in, const yk_rows *rows, const yk_reader *reader)
{
    yk_view v[YK_MAX_GROUPS] = {0};
    for (int g = 0; g < in->model->ngroups; g++)
        v[g].w = (float *)in->params + yk_model_group_at(in->model, g);
    uint32_t pick[AT_A_TIME];
    yk_status st = YK_OK;
    for (size_t at = 0; !st && at < rows->n; at += AT_A_TIME) {
        size_t m = rows->n - at < AT_A_TIME ? rows->n - at : AT_A_TIME;
        for (size_t i = 0; i < m; i++)
            pick[i] = (uint32_t)(at + i);
        yk_batch b = {.rows = rows, .pick = pick, .n = m};
        in->model->ops->predict(in->model, in->work, v, &b, in->p, &in->tally.loss);
        st = yk_tally_add(&in->tally, in->p, in->model->outputs, &b);
        if (!st && in->each)
            st = in->each(in->user, &(yk_inferred){in->p, in->model->outputs, m, reader, at});
    }
    in->seen += rows->n;
    return st;
}

static yk_status infer_source(inference *in, yk_source *s)
{
    yk_status st = YK_OK;
    if (s->cached) {
        st = check(in, s, s->cached);
        return st ? st : infer_rows(in, s->cached, NULL);
    }
    yk_rows rows;
    yk_rows_init(&rows, s->kind, s->dim);
    for (size_t b = 0; !st && b < s->nblocks; b++) {
        yk_reader *r;
        size_t got = 1;
        if ((st = yk_source_read(s, b, &r)))
            break;
        while (!st && got) {
            yk_rows_clear(&rows);
            if (!(st = yk_reader_next(r, &rows, 4096, &got)) && !(st = check(in, s, &rows)))
                st = infer_rows(in, &rows, r);
        }
        yk_reader_free(r);
    }
    yk_rows_fini(&rows);
    return st;
}

/* Whether the data looks as what the model was trained on did. */
static yk_status check_shape(const yk_model_shape *m, const yk_source *s)
{
    const bool sparse = s->kind == YK_ROWS_SPARSE;
    if (sparse != (m->kind == YK_ROWS_SPARSE))
        return yk_fail(YK_EDATA, "%s: it has %s rows, but the model was trained on %s ones", s->spec,
                       sparse ? "sparse" : "dense", sparse ? "dense" : "sparse");
    if (m->height > 1 && s->height) { /* pictures, both of them; rows of the same length may be others */
        if (m->height == s->height && m->width == s->width && m->channels == s->channels)
            return YK_OK;
        return yk_fail(YK_EDATA,
                       "%s: its pictures have %zux%zu pixels and %zu channel%s, but the model was trained on "
                       "%zux%zu and %zu (encoded pictures: add ?size=%zux%zu&channels=%zu)",
                       s->spec, s->height, s->width, s->channels, s->channels == 1 ? "" : "s", m->height,
                       m->width, m->channels, m->height, m->width, m->channels);
    }
    if (!s->dim || s->dim == m->dim)
        return YK_OK;
    return yk_fail(YK_EDATA, "%s: it has %zu columns, but the model was trained on %zu%s", s->spec, s->dim,
                   m->dim, sparse ? " (are --hash-bits or --features those of the training?)" : "");
}

yk_status yk_infer(const yk_trained *m, yk_source *source, yk_infer_each *each, void *user, yk_score *out)
{
    inference in = {.model = m->model, .params = m->params, .each = each, .user = user};
    yk_status st = check_shape(&in.model->shape, source);
    if (!st)
        st = yk_model_work(in.model, AT_A_TIME, &in.work);
    if (!st && !(in.p = yk_alloc(AT_A_TIME * in.model->outputs, sizeof *in.p, "predictions")))
        st = YK_ESYSTEM;
    if (!st)
        st = infer_source(&in, source);
    if (!st && in.tally.examples == 0)
        st = yk_fail(YK_EDATA, "%s: there are no examples in it", source->spec);
    if (!st)
        st = yk_score_make(&in.tally, 1, out);
    yk_tally_fini(&in.tally);
    yk_free(in.p);
    yk_work_free(in.model, in.work);
    return st;
}
