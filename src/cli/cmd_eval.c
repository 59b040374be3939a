/* yoke eval and yoke predict: both apply a model to data. One prints a score, the other a line per example:
 *
 *     text   0.4229601                                         outputs, separated by blanks; then the file of an image
 *     CSV    id,city,probability,class                         a header; columns of the data, outputs, the class
 *            u1,Paris,0.4229601,no
 *     JSON   {"id":"u1","city":"Paris","probabilities":[0.4229601],"class":"no"} */
#include "cli/arguments.h"
#include "cli/cli.h"

#include "base/arena.h"
#include "base/number.h"
#include "data/files.h"
#include "data/spec.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct {
    const char *checkpoint, *data, *out;
    yoke_split split;
    yoke_options *options;
    bool json, print_torch;
    const char *id, *with, *threshold; /* predict */
    bool csv, raw;
} arguments;

/* ---- eval ---- */

static int evaluate(const arguments *a, const yoke_model *model, const yoke_data *data)
{
    yoke_error error;
    char *text = NULL;
    if (yoke_evaluate_metrics(model, data, a->json ? &text : NULL, a->json ? NULL : &text, &error))
        return yk_cli_fail(&error);
    return yk_cli_exit(yk_cli_print(text, a->json ? "\n" : ""));
}

static int print_torch(const arguments *a, const yoke_model *model, const yoke_data *data)
{
    (void)a, (void)data;
    return yk_cli_exit(yk_cli_print(yoke_model_torch(model), ""));
}

/* ---- predict ---- */

typedef struct output {
    const yoke_model *model;
    void (*add)(struct output *o, const yoke_predictions *block, size_t i); /* a line */
    yk_arena names;   /* texts: of columns of the data, then of outputs */
    size_t columns;   /* of the data */
    double threshold; /* one output: class 1 from this value on */
    bool raw, regression;
    yk_file *file; /* NULL: stdout */
    yk_text text;  /* the lines of a block; s NULL: none yet */
    char failure[1024];
} output;

static yk_status parse_threshold(output *o, const char *text)
{
    if (yk_number_real(text, 0.0, 1.0, &o->threshold))
        return yk_fail(YK_EUSAGE, "--threshold %s: %s", text, yk_error());
    if (o->regression)
        return yk_fail(YK_EUSAGE, "--threshold is for models with classes; this one predicts numbers");
    if (yoke_model_outputs(o->model) != 1)
        return yk_fail(
            YK_EUSAGE,
            "--threshold is for models with two classes and one output; the class of this model is "
            "the one with the largest probability");
    return YK_OK;
}

static size_t class_of(const output *o, const float *p, size_t n)
{
    size_t best = 0;
    if (n == 1)
        return (double)p[0] >= (o->raw ? log(o->threshold / (1.0 - o->threshold)) : o->threshold);
    for (size_t c = 1; c < n; c++)
        best = p[c] > p[best] ? c : best;
    return best;
}

static void add_line(output *o, const yoke_predictions *block, size_t i)
{
    for (size_t c = 0; c < block->outputs; c++)
        yk_text_print(&o->text, "%s%.7g", c ? " " : "", (double)block->probability[i * block->outputs + c]);
    if (block->file) /* the rest of the line, whatever it contains */
        yk_text_add(&o->text, " ");
    for (const char *at = block->file ? block->file[i] : ""; *at; at++)
        yk_text_put(&o->text, *at == '\n' || *at == '\r' ? "?" : at, 1);
    yk_text_add(&o->text, "\n");
}

/* Quoted if necessary; otherwise exactly as in the data. */
static void add_field(output *o, const char *s, const char *after)
{
    if (!strpbrk(s, ",\"\r\n")) {
        yk_text_add(&o->text, s);
    } else {
        yk_text_add(&o->text, "\"");
        for (; *s; s++)
            yk_text_put(&o->text, *s == '"' ? "\"\"" : s, *s == '"' ? 2 : 1);
        yk_text_add(&o->text, "\"");
    }
    yk_text_add(&o->text, after);
}

