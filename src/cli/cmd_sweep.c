/* yoke sweep: trains a grid of runs one after the other, each in a child process; then prints a table and writes a report. */
#include "cli/cli.h"

#include "base/log.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/sweep_train.h"
#include "data/source.h"
#include "report/report.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SETS = 64 };

typedef struct {
    char *file;
    const char *out;
    const char *set[MAX_SETS];
    size_t nsets;
    bool quick, dry_run, keep_going, force, no_report, json;
} arguments;

static void add_setting(const yk_argument *argument, const char *value)
{
    arguments *a = argument->to;
    if (a->nsets == MAX_SETS)
        yk_usage_error("--set is given more than %d times", MAX_SETS);
    a->set[a->nsets++] = value;
}

static const char notes[] =
    "FILE lists options and their values. Values are separated by spaces or by |.\n"
    "Options that vary together are separated by commas:\n"
    "\n"
    "  [sweep]\n"
    "  repeats = 3           ; with seeds 1, 2, 3\n"
    "  examples = 600k       ; in every run; or epochs = or steps =\n"
    "  eval-examples = 60k   ; examples between evaluations\n"
    "  search = halving      ; train all for a part of that, the better half for\n"
    "                        ; twice as long, and so on; runs = N or seconds = S\n"
    "                        ; limits the search\n"
    "  [train]               ; options of yoke train\n"
    "  model = softmax\n"
    "  data = synth:digits\n"
    "  [grid]\n"
    "  batch = 5 50 500\n"
    "  mode, workers = sync 1 | sync 3 | async 3\n"
    "  [quick]               ; with --quick, replaces lines above\n"
    "  examples = 60k\n"
    "\n"
    "Examples:\n"
    "  yoke sweep experiments/softmax.ini --quick\n"
    "  yoke sweep experiments/softmax.ini --set data=idx:mnist --out runs/mnist\n"
    "\n"
    "Ctrl-C saves the current run and ends; the same command continues. Exit status:\n"
    "0 all runs succeeded, 1 some failed or are missing, 2 to 4 as for yoke train.";

static void parse(int argc, char **argv, arguments *a)
{
    const yk_argument table[] = {
        {"out", 'o', "DIR", yk_argument_text, &a->out, "directory of the sweep",
         "runs/NAME; with --quick runs/NAME-quick"},
        {"quick", 0, NULL, yk_argument_flag, &a->quick,
         "train the small version of the sweep, with the lines of [quick]"},
        {"set", 0, "NAME=VALUES", add_setting, a,
         "set an option, as in --set data=idx:mnist; replaces the line of FILE with the same name; may be "
         "repeated. Options that a file cannot set, such as hosts, must be given this way"},
        {"dry-run", 0, NULL, yk_argument_flag, &a->dry_run,
         "print the runs and their steps without training"},
        {"keep-going", 0, NULL, yk_argument_flag, &a->keep_going,
         "continue after three failed runs in a row. A run that diverged is a result, not a failure"},
        {"force", 0, NULL, yk_argument_flag, &a->force,
         "continue in a directory that was started with other runs: runs with the same options are kept, the "
         "others are trained again"},
        {"no-report", 0, NULL, yk_argument_flag, &a->no_report, "do not write report.html"},
        {"json", 0, NULL, yk_argument_flag, &a->json, "print the results as one JSON object"},
        {"quiet", 0, NULL, yk_argument_quiet, NULL, "print no notes and no progress to stderr"},
        {NULL}};
    const yk_command_line line = {"yoke sweep",
                                  "FILE [OPTION...]",
                                  "Train every combination of a grid of options, and compare the runs.",
                                  table,
                                  &a->file,
                                  1,
                                  "expected one FILE",
                                  notes};
    if (!yk_arguments_parse(&line, argc, argv))
        yk_usage_error("FILE is missing: see yoke sweep --help, and experiments/ for examples");
}

/* ---- results ---- */

