/* The live page (page.html), status.json, which it fetches once a second, and metrics for Prometheus. */
#include "observe/observe_internal.h"

#include "base/number.h"
#include "observe/prom.h"
#include <stdlib.h>

/* ---- status.json ---- */

/* The processes of the job; in one process, its threads, which have a number and phases only. The caller frees the list. NULL: out
 * of memory. */
static yk_process *list_workers(yk_observer *o, const yk__history *h, int *n_out)
{
    const yk_process self = yk__self_so_far(o, &h->usage);
    if (!o->single_process)
        return yk__processes(o, &self, n_out);
    yk_process *threads = calloc((size_t)o->c.workers, sizeof *threads);
    for (int i = 0; threads && i < o->c.workers; i++) {
        threads[i] = (yk_process){.rank = i, .workers = 1};
        yk_phases_read(&o->c.phases[i], &threads[i].phases);
    }
    *n_out = o->c.workers;
    return threads;
}

/* What a process sampled; NaN: nothing yet. */
static double sampled(const yk_process *p, double value)
{
    return p->sample.seconds > 0.0 ? value : (double)NAN;
}

static double rate_of_worker(const yk_process *p)
{
    const yk_phases_sample *l = &p->phases;
    const double trained = l->seconds - l->phase[YK_PHASE_EVAL] - l->phase[YK_PHASE_CHECKPOINT];
    return p->workers && trained > 0.0 ? (double)l->examples / trained : (double)NAN;
}

/* The columns of a table whose rows have `width` bytes and begin with these numbers, each as an array. */
static void put_columns(yk_json *j, const char *name, const char *const *columns, const void *table,
                        size_t width, int rows)
{
    yk_json_object(j, name);
    for (size_t c = 0; columns[c]; c++) {
        yk_json_array(j, columns[c]);
        for (int i = 0; i < rows; i++)
            yk_json_real(j, NULL, ((const double *)((const char *)table + (size_t)i * width))[c]);
        yk_json_end(j);
    }
    yk_json_end(j);
}

/* Each process, and the mean of their phases. */
static void put_processes(yk_observer *o, const yk__history *h, yk_json *j, const yk_process *all, int n)
{
    static const char *const curves[] = {"seconds", "cpu", "rss", "sent", "received", NULL};
    const bool job = !o->single_process;
    yk_json_array(j, "processes");
    double sum[YK_PHASES] = {0}, seconds = 0.0;
    for (const yk_process *p = all; p < all + n; p++) {
        const yk_phases_sample *l = &p->phases;
        const double none = (double)NAN;
        char name[32];
        snprintf(name, sizeof name, "%s %d", job ? "rank" : "worker", p->rank);
        YK_JSON(j, YK_OBJECT(NULL), YK_TEXT("name", name),
                YK_TEXT("role", !job         ? NULL
                                : p->workers ? "worker"
                                             : "server"),
                YK_BOOL("joined", p->joined), YK_BOOL("lost", p->lost),
                YK_REAL("cpu", sampled(p, p->sample.cpu)), YK_REAL("rss", sampled(p, p->sample.rss)),
                YK_REAL("bytes_sent", job ? (double)p->bytes_sent : none),
                YK_REAL("bytes_received", job ? (double)p->bytes_received : none),
                YK_REAL("sent_rate", sampled(p, p->sample.sent)),
                YK_REAL("received_rate", sampled(p, p->sample.received)), YK_INT("steps", l->steps),
                YK_INT("examples", l->examples), YK_REAL("examples_per_second", rate_of_worker(p)),
                YK_REAL("last", l->barriers ? (double)l->last / (double)l->barriers : none));
        yk__process_phases_json(j, p, !p->workers);
        if (job) {
            yk__curve other;
            const yk__curve *curve = p->rank ? &other : &h->process;
            if (p->rank)
                yk__telemetry_curve(o, p->rank, &other);
            put_columns(j, "curves", curves, curve->point, sizeof *curve->point, curve->n);
        }
        yk_json_end(j);
        for (int k = 0; p->workers && k < YK_PHASES; k++)
            sum[k] += l->phase[k];
        seconds += p->workers ? l->seconds : 0.0;
    }
    yk_json_end(j);
    yk_phases_json(j, sum, seconds, false);
}

