/* The update rules of optim.h, compiled once per instruction set. The update of a weight is written once, in update(). The
 * loops around it are inlined with the kind as a constant, so that each kind gets its own loop. */
#include "optim/optim.h"

#include "kern/factors.h"
#include "optim/kinds.h"
#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline)) YK_RACY

/* ---- the optimizers ----
 *
 * A row without one of the decisions does not compile. yk_optim_rule (optim.h) says what each column means:
 *   state      slot_name and slot_merge of up to two slots
 *   lr, eps    the defaults
 *   normal     normalizes        initial    accumulates        velocity   velocity        sum        scale_free
 *   derived    derives           key        per_key            decoupled  decoupled */
/* clang-format off */
#define OPTIMIZERS(ROW)                                                                                                                   \
    /*                                    state                                              lr     eps    normal initial velocity        sum    derived key decoupled */ \
    ROW(sgd,      YK_SGD,      "sgd",      NULL,          YK_MERGE_NONE, NULL,          YK_MERGE_NONE,        0.1,   1e-10, false, false, YK_VELOCITY_NONE, false, false,   false, false) \
    ROW(momentum, YK_MOMENTUM, "momentum", "velocity",    YK_MERGE_MEAN, NULL,          YK_MERGE_NONE,        0.01,  1e-10, false, false, YK_VELOCITY_SUM,  false, false,   false, false) \
    ROW(adagrad,  YK_ADAGRAD,  "adagrad",  "sum_squares", YK_MERGE_SUM,  NULL,          YK_MERGE_NONE,        0.05,  1e-10, true,  true,  YK_VELOCITY_NONE, false, false,   false, false) \
    ROW(adam,     YK_ADAM,     "adam",     "mean",        YK_MERGE_MEAN, "mean_square", YK_MERGE_MEAN_SQUARE, 0.001, 1e-8,  true,  false, YK_VELOCITY_MEAN, true,  false,   false, false) \
    ROW(ftrl,     YK_FTRL,     "ftrl",     "z",           YK_MERGE_SUM,  "n",           YK_MERGE_SUM,         0.1,   1e-10, true,  false, YK_VELOCITY_NONE, false, true,    false, false) \
    ROW(rowwise,  YK_ROWWISE,  "rowwise-adagrad", "sum_squares", YK_MERGE_SUM, NULL,    YK_MERGE_NONE,        0.05,  1e-10, true,  true,  YK_VELOCITY_NONE, false, false,   true,  false) \
    ROW(nesterov, YK_NESTEROV, "nesterov", "velocity",    YK_MERGE_MEAN, NULL,          YK_MERGE_NONE,        0.01,  1e-10, false, false, YK_VELOCITY_SUM,  false, false,   false, false) \
    ROW(adamw,    YK_ADAMW,    "adamw",    "mean",        YK_MERGE_MEAN, "mean_square", YK_MERGE_MEAN_SQUARE, 0.001, 1e-8,  true,  false, YK_VELOCITY_MEAN, true,  false,   false, true)
/* clang-format on */

#define TRAITS(label, slot0, merge0, slot1, merge1, default_lr, default_epsilon, does_normalize,             \
               does_accumulate, has_velocity, is_scale_free, does_derive, is_per_key, is_decoupled)          \
    .name = label, .slots = (slot0 != NULL) + (slot1 != NULL), .slot_name = {slot0, slot1},                  \
    .slot_merge = {merge0, merge1}, .lr = default_lr, .epsilon = default_epsilon, .plain = slot0 == NULL,    \
    .normalizes = does_normalize, .accumulates = does_accumulate, .velocity = has_velocity,                  \
    .scale_free = is_scale_free, .derives = does_derive, .per_key = is_per_key, .decoupled = is_decoupled

/* Known to the compiler where a kind is a constant. */
#define ROW(id, kind, ...) [kind] = {TRAITS(__VA_ARGS__)},
static const yk_optim_rule traits[] = {OPTIMIZERS(ROW)};
#undef ROW
#define COUNT(...) +1
_Static_assert(0 OPTIMIZERS(COUNT) == YK_OPTIM_KINDS, "every kind has a row");

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

