/* CRC-32C (Castagnoli), the checksum of TFRecord files and of the binary cache, and its masked form.
 *
 * Example:
 *     assert(yk_crc32c("123456789", 9) == 0xe3069283);
 *     assert(yk_crc32c_masked("123456789", 9) == 0xc78ab0e5);
 *     assert(~yk_crc32c_add(yk_crc32c_add(~0u, "1234", 4), "56789", 5) == 0xe3069283);
 *
 * A CRC over bytes that contain CRCs is weak, so TFRecord files store a masked form:
 * masked = ((crc >> 15) | (crc << 17)) + 0xa282ead8. Any thread may call these functions.
 */
#ifndef YK_BASE_CRC_H
#define YK_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

uint32_t yk_crc32c(const void *p, size_t n);
uint32_t yk_crc32c_masked(const void *p, size_t n);

/* The same in pieces: begin with ~0u, and invert the result of the last piece. */
uint32_t yk_crc32c_add(uint32_t crc, const void *p, size_t n);

#endif
