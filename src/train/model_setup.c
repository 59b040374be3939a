/* The model of a run, and the options that depend on the data and the model. */
#include "train/setup.h"

#include "base/number.h"
#include "base/text.h"
#include <math.h>
#include <string.h>

/* ---- networks */

/* Images in the sample for the mean and deviation of channels. */
enum { CHANNEL_SAMPLE = 4096 };

static yk_status net_options_of(const yk_config *c, yk_net_options *out)
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
                    const size_t at = i * sample->dim + ch * plane + p;
                    const double x =
                        sample->u8 ? (double)sample->u8[at] * (double)sample->scale : (double)sample->f32[at];
                    sum += round ? (x - mean) * (x - mean) : x;
                }
            *(round ? &variance : &mean) = sum / n;
        }
        out->mean[ch] = (float)mean;
        out->deviation[ch] = variance > 1e-12 ? (float)sqrt(variance) : 1.0f; /* 1: a constant channel */
    }
    out->channels = channels;
}

/* A run that begins with the parameters of an earlier model standardizes its input as that model does, and with the same values unless
 * others are given. */
static yk_status keep_standardization(const yk__trainer *t, yk_net_options *o)
{
    static const char *const name[] = {"none", "image", "channel"};
    const yk_net_options *before = t->caller->start ? &t->caller->start->model->shape.net
                                   : t->start.found ? &t->start.net
                                                    : NULL;
    if (!before)
        return YK_OK;
    if (before->standardize != o->standardize)
        return yk_fail(YK_EUSAGE,
                       "the model that this run begins with was trained with --standardize %s, not %s: use "
                       "--standardize %s",
                       name[before->standardize], name[o->standardize], name[before->standardize]);
    if (!o->channels) {
        o->channels = before->channels;
        memcpy(o->mean, before->mean, sizeof o->mean);
        memcpy(o->deviation, before->deviation, sizeof o->deviation);
    }
    return YK_OK;
}

