#include "data/assignment.h"

#include "base/mem.h"
#include "core/plan.h"
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 2048, HEAD = 3 };

void yk_assignment_init(yk_assignment *a, uint64_t examples, uint64_t epochs, uint64_t steps, uint64_t batch,
                        int workers, uint64_t chunk_rows)
{
    uint64_t fair = examples / (8 * (uint64_t)workers), n = LONGEST;
    n = n > fair ? fair : n; /* short enough that others do not wait for the last leases */
    n = n < 1 ? 1 : n;
    *a = (yk_assignment){.examples = examples, .epochs = epochs, .batch = batch, .steps_left = steps};
    a->longest = YK_ROUND_UP(n, batch);
    if (chunk_rows) /* several chunks: a request for a lease may queue behind parameters */
        a->longest = chunk_rows * (fair > 8 * chunk_rows ? 8 : fair > chunk_rows ? fair / chunk_rows : 1);
    a->chunk_rows = chunk_rows;
}

void yk_assignment_fini(yk_assignment *a)
{
    free(a->returned);
    free(a->held);
    *a = (yk_assignment){0};
}

static uint64_t steps_of(const yk_assignment *a, yk_lease r)
{
    return (r.end - r.begin + a->batch - 1) / a->batch;
}

static yk_status put_back(yk_assignment *a, yk_lease r)
{
    if (YK_RESERVE(a->returned, a->returned_cap, a->nreturned + 1, "returned leases"))
        return YK_ESYSTEM;
    a->returned[a->nreturned++] = r;
    return YK_OK;
}

yk_status yk_assignment_lease(yk_assignment *a, int worker, yk_lease *out)
{
    if (YK_RESERVE(a->held, a->held_cap, a->nheld + 1, "leases"))
        return YK_ESYSTEM;
    *out = (yk_lease){0};
    if (a->steps_left && a->nreturned) {
        *out = a->returned[--a->nreturned];
    } else if (a->steps_left && a->next_epoch < a->epochs && a->examples) {
        *out = (yk_lease){a->next_epoch, a->next_at, a->next_at + a->longest};
        a->next_at = out->end;
        if (out->end >= a->examples) {
            out->end = a->examples;
            a->next_epoch++;
            a->next_at = 0;
        }
    }
    if (steps_of(a, *out) > a->steps_left) { /* the rest is for a run that continues with more steps */
        const yk_lease rest = {out->epoch, out->begin + a->steps_left * a->batch, out->end};
        yk_status st = put_back(a, rest);
        if (st)
            return st;
        out->end = rest.begin;
    }
    if (a->steps_left != UINT64_MAX)
        a->steps_left -= steps_of(a, *out);
    if (out->begin < out->end)
        a->held[a->nheld++] = (struct yk_leased){worker, *out};
    return YK_OK;
}

/* The oldest lease of a worker; NULL: it has none. */
static struct yk_leased *held_by(const yk_assignment *a, int worker)
{
    for (size_t i = 0; i < a->nheld; i++)
        if (a->held[i].worker == worker)
            return &a->held[i];
    return NULL;
}

static void remove_lease(yk_assignment *a, struct yk_leased *h)
{
    a->nheld--;
    memmove(h, h + 1, (size_t)(a->held + a->nheld - h) * sizeof *h);
}

void yk_assignment_used(yk_assignment *a, int worker, uint64_t examples)
{
    for (struct yk_leased *h; examples && (h = held_by(a, worker));) {
        yk_lease *r = &h->lease;
        const uint64_t n = examples < r->end - r->begin ? examples : r->end - r->begin;
        r->begin += n;
        examples -= n;
        if (r->begin == r->end)
            remove_lease(a, h);
    }
}

yk_status yk_assignment_return(yk_assignment *a, int worker, uint64_t *examples_out)
{
    *examples_out = 0;
    for (struct yk_leased *h; (h = held_by(a, worker)); remove_lease(a, h)) {
        yk_status st = put_back(a, h->lease);
        if (st)
            return st;
        *examples_out += h->lease.end - h->lease.begin;
        if (a->steps_left != UINT64_MAX)
            a->steps_left += steps_of(a, h->lease);
    }
    return YK_OK;
}

bool yk_assignment_done(const yk_assignment *a)
{
    return a->nheld == 0 && (a->steps_left == 0 || (a->nreturned == 0 && a->next_epoch >= a->epochs));
}

yk_status yk_assignment_cursor(const yk_assignment *a, uint64_t **out, size_t *n_out)
{
    const size_t leases = a->nreturned + a->nheld;
    *n_out = HEAD + 3 * leases;
    uint64_t *to = *out = yk_alloc(*n_out, sizeof *to, "the data cursor");
    if (!to)
        return YK_ESYSTEM;
    *to++ = YK_CURSOR_LEASE | a->chunk_rows << YK_CURSOR_CHUNK_SHIFT;
    *to++ = a->next_epoch;
    *to++ = a->next_at;
    for (size_t i = 0; i < leases; i++, to += 3) {
        const yk_lease *r = i < a->nreturned ? &a->returned[i] : &a->held[i - a->nreturned].lease;
        memcpy(to, (uint64_t[3]){r->epoch, r->begin, r->end}, 3 * sizeof *to);
    }
    return YK_OK;
}

yk_status yk_assignment_cursor_restore(yk_assignment *a, const uint64_t *cursor, size_t n)
{
    const size_t leases = n < HEAD ? 0 : (n - HEAD) / 3;
    const uint64_t kind = n < HEAD ? 0 : cursor[0] & ((1u << YK_CURSOR_CHUNK_SHIFT) - 1);
    if (n < HEAD || n != HEAD + 3 * leases || kind > YK_CURSOR_LEASE || cursor[2] > a->examples ||
        cursor[0] >> YK_CURSOR_CHUNK_SHIFT > a->examples)
        return yk_fail(YK_EDATA, "the checkpoint's data cursor does not fit this data set of %llu examples",
                       (unsigned long long)a->examples);
    /* in rounds, the next epoch begins only after one without examples */
    const bool used_up = cursor[2] == a->examples;
    a->next_epoch = cursor[1] + used_up;
    a->next_at = used_up ? 0 : cursor[2];
    a->chunk_rows = cursor[0] >> YK_CURSOR_CHUNK_SHIFT; /* continues the order of that epoch */
    if (YK_RESERVE(a->returned, a->returned_cap, leases + 1, "the data cursor"))
        return YK_ESYSTEM;
    a->nreturned = a->nheld = 0;
    for (const uint64_t *p = cursor + HEAD; p < cursor + n; p += 3)
        if (p[1] < p[2] && p[2] <= a->examples)
            a->returned[a->nreturned++] = (yk_lease){p[0], p[1], p[2]};
    return YK_OK;
}
