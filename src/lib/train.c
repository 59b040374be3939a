/* yoke_train() and yoke_run: training in this process, or in a job of several processes (child_job.c). */
#include "lib/internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "format/json_value.h"
#include "train/run_dir.h"
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct yoke_run {
    char *summary, *text, *profile, *directory;
    json_t *values; /* the summary, parsed */
    yk_trained *trained;
};

/* ---- callbacks ---- */

typedef struct {
    const yoke_training *t;
    pthread_mutex_t lock; /* one call at a time */
    bool canceled;        /* by a callback: progress and metrics are not called again */
} caller;

static void forward_line(void *context, yk_log_level level, const char *text)
{
    caller *c = context;
    if (!c->t->log)
        return;
    pthread_mutex_lock(&c->lock);
    c->t->log(c->t->context, level == YK_LOG_NOTE ? YOKE_NOTE : YOKE_WARNING, text);
    pthread_mutex_unlock(&c->lock);
}

/* Calls one of the two callbacks. Returns whether the run is canceled. */
static bool forward(caller *c, const yoke_progress *p, const yoke_metrics *m)
{
    pthread_mutex_lock(&c->lock);
    if (!c->canceled)
        c->canceled = p ? c->t->progress(c->t->context, p) : c->t->metrics(c->t->context, m);
    const bool canceled = c->canceled;
    pthread_mutex_unlock(&c->lock);
    return canceled;
}

static bool forward_progress(void *context, const yoke_progress *p)
{
    return forward(context, p, NULL);
}

static bool forward_metrics(void *context, const yoke_metrics *m)
{
    return forward(context, NULL, m);
}

/* ---- the run ---- */

/* NULL: none, or from a spec. */
static const yk_memory_data *memory_of(const yoke_data *d)
{
    return d && !d->spec ? &d->memory : NULL;
}

static yk_status train_here(const yoke_training *t, caller *by, const yk_config *c, yoke_run *run)
{
    static const volatile sig_atomic_t never;
    const bool writes = c->out && strcmp(c->out, "none") && !c->dry_run;
    const yk_train_caller train_caller = {.stop = t->cancel ? t->cancel : &never,
                                          .started = yk_now(),
                                          .single = true,
                                          .data = memory_of(t->data),
                                          .test = memory_of(t->test),
                                          .validation = memory_of(t->validation),
                                          .start = (const yk_trained *)t->start,
                                          .keep_model = !t->discard_model,
                                          .keep_state = t->keep_state,
                                          .continues = t->keep_state == 1,
                                          .context = by,
                                          .progress = t->progress ? forward_progress : NULL,
                                          .metrics = t->metrics ? forward_metrics : NULL};
    yk_result result = {0};
    yk_status st = writes ? yk_run_dir_check(c->out) : YK_OK;
    if (st)
        return st;
    st = yk_train(c, &train_caller, &result);
    run->trained = result.trained;
    result.trained = NULL;
    yk_status taken; /* the error text is replaced only if this fails */
    if (!(taken = yk_result_summary(c, &result, &run->summary)) &&
        !(taken = yk_result_text(c, &result, &run->text)) &&
        !(taken = yk_result_profile(&result, &run->profile)) && result.run_dir &&
        !(run->directory = strdup(result.run_dir)))
        taken = yk_fail_memory(strlen(result.run_dir), "a path");
    yk_result_fini(&result);
    return st ? st : taken;
}

static yk_status train_in_job(const yoke_training *t, const yk_config *c, yoke_run *run)
{
    if (t->start || memory_of(t->data) || memory_of(t->test) || memory_of(t->validation))
        return yk_fail(YK_EUSAGE, "data in memory and an initial model (start) require a single process; do "
                                  "not set launch, hosts or hostfile");
    return yk_child_job(t, c, &run->summary);
}

/* ---- yoke_train() ---- */

/* A data object overrides the option of this name. NULL: none. */
static yk_status set_spec(yk_config *c, const char *option, const yoke_data *d)
{
    return d ? yk_config_set(c, option, d->spec ? d->spec : "memory") : YK_OK;
}

