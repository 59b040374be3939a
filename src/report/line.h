/* A line of a .jsonl file, field by field, without building a tree of it.
 *
 *     yk_line l;
 *     yk_field f;
 *     int more = yk_line_open(text, size, &l) ? 1 : -1;
 *     while (more > 0 && (more = yk_line_next(&l, &f)) > 0)
 *         if (f.kind == YK_FIELD_NUMBER && yk_field_is(&f, "loss"))
 *             loss = f.number;
 *     // more: 0 the whole line was an object, -1 it was not (half a line of a run that was killed, say)
 *
 * Logs have hundreds of thousands of lines with the same few numbers; a JSON library that allocates each of them takes
 * ten times as long as this. What is inside of an object or array is handed out as text: open it with yk_line_open.
 * Everything is borrowed from the line. A key or a text with an escape in it is handed out as it is written.
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
    double number;      /* true is 1, null is not a number */
    const char *text;   /* TEXT: between its quotes; OBJECT, ARRAY: with its brackets */
    size_t size;
} yk_field;

typedef struct {
    const char *at, *end;
    bool begun;
} yk_line;

bool yk_line_open(const char *text, size_t size, yk_line *out); /* is it an object? */

/* 1: a field; 0: that was all, and nothing but blanks follows; -1: this is not an object. */
int yk_line_next(yk_line *l, yk_field *out);

static inline bool yk_field_is(const yk_field *f, const char *name)
{
    return strlen(name) == f->key_size && memcmp(f->key, name, f->key_size) == 0;
}

static inline bool yk_field_says(const yk_field *f, const char *text)
{
    return strlen(text) == f->size && memcmp(f->text, text, f->size) == 0;
}

#endif
