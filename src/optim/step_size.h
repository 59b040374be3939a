/* How far a gradient of 1 currently moves a weight, which scales merges of copies. Internal to optim/. */
#ifndef YK_OPTIM_STEP_SIZE_H
#define YK_OPTIM_STEP_SIZE_H

#include "optim/optim.h"
#include <math.h>
#include <stdbool.h>

static inline __attribute__((always_inline)) float yk__step_size(yk_optim_kind kind, float s0, float s1,
                                                                 const yk_optim_step *o)
{
    switch (kind) {
    case YK_SGD:
    case YK_OPTIM_KINDS:
        break;
    case YK_MOMENTUM:
        return o->lr / (1.0f - o->momentum);
    case YK_ADAGRAD:
    case YK_ROWWISE:
        return o->lr / (sqrtf(s0) + 1e-6f);
    case YK_ADAM:
        return o->lr / (sqrtf(s1 * o->correct2) + 1e-6f);
    case YK_FTRL:
        return 1.0f / ((o->ftrl_beta + sqrtf(s1)) / o->lr + o->l2);
    }
    return o->lr;
}

/* Whether the state has sums of squared gradients. */
static inline __attribute__((always_inline)) bool yk__sums_squares(yk_optim_kind kind)
{
    return kind == YK_ADAGRAD || kind == YK_ROWWISE || kind == YK_FTRL;
}

/* The share of a delta that is added, if each of 1 + `others` workers moves a value by x / (1 + x) of the way (yk_optim_merge). */
static inline __attribute__((always_inline)) float yk__merged_share(yk_optim_kind kind, float x, float others)
{
    const float u = others * x, h = kind == YK_ADAM ? (1.0f + u) / (2.0f + u) : 1.0f;
    return 1.0f / (1.0f + others * (x / (1.0f + x)) * h);
}

/* The same for adam's mean square, which moves by 1 - beta2 in each step with the key. */
static inline __attribute__((always_inline)) float yk__mean_square_share(float steps, float others,
                                                                         const yk_optim_step *o)
{
    return yk__merged_share(YK_ADAM, steps * (1.0f - o->beta2), others);
}

/* ftrl's z for a merged weight and n. Where the weight is zero, z stays within the threshold. */
static inline __attribute__((always_inline)) float yk__ftrl_z(float w, float z, float n,
                                                              const yk_optim_step *o)
{
    const float limit = fminf(fmaxf(z, -o->l1), o->l1);
    const float scale = (o->ftrl_beta + sqrtf(n)) / o->lr + o->l2;
    return w == 0.0f ? limit : -(w * scale) - copysignf(o->l1, w);
}

#endif