static void put_history(yk_json *j, const yk__history *h)
{
    static const char *const points[] = {"seconds",      "cpu",       "rss",          "own_sent",
                                         "own_received", "step",      "loss",         "examples_per_second",
                                         "cpu_host",     "sent",      "received",     "net_in",
                                         "net_out",      "disk_read", "disk_written", NULL};
    put_columns(j, "history", points, h->process.point, sizeof *h->process.point, h->process.n);
    put_columns(j, "evals", yk_metric_names, yk__metrics_of(h->curve), sizeof *h->curve,
                h->tested.tested || h->tested.validated ? h->ncurve : 0);
}

/* During a run, its time and rates so far. The rates are those of all workers together while training, as in the summary: without
 * evaluations and checkpoints (a dedicated server does not pause for them) and without late gradients. */
static void add_rates(yk_observer *o, yk__history *h, const yk_process *chief)
{
    const yk_progress_report *p = &h->progress;
    const double *phase = chief->phases.phase, here = (double)p->now.examples - (double)o->c.earlier_examples,
                 paused = chief->workers ? phase[YK_PHASE_EVAL] + phase[YK_PHASE_CHECKPOINT] : 0.0;
    if (h->end.state)
        return;
    h->end.seconds = yk__observer_seconds(o);
    h->end.examples_per_second = here > 0.0 ? here / (h->end.seconds - paused) : (double)NAN;
    h->end.steps_per_second = h->end.examples_per_second * (double)p->now.step / (double)p->now.examples;
}

/* NULL: the model does not have both keyed and dense parameters, or they have the same optimizer. */
static const char *dense_optimizer(const yk_observer *o)
{
    const yk_optim_config *dense = o->c.optim[1];
    return dense && dense->kind != o->c.optim[0]->kind ? yk_optim_rule_of(dense->kind)->name : NULL;
}

static char *status(yk_observer *o, const yk__history *h, const yk_process *all, int n)
{
    const yk_config *c = o->c.config;
    const yk_plan *plan = o->c.plan;
    const yoke_progress *p = &h->progress.now;
    const yk_verdict *v = h->judged ? &h->verdict : NULL;
    yk_json text = {.digits = 6}, *j = &text;
    YK_JSON(j, YK_OBJECT(NULL), YK_TEXT("model", c->model), YK_TEXT("data", c->data),
            YK_TEXT("mode", plan->synchronous ? "synchronous" : "asynchronous"),
            YK_INT("workers", plan->workers), YK_INT("batch", plan->batch),
            YK_TEXT("optimizer", yk_optim_rule_of(o->c.optim[0]->kind)->name),
            YK_TEXT("dense_optimizer", dense_optimizer(o)),
            YK_TEXT("host", h->usage.host[0] ? h->usage.host : "localhost"), YK_INT("cores", yk_cores()),
            YK_TEXT("run", o->c.run_dir), YK_TEXT("state", h->end.state ? h->end.state : "running"),
            YK_TEXT("error", h->end.error), YK_REAL("seconds", h->end.seconds),
            YK_REAL("seconds_left", p->seconds_left), YK_INT("step", p->step),
            YK_INT_OR_NULL("total_steps", plan->steps != UINT64_MAX, plan->steps),
            YK_INT("examples", p->examples), YK_REAL("epoch", p->epoch),
            YK_INT_OR_NULL("total_epochs", plan->epochs != UINT64_MAX, plan->epochs));
    for (int k = YK__TEST_LOSS; k < YK__METRICS; k++)
        yk_json_real(j, yk_metric_names[k], yk__metrics_of(&h->tested)[k]);
    YK_JSON(
        j, YK_REAL("loss", p->loss), YK_REAL("best_loss", o->c.best_loss), YK_REAL("best_auc", o->c.best_auc),
        YK_REAL("examples_per_second", h->end.examples_per_second),
        YK_REAL("steps_per_second", h->end.steps_per_second), YK_REAL("learning_rate", h->progress.rate[0]),
        YK_REAL("dense_learning_rate", h->progress.rate[1]), YK_TEXT("verdict", v ? v->text : NULL),
        YK_TEXT("advice", v ? v->advice : NULL), YK_TEXT("bottleneck", v ? yk_verdict_name(v->kind) : NULL),
        YK_REAL("share", v ? v->share : (double)NAN));
    put_processes(o, h, j, all, n);
    put_history(j, h);
    yk_json_end(j);
    return yk_json_take(j);
}

