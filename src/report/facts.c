#include "report/facts.h"

#include "base/number.h"
#include "config/hosts.h"
#include "train/plan.h"
#include <stdio.h>
#include <stdlib.h>

const char *yk_when_text(double epoch, double step, char out[32])
{
    snprintf(out, 32, isfinite(epoch) ? "epoch %.6g" : "step %.0f",
             isfinite(epoch) ? yk_round_epochs(epoch) : step);
    return out;
}

const char *yk_bottleneck_text(const json_t *summary, char out[48])
{
    const char *kind = yk_string_at(summary, "bottleneck.kind");
    const double share = yk_number_at(summary, "bottleneck.share");
    const bool shares = share > 0.0 && kind && strcmp(kind, "none");
    snprintf(out, 48, shares ? "%.30s %.0f %%" : "%.30s", kind ? kind : "", 100.0 * share);
    return out;
}

/* ---- where a curve stops improving ---- */

/* Curves are noisy: the first evaluation within 1 % of the whole improvement (accuracy and AUC: or within 0.001) of the best value
 * counts as equally good. */
void yk_plateau_find(const yk_metrics *e, yk_plateau *out)
{
    enum { MIN_POINTS = 4 };
    static const struct {
        size_t offset;
        const char *what;
        bool up;
    } kinds[] = {{offsetof(yk_metric, test_auc), "test AUC", true},
                 {offsetof(yk_metric, test_accuracy), "test accuracy", true},
                 {offsetof(yk_metric, test_loss), "test loss", false},
                 {offsetof(yk_metric, train_loss), "training loss", false}};
    *out = (yk_plateau){0};
    size_t k = 0;
    for (size_t n = 0; k < 4; k++, n = 0) {
        for (size_t i = 0; i < e->n; i++)
            n += isfinite(yk_double_at(&e->row[i], kinds[k].offset));
        if (n >= MIN_POINTS)
            break;
    }
    if (k == 4)
        return;
    size_t offset = kinds[k].offset;
    double sign = kinds[k].up ? 1.0 : -1.0, best = -INFINITY, first = NAN;
    /* the model before training is no measure of progress */
    const size_t trained = e->row[0].step == 0.0 && e->n > 1;
    for (size_t i = trained; i < e->n; i++) {
        double v = sign * yk_double_at(&e->row[i], offset);
        if (isfinite(v)) {
            first = isfinite(first) ? first : v;
            best = v > best ? v : best;
        }
    }
    double noise = 0.01 * (best - first);
    if (kinds[k].up && noise < 0.001)
        noise = 0.001;
    size_t i = trained;
    while (!(sign * yk_double_at(&e->row[i], offset) >= best - noise))
        i++;
    const yk_metric *m = &e->row[i], *end = &e->row[e->n - 1];
    *out = (yk_plateau){.what = kinds[k].what,
                        .offset = offset,
                        .best = sign * best,
                        .epoch = m->epoch,
                        .step = m->step,
                        .rest = end->seconds > 0.0 ? 1.0 - m->seconds / end->seconds : 0.0};
    out->reached = e->n - 1 - i >= 3 && out->rest >= 0.15;
}

/* ---- facts that several files may have ---- */

/* "": not known */
static const char *host_of(const json_t *process)
{
    const char *host = yk_string_at(process, "host");
    return host ? host : "";
}

double yk_sum_on_host(const yk_run *r, const char *host, const char *name)
{
    double sum = NAN, longest = 0.0;
    const json_t *p;
    const bool peak = strstr(name, "peak");
    size_t i;
    json_array_foreach(r->processes, i, p) longest = fmax(longest, yk_number_at(p, "seconds"));
    json_array_foreach(r->processes, i, p)
    {
        const double x = yk_number_at(p, name), seconds = yk_number_at(p, "seconds");
        if (isfinite(x) && (!host || !strcmp(host_of(p), host)))
            sum = yk_known_or(sum, 0.0) + (!peak && seconds < longest ? seconds / longest : 1.0) * x;
    }
    return sum;
}

/* Of all hosts; several processes may be on the same one. */
static double all_cores(const yk_run *r)
{
    double total = NAN;
    for (size_t i = 0; i < r->logs; i++) {
        bool seen = false;
        for (size_t k = 0; k < i; k++)
            seen |= !strcmp(r->log[i].host, r->log[k].host);
        if (!seen && isfinite(r->log[i].cores))
            total = yk_known_or(total, 0.0) + r->log[i].cores;
    }
    return total;
}

#define METRIC(field) offsetof(yk_metric, field)

