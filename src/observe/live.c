/* The documents of the live page: status.json for watch/page.c, and metrics for Prometheus (docs: man page, LIVE). */
#include "observe/observer_internal.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/thread.h"
#include "watch/prom.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double left_by(const _Atomic double *x)
{
    return atomic_load_explicit(x, memory_order_relaxed);
}

/* A copy that nobody changes, so that the lock is held for a moment only. NULL: no memory. */
static yk__history *copy_of(yk_observer *o)
{
    yk__history *h = malloc(sizeof *h);
    if (!h)
        return NULL;
    yk_mutex_lock(&o->lock);
    *h = o->history;
    yk_mutex_unlock(&o->lock);
    return h;
}

/* ---- status.json ---- */

/* One row of the page: a worker of this process, or a process of the job. */
typedef struct {
    char name[32], label[16]; /* for people; in metrics */
    const char *role;         /* NULL: a thread */
    bool joined, lost;
    yk_phases_sample look;
    double cpu, rss, sent, received; /* NaN: not known */
} row;

static void row_of_process(row *r, const yk_process *p, const yk_sample *s)
{
    *r = (row){.role = p->workers > 0 ? "worker" : "server",
               .joined = p->joined,
               .lost = p->lost,
               .look = p->look,
               .cpu = s->seconds > 0.0 ? s->cpu_user + s->cpu_system : (double)NAN,
               .rss = s->seconds > 0.0 ? s->rss : (double)NAN,
               .sent = (double)p->bytes_sent,
               .received = (double)p->bytes_received};
    snprintf(r->name, sizeof r->name, "rank %d", p->rank);
    snprintf(r->label, sizeof r->label, "%d", p->rank);
}

/* The threads of one process, or the chief and what it has heard of the others; the caller frees. NULL: no memory. */
static row *rows_of(yk_observer *o, const yk__history *h, int *n_out)
{
    const bool alone = o->alone;
    const double nan = (double)NAN;
    int heard = 0;
    yk__telemetry *others = alone ? NULL : yk__telemetry_copy(o, &heard);
    row *r = calloc((size_t)(heard + o->c.workers), sizeof *r);
    for (int i = 0; r && alone && i < o->c.workers; i++) {
        r[i] = (row){.cpu = nan, .rss = nan, .sent = nan, .received = nan};
        snprintf(r[i].name, sizeof r[i].name, "worker %d", i);
        snprintf(r[i].label, sizeof r[i].label, "%d", i);
        yk_phases_read(&o->c.phases[i], &r[i].look);
    }
    if (r && !alone) {
        yk_process self = {.workers = o->c.server ? 0 : 1,
                           .bytes_sent = atomic_load_explicit(&o->sent, memory_order_relaxed),
                           .bytes_received = atomic_load_explicit(&o->received, memory_order_relaxed)};
        yk__observer_phases(o, &self.look);
        row_of_process(&r[0], &self, &h->sample);
    }
    for (int i = 0; r && i < heard; i++)
        row_of_process(&r[i + 1], &others[i].report.process, &others[i].sample);
    *n_out = alone ? o->c.workers : heard + 1;
    free(others);
    return r;
}

static bool trains(const row *r)
{
    return !r->role || r->role[0] == 'w';
}

/* And the mean of their phases. */
static void put_processes(yk_json *j, const row *r, int n)
{
    yk_json_array(j, "processes");
    double sum[YK_PHASES] = {0}, seconds = 0.0;
    for (int i = 0; i < n; i++) {
        const yk_phases_sample *l = &r[i].look;
        const double trained = l->seconds - l->phase[YK_PHASE_EVAL] - l->phase[YK_PHASE_CHECKPOINT];
        yk_json_object(j, NULL);
        YK_JSON_TEXTS(j, {"name", r[i].name}, {"role", r[i].role});
        yk_json_bool(j, "joined", r[i].joined);
        yk_json_bool(j, "lost", r[i].lost);
        YK_JSON_REALS(j, {"cpu", r[i].cpu}, {"rss", r[i].rss}, {"bytes_sent", r[i].sent},
                      {"bytes_received", r[i].received});
        yk_json_known(j, "steps", trains(&r[i]), l->steps);
        yk_json_known(j, "examples", trains(&r[i]), l->examples);
        yk_json_real(j, "examples_per_second",
                     trains(&r[i]) && trained > 0.0 ? (double)l->examples / trained : (double)NAN);
        yk_json_real(j, "last", l->barriers ? (double)l->last / (double)l->barriers : (double)NAN);
        if (trains(&r[i]))
            yk_phases_json(j, l->phase, l->seconds);
        else
            yk_json_null(j, "phases");
        yk_json_end(j);
        for (int k = 0; trains(&r[i]) && k < YK_PHASES; k++)
            sum[k] += l->phase[k];
        seconds += trains(&r[i]) ? l->seconds : 0.0;
    }
    yk_json_end(j);
    yk_phases_json(j, sum, seconds);
}

