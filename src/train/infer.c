#include "train/infer.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/team.h"
#include "model/model.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 256, READ = 4096 };

/* Adds the predictions o->p. */
static yk_status add_to_tally(const yk__predictor *o, const yk_batch *b)
{
    const yk_loss *loss = o->model->loss;
    float weights[BATCH], label[BATCH], *const weight = yk_batch_weighted(b) ? weights : NULL;
    for (size_t i = 0; weight && i < b->n; i++)
        weight[i] = yk_batch_weight(b, i);
    o->tally->other_loss = !loss->log_loss;
    if (!loss->numbers)
        return yk_tally_add(o->tally, o->p, o->model->outputs, b, weight);
    for (size_t i = 0; i < b->n; i++)
        label[i] = yk_rows_target(b->rows, b->pick[i]);
    yk_tally_add_numbers(o->tally, o->p, label, weight, b->n);
    return YK_OK;
}

/* `reader`: the one that read the rows, or NULL. number: of the first of `rows`. */
static yk_status predict_rows(const yk__predictor *o, const yk_rows *rows, size_t begin, size_t end,
                              const yk_reader *reader, size_t number)
{
    uint32_t pick[BATCH];
    yk_status st = YK_OK;
    for (size_t at = begin; !st && at < end; at += o->batch) {
        const size_t n = end - at < o->batch ? end - at : o->batch;
        for (size_t i = 0; i < n; i++)
            pick[i] = (uint32_t)(o->order ? yk_perm_at(o->order, at + i) : at + i);
        const size_t outputs = o->model->outputs;
        const yk_batch b = {.rows = rows, .pick = pick, .n = n, .raw = o->raw};
        o->model->ops->predict(o->model, o->work, o->view, &b, o->p, o->no_score ? NULL : &o->tally->loss);
        if (o->no_score)
            o->tally->examples += n;
        else
            st = add_to_tally(o, &b);
        for (size_t i = 0; o->raw && outputs > 1 && i < n * outputs; i++)
            o->p[i] = logf(o->p[i]);
        if (!st && o->each)
            st = o->each(o->each_context, &(yk_inferred){o->p, outputs, n, reader, at, number + at});
    }
    return st;
}

static bool is_enough(const yk__predictor *o)
{
    return o->max && o->tally->examples >= o->max;
}

/* As many of n rows as are still wanted. */
static size_t limited(const yk__predictor *o, size_t n)
{
    const uint64_t left = o->max ? o->max - o->tally->examples : n;
    return left < n ? (size_t)left : n;
}

/* Every stride-th block of a source. */
static yk_status predict_blocks(const yk__predictor *o, yk_source *s, size_t first, size_t stride)
{
    yk_status st = YK_OK;
    yk_rows rows;
    size_t number = 0; /* of the next row, in the data; see yk__predictor */
    yk_rows_init(&rows, s->kind, s->dim);
    for (size_t b = first; !st && b < s->nblocks && !is_enough(o); b += stride) {
        yk_reader *r;
        size_t got = 1;
        number = s->block_rows ? b * s->block_rows : number;
        if ((st = yk_source_read(s, b, &r)))
            break;
        while (!st && got && !is_enough(o)) {
            yk_rows_clear(&rows);
            if (!(st = yk_reader_next(r, &rows, READ, &got)) && !(st = o->prepare(o->context, &rows, number)))
                st = predict_rows(o, &rows, 0, limited(o, rows.n), r, number);
            number += rows.n;
        }
        yk_reader_free(r);
    }
    yk_rows_fini(&rows);
    return st;
}

yk_status yk__predict(const yk__predictor *predictor, const yk_rows *rows, yk_source *s, size_t share,
                      size_t of)
{
    yk__predictor o = *predictor;
    const size_t all = rows && (!o.max || rows->n < o.max) ? rows->n : o.max, begin = all * share / of;
    o.max = all * (share + 1) / of - begin;
    if (rows)
        return predict_rows(&o, rows, begin, begin + o.max, NULL, 0);
    return all && !o.max ? YK_OK : predict_blocks(&o, s, share, of);
}

typedef struct {
    const yk_trained *trained;
    const yk_model_shape *shape;
    const yk_source *source;
    bool warns;     /* once: other threads and chunks do not */
    bool no_labels; /* they are ignored */
    yk_positions positions;
} checker;

typedef struct {
    char text[64];
} position;

/* Names an example in messages: "row 0" of the caller's memory, "example 1" of other data. */
static position position_of(const checker *c, size_t number)
{
    const yk_source *s = c->source;
    position p;
    if (!s->parsed.text)
        snprintf(p.text, sizeof p.text, "row %zu", number);
    else
        snprintf(p.text, sizeof p.text, "%sexample %zu", s->part.on || s->options.skip_bad ? "near " : "",
                 number + 1);
    return p;
}

