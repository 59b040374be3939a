/* Scores of predictions, compared with their definitions. */
#include "scratch.h"

#include "base/rng.h"
#include "train/score.h"
#include <math.h>

/* The AUC by its definition, over all pairs. */
static double auc_by_pairs(const float *p, const uint8_t *label, size_t n)
{
    double won = 0, pairs = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            if (label[i] && !label[j]) {
                pairs += 1;
                won += p[i] > p[j] ? 1 : p[i] == p[j] ? 0.5 : 0;
            }
    return pairs > 0 ? won / pairs : (double)NAN;
}

static void labeled(yk_rows *rows, const int32_t *label, size_t n)
{
    yk_rows_init(rows, YK_ROWS_SPARSE, 0);
    for (size_t i = 0; i < n; i++) {
        uint32_t *index;
        float *value;
        assert_int_equal(yk_rows_sparse(rows, 0, &index, &value), YK_OK);
        assert_int_equal(yk_rows_commit(rows, 0, label[i]), YK_OK);
    }
}

static double auc_of(const float *p, const uint8_t *label, size_t n)
{
    int32_t labels[300];
    uint32_t pick[300];
    yk_rows rows;
    yk_tally t = {0};
    yk_score s;
    for (size_t i = 0; i < n; i++) {
        labels[i] = label[i];
        pick[i] = (uint32_t)i;
    }
    labeled(&rows, labels, n);
    assert_int_equal(yk_tally_add(&t, p, 1, &(yk_batch){&rows, pick, n, 0}), YK_OK);
    assert_int_equal(yk_score_make(&t, &s), YK_OK);
    yk_tally_fini(&t);
    yk_rows_fini(&rows);
    return s.auc;
}

static void auc_equals_its_definition(void **state)
{
    (void)state;
    enum { MAX = 300 };
    float p[MAX];
    uint8_t label[MAX];
    yk_rng r = yk_rng_seed(1, 0);
    for (int round = 0; round < 200; round++) {
        size_t n = 2 + yk_rng_below(&r, MAX - 1);
        uint32_t levels = round % 4 == 0   ? 1
                          : round % 4 == 1 ? 3
                          : round % 4 == 2 ? 40
                                           : 1u << 31; /* with or without ties */
        double scale = round % 3 == 0 ? 1e-30 : 1;
        for (size_t i = 0; i < n; i++) {
            p[i] = (float)(scale * yk_rng_below(&r, levels) / levels);
            label[i] = yk_rng_unit(&r) < 0.2 + 0.6 * (double)p[i];
        }
        double expected = auc_by_pairs(p, label, n), got = auc_of(p, label, n);
        if (isnan(expected))
            assert_true(isnan(got));
        else
            assert_true(fabs(got - expected) < 1e-12);
    }
}

