#include "train/metrics.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

static yk_task task_of(const yk_tally *t)
{
    return !t->classes ? YK_TASK_NUMBERS : t->classes == 2 ? YK_TASK_BINARY : YK_TASK_CLASSES;
}

/* ---- the table ---- */

enum {
    BINARY = YK_TASK_BINARY,
    CLASSES = YK_TASK_BINARY | YK_TASK_CLASSES,
    NUMBERS = YK_TASK_NUMBERS,
    LOWER = -1,
    HIGHER = 1
};

#define METRICS(X)                                                                                           \
    X(LOSS, "loss", "loss", LOWER, false, CLASSES | NUMBERS)                                                 \
    X(LOG_LOSS, "log_loss", "log loss", LOWER, false, CLASSES)                                               \
    X(ENTROPY, "normalized_entropy", "normalized entropy", LOWER, false, CLASSES)                            \
    X(ACCURACY, "accuracy", "accuracy", HIGHER, false, CLASSES)                                              \
    X(AUC, "auc", "AUC", HIGHER, true, BINARY)                                                               \
    X(PR_AUC, "pr_auc", "PR-AUC", HIGHER, true, BINARY)                                                      \
    X(BRIER, "brier", "Brier score", LOWER, true, CLASSES)                                                   \
    X(CALIBRATION, "calibration_error", "calibration error", LOWER, true, CLASSES)                           \
    X(PRECISION, "precision", "precision", HIGHER, false, BINARY)                                            \
    X(RECALL, "recall", "recall", HIGHER, false, BINARY)                                                     \
    X(F1, "f1", "F1", HIGHER, false, BINARY)                                                                 \
    X(MACRO_PRECISION, "macro_precision", "macro precision", HIGHER, false, CLASSES)                         \
    X(MACRO_RECALL, "macro_recall", "macro recall", HIGHER, false, CLASSES)                                  \
    X(MACRO_F1, "macro_f1", "macro F1", HIGHER, false, CLASSES)                                              \
    X(R2, "r2", "R2", HIGHER, false, NUMBERS)                                                                \
    X(MAE, "mae", "MAE", LOWER, false, NUMBERS)                                                              \
    X(RMSE, "rmse", "RMSE", LOWER, false, NUMBERS)

#define INDEX(metric, ...) metric,
enum { METRICS(INDEX) };

#define KIND(metric, ...) {__VA_ARGS__},
const yk_metric_kind yk_metric_kinds[YK_METRICS] = {METRICS(KIND)};

const yk_metric_kind *yk_metric_find(const char *name)
{
    for (const yk_metric_kind *k = yk_metric_kinds; k < yk_metric_kinds + YK_METRICS; k++)
        if (!strcmp(k->name, name))
            return k;
    return NULL;
}

/* ---- two classes ---- */

/* The predictions in ascending order: `n` entries of `size` bytes, a word as in yk_tally.ranks and, if weighted, a float. */
typedef struct {
    void *memory;
    const char *entry;
    size_t n, size;
} ranking;

static uint32_t word_at(const char *entry)
{
    uint32_t word;
    memcpy(&word, entry, sizeof word);
    return word;
}

/* By prediction, not by label: n entries of `size` bytes, which begin with a word. Returns the sorted array: a or b. The
 * compiler makes a version for each size. */
static inline const char *radix_sort(char *a, char *b, size_t n, size_t size)
{
    enum { BITS = 11, BUCKETS = 1 << BITS };
    for (int pass = 0; pass < 3; pass++) {
        size_t count[BUCKETS] = {0}, sum = 0;
        const int shift = 1 + pass * BITS;
        for (size_t i = 0; i < n; i++)
            count[word_at(a + i * size) >> shift & (BUCKETS - 1)]++;
        for (size_t k = 0; k < BUCKETS; k++) {
            size_t c = count[k];
            count[k] = sum;
            sum += c;
        }
        for (size_t i = 0; i < n; i++)
            memcpy(b + size * count[word_at(a + i * size) >> shift & (BUCKETS - 1)]++, a + i * size, size);
        char *swap = a;
        a = b;
        b = swap;
    }
    return a;
}

