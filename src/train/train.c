#include "train/train.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/number.h"
#include "train/run_dir.h"
#include "train/summary.h"
#include "train/trainer.h"
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static yk_optim_config optimizer_of(const yk_config *c, yk_optim_kind kind)
{
    yk_optim_config o = yk_optim_defaults(kind);
    o.lr = c->lr >= 0.0 ? c->lr : o.lr;
    o.l1 = c->l1;
    o.l2 = c->l2;
    o.momentum = c->momentum >= 0.0 ? c->momentum : o.momentum;
    o.lr_decay_every = (uint64_t)c->lr_decay_every;
    if (c->lr_schedule)
        o.schedule = !strcmp(c->lr_schedule, "step")      ? YK_LR_STEP
                     : !strcmp(c->lr_schedule, "inverse") ? YK_LR_INVERSE
                                                          : YK_LR_CONSTANT;
    o.lr_decay = c->lr_decay >= 0.0 ? c->lr_decay : o.schedule == YK_LR_INVERSE ? 1e-3 : 0.1;
    return o;
}

/* ---- the run directory ---- */

static yk_status make_run_dir(yk__trainer *t)
{
    const yk_config *c = t->config;
    if (c->out && strcmp(c->out, "none") == 0)
        return YK_OK;
    char *dir = c->out ? strdup(c->out) : yk_run_dir_name(c->model);
    if (!dir)
        return yk_fail_memory(64, "a path");
    t->result->run_dir = dir;
    yk_status st = yk_run_dir_take(dir, &t->lock);
    const int there = st || c->resume ? -1 : yk_open_in(dir, "config.ini", O_PATH);
    if (there >= 0) {
        close(there);
        st = yk_fail(YK_EUSAGE, "%s already holds a run: continue it with --resume, or choose another --out",
                     dir);
    }
    return st;
}

/* Only once everything fits together: a --resume with options that do not leaves the run's own ones in cursor. From here on the
 * directory is this run's, and what an earlier part of it said at its end does not hold any more. */
static yk_status begin_run(yk__trainer *t)
{
    const char *dir = t->result->run_dir;
    if (!dir)
        return YK_OK;
    t->done_summary = t->config->resume ? yk_summary_if_done(dir, t->step) : NULL;
    yk_status st = yk_config_save(t->config, dir, "config.ini");
    if (!st)
        st = yk_remove_in(dir, "summary.json");
    t->is_run = !st;
    return st;
}

/* Looks for a checkpoint and loads it into `store`; *path_out is NULL where there is none. */
static yk_status load(yk__trainer *t, yk_local *store, yk_progress_state *p, char **path_out)
{
    *path_out = NULL;
    if (!t->config->resume)
        return YK_OK;
    yk_status st = yk_checkpoint_find(t->result->run_dir, path_out);
    if (!st && !*path_out)
        yk_note("%s: no checkpoint yet, starting from the beginning", t->result->run_dir);
    if (st || !*path_out)
        return st;
    t->result->checkpoint = *path_out;
    st = yk_checkpoint_load(*path_out, t->model, store, t->names, p);
    if (!st)
        yk_note("going on from %s (step %llu)", *path_out, (unsigned long long)p->step);
    return st;
}

static yk_status restore_cluster(yk__trainer *t)
{
    yk_progress_state p = {0};
    yk_local *store = t->cluster.whole ? t->cluster.whole : t->local;
    char *path = NULL;
    yk_startup_enter(t->cluster.startup, YK_STARTUP_BUSY, "loading the checkpoint");
    yk_status st = t->cluster.rank == 0 ? load(t, store, &p, &path) : YK_OK;
    yk_startup_enter(t->cluster.startup, YK_STARTUP_WAITING, "");
    if (!st)
        st = yk__cluster_restore(t, path ? store : NULL, &p);
    free(p.cursor);
    return st;
}

