/* yoke sweep: a grid of runs, one after the other, each a yoke train of its own; then one table and one report. */
#include "cli/cli.h"

#include "base/log.h"
#include "cli/child.h"
#include "cli/sweep_train.h"
#include "cli/terminal.h"
#include "data/source.h"
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QUICK = 1000, DRY_RUN, KEEP_GOING, FORCE, NO_REPORT, SET, JSON, QUIET, MOST_SETS = 64 };

typedef struct {
    const char *file, *out;
    const char *set[MOST_SETS];
    size_t nsets;
    bool quick, dry_run, keep_going, force, no_report, json;
} arguments;

static const struct argp_option options[] = {
    {"out", 'o', "DIR", 0, "folder of the sweep (default runs/NAME, with --quick runs/NAME-quick)", 0},
    {"quick", QUICK, NULL, 0, "the small size: lines of [quick] replace others", 0},
    {"set", SET, "NAME=VALUES", 0,
     "as a last line of the file, as in --set data=idx:mnist; may be repeated. Options that a file cannot "
     "set, such as hosts, must be given this way",
     0},
    {"dry-run", DRY_RUN, NULL, 0, "print the runs and their steps, and train nothing", 0},
    {"keep-going", KEEP_GOING, NULL, 0,
     "go on after three runs in a row that failed (one that diverged is a result, and never ends a sweep)",
     0},
    {"force", FORCE, NULL, 0,
     "go on in a folder that was begun with other runs: what is the same is kept, the rest is made anew", 0},
    {"no-report", NO_REPORT, NULL, 0, "do not write report.html", 0},
    {"json", JSON, NULL, 0, "the results as one JSON object instead of the table", 0},
    {"quiet", QUIET, NULL, 0, "no notes and no progress on stderr", 0},
    {0}};

