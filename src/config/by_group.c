#include "config/by_group.h"

#include "base/number.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

yk_status yk_by_group_word(const char *text, bool keyed, char *out, size_t size)
{
    bool seen[2] = {false, false};
    snprintf(out, size, "%s", text && !strchr(text, '=') ? text : "");
    for (const char *at = text && strchr(text, '=') ? text : ""; *at;) {
        const size_t n = strcspn(at, ",");
        const bool is_keyed = strncmp(at, "keyed=", 6) == 0;
        if ((!is_keyed && strncmp(at, "dense=", 6)) || n == 6 || n - 6 >= size || seen[is_keyed] ||
            (at[n] && !at[n + 1]))
            return yk_fail(YK_EUSAGE, "must be one value, or keyed=VALUE,dense=VALUE");
        seen[is_keyed] = true;
        if (is_keyed == keyed)
            snprintf(out, size, "%.*s", (int)(n - 6), at + 6);
        at += n + (at[n] == ',');
    }
    return YK_OK;
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
    char keyed[64], dense[64];
    yk_status st;
    if (!strchr(text, '=')) {
        st = set_one(text, min, max, whole, word, &g.all);
    } else {
        if ((st = yk_by_group_word(text, true, keyed, sizeof keyed)) ||
            (st = yk_by_group_word(text, false, dense, sizeof dense)))
            return st;
        if (*keyed)
            st = set_one(keyed, min, max, whole, word, &g.keyed);
        if (!st && *dense)
            st = set_one(dense, min, max, whole, word, &g.dense);
    }
    if (!st)
        *out = g;
    return st;
}

void yk_real_text(double x, char *out, size_t size)
{
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, size, "%.*g", digits, x);
        if (strtod(out, NULL) == x)
            return;
    }
}

static void add_number(char *out, size_t size, const char *name, const char *word, double x)
{
    const size_t n = strlen(out);
    char text[32];
    yk_real_text(x, text, sizeof text);
    if (!isnan(x))
        snprintf(out + n, size - n, "%s%s%s", n ? "," : "", name, word && x == YK_ALL ? word : text);
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
