/* Rounds of local SGD between replicas. Weights and optimizer state of a dense group become their mean over all ranks. For
 * keyed groups, only keys that were used are sent: every rank sends its keys and their deltas to all, and adds all of them in
 * rank order, so that all ranks have the same bits.
 *
 *     | keys, u32 [n] | deltas of group 0, f32 [arrays][n][width] | of group 1 | ... |          */
#include "store/local_sgd_internal.h"

#include <stdlib.h>
#include <string.h>

static yk_status create(yk__sgd *s)
{
    yk_local *local = s->config.local;
    const size_t ranks = (size_t)yk_exchange_ranks(s->config.exchange);
    s->copy = local;
    s->step = s->config.first_step;
    for (int g = 0; g < yk_local_groups(local); g++)
        s->keyed |= yk_local_group_of(local, g)->keyed;
    if (!s->keyed)
        return YK_OK;
    s->data = yk_alloc(ranks, sizeof *s->data, "messages");
    s->bytes = yk_alloc(ranks, sizeof *s->bytes, "messages");
    yk_status st = s->data && s->bytes ? yk_merger_init(&s->touched.keys, 1024) : YK_ESYSTEM;
    return st ? st : yk_copy_sums_init(&s->sums, local, true);
}

static void free_all(yk__sgd *s)
{
    yk_free(s->data);
    yk_free(s->bytes);
    for (int g = 0; g < YK_MAX_GROUPS; g++)
        for (int a = 0; a < 1 + YK_MAX_SLOTS; a++)
            free(s->touched.before[g][a]);
    free(s->touched.since);
    free(s->out);
    yk_merger_fini(&s->touched.keys);
    yk_copy_sums_fini(&s->sums);
}

/* Saves the values of keys before they change for the first time since the last merge. */
static yk_status remember(yk__sgd *s)
{
    yk_local *local = s->config.local;
    yk__touched *t = &s->touched;
    const size_t n = t->keys.n;
    if (YK_RESERVE(t->since, t->since_cap, n + 1, "parameters that changed"))
        return YK_ESYSTEM;
    for (int g = 0; g < yk_local_groups(local); g++) {
        const yk_group *group = yk_local_group_of(local, g);
        const uint32_t *touched = yk_local_raw(local, g).touched;
        for (int a = 0; group->keyed && a < yk_copy_arrays(local, g); a++) {
            if (YK_RESERVE(t->before[g][a], t->before_cap[g][a], (n + 1) * group->width,
                           "parameters that changed"))
                return YK_ESYSTEM;
            for (size_t i = t->n; i < n; i++)
                memcpy(t->before[g][a] + i * group->width,
                       yk_copy_array(local, g, a) + (size_t)t->keys.key[i] * group->width,
                       group->width * sizeof(float));
        }
        for (size_t i = t->n; touched && i < n; i++)
            t->since[i] = touched[t->keys.key[i]];
    }
    t->n = n;
    return YK_OK;
}

/* Adds the keys of the batches of all threads. */
static yk_status add_keys(yk__sgd *s)
{
    yk_merger *keys = &s->touched.keys;
    const uint32_t bias = s->config.bias_key;
    size_t max = 1, rows = 0;
    for (int k = 0; k < s->config.workers; k++) {
        const yk_batch *b = &s->worker[k].batch;
        rows += b->n;
        for (size_t i = 0; i < b->n; i++)
            max += yk_rows_entries(b->rows, b->pick[i]);
    }
    yk_status st = yk_merger_grow(keys, max);
    if (st)
        return st;
    for (int k = 0; k < s->config.workers; k++) {
        const yk_batch *b = &s->worker[k].batch;
        for (size_t i = 0; i < b->n; i++)
            for (uint64_t e = b->rows->start[b->pick[i]]; e < b->rows->start[b->pick[i] + 1]; e++)
                yk_merger_slot(keys, b->rows->index[e]);
    }
    if (bias != UINT32_MAX && rows)
        yk_merger_slot(keys, bias);
    return remember(s);
}

/* ---- merging ---- */

