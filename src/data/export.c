#include "data/export.h"

#include "base/file.h"
#include "base/mem.h"
#include "data/formats.h"
#include "data/schema.h"
#include "format/cache.h"
#include "format/example.h"
#include "format/tfrecord.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- totals, for all formats */

typedef struct {
    yk_cache_shape shape; /* the optional arrays that occur, but values only if they are not all 1 */
    bool no_truth;        /* of some rows */
} totals;

static yk_status count_rows(void *context, const yk_rows *rows, const yk_reader *reader)
{
    (void)reader;
    totals *c = context;
    yk_cache_header *h = &c->shape.header;
    unsigned *arrays = &c->shape.arrays;
    const unsigned value = 1u << YK_ROWS_VALUE;
    const uint32_t fields = yk_rows_count_fields(rows);
    h->n += rows->n;
    h->entries += rows->kind == YK_ROWS_SPARSE ? rows->start[rows->n] : (uint64_t)rows->n * rows->dim;
    h->dim = rows->dim > h->dim ? rows->dim : h->dim;
    h->scale = rows->scale;
    h->fields = fields > h->fields ? fields : h->fields;
    c->no_truth |= !rows->truth;
    *arrays |= yk_rows_arrays(rows) & ~value;
    for (size_t i = 0; i < rows->n; i++)
        if ((uint32_t)rows->label[i] >= h->classes)
            h->classes = (uint32_t)rows->label[i] + 1;
    for (uint64_t i = 0; rows->value && !(*arrays & value) && i < rows->start[rows->n]; i++)
        *arrays |= rows->value[i] != 1.0f ? value : 0;
    return YK_OK;
}

/* Visits all rows. The context of `visit` is `c`, or begins with it. */
static yk_status visit_all(yk_source *s, yk_visitor *visit, totals *c, yk_export_stats *out)
{
    yk_cache_header *h = &c->shape.header;
    *h = (yk_cache_header){.kind = s->kind,
                           .dim = s->dim,
                           .classes = s->classes > 2 ? s->classes : 2,
                           .height = (uint32_t)s->height,
                           .width = (uint32_t)s->width,
                           .channels = (uint32_t)s->channels,
                           .fields = s->fields};
    const yk_status st = yk_source_each(s, visit, c);
    *out = (yk_export_stats){.examples = h->n, .entries = h->entries, .dim = h->dim, .classes = h->classes};
    return st || h->n ? st : yk__fail_empty(s);
}

/* ---- rows as index:value lists, for tfrecord, libsvm and libffm */

typedef struct export_format export_format;

typedef struct {
    totals totals;
    const export_format *format;
    yk_file *file;
    uint32_t *index; /* dense rows: nonzero columns */
    float *value;
    char pixel[256][24]; /* ":0.498039216": libsvm's text of a byte */
    uint8_t *example;    /* tfrecord: the encoder's buffer */
    size_t example_cap;
    char *line; /* libsvm */
    size_t line_cap;
    uint64_t entries;
} writer;

typedef struct {
    const uint32_t *index;
    const float *value;    /* NULL: all ones */
    const uint16_t *field; /* NULL: 0 */
    const uint8_t *bytes;  /* a dense row of pixels, by column; NULL otherwise */
    size_t n;
} entries;

struct export_format {
    const char *name;
    yk_status (*write)(writer *w, int32_t label, const entries *e); /* NULL: the cache */
    bool ffm; /* libffm: a field number before each index, indices from 0 */
};

static entries entries_of(writer *w, const yk_rows *rows, size_t r)
{
    if (rows->kind == YK_ROWS_SPARSE) {
        uint64_t at = rows->start[r];
        return (entries){rows->index + at, rows->value ? rows->value + at : NULL,
                         rows->field ? rows->field + at : NULL, NULL, yk_rows_entries(rows, r)};
    }
    bool u8 = rows->kind == YK_ROWS_U8;
    const uint8_t *bytes = u8 ? rows->u8 + r * rows->dim : NULL;
    const float *floats = u8 ? NULL : rows->f32 + r * rows->dim;
    size_t n = 0;
    for (size_t i = 0; i < rows->dim; i++) {
        float v = u8 ? (float)bytes[i] * rows->scale : floats[i];
        w->index[n] = (uint32_t)i;
        w->value[n] = v;
        n += v != 0.0f;
    }
    return (entries){w->index, w->value, NULL, bytes, n};
}

static char *print_u64(char *p, uint64_t v)
{
    char digits[20];
    int n = 0;
    do
        digits[n++] = (char)('0' + v % 10);
    while (v /= 10);
    while (n)
        *p++ = digits[--n];
    return p;
}

