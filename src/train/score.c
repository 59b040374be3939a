#include "train/score.h"

#include "base/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One word per prediction of class 1 and its label. The bits of a non-negative float order like the float, and leave the
 * sign bit for the label. */
static uint32_t rank_word(float p, uint8_t label)
{
    uint32_t bits;
    memcpy(&bits, &p, sizeof bits);
    return bits << 1 | label;
}

/* Reserves memory for more examples. */
static yk_status reserve(yk_tally *t, size_t classes, size_t examples)
{
    if (t->classes < classes) {
        uint64_t *count = realloc(t->count, classes * sizeof *count);
        if (!count)
            return yk_fail_memory(classes * sizeof *count, "the counts of classes");
        memset(count + t->classes, 0, (classes - t->classes) * sizeof *count);
        t->count = count;
        t->classes = classes;
    }
    return classes == 2 ? YK_RESERVE(t->ranks, t->cap, t->examples + examples, "predictions") : YK_OK;
}

size_t yk_score_class(const float *p, size_t outputs)
{
    size_t best = outputs == 1 && p[0] > 0.5f;
    for (size_t c = 1; c < outputs; c++)
        best = p[c] > p[best] ? c : best;
    return best;
}

yk_status yk_tally_add(yk_tally *t, const float *p, size_t outputs, const yk_batch *b)
{
    yk_status st = reserve(t, outputs == 1 ? 2 : outputs, b->n);
    if (st)
        return st;
    for (size_t i = 0; i < b->n; i++) {
        const float *row = p + i * outputs;
        size_t y = (size_t)b->rows->label[b->pick[i]];
        t->correct += yk_score_class(row, outputs) == y;
        t->count[y]++;
        if (t->classes == 2)
            t->ranks[t->examples] = rank_word(row[outputs - 1], (uint8_t)y);
        t->examples++;
    }
    return YK_OK;
}

yk_status yk_tally_merge(yk_tally *t, const yk_tally *from)
{
    yk_status st = reserve(t, from->classes, from->examples);
    if (st)
        return st;
    for (size_t c = 0; c < from->classes; c++)
        t->count[c] += from->count[c];
    if (from->classes == 2 && from->examples)
        memcpy(t->ranks + t->examples, from->ranks, from->examples * sizeof *t->ranks);
    t->loss += from->loss;
    t->correct += from->correct;
    t->examples += from->examples;
    return YK_OK;
}

void yk_tally_clear(yk_tally *t)
{
    t->loss = 0.0;
    t->examples = t->correct = 0;
    if (t->count)
        memset(t->count, 0, t->classes * sizeof *t->count);
}

void yk_tally_fini(yk_tally *t)
{
    free(t->count);
    free(t->ranks);
    *t = (yk_tally){0};
}

typedef struct {
    double loss;
    uint64_t examples, correct, classes, ranks; /* classes counts follow, then ranks words */
} packed;

yk_status yk_tally_pack(const yk_tally *t, char **out, size_t *bytes_out)
{
    const packed head = {t->loss, t->examples, t->correct, t->classes, t->classes == 2 ? t->examples : 0};
    const size_t counts = t->classes * sizeof *t->count, ranks = head.ranks * sizeof *t->ranks;
    *bytes_out = sizeof head + counts + ranks;
    if (!(*out = malloc(*bytes_out)))
        return yk_fail_memory(*bytes_out, "an evaluation");
    memcpy(*out, &head, sizeof head);
    if (counts)
        memcpy(*out + sizeof head, t->count, counts);
    if (ranks)
        memcpy(*out + sizeof head + counts, t->ranks, ranks);
    return YK_OK;
}

yk_status yk_tally_unpack(yk_tally *t, const char *from, size_t bytes)
{
    packed head = {0};
    if (bytes >= sizeof head)
        memcpy(&head, from, sizeof head);
    const size_t counts = head.classes * sizeof *t->count, ranks = head.ranks * sizeof *t->ranks;
    if (head.classes > bytes || head.ranks > bytes || bytes != sizeof head + counts + ranks)
        return yk_fail(YK_ELOST, "the evaluation message of another rank is invalid (%zu bytes)", bytes);
    yk_tally_fini(t);
    *t = (yk_tally){.loss = head.loss,
                    .examples = head.examples,
                    .correct = head.correct,
                    .classes = head.classes,
                    .count = malloc(counts + 1),
                    .ranks = malloc(ranks + 1),
                    .cap = head.ranks};
    if (!t->count || !t->ranks)
        return yk_fail_memory(bytes, "an evaluation");
    memcpy(t->count, from + sizeof head, counts);
    memcpy(t->ranks, from + sizeof head + counts, ranks);
    return YK_OK;
}

/* By prediction, not by label. Returns the sorted array: a or b. */
static const uint32_t *radix_sort(uint32_t *a, uint32_t *b, size_t n)
{
    enum { BITS = 11, BUCKETS = 1 << BITS };
    for (int pass = 0; pass < 3; pass++) {
        size_t count[BUCKETS] = {0}, sum = 0;
        const int shift = 1 + pass * BITS;
        for (size_t i = 0; i < n; i++)
            count[a[i] >> shift & (BUCKETS - 1)]++;
        for (size_t k = 0; k < BUCKETS; k++) {
            size_t c = count[k];
            count[k] = sum;
            sum += c;
        }
        for (size_t i = 0; i < n; i++)
            b[count[a[i] >> shift & (BUCKETS - 1)]++] = a[i];
        uint32_t *swap = a;
        a = b;
        b = swap;
    }
    return a;
}

/* words: [2][n]; the second half is scratch memory */
static double auc(uint32_t *words, size_t n)
{
    const uint32_t *a = radix_sort(words, words + n, n);
    double below = 0.0, sum = 0.0, positives = 0.0; /* below: negatives with a lower rank */
    for (size_t i = 0; i < n;) {
        double yes = 0.0, no = 0.0;
        for (uint32_t key = a[i] >> 1; i < n && a[i] >> 1 == key; i++)
            a[i] & 1 ? (yes += 1.0) : (no += 1.0);
        sum += yes * (below + no / 2.0);
        below += no;
        positives += yes;
    }
    return positives > 0.0 && below > 0.0 ? sum / (positives * below) : (double)NAN;
}

yk_status yk_score_make(const yk_tally *t, yk_score *out)
{
    const double n = (double)t->examples;
    uint64_t most = 0;
    *out = (yk_score){.examples = t->examples, .auc = (double)NAN};
    if (!t->examples)
        return YK_OK;
    for (size_t c = 0; c < t->classes; c++)
        most = t->count[c] > most ? t->count[c] : most;
    out->loss = t->loss / n;
    out->accuracy = (double)t->correct / n;
    out->majority_accuracy = (double)most / n;
    if (t->classes != 2 || !isfinite(out->loss))
        return YK_OK;
    uint32_t *words = malloc(2 * t->examples * sizeof *words);
    if (!words)
        return yk_fail_memory(2 * t->examples * sizeof *words, "the AUC");
    memcpy(words, t->ranks, t->examples * sizeof *words);
    out->auc = auc(words, t->examples);
    free(words);
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
        st = yk_tally_add(&t, &rows->truth[i], 1, &(yk_batch){rows, &pick, 1, 0});
    }
    if (!st)
        st = yk_score_make(&t, out);
    yk_tally_fini(&t);
    return st;
}
