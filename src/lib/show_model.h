/* What --dry-run and --profile print: a model's layers before training, and where the time went after it.
 *
 *     st = yk_show_model(stdout, name, result.description);
 *     st = yk_show_model_json(stdout, name, result.description);   // one JSON object on one line
 *     yk_show_profile(stderr, result.profile);
 */
#ifndef YK_LIB_SHOW_MODEL_H
#define YK_LIB_SHOW_MODEL_H

#include "train/train.h"
#include <stdio.h>

yk_status yk_show_model(FILE *to, const char *name, const yk_description *d);
yk_status yk_show_model_json(FILE *to, const char *name, const yk_description *d);
void yk_show_profile(FILE *to, const yk_profile *p);

#endif
