#include "kern/isa.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"base", "avx2", "avx512"};

const char *yk_isa_text(yk_isa isa)
{
    return names[isa];
}

static yk_isa processor(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
        return YK_ISA_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
        return YK_ISA_AVX2;
#endif
    return YK_ISA_BASE;
}

yk_isa yk_isa_best(void)
{
    yk_isa best = processor();
    const char *wish = getenv("YK_ISA");
    for (int i = 0; wish && i < (int)best; i++)
        if (strcmp(wish, names[i]) == 0)
            best = (yk_isa)i;
    return best;
}
