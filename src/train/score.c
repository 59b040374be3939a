#include "train/score.h"

#include "base/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const yk_score yk_score_unknown = {.weight = (double)NAN,
                                   .loss = (double)NAN,
                                   .accuracy = (double)NAN,
                                   .majority_accuracy = (double)NAN,
                                   .auc = (double)NAN};

/* One word per prediction of class 1 and its label. The bits of a non-negative float order like the float, and leave the
 * sign bit for the label. */
static uint32_t rank_word(float p, uint8_t label)
{
    uint32_t bits;
    memcpy(&bits, &p, sizeof bits);
    return bits << 1 | label;
}

/* Elements of yk_tally.count. */
static size_t counts(size_t classes)
{
    return classes * (3 + (classes <= YK_MAX_CONFUSION ? classes : 0));
}

/* Reserves memory for more examples. */
static yk_status reserve(yk_tally *t, size_t classes, size_t examples, bool weighted)
{
    if (t->classes < classes) {
        t->count = calloc(counts(classes), sizeof *t->count);
        if (!t->count)
            return yk_fail_memory(counts(classes) * sizeof *t->count, "the counts of classes");
        t->classes = classes;
    }
    yk_status st = classes == 2 ? YK_RESERVE(t->ranks, t->cap, t->examples + examples, "predictions") : YK_OK;
    if (!st && classes == 2 && (weighted || t->weighted))
        st = YK_RESERVE(t->weights, t->weights_cap, t->examples + examples, "weights");
    if (st || !weighted || t->weighted)
        return st;
    for (size_t i = 0; classes == 2 && i < t->examples; i++)
        t->weights[i] = 1.0f;
    t->weighted = true;
    return YK_OK;
}

size_t yk_score_class(const float *p, size_t outputs)
{
    size_t best = outputs == 1 && p[0] > 0.5f;
    for (size_t c = 1; c < outputs; c++)
        best = p[c] > p[best] ? c : best;
    return best;
}

/* Examples of class y that were predicted as `guess`. */
static void count(yk_tally *t, size_t y, size_t guess, double weight)
{
    const size_t k = t->classes;
    t->count[y] += weight;
    t->count[k + guess] += weight;
    t->count[2 * k + y] += guess == y ? weight : 0.0;
    if (k <= YK_MAX_CONFUSION)
        t->count[(3 + y) * k + guess] += weight;
    t->weight += weight;
}

/* Without branches, and with few sums in memory: this is a visible part of the evaluation of a linear model. */
static void add_binary(yk_tally *t, const float *p, size_t outputs, const yk_batch *b, const float *weight)
{
    double cell[4] = {0}; /* label, prediction */
    uint32_t *ranks = t->ranks + t->examples;
    for (size_t i = 0; i < b->n; i++) {
        const float *row = p + i * outputs;
        const size_t y = (size_t)b->rows->label[b->pick[i]], guess = yk_score_class(row, outputs);
        const double w = weight ? (double)weight[i] : 1.0;
        cell[2 * y + guess] += w;
        ranks[i] = rank_word(row[outputs - 1], (uint8_t)y);
        if (t->weighted)
            t->weights[t->examples + i] = (float)w;
    }
    for (size_t k = 0; k < 4; k++)
        count(t, k / 2, k % 2, cell[k]);
}

static void add_classes(yk_tally *t, const float *p, size_t outputs, const yk_batch *b, const float *weight)
{
    for (size_t i = 0; i < b->n; i++, p += outputs) {
        const size_t y = (size_t)b->rows->label[b->pick[i]], guess = yk_score_class(p, outputs);
        const double w = weight ? (double)weight[i] : 1.0;
        float squares = 0.0f;
        for (size_t c = 0; c < outputs; c++)
            squares += p[c] * p[c];
        t->brier += w * ((double)squares - 2.0 * (double)p[y] + 1.0);
        yk__bin_add(t->bin, (double)p[guess], w, guess == y ? w : 0.0);
        count(t, y, guess, w);
    }
}

yk_status yk_tally_add(yk_tally *t, const float *p, size_t outputs, const yk_batch *b, const float *weight)
{
    const yk_status st = reserve(t, outputs == 1 ? 2 : outputs, b->n, weight);
    if (st)
        return st;
    (outputs > 2 ? add_classes : add_binary)(t, p, outputs, b, weight);
    t->examples += b->n;
    return YK_OK;
}

/* Adds labels of this weight, mean, and sum of squared differences from the mean (Chan, Golub and LeVeque 1983). */
static void add_labels(yk_tally *t, double weight, double mean, double squares)
{
    const double difference = mean - t->mean, all = t->weight + weight;
    if (!(all > 0.0))
        return;
    t->mean += difference * weight / all;
    t->squares += squares + difference * difference * t->weight * weight / all;
    t->weight = all;
}

