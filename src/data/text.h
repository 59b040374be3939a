/* Base of the text formats, whose records are lines. A format provides a function that parses one line:
 *
 *     static yk_status parse(yk_text_reader *r, const char *line, size_t length, yk_rows *rows)
 *     {
 *         if (*line != '0' && *line != '1')
 *             return yk__text_bad(r, line, "the label is not 0 or 1");    // YK_OK if --skip-bad allows it
 *         ...
 *     }
 *     const yk_source_ops yk__arff_source = {.name = "arff", .options = "features", .open = arff_open, .parse = parse};
 *     // arff_open() calls yk__text_open(source), which finds the files. Rows are sparse;
 *     // for dense ones, it then sets source->kind, and source->dim, which must be known before the first line is read
 *
 * line[length] and the 63 bytes after it can be read. line[length] is a newline, a carriage return or zero, so a loop over
 * digits needs no other check for the end. A line belongs to the block that holds its first byte. Files are plain or
 * compressed. A reader is used by one thread.
 */
#ifndef YK_DATA_TEXT_H
#define YK_DATA_TEXT_H

#include "data/formats.h"
#include <string.h>

typedef struct yk_text_reader {
    yk_reader base;
    uint64_t end;    /* the block has the lines that begin before this offset */
    uint64_t offset; /* of the current line */
    uint64_t lines;  /* of the block so far, including the current one */
    uint64_t more;   /* lines after the first one that are part of the current one */
    uint64_t before; /* lines of the file before the block; UINT64_MAX: not counted yet */
    const char *line;
    yk_status status; /* what yk__text_bad() returned last */
} yk_text_reader;

/* The length of a byte-order mark at the beginning of a text: 3, or 0 if there is none. */
static inline size_t yk__bom(const void *text, size_t n)
{
    return n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
}

yk_status yk__text_open(yk_source *s); /* finds the files */
yk_status yk__text_reader_open(yk_reader *r);
yk_status yk__text_row(yk_reader *r, yk_rows *rows);
/* of its rows, if none is bad; the reader is used up */
yk_status yk__text_count(yk_reader *r, uint64_t *out);
/* The next line of the block that is a row, without a byte-order mark; *line_out is NULL at the end of the block. */
yk_status yk__text_line(yk_text_reader *r, const char **line_out, size_t *length_out);

enum { YK__MAX_LABEL = 1000000 };
#define YK__REGRESSION "for regression, use --loss squared, or --regression in yoke data"

/* Whether the number is the label of a class: -1, or a whole number from 0 on. */
static inline bool yk__is_class(double v)
{
    return v >= -1.0 && v <= YK__MAX_LABEL && v == (double)(int32_t)v;
}

/* Whether the label, a class number or -1, is consistent with all labels so far: -1 occurs only with 1. *seen starts as 0; any
 * thread may call this. */
bool yk__labels_agree(atomic_uint *seen, int32_t label);

/* Reports the current line as bad, at `at`; returns the result of yk_source_bad(). */
yk_status yk__text_bad(yk_text_reader *r, const char *at, const char *reason, ...)
    __attribute__((format(printf, 3, 4), cold));

/* The same for a function of a parser, which returns NULL or false; the status of the line is in r->status. */
#define YK__TEXT_BAD(...) (yk__text_bad(__VA_ARGS__), NULL)

/* Text for messages: about 40 bytes; control characters and invalid UTF-8 as '?'. A token ends at white space. */
const char *yk__text_show(const char *text, size_t n, char out[48]) __attribute__((cold));
const char *yk__text_token(const char *at, char out[48]) __attribute__((cold));

/* ---- eight characters at a time, in a 64-bit word */

#define YK__BYTES(b) ((uint64_t)(uint8_t)(b) * (uint64_t)0x0101010101010101)

/* The number that eight digits form. Each byte of x is a digit, 0 to 9; the first digit is the lowest byte. */
static inline uint32_t yk__text_number(uint64_t x)
{
    x = x * 10 + (x >> 8); /* pairs, in bytes 0, 2, 4, 6 */
    const uint64_t even = x & 0x000000ff000000ffu, odd = (x >> 16) & 0x000000ff000000ffu;
    return (uint32_t)((even * (100 + ((uint64_t)1000000 << 32)) + odd * (1 + ((uint64_t)10000 << 32))) >> 32);
}

/* A whole number of 1 to 8 digits, in the first n bytes of x. */
static inline bool yk__text_digits(uint64_t x, size_t n, uint32_t *out)
{
    x = (x ^ YK__BYTES('0')) << (64 - 8 * n); /* leading zeros are shifted in */
    if ((x | (x + YK__BYTES(0x76))) & YK__BYTES(0x80))
        return false;
    *out = yk__text_number(x);
    return true;
}

#endif
