#include "report/compare.h"

#include "base/mem.h"
#include "base/number.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FACT(field) offsetof(yk_facts, field)

void yk_compare_fini(yk_compare *c)
{
    for (size_t g = 0; g < c->groups; g++)
        for (int k = 0; k < YK_ALIKE_KINDS; k++)
            free(c->group[g].alike[k]);
    free(c->group);
    free(c->members);
    for (size_t t = 0; t < c->tables; t++)
        yk_table_fini(&c->table[t]);
    *c = (yk_compare){0};
}

/* Columns for the options that vary, but for those named. */
typedef struct {
    const char *name[24];
    bool number[24];
    size_t n;
} option_columns;

static option_columns add_options(const yk_compare *c, yk_table *t, const char *const *except)
{
    option_columns o = {.n = 0};
    const char *names[24];
    size_t n = yk_compare_varying(c, names, 24);
    for (size_t k = 0; k < n; k++) {
        bool number = true;
        if (yk_is_listed(names[k], except))
            continue;
        for (size_t i = 0; i < c->n && number; i++) {
            char text[YK_OPTION_ROOM];
            double x;
            yk_option_text(c, i, names[k], text);
            number = !*text || !yk_number_real(text, -HUGE_VAL, HUGE_VAL, &x);
        }
        if (number)
            yk_table_column(t, names[k], YK_UNIT_SHORT, NULL);
        else
            yk_table_words(t, names[k], NULL);
        o.number[o.n] = number;
        o.name[o.n++] = names[k];
    }
    return o;
}

static void put_options(const yk_compare *c, yk_table *t, const option_columns *o, size_t run)
{
    for (size_t k = 0; k < o->n; k++) {
        char text[YK_OPTION_ROOM];
        double x = NAN;
        yk_option_text(c, run, o->name[k], text);
        if (o->number[k]) {
            yk_number_real(text, -HUGE_VAL, HUGE_VAL, &x);
            yk_table_number(t, x, NAN);
        } else
            yk_table_text(t, text);
    }
}

/* ---- the results, common to several tables ---- */

typedef struct {
    const char *title, *hint;
    yk_unit unit;
    size_t offset;
    int best;
} result;

enum { SPEED, LEARNT, USED, REST };

static const result results[4][5] = {
    {{"time", "of the whole run", YK_UNIT_SECONDS, FACT(seconds), -1},
     {"examples/s", "while training", YK_UNIT_COUNT, FACT(examples_per_second), 1}},
    {{"accuracy", "on the test data, at the end", YK_UNIT_SHARE, FACT(test_accuracy), 1},
     {"AUC", "area under the ROC curve, at the end", YK_UNIT_PLAIN, FACT(test_auc), 1},
     {"test loss", NULL, YK_UNIT_PLAIN, FACT(test_loss), -1}},
    {{"CPU", "cores busy on average, of all processes together", YK_UNIT_CORES, FACT(cpu), 0},
     {"memory", "resident at the peak, of all processes together", YK_UNIT_BYTES, FACT(memory_peak), 0},
     {"network", "bytes per second that the program itself sent and received", YK_UNIT_RATE, FACT(network),
      0},
     {"disk", "bytes per second read and written", YK_UNIT_RATE, FACT(disk), 0}},
    {{"train loss", NULL, YK_UNIT_PLAIN, FACT(train_loss), 0},
     {"steps made", "updates of the model", YK_UNIT_WHOLE, FACT(steps), 0}},
};

static void add_results(yk_table *t, int which)
{
    for (const result *r = results[which]; r->title; r++) {
        yk_table_column(t, r->title, r->unit, r->hint);
        if (t->columns)
            t->column[t->columns - 1].best = r->best;
    }
}

static void put_results(const yk_compare *c, yk_table *t, int which, const yk_config_group *g)
{
    for (const result *r = results[which]; r->title; r++) {
        double spread, mean = yk_group_mean(c, g, r->offset, &spread);
        yk_table_number(t, mean, spread);
    }
}

static void add_target(const yk_compare *c, yk_table *t, int which)
{
    if (!isfinite(c->target))
        return;
    yk_table_column(t, c->to_target[which], YK_UNIT_SECONDS, "time until a test showed this accuracy");
    t->column[t->columns - 1].best = which == 0 ? -1 : 0;
}

static void put_target(const yk_compare *c, yk_table *t, const yk_config_group *g)
{
    if (isfinite(c->target)) {
        double spread, mean = yk__group_reaches(c, g, &spread);
        yk_table_number(t, mean, spread);
    }
}

