#include "data/memory.h"

#include "base/mem.h"
#include "base/team.h"
#include "data/formats.h"
#include "data/frame.h"
#include <math.h>
#include <string.h>

/* ---- checks ---- */

/* Whether the rows look shuffled. Rows that are sorted by class do not: half as many changes as expected, or fewer. */
static bool are_mixed(const int32_t *label, size_t n, uint32_t classes)
{
    enum { MAX_CLASSES = 1024 };
    uint64_t count[MAX_CLASSES] = {0}, changes = 0;
    double same = 0.0;
    if (classes > MAX_CLASSES)
        return false;
    for (size_t i = 0; i < n; i++)
        count[label[i]]++;
    for (size_t i = 1; i < n; i++)
        changes += label[i] != label[i - 1];
    for (uint32_t c = 0; c < classes; c++)
        same += ((double)count[c] / (double)n) * ((double)count[c] / (double)n);
    return 2.0 * (double)changes > (1.0 - same) * (double)n;
}

yk_status yk_memory_check_labels(const yk_rows *rows, uint32_t *classes)
{
    enum { MAX_CLASSES = 1 << 24 };
    const int32_t end = *classes ? (int32_t)*classes : MAX_CLASSES;
    int32_t max = 1;
    for (size_t i = 0; i < rows->n; i++) {
        const int32_t label = rows->label ? rows->label[i] : 0;
        const float w = yk_rows_weight(rows, i);
        if (label < 0 || label >= end)
            return yk_fail(YK_EDATA, "row %zu: label %d is not a class from 0 to %d", i, label, end - 1);
        if (!(w >= 0.0f) || !isfinite(w))
            return yk_fail(YK_EDATA,
                           "row %zu: weight %g: must be a number of at least 0; 0 leaves the row out", i,
                           (double)w);
        if (rows->target && !isfinite(rows->target[i]))
            return yk_fail(YK_EDATA, "row %zu: the label is NaN or infinite", i);
        max = label > max ? label : max;
    }
    *classes = *classes ? *classes : (uint32_t)max + 1;
    return YK_OK;
}

/* Checks row r, but not its keys; key NULL: it has indices, which are checked. `number` is its number in messages. */
static yk_status check_row(const yk_rows *rows, const int64_t *key, size_t r, size_t number)
{
    const int64_t begin = (int64_t)rows->start[r], end = (int64_t)rows->start[r + 1];
    if (begin < 0 || begin > end || rows->start[r + 1] > rows->start[rows->n] || (r == 0 && begin))
        return yk_fail(YK_EDATA, "row %zu starts at entry %lld but ends at entry %lld", number,
                       (long long)begin, (long long)end);
    for (int64_t e = begin; e < end; e++) {
        if (!key && rows->index[e] >= rows->dim) /* a negative one is large here */
            return yk_fail(YK_EDATA, "row %zu: index %d is out of range for %zu column%s", number,
                           (int32_t)rows->index[e], rows->dim, yk_plural(rows->dim));
        if (rows->value && !isfinite(rows->value[e]))
            return yk_fail(YK_EDATA, "row %zu: the value of index %lld is NaN or infinite", number,
                           key ? (long long)key[e] : (long long)rows->index[e]);
    }
    return YK_OK;
}

/* Whether the exponent is that of infinity or NaN. */
static inline uint32_t is_not_finite(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits & 0x7f800000u) == 0x7f800000u;
}

/* What one thread finds in its rows. */
typedef struct {
    _Alignas(YK_ALIGN) size_t falls; /* entries of a row that are not larger than the one before */
    uint32_t largest, other, bad;    /* index; whether a value is not 1; whether a value is not finite */
} scan;

typedef struct {
    const yk_rows *rows;
    scan *part; /* [threads] */
    int threads;
} scan_job;

/* Entries first to end - 1. The loops have no branches, so that the compiler makes vector code of them. */
static void scan_entries(const yk_rows *rows, size_t first, size_t end, scan *s)
{
    const uint32_t *index = rows->index; /* NULL: keys, or dense rows */
    const float *value = rows->f32 ? rows->f32 : rows->value;
    uint32_t largest = index && first < end ? index[first] : 0, falls = 0, other = 0, bad = 0;
    for (size_t e = first + 1; index && e < end; e++) {
        largest = index[e] > largest ? index[e] : largest;
        falls += index[e] <= index[e - 1];
    }
    for (size_t e = first; value && e < end; e++)
        other |= value[e] != 1.0f;
    for (size_t e = first; other && e < end; e++)
        bad |= is_not_finite(value[e]);
    s->falls += falls;
    s->largest = largest > s->largest ? largest : s->largest;
    s->other |= other;
    s->bad |= bad;
}

/* Where row r begins. */
static size_t entry_of(const yk_rows *rows, size_t r)
{
    return rows->start ? (size_t)rows->start[r] : r * rows->dim;
}