static yk_status set_data(const yoke_training *t, yk_config *c)
{
    const char *data = t->data ? t->data->spec : NULL, *test = t->test ? t->test->spec : NULL;
    if (data && t->data->split != YK_SPLIT_TRAIN)
        return yk_fail(YK_EUSAGE,
                       "yoke_training: data is the test split of %s; training needs YOKE_TRAIN_SPLIT", data);
    if (test && t->test->split != YK_SPLIT_TEST)
        return yk_fail(YK_EUSAGE,
                       "yoke_training: test is the training split of %s; test data needs YOKE_TEST_SPLIT",
                       test);
    const yk_source_options none = {0}, *o = data ? &t->data->options : &none;
    c->features = o->features ? (int64_t)o->features : c->features;
    c->hash_bits = o->hash_bits ? (int64_t)o->hash_bits : c->hash_bits;
    c->skip_bad = o->skip_bad ? (int64_t)o->skip_bad : c->skip_bad;
    yk_status st = set_spec(c, "data", t->data);
    if (!st)
        st = set_spec(c, "test", t->test);
    return st ? st : set_spec(c, "validation", t->validation);
}

yoke_status yoke_train(const yoke_training *training, yoke_run **run_out, yoke_error *error)
{
    yoke_training local = {0};
    const yoke_training *t = &local;
    *run_out = NULL;
    yk_status checked = YK_API_STRUCT(&local, training, cancel);
    if (!checked && !t->options)
        checked = yk_fail(YK_EUSAGE, "yoke_training: options is not set");
    if (checked)
        return yk_api_status(checked, error);
    yoke_run *run = calloc(1, sizeof *run);
    if (!run)
        return yk_api_status(yk_fail_memory(sizeof *run, "a run"), error);
    const yk_log *before = yk_log_get();
    caller by = {t, PTHREAD_MUTEX_INITIALIZER, false};
    const yk_log log = {.line = forward_line, .context = &by, .width = before ? before->width : NULL};
    yk_log_set(&log);
    yk_config config;
    yk_status st = yk_options_resolve(t->options, false, &config);
    if (!st)
        st = set_data(t, &config);
    if (!st)
        st = yk_config_starts_job(&config) ? train_in_job(t, &config, run) : train_here(t, &by, &config, run);
    yk_config_fini(&config);
    yk_log_set(before);
    pthread_mutex_destroy(&by.lock);
    if (run->summary)
        run->values = json_loads(run->summary, 0, NULL);
    if (run->values && !run->directory && json_is_string(json_object_get(run->values, "run")))
        run->directory = strdup(json_string_value(json_object_get(run->values, "run")));
    const yoke_status status = yk_api_status(st, error);
    if (run->summary)
        *run_out = run;
    else
        yoke_run_free(run);
    return status;
}

const char *yoke_run_summary(const yoke_run *r)
{
    return r->summary;
}

const char *yoke_run_text(const yoke_run *r)
{
    return r->text ? r->text : r->summary;
}

const char *yoke_run_profile(const yoke_run *r)
{
    return r->profile;
}

const char *yoke_run_directory(const yoke_run *r)
{
    return r->directory;
}

double yoke_run_number(const yoke_run *r, const char *key)
{
    const json_t *value = yk_value_at(r ? r->values : NULL, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

yoke_status yoke_run_model(const yoke_run *r, yoke_model **out, yoke_error *error)
{
    *out = NULL;
    if (r->trained) {
        yk_trained_retain(r->trained);
        *out = (yoke_model *)r->trained;
        return yk_api_status(YK_OK, error);
    }
    const char *checkpoint = json_string_value(json_object_get(r->values, "checkpoint"));
    if (checkpoint)
        return yoke_model_load(checkpoint, out, error);
    return yk_api_status(yk_fail(YK_EUSAGE, "the run has no model: it was a dry run, failed, discarded it, "
                                            "or ran in several processes with the option out = none"),
                         error);
}

void yoke_run_free(yoke_run *r)
{
    if (!r)
        return;
    free(r->summary);
    free(r->text);
    free(r->profile);
    free(r->directory);
    json_decref(r->values);
    yk_trained_release(r->trained);
    free(r);
}
