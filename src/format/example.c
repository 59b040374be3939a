#include "format/example.h"

#include "base/mem.h"
#include "base/rng.h"
#include "format/wire.h"
#include <stdlib.h>
#include <string.h>

/* ---- fast decoding of packed varints into indices: the ends of the varints in 64 bytes are marked in a 64-bit mask. Then each
 * varint is loaded as a whole and compacted without branches, independently of the previous one. */

static inline uint64_t varint_ends(const uint8_t *p, size_t n)
{
    uint64_t bits = 0;
    for (unsigned k = 0; k < 64 && k < n; k += 8) {
        uint64_t tops = (~yk__load64(p + k) & 0x8080808080808080u) >> 7;
        bits |= (tops * 0x0102040810204080u >> 56) << k;
    }
    return n < 64 ? bits & (((uint64_t)1 << n) - 1) : bits;
}

static inline uint64_t compact(uint64_t w)
{
    w = (w & 0x007f007f007f007fu) | (w >> 1 & 0x3f803f803f803f80u);
    w = (w & 0x00003fff00003fffu) | (w >> 2 & 0x0fffc0000fffc000u);
    return (w & 0x0fffffffu) | (w >> 4 & 0x00fffffff0000000u);
}

typedef enum { INDICES_OK, INDICES_MALFORMED, INDICES_TOO_MANY, INDICES_OUTSIDE } outcome;

/* Stores at most `max` indices: either all are below `limit` <= 2^31, or keys are hashed to ids below it. */
static inline __attribute__((always_inline)) outcome decode_varints(const uint8_t *p, size_t n, bool hash,
                                                                    uint64_t limit, uint32_t *out, size_t max,
                                                                    size_t *n_out)
{
    static const uint64_t keep[6] = {0, 0x7f, 0x7f7f, 0x7f7f7f, 0x7f7f7f7f, 0x7f7f7f7f7f};
    const uint8_t *end = p + n, *start = p;
    uint64_t largest = 0, v;
    size_t count = 0;
    for (size_t at = 0; at < n; at += 64) {
        uint64_t bits = varint_ends(p + at, n - at);
        if ((size_t)__builtin_popcountll(bits) > max - count)
            return INDICES_TOO_MANY;
        for (; bits; bits &= bits - 1) {
            const uint8_t *last = p + at + __builtin_ctzll(bits);
            size_t length = (size_t)(last - start) + 1;
            if (__builtin_expect(length <= 5, 1))
                v = compact(yk__load64(start) & keep[length]);
            else if (!yk__wire_varint(start, last + 1, &v))
                return INDICES_MALFORMED;
            largest = v > largest ? v : largest;
            out[count++] = hash ? yk_key_id(yk_mix64(v), limit) : (uint32_t)v;
            start = last + 1;
        }
    }
    *n_out = count;
    return start != end ? INDICES_MALFORMED : !hash && largest >= limit ? INDICES_OUTSIDE : INDICES_OK;
}

/* ---- features of any form */

typedef struct {
    const uint8_t *p;
    size_t n;
} text;

static yk_status malformed(void)
{
    return yk_fail(YK_EDATA, "not a well-formed tf.train.Example");
}

/* Takes the next field from a message; false at its end, and if it is malformed. */
static inline bool next_field(text *message, uint64_t *tag, text *value, yk_status *st)
{
    const uint8_t *const end = message->p + message->n;
    *tag = 0;
    *value = (text){0};
    if (*st || message->p == end)
        return false;
    message->p = yk__wire_field(message->p, end, tag, &value->p, &value->n);
    if (!message->p)
        *st = malformed();
    message->n = message->p ? (size_t)(end - message->p) : 0;
    return !*st;
}

/* Checks varints; counts them and returns the last one. */
static bool scan_ints(const yk_feature *f, size_t *count_out, int64_t *last_out)
{
    const uint8_t *const end = f->bytes + f->size;
    uint64_t v = 0;
    *count_out = 0;
    for (const uint8_t *p = f->bytes; p < end; ++*count_out)
        if (!(p = yk__wire_varint(p, end, &v)))
            return false;
    *last_out = (int64_t)v;
    return true;
}

/* Forgets the values, which must be well formed. */
static yk_status forget(yk_feature *f)
{
    size_t count;
    int64_t last;
    const bool ok = f->kind != YK_FEATURE_INTS || scan_ints(f, &count, &last);
    free(f->copy);
    *f = (yk_feature){.name = f->name, .option = f->option};
    return ok ? YK_OK : malformed();
}

