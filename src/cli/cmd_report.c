/* yoke report: run directories to one page. */
#include "cli/cli.h"

#include "base/log.h"
#include "base/mem.h"
#include "cli/terminal.h"
#include "report/report.h"
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CSV = 1000, SVG, PNG, TITLE, QUIET };

typedef struct {
    yk_report report;
    char **paths; /* borrowed texts */
    size_t cap;
} arguments;

static const struct argp_option options[] = {
    {"out", 'o', "FILE", 0, "the page (default: report.html in the first folder)", 0},
    {"csv", CSV, "DIR", 0, "also write the numbers of every plot and table as CSV files", 0},
    {"svg", SVG, "DIR", 0, "also write every plot as an SVG file", 0},
    {"png", PNG, "DIR", 0, "also write every plot as a PNG file; needs rsvg-convert or chromium", 0},
    {"title", TITLE, "TEXT", 0, "title of the page", 0},
    {"quiet", QUIET, NULL, 0, "no notes on stderr", 0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *a = state->input;
    switch (key) {
    case 'o':
        a->report.out = arg;
        return 0;
    case CSV:
        a->report.csv = arg;
        return 0;
    case SVG:
        a->report.svg = arg;
        return 0;
    case PNG:
        a->report.png = arg;
        return 0;
    case TITLE:
        a->report.title = arg;
        return 0;
    case QUIET:
        yk_terminal_quiet(true);
        return 0;
    case ARGP_KEY_ARG: {
        char **paths = a->report.n < a->cap
                           ? a->paths
                           : yk_grow(a->paths, &a->cap, a->report.n + 1, sizeof *paths, "the command line");
        if (!paths)
            return ENOMEM;
        a->paths = paths;
        a->paths[a->report.n++] = arg;
        return 0;
    }
    case ARGP_KEY_NO_ARGS:
        argp_error(state,
                   "which run? name its folder, the --out of yoke train, or a folder with several below it");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int yk_cmd_report(int argc, char **argv)
{
    char name[] = "yoke report";
    arguments a = {0};
    const struct argp argp = {
        options,
        parse,
        "RUN...",
        "One page about runs: what held them back, curves, resources, comparisons, configuration.\v"
        "RUN is a run directory, or a folder with some below it (that of a sweep). The page needs no network "
        "and no other "
        "file; it can be sent by mail.\n\n"
        "Examples:\n"
        "  yoke report runs/sync\n"
        "  yoke report runs/sync runs/async -o compare.html --title 'sync against async'\n"
        "  yoke report sweeps/batch --csv figures --svg figures",
        NULL,
        NULL,
        NULL};
    argv[0] = name;
    if (argp_parse(&argp, argc, argv, 0, NULL, &a)) {
        free(a.paths);
        return yk_cli_exit(yk_fail_memory(64, "the command line"));
    }
    a.report.paths = a.paths;
    yk_report_result result;
    yk_status st = yk_report_make(&a.report, &result);
    if (!st) {
        yk_note("%zu %s, %zu figures, %zu %s, %.1f MB", result.runs, result.runs == 1 ? "run" : "runs",
                result.figures, result.warnings, result.warnings == 1 ? "warning" : "warnings",
                (double)result.bytes / 1e6);
        if (printf("%s\n", result.out) < 0 || fflush(stdout))
            st = yk_fail(YK_ESYSTEM, "the name of the page could not be written to stdout: %s",
                         strerror(errno));
        free(result.out);
    }
    free(a.paths);
    return yk_cli_exit(st);
}
