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

/* The bytes of a LEN field, after its tag. */
static inline const uint8_t *yk__wire_span(const uint8_t *p, const uint8_t *end, const uint8_t **span,
                                           size_t *n)
{
    uint64_t length;
    if (p < end && *p < 0x80)
        length = *p++;
    else if (!(p = yk__wire_varint(p, end, &length)))
        return NULL;
    if (length > (size_t)(end - p))
        return NULL;
    *span = p;
    *n = (size_t)length;
    return p + length;
}

static inline const uint8_t *yk__wire_tag(const uint8_t *p, const uint8_t *end, uint64_t *tag)
{
    if (p < end && *p < 0x80) { /* of the fields 1 to 15 */
        *tag = *p++;
        return *tag >> 3 ? p : NULL;
    }
    if (!(p = yk__wire_varint(p, end, tag)))
        return NULL;
    return *tag > UINT32_MAX || *tag >> 3 == 0 ? NULL : p;
}

/* Groups (wire types 3 and 4) are deprecated, and treated as malformed. */
static inline const uint8_t *yk__wire_skip(const uint8_t *p, const uint8_t *end, uint64_t tag)
{
    uint64_t v;
    const uint8_t *span;
    size_t n;
    switch (tag & 7) {
    case YK__VARINT:
        return yk__wire_varint(p, end, &v);
    case YK__LEN:
        return yk__wire_span(p, end, &span, &n);
    case YK__FIXED64:
        return end - p >= 8 ? p + 8 : NULL;
    case YK__FIXED32:
        return end - p >= 4 ? p + 4 : NULL;
    default:
        return NULL;
    }
}

/* A whole field: its tag, and the bytes of a LEN field. Values of other wire types are skipped, and *n is 0. */
static inline const uint8_t *yk__wire_field(const uint8_t *p, const uint8_t *end, uint64_t *tag,
                                            const uint8_t **span, size_t *n)
{
    *span = p;
    *n = 0;
    if (!(p = yk__wire_tag(p, end, tag)))
        return NULL;
    return (*tag & 7) == YK__LEN ? yk__wire_span(p, end, span, n) : yk__wire_skip(p, end, *tag);
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
