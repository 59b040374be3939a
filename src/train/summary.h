/* A run's results as one JSON object: what --json prints and RUN/summary.json holds.
 *
 *     char *text;
 *     st = yk_result_json(&config, &result, &text);
 *     puts(text);
 *     free(text);
 *
 * What is not known is null. The keys are described in the man page.
 */
#ifndef YK_TRAIN_SUMMARY_H
#define YK_TRAIN_SUMMARY_H

#include "train/train.h"

yk_status yk_result_json(const yk_config *c, const yk_result *r, char **out);
yk_status yk_result_save(const yk_config *c, const yk_result *r, const char *path);

#endif
