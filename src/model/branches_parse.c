/* Parses "linear + fm 16 + (embed 16, dense 400, relu, dense 1)". Errors point into the list, as those of networks do. */
#include "model/branches.h"

#include "model/layer_args.h"
#include <stdio.h>
#include <string.h>

#define DEEP ", dense 400, relu, dense 400, relu, dense 400, relu, dense 1)"

/* Named models. The width, NAME:WIDTH or the default, is inserted between the parts. */
static const struct {
    const char *name;
    unsigned width;
    const char *part[3];
} presets[] = {
    {"fm", 8, {"linear + fm ", ""}},
    {"wide-deep", 16, {"linear + (embed ", DEEP}},
    {"deepfm", 16, {"linear + fm ", " name=v + (embed ", " name=v" DEEP}},
};

#define BLANKS " \t\n"

/* Whether the first n characters of the text are this word. */
static bool is_word(const char *text, size_t n, const char *word)
{
    return strlen(word) == n && strncmp(text, word, n) == 0;
}

/* The preset of "fm" or "fm:8"; -1: the text is not a preset. */
static int preset_of(const char *text)
{
    const size_t length = strcspn(text, ":");
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (is_word(text, length, presets[i].name))
            return (int)i;
    return -1;
}

bool yk__model_is_branches(const char *text)
{
    const char *first = text + strspn(text, BLANKS "(");
    const size_t n = strcspn(first, BLANKS ",+()");
    return preset_of(text) >= 0 || is_word(first, n, "linear") || is_word(first, n, "fm") ||
           is_word(first, n, "embed");
}

static yk_status expand(const char *text, char **out)
{
    const int i = preset_of(text);
    const char *colon = strchr(text, ':'), *const *part = i < 0 ? NULL : presets[i].part;
    size_t w = i < 0 ? 0 : presets[i].width;
    if (i >= 0 && colon && !yk__arg_count(colon + 1, 1, YK_MAX_WIDTH, &w))
        return yk_fail(YK_EUSAGE,
                       "--model %.40s: the number after the colon must be between 1 and %d, as in %s:%u",
                       text, YK_MAX_WIDTH, presets[i].name, presets[i].width);
    const int n = i < 0      ? asprintf(out, "%s", text)
                  : !part[2] ? asprintf(out, "%s%zu%s", part[0], w, part[1])
                             : asprintf(out, "%s%zu%s%zu%s", part[0], w, part[1], w, part[2]);
    return n < 0 ? yk_fail_memory(strlen(text), "a model") : YK_OK;
}

/* A part of the list. */
typedef struct {
    size_t begin, end;
} span;

static span trimmed(const char *list, span s)
{
    while (s.begin < s.end && strchr(BLANKS, list[s.begin]))
        s.begin++;
    while (s.end > s.begin && strchr(BLANKS, list[s.end - 1]))
        s.end--;
    return s;
}

/* The table of a layer: `name`, or a new one with the name of the layer. */
static yk_status find_table(yk__branches *m, size_t at, const char *kind, const char *name, uint32_t width,
                            int *out)
{
    char own[sizeof m->table[0].name], why[160];
    snprintf(own, sizeof own, "%.23s", *name ? name : kind);
    for (int n = 2, i = 0; !*name && i < m->ntables; i++)
        if (strcmp(m->table[i].name, own) == 0) {
            snprintf(own, sizeof own, "%.10s%d", kind, n++);
            i = -1;
        }
    for (int i = 0; i < m->ntables; i++)
        if (strcmp(m->table[i].name, own) == 0) {
            *out = i;
            if (m->table[i].width == width)
                return YK_OK;
            snprintf(why, sizeof why, "the table \"%s\" has vectors of %u floats in an earlier branch", own,
                     m->table[i].width);
            return yk__list_error(m->list, at, why);
        }
    if (m->ntables == YK__MAX_TABLES)
        return yk__list_error(m->list, at,
                              "too many embedding tables: let branches share one, as in: fm 16 name=v");
    m->table[m->ntables] = (yk__vectors){.width = width};
    snprintf(m->table[m->ntables].name, sizeof m->table[0].name, "%s", own);
    *out = m->ntables++;
    return YK_OK;
}

