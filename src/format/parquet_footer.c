/* The footer of a Parquet file and the headers of its pages, which are structures of Thrift's compact protocol; see parquet.h. */
#include "base/mem.h"
#include "format/input.h"
#include "format/parquet_internal.h"
#include "format/thrift.h"
#include "format/wire.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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

/* ---- the schema */

typedef struct {
    int64_t physical, repetition, children, converted, logical;
    int64_t time_unit; /* 1: ms, 2: us, 3: ns; 0: none */
    int64_t is_signed;
    const char *name;
    size_t name_length;
} element;

/* LogicalType is a union: a structure with one field, whose number is the type. A TIMESTAMP has a union, too: its unit. */
static void parse_logical(yk__thrift *t, int type, element *e)
{
    int64_t id = 0;
    yk__thrift_enter(t, type);
    for (int inner; yk__thrift_next(t, &id, &inner);) {
        e->logical = id;
        if (id == 10) {
            yk__thrift_integers(t, inner, (int[]){2}, (int64_t *[]){&e->is_signed}, 1);
            continue;
        }
        if (id != 8) {
            yk__thrift_skip(t, inner);
            continue;
        }
        int64_t part = 0, unit = 0;
        int empty;
        for (yk__thrift_enter(t, inner); yk__thrift_next(t, &part, &inner);) {
            if (part != 2) {
                yk__thrift_skip(t, inner);
                continue;
            }
            for (yk__thrift_enter(t, inner); yk__thrift_next(t, &unit, &empty); e->time_unit = unit)
                yk__thrift_skip(t, empty);
        }
    }
}

static void parse_element(yk__thrift *t, int type, element *e)
{
    int64_t id = 0;
    *e = (element){
        .physical = -1, .repetition = -1, .converted = -1, .logical = -1, .is_signed = 1, .name = ""};
    if (!yk__thrift_enter(t, type))
        return;
    for (int inner; yk__thrift_next(t, &id, &inner);) {
        if (id == 1)
            e->physical = yk__thrift_integer(t, inner);
        else if (id == 3)
            e->repetition = yk__thrift_integer(t, inner);
        else if (id == 4)
            e->name_length = yk__thrift_bytes(t, inner, &e->name);
        else if (id == 5)
            e->children = yk__thrift_integer(t, inner);
        else if (id == 6)
            e->converted = yk__thrift_integer(t, inner);
        else if (id == 10)
            parse_logical(t, inner, e);
        else
            yk__thrift_skip(t, inner);
    }
}

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
        }
        break;
    }
}

/* Skips a column with its children; *leaves_out: chunks that it has. */
static void parse_nested(yk__thrift *t, int type, int64_t children, size_t *left, size_t *leaves)
{
    yk__thrift_enter(t, YK__T_STRUCT);
    for (int64_t i = 0; i < children && !t->fault; i++) {
        element e;
        if (!*left) {
            yk__thrift_fault(t, "the schema has fewer columns than it says", false);
            break;
        }
        --*left;
        parse_element(t, type, &e);
        if (e.children > 0)
            parse_nested(t, type, e.children, left, leaves);
        else
            ++*leaves;
    }
    t->depth--;
}

/* The elements of the schema are the columns in depth-first order; the first is their root. */
static yk_status parse_schema(yk__thrift *t, int type, yk_parquet *f)
{
    int inner;
    element e;
    size_t left = (size_t)yk__thrift_list(t, type, &inner);
    if (!t->fault && !left)
        yk__thrift_fault(t, "the schema is empty", false);
    if (f->ncolumns)
        yk__thrift_fault(t, "there are two schemas", false);
    parse_element(t, inner, &e);
    for (left -= left > 0; left && !t->fault;) {
        left--;
        parse_element(t, inner, &e);
        if (t->fault || f->ncolumns == MAX_COLUMNS)
            return yk__thrift_fault(t, "more than 65535 columns", false), YK_OK;
        if (YK_RESERVE(f->column, f->column_cap, f->ncolumns + 1, "columns"))
            return YK_ESYSTEM;
        yk_parquet_column *c = &f->column[f->ncolumns];
        *c = (yk_parquet_column){.chunk = f->chunks, .optional = e.repetition == 1};
        if (!(c->name = strndup(e.name, e.name_length)))
            return yk_fail_memory(e.name_length, "a column's name");
        f->ncolumns++;
        set_type(&e, c);
        if (e.children > 0 || e.repetition == 2) {
            c->type = c->refused = e.children > 0 ? "a nested column" : "a repeated column";
            parse_nested(t, inner, e.children, &left, &f->chunks);
        }
        f->chunks += e.children <= 0;
    }
    return YK_OK;
}

