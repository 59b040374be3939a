/* Numbers as people read them, and axes with round ticks.
 *
 *     char s[YK_UNIT_ROOM];
 *     yk_unit_text(YK_UNIT_BYTES, 123456789, s);             // "123 MB"
 *     yk_axis a = yk_axis_make(YK_UNIT_SECONDS, 0, 4000, 6, false);
 *     a.word                                                  // "minutes"
 *     a.tick[1], yk_axis_text(&a, a.tick[1], s)               // 600, "10"
 *
 * An axis says its unit once, in a word beside it, and its ticks are short numbers with equally many decimals. Plain
 * data, no errors.
 */
#ifndef YK_REPORT_SCALE_H
#define YK_REPORT_SCALE_H

#include <stdbool.h>

typedef enum {
    YK_UNIT_PLAIN,   /* 0.3045 */
    YK_UNIT_SHORT,   /* 0.1, as somebody typed it */
    YK_UNIT_COUNT,   /* 12.5 k */
    YK_UNIT_WHOLE,   /* 12,500 */
    YK_UNIT_SHARE,   /* 0.9174 is 91.74 % */
    YK_UNIT_SECONDS, /* 0.56 s, 12.3 s, 3:05 min, 2:10 h */
    YK_UNIT_BYTES,   /* 123 MB */
    YK_UNIT_RATE,    /* 12.5 MB/s */
    YK_UNIT_CORES,   /* 1.85 */
    YK_UNIT_TIMES,   /* 2.41 x */
    YK_UNIT_POINTS,  /* a difference of shares: +0.25 points */
} yk_unit;

#define YK_UNIT_ROOM 40

/* What is not a number is a dash. */
void yk_unit_text(yk_unit unit, double x, char *out);

#define YK_AXIS_TICKS 16

typedef struct {
    double low, high;
    bool log; /* positions by logarithm; low > 0 */
    int ticks;
    double tick[YK_AXIS_TICKS];
    double factor;    /* a tick's text is of tick * factor */
    int decimals;     /* of it; -1: as many as it needs */
    const char *word; /* "" for a plain number */
} yk_axis;

/* From low to high, or a little beyond to end at ticks (`snug`: at the values themselves); about `want` ticks. */
yk_axis yk_axis_make(yk_unit unit, double low, double high, int want, bool snug);
yk_axis yk_axis_log(yk_unit unit, double low,
                    double high); /* powers of ten, or of two for small whole numbers */

double yk_axis_at(const yk_axis *a, double x); /* 0 at low, 1 at high */
void yk_axis_text(const yk_axis *a, double x, char *out /* YK_UNIT_ROOM */);

#endif
