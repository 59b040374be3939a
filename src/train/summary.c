#include "train/summary.h"

#include "base/file.h"
#include "base/number.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *whole(uint64_t n)
{
    return json_integer((json_int_t)n);
}

static json_t *text(const char *s)
{
    json_t *j = s ? json_string(s) : NULL;
    return j ? j : json_null();
}

static void put(json_t *o, const char *name, json_t *value)
{
    json_object_set_new(o, name, value);
}

static json_t *histogram(const yk_staleness *s)
{
    if (!s->observed)
        return json_null();
    json_t *buckets = json_array();
    int last = YK_STALENESS_BUCKETS;
    while (last > 1 && !s->bucket[last - 1])
        last--;
    for (int b = 0; b < last; b++)
        json_array_append_new(buckets, whole(s->bucket[b]));
    return json_pack("{s:o, s:o, s:o, s:o}", "observed", whole(s->observed), "mean", real(s->mean), "max",
                     real(s->max), "counts_0_1_2to3_4to7_and_so_on", buckets);
}

/* ---- what was watched ---- */

static json_t *phases(const double *phase, double of)
{
    json_t *o = json_object();
    for (int k = 0; k < YK_PHASES; k++)
        put(o, yk_phase_name((yk_phase)k), real(of > 0.0 ? phase[k] / of : 0.0));
    return o;
}

static json_t *bottleneck(const yk_verdict *v)
{
    json_t *o = json_object(), *numbers = json_object(), *estimates = json_array();
    for (int i = 0; i < v->nnumbers; i++)
        put(numbers, v->number[i].name, real(v->number[i].value));
    for (int i = 0; i < v->nestimates; i++)
        json_array_append_new(estimates, json_pack("{s:s, s:o}", "change", v->estimate[i].change, "speedup",
                                                   real(v->estimate[i].speedup)));
    put(o, "kind", text(yk_verdict_name(v->kind)));
    put(o, "share", real(v->share));
    put(o, "text", text(v->text));
    put(o, "advice", v->advice[0] ? text(v->advice) : json_null());
    put(o, "numbers", numbers);
    put(o, "estimates", estimates);
    return o;
}

static json_t *mean_peak(double mean, double peak, double of)
{
    json_t *o = json_object();
    put(o, "mean", real(mean));
    put(o, "peak", real(peak));
    if (of > 0.0)
        put(o, "of", real(of));
    return o;
}

/* Is this the first process on its host? What is measured per host counts once. */
static bool first_of_host(const yk_watched *w, int i)
{
    for (int k = 0; k < i; k++)
        if (strcmp(w->process[k].usage.host, w->process[i].usage.host) == 0)
            return false;
    return true;
}

static json_t *resources(const yk_watched *w)
{
    enum { CPU, MEMORY, NET_IN, NET_OUT, READ, WRITTEN, FIELDS };
    static const char *const names[FIELDS] = {"cpu",     "memory",    "net_in",
                                              "net_out", "disk_read", "disk_written"};
    yk_mean_peak sum[FIELDS] = {{0}};
    double of[FIELDS] = {0};
    for (int i = 0; i < w->nprocesses; i++) {
        const yk_usage *u = &w->process[i].usage;
        const bool first = first_of_host(w, i);
        const yk_mean_peak *part[FIELDS] = {&u->cpu,     &u->memory,    &u->net_in,
                                            &u->net_out, &u->disk_read, &u->disk_written};
        for (int k = 0; k < FIELDS; k++)
            if (first || (k != NET_IN && k != NET_OUT)) {
                sum[k].mean += part[k]->mean;
                sum[k].peak += part[k]->peak;
            }
        of[CPU] += first ? u->cores : 0.0;
        of[MEMORY] += first ? u->memory_limit : 0.0;
        of[NET_IN] += first ? u->link_rate : 0.0;
        of[NET_OUT] += first ? u->link_rate : 0.0;
    }
    json_t *o = json_object();
    for (int k = 0; k < FIELDS; k++)
        put(o, names[k], mean_peak(sum[k].mean, sum[k].peak, of[k]));
    return o;
}

