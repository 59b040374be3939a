/* Memory that is zeroed and aligned to 64 bytes (a cache line, a vector register). Large blocks request huge pages.
 *
 * Example:
 *     float *w = yk_alloc(parameters, sizeof *w, "the parameters");
 *     if (!w)
 *         return YK_ESYSTEM; // the message is "out of memory: N bytes for the parameters"
 *     yk_free(w);
 *
 * NULL means out of memory, described by yk_fail_memory(); `what` names the use in that message. Any thread may call these.
 */
#ifndef YK_BASE_MEM_H
#define YK_BASE_MEM_H

#include "base/status.h"

#define YK_ALIGN 64

void *yk_alloc(size_t count, size_t size, const char *what);
void yk_free(void *p); /* NULL is fine */

/* Grows an array to at least `need` elements, and at least by half: YK_RESERVE(list->item, list->cap, list->n + 1, "a list").
 * YK_OK or YK_ESYSTEM. Keeps the contents; new elements are not zeroed. On failure the array and its capacity stay as they
 * are. Free the array with free(). */
#define YK_RESERVE(array, cap, need, what) yk__reserve(&(array), &(cap), (need), sizeof *(array), (what))
yk_status yk__reserve(void *array, size_t *cap, size_t need, size_t size, const char *what);

/* Requests huge pages for a large array that has not been written yet. */
void yk_huge_pages(void *p, size_t bytes);

/* Moves an existing large array to huge pages if the kernel can, so that random reads cause fewer TLB misses. The kernel
 * copies the array once; its address does not change. */
void yk_collapse(void *p, size_t bytes);

#define YK_ROUND_UP(n, k) (((n) + (k)-1) / (k) * (k))

#endif
