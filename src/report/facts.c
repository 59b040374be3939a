#include "report/facts.h"

#include "base/number.h"
#include "config/option.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- summary.json ---- */

const json_t *yk_summary_at(const json_t *from, const char *path)
{
    while (from && *path) {
        const char *dot = strchr(path, '.');
        char name[64];
        size_t n = dot ? (size_t)(dot - path) : strlen(path);
        if (n >= sizeof name)
            return NULL;
        memcpy(name, path, n);
        name[n] = 0;
        from = json_object_get(from, name);
        path += n + (dot != NULL);
    }
    return json_is_null(from) ? NULL : from;
}

double yk_summary_number(const yk_run *r, const char *path)
{
    const json_t *j = r->summary ? yk_summary_at(r->summary, path) : NULL;
    return json_is_number(j) ? json_number_value(j) : json_is_true(j) ? 1.0 : json_is_false(j) ? 0.0 : NAN;
}

const char *yk_summary_text(const yk_run *r, const char *path)
{
    const json_t *j = r->summary ? yk_summary_at(r->summary, path) : NULL;
    const char *s = json_string_value(j);
    return s && *s ? s : NULL;
}

/* ---- from several places ---- */

static double option(const yk_run *r, const char *name, double otherwise)
{
    const char *s = yk_run_get(r, name);
    double x = s ? NAN : otherwise;
    if (s)
        yk_number_real(s, -HUGE_VAL, HUGE_VAL, &x);
    return x;
}

static double either(double a, double b)
{
    return isfinite(a) ? a : b;
}

/* Over the processes of the run: sums of means or peaks. */
static double sum(const yk_run *r, size_t offset, bool peak)
{
    double total = NAN;
    for (size_t i = 0; i < r->workers; i++) {
        const yk_run_sample *s = peak ? &r->worker[i].peak : &r->worker[i].mean;
        double x = yk_double_at(s, offset);
        if (isfinite(x))
            total = either(total, 0.0) + x;
    }
    return total;
}

#define MEAN(r, field) sum(r, offsetof(yk_run_sample, field), false)
#define PEAK(r, field) sum(r, offsetof(yk_run_sample, field), true)

/* Of all hosts, each once. */
static double all_cores(const yk_run *r)
{
    double total = NAN;
    for (size_t i = 0; i < r->workers; i++) {
        bool seen = false;
        for (size_t k = 0; k < i; k++)
            seen |= !strcmp(r->worker[i].host, r->worker[k].host);
        if (!seen && isfinite(r->worker[i].cores))
            total = either(total, 0.0) + r->worker[i].cores;
    }
    return total;
}

static void last_of(const yk_run *r, yk_facts *f)
{
    const yk_metric *t = r->train.n ? &r->train.row[r->train.n - 1] : NULL;
    const yk_metric *e = r->eval.n ? &r->eval.row[r->eval.n - 1] : NULL;
    const yk_metric *end = !t || (e && e->step >= t->step) ? e : t;
    if (end) {
        f->epochs = end->epoch; /* a fraction, where the summary has whole ones only */
        f->steps = either(f->steps, end->step);
        f->examples = either(f->examples, end->examples);
        f->seconds = either(f->seconds, end->seconds);
        f->steps_per_second =
            either(f->steps_per_second, end->seconds > 0.0 ? end->step / end->seconds : NAN);
        f->examples_per_second =
            either(f->examples_per_second, end->seconds > 0.0 ? end->examples / end->seconds : NAN);
    }
    if (e) {
        f->train_loss = either(f->train_loss, e->train_loss);
        f->test_loss = either(f->test_loss, e->test_loss);
        f->test_accuracy = either(f->test_accuracy, e->test_accuracy);
        f->test_auc = either(f->test_auc, e->test_auc);
        f->majority = either(f->majority, e->majority_accuracy);
    } else if (t) {
        f->train_loss = either(f->train_loss, t->loss);
    }
    /* A loss that is not a number is written as null: a run whose last lines have none has diverged. */
    f->diverged = (t && isnan(t->loss)) || (e && isnan(e->train_loss) && isnan(e->test_loss));
}

