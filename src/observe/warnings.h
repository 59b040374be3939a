/* Warnings about a run: reasons why its results may not mean what a reader thinks they mean.
 *
 * Training prints them and writes them to summary.json, "warnings": [{"kind": "busy_host", "text": "other programs
 * used ..."}, ...]. Programs should use the kind; the text is for people and may change. `yoke report` groups the warnings of
 * all runs by kind, and adds those that it finds itself.
 *
 * Example:
 *     yk_warning_kind kind = yk_warning_find("busy_host");      // YK_WARNING_OTHER for a kind that is unknown here
 *     const char *title = yk_warning_texts[kind].title;         // "Host busy with other programs"
 *
 * Thread-safe.
 */
#ifndef YK_OBSERVE_WARNINGS_H
#define YK_OBSERVE_WARNINGS_H

#include <stdint.h>

/* kind, name in summary.json (must not change), title and advice in the report; in the order of the report */
#define YK_WARNING_LIST(X)                                                                                   \
    X(FAILED, "failed", "Failed run",                                                                        \
      "Its numbers are those up to the failure. Do not compare them with those of complete runs.")           \
    X(DIVERGED, "diverged", "Training diverged",                                                             \
      "The loss became NaN or infinite, so the results are useless. Lower the learning rate.")               \
    X(MAJORITY, "majority_accuracy", "Accuracy no better than the majority class",                           \
      "A model that always predicts the same class gets this accuracy. Judge by the AUC or the loss, "       \
      "train longer, or change the learning rate.")                                                          \
    X(NO_TRAFFIC, "no_traffic", "Processes that exchanged nothing",                                          \
      "They did not train together. Check that they were started as one run.")                               \
    X(LOSS_ROSE, "loss_rose", "Rising loss", "Lower the learning rate, or stop earlier.")                    \
    X(LR_TOO_SMALL, "learning_rate_too_small", "Learning rate too small",                                    \
      "The training loss has fallen slowly. Try a larger learning rate, or train longer.")                   \
    X(OSCILLATION, "oscillating_accuracy", "Oscillating accuracy",                                           \
      "The result depends on when the run ends. Lower the learning rate; in asynchronous training, bound "   \
      "the staleness or use fewer workers.")                                                                 \
    X(ONE_CLASS, "one_class", "Only one class", "There is nothing to learn. Check the labels of the data.")  \
    X(CONSTANT_FEATURES, "constant_features", "All examples have the same features",                         \
      "There is nothing to learn. Check the data.")                                                          \
    X(UNSCALED, "unscaled_features", "Features that are not scaled",                                         \
      "The model learns mostly from the columns with large values. Scale the features.")                     \
    X(UNUSED_CLASS, "unused_class", "Labels do not start at 0",                                              \
      "The model has classes that do not occur. Subtract the smallest label.")                               \
    X(LABEL_SHIFT, "label_shift", "Label distributions of the training and test sets differ",                \
      "Check that both are random samples of the same data.")                                                \
    X(WORSE_THAN_CHANCE, "worse_than_chance", "Worse than chance",                                           \
      "The labels or the columns of the test set do not mean the same thing as in the training set. "        \
      "Check both files.")                                                                                   \
    X(WORSE_THAN_MEAN, "worse_than_mean", "Worse than the mean label",                                       \
      "Always predicting the mean label has a lower loss. Change the learning rate, or train longer.")       \
    X(TEST_IN_TRAINING, "test_in_training", "Test set contains training examples",                           \
      "The test results are too optimistic. Use different data for testing.")                                \
    X(LABEL_LEAK, "label_leak", "One feature predicts the label",                                            \
      "Check that this column is not derived from the label.")                                               \
    X(HASH_COLLISIONS, "hash_collisions", "Many hash collisions",                                            \
      "Different keys share a weight. Use a larger --hash-bits.")                                            \
    X(BATCH_TOO_LARGE, "batch_too_large", "Fewer examples than one global batch",                            \
      "Each step uses all of the data, and some workers may have none. Use a smaller batch or fewer "        \
      "workers.")                                                                                            \
    X(FEWER_UPDATES, "fewer_updates", "Fewer updates because of a larger batch",                             \
      "At a fixed number of epochs, a larger batch means fewer steps. This alone changes loss and "          \
      "accuracy. Compare runs with equal steps, or raise the learning rate with the batch.")                 \
    X(BUSY_HOST, "busy_host", "Host busy with other programs",                                               \
      "The run would be faster on an idle host. Measure again.")                                             \
    X(TOO_SHORT, "too_short", "Too short to compare",                                                        \
      "Start-up and warm-up take much of the time. Compare speeds of runs that take at least a few "         \
      "seconds, and accuracies after at least one epoch.")                                                   \
    X(DIFFERENT_DATA, "different_data", "Different data",                                                    \
      "Losses and accuracies on different data cannot be compared.")                                         \
    X(INCOMPLETE, "incomplete", "Incomplete run",                                                            \
      "Its numbers are those of the last line of its log. Continue an interrupted run with --resume.")       \
    X(OVERFITTING, "overfitting", "Overfitting",                                                             \
      "The test loss was lower earlier in the run. Stop there, or use weight decay.")                        \
    X(BAD_RECORDS, "bad_records", "Bad records in the data", "They were skipped.")                           \
    X(BAD_LINES, "bad_lines", "Unreadable lines in the logs", "They are ignored.")                           \
    X(OTHER, "other", "Other warnings", "")

typedef enum {
#define YK_WARNING_ENUM(kind, name, title, advice) YK_WARNING_##kind,
    YK_WARNING_LIST(YK_WARNING_ENUM)
#undef YK_WARNING_ENUM
        YK_WARNING_KINDS
} yk_warning_kind;

typedef struct {
    const char *name, *title, *advice; /* advice "": none */
} yk_warning_text;

extern const yk_warning_text yk_warning_texts[YK_WARNING_KINDS];

typedef struct {
    yk_warning_kind kind;
    char *text; /* owned */
} yk_warning;

/* The text of YK_WARNING_BATCH_TOO_LARGE, which is printed before training; NULL: the data has a global batch. The caller frees it. */
char *yk_batch_warning(uint64_t examples, uint64_t global_batch, int workers);

yk_warning_kind yk_warning_find(const char *name);

#endif
