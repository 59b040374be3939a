#include "train/summary.h"

#include "base/file.h"
#include "base/json.h"
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
    yk_json_whole(j, "observed", (int64_t)s->observed);
    YK_JSON_REALS(j, {"mean", s->mean}, {"max", s->max});
    yk_json_array(j, "counts_0_1_2to3_4to7_and_so_on");
    for (int b = 0; b < last; b++)
        yk_json_whole(j, NULL, (int64_t)s->bucket[b]);
    yk_json_end(j);
    yk_json_end(j);
}

/* ---- what was watched ---- */

static void bottleneck(yk_json *j, const char *name, const yk_verdict *v)
{
    yk_json_object(j, name);
    yk_json_text(j, "kind", yk_verdict_name(v->kind));
    yk_json_real(j, "share", v->share);
    yk_json_text(j, "text", v->text);
    yk_json_text(j, "advice", v->advice[0] ? v->advice : NULL);
    yk_json_object(j, "numbers");
    for (int i = 0; i < v->nnumbers; i++)
        yk_json_real(j, v->number[i].name, v->number[i].value);
    yk_json_end(j);
    yk_json_array(j, "estimates");
    for (int i = 0; i < v->nestimates; i++) {
        yk_json_object(j, NULL);
        yk_json_text(j, "change", v->estimate[i].change);
        yk_json_real(j, "speedup", v->estimate[i].speedup);
        yk_json_end(j);
    }
    yk_json_end(j);
    yk_json_end(j);
}

static void mean_peak(yk_json *j, const char *name, double mean, double peak, double of)
{
    yk_json_object(j, name);
    YK_JSON_REALS(j, {"mean", mean}, {"peak", peak});
    if (of > 0.0)
        yk_json_real(j, "of", of);
    yk_json_end(j);
}

/* Is this the first process on its host? What is measured per host counts once. */
static bool first_of_host(const yk_watched *w, int i)
{
    for (int k = 0; k < i; k++)
        if (strcmp(w->process[k].usage.host, w->process[i].usage.host) == 0)
            return false;
    return true;
}

static void resources(yk_json *j, const char *name, const yk_watched *w)
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
    yk_json_object(j, name);
    for (int k = 0; k < FIELDS; k++)
        mean_peak(j, names[k], sum[k].mean, sum[k].peak, of[k]);
    yk_json_end(j);
}

static void workers_of(yk_json *j, const char *name, const yk_watched *w, const yk_process *p)
{
    yk_json_array(j, name);
    for (int i = 0; i < w->nwitnesses; i++) {
        const yk_witness *one = &w->witness[i];
        if (one->rank != p->rank || one->worker < 0)
            continue;
        yk_json_object(j, NULL);
        YK_JSON_WHOLES(j, {"worker", one->worker}, {"steps", one->look.steps},
                       {"examples", one->look.examples});
        yk_json_real(j, "step_seconds", one->look.step_mean);
        yk_json_real(j, "step_deviation", one->look.step_deviation);
        yk_json_whole(j, "meetings", (int64_t)one->look.meetings);
        yk_json_whole(j, "came_last", (int64_t)one->look.last);
        yk_phases_json(j, one->look.phase, one->look.seconds);
        yk_json_end(j);
    }
    yk_json_end(j);
}

/* Bytes and messages by purpose. */
static void traffic_of(yk_json *j, const char *name, const yk_traffic *t)
{
    yk_json_object(j, name);
    for (int p = 0; p < YK_PURPOSES; p++) {
        yk_json_object(j, yk_purpose_name[p]);
        YK_JSON_WHOLES(j, {"sent", t[p].sent}, {"received", t[p].received}, {"messages", t[p].messages_sent},
                       {"messages_received", t[p].messages_received});
        yk_json_end(j);
    }
    yk_json_end(j);
}

