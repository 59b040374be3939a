/* The protobuf wire format: fields one after the other, each a tag and a value.
 *
 *     | tag = field << 3 | wire type | varint                    type 0
 *     | tag                          | 8 bytes                   type 1
 *     | tag                          | length varint | bytes     type 2
 *     | tag                          | 4 bytes                   type 5
 *
 * Example:
 *     while (p && p < end) {
 *         p = yk__wire_field(p, end, &tag, &span, &n);          // NULL: malformed
 *         if (p && tag == YK__TAG(1, YK__LEN))
 *             use(span, n);                                     // borrowed
 *     }
 *
 * Every function returns a pointer to what follows, or NULL if the input is malformed. Thread-safe.
 */
#ifndef YK_FORMAT_WIRE_H
#define YK_FORMAT_WIRE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { YK__VARINT = 0, YK__FIXED64 = 1, YK__LEN = 2, YK__FIXED32 = 5 }; /* wire types */

#define YK__TAG(field, wire) ((field) << 3 | (wire))

static inline uint32_t yk__load32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t yk__load64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline const uint8_t *yk__wire_varint(const uint8_t *p, const uint8_t *end, uint64_t *out)
{
    uint64_t v = 0;
    if (p < end && *p < 0x80) {
        *out = *p++;
        return p;
    }
    for (unsigned shift = 0; p < end && shift < 64; shift += 7) {
        uint8_t b = *p++;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) {
            *out = v;
            return shift == 63 && b > 1 ? NULL : p; /* the tenth byte holds one bit */
        }
    }
    return NULL;
}

/* A whole field: its tag, and the bytes of its value; of a LEN field, those after the length. Groups (wire types 3 and 4) are
 * deprecated, and treated as malformed. */
static inline const uint8_t *yk__wire_field(const uint8_t *p, const uint8_t *end, uint64_t *tag,
                                            const uint8_t **span, size_t *n)
{
    uint64_t v = 0;
    if (!(p = yk__wire_varint(p, end, tag)) || *tag > UINT32_MAX || *tag >> 3 == 0)
        return NULL;
    const unsigned type = *tag & 7;
    const uint8_t *const value = p;
    if ((type == YK__VARINT || type == YK__LEN) && !(p = yk__wire_varint(p, end, &v)))
        return NULL;
    if (type == YK__VARINT) {
        *span = value;
        *n = (size_t)(p - value);
        return p;
    }
    v = type == YK__FIXED64 ? 8 : type == YK__FIXED32 ? 4 : v;
    if ((type != YK__LEN && type != YK__FIXED64 && type != YK__FIXED32) || v > (size_t)(end - p))
        return NULL;
    *span = p;
    *n = (size_t)v;
    return p + v;
}

/* Writes a varint, at most 10 bytes. */
static inline uint8_t *yk__wire_put_varint(uint8_t *p, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        *p++ = (uint8_t)(v | 0x80);
    *p++ = (uint8_t)v;
    return p;
}

#endif
