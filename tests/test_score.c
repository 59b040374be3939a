/* Scores of predictions, compared with their definitions. */
#include "scratch.h"

#include "base/rng.h"
#include "train/metrics.h"
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
    assert_int_equal(yk_tally_add(&t, p, 1, &(yk_batch){&rows, pick, n, 0}, NULL), YK_OK);
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
        assert_int_equal(yk_tally_add(&t[0], given, outputs, &(yk_batch){&rows, first, 2, 2}, NULL), YK_OK);
        assert_int_equal(
            yk_tally_add(&t[0], given + 2 * outputs, outputs, &(yk_batch){&rows, first + 2, 2, 0}, NULL),
            YK_OK);
        assert_int_equal(
            yk_tally_add(&t[2], given + 4 * outputs, outputs, &(yk_batch){&rows, rest, 3, 0}, NULL), YK_OK);
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
        assert_int_equal(yk_tally_add(&t[0], given, outputs, &(yk_batch){&rows, first, 1, 0}, NULL), YK_OK);
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
    assert_int_equal(yk_tally_add(&t, p, 3, &(yk_batch){&rows, pick, 4, 0}, NULL), YK_OK);
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
        assert_int_equal(yk_rows_commit(&rows, 0, label[i]) || yk_rows_set_truth(&rows, p[i]), YK_OK);
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

/* ---- metrics ---- */

enum { EXAMPLES = 500, MAX_CLASSES = 4 };

typedef struct {
    size_t outputs, classes;
    const float *weight; /* NULL: 1 */
    float p[EXAMPLES * MAX_CLASSES], drawn[EXAMPLES];
    int32_t label[EXAMPLES];
    yk_rows rows;
} predictions;

/* Labels are drawn from the predictions, which have ties. Class 2 of 4 never occurs and is never predicted. */
static void predict_at_random(predictions *o, size_t outputs, bool weighted, uint64_t seed)
{
    yk_rng r = yk_rng_seed(seed, 0);
    *o = (predictions){.outputs = outputs, .classes = outputs == 1 ? 2 : outputs};
    for (size_t i = 0; i < EXAMPLES; i++) {
        float *p = o->p + i * outputs, sum = 0.0f;
        for (size_t c = 0; c < outputs; c++)
            sum += p[c] = c == 2 ? 0.001f : 0.01f + (float)yk_rng_below(&r, 30) / 30.0f;
        for (size_t c = 0; c < outputs; c++)
            p[c] /= outputs == 1 ? 1.1f : sum;
        const double u = yk_rng_unit(&r);
        if (outputs == 1)
            o->label[i] = u < (double)p[0];
        else
            o->label[i] = u < 0.6 ? (int32_t)yk_score_class(p, outputs) : u < 0.8 ? 1 : 0;
        o->drawn[i] = (float)(1 + yk_rng_below(&r, 4)) / 2.0f;
    }
    o->weight = weighted ? o->drawn : NULL;
    labeled(&o->rows, o->label, EXAMPLES);
}

static double prob(const predictions *o, size_t i, size_t c)
{
    return o->outputs > 1 ? (double)o->p[i * o->outputs + c] : c ? (double)o->p[i] : 1 - (double)o->p[i];
}

static double weight_of(const predictions *o, size_t i)
{
    return o->weight ? (double)o->weight[i] : 1;
}

/* Adds the examples begin .. end - 1, in blocks. */
static void add_part(const predictions *o, yk_tally *t, size_t begin, size_t end)
{
    for (size_t at = begin; at < end; at += 64) {
        uint32_t pick[64];
        const size_t n = end - at < 64 ? end - at : 64;
        for (size_t i = 0; i < n; i++) {
            pick[i] = (uint32_t)(at + i);
            t->loss -= weight_of(o, at + i) * log(prob(o, at + i, (size_t)o->label[at + i]));
        }
        assert_int_equal(yk_tally_add(t, o->p + at * o->outputs, o->outputs,
                                      &(yk_batch){&o->rows, pick, n, 0}, o->weight ? o->weight + at : NULL),
                         YK_OK);
    }
}

typedef struct {
    double loss, entropy, accuracy, auc, pr_auc, brier, calibration, majority;
    yk_class_metrics of_class[MAX_CLASSES], macro;
} expected;

