/* What a client says to servers besides its steps: who it is, which examples are next, that it leaves. */
#include "store/remote_internal.h"

#include "base/wait.h"

static const double nap_seconds = 0.02; /* between two requests for examples that others may give back */

/* ---- joining ---- */

yk_status yk_remote_hello(yk_remote *r, uint64_t identity)
{
    const yk__up up = {.magic = YK__MAGIC, .kind = YK__UP_HELLO, .hello = identity};
    yk_status st = YK_OK;
    for (int k = 0; !st && k < r->config.servers; k++) {
        yk_op op;
        yk_wait w = yk_wait_begin(YK_WAIT_RANKS, r->config.timeout);
        if ((st = yk_comm_send(r->config.comm, r->line[k].peer, YK__TAG_UP, YK_FOR_CONTROL, &up, sizeof up,
                               &op)) ||
            (st = yk_comm_wait(r->config.comm, &op, 1, r->config.timeout, "a greeting to be received")))
            break;
        for (r->greeted = 0; !st && !r->greeted;) {
            bool busy;
            st = yk_remote_pump(r, &busy);
            if (!st && !r->greeted && !yk_wait_turn(&w))
                st = yk_fail(YK_ELOST, "server %d did not answer within %.0f s", k, r->config.timeout);
        }
    }
    return st;
}

/* ---- examples ---- */

/* To all servers but the first, which is asked for examples: this thread has none, so nobody waits for it. */
static yk_status say_idle(yk_remote *r, int lane, int thread)
{
    yk_status st = YK_OK;
    for (int k = 1; !st && k < r->config.servers; k++) {
        yk__up *up;
        if ((st = yk__remote_letter(r, lane, k, sizeof *up, YK_FOR_CONTROL, &up)))
            break;
        *up =
            (yk__up){.magic = YK__MAGIC, .kind = YK__UP_ALIVE, .flags = YK__IDLE, .thread = (uint32_t)thread};
        st = yk__remote_post(r, lane, k);
    }
    return st;
}

static yk_status ask_lease(yk_remote *r, int thread, bool idle)
{
    const int lane = r->config.lanes > 1 ? thread : 0;
    yk__leases *t = &r->leases[thread];
    yk__up *up;
    yk_mutex_lock(&r->lane[lane].lock); /* the threads of a lane share its messages */
    yk_status st = yk__remote_letter(r, lane, 0, sizeof *up, YK_FOR_CONTROL, &up);
    if (!st) {
        *up = (yk__up){.magic = YK__MAGIC,
                       .kind = YK__UP_LEASE,
                       .flags = idle ? YK__IDLE : 0,
                       .thread = (uint32_t)thread};
        t->here = false;
        atomic_store(&t->pending, true);
        if (atomic_fetch_add(&r->line[0].owes, 1) == 0 && !r->config.driven)
            r->line[0].heard = 0.0; /* its time begins when somebody looks */
        st = yk__remote_post(r, lane, 0);
    }
    if (!st && idle)
        st = say_idle(r, lane, thread);
    yk_mutex_unlock(&r->lane[lane].lock);
    return st;
}

yk_status yk_remote_lease(yk_remote *r, int thread, yk_lease *out, uint64_t *unit_out)
{
    yk__leases *t = &r->leases[thread];
    yk_status st = YK_OK;
    *out = (yk_lease){0};
    for (;;) {
        if (!atomic_load(&t->pending) && !t->here)
            st = ask_lease(r, thread, t->idle);
        if (!st)
            st = yk__remote_wait(r, NULL, &t->pending, "examples");
        if (st)
            return st;
        if (t->lease.begin == t->lease.end)
            break;
        t->here = false;
        if (t->leased_by < atomic_load(&r->incarnation)) /* it was taken back meanwhile */
            continue;
        *out = t->lease;
        *unit_out = t->unit;
        t->used_by = t->leased_by;
        return ask_lease(r, thread, false); /* one ahead */
    }
    t->here = !t->later; /* the end stays the end */
    return YK_OK;
}

void yk_remote_rest(yk_remote *r, int first, int end, yk_step_result *out)
{
    bool later = false;
    for (int i = first; i < end; i++)
        later |= r->leases[i].later;
    later &= !yk_remote_leaves(r);
    *out = (yk_step_result){.pending = later, .over = !later};
    if (later)
        yk_nap(nap_seconds);
}

void yk_remote_idle(yk_remote *r, int thread, bool idle)
{
    r->leases[thread].idle = idle;
}

bool yk_remote_revoked(const yk_remote *r, int thread)
{
    return atomic_load(&r->incarnation) > r->leases[thread].used_by;
}

bool yk_remote_leaves(const yk_remote *r)
{
    return r->config.leave && *r->config.leave;
}

yk_status yk_remote_leave(yk_remote *r, int lane)
{
    yk_status st = YK_OK;
    for (int k = 0; !st && k < r->config.servers; k++) {
        yk__up *up;
        if ((st = yk__remote_letter(r, lane, k, sizeof *up, YK_FOR_CONTROL, &up)))
            break;
        *up = (yk__up){.magic = YK__MAGIC, .kind = YK__UP_LEAVE, .thread = (uint32_t)lane};
        st = yk__remote_post(r, lane, k);
    }
    for (int k = 0; !st && k < r->config.servers; k++)
        st = yk__remote_drain(r, lane, k);
    return st;
}
