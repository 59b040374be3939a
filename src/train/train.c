#include "train/train.h"

#include "train/loop.h"
#include "train/run_dir.h"
#include "train/setup.h"
#include "train/summary.h"
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the run directory ---- */

/* For a new run: a directory with a run, or with a file of that name that yoke did not write, is refused. */
static yk_status check_unused(const char *dir)
{
    static const char *const file[] = {"config.ini", "metrics.jsonl", "summary.json", "trace.json"};
    yk_status st = YK_OK;
    for (size_t i = 0; !st && i < sizeof file / sizeof *file; i++) {
        const int there = yk_open_in(dir, file[i], O_PATH);
        if (there < 0)
            continue;
        yk_fs_close(there);
        st = i == 0
                 ? yk_fail(YK_EUSAGE,
                           "%s already holds a run: continue it with --resume, or choose another --out", dir)
                 : yk_fail(YK_EUSAGE,
                           "%s has no run, but it has %s, which the run would replace: choose another --out",
                           dir, file[i]);
    }
    return st;
}

static yk_status make_run_dir(yk__trainer *t)
{
    const yk_config *c = t->config;
    if (c->out && strcmp(c->out, "none") == 0)
        return YK_OK;
    yk_status st = yk_run_dir_choose(c->out, c->model, &t->result->run_dir);
    const char *dir = t->result->run_dir;
    if (!st)
        st = yk_run_dir_acquire(dir, &t->lock);
    return st || c->resume ? st : check_unused(dir);
}

/* Called after all checks, so that a --resume with wrong options leaves config.ini and summary.json unchanged. From here on
 * the directory belongs to this run, and the summary of an earlier part is not true any more. */
static yk_status claim_run_dir(yk__trainer *t)
{
    const char *dir = t->result->run_dir;
    if (!dir)
        return YK_OK;
    t->done_summary = t->config->resume ? yk_summary_if_done(dir, t->step) : NULL;
    yk_status st = yk_config_save(t->config, dir, "config.ini");
    if (!st)
        st = yk_remove_in(dir, "summary.json");
    t->run_dir_claimed = !st;
    return st;
}

/* ---- setup ---- */

static yk_status make_worker(yk__trainer *t, yk__worker_state *w)
{
    yk_status st = yk_workspace_create(t->model, yk__max_batch(t), &w->work);
    w->p = yk_alloc(YK__EVAL_BATCH * t->model->outputs, sizeof(float), "an evaluation");
    return st ? st : w->p ? YK_OK : YK_ESYSTEM;
}

/* A process with all parameters evaluates with its workers. A chief that serves evaluates in the background, with as many
 * threads as it trains or serves with: if that took longer than the steps until the next evaluation, workers would wait. */
static int evaluators_of(const yk__trainer *t)
{
    const yk_plan *p = t->plan;
    return p->whole               ? p->workers
           : t->cluster.rank != 0 ? 1
           : p->trains            ? p->workers_per_process
                                  : p->serving_threads;
}

static yk_status make_workers(yk__trainer *t)
{
    const bool serves = t->plan->serves;
    const int own = t->plan->trains ? t->local_workers : 0, first = own && serves ? t->plan->workers : 0;
    yk_status st = YK_OK;
    t->nevaluators = evaluators_of(t);
    t->nworkers = first + t->nevaluators > t->plan->workers ? first + t->nevaluators : t->plan->workers;
    t->worker = yk_alloc((size_t)t->nworkers, sizeof *t->worker, "the workers");
    if (!t->worker)
        return YK_ESYSTEM;
    for (int i = 0; !st && i < own; i++) {
        t->worker[i].phases = &t->phases[i];
        st = make_worker(t, &t->worker[i]);
    }
    t->evaluator = &t->worker[first];
    if (serves)
        t->evaluator->phases = yk__serving_phases(t);
    for (int i = 0; !st && serves && i < t->nevaluators; i++)
        st = make_worker(t, &t->evaluator[i]);
    return st;
}

/* Everything that a worker needs except its store, which depends on the first step. */
static yk_status create_workers(yk__trainer *t)
{
    const size_t threads = (size_t)t->local_workers + 1; /* the last one: yk__serving_phases() */
    yk_status st = yk_team_create(t->local_workers, &t->team);
    if (!st)
        yk_team_set_timeout(t->team, t->plan->team_timeout);
    if (!st && !(t->phases = yk_alloc(threads, sizeof *t->phases, "time measurements")))
        st = YK_ESYSTEM;
    if (st)
        return st;
    if ((st = yk__make_parameters(t)) || (st = yk__make_feed(t)))
        return st;
    return make_workers(t);
}

/* Also those that were created only in part. */
static void free_workers(yk__trainer *t)
{
    for (int i = 0; t->worker && i < t->nworkers; i++) {
        if (t->worker[i].work)
            yk_workspace_free(t->model, t->worker[i].work);
        for (int set = 0; set < YK__SETS; set++)
            yk_tally_fini(&t->worker[i].tally[set]);
        yk_free(t->worker[i].p);
    }
    yk_free(t->worker);
    yk_feed_free(t->feed);
    yk_local_free(t->local);
    yk_free(t->phases);
    yk_team_free(t->team);
}

