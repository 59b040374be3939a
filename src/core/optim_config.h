/* An update rule and its hyperparameters (optim/optim.h). Plain data, part of the plan. */
#ifndef YK_CORE_OPTIM_CONFIG_H
#define YK_CORE_OPTIM_CONFIG_H

#include <stdint.h>

typedef int yk_optim_kind; /* optim/kinds.h; 0: sgd */
typedef enum { YK_LR_CONSTANT, YK_LR_STEP, YK_LR_INVERSE } yk_lr_schedule;

typedef struct {
    yk_optim_kind kind;
    double lr, l1, l2;
    yk_lr_schedule schedule;
    double lr_decay;         /* step: the factor; inverse: lr / (1 + lr_decay * step) */
    uint64_t lr_decay_every; /* step: the interval in steps */
    double momentum, beta1, beta2, epsilon, ftrl_beta;
    double initial;   /* adagrad, rowwise-adagrad: the sum of squares before the first step */
    double damping;   /* adam without velocity; 0 in all other cases */
    uint64_t earlier; /* steps that the initial state already includes: adam's bias corrections continue */
} yk_optim_config;

#endif
