/* What can be said of several runs in a sentence each. */
#include "report/compare.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FACT(field) offsetof(yk_facts, field)

static size_t best_run(const yk_compare *c, size_t offset, double sign)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < c->n; i++) {
        double x = sign * yk_double_at(&c->facts[i], offset);
        if (isfinite(x) && !c->facts[i].failed &&
            (best == SIZE_MAX || x > sign * yk_double_at(&c->facts[best], offset)))
            best = i;
    }
    return best;
}

static void say(yk_compare *c, const char *title, const char *value, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void say(yk_compare *c, const char *title, const char *value, const char *format, ...)
{
    if (c->says == sizeof c->say / sizeof *c->say)
        return;
    va_list list;
    va_start(list, format);
    c->say[c->says].title = title;
    snprintf(c->say[c->says].value, sizeof c->say[0].value, "%s", value);
    vsnprintf(c->say[c->says++].text, sizeof c->say[0].text, format, list);
    va_end(list);
}

static void say_best(yk_compare *c)
{
    char a[YK_UNIT_ROOM], b[YK_UNIT_ROOM];
    bool auc = false;
    for (size_t i = 0; i < c->n; i++)
        auc |= isfinite(c->facts[i].test_auc);
    size_t offset = auc ? FACT(test_auc) : FACT(test_accuracy);
    size_t top = best_run(c, offset, 1.0), low = best_run(c, offset, -1.0);
    bool same = true;
    for (size_t i = 1; i < c->n; i++)
        same &= !strcmp(c->facts[i].data ? c->facts[i].data : "", c->facts[0].data ? c->facts[0].data : "");
    if (same && top != SIZE_MAX && top != low) {
        yk_unit_text(auc ? YK_UNIT_PLAIN : YK_UNIT_SHARE, yk_double_at(&c->facts[top], offset), a);
        yk_unit_text(auc ? YK_UNIT_PLAIN : YK_UNIT_SHARE, yk_double_at(&c->facts[low], offset), b);
        say(c, auc ? "Highest test AUC" : "Highest test accuracy", a, "%.100s; lowest %s", c->run[top].name,
            b);
    }
    size_t first = SIZE_MAX, never = 0;
    double soonest = INFINITY;
    for (size_t i = 0; isfinite(c->target) && i < c->n; i++) {
        double s = c->facts[i].failed ? INFINITY : yk_run_reaches(&c->run[i], c->target);
        never += !isfinite(s);
        if (s < soonest)
            soonest = s, first = i;
    }
    if (first != SIZE_MAX) {
        char not_all[64] = "";
        if (never)
            snprintf(not_all, sizeof not_all, "; %zu of %zu runs never got there", never, c->n);
        snprintf(c->soonest, sizeof c->soonest, "Soonest at %.4g %%", c->target * 100.0);
        yk_unit_text(YK_UNIT_SECONDS, soonest, a);
        say(c, c->soonest, a, "%.100s%s", c->run[first].name, not_all);
    }
    size_t fast = best_run(c, FACT(examples_per_second), 1.0),
           slow = best_run(c, FACT(examples_per_second), -1.0);
    if (fast != SIZE_MAX && fast != slow) {
        yk_unit_text(YK_UNIT_COUNT, c->facts[fast].examples_per_second, a);
        yk_unit_text(YK_UNIT_TIMES, c->facts[fast].examples_per_second / c->facts[slow].examples_per_second,
                     b);
        say(c, "Most examples/s", a, "%.100s; %s the slowest", c->run[fast].name, b);
    }
}

static double number(const yk_table *t, size_t row, size_t column)
{
    return column < t->columns ? t->cell[row * t->columns + column].number : NAN;
}

static void say_workers(yk_compare *c, const yk_table *t)
{
    size_t times = yk_table_find(t, "speed-up"), part = yk_table_find(t, "efficiency"), best = SIZE_MAX;
    char a[YK_UNIT_ROOM];
    for (size_t r = 0; r < t->rows; r++)
        if (isfinite(number(t, r, times)) &&
            (best == SIZE_MAX || number(t, r, times) > number(t, best, times)))
            best = r;
    if (best == SIZE_MAX)
        return;
    yk_unit_text(YK_UNIT_TIMES, number(t, best, times), a);
    if (number(t, best, times) > 1.0)
        say(c, "Best speed-up", a, "%.0f workers, efficiency %.0f %%; %.100s", c->facts[t->run[best]].workers,
            100.0 * number(t, best, part), c->run[t->run[best]].name);
    else
        say(c, "Best speed-up", "none", "no number of workers was faster than the fewest");
}

static void say_modes(yk_compare *c, const yk_table *t)
{
    size_t times = yk_table_find(t, "faster"), points = yk_table_find(t, "points");
    double logs = 0.0, n = 0.0, sum = 0.0, m = 0.0;
    char a[YK_UNIT_ROOM], learnt[64] = "";
    for (size_t r = 0; r < t->rows; r++) {
        if (number(t, r, times) > 0.0)
            logs += log(number(t, r, times)), n++;
        if (isfinite(number(t, r, points)))
            sum += number(t, r, points), m++;
    }
    if (n == 0.0)
        return;
    if (m > 0.0)
        snprintf(learnt, sizeof learnt, ", %+.2f points of accuracy", 100.0 * sum / m);
    yk_unit_text(YK_UNIT_TIMES, exp(logs / n), a);
    say(c, "Async against sync", a, "as many examples/s%s; mean of %.0f %s", learnt, n,
        n == 1.0 ? "pair" : "pairs");
}

void yk__compare_say(yk_compare *c)
{
    say_best(c);
    for (size_t i = 0; i < c->tables; i++)
        if (!strcmp(c->table[i].id, "workers"))
            say_workers(c, &c->table[i]);
        else if (!strcmp(c->table[i].id, "modes"))
            say_modes(c, &c->table[i]);
}
