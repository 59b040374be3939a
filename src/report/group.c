/* Groups of runs with the same options, and the options in which runs differ; short names for runs and groups: the options in
 * which they differ, and nothing else; and which of them share a plot. */
#include "report/compare.h"

#include "base/number.h"
#include "config/option.h"
#include <stdio.h>
#include <stdlib.h>

void yk__groups_make(yk_compare *c)
{
    size_t at = 0, *of = c->group_of = yk_arena_alloc(&c->arena, c->n, sizeof *of, "groups of runs");
    c->group = yk_arena_alloc(&c->arena, c->n, sizeof *c->group, "groups of runs");
    c->members = yk_arena_alloc(&c->arena, c->n, sizeof *c->members, "groups of runs");
    for (size_t i = 0; !c->arena.status && i < c->n; i++) {
        while (of[i] < c->groups && !yk__options_same(c, c->members[of[i]], i, c->identity))
            of[i]++;
        if (of[i] == c->groups)
            c->members[c->groups++] = i; /* for now, the first run of each group */
        c->group[of[i]].n++;
    }
    for (size_t g = 0; g < c->groups; g++) {
        c->group[g].run = c->members + at;
        for (size_t i = 0; i < c->n; i++)
            if (of[i] == g)
                c->members[at++] = i;
    }
}

bool yk__all_failed(const yk_compare *c, const yk_config_group *g)
{
    bool failed = true;
    for (size_t k = 0; k < g->n; k++)
        failed &= c->facts[g->run[k]].failed;
    return failed;
}

double yk_group_mean(const yk_compare *c, const yk_config_group *g, size_t offset, double *spread_out)
{
    const bool failed = yk__all_failed(c, g);
    yk_moments m = {0};
    for (size_t i = 0; i < g->n; i++)
        if (failed || !c->facts[g->run[i]].failed)
            yk_moments_add(&m, yk_double_at(&c->facts[g->run[i]], offset));
    if (spread_out)
        *spread_out = yk_moments_deviation(&m, YK_MIN_REPEATS);
    return yk_moments_mean(&m);
}

void yk__find_target(yk_compare *c)
{
    double best[512];
    size_t n = 0;
    c->target = NAN;
    if (yk_is_listed("data", c->varying))
        return;
    for (size_t i = 0; i < c->n && n < 512; i++) {
        double top = NAN;
        for (size_t k = 0; !c->facts[i].failed && k < c->run[i].eval.n; k++)
            top = fmax(top, c->run[i].eval.row[k].test_accuracy);
        if (!isfinite(top))
            continue;
        size_t at = n++;
        for (; at > 0 && best[at - 1] > top; at--)
            best[at] = best[at - 1];
        best[at] = top;
    }
    if (n < 2)
        return;
    c->target = floor(best[n / 4] * 200.0 + 1e-9) / 200.0;
    for (size_t i = 0; i < c->n; i++)
        for (size_t k = c->run[i].eval.n; k-- > 0;)
            if (c->run[i].eval.row[k].test_accuracy >= c->target)
                c->facts[i].to_target = c->run[i].eval.row[k].seconds;
}

bool yk__shows_names(const yk_compare *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (strlen(c->run[i].name) > 20)
            return false;
    return c->groups == c->n;
}

const char *yk__group_status(const yk_compare *c, const yk_config_group *g, char *out)
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
    return out;
}

/* ---- options ---- */

static void mode_text(const yk_facts *f, char *out)
{
    const bool sync = !strcmp(f->mode, "sync") || f->staleness == 0.0;
    if (f->staleness_by_group)
        snprintf(out, YK_OPTION_SIZE, "%s stale %s", f->mode, f->staleness_by_group);
    else if (!sync && f->staleness > 0.0)
        snprintf(out, YK_OPTION_SIZE, "stale %.0f", f->staleness);
    else
        snprintf(out, YK_OPTION_SIZE, "%s", sync ? "sync" : f->mode);
}

