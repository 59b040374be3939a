/* Initial weights of a network (net_options.h). Each layer has its own random stream, so that changing one layer does not
 * change the weights of the others. */
#include "model/net.h"

#include <math.h>

typedef struct {
    double sigma, limit; /* normal; uniform if sigma is 0 */
} distribution;

static distribution distribution_of(const yk_net_options *o, const yk__layer *l)
{
    const double in = (double)l->fan_in, out = (double)l->fan_out;
    switch (o->init) {
    case YK_INIT_GLOROT:
        return (distribution){.limit = sqrt(6.0 / (in + out))};
    case YK_INIT_TORCH:
        return (distribution){.limit = 1.0 / sqrt(in)};
    case YK_INIT_NORMAL:
        return (distribution){.sigma = o->init_size};
    case YK_INIT_UNIFORM:
        return (distribution){.limit = o->init_size};
    default:
        return (distribution){.sigma = sqrt(2.0 / in)};
    }
}

static float draw(const distribution *d, yk_rng *rng)
{
    return (float)(d->sigma > 0.0 ? d->sigma * yk_rng_normal(rng)
                                  : d->limit * (2.0 * yk_rng_unit(rng) - 1.0));
}

void yk__net_init(const yk_model *m, int group, float *params, uint64_t seed)
{
    (void)group; /* there is only one */
    const yk__net *net = (const yk__net *)m;
    const yk_net_options *o = &m->shape.net;
    for (int i = 0; i < net->nlayers; i++) {
        const yk__layer *l = &net->layer[i];
        if (!l->weights)
            continue;
        yk_rng rng = yk_rng_seed(seed, 0x696e6974u + (uint64_t)l->stream);
        const distribution d = distribution_of(o, l);
        const bool random_bias = o->init == YK_INIT_TORCH && !o->bias_given;
        for (size_t k = 0; k < l->weights; k++)
            params[l->weights_offset + k] = draw(&d, &rng);
        for (size_t k = 0; k < l->biases; k++)
            params[l->biases_offset + k] = random_bias ? draw(&d, &rng) : o->init_bias;
    }
}
