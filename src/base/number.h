/* Numbers in text: options, files that people edit, environment variables.
 *
 *     int64_t batch;
 *     if ((st = yk_number_whole("100k", 1, 1 << 24, &batch)))
 *         return yk_fail(st, "--batch %s: %s", text, yk_error());    // "--batch 1x: not a whole number"
 *
 *     const char *rest = yk_digits("5x3", 64, &height);              // "x3"
 *
 * Only decimal numbers count: no blanks in front, no hexadecimal numbers, no "inf" and no "nan".
 * Any thread may call these. The readers of large text files (data/libsvm.c, data/criteo.c, report/line.c) have their own
 * loops, because they read millions of numbers that do not end with a zero byte.
 */
#ifndef YK_BASE_NUMBER_H
#define YK_BASE_NUMBER_H

#include "base/status.h"
#include <stdint.h>

/* The number that the text begins with. Returns what follows it; NULL: there is none, or it is larger than `most` (not
 * finite). *out changes only if there is one. */
const char *yk_digits(const char *text, uint64_t most, uint64_t *out);
const char *yk_decimal(const char *text, double *out);

/* The whole text is a number from `least` to `most`, also as 1e6, 100k or 2m. Else YK_EUSAGE: "not a whole number" or "must be
 * between 1 and 64"; the caller adds what the number is for. *out changes only if all is well. */
yk_status yk_number_real(const char *text, double least, double most, double *out);
yk_status yk_number_whole(const char *text, double least, double most, int64_t *out); /* within 2^53 */
yk_status yk_number_u64(const char *text, uint64_t least, uint64_t most, uint64_t *out);

/* What an environment variable says; `otherwise` where it is not set or not a number. */
double yk_env_number(const char *name, double otherwise);

#endif
