/* Reads columns of a row group, page by page; see parquet.h. */
#include "base/mem.h"
#include "format/input.h"
#include "format/parquet_internal.h"
#include "format/wire.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { AHEAD = 4 << 10, MAX_HEADER = 16 << 20, MAX_PAGE = 1 << 30 };

typedef enum { PLAIN, INDICES, RUNS, DELTA } encoding;

typedef struct {
    uint8_t *bytes;
    size_t cap;
} buffer;

typedef struct {
    const yk_parquet_column *column;
    const yk_parquet_chunk *chunk;
    /* bytes of the file: raw[at .. have), followed by those from `read` on */
    uint8_t *raw;
    size_t raw_cap, at, have;
    uint64_t read, end;
    /* pages */
    uint64_t later, skip; /* rows in later pages; rows to skip */
    uint64_t left;        /* rows of the current page */
    buffer page;          /* decompressed */
    encoding encoding;
    const uint8_t *p, *last; /* PLAIN: values */
    yk__pq_hybrid levels, runs;
    yk__pq_delta delta;
    /* dictionary */
    bool has_dictionary;
    buffer dictionary_page;
    uint64_t *dictionary; /* numbers: int64_t or double */
    size_t numbers_cap, text_cap;
    yk_parquet_text *text;
    bool limited; /* the footer has the limits of the numbers: int64_t or double */
    uint64_t least, most;
    /* rows */
    yk_parquet_values out;
    uint8_t valid[YK_PARQUET_BATCH];
    uint64_t value[YK_PARQUET_BATCH];
    uint32_t code[YK_PARQUET_BATCH];
} column;

struct yk_parquet_reader {
    const yk_parquet *file;
    size_t group;
    int fd;
    uint64_t left; /* rows */
    yk__pq_codecs codecs;
    size_t ncolumns;
    column column[];
};

/* Errors name the page in which they are found. */
static yk_status at_page(const yk_parquet_reader *r, const column *c, yk_status st)
{
    return st == YK_EDATA
               ? yk_fail(st, "%s: row group %zu, column '%.80s', page at byte %llu: %s", r->file->path,
                         r->group, c->column->name, (unsigned long long)c->out.page, yk_error())
               : st;
}

/* ---- bytes */

/* Makes at least `need` bytes available, which the caller knows to be within the pages of the column. */
static yk_status fill(int fd, column *c, size_t need)
{
    const size_t kept = c->have - c->at;
    if (kept >= need)
        return YK_OK;
    if (kept)
        memmove(c->raw, c->raw + c->at, kept);
    c->at = 0;
    c->have = kept;
    if (YK_RESERVE(c->raw, c->raw_cap, need + AHEAD + YK__PQ_PAD, "a Parquet page"))
        return YK_ESYSTEM;
    size_t want = need - kept + AHEAD;
    want = want < c->end - c->read ? want : (size_t)(c->end - c->read);
    while (want) {
        const ssize_t got = pread(fd, c->raw + c->have, want, (off_t)c->read);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return yk_fail(YK_EDATA, "cannot read: %s",
                           got ? strerror(errno) : "the file is shorter than before");
        c->have += (size_t)got;
        c->read += (uint64_t)got;
        want -= (size_t)got;
    }
    return YK_OK;
}

static uint64_t remaining(const column *c)
{
    return c->have - c->at + (c->end - c->read);
}

static void skip_bytes(column *c, uint64_t n)
{
    const size_t kept = c->have - c->at;
    c->at += n < kept ? (size_t)n : kept;
    c->read += n < kept ? 0 : n - kept;
}

/* ---- pages */

static yk_status read_header(int fd, column *c, yk__pq_page *h)
{
    c->out.page = c->read - (c->have - c->at);
    if (!remaining(c))
        return yk_fail(YK_EDATA, "the pages have fewer rows than the row group");
    for (size_t want = 256;; want *= 4) {
        const size_t n = remaining(c) < want ? (size_t)remaining(c) : want;
        bool truncated;
        yk_status st = fill(fd, c, n);
        if (st)
            return st;
        const uint8_t *const p = c->raw + c->at;
        const uint8_t *const next = yk__pq_page_header(p, c->have - c->at, h, &truncated);
        if (next) {
            c->at += (size_t)(next - p);
            break;
        }
        if (!truncated || n < want || want > MAX_HEADER)
            return yk_fail(YK_EDATA, "its header is damaged");
    }
    if (h->compressed < 0 || (uint64_t)h->compressed > remaining(c) || h->bytes < 0 || h->bytes > MAX_PAGE)
        return yk_fail(YK_EDATA, "a page of %lld bytes, %lld decompressed, does not fit into the column",
                       (long long)h->compressed, (long long)h->bytes);
    return YK_OK;
}

