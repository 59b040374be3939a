/* A plan in words: notes at the start of a run, and phrases about its mode.
 *
 * Example:
 *     char mode[64];
 *     yk_plan_mode_text(&plan, mode); // "asynchronous with a staleness bound of 4"
 *     yk_plan_print_notes(&config, &plan, model, true); // what the options mean for this run
 */
#ifndef YK_TRAIN_PLAN_NOTES_H
#define YK_TRAIN_PLAN_NOTES_H

#include "model/model.h"
#include "train/plan.h"

void yk_plan_mode_text(const yk_plan *p, char out[static 64]);

/* How parameters or gradients are exchanged: the end of a sentence that describes the processes. */
const char *yk_plan_exchange_text(const yk_plan *p, bool shared_memory);

/* Whether all workers have the parameters that are evaluated; NULL: there is nothing to say. */
const char *yk_plan_agreement_text(const yk_plan *p);

/* Notes about options that have no effect, or a different one than expected. */
void yk_plan_print_notes(const yk_config *c, const yk_plan *p, const yk_model *model, bool tested);

/* Notes about parameter groups whose gradients are applied at once, and about what changes for asynchronous workers. */
void yk_plan_print_groups(const yk_plan *p, const yk_model *model);

/* Why workers cannot join the job; NULL: they can. */
const char *yk_plan_join_obstacle(const yk_config *c, const yk_plan *p);

/* A note: what happens to the job if a process is lost. */
void yk_plan_print_losses(const yk_config *c, const yk_plan *p);

#endif
