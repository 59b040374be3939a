/* criteo:GLOB, click logs as text, plain or compressed: 40 columns, separated by tabs. An empty column is a missing value.
 *
 *     label  13 integers            26 categories, hashes in hex
 *     0 \t   1 \t 1 \t 5 \t ... \t  68fd1e64 \t 80e26c9b \t ... \t a73ee510
 *
 * For predictions, the label may be missing: 39 columns, as in Criteo's own test file.
 *
 * The hashing trick (Weinberger et al. 2009): each value is one feature with value 1, whose index is a hash of (column,
 * value) below N. N is 2^B with --hash-bits B or `?bits=B`, or any number with --features N or `?features=N`; by default
 * 2^24. A missing value yields no feature. Two values of a row with the same hash become one feature. If field numbers are
 * requested (by the model or with `?fields=1`), they are the columns after the label, 0 to 38; then only values of one
 * column can collide.
 *
 * Integers are counts with long tails. As is common for this data they are put into buckets: v itself up to 2, above that
 * floor(ln(v)^2). The bounds of the buckets are computed with exact arithmetic: the same features on every platform.
 * With `?numeric=value`, integer column i is feature i with the value sign(v) ln(1 + |v|), and the categories are hashed
 * into the features after these 13.
 */
#include "base/number.h"
#include "base/rng.h"
#include "core/rows.h"
#include "data/exact.h"
#include "data/text.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define INTEGERS   13
#define CATEGORIES 26
#define FIELDS     (INTEGERS + CATEGORIES)
#define BUCKETS    1720 /* ln(10^18)^2 = 1717.8 */
#define SMALL      4096 /* integers below this have a lookup table */

typedef struct {
    yk_source base;
    uint64_t features;
    bool fields;             /* rows carry the column as field number */
    bool values;             /* integers are values, not buckets */
    uint64_t column[FIELDS]; /* salts of the hash, one per column */
    uint64_t min[BUCKETS];   /* min[k]: the smallest v with ln(v)^2 >= k */
    uint16_t small[SMALL];
    float log_of[SMALL]; /* of small integers, with `values` */
} criteo;

/* The entries of a line: integers as values, then hashes. */
typedef struct {
    size_t values, hashes;
    uint16_t column[FIELDS]; /* of the values, then of the hashes */
    float value[INTEGERS];
    uint64_t hash[FIELDS];
} entries;

/* ---- integers to buckets */

/* What is hashed for an integer: itself up to 2, above that 16 + its bucket. */
static uint64_t find_code(const criteo *s, int64_t v)
{
    if (v <= 2)
        return (uint64_t)v;
    const double root = log((double)v); /* each libm rounds differently, so the bucket may be one off */
    size_t k = (size_t)(root * root);
    k += s->min[k + 1] <= (uint64_t)v;
    k -= s->min[k] > (uint64_t)v;
    return 16 + k;
}

static inline uint64_t code_of(const criteo *s, int64_t v)
{
    return (uint64_t)v < SMALL ? s->small[v] : find_code(s, v);
}

/* ---- the columns of a line. The parsers return what follows the value, or NULL if it is bad. */

static const char *parse_long_integer(const char *p, int64_t *out)
{
    static const uint64_t max = 999999999999999999; /* 10^18 - 1: BUCKETS */
    const bool minus = *p == '-';
    uint64_t v;
    p = yk_digits(p + minus, max, &v);
    if (p)
        *out = minus ? -(int64_t)v : (int64_t)v;
    return p;
}

/* Up to seven digits without a branch on their number, which would be unpredictable. */
static inline const char *parse_integer(const char *p, int64_t *out)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    x ^= YK__BYTES('0');
    /* not digits; exact up to the first */
    uint64_t ends = (x | (x + YK__BYTES(0x80 - 10))) & YK__BYTES(0x80);
    unsigned bits = ends ? (unsigned)__builtin_ctzll(ends) - 7 : 0;
    if (bits == 0)
        return parse_long_integer(p, out);    /* eight or more digits, a sign, or not a number */
    *out = yk__text_number(x << (64 - bits)); /* leading zeros are shifted in */
    return p + bits / 8;
}