/* Its name, or its number. */
static const char *class_name(const output *o, size_t c, char number[static 24])
{
    const char *name = yoke_model_class(o->model, c);
    snprintf(number, 24, "%zu", c);
    return name ? name : number;
}

static void add_fields(output *o, const yoke_predictions *block, size_t i)
{
    const float *p = block->probability + i * block->outputs;
    char number[24];
    for (size_t k = 0; k < block->columns; k++)
        add_field(o, block->column[i * block->columns + k], ",");
    if (block->file)
        add_field(o, block->file[i], ",");
    for (size_t c = 0; c < block->outputs; c++)
        yk_text_print(&o->text, o->regression ? "%.7g\n" : "%.7g,", (double)p[c]);
    if (!o->regression)
        add_field(o, class_name(o, class_of(o, p, block->outputs), number), "\n");
}

static void add_classes(const output *o, yk_json *j, const float *p, size_t outputs)
{
    const size_t class = class_of(o, p, outputs);
    const char *name = yoke_model_class(o->model, class);
    yk_json_array(j, yk_arena_texts(&o->names)[o->columns]);
    for (size_t c = 0; c < outputs; c++)
        yk_json_real(j, NULL, (double)p[c]);
    yk_json_end(j);
    if (name)
        yk_json_text(j, "class", name);
    else
        yk_json_int(j, "class", (int64_t) class);
}

static void add_object(output *o, const yoke_predictions *block, size_t i)
{
    const float *p = block->probability + i * block->outputs;
    yk_json j = {.digits = 7};
    yk_json_object(&j, NULL);
    for (size_t k = 0; k < block->columns; k++)
        yk_json_text(&j, yk_arena_texts(&o->names)[k], block->column[i * block->columns + k]);
    if (o->regression)
        yk_json_real(&j, "prediction", (double)p[0]);
    else
        add_classes(o, &j, p, block->outputs);
    if (block->file)
        yk_json_text(&j, "file", block->file[i]);
    yk_json_end(&j);
    char *line = yk_json_take(&j);
    if (line)
        yk_text_print(&o->text, "%s\n", line);
    else
        o->text.status = yk_fail_memory(block->outputs, "a line");
    free(line);
}

static void add_header(output *o, const yoke_predictions *block)
{
    for (size_t k = 0; k < o->names.n; k++) {
        if (k == o->columns && block->file)
            yk_text_add(&o->text, "file,");
        add_field(o, yk_arena_texts(&o->names)[k], k + 1 < o->names.n ? "," : "\n");
    }
}

/* A column of --id or --with must not have the name of an output. In a JSON object, all names must differ. */
static yk_status name_columns(output *o, const char *columns)
{
    const bool object = o->add == add_object;
    const size_t outputs = o->regression || object ? 0 : yoke_model_outputs(o->model);
    char number[24];
    for (size_t n; *columns; columns += n + (columns[n] != 0)) {
        n = strcspn(columns, ",");
        yk_arena_print(&o->names, "%.*s", (int)n, columns);
    }
    o->columns = o->names.n;
    for (size_t k = 0; k < outputs; k++)
        yk_arena_print(&o->names, outputs > 1 ? "%s_%s" : "%s", o->raw ? "score" : "probability",
                       class_name(o, k, number));
    if (object && !o->regression)
        yk_arena_print(&o->names, o->raw ? "scores" : "probabilities");
    yk_arena_print(&o->names, o->regression ? "prediction" : "class");
    char *const *name = yk_arena_texts(&o->names);
    for (size_t i = 0; !o->names.status && i < o->columns; i++)
        for (size_t k = object ? i + 1 : o->columns; k < o->names.n; k++)
            if (!strcmp(name[i], name[k]))
                return yk_fail(YK_EUSAGE,
                               "--id or --with %s: the predictions would have two columns of this name: "
                               "specify the column by its number, which then replaces the name",
                               name[i]);
    return o->names.status;
}

