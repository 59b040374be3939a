/* HMAC-SHA-256 (RFC 2104, FIPS 180-4), for authentication.
 *
 * Example:
 *     unsigned char mac[YK_SHA256_BYTES];
 *     yk_hmac_sha256(key, sizeof key, message, sizeof message, mac);
 *     if (!yk_equal_secret(mac, received, sizeof mac))
 *         printf("the sender does not know the key\n");
 *
 * The messages here are short: this is a plain implementation, without special instructions. Any thread may call these
 * functions.
 */
#ifndef YK_BASE_SHA256_H
#define YK_BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>

enum { YK_SHA256_BYTES = 32 };

/* The key has at most 64 bytes. */
void yk_hmac_sha256(const void *key, size_t key_size, const void *data, size_t n,
                    unsigned char out[YK_SHA256_BYTES]);

/* Compares in a time that does not depend on the contents. */
bool yk_equal_secret(const void *a, const void *b, size_t n);

#endif
