/* Estimates by trial: how fast the run would be with one more worker, with twice the batch, or asynchronous.
 *
 * How long a step takes with other options depends on caches, memory, the cost of barriers and the cores that threads happen
 * to run on. The times of the run itself do not show that. So after training, the unchanged and the changed runs train for
 * some milliseconds in turn, on parameters of their own, which are then dropped:
 *
 *     training ......................| same | worker | batch | async | same | worker | batch | async | ... | summary
 *
 * The speedup of a change is the ratio of good trials: the upper quartiles over the rounds. A trial is the loop of loop.c with
 * a trainer of its own, which shares only the model and the data. It is not the chief, so it neither evaluates nor saves. The
 * first part of each trial warms up. The rest counts whole steps; if epochs are short, whole epochs, because the last step of
 * an epoch has fewer examples but may take as long as the others. All trials together take a small part of the training time.
 *
 * Processes of a job try only twice the batch, each on its own, to measure how much longer computing takes. There are no
 * trials on streamed data, of keyed parameters in a job, or if steps are too long: then estimates follow from measured times
 * (observe/verdict_estimate.c).
 */
#include "train/background.h"
#include "train/loop.h"
#include "train/saver.h"
#include "train/setup.h"

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/wait.h"
#include <math.h>
#include <sys/resource.h>
#include <time.h>

static const double min_trained = 1.0;                   /* seconds of a run that makes trials */
static const double max_share = 0.15, max_seconds = 0.5; /* of all trials */
static const double shortest = 4e-3;                     /* seconds of a trial, at least, and */
enum { STEPS = 12, MIN_ROUNDS = 2, MAX_ROUNDS = 9 };     /* as many unchanged steps */
static const double warm_up = 0.4;                       /* share of a trial */
static const size_t max_bytes = (size_t)64 << 20;        /* of parameters that need initial values */
enum { SAME = YK_CHANGES, TRIALS };

typedef struct {
    yk__trainer trainer;
    yk_config config;
    yk_train_caller caller;
    yk__saver saver; /* not used: a trial saves nothing */
    yk_result result;
    volatile sig_atomic_t stop;
    uint64_t unit;        /* examples: the rate counts whole multiples of them */
    double seconds, rate; /* of this trial; examples per second */
} trial;

/* ---- one trial ---- */

static void set_change(const yk__trainer *t, int change, yk_config *c)
{
    *c = *t->config;
    c->workers = t->local_workers + (change == YK_CHANGE_WORKER);
    c->batch = (int64_t)(t->plan->batch * (change == YK_CHANGE_BATCH ? 2 : 1));
    c->steps = c->quorum = c->local_steps = 0;
    c->epochs = c->eval_every = c->checkpoint_every = INT64_MAX;
    if (change == YK_CHANGE_ASYNC) {
        c->mode = (char *)"async"; /* not modified */
        c->staleness = YK_BY_GROUP_NONE;
    }
}

static void set_up(const yk__trainer *t, int change, trial *r)
{
    yk__trainer *u = &r->trainer;
    set_change(t, change, &r->config);
    r->caller = (yk_train_caller){.single = true, .stop = &r->stop};
    yk_plan_describe(&r->config, 1, yk_cores(), &r->result.plan);
    r->result.plan.unit = t->plan->unit;
    *u = (yk__trainer){.config = &r->config,
                       .plan = &r->result.plan,
                       .caller = &r->caller,
                       .result = &r->result,
                       .saver = &r->saver,
                       .train = t->train,
                       .remap = t->remap,
                       .model = t->model,
                       .mean_square = t->mean_square,
                       .local_workers = r->result.plan.workers,
                       .first_steps = UINT64_MAX / 2, /* stagger.c: all begin at once */
                       .cluster = {.rank = 1, .ranks = 1}};
    for (int g = 0; g < t->model->ngroups; g++) {
        u->group[g] = t->group[g];
        u->group[g].staleness =
            yk_plan_group(&r->config, u->plan, t->model->group[g].name, t->model->group[g].keyed).staleness;
    }
}

/* Waits until the workers complete the next unit of examples, or for the length of a trial. Returns the examples so far. */
static uint64_t next_unit(const trial *r, double *now_out)
{
    yk_wait w = yk_wait_every(r->seconds / 500.0, r->seconds);
    yk_phases_sample s;
    yk_phases_read_all(r->trainer.phases, r->trainer.local_workers, &s);
    const uint64_t before = s.examples / r->unit;
    for (bool more = true; more && s.examples / r->unit == before;) {
        more = yk_wait_poll(&w);
        yk_phases_read_all(r->trainer.phases, r->trainer.local_workers, &s);
    }
    *now_out = yk_now();
    return s.examples;
}

/* Reads the clock while the workers train in the background, and then stops them. */
static void measure(trial *r)
{
    double began, ended;
    yk_sleep(warm_up * r->seconds);
    const uint64_t before = next_unit(r, &began);
    yk_sleep((1.0 - warm_up) * r->seconds);
    const uint64_t after = next_unit(r, &ended);
    r->rate = (double)(after - before) / (ended - began);
    __atomic_store_n(&r->stop, 1, __ATOMIC_RELAXED);
}

