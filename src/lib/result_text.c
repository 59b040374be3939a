/* What yoke train prints at the end. */
#include "lib/internal.h"

#include "train/plan.h"
#include "train/summary.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void print_verdict(FILE *f, const yk_verdict *v)
{
    fprintf(f, "bottleneck     %s\n", v->text);
    if (v->advice[0])
        fprintf(f, "               %s\n", v->advice);
}

static void print_traffic(FILE *f, const yk_result *r)
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
        fprintf(f, "traffic        %s sent and %s received per worker and step\n",
                yk_bytes_text(sent / rounds, a), yk_bytes_text(received / rounds, b));
    for (int p = 0; p < YK_PURPOSES; p++)
        if (r->traffic[p].sent)
            fprintf(f, "  %-12s %s in %llu messages of all processes\n", yk_purpose_name[p],
                    yk_bytes_text((double)r->traffic[p].sent, a),
                    (unsigned long long)r->traffic[p].messages_sent);
    if (r->late)
        fprintf(f,
                "late           %llu gradient%s (%llu examples) arrived after the end of the step and %s "
                "dropped\n",
                (unsigned long long)r->late, yk_plural(r->late), (unsigned long long)r->late_examples,
                r->late == 1 ? "was" : "were");
    if (r->lost || r->joined)
        fprintf(f, "workers        %d lost (%llu examples reassigned), %d joined\n", r->lost,
                (unsigned long long)r->returned, r->joined);
}

/* The processes of a job. */
static void print_processes(FILE *f, const yk_observation *w, const yk_plan *plan)
{
    if (w->nprocesses < 2)
        return;
    fprintf(f, "%-14s %9s %9s %10s %6s %10s %10s %10s %10s %10s\n", "process", "seconds", "steps", "examples",
            "CPU", "memory", "read", "written", "sent", "received");
    for (int i = 0; i < w->nprocesses; i++) {
        const yk_process *p = &w->process[i];
        const yk_usage *u = &p->usage;
        char name[32], text[5][24];
        snprintf(name, sizeof name, "%s %d%s", p->workers ? "worker" : "server", p->rank,
                 p->lost     ? " lost"
                 : p->joined ? " joined"
                             : "");
        fprintf(
            f, "%-14s %9.2f %9llu %10llu %6.2f %10s %10s %10s %10s %10s\n", name, u->seconds,
            (unsigned long long)p->phases.steps, (unsigned long long)p->phases.examples, u->cpu.mean,
            yk_bytes_text(u->memory.peak, text[0]), yk_bytes_text(u->disk_read.mean * u->seconds, text[1]),
            yk_bytes_text(u->disk_written.mean * u->seconds, text[2]),
            yk_bytes_text((double)p->bytes_sent, text[3]), yk_bytes_text((double)p->bytes_received, text[4]));
    }
    const char *agreement = yk_plan_agreement_text(plan);
    if (agreement)
        fprintf(f, "               %s\n", agreement);
}

/* "20 (0.42 per second)" */
static void print_count(FILE *f, const char *name, uint64_t n, double rate)
{
    fprintf(f, rate < 9.95 ? "%-14s %llu (%.2g per second)\n" : "%-14s %llu (%.0f per second)\n", name,
            (unsigned long long)n, rate);
}

/* Servers evaluate and save in the background, so these times may overlap with training. */
static void print_seconds(FILE *f, const yk_result *r)
{
    const double overlap = r->train_seconds + r->eval_seconds + r->checkpoint_seconds - r->seconds;
    fprintf(f, "seconds        %.2f (training %.2f, evaluation %.2f, checkpoints %.2f", r->seconds,
            r->train_seconds, r->eval_seconds, r->checkpoint_seconds);
    if (overlap >= 0.005)
        fprintf(f, ", %.2f of the last two during training", overlap);
    fprintf(f, "; loading before that %.2f)\n", r->load_seconds);
}

