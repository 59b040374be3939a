/* Parses "conv 6 5x5 same, relu, ..." into layers with shapes. Errors point into the list:
 *
 *     error in the layer list:
 *       conv 6 5x5, maxpol 2, dense 10
 *                   ^
 *     unknown layer "maxpol"; choose one of: conv, ...
 */
#include "model/net.h"

#include "base/suggest.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const yk__layer_ops *const kinds[] = {
    &yk__conv_ops, &yk__maxpool_ops, &yk__avgpool_ops, &yk__dense_ops, &yk__relu_ops,
    &yk__tanh_ops, &yk__sigmoid_ops, &yk__dropout_ops, &yk__lrn_ops,   &yk__flatten_ops};

/* Named networks. The number of outputs is appended to each list. */
static const struct {
    const char *name, *layers;
} named[] = {
    {"lenet5",
     "conv 6 5x5 same, relu, maxpool 2, conv 16 5x5, relu, maxpool 2, flatten, dense 120, relu, dense 84, "
     "relu, dense"},
    {"lenet-caffe",
     "conv 20 5x5 same, maxpool 2, conv 50 5x5 same, maxpool 2, flatten, dense 500, relu, dense"},
    {"alexnet",
     "conv 64 11x11 /4 valid, relu, maxpool 3 /2, conv 192 5x5 same, relu, maxpool 3 /2, conv 384 "
     "3x3 same, relu, "
     "conv 256 3x3 same, relu, conv 256 3x3 same, relu, maxpool 3 /2, flatten, dropout 0.5, dense 4096, "
     "relu, dropout 0.5, "
     "dense 4096, relu, dense"},
};

/* Quotes the part of the list around the position on one line. The whole list may be too long. */
yk_status yk__list_error(const char *text, size_t at, const char *why)
{
    enum { BEFORE = 60, AFTER = 40 };
    char shown[BEFORE + AFTER + 16];
    size_t begin = at > BEFORE ? at - BEFORE : 0, n = strnlen(text + begin, at - begin + AFTER), column = 0;
    const bool cut = text[begin + n];
    while (begin && begin < at && (text[begin] & 0xc0) == 0x80) /* do not begin inside a UTF-8 character */
        begin++, n--;
    while (cut && n > at - begin && (text[begin + n] & 0xc0) == 0x80)
        n--;
    snprintf(shown, sizeof shown, "%s%.*s%s", begin ? "..." : "", (int)n, text + begin, cut ? "..." : "");
    for (char *c = shown; *c; c++)
        if (*c == '\n' || *c == '\t' || *c == '\r')
            *c = ' ';
    for (const char *c = text + begin; c < text + at; c++)
        column += (*c & 0xc0) != 0x80;
    return yk_fail(YK_EUSAGE, "error in the layer list:\n  %s\n  %*s^\n%s", shown,
                   (int)(column + (begin ? 3 : 0)), "", why);
}

/* The layer list of a named network, or NULL. */
static const char *layers_of(const char *name)
{
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (strcmp(name, named[i].name) == 0)
            return named[i].layers;
    return NULL;
}

/* The layer list of a named network, or the text itself. The caller frees it. */
static char *expand(const char *text, size_t outputs)
{
    const char *layers = layers_of(text);
    char *list = NULL;
    if (!layers)
        return strdup(text);
    return asprintf(&list, "%s %zu", layers, outputs) < 0 ? NULL : list;
}

static bool one_word(const char *text)
{
    return !strpbrk(text, " \t\n,");
}

/* The text is one word, which was meant as the name of a model. */
static yk_status unknown_model(const char *text)
{
    enum { NAMED = sizeof named / sizeof *named, OTHERS = 6 };
    const char *models[OTHERS + NAMED + 1] = {"softmax", "logreg", "linear", "fm", "wide-deep", "deepfm"};
    char name[32], all[256];
    size_t n = 0;
    for (size_t i = 0; i < NAMED; i++)
        models[OTHERS + i] = named[i].name;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, ":"), text);
    const char *meant = yk_suggest(name, models, sizeof *models);
    for (size_t i = 0; models[i]; i++)
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", i ? ", " : "", models[i]);
    return yk_fail(
        YK_EUSAGE,
        "unknown --model %.60s%s%s%s; choose one of: %s, or a list of layers in quotes, as in \"conv 6 "
        "5x5 same, relu, maxpool 2, dense 10\"",
        text, meant ? " (did you mean " : "", meant ? meant : "", meant ? "?)" : "", all);
}

