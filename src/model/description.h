/* What the text of --model determines, without the data. Decisions that depend on the model use this, never the text.
 *
 * Example:
 *     yk_model_description d;
 *     st = yk_model_parse("linear + fm 4 name=deep", &d);
 *     // two keyed groups, "linear" of width 1 and "deep" of width 4; no fields; adagrad, 0.05
 *
 * Plain data; all texts are borrowed from tables. If the text is not a valid sum of branches or an unknown name, yk_model_parse()
 * returns the error that yk_model_create() would. Networks need the shape of their input, so their layers are checked by
 * yk_model_create() only.
 */
#ifndef YK_MODEL_DESCRIPTION_H
#define YK_MODEL_DESCRIPTION_H

#include "base/status.h"
#include "core/group.h"

/* The rows that a model accepts (core/rows.h). */
typedef enum {
    YK_INPUT_DENSE,
    YK_INPUT_BOTH,  /* if the rows are sparse, its parameters are keyed */
    YK_INPUT_SPARSE /* a sum of branches (branches.h) */
} yk_model_input;

typedef struct {
    int ngroups;
    yk_group group[YK_MAX_GROUPS]; /* name, kind, width. YK_INPUT_BOTH: keyed only if the rows are sparse */
    yk_model_input input;
    bool needs_fields; /* reads field numbers. Otherwise, they are not loaded */
    bool linear;       /* the output is a function of one weighted sum per class */
    bool uses_threads; /* the threads of a worker (--threads) share its batches */
    /* Default of --optimizer, in the notation of that option: all groups, or by kind. */
    const char *optimizer;
    double lr[YK_MAX_GROUPS]; /* default of --lr for each group, with that optimizer */
} yk_model_description;

yk_status yk_model_parse(const char *text, yk_model_description *out);

#endif
