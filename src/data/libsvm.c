/* libsvm:GLOB and libffm:GLOB, text with a sparse example on each line, plain or compressed:
 *
 *     LABEL [qid:N] INDEX:VALUE INDEX:VALUE ... [# comment]                  libsvm
 *     LABEL FIELD:INDEX:VALUE FIELD:INDEX:VALUE ... [# comment]              libffm
 *
 *     +1 3:0.5 17:1 204:2.25
 *     1 0:3:0.5 1:17:1 1:204:2.25
 *
 * libsvm's indices start at 1, libffm's at 0 (`?base=0`, `?base=1` change that). They may be in any order. Values with the
 * same index are added (libffm with fields: the same index and field). Labels -1/+1 and 0/1 are two classes; other labels
 * are class numbers. With `?features=N` or --features N, an index that does not fit is a bad record. With `?bits=B` or
 * --hash-bits B, indices are keys of up to 64 bits that are hashed. Field numbers are below 65536, or below N with
 * `?nfields=N`. libsvm:?fields=position numbers the fields by position (positions.h); a row that does not fit is a bad record.
 * With `?weight=1`, each label is followed by the weight of the example, LABEL:WEIGHT, as in 1:0.5. For predictions, a model with
 * weights does not say whether the lines have them: those without a label look the same.
 */
#include "base/number.h"
#include "base/rng.h"
#include "core/rows.h"
#include "data/text.h"
#include <math.h>
#include <string.h>

typedef struct {
    yk_source base;
    uint64_t first_index; /* 1 or 0 */
    yk_key_space keys;
    bool ffm;    /* entries begin with a field number */
    bool fields; /* rows keep it */
    uint32_t max_field;
    bool weights;     /* LABEL:WEIGHT */
    atomic_uint seen; /* kinds of labels that any reader has seen */
} libsvm;

static bool digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* The parsers return what follows the part that they read, or NULL if it is bad, with the status of the line in r->status. */

static bool at_end(const char *p, const char *end)
{
    return p == end || is_blank(*p) || *p == '#';
}

/* ":WEIGHT" after the label; NULL: bad. */
static const char *parse_weight(const char *p, const char *end, float *out)
{
    double v;
    const char *after = *p == ':' ? yk_decimal_before(p + 1, end, &v) : NULL;
    *out = after ? (float)v : 1.0f;
    return after && at_end(after, end) && *out >= 0.0f && isfinite(*out) ? after : NULL;
}

/* The label must also be consistent with the labels seen so far. */
static const char *parse_label(yk_text_reader *r, const char *p, const char *end, yk__label *out)
{
    libsvm *s = (libsvm *)r->base.source;
    char token[48];
    double v;
    const char *after = yk_decimal_before(p, end, &v), *number = after;
    if (after && s->weights && !(after = parse_weight(after, end, &out->weight)))
        return YK__TEXT_BAD(r, p, "'%s' is not LABEL:WEIGHT with a weight of at least 0 (?weight=1)",
                            yk__text_token(p, token));
    if (!after || !at_end(after, end))
        return YK__TEXT_BAD(r, p, "the label '%s' is not a number%s", yk__text_token(p, token),
                            number && *number == ':' ? "; only yoke predict accepts lines without a label; "
                                                       "if the lines begin with LABEL:WEIGHT, add ?weight=1"
                                                     : "");
    out->target = (float)v;
    if (s->base.options.numbers && isfinite(out->target))
        return after;
    if (!yk__is_class(v))
        return YK__TEXT_BAD(
            r, p, "the label '%s' is not a class: -1, +1, or a whole number from 0 to %d; " YK__REGRESSION,
            yk__text_token(p, token), YK__MAX_LABEL);
    int32_t label = (int32_t)v;
    if (!yk__labels_agree(&s->seen, label))
        return YK__TEXT_BAD(r, p,
                            "the label '%s' does not match the others: with -1 the only other label is +1",
                            yk__text_token(p, token));
    out->label = label < 0 ? 0 : label;
    return after;
}

