/* Internals of checkpoints: the directories that checkpoint.c writes its files to.
 *
 * Example:
 *     char *path = NULL;
 *     yk_status st = yk__checkpoint_begin("runs/a");              // an empty RUN/checkpoints/.saving
 *     if (!st)
 *         st = yk_safetensors_write("runs/a", YK__SAVING "/" YK__MODEL_FILE, tensors, n, NULL, 0);
 *     st = yk__checkpoint_end("runs/a", 1200, 800, st, &path);    // writes DONE, renames .saving to step-1200
 *     free(path);
 *
 * end() also writes checkpoints/best (here: "step-800"), and then removes older checkpoints: only files that yoke wrote, and directories that are then empty. A directory with
 * foreign files stays. No link is followed (base/dir.h). A link step-N is never removed and is not one of the
 * checkpoints that are kept: the last two, and the best one. If something that yoke did not create has the name of a new checkpoint, it is renamed to
 * step-N.old-1. One thread at a time.
 */
#ifndef YK_TRAIN_CHECKPOINT_DIR_H
#define YK_TRAIN_CHECKPOINT_DIR_H

#include "base/status.h"

#define YK__SAVING     "checkpoints/.saving"
#define YK__MODEL_FILE "model.safetensors"
#define YK__STATE_FILE "state.safetensors"

void yk__checkpoint_clear(const char *run_dir); /* removes what a killed run left behind */
yk_status yk__checkpoint_begin(const char *run_dir);

/* best: the step of the best model; 0: none. If `st` is an error, only removes what was written so far. *path_out is replaced;
 * path_out may be NULL. */
yk_status yk__checkpoint_end(const char *run_dir, uint64_t step, uint64_t best, yk_status st,
                             char **path_out);
/* Writes checkpoints/best. yk__checkpoint_end() does so, too. */
yk_status yk__checkpoint_name_best(const char *run_dir, uint64_t best);
/* After yk_checkpoint_find() found none: YK_EUSAGE if there was a complete one, which is damaged. */
yk_status yk__checkpoint_none(const char *run_dir);
bool yk__checkpoint_is_complete(const char *run_dir, uint64_t step);

/* Like yk_checkpoint_find(), but `dir` may also be a model file (*path_out: the same) or RUN/checkpoints/best, and YK_EUSAGE if there
 * is none; the message says what is wrong with the newest one. `option` begins the message: "--warm-start ", or "". best: of a
 * run directory, the best one rather than the newest one, if it has one. */
yk_status yk__checkpoint_require(const char *option, const char *dir, bool best, char **path_out);
bool yk__is_model_file(const char *path); /* rather than a directory */

#endif
