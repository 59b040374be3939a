#include "format/example.h"

#include "base/rng.h"
#include "format/wire.h"
#include <string.h>

enum { BYTES = YK_FEATURE_BYTES, FLOATS = YK_FEATURE_FLOATS, INTS = YK_FEATURE_INTS }; /* fields of Feature */
enum { LABEL, INDEX, VALUE, OTHER };                                                   /* features by name */

static uint64_t load64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* ---- the general decoder of one map entry: every encoding that protobuf allows. It runs once to check and count, and for an
 * entry that is not in canonical form again to store. */

typedef struct {
    int kind; /* BYTES, FLOATS, INTS; 0: the Feature is empty */
    size_t count;
    int64_t last;         /* of INTS */
    const uint8_t *bytes; /* the last one of BYTES, [size] */
    size_t size;
    bool outside;          /* an index was not below `limit` */
    int64_t first_outside; /* the first such index */
    uint64_t limit;        /* of indices; 0: none */
    uint64_t hash;         /* hashes indices to ids below it; 0: no hashing */
    uint32_t *index;       /* where to store, or NULL */
    float *value;
    size_t cap; /* of index and value: a list that is later replaced by one of another kind may be longer */
} sink;

static void take_int(sink *s, uint64_t v)
{
    s->last = (int64_t)v;
    if (s->limit && v >= s->limit && !s->outside) {
        s->outside = true;
        s->first_outside = (int64_t)v;
    }
    if (s->index && s->count < s->cap)
        s->index[s->count] = s->hash ? yk_key_id(yk_mix64(v), s->hash) : (uint32_t)v;
    s->count++;
}

static void take_float(sink *s, const uint8_t *p)
{
    if (s->value && s->count < s->cap)
        memcpy(s->value + s->count, p, sizeof(float));
    s->count++;
}

static bool walk_packed(sink *s, const uint8_t *p, size_t n)
{
    const uint8_t *end = p + n;
    if (s->kind == FLOATS) {
        for (; end - p >= 4; p += 4)
            take_float(s, p);
        return p == end;
    }
    while (p < end) {
        uint64_t v;
        if (!(p = yk__wire_varint(p, end, &v)))
            return false;
        take_int(s, v);
    }
    return true;
}

/* One field of a list: a value of any wire type, or an unknown field, which is skipped. */
static const uint8_t *walk_value(sink *s, const uint8_t *p, const uint8_t *end, uint64_t tag)
{
    const uint8_t *span;
    size_t size;
    uint64_t v;
    if (tag == YK__TAG(1, YK__LEN)) {
        if (!(p = yk__wire_span(p, end, &span, &size)))
            return NULL;
        if (s->kind != BYTES)
            return walk_packed(s, span, size) ? p : NULL;
        s->bytes = span;
        s->size = size;
        s->count++;
        return p;
    }
    if (tag == YK__TAG(1, YK__VARINT) && s->kind == INTS) {
        if ((p = yk__wire_varint(p, end, &v)))
            take_int(s, v);
        return p;
    }
    if (tag == YK__TAG(1, YK__FIXED32) && s->kind == FLOATS && end - p >= 4)
        take_float(s, p);
    return yk__wire_skip(p, end, tag);
}

static bool walk_list(sink *s, const uint8_t *p, size_t n)
{
    const uint8_t *end = p + n;
    while (p < end) {
        uint64_t tag;
        if (!(p = yk__wire_tag(p, end, &tag)) || !(p = walk_value(s, p, end, tag)))
            return false;
    }
    return true;
}

static bool walk_feature(sink *s, const uint8_t *p, size_t n)
{
    const uint8_t *end = p + n, *span;
    while (p < end) {
        uint64_t tag;
        size_t size;
        if (!(p = yk__wire_field(p, end, &tag, &span, &size)))
            return false;
        if ((tag & 7) != YK__LEN || tag > YK__TAG(INTS, YK__LEN))
            continue;
        int kind = (int)(tag >> 3);
        if (s->kind != kind) /* a oneof: another kind replaces the list, the same kind extends it */
            s->count = 0, s->outside = false, s->bytes = NULL, s->size = 0, s->last = 0;
        s->kind = kind;
        if (!walk_list(s, span, size))
            return false;
    }
    return true;
}

