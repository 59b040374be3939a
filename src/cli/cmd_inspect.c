/* yoke inspect: what a trained model is: its schema, its training, its largest weights by feature name, norms by field. */
#include "cli/cli.h"

#include "base/log.h"
#include "base/number.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "lib/internal.h"
#include "report/table.h"
#include "train/weights.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LABEL "%-12s"

typedef unsigned long long ull; /* for %llu */

enum { COLUMNS, WEIGHTS, FIELDS, TENSORS, TABLES };
static const struct {
    const char *name;
    size_t words; /* the first columns have texts */
    const char *title[7];
} layout[TABLES] = {
    [COLUMNS] = {"columns", 3, {"column", "role", "type", "values", "mean", "deviation"}},
    [WEIGHTS] = {"weights", 2, {"name", "class", "feature", "weight", "rows", "importance"}},
    [FIELDS] = {"fields", 2, {"field", "tensor", "features", "mean_norm", "max_norm", "importance"}},
    [TENSORS] = {"tensors", 2, {"tensor", "shape", "parameters", "norm", "max"}}};

typedef struct {
    char *path;
    const char *data, *csv;
    yoke_split split;
    yoke_options *options;
    int64_t top;
    bool json;
    /* what is found: */
    char *file;
    yk_trained *model;
    yk_safetensors *metadata;
    json_t *summary; /* NULL: none */
    yk_weights weights;
    yk_table table[TABLES];
} inspection;

/* ---- tables */

static void make_tensors(const inspection *i, yk_table *t)
{
    const yk_model *m = i->model->model;
    for (int k = 0; k < m->ntensors; k++) {
        const yk_model_tensor *w = &m->tensor[k];
        const float *p = i->model->params + yk_model_group_offset(m, w->group) + w->offset;
        double squares = 0.0, max = 0.0;
        char shape[64] = "";
        for (size_t e = 0; e < w->size; e++) {
            const double x = w->transposed ? p[e % w->shape[1] * w->transposed + e / w->shape[1]] : p[e];
            squares += x * x;
            max = fmax(max, fabs(x));
        }
        for (int d = 0, n = 0; d < w->rank; d++)
            n += snprintf(shape + n, sizeof shape - (size_t)n, "%s%zu", d ? "x" : "", w->shape[d]);
        yk_table_row(t, -1);
        yk_table_text(t, w->name);
        yk_table_text(t, shape);
        YK_TABLE_NUMBERS(t, (double)w->size, sqrt(squares), max);
    }
}

static void make_tables(inspection *i)
{
    const yk_schema *s = i->model->schema;
    yk_table *t = &i->table[COLUMNS];
    char text[32];
    for (int k = 0; k < TABLES; k++)
        for (size_t c = 0; layout[k].title[c]; c++) {
            yk_column column = {.words = c < layout[k].words};
            snprintf(column.title, sizeof column.title, "%s", layout[k].title[c]);
            yk_table_column(&i->table[k], &column);
        }
    for (size_t k = 0; s && k < s->ncolumns; k++) {
        const yk_schema_column *c = &s->column[k];
        const bool standard = c->role == YK_COLUMN_NUMERIC && s->scale == YK_SCALE_STANDARD;
        yk_table_row(t, -1);
        yk_table_text(t, yk_schema_title(s, c, text));
        yk_table_text(t, yk_column_role_name[c->role]);
        yk_table_text(t, c->type);
        YK_TABLE_NUMBERS(t, c->values.n ? (double)c->values.n : NAN, standard ? c->mean : NAN,
                         standard ? c->deviation : NAN);
    }
    t = &i->table[WEIGHTS];
    for (size_t k = 0; k < i->weights.n; k++) {
        const yk_weight *w = &i->weights.weight[k];
        yk_table_row(t, -1);
        yk_table_text(t, w->name);
        yk_table_text(t, yk_weight_class(i->model, w, text));
        YK_TABLE_NUMBERS(t, w->feature, (double)w->weight, i->data ? (double)w->rows : NAN, w->importance);
    }
    t = &i->table[FIELDS];
    for (size_t k = 0; k < i->weights.nfields; k++) {
        const yk_field_norm *f = &i->weights.field[k];
        yk_table_row(t, -1);
        yk_table_text(t, f->name);
        yk_table_text(t, f->tensor);
        YK_TABLE_NUMBERS(t, (double)f->features, f->mean_norm, f->max_norm, f->importance);
    }
    make_tensors(i, &i->table[TENSORS]);
}

