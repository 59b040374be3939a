/* The footer of a Parquet file and the headers of its pages, which are structures of Thrift's compact protocol; see parquet.h. */
#include "base/mem.h"
#include "format/input.h"
#include "format/parquet_internal.h"
#include "format/thrift.h"
#include "format/wire.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FOOTER = 256 << 20, MAX_COLUMNS = 65535 };

/* ---- names */

const char *yk__pq_encoding_name(int64_t encoding)
{
    static const char *const names[] = {"PLAIN",
                                        NULL,
                                        "PLAIN_DICTIONARY",
                                        "RLE",
                                        "BIT_PACKED",
                                        "DELTA_BINARY_PACKED",
                                        "DELTA_LENGTH_BYTE_ARRAY",
                                        "DELTA_BYTE_ARRAY",
                                        "RLE_DICTIONARY",
                                        "BYTE_STREAM_SPLIT"};
    const char *name = encoding >= 0 && encoding < 10 ? names[encoding] : NULL;
    return name ? name : "unknown";
}

const char *yk__pq_codec_name(int64_t codec)
{
    static const char *const names[] = {"none",   "Snappy", "gzip",      "LZO",
                                        "Brotli", "LZ4",    "Zstandard", "LZ4_RAW"};
    return codec >= 0 && codec < 8 ? names[codec] : "unknown";
}

/* ---- numbers of structures */

typedef struct {
    uint64_t path;
    int64_t *to;
} field;

static void take_number(const yk__thrift_value *v, const field *known, size_t n)
{
    for (size_t i = 0; v->kind == YK__THRIFT_NUMBER && i < n; i++)
        if (known[i].path == v->path)
            *known[i].to = v->number;
}

/* ---- the schema */

typedef struct {
    int64_t physical, repetition, children, converted, logical;
    int64_t time_unit; /* 1: ms, 2: us, 3: ns; 0: none */
    int64_t is_signed;
    const char *name;
    size_t name_length;
} element;

/* What is known of the chunk of a column. */
typedef struct {
    int64_t physical, codec, bytes, data, dictionary;
    yk__thrift_value least, most;
    const char *refused;
} chunk;

/* The footer as it is read. */
typedef struct {
    yk_parquet *file;
    uint64_t limit;      /* pages end before this byte */
    bool root_read;      /* the root, the first element of the schema, was read */
    int64_t nested_left; /* elements of a nested column that are still to come */
    element element;
    size_t chunks; /* of the row group so far */
    chunk chunk;
    int64_t rows;
} footer;

/* What the type means: from the converted type of older files, or the logical type of newer ones. */
static void set_type(const element *e, yk_parquet_column *c)
{
    static const char *const physical[] = {"BOOLEAN", "INT32",  "INT64",      "INT96",
                                           "FLOAT",   "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"};
    static const struct {
        int8_t converted, logical;
        uint8_t unit;
        const char *name;
        bool refused;
    } meanings[] = {{0, 1, 0, "STRING", false},    {4, 4, 0, "ENUM", false},       {5, 5, 0, "DECIMAL", true},
                    {6, 6, 0, "DATE", false},      {7, 7, 0, "TIME", false},       {8, 7, 0, "TIME", false},
                    {9, 8, 1, "TIMESTAMP", false}, {10, 8, 2, "TIMESTAMP", false}, {19, 12, 0, "JSON", false},
                    {20, 13, 0, "BSON", false},    {21, -2, 0, "INTERVAL", true},  {-2, 14, 0, "UUID", true},
                    {-2, 15, 0, "FLOAT16", true}};
    static const double units[] = {0.0, 1e-3, 1e-6, 1e-9};
    const int64_t p = e->physical;
    c->type = p >= 0 && p <= YK__PQ_FIXED ? physical[p] : "unknown type";
    c->refused = p < 0 || p > YK__PQ_FIXED || p == YK__PQ_INT96 || p == YK__PQ_FIXED ? c->type : NULL;
    c->physical = (uint8_t)p;
    c->kind = p == YK__PQ_BYTES ? YK_PARQUET_TEXT : p >= YK__PQ_FLOAT ? YK_PARQUET_REAL : YK_PARQUET_INTEGER;
    c->is_unsigned = !e->is_signed || (e->converted >= 11 && e->converted <= 14);
    c->form = p == YK__PQ_INT64 && c->is_unsigned ? YK_PARQUET_UNSIGNED
              : p == YK__PQ_BOOLEAN               ? YK_PARQUET_BOOLEAN
              : p == YK__PQ_FLOAT                 ? YK_PARQUET_FLOAT
                                                  : YK_PARQUET_NUMBER;
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++) {
        const bool logical = e->logical == meanings[i].logical;
        if (!logical && (e->logical >= 0 || e->converted != meanings[i].converted))
            continue;
        c->type = meanings[i].name;
        if (meanings[i].refused)
            c->refused = c->type;
        if (meanings[i].unit && p == YK__PQ_INT64) {
            c->unit = logical && e->time_unit >= 1 && e->time_unit <= 3 ? units[e->time_unit]
                                                                        : units[meanings[i].unit];
            c->kind = YK_PARQUET_REAL;
            c->form = YK_PARQUET_TIME;
        } else if (meanings[i].converted == 6 && p == YK__PQ_INT32) {
            c->form = YK_PARQUET_DATE;
        }
        break;
    }
}

