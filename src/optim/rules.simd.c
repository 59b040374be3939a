/* The update rules of optim.h, compiled once per instruction set. The update of a weight is written once, in update(). The
 * loops around it are inlined with the kind as a constant, so that each kind gets its own loop. */
#include "optim/optim.h"
#include "optim/step_size.h"

#include "kern/factors.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline)) YK_RACY

INLINE float shrink(float w, float by)
{
    float magnitude = fabsf(w) - by;
    return magnitude > 0.0f ? copysignf(magnitude, w) : 0.0f;
}

/* The weight that follows from ftrl's sums. */
INLINE float ftrl_weight(float z, float n, const yk_optim_step *o)
{
    float magnitude = fabsf(z) - o->l1;
    float w = copysignf(magnitude, -z) / ((o->ftrl_beta + sqrtf(n)) / o->lr + o->l2);
    return magnitude > 0.0f ? w : 0.0f;
}

INLINE void update(yk_optim_kind kind, float *w, float *s0, float *s1, float g, const yk_optim_step *o)
{
    if (kind != YK_FTRL)
        g += o->l2 * *w;
    switch (kind) {
    case YK_SGD:
        *w = *w - o->lr * g;
        break;
    case YK_MOMENTUM:
        *s0 = o->momentum * *s0 + g;
        *w = *w - o->lr * *s0;
        break;
    case YK_ADAGRAD:
    case YK_ROWWISE: /* one float per key: the same */
        *s0 = *s0 + g * g;
        *w = *w - o->lr * g / (sqrtf(*s0) + o->epsilon);
        break;
    case YK_ADAM:
        *s0 = o->beta1 * *s0 + (1.0f - o->beta1) * g;
        *s1 = o->beta2 * *s1 + (1.0f - o->beta2) * g * g;
        if (o->damping > 0.0f) {
            const float v = *s1 * o->correct2 + 1e-30f; /* not 0 */
            *w = *w - o->lr * g * v / ((sqrtf(v) + o->epsilon) * (v + o->damping * g * g));
        } else {
            *w = *w - o->lr * (*s0 * o->correct1) / (sqrtf(*s1 * o->correct2) + o->epsilon);
        }
        break;
    case YK_FTRL: {
        float n = *s1 + g * g;
        *s0 = *s0 + g - (sqrtf(n) - sqrtf(*s1)) / o->lr * *w;
        *s1 = n;
        *w = ftrl_weight(*s0, n, o);
        break;
    }
    case YK_OPTIM_KINDS:
        break;
    }
    if (kind != YK_FTRL && o->l1 > 0.0f)
        *w = shrink(*w, o->lr * o->l1);
}

INLINE int slots(yk_optim_kind kind)
{
    switch (kind) {
    case YK_SGD:
    case YK_OPTIM_KINDS:
        return 0;
    case YK_MOMENTUM:
    case YK_ADAGRAD:
    case YK_ROWWISE:
        return 1;
    case YK_ADAM:
    case YK_FTRL:
        return 2;
    }
    return 0;
}

INLINE void dense(yk_optim_kind kind, const yk_view *v, size_t first, size_t n, const float *g, float scale,
                  const yk_optim_step *step)
{
    const yk_optim_step o = *step;
    float none = 0.0f;
    float *w = v->w + first, *s0 = slots(kind) > 0 ? v->s[0] + first : &none,
          *s1 = slots(kind) > 1 ? v->s[1] + first : &none;
    if (slots(kind) == 0)
        for (size_t i = 0; i < n; i++)
            update(kind, w + i, s0, s1, g[i] * scale, &o);
    else if (slots(kind) == 1)
        for (size_t i = 0; i < n; i++)
            update(kind, w + i, s0 + i, s1, g[i] * scale, &o);
    else
        for (size_t i = 0; i < n; i++)
            update(kind, w + i, s0 + i, s1 + i, g[i] * scale, &o);
}

enum { GATHERED = 16, AHEAD = 32 }; /* keys */

/* Gathers some weights, so that update() works on vectors: scalar square roots and divisions take longer than the memory. */
INLINE void pairs(yk_optim_kind kind, const yk_view *v, const uint32_t *key, const float *g, size_t n,
                  float scale, const yk_optim_step *step)
{
    float w[GATHERED], s[YK_MAX_SLOTS][GATHERED];
    int32_t at[GATHERED];
    const yk_view gathered = {.w = w, .s = {s[0], s[1]}};
    for (size_t i = 0; i < n; i += GATHERED) {
        const size_t m = n - i < GATHERED ? n - i : GATHERED;
        for (size_t j = 0; j < m; j++) {
            const int64_t far = yk_view_at(v, key[i + j + AHEAD < n ? i + j + AHEAD : n - 1]);
            at[j] = (int32_t)yk_view_at(v, key[i + j]);
            w[j] = v->w[at[j]];
            __builtin_prefetch(v->w + far, 1);
            for (int k = 0; k < slots(kind); k++) {
                s[k][j] = v->s[k][at[j]];
                __builtin_prefetch(v->s[k] + far, 1);
            }
        }
        dense(kind, &gathered, 0, m, g + i, scale, step);
        for (size_t j = 0; j < m; j++) {
            v->w[at[j]] = w[j];
            for (int k = 0; k < slots(kind); k++)
                v->s[k][at[j]] = s[k][j];
        }
    }
}

