/* libyoke: train linear models, factorization machines and convolutional networks by stochastic gradient descent, and use them.
 *
 * Example:
 *     yoke_error error;
 *     yoke_options *options = yoke_options_create();
 *     yoke_options_set(options, "model", "softmax", &error);
 *     yoke_options_set(options, "data", "synth:digits", &error);
 *     yoke_options_set(options, "out", "none", &error);
 *
 *     yoke_training training = YOKE_TRAINING_INIT;
 *     training.options = options;
 *     yoke_run *run;
 *     if (yoke_train(&training, &run, &error))
 *         fprintf(stderr, "%s\n", error.message);
 *     printf("accuracy %.4f\n", yoke_run_number(run, "test_accuracy"));
 *     yoke_run_free(run);
 *     yoke_options_free(options);
 *
 * Link with -lyoke (pkg-config yoke, or find_package(yoke) in CMake). examples/digits.c is a complete program.
 *
 * Errors. A function that can fail returns a yoke_status. Its last argument receives the message; it may be NULL. The
 * library never prints, never calls exit(), and installs no signal handlers. Without a `log` function, notes and
 * warnings are discarded.
 *
 * Memory. An object that a function creates belongs to the caller until it is passed to the matching _free function,
 * which accepts NULL. Strings that a function returns belong to the object it was called with. Arguments are borrowed
 * for the duration of the call unless the description says otherwise.
 *
 * Threads. The library has no global state. Any number of training runs can be active at the same time, in different
 * threads. Threads may share a const argument; only one thread at a time may use any other object. yoke_train()
 * starts threads of its own, with all signals blocked, and ends them before it returns.
 *
 * Callbacks. `log`, `progress` and `metrics` are called by the thread that called yoke_train() or by a thread of the
 * library, one call at a time for each training run. They must not call functions of this library on objects that the run
 * uses, and should return quickly, because training waits for them. They must not longjmp() or throw. After `progress` or
 * `metrics` has canceled the run, neither is called again; the summary has the results of the last evaluation.
 *
 * fork(). A child that was forked while no training was active can use the library. A child that was forked during
 * training can only call exec() or _exit().
 *
 * Several processes. With the options launch, hosts, hostfile or join, yoke_train() runs the program `yoke` as a child,
 * which starts the processes of the job. It looks for the program in the environment variable YOKE_PROGRAM, in the
 * directory of the library, in ../bin relative to it, and in PATH. Data in memory and initial models (`start`) require a
 * single process. `progress` and `metrics` report what the job writes to its run directory: with out = none, they are not
 * called.
 *
 * ABI. The soname is libyoke.so.0. Until version 1.0, each minor version may change it. A change that breaks programs
 * linked against an earlier version (a removed function, different arguments, a different layout) always changes the
 * soname; a new function does not. Structures with a `struct_size` can grow at their end: set it as the _INIT macros do.
 * Structures that the library passes to callbacks can also grow at their end. Only names that begin with yoke_ are
 * exported.
 */
#ifndef YOKE_H
#define YOKE_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define YOKE_API __attribute__((visibility("default")))
#else
#define YOKE_API
#endif

YOKE_API const char *yoke_version(void); /* "0.2.0" */
YOKE_API const char *yoke_kernels(void); /* instruction set in use: "avx512" */

/* ---- errors ---- */

/* The values are also the exit statuses of the program `yoke`. */
typedef enum {
    YOKE_OK = 0,
    YOKE_TRAINING_FAILED = 1, /* training diverged, or a process was lost */
    YOKE_BAD_USAGE = 2,       /* wrong option or argument */
    YOKE_BAD_DATA = 3,        /* the message names the file, the offset and the reason */
    YOKE_SYSTEM_ERROR = 4     /* out of memory, disk full, failed write */
} yoke_status;

typedef struct {
    yoke_status status;
    char message[2048]; /* what failed, why, and what to do; "" if nothing failed */
} yoke_error;

/* ---- options: those of `yoke train`, by name ---- */

