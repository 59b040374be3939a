/* --warm-start: a run begins with the parameters and the optimizer state of another run.
 *
 * The chief reads the checkpoint. Its shape is a part of the shape of the data (cluster.c): the model has all features of
 * the earlier run, and possibly new ones. Keys of keyed groups are copied one by one, because a bias comes after the last
 * feature:
 *
 *     earlier run    | 0 1 2 ... 999 | bias |
 *     this run       | 0 1 2 ... 999 | 1000 ... 1199 | bias |          1000 to 1199: initial values
 *
 * A checkpoint of this run has everything that is needed to resume it; the earlier run may be gone by then.
 */
#ifndef YK_TRAIN_WARM_START_H
#define YK_TRAIN_WARM_START_H

#include "data/dataset.h"
#include "store/local.h"
#include "train/train.h"

/* The run or the model that a run continues. */
typedef struct {
    const yk_config *config;
    const yk_train_caller *caller;
    char *path; /* on the chief: the checkpoint to load; NULL: none. The caller frees it */
    /* on the chief: of its model, or of the checkpoint that is resumed; dim 0: none */
    yk_model_shape shape;
    uint64_t earlier; /* on all ranks: steps before this run */
} yk__start;

/* Whether a run continues with the optimizer's state of its initial model. */
static inline bool yk__continues(const yk_train_caller *caller)
{
    return caller->keep_state && caller->start && caller->start->optimizer;
}

/* Before yk__share_facts(). reads: this process is the chief, or has joined a job. */
yk_status yk__warm_start_find(const yk_config *c, const yk_train_caller *caller, bool reads, yk__start *out);
yk_status yk__warm_start_check(const yk__start *s,
                               const yk_dataset *train); /* after it: whether the data fits */
/* Sets shape->hashed and shape->not_hashed. source: NULL on a server, which does not need them. */
void yk__warm_start_hashing(const yk__start *s, const yk_source *source, yk_model_shape *shape);

/* Loads the parameters of the checkpoint, if there is one, into a store that trains `group`. */
yk_status yk__warm_start_load(const yk__start *s, const yk_model *m, const yk_local_group *group,
                              yk_local *store, const yk_keymap *remap);
void yk__warm_start_print(const yk__start *s, const yk_model *m);

/* After the weights were set: optimizers whose weights follow from their state (yk_optim_rule.derives) get that state. */
void yk__parameters_set(const yk_model *m, const yk_local_group *group, yk_local *store);

#endif
