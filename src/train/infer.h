/* Using a trained model: evaluation and predictions.
 *
 * Example:
 *     yk_status st = yk_infer(model, source, false, NULL, NULL, &tally);      // evaluation: score.h, metrics.h
 *     st = yk_infer(model, source, false, each, context, &tally);      // also calls each(context, &block) with probabilities
 *
 * The data is streamed and may be larger than memory. A feature or class that the model does not have is an error
 * (YK_EDATA). Several threads may use the same model, each with its own source.
 */
#ifndef YK_TRAIN_INFER_H
#define YK_TRAIN_INFER_H

#include "base/perm.h"
#include "data/source.h"
#include "train/score.h"
#include "train/trained.h"

/* A block of examples, in the order of the source; borrowed. */
typedef struct {
    const float *p; /* [n][outputs] */
    size_t outputs, n;
    const yk_reader *reader; /* yk_reader_file(reader, first + i) is the file of example i; NULL: none */
    size_t first;
    size_t number; /* of the first example in the source, if it has block_rows */
} yk_inferred;

typedef yk_status yk_infer_each(void *context, const yk_inferred *block);

/* `each` and `out` may be NULL. Predictions are added to `out`, which takes time and needs labels. raw (without `out`): log-odds of
 * class 1 if the model has one output, otherwise logarithms of the probabilities. */
yk_status yk_infer(const yk_trained *m, yk_source *source, bool raw, yk_infer_each *each, void *context,
                   yk_tally *out);

/* Predicts all examples with a thread per core. The source has block_rows, and skips no rows. out: [examples][outputs]. */
yk_status yk_infer_array(const yk_trained *m, yk_source *source, float *out);

/* ---- internal to train: predictions of one thread, also for evaluations during training ---- */

/* Everything is borrowed. */
typedef struct {
    const yk_model *model;
    yk_workspace *work;
    const yk_view *view; /* [groups] */
    size_t batch;        /* examples at a time, at most 256 */
    float *p;            /* [batch][outputs] */
    yk_tally *tally;     /* gets all predictions */
    bool no_score;       /* only counts them */
    bool raw;            /* as for yk_infer() */
    /* checks and remaps rows that were just read. number: how many rows of the data are before the first one; if the source does not know
     * block_rows: how many were read before */
    yk_status (*prepare)(void *context, yk_rows *rows, size_t number);
    void *context;
    const yk_perm *order; /* of the rows in memory; NULL: as stored */
    uint64_t max;         /* examples; 0: all */
    yk_infer_each *each;  /* may be NULL */
    void *each_context;
} yk__predictor;

/* A share of the rows in memory, or of the blocks of a source (rows NULL). */
yk_status yk__predict(const yk__predictor *o, const yk_rows *rows, yk_source *s, size_t share, size_t of);

#endif
