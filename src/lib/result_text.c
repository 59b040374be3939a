/* What yoke train prints: at the end, with --dry-run and with --profile. */
#include "lib/internal.h"

#include "base/json.h"
#include "report/scale.h"
#include "train/plan.h"
#include "train/summary.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDEST = 40 }; /* the column of layers */

/* ---- numbers ---- */

const char *yk_bytes_text(double bytes, char text[static 24])
{
    static const char *const unit[] = {"bytes", "kB", "MB", "GB", "TB"};
    size_t u = 0;
    for (; bytes >= 999.95 && u + 1 < sizeof unit / sizeof *unit; u++)
        bytes /= 1000.0;
    snprintf(text, 24, u ? "%.1f %s" : "%.0f %s", bytes, unit[u]);
    return text;
}

/* 842520 as 0.843 M. */
static const char *counted(double flops, char out[static 32])
{
    static const char *const unit[] = {"M", "G", "T"};
    int u = 0;
    for (flops /= 1e6; flops >= 1000.0 && u < 2; u++)
        flops /= 1000.0;
    snprintf(out, 32, "%.3g %s", flops, unit[u]);
    return out;
}

static const char *shaped(int rank, const size_t *shape, char out[static 64])
{
    int n = snprintf(out, 64, "%zu", shape[0]);
    for (int i = 1; i < rank; i++)
        n += snprintf(out + n, (size_t)(64 - n), " x %zu", shape[i]);
    return out;
}

/* ---- --dry-run ---- */

static void show_totals(yk_text *t, const yk_description *d)
{
    char a[YK_UNIT_SIZE], b[YK_UNIT_SIZE], c[32], e[32];
    const double workers = (double)d->workers, both = d->flops + d->flops_back;
    const double once = (double)(d->weight_bytes + d->state_bytes),
                 each = (double)(d->gradient_bytes + d->activation_bytes);
    yk_text_print(t, "parameters    %s\n", yk_unit_text(YK_UNIT_INTEGER, (double)d->params, a));
    if (d->flops > 0.0) {
        yk_text_print(t, "FLOPs         per %s: forward %s, backward %s\n", d->unit, counted(d->flops, a),
                      counted(d->flops_back, b));
        yk_text_print(t, "              per step: %s (%llu %s%s",
                      counted(both * (double)d->batch * workers, a), (unsigned long long)d->batch, d->unit,
                      yk_plural(d->batch));
        yk_text_print(t, d->workers > 1 ? " for each of %d workers)\n" : ")\n", d->workers);
    }
    if (d->flops > 0.0 && d->examples)
        yk_text_print(t, "              per epoch: %s (%s %s%s)\n", counted(both * (double)d->examples, a),
                      yk_unit_text(YK_UNIT_INTEGER, (double)d->examples, b), d->unit, yk_plural(d->examples));
    yk_text_print(t, "memory        %s: weights %s, gradient %s, ", yk_bytes_text(once + each, a),
                  yk_bytes_text((double)d->weight_bytes, b), yk_bytes_text((double)d->gradient_bytes, c));
    yk_text_print(t, "state of %s %s, activations %s\n", d->optimizer,
                  yk_bytes_text((double)d->state_bytes, a), yk_bytes_text((double)d->activation_bytes, e));
    if (d->workers > 1)
        yk_text_print(t, "              %s with %d workers; each has its own gradient and activations\n",
                      yk_bytes_text(once + each * workers, a), d->workers);
}

