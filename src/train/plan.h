/* Makes a plan (core/plan.h) in three steps: from the options, then for this process, then for the data.
 *
 * Example:
 *     yk_plan plan;
 *     yk_status st = yk_plan_make(&config, 4, 8, &plan); // YK_EUSAGE: the error names the options that conflict
 *     yk_plan_set_process(&plan, &(yk_plan_process){.rank = 2, .cores = 8, .sharing = 1});
 *     st = yk_plan_set_data(&plan, &config, &(yk_plan_data){.examples = 60000});
 *
 * The launcher, sweeps and every process of a job call yk_plan_make(), so that their plans agree. Any thread may call these
 * functions.
 */
#ifndef YK_TRAIN_PLAN_H
#define YK_TRAIN_PLAN_H

#include "base/status.h"
#include "config/config.h"
#include "core/plan.h"

/* `processes`: the size of the job. 0: unknown, because this process joins a job; the plan then counts it as the only
 * worker.
 * `cores`: of one process, the same number on all ranks; --workers auto divides them among the workers. */
yk_status yk_plan_make(const yk_config *c, int processes, int cores, yk_plan *out);

/* The plan of a process that is not part of a job, not even of a job of one process: options that need a job are errors. */
yk_status yk_plan_make_alone(const yk_config *c, int cores, yk_plan *out);

/* yk_plan_make() without the checks, to describe a job that could not run. */
void yk_plan_describe(const yk_config *c, int processes, int cores, yk_plan *out);

/* A process of a job of several processes. */
typedef struct {
    int rank;
    bool joined;                    /* this process joins a running job: it is a worker */
    int cores;                      /* that it may use */
    int sharing;                    /* number of processes that may use these cores */
    bool bound;                     /* to NUMA nodes */
    int servers_here, clients_here; /* dedicated servers and processes that train, on its host */
} yk_plan_process;

void yk_plan_set_process(yk_plan *p, const yk_plan_process *process);

/* The training data. */
typedef struct {
    uint64_t examples; /* in an epoch; 0: not known */
    bool streamed;     /* read again in each epoch */
    bool ordered;      /* not shuffled: neighboring examples may be related, so they must not stay together */
} yk_plan_data;

yk_status yk_plan_set_data(yk_plan *p, const yk_config *c, const yk_plan_data *data);

/* A resumed run keeps the unit of its checkpoint; 0: the default. */
void yk_plan_set_unit(yk_plan *p, uint64_t unit);

/* Without a staleness bound, a resumed run may have copies that live up to this many times as long as planned. */
enum { YK_LONGEST_COPY = 4 };

/* How this group of a model is trained: p->group[keyed], unless it is named in an option. */
yk_group_plan yk_plan_group(const yk_config *c, const yk_plan *p, const yk_group *group);
yk_status yk_plan_check_group(const yk_plan *p, const yk_group_plan *g);

#endif
