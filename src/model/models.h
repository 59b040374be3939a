/* Internal to model/: the linear models. A new model is a file with its functions, a declaration here, and a row of models[] in
 * model.c. Apart from model.h, so that few files are compiled again. */
#ifndef YK_MODEL_MODELS_H
#define YK_MODEL_MODELS_H

#include "model/model.h"

extern const yk_model_ops yk_softmax_ops, yk_logreg_ops, yk_linear_model_ops;

/* YK_EDATA: there are more than two classes. YK_EUSAGE: too many columns. */
yk_status yk__model_check(const char *text, const yk_model_shape *shape);

#endif