/* Area under the ROC curve and average precision, over all pairs. */
static void expect_ranking(const predictions *o, expected *e)
{
    double won = 0, pairs = 0, precision = 0, positives = 0;
    for (size_t i = 0; i < EXAMPLES; i++) {
        double above[2] = {0};
        if (!o->label[i])
            continue;
        for (size_t j = 0; j < EXAMPLES; j++) {
            const double w = weight_of(o, j), d = prob(o, j, 1) - prob(o, i, 1);
            above[o->label[j]] += d >= 0 ? w : 0;
            if (!o->label[j]) {
                pairs += weight_of(o, i) * w;
                won += weight_of(o, i) * w * (d < 0 ? 1 : d == 0 ? 0.5 : 0);
            }
        }
        positives += weight_of(o, i);
        precision += weight_of(o, i) * above[1] / (above[0] + above[1]);
    }
    e->auc = won / pairs;
    e->pr_auc = precision / positives;
}

static void expect_classes(const predictions *o, expected *e)
{
    double all = 0, seen = 0;
    e->macro = (yk_class_metrics){0};
    e->accuracy = e->entropy = e->majority = 0;
    for (size_t c = 0; c < o->classes; c++) {
        double of = 0, predicted = 0, both = 0;
        all = 0;
        for (size_t i = 0; i < EXAMPLES; i++) {
            const bool is = o->label[i] == (int32_t)c,
                       said = yk_score_class(o->p + i * o->outputs, o->outputs) == c;
            of += is * weight_of(o, i);
            predicted += said * weight_of(o, i);
            both += (is && said) * weight_of(o, i);
            all += weight_of(o, i);
        }
        e->accuracy += both / all;
        e->entropy -= of > 0 ? of / all * log(of / all) : 0;
        e->majority = fmax(e->majority, of / all);
        e->of_class[c] = (yk_class_metrics){of, both / predicted, both / of, 2 * both / (of + predicted)};
        if (c == 2)
            continue;
        seen++;
        e->macro.precision += e->of_class[c].precision;
        e->macro.recall += e->of_class[c].recall;
        e->macro.f1 += e->of_class[c].f1;
    }
    e->macro.precision /= seen;
    e->macro.recall /= seen;
    e->macro.f1 /= seen;
    e->entropy = e->loss / e->entropy;
}

static expected expect(const predictions *o)
{
    expected e = {.auc = NAN, .pr_auc = NAN};
    double all = 0, bin[YK_CALIBRATION_BINS] = {0};
    for (size_t i = 0; i < EXAMPLES; i++) {
        const double w = weight_of(o, i);
        const size_t y = (size_t)o->label[i], guess = yk_score_class(o->p + i * o->outputs, o->outputs);
        all += w;
        e.loss -= w * log(prob(o, i, y));
        for (size_t c = o->classes == 2; c < o->classes; c++)
            e.brier += w * pow(prob(o, i, c) - (c == y), 2);
        const double p = prob(o, i, o->classes == 2 ? 1 : guess);
        size_t k = 0;
        while (p > (double)(k + 1) / YK_CALIBRATION_BINS)
            k++;
        bin[k] += w * (p - (o->classes == 2 ? y == 1 : y == guess));
    }
    for (int k = 0; k < YK_CALIBRATION_BINS; k++)
        e.calibration += fabs(bin[k]) / all;
    e.loss /= all;
    e.brier /= all;
    expect_classes(o, &e);
    if (o->classes == 2)
        expect_ranking(o, &e);
    return e;
}

static bool near(double a, double b)
{
    return (isnan(a) && isnan(b)) || fabs(a - b) < 1e-6;
}

static double value(const yk_eval_metrics *m, const char *name)
{
    assert_non_null(yk_metric_find(name));
    return m->value[yk_metric_find(name) - yk_metric_kinds];
}

static void check_metrics(const predictions *o, const yk_tally *t)
{
    const expected e = expect(o);
    const bool binary = o->classes == 2;
    yk_eval_metrics m;
    assert_int_equal(yk_eval_metrics_make(t, &m), YK_OK);
    assert_int_equal(m.task, binary ? YK_TASK_BINARY : YK_TASK_CLASSES);
    assert_true(m.examples == EXAMPLES && m.classes == o->classes);
    const struct {
        const char *name;
        double expected;
    } cases[] = {
        {"loss", e.loss},
        {"log_loss", e.loss},
        {"normalized_entropy", e.entropy},
        {"accuracy", e.accuracy},
        {"auc", e.auc},
        {"pr_auc", e.pr_auc},
        {"brier", e.brier},
        {"calibration_error", e.calibration},
        {"precision", binary ? e.of_class[1].precision : NAN},
        {"recall", binary ? e.of_class[1].recall : NAN},
        {"f1", binary ? e.of_class[1].f1 : NAN},
        {"macro_precision", e.macro.precision},
        {"macro_recall", e.macro.recall},
        {"macro_f1", e.macro.f1},
        {"r2", NAN},
        {"mae", NAN},
        {"rmse", NAN},
    };
    assert_int_equal(sizeof cases / sizeof *cases, YK_METRICS);
    for (size_t i = 0; i < YK_METRICS; i++) {
        double one;
        if (!near(value(&m, cases[i].name), cases[i].expected))
            fail_msg("%s: %.9g, not %.9g", cases[i].name, value(&m, cases[i].name), cases[i].expected);
        assert_int_equal(yk_metric_value(yk_metric_find(cases[i].name), t, &one), YK_OK);
        assert_true(near(one, cases[i].expected));
    }
    assert_true(near(m.majority_accuracy, e.majority));
    double all = 0;
    for (size_t c = 0; c < o->classes; c++) {
        double row = 0, column = 0;
        for (size_t k = 0; k < o->classes; k++) {
            row += m.confusion[c * o->classes + k];
            column += m.confusion[k * o->classes + c];
        }
        all += row;
        assert_true(near(row, e.of_class[c].weight));
        assert_true(near(m.of_class[c].weight, row) && near(m.of_class[c].f1, e.of_class[c].f1));
        assert_true(near(m.of_class[c].precision, m.confusion[c * o->classes + c] / column));
        assert_true(near(m.of_class[c].recall, m.confusion[c * o->classes + c] / row));
    }
    assert_true(near(all, m.weight));
    yk_eval_metrics_fini(&m);
}

