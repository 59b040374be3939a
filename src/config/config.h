/* The configuration of a run: every option by its name, from the command line, a file, or a checkpoint's run directory.
 *
 * Example:
 *     yk_config c;
 *     yk_config_init(&c);                                   // defaults
 *     yk_status st = yk_config_set(&c, "batch", "64");      // --batch 64, or "batch = 64" in a file
 *     if (!st)
 *         st = yk_config_load(&c, "mine.ini");              // an unknown name is an error that names the line
 *     if (!st)
 *         st = yk_config_check(&c);                         // YK_EUSAGE: the error names the options that conflict
 *     yk_config_fini(&c);
 *
 * config/option.h has the table of options: kinds, ranges, defaults, and where they may be set. A yk_config owns its strings.
 * It has no locks: threads may read it at the same time.
 */
#ifndef YK_CONFIG_CONFIG_H
#define YK_CONFIG_CONFIG_H

#include "base/file.h"
#include "base/status.h"
#include "config/by_group.h"
#include "config/option.h"
#include "model/description.h"
#include "optim/optim.h"
#include <math.h>

enum { YK_OPTION_TEXT = 512 }; /* the text of a value that is not a string */

typedef struct {
    char *model, *data, *test, *warm_start;
    char *validation, *monitor; /* NULL: not given; validation may be "none" */
    int64_t patience;           /* 0: never stop */
    double min_delta;           /* negative: not given */
    char *mode, *stream, *out, *config;
    yk_by_group optimizer,
        lr_schedule;           /* yk_optim_kind; yk_lr_schedule; not given: that of the model; constant */
    char *loss, *class_weight; /* NULL: the default of the model; all 1 */
    char *init, *standardize, *augment, *bias_decay; /* NULL: the defaults of model/net_options.h */
    double init_bias;                                /* NaN: not given */
    double bias_lr;                                  /* negative: not given */
    double lr_decay_epochs;                          /* 0: not given */
    yk_by_group lr_decay, warm_up, warm_up_epochs;   /* not given: the schedule's default; 0, 0 */
    int64_t lr_patience;                             /* evaluations */
    int64_t lr_batch;                                /* 0: not given */
    char *adam_betas;                                /* NULL: the optimizer's default */
    double epsilon;                                  /* negative: likewise */
    double clip_norm;                                /* 0: not given */
    yk_by_group staleness;                           /* negative, or not given: set by the mode */
    int64_t workers, threads;
    int64_t batch, global_batch;                        /* 0: not given */
    int64_t launch;                                     /* processes; 0: not given */
    char *hosts, *hostfile, *agent, *join, *token_file; /* NULL: not given */
    char *join_text;     /* what RUN/join says, or the server (comm/comm.h); not an option */
    char *bind;          /* auto, none, numa; NULL: auto */
    char *network;       /* local, any; NULL: any with hosts, else local */
    yk_by_group servers; /* not given: chosen by train/plan.h; YK_ALL: every process owns a shard */
    int64_t quorum, local_steps, restarts; /* 0: all processes, off, none */
    int64_t prefetch;                      /* batches; YK_AUTO: chosen by train/plan.h */
    double deadline;                       /* heartbeat timeout in seconds */
    int64_t epochs, steps;                 /* 0: not given */
    yk_by_group lr;                        /* not given: the optimizer's default; YK_ALL: searched */
    double l1, l2, momentum;               /* negative: the optimizer's default */
    double initial_accumulator;            /* negative: chosen by train/plan.h */
    int64_t lr_decay_every;
    int64_t seed;
    int64_t eval_every, checkpoint_every; /* 0: eval each epoch, checkpoint by time */
    int64_t log_every, test_examples;     /* 0: not given */
    int64_t features, hash_bits, skip_bad, shuffle_mb;
    char *http;          /* [ADDR:]PORT; NULL: no live page */
    double sample_every; /* seconds; 0: resources are not sampled */
    bool no_shuffle, no_bias, resume, json, quiet, dry_run, profile, trace, tensorboard_workers,
        no_stop_on_divergence;
    bool new_init; /* not an option: --init or --init-bias differs from the value in the files */
} yk_config;

void yk_config_init(yk_config *c);
void yk_config_fini(yk_config *c);

yk_status yk_config_set(yk_config *c, const char *name, const char *value);
yk_status yk_config_load(yk_config *c, const char *path);

/* The config.ini of a run directory, which is untrusted and may be missing (*there_out). Options that are accepted only
 * on the command line are ignored; their names, as "agent, hosts", go to *ignored_out (the caller frees it; NULL:
 * none). */
yk_status yk_config_load_run(yk_config *c, const char *path, bool *there_out, char **ignored_out);

yk_status yk_config_check(const yk_config *c);

/* The options of a job, as its server describes it: the text of its config.ini. */
yk_status yk_config_load_text(yk_config *c, const char *name, const char *text, char **ignored_out);

/* --validation; NULL: not given, or "none". */
const char *yk_config_validation(const yk_config *c);

/* Whether yoke starts the processes of a job, or a worker that joins one. Otherwise this process trains, alone or as one
 * of the processes that mpirun or srun started. */
bool yk_config_starts_job(const yk_config *c);

/* The optimizer of the group of this name, which is keyed or dense. `otherwise`: if none is given for it, such as "sgd" or
 * "keyed=adagrad,dense=adam" (model/description.h). */
yk_optim_kind yk_config_optimizer(const yk_config *c, const char *otherwise, const char *group, bool keyed);
const char *yk_config_default_optimizer(const yk_config *c); /* of the model; "sgd": it is not valid */
void yk_config_optimizer_text(const yk_config *c, char out[YK_OPTION_TEXT]); /* --optimizer, or the default */
bool yk_config_monitors(const yk_config *c); /* that of a group depends on the results of evaluations */
/* --adam-betas; both are unchanged if it was not given. */
yk_status yk_config_betas(const yk_config *c, double *beta1, double *beta2);
/* The i-th name of an individual group in any option, and the name of that option; NULL: there are fewer names. */
const char *yk_config_named_group(const yk_config *c, size_t i, const char **option_out);
/* The name of an option that was given for groups of this kind only; NULL: none. */
const char *yk_config_only_for(const yk_config *c, bool keyed);

/* Whether two configurations describe the same run: all options that config.ini stores, other than as comments, are equal. */
bool yk_config_same_run(const yk_config *a, const yk_config *b);

/* The value of an option that is not the default, as in config.ini; "": the default. Borrowed from the configuration or in
 * `number`. */
const char *yk_config_changed(const yk_config *c, const yk_option *o, char number[YK_OPTION_TEXT]);

/* Writes an ini file that yk_config_load() can read. A comment at the top shows how to repeat the run; command-line-only
 * options are written as comments. */
yk_status yk_config_save(const yk_config *c, const char *dir, const char *name);

#endif
