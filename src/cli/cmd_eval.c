/* yoke eval and yoke predict: the same walk over the data, ending in a score or in a line per example. */
#include "cli/cli.h"

#include "base/file.h"
#include "base/log.h"
#include "train/infer.h"
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEATURES = 1000, HASH_BITS, SKIP_BAD, SPLIT, JSON, QUIET };

typedef struct {
    yk_infer infer;
    const char *out;
    bool json, predict, split_given;
} arguments;

static const struct argp_option options[] = {
    {"checkpoint", 'c', "DIR", 0, "run directory, or one of its checkpoints/step-N", 0},
    {"data", 'd', "SPEC", 0, "data, as for yoke train", 0},
    {"split", SPLIT, "HALF", 0, "train or test, of data that has both (idx, synth); default test", 0},
    {"features", FEATURES, "N", 0, "as for yoke train", 0},
    {"hash-bits", HASH_BITS, "B", 0, "as for yoke train", 0},
    {"skip-bad", SKIP_BAD, "N", 0, "skip and count up to N bad records", 0},
    {"json", JSON, NULL, 0, "eval: the score as one JSON object", 0},
    {"quiet", QUIET, NULL, 0, "no notes on stderr", 0},
    {"out", 'o', "FILE", 0, "predict: write to FILE instead of stdout", 0},
    {0}};

static uint64_t whole(struct argp_state *state, const char *name, const char *arg, double most)
{
    char *end;
    double x = strtod(arg, &end);
    if (end == arg || *end || !(x >= 0 && x <= most) || x != floor(x))
        argp_error(state, "--%s %s: that is not a whole number from 0 to %.0f", name, arg, most);
    return (uint64_t)x;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *a = state->input;
    switch (key) {
    case 'c':
        a->infer.checkpoint = arg;
        return 0;
    case 'd':
        a->infer.data = arg;
        return 0;
    case 'o':
        a->out = arg;
        return 0;
    case JSON:
        a->json = true;
        return 0;
    case QUIET:
        yk_log_quiet(true);
        return 0;
    case FEATURES:
        a->infer.options.features = whole(state, "features", arg, INT32_MAX - 1);
        return 0;
    case HASH_BITS:
        a->infer.options.hash_bits = (unsigned)whole(state, "hash-bits", arg, 30);
        return 0;
    case SKIP_BAD:
        a->infer.options.skip_bad = whole(state, "skip-bad", arg, 1e15);
        return 0;
    case SPLIT:
        if (strcmp(arg, "train") && strcmp(arg, "test"))
            argp_error(state, "--split is train or test");
        a->infer.split = strcmp(arg, "train") ? YK_SPLIT_TEST : YK_SPLIT_TRAIN;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "what is '%s'? data is given as --data %s", arg, arg);
        return 0;
    case ARGP_KEY_END:
        if (!a->infer.checkpoint)
            argp_error(state, "--checkpoint is missing: the --out of a training run");
        if (!a->infer.data)
            argp_error(state, "--data is missing");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void number(const char *name, double x, const char *end)
{
    if (isfinite(x))
        printf("\"%s\":%.9g%s", name, x, end);
    else
        printf("\"%s\":null%s", name, end);
}

static yk_status print_score(const arguments *a, const yk_score *s)
{
    if (a->json) {
        printf("{\"examples\":%llu,", (unsigned long long)s->examples);
        number("loss", s->loss, ",");
        number("accuracy", s->accuracy, ",");
        number("auc", s->auc, ",");
        number("majority_accuracy", s->majority_accuracy, "}\n");
    } else {
        printf("examples  %llu\nloss      %.5f\naccuracy  %.2f %%   (always the commonest class: %.2f %%)\n",
               (unsigned long long)s->examples, s->loss, 100.0 * s->accuracy, 100.0 * s->majority_accuracy);
        if (isfinite(s->auc))
            printf("AUC       %.4f\n", s->auc);
    }
    return fflush(stdout)
               ? yk_fail(YK_ESYSTEM, "the score could not be written to stdout: %s", strerror(errno))
               : YK_OK;
}

/* One line per example: the probability of class 1, or of every class. */
static yk_status write_lines(void *user, const float *p, size_t outputs, size_t n)
{
    yk_file *f = user;
    yk_status st = YK_OK;
    for (size_t i = 0; !st && i < n; i++)
        for (size_t c = 0; c < outputs; c++)
            st = yk_file_print(f, "%.7g%c", (double)p[i * outputs + c], c + 1 == outputs ? '\n' : ' ');
    return st;
}

static yk_status predict(const arguments *a)
{
    yk_file *f;
    yk_score score;
    yk_status st = a->out ? yk_file_create(a->out, &f) : yk_file_append("/dev/stdout", &f);
    if (st)
        return st;
    return yk_file_close(f, yk_infer_run(&a->infer, write_lines, f, &score));
}

static int run(int argc, char **argv, char *name, const char *doc, bool predicting)
{
    arguments a = {.infer = {.split = YK_SPLIT_TEST}, .predict = predicting};
    const struct argp argp = {options, parse, NULL, doc, NULL, NULL, NULL};
    argv[0] = name;
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    if (predicting)
        return yk_cli_exit(predict(&a));
    yk_score score;
    yk_status st = yk_infer_run(&a.infer, NULL, NULL, &score);
    return yk_cli_exit(st ? st : print_score(&a, &score));
}

int yk_cmd_eval(int argc, char **argv)
{
    char name[] = "yoke eval";
    return run(argc, argv, name,
               "Loss, accuracy and AUC of a trained model.\v"
               "Examples:\n"
               "  yoke eval --checkpoint runs/ctr --data tfrecord:clicks/test\n"
               "  yoke eval --checkpoint runs/mnist/checkpoints/step-3000 --data idx:mnist --json",
               false);
}

int yk_cmd_predict(int argc, char **argv)
{
    char name[] = "yoke predict";
    return run(argc, argv, name,
               "Probabilities, one line per example: that of class 1 (logreg), or of each class.\v"
               "Examples:\n"
               "  yoke predict --checkpoint runs/ctr --data libsvm:new.libsvm > p.txt\n"
               "  yoke predict --checkpoint runs/mnist --data idx:mnist --out p.txt",
               true);
}
