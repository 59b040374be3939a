#include "base/log.h"

#include "base/number.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool quiet;
static int rank = -1;
static bool line_shown; /* a progress line stands on the terminal */

void yk_log_quiet(bool on)
{
    quiet = on;
}

void yk_log_rank(int r)
{
    rank = r;
}

/* Where ours is not a terminal, but a launcher passes what we write on to one, it says how wide that is. */
static int passed_on_width(void)
{
    return (int)yk_env_number("YK_PROGRESS", 0);
}

static void clear_line(void)
{
    if (line_shown)
        fputs("\r\033[K", stderr);
    line_shown = false;
}

/* A message may quote an untrusted file, and terminals obey control characters, so these become '?'. The C1 control
 * characters are c2 80 to c2 9f in UTF-8. */
static void disarm(char *text, size_t n)
{
    for (unsigned char *s = (unsigned char *)text, *end = s + n; s < end; s++)
        if ((*s < 0x20 && *s != '\n' && *s != '\t') || *s == 0x7f)
            *s = '?';
        else if (*s == 0xc2 && s + 1 < end && s[1] >= 0x80 && s[1] < 0xa0)
            s[0] = s[1] = '?';
}

static void say(const char *prefix, const char *format, va_list args)
{
    pthread_mutex_lock(&lock);
    clear_line();
    char text[4096]; /* one write, so that lines of several processes do not mix */
    int n = rank >= 0 ? snprintf(text, sizeof text, "[%d] %s", rank, prefix)
                      : snprintf(text, sizeof text, "%s", prefix);
    n += vsnprintf(text + n, sizeof text - (size_t)n - 1, format, args);
    n = n < (int)sizeof text - 2 ? n : (int)sizeof text - 2;
    disarm(text, (size_t)n);
    text[n++] = '\n';
    fwrite(text, 1, (size_t)n, stderr);
    fflush(stderr);
    pthread_mutex_unlock(&lock);
}

void yk_note(const char *format, ...)
{
    if (quiet || rank > 0)
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
    return !quiet && rank <= 0 && (isatty(STDERR_FILENO) || passed_on_width() > 0);
}

void yk_progress(const char *format, ...)
{
    if (!yk_progress_wanted())
        return;
    struct winsize size = {0};
    int width = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col - 1
                : passed_on_width() > 20                                         ? passed_on_width() - 1
                                                                                 : 79;
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
