/* Models that are sums of branches on sparse keys: kernels against the reference, gradients against finite differences of a
 * loss in doubles that adds up all pairs of entries, initial values, and errors in lists. */
#include "references.h"
#include "scratch.h"

#include "base/rng.h"
#include "kern/factors.h"
#include "model/model.h"
#include <math.h>
#include <stdbool.h>

static yk_rng random_state;

static double uniform(double low, double high)
{
    return low + (high - low) * yk_rng_unit(&random_state);
}

enum { DIM = 23, FIELDS = 3, ROWS = 40, BATCH = 37, MAX = 12, MAX_WIDTH = 20 };

/* Rows with up to MOST entries; some have none. A key may be in several fields. */
static void make_rows(yk_rows *rows, bool values, bool fields)
{
    yk_rows_init(rows, YK_ROWS_SPARSE, 0);
    for (int r = 0; r < ROWS; r++) {
        uint32_t *index;
        float *value;
        uint16_t *field = NULL;
        const size_t n = yk_rng_below(&random_state, MAX + 1);
        assert_int_equal(yk_rows_sparse(rows, MAX, &index, &value), YK_OK);
        if (fields)
            assert_int_equal(yk_rows_fields(rows, MAX, &field), YK_OK);
        for (size_t e = 0; e < n; e++) { /* without fields, the keys of a row differ */
            index[e] = fields ? yk_rng_below(&random_state, DIM) : (uint32_t)((e * 5 + (size_t)r) % DIM);
            if (values)
                value[e] = (float)uniform(-1.5, 1.5);
            if (fields)
                field[e] = (uint16_t)yk_rng_below(&random_state, FIELDS);
        }
        assert_int_equal(yk_rows_commit(rows, n, (int32_t)yk_rng_below(&random_state, 2)), YK_OK);
    }
}

static yk_batch some_batch(const yk_rows *rows, uint32_t *pick)
{
    for (size_t i = 0; i < BATCH + 3; i++)
        pick[i] = yk_rng_below(&random_state, ROWS);
    return (yk_batch){rows, pick, BATCH, 3};
}

/* ---- kernels ---- */

#define EACH_ISA(isa) for (yk_isa isa = YK_ISA_BASE; isa <= yk_isa_best(); isa++)

static void assert_close(const float *got, const float *want, size_t n, const char *what, yk_isa isa,
                         uint32_t width)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= 2e-5 * (1.0 + fabs((double)want[i]))))
            fail_msg("%s, %s, width %u, number %zu: %.9g is not %.9g", what, yk_isa_name(isa), width, i,
                     (double)got[i], (double)want[i]);
}

