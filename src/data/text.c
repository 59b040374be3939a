#include "data/text.h"

#include <stdio.h>

yk_status yk__text_reader_open(yk_reader *reader)
{
    yk_text_reader *r = (yk_text_reader *)reader;
    const yk_file_block *b = &reader->source->files.block[reader->block];
    size_t length;
    uint64_t lines;
    r->base.range = b;
    r->end = b->end;
    r->before = b->begin ? UINT64_MAX : 0;
    /* One byte before: it shows whether a line begins at `begin`. */
    yk_status st = yk_input_open(b->path, b->begin ? b->begin - 1 : 0, &r->base.in);
    if (st || (st = yk_files_unchanged(&reader->source->files, b->file, r->base.in)))
        return st;
    yk_input_expect(r->base.in, b->end);
    return b->begin ? yk_input_line(r->base.in, false, &r->line, &length, &lines) : YK_OK;
}

/* Lines before `end`. A block in the middle of a file has no line numbers until one is needed for a message. */
static uint64_t count_lines(const char *path, uint64_t end)
{
    yk_input *in;
    const char *line = "";
    size_t length;
    uint64_t lines = 0, one;
    if (yk_input_open(path, 0, &in))
        return 0;
    while (yk_input_offset(in) < end && !yk_input_line(in, false, &line, &length, &one) && line)
        lines++;
    yk_input_free(in);
    return lines;
}

/* The number of the current line; UINT64_MAX if it takes too long to count or is not needed. */
static uint64_t line_number(yk_text_reader *r)
{
    if (r->before == UINT64_MAX && !yk_source_bad_numbered(r->base.source, r->offset))
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
    return r->status = yk_source_bad(r->base.source, yk_input_path(r->base.in), line_number(r),
                                     r->offset + (uint64_t)(at - r->line), "%s", text);
}

/* A damaged compressed file or a line that is too long: a bad record, and the end of the block. */
static yk_status input_failed(yk_text_reader *r, yk_status st)
{
    if (st != YK_EDATA)
        return st;
    r->lines++;
    r->end = 0;
    r->line = NULL;
    return yk_source_bad(r->base.source, yk_input_path(r->base.in), line_number(r),
                         yk_input_offset(r->base.in), "%s", yk_input_reason(r->base.in));
}

/* The next line of the block, without a byte-order mark; *text_out is NULL at the end of the block. */
static yk_status next_line(yk_text_reader *r, const char **text_out, size_t *length, uint64_t *lines)
{
    *text_out = NULL;
    if ((r->offset = yk_input_offset(r->base.in)) >= r->end)
        return YK_OK;
    yk_status st = yk_input_line(r->base.in, r->base.source->quoted, &r->line, length, lines);
    if (st && (st = input_failed(r, st)))
        return st;
    if (!r->line)
        return YK_OK;
    r->lines++;
    const size_t mark = r->offset ? 0 : yk__bom(r->line, *length);
    *text_out = r->line + mark;
    *length -= mark;
    return YK_OK;
}

yk_status yk__text_next(yk_reader *reader, yk_rows *rows, size_t max, size_t *got_out)
{
    yk_text_reader *r = (yk_text_reader *)reader;
    const yk_source_ops *ops = reader->source->ops;
    size_t got = 0;
    *got_out = 0;
    while (got < max) {
        const char *line;
        size_t length;
        bool added = false;
        uint64_t lines;
        yk_status st = next_line(r, &line, &length, &lines);
        if (st || (line && (st = ops->parse(r, line, length, rows, &added))))
            return st;
        if (!line)
            break;
        r->lines += lines - 1;
        got += added;
    }
    *got_out = got;
    return YK_OK;
}

yk_status yk__text_count(yk_reader *reader, uint64_t *out)
{
    yk_text_reader *r = (yk_text_reader *)reader;
    const yk_source_ops *ops = reader->source->ops;
    const bool parse = !ops->is_row || reader->source->options.skip_bad; /* only parsing finds bad lines */
    const char *line = NULL;
    size_t length;
    uint64_t lines, n = 0;
    yk_status st = YK_OK;
    while (!parse && !(st = next_line(r, &line, &length, &lines)) && line)
        n += ops->is_row(r, line, length);
    *out = parse ? UINT64_MAX : n;
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
    size_t i = 0;
    for (; i < n && i < 40; i++)
        out[i] = text[i] >= ' ' && text[i] < 127 ? text[i] : '?';
    strcpy(out + i, n > 40 ? "..." : "");
    return out;
}

const char *yk__text_token(const char *at, char out[48])
{
    size_t n = 0;
    while (n <= 40 && (unsigned char)at[n] > ' ')
        n++;
    return yk__text_show(at, n, out);
}
