/* The options of yoke train: one table, from which the command line, its help, the files, the option reference
 * (docs/options.md) and all decisions that concern options as such are made.
 *
 *     for (const yk_option *o = yk_options; o->name; o++)
 *         if (o->flags & YK_OPT_KEPT)
 *             ...                                                   // (char *)&config + o->offset is its value
 *     yk_option_find("batch")->otherwise                            // "64"
 *
 * To add an option: a field in yk_config (config/config.h), a row in the table, its name in the sets of
 * tests/test_options.c and in the man page; then ./dev docs. Decide each flag:
 *
 *     CHANGES_RESULTS     Does the model, its scores or its speed depend on it? Reports then treat runs that differ in it as
 *                         different configurations. How a job is started is not such an option: the summary has the
 *                         number of processes, whatever started them.
 *     MUST_AGREE          Do all processes of a job need the same value? A job whose processes differ in it ends with
 *                         an error, and so does one that joins.
 *     IN_SWEEPS           May a sweep's file, or --set, give it? Otherwise the sweep sets it for each run.
 *     KEPT                Does it belong to the run rather than to this invocation? Then it is written to config.ini,
 *                         and --resume and --join read it from there.
 *     COMMAND_LINE_ONLY   Does it run programs, open ports or choose where to write? A file often comes from someone
 *                         else, so it cannot set such an option. With KEPT it is a comment in config.ini.
 */
#ifndef YK_CONFIG_OPTION_H
#define YK_CONFIG_OPTION_H

#include <stdbool.h>
#include <stddef.h>

typedef enum {
    YK_OPT_TEXT,        /* char *; NULL: not given */
    YK_OPT_INT,         /* int64_t */
    YK_OPT_INT_OR_ALL,  /* the same; YK_ALL: "all" */
    YK_OPT_INT_OR_AUTO, /* the same; YK_AUTO: "auto" */
    YK_OPT_REAL,        /* double */
    YK_OPT_FLAG         /* bool */
} yk_option_kind;

#define YK_ALL  (-2) /* what "all" is as a number */
#define YK_AUTO (-2) /* what "auto" is */

typedef enum {
    YK_OPT_CHANGES_RESULTS = 1,
    YK_OPT_MUST_AGREE = 2,
    YK_OPT_IN_SWEEPS = 4,
    YK_OPT_KEPT = 8,
    YK_OPT_COMMAND_LINE_ONLY = 16
} yk_option_flags;

typedef struct {
    const char *name; /* "batch": --batch on the command line */
    const char *arg;  /* "B", NULL for a flag */
    yk_option_kind kind;
    size_t offset;         /* in yk_config */
    double least, most;    /* numbers */
    const char *group;     /* heading in the help */
    unsigned flags;        /* yk_option_flags */
    const char *otherwise; /* the default, in words; NULL: none */
    const char *help;
} yk_option;

extern const yk_option yk_options[]; /* ends with a NULL name */

const yk_option *yk_option_find(const char *name); /* NULL: there is none */

bool yk_option_is_number(const yk_option *o);
const char *yk_option_word(const yk_option *o); /* a number that may also be this word; NULL: it may not */

#endif