static void compare_kernels(yk_isa isa, const yk_rows *rows, uint32_t width, uint32_t hot)
{
    static float a[BATCH * FIELDS * MAX_WIDTH], b[BATCH * FIELDS * MAX_WIDTH], sum[BATCH * MAX_WIDTH],
        right[BATCH * MAX_WIDTH], table[2 * DIM * MAX_WIDTH], g[DIM * MAX_WIDTH], h[DIM * MAX_WIDTH];
    enum { FIRST = 3 };
    uint32_t pick[BATCH + 3], slot[BATCH * MAX], row[ROWS * MAX], later[ROWS * MAX];
    float z[BATCH], y[BATCH], err[BATCH];
    const yk_factors_ops *ops = YK_ISA_AT(yk_factors, isa), *ref = &yk_factors_ref;
    const yk_view v = {.w = table, .hot = hot, .shift = (int32_t)(DIM * width)};
    const yk_batch batch = some_batch(rows, pick);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        table[i] = (float)uniform(-1, 1);
    for (size_t i = 0; i < BATCH; i++) {
        z[i] = y[i] = (float)uniform(-1, 1);
        err[i] = (float)uniform(-1, 1);
    }
    const yk_batch list = {rows, NULL, (size_t)rows->start[ROWS], 0};
    for (size_t e = 0; e < list.n; e++) {
        row[e] = yk_rng_below(&random_state, BATCH);
        later[e] = row[e] + FIRST;
    }
    for (size_t i = 0, n = 0; i < BATCH; i++)
        for (uint64_t e = rows->start[pick[i]]; e < rows->start[pick[i] + 1]; e++)
            slot[n++] = rows->index[e];
    for (size_t i = 0; i < DIM * width; i++)
        g[i] = h[i] = (float)uniform(-1, 1);
    ops->interact(&v, width, &batch, sum, z);
    ref->interact(&v, width, &batch, right, y);
    assert_close(sum, right, BATCH * width, "sums", isa, width);
    assert_close(z, y, BATCH, "interactions", isa, width);
    ops->interact_grad(&v, width, &batch, NULL, right, err, slot, g);
    ops->interact_grad(&v, width, &list, row, right, err, rows->index, g);
    ref->interact_grad(&v, width, &batch, NULL, right, err, slot, h);
    ref->interact_grad(&v, width, &list, row, right, err, rows->index, h);
    assert_close(g, h, DIM * width, "gradient of interactions", isa, width);
    const size_t fields = rows->field ? FIELDS : 1;
    ops->embed(&v, width, &batch, fields, a);
    ref->embed(&v, width, &batch, fields, b);
    assert_close(a, b, BATCH * fields * width, "embeddings", isa, width);
    ops->embed_grad(width, &batch, NULL, 0, fields, b, slot, g);
    ops->embed_grad(width, &list, later, FIRST, fields, b, rows->index, g);
    ref->embed_grad(width, &batch, NULL, 0, fields, b, slot, h);
    ref->embed_grad(width, &list, later, FIRST, fields, b, rows->index, h);
    assert_close(g, h, DIM * width, "gradient of embeddings", isa, width);
}

static void kernels_equal_the_reference(void **state)
{
    static const uint32_t widths[] = {1, 3, 4, 8, 12, 16, MAX_WIDTH};
    (void)state;
    EACH_ISA(isa)
    for (int kind = 0; kind < 4; kind += SANITIZED ? 3 : 1) {
        yk_rows rows;
        make_rows(&rows, kind & 1, kind & 2);
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
            for (uint32_t hot = 0; hot < DIM; hot += 11)
                compare_kernels(isa, &rows, widths[w], hot);
        yk_rows_fini(&rows);
    }
}

/* Random keys of a row, over several rows: equal keys get equal slots, new ones the next. */
static void slots_are_those_of_the_keys(void **state)
{
    enum { KEYS = 3000, EACH = 39 };
    static uint32_t seen[1 << 16];
    yk_merger m = {0};
    (void)state;
    assert_int_equal(yk_merger_reserve(&m, KEYS), YK_OK);
    for (int round = 0; round < 5; round++) {
        uint32_t key[EACH], slot[EACH], next = 0;
        memset(seen, 0, sizeof seen);
        yk_merger_clear(&m);
        for (int r = 0; r < KEYS / EACH; r++) {
            for (int i = 0; i < EACH; i++)
                key[i] = yk_rng_below(&random_state, i % 2 ? 40 : 1 << 16);
            yk_merger_slots(&m, key, EACH, slot);
            for (int i = 0; i < EACH; i++) {
                if (!seen[key[i]])
                    seen[key[i]] = ++next;
                assert_int_equal(slot[i], seen[key[i]] - 1);
                assert_int_equal(m.key[slot[i]], key[i]);
                assert_true(m.value[slot[i]] == 0.0f);
            }
        }
        assert_int_equal(m.n, next);
        for (size_t i = 0; i < m.n; i++)
            m.value[i] = 1.0f;
    }
    yk_merger_fini(&m);
}

/* ---- a model in doubles, from its tensors ---- */

enum { MAX_TENSOR = 1024 };

typedef struct {
    const yk_model *m;
    double t[YK_MAX_TENSORS][MAX_TENSOR];
} tensors;

static const double *tensor(const tensors *t, const char *name, size_t *columns_out)
{
    for (int i = 0; i < t->m->ntensors; i++)
        if (strcmp(t->m->tensor[i].name, name) == 0) {
            *columns_out = t->m->tensor[i].shape[t->m->tensor[i].rank - 1];
            return t->t[i];
        }
    return NULL;
}

