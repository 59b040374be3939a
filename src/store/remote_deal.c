/* What a worker says to servers besides its steps: who it is, which examples are next, that it is alive, goodbye. */
#include "store/remote_inside.h"

#include "base/wait.h"

/* ---- joining ---- */

yk_status yk_remote_hello(yk_remote *r, uint64_t identity)
{
    const yk__up up = {.magic = YK__MAGIC, .kind = YK__UP_HELLO, .hello = identity};
    yk_status st = YK_OK;
    for (int k = 0; !st && k < r->config.servers; k++) {
        yk_op op;
        yk_wait w = yk_wait_begin(YK_WAIT_RANKS, r->config.silence);
        if ((st = yk_comm_send(r->config.comm, r->line[k].peer, YK__TAG_UP, YK_FOR_CONTROL, &up, sizeof up,
                               &op)) ||
            (st = yk_comm_wait(r->config.comm, &op, 1, r->config.silence, "a greeting to be taken")))
            break;
        for (r->greeted = 0; !st && !r->greeted;) {
            st = yk_remote_poll(r);
            if (!st && !r->greeted && !yk_wait_turn(&w))
                st = yk_fail(YK_ELOST, "server %d did not answer within %.0f s", k, r->config.silence);
        }
    }
    return st;
}

/* ---- examples ---- */

static yk_status ask_deal(yk_remote *r, bool idle)
{
    yk_status st = yk_comm_wait(r->config.comm, &r->deal_op, 1, r->config.silence, "a message to be taken");
    if (st)
        return st;
    r->deal_pending = true;
    r->deal_here = false;
    r->ask_deal = (yk__up){.magic = YK__MAGIC, .kind = YK__UP_DEAL, .flags = idle ? YK__IDLE : 0};
    return yk_comm_send(r->config.comm, r->line[0].peer, YK__TAG_UP, YK_FOR_CONTROL, &r->ask_deal,
                        sizeof r->ask_deal, &r->deal_op);
}

yk_status yk_remote_deal(yk_remote *r, bool wait, yk_lease *out)
{
    yk_status st = YK_OK;
    *out = (yk_lease){0};
    for (;;) {
        if (!r->deal_pending && !r->deal_here)
            st = ask_deal(r, wait);
        if (!st)
            st = yk__remote_wait(r, NULL, "examples");
        if (st)
            return st;
        if (r->dealt.begin < r->dealt.end && r->dealt_life < r->life) { /* it was taken back meanwhile */
            r->deal_here = false;
            continue;
        }
        if (r->dealt.begin < r->dealt.end) {
            *out = r->dealt;
            return ask_deal(r, false); /* one ahead */
        }
        if (!r->deal_later || !wait || yk_remote_leaves(r))
            break;
        r->deal_here = false;
        yk_nap(0.02);
    }
    r->deal_here = !r->deal_later; /* the end stays the end */
    return YK_OK;
}

bool yk_remote_leaves(const yk_remote *r)
{
    return r->config.leave && *r->config.leave;
}

yk_status yk_remote_bye(yk_remote *r)
{
    yk_status st = YK_OK;
    yk__up up = {.magic = YK__MAGIC, .kind = YK__UP_BYE};
    for (int k = 0; !st && k < r->config.servers; k++) {
        yk_op op;
        st = yk_comm_send(r->config.comm, r->line[k].peer, YK__TAG_UP, YK_FOR_CONTROL, &up, sizeof up, &op);
        if (!st)
            st = yk_comm_wait(r->config.comm, &op, 1, r->config.silence, "a goodbye to be taken");
        for (int i = 0; !st && i < YK__OUTSTANDING; i++)
            st = yk_comm_wait(r->config.comm, &r->line[k].out_op[i], 1, r->config.silence,
                              "a message to be taken");
    }
    return st;
}