/* ---- metrics ---- */

#define LABELS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void one(yk_prom *p, const char *name, const char *help, double value)
{
    yk_prom_family(p, name, help);
    yk_prom_sample(p, NULL, value);
}

static void metrics_of_workers(yk_prom *p, const yk_process *all, int n, bool job)
{
    char label[16];
#define EACH(who, name, help, value)                                                                         \
    yk_prom_family(p, name, help);                                                                           \
    for (const yk_process *w = all; w < all + n; w++)                                                        \
        if (who) {                                                                                           \
            snprintf(label, sizeof label, "%d", w->rank);                                                    \
            yk_prom_sample(p, LABELS("worker", label), (double)(value));                                     \
        }
    EACH(w->workers, "yoke_worker_steps_total", "Steps of a worker.", w->phases.steps);
    EACH(w->workers, "yoke_worker_examples_total", "Examples that a worker used.", w->phases.examples);
    EACH(w->workers, "yoke_worker_last_total", "Barriers at which a worker was last.", w->phases.last);
    yk_prom_family(p, "yoke_worker_phase_seconds_total", "Time of a worker by phase.");
    for (const yk_process *w = all; w < all + n; w++) {
        snprintf(label, sizeof label, "%d", w->rank);
        for (int k = 0; k < YK_PHASES; k++)
            if (yk_phase_applies((yk_phase)k, !w->workers))
                yk_prom_sample(p, LABELS("worker", label, "phase", yk_phase_name((yk_phase)k)),
                               w->phases.phase[k]);
    }
    if (!job)
        return;
    EACH(true, "yoke_worker_lost", "1 if the rank is lost.", w->lost);
    EACH(true, "yoke_worker_joined", "1 if the process joined the running job.", w->joined);
    EACH(true, "yoke_worker_cpu_cores", "Cores that a rank uses.", sampled(w, w->sample.cpu));
    EACH(true, "yoke_worker_resident_bytes", "Resident memory of a rank.", sampled(w, w->sample.rss));
    EACH(true, "yoke_worker_sent_bytes_total", "Bytes that a rank sent.", w->bytes_sent);
    EACH(true, "yoke_worker_received_bytes_total", "Bytes that a rank received.", w->bytes_received);
    EACH(true, "yoke_worker_sent_bytes_per_second", "Bytes per second that a rank sends.",
         sampled(w, w->sample.sent));
    EACH(true, "yoke_worker_received_bytes_per_second", "Bytes per second that a rank receives.",
         sampled(w, w->sample.received));
#undef EACH
}

