/* Groups of runs with the same options, and the options in which runs differ; short names for runs and groups: the options in
 * which they differ, and nothing else; and which of them share a plot. */
#include "report/compare.h"

#include <stdio.h>
#include <stdlib.h>

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
        for (size_t k = 0; k < c->run[i].eval.n; k++)
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
    const yk_facts *f = &c->facts[i];
    const char *s = yk_run_get(&c->run[i], name);
    const double each = f->workers / f->processes;
    if (yk_facts_option(f, name, 6, out))
        return;
    if (strcmp(name, "scaling"))
        snprintf(out, YK_OPTION_SIZE, "%s", s ? s : "");
    else if (f->processes == 1.0)
        snprintf(out, YK_OPTION_SIZE, "threads of 1 process");
    else
        snprintf(out, YK_OPTION_SIZE, "%.4g worker%s per process", each, each == 1.0 ? "" : "s");
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

void yk__option_phrase(const char *name, const char *value, char *out, size_t size)
{
    static const char *const alone[] = {"model", "data", "mode", "optimizer", "scaling", NULL};
    static const char *const counted[][2] = {
        {"workers", "worker"}, {"processes", "process"}, {"threads", "thread"}, {"servers", "server"}};
    if (yk_is_listed(name, alone)) {
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

/* ---- items and their options ---- */

yk_status yk__options_init(const yk_compare *c, size_t items, yk_option_values *out)
{
    *out = (yk_option_values){.compare = c, .items = items, .item = calloc(items, sizeof *out->item)};
    return out->item ? YK_OK : yk_fail_memory(items * sizeof *out->item, "the names of runs");
}

bool yk__options_same(const yk_option_values *o, size_t a, size_t b, unsigned mask)
{
    for (size_t k = 0; k < o->options; k++)
        if (mask >> k & 1 && o->item[a].value[k] != o->item[b].value[k])
            return false;
    return true;
}

size_t yk__options_add(yk_option_values *o, const char *name)
{
    const size_t k = o->options++;
    size_t different = 0;
    o->name[k] = name;
    for (size_t i = 0; i < o->items; i++) {
        char text[YK_OPTION_SIZE], other[YK_OPTION_SIZE];
        size_t first = 0, whole = 0;
        yk_option_text(o->compare, o->item[i].run, name, text);
        for (; first < i; first++) {
            if (o->item[first].value[k] != first)
                continue; /* an earlier item has this value */
            yk_option_text(o->compare, o->item[first].run, name, other);
            if (!strcmp(text, other))
                break;
        }
        o->item[i].value[k] = first;
        while (whole < i && !yk__options_same(o, whole, i, ~0u))
            whole++;
        o->item[i].whole = whole;
        different += whole == i;
    }
    return different;
}

void yk__options_join(const yk_option_values *o, size_t item, unsigned mask, char *out)
{
    size_t n = 0;
    *out = 0;
    for (size_t k = 0; k < o->options && n < YK_LABEL_SIZE; k++) {
        char value[YK_OPTION_SIZE], text[YK_LABEL_SIZE];
        if (!(mask >> k & 1))
            continue;
        yk_option_text(o->compare, o->item[item].run, o->name[k], value);
        yk__option_phrase(o->name[k], value, text, sizeof text);
        n += (size_t)snprintf(out + n, YK_LABEL_SIZE - n, "%s%s", n ? ", " : "", text);
    }
}

/* The number of classes into which the options in `mask` divide the items, and the size of the largest. */
static size_t classes(const yk_option_values *o, unsigned mask, size_t *largest_out)
{
    size_t n = 0, largest = 0;
    for (size_t g = 0; g < o->items; g++) {
        size_t size = 0;
        bool first = true;
        for (size_t k = 0; k < o->items; k++)
            if (o->item[k].whole == k && yk__options_same(o, g, k, mask)) {
                first &= k >= g;
                size++;
            }
        n += first;
        largest = size > largest ? size : largest;
    }
    *largest_out = largest;
    return n;
}

unsigned yk__options_for_panels(const yk_option_values *o)
{
    static const char *const separate[] = {"model", "data", NULL}; /* their losses cannot be compared */
    unsigned best = 0, required = 0;
    size_t fewest = SIZE_MAX, largest;
    classes(o, 0, &largest);
    if (largest <= YK_MAX_CURVES)
        return 0;
    for (size_t k = 0; k < o->options; k++)
        required |= (unsigned)yk_is_listed(o->name[k], separate) << k;
    for (unsigned mask = 1; mask < 1u << o->options; mask++) {
        if ((mask & required) != required)
            continue;
        const size_t n = classes(o, mask, &largest);
        if (largest <= YK_MAX_CURVES && n <= fewest) /* prefers later options: batch over mode or workers */
            fewest = n, best = mask;
    }
    return best;
}

/* ---- labels ---- */

/* An option that follows from the others before it (the learning rate that changes with the batch, the number of
 * processes) tells nothing new. */
static void find_label_options(const yk_compare *c, yk_option_values *o)
{
    static const char *const first[] = {"model", "data", "mode", "servers", "workers", "batch", NULL};
    const char *all[64];
    size_t n = 0, before = 1;
    for (const char *const *name = first; *name; name++)
        if (yk_is_listed(*name, c->varying))
            all[n++] = *name;
    for (const char *const *name = c->varying; *name; name++)
        if (!yk_is_listed(*name, first) && !yk__varies_in_repeats(*name))
            all[n++] = *name;
    for (size_t k = 0; k < n && o->options < YK_MAX_LABEL_OPTIONS; k++) {
        const size_t now = yk__options_add(o, all[k]);
        o->options -= now == before;
        before = now;
    }
}

/* The index of a string in a list, to which it is added if necessary. */
static size_t index_of(char (*list)[YK_LABEL_SIZE], size_t *n, const char *text)
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

yk_status yk__labels_make(yk_compare *c)
{
    c->label = calloc(c->n, sizeof *c->label);
    c->panel = calloc(c->groups, sizeof *c->panel);
    c->line = calloc(c->groups, sizeof *c->line);
    if (!c->label || !c->panel || !c->line)
        return yk_fail_memory(c->n * 3 * YK_LABEL_SIZE, "the names of runs");
    yk_option_values o;
    if (yk__options_init(c, c->groups, &o))
        return YK_ESYSTEM;
    for (size_t g = 0; g < c->groups; g++)
        o.item[g].run = c->group[g].run[0];
    find_label_options(c, &o);
    memcpy(c->label_option, o.name, o.options * sizeof *o.name);
    const bool names = yk__shows_names(c);
    const unsigned panels = yk__options_for_panels(&o);
    for (size_t g = 0; g < c->groups; g++) {
        yk_config_group *group = &c->group[g];
        char panel[YK_LABEL_SIZE], line[YK_LABEL_SIZE];
        yk__options_join(&o, g, ~0u, group->label);
        yk__options_join(&o, g, panels, panel);
        yk__options_join(&o, g, ~panels, line);
        if (!*group->label || names)
            snprintf(group->label, YK_LABEL_SIZE, "%.127s", c->run[group->run[0]].name);
        /* no known option distinguishes them: YK_MAX_CURVES per panel */
        if (c->groups > YK_MAX_CURVES && !panels)
            snprintf(panel, sizeof panel, "part %zu", g / YK_MAX_CURVES + 1);
        group->panel = index_of(c->panel, &c->panels, panel);
        group->line = index_of(c->line, &c->lines, *line && !(names && !panels) ? line : group->label);
    }
    label_runs(c);
    free(o.item);
    return YK_OK;
}
