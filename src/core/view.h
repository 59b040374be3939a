/* Where a worker finds parameters: in the shared table, or in its own copy of the hottest keys.
 *
 *     shared table   w[0] ............ w[hot] ........................ w[n-1]
 *     worker 2       w[shift + 0] .. w[shift + hot - 1]      its copy, elsewhere in the same block
 *
 * Key k is at w[yk_view_at(v, k)]. Choosing the address needs no branch: on power-law data the test "is this key hot" is
 * unpredictable, and a mispredicted branch per entry costs four times the work itself. The state arrays of the optimizer
 * have the same layout, so that one address serves all. Plain data, borrowed from the store.
 */
#ifndef YK_CORE_VIEW_H
#define YK_CORE_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#define YK_MAX_SLOTS 2 /* optimizer state floats per parameter, at most */

typedef struct {
    float *w;
    float *s[YK_MAX_SLOTS];
    uint32_t hot;  /* this worker has its own copy of keys 0 .. hot-1; 0: none */
    int32_t shift; /* distance from the shared value to the copy, in floats */
    bool shared;   /* others may change the parameters while a batch is computed */
    int in_flight; /* dense groups: so many gradients are computed at the same time; 0, 1: this one will not be stale */
} yk_view;

static inline int64_t yk_view_at(const yk_view *v, uint32_t key)
{
    return (int64_t)key + (v->shift & -(int32_t)(key < v->hot));
}

/* The weights of a key of a group with `width` floats per key. */
static inline float *yk_view_wide(const yk_view *v, uint32_t key, uint32_t width)
{
    return v->w + ((int64_t)key * width + (v->shift & -(int32_t)(key < v->hot)));
}

#endif
