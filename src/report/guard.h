/* Warnings that stand on top of a report: what would make its numbers mean something else than people think.
 *
 *     yk_guards g;
 *     st = yk_guards_make(&compare, &g);
 *     g.guard[i].title, .advice, .item[k].text, .item[k].run     // which runs, with their numbers
 *     yk_guards_fini(&g);
 *
 * A kind of warning comes once, with an item for each run that it is about (run -1: about all of them). Texts that a run
 * wrote about itself (summary.json, "guards") come too, among those of their kind, unless that run is there already.
 */
#ifndef YK_REPORT_GUARD_H
#define YK_REPORT_GUARD_H

#include "report/compare.h"

/* kind, title, what to do, words by which a run's own text on the same matter is known */
#define YK_GUARD_LIST(X)                                                                                     \
    X(FAILED, "Failed",                                                                                      \
      "Its numbers are those up to there, and do not compare with those of runs that came to their end.",    \
      "")                                                                                                    \
    X(DIVERGED, "The loss is no longer a number",                                                            \
      "Training diverged: its results say nothing. Lower the learning rate.", "diverged|not a number")       \
    X(MAJORITY, "Accuracy no better than the commonest class",                                               \
      "A model that has learnt nothing gets this by always giving the same answer. Judge by the AUC or the " \
      "loss, train for longer, or change the learning rate.",                                                \
      "majority|commonest class")                                                                            \
    X(SILENT, "Workers that exchanged nothing",                                                              \
      "They trained side by side, not together: check that they were started as one run.", "exchanged")      \
    X(ROSE, "A loss that rose", "Lower the learning rate, or stop sooner.", "loss rose|training loss")       \
    X(FEWER, "Fewer updates, because the batch grew",                                                        \
      "At a fixed number of epochs a larger batch means fewer steps. Differences in loss and accuracy come " \
      "from that too: compare at equal steps, or raise the learning rate with the batch.",                   \
      "fewer updates")                                                                                       \
    X(BUSY, "A machine that was busy with something else",                                                   \
      "Times and speeds are those of what was left: measure again on a quiet machine.",                      \
      "other programs|busy with")                                                                            \
    X(SHORT, "Too short to compare",                                                                         \
      "Starting up and warming up weigh as much as the work. Compare speeds of runs that take at least "     \
      "some seconds, and accuracies after at least one epoch.",                                              \
      "too short")                                                                                           \
    X(UNLIKE, "Not the same task",                                                                           \
      "Losses and accuracies of different data or models cannot be compared with each other.", "same task")  \
    X(UNENDED, "Not ended",                                                                                  \
      "Numbers are those of the last line that was written. A run that was stopped goes on with --resume.",  \
      "interrupted")                                                                                         \
    X(OVERFIT, "Trained past the best point",                                                                \
      "The test loss was lower before: stop there, or use weight decay.", "overfit|by heart")                \
    X(UNREAD, "Lines that could not be read", "They are left out.", "could not be read")                     \
    X(SAID, "Said by the run itself", "", "")

typedef enum {
#define YK_GUARD_ENUM(name, title, advice, word) YK_GUARD_##name,
    YK_GUARD_LIST(YK_GUARD_ENUM)
#undef YK_GUARD_ENUM
} yk_guard_kind;

typedef struct {
    yk_guard_kind kind;
    const char *title, *advice;
    struct {
        int run;
        char *text;
    } * item;
    size_t items, cap;
} yk_guard;

typedef struct {
    yk_guard guard[YK_GUARD_SAID + 1];
    size_t n;
} yk_guards;

yk_status yk_guards_make(const yk_compare *c, yk_guards *out);
void yk_guards_fini(yk_guards *g);

#endif
