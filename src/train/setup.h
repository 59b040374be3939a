/* Functions that set up and end a run, in the order in which train.c calls them. All ranks of a job call them; in some of them the
 * chief does more than the others. */
#ifndef YK_TRAIN_SETUP_H
#define YK_TRAIN_SETUP_H

#include "train/trainer.h"

/* cluster.c */
yk_status yk__cluster_start(yk__trainer *t);
yk_status yk__plan(yk__trainer *t);          /* for the facts and the topology that are known */
void yk__set_partition(yk__trainer *t);      /* which process reads which part of the data */
yk_status yk__combine_facts(yk__trainer *t); /* about the data; all ranks then have the same plan */
yk_status yk__cluster_ready(yk__trainer *t); /* when training begins */
void yk__cluster_free(yk__trainer *t);

/* From rank `root` to the ranks first .. first + count - 1, of which this process is one: *bytes bytes at *data, which is allocated on
 * the others (free it with free()) unless there are none. */
yk_status yk__broadcast(const yk__trainer *t, int root, int first, int count, char **data, uint64_t *bytes,
                        const char *what);

/* cluster_agree.c */
/* All ranks send `mine` to the chief, which combines them into one (combine) and broadcasts it; then `mine` is that on all ranks. */
typedef yk_status yk__combine_op(const yk__trainer *t, const void *all, void *out);
yk_status yk__all_reduce(const yk__trainer *t, void *mine, size_t bytes, yk__combine_op *combine,
                         const char *what);
/* Checks that options, data, program and parameters are the same; an error names the rank and the difference. parameters: a hash
 * of the initial ones; 0: this process does not have all of them. */
yk_status yk__cluster_check(yk__trainer *t, uint64_t parameters);

/* warm_start.c */
/* Called by the process that is the first to read the data. Finds the checkpoint to continue from, and the schema of its data. */
yk_status yk__warm_start_find(yk__trainer *t);
yk_status yk__warm_start_check(const yk__trainer *t); /* after yk__combine_facts(): whether the data fits */
void yk__warm_start_hashing(const yk__trainer *t, yk_model_shape *shape); /* sets `hashed` and `not_hashed` */
/* Loads the parameters of the checkpoint, if there is one, into a store that trains `group`. print: prints a note. */
yk_status yk__warm_start_load(const yk__trainer *t, const yk_local_group *group, yk_local *store, bool print);
/* After the weights were set: optimizers whose weights follow from their state (yk_optim_rule.derives) get that state. */
void yk__parameters_set(const yk_model *m, const yk_local_group *group, yk_local *store);

/* stores.c */
/* Creates the parameters that this process owns, with their initial values, and its access to those of others. */
yk_status yk__make_parameters(yk__trainer *t);
/* Sets the initial parameters in a store that has all of them, unless they are all zero; NULL: does nothing. */
yk_status yk__set_initial(yk__trainer *t, const yk_local_group *group, yk_local *whole);
/* The configuration of a local store with all parameters. Only a single process has several workers in it. */
yk_local_config yk__store_config(yk__trainer *t);
yk_status yk__make_store(yk__trainer *t); /* that workers train on, once the first step is known */

/* model_setup.c */
yk_status yk__make_model(yk__trainer *t); /* data, model and parameter groups; --dry-run ends here */

/* data_setup.c */
yk_status yk__load_data(yk__trainer *t);
size_t yk__columns_seen(const yk__trainer *t); /* in training, test and validation data */
/* Remaps sparse keys by descending frequency: frequent keys share cache lines, and get copies in asynchronous training. */
yk_status yk__sort_keys(yk__trainer *t);
yk_status yk__schema_keep(yk__trainer *t); /* for checkpoints, once there is a model */
yk_status yk__make_feed(yk__trainer *t);

/* lr_search.c */
yk_status yk__lr_search(yk__trainer *t); /* --lr auto: sets the learning rates in t->config and the plan */

/* resume.c */
yk_status yk__resume(yk__trainer *t);

/* observe_setup.c: connects the trainer to its observer (observe/observe.h) */
yk_status yk__observe(yk__trainer *t);
void yk__add_warnings(yk__trainer *t); /* at the end */

/* describe.c */
size_t yk__parameter_bytes(const yk__trainer *t); /* with the optimizer's state */
yk_status yk__check_memory(const yk__trainer *t); /* an error if a network does not fit */
void yk__print_plan(const yk__trainer *t);
yk_status yk__describe(yk__trainer *t);
yk_status yk__profile_collect(yk__trainer *t);

/* end_run.c: from the end of the loop, or a failure `st`, to the summary. Returns `st`, or a failure of its own. */
yk_status yk__end_run(yk__trainer *t, yk_status st);

#endif
