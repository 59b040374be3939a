/* Out of memory on request: makes one allocation of a test program fail.
 *
 *     oom_arm(7);                 // the 7th allocation from now on fails
 *     st = yk_train(...);
 *     n = oom_disarm();           // allocations that were made; n >= 7: one failed
 *
 * The test is linked with --wrap (CMakeLists.txt), so that malloc() and its relatives in yoke's code call the functions
 * below. Allocations of other libraries do not fail.
 */
#ifndef YK_TESTS_OOM_H
#define YK_TESTS_OOM_H

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

static atomic_uint_fast64_t oom_count, oom_at; /* oom_at: 0: none fails */

static inline void oom_arm(uint64_t n)
{
    atomic_store(&oom_count, 0);
    atomic_store(&oom_at, n);
}

static inline uint64_t oom_disarm(void)
{
    atomic_store(&oom_at, 0);
    return atomic_load(&oom_count);
}

static inline bool oom_now(void)
{
    const uint64_t at = atomic_load(&oom_at);
    const bool fails = at && atomic_fetch_add(&oom_count, 1) + 1 == at;
    if (fails)
        errno = ENOMEM;
    return fails;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
int __real_vasprintf(char **out, const char *format, va_list args);
void *__real_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset);

void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);
int __wrap_vasprintf(char **out, const char *format, va_list args);
int __wrap_asprintf(char **out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void *__wrap_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset);

void *__wrap_malloc(size_t n)
{
    return oom_now() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return oom_now() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return oom_now() ? NULL : __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    return oom_now() ? NULL : __real_aligned_alloc(align, n);
}

char *__wrap_strdup(const char *s)
{
    return oom_now() ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n)
{
    return oom_now() ? NULL : __real_strndup(s, n);
}

int __wrap_vasprintf(char **out, const char *format, va_list args)
{
    return oom_now() ? -1 : __real_vasprintf(out, format, args);
}

int __wrap_asprintf(char **out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = oom_now() ? -1 : __real_vasprintf(out, format, args);
    va_end(args);
    return n;
}

void *__wrap_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    return (flags & MAP_ANONYMOUS) && oom_now() ? MAP_FAILED
                                                : __real_mmap(at, n, protection, flags, fd, offset);
}

#endif
