#include "base/mem.h"
#include "base/perm.h"
#include "base/rows.h"
#include "base/thread.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    const yk_rows *from;
    yk_rows *to;
    yk_perm order;
    int workers;
} mixing;

/* Rows of this worker's part of the new order. */
static yk_status copy_part(void *context, int me)
{
    enum { AHEAD = 8 };
    const mixing *m = context;
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
        if (from->truth)
            to->truth[i] = from->truth[r];
        to->label[i] = from->label[r];
    }
    return YK_OK;
}

yk_status yk_rows_mix(yk_rows *rows, uint64_t seed)
{
    if (rows->n < 2)
        return YK_OK;
    const size_t n = rows->n, entries = (size_t)rows->start[n];
    yk_rows to = *rows;
    yk_team *team = NULL;
    mixing m = {.from = rows, .to = &to, .order = yk_perm_make(n, seed)};
    const int cores = yk_cores();
    m.workers = n < 4096 ? 1 : cores < 16 ? cores : 16;
    to.spare = NULL;
    to.spare_cap = 0;
    to.start = malloc((n + 1) * sizeof *to.start);
    to.index = malloc((entries + 1) * sizeof *to.index);
    to.value = rows->value ? malloc((entries + 1) * sizeof *to.value) : NULL;
    to.label = malloc(n * sizeof *to.label);
    to.truth = rows->truth ? malloc(n * sizeof *to.truth) : NULL;
    to.start_cap = n + 1;
    to.entry_cap = entries + 1;
    to.value_cap = to.value ? entries + 1 : 0;
    to.label_cap = n;
    to.truth_cap = to.truth ? n : 0;
    yk_status st =
        to.start && to.index && (to.value || !rows->value) && to.label && (to.truth || !rows->truth)
            ? yk_team_create(m.workers, &team)
            : yk_fail_memory(entries * 8, "mixing the examples");
    if (!st) {
        to.start[0] = 0;
        for (size_t i = 0; i < n; i++)
            to.start[i + 1] = to.start[i] + yk_rows_entries(rows, (size_t)yk_perm_at(&m.order, i));
        st = yk_team_run(team, copy_part, &m);
    }
    yk_team_free(team);
    yk_rows_fini(st ? &to : rows);
    if (!st)
        *rows = to;
    return st;
}
