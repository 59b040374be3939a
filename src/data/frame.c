#include "data/frame.h"

#include "base/mem.h"
#include "data/cells.h"
#include "data/memory.h"
#include <stdlib.h>

/* The rows of a small block stay in the cache. But a reader hashes the values of dictionaries again: it has at least as many rows. */
enum { SMALL_BLOCK = 1 << 14, LARGE_BLOCK = 1 << 17 };

typedef struct {
    struct ArrowArray array;
    uint64_t first; /* row */
} batch;

struct yk_frame {
    struct ArrowArrayStream stream; /* once */
    struct ArrowSchema schema;
    yk_arena arena;
    yk_arrow_type *type; /* [ncolumns] */
    size_t ncolumns, nbatches, batch_cap;
    batch *batch;
    uint64_t rows;
    yoke_arrow options; /* without its stream and texts */
    yk_rows given;      /* its labels, weights and targets */
    atomic_flag read;   /* once: a reader was opened */
    const char *spec, *label;
    yk__names classes;
};

/* ---- the table */

static yk_status fail_stream(struct ArrowArrayStream *s, int error)
{
    const char *why = s->get_last_error ? s->get_last_error(s) : NULL;
    return yk_fail(YK_EDATA, "frame: the Arrow stream failed: %s", why ? why : strerror(error));
}

/* The next array with rows; out->release NULL: there is none. The caller releases it, even after a failure. */
static yk_status next_array(yk_frame *f, struct ArrowArray *out)
{
    for (;;) {
        *out = (struct ArrowArray){0};
        const int error = f->stream.get_next(&f->stream, out);
        if (error)
            return fail_stream(&f->stream, error);
        if (!out->release || out->length)
            break;
        out->release(out);
    }
    bool good =
        !out->release || (out->length >= 0 && out->offset >= 0 && out->n_children == (int64_t)f->ncolumns);
    for (size_t i = 0; out->release && good && i < f->ncolumns; i++)
        good = out->children[i]->length >= out->offset + out->length;
    return good ? YK_OK
                : yk_fail(YK_EDATA, "frame: an array of the Arrow stream is not a table of %zu columns",
                          f->ncolumns);
}

static yk_status take_all(yk_frame *f)
{
    for (;;) {
        if (YK_RESERVE(f->batch, f->batch_cap, f->nbatches + 1, "arrays of a frame"))
            return YK_ESYSTEM;
        batch *b = &f->batch[f->nbatches];
        b->first = f->rows;
        yk_status st = next_array(f, &b->array);
        f->nbatches += b->array.release != NULL;
        if (st || !b->array.release)
            return st;
        f->rows += (uint64_t)b->array.length;
    }
}

static yk_status take_schema(yk_frame *f)
{
    const int error = f->stream.get_schema(&f->stream, &f->schema);
    if (error)
        return fail_stream(&f->stream, error);
    f->ncolumns = (size_t)f->schema.n_children;
    if (strcmp(f->schema.format, "+s"))
        return yk_fail(YK_EUSAGE, "frame: the Arrow stream has one column (of type '%s'), not a table",
                       f->schema.format);
    if (!(f->type = yk_arena_alloc(&f->arena, f->ncolumns + 1, sizeof *f->type, "columns")))
        return YK_ESYSTEM;
    for (size_t i = 0; i < f->ncolumns; i++)
        f->type[i] = yk_arrow_type_of(f->schema.children[i]);
    return YK_OK;
}

static yk_status check_labels(const yk_frame *f)
{
    const yoke_arrow *o = &f->options;
    if (o->stream_once)
        return yk_fail(YK_EUSAGE,
                       "frame: the label and the weight of a stream must be columns of the stream");
    if (o->rows != f->rows)
        return yk_fail(YK_EUSAGE, "frame: %zu labels or weights, but %llu rows", o->rows,
                       (unsigned long long)f->rows);
    uint32_t classes = o->classes;
    const yk_status st = yk_memory_check_labels(&f->given, &classes);
    return st ? yk_fail(st, "frame: %s", yk_error()) : YK_OK;
}