/* A name of a table becomes a part of the names of tensors. */
static bool is_name(const char *text, size_t n)
{
    bool ok = n > 0 && n < sizeof((yk__vectors *)0)->name && !is_word(text, n, "linear") &&
              !is_word(text, n, "network");
    for (size_t i = 0; ok && i < n; i++)
        ok = (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z') || text[i] == '_' ||
             (i && text[i] >= '0' && text[i] <= '9');
    return ok;
}

/* The layer s: fm or embed, WIDTH, and name=NAME, if given. */
static yk_status parse_table(yk__branches *m, span s, const char *kind, int *table_out)
{
    enum { WORDS = 4 };
    span word[WORDS] = {{0}};
    char text[32], why[160];
    size_t n = 0, width;
    for (span rest = s; n < WORDS && rest.begin < rest.end; n++) {
        word[n] = (span){rest.begin, rest.begin + strcspn(m->list + rest.begin, BLANKS ",+()")};
        rest = trimmed(m->list, (span){word[n].end, rest.end});
    }
    snprintf(text, sizeof text, "%.*s", (int)(word[1].end - word[1].begin), m->list + word[1].begin);
    if (n < 2 || n > 3 || !yk__arg_count(text, 1, YK_MAX_WIDTH, &width)) {
        snprintf(why, sizeof why, "%s needs the length of its vectors, 1 to %d, as in: %s 16 or %s 16 name=v",
                 kind, YK_MAX_WIDTH, kind, kind);
        return yk__list_error(m->list, word[n < 2 ? 0 : n > 3 ? 3 : 1].begin, why);
    }
    const char *name = m->list + word[2].begin;
    if (n == 3 && strncmp(name, "name=", 5) != 0)
        return yk__list_error(m->list, word[2].begin, "only a name can follow, as in: name=v");
    if (n == 3 && !is_name(name + 5, word[2].end - word[2].begin - 5))
        return yk__list_error(m->list, word[2].begin + 5,
                              "a name has up to 23 letters, digits and underscores, does not begin with a "
                              "digit, and is not \"linear\" or \"network\"");
    snprintf(text, sizeof text, "%.*s", n == 3 ? (int)(word[2].end - word[2].begin - 5) : 0, name + 5);
    return find_table(m, s.begin, kind, text, (uint32_t)width, table_out);
}

/* The network that begins with an embed layer. `rest`: the layers after it. */
static yk_status parse_network(yk__branches *m, span embed, span rest, const yk_model_shape *shape)
{
    if (m->net)
        return yk__list_error(m->list, embed.begin, "only one branch can be a network");
    yk_status st = parse_table(m, embed, "embed", &m->embed);
    if (st)
        return st;
    yk_model_shape own = *shape;
    own.channels = own.dim = m->fields * m->table[m->embed].width;
    own.height = own.width = 1;
    own.kind = YK_ROWS_F32;
    return yk__net_branch(m->list, rest.begin, rest.end, &own, &m->net);
}

/* One branch: linear, fm, or embed with the layers that follow. */
static yk_status parse_branch(yk__branches *m, span s, const yk_model_shape *shape)
{
    s = trimmed(m->list, s);
    const char *comma = memchr(m->list + s.begin, ',', s.end - s.begin);
    const size_t first_end = comma ? (size_t)(comma - m->list) : s.end;
    const span first = trimmed(m->list, (span){s.begin, first_end});
    const size_t length = strcspn(m->list + first.begin, BLANKS ",+()");
    const char *word = m->list + first.begin;
    char why[200];
    if (length == 0)
        return yk__list_error(m->list, s.begin,
                              "empty branch: there must be a layer before and after each '+'");
    const bool linear = is_word(word, length, "linear"), fm = is_word(word, length, "fm"),
               embed = is_word(word, length, "embed");
    if (!linear && !fm && !embed) {
        snprintf(why, sizeof why, "unknown layer \"%.*s\"; a branch begins with linear, fm or embed",
                 (int)(length < 60 ? length : 60), word);
        return yk__list_error(m->list, first.begin, why);
    }
    if (embed && !comma)
        return yk__list_error(m->list, s.end,
                              "layers of a network must follow embed, as in: embed 16, dense 1");
    if (embed)
        return parse_network(m, first, (span){first_end + 1, s.end}, shape);
    if (comma)
        return yk__list_error(m->list, first_end,
                              "no layer can follow linear or fm; separate branches with '+'");
    if (linear && (m->linear || first.end - first.begin > length))
        return yk__list_error(m->list, first.begin,
                              m->linear ? "only one branch can be linear" : "linear has no arguments");
    m->linear |= linear;
    if (linear)
        return YK_OK;
    if (m->nfm == YK__MAX_BRANCHES)
        return yk__list_error(m->list, first.begin, "too many branches");
    return parse_table(m, first, "fm", &m->fm[m->nfm++]);
}

/* The branch that begins at `at`, without its parentheses; *next_out: the position after it. */
static yk_status cut_branch(const char *list, size_t at, span *out, size_t *next_out)
{
    const size_t all = strlen(list);
    at += strspn(list + at, BLANKS);
    if (list[at] == '(') {
        const char *close = strchr(list + at, ')');
        if (!close)
            return yk__list_error(list, at, "no ')' for this '('");
        *out = (span){at + 1, (size_t)(close - list)};
        *next_out = out->end + 1 + strspn(list + out->end + 1, BLANKS);
    } else {
        *out = (span){at, at + strcspn(list + at, "+()")};
        *next_out = out->end;
    }
    const char *inner = strpbrk(list + out->begin, "(+");
    if (list[at] == '(' && inner && inner < list + out->end)
        return yk__list_error(list, (size_t)(inner - list), "there can be no '(' or '+' inside a branch");
    if (list[*next_out] && list[*next_out] != '+')
        return yk__list_error(list, *next_out, "expected '+' or the end of the list");
    const char *comma = strchr(list + out->begin, ',');
    if (list[at] != '(' && comma && comma < list + out->end && (out->end < all || strchr(list, '+')))
        return yk__list_error(list, out->begin + strspn(list + out->begin, BLANKS),
                              "put a branch with several layers in parentheses");
    return YK_OK;
}

yk_status yk__branches_parse(const char *text, const yk_model_shape *shape, yk__branches *out)
{
    out->embed = -1;
    out->fields = shape->fields ? shape->fields : 1;
    yk_status st = expand(text, &out->list);
    for (size_t at = 0, next = 0; !st; at = next + 1) {
        span s = {0};
        if (!(st = cut_branch(out->list, at, &s, &next)))
            st = parse_branch(out, s, shape);
        if (!st && !out->list[next])
            break;
    }
    return st;
}
