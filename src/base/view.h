/* Where a worker reads and writes parameters: one table, of which a worker may have its own copy of the first part.
 *
 *     shared table   w[0] ............ w[hot] ........................ w[n-1]
 *     worker 2's     w[shift + 0] .. w[shift + hot - 1]      a copy of the hottest keys, elsewhere in the same block
 *
 * Key k lies at w[yk_view_at(v, k)]. Choosing the address takes no branch: on power-law data "is this key hot" is a
 * coin toss, and a mispredicted branch per entry costs four times the work itself. State arrays of the optimizer
 * (s0, s1) have the same layout, so that one address serves all. Plain data, borrowed from the store.
 */
#ifndef YK_BASE_VIEW_H
#define YK_BASE_VIEW_H

#include <stdint.h>

#define YK_MAX_SLOTS 2 /* state floats per parameter that an optimizer may have */

typedef struct {
    float *w;
    float *s[YK_MAX_SLOTS];
    uint32_t hot;  /* keys below this have a copy of this worker's own; 0: none */
    int32_t shift; /* distance from the shared value to the copy, in floats */
} yk_view;

static inline int64_t yk_view_at(const yk_view *v, uint32_t key)
{
    return (int64_t)key + (v->shift & -(int32_t)(key < v->hot));
}

#endif
