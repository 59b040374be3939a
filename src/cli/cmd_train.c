/* yoke train, for a single process; a job of several processes is cli/job.h's. */
#include "cli/cli.h"
#include "cli/job.h"
#include "cli/terminal.h"
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yoke.h>

/* ---- options: the table of the library as argp sees it ---- */

enum { FIRST_KEY = 1000, MOST_OPTIONS = 64 };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    yoke_options *options = state->input;
    yoke_option o;
    yoke_error error;
    if (key >= FIRST_KEY && yoke_option_at((size_t)(key - FIRST_KEY), &o)) {
        if (yoke_options_set(options, o.name, arg ? arg : "true", &error))
            exit(yk_cli_fail(&error));
        return 0;
    }
    if (key == ARGP_KEY_ARG)
        argp_error(state, "unexpected argument '%s': options begin with --, and data is given as --data %s",
                   arg, arg);
    return ARGP_ERR_UNKNOWN;
}

static const char doc[] =
    "Train a model.\v"
    "Examples:\n"
    "  yoke train --model softmax --data synth:digits --epochs 5\n"
    "  yoke train --model softmax --data idx:mnist --batch 200 --lr 0.5 --workers 3\n"
    "  yoke train --model logreg --data 'tfrecord:day*' --mode async --workers 4\n"
    "  yoke train --model logreg --data synth:ctr --optimizer ftrl --l1 1e-6\n"
    "  yoke train --model lenet5 --data idx:mnist --lr 0.05 --epochs 6 --threads 2\n"
    "  yoke train --model \"conv 8 3x3, relu, dense 10\" --data synth:images\n"
    "  yoke train --model lenet5 --data idx:mnist --launch 4 --http 8080\n"
    "  yoke train --model logreg --data synth:ctr --mode async --hosts a,b:2\n"
    "  yoke train --join runs/clicks\n"
    "  yoke train --out runs/clicks --resume\n"
    "\n"
    "Numbers may be written 1e6, 100k or 2m. Ctrl-C saves a checkpoint and ends (all processes); a second "
    "one ends at once.";

/* The help of an option with its default; the caller frees it. NULL: out of memory. */
static char *help_of(const yoke_option *o)
{
    char *text;
    const int n = o->default_text ? asprintf(&text, "%s (default: %s)", o->help, o->default_text)
                                  : asprintf(&text, "%s", o->help);
    return n < 0 ? NULL : text;
}

static void parse_arguments(int argc, char **argv, yoke_options *out)
{
    struct argp_option options[2 * MOST_OPTIONS] = {{0}};
    char *help[MOST_OPTIONS] = {NULL};
    const char *group = "";
    yoke_option o;
    int n = 0, groups = 0;
    for (int i = 0; i < MOST_OPTIONS && yoke_option_at((size_t)i, &o); i++) {
        if (strcmp(o.group, group))
            options[n++] = (struct argp_option){.doc = o.group, .group = ++groups};
        group = o.group;
        help[i] = help_of(&o);
        options[n++] = (struct argp_option){
            .name = o.name, .key = FIRST_KEY + i, .arg = o.argument, .doc = help[i], .group = groups};
    }
    const struct argp argp = {options, parse, NULL, doc, NULL, NULL, NULL};
    argp_parse(&argp, argc, argv, 0, NULL, out);
    for (int i = 0; i < MOST_OPTIONS; i++)
        free(help[i]);
}

/* ---- training ---- */

static void print_line(void *context, yoke_log_level level, const char *text)
{
    (void)context;
    if (level == YOKE_NOTE)
        yk_terminal_note(text);
    else
        yk_terminal_warn(text);
}

static int show_progress(void *context, const yoke_progress *p)
{
    (void)context;
    yk_terminal_progress(p->text);
    return 0;
}

static int print_results(const yoke_run *run, bool json)
{
    yk_terminal_progress(NULL);
    printf("%s%s", json ? yoke_run_summary(run) : yoke_run_text(run), json ? "\n" : "");
    if (fflush(stdout) || ferror(stdout)) {
        yoke_error error = {.status = YOKE_SYSTEM_ERROR};
        snprintf(error.message, sizeof error.message, "cannot write the results to stdout: %s",
                 strerror(errno));
        return yk_cli_fail(&error);
    }
    if (yoke_run_profile(run))
        fputs(yoke_run_profile(run), stderr);
    return 0;
}

static int train(const yoke_options *options)
{
    yoke_training training = YOKE_TRAINING_INIT;
    yoke_run *run;
    yoke_error error;
    training.options = options;
    training.log = print_line;
    training.progress = show_progress;
    training.cancel = &yk_cli_stop;
    const bool json = yoke_options_get(options, "json");
    const yoke_status status = yoke_train(&training, &run, &error);
    const int code = status ? yk_cli_fail(&error) : print_results(run, json);
    yoke_run_free(run);
    return code;
}

int yk_cmd_train(int argc, char **argv)
{
    yoke_options *options = yoke_options_create();
    char name[] = "yoke train";
    argv[0] = name;
    signal(SIGPIPE, SIG_IGN); /* if nobody reads the results, writing them fails */
    if (!options)
        return YOKE_SYSTEM_ERROR;
    parse_arguments(argc, argv, options);
    yk_terminal_quiet(yoke_options_get(options, "quiet"));
    const int code = yk_job_wanted(options) ? yk_job(options, argc, argv) : train(options);
    yoke_options_free(options);
    return code;
}
