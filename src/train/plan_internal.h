/* Shared by plan.c, which makes a plan, and plan_check.c, which finds options that conflict. */
#ifndef YK_TRAIN_PLAN_INTERNAL_H
#define YK_TRAIN_PLAN_INTERNAL_H

#include "train/plan.h"

/* What a plan is made from. */
typedef struct {
    const yk_config *c;
    const yk_model_description *model;
    const yk_data_facts *data;
    const yk_topology *job;
    bool sparse;  /* the parameters of the model are keyed, or some of them */
    bool certain; /* it is known which groups the model has, and which of them are keyed */
} yk__plan_input;

/* What --servers says about all groups together. */
typedef struct {
    int job;         /* the value for groups that are not replicated; 0: all are replicated; -1: not given */
    bool replicates; /* some groups are replicated, others are not */
    bool differ;     /* the groups that are not replicated have different values */
} yk__servers;

yk__servers yk__plan_servers_of(const yk_config *c);

/* The staleness bound of a group of this name; "": of groups that --staleness does not name. */
uint64_t yk__plan_bound(const yk_config *c, const char *group, bool keyed);

static inline bool yk__plan_is_keyed(const yk__plan_input *in, int group)
{
    return in->model->group[group].keyed || (in->sparse && in->model->input != YK_INPUT_SPARSE);
}

yk_status yk__plan_check(const yk__plan_input *in, const yk_plan *p);

#endif