/* Eight hex digits at once, one nibble in each byte of *out. Upper and lower case are equal. */
static bool parse_hex8(const char *p, uint64_t *out)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    if (x & YK__BYTES(0x80))
        return false;
    uint64_t y = x | YK__BYTES(0x20);
    uint64_t number = (x + YK__BYTES(0x80 - '0')) & ~(x + YK__BYTES(0x80 - '9' - 1));
    uint64_t letter = (y + YK__BYTES(0x80 - 'a')) & ~(y + YK__BYTES(0x80 - 'f' - 1));
    letter &= YK__BYTES(0x80);
    if (((number | letter) & YK__BYTES(0x80)) != YK__BYTES(0x80))
        return false;
    *out = (x & YK__BYTES(0x0f)) + (letter >> 7) * 9;
    return true;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The rare case: other lengths, up to 16 digits. The length is part of the hash. */
static const char *parse_hex(const char *p, uint64_t *out)
{
    uint64_t v = 0;
    int n = 0;
    for (; n < 16 && hex_digit(p[n]) >= 0; n++)
        v = v << 4 | (uint64_t)hex_digit(p[n]);
    if (n == 0)
        return NULL;
    *out = yk_mix64(v + (uint64_t)n);
    return p + n;
}

/* ---- a row */

static int count_tabs(const char *line, const char *end)
{
    int tabs = 0;
    for (const char *p = line; p != end; p++)
        tabs += *p == '\t';
    return tabs;
}

/* Reports what is wrong at p, in column `column` (0 is the label). */
static yk_status bad_field(yk_text_reader *r, const char *line, const char *end, const char *p, int column)
{
    const int tabs = count_tabs(line, end);
    char token[48];
    const int columns = line == end ? 0 : tabs + 1;
    const bool unlabeled = tabs == FIELDS - 1 && r->base.source->options.unlabeled;
    if (tabs != FIELDS && !unlabeled)
        return yk__text_bad(r, line, "%d column%s instead of 40%s", columns, yk_plural(columns),
                            columns == FIELDS ? "; only yoke predict accepts lines without a label" : "");
    if (column == 0)
        return yk__text_bad(r, p, "the label '%s' is not 0 or 1", yk__text_token(p, token));
    return yk__text_bad(r, p, "column %d, '%s', is not %s", column + !unlabeled, yk__text_token(p, token),
                        column <= INTEGERS ? "an integer of at most 18 digits"
                                           : "a hash of at most 16 hex digits");
}

static inline float log_of(const criteo *s, int64_t v)
{
    return (uint64_t)v < SMALL ? s->log_of[v] : (float)copysign(log1p(fabs((double)v)), (double)v);
}

static yk_status put_row(const criteo *s, entries *e, int32_t label, yk_rows *rows)
{
    uint32_t *index;
    float *value;
    uint16_t *field;
    const uint32_t first = s->values ? INTEGERS : 0; /* of the hashed columns */
    size_t n = e->values;
    yk_status st = yk_rows_sparse(rows, FIELDS, &index, &value);
    if (st || (s->fields && (st = yk_rows_fields(rows, FIELDS, &field))))
        return st;
    for (size_t i = 0; i < n; i++) {
        index[i] = e->column[i];
        value[i] = e->value[i];
    }
    if (s->fields) {
        for (size_t i = 0; i < e->hashes; i++)
            index[n + i] = first + yk_key_id(e->hash[i], s->features - first);
        n += e->hashes;
        memcpy(field, e->column, n * sizeof *field);
    } else {
        n += yk__sort_hashes(e->hash, e->hashes, s->features - first, first, index + n);
    }
    return yk_rows_commit(rows, n, label);
}

