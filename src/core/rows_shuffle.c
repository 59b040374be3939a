/* Shuffles sparse rows (rows.h): each thread copies its part of the new order. */
#include "base/perm.h"
#include "base/team.h"
#include "core/rows.h"
#include <stdlib.h>
#include <string.h>

enum { STRIDE = 64 };

typedef struct {
    const yk_rows *block;
    size_t *first;      /* [blocks + 1]: the number of the first row of each block */
    uint32_t *block_of; /* [n / STRIDE + 1]: the block of each STRIDE-th row */
    yk_rows *to;
    yk_perm order;
    yk_team *team;
    int workers;
    uint64_t entries[YK_MAX_THREADS]; /* of the part of each worker */
} shuffle;

/* The block of row i of the new order. *r_out: its number there. */
static inline const yk_rows *find_row(const shuffle *m, size_t i, size_t *r_out)
{
    const size_t r = (size_t)yk_perm_at(&m->order, i);
    size_t b = m->block_of[r / STRIDE];
    while (r >= m->first[b + 1])
        b++;
    *r_out = r - m->first[b];
    return m->block + b;
}

/* Row r becomes row i of `to`, with its entries from `at` on. */
static void copy_row(const yk_rows *from, size_t r, yk_rows *to, size_t i, size_t at)
{
    const size_t n = yk_rows_entries(from, r);
    const uint64_t first = from->start[r];
    memcpy(to->index + at, from->index + first, n * sizeof *to->index);
    if (from->value)
        memcpy(to->value + at, from->value + first, n * sizeof *to->value);
    else if (to->value)
        for (size_t e = 0; e < n; e++)
            to->value[at + e] = 1.0f;
    if (from->field)
        memcpy(to->field + at, from->field + first, n * sizeof *to->field);
    else if (to->field)
        memset(to->field + at, 0, n * sizeof *to->field);
    if (to->truth)
        to->truth[i] = from->truth[r];
    if (to->weight)
        to->weight[i] = yk_rows_weight(from, r);
    if (to->target)
        to->target[i] = yk_rows_target(from, r);
    to->label[i] = from->label[r];
}

/* The next rows. Each is looked up, then its start is read, then it is copied. The memory for each of these stages is prefetched AHEAD
 * rows earlier, by the stage before it. */
enum { AHEAD = 8 };
typedef struct {
    const yk_rows *from;
    size_t r;
} upcoming[4 * AHEAD];

static inline void look_up(const shuffle *m, upcoming c, size_t i)
{
    const size_t k = i % (4 * AHEAD);
    c[k].from = find_row(m, i, &c[k].r);
    __builtin_prefetch(c[k].from->start + c[k].r);
    __builtin_prefetch(c[k].from->label + c[k].r);
}

static inline void prefetch_row(const upcoming c, size_t i)
{
    const yk_rows *from = c[i % (4 * AHEAD)].from;
    const size_t r = c[i % (4 * AHEAD)].r;
    for (uint64_t e = from->start[r]; e < from->start[r + 1] && e < from->start[r] + 48; e += 16) {
        __builtin_prefetch(from->index + e);
        if (from->value)
            __builtin_prefetch(from->value + e);
    }
    if (from->start[r + 1]) { /* the last entry may be in one more cache line */
        __builtin_prefetch(from->index + from->start[r + 1] - 1);
        if (from->value)
            __builtin_prefetch(from->value + from->start[r + 1] - 1);
    }
}

/* Sets start[i + 1] for rows begin to end - 1. Returns YK_OK when all threads have done so. */
static yk_status set_starts(shuffle *m, int me, size_t begin, size_t end)
{
    yk_rows *to = m->to;
    upcoming c;
    uint64_t sum = 0;
    for (size_t i = begin; i < end + AHEAD; i++) {
        if (i < end)
            look_up(m, c, i);
        if (i >= begin + AHEAD) {
            const size_t k = (i - AHEAD) % (4 * AHEAD);
            to->start[i - AHEAD + 1] = sum += yk_rows_entries(c[k].from, c[k].r);
        }
    }
    m->entries[me] = sum;
    yk_status st = yk_team_barrier(m->team, me);
    sum = 0;
    for (int w = 0; w < me && !st; w++)
        sum += m->entries[w];
    for (size_t i = begin; i < end; i++)
        to->start[i + 1] += sum;
    return st ? st : yk_team_barrier(m->team, me);
}

/* Copies this thread's part of the new order. */
static yk_status copy_part(void *context, int me)
{
    shuffle *m = context;
    const size_t begin = m->to->n * (size_t)me / (size_t)m->workers,
                 end = m->to->n * ((size_t)me + 1) / (size_t)m->workers;
    const yk_status st = set_starts(m, me, begin, end);
    upcoming c;
    for (size_t i = begin; i < end + 2 * AHEAD && !st; i++) {
        if (i < end)
            look_up(m, c, i);
        if (i >= begin + AHEAD && i < end + AHEAD)
            prefetch_row(c, i - AHEAD);
        if (i >= begin + 2 * AHEAD) {
            const size_t k = (i - 2 * AHEAD) % (4 * AHEAD);
            copy_row(c[k].from, c[k].r, m->to, i - 2 * AHEAD, (size_t)m->to->start[i - 2 * AHEAD]);
        }
    }
    return st;
}

/* The arrays that a copy has if some of its rows have them. Probabilities are known for all rows, or not at all. */
static unsigned arrays_of(const yk_rows *rows)
{
    return yk_rows_arrays(rows) & ~(1u << YK_ROWS_TRUTH);
}

