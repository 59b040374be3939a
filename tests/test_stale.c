/* How asynchronous gradients are applied (store/local_stale.c). */
#include "local_steps.h"
#include "scratch.h"

#include "optim/kinds.h"
#include "store/local.h"
#include <math.h>

enum { N = 2048, IN_FLIGHT = 4, WARM_UP = 50 * IN_FLIGHT };

/* A table as that of a parameter server: one dense group. */
static yk_local *table_of(yk_optim_kind kind, double lr)
{
    yk_local_config c = {
        .ngroups = 1, .workers = 1, .batch = 1, .stale_rules = true, .max_warm_up = UINT64_MAX};
    yk_local *s;
    c.group[0] = (yk_local_group){.shape = {.name = "network", .width = 1, .keys = N},
                                  .optim = yk_optim_defaults(kind)};
    c.group[0].optim.lr = lr;
    assert_int_equal(yk_local_create(&c, &s), YK_OK);
    return s;
}

/* A step with the gradient `g` in all parameters; returns how far it moved them. */
static double step(yk_local *s, float g, uint64_t steps, const yk_stale_mark *read_at)
{
    static float grad[N];
    for (int i = 0; i < N; i++)
        grad[i] = g;
    const double before = (double)yk_local_table(s, 0).w[7];
    yk_step_result result;
    const yk_grad all = {
        .examples = steps ? steps : 1, .steps = steps, .read_at = read_at, .group = {{.dense = grad}}};
    assert_int_equal(local_push(s, 0, &all), YK_OK);
    assert_int_equal(local_clock(s, 0, &result), YK_OK);
    assert_int_equal(result.steps, steps ? steps : 1);
    return before - (double)yk_local_table(s, 0).w[7];
}

static void assert_near(double is, double want)
{
    if (!(fabs(is - want) <= 1e-3 * fabs(want)))
        fail_msg("%g instead of %g", is, want);
}

static void learning_rates_warm_up(void **state)
{
    (void)state;
    yk_local *s = table_of(YK_SGD, 0.5);
    assert_near(step(s, 1.0f, 1, NULL), 0.5); /* one worker */
    yk_local_set_in_flight(s, IN_FLIGHT);
    assert_near(step(s, 1.0f, 1, NULL), 0.5 * 2 / WARM_UP);
    yk_local_restore(s, WARM_UP / 2);
    assert_near(step(s, 1.0f, 1, NULL), 0.5 * (WARM_UP / 2 + 1) / WARM_UP);
    yk_local_restore(s, 10 * WARM_UP);
    assert_near(step(s, 1.0f, 1, NULL), 0.5);
    yk_local_free(s);
    assert_int_equal(yk_warm_up_steps(IN_FLIGHT, 30), 30); /* a short run */
}

/* Keys, as those of embedding vectors: four workers read the same weights, and send the same gradient. */
static void adagrad_revises_what_others_did(void **state)
{
    (void)state;
    yk_local_config c = {.ngroups = 1, .workers = 1, .batch = 1, .stale_rules = true, .staggered = true};
    yk_local *s;
    c.group[0] = (yk_local_group){.shape = {.name = "vectors", .keyed = true, .width = 2, .keys = 3},
                                  .optim = yk_optim_defaults(YK_ADAGRAD)};
    assert_int_equal(yk_local_create(&c, &s), YK_OK);
    yk_local_set_in_flight(s, IN_FLIGHT);
    uint32_t key[] = {2};
    float value[] = {1.0f, -2.0f};
    const float read[] = {0.0f, 0.0f};
    const yk_merger pairs = {.n = 1, .width = 2, .key = key, .value = value};
    yk_step_result result;
    for (int i = 0; i < IN_FLIGHT; i++) {
        const yk_grad g = {.examples = 1, .group = {{.pairs = &pairs, .read = read}}};
        assert_int_equal(local_push(s, 0, &g), YK_OK);
        assert_int_equal(local_clock(s, 0, &result), YK_OK);
    }
    const float *w = yk_local_table(s, 0).w + 4;
    assert_near((double)w[0], -0.05); /* one step of adagrad at the default rate */
    assert_near((double)w[1], 0.05);
    yk_local_free(s);
}

/* The total effect of a gradient stays lr / (1 - mu). */
static void momentum_is_reduced(void **state)
{
    (void)state;
    yk_local *s = table_of(YK_MOMENTUM, 0.1);
    yk_local_restore(s, 10 * WARM_UP);
    yk_local_set_in_flight(s, 2);
    const double first = step(s, 1.0f, 1, NULL), second = step(s, 0.0f, 1, NULL);
    assert_near(first, 0.1 / (1.0 - 0.9) * (1.0 - 0.4));
    assert_near(second, 0.4 * first);
    yk_local_free(s);
}

/* The parameters have moved by three steps since the gradient's were read. */
static void distant_gradients_are_damped(void **state)
{
    (void)state;
    yk_local *s = table_of(YK_SGD, 0.5);
    yk_local_restore(s, 10 * WARM_UP);
    yk_local_set_in_flight(s, IN_FLIGHT);
    yk_stale_mark now, then;
    for (int i = 0; i < 200; i++) { /* each reads the current parameters: steps have their full length */
        yk_local_mark(s, &now);
        assert_near(step(s, i % 2 ? 1.0f : -1.0f, 1, &now), i % 2 ? 0.5 : -0.5);
    }
    yk_local_mark(s, &then);
    for (int i = 0; i < 3; i++) {
        yk_local_mark(s, &now);
        step(s, 1.0f, 1, &now);
    }
    assert_near(step(s, 1.0f, 1, &then), 0.5 / (1.0 + 3.0));
    yk_local_free(s);
}

/* The sum of three gradients is three steps; adam, which normalizes gradients, moves as far as with one. */
static void sums_count_as_steps(void **state)
{
    (void)state;
    yk_local *s = table_of(YK_SGD, 0.5);
    assert_near(step(s, 3.0f, 3, NULL), 3 * 0.5);
    assert_int_equal(yk_local_steps(s), 3);
    yk_local_free(s);
    s = table_of(YK_ADAM, 0.5);
    assert_near(step(s, 3.0f, 3, NULL), 0.5);
    yk_local_free(s);
}

/* Every optimizer begins with small steps, or normalizes; none is changed if there is only one worker. */
static void every_optimizer(void **state)
{
    (void)state;
    for (int kind = 0; kind < YK_OPTIM_KINDS; kind++) {
        const yk_optim_rule *rule = yk_optim_rule_of((yk_optim_kind)kind);
        yk_local *alone = table_of((yk_optim_kind)kind, 0.1), *many = table_of((yk_optim_kind)kind, 0.1);
        yk_local_set_in_flight(many, IN_FLIGHT);
        yk_stale_mark mark;
        yk_local_mark(many, &mark);
        const double one = step(alone, 1.0f, 1, NULL), first = step(many, 1.0f, 1, &mark);
        assert_true(isfinite(first) && first > 0.0);
        if (!rule->scale_free && !(first < one / 10.0))
            fail_msg("%s: the first step is %g, that of one worker %g", rule->name, first, one);
        if (rule->scale_free)
            assert_near(first, one);
        yk_local_free(alone);
        yk_local_free(many);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learning_rates_warm_up), cmocka_unit_test(adagrad_revises_what_others_did),
        cmocka_unit_test(momentum_is_reduced),    cmocka_unit_test(distant_gradients_are_damped),
        cmocka_unit_test(sums_count_as_steps),    cmocka_unit_test(every_optimizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
