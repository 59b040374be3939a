#include "cli/cli.h"
#include "cli/launch.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/job_status.h"
#include "cli/show_model.h"
#include "comm/comm.h"
#include "train/run_dir.h"
#include "train/summary.h"
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- options: the table of config/option.h as argp sees it ---- */

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

/* The last value that was given; NULL: none. */
static const char *given(const arguments *a, const char *name)
{
    const char *value = NULL;
    for (int i = 0; i < a->ngiven; i++)
        value = strcmp(a->given[i].name, name) ? value : a->given[i].value;
    return value;
}

/* Warns that options in RUN/config.ini are ignored, once per job. */
static void warn_ignored(const char *path, const char *names, bool join)
{
    if (yk_comm_expected_rank() > 0 || (getenv("YK_ENDED") && !join)) /* the launcher has already warned */
        return;
    yk_warn(
        "%s: ignored: %s; these options are accepted only on the command line; repeat them there to use them",
        path, names);
}

/* Loads the options of the run that is resumed or joined. */
static yk_status load_run(const arguments *a, const char *run, bool join)
{
    char *path, *ignored;
    bool there;
    if (asprintf(&path, "%s/config.ini", run) < 0)
        return yk_fail_memory(strlen(run), "a path");
    yk_status st = yk_config_load_run(a->config, path, &there, &ignored);
    if (!st && !there && join) /* with --resume, a missing run is started */
        st = yk_fail(YK_EUSAGE, "%s: there is no run to join", run);
    if (ignored)
        warn_ignored(path, ignored, join);
    free(ignored);
    free(path);
    return st;
}

