/* Groups of runs with the same options, and the options in which runs differ. */
#include "report/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *key_of(const yk_compare *c, size_t run, int which)
{
    /* people often change the learning rate together with the batch */
    static const char *const except[YK_KEYS][5] = {{NULL},
                                                   {"batch", "lr", NULL},
                                                   {"workers", "processes", "lr", NULL},
                                                   {"mode", "servers", NULL},
                                                   {"workers", "processes", "lr", "mode", NULL}};
    return yk_run_key(&c->run[run], &c->facts[run], except[which]);
}

yk_status yk__groups_make(yk_compare *c)
{
    size_t *of = c->group_of = calloc(c->n, sizeof *of);
    c->group = calloc(c->n, sizeof *c->group);
    c->members = calloc(c->n, sizeof *c->members);
    yk_status st =
        of && c->group && c->members ? YK_OK : yk_fail_memory(c->n * sizeof *c->group, "groups of runs");
    for (size_t i = 0; !st && i < c->n; i++) {
        char *key = key_of(c, i, YK_KEY_ALL);
        size_t g = 0;
        if (!key) {
            st = YK_ESYSTEM;
            break;
        }
        while (g < c->groups && strcmp(c->group[g].key[YK_KEY_ALL], key))
            g++;
        of[i] = g;
        c->group[g].n++;
        if (g < c->groups) {
            free(key);
            continue;
        }
        c->groups++;
        c->group[g].key[YK_KEY_ALL] = key;
        for (int k = 1; !st && k < YK_KEYS; k++)
            if (!(c->group[g].key[k] = key_of(c, i, k)))
                st = YK_ESYSTEM;
    }
    size_t at = 0;
    for (size_t g = 0; !st && g < c->groups; g++) {
        c->group[g].run = c->members + at;
        for (size_t i = 0; i < c->n; i++)
            if (of[i] == g)
                c->members[at++] = i;
    }
    return st;
}

bool yk__all_failed(const yk_compare *c, const yk_config_group *g)
{
    bool failed = true;
    for (size_t k = 0; k < g->n; k++)
        failed &= c->facts[g->run[k]].failed;
    return failed;
}

/* The fact of the i-th run of a group; NAN: it does not count. */
static double fact_of(const yk_compare *c, const yk_config_group *g, size_t i, size_t offset)
{
    if (c->facts[g->run[i]].failed && !yk__all_failed(c, g))
        return NAN;
    return offset == YK_TO_TARGET ? yk_run_seconds_to(&c->run[g->run[i]], c->target)
                                  : yk_double_at(&c->facts[g->run[i]], offset);
}

double yk_group_mean(const yk_compare *c, const yk_config_group *g, size_t offset, double *spread_out)
{
    yk_moments m = {0};
    for (size_t i = 0; i < g->n; i++)
        yk_moments_add(&m, fact_of(c, g, i, offset));
    if (spread_out)
        *spread_out = yk_moments_deviation(&m, YK_MIN_REPEATS);
    return yk_moments_mean(&m);
}

double yk__find_target(const yk_compare *c)
{
    double best[512];
    size_t n = 0;
    if (yk_is_listed("data", c->varying))
        return NAN;
    for (size_t i = 0; i < c->n && n < 512; i++) {
        double top = NAN;
        for (size_t k = 0; k < c->run[i].eval.n; k++)
            top = fmax(top, c->run[i].eval.row[k].test_accuracy);
        if (!isfinite(top))
            continue;
        size_t at = n++;
        for (; at > 0 && best[at - 1] > top; at--)
            best[at] = best[at - 1];
        best[at] = top;
    }
    return n < 2 ? NAN : floor(best[n / 4] * 200.0 + 1e-9) / 200.0;
}

bool yk__shows_names(const yk_compare *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (strlen(c->run[i].name) > 20)
            return false;
    return c->groups == c->n;
}

void yk__group_status(const yk_compare *c, const yk_config_group *g, char *out)
{
    size_t bad = 0;
    const char *what = "";
    for (size_t i = 0; i < g->n; i++) {
        const yk_facts *f = &c->facts[g->run[i]];
        const char *is = f->failed ? "failed" : f->interrupted ? "interrupted" : f->ended ? "" : "no summary";
        bad += *is != 0;
        what = *is ? is : what;
    }
    if (bad && g->n > 1)
        snprintf(out, 64, "%zu of %zu %s", bad, g->n, what);
    else
        snprintf(out, 64, "%s", what);
}

/* ---- options ---- */

void yk_option_text(const yk_compare *c, size_t i, const char *name, char *out)
{
    if (yk_facts_option(&c->facts[i], name, 6, out))
        return;
    const char *s = yk_run_get(&c->run[i], name);
    snprintf(out, YK_OPTION_SIZE, "%s", s ? s : "");
}

static bool varies(const yk_compare *c, const char *name)
{
    char first[YK_OPTION_SIZE], other[YK_OPTION_SIZE];
    yk_option_text(c, 0, name, first);
    for (size_t i = 1; i < c->n; i++) {
        yk_option_text(c, i, name, other);
        if (strcmp(first, other))
            return true;
    }
    return false;
}

void yk__find_varying(yk_compare *c)
{
    const size_t max = sizeof c->varying / sizeof *c->varying - 1;
    size_t n = 0;
    for (const char *const *name = yk_usual_options; *name; name++)
        if (varies(c, *name))
            c->varying[n++] = *name;
    for (size_t i = 0; i < c->n; i++)
        for (size_t o = 0; o < c->run[i].options && n < max; o++) {
            const char *name = c->run[i].option[o].name;
            if (yk__changes_results(name) && !yk_is_listed(name, yk_usual_options) &&
                !yk_is_listed(name, c->varying) && varies(c, name))
                c->varying[n++] = name;
        }
}