/* The best accuracy that three quarters of the runs reach, rounded down to half a point. */
static double find_target(const yk_compare *c)
{
    double best[512];
    size_t n = 0;
    for (size_t i = 0; i < c->n && n < 512; i++) {
        double top = NAN;
        const char *data = c->facts[i].data, *other = c->facts[0].data;
        if (strcmp(data ? data : "", other ? other : ""))
            return NAN; /* an accuracy on one set says nothing about another */
        for (size_t k = 0; k < c->run[i].eval.n; k++)
            if (!(top >= c->run[i].eval.row[k].test_accuracy))
                top = c->run[i].eval.row[k].test_accuracy;
        if (!isfinite(top))
            continue;
        size_t at = n++;
        for (; at > 0 && best[at - 1] > top; at--)
            best[at] = best[at - 1];
        best[at] = top;
    }
    return n < 2 ? NAN : floor(best[n / 4] * 200.0 + 1e-9) / 200.0;
}

/* ---- the tables ---- */

static void table_of_runs(const yk_compare *c, yk_table *t)
{
    static const char *const except[] = {NULL};
    bool epochs = false;
    for (size_t i = 1; i < c->n; i++)
        epochs |= fabs(c->facts[i].epochs - c->facts[0].epochs) > 0.005;
    *t = (yk_table){.id = "runs", .title = "All runs"};
    yk_table_words(t, "run", NULL);
    option_columns o = add_options(c, t, except);
    yk_table_words(t, "ended", "by a failure, a signal, or without a word");
    add_results(t, SPEED);
    add_results(t, LEARNT);
    add_target(c, t, 0);
    yk_table_column(t, "no better after", YK_UNIT_SHORT,
                    "epoch after which the test results did not improve");
    add_results(t, USED);
    yk_table_words(t, "held back by", NULL);
    add_results(t, REST);
    yk_table_column(t, "epochs made", YK_UNIT_SHORT, "passes over the training data");
    for (size_t i = 0; i < c->n; i++) {
        const yk_facts *f = &c->facts[i];
        yk_config_group one = {.run = &i, .n = 1};
        char held[64] = "";
        if (f->bottleneck && f->share > 0.0)
            snprintf(held, sizeof held, "%.40s %.0f %%", f->bottleneck, 100.0 * f->share);
        else if (f->bottleneck)
            snprintf(held, sizeof held, "%.40s", f->bottleneck);
        yk_table_row(t, (int)i);
        yk_table_text(t, c->run[i].name);
        put_options(c, t, &o, i);
        yk_table_text(t, f->failed ? "failed" : f->interrupted ? "stopped" : f->ended ? "" : "no summary");
        put_results(c, t, SPEED, &one);
        put_results(c, t, LEARNT, &one);
        put_target(c, t, &one);
        yk_table_number(t, f->flat.flat ? round(f->flat.epoch * 100.0) / 100.0 : NAN, NAN);
        put_results(c, t, USED, &one);
        yk_table_text(t, held);
        put_results(c, t, REST, &one);
        yk_table_number(t, epochs ? round(f->epochs * 100.0) / 100.0 : NAN, NAN);
    }
}

/* By what is alike (in the order of first appearance, so by group number of the first), then by a fact. */
typedef struct {
    size_t class, group;
    double by;
} place;

static int by_place(const void *a, const void *b)
{
    const place *p = a, *q = b;
    if (p->class != q->class)
        return p->class < q->class ? -1 : 1;
    return p->by < q->by ? -1 : p->by > q->by ? 1 : p->group < q->group ? -1 : p->group > q->group;
}

/* The groups that have a partner which is alike but for `paired` and differs in the fact, sorted by what is alike but for
 * `which`, then by the fact. Returns how many. */
static size_t partners(const yk_compare *c, int which, int paired, size_t offset, place *out)
{
    size_t n = 0;
    for (size_t g = 0; g < c->groups; g++) {
        double mine = yk_double_at(&c->facts[c->group[g].run[0]], offset);
        size_t class = g;
        bool has = false;
        for (size_t k = 0; k < c->groups; k++) {
            if (!strcmp(c->group[g].alike[which], c->group[k].alike[which]))
                class = k < class ? k : class;
            has |= !strcmp(c->group[g].alike[paired], c->group[k].alike[paired]) &&
                   yk_double_at(&c->facts[c->group[k].run[0]], offset) != mine;
        }
        if (has && isfinite(mine))
            out[n++] = (place){class, g, mine};
    }
    qsort(out, n, sizeof *out, by_place);
    return n;
}

