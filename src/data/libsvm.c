/* libsvm:GLOB, text with a sparse example on each line, plain or compressed:
 *
 *     LABEL [qid:N] INDEX:VALUE INDEX:VALUE ... [# comment]
 *
 *     +1 3:0.5 17:1 204:2.25
 *
 * Indices count from 1 (`?base=0`: from 0), in any order; equal ones are added up. Labels -1/+1 and 0/1 are
 * two classes; other labels are class numbers as they are. `?features=N` or --features N: an index that does
 * not fit is a bad record.
 */
#include "base/rows.h"
#include "data/formats.h"
#include "data/text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LABEL_MOST 1000000

typedef struct {
    yk_text_source text;
    uint64_t base;     /* 1, or 0 by option */
    uint64_t features; /* 0: any */
    atomic_uint seen;  /* kinds of labels so far, over all readers */
} libsvm;

enum { SEEN_MINUS = 1, SEEN_ZERO = 2, SEEN_MANY = 4 };

static bool digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

static bool blank(char c)
{
    return c == ' ' || c == '\t';
}

/* What strtod() is for: many digits, large exponents. Its other languages (hex, "inf") are not ours. */
static const char *parse_exotic(const char *p, const char *stop, double *out)
{
    char text[400];
    size_t n = (size_t)(stop - p);
    if (n >= sizeof text)
        return NULL;
    memcpy(text, p, n);
    text[n] = 0;
    char *end;
    *out = strtod(text, &end);
    return end == text + n && n ? stop : NULL;
}

/* A decimal number at p. Returns its end, or NULL where there is none. With at most 15 digits and a small
 * power of ten both are exact doubles, and so their product or quotient is correctly rounded (Clinger 1990).
 * */
static const char *parse_real(const char *p, double *out)
{
    static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char *begin = p;
    bool minus = *p == '-';
    p += minus || *p == '+';
    uint64_t mantissa = 0;
    const char *first = p;
    for (; digit(*p); p++)
        mantissa = mantissa * 10 + (uint64_t)(*p - '0');
    size_t digits = (size_t)(p - first);
    int scale = 0;
    if (*p == '.') {
        first = ++p;
        for (; digit(*p); p++)
            mantissa = mantissa * 10 + (uint64_t)(*p - '0');
        digits += (size_t)(p - first);
        scale = digits < 1000 ? -(int)(p - first) : 0;
    }
    if (digits == 0)
        return NULL;
    if (*p == 'e' || *p == 'E') {
        p++;
        bool down = *p == '-';
        p += down || *p == '+';
        if (!digit(*p))
            return NULL;
        int exponent = 0;
        for (; digit(*p); p++)
            exponent = exponent < 10000 ? exponent * 10 + (*p - '0') : exponent;
        scale += down ? -exponent : exponent;
    }
    if (digits > 15 || scale < -22 || scale > 22)
        return parse_exotic(begin, p, out);
    double v = scale < 0 ? (double)mantissa / power[-scale] : (double)mantissa * power[scale];
    *out = minus ? -v : v;
    return p;
}

/* The label and whether it goes with the ones before it; NULL where it is bad, and then *failed says how that went. */
static const char *parse_label(yk_text_reader *r, const char *p, const char *end, int32_t *label_out,
                               yk_status *failed)
{
    libsvm *s = (libsvm *)r->base.source;
    char word[48];
    double v;
    const char *after = parse_real(p, &v);
    if (!after || (after != end && !blank(*after) && *after != '#')) {
        *failed = yk__text_bad(r, p, "the label '%s' is not a number", yk__text_word(p, word));
        return NULL;
    }
    if (!(v >= -1.0 && v <= LABEL_MOST) || v != (double)(int32_t)v) {
        *failed = yk__text_bad(r, p, "the label '%s' is not a class: -1, +1, or a whole number from 0 to %d",
                               yk__text_word(p, word), LABEL_MOST);
        return NULL;
    }
    int32_t label = (int32_t)v;
    unsigned kind = label < 0 ? SEEN_MINUS : label == 0 ? SEEN_ZERO : label > 1 ? SEEN_MANY : 0;
    unsigned seen = atomic_load_explicit(&s->seen, memory_order_relaxed);
    if (kind & ~seen)
        seen = atomic_fetch_or_explicit(&s->seen, kind, memory_order_relaxed) | kind;
    if ((seen & SEEN_MINUS) && (seen & (SEEN_ZERO | SEEN_MANY))) {
        *failed = yk__text_bad(
            r, p, "the label '%s' does not go with the others: -1 is used for two classes, -1 and +1",
            yk__text_word(p, word));
        return NULL;
    }
    *label_out = label < 0 ? 0 : label;
    return after;
}

