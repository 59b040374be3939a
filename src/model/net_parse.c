/* Parses "conv 6 5x5 same, relu, ..." into layers with shapes. Errors point into the list:
 *
 *     error in the layer list:
 *       conv 6 5x5, maxpol 2, dense 10
 *                   ^
 *     unknown layer "maxpol"; choose one of: conv, ...
 */
#include "model/net.h"

#include "model/layer_list.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const yk__layer_ops *const kinds[] = {
    &yk__conv_ops, &yk__maxpool_ops, &yk__avgpool_ops, &yk__dense_ops, &yk__relu_ops,
    &yk__tanh_ops, &yk__sigmoid_ops, &yk__dropout_ops, &yk__lrn_ops,   &yk__flatten_ops};

static const yk__layer_ops *kind_of(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(name, kinds[i]->name) == 0)
            return kinds[i];
    return NULL;
}

yk_status yk__net_check_name(const char *text)
{
    return !yk__list_is_word(text) || yk__list_is_named(text) || kind_of(text) ? YK_OK
                                                                               : yk__list_unknown(text);
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

static const char too_many[] = "too many layers: at most 64";
_Static_assert(YK__MAX_LAYERS == 64, "as in the text");

/* Adds one layer: parses its arguments, then computes its shape from that of its input. */
static yk_status add_layer(yk__net *net, const char *list, yk__list_part *part)
{
    char why[512];
    if (net->nlayers == YK__MAX_LAYERS)
        return yk__list_error(list, part->begin, too_many);
    if (part->n > YK__MAX_WORDS)
        return yk__list_error(list, part->begin, "too many arguments");
    if (part->n == 0)
        return yk__list_error(list, part->begin, "empty layer: two commas in a row, or a comma at the end");
    yk__layer *l = &net->layer[net->nlayers];
    *l = (yk__layer){
        .ops = kind_of(part->word[0]), .number = net->nlayers, .stream = net->nlayers, .in = net->nedges - 1};
    snprintf(l->text, sizeof l->text, "%.*s", (int)(part->end - part->begin), list + part->begin);
    size_t n = (size_t)snprintf(why, sizeof why, "unknown layer \"%.60s\"; choose one of:", part->word[0]);
    for (size_t i = 0; !l->ops && i < sizeof kinds / sizeof *kinds && n < sizeof why; i++)
        n += (size_t)snprintf(why + n, sizeof why - n, "%s %s", i ? "," : "", kinds[i]->name);
    if (!l->ops)
        return yk__list_is_word(list) ? yk__list_unknown(list) : yk__list_error(list, part->begin, why);
    const char *error = l->ops->parse(l, part->n - 1, part->word + 1);
    if (error)
        return yk__list_error(list, part->begin, error);
    yk__edge *in = &net->edge[l->in], out = {0};
    yk_status st = l->ops->shape(l, in, &out);
    if (st) {
        snprintf(why, sizeof why, "%s", yk_error());
        return yk__list_error(list, part->begin, why);
    }
    l->out = in_place(net, l) ? l->in : net->nedges;
    if (l->out != l->in)
        net->edge[net->nedges++] = out;
    net->nlayers++;
    return YK_OK;
}

/* Adds all layers of the part [begin, end) of the list, for images of this shape. */
static yk_status add_layers(yk__net *net, const char *list, size_t begin, size_t end, yk__edge input)
{
    net->edge[0] = input;
    net->nedges = 1;
    net->nlayers = 0;
    yk_status st = YK_OK;
    for (size_t at = begin, next; !st && at <= end; at = next + 1) {
        yk__list_part part;
        next = at + strcspn(list + at, ",");
        next = next < end ? next : end;
        if ((st = yk__list_part_init(list, at, next, &part)))
            return st;
        st = add_layer(net, list, &part);
        free(part.copy);
    }
    return st;
}

/* Softmax needs input without a border: appends a flatten layer where the last layer may have one. */
static yk_status remove_last_border(yk__net *net, const char *list, size_t end)
{
    const int last = net->nedges - 1;
    bool border = false;
    for (int i = 0; i < net->nlayers; i++)
        border |= net->layer[i].out == last && net->layer[i].ops->output_border;
    if (!border)
        return YK_OK;
    if (net->nlayers == YK__MAX_LAYERS)
        return yk__list_error(list, end, too_many);
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

/* A user who gave a name has not seen the list that an error would point into: says which images the network needs instead. */
static yk_status fail_named(yk__net *net, const char *name, const char *list, size_t end, yk__edge input)
{
    enum { MAX = 1024 };
    yk__edge square = input;
    for (square.height = square.width = 1; add_layers(net, list, 0, end, square) && square.width < MAX;)
        square.height = ++square.width;
    if (input.height >= square.height && input.width >= square.width)
        return add_layers(net, list, 0, end, input); /* some other error */
    return yk_fail(
        YK_EUSAGE,
        "--model %s needs images of at least %zux%zu pixels, but the data has %zux%zu; use larger images "
        "(encoded images: add ?size=%zu or more to --data), or a smaller network",
        name, square.height, square.width, input.height, input.width, square.height);
}

yk_status yk__net_parse(yk__net *net, const char *name, const char *list, size_t begin, size_t end)
{
    const yk_model_shape *s = &net->model.shape;
    const yk__edge input = {.channels = s->channels, .height = s->height, .width = s->width};
    const size_t outputs = net->model.outputs;
    yk_status st = add_layers(net, list, begin, end, input);
    if (st == YK_EUSAGE && name)
        st = fail_named(net, name, list, end, input);
    if (st)
        return st;
    const yk__edge *last = &net->edge[net->nedges - 1];
    if (yk__edge_size(last) != outputs) {
        char why[256], needs[64];
        snprintf(needs, sizeof needs,
                 net->is_branch ? "a branch must have one output"
                 : outputs > 1  ? "the data has %zu classes"
                                : "the loss has one",
                 outputs);
        snprintf(why, sizeof why,
                 "the last layer has %zu output%s (%zu x %zu x %zu), but %s: end with dense %zu",
                 yk__edge_size(last), yk_plural(yk__edge_size(last)), last->channels, last->height,
                 last->width, needs, outputs);
        return yk__list_error(list, end, why);
    }
    /* Named networks had no flatten layer in yoke 0.1.0. It does not change the random numbers of the other layers. */
    for (int i = 0, flattened = 0; name && i < net->nlayers; i++) {
        net->layer[i].stream = i - flattened;
        flattened += strcmp(net->layer[i].text, "flatten") == 0;
    }
    return remove_last_border(net, list, end);
}
