/* Numbers in text: options, files that people edit, environment variables, /proc and cgroup files.
 *
 * Example:
 *     int64_t batch;
 *     yk_status st = yk_number_int(text, 1, 1 << 24, &batch); // "100k": 100000
 *     if (st)
 *         return yk_fail(st, "--batch %s: %s", text, yk_error()); // "--batch 1x: not a whole number"
 *     uint64_t height;
 *     const char *rest = yk_digits("5x3", 64, &height); // height 5, rest "x3"
 *
 * Only decimal numbers are accepted: no leading blanks, no hexadecimal numbers, no "inf" and no "nan". Any thread may
 * call these.
 *
 * No other file parses numbers (tools/layers checks this), with two exceptions for speed: data/libsvm.c parses an index
 * together with the ':' after it, and data/criteo.c, data/csv.c and data/vw.c parse up to seven digits without branches.
 */
#ifndef YK_BASE_NUMBER_H
#define YK_BASE_NUMBER_H

#include "base/status.h"

/* Reads the number at the start of the text. Returns the text after it; NULL: there is no number, or it is larger than
 * `max` or not finite. *out changes only on success. */
const char *yk_digits(const char *text, uint64_t max, uint64_t *out);
const char *yk_decimal(const char *text, double *out);

/* yk_digits() for a number after a prefix: "step-20". NULL also if the text does not begin with the prefix. */
const char *yk_digits_after(const char *prefix, const char *text, uint64_t max, uint64_t *out);

/* For lines of words with blanks between them, as in /proc and in cgroup files. yk_word() returns the text that begins with word
 * `n`, counted from 0. yk_word_digits() reads the whole number at the start of that word and returns the text after the number.
 * NULL: the line has fewer words, there is no number, or `line` is NULL. */
const char *yk_word(const char *line, int n);
const char *yk_word_digits(const char *line, int n, uint64_t *out);

/* yk_decimal() for a string that ends at `end`, which need not be readable. Fast: for files with millions of numbers. A number
 * that is too large for a double is infinite. */
const char *yk_decimal_before(const char *text, const char *end, double *out);

/* Parses a string that must be one number from `min` to `max`; 1e6, 100k and 2m are accepted. Otherwise YK_EUSAGE: "not
 * a whole number" or "must be between 1 and 64"; the caller adds what the number is for. *out changes only on success. */
yk_status yk_number_real(const char *text, double min, double max, double *out);
yk_status yk_number_int(const char *text, double min, double max, int64_t *out); /* within 2^53 */
yk_status yk_number_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out);

/* Writes the shortest decimal text that reads back as x when rounded to `bits` significant bits: 0.05, not 0.050000000000000003.
 * DBL_MANT_DIG for a double, FLT_MANT_DIG if x was a float. Whole numbers are exact; exponents are written as by Python's repr(),
 * below 1e-4 and from 1e16 on: 1000000, 1e-05. */
void yk_number_shortest(double x, int bits, char *out, size_t size);

/* The value of an environment variable; `otherwise` if it is not set or not a number. */
double yk_env_number(const char *name, double otherwise);
void yk_env_set_number(const char *name, double value);

#endif
