/* Options of networks and biases that depend on the data and the model; what is measured for them. */
#include "train/net_setup.h"

#include <math.h>
#include <string.h>

/* Images in the sample for the mean and deviation of channels. */
enum { CHANNEL_SAMPLE = 4096 };

yk_status yk__net_options_of(const yk_config *c, yk_net_options *out)
{
    *out = (yk_net_options){.profile = c->profile || c->trace, .given = isfinite(c->init_bias)};
    if (isfinite(c->init_bias)) {
        out->bias_given = true;
        out->init_bias = (float)c->init_bias;
    }
    yk_status st = yk_net_options_init(out, c->init);
    if (!st)
        st = yk_net_options_standardize(out, c->standardize);
    return st ? st : yk_net_options_augment(out, c->augment);
}

/* A value of dense data. */
static double value_at(const yk_rows *rows, size_t i)
{
    return rows->kind == YK_ROWS_U8 ? (double)rows->u8[i] * (double)rows->scale : (double)rows->f32[i];
}

/* Two passes over the sample: with one, the deviation of an almost constant channel would be lost to rounding. */
static void measure(const yk_rows *sample, size_t channels, size_t plane, yk_net_options *out)
{
    const double n = (double)sample->n * (double)plane;
    for (size_t ch = 0; ch < channels; ch++) {
        double mean = 0.0, variance = 0.0;
        for (int round = 0; round < 2; round++) {
            double sum = 0.0;
            for (size_t i = 0; i < sample->n; i++)
                for (size_t p = 0; p < plane; p++) {
                    const double x = value_at(sample, i * sample->dim + ch * plane + p);
                    sum += round ? (x - mean) * (x - mean) : x;
                }
            *(round ? &variance : &mean) = sum / n;
        }
        out->mean[ch] = (float)mean;
        out->deviation[ch] = variance > 1e-12 ? (float)sqrt(variance) : 1.0f; /* 1: a constant channel */
    }
    out->channels = channels;
}

yk_status yk__net_channels(yk_dataset *train, const char *name, size_t channels, yk_net_options *o)
{
    if (o->standardize != YK_STANDARDIZE_CHANNEL || o->channels || train->kind == YK_ROWS_SPARSE)
        return YK_OK;
    channels = channels ? channels : 1;
    if (channels > YK_MAX_CHANNELS)
        return yk_fail(YK_EUSAGE, "--standardize channel supports up to %d channels; %s has %zu",
                       YK_MAX_CHANNELS, name, channels);
    if (!train->source) { /* a server computes nothing with them */
        o->channels = channels;
        return YK_OK;
    }
    yk_rows sample;
    yk_status st = yk_dataset_sample(train, CHANNEL_SAMPLE, &sample);
    if (!st && sample.n == 0)
        st = yk_fail(YK_EDATA, "%s: no examples", name);
    if (!st)
        measure(&sample, channels, train->dim / channels, o);
    yk_rows_fini(&sample);
    return st;
}

static yk_status check_bias_rate(const yk_optim_config *o, double lr, bool decay)
{
    const yk_optim_rule *rule = yk_optim_rule_of(o->kind);
    if (lr == 0.0 && rule->derives)
        return yk_fail(
            YK_EUSAGE,
            "--bias-lr 0 cannot be combined with --optimizer ftrl, which divides by the learning rate");
    if (!rule->normalizes && decay && o->lr * lr * o->l2 >= 1.0)
        return yk_fail(YK_EUSAGE,
                       "--lr %g times --bias-lr %g times --l2 %g is 1 or more: every step would flip "
                       "the biases' signs",
                       o->lr, lr, o->l2);
    return YK_OK;
}

yk_status yk__set_bias_rates(const yk_config *c, const yk_model *m, yk_local_group *groups,
                             yk_optim_range *range)
{
    const bool decay = !c->bias_decay || strcmp(c->bias_decay, "yes") == 0;
    const double lr = c->bias_lr >= 0.0 ? c->bias_lr : 1.0;
    if (c->no_bias && !m->sparse && !m->ops->linear)
        return yk_fail(YK_EUSAGE, "--no-bias is for linear models and models of sparse data; the layers of "
                                  "a network have biases: leave it out");
    if (lr == 1.0 && decay)
        return YK_OK;
    if (m->sparse)
        return yk_fail(
            YK_EUSAGE,
            "--bias-lr and --bias-decay are for models of dense data; for sparse data, see --no-bias");
    yk_status st = YK_OK;
    for (int g = 0; !st && g < m->ngroups; g++) {
        yk_local_group *group = &groups[g];
        group->range = range;
        for (int i = 0; i < m->ntensors; i++) {
            const yk_model_tensor *b = &m->tensor[i];
            if (b->bias && b->group == g)
                *range++ = (yk_optim_range){b->offset, b->offset + b->size, lr, decay ? 1.0 : 0.0};
        }
        group->nranges = (size_t)(range - group->range);
        st = check_bias_rate(&group->optim, lr, decay);
    }
    return st;
}
