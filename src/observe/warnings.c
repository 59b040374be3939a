#include "observe/observer_internal.h"

#include "base/log.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prints the warning and adds it to the results; if memory runs out, it is only printed. */
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
    yk_warning *grown = realloc(w->warning, ((size_t)w->nwarnings + 1) * sizeof *grown);
    if (!grown) {
        free(text);
        return;
    }
    w->warning = grown;
    w->warning[w->nwarnings++] = (yk_warning){kind, text};
}

/* ---- curves */

/* The number of examples and steps that make a training loss a meaningful mean. */
enum { MIN_EXAMPLES = 1000, SOME_EXAMPLES = 200, MIN_STEPS = 10, SOME_STEPS = 5, MIN_TESTS = 100 };

static bool is_mean_of(uint64_t examples, const yk_curve_point *p)
{
    return isfinite(p->train_loss) && p->steps >= MIN_STEPS && p->examples >= examples;
}

/* Means need more examples if small differences between them matter. */
static bool is_mean(const yk_outcome *r, const yk_curve_point *p)
{
    const uint64_t half = r->examples / 2;
    const bool epoch = r->examples >= MIN_TESTS && p->examples >= r->examples; /* over all of the data */
    return (epoch && isfinite(p->train_loss)) ||
           is_mean_of(half && half < MIN_EXAMPLES ? half : MIN_EXAMPLES, p);
}

/* The last point of the curve, if its training loss is a meaningful mean; else NULL. */
static const yk_curve_point *last_mean(const yk_outcome *r)
{
    const yk_curve_point *last = r->points ? &r->point[r->points - 1] : NULL;
    return last && is_mean(r, last) ? last : NULL;
}

static bool is_tested(const yk_outcome *r)
{
    return r->last.tested && (!r->test_examples || r->test_examples >= MIN_TESTS);
}

