/* Rounds of local SGD between replicas. Weights and optimizer state of a dense group become their mean over all ranks. For
 * keyed groups, only keys that were used are sent: every rank sends its keys and their deltas to all, and adds all of them in
 * rank order, so that all ranks have the same bits.
 *
 *     | keys, u32 [n] | deltas of group 0, f32 [arrays][n][width] | of group 1 | ... |          */
#include "store/copies_internal.h"

#include <stdlib.h>
#include <string.h>

struct yk__replicated {
    uint64_t step;                                  /* global step at the beginning of the round */
    yk_merger keys;                                 /* of keyed groups that changed since the last merge */
    size_t known;                                   /* how many of them have the following */
    float *before[YK_MAX_GROUPS][1 + YK_MAX_SLOTS]; /* [keys][width] their values at that merge */
    size_t before_cap[YK_MAX_GROUPS][1 + YK_MAX_SLOTS];
    uint32_t *since; /* [keys] the step up to which each was decayed */
    size_t since_cap;
    yk_copy_sums sums;
    size_t each; /* bytes of a key and its deltas */
    char *out;
    size_t out_cap;
    const char **data; /* [ranks] the deltas of all */
    size_t *bytes;
};

static yk_status create(yk__copies *s)
{
    yk_local *local = s->copy[0].local = s->config.local;
    const size_t ranks = (size_t)yk_exchange_ranks(s->config.exchange);
    struct yk__replicated *r = s->replicated = yk_alloc(1, sizeof *r, "local SGD");
    if (!r)
        return YK_ESYSTEM;
    r->step = s->config.first_step;
    r->each = sizeof *r->keys.key;
    for (int g = 0; g < yk_local_groups(local); g++) {
        const yk_group *group = yk_local_group_of(local, g);
        s->keyed |= group->keyed;
        r->each += group->keyed ? 4 * (size_t)yk_copy_arrays(local, g) * group->width : 0;
    }
    if (!s->keyed)
        return YK_OK;
    r->data = yk_alloc(ranks, sizeof *r->data, "messages");
    r->bytes = yk_alloc(ranks, sizeof *r->bytes, "messages");
    yk_status st = r->data && r->bytes ? yk_merger_init(&r->keys, 1024) : YK_ESYSTEM;
    return st ? st : yk_copy_sums_init(&r->sums, local, true);
}

static void free_all(yk__copies *s)
{
    struct yk__replicated *r = s->replicated;
    if (!r)
        return;
    for (int g = 0; g < YK_MAX_GROUPS; g++)
        for (int a = 0; a < 1 + YK_MAX_SLOTS; a++)
            free(r->before[g][a]);
    yk_free(r->data);
    yk_free(r->bytes);
    free(r->since);
    free(r->out);
    yk_merger_fini(&r->keys);
    yk_copy_sums_fini(&r->sums);
    yk_free(r);
}

static yk_status begin(yk__copies *s, yk__copy *c)
{
    c->max = yk__max_steps(s, s->replicated->step);
    return YK_OK;
}

/* Saves the values of keys before they change for the first time since the last merge. */
static yk_status remember(yk_local *local, struct yk__replicated *r)
{
    const size_t n = r->keys.n;
    if (YK_RESERVE(r->since, r->since_cap, n + 1, "parameters that changed"))
        return YK_ESYSTEM;
    for (int g = 0; g < yk_local_groups(local); g++) {
        const yk_group *group = yk_local_group_of(local, g);
        const uint32_t *touched = yk_local_raw(local, g).touched;
        for (int a = 0; group->keyed && a < yk_copy_arrays(local, g); a++) {
            if (YK_RESERVE(r->before[g][a], r->before_cap[g][a], (n + 1) * group->width,
                           "parameters that changed"))
                return YK_ESYSTEM;
            for (size_t i = r->known; i < n; i++)
                memcpy(r->before[g][a] + i * group->width,
                       yk_copy_array(local, g, a) + (size_t)r->keys.key[i] * group->width,
                       group->width * sizeof(float));
        }
        for (size_t i = r->known; touched && i < n; i++)
            r->since[i] = touched[r->keys.key[i]];
    }
    r->known = n;
    return YK_OK;
}

/* Adds the keys of the batches of all threads. */
static yk_status add_keys(yk__copies *s, yk__copy *c)
{
    yk_merger *keys = &s->replicated->keys;
    const uint32_t bias = s->config.bias_key;
    yk_status st = YK_OK;
    for (int k = c->first; !st && k < c->end; k++) {
        const yk_batch *b = &s->worker[k].batch;
        size_t max = 1;
        for (size_t i = 0; i < b->n; i++)
            max += yk_rows_entries(b->rows, b->pick[i]);
        st = yk_merger_grow(keys, max);
        for (size_t i = 0; !st && i < b->n; i++)
            for (uint64_t e = b->rows->start[b->pick[i]]; e < b->rows->start[b->pick[i] + 1]; e++)
                yk_merger_slot(keys, b->rows->index[e]);
        if (!st && bias != UINT32_MAX && b->n)
            yk_merger_slot(keys, bias);
    }
    return st ? st : remember(s->config.local, s->replicated);
}