static double value_at(const yk_rows *rows, uint64_t e)
{
    return rows->value ? (double)rows->value[e] : 1.0;
}

/* All pairs of entries, each once. */
static double pairs_of(const double *v, size_t width, const yk_rows *rows, size_t r)
{
    double z = 0.0;
    for (uint64_t e = rows->start[r]; e < rows->start[r + 1]; e++)
        for (uint64_t f = e + 1; f < rows->start[r + 1]; f++)
            for (size_t j = 0; j < width; j++)
                z += value_at(rows, e) * value_at(rows, f) * v[rows->index[e] * width + j] *
                     v[rows->index[f] * width + j];
    return z;
}

/* embed, dense, tanh, dense 1 */
static double network_of(const tensors *t, const double *v, size_t width, const yk_rows *rows, size_t r)
{
    double x[FIELDS * MAX_WIDTH] = {0}, h[16] = {0}, z;
    size_t in = 0, out = 0;
    const double *w = tensor(t, "network.0.weight", &in), *b = tensor(t, "network.0.bias", &out),
                 *w2 = tensor(t, "network.2.weight", &out), *b2 = tensor(t, "network.2.bias", &(size_t){0});
    for (uint64_t e = rows->start[r]; e < rows->start[r + 1]; e++)
        for (size_t j = 0; j < width; j++)
            x[(rows->field ? rows->field[e] : 0) * width + j] +=
                value_at(rows, e) * v[rows->index[e] * width + j];
    z = b2[0];
    for (size_t o = 0; o < out; o++) {
        h[o] = b[o];
        for (size_t i = 0; i < in; i++)
            h[o] += w[o * in + i] * x[i];
        z += w2[o] * tanh(h[o]);
    }
    return z;
}

static double margin(const tensors *t, const char *fm, const char *embed, const yk_rows *rows, size_t r)
{
    size_t width = 0;
    double z = 0.0;
    const double *w = tensor(t, "linear.weight", &width), *b = tensor(t, "linear.bias", &width);
    for (uint64_t e = rows->start[r]; w && e < rows->start[r + 1]; e++)
        z += value_at(rows, e) * w[rows->index[e]];
    z += b ? b[0] : 0.0;
    const double *v = fm ? tensor(t, fm, &width) : NULL;
    z += v ? pairs_of(v, width, rows, r) : 0.0;
    v = embed ? tensor(t, embed, &width) : NULL;
    return z + (v ? network_of(t, v, width, rows, r) : 0.0);
}

static double loss_of(const tensors *t, const char *fm, const char *embed, const yk_batch *b)
{
    double loss = 0.0;
    for (size_t i = 0; i < b->n; i++) {
        const double z = margin(t, fm, embed, b->rows, b->pick[i]), y = b->rows->label[b->pick[i]];
        loss += log1p(exp(-fabs(z))) + fmax(y > 0.0 ? -z : z, 0.0);
    }
    return loss;
}

/* ---- gradients ---- */

/* The gradient of a group as a dense vector, whatever its representation. */
static void flat_gradient(const yk_model *m, const yk_grad *g, int group, float *out)
{
    const yk_group_grad *from = &g->group[group];
    const size_t n = yk_group_floats(&m->group[group]), width = m->group[group].width;
    memset(out, 0, n * sizeof *out);
    if (from->dense) {
        memcpy(out, from->dense, n * sizeof *out);
        return;
    }
    yk_merger own = {0}, *pairs = (yk_merger *)from->pairs;
    assert_int_equal(yk_merger_reserve(&own, 1), YK_OK);
    if (!pairs) {
        assert_int_equal(yk_grad_merge(from, &own, yk_merger_add_all), YK_OK);
        pairs = &own;
    }
    for (size_t i = 0; i < pairs->n; i++)
        for (size_t j = 0; j < width; j++)
            out[pairs->key[i] * width + j] += pairs->value[i * width + j];
    yk_merger_fini(&own);
}

