/* A run's results as one JSON object: what --json prints and RUN/summary.json holds.
 *
 *     char *text;
 *     st = yk_result_json(&config, &result, &text);
 *     puts(text);
 *     free(text);
 *
 * What is not known is null. The keys are described in the man page. "state" says how it ended: done, stopped (by a signal), or
 * failed, and then "error" why and "exit_code" with which status.
 */
#ifndef YK_TRAIN_SUMMARY_H
#define YK_TRAIN_SUMMARY_H

#include "train/train.h"
#include <time.h>

yk_status yk_result_json(const yk_config *c, const yk_result *r, char **out);
yk_status yk_result_save(const yk_config *c, const yk_result *r, const char *run_dir);
yk_status yk_result_save_first(const yk_config *c, const yk_result *r,
                               const char *run_dir); /* unless there is one */

/* The text of the summary if it says that the run finished with this number of steps, else NULL. The caller frees it. */
char *yk_summary_if_done(const char *run_dir, uint64_t steps);
yk_status yk_summary_keep(const char *run_dir, const char *text); /* writes it back unchanged */

/* A job that ended without a word of its own: somebody killed a process, or a machine is gone. Whoever stood by it keeps what is
 * known, in RUN/summary.json, unless a process of the job was faster (train/ending.c). */
typedef struct {
    const char *run_dir, *error; /* borrowed */
    time_t since;                /* when it was started */
    int exit_code;
    int workers, ranks; /* 0: not known */
} yk_lost;

void yk_summary_of_lost(const yk_config *c, const yk_lost *lost);

#endif