static yk_status take_options(yk_frame *f, const yoke_arrow *o)
{
    yk_status st = YK_OK;
    f->spec = yk_arena_print(&f->arena, "frame:frame%s%s", o->options && *o->options ? "?" : "",
                             o->options ? o->options : "");
    f->options = *o;
    f->given = (yk_rows){.n = o->rows,
                         .label = (int32_t *)o->labels,
                         .weight = (float *)o->weights,
                         .target = (float *)o->targets};
    f->label = yk_arena_print(&f->arena, "%s", o->label ? o->label : "label");
    for (size_t i = 0; i < o->classes && o->class_names && !st; i++)
        st = yk__names_add(&f->classes, o->class_names[i], strlen(o->class_names[i]));
    return st ? st : f->arena.status;
}

yk_status yk_frame_create(const yoke_arrow *o, yk_frame **out)
{
    struct ArrowArrayStream *const stream = o->stream;
    *out = NULL;
    if (!stream || !stream->release)
        return yk_fail(YK_EUSAGE, "frame: the Arrow stream is empty: it has already been read");
    yk_frame *f = calloc(1, sizeof *f);
    yk_status st = f ? YK_OK : yk_fail_memory(sizeof *f, "a frame");
    if (f)
        f->stream = *stream;
    else
        stream->release(stream);
    stream->release = NULL;
    if (!st && !(st = take_options(f, o)) && !(st = take_schema(f)) && !o->stream_once)
        st = take_all(f);
    if (!st && (o->labels || o->weights))
        st = check_labels(f);
    if (st)
        yk_frame_free(f);
    *out = st ? NULL : f;
    return st;
}

void yk_frame_free(yk_frame *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->nbatches; i++)
        f->batch[i].array.release(&f->batch[i].array);
    if (f->schema.release)
        f->schema.release(&f->schema);
    f->stream.release(&f->stream);
    yk__names_fini(&f->classes);
    yk_arena_free(&f->arena);
    free(f->batch);
    free(f);
}

const char *yk_frame_column(const yk_frame *f, size_t i, const char **type_out)
{
    if (i >= f->ncolumns)
        return NULL;
    if (type_out)
        *type_out = f->type[i].refused ? f->type[i].refused : f->type[i].name;
    return f->schema.children[i]->name ? f->schema.children[i]->name : "";
}

/* ---- readers */

typedef struct {
    yk__cell_table table;
    yk_frame *frame;
} frame_source;

typedef struct {
    yk__cell_reader base;
    yk_arrow_values *values;        /* [nused] */
    const struct ArrowArray *batch; /* the current one; NULL: none yet */
    struct ArrowArray own;          /* once: the same */
    size_t next, at;                /* the next batch; the next row of the current one */
} frame_reader;

static uint64_t rows_left(const frame_reader *r)
{
    return r->base.base.end - r->base.base.at;
}

static yk_status next_batch(frame_reader *r, frame_source *s)
{
    yk_frame *f = s->frame;
    yk_status st = YK_OK;
    if (r->own.release)
        r->own.release(&r->own);
    if (f->options.stream_once && ((st = next_array(f, &r->own)) || !r->own.release)) {
        r->base.base.at = r->base.base.end;
        return st;
    }
    r->batch = f->options.stream_once ? &r->own : &f->batch[r->next++].array;
    r->at = 0;
    for (size_t k = 0; k < s->table.nused && !st; k++) {
        const size_t i = s->table.used[k], length = (size_t)r->batch->length;
        r->base.cells.cell[k].hashed = SIZE_MAX; /* this array has its own dictionary */
        st =
            yk_arrow_open(&r->values[k], &f->type[i], r->batch->children[i],
                          length < rows_left(r) ? length : (size_t)rows_left(r), f->schema.children[i]->name);
    }
    return st;
}

