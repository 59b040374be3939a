#include "report/compare.h"

#include "base/number.h"
#include <stdio.h>
#include <stdlib.h>

#define FACT(field) offsetof(yk_facts, field)

/* ---- the main results of several runs ---- */

/* The group with the best mean; SIZE_MAX: none. */
static size_t best_group(const yk_compare *c, size_t offset, double sign)
{
    size_t best = SIZE_MAX;
    for (size_t g = 0; g < c->groups; g++) {
        const double x = sign * yk_group_mean(c, &c->group[g], offset, NULL);
        if (isfinite(x) && !yk__all_failed(c, &c->group[g]) &&
            (best == SIZE_MAX || x > sign * yk_group_mean(c, &c->group[best], offset, NULL)))
            best = g;
    }
    return best;
}

__attribute__((format(printf, 4, 5))) static void add(yk_compare *c, const char *title, const char *value,
                                                      const char *format, ...)
{
    if (c->highlights == sizeof c->highlight / sizeof *c->highlight)
        return;
    va_list list;
    va_start(list, format);
    snprintf(c->highlight[c->highlights].title, sizeof c->highlight[0].title, "%s", title);
    snprintf(c->highlight[c->highlights].value, sizeof c->highlight[0].value, "%s", value);
    vsnprintf(c->highlight[c->highlights++].text, sizeof c->highlight[0].text, format, list);
    va_end(list);
}

/* The groups with the best and the worst mean of a fact; sign -1: lower is better. times: the worst as a ratio. */
static void add_range(yk_compare *c, const char *title, yk_unit unit, size_t offset, double sign, bool times)
{
    const size_t top = best_group(c, offset, sign), low = best_group(c, offset, -sign);
    char a[YK_UNIT_SIZE], b[YK_UNIT_SIZE];
    if (top == SIZE_MAX || top == low)
        return;
    const double max = yk_group_mean(c, &c->group[top], offset, NULL),
                 min = yk_group_mean(c, &c->group[low], offset, NULL);
    add(c, title, yk_unit_text(unit, max, a), times ? "%.100s; %s the slowest run" : "%.100s; worst %s",
        c->group[top].label, yk_unit_text(times ? YK_UNIT_TIMES : unit, times ? max / min : min, b));
}

static void add_fastest(yk_compare *c)
{
    char time[YK_UNIT_SIZE], title[32], others[96] = "";
    size_t first = SIZE_MAX, never = 0;
    double soonest = INFINITY;
    for (size_t i = 0; isfinite(c->target) && i < c->n; i++) {
        const double s = c->facts[i].failed ? NAN : c->facts[i].to_target;
        never += !isfinite(s);
        if (s < soonest)
            soonest = s, first = i;
    }
    if (first == SIZE_MAX)
        return;
    if (never)
        snprintf(others, sizeof others, "; %zu of %zu runs did not reach it", never, c->n);
    snprintf(title, sizeof title, "Fastest to %.4g %%", c->target * 100.0);
    add(c, title, yk_unit_text(YK_UNIT_SECONDS, soonest, time), "%.100s%s", c->label[first], others);
}

static double number(const yk_table *t, size_t row, size_t column)
{
    return column < t->columns ? t->cell[row * t->columns + column].number : NAN;
}

static void add_workers(yk_compare *c, const yk_table *t)
{
    size_t times = yk_table_find(t, "speedup"), part = yk_table_find(t, "efficiency"), best = SIZE_MAX;
    char a[YK_UNIT_SIZE];
    for (size_t r = 0; r < t->rows; r++)
        if (isfinite(number(t, r, times)) &&
            (best == SIZE_MAX || number(t, r, times) > number(t, best, times)))
            best = r;
    if (best == SIZE_MAX)
        return;
    if (number(t, best, times) > 1.0)
        add(c, "Best speedup", yk_unit_text(YK_UNIT_TIMES, number(t, best, times), a),
            "%.0f workers, efficiency %.0f %%; %.100s", c->facts[t->run[best]].workers,
            100.0 * number(t, best, part), c->group[c->group_of[t->run[best]]].label);
    else
        add(c, "Best speedup", "none", "more workers were not faster");
}

