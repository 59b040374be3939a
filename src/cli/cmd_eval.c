/* yoke eval and yoke predict: both apply a model to data. One prints a score, the other a line per example. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/output.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yoke.h>

typedef struct {
    const char *checkpoint, *data, *out;
    yoke_split split;
    yoke_options *options;
    bool json, print_torch;
} arguments;

/* ---- eval ---- */

static void print_json_number(yk_output *o, const char *name, double x)
{
    if (isfinite(x))
        yk_output_print(o, ",\"%s\":%.17g", name, x);
    else
        yk_output_print(o, ",\"%s\":null", name);
}

static int print_score(const arguments *a, const yoke_score *s)
{
    yk_output *o = yk_output_open(NULL);
    if (a->json) {
        yk_output_print(o, "{\"examples\":%llu", (unsigned long long)s->examples);
        print_json_number(o, "loss", s->loss);
        print_json_number(o, "accuracy", s->accuracy);
        print_json_number(o, "auc", s->auc);
        print_json_number(o, "majority_accuracy", s->majority_accuracy);
        yk_output_print(o, "}\n");
        return yk_output_close(o, 0);
    }
    yk_output_print(o, "examples  %llu\nloss      %.5f\naccuracy  %.2f %%   (majority class: %.2f %%)\n",
                    (unsigned long long)s->examples, s->loss, 100.0 * s->accuracy,
                    100.0 * s->majority_accuracy);
    if (isfinite(s->auc))
        yk_output_print(o, "AUC       %.4f\n", s->auc);
    return yk_output_close(o, 0);
}

static int print_torch(const char *checkpoint)
{
    yoke_model *model = NULL;
    yoke_error error;
    if (yoke_model_load(checkpoint, &model, &error))
        return yk_cli_fail(&error);
    char *text = yoke_model_torch(model);
    yk_output *o = yk_output_open(NULL);
    for (const char *line = text; line && *line; line += strcspn(line, "\n") + 1) /* ends with a newline */
        yk_output_print(o, "%.*s\n", (int)strcspn(line, "\n"), line);
    free(text);
    yoke_model_free(model);
    return yk_output_close(o, text ? 0 : YOKE_SYSTEM_ERROR);
}

static int evaluate(const arguments *a, const yoke_model *model, const yoke_data *data)
{
    yoke_score score;
    yoke_error error;
    return yoke_evaluate(model, data, &score, &error) ? yk_cli_fail(&error) : print_score(a, &score);
}

/* ---- predict ---- */

typedef struct {
    yk_output *out;
    bool json;
    char failure[1024]; /* why writing failed */
} printer;

static void print_text(yk_output *o, const float *p, size_t n, const char *file)
{
    for (size_t c = 0; c < n; c++)
        yk_output_print(o, "%s%.7g", c ? " " : "", (double)p[c]);
    if (file) /* the rest of the line, whatever it contains */
        yk_output_print(o, " ");
    for (const char *at = file; at && *at; at++)
        yk_output_print(o, "%c", *at == '\n' || *at == '\r' ? '?' : *at);
    yk_output_print(o, "\n");
}

static void print_object(yk_output *o, const float *p, size_t n, const char *file)
{
    for (size_t c = 0; c < n; c++)
        yk_output_print(o, "%s%.7g", c ? "," : "{\"probabilities\":[", (double)p[c]);
    yk_output_print(o, "]");
    if (file) {
        yk_output_print(o, ",\"file\":");
        yk_output_json_text(o, file);
    }
    yk_output_print(o, "}\n");
}

static int print_predictions(void *context, const yoke_predictions *block)
{
    printer *to = context;
    for (size_t i = 0; i < block->n; i++)
        (to->json ? print_object : print_text)(to->out, block->probability + i * block->outputs,
                                               block->outputs, block->file ? block->file[i] : NULL);
    if (yk_output_failed(to->out))
        snprintf(to->failure, sizeof to->failure, "%s", yk_error());
    return yk_output_failed(to->out);
}