static void check_model(const char *list, const char *fm, const char *embed, bool bias, bool values,
                        bool fields)
{
    static tensors t;
    static float params[YK_MAX_GROUPS][MAX_TENSOR], g[YK_MAX_GROUPS][MAX_TENSOR], out[MAX_TENSOR];
    const yk_model_shape shape = {
        .kind = YK_ROWS_SPARSE, .dim = DIM, .classes = 2, .fields = fields ? FIELDS : 1, .bias = bias};
    yk_view v[YK_MAX_GROUPS] = {0};
    uint32_t pick[BATCH + 3];
    float p[BATCH];
    double loss = 0.0;
    yk_rows rows;
    yk_workspace *w;
    yk_grad grad;
    yk_model *m;
    make_rows(&rows, values, fields);
    const yk_batch b = some_batch(&rows, pick);
    assert_int_equal(yk_model_create(list, &shape, &m), YK_OK);
    assert_int_equal(yk_workspace_create(m, BATCH, &w), YK_OK);
    t.m = m;
    for (int i = 0; i < m->ngroups; i++) {
        assert_true(yk_group_floats(&m->group[i]) <= MAX_TENSOR);
        for (size_t k = 0; k < MAX_TENSOR; k++)
            params[i][k] = (float)uniform(-0.7, 0.7);
        v[i].w = params[i];
    }
    for (int i = 0; i < m->ntensors; i++) {
        yk_model_export(m, i, params[m->tensor[i].group], out);
        for (size_t k = 0; k < m->tensor[i].size; k++)
            t.t[i][k] = (double)out[k];
    }
    m->ops->grad(m, w, v, &b, &grad);
    assert_int_equal(grad.status, YK_OK);
    const double want = loss_of(&t, fm, embed, &b);
    m->ops->predict(m, w, v, &b, p, &loss);
    if (!(fabs(grad.loss - want) <= 1e-5 * want && fabs(loss - want) <= 1e-5 * want))
        fail_msg("%s: the loss is %.9g and %.9g, not %.9g", list, grad.loss, loss, want);
    for (size_t i = 0; i < BATCH; i++)
        assert_true(fabs((double)p[i] - 1.0 / (1.0 + exp(-margin(&t, fm, embed, &rows, pick[i])))) < 1e-5);
    m->ops->grad(m, w, v, &b, &grad);
    for (int i = 0; i < m->ngroups; i++)
        flat_gradient(m, &grad, i, g[i]);
    for (int i = 0; i < m->ntensors; i++) {
        yk_model_export(m, i, g[m->tensor[i].group], out);
        for (size_t k = 0; k < m->tensor[i].size; k++) {
            const double at = t.t[i][k], h = 1e-4;
            t.t[i][k] = at + h;
            const double above = loss_of(&t, fm, embed, &b);
            t.t[i][k] = at - h;
            const double right = (above - loss_of(&t, fm, embed, &b)) / (2 * h);
            t.t[i][k] = at;
            if (!(fabs((double)out[k] - right) <= 1e-3 * fabs(right) + 1e-4))
                fail_msg("%s: %s[%zu] has the derivative %.9g, not %.9g", list, m->tensor[i].name, k,
                         (double)out[k], right);
        }
    }
    yk_workspace_free(m, w);
    yk_model_free(m);
    yk_rows_fini(&rows);
}

static void gradients_are_right(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        const bool values = kind & 1, fields = kind & 2;
        check_model(" linear", NULL, NULL, true, values, fields);
        check_model("fm:5", "fm.weight", NULL, true, values, fields);
        check_model("fm:8", "fm.weight", NULL, false, values, fields);
        check_model("fm 16 name=a", "a.weight", NULL, true, values, fields);
        check_model("embed 4, dense 6, tanh, dense 1", NULL, "embed.weight", true, values, fields);
        check_model(" linear+( embed 3 ,dense 6,tanh,dense 1 ) + fm 8", "fm.weight", "embed.weight", true,
                    values, fields);
        check_model("linear + fm 8 name=v + (embed 8 name=v, dense 5, tanh, dense 1)", "v.weight", "v.weight",
                    true, values, fields);
    }
}

