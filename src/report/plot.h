/* Draws a figure as SVG, without a library.
 *
 * In a page, colors come from its style sheet (light or dark), and title and legend are HTML. A file has its own title,
 * legend and light colors.
 *
 *     user units      0 ............................................... 520
 *                 0   unit of y
 *                     | lines                                          |
 *               300   '---- ticks of x, title of x --------------------'     bars: the height depends on their number
 *
 * Attributes tell page.js how to find the number under the mouse: data-box="left top width height", data-xs and
 * data-ys="low high log", and how to print it: data-units="format of x, format of y".
 *
 * Example:
 *     yk_figure_draw(&figure, YK_X_EPOCH, YK_DRAW_PAGE, &text);   // an <svg> element
 *     yk_figure_draw(&figure, YK_X_EPOCH, YK_DRAW_FILE, &text);   // a whole SVG file
 *
 * One thread per text.
 */
#ifndef YK_REPORT_PLOT_H
#define YK_REPORT_PLOT_H

#include "report/figure.h"

#define YK_COLORS 8 /* further lines use them again, dashed */
#define YK_DASHES 5

typedef enum { YK_DRAW_PAGE, YK_DRAW_FILE } yk_draw;

extern const char *const yk_x_names[YK_X_COUNT]; /* "step" */

/* A figure has YK_X_COUNT drawings if the reader chooses x (f->steps_or_time), else one: x is 0. */
static inline int yk_figure_drawings(const yk_figure *f)
{
    return f->steps_or_time ? YK_X_COUNT : 1;
}

void yk_figure_draw(const yk_figure *f, yk_x x, yk_draw how, yk_text *out);

/* The entries of a legend, of lines and bars: these have one for each phase. Returns its name, and sets its CSS classes; NULL: it does not occur. */
size_t yk_figure_entries(const yk_figure *f);
const char *yk_figure_entry(const yk_figure *f, size_t i, char *class /* [16] */);

yk_axis yk_figure_y_axis(const yk_figure *f);

/* Internal: the size of a plot of lines in user units. */
enum { YK__WIDTH = 520, YK__HEIGHT = 300 };

#endif
