/* Memory: zeroed, aligned to 64 bytes (a cache line, a vector register), huge pages asked for where it is large.
 * NULL means out of memory, described by yk_fail_memory(); `what` names the use in that message.
 */
#ifndef YK_BASE_MEM_H
#define YK_BASE_MEM_H

#include "base/status.h"
#include <stddef.h>

#define YK_ALIGN 64

void *yk_alloc(size_t count, size_t size, const char *what);
void yk_free(void *p); /* NULL is fine */

/* Grows an array to hold at least `need` elements, by half at least; keeps the old contents, the rest is not
 * zeroed. On failure returns NULL and leaves *p and *cap as they were. Plain malloc memory: free with free(). */
void *yk_grow(void *p, size_t *cap, size_t need, size_t size, const char *what);

/* The same for a variable: YK_RESERVE(list->item, list->cap, list->n + 1, "a list"); YK_OK or YK_ESYSTEM. */
#define YK_RESERVE(array, cap, need, what) yk__reserve(&(array), &(cap), (need), sizeof *(array), (what))
yk_status yk__reserve(void *array, size_t *cap, size_t need, size_t size, const char *what);

/* Puts a large array that is there already onto huge pages, where the kernel can: random reads of it then miss the
 * address cache less. Costs a copy once; nothing changes for the caller. */
void yk_collapse(void *p, size_t bytes);

#define YK_ROUND_UP(n, k) (((n) + (k)-1) / (k) * (k))

#endif