static json_t *workers_of(const yk_watched *w, const yk_process *p)
{
    json_t *list = json_array();
    for (int i = 0; i < w->nwitnesses; i++) {
        const yk_witness *one = &w->witness[i];
        if (one->rank != p->rank || one->worker < 0)
            continue;
        json_t *o = json_object();
        put(o, "worker", json_integer(one->worker));
        put(o, "steps", whole(one->look.steps));
        put(o, "examples", whole(one->look.examples));
        put(o, "step_seconds", real(one->look.step_mean));
        put(o, "step_deviation", real(one->look.step_deviation));
        put(o, "meetings", whole(one->look.meetings));
        put(o, "came_last", whole(one->look.last));
        put(o, "phases", phases(one->look.phase, one->look.seconds));
        json_array_append_new(list, o);
    }
    return list;
}

/* Bytes and messages by purpose. */
static json_t *traffic_of(const yk_traffic *t)
{
    json_t *o = json_object();
    for (int p = 0; o && p < YK_PURPOSES; p++)
        put(o, yk_purpose_name[p],
            json_pack("{s:I, s:I, s:I, s:I}", "sent", (json_int_t)t[p].sent, "received",
                      (json_int_t)t[p].received, "messages", (json_int_t)t[p].messages_sent,
                      "messages_received", (json_int_t)t[p].messages_received));
    return o ? o : json_null();
}

