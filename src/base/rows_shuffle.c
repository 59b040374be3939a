/* Shuffles sparse rows (rows.h): each thread copies its part of the new order. */
#include "base/mem.h"
#include "base/perm.h"
#include "base/rows.h"
#include "base/team.h"
#include <string.h>

typedef struct {
    const yk_rows *from;
    yk_rows *to;
    yk_perm order;
    int workers;
} shuffle;

/* Copies this thread's part of the new order. */
static yk_status copy_part(void *context, int me)
{
    enum { AHEAD = 8 };
    const shuffle *m = context;
    const yk_rows *from = m->from;
    yk_rows *to = m->to;
    const size_t begin = from->n * (size_t)me / (size_t)m->workers,
                 end = from->n * ((size_t)me + 1) / (size_t)m->workers;
    for (size_t i = begin; i < end; i++) {
        if (i + AHEAD < end) {
            const uint64_t far = from->start[yk_perm_at(&m->order, i + AHEAD)];
            __builtin_prefetch(from->index + far);
            __builtin_prefetch(from->index + far + 16);
            __builtin_prefetch(from->index + far + 32);
        }
        const size_t r = (size_t)yk_perm_at(&m->order, i), n = yk_rows_entries(from, r);
        memcpy(to->index + to->start[i], from->index + from->start[r], n * sizeof *to->index);
        if (from->value)
            memcpy(to->value + to->start[i], from->value + from->start[r], n * sizeof *to->value);
        if (from->field)
            memcpy(to->field + to->start[i], from->field + from->start[r], n * sizeof *to->field);
        if (from->truth)
            to->truth[i] = from->truth[r];
        to->label[i] = from->label[r];
    }
    return YK_OK;
}

yk_status yk_rows_shuffled_copy(const yk_rows *from, uint64_t seed, yk_rows *out)
{
    const size_t n = from->n;
    const int cores = yk_cores();
    yk_team *team = NULL;
    shuffle m = {.from = from, .to = out, .order = yk_perm_make(n, seed)};
    m.workers = n < 4096 ? 1 : cores < 16 ? cores : 16;
    yk_status st = yk__rows_like(from, out);
    if (st)
        return st;
    st = yk_team_create(m.workers, &team);
    if (!st) {
        out->start[0] = 0;
        for (size_t i = 0; i < n; i++)
            out->start[i + 1] = out->start[i] + yk_rows_entries(from, (size_t)yk_perm_at(&m.order, i));
        st = yk_team_run(team, copy_part, &m);
    }
    yk_team_free(team);
    if (st)
        yk_rows_fini(out);
    else
        out->n = n;
    return st;
}

yk_status yk_rows_shuffle(yk_rows *rows, uint64_t seed)
{
    yk_rows to;
    if (rows->n < 2)
        return YK_OK;
    const yk_status st = yk_rows_shuffled_copy(rows, seed, &to);
    if (st)
        return st;
    yk_rows_fini(rows);
    *rows = to;
    return YK_OK;
}
