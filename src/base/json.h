/* Writing JSON: results, JSON lines, the live page, timelines. (jansson reads JSON.)
 *
 * Example:
 *     yk_json j = {.digits = 9};
 *     yk_json_object(&j, NULL); // the document itself has no name
 *     yk_json_text(&j, "model", "lenet5");
 *     YK_JSON(&j, YK_ARRAY("counts"), YK_INT(NULL, 7), YK_END, YK_REAL("loss", NAN)); // array elements have no name either
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
    bool known_only;     /* omits numbers that are not finite */
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
void yk_json_null(yk_json *j, const char *name);
void yk_json_raw(yk_json *j, const char *name,
                 const char *json); /* a value that is JSON already; NULL: null */

/* Several values at once, in their order. */
#define YK_JSON(j, ...) yk_json_put(j, (const yk_json_item[]){__VA_ARGS__, {0}})

#define YK_OBJECT(name)      ((yk_json_item){'{', name})
#define YK_ARRAY(name)       ((yk_json_item){'[', name})
#define YK_END               ((yk_json_item){'}'})
#define YK_TEXT(name, value) ((yk_json_item){'t', name, {.text = (value)}})
#define YK_REAL(name, value) ((yk_json_item){'r', name, {.real = (value)}})
#define YK_INT(name, value)  ((yk_json_item){'i', name, {.whole = (int64_t)(value)}})
#define YK_INT_OR_NULL(name, known, value)                                                                   \
    ((yk_json_item){(known) ? 'i' : 'n', name, {.whole = (int64_t)(value)}})
#define YK_RAW(name, json)              ((yk_json_item){'j', name, {.text = (json)}})
#define YK_BOOL(name, value)            ((yk_json_item){'b', name, {.whole = (value)}})
#define YK_FIXED(name, value, decimals) ((yk_json_item){'f', name, {.real = (value)}, decimals})
#define YK_IF(condition, item)          ((condition) ? (item) : (yk_json_item){' '}) /* otherwise omitted */

typedef struct {
    char kind; /* set by the macros above; 0: the end */
    const char *name;
    union {
        const char *text;
        double real;
        int64_t whole;
    };
    int decimals;
} yk_json_item;

void yk_json_put(yk_json *j, const yk_json_item *item);

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
