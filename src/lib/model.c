/* yoke_model: trained models, their tensors, evaluation and predictions. */
#include "lib/internal.h"

#include "base/mem.h"
#include "base/team.h"
#include "train/infer.h"
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* yoke_model is the public name of yk_trained. */
static const yk_trained *trained(const yoke_model *m)
{
    return (const yk_trained *)m;
}

yoke_status yoke_model_load(const char *path, yoke_model **out, yoke_error *error)
{
    yk_trained *t = NULL;
    const yk_status st = yk_trained_load(path, &t);
    *out = (yoke_model *)t;
    return yk_api_status(st, error);
}

yoke_status yoke_model_save(const yoke_model *m, const char *path, yoke_error *error)
{
    char *a = strdup(path), *b = strdup(path);
    yk_status st =
        a && b ? yk_trained_save(trained(m), dirname(a), basename(b)) : yk_fail_memory(PATH_MAX, "a path");
    free(a);
    free(b);
    return yk_api_status(st, error);
}

const char *yoke_model_name(const yoke_model *m)
{
    return trained(m)->name;
}

size_t yoke_model_columns(const yoke_model *m)
{
    return trained(m)->model->shape.dim;
}

int yoke_model_hashed(const yoke_model *m)
{
    return trained(m)->model->shape.hashed;
}

int yoke_model_regression(const yoke_model *m)
{
    return trained(m)->model->loss->numbers;
}

size_t yoke_model_outputs(const yoke_model *m)
{
    return trained(m)->model->outputs;
}

int yoke_model_tensor_at(const yoke_model *m, size_t i, yoke_tensor *out)
{
    _Static_assert(sizeof out->shape / sizeof *out->shape == YK_MAX_RANK, "yoke_tensor.shape has room");
    const yk_model *model = trained(m)->model;
    if (i >= (size_t)model->ntensors)
        return 0;
    const yk_model_tensor *t = &model->tensor[i];
    *out = (yoke_tensor){.name = t->name, .rank = (size_t)t->rank, .size = t->size};
    memcpy(out->shape, t->shape, sizeof out->shape);
    if (!t->transposed)
        out->data = trained(m)->params + yk_model_group_offset(model, t->group) + t->offset;
    return 1;
}

void yoke_model_tensor_copy(const yoke_model *m, size_t i, float *out)
{
    const yk_model *model = trained(m)->model;
    yk_model_export(model, (int)i, trained(m)->params + yk_model_group_offset(model, model->tensor[i].group),
                    out);
}

char *yoke_model_schema(const yoke_model *m)
{
    return trained(m)->schema ? yk_schema_write(trained(m)->schema) : NULL;
}

const char *yoke_model_class(const yoke_model *m, size_t i)
{
    const yk_schema *s = trained(m)->schema;
    return s && i < s->classes.n ? s->classes.name[i] : NULL;
}

char *yoke_model_torch(const yoke_model *m)
{
    yk_text t = {0};
    yk_model_torch(trained(m)->model, &t);
    return yk_text_take(&t);
}

void yoke_model_free(yoke_model *m)
{
    yk_trained_release((yk_trained *)m);
}

/* yk_infer() on data of the library. */
static yk_status infer(const yoke_model *m, const yoke_data *data, const yoke_prediction *how,
                       yk_infer_each *each, void *context, yk_tally *out)
{
    yk_source *source = NULL;
    yk_status st = yk_data_open(data, trained(m), !out, how ? how->columns : NULL, &source);
    if (!st)
        st = yk_infer(trained(m), source, how && how->raw, each, context, out);
    if (!st && out && out->examples && !(out->weight > 0.0))
        st = yk_fail(YK_EDATA, "%s: all examples have zero weight: use other weights, or none", source->spec);
    yk_source_free(source);
    return st;
}

yoke_status yoke_evaluate(const yoke_model *m, const yoke_data *data, yoke_score *out, yoke_error *error)
{
    yk_tally tally = {0};
    yk_score s;
    yk_status st = infer(m, data, NULL, NULL, NULL, &tally);
    if (!st && !(st = yk_score_make(&tally, &s)))
        *out = (yoke_score){.examples = s.examples,
                            .loss = s.loss,
                            .accuracy = s.accuracy,
                            .majority_accuracy = s.majority_accuracy,
                            .auc = s.auc};
    yk_tally_fini(&tally);
    return yk_api_status(st, error);
}

