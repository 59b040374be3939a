/* What a plan means, in words. */
#include "train/plan.h"

#include <stdio.h>
#include <string.h>

void yk_plan_mode_text(const yk_plan *p, char out[static 64])
{
    if (p->quorum)
        snprintf(out, 64, "synchronous with a quorum of %d", p->quorum);
    else if (p->synchronous || p->staleness == YK_ASYNC)
        snprintf(out, 64, p->synchronous ? "synchronous" : "asynchronous");
    else
        snprintf(out, 64, "asynchronous with a staleness bound of %llu", (unsigned long long)p->staleness);
}

const char *yk_plan_agreement_text(const yk_plan *p)
{
    return p->synchronous && p->local_steps <= 1
               ? "synchronous: all workers have the same parameters, so the test results apply to each"
               : NULL;
}

const char *yk_plan_join_obstacle(const yk_config *c, const yk_plan *p)
{
    return !p->joinable                            ? "its steps need all of its workers"
           : c->out && strcmp(c->out, "none") == 0 ? "it has no run directory (--out)"
           : p->cursor_kind != YK_CURSOR_LEASE     ? "its data is streamed"
                                                   : NULL;
}

void yk_plan_lost_process_text(const yk_config *c, const yk_plan *p, char out[static 256])
{
    const char *obstacle = p->joinable ? yk_plan_join_obstacle(c, p) : NULL;
    if (p->placement != YK_PLACEMENT_SERVERS)
        snprintf(
            out, 256,
            "a lost process ends the job; only dedicated servers (--servers K) allow workers to be lost or "
            "to join without a restart");
    else if (!p->survives_loss)
        snprintf(
            out, 256,
            "a lost process ends the job: synchronous steps need all workers; with --servers K, --mode async "
            "or --quorum allows workers to be lost without a restart");
    else
        snprintf(out, 256, "the servers allow workers to be lost%s without a restart%s%s",
                 p->joinable && !obstacle ? " or to join" : "",
                 obstacle ? "; workers cannot join this job: " : "", obstacle ? obstacle : "");
}

const char *yk_plan_exchange_text(const yk_plan *p, bool shared_memory)
{
    if (!p->whole)
        return p->local_steps ? "; deltas are sent every --local-steps steps" : "";
    if (p->local_steps)
        return "parameters are averaged every --local-steps steps";
    return shared_memory ? "gradients are all-reduced through shared memory" : "gradients are all-reduced";
}
