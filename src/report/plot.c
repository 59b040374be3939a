#include "report/plot.h"

#include "base/json.h"
#include <stdio.h>

/* The colors of a file; those of the page are in observe/page.css. They can be told apart by color-blind readers, and in gray by
 * their dashes. */
static const char file_style[] =
    "svg{background:#fff}text{font:12px system-ui,sans-serif;fill:#555}"
    ".title{font-size:14px;font-weight:600;fill:#111}.grid{stroke:#e6e6e6;stroke-width:1}"
    ".axis{stroke:#999;stroke-width:1}.limit{stroke:#888;stroke-width:1;stroke-dasharray:2 3}"
    ".band{fill:#d1570b;fill-opacity:.1}path{fill:none;stroke-linejoin:round;stroke-linecap:round}"
    ".line,.key{stroke-width:1.6}.dot{stroke-width:5}.ring{fill:none;stroke-width:1.6}.e{text-anchor:end}"
    ".m{text-anchor:middle}.c0{stroke:#0068b5}.c1{stroke:#d1570b}.c2{stroke:#00805e}.c3{stroke:#b03a86}"
    ".c4{stroke:#d99a00}.c5{stroke:#23272d}.c6{stroke:#7a5bd0}.c7{stroke:#58b1e4}.cx{stroke:#999}"
    ".f0{fill:#0068b5}.f1{fill:#d1570b}.f2{fill:#00805e}.f3{fill:#b03a86}.f4{fill:#d99a00}.f5{fill:#23272d}"
    ".f6{fill:#7a5bd0}.f7{fill:#58b1e4}.whisker{stroke-width:1.2}.spread{fill-opacity:.16;stroke:none}"
    ".d1{stroke-dasharray:6 3}.d2{stroke-dasharray:2 3}.d3{stroke-dasharray:8 3 2 3}"
    ".d4{stroke-dasharray:12 4}.over{stroke-dasharray:12 16}.p0{fill:#e08a00}.p1{fill:#0068b5}"
    ".p2{fill:#b03a86}.p3{fill:#e2a6cc}.p4{fill:#d1570b}.p5{fill:#00805e}.p6{fill:#86b8dd}.p7{fill:#9c9c9c}"
    ".on{fill:#fff}.p8{fill:#d5d5d5}.p9{fill:#e9e2c8}.p10{fill:#c9a227}.p11{fill:#6b4fa0}";

const char *const yk_x_names[YK_X_COUNT] = {"step", "epoch", "examples", "seconds"};

/* The CSS classes of a line: color and dash. */
static void series_class(const yk_series *s, char *out)
{
    if (s->color < 0)
        snprintf(out, 16, "cx d%d", s->dash % YK_DASHES);
    else
        snprintf(out, 16, "c%d d%d", s->color % YK_COLORS, (s->color / YK_COLORS + s->dash) % YK_DASHES);
}

/* ---- shared by all kinds ---- */

enum { LEFT = 54, RIGHT = 12, TOP = 26, BOTTOM = 40 }; /* margins */

typedef struct {
    double left, top, width, height;
} box;

static const box plot_box = {LEFT, TOP, YK__WIDTH - LEFT - RIGHT, YK__HEIGHT - TOP - BOTTOM};

/* An estimate for a wide font: the real width is unknown without the font. */
static double text_width(const char *s)
{
    return 7.4 * yk_utf8_width(s, strlen(s));
}

size_t yk_figure_entries(const yk_figure *f)
{
    return f->kind == YK_BARS ? YK_PHASES : f->kind == YK_LINES && f->n > 1 ? f->n : 0;
}

const char *yk_figure_entry(const yk_figure *f, size_t i, char *class)
{
    if (f->kind == YK_LINES) {
        series_class(&f->series[i], class);
        return f->series[i].name;
    }
    bool any = false;
    for (size_t k = 0; k < f->n; k++)
        any |= i < f->series[k].n && f->series[k].point[i].y >= 0.0005;
    snprintf(class, 16, "p%d", (int)i);
    return any ? yk_phase_words[i] : NULL;
}

