/* The update rules, for every instruction set of this processor, against the formulas of optim.h in doubles. */
#include "reference_optim.h"

#include "core/grad.h"

/* ---- tables: [copies of the hottest weights][all weights], allocated exactly */

enum { N = 150, HOT = 37 };

typedef struct {
    float *block[1 + YK_MAX_SLOTS];
    yk_view view;
} table;

static table make_table(const yk_optim_rule *rule, uint32_t hot)
{
    table t = {0};
    for (int a = 0; a < 1 + rule->slots; a++) {
        t.block[a] = malloc((hot + N) * sizeof(float));
        assert_non_null(t.block[a]);
        for (size_t i = 0; i < hot + N;
             i++) /* sums of squares are not negative, and 0 before the first step */
            t.block[a][i] = a == 0 ? uniform(-1, 1) : i % 5 ? uniform(0, 2) : 0.0f;
        if (a)
            t.view.s[a - 1] = t.block[a] + hot;
        else
            t.view.w = t.block[a] + hot;
    }
    t.view.hot = hot;
    t.view.shift = -(int32_t)hot;
    return t;
}

static void free_table(table *t)
{
    for (int a = 0; a < 1 + YK_MAX_SLOTS; a++)
        free(t->block[a]);
}

static weight weight_at(const table *t, int slots, int64_t at)
{
    return (weight){(double)t->view.w[at], slots > 0 ? (double)t->view.s[0][at] : 0,
                    slots > 1 ? (double)t->view.s[1][at] : 0};
}

/* ---- steps */

/* Weights of size 1: the error of a step is at most 3e-6; ftrl has the largest (z / lr cancels). */
static void one_dense_step(yk_isa isa, yk_optim_kind kind, int penalties, size_t first, size_t n,
                           uint64_t step)
{
    const yk_optim_rule *rule = rule_of(isa, kind);
    const yk_optim_config c = config_of(kind, penalties);
    const yk_optim_step o = yk_optim_at(&c, step);
    table t = make_table(rule, 0);
    float g[N];
    weight expected[N];
    for (size_t i = 0; i < N; i++) {
        g[i] = i % 7 ? uniform(-20, 20) : 0.0f;
        expected[i] = weight_at(&t, rule->slots, (int64_t)i);
        if (i >= first && i < first + n)
            reference_update(kind, &expected[i], (double)g[i] * 0.125, &o);
    }
    rule->dense(&t.view, first, n, g + first, 0.125f, &o);
    for (size_t i = 0; i < N; i++) {
        weight got = weight_at(&t, rule->slots, (int64_t)i);
        bool touched = i >= first && i < first + n;
        assert_weight(&got, &expected[i], touched ? 3e-6 : 0, rule->name, isa, i);
    }
    free_table(&t);
}

static void dense_steps_match_the_reference(void **state)
{
    (void)state;
    random_state = yk_rng_seed(1, 0);
    EACH_ISA(isa)
    EACH_KIND(kind)
    for (int penalties = 0; penalties < 4; penalties++) {
        one_dense_step(isa, kind, penalties, 0, N, 0);
        one_dense_step(isa, kind, penalties, 3, 0, 0);
        for (size_t n = 1; n < 40; n++)
            one_dense_step(isa, kind, penalties, n % 11, n, n * n);
    }
}

/* The same keys as pairs, hot ones in the worker's copy: keys that are not in the list, and the shared values of hot keys,
 * do not change. */
