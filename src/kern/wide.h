/* Vectors of 8 floats where the processor has them, else of 4, for *.simd.c. Loads and stores need no alignment. */
#ifndef YK_KERN_WIDE_H
#define YK_KERN_WIDE_H

#include "kern/vmath.h"
#include <string.h>

#if defined(__AVX__) || YK_VW == 8
enum { WIDE = 8 };
typedef float wide __attribute__((vector_size(32)));
#else
enum { WIDE = 4 };
typedef yk_v4 wide;
#endif

static inline wide load(const float *p)
{
    wide v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void store(float *p, wide v)
{
    memcpy(p, &v, sizeof v);
}

#endif