static yk_status decode(yk__cell_reader *reader, size_t *n_out)
{
    frame_reader *r = (frame_reader *)reader;
    frame_source *s = (frame_source *)reader->base.source;
    yk_status st = YK_OK;
    *n_out = 0;
    if (rows_left(r) && (!r->batch || r->at == (size_t)r->batch->length))
        st = next_batch(r, s);
    if (st || !rows_left(r))
        return st;
    size_t n = (size_t)r->batch->length - r->at;
    n = n < YK_PARQUET_BATCH ? n : YK_PARQUET_BATCH;
    n = n < rows_left(r) ? n : (size_t)rows_left(r);
    for (size_t k = 0; k < s->table.nused && !st; k++)
        st = yk_arrow_decode(&r->values[k], (size_t)r->batch->offset + r->at, n);
    r->at += n;
    r->base.base.at += n;
    *n_out = n;
    return st;
}

static yk_status frame_reader_open(yk_reader *base)
{
    frame_source *s = (frame_source *)base->source;
    yk_frame *f = s->frame;
    frame_reader *r = (frame_reader *)base;
    const uint64_t first = base->at;
    r->base.cells = (yk__cells){.table = &s->table, .decode = decode, .file = "frame", .row = first};
    if (f->options.stream_once)
        base->end = UINT64_MAX;
    if (f->options.stream_once && atomic_flag_test_and_set(&f->read))
        return yk_fail(YK_EUSAGE,
                       "frame: the stream has already been read, and can be read only once; pass a table");
    r->values = yk_arena_alloc(&base->arena, s->table.nused + 1, sizeof *r->values, "columns");
    yk_status st = yk__cells_open(&r->base);
    for (size_t k = 0; k < s->table.nused && !st; k++) {
        if (f->type[s->table.used[k]].is_text)
            r->values[k].out.code = r->values[k].code;
        yk__cells_bind(&r->base.cells, k, &r->values[k].out);
    }
    while (r->next + 1 < f->nbatches && f->batch[r->next + 1].first <= first)
        r->next++;
    if (!st && f->nbatches && !(st = next_batch(r, s)))
        r->at = (size_t)(first - f->batch[r->next - 1].first);
    return st;
}

static void frame_reader_close(yk_reader *base)
{
    frame_reader *r = (frame_reader *)base;
    yk__cells_close(&r->base.cells);
    for (size_t k = 0; r->values && k < ((frame_source *)base->source)->table.nused; k++)
        yk_arrow_fini(&r->values[k]);
    if (r->own.release)
        r->own.release(&r->own);
}

/* ---- the source */

/* The labels of the caller replace the column with their name, or are one more column. With a model, its schema has the name. */
static yk_status add_label(const yk_frame *f, yk_schema *own, const yk_schema *model, const yk_spec *spec)
{
    const yk_schema_column *known = model ? yk_schema_first(model, YK_COLUMN_LABEL) : NULL;
    const char *name = known ? known->name : f->label;
    size_t i = 0;
    yk_status st = YK_OK;
    if (yk_spec_text(spec, "label") || yk_spec_text(spec, "classes"))
        return yk_fail(YK_EUSAGE,
                       "frame: label and classes cannot be combined with labels that are not a column");
    if (model && !known)
        return YK_OK;
    while (i < f->ncolumns && strcmp(own->column[i].name, name))
        i++;
    if (i == f->ncolumns && (st = yk_schema_add(own, name, strlen(name), "int32", YK_COLUMN_LABEL)))
        return st;
    own->column[i].role = YK_COLUMN_LABEL;
    own->column[i].chosen = true;
    own->nclasses = model ? 0 : f->options.classes;
    for (i = 0; i < f->classes.n && !st && !model; i++)
        st = yk__names_add(&own->classes, f->classes.name[i], strlen(f->classes.name[i]));
    return st;
}