/* ---- threads ---- */

/* A model with its gradient, all of it as dense vectors, and predictions. */
typedef struct {
    size_t n;
    float *value; /* the gradients of all groups, then the probabilities */
    double loss, predicted;
} outcome;

static outcome outcome_of(const char *list, const yk_batch *b, int threads)
{
    const yk_model_shape shape = {.kind = YK_ROWS_SPARSE,
                                  .dim = DIM,
                                  .classes = 2,
                                  .fields = b->rows->field ? FIELDS : 1,
                                  .bias = true,
                                  .threads = threads};
    yk_view v[YK_MAX_GROUPS] = {0};
    yk_workspace *w;
    yk_model *m;
    yk_grad grad;
    assert_int_equal(yk_model_create(list, &shape, &m), YK_OK);
    assert_int_equal(yk_workspace_create(m, b->n, &w), YK_OK);
    outcome o = {.n = yk_model_group_offset(m, m->ngroups) + b->n};
    assert_non_null(o.value = calloc(o.n, sizeof *o.value));
    for (int g = 0; g < m->ngroups; g++) {
        const size_t n = yk_group_floats(&m->group[g]);
        yk_rng rng = yk_rng_seed(7, (uint64_t)g);
        assert_non_null(v[g].w = malloc(n * sizeof(float)));
        for (size_t k = 0; k < n; k++)
            v[g].w[k] = (float)(0.2 * yk_rng_unit(&rng) - 0.1);
    }
    for (int again = 0; again < 2; again++)
        m->ops->grad(m, w, v, b, &grad);
    assert_int_equal(grad.status, YK_OK);
    o.loss = grad.loss;
    for (int g = 0; g < m->ngroups; g++)
        flat_gradient(m, &grad, g, o.value + yk_model_group_offset(m, g));
    m->ops->predict(m, w, v, b, o.value + o.n - b->n, &o.predicted);
    for (int g = 0; g < m->ngroups; g++)
        free(v[g].w);
    yk_workspace_free(m, w);
    yk_model_free(m);
    return o;
}

static void threads_do_not_change_results(void **state)
{
    static const char *const lists[] = {
        "fm:8", "linear + fm 3 name=a + fm 3 name=a",
        "fm 5 name=v + (embed 5 name=v, dense 9, relu, dropout 0.3, dense 1)",
        "linear + fm 16 + (embed 16, dense 150, tanh, dense 40, relu, dense 1)",
        /* enough parameters to be divided by layers */
        "linear + (embed 2, dense 2100, relu, dense 1000, relu, dense 1)"};
    static const size_t batches[] = {1, 18, 82, 250, 1100}; /* 18, 82: two examples in the last block */
    static const int threads[] = {2, 3, 16};
    static uint32_t pick[1100];
    (void)state;
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        for (size_t i = 0; i < (k == 4 ? 2 : 5); i++) {
            yk_rows rows;
            make_rows(&rows, i & 1, k != 1);
            for (size_t r = 0; r < batches[i]; r++)
                pick[r] = yk_rng_below(&random_state, ROWS);
            const yk_batch b = {&rows, pick, batches[i], 0};
            const outcome one = outcome_of(lists[k], &b, 1);
            for (size_t t = 0; t < sizeof threads / sizeof *threads; t += 1 + SANITIZED) {
                const outcome o = outcome_of(lists[k], &b, threads[t]);
                if (o.loss != one.loss || o.predicted != one.predicted ||
                    memcmp(o.value, one.value, one.n * sizeof *one.value))
                    fail_msg("%s, batch %zu, %d threads: another result", lists[k], batches[i], threads[t]);
                free(o.value);
            }
            free(one.value);
            yk_rows_fini(&rows);
        }
}

/* ---- names, initial values, errors ---- */

static yk_model *model_of(const char *text, size_t dim)
{
    const yk_model_shape shape = {
        .kind = YK_ROWS_SPARSE, .dim = dim, .classes = 2, .fields = 2, .bias = true};
    yk_model *m;
    assert_int_equal(yk_model_create(text, &shape, &m), YK_OK);
    return m;
}