static yk_status rank(const yk_tally *t, ranking *out)
{
    enum { PLAIN = sizeof *t->ranks, WEIGHTED = PLAIN + sizeof *t->weights };
    const size_t n = t->examples, size = t->weighted ? WEIGHTED : PLAIN;
    char *memory = malloc(2 * n * size + 1); /* the second half is scratch memory */
    if (!memory)
        return yk_fail_memory(2 * n * size, "the AUC");
    for (size_t i = 0; i < n; i++) {
        memcpy(memory + i * size, &t->ranks[i], PLAIN);
        if (t->weighted)
            memcpy(memory + i * size + PLAIN, &t->weights[i], sizeof *t->weights);
    }
    *out = (ranking){.memory = memory, .n = n, .size = size};
    out->entry = t->weighted ? radix_sort(memory, memory + n * WEIGHTED, n, WEIGHTED)
                             : radix_sort(memory, memory + n * PLAIN, n, PLAIN);
    return YK_OK;
}

/* The next distinct probability from *at on: the weights of both classes. Advances *at. */
static float next_probability(const ranking *r, size_t *at, double weight_out[2])
{
    const uint32_t key = word_at(r->entry + *at * r->size) >> 1;
    weight_out[0] = weight_out[1] = 0.0;
    for (; *at < r->n; ++*at) {
        const char *entry = r->entry + *at * r->size;
        const uint32_t word = word_at(entry);
        float weight = 1.0f;
        if (word >> 1 != key)
            break;
        if (r->size > sizeof word)
            memcpy(&weight, entry + sizeof word, sizeof weight);
        weight_out[word & 1] += (double)weight;
    }
    float p;
    memcpy(&p, &key, sizeof p);
    return p;
}

/* What needs all probabilities. The average precision is the sum of precision times the increase in recall, from the
 * highest probability down; here it is summed in ascending order, so that one pass in the order of the AUC suffices. */
static yk_status measure_ranking(const yk_tally *t, yk_eval_metrics *out)
{
    const double positives = t->count[1];
    double left[2] = {t->count[0], t->count[1]}, weight[2], sum = 0.0, squares = 0.0;
    double below[2] = {0.0, 0.0}, pairs = 0.0; /* weights with a lower rank; pairs in the right order */
    ranking all = {0};
    const yk_status st = rank(t, &all);
    if (st)
        return st;
    for (size_t at = 0; at < all.n;) {
        const double p = (double)next_probability(&all, &at, weight);
        const double no = fmax(left[0], weight[0]), yes = fmax(left[1], weight[1]); /* despite rounding */
        sum += weight[1] > 0.0 ? weight[1] * yes / (no + yes) : 0.0;
        pairs += weight[1] * (below[0] + weight[0] / 2.0);
        for (int c = 0; c < 2; c++) {
            left[c] -= weight[c];
            below[c] += weight[c];
        }
        squares += weight[0] * p * p + weight[1] * (1.0 - p) * (1.0 - p);
        yk__bin_add(out->bin, p, weight[0] + weight[1], weight[1]);
    }
    out->value[AUC] = below[0] > 0.0 && below[1] > 0.0 ? pairs / (below[1] * below[0]) : (double)NAN;
    out->value[PR_AUC] = positives > 0.0 ? sum / positives : (double)NAN;
    out->value[BRIER] = squares / t->weight;
    free(all.memory);
    return YK_OK;
}

/* ---- from a tally ---- */

/* A class without predictions has the precision 0, one without examples the recall 0, as in scikit-learn. */
static yk_class_metrics class_metrics(const yk_tally *t, size_t c)
{
    const double of = t->count[c], predicted = t->count[t->classes + c], both = t->count[2 * t->classes + c];
    const double none = of + predicted > 0.0 ? 0.0 : (double)NAN;
    return (yk_class_metrics){.weight = of,
                              .precision = predicted > 0.0 ? both / predicted : none,
                              .recall = of > 0.0 ? both / of : none,
                              .f1 = of + predicted > 0.0 ? 2.0 * both / (of + predicted) : none};
}

