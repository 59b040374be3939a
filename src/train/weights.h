/* The weights of a trained model by feature: the largest ones with the names of their features, and norms by field.
 *
 * Example:
 *     yk_feature_names names = {0};
 *     yk_weights w = {.top = 20};
 *     const yk_source_options o = {.names = &names, .schema = model->schema};
 *     yk_status st = yk_source_open("csv:new.csv", YK_SPLIT_TRAIN, &o, &data);
 *     if (!st)
 *         st = yk_weights_find(&w, model, data, &names); // data NULL: none
 *     // w.weight[0].name is "city=Rome"
 *     yk_weights_fini(&w);
 *
 * The importance of a weight is |weight| times the mean of |x| over all rows of the data: for a feature that is 0 or 1, the
 * weight times its frequency. Names of hashed features are not in the model; a second pass over the data finds them. Features
 * without a name are "feature 3", numbered from 0 as in the tensors. One thread at a time.
 */
#ifndef YK_TRAIN_WEIGHTS_H
#define YK_TRAIN_WEIGHTS_H

#include "data/source.h"
#include "train/trained.h"

typedef struct {
    uint32_t feature, output; /* output: the class, if the model has more than one output */
    float weight;
    uint64_t rows;     /* with data: in which the feature occurs */
    double importance; /* NAN: no data */
    char name[160];    /* truncated. Features with the same hash: "city=Rome, os=7" */
} yk_weight;

/* The features of a field in one tensor; with data, those that occur in it, otherwise those that are not 0. */
typedef struct {
    char name[80];      /* "city", "field 3" */
    const char *tensor; /* borrowed from the model */
    uint64_t features;
    double mean_norm, max_norm; /* of the weights, or of the vector, of a feature */
    double importance;          /* sum over its weights; NAN: no data, or not linear */
} yk_field_norm;

typedef struct {
    /* options: */
    size_t top;    /* at most so many weights: the most important ones or, without data, the largest ones */
    uint64_t base; /* libsvm, libffm: the first index in the files */
    /* results: */
    size_t n;
    yk_weight *weight;
    uint64_t nonzero;  /* of all weights by feature */
    const float *bias; /* [nbias] of each output; borrowed from the model. NULL: none */
    size_t nbias;
    size_t nfields;
    yk_field_norm *field;
    uint64_t rows; /* of the data */
} yk_weights;

/* names: those of the options that the data was opened with. */
yk_status yk_weights_find(yk_weights *out, const yk_trained *m, yk_source *data, yk_feature_names *names);
void yk_weights_fini(yk_weights *w);

/* The number of the first feature in libsvm and libffm files, 0 or 1, according to the spec of the data (NULL: not known). */
uint64_t yk_weights_base(const yk_trained *m, const char *spec);

/* The class that a weight is for; "": the model has one output. */
const char *yk_weight_class(const yk_trained *m, const yk_weight *w, char number_out[static 16]);

#endif