static json_t *processes(const yk_watched *w, const yk_result *r)
{
    json_t *list = json_array();
    for (int i = 0; i < w->nprocesses; i++) {
        const yk_process *p = &w->process[i];
        json_t *o = json_object();
        put(o, "rank", json_integer(p->rank));
        put(o, "role", text(p->role));
        put(o, "joined", json_boolean(p->joined));
        put(o, "lost", json_boolean(p->lost));
        put(o, "host", text(p->usage.host));
        put(o, "steps", whole(p->look.steps));
        put(o, "examples", whole(p->look.examples));
        put(o, "bytes_sent", whole(p->bytes_sent));
        put(o, "bytes_received", whole(p->bytes_received));
        if (r->report)
            put(o, "traffic", traffic_of(r->report[i].traffic)); /* they are in the same order */
        put(o, "cpu_mean", real(p->usage.cpu.mean));
        put(o, "cpu_peak", real(p->usage.cpu.peak));
        put(o, "rss_peak", real(p->usage.memory.peak));
        put(o, "phases", p->workers > 0 ? phases(p->look.phase, p->look.seconds) : json_null());
        put(o, "workers", workers_of(w, p));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *alerts(const yk_watched *w)
{
    json_t *list = json_array();
    for (int i = 0; i < w->nprocesses; i++)
        for (int k = 0; k < w->process[i].usage.nalerts; k++) {
            const yk_alert *a = &w->process[i].usage.alert[k];
            json_array_append_new(list, json_pack("{s:i, s:s, s:f, s:f, s:f}", "rank", w->process[i].rank,
                                                  "what", yk_alert_name(a->what), "begin", a->begin,
                                                  "seconds", a->seconds, "level", a->level));
        }
    return list;
}

static json_t *guards(const yk_watched *w)
{
    json_t *list = json_array();
    for (int i = 0; i < w->nguards; i++)
        json_array_append_new(list, text(w->guard[i]));
    return list;
}

static void put_watched(json_t *o, const yk_result *r)
{
    const yk_watched *w = &r->watched;
    const bool seen = w->nprocesses > 0, judged = w->verdict.text[0];
    const double passes = w->forward + w->backward;
    put(o, "verdict", judged ? text(w->verdict.text) : json_null());
    put(o, "bottleneck", judged ? bottleneck(&w->verdict) : json_null());
    put(o, "phases", seen ? phases(w->phase, 1.0) : json_null());
    put(o, "passes",
        passes > 0.0
            ? json_pack("{s:f, s:f}", "forward", w->forward / passes, "backward", w->backward / passes)
            : json_null());
    put(o, "resources", seen ? resources(w) : json_null());
    put(o, "processes", seen ? processes(w, r) : json_null());
    put(o, "alerts", alerts(w));
    put(o, "guards", guards(w));
}

/* ---- all of it ---- */

static json_t *make(const yk_config *c, const yk_result *r)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double cpu = (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec * 1e-6 +
                 (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec * 1e-6;
    json_t *o = json_object();
    if (!o)
        return NULL;
    put(o, "state", text(r->status ? "failed" : r->interrupted ? "stopped" : "done"));
    put(o, "error", text(r->error));
    put(o, "exit_code", json_integer(r->exit_code ? r->exit_code : yk_status_exit(r->status)));
    put(o, "model", text(c->model));
    put(o, "data", text(c->data));
    put(o, "mode", text(r->plan.synchronous ? "sync" : "async"));
    put(o, "staleness",
        r->plan.staleness == YK_ASYNC ? json_null() : json_integer((json_int_t)r->plan.staleness));
    put(o, "workers", r->plan.workers ? json_integer(r->plan.workers) : json_null());
    put(o, "ranks", json_integer(r->plan.processes ? r->plan.processes : 1));
    put(o, "servers", json_integer(r->plan.servers));
    put(o, "threads", json_integer(r->plan.threads));
    put(o, "batch", json_integer((json_int_t)r->plan.batch));
    put(o, "global_batch", r->plan.workers ? json_integer((json_int_t)r->plan.global_batch) : json_null());
    put(o, "seed", json_integer(c->seed));
    put(o, "optimizer", text(c->optimizer ? c->optimizer : "sgd"));
    put(o, "lr", real(r->lr));
    put(o, "parameters", json_integer((json_int_t)r->params));
    put(o, "epochs", json_integer((json_int_t)r->epochs));
    put(o, "steps", json_integer((json_int_t)r->steps));
    put(o, "examples", json_integer((json_int_t)r->examples));
    put(o, "seconds", real(r->seconds));
    put(o, "train_seconds", real(r->train_seconds));
    put(o, "load_seconds", real(r->load_seconds));
    put(o, "eval_seconds", real(r->eval_seconds));
    put(o, "checkpoint_seconds", real(r->checkpoint_seconds));
    put(o, "first_step_seconds", real(r->first_step_seconds));
    put(o, "steps_per_second", real((double)(r->steps - r->resumed_from) / r->train_seconds));
    put(o, "examples_per_second", real((double)r->trained_here / r->train_seconds));
    put(o, "train_loss", real(r->train_loss));
    put(o, "test_loss", r->tested ? real(r->test.loss) : json_null());
    put(o, "test_accuracy", r->tested ? real(r->test.accuracy) : json_null());
    put(o, "test_auc", r->tested ? real(r->test.auc) : json_null());
    put(o, "majority_accuracy", r->tested ? real(r->test.majority_accuracy) : json_null());
    put(o, "best_loss", r->best_known ? real(r->best.loss) : json_null());
    put(o, "best_auc", r->best_known ? real(r->best.auc) : json_null());
    put(o, "bad_records", json_integer((json_int_t)r->bad_records));
    put(o, "observed_staleness", histogram(&r->observed));
    put(o, "hot_keys", json_integer((json_int_t)r->observed.hot));
    uint64_t sent = 0, received = 0; /* one process: nothing goes over a network */
    for (int p = 0; p < YK_PURPOSES; p++) {
        sent += r->traffic[p].sent;
        received += r->traffic[p].received;
    }
    const bool counted = r->plan.processes <= 1 || r->report;
    put(o, "bytes_sent", counted ? whole(sent) : json_null());
    put(o, "bytes_received", counted ? whole(received) : json_null());
    put(o, "traffic", r->report ? traffic_of(r->traffic) : json_null());
    put(o, "late_gradients", whole(r->late));
    put(o, "late_examples", whole(r->late_examples));
    put(o, "lost_workers", json_integer(r->lost));
    put(o, "joined_workers", json_integer(r->joined));
    put(o, "examples_dealt_again", whole(r->returned));
    put(o, "restarts", json_integer((json_int_t)yk_env_number("YK_RESTARTS", 0)));
    double rss = (double)usage.ru_maxrss * 1024.0; /* of several processes: of the largest; CPU time of all */
    for (int i = 0; r->report && i < r->nreports; i++)
        rss = r->report[i].peak_rss > rss ? r->report[i].peak_rss : rss;
    put(o, "peak_rss_bytes", r->secondhand ? json_null() : whole((uint64_t)rss));
    put(o, "cpu_seconds", r->secondhand ? json_null() : real(r->report ? r->cpu_seconds : cpu));
    put_watched(o, r);
    put(o, "interrupted", json_boolean(r->interrupted));
    put(o, "run", text(r->run_dir));
    put(o, "checkpoint", text(r->checkpoint));
    return o;
}

yk_status yk_result_json(const yk_config *c, const yk_result *r, char **out)
{
    json_t *o = make(c, r);
    *out = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(o);
    return *out ? YK_OK : yk_fail_memory(4096, "the results");
}

static char *text_of(const yk_config *c, const yk_result *r)
{
    json_t *o = make(c, r);
    char *all = o ? json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(o);
    if (!all)
        yk_fail_memory(4096, "the results");
    return all;
}

static const char file[] = "summary.json";

yk_status yk_result_save(const yk_config *c, const yk_result *r, const char *run_dir)
{
    yk_file *f;
    char *all = text_of(c, r);
    yk_status st = all ? yk_file_create_in(run_dir, file, &f) : YK_ESYSTEM;
    if (!st)
        st = yk_file_close(f, yk_file_print(f, "%s\n", all));
    free(all);
    return st;
}

char *yk_summary_if_done(const char *run_dir, uint64_t steps)
{
    char *text = NULL;
    size_t room = 0;
    const int fd = yk_open_in(run_dir, file, O_RDONLY | O_NONBLOCK);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    const ssize_t n = f ? getdelim(&text, &room, '\0', f) : -1;
    if (f)
        fclose(f);
    json_t *o = n > 0 ? json_loads(text, 0, NULL) : NULL;
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

yk_status yk_summary_keep(const char *run_dir, const char *text)
{
    yk_file *f;
    yk_status st = yk_file_create_in(run_dir, file, &f);
    return st ? st : yk_file_close(f, yk_file_write(f, text, strlen(text)));
}

/* Several ranks that fail may want to write it, and the first to end ends the others, in the midst of it: so a file without a
 * name, which gets one when it is complete and goes by itself when its writer dies. Not all file systems have that. */
yk_status yk_result_save_first(const yk_config *c, const yk_result *r, const char *run_dir)
{
    char self[64], *all = text_of(c, r);
    if (!all)
        return YK_ESYSTEM;
    const int dir = yk_dir_open(run_dir, NULL);
    const int fd = dir < 0 ? -1 : openat(dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    yk_status st = YK_OK;
    if (fd < 0)
        st = dir >= 0 && faccessat(dir, file, F_OK, 0) == 0 ? YK_OK : yk_result_save(c, r, run_dir);
    else if (dprintf(fd, "%s\n", all) < 0 ||
             (linkat(AT_FDCWD, self, dir, file, AT_SYMLINK_FOLLOW) && errno != EEXIST))
        st = yk_fail_in(run_dir, file, "cannot write", errno);
    if (fd >= 0)
        close(fd);
    if (dir >= 0)
        close(dir);
    free(all);
    return st;
}
