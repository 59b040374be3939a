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
    YK_JSON(j, YK_OBJECT(name), YK_INT("observed", s->observed), YK_REAL("mean", s->mean),
            YK_REAL("max", s->max), YK_ARRAY("counts_0_1_2to3_4to7_and_so_on"));
    for (int b = 0; b < last; b++)
        yk_json_int(j, NULL, (int64_t)s->bucket[b]);
    YK_JSON(j, YK_END, YK_END);
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
        YK_JSON(
            j, YK_OBJECT(NULL), YK_TEXT("name", g->shape.name),
            YK_TEXT("kind", g->shape.keyed ? "keyed" : "dense"),
            YK_TEXT("placement", yk_placement_name[plan->placement]), YK_TEXT("optimizer", rule->name),
            YK_REAL("lr", plan->optim.lr),
            YK_INT_OR_NULL("staleness", plan->staleness != YK_ASYNC, plan->staleness),
            YK_INT("width", g->shape.width), YK_INT("keys", g->shape.keyed ? g->shape.keys : g->params),
            YK_INT("parameter_bytes", yk_group_floats(&g->shape) * (1 + (size_t)rule->slots) * sizeof(float)),
            YK_INT_OR_NULL("values_sent_bytes", is_traffic_known(r), g->values_sent), YK_END);
    }
    yk_json_end(j);
}

/* If an option is invalid, there is no plan, and the values that come from it are null. */
static void add_plan(yk_json *j, const yk_result *r)
{
    const yk_plan *p = &r->plan;
    const bool known = p->batch > 0;
    const int workers = r->from_launcher ? r->workers_connected : p->workers;
    YK_JSON(j, YK_TEXT("mode", known ? p->mode : NULL),
            YK_INT_OR_NULL("staleness", known && p->staleness != YK_ASYNC, p->staleness),
            YK_INT_OR_NULL("workers", workers, workers),
            YK_INT_OR_NULL("workers_per_process", workers, p->workers_per_process),
            YK_TEXT("placement", known ? yk_placement_name[p->placement] : NULL));
    add_groups(j, r);
    YK_JSON(
        j, YK_OBJECT("copies"), /* of keyed parameters on shards, while workers train on them */
        YK_INT("lifetime", p->copy_lifetime), YK_INT("in_flight", p->copy_lifetime ? (uint64_t)p->depth : 0),
        YK_END, YK_INT("numa_nodes", r->numa_nodes), YK_INT_OR_NULL("prefetch", known, p->depth - 1),
        YK_INT_OR_NULL("ranks", known, p->processes ? p->processes : 1),
        YK_INT_OR_NULL("servers", known, p->servers), YK_INT_OR_NULL("threads", known, p->threads),
        YK_INT_OR_NULL("threads_used", r->threads_used, r->threads_used),
        YK_INT_OR_NULL("batch", known, p->batch), YK_INT_OR_NULL("global_batch", workers, p->global_batch));
}

/* With a validation set: the best model, to which test_* belong, and the last one. */
static void add_selection(yk_json *j, const yk_result *r)
{
    const bool known = r->selected.step;
    const yk_score *unknown = &yk_score_unknown, *v = known ? &r->selected.validation : unknown,
                   *last = r->validated ? &r->validation : unknown,
                   *test = known && r->tested ? &r->last_test : unknown;
    YK_JSON(j, YK_INT_OR_NULL("best_step", known, r->selected.step),
            YK_TEXT("monitor", known ? r->selected.monitor : NULL),
            YK_REAL("best_value", known ? r->selected.best : (double)NAN),
            YK_REAL("validation_loss", v->loss), YK_REAL("validation_accuracy", v->accuracy),
            YK_REAL("validation_auc", v->auc), YK_REAL("last_validation_loss", last->loss),
            YK_REAL("last_test_loss", test->loss), YK_REAL("last_test_accuracy", test->accuracy),
            YK_REAL("last_test_auc", test->auc), YK_BOOL("stopped_early", r->waited > 0));
}

/* --lr auto */
static void add_search(yk_json *j, const yk_lr_search *s)
{
    if (!(s->seconds > 0.0)) {
        yk_json_null(j, "lr_search");
        return;
    }
    YK_JSON(j, YK_OBJECT("lr_search"), YK_REAL("seconds", s->seconds), YK_REAL("lr", s->lr[s->chosen]),
            YK_ARRAY("trials"));
    for (int k = 0; k < s->rounds; k++)
        for (int i = 0; i < YK_LR_CANDIDATES; i++)
            if (!isnan(s->loss[k][i]))
                YK_JSON(j, YK_OBJECT(NULL), YK_REAL("lr", s->lr[i]), YK_INT("steps", s->steps[k]),
                        YK_REAL("validation_loss", s->loss[k][i]), YK_END);
    YK_JSON(j, YK_END, YK_END);
}

/* NaN: nothing was trained, because the run was already complete. */
static double rate_of(uint64_t n, const yk_result *r)
{
    return n ? (double)n / r->train_seconds : (double)NAN;
}

