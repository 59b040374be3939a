#include "base/status.h"

#include <stdio.h>

static _Thread_local char error_text[2048];

yk_status yk_fail(yk_status status, const char *format, ...)
{
    /* The arguments may point into error_text itself ("%s: ...", yk_error()). */
    char text[sizeof error_text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(error_text, sizeof error_text, "%s", text);
    return status;
}

yk_status yk_fail_memory(unsigned long long bytes, const char *what)
{
    return yk_fail(YK_ESYSTEM,
                   "out of memory: %llu bytes for %s; free memory, or use a smaller model, batch or data set",
                   bytes, what);
}

const char *yk_error(void)
{
    return error_text;
}

static const struct {
    int code;
    const char *text;
} statuses[] = {
#define YK_STATUS_ROW(name, code, text) {code, text},
    YK_STATUS_LIST(YK_STATUS_ROW)
#undef YK_STATUS_ROW
};

int yk_status_exit(yk_status status)
{
    return statuses[status].code;
}

const char *yk_status_text(yk_status status)
{
    return statuses[status].text;
}
