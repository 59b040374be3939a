#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool quiet;
static bool line_shown; /* a progress line stands on the terminal */

void yk_log_quiet(bool on)
{
    quiet = on;
}

static void clear_line(void)
{
    if (line_shown)
        fputs("\r\033[K", stderr);
    line_shown = false;
}

static void say(const char *prefix, const char *format, va_list args)
{
    pthread_mutex_lock(&lock);
    clear_line();
    fputs(prefix, stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    fflush(stderr);
    pthread_mutex_unlock(&lock);
}

void yk_note(const char *format, ...)
{
    if (quiet)
        return;
    va_list args;
    va_start(args, format);
    say("", format, args);
    va_end(args);
}

void yk_warn(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("yoke: warning: ", format, args);
    va_end(args);
}

static void say_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("yoke: error: ", format, args);
    va_end(args);
}

void yk_report_error(const char *text)
{
    say_error("%s", text);
}

bool yk_progress_wanted(void)
{
    return !quiet && isatty(STDERR_FILENO);
}

void yk_progress(const char *format, ...)
{
    if (!yk_progress_wanted())
        return;
    struct winsize size = {0};
    int width = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col - 1 : 79;
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&lock);
    fprintf(stderr, "\r\033[K%.*s", width, text);
    fflush(stderr);
    line_shown = true;
    pthread_mutex_unlock(&lock);
}

void yk_progress_end(void)
{
    pthread_mutex_lock(&lock);
    clear_line();
    fflush(stderr);
    pthread_mutex_unlock(&lock);
}
