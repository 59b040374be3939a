#include "cli/arguments.h"

#include "base/number.h"
#include "base/suggest.h"
#include "cli/cli.h"
#include "cli/terminal.h"
#include "config/option.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HELP_COLUMN = 26, PAGE_WIDTH = 80 };

static const yk_argument help_option = {"help", 'h', NULL, NULL, NULL, "print this help"};

void yk_usage_error(const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    exit(yk_cli_exit(yk_fail(YK_EUSAGE, "%s", text)));
}

/* ---- values ---- */

void yk_argument_flag(const yk_argument *a, const char *value)
{
    (void)value;
    *(bool *)a->to = true;
}

void yk_argument_text(const yk_argument *a, const char *value)
{
    *(const char **)a->to = value;
}

void yk_argument_int(const yk_argument *a, const char *value)
{
    if (yk_number_int(value, a->min, a->max, a->to))
        yk_usage_error("--%s %s: %s", a->name, value, yk_error());
}

void yk_argument_split(const yk_argument *a, const char *value)
{
    if (strcmp(value, "train") && strcmp(value, "test"))
        yk_usage_error("--%s %s: the value must be train or test", a->name, value);
    *(yoke_split *)a->to = strcmp(value, "train") ? YOKE_TEST_SPLIT : YOKE_TRAIN_SPLIT;
}

void yk_argument_quiet(const yk_argument *a, const char *value)
{
    (void)a, (void)value;
    yk_terminal_quiet(true);
}

void yk_argument_option(const yk_argument *a, const char *value)
{
    yoke_error error;
    if (yoke_options_set(a->to, a->name, value, &error))
        exit(yk_cli_fail(&error));
}

/* ---- help ---- */

/* Prints words from `column` on; `at` is the column of the cursor. */
static void print_wrapped(const char *text, int column, int at)
{
    while (*text) {
        const int n = (int)strcspn(text, " ");
        if (at > column && at + 1 + n > PAGE_WIDTH) {
            printf("\n");
            at = 0;
        }
        const int blanks = at < column ? column - at : 1;
        printf("%*s%.*s", blanks, "", n, text);
        at += blanks + n;
        text += n + (text[n] == ' ');
    }
    printf("\n");
}

static void print_option(const yk_argument *a)
{
    char label[64], text[1024];
    const char letter[] = {'-', a->letter, ',', ' ', '\0'};
    const int n = snprintf(label, sizeof label, "  %s--%s%s%s", a->letter ? letter : "    ", a->name,
                           a->value ? " " : "", a->value ? a->value : "");
    snprintf(text, sizeof text, a->default_text ? "%s (default: %s)" : "%s", a->help, a->default_text);
    printf(n + 2 > HELP_COLUMN ? "%s\n" : "%s", label);
    print_wrapped(text, HELP_COLUMN, n + 2 > HELP_COLUMN ? 0 : n);
}

_Noreturn static void print_help(const yk_command_line *l)
{
    const char *group = NULL;
    printf("Usage: %s %s\n\n%s\n", l->name, l->usage, l->summary);
    for (const yk_argument *a = l->table; a->name; a++) {
        const char *heading = a->group ? a->group : "Options";
        if (!group || strcmp(heading, group))
            printf("\n%s:\n", heading);
        group = heading;
        print_option(a);
    }
    print_option(&help_option);
    if (l->notes)
        printf("\n%s\n", l->notes);
    exit(yk_cli_exit(yk_cli_flush()));
}

/* ---- parsing ---- */

/* dashes: "--" or "-". */
_Noreturn static void fail_unknown(const yk_command_line *l, const char *dashes, const char *name, size_t n)
{
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)n, name);
    const char *other = yk_suggest(word, l->table, sizeof *l->table), *removed = yk_option_removed(word);
    if (removed)
        yk_usage_error("unknown option %s%s; %s", dashes, word, removed);
    if (other)
        yk_usage_error("unknown option %s%s; did you mean --%s?", dashes, word, other);
    yk_usage_error("unknown option %s%s; %s --help lists the options", dashes, word, l->name);
}

/* An exact match, or the only option that begins with these n characters. */
static const yk_argument *find_name(const yk_command_line *l, const char *name, size_t n)
{
    const yk_argument *first = NULL, *second = NULL;
    if (n == strlen(help_option.name) && strncmp(name, help_option.name, n) == 0)
        return &help_option;
    for (const yk_argument *a = l->table; a->name; a++) {
        if (strncmp(a->name, name, n))
            continue;
        if (!a->name[n])
            return a;
        second = first && !second ? a : second;
        first = first ? first : a;
    }
    if (second)
        yk_usage_error("--%.*s is ambiguous: it may be --%s or --%s", (int)n, name, first->name,
                       second->name);
    if (!first)
        fail_unknown(l, "--", name, n);
    return first;
}

/* -out is a slip for --out, not -o with the value "ut". */
static const yk_argument *find_letter(const yk_command_line *l, const char *name)
{
    const size_t n = strcspn(name, "=");
    const yk_argument *found = *name == help_option.letter ? &help_option : NULL;
    for (const yk_argument *a = l->table; a->name; a++) {
        if (n == strlen(a->name) && strncmp(name, a->name, n) == 0)
            fail_unknown(l, "-", name, n);
        found = a->letter == *name ? a : found;
    }
    if (!found)
        fail_unknown(l, "-", name, n);
    return found;
}

/* --name, --name=value, -x or -xvalue; returns whether `next` is its value. */
static bool parse_option(const yk_command_line *l, const char *word, const char *next)
{
    const bool is_long = word[1] == '-';
    const char *name = word + (is_long ? 2 : 1);
    const size_t n = is_long ? strcspn(name, "=") : 1;
    const yk_argument *a = is_long ? find_name(l, name, n) : find_letter(l, name);
    const char *value = !name[n] ? NULL : is_long ? name + n + 1 : name + n;
    if (value && !a->value)
        yk_usage_error("--%s takes no value", a->name);
    if (a == &help_option)
        print_help(l);
    const char *given = value ? value : next;
    if (a->value && !(given && *given))
        yk_usage_error("--%s needs a value: --%s %s", a->name, a->name, a->value);
    a->set(a, a->value ? given : "true");
    return a->value && !value;
}

int yk_arguments_parse(const yk_command_line *line, int argc, char **argv)
{
    yk_argument own[YK_MAX_ARGUMENTS + 1] = {{NULL}};
    yk_command_line copy = *line, *l = &copy;
    int n = 0;
    bool options = true;
    l->table = own;
    for (const yk_argument *a = line->table; a->name; a++)
        if (!a->of || (a->of & line->command))
            own[n++] = *a;
    n = 0;
    for (int i = 1; i < argc; i++) {
        char *word = argv[i];
        if (options && strcmp(word, "--") == 0)
            options = false;
        else if (options && word[0] == '-' && word[1])
            i += parse_option(l, word, i + 1 < argc ? argv[i + 1] : NULL);
        else if (!*word)
            yk_usage_error("an argument is empty; %s --help lists the arguments", l->name);
        else if (n < l->operands)
            l->operand[n++] = word;
        else
            yk_usage_error("unexpected argument '%s': %s", word, l->unexpected);
    }
    return n;
}