/* ---- what the model is */

/* The summary of the run, if the file is one of its checkpoints. */
static json_t *read_summary(const char *file)
{
    char *path = NULL;
    const char *end = strstr(file, "/checkpoints/step-");
    if (!end || asprintf(&path, "%.*s/summary.json", (int)(end - file), file) < 0)
        return NULL;
    json_error_t why;
    json_t *o = json_load_file(path, 0, &why);
    if (!o && access(path, R_OK) == 0)
        yk_warn("%s: invalid JSON in line %d: %s; the training summary is not shown", path, why.line,
                why.text);
    free(path);
    return o;
}

static yk_status find(inspection *i)
{
    yk_source *source = NULL;
    yoke_data *data = NULL;
    yk_feature_names names = {0};
    yk_status st = yk_trained_file(i->path, &i->file);
    if (st || (st = yk_safetensors_open(i->file, &i->metadata)) || (st = yk_trained_load(i->file, &i->model)))
        return st;
    i->summary = read_summary(i->file);
    const char *trained_on = json_string_value(json_object_get(i->summary, "data"));
    i->weights = (yk_weights){.top = (size_t)i->top,
                              .base = yk_weights_base(i->model, i->data ? i->data : trained_on)};
    if (i->data && yoke_data_from_spec(i->data, i->split, i->options, &data, NULL))
        return YK_ESYSTEM;
    if (data) {
        data->options.names = &names;
        st = yk_data_open(data, i->model, true, NULL, &source);
    }
    if (!st)
        st = yk_weights_find(&i->weights, i->model, source, &names);
    yk_source_free(source);
    yoke_data_free(data);
    make_tables(i);
    for (int t = 0; t < TABLES && !st; t++)
        st = i->table[t].status;
    return st;
}

/* ---- text */

static void print_table(const char *title, yk_table *t)
{
    yk_table_drop_empty_columns(t);
    printf("\n%s\n", title);
    (void)yk_table_print(t, true, "", stdout);
}

static void print_training(const char *file, const json_t *o)
{
    static const char *const format[][2] = {
        {"epochs", ", epoch %g"},          {"steps", ", step %.0f"},
        {"examples", ", %.0f examples"},   {"train_loss", ", train loss %.5f"},
        {"test_loss", ", test loss %.5f"}, {"test_accuracy", ", accuracy %.4f"},
        {"test_auc", ", AUC %.4f"}};
    const char *state = json_string_value(json_object_get(o, "state"));
    printf(LABEL "%s", "training",
           state                                ? state
           : strstr(file, "/checkpoints/step-") ? "unknown: the run directory has no valid summary.json"
                                                : "unknown: the file is not in a run directory");
    for (size_t i = 0; i < sizeof format / sizeof *format; i++)
        if (json_is_number(json_object_get(o, format[i][0])))
            printf(format[i][1], json_number_value(json_object_get(o, format[i][0])));
    printf("\n");
}

/* "bias  0.02" or, for several outputs, "bias  no 0.1, yes -0.1" */
static void print_bias(const inspection *i)
{
    yk_text list = {0};
    char number[16];
    for (size_t k = 0; k < i->weights.nbias; k++) {
        const char *class = yk_weight_class(i->model, &(yk_weight){.output = (uint32_t)k}, number);
        if (yk_text_item(&list))
            yk_text_print(&list, "%s%s%.5g", class, *class ? " " : "", (double)i->weights.bias[k]);
    }
    if (list.s)
        printf("%-12s%s\n", "bias", list.s);
    yk_text_fini(&list);
}