yoke_status yoke_evaluate_metrics(const yoke_model *m, const yoke_data *data, char **json_out,
                                  char **text_out, yoke_error *error)
{
    const yk_schema *schema = trained(m)->schema;
    yk_tally tally = {0};
    yk_eval_metrics metrics = {0};
    char *json = NULL, *text = NULL;
    yk_status st = infer(m, data, NULL, NULL, NULL, &tally);
    if (!st)
        st = yk_eval_metrics_make(&tally, &metrics);
    if (!st &&
        ((json_out && !(json = yk_eval_metrics_json(&metrics, schema ? &schema->classes : NULL, 17))) ||
         (text_out && !(text = yk_show_metrics(&metrics, schema))))) {
        free(json);
        json = NULL;
        st = YK_ESYSTEM;
    }
    if (json_out)
        *json_out = json;
    if (text_out)
        *text_out = text;
    yk_eval_metrics_fini(&metrics);
    yk_tally_fini(&tally);
    return yk_api_status(st, error);
}

typedef struct {
    int (*each)(void *context, const yoke_predictions *block);
    void *context;
    int stopped;       /* what each() returned */
    const char **cell; /* [examples][columns]; or their files */
    size_t cell_cap, columns;
} prediction;

static yk_status pass_on(void *context, const yk_inferred *block)
{
    prediction *p = context;
    const bool files = block->reader && yk_reader_file(block->reader, block->first);
    const size_t columns = files ? 1 : p->columns;
    const yk_status st = YK_RESERVE(p->cell, p->cell_cap, block->n * columns, "cells");
    for (size_t i = 0; i < block->n * columns && !st; i++)
        p->cell[i] = yk_reader_cell(block->reader, block->first + i / columns, i % columns);
    if (st)
        return st;
    p->stopped = p->each(p->context, &(yoke_predictions){.n = block->n,
                                                         .outputs = block->outputs,
                                                         .probability = block->p,
                                                         .file = files ? p->cell : NULL,
                                                         .column = !files && columns ? p->cell : NULL,
                                                         .columns = p->columns});
    return p->stopped ? yk_fail(YK_ESTOP, "stopped by the caller") : YK_OK;
}

yoke_status yoke_predict_with(const yoke_model *m, const yoke_data *data, const yoke_prediction *given,
                              int (*each)(void *context, const yoke_predictions *block), void *context,
                              yoke_error *error)
{
    prediction p = {.each = each, .context = context};
    yoke_prediction how = {0};
    yk_status st = given ? YK_API_STRUCT(&how, given, raw) : YK_OK;
    for (const char *at = how.columns; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        p.columns++;
    if (!st)
        st = infer(m, data, &how, pass_on, &p, NULL);
    free(p.cell);
    const yoke_status status = yk_api_status(st, error);
    if (!p.stopped)
        return status;
    if (error)
        error->status = (yoke_status)p.stopped;
    return (yoke_status)p.stopped;
}

yoke_status yoke_predict(const yoke_model *m, const yoke_data *data,
                         int (*each)(void *context, const yoke_predictions *block), void *context,
                         yoke_error *error)
{
    return yoke_predict_with(m, data, NULL, each, context, error);
}

/* ---- predictions as an array ---- */

typedef struct {
    float *out;
    size_t left; /* examples that fit */
} part;

static yk_status append(void *context, const yk_inferred *block)
{
    part *p = context;
    if (block->n > p->left)
        return yk_fail(YK_EUSAGE, "yoke_predict_array: the data has more examples than `rows`");
    memcpy(p->out, block->p, block->n * block->outputs * sizeof *p->out);
    p->out += block->n * block->outputs;
    p->left -= block->n;
    return YK_OK;
}

yoke_status yoke_predict_array(const yoke_model *m, const yoke_data *data, float *out, size_t rows,
                               yoke_error *error)
{
    part all = {out, rows};
    yoke_data here = *data;
    yk_source *source = NULL;
    here.memory.in_place = data->memory.ascending; /* no copies */
    yk_status st = yk_data_open(&here, trained(m), true, NULL, &source);
    const bool in_place = !st && source->block_rows && !source->part.on && !source->options.skip_bad;
    if (in_place && source->examples == rows && rows)
        st = yk_infer_array(trained(m), source, out);
    else if (!st && !(st = yk_infer(trained(m), source, false, append, &all, NULL)) && all.left)
        st = yk_fail(YK_EUSAGE, "yoke_predict_array: the data has fewer examples than `rows`");
    yk_source_free(source);
    return yk_api_status(st, error);
}