/* Decompresses n bytes into `size` bytes, in *to; a page that is not compressed may stay where it is. */
static yk_status decompress(yk_parquet_reader *r, column *c, int codec, const uint8_t *from, size_t n,
                            size_t size, buffer *to, const uint8_t **out)
{
    if (codec == YK__PQ_RAW ? n != size : !yk__pq_can_expand(codec, n, size))
        return yk_fail(YK_EDATA, "%zu bytes with %s compression cannot hold %zu bytes", n,
                       yk__pq_codec_name(codec), size);
    *out = from;
    if (codec == YK__PQ_RAW && to == &c->page)
        return YK_OK;
    if (YK_RESERVE(to->bytes, to->cap, size + YK__PQ_PAD, "a Parquet page"))
        return YK_ESYSTEM;
    *out = to->bytes;
    return yk__pq_decompress(&r->codecs, codec, from, n, to->bytes, size);
}

/* int64_t or double. */
static double number_of(const column *c, uint64_t value)
{
    double real;
    memcpy(&real, &value, sizeof real);
    return c->column->physical == YK__PQ_FLOAT || c->column->physical == YK__PQ_DOUBLE
               ? real
               : (double)(int64_t)value;
}

/* Most files have no checksums, but many have the range of each column. Values that are far outside would spoil the model. */
static yk_status check_limits(const column *c, const uint64_t *value, size_t n)
{
    const double least = number_of(c, c->least), most = number_of(c, c->most);
    bool found = false;
    for (size_t i = 0; i < n && c->limited; i++) {
        const double x = number_of(c, value[i]);
        found |= (x < least) | (x > most); /* NaN is not outside */
    }
    return found ? yk_fail(YK_EDATA, "a value is outside the range in the footer: the file is damaged")
                 : YK_OK;
}

static yk_status read_dictionary(yk_parquet_reader *r, column *c, const yk__pq_page *h, const uint8_t *body)
{
    const uint8_t *p;
    const size_t n = (size_t)h->values, size = (size_t)h->bytes;
    if (c->has_dictionary)
        return yk_fail(YK_EDATA, "the column has a second dictionary");
    if (h->encoding != YK__PQ_PLAIN && h->encoding != YK__PQ_PLAIN_DICTIONARY)
        return yk_fail(YK_EDATA, "a dictionary with the encoding %s is not supported",
                       yk__pq_encoding_name(h->encoding));
    if (h->values < 0 || n > size / 4 || c->column->physical == YK__PQ_BOOLEAN)
        return yk_fail(YK_EDATA, "a dictionary of %lld values does not fit into %zu bytes",
                       (long long)h->values, size);
    yk_status st =
        decompress(r, c, c->chunk->codec, body, (size_t)h->compressed, size, &c->dictionary_page, &p);
    if (st)
        return st;
    c->has_dictionary = true;
    c->out.dictionary = n;
    if (c->column->physical == YK__PQ_BYTES) {
        st = YK_RESERVE(c->text, c->text_cap, n + YK_PARQUET_BATCH, "a dictionary");
        return st ? st : yk__pq_plain_texts(&p, p + size, c->text, n);
    }
    if ((st = YK_RESERVE(c->dictionary, c->numbers_cap, n + 1, "a dictionary")) ||
        (st = yk__pq_plain_read(c->column->physical, c->column->is_unsigned, &p, p + size, c->dictionary, n)))
        return st;
    return check_limits(c, c->dictionary, n);
}