/* The elements of the schema are the columns in depth-first order; the first is their root. Those below a nested column only have
 * chunks. */
static yk_status add_element(footer *f)
{
    yk_parquet *file = f->file;
    const element *e = &f->element;
    const bool nested = e->children > 0, top = !f->nested_left;
    if (!f->root_read) {
        f->root_read = true;
        return YK_OK;
    }
    if (file->ngroups || file->ncolumns == MAX_COLUMNS || e->children > INT32_MAX)
        return yk_fail(YK_EDATA,
                       file->ngroups ? "the schema comes after row groups" : "more than 65535 columns");
    f->nested_left += (nested ? e->children : 0) - !top;
    if (top) {
        if (YK_RESERVE(file->column, file->column_cap, file->ncolumns + 1, "columns"))
            return YK_ESYSTEM;
        yk_parquet_column *c = &file->column[file->ncolumns];
        *c = (yk_parquet_column){.name = yk_arena_print(&file->arena, "%.*s", (int)e->name_length, e->name),
                                 .chunk = file->chunks,
                                 .optional = e->repetition == 1};
        if (!c->name)
            return YK_ESYSTEM;
        file->ncolumns++;
        set_type(e, c);
        if (nested || e->repetition == 2)
            c->type = c->refused = nested ? "a nested column" : "a repeated column";
    }
    file->chunks += !nested;
    return YK_OK;
}

/* ---- row groups */

static yk_status begin_group(footer *f)
{
    yk_parquet *file = f->file;
    if (!file->ncolumns)
        return yk_fail(YK_EDATA, "the schema is missing");
    if (YK_RESERVE(file->group, file->group_cap, file->ngroups + 1, "row groups"))
        return YK_ESYSTEM;
    yk_parquet_group *g = &file->group[file->ngroups];
    if (!(g->chunk = yk_arena_alloc(&file->arena, file->chunks + 1, sizeof *g->chunk, "a row group")))
        return YK_ESYSTEM;
    file->ngroups++;
    f->chunks = 0;
    f->rows = -1;
    return YK_OK;
}

static yk_status end_group(footer *f)
{
    yk_parquet *file = f->file;
    if (f->rows < 0 || f->chunks != file->chunks ||
        __builtin_add_overflow(file->rows, (uint64_t)f->rows, &file->rows))
        return yk_fail(YK_EDATA, "a row group has no row count, or not as many columns as the schema");
    file->group[file->ngroups - 1].rows = (uint64_t)f->rows;
    return YK_OK;
}