static void metrics_of_resources(yk_prom *p, const yk__history *h)
{
    const yk_sample *s = &h->sample;
    yk_prom_family(p, "yoke_cpu_cores", "Cores that this process uses.");
    yk_prom_sample(p, LABELS("mode", "user"), s->cpu_user);
    yk_prom_sample(p, LABELS("mode", "system"), s->cpu_system);
    one(p, "yoke_host_cpu_cores", "Busy cores of the host.", s->cpu_host);
    one(p, "yoke_resident_bytes", "Resident memory of this process.", s->rss);
    one(p, "yoke_resident_peak_bytes", "Peak resident memory of this process.", s->rss_peak);
    const yk__point *last = h->process.n ? &h->process.point[h->process.n - 1] : NULL;
    yk_prom_family(p, "yoke_network_bytes_per_second",
                   "Bytes per second that the processes of the run send to each other.");
    yk_prom_sample(p, LABELS("direction", "sent"), last ? last->sent : (double)NAN);
    yk_prom_sample(p, LABELS("direction", "received"), last ? last->received : (double)NAN);
    yk_prom_family(p, "yoke_host_network_bytes_per_second",
                   "Traffic of all programs on an interface of this host.");
    for (int i = 0; i < s->nnics; i++) {
        yk_prom_sample(p, LABELS("interface", s->nic[i].name, "direction", "in"), s->nic[i].in);
        yk_prom_sample(p, LABELS("interface", s->nic[i].name, "direction", "out"), s->nic[i].out);
    }
    yk_prom_family(p, "yoke_disk_bytes_per_second", "Disk I/O of this process.");
    yk_prom_sample(p, LABELS("direction", "read"), s->disk_read);
    yk_prom_sample(p, LABELS("direction", "written"), s->disk_written);
    yk_prom_family(p, "yoke_bottleneck_share", "The bottleneck: share of the workers' time that is lost.");
    for (int k = 0; h->judged && k < YK_VERDICT_KINDS; k++)
        yk_prom_sample(p, LABELS("kind", yk_verdict_name((yk_verdict_kind)k)),
                       k == (int)h->verdict.kind ? h->verdict.share : 0.0);
}

static char *metrics(yk_observer *o, const yk__history *h, const yk_process *all, int n)
{
    const yk_config *c = o->c.config;
    const yk_plan *plan = o->c.plan;
    const yoke_progress *at = &h->progress.now;
    const yoke_metrics *tested = &h->tested.m;
    yk_prom p = {0};
    yk_prom_family(&p, "yoke_info", "The model, the data and the mode of this run.");
    yk_prom_sample(&p, LABELS("version", YK_VERSION, "model", c->model, "data", c->data, "mode", plan->mode),
                   1.0);
    int workers = 0;
    for (int i = 0; i < n; i++)
        workers += all[i].workers && !all[i].lost;
    one(&p, "yoke_workers", "Workers that are not lost.", workers);
    one(&p, "yoke_running", "1 during the run, 0 after its end.", !h->end.state);
    one(&p, "yoke_seconds", "Seconds since the run began.", h->end.seconds);
    one(&p, "yoke_seconds_left", "Estimated seconds until the end of the run.", at->seconds_left);
    one(&p, "yoke_steps_total", "Steps of the run.", (double)at->step);
    one(&p, "yoke_examples_total", "Examples of the run.", (double)at->examples);
    one(&p, "yoke_examples_per_second", "Examples per second while training, since the start.",
        h->end.examples_per_second);
    one(&p, "yoke_epoch", "Epochs, including the fraction of the current one.", at->epoch);
    one(&p, "yoke_loss", "Recent training loss.", at->loss);
    one(&p, "yoke_test_loss", "Loss of the last evaluation.", tested->test_loss);
    one(&p, "yoke_validation_loss", "Loss of the last evaluation, on the validation set.",
        tested->validation_loss);
    one(&p, "yoke_test_accuracy", "Accuracy of the last evaluation.", tested->test_accuracy);
    one(&p, "yoke_test_auc", "AUC of the last evaluation, for two classes.", tested->test_auc);
    one(&p, "yoke_majority_accuracy", "Accuracy of always predicting the most frequent class.",
        tested->majority_accuracy);
    one(&p, "yoke_best_loss", "The lowest loss that any model can reach on the test set.", o->c.best_loss);
    one(&p, "yoke_best_auc", "The highest AUC that any model can reach on the test set.", o->c.best_auc);
    one(&p, "yoke_learning_rate", "Current learning rate.", h->progress.rate[0]);
    if (isfinite(h->progress.rate[1]))
        one(&p, "yoke_dense_learning_rate", "Current learning rate of the dense parameters.",
            h->progress.rate[1]);
    metrics_of_workers(&p, all, n, !o->single_process);
    metrics_of_resources(&p, h);
    return yk_text_take(&p.out);
}