static yk_status add_piece(yk_feature *f, text piece)
{
    enum { PAD = 8 }; /* readable bytes after the values */
    if (f->kind == YK_FEATURE_INTS ? piece.n && piece.p[piece.n - 1] >= 0x80 : piece.n % 4)
        return malformed();
    if (!f->size) {
        f->bytes = piece.p;
        f->size = piece.n;
        return YK_OK;
    }
    const bool copied = f->bytes == f->copy;
    if (YK_RESERVE(f->copy, f->cap, f->size + piece.n + PAD, "a feature"))
        return YK_ESYSTEM;
    if (!copied)
        memcpy(f->copy, f->bytes, f->size);
    memcpy(f->copy + f->size, piece.p, piece.n);
    f->bytes = f->copy;
    f->size += piece.n;
    return YK_OK;
}

/* The fields of a list: a packed piece, a value of any wire type, or an unknown field, which is skipped. */
static yk_status read_list(yk_feature *f, text list)
{
    uint64_t tag;
    text value;
    yk_status st = YK_OK;
    if (!f->size)
        f->bytes = list.p; /* not NULL, even if there are no values */
    while (next_field(&list, &tag, &value, &st)) {
        if (tag == YK__TAG(1, YK__LEN) && f->kind == YK_FEATURE_BYTES) {
            f->bytes = value.p;
            f->size = value.n;
            f->strings++;
        } else if (tag == YK__TAG(1, YK__LEN) ||
                   (tag == YK__TAG(1, YK__VARINT) && f->kind == YK_FEATURE_INTS) ||
                   (tag == YK__TAG(1, YK__FIXED32) && f->kind == YK_FEATURE_FLOATS)) {
            st = add_piece(f, value);
        }
    }
    return st;
}

static yk_status read_feature(yk_feature *f, text feature)
{
    uint64_t tag;
    text list;
    yk_status st = YK_OK;
    while (next_field(&feature, &tag, &list, &st)) {
        const unsigned kind = (unsigned)(tag >> 3);
        if ((tag & 7) != YK__LEN || tag > YK__TAG(YK_FEATURE_INTS, YK__LEN))
            continue;
        if (f->kind != kind) /* a oneof: another kind replaces the list, the same kind extends it */
            st = forget(f);
        f->kind = (yk_feature_kind)kind;
        st = st ? st : read_list(f, list);
    }
    return st;
}

static inline bool is_named(const yk_feature *f, text name)
{
    size_t k = 0;
    while (f->name && k < name.n && f->name[k] && f->name[k] == (char)name.p[k])
        k++;
    return f->name && k == name.n && !f->name[k];
}

/* A map entry: the name may come after the value. The values of the last entry of a name are checked when they are used, those of all other entries now. */
static yk_status find_entry(text entry, yk_feature *features, size_t n)
{
    uint64_t tag;
    text name = {0}, value;
    yk_feature found = {0};
    yk_status st = YK_OK;
    while (next_field(&entry, &tag, &value, &st))
        if (tag == YK__TAG(1, YK__LEN))
            name = value;
        else if (tag == YK__TAG(2, YK__LEN))
            st = read_feature(&found, value);
    yk_feature *owner = NULL; /* of the copy: the first feature with this name */
    for (size_t i = n; !st && i-- > 0;) {
        yk_feature *const f = &features[i];
        if (!is_named(f, name))
            continue;
        st = forget(f);
        *f = (yk_feature){f->name, f->option, found.kind, found.bytes, found.size, found.strings};
        owner = f;
    }
    if (owner)
        owner->copy = found.copy;
    else if (st)
        free(found.copy);
    return st || owner ? st : forget(&found);
}

yk_status yk_example_find(const uint8_t *p, size_t n, yk_feature *features, size_t nfeatures)
{
    uint64_t tag, inner;
    text example = {p, n}, all, entry;
    yk_status st = YK_OK;
    while (next_field(&example, &tag, &all, &st))
        while (tag == YK__TAG(1, YK__LEN) && next_field(&all, &inner, &entry, &st))
            if (inner == YK__TAG(1, YK__LEN))
                st = find_entry(entry, features, nfeatures);
    if (st)
        yk_features_fini(features, nfeatures);
    return st;
}

void yk_features_fini(yk_feature *features, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(features[i].copy);
        features[i].copy = NULL;
    }
}

size_t yk_feature_count(const yk_feature *f)
{
    if (f->kind != YK_FEATURE_INTS)
        return f->kind == YK_FEATURE_FLOATS ? f->size / 4 : f->strings;
    size_t count = 0;
    for (size_t i = 0; i < f->size; i++)
        count += f->bytes[i] < 0x80;
    return count;
}