static void pairs_match_the_reference(void **state)
{
    (void)state;
    random_state = yk_rng_seed(2, 0);
    EACH_ISA(isa)
    EACH_KIND(kind)
    for (int penalties = 0; penalties < 4; penalties++)
        for (size_t n = 0; n <= 80; n += n < 20 ? 1 : 15) {
            const yk_optim_rule *rule = rule_of(isa, kind);
            const yk_optim_config c = config_of(kind, penalties);
            const yk_optim_step o = yk_optim_at(&c, 5);
            table t = make_table(rule, HOT);
            uint32_t key[N];
            float g[N];
            weight expected[HOT + N];
            for (int64_t at = -HOT; at < N; at++)
                expected[at + HOT] = weight_at(&t, rule->slots, at);
            for (uint32_t i = 0; i < n; i++) {
                key[i] = (i * 41 + 7) % N; /* 41 and 150 have no common factor: each once */
                g[i] = uniform(-2, 2);
                int64_t at = key[i] < HOT ? (int64_t)key[i] - HOT : key[i];
                reference_update(kind, &expected[at + HOT], (double)g[i] * 0.5, &o);
            }
            rule->pairs(&t.view, key, g, NULL, n, 1, 0.5f, &o);
            for (int64_t at = -HOT; at < N; at++) {
                weight got = weight_at(&t, rule->slots, at);
                bool touched = false;
                for (uint32_t i = 0; i < n; i++)
                    touched |= at == (key[i] < HOT ? (int64_t)key[i] - HOT : (int64_t)key[i]);
                assert_weight(&got, &expected[at + HOT], touched ? 3e-6 : 0, rule->name, isa,
                              (size_t)(at + HOT));
            }
            free_table(&t);
        }
}

/* Vectors of several floats per key: the same as dense() on each of them. */
static void wide_equals_dense(void **state)
{
    enum { KEYS = 21, MAX = 70, SOME = 13, COPIES = 4 };
    static const size_t widths[] = {3, 8, 12, 16, MAX};
    static float block[2][1 + YK_MAX_SLOTS][(KEYS + COPIES) * MAX], g[SOME * MAX];
    static const uint32_t key[SOME] = {20, 3, 2, 19, 0, 7, 11, 12, 1, 5, 18, 9, 4};
    (void)state;
    for (yk_isa isa = YK_ISA_BASE; isa <= yk_isa_best(); isa++)
        for (int kind = 0; kind < YK_OPTIM_KINDS; kind++)
            for (size_t i = yk_optim_rule_of((yk_optim_kind)kind)->per_key
                                ? SIZE_MAX
                                : 0; /* one step size per vector: tested below */
                 i < sizeof widths / sizeof *widths; i++) {
                const size_t width = widths[i], copies = COPIES * width;
                const yk_optim_rule *rule = rule_of(isa, (yk_optim_kind)kind);
                const yk_optim_config c = config_of((yk_optim_kind)kind, 1);
                const yk_optim_step o = yk_optim_at(&c, 3);
                yk_view v[2];
                for (int a = 0; a < 1 + YK_MAX_SLOTS; a++)
                    for (size_t k = 0; k < (KEYS + COPIES) * width; k++)
                        block[0][a][k] = block[1][a][k] = a ? uniform(0, 2) : uniform(-1, 1);
                for (size_t k = 0; k < SOME * width; k++)
                    g[k] = uniform(-5, 5);
                for (int t = 0; t < 2; t++)
                    v[t] = (yk_view){.w = block[t][0] + copies,
                                     .s = {block[t][1] + copies, block[t][2] + copies},
                                     .hot = COPIES,
                                     .shift = -(int32_t)copies};
                rule->pairs(&v[0], key, g, NULL, SOME, width, 0.25f, &o);
                for (size_t k = 0; k < SOME; k++) { /* hot keys are in the copy */
                    const size_t at = key[k] < COPIES ? key[k] * width : copies + key[k] * width;
                    const yk_view all = {.w = block[1][0], .s = {block[1][1], block[1][2]}};
                    rule->dense(&all, at, width, g + k * width, 0.25f, &o);
                }
                for (int a = 0; a < 1 + YK_MAX_SLOTS; a++)
                    for (size_t k = 0; k < (KEYS + COPIES) * width; k++) {
                        const float got = block[0][a][k], right = block[1][a][k];
                        assert_true(fabsf(got - right) <= 1e-6f * (1.0f + fabsf(right)));
                    }
            }
}

