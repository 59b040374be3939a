#include "format/example.h"

#include "base/mem.h"
#include "base/rng.h"
#include "format/wire.h"
#include <stdlib.h>
#include <string.h>

enum { BYTES = YK_FEATURE_BYTES, FLOATS = YK_FEATURE_FLOATS, INTS = YK_FEATURE_INTS }; /* fields of Feature */
static const char *const default_names[] = {"label", "index", "value", "field"};
enum { LABEL, INDEX, VALUE, FIELD, OTHER }; /* features by name */

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

/* The values of a feature, in packed form. All common writers produce one packed list: it stays where it is. Other encodings
 * that protobuf allows are copied: lists in several pieces, and values one by one. */
typedef struct {
    int kind;      /* BYTES, FLOATS, INTS; 0: the Feature is empty, or missing */
    text packed;   /* INTS: varints; FLOATS: 4 bytes each; BYTES: the last value */
    size_t count;  /* BYTES */
    uint8_t *copy; /* owned; NULL: not copied */
    size_t cap;
} list;

static yk_status malformed(void)
{
    return yk_fail(YK_EDATA, "not a well-formed tf.train.Example");
}

/* Checks varints; counts them and returns the last one. */
static bool scan_ints(text t, size_t *count_out, int64_t *last_out)
{
    const uint8_t *const end = t.p + t.n;
    uint64_t v = 0;
    *count_out = 0;
    for (const uint8_t *p = t.p; p < end; ++*count_out)
        if (!(p = yk__wire_varint(p, end, &v)))
            return false;
    *last_out = (int64_t)v;
    return true;
}

/* Forgets the values, which must be well formed. */
static yk_status forget(list *l)
{
    size_t count;
    int64_t last;
    const bool ok = l->kind != INTS || scan_ints(l->packed, &count, &last);
    free(l->copy);
    *l = (list){0};
    return ok ? YK_OK : malformed();
}

static yk_status add_piece(list *l, const uint8_t *p, size_t n)
{
    enum { PAD = 8 }; /* readable bytes after the values */
    if (l->kind == INTS ? n && p[n - 1] >= 0x80 : n % 4)
        return malformed();
    if (!l->packed.n) {
        l->packed = (text){p, n};
        return YK_OK;
    }
    const bool copied = l->packed.p == l->copy;
    if (YK_RESERVE(l->copy, l->cap, l->packed.n + n + PAD, "a feature"))
        return YK_ESYSTEM;
    if (!copied)
        memcpy(l->copy, l->packed.p, l->packed.n);
    memcpy(l->copy + l->packed.n, p, n);
    l->packed = (text){l->copy, l->packed.n + n};
    return YK_OK;
}

/* The fields of a list: a packed piece, a value of any wire type, or an unknown field, which is skipped. */
static yk_status read_list(list *l, text t)
{
    const uint8_t *p = t.p, *const end = t.p + t.n;
    yk_status st = YK_OK;
    if (!l->packed.n)
        l->packed.p = t.p; /* not NULL, even if there are no values */
    while (p < end && !st) {
        uint64_t tag;
        text span = {0};
        const uint8_t *value = yk__wire_tag(p, end, &tag);
        if (!value || !(p = (tag & 7) == YK__LEN ? yk__wire_span(value, end, &span.p, &span.n)
                                                 : yk__wire_skip(value, end, tag)))
            return malformed();
        if (tag == YK__TAG(1, YK__LEN) && l->kind == BYTES) {
            l->packed = span;
            l->count++;
        } else if (tag == YK__TAG(1, YK__LEN)) {
            st = add_piece(l, span.p, span.n);
        } else if ((tag == YK__TAG(1, YK__VARINT) && l->kind == INTS) ||
                   (tag == YK__TAG(1, YK__FIXED32) && l->kind == FLOATS)) {
            st = add_piece(l, value, (size_t)(p - value));
        }
    }
    return st;
}

static yk_status read_feature(list *l, text t)
{
    const uint8_t *p = t.p, *const end = t.p + t.n;
    yk_status st = YK_OK;
    while (p < end && !st) {
        uint64_t tag;
        text span;
        if (!(p = yk__wire_field(p, end, &tag, &span.p, &span.n)))
            return malformed();
        if ((tag & 7) != YK__LEN || tag > YK__TAG(INTS, YK__LEN))
            continue;
        if (l->kind !=
            (int)(tag >> 3)) /* a oneof: another kind replaces the list, the same kind extends it */
            st = forget(l);
        l->kind = (int)(tag >> 3);
        st = st ? st : read_list(l, span);
    }
    return st;
}

/* A map entry: the name may come after the value. */
static yk_status read_entry(text entry, text *name, list *l)
{
    const uint8_t *p = entry.p, *const end = entry.p + entry.n;
    yk_status st = YK_OK;
    while (p < end && !st) {
        uint64_t tag;
        text span;
        if (!(p = yk__wire_field(p, end, &tag, &span.p, &span.n)))
            return malformed();
        if (tag == YK__TAG(1, YK__LEN))
            *name = span;
        else if (tag == YK__TAG(2, YK__LEN))
            st = read_feature(l, span);
    }
    return st;
}

