/* Divides the pixels of a convolution into groups that use the same filter taps.
 *
 * A pixel near the edge does not need all taps: some of them would multiply zeros. In the backward pass with stride n, a pixel
 * needs only every n-th tap. In the backward pass of a 5 x 5 filter with `valid` padding, from 10 x 10 to 14 x 14 pixels, half
 * of all taps are not needed:
 *
 *     taps for each row         1 2 3 4 5 5 5 5 5 5 4 3 2 1      and the same for columns
 *
 * Rows with the same taps form a row kind, columns a column kind; each pair of a row kind and a column kind is a group.
 * Adjacent kinds that are too small are merged and use the taps of both: the additional ones read the border of zeros
 * (net.h). The terms that are left out are zero, so results are bit-identical.
 *
 * Example:
 *     yk_arena memory = {0};
 *     yk__conv_groups groups = yk__conv_groups_make(&layer, YK__CONV_FORWARD, &memory);
 *     for (size_t i = 0; i < groups.n; i++)
 *         pixels += groups.group[i].pixels;      // group[i] has the tables of one yk_block_mul
 *
 * The groups are read-only once made. They are in the arena, whose status says whether its memory was enough.
 */
#ifndef YK_MODEL_CONV_GROUPS_H
#define YK_MODEL_CONV_GROUPS_H

#include "base/mem.h"
#include "model/net.h"

enum { YK__CONV_TILE = 4 }; /* maximum number of pixels that a kernel computes together */

/* Tables for yk_block_mul, or for yk_block_outer (x_k = b_k, x_p = b_p, y_p = c_p). */
typedef struct {
    size_t terms, pixels, work; /* work: pixels * (terms + 1) */
    int32_t *a_k, *b_k;         /* [terms] */
    int32_t *b_p, *c_p;         /* [pixels] */
} yk__conv_group;

typedef struct {
    yk__conv_group *group;
    size_t n, work; /* work: of all groups */
} yk__conv_groups;

/* The weight gradient has one group, with all taps and all pixels of the output. */
typedef enum { YK__CONV_FORWARD, YK__CONV_INPUT_GRADIENT, YK__CONV_WEIGHT_GRADIENT } yk__conv_product;

yk__conv_groups yk__conv_groups_make(const yk__layer *l, yk__conv_product product, yk_arena *memory);

/* The work of all groups is numbered from 0; that of this group begins at `at`. Returns the first pixel at or after `until`,
 * rounded up to a tile. */
static inline size_t yk__conv_group_pixel(const yk__conv_group *g, size_t at, size_t until)
{
    if (until <= at)
        return 0;
    const size_t pixel = YK_ROUND_UP((until - at) / (g->terms + 1), YK__CONV_TILE);
    return pixel < g->pixels ? pixel : g->pixels;
}

#endif
