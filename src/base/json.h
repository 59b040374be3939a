/* Writing JSON: results, JSON lines, the live page, timelines. (jansson reads JSON.)
 *
 * Example:
 *     yk_json j = {.digits = 9};
 *     yk_json_object(&j, NULL); // the document itself has no name
 *     yk_json_text(&j, "model", "lenet5");
 *     yk_json_array(&j, "counts");
 *     yk_json_int(&j, NULL, 7); // array elements have no name either
 *     yk_json_end(&j);
 *     yk_json_real(&j, "loss", NAN);
 *     yk_json_end(&j);
 *     char *text = yk_json_take(&j); // {"model":"lenet5","counts":[7],"loss":null}; the caller frees it
 *
 * Numbers that are not finite and NULL strings become null; bytes that are not UTF-8 become U+FFFD. Real numbers always
 * have a decimal point or an exponent. The only possible error is running out of memory: later calls then do nothing,
 * and yk_json_take() and yk_json_write() report it. A writer is plain data for one thread.
 */
#ifndef YK_BASE_JSON_H
#define YK_BASE_JSON_H

#include "base/file.h"
#include "base/text.h"

enum { YK_JSON_DEPTH = 31 }; /* maximum nesting of objects and arrays */

typedef struct {
    /* options: */
    int digits;          /* significant digits of real numbers; 0: 9 */
    bool indent;         /* one value per line */
    const char *between; /* separates top-level values; NULL: nothing */
    /* private: */
    yk_text out;
    unsigned depth;
    uint32_t array, filled; /* one bit per depth: it is an array; it is not empty */
} yk_json;

void yk_json_object(yk_json *j, const char *name);
void yk_json_array(yk_json *j, const char *name);
void yk_json_end(yk_json *j); /* ends the innermost object or array */

void yk_json_text(yk_json *j, const char *name, const char *value);
void yk_json_real(yk_json *j, const char *name, double value);
void yk_json_fixed(yk_json *j, const char *name, double value, int decimals);
void yk_json_int(yk_json *j, const char *name, int64_t value);
void yk_json_bool(yk_json *j, const char *name, bool value);
void yk_json_null(yk_json *j, const char *name);
void yk_json_raw(yk_json *j, const char *name, const char *json); /* a value that is JSON already */
void yk_json_int_or_null(yk_json *j, const char *name, bool known, int64_t value); /* null unless known */

/* Several at once: YK_JSON_REALS(&j, {"mean", mean}, {"peak", peak}); */
#define YK_JSON_TEXTS(j, ...) yk__json_texts(j, (const yk__json_text[]){__VA_ARGS__, {NULL, NULL}})
#define YK_JSON_REALS(j, ...) yk__json_reals(j, (const yk__json_real[]){__VA_ARGS__, {NULL, 0}})
#define YK_JSON_INTS(j, ...)  yk__json_ints(j, (const yk__json_int[]){__VA_ARGS__, {NULL, 0}})

typedef struct {
    const char *name, *value;
} yk__json_text;
typedef struct {
    const char *name;
    double value;
} yk__json_real;
typedef struct {
    const char *name;
    int64_t value;
} yk__json_int;

void yk__json_texts(yk_json *j, const yk__json_text *v);
void yk__json_reals(yk_json *j, const yk__json_real *v);
void yk__json_ints(yk_json *j, const yk__json_int *v);

char *yk_json_take(yk_json *j); /* NULL: out of memory */

/* Writes the text as one line and starts the next one in the same memory. */
yk_status yk_json_write(yk_json *j, yk_file *f);

void yk_json_fini(yk_json *j);

/* The length of the UTF-8 sequence at s, 0 if it is invalid (RFC 3629); and whether a whole string is valid. */
size_t yk_utf8_length(const char *s);
bool yk_is_utf8(const char *s);

/* How many of the first `max` bytes of s belong to whole characters, for "%.*s". */
int yk_utf8_cut(const char *s, size_t max);

/* Columns that n bytes take on a terminal: one per character, two for East Asian scripts and emoji, none for combining marks. */
int yk_utf8_width(const char *s, size_t n);

#endif