/* The normalized entropy is the log loss divided by that of always predicting the frequencies of the classes (He et al. 2014,
 * ADKDD). Macro averages are over the classes that occur. */
static void measure_classes(const yk_tally *t, yk_eval_metrics *out)
{
    double *const value = out->value, n = 0.0, correct = 0.0, entropy = 0.0, most = 0.0;
    const yk_class_metrics positive = class_metrics(t, 1);
    value[PRECISION] = positive.precision;
    value[RECALL] = positive.recall;
    value[F1] = positive.f1;
    for (size_t c = 0; c < t->classes; c++) {
        const yk_class_metrics one = class_metrics(t, c);
        const double share = t->count[c] / t->weight;
        correct += t->count[2 * t->classes + c];
        entropy -= share > 0.0 ? share * log(share) : 0.0;
        most = fmax(most, t->count[c]);
        if (isnan(one.f1))
            continue;
        value[MACRO_PRECISION] += one.precision;
        value[MACRO_RECALL] += one.recall;
        value[MACRO_F1] += one.f1;
        n++;
    }
    for (int k = MACRO_PRECISION; k <= MACRO_F1; k++)
        value[k] /= n;
    value[ACCURACY] = correct / t->weight;
    value[ENTROPY] = entropy > 0.0 ? value[LOG_LOSS] / entropy : (double)NAN;
    out->majority_accuracy = most / t->weight;
}

/* The mean difference between probabilities and frequencies in each bin (Guo et al. 2017, ICML). */
static double calibration_error(const yk_eval_metrics *m)
{
    double sum = 0.0;
    for (int k = 0; k < YK_CALIBRATION_BINS; k++)
        sum += fabs(m->bin[k].probability - m->bin[k].outcome);
    return isnan(m->value[BRIER]) ? (double)NAN : sum / m->weight; /* some probabilities are NaN */
}

/* All metrics; those that need sorted predictions are NaN unless `ranked`. */
static yk_status measure(const yk_tally *t, bool ranked, yk_eval_metrics *out)
{
    const double none = (double)NAN, mean = t->loss / t->weight;
    yk_status st = YK_OK;
    *out = (yk_eval_metrics){.task = task_of(t),
                             .examples = t->examples,
                             .weight = t->weight,
                             .majority_accuracy = none,
                             .value = {[LOSS] = mean,
                                       [LOG_LOSS] = t->other_loss ? none : mean,
                                       [AUC] = none,
                                       [PR_AUC] = none,
                                       [BRIER] = t->classes == 2 ? none : t->brier / t->weight,
                                       [R2] = t->squares > 0.0 ? 1.0 - t->squared_error / t->squares : none,
                                       [MAE] = t->absolute_error / t->weight,
                                       [RMSE] = sqrt(t->squared_error / t->weight)}};
    memcpy(out->bin, t->bin, sizeof out->bin); /* empty for two classes */
    if (t->classes)
        measure_classes(t, out);
    if (t->classes == 2 && ranked && isfinite(t->loss)) /* else probabilities are NaN and cannot be sorted */
        st = measure_ranking(t, out);
    out->value[CALIBRATION] = calibration_error(out);
    for (int k = 0; k < YK_METRICS; k++)
        if (!(yk_metric_kinds[k].tasks & out->task) || !t->examples)
            out->value[k] = none;
    return st;
}

yk_status yk_metric_value(const yk_metric_kind *kind, const yk_tally *t, double *out)
{
    yk_eval_metrics m;
    const yk_status st = measure(t, kind->ranked, &m);
    *out = st ? (double)NAN : m.value[kind - yk_metric_kinds];
    return st;
}

