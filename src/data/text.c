#include "data/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define COUNT_MOST                                                                                           \
    ((uint64_t)4 << 30) /* further into a file, counting its lines for a message takes too long */
#define BAD_SHOWN 3     /* skipped records that are told one by one, as in source.c */

yk_status yk__text_reader_open(yk_reader *reader)
{
    yk_text_reader *r = (yk_text_reader *)reader;
    const yk_file_block *b = &((const yk__file_source *)reader->source)->files.block[reader->block];
    size_t length;
    r->base.block = b;
    r->end = b->end;
    r->before = b->begin ? UINT64_MAX : 0;
    /* One byte early: whether a line begins at `begin` is known from the byte before it. */
    yk_status st = yk_input_open(b->path, b->begin ? b->begin - 1 : 0, &r->base.in);
    if (!st)
        yk_input_expect(r->base.in, b->end);
    return st || !b->begin ? st : yk_input_line(r->base.in, &r->line, &length);
}

/* Blocks in the middle of a file do not know their line numbers. Nobody pays for that until a line is bad. */
static uint64_t count_lines(const char *path, uint64_t end)
{
    yk_input *in;
    if (yk_input_open(path, 0, &in))
        return 0;
    uint64_t lines = 0, left = end;
    while (left) {
        const uint8_t *p;
        size_t have;
        if (yk_input_peek(in, 1, &p, &have) || have == 0)
            break;
        have = have < left ? have : (size_t)left;
        for (size_t i = 0; i < have; i++)
            lines += p[i] == '\n';
        yk_input_skip(in, have);
        left -= have;
    }
    yk_input_free(in);
    return lines;
}

/* The number of the line at hand; UINT64_MAX where it takes too long to find out or is not told anyway. */
static uint64_t line_number(yk_text_reader *r)
{
    const yk_source *s = r->base.base.source;
    uint64_t skipped = atomic_load(&s->bad);
    if (r->before == UINT64_MAX && skipped >= BAD_SHOWN && skipped < s->skip_bad)
        return UINT64_MAX;
    if (r->before == UINT64_MAX && r->offset > COUNT_MOST)
        return UINT64_MAX;
    if (r->before == UINT64_MAX)
        r->before = count_lines(yk_input_path(r->base.in), r->offset) - (r->lines - 1);
    return r->before + r->lines;
}

yk_status yk__text_bad(yk_text_reader *r, const char *at, const char *reason, ...)
{
    char text[512];
    va_list args;
    va_start(args, reason);
    vsnprintf(text, sizeof text, reason, args);
    va_end(args);
    return yk_source_bad(r->base.base.source, yk_input_path(r->base.in), line_number(r),
                         r->offset + (uint64_t)(at - r->line), "%s", text);
}

/* A damaged compressed file, a line without end: a bad record and the end of the block. */
static yk_status input_failed(yk_text_reader *r, yk_status st)
{
    if (st != YK_EDATA)
        return st;
    r->lines++;
    r->end = 0;
    r->line = NULL;
    return yk_source_bad(r->base.base.source, yk_input_path(r->base.in), line_number(r),
                         yk_input_offset(r->base.in), "%s", yk_input_reason(r->base.in));
}

yk_status yk__text_next(yk_reader *reader, yk_rows *rows, size_t max, size_t *got_out)
{
    yk_text_reader *r = (yk_text_reader *)reader;
    const yk_text_source *s = (const yk_text_source *)reader->source;
    size_t got = 0;
    *got_out = 0;
    while (got < max && (r->offset = yk_input_offset(r->base.in)) < r->end) {
        size_t length;
        bool added = false;
        yk_status st = yk_input_line(r->base.in, &r->line, &length);
        if (st && (st = input_failed(r, st)))
            return st;
        if (!r->line)
            break;
        r->lines++;
        if ((st = s->parse(r, r->line, length, rows, &added)))
            return st;
        got += added;
    }
    *got_out = got;
    return YK_OK;
}

yk_status yk__text_open(yk_text_source *s, const char *where)
{
    s->base.base.kind = YK_ROWS_SPARSE;
    yk_status st = yk_files_find(where, &s->base.files);
    return st ? st : yk__file_blocks(&s->base, YK_BLOCK_BYTES);
}

const char *yk__text_word(const char *at, char word_out[48])
{
    size_t n = 0;
    for (; n < 40 && (unsigned char)at[n] > ' '; n++)
        word_out[n] = at[n] < 127 && at[n] > ' ' ? at[n] : '?';
    if (n == 40 && (unsigned char)at[n] > ' ')
        memcpy(word_out + n, "...", 4);
    else
        word_out[n] = 0;
    return word_out;
}