static yk_status check_feature(const yk_feature *f, yk_feature_kind kind)
{
    static const char *const kinds[] = {"", "bytes", "float", "int64"};
    if (!f->kind)
        return yk_fail(YK_EDATA, "the feature '%s' is missing; add ?%s=NAME if it has another name", f->name,
                       f->option);
    return f->kind == kind ? YK_OK
                           : yk_fail(YK_EDATA, "the feature '%s' is not a list of %s", f->name, kinds[kind]);
}

yk_status yk_feature_one(const yk_feature *f, yk_feature_kind kind, int64_t *number_out)
{
    size_t count = yk_feature_count(f);
    yk_status st = check_feature(f, kind);
    if (!st && kind == YK_FEATURE_INTS && !scan_ints(f, &count, number_out))
        st = malformed();
    return st || count == 1 ? st
                            : yk_fail(YK_EDATA, "the feature '%s' has %zu values, not one", f->name, count);
}

/* ---- rows */

static yk_status read_label(const yk_feature *f, int32_t *out)
{
    int64_t label;
    yk_status st = yk_feature_one(f, YK_FEATURE_INTS, &label);
    if (!st && (label < -1 || label > 65535))
        st = yk_fail(YK_EDATA, "the label %lld is neither -1 nor a class number from 0 to 65535",
                     (long long)label);
    if (!st)
        *out = label < 0 ? 0 : (int32_t)label;
    return st;
}

/* what: "value" or "field" */
static yk_status count_mismatch(size_t indices, size_t count, const char *what)
{
    return yk_fail(YK_EDATA, "%zu %s but %zu %s%s", indices, indices == 1 ? "index" : "indices", count, what,
                   yk_plural(count));
}

/* The error for the first index that is not below the limit. */
static yk_status outside(const yk_feature *f, uint64_t limit, yk_key_space keys)
{
    uint64_t v = 0;
    for (const uint8_t *p = f->bytes; v < limit;)
        p = yk__wire_varint(p, f->bytes + f->size, &v);
    const int64_t index = (int64_t)v;
    if (index < 0)
        return yk_fail(YK_EDATA, "the index %lld is negative; use --hash-bits B to hash indices",
                       (long long)index);
    if (keys.features && keys.features <= YK_EXAMPLE_INDICES)
        return yk_fail(YK_EDATA, "index %lld is out of range for %llu features (largest %llu); %s",
                       (long long)index, (unsigned long long)keys.features,
                       (unsigned long long)keys.features - 1,
                       keys.of_model ? "the file has more features than the training data"
                                     : "use --hash-bits B to hash indices");
    return yk_fail(
        YK_EDATA,
        "index %lld is too large (largest %llu); use --hash-bits B to hash indices into 2^B features",
        (long long)index, (unsigned long long)YK_EXAMPLE_INDICES - 1);
}

static yk_status read_index(const yk_feature *f, yk_key_space keys, uint32_t *out, size_t max)
{
    const uint64_t features = keys.features;
    uint64_t limit = features && features < YK_EXAMPLE_INDICES ? features : YK_EXAMPLE_INDICES;
    size_t count = 0;
    switch (keys.hash ? decode_varints(f->bytes, f->size, true, limit, out, max, &count)
                      : decode_varints(f->bytes, f->size, false, limit, out, max, &count)) {
    case INDICES_OK:
        return count == max ? YK_OK : count_mismatch(count, max, "value");
    case INDICES_TOO_MANY:
        return count_mismatch(yk_feature_count(f), max, "value");
    case INDICES_OUTSIDE:
        return outside(f, limit, keys);
    default:
        return malformed();
    }
}

