/* An inspection (data/inspect.h) on stdout: as a page for people, or as one line of JSON for programs.
 *
 *     st = yk_inspection_print("idx:mnist", &inspection);
 *     st = yk_inspection_print_json("idx:mnist", &inspection);
 *
 * The page ends with the first records: images that are at most 32 pixels wide are drawn, others are listed.
 * YK_ESYSTEM: stdout does not take it.
 */
#ifndef YK_CLI_SHOW_INSPECTION_H
#define YK_CLI_SHOW_INSPECTION_H

#include "base/json.h"
#include "data/inspect.h"

yk_status yk_inspection_print(const char *spec, const yk_inspection *i);
yk_status yk_inspection_print_json(const char *spec, const yk_inspection *i);

/* "1.3 MB"; powers of a thousand. Returns `text`. */
const char *yk_bytes_text(uint64_t bytes, char text[24]);

/* One line on stdout; j is empty afterwards. */
yk_status yk_json_print(yk_json *j);

#endif
