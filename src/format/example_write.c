/* The encoder of example.h: writes the canonical form, in the order index, field, value, label. */
#include "format/example.h"

#include "base/mem.h"
#include "format/wire.h"
#include <string.h>

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