/* In one tally, and in those of three workers, one of which is in another process. */
static void metrics_equal_their_definitions(void **state)
{
    (void)state;
    static predictions o;
    for (int round = 0; round < 24; round++) {
        predict_at_random(&o, (size_t[]){1, 2, 3, 4}[round % 4], round / 4 % 2, (uint64_t)round);
        yk_tally t[4] = {0};
        char *packed;
        size_t bytes;
        add_part(&o, &t[0], 0, EXAMPLES);
        check_metrics(&o, &t[0]);
        yk_tally_clear(&t[0]);
        add_part(&o, &t[0], 0, 300);
        add_part(&o, &t[1], 300, EXAMPLES);
        assert_int_equal(yk_tally_pack(&t[1], &packed, &bytes), YK_OK);
        assert_int_equal(yk_tally_unpack(&t[2], packed, bytes - 1), YK_ELOST);
        assert_int_equal(yk_tally_unpack(&t[2], packed, bytes), YK_OK);
        free(packed);
        yk_tally_clear(&t[1]);
        for (int i = 0; i < 3; i++)
            assert_int_equal(yk_tally_merge(&t[3], &t[i]), YK_OK);
        check_metrics(&o, &t[3]);
        for (int i = 0; i < 4; i++)
            yk_tally_fini(&t[i]);
        yk_rows_fini(&o.rows);
    }
}

/* A row of weight 2 equals the row twice, also beside a worker whose rows have no weights. */
static void weights_count_like_copies(void **state)
{
    (void)state;
    const int32_t label[] = {1, 0, 1, 0, 0};
    const float p[] = {0.9f, 0.2f, 0.4f, 0.7f, 0.4f}, twice[] = {0.9f, 0.9f, 0.2f, 0.4f, 0.7f, 0.4f},
                weight[] = {2, 1};
    const uint32_t pick[] = {0, 1, 2, 3, 4}, copies[] = {0, 0, 1, 2, 3, 4};
    yk_rows rows;
    yk_tally a = {0}, b = {0}, c = {0};
    yk_eval_metrics m, n;
    labeled(&rows, label, 5);
    assert_int_equal(yk_tally_add(&a, p, 1, &(yk_batch){&rows, pick, 2, 0}, weight), YK_OK);
    assert_int_equal(yk_tally_add(&b, p + 2, 1, &(yk_batch){&rows, pick + 2, 3, 0}, NULL), YK_OK);
    assert_int_equal(yk_tally_merge(&b, &a), YK_OK);
    assert_int_equal(yk_tally_add(&c, twice, 1, &(yk_batch){&rows, copies, 6, 0}, NULL), YK_OK);
    assert_int_equal(yk_eval_metrics_make(&b, &m), YK_OK);
    assert_int_equal(yk_eval_metrics_make(&c, &n), YK_OK);
    assert_true(m.examples == 5 && n.examples == 6 && m.weight == 6 && n.weight == 6);
    for (int k = 0; k < YK_METRICS; k++)
        assert_true(near(m.value[k], n.value[k]));
    yk_eval_metrics_fini(&m);
    yk_eval_metrics_fini(&n);
    yk_tally_fini(&a);
    yk_tally_fini(&b);
    yk_tally_fini(&c);
    yk_rows_fini(&rows);
}

