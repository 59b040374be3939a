#include "data/check.h"

#include "base/mem.h"
#include "base/rng.h"
#include "data/columns.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    TESTED = 4096,         /* test examples that are searched for in the training set */
    SEEN = 1 << 30,        /* those that were found */
    BINS = 16,             /* of the values of a dense column */
    MIN_ROWS = 200,        /* for a column that predicts the label */
    MAX_CLASSES = 64,      /* for the same */
    MAX_COUNTED = 1 << 16, /* classes whose shares are compared */
    TABLE_BITS = 17,       /* of the hash table of sparse columns */
    MAX_BITMAP = 1 << 28,  /* hashed columns that are counted */
};
static const size_t hashed_bytes = 64 << 20; /* of training examples that are compared */
static const size_t sample_entries = 1 << 18, counted_entries = 4 << 20, count_bytes = 32 << 20;
static const double predicts = 0.99, obvious = 0.9;

static size_t entries_of(const yk_rows *r)
{
    return r->kind == YK_ROWS_SPARSE ? r->n ? (size_t)r->start[r->n] / r->n + 1 : 1 : r->dim;
}

/* Every k-th row is enough for at most `max` entries. */
static size_t stride_of(const yk_rows *r, size_t max)
{
    const size_t rows = max / (entries_of(r) ? entries_of(r) : 1) + 1;
    return r->n > rows ? (r->n + rows - 1) / rows : 1;
}

/* ---- classes */

static void count_classes(const yk_rows *rows, yk_data_check *c)
{
    bool other = false;
    c->only_class = c->first_class = rows->n ? (uint32_t)rows->label[0] : 0;
    for (size_t i = 0; i < rows->n; i++) {
        other |= rows->label[i] != rows->label[0];
        if ((uint32_t)rows->label[i] < c->first_class)
            c->first_class = (uint32_t)rows->label[i];
    }
    c->classes = other ? 2 : rows->n ? 1 : 0;
}

/* The labels of the test set, compared with those of the training set. */
static yk_status compare_labels(const yk_rows *train, const yk_rows *test, uint32_t classes, yk_data_check *c)
{
    if (classes > MAX_COUNTED)
        return YK_OK;
    uint32_t *count = yk_alloc(2 * (size_t)classes, sizeof *count, "a check of the labels");
    if (!count)
        return YK_ESYSTEM;
    uint32_t *tested = count + classes;
    for (size_t i = 0; i < train->n; i++)
        if ((uint32_t)train->label[i] < classes)
            count[train->label[i]]++;
    for (size_t i = 0; i < test->n; i++)
        if ((uint32_t)test->label[i] < classes)
            tested[test->label[i]]++;
    double most = 0.0;
    for (uint32_t k = 0; k < classes; k++) {
        const double a = (double)count[k] / (double)train->n, b = (double)tested[k] / (double)test->n;
        if (fabs(a - b) > fabs(c->shifted.train - c->shifted.test)) {
            c->shifted.label = k;
            c->shifted.train = a;
            c->shifted.test = b;
        }
        if (count[k])
            continue;
        c->unseen.share += b;
        if (b > most) {
            most = b;
            c->unseen.label = k;
        }
    }
    yk_free(count);
    return YK_OK;
}

/* ---- test examples in the training set */

static uint64_t hash_features(const yk_rows *r, size_t i, uint64_t h)
{
    if (r->kind == YK_ROWS_U8)
        return yk_cell_hash(h, (const char *)(r->u8 + i * r->dim), r->dim);
    if (r->kind == YK_ROWS_F32)
        return yk_cell_hash(h, (const char *)(r->f32 + i * r->dim), r->dim * sizeof(float));
    const size_t at = (size_t)r->start[i], n = yk_rows_entries(r, i);
    const uint64_t keys = yk_cell_hash(h, (const char *)(r->index + at), n * sizeof *r->index);
    return r->value ? yk_cell_hash(keys, (const char *)(r->value + at), n * sizeof *r->value) : keys;
}

/* Not 0. */
static uint64_t hash_row(const yk_rows *r, size_t i)
{
    return hash_features(r, i, 0x2545f4914f6cdd1du ^ (uint64_t)(uint32_t)r->label[i]) | 1;
}

/* Looks for a sample of the test examples in a sample of the training set. If test examples are often equal to each other,
 * examples have so few different values that equal ones mean nothing. */
static yk_status find_overlap(const yk_rows *train, const yk_rows *test, yk_data_check *c)
{
    const size_t skip = test->n > TESTED ? test->n / TESTED : 1, step = stride_of(train, hashed_bytes / 4);
    yk_schema_values tested = {0};
    size_t n = 0, found = 0, looked = 0;
    bool is_new;
    yk_status st = YK_OK;
    for (size_t i = 0; i < test->n && n < TESTED && !st; i += skip, n++)
        st = yk_schema_value_add(&tested, hash_row(test, i), &is_new);
    for (size_t i = 0; i < train->n && !st; i += step, looked++) {
        struct yk_schema_value *at = yk_schema_value_at(&tested, hash_row(train, i));
        found += at->hash && at->index != SEEN;
        at->index = SEEN;
    }
    yk_free(tested.slot);
    const size_t equal = n - tested.n;
    if (looked && equal * 20 <= n && found > equal * 4)
        c->overlap = fmin((double)found / (double)n * (double)train->n / (double)looked, 1.0);
    return st;
}