static yk_status check_used(const frame_source *s)
{
    for (size_t k = 0; k < s->table.nused; k++) {
        const size_t i = s->table.used[k];
        char name[80];
        if (i >= s->frame->ncolumns) /* the labels of an array */
            return yk_fail(YK_EUSAGE,
                           "frame: %s is not a column of the table: it cannot be carried or used by split-by",
                           yk_tabular_name(&s->table.tabular, i, name));
        if (s->frame->type[i].refused)
            return yk_fail(YK_EDATA,
                           "frame: %s: values of the type %s are not supported: convert them to numbers or "
                           "strings, or list the column in ignore",
                           yk_tabular_name(&s->table.tabular, i, name), s->frame->type[i].refused);
    }
    return YK_OK;
}

/* Of all columns that are used, in the first array. */
static uint64_t dictionary_values(const frame_source *s)
{
    uint64_t n = 0;
    for (size_t k = 0; k < s->table.nused && s->frame->nbatches; k++) {
        const struct ArrowArray *d = s->frame->batch->array.children[s->table.used[k]]->dictionary;
        n += d && d->length > 0 ? (uint64_t)d->length : 0;
    }
    return n;
}

static yk_status frame_open(yk_source *source)
{
    yk_spec *spec = &source->parsed;
    frame_source *s = (frame_source *)source;
    yk_frame *f = s->frame = (yk_frame *)source->options.from;
    yk_tabular *t = &s->table.tabular;
    strcpy(spec->text, "frame"); /* for messages */
    yk_status st = yk_tabular_init(t);
    for (size_t i = 0; i < f->ncolumns && !st; i++) {
        const char *name = yk_frame_column(f, i, NULL);
        st = yk_schema_add(t->own, name, strlen(name), f->type[i].name,
                           f->type[i].is_text ? YK_COLUMN_CATEGORICAL : YK_COLUMN_NUMERIC);
    }
    if (st)
        return st;
    t->own->header = true;
    if (f->options.labels)
        st = add_label(f, t->own, source->options.schema, spec);
    s->table.given = &f->given;
    t->weights = f->given.weight;
    if (st || (st = yk_tabular_columns(t)) || (st = yk__cell_table_choose(&s->table)) || (st = check_used(s)))
        return st;
    source->once = f->options.stream_once;
    source->rows = f->rows;
    source->block_rows = SMALL_BLOCK;
    while (source->block_rows < LARGE_BLOCK && source->block_rows < dictionary_values(s))
        source->block_rows *= 2;
    source->nblocks =
        f->options.stream_once ? 1 : (size_t)((f->rows + source->block_rows - 1) / source->block_rows);
    if (source->nblocks)
        source->block_rows = (f->rows + source->nblocks - 1) / source->nblocks;
    source->examples = source->options.skip_bad || t->part.on ? 0 : f->rows;
    return yk_tabular_finish(t, f->rows);
}

static const yk_source_ops frame_ops = {
    .name = "frame",
    .options = "split-by " YK_FRAME_KEYS,
    .record = "row",
    .by_number = true,
    .has_texts = true,
    .source_size = sizeof(frame_source),
    .reader_size = sizeof(frame_reader),
    .open = frame_open,
    .free = yk_tabular_free,
    .reader_open = frame_reader_open,
    .reader_close = frame_reader_close,
    .next = yk__cells_next,
};

yk_status yk_source_from_frame(yk_frame *f, const yk_source_options *options, yk_source **out)
{
    yk_source_options o = *options;
    yk_spec spec;
    o.from = f;
    *out = NULL;
    yk_status st = yk_spec_parse(f->spec, &spec);
    if (!st)
        st = yk__source_create(&frame_ops, &spec, YK_SPLIT_TRAIN, &o, out);
    yk_spec_fini(&spec);
    return st;
}
