#include "train/summary.h"

#include "base/number.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void histogram(yk_json *j, const char *name, const yk_staleness *s)
{
    if (!s->observed) {
        yk_json_null(j, name);
        return;
    }
    int last = YK_STALENESS_BUCKETS;
    while (last > 1 && !s->bucket[last - 1])
        last--;
    yk_json_object(j, name);
    yk_json_int(j, "observed", (int64_t)s->observed);
    YK_JSON_REALS(j, {"mean", s->mean}, {"max", s->max});
    yk_json_array(j, "counts_0_1_2to3_4to7_and_so_on");
    for (int b = 0; b < last; b++)
        yk_json_int(j, NULL, (int64_t)s->bucket[b]);
    yk_json_end(j);
    yk_json_end(j);
}

/* Whether the bytes of messages are known. In one process, they are 0. */
static bool is_traffic_known(const yk_result *r)
{
    return r->plan.processes <= 1 || r->observation.job;
}

static void add_groups(yk_json *j, const yk_result *r)
{
    yk_json_array(j, "groups");
    for (const yk_group_result *g = r->group; g < r->group + r->ngroups; g++) {
        const yk_group_plan *plan = &r->plan.group[g - r->group];
        const yk_optim_rule *rule = yk_optim_rule_of(plan->optim.kind);
        yk_json_object(j, NULL);
        YK_JSON_TEXTS(j, {"name", g->shape.name}, {"kind", g->shape.keyed ? "keyed" : "dense"},
                      {"placement", yk_placement_name[plan->placement]}, {"optimizer", rule->name});
        yk_json_real(j, "lr", plan->optim.lr);
        yk_json_int_or_null(j, "staleness", plan->staleness != YK_ASYNC, plan->staleness);
        YK_JSON_INTS(
            j, {"width", g->shape.width}, {"keys", g->shape.keyed ? g->shape.keys : g->params},
            {"parameter_bytes", yk_group_floats(&g->shape) * (1 + (size_t)rule->slots) * sizeof(float)});
        yk_json_int_or_null(j, "values_sent_bytes", is_traffic_known(r), g->values_sent);
        yk_json_end(j);
    }
    yk_json_end(j);
}

/* If an option is invalid, there is no plan, and the values that come from it are null. */
static void add_plan(yk_json *j, const yk_result *r)
{
    const yk_plan *p = &r->plan;
    const bool known = p->batch > 0;
    const int workers = r->from_launcher ? r->workers_connected : p->workers;
    yk_json_text(j, "mode", known ? p->mode : NULL);
    yk_json_int_or_null(j, "staleness", known && p->staleness != YK_ASYNC, p->staleness);
    yk_json_int_or_null(j, "workers", workers, workers);
    yk_json_int_or_null(j, "workers_per_process", workers, p->workers_per_process);
    yk_json_text(j, "placement", known ? yk_placement_name[p->placement] : NULL);
    add_groups(j, r);
    yk_json_object(j, "copies"); /* of keyed parameters on shards, while workers train on them */
    YK_JSON_INTS(j, {"lifetime", p->copy_lifetime}, {"in_flight", p->copy_lifetime ? (uint64_t)p->depth : 0});
    yk_json_end(j);
    yk_json_int(j, "numa_nodes", r->numa_nodes);
    yk_json_int_or_null(j, "prefetch", known, p->depth - 1);
    yk_json_int_or_null(j, "ranks", known, p->processes ? p->processes : 1);
    yk_json_int_or_null(j, "servers", known, p->servers);
    yk_json_int_or_null(j, "threads", known, p->threads);
    yk_json_int_or_null(j, "threads_used", r->threads_used, r->threads_used);
    yk_json_int_or_null(j, "batch", known, p->batch);
    yk_json_int_or_null(j, "global_batch", workers, p->global_batch);
}

/* With a validation set: the best model, to which test_* belong, and the last one. */
static void add_selection(yk_json *j, const yk_result *r)
{
    const bool known = r->selected.step;
    const yk_score *unknown = &yk_score_unknown, *v = known ? &r->selected.validation : unknown,
                   *last = r->validated ? &r->validation : unknown,
                   *test = known && r->tested ? &r->last_test : unknown;
    yk_json_int_or_null(j, "best_step", known, r->selected.step);
    yk_json_text(j, "monitor", known ? r->selected.monitor : NULL);
    yk_json_real(j, "best_value", known ? r->selected.best : (double)NAN);
    YK_JSON_REALS(j, {"validation_loss", v->loss}, {"validation_accuracy", v->accuracy},
                  {"validation_auc", v->auc}, {"last_validation_loss", last->loss},
                  {"last_test_loss", test->loss}, {"last_test_accuracy", test->accuracy},
                  {"last_test_auc", test->auc});
    yk_json_bool(j, "stopped_early", r->waited > 0);
}