/* The legend, in columns as wide as the longest entry; returns its height. out NULL: only measures it. */
static double draw_legend(const yk_figure *f, double top, yk_text *out)
{
    enum { MARGIN = 10 };
    double widest = 1.0;
    size_t n = 0, at = 0;
    char class[16];
    const char *name;
    for (size_t i = 0; i < yk_figure_entries(f); i++)
        if ((name = yk_figure_entry(f, i, class))) {
            widest = fmax(widest, 38.0 + text_width(name));
            n++;
        }
    size_t columns = (size_t)((YK__WIDTH - MARGIN) / widest);
    columns = columns < 1 ? 1 : columns < n ? columns : n;
    for (size_t i = 0; out && i < yk_figure_entries(f); i++) {
        const double x = MARGIN + (double)(at % columns) * widest,
                     y = top + 14.0 + 17.0 * (double)(at / columns);
        if (!(name = yk_figure_entry(f, i, class)))
            continue;
        if (f->kind == YK_LINES)
            yk_text_print(out, "<path class=\"key %s\" d=\"M%.1f %.1fh16\"/>", class, x, y - 4.0);
        else
            yk_text_print(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"10\"/>", class,
                          x, y - 9.0);
        yk_html(out, "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n", x + 20.0, y, name);
        at++;
    }
    return n ? 24.0 + 17.0 * (double)((n - 1) / columns) : 0.0;
}

static void draw_open(const yk_figure *f, const char *data, double height, yk_draw how, yk_text *out)
{
    char name[256];
    yk_figure_name(f, name);
    if (how == YK_DRAW_PAGE) {
        yk_html(out, "<svg viewBox=\"0 0 %d %.0f\" role=\"img\" aria-label=\"%s\" data-f=\"%s\"", YK__WIDTH,
                height, name, f->id);
        yk_text_print(out, "%s>", data);
        return;
    }
    const double all = height + 26.0 + draw_legend(f, height, NULL);
    /* a long title is small */
    const double font = fmin(14.0, 12.0 * (YK__WIDTH - LEFT) / text_width(name));
    yk_html(out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" "
            "width=\"%d\" height=\"%.0f\" viewBox=\"0 -26 %d %.0f\">\n<style>%s</style>\n<rect y=\"-26\" "
            "width=\"%d\" height=\"%.0f\" fill=\"#fff\"/>\n<text class=\"title\" x=\"%d\" "
            "y=\"-8\" style=\"font-size:%.1fpx\">%s</text>\n",
            YK__WIDTH, all, YK__WIDTH, all, file_style, YK__WIDTH, all, LEFT, font, name);
    draw_legend(f, height, out);
}

static void draw_y(const yk_axis *y, const box *b, yk_text *out)
{
    char s[YK_UNIT_SIZE];
    for (int i = 0; i < y->ticks; i++) {
        double at = b->top + b->height * (1.0 - yk_axis_at(y, y->tick[i]));
        yk_text_print(
            out,
            "<path class=\"grid\" d=\"M%.0f %.1fh%.0f\"/><text class=\"e\" x=\"%.0f\" y=\"%.1f\">%s</text>",
            b->left, at, b->width, b->left - 7.0, at + 4.0, yk_axis_text(y, y->tick[i], s));
    }
    if (*y->word)
        yk_text_print(out, "<text class=\"u\" x=\"2\" y=\"%.0f\">%s</text>", b->top - 14.0, y->word);
}

/* ---- lines ---- */

