#include "train/weights.h"

#include "base/mem.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NO_FIELD = UINT16_MAX, FIELDS = UINT16_MAX + 1 };

typedef struct {
    const yk_model *model;
    const yk_schema *schema; /* NULL: not known */
    const float *params;
    size_t dim;
    yk_source *data;  /* NULL: none */
    double *sum;      /* [dim] of |x| */
    uint32_t *rows;   /* [dim] in which the feature occurs */
    uint16_t *field;  /* [dim] */
    uint32_t *wanted; /* [dim] 1 + its first index in out->weight */
    yk_weights *out;
} finder;

/* ---- tensors with a row or a column for each feature */

static bool is_linear(const finder *f, const yk_model_tensor *t)
{
    return t->rank == 2 && t->shape[1] == f->dim && !strcmp(f->model->group[t->group].name, "linear");
}

static bool is_embedding(const finder *f, const yk_model_tensor *t)
{
    return t->rank == 2 && f->model->group[t->group].keyed && !is_linear(f, t);
}

/* Value k of feature i. */
static double value_of(const finder *f, const yk_model_tensor *t, size_t i, size_t k)
{
    const float *p = f->params + yk_model_group_offset(f->model, t->group) + t->offset;
    const size_t at = t->transposed     ? i * t->transposed + k
                      : is_linear(f, t) ? k * f->dim + i
                                        : i * t->shape[1] + k;
    return (double)p[at];
}

static double mean_of(const finder *f, size_t i)
{
    return f->data && f->out->rows ? f->sum[i] / (double)f->out->rows : (double)NAN;
}

/* ---- names */

static bool is_hashed(const finder *f, uint32_t i)
{
    const yk_schema *s = f->schema;
    return s && s->ncolumns ? yk_schema_hashes(s) && i >= s->numeric : f->model->shape.hashed;
}

static void set_name(const finder *f, uint32_t i, char *out, size_t size)
{
    const yk_schema *s = f->schema;
    const yk_model_shape *shape = &f->model->shape;
    const bool svm = s && (!strcmp(s->format, "libsvm") || !strcmp(s->format, "libffm"));
    char number[32];
    if (is_hashed(f, i))
        snprintf(out, size, "hashed %u", i);
    else if (shape->height > 1) /* channel by channel */
        snprintf(out, size, "pixel %zu,%zu,%zu", i / shape->width / shape->height,
                 i / shape->width % shape->height, i % shape->width);
    else
        snprintf(out, size, svm ? "index %llu" : "feature %llu",
                 i + (svm ? (unsigned long long)f->out->base : 0));
    for (size_t k = 0; s && k < s->ncolumns; k++) {
        const yk_schema_column *c = &s->column[k];
        if (c->role == YK_COLUMN_NUMERIC && i == c->index)
            snprintf(out, size, "%s", yk_schema_title(s, c, number));
        else if (c->role == YK_COLUMN_CATEGORICAL && i - c->index < c->values.n)
            snprintf(out, size, "%s=%s", yk_schema_title(s, c, number), c->values.name[i - c->index]);
    }
}

/* For yk_feature_names: a name of a wanted feature, which may be known already. */
static void add_name(void *context, uint32_t feature, const char *column, size_t n, char separator,
                     const char *value, size_t m)
{
    const finder *f = context;
    char *to = f->out->weight[f->wanted[feature] - 1].name, name[sizeof f->out->weight->name];
    const size_t used = strlen(to);
    snprintf(name, sizeof name, "%.*s%.*s%.*s", (int)n, column, n > 0, &separator, (int)m, value);
    if (!used || !strstr(to, name))
        snprintf(to + used, sizeof name - used, "%s%s", used ? ", " : "", name);
}

/* The second pass. */
static yk_status find_names(finder *f, yk_feature_names *names)
{
    bool hashed = false;
    for (size_t i = 0; i < f->out->n; i++) {
        yk_weight *w = &f->out->weight[i];
        set_name(f, w->feature, w->name, sizeof w->name);
        if (!f->data || !is_hashed(f, w->feature))
            continue;
        hashed = true;
        *w->name = '\0';
        if (!f->wanted[w->feature])
            f->wanted[w->feature] = (uint32_t)i + 1;
    }
    if (!hashed)
        return YK_OK;
    if (f->data->once)
        return yk_fail(
            YK_EUSAGE,
            "%s: standard input can be read only once, but names of hashed features need two passes; "
            "give a file",
            f->data->spec);
    *names = (yk_feature_names){f->wanted, add_name, f};
    const yk_status st = yk_source_each(f->data, NULL, NULL);
    for (size_t i = 0; i < f->out->n; i++) {
        yk_weight *w = &f->out->weight[i];
        if (!*w->name && f->wanted[w->feature] != i + 1) /* the same feature, of another class */
            memcpy(w->name, f->out->weight[f->wanted[w->feature] - 1].name, sizeof w->name);
        else if (!*w->name)
            set_name(f, w->feature, w->name, sizeof w->name);
    }
    return st;
}

