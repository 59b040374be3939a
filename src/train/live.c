/* The documents of the live page: status.json for watch/page.c, and metrics for Prometheus (docs: man page, LIVE). */
#include "train/observe.h"

#include "base/clock.h"
#include "watch/prom.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
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

static double left_by(const _Atomic double *x)
{
    return atomic_load_explicit(x, memory_order_relaxed);
}

/* A copy that nobody changes, so that the lock is held for a moment only. NULL: no memory. */
static yk__history *copy_of(yk__observer *o)
{
    yk__history *h = malloc(sizeof *h);
    if (!h)
        return NULL;
    pthread_mutex_lock(&o->lock);
    *h = o->history;
    pthread_mutex_unlock(&o->lock);
    return h;
}

/* ---- status.json ---- */

static json_t *phases_of(const double *phase, double seconds)
{
    json_t *o = json_object();
    for (int k = 0; k < YK_PHASES; k++)
        put(o, yk_phase_name((yk_phase)k), real(seconds > 0.0 ? phase[k] / seconds : 0.0));
    return o;
}

static json_t *workers_of(const yk__trainer *t, json_t **mean_out)
{
    json_t *list = json_array();
    double sum[YK_PHASES] = {0}, seconds = 0.0;
    for (int i = 0; i < t->here; i++) {
        yk_phases_look l;
        char name[32];
        yk_phases_read(&t->phases[i], &l);
        snprintf(name, sizeof name, "worker %d", i);
        const double trained = l.seconds - l.phase[YK_PHASE_EVAL] - l.phase[YK_PHASE_CHECKPOINT];
        json_t *w = json_object();
        put(w, "name", text(name));
        put(w, "steps", json_integer((json_int_t)l.steps));
        put(w, "examples", json_integer((json_int_t)l.examples));
        put(w, "examples_per_second", real(trained > 0.0 ? (double)l.examples / trained : (double)NAN));
        put(w, "last", real(l.meetings ? (double)l.last / (double)l.meetings : (double)NAN));
        put(w, "phases", phases_of(l.phase, l.seconds));
        json_array_append_new(list, w);
        for (int k = 0; k < YK_PHASES; k++)
            sum[k] += l.phase[k];
        seconds += l.seconds;
    }
    *mean_out = phases_of(sum, seconds);
    return list;
}

static json_t *history_of(const yk__history *h)
{
    static const char *const names[YK__COLUMNS] = {
        "seconds", "step",   "loss",    "examples_per_second", "cpu",         "cpu_host",
        "rss",     "net_in", "net_out", "disk_read",           "disk_written"};
    json_t *o = json_object();
    for (int c = 0; c < YK__COLUMNS; c++) {
        json_t *column = json_array();
        for (int i = 0; i < h->npoints; i++)
            json_array_append_new(column, real(h->point[i][c]));
        put(o, names[c], column);
    }
    return o;
}

static json_t *tests_of(const yk__history *h)
{
    json_t *o = json_object(), *seconds = json_array(), *step = json_array(), *loss = json_array(),
           *accuracy = json_array();
    for (int i = 0; i < h->ntests; i++) {
        json_array_append_new(seconds, real(h->test[i].seconds));
        json_array_append_new(step, real(h->test[i].step));
        json_array_append_new(loss, real(h->test[i].loss));
        json_array_append_new(accuracy, real(h->test[i].accuracy));
    }
    put(o, "seconds", seconds);
    put(o, "step", step);
    put(o, "test_loss", loss);
    put(o, "test_accuracy", accuracy);
    return o;
}

static void put_verdict(json_t *o, const yk__history *h)
{
    const yk_verdict *v = &h->verdict;
    put(o, "verdict", h->judged ? text(v->text) : json_null());
    put(o, "advice", h->judged ? text(v->advice) : json_null());
    put(o, "bottleneck", h->judged ? text(yk_verdict_name(v->kind)) : json_null());
    put(o, "share", h->judged ? real(v->share) : json_null());
    json_t *estimates = json_array();
    for (int i = 0; h->judged && i < v->nestimates; i++)
        json_array_append_new(estimates, json_pack("{s:s, s:f}", "change", v->estimate[i].change, "speedup",
                                                   v->estimate[i].speedup));
    put(o, "estimates", estimates);
}