static yk_status unknown_layer(const char *text, size_t at, const char *name)
{
    char why[512];
    if (one_word(text))
        return unknown_model(text);
    size_t n = (size_t)snprintf(why, sizeof why, "unknown layer \"%.60s\"; choose one of:", name);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && n < sizeof why; i++)
        n += (size_t)snprintf(why + n, sizeof why - n, "%s %s", i ? "," : "", kinds[i]->name);
    return yk__list_error(text, at, why);
}

yk_status yk__net_check_name(const char *text)
{
    bool known = !one_word(text) || layers_of(text);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        known |= strcmp(text, kinds[i]->name) == 0;
    return known ? YK_OK : unknown_model(text);
}

/* Whether a layer works in place: not if that destroys values that the backward pass of an earlier layer reads. */
static bool in_place(const yk__net *net, const yk__layer *l)
{
    if (!l->ops->elementwise)
        return false;
    for (int i = 0; i < net->nlayers; i++)
        if (net->layer[i].out == l->in && net->layer[i].ops->backward_reads > l->ops->preserves)
            return false;
    return true;
}

/* Adds one layer: parses its arguments, then computes its shape from that of its input. */
static yk_status add_layer(yk__net *net, const char *text, size_t at, char *piece)
{
    enum { MAX_WORDS = 8 };
    char *word[MAX_WORDS], *rest = NULL;
    int n = 0;
    if (net->nlayers == YK__MAX_LAYERS)
        return yk__list_error(text, at, "too many layers");
    yk__layer *l = &net->layer[net->nlayers];
    *l = (yk__layer){.number = net->nlayers, .stream = net->nlayers, .in = net->nedges - 1};
    snprintf(l->text, sizeof l->text, "%s", piece);
    for (char *w = strtok_r(piece, " \t\n", &rest); w; w = strtok_r(NULL, " \t\n", &rest)) {
        if (n == MAX_WORDS)
            return yk__list_error(text, at, "too many arguments");
        word[n++] = w;
    }
    if (n == 0)
        return yk__list_error(text, at, "empty layer: two commas in a row, or a comma at the end");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(word[0], kinds[i]->name) == 0)
            l->ops = kinds[i];
    if (!l->ops)
        return unknown_layer(text, at, word[0]);
    const char *error = l->ops->parse(l, n - 1, word + 1);
    if (error)
        return yk__list_error(text, at, error);
    yk__edge *in = &net->edge[l->in], out = {0};
    yk_status st = l->ops->shape(l, in, &out);
    if (st) {
        char why[512];
        snprintf(why, sizeof why, "%s", yk_error());
        return yk__list_error(text, at, why);
    }
    l->out = in_place(net, l) ? l->in : net->nedges;
    if (l->out != l->in)
        net->edge[net->nedges++] = out;
    net->nlayers++;
    return YK_OK;
}

/* Softmax needs input without a border: appends a flatten layer where the last layer may have one. */
static yk_status remove_last_border(yk__net *net)
{
    const int last = net->nedges - 1;
    bool border = false;
    for (int i = 0; i < net->nlayers; i++)
        border |= net->layer[i].out == last && net->layer[i].ops->output_border;
    if (!border)
        return YK_OK;
    if (net->nlayers == YK__MAX_LAYERS)
        return yk__list_error(net->text, strlen(net->text), "too many layers");
    yk__layer *l = &net->layer[net->nlayers];
    *l = (yk__layer){.ops = &yk__flatten_ops,
                     .text = "flatten",
                     .number = net->nlayers,
                     .stream = net->nlayers,
                     .in = last,
                     .out = net->nedges};
    net->nlayers++;
    return l->ops->shape(l, &net->edge[last], &net->edge[net->nedges++]);
}