static void presets_are_lists(void **state)
{
    static const char *const presets[][2] = {
        {"fm", "linear + fm 8"},
        {"fm:20", "linear + fm 20"},
        {"wide-deep", "linear + (embed 16, dense 400, relu, dense 400, relu, dense 400, relu, dense 1)"},
        {"deepfm:4", "linear + fm 4 name=v + (embed 4 name=v, dense 400, relu, dense 400, relu, dense 400, "
                     "relu, dense 1)"}};
    (void)state;
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        yk_model *m = model_of(presets[i][0], 9), *list = model_of(presets[i][1], 9);
        assert_string_equal(m->list, presets[i][1]);
        assert_null(list->list);
        assert_int_equal(m->ngroups, list->ngroups);
        assert_int_equal(m->nparams, list->nparams);
        yk_model_free(m);
        yk_model_free(list);
    }
}

static yk_model_description description_of(const char *text, yk_status want)
{
    yk_model_description d;
    assert_int_equal(yk_model_parse(text, &d), want);
    return d;
}

/* The layers decide, not names that the user chose. */
static void descriptions(void **state)
{
    static const char *const plain[] = {"linear + fm 4 name=v", "linear + fm 4 name=embedding",
                                        "linear + fm 4 name=deep"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const yk_model_description d = description_of(plain[i], YK_OK);
        assert_false(d.needs_fields);
        assert_true(d.input == YK_INPUT_SPARSE && !d.linear);
        assert_string_equal(d.optimizer, "adagrad");
        assert_true(d.lr[0] == 0.05 && d.lr[1] == 0.05);
        assert_int_equal(d.ngroups, 2);
        assert_true(d.group[0].keyed && d.group[0].width == 1 && d.group[1].keyed && d.group[1].width == 4);
        assert_string_equal(d.group[1].name, strchr(plain[i], '=') + 1);
    }
    const yk_model_description deep = description_of("deepfm:3", YK_OK);
    assert_true(deep.needs_fields && description_of("(embed 3, dense 1)", YK_OK).needs_fields);
    assert_string_equal(deep.optimizer, "keyed=adagrad,dense=adam");
    assert_true(deep.lr[0] == 0.05 && deep.lr[1] == 0.05 && deep.lr[2] == 0.001);
    assert_int_equal(deep.ngroups, 3);
    assert_true(deep.group[1].width == 3 && !deep.group[2].keyed);
    assert_string_equal(deep.group[2].name, "network");
    assert_string_equal(description_of("logreg", YK_OK).group[0].name, "linear");
    assert_string_equal(description_of("lenet5", YK_OK).group[0].name, "network");
    assert_string_equal(description_of("softmax", YK_OK).optimizer, "sgd");
    assert_true(description_of("softmax", YK_OK).lr[0] == 0.1 &&
                description_of("lenet5", YK_OK).lr[0] == 0.1);
    assert_int_equal(description_of("logreg", YK_OK).input, YK_INPUT_BOTH);
    assert_int_equal(description_of("softmax", YK_OK).input, YK_INPUT_DENSE);
    assert_int_equal(description_of("dense 10", YK_OK).input, YK_INPUT_DENSE);
    assert_true(description_of("logreg", YK_OK).linear && description_of("softmax", YK_OK).linear);
    assert_false(description_of("dense 10", YK_OK).linear);
    assert_int_equal(description_of("linear + (embed 3)", YK_EUSAGE).ngroups, 0);
}

/* The vector of a key depends on the key and the seed only. */
static void initial_values_depend_on_the_key(void **state)
{
    static float few[10 * 4], many[31 * 4], other[31 * 4];
    (void)state;
    yk_model *a = model_of("fm:4", 9), *b = model_of("fm:4", 30);
    a->ops->init(a, 1, few, 7);
    b->ops->init(b, 1, many, 7);
    b->ops->init(b, 1, other, 8);
    assert_memory_equal(few, many, 9 * 4 * sizeof *few);
    for (int i = 0; i < 30 * 4; i++)
        assert_true(many[i] != 0.0f && fabsf(many[i]) <= 0.05f && many[i] != other[i]);
    for (int j = 0; j < 4; j++)
        assert_true(few[9 * 4 + j] == 0.0f); /* the key of the bias */
    b->ops->init(b, 0, other, 8);
    yk_model_free(a);
    yk_model_free(b);
}