typedef struct yoke_options yoke_options;

YOKE_API yoke_options *yoke_options_create(void); /* all defaults. NULL: out of memory */
YOKE_API void yoke_options_free(yoke_options *o);

/* `name` has no leading dashes: "batch". Flags have the values "true" and "false". Numbers may be written 1e6, 100k or 2m. */
YOKE_API yoke_status yoke_options_set(yoke_options *o, const char *name, const char *value,
                                      yoke_error *error);

/* Reads a configuration file. Options that are set with yoke_options_set() have priority. */
YOKE_API yoke_status yoke_options_load(yoke_options *o, const char *path, yoke_error *error);

/* The value last set with yoke_options_set(); NULL: not set. */
YOKE_API const char *yoke_options_get(const yoke_options *o, const char *name);

/* The table of all options. */
typedef struct {
    const char *name;
    const char *argument; /* "N"; NULL: a flag */
    const char *group;    /* the heading in the help; the options of a group are consecutive */
    const char *help;
    const char *default_text; /* NULL: none */
} yoke_option;

YOKE_API int yoke_option_at(size_t i, yoke_option *out); /* returns 0 if i is too large */

/* ---- data ---- */

typedef struct yoke_data yoke_data;

typedef enum { YOKE_TRAIN_SPLIT, YOKE_TEST_SPLIT } yoke_split;

/* Data from a spec: "idx:mnist", "libsvm:clicks.txt", "synth:ctr?examples=1000". `split` selects the training or
 * the test set if the data has both. `options`, if not NULL, supplies features, hash-bits and skip-bad. Reads no data yet. */
YOKE_API yoke_status yoke_data_from_spec(const char *spec, yoke_split split, const yoke_options *options,
                                         yoke_data **out, yoke_error *error);

/* Dense data in memory. Exactly one of f32 and u8 is not NULL. The arrays are borrowed until yoke_data_free() and are
 * never modified. */
typedef struct {
    size_t struct_size; /* sizeof(yoke_dense) */
    size_t rows, columns;
    const float *f32;      /* [rows][columns] */
    const uint8_t *u8;     /* [rows][columns]; a pixel x counts as x / 255 */
    const int32_t *labels; /* [rows] class numbers from 0; NULL: no labels, for yoke_predict() only */
    size_t channels, height, width; /* images: columns = channels * height * width. Else 0 */
    uint32_t classes;               /* 0: one more than the largest label */
    const float *weights;           /* [rows] at least 0: a row of weight 2 counts twice; NULL: all are 1 */
    const float *targets;           /* [rows] labels that are numbers, for regression; NULL: none */
} yoke_dense;

#define YOKE_DENSE_INIT                                                                                      \
    {                                                                                                        \
        sizeof(yoke_dense), 0, 0, NULL, NULL, NULL, 0, 0, 0, 0, NULL, NULL                                   \
    }

YOKE_API yoke_status yoke_data_from_dense(const yoke_dense *dense, yoke_data **out, yoke_error *error);

/* Sparse data in memory, in CSR format: row r has the entries start[r] to start[r + 1] - 1 of `index` and `value`.
 * The indices of a row need not be sorted. If an index is repeated, its values are summed. The arrays are borrowed until
 * yoke_data_free() and are never modified.
 *
 * `index` contains column numbers, which are never hashed. `index64` contains column numbers, or arbitrary 64-bit keys that are
 * hashed: by training with the option hash-bits, and by predictions and evaluations of a model that was trained on hashed keys
 * (yoke_model_hashed()). A key then gets the same column as the same unsigned 64-bit number in a LIBSVM, LIBFFM or TFRecord
 * file, and `columns` is ignored. If keys are not hashed, 0 <= index64 < columns must hold; this is checked when the data is
 * used, not by yoke_data_from_csr().
 *
 * By default, training makes a copy with a faster layout. It uses the arrays themselves where a copy would not pay off:
 * for a single worker, if there are many rows, in random order, with ascending indices. With `in_place`, it always uses
 * the arrays themselves; indices must then ascend within each row. It always copies rows with `index64`. */
