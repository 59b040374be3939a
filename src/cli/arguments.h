/* The command line of a command, described by a table.
 *
 * Example:
 *     char *spec = NULL;
 *     const char *out = NULL;
 *     bool json = false;
 *     const yk_argument table[] = {
 *         {"out", 'o', "FILE", yk_argument_text, &out, "write to FILE", "stdout"},
 *         {"json", 0, NULL, yk_argument_flag, &json, "print one JSON object"},
 *         {NULL}};
 *     const yk_command_line line = {"yoke show", "SPEC [OPTION...]", "Show data.", table, .operand = &spec, .operands = 1};
 *     yk_arguments_parse(&line, argc, argv);
 *
 * An option may be abbreviated if the abbreviation is unique. Values are borrowed from argv. -h and --help print the
 * help and end the program with status 0; a usage error ends it with status 2. Main thread only.
 */
#ifndef YK_CLI_ARGUMENTS_H
#define YK_CLI_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct yk_argument {
    const char *name;  /* "out": --out */
    char letter;       /* 'o': -o; 0: none */
    const char *value; /* what the help calls the value; NULL: a flag, which is set to "true" */
    void (*set)(const struct yk_argument *a, const char *value); /* ends the program if the value is wrong */
    void *to;                                                    /* for set() */
    const char *help;
    const char *default_text; /* NULL: none */
    double min, max;          /* for yk_argument_int() */
    const char *group; /* heading in the help; NULL: "Options". The options of a group are consecutive */
    int of;            /* a mask of commands that have it; 0: all */
} yk_argument;

enum { YK_MAX_ARGUMENTS = 128 };

typedef struct {
    const char *name;         /* "yoke train" */
    const char *usage;        /* what follows the name in the help */
    const char *summary;      /* one line or more, without a newline at the end */
    const yk_argument *table; /* ends with a NULL name */
    char **operand;           /* [operands] receives the arguments that are not options; may be argv */
    int operands;             /* at most */
    const char *unexpected;   /* advice if there is one argument too many */
    const char *notes;        /* the end of the help: examples */
    int command;              /* bits of `of`, if several commands share the table */
} yk_command_line;

/* Returns the number of operands. argv[0] is ignored. */
int yk_arguments_parse(const yk_command_line *line, int argc, char **argv);

void yk_argument_flag(const yk_argument *a, const char *value);  /* bool */
void yk_argument_text(const yk_argument *a, const char *value);  /* const char * */
void yk_argument_int(const yk_argument *a, const char *value);   /* int64_t; accepts 1e6, 100k and 2m */
void yk_argument_split(const yk_argument *a, const char *value); /* yoke_split */
void yk_argument_quiet(const yk_argument *a, const char *value); /* --quiet of all commands */
/* For yoke_options: sets the option of that name. */
void yk_argument_option(const yk_argument *a, const char *value);

/* Reports a usage error and ends the program with status 2. */
_Noreturn void yk_usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
