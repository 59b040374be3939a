/* cache:FILE, the binary cache (format/cache.h) as a source: all rows are there at once, mapped
 * (yk_source.cached). Reading it in blocks, as any other source is read, copies them out of the mapping. */
#include "format/cache.h"
#include "data/formats.h"
#include <stdlib.h>

typedef struct {
    yk_source base;
    yk_rows rows;
} cache;

static void cache_free(yk_source *source)
{
    cache *s = (cache *)source;
    yk_rows_fini(&s->rows);
    free(s);
}

static const yk_source_ops cache_ops = {
    .name = "cache",
    .reader = yk__cached_read,
    .next = yk__cached_next,
    .reader_free = yk__cached_reader_free,
    .free = cache_free,
};

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

yk_status yk_cache_open(const yk_spec *spec, yk_split split, const yk_source_options *o, yk_source **out)
{
    (void)split;
    yk_cache_shape shape;
    yk_status st = yk_spec_check(spec, "features");
    if (st)
        return st;
    cache *s = calloc(1, sizeof *s);
    if (!s)
        return yk_fail_memory(sizeof *s, "a data source");
    if ((st = yk_cache_map(spec->where, &s->rows, &shape))) {
        free(s);
        return st;
    }
    s->base.ops = &cache_ops;
    s->base.kind = shape.kind;
    s->base.examples = shape.n;
    s->base.nblocks = (s->rows.n + YK__CACHED_BLOCK - 1) / YK__CACHED_BLOCK;
    s->base.bytes = s->rows.map_size;
    s->base.dim = (size_t)shape.dim;
    s->base.classes = shape.classes;
    s->base.height = shape.height;
    s->base.width = shape.width;
    s->base.channels = shape.channels;
    s->base.cached = &s->rows;
    if ((st = fit_features(s, spec, o))) {
        cache_free(&s->base);
        return st;
    }
    *out = &s->base;
    return YK_OK;
}
