/* yoke eval and yoke predict: both apply a model to data. One prints a score, the other a line per example. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/show_predictions.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yoke.h>

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
    printf(a->json ? "%s\n" : "%s", text);
    free(text);
    return yk_cli_exit(yk_cli_flush());
}

static int print_torch(const arguments *a, const yoke_model *model, const yoke_data *data)
{
    (void)a, (void)data;
    char *text = yoke_model_torch(model);
    fputs(text ? text : "", stdout);
    const yk_status st = text ? yk_cli_flush() : yk_fail_memory(4096, "the model");
    free(text);
    return yk_cli_exit(st);
}

/* ---- predict ---- */

static int predict(const arguments *a, const yoke_model *model, const yoke_data *data)
{
    char columns[4096] = "";
    snprintf(columns, sizeof columns, "%s%s%s", a->id ? a->id : "", a->id && a->with ? "," : "",
             a->with ? a->with : "");
    const bool table = a->csv || *columns || a->threshold;
    yk_show_predictions to = {.model = model,
                              .form = a->json ? YK_SHOW_JSON
                                      : table ? YK_SHOW_CSV
                                              : YK_SHOW_TEXT,
                              .columns = columns,
                              .threshold = 0.5,
                              .raw = a->raw};
    const yoke_prediction how = {sizeof how, *columns ? columns : NULL, a->raw};
    yoke_error error;
    yk_status st = a->threshold ? yk_show_threshold(&to, a->threshold) : YK_OK;
    if (st || (a->out && (st = yk_show_open(&to, a->data, a->out))))
        return yk_cli_exit(st);
    const bool failed = yoke_predict_with(model, data, &how, yk_show_block, &to, &error);
    st = yk_show_end(&to, failed);
    return failed && !*to.failure ? yk_cli_fail(&error) : yk_cli_exit(st);
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
         "class 1 if its probability is at least P (CSV, or --json)", "0.5", .of = PREDICT},
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
