#include "cli/terminal.h"

#include "base/number.h"
#include "cli/channel.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool quiet;
static int rank = -1;
static bool line_shown; /* a progress line is on the terminal */

void yk_terminal_quiet(bool on)
{
    quiet = on;
}

void yk_terminal_rank(int r)
{
    rank = r;
}

/* Characters of a line on the terminal that shows our stderr, directly or forwarded by the launcher; 0: none. */
static int width(void)
{
    struct winsize size = {0};
    const int prefix = rank < 0 ? 0 : rank < 10 ? 4 : 8; /* "[0] " */
    const int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0
                            ? size.ws_col
                            : (int)yk_env_number("YK_PROGRESS", isatty(STDERR_FILENO) ? 80 : 0);
    return columns > 1 + prefix ? columns - 1 - prefix : 0;
}

static void clear_line(void)
{
    if (line_shown)
        fputs("\r\033[K", stderr);
    line_shown = false;
}

static void print_line(void *context, yk_log_level level, const char *text)
{
    static const char *const prefix[] = {"", "yoke: warning: ", "yoke: error: "};
    (void)context;
    if (level == YK_LOG_NOTE && (quiet || rank > 0))
        return;
    char line[4200], source[16] = "";
    if (rank >= 0)
        snprintf(source, sizeof source, "[%d] ", rank);
    int n = snprintf(line, sizeof line - 1, "%s%s%s", source, prefix[level], text);
    n = n < (int)sizeof line - 2 ? n : (int)sizeof line - 2;
    line[n++] = '\n';
    pthread_mutex_lock(&lock);
    clear_line();
    fwrite(line, 1, (size_t)n, stderr); /* one write, so that lines of several processes do not mix */
    fflush(stderr);
    pthread_mutex_unlock(&lock);
}

static bool wants_progress(void *context)
{
    (void)context;
    return !quiet && rank <= 0 && width() > 0;
}

static void show_progress(void *context, const char *text)
{
    (void)context;
    const int max = width();
    int n = text ? (int)strlen(text) : 0;
    while (n > max) { /* whole fields only */
        for (n--; n > 0 && (text[n] != ' ' || text[n - 1] != ' ');)
            n--;
        n = n > 0 ? n - 1 : max;
    }
    pthread_mutex_lock(&lock);
    clear_line();
    if (text)
        fprintf(stderr, "\r\033[K%.*s", n, text);
    line_shown = text;
    fflush(stderr);
    pthread_mutex_unlock(&lock);
}

/* Like messages, tables may contain names from untrusted files. */
static ssize_t write_clean(void *context, const char *text, size_t n)
{
    char part[1024];
    (void)context;
    for (size_t done = 0, m; done < n; done += m) {
        m = n - done < sizeof part ? n - done : sizeof part;
        while (m > 1 && done + m < n && (text[done + m] & 0xc0) == 0x80) /* whole characters */
            m--;
        memcpy(part, text + done, m);
        yk_log_clean(part, m);
        if (!yk_write_all(STDOUT_FILENO, part, m))
            return 0;
    }
    return (ssize_t)n;
}

static void clean_stdout(void)
{
    FILE *to =
        isatty(STDOUT_FILENO) ? fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_clean}) : NULL;
    if (!to)
        return;
    setvbuf(to, NULL, _IOLBF, 0);
    stdout = to;
}

void yk_terminal_use(void)
{
    clean_stdout();
    static const yk_log log = {print_line, show_progress, wants_progress, NULL, width};
    yk_log_set(&log);
}
