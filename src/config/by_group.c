#include "config/by_group.h"

#include "base/number.h"
#include <stdio.h>
#include <string.h>

bool yk_by_group_next(const char **at, yk_by_group_part *out)
{
    const size_t n = strcspn(*at, ","), name = strcspn(*at, "=,"), value = n > name ? n - name - 1 : 0;
    if (!name || name >= sizeof out->name || !value || value >= sizeof out->value ||
        ((*at)[n] == ',' && !(*at)[n + 1]))
        return false;
    snprintf(out->name, sizeof out->name, "%.*s", (int)name, *at);
    snprintf(out->value, sizeof out->value, "%.*s", (int)value, *at + name + 1);
    *at += n + ((*at)[n] == ',');
    return true;
}

static yk_status malformed(void)
{
    return yk_fail(YK_EUSAGE, "must be one value, or keyed=VALUE,dense=VALUE, or NAME=VALUE for individual "
                              "groups; each name only once");
}

yk_status yk_by_group_word(const char *text, const char *group, char *out, size_t size)
{
    yk_by_group_part part;
    bool found = false;
    const char *at = text && strchr(text, '=') ? text : "";
    snprintf(out, size, "%s", text && !*at ? text : "");
    while (yk_by_group_next(&at, &part)) {
        if (strcmp(part.name, group))
            continue;
        if (found)
            return malformed();
        found = true;
        snprintf(out, size, "%s", part.value);
    }
    return *at ? malformed() : YK_OK;
}

static yk_status set_one(const char *text, double min, double max, bool whole, const char *word, double *out)
{
    int64_t n = 0;
    if (word && strcmp(text, word) == 0) {
        *out = YK_ALL;
        return YK_OK;
    }
    const yk_status st = whole ? yk_number_int(text, min, max, &n) : yk_number_real(text, min, max, out);
    if (!st && whole)
        *out = (double)n;
    return st;
}

/* Where to store the value for this name. NULL: it was given twice, or there are too many names. */
static double *slot_of(yk_by_group *g, const char *name)
{
    if (strcmp(name, "keyed") == 0)
        return isnan(g->keyed) ? &g->keyed : NULL;
    if (strcmp(name, "dense") == 0)
        return isnan(g->dense) ? &g->dense : NULL;
    for (int i = 0; i < YK_MAX_GROUPS; i++) {
        if (strcmp(g->named[i].name, name) == 0)
            return NULL;
        if (*g->named[i].name)
            continue;
        snprintf(g->named[i].name, sizeof g->named[i].name, "%s", name);
        return &g->named[i].value;
    }
    return NULL;
}

yk_status yk_by_group_set(const char *text, double min, double max, bool whole, const char *word,
                          yk_by_group *out)
{
    yk_by_group g = YK_BY_GROUP_NONE;
    yk_by_group_part part;
    const char *at = strchr(text, '=') ? text : "";
    yk_status st = *at ? YK_OK : set_one(text, min, max, whole, word, &g.all);
    while (!st && yk_by_group_next(&at, &part)) {
        double *slot = slot_of(&g, part.name);
        st = slot ? set_one(part.value, min, max, whole, word, slot) : malformed();
    }
    if (!st && *at)
        st = malformed();
    if (!st)
        *out = g;
    return st;
}

static void add_number(char *out, size_t size, const char *name, const char *word, double x)
{
    const size_t n = strlen(out);
    char text[32];
    yk_number_shortest(x, text, sizeof text);
    if (!isnan(x))
        snprintf(out + n, size - n, "%s%s%s%s", n ? "," : "", name, *name ? "=" : "",
                 word && x == YK_ALL ? word : text);
}

void yk_by_group_text(const yk_by_group *g, const char *word, char *out, size_t size)
{
    *out = '\0';
    add_number(out, size, "", word, g->all);
    add_number(out, size, "keyed", word, g->keyed);
    add_number(out, size, "dense", word, g->dense);
    for (int i = 0; i < YK_MAX_GROUPS && *g->named[i].name; i++)
        add_number(out, size, g->named[i].name, word, g->named[i].value);
}

double yk_by_group_of(const yk_by_group *g, bool keyed, double otherwise)
{
    const double own = keyed ? g->keyed : g->dense;
    return !isnan(own) ? own : !isnan(g->all) ? g->all : otherwise;
}

double yk_by_group_named(const yk_by_group *g, const char *name, double otherwise)
{
    for (int i = 0; i < YK_MAX_GROUPS && *g->named[i].name; i++)
        if (strcmp(g->named[i].name, name) == 0)
            return g->named[i].value;
    return otherwise;
}

bool yk_by_group_has_word(const yk_by_group *g)
{
    bool any = g->all == YK_ALL || g->keyed == YK_ALL || g->dense == YK_ALL;
    for (int i = 0; i < YK_MAX_GROUPS && *g->named[i].name; i++)
        any |= g->named[i].value == YK_ALL;
    return any;
}

static bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

bool yk_by_group_same(const yk_by_group *a, const yk_by_group *b)
{
    bool equal = same(a->all, b->all) && same(a->keyed, b->keyed) && same(a->dense, b->dense);
    for (int i = 0; i < YK_MAX_GROUPS; i++) /* in the order in which they were given */
        equal &= !strcmp(a->named[i].name, b->named[i].name) && same(a->named[i].value, b->named[i].value);
    return equal;
}