/* rowwise-adagrad: one sum of squares for the vector of a key, the mean over its elements. */
static void a_row_has_one_step_size(void **state)
{
    enum { MAX = 70 };
    static const size_t widths[] = {2, 8, 16, MAX};
    (void)state;
    for (yk_isa isa = YK_ISA_BASE; isa <= yk_isa_best(); isa++)
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
            const size_t width = widths[i];
            const yk_optim_config c = config_of(YK_ROWWISE, 2);
            const yk_optim_step o = yk_optim_at(&c, 0);
            float w[2 * MAX], s[2 * MAX], g[MAX], before[MAX];
            double squares = 0.0;
            for (size_t k = 0; k < 2 * width; k++) {
                w[k] = uniform(-1, 1);
                s[k] = 0.5f;
            }
            for (size_t k = 0; k < width; k++) {
                g[k] = uniform(-5, 5);
                before[k] = w[width + k];
                const double x = (double)g[k] * 0.25 + (double)o.l2 * (double)before[k];
                squares += x * x / (double)width;
            }
            const yk_view v = {.w = w, .s = {s}};
            const uint32_t key = 1;
            rule_of(isa, YK_ROWWISE)->pairs(&v, &key, g, NULL, 1, width, 0.25f, &o);
            for (size_t k = 0; k < width; k++) {
                const double x = (double)g[k] * 0.25 + (double)o.l2 * (double)before[k],
                             right = (double)before[k] -
                                     (double)o.lr * x / (sqrt(0.5 + squares) + (double)o.epsilon);
                assert_true(s[k] == 0.5f && s[width + k] == s[width]);
                assert_close((double)s[width + k], 0.5 + squares, 1e-5 * (1.0 + squares), "sum", "rowwise",
                             isa, k);
                assert_close((double)w[width + k], right, 1e-5, "weight", "rowwise", isa, k);
            }
        }
}

/* G^2 + 2 G B */
static double more_of(float g, float behind, float s, const yk_optim_step *o)
{
    return (double)g * ((double)g + 2.0 * (double)behind * sqrt((double)s) / (double)o->lr);
}

/* A gradient that was computed with other weights: the formula of optim.h. Rules that do not revise ignore them. */
static void stale_steps_are_revised(void **state)
{
    enum { KEYS = 5, MAX = 16 };
    static const size_t widths[] = {1, 3, 8, MAX};
    static const uint32_t key[KEYS] = {4, 0, 2, 1, 3};
    (void)state;
    EACH_ISA(isa)
    EACH_KIND(kind)
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        const size_t width = widths[i], n = KEYS * width;
        const yk_optim_rule *rule = rule_of(isa, kind);
        yk_optim_config c = config_of(kind, 0);
        const yk_optim_step o = yk_optim_at(&c, 3);
        float w[2][KEYS * MAX], s[2][YK_MAX_SLOTS][KEYS * MAX], g[KEYS * MAX], read[KEYS * MAX],
            old[KEYS * MAX], old_s[KEYS * MAX];
        for (size_t k = 0; k < n; k++) {
            old[k] = w[0][k] = w[1][k] = uniform(-1, 1);
            old_s[k] = s[0][0][k] = s[1][0][k] = kind == YK_ROWWISE ? 0.5f : uniform(0.1f, 2);
            s[0][1][k] = s[1][1][k] = uniform(0.1f, 2);
            g[k] = uniform(-1, 1);
            read[k] = uniform(-1, 1);
        }
        for (int t = 0; t < 2; t++) {
            const yk_view v = {.w = w[t], .s = {s[t][0], s[t][1]}};
            rule->pairs(&v, key, g, t ? read : NULL, KEYS, width, 1.0f, &o);
        }
        for (size_t k = 0; k < KEYS; k++) {
            const size_t at = key[k] * width;
            double more = 0.0;
            if (!rule->accumulates) {
                assert_memory_equal(w[0] + at, w[1] + at, width * sizeof(float));
                continue;
            }
            for (size_t j = 0; kind == YK_ROWWISE && j < width; j++)
                more += more_of(g[k * width + j], read[k * width + j] - old[at + j], old_s[at + j], &o) /
                        (double)width;
            for (size_t j = 0; j < width; j++) {
                const double behind = (double)read[k * width + j] - (double)old[at + j],
                             before = sqrt((double)old_s[at + j]);
                if (kind == YK_ADAGRAD)
                    more = more_of(g[k * width + j], (float)behind, old_s[at + j], &o);
                const double old_sum = (double)old_s[at + j], sum = fmax(old_sum + more, 0.9 * old_sum),
                             right = (double)old[at + j] + (1.0 - before / sqrt(sum)) * behind -
                                     (double)o.lr * (double)g[k * width + j] / sqrt(sum);
                assert_close((double)s[1][0][at + j], sum, 1e-4 * sum, "sum", rule->name, isa, k);
                assert_close((double)w[1][at + j], right, 1e-4, "weight", rule->name, isa, k);
            }
        }
    }
}

