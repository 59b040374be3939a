#include "base/number.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

const char *yk_digits(const char *text, uint64_t most, uint64_t *out)
{
    const char *at = text;
    uint64_t n = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        const unsigned digit = (unsigned)(*at - '0');
        if (digit > most || n > (most - digit) / 10)
            return NULL;
        n = 10 * n + digit;
    }
    if (at == text)
        return NULL;
    *out = n;
    return at;
}

const char *yk_decimal(const char *text, double *out)
{
    const char *digits = text + (*text == '-' || *text == '+');
    if (!strchr(".0123456789", *digits) || !*digits || (digits[0] == '0' && (digits[1] | 32) == 'x'))
        return NULL; /* strtod() also accepts blanks, "inf", "nan", "0x10" */
    char *end;
    const double x = strtod(text, &end);
    if (end == text || !isfinite(x))
        return NULL;
    *out = x;
    return end;
}

static yk_status read(const char *text, bool whole, double least, double most, double *out)
{
    double x = 0.0;
    const char *end = yk_decimal(text, &x);
    if (end && *end && strchr("kKmM", *end))
        x *= strchr("kK", *end++) ? 1e3 : 1e6;
    if (!end || *end || !isfinite(x) || (whole && x != floor(x)))
        return yk_fail(YK_EUSAGE, "not a%s number", whole ? " whole" : "");
    if (x < least || x > most)
        return yk_fail(YK_EUSAGE, "must be between %.15g and %.15g", least, most);
    *out = x;
    return YK_OK;
}

yk_status yk_number_real(const char *text, double least, double most, double *out)
{
    return read(text, false, least, most, out);
}

yk_status yk_number_whole(const char *text, double least, double most, int64_t *out)
{
    double x = 0.0;
    const yk_status st = read(text, true, least, most, &x);
    if (!st)
        *out = (int64_t)x;
    return st;
}

yk_status yk_number_u64(const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
    uint64_t n;
    int64_t other = 0; /* for forms other than plain digits, such as 1e6 */
    const char *end = yk_digits(text, UINT64_MAX, &n);
    if (!end || *end) {
        const yk_status st = yk_number_whole(text, (double)least, fmin((double)most, 0x1p53), &other);
        if (!st)
            *out = (uint64_t)other;
        return st;
    }
    if (n < least || n > most)
        return yk_fail(YK_EUSAGE, "must be between %llu and %llu", (unsigned long long)least,
                       (unsigned long long)most);
    *out = n;
    return YK_OK;
}

double yk_env_number(const char *name, double otherwise)
{
    const char *text = getenv(name);
    double x;
    const char *end = text ? yk_decimal(text, &x) : NULL;
    return end && !*end ? x : otherwise;
}