static void add_results(yk_json *j, const yk_config *c, const yk_result *r)
{
    char optimizer[YK_OPTION_TEXT];
    yk_config_optimizer_text(c, optimizer);
    YK_JSON(j, YK_TEXT("model", c->model), YK_TEXT("data", c->data));
    add_plan(j, r);
    YK_JSON(j, YK_INT("seed", c->seed), YK_TEXT("optimizer", optimizer),
            YK_REAL("lr", r->ngroups || r->from_launcher ? r->lr : (double)NAN));
    add_search(j, &r->search);
    YK_JSON(j, YK_INT_OR_NULL("parameters", r->params, r->params),
            YK_INT_OR_NULL("epochs", !r->epochs_unknown, r->epochs), YK_INT("steps", r->steps),
            YK_INT("examples", r->examples));
    const yk_score *unknown = &yk_score_unknown, *test = r->tested ? &r->test : unknown,
                   *best = r->best_known ? &r->best : unknown;
    YK_JSON(j, YK_REAL("seconds", r->seconds), YK_REAL("train_seconds", r->train_seconds),
            YK_REAL("load_seconds", r->load_seconds), YK_REAL("eval_seconds", r->eval_seconds),
            YK_REAL("checkpoint_seconds", r->checkpoint_seconds),
            YK_REAL("first_step_seconds", r->first_step_seconds),
            YK_REAL("steps_per_second", rate_of(r->steps - r->resumed_from, r)),
            YK_REAL("examples_per_second", rate_of(r->trained_here, r)), YK_REAL("train_loss", r->train_loss),
            YK_REAL("test_loss", test->loss), YK_REAL("test_accuracy", test->accuracy),
            YK_REAL("test_auc", test->auc), YK_REAL("majority_accuracy", test->majority_accuracy),
            YK_REAL("best_loss", best->loss), YK_REAL("best_auc", best->auc),
            YK_RAW("test_metrics", r->metrics_json));
    add_selection(j, r);
    yk_json_int(j, "bad_records", (int64_t)r->bad_records);
    histogram(j, "observed_staleness", &r->observed);
    YK_JSON(j, YK_INT("hot_keys", r->observed.hot),
            YK_OBJECT("hot_lifetime"), /* of a worker's copies of these */
            YK_REAL("steps", r->observed.merge_steps), YK_REAL("examples", r->observed.merge_every), YK_END);
    uint64_t sent = 0, received = 0; /* 0 in one process */
    for (int p = 0; p < YK_PURPOSES; p++) {
        sent += r->traffic[p].sent;
        received += r->traffic[p].received;
    }
    YK_JSON(j, YK_INT_OR_NULL("bytes_sent", is_traffic_known(r), sent),
            YK_INT_OR_NULL("bytes_received", is_traffic_known(r), received));
    if (r->observation.job)
        yk_traffic_json(j, "traffic", r->traffic);
    else
        yk_json_null(j, "traffic");
    double rss = 0.0;
    for (int i = 0; i < r->observation.nprocesses; i++) /* the largest, as in "processes" */
        rss = fmax(rss, r->observation.process[i].usage.memory.peak);
    const bool chief =
        !r->without_chief; /* else another rank or the launcher writes the summary of a failed job */
    YK_JSON(
        j, YK_INT_OR_NULL("late_gradients", chief, r->late),
        YK_INT_OR_NULL("late_examples", chief, r->late_examples),
        YK_INT_OR_NULL("lost_workers", chief, r->lost), YK_INT_OR_NULL("joined_workers", chief, r->joined),
        YK_INT_OR_NULL("examples_reassigned", chief, r->returned),
        YK_INT("restarts", yk_env_number("YK_RESTARTS", 0)), YK_INT_OR_NULL("peak_rss_bytes", rss > 0.0, rss),
        YK_REAL("cpu_seconds", r->cpu_seconds > 0.0 ? r->cpu_seconds : (double)NAN));
    yk_observation_json(j, &r->observation);
    YK_JSON(j, YK_BOOL("interrupted", r->interrupted), YK_BOOL("diverged", r->status == YK_EDIVERGED),
            YK_TEXT("run", r->run_dir), YK_TEXT("checkpoint", r->checkpoint));
}

char *yk_result_json(const yk_config *c, const yk_result *r, bool indent)
{
    const bool stopped = r->status ? r->status == YK_EINTERRUPTED : r->interrupted;
    yk_json j = {.indent = indent};
    YK_JSON(&j, YK_OBJECT(NULL),
            YK_TEXT("state", stopped     ? "stopped"
                             : r->status ? "failed"
                                         : "done"),
            YK_TEXT("error", r->error),
            YK_INT("exit_code", r->exit_code ? r->exit_code : yk_status_exit(r->status)));
    /* a run that failed before there was a model has no results */
    if (!r->status || (r->status != YK_EINTERRUPTED && r->params) || r->from_launcher)
        add_results(&j, c, r);
    yk_json_end(&j);
    char *text = yk_json_take(&j);
    if (!text)
        yk_fail_memory(4096, "the summary");
    return text;
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
    char *all = yk_result_json(c, r, true);
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
        char self[64], *all = yk_result_json(c, r, true);
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