static yk_status read_value(const yk_feature *f, float *out, size_t n)
{
    if (n)
        memcpy(out, f->bytes, f->size);
    uint32_t bits, not_finite = 0;
    for (size_t i = 0; i < n; i++) {
        memcpy(&bits, out + i, sizeof bits);
        not_finite |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    if (!not_finite)
        return YK_OK;
    for (size_t i = 0; i < n; i++)
        if (!__builtin_isfinite(out[i]))
            return yk_fail(YK_EDATA, "value %zu is %s", i,
                           __builtin_isnan(out[i]) ? "not a number (NaN)" : "infinite");
    return YK_OK;
}

static yk_status read_field(const yk_feature *f, uint32_t limit, uint16_t *out, size_t n)
{
    const uint8_t *p = f->bytes, *const end = p + f->size;
    const size_t count = yk_feature_count(f);
    if (count != n)
        return count_mismatch(n, count, "field");
    for (size_t i = 0; i < n; i++) {
        uint64_t field;
        if (!(p = yk__wire_varint(p, end, &field)))
            return malformed();
        if (field >= limit)
            return yk_fail(YK_EDATA, "field %lld is not in the range 0 to %u", (long long)field, limit - 1);
        out[i] = (uint16_t)field;
    }
    return YK_OK;
}

yk_status yk_example_row(const yk_feature f[YK_EXAMPLE_FEATURES], yk_key_space keys,
                         const yk_example_rules *rules, yk_rows *rows)
{
    const yk_feature *const index = &f[YK_EXAMPLE_INDEX], *const value = &f[YK_EXAMPLE_VALUE],
                            *const field = &f[YK_EXAMPLE_FIELD];
    int32_t label = 0;
    yk_status st = YK_OK;
    if (f[YK_EXAMPLE_LABEL].kind || !rules->unlabeled)
        st = read_label(&f[YK_EXAMPLE_LABEL], &label);
    if (st || (st = check_feature(index, YK_FEATURE_INTS)))
        return st;
    const size_t max = yk_feature_count(value->kind ? value : index);
    if (((value->kind || (rules->value_needed && max)) && (st = check_feature(value, YK_FEATURE_FLOATS))) ||
        ((field->kind || rules->field_needed) && (st = check_feature(field, YK_FEATURE_INTS))))
        return st;
    uint32_t *to_index;
    float *to_value;
    uint16_t *to_field;
    if ((st = yk_rows_sparse(rows, max, &to_index, &to_value)) ||
        (st = read_index(index, keys, to_index, max)) ||
        (value->kind && (st = read_value(value, to_value, max))))
        return st;
    if (field->kind &&
        ((st = yk_rows_fields(rows, max, &to_field)) ||
         (st = read_field(field, rules->nfields ? rules->nfields : UINT16_MAX + 1, to_field, max))))
        return st;
    return yk_rows_commit(rows, max, label);
}

/* ---- the encoder: writes the canonical form, in the order index, field, value, label */

/* Messages are written backwards, so that the length of a field is known when its tag is written. These functions return where
 * the message begins so far. */

static uint8_t *put_varint(uint8_t *p, uint64_t v)
{
    p -= v < 0x80 ? 1 : (70 - __builtin_clzll(v)) / 7;
    yk__wire_put_varint(p, v);
    return p;
}

/* The tag and the length of a field whose bytes end at `end`. */
static uint8_t *put_head(uint8_t *p, const uint8_t *end, unsigned field)
{
    p = put_varint(p, (uint64_t)(end - p));
    *--p = (uint8_t)YK__TAG(field, YK__LEN);
    return p;
}

/* A map entry around packed values: its Feature, and its name of five letters. */
static uint8_t *put_entry(uint8_t *p, const uint8_t *end, const char *name, unsigned kind)
{
    p = put_head(p, end, 1);
    p = put_head(p, end, kind);
    p = put_head(p, end, 2) - 5;
    memcpy(p, name, 5);
    return put_head(put_head(p, p + 5, 1), end, 1);
}

yk_status yk_example_encode(int64_t label, const uint32_t *index, const float *value, const uint16_t *field,
                            size_t n, uint8_t **buffer, size_t *cap, size_t *size_out)
{
    enum { PAD = 8 }; /* yk_example_row() may read that many bytes past an example */
    if (n > ((size_t)1 << 31) / 16)
        return yk_fail(YK_EDATA, "a row of %zu entries is too large for a TFRecord", n);
    if (YK_RESERVE(*buffer, *cap, 256 + n * 12, "an encoded example")) /* varints of 5 and 3 bytes, a float */
        return YK_ESYSTEM;
    uint8_t *const end = *buffer + *cap - PAD, *p = put_varint(end, (uint64_t)label), *values_end;
    p = values_end = put_entry(p, end, "label", YK_FEATURE_INTS);
    for (size_t i = n; i-- > 0;) {
        const float one = 1.0f;
        p -= sizeof one;
        memcpy(p, value ? value + i : &one, sizeof one);
    }
    p = values_end = put_entry(p, values_end, "value", YK_FEATURE_FLOATS);
    for (size_t i = n; field && i-- > 0;)
        p = put_varint(p, field[i]);
    if (field)
        p = values_end = put_entry(p, values_end, "field", YK_FEATURE_INTS);
    for (size_t i = n; i-- > 0;)
        p = put_varint(p, index[i]);
    p = put_head(put_entry(p, values_end, "index", YK_FEATURE_INTS), end, 1);
    *size_out = (size_t)(end - p);
    memmove(*buffer, p, *size_out);
    return YK_OK;
}