static void add_modes(yk_compare *c, const yk_table *t)
{
    size_t times = yk_table_find(t, "relative speed"), points = yk_table_find(t, "accuracy gain");
    double logs = 0.0, n = 0.0, sum = 0.0, m = 0.0;
    char a[YK_UNIT_SIZE], accuracy[64] = "";
    for (size_t r = 0; r < t->rows; r++) {
        if (c->facts[t->run[r]].workers <= 1.0) /* one worker waits for nobody */
            continue;
        if (number(t, r, times) > 0.0)
            logs += log(number(t, r, times)), n++;
        if (isfinite(number(t, r, points)))
            sum += number(t, r, points), m++;
    }
    if (n == 0.0)
        return;
    if (m > 0.0)
        snprintf(accuracy, sizeof accuracy, ", %+.2f points of accuracy", 100.0 * sum / m);
    add(c, "Async compared with sync", yk_unit_text(YK_UNIT_TIMES, exp(logs / n), a),
        "the examples/s%s; mean of %.0f %s of runs with several workers", accuracy, n,
        n == 1.0 ? "pair" : "pairs");
}

static yk_unit monitored_unit(const yk_compare *c)
{
    return c->monitor && !strcmp(c->monitor->name, "accuracy") ? YK_UNIT_PERCENT_EXACT : YK_UNIT_PLAIN;
}

/* By the validation set, if all runs have the same; else by the test set. */
static void add_best(yk_compare *c)
{
    bool auc = false, validated = c->monitor && !yk_is_listed("validation", c->varying);
    char title[40];
    for (size_t i = 0; i < c->n; i++) {
        auc |= isfinite(c->facts[i].test_auc);
        validated &= c->facts[i].failed || isfinite(c->facts[i].best_value);
    }
    if (validated) {
        snprintf(title, sizeof title, "Best validation %s", c->monitor->title);
        add_range(c, title, monitored_unit(c), FACT(best_value), c->monitor->sign, false);
    } else {
        add_range(c, auc ? "Highest test AUC" : "Highest test accuracy",
                  auc ? YK_UNIT_PLAIN : YK_UNIT_PERCENT_EXACT, auc ? FACT(test_auc) : FACT(test_accuracy),
                  1.0, false);
    }
}

static void add_highlights(yk_compare *c)
{
    if (!yk_is_listed("data", c->varying))
        add_best(c);
    add_fastest(c);
    add_range(c, "Most examples/s", YK_UNIT_COUNT, FACT(examples_per_second), 1.0, true);
    const yk_table *workers = yk_compare_table(c, "workers"), *modes = yk_compare_table(c, "modes");
    if (workers)
        add_workers(c, workers);
    if (modes)
        add_modes(c, modes);
}

void yk_compare_fini(yk_compare *c)
{
    for (size_t t = 0; t < c->tables; t++)
        yk_table_fini(&c->table[t]);
    yk_arena_free(&c->arena);
    *c = (yk_compare){0};
}

const yk_table *yk_compare_table(const yk_compare *c, const char *id)
{
    for (size_t i = 0; i < c->tables; i++)
        if (!strcmp(c->table[i].id, id))
            return &c->table[i];
    return NULL;
}

/* ---- columns of options that vary ---- */

/* Repeats are one row: the options in which they differ are shown only if there are no other runs. */
size_t yk__add_options(const yk_compare *c, yk_table *t, const char *except)
{
    enum { MAX = 24 };
    size_t n = 0;
    for (size_t k = 0; c->varying[k] && n < MAX; k++) {
        const char *name = c->varying[k];
        const bool wide =
            yk_list_has("data,processes", name); /* not shown if they follow from other columns */
        if (yk_list_has(except, name) || (c->groups > 1 && !(c->identity >> k & 1)) ||
            (wide && !(c->in_labels >> k & 1)))
            continue;
        yk_column column = {"", NULL, YK_UNIT_SHORT, .words = c->words >> k & 1, .option = true};
        snprintf(column.title, sizeof column.title, "%s", name);
        yk_table_column(t, &column);
        n++;
    }
    return n;
}

void yk__put_options(const yk_compare *c, yk_table *t, size_t run)
{
    const yk_column *column;
    while (!t->status && (column = &t->column[t->cells % t->columns])->option) {
        char text[YK_OPTION_SIZE];
        double x = NAN;
        yk_option_text(c, run, column->title, text);
        if (column->words) {
            yk_table_text(t, text);
        } else {
            yk_number_real(text, -HUGE_VAL, HUGE_VAL, &x);
            yk_table_number(t, x, NAN);
        }
    }
}

/* ---- columns of results ---- */

