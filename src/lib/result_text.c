/* What yoke train prints at the end. */
#include "lib/internal.h"

#include "train/plan.h"
#include "train/summary.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static void print_verdict(yk_text *t, const yk_verdict *v)
{
    yk_text_print(t, "bottleneck     %s\n", v->text);
    if (v->advice[0])
        yk_text_print(t, "               %s\n", v->advice);
}

static void print_traffic(yk_text *t, const yk_result *r)
{
    char a[24], b[24];
    if (!r->observation.job)
        return;
    double sent = 0.0, received = 0.0, rounds = yk_plan_steps_each(&r->plan, r->steps - r->resumed_from);
    for (int i = r->plan.servers; i < r->plan.processes; i++)
        for (int p = 0; p < YK_PURPOSE_CONTROL; p++) { /* control messages do not belong to steps */
            const yk_traffic *traffic = &r->observation.process[i].traffic[p];
            sent += (double)traffic->sent / r->plan.workers;
            received += (double)traffic->received / r->plan.workers;
        }
    if (rounds > 0.0)
        yk_text_print(t, "traffic        %s sent and %s received per worker and step\n",
                      yk_bytes_text(sent / rounds, a), yk_bytes_text(received / rounds, b));
    for (int p = 0; p < YK_PURPOSES; p++)
        if (r->traffic[p].sent)
            yk_text_print(t, "  %-12s %s in %llu messages of all processes\n", yk_purpose_name[p],
                          yk_bytes_text((double)r->traffic[p].sent, a),
                          (unsigned long long)r->traffic[p].messages_sent);
    if (r->late)
        yk_text_print(t,
                      "late           %llu gradient%s (%llu examples) arrived after the end of the step and "
                      "%s dropped\n",
                      (unsigned long long)r->late, yk_plural(r->late), (unsigned long long)r->late_examples,
                      r->late == 1 ? "was" : "were");
    if (r->lost || r->joined)
        yk_text_print(t, "workers        %d lost (%llu examples reassigned), %d joined\n", r->lost,
                      (unsigned long long)r->returned, r->joined);
}

/* The processes of a job. */
static void print_processes(yk_text *t, const yk_observation *w, const yk_plan *plan)
{
    yk_text rows = {0};
    if (w->nprocesses < 2)
        return;
    yk_text_add(&rows, "process\tseconds\tsteps\texamples\tCPU\tmemory\tread\twritten\tsent\treceived\n");
    for (int i = 0; i < w->nprocesses; i++) {
        const yk_process *p = &w->process[i];
        const yk_usage *u = &p->usage;
        const double bytes[] = {u->memory.peak, u->disk_read.mean * u->seconds,
                                u->disk_written.mean * u->seconds, (double)p->bytes_sent,
                                (double)p->bytes_received};
        yk_text_print(&rows, "%s %d%s\t%.2f\t%llu\t%llu\t%.2f", p->workers ? "worker" : "server", p->rank,
                      p->lost     ? " lost"
                      : p->joined ? " joined"
                                  : "",
                      u->seconds, (unsigned long long)p->phases.steps, (unsigned long long)p->phases.examples,
                      u->cpu.mean);
        for (size_t k = 0; k < sizeof bytes / sizeof *bytes; k++)
            yk_text_print(&rows, "\t%s", yk_bytes_text(bytes[k], (char[24]){0}));
        yk_text_add(&rows, "\n");
    }
    yk_text_columns(t, &rows, "<>>>>>>>>>");
    const char *agreement = yk_plan_agreement_text(plan);
    if (agreement)
        yk_text_print(t, "               %s\n", agreement);
}

/* "20 (0.42 per second)" */
static void print_count(yk_text *t, const char *name, uint64_t n, double rate)
{
    yk_text_print(t, rate < 9.95 ? "%-14s %llu (%.2g per second)\n" : "%-14s %llu (%.0f per second)\n", name,
                  (unsigned long long)n, rate);
}

/* Servers evaluate and save in the background, so these times may overlap with training. */
static void print_seconds(yk_text *t, const yk_result *r)
{
    const double overlap = r->train_seconds + r->eval_seconds + r->checkpoint_seconds - r->seconds;
    yk_text_print(t, "seconds        %.2f (training %.2f, evaluation %.2f, checkpoints %.2f", r->seconds,
                  r->train_seconds, r->eval_seconds, r->checkpoint_seconds);
    if (overlap >= 0.005)
        yk_text_print(t, ", %.2f of the last two during training", overlap);
    yk_text_print(t, "; loading before that %.2f)\n", r->load_seconds);
}

static void print_known(yk_text *t, const char *format, double x)
{
    if (isfinite(x))
        yk_text_print(t, format, x);
}

