/* A small model with three parameter groups, and the same in doubles, for the tests of parameter groups.
 *
 *     z(x) = b + sum_k w_k x_k + 0.5 s.s + sum_j u_j c_j s_(j mod 4),    s = sum_k x_k v_k
 *
 *     group 0  "linear"      keyed, width 1   w, and the bias b
 *     group 1  "embedding"   keyed, width 4   v
 *     group 2  "network"     dense            u
 *
 * The gradient of "linear" is the rows of the batch, that of "embedding" keys with their values. The loss is the log-loss
 * of two classes. `reference` trains it serially, one example after the other, with reference_optim.h.
 */
#ifndef YK_TESTS_FACTOR_MODEL_H
#define YK_TESTS_FACTOR_MODEL_H

#include "reference_optim.h"

#include "base/arena.h"
#include "core/keymap.h"
#include "model/model.h"
#include "store/local.h"

enum { DIM = 60, KEYS = DIM + 1, WIDE = 4, DENSE = 40, ROWS = 100, NNZ = 6, GROUPS = 3, MAX_BATCH = ROWS };
enum { LINEAR, EMBEDDING, NETWORK };

static const size_t floats_of[GROUPS] = {KEYS, KEYS *WIDE, DENSE};

static inline double factor(int j)
{
    return 1.0 / (1.0 + j);
}

struct yk_workspace {
    yk_arena memory; /* must be first */
    float err[MAX_BATCH], dense[DENSE];
    yk_merger pairs;
};

static inline yk_status factor_work(const yk_model *m, yk_workspace *w, size_t max)
{
    (void)m, (void)max;
    w->pairs.width = WIDE;
    return yk_merger_reserve(&w->pairs, 64);
}

static inline void factor_work_fini(yk_workspace *w)
{
    yk_merger_fini(&w->pairs);
}

/* The first float of a wide key in a view. */
static inline const float *wide_at(const yk_view *v, uint32_t key)
{
    return v->w + (ptrdiff_t)key * WIDE + (key < v->hot ? v->shift : 0);
}

/* s, and z. */
static inline double forward(const yk_view *v, const yk_rows *rows, size_t row, uint32_t bias, double *s)
{
    double z = (double)v[LINEAR].w[yk_view_at(&v[LINEAR], bias)];
    memset(s, 0, WIDE * sizeof *s);
    for (uint64_t e = rows->start[row]; e < rows->start[row + 1]; e++) {
        const double x = rows->value ? (double)rows->value[e] : 1.0;
        z += x * (double)v[LINEAR].w[yk_view_at(&v[LINEAR], rows->index[e])];
        for (int j = 0; j < WIDE; j++)
            s[j] += x * (double)wide_at(&v[EMBEDDING], rows->index[e])[j];
    }
    for (int j = 0; j < WIDE; j++)
        z += 0.5 * s[j] * s[j];
    for (int j = 0; j < DENSE; j++)
        z += (double)v[NETWORK].w[j] * factor(j) * s[j % WIDE];
    return z;
}

static inline void factor_grad(const yk_model *m, yk_workspace *w, const yk_view *v, const yk_batch *b,
                               yk_grad *out)
{
    const uint32_t bias = b->remapped ? 0 : m->bias_key;
    *out = (yk_grad){.examples = b->n};
    memset(w->dense, 0, sizeof w->dense);
    if (yk_merger_reserve(&w->pairs, b->n * NNZ + 1))
        abort();
    for (size_t i = 0; i < b->n; i++) {
        const yk_rows *rows = b->rows;
        const size_t row = b->pick[i];
        double s[WIDE];
        const double z = forward(v, rows, row, bias, s), y = rows->label[row];
        const double err = 1.0 / (1.0 + exp(-z)) - y;
        out->loss += log1p(exp(-fabs(z))) + fmax(y > 0.0 ? -z : z, 0.0);
        w->err[i] = (float)err;
        for (int j = 0; j < DENSE; j++)
            w->dense[j] += (float)(err * factor(j) * s[j % WIDE]);
        double ds[WIDE];
        for (int j = 0; j < WIDE; j++)
            ds[j] = s[j];
        for (int j = 0; j < DENSE; j++)
            ds[j % WIDE] += (double)v[NETWORK].w[j] * factor(j);
        for (uint64_t e = rows->start[row]; e < rows->start[row + 1]; e++) {
            const double x = rows->value ? (double)rows->value[e] : 1.0;
            float *to = w->pairs.value + (size_t)yk_merger_slot_wide(&w->pairs, rows->index[e], WIDE) * WIDE;
            for (int j = 0; j < WIDE; j++)
                to[j] += (float)(err * x * ds[j]);
        }
    }
    out->group[LINEAR] = (yk_group_grad){.rows = *b, .err = w->err, .bias = true, .bias_key = bias};
    out->group[EMBEDDING].pairs = &w->pairs;
    out->group[NETWORK].dense = w->dense;
}

