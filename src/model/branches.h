/* Internals of models on sparse keys: sums of branches.
 *
 *     linear + fm 16 name=v + (embed 16 name=v, dense 400, relu, dense 400, relu, dense 1)
 *
 *     z = linear(x) + fm(x) + network(embed(x));   p = sigmoid(z)
 *
 *     linear     w.x + b: one weight per key, and the bias (unless --no-bias)
 *     fm K       the sum of (x v).(y u) over all pairs of entries: a vector of K floats per key     (Rendle 2010)
 *     embed D    one vector of D floats per field: the sum of x v over the entries of the field. The layers of a network
 *                follow; the last one has one output
 *
 * Each fm and embed layer has its own table of vectors. Layers with the same `name` share one. At most one branch is a
 * network.
 *
 *     group            kind                 tensors
 *     linear           keyed, width 1       linear.weight [1][keys], linear.bias [1]
 *     NAME             keyed, width K       NAME.weight [keys][K]                       one group per table
 *     network          dense                network.0.weight, network.0.bias, ...       layers after embed, from 0
 *
 * All keyed groups have the same keys, so the key of each entry is looked up once per batch (`slot` in branches.c), and all
 * their gradients are lists of the same keys.
 */
#ifndef YK_MODEL_BRANCHES_H
#define YK_MODEL_BRANCHES_H

#include "kern/factors.h"
#include "model/net.h"

enum { YK__MAX_TABLES = 3, YK__MAX_BRANCHES = 8 };

/* A table of vectors. */
typedef struct {
    char name[24];
    uint32_t width;
    int group;
} yk__vectors;

typedef struct {
    yk_model model; /* must be first */
    char *list;     /* as parsed: a preset is expanded */
    int ntables;
    yk__vectors table[YK__MAX_TABLES + 1]; /* the last one is that of linear, with one float per key */
    bool linear;
    int nkeyed; /* ntables + linear */
    int nfm;
    int fm[YK__MAX_BRANCHES]; /* table of each fm branch */
    int embed;                /* table of the network's input; -1: there is no network */
    yk__net *net;             /* owned; NULL: none */
    size_t fields;            /* of the data, at least 1 */
    int net_group;
} yk__branches;

/* branches_parse.c: sets all of `out` except the groups and `model`. Errors point into the list. */
yk_status yk__branches_parse(const char *text, const yk_model_shape *shape, yk__branches *out);

/* branches_create.c */
yk_status yk__branches_create(const char *text, const yk_model_shape *shape, yk_model **out);
void yk__branches_free(yk_model *m);
void yk__branches_init(const yk_model *m, int group, float *params, uint64_t seed);

/* branches_describe.c: --dry-run, and the model as PyTorch source. */
int yk__branches_describe(const yk_model *m, size_t max_batch, yk_layer_line *out);
void yk__branches_torch(const yk_model *m, yk_text *to);

#endif
