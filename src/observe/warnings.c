#include "observe/observe_internal.h"

#include <stdlib.h>
#include <string.h>

const yk_warning_text yk_warning_texts[YK_WARNING_KINDS] = {
#define YK_WARNING_TEXT(kind, name, title, advice) {name, title, advice},
    YK_WARNING_LIST(YK_WARNING_TEXT)
#undef YK_WARNING_TEXT
};

yk_warning_kind yk_warning_find(const char *name)
{
    int kind = 0;
    while (kind < YK_WARNING_OTHER && strcmp(yk_warning_texts[kind].name, name))
        kind++;
    return (yk_warning_kind)kind;
}

/* Adds the warning to the results, and takes `text`. If memory runs out, the warning is dropped. */
static void add(yk_observation *w, yk_warning_kind kind, char *text)
{
    yk_warning *grown = realloc(w->warning, ((size_t)w->nwarnings + 1) * sizeof *grown);
    if (!grown) {
        free(text);
        return;
    }
    w->warning = grown;
    w->warning[w->nwarnings++] = (yk_warning){kind, text};
}

/* Prints the warning and adds it to the results. */
__attribute__((format(printf, 3, 4))) static void warn(yk_observation *w, yk_warning_kind kind,
                                                       const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0)
        return;
    yk_warn("%s", text);
    add(w, kind, text);
}

/* ---- curves */

/* The number of examples and steps that make a training loss a meaningful mean. */
enum { MIN_EXAMPLES = 1000, SOME_EXAMPLES = 200, MIN_STEPS = 10, SOME_STEPS = 5, MIN_TESTS = 100 };

/* What the checks of the curves know. */
typedef struct {
    const yk_outcome *r;
    const yk_evaluation *e; /* the last one */
    const yk_evaluation *end,
        *mean;      /* the last point; mean: if its training loss is a meaningful mean; NULL: none */
    double uniform; /* the loss of a uniform guess; NaN: it is not a log loss, so that no comparison holds */
    /* Of the training losses that are meaningful means: the lowest before the last point, HUGE_VAL: none; the highest, 0:
     * none. */
    double lowest, highest;
    bool tested; /* on enough examples */
    yk_observation *w;
} curves;

/* Whether a training loss is a meaningful mean: over all of the data, or over enough of it. */
static bool is_mean(const yk_outcome *r, const yk_evaluation *p)
{
    const uint64_t half = r->examples / 2;
    const bool epoch = r->examples >= MIN_TESTS && p->examples >= r->examples;
    return isfinite(p->m.train_loss) &&
           (epoch ||
            (p->steps >= MIN_STEPS && p->examples >= (half && half < MIN_EXAMPLES ? half : MIN_EXAMPLES)));
}

static curves curves_of(const yk_outcome *r, yk_observation *w)
{
    curves t = {.r = r,
                .e = &r->last,
                .end = r->points ? &r->point[r->points - 1] : NULL,
                .uniform = r->classes ? log((double)r->classes) : (double)NAN,
                .lowest = HUGE_VAL,
                .tested = r->last.tested && (!r->test_examples || r->test_examples >= MIN_TESTS),
                .w = w};
    for (size_t i = 0; i < r->points; i++) {
        const yk_evaluation *p = &r->point[i];
        t.mean = is_mean(r, p) ? p : NULL;
        if (t.mean)
            t.highest = fmax(t.highest, p->m.train_loss);
        if (t.mean && p != t.end)
            t.lowest = fmin(t.lowest, p->m.train_loss);
    }
    return t;
}

/* ---- learning rates */

/* What to do about a learning rate: "try a smaller --lr". A run does not show which rate is best, so none is named. No rate
 * suits columns whose values have very different sizes. */
