#include "config/plan.h"

#include "base/number.h"
#include "data/source.h"
#include <math.h>
#include <string.h>

static uint64_t staleness_of(const yk_config *c)
{
    if (c->staleness >= 0)
        return (uint64_t)c->staleness;
    return c->mode && strcmp(c->mode, "async") == 0 ? YK_ASYNC : 0;
}

/* Whether the parameters are keyed, which only those of logreg can be. Data that cannot be opened is reported when it
 * is read. */
static bool is_sparse(const yk_config *c)
{
    yk_source *s;
    const yk_source_options o = {.hash_bits = (unsigned)c->hash_bits, .features = (uint64_t)c->features};
    if (!c->model || !c->data || strcmp(c->model, "logreg"))
        return false;
    if (yk_source_open(c->data, YK_SPLIT_TRAIN, &o, &s))
        return true;
    const bool sparse = s->kind == YK_ROWS_SPARSE;
    yk_source_free(s);
    return sparse;
}

/* Sparse models and asynchronous training use one server by default. Local SGD needs none. */
static int servers_of(const yk_config *c, const yk_plan *p)
{
    if (c->servers == YK_ALL)
        return 0;
    if (c->servers >= 0)
        return (int)c->servers;
    return !p->synchronous || p->quorum || (!p->local_steps && is_sparse(c));
}

static void set_roles(const yk_config *c, yk_plan *p)
{
    if (p->processes == 1) {
        p->workers = p->workers_per_process = (int)c->workers;
    } else {
        p->servers = servers_of(c, p);
        p->placement = c->servers == YK_ALL ? YK_PLACEMENT_SHARDS
                       : p->servers         ? YK_PLACEMENT_SERVERS
                                            : YK_PLACEMENT_REPLICAS;
        p->workers_per_process = 1;
        p->workers = p->processes > p->servers ? p->processes - p->servers : 1;
    }
    p->survives_loss = !p->lockstep && p->placement != YK_PLACEMENT_SHARDS;
    p->joinable = !p->synchronous && p->placement != YK_PLACEMENT_SHARDS;
}

static void set_timeouts(const yk_config *c, yk_plan *p)
{
    p->heartbeat_timeout = c->deadline;
    p->worker_timeout =
        p->synchronous ? c->deadline : c->deadline / 2.0; /* in asynchronous mode a false alarm costs less */
    p->server_timeout = c->deadline + 1.0;
    p->heartbeat_every = c->deadline / 8.0;
    p->start_limit = yk_env_number("YK_START_LIMIT", fmax(60.0, 8.0 * c->deadline)); /* set by tests */
    p->first_step_timeout = 2.0 * p->start_limit;
}

void yk_plan_describe(const yk_config *c, int processes, yk_plan *out)
{
    yk_plan p = {.staleness = staleness_of(c),
                 .quorum = (int)c->quorum,
                 .local_steps = (uint64_t)c->local_steps,
                 .processes = processes,
                 .threads = (int)c->threads,
                 .batch = (uint64_t)c->batch,
                 .steps = c->steps ? (uint64_t)c->steps : UINT64_MAX,
                 .epochs = c->epochs  ? (uint64_t)c->epochs
                           : c->steps ? UINT64_MAX
                                      : 1,
                 .eval_every = (uint64_t)c->eval_every,
                 .checkpoint_every = (uint64_t)c->checkpoint_every};
    p.synchronous = p.staleness == 0;
    p.lockstep = p.synchronous && !p.quorum;
    set_roles(c, &p);
    p.gradients_per_step = !p.synchronous ? 1 : p.quorum ? (uint64_t)p.quorum : (uint64_t)p.workers;
    p.global_batch = p.batch * (uint64_t)(p.quorum ? p.quorum : p.workers);
    set_timeouts(c, &p);
    *out = p;
}

static yk_status check(const yk_config *c, const yk_plan *p)
{
    const long long bound = (long long)p->staleness, steps = (long long)p->local_steps;
    if (p->processes == 1)
        return YK_OK;
    if (p->placement == YK_PLACEMENT_SHARDS)
        return yk_fail(YK_EUSAGE,
                       "--servers all is not available yet; use --servers K for K parameter servers, or "
                       "--servers 0 for replicas");
    if (p->processes && p->servers >= p->processes)
        return yk_fail(YK_EUSAGE, "--servers %d of %d processes leaves no worker; start at least %d",
                       p->servers, p->processes, p->servers + 1);
    if (p->placement == YK_PLACEMENT_REPLICAS && !p->synchronous)
        return yk_fail(YK_EUSAGE,
                       "--servers 0 is synchronous: every process has all parameters; asynchronous "
                       "training needs --servers 1 or more");
    if (p->placement == YK_PLACEMENT_REPLICAS && p->quorum)
        return yk_fail(YK_EUSAGE,
                       "--quorum needs --servers 1 or more: a server closes a step without all workers");
    if (p->quorum && !p->synchronous)
        return yk_fail(YK_EUSAGE, "--quorum needs --mode sync: asynchronous steps do not wait");
    if (p->processes && p->quorum > p->workers)
        return yk_fail(YK_EUSAGE, "--quorum %d, but there are only %d workers", p->quorum, p->workers);
    if (p->local_steps && !p->synchronous && p->staleness < p->local_steps)
        return yk_fail(
            YK_EUSAGE,
            "--staleness %lld cannot hold with --local-steps %lld: nobody sees those steps before they "
            "are over; the bound must be %lld or more",
            bound, steps, steps);
    if (p->processes && c->workers != 1 && c->workers != p->workers)
        return yk_fail(
            YK_EUSAGE,
            "--workers %lld, but %d of the %d processes work; under a launcher every working process is one "
            "worker: leave --workers out, and use --threads for the cores of each",
            (long long)c->workers, p->workers, p->processes);
    return YK_OK;
}

yk_status yk_plan_make(const yk_config *c, int processes, yk_plan *out)
{
    yk_plan_describe(c, processes, out);
    return check(c, out);
}