static const char doc[] =
    "Train every combination of a grid, and compare.\v"
    "FILE is like this; values are separated by blanks or by |, several options may be tied:\n"
    "\n"
    "  [sweep]\n"
    "  repeats = 3           ; with seeds 1, 2, 3\n"
    "  examples = 600k       ; in every run; or epochs = or steps =\n"
    "  eval-examples = 60k   ; tested every so many\n"
    "  [train]               ; options of yoke train\n"
    "  model = softmax\n"
    "  data = synth:digits\n"
    "  [grid]\n"
    "  batch = 5 50 500\n"
    "  mode, workers = sync 1 | sync 3 | async 3\n"
    "  [quick]               ; replaces lines with --quick\n"
    "  examples = 60k\n"
    "\n"
    "Ctrl-C saves the run that is under way and ends; the same command goes on from there. Exit status: 0 "
    "all runs "
    "are done, 1 some failed or are missing, 2, 3 and 4 as for yoke train.";

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *a = state->input;
    switch (key) {
    case 'o':
        a->out = arg;
        return 0;
    case SET:
        if (a->nsets == MOST_SETS)
            argp_error(state, "more than %d times --set", MOST_SETS);
        else
            a->set[a->nsets++] = arg;
        return 0;
    case QUICK:
        return a->quick = true, 0;
    case DRY_RUN:
        return a->dry_run = true, 0;
    case KEEP_GOING:
        return a->keep_going = true, 0;
    case FORCE:
        return a->force = true, 0;
    case NO_REPORT:
        return a->no_report = true, 0;
    case JSON:
        return a->json = true, 0;
    case QUIET:
        yk_terminal_quiet(true);
        return 0;
    case ARGP_KEY_ARG:
        if (a->file)
            argp_error(state, "one file at a time: %s or %s?", a->file, arg);
        a->file = arg;
        return 0;
    case ARGP_KEY_END:
        if (!a->file)
            argp_error(state, "which FILE? experiments/ has some that are ready");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- the end */

static yk_status write_report(const yk_sweep *s, size_t done)
{
    size_t n = 0;
    char *page = NULL, *log = NULL, **run = calloc(done + 1, sizeof *run);
    const char **argv = calloc(done + 7, sizeof *argv);
    if (asprintf(&page, "%s/report.html", s->path) < 0)
        page = NULL;
    if (asprintf(&log, "%s/report.log", s->path) < 0)
        log = NULL;
    yk_status st = page && log && run && argv ? YK_OK : yk_fail_memory(done * 64, "a command line");
    for (size_t i = 0; !st && i < s->plan.nruns; i++)
        if (s->result[i].state == YK_SWEEP_DONE) {
            run[n] = yk_sweep_folder_path(s->path, &s->plan.run[i], NULL);
            st = run[n++] ? YK_OK : YK_ESYSTEM;
        }
    yk_child child = {0};
    if (!st) {
        size_t k = 0;
        argv[k++] = "yoke";
        argv[k++] = "report";
        for (size_t i = 0; i < n; i++)
            argv[k++] = run[i];
        argv[k++] = "-o";
        argv[k++] = page;
        st = yk_child_run(argv, s->path, "report.log", false, NULL, NULL, &child);
    }
    if (!st && child.status == 0) {
        st = yk_remove_in(s->path, "report.log");
        yk_note("report: %s", page);
    } else if (!st) {
        char *words = yk_child_last_error(log);
        yk_warn("no report was written: %s (exit status %d, %s)", words ? words : "", child.status, log);
        free(words);
    }
    yk_child_fini(&child);
    for (size_t i = 0; run && i < n; i++)
        free(run[i]);
    free(run);
    free(argv);
    free(page);
    free(log);
    return st;
}

static yk_status print_results(const yk_sweep *s, bool json)
{
    if (json) {
        char *text = yk_sweep_table_json(&s->plan, s->result, false);
        if (!text)
            return YK_ESYSTEM;
        printf("%s\n", text);
        free(text);
    } else {
        yk_sweep_table_print(&s->plan, s->result, stdout);
    }
    return fflush(stdout) || ferror(stdout)
               ? yk_fail(YK_ESYSTEM, "the results could not be written to stdout: %s", strerror(errno))
               : YK_OK;
}

/* The command line again, for whoever was interrupted. */
static void tell_how_to_go_on(const yk_sweep *s, const arguments *a, size_t done)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return;
    fprintf(f, "yoke sweep %s", a->file);
    if (a->quick)
        fputs(" --quick", f);
    if (a->force)
        fputs(" --force", f);
    for (size_t i = 0; i < a->nsets; i++)
        fprintf(f, " --set '%s'", a->set[i]);
    if (a->out)
        fprintf(f, " --out %s", a->out);
    if (fclose(f) == 0)
        yk_note("stopped by a signal: %zu of %zu runs are done; go on with: %s", done, s->plan.nruns, text);
    free(text);
}

/* The exit status. The table comes in any case, also of what there is when something went wrong. */
static int end(const yk_sweep *s, const arguments *a, yk_status st)
{
    size_t done = 0, failed = 0, warned = 0;
    if (st)
        yk_cli_exit(st);
    for (size_t i = 0; i < s->plan.nruns; i++) {
        warned += json_array_size(json_object_get(s->result[i].summary, "warnings")) > 0;
        done += s->result[i].state == YK_SWEEP_DONE;
        failed += s->result[i].state == YK_SWEEP_FAILED;
    }
    yk_status printed = done || a->json ? print_results(s, a->json) : YK_OK;
    if (!printed && warned)
        yk_note("%zu run%s warnings of %s own: see log.txt in the folder of each, or the report", warned,
                warned == 1 ? " has" : "s have", warned == 1 ? "its" : "their");
    if (!printed && done && !yk_cli_stop && !a->no_report)
        printed = write_report(s, done);
    if (printed)
        return yk_cli_exit(printed);
    if (st)
        return yk_status_exit(st);
    if (yk_cli_stop && done + failed < s->plan.nruns)
        tell_how_to_go_on(s, a, done);
    else if (failed)
        return yk_cli_exit(
            yk_fail(YK_ELOST,
                    "%zu of %zu runs failed; %s/runs.csv says which and why, and the same command "
                    "tries them again",
                    failed, s->plan.nruns, s->path));
    return done == s->plan.nruns ? 0 : yk_status_exit(YK_ELOST);
}