yk_axis yk_figure_y_axis(const yk_figure *f)
{
    double low, high;
    yk__figure_range(f, -1, false, &low, &high);
    low = fmin(low, f->low); /* ignores NaN */
    high = fmax(high, f->high);
    /* a loss that falls by more would look like a corner */
    if (f->y_unit == YK_UNIT_PLAIN && !f->from_zero && low > 0.0 && high > 30.0 * low)
        return yk_axis_log(f->y_unit, low, high);
    double below, above;
    yk__figure_range(f, -1, true, &below, &above);
    low = f->from_zero                         ? 0.0
          : f->y_unit == YK_UNIT_PERCENT_EXACT ? fmax(0.0, fmin(low, below))
                                               : fmin(low, below);
    high = fmax(high, above);
    if (f->from_zero && high <= 0.0)
        high = f->y_unit == YK_UNIT_RATE || f->y_unit == YK_UNIT_BYTES ? 1000.0 : 1.0;
    /* noise around a constant must not fill the plot */
    double min = f->y_unit == YK_UNIT_PERCENT_EXACT ? 0.004 : 0.004 * fabs(high);
    if (high - low < min) {
        double middle = (low + high) / 2.0;
        low = middle - min / 2.0;
        high = middle + min / 2.0;
    }
    if (f->y_unit == YK_UNIT_PERCENT_EXACT && high > 1.0)
        high = 1.0;
    return yk_axis_make(f->y_unit, low, high, 5, false);
}

/* One tick per x if there are few: batch sizes are 5 and 20, not powers. */
static void at_points(const yk_figure *f, yk_axis *x)
{
    double tick[YK_AXIS_TICKS];
    int n = 0;
    for (size_t i = 0; i < f->n; i++)
        for (size_t k = 0; k < f->series[i].n; k++) {
            double v = f->series[i].point[k].x[0];
            int at = 0;
            while (at < n && tick[at] < v)
                at++;
            if (at < n && tick[at] == v)
                continue;
            if (n == YK_AXIS_TICKS)
                return;
            memmove(tick + at + 1, tick + at, (size_t)(n - at) * sizeof *tick);
            tick[at] = v;
            n++;
        }
    memcpy(x->tick, tick, sizeof tick);
    x->ticks = n;
}

static yk_axis x_axis(const yk_figure *f, int axis)
{
    static const yk_unit units[YK_X_COUNT] = {YK_UNIT_INTEGER, YK_UNIT_SHORT, YK_UNIT_INTEGER,
                                              YK_UNIT_SECONDS};
    double low, high;
    yk__figure_range(f, axis, false, &low, &high);
    if (f->x_log) {
        yk_axis x = yk_axis_log(f->x_unit, low / 1.12, high * 1.12);
        at_points(f, &x);
        return x;
    }
    bool counted = f->x_title && f->x_unit == YK_UNIT_INTEGER; /* workers: begin with the fewest */
    if (counted)
        low -= 0.2, high += 0.2;
    else if (f->steps_or_time && low > 0.1 * high && high > low) /* few evaluations: begin with the first */
        low -= 0.02 * (high - low);
    else
        low = fmin(low, 0.0);
    return yk_axis_make(f->steps_or_time ? units[axis] : f->x_unit, low, high, 6, true);
}

static const char *x_words(const yk_figure *f, int axis, const yk_axis *x, char *out)
{
    const char *name = f->x_title ? f->x_title : f->steps_or_time ? yk_x_names[axis] : "seconds";
    if (f->steps_or_time && (axis == YK_X_STEP || axis == YK_X_EXAMPLES) && *x->word)
        snprintf(out, 64, "%s of %s", x->word, axis == YK_X_STEP ? "steps" : "examples");
    else if (!strcmp(name, "seconds") && *x->word)
        snprintf(out, 64, "%s", x->word);
    else
        snprintf(out, 64, "%s", name);
    return out;
}