static const char *other_rate(const yk_outcome *r, bool smaller, char out[160])
{
    const char *prefix = r->lr_prefix ? r->lr_prefix : "";
    if (yk_data_is_unscaled(&r->data))
        snprintf(out, 160,
                 "scale the features (csv: ?scale=standard), because the values of column %lld (counted from "
                 "0) are about %.3g",
                 (long long)r->data.large.column, r->data.large.size);
    else
        snprintf(out, 160, "try a %s --lr%s%s%s", smaller ? "smaller" : "larger", *prefix ? " " : "", prefix,
                 *prefix ? "X" : "");
    return out;
}

/* Whether the loss was far above that of a uniform guess before the first step, and has not risen since: then the initial
 * parameters are the reason for the high loss (--init, --warm-start). */
static bool began_above(const curves *t)
{
    const yk_evaluation *first = t->r->point;
    return t->r->points > 1 && !isfinite(first->m.train_loss) && t->e->m.train_loss < first->m.test_loss &&
           first->m.test_loss > 1.3 * t->uniform;
}

/* The loss of predictions of this accuracy that are as certain as they are right, and no better than that. */
static double calibrated_loss(double accuracy, uint32_t classes)
{
    const double a = fmin(fmax(accuracy, 1e-9), 1.0 - 1e-9);
    return -a * log(a) - (1.0 - a) * log((1.0 - a) / (classes - 1.0));
}

/* The loss was above that of a uniform guess, and still is far too high for the accuracy: the predictions are too certain. */
static bool is_too_certain(const curves *t)
{
    const yk_evaluation *e = t->e;
    if (!t->tested || !t->mean || t->r->classes < 2 || began_above(t))
        return false;
    const double enough = 2.0 * calibrated_loss(e->m.test_accuracy, t->r->classes);
    return t->highest > 1.3 * t->uniform && e->m.test_accuracy > e->m.majority_accuracy &&
           e->m.train_loss > enough && e->m.test_loss > enough;
}

/* A network that a far too large rate has made constant: its loss is not below that of a model that knows nothing. */
static bool is_wild(const curves *t)
{
    const yk_evaluation *e = t->e;
    const bool constant = t->tested
                              ? e->m.test_loss > t->uniform && e->m.test_accuracy <= e->m.majority_accuracy
                              : t->end->m.epoch >= 1.99; /* not the mean of a first epoch */
    return constant && t->r->default_lr > 0.0 && t->r->lr >= 10.0 * t->r->default_lr && t->mean &&
           e->m.train_loss > t->uniform;
}

/* A network may begin a little above the uniform guess: only a loss that rises, or is far above it, shows a large rate. */
static bool is_above_uniform(const curves *t)
{
    const yk_evaluation *e = t->e;
    const bool far = e->m.train_loss > t->uniform * 1.3,
               rose = isfinite(t->lowest) && e->m.train_loss > 1.002 * t->lowest && t->mean;
    const bool huge =
        e->m.train_loss > t->uniform * 10.0 && yk_data_is_unscaled(&t->r->data); /* also in one epoch */
    const bool still = t->tested ? e->m.test_loss > t->uniform * 1.02
                                 : isfinite(t->lowest) || (far && t->r->points > 1) || huge;
    return e->m.train_loss > t->uniform * 1.02 && still && !began_above(t) && (far || rose);
}

/* The mean over a first epoch includes its beginning, and says little about its end: only the test does. */
static bool check_rising(const curves *t)
{
    const yk_evaluation *e = t->e;
    const yk_evaluation *p = t->end;
    const double lr = t->r->lr;
    char remedy[160];
    if (!p || !isfinite(p->m.train_loss) || p->steps < SOME_STEPS || p->examples < SOME_EXAMPLES)
        return false;
    if (is_wild(t) || is_above_uniform(t))
        warn(t->w, YK_WARNING_LOSS_ROSE,
             "the training loss %.4f is above %.4f, the loss of a uniform guess, with learning rate %g; %s",
             e->m.train_loss, t->uniform, lr, other_rate(t->r, true, remedy));
    else if (isfinite(t->lowest) && t->mean && e->m.train_loss > 1.05 * t->lowest &&
             e->m.train_loss > t->lowest + 0.02 * t->uniform)
        warn(t->w, YK_WARNING_LOSS_ROSE,
             "the training loss rose from %.4f to %.4f: the learning rate %g is too large at the end; %s",
             t->lowest, e->m.train_loss, lr, other_rate(t->r, true, remedy));
    else if (is_too_certain(t))
        warn(t->w, YK_WARNING_LOSS_ROSE,
             "the test loss %.4f is far above %.4f, the loss of calibrated predictions with an accuracy of "
             "%.1f %%: the learning rate %g is too large; %s",
             e->m.test_loss, calibrated_loss(e->m.test_accuracy, t->r->classes), 100.0 * e->m.test_accuracy,
             lr, other_rate(t->r, true, remedy));
    else
        return false;
    return true;
}

