/* Checkpoints: everything that a run needs to continue as if it had never stopped.
 *
 *     RUN/checkpoints/step-1200/model.safetensors    the weights, named and shaped as in PyTorch; metadata: which model
 *                               state.safetensors    optimizer state, data cursor, counters
 *                               DONE                 written last, with size and CRC32C of the two files;
 *                                                    without it the directory is not a checkpoint
 *     RUN/checkpoints/best                           with a validation set: "step-800", the checkpoint of the best model
 *
 * The format version is that of trained.h.
 *
 * Example:
 *     char *path;
 *     yk_progress_state progress = {0};
 *     yk_status st = yk_checkpoint_find("runs/a", &path);
 *     if (!st && path)
 *         st = yk_checkpoint_load(path, model, store, keymap, &progress);
 *     free(progress.cursor);
 *     free(path);
 *
 * A checkpoint is written to checkpoints/.saving, synced to the disk, and renamed; a full disk or a kill at any moment
 * leaves earlier checkpoints as they were. The last two and the best one are kept (checkpoint_dir.h). Arrays in the files are indexed by the
 * keys of the data, not by the internal ids of the store. One thread at a time.
 */
#ifndef YK_TRAIN_CHECKPOINT_H
#define YK_TRAIN_CHECKPOINT_H

#include "base/status.h"
#include "core/keymap.h"
#include "data/schema.h"
#include "format/safetensors.h"
#include "model/model.h"
#include "store/local.h"
#include "train/selection.h"

/* What is saved besides the store. */
typedef struct {
    uint64_t step, epoch, examples;
    double period_loss, seconds; /* loss since the last evaluation; training time so far */
    uint64_t period_examples;
    double period_extra_weight;
    uint64_t late, late_examples; /* gradients that were dropped, and their examples */
    uint64_t earlier;             /* steps of the runs before this one (--warm-start) */
    yk_best best;                 /* with a validation set; step 0: none */
    uint64_t data_examples;       /* in the training data; 0: not known (a stream, in its first epoch) */
    uint64_t *cursor;             /* of the feed; load() allocates it */
    size_t ncursor;
} yk_progress_state;

/* The arrays that are saved: those of a store, or copies of them (saver.c). Plain data; elements have 4 bytes. */
enum { YK_CHECKPOINT_ARRAYS = YK_MAX_GROUPS * (3 + YK_MAX_SLOTS), YK_CHECKPOINT_NAME = 48 };
enum { YK_OPTIMIZER_NAMES = YK_MAX_GROUPS * (YK_GROUP_NAME + 24) }; /* "linear=ftrl,embed=adagrad,..." */

typedef struct {
    char name[YK_CHECKPOINT_NAME]; /* in state.safetensors; empty: weights, in model.safetensors */
    yk_dtype dtype;
    float *data;
    size_t size;
    const yk_group *group;
    bool decay; /* belongs to pending decay */
} yk_checkpoint_array;

typedef struct {
    yk_checkpoint_array array[YK_CHECKPOINT_ARRAYS]; /* first the weights of each group */
    size_t n;
    char optimizer[YK_OPTIMIZER_NAMES]; /* as in --optimizer: "adam", or "keyed=adagrad,dense=adam" */
} yk_checkpoint_arrays;

/* decayed: the weights with pending decay applied; the store must be quiesced. Otherwise, the weights that the store trains. */
void yk_checkpoint_arrays_of(yk_local *store, yk_checkpoint_arrays *out, bool decayed);

/* Writes the arrays, and leaves them indexed by the keys of the data: there may be no memory for another copy of a large model.
 * `keymap`: how the keys were remapped; NULL: they were not. `schema`: JSON, or NULL. *path_out is replaced. */
yk_status yk_checkpoint_write(const char *run_dir, const char *model_name, const char *schema,
                              const yk_model *m, const yk_checkpoint_arrays *arrays, const yk_keymap *keymap,
                              const yk_progress_state *progress, char **path_out);

/* Indexes the arrays by the keys of the data instead of the internal ids (to_keys), or the other way round: after
 * yk_checkpoint_write(), for those of a store. */
yk_status yk_checkpoint_remap(const yk_checkpoint_arrays *arrays, const yk_keymap *keymap, bool to_keys);

/* The newest complete checkpoint below a run directory, or the directory itself if it is one; NULL if there is none.
 * A damaged one is skipped with a warning. Caller frees. */
yk_status yk_checkpoint_find(const char *dir, char **path_out);

/* The checkpoint of the best model of a run; NULL if there is none. Caller frees. */
yk_status yk_checkpoint_best(const char *run_dir, char **path_out);

/* Fills the arrays of the store, before its first step. The caller frees progress->cursor. progress NULL: another run begins with
 * the weights and the optimizer's state, only the weights if `path` is a model file. Keyed groups may then have more features than the
 * checkpoint: the additional ones keep their values. */
yk_status yk_checkpoint_load(const char *path, const yk_model *m, yk_local *store, const yk_keymap *keymap,
                             yk_progress_state *progress);

typedef struct {
    char *model;       /* the value of --model; the caller frees it */
    yk_schema *schema; /* likewise; NULL: it has none */
    yk_model_shape shape;
    uint64_t step, earlier;
} yk_checkpoint_info;

yk_status yk_checkpoint_describe(const char *path, yk_checkpoint_info *out);

#endif