/* ---- the server ---- */

/* `make`: status() or metrics(). */
static char *document(yk_observer *o,
                      char *(*make)(yk_observer *, const yk__history *, const yk_process *, int))
{
    yk__history *h = malloc(sizeof *h); /* a copy, so that the lock is held only briefly */
    int n;
    char *out = NULL;
    if (!h)
        return NULL;
    yk_mutex_lock(&o->lock);
    *h = o->history;
    yk_mutex_unlock(&o->lock);
    if (h->end.error)
        h->end.error = h->error; /* of the copy */
    yk_process *all = list_workers(o, h, &n);
    if (all) {
        add_rates(o, h, all);
        out = make(o, h, all, n);
    }
    if (out && make == status) {
        atomic_store(&o->page_seen, yk_now());
        atomic_store(&o->end_seen, h->end.state != NULL);
    }
    free(all);
    free(h);
    return out;
}

char *yk__live_status(void *observer)
{
    return document(observer, status);
}

static char *make_metrics(void *observer)
{
    return document(observer, metrics);
}

/* Generated from page.html and page.css by the build. */
extern const unsigned char yk_embedded_observe_page_html[], yk_embedded_observe_page_css[];

yk_status yk__live_start(yk_observer *o)
{
    static const char html[] = "text/html; charset=utf-8";
    static const yk_http_route routes[] = {
        {"/", html, .text = (const char *)yk_embedded_observe_page_html},
        {"/index.html", html, .text = (const char *)yk_embedded_observe_page_html},
        {"/page.css", "text/css; charset=utf-8", .text = (const char *)yk_embedded_observe_page_css},
        {"/status.json", "application/json; charset=utf-8", .make = yk__live_status},
        {"/metrics", "text/plain; version=0.0.4; charset=utf-8", .make = make_metrics},
        {NULL}};
    if (!o->c.http)
        return YK_OK;
    yk_status st = yk_http_start(o->c.http, routes, o);
    if (!st)
        yk_note("live page: %s", yk_http_url(o->c.http));
    return st;
}

/* ---- the end ---- */

void yk_observer_show_end(yk_observer *o, const yk_run_end *end, const volatile sig_atomic_t *stop)
{
    /* An open page polls every second; in a hidden tab, every minute. A sweep does not wait. */
    static const double step = 0.05, to_send = 0.5, every = 65.0; /* seconds */
    if (!o || !o->c.http)
        return;
    yk_mutex_lock(&o->lock);
    yk__history *h = &o->history;
    h->end = *end;
    snprintf(h->error, sizeof h->error, "%s", end->error ? end->error : "");
    h->end.verdict = NULL; /* the caller's */
    if (end->verdict) {
        h->verdict = *end->verdict;
        h->judged = true;
    }
    h->progress.now.step = end->step;
    h->progress.now.examples = end->examples;
    h->progress.now.epoch = end->epoch;
    h->progress.now.seconds_left = 0.0;
    if (isfinite(end->train_loss))
        h->progress.now.loss = end->train_loss;
    yk_mutex_unlock(&o->lock);
    const double seen = atomic_load(&o->page_seen),
                 timeout = seen > 0.0 ? seen + yk_env_number("YK_HTTP_WAIT", every) - yk_now() : 0.0;
    if (*stop || timeout <= 0.0)
        return;
    yk_note("live page: %s serves the result until the open page has fetched it, for at most %.0f s (Ctrl-C "
            "to stop waiting)",
            yk_http_url(o->c.http), timeout);
    yk_wait w = yk_wait_every(step, timeout);
    while (!*stop && !atomic_load(&o->end_seen) && yk_wait_poll(&w))
        ;
    if (atomic_load(&o->end_seen))
        yk_sleep(to_send);
}
