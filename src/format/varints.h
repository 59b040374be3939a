/* Internal to format/: fast decoding of packed protobuf varints into indices. The ends of the varints in 64 bytes are marked
 * in a 64-bit mask. Then each varint is loaded as a whole and compacted without branches, independently of the previous one.
 * Stateless.
 */
#ifndef YK_FORMAT_VARINTS_H
#define YK_FORMAT_VARINTS_H

#include "base/rng.h"
#include "core/rows.h"
#include "format/wire.h"
#include <string.h>

static inline uint64_t yk__varint_ends(const uint8_t *p, size_t n)
{
    uint64_t bits = 0;
    for (unsigned k = 0; k < 64 && k < n; k += 8) {
        uint64_t tops = (~yk__load64(p + k) & 0x8080808080808080u) >> 7;
        bits |= (tops * 0x0102040810204080u >> 56) << k;
    }
    return n < 64 ? bits & (((uint64_t)1 << n) - 1) : bits;
}

static inline uint64_t yk__varint_compact(uint64_t w)
{
    w = (w & 0x007f007f007f007fu) | (w >> 1 & 0x3f803f803f803f80u);
    w = (w & 0x00003fff00003fffu) | (w >> 2 & 0x0fffc0000fffc000u);
    return (w & 0x0fffffffu) | (w >> 4 & 0x00fffffff0000000u);
}

typedef enum { YK__VARINTS_OK, YK__VARINTS_MALFORMED, YK__VARINTS_TOO_MANY, YK__VARINTS_OUTSIDE } yk__varints;

/* Stores at most `max` indices: either all are below `limit` <= 2^31, or keys are hashed to ids below it. */
static inline __attribute__((always_inline)) yk__varints yk__varints_decode(const uint8_t *p, size_t n,
                                                                            bool hash, uint64_t limit,
                                                                            uint32_t *out, size_t max,
                                                                            size_t *n_out)
{
    static const uint64_t keep[6] = {0, 0x7f, 0x7f7f, 0x7f7f7f, 0x7f7f7f7f, 0x7f7f7f7f7f};
    const uint8_t *end = p + n, *start = p;
    uint64_t largest = 0, v;
    size_t count = 0;
    for (size_t at = 0; at < n; at += 64) {
        uint64_t bits = yk__varint_ends(p + at, n - at);
        if ((size_t)__builtin_popcountll(bits) > max - count)
            return YK__VARINTS_TOO_MANY;
        for (; bits; bits &= bits - 1) {
            const uint8_t *last = p + at + __builtin_ctzll(bits);
            size_t length = (size_t)(last - start) + 1;
            if (__builtin_expect(length <= 5, 1))
                v = yk__varint_compact(yk__load64(start) & keep[length]);
            else if (!yk__wire_varint(start, last + 1, &v))
                return YK__VARINTS_MALFORMED;
            largest = v > largest ? v : largest;
            out[count++] = hash ? yk_key_id(yk_mix64(v), limit) : (uint32_t)v;
            start = last + 1;
        }
    }
    *n_out = count;
    return start != end                ? YK__VARINTS_MALFORMED
           : !hash && largest >= limit ? YK__VARINTS_OUTSIDE
                                       : YK__VARINTS_OK;
}

#endif