/* ---- --dry-run */

/* Examples of the training data, where that can be told without reading it. The last answer is kept: most sweeps have
 * one data set. */
static uint64_t examples_in(const yk_config *c)
{
    static const char *asked;
    static uint64_t answer;
    yk_source *source;
    if (asked && strcmp(asked, c->data) == 0)
        return answer;
    yk_source_options o = {.hash_bits = (unsigned)c->hash_bits, .features = (uint64_t)c->features};
    asked = c->data;
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
        int64_t steps = yk_sweep_run_steps(r, r->steps ? 0 : examples_in(&r->config));
        yk_sweep_run_state state;
        json_t *summary = NULL;
        if (access(s->path, F_OK) || yk_sweep_folder_find(s->path, r, &state, &summary))
            state = YK_SWEEP_RUN_ABSENT;
        json_decref(summary);
        char amount[64];
        if (steps)
            snprintf(amount, sizeof amount, "%lld steps", (long long)steps);
        else
            snprintf(amount, sizeof amount, "%lld epochs", (long long)r->epochs);
        printf("%4zu  %-16s %s%s\n", i + 1, amount, r->label,
               state == YK_SWEEP_RUN_COMPLETE           ? "   (done)"
               : yk_sweep_can_resume(s->path, r, state) ? "   (half done)"
                                                        : "");
        known &= steps > 0;
        total += (double)steps;
        examples += (double)steps * yk_sweep_examples_per_step(r);
    }
    printf("%zu run%s, %zu combination%s with %lld seed%s, in %s", p->nruns, p->nruns == 1 ? "" : "s",
           p->npoints, p->npoints == 1 ? "" : "s", (long long)p->file.repeats,
           p->file.repeats == 1 ? "" : "s", s->path);
    if (known)
        printf(": about %.4g steps and %.4g examples together\n", total, examples);
    else
        printf("; the number of steps of some runs is not known in advance\n");
    return fflush(stdout) ? yk_fail(YK_ESYSTEM, "stdout: %s", strerror(errno)) : YK_OK;
}

/* ---- all of it */

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
    s->result = calloc(s->plan.nruns, sizeof *s->result);
    s->took = calloc(s->plan.nruns, sizeof *s->took);
    return s->path && s->result && s->took ? YK_OK : yk_fail_memory(s->plan.nruns * 64, "the sweep");
}

static void tear_down(yk_sweep *s)
{
    for (size_t i = 0; s->result && i < s->plan.nruns; i++)
        yk_sweep_result_fini(&s->result[i]);
    free(s->result);
    free(s->took);
    free(s->path);
    yk_sweep_plan_fini(&s->plan);
}

int yk_cmd_sweep(int argc, char **argv)
{
    const struct argp argp = {options, parse, "FILE", doc, NULL, NULL, NULL};
    arguments a = {0};
    yk_sweep s = {0};
    yk_sweep_folder folder = {0};
    char name[] = "yoke sweep";
    argv[0] = name;
    signal(SIGPIPE, SIG_IGN); /* a table that nobody takes is a write error */
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    int status;
    yk_status st = set_up(&s, &a);
    if (!st && !a.dry_run)
        st = yk_sweep_folder_open(s.path, &s.plan, a.force, &folder);
    if (st || a.dry_run) {
        status = yk_cli_exit(st ? st : describe(&s));
    } else {
        yk_child_catch_signals();
        yk_note("%s: %zu run%s, in %s", s.plan.file.name, s.plan.nruns, s.plan.nruns == 1 ? "" : "s", s.path);
        status = end(&s, &a, yk_sweep_train(&s));
    }
    yk_sweep_folder_close(&folder);
    tear_down(&s);
    return status;
}