/* The standard deviation of the AUC of a model that knows nothing. */
static double auc_deviation(const yk_outcome *r)
{
    const double n = (double)r->test_examples, p = r->last.m.majority_accuracy;
    return n > 0.0 && p > 0.0 && p < 1.0 ? sqrt((n + 1.0) / (12.0 * n * n * p * (1.0 - p))) : HUGE_VAL;
}

/* The loss of always predicting the frequencies of two classes. */
static double entropy(double p)
{
    return p > 0.0 && p < 1.0 ? -p * log(p) - (1.0 - p) * log(1.0 - p) : 0.0;
}

/* The loss of a model that knows only how frequent the classes are. */
static double frequencies_only(const curves *t)
{
    return t->r->classes == 2 && !t->r->reweighted ? entropy(t->e->m.majority_accuracy) : t->uniform;
}

/* The training loss is hardly below that. */
static bool learned_nothing(const curves *t)
{
    return t->e->m.train_loss > 0.98 * fmin(frequencies_only(t), t->uniform);
}

/* The model has learned something, but the opposite of what the test set says. */
static bool check_reversed(const curves *t)
{
    const yk_outcome *r = t->r;
    const yk_evaluation *e = t->e;
    const double chance = 1.0 / r->classes, n = (double)r->test_examples;
    if (!t->tested || !(e->m.train_loss < 0.9 * t->uniform) || learned_nothing(t))
        return false;
    if (r->classes == 2 && e->m.test_auc < 0.5 - fmax(5.0 * auc_deviation(r), 0.05))
        warn(t->w, YK_WARNING_WORSE_THAN_CHANCE,
             "the AUC on the test set is %.3f, worse than chance (0.5), and the training loss is %.4f: the "
             "labels of the test set, or its columns, do not mean the same thing as in the training set",
             e->m.test_auc, e->m.train_loss);
    else if (r->classes > 2 && n > 0.0 &&
             e->m.test_accuracy < chance - 5.0 * sqrt(chance * (1.0 - chance) / n))
        warn(t->w, YK_WARNING_WORSE_THAN_CHANCE,
             "the accuracy on the test set is %.2f %%, worse than chance (%.2f %%), and the training loss is "
             "%.4f: the labels of the test set, or its columns, do not mean the same thing as in the "
             "training set",
             100.0 * e->m.test_accuracy, 100.0 * chance, e->m.train_loss);
    else
        return false;
    return true;
}

static bool is_shifted(const yk_data_check *d)
{
    return d->unseen.share > 0.01 || fabs(d->shifted.train - d->shifted.test) > 0.2;
}