/* rowwise-adagrad: the vector of one key. */
INLINE void row_update(float *w, float *s, const float *g, size_t width, float scale, const yk_optim_step *o)
{
    float squares = 0.0f;
    for (size_t j = 0; j < width; j++) {
        const float x = g[j] * scale + o->l2 * w[j];
        squares += x * x;
    }
    const float sum = s[0] + squares / (float)width, by = o->lr / (sqrtf(sum) + o->epsilon);
    for (size_t j = 0; j < width; j++) {
        w[j] -= by * (g[j] * scale + o->l2 * w[j]);
        if (o->l1 > 0.0f)
            w[j] = shrink(w[j], o->lr * o->l1);
        s[j] = sum;
    }
}

/* Vectors of `width` floats. Gathers the vectors of some keys, as pairs() does: the compiler cannot know that weights and
 * gradients do not overlap. Prefetches those of later keys. */
INLINE void wide(yk_optim_kind kind, const yk_view *v, const uint32_t *key, const float *g, size_t n,
                 size_t width, float scale, const yk_optim_step *step)
{
    /* floats of a cache line; floats to gather at a time, but at least one vector */
    enum { LINE = 16, CHUNK = 64 };
    float w[YK_MAX_WIDTH], s[YK_MAX_SLOTS][YK_MAX_WIDTH];
    ptrdiff_t at[CHUNK];
    const yk_view gathered = {.w = w, .s = {s[0], s[1]}};
    const size_t keys = width < CHUNK ? CHUNK / width : 1, bytes = width * sizeof *w;
    for (size_t i = 0; i < n; i += keys) {
        const size_t m = n - i < keys ? n - i : keys;
        for (size_t j = 0; j < m; j++) {
            const ptrdiff_t far =
                yk_view_wide(v, key[i + j + AHEAD / 2 < n ? i + j + AHEAD / 2 : n - 1], (uint32_t)width) -
                v->w;
            at[j] = yk_view_wide(v, key[i + j], (uint32_t)width) - v->w;
            memcpy(w + j * width, v->w + at[j], bytes);
            for (int k = 0; k < slots(kind); k++)
                memcpy(s[k] + j * width, v->s[k] + at[j], bytes);
            for (size_t line = 0; line < width; line += LINE) {
                __builtin_prefetch(v->w + far + line, 1);
                for (int k = 0; k < slots(kind); k++)
                    __builtin_prefetch(v->s[k] + far + line, 1);
            }
        }
        for (size_t j = 0; kind == YK_ROWWISE && j < m; j++)
            row_update(w + j * width, s[0] + j * width, g + (i + j) * width, width, scale, step);
        if (kind != YK_ROWWISE)
            dense(kind, &gathered, 0, m * width, g + i * width, scale, step);
        for (size_t j = 0; j < m; j++) {
            memcpy(v->w + at[j], w + j * width, bytes);
            for (int k = 0; k < slots(kind); k++)
                memcpy(v->s[k] + at[j], s[k] + j * width, bytes);
        }
    }
}

/* Sums of squared gradients are merged like the weights: far from the optimum, T copies see the same gradients as one worker
 * would, and their sum would make the step size of adagrad and ftrl too small for the rest of the run. adam's mean square is
 * scaled by how far each copy moves it; other moving averages are averaged. ftrl's z follows from the merged
 * weight and n, so that the three stay consistent. Where the weight is zero, z is merged like a weight. */
