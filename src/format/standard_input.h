/* Private to input.c: standard input, which a process can read once.
 *
 * An input that was only peeked at is kept for the next reader, because detecting the format and reading the data use two
 * readers. This state is global to the process, like standard input itself. Any thread may call these functions.
 */
#ifndef YK_FORMAT_STANDARD_INPUT_H
#define YK_FORMAT_STANDARD_INPUT_H

#include "format/input.h"

/* *unread_out: an input to continue with; NULL: read from *fd_out, a duplicate. YK_EUSAGE: it was already read. */
yk_status yk__stdin_open(int *fd_out, yk_input **unread_out);

/* Keeps an input from which nothing was consumed; returns false if another one is already kept. */
bool yk__stdin_keep(yk_input *in);

#endif