/* Calls `take` for every entry of an Example. It takes the list. */
static yk_status read_example(const uint8_t *p, size_t n,
                              yk_status (*take)(void *context, text name, list *l), void *context)
{
    const uint8_t *end = p + n;
    uint64_t tag;
    text features, entry;
    while (p < end) {
        if (!(p = yk__wire_field(p, end, &tag, &features.p, &features.n)))
            return malformed();
        for (const uint8_t *q = features.p; tag == YK__TAG(1, YK__LEN) && q < features.p + features.n;) {
            uint64_t inner;
            if (!(q = yk__wire_field(q, features.p + features.n, &inner, &entry.p, &entry.n)))
                return malformed();
            if (inner != YK__TAG(1, YK__LEN))
                continue;
            text name = {0};
            list l = {0};
            yk_status st = read_entry(entry, &name, &l);
            if (st)
                free(l.copy);
            if (st || (st = take(context, name, &l)))
                return st;
        }
    }
    return YK_OK;
}

/* ---- the features of a row */

typedef struct {
    text name[OTHER]; /* strings: they end with a zero byte */
    list list[OTHER];
} layout;

/* Which feature has this name. */
static inline int name_of(const text names[OTHER], text t)
{
    for (int i = 0; i < OTHER; i++) {
        size_t k = 0;
        while (k < t.n && names[i].n == t.n && names[i].p[k] == t.p[k])
            k++;
        if (k == t.n && names[i].n == t.n)
            return i;
    }
    return OTHER;
}

/* The values of the last entry of a name are checked when they are stored, those of all other entries now. */
static yk_status match_entry(void *context, text name, list *found)
{
    layout *l = context;
    const int i = name_of(l->name, name);
    list other = *found;
    if (i != OTHER) {
        other = l->list[i];
        l->list[i] = *found;
    }
    return forget(&other);
}

static yk_status missing(const layout *l, int name)
{
    return yk_fail(YK_EDATA, "the feature '%s' is missing; add ?%s=NAME if it has another name",
                   (const char *)l->name[name].p, default_names[name]);
}

static yk_status wrong_kind(const layout *l, int name, const char *kind)
{
    return yk_fail(YK_EDATA, "the feature '%s' is not a list of %s", (const char *)l->name[name].p, kind);
}

static yk_status read_label(const layout *l, int32_t *out)
{
    const list *v = &l->list[LABEL];
    size_t count;
    int64_t label;
    if (!v->kind)
        return missing(l, LABEL);
    if (v->kind != INTS)
        return wrong_kind(l, LABEL, "int64");
    if (!scan_ints(v->packed, &count, &label))
        return malformed();
    if (count != 1)
        return yk_fail(YK_EDATA, "the feature '%s' has %zu values, not one", (const char *)l->name[LABEL].p,
                       count);
    if (label < -1 || label > 65535)
        return yk_fail(YK_EDATA, "the label %lld is neither -1 nor a class number from 0 to 65535",
                       (long long)label);
    *out = label < 0 ? 0 : (int32_t)label;
    return YK_OK;
}

static size_t count_of(const list *l)
{
    if (l->kind == FLOATS)
        return l->packed.n / 4;
    size_t count = 0;
    for (size_t i = 0; i < l->packed.n; i++)
        count += l->packed.p[i] < 0x80;
    return count;
}

/* what: "value" or "field" */
static yk_status count_mismatch(size_t indices, size_t count, const char *what)
{
    return yk_fail(YK_EDATA, "%zu %s but %zu %s%s", indices, indices == 1 ? "index" : "indices", count, what,
                   yk_plural(count));
}

/* The error for the first index that is not below the limit. */
static yk_status outside(text t, uint64_t limit, uint64_t features)
{
    uint64_t v = 0;
    for (const uint8_t *p = t.p; v < limit;)
        p = yk__wire_varint(p, t.p + t.n, &v);
    const int64_t index = (int64_t)v;
    if (index < 0)
        return yk_fail(YK_EDATA, "the index %lld is negative; use --hash-bits B to hash indices",
                       (long long)index);
    if (features && features <= YK_EXAMPLE_INDICES)
        return yk_fail(
            YK_EDATA,
            "index %lld is out of range for %llu features (largest %llu); use --hash-bits B to hash indices",
            (long long)index, (unsigned long long)features, (unsigned long long)features - 1);
    return yk_fail(
        YK_EDATA,
        "index %lld is too large (largest %llu); use --hash-bits B to hash indices into 2^B features",
        (long long)index, (unsigned long long)YK_EXAMPLE_INDICES - 1);
}

