/* CRC-32C (Castagnoli), the checksum of TFRecord files, and its masked form.
 *
 *     yk_crc32c("123456789", 9)        == 0xe3069283
 *     yk_crc32c_masked("123456789", 9) == 0xc78ab0e5
 *
 * A CRC over bytes that hold CRCs themselves is weak, so what is stored is rotated and shifted by a constant:
 * masked = ((crc >> 15) | (crc << 17)) + 0xa282ead8. Any thread may call these.
 */
#ifndef YK_FORMAT_CRC_H
#define YK_FORMAT_CRC_H

#include <stddef.h>
#include <stdint.h>

uint32_t yk_crc32c(const void *p, size_t n);
uint32_t yk_crc32c_masked(const void *p, size_t n);

#endif