static void draw_x(const yk_axis *x, const box *b, const char *words, yk_text *out)
{
    char s[YK_UNIT_SIZE];
    double bottom = b->top + b->height, last = -1e9;
    yk_text_print(out, "<path class=\"axis\" d=\"M%.0f %.1fh%.0f\"/>", b->left, bottom, b->width);
    for (int i = 0; i < x->ticks; i++) {
        double at = b->left + b->width * yk_axis_at(x, x->tick[i]);
        double half = text_width(yk_axis_text(x, x->tick[i], s)) / 2.0;
        if (at - half < last + 6.0)
            continue;
        last = at + half;
        /* a label that would exceed the right edge ends there */
        bool edge = at + half > YK__WIDTH - 1.0;
        yk_text_print(
            out,
            "<path class=\"axis\" d=\"M%.1f %.1fv4\"/><text class=\"%s\" x=\"%.1f\" y=\"%.0f\">%s</text>", at,
            bottom, edge ? "e" : "m", edge ? YK__WIDTH - 1.0 : at, bottom + 17.0, s);
    }
    yk_html(out, "<text class=\"m t\" x=\"%.0f\" y=\"%.0f\">%s</text>", b->left + b->width / 2.0,
            bottom + 34.0, words);
}

/* A plot of lines: axes and box map points to positions. */
typedef struct {
    int axis;
    yk_axis x, y;
    box box;
} frame;

/* Clipped a little outside of the box: an axis may not cover all values. */
static double position(double at, double origin, double size)
{
    return origin + size * fmax(-0.05, fmin(1.05, at));
}

/* A point, moved up by `times` its spread. */
static void locate(const frame *p, const yk_point *at, double times, double *x_out, double *y_out)
{
    const double y = at->y + (at->spread > 0.0 ? times * at->spread : 0.0);
    *x_out = position(yk_axis_at(&p->x, at->x[p->axis]), p->box.left, p->box.width);
    *y_out = position(1.0 - yk_axis_at(&p->y, y), p->box.top, p->box.height);
}

/* All points, moved up by `times` their spread, backwards if it is negative. */
static void draw_points(const frame *p, const yk_series *s, double times, char first, yk_text *out)
{
    double x, y;
    for (size_t i = 0; i < s->n; i++) {
        locate(p, &s->point[times < 0.0 ? s->n - 1 - i : i], times, &x, &y);
        yk_text_print(out, "%c%.1f %.1f", i ? 'L' : first, x, y);
    }
}

/* The standard deviation over seeds: a band around the line, or a bar at each point. */
static void draw_spread(const frame *p, const yk_series *s, const char *class, yk_text *out)
{
    bool any = false;
    double x, y, low;
    for (size_t i = 0; i < s->n; i++)
        any |= s->point[i].spread > 0.0;
    if (!any)
        return;
    if (s->bars) {
        yk_text_print(out, "<path class=\"whisker %.2s\" d=\"", class);
        for (size_t i = 0; i < s->n; i++)
            if (s->point[i].spread > 0.0) {
                locate(p, &s->point[i], 1.0, &x, &y);
                locate(p, &s->point[i], -1.0, &x, &low);
                yk_text_print(out, "M%.1f %.1fh6m-3 0V%.1fm-3 0h6", x - 3.0, y, low);
            }
    } else {
        yk_text_print(out, "<path class=\"spread f%.1s\" d=\"", class + 1);
        draw_points(p, s, 1.0, 'M', out);
        draw_points(p, s, -1.0, 'L', out);
        yk_text_add(out, "Z");
    }
    yk_text_add(out, "\"/>");
}

/* Whether two lines lie on each other. */
static bool same_line(const frame *p, const yk_series *a, const yk_series *b)
{
    double ax, ay, bx, by;
    for (size_t i = 0; a->n == b->n && i < a->n; i++) {
        locate(p, &a->point[i], 0.0, &ax, &ay);
        locate(p, &b->point[i], 0.0, &bx, &by);
        if (fabs(ax - bx) > 0.5 || fabs(ay - by) > 0.5)
            return false;
    }
    return a->n == b->n;
}

