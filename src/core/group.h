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

#endif
