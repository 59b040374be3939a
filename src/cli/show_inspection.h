/* Prints an inspection (data/inspect.h) to stdout, as text or as one line of JSON.
 *
 * Example:
 *     yk_status st = yk_inspection_print("idx:mnist", &inspection); // YK_ESYSTEM: cannot write to stdout
 *     if (!st)
 *         st = yk_inspection_print_json("idx:mnist", &inspection);
 *
 * The text ends with the first records. Images up to 32 pixels wide are drawn, other records are listed. Main thread only.
 */
#ifndef YK_CLI_SHOW_INSPECTION_H
#define YK_CLI_SHOW_INSPECTION_H

#include "data/inspect.h"

yk_status yk_inspection_print(const char *spec, const yk_inspection *i);
yk_status yk_inspection_print_json(const char *spec, const yk_inspection *i);

#endif