/* Series i of a figure. If it would hide an earlier one, it is dashed, so that both colors can be seen. */
static void draw_series(const frame *p, const yk_figure *f, size_t i, yk_text *out)
{
    const yk_series *s = &f->series[i];
    char class[16];
    double x, y;
    bool hides = false;
    const bool dots = s->dots || s->n == 1;
    series_class(s, class);
    for (size_t k = 0; k < i && !s->dash; k++)
        hides |= same_line(p, s, &f->series[k]);
    yk_text_print(out, "<g class=\"s\" data-r=\"%d\">", s->run);
    draw_spread(p, s, class, out);
    yk_text_print(out, "<path class=\"line %s%s\" d=\"", class, hides ? " over" : "");
    draw_points(p, s, 0.0, 'M', out);
    yk_text_add(out, "\"/>");
    if (dots)
        yk_text_print(out, "<path class=\"dot %.2s\" d=\"", class);
    for (size_t k = 0; dots && k < s->n; k++) {
        locate(p, &s->point[k], 0.0, &x, &y);
        yk_text_print(out, "M%.1f %.1fh0", x, y);
    }
    yk_text_add(out, dots ? "\"/>" : "");
    if (s->marked) {
        locate(p, &s->mark, 0.0, &x, &y);
        class[2] = 0; /* the color only */
        const bool known = s->mark.x[YK_X_EPOCH] > 0.0;
        yk_text_print(out,
                      "<circle class=\"ring %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"6\">"
                      "<title>no improvement after %s %.*g</title></circle>",
                      class, x, y, known ? "epoch" : "step", known ? 4 : 15,
                      s->mark.x[known ? YK_X_EPOCH : YK_X_STEP]);
    }
    yk_text_add(out, "</g>");
}

static void draw_lines(const yk_figure *f, yk_x x_wanted, yk_draw how, yk_text *out)
{
    const int axis = f->steps_or_time ? (int)x_wanted : 0;
    const frame p = {axis, x_axis(f, axis), yk_figure_y_axis(f), plot_box};
    const yk_axis x = p.x, y = p.y;
    const box b = p.box;
#define FORMAT(unit, word, factor, prefix, script) script,
    static const char *const units[] = {YK_UNIT_LIST(FORMAT)};
    char data[384], words[64];
    snprintf(data, sizeof data,
             " data-x=\"%d\" data-box=\"%g %g %g %g\" data-xs=\"%.9g %.9g %d\" data-ys=\"%.9g %.9g %d\" "
             "data-units=\"%s %s\"",
             axis, b.left, b.top, b.width, b.height, x.low, x.high, x.log, y.low, y.high, y.log,
             units[f->x_unit], units[f->y_unit]);
    draw_open(f, data, YK__HEIGHT, how, out);
    for (size_t i = 0; i < f->bands; i++) {
        double from = fmax(0.0, yk_axis_at(&x, f->band[i].begin)),
               to = fmin(1.0, yk_axis_at(&x, f->band[i].end));
        if (to > from)
            yk_text_print(out, "<rect class=\"band\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>",
                          b.left + b.width * from, b.top, fmax(1.0, b.width * (to - from)), b.height);
    }
    draw_y(&y, &b, out);
    draw_x(&x, &b, x_words(f, axis, &x, words), out);
    double limit = yk_axis_at(&y, f->limit);
    if (limit >= 0.0 && limit <= 1.0 && f->limit_text) {
        double at = b.top + b.height * (1.0 - limit);
        bool below = at < b.top + 14.0;
        yk_text_print(
            out,
            "<path class=\"limit\" d=\"M%.0f %.1fh%.0f\"/><text class=\"e\" x=\"%.0f\" y=\"%.1f\">%s</text>",
            b.left, at, b.width, b.left + b.width - 4.0, below ? at + 14.0 : at - 5.0, f->limit_text);
    }
    for (size_t i = 0; i < f->n; i++)
        draw_series(&p, f, i, out);
}

/* ---- rectangles: stacked bars of phases, the histogram of staleness, the confusion matrix ---- */

/* Cuts a name in the middle: names of runs differ most at their ends. */
static const char *shorten(const char *s, size_t max, char out[static 96])
{
    size_t n = strlen(s);
    if (n <= max)
        return s;
    const char *end = s + n - (max - max / 3 - 1);
    while ((*end & 0xc0) == 0x80) /* not inside a character */
        end++;
    snprintf(out, 96, "%.*s\u2026%s", yk_utf8_cut(s, max / 3), s, end);
    return out;
}

