#include "base/log.h"

#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
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

/* The C1 control characters are c2 80 to c2 9f in UTF-8. */
static void replace_control_characters(char *text)
{
    for (unsigned char *s = (unsigned char *)text; *s; s++)
        if ((*s < 0x20 && *s != '\n' && *s != '\t') || *s == 0x7f)
            *s = '?';
        else if (*s == 0xc2 && s[1] >= 0x80 && s[1] < 0xa0)
            s[0] = s[1] = '?';
}

void yk_log_print(yk_log_level level, const char *format, ...)
{
    char text[4096];
    if (!current)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    replace_control_characters(text);
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

void yk_progress(const char *format, ...)
{
    if (!yk_progress_wanted())
        return;
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    replace_control_characters(text);
    current->progress(current->context, text);
}

void yk_progress_end(void)
{
    if (yk_progress_wanted())
        current->progress(current->context, NULL);
}