static void put_history(yk_json *j, const yk__history *h)
{
    static const char *const names[YK__COLUMNS] = {
        "seconds", "step",   "loss",    "examples_per_second", "cpu",         "cpu_host",
        "rss",     "net_in", "net_out", "disk_read",           "disk_written"};
    yk_json_object(j, "history");
    for (int c = 0; c < YK__COLUMNS; c++) {
        yk_json_array(j, names[c]);
        for (int i = 0; i < h->npoints; i++)
            yk_json_real(j, NULL, h->point[i][c]);
        yk_json_end(j);
    }
    yk_json_end(j);
}

static void put_tests(yk_json *j, const yk__history *h)
{
    static const char *const names[] = {"seconds", "step", "test_loss", "test_accuracy"};
    yk_json_object(j, "evals");
    for (int c = 0; c < 4; c++) {
        yk_json_array(j, names[c]);
        for (int i = 0; i < h->ntests; i++) {
            const yk__test_point *p = &h->test[i];
            yk_json_real(j, NULL, (const double[]){p->seconds, p->step, p->loss, p->accuracy}[c]);
        }
        yk_json_end(j);
    }
    yk_json_end(j);
}

static void put_verdict(yk_json *j, const yk__history *h)
{
    const yk_verdict *v = &h->verdict;
    YK_JSON_TEXTS(j, {"verdict", h->judged ? v->text : NULL}, {"advice", h->judged ? v->advice : NULL},
                  {"bottleneck", h->judged ? yk_verdict_name(v->kind) : NULL});
    yk_json_real(j, "share", h->judged ? v->share : (double)NAN);
    yk_json_array(j, "estimates");
    for (int i = 0; h->judged && i < v->nestimates; i++) {
        yk_json_object(j, NULL);
        yk_json_text(j, "change", v->estimate[i].change);
        yk_json_real(j, "speedup", v->estimate[i].speedup);
        yk_json_end(j);
    }
    yk_json_end(j);
}

static char *status(yk_observer *o, const yk__history *h, const row *rows, int n)
{
    const yk_config *c = o->c.config;
    const yk_plan *plan = o->c.plan;
    yk_json all = {.digits = 6}, *j = &all;
    yk_json_object(j, NULL);
    YK_JSON_TEXTS(j, {"model", c->model}, {"data", c->data},
                  {"mode", plan->synchronous ? "synchronous" : "asynchronous"});
    YK_JSON_WHOLES(j, {"workers", plan->workers}, {"batch", plan->batch});
    yk_json_text(j, "optimizer", yk_optim_rule_of(o->c.optim->kind)->name);
    yk_json_text(j, "host", h->usage.host[0] ? h->usage.host : "this machine");
    yk_json_whole(j, "cores", yk_cores());
    yk_json_text(j, "run", o->c.run_dir);
    yk_json_real(j, "seconds", yk__observer_seconds(o));
    yk_json_real(j, "seconds_left", left_by(&o->seconds_left));
    yk_json_whole(j, "step", (int64_t)atomic_load_explicit(&o->step, memory_order_relaxed));
    yk_json_known(j, "steps_asked", plan->steps != UINT64_MAX, plan->steps);
    yk_json_whole(j, "examples", (int64_t)atomic_load_explicit(&o->examples, memory_order_relaxed));
    yk_json_real(j, "epoch", left_by(&o->epoch));
    yk_json_known(j, "epochs_asked", plan->epochs != UINT64_MAX, plan->epochs);
    YK_JSON_REALS(j, {"loss", left_by(&o->loss)}, {"test_loss", left_by(&o->test_loss)},
                  {"test_accuracy", left_by(&o->accuracy)}, {"examples_per_second", left_by(&o->rate)},
                  {"steps_per_second", left_by(&o->step_rate)}, {"learning_rate", left_by(&o->lr)});
    put_verdict(j, h);
    put_processes(j, rows, n);
    put_history(j, h);
    put_tests(j, h);
    yk_json_end(j);
    return yk_json_take(j);
}

/* ---- metrics ---- */

#define LABELS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void one(yk_prom *p, const char *name, const char *type, const char *help, double value)
{
    yk_prom_family(p, name, type, help);
    yk_prom_sample(p, NULL, value);
}