typedef struct {
    size_t struct_size; /* sizeof(yoke_csr) */
    size_t rows, columns;
    const int64_t *start64; /* [rows + 1]; exactly one of start64 and start32 is not NULL */
    const int32_t *start32;
    const int32_t *index;  /* 0 <= index < columns < 2^31; exactly one of index and index64 is not NULL */
    const float *value;    /* NULL: all are 1 */
    const int32_t *labels; /* as above */
    int in_place;
    uint32_t classes;      /* as above */
    const uint16_t *field; /* field of each entry, for models that use fields; NULL: its position in the row, if possible */
    const int64_t *index64; /* cannot be combined with in_place */
    const float *weights, *targets; /* as above */
} yoke_csr;

#define YOKE_CSR_INIT                                                                                        \
    {                                                                                                        \
        sizeof(yoke_csr), 0, 0, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL                   \
    }

YOKE_API yoke_status yoke_data_from_csr(const yoke_csr *csr, yoke_data **out, yoke_error *error);

/* A table in memory, as an Arrow stream (arrow.apache.org/docs/format/CStreamInterface.html). The columns have the names
 * in the stream. Strings and dictionaries are categorical, other types are numeric; nulls are missing values. docs/data.md (Frames)
 * lists the types. A model that was trained on a table matches columns by name, in any order, also those of CSV and Parquet files. */
struct ArrowArrayStream;

typedef struct {
    size_t struct_size;              /* sizeof(yoke_arrow) */
    struct ArrowArrayStream *stream; /* moved (its release becomes NULL), unless the call fails early */
    const char *options; /* of a table, as in a spec: "label=clicked&scale=log"; NULL: none */
    /* Labels that are not a column of the table: */
    const int32_t *labels; /* [rows] class numbers from 0, borrowed until yoke_data_free(); NULL: none */
    size_t rows;
    const char *label;              /* the name of the label in the schema of the model; NULL: "label" */
    const char *const *class_names; /* [classes]; NULL: only numbers */
    uint32_t classes;               /* 0: one more than the largest label */
    /* 0: read the whole stream now. 1: read it when the data is used, which is possible only once; for streams that are larger than
     * memory. Training for more than one epoch, or with several workers, then keeps the examples in memory. */
    int stream_once;
    const float *weights, *targets; /* [rows] as above, borrowed until yoke_data_free(); NULL: none */
} yoke_arrow;

#define YOKE_ARROW_INIT                                                                                      \
    {                                                                                                        \
        sizeof(yoke_arrow), NULL, NULL, NULL, 0, NULL, NULL, 0, 0, NULL, NULL                                \
    }

YOKE_API yoke_status yoke_data_from_arrow(const yoke_arrow *arrow, yoke_data **out, yoke_error *error);

/* The name of column i of data from an Arrow stream; NULL: there is no such column, or the data is not from a stream. *type_out (may be
 * NULL): the type of the column, such as "int64". */
YOKE_API const char *yoke_data_column(const yoke_data *d, size_t i, const char **type_out);

YOKE_API void yoke_data_free(yoke_data *d);

/* ---- training ---- */

typedef struct yoke_model yoke_model;
typedef struct yoke_run yoke_run;

typedef enum { YOKE_NOTE, YOKE_WARNING } yoke_log_level;

/* Sets the function that receives the notes and warnings of evaluations and predictions in this thread, such as "column 3 (city):
 * none of its values occurred in the training data, ...". NULL, the default: they are discarded. */
YOKE_API void yoke_set_log(void (*log)(void *context, yoke_log_level level, const char *text), void *context);

/* Passed to `progress` about five times a second. Unknown numbers are NaN. */
typedef struct {
    uint64_t step, examples; /* since the start of the run, including those before it was resumed */
    double epoch;            /* with a fraction */
    double loss;             /* mean training loss since the last call */
    double examples_per_second, steps_per_second, seconds_left;
    const char *text; /* the same as a line of text */
} yoke_progress;