enum { RUNS = 1, BATCH = 2, WORKERS = 4, SIZES = 6, SAME = 7, MODES = 8, ALL = 15 };

/* Values that are not facts. */
enum { REPEATS = sizeof(yk_facts), SPEED_UP, EFFICIENCY, GAIN, PLATEAU, BOTTLENECK, EPOCHS };

/* The table of modes has a column for sync and one for the other mode if other tables have the result too. */
static const struct {
    yk_column column;
    size_t offset;
    unsigned tables; /* that have it */
} results[] = {
    {{"batch", "examples per worker and step", YK_UNIT_INTEGER}, FACT(batch), BATCH},
    {{"workers", NULL, YK_UNIT_INTEGER}, FACT(workers), WORKERS},
    {{"processes", "that train", YK_UNIT_INTEGER}, FACT(processes), WORKERS},
    {{"global batch", "examples per step of all workers", YK_UNIT_INTEGER}, FACT(global_batch), SIZES},
    {{"repeats", "runs that differ only in the seed", YK_UNIT_INTEGER}, REPEATS, SAME},
    {{"time", "of the whole run", YK_UNIT_SECONDS, .best = -1}, FACT(seconds), SAME},
    {{"examples/s", "while training", YK_UNIT_COUNT, .best = 1}, FACT(examples_per_second), ALL},
    {{"speedup", NULL, YK_UNIT_TIMES}, SPEED_UP, WORKERS},
    {{"efficiency", NULL, YK_UNIT_PERCENT}, EFFICIENCY, WORKERS},
    {{"relative speed", "examples per second, compared with sync", YK_UNIT_TIMES}, SPEED_UP, MODES},
    {{"accuracy", "on the test set", YK_UNIT_PERCENT_EXACT, .best = 1}, FACT(test_accuracy), ALL},
    {{"error", "misclassified test examples", YK_UNIT_PERCENT_EXACT, .best = -1}, FACT(test_error), SAME},
    {{"accuracy gain", "compared with sync", YK_UNIT_POINTS}, GAIN, MODES},
    {{"AUC", "area under the ROC curve, at the end", YK_UNIT_PLAIN, .best = 1}, FACT(test_auc), ALL},
    {{"test loss", NULL, YK_UNIT_PLAIN, .best = -1}, FACT(test_loss), ALL},
    {{"monitored value", "of the best model, on the validation set", YK_UNIT_PLAIN}, FACT(best_value), ALL},
    {{"to", "time until a test reached this accuracy", YK_UNIT_SECONDS, .best = -1}, FACT(to_target), ALL},
    {{"staleness", "updates by others between read and write, mean", YK_UNIT_CORES}, FACT(stale_mean), MODES},
    {{"last improvement", "epoch after which tests did not improve", YK_UNIT_SHORT}, PLATEAU, RUNS},
    {{"CPU", "mean number of busy cores, of all processes together", YK_UNIT_CORES}, FACT(cpu), SIZES},
    {{"memory", "peak, of all processes together", YK_UNIT_BYTES}, FACT(memory_peak), SIZES},
    {{"network", "of the busiest host, in one direction", YK_UNIT_RATE}, FACT(network), SIZES},
    {{"train loss", NULL, YK_UNIT_PLAIN}, FACT(train_loss), RUNS},
    {{"steps done", "updates of the model", YK_UNIT_INTEGER}, FACT(steps), RUNS},
    {{"epochs done", "passes over the training data", YK_UNIT_SHORT}, EPOCHS, ALL},
    {{"bottleneck", .words = true}, BOTTLENECK, RUNS},
};

enum { RESULTS = sizeof results / sizeof *results };

static bool has_result(const yk_compare *c, unsigned table, size_t i)
{
    return results[i].tables & table && (results[i].offset != FACT(to_target) || isfinite(c->target));
}

static void add_results(const yk_compare *c, yk_table *t, unsigned table)
{
    for (size_t i = 0; i < RESULTS; i++) {
        yk_column column = results[i].column;
        char title[32];
        if (!has_result(c, table, i))
            continue;
        if (results[i].offset == FACT(to_target))
            snprintf(column.title, sizeof column.title, "to %.4g %%", c->target * 100.0);
        if (results[i].offset == FACT(best_value) && c->monitor) {
            snprintf(column.title, sizeof column.title, "validation %s", c->monitor->title);
            column.unit = monitored_unit(c);
            column.best = c->monitor->sign;
        }
        if (table == MODES && results[i].tables != MODES) {
            column.best = 0;
            snprintf(title, sizeof title, "%.31s", column.title);
            snprintf(column.title, sizeof column.title, "%s: sync", title);
            yk_table_column(t, &column);
            snprintf(column.title, sizeof column.title, "%s: other", title);
        }
        yk_table_column(t, &column);
    }
}

