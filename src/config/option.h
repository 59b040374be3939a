/* The table of the options of yoke train. The command line, the help, configuration files and the option reference
 * (docs/options.md) are made from it.
 *
 * Example:
 *     for (const yk_option *o = yk_options; o->name; o++)
 *         if (o->flags & YK_OPT_SAVED)
 *             printf("%s (default: %s)\n", o->name, o->default_text);
 *     const yk_option *batch = yk_option_find("batch"); // (char *)&config + batch->offset is its value in a yk_config
 *
 * The table is constant. Any thread may read it.
 *
 * To add an option: add a field to yk_config (config/config.h), a row to the table and its name to the sets of
 * tests/test_options.c; run ./dev docs. Decide about each flag:
 *
 *     CHANGES_RESULTS     Does the model, its scores or its speed depend on it? Reports then treat runs that differ in it as
 *                         different configurations. Options that only say how a job is started do not count: the
 *                         summary has the number of processes in any case.
 *     VARIES_IN_REPEATS   Only with CHANGES_RESULTS: may repeats of a configuration differ in it? Reports then average runs
 *                         that differ in nothing else.
 *     MUST_AGREE          Do all processes of a job need the same value? If they differ, the job ends with an error.
 *     IN_SWEEPS           May a sweep file, or --set, set it? Otherwise the sweep sets it for each run.
 *     HAS_SPACES          May its value contain spaces, as a list of layers does? In a sweep file, only | then separates
 *                         values.
 *     SAVED               Does it belong to the run rather than to this invocation? Then it is written to config.ini,
 *                         and --resume and --join read it from there.
 *     COMMAND_LINE_ONLY   Does it run programs, open ports or choose where to write? A file often comes from someone
 *                         else, so it cannot set such an option. With SAVED, it is written to config.ini as a comment.
 *     SETS_MODE           Does it determine the mode (sync, async, stale 8)? Reports then compare modes instead of its values.
 *     STARTS_JOB          If the option is given, does yoke start the processes of a job (yk_config_starts_job())?
 */
#ifndef YK_CONFIG_OPTION_H
#define YK_CONFIG_OPTION_H

#include "base/status.h"

typedef enum {
    YK_OPT_TEXT,          /* char *; NULL: not given */
    YK_OPT_INT,           /* int64_t; YK_AUTO: the word "auto" */
    YK_OPT_REAL,          /* double */
    YK_OPT_INT_BY_GROUP,  /* yk_by_group (by_group.h) of whole numbers; YK_ALL: the word */
    YK_OPT_REAL_BY_GROUP, /* likewise, of any numbers */
    YK_OPT_WORD_BY_GROUP, /* yk_by_group of words of a list */
    YK_OPT_FLAG           /* bool */
} yk_option_kind;

#define YK_AUTO (-2) /* the number for "auto" */

typedef enum {
    YK_OPT_CHANGES_RESULTS = 1,
    YK_OPT_MUST_AGREE = 2,
    YK_OPT_IN_SWEEPS = 4,
    YK_OPT_SAVED = 8,
    YK_OPT_COMMAND_LINE_ONLY = 16,
    YK_OPT_VARIES_IN_REPEATS = 32,
    YK_OPT_HAS_SPACES = 64,
    YK_OPT_STARTS_JOB = 128,
    YK_OPT_SETS_MODE = 256
} yk_option_flags;

typedef struct {
    const char *name; /* "batch": --batch */
    const char *arg;  /* "B", NULL for a flag */
    yk_option_kind kind;
    size_t offset;   /* in yk_config */
    double min, max; /* numbers */
    const char *
        word; /* accepted instead of a number; of a text: all that are accepted, as "sync, async"; NULL: none, any */
    const char *(*words)(int k); /* YK_OPT_WORD_BY_GROUP: the list, which ends with NULL; else NULL */
    const char *group;           /* heading in the help */
    unsigned flags;              /* of yk_option_flags */
    const char *default_text;    /* the default, in words; NULL: none */
    const char *help;
} yk_option;

extern const yk_option yk_options[]; /* ends with a NULL name */

const yk_option *yk_option_find(const char *name); /* NULL: there is none */

/* The same; YK_EUSAGE with a suggestion if there is none. */
yk_status yk_option_require(const char *name, const yk_option **out);
/* What to do instead of an option that no longer exists; NULL: there was none of that name. */
const char *yk_option_removed(const char *name);

bool yk_option_is_number(const yk_option *o); /* or a number by group */
bool yk_option_is_by_group(const yk_option *o);
size_t yk_option_size(const yk_option *o); /* of its field in yk_config */

#endif