static yk_status restore(yk__trainer *t)
{
    yk_progress_state p = {0};
    char *path;
    if (t->cluster.role != YK__ALONE)
        return restore_cluster(t);
    yk_status st = load(t, t->local, &p, &path);
    if (st || !path)
        return st;
    st = yk_feed_cursor_restore(t->feed, p.cursor, p.ncursor, p.step);
    if (!st) {
        t->step = t->last_save = t->result->resumed_from = p.step;
        t->last_eval = UINT64_MAX; /* this process has not tested yet */
        t->epoch = p.epoch;
        t->earlier_examples = p.examples;
        t->earlier_seconds = p.seconds;
        t->evaluator->period_loss = p.period_loss;
        t->evaluator->period_examples = p.period_examples;
    }
    free(p.cursor);
    return st;
}

/* ---- putting it together ---- */

/* Data, model and optimizer; --dry-run ends here. */
static yk_status make_model(yk__trainer *t, yk_net_options *net)
{
    const yk_config *c = t->config;
    yk_optim_kind kind = YK_SGD;
    yk_status st = c->optimizer ? yk_optim_find(c->optimizer, &kind) : YK_OK;
    t->optim = optimizer_of(c, kind);
    if (st || (st = yk_optim_check(&t->optim)) || (st = yk__net_options_of(c, net)) ||
        (st = yk__load_data(t)) || (st = yk__cluster_shape(t)) || (st = yk__decay_by_epochs(t)) ||
        (st = yk__net_channels(t, net)))
        return st;
    t->result->lr = t->optim.lr;
    t->result->load_seconds = yk_now() - t->started;
    yk_model_shape shape = {.kind = t->train.kind,
                            .classes = t->train.classes,
                            .bias = !c->no_bias,
                            .channels = t->train.source->channels,
                            .height = t->train.source->height,
                            .width = t->train.source->width,
                            .threads = t->plan->threads,
                            .net = *net};
    if ((st = yk__columns_of(t, &shape.dim)) || (st = yk_model_create(c->model, &shape, &t->model)))
        return st;
    for (int i = 0; i < t->model->ntensors; i++)
        t->result->params += t->model->tensor[i].size; /* without padding */
    return yk__bias_groups(t);
}

/* The configuration of a store for all parameters; with one worker, unless this process is alone. */
static yk_local_config whole_of(const yk__trainer *t, const yk_net_options *net)
{
    const float inputs = net->standardize ? 1.0f : t->mean_square;
    const bool alone = t->cluster.role == YK__ALONE;
    yk_local_config c = {.ngroups = t->model->ngroups,
                         .team = t->team,
                         .workers = alone ? t->plan->workers : 1,
                         .batch = t->plan->batch,
                         .keymap = t->names,
                         .mean_square = t->model->ops->init || !alone
                                            ? 0.0f
                                            : inputs, /* a network's step is long: no copies */
                         .norm = t->names ? t->keymap.norm : inputs * (float)t->model->shape.dim,
                         .phases = t->phases,
                         .interrupted = &t->barrier_due};
    for (int g = 0; g < c.ngroups; g++) {
        const bool keyed = t->model->group[g].keyed;
        c.group[g] = (yk_local_group){.shape = t->model->group[g],
                                      .optim = t->optim,
                                      .staleness = alone ? t->plan->staleness : 0,
                                      .range = t->range,
                                      .nranges = keyed ? 0 : t->nranges};
    }
    return c;
}

/* Creates what this process has of the parameters, according to its role. */
static yk_status make_parameters(yk__trainer *t, const yk_net_options *net)
{
    t->mean_square = yk__mean_square(&t->train);
    const yk_local_config whole = whole_of(t, net);
    return t->cluster.role == YK__ALONE ? yk_local_create(&whole, &t->local) : yk__cluster_stores(t, &whole);
}

/* What the workers of this process train on, once it is known where training begins. */
static yk_status make_store(yk__trainer *t, const yk_net_options *net)
{
    if (t->cluster.role == YK__ALONE)
        t->store = yk_local_store(t->local);
    if (t->store || t->cluster.role == YK__SERVER)
        return YK_OK;
    const yk_local_config whole = whole_of(t, net);
    return yk__cluster_store(t, &whole);
}