/* --standardize channel */
static yk_status measure_channels(yk__trainer *t, yk_net_options *o)
{
    yk_dataset *train = &t->train;
    const char *name = t->config->data;
    const size_t channels = t->facts.channels ? t->facts.channels : 1;
    if (o->standardize != YK_STANDARDIZE_CHANNEL || o->channels || train->kind == YK_ROWS_SPARSE)
        return YK_OK;
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

/* ---- columns and fields */

/* The columns of the model: --features, or those of the data. */
static yk_status columns_of(const yk__trainer *t, size_t *out)
{
    size_t given = (size_t)t->config->features;
    *out = yk__columns_seen(t);
    if (t->train.kind == YK_ROWS_SPARSE && t->start.shape.dim > *out)
        *out = t->start.shape.dim;
    if (given && t->train.kind == YK_ROWS_SPARSE) {
        if (*out > given)
            return yk_fail(YK_EDATA,
                           "%s: index %zu is out of range for a model of %zu features (largest %zu)",
                           t->config->data, *out - 1, given, given - 1);
        *out = given;
    }
    return YK_OK;
}

/* A test or validation set may have fewer fields than the training data, but not none. */
static yk_status check_fields(const yk_dataset *train, const yk_dataset *d)
{
    const uint32_t n = train->fields, m = d->fields;
    if (train->positional == d->positional && (m == n || (m > 1 && m < n)))
        return YK_OK;
    return yk_fail(
        YK_EDATA,
        "%s: the rows have %u field%s, but those of %s have %u: training, test and validation data "
        "must have the same fields",
        d->source->spec, m, m == 1 ? "" : "s", train->source->spec, n);
}

/* The model has parameters for the fields of the training data. */
static yk_status fields_of(const yk__trainer *t, uint32_t *out)
{
    yk_status st = YK_OK;
    for (int i = 0; !st && i < YK__SETS; i++)
        st = t->set[i].used ? check_fields(&t->train, &t->set[i].data) : YK_OK;
    *out = t->train.fields;
    return st;
}

/* ---- --class-weight */

/* As in scikit-learn: the weight of all rows / (the number of classes * the weight of the rows of a class). */
static yk_status balance(yk__trainer *t)
{
    const yk_rows *rows = t->train.rows;
    const uint32_t classes = t->model->shape.classes;
    if (!rows)
        return yk_fail(YK_EUSAGE,
                       "--class-weight balanced needs data in memory (--stream never); for a stream, "
                       "give the weights: --class-weight 0=1,1=5");
    double all = 0.0, *of_class = yk_alloc(classes, sizeof *of_class, "class weights");
    if (!of_class)
        return YK_ESYSTEM;
    for (size_t i = 0; i < rows->n; i++) {
        of_class[rows->label[i]] += (double)yk_rows_weight(rows, i);
        all += (double)yk_rows_weight(rows, i);
    }
    for (uint32_t k = 0; k < classes; k++)
        t->class_weight[k] = of_class[k] > 0.0 ? (float)(all / ((double)classes * of_class[k])) : 0.0f;
    yk_free(of_class);
    return YK_OK;
}

/* The end of the class that a text begins with: its name, which may contain any character, or its number if classes have no names.
 * NULL: none. */
static const char *find_class(const char *p, const yk__names *names, uint32_t classes, uint64_t *out)
{
    const char *end = NULL;
    if (!names->n)
        return yk_digits(p, classes - 1, out);
    for (size_t c = 0; c < names->n; c++) {
        const size_t n = strlen(names->name[c]);
        if (!strncmp(p, names->name[c], n) && p[n] == '=' && (!end || p + n > end)) {
            *out = c;
            end = p + n;
        }
    }
    return end;
}

static yk_status fail_class_weight(const char *text, const char *word, size_t n, const yk__names *names,
                                   uint32_t classes)
{
    yk_text list = {0};
    for (size_t c = 0; c < names->n; c++)
        if (yk_text_item(&list))
            yk_text_print(&list, "%.*s", yk_utf8_cut(names->name[c], 40), names->name[c]);
    if (!names->n)
        yk_text_print(&list, "0 to %u", classes - 1);
    const yk_status st = yk_fail(
        YK_EUSAGE,
        "--class-weight %s: '%.*s' is not CLASS=WEIGHT: CLASS must be %s %s; WEIGHT must be at least 0", text,
        (int)n, word, names->n ? "one of:" : "from", list.s ? list.s : "");
    yk_text_fini(&list);
    return st;
}

/* "0=1,1=5", "no=1,yes=5" */
static yk_status parse_class_weights(const char *text, const yk__names *names, uint32_t classes, float *out)
{
    for (const char *p = text; *p; p += *p == ',') {
        uint64_t class;
        double v;
        const char *equals = find_class(p, names, classes, &class), *end = equals ? equals : p;
        end += strcspn(end, ",");
        if (!equals || *equals != '=' || yk_decimal_before(equals + 1, end, &v) != end || equals + 1 == end ||
            !(v >= 0.0 && isfinite((float)v)))
            return fail_class_weight(text, p, (size_t)(end - p), names, classes);
        if (out[class] >= 0.0f)
            return yk_fail(YK_EUSAGE, "--class-weight %s: class %.*s is given twice", text, (int)(equals - p),
                           p);
        out[class] = (float)v;
        p = end;
    }
    float sum = 0.0f;
    for (uint32_t k = 0; k < classes; k++)
        sum += out[k] = out[k] >= 0.0f ? out[k] : 1.0f;
    return sum > 0.0f ? YK_OK : yk_fail(YK_EUSAGE, "--class-weight %s: all weights are 0", text);
}

static yk_status set_class_weights(yk__trainer *t)
{
    const char *text = t->config->class_weight;
    const uint32_t classes = t->model->shape.classes;
    if (!text || !t->plan->trains)
        return YK_OK;
    if (t->loss->numbers)
        return yk_fail(YK_EUSAGE, "--class-weight: --loss %s has no classes", t->loss->name);
    if (!(t->class_weight = yk_alloc(classes, sizeof *t->class_weight, "class weights")))
        return YK_ESYSTEM;
    for (uint32_t k = 0; k < classes; k++)
        t->class_weight[k] = -1.0f; /* not given */
    const yk__names *names = t->train.source->class_names;
    return strcmp(text, "balanced") == 0
               ? balance(t)
               : parse_class_weights(text, names ? names : &(yk__names){0}, classes, t->class_weight);
}

/* ---- biases */

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

/* --bias-lr, --bias-decay: sets the ranges of the groups. */
static yk_status set_bias_rates(yk__trainer *t)
{
    const yk_config *c = t->config;
    const yk_model *m = t->model;
    yk_optim_range *range = t->range;
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
        yk_local_group *group = &t->group[g];
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

/* ---- the model */

/* How each group is trained. */
static void set_groups(yk__trainer *t)
{
    for (int g = 0; g < t->model->ngroups; g++) {
        const yk_group *shape = &t->model->group[g];
        const yk_group_plan *plan = &t->plan->group[g];
        t->group[g] = (yk_local_group){.shape = *shape, .optim = plan->optim, .staleness = plan->staleness};
        t->result->group[g].shape = *shape;
    }
    t->result->ngroups = t->model->ngroups;
    t->result->lr = t->group[0].optim.lr;
}

/* The data, and the options that depend on it. */
static yk_status prepare_data(yk__trainer *t, yk_net_options *net)
{
    const yk_config *c = t->config;
    yk_status st;
    if ((c->loss && (st = yk_loss_find(c->loss, &t->loss))) ||
        (st = yk_model_loss(c->model, t->loss, &t->loss)) || (st = net_options_of(c, net)) ||
        (st = yk__load_data(t)) || (st = yk__combine_facts(t)) || (st = yk__warm_start_check(t)))
        return st;
    if (!(st = keep_standardization(t, net)))
        st = measure_channels(t, net);
    if (!st && net->standardize == YK_STANDARDIZE_CHANNEL && !t->plan->alone && !t->cluster.joined)
        st = yk_comm_broadcast(t->cluster.comm, net, sizeof *net, t->plan->startup_timeout,
                               "the standardization"); /* only the chief knows the earlier model */
    return st;
}

yk_status yk__make_model(yk__trainer *t)
{
    const yk_config *c = t->config;
    yk_net_options net;
    yk_status st = prepare_data(t, &net);
    if (st)
        return st;
    t->result->load_seconds = yk_now() - t->caller->started;
    if (net.standardize)
        t->data_check.large.size = 1.0;
    const yk_data_facts *d = &t->facts;
    yk_model_shape shape = {.kind = t->train.kind,
                            .classes = t->train.classes,
                            .bias = !c->no_bias,
                            .positional = t->train.positional,
                            .channels = d->channels,
                            .height = d->height,
                            .width = d->width,
                            .threads = t->plan->usable_threads,
                            .net = net,
                            .loss = t->loss};
    yk__warm_start_hashing(t, &shape);
    if ((st = columns_of(t, &shape.dim)) || (st = fields_of(t, &shape.fields)) ||
        (st = yk_model_create(c->model, &shape, &t->model)))
        return st;
    for (int i = 0; i < t->model->ntensors; i++) { /* without padding */
        const yk_model_tensor *tensor = &t->model->tensor[i];
        t->result->params += tensor->size;
        t->result->group[tensor->group].params += tensor->size;
    }
    t->result->threads_used = t->model->ops->threads ? t->model->ops->threads(t->model, t->plan->batch) : 1;
    set_groups(t);
    if (yk_config_validation(c) &&
        (st = yk__selection_init(&t->selection, c, t->loss->numbers ? 0 : shape.classes)))
        return st;
    st = yk__schema_keep(t);
    if (!st)
        st = set_class_weights(t);
    return st ? st : set_bias_rates(t);
}