static void auc_of_simple_cases(void **state)
{
    (void)state;
    static const float p[] = {0.0f, 1e-45f, 0.3f, 0.5f, 1.0f};
    static const struct {
        uint8_t label[5];
        size_t n;
        double auc;
    } cases[] = {
        {{0, 0, 0, 1, 1}, 5, 1.0},
        {{1, 1, 1, 0, 0}, 5, 0.0},
        {{0, 1, 0, 1, 0}, 5, 0.5},
        {{1, 1, 1, 1, 1}, 5, NAN},
        {{0, 0, 0, 0, 0}, 5, NAN},
        {{1}, 1, NAN},
        {{0}, 0, NAN},
        {{0, 1}, 2, 1.0},
        {{1, 0}, 2, 0.0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double got = auc_of(p, cases[i].label, cases[i].n);
        assert_true(isnan(cases[i].auc) ? isnan(got) : fabs(got - cases[i].auc) < 1e-15);
    }
}

static yk_status score_of_workers(const yk_tally *t, int n, yk_score *out)
{
    yk_tally all = {0};
    for (int i = 0; i < n; i++)
        assert_int_equal(yk_tally_merge(&all, &t[i]), YK_OK);
    yk_status st = yk_score_make(&all, out);
    yk_tally_fini(&all);
    return st;
}

/* The tallies of three workers, one of them empty, equal one tally of all examples. */
static void tallies_of_workers_add_up(void **state)
{
    (void)state;
    const int32_t label[] = {1, 0, 1, 1, 0, 1, 1};
    const float p[] = {0.9f, 0.2f, 0.4f, 0.7f, 0.7f, 0.5f, 0.6f};
    const uint8_t bytes[] = {1, 0, 1, 1, 0, 1, 1};
    for (size_t outputs = 1; outputs <= 2; outputs++) { /* the probability of class 1, or of both */
        yk_rows rows;
        labeled(&rows, label, 7);
        float both[14];
        for (int i = 0; i < 7; i++) {
            both[2 * i] = 1 - p[i];
            both[2 * i + 1] = p[i];
        }
        const float *given = outputs == 1 ? p : both;
        yk_tally t[3] = {0};
        const uint32_t first[] = {0, 1, 2, 3}, rest[] = {4, 5, 6};
        assert_int_equal(yk_tally_add(&t[0], given, outputs, &(yk_batch){&rows, first, 2, 2}), YK_OK);
        assert_int_equal(
            yk_tally_add(&t[0], given + 2 * outputs, outputs, &(yk_batch){&rows, first + 2, 2, 0}), YK_OK);
        assert_int_equal(yk_tally_add(&t[2], given + 4 * outputs, outputs, &(yk_batch){&rows, rest, 3, 0}),
                         YK_OK);
        t[0].loss = 1.5;
        t[2].loss = 2.0;
        yk_score s;
        assert_int_equal(score_of_workers(t, 3, &s), YK_OK);
        assert_int_equal(s.examples, 7);
        assert_true(fabs(s.loss - 0.5) < 1e-15);
        assert_true(fabs(s.accuracy - 4.0 / 7) <
                    1e-15); /* 0.4 and 0.5 are class 0; the second 0.7 is wrong */
        assert_true(fabs(s.majority_accuracy - 5.0 / 7) < 1e-15);
        assert_true(fabs(s.auc - auc_by_pairs(p, bytes, 7)) < 1e-12);

        t[2].loss = (double)NAN; /* probabilities are NaN, too, and cannot be sorted */
        assert_int_equal(score_of_workers(t, 3, &s), YK_OK);
        assert_true(isnan(s.auc) && isnan(s.loss));

        for (int i = 0; i < 3; i++)
            yk_tally_clear(&t[i]);
        assert_int_equal(score_of_workers(t, 3, &s), YK_OK);
        assert_int_equal(s.examples, 0);
        assert_true(isnan(s.auc));
        assert_int_equal(yk_tally_add(&t[0], given, outputs, &(yk_batch){&rows, first, 1, 0}), YK_OK);
        assert_int_equal(score_of_workers(t, 3, &s), YK_OK);
        assert_true(s.examples == 1 && s.accuracy == 1 && s.majority_accuracy == 1 && isnan(s.auc));
        for (int i = 0; i < 3; i++)
            yk_tally_fini(&t[i]);
        yk_rows_fini(&rows);
    }
}

static void many_classes_have_no_auc(void **state)
{
    (void)state;
    const int32_t label[] = {2, 0, 2, 1};
    const float p[] = {0.1f, 0.2f, 0.7f, 0.5f, 0.4f, 0.1f, 0.6f, 0.2f, 0.2f, 0.3f, 0.4f, 0.3f};
    const uint32_t pick[] = {0, 1, 2, 3};
    yk_rows rows;
    labeled(&rows, label, 4);
    yk_tally t = {0};
    assert_int_equal(yk_tally_add(&t, p, 3, &(yk_batch){&rows, pick, 4, 0}), YK_OK);
    t.loss = 4;
    yk_score s;
    assert_int_equal(yk_score_make(&t, &s), YK_OK);
    assert_true(s.accuracy == 0.75 && s.majority_accuracy == 0.5 && s.loss == 1 && isnan(s.auc));
    assert_true(t.count[0] == 1 && t.count[1] == 1 && t.count[2] == 2);
    yk_tally_fini(&t);
    yk_rows_fini(&rows);
}

static void truth_is_scored(void **state)
{
    (void)state;
    enum { N = 400 };
    static float p[N];
    static uint8_t label[N];
    yk_rng r = yk_rng_seed(4, 0);
    yk_rows rows;
    double loss = 0, right = 0, yes = 0;
    yk_rows_init(&rows, YK_ROWS_SPARSE, 0);
    for (int i = 0; i < N; i++) {
        uint32_t *index;
        float *value;
        p[i] = (float)(0.05 + 0.9 * yk_rng_unit(&r));
        label[i] = yk_rng_unit(&r) < (double)p[i];
        assert_int_equal(yk_rows_sparse(&rows, 0, &index, &value), YK_OK);
        assert_int_equal(yk_rows_commit_truth(&rows, 0, label[i], p[i]), YK_OK);
        loss -= log(label[i] ? (double)p[i] : 1 - (double)p[i]);
        right += (p[i] > 0.5f) == label[i];
        yes += label[i];
    }
    yk_score s;
    assert_int_equal(yk_score_truth(&rows, &s), YK_OK);
    assert_int_equal(s.examples, N);
    assert_true(fabs(s.loss - loss / N) < 1e-12);
    assert_true(fabs(s.accuracy - right / N) < 1e-12);
    assert_true(fabs(s.majority_accuracy - fmax(yes, N - yes) / N) < 1e-12);
    assert_true(fabs(s.auc - auc_by_pairs(p, label, N)) < 1e-12);
    yk_rows_fini(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auc_equals_its_definition), cmocka_unit_test(auc_of_simple_cases),
        cmocka_unit_test(tallies_of_workers_add_up), cmocka_unit_test(many_classes_have_no_auc),
        cmocka_unit_test(truth_is_scored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