/* Some values are relative to another group, `base`. */
static double value_of(const yk_compare *c, const yk_config_group *g, const yk_config_group *base,
                       size_t offset, double *spread_out)
{
    const size_t speed = FACT(examples_per_second), accuracy = FACT(test_accuracy);
    const yk_facts *f = &c->facts[g->run[0]];
    *spread_out = NAN;
    switch (offset) {
    case FACT(batch):
    case FACT(workers):
    case FACT(global_batch):
        return yk_double_at(f, offset);
    case FACT(processes):
        return c->mixed ? f->processes : NAN;
    case REPEATS:
        return c->groups < c->n ? (double)g->n : NAN;
    case SPEED_UP:
        return yk_group_mean(c, g, speed, NULL) / yk_group_mean(c, base, speed, NULL);
    case EFFICIENCY:
        return value_of(c, g, base, SPEED_UP, spread_out) * c->facts[base->run[0]].workers / f->workers;
    case GAIN:
        return yk_group_mean(c, g, accuracy, NULL) - yk_group_mean(c, base, accuracy, NULL);
    case PLATEAU:
        return f->plateau.reached ? yk_round_epochs(f->plateau.epoch) : NAN;
    case FACT(network): { /* threads send nothing */
        const double x = yk_group_mean(c, g, offset, spread_out);
        return x > 0.0 ? x : (*spread_out = NAN);
    }
    case EPOCHS:
        return c->epochs_differ ? yk_round_epochs(yk_group_mean(c, g, FACT(epochs), spread_out)) : NAN;
    default:
        return yk_group_mean(c, g, offset, spread_out);
    }
}

static void put_results(const yk_compare *c, yk_table *t, unsigned table, const yk_config_group *g,
                        const yk_config_group *base)
{
    for (size_t i = 0; i < RESULTS; i++) {
        const size_t offset = results[i].offset;
        double spread;
        char text[48];
        if (!has_result(c, table, i))
            continue;
        if (offset == BOTTLENECK) {
            yk_table_text(t, yk_bottleneck_text(c->run[g->run[0]].summary, text));
            continue;
        }
        if (table == MODES && results[i].tables != MODES) {
            const double x = value_of(c, base, NULL, offset, &spread);
            yk_table_number(t, x, spread);
        }
        const double x = value_of(c, g, base, offset, &spread);
        yk_table_number(t, x, spread);
    }
}

/* ---- the tables ---- */

/* A row for each group: its options, then the results. */
static void fill_runs(yk_compare *c, const yk__table_kind *kind, yk_table *t)
{
    const bool names = yk__shows_names(c);
    if (c->groups == c->n)
        t->note = NULL;
    yk_table_column(t, &(yk_column){"run", .words = true});
    yk__add_options(c, t, kind->except);
    yk_table_column(t, &(yk_column){"status", "empty: the run is complete", .words = true});
    add_results(c, t, kind->results);
    for (size_t g = 0; g < c->groups; g++) {
        const yk_config_group *group = &c->group[g];
        char text[64];
        snprintf(text, sizeof text, "%zu", g + 1);
        yk_table_row(t, (int)group->run[0]);
        yk_table_text(t, names ? c->run[group->run[0]].name : text);
        yk__put_options(c, t, group->run[0]);
        yk_table_text(t, yk__group_status(c, group, text));
        put_results(c, t, kind->results, group, NULL);
    }
}

/* The position of a group in a table: by class (groups with the same key), then by the fact that is compared. */
typedef struct {
    size_t class, group;
    double by;
} position;

static int by_position(const void *a, const void *b)
{
    const position *p = a, *q = b;
    if (p->class != q->class)
        return p->class < q->class ? -1 : 1;
    return p->by < q->by ? -1 : p->by > q->by ? 1 : p->group < q->group ? -1 : p->group > q->group;
}

/* Finds the groups that have a partner: another group with the same options `paired`, but a different fact. Groups with
 * the same options `which` are in the same class. Failed groups are left out. Returns how many. */
