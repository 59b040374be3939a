/* yoke eval and yoke predict: both apply a model to data. One prints a score, the other a line per example. */
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/cli.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <yoke.h>

typedef struct {
    const char *checkpoint, *data, *out;
    yoke_split split;
    yoke_options *options;
    bool json, print_torch;
} arguments;

/* ---- eval ---- */

static int evaluate(const arguments *a, const yoke_model *model, const yoke_data *data)
{
    yoke_score s;
    yoke_error error;
    if (yoke_evaluate(model, data, &s, &error))
        return yk_cli_fail(&error);
    if (a->json) {
        yk_json j = {.digits = 17};
        yk_json_object(&j, NULL);
        yk_json_int(&j, "examples", (int64_t)s.examples);
        YK_JSON_REALS(&j, {"loss", s.loss}, {"accuracy", s.accuracy}, {"auc", s.auc},
                      {"majority_accuracy", s.majority_accuracy});
        yk_json_end(&j);
        return yk_cli_exit(yk_cli_print_json(&j));
    }
    printf("examples  %llu\nloss      %.5f\naccuracy  %.2f %%   (majority class: %.2f %%)\n",
           (unsigned long long)s.examples, s.loss, 100.0 * s.accuracy, 100.0 * s.majority_accuracy);
    if (isfinite(s.auc))
        printf("AUC       %.4f\n", s.auc);
    return yk_cli_exit(yk_cli_flush());
}

static int print_torch(const char *checkpoint)
{
    yoke_model *model = NULL;
    yoke_error error;
    if (yoke_model_load(checkpoint, &model, &error))
        return yk_cli_fail(&error);
    char *text = yoke_model_torch(model);
    fputs(text ? text : "", stdout);
    yoke_model_free(model);
    const yk_status st = text ? yk_cli_flush() : yk_fail_memory(4096, "the model");
    free(text);
    return yk_cli_exit(st);
}

/* ---- predict ---- */

typedef struct {
    yk_file *file; /* NULL: stdout */
    bool json;
    yk_text text;       /* the lines of a block */
    char failure[1024]; /* why writing failed */
} printer;

static void add_line(yk_text *t, const float *p, size_t n, const char *file)
{
    for (size_t c = 0; c < n; c++)
        yk_text_print(t, "%s%.7g", c ? " " : "", (double)p[c]);
    if (file) /* the rest of the line, whatever it contains */
        yk_text_add(t, " ");
    for (const char *at = file; at && *at; at++)
        yk_text_put(t, *at == '\n' || *at == '\r' ? "?" : at, 1);
    yk_text_add(t, "\n");
}

static void add_object(yk_text *t, const float *p, size_t n, const char *file)
{
    yk_json j = {.digits = 7};
    yk_json_object(&j, NULL);
    yk_json_array(&j, "probabilities");
    for (size_t c = 0; c < n; c++)
        yk_json_real(&j, NULL, (double)p[c]);
    yk_json_end(&j);
    if (file)
        yk_json_text(&j, "file", file);
    yk_json_end(&j);
    char *line = yk_json_take(&j);
    if (line)
        yk_text_print(t, "%s\n", line);
    else
        t->status = yk_fail_memory(n, "a line");
    free(line);
}

static int print_predictions(void *context, const yoke_predictions *block)
{
    printer *to = context;
    yk_text *t = &to->text;
    t->n = 0;
    for (size_t i = 0; i < block->n; i++)
        (to->json ? add_object : add_line)(t, block->probability + i * block->outputs, block->outputs,
                                           block->file ? block->file[i] : NULL);
    yk_status st = t->status;
    if (!st && to->file)
        st = yk_file_write(to->file, t->s, t->n);
    else if (!st && fwrite(t->s, 1, t->n, stdout) < t->n)
        st = yk_cli_flush();
    if (st)
        snprintf(to->failure, sizeof to->failure, "%s", yk_error());
    return st;
}

static int predict(const arguments *a, const yoke_model *model, const yoke_data *data)
{
    printer to = {.json = a->json};
    yoke_error error;
    yk_status st = a->out ? yk_file_create(a->out, &to.file) : YK_OK;
    if (st)
        return yk_cli_exit(st);
    const bool failed = yoke_predict(model, data, print_predictions, &to, &error);
    if (*to.failure)
        yk_fail(YK_ESYSTEM, "%s", to.failure); /* yoke_predict() has replaced it: stopped by the caller */
    st = yk_file_close(to.file, failed ? YK_ESYSTEM : YK_OK);
    yk_text_fini(&to.text);
    if (failed && !*to.failure)
        return yk_cli_fail(&error);
    return yk_cli_exit(st || a->out ? st : yk_cli_flush());
}

/* ---- the commands ---- */

/* `line`: without its table. */
static void parse(yk_command_line line, const char *json_help, bool has_out, int argc, char **argv,
                  arguments *a)
{
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
        has_out ? (yk_argument){"out", 'o', "FILE", yk_argument_text, &a->out, "write to FILE", "stdout"}
                : (yk_argument){"print-torch", 0, NULL, yk_argument_flag, &a->print_torch,
                                "print the model as Python source for PyTorch; --data is not needed"},
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