static void scaling_text(const yk_facts *f, char *out)
{
    const double each = f->workers / f->processes;
    if (f->processes == 1.0)
        snprintf(out, YK_OPTION_SIZE, "threads of 1 process");
    else
        snprintf(out, YK_OPTION_SIZE, "%.4g worker%s per process", each, each == 1.0 ? "" : "s");
}

const char *yk_option_text(const yk_compare *c, size_t i, const char *name, char *out)
{
    const yk_facts *f = &c->facts[i];
    const char *set = yk_run_get(&c->run[i], name);
    const struct {
        const char *name, *text;
        double number;
    } known[] = {{"model", f->model, NAN},
                 {"data", f->data, NAN},
                 {"optimizer", f->optimizer, NAN},
                 {"workers", NULL, f->workers},
                 {"processes", NULL, f->processes},
                 {"servers", NULL, f->servers},
                 {"threads", NULL, f->threads},
                 {"batch", NULL, f->batch},
                 {"lr", NULL, f->lr},
                 {"seed", NULL, f->seed}};
    enum { KNOWN = sizeof known / sizeof *known };
    size_t k = 0;
    while (k < KNOWN && strcmp(name, known[k].name))
        k++;
    const bool number = k < KNOWN && !known[k].text && !(set && strchr(set, '=')); /* '=': values by group */
    *out = 0;
    if (!strcmp(name, "mode"))
        mode_text(f, out);
    else if (!strcmp(name, "scaling"))
        scaling_text(f, out);
    else if (!number)
        snprintf(out, YK_OPTION_SIZE, "%s", k < KNOWN && known[k].text ? known[k].text : set ? set : "");
    else if (isfinite(known[k].number))
        snprintf(out, YK_OPTION_SIZE, "%.6g", known[k].number);
    return out;
}

/* Finds the values of option k; returns whether they differ. text: [n], overwritten. */
static bool find_values(yk_compare *c, size_t k, const char *name, char (*text)[YK_OPTION_SIZE])
{
    bool differ = false, words = false;
    double x;
    c->varying[k] = name;
    for (size_t i = 0; i < c->n; i++) {
        size_t first = 0;
        yk_option_text(c, i, name, text[i]);
        while (strcmp(text[first], text[i]))
            first++;
        c->value[i][k] = first;
        differ |= first > 0;
        words |= *text[i] && yk_number_real(text[i], -HUGE_VAL, HUGE_VAL, &x);
    }
    c->words = (c->words & ~((yk_option_set)1 << k)) | (yk_option_set)words << k;
    return differ;
}

/* Whether runs that differ in this option are different configurations. Unknown options (of other versions) count. Options
 * that determine the mode do not: it is an option itself. */
static bool changes_results(const char *option)
{
    const yk_option *o = yk_option_find(option);
    return !o || (o->flags & (YK_OPT_CHANGES_RESULTS | YK_OPT_SETS_MODE)) == YK_OPT_CHANGES_RESULTS;
}

/* Whether runs that differ only in this option are repeats. */
static bool varies_in_repeats(const char *option)
{
    const yk_option *o = yk_option_find(option);
    return o && o->flags & YK_OPT_VARIES_IN_REPEATS;
}