/* From the summary, or else from the last lines of the log. */
static void results_of(const yk_run *r, yk_facts *f)
{
    const yk_metric *t = r->train.n ? &r->train.row[r->train.n - 1] : NULL;
    const yk_metric *e = r->eval.n ? &r->eval.row[r->eval.n - 1] : NULL;
    const yk_metric *end = !t || (e && e->step >= t->step) ? e : t;
    const struct {
        double *fact;
        const char *name;
        const yk_metric *from;
        size_t offset;
    } results[] = {{&f->epochs, "epochs", end, METRIC(epoch)},
                   {&f->steps, "steps", end, METRIC(step)},
                   {&f->examples, "examples", end, METRIC(examples)},
                   {&f->seconds, "seconds", end, METRIC(seconds)},
                   {&f->steps_per_second, "steps_per_second", NULL, 0},
                   {&f->examples_per_second, "examples_per_second", NULL, 0},
                   {&f->train_loss, "train_loss", e ? e : t, e ? METRIC(train_loss) : METRIC(loss)},
                   {&f->test_loss, "test_loss", e, METRIC(test_loss)},
                   {&f->test_accuracy, "test_accuracy", e, METRIC(test_accuracy)},
                   {&f->test_auc, "test_auc", e, METRIC(test_auc)},
                   {&f->majority, "majority_accuracy", e, METRIC(majority_accuracy)},
                   {&f->best_step, "best_step", NULL, 0},
                   {&f->validation_loss, "validation_loss", e, METRIC(validation_loss)},
                   {&f->best_value, "best_value", NULL, 0},
                   {&f->best_loss, "best_loss", NULL, 0},
                   {&f->best_auc, "best_auc", NULL, 0}};
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        *results[i].fact = yk_number_at(r->summary, results[i].name);
        if (!isfinite(*results[i].fact) && results[i].from)
            *results[i].fact = yk_double_at(results[i].from, results[i].offset);
    }
    const char *monitor = yk_string_at(r->summary, "monitor");
    f->monitor = monitor ? yk_metric_find(monitor) : NULL;
    if (end) {
        f->seconds = fmax(end->seconds, f->seconds); /* in the summary: since it was resumed; ignores NaN */
        f->epochs = yk_known_or(end->epoch, f->epochs); /* a fraction; the summary has whole ones only */
        const double seconds = end->seconds > 0.0 ? end->seconds : NAN;
        f->steps_per_second = yk_known_or(f->steps_per_second, end->step / seconds);
        f->examples_per_second = yk_known_or(f->examples_per_second, end->examples / seconds);
    }
    /* A loss that is not a number is logged as null: the run diverged if its last lines have no loss. */
    f->diverged = (t && isnan(t->loss)) || (e && isnan(e->train_loss) && isnan(e->test_loss));
}

static void phases_of(const yk_run *r, yk_facts *f)
{
    double total = 0.0;
    const json_t *phases = yk_value_at(r->summary, "phases");
    for (int p = 0; p < YK_PHASES; p++) {
        f->phase[p] = json_number_value(json_object_get(phases, yk_phase_name((yk_phase)p)));
        for (size_t i = 0; !json_is_object(phases) && i < r->logs; i++)
            f->phase[p] += yk_known_or(r->log[i].last.phase[p], 0.0);
        total += f->phase[p];
    }
    for (int p = 0; p < YK_PHASES; p++)
        f->phase[p] = total > 0.0 ? f->phase[p] / total : NAN;
}

/* Bytes per second of the busiest host, in its busier direction: a link carries as many in the other one at the same time. */
static double busiest_rate(const yk_run *r)
{
    double max = NAN;
    const json_t *p;
    size_t i;
    json_array_foreach(r->processes, i, p)
    {
        max = fmax(max, yk_sum_on_host(r, host_of(p), "sent_rate")); /* fmax() ignores NaN */
        max = fmax(max, yk_sum_on_host(r, host_of(p), "received_rate"));
    }
    return max;
}

static void resources_of(const yk_run *r, yk_facts *f)
{
    double cpu_seconds = yk_number_at(r->summary, "cpu_seconds");
    f->cpu = yk_known_or(
        yk_known_or(yk_sum_on_host(r, NULL, "cpu_mean"), yk_number_at(r->summary, "resources.cpu.mean")),
        cpu_seconds / yk_number_at(r->summary, "seconds"));
    f->cores = yk_known_or(all_cores(r), yk_number_at(r->summary, "resources.cpu.of"));
    f->memory_peak = yk_known_or(yk_sum_on_host(r, NULL, "rss_peak"),
                                 yk_known_or(yk_number_at(r->summary, "resources.memory.peak"),
                                             yk_number_at(r->summary, "peak_rss_bytes")));
    f->sent = yk_number_at(r->summary, "bytes_sent");
    f->received = yk_number_at(r->summary, "bytes_received");
    f->network = f->sent + f->received <= 0.0 ? 0.0 : busiest_rate(r); /* threads send nothing */
}

