/* Inside of checkpoints: the directories that checkpoint.c writes its files into.
 *
 *     if (!(st = yk__checkpoint_begin("runs/a")))                       // RUN/checkpoints/.saving, without leftovers
 *         st = yk_safetensors_write("runs/a", YK__SAVING "/" YK__MODEL_FILE, ...);
 *     st = yk__checkpoint_end("runs/a", 1200, st, &path);               // DONE; .saving becomes step-1200; older ones go
 *
 * Only files that yoke wrote are removed, and directories that are then empty: foreign files stay, and so does their
 * directory. No link is followed (base/dir.h). A link step-N is never removed and does not count as one of the two that
 * are kept. If something that is not yoke's has the name of a new checkpoint, it is renamed to step-N.old-1.
 */
#ifndef YK_TRAIN_CHECKPOINT_DIR_H
#define YK_TRAIN_CHECKPOINT_DIR_H

#include "base/status.h"
#include <stdint.h>

#define YK__SAVING     "checkpoints/.saving"
#define YK__MODEL_FILE "model.safetensors"
#define YK__STATE_FILE "state.safetensors"

yk_status yk__checkpoint_begin(const char *run_dir);

/* If `st` is an error, only removes what was written so far. *path_out is replaced; path_out may be NULL. */
yk_status yk__checkpoint_end(const char *run_dir, uint64_t step, yk_status st, char **path_out);

#endif