/* The best model, to which the test scores belong. */
static void print_selection(yk_text *t, const yk_result *r)
{
    const yk_best *b = &r->selected;
    if (!b->step)
        return;
    yk_text_print(t, "best step      %llu: validation loss %.5f", (unsigned long long)b->step,
                  b->validation.loss);
    print_known(t, ", accuracy %.2f %%", 100.0 * b->validation.accuracy);
    print_known(t, ", AUC %.4f", b->validation.auc);
    if (strcmp(b->monitor, "loss") && strcmp(b->monitor, "accuracy") && strcmp(b->monitor, "auc"))
        yk_text_print(t, ", %s %.4f", yk_metric_find(b->monitor)->title, b->best);
    yk_text_print(t, "\nlast step      validation loss %.5f", r->validation.loss);
    if (r->tested) {
        yk_text_print(t, ", test loss %.5f", r->last_test.loss);
        print_known(t, ", accuracy %.2f %%", 100.0 * r->last_test.accuracy);
    }
    yk_text_add(t, "\n");
    if (r->waited)
        yk_text_print(t, "stopped early  no improvement for %llu evaluation%s\n",
                      (unsigned long long)r->waited, yk_plural(r->waited));
}

static void print_table(yk_text *t, const yk_result *r)
{
    print_count(t, "steps", r->steps, (double)(r->steps - r->resumed_from) / r->train_seconds);
    print_count(t, "examples", r->examples, (double)r->trained_here / r->train_seconds);
    print_seconds(t, r);
    print_known(t, "train loss     %.5f\n", r->train_loss); /* else the run was already complete */
    if (r->tested) {
        yk_text_print(t, "test loss      %.5f", r->test.loss);
        yk_text_print(t, r->best_known ? "   (best possible %.5f)\n" : "\n", r->best.loss);
        if (isfinite(r->test.accuracy))
            yk_text_print(t, "test accuracy  %.2f %%   (majority class: %.2f %%)\n", 100.0 * r->test.accuracy,
                          100.0 * r->test.majority_accuracy);
    }
    if (r->tested && isfinite(r->test.auc)) {
        yk_text_print(t, "test AUC       %.4f", r->test.auc);
        yk_text_print(t, r->best_known ? "    (best possible %.4f)\n" : "\n", r->best.auc);
    }
    yk_show_metrics_line(t, &r->metrics);
    print_selection(t, r);
    const yk_staleness *s = &r->observed;
    if (s->observed) {
        yk_text_print(
            t,
            "staleness      mean %.1f, maximum %.0f (updates by other workers between reading and writing)\n",
            s->mean, s->max);
        for (int b = 0; b < YK_STALENESS_BUCKETS; b++) {
            if (!s->bucket[b])
                continue;
            double share = (double)s->bucket[b] / (double)s->observed;
            char range[48];
            if (b < 2)
                snprintf(range, sizeof range, "%d", b);
            else
                snprintf(range, sizeof range, "%llu-%llu", 1ull << (b - 1), (1ull << b) - 1);
            yk_text_print(t, "  %13s  %5.1f %% %.*s\n", range, 100.0 * share, (int)(share * 40.0 + 0.5),
                          "########################################");
        }
    }
    if (s->hot)
        yk_text_print(t,
                      "copies         the %u hottest parameters in each worker, merged every %.0f examples "
                      "(%.0f step%s)\n",
                      s->hot < r->params ? s->hot : (unsigned)r->params, s->merge_every, s->merge_steps,
                      s->merge_steps < 1.5 ? "" : "s");
    if (r->observation.nprocesses)
        print_verdict(t, &r->observation.verdict);
    print_traffic(t, r);
    print_processes(t, &r->observation, &r->plan);
    if (r->run_dir)
        yk_text_print(t, "run directory  %s\n", r->run_dir);
}

yk_status yk_result_summary(const yk_config *c, const yk_result *r, char **out)
{
    if (!r->description)
        return yk_result_json(c, r, out);
    *out = yk_model_json(c->model, r->description);
    return *out ? YK_OK : yk_fail_memory(4096, "the description");
}

yk_status yk_result_text(const yk_config *c, const yk_result *r, char **out)
{
    yk_text t = {0};
    if (r->description)
        yk_show_model(&t, c->model, r->description);
    else
        print_table(&t, r);
    const yk_status st = t.status;
    *out = yk_text_take(&t);
    return st;
}

yk_status yk_result_profile(const yk_result *r, char **out)
{
    yk_text t = {0};
    if (r->profile)
        yk_show_profile(&t, r);
    const yk_status st = t.status;
    *out = yk_text_take(&t);
    return st;
}
