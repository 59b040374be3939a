#include "model/packed.h"

#include "base/mem.h"
#include <stdlib.h>

yk_status yk__packed_init(yk__packed *p, yk_rows_kind kind, size_t dim, size_t max_batch)
{
    *p = (yk__packed){.kern = yk_matrix()};
    if (kind == YK_ROWS_SPARSE)
        return YK_OK;
    yk_rows_init(&p->rows, YK_ROWS_SPARSE, 0);
    const size_t entries = max_batch * dim + 16;
    p->pick = calloc(max_batch, sizeof *p->pick);
    p->rows.start = calloc(max_batch + 1, sizeof *p->rows.start);
    p->rows.label = calloc(max_batch, sizeof *p->rows.label);
    p->rows.index = malloc(entries * sizeof *p->rows.index);
    p->rows.value = malloc(entries * sizeof *p->rows.value);
    if (!p->pick || !p->rows.start || !p->rows.label || !p->rows.index || !p->rows.value) {
        yk__packed_fini(p);
        return yk_fail_memory(entries * 8, "a batch of sparse rows");
    }
    for (size_t i = 0; i < max_batch; i++)
        p->pick[i] = (uint32_t)i;
    return YK_OK;
}

void yk__packed_fini(yk__packed *p)
{
    yk_rows_fini(&p->rows);
    free(p->pick);
    p->pick = NULL; /* a failed init has freed it already */
}

yk_batch yk__packed_batch(yk__packed *p, const yk_batch *b)
{
    if (b->rows->kind == YK_ROWS_SPARSE)
        return *b;
    p->kern->pack(b, &p->rows);
    return (yk_batch){&p->rows, p->pick, b->n, 0};
}