/* Writes this rank's keys and deltas to s->out, and returns their bytes. The store gets the values of the last merge again. */
static size_t extract_deltas(yk__sgd *s)
{
    yk_local *local = s->config.local;
    yk__touched *t = &s->touched;
    const size_t n = t->n;
    char *at = s->out;
    memcpy(at, t->keys.key, 4 * n);
    at += 4 * n;
    for (int g = 0; g < yk_local_groups(local); g++) {
        const yk_group *group = yk_local_group_of(local, g);
        if (!group->keyed)
            continue;
        for (int a = 0; a < yk_copy_arrays(local, g); a++)
            memcpy(at + 4 * n * group->width * (size_t)a, t->before[g][a], 4 * n * group->width);
        yk_copy_extract(local, g, t->keys.key, n, t->since, (float *)(void *)at);
        at += 4 * n * group->width * (size_t)yk_copy_arrays(local, g);
    }
    yk_merger_clear(&t->keys);
    t->n = 0;
    return (size_t)(at - s->out);
}

static yk_status merge_keyed(yk__sgd *s, uint64_t steps)
{
    yk_local *local = s->config.local;
    const int ranks = yk_exchange_ranks(s->config.exchange);
    size_t each = 4;
    for (int g = 0; g < yk_local_groups(local); g++)
        if (yk_local_group_of(local, g)->keyed)
            each += 4 * (size_t)yk_copy_arrays(local, g) * yk_local_group_of(local, g)->width;
    if (YK_RESERVE(s->out, s->out_cap, s->touched.n * each + 1, "parameters that changed"))
        return YK_ESYSTEM;
    const size_t bytes = s->touched.n ? extract_deltas(s) : 0;
    yk_status st = yk_exchange_all_gather(s->config.exchange, s->out, bytes, s->data, s->bytes);
    size_t max = 1;
    for (int k = 0; !st && k < ranks; k++)
        max += s->bytes[k] / each;
    if (st || (st = yk_copy_sums_reserve(&s->sums, max)))
        return st;
    for (int k = 0; k < ranks; k++) {
        const uint32_t *key = (const uint32_t *)(const void *)s->data[k];
        const size_t n = s->bytes[k] / each;
        const float *block[YK_MAX_GROUPS] = {0}, *at = (const float *)(const void *)(key + n);
        for (int g = 0; g < yk_local_groups(local); g++) {
            if (!yk_local_group_of(local, g)->keyed)
                continue;
            block[g] = at;
            at += n * (size_t)yk_copy_arrays(local, g) * yk_local_group_of(local, g)->width;
        }
        yk_copy_sums_add(&s->sums, key, n, block);
    }
    const yk_copy_keys keys = {s->sums.keys.key, 0, s->sums.keys.n, s->sums.capacity};
    for (int g = 0; g < yk_local_groups(local); g++)
        if (yk_local_group_of(local, g)->keyed) {
            yk_exchange_count_values(s->config.exchange, g,
                                     bytes / each * (size_t)yk_copy_arrays(local, g) *
                                         yk_local_group_of(local, g)->width);
            yk_copy_add(local, g, &keys, s->sums.group[g].sum, ranks, s->step + steps);
        }
    return YK_OK;
}

static yk_status merge(yk__sgd *s, uint64_t steps)
{
    yk_local *local = s->config.local;
    yk_status st = s->keyed ? merge_keyed(s, steps) : YK_OK;
    for (int g = 0; g < yk_local_groups(local); g++) {
        const yk_group *group = yk_local_group_of(local, g);
        for (int a = 0; !st && !group->keyed && a < yk_copy_arrays(local, g); a++)
            st = yk_exchange_mean(s->config.exchange, yk_copy_array(local, g, a), yk_group_floats(group));
    }
    return st;
}

static yk_status end(yk__sgd *s)
{
    yk_phases *phases = s->config.phases;
    yk_round round;
    yk_phase_to(phases, YK_PHASE_SENDING);
    yk_status st = yk_exchange_headers(s->config.exchange, s->totals.examples, s->totals.loss,
                                       s->totals.action, s->totals.steps, &round);
    if (!st && round.examples)
        st = merge(s, round.steps);
    if (st)
        return st;
    s->step += round.steps;
    yk_local_restore(s->config.local, s->step); /* some ranks had fewer batches than others */
    yk_exchange_end_round(s->config.exchange, &round, phases);
    s->result = (yk_step_result){.examples = round.examples,
                                 .loss = round.loss,
                                 .steps = round.steps,
                                 .action = (yk_action)round.action};
    return YK_OK;
}

const yk__sgd_ops yk__sgd_replicas = {.create = create, .free = free_all, .end = end, .keys = add_keys};
