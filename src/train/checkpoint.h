/* Checkpoints: everything that a run needs to go on as if it had never stopped.
 *
 *     RUN/checkpoints/step-1200/model.safetensors    the weights, named and shaped as in PyTorch; metadata: what model
 *                               state.safetensors    optimizer state, data cursor, counters
 *                               DONE                 written last: without it the folder is not a checkpoint;
 *                                                    holds size and CRC32C of the two files
 *
 * The format version is that of trained.h.
 *
 * A checkpoint is written beside its final name (checkpoints/.saving), synced to the disk, and renamed; a full disk or a
 * kill at any moment leaves the earlier ones as they were. The last two are kept; checkpoint_dir.h says what is removed and
 * what is not. Arrays here are indexed by the keys of the data, not by the store's inside names.
 */
#ifndef YK_TRAIN_CHECKPOINT_H
#define YK_TRAIN_CHECKPOINT_H

#include "base/keymap.h"
#include "base/status.h"
#include "model/model.h"
#include "store/local.h"
#include <stddef.h>
#include <stdint.h>

/* What is saved besides the store. */
typedef struct {
    uint64_t step, epoch, examples;
    double period_loss, seconds; /* loss since the last evaluation; training time so far */
    uint64_t period_examples;
    uint64_t late, late_examples; /* --quorum: gradients that were dropped, and their examples */
    uint64_t *cursor;             /* cursor of the feed; owned by the code that set it; load allocates it */
    size_t ncursor;
} yk_progress_state;

/* `keymap` renames the store's keys back; NULL: nothing to rename. The store is settled. */
yk_status yk_checkpoint_save(const char *run_dir, const char *model_name, const yk_model *m, yk_local *store,
                             const yk_keymap *keymap, const yk_progress_state *progress, char **path_out);

/* The newest complete checkpoint below a run directory, or the folder itself if it is one; NULL if there is none.
 * A damaged one is passed over with a warning. Caller frees. */
yk_status yk_checkpoint_find(const char *dir, char **path_out);

/* Fills the store's arrays, before its first step. The caller frees progress->cursor. */
yk_status yk_checkpoint_load(const char *path, const yk_model *m, yk_local *store, const yk_keymap *keymap,
                             yk_progress_state *progress);

#endif
