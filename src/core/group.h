/* Parameter groups: the parts of a model's parameters. Plain data, declared by the model and read by the
 * store, which knows nothing else about a model.
 *
 *     dense   every step needs all of it: the weights of a network
 *     keyed   a step needs the keys of its batch: one float per key (a linear model on sparse data), or `width` adjacent
 *             floats per key (an embedding)
 *
 *     group "linear"      keyed, width 1     | w0 | w1 | w2 | ...
 *     group "embedding"   keyed, width 4     | . . . . | . . . . | . . . . | ...
 *     group "network"     dense              | w0 w1 w2 ...                              |
 *
 * All keyed groups of a model have the same keys: the columns of the data, plus one for a bias. A model has at most one
 * dense group. Each group has its own optimizer and staleness bound (store/local.h), and its own placement: the processes
 * that own a part of it (store/messages.h).
 */
#ifndef YK_CORE_GROUP_H
#define YK_CORE_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { YK_MAX_GROUPS = 4, YK_GROUP_NAME = 24 };

typedef struct {
    char name[YK_GROUP_NAME];
    bool keyed;
    uint32_t width; /* floats per key; dense: 1 */
    uint64_t keys;  /* dense: number of floats */
    /* In a job with servers: ranks first_owner .. first_owner + owners - 1 own a part of the group. The keyed groups of a
     * job have at most two different ranges of owners: the dedicated servers, and the processes that train. */
    int first_owner, owners;
} yk_group;

static inline size_t yk_group_floats(const yk_group *g)
{
    return (size_t)g->keys * g->width;
}

/* The piece of a group that a rank owns: a contiguous piece of a dense group, which begins at *begin_out, or its share of the keys.
 * `keys` is 0 if it owns nothing of the group. */
static inline yk_group yk_group_piece(const yk_group *g, int rank, size_t *begin_out)
{
    const uint64_t k = (uint64_t)g->owners, i = (uint64_t)(rank - g->first_owner);
    yk_group piece = *g;
    uint64_t begin = 0;
    if (i >= k) { /* also if `rank` is less than the first owner */
        piece.keys = 0;
    } else if (g->keyed) {
        piece.keys = (g->keys + k - 1) / k;
    } else {
        begin = g->keys * i / k / 16 * 16;
        piece.keys = (i + 1 == k ? g->keys : g->keys * (i + 1) / k / 16 * 16) - begin;
    }
    *begin_out = (size_t)begin;
    return piece;
}

#endif