/* Lines for predictions may have no label: they begin with an entry. */
static bool has_label(const libsvm *s, const char *p, const char *end)
{
    const bool maybe = s->base.options.unlabeled && !s->weights;
    while (maybe && p != end && !is_blank(*p) && *p != ':')
        p++;
    return !maybe || p == end || *p != ':';
}

/* A number of 20 digits or more, or what is wrong with it. */
__attribute__((cold)) static const char *end_number(yk_text_reader *r, const char *first, const char *entry,
                                                    const char *name, uint64_t *v)
{
    char token[48];
    const char *end = yk_digits(first, UINT64_MAX, v);
    if (end && *end == ':')
        return end;
    yk__text_token(entry, token);
    if (!digit(*first))
        yk__text_bad(r, first, "the %s in '%s' is not a number", name, token);
    else if (end)
        yk__text_bad(r, end, "no ':' after the %s in '%s'", name, token);
    else
        yk__text_bad(r, first, "the %s in '%s' is 2^64 or more", name, token);
    return NULL;
}

/* A field number or an index, and the ':' after it. */
static inline const char *parse_number(yk_text_reader *r, const char *p, const char *entry, const char *name,
                                       uint64_t *out)
{
    const char *first = p;
    uint64_t v = 0;
    for (; digit(*p) && p - first < 19; p++)
        v = v * 10 + (uint64_t)(*p - '0');
    *out = v;
    if ((p == first || *p != ':') && !(p = end_number(r, first, entry, name, out)))
        return NULL;
    return p + 1;
}

__attribute__((cold)) static const char *bad_index(yk_text_reader *r, const char *at, const char *entry,
                                                   yk_key index)
{
    const libsvm *s = (const libsvm *)r->base.source;
    char token[48];
    if (index < s->first_index)
        yk__text_bad(r, at, "index 0, but indices start at 1; add ?base=0 if they start at 0");
    else
        yk__text_bad(r, at, "the index in '%s' is out of range: %s%llu features, numbered from %llu; %s",
                     yk__text_token(entry, token), s->keys.of_model ? "the model has " : "",
                     (unsigned long long)(s->keys.features ? s->keys.features : YK_MAX_FEATURES),
                     (unsigned long long)s->first_index,
                     s->keys.of_model ? "the file has more features than the training data"
                                      : "use --hash-bits B to hash indices of any size into 2^B features");
    return NULL;
}

static const char *parse_entry(yk_text_reader *r, const char *p, const char *end, uint32_t *index_out,
                               float *value_out, uint16_t *field_out)
{
    const libsvm *s = (const libsvm *)r->base.source;
    char token[48];
    const char *entry = p;
    uint64_t index, field = 0;
    if (s->ffm && !(p = parse_number(r, p, entry, "field", &field)))
        return NULL;
    if (field > s->max_field)
        return YK__TEXT_BAD(r, entry, "the field in '%s' is not below %u", yk__text_token(entry, token),
                            s->max_field + 1);
    const char *at = p;
    if (!(p = parse_number(r, p, entry, "index", &index)))
        return NULL;
    if (s->keys.hash) {
        *index_out = yk_key_id(yk_mix64(index), s->keys.features);
        yk_source_named(r->base.source, *index_out, "", 0, ' ', at, (size_t)(p - 1 - at));
    } else if (index - s->first_index < (s->keys.features ? s->keys.features : YK_MAX_FEATURES))
        *index_out = (uint32_t)(index - s->first_index);
    else
        return bad_index(r, at, entry, index);
    double v = *p - '0'; /* most values are one digit: avoids a call */
    const char *after = digit(*p) && (p + 1 == end || is_blank(p[1])) ? p + 1 : yk_decimal_before(p, end, &v);
    if (!after || (after != end && !is_blank(*after) && *after != '#'))
        return YK__TEXT_BAD(r, p, "the value in '%s' is not a number%s", yk__text_token(entry, token),
                            after && *after == ',' ? "; write a decimal point instead of the comma" : "");
    if (!isfinite((float)v))
        return YK__TEXT_BAD(r, p, "the value in '%s' is too large", yk__text_token(entry, token));
    *value_out = (float)v;
    *field_out = (uint16_t)field;
    return after;
}

