/* The pixels of a convolution's product, in groups that have the same terms.
 *
 * A pixel near the edge sees less of the image: the other taps of a filter would multiply zeros. With a stride, going back, a
 * pixel sees one tap in so many. Going back through a 5 x 5 filter that was `valid`, from 10 x 10 to 14 x 14 pixels, half of
 * all taps see nothing:
 *
 *     taps that reach a row     1 2 3 4 5 5 5 5 5 5 4 3 2 1      and the same for columns
 *
 * Rows that are reached by the same taps are of one kind, so are columns, and a kind of rows with a kind of columns is a group.
 * Neighbours that would make too small a group share one, with the taps of both: what these read beyond the edge is the border
 * of zeros (net.h). Terms that are left out added zero, so that results are the same to the bit.
 */
#ifndef YK_MODEL_CONV_GROUPS_H
#define YK_MODEL_CONV_GROUPS_H

#include "model/net.h"

/* Tables for yk_block_mul. */
typedef struct {
    size_t terms, pixels, work; /* pixels * (terms + 1) */
    int32_t *a_k, *b_k;         /* [terms] */
    int32_t *b_p, *c_p;         /* [pixels] */
} yk__conv_group;

typedef struct {
    yk__conv_group *of;
    size_t n, work; /* of all */
} yk__conv_groups;

/* Of the output from the input, or back: of the gradient by the input from that by the output. */
yk_status yk__conv_groups_make(const yk__layer *l, bool back, yk__conv_groups *out);
void yk__conv_groups_free(yk__conv_groups *g);

/* The first pixel that is not before `until`, where the group's work begins `at`: a whole number of tiles. */
static inline size_t yk__conv_group_pixel(const yk__conv_group *g, size_t at, size_t until)
{
    enum { TILE = 4 }; /* pixels that are computed together, at most */
    if (until <= at)
        return 0;
    const size_t pixel = ((until - at) / (g->terms + 1) + TILE - 1) / TILE * TILE;
    return pixel < g->pixels ? pixel : g->pixels;
}

#endif