/* Gradients that are computed with the same weights move them as far as their sum does, at first: by lr. */
static void equal_gradients_count_as_one(void **state)
{
    (void)state;
    EACH_ISA(isa)
    EACH_KIND(kind)
    for (size_t width = 1; width <= 8; width += 7) {
        const yk_optim_rule *rule = rule_of(isa, kind);
        yk_optim_config c = yk_optim_defaults(kind);
        const yk_optim_step o = yk_optim_at(&c, 0);
        float w[8] = {0}, s[8] = {0}, g[8], read[8] = {0};
        const yk_view v = {.w = w, .s = {s}};
        const uint32_t key = 0;
        if (!rule->accumulates)
            continue;
        for (size_t k = 0; k < 8; k++)
            g[k] = k % 2 ? 0.3f : -0.3f;
        for (int t = 0; t < 16; t++)
            rule->pairs(&v, &key, g, read, 1, width, 1.0f, &o);
        for (size_t k = 0; k < width; k++) {
            assert_close((double)w[k], k % 2 ? -c.lr : c.lr, 1e-5, "weight", rule->name, isa, k);
            assert_close((double)s[k], 16 * 16 * 0.09, 1e-3, "sum", rule->name, isa, k);
        }
    }
}

/* Sixty steps with a decaying rate from the initial state: weights and state are 0. Pairs and dense steps together. */
static void many_steps_match_the_reference(void **state)
{
    (void)state;
    random_state = yk_rng_seed(3, 0);
    EACH_ISA(isa)
    EACH_KIND(kind)
    for (int penalties = 0; penalties < 4; penalties++) {
        const yk_optim_rule *rule = rule_of(isa, kind);
        yk_optim_config c = config_of(kind, penalties);
        c.l1 /= 10;
        c.schedule = kind == YK_FTRL ? YK_LR_CONSTANT : YK_LR_INVERSE;
        c.lr_decay = 0.05;
        table dense = make_table(rule, 0), pairs = make_table(rule, HOT);
        weight expected[N] = {{0, 0, 0}};
        uint32_t key[N];
        for (int a = 0; a < 1 + rule->slots; a++) {
            memset(dense.block[a], 0, N * sizeof(float));
            memset(pairs.block[a], 0, (HOT + N) * sizeof(float));
        }
        for (uint64_t step = 0; step < 60; step++) {
            const yk_optim_step o = yk_optim_at(&c, step);
            float g[N];
            for (uint32_t i = 0; i < N; i++) {
                key[i] = i;
                g[i] = uniform(-1, 1) + (float)i / N; /* some have a direction, some only noise */
                reference_update(kind, &expected[i], (double)g[i], &o);
            }
            rule->dense(&dense.view, 0, N, g, 1.0f, &o);
            rule->pairs(&pairs.view, key, g, NULL, N, 1, 1.0f, &o);
        }
        for (uint32_t i = 0; i < N; i++) {
            weight got = weight_at(&dense, rule->slots, i),
                   same = weight_at(&pairs, rule->slots, yk_view_at(&pairs.view, i));
            assert_weight(&got, &expected[i], 3e-5, rule->name, isa, i);
            assert_weight(&same, &got, 3e-5, rule->name, isa, i);
        }
        free_table(&dense);
        free_table(&pairs);
    }
}

/* ---- learning rates */

static void rates_follow_their_schedule(void **state)
{
    (void)state;
    yk_optim_config c = yk_optim_defaults(YK_SGD);
    c.lr = 0.5;
    assert_true(yk_optim_at(&c, 1000000).lr == 0.5f);
    c.schedule = YK_LR_STEP;
    c.lr_decay = 0.5;
    c.lr_decay_every = 10;
    assert_true(yk_optim_at(&c, 9).lr == 0.5f && yk_optim_at(&c, 10).lr == 0.25f &&
                yk_optim_at(&c, 39).lr == 0.0625f);
    c.schedule = YK_LR_INVERSE;
    c.lr_decay = 0.25;
    assert_true(yk_optim_at(&c, 0).lr == 0.5f && yk_optim_at(&c, 4).lr == 0.25f);
    c.first = 4; /* continues an earlier run */
    assert_true(yk_optim_at(&c, 0).lr == 0.25f);
    yk_optim_config adam = yk_optim_defaults(YK_ADAM);
    for (uint64_t step = 0; step < 5000; step += 61) {
        yk_optim_step o = yk_optim_at(&adam, step);
        assert_true(fabs((double)o.correct1 * (1 - pow(0.9, (double)step + 1)) - 1) < 1e-6);
        assert_true(fabs((double)o.correct2 * (1 - pow(0.999, (double)step + 1)) - 1) < 1e-6);
    }
}

