#include "sweep/file.h"

#include "base/mem.h"
#include "base/number.h"
#include "format/ini.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CHOICES = 512, MAX_TIED = 8, MAX_REPEATS = 1000 };

typedef enum { NOWHERE, SWEEP, TRAIN, GRID, QUICK, SET } section;

static yk_status number_of(const char *name, const char *value, double min, double max, int64_t *out)
{
    const yk_status st = yk_number_int(value, min, max, out);
    return st ? yk_fail(st, "%s = %s: %s", name, value, yk_error()) : YK_OK;
}

/* ---- words: parts of a line, split in place */

/* Removes the double quotes around a string. */
static char *unquote(char *text)
{
    size_t n = strlen(text);
    if (n < 2 || text[0] != '"' || strchr(text + 1, '"') != text + n - 1)
        return text;
    text[n - 1] = '\0';
    return text + 1;
}

/* Splits at these characters outside of quotes. words: several of them separate two words, and quotes are removed. Returns the number
 * of parts, of which it stores the first `max`. */
static size_t split(char *text, const char *between, bool words, size_t max, char **part)
{
    size_t n = 0;
    for (bool more = true; more; n++) {
        bool quoted = false;
        char *begin = text += words ? strspn(text, between) : 0;
        for (; *text && (quoted || !strchr(between, *text)); text++)
            quoted ^= *text == '"';
        more = *text != '\0';
        if (words && text == begin) /* blanks at the end */
            break;
        if (more)
            *text++ = '\0';
        if (n < max)
            part[n] = words ? unquote(begin) : begin;
    }
    return n;
}

/* ---- axes */

static bool has_name(const yk_sweep_axis *a, const char *name)
{
    for (size_t i = 0; i < a->nnames; i++)
        if (strcmp(a->name[i], name) == 0)
            return true;
    return false;
}

/* The axis that has this option; NULL: none. */
static const yk_sweep_axis *axis_of(const yk_sweep_file *f, const char *option)
{
    for (size_t i = 0; i < f->naxes; i++)
        if (has_name(&f->axis[i], option))
            return &f->axis[i];
    return NULL;
}

/* Whether the new axis may replace an older one that shares an option with it. */
static yk_status may_replace(const yk_sweep_axis *old, const yk_sweep_axis *new, section where)
{
    const char *shared = NULL, *other = NULL;
    for (size_t i = 0; i < old->nnames; i++)
        *(has_name(new, old->name[i]) ? &shared : &other) = old->name[i];
    if (!shared)
        return YK_OK;
    if (where != QUICK && where != SET)
        return yk_fail(YK_EUSAGE, "%s is already set on line %d", shared, old->line);
    if (other)
        return yk_fail(YK_EUSAGE, "%s varies together with %s: set both here", shared, other);
    return YK_OK;
}

/* Adds an axis at the position of those that it replaces, or at the end. */
static yk_status axis_put(yk_sweep_file *f, yk_sweep_axis *a, section where)
{
    for (size_t i = 0; i < f->naxes; i++) {
        const yk_status st = may_replace(&f->axis[i], a, where);
        if (st)
            return st;
    }
    size_t at = SIZE_MAX, kept = 0;
    for (size_t i = 0; i < f->naxes; i++) {
        const bool replaced = has_name(a, f->axis[i].name[0]); /* then it has all of its options */
        a->grid |= replaced && f->axis[i].grid;
        if (replaced && at == SIZE_MAX)
            at = kept++;
        else if (!replaced)
            f->axis[kept++] = f->axis[i];
    }
    if (at == SIZE_MAX && YK_RESERVE(f->axis, f->cap, kept + 1, "the grid"))
        return YK_ESYSTEM;
    f->axis[at == SIZE_MAX ? kept++ : at] = *a;
    f->naxes = kept;
    return YK_OK;
}

/* Removes the axis of this option alone. */
static void drop_axis(yk_sweep_file *f, const char *option)
{
    for (size_t i = 0; i < f->naxes; i++)
        if (f->axis[i].nnames == 1 && strcmp(f->axis[i].name[0], option) == 0) {
            f->naxes--;
            memmove(&f->axis[i], &f->axis[i + 1], (f->naxes - i) * sizeof *f->axis);
            return;
        }
}

/* ---- lines of options */