/* From the summary, or else from config.ini, or else the default. */
static const char *text_of(const yk_run *r, const char *name, const char *otherwise)
{
    const char *s = yk_string_at(r->summary, name);
    s = s ? s : yk_run_get(r, name);
    return s ? s : otherwise;
}

static double number_of(const yk_run *r, const char *name, double otherwise)
{
    const char *s = yk_run_get(r, name);
    double x = s ? NAN : otherwise;
    if (s)
        yk_number_real(s, -HUGE_VAL, HUGE_VAL, &x);
    return yk_known_or(yk_number_at(r->summary, name), x);
}

/* From the summary, or else from the plan of the options in config.ini, except for options of other versions. Without a
 * launcher, the number of processes is the number of logs. If a value is not valid, the number of workers is unknown. */
static void planned_facts(const yk_run *r, yk_facts *f)
{
    enum { MAX_PROCESSES = 1 << 20 };
    const json_t *s = r->summary;
    const char *name;
    json_t *value;
    yk_config c;
    yk_plan p;
    int64_t n = 0;
    bool known = true;
    yk_config_init(&c);
    json_object_foreach(r->options, name, value)
    {
        const yk_option *o = yk_option_find(name);
        if (o && yk_config_set(&c, o->name, json_string_value(value)))
            known &= !yk_option_is_number(o); /* else a word of another version */
    }
    free(c.hostfile); /* config.ini is untrusted: the files that it names are not opened */
    c.hostfile = NULL;
    if (!yk_config_starts_job(&c) || yk_job_processes(&c, &n))
        n = r->logs ? (int64_t)r->logs : 1;
    f->ranks = yk_known_or(yk_number_at(s, "ranks"), (double)n);
    known &= f->ranks >= 1.0 && f->ranks <= MAX_PROCESSES;
    (void)yk_plan_options(&c, &(yk_topology){.processes = known ? (int)f->ranks : 1, .cores = 1}, &p);
    const bool counted = known && c.workers != YK_AUTO; /* the number of cores is unknown */
    f->mode = yk_string_at(s, "mode");
    f->mode = f->mode ? f->mode : p.mode;
    f->optimizer = text_of(r, "optimizer", yk_config_default_optimizer(&c));
    f->servers = yk_known_or(yk_number_at(s, "servers"), known ? p.servers : NAN);
    f->processes = f->ranks > f->servers ? f->ranks - f->servers : f->ranks;
    f->workers = yk_known_or(yk_number_at(s, "workers"), counted ? p.workers : NAN);
    f->global_batch =
        yk_known_or(yk_number_at(s, "global_batch"), counted && r->options ? (double)p.global_batch : NAN);
    yk_config_fini(&c);
}

void yk_facts_of(const yk_run *r, yk_facts *out)
{
    *out = (yk_facts){.to_target = NAN};
    yk_facts *f = out;
    f->model = text_of(r, "model", "");
    f->data = text_of(r, "data", "");
    f->staleness = number_of(r, "staleness", NAN);
    f->staleness_by_group = yk_run_get(r, "staleness");
    if (f->staleness_by_group && !strchr(f->staleness_by_group, '='))
        f->staleness_by_group = NULL;
    if (f->staleness < 0.0)
        f->staleness = NAN; /* no bound */
    planned_facts(r, f);
    f->threads = number_of(r, "threads", 1);
    f->batch = number_of(r, "batch", NAN);
    f->lr = number_of(r, "lr", r->train.n ? r->train.row[0].learning_rate : NAN);
    f->seed = number_of(r, "seed", r->options ? 1.0 : NAN);
    results_of(r, f);
    f->test_error = 1.0 - f->test_accuracy;
    resources_of(r, f);
    phases_of(r, f);
    f->stale_mean = yk_number_at(r->summary, "observed_staleness.mean");
    f->verdict = yk_string_at(r->summary, "verdict");
    f->bottleneck = yk_string_at(r->summary, "bottleneck.kind");
    f->advice = yk_string_at(r->summary, "bottleneck.advice");
    f->share = yk_number_at(r->summary, "bottleneck.share");
    f->ended = r->summary != NULL;
    f->interrupted = yk_number_at(r->summary, "interrupted") > 0.0;
    const char *state = yk_string_at(r->summary, "state");
    f->failed = state && !strcmp(state, "failed");
    f->error = f->failed ? yk_string_at(r->summary, "error") : NULL;
    if (!f->diverged)
        yk_plateau_find(&r->eval, &f->plateau);
}