/* The rates of PyTorch: CosineAnnealingLR(T_max=10, eta_min=0.05), OneCycleLR(max_lr=0.5, total_steps=10), and a linear warm-up
 * before StepLR(2, 0.1). */
static void rates_equal_those_of_pytorch(void **state)
{
    (void)state;
    static const struct {
        yk_lr_schedule schedule;
        double decay;
        uint64_t warm_up, length;
        double rate[10];
    } cases[] = {
        {YK_LR_COSINE,
         0.1,
         0,
         10,
         {0.5, 0.48898772, 0.45702882, 0.40725168, 0.34452882, 0.275, 0.20547118, 0.14274832, 0.09297118,
          0.06101228}},
        {YK_LR_ONE_CYCLE,
         4e-6,
         0,
         10,
         {0.02, 0.26, 0.5, 0.47524232, 0.40587283, 0.30563101, 0.19437099, 0.09412917, 0.02475968, 2e-06}},
        {YK_LR_STEP, 0.1, 4, 10, {0.125, 0.25, 0.375, 0.5, 0.5, 0.5, 0.05, 0.05, 0.005, 0.005}},
        {YK_LR_COSINE,
         0,
         5,
         10,
         {0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.45225425, 0.32725425, 0.17274575, 0.04774575}},
        {YK_LR_COSINE, 0, 20, 10, {0.025, 0.05, 0.075, 0.1, 0.125, 0.15, 0.175, 0.2, 0.225, 0.25}},
        {YK_LR_CONSTANT, 0, 2, 0, {0.25, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5}}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        yk_optim_config c = yk_optim_defaults(YK_SGD);
        c.lr = 0.5;
        c.schedule = cases[k].schedule;
        c.lr_decay = cases[k].decay;
        c.lr_decay_every = 2;
        c.warm_up = cases[k].warm_up;
        c.length = cases[k].length;
        for (uint64_t s = 0; s < 10; s++)
            if (fabs(yk_lr_at(&c, s) - cases[k].rate[s]) > 2e-8)
                fail_msg("case %zu, step %d: %.9g is not %.9g", k, (int)s, yk_lr_at(&c, s), cases[k].rate[s]);
        assert_int_equal(yk_lr_is_constant(&c), false);
    }
}