static void errors_point_at_the_place(void **state)
{
    static const struct {
        const char *list;
        int at;
        const char *why;
    } bad[] = {{"linear + fn 8", 9, "unknown layer \"fn\""},
               {"linear + ", 9, "empty branch"},
               {"linear + + fm 8", 9, "empty branch"},
               {"linear + fm", 9, "fm needs the length"},
               {"linear + fm 0", 12, "fm needs the length"},
               {"linear + fm 8 v", 14, "only a name"},
               {"linear + fm 8 name=v 3", 21, "fm needs the length"},
               {"linear + fm 8 name=2", 19, "a name has"},
               {"linear 3 + fm 8", 0, "no arguments"},
               {"linear + linear", 9, "only one branch can be linear"},
               {"fm 8 name=v + (embed 4 name=v, dense 1)", 15, "\"v\" has vectors of 8"},
               {"linear + (embed 4, dense 1", 9, "no ')'"},
               {"linear + embed 4, dense 1", 9, "in parentheses"},
               {"linear, dense 1", 6, "no layer can follow"},
               {"linear + (embed 4, dens 1)", 19, "unknown layer \"dens\""},
               {"linear + (embed 4, dense 3)", 26, "one output"},
               {"linear + (embed 4)", 17, "must follow embed"},
               {"(embed 4, relu) + linear", 14, "one output"},
               {"(embed 4, dense 1) + (embed 4, dense 1)", 22, "only one branch can be a network"},
               {"(embed 4, dense 1) linear", 19, "expected '+'"},
               {"fm 1 + fm 2 + fm 3 + fm 4", 21, "too many embedding tables"}};
    const yk_model_shape shape = {.kind = YK_ROWS_SPARSE, .dim = 9, .classes = 2};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        yk_model *m;
        char caret[64];
        snprintf(caret, sizeof caret, "\n  %*s^\n", bad[i].at, "");
        assert_int_equal(yk_model_create(bad[i].list, &shape, &m), YK_EUSAGE);
        if (!strstr(yk_error(), caret) || !strstr(yk_error(), bad[i].why))
            fail_msg("%s: expected \"%s\" at %d, got: %s", bad[i].list, bad[i].why, bad[i].at, yk_error());
    }
}

static void unsuitable_data_is_refused(void **state)
{
    yk_model *m;
    (void)state;
    yk_model_shape shape = {.kind = YK_ROWS_F32, .dim = 9, .classes = 2};
    assert_int_equal(yk_model_create("fm:8", &shape, &m), YK_EUSAGE);
    assert_non_null(strstr(yk_error(), "needs sparse data"));
    shape.kind = YK_ROWS_SPARSE;
    shape.classes = 3;
    assert_int_equal(yk_model_create("deepfm", &shape, &m), YK_EDATA);
    assert_non_null(strstr(yk_error(), "two classes"));
    assert_non_null(strstr(yk_error(), "labels up to 2:"));
    shape.classes = 2;
    assert_int_equal(yk_model_create("fm:999", &shape, &m), YK_EUSAGE);
    assert_non_null(strstr(yk_error(), "fm:8"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_those_of_the_keys),
        cmocka_unit_test(kernels_equal_the_reference),
        cmocka_unit_test(threads_do_not_change_results),
        cmocka_unit_test(gradients_are_right),
        cmocka_unit_test(presets_are_lists),
        cmocka_unit_test(descriptions),
        cmocka_unit_test(initial_values_depend_on_the_key),
        cmocka_unit_test(errors_point_at_the_place),
        cmocka_unit_test(unsuitable_data_is_refused),
    };
    random_state = yk_rng_seed(3, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