/* All results are saved and printed: a failure is only a warning, and a signal may end the program. */
static yk_status write_report(const yk_sweep *s, size_t done)
{
    size_t n = 0;
    char *page = NULL, **run = calloc(done, sizeof *run);
    if (asprintf(&page, "%s/report.html", s->path) < 0)
        page = NULL;
    yk_status st = page && run ? YK_OK : yk_fail_memory(done * sizeof *run, "the report");
    for (size_t i = 0; !st && i < s->plan.nruns; i++)
        if (s->result[i].state == YK_SWEEP_DONE) {
            run[n] = yk_sweep_dir_path(s->path, &s->plan.run[i], NULL);
            st = run[n++] ? YK_OK : YK_ESYSTEM;
        }
    const yk_report report = {.paths = run, .n = n, .out = page, .title = s->plan.file.name};
    yk_report_result result = {0};
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    if (!st && yk_report_make(&report, &result))
        yk_warn("cannot write the report: %s", yk_error());
    else if (!st)
        yk_note("report: %s", page);
    free(result.out);
    for (size_t i = 0; run && i < n; i++)
        free(run[i]);
    free(run);
    free(page);
    return st;
}

static yk_status print_results(const yk_sweep *s, bool json)
{
    if (json) {
        char *text = yk_sweep_table_json(&s->plan, s->result, false);
        if (!text)
            return YK_ESYSTEM;
        yk_failure_print_text(text); /* instead of an object for a failure */
        free(text);
    } else {
        yk_sweep_table_print(&s->plan, s->result, stdout);
    }
    return yk_cli_flush();
}

/* Prints the command that continues the sweep. */
static void print_resume_command(const yk_sweep *s, const arguments *a, size_t done)
{
    yk_text t = {0};
    yk_text_print(&t, "yoke sweep %s%s%s", a->file, a->quick ? " --quick" : "", a->force ? " --force" : "");
    for (size_t i = 0; i < a->nsets; i++)
        yk_text_print(&t, " --set '%s'", a->set[i]);
    if (a->out)
        yk_text_print(&t, " --out %s", a->out);
    if (!t.status)
        yk_note("stopped by a signal: %zu of %zu runs are complete; continue with: %s", done, s->plan.nruns,
                t.s);
    yk_text_fini(&t);
}

/* Prints the table, even after a failure, and returns the exit status. */
static int finish(const yk_sweep *s, const arguments *a, yk_status st)
{
    size_t done = 0, failed = 0, diverged = 0, warned = 0;
    yk_status printed = a->json ? print_results(s, true) : YK_OK;
    if (st)
        yk_cli_exit(st);
    for (size_t i = 0; i < s->plan.nruns; i++) {
        warned += json_array_size(json_object_get(s->result[i].summary, "warnings")) > 0;
        done += s->result[i].state == YK_SWEEP_DONE;
        failed += yk_sweep_result_failed(&s->result[i]);
        diverged += s->result[i].state == YK_SWEEP_DIVERGED;
    }
    if (done && !a->json)
        printed = print_results(s, false);
    if (!printed && warned)
        yk_note("%zu run%s warnings: see the report, or log.txt in the run directory", warned,
                warned == 1 ? " has" : "s have");
    if (!printed && done && !yk_cli_stop && !a->no_report)
        printed = write_report(s, done);
    if (printed)
        return yk_cli_exit(printed);
    if (st)
        return yk_status_exit(st);
    if (yk_cli_stop && done + failed < s->plan.nruns)
        print_resume_command(s, a, done);
    else if (failed && !s->searched)
        return yk_cli_exit(yk_fail(YK_ELOST, "%zu of %zu runs failed; %s/runs.csv lists the errors; %s",
                                   failed, s->plan.nruns, s->path,
                                   diverged == failed
                                       ? "they diverged, so the same command does not repeat them"
                                   : diverged ? "the same command repeats those that did not diverge"
                                              : "the same command runs them again"));
    return s->searched || done == s->plan.nruns ? 0 : yk_status_exit(YK_ELOST);
}

/* ---- --dry-run ---- */

/* The number of training examples if it is known without reading the data; else 0. The last answer is cached: most sweeps
 * have one data set. */
static uint64_t examples_in(const yk_config *c)
{
    static const char *spec;
    static uint64_t answer;
    yk_source *source;
    if (spec && strcmp(spec, c->data) == 0)
        return answer;
    yk_source_options o = {.hash_bits = (unsigned)c->hash_bits, .features = (uint64_t)c->features};
    spec = c->data;
    answer = 0;
    if (yk_source_open(c->data, YK_SPLIT_TRAIN, &o, &source)) {
        yk_warn("%s", yk_error());
        return 0;
    }
    answer = source->examples;
    yk_source_free(source);
    return answer;
}

