/* Losses: what training minimizes, summed over the examples of a batch, each times its weight.
 *
 *     name       labels       outputs      loss of an example                                  prediction
 *     logistic   0 and 1      1            log(1 + exp(-z)) of class 1, log(1 + exp(z)) of 0   sigmoid(z), a probability
 *     softmax    classes      per class    -log softmax(z)[label]                              softmax(z), probabilities
 *     squared    numbers      1            (z - label)^2                                       z
 *     hinge      0 and 1      1            max(0, 1 - z) of class 1, max(0, 1 + z) of 0        sigmoid(z), a score
 *
 * A new loss of one output is a row of the table in loss.c with its two functions; every model of one output can then use it.
 *
 * Example:
 *     const yk_loss *loss;
 *     yk_status st = yk_loss_find("hinge", &loss);
 *     float z[64], err[64]; // the outputs of a batch of up to 64 examples; the derivatives with respect to them
 *     yk_batch batch = {0};
 *     double sum = st ? 0.0 : yk_loss_batch(loss, z, &batch, err);
 */
#ifndef YK_MODEL_LOSS_H
#define YK_MODEL_LOSS_H

#include "base/status.h"
#include "core/rows.h"
#include "kern/lanes.h"

typedef struct {
    const char *name;
    bool
        per_class; /* softmax: the model has one output per class, and a kernel of its own (kern/lanes.h, matrix.h) */
    bool numbers;  /* labels are numbers; otherwise class numbers */
    bool log_loss; /* it is the log loss, and predictions are probabilities */
    /* One output: the prediction. */
    float (*link)(float z);
    /* The loss of an example with output z and label y, and its derivative with respect to z. */
    float (*point)(float z, float y, float *err_out);
    /* Instead (NULL: `point` is used): yk_loss_batch(). */
    double (*batch)(const float *z, const yk_batch *b, float *err);
} yk_loss;

/* YK_EUSAGE: there is no such loss. */
yk_status yk_loss_find(const char *name, const yk_loss **out);

/* One output: err[i] is the derivative with respect to z[i]. Returns the sum of the losses. */
double yk_loss_batch(const yk_loss *l, const float *z, const yk_batch *b, float *err);

#endif
