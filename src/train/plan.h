/* Makes a plan (base/plan.h) from options.
 *
 * Example:
 *     yk_plan plan;
 *     yk_status st = yk_plan_make(&config, 4, 8, &plan);  // YK_EUSAGE: the error names the options that conflict
 *
 * The launcher, sweeps and every process of a job call this function, so that their plans agree. Any thread may call it.
 */
#ifndef YK_TRAIN_PLAN_H
#define YK_TRAIN_PLAN_H

#include "base/plan.h"
#include "base/status.h"
#include "config/config.h"

/* `processes`: the size of the job. 0: unknown, because this process joins a job; the plan then counts it as the only
 * worker.
 * `cores`: of one process, the same number on all ranks; --workers auto divides them among the workers. */
yk_status yk_plan_make(const yk_config *c, int processes, int cores, yk_plan *out);

/* The plan of a process that is not part of a job, not even of a job of one process: options that need a job are errors. */
yk_status yk_plan_make_alone(const yk_config *c, int cores, yk_plan *out);

/* yk_plan_make() without the checks, to describe a job that could not run. */
void yk_plan_describe(const yk_config *c, int processes, int cores, yk_plan *out);

/* How a group of this name is trained: p->group[keyed], unless it is named in an option. */
yk_group_plan yk_plan_group(const yk_config *c, const yk_plan *p, const char *name, bool keyed);

#endif
