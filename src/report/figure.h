/* What a plot shows, as data. The page, the SVG files and the CSV files are all made from it.
 *
 * A figure is about all runs (run -1: a curve for each group of runs) or about one run (its processes). A point of a line has
 * up to four x values: step, epoch, examples and seconds. With many groups there are several figures of the same kind, one per
 * panel (compare.h), with the same y axis.
 *
 * Example:
 *     yk_figures figures;
 *     yk_status st = yk_figures_make(&compare, &figures);       // every figure that the runs have data for
 *     yk_figures_thin(&figures, 3000000);                       // so that drawing all of them takes about 3 MB
 *     if (!st && figures.n)
 *         yk_figure_draw(&figures.figure[0], YK_X_EPOCH, YK_DRAW_PAGE, &text);
 *     yk_figures_fini(&figures);
 *
 * Points are owned by the figures; texts are borrowed from the runs. Not thread-safe.
 */
#ifndef YK_REPORT_FIGURE_H
#define YK_REPORT_FIGURE_H

#include "report/compare.h"

typedef enum { YK_X_STEP, YK_X_EPOCH, YK_X_EXAMPLES, YK_X_SECONDS, YK_X_COUNT } yk_x;

typedef struct {
    double x[YK_X_COUNT]; /* finite on the axes of the series */
    double y;             /* finite */
    double spread;        /* the standard deviation over seeds; 0 or NAN: none */
} yk_point;

typedef struct {
    char name[96];
    int axes;    /* points have x[0 .. axes - 1]: all four, or one */
    int color;   /* number of a run or of a worker; -1: gray */
    int dash;    /* 0: solid */
    int run;     /* the entry of the page's legend (a line of compare.h); -1: none */
    bool dots;   /* each point is marked */
    bool bars;   /* the spread is drawn as error bars, not as a band */
    bool marked; /* a ring around `mark`, where the curve flattened */
    yk_point mark;
    yk_point *point;
    size_t n, cap;
    yk_status *status; /* of all figures: after an error, points are ignored */
} yk_series;

/* MATRIX: a row for each series, and as many columns, whose names are those of the rows; the y of a point is a cell. HISTOGRAM: the
 * same with buckets as columns. */
typedef enum { YK_LINES, YK_BARS, YK_HISTOGRAM, YK_MATRIX } yk_figure_kind;

enum { YK_MAX_MATRIX = 40 }; /* rows: more would be unreadable */

typedef struct {
    char id[160];              /* unique; the name of its files, from its name: letters, digits, '.', '-' */
    const char *title;         /* borrowed, as are the texts below */
    char panel[YK_LABEL_SIZE]; /* one of several figures with this title: "batch 5"; "": the only one */
    const char *of;            /* the label of one of several runs; NULL: all of them, or the only one */
    const char *x_title;       /* LINES whose x is a column of a table; NULL: x is time */
    const char *section;       /* "metrics": in this part of its run; NULL: where its kind belongs */
    yk_figure_kind kind;
    int run; /* -1: all runs */
    /* The reader chooses x: step, epoch, examples or seconds; else it is x[0], in x_unit. Set before series are added. */
    bool steps_or_time;
    yk_unit x_unit, y_unit;
    bool x_log, from_zero;
    double low, high;       /* the y axis has at least this range; NAN: any */
    double limit;           /* a horizontal line: the capacity; NAN: none */
    const char *limit_text; /* its label */
    struct {
        double begin, end;
    } * band; /* shaded times: alerts */
    size_t bands, band_cap;
    yk_series *series;
    size_t n, cap;
    yk_series spare;   /* returned after an error */
    yk_status *status; /* of all figures */
} yk_figure;

typedef struct {
    yk_figure *figure;
    size_t n, cap;
    yk_figure spare;  /* returned after an error */
    yk_status status; /* the first error */
} yk_figures;

yk_status yk_figures_make(const yk_compare *c, yk_figures *out);
void yk_figures_fini(yk_figures *fs);

/* Removes points that do not change the shape of a line, until drawing and embedding all of them takes about `bytes`. */
void yk_figures_thin(yk_figures *fs, size_t bytes);

void yk_figure_csv(const yk_figure *f, yk_text *out);

/* Bucket k of a staleness histogram: "0", "1", "2-3", "4-7". */
#define YK_BUCKET_SIZE 48
const char *yk_bucket_text(size_t k, char *out); /* returns `out` */

/* "Test accuracy: batch 5", "Memory over time: run sync, 2 workers". */
const char *yk_figure_name(const yk_figure *f, char *out /* [256] */); /* returns `out` */

/* Internal. Adds a figure, then its series and points; yk__figure_end() checks for errors. Pointers are valid until the
 * next figure or series is added. */
/* panel, of: as in yk_figure; NULL: none. */
yk_figure *yk__figure_add(yk_figures *fs, const char *title, const char *panel, const char *of);
yk_series *yk__series_add(yk_figure *f, const char *name, int run);
void yk__series_put(yk_series *s, const yk_point *p);
void yk__series_point(yk_series *s, double x, double y); /* a point with one x */
void yk__figure_end(yk_figures *fs);                     /* removes the figure if it has no points */

/* The mean of several series, at the points of the first one that all of them reach. Frees their points. */
void yk__series_mean(yk_series *part, size_t n, yk_series *out);

/* The lowest and the highest x of an axis, or y if `axis` is -1, optionally including the spread. */
void yk__figure_range(const yk_figure *f, int axis, bool spread, double *low_out, double *high_out);

/* The figures from number `first` on get the same y axis, unless that would flatten the curves of one of them. */
void yk__figures_share_y(yk_figures *fs, size_t first);

/* A resource over time: of all runs, each the sum of its processes; and of each process of a run. Not shown if it is 0: threads
 * send nothing. */
typedef struct {
    const char *title;
    yk_unit unit;
    size_t offset;     /* in yk_run_sample */
    const char *alert; /* the name of its alerts; "": none */
    const char *limit; /* the label of the capacity of the host; NULL: it is not shown */
    size_t capacity;   /* in yk_process_log */
    bool host;         /* with all programs on the host */
} yk__resource;

enum { YK__RESOURCES = 6 };
extern const yk__resource yk__resources[YK__RESOURCES];

void yk__figures_of_runs(const yk_compare *c, yk_figures *fs); /* all of them */
void yk__figures_of_tables(const yk_compare *c, yk_figures *fs);
void yk__figures_of_run(const yk_compare *c, size_t i, yk_figures *fs);

#endif
