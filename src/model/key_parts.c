#include "model/key_parts.h"

#include "base/mem.h"
#include "base/team.h"
#include "kern/isa.h"
#include <stdlib.h>
#include <string.h>

struct yk__key_part {
    _Alignas(YK_ALIGN) size_t begin, end; /* its rows */
    /* Their entries, by owner: those of owner o are start[o] .. start[o + 1] - 1. A thread that is alone has no copies:
     * start[i] is the number of entries before row i. */
    yk_rows entries;
    uint32_t *row; /* [entries] in the batch */
    size_t row_cap;
    yk_merger keys; /* that it owns */
    uint32_t *slot; /* [nslots] of each entry with these keys: the index in keys.key[] */
    size_t nslots, slot_cap;
    size_t first; /* keys of the owners before it */
    yk_status sorted, found;
};

static const char what[] = "the keys of a batch";

yk_status yk__key_parts_init(yk__key_parts *p, yk_arena *memory, int threads, size_t max_batch)
{
    *p = (yk__key_parts){.threads = threads};
    p->part = yk_arena_alloc(memory, (size_t)threads, sizeof *p->part, what);
    p->count = yk_arena_alloc(memory, max_batch, sizeof *p->count, what);
    yk_status st = memory->status;
    for (size_t i = 0; !st && i < max_batch; i++)
        p->count[i] = (uint32_t)i;
    return st;
}

void yk__key_parts_fini(yk__key_parts *p)
{
    for (int i = 0; p->part && i < p->threads; i++) {
        yk__key_part *own = &p->part[i];
        yk_rows_fini(&own->entries);
        free(own->row);
        free(own->slot);
        yk_merger_fini(&own->keys);
    }
}

void yk__key_parts_begin(yk__key_parts *p, const yk_batch *batch, int used)
{
    p->batch = batch;
    p->used = used;
}

void yk__key_parts_rows(const yk__key_parts *p, int me, size_t *begin_out, size_t *end_out)
{
    *begin_out = 0;
    *end_out = p->batch->n;
    yk_part_of_range(begin_out, end_out, 4, me, p->used);
}

/* The keys of a cache line of parameters have one owner: then no other thread writes to this line. But the first keys, which are
 * often the most frequent ones (core/keymap.h), are divided individually; so are all keys, if one thread had twice its share of a
 * batch. */
static size_t owner_of(const yk__key_parts *p, uint32_t key)
{
    enum { FIRST = 256, LINE = 16 };
    const uint32_t unit = key < FIRST || p->uneven ? key : FIRST + key / LINE;
    return (size_t)((uint64_t)(unit * 0x9e3779b1u) * (uint32_t)p->used >> 32);
}

static yk_status reserve_values(yk__key_part *own, const yk_rows *rows, size_t entries)
{
    yk_rows *to = &own->entries;
    return (rows->value && YK_RESERVE(to->value, to->cap[YK_ROWS_VALUE], entries + 1, what)) ||
                   (rows->field && YK_RESERVE(to->field, to->cap[YK_ROWS_FIELD], entries + 1, what))
               ? YK_ESYSTEM
               : YK_OK;
}

/* Counts the entries of the rows before each of them, and prefetches them. */
static yk_status count_entries(yk__key_part *own, const yk_rows *rows, const uint32_t *pick, int owners)
{
    enum { LINE = 16 }; /* keys in a cache line */
    yk_rows *to = &own->entries;
    const size_t n = own->end - own->begin;
    size_t entries = 0;
    if (YK_RESERVE(to->start, to->cap[YK_ROWS_START], n + (size_t)owners + 2, what))
        return YK_ESYSTEM;
    for (size_t i = 0; i < n; i++) {
        to->start[i] = entries;
        entries += yk_rows_entries(rows, pick[i]);
        for (uint64_t e = rows->start[pick[i]]; e < rows->start[pick[i] + 1]; e += LINE)
            __builtin_prefetch(rows->index + e);
    }
    to->start[n] = entries;
    return YK_OK;
}

