/* Chooses the instruction set of the fast kernels at run time.
 *
 * A file X.simd.c is compiled once per instruction set and defines one table of functions, named after it with
 * YK_ISA_NAME(yk_X): yk_X_avx512, yk_X_avx2, ... In X.h, YK_ISA_FAMILY(yk_X_ops, yk_X) declares these tables and the function
 * yk_X(), which returns the best one.
 *
 * Example:
 *     const yk_linear_ops *fast = yk_linear();                               // the best for this processor
 *     const yk_linear_ops *base = YK_ISA_AT(yk_linear, YK_ISA_BASE);         // a given one, for a test
 *
 * The environment variable YK_ISA selects a lower instruction set than the processor has, for tests and comparisons:
 *
 *     YK_ISA     x86-64                  arm64
 *     base       SSE 4.2                 NEON, which all processors have
 *     avx2       with FMA and BMI2
 *     avx512     F, VL, BW and DQ
 *     sve                                SVE with vectors of 256 or of 512 bits
 *
 * The width of SVE vectors depends on the processor, but the size of register tiles must be known at compile time, so there
 * are two tables, _sve256 and _sve512. 128-bit SVE is no wider and no faster than NEON, so processors with it use base, as
 * do processors with vectors wider than 512 bits. Any thread may call these functions.
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

yk_isa yk_isa_best(void); /* the best that the processor supports and YK_ISA allows */
const char *yk_isa_name(yk_isa isa);

#if defined(__aarch64__)
int yk_isa_sve_bits(void); /* the width of this thread's SVE vectors; 0 without SVE */
#endif

#define YK_ISA_CHOOSE(name) YK_ISA_AT(name, yk_isa_best())
#if defined(YK_ONLY_BASE_ISA) /* for fuzzers: compiles faster */
#define YK_ISA_AT(name, isa)       ((void)(isa), &name##_base)
#define YK_ISA_DECLARE(type, name) extern const type name##_base
#elif defined(__x86_64__)
#define YK_ISA_AT(name, isa)                                                                                 \
    ((isa) == YK_ISA_AVX512 ? &name##_avx512 : (isa) == YK_ISA_AVX2 ? &name##_avx2 : &name##_base)
#define YK_ISA_DECLARE(type, name) extern const type name##_base, name##_avx2, name##_avx512
#elif defined(__aarch64__)
#define YK_ISA_AT(name, isa)                                                                                 \
    ((isa) != YK_ISA_SVE ? &name##_base : yk_isa_sve_bits() == 512 ? &name##_sve512 : &name##_sve256)
#define YK_ISA_DECLARE(type, name) extern const type name##_base, name##_sve256, name##_sve512
#else
#define YK_ISA_AT(name, isa)       ((void)(isa), &name##_base)
#define YK_ISA_DECLARE(type, name) extern const type name##_base
#endif

#define YK_ISA_FAMILY(type, name)                                                                            \
    YK_ISA_DECLARE(type, name);                                                                              \
    static inline const type *name(void)                                                                     \
    {                                                                                                        \
        return YK_ISA_CHOOSE(name);                                                                          \
    }

/* Exempts functions of lock-free training from ThreadSanitizer: they read and write shared floats without synchronization.
 * Aligned 32-bit accesses do not tear on x86-64 and arm64, and a lost update costs one gradient step of one example. */
#define YK_RACY __attribute__((no_sanitize("thread")))

#endif
