/* Makes a plan (core/plan.h): a pure function of the options, the model, the data and the processes of the job.
 *
 * Example:
 *     yk_model_description model;
 *     yk_plan plan;
 *     yk_status st = yk_model_parse(config.model, &model);
 *     const yk_data_facts data = {.opened = 1, .counted = 1, .sparse = 1, .examples = 60000};
 *     const yk_topology job = {.processes = 4, .cores = 8, .rank = 2, .own_cores = 8, .sharing = 1};
 *     st = yk_plan_make(&config, &model, &data, &job, &plan); // YK_EUSAGE: the error names the options that conflict
 *
 * All processes of a job plan with the same options, model and facts, so their plans agree. The launcher, sweeps and reports,
 * and processes that have not read the data yet, plan without facts. Conflicting options are still found. The plan then assumes
 * data of unknown size, sparse if the model accepts sparse data. Any thread may call these functions.
 */
#ifndef YK_TRAIN_PLAN_H
#define YK_TRAIN_PLAN_H

#include "base/status.h"
#include "config/config.h"
#include "core/plan.h"

/* What is known about the training data; zero: nothing. All are numbers: the processes of a job combine their facts by the maximum
 * of each (cluster.c). */
typedef struct {
    uint64_t opened;           /* 1: `sparse` is known */
    uint64_t counted;          /* 1: all are known */
    uint64_t sparse, streamed; /* 1: its rows are sparse; it is read again in each epoch */
    uint64_t ordered; /* 1: neighboring examples may be related, so shuffling must not keep them together */
    uint64_t examples, columns;                 /* of an epoch; 0: not known */
    uint64_t kind, classes, fields, positional; /* of the rows (yk_dataset) */
    uint64_t channels, height, width;           /* of images; 0 otherwise */
    uint64_t earlier;                           /* steps of the run that this one starts from */
    uint64_t continues;                         /* 1: schedules count these steps, too */
    uint64_t resumed,
        chunk_rows; /* resumed = 1: from a checkpoint, whose `chunk_rows` (core/plan.h) is kept */
} yk_data_facts;

/* The processes of a job, and this one. */
typedef struct {
    int processes; /* 0: unknown, because this process joins a running job; the plan then counts only this process */
    int cores; /* of one process, the same number on all ranks; --workers auto divides them among the workers */
    bool single; /* not part of a job (a job may also have one process): options that need a job are errors */
    /* this process; zero: not known */
    int rank;
    int own_cores;                  /* that it may use */
    int sharing;                    /* number of processes that may use these cores */
    bool bound;                     /* to NUMA nodes */
    int servers_here, clients_here; /* dedicated servers and processes that train, on its host */
} yk_topology;

/* Even after an error, *out describes the job as far as possible. */
yk_status yk_plan_make(const yk_config *c, const yk_model_description *model, const yk_data_facts *data,
                       const yk_topology *job, yk_plan *out);

/* The same for the model of the options, without facts. */
yk_status yk_plan_options(const yk_config *c, const yk_topology *job, yk_plan *out);

int yk_plan_servers(const yk_config *c, int processes);            /* dedicated parameter servers */
uint64_t yk_plan_epoch_steps(const yk_plan *p, uint64_t examples); /* 0: not known */
double yk_plan_steps_each(const yk_plan *p, uint64_t steps); /* of one worker, if the run took `steps` */

void yk_plan_mode_text(const yk_plan *p, char out[static 64]); /* "synchronous" */
/* What happens to the job if a process is lost. */
void yk_plan_lost_process_text(const yk_config *c, const yk_plan *p, char out[static 256]);
/* How parameters or gradients are exchanged: the end of a sentence that describes the processes. */
const char *yk_plan_exchange_text(const yk_plan *p, bool shared_memory);

/* A sentence for users: whether all workers have the parameters that are evaluated. NULL: it does not apply. */
const char *yk_plan_agreement_text(const yk_plan *p);

/* Why workers cannot join the job; NULL: they can. */
const char *yk_plan_join_obstacle(const yk_config *c, const yk_plan *p);

#endif