static void sums_of_rates_are_exact(void **state)
{
    (void)state;
    static const struct {
        yk_lr_schedule schedule;
        double decay;
        uint64_t every;
    } cases[] = {{YK_LR_CONSTANT, 0.1, 1000}, {YK_LR_STEP, 0.5, 7},      {YK_LR_STEP, 1.0, 7},
                 {YK_LR_STEP, 0.9, 1},        {YK_LR_INVERSE, 0.001, 1}, {YK_LR_INVERSE, 0.05, 1},
                 {YK_LR_INVERSE, 1.0, 1},     {YK_LR_INVERSE, 0.0, 1},   {YK_LR_COSINE, 0.1, 1},
                 {YK_LR_ONE_CYCLE, 0.0, 1},   {YK_LR_PLATEAU, 0.5, 1}};
    static const uint64_t ranges[][2] = {{0, 0}, {0, 1},   {0, 7},     {0, 100}, {3, 4},
                                         {6, 8}, {13, 14}, {50, 3000}, {9, 2}};
    for (size_t k = 0; k < 2 * sizeof cases / sizeof *cases; k++)
        for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
            yk_optim_config c = yk_optim_defaults(YK_SGD);
            const size_t of = k / 2;
            c.warm_up = k % 2 ? 20 : 0;
            c.length = 2000;
            c.reductions = 2;
            c.lr = 0.3;
            c.schedule = cases[of].schedule;
            c.lr_decay = cases[of].decay;
            c.lr_decay_every = cases[of].every;
            double plain = 0;
            for (uint64_t s = ranges[r][0]; s < ranges[r][1]; s++)
                plain += (double)yk_optim_at(&c, s).lr;
            /* some schedules use an integral, which differs from the sum by at most the changes of the rate */
            double change = 0;
            for (uint64_t s = ranges[r][0]; s < ranges[r][1]; s++)
                change += fabs((double)yk_optim_at(&c, s).lr - (double)yk_optim_at(&c, s + 1).lr);
            const bool integral = c.schedule == YK_LR_INVERSE || yk_lr_schedules[c.schedule].needs_length;
            double bound = 1e-6 * plain + 1e-12 + (integral ? change : 0);
            double sum = yk_lr_sum(&c, ranges[r][0], ranges[r][1]);
            if (c.schedule == YK_LR_CONSTANT && !c.warm_up) /* the reductions are those of other groups */
                assert_true(yk_optim_at(&c, 5).lr == (float)c.lr);
            if (!(fabs(sum - plain) <= bound))
                fail_msg("case %zu, range %zu: %.9g is not %.9g (to %.2g)", k, r, sum, plain, bound);
        }
}

static void invalid_values_are_refused(void **state)
{
    (void)state;
    EACH_KIND(kind)
    {
        yk_optim_config c = yk_optim_defaults(kind);
        assert_int_equal(yk_optim_check(&c), YK_OK);
        assert_string_equal(yk_optim_name(kind), yk_optim_rule_of(kind)->name);
    }
#define REFUSED(change, word)                                                                                \
    do {                                                                                                     \
        yk_optim_config c = yk_optim_defaults(YK_SGD);                                                       \
        change;                                                                                              \
        assert_error(yk_optim_check(&c), YK_EUSAGE, word);                                                   \
    } while (0)
    REFUSED((c.kind = YK_FTRL, c.lr = 0), "--lr");
    REFUSED(c.lr = -1, "--lr");
    REFUSED(c.lr = NAN, "--lr");
    REFUSED(c.lr = INFINITY, "--lr");
    REFUSED(c.l1 = -1, "--l1");
    REFUSED(c.l2 = NAN, "--l2");
    REFUSED((c.lr = 2, c.l2 = 0.5), "flip");
    REFUSED(c.momentum = 1, "--momentum");
    REFUSED((c.schedule = YK_LR_STEP, c.lr_decay = 0), "--lr-decay");
    REFUSED((c.schedule = YK_LR_STEP, c.lr_decay = 1.5), "--lr-decay");
    REFUSED((c.schedule = YK_LR_STEP, c.lr_decay_every = 0), "--lr-decay-every");
    REFUSED((c.schedule = YK_LR_INVERSE, c.lr_decay = -1), "--lr-decay");
    REFUSED((c.schedule = YK_LR_COSINE, c.lr_decay = 1.5), "--lr-decay");
    REFUSED((c.schedule = YK_LR_PLATEAU, c.lr_decay = 0), "--lr-decay");
    REFUSED((c.kind = YK_FTRL, c.schedule = YK_LR_COSINE, c.lr_decay = 0), "divides by the learning rate");
    REFUSED((c.kind = YK_ADAM, c.beta2 = 1), "--adam-betas");
    REFUSED((c.kind = YK_ADAM, c.epsilon = NAN), "--epsilon");
    REFUSED((c.kind = YK_ADAMW, c.lr = 2, c.l2 = 0.5), "flip");
    assert_null(yk_optim_name(YK_OPTIM_KINDS));
    assert_null(yk_lr_name(YK_LR_SCHEDULES));
}