static char *status(yk__observer *o, const yk__history *h)
{
    const yk__trainer *t = o->t;
    const yk_config *c = t->config;
    json_t *j = json_object(), *mean;
    if (!j)
        return NULL;
    put(j, "model", text(c->model));
    put(j, "data", text(c->data));
    put(j, "mode", text(t->in_step ? "synchronous" : "asynchronous"));
    put(j, "workers", json_integer(t->workers));
    put(j, "batch", json_integer((json_int_t)t->batch));
    put(j, "optimizer", text(yk_store_rule(t->store)->name));
    put(j, "host", text(h->usage.host[0] ? h->usage.host : "this machine"));
    put(j, "cores", json_integer(yk_cores()));
    put(j, "run", text(t->result->run_dir));
    put(j, "seconds", real(t->earlier_seconds + yk_now() - t->began));
    put(j, "seconds_left", real(left_by(&o->seconds_left)));
    put(j, "step", json_integer((json_int_t)atomic_load_explicit(&o->step, memory_order_relaxed)));
    put(j, "steps_asked", t->steps != UINT64_MAX ? json_integer((json_int_t)t->steps) : json_null());
    put(j, "examples", json_integer((json_int_t)atomic_load_explicit(&o->examples, memory_order_relaxed)));
    put(j, "epoch", real(left_by(&o->epoch)));
    put(j, "epochs_asked", t->epochs != UINT64_MAX ? json_integer((json_int_t)t->epochs) : json_null());
    put(j, "loss", real(left_by(&o->loss)));
    put(j, "test_loss", real(left_by(&o->test_loss)));
    put(j, "test_accuracy", real(left_by(&o->accuracy)));
    put(j, "examples_per_second", real(left_by(&o->rate)));
    put(j, "steps_per_second", real(left_by(&o->step_rate)));
    put(j, "learning_rate", real(left_by(&o->lr)));
    put_verdict(j, h);
    put(j, "processes", workers_of(t, &mean));
    put(j, "phases", mean);
    put(j, "history", history_of(h));
    put(j, "evals", tests_of(h));
    char *out = json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(6));
    json_decref(j);
    return out;
}

/* ---- metrics ---- */

#define LABELS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void one(yk_prom *p, const char *name, const char *type, const char *help, double value)
{
    yk_prom_family(p, name, type, help);
    yk_prom_sample(p, NULL, value);
}

static void metrics_of_workers(yk_prom *p, const yk__trainer *t)
{
    yk_phases_look *l = calloc((size_t)t->here, sizeof *l);
    char name[16];
    if (!l) {
        p->failed = true;
        return;
    }
    for (int i = 0; i < t->here; i++)
        yk_phases_read(&t->phases[i], &l[i]);
#define EACH(value)                                                                                          \
    for (int i = 0; i < t->here; i++) {                                                                      \
        snprintf(name, sizeof name, "%d", i);                                                                \
        yk_prom_sample(p, LABELS("worker", name), (double)(value));                                          \
    }
    yk_prom_family(p, "yoke_worker_steps_total", "counter", "Steps that a worker has made.");
    EACH(l[i].steps)
    yk_prom_family(p, "yoke_worker_examples_total", "counter", "Examples that a worker has used.");
    EACH(l[i].examples)
    yk_prom_family(p, "yoke_worker_last_total", "counter", "Meetings at which a worker came last.");
    EACH(l[i].last)
#undef EACH
    yk_prom_family(p, "yoke_worker_phase_seconds_total", "counter", "Where the time of a worker went.");
    for (int i = 0; i < t->here; i++)
        for (int k = 0; k < YK_PHASES; k++) {
            snprintf(name, sizeof name, "%d", i);
            yk_prom_sample(p, LABELS("worker", name, "phase", yk_phase_name((yk_phase)k)), l[i].phase[k]);
        }
    free(l);
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

static char *metrics(yk__observer *o, const yk__history *h)
{
    const yk__trainer *t = o->t;
    const yk_config *c = t->config;
    yk_prom p = {0};
    yk_prom_family(&p, "yoke_info", "gauge", "What is trained.");
    yk_prom_sample(&p,
                   LABELS("version", YK_VERSION, "model", c->model, "data", c->data, "mode",
                          t->in_step ? "sync" : "async"),
                   1.0);
    one(&p, "yoke_workers", "gauge", "Workers of this process.", (double)t->here);
    one(&p, "yoke_seconds", "gauge", "Since the run began.", t->earlier_seconds + yk_now() - t->began);
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
    metrics_of_workers(&p, t);
    metrics_of_resources(&p, h);
    return yk_prom_take(&p);
}

char *yk__live_document(void *observer, yk_http_document which)
{
    yk__observer *o = observer;
    yk__history *h = copy_of(o);
    char *out = h ? which == YK_HTTP_STATUS ? status(o, h) : metrics(o, h) : NULL;
    free(h);
    return out;
}
