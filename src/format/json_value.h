/* Reading values of JSON objects, such as a summary, by their paths. (base/json.h writes JSON.)
 *
 * Example:
 *     double cpu = yk_number_at(summary, "resources.cpu.mean"); // NAN: there is none, or `summary` is NULL
 *
 * Values are borrowed from the object. Any thread may call these.
 */
#ifndef YK_FORMAT_JSON_VALUE_H
#define YK_FORMAT_JSON_VALUE_H

#include <jansson.h>

const json_t *yk_value_at(const json_t *from, const char *path); /* NULL: none, or null */
double yk_number_at(const json_t *from, const char *path);       /* NAN: not a number; true is 1, false 0 */
const char *yk_string_at(const json_t *from, const char *path);  /* NULL: not a string, or "" */

#endif
