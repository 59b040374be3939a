/* Generates the option reference from the table in src/config/option.c: docs/options.md, and the options in the man page of
 * yoke train. ./dev docs runs it:
 *
 *     options_reference                                     prints docs/options.md
 *     options_reference man <doc/yoke-train.1.scd           prints the man page with the current options
 *
 * tests/docs.bats fails if one of the files is out of date.
 */
#include "config/option.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char head[] =
    "# Options of yoke train\n"
    "\n"
    "<!-- Written by `./dev docs` from src/config/option.c. Do not edit it here. -->\n"
    "\n"
    "Numbers may be written `1e6`, `100k` or `2m`. Unless the notes say otherwise, an option\n"
    "\n"
    "- can be given on the command line (`--batch 64`), in a `--config` file (`batch = 64`) and in a sweep;\n"
    "- is written to the `config.ini` of the run directory, from which `--resume` and `--join` read it;\n"
    "- must be the same in all processes of a job;\n"
    "- changes results: `yoke report` treats runs that differ in it as different configurations.\n"
    "\n"
    "Options that run programs, open ports or choose where to write are accepted on the command line only, "
    "because a\n"
    "file may come from someone else. In a `--config` file or a sweep file they are errors (a sweep takes "
    "some of them by\n"
    "`--set`); in the `config.ini` of a run they are comments, or ignored with a warning.\n";

/* The text of a table cell. */
static void put(const char *text)
{
    for (; *text; text++)
        printf(*text == '|' ? "\\%c" : "%c", *text);
}

/* "1 to 1024", "0 or more"; a bound larger than any realistic value is not a limit. */
static void put_range(const yk_option *o)
{
    if (!yk_option_is_number(o))
        return;
    if (isinf(o->least))
        printf("any number");
    else if (o->most > 1e15)
        printf("%.15g or more", o->least);
    else
        printf("%.15g to %.15g", o->least, o->most);
    if (yk_option_word(o))
        printf(", %s", yk_option_word(o));
}

static void put_notes(const yk_option *o)
{
    const unsigned f = o->flags;
    const char *const note[] = {
        f & YK_OPT_COMMAND_LINE_ONLY ? "command line only" : NULL,
        f & YK_OPT_KEPT ? f & YK_OPT_COMMAND_LINE_ONLY ? "a comment in config.ini" : NULL
                        : "not written to config.ini",
        f & YK_OPT_IN_SWEEPS ? f & YK_OPT_COMMAND_LINE_ONLY ? "in sweeps by --set" : NULL : "not in sweeps",
        f & YK_OPT_MUST_AGREE ? NULL : "may differ between processes",
        f & YK_OPT_CHANGES_RESULTS || !(f & YK_OPT_KEPT) ? NULL : "does not change results"};
    bool first = true;
    for (size_t i = 0; i < sizeof note / sizeof *note; i++)
        if (note[i]) {
            printf("%s%s", first ? "" : "; ", note[i]);
            first = false;
        }
}

static void put_markdown(void)
{
    fputs(head, stdout);
    for (const yk_option *o = yk_options; o->name; o++) {
        if (o == yk_options || strcmp(o->group, o[-1].group))
            printf("\n## %s\n\n| option | meaning | default | range | notes |\n|---|---|---|---|---|\n",
                   o->group);
        printf("| `--%s%s", o->name, o->arg ? " " : "");
        put(o->arg ? o->arg : "");
        printf("` | ");
        put(o->help);
        printf(" | ");
        put(o->default_text ? o->default_text : "");
        printf(" | ");
        put_range(o);
        printf(" | ");
        put_notes(o);
        printf(" |\n");
    }
}

/* ---- the man page: scdoc */

/* Escapes text so that nothing is bold or underlined, and no list begins. */
static void put_escaped(const char *text)
{
    for (const char *p = text; *p; p++)
        printf(strchr("*_\\", *p) || (p == text && *p == '-') ? "\\%c" : "%c", *p);
}

static void put_man_options(void)
{
    for (const yk_option *o = yk_options; o->name; o++) {
        if (o == yk_options || strcmp(o->group, o[-1].group))
            printf("\n## %s\n", o->group);
        printf("\n*--%s*", o->name);
        if (o->arg)
            printf(" _%s_", o->arg);
        printf("\n\t");
        put_escaped(o->help);
        if (o->default_text) {
            printf(" (default: ");
            put_escaped(o->default_text);
            printf(")");
        }
        printf("%s\n", o->flags & YK_OPT_COMMAND_LINE_ONLY ? "; accepted on the command line only" : "");
    }
    printf("\n");
}

/* Copies the page from stdin to stdout, with new options between the two marks. False: the marks are missing. */
static bool put_man(void)
{
    static const char begin[] = "; options: begin", end[] = "; options: end";
    char line[4096];
    bool found = false, inside = false;
    while (fgets(line, sizeof line, stdin)) {
        if (!strncmp(line, end, sizeof end - 1))
            inside = false;
        if (!inside)
            fputs(line, stdout);
        if (!strncmp(line, begin, sizeof begin - 1)) {
            put_man_options();
            found = inside = true;
        }
    }
    return found && !inside;
}

int main(int argc, char **argv)
{
    if (argc == 1) {
        put_markdown();
    } else if (argc != 2 || strcmp(argv[1], "man")) {
        fprintf(stderr, "usage: options_reference [man <PAGE]\n");
        return 2;
    } else if (!put_man()) {
        fprintf(stderr, "options_reference: the page has no '; options: begin' and '; options: end'\n");
        return 1;
    }
    return fflush(stdout) || ferror(stdout);
}
