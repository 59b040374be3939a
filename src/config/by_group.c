#include "config/by_group.h"

#include "base/number.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One part of a list: whether it is for keyed groups, and its value. Returns the rest of the list; NULL: malformed. */
static const char *next_part(const char *list, bool *keyed_out, char *value, size_t size)
{
    const size_t n = strcspn(list, ",");
    *keyed_out = strncmp(list, "keyed=", 6) == 0;
    if ((!*keyed_out && strncmp(list, "dense=", 6) != 0) || n == 6 || n - 6 >= size ||
        (list[n] && !list[n + 1]))
        return NULL;
    snprintf(value, size, "%.*s", (int)(n - 6), list + 6);
    return list + n + (list[n] == ',');
}

static yk_status malformed(void)
{
    return yk_fail(YK_EUSAGE, "must be one value, or keyed=VALUE,dense=VALUE");
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

yk_status yk_by_group_set(const char *text, double min, double max, bool whole, const char *word,
                          yk_by_group *out)
{
    yk_by_group g = YK_BY_GROUP_NONE;
    yk_status st = YK_OK;
    if (!strchr(text, '='))
        st = set_one(text, min, max, whole, word, &g.all);
    for (const char *at = strchr(text, '=') ? text : ""; !st && *at;) {
        char value[64];
        bool keyed;
        if (!(at = next_part(at, &keyed, value, sizeof value)) || !isnan(keyed ? g.keyed : g.dense))
            return malformed();
        st = set_one(value, min, max, whole, word, keyed ? &g.keyed : &g.dense);
    }
    if (!st)
        *out = g;
    return st;
}

/* The shortest text of the same number: 0.05, not 0.050000000000000003. */
static void add_number(char *out, size_t size, const char *name, const char *word, double x)
{
    const size_t n = strlen(out);
    if (word && x == YK_ALL)
        snprintf(out + n, size - n, "%s%s%s", n ? "," : "", name, word);
    for (int digits = 1; !isnan(x) && !(word && x == YK_ALL) && digits <= 17; digits++) {
        char text[32];
        snprintf(text, sizeof text, "%.*g", digits, x);
        snprintf(out + n, size - n, "%s%s%s", n ? "," : "", name, text);
        if (strtod(text, NULL) == x)
            return;
    }
}

void yk_by_group_text(const yk_by_group *g, const char *word, char *out, size_t size)
{
    *out = '\0';
    add_number(out, size, "", word, g->all);
    add_number(out, size, "keyed=", word, g->keyed);
    add_number(out, size, "dense=", word, g->dense);
}

double yk_by_group_of(const yk_by_group *g, bool keyed, double otherwise)
{
    const double own = keyed ? g->keyed : g->dense;
    return !isnan(own) ? own : !isnan(g->all) ? g->all : otherwise;
}

static bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

bool yk_by_group_same(const yk_by_group *a, const yk_by_group *b)
{
    return same(a->all, b->all) && same(a->keyed, b->keyed) && same(a->dense, b->dense);
}

yk_status yk_by_group_word(const char *text, bool keyed, char *out, size_t size)
{
    bool seen[2] = {false, false}, is_keyed;
    snprintf(out, size, "%s", text && !strchr(text, '=') ? text : "");
    for (const char *at = text && strchr(text, '=') ? text : ""; *at;) {
        char value[64];
        if (!(at = next_part(at, &is_keyed, value, sizeof value)) || seen[is_keyed])
            return malformed();
        seen[is_keyed] = true;
        if (is_keyed == keyed)
            snprintf(out, size, "%s", value);
    }
    return YK_OK;
}