static yk_status scan_part(void *context, int me)
{
    enum { BLOCK = 64 }; /* rows whose entries are in the L1 cache */
    const scan_job *j = context;
    const yk_rows *rows = j->rows;
    const uint64_t *start = rows->start;
    const size_t end = rows->n * ((size_t)me + 1) / (size_t)j->threads;
    scan s = {0};
    for (size_t first = rows->n * (size_t)me / (size_t)j->threads; first < end; first += BLOCK) {
        const size_t last = first + BLOCK < end ? first + BLOCK : end;
        scan_entries(rows, entry_of(rows, first), entry_of(rows, last), &s);
        for (size_t r = first + 1; rows->index && r < last; r++) /* the first entry of a row may be smaller */
            if (start[r] > start[first] && start[r] < start[r + 1])
                s.falls -= rows->index[start[r]] <= rows->index[start[r] - 1];
    }
    j->part[me] = s;
    return YK_OK;
}

static yk_status scan_rows(const yk_rows *rows, scan *out)
{
    enum { MIN_ENTRIES = 1 << 20 };
    scan part[YK_MAX_THREADS];
    scan_job job = {rows, part, yk_cores_for(entry_of(rows, rows->n) / MIN_ENTRIES + 1)};
    const yk_status st = yk_team_once(job.threads, scan_part, &job);
    *out = (scan){0};
    for (int i = 0; !st && i < job.threads; i++) {
        out->falls += part[i].falls;
        out->largest = part[i].largest > out->largest ? part[i].largest : out->largest;
        out->other |= part[i].other;
        out->bad |= part[i].bad;
    }
    return st;
}

/* Checks row by row if a scan found something wrong, for the message. `first`: the number of the first row. Keys (NULL: none) are
 * checked later, when they are converted to column numbers. */
static yk_status check_found(yk_rows *rows, const int64_t *key, size_t first, const scan *found)
{
    yk_status st = YK_OK;
    if (found->bad || (!key && rows->start[rows->n] && found->largest >= rows->dim))
        for (size_t r = 0; !st && r < rows->n; r++)
            st = check_row(rows, key, r, first + r);
    if (!found->other && !key)
        rows->value = NULL; /* all are 1 */
    return st;
}

static yk_status check_sparse(yk_memory_data *m)
{
    scan found = {.bad = m->rows.start[0] || (int64_t)m->rows.start[m->rows.n] < 0};
    for (size_t r = 0; r < m->rows.n; r++)
        found.bad |= m->rows.start[r] > m->rows.start[r + 1];
    yk_status st = found.bad ? YK_OK : scan_rows(&m->rows, &found);
    m->ascending = !found.falls && !m->key;
    return st ? st : check_found(&m->rows, m->key, 0, &found);
}

yk_status yk_memory_check_block(yk_rows *rows, size_t first)
{
    scan found;
    scan_part(&(scan_job){rows, &found, 1}, 0);
    return check_found(rows, NULL, first, &found);
}

static yk_status check_dense(const yk_rows *rows)
{
    scan found;
    yk_status st = scan_rows(rows, &found);
    for (size_t i = 0; !st && found.bad && i < rows->n * rows->dim; i++)
        if (!isfinite(rows->f32[i]))
            st = yk_fail(YK_EDATA, "row %zu: the value in column %zu is NaN or infinite", i / rows->dim,
                         i % rows->dim);
    return st;
}

yk_status yk_memory_check(yk_memory_data *m)
{
    const yk_rows *rows = &m->rows;
    if (!rows->n || (!rows->dim && !m->key))
        return yk_fail(YK_EDATA, "the data has no %s", rows->n ? "columns" : "rows");
    if ((rows->dim > YK_MAX_FEATURES && !m->key) || rows->n >= UINT32_MAX)
        return yk_fail(
            YK_EUSAGE,
            "the data has %zu rows and %zu columns; at most 2^32 - 2 rows and 2^31 - 2 columns are supported",
            rows->n, rows->dim);
    if (m->height && m->channels * m->height * m->width != rows->dim)
        return yk_fail(
            YK_EUSAGE,
            "the data has %zu columns, but images of %zux%zux%zu (channels, height, width) have %zu",
            rows->dim, m->channels, m->height, m->width, m->channels * m->height * m->width);
    yk_status st = yk_memory_check_labels(rows, &m->classes);
    m->mixed = !st && are_mixed(rows->label, rows->n, m->classes);
    m->ascending = true;
    if (!st && rows->kind == YK_ROWS_SPARSE)
        st = check_sparse(m);
    else if (!st && rows->kind == YK_ROWS_F32)
        st = check_dense(rows);
    if (!st && m->in_place && !m->ascending)
        st =
            yk_fail(YK_EUSAGE,
                    "training in place needs indices that ascend within each row; sort them, or do not train "
                    "in place (in_place = 0; in Python, copy=True): training then makes a sorted copy");
    return st;
}

