#include "base/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *yk_digits(const char *text, uint64_t max, uint64_t *out)
{
    const char *at = text;
    uint64_t n = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        const unsigned digit = (unsigned)(*at - '0');
        if (digit > max || n > (max - digit) / 10)
            return NULL;
        n = 10 * n + digit;
    }
    if (at == text)
        return NULL;
    *out = n;
    return at;
}

const char *yk_digits_after(const char *prefix, const char *text, uint64_t max, uint64_t *out)
{
    const size_t n = strlen(prefix);
    return strncmp(text, prefix, n) ? NULL : yk_digits(text + n, max, out);
}

const char *yk_word(const char *line, int n)
{
    const char *at = line ? line + strspn(line, " \t") : "";
    for (; n > 0; n--) {
        at += strcspn(at, " \t\n");
        at += strspn(at, " \t");
    }
    return *at && *at != '\n' ? at : NULL;
}

const char *yk_word_digits(const char *line, int n, uint64_t *out)
{
    const char *at = yk_word(line, n);
    return at ? yk_digits(at, UINT64_MAX, out) : NULL;
}

static inline bool is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

/* Appends digits to a number. Leading zeros do not count as digits. */
static inline const char *parse_digits(const char *p, const char *end, uint64_t *number, ptrdiff_t *digits)
{
    uint64_t n = *number;
    if (!n)
        while (p < end && *p == '0')
            p++;
    const char *first = p;
    for (; p < end && is_digit(*p); p++)
        n = n * 10 + (uint64_t)(*p - '0');
    *number = n;
    *digits += p - first;
    return p;
}

/* Many digits or a large exponent: strtod(). */
static const char *parse_long(const char *text, const char *end, double *out)
{
    char copy[512];
    const size_t n = (size_t)(end - text);
    if (n >= sizeof copy)
        return NULL;
    memcpy(copy, text, n);
    copy[n] = 0;
    *out = strtod(copy, NULL);
    return end;
}

/* A number of at most 15 digits and a small power of ten are exact doubles, so their product or quotient is correctly
 * rounded (Clinger 1990). */
const char *yk_decimal_before(const char *text, const char *end, double *out)
{
    static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    enum { DIGITS = 15, POWERS = sizeof power / sizeof *power };
    const char *p = text;
    const bool minus = p < end && *p == '-';
    p += p < end && (*p == '-' || *p == '+');
    uint64_t mantissa = 0;
    ptrdiff_t digits = 0, scale = 0;
    const char *first = p;
    p = parse_digits(p, end, &mantissa, &digits);
    if (p < end && *p == '.') {
        const char *fraction = p + 1;
        p = parse_digits(fraction, end, &mantissa, &digits);
        scale = fraction - p;
        first++; /* a point alone is not a number */
    }
    if (p == first)
        return NULL;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        const bool down = p < end && *p == '-';
        p += p < end && (*p == '-' || *p == '+');
        if (p == end || !is_digit(*p))
            return NULL;
        int exponent = 0;
        for (; p < end && is_digit(*p); p++)
            exponent = exponent < 10000 ? exponent * 10 + (*p - '0') : exponent;
        scale += down ? -exponent : exponent;
    }
    if (digits > DIGITS || scale <= -POWERS || scale >= POWERS)
        return parse_long(text, p, out);
    const double x = scale < 0 ? (double)mantissa / power[-scale] : (double)mantissa * power[scale];
    *out = minus ? -x : x;
    return p;
}

const char *yk_decimal(const char *text, double *out)
{
    double x;
    const char *end = yk_decimal_before(text, text + strlen(text), &x);
    if (!end || !isfinite(x) || (*end | 32) == 'x')
        return NULL;
    *out = x;
    return end;
}

static yk_status read(const char *text, bool whole, double min, double max, double *out)
{
    double x = 0.0;
    const char *end = yk_decimal(text, &x);
    if (end && *end && strchr("kKmM", *end))
        x *= strchr("kK", *end++) ? 1e3 : 1e6;
    const bool number = end && !*end && isfinite(x) && (!whole || x == floor(x));
    if (number && x >= min && x <= max) {
        *out = x;
        return YK_OK;
    }
    if (!number && !whole && min < -1e300)
        return yk_fail(YK_EUSAGE, "not a number");
    const char *what = number ? "" : whole ? "not a whole number; " : "not a number; ";
    if (max >= 9e15 && !(number && x > max)) /* larger than any useful number */
        return yk_fail(YK_EUSAGE, "%smust be %.15g or more", what, min);
    return yk_fail(YK_EUSAGE, "%smust be between %.15g and %.15g", what, min, max);
}

yk_status yk_number_real(const char *text, double min, double max, double *out)
{
    return read(text, false, min, max, out);
}

yk_status yk_number_int(const char *text, double min, double max, int64_t *out)
{
    double x = 0.0;
    const yk_status st = read(text, true, min, max, &x);
    if (!st)
        *out = (int64_t)x;
    return st;
}

yk_status yk_number_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    uint64_t n;
    int64_t other = 0; /* for forms other than plain digits, such as 1e6 */
    const char *end = yk_digits(text, UINT64_MAX, &n);
    if (!end || *end) {
        const yk_status st = yk_number_int(text, (double)min, fmin((double)max, 0x1p53), &other);
        if (!st)
            *out = (uint64_t)other;
        return st;
    }
    if (n < min || n > max)
        return yk_fail(YK_EUSAGE, "must be between %llu and %llu", (unsigned long long)min,
                       (unsigned long long)max);
    *out = n;
    return YK_OK;
}

static double rounded(double x, int bits)
{
    int exponent;
    const double fraction = frexp(x, &exponent);
    return ldexp(nearbyint(ldexp(fraction, bits)), exponent - bits);
}

void yk_number_shortest(double x, int bits, char *out, size_t size)
{
    if (x == floor(x) && fabs(x) < 1e16) { /* exact: 10, not 1e+01 */
        snprintf(out, size, "%.0f", x);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, size, "%.*g", digits, x);
        if (rounded(strtod(out, NULL), bits) == x)
            return;
    }
}

double yk_env_number(const char *name, double otherwise)
{
    const char *text = getenv(name);
    double x;
    const char *end = text ? yk_decimal(text, &x) : NULL;
    return end && !*end ? x : otherwise;
}

void yk_env_set_number(const char *name, double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.15g", value);
    setenv(name, text, 1);
}