/* The best model, to which the test scores belong. */
static void print_selection(FILE *f, const yk_result *r)
{
    const yk_best *b = &r->selected;
    if (!b->step)
        return;
    fprintf(f, "best step      %llu: validation loss %.5f", (unsigned long long)b->step, b->validation.loss);
    if (isfinite(b->validation.accuracy)) /* else numbers */
        fprintf(f, ", accuracy %.2f %%", 100.0 * b->validation.accuracy);
    if (isfinite(b->validation.auc))
        fprintf(f, ", AUC %.4f", b->validation.auc);
    fprintf(f, "\nlast step      validation loss %.5f", r->validation.loss);
    if (r->tested)
        fprintf(f, ", test loss %.5f", r->last_test.loss);
    if (r->tested && isfinite(r->last_test.accuracy))
        fprintf(f, ", accuracy %.2f %%", 100.0 * r->last_test.accuracy);
    fputc('\n', f);
    if (r->waited)
        fprintf(f, "stopped early  no improvement for %llu evaluation%s\n", (unsigned long long)r->waited,
                yk_plural(r->waited));
}

static void print_table(FILE *f, const yk_result *r)
{
    print_count(f, "steps", r->steps, (double)(r->steps - r->resumed_from) / r->train_seconds);
    print_count(f, "examples", r->examples, (double)r->trained_here / r->train_seconds);
    print_seconds(f, r);
    if (isfinite(r->train_loss)) /* else the run was already complete */
        fprintf(f, "train loss     %.5f\n", r->train_loss);
    if (r->tested) {
        fprintf(f, "test loss      %.5f", r->test.loss);
        fprintf(f, r->best_known ? "   (best possible %.5f)\n" : "\n", r->best.loss);
        if (isfinite(r->test.accuracy))
            fprintf(f, "test accuracy  %.2f %%   (majority class: %.2f %%)\n", 100.0 * r->test.accuracy,
                    100.0 * r->test.majority_accuracy);
    }
    if (r->tested && isfinite(r->test.auc)) {
        fprintf(f, "test AUC       %.4f", r->test.auc);
        fprintf(f, r->best_known ? "    (best possible %.4f)\n" : "\n", r->best.auc);
    }
    yk_show_metrics_line(f, &r->metrics);
    print_selection(f, r);
    const yk_staleness *s = &r->observed;
    if (s->observed) {
        fprintf(
            f,
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
            fprintf(f, "  %13s  %5.1f %% %.*s\n", range, 100.0 * share, (int)(share * 40.0 + 0.5),
                    "########################################");
        }
    }
    if (s->hot)
        fprintf(f,
                "copies         the %u hottest parameters in each worker, merged every %.0f examples (%.0f "
                "step%s)\n",
                s->hot < r->params ? s->hot : (unsigned)r->params, s->merge_every, s->merge_steps,
                s->merge_steps < 1.5 ? "" : "s");
    if (r->observation.nprocesses)
        print_verdict(f, &r->observation.verdict);
    print_traffic(f, r);
    print_processes(f, &r->observation, &r->plan);
    if (r->run_dir)
        fprintf(f, "run directory  %s\n", r->run_dir);
}

yk_status yk_result_summary(const yk_config *c, const yk_result *r, char **out)
{
    if (!r->description)
        return yk_result_json(c, r, out);
    *out = yk_model_json(c->model, r->description);
    return *out ? YK_OK : yk_fail_memory(4096, "the description");
}

static yk_status print(const yk_config *c, const yk_result *r, bool profile, char **out)
{
    size_t size;
    *out = NULL;
    FILE *f = open_memstream(out, &size);
    if (f && profile)
        yk_show_profile(f, r);
    else if (f && r->description)
        yk_show_model(f, c->model, r->description);
    else if (f)
        print_table(f, r);
    if (f && fclose(f) == 0)
        return YK_OK;
    free(*out);
    *out = NULL;
    return yk_fail_memory(4096, profile ? "the profile" : "the results");
}

yk_status yk_result_text(const yk_config *c, const yk_result *r, char **out)
{
    return print(c, r, false, out);
}

yk_status yk_result_profile(const yk_config *c, const yk_result *r, char **out)
{
    *out = NULL;
    return r->profile ? print(c, r, true, out) : YK_OK;
}
