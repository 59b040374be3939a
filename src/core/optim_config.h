/* An update rule and its hyperparameters (optim/optim.h). Plain data, part of the plan. */
#ifndef YK_CORE_OPTIM_CONFIG_H
#define YK_CORE_OPTIM_CONFIG_H

#include <stdint.h>

typedef int yk_optim_kind; /* optim/kinds.h; 0: sgd */
typedef enum {
    YK_LR_CONSTANT,
    YK_LR_STEP,
    YK_LR_INVERSE,
    YK_LR_COSINE,
    YK_LR_ONE_CYCLE,
    YK_LR_PLATEAU,
    YK_LR_SCHEDULES
} yk_lr_schedule; /* optim/schedule.h */

enum { YK_MAX_REDUCTIONS = 255 }; /* of a plateau: they fit into a byte of a message (store/messages.h) */

typedef struct {
    yk_optim_kind kind;
    double lr, l1, l2;
    yk_lr_schedule schedule;
    double lr_decay;         /* a parameter of the schedule */
    uint64_t lr_decay_every; /* step: the interval in steps */
    uint64_t warm_up;        /* steps */
    uint64_t length;         /* steps of the run; 0: not known */
    uint64_t first;          /* steps of the schedule before the first step of the run */
    uint32_t reductions;     /* plateau: how often the rate was reduced so far */
    double momentum, beta1, beta2, epsilon, ftrl_beta;
    double initial;   /* adagrad, rowwise-adagrad: the sum of squares before the first step */
    double damping;   /* adam without velocity; 0 in all other cases */
    uint64_t earlier; /* steps that the initial state already includes: adam's bias corrections continue */
} yk_optim_config;

#endif
