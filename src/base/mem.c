#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

/* A block begins with a header of one cache line, so that yk_free() knows how it was allocated. */
typedef struct {
    size_t mapped; /* length of the mapping; 0: from aligned_alloc() */
} header;

void *yk_alloc(size_t count, size_t size, const char *what)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - 2 * HUGE_PAGE) {
        yk_fail_memory(SIZE_MAX, what);
        return NULL;
    }
    size_t total = bytes + YK_ALIGN;
    char *block;
    size_t mapped = 0;
    if (total >= HUGE_PAGE) {
        mapped = YK_ROUND_UP(total, HUGE_PAGE);
        block = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block == MAP_FAILED)
            block = NULL;
        else
            madvise(block, mapped, MADV_HUGEPAGE);
    } else {
        block = aligned_alloc(YK_ALIGN, YK_ROUND_UP(total, YK_ALIGN));
        if (block)
            memset(block, 0, total);
    }
    if (!block) {
        yk_fail_memory(bytes, what);
        return NULL;
    }
    ((header *)block)->mapped = mapped;
    return block + YK_ALIGN;
}

void yk_free(void *p)
{
    if (!p)
        return;
    char *block = (char *)p - YK_ALIGN;
    size_t mapped = ((header *)block)->mapped;
    if (mapped)
        munmap(block, mapped);
    else
        free(block);
}

yk_status yk__reserve(void *array, size_t *cap, size_t need, size_t size, const char *what)
{
    void *p;
    memcpy(&p, array, sizeof p);
    if (need <= *cap && p)
        return YK_OK;
    size_t to = *cap + *cap / 2;
    to = to < need ? need : to;
    to = to < 16 ? 16 : to;
    size_t bytes;
    p = __builtin_mul_overflow(to, size, &bytes) ? NULL : realloc(p, bytes);
    if (!p)
        return yk_fail_memory((unsigned long long)to * size, what);
    memcpy(array, &p, sizeof p);
    *cap = to;
    return YK_OK;
}

/* madvise() for the huge pages that are entirely within the array. */
static void advise(void *p, size_t bytes, int advice)
{
    const uintptr_t begin = YK_ROUND_UP((uintptr_t)p, HUGE_PAGE),
                    end = ((uintptr_t)p + bytes) / HUGE_PAGE * HUGE_PAGE;
    if (p && begin < end)
        madvise((void *)begin, end - begin, advice);
}

void yk_huge_pages(void *p, size_t bytes)
{
    advise(p, bytes, MADV_HUGEPAGE);
}

void yk_collapse(void *p, size_t bytes)
{
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif
    advise(p, bytes, MADV_COLLAPSE); /* older kernels refuse; that is fine */
}