static yk_status describe(const yk_sweep *s)
{
    const yk_sweep_plan *p = &s->plan;
    double total = 0.0, examples = 0.0;
    bool known = true;
    for (size_t i = 0; i < p->nruns; i++) {
        const yk_sweep_run *r = &p->run[i];
        yk_hold_out h = {0};
        if (r->config.validation)
            (void)yk_hold_out_parse(r->config.validation, &h);
        const double trained = r->steps ? 0.0 : (1.0 - h.fraction) * (double)examples_in(&r->config);
        int64_t steps = yk_sweep_run_steps(r, (uint64_t)trained);
        yk_sweep_run_state state;
        json_t *summary = NULL;
        if (access(s->path, F_OK) || yk_sweep_dir_find(s->path, r, p->file.halving, &state, &summary))
            state = YK_SWEEP_RUN_MISSING;
        json_decref(summary);
        char amount[64];
        if (steps)
            snprintf(amount, sizeof amount, "%lld step%s", (long long)steps, yk_plural(steps));
        else
            snprintf(amount, sizeof amount, "%lld epoch%s", (long long)r->epochs, yk_plural(r->epochs));
        printf("%4zu  %-16s %s%s\n", i + 1, amount, r->label,
               state == YK_SWEEP_RUN_COMPLETE           ? "   (complete)"
               : yk_sweep_can_resume(s->path, r, state) ? "   (stopped)"
                                                        : "");
        known &= steps > 0;
        total += (double)steps;
        examples += (double)steps * yk_sweep_examples_per_step(r);
    }
    printf("%zu run%s, %zu combination%s with %lld seed%s, in %s", p->nruns, yk_plural(p->nruns), p->npoints,
           yk_plural(p->npoints), (long long)p->file.repeats, yk_plural(p->file.repeats), s->path);
    if (known)
        printf(": %s %.0f step%s and %.0f example%s in total\n", p->file.halving ? "at most" : "about", total,
               total == 1.0 ? "" : "s", examples, examples == 1.0 ? "" : "s");
    else
        printf("; the number of steps of some runs is not known in advance\n");
    return yk_cli_flush();
}

/* ---- the command ---- */

static yk_status set_up(yk_sweep *s, const arguments *a)
{
    yk_status st = yk_sweep_plan_make(a->file, a->quick, a->set, a->nsets, &s->plan);
    if (st)
        return st;
    s->keep_going = a->keep_going;
    s->force = a->force;
    if (a->out)
        s->path = strdup(a->out);
    else if (asprintf(&s->path, "runs/%s%s", s->plan.file.name, a->quick ? "-quick" : "") < 0)
        s->path = NULL;
    s->state = calloc(s->plan.nruns, sizeof *s->state);
    s->result = calloc(s->plan.nruns, sizeof *s->result);
    s->took = calloc(s->plan.nruns, sizeof *s->took);
    return s->path && s->state && s->result && s->took ? YK_OK
                                                       : yk_fail_memory(s->plan.nruns * 64, "the sweep");
}

static void tear_down(yk_sweep *s)
{
    for (size_t i = 0; s->result && i < s->plan.nruns; i++)
        yk_sweep_result_fini(&s->result[i]);
    free(s->state);
    free(s->result);
    free(s->took);
    free(s->path);
    yk_sweep_plan_fini(&s->plan);
}

int yk_cmd_sweep(int argc, char **argv)
{
    arguments a = {0};
    yk_sweep s = {0};
    yk_lock *lock = NULL;
    parse(argc, argv, &a);
    signal(SIGPIPE, SIG_IGN); /* if nobody reads the results, writing them fails */
    int status;
    yk_status st = set_up(&s, &a);
    if (!st && !a.dry_run)
        st = yk_sweep_dir_open(s.path, &s.plan, a.force, &lock);
    if (st || a.dry_run) {
        status = yk_cli_exit(st ? st : describe(&s));
    } else {
        yk_cli_launcher = true;
        yk_cli_catch_signals();
        yk_note("%s: %zu run%s, in %s", s.plan.file.name, s.plan.nruns, yk_plural(s.plan.nruns), s.path);
        status = finish(&s, &a, yk_sweep_train(&s));
    }
    yk_lock_release(lock);
    tear_down(&s);
    return status;
}
