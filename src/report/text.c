#include "report/text.h"

#include "base/file.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *in_html(char c)
{
    static const char chars[] = "&<>\"'\n\t\r";
    static const char *const with[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;", "\n", "\t", ""};
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
            yk_text_escape(t, va_arg(args, const char *), in_html);
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

void yk_text_number(yk_text *t, double x, int digits)
{
    char s[64];
    if (!isfinite(x))
        return;
    snprintf(s, sizeof s, "%.*g", digits, x + 0.0); /* not -0 */
    if (fabs(x) >= 1.0 && fabs(x) < 1e15 && strchr(s, 'e'))
        snprintf(s, sizeof s, "%.0f", x);
    yk_text_add(t, s);
}

yk_status yk_text_save(const yk_text *t, const char *dir, const char *name)
{
    return t->status ? t->status : yk_file_save(dir, name, "%s", t->s ? t->s : "");
}
