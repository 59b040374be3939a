/* Files of JSON lines that are appended to: metrics.jsonl, resources.jsonl. The readers expect lines that yoke wrote, in
 * which a key never occurs inside a string: they search for it, because a JSON library, which allocates every value, takes
 * ten times as long. Any thread may call these. */
#ifndef YK_OBSERVE_LINES_H
#define YK_OBSERVE_LINES_H

#include "base/status.h"

/* Removes the lines whose number `key` is above `max`: a resumed run repeats the steps after its checkpoint. A missing file
 * is not an error. */
yk_status yk_lines_cut(const char *run_dir, const char *name, const char *key, double max);

/* The last complete line with `key`; "": none. */
void yk_lines_last(const char *run_dir, const char *name, const char *key, char *line, size_t size);

const char *yk_line_value(const char *line, const char *key); /* what follows "key":, or NULL */
double yk_line_number(const char *line, const char *key);     /* NaN: missing */
void yk_line_text(const char *line, const char *key, char *out, size_t size);

#endif