static void table_of_batches(const yk_compare *c, yk_table *t, place *at)
{
    static const char *const except[] = {"batch", "seed", "epochs", "steps", NULL};
    *t = (yk_table){.id = "batch",
                    .title = "Batch size",
                    .note = "Runs that are alike but for the batch size (and the learning rate)."};
    size_t n = partners(c, YK_BUT_BATCH, YK_BUT_BATCH, FACT(batch), at);
    if (!n)
        return;
    option_columns o = add_options(c, t, except);
    t->lead = o.n;
    yk_table_column(t, "batch", YK_UNIT_WHOLE, "examples per worker and step");
    yk_table_column(t, "global batch", YK_UNIT_WHOLE, "examples per step of all workers together");
    yk_table_column(t, "repeats", YK_UNIT_WHOLE, "runs that differ in the seed only");
    add_results(t, SPEED);
    add_results(t, LEARNT);
    add_target(c, t, 0);
    add_results(t, USED);
    add_results(t, REST);
    for (size_t i = 0; i < n; i++) {
        const yk_config_group *g = &c->group[at[i].group];
        const yk_facts *f = &c->facts[g->run[0]];
        yk_table_row(t, (int)g->run[0]);
        put_options(c, t, &o, g->run[0]);
        yk_table_number(t, f->batch, NAN);
        yk_table_number(t, f->global_batch, NAN);
        yk_table_number(t, (double)g->n, NAN);
        put_results(c, t, SPEED, g);
        put_results(c, t, LEARNT, g);
        put_target(c, t, g);
        put_results(c, t, USED, g);
        put_results(c, t, REST, g);
    }
}

static void table_of_workers(const yk_compare *c, yk_table *t, place *at)
{
    static const char *const except[] = {"workers", "ranks", "seed", "epochs", "steps", NULL};
    *t = (yk_table){
        .id = "workers",
        .title = "Workers",
        .note = "Speed-up is in examples per second, against one worker in either mode, or else against "
                "the fewest workers of the same kind. Efficiency is speed-up per worker."};
    size_t n = partners(c, YK_BUT_WORKERS, YK_BUT_BOTH, FACT(workers), at);
    if (!n)
        return;
    option_columns o = add_options(c, t, except);
    t->lead = o.n;
    yk_table_column(t, "workers", YK_UNIT_WHOLE, NULL);
    yk_table_column(t, "global batch", YK_UNIT_WHOLE, "examples per step of all workers together");
    yk_table_column(t, "repeats", YK_UNIT_WHOLE, "runs that differ in the seed only");
    add_results(t, SPEED);
    yk_table_column(t, "speed-up", YK_UNIT_TIMES, NULL);
    yk_table_column(t, "efficiency", YK_UNIT_SHARE, NULL);
    add_results(t, LEARNT);
    add_target(c, t, 0);
    add_results(t, USED);
    double base = NAN, base_workers = NAN;
    for (size_t i = 0; i < n; i++) {
        const yk_config_group *g = &c->group[at[i].group];
        const yk_facts *f = &c->facts[g->run[0]];
        double rate = yk_group_mean(c, g, FACT(examples_per_second), NULL);
        if (i == 0 || at[i].class != at[i - 1].class) {
            base = rate, base_workers = f->workers;
            for (size_t k = 0; base_workers > 1.0 && k < c->groups; k++)
                if (c->facts[c->group[k].run[0]].workers == 1.0 &&
                    !strcmp(c->group[k].alike[YK_BUT_BOTH], g->alike[YK_BUT_BOTH])) {
                    base = yk_group_mean(c, &c->group[k], FACT(examples_per_second), NULL);
                    base_workers = 1.0;
                }
        }
        double times = rate / base;
        yk_table_row(t, (int)g->run[0]);
        put_options(c, t, &o, g->run[0]);
        yk_table_number(t, f->workers, NAN);
        yk_table_number(t, f->global_batch, NAN);
        yk_table_number(t, (double)g->n, NAN);
        put_results(c, t, SPEED, g);
        yk_table_number(t, times, NAN);
        yk_table_number(t, times * base_workers / f->workers, NAN);
        put_results(c, t, LEARNT, g);
        put_target(c, t, g);
        put_results(c, t, USED, g);
    }
}

static bool is_sync(const yk_compare *c, const yk_config_group *g)
{
    char mode[32];
    yk_mode_text(&c->facts[g->run[0]], mode);
    return !strcmp(mode, "sync");
}