yk_status yk_score_make(const yk_tally *t, yk_score *out)
{
    yk_eval_metrics m;
    *out = (yk_score){.examples = t->examples, .weight = t->weight, .auc = (double)NAN};
    if (!t->examples)
        return YK_OK;
    const yk_status st = measure(t, true, &m);
    out->loss = m.value[LOSS];
    out->accuracy = m.value[ACCURACY];
    out->majority_accuracy = m.majority_accuracy;
    out->auc = m.value[AUC];
    return st;
}

yk_status yk_eval_metrics_make(const yk_tally *t, yk_eval_metrics *out)
{
    const size_t n = t->classes, cells = n <= YK_MAX_CONFUSION ? n * n : 0,
                 bytes = n * sizeof *out->of_class + cells * sizeof *out->confusion;
    yk_status st = measure(t, true, out);
    if (st || !n)
        return st;
    if (!(out->of_class = malloc(bytes)))
        return yk_fail_memory(bytes, "the metrics");
    out->classes = n;
    for (size_t c = 0; c < n; c++)
        out->of_class[c] = class_metrics(t, c);
    if (cells)
        out->confusion = memcpy(out->of_class + n, t->count + 3 * n, cells * sizeof *out->confusion);
    return YK_OK;
}

void yk_eval_metrics_fini(yk_eval_metrics *m)
{
    free(m->of_class);
    *m = (yk_eval_metrics){0};
}

/* ---- JSON ---- */

/* A sum of weights: an integer without weights. */
static yk_json_item weight(const char *name, double x)
{
    return x == floor(x) && fabs(x) < 1e15 ? YK_INT(name, x) : YK_REAL(name, x);
}

static void add_classes(const yk_eval_metrics *m, const yk__names *names, yk_json *j)
{
    /* bins without predictions are left out */
    YK_JSON(j, YK_REAL("majority_accuracy", m->majority_accuracy), YK_ARRAY("reliability"));
    for (const yk_calibration_bin *b = m->bin; b < m->bin + YK_CALIBRATION_BINS; b++)
        if (b->weight > 0.0)
            YK_JSON(j, YK_OBJECT(NULL), weight("weight", b->weight),
                    YK_REAL("probability", b->probability / b->weight),
                    YK_REAL("frequency", b->outcome / b->weight), YK_END);
    YK_JSON(j, YK_END, YK_ARRAY("classes"));
    for (size_t c = 0; c < m->classes; c++) {
        const yk_class_metrics *one = &m->of_class[c];
        YK_JSON(j, YK_OBJECT(NULL), YK_IF(names && c < names->n, YK_TEXT("name", names->name[c])),
                weight("weight", one->weight), YK_REAL("precision", one->precision),
                YK_REAL("recall", one->recall), YK_REAL("f1", one->f1), YK_END);
    }
    yk_json_end(j);
    if (!m->confusion)
        return;
    yk_json_array(j, "confusion"); /* rows: labels; columns: predictions */
    for (size_t c = 0; c < m->classes; c++) {
        yk_json_array(j, NULL);
        for (size_t k = 0; k < m->classes; k++)
            YK_JSON(j, weight(NULL, m->confusion[c * m->classes + k]));
        yk_json_end(j);
    }
    yk_json_end(j);
}

char *yk_eval_metrics_json(const yk_eval_metrics *m, const yk__names *names, int digits)
{
    yk_json text = {.digits = digits}, *j = &text;
    YK_JSON(j, YK_OBJECT(NULL), YK_INT("examples", m->examples), weight("weight", m->weight));
    const unsigned tasks = m->task == YK_TASK_NUMBERS ? NUMBERS : CLASSES; /* null: only for two classes */
    for (int k = 0; k < YK_METRICS; k++)
        if (yk_metric_kinds[k].tasks & tasks)
            yk_json_real(j, yk_metric_kinds[k].name, m->value[k]);
    if (m->task != YK_TASK_NUMBERS)
        add_classes(m, names, j);
    yk_json_end(j);
    char *out = yk_json_take(j);
    if (!out)
        yk_fail_memory(4096, "the metrics");
    return out;
}
