#include "base/log.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local const yk_log *current;

void yk_log_set(const yk_log *log)
{
    current = log;
}

const yk_log *yk_log_get(void)
{
    return current;
}

/* The length in bytes of a UTF-8 character that a terminal would interpret: a control character, a line separator, or a mark of
 * direction (Unicode, Bidi_Control); also if it is truncated. 0: any other character. */
static size_t is_control(const unsigned char *s, size_t n)
{
    const unsigned b = n > 1 ? s[1] : 0, c = n > 2 ? s[2] : 0;
    switch (*s) {
    case 0xc2: /* U+0080 to U+009F */
        return n < 2 ? n : b >= 0x80 && b < 0xa0 ? 2 : 0;
    case 0xd8: /* U+061C */
        return n < 2 ? n : b == 0x9c ? 2 : 0;
    case 0xe2: /* U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069 */
        if (n < 3)
            return n;
        return (b == 0x80 && (c == 0x8e || c == 0x8f || (c >= 0xa8 && c <= 0xae))) ||
                       (b == 0x81 && c >= 0xa6 && c <= 0xa9)
                   ? 3
                   : 0;
    default:
        return (*s < 0x20 && *s != '\n' && *s != '\t') || *s == 0x7f;
    }
}

void yk_log_clean(char *text, size_t n)
{
    for (size_t i = 0, bytes; i < n; i += bytes ? bytes : 1)
        if ((bytes = is_control((unsigned char *)text + i, n - i)))
            memset(text + i, '?', bytes);
}

void yk_log_print(yk_log_level level, const char *format, ...)
{
    char text[4096];
    const bool progress = level == YK_LOG_PROGRESS;
    if (!current || (progress && !yk_progress_wanted()))
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    yk_log_clean(text, strlen(text));
    if (progress)
        current->progress(current->context, text);
    else
        current->line(current->context, level, text);
}

int yk_log_width(void)
{
    const int n = current && current->width ? current->width() : 0;
    return n ? n : INT_MAX;
}

bool yk_progress_wanted(void)
{
    return current && current->wants_progress && current->wants_progress(current->context);
}

void yk_progress_end(void)
{
    if (yk_progress_wanted())
        current->progress(current->context, NULL);
}
