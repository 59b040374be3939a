#include "cli/cli.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/show_model.h"
#include "train/train.h"
#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* ---- options: the table of train/config.h as argp sees it ---- */

enum { FIRST_KEY = 1000, MOST_OPTIONS = 64 };

typedef struct {
    yk_config *config;
    /* what was given on the command line, in order: set after the files were read */
    struct {
        const char *name, *value;
    } given[2 * MOST_OPTIONS];
    int ngiven;
} arguments;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *a = state->input;
    if (key >= FIRST_KEY && key < FIRST_KEY + MOST_OPTIONS) {
        const yk_option *o = &yk_options[key - FIRST_KEY];
        if (a->ngiven == 2 * MOST_OPTIONS)
            argp_error(state, "too many options");
        else
            a->given[a->ngiven++].name = o->name, a->given[a->ngiven - 1].value = arg ? arg : "true";
        return 0;
    }
    if (key == ARGP_KEY_ARG)
        argp_error(state, "what is '%s'? options begin with --; data is given as --data %s", arg, arg);
    return ARGP_ERR_UNKNOWN;
}

static const char doc[] =
    "Train a model.\v"
    "Examples:\n"
    "  yoke train --model softmax --data synth:digits --epochs 5\n"
    "  yoke train --model softmax --data idx:mnist --batch 200 --lr 0.5 --epochs 50 --workers 3 --mode sync\n"
    "  yoke train --model logreg --data 'tfrecord:clicks/part-*' --test tfrecord:clicks/test --mode async "
    "--workers 4\n"
    "  yoke train --model logreg --data synth:ctr --optimizer ftrl --l1 1e-6 --out runs/ctr "
    "--checkpoint-every 10000\n"
    "  yoke train --model lenet5 --data idx:mnist --optimizer momentum --lr 0.02 --epochs 6 --threads 2\n"
    "  yoke train --model \"conv 8 3x3 same, relu, maxpool 2, dense 10\" --data synth:images --lr 0.02\n"
    "  yoke train --out runs/ctr --resume\n"
    "\n"
    "Numbers may be written 1e6, 100k or 2m. Ctrl-C saves a checkpoint and ends; a second one ends at once.";

static yk_status configure(arguments *a)
{
    yk_status st = YK_OK;
    for (int i = 0; !st && i < a->ngiven; i++)
        if (strcmp(a->given[i].name, "config") == 0)
            st = yk_config_load(a->config, a->given[i].value);
    const char *out = NULL;
    bool resume = false;
    for (int i = 0; i < a->ngiven; i++) {
        out = strcmp(a->given[i].name, "out") ? out : a->given[i].value;
        resume |= strcmp(a->given[i].name, "resume") == 0;
    }
    if (!st && resume) {
        char *path;
        if (!out)
            return yk_fail(YK_EUSAGE, "--resume needs --out DIR: the run directory to go on with");
        if (asprintf(&path, "%s/config.ini", out) < 0)
            return yk_fail_memory(strlen(out), "a path");
        FILE *f = fopen(path, "re");
        if (f) { /* no run there yet: then this is how it begins */
            fclose(f);
            st = yk_config_load(a->config, path);
        }
        free(path);
    }
    for (int i = 0; !st && i < a->ngiven; i++) { /* the one that is given now replaces the other of a file */
        if (strcmp(a->given[i].name, "steps") == 0)
            a->config->epochs = 0;
        if (strcmp(a->given[i].name, "epochs") == 0)
            a->config->steps = 0;
    }
    for (int i = 0; !st && i < a->ngiven; i++)
        st = yk_config_set(a->config, a->given[i].name, a->given[i].value);
    return st;
}

/* ---- results ---- */

static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *text(const char *s)
{
    json_t *j = s ? json_string(s) : NULL;
    return j ? j : json_null();
}

