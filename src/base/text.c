#include "base/text.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/number.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void yk_text_fini(yk_text *t)
{
    free(t->s);
    *t = (yk_text){0};
}

void yk_text_put(yk_text *t, const void *bytes, size_t n)
{
    const size_t need = t->n + n + 1;
    if (!t->status)
        t->status = YK_RESERVE(t->s, t->cap, need < 256 ? 256 : need, "a text");
    if (t->status)
        return;
    if (n)
        memcpy(t->s + t->n, bytes, n);
    t->n += n;
    t->s[t->n] = 0;
}

void yk_text_add(yk_text *t, const char *s)
{
    yk_text_put(t, s, strlen(s));
}

void yk_text_print(yk_text *t, const char *format, ...)
{
    char *s = NULL;
    va_list list;
    va_start(list, format);
    const int n = t->status ? 0 : vasprintf(&s, format, list);
    va_end(list);
    if (n < 0)
        t->status = yk_fail_memory(strlen(format), "a text");
    else if (s)
        yk_text_put(t, s, (size_t)n);
    free(n < 0 ? NULL : s);
}

bool yk_text_item(yk_text *t)
{
    enum { LONG = 300 };
    static const char more[] = ", ...";
    if (t->n > LONG && strcmp(t->s + t->n - strlen(more), more) != 0)
        yk_text_add(t, more);
    else if (t->n && t->n <= LONG)
        yk_text_add(t, ", ");
    return t->n <= LONG;
}

void yk_text_columns(yk_text *t, yk_text *rows, const char *align)
{
    int width[YK_TEXT_COLUMNS] = {0}, whole = -2, blanks = 0; /* blanks: none at the end of a line */
    const char *const text = rows->n && !rows->status ? rows->s : "";
    size_t c = 0, n;
    t->status = t->status ? t->status : rows->status;
    for (const char *p = text; *p; p += n + (p[n] != 0)) {
        const int w = yk_utf8_width(p, n = strcspn(p, "\t\n"));
        width[c] = w > width[c] ? w : width[c];
        c = p[n] == '\t' && align[c + 1] ? c + 1 : 0;
    }
    for (size_t k = 0; align[k]; k++)
        whole += width[k] + 2;
    for (const char *p = text; *p; p += n + (p[n] != 0)) {
        const int pad = width[c] - yk_utf8_width(p, n = strcspn(p, "\t\n")),
                  before = align[c] == '>' ? pad : 0;
        const bool rule = !c && !strncmp(p, "-\n", 2);
        for (int i = 0; rule && i < whole; i++)
            yk_text_add(t, "-");
        if (n && !rule)
            yk_text_print(t, "%*s%.*s", blanks + before, "", (int)n, p);
        if (p[n] == '\n')
            yk_text_add(t, "\n");
        blanks = p[n] == '\n' ? 0 : (n ? 0 : blanks + before) + pad - before + 2;
        c = p[n] == '\t' && align[c + 1] ? c + 1 : 0;
    }
    yk_text_fini(rows);
}

char *yk_text_take(yk_text *t)
{
    char *s = t->s;
    if (t->status) {
        free(s);
        s = NULL;
    }
    *t = (yk_text){0};
    return s;
}

void yk_text_escape(yk_text *t, const char *s, const char *(*replace)(char c))
{
    while (*s) {
        size_t n = yk_utf8_length(s);
        const char *with = n == 1 ? replace(*s) : NULL;
        if (n == 0 || (n == 1 && !with && ((unsigned char)*s < 0x20 || *s == 0x7f)))
            with = "\xef\xbf\xbd";
        if (with)
            yk_text_add(t, with);
        else
            yk_text_put(t, s, n);
        s += n ? n : 1;
    }
}

bool yk_list_has(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; *at; at += strcspn(at, ","), at += strspn(at, ", "))
        if (strcspn(at, ",") == n && strncmp(at, word, n) == 0)
            return true;
    return false;
}

static bool is_formula(const char *s)
{
    double x;
    if (!*s || !s[1] || !strchr("=+-@", *s))
        return false;
    const char *end = yk_decimal(s, &x);
    return !end || *end;
}

static const char *in_csv(char c)
{
    return c == '"' ? "\"\"" : c == '\n' ? "\n" : c == '\t' ? "\t" : NULL;
}

void yk_text_csv(yk_text *t, const char *s)
{
    const char *const quote = strpbrk(s, ",\"\n\r") ? "\"" : "";
    yk_text_print(t, "%s%s", quote, is_formula(s) ? "'" : "");
    yk_text_escape(t, s, in_csv);
    yk_text_add(t, quote);
}

void yk_text_shell(yk_text *t, const char *s)
{
    bool safe = *s != 0;
    for (const char *c = s; *c; c++)
        safe &= isalnum((unsigned char)*c) || strchr("-_./:,=+@%", *c);
    yk_text_add(t, safe ? "" : "'");
    for (; *s; s++) {
        yk_text_add(t, *s == '\'' ? "'\\'" : "");
        yk_text_put(t, s, 1);
    }
    yk_text_add(t, safe ? "" : "'");
}