/* Prepares decoding of the values at [p, end). */
static yk_status open_values(column *c, int64_t coded, const uint8_t *p, const uint8_t *end)
{
    const uint8_t physical = c->column->physical;
    c->runs = (yk__pq_hybrid){.next = p, .end = end, .width = 1};
    c->p = p;
    c->last = end;
    if (coded == YK__PQ_PLAIN) {
        c->encoding = physical == YK__PQ_BOOLEAN ? RUNS : PLAIN;
        if (c->encoding == RUNS)
            c->runs = (yk__pq_hybrid){.packed = true,
                                      .data = p,
                                      .run = (uint64_t)(end - p) * 8,
                                      .next = end,
                                      .end = end,
                                      .width = 1};
    } else if (coded == YK__PQ_RLE_DICTIONARY || coded == YK__PQ_PLAIN_DICTIONARY) {
        c->encoding = INDICES;
        c->runs.width = p < end ? *p : 0;
        c->runs.next += p < end;
        if (!c->has_dictionary || c->runs.width > 32)
            return yk_fail(YK_EDATA, c->has_dictionary ? "its indices have more than 32 bits"
                                                       : "its dictionary is missing");
    } else if (coded == YK__PQ_RLE && physical == YK__PQ_BOOLEAN) {
        c->encoding = RUNS;
        if (end - p < 4 || yk__load32(p) > (size_t)(end - p) - 4)
            return yk_fail(YK_EDATA, "its values are longer than the page");
        c->runs.next = p + 4;
    } else if (coded == YK__PQ_DELTA && (physical == YK__PQ_INT32 || physical == YK__PQ_INT64)) {
        c->encoding = DELTA;
        return yk__pq_delta_open(&c->delta, p, end);
    } else {
        return yk_fail(
            YK_EDATA,
            "the encoding %s of %s is not supported; write the file with plain or dictionary encoding",
            yk__pq_encoding_name(coded), c->column->type);
    }
    return YK_OK;
}

/* Version 1: all is compressed, and the levels begin with their length. Version 2: the length of the levels is in the header,
 * and they are not compressed. */
static yk_status open_page(yk_parquet_reader *r, column *c, const yk__pq_page *h, const uint8_t *body)
{
    const bool v2 = h->type == YK__PQ_DATA_V2, optional = c->column->optional;
    size_t n = (size_t)h->compressed, size = (size_t)h->bytes, levels = 0;
    const uint8_t *p;
    if (v2) {
        if (h->repetition_bytes || h->level_bytes < 0 || (uint64_t)h->level_bytes > n ||
            (uint64_t)h->level_bytes > size)
            return yk_fail(YK_EDATA, "its levels do not fit into the page");
        levels = (size_t)h->level_bytes;
    }
    yk_status st = decompress(r, c, h->is_compressed ? c->chunk->codec : YK__PQ_RAW, body + levels,
                              n - levels, size - levels, &c->page, &p);
    if (st)
        return st;
    const uint8_t *const end = p + (size - levels), *first = body;
    if (!v2 && optional) {
        if (h->level_encoding != YK__PQ_RLE)
            return yk_fail(YK_EDATA, "the encoding %s of levels is not supported",
                           yk__pq_encoding_name(h->level_encoding));
        if (size < 4 || (levels = yk__load32(p)) > size - 4)
            return yk_fail(YK_EDATA, "its levels do not fit into the page");
        first = p + 4;
        p += 4 + levels;
    }
    c->levels = (yk__pq_hybrid){.next = first, .end = first + levels, .width = 1};
    return open_values(c, h->encoding, p, end);
}

static yk_status decode(column *c, size_t n);

/* Opens the next page that has rows which are not skipped. */
static yk_status next_page(yk_parquet_reader *r, column *c)
{
    while (!c->left) {
        yk__pq_page h;
        yk_status st = read_header(r->fd, c, &h);
        if (st)
            return st;
        const bool data = h.type == YK__PQ_DATA || h.type == YK__PQ_DATA_V2;
        if (data && (h.values < 0 || (uint64_t)h.values > c->later))
            return yk_fail(YK_EDATA, "the page has %lld rows, but fewer are left in the row group",
                           (long long)h.values);
        if (data)
            c->later -= (uint64_t)h.values;
        if (data ? (uint64_t)h.values <= c->skip : h.type != YK__PQ_DICTIONARY) {
            c->skip -= data ? (uint64_t)h.values : 0;
            skip_bytes(c, (uint64_t)h.compressed);
            continue;
        }
        if ((st = fill(r->fd, c, (size_t)h.compressed)))
            return st;
        const uint8_t *const body = c->raw + c->at;
        skip_bytes(c, (uint64_t)h.compressed);
        if (h.crc != INT64_MIN && crc32_z(0, body, (size_t)h.compressed) != (uint32_t)h.crc)
            return yk_fail(YK_EDATA, "its checksum is wrong");
        if ((st = data ? open_page(r, c, &h, body) : read_dictionary(r, c, &h, body)))
            return st;
        c->left = data ? (uint64_t)h.values : 0;
    }
    for (yk_status st; c->skip; c->skip -= YK_PARQUET_BATCH < c->skip ? YK_PARQUET_BATCH : c->skip)
        if ((st = decode(c, c->skip < YK_PARQUET_BATCH ? (size_t)c->skip : YK_PARQUET_BATCH)))
            return st;
    return YK_OK;
}

