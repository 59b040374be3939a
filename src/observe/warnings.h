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

/* In the order of the report; warnings.c says what each of them means. */
typedef enum {
    YK_WARNING_FAILED,
    YK_WARNING_DIVERGED,
    YK_WARNING_MAJORITY,
    YK_WARNING_NO_TRAFFIC,
    YK_WARNING_LOSS_ROSE,
    YK_WARNING_LR_TOO_SMALL,
    YK_WARNING_OSCILLATION,
    YK_WARNING_ONE_CLASS,
    YK_WARNING_CONSTANT_FEATURES,
    YK_WARNING_UNSCALED,
    YK_WARNING_UNUSED_CLASS,
    YK_WARNING_LABEL_SHIFT,
    YK_WARNING_WORSE_THAN_CHANCE,
    YK_WARNING_TEST_IN_TRAINING,
    YK_WARNING_LABEL_LEAK,
    YK_WARNING_HASH_COLLISIONS,
    YK_WARNING_BATCH_TOO_LARGE,
    YK_WARNING_FEWER_UPDATES,
    YK_WARNING_BUSY_HOST,
    YK_WARNING_TOO_SHORT,
    YK_WARNING_DIFFERENT_DATA,
    YK_WARNING_INCOMPLETE,
    YK_WARNING_OVERFITTING,
    YK_WARNING_BAD_RECORDS,
    YK_WARNING_BAD_LINES,
    YK_WARNING_OTHER,
    YK_WARNING_KINDS
} yk_warning_kind;

typedef struct {
    const char *name;           /* in summary.json: must not change */
    const char *title, *advice; /* in the report; advice "": none */
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