/* ---- the source ---- */

typedef struct {
    yk_source base;
    yk_memory_data data;
    yk_key_space keys; /* of data.key */
} memory_source;

yk_status yk_memory_append_sorted(const yk_rows *from, const int64_t *key, size_t r, yk_key_space keys,
                                  size_t number, yk_rows *rows)
{
    const size_t n = yk_rows_entries(from, r);
    uint32_t *index;
    float *value;
    yk_status st = yk_rows_sparse(rows, n, &index, &value);
    if (st)
        return st;
    uint16_t *field;
    if (from->field && (st = yk_rows_fields(rows, n, &field)))
        return st;
    if (!key)
        memcpy(index, from->index + from->start[r], n * sizeof *index);
    for (size_t i = 0; key && i < n; i++) {
        const int64_t k = key[from->start[r] + i];
        if (!keys.hash && (uint64_t)k >= keys.features) /* a negative one is large here */
            return yk_fail(YK_EDATA,
                           "row %zu: index %lld is out of range for %llu columns; train with the option "
                           "hash-bits (in Python, hash_bits=B) to hash indices of any size into 2^B columns",
                           number, (long long)k, (unsigned long long)keys.features);
        index[i] = keys.hash ? yk_key_id(yk_mix64((uint64_t)k), keys.features) : (uint32_t)k;
    }
    if (from->field)
        memcpy(field, from->field + from->start[r], n * sizeof *field);
    if (from->value)
        memcpy(value, from->value + from->start[r], n * sizeof *value);
    const yk__label of = {from->label[r], yk_rows_target(from, r), yk_rows_weight(from, r)};
    return yk__commit(rows, n, &of, from->target);
}

static yk_status next(yk_reader *reader, yk_rows *rows, size_t max, size_t *got_out)
{
    const memory_source *s = (const memory_source *)reader->source;
    const yk_memory_data *m = &s->data;
    size_t first;
    const size_t n = yk__cached_part(reader, max, &first);
    yk_status st = m->ascending ? yk_rows_append(rows, &m->rows, first, n) : YK_OK;
    for (size_t i = 0; !st && !m->ascending && i < n; i++)
        st = yk_memory_append_sorted(&m->rows, m->key, first + i, s->keys, first + i, rows);
    *got_out = n;
    return st;
}

/* With hash_bits, keys get the same columns as in a file. */
static yk_status make_key_space(memory_source *s)
{
    const size_t columns = s->data.rows.dim;
    s->keys = yk__spec_keys(&s->base, 0, UINT32_MAX);
    if (s->keys.hash)
        s->base.hashed_into = s->keys.features;
    else
        s->keys.features = columns;
    s->base.dim = s->keys.features;
    if (s->keys.hash || (columns && columns < INT32_MAX))
        return s->base.parsed.status;
    return yk_fail(YK_EDATA,
                   "the data has %zu columns, but without hashing it must have 1 to 2^31 - 2; train with the "
                   "option hash-bits (in Python, hash_bits=B) to hash indices of any size into 2^B columns",
                   columns);
}

static yk_status memory_open(yk_source *source)
{
    memory_source *s = (memory_source *)source;
    const yk_source_options *o = &source->options;
    yk_memory_data *m = &s->data;
    *m = *(const yk_memory_data *)o->from;
    if (m->rows.target && !o->numbers && !o->unlabeled)
        return yk_fail(YK_EUSAGE, "the labels are numbers (targets): use --loss squared");
    if (m->unlabeled && !o->unlabeled)
        return yk_fail(YK_EUSAGE,
                       "the data has no labels: set labels or targets; only predictions need none");
    if (o->fields == YK_FIELDS_NONE)
        m->rows.field = NULL;
    else
        source->positions = o->positions;
    yk__cached_open(source, &m->rows);
    source->classes = m->classes;
    source->fields = yk_rows_count_fields(&m->rows);
    source->channels = m->channels;
    source->height = m->height;
    source->width = m->width;
    source->mixed = m->mixed && m->rows.kind == YK_ROWS_SPARSE;
    source->read_only = m->in_place || m->rows.kind != YK_ROWS_SPARSE;
    if (source->read_only)
        source->cached = &m->rows;
    else if (m->ascending && !o->in_order)
        source->caller = &m->rows;
    return m->key ? make_key_space(s) : YK_OK;
}

static const yk_source_ops memory_ops = {
    .name = "memory", .source_size = sizeof(memory_source), .open = memory_open, .next = next};

yk_status yk_source_from_memory(const yk_memory_data *from, const yk_source_options *options, yk_source **out)
{
    yk_source_options o = *options;
    yk_spec none = {0};
    if (from->frame)
        return yk_source_from_frame(from->frame, options, out);
    o.from = from;
    return yk__source_create(&memory_ops, &none, YK_SPLIT_TRAIN, &o, out);
}