static yk_status make_feed(yk__trainer *t)
{
    const bool leased = t->cluster.remote && !t->plan->lockstep; /* examples come from the chief */
    const yk_feed_plan plan = {.workers = t->plan->workers,
                               .batch = t->plan->batch,
                               .seed = (uint64_t)t->config->seed,
                               .epochs = t->plan->epochs,
                               .steps = leased ? UINT64_MAX : t->plan->steps,
                               .synchronous = t->plan->lockstep,
                               .window_bytes = (size_t)t->config->shuffle_mb << 20,
                               .unit = (size_t)t->unit,
                               .keymap = t->names,
                               .phases = t->phases,
                               .first = t->cluster.first_worker,
                               .lease = leased ? yk__lease : NULL,
                               .lease_context = t};
    return t->cluster.role == YK__SERVER ? YK_OK : yk_feed_create(&t->train, &plan, &t->feed);
}

static yk_status make_worker(yk__trainer *t, yk__worker_state *w)
{
    yk_status st = yk_model_work(t->model, yk__most_batch(t), &w->work);
    w->p = yk_alloc(YK__EVAL_BATCH * t->model->outputs, sizeof(float), "an evaluation");
    return st ? st : w->p ? YK_OK : YK_ESYSTEM;
}

static yk_status make_workers(yk__trainer *t)
{
    const bool shard = t->cluster.role == YK__SHARD;
    yk_status st = YK_OK;
    t->worker = yk_alloc((size_t)t->plan->workers + 1, sizeof *t->worker, "the workers");
    if (!t->worker)
        return YK_ESYSTEM;
    for (int i = 0; !st && i < t->here; i++) {
        t->worker[i].phases = &t->phases[i];
        st = make_worker(t, &t->worker[i]);
    }
    /* the chief of shards evaluates while its own workers train */
    t->evaluator = shard ? &t->worker[t->plan->workers] : t->worker;
    t->nevaluators = t->cluster.role == YK__ALONE || t->cluster.role == YK__REPLICA ? t->plan->workers : 1;
    return !st && shard ? make_worker(t, t->evaluator) : st;
}

/* The initial parameters of a model that does not start from zeros. */
static yk_status init_parameters(yk__trainer *t)
{
    yk_local *whole = yk__serves(t->cluster.role) ? t->cluster.whole : t->local; /* NULL: elsewhere */
    const yk_trained *start = t->host->start;
    if (!whole || (!t->model->ops->init && !start))
        return YK_OK;
    for (int g = 0; !start && g < t->model->ngroups; g++)
        t->model->ops->init(t->model, g, yk_local_raw(whole, g).live.w, (uint64_t)t->config->seed);
    yk_status st = start ? yk_trained_restore(start, t->config->model, t->model, whole, t->names) : YK_OK;
    yk_local_restore(whole, 0);
    return st;
}

static yk_status set_up(yk__trainer *t)
{
    const bool chief = t->cluster.rank == 0;
    yk_net_options net;
    yk_status st = make_model(t, &net);
    if (st || t->config->dry_run)
        return st ? st : yk__describe(t);
    if ((st = yk__order_keys(t)))
        return st;
    t->here = t->cluster.role == YK__SERVER ? 1 : t->plan->workers_per_process;
    if (!(t->phases = yk_alloc((size_t)t->here, sizeof *t->phases, "measuring")))
        return YK_ESYSTEM;
    if ((st = make_parameters(t, &net)) || (chief && (st = make_run_dir(t))) || (st = make_feed(t)) ||
        (st = make_workers(t)))
        return st;
    if ((st = init_parameters(t)) || (st = restore(t)) || (st = make_store(t, &net)) ||
        (st = yk__cluster_agree(t)) || (chief && (st = begin_run(t))) || (st = yk__observe(t)))
        return st;
    if (t->config->profile && t->model->ops->peak)
        t->peak = t->model->ops->peak();
    yk__schedule_make(t);
    return YK_OK;
}