yk_status yk_rows_append_picked(yk_rows *to, const yk_rows *from, const uint32_t *pick, size_t n)
{
    size_t at = to->n ? (size_t)to->start[to->n] : 0, entries = at;
    for (size_t i = 0; i < n; i++)
        entries += yk_rows_entries(from, pick[i]);
    yk_status st = yk__rows_reserve(to, to->n + n, entries + 16, arrays_of(to) | arrays_of(from));
    if (st)
        return st;
    for (size_t i = 0; i < n; i++, to->n++) {
        to->start[to->n] = at;
        copy_row(from, pick[i], to, to->n, at);
        at += yk_rows_entries(from, pick[i]);
    }
    to->start[to->n] = at;
    to->dim = from->dim > to->dim ? from->dim : to->dim;
    return YK_OK;
}

/* Sets m->first and m->block_of, and allocates memory for all rows. */
static yk_status prepare(shuffle *m, size_t blocks, yk_rows *out)
{
    unsigned arrays = 1 << YK_ROWS_TRUTH;
    size_t n = 0, entries = 0, dim = 0;
    if (!(m->first = malloc((blocks + 1) * sizeof *m->first)))
        return yk_fail_memory((blocks + 1) * sizeof *m->first, "shuffling rows");
    for (size_t b = 0; b < blocks; b++) {
        const yk_rows *from = m->block + b;
        m->first[b] = n;
        n += from->n;
        entries += from->n ? (size_t)(from->start[from->n] - from->start[0]) : 0;
        dim = from->dim > dim ? from->dim : dim;
        arrays |= arrays_of(from);
        if (!from->truth && from->n)
            arrays &= ~(1u << YK_ROWS_TRUTH);
    }
    m->first[blocks] = n;
    if (!(m->block_of = malloc((n / STRIDE + 1) * sizeof *m->block_of)))
        return yk_fail_memory((n / STRIDE + 1) * sizeof *m->block_of, "shuffling rows");
    for (size_t r = 0, b = 0; r < n; r += STRIDE) {
        while (r >= m->first[b + 1])
            b++;
        m->block_of[r / STRIDE] = (uint32_t)b;
    }
    yk_rows_init(out, YK_ROWS_SPARSE, dim);
    return yk__rows_reserve(out, n, entries, arrays);
}

yk_status yk_rows_shuffled_copy(const yk_rows *blocks, size_t n, uint64_t seed, yk_rows *out)
{
    shuffle m = {.block = blocks, .to = out};
    *out = (yk_rows){0};
    yk_status st = prepare(&m, n, out);
    if (!st) {
        out->n = m.first[n];
        out->start[0] = 0;
        m.order = yk_perm_make(out->n, seed);
        m.workers = yk_cores_for(out->n / 4096 + 1);
        st = yk_team_create(m.workers, &m.team);
    }
    if (!st)
        st = yk_team_run(m.team, copy_part, &m);
    yk_team_free(m.team);
    free(m.first);
    free(m.block_of);
    if (st)
        yk_rows_fini(out);
    return st;
}

/* ---- rows that go to their places while they are read: row i begins at entry i * width, and start[i + 1] is its length, until
 * yk_scatter_end() closes the gaps */

yk_status yk_scatter_init(yk_scatter *s, const yk_rows *like, size_t n, size_t width, uint64_t seed,
                          yk_rows *out)
{
    *s = (yk_scatter){yk_perm_make(n, seed), width, out};
    yk_rows_init(out, YK_ROWS_SPARSE, like->dim);
    const yk_status st = yk__rows_reserve(out, n, n * width, arrays_of(like));
    if (st)
        yk_rows_fini(out);
    else
        out->n = n;
    return st;
}

/* The place of a row, whose memory will be written soon. */
static inline size_t find_place(const yk_scatter *s, size_t row)
{
    enum { LINE = 64 / sizeof(uint32_t) };
    const size_t i = (size_t)yk_perm_find(&s->order, row);
    for (size_t e = i * s->width; e < (i + 1) * s->width; e += LINE) {
        __builtin_prefetch(s->to->index + e, 1);
        if (s->to->value)
            __builtin_prefetch(s->to->value + e, 1);
    }
    return i;
}

bool yk_scatter_put(const yk_scatter *s, const yk_rows *from, size_t first)
{
    if (arrays_of(from) & ~arrays_of(s->to))
        return false;
    size_t place[AHEAD]; /* of the next rows */
    for (size_t r = 0; r < from->n && r < AHEAD; r++)
        place[r] = find_place(s, first + r);
    for (size_t r = 0; r < from->n; r++) {
        const size_t i = place[r % AHEAD];
        if (r + AHEAD < from->n)
            place[r % AHEAD] = find_place(s, first + r + AHEAD);
        copy_row(from, r, s->to, i, i * s->width);
        s->to->start[i + 1] = yk_rows_entries(from, r);
    }
    return true;
}

static void move_entries(yk_rows *rows, size_t to, size_t from, size_t n)
{
    memmove(rows->index + to, rows->index + from, n * sizeof *rows->index);
    if (rows->value)
        memmove(rows->value + to, rows->value + from, n * sizeof *rows->value);
    if (rows->field)
        memmove(rows->field + to, rows->field + from, n * sizeof *rows->field);
}

void yk_scatter_end(yk_scatter *s)
{
    yk_rows *rows = s->to;
    size_t at = 0;
    rows->start[0] = 0;
    for (size_t i = 0; i < rows->n; i++) {
        const size_t n = (size_t)rows->start[i + 1];
        if (at != i * s->width)
            move_entries(rows, at, i * s->width, n);
        rows->start[i + 1] = at += n;
    }
}