/* --lr auto */
static void add_search(yk_json *j, const yk_lr_search *s)
{
    if (!(s->seconds > 0.0)) {
        yk_json_null(j, "lr_search");
        return;
    }
    yk_json_object(j, "lr_search");
    YK_JSON_REALS(j, {"seconds", s->seconds}, {"lr", s->lr[s->chosen]});
    yk_json_array(j, "trials");
    for (int k = 0; k < s->rounds; k++)
        for (int i = 0; i < YK_LR_CANDIDATES; i++)
            if (!isnan(s->loss[k][i])) {
                yk_json_object(j, NULL);
                yk_json_real(j, "lr", s->lr[i]);
                yk_json_int(j, "steps", (int64_t)s->steps[k]);
                yk_json_real(j, "validation_loss", s->loss[k][i]);
                yk_json_end(j);
            }
    yk_json_end(j);
    yk_json_end(j);
}

/* NaN: nothing was trained, because the run was already complete. */
static double rate_of(uint64_t n, const yk_result *r)
{
    return n ? (double)n / r->train_seconds : (double)NAN;
}

/* Not known if another rank or the launcher writes the summary of a failed job. */
static void add_counts(yk_json *j, const yk_result *r)
{
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {{"late_gradients", r->late},
                  {"late_examples", r->late_examples},
                  {"lost_workers", (uint64_t)r->lost},
                  {"joined_workers", (uint64_t)r->joined},
                  {"examples_reassigned", r->returned}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        yk_json_int_or_null(j, counts[i].name, !r->without_chief, (int64_t)counts[i].value);
}

static void add_results(yk_json *j, const yk_config *c, const yk_result *r)
{
    YK_JSON_TEXTS(j, {"model", c->model}, {"data", c->data});
    add_plan(j, r);
    yk_json_int(j, "seed", c->seed);
    char optimizer[YK_OPTION_TEXT];
    yk_config_optimizer_text(c, optimizer);
    yk_json_text(j, "optimizer", optimizer);
    yk_json_real(j, "lr", r->ngroups || r->from_launcher ? r->lr : (double)NAN);
    add_search(j, &r->search);
    yk_json_int_or_null(j, "parameters", r->params, (int64_t)r->params);
    yk_json_int_or_null(j, "epochs", !r->epochs_unknown, r->epochs);
    YK_JSON_INTS(j, {"steps", r->steps}, {"examples", r->examples});
    const yk_score *unknown = &yk_score_unknown, *test = r->tested ? &r->test : unknown,
                   *best = r->best_known ? &r->best : unknown;
    YK_JSON_REALS(
        j, {"seconds", r->seconds}, {"train_seconds", r->train_seconds}, {"load_seconds", r->load_seconds},
        {"eval_seconds", r->eval_seconds}, {"checkpoint_seconds", r->checkpoint_seconds},
        {"first_step_seconds", r->first_step_seconds},
        {"steps_per_second", rate_of(r->steps - r->resumed_from, r)},
        {"examples_per_second", rate_of(r->trained_here, r)}, {"train_loss", r->train_loss},
        {"test_loss", test->loss}, {"test_accuracy", test->accuracy}, {"test_auc", test->auc},
        {"majority_accuracy", test->majority_accuracy}, {"best_loss", best->loss}, {"best_auc", best->auc});
    if (r->metrics_json)
        yk_json_raw(j, "test_metrics", r->metrics_json);
    else
        yk_json_null(j, "test_metrics");
    add_selection(j, r);
    yk_json_int(j, "bad_records", (int64_t)r->bad_records);
    histogram(j, "observed_staleness", &r->observed);
    yk_json_int(j, "hot_keys", (int64_t)r->observed.hot);
    yk_json_object(j, "hot_lifetime"); /* of a worker's copies of these */
    YK_JSON_REALS(j, {"steps", r->observed.merge_steps}, {"examples", r->observed.merge_every});
    yk_json_end(j);
    uint64_t sent = 0, received = 0; /* 0 in one process */
    for (int p = 0; p < YK_PURPOSES; p++) {
        sent += r->traffic[p].sent;
        received += r->traffic[p].received;
    }
    yk_json_int_or_null(j, "bytes_sent", is_traffic_known(r), sent);
    yk_json_int_or_null(j, "bytes_received", is_traffic_known(r), received);
    if (r->observation.job)
        yk_traffic_json(j, "traffic", r->traffic);
    else
        yk_json_null(j, "traffic");
    add_counts(j, r);
    yk_json_int(j, "restarts", yk_env_number("YK_RESTARTS", 0));
    double rss = 0.0;
    for (int i = 0; i < r->observation.nprocesses; i++) /* the largest, as in "processes" */
        rss = fmax(rss, r->observation.process[i].usage.memory.peak);
    yk_json_int_or_null(j, "peak_rss_bytes", rss > 0.0, (uint64_t)rss);
    yk_json_real(j, "cpu_seconds", r->cpu_seconds > 0.0 ? r->cpu_seconds : (double)NAN);
    yk_observation_json(j, &r->observation);
    yk_json_bool(j, "interrupted", r->interrupted);
    yk_json_bool(j, "diverged", r->status == YK_EDIVERGED);
    YK_JSON_TEXTS(j, {"run", r->run_dir}, {"checkpoint", r->checkpoint});
}

static char *to_json(const yk_config *c, const yk_result *r, bool indent)
{
    const bool stopped = r->status ? r->status == YK_EINTERRUPTED : r->interrupted;
    yk_json j = {.indent = indent};
    yk_json_object(&j, NULL);
    YK_JSON_TEXTS(&j, {"state", stopped ? "stopped" : r->status ? "failed" : "done"}, {"error", r->error});
    yk_json_int(&j, "exit_code", r->exit_code ? r->exit_code : yk_status_exit(r->status));
    /* a run that failed before there was a model has no results */
    if (!r->status || (r->status != YK_EINTERRUPTED && r->params) || r->from_launcher)
        add_results(&j, c, r);
    yk_json_end(&j);
    char *text = yk_json_take(&j);
    if (!text)
        yk_fail_memory(4096, "the summary");
    return text;
}

yk_status yk_result_json(const yk_config *c, const yk_result *r, char **out)
{
    *out = to_json(c, r, false);
    return *out ? YK_OK : YK_ESYSTEM;
}

static const char file[] = "summary.json";

yk_status yk_summary_restore(const char *run_dir, const char *text)
{
    return yk_file_save(run_dir, file, "%s", text);
}

char *yk_summary_if_done(const char *run_dir, uint64_t steps)
{
    char *text = NULL;
    struct stat there;
    const int fd = yk_open_in(run_dir, file, O_RDONLY | O_NONBLOCK);
    if (fd >= 0 && !yk_sys->stat(fd, "", &there, AT_EMPTY_PATH) && S_ISREG(there.st_mode) &&
        (text = calloc(1, (size_t)there.st_size + 1)) &&
        yk_sys->read(fd, text, (size_t)there.st_size) != there.st_size)
        *text = '\0';
    yk_fs_close(fd);
    json_t *o = text ? json_loads(text, 0, NULL) : NULL;
    const char *state = json_string_value(json_object_get(o, "state"));
    const bool done = state && strcmp(state, "done") == 0 &&
                      json_integer_value(json_object_get(o, "steps")) == (json_int_t)steps;
    json_decref(o);
    if (!done) {
        free(text);
        text = NULL;
    }
    return text;
}

yk_status yk_result_save(const yk_config *c, const yk_result *r, const char *run_dir)
{
    char *all = to_json(c, r, true);
    const yk_status st = all ? yk_file_save(run_dir, file, "%s\n", all) : YK_ESYSTEM;
    free(all);
    return st;
}

/* Several ranks that fail may write the summary, and the first one that exits ends the others, perhaps in the middle of
 * writing. So it goes to a file without a name, which gets its name when it is complete and disappears with its writer. Not
 * all file systems have that. */
yk_status yk_result_save_if_missing(const yk_config *c, const yk_result *r, const char *run_dir)
{
    const int dir = yk_dir_open(run_dir, NULL);
    const int fd = dir < 0 ? -1 : yk_sys->open(dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    struct stat there;
    yk_status st = YK_OK;
    if (fd < 0) {
        st = dir >= 0 && yk_sys->stat(dir, file, &there, 0) == 0 ? YK_OK : yk_result_save(c, r, run_dir);
    } else {
        char self[64], *all = to_json(c, r, true);
        snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
        if (!all)
            st = YK_ESYSTEM;
        else if (dprintf(fd, "%s\n", all) < 0 ||
                 (linkat(AT_FDCWD, self, dir, file, AT_SYMLINK_FOLLOW) && errno != EEXIST))
            st = yk_fail_in(run_dir, file, "cannot write", errno);
        free(all);
        yk_fs_close(fd);
    }
    yk_fs_close(dir);
    return st;
}
