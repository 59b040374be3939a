/* What yoke train prints when it is done. */
#include "lib/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void print_verdict(FILE *f, const yk_verdict *v)
{
    fprintf(f, "bottleneck     %s\n", v->text);
    if (v->advice[0])
        fprintf(f, "               %s\n", v->advice);
    for (int i = 0; i < v->nestimates; i++)
        fprintf(f, "%s%s: %.2f x", i ? ", " : "               estimated: ", v->estimate[i].change,
                v->estimate[i].speedup);
    if (v->nestimates)
        fprintf(f, " the examples/s\n");
}

/* "12.3 KB" */
static const char *bytes(double n, char *text, size_t size)
{
    const char *unit[] = {"B", "KB", "MB", "GB", "TB"};
    int u = 0;
    for (; n >= 1000.0 && u < 4; u++)
        n /= 1000.0;
    snprintf(text, size, u ? "%.1f %s" : "%.0f %s", n, unit[u]);
    return text;
}

static void print_traffic(FILE *f, const yk_result *r)
{
    char a[32], b[32];
    if (!r->report)
        return;
    double sent = 0.0, received = 0.0, rounds = (double)(r->steps - r->resumed_from);
    if (!r->plan.synchronous)
        rounds /= r->plan.workers; /* steps are counted over all workers */
    for (int i = r->plan.servers; i < r->plan.processes; i++)
        for (int p = 0; p < YK_FOR_CONTROL; p++) { /* that is not of the steps */
            sent += (double)r->report[i].traffic[p].sent / r->plan.workers;
            received += (double)r->report[i].traffic[p].received / r->plan.workers;
        }
    if (rounds > 0.0)
        fprintf(f, "traffic        %s sent and %s received per worker and step\n",
                bytes(sent / rounds, a, sizeof a), bytes(received / rounds, b, sizeof b));
    for (int p = 0; p < YK_PURPOSES; p++)
        if (r->traffic[p].sent)
            fprintf(f, "  %-12s %s in %llu messages, of all processes\n", yk_purpose_name[p],
                    bytes((double)r->traffic[p].sent, a, sizeof a),
                    (unsigned long long)r->traffic[p].messages_sent);
    if (r->late)
        fprintf(f,
                "late           %llu gradients (%llu examples) arrived after their step had closed and were "
                "dropped\n",
                (unsigned long long)r->late, (unsigned long long)r->late_examples);
    if (r->lost || r->joined)
        fprintf(f, "workers        %d lost (%llu examples dealt again), %d joined\n", r->lost,
                (unsigned long long)r->returned, r->joined);
}

static void print_table(FILE *f, const yk_result *r)
{
    fprintf(f, "steps          %llu (%.0f per second)\n", (unsigned long long)r->steps,
            (double)(r->steps - r->resumed_from) / r->train_seconds);
    fprintf(f, "examples       %llu (%.0f per second)\n", (unsigned long long)r->examples,
            (double)r->trained_here / r->train_seconds);
    fprintf(f, "seconds        %.2f (training %.2f, testing %.2f, saving %.2f, loading before that %.2f)\n",
            r->seconds, r->train_seconds, r->eval_seconds, r->checkpoint_seconds, r->load_seconds);
    if (isfinite(r->train_loss)) /* else nothing was left to train */
        fprintf(f, "train loss     %.5f\n", r->train_loss);
    if (r->tested) {
        fprintf(f, "test loss      %.5f", r->test.loss);
        fprintf(f, r->best_known ? "   (best possible %.5f)\n" : "\n", r->best.loss);
        fprintf(f, "test accuracy  %.2f %%   (majority class: %.2f %%)\n", 100.0 * r->test.accuracy,
                100.0 * r->test.majority_accuracy);
    }
    if (r->tested && isfinite(r->test.auc)) {
        fprintf(f, "test AUC       %.4f", r->test.auc);
        fprintf(f, r->best_known ? "    (best possible %.4f)\n" : "\n", r->best.auc);
    }
    const yk_staleness *s = &r->observed;
    if (s->observed) {
        fprintf(f, "staleness      mean %.1f, most %.0f updates by others between reading and writing\n",
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
        fprintf(f, "copies         %u hottest parameters per worker, merged every %.0f examples\n", s->hot,
                s->merge_every);
    if (r->watched.nprocesses)
        print_verdict(f, &r->watched.verdict);
    print_traffic(f, r);
    if (r->run_dir)
        fprintf(f, "run directory  %s\n", r->run_dir);
}

char *yk_result_text(const yk_result *r)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return NULL;
    print_table(f, r);
    if (fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}