static json_t *histogram(const yk_staleness *s)
{
    if (!s->observed)
        return json_null();
    json_t *buckets = json_array();
    int last = YK_STALENESS_BUCKETS;
    while (last > 1 && !s->bucket[last - 1])
        last--;
    for (int b = 0; b < last; b++)
        json_array_append_new(buckets, json_integer((json_int_t)s->bucket[b]));
    return json_pack("{s:I, s:o, s:o, s:o}", "observed", (json_int_t)s->observed, "mean", real(s->mean),
                     "max", real(s->max), "counts_0_1_2to3_4to7_and_so_on", buckets);
}

static void put(json_t *o, const char *name, json_t *value)
{
    json_object_set_new(o, name, value);
}

static yk_status print_json(const yk_config *c, const yk_result *r)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double cpu = (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec * 1e-6 +
                 (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec * 1e-6;
    json_t *o = json_object();
    if (!o)
        return yk_fail_memory(1024, "the results");
    put(o, "model", text(c->model));
    put(o, "data", text(c->data));
    put(o, "mode", text(r->staleness == 0 ? "sync" : "async"));
    put(o, "staleness", r->staleness == YK_ASYNC ? json_null() : json_integer((json_int_t)r->staleness));
    put(o, "workers", json_integer(r->workers));
    put(o, "ranks", json_integer(1));
    put(o, "servers", json_integer(0));
    put(o, "threads", json_integer(c->threads));
    put(o, "batch", json_integer(c->batch));
    put(o, "global_batch", json_integer(c->batch * r->workers));
    put(o, "optimizer", text(c->optimizer ? c->optimizer : "sgd"));
    put(o, "lr", real(r->lr));
    put(o, "parameters", json_integer((json_int_t)r->params));
    put(o, "epochs", json_integer((json_int_t)r->epochs));
    put(o, "steps", json_integer((json_int_t)r->steps));
    put(o, "examples", json_integer((json_int_t)r->examples));
    put(o, "seconds", real(r->seconds));
    put(o, "train_seconds", real(r->train_seconds));
    put(o, "load_seconds", real(r->load_seconds));
    put(o, "eval_seconds", real(r->eval_seconds));
    put(o, "checkpoint_seconds", real(r->checkpoint_seconds));
    put(o, "first_step_seconds", real(r->first_step_seconds));
    put(o, "steps_per_second", real((double)(r->steps - r->resumed_from) / r->train_seconds));
    put(o, "examples_per_second", real((double)r->trained_here / r->train_seconds));
    put(o, "train_loss", real(r->train_loss));
    put(o, "test_loss", r->tested ? real(r->test.loss) : json_null());
    put(o, "test_accuracy", r->tested ? real(r->test.accuracy) : json_null());
    put(o, "test_auc", r->tested ? real(r->test.auc) : json_null());
    put(o, "majority_accuracy", r->tested ? real(r->test.majority_accuracy) : json_null());
    put(o, "best_loss", r->best_known ? real(r->best.loss) : json_null());
    put(o, "best_auc", r->best_known ? real(r->best.auc) : json_null());
    put(o, "bad_records", json_integer((json_int_t)r->bad_records));
    put(o, "observed_staleness", histogram(&r->observed));
    put(o, "hot_keys", json_integer((json_int_t)r->observed.hot));
    put(o, "bytes_sent", json_integer(0)); /* one process: nothing goes over a network */
    put(o, "bytes_received", json_integer(0));
    put(o, "peak_rss_bytes", json_integer((json_int_t)usage.ru_maxrss * 1024));
    put(o, "cpu_seconds", real(cpu));
    put(o, "verdict", json_null());
    put(o, "interrupted", json_boolean(r->interrupted));
    put(o, "run", text(r->run_dir));
    put(o, "checkpoint", text(r->checkpoint));
    char *line = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(o);
    if (!line)
        return yk_fail_memory(4096, "the results");
    bool ok = printf("%s\n", line) > 0 && fflush(stdout) == 0;
    free(line);
    return ok ? YK_OK
              : yk_fail(YK_ESYSTEM, "the results could not be written to stdout: %s", strerror(errno));
}

static yk_status print_table(const yk_result *r)
{
    printf("steps          %llu (%.0f per second)\n", (unsigned long long)r->steps,
           (double)(r->steps - r->resumed_from) / r->train_seconds);
    printf("examples       %llu (%.0f per second)\n", (unsigned long long)r->examples,
           (double)r->trained_here / r->train_seconds);
    printf("seconds        %.2f (training %.2f, testing %.2f, saving %.2f, loading before that %.2f)\n",
           r->seconds, r->train_seconds, r->eval_seconds, r->checkpoint_seconds, r->load_seconds);
    if (isfinite(r->train_loss)) /* else nothing was left to train */
        printf("train loss     %.5f\n", r->train_loss);
    if (r->tested) {
        printf("test loss      %.5f", r->test.loss);
        printf(r->best_known ? "   (best possible %.5f)\n" : "\n", r->best.loss);
        printf("test accuracy  %.2f %%   (always the commonest class: %.2f %%)\n", 100.0 * r->test.accuracy,
               100.0 * r->test.majority_accuracy);
    }
    if (r->tested && isfinite(r->test.auc)) {
        printf("test AUC       %.4f", r->test.auc);
        printf(r->best_known ? "    (best possible %.4f)\n" : "\n", r->best.auc);
    }
    const yk_staleness *s = &r->observed;
    if (s->observed) {
        printf("staleness      mean %.1f, most %.0f updates by others between reading and writing\n", s->mean,
               s->max);
        for (int b = 0; b < YK_STALENESS_BUCKETS; b++) {
            if (!s->bucket[b])
                continue;
            double share = (double)s->bucket[b] / (double)s->observed;
            char range[48];
            if (b < 2)
                snprintf(range, sizeof range, "%d", b);
            else
                snprintf(range, sizeof range, "%llu-%llu", 1ull << (b - 1), (1ull << b) - 1);
            printf("  %13s  %5.1f %% %.*s\n", range, 100.0 * share, (int)(share * 40.0 + 0.5),
                   "########################################");
        }
    }
    if (s->hot)
        printf("copies         %u hottest parameters per worker, merged every %.0f examples\n", s->hot,
               s->merge_every);
    if (r->run_dir)
        printf("kept in        %s\n", r->run_dir);
    return fflush(stdout)
               ? yk_fail(YK_ESYSTEM, "the results could not be written to stdout: %s", strerror(errno))
               : YK_OK;
}

int yk_cmd_train(int argc, char **argv)
{
    struct argp_option options[2 * MOST_OPTIONS] = {{0}};
    int n = 0, group = 0;
    for (int i = 0; yk_options[i].name; i++) {
        const yk_option *o = &yk_options[i];
        if (i == 0 || strcmp(o->group, yk_options[i - 1].group))
            options[n++] = (struct argp_option){.doc = o->group, .group = ++group};
        options[n++] = (struct argp_option){
            .name = o->name, .key = FIRST_KEY + i, .arg = o->arg, .doc = o->help, .group = group};
    }
    const struct argp argp = {options, parse, NULL, doc, NULL, NULL, NULL};
    yk_config config;
    arguments a = {.config = &config};
    yk_config_init(&config);
    signal(SIGPIPE, SIG_IGN); /* results that nobody takes are a write error */
    char name[] = "yoke train";
    argv[0] = name;
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    yk_result result = {0};
    yk_status st = configure(&a);
    if (!st) {
        yk_log_quiet(config.quiet);
        st = yk_train(&config, &yk_cli_stop, yk_cli_started, &result);
    }
    if (!st && result.interrupted && result.run_dir)
        yk_note("stopped by a signal at step %llu, saved in %s; go on with: yoke train --out %s --resume",
                (unsigned long long)result.steps, result.checkpoint, result.run_dir);
    else if (!st && result.interrupted)
        yk_note("stopped by a signal at step %llu; with --out none nothing is saved",
                (unsigned long long)result.steps);
    if (!st && result.description)
        st = config.json ? yk_show_model_json(stdout, config.model, result.description)
                         : yk_show_model(stdout, config.model, result.description);
    else if (!st)
        st = config.json ? print_json(&config, &result) : print_table(&result);
    if (!st && result.profile)
        yk_show_profile(stderr, result.profile);
    yk_result_fini(&result);
    yk_config_fini(&config);
    return yk_cli_exit(st);
}
