#include "base/sha256.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

enum { BLOCK = 64 };

static const uint32_t first_hash[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
static const uint32_t round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void add_block(uint32_t *h, const unsigned char *block)
{
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    memcpy(s, h, sizeof s);
    for (int i = 0; i < 64; i++) {
        const uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
        const uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        const uint32_t one = s[7] + (rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25)) + choice +
                             round_constant[i] + w[i];
        const uint32_t two = (rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22)) + majority;
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one;
        s[0] = one + two;
    }
    for (int i = 0; i < 8; i++)
        h[i] += s[i];
}

/* The hash of a block and the data that follows it. */
static void hash(const unsigned char first[BLOCK], const void *data, size_t n,
                 unsigned char out[YK_SHA256_BYTES])
{
    const unsigned char *p = data;
    const uint64_t bits = (BLOCK + (uint64_t)n) * 8;
    unsigned char last[2 * BLOCK] = {0}; /* the rest, a bit, zeros, the number of bits */
    uint32_t h[8];
    memcpy(h, first_hash, sizeof h);
    add_block(h, first);
    for (; n >= BLOCK; n -= BLOCK, p += BLOCK)
        add_block(h, p);
    const size_t end = n + 1 + sizeof bits > BLOCK ? 2 * BLOCK : BLOCK;
    memcpy(last, p, n);
    last[n] = 0x80;
    for (size_t i = 0; i < sizeof bits; i++)
        last[end - 1 - i] = (unsigned char)(bits >> 8 * i);
    for (size_t at = 0; at < end; at += BLOCK)
        add_block(h, last + at);
    for (int i = 0; i < YK_SHA256_BYTES; i++)
        out[i] = (unsigned char)(h[i / 4] >> (24 - 8 * (i % 4)));
}

void yk_hmac_sha256(const void *key, size_t key_size, const void *data, size_t n,
                    unsigned char out[YK_SHA256_BYTES])
{
    unsigned char inner[BLOCK] = {0}, outer[BLOCK];
    assert(key_size <= BLOCK);
    memcpy(inner, key, key_size);
    for (int i = 0; i < BLOCK; i++) {
        outer[i] = inner[i] ^ 0x5c;
        inner[i] ^= 0x36;
    }
    hash(inner, data, n, out);
    hash(outer, out, YK_SHA256_BYTES, out);
}

bool yk_equal_secret(const void *a, const void *b, size_t n)
{
    const unsigned char *x = a, *y = b;
    unsigned char differs = 0;
    for (size_t i = 0; i < n; i++)
        differs |= x[i] ^ y[i];
    return !differs;
}
