/* How far a gradient of 1 moves a weight now: what merges of copies are scaled by. Inside of optim/. */
#ifndef YK_OPTIM_STEP_SIZE_H
#define YK_OPTIM_STEP_SIZE_H

#include "optim/optim.h"
#include <math.h>

static inline __attribute__((always_inline)) float yk__step_size(yk_optim_kind kind, float s0, float s1,
                                                                 const yk_optim_step *o)
{
    switch (kind) {
    case YK_MOMENTUM:
        return o->lr / (1.0f - o->momentum);
    case YK_ADAGRAD:
        return o->lr / (sqrtf(s0) + 1e-6f);
    case YK_ADAM:
        return o->lr / (sqrtf(s1 * o->correct2) + 1e-6f);
    case YK_FTRL:
        return 1.0f / ((o->ftrl_beta + sqrtf(s1)) / o->lr + o->l2);
    default:
        return o->lr;
    }
}

#endif
