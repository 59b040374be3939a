/* The main results of several runs. */
#include "report/compare.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#define FACT(field) offsetof(yk_facts, field)

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

static void add_best(yk_compare *c)
{
    char a[YK_UNIT_SIZE], b[YK_UNIT_SIZE];
    bool auc = false;
    for (size_t i = 0; i < c->n; i++)
        auc |= isfinite(c->facts[i].test_auc);
    size_t offset = auc ? FACT(test_auc) : FACT(test_accuracy);
    size_t top = best_group(c, offset, 1.0), low = best_group(c, offset, -1.0);
    if (!yk_is_listed("data", c->varying) && top != SIZE_MAX && top != low) {
        yk_unit_text(auc ? YK_UNIT_PLAIN : YK_UNIT_PERCENT_EXACT,
                     yk_group_mean(c, &c->group[top], offset, NULL), a);
        yk_unit_text(auc ? YK_UNIT_PLAIN : YK_UNIT_PERCENT_EXACT,
                     yk_group_mean(c, &c->group[low], offset, NULL), b);
        add(c, auc ? "Highest test AUC" : "Highest test accuracy", a, "%.100s; lowest %s",
            c->group[top].label, b);
    }
    size_t first = SIZE_MAX, never = 0;
    double soonest = INFINITY;
    for (size_t i = 0; isfinite(c->target) && i < c->n; i++) {
        double s = c->facts[i].failed ? INFINITY : yk_run_seconds_to(&c->run[i], c->target);
        never += !isfinite(s);
        if (s < soonest)
            soonest = s, first = i;
    }
    if (first != SIZE_MAX) {
        char title[32], others[64] = "";
        if (never)
            snprintf(others, sizeof others, "; %zu of %zu runs did not reach it", never, c->n);
        snprintf(title, sizeof title, "Fastest to %.4g %%", c->target * 100.0);
        yk_unit_text(YK_UNIT_SECONDS, soonest, a);
        add(c, title, a, "%.100s%s", c->label[first], others);
    }
    const size_t speed = FACT(examples_per_second), fast = best_group(c, speed, 1.0),
                 slow = best_group(c, speed, -1.0);
    if (fast != SIZE_MAX && fast != slow) {
        const double max = yk_group_mean(c, &c->group[fast], speed, NULL);
        yk_unit_text(YK_UNIT_COUNT, max, a);
        yk_unit_text(YK_UNIT_TIMES, max / yk_group_mean(c, &c->group[slow], speed, NULL), b);
        add(c, "Most examples/s", a, "%.100s; %s the slowest run", c->group[fast].label, b);
    }
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
    yk_unit_text(YK_UNIT_TIMES, number(t, best, times), a);
    if (number(t, best, times) > 1.0)
        add(c, "Best speedup", a, "%.0f workers, efficiency %.0f %%; %.100s", c->facts[t->run[best]].workers,
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
    yk_unit_text(YK_UNIT_TIMES, exp(logs / n), a);
    add(c, "Async compared with sync", a, "the examples/s%s; mean of %.0f %s of runs with several workers",
        accuracy, n, n == 1.0 ? "pair" : "pairs");
}

void yk__compare_highlights(yk_compare *c)
{
    add_best(c);
    const yk_table *workers = yk_compare_table(c, "workers"), *modes = yk_compare_table(c, "modes");
    if (workers)
        add_workers(c, workers);
    if (modes)
        add_modes(c, modes);
}
