/* Writes the reference of options, docs/options.md, from the table in src/config/option.c:
 *
 *     ./dev docs          runs it
 *
 * tests/docs.bats fails when the file is out of date.
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

/* Text of a table's cell. */
static void put(const char *text)
{
    for (; *text; text++)
        printf(*text == '|' ? "\\%c" : "%c", *text);
}

/* "1 to 1024", "0 or more"; what is larger than any value in use is no limit. */
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
    if (o->kind == YK_OPT_INT_OR_ALL)
        printf(", all");
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

int main(void)
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
        put(o->otherwise ? o->otherwise : "");
        printf(" | ");
        put_range(o);
        printf(" | ");
        put_notes(o);
        printf(" |\n");
    }
    return fflush(stdout) || ferror(stdout);
}