static yk_status option_of(section where, const char *name, const yk_option **out)
{
    if (yk_option_require(name, out))
        return YK_EUSAGE;
    if (!((*out)->flags & YK_OPT_IN_SWEEPS))
        return yk_fail(YK_EUSAGE, "%s cannot be set here: the sweep sets it for each run", name);
    if ((*out)->flags & YK_OPT_COMMAND_LINE_ONLY && where != SET)
        return yk_fail(YK_EUSAGE, "a file cannot set %s; use --set '%s=VALUE' on the command line", name,
                       name);
    return YK_OK;
}

/* "a, b = 1 x | 2 y": one word per option in each choice. */
static yk_status split_tied(char **choice, size_t nchoices, size_t nnames, char **value)
{
    for (size_t i = 0; i < nchoices; i++) {
        char copy[64];
        snprintf(copy, sizeof copy, "%s", yk_trim(choice[i]));
        size_t n = split(choice[i], YK_BLANKS, true, nnames, value + i * nnames);
        if (n != nnames)
            return yk_fail(YK_EUSAGE,
                           "'%s' has %zu value%s for %zu options; separate choices by |, as in 'sync 1 | "
                           "sync 2', and put "
                           "values with spaces in double quotes",
                           copy, n, n == 1 ? "" : "s", nnames);
    }
    return YK_OK;
}

/* "5 10 50", "5 | 10 | 50" or "lenet5 | conv 8 3x3, relu, dense 10". */
static yk_status split_list(const yk_option *o, char **choice, size_t *nchoices, char **value)
{
    const bool has_spaces = o->flags & YK_OPT_HAS_SPACES;
    size_t n = *nchoices;
    if (n == 1 && !has_spaces) {
        *nchoices =
            split(choice[0], yk_option_is_number(o) ? YK_BLANKS "," : YK_BLANKS, true, MAX_CHOICES, value);
        return YK_OK;
    }
    for (size_t i = 0; i < n; i++) {
        value[i] = yk_trim(choice[i]);
        if (!has_spaces && *value[i] != '"' && strpbrk(value[i], YK_BLANKS))
            return yk_fail(YK_EUSAGE, "'%s': separate values by spaces or by |, not by both", value[i]);
        value[i] = unquote(value[i]);
    }
    return YK_OK;
}

/* Checks each value alone; combinations are checked in plan.c. */
static yk_status check_values(const yk_sweep_axis *a)
{
    yk_config c;
    yk_config_init(&c);
    yk_status st = YK_OK;
    for (size_t i = 0; !st && i < a->nnames * a->nchoices; i++)
        if (a->value[i])
            st = yk_config_set(&c, a->name[i % a->nnames], a->value[i]);
    yk_config_fini(&c);
    return st;
}

static yk_status options_line(yk_sweep_file *f, section where, int line, const char *left, const char *right)
{
    char *choice[MAX_CHOICES], *rest = yk_arena_print(&f->arena, "%s", left),
                               *values = yk_arena_print(&f->arena, "%s", right);
    const yk_option *option[MAX_TIED];
    yk_sweep_axis a = {
        .line = line,
        .nchoices = 1,
        .name = yk_arena_alloc(&f->arena, MAX_TIED, sizeof *a.name, "the grid"),
        .value = yk_arena_alloc(&f->arena, (size_t)MAX_CHOICES * MAX_TIED, sizeof *a.value, "the grid")};
    yk_status st = f->arena.status;
    for (char *part; !st && (part = strsep(&rest, ","));) {
        if (a.nnames == MAX_TIED)
            return yk_fail(YK_EUSAGE, "more than %d options vary together; use several lines", MAX_TIED);
        part = yk_trim(part);
        if (has_name(&a, part))
            return yk_fail(YK_EUSAGE, "%s occurs twice on this line", part);
        st = option_of(where, part, &option[a.nnames]);
        a.name[a.nnames++] = part;
    }
    if (st)
        return st;
    if (where == TRAIN) {
        a.value[0] = unquote(values);
        if (a.nnames > 1)
            return yk_fail(YK_EUSAGE,
                           "options can vary together only in [grid]; in [train], write one option per line");
    } else {
        a.nchoices = split(values, "|", false, MAX_CHOICES, choice);
        if (a.nchoices <= MAX_CHOICES)
            st = a.nnames > 1 ? split_tied(choice, a.nchoices, a.nnames, a.value)
                              : split_list(option[0], choice, &a.nchoices, a.value);
        if (!st && (!a.nchoices || a.nchoices > MAX_CHOICES))
            st = yk_fail(YK_EUSAGE, "%s: expected 1 to %d values", a.name[0], MAX_CHOICES);
    }
    a.grid = where == GRID || a.nchoices > 1;
    for (size_t i = 0; !st && where != TRAIN && i < a.nnames * a.nchoices; i++)
        a.value[i] = strcmp(a.value[i], "-") ? a.value[i] : NULL; /* the option is left out */
    if (!st)
        st = check_values(&a);
    return st ? st : axis_put(f, &a, where);
}

