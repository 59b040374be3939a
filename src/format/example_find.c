/* Features of a tf.train.Example by name, in every form that the wire allows: packed or one by one, in any order, the
 * last of equal keys wins. Nothing is copied. */
#include "format/example.h"

#include "format/wire.h"
#include <stdbool.h>
#include <string.h>

static bool walk_packed(yk_feature *f, const uint8_t *p, size_t n)
{
    const uint8_t *end = p + n;
    if (f->kind == YK_FEATURE_FLOATS) {
        f->count += n / 4;
        return n % 4 == 0;
    }
    while (p < end) {
        uint64_t v;
        if (!(p = yk__wire_varint(p, end, &v)))
            return false;
        f->number = (int64_t)v;
        f->count++;
    }
    return true;
}

/* One field `value` of a list, of whichever wire type; what does not belong there is passed over. */
static const uint8_t *walk_value(yk_feature *f, const uint8_t *p, const uint8_t *end, uint64_t tag)
{
    const uint8_t *span;
    size_t size;
    uint64_t v;
    if (tag == YK__TAG(1, YK__LEN)) {
        if (!(p = yk__wire_span(p, end, &span, &size)))
            return NULL;
        if (f->kind != YK_FEATURE_BYTES)
            return walk_packed(f, span, size) ? p : NULL;
        f->bytes = span;
        f->size = size;
        f->count++;
        return p;
    }
    if (tag == YK__TAG(1, YK__VARINT) && f->kind == YK_FEATURE_INTS) {
        if (!(p = yk__wire_varint(p, end, &v)))
            return NULL;
        f->number = (int64_t)v;
        f->count++;
        return p;
    }
    f->count += tag == YK__TAG(1, YK__FIXED32) && f->kind == YK_FEATURE_FLOATS;
    return yk__wire_skip(p, end, tag);
}

static bool walk_list(yk_feature *f, const uint8_t *p, size_t n)
{
    const uint8_t *end = p + n;
    while (p < end) {
        uint64_t tag;
        if (!(p = yk__wire_tag(p, end, &tag)) || !(p = walk_value(f, p, end, tag)))
            return false;
    }
    return true;
}

static bool walk_feature(yk_feature *f, const uint8_t *p, size_t n)
{
    const uint8_t *end = p + n, *span;
    while (p < end) {
        uint64_t tag;
        size_t size;
        if (!(p = yk__wire_field(p, end, &tag, &span, &size)))
            return false;
        if ((tag & 7) != YK__LEN || tag > YK__TAG(YK_FEATURE_INTS, YK__LEN))
            continue;
        yk_feature_kind kind = (yk_feature_kind)(tag >> 3);
        if (f->kind != kind) /* one of three: another kind replaces, the same kind goes on */
            *f = (yk_feature){.name = f->name, .kind = kind};
        if (!walk_list(f, span, size))
            return false;
    }
    return true;
}

/* A map entry: which feature it is may stand behind its value. */
static bool walk_entry(yk_feature *features, size_t nfeatures, const uint8_t *p, size_t n)
{
    const uint8_t *end = p + n, *span, *name = p;
    size_t size, name_size = 0;
    yk_feature found = {0};
    while (p < end) {
        uint64_t tag;
        if (!(p = yk__wire_field(p, end, &tag, &span, &size)))
            return false;
        if (tag == YK__TAG(1, YK__LEN))
            name = span, name_size = size;
        else if (tag == YK__TAG(2, YK__LEN) && !walk_feature(&found, span, size))
            return false;
    }
    for (size_t i = 0; i < nfeatures; i++)
        if (strlen(features[i].name) == name_size && !memcmp(features[i].name, name, name_size)) {
            found.name = features[i].name;
            features[i] = found;
        }
    return true;
}

static bool walk_features(yk_feature *features, size_t nfeatures, const uint8_t *p, size_t n)
{
    const uint8_t *end = p + n, *span;
    while (p < end) {
        uint64_t tag;
        size_t size;
        if (!(p = yk__wire_field(p, end, &tag, &span, &size)) ||
            (tag == YK__TAG(1, YK__LEN) && !walk_entry(features, nfeatures, span, size)))
            return false;
    }
    return true;
}

yk_status yk_example_find(const uint8_t *p, size_t n, yk_feature *features, size_t nfeatures)
{
    const uint8_t *end = p + n, *span;
    for (size_t i = 0; i < nfeatures; i++)
        features[i] = (yk_feature){.name = features[i].name};
    while (p < end) {
        uint64_t tag;
        size_t size;
        if (!(p = yk__wire_field(p, end, &tag, &span, &size)) ||
            (tag == YK__TAG(1, YK__LEN) && !walk_features(features, nfeatures, span, size)))
            return yk_fail(YK_EDATA, "this is no well-formed tf.train.Example");
    }
    return YK_OK;
}
