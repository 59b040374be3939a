/* Descriptions of a sum of branches: its layers (--dry-run), and the model as PyTorch source. */
#include "model/branches.h"

#include <stdio.h>
#include <string.h>

/* The next line; the caller prints its text. */
static char *add_line(yk_layer_line *line, size_t values, size_t params, size_t bytes)
{
    *line = (yk_layer_line){.rank = 1, .shape = {values}, .params = params, .bytes = bytes};
    return line->text;
}

/* The parameters of a shared table are counted once. */
int yk__branches_describe(const yk_model *model, size_t max_batch, yk_layer_line *out)
{
    const yk__branches *m = (const yk__branches *)model;
    const size_t dim = model->shape.dim;
    bool counted[YK__MAX_TABLES] = {false};
    int n = 0;
    enum { SIZE = sizeof out->text };
    snprintf(add_line(&out[n++], m->fields, 0, 0), SIZE, "input: %zu key%s, %zu field%s", dim, yk_plural(dim),
             m->fields, yk_plural(m->fields));
    if (m->linear)
        strcpy(add_line(&out[n++], 1, dim + (model->bias_key != UINT32_MAX), max_batch * sizeof(float)),
               "linear");
    for (int i = 0; i < m->nfm; i++) {
        const yk__vectors *t = &m->table[m->fm[i]];
        snprintf(add_line(&out[n++], 1, counted[m->fm[i]] ? 0 : dim * t->width,
                          max_batch * t->width * sizeof(float)),
                 SIZE, "fm %u name=%s", t->width, t->name);
        counted[m->fm[i]] = true;
    }
    if (m->net) {
        const yk__vectors *t = &m->table[m->embed];
        yk_layer_line *embed = &out[n];
        n += yk_net_ops.describe(&m->net->model, max_batch, embed);
        snprintf(add_line(embed, m->fields * t->width, counted[m->embed] ? 0 : dim * t->width, embed->bytes),
                 SIZE, "embed %u name=%s", t->width, t->name);
    }
    return n;
}

static void torch_network(const yk__branches *m, yk_text *to)
{
    yk_text_print(to, "        self.network = nn.Sequential(\n");
    for (int i = 0; i < m->net->nlayers; i++) {
        yk_text_print(to, "            ");
        yk__layer_torch(&m->net->layer[i], to);
        yk_text_print(to, ",\n");
    }
    yk_text_print(to, "        )\n");
}

void yk__branches_torch(const yk_model *model, yk_text *to)
{
    const yk__branches *m = (const yk__branches *)model;
    const bool bias = model->bias_key != UINT32_MAX;
    yk_text_print(
        to,
        "import torch\nfrom torch import nn\n\n\n# input: key, value and field, [N, E] each; unused entries "
        "have value 0. Output: the log-odds, [N]\nclass Model(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n");
    if (m->linear)
        yk_text_print(to, "        self.linear = nn.Linear(%zu, 1, bias=%s)\n", model->shape.dim,
                      bias ? "True" : "False");
    for (int i = 0; i < m->ntables; i++)
        yk_text_print(to, "        self.%s = nn.Embedding(%zu, %u)\n", m->table[i].name, model->shape.dim,
                      m->table[i].width);
    if (m->net)
        torch_network(m, to);
    yk_text_print(to, "\n    def forward(self, key, value, field):\n        z = torch.zeros(key.shape[0])\n");
    if (m->linear)
        yk_text_print(to, "        z = z + (self.linear.weight[0][key] * value).sum(1)%s\n",
                      bias ? " + self.linear.bias" : "");
    for (int i = 0; i < m->nfm; i++)
        yk_text_print(to,
                      "        x = self.%s(key) * value.unsqueeze(2)\n"
                      "        z = z + 0.5 * (x.sum(1) ** 2 - (x ** 2).sum(1)).sum(1)\n",
                      m->table[m->fm[i]].name);
    if (m->net) {
        const yk__vectors *t = &m->table[m->embed];
        yk_text_print(to,
                      "        x = self.%s(key) * value.unsqueeze(2)\n"
                      "        e = torch.zeros(key.shape[0], %zu, %u)\n"
                      "        e = e.scatter_add(1, field.unsqueeze(2).expand(-1, -1, %u), x)\n"
                      "        z = z + self.network(e.flatten(1)).squeeze(1)\n",
                      t->name, m->fields, t->width, t->width);
    }
    yk_text_print(to, "        return z\n\n\nmodel = Model()\n");
}