/* ---- lines of the sweep itself */

static yk_status set_name(yk_sweep_file *f, const char *name)
{
    if (!*name || strpbrk(name, "/" YK_BLANKS) || *name == '.')
        return yk_fail(YK_EUSAGE,
                       "name = %s: the name of a directory cannot contain spaces or /, or begin with a dot",
                       name);
    f->name = yk_arena_print(&f->arena, "%s", name);
    return f->arena.status;
}

/* A setting with two values. */
static yk_status choose(const char *name, const char *value, const char *no, const char *yes, bool *out)
{
    *out = strcmp(value, yes) == 0;
    return *out || strcmp(value, no) == 0
               ? YK_OK
               : yk_fail(YK_EUSAGE, "%s = %s: expected %s or %s", name, value, no, yes);
}

/* `found_out`: whether the sweep itself has a setting of this name. */
static yk_status sweep_line(yk_sweep_file *f, section where, const char *name, char *value, bool *found_out)
{
    const struct {
        const char *name;
        double min, max;
        int64_t *number;
        yk_sweep_fixed fixed; /* what is the same for all runs; DEFAULT: another setting */
    } numbers[] = {{"repeats", 1, MAX_REPEATS, &f->repeats},
                   {"runs", 1, 9e15, &f->max_points},
                   {"seconds", 1, 9e15, &f->seconds},
                   {"eval-examples", 0, 9e15, &f->eval_examples},
                   {"examples", 1, 9e15, &f->amount, YK_SWEEP_EXAMPLES},
                   {"epochs", 1, 9e15, &f->amount, YK_SWEEP_EPOCHS},
                   {"steps", 1, 9e15, &f->amount, YK_SWEEP_STEPS}};
    enum { NUMBERS = sizeof numbers / sizeof *numbers };
    size_t k = 0;
    while (k < NUMBERS && strcmp(name, numbers[k].name))
        k++;
    const bool named = !strcmp(name, "name"), models = !strcmp(name, "models");
    *found_out = k < NUMBERS || named || models || !strcmp(name, "search");
    if (!*found_out)
        return YK_OK;
    value = unquote(value);
    if (named)
        return set_name(f, value);
    if (k == NUMBERS)
        return models ? choose(name, value, "keep", "drop", &f->drop_models)
                      : choose(name, value, "grid", "halving", &f->halving);
    if (numbers[k].fixed && where == SWEEP && f->fixed)
        return yk_fail(YK_EUSAGE, "only one of examples, epochs and steps can be fixed");
    if (numbers[k].fixed && where != SWEEP) { /* replaces the values of [train] */
        drop_axis(f, "epochs");
        drop_axis(f, "steps");
    }
    f->fixed = numbers[k].fixed ? numbers[k].fixed : f->fixed;
    return number_of(name, value, numbers[k].min, numbers[k].max, numbers[k].number);
}

static yk_status handle_line(yk_sweep_file *f, section where, int line, char *left, char *right)
{
    bool found = false, quoted = false;
    yk_status st = YK_OK;
    for (const char *p = right; *p; p++)
        quoted ^= *p == '"';
    if (quoted)
        return yk_fail(YK_EUSAGE, "missing double quote");
    /* epochs and steps are options too: if one is an axis, a later line replaces it */
    if (where == SWEEP || ((where == QUICK || where == SET) && !axis_of(f, left)))
        st = sweep_line(f, where, left, right, &found);
    if (st || found)
        return st;
    if (where == SWEEP)
        return yk_fail(YK_EUSAGE,
                       "unknown setting %s: [sweep] has name, repeats, examples, epochs, steps, "
                       "eval-examples, models, search, runs and seconds; "
                       "options of yoke train belong in [train] or [grid]",
                       left);
    return options_line(f, where, line, left, right);
}

static yk_status section_of(const char *text, section *out)
{
    static const char *const known[] = {[SWEEP] = "[sweep]", "[train]", "[grid]", "[quick]"};
    for (section s = SWEEP; s <= QUICK; s++)
        if (strcmp(text, known[s]) == 0) {
            *out = s;
            return YK_OK;
        }
    return yk_fail(YK_EUSAGE, "unknown section %s; expected [sweep], [train], [grid] or [quick]", text);
}

