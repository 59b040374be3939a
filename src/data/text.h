/* What the text formats have in common: a record is a line. A format gives a function that parses one line.
 *
 *     static yk_status parse(yk_text_reader *r, const char *line, size_t length, yk_rows *rows, bool *added_out)
 *     {
 *         if (*line != '0' && *line != '1')
 *             return yk__text_bad(r, line, "the label is not 0 or 1");    // OK where --skip-bad lets it pass
 *         ...
 *     }
 *     s->parse = parse;
 *     st = yk__text_open(&s->text, "criteo", spec->where);      // finds the files, cuts them into blocks, sets the verbs
 *
 * line[length] can be read: it is the newline, a carriage return or zero, so a scan for digits needs no other
 * end; and so can be the 7 bytes after it. A line belongs to the block that its first byte lies in; plain or
 * compressed files.
 *
 * A format's source embeds yk_text_source as its first member and is a heap object made by calloc(); the source
 * frees itself.
 */
#ifndef YK_DATA_TEXT_H
#define YK_DATA_TEXT_H

#include "data/files.h"
#include "data/source.h"
#include "format/input.h"

typedef struct {
    yk_reader base;
    yk_input *in;
    uint64_t end;    /* lines that begin before this offset are ours */
    uint64_t offset; /* of the line at hand */
    uint64_t lines;  /* of the block so far, the one at hand included */
    uint64_t before; /* lines of the file before the block; UINT64_MAX: not counted yet */
    const char *line;
} yk_text_reader;

typedef struct {
    yk_source base;
    yk_files files;
    yk_source_ops ops; /* the verbs, under the format's name */
    /* Adds the line's example to rows, or nothing (a comment, a bad record that may be skipped). */
    yk_status (*parse)(yk_text_reader *r, const char *line, size_t length, yk_rows *rows, bool *added_out);
} yk_text_source;

/* `name` is kept: a string literal. On failure nothing is held, and s itself is still the caller's. */
yk_status yk__text_open(yk_text_source *s, const char *name, const char *where);

/* The line at hand is bad, at `at` in it; returns what yk_source_bad() says. */
yk_status yk__text_bad(yk_text_reader *r, const char *at, const char *reason, ...)
    __attribute__((format(printf, 3, 4), cold));

/* The word at `at`, for messages: up to white space, at most 40 bytes, what cannot be printed as '?'. */
const char *yk__text_word(const char *at, char word_out[48]) __attribute__((cold));

#endif
