/* The results of a run as one JSON object: printed by --json and stored in RUN/summary.json.
 *
 * Example:
 *     char *text = yk_result_json(&config, &result, false);
 *     puts(text ? text : yk_error());
 *     free(text);
 *
 * Unknown values are null. docs/file-formats.md describes the keys. "state" is done, stopped (by a signal), or failed, with
 * "error" and "exit_code". A run that failed before there was a model has only these. Any thread may call these functions; run
 * directories are written as in train/run_dir.h.
 */
#ifndef YK_TRAIN_SUMMARY_H
#define YK_TRAIN_SUMMARY_H

#include "train/train.h"
#include <time.h>

/* On one line, or indented. The caller frees it. NULL: out of memory, which is reported. */
char *yk_result_json(const yk_config *c, const yk_result *r, bool indent);
yk_status yk_result_save(const yk_config *c, const yk_result *r, const char *run_dir);
yk_status yk_result_save_if_missing(const yk_config *c, const yk_result *r, const char *run_dir);

/* The text of the summary if its state is "done" with this number of steps; else NULL. The caller frees it. */
char *yk_summary_if_done(const char *run_dir, uint64_t steps);
yk_status yk_summary_restore(const char *run_dir, const char *text); /* writes it back unchanged */

/* Called by the launcher. Writes the summary of a job that could not do so itself, because a process was killed or a host failed, unless a
 * process of the job did (train/end_run.c). r: the plan, the run directory and how the job ended; gets the progress. since: start
 * time. */
void yk_summary_save_lost(const yk_config *c, yk_result *r, time_t since);

#endif