static void name_last(const criteo *s, const entries *e, int i, const char *text, size_t n)
{
    const uint32_t first = s->values ? INTEGERS : 0;
    char column[8];
    const int length = snprintf(column, sizeof column, "%c%d", i < INTEGERS ? 'I' : 'C',
                                1 + (i < INTEGERS ? i : i - INTEGERS));
    yk_source_named(&s->base, first + yk_key_id(e->hash[e->hashes - 1], s->features - first), column,
                    (size_t)length, '=', text, n);
}

static yk_status parse_line(yk_text_reader *r, const char *line, size_t length, yk_rows *rows)
{
    const criteo *s = (const criteo *)r->base.source;
    const char *p = line, *end = line + length;
    entries e;
    e.values = e.hashes = 0;
    const bool labeled = !s->base.options.unlabeled || count_tabs(line, end) != FIELDS - 1;
    if (labeled && ((*p != '0' && *p != '1') || p[1] != '\t'))
        return bad_field(r, line, end, p, 0);
    p += labeled;
    for (int i = 0; i < FIELDS; i++) {
        if (i || labeled) {
            if (*p != '\t')
                return bad_field(r, line, end, p, i);
            p++;
        }
        const char *at = p;
        uint64_t key;
        int64_t v = 0;
        if (*p == '\t' || p == end)
            continue;
        if (i < INTEGERS) {
            p = parse_integer(p, &v);
            key = p ? code_of(s, v) : 0;
        } else if (parse_hex8(p, &key) && (p[8] == '\t' || p + 8 == end)) {
            p += 8;
        } else {
            p = parse_hex(p, &key);
        }
        if (!p || (*p != '\t' && p != end))
            return bad_field(r, line, end, at, i + 1);
        e.column[e.values + e.hashes] = (uint16_t)i;
        if (s->values && i < INTEGERS)
            e.value[e.values++] = log_of(s, v);
        else
            e.hash[e.hashes++] = yk_mix64(key ^ s->column[i]);
        if (s->base.options.names && e.hashes)
            name_last(s, &e, i, at, (size_t)(p - at));
    }
    if (p != end)
        return bad_field(r, line, end, p, FIELDS);
    return put_row(s, &e, labeled ? line[0] - '0' : 0, rows);
}

static yk_status criteo_open(yk_source *source)
{
    yk_spec *spec = &source->parsed;
    criteo *s = (criteo *)source;
    s->features = yk__spec_keys(source, 24, UINT32_MAX).features;
    s->fields = yk__spec_fields(source);
    s->values = yk_spec_choice(spec, "numeric", "bucket value", 0);
    if (spec->status)
        return spec->status;
    if (s->values && s->features <= INTEGERS)
        return yk_fail(YK_EUSAGE, "%s: %llu feature%s not enough: the data has %d numeric columns",
                       spec->text, (unsigned long long)s->features, s->features == 1 ? " is" : "s are",
                       INTEGERS);
    source->dim = (size_t)s->features;
    source->hashed_into = s->features;
    source->classes = 2;
    source->fields = s->fields ? FIELDS : 1;
    for (uint64_t i = 0; i < FIELDS; i++)
        s->column[i] = yk_mix64(i + 1);
    for (int k = 0; k < BUCKETS; k++) {
        const double bound = yk__exact_exp(sqrt((double)k));
        s->min[k] = (uint64_t)bound + ((double)(uint64_t)bound < bound);
    }
    for (int v = 0; v < SMALL; v++) {
        s->small[v] = (uint16_t)find_code(s, v);
        s->log_of[v] = (float)log1p((double)v);
    }
    return yk__text_open(source);
}

const yk_source_ops yk__criteo_source = {.name = "criteo",
                                         .options = "bits features fields numeric",
                                         .kept = "numeric",
                                         .source_size = sizeof(criteo),
                                         .open = criteo_open,
                                         .parse = parse_line};