void yk_tally_add_numbers(yk_tally *t, const float *predicted, const float *label, const float *weight,
                          size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double w = weight ? (double)weight[i] : 1.0, error = (double)predicted[i] - (double)label[i];
        add_labels(t, w, (double)label[i], 0.0);
        t->squared_error += w * error * error;
        t->absolute_error += w * fabs(error);
    }
    t->examples += n;
    t->weighted |= weight != NULL;
}

yk_status yk_tally_merge(yk_tally *t, const yk_tally *from)
{
    yk_status st = reserve(t, from->classes, from->examples, from->weighted);
    if (st)
        return st;
    for (size_t c = 0; c < counts(from->classes); c++)
        t->count[c] += from->count[c];
    if (from->classes == 2 && from->examples)
        memcpy(t->ranks + t->examples, from->ranks, from->examples * sizeof *t->ranks);
    for (size_t i = 0; from->classes == 2 && t->weighted && i < from->examples; i++)
        t->weights[t->examples + i] = from->weighted ? from->weights[i] : 1.0f;
    for (int k = 0; k < YK_CALIBRATION_BINS; k++) {
        t->bin[k].weight += from->bin[k].weight;
        t->bin[k].probability += from->bin[k].probability;
        t->bin[k].outcome += from->bin[k].outcome;
    }
    t->loss += from->loss;
    t->examples += from->examples;
    add_labels(t, from->weight, from->mean, from->squares);
    t->brier += from->brier;
    t->squared_error += from->squared_error;
    t->absolute_error += from->absolute_error;
    t->other_loss |= from->other_loss;
    return YK_OK;
}

void yk_tally_clear(yk_tally *t)
{
    if (t->count)
        memset(t->count, 0, counts(t->classes) * sizeof *t->count);
    *t = (yk_tally){.classes = t->classes,
                    .count = t->count,
                    .ranks = t->ranks,
                    .cap = t->cap,
                    .weights = t->weights,
                    .weights_cap = t->weights_cap,
                    .other_loss = t->other_loss};
}

void yk_tally_fini(yk_tally *t)
{
    free(t->count);
    free(t->ranks);
    free(t->weights);
    *t = (yk_tally){0};
}

enum { ARRAYS = 3 };

/* The arrays of a tally, in bytes. Returns their sum. */
static size_t sizes_of(const yk_tally *t, size_t out[ARRAYS])
{
    out[0] = counts(t->classes) * sizeof *t->count;
    out[1] = t->classes == 2 ? t->examples * sizeof *t->ranks : 0;
    out[2] = t->weighted ? out[1] : 0;
    return out[0] + out[1] + out[2];
}

yk_status yk_tally_pack(const yk_tally *t, char **out, size_t *bytes_out)
{
    size_t size[ARRAYS];
    const void *const array[ARRAYS] = {t->count, t->ranks, t->weights};
    *bytes_out = sizeof *t + sizes_of(t, size);
    if (!(*out = malloc(*bytes_out)))
        return yk_fail_memory(*bytes_out, "an evaluation");
    char *at = memcpy(*out, t, sizeof *t);
    at += sizeof *t;
    for (int i = 0; i < ARRAYS; at += size[i++])
        if (size[i])
            memcpy(at, array[i], size[i]);
    return YK_OK;
}

yk_status yk_tally_unpack(yk_tally *t, const char *from, size_t bytes)
{
    size_t size[ARRAYS];
    yk_tally head = {0};
    if (bytes >= sizeof head)
        memcpy(&head, from, sizeof head);
    if (head.classes > bytes || (head.classes == 2 && head.examples > bytes) ||
        bytes != sizeof head + sizes_of(&head, size))
        return yk_fail(YK_ELOST, "the evaluation message of another rank is invalid (%zu bytes)", bytes);
    yk_tally_fini(t);
    *t = head;
    t->count = malloc(size[0] + 1);
    t->ranks = malloc(size[1] + 1);
    t->weights = malloc(size[2] + 1);
    t->cap = size[1] / sizeof *t->ranks;
    t->weights_cap = size[2] / sizeof *t->weights;
    if (!t->count || !t->ranks || !t->weights)
        return yk_fail_memory(bytes, "an evaluation");
    memcpy(t->count, from += sizeof head, size[0]);
    memcpy(t->ranks, from += size[0], size[1]);
    memcpy(t->weights, from + size[1], size[2]);
    return YK_OK;
}

yk_status yk_score_truth(const yk_rows *rows, yk_score *out)
{
    yk_tally t = {0};
    yk_status st = YK_OK;
    uint32_t pick;
    for (size_t i = 0; !st && i < rows->n; i++) {
        pick = (uint32_t)i;
        double p = (double)rows->truth[i];
        t.loss -= log(rows->label[i] ? p : 1.0 - p);
        st = yk_tally_add(&t, &rows->truth[i], 1, &(yk_batch){rows, &pick, 1, 0}, NULL);
    }
    if (!st)
        st = yk_score_make(&t, out);
    yk_tally_fini(&t);
    return st;
}