/* The best test loss was long before the end, and the loss has risen clearly since. */
static bool check_overfitting(const curves *t)
{
    const yk_outcome *r = t->r;
    const yk_evaluation *e = t->e;
    const yk_evaluation *last = t->mean;
    const double uniform = t->uniform;
    size_t best = 0;
    /* in its first epoch, a model has seen each example once; a shift is a reason of its own for a high test loss */
    if (!t->tested || !last || !(last->m.epoch >= 1.0) || is_shifted(&r->data))
        return false;
    if (e->m.test_loss > uniform * 1.02 && e->m.train_loss < 0.8 * uniform) {
        warn(t->w, YK_WARNING_OVERFITTING,
             "the test loss %.4f is above %.4f, the loss of a uniform guess, and the training loss is %.4f: "
             "the model overfits the training data; try --l2 1e-6, fewer --epochs, or more data",
             e->m.test_loss, uniform, e->m.train_loss);
        return true;
    }
    if (r->points < 5)
        return false;
    for (size_t i = 1; i < r->points; i++)
        if (!(r->point[i].m.test_loss >= r->point[best].m.test_loss))
            best = i;
    const yk_evaluation *p = &r->point[best];
    double since = HUGE_VAL; /* the lowest one of the last quarter */
    for (size_t i = r->points - (r->points + 3) / 4; i < r->points; i++)
        since = fmin(since, r->point[i].m.test_loss);
    if (best + 3 > r->points || !(p->m.epoch > 0.0) || !(p->m.epoch < 0.75 * last->m.epoch) ||
        since < 1.03 * p->m.test_loss || last->m.test_loss < 1.05 * p->m.test_loss ||
        last->m.test_loss < p->m.test_loss + 0.01 * uniform || last->m.train_loss > 0.8 * p->m.train_loss)
        return false;
    warn(t->w, YK_WARNING_OVERFITTING,
         "the test loss was lowest, %.4f, at epoch %.3g of %.3g, and is %.4f at the end: the model overfits "
         "the training data; use --epochs %.0f, --l2, or more data",
         p->m.test_loss, p->m.epoch, last->m.epoch, last->m.test_loss, fmax(ceil(p->m.epoch), 1.0));
    return true;
}

/* The loss falls all the time, by about as much at the end as on average: it would fall further. */
static bool falls_steadily(const yk_outcome *r)
{
    const size_t n = r->points, first = n && isfinite(r->point[0].m.train_loss) ? 0 : 1; /* before step 1 */
    if (n < first + 3)
        return false;
    for (size_t i = first + 1; i < n; i++)
        if (!(r->point[i].m.train_loss <= 1.0005 * r->point[i - 1].m.train_loss) || !is_mean(r, &r->point[i]))
            return false;
    const double all = r->point[first].m.train_loss - r->point[n - 1].m.train_loss,
                 last = r->point[n - 2].m.train_loss - r->point[n - 1].m.train_loss;
    return all > 0.0 && last > 0.4 * all / (double)(n - 1 - first);
}

/* A test shows that outputs are still small: the model ranks well, or does not even know how frequent the classes are. */
static bool has_small_outputs(const curves *t)
{
    const yk_evaluation *e = t->e;
    const bool ranks = e->m.test_accuracy > e->m.majority_accuracy + 0.2 * (1.0 - e->m.majority_accuracy) &&
                       e->m.train_loss > 0.93 * t->uniform;
    const double frequencies = frequencies_only(t);
    return ranks || (frequencies < 0.9 * t->uniform &&
                     e->m.test_loss > frequencies + 0.3 * (t->uniform - frequencies));
}

/* The training loss is still that of the beginning, with a rate below the usual one. */
static bool is_unchanged(const curves *t, double begin)
{
    const yk_outcome *r = t->r;
    const double loss = t->e->m.train_loss;
    const bool usual = r->default_lr > 0.0 && r->lr >= r->default_lr && r->data.large.size > 0.1;
    return !usual && fabs(loss - begin) < 0.002 * begin && (r->points > 2 || begin == t->uniform) &&
           (!t->tested || fabs(t->e->m.test_loss - loss) < 0.02 * begin);
}

