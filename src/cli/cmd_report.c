/* yoke report: makes one HTML page from run directories. */
#include "cli/cli.h"

#include "base/log.h"
#include "cli/arguments.h"
#include "lib/internal.h"
#include "report/report.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void parse(int argc, char **argv, yk_report *r)
{
    const char *format = "html";
    const yk_argument table[] = {
        {"out", 'o', "FILE", yk_argument_text, &r->out, "the file to write",
         "report.html in RUN; for several runs, a new compare.html here"},
        {"format", 0, "FORMAT", yk_argument_text, &format,
         "html, latex or markdown; the last two write only the tables", "html"},
        {"csv", 0, "DIR", yk_argument_text, &r->csv, "also write all plots and tables as CSV files"},
        {"svg", 0, "DIR", yk_argument_text, &r->svg, "also write all plots as SVG files"},
        {"png", 0, "DIR", yk_argument_text, &r->png,
         "also write all plots as PNG files; needs rsvg-convert or chromium"},
        {"title", 0, "TEXT", yk_argument_text, &r->title, "title of the page"},
        {"quiet", 0, NULL, yk_argument_quiet, NULL, "print no notes to stderr"},
        {NULL}};
    const yk_command_line line = {
        "yoke report",
        "RUN... [OPTION...]",
        "Write one HTML page about runs: bottlenecks, curves, resources, comparisons,\n"
        "configurations. RUN is a run directory, or a directory with run directories\n"
        "below it, such as that of a sweep.",
        table,
        .operand = argv,
        .operands = argc,
        .notes = "Examples:\n"
                 "  yoke report runs/sync\n"
                 "  yoke report runs/sync runs/async -o compare.html --title 'sync and async'\n"
                 "  yoke report sweeps/batch --csv figures --svg figures\n"
                 "  yoke report sweeps/batch --format latex -o tables.tex\n"
                 "\n"
                 "The page is one file and needs no network."};
    r->n = (size_t)yk_arguments_parse(&line, argc, argv);
    r->paths = argv;
    r->format = !strcmp(format, "latex")      ? YK_FORMAT_LATEX
                : !strcmp(format, "markdown") ? YK_FORMAT_MARKDOWN
                                              : YK_FORMAT_HTML;
    if (!r->format && strcmp(format, "html"))
        yk_usage_error("--format %s: must be html, latex or markdown", format);
    if (!r->n)
        yk_usage_error("RUN is missing: give a run directory (the --out of yoke train), or a directory with "
                       "run directories below it");
}

int yk_cmd_report(int argc, char **argv)
{
    yk_report report = {0};
    yk_report_result result;
    parse(argc, argv, &report);
    yk_status st = yk_report_make(&report, &result);
    if (!st) {
        char size[24];
        yk_note("%zu run%s, %zu plots, %zu warning%s, %s", result.runs, yk_plural(result.runs),
                result.figures, result.warnings, yk_plural(result.warnings),
                yk_bytes_text((double)result.bytes, size));
        printf("%s\n", result.out);
        st = yk_cli_flush();
    }
    free(result.out);
    return yk_cli_exit(st);
}
