#include "store/assignment.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 2048, KIND_ASYNC = 2, UNIT_SHIFT = 8, HEAD = 3 };

void yk_assignment_init(yk_assignment *d, uint64_t examples, uint64_t epochs, uint64_t steps, uint64_t batch,
                        int workers, uint64_t unit)
{
    uint64_t fair = examples / (8 * (uint64_t)workers), n = LONGEST;
    n = n > fair ? fair : n; /* short enough that others do not wait for the last leases */
    n = n < 1 ? 1 : n;
    *d = (yk_assignment){.examples = examples, .epochs = epochs, .batch = batch, .steps_left = steps};
    d->longest = YK_ROUND_UP(n, batch);
    if (unit) /* several units: a request for a lease may queue behind parameters */
        d->longest = unit * (fair > 8 * unit ? 8 : fair > unit ? fair / unit : 1);
    d->unit = unit;
}

void yk_assignment_fini(yk_assignment *d)
{
    free(d->returned);
    free(d->held);
    *d = (yk_assignment){0};
}

static uint64_t steps_of(const yk_assignment *d, yk_lease r)
{
    return (r.end - r.begin + d->batch - 1) / d->batch;
}

static yk_lease next_lease(yk_assignment *d)
{
    yk_lease r = {0};
    if (d->nreturned)
        r = d->returned[--d->nreturned];
    else if (d->next_epoch < d->epochs && d->examples) {
        r = (yk_lease){d->next_epoch, d->next_at, d->next_at + d->longest};
        d->next_at = r.end;
        if (r.end >= d->examples) {
            r.end = d->examples;
            d->next_epoch++;
            d->next_at = 0;
        }
    }
    return r;
}

static yk_status put_back(yk_assignment *d, yk_lease r)
{
    if (YK_RESERVE(d->returned, d->returned_cap, d->nreturned + 1, "returned leases"))
        return YK_ESYSTEM;
    d->returned[d->nreturned++] = r;
    return YK_OK;
}

yk_status yk_assignment_lease(yk_assignment *d, int worker, yk_lease *out)
{
    if (YK_RESERVE(d->held, d->held_cap, d->nheld + 1, "leases"))
        return YK_ESYSTEM;
    *out = (yk_lease){0};
    if (d->steps_left)
        *out = next_lease(d);
    if (steps_of(d, *out) > d->steps_left) { /* the rest is for a run that continues with more steps */
        const yk_lease rest = {out->epoch, out->begin + d->steps_left * d->batch, out->end};
        yk_status st = put_back(d, rest);
        if (st)
            return st;
        out->end = rest.begin;
    }
    if (d->steps_left != UINT64_MAX)
        d->steps_left -= steps_of(d, *out);
    if (out->begin < out->end)
        d->held[d->nheld++] = (struct yk_leased){worker, *out};
    return YK_OK;
}

static void remove_lease(yk_assignment *d, size_t i)
{
    memmove(d->held + i, d->held + i + 1, (d->nheld - i - 1) * sizeof *d->held);
    d->nheld--;
}

void yk_assignment_used(yk_assignment *d, int worker, uint64_t examples)
{
    for (size_t i = 0; examples && i < d->nheld;) {
        yk_lease *r = &d->held[i].lease;
        if (d->held[i].worker != worker) {
            i++;
            continue;
        }
        const uint64_t n = examples < r->end - r->begin ? examples : r->end - r->begin;
        r->begin += n;
        examples -= n;
        if (r->begin == r->end)
            remove_lease(d, i);
    }
}

yk_status yk_assignment_return(yk_assignment *d, int worker, uint64_t *examples_out)
{
    *examples_out = 0;
    for (size_t i = 0; i < d->nheld;) {
        if (d->held[i].worker != worker) {
            i++;
            continue;
        }
        yk_status st = put_back(d, d->held[i].lease);
        if (st)
            return st;
        *examples_out += d->held[i].lease.end - d->held[i].lease.begin;
        if (d->steps_left != UINT64_MAX)
            d->steps_left += steps_of(d, d->held[i].lease);
        remove_lease(d, i);
    }
    return YK_OK;
}

bool yk_assignment_done(const yk_assignment *d)
{
    return d->nheld == 0 && (d->steps_left == 0 || (d->nreturned == 0 && d->next_epoch >= d->epochs));
}

size_t yk_assignment_cursor_size(const yk_assignment *d)
{
    return HEAD + 3 * (d->nreturned + d->nheld);
}

void yk_assignment_cursor_save(const yk_assignment *d, uint64_t *out)
{
    memcpy(out, (uint64_t[HEAD]){KIND_ASYNC | d->unit << UNIT_SHIFT, d->next_epoch, d->next_at},
           HEAD * sizeof *out);
    for (size_t i = 0; i < d->nreturned + d->nheld; i++) {
        const yk_lease *r = i < d->nreturned ? &d->returned[i] : &d->held[i - d->nreturned].lease;
        memcpy(out + HEAD + 3 * i, (uint64_t[3]){r->epoch, r->begin, r->end}, 3 * sizeof *out);
    }
}

yk_status yk_assignment_cursor_restore(yk_assignment *d, const uint64_t *cursor, size_t n)
{
    const size_t leases = n < HEAD ? 0 : (n - HEAD) / 3;
    const uint64_t kind = n < HEAD ? 0 : cursor[0] & ((1u << UNIT_SHIFT) - 1);
    if (n < HEAD || n != HEAD + 3 * leases || kind > KIND_ASYNC || cursor[2] > d->examples)
        return yk_fail(YK_EDATA, "the checkpoint's data cursor does not fit this data set of %llu examples",
                       (unsigned long long)d->examples);
    const bool used_up =
        cursor[2] == d->examples; /* in lockstep, the next epoch begins only after a round without examples */
    d->next_epoch = cursor[1] + used_up;
    d->next_at = used_up ? 0 : cursor[2];
    d->unit = cursor[0] >> UNIT_SHIFT; /* continues the order of that epoch */
    if (YK_RESERVE(d->returned, d->returned_cap, leases + 1, "the data cursor"))
        return YK_ESYSTEM;
    d->nreturned = d->nheld = 0;
    for (const uint64_t *p = cursor + HEAD; p < cursor + n; p += 3)
        if (p[1] < p[2] && p[2] <= d->examples)
            d->returned[d->nreturned++] = (yk_lease){p[0], p[1], p[2]};
    return YK_OK;
}