static void tear_down(yk__trainer *t)
{
    yk_observer_free(t->observer);
    yk_free(t->phases);
    free(t->done_summary);
    for (int i = 0; t->worker && i <= t->plan->workers; i++) {
        if (t->worker[i].work)
            yk_work_free(t->model, t->worker[i].work);
        yk_tally_fini(&t->worker[i].tally);
        yk_free(t->worker[i].p);
    }
    yk_free(t->worker);
    yk__cluster_free(t);
    yk_feed_free(t->feed);
    yk_local_free(t->local);
    yk_model_free(t->model);
    yk_keymap_fini(&t->keymap);
    yk_dataset_fini(&t->train);
    yk_dataset_fini(&t->test);
    yk_team_free(t->team);
    yk_lock_release(t->lock);
}

/* For tests: YK_SLOW_WORKER=INDEX:FACTOR makes one worker slower than the others, INDEX:100ms by so much in each step. */
static void slow_down(yk__trainer *t)
{
    const char *text = getenv("YK_SLOW_WORKER");
    uint64_t worker;
    const char *colon = text ? yk_digits(text, INT_MAX, &worker) : NULL,
               *unit = colon && *colon == ':' ? yk_decimal(colon + 1, &t->slow_factor) : NULL;
    t->slow_worker = unit ? (int)worker : -1;
    if (unit && strcmp(unit, "ms") == 0) {
        t->slow_seconds = t->slow_factor * 1e-3;
        t->slow_factor = 1.0;
    }
}

static yk_status run(yk__trainer *t)
{
    const yk__cluster *k = &t->cluster;
    if (k->joined)
        yk_note("joined the job in %s as one more worker", t->config->join);
    yk_status st;
    if (k->role == YK__SERVER) {
        yk_phases_begin(t->phases, 1);
        st = yk__serve(t);
        yk_phases_end(t->phases);
    } else {
        st = k->driven ? yk__serve(t) : yk_team_run(t->team, yk__train_worker, t);
    }
    if (!st && k->joined)
        yk_note("trained on %llu examples for it", (unsigned long long)t->worker[0].examples);
    return st;
}

yk_status yk_train(const yk_config *c, const yk_train_host *host, yk_result *out)
{
    *out = (yk_result){.train_loss = (double)NAN};
    yk__trainer t = {.config = c,
                     .plan = &out->plan,
                     .host = host,
                     .stop = host->stop,
                     .result = out,
                     .eval_every = (uint64_t)c->eval_every,
                     .checkpoint_every = (uint64_t)c->checkpoint_every,
                     .started = host->started,
                     .lowest_loss = HUGE_VAL};
    slow_down(&t);
    yk_status st = yk_config_check(c);
    if (!st)
        st = yk__cluster_start(&t);
    if (!st)
        st = yk_team_create(t.cluster.role == YK__SERVER ? 1 : t.plan->workers_per_process, &t.team);
    if (!st)
        st = set_up(&t);
    if (!st && c->dry_run) {
        tear_down(&t);
        return YK_OK;
    }
    if (!st) {
        if (t.cluster.rank == 0)
            yk__introduce(&t);
        t.began = t.saved_at = yk_now();
        st = yk_observer_start(t.observer, t.began);
        if (!st)
            st = yk__cluster_ready(&t);
        if (!st && !(st = yk__turns_begin(&t)))
            st = run(&t);
        st = yk__turns_end(&t, st);
    }
    st = yk__end(&t, st);
    if (!st && host->keep_model && t.cluster.role == YK__ALONE)
        st = yk_trained_copy(c->model, t.model, t.local, t.names, &out->trained);
    tear_down(&t);
    return st;
}

void yk_result_fini(yk_result *r)
{
    free(r->checkpoint);
    free(r->run_dir);
    free(r->error);
    yk_free(r->report);
    free(r->description);
    free(r->profile);
    yk_observation_fini(&r->watched);
    yk_trained_release(r->trained);
    *r = (yk_result){0};
}
