#include "kern/isa.h"

#include <stdlib.h>
#include <string.h>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#include <sys/prctl.h>

static const char *const names[] = {"base", "sve"};

int yk_isa_sve_bits(void)
{
    if (!(getauxval(AT_HWCAP) & HWCAP_SVE))
        return 0;
    int length = prctl(PR_SVE_GET_VL); /* in bytes; the upper bits are flags */
    return length < 0 ? 0 : (length & PR_SVE_VL_LEN_MASK) * 8;
}
#else
static const char *const names[] = {"base", "avx2", "avx512"};
#endif

const char *yk_isa_name(yk_isa isa)
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
#elif defined(__aarch64__)
    const int bits = yk_isa_sve_bits();
    if (bits == 256 || bits == 512)
        return YK_ISA_SVE;
#endif
    return YK_ISA_BASE;
}

yk_isa yk_isa_best(void)
{
    yk_isa best = processor();
    const char *requested = getenv("YK_ISA");
    for (int i = 0; requested && i < (int)best; i++)
        if (strcmp(requested, names[i]) == 0)
            best = (yk_isa)i;
    return best;
}