/* ---- values */

/* Sets c->valid for n rows; *dense_out: rows with a value. */
static yk_status decode_levels(column *c, size_t n, size_t *dense_out)
{
    c->out.valid = NULL;
    *dense_out = n;
    const int64_t same = c->column->optional ? yk__pq_hybrid_same(&c->levels, n) : 1;
    if (same == 1)
        return YK_OK;
    uint32_t worst = same > 0;
    c->out.valid = c->valid;
    *dense_out = 0;
    if (same >= 0)
        memset(c->valid, 0, n);
    else if (yk__pq_hybrid_read(&c->levels, c->code, n))
        return YK_EDATA;
    for (size_t i = 0; same < 0 && i < n; i++) {
        worst |= c->code[i] >> 1;
        *dense_out += c->valid[i] = (uint8_t)c->code[i];
    }
    return worst ? yk_fail(YK_EDATA, "a definition level is larger than 1") : YK_OK;
}

static yk_status decode_indices(column *c, size_t n)
{
    const yk_status st = yk__pq_hybrid_read(&c->runs, c->code, n);
    uint32_t most = 0;
    for (size_t i = 0; i < n && !st; i++)
        most = c->code[i] > most ? c->code[i] : most;
    return !st && n && most >= c->out.dictionary ? yk_fail(YK_EDATA, "an index is not in the dictionary")
                                                 : st;
}

static yk_status decode_texts(column *c, size_t n)
{
    const size_t first = c->out.texts = c->out.dictionary;
    if (c->encoding == INDICES)
        return decode_indices(c, n);
    for (size_t i = 0; i < n; i++)
        c->code[i] = (uint32_t)(first + i);
    c->out.texts += n;
    return yk__pq_plain_texts(&c->p, c->last, c->text + first, n);
}

static yk_status decode_numbers(column *c, size_t n)
{
    const yk_parquet_column *k = c->column;
    int64_t *const integer = (int64_t *)c->value;
    yk_status st;
    if (c->encoding == PLAIN) {
        st = yk__pq_plain_read(k->physical, k->is_unsigned, &c->p, c->last, c->value, n);
    } else if (c->encoding == INDICES) {
        st = decode_indices(c, n);
        for (size_t i = 0; i < n && !st; i++)
            c->value[i] = c->dictionary[c->code[i]];
    } else if (c->encoding == RUNS) {
        st = yk__pq_hybrid_read(&c->runs, c->code, n);
        for (size_t i = 0; i < n && !st; i++)
            integer[i] = c->code[i] & 1;
    } else {
        st = yk__pq_delta_read(&c->delta, integer, n);
        for (size_t i = 0; i < n && !st && k->physical == YK__PQ_INT32; i++)
            integer[i] = k->is_unsigned ? (int64_t)(uint32_t)integer[i] : (int32_t)integer[i];
    }
    if (!st && (c->encoding == PLAIN || c->encoding == DELTA))
        st = check_limits(c, c->value, n);
    for (size_t i = 0; i < n && !st && k->unit > 0.0; i++) {
        const double seconds = (double)integer[i] * k->unit;
        memcpy(&c->value[i], &seconds, sizeof seconds);
    }
    return st;
}

/* The next n rows of the current page. */
static yk_status decode(column *c, size_t n)
{
    const bool text = c->column->kind == YK_PARQUET_TEXT;
    size_t dense = 0;
    yk_status st =
        text ? YK_RESERVE(c->text, c->text_cap, c->out.dictionary + YK_PARQUET_BATCH, "texts") : YK_OK;
    if (st || (st = decode_levels(c, n, &dense)) ||
        (st = text ? decode_texts(c, dense) : decode_numbers(c, dense)))
        return st;
    if (c->out.valid)
        yk__pq_spread(text ? (void *)c->code : c->value, text ? 4 : 8, c->valid, n, dense);
    c->out.text = c->text;
    c->left -= n;
    return YK_OK;
}