/* Passed to `metrics` after each evaluation. Unknown numbers are NaN. */
typedef struct {
    uint64_t step, examples;
    double epoch, seconds;
    double train_loss; /* mean since the last evaluation */
    double test_loss, test_accuracy, test_auc, majority_accuracy;
    double validation_loss, validation_accuracy, validation_auc;
} yoke_metrics;

typedef struct {
    size_t struct_size; /* sizeof(yoke_training) */
    const yoke_options *options;
    const yoke_data *data, *test; /* NULL: given by the options data and test */
    const yoke_model *start;      /* initial parameters; NULL: initialize them */
    void *context;                /* passed to the functions below */
    void (*log)(void *context, yoke_log_level level, const char *text); /* NULL: discard */
    int (*progress)(void *context, const yoke_progress *p); /* may be NULL. Return non-zero to cancel */
    int (*metrics)(void *context, const yoke_metrics *m);   /* likewise */
    /* May be NULL. Training is canceled when it becomes non-zero. A signal handler may assign to it; another thread must
     * use an atomic store (__atomic_store_n(&flag, 1, __ATOMIC_RELAXED)). */
    const volatile sig_atomic_t *cancel;
    int discard_model; /* yoke_run_model() will not be called: avoids copying the parameters */
    const yoke_data *validation; /* NULL: given by the option validation */
    /* 1: the model keeps the state of the optimizer, and training continues with that of `start`, if it was kept, with the examples in
     * a new order. 2: the model keeps the state, but training starts with a new one. The state is not saved with the model. */
    int keep_state;
} yoke_training;

#define YOKE_TRAINING_INIT                                                                                   \
    {                                                                                                        \
        sizeof(yoke_training), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, 0              \
    }

/* Trains. A canceled run saves a checkpoint, unless the option out is "none", and returns YOKE_OK; its summary has
 * "interrupted": true. After a failure, *run_out is NULL or a run whose summary shows how far it got. */
YOKE_API yoke_status yoke_train(const yoke_training *training, yoke_run **run_out, yoke_error *error);

YOKE_API const char *yoke_run_summary(const yoke_run *r); /* what `yoke train --json` prints: a JSON object */
YOKE_API const char *yoke_run_text(const yoke_run *r);    /* what `yoke train` prints */
YOKE_API const char *yoke_run_profile(const yoke_run *r); /* with the option profile: a table; else NULL */
YOKE_API const char *yoke_run_directory(const yoke_run *r);          /* NULL: none */
/* Of the summary: "test_loss", "test_metrics.pr_auc"; NaN: not known. */
YOKE_API double yoke_run_number(const yoke_run *r, const char *key);

/* The trained model. YOKE_BAD_USAGE: the run has none, because it failed early or was a dry run. */
YOKE_API yoke_status yoke_run_model(const yoke_run *r, yoke_model **out, yoke_error *error);

YOKE_API void yoke_run_free(yoke_run *r);

/* ---- models ---- */

/* From a run directory (the checkpoint of its best model, or else its newest one), a checkpoint directory, or a model.safetensors file. */
YOKE_API yoke_status yoke_model_load(const char *path, yoke_model **out, yoke_error *error);

/* Writes one safetensors file, atomically. */
YOKE_API yoke_status yoke_model_save(const yoke_model *m, const char *path, yoke_error *error);

YOKE_API const char *yoke_model_name(const yoke_model *m); /* "softmax", or a list of layers */
YOKE_API size_t yoke_model_columns(const yoke_model *m);
YOKE_API int yoke_model_hashed(const yoke_model *m); /* 1: its columns are hashes of keys; else 0 */
/* Probabilities per example: 1 (class 1), or 1 per class. */
YOKE_API size_t yoke_model_outputs(const yoke_model *m);
/* Whether its labels and predictions are numbers (--loss squared), not classes and probabilities. */
YOKE_API int yoke_model_regression(const yoke_model *m);
/* What the model knows about its data, as JSON: columns by name, their roles and encodings (docs/file-formats.md). NULL: nothing,
 * because an earlier version wrote it, or out of memory. The caller frees it with free(). */