/* Nine digits distinguish any two floats. */
static yk_status write_text(writer *w, int32_t label, const entries *e)
{
    if (YK_RESERVE(w->line, w->line_cap, 16 + e->n * 40, "a line of text"))
        return YK_ESYSTEM;
    char *p = print_u64(w->line, (uint64_t)label);
    for (size_t i = 0; i < e->n; i++) {
        *p++ = ' ';
        if (w->format->ffm) {
            p = print_u64(p, e->field ? e->field[i] : 0);
            *p++ = ':';
        }
        p = print_u64(p, (uint64_t)e->index[i] + !w->format->ffm);
        if (e->bytes)
            p = stpcpy(p, w->pixel[e->bytes[e->index[i]]]);
        else if (!e->value || e->value[i] == 1.0f)
            p = stpcpy(p, ":1");
        else
            p += snprintf(p, 20, ":%.9g", (double)e->value[i]);
    }
    *p++ = '\n';
    return yk_file_write(w->file, w->line, (size_t)(p - w->line));
}

static yk_status write_tfrecord(writer *w, int32_t label, const entries *e)
{
    size_t size;
    const yk_status st =
        yk_example_encode(label, e->index, e->value, e->field, e->n, &w->example, &w->example_cap, &size);
    return st ? st : yk_tfr_write(w->file, w->example, size);
}

/* Only a cache stores weights, and labels that are numbers. */
static yk_status write_rows(void *context, const yk_rows *rows, const yk_reader *reader)
{
    writer *w = context;
    yk_status st = count_rows(&w->totals, rows, reader);
    const unsigned weight = 1u << YK_ROWS_WEIGHT, target = 1u << YK_ROWS_TARGET;
    if (w->totals.shape.arrays & (weight | target))
        st = yk_fail(YK_EUSAGE, "%s: the examples have %s, which only the cache format can store",
                     reader->source->spec,
                     w->totals.shape.arrays & weight ? "weights" : "labels that are numbers");
    for (int i = 0; i < 256 && !*w->pixel[255]; i++)
        snprintf(w->pixel[i], sizeof w->pixel[i], ":%.9g", (double)((float)i * rows->scale));
    for (size_t r = 0; r < rows->n && !st; r++) {
        const entries e = entries_of(w, rows, r);
        w->entries += e.n;
        st = w->format->write(w, rows->label[r], &e);
    }
    return st;
}

static yk_status export_rows(yk_source *s, const char *path, const export_format *format,
                             yk_export_stats *out)
{
    yk_status st = YK_OK;
    writer *w = calloc(1, sizeof *w);
    if (!w)
        return yk_fail_memory(sizeof *w, "writing a file");
    w->format = format;
    if (s->kind != YK_ROWS_SPARSE) {
        w->index = yk_arena_alloc(&s->arena, s->dim, sizeof *w->index, "a row");
        w->value = yk_arena_alloc(&s->arena, s->dim, sizeof *w->value, "a row");
        st = s->arena.status;
    }
    if (!st)
        st = yk_file_create_in(NULL, path, &w->file);
    if (!st)
        st = visit_all(s, write_rows, &w->totals, out);
    if (!st) {
        out->entries = w->entries;
        out->bytes = yk_file_written(w->file);
    }
    st = yk_file_close(w->file, st);
    free(w->example);
    free(w->line);
    free(w);
    return st;
}

/* ---- the cache: the first pass finds its shape, the second writes the rows */

static yk_status add_rows(void *context, const yk_rows *rows, const yk_reader *reader)
{
    (void)reader;
    return yk_cache_add(context, rows);
}

static yk_status export_cache(yk_source *s, const char *path, yk_export_stats *out)
{
    totals c = {0};
    yk_cache_shape *shape = &c.shape;
    yk_status st = visit_all(s, count_rows, &c, out);
    if (st)
        return st;
    shape->arrays &= c.no_truth ? ~(1u << YK_ROWS_TRUTH) : ~0u;
    const yk_schema all = yk_source_schema(s);
    const bool known = s->schema || all.classes.n;
    char *schema = known ? yk_schema_write(&all) : NULL;
    if (known && !schema)
        return yk_fail_memory(1000, "the schema");
    shape->schema = schema;
    shape->header.schema_size = schema ? (uint32_t)strlen(schema) + 1 : 0;
    yk_cache_writer *w;
    st = yk_cache_create(path, shape, &w);
    st = st ? st : yk_cache_close(w, yk_source_each(s, add_rows, w));
    free(schema);
    if (st)
        return st;
    yk__cache_layout(path, shape);
    out->bytes = shape->header.file_size;
    return YK_OK;
}

static const export_format formats[] = {{"tfrecord", write_tfrecord, false},
                                        {"libsvm", write_text, false},
                                        {"libffm", write_text, true},
                                        {"cache"}};

yk_status yk_export(yk_source *s, const char *format, const char *path, yk_export_stats *out)
{
    *out = (yk_export_stats){0};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(formats[i].name, format))
            return formats[i].write ? export_rows(s, path, &formats[i], out) : export_cache(s, path, out);
    return yk_fail(YK_EUSAGE, "cannot write format '%s'; use one of: tfrecord, libsvm, libffm, cache",
                   format);
}
