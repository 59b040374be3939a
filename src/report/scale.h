/* Numbers with units, and axes with round ticks.
 *
 * An axis shows its unit once, as a word beside it; its ticks are short numbers with the same number of decimals.
 *
 * Example:
 *     char s[YK_UNIT_SIZE];
 *     yk_unit_text(YK_UNIT_BYTES, 123456789, s);                     // "123 MB"
 *     yk_axis a = yk_axis_make(YK_UNIT_SECONDS, 0, 4000, 6, false);  // a.word is "minutes"
 *     yk_axis_text(&a, a.tick[1], s);                                // a.tick[1] is 600: "10"
 *
 * Plain data, no errors. Thread-safe.
 */
#ifndef YK_REPORT_SCALE_H
#define YK_REPORT_SCALE_H

#include <stdbool.h>

/* unit, the word after a number, the factor to it, whether it also has a prefix (k, M, ...), its name in page.js */
#define YK_UNIT_LIST(X)                                                                                      \
    X(PLAIN, "", 1.0, false, "plain")            /* 0.3045 */                                                \
    X(SHORT, "", 1.0, false, "short")            /* 0.1, as typed */                                         \
    X(COUNT, "", 1.0, true, "count")             /* 12.5 k */                                                \
    X(INTEGER, "", 1.0, false, "whole")          /* 12,500 */                                                \
    X(PERCENT_EXACT, "%", 100.0, false, "share") /* 0.9174 is 91.74 % */                                     \
    X(PERCENT, "%", 100.0, false, "share")       /* 0.4723 is 47 % */                                        \
    X(SECONDS, "s", 1.0, false, "seconds")       /* 0.56 s, 12.3 s, 3:05 min, 2:10 h */                      \
    X(BYTES, "B", 1.0, true, "bytes")            /* 123 MB */                                                \
    X(RATE, "B/s", 1.0, true, "rate")            /* 12.5 MB/s */                                             \
    X(CORES, "", 1.0, false, "cores")            /* 1.85 */                                                  \
    X(TIMES, "\u00d7", 1.0, false, "times")      /* 2.41 x */                                                \
    X(POINTS, "", 100.0, false, "plain")         /* a difference of shares: +0.25 points */

typedef enum {
#define YK_UNIT_ENUM(unit, word, factor, prefix, script) YK_UNIT_##unit,
    YK_UNIT_LIST(YK_UNIT_ENUM)
#undef YK_UNIT_ENUM
} yk_unit;

#define YK_UNIT_SIZE 40

/* A number with its unit; a dash if it is not finite. Returns `out`. */
const char *yk_unit_text(yk_unit unit, double x, char *out /* [YK_UNIT_SIZE] */);

/* A mean and a standard deviation, in the same unit, with no more digits than the deviation justifies: "7.1 k", "8.5 k";
 * "91.74 %", "0.12". A deviation that would be 0 is "". */
void yk_unit_pair(yk_unit unit, double mean, double spread, char *mean_out, char *spread_out);

#define YK_AXIS_TICKS 16

typedef struct {
    double low, high;
    bool log; /* logarithmic; low > 0 */
    int ticks;
    double tick[YK_AXIS_TICKS];
    double factor; /* a tick is labeled tick * factor */
    int decimals;  /* of the labels; -1: as many as necessary */
    char word[16]; /* "" for a plain number */
} yk_axis;

/* From low to high, extended to the next ticks unless `snug`; with about `want` ticks. */
yk_axis yk_axis_make(yk_unit unit, double low, double high, int want, bool snug);
/* Powers of ten, or of two for small whole numbers. */
yk_axis yk_axis_log(yk_unit unit, double low, double high);

double yk_axis_at(const yk_axis *a, double x); /* 0 at low, 1 at high */
const char *yk_axis_text(const yk_axis *a, double x, char *out /* [YK_UNIT_SIZE] */); /* returns `out` */

#endif
