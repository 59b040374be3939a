/* Short names for runs and groups of runs: the options in which they differ, and nothing else; and which of them share a
 * plot. */
#include "report/compare.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = YK_OPTION_SIZE };

/* The options that tell groups apart, in the order in which a label has them. */
typedef struct {
    const char *name[YK_MAX_LABEL_OPTIONS];
    yk_option_values of;
} label_option;

void yk__option_phrase(const char *name, const char *value, char *out, size_t size)
{
    static const char *const alone[] = {"model", "data", "mode", "optimizer", NULL};
    static const char *const counted[][3] = {{"workers", "worker", "workers"},
                                             {"ranks", "process", "processes"},
                                             {"threads", "thread", "threads"},
                                             {"servers", "server", "servers"}};
    if (yk_is_listed(name, alone)) {
        snprintf(out, size, "%s", value);
        return;
    }
    for (size_t k = 0; k < sizeof counted / sizeof *counted; k++)
        if (!strcmp(name, counted[k][0])) {
            const bool none = !strcmp(name, "servers") && !strcmp(value, "0"),
                       one = none || !strcmp(value, "1");
            snprintf(out, size, "%s %s", none ? "no" : value, counted[k][one ? 1 : 2]);
            return;
        }
    snprintf(out, size, "%s %s", name, *value ? value : "default");
}

/* The option of a group, as a phrase. */
static void phrase(const yk_compare *c, size_t group, const char *name, char *out, size_t size)
{
    char value[TEXT];
    yk_option_text(c, c->group[group].run[0], name, value);
    yk__option_phrase(name, value, out, size);
}

/* Joins the phrases of the options in `mask`. */
static void join(const yk_compare *c, size_t group, const label_option *o, unsigned mask,
                 char out[YK_LABEL_SIZE])
{
    size_t n = 0;
    *out = 0;
    for (size_t k = 0; k < o->of.options && n < YK_LABEL_SIZE; k++) {
        char text[YK_LABEL_SIZE];
        if (!(mask >> k & 1))
            continue;
        phrase(c, group, o->name[k], text, sizeof text);
        n += (size_t)snprintf(out + n, YK_LABEL_SIZE - n, "%s%s", n ? ", " : "", text);
    }
}

/* Numbers the values of option k: the first group that has the value. */
static void number_values(const yk_compare *c, label_option *o, size_t k)
{
    char text[TEXT], other[TEXT];
    for (size_t g = 0; g < c->groups; g++) {
        size_t first = 0;
        yk_option_text(c, c->group[g].run[0], o->name[k], text);
        for (; first < g; first++) {
            yk_option_text(c, c->group[first].run[0], o->name[k], other);
            if (!strcmp(text, other))
                break;
        }
        o->of.value[g * YK_MAX_LABEL_OPTIONS + k] = first;
    }
}

static bool same(const size_t *a, const size_t *b, size_t options, unsigned mask)
{
    for (size_t k = 0; k < options; k++)
        if (mask >> k & 1 && a[k] != b[k])
            return false;
    return true;
}

/* How many classes of items the options in `mask` make, and the size of the largest. */
static size_t classes(const yk_option_values *o, unsigned mask, size_t *largest_out)
{
    size_t n = 0, largest = 0;
    for (size_t g = 0; g < o->items; g++) {
        size_t size = 0;
        bool first = true;
        for (size_t k = 0; k < o->items; k++)
            if (same(&o->value[g * YK_MAX_LABEL_OPTIONS], &o->value[k * YK_MAX_LABEL_OPTIONS], o->options,
                     mask)) {
                first &= k >= g;
                size++;
            }
        n += first;
        largest = size > largest ? size : largest;
    }
    *largest_out = largest;
    return n;
}

bool yk__separates_panels(const char *option)
{
    return !strcmp(option, "model") || !strcmp(option, "data");
}

unsigned yk__choose_panels(const yk_option_values *o)
{
    unsigned best = 0;
    size_t fewest = SIZE_MAX, largest;
    if (o->items <= YK_MAX_CURVES)
        return 0;
    for (unsigned mask = 1; mask < 1u << o->options; mask++) {
        if ((mask & o->panel_only) != o->panel_only)
            continue;
        const size_t n = classes(o, mask, &largest);
        if (largest <= YK_MAX_CURVES && n <= fewest) /* prefers later options: batch over mode or workers */
            fewest = n, best = mask;
    }
    return best;
}

/* An option that follows from the others before it (the learning rate that changes with the batch, the number of
 * processes) tells nothing new. */
static void find_label_options(const yk_compare *c, label_option *o)
{
    static const char *const first[] = {"model", "data", "mode", "servers", "workers", "batch", NULL};
    const char *all[32], *varying[25];
    size_t n = 0, before = 1, largest;
    const size_t nvarying = yk_compare_varying(c, varying, 24);
    for (const char *const *name = first; *name; name++)
        if (yk_is_listed(*name, varying))
            all[n++] = *name;
    for (size_t k = 0; k < nvarying; k++)
        if (!yk_is_listed(varying[k], first) && !yk_is_listed(varying[k], yk_repeat_options))
            all[n++] = varying[k];
    for (size_t k = 0; k < n && o->of.options < YK_MAX_LABEL_OPTIONS; k++) {
        o->name[o->of.options] = all[k];
        number_values(c, o, o->of.options++);
        const size_t now = classes(&o->of, ~0u, &largest);
        o->of.options -= now == before;
        before = now;
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

yk_status yk__labels_make(yk_compare *c)
{
    c->label = calloc(c->n, sizeof *c->label);
    c->panel = calloc(c->groups, sizeof *c->panel);
    c->line = calloc(c->groups, sizeof *c->line);
    label_option o = {
        .of = {.items = c->groups, .value = calloc(c->groups * YK_MAX_LABEL_OPTIONS, sizeof(size_t))}};
    if (!c->label || !c->panel || !c->line || !o.of.value) {
        free(o.of.value);
        return yk_fail_memory(c->n * 3 * YK_LABEL_SIZE, "the names of runs");
    }
    find_label_options(c, &o);
    for (size_t k = 0; k < o.of.options; k++) {
        c->label_option[k] = o.name[k];
        o.of.panel_only |= (unsigned)yk__separates_panels(o.name[k]) << k;
    }
    const bool names = yk__shows_names(c);
    const unsigned all = (1u << o.of.options) - 1, panels = yk__choose_panels(&o.of);
    for (size_t g = 0; g < c->groups; g++) {
        yk_config_group *group = &c->group[g];
        char panel[YK_LABEL_SIZE], line[YK_LABEL_SIZE];
        join(c, g, &o, all, group->label);
        join(c, g, &o, panels, panel);
        join(c, g, &o, all & ~panels, line);
        if (!*group->label || names)
            snprintf(group->label, YK_LABEL_SIZE, "%.127s", c->run[group->run[0]].name);
        if (c->groups > YK_MAX_CURVES &&
            !panels) /* no known option distinguishes them: YK_MAX_CURVES per panel */
            snprintf(panel, sizeof panel, "part %zu", g / YK_MAX_CURVES + 1);
        group->panel = yk__index_of(c->panel, &c->panels, panel);
        group->line = yk__index_of(c->line, &c->lines, *line && !(names && !panels) ? line : group->label);
    }
    label_runs(c);
    free(o.of.value);
    return YK_OK;
}
