/* What the program says to a person: notes, warnings and errors on stderr, one line each, and on a terminal
 * one progress line that is redrawn in place and gets out of the way of the other lines.
 *
 *     yk_note("loaded %zu examples", n);
 *     yk_progress("step %ld  loss %.4f", step, loss);   // nothing unless stderr is a terminal
 *
 * Any thread may call these. Results (stdout) are not printed here.
 */
#ifndef YK_BASE_LOG_H
#define YK_BASE_LOG_H

#include <stdbool.h>

/* In a job of several processes: lines carry the rank in front, and only rank 0 says notes and progress; -1: there are no
 * others. */
void yk_log_rank(int rank);

void yk_log_quiet(bool quiet); /* --quiet: no notes and no progress; warnings and errors stay */

void yk_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void yk_warn(const char *format, ...) __attribute__((format(printf, 1, 2), cold));
void yk_report_error(const char *text); /* "yoke: error: TEXT" */

bool yk_progress_wanted(void);
void yk_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
void yk_progress_end(void); /* leaves the cursor on a fresh line */

#endif
