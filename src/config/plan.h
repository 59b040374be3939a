/* From options to a plan (base/plan.h).
 *
 *     yk_plan plan;
 *     st = yk_plan_make(&config, processes, cores, &plan);       // YK_EUSAGE: the error says which options conflict
 *
 * The launcher, sweeps and every process of a job make it with the same function, so that they agree.
 */
#ifndef YK_CONFIG_PLAN_H
#define YK_CONFIG_PLAN_H

#include "base/plan.h"
#include "base/status.h"
#include "config/config.h"

/* `processes`: the size of the job; 0: unknown, when joining a job; then this process is the only worker.
 * `cores`: of one process, the same number on all ranks; --workers auto divides them among the workers. */
yk_status yk_plan_make(const yk_config *c, int processes, int cores, yk_plan *out);

/* The same without the checks, to describe a job that could not run. */
void yk_plan_describe(const yk_config *c, int processes, int cores, yk_plan *out);

#endif
