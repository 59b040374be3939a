/* Checks a data set for mistakes that do not show in the results: a single class, labels that are distributed differently
 * in the test set, identical rows, features that are not scaled, leaked labels, hash collisions, and a test set that contains
 * training examples.
 *
 * Example:
 *     yk_data_check c;
 *     yk_status st = yk_data_check_rows(train, test, 10, 0, &c);
 *     if (!st && c.overlap > 0.01)
 *         printf("%.0f %% of the test examples are also training examples", 100.0 * c.overlap);
 *
 * The checks use samples of bounded size and take a few milliseconds. They require rows in memory whose keys were not
 * remapped. Thread-safe.
 */
#ifndef YK_DATA_CHECK_H
#define YK_DATA_CHECK_H

#include "core/rows.h"

typedef struct {
    uint64_t examples;    /* number of examined examples; 0: nothing was checked */
    uint32_t classes;     /* number of classes that occur among the labels of all rows */
    uint32_t only_class;  /* if there is only one: its number */
    uint32_t first_class; /* the smallest label */
    struct { /* the class whose share of the test set differs most from its share of the training set */
        uint32_t label;
        double train, test; /* shares; equal if there is no test set */
    } shifted;
    struct { /* test examples whose label no training example has */
        uint32_t label;
        double share;
    } unseen;
    struct { /* the column with the largest value, and its root mean square */
        int64_t column;
        double size;
        /* Share of the values of other columns that are smaller than a thousandth of it. */
        double much_smaller;
    } large;
    bool constant;          /* all examined rows have the same features */
    double overlap;         /* share of the test examples that are training examples; 0: none, or not known */
    int64_t column;         /* a column that alone predicts the label; -1: none */
    double column_accuracy; /* its accuracy, and that of always predicting the majority class */
    double majority;
    uint64_t hashed_into; /* columns that keys are hashed into; 0: not hashed */
    double used_columns;  /* share of them that occur: the probability that a new key collides */
    double keys;          /* estimated number of distinct keys */
} yk_data_check;

/* Features of this size need a much smaller learning rate than the default. */
static inline bool yk_data_is_unscaled(const yk_data_check *c)
{
    return c->large.size > 30.0;
}

/* `test` is NULL if it is not in memory; `hashed_into` is 0 if keys are not hashed. */
yk_status yk_data_check_rows(const yk_rows *train, const yk_rows *test, uint32_t classes,
                             uint64_t hashed_into, yk_data_check *out);

#endif