/* The first row with an index of at least `column`, or a field of at least `field`. */
static size_t first_with(const yk_rows *rows, size_t column, uint32_t field)
{
    size_t r = 0;
    for (uint64_t e = 0; e < rows->start[rows->n]; e++) {
        while (e >= rows->start[r + 1])
            r++;
        if (rows->index[e] >= column || (rows->field && rows->field[e] >= field))
            return r;
    }
    return 0;
}

/* Whether the model has parameters for the fields of these rows. */
static yk_status check_fields(checker *c, yk_rows *rows, size_t number)
{
    if (c->shape->fields > 1 && c->shape->positional && rows->n) {
        size_t row = 0;
        const yk_status st = yk_positions_number(&c->positions, rows, &row);
        if (st == YK_EDATA)
            return yk_fail(st, "%s: %s: %s, and the model was trained on fields by position", c->source->spec,
                           position_of(c, number + row).text, yk_error());
        if (st)
            return st;
    }
    if (c->shape->fields > 1 && !rows->field && rows->n)
        return yk_fail(YK_EDATA, "%s: the rows have no field numbers, but the model was trained on %u fields",
                       c->source->spec, c->shape->fields);
    const uint32_t fields = yk_rows_count_fields(rows);
    if (rows->field && fields > c->shape->fields)
        return yk_fail(YK_EDATA, "%s: %s: field %u is out of range for the model, which has %u field%s",
                       c->source->spec, position_of(c, number + first_with(rows, rows->dim, fields - 1)).text,
                       fields - 1, c->shape->fields, yk_plural(c->shape->fields));
    return YK_OK;
}

/* The weights of the linear part of a model with one output, one for each column; NULL: it has none. */
static const float *linear_weights(const yk_trained *m)
{
    const yk_model *model = m->model;
    for (int i = 0; model->outputs == 1 && i < model->ntensors; i++) {
        const yk_model_tensor *t = &model->tensor[i];
        if (t->size == model->shape.dim && !t->transposed && !t->bias)
            return m->params + yk_model_group_offset(model, t->group) + t->offset;
    }
    return NULL;
}

/* Hashed features that did not occur in training have the weight 0. If most features of the first rows have it, names or
 * values are probably written differently than in training. */
static void warn_unknown(const checker *c, const yk_rows *rows)
{
    enum { MIN_ENTRIES = 100 };
    const yk_schema *s = c->trained->schema;
    const float *w = c->shape->hashed && rows->kind == YK_ROWS_SPARSE ? linear_weights(c->trained) : NULL;
    const size_t numeric = s && s->ncolumns ? s->numeric : 0;
    uint64_t hashed = 0, unknown = 0;
    for (uint64_t e = 0; w && rows->n && e < rows->start[rows->n]; e++) {
        hashed += rows->index[e] >= numeric;
        unknown += rows->index[e] >= numeric && w[rows->index[e]] == 0.0f;
    }
    if (hashed >= MIN_ENTRIES && 2 * unknown >= hashed)
        yk_warn(
            "%s: %.0f %% of the hashed features in the first %zu rows have no weight in the model: unless "
            "--l1 set it to 0, they did not occur in its training data; check that names, namespaces and "
            "values are written as in that data",
            c->source->spec ? c->source->spec : "the data", 100.0 * (double)unknown / (double)hashed,
            rows->n);
}

/* Whether the model has a weight for every column and every class of these rows. */
static yk_status check(void *context, yk_rows *rows, size_t number)
{
    checker *c = context;
    const bool sparse = rows->kind == YK_ROWS_SPARSE;
    if (sparse ? rows->dim > c->shape->dim : rows->dim != c->shape->dim)
        return yk_fail(
            YK_EDATA, "%s: %s: %s %zu does not match the model, which has %zu feature%s", c->source->spec,
            position_of(c, number + (sparse ? first_with(rows, rows->dim - 1, UINT32_MAX) : 0)).text,
            sparse ? "index" : "a row length of", rows->dim - sparse, c->shape->dim,
            yk_plural(c->shape->dim));
    const yk_status st = check_fields(c, rows, number);
    if (st)
        return st;
    if (c->warns)
        warn_unknown(c, rows);
    c->warns = false;
    const bool has_classes = !c->no_labels && !c->trained->model->loss->numbers;
    for (size_t i = 0; has_classes && i < rows->n; i++)
        if ((uint32_t)rows->label[i] >= c->shape->classes)
            return yk_fail(YK_EDATA, "%s: %s has class %d, but the model has classes 0 to %u",
                           c->source->spec, position_of(c, number + i).text, rows->label[i],
                           c->shape->classes - 1);
    return YK_OK;
}

