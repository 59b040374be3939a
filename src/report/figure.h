/* What a plot shows, as data: the page, the SVG files and the CSV files are all made of it.
 *
 *     yk_figures fs = {0};
 *     st = yk_figures_make(&compare, &fs);       // every figure that the runs have data for
 *     yk_figures_thin(&fs, 3000000);             // so that drawing them all takes about so many bytes
 *     yk_figure_draw(&fs.figure[0], 0, false, &text);      // plot.h
 *     yk_figures_fini(&fs);
 *
 * A figure belongs to all runs (run -1: overlaid curves) or to one of them (its workers). A line has up to three x for
 * each y: step, epoch and seconds. Numbers are copies, owned by the figures; texts of runs are borrowed.
 */
#ifndef YK_REPORT_FIGURE_H
#define YK_REPORT_FIGURE_H

#include "report/compare.h"
#include "report/scale.h"

/* Up to so many runs, plots can carry more than lines: points, rings, a legend each. */
#define YK_FEW_RUNS 12

typedef enum { YK_X_STEP, YK_X_EPOCH, YK_X_SECONDS, YK_X_COUNT } yk_x;

typedef struct {
    char name[96];
    int colour; /* of a run or of a worker; -1: grey */
    int dash;   /* 0: a whole line */
    int run;    /* that it is about; -1: none */
    bool dots;  /* each point is marked */
    size_t n, cap;
    double *x[YK_X_COUNT]; /* [n]; NULL: not on this axis */
    double *y;             /* [n], all finite */
    bool marked;           /* a ring around the point where the curve flattened: */
    double mark_x[YK_X_COUNT], mark_y;
    char mark_text[96];
    bool failed; /* out of memory: it takes no more points */
} yk_series;

typedef enum { YK_LINES, YK_BARS, YK_HISTOGRAM } yk_figure_kind;

typedef struct {
    char id[64];         /* names its files: letters, digits, '-' */
    const char *title;   /* borrowed, as are the texts below */
    const char *x_title; /* LINES with one x that is not among step, epoch, seconds */
    yk_figure_kind kind;
    int run;            /* -1: of all runs */
    bool steps_or_time; /* x is a choice of step, epoch, seconds; else it is x[0] with x_unit */
    yk_unit x_unit, y_unit;
    bool x_log, from_zero;
    double at_least; /* y reaches at least so far; NAN */
    double limit;    /* a line across, what there is; NAN */
    const char *limit_text;
    struct {
        double begin, end;
    } * band; /* alerts: times that are shaded */
    size_t bands, band_cap;
    yk_series *series;
    size_t n, cap;
    yk_series lost; /* stands for one that there was no memory for */
} yk_figure;

typedef struct {
    yk_figure *figure;
    size_t n, cap;
    yk_status status; /* the first error sticks */
} yk_figures;

yk_status yk_figures_make(const yk_compare *c, yk_figures *out);
void yk_figures_fini(yk_figures *fs);

/* Leaves of each series what its shape needs (thin.c), so that all together take about `bytes` to draw and embed. */
void yk_figures_thin(yk_figures *fs, size_t bytes);

/* The points that draw the shape of (x, y): of each of points/2 equal parts of x the lowest and the highest, and both
 * ends. x ascends. Returns how many of keep_out[n] there are: numbers of points, ascending; all of them where n <= points. */
size_t yk_thin(const double *x, const double *y, size_t n, size_t points, size_t *keep_out);

void yk_figure_csv(const yk_figure *f, yk_text *out);

/* Bucket k of a staleness histogram: "0", "1", "2-3", "4-7". */
#define YK_BUCKET_ROOM 48
void yk_bucket_text(size_t k, char *out);

/* Inside. A figure is begun, gets series and points, and ends; out of memory is found out at the end. The figure that
 * yk__figure_add() gives is valid until the next one. */
yk_figure *yk__figure_add(yk_figures *fs, const char *title, const char *format, ...)
    __attribute__((format(printf, 3, 4))); /* NULL: see fs->status */
yk_series *yk__series_add(yk_figure *f, const char *name, int run, unsigned axes);
void yk__series_point(yk_series *s, double step, double epoch, double seconds, double y);
void yk__figure_end(yk_figures *fs); /* of the last one; without points it goes */
void yk__figures_of_run(const yk_compare *c, size_t i, yk_figures *fs);

#endif