/* A trial continues after the steps of the run: learning rates, and how long copies live, depend on them. */
static uint64_t steps_so_far(const yk__trainer *t, const yk_plan *plan)
{
    return yk__progress_now(t).examples / (plan->batch * plan->gradients_per_step);
}

static yk_status try_change(const yk__trainer *t, int change, double seconds, uint64_t unit, double *rate_out)
{
    yk__background training;
    trial *r = yk_alloc(1, sizeof *r, "a trial");
    if (!r)
        return YK_ESYSTEM;
    set_up(t, change, r);
    r->seconds = seconds;
    r->unit = unit;
    yk_status st = yk__create_workers(&r->trainer);
    if (!st) {
        yk_local_restore(r->trainer.local, steps_so_far(t, &r->result.plan));
        st = yk__background_start(&training, yk__run_workers, &r->trainer, "the workers of a trial");
        if (!st)
            measure(r);
        st = yk__background_join(&training, st);
    }
    yk__free_workers(&r->trainer);
    *rate_out = r->rate;
    yk_free(r);
    return st;
}

/* ---- all trials ---- */

static bool is_possible(const yk__trainer *t)
{
    const bool single = t->plan->role == YK_ROLE_SINGLE;
    const size_t bytes = yk__parameter_bytes(t);
    return (single || !yk_model_keys(t->model)) && t->plan->role != YK_ROLE_SERVER && t->train.rows &&
           t->train.rows->n && bytes < (t->model->ops->init ? max_bytes : 16 * max_bytes) &&
           4.0 * (double)bytes < yk_memory_available("/proc", "/sys") && !yk__thread_clock;
}

static bool is_tried(const yk__trainer *t, int change)
{
    const bool single = t->plan->role == YK_ROLE_SINGLE;
    return change == SAME || change == YK_CHANGE_BATCH || (single && change == YK_CHANGE_WORKER) ||
           (single && change == YK_CHANGE_ASYNC && t->plan->synchronous && t->plan->workers > 1);
}

/* Returns the number of rounds that there is time for. *each_out: seconds of one trial. *unit_out: an epoch, if the measured part
 * of a trial has one; otherwise a step. */
static int plan_rounds(const yk__trainer *t, double trained, double *each_out, uint64_t *unit_out)
{
    yk_phases_sample all;
    int trials = 0;
    for (int k = 0; k < TRIALS; k++)
        trials += is_tried(t, k);
    yk_phases_read_all(t->phases, t->local_workers, &all);
    const double steps = (double)all.steps / t->local_workers, rate = (double)all.examples / trained,
                 seconds = fmin(max_share * trained, max_seconds);
    *each_out = steps > 0.0 ? fmax(shortest, STEPS * trained / steps) : (double)INFINITY;
    *unit_out = rate * (1.0 - warm_up) * *each_out > (double)t->train.rows->n ? t->train.rows->n : 1;
    return (int)fmin(seconds / (*each_out * trials), MAX_ROUNDS);
}

/* The rate of an undisturbed trial: other programs, and other users of a virtual machine, only make trials slower. */
static double upper_quartile(double *x, int n)
{
    yk__sort(x, n);
    return x[n - 1 - n / 4];
}

static yk_status run_trials(const yk__trainer *t, int rounds, double each, uint64_t unit, yk_trials *out)
{
    double rate[TRIALS][MAX_ROUNDS] = {{0.0}}, speed[TRIALS];
    const double examples = (double)t->plan->batch * t->local_workers,
                 deadline = yk_now() + 2.0 * max_seconds;
    double unused;
    yk_status st =
        try_change(t, SAME, each, unit, &unused); /* later trials get the memory that this one frees */
    int i = 0;
    for (; !st && i < rounds && yk_now() < deadline; i++) /* it takes longer on a busy host */
        for (int k = 0; !st && k < TRIALS; k++) {
            const int change = (k + i) % TRIALS; /* a different one first in each round */
            st = is_tried(t, change) ? try_change(t, change, each, unit, &rate[change][i]) : YK_OK;
        }
    if (st || i < MIN_ROUNDS)
        return st;
    for (int k = 0; k < TRIALS; k++)
        speed[k] = upper_quartile(rate[k], i);
    if (!(speed[SAME] > 0.0))
        return YK_OK;
    for (int k = 0; k < YK_CHANGES && t->plan->role == YK_ROLE_SINGLE; k++)
        out->speedup[k] = speed[k] / speed[SAME];
    if (speed[YK_CHANGE_BATCH] > 0.0) /* seconds of a step */
        out->longer = 2.0 * examples / speed[YK_CHANGE_BATCH] - examples / speed[SAME];
    return YK_OK;
}

void yk__try_changes(const yk__trainer *t, double trained, yk_trials *out)
{
    struct rusage before;
    double each;
    uint64_t unit;
    *out = (yk_trials){0};
    if (trained < min_trained || t->caller->keep_model ||
        !is_possible(t)) /* programs do not read estimates */
        return;
    const int rounds = plan_rounds(t, trained, &each, &unit);
    if (rounds < MIN_ROUNDS)
        return;
    getrusage(RUSAGE_SELF, &before);
    const clock_t began = clock();          /* CPU time */
    run_trials(t, rounds, each, unit, out); /* an error means: no estimates */
    out->peak_rss = (double)before.ru_maxrss * 1024.0;
    out->cpu_seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
}
