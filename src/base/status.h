/* Errors are values: 0 is OK, the rest come from the list below.
 *
 * Whoever detects an error describes it once with yk_fail(), naming the file, offset, rank or option and the
 * remedy; its callers pass the status on unchanged. The text is kept per thread:
 *
 *     if (fd < 0)
 *         return yk_fail(YK_EDATA, "%s: cannot open: %s", path, strerror(errno));
 *     ...
 *     if ((st = yk_reader_next(r, &rec)))
 *         goto close_reader;                // the text travels with the thread
 *
 * This header also brings bool, size_t, va_list and the integer types: files that include it need no other header for them.
 *
 * A thread that ends with an error hands its text over: yk_error() there, yk_fail(st, "%s", text) here.
 */
#ifndef YK_BASE_STATUS_H
#define YK_BASE_STATUS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* name, exit status of the program, meaning */
#define YK_STATUS_LIST(X)                                                                                    \
    X(YK_OK, 0, "ok")                                                                                        \
    X(YK_EDIVERGED, 1, "training failed: it diverged")                                                       \
    X(YK_ELOST, 1, "training failed: a worker or server was lost")                                           \
    X(YK_EUSAGE, 2, "the command line or the configuration is wrong")                                        \
    X(YK_EDATA, 3, "bad data")                                                                               \
    X(YK_ESYSTEM, 4, "system error")                                                                         \
    X(YK_ESTOP, 1, "another worker stopped the run")                                                         \
    X(YK_EINTERRUPTED, 0, "stopped by a signal before training began")

typedef enum {
#define YK_STATUS_ENUM(name, code, text) name,
    YK_STATUS_LIST(YK_STATUS_ENUM)
#undef YK_STATUS_ENUM
} yk_status;

/* Sets this thread's error text (truncated to about 2000 bytes) and returns `status`. */
yk_status yk_fail(yk_status status, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* "out of memory" with the size and what it was for. */
yk_status yk_fail_memory(unsigned long long bytes, const char *what) __attribute__((cold));

/* The text of this thread's last yk_fail(); "" when there was none. Borrowed until the next yk_fail(). */
const char *yk_error(void);

int yk_status_exit(yk_status status);
const char *yk_status_text(yk_status status);

/* For messages: "%llu example%s", n, yk_plural(n). */
static inline const char *yk_plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

#endif
