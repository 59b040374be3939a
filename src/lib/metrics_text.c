/* Metrics as text: what `yoke eval` prints, and a line of the results of a run. */
#include "lib/internal.h"

#include <math.h>
#include <string.h>

void yk_show_metrics_line(yk_text *t, const yk_eval_metrics *m)
{
    static const char shown[] =
        "normalized_entropy, pr_auc, brier, calibration_error, f1, macro_f1, r2, mae, rmse";
    const char *between = "test metrics   ";
    for (int k = 0; m->examples && k < YK_METRICS; k++) {
        const yk_metric_kind *kind = &yk_metric_kinds[k];
        const double x = m->value[k];
        if (!yk_list_has(shown, kind->name) || !isfinite(x) ||
            (m->task == YK_TASK_BINARY && !strcmp(kind->name, "macro_f1")))
            continue;
        yk_text_print(t, "%s%s %.4f", between, kind->title, x);
        between = ", ";
    }
    yk_text_add(t, *between == ',' ? "\n" : "");
}

/* "spam", or the number if classes have no names. */
static void put_class(yk_text *t, const char *before, const yk_schema *s, size_t c, size_t max)
{
    char number[24];
    snprintf(number, sizeof number, "%zu", c);
    const char *name = s && c < s->classes.n ? s->classes.name[c] : number;
    yk_text_print(t, "%s%.*s", before, yk_utf8_cut(name, max), name);
}

static void show_classes(yk_text *t, const yk_eval_metrics *m, const yk_schema *s)
{
    yk_text rows = {0};
    yk_text_print(&rows, "\nclass\t%s\tprecision\trecall\tF1\n",
                  m->weight == (double)m->examples ? "examples" : "weight");
    for (size_t c = 0; c < m->classes; c++) {
        const yk_class_metrics *one = &m->of_class[c];
        put_class(&rows, "", s, c, 40);
        yk_text_print(&rows, "\t%.10g", one->weight);
        if (isfinite(one->f1))
            yk_text_print(&rows, "\t%.4f\t%.4f\t%.4f\n", one->precision, one->recall, one->f1);
        else
            yk_text_add(&rows, "\t-\t-\t-\n");
    }
    yk_text_columns(t, &rows, "<>>>>");
}

static void show_confusion(yk_text *t, const yk_eval_metrics *m, const yk_schema *s)
{
    yk_text rows = {0};
    yk_text_add(t, "\nlabels predictions\n");
    for (size_t c = 0; c < m->classes; c++)
        put_class(&rows, "\t", s, c, 8);
    for (size_t c = 0; c < m->classes; c++) {
        put_class(&rows, "\n", s, c, 40);
        for (size_t k = 0; k < m->classes; k++)
            yk_text_print(&rows, "\t%.7g", m->confusion[c * m->classes + k]);
    }
    yk_text_add(&rows, "\n");
    yk_text_columns(t, &rows, "<>>>>>>>>>>>>>>>>");
}

char *yk_show_metrics(const yk_eval_metrics *m, const yk_schema *s)
{
    enum { MAX_ROWS = 100, MAX_COLUMNS = 16 };
    yk_text all = {0}, *t = &all;
    yk_text_print(t, "examples            %llu\n", (unsigned long long)m->examples);
    if (m->weight != (double)m->examples)
        yk_text_print(t, "sum of weights      %.10g\n", m->weight);
    for (int k = 0; k < YK_METRICS; k++) {
        const yk_metric_kind *kind = &yk_metric_kinds[k];
        const double x = m->value[k];
        if (!isfinite(x) || (!strcmp(kind->name, "log_loss") && x == m->value[0]))
            continue;
        if (!strcmp(kind->name, "accuracy"))
            yk_text_print(t, "accuracy            %.2f %%   (majority class: %.2f %%)\n", 100.0 * x,
                          100.0 * m->majority_accuracy);
        else
            yk_text_print(t, "%-19s %.5f\n", kind->title, x);
    }
    if (m->classes && m->classes <= MAX_ROWS)
        show_classes(t, m, s);
    if (m->confusion && m->classes <= MAX_COLUMNS)
        show_confusion(t, m, s);
    return yk_text_take(t);
}