YOKE_API char *yoke_model_schema(const yoke_model *m);
YOKE_API const char *yoke_model_class(const yoke_model *m, size_t i); /* name of class i; NULL: only numbers */
/* The model as Python source: a PyTorch module named `model`, into which model.safetensors can be loaded. The caller
 * frees it with free(); NULL: out of memory. */
YOKE_API char *yoke_model_torch(const yoke_model *m);
YOKE_API void yoke_model_free(yoke_model *m);

/* The parameters, with the names and shapes of a PyTorch nn.Sequential. */
typedef struct {
    const char *name; /* "0.weight" */
    size_t rank, shape[4];
    size_t size;       /* the number of elements */
    const float *data; /* belongs to the model; NULL: stored in another order, use yoke_model_tensor_copy() */
} yoke_tensor;

/* Returns 0 if i is too large. */
YOKE_API int yoke_model_tensor_at(const yoke_model *m, size_t i, yoke_tensor *out);
YOKE_API void yoke_model_tensor_copy(const yoke_model *m, size_t i, float *out); /* out: [size] */

typedef struct {
    uint64_t examples;
    double loss, accuracy;
    double majority_accuracy; /* of always predicting the most frequent class */
    double auc;               /* NaN unless there are two classes and both occur */
} yoke_score;

YOKE_API yoke_status yoke_evaluate(const yoke_model *m, const yoke_data *data, yoke_score *out,
                                   yoke_error *error);

/* All metrics, with those of each class and the confusion matrix: as JSON and as text, which `yoke eval` prints (docs/models.md).
 * Both may be NULL. The caller frees them with free(). */
YOKE_API yoke_status yoke_evaluate_metrics(const yoke_model *m, const yoke_data *data, char **json_out,
                                           char **text_out, yoke_error *error);

/* A block of predictions, in the order of the data. */
typedef struct {
    size_t n, outputs;
    const float *probability; /* [n][outputs] */
    const char *const *file;  /* [n] file of each example (images: data); else NULL */
    const char *const *column; /* [n][columns] texts of yoke_prediction.columns; NULL: none */
    size_t columns;
} yoke_predictions;

/* How yoke_predict_with() predicts. */
typedef struct {
    size_t struct_size;  /* sizeof(yoke_prediction) */
    const char *columns; /* columns of a table whose texts are returned with the predictions: "id,city"; NULL: none */
    int raw; /* log-odds of class 1 if the model has one output, otherwise logarithms, instead of probabilities */
} yoke_prediction;

/* Calls each() for successive blocks of examples until it returns a non-zero value, which yoke_predict() then returns. */
YOKE_API yoke_status yoke_predict(const yoke_model *m, const yoke_data *data,
                                  int (*each)(void *context, const yoke_predictions *block), void *context,
                                  yoke_error *error);

YOKE_API yoke_status yoke_predict_with(const yoke_model *m, const yoke_data *data, const yoke_prediction *how,
                                       int (*each)(void *context, const yoke_predictions *block), void *context,
                                       yoke_error *error);

/* Writes the probabilities of all examples to `out`, an array of [rows][outputs]. The data must have `rows` examples. */
YOKE_API yoke_status yoke_predict_array(const yoke_model *m, const yoke_data *data, float *out, size_t rows,
                                        yoke_error *error);

/* The same for a CSR matrix, which is checked while it is used: faster than yoke_data_from_csr() and yoke_predict_array().
 * Indices may be in any order; labels are ignored; a model that was trained on `field` needs it. `out` is an array of
 * [rows][columns]: columns is yoke_model_outputs(). For a model with one output p it may also be 2: 1 - p and p. */
YOKE_API yoke_status yoke_predict_csr(const yoke_model *m, const yoke_csr *csr, float *out, size_t columns,
                                      yoke_error *error);

#ifdef __cplusplus
}
#endif

#endif
