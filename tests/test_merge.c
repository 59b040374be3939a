/* Merging workers' copies, as defined in optim.h, for every optimizer. */
#include "reference_optim.h"

enum { MAX_WORKERS = 5, KEYS = 64 };

/* [worker 0's copy] ... [worker T-1's copy][shared], as in the store. */
static const float ones[] = {[0 ... KEYS - 1] = 1.0f};

typedef struct {
    const yk_optim_rule *rule;
    yk_isa isa;
    yk_optim_step o;
    int workers;
    float block[1 + YK_MAX_SLOTS][(MAX_WORKERS + 1) * KEYS], base[MAX_WORKERS][1 + YK_MAX_SLOTS][KEYS];
    yk_view view[MAX_WORKERS];
    yk_optim_share share;
} team;

/* Weights after some training, with a fresh copy for every worker. */
static void set_up(team *t, yk_isa isa, yk_optim_kind kind, int workers, float moves)
{
    yk_optim_config c = config_of(kind, yk_optim_rule_of(kind)->derives ? 3 : 0);
    *t = (team){.rule = rule_of(isa, kind), .isa = isa, .o = yk_optim_at(&c, 10), .workers = workers};
    yk_view shared = {.w = t->block[0] + workers * KEYS};
    for (int a = 0; a < t->rule->slots; a++)
        shared.s[a] = t->block[1 + a] + workers * KEYS;
    for (int s = 0; s < 4; s++) {
        float g[KEYS];
        for (int i = 0; i < KEYS; i++)
            g[i] = uniform(-1, 1);
        t->rule->dense(&shared, 0, KEYS, g, 1.0f, &t->o);
    }
    for (int i = 0; i < workers; i++) {
        t->view[i] = shared;
        t->view[i].hot = KEYS;
        t->view[i].shift = (i - workers) * KEYS;
        for (int a = 0; a < 1 + t->rule->slots; a++) {
            memcpy(t->block[a] + i * KEYS, t->block[a] + workers * KEYS, KEYS * sizeof(float));
            memcpy(t->base[i][a], t->block[a] + workers * KEYS, KEYS * sizeof(float));
        }
    }
    t->share = (yk_optim_share){.squares = ones,
                                .times = moves,
                                .one = 1.0f,
                                .moves = 1.0f,
                                .steps = moves,
                                .workers = workers,
                                .state = {shared.s[0], shared.s[1]}};
}

/* Adds the share of a worker's delta to the shared weights first .. first + n - 1, and refreshes its copy, as the store does. */
static void merge_some(team *t, int me, size_t first, size_t n)
{
    float delta[(1 + YK_MAX_SLOTS) * KEYS];
    yk_view shared = t->view[me];
    for (int a = 0; a < 1 + t->rule->slots; a++)
        for (int k = 0; k < KEYS; k++)
            delta[a * KEYS + k] = t->block[a][me * KEYS + k] - t->base[me][a][k];
    t->rule->scale(&t->share, first, n, delta, KEYS, &t->o);
    for (int a = 0; a < 1 + t->rule->slots; a++)
        for (size_t k = first; k < first + n; k++)
            t->block[a][(size_t)t->workers * KEYS + k] += delta[(size_t)a * KEYS + k];
    yk_optim_reconcile(t->rule, &t->o, &shared, NULL, first, first + n);
    for (int a = 0; a < 1 + t->rule->slots; a++)
        for (size_t k = first; k < first + n; k++)
            t->base[me][a][k] = t->block[a][(size_t)me * KEYS + k] =
                t->block[a][(size_t)t->workers * KEYS + k];
}

static void train_alone(team *t, int me, const uint32_t *key, size_t n, const float *g, int steps)
{
    for (int s = 0; s < steps; s++)
        t->rule->pairs(&t->view[me], key, g, NULL, n, 1, 1.0f, &t->o);
}

/* The value of a worker's copy, or of the shared weight (worker number `workers`). */
static weight at(const team *t, int worker, int key)
{
    const int i = worker * KEYS + key, slots = t->rule->slots;
    return (weight){(double)t->block[0][i], slots > 0 ? (double)t->block[1][i] : 0,
                    slots > 1 ? (double)t->block[2][i] : 0};
}

static void assert_fits_together(const team *t, int key)
{
    weight p = at(t, t->workers, key);
    if (t->rule->derives) {
        assert_close(p.w, ftrl_weight(p.s0, p.s1, &t->o), 1e-6, "w(z, n)", t->rule->name, t->isa,
                     (size_t)key);
        assert_true(p.w != 0 || fabs(p.s0) <= (double)t->o.l1);
    }
}

