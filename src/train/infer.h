/* Using a trained model: evaluation and predictions.
 *
 *     yk_infer in = {.checkpoint = "runs/x", .data = "idx:mnist", .split = YK_SPLIT_TEST};
 *     st = yk_infer_run(&in, NULL, NULL, &score);             // how good it is
 *     st = yk_infer_run(&in, each, user, &score);             // each(user, p, outputs, n): probabilities as they come
 *
 * The data is streamed, so that it may be larger than memory. An index that the model has no weight for is bad data.
 */
#ifndef YK_TRAIN_INFER_H
#define YK_TRAIN_INFER_H

#include "data/source.h"
#include "train/score.h"

typedef struct {
    const char *checkpoint; /* a run directory, a checkpoint's folder */
    const char *data;
    yk_split split;
    yk_source_options options;
} yk_infer;

yk_status yk_infer_run(const yk_infer *in,
                       yk_status (*each)(void *user, const float *p, size_t outputs, size_t n), void *user,
                       yk_score *out);

#endif