static yk_status end_chunk(footer *f)
{
    const chunk *k = &f->chunk;
    yk_parquet_chunk *c = &f->file->group[f->file->ngroups - 1].chunk[f->chunks++];
    /* some writers put 0 */
    const bool first = k->dictionary > 0 && (k->dictionary < k->data || k->data <= 0);
    const int64_t offset = first ? k->dictionary : k->data;
    c->offset = offset > 0 ? (uint64_t)offset : 0;
    c->bytes = k->bytes > 0 ? (uint64_t)k->bytes : 0;
    c->physical = k->physical >= 0 && k->physical <= YK__PQ_FIXED ? (uint8_t)k->physical : 255;
    c->codec = k->codec >= 0 && k->codec < 255 ? (uint8_t)k->codec : 255;
    c->refused = k->refused;
    if (!c->refused && c->codec != YK__PQ_RAW && c->codec != YK__PQ_SNAPPY && c->codec != YK__PQ_GZIP &&
        c->codec != YK__PQ_ZSTD)
        c->refused = yk__pq_codec_name(k->codec);
    if (k->least.n == k->most.n && (k->least.n == 4 || k->least.n == 8)) {
        c->limit_bytes = (uint8_t)k->least.n;
        memcpy(c->least, k->least.text, k->least.n);
        memcpy(c->most, k->most.text, k->most.n);
    }
    return (c->offset < 4 && c->bytes) || c->offset > f->limit || c->bytes > f->limit - c->offset
               ? yk_fail(YK_EDATA, "the pages of a column are outside the file")
               : YK_OK;
}

/* ---- FileMetaData: 2 the schema, 4 the row groups */

static yk_status take_structure(footer *f, uint64_t path, bool begins)
{
    if (path == 0x02 && begins)
        f->element = (element){
            .physical = -1, .repetition = -1, .converted = -1, .logical = -1, .is_signed = 1, .name = ""};
    else if (path == 0x02)
        return add_element(f);
    else if (path >> 8 ==
             0x020a) /* LogicalType is a union: a structure with one field, whose number is the type */
        f->element.logical = path & 255;
    else if (path >> 8 == 0x020a0802) /* the unit of a TIMESTAMP, too */
        f->element.time_unit = path & 255;
    else if (path == 0x04)
        return begins ? begin_group(f) : end_group(f);
    else if (path == 0x0401 && begins && f->chunks == f->file->chunks)
        return yk_fail(YK_EDATA, "a row group has more columns than the schema");
    else if (path == 0x0401 && begins)
        f->chunk = (chunk){.physical = -1, .bytes = -1, .data = -1, .dictionary = -1};
    else if (path == 0x0401)
        return end_chunk(f);
    else if (path == 0x040108)
        f->chunk.refused = "encryption";
    else if (path == 0 && !begins && (!f->file->ncolumns || f->nested_left))
        return yk_fail(YK_EDATA, f->nested_left ? "the schema has fewer columns than it declares"
                                                : "the schema is missing");
    return YK_OK;
}

static yk_status take_footer(void *context, const yk__thrift_value *v)
{
    footer *f = context;
    element *e = &f->element;
    chunk *c = &f->chunk;
    const field numbers[] = {{0x0201, &e->physical},     {0x0203, &e->repetition},    {0x0205, &e->children},
                             {0x0206, &e->converted},    {0x020a0a02, &e->is_signed}, {0x0403, &f->rows},
                             {0x04010301, &c->physical}, {0x04010304, &c->codec},     {0x04010307, &c->bytes},
                             {0x04010309, &c->data},     {0x0401030b, &c->dictionary}};
    if (v->kind == YK__THRIFT_BEGIN || v->kind == YK__THRIFT_END)
        return take_structure(f, v->path, v->kind == YK__THRIFT_BEGIN);
    if (v->kind == YK__THRIFT_TEXT && v->path == 0x0204) {
        if (memchr(v->text, 0, v->n))
            return yk_fail(YK_EDATA, "the name of the column '%s' contains a null character", v->text);
        e->name = v->text;
        e->name_length = v->n;
    } else if (v->kind == YK__THRIFT_TEXT && ((v->path == 0x040101 && v->n) || v->path == 0x040109)) {
        c->refused = v->path == 0x040109 ? "encryption" : "another file";
    } else if (v->kind == YK__THRIFT_TEXT && (v->path == 0x0401030c05 || v->path == 0x0401030c06)) {
        *(v->path == 0x0401030c05 ? &c->most : &c->least) = *v;
    }
    take_number(v, numbers, sizeof numbers / sizeof *numbers);
    return YK_OK;
}

/* ---- the file */

