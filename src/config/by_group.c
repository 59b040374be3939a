#include "config/by_group.h"

#include "base/number.h"
#include <float.h>
#include <stdio.h>
#include <string.h>

static yk_status set_word(const yk_option *o, const char *text, double *out)
{
    char names[256] = "";
    for (int k = 0; o->words(k); k++) {
        if (strcmp(text, o->words(k)) == 0) {
            *out = k;
            return YK_OK;
        }
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", k ? ", " : "", o->words(k));
    }
    return yk_fail(YK_EUSAGE, "the value must be one of: %s", names);
}

static yk_status set_one(const yk_option *o, const char *text, double *out)
{
    int64_t n = 0;
    if (o->words)
        return set_word(o, text, out);
    if (o->word && strcmp(text, o->word) == 0) {
        *out = YK_ALL;
        return YK_OK;
    }
    if (o->kind == YK_OPT_REAL_BY_GROUP)
        return yk_number_real(text, o->min, o->max, out);
    const yk_status st = yk_number_int(text, o->min, o->max, &n);
    *out = (double)n;
    return st;
}

/* Where to store the value for this name. NULL: it was given twice, or there are too many names. */
static double *slot_of(yk_by_group *g, const char *name)
{
    const bool keyed = strcmp(name, "keyed") == 0, dense = strcmp(name, "dense") == 0;
    int i = keyed ? YK_GROUP_KEYED : dense ? YK_GROUP_DENSE : YK_GROUP_NAMED;
    const int end = keyed || dense ? i + 1 : YK_GROUP_PARTS;
    while (i < end && *g->part[i].name && strcmp(g->part[i].name, name))
        i++;
    if (i == end || *g->part[i].name)
        return NULL;
    snprintf(g->part[i].name, sizeof g->part[i].name, "%s", name);
    return &g->part[i].value;
}

/* NAME=VALUE */
static yk_status set_part(const yk_option *o, const char *part, size_t n, yk_by_group *g)
{
    char name[YK_GROUP_NAME], value[64];
    const size_t before = strcspn(part, "=,"), after = n > before ? n - before - 1 : 0;
    snprintf(name, sizeof name, "%.*s", (int)before, part);
    snprintf(value, sizeof value, "%.*s", (int)after, part + before + 1);
    const bool valid = before && before < sizeof name && after && after < sizeof value;
    double *slot = valid ? slot_of(g, name) : NULL;
    return slot ? set_one(o, value, slot)
                : yk_fail(YK_EUSAGE, "must be one value, or keyed=VALUE,dense=VALUE (each name once), or "
                                     "NAME=VALUE for individual groups");
}

yk_status yk_by_group_set(const yk_option *o, const char *text, yk_by_group *out)
{
    yk_by_group g = {0};
    yk_status st = YK_OK;
    size_t n = strcspn(text, ",");
    if (!strchr(text, '=')) {
        st = set_one(o, text, &g.part[YK_GROUP_EVERY].value);
        snprintf(g.part[YK_GROUP_EVERY].name, sizeof g.part->name, "every");
    } else {
        for (st = set_part(o, text, n, &g); !st && text[n]; st = set_part(o, text, n, &g)) {
            text += n + 1;
            n = strcspn(text, ",");
        }
    }
    if (!st)
        *out = g;
    return st;
}

void yk_by_group_text(const yk_option *o, const yk_by_group *g, char *out, size_t size)
{
    size_t n = 0;
    *out = '\0';
    for (int i = 0; i < YK_GROUP_PARTS && n < size; i++) {
        char number[32];
        const char *name = g->part[i].name, *word = g->part[i].value == YK_ALL ? o->word : NULL;
        if (!*name)
            continue;
        yk_number_shortest(g->part[i].value, DBL_MANT_DIG, number, sizeof number);
        word = o->words ? o->words((int)g->part[i].value) : word;
        n += (size_t)snprintf(out + n, size - n, "%s%s%s%s", n ? "," : "", i == YK_GROUP_EVERY ? "" : name,
                              i == YK_GROUP_EVERY ? "" : "=", word ? word : number);
    }
}

double yk_by_group_of(const yk_by_group *g, const char *name, bool keyed, double otherwise)
{
    const int kind = keyed ? YK_GROUP_KEYED : YK_GROUP_DENSE;
    for (int i = YK_GROUP_NAMED; *name && i < YK_GROUP_PARTS; i++)
        if (strcmp(g->part[i].name, name) == 0)
            return g->part[i].value;
    return *g->part[kind].name ? g->part[kind].value : *g->part->name ? g->part->value : otherwise;
}

bool yk_by_group_given(const yk_by_group *g)
{
    bool any = false;
    for (int i = 0; i < YK_GROUP_PARTS; i++)
        any |= *g->part[i].name != '\0';
    return any;
}

bool yk_by_group_has(const yk_by_group *g, double value)
{
    bool any = false;
    for (int i = 0; i < YK_GROUP_PARTS; i++)
        any |= *g->part[i].name && g->part[i].value == value;
    return any;
}