static void merge_all(team *t)
{
    for (int i = 0; i < t->workers; i++) {
        merge_some(t, i, 0, KEYS);
        for (int k = 0; k < KEYS; k++) {
            weight mine = at(t, i, k), shared = at(t, t->workers, k);
            assert_weight(&mine, &shared, 0, t->rule->name, t->isa, (size_t)k); /* and so is base: */
            for (int a = 0; a < 1 + t->rule->slots; a++)
                assert_true(t->base[i][a][k] == t->block[a][t->workers * KEYS + k]);
            assert_fits_together(t, k);
        }
    }
}

static void all_keys(uint32_t *key, float *g)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        key[i] = i;
        g[i] = uniform(-0.6, 0.6);
    }
}

static void merging_a_single_copy_changes_nothing(void **state)
{
    (void)state;
    random_state = yk_rng_seed(4, 0);
    uint32_t key[KEYS];
    float g[KEYS];
    EACH_ISA(isa)
    EACH_KIND(kind)
    for (int big = 0; big < 2; big++) {
        team t;
        weight own[KEYS];
        set_up(&t, isa, kind, 1, big ? 1e6f : 1e-3f);
        all_keys(key, g);
        train_alone(&t, 0, key, KEYS, g, 3);
        for (int k = 0; k < KEYS; k++)
            own[k] = at(&t, 0, k);
        merge_all(&t);
        for (int k = 0; k < KEYS; k++) {
            weight now = at(&t, 1, k);
            assert_weight(&now, &own[k], 1e-6, t.rule->name, isa, (size_t)k);
        }
    }
}

static void only_the_given_range_is_merged(void **state)
{
    (void)state;
    random_state = yk_rng_seed(5, 0);
    uint32_t key[KEYS];
    float g[KEYS];
    EACH_ISA(isa)
    EACH_KIND(kind)
    {
        team t, before;
        set_up(&t, isa, kind, 2, 1.0f);
        all_keys(key, g);
        train_alone(&t, 1, key, KEYS, g, 2);
        before = t;
        merge_some(&t, 1, 10, 21);
        for (int k = 0; k < KEYS; k++) {
            bool within = k >= 10 && k < 31;
            assert_true((t.block[0][2 * KEYS + k] != before.block[0][2 * KEYS + k]) <= within);
            assert_true(t.block[0][k] == before.block[0][k]); /* the other worker's copy is unchanged */
            if (!within)
                assert_true(t.block[0][KEYS + k] == before.block[0][KEYS + k] &&
                            t.base[1][0][k] == before.base[1][0][k]);
        }
    }
}

/* Changes to different keys, and small changes, add up. */
static void small_changes_are_added(void **state)
{
    (void)state;
    random_state = yk_rng_seed(6, 0);
    EACH_ISA(isa)
    EACH_KIND(kind)
    {
        team t;
        weight own[KEYS];
        set_up(&t, isa, kind, 2, 1e-9f);
        for (int i = 0; i < 2; i++)
            for (uint32_t k = (uint32_t)i; k < KEYS; k += 2) {
                float g = uniform(-1, 1);
                train_alone(&t, i, &k, 1, &g, 2);
                own[k] = at(&t, i, (int)k);
            }
        weight start[KEYS];
        for (int k = 0; k < KEYS; k++)
            start[k] = at(&t, 2, k);
        merge_all(&t);
        for (int k = 0; k < KEYS; k++) {
            weight now = at(&t, 2, k);
            assert_close(now.w, own[k].w, 1e-5, "weight", t.rule->name, isa, (size_t)k);
            const double got[] = {now.s0, now.s1}, of_copy[] = {own[k].s0, own[k].s1},
                         before[] = {start[k].s0, start[k].s1};
            for (int j = 0; j < YK_MAX_SLOTS; j++) {
                const yk_optim_merge how = t.rule->slot_merge[j];
                assert_true((how == YK_MERGE_NONE) == (j >= t.rule->slots));
                /* the mean of a changed and an unchanged moving average; others add up */
                const double right = how == YK_MERGE_MEAN ? (before[j] + of_copy[j]) / 2 : of_copy[j];
                assert_close(got[j], right, 1e-5 * (1 + fabs(right)), "state", t.rule->name, isa, (size_t)k);
            }
        }
    }
}

/* The sum of the copies of workers that use a weight once is not scaled: perhaps no other copy has it. */
static void a_weight_that_was_used_once_is_added(void **state)
{
    (void)state;
    random_state = yk_rng_seed(9, 0);
    uint32_t key[KEYS];
    float g[KEYS];
    EACH_ISA(isa)
    EACH_KIND(kind)
    {
        team t;
        set_up(&t, isa, kind, 4, 1e6f);
        t.share.less = t.share.times;
        all_keys(key, g);
        train_alone(&t, 1, key, KEYS, g, 1);
        weight own[KEYS];
        for (int k = 0; k < KEYS; k++)
            own[k] = at(&t, 1, k);
        merge_some(&t, 1, 0, KEYS);
        for (int k = 0; k < KEYS; k++)
            assert_close(at(&t, 4, k).w, own[k].w, 1e-6, "weight", t.rule->name, isa, (size_t)k);
    }
}