INLINE void merge(yk_optim_kind kind, const yk_optim_merge *m, uint32_t first, uint32_t n,
                  const yk_optim_step *step)
{
    const yk_optim_step o = *step;
    const yk_view *v = m->mine;
    const float share = 1.0f / (float)m->workers, others = (float)(m->workers - 1);
    for (int64_t k = first; k < (int64_t)first + n; k++) { /* signed: k + shift lies before the table */
        float *w = v->w + k, *mine = w + v->shift, *base = m->base[0] + k;
        float s[2] = {0.0f, 0.0f}, change[2] = {0.0f, 0.0f};
        for (int j = 0; j < slots(kind); j++) {
            change[j] = v->s[j][k + v->shift] - m->base[1 + j][k];
            s[j] = v->s[j][k] + (yk__sums_squares(kind) ? change[j] : share * change[j]);
        }
        const float freq = m->freq ? m->freq[k] : m->flat;
        float alpha = yk__merged_share(kind, yk__step_size(kind, s[0], s[1], &o) * m->moves * freq, others);
        float merged = *w + alpha * (*mine - *base);
        for (int j = 0; j < slots(kind) && yk__sums_squares(kind); j++)
            s[j] = v->s[j][k] + alpha * change[j];
        if (kind == YK_ADAM)
            s[1] = v->s[1][k] +
                   yk__mean_square_share(fminf(m->steps, freq * m->examples), others, &o) * change[1];
        if (kind == YK_FTRL)
            s[0] = yk__ftrl_z(merged, s[0], s[1], &o);
        *w = *mine = *base = merged;
        for (int j = 0; j < slots(kind); j++)
            v->s[j][k] = v->s[j][k + v->shift] = m->base[1 + j][k] = s[j];
    }
}

/* The functions of one kind. */
#define RULE(name, kind)                                                                                     \
    static YK_RACY void name##_dense(const yk_view *v, size_t first, size_t n, const float *g, float scale,  \
                                     const yk_optim_step *o)                                                 \
    {                                                                                                        \
        dense(kind, v, first, n, g, scale, o);                                                               \
    }                                                                                                        \
    static YK_RACY void name##_pairs(const yk_view *v, const uint32_t *key, const float *g, size_t n,        \
                                     float scale, const yk_optim_step *o)                                    \
    {                                                                                                        \
        pairs(kind, v, key, g, n, scale, o);                                                                 \
    }                                                                                                        \
    static YK_RACY void name##_wide(const yk_view *v, const uint32_t *key, const float *g, size_t n,         \
                                    size_t width, float scale, const yk_optim_step *o)                       \
    {                                                                                                        \
        if (width == 8)                                                                                      \
            wide(kind, v, key, g, n, 8, scale, o);                                                           \
        else if (width == 16)                                                                                \
            wide(kind, v, key, g, n, 16, scale, o);                                                          \
        else                                                                                                 \
            wide(kind, v, key, g, n, width, scale, o);                                                       \
    }                                                                                                        \
    static YK_RACY void name##_merge(const yk_optim_merge *m, uint32_t first, uint32_t n,                    \
                                     const yk_optim_step *o)                                                 \
    {                                                                                                        \
        merge(kind, m, first, n, o);                                                                         \
    }

RULE(sgd, YK_SGD)
RULE(momentum, YK_MOMENTUM)
RULE(adagrad, YK_ADAGRAD)
RULE(adam, YK_ADAM)
RULE(ftrl, YK_FTRL)
RULE(rowwise, YK_ROWWISE)

/* A macro instead of designated initializers: a row without one of the traits does not compile. */
#define ROW(id, kind, label, slot0, slot1, is_plain, does_normalize, does_accumulate, has_velocity,          \
            does_correct, is_scale_free, does_derive, does_warm_up)                                          \
    [kind] = {.name = label,                                                                                 \
              .slots = (slot0 != NULL) + (slot1 != NULL),                                                    \
              .slot_name = {slot0, slot1},                                                                   \
              .plain = is_plain,                                                                             \
              .normalizes = does_normalize,                                                                  \
              .accumulates = does_accumulate,                                                                \
              .velocity = has_velocity,                                                                      \
              .corrects = does_correct,                                                                      \
              .scale_free = is_scale_free,                                                                   \
              .derives = does_derive,                                                                        \
              .warms_up = does_warm_up,                                                                      \
              .dense = id##_dense,                                                                           \
              .pairs = id##_pairs,                                                                           \
              .wide = id##_wide,                                                                             \
              .merge = id##_merge}

/* clang-format off */
const yk_optim_rules YK_ISA_NAME(yk_optim_rules) = {{
    /*                                                                            plain normal accum veloc correct scale derive warm-up */
    ROW(sgd,      YK_SGD,      "sgd",             NULL,          NULL,            true,  false, false, false, false, false, false, true),
    ROW(momentum, YK_MOMENTUM, "momentum",        "velocity",    NULL,            false, false, false, true,  false, false, false, true),
    ROW(adagrad,  YK_ADAGRAD,  "adagrad",         "sum_squares", NULL,            false, true,  true,  false, false, false, false, true),
    ROW(adam,     YK_ADAM,     "adam",            "mean",        "mean_square",   false, true,  false, false, true,  true,  false, false),
    ROW(ftrl,     YK_FTRL,     "ftrl",            "z",           "n",             false, true,  false, false, false, false, true,  true),
    ROW(rowwise,  YK_ROWWISE,  "rowwise-adagrad", "sum_squares", NULL,            false, true,  true,  false, false, false, false, true),
}};
/* clang-format on */
