/* The weights that a network begins with (net_options.h). Each layer draws from a stream of its own, so that changing one layer
 * leaves the others' weights as they were. */
#include "model/net.h"

#include <math.h>

typedef struct {
    double sigma, limit; /* normal, or uniform where there is no sigma */
} spread;

static spread spread_of(const yk_net_options *o, const yk__layer *l)
{
    const double in = (double)l->fan_in, out = (double)l->fan_out;
    switch (o->init) {
    case YK_INIT_GLOROT:
        return (spread){.limit = sqrt(6.0 / (in + out))};
    case YK_INIT_TORCH:
        return (spread){.limit = 1.0 / sqrt(in)};
    case YK_INIT_NORMAL:
        return (spread){.sigma = o->init_size};
    case YK_INIT_UNIFORM:
        return (spread){.limit = o->init_size};
    default:
        return (spread){.sigma = sqrt(2.0 / in)};
    }
}

static float draw(const spread *s, yk_rng *rng)
{
    return (float)(s->sigma > 0.0 ? s->sigma * yk_rng_normal(rng)
                                  : s->limit * (2.0 * yk_rng_unit(rng) - 1.0));
}

void yk__net_init(const yk_model *m, int group, float *params, uint64_t seed)
{
    (void)group; /* it has one */
    const yk__net *net = (const yk__net *)m;
    const yk_net_options *o = &m->shape.net;
    for (int i = 0; i < net->nlayers; i++) {
        const yk__layer *l = &net->layer[i];
        if (!l->weights)
            continue;
        yk_rng rng = yk_rng_seed(seed, 0x696e6974u + (uint64_t)i);
        const spread s = spread_of(o, l);
        const bool drawn = o->init == YK_INIT_TORCH && !o->bias_given;
        for (size_t k = 0; k < l->weights; k++)
            params[l->weights_at + k] = draw(&s, &rng);
        for (size_t k = 0; k < l->biases; k++)
            params[l->biases_at + k] = drawn ? draw(&s, &rng) : o->init_bias;
    }
}
