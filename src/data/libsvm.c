/* libsvm:GLOB and libffm:GLOB, text with a sparse example on each line, plain or compressed:
 *
 *     LABEL [qid:N] INDEX:VALUE INDEX:VALUE ... [# comment]                  libsvm
 *     LABEL FIELD:INDEX:VALUE FIELD:INDEX:VALUE ... [# comment]              libffm
 *
 *     +1 3:0.5 17:1 204:2.25
 *     1 0:3:0.5 1:17:1 1:204:2.25
 *
 * Indices of libsvm count from 1, those of libffm from 0 (`?base=0`, `?base=1`), in any order; equal ones are added up
 * (libffm: where the field is the same, too, if fields are asked for). Labels -1/+1 and 0/1 are two classes; other labels
 * are class numbers as they are. `?features=N` or --features N: an index that does not fit is a bad record. With
 * `?bits=B` or --hash-bits B indices are keys of up to 64 bits, hashed as they are written. Field numbers are below 65536.
 */
#include "base/number.h"
#include "base/rng.h"
#include "base/rows.h"
#include "data/text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LABEL_MOST 1000000

typedef struct {
    yk_text_source text;
    uint64_t base; /* the first index: 1 or 0 */
    yk_key_space keys;
    bool ffm;         /* entries begin with a field number */
    bool fields;      /* and rows carry it */
    atomic_uint seen; /* kinds of labels so far, over all readers */
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

/* The label and whether it goes with the ones before it; NULL where it is bad, and then *failed says how that went. */
static const char *parse_label(yk_text_reader *r, const char *p, const char *end, int32_t *label_out,
                               yk_status *failed)
{
    libsvm *s = (libsvm *)r->base.base.source;
    char word[48];
    double v;
    const char *after = yk_decimal_before(p, end, &v);
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

/* A whole number of at most 19 digits. Returns its end: p itself where there is none. */
static inline const char *parse_digits(const char *p, uint64_t *out)
{
    const char *first = p;
    uint64_t v = 0;
    for (; digit(*p) && p - first < 19; p++)
        v = v * 10 + (uint64_t)(*p - '0');
    *out = v;
    return p;
}

/* The number from `first` on, of which `p` is no ':': it may have a 20th digit, or it is bad. */
__attribute__((cold)) static const char *end_number(yk_text_reader *r, const char *first, const char *p,
                                                    const char *entry, const char *name, uint64_t *v,
                                                    yk_status *failed)
{
    char word[48];
    bool over = false;
    for (; digit(*p); p++)
        over |= __builtin_mul_overflow(*v, (uint64_t)10, v) ||
                __builtin_add_overflow(*v, (uint64_t)(*p - '0'), v);
    if (p == first)
        *failed = yk__text_bad(r, first, "the %s in '%s' is not a number", name, yk__text_word(entry, word));
    else if (*p != ':')
        *failed = yk__text_bad(r, p, "no ':' after the %s in '%s'", name, yk__text_word(entry, word));
    else if (over)
        *failed = yk__text_bad(r, first, "the %s in '%s' is 2^64 or more", name, yk__text_word(entry, word));
    else
        return p;
    return NULL;
}

__attribute__((cold)) static yk_status bad_index(yk_text_reader *r, const char *at, const char *entry,
                                                 yk_key index)
{
    const libsvm *s = (const libsvm *)r->base.base.source;
    char word[48];
    if (index < s->base)
        return yk__text_bad(r, at,
                            "index 0, but indices count from 1 here; use ?base=0 where they count from 0");
    return yk__text_bad(r, at,
                        "the index in '%s' is out of range: %llu features from %llu; --hash-bits B hashes "
                        "indices of any size into 2^B features",
                        yk__text_word(entry, word),
                        (unsigned long long)(s->keys.features ? s->keys.features : UINT32_MAX),
                        (unsigned long long)s->base);
}

/* One entry. Returns what follows it, or NULL where it is bad. */
static const char *parse_entry(yk_text_reader *r, const char *p, const char *end, uint32_t *index_out,
                               float *value_out, uint16_t *field_out, yk_status *failed)
{
    const libsvm *s = (const libsvm *)r->base.base.source;
    char word[48];
    const char *entry = p;
    uint64_t index, field = 0;
    if (s->ffm) {
        p = parse_digits(p, &field);
        if ((p == entry || *p != ':') && !(p = end_number(r, entry, p, entry, "field", &field, failed)))
            return NULL;
        if (field > UINT16_MAX) {
            *failed =
                yk__text_bad(r, entry, "the field in '%s' is not below 65536", yk__text_word(entry, word));
            return NULL;
        }
        p++;
    }
    const char *at = p;
    p = parse_digits(p, &index);
    if ((p == at || *p != ':') && !(p = end_number(r, at, p, entry, "index", &index, failed)))
        return NULL;
    if (s->keys.hash) {
        *index_out = yk_key_id(yk_mix64(index), s->keys.features);
    } else if (index - s->base < (s->keys.features ? s->keys.features : UINT32_MAX)) {
        *index_out = (uint32_t)(index - s->base);
    } else {
        *failed = bad_index(r, at, entry, index);
        return NULL;
    }
    p++;
    double v = *p - '0'; /* a digit, mostly 1: not worth a call */
    const char *after = digit(*p) && (p + 1 == end || blank(p[1])) ? p + 1 : yk_decimal_before(p, end, &v);
    if (!after || (after != end && !blank(*after) && *after != '#')) {
        *failed = yk__text_bad(r, p, "the value in '%s' is not a number", yk__text_word(entry, word));
        return NULL;
    }
    if (!isfinite((float)v)) {
        *failed = yk__text_bad(r, p, "the value in '%s' is too large", yk__text_word(entry, word));
        return NULL;
    }
    *value_out = (float)v;
    *field_out = (uint16_t)field;
    return after;
}

static yk_status parse_line(yk_text_reader *r, const char *line, size_t length, yk_rows *rows,
                            bool *added_out)
{
    const libsvm *s = (const libsvm *)r->base.base.source;
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
    uint16_t *field = NULL, unused;
    const size_t most = (size_t)(end - p) / 4 + 1; /* "1:1 " is the shortest entry */
    if ((st = yk_rows_sparse(rows, most, &index, &value)) ||
        (s->fields && (st = yk_rows_fields(rows, most, &field))))
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
        if (!(p = parse_entry(r, p, end, &index[n], &value[n], field ? &field[n] : &unused, &st)))
            return st;
        n++;
    }
    if ((st = yk_rows_commit(rows, n, label)))
        return st;
    *added_out = true;
    return YK_OK;
}

static yk_status open_text(yk_source *source, const yk_spec *spec, const yk_source_options *o, bool ffm)
{
    libsvm *s = (libsvm *)source;
    yk_status st = yk_spec_check(spec, "base bits features");
    if (!st)
        st = yk_spec_u64(spec, "base", !ffm, 0, 1, &s->base);
    if (!st)
        st = yk__spec_keys(spec, o, 0, UINT32_MAX, &s->keys);
    if (st)
        return st;
    s->text.parse = parse_line;
    s->ffm = ffm;
    s->fields = ffm && o->fields != YK_FIELDS_NONE;
    source->dim = (size_t)s->keys.features;
    return yk__text_open(&s->text, spec->where);
}

static yk_status libsvm_open(yk_source *s, const yk_spec *spec, yk_split split, const yk_source_options *o)
{
    (void)split;
    return open_text(s, spec, o, false);
}

static yk_status libffm_open(yk_source *s, const yk_spec *spec, yk_split split, const yk_source_options *o)
{
    (void)split;
    return open_text(s, spec, o, true);
}

const yk_source_ops yk__libsvm_source = YK__TEXT_SOURCE("libsvm", libsvm, libsvm_open);
const yk_source_ops yk__libffm_source = YK__TEXT_SOURCE("libffm", libsvm, libffm_open);