static void phases_of(const yk_run *r, yk_facts *f)
{
    double total = 0.0;
    bool said = r->summary && json_is_object(yk_summary_at(r->summary, "phases"));
    for (int p = 0; p < YK_PHASES; p++) {
        char path[64];
        snprintf(path, sizeof path, "phases.%s", yk_phase_name((yk_phase)p));
        f->phase[p] = said ? either(yk_summary_number(r, path), 0.0) : 0.0;
        for (size_t i = 0; !said && i < r->workers; i++)
            f->phase[p] += either(r->worker[i].last.phase[p], 0.0);
        total += f->phase[p];
    }
    for (int p = 0; p < YK_PHASES; p++)
        f->phase[p] = total > 0.0 ? f->phase[p] / total : NAN;
}

/* A mean that is written as a number, or as an object with one. */
static double resource(const yk_run *r, const char *name, const char *of)
{
    char path[64];
    snprintf(path, sizeof path, "resources.%s.%s", name, of);
    double x = yk_summary_number(r, path);
    snprintf(path, sizeof path, "resources.%s", name);
    return isfinite(x) || strcmp(of, "mean") ? x : yk_summary_number(r, path);
}

static void resources_of(const yk_run *r, yk_facts *f)
{
    double cpu_seconds = yk_summary_number(r, "cpu_seconds");
    f->cpu = either(either(MEAN(r, cpu), resource(r, "cpu", "mean")), cpu_seconds / f->seconds);
    f->cpu_peak = either(PEAK(r, cpu), resource(r, "cpu", "peak"));
    f->cores = either(all_cores(r), resource(r, "cpu", "of"));
    f->memory = either(MEAN(r, rss), resource(r, "memory", "mean"));
    f->memory_peak = either(either(PEAK(r, rss_peak), PEAK(r, rss)),
                            either(resource(r, "memory", "peak"), yk_summary_number(r, "peak_rss_bytes")));
    f->sent = yk_summary_number(r, "bytes_sent");
    f->received = yk_summary_number(r, "bytes_received");
    double own = (f->sent + f->received) / f->seconds;
    f->network = either(own, either(MEAN(r, net_in) + MEAN(r, net_out),
                                    resource(r, "net_in", "mean") + resource(r, "net_out", "mean")));
    f->disk = either(MEAN(r, disk_read) + MEAN(r, disk_written),
                     resource(r, "disk_read", "mean") + resource(r, "disk_written", "mean"));
}

void yk_facts_of(const yk_run *r, yk_facts *out)
{
    *out = (yk_facts){0};
    yk_facts *f = out;
    const char *said;
    f->model = (said = yk_summary_text(r, "model")) ? said : yk_run_get(r, "model");
    f->data = (said = yk_summary_text(r, "data")) ? said : yk_run_get(r, "data");
    f->optimizer = (said = yk_summary_text(r, "optimizer")) ? said : yk_run_get(r, "optimizer");
    if (!f->optimizer)
        f->optimizer = "sgd"; /* as yoke train does */
    f->mode = (said = yk_summary_text(r, "mode")) ? said : yk_run_get(r, "mode");
    if (!f->mode)
        f->mode = option(r, "staleness", 0) > 0.0 ? "async" : "sync";
    f->staleness = either(yk_summary_number(r, "staleness"), option(r, "staleness", NAN));
    if (f->staleness < 0.0)
        f->staleness = NAN; /* no bound */
    f->workers = either(yk_summary_number(r, "workers"), option(r, "workers", 1));
    f->ranks = either(yk_summary_number(r, "ranks"), r->workers ? (double)r->workers : 1.0);
    f->servers = either(yk_summary_number(r, "servers"), option(r, "servers", 0));
    f->threads = either(yk_summary_number(r, "threads"), option(r, "threads", 1));
    f->batch = either(yk_summary_number(r, "batch"), option(r, "batch", NAN));
    f->global_batch = either(yk_summary_number(r, "global_batch"), f->batch * f->workers);
    f->lr = either(yk_summary_number(r, "lr"), option(r, "lr", NAN));
    if (isnan(f->lr) && r->train.n)
        f->lr = r->train.row[0].learning_rate;
    f->seed = either(yk_summary_number(r, "seed"), option(r, "seed", r->options ? 1.0 : NAN));
    f->epochs = yk_summary_number(r, "epochs");
    f->steps = yk_summary_number(r, "steps");
    f->examples = yk_summary_number(r, "examples");
    f->seconds = yk_summary_number(r, "seconds");
    f->steps_per_second = yk_summary_number(r, "steps_per_second");
    f->examples_per_second = yk_summary_number(r, "examples_per_second");
    f->train_loss = yk_summary_number(r, "train_loss");
    f->test_loss = yk_summary_number(r, "test_loss");
    f->test_accuracy = yk_summary_number(r, "test_accuracy");
    f->test_auc = yk_summary_number(r, "test_auc");
    f->best_loss = yk_summary_number(r, "best_loss");
    f->best_auc = yk_summary_number(r, "best_auc");
    f->majority = yk_summary_number(r, "majority_accuracy");
    last_of(r, f);
    resources_of(r, f);
    phases_of(r, f);
    f->stale_mean = yk_summary_number(r, "observed_staleness.mean");
    f->verdict = yk_summary_text(r, "verdict");
    f->bottleneck = yk_summary_text(r, "bottleneck.kind");
    f->advice = yk_summary_text(r, "bottleneck.advice");
    f->share = yk_summary_number(r, "bottleneck.share");
    f->ended = r->summary != NULL;
    f->interrupted = yk_summary_number(r, "interrupted") > 0.0;
    f->failed = (said = yk_summary_text(r, "state")) && !strcmp(said, "failed");
    f->error = f->failed ? yk_summary_text(r, "error") : NULL;
    if (!f->diverged)
        yk_flat_find(&r->eval, &f->flat);
}

