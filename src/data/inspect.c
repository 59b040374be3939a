#include "data/inspect.h"

#include "base/clock.h"
#include "base/mem.h"
#include "data/columns.h"
#include "data/formats.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CLASSES ((int32_t)1 << 24)

const uint64_t yk_inspect_cut[YK_INSPECT_CUTS] = {10, 100, 1000, 10000};

/* ---- distributions */

enum { HALF = YK_DISTRIBUTION_BINS / 2 };

yk_status yk_distribution_init(yk_distribution *s, double width)
{
    *s = (yk_distribution){.width = width, .bin = calloc(YK_DISTRIBUTION_BINS, sizeof *s->bin)};
    return s->bin ? YK_OK : yk_fail_memory(YK_DISTRIBUTION_BINS * sizeof *s->bin, "a histogram");
}

void yk_distribution_fini(yk_distribution *s)
{
    free(s->bin);
    *s = (yk_distribution){0};
}

void yk_distribution_add(yk_distribution *s, double value)
{
    s->min = s->n == 0 || value < s->min ? value : s->min;
    s->max = s->n == 0 || value > s->max ? value : s->max;
    s->sum += value;
    s->n++;
    for (; fabs(value) >= (double)HALF * s->width; s->width *= 2)
        for (size_t k = 0; k < HALF; k++) { /* on both sides of 0, bins 2k and 2k + 1 become bin k */
            uint64_t *const up = s->bin + HALF + k, *const down = s->bin + HALF - 1 - k, n = *up, m = *down;
            *up = *down = 0;
            s->bin[HALF + k / 2] += n;
            s->bin[HALF - 1 - k / 2] += m;
        }
    s->bin[HALF + (int64_t)floor(value / s->width)]++;
}

/* The bin that holds the quantile, counted from that of 0. */
static int64_t quantile_bin(const yk_distribution *s, double fraction)
{
    uint64_t want = (uint64_t)ceil(fraction * (double)s->n), seen = 0;
    size_t i = 0;
    for (; i + 1 < YK_DISTRIBUTION_BINS; i++)
        if ((seen += s->bin[i]) && seen >= want)
            break;
    return (int64_t)i - HALF;
}

double yk_distribution_quantile(const yk_distribution *s, double fraction)
{
    return s->width * (double)quantile_bin(s, fraction);
}

