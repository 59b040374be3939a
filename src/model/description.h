/* What the text of --model determines, without the data. Decisions that depend on the model use this, never the text.
 *
 * Example:
 *     yk_model_description d;
 *     st = yk_model_parse("linear + fm 4 name=deep", &d);
 *     // two keyed groups, "linear" of width 1 and "deep" of width 4; no fields; adagrad
 *
 * Plain data; all texts are borrowed from tables. If the text is not a valid sum of branches or an unknown name, yk_model_parse()
 * returns the error that yk_model_create() would. Networks need the shape of their input, so their layers are checked by
 * yk_model_create() only.
 */
#ifndef YK_MODEL_DESCRIPTION_H
#define YK_MODEL_DESCRIPTION_H

#include "base/status.h"
#include "core/group.h"

typedef struct {
    int ngroups;
    yk_group group[YK_MAX_GROUPS]; /* name, kind and width. logreg: keyed if the data is sparse; false here */
    bool takes_sparse;             /* accepts sparse data; if the data is sparse, its parameters are keyed */
    bool needs_sparse;             /* a sum of branches (branches.h) */
    bool needs_fields;             /* reads field numbers. Otherwise, they are not loaded */
    bool uses_threads;             /* the threads of a worker (--threads) share its batches */
    const char *optimizer;         /* default of --optimizer */
} yk_model_description;

yk_status yk_model_parse(const char *text, yk_model_description *out);

#endif
