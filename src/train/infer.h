/* Using a trained model: evaluation and predictions.
 *
 * Example:
 *     st = yk_infer(model, source, NULL, NULL, &score);       // how good it is
 *     st = yk_infer(model, source, each, user, &score);       // calls each(user, &some) with probabilities as they come
 *
 * The data is streamed, so that it may be larger than memory. An index that the model has no weight for is bad data.
 */
#ifndef YK_TRAIN_INFER_H
#define YK_TRAIN_INFER_H

#include "data/source.h"
#include "train/score.h"
#include "train/trained.h"

/* Some examples, in the order of the source; borrowed. */
typedef struct {
    const float *p; /* [n][outputs] */
    size_t outputs, n;
    const yk_reader *reader; /* yk_reader_file(reader, first + i) is the file of example i; NULL: has none */
    size_t first;
} yk_inferred;

typedef yk_status yk_infer_each(void *user, const yk_inferred *some);

/* `each` may be NULL. */
yk_status yk_infer(const yk_trained *m, yk_source *source, yk_infer_each *each, void *user, yk_score *out);

#endif