/* A stable counting sort. */
void yk__key_parts_sort(yk__key_parts *p, int me)
{
    yk__key_part *own = &p->part[me];
    const yk_rows *rows = p->batch->rows;
    yk_rows *const to = &own->entries;
    yk__key_parts_rows(p, me, &own->begin, &own->end);
    const uint32_t *pick = p->batch->pick + own->begin;
    const size_t n = own->end - own->begin, owners = (size_t)p->used;
    if ((own->sorted = count_entries(own, rows, pick, p->used)) || owners == 1)
        return;
    const size_t entries = to->start[n];
    if ((own->sorted = YK_RESERVE(to->index, to->cap[YK_ROWS_INDEX], entries + 1, what)) ||
        (own->sorted = YK_RESERVE(own->row, own->row_cap, entries + 1, what)) ||
        (own->sorted = reserve_values(own, rows, entries)))
        return;
    uint64_t *const next = to->start + 1; /* [owner]: where its first entry is, then where its next one is */
    memset(to->start, 0, (owners + 2) * sizeof *to->start);
    for (size_t i = 0; i < n; i++)
        for (uint64_t e = rows->start[pick[i]]; e < rows->start[pick[i] + 1]; e++)
            next[owner_of(p, rows->index[e]) + 1]++;
    for (size_t o = 0; o < owners; o++)
        next[o + 1] += next[o];
    for (size_t i = 0; i < n; i++)
        for (uint64_t e = rows->start[pick[i]]; e < rows->start[pick[i] + 1]; e++) {
            const uint64_t at = next[owner_of(p, rows->index[e])]++;
            to->index[at] = rows->index[e];
            own->row[at] = (uint32_t)(own->begin + i);
            if (rows->value)
                to->value[at] = rows->value[e];
            if (rows->field)
                to->field[at] = rows->field[e];
        }
}

static size_t entries_of(const yk__key_parts *p, const yk__key_part *part, int owner)
{
    const uint64_t *start = part->entries.start;
    return p->used == 1 ? start[part->end - part->begin] : start[owner + 1] - start[owner];
}

static yk_status find(const yk__key_parts *p, int me)
{
    yk__key_part *own = &p->part[me];
    own->nslots = 0;
    for (int i = 0; i < p->used; i++) {
        if (p->part[i].sorted)
            return p->part[i].sorted;
        own->nslots += entries_of(p, &p->part[i], me);
    }
    if (yk_merger_reserve(&own->keys, own->nslots + 1) ||
        YK_RESERVE(own->slot, own->slot_cap, own->nslots + 1, what))
        return YK_ESYSTEM;
    uint32_t *slot = own->slot;
    for (int i = 0; p->used > 1 && i < p->used; i++) {
        const yk__key_part *part = &p->part[i];
        yk_merger_slots(&own->keys, part->entries.index + part->entries.start[me], entries_of(p, part, me),
                        slot);
        slot += entries_of(p, part, me);
    }
    const yk_batch *b = p->batch;
    for (size_t i = 0; p->used == 1 && i < b->n; i++)
        yk_merger_slots(&own->keys, b->rows->index + b->rows->start[b->pick[i]],
                        yk_rows_entries(b->rows, b->pick[i]), slot + own->entries.start[i]);
    return YK_OK;
}

void yk__key_parts_find(yk__key_parts *p, int me)
{
    p->part[me].found = find(p, me);
}

yk_status yk__key_parts_number(yk__key_parts *p)
{
    size_t entries = 0, most = 0;
    p->n = 0;
    for (int i = 0; i < p->used; i++) {
        yk__key_part *part = &p->part[i];
        if (part->found) /* its message is in another thread */
            return yk_fail(YK_ESYSTEM, "out of memory: %s of %zu examples", what, p->batch->n);
        part->first = p->n;
        p->n += part->keys.n;
        entries += part->nslots;
        most = part->nslots > most ? part->nslots : most;
    }
    p->uneven |= entries > 64 * (size_t)p->used && most * (size_t)p->used > 2 * entries;
    return YK_OK;
}

