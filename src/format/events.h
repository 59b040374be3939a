/* TensorBoard event files: scalars, histograms and graphs for `tensorboard --logdir RUN`, even while training runs.
 *
 * Example:
 *     yk_events *e;
 *     st = yk_events_create("run", "worker-0", &e);           // creates run/worker-0/ and a new file in it
 *     yk_scalar s[] = {{"loss", 0.31f}, {"rate/examples", 4.1e6f}};
 *     st = yk_events_scalars(e, 0, 1200, s, 2);               // at step 1200; wall time 0: now
 *     st = yk_events_flush(e);                                // makes it visible to other processes
 *     st = yk_events_close(e, st);                            // frees it, as yk_file_close() does
 *
 * A file consists of TFRecord frames (format/tfrecord.h), each a protobuf message `Event`; the first has the version:
 *
 *     events.out.tfevents.1700000000.HOST.PID.N
 *     Event    1: wall_time double   2: step int64   3: file_version string   4: GraphDef (bytes)   5: Summary
 *     Summary  1: Value, repeated
 *     Value    1: tag string   2: simple_value float   5: histo   8: tensor   9: metadata (1: plugin, 4: data class)
 *     histo    1: min  2: max  3: num  4: sum  5: sum_squares  6: bucket_limit  7: bucket        all double
 *     GraphDef 1: NodeDef, repeated   4: versions (1: producer)
 *     NodeDef  1: name   2: op   3: input, repeated   5: attr, a map: 1: key   2: AttrValue (1: list   2: bytes   3: int64)
 *
 * A write error is YK_ESYSTEM with the path, and repeated by later calls. One thread at a time per file.
 */
#ifndef YK_FORMAT_EVENTS_H
#define YK_FORMAT_EVENTS_H

#include "base/status.h"

typedef struct yk_events yk_events;

typedef struct {
    const char *tag;
    float value;
} yk_scalar;

/* Bucket i counts the values above limit[i - 1] and up to limit[i]; limits ascend. All borrowed. */
typedef struct {
    double min, max, num, sum, sum_squares;
    size_t n;
    const double *limit; /* [n] */
    const double *count; /* [n] */
} yk_histogram;

/* A layer in the graph of a model. All borrowed. */
typedef struct {
    const char *name;  /* unique; letters, digits, _ . / - */
    const char *op;    /* "conv" */
    const char *text;  /* "conv 6 5x5 same"; NULL: none */
    const char *input; /* the name of the previous node; NULL: none */
    int rank;
    size_t shape[4]; /* of the output for one example */
    uint64_t params;
} yk_graph_node;

yk_status yk_events_create(const char *dir, const char *name, yk_events **out);

/* wall_time is in seconds since 1970; 0: now. */
yk_status yk_events_scalars(yk_events *e, double wall_time, int64_t step, const yk_scalar *scalar, size_t n);
yk_status yk_events_histogram(yk_events *e, double wall_time, int64_t step, const char *tag,
                              const yk_histogram *histogram);

/* For TensorBoard's "Graphs" tab. Once per file. */
yk_status yk_events_graph(yk_events *e, double wall_time, const yk_graph_node *node, size_t n);

/* For TensorBoard's "HParams" tab: at the beginning of a run its hyperparameters, and the tags of the scalars to compare, which
 * end with NULL; at the end, whether it succeeded. All borrowed. */
typedef struct {
    const char *name, *text; /* text NULL: a number */
    double number;
} yk_hyperparameter;
yk_status yk_events_session_begin(yk_events *e, const yk_hyperparameter *h, size_t n,
                                  const char *const *metrics);
yk_status yk_events_session_end(yk_events *e, bool success);

yk_status yk_events_flush(yk_events *e);
yk_status yk_events_close(yk_events *e, yk_status so_far); /* NULL returns so_far */

const char *yk_events_path(const yk_events *e);

#endif