/* Whether the data has the shape of the training data. */
static yk_status check_shape(const yk_model_shape *m, const yk_source *s)
{
    const bool sparse = s->kind == YK_ROWS_SPARSE;
    if (sparse != (m->kind == YK_ROWS_SPARSE))
        return yk_fail(YK_EDATA, "%s: the rows are %s, but the model was trained on %s rows", s->spec,
                       sparse ? "sparse" : "dense", sparse ? "dense" : "sparse");
    if (m->height > 1 && s->height) { /* both are images: compare more than the row length */
        if (m->height == s->height && m->width == s->width && m->channels == s->channels)
            return YK_OK;
        return yk_fail(YK_EDATA,
                       "%s: the images have %zux%zu pixels and %zu channel%s, but the model was trained on "
                       "%zux%zu and %zu (encoded images: add ?size=%zux%zu&channels=%zu)",
                       s->spec, s->height, s->width, s->channels, s->channels == 1 ? "" : "s", m->height,
                       m->width, m->channels, m->height, m->width, m->channels);
    }
    if (s->hashed_into && m->not_hashed)
        return yk_fail(YK_EUSAGE,
                       "%s: the keys are hashed, but those of the training data were not: leave out "
                       "--hash-bits and bits",
                       s->spec);
    if (!s->dim || s->dim == m->dim)
        return YK_OK;
    return yk_fail(YK_EDATA, "%s: %zu column%s, but the model was trained on %zu%s", s->spec, s->dim,
                   yk_plural(s->dim), m->dim,
                   s->hashed_into ? "; use the same --hash-bits or --features as in training" : "");
}

/* Share `me` of `all`: of the rows in memory, or every all-th block. */
static yk_status infer(const yk_trained *m, yk_source *source, bool raw, size_t me, size_t all,
                       yk_infer_each *each, void *context, yk_tally *out)
{
    checker c = {
        .trained = m, .shape = &m->model->shape, .source = source, .warns = me == 0, .no_labels = !out};
    const bool by_position = c.shape->fields > 1 && c.shape->positional;
    yk_positions_init(&c.positions, c.shape->fields);
    yk_view view[YK_MAX_GROUPS] = {0};
    yk_tally counted = {0}, *tally = out ? out : &counted;
    yk__predictor o = {.model = m->model,
                       .view = view,
                       .batch = BATCH,
                       .tally = tally,
                       .prepare = check,
                       .context = &c,
                       .no_score = !out,
                       .raw = raw,
                       .each = each,
                       .each_context = context};
    for (int g = 0; g < m->model->ngroups; g++)
        view[g].w = m->params + yk_model_group_offset(m->model, g);
    yk_status st = check_shape(c.shape, source);
    if (!st)
        st = yk_workspace_create(m->model, BATCH, &o.work);
    if (!st && !(o.p = yk_alloc(BATCH * m->model->outputs, sizeof *o.p, "predictions")))
        st = YK_ESYSTEM;
    yk_rows *rows = by_position ? NULL : source->cached; /* readers copy the rows, which are numbered then */
    if (!st && rows)
        st = check(&c, rows, 0);
    if (!st)
        st = yk__predict(&o, rows, source, me, all);
    if (!st && tally->examples == 0)
        st = yk_fail(YK_EDATA, "%s: no examples", source->spec);
    yk_positions_fini(&c.positions);
    yk_free(o.p);
    yk_workspace_free(m->model, o.work);
    return st;
}

yk_status yk_infer(const yk_trained *m, yk_source *source, bool raw, yk_infer_each *each, void *context,
                   yk_tally *out)
{
    return infer(m, source, raw, 0, 1, each, context, out);
}

/* ---- predictions as an array */

typedef struct {
    const yk_trained *model;
    yk_source *source;
    float *out;
    int threads;
} division;

static yk_status put(void *context, const yk_inferred *some)
{
    const division *d = context;
    memcpy(d->out + some->number * some->outputs, some->p, some->n * some->outputs * sizeof *some->p);
    return YK_OK;
}

static yk_status infer_share(void *context, int me)
{
    const division *d = context;
    return infer(d->model, d->source, false, (size_t)me, (size_t)d->threads, put, context, NULL);
}

yk_status yk_infer_array(const yk_trained *m, yk_source *source, float *out)
{
    division d = {m, source, out, yk_cores_for(source->nblocks)};
    return yk_team_once(d.threads, infer_share, &d);
}