static yk_status read_index(text t, yk_key_space keys, uint32_t *out, size_t max)
{
    const uint64_t features = keys.features;
    uint64_t limit = features && features < YK_EXAMPLE_INDICES ? features : YK_EXAMPLE_INDICES;
    size_t count = 0;
    switch (keys.hash ? decode_varints(t.p, t.n, true, limit, out, max, &count)
                      : decode_varints(t.p, t.n, false, limit, out, max, &count)) {
    case INDICES_OK:
        return count == max ? YK_OK : count_mismatch(count, max, "value");
    case INDICES_TOO_MANY:
        return count_mismatch(count_of(&(list){.kind = INTS, .packed = t}), max, "value");
    case INDICES_OUTSIDE:
        return outside(t, limit, features);
    default:
        return malformed();
    }
}

static yk_status read_value(text t, float *out, size_t n)
{
    if (n)
        memcpy(out, t.p, t.n);
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

static yk_status read_field(const layout *l, uint32_t limit, uint16_t *out, size_t n)
{
    const list *v = &l->list[FIELD];
    const uint8_t *p = v->packed.p, *const end = p + v->packed.n;
    const size_t count = count_of(v);
    if (v->kind != INTS)
        return wrong_kind(l, FIELD, "int64");
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

static layout name_features(const yk_example_names *names)
{
    static const yk_example_names none = {0};
    names = names ? names : &none;
    const char *const given[OTHER] = {names->label, names->index, names->value, names->field};
    layout l = {0};
    for (int i = 0; i < OTHER; i++) {
        const char *name = given[i] || i == FIELD ? given[i] : default_names[i];
        l.name[i] =
            (text){(const uint8_t *)name, name ? strlen(name) : SIZE_MAX}; /* SIZE_MAX: matches nothing */
    }
    return l;
}

static yk_status decode_row(const layout *l, yk_key_space keys, const yk_example_names *names, yk_rows *rows)
{
    int32_t label = 0;
    const bool none = !l->list[LABEL].kind && names && names->unlabeled;
    yk_status st = none ? YK_OK : read_label(l, &label);
    if (st)
        return st;
    const list *index = &l->list[INDEX], *value = &l->list[VALUE];
    if (!index->kind)
        return missing(l, INDEX);
    if (index->kind != INTS)
        return wrong_kind(l, INDEX, "int64");
    if (value->kind && value->kind != FLOATS)
        return wrong_kind(l, VALUE, "float");
    if (names && names->field_needed && !l->list[FIELD].kind)
        return missing(l, FIELD);
    size_t max = count_of(value->kind ? value : index);
    if (names && names->value && !value->kind && max)
        return missing(l, VALUE);
    uint32_t *to_index;
    float *to_value;
    uint16_t *to_field;
    if ((st = yk_rows_sparse(rows, max, &to_index, &to_value)) ||
        (st = read_index(index->packed, keys, to_index, max)) ||
        (value->kind && (st = read_value(value->packed, to_value, max))))
        return st;
    if (l->list[FIELD].kind &&
        ((st = yk_rows_fields(rows, max, &to_field)) ||
         (st = read_field(l, names->nfields ? names->nfields : UINT16_MAX + 1, to_field, max))))
        return st;
    return yk_rows_commit(rows, max, label);
}

yk_status yk_example_decode(const uint8_t *p, size_t n, yk_key_space keys, const yk_example_names *names,
                            yk_rows *rows)
{
    layout l = name_features(names);
    yk_status st = read_example(p, n, match_entry, &l);
    st = st ? st : decode_row(&l, keys, names, rows);
    for (int i = 0; i < OTHER; i++)
        free(l.list[i].copy);
    return st;
}

/* ---- any features, by name */

typedef struct {
    yk_feature *feature;
    size_t n;
} wanted;

static yk_status find_entry(void *context, text name, list *l)
{
    const wanted *w = context;
    yk_feature found = {.kind = (yk_feature_kind)l->kind, .count = l->count};
    bool ok = true;
    if (l->kind == INTS) {
        ok = scan_ints(l->packed, &found.count, &found.number);
    } else if (l->kind == FLOATS) {
        found.count = l->packed.n / 4;
        memcpy(&found.real, l->packed.p, found.count ? sizeof found.real : 0);
    } else {
        found.bytes = l->packed.p;
        found.size = l->packed.n;
    }
    free(l->copy);
    for (size_t i = 0; i < w->n; i++) {
        yk_feature *f = &w->feature[i];
        found.name = f->name;
        if (strlen(f->name) == name.n && !memcmp(f->name, name.p, name.n))
            *f = found;
    }
    return ok ? YK_OK : malformed();
}

yk_status yk_example_find(const uint8_t *p, size_t n, yk_feature *features, size_t nfeatures)
{
    for (size_t i = 0; i < nfeatures; i++)
        features[i] = (yk_feature){.name = features[i].name};
    return read_example(p, n, find_entry, &(wanted){features, nfeatures});
}
