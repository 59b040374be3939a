/* Writes a model as Python source for PyTorch. Module names match the names of the tensors in model.safetensors. */
#include "model/net.h"

/* A comment about the input; `image`: NULL for rows of numbers. */
static void print_input(const yk_model *m, const yk__edge *image, yk_text *to)
{
    char standardize[YK_STANDARDIZE_TEXT];
    if (image)
        yk_text_print(to, "# input: [N, %zu, %zu, %zu]", image->channels, image->height, image->width);
    else
        yk_text_print(to, "# input: [N, %zu]", m->shape.dim);
    if (m->shape.kind == YK_ROWS_U8)
        yk_text_print(to, ", bytes divided by 255");
    if (m->shape.net.standardize) {
        yk_net_options_standardize_text(&m->shape.net, standardize);
        yk_text_print(to, ", then standardized: %s", standardize);
    }
    yk_text_print(to, "\n");
}

void yk__layer_torch(const yk__layer *l, yk_text *to)
{
    yk_text_print(to, "nn.%s(", l->ops->module);
    if (l->ops->torch)
        l->ops->torch(l, to);
    yk_text_print(to, ")");
}

/* Whether a layer before the first dense or flatten layer needs the shape of an image. */
static bool needs_image(const yk__net *net)
{
    bool needs = false;
    for (int i = 0; i < net->nlayers && !needs; i++) {
        const yk__layer_ops *ops = net->layer[i].ops;
        if (ops->flat_output || ops->weight_rank == 2)
            break;
        needs = !ops->elementwise;
    }
    return needs;
}

/* Whether PyTorch needs nn.Flatten or nn.Unflatten before this layer: our dense layers accept images, but nn.Linear does not, and nn.Conv2d
 * does not accept the output of nn.Linear. *flat: whether an example has one dimension in PyTorch; updated for the output of the layer. */
static bool lacks_module(const yk__layer_ops *ops, bool *flat)
{
    const bool dense = ops->weight_rank == 2, was_flat = *flat;
    *flat = ops->elementwise ? was_flat || ops->flat_output : dense;
    return !ops->elementwise && dense != was_flat;
}

/* named: additional modules must not change the numbers of the others, which are part of the names of parameters. */
static void print_layers(const yk__net *net, bool flat, bool named, yk_text *to)
{
    for (int i = 0; i < net->nlayers; i++) {
        const yk__edge *in = &net->layer[i].in_edge;
        const bool lacks = lacks_module(net->layer[i].ops, &flat);
        if (lacks && flat)
            yk_text_print(to, "    (\"flatten%d\", nn.Flatten()),\n", i);
        else if (lacks)
            yk_text_print(to, "    (\"unflatten%d\", nn.Unflatten(1, (%zu, %zu, %zu))),\n", i, in->channels,
                          in->height, in->width);
        yk_text_print(to, named ? "    (\"%d\", " : "    ", i);
        yk__layer_torch(&net->layer[i], to);
        yk_text_print(to, named ? "),\n" : ",\n");
    }
}

void yk__net_torch(const yk_model *m, yk_text *to)
{
    const yk__net *net = (const yk__net *)m;
    const bool rows = m->shape.height * m->shape.width * m->shape.channels == 0;
    const bool flat = (rows || net->edge[0].height == 1) && !needs_image(net);
    bool named = false, at = flat;
    for (int i = 0; i < net->nlayers; i++)
        named |= lacks_module(net->layer[i].ops, &at);
    yk_text_print(to, named ? "from collections import OrderedDict\n\nfrom torch import nn\n\n"
                            : "from torch import nn\n\n");
    print_input(m, flat ? NULL : &net->edge[0], to);
    yk_text_print(to, named ? "model = nn.Sequential(OrderedDict([\n" : "model = nn.Sequential(\n");
    print_layers(net, flat, named, to);
    yk_text_print(to, named ? "]))\n" : ")\n");
}
