/* yoke eval and yoke predict: the same walk over the data, ending in a score or in a line per example. */
#include "cli/cli.h"

#include "base/file.h"
#include "base/log.h"
#include "cli/arguments.h"
#include "cli/show_inspection.h"
#include "train/infer.h"
#include <argp.h>
#include <errno.h>
#include <limits.h>
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
    {"json", JSON, NULL, 0, "eval: the score as one JSON object; predict: an object a line", 0},
    {"quiet", QUIET, NULL, 0, "no notes on stderr", 0},
    {"out", 'o', "FILE", 0, "predict: write to FILE instead of stdout", 0},
    {0}};

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
        a->infer.options.features = yk_argument_whole(state, "features", arg, 0, INT32_MAX - 1);
        return 0;
    case HASH_BITS:
        a->infer.options.hash_bits = (unsigned)yk_argument_whole(state, "hash-bits", arg, 0, 30);
        return 0;
    case SKIP_BAD:
        a->infer.options.skip_bad = yk_argument_whole(state, "skip-bad", arg, 0, 1e15);
        return 0;
    case SPLIT:
        a->infer.split = yk_argument_split(state, arg);
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

static yk_status print_score(const arguments *a, const yk_score *s)
{
    if (a->json) {
        yk_json j = {0};
        yk_json_object(&j, NULL);
        yk_json_whole(&j, "examples", (int64_t)s->examples);
        YK_JSON_REALS(&j, {"loss", s->loss}, {"accuracy", s->accuracy}, {"auc", s->auc},
                      {"majority_accuracy", s->majority_accuracy});
        yk_json_end(&j);
        return yk_json_print(&j);
    }
    printf("examples  %llu\nloss      %.5f\naccuracy  %.2f %%   (always the commonest class: %.2f %%)\n",
           (unsigned long long)s->examples, s->loss, 100.0 * s->accuracy, 100.0 * s->majority_accuracy);
    if (isfinite(s->auc))
        printf("AUC       %.4f\n", s->auc);
    return fflush(stdout)
               ? yk_fail(YK_ESYSTEM, "the score could not be written to stdout: %s", strerror(errno))
               : YK_OK;
}

/* A file's name is the rest of its line, whatever is in it. */
static yk_status write_line(yk_file *f, const float *p, size_t n, char *path)
{
    yk_status st = YK_OK;
    for (size_t c = 0; !st && c < n; c++)
        st = yk_file_print(f, "%s%.7g", c ? " " : "", (double)p[c]);
    for (char *at = path; at && *at; at++)
        *at = *at == '\n' || *at == '\r' ? '?' : *at;
    return st ? st : path ? yk_file_print(f, " %s\n", path) : yk_file_print(f, "\n");
}

static yk_status write_object(yk_file *f, yk_json *j, const float *p, size_t n, const char *path)
{
    yk_json_object(j, NULL);
    yk_json_array(j, "probabilities");
    for (size_t c = 0; c < n; c++)
        yk_json_real(j, NULL, (double)p[c]);
    yk_json_end(j);
    if (path)
        yk_json_text(j, "file", path);
    yk_json_end(j);
    return yk_json_write(j, f);
}

typedef struct {
    yk_file *file;
    bool json;
    yk_json line;
} output;

/* One line per example: the probability of class 1, or of every class; and its file, where it has one of its own. */
static yk_status write_lines(void *user, const yk_inferred *some)
{
    output *o = user;
    yk_status st = YK_OK;
    for (size_t i = 0; !st && i < some->n; i++) {
        char path[PATH_MAX];
        const float *p = some->p + i * some->outputs;
        char *file =
            some->reader && yk_reader_file(some->reader, some->first + i, path, sizeof path) ? path : NULL;
        st = o->json ? write_object(o->file, &o->line, p, some->outputs, file)
                     : write_line(o->file, p, some->outputs, file);
    }
    return st;
}

static yk_status predict(const arguments *a)
{
    output o = {.json = a->json, .line = {.digits = 7}};
    yk_score score;
    yk_status st = a->out ? yk_file_create(a->out, &o.file) : yk_file_append("/dev/stdout", &o.file);
    if (st)
        return st;
    st = yk_file_close(o.file, yk_infer_run(&a->infer, write_lines, &o, &score));
    yk_json_fini(&o.line);
    return st;
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
    return run(
        argc, argv, name,
        "Probabilities, one line per example: that of class 1 (logreg), or of each class. Behind them, "
        "for images:, the picture's file.\v"
        "Examples:\n"
        "  yoke predict --checkpoint runs/ctr --data libsvm:new.libsvm > p.txt\n"
        "  yoke predict --checkpoint runs/mnist --data idx:mnist --out p.txt\n"
        "  yoke predict --checkpoint runs/cats --data images:new --json",
        true);
}
