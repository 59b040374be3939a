/* yoke_data: data from a spec, or from arrays of the caller. */
#include "lib/internal.h"

#include <stdlib.h>
#include <string.h>

static yk_status create(yoke_data **out)
{
    *out = calloc(1, sizeof **out);
    return *out ? YK_OK : yk_fail_memory(sizeof **out, "the data");
}

void yoke_data_free(yoke_data *d)
{
    if (!d)
        return;
    free(d->spec);
    yk_frame_free(d->memory.frame);
    yk_arena_free(&d->arena);
    free(d);
}

static yoke_status finish(yoke_data *d, yk_status st, yoke_data **out, yoke_error *error)
{
    if (!st && !d->spec && !d->memory.frame)
        st = yk_memory_check(&d->memory);
    if (st)
        yoke_data_free(d);
    *out = st ? NULL : d;
    return yk_api_status(st, error);
}

yoke_status yoke_data_from_spec(const char *spec, yoke_split split, const yoke_options *options,
                                yoke_data **out, yoke_error *error)
{
    yoke_data *d;
    yk_status st = create(&d);
    if (!st && !(d->spec = strdup(spec)))
        st = yk_fail_memory(strlen(spec), "a data specification");
    if (!st && split != YOKE_TRAIN_SPLIT && split != YOKE_TEST_SPLIT)
        st = yk_fail(YK_EUSAGE, "%s: unknown split %d", spec, (int)split);
    if (!st)
        d->split = split == YOKE_TRAIN_SPLIT ? YK_SPLIT_TRAIN : YK_SPLIT_TEST;
    if (!st && options) {
        const yk_config *c = &options->scratch;
        d->options = (yk_source_options){.skip_bad = (uint64_t)c->skip_bad,
                                         .hash_bits = (unsigned)c->hash_bits,
                                         .features = (uint64_t)c->features};
    }
    return finish(d, st, out, error);
}

static int32_t *zeros(yoke_data *d, size_t n)
{
    return yk_arena_alloc(&d->arena, n + 1, sizeof(int32_t), "labels");
}

/* Uses the labels of the caller, or zeros for data without labels. */
static yk_status set_labels(yoke_data *d, const int32_t *labels)
{
    d->memory.rows.label = labels ? (int32_t *)labels : zeros(d, d->memory.rows.n);
    d->memory.unlabeled = !labels && !d->memory.rows.target;
    return d->arena.status;
}

yoke_status yoke_data_from_dense(const yoke_dense *given, yoke_data **out, yoke_error *error)
{
    yoke_dense dense = {0};
    yoke_data *d;
    yk_status st = create(&d);
    if (!st)
        st = YK_API_STRUCT(&dense, given, classes);
    if (!st && !dense.f32 == !dense.u8)
        st = yk_fail(YK_EUSAGE, "yoke_dense: set either f32 or u8");
    if (st)
        return finish(d, st, out, error);
    d->memory = (yk_memory_data){.rows = {.kind = dense.f32 ? YK_ROWS_F32 : YK_ROWS_U8,
                                          .n = dense.rows,
                                          .dim = dense.columns,
                                          .scale = 1.0f / 255.0f,
                                          .weight = (float *)dense.weights,
                                          .target = (float *)dense.targets,
                                          .f32 = (float *)dense.f32,
                                          .u8 = (uint8_t *)dense.u8},
                                 .channels = dense.channels,
                                 .height = dense.height,
                                 .width = dense.width,
                                 .classes = dense.classes};
    return finish(d, set_labels(d, dense.labels), out, error);
}

yk_status yk_api_csr(const yoke_csr *given, yoke_csr *out)
{
    *out = (yoke_csr){0};
    const yk_status st = YK_API_STRUCT(out, given, in_place);
    if (!st && (!out->start64 == !out->start32 || !out->index == !out->index64))
        return yk_fail(YK_EUSAGE, "yoke_csr: set either index or index64, and either start64 or start32, and "
                                  "leave the others NULL");
    return st;
}