const yk_merger *yk__key_parts_own(const yk__key_parts *p, int me, size_t *first_out)
{
    *first_out = p->part[me].first;
    return &p->part[me].keys;
}

/* Of sorted numbers from .. to - 1: the first one that is at least `least`, or `to`. */
static size_t find_row(const uint32_t *row, size_t from, size_t to, size_t least)
{
    while (from < to) {
        const size_t middle = from + (to - from) / 2;
        if (row[middle] < least)
            from = middle + 1;
        else
            to = middle;
    }
    return to;
}

void yk__key_parts_each(const yk__key_parts *p, int me, size_t begin, size_t end,
                        void (*add)(void *context, const yk__key_share *s), void *context)
{
    const yk_batch *b = p->batch;
    const uint32_t *slot = p->part[me].slot;
    if (p->used == 1)
        add(context, &(yk__key_share){yk_batch_part(b, begin, end - begin), NULL,
                                      slot + p->part[0].entries.start[begin]});
    for (int i = 0; p->used > 1 && i < p->used; i++) {
        const yk__key_part *part = &p->part[i];
        const size_t first = part->entries.start[me], all = entries_of(p, part, me),
                     from = find_row(part->row, first, first + all, begin),
                     to = find_row(part->row, from, first + all, end);
        const yk_rows list = {.index = part->entries.index + from,
                              .value = b->rows->value ? part->entries.value + from : NULL,
                              .field = b->rows->field ? part->entries.field + from : NULL};
        const yk__key_share s = {{.rows = &list, .n = to - from}, part->row + from, slot + (from - first)};
        add(context, &s);
        slot += all;
    }
}

yk_status yk__key_parts_renumber(yk__key_parts *p)
{
    yk__key_part *own = &p->part[0];
    yk_rows *const to = &own->entries;
    const yk_rows *rows = p->batch->rows;
    const size_t n = p->batch->n;
    if (reserve_values(own, rows, to->start[n]))
        return YK_ESYSTEM;
    for (size_t i = 0; i < n; i++) {
        const uint64_t from = rows->start[p->batch->pick[i]], at = to->start[i],
                       count = to->start[i + 1] - at;
        if (rows->value)
            memcpy(to->value + at, rows->value + from, count * sizeof *to->value);
        if (rows->field)
            memcpy(to->field + at, rows->field + from, count * sizeof *to->field);
    }
    p->rows = (yk_rows){.kind = YK_ROWS_SPARSE,
                        .n = n,
                        .dim = p->n,
                        .start = to->start,
                        .index = own->slot,
                        .value = rows->value ? to->value : NULL,
                        .field = rows->field ? to->field : NULL};
    p->renumbered = (yk_batch){.rows = &p->rows, .pick = p->count, .n = n};
    p->batch = &p->renumbered;
    return YK_OK;
}

YK_RACY void yk__key_parts_copy(const yk__key_parts *p, int me, const yk_view *v, uint32_t width, float *out)
{
    enum { AHEAD = 16, LINE = 16 }; /* keys; floats */
    const yk_merger *own = &p->part[me].keys;
    float *to = out + p->part[me].first * width;
    for (size_t k = 0; k < own->n; k++, to += width) {
        const float *from = yk_view_wide(v, own->key[k], width),
                    *far = yk_view_wide(v, own->key[k + AHEAD < own->n ? k + AHEAD : own->n - 1], width);
        for (uint32_t j = 0; j < width; j += LINE)
            __builtin_prefetch(far + j, 1); /* the update writes to them soon */
        if (width == 8)
            memcpy(to, from, 8 * sizeof *to);
        else
            for (uint32_t j = 0; j < width; j++)
                to[j] = from[j];
    }
}