static void metrics_of_workers(yk_prom *p, const row *r, int n)
{
#define EACH(who, name, type, help, value)                                                                   \
    yk_prom_family(p, name, type, help);                                                                     \
    for (int i = 0; i < n; i++)                                                                              \
        if (who)                                                                                             \
    yk_prom_sample(p, LABELS("worker", r[i].label), (double)(value))
    EACH(trains(&r[i]), "yoke_worker_steps_total", "counter", "Steps that a worker has made.",
         r[i].look.steps);
    EACH(trains(&r[i]), "yoke_worker_examples_total", "counter", "Examples that a worker has used.",
         r[i].look.examples);
    EACH(trains(&r[i]), "yoke_worker_last_total", "counter", "Meetings at which a worker came last.",
         r[i].look.last);
    yk_prom_family(p, "yoke_worker_phase_seconds_total", "counter", "Where the time of a worker went.");
    for (int i = 0; i < n; i++)
        for (int k = 0; trains(&r[i]) && k < YK_PHASES; k++)
            yk_prom_sample(p, LABELS("worker", r[i].label, "phase", yk_phase_name((yk_phase)k)),
                           r[i].look.phase[k]);
    if (!n || !r[0].role)
        return;
    EACH(true, "yoke_worker_lost", "gauge", "1: this rank of the job is lost.", r[i].lost);
    EACH(true, "yoke_worker_joined", "gauge", "1: it joined while the job ran.", r[i].joined);
    EACH(true, "yoke_worker_cpu_cores", "gauge", "Cores in use by a rank.", r[i].cpu);
    EACH(true, "yoke_worker_resident_bytes", "gauge", "Memory of a rank.", r[i].rss);
    EACH(true, "yoke_worker_sent_bytes_total", "counter", "Bytes that a rank has sent.", r[i].sent);
    EACH(true, "yoke_worker_received_bytes_total", "counter", "Bytes that a rank has received.",
         r[i].received);
#undef EACH
}

static void metrics_of_resources(yk_prom *p, const yk__history *h)
{
    const yk_sample *s = &h->sample;
    yk_prom_family(p, "yoke_cpu_cores", "gauge", "Cores in use by this process.");
    yk_prom_sample(p, LABELS("mode", "user"), s->cpu_user);
    yk_prom_sample(p, LABELS("mode", "system"), s->cpu_system);
    one(p, "yoke_host_cpu_cores", "gauge", "Busy cores of the host.", s->cpu_host);
    one(p, "yoke_resident_bytes", "gauge", "Memory of this process.", s->rss);
    one(p, "yoke_resident_peak_bytes", "gauge", "Its most so far.", s->rss_peak);
    yk_prom_family(p, "yoke_network_bytes_per_second", "gauge", "All interfaces of the host but loopback.");
    yk_prom_sample(p, LABELS("direction", "in"), s->net_in);
    yk_prom_sample(p, LABELS("direction", "out"), s->net_out);
    yk_prom_family(p, "yoke_disk_bytes_per_second", "gauge", "Disk traffic of this process.");
    yk_prom_sample(p, LABELS("direction", "read"), s->disk_read);
    yk_prom_sample(p, LABELS("direction", "written"), s->disk_written);
    yk_prom_family(p, "yoke_bottleneck_share", "gauge",
                   "What holds the run back: the share of the workers' time that it costs.");
    for (int k = 0; h->judged && k < YK_VERDICT_KINDS; k++)
        yk_prom_sample(p, LABELS("kind", yk_verdict_name((yk_verdict_kind)k)),
                       k == (int)h->verdict.kind ? h->verdict.share : 0.0);
}

static char *metrics(yk_observer *o, const yk__history *h, const row *rows, int n)
{
    const yk_config *c = o->c.config;
    const yk_plan *plan = o->c.plan;
    yk_prom p = {0};
    yk_prom_family(&p, "yoke_info", "gauge", "What is trained.");
    yk_prom_sample(&p,
                   LABELS("version", YK_VERSION, "model", c->model, "data", c->data, "mode",
                          plan->synchronous ? "sync" : "async"),
                   1.0);
    int workers = 0;
    for (int i = 0; i < n; i++)
        workers += trains(&rows[i]) && !rows[i].lost;
    one(&p, "yoke_workers", "gauge", "Workers that train.", workers);
    one(&p, "yoke_seconds", "gauge", "Since the run began.", yk__observer_seconds(o));
    one(&p, "yoke_seconds_left", "gauge", "Until it will end.", left_by(&o->seconds_left));
    one(&p, "yoke_steps_total", "counter", "Steps of the run.",
        (double)atomic_load_explicit(&o->step, memory_order_relaxed));
    one(&p, "yoke_examples_total", "counter", "Examples used.",
        (double)atomic_load_explicit(&o->examples, memory_order_relaxed));
    one(&p, "yoke_examples_per_second", "gauge", "Lately.", left_by(&o->rate));
    one(&p, "yoke_epoch", "gauge", "Passes over the data, with the part of the running one.",
        left_by(&o->epoch));
    one(&p, "yoke_loss", "gauge", "Training loss, lately.", left_by(&o->loss));
    one(&p, "yoke_test_loss", "gauge", "Of the last test.", left_by(&o->test_loss));
    one(&p, "yoke_test_accuracy", "gauge", "Of the last test.", left_by(&o->accuracy));
    one(&p, "yoke_learning_rate", "gauge", "Now.", left_by(&o->lr));
    metrics_of_workers(&p, rows, n);
    metrics_of_resources(&p, h);
    return yk_prom_take(&p);
}

char *yk__live_document(void *observer, yk_http_document which)
{
    yk_observer *o = observer;
    yk__history *h = copy_of(o);
    int n = 0;
    row *rows = h ? rows_of(o, h, &n) : NULL;
    char *out = rows ? which == YK_HTTP_STATUS ? status(o, h, rows, n) : metrics(o, h, rows, n) : NULL;
    free(rows);
    free(h);
    return out;
}
