/* The log of the program (base/log.h): notes, warnings and errors on stderr, one line each. On a terminal there is also a
 * progress line, which is redrawn after other lines. If stdout is a terminal, control characters in it are
 * replaced, as in the log.
 *
 * Example:
 *     yk_terminal_use();                  // at the start of main(): for this thread and the threads it starts
 *     yk_terminal_quiet(true);            // --quiet
 *
 * The state is global: a program has one stderr. Any thread may call these.
 */
#ifndef YK_CLI_TERMINAL_H
#define YK_CLI_TERMINAL_H

#include "base/log.h"
#include <stdbool.h>

void yk_terminal_use(void);
void yk_terminal_quiet(bool quiet); /* print only warnings and errors */

/* In a job of several processes lines begin with the rank, and only rank 0 prints notes and progress. -1: a single
 * process. */
void yk_terminal_rank(int rank);

#endif
