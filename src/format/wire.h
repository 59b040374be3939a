/* Reading the protobuf wire by hand: fields one after the other, each a tag and what the tag says.
 *
 *     | tag = field << 3 | wire type | varint                    type 0
 *     | tag                          | 8 bytes                   type 1
 *     | tag                          | length varint | bytes     type 2
 *     | tag                          | 4 bytes                   type 5
 *
 *     while (p < end) {
 *         if (!(p = yk__wire_field(p, end, &tag, &span, &n)))
 *             return malformed();
 *         if (tag == YK__TAG(1, YK__LEN))
 *             use(span, n);                                     // borrowed
 *     }
 *
 * Every function returns the place behind what it read, NULL where that is malformed. Pure; any thread.
 */
#ifndef YK_FORMAT_WIRE_H
#define YK_FORMAT_WIRE_H

#include <stddef.h>
#include <stdint.h>

enum { YK__VARINT = 0, YK__FIXED64 = 1, YK__LEN = 2, YK__FIXED32 = 5 }; /* wire types */

#define YK__TAG(field, wire) ((field) << 3 | (wire))

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

/* The span of a LEN field whose tag has been read. */
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
    if (!(p = yk__wire_varint(p, end, tag)))
        return NULL;
    return *tag > UINT32_MAX || *tag >> 3 == 0 ? NULL : p;
}

/* Groups (wire types 3 and 4) were given up before Example was invented: they count as malformed. */
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

/* A whole field: its tag, and the span of a LEN field; that of others is empty, their value is passed over. */
static inline const uint8_t *yk__wire_field(const uint8_t *p, const uint8_t *end, uint64_t *tag,
                                            const uint8_t **span, size_t *n)
{
    *span = p;
    *n = 0;
    if (!(p = yk__wire_tag(p, end, tag)))
        return NULL;
    return (*tag & 7) == YK__LEN ? yk__wire_span(p, end, span, n) : yk__wire_skip(p, end, *tag);
}

#endif