/* After at least one epoch, the model has hardly left its initial parameters. */
static bool check_too_small(const curves *t)
{
    const yk_outcome *r = t->r;
    const yk_evaluation *p = t->mean;
    const double uniform = t->uniform, loss = t->e->m.train_loss,
                 begin = fmax(uniform, t->highest); /* a network may begin above the uniform guess */
    double steps = 0.0;
    char remedy[160];
    for (size_t i = 0; i < r->points; i++)
        steps += (double)r->point[i].steps;
    if (!p || !(p->m.epoch >= 0.99) || steps < 50.0 || loss > 1.3 * uniform)
        return false;
    /* a model that begins with a uniform guess and learns noise, such as random labels, gets worse than that */
    if (t->tested && fabs(r->point[0].m.test_loss - uniform) < 1e-4 * uniform && loss > 1.0003 * uniform)
        return false;
    const bool slow =
        falls_steadily(r) && loss > 0.85 * begin &&
        (!t->tested || t->e->m.test_loss < r->point[0].m.test_loss); /* noise only fits the training set */
    if (!slow && !is_unchanged(t, begin) && !(t->tested && has_small_outputs(t)))
        return false;
    warn(t->w, YK_WARNING_LR_TOO_SMALL,
         "after %.3g epoch%s and %.0f steps the training loss is %.4f%s, and was never above %.4f: training "
         "is slow with learning rate %g; %s, or more --epochs",
         p->m.epoch, p->m.epoch == 1.0 ? "" : "s", steps, loss, slow ? " and still falling" : "", begin,
         r->lr, other_rate(r, false, remedy));
    return true;
}

/* The run ended during the warm-up: the reason for all that it has not learned. */
static bool check_warm_up(const yk_outcome *r, yk_observation *w)
{
    if (r->steps >= r->warm_up)
        return false;
    warn(
        w, YK_WARNING_LR_TOO_SMALL,
        "the run ended after %llu of the %llu steps of the warm-up, before the learning rate reached %g: use "
        "a shorter --warm-up, or train longer",
        (unsigned long long)r->steps, (unsigned long long)r->warm_up, r->lr);
    return true;
}

/* The accuracy goes up and down by several points in the second half of the run. */
static void check_oscillation(const curves *t)
{
    const yk_outcome *r = t->r;
    double sum = 0.0, low = HUGE_VAL, high = 0.0, last = (double)NAN, before = 0.0;
    char remedy[160];
    int changes = -1, turns = 0;
    if (!t->tested || r->points < 6)
        return;
    for (size_t i = r->points / 2; i < r->points; i++) {
        const yk_evaluation *p = &r->point[i];
        if (p->examples < SOME_EXAMPLES / 2) /* too close to the one before */
            continue;
        low = fmin(low, p->m.test_accuracy);
        high = fmax(high, p->m.test_accuracy);
        const double change = isfinite(last) ? p->m.test_accuracy - last : 0.0;
        turns += change * before < 0.0;
        sum += fabs(change);
        before = change != 0.0 ? change : before;
        last = p->m.test_accuracy;
        changes++;
    }
    const double mean = changes > 0 ? sum / changes : 0.0;
    if (changes < 2 || mean < 0.02 || turns < 0.4 * (changes - 1) || sum < 1.5 * (high - low) ||
        high <= r->last.m.majority_accuracy ||
        (learned_nothing(t) && r->last.m.test_accuracy <= r->last.m.majority_accuracy))
        return;
    warn(t->w, YK_WARNING_OSCILLATION,
         "the test accuracy goes up and down between %.1f and %.1f %%, by %.1f points from one evaluation to "
         "the next: the learning rate %g is too large%s; %s%s",
         100.0 * low, 100.0 * high, 100.0 * mean, r->lr, r->asynchronous ? " for asynchronous training" : "",
         other_rate(r, true, remedy), r->asynchronous ? ", a --staleness bound, or fewer --workers" : "");
}

