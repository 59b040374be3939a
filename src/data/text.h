/* What the text formats have in common: a record is a line. A format gives a function that parses one line.
 *
 *     static yk_status parse(yk_text_reader *r, const char *line, size_t length, yk_rows *rows, bool *added_out)
 *     {
 *         if (*line != '0' && *line != '1')
 *             return yk__text_bad(r, line, "the label is not 0 or 1");    // OK where --skip-bad lets it pass
 *         ...
 *     }
 *     const yk_source_ops yk__csv_source = YK__TEXT_SOURCE("csv", csv, csv_open);
 *     // csv_open() sets s->text.parse and calls yk__text_open(&s->text, spec->where), which finds the files
 *
 * line[length] can be read: it is the newline, a carriage return or zero, so a scan for digits needs no other
 * end; and so can be the 7 bytes after it. A line belongs to the block that its first byte lies in; plain or
 * compressed files.
 *
 * A format's source embeds yk_text_source as its first member.
 */
#ifndef YK_DATA_TEXT_H
#define YK_DATA_TEXT_H

#include "data/formats.h"

typedef struct {
    yk__file_reader base;
    uint64_t end;    /* lines that begin before this offset are ours */
    uint64_t offset; /* of the line at hand */
    uint64_t lines;  /* of the block so far, the one at hand included */
    uint64_t before; /* lines of the file before the block; UINT64_MAX: not counted yet */
    const char *line;
} yk_text_reader;

typedef struct {
    yk__file_source base;
    /* Adds the line's example to rows, or nothing (a comment, a bad record that may be skipped). */
    yk_status (*parse)(yk_text_reader *r, const char *line, size_t length, yk_rows *rows, bool *added_out);
} yk_text_source;

yk_status yk__text_open(yk_text_source *s, const char *where);
yk_status yk__text_reader_open(yk_reader *r);
yk_status yk__text_next(yk_reader *r, yk_rows *rows, size_t max, size_t *got_out);

#define YK__TEXT_SOURCE(format, type, opener)                                                                \
    {                                                                                                        \
        .name = format, .usage = format ":FILES", .source_size = sizeof(type),                               \
        .reader_size = sizeof(yk_text_reader), .open = opener, .free = yk__file_free,                        \
        .reader_open = yk__text_reader_open, .reader_close = yk__file_reader_close, .next = yk__text_next    \
    }

/* The line at hand is bad, at `at` in it; returns what yk_source_bad() says. */
yk_status yk__text_bad(yk_text_reader *r, const char *at, const char *reason, ...)
    __attribute__((format(printf, 3, 4), cold));

/* The word at `at`, for messages: up to white space, at most 40 bytes, what cannot be printed as '?'. */
const char *yk__text_word(const char *at, char word_out[48]) __attribute__((cold));

#endif
