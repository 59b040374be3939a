/* The tables of one run: its metrics, workers, processes, traffic and alerts. */
#include "report/compare.h"

#include "train/metrics.h"
#include "train/train.h"
#include "train/weights.h"
#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

void yk__put_members(yk_table *t, const yk__member *m, size_t n, const json_t *object)
{
    for (size_t k = 0; k < n; k++)
        if (m[k].column.words)
            yk_table_text(t, yk_string_at(object, m[k].name));
        else
            yk_table_number(t, yk_number_at(object, m[k].name), NAN);
}

/* A table of all runs has their labels in its first column. */
static void add_row(const yk_compare *c, size_t i, yk_table *t)
{
    yk_table_row(t, -1);
    if (t->lead)
        yk_table_text(t, c->label[i]);
}

static const yk__member process_columns[] = {
    {{"rank", NULL, YK_UNIT_INTEGER}, "rank"},
    {{"role", .words = true}, NULL},
    {{"host", .words = true}, "host"},
    {{"time", NULL, YK_UNIT_SECONDS}, "seconds"},
    {{"steps", NULL, YK_UNIT_INTEGER}, "steps"},
    {{"examples", NULL, YK_UNIT_INTEGER}, "examples"},
    {{"CPU", "mean number of busy cores", YK_UNIT_CORES}, "cpu_mean"},
    {{"CPU peak", NULL, YK_UNIT_CORES}, "cpu_peak"},
    {{"memory peak", NULL, YK_UNIT_BYTES}, "rss_peak"},
    {{"disk read", NULL, YK_UNIT_BYTES}, "disk_read_bytes"},
    {{"disk written", NULL, YK_UNIT_BYTES}, "disk_written_bytes"},
    {{"sent", "bytes of messages", YK_UNIT_BYTES}, "bytes_sent"},
    {{"received", "bytes of messages", YK_UNIT_BYTES}, "bytes_received"},
    {{"sent/s", "mean", YK_UNIT_RATE}, "sent_rate"},
    {{"received/s", "mean", YK_UNIT_RATE}, "received_rate"},
    {{"switches/s", "context switches per second", YK_UNIT_COUNT}, "switches"},
    {{"involuntary/s", "involuntary context switches per second", YK_UNIT_COUNT}, "switches_forced"}};

static void processes(const yk_compare *c, size_t i, yk_table *t)
{
    const json_t *p;
    size_t k;
    json_array_foreach(c->run[i].processes, k, p)
    {
        const char *is = yk_string_at(p, "role");
        char role[48];
        snprintf(role, sizeof role, "%.16s%s%s", is ? is : "",
                 yk_number_at(p, "joined") > 0.0 ? ", joined" : "",
                 yk_number_at(p, "lost") > 0.0 ? ", lost" : "");
        add_row(c, i, t);
        yk__put_members(t, process_columns, 1, p);
        yk_table_text(t, role);
        yk__put_members(t, process_columns + 2, COUNT(process_columns) - 2, p);
    }
}

static const yk__member metric_columns[] = {
    {{"metric", .words = true}}, {{"value", NULL, YK_UNIT_PLAIN}}, {{"better", .words = true}}};

static void metrics(const yk_compare *c, size_t i, yk_table *t)
{
    const json_t *all = yk_value_at(c->run[i].summary, "test_metrics");
    for (const yk_metric_kind *k = yk_metric_kinds; k < yk_metric_kinds + YK_METRICS; k++) {
        const double x = yk_number_at(all, k->name);
        if (!isfinite(x) || !strcmp(k->name, "log_loss")) /* the loss */
            continue;
        add_row(c, i, t);
        yk_table_text(t, k->title);
        yk_table_number(t, x, NAN);
        yk_table_text(t, k->sign > 0 ? "higher" : "lower");
    }
}

static const yk__member class_columns[] = {
    {{"class", .words = true}},
    {{"weight", "examples, or the sum of their weights", YK_UNIT_INTEGER}, "weight"},
    {{"precision", NULL, YK_UNIT_PLAIN}, "precision"},
    {{"recall", NULL, YK_UNIT_PLAIN}, "recall"},
    {{"F1", NULL, YK_UNIT_PLAIN}, "f1"}};