static const yk_model_ops factor_ops = {.name = "factor",
                                        .loss = "logistic",
                                        .workspace_bytes = sizeof(yk_workspace),
                                        .workspace_init = factor_work,
                                        .workspace_fini = factor_work_fini,
                                        .grad = factor_grad};

static inline yk_model factor_model(void)
{
    yk_model m = {.ops = &factor_ops,
                  .shape = {.kind = YK_ROWS_SPARSE, .dim = DIM, .classes = 2, .bias = true},
                  .bias_key = DIM,
                  .outputs = 1,
                  .ntensors = 4,
                  .tensor = {{"linear.weight", 2, {1, DIM}, DIM, LINEAR},
                             {"linear.bias", 1, {1}, 1, LINEAR, .offset = DIM, .bias = true},
                             {"embedding.weight", 2, {KEYS, WIDE}, KEYS * WIDE, EMBEDDING},
                             {"network.weight", 1, {DENSE}, DENSE, NETWORK}}};
    assert_int_equal(yk_loss_find("logistic", &m.loss), YK_OK);
    yk_model_add_group(&m, (yk_group){.name = "linear", .keyed = true, .keys = KEYS});
    yk_model_add_group(&m, (yk_group){.name = "embedding", .keyed = true, .width = WIDE, .keys = KEYS});
    yk_model_add_group(&m, (yk_group){.name = "network", .keys = DENSE});
    return m;
}

/* ---- data and initial parameters ---- */

static inline void make_rows(yk_rows *rows)
{
    random_state = yk_rng_seed(11, 7);
    yk_rows_init(rows, YK_ROWS_SPARSE, 0);
    for (int r = 0; r < ROWS; r++) {
        uint32_t *index;
        float *value;
        assert_int_equal(yk_rows_sparse(rows, NNZ, &index, &value), YK_OK);
        for (int e = 0; e < NNZ; e++) { /* half of them among the first keys */
            index[e] = (uint32_t)(e % 2 ? yk_rng_below(&random_state, 8) : yk_rng_below(&random_state, DIM));
            value[e] = uniform(-1, 1);
        }
        assert_int_equal(yk_rows_commit(rows, NNZ, (int32_t)yk_rng_below(&random_state, 2)), YK_OK);
    }
}

static inline float begin_with(int group, size_t i)
{
    const bool unused = group == EMBEDDING && i >= DIM * WIDE; /* the key of the bias */
    return group == LINEAR || unused ? 0.0f : 0.3f * sinf((float)(1 + group) * (float)(i + 1));
}

/* Fills a store for all parameters; keys are those of the data. */
static inline void fill_store(yk_local *s)
{
    for (int g = 0; g < yk_local_groups(s); g++)
        for (size_t i = 0; i < floats_of[g]; i++)
            yk_local_raw(s, g).live.w[i] = begin_with(g, i);
    yk_local_restore(s, 0);
}

/* ---- in doubles ---- */

typedef struct {
    yk_optim_config optim[GROUPS];
    weight w[GROUPS][KEYS * WIDE];
    uint64_t step;
} reference;

static inline void reference_begin(reference *r, const yk_local_group *group)
{
    *r = (reference){0};
    for (int g = 0; g < GROUPS; g++) {
        r->optim[g] = group[g].optim;
        for (size_t i = 0; i < floats_of[g]; i++)
            r->w[g][i].w = (double)begin_with(g, i);
    }
}

typedef struct {
    double g[GROUPS][KEYS * WIDE];
    bool touched[KEYS];
} sums;

static inline void add_example(const reference *r, const yk_rows *rows, size_t row, sums *out)
{
    double s[WIDE] = {0}, ds[WIDE], z = r->w[LINEAR][DIM].w;
    for (uint64_t e = rows->start[row]; e < rows->start[row + 1]; e++) {
        const double x = rows->value ? (double)rows->value[e] : 1.0;
        z += x * r->w[LINEAR][rows->index[e]].w;
        for (int j = 0; j < WIDE; j++)
            s[j] += x * r->w[EMBEDDING][rows->index[e] * WIDE + (uint32_t)j].w;
    }
    for (int j = 0; j < WIDE; j++) {
        z += 0.5 * s[j] * s[j];
        ds[j] = s[j];
    }
    for (int j = 0; j < DENSE; j++) {
        z += r->w[NETWORK][j].w * factor(j) * s[j % WIDE];
        ds[j % WIDE] += r->w[NETWORK][j].w * factor(j);
    }
    const double err = 1.0 / (1.0 + exp(-z)) - rows->label[row];
    out->g[LINEAR][DIM] += err;
    out->touched[DIM] = true;
    for (int j = 0; j < DENSE; j++)
        out->g[NETWORK][j] += err * factor(j) * s[j % WIDE];
    for (uint64_t e = rows->start[row]; e < rows->start[row + 1]; e++) {
        const double x = rows->value ? (double)rows->value[e] : 1.0;
        out->touched[rows->index[e]] = true;
        out->g[LINEAR][rows->index[e]] += err * x;
        for (int j = 0; j < WIDE; j++)
            out->g[EMBEDDING][rows->index[e] * WIDE + (uint32_t)j] += err * x * ds[j];
    }
}