/* ---- row groups */

/* The smallest and the largest number. */
static void parse_statistics(yk__thrift *t, int type, yk_parquet_chunk *c)
{
    int64_t id = 0;
    const char *least = NULL, *most = NULL;
    size_t n = 0, m = 0;
    yk__thrift_enter(t, type);
    for (int inner; !t->fault && yk__thrift_next(t, &id, &inner);)
        if (id == 5)
            m = yk__thrift_bytes(t, inner, &most);
        else if (id == 6)
            n = yk__thrift_bytes(t, inner, &least);
        else
            yk__thrift_skip(t, inner);
    if (t->fault || n != m || !least || !most || (n != 4 && n != 8))
        return;
    c->limit_bytes = (uint8_t)n;
    memcpy(c->least, least, n);
    memcpy(c->most, most, n);
}

static void parse_chunk_data(yk__thrift *t, int type, yk_parquet_chunk *c)
{
    static const int known[] = {1, 4, 7, 9, 11};
    int64_t codec = 0, physical = -1, data = -1, dictionary = -1, bytes = -1, id = 0;
    int64_t *const out[] = {&physical, &codec, &bytes, &data, &dictionary};
    yk__thrift_enter(t, type);
    for (int inner; !t->fault && yk__thrift_next(t, &id, &inner);)
        if (id == 12)
            parse_statistics(t, inner, c);
        else if (!yk__thrift_field(t, id, inner, known, out, 5))
            yk__thrift_skip(t, inner);
    if (dictionary > 0 && (dictionary < data || data <= 0)) /* some writers put 0 where there is none */
        data = dictionary;
    c->offset = data > 0 ? (uint64_t)data : 0;
    c->bytes = bytes > 0 ? (uint64_t)bytes : 0;
    c->physical = physical >= 0 && physical <= YK__PQ_FIXED ? (uint8_t)physical : 255;
    c->codec = codec >= 0 && codec < 255 ? (uint8_t)codec : 255;
    if (codec != YK__PQ_RAW && codec != YK__PQ_SNAPPY && codec != YK__PQ_GZIP && codec != YK__PQ_ZSTD)
        c->refused = yk__pq_codec_name(codec);
}

static void parse_chunk(yk__thrift *t, int type, yk_parquet_chunk *c)
{
    int64_t id = 0;
    const char *text;
    *c = (yk_parquet_chunk){0};
    if (!yk__thrift_enter(t, type))
        return;
    for (int inner; yk__thrift_next(t, &id, &inner);) {
        if (id == 3)
            parse_chunk_data(t, inner, c);
        else if (id == 1 && yk__thrift_bytes(t, inner, &text))
            c->refused = "another file";
        else if (id != 1)
            yk__thrift_skip(t, inner);
        if (id == 8 || id == 9)
            c->refused = "encryption";
    }
}

static yk_status parse_group(yk__thrift *t, int type, yk_parquet *f, uint64_t limit)
{
    int64_t id = 0, rows = -1;
    int part;
    if (YK_RESERVE(f->group, f->group_cap, f->ngroups + 1, "row groups"))
        return YK_ESYSTEM;
    yk_parquet_group *g = &f->group[f->ngroups++];
    *g = (yk_parquet_group){0};
    if (!yk__thrift_enter(t, type))
        return YK_OK;
    for (int inner; yk__thrift_next(t, &id, &inner);) {
        if (id == 3)
            rows = yk__thrift_integer(t, inner);
        else if (id != 1)
            yk__thrift_skip(t, inner);
        if (id != 1)
            continue;
        if (yk__thrift_list(t, inner, &part) != f->chunks || g->chunk)
            return yk__thrift_fault(t, "a row group has another number of columns than the schema", false),
                   YK_OK;
        if (!(g->chunk = calloc(f->chunks, sizeof *g->chunk)))
            return yk_fail_memory(f->chunks * sizeof *g->chunk, "columns of a row group");
        for (size_t i = 0; i < f->chunks && !t->fault; i++) {
            parse_chunk(t, part, &g->chunk[i]);
            const yk_parquet_chunk *c = &g->chunk[i];
            if ((c->offset < 4 && c->bytes) || c->offset > limit || c->bytes > limit - c->offset)
                yk__thrift_fault(t, "the pages of a column are outside the file", false);
        }
    }
    if (rows < 0 || !g->chunk || __builtin_add_overflow(f->rows, (uint64_t)rows, &f->rows))
        yk__thrift_fault(t, "a row group has no columns, or no number of rows", false);
    g->rows = (uint64_t)rows;
    return YK_OK;
}

