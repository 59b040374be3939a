/* Hooks for tests of whole jobs: the linker replaces the functions that make a plan by those here (--wrap), which change it.
 *
 *     YK_SERVING_THREADS=N       threads of a dedicated server
 *     YK_START_LIMIT=SECONDS     the heartbeat timeout before training begins
 *     YK_STALE_RULES=0           for tests that count updates: optimizers do not adapt to stale gradients
 */
#include "base/number.h"
#include "train/plan.h"

yk_status __real_yk_plan_make(const yk_config *c, const yk_model_description *model,
                              const yk_data_facts *data, const yk_topology *job, yk_plan *out);
yk_status __wrap_yk_plan_make(const yk_config *c, const yk_model_description *model,
                              const yk_data_facts *data, const yk_topology *job, yk_plan *out);
yk_status __real_yk_plan_options(const yk_config *c, const yk_topology *job, yk_plan *out);
yk_status __wrap_yk_plan_options(const yk_config *c, const yk_topology *job, yk_plan *out);

static void change(yk_plan *p)
{
    p->startup_timeout = yk_env_number("YK_START_LIMIT", p->startup_timeout);
    p->first_step_timeout = 2.0 * p->startup_timeout;
    p->barrier_timeout = 2.0 * p->first_step_timeout;
    if (!p->trains)
        p->serving_threads = (int)yk_env_number("YK_SERVING_THREADS", p->serving_threads);
    if (yk_env_number("YK_STALE_RULES", 1) == 0.0)
        p->stale_rules = p->staggered = false;
}

yk_status __wrap_yk_plan_make(const yk_config *c, const yk_model_description *model,
                              const yk_data_facts *data, const yk_topology *job, yk_plan *out)
{
    const yk_status st = __real_yk_plan_make(c, model, data, job, out);
    change(out);
    return st;
}

yk_status __wrap_yk_plan_options(const yk_config *c, const yk_topology *job, yk_plan *out)
{
    const yk_status st = __real_yk_plan_options(c, job, out);
    change(out);
    return st;
}
