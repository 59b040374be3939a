/* Notes, warnings and progress for the user, delivered to the log of the calling thread.
 *
 * Example:
 *     static const yk_log log = {.line = print_line, .progress = NULL};
 *     yk_log_set(&log);                                  // for this thread and those that it starts (base/sync.h)
 *     yk_note("loaded %zu examples", n);
 *     yk_progress("step %ld  loss %.4f", step, loss);    // nothing: the log shows no progress
 *
 * A thread without a log discards them. The program's log writes to stderr (cli/terminal.h); that of the library calls
 * the `log` function of yoke.h. The bytes of control characters, and of characters that change the direction of
 * text, are replaced by '?': a message may quote an untrusted file, and a terminal would interpret them.
 */
#ifndef YK_BASE_LOG_H
#define YK_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

typedef enum { YK_LOG_NOTE, YK_LOG_WARNING, YK_LOG_ERROR, YK_LOG_PROGRESS } yk_log_level;

/* Any thread that inherited the log may call these, even at the same time as others. */
typedef struct {
    void (*line)(void *context, yk_log_level level, const char *text); /* without a newline */
    void (*progress)(void *context, const char *text); /* replaces the last one; NULL: removes it */
    bool (*wants_progress)(void *context);             /* NULL: no progress is shown */
    void *context;
    int (*width)(void); /* characters of a line in the window; NULL or 0: not limited */
} yk_log;

void yk_log_set(const yk_log *log); /* borrowed; NULL: discard everything */
const yk_log *yk_log_get(void);

void yk_log_print(yk_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
#define yk_note(...)          yk_log_print(YK_LOG_NOTE, __VA_ARGS__)
#define yk_warn(...)          yk_log_print(YK_LOG_WARNING, __VA_ARGS__)
#define yk_report_error(text) yk_log_print(YK_LOG_ERROR, "%s", text)
#define yk_progress(...)      yk_log_print(YK_LOG_PROGRESS, __VA_ARGS__)

int yk_log_width(void);                  /* characters of a line; INT_MAX: not limited */
void yk_log_clean(char *text, size_t n); /* replaces these characters in n bytes, in place */

bool yk_progress_wanted(void);
void yk_progress_end(void);

#endif
