#include "report/text.h"

#include "base/file.h"
#include "base/json.h"
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Adds s with some characters replaced; control characters and invalid UTF-8 become U+FFFD. */
static void escaped(yk_text *t, const char *s, const char *(*replace)(char c))
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

static const char *in_html(char c)
{
    static const char chars[] = "&<>\"'\n\t";
    static const char *const with[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;", "\n", "\t"};
    const char *at = strchr(chars, c);
    return at ? with[at - chars] : NULL; /* c is not 0 */
}

void yk_html(yk_text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    while (*format) {
        size_t n = strcspn(format, "%");
        yk_text_put(t, format, n);
        format += n;
        if (!*format)
            break;
        char one[16];
        n = 2 + strcspn(format + 1, "sdufg%");
        snprintf(one, sizeof one, "%.*s", (int)n, format);
        format += n;
        switch (format[-1]) {
        case 's':
            escaped(t, va_arg(args, const char *), in_html);
            break;
        case 'd':
            yk_text_print(t, one, va_arg(args, int));
            break;
        case 'u':
            yk_text_print(t, one, va_arg(args, size_t));
            break;
        case '%':
            yk_text_add(t, "%");
            break;
        default:
            yk_text_print(t, one, va_arg(args, double));
        }
    }
    va_end(args);
}

static const char *in_csv(char c)
{
    return c == '"' ? "\"\"" : c == '\n' ? "\n" : c == '\t' ? "\t" : NULL;
}

void yk_text_csv(yk_text *t, const char *s)
{
    bool quote = strpbrk(s, ",\"\n\r") != NULL;
    if (quote)
        yk_text_add(t, "\"");
    yk_text_add(t, yk_csv_prefix(s));
    escaped(t, s, in_csv);
    if (quote)
        yk_text_add(t, "\"");
}

void yk_text_number(yk_text *t, double x, int digits, const char *none)
{
    char s[64];
    if (!isfinite(x)) {
        yk_text_add(t, none);
        return;
    }
    snprintf(s, sizeof s, "%.*g", digits, x + 0.0); /* not -0 */
    if (fabs(x) >= 1.0 && fabs(x) < 1e15 && strchr(s, 'e'))
        snprintf(s, sizeof s, "%.0f", x);
    yk_text_add(t, s);
}

yk_status yk_text_save(const yk_text *t, const char *dir, const char *name)
{
    yk_file *f;
    if (t->status)
        return t->status;
    yk_status st = yk_file_create_in(dir, name, &f);
    if (st)
        return st;
    st = yk_file_write(f, t->s ? t->s : "", t->n);
    return yk_file_close(f, st);
}