static yk_status configure(arguments *a)
{
    yk_status st = YK_OK;
    for (int i = 0; !st && i < a->ngiven; i++)
        if (strcmp(a->given[i].name, "config") == 0)
            st = yk_config_load(a->config, a->given[i].value);
    const char *out = given(a, "out"), *join = given(a, "join");
    if (!st && given(a, "resume")) {
        if (!out)
            return yk_fail(YK_EUSAGE, "--resume needs --out DIR: the run directory to go on with");
        st = load_run(a, out, false);
    }
    if (!st && join && yk_comm_expected()) /* the launcher of such a worker needs none of it */
        st = load_run(a, join, true);
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

/* Before anything is loaded or launched. In a job of several processes the launcher checks the lock; the chief takes it. */
static yk_status check_run_dir(const yk_config *c)
{
    const bool writes =
        c->out && strcmp(c->out, "none") && !c->join && !c->dry_run && yk_comm_expected() == 0;
    return writes ? yk_run_dir_check(c->out) : YK_OK;
}

/* ---- results ---- */

static yk_status print_json(const yk_config *c, const yk_result *r)
{
    char *line;
    yk_status st = yk_result_json(c, r, &line);
    if (st)
        return st;
    bool ok = printf("%s\n", line) > 0 && fflush(stdout) == 0;
    free(line);
    return ok ? YK_OK
              : yk_fail(YK_ESYSTEM, "the results could not be written to stdout: %s", strerror(errno));
}

static void print_verdict(const yk_verdict *v)
{
    printf("held back by   %s\n", v->text);
    if (v->advice[0])
        printf("               %s\n", v->advice);
    for (int i = 0; i < v->nestimates; i++)
        printf("%s%s: %.2f x", i ? ", " : "               estimated: ", v->estimate[i].change,
               v->estimate[i].speedup);
    if (v->nestimates)
        printf(" the examples/s\n");
}

/* "12.3 KB" */
static const char *bytes(double n, char *text, size_t size)
{
    const char *unit[] = {"B", "KB", "MB", "GB", "TB"};
    int u = 0;
    for (; n >= 1000.0 && u < 4; u++)
        n /= 1000.0;
    snprintf(text, size, u ? "%.1f %s" : "%.0f %s", n, unit[u]);
    return text;
}

static void print_traffic(const yk_result *r)
{
    char a[32], b[32];
    if (!r->report)
        return;
    double sent = 0.0, received = 0.0, rounds = (double)(r->steps - r->resumed_from);
    if (!r->plan.synchronous)
        rounds /= r->plan.workers; /* steps are counted over all workers */
    for (int i = r->plan.servers; i < r->plan.processes; i++)
        for (int p = 0; p < YK_FOR_CONTROL; p++) { /* that is not of the steps */
            sent += (double)r->report[i].traffic[p].sent / r->plan.workers;
            received += (double)r->report[i].traffic[p].received / r->plan.workers;
        }
    if (rounds > 0.0)
        printf("traffic        %s sent and %s received per worker and step\n",
               bytes(sent / rounds, a, sizeof a), bytes(received / rounds, b, sizeof b));
    for (int p = 0; p < YK_PURPOSES; p++)
        if (r->traffic[p].sent)
            printf("  %-12s %s in %llu messages, of all processes\n", yk_purpose_name[p],
                   bytes((double)r->traffic[p].sent, a, sizeof a),
                   (unsigned long long)r->traffic[p].messages_sent);
    if (r->late)
        printf("late           %llu gradients (%llu examples) arrived after their step had closed and were "
               "dropped\n",
               (unsigned long long)r->late, (unsigned long long)r->late_examples);
    if (r->lost || r->joined)
        printf("workers        %d lost (%llu examples dealt again), %d joined\n", r->lost,
               (unsigned long long)r->returned, r->joined);
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
    if (r->watched.nprocesses)
        print_verdict(&r->watched.verdict);
    print_traffic(r);
    if (r->run_dir)
        printf("kept in        %s\n", r->run_dir);
    return fflush(stdout)
               ? yk_fail(YK_ESYSTEM, "the results could not be written to stdout: %s", strerror(errno))
               : YK_OK;
}

static yk_status tell(const yk_config *config, const yk_result *result)
{
    yk_status st = YK_OK;
    if (result->interrupted && result->run_dir)
        yk_note("stopped by a signal at step %llu, saved in %s; go on with: yoke train --out %s --resume",
                (unsigned long long)result->steps, result->checkpoint, result->run_dir);
    else if (result->interrupted)
        yk_note("stopped by a signal at step %llu; with --out none nothing is saved",
                (unsigned long long)result->steps);
    if (result->description)
        st = config->json ? yk_show_model_json(stdout, config->model, result->description)
                          : yk_show_model(stdout, config->model, result->description);
    else
        st = config->json ? print_json(config, result) : print_table(result);
    if (!st && result->profile)
        yk_show_profile(stderr, result->profile);
    return st;
}

/* A process of a job says how it ended; one that failed ends the others, too. */
static int leave(yk_config *config, yk_result *result, yk_status st)
{
    yk_comm *comm = result->comm;
    const int code = yk_cli_exit(comm ? yk_comm_explain(comm, st) : st);
    /* a job that goes on without this worker is not told that it failed */
    const bool others_go_on =
        result->dispensable && (st == YK_ELOST || st == YK_ESTOP || st == YK_EINTERRUPTED);
    if (comm && others_go_on && st != YK_EINTERRUPTED)
        yk_job_report_lost();
    if (comm && !others_go_on && (st || yk_comm_rank(comm) == 0))
        yk_job_report_ended(st);
    if (comm && st && !others_go_on) {
        yk_comm_abort(comm, code);
        _exit(code);
    }
    const bool clean = result->clean && !st;
    yk_comm_stop(comm, clean);
    yk_result_fini(result);
    yk_config_fini(config);
    if (comm && !clean) { /* somebody is gone: MPI's own way out would wait for it */
        fflush(NULL);
        _exit(code);
    }
    return code;
}

/* Called by another thread before training, if the main thread is stuck or busy (comm/startup.h). */
static void end_process(yk_status st)
{
    const int code = yk_cli_exit(st);
    yk_job_report_ended(st);
    fflush(NULL);
    _exit(code);
}

/* The help of an option with its default; the caller frees it. NULL: out of memory. */
static char *help_of(const yk_option *o)
{
    char *text;
    const int n = o->otherwise ? asprintf(&text, "%s (default: %s)", o->help, o->otherwise)
                               : asprintf(&text, "%s", o->help);
    return n < 0 ? NULL : text;
}

static void parse_arguments(int argc, char **argv, arguments *a)
{
    struct argp_option options[2 * MOST_OPTIONS] = {{0}};
    char *help[MOST_OPTIONS] = {NULL};
    int n = 0, group = 0;
    for (int i = 0; yk_options[i].name; i++) {
        const yk_option *o = &yk_options[i];
        if (i == 0 || strcmp(o->group, yk_options[i - 1].group))
            options[n++] = (struct argp_option){.doc = o->group, .group = ++group};
        help[i] = help_of(o);
        options[n++] = (struct argp_option){
            .name = o->name, .key = FIRST_KEY + i, .arg = o->arg, .doc = help[i], .group = group};
    }
    const struct argp argp = {options, parse, NULL, doc, NULL, NULL, NULL};
    argp_parse(&argp, argc, argv, 0, NULL, a);
    for (int i = 0; i < MOST_OPTIONS; i++)
        free(help[i]);
}

int yk_cmd_train(int argc, char **argv)
{
    yk_config config;
    arguments a = {.config = &config};
    yk_config_init(&config);
    signal(SIGPIPE, SIG_IGN); /* results that nobody takes are a write error */
    char name[] = "yoke train";
    argv[0] = name;
    parse_arguments(argc, argv, &a);
    yk_result result = {0};
    yk_status st = configure(&a);
    if (!st && yk_launch_wanted(&config) && !config.join)
        st = yk_config_check(&config); /* once, not by every process */
    if (!st)
        st = check_run_dir(&config);
    if (!st && yk_launch_wanted(&config)) {
        yk_log_quiet(config.quiet);
        yk_cli_launcher = true;
        const int code = yk_launch(&config, argc, argv);
        yk_config_fini(&config);
        return code;
    }
    if (!st) {
        yk_log_quiet(config.quiet);
        yk_job_follow_launcher();
        const yk_train_host host = {&yk_cli_stop, yk_cli_started, yk_job_report_stage, end_process};
        st = yk_train(&config, &host, &result);
    }
    if (!st && result.chief)
        st = tell(&config, &result);
    return leave(&config, &result, st);
}