typedef struct {
    const uint8_t *p;
    size_t n;
} text;

static int name_of(text t)
{
    if (t.n != 5)
        return OTHER;
    return !memcmp(t.p, "index", 5)   ? INDEX
           : !memcmp(t.p, "value", 5) ? VALUE
           : !memcmp(t.p, "label", 5) ? LABEL
                                      : OTHER;
}

/* A map entry: the name may come after the value. */
static bool walk_entry(sink *s, const uint8_t *p, size_t n, text *name_out)
{
    const uint8_t *end = p + n;
    text span;
    *name_out = (text){p, 0};
    while (p < end) {
        uint64_t tag;
        if (!(p = yk__wire_field(p, end, &tag, &span.p, &span.n)))
            return false;
        if (tag == YK__TAG(1, YK__LEN))
            *name_out = span;
        else if (tag == YK__TAG(2, YK__LEN) && !walk_feature(s, span.p, span.n))
            return false;
    }
    return true;
}

/* Calls `take` for every entry of an Example. */
static bool walk_example(const uint8_t *p, size_t n, bool (*take)(void *context, const uint8_t *p, size_t n),
                         void *context)
{
    const uint8_t *end = p + n, *features, *entry;
    uint64_t tag;
    size_t size;
    while (p < end) {
        if (!(p = yk__wire_field(p, end, &tag, &features, &size)))
            return false;
        for (const uint8_t *q = features; tag == YK__TAG(1, YK__LEN) && q < features + size;) {
            uint64_t inner;
            size_t length;
            if (!(q = yk__wire_field(q, features + size, &inner, &entry, &length)) ||
                (inner == YK__TAG(1, YK__LEN) && !take(context, entry, length)))
                return false;
        }
    }
    return true;
}

/* ---- the canonical form, which all common writers produce: key, Feature, one packed list. Only spans are recorded. */

typedef struct {
    int kind;       /* 0: no such feature */
    bool canonical; /* p, n are the packed values */
    const uint8_t *p;
    size_t n;
    const uint8_t *entry;
    size_t entry_n;
    size_t count; /* if not canonical */
    int64_t last;
} slot;

/* The YK__LEN field with this tag, if it fills all of p..end. */
static bool only_field(const uint8_t *p, const uint8_t *end, unsigned tag, const uint8_t **span, size_t *n)
{
    return p < end && *p == tag && yk__wire_span(p + 1, end, span, n) == end;
}

static bool canonical_entry(const uint8_t *p, size_t n, slot *out, int *name_out)
{
    const uint8_t *end = p + n, *span;
    size_t size;
    if (n < 7 || p[0] != YK__TAG(1, YK__LEN) || p[1] != 5)
        return false;
    *name_out = name_of((text){p + 2, 5});
    if (*name_out == OTHER || !only_field(p + 7, end, YK__TAG(2, YK__LEN), &span, &size) || size == 0)
        return false;
    out->kind = *span >> 3;
    if ((out->kind != INTS && out->kind != FLOATS) || !only_field(span, end, *span, &span, &size))
        return false;
    return only_field(span, end, YK__TAG(1, YK__LEN), &out->p, &out->n) &&
           (out->kind == INTS || out->n % 4 == 0);
}

static yk_status malformed(void)
{
    return yk_fail(YK_EDATA, "not a well-formed tf.train.Example");
}

static bool take_entry(void *context, const uint8_t *p, size_t n)
{
    slot *slots = context, found = {.canonical = true, .entry = p, .entry_n = n};
    int name;
    text word;
    if (!canonical_entry(p, n, &found, &name)) {
        sink s = {0};
        if (!walk_entry(&s, p, n, &word))
            return false;
        found.canonical = false;
        found.kind = s.kind;
        found.count = s.count;
        found.last = s.last;
        if ((name = name_of(word)) == OTHER)
            return true;
    }
    /* The values of a canonical entry are checked when they are stored. Those of an entry that is replaced are checked now. */
    sink check = {0};
    if (slots[name].canonical && !walk_entry(&check, slots[name].entry, slots[name].entry_n, &word))
        return false;
    slots[name] = found;
    return true;
}

