/* Gradients of keyed groups between replicas: every rank sends its keys with their values to all others, and adds all of
 * them in rank order.
 *
 *     a message contains, for each keyed group:    | keys, u32 [n] | values, f32 [n][width] |
 */
#include "store/exchange_internal.h"

#include "base/mem.h"
#include <string.h>

enum { TAG_PAIRS = 3 };

size_t yk__pairs_bytes(const yk_exchange *x, const yk__header *h)
{
    size_t bytes = 0;
    for (int g = 0; g < x->ngroups; g++)
        if (x->group[g].keyed)
            bytes += 4 * (size_t)h->pairs[g] * (1 + x->group[g].width);
    return bytes;
}

/* Sends the same bytes to all other ranks. */
yk_status yk__pairs_send_all(yk_exchange *x, const void *data, size_t bytes)
{
    yk_status st = YK_OK;
    for (int r = 0; !st && bytes && r < x->size; r++)
        if (r != x->rank)
            st = yk_comm_send(x->comm, r, TAG_PAIRS, YK_PURPOSE_REDUCE, data, bytes, &x->pairs_out[r]);
    return st;
}

yk_status yk__pairs_receive(yk_exchange *x, int r, size_t bytes)
{
    if (YK_RESERVE(x->in[r], x->in_cap[r], bytes + 1, "a gradient"))
        return YK_ESYSTEM;
    return bytes ? yk_comm_recv(x->comm, r, TAG_PAIRS, YK_PURPOSE_REDUCE, x->in[r], bytes, &x->pairs_in[r])
                 : YK_OK;
}

yk_status yk__pairs_merge(yk_exchange *x, const yk_grad *g, yk__header *head)
{
    yk_status st = YK_OK;
    for (int k = 0; !st && k < x->ngroups; k++) {
        if (!x->group[k].keyed)
            continue;
        x->mine[k] = g->examples ? g->group[k].pairs : NULL;
        if (!x->mine[k]) {
            st = yk_grad_merge(&g->group[k], &x->own[k]);
            x->mine[k] = &x->own[k];
        }
        head->pairs[k] = x->mine[k]->n;
    }
    return st;
}

yk_status yk__pairs_send(yk_exchange *x)
{
    const size_t bytes = yk__pairs_bytes(x, &x->head[x->rank]);
    if (YK_RESERVE(x->out, x->out_cap, bytes + 1, "a gradient"))
        return YK_ESYSTEM;
    char *at = x->out;
    for (int g = 0; g < x->ngroups; g++) {
        const yk_merger *own = x->mine[g];
        if (!x->group[g].keyed || !own->n)
            continue;
        memcpy(at, own->key, 4 * own->n);
        memcpy(at + 4 * own->n, own->value, 4 * own->n * own->width);
        at += 4 * own->n * (1 + own->width);
    }
    const yk_status st = yk__pairs_send_all(x, x->out, bytes);
    for (int g = 0; !st && g < x->ngroups; g++)
        if (x->group[g].keyed)
            yk_exchange_count_values(x, g, x->mine[g]->n * x->group[g].width);
    return st;
}

static void add(yk_merger *sum, const uint32_t *key, const float *value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        yk_merger_add_wide(sum, key[i], value + i * sum->width, sum->width);
}

yk_status yk__pairs_add(yk_exchange *x)
{
    yk_status st = YK_OK;
    for (int g = 0; !st && g < x->ngroups; g++) {
        size_t max = 1;
        for (int r = 0; r < x->size; r++)
            max += x->head[r].pairs[g];
        if (x->group[g].keyed)
            st = yk_merger_reserve(&x->sum[g], max);
    }
    for (int r = 0; !st && r < x->size; r++) {
        const char *at = x->in[r];
        for (int g = 0; g < x->ngroups; g++) {
            const size_t n = x->head[r].pairs[g];
            if (!x->group[g].keyed)
                continue;
            if (r == x->rank) {
                add(&x->sum[g], x->mine[g]->key, x->mine[g]->value, n);
                continue;
            }
            const uint32_t *key = (const uint32_t *)(const void *)at;
            add(&x->sum[g], key, (const float *)(const void *)(key + n), n);
            at += 4 * n * (1 + x->group[g].width);
        }
    }
    return st;
}
