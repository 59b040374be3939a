/* Parses "linear + fm 16 + (embed 16, dense 400, relu, dense 1)". Errors point into the list, as those of networks do. */
#include "model/branches.h"

#include "model/layer_args.h"
#include "model/layer_list.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The table `own`; if it is "", a new one, named after the layer. */
static yk_status find_table(yk__branches *m, size_t at, const char *kind, const char *name, uint32_t width,
                            int *out)
{
    char own[sizeof m->table[0].name], why[160];
    snprintf(own, sizeof own, "%s", *name ? name : kind);
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
    memcpy(m->table[m->ntables].name, own, sizeof own);
    *out = m->ntables++;
    return YK_OK;
}

/* A name of a table becomes a part of the names of tensors. */
static bool is_name(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    const size_t n = strlen(name);
    return n > 0 && n < sizeof((yk__vectors *)0)->name && strspn(name, letters) == n &&
           !(*name >= '0' && *name <= '9') && strcmp(name, "linear") != 0 && strcmp(name, "network") != 0;
}

/* The layer fm or embed: WIDTH, and name=NAME, if given. */
static yk_status parse_table(yk__branches *m, const yk__list_part *layer, int *table_out)
{
    char why[160];
    const char *kind = layer->word[0], *name = "";
    const int n = layer->n;
    size_t width;
    if (n < 2 || n > 3 || !yk__arg_count(layer->word[1], 1, YK_MAX_WIDTH, &width)) {
        snprintf(why, sizeof why, "%s needs the length of its vectors, 1 to %d, as in: %s 16 or %s 16 name=v",
                 kind, YK_MAX_WIDTH, kind, kind);
        return yk__list_error(m->list, yk__list_word_at(layer, n < 2 ? 0 : n > 3 ? 3 : 1), why);
    }
    if (n == 3 && strncmp(layer->word[2], "name=", 5) != 0)
        return yk__list_error(m->list, yk__list_word_at(layer, 2), "only a name can follow, as in: name=v");
    if (n == 3 && !is_name(name = layer->word[2] + 5))
        return yk__list_error(m->list, yk__list_word_at(layer, 2) + 5,
                              "a name has up to 23 letters, digits and underscores, does not begin with a "
                              "digit, and is not \"linear\" or \"network\"");
    return find_table(m, layer->begin, kind, name, (uint32_t)width, table_out);
}

/* The network that begins with an embed layer. [begin, end): the layers after it. */
static yk_status parse_network(yk__branches *m, const yk__list_part *embed, size_t begin, size_t end,
                               const yk_model_shape *shape)
{
    if (m->net)
        return yk__list_error(m->list, embed->begin, "only one branch can be a network");
    if (begin > end)
        return yk__list_error(m->list, end,
                              "layers of a network must follow embed, as in: embed 16, dense 1");
    yk_status st = parse_table(m, embed, &m->embed);
    if (st)
        return st;
    yk_model_shape own = *shape;
    own.channels = own.dim = m->fields * m->table[m->embed].width;
    own.height = own.width = 1;
    own.kind = YK_ROWS_F32;
    return yk__net_branch(m->list, begin, end, &own, &m->net);
}

/* The branch [begin, end), whose first layer is `first`. */
static yk_status parse_branch(yk__branches *m, const yk__list_part *first, size_t comma, size_t end,
                              const yk_model_shape *shape)
{
    const char *kind = first->n ? first->word[0] : "";
    char why[200];
    if (!*kind)
        return yk__list_error(m->list, first->begin,
                              "empty branch: there must be a layer before and after each '+'");
    if (strcmp(kind, "embed") == 0)
        return parse_network(m, first, comma + 1, end, shape);
    const bool linear = strcmp(kind, "linear") == 0;
    if (!linear && strcmp(kind, "fm") != 0) {
        snprintf(why, sizeof why, "unknown layer \"%.60s\"; a branch begins with linear, fm or embed", kind);
        return yk__list_error(m->list, first->begin, why);
    }
    if (comma < end)
        return yk__list_error(m->list, comma, "no layer can follow linear or fm; separate branches with '+'");
    if (linear && (m->linear || first->n > 1))
        return yk__list_error(m->list, first->begin,
                              m->linear ? "only one branch can be linear" : "linear has no arguments");
    m->linear |= linear;
    if (linear)
        return YK_OK;
    if (m->nfm == YK__MAX_BRANCHES)
        return yk__list_error(m->list, first->begin, "too many branches");
    return parse_table(m, first, &m->fm[m->nfm++]);
}

/* The branch that begins at `*next`, perhaps in parentheses. Sets *next to the '+' after it, or to the end of the list. */
static yk_status next_branch(yk__branches *m, size_t *next, const yk_model_shape *shape)
{
    const char *list = m->list;
    const size_t at = *next + strspn(list + *next, YK__BLANKS);
    const bool open = list[at] == '(';
    const size_t begin = at + open, end = begin + strcspn(list + begin, open ? ")" : "+()"),
                 inner = begin + strcspn(list + begin, "(+"), separator = begin + strcspn(list + begin, ","),
                 comma = separator < end ? separator : end;
    yk__list_part first;
    if (open && !list[end])
        return yk__list_error(list, at, "no ')' for this '('");
    if (inner < end)
        return yk__list_error(list, inner, "there can be no '(' or '+' inside a branch");
    *next = end + open + strspn(list + end + open, YK__BLANKS);
    if (list[*next] && list[*next] != '+')
        return yk__list_error(list, *next, "expected '+' or the end of the list");
    if (!open && comma < end && strchr(list, '+'))
        return yk__list_error(list, at, "put a branch with several layers in parentheses");
    yk_status st = yk__list_part_init(list, begin, comma, &first);
    if (!st) {
        st = parse_branch(m, &first, comma, end, shape);
        free(first.copy);
    }
    return st;
}

yk_status yk__branches_parse(const char *text, const yk_model_shape *shape, yk__branches *out)
{
    out->embed = -1;
    out->fields = shape->fields ? shape->fields : 1;
    size_t at = 0;
    yk_status st = yk__list_expand(text, 1, &out->list);
    while (!st && !(st = next_branch(out, &at, shape)) && out->list[at])
        at++;
    return st;
}