static void classes(const yk_compare *c, size_t i, yk_table *t)
{
    const json_t *list = yk_value_at(c->run[i].summary, "test_metrics.classes"), *one;
    size_t k;
    json_array_foreach(list, k, one)
    {
        char number[24];
        const char *name = yk_string_at(one, "name");
        if (k == YK_MAX_CONFUSION)
            break;
        snprintf(number, sizeof number, "%zu", k);
        add_row(c, i, t);
        yk_table_text(t, name ? name : number);
        yk__put_members(t, class_columns + 1, COUNT(class_columns) - 1, one);
    }
}

/* At barriers, a slow worker is the last one. */
static const yk__member worker_columns[] = {
    {{"rank", NULL, YK_UNIT_INTEGER}},
    {{"worker", NULL, YK_UNIT_INTEGER}, "worker"},
    {{"steps", NULL, YK_UNIT_INTEGER}, "steps"},
    {{"examples", NULL, YK_UNIT_INTEGER}, "examples"},
    {{"steps/s", "1 / mean time per step", YK_UNIT_COUNT}},
    {{"\u03bcs per step", "mean and standard deviation", YK_UNIT_COUNT}},
    {{"was last", "share of the barriers at which the other workers waited for it", YK_UNIT_PERCENT}}};

static void workers(const yk_compare *c, size_t i, yk_table *t)
{
    const json_t *process, *one;
    const bool several = json_array_size(c->run[i].processes) > 1;
    const size_t before = t->rows;
    size_t k, w;
    json_array_foreach(c->run[i].processes, k, process)
    {
        json_array_foreach(json_object_get(process, "workers"), w, one)
        {
            const bool old = !json_object_get(one, "barriers"); /* version 0.1.0 */
            const double seconds = yk_number_at(one, "step_seconds"),
                         barriers = yk_number_at(one, old ? "meetings" : "barriers");
            if (t->rows - before == 256)
                break;
            add_row(c, i, t);
            yk_table_number(t, several ? yk_number_at(process, "rank") : NAN, NAN);
            yk__put_members(t, worker_columns + 1, 3, one);
            yk_table_number(t, seconds > 0.0 ? 1.0 / seconds : NAN, NAN);
            yk_table_number(t, seconds * 1e6, yk_number_at(one, "step_deviation") * 1e6);
            yk_table_number(t, barriers > 0.0 ? yk_number_at(one, "came_last") / barriers : NAN, NAN);
        }
    }
}

static const yk__member traffic_columns[] = {{{"purpose", .words = true}},
                                             {{"sent", NULL, YK_UNIT_BYTES}, "sent"},
                                             {{"received", NULL, YK_UNIT_BYTES}, "received"},
                                             {{"messages", NULL, YK_UNIT_INTEGER}, "messages"}};

static void traffic(const yk_compare *c, size_t i, yk_table *t)
{
    const char *name;
    json_t *o, *all = (json_t *)yk_value_at(c->run[i].summary, "traffic"); /* it is only read */
    json_object_foreach(all, name, o)
    {
        if (!json_is_object(o) || !(yk_number_at(o, "sent") + yk_number_at(o, "received") > 0.0))
            continue;
        add_row(c, i, t);
        yk_table_text(t, name);
        yk__put_members(t, traffic_columns + 1, COUNT(traffic_columns) - 1, o);
    }
}

static const yk__member alert_columns[] = {{{"resource", .words = true}, "what"},
                                           {{"rank", NULL, YK_UNIT_INTEGER}},
                                           {{"start", NULL, YK_UNIT_SECONDS}, "begin"},
                                           {{"duration", NULL, YK_UNIT_SECONDS}, "seconds"},
                                           {{"level", "share of the capacity", YK_UNIT_PERCENT}, "level"}};

static void alerts(const yk_compare *c, size_t i, yk_table *t)
{
    const yk_run *r = &c->run[i];
    const size_t before = t->rows;
    const json_t *a;
    for (size_t w = 0, k; w < r->logs; w++)
        json_array_foreach(r->log[w].alerts, k, a)
        {
            if (t->rows - before == 40)
                return;
            add_row(c, i, t);
            yk__put_members(t, alert_columns, 1, a);
            yk_table_number(t, r->log[w].rank, NAN);
            yk__put_members(t, alert_columns + 2, COUNT(alert_columns) - 2, a);
        }
}