/* INDEX:VALUE at p; like parse_label. */
static const char *parse_entry(yk_text_reader *r, const char *p, const char *end, uint32_t *index_out,
                               float *value_out, yk_status *failed)
{
    const libsvm *s = (const libsvm *)r->base.source;
    char word[48];
    const char *at = p;
    uint64_t index = 0;
    for (; digit(*p) && p - at < 19; p++)
        index = index * 10 + (uint64_t)(*p - '0');
    if (p == at || digit(*p)) {
        *failed = yk__text_bad(r, at, "the index in '%s' is not a number", yk__text_word(at, word));
        return NULL;
    }
    if (*p != ':') {
        *failed = yk__text_bad(r, p, "no ':' after the index in '%s'", yk__text_word(at, word));
        return NULL;
    }
    if (index < s->base) {
        *failed = yk__text_bad(r, at,
                               "index 0, but indices count from 1 here; use ?base=0 where they count from 0");
        return NULL;
    }
    index -= s->base;
    if (index >= UINT32_MAX || (s->features && index >= s->features)) {
        *failed = yk__text_bad(
            r, at, "the index in '%s' is out of range: %llu features from %llu", yk__text_word(at, word),
            (unsigned long long)(s->features ? s->features : UINT32_MAX), (unsigned long long)s->base);
        return NULL;
    }
    double v;
    const char *after = parse_real(p + 1, &v);
    if (!after || (after != end && !blank(*after) && *after != '#')) {
        *failed = yk__text_bad(r, p + 1, "the value in '%s' is not a number", yk__text_word(at, word));
        return NULL;
    }
    if (!isfinite((float)v)) {
        *failed = yk__text_bad(r, p + 1, "the value in '%s' is too large", yk__text_word(at, word));
        return NULL;
    }
    *index_out = (uint32_t)index;
    *value_out = (float)v;
    return after;
}

static yk_status parse_line(yk_text_reader *r, const char *line, size_t length, yk_rows *rows,
                            bool *added_out)
{
    const char *p = line, *end = line + length;
    while (blank(*p))
        p++;
    if (p == end || *p == '#')
        return YK_OK;
    yk_status st = YK_OK;
    int32_t label;
    if (!(p = parse_label(r, p, end, &label, &st)))
        return st;
    uint32_t *index;
    float *value;
    /* "1:1 " is the shortest entry */
    if ((st = yk_rows_sparse(rows, (size_t)(end - p) / 4 + 1, &index, &value)))
        return st;
    size_t n = 0;
    for (;;) {
        while (blank(*p))
            p++;
        if (p == end || *p == '#')
            break;
        if (n == 0 && !strncmp(p, "qid:", 4)) {
            while (p != end && !blank(*p))
                p++;
            continue;
        }
        if (!(p = parse_entry(r, p, end, &index[n], &value[n], &st)))
            return st;
        n++;
    }
    if ((st = yk_rows_commit(rows, n, label)))
        return st;
    *added_out = true;
    return YK_OK;
}

yk_status yk_libsvm_open(const yk_spec *spec, yk_split split, const yk_source_options *o, yk_source **out)
{
    (void)split;
    uint64_t base, features;
    yk_status st = yk_spec_check(spec, "base features");
    if (!st)
        st = yk_spec_u64(spec, "base", 1, 0, 1, &base);
    if (!st)
        st = yk_spec_u64(spec, "features", o->features, 1, UINT32_MAX, &features);
    if (st)
        return st;
    libsvm *s = calloc(1, sizeof *s);
    if (!s)
        return yk_fail_memory(sizeof *s, "a data source");
    s->text.parse = parse_line;
    s->base = base;
    s->features = features;
    s->text.base.dim = (size_t)features;
    if ((st = yk__text_open(&s->text, "libsvm", spec->where))) {
        free(s);
        return st;
    }
    *out = &s->text.base;
    return YK_OK;
}
