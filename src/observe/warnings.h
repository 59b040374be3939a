/* Warnings about a run: reasons why its results may not mean what a reader thinks they mean.
 *
 * Training prints them and writes them to summary.json, "warnings": [{"kind": "busy_host", "text": "other programs
 * used ..."}, ...]. Programs should use the kind; the text is for people and may change. `yoke report` groups the warnings of
 * all runs by kind, and adds those that it finds itself.
 *
 * Example:
 *     yk_warning_kind kind = yk_warning_find("busy_host");      // YK_WARNING_OTHER for a kind that is unknown here
 *     const char *name = yk_warning_name(kind);                 // "busy_host"
 *
 * Thread-safe.
 */
#ifndef YK_OBSERVE_WARNINGS_H
#define YK_OBSERVE_WARNINGS_H

/* In the order of the report. Names in summary.json must not change. */
#define YK_WARNING_LIST(X)                                                                                   \
    X(FAILED, "failed")                                                                                      \
    X(DIVERGED, "diverged")                                                                                  \
    X(MAJORITY, "majority_accuracy") /* no better than always predicting the majority class */               \
    X(NO_TRAFFIC, "no_traffic")      /* processes that exchanged nothing */                                  \
    X(LOSS_ROSE, "loss_rose")                                                                                \
    X(LR_TOO_SMALL, "learning_rate_too_small")                                                               \
    X(OSCILLATION, "oscillating_accuracy")                                                                   \
    X(ONE_CLASS, "one_class")                 /* all training examples have the same label */                \
    X(CONSTANT_FEATURES, "constant_features") /* all training examples have the same features */             \
    X(UNSCALED, "unscaled_features")          /* columns have values of very different sizes */              \
    X(UNUSED_CLASS, "unused_class")           /* no training example has the label 0 */                      \
    X(LABEL_SHIFT, "label_shift")             /* training and test labels are distributed differently */     \
    X(WORSE_THAN_CHANCE, "worse_than_chance") /* the labels of the test set mean something else */           \
    X(TEST_IN_TRAINING, "test_in_training")   /* the test set contains training examples */                  \
    X(LABEL_LEAK, "label_leak")               /* one feature predicts the label */                           \
    X(HASH_COLLISIONS, "hash_collisions")                                                                    \
    X(BATCH_TOO_LARGE, "batch_too_large") /* fewer examples than one global batch */                         \
    X(FEWER_UPDATES, "fewer_updates")     /* because the batch is larger */                                  \
    X(BUSY_HOST, "busy_host")                                                                                \
    X(TOO_SHORT, "too_short")                                                                                \
    X(DIFFERENT_DATA, "different_data")                                                                      \
    X(INCOMPLETE, "incomplete")                                                                              \
    X(OVERFITTING, "overfitting")                                                                            \
    X(BAD_RECORDS, "bad_records") /* of the data, skipped */                                                 \
    X(BAD_LINES, "bad_lines")     /* of the logs, skipped */                                                 \
    X(OTHER, "other")

typedef enum {
#define YK_WARNING_ENUM(kind, name) YK_WARNING_##kind,
    YK_WARNING_LIST(YK_WARNING_ENUM)
#undef YK_WARNING_ENUM
        YK_WARNING_KINDS
} yk_warning_kind;

typedef struct {
    yk_warning_kind kind;
    char *text; /* owned */
} yk_warning;

const char *yk_warning_name(yk_warning_kind kind);
yk_warning_kind yk_warning_find(const char *name);

#endif