/* Long names are above their bars, short ones beside them: this also fits on a phone. */
static void draw_bars(const yk_figure *f, yk_draw how, yk_text *out)
{
    size_t longest = 0;
    for (size_t i = 0; i < f->n; i++)
        longest = strlen(f->series[i].name) > longest ? strlen(f->series[i].name) : longest;
    bool above = longest > 16;
    const double bar = f->n == 1 ? 36.0 : f->n <= 8 ? 20.0 : 13.0;
    const double head = above ? 19.0 : 0.0, row = head + bar + 8.0;
    double left = above ? 8.0 : longest > 8 ? 8.4 * (double)longest + 12.0 : 78.0;
    const box b = {left, 6.0, YK__WIDTH - left - RIGHT, row * (double)f->n};
    yk_axis x = yk_axis_make(YK_UNIT_PERCENT_EXACT, 0.0, 1.0, 5, true);
    char s[YK_UNIT_SIZE], name[96];
    draw_open(f, " data-bars=\"1\"", b.top + b.height + 26.0, how, out);
    for (int i = 0; i < x.ticks; i++) {
        double at = b.left + b.width * x.tick[i];
        bool edge = i == x.ticks - 1;
        yk_text_print(out,
                      "<path class=\"grid\" d=\"M%.1f %.0fv%.1f\"/><text class=\"%s\" x=\"%.1f\" "
                      "y=\"%.1f\">%s%s</text>",
                      at, b.top, b.height, edge ? "e" : "m", edge ? b.left + b.width + 8.0 : at,
                      b.top + b.height + 17.0, yk_axis_text(&x, x.tick[i], s), edge ? " %" : "");
    }
    for (size_t i = 0; i < f->n; i++) {
        double y = b.top + row * (double)i + 4.0 + head, at = 0.0;
        yk_text_print(out, "<g class=\"s\" data-r=\"%d\"><text%s x=\"%.0f\" y=\"%.1f\">", f->series[i].run,
                      above ? "" : " class=\"e\"", above ? b.left : b.left - 8.0,
                      above ? y - 5.0 : y + bar / 2.0 + 4.0);
        yk_html(out, "%s</text>", shorten(f->series[i].name, 56, name));
        for (size_t k = 0; k < f->series[i].n; k++) {
            const yk_point *p = &f->series[i].point[k];
            const double part = p->y;
            const int phase = (int)p->x[0];
            if (part * b.width >= 0.05)
                yk_html(out,
                        "<rect class=\"bar p%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" "
                        "height=\"%.1f\"><title>%s: %s %.1f %%</title></rect>",
                        phase, b.left + b.width * at, y, b.width * part, bar, f->series[i].name,
                        yk_phase_words[phase], 100.0 * part);
            at += part;
        }
        yk_text_add(out, "</g>");
    }
}

/* The name of a row in at most this width. */
static void draw_name(const char *class, double x, double y, const char *name, double width, yk_text *out)
{
    char text[96];
    yk_html(out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>", class, x, y,
            shorten(name, width > 22.2 ? (size_t)(width / 7.4) : 3, text));
}

static const char *column_name(const yk_figure *f, size_t k, char *bucket /* [YK_BUCKET_SIZE] */)
{
    return f->kind == YK_MATRIX ? f->series[k].name : yk_bucket_text(k, bucket);
}

