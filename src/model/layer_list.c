#include "model/layer_list.h"

#include "base/json.h"
#include "base/suggest.h"
#include "base/text.h"
#include "kern/factors.h"
#include "model/layer_args.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEEP ", dense 400, relu, dense 400, relu, dense 400, relu, dense 1)"

/* All names of models, and the lists of those that have one. '#' stands for the width: NAME:WIDTH, or the default. In networks,
 * which have no width, it stands for the number of outputs. */
typedef struct {
    const char *name, *list;
    unsigned width;
} named;

static const named models[] = {
    {"softmax"},
    {"logreg"},
    {"linear"},
    {"fm", "linear + fm #", 8},
    {"wide-deep", "linear + (embed #" DEEP, 16},
    {"deepfm", "linear + fm # name=v + (embed # name=v" DEEP, 16},
    {"lenet5",
     "conv 6 5x5 same, relu, maxpool 2, conv 16 5x5, relu, maxpool 2, flatten, dense 120, relu, dense 84, "
     "relu, dense #"},
    {"lenet-caffe",
     "conv 20 5x5 same, maxpool 2, conv 50 5x5 same, maxpool 2, flatten, dense 500, relu, dense #"},
    {"alexnet",
     "conv 64 11x11 /4 valid, relu, maxpool 3 /2, conv 192 5x5 same, relu, maxpool 3 /2, conv 384 "
     "3x3 same, relu, "
     "conv 256 3x3 same, relu, conv 256 3x3 same, relu, maxpool 3 /2, flatten, dropout 0.5, dense 4096, "
     "relu, dropout 0.5, "
     "dense 4096, relu, dense #"},
    {NULL}};

/* Whether the first n characters of the text are this word. */
static bool is_word(const char *text, size_t n, const char *word)
{
    return strlen(word) == n && strncmp(text, word, n) == 0;
}

/* The row of a named list; NULL: it is not one. */
static const named *find(const char *text)
{
    const size_t n = strcspn(text, ":");
    for (const named *m = models; m->name; m++)
        if (m->list && is_word(text, n, m->name) && (m->width || !text[n]))
            return m;
    return NULL;
}

bool yk__list_is_named(const char *text)
{
    return find(text);
}

bool yk__list_is_branches(const char *text)
{
    const named *m = find(text);
    const char *list = m ? m->list : text, *first = list + strspn(list, YK__BLANKS "(");
    const size_t n = strcspn(first, YK__BLANKS ",+()");
    return is_word(first, n, "linear") || is_word(first, n, "fm") || is_word(first, n, "embed");
}

bool yk__list_is_word(const char *text)
{
    return !strpbrk(text, YK__BLANKS ",");
}

yk_status yk__list_expand(const char *text, size_t outputs, char **out)
{
    const named *m = find(text);
    const char *colon = strchr(text, ':'), *list = m ? m->list : text;
    size_t number = m && m->width ? m->width : outputs;
    yk_text t = {0};
    if (m && colon && !yk__arg_count(colon + 1, 1, YK_MAX_WIDTH, &number))
        return yk_fail(YK_EUSAGE,
                       "--model %.40s: the number after the colon must be between 1 and %d, as in %s:%u",
                       text, YK_MAX_WIDTH, m->name, m->width);
    for (const char *mark; m && (mark = strchr(list, '#')); list = mark + 1) {
        yk_text_put(&t, list, (size_t)(mark - list));
        yk_text_print(&t, "%zu", number);
    }
    yk_text_add(&t, list);
    *out = yk_text_take(&t);
    return *out ? YK_OK : YK_ESYSTEM;
}

yk_status yk__list_unknown(const char *text)
{
    char name[32], all[256];
    size_t n = 0;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, ":"), text);
    const char *meant = yk_suggest(name, models, sizeof *models);
    for (const named *m = models; m->name; m++)
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", n ? ", " : "", m->name);
    return yk_fail(
        YK_EUSAGE,
        "unknown --model %.60s%s%s%s; choose one of: %s, or a list of layers in quotes, as in \"conv 6 "
        "5x5 same, relu, maxpool 2, dense 10\"",
        text, meant ? " (did you mean " : "", meant ? meant : "", meant ? "?)" : "", all);
}

/* Quotes the part of the list around the position on one line. The whole list may be too long. */
yk_status yk__list_error(const char *list, size_t at, const char *why)
{
    enum { BEFORE = 60, AFTER = 40 };
    char shown[BEFORE + AFTER + 16];
    size_t begin = at > BEFORE ? at - BEFORE : 0, n = strnlen(list + begin, at - begin + AFTER);
    const bool cut = list[begin + n];
    while (begin && begin < at && (list[begin] & 0xc0) == 0x80) /* do not begin inside a UTF-8 character */
        begin++, n--;
    while (cut && n > at - begin && (list[begin + n] & 0xc0) == 0x80)
        n--;
    snprintf(shown, sizeof shown, "%s%.*s%s", begin ? "..." : "", (int)n, list + begin, cut ? "..." : "");
    for (char *c = shown; *c; c++)
        if (*c == '\n' || *c == '\t' || *c == '\r')
            *c = ' ';
    return yk_fail(YK_EUSAGE, "error in the layer list:\n  %s\n  %*s^\n%s", shown,
                   yk_utf8_width(list + begin, at - begin) + (begin ? 3 : 0), "", why);
}

yk_status yk__list_part_init(const char *list, size_t begin, size_t end, yk__list_part *out)
{
    while (begin < end && strchr(YK__BLANKS, list[begin]))
        begin++;
    while (end > begin && strchr(YK__BLANKS, list[end - 1]))
        end--;
    *out = (yk__list_part){.begin = begin, .end = end, .copy = strndup(list + begin, end - begin)};
    if (!out->copy)
        return yk_fail_memory(end - begin, "a layer list");
    char *rest = NULL, *w = strtok_r(out->copy, YK__BLANKS, &rest);
    for (; w && out->n <= YK__MAX_WORDS; w = strtok_r(NULL, YK__BLANKS, &rest))
        if (out->n++ < YK__MAX_WORDS)
            out->word[out->n - 1] = w;
    return YK_OK;
}