bool yk__changes_results(const char *option)
{
    const yk_option *o = yk_option_find(option);
    return strcmp(option, "staleness") && (!o || o->flags & YK_OPT_CHANGES_RESULTS);
}

bool yk_facts_option(const yk_facts *f, const char *name, int digits, char *out)
{
    const struct {
        const char *name, *text;
        double number;
    } known[] = {{"model", f->model, NAN},  {"data", f->data, NAN},           {"workers", NULL, f->workers},
                 {"ranks", NULL, f->ranks}, {"servers", NULL, f->servers},    {"threads", NULL, f->threads},
                 {"batch", NULL, f->batch}, {"optimizer", f->optimizer, NAN}, {"lr", NULL, f->lr},
                 {"seed", NULL, f->seed}};
    *out = 0;
    if (!strcmp(name, "mode")) {
        yk_mode_text(f, out);
        return true;
    }
    size_t k = 0;
    while (k < sizeof known / sizeof *known && strcmp(name, known[k].name))
        k++;
    if (k == sizeof known / sizeof *known)
        return false;
    if (known[k].text)
        snprintf(out, YK_OPTION_ROOM, "%s", known[k].text);
    else if (isfinite(known[k].number))
        snprintf(out, YK_OPTION_ROOM, "%.*g", digits, known[k].number);
    return true;
}

void yk_run_key(const yk_run *r, const yk_facts *f, const char *const *except, yk_text *out)
{
    static const char *const facts[] = {"model",   "data",  "mode",      "workers", "ranks", "servers",
                                        "threads", "batch", "optimizer", "lr",      NULL};
    static const char *const repeats[] = {"seed", "steps", "epochs", NULL}; /* in which repeats may differ */
    char text[YK_OPTION_ROOM];
    for (int i = 0; facts[i]; i++)
        if (!yk_is_listed(facts[i], except) && yk_facts_option(f, facts[i], 9, text))
            yk_text_print(out, "%s=%s\n", facts[i], text);
    for (size_t o = 0; o < r->options; o++) {
        const char *name = r->option[o].name;
        if (yk__changes_results(name) && !yk_is_listed(name, facts) && !yk_is_listed(name, repeats) &&
            !yk_is_listed(name, except))
            yk_text_print(out, "%s=%s\n", name, r->option[o].value);
    }
}

void yk_mode_text(const yk_facts *f, char *out)
{
    if (f->mode && strcmp(f->mode, "sync") && f->staleness > 0.0)
        snprintf(out, 32, "stale %.0f", f->staleness);
    else
        snprintf(out, 32, "%.31s",
                 f->mode && strcmp(f->mode, "sync") && f->staleness == 0.0 ? "sync"
                 : f->mode                                                 ? f->mode
                                                                           : "sync");
}

double yk_run_reaches(const yk_run *r, double accuracy)
{
    for (size_t i = 0; i < r->eval.n; i++)
        if (r->eval.row[i].test_accuracy >= accuracy)
            return r->eval.row[i].seconds;
    return NAN;
}