static size_t parameters_of(const yk_model *m) /* without padding */
{
    size_t n = 0;
    for (int i = 0; i < m->ntensors; i++)
        n += m->tensor[i].size;
    return n;
}

static void print_text(inspection *i)
{
    const yk_model *m = i->model->model;
    const yk_schema *s = i->model->schema;
    const char *step = yk_safetensors_meta(i->metadata, "step"),
               *by = yk_safetensors_meta(i->metadata, "yoke");
    char title[160], *summary = s && s->ncolumns ? yk_schema_summary(s) : NULL;
    printf(LABEL "%s%s%s\n", "model", i->model->name, m->list ? ": " : "", m->list ? m->list : "");
    printf(LABEL "%s, step %s, written by yoke %s\n", "file", i->file, step ? step : "unknown",
           by ? by : "(unknown)");
    printf(LABEL "%zu, for %zu feature%s and %zu output%s\n", "parameters", parameters_of(m), m->shape.dim,
           yk_plural(m->shape.dim), m->outputs, yk_plural(m->outputs));
    printf(LABEL "%s%s%s\n", "data",
           s ? s->format
             : "unknown: yoke 0.1 and 0.2 did not store a schema; features have numbers, not names",
           summary ? ": " : "", summary ? summary : "");
    free(summary);
    print_training(i->file, i->summary);
    print_bias(i);
    if (i->table[COLUMNS].rows)
        print_table("columns", &i->table[COLUMNS]);
    snprintf(title, sizeof title, "%s, %zu of %llu that are not 0",
             i->data ? "most important weights (|weight| x mean |x|)" : "largest weights", i->weights.n,
             (ull)i->weights.nonzero);
    if (i->weights.n)
        print_table(title, &i->table[WEIGHTS]);
    if (i->weights.nfields > 1)
        print_table("norms by field", &i->table[FIELDS]);
    if (i->table[TENSORS].rows > 2)
        print_table("norms by tensor", &i->table[TENSORS]);
    if (!i->data && i->weights.n && ((s && yk_schema_hashes(s)) || m->shape.hashed))
        yk_note("the model does not contain the names of hashed features; to look them up, add --data SPEC");
}

/* ---- JSON and CSV */

static void put_table(yk_json *j, const inspection *all, int kind)
{
    const yk_table *t = &all->table[kind];
    yk_json_array(j, layout[kind].name);
    for (size_t i = 0; i < t->cells; i++) {
        const yk_cell *cell = &t->cell[i];
        const char *key = t->column[i % t->columns].title;
        if (i % t->columns == 0)
            yk_json_object(j, NULL);
        if (cell->text)
            yk_json_text(j, key, *cell->text ? cell->text : NULL);
        else if (cell->number == floor(cell->number))
            yk_json_int(j, key, (int64_t)cell->number);
        else
            yk_json_real(j, key, cell->number);
        if ((i + 1) % t->columns == 0)
            yk_json_end(j);
    }
    yk_json_end(j);
}

static yk_status print_json(const inspection *i)
{
    const yk_model *m = i->model->model;
    yk_json json = {0}, *j = &json;
    const char *text = yk_safetensors_meta(i->metadata, "step");
    uint64_t step = 0;
    const bool known = text && yk_digits(text, INT64_MAX, &step);
    char *schema = i->model->schema ? yk_schema_write(i->model->schema) : NULL;
    char *summary = i->summary ? json_dumps(i->summary, JSON_COMPACT) : NULL;
    YK_JSON(j, YK_OBJECT(NULL), YK_TEXT("model", i->model->name), YK_TEXT("list", m->list),
            YK_TEXT("file", i->file), YK_TEXT("yoke", yk_safetensors_meta(i->metadata, "yoke")),
            YK_INT_OR_NULL("step", known, step), YK_INT("parameters", (int64_t)parameters_of(m)),
            YK_INT("features", m->shape.dim), YK_INT("outputs", m->outputs),
            YK_INT("nonzero_weights", i->weights.nonzero), YK_INT_OR_NULL("rows", i->data, i->weights.rows));
    yk_json_raw(j, "schema", schema ? schema : "null");
    yk_json_raw(j, "training", summary ? summary : "null");
    yk_json_array(j, "bias");
    for (size_t k = 0; k < i->weights.nbias; k++)
        yk_json_real(j, NULL, (double)i->weights.bias[k]);
    yk_json_end(j);
    for (int t = WEIGHTS; t < TABLES; t++)
        put_table(j, i, t);
    yk_json_end(j);
    free(schema);
    free(summary);
    return yk_cli_print_json(j);
}