/* ---- the data */

static float value_at(const yk_rows *rows, size_t e)
{
    if (rows->u8)
        return (float)rows->u8[e] * rows->scale;
    return rows->f32 ? rows->f32[e] : rows->value ? rows->value[e] : 1.0f;
}

/* Adds row r. */
static void count_row(finder *f, const yk_rows *rows, size_t r)
{
    const bool sparse = rows->kind == YK_ROWS_SPARSE;
    const size_t first = sparse ? rows->start[r] : r * f->dim,
                 end = sparse ? rows->start[r + 1] : first + f->dim;
    for (size_t e = first; e < end; e++) {
        const size_t i = sparse ? rows->index[e] : e - first;
        const float x = value_at(rows, e);
        if (x == 0.0f ||
            (sparse && e > first && rows->index[e - 1] == i)) /* the same hash, in another column */
            continue;
        f->sum[i] += fabs((double)x);
        f->rows[i]++;
        if (rows->field && f->field[i] == NO_FIELD)
            f->field[i] = rows->field[e];
    }
}

static yk_status count_rows(void *context, const yk_rows *rows, const yk_reader *reader)
{
    (void)reader;
    finder *f = context;
    const bool sparse = rows->kind == YK_ROWS_SPARSE, of_model = f->model->shape.kind == YK_ROWS_SPARSE;
    if (sparse != of_model || rows->dim > f->dim || (!sparse && rows->dim != f->dim))
        return yk_fail(
            YK_EDATA,
            "%s: %zu columns do not match the model, which has %zu features in %s rows; give data of the "
            "form that it was trained on",
            f->data->spec, rows->dim, f->dim, of_model ? "sparse" : "dense");
    f->out->rows += rows->n;
    for (size_t r = 0; r < rows->n; r++)
        count_row(f, rows, r);
    return YK_OK;
}

/* The fields of columns that have one. */
static void set_fields(finder *f)
{
    const yk_schema *s = f->schema;
    memset(f->field, 0xff, f->dim * sizeof *f->field);
    for (size_t k = 0; s && k < s->ncolumns; k++) {
        const yk_schema_column *c = &s->column[k];
        const size_t n = c->role == YK_COLUMN_NUMERIC ? 1 : c->values.n;
        for (size_t i = c->index; i < c->index + n && i < f->dim; i++)
            f->field[i] = c->field;
    }
}

static yk_status count_data(finder *f)
{
    const uint64_t hashed_into = f->data ? f->data->hashed_into : 0;
    if (hashed_into && hashed_into != f->dim)
        return yk_fail(
            YK_EUSAGE,
            "%s: hashed into %llu features, but the model has %zu; leave out the number of hash bits",
            f->data->spec, (unsigned long long)hashed_into, f->dim);
    if (!(f->field = yk_alloc(f->dim, sizeof *f->field, "fields of features")))
        return YK_ESYSTEM;
    set_fields(f);
    if (!f->data)
        return YK_OK;
    f->sum = yk_alloc(f->dim, sizeof *f->sum, "sums of features");
    f->rows = yk_alloc(f->dim, sizeof *f->rows, "frequencies of features");
    f->wanted = yk_alloc(f->dim, sizeof *f->wanted, "wanted features");
    return f->sum && f->rows && f->wanted ? yk_source_each(f->data, count_rows, f) : YK_ESYSTEM;
}

/* ---- the largest weights */

static double rank_of(const yk_weight *w)
{
    return isnan(w->importance) ? fabs((double)w->weight) : w->importance;
}

static int compare(const void *a, const void *b)
{
    const yk_weight *x = a, *y = b;
    if (rank_of(x) != rank_of(y))
        return rank_of(x) < rank_of(y) ? 1 : -1;
    const uint64_t i = (uint64_t)x->feature << 32 | x->output, k = (uint64_t)y->feature << 32 | y->output;
    return (i > k) - (i < k);
}

/* Keeps up to twice as many as are wanted, then drops the smaller half. */
static yk_status find_largest(finder *f, const yk_model_tensor *t)
{
    yk_weights *out = f->out;
    double least = 0.0;
    if (!(out->weight = calloc(2 * out->top, sizeof *out->weight)))
        return yk_fail_memory(2 * out->top * sizeof *out->weight, "the largest weights");
    for (size_t i = 0; i < f->dim; i++)
        for (size_t k = 0; k < t->shape[0]; k++) {
            const double w = value_of(f, t, i, k);
            yk_weight *next = &out->weight[out->n];
            *next = (yk_weight){(uint32_t)i, (uint32_t)k, (float)w, f->data ? f->rows[i] : 0,
                                fabs(w) * mean_of(f, i)};
            out->nonzero += w != 0.0;
            if (rank_of(next) > least && ++out->n == 2 * out->top) {
                qsort(out->weight, out->n, sizeof *out->weight, compare);
                out->n = out->top;
                least = rank_of(&out->weight[out->n - 1]);
            }
        }
    qsort(out->weight, out->n, sizeof *out->weight, compare);
    out->n = out->n < out->top ? out->n : out->top;
    return YK_OK;
}