/* Whether a file is one of those that `data` reads. */
static bool is_read(const char *data, const char *path)
{
    struct stat there;
    yk_spec spec;
    yk_files f = {0};
    bool found = false;
    if (stat(path, &there) || yk_spec_is_stdin(data) || yk_spec_parse(data, &spec))
        return false;
    if (!yk_files_find(spec.where, &f))
        for (size_t i = 0; f.state && i < f.n; i++)
            found |= f.state[i].st_dev == there.st_dev && f.state[i].st_ino == there.st_ino;
    yk_files_fini(&f);
    yk_spec_fini(&spec);
    return found;
}

static int write_block(void *context, const yoke_predictions *block)
{
    output *o = context;
    yk_text *t = &o->text;
    if (!t->s && o->add == add_fields)
        add_header(o, block);
    for (size_t i = 0; i < block->n; i++)
        o->add(o, block, i);
    yk_status st = t->status;
    if (!st && o->file)
        st = yk_file_write(o->file, t->s, t->n);
    else if (!st && fwrite(t->s, 1, t->n, stdout) < t->n)
        st = yk_cli_flush();
    t->n = 0;
    if (st)
        snprintf(o->failure, sizeof o->failure, "%s", yk_error());
    return st;
}

static int predict(const arguments *a, const yoke_model *model, const yoke_data *data)
{
    output o = {.model = model,
                .threshold = nextafter(0.5, 1.0), /* above 0.5, as in metrics and Python */
                .raw = a->raw,
                .regression = yoke_model_regression(model)};
    char columns[4096];
    snprintf(columns, sizeof columns, "%s%s%s", a->id ? a->id : "", a->id && a->with ? "," : "",
             a->with ? a->with : "");
    const bool table = a->csv || *columns || a->threshold;
    o.add = a->json ? add_object : table ? add_fields : add_line;
    const yoke_prediction how = {sizeof how, *columns ? columns : NULL, a->raw};
    yoke_error error;
    yk_status st = a->threshold ? parse_threshold(&o, a->threshold) : YK_OK;
    if (!st)
        st = name_columns(&o, columns);
    if (!st && a->out && is_read(a->data, a->out))
        st = yk_fail(YK_EUSAGE, "--out %s is one of the files of --data: choose another file", a->out);
    if (!st && a->out)
        st = yk_file_create_in(NULL, a->out, &o.file);
    const bool failed = !st && yoke_predict_with(model, data, &how, write_block, &o, &error);
    if (*o.failure)
        yk_fail(YK_ESYSTEM, "%s", o.failure); /* the library has replaced it: stopped by the caller */
    st = yk_file_close(o.file, failed ? YK_ESYSTEM : st);
    if (!st && !a->out)
        st = yk_cli_flush();
    yk_text_fini(&o.text);
    yk_arena_free(&o.names);
    return failed && !*o.failure ? yk_cli_fail(&error) : yk_cli_exit(st);
}

/* ---- the commands ---- */

enum { EVAL = 1, PREDICT = 2 };