/* ---- packed varints, fast. The ends of the varints in 64 bytes become a 64-bit mask. Then each varint is loaded as a whole
 * and compacted without a branch, independently of the one before it. */

static uint64_t ends_of(const uint8_t *p, size_t n)
{
    uint64_t bits = 0;
    for (unsigned k = 0; k < 64 && k < n; k += 8) {
        uint64_t tops = (~load64(p + k) & 0x8080808080808080u) >> 7;
        bits |= (tops * 0x0102040810204080u >> 56) << k;
    }
    return n < 64 ? bits & (((uint64_t)1 << n) - 1) : bits;
}

static inline uint64_t compact_varint(uint64_t w)
{
    w = (w & 0x007f007f007f007fu) | (w >> 1 & 0x3f803f803f803f80u);
    w = (w & 0x00003fff00003fffu) | (w >> 2 & 0x0fffc0000fffc000u);
    return (w & 0x0fffffffu) | (w >> 4 & 0x00fffffff0000000u);
}

typedef enum { DECODED, MALFORMED, TOO_MANY, OUTSIDE } decoded;

/* Stores at most `most` indices: all of them below `limit` <= 2^31, or any key hashed to an id below it. */
static inline __attribute__((always_inline)) decoded decode_packed(const uint8_t *p, size_t n, bool hash,
                                                                   uint64_t limit, uint32_t *out, size_t most,
                                                                   size_t *n_out)
{
    static const uint64_t keep[6] = {0, 0x7f, 0x7f7f, 0x7f7f7f, 0x7f7f7f7f, 0x7f7f7f7f7f};
    const uint8_t *end = p + n, *start = p;
    uint64_t largest = 0, v;
    size_t count = 0;
    for (size_t at = 0; at < n; at += 64) {
        uint64_t bits = ends_of(p + at, n - at);
        if ((size_t)__builtin_popcountll(bits) > most - count)
            return TOO_MANY;
        for (; bits; bits &= bits - 1) {
            const uint8_t *last = p + at + __builtin_ctzll(bits);
            size_t length = (size_t)(last - start) + 1;
            if (__builtin_expect(length <= 5, 1))
                v = compact_varint(load64(start) & keep[length]);
            else if (!yk__wire_varint(start, last + 1, &v))
                return MALFORMED;
            largest = v > largest ? v : largest;
            out[count++] = hash ? yk_key_id(yk_mix64(v), limit) : (uint32_t)v;
            start = last + 1;
        }
    }
    *n_out = count;
    return start != end ? MALFORMED : !hash && largest >= limit ? OUTSIDE : DECODED;
}

/* ---- the three features */

static yk_status read_label(const slot *s, int32_t *out)
{
    sink got = {.count = s->count, .last = s->last};
    if (!s->kind)
        return yk_fail(YK_EDATA, "the feature 'label' is missing");
    if (s->kind != INTS)
        return yk_fail(YK_EDATA, "the feature 'label' is not a list of int64");
    if (s->canonical) {
        got.kind = INTS;
        if (!walk_packed(&got, s->p, s->n))
            return malformed();
    }
    if (got.count != 1)
        return yk_fail(YK_EDATA, "the feature 'label' has %zu values, not one", got.count);
    if (got.last < -1 || got.last > 65535)
        return yk_fail(YK_EDATA, "the label %lld is neither -1 nor a class number from 0 to 65535",
                       (long long)got.last);
    *out = got.last < 0 ? 0 : (int32_t)got.last;
    return YK_OK;
}

static size_t count_of(const slot *s)
{
    if (!s->canonical)
        return s->count;
    if (s->kind == FLOATS)
        return s->n / 4;
    size_t count = 0;
    for (size_t i = 0; i < s->n; i++)
        count += s->p[i] < 0x80;
    return count;
}

static yk_status count_mismatch(size_t indices, size_t values)
{
    return yk_fail(YK_EDATA, "%zu indices but %zu values", indices, values);
}