static void processes(yk_json *j, const char *name, const yk_watched *w, const yk_result *r)
{
    yk_json_array(j, name);
    for (int i = 0; i < w->nprocesses; i++) {
        const yk_process *p = &w->process[i];
        yk_json_object(j, NULL);
        yk_json_whole(j, "rank", p->rank);
        yk_json_text(j, "role", p->role);
        yk_json_bool(j, "joined", p->joined);
        yk_json_bool(j, "lost", p->lost);
        yk_json_text(j, "host", p->usage.host);
        YK_JSON_WHOLES(j, {"steps", p->look.steps}, {"examples", p->look.examples},
                       {"bytes_sent", p->bytes_sent}, {"bytes_received", p->bytes_received});
        if (r->report)
            traffic_of(j, "traffic", r->report[i].traffic); /* they are in the same order */
        YK_JSON_REALS(j, {"cpu_mean", p->usage.cpu.mean}, {"cpu_peak", p->usage.cpu.peak},
                      {"rss_peak", p->usage.memory.peak});
        if (p->workers > 0)
            yk_phases_json(j, p->look.phase, p->look.seconds);
        else
            yk_json_null(j, "phases");
        workers_of(j, "workers", w, p);
        yk_json_end(j);
    }
    yk_json_end(j);
}

static void alerts(yk_json *j, const char *name, const yk_watched *w)
{
    yk_json_array(j, name);
    for (int i = 0; i < w->nprocesses; i++)
        for (int k = 0; k < w->process[i].usage.nalerts; k++) {
            const yk_alert *a = &w->process[i].usage.alert[k];
            yk_json_object(j, NULL);
            yk_json_whole(j, "rank", w->process[i].rank);
            yk_json_text(j, "what", yk_alert_name(a->what));
            YK_JSON_REALS(j, {"begin", a->begin}, {"seconds", a->seconds}, {"level", a->level});
            yk_json_end(j);
        }
    yk_json_end(j);
}

static void guards(yk_json *j, const char *name, const yk_watched *w)
{
    yk_json_array(j, name);
    for (int i = 0; i < w->nguards; i++)
        yk_json_text(j, NULL, w->guard[i]);
    yk_json_end(j);
}

static void passes(yk_json *j, const char *name, double forward, double backward)
{
    yk_json_object(j, name);
    yk_json_real(j, "forward", forward / (forward + backward));
    yk_json_real(j, "backward", backward / (forward + backward));
    yk_json_end(j);
}

static void put_watched(yk_json *j, const yk_result *r)
{
    const yk_watched *w = &r->watched;
    const bool seen = w->nprocesses > 0, judged = w->verdict.text[0];
    yk_json_text(j, "verdict", judged ? w->verdict.text : NULL);
    if (judged)
        bottleneck(j, "bottleneck", &w->verdict);
    else
        yk_json_null(j, "bottleneck");
    if (seen)
        yk_phases_json(j, w->phase, 1.0);
    else
        yk_json_null(j, "phases");
    if (w->forward + w->backward > 0.0)
        passes(j, "passes", w->forward, w->backward);
    else
        yk_json_null(j, "passes");
    if (seen)
        resources(j, "resources", w);
    else
        yk_json_null(j, "resources");
    if (seen)
        processes(j, "processes", w, r);
    else
        yk_json_null(j, "processes");
    alerts(j, "alerts", w);
    guards(j, "guards", w);
}

/* ---- all of it ---- */

