/* The output of --dry-run and --profile: the layers of a model before training, and the times of the layers and the phases of
 * each process after training.
 *
 * Example:
 *     yk_show_model(stdout, "lenet5", result.description);
 *     char *json = yk_model_json("lenet5", result.description);   // one JSON object; NULL: out of memory
 *     free(json);
 *     yk_show_profile(stderr, &result); // if result.profile
 *
 * These functions are stateless. The caller checks the stream for errors.
 */
#ifndef YK_LIB_SHOW_MODEL_H
#define YK_LIB_SHOW_MODEL_H

#include "train/train.h"
#include <stdio.h>

void yk_show_model(FILE *to, const char *name, const yk_description *d);
char *yk_model_json(const char *name, const yk_description *d);
void yk_show_profile(FILE *to, const yk_result *r);

/* "1.3 MB", with powers of 1000. Returns `text`. */
const char *yk_bytes_text(double bytes, char text[static 24]);

#endif
