/* Reads a line of a .jsonl file field by field, without building a tree.
 *
 * Logs have hundreds of thousands of lines with the same few numbers: a JSON library, which allocates each of them, takes
 * ten times as long. Values that are objects or arrays are returned as text, to be opened with yk_line_open(). Escapes in
 * keys and texts are not decoded.
 *
 * Example:
 *     yk_line l;
 *     yk_field f;
 *     double loss = 0.0;
 *     int more = yk_line_open(text, size, &l) ? 1 : -1;
 *     while (more > 0 && (more = yk_line_next(&l, &f)) > 0)
 *         if (f.kind == YK_FIELD_NUMBER && yk_field_is(&f, "loss"))
 *             loss = f.number;
 *     bool ok = more == 0;      // -1: not an object, for example half a line of a killed run
 *
 * Everything is borrowed from the line. Thread-safe.
 */
#ifndef YK_REPORT_LINE_H
#define YK_REPORT_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef enum { YK_FIELD_NONE, YK_FIELD_NUMBER, YK_FIELD_TEXT, YK_FIELD_OBJECT, YK_FIELD_ARRAY } yk_field_kind;

typedef struct {
    const char *key;
    size_t key_size;
    yk_field_kind kind; /* NONE: null, true or false */
    double number;      /* true is 1, false 0, null NAN */
    const char *text;   /* TEXT: between its quotes; OBJECT, ARRAY: with its brackets */
    size_t size;
} yk_field;

typedef struct {
    const char *at, *end;
    bool begun;
} yk_line;

bool yk_line_open(const char *text, size_t size, yk_line *out); /* whether it begins an object */

/* 1: a field; 0: the object has ended, and only blanks follow; -1: it is not a valid object. */
int yk_line_next(yk_line *l, yk_field *out);

static inline bool yk_field_is(const yk_field *f, const char *name)
{
    return strlen(name) == f->key_size && memcmp(f->key, name, f->key_size) == 0;
}

static inline bool yk_field_equals(const yk_field *f, const char *text)
{
    return strlen(text) == f->size && memcmp(f->text, text, f->size) == 0;
}

#endif
