/* exp() with the same bits on every platform, unlike that of libm: only + - * and a cast. The error is about 1e-15. */
#ifndef YK_DATA_EXACT_H
#define YK_DATA_EXACT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline double yk__exact_exp(double x)
{
    static const double term[] = {1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880,
                                  1.0 / 40320,     1.0 / 5040,     1.0 / 720,     1.0 / 120,
                                  1.0 / 24,        1.0 / 6,        1.0 / 2,       1.0};
    x = x < -700.0 ? -700.0 : x > 700.0 ? 700.0 : x;
    double k = (double)(int)(x * 1.4426950408889634 + (x < 0.0 ? -0.5 : 0.5));
    /* |r| <= ln(2) / 2, ln(2) in two parts */
    double r = (x - k * 0x1.62e42fee00000p-1) - k * 0x1.a39ef35793c76p-33;
    double sum = 0.0;
    for (size_t i = 0; i < sizeof term / sizeof *term; i++)
        sum = (sum + term[i]) * r;
    uint64_t bits = (uint64_t)(1023 + (int)k) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return (sum + 1.0) * power;
}

#endif