/* T workers with a scale-free rule that take small steps, together u, go about as far as one worker would, 1 - e^-u; large steps
 * are averaged. */
static void small_deltas_are_nearly_added(void **state)
{
    (void)state;
    EACH_ISA(isa)
    EACH_KIND(kind)
    for (int workers = 1; workers <= 64; workers *= 2)
        for (int i = 0; i < 11; i++) {
            const yk_optim_rule *rule = rule_of(isa, kind);
            const yk_optim_config c = yk_optim_defaults(kind);
            const yk_optim_step o = yk_optim_at(&c, 1000000);
            float one[] = {1.0f, 1.0f, 1.0f}, delta[] = {1.0f, 0.0f, 0.0f};
            yk_optim_share s = {.squares = ones,
                                .times = 1.0f,
                                .one = 1.0f,
                                .moves = i == 10 ? 1e22f : ldexpf(0.1f, i),
                                .steps = 1.0f,
                                .workers = workers,
                                .state = {one, one}};
            rule->scale(&s, 0, 1, delta, 1, &o);
            /* adam's step size is lr */
            const double u = (double)o.lr * (double)s.moves * (workers - 1),
                         alone = u > 0 ? (1 - exp(-u)) / u : 1;
            if (rule->scale_free && i < 10 && !(fabs((double)delta[0] / alone - 1) < 0.15))
                fail_msg("%s: %d workers, u = %g: %g", rule->name, workers, u, (double)delta[0]);
            assert_true(delta[0] <= 1.0f && delta[0] * (float)workers >= 0.999f);
            if (i == 10)
                assert_close((double)delta[0] * workers, 1, 1e-4, "share", rule->name, isa, (size_t)workers);
        }
}

/* Large changes by all workers to the same value: the result is that value, not T times the change, with the
 * state of one of them. 1e22: YK_AVERAGED for a key whose sum of squares is still close to 0. */
static void large_changes_are_averaged(void **state)
{
    (void)state;
    random_state = yk_rng_seed(7, 0);
    uint32_t key[KEYS];
    float g[KEYS];
    EACH_ISA(isa)
    EACH_KIND(kind)
    for (int i = 0; i < 2 * (MAX_WORKERS - 1); i++) {
        const int workers = 2 + i / 2;
        team t;
        weight own[KEYS];
        set_up(&t, isa, kind, workers, i % 2 ? 1e22f : 1e9f);
        all_keys(key, g);
        for (int me = 0; me < workers; me++)
            train_alone(&t, me, key, KEYS, g, 3);
        for (int k = 0; k < KEYS; k++)
            own[k] = at(&t, 0, k);
        merge_all(&t);
        for (int k = 0; k < KEYS; k++) {
            weight now = at(&t, workers, k);
            if (t.rule->derives && own[k].w == 0.0) /* z is only known to be within the threshold */
                now.s0 = own[k].s0;
            assert_weight(&now, &own[k], 1e-5, t.rule->name, isa, (size_t)k);
        }
    }
}

/* In between: alpha = 1 / (1 + (T - 1) rho), rho = x / (1 + x), x = lr * moves * the key's frequency. */
static void changes_are_weighted_by_their_size(void **state)
{
    (void)state;
    random_state = yk_rng_seed(8, 0);
    uint32_t key[KEYS];
    float g[KEYS], freq[KEYS];
    EACH_ISA(isa)
    {
        team t;
        double expected[KEYS];
        set_up(&t, isa, YK_SGD, 3, 20.0f);
        all_keys(key, g);
        train_alone(&t, 0, key, KEYS, g, 1);
        for (int k = 0; k < KEYS; k++) {
            freq[k] = uniform(0, 2);
            double x = 0.1 * 20.0 * (double)freq[k], rho = x / (1 + x), alpha = 1 / (1 + 2 * rho);
            expected[k] = at(&t, 3, k).w + alpha * (at(&t, 0, k).w - at(&t, 3, k).w);
        }
        t.share.squares = freq;
        merge_some(&t, 0, 0, KEYS);
        for (int k = 0; k < KEYS; k++)
            assert_close(at(&t, 3, k).w, expected[k], 1e-6, "weight", "sgd", isa, (size_t)k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merging_a_single_copy_changes_nothing),
        cmocka_unit_test(only_the_given_range_is_merged),
        cmocka_unit_test(small_changes_are_added),
        cmocka_unit_test(large_changes_are_averaged),
        cmocka_unit_test(changes_are_weighted_by_their_size),
        cmocka_unit_test(a_weight_that_was_used_once_is_added),
        cmocka_unit_test(small_deltas_are_nearly_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
