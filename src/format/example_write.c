/* The encoder of example.h: writes the canonical form, in the order index, field, value, label. */
#include "format/example.h"

#include "base/mem.h"
#include "format/wire.h"
#include <string.h>

static size_t varint_size(uint64_t v)
{
    return v < 0x80 ? 1 : (size_t)(70 - __builtin_clzll(v)) / 7;
}

/* Lengths from the inside out: packed values, list, Feature, map entry. */
typedef struct {
    size_t packed, list, feature, entry;
} lengths;

static size_t field_size(size_t n)
{
    return 1 + varint_size(n) + n;
}

static lengths measure(size_t packed)
{
    lengths l = {.packed = packed};
    l.list = field_size(l.packed);
    l.feature = field_size(l.list);
    l.entry = field_size(5) + field_size(l.feature);
    return l;
}

static uint8_t *put_open(uint8_t *p, unsigned field, size_t n)
{
    *p++ = (uint8_t)YK__TAG(field, YK__LEN);
    return yk__wire_put_varint(p, n);
}

static uint8_t *put_entry(uint8_t *p, const lengths *l, const char *key, unsigned kind)
{
    p = put_open(p, 1, l->entry);
    p = put_open(p, 1, 5);
    memcpy(p, key, 5);
    p = put_open(p + 5, 2, l->feature);
    p = put_open(p, kind, l->list);
    return put_open(p, 1, l->packed);
}

yk_status yk_example_encode(int64_t label, const uint32_t *index, const float *value, const uint16_t *field,
                            size_t n, uint8_t **buffer, size_t *cap, size_t *size_out)
{
    if (n > ((size_t)1 << 31) / 16)
        return yk_fail(YK_EDATA, "a row of %zu entries is too large for a TFRecord", n);
    size_t index_bytes = 0, field_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        index_bytes += varint_size(index[i]);
        field_bytes += field ? varint_size(field[i]) : 0;
    }
    lengths li = measure(index_bytes), lf = measure(field_bytes), lv = measure(4 * n),
            ll = measure(varint_size((uint64_t)label));
    size_t features = field_size(li.entry) + field_size(lv.entry) + field_size(ll.entry);
    features += field ? field_size(lf.entry) : 0;
    *size_out = field_size(features);
    if (YK_RESERVE(*buffer, *cap, *size_out + 8, "an encoded example"))
        return YK_ESYSTEM;
    uint8_t *p = put_open(*buffer, 1, features);
    p = put_entry(p, &li, "index", YK_FEATURE_INTS);
    for (size_t i = 0; i < n; i++)
        p = yk__wire_put_varint(p, index[i]);
    if (field)
        p = put_entry(p, &lf, "field", YK_FEATURE_INTS);
    for (size_t i = 0; field && i < n; i++)
        p = yk__wire_put_varint(p, field[i]);
    p = put_entry(p, &lv, "value", YK_FEATURE_FLOATS);
    for (size_t i = 0; i < n; i++, p += 4) {
        float one = 1.0f;
        memcpy(p, value ? value + i : &one, 4);
    }
    p = put_entry(p, &ll, "label", YK_FEATURE_INTS);
    yk__wire_put_varint(p, (uint64_t)label);
    return YK_OK;
}