static yk_status read_footer(int fd, yk_parquet *f)
{
    uint8_t ends[12];
    const uint64_t size = (uint64_t)f->state.st_size;
    if (!S_ISREG(f->state.st_mode) || size < 12)
        return yk_fail(YK_EDATA,
                       "%s: not a Parquet file: it has fewer than 12 bytes, or is not a regular file",
                       f->path);
    if (pread(fd, ends, 4, 0) != 4 || pread(fd, ends + 4, 8, (off_t)size - 8) != 8)
        return yk_fail(YK_EDATA, "%s: cannot read: %s", f->path, strerror(errno));
    if (!memcmp(ends + 8, "PARE", 4))
        return yk_fail(YK_EDATA, "%s: the footer is encrypted; encryption is not supported", f->path);
    if (memcmp(ends, "PAR1", 4))
        return yk_fail_at(f->path, 0, "not a Parquet file: it does not begin with PAR1");
    if (memcmp(ends + 8, "PAR1", 4))
        return yk_fail_at(f->path, size - 4,
                          "the file does not end with PAR1: it is not a Parquet file, or is truncated");
    const uint32_t n = yk__load32(ends + 4);
    if (n > size - 12 || n > MAX_FOOTER)
        return yk_fail_at(f->path, size - 8, "a footer of %u bytes does not fit into the file", n);
    uint8_t *bytes = malloc(n + 1);
    if (!bytes)
        return yk_fail_memory(n, "a Parquet footer");
    const uint64_t at = size - 8 - n;
    yk_status st = pread(fd, bytes, n, (off_t)at) == (ssize_t)n
                       ? YK_OK
                       : yk_fail(YK_EDATA, "%s: cannot read the footer: %s", f->path, strerror(errno));
    footer all = {.file = f, .limit = at};
    yk__thrift t = {.p = bytes, .end = bytes + n, .take = take_footer, .context = &all};
    if (!st && (st = yk__thrift_read(&t)) == YK_EDATA)
        yk_fail_at(f->path, at + (uint64_t)(t.p - bytes), "the footer is damaged: %s", yk_error());
    free(bytes);
    return st;
}

yk_status yk_parquet_open(const char *path, yk_parquet **out)
{
    yk_parquet *f = calloc(1, sizeof *f);
    if (!f)
        return yk_fail_memory(sizeof *f, "a Parquet file");
    f->path = yk_arena_print(&f->arena, "%s", path);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    yk_status st = f->arena.status;
    if (!st && (fd < 0 || fstat(fd, &f->state)))
        st = yk_fail(YK_EDATA, "%s: cannot read: %s", path, strerror(errno));
    if (!st)
        st = read_footer(fd, f);
    if (fd >= 0)
        close(fd);
    if (st)
        yk_parquet_free(f);
    else
        *out = f;
    return st;
}

void yk_parquet_free(yk_parquet *f)
{
    if (!f)
        return;
    free(f->column);
    free(f->group);
    yk_arena_free(&f->arena);
    free(f);
}

yk_status yk_parquet_readable(const yk_parquet *f, size_t column)
{
    const yk_parquet_column *c = &f->column[column];
    return c->refused
               ? yk_fail(YK_EDATA,
                         "%s: column '%.80s': %s cannot be read; leave it out with ignore=, or convert it",
                         f->path, c->name, c->refused)
               : YK_OK;
}

/* ---- pages */

static yk_status take_page(void *context, const yk__thrift_value *v)
{
    yk__pq_page *h = context;
    const field numbers[] = {{0x01, &h->type},
                             {0x02, &h->bytes},
                             {0x03, &h->compressed},
                             {0x04, &h->crc},
                             {0x0501, &h->values},
                             {0x0502, &h->encoding},
                             {0x0503, &h->level_encoding},
                             {0x0701, &h->values},
                             {0x0702, &h->encoding},
                             {0x0801, &h->values},
                             {0x0804, &h->encoding},
                             {0x0805, &h->level_bytes},
                             {0x0806, &h->repetition_bytes},
                             {0x0807, &h->is_compressed}};
    take_number(v, numbers, sizeof numbers / sizeof *numbers);
    return YK_OK;
}

const uint8_t *yk__pq_page_header(const uint8_t *p, size_t n, yk__pq_page *h, bool *truncated_out)
{
    yk__thrift t = {.p = p, .end = p + n, .take = take_page, .context = h};
    *h = (yk__pq_page){.type = -1,
                       .bytes = -1,
                       .compressed = -1,
                       .crc = INT64_MIN,
                       .values = -1,
                       .encoding = -1,
                       .is_compressed = 1};
    const bool bad = yk__thrift_read(&t);
    *truncated_out = bad && t.truncated;
    return bad ? NULL : t.p;
}