static void metrics_of_numbers(void **state)
{
    (void)state;
    const float predicted[] = {1, 2, 3, 4.5f}, label[] = {1001.5f, 2, 2, 5}, weight[] = {1, 2, 1, 0.5f};
    for (int weighted = 0; weighted < 2; weighted++) {
        double all = 0, mean = 0, squares = 0, absolute = 0, total = 0, one;
        for (int i = 0; i < 4; i++) {
            const double w = weighted ? (double)weight[i] : 1, d = (double)predicted[i] - (double)label[i];
            all += w;
            mean += w * (double)label[i];
            squares += w * d * d;
            absolute += w * fabs(d);
        }
        mean /= all;
        for (int i = 0; i < 4; i++)
            total += (weighted ? (double)weight[i] : 1) * pow((double)label[i] - mean, 2);
        yk_tally t[2] = {0};
        yk_tally_add_numbers(&t[0], predicted, label, weighted ? weight : NULL, 3);
        yk_tally_add_numbers(&t[1], predicted + 3, label + 3, weighted ? weight + 3 : NULL, 1);
        assert_int_equal(yk_tally_merge(&t[0], &t[1]), YK_OK);
        yk_eval_metrics m;
        assert_int_equal(yk_eval_metrics_make(&t[0], &m), YK_OK);
        assert_true(m.task == YK_TASK_NUMBERS && m.examples == 4 && near(m.weight, all) && !m.of_class);
        assert_true(near(value(&m, "r2"), 1 - squares / total));
        assert_true(near(value(&m, "mae"), absolute / all));
        assert_true(near(value(&m, "rmse"), sqrt(squares / all)));
        assert_true(isnan(value(&m, "accuracy")) && isnan(m.majority_accuracy));
        assert_int_equal(yk_metric_value(yk_metric_find("mae"), &t[0], &one), YK_OK);
        assert_true(near(one, absolute / all));
        yk_eval_metrics_fini(&m);
    }
}

/* Metrics that the examples do not define are null, and a run that diverged has none that need probabilities. */
static void undefined_metrics_are_nan(void **state)
{
    (void)state;
    const float p[] = {0.2f, 0.4f};
    const uint32_t pick[] = {0, 1};
    yk_rows rows;
    yk_tally t = {0};
    yk_eval_metrics m;
    labeled(&rows, (int32_t[]){0, 0}, 2);
    assert_int_equal(yk_eval_metrics_make(&t, &m), YK_OK);
    assert_true(isnan(value(&m, "loss")) && isnan(value(&m, "rmse")));
    assert_int_equal(yk_tally_add(&t, p, 1, &(yk_batch){&rows, pick, 2, 0}, NULL), YK_OK);
    assert_int_equal(yk_eval_metrics_make(&t, &m), YK_OK);
    assert_true(isnan(value(&m, "auc")) && isnan(value(&m, "pr_auc")) && isnan(value(&m, "f1")));
    assert_true(value(&m, "accuracy") == 1 && value(&m, "macro_f1") == 1);
    char *text = yk_eval_metrics_json(&m, NULL, 0);
    assert_non_null(strstr(text, "\"examples\":2,\"weight\":2,"));
    assert_non_null(strstr(text, "\"auc\":null,"));
    assert_non_null(strstr(text, "\"confusion\":[[2,0],[0,0]]"));
    assert_null(strstr(text, "\"r2\""));
    free(text);
    yk_eval_metrics_fini(&m);
    t.loss = (double)NAN;
    assert_int_equal(yk_eval_metrics_make(&t, &m), YK_OK);
    assert_true(isnan(value(&m, "brier")) && isnan(value(&m, "calibration_error")) &&
                value(&m, "accuracy") == 1);
    yk_eval_metrics_fini(&m);
    yk_tally_fini(&t);
    yk_rows_fini(&rows);
}

static void names_are_those_of_the_table(void **state)
{
    (void)state;
    char names[512] = "";
    for (int k = 0; k < YK_METRICS; k++) {
        assert_true(abs(yk_metric_kinds[k].sign) == 1 && yk_metric_kinds[k].tasks);
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", k ? ", " : "",
                 yk_metric_kinds[k].name);
    }
    assert_string_equal(names, YK_METRIC_NAMES);
    assert_null(yk_metric_find("AUC"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auc_equals_its_definition), cmocka_unit_test(auc_of_simple_cases),
        cmocka_unit_test(tallies_of_workers_add_up), cmocka_unit_test(many_classes_have_no_auc),
        cmocka_unit_test(truth_is_scored),           cmocka_unit_test(metrics_equal_their_definitions),
        cmocka_unit_test(weights_count_like_copies), cmocka_unit_test(metrics_of_numbers),
        cmocka_unit_test(undefined_metrics_are_nan), cmocka_unit_test(names_are_those_of_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
