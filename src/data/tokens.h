/* The bytes that end a name, a value or a namespace in Vowpal Wabbit text: blanks, ':' and '|'. They are found in blocks of 64
 * bytes before the features are parsed: a loop that finds the end of a token before it begins the next one waits for each result.
 *
 *     yk__ends e;
 *     yk__find_ends(&e, line, end);            // e.at[0 .. e.n - 1], up to the end of the line or until there are enough for now
 *
 * *end must be one of these bytes, and the 63 bytes after it must be readable. e.at may include some that are after `end`.
 */
#ifndef YK_DATA_TOKENS_H
#define YK_DATA_TOKENS_H

#include "data/text.h"

enum { YK__ENDS = 256 };

typedef struct {
    const char *at[YK__ENDS + 68]; /* [n] */
    size_t n;
} yk__ends;

/* Bit i: byte i of 64 ends a token. */
static inline uint64_t yk__ends_of_64(const char *p)
{
    uint64_t found = 0;
#ifdef __SSE2__
    typedef uint8_t bytes __attribute__((vector_size(16)));
    typedef char mask __attribute__((vector_size(16)));
    for (int i = 0; i < 4; i++) {
        bytes x;
        memcpy(&x, p + 16 * i, sizeof x);
        const mask hit = (mask)((x <= ' ') | (x == ':') | (x == '|'));
        found |= (uint64_t)(uint32_t)__builtin_ia32_pmovmskb128(hit) << 16 * i;
    }
#else
    for (int i = 0; i < 8; i++) {
        const uint64_t low = YK__BYTES(0x7f);
        uint64_t x;
        memcpy(&x, p + 8 * i, sizeof x);
        const uint64_t colon = x ^ YK__BYTES(':'), bar = x ^ YK__BYTES('|');
        const uint64_t others = (((x & low) + YK__BYTES(0x7f - ' ')) | x) & (((colon & low) + low) | colon) &
                                (((bar & low) + low) | bar);
        found |= ((~others & YK__BYTES(0x80)) >> 7) * 0x0102040810204080u >> 56 << 8 * i;
    }
#endif
    return found;
}

static inline void yk__find_ends(yk__ends *e, const char *p, const char *end)
{
    size_t n = 0;
    for (; p <= end && n < YK__ENDS; p += 64) {
        uint64_t found = yk__ends_of_64(p);
        do { /* four at a time: the end of a loop over single bits is unpredictable */
            for (int i = 0; i < 4; i++, found &= found - 1) {
                e->at[n] = p + __builtin_ctzll(found | (uint64_t)1 << 63);
                n += found != 0;
            }
        } while (found);
    }
    e->n = n;
}

#endif