/* What a run needs besides its model. */
static yk_status make_rest(yk__trainer *t)
{
    const bool chief = t->cluster.rank == 0;
    yk_status st;
    t->local_workers = t->plan->trains ? t->plan->workers_per_process : 1;
    if ((st = yk__check_memory(t)) || (st = yk__sort_keys(t)) || (st = yk__lr_search(t)) ||
        (st = create_workers(t)) || (chief && (st = make_run_dir(t))) || (st = yk__resume(t)))
        return st;
    /* yk__make_store() may renumber the keys of the data, which yk__cluster_check() compares */
    const uint64_t hash = !t->plan->alone && t->plan->whole ? yk__parameter_hash(t) : 0;
    yk__schedule *s = &t->schedule;
    s->evaluates = yk__is_evaluated(t);
    s->saves = t->result->run_dir;
    s->reports = chief;
    s->save_cost = 1e-9 * (double)yk__parameter_bytes(t); /* all of it is copied and written, at 1 GB/s */
    yk__schedule_init(s, t->plan, t->step, yk__epoch_examples(t));
    if ((st = yk__cluster_check(t, hash)) || (st = yk__make_store(t)) || (chief && (st = claim_run_dir(t))))
        return st;
    return yk__observe(t);
}

static yk_status set_up(yk__trainer *t)
{
    const yk_config *c = t->config;
    /* a port that is in use is found before the data is loaded */
    const bool listens = t->cluster.rank == 0 && c->http && !c->dry_run;
    yk_status st = listens ? yk_http_listen(c->http, &t->http) : YK_OK;
    if (!st)
        st = yk__make_model(t);
    if (st)
        return st;
    return c->dry_run ? yk__describe(t) : make_rest(t);
}

static void tear_down(yk__trainer *t)
{
    yk_http_stop(t->http);
    yk_observer_free(t->observer);
    free(t->done_summary);
    free(t->resumed.cursor);
    yk__cluster_free(t);
    free_workers(t);
    yk_model_free(t->model);
    yk_free(t->class_weight);
    yk_keymap_fini(&t->keymap);
    yk_dataset_fini(&t->train);
    for (int i = 0; i < YK__SETS; i++) {
        yk_dataset_fini(&t->set[i].data);
        yk_tally_fini(&t->set[i].tally);
    }
    yk__selection_fini(&t->selection);
    yk_positions_fini(&t->positions);
    yk__saver_fini(&t->saver);
    yk_lock_release(t->lock);
    free(t->start.path);
    yk_schema_free(t->schema);
    free(t->schema_text);
}

static yk_status train_or_serve(yk__trainer *t)
{
    const yk__cluster *k = &t->cluster;
    if (k->joined)
        yk_note("joined the job in %s as an additional worker", t->config->join);
    yk_phases *serving = k->server ? yk__serving_phases(t) : NULL;
    if (serving) {
        serving->first = YK_PHASE_RECEIVING;
        yk_phases_begin(serving, 1);
    }
    yk_status st = t->plan->has_progress_thread || k->server ? yk__serve(t) : yk__run_workers(t);
    yk_phases_end(serving);
    if (!st && k->joined)
        yk_note("trained on %llu example%s for this job", (unsigned long long)t->worker[0].examples,
                yk_plural(t->worker[0].examples));
    return st;
}

static yk_status run(yk__trainer *t)
{
    if (t->cluster.rank == 0)
        yk__print_plan(t);
    t->training_started = t->schedule.saved_at = yk_now();
    yk_status st = yk_observer_start(t->observer, t->training_started);
    yk__begin_progress(t);
    if (!st)
        st = yk__cluster_ready(t);
    return st ? st : yk__saver_finish(t, train_or_serve(t));
}

/* The best model, if there is a validation set; else the last one, with the optimizer's state if the caller wants it. */
static yk_status keep_model(yk__trainer *t, yk_trained **out)
{
    const yk__selection *s = &t->selection;
    const bool earlier = s->best.step && s->best.step != t->step;
    char *path = NULL;
    yk_status st = earlier && t->result->run_dir ? yk_checkpoint_best(t->result->run_dir, &path) : YK_OK;
    if (!st && path)
        st = yk_trained_load(path, out);
    const bool loaded = path != NULL;
    free(path);
    if (st || loaded)
        return st;
    for (int g = 0; earlier && s->parameters && g < t->model->ngroups; g++)
        memcpy(yk_local_table(t->local, g).w, s->parameters + yk_model_group_offset(t->model, g),
               yk_group_floats(&t->model->group[g]) * sizeof(float));
    st = yk_trained_take(t->config->model, t->schema_text, t->model, t->local, t->remap, out);
    return st || earlier || !t->caller->keep_state
               ? st
               : yk_trained_keep_state(*out, t->local, t->remap, t->start.earlier + t->step);
}

yk_status yk_train(const yk_config *c, const yk_train_caller *caller, yk_result *out)
{
    *out = (yk_result){.train_loss = (double)NAN};
    yk__trainer t = {.config = c, .plan = &out->plan, .caller = caller, .result = out};
    yk_positions_init(&t.positions, 0);
    const yk_metric_kind *monitor;
    yk_status st = yk_config_check(c);
    if (!st)
        st = yk__monitor_find(c, &monitor); /* reports an error before the data is loaded */
    if (!st)
        st = yk_model_parse(c->model, &t.description);
    if (!st)
        st = yk__cluster_start(&t);
    if (!st)
        st = set_up(&t);
    if (st || !c->dry_run)
        st = yk__end_run(&t, st ? st : run(&t));
    if (!st && caller->keep_model && !c->dry_run && t.plan->alone)
        st = keep_model(&t, &out->trained);
    tear_down(&t);
    return st;
}

void yk_result_fini(yk_result *r)
{
    free(r->checkpoint);
    free(r->run_dir);
    free(r->error);
    free(r->description);
    free(r->profile);
    yk_eval_metrics_fini(&r->metrics);
    free(r->metrics_json);
    yk_observation_fini(&r->observation);
    yk_trained_release(r->trained);
    *r = (yk_result){0};
}