static void show_model(yk_text *t, const char *name, const yk_description *d)
{
    const bool has_input = d->nlines > 1; /* it has no number: layers have the numbers of their tensors */
    yk_text rows = {0};
    yk_text_print(t, *d->list ? "%s: %s\n\n" : "%s\n\n", name, d->list);
    yk_text_add(&rows, "#\tlayer\toutput\tparameters\tMFLOP forward\tactivations\n-\n");
    for (int i = 0; i < d->nlines; i++) {
        const yk_layer_line *l = &d->line[i];
        char text[64];
        if (i || !has_input)
            yk_text_print(&rows, "%d", has_input ? i - 1 : i);
        yk_text_print(&rows, "\t%.*s\t%s\t%s", WIDEST, l->text, shaped(l->rank, l->shape, text),
                      l->params ? yk_unit_text(YK_UNIT_INTEGER, (double)l->params, (char[YK_UNIT_SIZE]){0})
                                : "");
        yk_text_print(&rows, l->flops > 0.0 ? "\t%.3f" : "\t", l->flops * 1e-6);
        yk_text_print(&rows, "\t%s\n", l->bytes ? yk_bytes_text((double)l->bytes, text) : "");
    }
    yk_text_add(&rows, "-\n");
    yk_text_columns(t, &rows, "><<>>>");
    show_totals(t, d);
}

static char *model_json(const char *name, const yk_description *d)
{
    yk_json all = {0}, *j = &all;
    YK_JSON(j, YK_OBJECT(NULL), YK_TEXT("model", name));
    if (*d->list)
        yk_json_text(j, "list", d->list);
    YK_JSON(j, YK_BOOL("dry_run", true), YK_ARRAY("layers"));
    for (const yk_layer_line *l = d->line; l < d->line + d->nlines; l++) {
        YK_JSON(j, YK_OBJECT(NULL), YK_TEXT("layer", l->text), YK_ARRAY("output"));
        for (int i = 0; i < l->rank; i++)
            yk_json_int(j, NULL, (int64_t)l->shape[i]);
        YK_JSON(j, YK_END, YK_INT("parameters", l->params), YK_REAL("flops_forward", l->flops),
                YK_REAL("flops_backward", l->flops_back), YK_INT("activation_bytes", l->bytes), YK_END);
    }
    YK_JSON(j, YK_END, YK_INT("parameters", d->params), YK_REAL("flops_per_image", d->flops + d->flops_back),
            YK_REAL("flops_per_step", (d->flops + d->flops_back) * (double)d->batch * (double)d->workers),
            YK_INT("weight_bytes", d->weight_bytes), YK_INT("gradient_bytes", d->gradient_bytes),
            YK_INT("state_bytes", d->state_bytes), YK_INT("activation_bytes", d->activation_bytes), YK_END);
    return yk_json_take(j);
}

/* ---- --profile ---- */

static void show_layers(yk_text *t, const yk_result *r)
{
    const yk_profile *p = r->profile;
    yk_text rows = {0};
    double sum = 0.0;
    for (int i = 0; i < p->nlines; i++)
        sum += p->line[i].seconds;
    const double all = r->train_seconds > sum ? r->train_seconds : sum,
                 peak = p->peak * (double)r->threads_used, percent = all > 0.0 ? 100.0 / all : 0.0;
    yk_text_print(t, "\ntime of worker 0 by layer and pass (%d thread%s)\n", r->threads_used,
                  yk_plural((uint64_t)r->threads_used));
    yk_text_add(&rows, "layer\tpass\toutput\tcalls\tms\tshare\tGFLOP/s\t% peak\tmoved\n-\n");
    for (int i = 0; i < p->nlines; i++) {
        const yk_profile_line *l = &p->line[i];
        const double rate = l->flops > 0.0 && l->seconds > 0.0 ? l->flops / l->seconds : 0.0;
        char text[64];
        yk_text_print(&rows, "%.*s\t%s\t%s\t%llu\t%.2f\t%.1f %%", WIDEST, l->text, l->pass,
                      shaped(l->rank, l->shape, text), (unsigned long long)l->calls, l->seconds * 1e3,
                      l->seconds * percent);
        yk_text_print(&rows, rate > 0.0 ? "\t%.1f" : "\t", rate * 1e-9);
        yk_text_print(&rows, rate > 0.0 && peak > 0.0 ? "\t%.1f" : "\t", 100.0 * rate / peak);
        yk_text_print(&rows, "\t%s\n", yk_bytes_text(l->bytes, text));
    }
    yk_text_print(&rows, "other\t\t\t\t%.2f\t%.1f %%\n", (all - sum) * 1e3, (all - sum) * percent);
    yk_text_columns(t, &rows, "<<<>>>>>>");
    yk_text_add(t, "other: updating the weights, waiting for data and for other workers\n");
    if (p->peak > 0.0)
        yk_text_print(
            t, "peak: %.1f GFLOP/s per thread, measured before training with matrix products in the cache\n",
            p->peak * 1e-9);
}