static char *make(const yk_config *c, const yk_result *r, bool indent)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double cpu = (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec * 1e-6 +
                 (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec * 1e-6;
    yk_json all = {.indent = indent}, *j = &all;
    yk_json_object(j, NULL);
    yk_json_text(j, "state", r->status ? "failed" : r->interrupted ? "stopped" : "done");
    yk_json_text(j, "error", r->error);
    yk_json_whole(j, "exit_code", r->exit_code ? r->exit_code : yk_status_exit(r->status));
    YK_JSON_TEXTS(j, {"model", c->model}, {"data", c->data},
                  {"mode", r->plan.synchronous ? "sync" : "async"});
    yk_json_known(j, "staleness", r->plan.staleness != YK_ASYNC, r->plan.staleness);
    yk_json_known(j, "workers", r->plan.workers, r->plan.workers);
    yk_json_known(j, "workers_per_process", r->plan.workers, r->plan.workers_per_process);
    YK_JSON_WHOLES(j, {"ranks", r->plan.processes ? r->plan.processes : 1}, {"servers", r->plan.servers},
                   {"threads", r->plan.threads}, {"batch", r->plan.batch});
    yk_json_known(j, "global_batch", r->plan.workers, r->plan.global_batch);
    yk_json_whole(j, "seed", c->seed);
    yk_json_text(j, "optimizer", c->optimizer ? c->optimizer : "sgd");
    yk_json_real(j, "lr", r->lr);
    YK_JSON_WHOLES(j, {"parameters", r->params}, {"epochs", r->epochs}, {"steps", r->steps},
                   {"examples", r->examples});
    YK_JSON_REALS(j, {"seconds", r->seconds}, {"train_seconds", r->train_seconds},
                  {"load_seconds", r->load_seconds}, {"eval_seconds", r->eval_seconds},
                  {"checkpoint_seconds", r->checkpoint_seconds},
                  {"first_step_seconds", r->first_step_seconds},
                  {"steps_per_second", (double)(r->steps - r->resumed_from) / r->train_seconds},
                  {"examples_per_second", (double)r->trained_here / r->train_seconds},
                  {"train_loss", r->train_loss}, {"test_loss", r->tested ? r->test.loss : (double)NAN},
                  {"test_accuracy", r->tested ? r->test.accuracy : (double)NAN},
                  {"test_auc", r->tested ? r->test.auc : (double)NAN},
                  {"majority_accuracy", r->tested ? r->test.majority_accuracy : (double)NAN},
                  {"best_loss", r->best_known ? r->best.loss : (double)NAN},
                  {"best_auc", r->best_known ? r->best.auc : (double)NAN});
    yk_json_whole(j, "bad_records", (int64_t)r->bad_records);
    histogram(j, "observed_staleness", &r->observed);
    yk_json_whole(j, "hot_keys", (int64_t)r->observed.hot);
    uint64_t sent = 0, received = 0; /* one process: nothing goes over a network */
    for (int p = 0; p < YK_PURPOSES; p++) {
        sent += r->traffic[p].sent;
        received += r->traffic[p].received;
    }
    const bool counted = r->plan.processes <= 1 || r->report;
    yk_json_known(j, "bytes_sent", counted, sent);
    yk_json_known(j, "bytes_received", counted, received);
    if (r->report)
        traffic_of(j, "traffic", r->traffic);
    else
        yk_json_null(j, "traffic");
    YK_JSON_WHOLES(j, {"late_gradients", r->late}, {"late_examples", r->late_examples},
                   {"lost_workers", r->lost}, {"joined_workers", r->joined},
                   {"examples_dealt_again", r->returned}, {"restarts", yk_env_number("YK_RESTARTS", 0)});
    double rss = (double)usage.ru_maxrss * 1024.0; /* of several processes: of the largest; CPU time of all */
    for (int i = 0; r->report && i < r->nreports; i++)
        rss = r->report[i].peak_rss > rss ? r->report[i].peak_rss : rss;
    yk_json_known(j, "peak_rss_bytes", !r->secondhand, (uint64_t)rss);
    yk_json_real(j, "cpu_seconds", !r->secondhand ? r->report ? r->cpu_seconds : cpu : (double)NAN);
    put_watched(j, r);
    yk_json_bool(j, "interrupted", r->interrupted);
    YK_JSON_TEXTS(j, {"run", r->run_dir}, {"checkpoint", r->checkpoint});
    yk_json_end(j);
    char *text = yk_json_take(j);
    if (!text)
        yk_fail_memory(4096, "the results");
    return text;
}

yk_status yk_result_json(const yk_config *c, const yk_result *r, char **out)
{
    *out = make(c, r, false);
    return *out ? YK_OK : YK_ESYSTEM;
}

static const char file[] = "summary.json";

yk_status yk_result_save(const yk_config *c, const yk_result *r, const char *run_dir)
{
    yk_file *f;
    char *all = make(c, r, true);
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
    char self[64], *all = make(c, r, true);
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
