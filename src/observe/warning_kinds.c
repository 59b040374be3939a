/* The kinds of warnings (warnings.h): their names in summary.json, their titles in reports, and advice. */
#include "observe/warnings.h"

#include <string.h>

const yk_warning_text yk_warning_texts[YK_WARNING_KINDS] = {
    [YK_WARNING_FAILED] =
        {"failed", "Failed run",
         "Its numbers are those up to the failure. Do not compare them with those of complete runs."},
    [YK_WARNING_DIVERGED] =
        {"diverged", "Training diverged",
         "The loss became NaN or infinite, so the results are useless. Lower the learning rate."},
    [YK_WARNING_MAJORITY] = {"majority_accuracy", "Accuracy no better than the majority class",
                             "A model that always predicts the same class gets this accuracy. Judge by the "
                             "AUC or the loss, train longer, or change the learning rate."},
    [YK_WARNING_NO_TRAFFIC] = {"no_traffic", "Processes that exchanged nothing",
                               "They did not train together. Check that they were started as one run."},
    [YK_WARNING_LOSS_ROSE] = {"loss_rose", "Rising loss", "Lower the learning rate, or stop earlier."},
    [YK_WARNING_LR_TOO_SMALL] =
        {"learning_rate_too_small", "Learning rate too small",
         "The training loss has fallen slowly. Try a larger learning rate, or train longer."},
    [YK_WARNING_OSCILLATION] = {"oscillating_accuracy", "Oscillating accuracy",
                                "The result depends on when the run ends. Lower the learning rate; in "
                                "asynchronous training, bound the staleness or use fewer workers."},
    [YK_WARNING_ONE_CLASS] = {"one_class", "Only one class",
                              "There is nothing to learn. Check the labels of the data."},
    [YK_WARNING_CONSTANT_FEATURES] = {"constant_features", "All examples have the same features",
                                      "There is nothing to learn. Check the data."},
    [YK_WARNING_UNSCALED] =
        {"unscaled_features", "Features that are not scaled",
         "The model learns mostly from the columns with large values. Scale the features."},
    [YK_WARNING_UNUSED_CLASS] = {"unused_class", "Labels do not start at 0",
                                 "The model has classes that do not occur. Subtract the smallest label."},
    [YK_WARNING_LABEL_SHIFT] = {"label_shift", "Label distributions of the training and test sets differ",
                                "Check that both are random samples of the same data."},
    [YK_WARNING_WORSE_THAN_CHANCE] = {"worse_than_chance", "Worse than chance",
                                      "The labels or the columns of the test set do not mean the same thing "
                                      "as in the training set. Check both files."},
    [YK_WARNING_TEST_IN_TRAINING] = {"test_in_training", "Test set contains training examples",
                                     "The test results are too optimistic. Use different data for testing."},
    [YK_WARNING_LABEL_LEAK] = {"label_leak", "One feature predicts the label",
                               "Check that this column is not derived from the label."},
    [YK_WARNING_HASH_COLLISIONS] = {"hash_collisions", "Many hash collisions",
                                    "Different keys share a weight. Use a larger --hash-bits."},
    [YK_WARNING_BATCH_TOO_LARGE] = {"batch_too_large", "Fewer examples than one global batch",
                                    "Each step uses all of the data, and some workers may have none. Use a "
                                    "smaller batch or fewer workers."},
    [YK_WARNING_FEWER_UPDATES] =
        {"fewer_updates", "Fewer updates because of a larger batch",
         "At a fixed number of epochs, a larger batch means fewer steps. This alone changes loss and "
         "accuracy. Compare runs with equal steps, or raise the learning rate with the batch."},
    [YK_WARNING_BUSY_HOST] = {"busy_host", "Host busy with other programs",
                              "The run would be faster on an idle host. Measure again."},
    [YK_WARNING_TOO_SHORT] = {"too_short", "Too short to compare",
                              "Start-up and warm-up take much of the time. Compare speeds of runs that take "
                              "at least a few seconds, and accuracies after at least one epoch."},
    [YK_WARNING_DIFFERENT_DATA] = {"different_data", "Different data",
                                   "Losses and accuracies on different data cannot be compared."},
    [YK_WARNING_INCOMPLETE] =
        {"incomplete", "Incomplete run",
         "Its numbers are those of the last line of its log. Continue an interrupted run with --resume."},
    [YK_WARNING_OVERFITTING] =
        {"overfitting", "Overfitting",
         "The test loss was lower earlier in the run. Stop there, or use weight decay."},
    [YK_WARNING_BAD_RECORDS] = {"bad_records", "Bad records in the data", "They were skipped."},
    [YK_WARNING_BAD_LINES] = {"bad_lines", "Unreadable lines in the logs", "They are ignored."},
    [YK_WARNING_OTHER] = {"other", "Other warnings", ""},
};

yk_warning_kind yk_warning_find(const char *name)
{
    int kind = 0;
    while (kind < YK_WARNING_OTHER && strcmp(yk_warning_texts[kind].name, name))
        kind++;
    return (yk_warning_kind)kind;
}