/* The tensor after the weights, if it is their bias. */
static void find_bias(finder *f, int tensor)
{
    const yk_model_tensor *t = &f->model->tensor[tensor];
    if (tensor == f->model->ntensors || !t->bias)
        return;
    f->out->bias = f->params + yk_model_group_offset(f->model, t->group) + t->offset;
    f->out->nbias = t->size;
}

/* ---- fields */

static void set_field_name(const finder *f, size_t field, char *out, size_t size)
{
    const yk_schema *s = f->schema;
    char number[32];
    if (field == NO_FIELD)
        snprintf(out, size, s && s->categories ? "hashed categories" : "all features");
    else
        snprintf(out, size, "field %zu", field);
    for (size_t k = 0; s && k < s->ncolumns; k++)
        if (yk_is_feature(&s->column[k]) && s->column[k].field == field)
            snprintf(out, size, "%s", yk_schema_title(s, &s->column[k], number));
}

static yk_status add_fields(finder *f, const yk_model_tensor *t)
{
    yk_weights *out = f->out;
    const bool linear = is_linear(f, t);
    yk_field_norm *more = realloc(out->field, (out->nfields + FIELDS) * sizeof *more);
    if (!more)
        return yk_fail_memory(FIELDS * sizeof *more, "fields");
    out->field = more;
    yk_field_norm *all = memset(more + out->nfields, 0, FIELDS * sizeof *all);
    for (size_t i = 0; i < f->dim; i++) {
        double squares = 0.0, sizes = 0.0;
        for (size_t k = 0; k < t->shape[!linear]; k++) {
            const double w = value_of(f, t, i, k);
            squares += w * w;
            sizes += fabs(w);
        }
        yk_field_norm *n = &all[f->field[i]];
        if (f->data ? f->rows[i] == 0 : squares == 0.0)
            continue;
        n->features++;
        n->mean_norm += sqrt(squares);
        n->max_norm = fmax(n->max_norm, sqrt(squares));
        n->importance += linear ? sizes * mean_of(f, i) : (double)NAN;
    }
    for (size_t i = 0; i < FIELDS; i++)
        if (all[i].features) {
            all[i].mean_norm /= (double)all[i].features;
            all[i].tensor = t->name;
            set_field_name(f, i, all[i].name, sizeof all[i].name);
            out->field[out->nfields++] = all[i];
        }
    return YK_OK;
}

yk_status yk_weights_find(yk_weights *out, const yk_trained *m, yk_source *data, yk_feature_names *names)
{
    finder f = {.model = m->model,
                .schema = m->schema,
                .params = m->params,
                .dim = m->model->shape.dim,
                .data = data,
                .out = out};
    yk_status st = YK_OK;
    for (int i = 0; i < f.model->ntensors && !st; i++) {
        const yk_model_tensor *t = &f.model->tensor[i];
        const bool linear = is_linear(&f, t);
        if (!linear && !is_embedding(&f, t))
            continue;
        if (!f.field)
            st = count_data(&f);
        if (!st && linear && !(st = find_largest(&f, t)))
            st = find_names(&f, names);
        if (linear)
            find_bias(&f, i + 1);
        if (!st)
            st = add_fields(&f, t);
    }
    *names = (yk_feature_names){0};
    yk_free(f.field);
    yk_free(f.sum);
    yk_free(f.rows);
    yk_free(f.wanted);
    return st;
}

void yk_weights_fini(yk_weights *w)
{
    free(w->weight);
    free(w->field);
    *w = (yk_weights){0};
}

uint64_t yk_weights_base(const yk_trained *m, const char *spec)
{
    const char *base = spec && strchr(spec, '?') ? strstr(strchr(spec, '?'), "base=") : NULL;
    if (!base && m->schema && m->schema->options)
        base = strstr(m->schema->options, "base=");
    return base ? base[5] == '1' : m->schema && !strcmp(m->schema->format, "libsvm");
}

const char *yk_weight_class(const yk_trained *m, const yk_weight *w, char number_out[static 16])
{
    const size_t outputs = m->model->outputs;
    if (outputs > 1 && m->schema && m->schema->classes.n == outputs)
        return m->schema->classes.name[w->output];
    *number_out = 0;
    if (outputs > 1)
        snprintf(number_out, 16, "%u", w->output);
    return number_out;
}
