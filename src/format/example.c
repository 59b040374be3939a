#include "format/example.h"

#include "format/varints.h"
#include "format/wire.h"
#include <stdlib.h>
#include <string.h>

enum { BYTES = YK_FEATURE_BYTES, FLOATS = YK_FEATURE_FLOATS, INTS = YK_FEATURE_INTS }; /* fields of Feature */
static const char *const default_names[] = {"label", "index", "value", "field"};
enum { LABEL, INDEX, VALUE, FIELD, OTHER }; /* features by name */

/* ---- the general decoder of one map entry: every encoding that protobuf allows. It runs once to check and count, and
 * again to store an entry that is not in canonical form. */

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

static void store_int(sink *s, uint64_t v)
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

static void store_float(sink *s, const uint8_t *p)
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
            store_float(s, p);
        return p == end;
    }
    while (p < end) {
        uint64_t v;
        if (!(p = yk__wire_varint(p, end, &v)))
            return false;
        store_int(s, v);
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
            store_int(s, v);
        return p;
    }
    if (tag == YK__TAG(1, YK__FIXED32) && s->kind == FLOATS && end - p >= 4)
        store_float(s, p);
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

/* A map entry: the name may come after the value. name_out: starts as empty; NULL: not wanted. */
static bool walk_entry(sink *s, const uint8_t *p, size_t n, text *name_out)
{
    const uint8_t *end = p + n;
    text span;
    while (p < end) {
        uint64_t tag;
        if (!(p = yk__wire_field(p, end, &tag, &span.p, &span.n)))
            return false;
        if (tag == YK__TAG(1, YK__LEN) && name_out)
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

typedef struct {
    text name[OTHER]; /* strings: they end with a zero byte */
    slot slot[OTHER];
} layout;

/* The YK__LEN field with this tag, if it fills all of p..end. */
static bool only_field(const uint8_t *p, const uint8_t *end, unsigned tag, const uint8_t **span, size_t *n)
{
    return p < end && *p == tag && yk__wire_span(p + 1, end, span, n) == end;
}

static bool canonical_entry(const layout *l, const uint8_t *p, size_t n, slot *out, int *name_out)
{
    const uint8_t *end = p + n, *span;
    size_t size;
    if (n < 2 || p[0] != YK__TAG(1, YK__LEN) || p[1] > 127 || n < (size_t)p[1] + 2)
        return false;
    *name_out = name_of(l->name, (text){p + 2, p[1]});
    if (*name_out == OTHER || !only_field(p + 2 + p[1], end, YK__TAG(2, YK__LEN), &span, &size) || size == 0)
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

static bool match_entry(void *context, const uint8_t *p, size_t n)
{
    layout *l = context;
    slot *slots = l->slot, found = {.canonical = true, .entry = p, .entry_n = n};
    int name;
    text word = {0};
    if (!canonical_entry(l, p, n, &found, &name)) {
        sink s = {0};
        if (!walk_entry(&s, p, n, &word))
            return false;
        found.canonical = false;
        found.kind = s.kind;
        found.count = s.count;
        found.last = s.last;
        if ((name = name_of(l->name, word)) == OTHER)
            return true;
    }
    /* The values of a canonical entry are checked when they are stored. Those of an entry that is replaced are checked now. */
    sink check = {0};
    if (slots[name].canonical && !walk_entry(&check, slots[name].entry, slots[name].entry_n, NULL))
        return false;
    slots[name] = found;
    return true;
}

/* ---- the features of a row */

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
    const slot *s = &l->slot[LABEL];
    sink got = {.count = s->count, .last = s->last};
    if (!s->kind)
        return missing(l, LABEL);
    if (s->kind != INTS)
        return wrong_kind(l, LABEL, "int64");
    if (s->canonical) {
        got.kind = INTS;
        if (!walk_packed(&got, s->p, s->n))
            return malformed();
    }
    if (got.count != 1)
        return yk_fail(YK_EDATA, "the feature '%s' has %zu values, not one", (const char *)l->name[LABEL].p,
                       got.count);
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

/* what: "value" or "field" */
static yk_status count_mismatch(size_t indices, size_t count, const char *what)
{
    return yk_fail(YK_EDATA, "%zu %s but %zu %s%s", indices, indices == 1 ? "index" : "indices", count, what,
                   yk_plural(count));
}

static yk_status outside(int64_t index, uint64_t features)
{
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

static yk_status read_index(const slot *s, yk_key_space keys, uint32_t *out, size_t max)
{
    const uint64_t features = keys.features;
    uint64_t limit = features && features < YK_EXAMPLE_INDICES ? features : YK_EXAMPLE_INDICES;
    size_t count = 0;
    if (s->canonical) {
        switch (keys.hash ? yk__varints_decode(s->p, s->n, true, limit, out, max, &count)
                          : yk__varints_decode(s->p, s->n, false, limit, out, max, &count)) {
        case YK__VARINTS_OK:
            return count == max ? YK_OK : count_mismatch(count, max, "value");
        case YK__VARINTS_MALFORMED:
            return malformed();
        case YK__VARINTS_TOO_MANY:
            return count_mismatch(count_of(s), max, "value");
        case YK__VARINTS_OUTSIDE:
            break;
        }
    } else if (s->count != max) {
        return count_mismatch(s->count, max, "value");
    }
    sink got = {.limit = keys.hash ? 0 : limit, .hash = keys.hash ? limit : 0, .index = out, .cap = max};
    walk_entry(&got, s->entry, s->entry_n, NULL);
    return got.outside ? outside(got.first_outside, features) : YK_OK;
}

static yk_status read_value(const slot *s, float *out, size_t n)
{
    if (s->canonical) {
        if (n)
            memcpy(out, s->p, s->n);
    } else {
        sink got = {.value = out, .cap = n};
        walk_entry(&got, s->entry, s->entry_n, NULL);
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

/* Field numbers of n entries. They are rare, so this need not be fast. */
static yk_status read_field(const layout *l, uint32_t limit, uint16_t *out, size_t n)
{
    const slot *s = &l->slot[FIELD];
    const size_t count = count_of(s);
    if (s->kind != INTS)
        return wrong_kind(l, FIELD, "int64");
    if (count != n)
        return count_mismatch(n, count, "field");
    uint32_t *wide = malloc(n * sizeof *wide + 1);
    if (!wide)
        return yk_fail_memory(n * sizeof *wide, "fields");
    sink got = {.limit = limit, .index = wide, .cap = n};
    const bool ok = walk_entry(&got, s->entry, s->entry_n, NULL) && got.count == n;
    for (size_t i = 0; ok && i < n; i++)
        out[i] = (uint16_t)wide[i];
    free(wide);
    if (!ok)
        return malformed();
    return got.outside ? yk_fail(YK_EDATA, "field %lld is not in the range 0 to %u",
                                 (long long)got.first_outside, limit - 1)
                       : YK_OK;
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

yk_status yk_example_decode(const uint8_t *p, size_t n, yk_key_space keys, const yk_example_names *names,
                            yk_rows *rows)
{
    layout l = name_features(names);
    if (!walk_example(p, n, match_entry, &l))
        return malformed();
    int32_t label = 0;
    const bool none = !l.slot[LABEL].kind && names && names->unlabeled;
    yk_status st = none ? YK_OK : read_label(&l, &label);
    if (st)
        return st;
    const slot *index = &l.slot[INDEX], *value = &l.slot[VALUE];
    if (!index->kind)
        return missing(&l, INDEX);
    if (index->kind != INTS)
        return wrong_kind(&l, INDEX, "int64");
    if (value->kind && value->kind != FLOATS)
        return wrong_kind(&l, VALUE, "float");
    if (names && names->field_needed && !l.slot[FIELD].kind)
        return missing(&l, FIELD);
    size_t max = count_of(value->kind ? value : index);
    if (names && names->value && !value->kind && max)
        return missing(&l, VALUE);
    uint32_t *to_index;
    float *to_value;
    uint16_t *to_field;
    if ((st = yk_rows_sparse(rows, max, &to_index, &to_value)) ||
        (st = read_index(index, keys, to_index, max)) ||
        (value->kind && (st = read_value(value, to_value, max))))
        return st;
    if (l.slot[FIELD].kind &&
        ((st = yk_rows_fields(rows, max, &to_field)) ||
         (st = read_field(&l, names->nfields ? names->nfields : UINT16_MAX + 1, to_field, max))))
        return st;
    return yk_rows_commit(rows, max, label);
}

/* ---- any features, by name */

typedef struct {
    yk_feature *feature;
    size_t n;
} wanted;

static bool find_entry(void *context, const uint8_t *p, size_t n)
{
    const wanted *w = context;
    float real = 0.0f;
    sink s = {.value = &real, .cap = 1};
    text name = {0};
    if (!walk_entry(&s, p, n, &name))
        return false;
    for (size_t i = 0; i < w->n; i++) {
        yk_feature *f = &w->feature[i];
        if (strlen(f->name) == name.n && !memcmp(f->name, name.p, name.n))
            *f = (yk_feature){f->name, (yk_feature_kind)s.kind, s.count, s.bytes, s.size, s.last, real};
    }
    return true;
}

yk_status yk_example_find(const uint8_t *p, size_t n, yk_feature *features, size_t nfeatures)
{
    for (size_t i = 0; i < nfeatures; i++)
        features[i] = (yk_feature){.name = features[i].name};
    return walk_example(p, n, find_entry, &(wanted){features, nfeatures}) ? YK_OK : malformed();
}