/* The color is the share of the row: correct predictions blue, wrong ones orange. */
static void draw_cell(const yk_figure *f, size_t row, size_t column, const box *at, double share,
                      yk_text *out)
{
    const bool counts = f->kind == YK_MATRIX;
    char text[32], bucket[YK_BUCKET_SIZE];
    const char *name = column_name(f, column, bucket);
    snprintf(text, sizeof text, counts ? "%.7g" : "%.0f %%",
             f->series[row].point[column].y * (counts ? 1.0 : 100.0));
    const bool fits = 7.4 * (double)strlen(text) < at->width && at->height > 14.0;
    if (share > 0.0) {
        yk_html(out,
                "<rect class=\"bar f%d\" fill-opacity=\"%.2f\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                "height=\"%.1f\"><title>",
                counts && row != column, 0.05 + 0.95 * share, at->left, at->top, at->width - 1.0,
                at->height - 1.0);
        if (counts)
            yk_html(out, "label %s, prediction %s: %s (%.1f %% of the label)", f->series[row].name, name,
                    text, 100.0 * share);
        else
            yk_html(out, "%s: %.2f %% of the updates, staleness %s", f->series[row].name, 100.0 * share,
                    name);
        yk_text_add(out, "</title></rect>");
    }
    if (fits && (share > 0.0 || counts))
        yk_text_print(out, "<text class=\"m%s\" x=\"%.1f\" y=\"%.1f\">%s</text>", share > 0.5 ? " on" : "",
                      at->left + at->width / 2.0, at->top + at->height / 2.0 + 4.0, text);
}

static void draw_matrix(const yk_figure *f, yk_draw how, yk_text *out)
{
    enum { HEAD = 40, MAX_WIDTH = 120, MAX_HEIGHT = 40 };
    const bool counts = f->kind == YK_MATRIX;
    double longest = 0.0, n = 0.0;
    for (size_t i = 0; i < f->n; i++) {
        longest = fmax(longest, (double)strlen(f->series[i].name));
        n = fmax(n, (double)f->series[i].n);
    }
    const double left = fmin(fmax(8.4 * longest, 40.0), counts ? 130.0 : 250.0) + 16.0;
    const double width = fmin((YK__WIDTH - RIGHT - left) / n, MAX_WIDTH),
                 height = counts ? fmin(width, MAX_HEIGHT) : 26.0;
    const size_t every = width < 22.0 ? 5 : width < 40.0 && !counts ? 2 : 1; /* labels would overlap */
    draw_open(f, " data-bars=\"1\"", HEAD + height * (double)f->n + 6.0, how, out);
    draw_name("e", left - 8.0, HEAD - 7.0, counts ? "label" : "", left, out);
    draw_name("m", counts ? left + width * n / 2.0 : YK__WIDTH / 2.0, 12.0,
              counts ? f->x_title : "updates by other workers between read and write", 400.0, out);
    for (size_t k = 0; k < (size_t)n; k += every) {
        char bucket[YK_BUCKET_SIZE];
        draw_name("m", left + width * ((double)k + 0.5), HEAD - 7.0, column_name(f, k, bucket),
                  width * (double)every, out);
    }
    for (size_t i = 0; i < f->n; i++) {
        const yk_series *s = &f->series[i];
        double sum = counts ? 0.0 : 1.0; /* of a histogram: they are shares */
        for (size_t k = 0; counts && k < s->n; k++)
            sum += s->point[k].y;
        box at = {left, HEAD + height * (double)i, width, height};
        if (!counts || i % every == 0)
            draw_name("e", left - 8.0, at.top + height / 2.0 + 4.0, s->name, left - 8.0, out);
        yk_text_print(out, "<g class=\"s\" data-r=\"%d\">", s->run);
        for (size_t k = 0; k < s->n; k++, at.left += width)
            draw_cell(f, i, k, &at, sum > 0.0 ? s->point[k].y / sum : 0.0, out);
        yk_text_add(out, "</g>");
    }
}

void yk_figure_draw(const yk_figure *f, yk_x x, yk_draw how, yk_text *out)
{
    if (f->kind == YK_LINES)
        draw_lines(f, x, how, out);
    else if (f->kind == YK_BARS)
        draw_bars(f, how, out);
    else
        draw_matrix(f, how, out);
    yk_text_add(out, how == YK_DRAW_PAGE ? "</svg>" : "</svg>\n");
}