static int64_t floor_divide(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

size_t yk_distribution_bars(const yk_distribution *s, size_t max, yk_bar *out)
{
    if (s->n == 0)
        return 0;
    const int64_t from = quantile_bin(s, 0.0), to = quantile_bin(s, 1.0), usual = quantile_bin(s, 0.999);
    int64_t step = 1;
    /* one bar is reserved for the tail, if there is one */
    while (floor_divide(usual, step) - floor_divide(from, step) + 1 >
           (int64_t)max - (floor_divide(to, step) > floor_divide(usual, step)))
        step *= 2;
    int64_t first = floor_divide(from, step), end = floor_divide(usual, step);
    if (floor_divide(to, step) - first + 1 <= (int64_t)max)
        end = floor_divide(to, step); /* the tail needs no bar of its own */
    size_t n = (size_t)(end - first + 1);
    bool tail = floor_divide(to, step) > end;
    for (size_t i = 0; i < n; i++)
        out[i] = (yk_bar){.from = (double)((first + (int64_t)i) * step) * s->width,
                          .to = (double)((first + (int64_t)i + 1) * step) * s->width};
    if (tail)
        out[n] = (yk_bar){.from = out[n - 1].to, .to = INFINITY};
    for (int64_t b = from; b <= to; b++) {
        size_t bar = (size_t)(floor_divide(b, step) - first);
        out[bar < n ? bar : n].n += s->bin[b + HALF];
    }
    return n + tail;
}

/* ---- the pass over the data */

typedef struct {
    yk_inspection *out;
    yk_keycount keys;
    size_t first, class_cap;
    double sum, squares, labels;
    float *pixels; /* [columns] of a row of bytes, as numbers; NULL: other rows */
} pass;

static yk_status reserve_classes(pass *w, size_t classes)
{
    yk_inspection *i = w->out;
    if (classes <= i->classes)
        return YK_OK;
    if (YK_RESERVE(i->class_count, w->class_cap, classes, "counting classes"))
        return YK_ESYSTEM;
    memset(i->class_count + i->classes, 0, (classes - i->classes) * sizeof *i->class_count);
    i->classes = classes;
    return YK_OK;
}

static yk_status sum_labels(pass *w, const yk_rows *rows)
{
    yk_inspection *i = w->out;
    i->numbers = true;
    for (size_t r = 0; r < rows->n; r++) {
        i->label_min = fmin(i->label_min, (double)rows->target[r]);
        i->label_max = fmax(i->label_max, (double)rows->target[r]);
        w->labels += (double)rows->target[r];
    }
    return YK_OK;
}

static yk_status count_labels(pass *w, const yk_rows *rows)
{
    int32_t max = 0;
    if (rows->target)
        return sum_labels(w, rows);
    for (size_t r = 0; r < rows->n; r++) {
        int32_t label = rows->label[r];
        if (label < 0 || label >= MAX_CLASSES)
            return yk_fail(YK_EDATA, "record %llu: class %d is not in the range 0 to %d",
                           (unsigned long long)(w->out->examples + r + 1), label, MAX_CLASSES - 1);
        max = label > max ? label : max;
    }
    yk_status st = reserve_classes(w, (size_t)max + 1);
    for (size_t r = 0; r < rows->n && !st; r++)
        w->out->class_count[rows->label[r]]++;
    return st;
}

static void widen_range(yk_inspection *i, double min, double max)
{
    i->min = min < i->min ? min : i->min;
    i->max = max > i->max ? max : i->max;
}

/* Returns the mean. */
static double count_floats(pass *w, const float *x, size_t n)
{
    double sum = 0.0, squares = 0.0;
    float min = INFINITY, max = -INFINITY;
    size_t zeros = 0, ones = 0;
    for (size_t c = 0; c < n; c++) {
        sum += (double)x[c];
        squares += (double)x[c] * (double)x[c];
        zeros += x[c] == 0.0f;
        ones += x[c] == 1.0f;
        min = x[c] < min ? x[c] : min;
        max = x[c] > max ? x[c] : max;
    }
    w->sum += sum;
    w->squares += squares;
    w->out->zeros += zeros;
    w->out->ones &= ones == n;
    widen_range(w->out, (double)min, (double)max);
    return n ? sum / (double)n : 0.0;
}

static yk_status count_dense(pass *w, const yk_rows *rows)
{
    for (size_t r = 0; r < rows->n; r++) {
        for (size_t c = 0; w->pixels && c < rows->dim; c++)
            w->pixels[c] = rows->u8[r * rows->dim + c];
        const double mean = count_floats(w, w->pixels ? w->pixels : rows->f32 + r * rows->dim, rows->dim);
        if (!isfinite(mean))
            return yk_fail(YK_EDATA, "record %llu: a value is not finite",
                           (unsigned long long)(w->out->examples + r + 1));
        yk_distribution_add(&w->out->histogram, mean);
    }
    w->out->entries += (uint64_t)rows->n * rows->dim;
    return YK_OK;
}

static yk_status count_sparse(pass *w, const yk_rows *rows)
{
    yk_inspection *i = w->out;
    uint64_t entries = rows->start[rows->n];
    for (uint64_t e = 0; e < entries; e++) {
        uint32_t key = rows->index[e];
        yk_status st = yk_keycount_add(&w->keys, key);
        if (st)
            return st;
        i->index_min = key < i->index_min ? key : i->index_min;
        i->index_max = key > i->index_max ? key : i->index_max;
        if (rows->field && rows->field[e] >= i->fields)
            i->fields = rows->field[e] + 1u;
    }
    for (size_t r = 0; r < rows->n; r++) {
        size_t n = yk_rows_entries(rows, r);
        i->empty += n == 0;
        yk_distribution_add(&i->histogram, (double)n);
    }
    if (rows->value) {
        count_floats(w, rows->value, (size_t)entries);
    } else if (entries) {
        w->sum += (double)entries;
        w->squares += (double)entries;
        widen_range(i, 1.0, 1.0);
    }
    i->entries += entries;
    return YK_OK;
}

/* ---- the columns of a table: sources that were opened with carry "*" have the texts of all cells */

static yk_status count_cells(const yk_schema *s, const yk_reader *r, size_t rows, yk_inspection *out)
{
    yk_status st = YK_OK;
    for (size_t i = 0; i < rows && !st; i++)
        for (size_t k = 0; k < out->ntable && !st; k++) {
            yk_inspected_column *c = &out->table[k];
            const char *text = yk_reader_cell(r, i, k);
            const size_t n = strlen(text);
            if (yk_cell_missing(s, text, n, s->column[k].role != YK_COLUMN_CATEGORICAL)) {
                c->missing++;
                continue;
            }
            double v;
            if (strcmp(c->type, "text") && !yk_cell_number_of(&s->column[k], text, n, &v))
                c->type = "text";
            else if (*c->type == 'i' && v != floor(v))
                c->type = "number";
            bool is_new = false;
            st = yk_schema_value_add(&c->seen, yk_cell_hash(1, text, n) | 1, &is_new);
            if (is_new && c->seen.n <= YK_INSPECT_EXAMPLES &&
                !(c->example[c->seen.n - 1] = strndup(text, 48))) /* the first values */
                st = yk_fail_memory(40, "a value");
        }
    return st;
}

/* ---- the pass */

static yk_status count_rows(void *context, const yk_rows *rows, const yk_reader *reader)
{
    pass *w = context;
    yk_inspection *i = w->out;
    yk_status st = count_labels(w, rows);
    if (i->examples >= YK_INSPECT_ROWS)
        reader->source->ncarry = 0;
    else if (!st && i->table)
        st = count_cells(reader->source->schema, reader, rows->n, i);
    if (!st)
        st = rows->kind == YK_ROWS_SPARSE ? count_sparse(w, rows) : count_dense(w, rows);
    if (!st && i->first.n < w->first) {
        size_t more = w->first - i->first.n;
        st = yk_rows_append(&i->first, rows, 0, more < rows->n ? more : rows->n);
    }
    i->examples += rows->n;
    i->columns = rows->dim > i->columns ? rows->dim : i->columns;
    i->has_truth |= rows->truth != NULL;
    return st;
}

static yk_status begin(pass *w, yk_source *s)
{
    yk_inspection *i = w->out;
    bool sparse = s->kind == YK_ROWS_SPARSE;
    i->columns = s->dim;
    i->min = INFINITY;
    i->label_min = INFINITY;
    i->max = i->label_max = -INFINITY;
    i->ones = s->kind != YK_ROWS_U8;
    i->index_min = UINT32_MAX;
    yk_rows_init(&i->first, s->kind, sparse ? 0 : s->dim);
    i->scale = s->cached ? s->cached->scale : i->first.scale;
    yk_status st = reserve_classes(w, s->classes > 2 && s->classes <= MAX_CLASSES ? s->classes : 2);
    if (!st) /* entries per row are integers; means can be anything */
        st = yk_distribution_init(&i->histogram, sparse ? 1.0 : 0x1p-8);
    if (!st && s->kind == YK_ROWS_U8 &&
        !(w->pixels = yk_arena_alloc(&s->arena, s->dim, sizeof *w->pixels, "a row")))
        st = YK_ESYSTEM;
    return st || !sparse ? st : yk_keycount_init(&w->keys);
}

static yk_status end(pass *w, const yk_source *s)
{
    yk_inspection *i = w->out;
    if (i->examples == 0)
        return yk__fail_empty(s);
    i->bad = atomic_load(&s->bad);
    for (size_t c = 1; c < i->classes; c++)
        i->majority = i->class_count[c] > i->class_count[i->majority] ? c : i->majority;
    i->label_mean = i->numbers ? w->labels / (double)i->examples : (double)NAN;
    if (i->numbers || (i->table && !yk_schema_first(s->schema, YK_COLUMN_LABEL)))
        i->classes = 0;
    if (i->entries == 0) {
        i->min = i->max = 0.0;
        i->index_min = 0;
        i->ones = false;
        return YK_OK;
    }
    double n = (double)i->entries;
    i->mean = w->sum / n;
    i->deviation = sqrt(fmax(0.0, w->squares / n - i->mean * i->mean));
    return s->kind == YK_ROWS_SPARSE
               ? yk_keycount_rank(&w->keys, yk_inspect_cut, YK_INSPECT_CUTS, &i->ranking)
               : YK_OK;
}

yk_status yk_inspect(yk_source *s, yk_split split, size_t first, yk_inspection *out)
{
    double begun = yk_now();
    *out = (yk_inspection){.source = s, .split = split};
    pass w = {.out = out, .first = first};
    yk_status st = begin(&w, s);
    const size_t columns = s->schema && s->ncarry ? s->schema->ncolumns : 0;
    if (!st && columns && !(out->table = yk_arena_alloc(&s->arena, columns, sizeof *out->table, "columns")))
        st = YK_ESYSTEM;
    for (; !st && out->ntable < columns; out->ntable++) { /* until a value has another type */
        const char kind = yk__time_kind(s->schema->column[out->ntable].type);
        out->table[out->ntable].type = kind == 'd' ? "date" : kind == 's' ? "timestamp" : "integer";
    }
    if (!st && s->ops->verify) {
        st = s->ops->verify(s);
        out->verified = !st;
    }
    if (!st)
        st = yk_source_each(s, count_rows, &w);
    if (!st)
        st = end(&w, s);
    yk_keycount_fini(&w.keys);
    out->seconds = yk_now() - begun;
    if (st)
        yk_inspection_fini(out);
    return st;
}

void yk_inspection_fini(yk_inspection *i)
{
    free(i->class_count);
    yk_distribution_fini(&i->histogram);
    yk_rows_fini(&i->first);
    for (size_t k = 0; k < i->ntable; k++) {
        yk_free(i->table[k].seen.slot);
        for (size_t e = 0; e < YK_INSPECT_EXAMPLES; e++)
            free(i->table[k].example[e]);
    }
    *i = (yk_inspection){0};
}
