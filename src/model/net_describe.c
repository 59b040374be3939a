/* A network for people: its layers, what comes out of them, and what they cost. */
#include "model/net.h"

#include <stdio.h>
#include <string.h>

size_t yk__edge_bytes(const yk__net *net, int e, size_t blocks)
{
    const yk__edge *edge = &net->edge[e];
    return blocks * sizeof(float) *
           (yk__strides_of(edge, edge->border).block + yk__strides_of(edge, edge->grad_border).block);
}

/* The gradients of weights and of the input are a product as large as the one forward each. */
double yk__flops_back(const yk__layer *l)
{
    return l->first ? l->flops : 2.0 * l->flops;
}

static void set_shape(yk_layer_line *line, const yk__edge *e)
{
    const bool flat = e->height == 1 && e->width == 1;
    line->rank = flat ? 1 : 3;
    line->shape[0] = e->channels;
    line->shape[1] = e->height;
    line->shape[2] = e->width;
}

int yk__net_lines(const yk__net *net, size_t blocks, yk_layer_line *out, int most)
{
    int n = 0;
    if (most < 1)
        return 0;
    out[n] = (yk_layer_line){.text = "input", .bytes = yk__edge_bytes(net, 0, blocks)};
    set_shape(&out[n++], &net->edge[0]);
    for (int i = 0; i < net->nlayers && n < most; i++, n++) {
        const yk__layer *l = &net->layer[i];
        out[n] = (yk_layer_line){.params = l->weights + l->biases,
                                 .flops = l->flops,
                                 .flops_back = yk__flops_back(l),
                                 .bytes = l->in == l->out ? 0 : yk__edge_bytes(net, l->out, blocks)};
        snprintf(out[n].text, sizeof out[n].text, "%s", l->text);
        set_shape(&out[n], &l->out_edge);
        if (l->ops->flat_output) { /* in memory it is the same; people expect one dimension */
            out[n].rank = 1;
            out[n].shape[0] = yk__edge_size(&l->out_edge);
        }
    }
    return n;
}