static size_t find_partners(const yk_compare *c, yk_option_set which, yk_option_set paired, size_t offset,
                            position *out)
{
    size_t n = 0;
    for (size_t g = 0; g < c->groups; g++) {
        const size_t run = c->group[g].run[0];
        const double mine = yk_double_at(&c->facts[run], offset);
        size_t class = g;
        bool has = false;
        for (size_t k = 0; k < c->groups; k++) {
            const size_t other = c->group[k].run[0];
            if (k < class && yk__options_same(c, run, other, which))
                class = k;
            has |= yk__options_same(c, run, other, paired) &&
                   yk_double_at(&c->facts[other], offset) != mine && !yk__all_failed(c, &c->group[k]);
        }
        if (has && isfinite(mine) && !yk__all_failed(c, &c->group[g]))
            out[n++] = (position){class, g, mine};
    }
    qsort(out, n, sizeof *out, by_position);
    return n;
}

/* What the speedup of row i is relative to: one worker, in the same mode or else in another; or else the fewest workers in the
 * same number of processes, or with the same number of workers per process. Rows of the same class begin at `first`. */
static const yk_config_group *base_of(const yk_compare *c, const position *at, size_t first, size_t i,
                                      yk_option_set paired)
{
    const yk_config_group *group = &c->group[at[i].group], *fewest = &c->group[at[first].group];
    if (at[first].by == 1.0)
        return fewest;
    for (size_t k = 0; k < c->groups; k++)
        if (c->facts[c->group[k].run[0]].workers == 1.0 && !yk__all_failed(c, &c->group[k]) &&
            yk__options_same(c, c->group[k].run[0], fewest->run[0], paired))
            return &c->group[k];
    const double processes = c->facts[group->run[0]].processes;
    for (; first < i; first++) {
        const double others = c->facts[c->group[at[first].group].run[0]].processes;
        if (others == processes || at[first].by / others == at[i].by / processes)
            break;
    }
    return &c->group[at[first].group];
}

/* The groups that differ only in the batch size, or in the workers. */
static void fill_partners(yk_compare *c, const yk__table_kind *kind, yk_table *t)
{
    const bool workers = kind->results == WORKERS;
    position *at = yk_arena_alloc(&c->arena, c->groups, sizeof *at, "a comparison of runs");
    if (!at)
        return;
    const yk_option_set which = yk__options_except(c, workers ? YK__WORKER_OPTIONS : YK__BATCH_OPTIONS),
                        paired = workers ? which & ~yk__options_in(c, "mode") : which;
    const size_t n = find_partners(c, which, paired, workers ? FACT(workers) : FACT(batch), at);
    t->lead = yk__add_options(c, t, kind->except);
    t->keys = t->lead + 1;
    add_results(c, t, kind->results);
    for (size_t i = 0, first = 0; n > 1 && i < n; i++) {
        const yk_config_group *g = &c->group[at[i].group];
        first = at[i].class == at[first].class ? first : i;
        yk_table_row(t, (int)g->run[0]);
        yk__put_options(c, t, g->run[0]);
        put_results(c, t, kind->results, g, base_of(c, at, first, i, paired));
    }
}

/* "async", or "async, 1 server" if runs differ in that; an empty cell for no group. */
static void put_mode(const yk_compare *c, const yk_config_group *g, bool servers, yk_table *t)
{
    char text[2 * YK_OPTION_SIZE] = "", number[YK_OPTION_SIZE];
    if (g)
        yk_option_text(c, g->run[0], "mode", text);
    if (g && servers) {
        const size_t n = strlen(strcat(text, ", "));
        yk__option_phrase("servers", yk_option_text(c, g->run[0], "servers", number), text + n,
                          sizeof text - n);
    }
    yk_table_text(t, text);
}

/* N workers are compared with N workers, whether parameter servers are used or not. */
static void fill_modes(yk_compare *c, const yk__table_kind *kind, yk_table *t)
{
    const bool servers = yk_is_listed("servers", c->varying);
    const yk_option_set paired = yk__options_except(c, kind->except);
    yk__add_options(c, t, kind->except);
    yk_table_column(t, &(yk_column){"other", "the mode that is compared with sync", .words = true});
    yk_table_column(t, &(yk_column){"sync", "what it is compared with", .words = true});
    t->keys = t->columns;
    add_results(c, t, kind->results);
    for (size_t g = 0; g < c->groups; g++)
        for (size_t k = 0; k < c->groups; k++) {
            const yk_config_group *sync = &c->group[g], *other = &c->group[k];
            char mode[YK_OPTION_SIZE];
            if (strcmp(yk_option_text(c, sync->run[0], "mode", mode), "sync") ||
                !strcmp(yk_option_text(c, other->run[0], "mode", mode), "sync") || yk__all_failed(c, sync) ||
                yk__all_failed(c, other) || !yk__options_same(c, sync->run[0], other->run[0], paired))
                continue;
            yk_table_row(t, (int)other->run[0]);
            yk__put_options(c, t, other->run[0]);
            put_mode(c, other, servers, t);
            put_mode(c, servers ? sync : NULL, servers, t);
            put_results(c, t, kind->results, other, sync);
        }
}