static bool is_row(const char *p, size_t length)
{
    const char *end = p + length;
    while (is_blank(*p))
        p++;
    return p != end && *p != '#';
}

static yk_status parse_line(yk_text_reader *r, const char *line, size_t length, yk_rows *rows)
{
    const libsvm *s = (const libsvm *)r->base.source;
    const char *p = line, *end = line + length;
    while (is_blank(*p))
        p++;
    yk__label first = {.weight = 1.0f};
    if (has_label(s, p, end) && !(p = parse_label(r, p, end, &first)))
        return r->status;
    uint32_t *index;
    float *value;
    uint16_t *field = NULL, unused;
    const size_t max = (size_t)(end - p) / 4 + 1; /* "1:1 " is the shortest entry */
    yk_status st = yk_rows_sparse(rows, max, &index, &value);
    if (st || (s->fields && (st = yk_rows_fields(rows, max, &field))))
        return st;
    size_t n = 0;
    for (;;) {
        while (is_blank(*p))
            p++;
        if (p == end || *p == '#')
            break;
        if (n == 0 && !strncmp(p, "qid:", 4)) {
            while (p != end && !is_blank(*p))
                p++;
            continue;
        }
        if (!(p = parse_entry(r, p, end, &index[n], &value[n], field ? &field[n] : &unused)))
            return r->status;
        n++;
    }
    st = yk__commit(rows, n, &first, s->base.options.numbers);
    if (!st && s->base.by_position)
        st = yk_positions_number_last(s->base.positions, rows);
    return st == YK_EDATA ? yk__text_bad(r, line, "%s (?fields=position)", yk_error()) : st;
}

static yk_status libsvm_open(yk_source *source)
{
    yk_spec *spec = &source->parsed;
    libsvm *s = (libsvm *)source;
    s->ffm = !strcmp(source->ops->name, "libffm");
    s->first_index = yk_spec_u64(spec, "base", !s->ffm, 0, 1);
    s->weights = yk_spec_u64(spec, "weight", 0, 0, 1);
    s->keys = yk__spec_keys(source, 0, YK_MAX_FEATURES);
    source->hashed_into = s->keys.hash ? s->keys.features : 0;
    if (!s->ffm)
        yk__spec_positions(source);
    s->fields = s->ffm ? source->options.fields != YK_FIELDS_NONE : source->by_position;
    source->fields = s->fields ? (uint32_t)yk_spec_u64(spec, "nfields", 0, 1, YK__MAX_FIELDS) : 1;
    s->max_field = s->fields && source->fields ? source->fields - 1 : UINT16_MAX;
    if (spec->status)
        return spec->status;
    if (s->weights && source->options.unlabeled && yk_spec_inherits(spec, "weight"))
        return yk_fail(YK_EUSAGE,
                       "%s: lines of the training data begin with LABEL:WEIGHT, which looks like an entry: "
                       "add ?weight=1 if these do, too, or ?weight=0 if they begin with a label or an entry",
                       spec->text);
    source->dim = (size_t)s->keys.features;
    return yk__text_open(source);
}

const yk_source_ops yk__libsvm_source = {.name = "libsvm",
                                         .options = "base bits features fields nfields weight",
                                         .kept = "base weight",
                                         .source_size = sizeof(libsvm),
                                         .open = libsvm_open,
                                         .parse = parse_line,
                                         .is_row = is_row};
const yk_source_ops yk__libffm_source = {.name = "libffm",
                                         .options = "base bits features nfields weight",
                                         .kept = "base weight",
                                         .source_size = sizeof(libsvm),
                                         .open = libsvm_open,
                                         .parse = parse_line,
                                         .is_row = is_row};