/* rowwise-adagrad: the vector of one key. */
static inline void reference_row(weight *w, const double *g, double examples, const yk_optim_step *o)
{
    double squares = 0.0;
    for (int j = 0; j < WIDE; j++) {
        const double x = g[j] / examples + (double)o->l2 * w[j].w;
        squares += x * x / WIDE;
    }
    for (int j = 0; j < WIDE; j++) {
        const double x = g[j] / examples + (double)o->l2 * w[j].w;
        w[j].s0 += squares;
        w[j].w -= (double)o->lr * x / (sqrt(w[j].s0) + (double)o->epsilon);
    }
}

/* One step of some groups (a bit for each) with rows first .. end - 1 of `rows`; the gradient was computed with the parameters `with`. */
static inline void reference_apply(reference *r, const reference *with, const yk_rows *rows, size_t first,
                                   size_t end, unsigned groups)
{
    static sums sum;
    memset(&sum, 0, sizeof sum);
    for (size_t i = first; i < end; i++)
        add_example(with, rows, i, &sum);
    for (int g = 0; g < GROUPS; g++) {
        const yk_optim_step o = yk_optim_at(&r->optim[g], r->step);
        const size_t width = g == EMBEDDING ? WIDE : 1;
        for (size_t i = 0; groups >> g & 1 && i < floats_of[g]; i++)
            if (g == EMBEDDING && r->optim[g].kind == YK_ROWWISE) {
                if (i % WIDE == 0 && sum.touched[i / WIDE] && i / WIDE != DIM)
                    reference_row(&r->w[g][i], &sum.g[g][i], (double)(end - first), &o);
            } else if (g == NETWORK || (sum.touched[i / width] && (g == LINEAR || i / width != DIM)))
                reference_update(r->optim[g].kind, &r->w[g][i], sum.g[g][i] / (double)(end - first), &o);
            else if (g == LINEAR && r->optim[g].kind == YK_SGD) /* store/local_decay.c */
                r->w[g][i].w *= exp(-(double)o.lr * (double)o.l2);
    }
}

static inline void reference_step(reference *r, const yk_rows *rows, size_t first, size_t end)
{
    reference_apply(r, r, rows, first, end, 7);
    r->step++;
}

static inline void reference_train(reference *r, const yk_rows *rows, size_t batch, int epochs)
{
    for (int e = 0; e < epochs; e++)
        for (size_t at = 0; at < ROWS; at += batch)
            reference_step(r, rows, at, at + batch < ROWS ? at + batch : ROWS);
}

/* Weights and state of a store equal the reference, up to `max` of its norm. keymap: of the store's keys; NULL: those
 * of the data. */
static inline void assert_is_near(yk_local *s, const reference *r, const yk_keymap *map, double max,
                                  const char *what)
{
    for (int g = 0; g < GROUPS; g++) {
        const yk_view raw = yk_local_raw(s, g).live;
        const float *array[] = {yk_local_table(s, g).w, raw.s[0], raw.s[1]};
        const size_t width = g == EMBEDDING ? WIDE : 1;
        for (int a = 0; a < 1 + yk_local_raw(s, g).rule->slots; a++) {
            double apart = 0.0, squares = 1e-12;
            for (size_t i = 0; i < floats_of[g]; i++) {
                const size_t key = map && g != NETWORK ? yk_keymap_id(map, (uint32_t)(i / width)) : i / width;
                const weight *w = &r->w[g][i];
                const double want = a == 0   ? w->w
                                    : a == 1 ? w->s0
                                             : w->s1,
                             got = (double)array[a][key * width + i % width];
                apart += (got - want) * (got - want);
                squares += want * want;
            }
            if (!(sqrt(apart / squares) < max))
                fail_msg("%s, group %d (%s), array %d: %g apart", what, g, yk_local_raw(s, g).rule->name, a,
                         sqrt(apart / squares));
        }
    }
}

static inline void assert_is_reference(yk_local *s, const reference *r, const yk_keymap *map,
                                       const char *what)
{
    assert_is_near(s, r, map, 2e-5, what);
}

#endif