/* ---- a column that predicts the label */

/* Keeps the best column. */
static void consider(yk_data_check *c, int64_t column, double right)
{
    const double accuracy = right / (double)c->examples;
    if (accuracy > c->column_accuracy) {
        c->column_accuracy = accuracy;
        c->column = column;
    }
}

static uint32_t largest(const uint32_t *count, uint32_t classes)
{
    uint32_t max = 0;
    for (uint32_t k = 0; k < classes; k++)
        max = count[k] > max ? count[k] : max;
    return max;
}

static float dense_value(const yk_rows *r, size_t i, size_t column)
{
    return r->kind == YK_ROWS_U8 ? (float)r->u8[i * r->dim + column] : r->f32[i * r->dim + column];
}

/* The accuracy of each column: its range is divided into bins, and each bin predicts its most frequent class. */
static yk_status check_dense(const yk_rows *r, size_t step, uint32_t classes, yk_data_check *c)
{
    const size_t cells = (size_t)BINS * classes;
    if (r->dim * cells * sizeof(uint32_t) > count_bytes)
        return YK_OK;
    uint32_t *count = yk_alloc(cells, sizeof *count, "a check of the columns");
    if (!count)
        return YK_ESYSTEM;
    for (size_t k = 0; k < r->dim; k++) {
        float low = HUGE_VALF, high = -HUGE_VALF;
        for (size_t i = 0; i < r->n; i += step) {
            low = fminf(low, dense_value(r, i, k));
            high = fmaxf(high, dense_value(r, i, k));
        }
        if (!(high > low) || !isfinite(high - low))
            continue;
        memset(count, 0, cells * sizeof *count);
        for (size_t i = 0; i < r->n; i += step) {
            const float x = (dense_value(r, i, k) - low) / (high - low); /* NaN: in the first bin */
            const size_t bin = x > 0.0f ? (size_t)(x * (BINS - 0.001f)) : 0;
            count[bin * classes + (uint32_t)r->label[i]]++;
        }
        double right = 0.0;
        for (int b = 0; b < BINS; b++)
            right += largest(count + (size_t)b * classes, classes);
        consider(c, (int64_t)k, right);
    }
    yk_free(count);
    return YK_OK;
}

/* A sparse column: how often it occurs with each of two classes, and the range of its values there. */
typedef struct {
    uint32_t key, count[2]; /* all 0: free */
    float low[2], high[2];
} sparse_column;

static sparse_column *column_of(sparse_column *table, uint32_t key)
{
    const size_t mask = ((size_t)1 << TABLE_BITS) - 1;
    size_t at = (size_t)yk_mix64(key) & mask;
    for (int tries = 0; tries < 64; tries++, at = (at + 1) & mask) {
        sparse_column *s = &table[at];
        if (!s->count[0] && !s->count[1]) {
            *s = (sparse_column){.key = key, .low = {HUGE_VALF, HUGE_VALF}, .high = {-HUGE_VALF, -HUGE_VALF}};
            return s;
        }
        if (s->key == key)
            return s;
    }
    return NULL; /* full */
}

static double correct_with(const sparse_column *s, const uint32_t total[2])
{
    const uint32_t absent[2] = {total[0] - s->count[0], total[1] - s->count[1]};
    const bool apart = s->count[0] && s->count[1] && (s->high[0] < s->low[1] || s->high[1] < s->low[0]);
    return (double)(apart ? s->count[0] + s->count[1] : largest(s->count, 2)) + (double)largest(absent, 2);
}

static yk_status check_sparse(const yk_rows *r, size_t step, yk_data_check *c)
{
    const size_t size = (size_t)1 << TABLE_BITS;
    uint32_t total[2] = {0};
    sparse_column *table = calloc(size, sizeof *table);
    if (!table)
        return yk_fail_memory(size * sizeof *table, "a check of the columns");
    for (size_t i = 0; i < r->n; i += step) {
        const int y = r->label[i] > 0;
        total[y]++;
        for (size_t e = (size_t)r->start[i]; e < (size_t)r->start[i + 1]; e++) {
            sparse_column *s = column_of(table, r->index[e]);
            if (!s)
                continue;
            const float x = r->value ? r->value[e] : 1.0f;
            s->count[y]++;
            s->low[y] = fminf(s->low[y], x);
            s->high[y] = fmaxf(s->high[y], x);
        }
    }
    for (size_t k = 0; k < size; k++)
        if (table[k].count[0] || table[k].count[1])
            consider(c, table[k].key, correct_with(&table[k], total));
    free(table);
    return YK_OK;
}

