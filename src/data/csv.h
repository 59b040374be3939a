/* csv:FILES: text files with columns, plain or compressed.
 *
 *     click,price,city,text
 *     1,9.5,Paris,"a ""quoted"" field, with a comma"
 *     0,,Rome,
 *
 * The options of the spec and the first lines, which csv_open.c reads, determine the schema (tabular.h, schema.h). csv.c reads rows.
 *
 * A line belongs to the block that holds its first byte. With multiline=1, quoted fields may contain line breaks; then a
 * file is one block, because a line break inside quotes cannot be distinguished from the end of a line.
 */
#ifndef YK_DATA_CSV_H
#define YK_DATA_CSV_H

#include "data/tabular.h"

#define YK__CSV_KEYS "header delimiter multiline split-by " YK_TABULAR_KEYS

/* A field of a line. */
typedef struct {
    const char *text; /* [n], without quotes; the 8 bytes after it are readable */
    size_t n;
    char *buffer; /* the text, if it has doubled quotes; owned */
    size_t cap;
} yk__csv_field;

typedef struct {
    yk_source base;
    yk_tabular table;
    char delimiter;
} yk__csv;

typedef struct {
    yk_text_reader text;
    yk__csv_field field;
    uint64_t *hash; /* [categories] */
} yk__csv_reader;

yk_status yk__csv_open(yk_source *s);

/* ---- fields */

typedef enum { YK__CSV_FIELD, YK__CSV_NO_QUOTE, YK__CSV_AFTER_QUOTE, YK__CSV_NO_MEMORY } yk__csv_result;

/* A field that begins with a quote; otherwise as yk__csv_read(). */
yk__csv_result yk__csv_unquote(yk__csv_field *f, const char **p, const char *end, char delimiter);

/* Finds a byte in a word: the lowest set bit marks its first occurrence. */
static inline uint64_t yk__csv_find(uint64_t x, uint64_t pattern)
{
    x ^= pattern;
    return (x - YK__BYTES(1)) & ~x & YK__BYTES(0x80);
}

/* Bytes up to the delimiter or the end of the line; the 8 bytes after the end must be readable. */
static inline size_t yk__csv_length(const char *p, const char *end, char delimiter)
{
    const char *q = p;
    for (;; q += 8) {
        uint64_t x;
        memcpy(&x, q, sizeof x);
        x = yk__csv_find(x, YK__BYTES(delimiter));
        if (x || end - q <= 8) {
            q += x ? __builtin_ctzll(x) >> 3 : 8;
            return (size_t)((q < end ? q : end) - p);
        }
    }
}

/* Reads the field at *p, and moves *p to the delimiter after it or to the end of the line. If the quotes are wrong, *p is
 * unchanged. */
static inline yk__csv_result yk__csv_read(yk__csv_field *f, const char **p, const char *end, char delimiter)
{
    if (__builtin_expect(**p == '"' && *p != end, 0))
        return yk__csv_unquote(f, p, end, delimiter);
    f->text = *p;
    f->n = yk__csv_length(*p, end, delimiter);
    *p += f->n;
    return YK__CSV_FIELD;
}

/* The name of a column in a header: like a field, but without blanks around it, unless they are quoted. */
static inline yk__csv_result yk__csv_read_name(yk__csv_field *f, const char **p, const char *end,
                                               char delimiter)
{
    const bool quoted = *p != end && **p == '"';
    const yk__csv_result result = yk__csv_read(f, p, end, delimiter);
    if (!result && !quoted)
        yk_cell_trim(&f->text, &f->n);
    return result;
}

#endif