/* ---- the file */

/* Reads all sections except [quick], or only that one. */
static yk_status pass(yk_sweep_file *f, bool quick, bool *seen_out)
{
    section where = NOWHERE;
    yk_ini in;
    yk_status st = yk_ini_open(f->path, YK_INI_END_COMMENTS, &in);
    while (yk_ini_next(&in, &st)) {
        if (!in.name) {
            st = section_of(in.section, &where);
            *seen_out |= !st && where == QUICK;
        } else if (where == NOWHERE) {
            st = yk_fail(YK_EUSAGE, "a line before the first section; begin with [sweep], [train] or [grid]");
        } else if ((where == QUICK) == quick) {
            st = handle_line(f, where, in.line, in.name, in.value);
        }
    }
    return yk_ini_close(&in, st);
}

static yk_status parse_set(yk_sweep_file *f, const char *set)
{
    char *copy = yk_arena_print(&f->arena, "%s", set), *name, *value;
    yk_status st = copy ? yk_ini_split(copy, &name, &value) : YK_ESYSTEM;
    if (!st)
        st = handle_line(f, SET, 0, name, value);
    return st ? yk_fail(st, "--set '%s': %s", set, yk_error()) : YK_OK;
}

static yk_status conflict(const yk_sweep_file *f, const yk_sweep_axis *a, const char *option, const char *why)
{
    return a->line ? yk_fail(YK_EUSAGE, "%s:%d: %s: %s", f->path, a->line, option, why)
                   : yk_fail(YK_EUSAGE, "--set %s: %s", option, why);
}

/* A value that the sweep fixes cannot vary. */
static yk_status check_conflicts(const yk_sweep_file *f)
{
    const yk_sweep_axis *a, *seed = axis_of(f, "seed");
    char why[80];
    if (f->fixed && ((a = axis_of(f, "epochs")) || (a = axis_of(f, "steps"))))
        return conflict(f, a, has_name(a, "epochs") ? "epochs" : "steps",
                        "[sweep] fixes it: remove one of them");
    if (f->eval_examples && (a = axis_of(f, "eval-every")))
        return conflict(f, a, "eval-every", "eval-examples is set in [sweep]: remove one of them");
    snprintf(why, sizeof why, "with repeats = %lld, set only the first seed", (long long)f->repeats);
    return seed && seed->nchoices > 1 && f->repeats > 1 ? conflict(f, seed, "seed", why) : YK_OK;
}

static yk_status check_search(const yk_sweep_file *f)
{
    if (!f->halving && (f->max_points || f->seconds))
        return yk_fail(YK_EUSAGE, "%s: %s limits a search: add search = halving", f->path,
                       f->max_points ? "runs" : "seconds");
    if (f->halving && f->drop_models)
        return yk_fail(YK_EUSAGE, "%s: search = halving continues runs, so it needs models = keep", f->path);
    return YK_OK;
}

/* The default name of "experiments/softmax.ini" is softmax. */
static yk_status name_by_path(yk_sweep_file *f)
{
    if (f->name)
        return YK_OK;
    const char *slash = strrchr(f->path, '/'), *base = slash ? slash + 1 : f->path;
    size_t n = strlen(base);
    if (n > 4 && strcmp(base + n - 4, ".ini") == 0)
        n -= 4;
    f->name = yk_arena_print(&f->arena, "%.*s", (int)n, base);
    return f->arena.status;
}

yk_status yk_sweep_file_load(const char *path, bool quick, const char *const *sets, size_t nsets,
                             yk_sweep_file *out)
{
    *out = (yk_sweep_file){.repeats = 1};
    out->path = yk_arena_print(&out->arena, "%s", path);
    bool has_quick = false;
    yk_status st = out->path ? pass(out, false, &has_quick) : YK_ESYSTEM;
    if (!st && quick && !has_quick)
        st = yk_fail(YK_EUSAGE, "%s: no section [quick]; omit --quick", path);
    if (!st && quick)
        st = pass(out, true, &has_quick);
    for (size_t i = 0; !st && i < nsets; i++)
        st = parse_set(out, sets[i]);
    if (!st)
        st = check_conflicts(out);
    if (!st)
        st = check_search(out);
    return st ? st : name_by_path(out);
}

void yk_sweep_file_fini(yk_sweep_file *f)
{
    free(f->axis);
    yk_arena_free(&f->arena);
    *f = (yk_sweep_file){0};
}