static const yk__table_kind tables[] = {
    {fill_runs, RUNS, "runs", "Results",
     "Runs that differ only in the seed are one row: the mean, and the standard deviation of three or more.",
     ""},
    {fill_partners, BATCH, "batch", "Batch size",
     "Runs that differ only in the batch size (and the learning rate).", "batch"},
    {fill_partners, WORKERS, "workers", "Workers",
     "Speedup is relative to the examples per second of one worker in either mode, or else of the fewest "
     "workers of the same configuration, with the same number of processes or of workers per process. "
     "Efficiency is the speedup per worker.",
     "workers,processes"},
    {fill_modes, MODES, "modes", "Synchronous and asynchronous training",
     "Runs with the same numbers of workers and processes that differ only in the mode. A synchronous step "
     "uses a batch of every worker, an asynchronous step a batch of one worker: for the same examples, "
     "asynchronous training takes more steps.",
     "mode,servers"},
    {yk__fill_by_host, 0, "resources", "Resources by host and batch size",
     "Sums over the processes of a run on a host: of their means over the run, and of their peaks.",
     "batch,seed"},
    {yk__fill_by_host, 0, "traffic-between-hosts", "Traffic between hosts",
     "Messages in the whole run, without those of workers that joined.", "batch,seed"},
    {yk__fill_machines, 0, "machines", "Machines", NULL, ""},
};

enum { TABLES = sizeof tables / sizeof *tables };

static void find_monitor(yk_compare *c)
{
    bool same = true;
    for (size_t i = 0; i < c->n; i++) {
        const yk_metric_kind *monitor = c->facts[i].monitor;
        same &= !monitor || !c->monitor || monitor == c->monitor;
        c->monitor = monitor ? monitor : c->monitor;
    }
    c->monitor = same ? c->monitor : NULL;
}

yk_status yk_compare_make(const yk_run *runs, size_t n, yk_compare *out)
{
    yk_compare *c = out;
    *c = (yk_compare){.run = runs, .n = n};
    c->facts = yk_arena_alloc(&c->arena, n, sizeof *c->facts, "a comparison of runs");
    bool *failed = yk_arena_alloc(&c->arena, n, sizeof *failed, "a comparison of runs"), processes = false,
         per_process = false;
    for (size_t i = 0; failed && i < n; i++) {
        yk_facts_of(&runs[i], &c->facts[i]);
        failed[i] = c->facts[i].failed;
        c->epochs_differ |= fabs(c->facts[i].epochs - c->facts[0].epochs) > 0.005;
        processes |= c->facts[i].processes != c->facts[0].processes;
        per_process |=
            c->facts[i].workers * c->facts[0].processes != c->facts[0].workers * c->facts[i].processes;
    }
    c->mixed = processes && per_process;
    if (!c->arena.status)
        find_monitor(c);
    yk__find_varying(c);
    if (!c->arena.status)
        yk__find_target(c);
    yk__groups_make(c);
    yk__labels_make(c);
    yk_status st = c->arena.status;
    for (size_t k = 0; !st && k < TABLES + YK_RUN_TABLES; k++) {
        yk_table *t = &c->table[c->tables++];
        if (k < TABLES) {
            *t = (yk_table){.id = tables[k].id, .title = tables[k].title, .note = tables[k].note};
            tables[k].fill(c, &tables[k], t);
        } else {
            yk_run_table_make(c, -1, (yk_run_table)(k - TABLES), t);
        }
        yk_table_drop_empty_columns(t);
        yk_table_mark(t, failed);
        st = t->status ? t->status : c->arena.status;
        if (!st && !t->rows)
            yk_table_fini(&c->table[--c->tables]);
    }
    if (!st && n > 1)
        add_highlights(c);
    if (st)
        yk_compare_fini(c);
    return st;
}
