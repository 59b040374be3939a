/* yoke eval and yoke predict: both run a model over data, and print a score or a line per example. */
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yoke.h>

enum { FEATURES = 1000, HASH_BITS, SKIP_BAD, SPLIT, JSON, QUIET };

typedef struct {
    const char *checkpoint, *data, *out;
    yoke_split split;
    yoke_options *options;
    bool json;
} arguments;

static const struct argp_option options[] = {
    {"checkpoint", 'c', "DIR", 0, "run directory, one of its checkpoints/step-N, or a model.safetensors file",
     0},
    {"data", 'd', "SPEC", 0, "data, as for yoke train", 0},
    {"split", SPLIT, "SPLIT", 0, "train or test, for data that has both (idx, synth); default test", 0},
    {"features", FEATURES, "N", 0, "as for yoke train", 0},
    {"hash-bits", HASH_BITS, "B", 0, "as for yoke train", 0},
    {"skip-bad", SKIP_BAD, "N", 0, "skip and count up to N bad records", 0},
    {"json", JSON, NULL, 0, "eval: print one JSON object; predict: one per line", 0},
    {"quiet", QUIET, NULL, 0, "no notes on stderr", 0},
    {"out", 'o', "FILE", 0, "predict: write to FILE instead of stdout", 0},
    {0}};

static void set_option(const arguments *a, const char *name, const char *value)
{
    yoke_error error;
    if (yoke_options_set(a->options, name, value, &error))
        exit(yk_cli_fail(&error));
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *a = state->input;
    switch (key) {
    case 'c':
        a->checkpoint = arg;
        return 0;
    case 'd':
        a->data = arg;
        return 0;
    case 'o':
        a->out = arg;
        return 0;
    case JSON:
        a->json = true;
        return 0;
    case QUIET:
        yk_terminal_quiet(true);
        return 0;
    case FEATURES:
        set_option(a, "features", arg);
        return 0;
    case HASH_BITS:
        set_option(a, "hash-bits", arg);
        return 0;
    case SKIP_BAD:
        set_option(a, "skip-bad", arg);
        return 0;
    case SPLIT:
        if (strcmp(arg, "train") && strcmp(arg, "test"))
            argp_error(state, "--split is train or test");
        a->split = strcmp(arg, "train") ? YOKE_TEST_SPLIT : YOKE_TRAIN_SPLIT;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s': data is given as --data %s", arg, arg);
        return 0;
    case ARGP_KEY_END:
        if (!a->checkpoint)
            argp_error(state, "--checkpoint is missing: the --out of a training run");
        if (!a->data)
            argp_error(state, "--data is missing");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

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

static int print_predictions(void *context, const yoke_predictions *some)
{
    const printer *to = context;
    for (size_t i = 0; i < some->n; i++)
        (to->json ? print_object : print_text)(to->out, some->probability + i * some->outputs, some->outputs,
                                               some->file ? some->file[i] : NULL);
    return yk_output_failed(to->out);
}

static int predict(const arguments *a, const yoke_model *model, const yoke_data *data)
{
    printer to = {yk_output_open(a->out), a->json};
    yoke_error error;
    int code = 0;
    if (yoke_predict(model, data, print_predictions, &to, &error) && !yk_output_failed(to.out))
        code = yk_cli_fail(&error);
    return yk_output_close(to.out, code);
}

/* ---- */

static int run(int argc, char **argv, char *name, const char *doc,
               int (*use)(const arguments *a, const yoke_model *model, const yoke_data *data))
{
    arguments a = {.split = YOKE_TEST_SPLIT, .options = yoke_options_create()};
    const struct argp argp = {options, parse, NULL, doc, NULL, NULL, NULL};
    yoke_model *model = NULL;
    yoke_data *data = NULL;
    yoke_error error;
    argv[0] = name;
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    const bool failed = yoke_model_load(a.checkpoint, &model, &error) ||
                        yoke_data_from_spec(a.data, a.split, a.options, &data, &error);
    const int code = failed ? yk_cli_fail(&error) : use(&a, model, data);
    yoke_data_free(data);
    yoke_model_free(model);
    yoke_options_free(a.options);
    return code;
}

int yk_cmd_eval(int argc, char **argv)
{
    char name[] = "yoke eval";
    return run(argc, argv, name,
               "Print loss, accuracy and AUC of a trained model.\v"
               "Examples:\n"
               "  yoke eval --checkpoint runs/ctr --data tfrecord:clicks/test\n"
               "  yoke eval --checkpoint runs/mnist/checkpoints/step-3000 --data idx:mnist --json",
               evaluate);
}

int yk_cmd_predict(int argc, char **argv)
{
    char name[] = "yoke predict";
    return run(
        argc, argv, name,
        "Print the probability of class 1 (logreg), or of each class: one line per example. For images:, "
        "the name of the file follows.\v"
        "Examples:\n"
        "  yoke predict --checkpoint runs/ctr --data libsvm:new.libsvm > p.txt\n"
        "  yoke predict --checkpoint runs/mnist --data idx:mnist --out p.txt\n"
        "  yoke predict --checkpoint runs/cats --data images:new --json",
        predict);
}
