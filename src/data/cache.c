/* cache:FILE, the binary cache (format/cache.h) as a source: all rows are there at once, mapped
 * (yk_source.cached). Reading it in blocks, as any other source is read, copies them out of the mapping. */
#include "format/cache.h"
#include "data/formats.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    yk_source base;
    yk_rows rows;
    char *path;
} cache;

static void cache_free(yk_source *source)
{
    yk_rows_fini(&((cache *)source)->rows);
    free(((cache *)source)->path);
}

static yk_status cache_verify(const yk_source *source)
{
    return yk_cache_verify(((const cache *)source)->path);
}

/* --features may make room for more columns than the cache has, not for fewer. */
static yk_status fit_features(cache *s, const yk_spec *spec, const yk_source_options *o)
{
    uint64_t features;
    yk_status st = yk_spec_u64(spec, "features", o->features, 1, UINT32_MAX, &features);
    if (st || features == 0 || s->rows.kind != YK_ROWS_SPARSE)
        return st;
    if (features < s->rows.dim)
        return yk_fail(YK_EDATA, "%s: index %zu does not fit %llu features; raise --features to %zu at least",
                       spec->where, s->rows.dim - 1, (unsigned long long)features, s->rows.dim);
    s->rows.dim = s->base.dim = (size_t)features;
    return YK_OK;
}

static yk_status cache_open(yk_source *source, const yk_spec *spec, yk_split split,
                            const yk_source_options *o)
{
    (void)split;
    cache *s = (cache *)source;
    yk_cache_shape shape;
    yk_status st = yk_spec_check(spec, "features");
    if (!st && !(s->path = strdup(spec->where)))
        st = yk_fail_memory(strlen(spec->where), "a path");
    if (!st)
        st = yk_cache_map(spec->where, &s->rows, &shape);
    if (st)
        return st;
    source->kind = shape.kind;
    source->examples = shape.n;
    source->nblocks = (s->rows.n + YK__CACHED_BLOCK - 1) / YK__CACHED_BLOCK;
    source->bytes = source->disk_bytes = s->rows.map_size;
    source->files = 1;
    source->dim = (size_t)shape.dim;
    source->classes = shape.classes;
    source->height = shape.height;
    source->width = shape.width;
    source->channels = shape.channels;
    source->cached = &s->rows;
    if (o->fields == YK_FIELDS_NONE && (st = yk_rows_drop_fields(&s->rows)))
        return st;
    return fit_features(s, spec, o);
}

const yk_source_ops yk__cache_source = {
    .name = "cache",
    .usage = "cache:FILE",
    .source_size = sizeof(cache),
    .reader_size = sizeof(yk__cached_reader),
    .open = cache_open,
    .free = cache_free,
    .next = yk__cached_next,
    .verify = cache_verify,
};
