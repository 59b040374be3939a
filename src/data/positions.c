#include "data/positions.h"

#include "base/mem.h"

enum { MAX_FIELDS = UINT16_MAX + 1 };

void yk_positions_init(yk_positions *p, size_t expected)
{
    *p = (yk_positions){.expected = expected};
    yk_mutex_init(&p->lock);
}

void yk_positions_fini(yk_positions *p)
{
    yk_free(p->range);
    yk_mutex_destroy(&p->lock);
}

/* The first row decides the number of positions. Their ranges are empty at first. */
static yk_status begin(yk_positions *p, size_t n)
{
    n = p->expected ? p->expected : n;
    if (n == 0 || n > MAX_FIELDS)
        return yk_fail(YK_EDATA, "a row has %zu entries; it must have 1 to %d", n, MAX_FIELDS);
    if (!(p->range = yk_alloc(n, sizeof *p->range, "fields"))) /* zeros */
        return YK_ESYSTEM;
    for (size_t i = 0; i < n; i++)
        atomic_init(&p->range[i].low, UINT32_MAX);
    atomic_store_explicit(&p->n, n, memory_order_release);
    return YK_OK;
}

/* Extends the ranges by a row whose indices ascend. The lock is held. */
static yk_status extend(yk_positions *p, const uint32_t *index, size_t n)
{
    yk_status st = atomic_load(&p->n) ? YK_OK : begin(p, n);
    if (st)
        return st;
    const size_t want = atomic_load(&p->n);
    if (n != want)
        return yk_fail(YK_EDATA, "a row has %zu entr%s%s %zu", n, n == 1 ? "y" : "ies",
                       p->expected ? " instead of" : ", but rows before it have", want);
    for (size_t i = 0; i < n; i++) {
        const bool low = i && index[i] <= p->range[i - 1].high,
                   high = i + 1 < n && index[i] >= p->range[i + 1].low;
        if (low || high || (i && index[i] == index[i - 1]))
            return yk_fail(YK_EDATA,
                           "index %u (counted from 0) is at position %zu of one row, but in the range of "
                           "position %zu of others",
                           index[i], i + 1, low ? i : i + 2);
    }
    for (size_t i = 0; i < n; i++) {
        if (index[i] < p->range[i].low)
            atomic_store_explicit(&p->range[i].low, index[i], memory_order_relaxed);
        if (index[i] > p->range[i].high)
            atomic_store_explicit(&p->range[i].high, index[i], memory_order_relaxed);
    }
    return YK_OK;
}

yk_status yk_positions_number(yk_positions *p, yk_rows *rows, size_t *row)
{
    uint16_t *unused;
    yk_status st = rows->field || !rows->n ? YK_OK : yk_rows_fields(rows, 0, &unused);
    for (; !st && *row < rows->n; *row += !st) {
        const uint64_t begins = rows->start[*row];
        const uint32_t *index = rows->index + begins;
        const size_t n = yk_rows_entries(rows, *row);
        bool known = n && n == atomic_load_explicit(&p->n, memory_order_acquire);
        for (size_t i = 0; known && i < n; i++) /* within the ranges, so that nothing changes */
            known = index[i] >= atomic_load_explicit(&p->range[i].low, memory_order_relaxed) &&
                    index[i] <= atomic_load_explicit(&p->range[i].high, memory_order_relaxed);
        if (!known) {
            yk_mutex_lock(&p->lock);
            st = extend(p, index, n);
            yk_mutex_unlock(&p->lock);
        }
        for (size_t i = 0; !st && i < n; i++)
            rows->field[begins + i] = (uint16_t)i;
    }
    return st;
}

yk_status yk_positions_number_last(yk_positions *p, yk_rows *rows)
{
    size_t last = rows->n - 1;
    const yk_status st = yk_positions_number(p, rows, &last);
    if (st)
        rows->n--;
    return st;
}
