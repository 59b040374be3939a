/* A figure drawn as SVG, by hand: no library, no font file, no script.
 *
 *     yk_figure_draw(&figure, YK_X_EPOCH, YK_DRAW_PAGE, &text);   // one <svg>, for the page
 *     yk_figure_draw(&figure, YK_X_EPOCH, YK_DRAW_FILE, &text);   // a whole SVG file, with title, legend and colours
 *
 * In a page the colours come from its style sheet (so that they follow light and dark) and the title and the legend are
 * HTML beside it; a file brings its own, in light colours.
 *
 *     user units      0 ............................................... 520
 *                 0   unit of y
 *                     | lines                                          |
 *               300   '---- ticks of x, title of x --------------------'     bars: as high as they are many
 *
 * Every plot says in attributes how its numbers became places, so that a script can find the number under the mouse:
 * data-box="left top width height", data-xs and data-ys="low high log".
 */
#ifndef YK_REPORT_PLOT_H
#define YK_REPORT_PLOT_H

#include "report/figure.h"

#define YK_COLOURS 8 /* then the same ones again, dashed */
#define YK_DASHES  5

typedef enum { YK_DRAW_PAGE, YK_DRAW_FILE } yk_draw;

/* `x` counts where the figure has a choice (f->steps_or_time). */
void yk_figure_draw(const yk_figure *f, yk_x x, yk_draw how, yk_text *out);

/* Which axes there are data for: the number of them, their numbers in axes_out. */
int yk_figure_axes(const yk_figure *f, yk_x axes_out[YK_X_COUNT]);

/* The class names of a line: colour and dash. */
void yk_series_class(const yk_series *s, char *out /* [16] */);

/* The unit of y in a word, "" for plain numbers: as on the axis. */
yk_axis yk_figure_y_axis(const yk_figure *f);

/* Inside: what kinds of plots share. */
enum { YK__WIDTH = 520, YK__HEIGHT = 300, YK__LEFT = 54, YK__RIGHT = 12, YK__TOP = 26, YK__BOTTOM = 40 };

typedef struct {
    double left, top, width, height;
} yk__box;

void yk__draw_open(const yk_figure *f, const char *data, double height, yk_draw how, yk_text *out);
void yk__draw_close(yk_draw how, yk_text *out);
void yk__draw_legend(const yk_figure *f, double top, yk_text *out);
double yk__legend_height(const yk_figure *f);
void yk__draw_y(const yk_axis *y, const yk__box *b, yk_text *out);
void yk__draw_bars(const yk_figure *f, yk_draw how, yk_text *out);
void yk__draw_histogram(const yk_figure *f, yk_draw how, yk_text *out);

#endif