/* `line`: without its table. */
static void parse(yk_command_line line, int argc, char **argv, arguments *a)
{
    const yk_argument table[] = {
        {"checkpoint", 'c', "DIR", yk_argument_text, &a->checkpoint,
         "run directory (its best model, or else its last), one of its checkpoints/step-N, or a "
         "model.safetensors file"},
        {"data", 'd', "SPEC", yk_argument_text, &a->data, "data, as for yoke train"},
        {"split", 0, "SPLIT", yk_argument_split, &a->split,
         "train or test, for data that has both; ?split=0.9 in SPEC selects rows", "test"},
        {"features", 0, "N", yk_argument_option, a->options, "as for yoke train"},
        {"hash-bits", 0, "B", yk_argument_option, a->options, "as for yoke train"},
        {"skip-bad", 0, "N", yk_argument_option, a->options, "skip and count up to N bad records", "0"},
        {"json", 0, NULL, yk_argument_flag, &a->json, "print one JSON object", .of = EVAL},
        {"json", 0, NULL, yk_argument_flag, &a->json, "print one JSON object per line", .of = PREDICT},
        {"quiet", 0, NULL, yk_argument_quiet, NULL, "print no notes to stderr"},
        {"print-torch", 0, NULL, yk_argument_flag, &a->print_torch,
         "print the model as Python source for PyTorch; --data is not needed", .of = EVAL},
        {"csv", 0, NULL, yk_argument_flag, &a->csv,
         "print CSV with a header: columns of the data, probabilities, class", .of = PREDICT},
        {"id", 0, "COLUMN", yk_argument_text, &a->id,
         "add this column of a table, or the tag of vw data, to the output (CSV, or --json)", .of = PREDICT},
        {"with", 0, "COLUMNS", yk_argument_text, &a->with, "add these columns, separated by commas",
         .of = PREDICT},
        {"threshold", 0, "P", yk_argument_text, &a->threshold,
         "class 1 if its probability is at least P, not only if it is above 0.5 (CSV, or --json)", NULL,
         .of = PREDICT},
        {"raw", 0, NULL, yk_argument_flag, &a->raw,
         "print log-odds of class 1, or logarithms of all probabilities", .of = PREDICT},
        {"out", 'o', "FILE", yk_argument_text, &a->out, "write to FILE", "stdout", .of = PREDICT},
        {NULL}};
    line.usage = "--checkpoint DIR --data SPEC [OPTION...]";
    line.table = table;
    line.unexpected = "use --data to specify the data";
    yk_arguments_parse(&line, argc, argv);
    if (!a->checkpoint)
        yk_usage_error("--checkpoint is missing: give the run directory (--out) of a training run");
    if (!a->data && !a->print_torch)
        yk_usage_error("--data is missing");
    if (a->csv && a->json)
        yk_usage_error("--csv and --json cannot be combined: choose one");
}

static int run(const arguments *a,
               int (*use)(const arguments *a, const yoke_model *model, const yoke_data *data))
{
    yoke_model *model = NULL;
    yoke_data *data = NULL;
    yoke_error error;
    const bool failed = yoke_model_load(a->checkpoint, &model, &error) ||
                        (a->data && yoke_data_from_spec(a->data, a->split, a->options, &data, &error));
    const int code = failed ? yk_cli_fail(&error) : use(a, model, data);
    yoke_data_free(data);
    yoke_model_free(model);
    yoke_options_free(a->options);
    return code;
}

int yk_cmd_eval(int argc, char **argv)
{
    arguments a = {.split = YOKE_TEST_SPLIT, .options = yoke_options_create()};
    const yk_command_line line = {
        .name = "yoke eval",
        .command = EVAL,
        .summary = "Print the metrics of a trained model: loss, accuracy, AUC and others.",
        .notes = "Examples:\n"
                 "  yoke eval --checkpoint runs/ctr --data tfrecord:clicks/test\n"
                 "  yoke eval -c runs/mnist/checkpoints/step-3000 -d idx:mnist --json\n"
                 "  yoke eval -c runs/mnist --print-torch > model.py"};
    parse(line, argc, argv, &a);
    return run(&a, a.print_torch ? print_torch : evaluate);
}

int yk_cmd_predict(int argc, char **argv)
{
    arguments a = {.split = YOKE_TEST_SPLIT, .options = yoke_options_create()};
    const yk_command_line line = {
        .name = "yoke predict",
        .command = PREDICT,
        .summary = "Print one line per example: the probability of class 1 (logreg, fm, wide-deep,\n"
                   "deepfm) or of each class; for regression, the predicted number. With --data\n"
                   "images:DIR, the file name follows on each line.",
        .notes = "Examples:\n"
                 "  yoke predict --checkpoint runs/ctr --data libsvm:new.libsvm > p.txt\n"
                 "  yoke predict --checkpoint runs/mnist --data idx:mnist --out p.txt\n"
                 "  yoke predict --checkpoint runs/cats --data images:new --json\n"
                 "  yoke predict --checkpoint runs/ctr --data csv:new.csv --id user --with city"};
    parse(line, argc, argv, &a);
    return run(&a, predict);
}