void yk__find_varying(yk_compare *c)
{
    static const char *const usual[] = {"model",  "data",      "mode",    "servers",   "workers",
                                        "batch",  "processes", "threads", "optimizer", "lr",
                                        "epochs", "steps",     "seed",    NULL};
    char(*text)[YK_OPTION_SIZE] = yk_arena_alloc(&c->arena, c->n, sizeof *text, "the options of runs");
    const char *name;
    json_t *value;
    c->value = yk_arena_alloc(&c->arena, c->n, sizeof *c->value, "the options of runs");
    if (c->arena.status)
        return;
    for (size_t k = 0; usual[k]; k++)
        c->options += find_values(c, c->options, usual[k], text);
    for (size_t i = 0; i < c->n; i++)
        json_object_foreach(c->run[i].options, name, value)
        {
            const bool seen = i && yk_run_get(&c->run[0], name);
            c->varying[c->options] = NULL;
            if (!seen && c->options < YK_MAX_VARYING && changes_results(name) && !yk_is_listed(name, usual) &&
                !yk_is_listed(name, c->varying))
                c->options += find_values(c, c->options, name, text);
        }
    c->varying[c->options] = NULL;
    (void)find_values(c, YK_MAX_VARYING, "scaling", text);
    for (size_t k = 0; k < c->options; k++)
        c->identity |= (yk_option_set)!varies_in_repeats(c->varying[k]) << k;
}

yk_option_set yk__options_in(const yk_compare *c, const char *list)
{
    yk_option_set found = 0;
    for (size_t k = 0; k < c->options; k++)
        found |= (yk_option_set)yk_list_has(list, c->varying[k]) << k;
    return found & c->identity;
}

yk_option_set yk__options_except(const yk_compare *c, const char *list)
{
    return c->identity & ~yk__options_in(c, list);
}

bool yk__options_same(const yk_compare *c, size_t a, size_t b, yk_option_set which)
{
    for (size_t k = 0; which >> k; k++)
        if (which >> k & 1 && c->value[a][k] != c->value[b][k])
            return false;
    return true;
}

void yk__option_phrase(const char *name, const char *value, char *out, size_t size)
{
    static const char *const counted[][2] = {
        {"workers", "worker"}, {"processes", "process"}, {"threads", "thread"}, {"servers", "server"}};
    if (yk_list_has("model,data,mode,optimizer,scaling", name)) {
        snprintf(out, size, "%s", value);
        return;
    }
    for (size_t k = 0; k < sizeof counted / sizeof *counted; k++)
        if (!strcmp(name, counted[k][0])) {
            const bool none = !strcmp(name, "servers") && !strcmp(value, "0"),
                       one = none || !strcmp(value, "1");
            snprintf(out, size, "%s %s", none ? "no" : value, counted[k][one]);
            return;
        }
    snprintf(out, size, "%s %s", name, *value ? value : "default");
}

void yk__options_join(const yk_compare *c, size_t run, yk_option_set which, char *out)
{
    size_t n = 0;
    *out = 0;
    for (size_t k = 0; which >> k && n < YK_LABEL_SIZE; k++) {
        char value[YK_OPTION_SIZE], text[YK_LABEL_SIZE];
        if (!(which >> k & 1))
            continue;
        yk__option_phrase(c->varying[k], yk_option_text(c, run, c->varying[k], value), text, sizeof text);
        n += (size_t)snprintf(out + n, YK_LABEL_SIZE - n, "%s%s", n ? ", " : "", text);
    }
}

/* ---- panels ---- */

/* The number of classes into which these options divide the runs, and the size of the largest. */
static size_t classes(const yk_compare *c, const size_t *run, size_t n, yk_option_set which,
                      size_t *largest_out)
{
    size_t found = 0;
    *largest_out = 0;
    for (size_t i = 0; i < n; i++) {
        size_t size = 0;
        bool first = true;
        for (size_t k = 0; k < n; k++)
            if (yk__options_same(c, run[i], run[k], which)) {
                first &= k >= i;
                size++;
            }
        found += first;
        *largest_out = size > *largest_out ? size : *largest_out;
    }
    return found;
}