yoke_status yoke_data_from_csr(const yoke_csr *given, yoke_data **out, yoke_error *error)
{
    yoke_csr csr;
    yoke_data *d;
    yk_status st = create(&d);
    if (!st)
        st = yk_api_csr(given, &csr);
    if (!st && csr.index64 && csr.in_place)
        st = yk_fail(YK_EUSAGE, "yoke_csr: in_place requires 32-bit column numbers (index), because training "
                                "always copies rows with index64");
    if (st)
        return finish(d, st, out, error);
    d->memory = (yk_memory_data){.rows = {.kind = YK_ROWS_SPARSE,
                                          .n = csr.rows,
                                          .dim = csr.columns,
                                          .raw_keys = true,
                                          .index = (uint32_t *)csr.index,
                                          .value = (float *)csr.value,
                                          .field = (uint16_t *)csr.field,
                                          .weight = (float *)csr.weights,
                                          .target = (float *)csr.targets},
                                 .key = csr.index64,
                                 .in_place = csr.in_place,
                                 .classes = csr.classes};
    yk_rows *rows = &d->memory.rows;
    rows->start = csr.start32 ? yk_arena_alloc(&d->arena, csr.rows + 1, sizeof *rows->start, "row starts")
                              : (uint64_t *)csr.start64;
    for (size_t i = 0; csr.start32 && rows->start && i <= csr.rows; i++)
        rows->start[i] = (uint64_t)(int64_t)csr.start32[i];
    /* a negative one is too large: yk_memory_check() */
    return finish(d, set_labels(d, csr.labels), out, error);
}

yoke_status yoke_data_from_arrow(const yoke_arrow *given, yoke_data **out, yoke_error *error)
{
    yoke_arrow a = {0};
    yoke_data *d;
    yk_status st = create(&d);
    if (!st)
        st = YK_API_STRUCT(&a, given, stream_once);
    if (!st && a.targets)
        a.labels = zeros(d, a.rows);
    if (!st && !(st = d->arena.status))
        st = yk_frame_create(&a, &d->memory.frame);
    return finish(d, st, out, error);
}

const char *yoke_data_column(const yoke_data *d, size_t i, const char **type_out)
{
    return d->memory.frame ? yk_frame_column(d->memory.frame, i, type_out) : NULL;
}

/* How the data is read for this model. */
static yk_source_options options_for(const yk_trained *model, const yk_source_options *given)
{
    const yk_model_shape *shape = &model->model->shape;
    const yk_schema *schema = model->schema;
    yk_source_options o = *given;
    o.schema = schema && schema->ncolumns ? schema : NULL;
    o.images = schema;
    o.numbers = model->model->loss->numbers;
    /* columns of tables, for sums by column */
    const bool fields = (shape->fields > 1 && !shape->positional) || (o.names && o.schema);
    o.fields = fields ? YK_FIELDS_ALL : YK_FIELDS_NONE;
    if (shape->kind == YK_ROWS_SPARSE && !o.schema)
        o.keys = (yk_key_space){.features = shape->dim, .hash = shape->hashed};
    return o;
}

yk_status yk_data_open(const yoke_data *data, const yk_trained *model, bool unlabeled, const char *carry,
                       yk_source **out)
{
    yk_source_options o = options_for(model, &data->options);
    o.unlabeled = unlabeled;
    o.carry = carry;
    if (carry && !data->spec && !data->memory.frame)
        return yk_fail(YK_EUSAGE, "yoke_prediction: data from memory has no columns with texts");
    yk_status st = data->spec ? yk_source_open(data->spec, data->split, &o, out)
                              : yk_source_from_memory(&data->memory, &o, out);
    if (!st && data->spec)
        st = yk_source_check_keys(*out, &data->options);
    return st ? st : yk_source_fits(*out, model->schema ? model->schema->format : NULL);
}
