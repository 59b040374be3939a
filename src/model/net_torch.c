/* Writes a model as Python source for PyTorch. Module names match the names of the tensors in model.safetensors. */
#include "model/net.h"

/* Dense layers accept images, nn.Linear does not: whether layer i needs a Flatten before it that is not in the list. */
static bool needs_flatten(const yk__net *net, int i, bool flat)
{
    return !flat && net->layer[i].ops->weight_rank == 2;
}

/* Whether the values are flat after layer i. */
static bool is_flat(const yk__net *net, int i, bool before)
{
    return before || net->layer[i].ops->flat_output || net->layer[i].ops->weight_rank == 2;
}

static bool needs_any_flatten(const yk__net *net, bool flat)
{
    bool any = false;
    for (int i = 0; i < net->nlayers; i++) {
        any |= needs_flatten(net, i, flat);
        flat = is_flat(net, i, flat);
    }
    return any;
}

/* A comment about the input; `image`: NULL for rows of numbers. */
static void print_input(const yk_model *m, const yk__edge *image, FILE *to)
{
    char standardize[YK_STANDARDIZE_TEXT];
    if (image)
        fprintf(to, "# input: [N, %zu, %zu, %zu]", image->channels, image->height, image->width);
    else
        fprintf(to, "# input: [N, %zu]", m->shape.dim);
    if (m->shape.kind == YK_ROWS_U8)
        fprintf(to, ", bytes divided by 255");
    if (m->shape.net.standardize) {
        yk_net_options_standardize_text(&m->shape.net, standardize);
        fprintf(to, ", then standardized: %s", standardize);
    }
    fprintf(to, "\n");
}

void yk__net_torch(const yk_model *m, FILE *to)
{
    const yk__net *net = (const yk__net *)m;
    const bool rows = m->shape.height * m->shape.width * m->shape.channels == 0;
    bool flat = rows || net->edge[0].height == 1;
    const bool named = needs_any_flatten(net, flat);
    fprintf(to, named ? "from collections import OrderedDict\n\nfrom torch import nn\n\n"
                      : "from torch import nn\n\n");
    print_input(m, flat ? NULL : &net->edge[0], to);
    fprintf(to, named ? "model = nn.Sequential(OrderedDict([\n" : "model = nn.Sequential(\n");
    for (int i = 0; i < net->nlayers; i++) {
        char module[160];
        if (needs_flatten(net, i, flat))
            fprintf(to, "    (\"flatten%d\", nn.Flatten()),\n", i);
        flat = is_flat(net, i, flat);
        net->layer[i].ops->torch(&net->layer[i], module, sizeof module);
        if (named)
            fprintf(to, "    (\"%d\", nn.%s),\n", i, module);
        else
            fprintf(to, "    nn.%s,\n", module);
    }
    fprintf(to, named ? "]))\n" : ")\n");
}