/* Adds all layers of a part of the list, for images of this shape. */
static yk_status add_part(yk__net *net, const char *list, size_t begin, size_t end, yk__edge input)
{
    net->edge[0] = input;
    net->nedges = 1;
    net->nlayers = 0;
    yk_status st = YK_OK;
    for (const char *p = list + begin, *last = list + end; !st && p;) {
        const char *comma = memchr(p, ',', (size_t)(last - p));
        size_t blank = strspn(p, " \t\n"), length = (size_t)((comma ? comma : last) - p);
        blank = blank < length ? blank : length;
        char *piece = strndup(p + blank, length - blank);
        if (!piece)
            return yk_fail_memory(length, "a layer list");
        for (size_t n = strlen(piece); n && strchr(" \t\n", piece[n - 1]);)
            piece[--n] = 0;
        st = add_layer(net, list, (size_t)(p - list) + blank, piece);
        free(piece);
        p = comma ? comma + 1 : NULL;
    }
    return st;
}

static yk_status add_layers(yk__net *net, const char *list, yk__edge input)
{
    return add_part(net, list, 0, strlen(list), input);
}

yk_status yk__net_parse_branch(const char *list, size_t begin, size_t end, const yk_model_shape *shape,
                               yk__net *net)
{
    char why[160];
    yk_status st =
        add_part(net, list, begin, end, (yk__edge){.channels = shape->channels, .height = 1, .width = 1});
    const yk__edge *last = &net->edge[net->nedges - 1];
    if (!st && yk__edge_size(last) != 1) {
        snprintf(why, sizeof why,
                 "the last layer of a branch must have one output, but it has %zu: end with "
                 "dense 1",
                 yk__edge_size(last));
        st = yk__list_error(list, end, why);
    }
    return st ? st : remove_last_border(net);
}

/* A user who gave a name has not seen the list that an error would point into: says which images the network needs instead. */
static yk_status fail_named(yk__net *net, const char *name, yk__edge input)
{
    enum { MAX = 1024 };
    yk__edge square = input;
    for (square.height = square.width = 1; add_layers(net, net->text, square) && square.width < MAX;)
        square.height = ++square.width;
    if (input.height >= square.height && input.width >= square.width)
        return add_layers(net, net->text, input); /* some other error */
    return yk_fail(
        YK_EUSAGE,
        "--model %s needs images of at least %zux%zu pixels, but the data has %zux%zu; use larger images "
        "(encoded images: add ?size=%zu or more to --data), or a smaller network",
        name, square.height, square.width, input.height, input.width, square.height);
}

/* Named networks had no flatten layer in yoke 0.1.0. It does not change the random numbers of the other layers. */
static void number_streams(yk__net *net)
{
    int flattened = 0;
    for (int i = 0; i < net->nlayers; i++) {
        net->layer[i].stream = i - flattened;
        flattened += strcmp(net->layer[i].text, "flatten") == 0;
    }
}

yk_status yk__net_parse(const char *text, const yk_model_shape *shape, yk__net *net)
{
    const yk__edge input = {.channels = shape->channels, .height = shape->height, .width = shape->width};
    const size_t outputs = net->model.outputs;
    char *list = expand(text, outputs);
    if (!list)
        return yk_fail_memory(strlen(text), "a layer list");
    net->text = list;
    if (shape->kind == YK_ROWS_SPARSE &&
        !one_word(list)) /* one word: probably an unknown model, see unknown_layer() */
        return yk_fail(YK_EUSAGE, "networks need dense data (images); for sparse data use --model logreg");
    yk_status st = add_layers(net, list, input);
    if (st == YK_EUSAGE && layers_of(text))
        st = fail_named(net, text, input);
    const yk__edge *last = &net->edge[net->nedges - 1];
    if (!st && yk__edge_size(last) != outputs) {
        char why[256], needs[64] = "the loss has one";
        if (outputs > 1)
            snprintf(needs, sizeof needs, "the data has %zu classes", outputs);
        snprintf(why, sizeof why,
                 "the last layer has %zu output%s (%zu x %zu x %zu), but %s: end with dense %zu",
                 yk__edge_size(last), yk_plural(yk__edge_size(last)), last->channels, last->height,
                 last->width, needs, outputs);
        st = yk__list_error(list, strlen(list), why);
    }
    if (!st && layers_of(text))
        number_streams(net);
    return st ? st : remove_last_border(net);
}