INLINE void update(yk_optimizer kind, float *w, float *s0, float *s1, float g, const yk_optim_step *o)
{
    if (traits[kind].decoupled)
        *w = *w - o->lr * o->l2 * *w;
    else if (!traits[kind].derives)
        g += o->l2 * *w;
    switch (kind) {
    case YK_SGD:
        *w = *w - o->lr * g;
        break;
    case YK_MOMENTUM:
        *s0 = o->momentum * *s0 + g;
        *w = *w - o->lr * *s0;
        break;
    case YK_NESTEROV:
        *s0 = o->momentum * *s0 + g;
        *w = *w - o->lr * (g + o->momentum * *s0);
        break;
    case YK_ADAGRAD:
    case YK_ROWWISE: /* one float per key: the same */
        *s0 = *s0 + g * g;
        *w = *w - o->lr * g / (sqrtf(*s0) + o->epsilon);
        break;
    case YK_ADAM:
    case YK_ADAMW:
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
    if (!traits[kind].derives && o->l1 > 0.0f)
        *w = shrink(*w, o->lr * o->l1);
}

/* fmaxf() is a function call, because of NaN: loops with it are not vectorized. */
INLINE float larger(float a, float b)
{
    return a > b ? a : b;
}

/* The same for a stale gradient of adagrad: `behind` is how far others have moved the weight since it was read, read - w. */
INLINE void revise(float *w, float *s, float g, float behind, float inverse_lr, const yk_optim_step *o)
{
    const float before = sqrtf(*s) + o->epsilon, others = behind * before * inverse_lr;
    g += o->l2 * *w;
    *s = larger(*s + g * (g + 2.0f * others), *s * YK_SUM_KEPT);
    const float by = 1.0f / (sqrtf(*s) + o->epsilon);
    *w = *w + (1.0f - before * by) * behind - o->lr * g * by;
    if (o->l1 > 0.0f)
        *w = shrink(*w, o->lr * o->l1);
}

INLINE float inverse_lr(const yk_optim_step *o)
{
    return o->lr > 0.0f ? 1.0f / o->lr : 0.0f;
}

INLINE int slots(yk_optimizer kind)
{
    return traits[kind].slots;
}

INLINE void dense(yk_optimizer kind, const yk_view *v, size_t first, size_t n, const float *g, float scale,
                  const yk_optim_step *step)
{
    const yk_optim_step o = *step;
    float none = 0.0f;
    float *w = v->w + first, *s0 = slots(kind) > 0 ? v->s[0] + first : &none,
          *s1 = slots(kind) > 1 ? v->s[1] + first : &none;
    for (size_t i = 0; i < n; i++)
        update(kind, w + i, slots(kind) > 0 ? s0 + i : s0, slots(kind) > 1 ? s1 + i : s1, g[i] * scale, &o);
}

/* Like dense(), for n floats that were read as read[]. Only rules that accumulate squares use it. */
INLINE void stale(yk_optimizer kind, const yk_view *v, size_t n, const float *g, const float *read,
                  float scale, const yk_optim_step *step)
{
    const yk_optim_step o = *step;
    if (!read || !traits[kind].accumulates) {
        dense(kind, v, 0, n, g, scale, step);
        return;
    }
    const float inverse = inverse_lr(&o);
    for (size_t i = 0; i < n; i++)
        revise(v->w + i, v->s[0] + i, g[i] * scale, read[i] - v->w[i], inverse, &o);
}

/* rowwise-adagrad: the vector of one key. read: NULL, or the vector that the gradient was computed with. */
INLINE void row_update(float *w, float *s, const float *g, const float *read, size_t width, float scale,
                       const yk_optim_step *o)
{
    const float before = sqrtf(s[0]) + o->epsilon, inverse = read ? inverse_lr(o) : 0.0f;
    float squares = 0.0f;
    for (size_t j = 0; j < width; j++) {
        const float x = g[j] * scale + o->l2 * w[j];
        squares += read ? x * (x + 2.0f * (read[j] - w[j]) * before * inverse) : x * x;
    }
    const float sum = larger(s[0] + squares / (float)width, s[0] * YK_SUM_KEPT),
                now = sqrtf(sum) + o->epsilon, by = o->lr / now;
    for (size_t j = 0; j < width; j++) {
        const float behind = read ? (1.0f - before / now) * (read[j] - w[j]) : 0.0f;
        w[j] -= by * (g[j] * scale + o->l2 * w[j]) - behind;
        if (o->l1 > 0.0f)
            w[j] = shrink(w[j], o->lr * o->l1);
        s[j] = sum;
    }
}

/* Gathers the floats of some keys, so that update() works on vectors: scalar square roots and divisions take longer than memory
 * accesses, and the compiler cannot know that weights and gradients do not overlap. Prefetches the floats of later keys. */
INLINE void pairs(yk_optimizer kind, const yk_view *v, const uint32_t *key, const float *g, const float *read,
                  size_t n, size_t width, float scale, const yk_optim_step *step)
{
    /* floats of a cache line; floats to gather at a time, but at least one vector */
    enum { LINE = 16, CHUNK = 64 };
    const size_t ahead = width == 1 ? 32 : 16; /* keys */
    const bool per_key = traits[kind].per_key && width > 1;
    float w[YK_MAX_WIDTH], s[YK_MAX_SLOTS][YK_MAX_WIDTH];
    ptrdiff_t at[CHUNK];
    const yk_view gathered = {.w = w, .s = {s[0], s[1]}};
    const size_t keys = width < CHUNK ? CHUNK / width : 1, bytes = width * sizeof *w;
    for (size_t i = 0; i < n; i += keys) {
        const size_t m = n - i < keys ? n - i : keys;
        for (size_t j = 0; j < m; j++) {
            const ptrdiff_t far =
                yk_view_wide(v, key[i + j + ahead < n ? i + j + ahead : n - 1], (uint32_t)width) - v->w;
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
        for (size_t j = 0; per_key && j < m; j++)
            row_update(w + j * width, s[0] + j * width, g + (i + j) * width,
                       read ? read + (i + j) * width : NULL, width, scale, step);
        if (!per_key)
            stale(kind, &gathered, m * width, g + i * width, read ? read + i * width : NULL, scale, step);
        for (size_t j = 0; j < m; j++) {
            memcpy(v->w + at[j], w + j * width, bytes);
            for (int k = 0; k < slots(kind); k++)
                memcpy(v->s[k] + at[j], s[k] + j * width, bytes);
        }
    }
}

/* ---- merging copies ---- */

/* How far a gradient of 1 currently moves a weight. */
INLINE float step_size(yk_optimizer kind, float s0, float s1, const yk_optim_step *o)
{
    switch (kind) {
    case YK_SGD:
    case YK_OPTIM_KINDS:
        break;
    case YK_MOMENTUM:
    case YK_NESTEROV:
        return o->lr / (1.0f - o->momentum);
    case YK_ADAGRAD:
    case YK_ROWWISE:
        return o->lr / (sqrtf(s0) + 1e-6f);
    case YK_ADAM:
    case YK_ADAMW:
        return o->lr / (sqrtf(s1 * o->correct2) + 1e-6f);
    case YK_FTRL:
        return 1.0f / ((o->ftrl_beta + sqrtf(s1)) / o->lr + o->l2);
    }
    return o->lr;
}

/* alpha (optim.h), in a form with few divisions. */
INLINE float share_of(yk_optimizer kind, float x, float others)
{
    const float u = others * x, h = traits[kind].scale_free ? (1.0f + u) / (2.0f + u) : 1.0f;
    return (1.0f + x) / (1.0f + x + u * h);
}

INLINE void scale(yk_optimizer kind, const yk_optim_share *s, size_t first, size_t n, float *delta,
                  size_t stride, const yk_optim_step *step)
{
    const yk_optim_step o = *step;
    const yk_optim_share c = *s;
    const float others = (float)(c.workers - 1);
    for (size_t i = first; i < first + n; i++) {
        const float sum = c.squares[i] * c.times - c.less, often = sum > 0.0f ? sum : 0.0f;
        float state[YK_MAX_SLOTS] = {0.0f, 0.0f};
        for (int j = 0; j < slots(kind); j++)
            state[j] = c.state[j][i] + delta[(size_t)(j + 1) * stride + i];
        const float alpha = share_of(kind, step_size(kind, state[0], state[1], &o) * c.moves * often, others);
        const float used = often / c.one, steps = used < c.steps ? used : c.steps;
        const float share[] = {[YK_MERGE_NONE] = 0.0f,
                               [YK_MERGE_MEAN] = 1.0f / (float)c.workers,
                               [YK_MERGE_SUM] = alpha,
                               [YK_MERGE_MEAN_SQUARE] = share_of(kind, steps * (1.0f - o.beta2), others)};
        delta[i] *= alpha;
        for (int j = 0; j < slots(kind); j++)
            delta[(size_t)(j + 1) * stride + i] *= share[traits[kind].slot_merge[j]];
    }
}

/* The functions of one kind. */
#define RULE(name, kind, ...)                                                                                \
    static YK_RACY void name##_dense(const yk_view *v, size_t first, size_t n, const float *g, float by,     \
                                     const yk_optim_step *o)                                                 \
    {                                                                                                        \
        dense(kind, v, first, n, g, by, o);                                                                  \
    }                                                                                                        \
    static YK_RACY void rule_pairs_##name(const yk_view *v, const uint32_t *key, const float *g,             \
                                          const float *read, size_t n, size_t width, float by,               \
                                          const yk_optim_step *o)                                            \
    {                                                                                                        \
        if (width == 1)                                                                                      \
            pairs(kind, v, key, g, read, n, 1, by, o);                                                       \
        else if (width == 8)                                                                                 \
            pairs(kind, v, key, g, read, n, 8, by, o);                                                       \
        else if (width == 16)                                                                                \
            pairs(kind, v, key, g, read, n, 16, by, o);                                                      \
        else                                                                                                 \
            pairs(kind, v, key, g, read, n, width, by, o);                                                   \
    }                                                                                                        \
    static YK_RACY void name##_scale(const yk_optim_share *s, size_t first, size_t n, float *delta,          \
                                     size_t stride, const yk_optim_step *o)                                  \
    {                                                                                                        \
        scale(kind, s, first, n, delta, stride, o);                                                          \
    }
OPTIMIZERS(RULE)

#define ROW(id, kind, ...)                                                                                   \
    [kind] = {TRAITS(__VA_ARGS__), .dense = id##_dense, .pairs = rule_pairs_##id, .scale = id##_scale},
static const yk_optim_rule rules[] = {OPTIMIZERS(ROW)};
const yk_optim_rules YK_ISA_NAME(yk_optim_rules) = {rules};