static void table_of_modes(const yk_compare *c, yk_table *t)
{
    static const char *const except[] = {"mode", "seed", "epochs", "steps", NULL};
    static const struct {
        const char *sync, *other;
        yk_unit unit;
        size_t offset;
    } pair[] = {{"time: sync", "time: other", YK_UNIT_SECONDS, FACT(seconds)},
                {"examples/s: sync", "examples/s: other", YK_UNIT_COUNT, FACT(examples_per_second)},
                {"accuracy: sync", "accuracy: other", YK_UNIT_SHARE, FACT(test_accuracy)},
                {"AUC: sync", "AUC: other", YK_UNIT_PLAIN, FACT(test_auc)},
                {"test loss: sync", "test loss: other", YK_UNIT_PLAIN, FACT(test_loss)}};
    *t = (yk_table){
        .id = "modes",
        .title = "Synchronous against asynchronous",
        .note = "Runs that are alike but for the mode. A synchronous step uses the batches of all workers, "
                "an asynchronous one that of one worker: at equal examples it makes more of them."};
    option_columns o = add_options(c, t, except);
    yk_table_words(t, "other", "the mode that sync is compared with");
    for (size_t p = 0; p < 5; p++) {
        yk_table_column(t, pair[p].sync, pair[p].unit, NULL);
        yk_table_column(t, pair[p].other, pair[p].unit, NULL);
        if (pair[p].offset == FACT(examples_per_second))
            yk_table_column(t, "faster", YK_UNIT_TIMES, "examples per second, against sync");
        if (pair[p].offset == FACT(test_accuracy))
            yk_table_column(t, "points", YK_UNIT_POINTS, "difference of the accuracies in percentage points");
    }
    add_target(c, t, 1);
    add_target(c, t, 2);
    yk_table_column(t, "staleness", YK_UNIT_CORES,
                    "mean number of updates by others between reading and writing");
    for (size_t g = 0; g < c->groups; g++)
        for (size_t k = 0; is_sync(c, &c->group[g]) && k < c->groups; k++) {
            const yk_config_group *sync = &c->group[g], *other = &c->group[k];
            if (is_sync(c, other) || strcmp(sync->alike[YK_BUT_MODE], other->alike[YK_BUT_MODE]))
                continue;
            char mode[32];
            yk_mode_text(&c->facts[other->run[0]], mode);
            yk_table_row(t, (int)other->run[0]);
            put_options(c, t, &o, other->run[0]);
            yk_table_text(t, mode);
            for (size_t p = 0; p < 5; p++) {
                double a_spread, b_spread;
                double a = yk_group_mean(c, sync, pair[p].offset, &a_spread);
                double b = yk_group_mean(c, other, pair[p].offset, &b_spread);
                yk_table_number(t, a, a_spread);
                yk_table_number(t, b, b_spread);
                if (pair[p].offset == FACT(examples_per_second))
                    yk_table_number(t, b / a, NAN);
                if (pair[p].offset == FACT(test_accuracy))
                    yk_table_number(t, b - a, NAN);
            }
            put_target(c, t, sync);
            put_target(c, t, other);
            yk_table_number(t, yk_group_mean(c, other, FACT(stale_mean), NULL), NAN);
        }
}

static void keep(yk_compare *c, yk_table *t, size_t least)
{
    if (t->rows < least && !t->status) {
        yk_table_fini(t);
        return;
    }
    bool *failed = calloc(c->n + 1, sizeof *failed);
    for (size_t i = 0; failed && i < c->n; i++)
        failed[i] = c->facts[i].failed;
    yk_table_squeeze(t);
    if (failed)
        yk_table_mark(t, failed);
    else
        t->status = yk_fail_memory(c->n, "a table");
    free(failed);
    c->tables++;
}

/* A column of repeats says something only where there are some. */
static void drop_repeats(yk_table *t)
{
    size_t at = yk_table_find(t, "repeats");
    bool any = false;
    for (size_t r = 0; at < t->columns && r < t->rows; r++)
        any |= t->cell[r * t->columns + at].number > 1.0;
    for (size_t r = 0; at < t->columns && !any && r < t->rows; r++)
        t->cell[r * t->columns + at].number = NAN;
}

yk_status yk_compare_make(const yk_run *runs, const yk_facts *facts, size_t n, yk_compare *out)
{
    yk_compare *c = out;
    *c = (yk_compare){.run = runs, .facts = facts, .n = n, .target = NAN};
    yk_status st = yk__groups_make(c);
    place *at = calloc(n ? n : 1, sizeof *at);
    if (!st && !at)
        st = yk_fail_memory(n * sizeof *at, "a comparison of runs");
    if (!st) {
        static const char *const whose[] = {"", ": sync", ": other"};
        c->target = find_target(c);
        for (int k = 0; k < 3; k++)
            snprintf(c->to_target[k], sizeof c->to_target[k], "to %.4g %%%s", c->target * 100.0, whose[k]);
        table_of_runs(c, &c->table[c->tables]);
        keep(c, &c->table[c->tables], 0);
        table_of_batches(c, &c->table[c->tables], at);
        drop_repeats(&c->table[c->tables]);
        keep(c, &c->table[c->tables], 2);
        table_of_workers(c, &c->table[c->tables], at);
        drop_repeats(&c->table[c->tables]);
        keep(c, &c->table[c->tables], 2);
        table_of_modes(c, &c->table[c->tables]);
        keep(c, &c->table[c->tables], 1);
        for (size_t t = 0; !st && t < c->tables; t++)
            st = c->table[t].status;
    }
    if (!st && n > 1)
        yk__compare_say(c);
    free(at);
    if (st)
        yk_compare_fini(c);
    return st;
}
