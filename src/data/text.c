#include "data/text.h"

#include "base/json.h"
#include "base/log.h"
#include <stdio.h>

yk_status yk__text_reader_open(yk_reader *reader)
{
    yk_text_reader *r = (yk_text_reader *)reader;
    const yk_file_block *b = &reader->source->files.block[reader->block];
    size_t length;
    uint64_t lines;
    r->end = b->end;
    r->before = b->begin ? UINT64_MAX : 0;
    /* One byte before: it shows whether a line begins at `begin`. */
    const yk_status st = yk__file_reader_open(reader, b->begin > 0);
    return !st && b->begin ? yk_input_line(r->base.in, false, &r->line, &length, &lines) : st;
}

/* The number of the current line; UINT64_MAX if it takes too long to count or is not needed. A block in the middle of a file has no line
 * numbers until one is needed for a message. */
static uint64_t line_number(yk_text_reader *r)
{
    yk_input *in;
    const char *line = "";
    size_t length;
    uint64_t one;
    if (r->before == UINT64_MAX && !yk_source_bad_numbered(r->base.source, r->offset))
        return UINT64_MAX;
    if (r->before == UINT64_MAX) {
        r->before = 1 - r->lines;
        if (yk_input_open(r->base.in->path, 0, &in))
            return r->before + r->lines;
        while (in->offset < r->offset && !yk_input_line(in, false, &line, &length, &one) && line)
            r->before++;
        yk_input_free(in);
    }
    return r->before + r->lines;
}

yk_status yk__text_bad(yk_text_reader *r, const char *at, const char *reason, ...)
{
    char text[512];
    va_list args;
    va_start(args, reason);
    vsnprintf(text, sizeof text, reason, args);
    va_end(args);
    return r->status = yk_source_bad(r->base.source, r->base.in->path, line_number(r),
                                     r->offset + (uint64_t)(at - r->line), "%s", text);
}

yk_status yk__text_line(yk_text_reader *r, const char **line_out, size_t *length_out)
{
    const yk_source *s = r->base.source;
    for (;;) {
        *line_out = NULL;
        r->lines += r->more;
        r->more = 0;
        if ((r->offset = r->base.in->offset) >= r->end)
            return YK_OK;
        yk_status st = yk_input_line(r->base.in, s->quoted, &r->line, length_out, &r->more);
        if (st && st != YK_EDATA)
            return st;
        r->lines++;
        if (st) { /* a damaged compressed file or a line that is too long: a bad record, and the end of the block */
            r->end = 0;
            return yk_source_bad(r->base.source, r->base.in->path, line_number(r), r->base.in->offset, "%s",
                                 r->base.in->reason);
        }
        if (!r->line)
            return YK_OK;
        r->more--;
        const size_t mark = r->offset ? 0 : yk__bom(r->line, *length_out);
        *line_out = r->line + mark;
        *length_out -= mark;
        if (!s->ops->is_row || s->ops->is_row(*line_out, *length_out))
            return YK_OK;
    }
}

yk_status yk__text_row(yk_reader *reader, yk_rows *rows)
{
    yk_text_reader *r = (yk_text_reader *)reader;
    const char *line;
    size_t length;
    const yk_status st = yk__text_line(r, &line, &length);
    reader->ended = !line;
    return st || !line ? st : reader->source->ops->parse(r, line, length, rows);
}

yk_status yk__text_count(yk_reader *reader, uint64_t *out)
{
    const char *line;
    size_t length;
    yk_status st;
    *out = 0;
    while (!(st = yk__text_line((yk_text_reader *)reader, &line, &length)) && line)
        ++*out;
    return st;
}

yk_status yk__text_open(yk_source *s)
{
    s->kind = YK_ROWS_SPARSE;
    s->once = !strcmp(s->parsed.where, YK_STDIN);
    yk_status st = yk_files_find(s->parsed.where, &s->files);
    return st ? st : yk__file_blocks(s, s->quoted ? UINT64_MAX : YK_BLOCK_BYTES);
}

bool yk__labels_agree(atomic_uint *seen, int32_t label)
{
    enum { MINUS = 1, ZERO = 2, MANY = 4 };
    const unsigned kind = label < 0 ? MINUS : label == 0 ? ZERO : label > 1 ? MANY : 0;
    unsigned all = atomic_load_explicit(seen, memory_order_relaxed);
    if (kind & ~all)
        all = atomic_fetch_or_explicit(seen, kind, memory_order_relaxed) | kind;
    return !((all & MINUS) && (all & (ZERO | MANY)));
}

const char *yk__text_show(const char *text, size_t n, char out[48])
{
    enum { MOST = 40, LONGEST = 4 }; /* bytes: of the text, of a character */
    char copy[MOST + LONGEST] = "";
    size_t i = 0, bytes;
    memcpy(copy, text, n < sizeof copy - 1 ? n : sizeof copy - 1);
    for (; i < n && i < MOST; i += bytes ? bytes : 1)
        if (!(bytes = yk_utf8_length(copy + i)) || (copy[i] >= 0 && copy[i] < ' '))
            copy[i] = '?';
    copy[i] = 0;
    yk_log_clean(copy, strlen(copy));
    sprintf(out, "%s%s", copy, i < n ? "..." : "");
    return out;
}

const char *yk__text_token(const char *at, char out[48])
{
    size_t n = 0;
    while (n < 47 && (unsigned char)at[n] > ' ')
        n++;
    return yk__text_show(at, n, out);
}