static const yk__member search_columns[] = {{{"learning rate", NULL, YK_UNIT_PLAIN}, "lr"},
                                            {{"steps", NULL, YK_UNIT_INTEGER}, "steps"},
                                            {{"validation loss", NULL, YK_UNIT_PLAIN}, "validation_loss"},
                                            {{"chosen", .words = true}}};

/* --lr auto */
static void search(const yk_compare *c, size_t i, yk_table *t)
{
    const json_t *list = yk_value_at(c->run[i].summary, "lr_search.trials"), *one;
    const double chosen = yk_number_at(c->run[i].summary, "lr_search.lr");
    size_t k;
    json_array_foreach(list, k, one)
    {
        if (k == YK_LR_CANDIDATES * YK_LR_ROUNDS)
            break;
        add_row(c, i, t);
        yk__put_members(t, search_columns, 3, one);
        yk_table_text(t, yk_number_at(one, "lr") == chosen ? "yes" : "");
    }
}

static const yk__member weight_columns[] = {
    {{"feature", .words = true}}, {{"class", .words = true}}, {{"weight", NULL, YK_UNIT_PLAIN}}};

/* The largest weights, if the run directory contains a linear model. */
static void weights(const yk_compare *c, size_t i, yk_table *t)
{
    enum { TOP = 20 };
    const yk_run *r = &c->run[i];
    const char *name = yk_run_get(r, "model");
    yk_feature_names names = {0};
    yk_weights w = {.top = TOP};
    yk_trained *m;
    yk_model_description d;
    if (c->n > YK_MAX_DETAILED || !name || yk_model_parse(name, &d) || !d.linear ||
        yk_trained_load(r->path, &m))
        return;
    w.base = yk_weights_base(m, yk_run_get(r, "data"));
    const yk_status st = yk_weights_find(&w, m, NULL, &names);
    for (size_t k = 0; k < w.n && !st; k++) {
        char number[16];
        add_row(c, i, t);
        yk_table_text(t, w.weight[k].name);
        yk_table_text(t, yk_weight_class(m, &w.weight[k], number));
        yk_table_number(t, (double)w.weight[k].weight, NAN);
    }
    yk_weights_fini(&w);
    yk_trained_release(m);
}

void yk_run_table_make(const yk_compare *c, int run, yk_run_table which, yk_table *out)
{
    static const struct {
        const char *id, *title, *note;
        const yk__member *column;
        size_t columns;
        void (*add)(const yk_compare *c, size_t i, yk_table *t);
    } kinds[YK_RUN_TABLES] = {
        {"metrics", "Test metrics", NULL, metric_columns, COUNT(metric_columns), metrics},
        {"classes", "Test metrics by class", NULL, class_columns, COUNT(class_columns), classes},
        {"workers", "Workers", NULL, worker_columns, COUNT(worker_columns), workers},
        {"processes", "Processes", NULL, process_columns, COUNT(process_columns), processes},
        {"traffic", "Network traffic by purpose", NULL, traffic_columns, COUNT(traffic_columns), traffic},
        {"alerts", "Alerts",
         "Times at which a resource stayed above 90 % of its capacity; shaded in the plots.", alert_columns,
         COUNT(alert_columns), alerts},
        {"lr-search", "Search for the learning rate",
         "Before training, models were trained for a few steps on a sample of the training data.",
         search_columns, COUNT(search_columns), search},
        {"weights", "Largest weights",
         "yoke inspect RUN --data SPEC finds the names of hashed features in the data.", weight_columns,
         COUNT(weight_columns), weights}};
    const bool all = run < 0;
    /* the comparison has a table of workers, too */
    *out = (yk_table){.id = all && which == YK_RUN_WORKERS ? "run-workers" : kinds[which].id,
                      .title = kinds[which].title,
                      .note = kinds[which].note,
                      .lead = all,
                      .keys = 1 + all};
    if (all)
        yk_table_column(out, &(yk_column){"run", .words = true});
    for (size_t k = 0; k < kinds[which].columns; k++)
        yk_table_column(out, &kinds[which].column[k].column);
    for (size_t i = all ? 0 : (size_t)run; i < (all ? c->n : (size_t)run + 1); i++)
        kinds[which].add(c, i, out);
}