/* Writes this rank's keys and deltas to r->out, and returns their bytes. The store gets the values of the last merge again. */
static size_t extract_deltas(yk_local *local, struct yk__replicated *r)
{
    const size_t n = r->known;
    char *at = r->out;
    if (n)
        memcpy(at, r->keys.key, 4 * n);
    at += 4 * n;
    for (int g = 0; n && g < yk_local_groups(local); g++) {
        const yk_group *group = yk_local_group_of(local, g);
        const size_t bytes = 4 * n * group->width;
        float *deltas = (float *)(void *)at;
        for (int a = 0; group->keyed && a < yk_copy_arrays(local, g); a++, at += bytes)
            memcpy(at, r->before[g][a], bytes);
        if (group->keyed)
            yk_copy_extract(local, g, r->keys.key, n, r->since, deltas);
    }
    yk_merger_clear(&r->keys);
    r->known = 0;
    return (size_t)(at - r->out);
}

static yk_status merge_keyed(yk__copies *s, uint64_t steps)
{
    yk_local *local = s->config.local;
    struct yk__replicated *r = s->replicated;
    const int ranks = yk_exchange_ranks(s->config.exchange);
    if (YK_RESERVE(r->out, r->out_cap, r->known * r->each + 1, "parameters that changed"))
        return YK_ESYSTEM;
    const size_t own = r->known, bytes = extract_deltas(local, r);
    yk_status st = yk_exchange_all_gather(s->config.exchange, r->out, bytes, r->data, r->bytes);
    size_t max = 1;
    for (int k = 0; !st && k < ranks; k++)
        max += r->bytes[k] / r->each;
    if (st || (st = yk_copy_sums_reserve(&r->sums, max)))
        return st;
    for (int k = 0; k < ranks; k++) {
        const uint32_t *key = (const uint32_t *)(const void *)r->data[k];
        const size_t n = r->bytes[k] / r->each;
        const float *block[YK_MAX_GROUPS] = {0}, *at = (const float *)(const void *)(key + n);
        for (int g = 0; g < yk_local_groups(local); g++) {
            block[g] = at;
            at += n * (size_t)r->sums.group[g].arrays * r->sums.group[g].width;
        }
        yk_copy_sums_place(&r->sums, key, n, r->sums.at);
        yk_copy_sums_add(&r->sums, r->sums.at, n, block);
    }
    const yk_copy_keys keys = {r->sums.keys.key, 0, r->sums.keys.n, r->sums.capacity};
    for (int g = 0; g < yk_local_groups(local); g++)
        if (yk_local_group_of(local, g)->keyed) {
            yk_exchange_count_values(s->config.exchange, g,
                                     own * (size_t)r->sums.group[g].arrays * r->sums.group[g].width);
            yk_copy_add(local, g, &keys, r->sums.group[g].sum, ranks, r->step + steps);
        }
    return YK_OK;
}

static yk_status merge(yk__copies *s, yk__copy *c)
{
    yk_local *local = s->config.local;
    yk_exchange *x = s->config.exchange;
    yk_round round;
    yk_phase_to(s->config.phases, YK_PHASE_SENDING);
    yk_status st =
        yk_exchange_headers(x, c->totals.examples, c->totals.loss, c->totals.action, c->totals.steps, &round);
    if (!st && round.examples && s->keyed)
        st = merge_keyed(s, round.steps);
    for (int g = 0; !st && round.examples && g < yk_local_groups(local); g++) {
        const yk_group *group = yk_local_group_of(local, g);
        for (int a = 0; !st && !group->keyed && a < yk_copy_arrays(local, g); a++)
            st = yk_exchange_mean(x, yk_copy_array(local, g, a), yk_group_floats(group));
    }
    if (st)
        return st;
    s->replicated->step += round.steps;
    yk_local_restore(local, s->replicated->step); /* some ranks had fewer batches than others */
    yk_exchange_end_round(x, &round, s->config.phases);
    c->result = (yk_step_result){.examples = round.examples,
                                 .loss = round.loss,
                                 .steps = round.steps,
                                 .action = (yk_action)round.action};
    return YK_OK;
}

const yk__copies_ops yk__copies_of_replicas = {
    .create = create, .free = free_all, .begin = begin, .keys = add_keys, .merge = merge};