/* --clip-norm: the norm of the mean gradient is at most the limit; smaller gradients keep their bits. */
static void norms_are_limited(void **state)
{
    (void)state;
    float g[43];
    for (size_t n = 0; n < sizeof g / sizeof *g; n++) {
        double sum = 0.0;
        for (size_t i = 0; i < n; i++) {
            g[i] = uniform(-3, 3);
            sum += (double)g[i] * (double)g[i];
        }
        assert_true(fabs(yk_squares(g, n) - sum) <= 1e-12 * sum);
    }
    assert_true(yk_clip_factor(100.0, 10.0, 1.0) == (float)(1.0 / (1.0 + 1e-6)));
    assert_true(fabs((double)yk_clip_factor(1600.0, 10.0, 1.0) - 0.25) < 1e-6);
    assert_true(yk_clip_factor(100.0, 10.0, 1.1) == 1.0f && yk_clip_factor(0.0, 10.0, 1e-3) == 1.0f);
    assert_true(yk_clip_factor(4.0, 0.0, 1.0) == 1.0f); /* all weights are 0 */
    assert_true(isnan(yk_clip_factor((double)NAN, 10.0, 1.0)));
}

/* A gradient, and then steps in which the velocity runs out, move a weight as far as one step without a velocity. */
static void without_a_velocity_a_step_goes_as_far(void **state)
{
    (void)state;
    EACH_KIND(kind)
    {
        if (yk_optim_rule_of(kind)->velocity != YK_VELOCITY_SUM)
            continue;
        const yk_optim_config sum = yk_optim_defaults(kind), at_once = yk_optim_without_velocity(&sum);
        const yk_optim_step with = yk_optim_at(&sum, 0), without = yk_optim_at(&at_once, 0);
        weight a = {0.5, 0, 0}, b = a;
        reference_update(kind, &a, 0.3, &with);
        for (int i = 0; i < 300; i++)
            reference_update(kind, &a, 0.0, &with);
        reference_update(kind, &b, 0.3, &without);
        reference_update(kind, &b, 0.0, &without);
        assert_true(fabs(a.w - b.w) < 1e-6 && a.w < 0.5);
    }
    yk_optim_config c = yk_optim_without_velocity(
        &(yk_optim_config){.kind = YK_ADAM, .lr = 0.1, .beta1 = 0.9, .beta2 = 0.999});
    assert_true(c.lr == 0.1 && c.beta1 == 0.0 && c.beta2 == 0.999);
}

/* adam without a velocity, late in a run: the first gradient of a key moves it by far less than lr / sqrt(1 - beta2). A key
 * whose gradients are alike soon takes steps of about lr, as with a velocity. */
static void the_first_steps_of_adam_are_damped(void **state)
{
    (void)state;
    yk_optim_config c = yk_optim_defaults(YK_ADAM);
    c = yk_optim_without_velocity(&c);
    const yk_optim_step o = yk_optim_at(&c, 1000000);
    EACH_ISA(isa)
    {
        const yk_optim_rule *rule = rule_of(isa, YK_ADAM);
        float w[20] = {0}, s0[20] = {0}, s1[20] = {0}, g[20], before = 0.0f;
        const yk_view v = {.w = w, .s = {s0, s1}};
        for (int i = 0; i < 20; i++)
            g[i] = i % 2 ? -0.2f : 3.0f;
        rule->dense(&v, 0, 20, g, 1.0f, &o);
        for (int i = 0; i < 20; i++)
            assert_true(fabsf(fabsf(w[i]) / o.lr - 31.6f / 5.5f) < 0.01f && (w[i] < 0) == (g[i] > 0));
        for (int step = 0; step < 5000; step++) {
            before = w[0];
            rule->dense(&v, 0, 20, g, 1.0f, &o);
        }
        assert_true(fabsf((before - w[0]) / o.lr - 1.0f) < 0.01f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_steps_match_the_reference),
        cmocka_unit_test(pairs_match_the_reference),
        cmocka_unit_test(wide_equals_dense),
        cmocka_unit_test(a_row_has_one_step_size),
        cmocka_unit_test(stale_steps_are_revised),
        cmocka_unit_test(equal_gradients_count_as_one),
        cmocka_unit_test(many_steps_match_the_reference),
        cmocka_unit_test(rates_follow_their_schedule),
        cmocka_unit_test(rates_equal_those_of_pytorch),
        cmocka_unit_test(sums_of_rates_are_exact),
        cmocka_unit_test(invalid_values_are_refused),
        cmocka_unit_test(norms_are_limited),
        cmocka_unit_test(without_a_velocity_a_step_goes_as_far),
        cmocka_unit_test(the_first_steps_of_adam_are_damped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