static yk_status outside(int64_t index, uint64_t features)
{
    if (index < 0)
        return yk_fail(YK_EDATA, "the index %lld is negative; use --hash-bits B to hash indices",
                       (long long)index);
    if (features && features <= YK_EXAMPLE_INDICES)
        return yk_fail(
            YK_EDATA,
            "index %lld does not fit %llu features (largest %llu); use --hash-bits B to hash indices",
            (long long)index, (unsigned long long)features, (unsigned long long)features - 1);
    return yk_fail(
        YK_EDATA,
        "index %lld is too large (largest %llu); use --hash-bits B to hash indices into 2^B features",
        (long long)index, (unsigned long long)YK_EXAMPLE_INDICES - 1);
}

static yk_status read_index(const slot *s, yk_key_space keys, uint32_t *out, size_t most)
{
    const uint64_t features = keys.features;
    uint64_t limit = features && features < YK_EXAMPLE_INDICES ? features : YK_EXAMPLE_INDICES;
    size_t count = 0;
    if (s->canonical) {
        switch (keys.hash ? decode_packed(s->p, s->n, true, limit, out, most, &count)
                          : decode_packed(s->p, s->n, false, limit, out, most, &count)) {
        case DECODED:
            return count == most ? YK_OK : count_mismatch(count, most);
        case MALFORMED:
            return malformed();
        case TOO_MANY:
            return count_mismatch(count_of(s), most);
        case OUTSIDE:
            break;
        }
    } else if (s->count != most) {
        return count_mismatch(s->count, most);
    }
    sink got = {.limit = keys.hash ? 0 : limit, .hash = keys.hash ? limit : 0, .index = out, .cap = most};
    text name;
    walk_entry(&got, s->entry, s->entry_n, &name);
    return got.outside ? outside(got.first_outside, features) : YK_OK;
}

static yk_status read_value(const slot *s, float *out, size_t n)
{
    if (s->canonical) {
        if (n)
            memcpy(out, s->p, s->n);
    } else {
        sink got = {.value = out, .cap = n};
        text name;
        walk_entry(&got, s->entry, s->entry_n, &name);
    }
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

yk_status yk_example_decode(const uint8_t *p, size_t n, yk_key_space keys, yk_rows *rows)
{
    slot slots[3] = {{0}};
    if (!walk_example(p, n, take_entry, slots))
        return malformed();
    int32_t label = 0;
    yk_status st = read_label(&slots[LABEL], &label);
    if (st)
        return st;
    const slot *index = &slots[INDEX], *value = &slots[VALUE];
    if (!index->kind)
        return yk_fail(YK_EDATA, "the feature 'index' is missing");
    if (index->kind != INTS)
        return yk_fail(YK_EDATA, "the feature 'index' is not a list of int64");
    if (value->kind && value->kind != FLOATS)
        return yk_fail(YK_EDATA, "the feature 'value' is not a list of float");
    size_t most = count_of(value->kind ? value : index);
    uint32_t *to_index;
    float *to_value;
    if ((st = yk_rows_sparse(rows, most, &to_index, &to_value)) ||
        (st = read_index(index, keys, to_index, most)) ||
        (value->kind && (st = read_value(value, to_value, most))))
        return st;
    return yk_rows_commit(rows, most, label);
}

/* ---- any features, by name */

typedef struct {
    yk_feature *feature;
    size_t n;
} wanted;

static bool find_entry(void *context, const uint8_t *p, size_t n)
{
    const wanted *w = context;
    sink s = {0};
    text name;
    if (!walk_entry(&s, p, n, &name))
        return false;
    for (size_t i = 0; i < w->n; i++) {
        yk_feature *f = &w->feature[i];
        if (strlen(f->name) == name.n && !memcmp(f->name, name.p, name.n))
            *f = (yk_feature){f->name, (yk_feature_kind)s.kind, s.count, s.bytes, s.size, s.last};
    }
    return true;
}

yk_status yk_example_find(const uint8_t *p, size_t n, yk_feature *features, size_t nfeatures)
{
    for (size_t i = 0; i < nfeatures; i++)
        features[i] = (yk_feature){.name = features[i].name};
    return walk_example(p, n, find_entry, &(wanted){features, nfeatures}) ? YK_OK : malformed();
}