static yk_status print_csv(const inspection *i)
{
    yk_text text = {0};
    size_t t = 0;
    while (t < TABLES && strcmp(i->csv, layout[t].name))
        t++;
    if (t == TABLES || !i->table[t].rows)
        return yk_fail(YK_EUSAGE,
                       t == TABLES ? "--csv %s: must be weights, fields, tensors or columns"
                                   : "--csv %s: the model %s (%s) has no such table",
                       i->csv, i->path, i->model->name);
    yk_table_csv(&i->table[t], &text);
    fputs(text.s ? text.s : "", stdout);
    const yk_status st = text.status;
    yk_text_fini(&text);
    return st ? st : yk_cli_flush();
}

/* ---- the command */

static void parse(int argc, char **argv, inspection *i)
{
    const yk_argument table[] = {
        {"data", 'd', "SPEC", yk_argument_text, &i->data,
         "data, as for yoke train: for names of hashed features, and importance"},
        {"split", 0, "SPLIT", yk_argument_split, &i->split,
         "train or test, for data that has both; ?split=0.9 in SPEC selects rows", "train"},
        {"top", 0, "N", yk_argument_int, &i->top, "print at most N weights", "20", 1, 1e5},
        {"hash-bits", 0, "B", yk_argument_option, i->options, "as for yoke train"},
        {"skip-bad", 0, "N", yk_argument_option, i->options, "skip and count up to N bad records", "0"},
        {"csv", 0, "TABLE", yk_argument_text, &i->csv, "print weights, fields, tensors or columns as CSV"},
        {"json", 0, NULL, yk_argument_flag, &i->json, "print one JSON object"},
        {"quiet", 0, NULL, yk_argument_quiet, NULL, "print no notes to stderr"},
        {NULL}};
    const yk_command_line line = {
        "yoke inspect",
        "RUN [OPTION...]",
        "Describe a trained model: its data, its training, its largest weights by feature\n"
        "name, and norms by field and by tensor. RUN is a run directory, one of its\n"
        "checkpoints/step-N, or a model.safetensors file.",
        table,
        .operand = &i->path,
        .operands = 1,
        .unexpected = "inspect one model at a time",
        .notes = "Examples:\n"
                 "  yoke inspect runs/ctr\n"
                 "  yoke inspect runs/ctr --data csv:clicks.csv --top 50\n"
                 "  yoke inspect model.safetensors --csv weights > weights.csv"};
    if (!yk_arguments_parse(&line, argc, argv))
        yk_usage_error(
            "RUN is missing: give the run directory (--out) of a training run, or a model.safetensors file");
    if (i->csv && i->json)
        yk_usage_error("--csv and --json cannot be combined: choose one");
}

int yk_cmd_inspect(int argc, char **argv)
{
    inspection i = {.top = 20, .split = YOKE_TRAIN_SPLIT, .options = yoke_options_create()};
    parse(argc, argv, &i);
    yk_status st = find(&i);
    if (!st && !i.csv && !i.json) {
        print_text(&i);
        st = yk_cli_flush();
    } else if (!st) {
        st = i.csv ? print_csv(&i) : print_json(&i);
    }
    for (int t = 0; t < TABLES; t++)
        yk_table_fini(&i.table[t]);
    yk_weights_fini(&i.weights);
    json_decref(i.summary);
    yk_safetensors_free(i.metadata);
    free(i.file);
    yk_trained_release(i.model);
    yoke_options_free(i.options);
    return yk_cli_exit(st);
}
