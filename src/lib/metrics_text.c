/* Metrics as text: what `yoke eval` prints, and a line of the results of a run. */
#include "lib/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void yk_show_metrics_line(FILE *f, const yk_eval_metrics *m)
{
    static const char *const names[] = {"normalized_entropy",
                                        "pr_auc",
                                        "brier",
                                        "calibration_error",
                                        "f1",
                                        "macro_f1",
                                        "r2",
                                        "mae",
                                        "rmse",
                                        NULL};
    const char *between = "test metrics   ";
    for (int i = 0; m->examples && names[i]; i++) {
        const yk_metric_kind *kind = yk_metric_find(names[i]);
        const double x = m->value[kind - yk_metric_kinds];
        if (!isfinite(x) || (m->task == YK_TASK_BINARY && !strcmp(kind->name, "macro_f1")))
            continue;
        fprintf(f, "%s%s %.4f", between, kind->title, x);
        between = ", ";
    }
    fputs(*between == ',' ? "\n" : "", f);
}

/* "spam", or the number if classes have no names. */
static const char *class_name(const yk_schema *s, size_t c, char number[24])
{
    snprintf(number, 24, "%zu", c);
    return s && c < s->classes.n ? s->classes.name[c] : number;
}

static void show_classes(FILE *f, const yk_eval_metrics *m, const yk_schema *s, int width)
{
    char number[24];
    fprintf(f, "\n%-*s %12s %10s %10s %10s\n", width, "class", "examples", "precision", "recall", "F1");
    for (size_t c = 0; c < m->classes; c++) {
        const yk_class_metrics *one = &m->of_class[c];
        fprintf(f, "%-*.40s %12.10g", width, class_name(s, c, number), one->weight);
        if (isfinite(one->f1))
            fprintf(f, " %10.4f %10.4f %10.4f\n", one->precision, one->recall, one->f1);
        else
            fputs("          -          -          -\n", f);
    }
}

static void show_confusion(FILE *f, const yk_eval_metrics *m, const yk_schema *s, int width)
{
    char number[24];
    fprintf(f, "\n%-*s predictions\n%-*s", width, "labels", width, "");
    for (size_t c = 0; c < m->classes; c++)
        fprintf(f, " %8.8s", class_name(s, c, number));
    for (size_t c = 0; c < m->classes; c++) {
        fprintf(f, "\n%-*.40s", width, class_name(s, c, number));
        for (size_t k = 0; k < m->classes; k++)
            fprintf(f, " %8.7g", m->confusion[c * m->classes + k]);
    }
    fputs("\n", f);
}

char *yk_show_metrics(const yk_eval_metrics *m, const yk_schema *s)
{
    enum { MAX_ROWS = 100, MAX_COLUMNS = 16 };
    int width = 6;
    char number[24], *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f) {
        yk_fail_memory(4096, "the metrics");
        return NULL;
    }
    fprintf(f, "examples            %llu\n", (unsigned long long)m->examples);
    if (m->weight != (double)m->examples)
        fprintf(f, "sum of weights      %.10g\n", m->weight);
    for (int k = 0; k < YK_METRICS; k++) {
        const yk_metric_kind *kind = &yk_metric_kinds[k];
        const double x = m->value[k];
        if (!isfinite(x) || (!strcmp(kind->name, "log_loss") && x == m->value[0]))
            continue;
        if (!strcmp(kind->name, "accuracy"))
            fprintf(f, "accuracy            %.2f %%   (majority class: %.2f %%)\n", 100.0 * x,
                    100.0 * m->majority_accuracy);
        else
            fprintf(f, "%-19s %.5f\n", kind->title, x);
    }
    for (size_t c = 0; c < m->classes; c++) {
        const size_t n = strlen(class_name(s, c, number));
        width = n > 40 ? 40 : (int)n > width ? (int)n : width;
    }
    if (m->classes && m->classes <= MAX_ROWS)
        show_classes(f, m, s, width);
    if (m->confusion && m->classes <= MAX_COLUMNS)
        show_confusion(f, m, s, width);
    if (!fclose(f))
        return text;
    free(text);
    yk_fail_memory(4096, "the metrics");
    return NULL;
}