static yk_status find_column(const yk_rows *r, uint32_t classes, yk_data_check *c)
{
    const size_t step = stride_of(r, sample_entries);
    uint32_t count[MAX_CLASSES] = {0};
    if (classes > MAX_CLASSES || (r->kind == YK_ROWS_SPARSE && classes > 2))
        return YK_OK;
    for (size_t i = 0; i < r->n; i += step, c->examples++)
        count[r->label[i]]++;
    c->majority = (double)largest(count, classes) / (double)c->examples;
    if (c->examples < MIN_ROWS || c->majority > obvious)
        return YK_OK;
    yk_status st = r->kind == YK_ROWS_SPARSE ? check_sparse(r, step, c) : check_dense(r, step, classes, c);
    if (c->column_accuracy < predicts)
        c->column = -1;
    return st;
}

/* ---- large features */

/* Entry e of row i: its column and its size. */
static double entry_of(const yk_rows *r, size_t i, size_t e, int64_t *column_out)
{
    if (r->kind == YK_ROWS_SPARSE) {
        const size_t at = (size_t)r->start[i] + e;
        *column_out = r->index[at];
        return r->value ? fabs((double)r->value[at]) : 1.0;
    }
    *column_out = (int64_t)e;
    const double scale = r->kind == YK_ROWS_U8 ? (double)r->scale : 1.0;
    return fabs((double)dense_value(r, i, e)) * scale;
}

static size_t row_entries(const yk_rows *r, size_t i)
{
    return r->kind == YK_ROWS_SPARSE ? yk_rows_entries(r, i) : r->dim;
}

static void find_large(const yk_rows *r, yk_data_check *c)
{
    const size_t step = stride_of(r, sample_entries);
    double max = 0.0, squares = 0.0, n = 0.0, others = 0.0, smaller = 0.0;
    int64_t column;
    for (size_t i = 0; i < r->n; i += step)
        for (size_t e = 0; e < row_entries(r, i); e++) {
            const double x = entry_of(r, i, e, &column);
            if (x > max) {
                max = x;
                c->large.column = column;
            }
        }
    for (size_t i = 0; i < r->n; i += step)
        for (size_t e = 0; e < row_entries(r, i); e++) {
            const double x = entry_of(r, i, e, &column);
            if (column == c->large.column) {
                squares += x * x;
                n += 1.0;
            } else if (x > 0.0) {
                others += 1.0;
                smaller += x < 2e-4 * max; /* the maximum of a column is a few times its root mean square */
            }
        }
    c->large.size = n > 0.0 ? sqrt(squares / n) : 0.0;
    c->large.much_smaller = others > 0.0 ? smaller / others : 0.0;
}

/* ---- hash collisions */

/* N columns of which a share u is used were hit by about -N ln(1 - u) keys. */
static yk_status count_columns(const yk_rows *r, uint64_t hashed_into, yk_data_check *c)
{
    const size_t step = stride_of(r, counted_entries);
    if (!hashed_into || hashed_into > MAX_BITMAP || r->kind != YK_ROWS_SPARSE)
        return YK_OK;
    uint64_t *used = yk_alloc((size_t)hashed_into / 64 + 1, sizeof *used, "a check of hash collisions");
    uint64_t n = 0;
    if (!used)
        return YK_ESYSTEM;
    for (size_t i = 0; i < r->n; i += step)
        for (size_t e = (size_t)r->start[i]; e < (size_t)r->start[i + 1]; e++) {
            const uint32_t k = r->index[e];
            if (k >= hashed_into)
                continue;
            n += !(used[k / 64] >> (k % 64) & 1);
            used[k / 64] |= (uint64_t)1 << (k % 64);
        }
    yk_free(used);
    c->hashed_into = hashed_into;
    c->used_columns = (double)n / (double)hashed_into;
    c->keys = -(double)hashed_into * log1p(-fmin(c->used_columns, 1.0 - 0.5 / (double)hashed_into));
    return YK_OK;
}

yk_status yk_data_check_rows(const yk_rows *train, const yk_rows *test, uint32_t classes,
                             uint64_t hashed_into, yk_data_check *out)
{
    *out = (yk_data_check){.column = -1};
    if (!train || !train->n)
        return YK_OK;
    count_classes(train, out);
    const size_t step = stride_of(train, sample_entries);
    out->constant = train->n >= MIN_ROWS;
    for (size_t i = step; out->constant && i < train->n; i += step)
        out->constant = hash_features(train, i, 0) == hash_features(train, 0, 0);
    find_large(train, out);
    yk_status st = find_column(train, classes, out);
    if (!st)
        st = count_columns(train, hashed_into, out);
    if (!st && test && test->n)
        st = compare_labels(train, test, classes, out);
    return st || !test || !test->n || test->kind != train->kind ? st : find_overlap(train, test, out);
}