/* The accuracy is that of the majority class; or it is a little better, but the AUC is that of chance. */
static void check_majority(const curves *t, bool rate)
{
    const yk_outcome *r = t->r;
    const yk_evaluation *e = t->e;
    const double majority = e->m.majority_accuracy, n = (double)r->test_examples;
    const bool chance = fabs(e->m.test_auc - 0.5) < fmin(3.0 * auc_deviation(r), 0.03);
    const double better = chance && n > 0.0 ? 2.0 * sqrt(majority * (1.0 - majority) / n) : 1e-9;
    const bool nothing = !rate && (chance || learned_nothing(t));
    char auc[80] = "";
    if ((r->test_examples && r->test_examples < 30) || !e->tested || (r->reweighted && !nothing) ||
        !(e->m.test_accuracy <= majority + better))
        return;
    if (isfinite(e->m.test_auc))
        snprintf(auc, sizeof auc, "; look at the AUC, %.3f (0.5 is chance)", e->m.test_auc);
    warn(t->w, YK_WARNING_MAJORITY,
         "accuracy %.2f %% is no better than always predicting the majority class (%.2f %%)%s%s",
         100.0 * e->m.test_accuracy, 100.0 * majority, auc,
         !nothing ? ""
         : r->regularized
             ? ": nothing was learned; lower --l1 and --l2, or check that the labels match the examples"
             : ": nothing was learned; check that the labels match the examples");
}

/* ---- data */

static void check_labels(const yk_outcome *r, bool reversed, yk_observation *w)
{
    const yk_data_check *d = &r->data;
    if (d->classes > 1 && d->first_class > 0 && r->examples >= 20 * (uint64_t)r->classes)
        warn(w, YK_WARNING_UNUSED_CLASS,
             "the smallest label of the training examples is %u, but labels must start at 0: the model has "
             "%u classes, %u more than it needs; subtract %u from the labels",
             d->first_class, r->classes, d->first_class, d->first_class);
    if (d->classes == 1 || !is_shifted(d) || (reversed && !(d->unseen.share > 0.01)) ||
        (r->test_examples && r->test_examples < MIN_TESTS))
        return;
    if (d->unseen.share > 0.01)
        warn(w, YK_WARNING_LABEL_SHIFT,
             "%.3g %% of the test examples have a label that no training example has, such as %u: check the "
             "labels, and that both sets are random samples of the same data",
             100.0 * d->unseen.share, d->unseen.label);
    else
        warn(w, YK_WARNING_LABEL_SHIFT,
             "%.3g %% of the training examples, but %.3g %% of the test examples, have the label %u: check "
             "that both sets are random samples of the same data",
             100.0 * d->shifted.train, 100.0 * d->shifted.test, d->shifted.label);
}

static void check_mean(const curves *t)
{
    char remedy[160];
    if (t->tested && t->r->r2 < -0.1)
        warn(t->w, YK_WARNING_WORSE_THAN_MEAN,
             "R2 is %.3g on the test set: always predicting the mean label has a lower loss; %s", t->r->r2,
             yk_data_is_unscaled(&t->r->data) ? other_rate(t->r, true, remedy)
                                              : "train longer, or change --lr");
}

/* One learning rate for all columns is too small for most of them, or too large for the largest one. */
static void check_scales(const yk_outcome *r, yk_observation *w)
{
    const yk_data_check *d = &r->data;
    if (!r->adaptive && yk_data_is_unscaled(d) && d->large.much_smaller > 0.2)
        warn(w, YK_WARNING_UNSCALED,
             "the values of column %lld (counted from 0) are about %.3g, more than 1000 times as large as "
             "%.0f %% of the others: the model hardly learns from these; scale the features (csv: "
             "?scale=standard)",
             (long long)d->large.column, d->large.size, 100.0 * d->large.much_smaller);
}

char *yk_batch_warning(uint64_t examples, uint64_t global_batch, int workers)
{
    char *text;
    if (!examples || global_batch <= examples ||
        asprintf(&text, "the data has %llu example%s, fewer than the %llu of one global batch: %s",
                 (unsigned long long)examples, yk_plural(examples), (unsigned long long)global_batch,
                 workers > 1 ? "some workers may get none; use a smaller --batch or fewer --workers"
                             : "an epoch is a single step; use a smaller --batch") < 0)
        return NULL;
    return text;
}

