/* Selection of the best model and early stopping (train/selection.h), without training. */
#include "base/log.h"
#include "train/selection.h"

#include "scratch.h"

static yk__selection make(const char *monitor, const char *patience, const char *min_delta)
{
    yk__selection s = {0};
    yk_config c;
    yk_config_init(&c);
    assert_int_equal(yk_config_set(&c, "validation", "0.1"), YK_OK);
    assert_int_equal(yk_config_set(&c, "monitor", monitor), YK_OK);
    assert_int_equal(yk_config_set(&c, "patience", patience), YK_OK);
    if (min_delta)
        assert_int_equal(yk_config_set(&c, "min-delta", min_delta), YK_OK);
    assert_int_equal(yk__selection_init(&s, &c, 2), YK_OK);
    s.validation = "0.1";
    yk_config_fini(&c);
    return s;
}

/* An evaluation of 100 examples, of which a share is predicted correctly. */
static void step(yk__selection *s, uint64_t at, double loss, double accuracy)
{
    enum { N = 100 };
    int32_t label[N];
    float p[N];
    uint32_t pick[N];
    for (int i = 0; i < N; i++) {
        label[i] = i % 2;
        p[i] = (i < (int)(accuracy * N + 0.5)) == (i % 2) ? 0.9f : 0.1f;
        pick[i] = (uint32_t)i;
    }
    const yk_rows rows = {.kind = YK_ROWS_F32, .n = N, .label = label};
    yk_tally tally = {0};
    assert_int_equal(yk_tally_add(&tally, p, 1, &(yk_batch){.rows = &rows, .pick = pick, .n = N}, NULL),
                     YK_OK);
    tally.loss = N * loss;
    yk_score validation;
    const yk_score test = {.examples = 1, .loss = -loss};
    assert_int_equal(yk_score_make(&tally, &validation), YK_OK);
    assert_int_equal(yk__select(s, &tally, at, false, &validation, &test), YK_OK);
    yk_tally_fini(&tally);
}

static void the_first_of_the_best_is_selected(void **state)
{
    (void)state;
    static const double loss[] = {0.1, 0.9, 0.7, 0.7, 0.8, 0.6, 0.6};
    yk__selection s = make("loss", "0", NULL);
    for (size_t i = 0; i < sizeof loss / sizeof *loss; i++) {
        step(&s, i, loss[i], 0.0);
        assert_int_equal(s.best.improved, i == 1 || i == 2 || i == 5); /* not before the first step */
        assert_true(s.best.value > loss[i] - 1e-9 && s.best.value < loss[i] + 1e-9 &&
                    !yk__selection_is_over(&s));
    }
    assert_int_equal(s.best.step, 5);
    assert_true(s.best.validation.loss == s.best.best && s.best.test.loss == -0.6);
    yk__selection_fini(&s);
    s = make("accuracy", "0", NULL); /* higher is better */
    step(&s, 1, 0.1, 0.5);
    step(&s, 2, 0.9, 0.6);
    step(&s, 3, 0.0, 0.6);
    assert_int_equal(s.best.step, 2);
    step(&s, 3, 0.0, 0.7);
    step(&s, 3, 0.0, 0.65); /* evaluated again: this is what is saved */
    assert_true(s.best.improved && s.best.step == 3 && s.best.best < 0.66);
    yk__selection_fini(&s);
}

/* --lr-schedule plateau: the rate is reduced after --lr-patience evaluations without improvement, and again after as many. */
static void a_plateau_reduces_the_learning_rate(void **state)
{
    (void)state;
    static const double loss[] = {0.5, 0.6, 0.4, 0.39, 0.41, 0.42, 0.42, 0.3, 0.3};
    static const uint64_t want[] = {0, 0, 0, 0, 1, 1, 2, 2, 2};
    yk__selection s = make("loss", "0", "0.05");
    s.lr_patience = 2;
    for (size_t i = 0; i < sizeof loss / sizeof *loss; i++) {
        step(&s, i + 1, loss[i], 0.0);
        assert_int_equal(s.best.reductions, want[i]);
    }
    assert_false(yk__selection_is_over(&s));
    yk__selection_fini(&s);
}

static void patience_counts_evaluations_without_improvement(void **state)
{
    (void)state;
    yk__selection s = make("loss", "2", NULL);
    step(&s, 1, 0.5, 0.0);
    step(&s, 2, 0.6, 0.0);
    assert_false(yk__selection_is_over(&s));
    step(&s, 3, 0.4, 0.0);
    step(&s, 4, 0.4, 0.0); /* equal is not better */
    assert_false(yk__selection_is_over(&s));
    step(&s, 5, 0.41, 0.0);
    assert_true(yk__selection_is_over(&s) && s.best.waited == 2 && s.best.step == 3);
    step(&s, 6, 0.3, 0.0); /* with gradients that arrived after the decision to stop */
    assert_true(yk__selection_is_over(&s) && s.best.step == 6);
    yk__selection_fini(&s);
}

/* Small improvements select a model; they count for patience when their sum is larger than --min-delta. */
static void small_improvements_add_up(void **state)
{
    (void)state;
    yk__selection s = make("accuracy", "3", "0.1");
    step(&s, 1, 0.0, 0.50);
    step(&s, 2, 0.0, 0.56);
    assert_true(s.best.step == 2 && s.best.waited == 1);
    step(&s, 3, 0.0, 0.59);
    assert_true(s.best.step == 3 && s.best.waited == 2);
    step(&s, 4, 0.0, 0.62);
    assert_true(s.best.step == 4 && s.best.waited == 0);
    for (int i = 5; i < 8; i++)
        step(&s, (uint64_t)i, 0.0, 0.62 + 0.01 * i);
    assert_true(yk__selection_is_over(&s) && s.best.step == 7);
    yk__selection_fini(&s);
}

static void errors(void **state)
{
    (void)state;
    yk__selection s = make("auc", "3", NULL);
    const yk_tally empty = {0};
    const yk_score none = {0}, one_class = {.examples = 3, .auc = (double)NAN};
    assert_int_equal(yk__select(&s, &empty, 1, false, &none, &none), YK_EDATA);
    assert_message("--validation 0.1 has no examples");
    assert_int_equal(yk__select(&s, &empty, 1, false, &one_class, &none), YK_EDATA);
    assert_message("--monitor auc is not defined for the validation examples");
    yk_config c;
    yk_config_init(&c);
    assert_int_equal(yk_config_set(&c, "monitor", "auc"), YK_OK);
    assert_int_equal(yk__selection_init(&s, &c, 10), YK_EUSAGE);
    assert_message("--monitor auc is not defined for 10 classes");
    assert_int_equal(yk__selection_init(&s, &c, 0), YK_EUSAGE);
    assert_message(
        "--monitor auc is not defined for labels that are numbers: use --monitor loss, r2, mae or rmse");
    assert_int_equal(yk_config_set(&c, "monitor", "acc"), YK_OK);
    assert_int_equal(yk__selection_init(&s, &c, 2), YK_EUSAGE);
    assert_message("--monitor acc: unknown metric; use one of: loss, ");
    yk_config_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_of_the_best_is_selected),
        cmocka_unit_test(a_plateau_reduces_the_learning_rate),
        cmocka_unit_test(patience_counts_evaluations_without_improvement),
        cmocka_unit_test(small_improvements_add_up),
        cmocka_unit_test(errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
