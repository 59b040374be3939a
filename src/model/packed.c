#include "model/packed.h"

void yk__packed_init(yk__packed *p, yk_arena *memory, yk_rows_kind kind, size_t dim, size_t max_batch)
{
    static const char what[] = "a batch of sparse rows";
    *p = (yk__packed){.kern = yk_matrix()};
    if (kind == YK_ROWS_SPARSE)
        return;
    const size_t entries = max_batch * dim + 16;
    p->pick = yk_arena_alloc(memory, max_batch, sizeof *p->pick, what);
    p->rows = (yk_rows){.kind = YK_ROWS_SPARSE,
                        .start = yk_arena_alloc(memory, max_batch + 1, sizeof *p->rows.start, what),
                        .label = yk_arena_alloc(memory, max_batch, sizeof *p->rows.label, what),
                        .index = yk_arena_alloc(memory, entries, sizeof *p->rows.index, what),
                        .value = yk_arena_alloc(memory, entries, sizeof *p->rows.value, what)};
    for (size_t i = 0; p->pick && i < max_batch; i++)
        p->pick[i] = (uint32_t)i;
}

yk_batch yk__packed_batch(yk__packed *p, const yk_batch *b)
{
    if (b->rows->kind == YK_ROWS_SPARSE)
        return *b;
    p->kern->pack(b, &p->rows);
    return (yk_batch){&p->rows, p->pick, b->n, 0};
}