/* One line: the phases of a worker, a process or a server, in descending order. */
static void show_phases(yk_text *t, const char *kind, int number, const yk_phases_sample *s)
{
    double rest[YK_PHASES];
    char name[48];
    memcpy(rest, s->phase, sizeof rest);
    snprintf(name, sizeof name, "%s %d", kind, number);
    yk_text_print(t, "%-16s %9.3f s ", name, s->seconds);
    for (int n = 0; n < YK_PHASES && s->seconds > 0.0; n++) {
        int max = 0;
        for (int k = 1; k < YK_PHASES; k++)
            max = rest[k] > rest[max] ? k : max;
        if (rest[max] < 0.0005 * s->seconds)
            break;
        yk_text_print(t, "  %s %.1f %%", yk_phase_name((yk_phase)max), 100.0 * rest[max] / s->seconds);
        rest[max] = 0.0;
    }
    yk_text_add(t, "\n");
}

static void show_profile(yk_text *t, const yk_result *r)
{
    const yk_observation *w = &r->observation;
    const yk_process *end = w->process + w->nprocesses;
    if (r->profile->nlines > 0)
        show_layers(t, r);
    yk_text_add(t, "\ntime by phase\n");
    for (int i = 0; w->nprocesses == 1 && i < w->nmeasured; i++)
        show_phases(t, "worker", w->measured[i].worker, &w->measured[i].phases);
    for (const yk_process *p = w->process; w->nprocesses > 1 && p != end; p++)
        show_phases(t, p->workers ? "worker" : "server", p->rank, &p->phases);
    for (const yk_process *p = w->process; p != end; p++) /* threads that serve a shard beside the workers */
        if (p->serving.seconds > 0.0)
            show_phases(t, "server", p->rank, &p->serving);
}

/* ---- the results ---- */

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

/* "20 (0.42 per second)"; without a rate if the run was already done when it was resumed. */
static void print_count(yk_text *t, const char *name, uint64_t n, double rate)
{
    yk_text_print(t, "%-14s %llu", name, (unsigned long long)n);
    if (rate > 0.0)
        yk_text_print(t, rate < 9.95 ? " (%.2g per second)" : " (%.0f per second)", rate);
    yk_text_add(t, "\n");
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
    const yk_verdict *v = &r->observation.verdict;
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
        yk_text_print(t, "bottleneck     %s\n", v->text);
    if (r->observation.nprocesses && v->advice[0])
        yk_text_print(t, "               %s\n", v->advice);
    print_traffic(t, r);
    print_processes(t, &r->observation, &r->plan);
    if (r->run_dir)
        yk_text_print(t, "run directory  %s\n", r->run_dir);
}

yk_status yk_result_summary(const yk_config *c, const yk_result *r, char **out)
{
    *out = r->description ? model_json(c->model, r->description) : yk_result_json(c, r, false);
    return *out ? YK_OK : yk_fail_memory(4096, "the summary");
}

yk_status yk_result_text(const yk_config *c, const yk_result *r, char **out)
{
    yk_text t = {0};
    if (r->description)
        show_model(&t, c->model, r->description);
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
        show_profile(&t, r);
    const yk_status st = t.status;
    *out = yk_text_take(&t);
    return st;
}