/* The lowest training loss before the last point; HUGE_VAL: there is none that is a meaningful mean. */
static double lowest_before(const yk_outcome *r)
{
    double lowest = HUGE_VAL;
    for (size_t i = 0; i + 1 < r->points; i++)
        if (is_mean(r, &r->point[i]))
            lowest = fmin(lowest, r->point[i].train_loss);
    return lowest;
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
static bool began_above(const yk_outcome *r)
{
    return r->points > 1 && !isfinite(r->point->train_loss) && r->last.train_loss < r->point->test_loss &&
           r->point->test_loss > 1.3 * log((double)r->classes);
}

/* The loss of predictions of this accuracy that are as certain as they are right, and no better than that. */
static double calibrated_loss(double accuracy, uint32_t classes)
{
    const double a = fmin(fmax(accuracy, 1e-9), 1.0 - 1e-9);
    return -a * log(a) - (1.0 - a) * log((1.0 - a) / (classes - 1.0));
}

/* The loss was above that of a uniform guess, and still is far too high for the accuracy: the predictions are too certain. */
static bool is_too_certain(const yk_outcome *r)
{
    const yk_evaluation *e = &r->last;
    double highest = 0.0;
    if (!is_tested(r) || !last_mean(r) || r->classes < 2 || began_above(r))
        return false;
    for (size_t i = 0; i < r->points; i++)
        if (is_mean(r, &r->point[i]))
            highest = fmax(highest, r->point[i].train_loss);
    const double enough = 2.0 * calibrated_loss(e->accuracy, r->classes);
    return highest > 1.3 * log((double)r->classes) && e->accuracy > e->majority_accuracy &&
           e->train_loss > enough && e->test_loss > enough;
}

/* A network that a far too large rate has made constant: its loss is not below that of a model that knows nothing. */
static bool is_wild(const yk_outcome *r, const yk_curve_point *p)
{
    const yk_evaluation *e = &r->last;
    const double enough = log((double)r->classes);
    const bool constant = is_tested(r) ? e->test_loss > enough && e->accuracy <= e->majority_accuracy
                                       : p->epoch >= 1.99; /* not the mean of a first epoch */
    return constant && r->default_lr > 0.0 && r->lr >= 10.0 * r->default_lr && is_mean(r, p) &&
           e->train_loss > enough;
}

/* The mean over a first epoch includes its beginning, and says little about its end: only the test does. */
static bool check_rising(const yk_outcome *r, yk_observation *w)
{
    const yk_evaluation *e = &r->last;
    const double uniform = log((double)r->classes), lowest = lowest_before(r);
    char remedy[160];
    const yk_curve_point *p = r->points ? &r->point[r->points - 1] : NULL;
    if (!p || !isfinite(p->train_loss) || p->steps < SOME_STEPS || p->examples < SOME_EXAMPLES)
        return false;
    /* a network may begin a little above the uniform guess: only a loss that rises, or is far above it, shows a large rate */
    const bool far = e->train_loss > uniform * 1.3, rose = isfinite(lowest) && e->train_loss > 1.002 * lowest;
    const bool still =
        is_tested(r) ? e->test_loss > uniform * 1.02 : isfinite(lowest) || (far && r->points > 1);
    if (is_wild(r, p) ||
        (e->train_loss > uniform * 1.02 && still && !began_above(r) && (far || (rose && is_mean(r, p)))))
        warn(w, YK_WARNING_LOSS_ROSE,
             "the training loss %.4f is above %.4f, the loss of a uniform guess, with learning rate %g; %s",
             e->train_loss, uniform, r->lr, other_rate(r, true, remedy));
    else if (isfinite(lowest) && is_mean(r, p) && e->train_loss > 1.05 * lowest &&
             e->train_loss > lowest + 0.02 * uniform)
        warn(w, YK_WARNING_LOSS_ROSE,
             "the training loss rose from %.4f to %.4f: the learning rate %g is too large at the end; %s",
             lowest, e->train_loss, r->lr, other_rate(r, true, remedy));
    else if (is_too_certain(r))
        warn(w, YK_WARNING_LOSS_ROSE,
             "the test loss %.4f is far above %.4f, the loss of calibrated predictions with an accuracy of "
             "%.1f %%: the learning rate %g is too large; %s",
             e->test_loss, calibrated_loss(e->accuracy, r->classes), 100.0 * e->accuracy, r->lr,
             other_rate(r, true, remedy));
    else
        return false;
    return true;
}

/* The standard deviation of the AUC of a model that knows nothing. */
static double auc_deviation(const yk_outcome *r)
{
    const double n = (double)r->test_examples, p = r->last.majority_accuracy;
    return n > 0.0 && p > 0.0 && p < 1.0 ? sqrt((n + 1.0) / (12.0 * n * n * p * (1.0 - p))) : HUGE_VAL;
}

/* The loss of always predicting the frequencies of two classes. */
static double entropy(double p)
{
    return p > 0.0 && p < 1.0 ? -p * log(p) - (1.0 - p) * log(1.0 - p) : 0.0;
}

/* The training loss is hardly below that of a model that knows only how frequent the classes are. */
static bool learned_nothing(const yk_outcome *r)
{
    const double uniform = log((double)r->classes);
    return r->last.train_loss >
           0.98 * (r->classes == 2 ? fmin(entropy(r->last.majority_accuracy), uniform) : uniform);
}

/* The model has learned something, but the opposite of what the test set says. */
static bool check_reversed(const yk_outcome *r, yk_observation *w)
{
    const yk_evaluation *e = &r->last;
    const double chance = 1.0 / r->classes, n = (double)r->test_examples;
    if (!is_tested(r) || !(e->train_loss < 0.9 * log((double)r->classes)) || learned_nothing(r))
        return false;
    if (r->classes == 2 && e->auc < 0.5 - fmax(5.0 * auc_deviation(r), 0.05))
        warn(w, YK_WARNING_WORSE_THAN_CHANCE,
             "the AUC on the test set is %.3f, worse than chance (0.5), and the training loss is %.4f: the "
             "labels of the test set, or its columns, do not mean the same thing as in the training set",
             e->auc, e->train_loss);
    else if (r->classes > 2 && n > 0.0 && e->accuracy < chance - 5.0 * sqrt(chance * (1.0 - chance) / n))
        warn(w, YK_WARNING_WORSE_THAN_CHANCE,
             "the accuracy on the test set is %.2f %%, worse than chance (%.2f %%), and the training loss is "
             "%.4f: the labels of the test set, or its columns, do not mean the same thing as in the "
             "training set",
             100.0 * e->accuracy, 100.0 * chance, e->train_loss);
    else
        return false;
    return true;
}

static bool is_shifted(const yk_data_check *d)
{
    return d->unseen.share > 0.01 || fabs(d->shifted.train - d->shifted.test) > 0.2;
}

/* The best test loss was long before the end, and the loss has risen clearly since. */
static bool check_overfitting(const yk_outcome *r, yk_observation *w)
{
    const yk_evaluation *e = &r->last;
    const yk_curve_point *last = last_mean(r);
    const double uniform = log((double)r->classes);
    size_t best = 0;
    /* in its first epoch, a model has seen each example once; a shift is a reason of its own for a high test loss */
    if (!is_tested(r) || !last || !(last->epoch >= 1.0) || is_shifted(&r->data))
        return false;
    if (e->test_loss > uniform * 1.02 && e->train_loss < 0.8 * uniform) {
        warn(w, YK_WARNING_OVERFITTING,
             "the test loss %.4f is above %.4f, the loss of a uniform guess, and the training loss is %.4f: "
             "the model overfits the training data; try --l2 1e-6, fewer --epochs, or more data",
             e->test_loss, uniform, e->train_loss);
        return true;
    }
    if (r->points < 5)
        return false;
    for (size_t i = 1; i < r->points; i++)
        if (!(r->point[i].test_loss >= r->point[best].test_loss))
            best = i;
    const yk_curve_point *p = &r->point[best];
    double since = HUGE_VAL; /* the lowest one of the last quarter */
    for (size_t i = r->points - (r->points + 3) / 4; i < r->points; i++)
        since = fmin(since, r->point[i].test_loss);
    if (best + 3 > r->points || !(p->epoch < 0.75 * last->epoch) || since < 1.03 * p->test_loss ||
        last->test_loss < 1.05 * p->test_loss || last->test_loss < p->test_loss + 0.01 * uniform ||
        last->train_loss > 0.8 * p->train_loss)
        return false;
    warn(w, YK_WARNING_OVERFITTING,
         "the test loss was lowest, %.4f, at epoch %.3g of %.3g, and is %.4f at the end: the model overfits "
         "the training data; use --epochs %.0f, --l2, or more data",
         p->test_loss, p->epoch, last->epoch, last->test_loss, fmax(ceil(p->epoch), 1.0));
    return true;
}

/* The loss falls all the time, by about as much at the end as on average: it would fall further. */
static bool falls_steadily(const yk_outcome *r)
{
    const size_t n = r->points, first = n && isfinite(r->point[0].train_loss) ? 0 : 1; /* before step 1 */
    if (n < first + 3)
        return false;
    for (size_t i = first + 1; i < n; i++)
        if (!(r->point[i].train_loss <= 1.0005 * r->point[i - 1].train_loss) || !is_mean(r, &r->point[i]))
            return false;
    const double all = r->point[first].train_loss - r->point[n - 1].train_loss,
                 last = r->point[n - 2].train_loss - r->point[n - 1].train_loss;
    return all > 0.0 && last > 0.4 * all / (double)(n - 1 - first);
}

/* After at least one epoch, the model has hardly left its initial parameters. */
static bool check_too_small(const yk_outcome *r, yk_observation *w)
{
    const yk_evaluation *e = &r->last;
    const double uniform = log((double)r->classes), loss = e->train_loss;
    const yk_curve_point *p = last_mean(r);
    double steps = 0.0, begin = uniform; /* a network may begin above the uniform guess */
    for (size_t i = 0; i < r->points; i++) {
        begin = is_mean(r, &r->point[i]) ? fmax(begin, r->point[i].train_loss) : begin;
        steps += (double)r->point[i].steps;
    }
    if (!p || !(p->epoch >= 0.99) || steps < 50.0 || loss > 1.3 * uniform)
        return false;
    const bool tested = is_tested(r);
    /* it ranks well, but its outputs are still small */
    const bool ranks = tested && e->accuracy > e->majority_accuracy + 0.2 * (1.0 - e->majority_accuracy) &&
                       loss > 0.93 * uniform;
    /* it has not even learned how frequent the classes are */
    const double frequencies = tested && r->classes == 2 ? entropy(e->majority_accuracy) : uniform;
    const bool ignorant =
        frequencies < 0.9 * uniform && e->test_loss > frequencies + 0.3 * (uniform - frequencies);
    /* a model that begins with a uniform guess and learns noise, such as random labels, gets worse than that */
    const bool noise =
        tested && fabs(r->point[0].test_loss - uniform) < 1e-4 * uniform && loss > 1.0003 * uniform;
    char remedy[160];
    const bool usual = r->default_lr > 0.0 && r->lr >= r->default_lr && r->data.large.size > 0.1;
    const bool unchanged = !usual && fabs(loss - begin) < 0.002 * begin &&
                           (r->points > 2 || begin == uniform) &&
                           (!tested || fabs(e->test_loss - loss) < 0.02 * begin);
    const bool slow =
        falls_steadily(r) && loss > 0.85 * begin &&
        (!tested || e->test_loss < r->point[0].test_loss); /* noise only fits the training set */
    if (noise || !(ranks || ignorant || unchanged || slow))
        return false;
    warn(w, YK_WARNING_LR_TOO_SMALL,
         "after %.3g epoch%s and %.0f steps the training loss is %.4f%s, and was never above %.4f: training "
         "is slow with learning rate %g; %s, or more --epochs",
         p->epoch, p->epoch == 1.0 ? "" : "s", steps, loss, slow ? " and still falling" : "", begin, r->lr,
         other_rate(r, false, remedy));
    return true;
}

/* The accuracy goes up and down by several points in the second half of the run. */
static void check_oscillation(const yk_outcome *r, yk_observation *w)
{
    double sum = 0.0, low = HUGE_VAL, high = 0.0, last = (double)NAN, before = 0.0;
    char remedy[160];
    int changes = -1, turns = 0;
    if (!is_tested(r) || r->points < 6)
        return;
    for (size_t i = r->points / 2; i < r->points; i++) {
        const yk_curve_point *p = &r->point[i];
        if (p->examples < SOME_EXAMPLES / 2) /* too close to the one before */
            continue;
        low = fmin(low, p->accuracy);
        high = fmax(high, p->accuracy);
        const double change = isfinite(last) ? p->accuracy - last : 0.0;
        turns += change * before < 0.0;
        sum += fabs(change);
        before = change != 0.0 ? change : before;
        last = p->accuracy;
        changes++;
    }
    const double mean = changes > 0 ? sum / changes : 0.0;
    if (changes < 2 || mean < 0.02 || turns < 0.4 * (changes - 1) || sum < 1.5 * (high - low) ||
        high <= r->last.majority_accuracy ||
        (learned_nothing(r) && r->last.accuracy <= r->last.majority_accuracy))
        return;
    warn(w, YK_WARNING_OSCILLATION,
         "the test accuracy goes up and down between %.1f and %.1f %%, by %.1f points from one evaluation to "
         "the next: the learning rate %g is too large%s; %s%s",
         100.0 * low, 100.0 * high, 100.0 * mean, r->lr, r->asynchronous ? " for asynchronous training" : "",
         other_rate(r, true, remedy), r->asynchronous ? ", a --staleness bound, or fewer --workers" : "");
}

/* The accuracy is that of the majority class; or it is a little better, but the AUC is that of chance. */
static void check_majority(const yk_outcome *r, bool rate, yk_observation *w)
{
    const yk_evaluation *e = &r->last;
    const double majority = e->majority_accuracy, n = (double)r->test_examples;
    const bool chance = fabs(e->auc - 0.5) < fmin(3.0 * auc_deviation(r), 0.03);
    const double better = chance && n > 0.0 ? 2.0 * sqrt(majority * (1.0 - majority) / n) : 1e-9;
    const bool nothing = !rate && (chance || learned_nothing(r));
    char auc[80] = "";
    if ((r->test_examples && r->test_examples < 30) || !e->tested || !(e->accuracy <= majority + better))
        return;
    if (isfinite(e->auc))
        snprintf(auc, sizeof auc, "; look at the AUC, %.3f (0.5 is chance)", e->auc);
    warn(w, YK_WARNING_MAJORITY,
         "accuracy %.2f %% is no better than always predicting the majority class (%.2f %%)%s%s",
         100.0 * e->accuracy, 100.0 * majority, auc,
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
    if (r->examples && r->global_batch > r->examples)
        warn(w, YK_WARNING_BATCH_TOO_LARGE,
             "the data has %llu example%s, fewer than the %llu of one global batch: %s",
             (unsigned long long)r->examples, yk_plural(r->examples), (unsigned long long)r->global_batch,
             r->workers > 1 ? "some workers have none; use a smaller --batch or fewer --workers"
                            : "an epoch is a single step; use a smaller --batch");
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
    const bool reversed = !unlearnable && check_reversed(r, w);
    bool rises = false, too_small = false;
    if (!unlearnable && !reversed) {
        rises = check_rising(r, w);
        too_small = !rises && !check_overfitting(r, w) && check_too_small(r, w);
        check_oscillation(r, w);
        check_majority(r, too_small || rises, w);
    }
    if (!unlearnable && !rises && !too_small)
        check_scales(r, w);
    check_labels(r, reversed, w);
    check_data(r, w);
    if (r->bad_records)
        warn(w, YK_WARNING_BAD_RECORDS, "%llu bad record%s skipped", (unsigned long long)r->bad_records,
             r->bad_records == 1 ? " was" : "s were");
    check_hosts(w);
}