static yk_status parse_footer(yk__thrift *t, yk_parquet *f, uint64_t limit)
{
    int64_t id = 0;
    int part;
    yk_status st = YK_OK;
    yk__thrift_enter(t, YK__T_STRUCT);
    for (int inner; !st && yk__thrift_next(t, &id, &inner);) {
        if (id == 2) {
            st = parse_schema(t, inner, f);
        } else if (id == 4) {
            if (!f->ncolumns)
                yk__thrift_fault(t, "the schema is missing", false);
            const uint64_t n = yk__thrift_list(t, inner, &part);
            for (uint64_t i = 0; i < n && !st && !t->fault; i++)
                st = parse_group(t, part, f, limit);
        } else {
            yk__thrift_skip(t, inner);
        }
    }
    if (!st && !f->ncolumns)
        yk__thrift_fault(t, "the schema is missing", false);
    return st;
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
    yk__thrift t = {.p = bytes, .end = bytes + n};
    if (!st)
        st = parse_footer(&t, f, at);
    if (!st && t.fault)
        st = yk_fail_at(f->path, at + (uint64_t)(t.p - bytes), "the footer is damaged: %s", t.fault);
    free(bytes);
    return st;
}

yk_status yk_parquet_open(const char *path, yk_parquet **out)
{
    yk_parquet *f = calloc(1, sizeof *f);
    if (!f || !(f->path = strdup(path))) {
        free(f);
        return yk_fail_memory(sizeof *f, "a Parquet file");
    }
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    yk_status st = fd < 0 || fstat(fd, &f->state)
                       ? yk_fail(YK_EDATA, "%s: cannot read: %s", path, strerror(errno))
                       : read_footer(fd, f);
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
    for (size_t i = 0; i < f->ncolumns; i++)
        free(f->column[i].name);
    for (size_t i = 0; i < f->ngroups; i++)
        free(f->group[i].chunk);
    free(f->column);
    free(f->group);
    free(f->path);
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

yk_status yk__pq_unchanged(const yk_parquet *f, int fd)
{
    const struct stat *was = &f->state;
    struct stat now;
    if (fd < 0 || fstat(fd, &now))
        return yk_fail(errno == EMFILE || errno == ENFILE ? YK_ESYSTEM : YK_EDATA, "%s: cannot read: %s",
                       f->path, strerror(errno));
    if (now.st_dev != was->st_dev || now.st_ino != was->st_ino || now.st_size != was->st_size ||
        now.st_mtim.tv_sec != was->st_mtim.tv_sec || now.st_mtim.tv_nsec != was->st_mtim.tv_nsec)
        return yk_fail(YK_EDATA, "%s: the file has changed since it was opened", f->path);
    return YK_OK;
}

/* ---- pages */

const uint8_t *yk__pq_page_header(const uint8_t *p, size_t n, yk__pq_page *h, bool *truncated_out)
{
    yk__thrift t = {.p = p, .end = p + n};
    int64_t id = 0;
    *h = (yk__pq_page){.type = -1,
                       .bytes = -1,
                       .compressed = -1,
                       .crc = INT64_MIN,
                       .values = -1,
                       .encoding = -1,
                       .is_compressed = 1};
    yk__thrift_enter(&t, YK__T_STRUCT);
    for (int type; yk__thrift_next(&t, &id, &type);) {
        if (id >= 1 && id <= 4)
            *(id == 1   ? &h->type
              : id == 2 ? &h->bytes
              : id == 3 ? &h->compressed
                        : &h->crc) = yk__thrift_integer(&t, type);
        else if (id == 5)
            yk__thrift_integers(&t, type, (int[]){1, 2, 3},
                                (int64_t *[]){&h->values, &h->encoding, &h->level_encoding}, 3);
        else if (id == 7)
            yk__thrift_integers(&t, type, (int[]){1, 2}, (int64_t *[]){&h->values, &h->encoding}, 2);
        else if (id == 8)
            yk__thrift_integers(&t, type, (int[]){1, 4, 5, 6, 7},
                                (int64_t *[]){&h->values, &h->encoding, &h->level_bytes, &h->repetition_bytes,
                                              &h->is_compressed},
                                5);
        else
            yk__thrift_skip(&t, type);
    }
    *truncated_out = t.fault && t.truncated;
    return t.fault ? NULL : t.p;
}
