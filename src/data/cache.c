/* cache:FILE, the binary cache (format/cache.h): all rows are mapped (yk_source.cached). Readers copy blocks of them. */
#include "format/cache.h"
#include "data/columns.h"
#include "data/formats.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct {
    yk_source base;
    yk_rows rows;
    yk_schema *schema; /* NULL: none */
} cache;

static void cache_free(yk_source *source)
{
    yk_rows_fini(&((cache *)source)->rows);
    yk_schema_free(((cache *)source)->schema);
}

static yk_status cache_verify(const yk_source *source)
{
    return yk_cache_verify(source->parsed.where);
}

/* --features may add columns, but not remove any. */
static yk_status fit_features(cache *s)
{
    yk_spec *spec = &s->base.parsed;
    uint64_t features = yk_spec_u64(spec, "features", s->base.options.features, 1, UINT32_MAX);
    if (spec->status || features == 0 || s->rows.kind != YK_ROWS_SPARSE)
        return spec->status;
    if (s->schema && features != s->rows.dim)
        return yk_fail(YK_EUSAGE, "%s: its schema has %zu features; leave out --features", spec->where,
                       s->rows.dim);
    if (features < s->rows.dim)
        return yk_fail(YK_EDATA,
                       "%s: index %zu is out of range for %llu features; raise --features to at least %zu",
                       spec->where, s->rows.dim - 1, (unsigned long long)features, s->rows.dim);
    s->rows.dim = s->base.dim = (size_t)features;
    return YK_OK;
}

/* Images: numbers the classes as the model does, by name. The file does not change. */
static yk_status match_classes(cache *s, const yk_schema *model)
{
    yk__names *names = &s->schema->classes, wanted = {0};
    bool same = !s->rows.label || s->base.options.shape_only;
    size_t *to = yk_arena_alloc(&s->base.arena, names->n, sizeof *to, "classes");
    yk_status st = to ? YK_OK : YK_ESYSTEM;
    for (size_t i = 0; i < model->classes.n && !st; i++)
        st = yk__names_add(&wanted, model->classes.name[i], strlen(model->classes.name[i]));
    size_t equal = 0;
    for (size_t i = 0; i < names->n && !st; i++) {
        to[i] = yk__words_find(&wanted, names->name[i], strlen(names->name[i]));
        equal += to[i] == i;
    }
    same |= equal == names->n;
    if (!st && !same && mprotect(s->rows.map, s->rows.map_size, PROT_READ | PROT_WRITE))
        st = yk_fail_memory(s->rows.map_size, "the labels of a cache");
    for (size_t r = 0; r < s->rows.n && !st && !same; r++) {
        const size_t label = (size_t)s->rows.label[r];
        if (label >= names->n || to[label] == wanted.n)
            st = yk_fail(YK_EDATA, "%s: the model has no class with the name '%s'", s->base.parsed.where,
                         label < names->n ? names->name[label] : "");
        else
            s->rows.label[r] = (int32_t)to[label];
    }
    yk__names_fini(names);
    *names = wanted;
    s->base.classes = (uint32_t)wanted.n;
    return st;
}

/* Reads the schema of the data that was converted. That of a table must be that of the model, because the rows are already encoded. */
static yk_status read_schema(cache *s, const char *text)
{
    const yk_schema *model = s->base.options.schema, *images = s->base.options.images;
    if (!text)
        return YK_OK;
    yk_status st = yk_schema_parse(text, s->base.parsed.where, &s->schema);
    if (!st && !s->schema->ncolumns) {
        s->base.class_names = &s->schema->classes;
        s->base.fit = s->schema->fit;
        return images && images->classes.n && !s->base.options.unlabeled ? match_classes(s, images) : YK_OK;
    }
    s->base.schema = s->schema;
    s->base.hashed_into = !st && yk_schema_hashes(s->schema) ? s->schema->features : 0;
    char *here = st ? NULL : yk_schema_write(s->schema), *there = model ? yk_schema_write(model) : NULL;
    if (!st && (!here || (model && !there)))
        st = yk_fail_memory(1000, "the schema");
    else if (!st && model && strcmp(here, there))
        st = yk_fail(YK_EUSAGE,
                     "%s: its schema differs from that of the model: convert the data again, with the "
                     "options of the training data and, for means and one-hot values, with fit=FILES",
                     s->base.parsed.where);
    free(here);
    free(there);
    return st;
}

static yk_status cache_open(yk_source *source)
{
    yk_spec *spec = &source->parsed;
    cache *s = (cache *)source;
    yk_cache_shape shape;
    yk_status st = yk_files_require(spec->where);
    if (st || (st = yk_cache_map(spec->where, &s->rows, &shape)) ||
        (st = yk_files_add(&source->files, spec->where)) ||
        (!source->options.shape_only && (st = yk_cache_check(spec->where, &s->rows))))
        return st;
    if (s->rows.target && !source->options.numbers && !source->options.unlabeled && !source->options.inspects)
        return yk_fail(YK_EUSAGE, "%s: the labels are numbers: use --loss squared", spec->where);
    yk__cached_open(source, &s->rows);
    source->classes = shape.header.classes;
    source->height = shape.header.height;
    source->width = shape.header.width;
    source->channels = shape.header.channels;
    source->cached = &s->rows;
    source->may_have_hashes = !shape.schema;
    if ((st = read_schema(s, shape.schema)))
        return st;
    const bool fields = yk__spec_positions(source) && !source->by_position;
    const uint32_t given = shape.header.fields, found = fields ? yk_rows_count_fields(&s->rows) : 1;
    source->fields = fields && given ? given : found;
    if (!fields && (st = yk_rows_drop_fields(&s->rows)))
        return st;
    if (found > source->fields)
        return yk_fail(YK_EDATA, "%s: field %u is not below the %u fields: the file is damaged", spec->where,
                       found - 1, given);
    return fit_features(s);
}

const yk_source_ops yk__cache_source = {
    .name = "cache",
    .options = "features fields nfields",
    .usage = "cache:FILE",
    .source_size = sizeof(cache),
    .open = cache_open,
    .free = cache_free,
    .next = yk__cached_next,
    .verify = cache_verify,
};
