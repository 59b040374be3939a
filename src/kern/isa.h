/* Which instruction set the fast kernels use.
 *
 * A file X.simd.c is compiled once per instruction set and ends in one table of functions, named for it:
 *
 *     const yk_linear_ops YK_ISA_NAME(yk_linear) = {...};        // yk_linear_avx512, yk_linear_avx2, ...
 *
 * and X.h declares them and yk_linear(), which chooses: YK_ISA_FAMILY(yk_linear_ops, yk_linear). The environment variable YK_ISA asks for a lower one than the processor has,
 * for tests and comparisons:
 *
 *     YK_ISA     x86-64                  arm64
 *     base       SSE 4.2                 NEON, which all of them have
 *     avx2       with FMA and BMI2
 *     avx512     F, VL, BW and DQ
 *     sve                                SVE with vectors of 256 or of 512 bits
 *
 * SVE leaves the width of a vector to the processor. Tiles that stay in registers need to know it, so there are two tables,
 * _sve256 and _sve512, and the one that fits is chosen. With 128 bits SVE is as wide as NEON and its products no faster:
 * those processors get base, and so do any wider ones.
 */
#ifndef YK_KERN_ISA_H
#define YK_KERN_ISA_H

#define YK_ISA_PASTE_(a, b) a##_##b
#define YK_ISA_PASTE(a, b)  YK_ISA_PASTE_(a, b)
#define YK_ISA_NAME(name)   YK_ISA_PASTE(name, YK_ISA)

#if defined(__aarch64__)
typedef enum { YK_ISA_BASE, YK_ISA_SVE } yk_isa;
#else
typedef enum { YK_ISA_BASE, YK_ISA_AVX2, YK_ISA_AVX512 } yk_isa;
#endif

yk_isa yk_isa_best(void); /* the best that this processor has and YK_ISA allows */
const char *yk_isa_text(yk_isa isa);

#if defined(__x86_64__)
#define YK_ISA_CHOOSE(name) YK_ISA_AT(name, yk_isa_best())
#define YK_ISA_AT(name, isa)                                                                                 \
    ((isa) == YK_ISA_AVX512 ? &name##_avx512 : (isa) == YK_ISA_AVX2 ? &name##_avx2 : &name##_base)
#define YK_ISA_DECLARE(type, name) extern const type name##_base, name##_avx2, name##_avx512
#elif defined(__aarch64__)
int yk_isa_sve_bits(void); /* the width of this thread's SVE vectors; 0 without SVE */
#define YK_ISA_CHOOSE(name) YK_ISA_AT(name, yk_isa_best())
#define YK_ISA_AT(name, isa)                                                                                 \
    ((isa) != YK_ISA_SVE ? &name##_base : yk_isa_sve_bits() == 512 ? &name##_sve512 : &name##_sve256)
#define YK_ISA_DECLARE(type, name) extern const type name##_base, name##_sve256, name##_sve512
#else
#define YK_ISA_CHOOSE(name)        (&name##_base)
#define YK_ISA_AT(name, isa)       ((void)(isa), &name##_base)
#define YK_ISA_DECLARE(type, name) extern const type name##_base
#endif

#define YK_ISA_FAMILY(type, name)                                                                            \
    YK_ISA_DECLARE(type, name);                                                                              \
    static inline const type *name(void)                                                                     \
    {                                                                                                        \
        return YK_ISA_CHOOSE(name);                                                                          \
    }

/* Lock-free training reads and writes shared floats without synchronisation: aligned 32-bit accesses do not tear on
 * x86-64 and arm64, and a lost update is a gradient step of one example. Such functions say so to the sanitizer. */
#define YK_RACY __attribute__((no_sanitize("thread")))

#endif