static void check_data(const yk_outcome *r, yk_observation *w)
{
    const yk_data_check *d = &r->data;
    if (d->classes == 1)
        warn(w, YK_WARNING_ONE_CLASS,
             "all training examples have the label %u: there is nothing to learn; check the labels of the "
             "data",
             d->only_class);
    else if (d->constant)
        warn(w, YK_WARNING_CONSTANT_FEATURES,
             "all of the %llu training examples that were examined have the same features: there is nothing "
             "to learn; check the data",
             (unsigned long long)d->examples);
    char *batch = yk_batch_warning(r->examples, r->global_batch, r->workers);
    if (batch)
        add(w, YK_WARNING_BATCH_TOO_LARGE, batch);
    if (d->overlap >= 0.02)
        warn(w, YK_WARNING_TEST_IN_TRAINING,
             "about %.0f %% of the test examples are also training examples: the test results are too "
             "optimistic; use different data for --test",
             100.0 * d->overlap);
    if (d->examples && d->column >= 0)
        warn(w, YK_WARNING_LABEL_LEAK,
             "column %lld (counted from 0) alone predicts the label of %.1f %% of the examples (majority "
             "class: %.1f %%): check that it is not derived from the label",
             (long long)d->column, 100.0 * d->column_accuracy, 100.0 * d->majority);
    if (d->hashed_into && d->used_columns > 0.5)
        warn(w, YK_WARNING_HASH_COLLISIONS,
             "about %.3g keys are hashed into %llu columns: %.0f %% of them share a column with another key; "
             "use --hash-bits %.0f or more",
             d->keys, (unsigned long long)d->hashed_into, 100.0 * d->used_columns,
             fmin(ceil(log2(4.0 * d->keys)), 31.0));
}

/* On a busy host, a run takes longer than it would alone. */
static void check_hosts(yk_observation *w)
{
    for (int i = 0; i < w->nprocesses; i++) {
        yk_usage u;
        yk__usage_of_host(w->process, w->nprocesses, i, &u);
        const double others = u.cpu_host.mean - u.cpu.mean;
        if (u.seconds >= 0.5 && others > fmax(0.3, 0.1 * u.host_cores) &&
            u.cpu_host.mean > 0.8 * u.host_cores) {
            warn(w, YK_WARNING_BUSY_HOST,
                 "other programs used %.1f of the %.0f core%s of %s: do not compare the times of this run "
                 "with those of other runs",
                 others, u.host_cores, u.host_cores < 1.5 ? "" : "s", u.host);
            return;
        }
    }
}

void yk_observation_warn(const yk_outcome *r, yk_observation *w)
{
    const bool unlearnable = r->data.classes == 1 || r->data.constant || r->lr == 0.0; /* --lr 0 */
    const curves t = curves_of(r, w);
    const bool reversed = !unlearnable && check_reversed(&t);
    bool rises = false, too_small = false;
    if (!unlearnable && !reversed) {
        rises = check_rising(&t);
        too_small = check_warm_up(r, w) || (!rises && !check_overfitting(&t) && check_too_small(&t));
        check_oscillation(&t);
        check_majority(&t, too_small || rises);
        if (!too_small)
            check_mean(&t);
    }
    if (!unlearnable && !rises && !too_small)
        check_scales(r, w);
    check_labels(r, reversed, w);
    check_data(r, w);
    if (r->selection)
        warn(w, YK_WARNING_LOSS_ROSE,
             "no trained model was as good as the initial one: validation %s %.4g before training, "
             "%.4g at best; use a smaller --lr",
             r->selection, r->start, r->best);
    if (r->bad_records)
        warn(w, YK_WARNING_BAD_RECORDS, "%llu bad record%s skipped", (unsigned long long)r->bad_records,
             r->bad_records == 1 ? " was" : "s were");
    check_hosts(w);
}
