#include "core/grad.h"

yk_status yk_grad_merge(const yk_group_grad *g, yk_merger *m)
{
    const yk_rows *rows = g->rows.rows;
    size_t max = 1;
    for (size_t i = 0; i < g->rows.n; i++)
        max += yk_rows_entries(rows, g->rows.pick[i]);
    yk_status st = yk_merger_reserve(m, max);
    if (st)
        return st;
    float bias = 0.0f;
    for (size_t i = 0; i < g->rows.n; i++) {
        const uint64_t begin = rows->start[g->rows.pick[i]], end = rows->start[g->rows.pick[i] + 1];
        bias += g->err[i];
        yk_merger_add_all(m, rows->index + begin, rows->value ? rows->value + begin : NULL, g->err[i],
                          end - begin);
    }
    if (g->bias && g->rows.n)
        yk_merger_add(m, g->bias_key, bias);
    return YK_OK;
}
