/* Training: from a configuration to a result, with everything that is kept on the way.
 *
 *     yk_result r;
 *     st = yk_train(&config, &stop, yk_now(), &r);
 *     yk_result_fini(&r);
 *
 * *stop becomes non-zero when the run shall save and end (a signal handler may set it).
 */
#ifndef YK_TRAIN_TRAIN_H
#define YK_TRAIN_TRAIN_H

#include "dist/store.h"
#include "model/model.h"
#include "train/config.h"
#include "train/score.h"
#include <signal.h>

/* --dry-run: what would be trained. Bytes of weights and state are there once, the others once per worker. */
typedef struct {
    int nlines;
    yk_layer_line line[YK_MAX_LINES];
    uint64_t params;
    double flops, flops_back; /* of one example */
    uint64_t batch, examples; /* examples: 0 where it is not known */
    int workers;
    const char *optimizer;
    size_t weight_bytes, gradient_bytes, state_bytes, activation_bytes;
} yk_description;

/* --profile: where the time of worker 0 went, the longest first. */
typedef struct {
    int nlines;
    yk_profile_line line[YK_MAX_PROFILE_LINES];
    int threads;
    double peak; /* FLOP/s of one thread at best; 0: not known */
    double train_seconds;
} yk_profile;

typedef struct {
    int workers;
    uint64_t staleness;               /* YK_ASYNC: no bound */
    uint64_t steps, epochs, examples; /* of the whole run, with what was done before a resume */
    uint64_t trained_here;            /* examples, by this process */
    uint64_t resumed_from;            /* step */
    uint64_t params;
    double lr;            /* as resolved */
    double seconds;       /* from the first step to the end, with evaluation and checkpoints */
    double train_seconds; /* without them */
    double load_seconds, eval_seconds, checkpoint_seconds, first_step_seconds;
    double train_loss; /* mean over the examples since the last evaluation */
    bool tested;
    yk_score test, best; /* best: of generated data, what a perfect model would get */
    bool best_known;
    uint64_t bad_records;
    yk_staleness observed;
    bool interrupted;
    char *checkpoint, *run_dir;  /* NULL: none */
    yk_description *description; /* --dry-run; then nothing else is known. NULL: not asked for */
    yk_profile *profile;         /* --profile */
} yk_result;

yk_status yk_train(const yk_config *c, const volatile sig_atomic_t *stop, double started, yk_result *out);
void yk_result_fini(yk_result *r);

#endif