yk_status yk_parquet_next(yk_parquet_reader *r, size_t *got_out)
{
    uint64_t n = r->left < YK_PARQUET_BATCH ? r->left : YK_PARQUET_BATCH;
    yk_status st = YK_OK;
    *got_out = 0;
    for (size_t i = 0; i < r->ncolumns && n && !st; i++) {
        st = r->column[i].left ? YK_OK : at_page(r, &r->column[i], next_page(r, &r->column[i]));
        n = r->column[i].left < n ? r->column[i].left : n;
    }
    for (size_t i = 0; i < r->ncolumns && n && !st; i++)
        st = at_page(r, &r->column[i], decode(&r->column[i], (size_t)n));
    if (st)
        return st;
    r->left -= n;
    *got_out = (size_t)n;
    return YK_OK;
}

/* ---- the reader */

/* Numbers of other widths, and those that may be uint64_t, have no limits. */
static void set_limits(column *c)
{
    const uint8_t *least = c->chunk->least, *most = c->chunk->most;
    const uint8_t physical = c->column->physical;
    const size_t n = physical == YK__PQ_INT32 || physical == YK__PQ_FLOAT    ? 4
                     : physical == YK__PQ_INT64 || physical == YK__PQ_DOUBLE ? 8
                                                                             : 0;
    const bool is_unsigned = c->column->is_unsigned;
    c->limited = n && n == c->chunk->limit_bytes && !(is_unsigned && n == 8) &&
                 !yk__pq_plain_read(physical, is_unsigned, &least, least + n, &c->least, 1) &&
                 !yk__pq_plain_read(physical, is_unsigned, &most, most + n, &c->most, 1);
}

static yk_status open_column(const yk_parquet_reader *r, column *c, size_t number, uint64_t first)
{
    const yk_parquet_group *g = &r->file->group[r->group];
    c->column = &r->file->column[number];
    c->chunk = &g->chunk[c->column->chunk];
    c->read = c->out.page = c->chunk->offset;
    c->end = c->read + c->chunk->bytes;
    c->later = g->rows;
    c->skip = first;
    const yk_parquet_kind kind = c->column->kind;
    c->out.code = kind == YK_PARQUET_TEXT ? c->code : NULL;
    c->out.real = kind == YK_PARQUET_REAL ? (const double *)c->value : NULL;
    c->out.integer = kind == YK_PARQUET_INTEGER ? (const int64_t *)c->value : NULL;
    c->out.form = c->column->form;
    if (c->chunk->refused)
        return yk_fail(YK_EDATA,
                       "%s is not supported; write the file with Snappy, gzip, Zstandard or no compression",
                       c->chunk->refused);
    if (c->chunk->physical != c->column->physical)
        return yk_fail(YK_EDATA, "its type differs from that in the schema");
    set_limits(c);
    return YK_OK;
}

yk_status yk_parquet_read(const yk_parquet *f, size_t group, const size_t *columns, size_t ncolumns,
                          uint64_t first, uint64_t rows, yk_parquet_reader **out)
{
    yk_parquet_reader *r = yk_alloc(1, sizeof *r + ncolumns * sizeof *r->column, "a Parquet reader");
    if (!r)
        return YK_ESYSTEM;
    r->file = f;
    r->group = group;
    r->ncolumns = ncolumns;
    r->left = rows;
    r->fd = open(f->path, O_RDONLY | O_CLOEXEC);
    yk_status st = yk_file_unchanged(f->path, &f->state, r->fd);
    for (size_t i = 0; i < ncolumns && !st; i++)
        if (!(st = yk_parquet_readable(f, columns[i])))
            st = at_page(r, &r->column[i], open_column(r, &r->column[i], columns[i], first));
    if (st)
        yk_parquet_reader_free(r);
    else
        *out = r;
    return st;
}

void yk_parquet_reader_free(yk_parquet_reader *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->ncolumns; i++) {
        column *c = &r->column[i];
        free(c->raw);
        free(c->page.bytes);
        free(c->dictionary_page.bytes);
        free(c->dictionary);
        free(c->text);
    }
    if (r->fd >= 0)
        close(r->fd);
    yk__pq_codecs_fini(&r->codecs);
    yk_free(r);
}

yk_status yk_parquet_unchanged(const yk_parquet_reader *r)
{
    return yk_file_unchanged(r->file->path, &r->file->state, r->fd);
}

const yk_parquet_values *yk_parquet_values_of(const yk_parquet_reader *r, size_t i)
{
    return &r->column[i].out;
}
