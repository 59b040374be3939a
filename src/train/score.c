#include "train/score.h"

#include "base/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static yk_status reserve(yk_tally *t, size_t outputs, const yk_batch *b)
{
    size_t classes = outputs == 1 ? 2 : outputs;
    if (t->classes < classes) {
        uint64_t *count = realloc(t->count, classes * sizeof *count);
        if (!count)
            return yk_fail_memory(classes * sizeof *count, "counting classes");
        memset(count + t->classes, 0, (classes - t->classes) * sizeof *count);
        t->count = count;
        t->classes = classes;
    }
    if (classes != 2)
        return YK_OK;
    float *p = yk_grow(t->p, &t->p_cap, t->examples + b->n, sizeof *p, "predictions");
    if (!p)
        return YK_ESYSTEM;
    t->p = p;
    uint8_t *label = yk_grow(t->label, &t->label_cap, t->examples + b->n, sizeof *label, "labels");
    if (!label)
        return YK_ESYSTEM;
    t->label = label;
    return YK_OK;
}

yk_status yk_tally_add(yk_tally *t, const float *p, size_t outputs, const yk_batch *b)
{
    yk_status st = reserve(t, outputs, b);
    if (st)
        return st;
    for (size_t i = 0; i < b->n; i++) {
        const float *row = p + i * outputs;
        size_t y = (size_t)b->rows->label[b->pick[i]], best = 0;
        if (outputs == 1)
            best = row[0] > 0.5f;
        for (size_t c = 1; c < outputs; c++)
            best = row[c] > row[best] ? c : best;
        t->correct += best == y;
        t->count[y]++;
        if (t->classes == 2) {
            t->p[t->examples] = outputs == 1 ? row[0] : row[1];
            t->label[t->examples] = (uint8_t)y;
        }
        t->examples++;
    }
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
    free(t->p);
    free(t->label);
    *t = (yk_tally){0};
}

typedef struct {
    double loss;
    uint64_t examples, correct, classes, curve; /* curve: predictions and labels follow the counts */
} packed;

yk_status yk_tally_pack(const yk_tally *t, char **out, size_t *bytes_out)
{
    const packed head = {t->loss, t->examples, t->correct, t->classes, t->classes == 2 ? t->examples : 0};
    const size_t counts = t->classes * sizeof *t->count, p = head.curve * sizeof *t->p;
    char *at = *out = malloc(sizeof head + counts + p + head.curve);
    if (!at)
        return yk_fail_memory(sizeof head + counts + p + head.curve, "an evaluation");
    at = (char *)memcpy(at, &head, sizeof head) + sizeof head;
    if (counts)
        memcpy(at, t->count, counts);
    if (head.curve) {
        memcpy(at + counts, t->p, p);
        memcpy(at + counts + p, t->label, head.curve);
    }
    *bytes_out = sizeof head + counts + p + head.curve;
    return YK_OK;
}

yk_status yk_tally_unpack(yk_tally *t, const char *from, size_t bytes)
{
    packed head;
    if (bytes < sizeof head)
        return yk_fail(YK_ELOST, "a share of the test of %zu bytes makes no sense", bytes);
    memcpy(&head, from, sizeof head);
    const size_t counts = head.classes * sizeof *t->count, p = head.curve * sizeof *t->p;
    if (head.classes > bytes || head.curve > bytes || bytes != sizeof head + counts + p + head.curve)
        return yk_fail(YK_ELOST, "a share of the test of %zu bytes makes no sense", bytes);
    yk_tally_fini(t);
    *t = (yk_tally){
        .loss = head.loss, .examples = head.examples, .correct = head.correct, .classes = head.classes};
    t->count = malloc(counts + 1);
    t->p = malloc(p + 1);
    t->label = malloc(head.curve + 1);
    if (!t->count || !t->p || !t->label)
        return yk_fail_memory(bytes, "an evaluation");
    t->p_cap = t->label_cap = head.curve;
    from += sizeof head;
    memcpy(t->count, from, counts);
    memcpy(t->p, from + counts, p);
    memcpy(t->label, from + counts + p, head.curve);
    return YK_OK;
}

/* Bits of a non-negative float order like the float. The label rides in the lowest bit of a 64-bit word. */
static void radix_sort(uint64_t *a, uint64_t *b, size_t n)
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
        uint64_t *swap = a;
        a = b;
        b = swap;
    }
    memcpy(b, a, n * sizeof *a); /* after three passes the result lies in the second array */
}

yk_status yk_auc(const float *p, const uint8_t *label, size_t n, double *out)
{
    uint64_t *a = malloc((n + 1) * sizeof *a), *b = malloc((n + 1) * sizeof *b);
    if (!a || !b) {
        free(a);
        free(b);
        return yk_fail_memory(2 * n * sizeof *a, "the AUC");
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &p[i], sizeof bits);
        a[i] = (uint64_t)bits << 1 | label[i];
    }
    radix_sort(a, b, n);
    double below = 0.0, sum = 0.0, positives = 0.0; /* negatives ranked below, so far */
    for (size_t i = 0; i < n;) {
        double yes = 0.0, no = 0.0;
        for (uint64_t key = a[i] >> 1; i < n && a[i] >> 1 == key; i++)
            a[i] & 1 ? (yes += 1.0) : (no += 1.0);
        sum += yes * (below + no / 2.0);
        below += no;
        positives += yes;
    }
    *out = positives > 0.0 && below > 0.0 ? sum / (positives * below) : (double)NAN;
    free(a);
    free(b);
    return YK_OK;
}

static yk_status auc_of_all(const yk_tally *tallies, int n, size_t examples, double *out)
{
    float *p = malloc((examples + 1) * sizeof *p);
    uint8_t *label = malloc(examples + 1);
    yk_status st = p && label ? YK_OK : yk_fail_memory(examples * 5, "the AUC");
    size_t at = 0;
    for (int i = 0; !st && i < n; i++) {
        if (!tallies[i].examples)
            continue;
        memcpy(p + at, tallies[i].p, tallies[i].examples * sizeof *p);
        memcpy(label + at, tallies[i].label, tallies[i].examples);
        at += tallies[i].examples;
    }
    if (!st)
        st = yk_auc(p, label, at, out);
    free(p);
    free(label);
    return st;
}

yk_status yk_score_make(const yk_tally *tallies, int n, yk_score *out)
{
    uint64_t correct = 0, most = 0;
    size_t classes = 0;
    *out = (yk_score){.auc = (double)NAN};
    for (int i = 0; i < n; i++) {
        out->examples += tallies[i].examples;
        out->loss += tallies[i].loss;
        correct += tallies[i].correct;
        classes = tallies[i].classes > classes ? tallies[i].classes : classes;
    }
    if (!out->examples)
        return YK_OK;
    for (size_t c = 0; c < classes; c++) {
        uint64_t count = 0;
        for (int i = 0; i < n; i++)
            count += c < tallies[i].classes ? tallies[i].count[c] : 0;
        most = count > most ? count : most;
    }
    out->loss /= (double)out->examples;
    out->accuracy = (double)correct / (double)out->examples;
    out->majority_accuracy = (double)most / (double)out->examples;
    if (classes == 2 && isfinite(out->loss))
        return auc_of_all(tallies, n, out->examples, &out->auc);
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
        st = yk_score_make(&t, 1, out);
    yk_tally_fini(&t);
    return st;
}