yk_status yk__options_for_panels(const yk_compare *c, const size_t *run, size_t n, yk_option_set which,
                                 yk_option_set *out)
{
    const yk_option_set required = which & yk__options_in(c, "model,data"); /* losses cannot be compared */
    size_t fewest = SIZE_MAX, largest, different = 0, *one = calloc(n + 1, sizeof *one);
    *out = 0;
    if (!one)
        return yk_fail_memory(n * sizeof *one, "the panels of a plot");
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < different && !yk__options_same(c, one[k], run[i], which))
            k++;
        one[k] = run[i];
        different += k == different;
    }
    /* all subsets of `which`, in ascending order */
    for (yk_option_set some = 0; different > YK_MAX_CURVES && (some = (some - which) & which);) {
        if ((some & required) != required)
            continue;
        const size_t found = classes(c, one, different, some, &largest);
        if (largest <= YK_MAX_CURVES &&
            found <= fewest) /* prefers later options: batch over mode or workers */
            fewest = found, *out = some;
    }
    free(one);
    return YK_OK;
}

/* ---- labels ---- */

/* An option that follows from the others before it (the learning rate that changes with the batch, the number of
 * processes) tells nothing new. */
static void find_label_options(yk_compare *c)
{
    size_t before = 1, largest;
    for (size_t k = 0, n = 0; k < c->options && n < YK_MAX_LABEL_OPTIONS; k++) {
        const yk_option_set with = c->in_labels | (c->identity & (yk_option_set)1 << k);
        const size_t now = classes(c, c->members, c->n, with, &largest);
        if (now == before)
            continue;
        c->in_labels = with;
        before = now;
        n++;
    }
}

size_t yk__index_of(char (*list)[YK_LABEL_SIZE], size_t *n, const char *text)
{
    size_t k = 0;
    while (k < *n && strcmp(list[k], text))
        k++;
    if (k == *n)
        snprintf(list[(*n)++], YK_LABEL_SIZE, "%s", text);
    return k;
}

static void label_runs(yk_compare *c)
{
    for (size_t g = 0; g < c->groups; g++)
        for (size_t i = 0; i < c->group[g].n; i++) {
            const size_t run = c->group[g].run[i];
            const char *label = c->group[g].label;
            const bool repeats = c->group[g].n > 1;
            if (repeats && isfinite(c->facts[run].seed) && *label && c->groups > 1)
                snprintf(c->label[run], YK_LABEL_SIZE, "%.100s, seed %.0f", label, c->facts[run].seed);
            else if (repeats || c->groups == 1)
                snprintf(c->label[run], YK_LABEL_SIZE, "%.127s", c->run[run].name);
            else
                snprintf(c->label[run], YK_LABEL_SIZE, "%s", label);
        }
}

void yk__labels_make(yk_compare *c)
{
    c->label = yk_arena_alloc(&c->arena, c->n, sizeof *c->label, "the names of runs");
    c->panel = yk_arena_alloc(&c->arena, c->n, sizeof *c->panel, "the names of runs");
    c->line = yk_arena_alloc(&c->arena, c->n, sizeof *c->line, "the names of runs");
    yk_option_set panels;
    if (c->arena.status)
        return;
    find_label_options(c);
    c->arena.status = yk__options_for_panels(c, c->members, c->n, c->in_labels, &panels);
    const bool names = yk__shows_names(c);
    for (size_t g = 0; !c->arena.status && g < c->groups; g++) {
        yk_config_group *group = &c->group[g];
        char panel[YK_LABEL_SIZE], line[YK_LABEL_SIZE];
        yk__options_join(c, group->run[0], c->in_labels, group->label);
        yk__options_join(c, group->run[0], panels, panel);
        yk__options_join(c, group->run[0], c->in_labels & ~panels, line);
        if (!*group->label || names)
            snprintf(group->label, YK_LABEL_SIZE, "%.127s", c->run[group->run[0]].name);
        /* no known option distinguishes them: YK_MAX_CURVES per panel */
        if (c->groups > YK_MAX_CURVES && !panels)
            snprintf(panel, sizeof panel, "part %zu", g / YK_MAX_CURVES + 1);
        group->panel = yk__index_of(c->panel, &c->panels, panel);
        group->line = yk__index_of(c->line, &c->lines, *line && !(names && !panels) ? line : group->label);
    }
    label_runs(c);
}