static int predict(const arguments *a, const yoke_model *model, const yoke_data *data)
{
    printer to = {yk_output_open(a->out), a->json, ""};
    yoke_error error;
    int code = 0;
    if (yoke_predict(model, data, print_predictions, &to, &error) && !yk_output_failed(to.out))
        code = yk_cli_fail(&error);
    if (*to.failure)
        yk_fail(YK_ESYSTEM, "%s", to.failure); /* yoke_predict() has replaced it: stopped by the caller */
    return yk_output_close(to.out, code);
}

/* ---- the commands ---- */

/* `line`: without its table. */
static void parse(yk_command_line line, const char *json_help, bool has_out, int argc, char **argv,
                  arguments *a)
{
    const yk_argument out = {"out", 'o', "FILE", yk_argument_text, &a->out, "write to FILE", "stdout"},
                      torch = {"print-torch",
                               0,
                               NULL,
                               yk_argument_flag,
                               &a->print_torch,
                               "print the model as Python source for PyTorch; --data is not needed"};
    const yk_argument table[] = {
        {"checkpoint", 'c', "DIR", yk_argument_text, &a->checkpoint,
         "run directory, one of its checkpoints/step-N, or a model.safetensors file"},
        {"data", 'd', "SPEC", yk_argument_text, &a->data, "data, as for yoke train"},
        {"split", 0, "SPLIT", yk_argument_split, &a->split, "train or test, for data that has both", "test"},
        {"features", 0, "N", yk_argument_option, a->options, "as for yoke train"},
        {"hash-bits", 0, "B", yk_argument_option, a->options, "as for yoke train"},
        {"skip-bad", 0, "N", yk_argument_option, a->options, "skip and count up to N bad records", "0"},
        {"json", 0, NULL, yk_argument_flag, &a->json, json_help},
        {"quiet", 0, NULL, yk_argument_quiet, NULL, "print no notes to stderr"},
        has_out ? out : torch,
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
                        yoke_data_from_spec(a->data, a->split, a->options, &data, &error);
    const int code = failed ? yk_cli_fail(&error) : use(a, model, data);
    yoke_data_free(data);
    yoke_model_free(model);
    yoke_options_free(a->options);
    return code;
}

int yk_cmd_eval(int argc, char **argv)
{
    arguments a = {.split = YOKE_TEST_SPLIT, .options = yoke_options_create()};
    const yk_command_line line = {.name = "yoke eval",
                                  .summary = "Print loss, accuracy and AUC of a trained model.",
                                  .notes =
                                      "Examples:\n"
                                      "  yoke eval --checkpoint runs/ctr --data tfrecord:clicks/test\n"
                                      "  yoke eval -c runs/mnist/checkpoints/step-3000 -d idx:mnist --json\n"
                                      "  yoke eval -c runs/mnist --print-torch > model.py"};
    parse(line, "print one JSON object", false, argc, argv, &a);
    if (a.print_torch) {
        yoke_options_free(a.options);
        return print_torch(a.checkpoint);
    }
    return run(&a, evaluate);
}

int yk_cmd_predict(int argc, char **argv)
{
    arguments a = {.split = YOKE_TEST_SPLIT, .options = yoke_options_create()};
    const yk_command_line line = {
        .name = "yoke predict",
        .summary = "Print one line per example: the probability of class 1 (logreg, fm, wide-deep,\n"
                   "deepfm) or of each class. With --data images:DIR, the file name follows on each\n"
                   "line.",
        .notes = "Examples:\n"
                 "  yoke predict --checkpoint runs/ctr --data libsvm:new.libsvm > p.txt\n"
                 "  yoke predict --checkpoint runs/mnist --data idx:mnist --out p.txt\n"
                 "  yoke predict --checkpoint runs/cats --data images:new --json"};
    parse(line, "print one JSON object per line", true, argc, argv, &a);
    return run(&a, predict);
}
