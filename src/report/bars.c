/* Plots with rectangles: stacked bars of phases, the histogram of staleness, and the confusion matrix. */
#include "report/plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Cuts a name in the middle: names of runs differ most at their ends. */
static void shorten(const char *s, size_t max, char *out, size_t size)
{
    size_t n = strlen(s);
    if (n <= max) {
        snprintf(out, size, "%s", s);
        return;
    }
    size_t head = max / 3, tail = max - head - 1;
    while (head > 0 && (s[head] & 0xc0) == 0x80) /* not inside a character */
        head--;
    const char *end = s + n - tail;
    while ((*end & 0xc0) == 0x80)
        end++;
    snprintf(out, size, "%.*s\u2026%s", (int)head, s, end);
}

/* Long names are above their bars, short ones beside them: this also fits on a phone. */
void yk__draw_bars(const yk_figure *f, yk_draw how, yk_text *out)
{
    size_t longest = 0;
    for (size_t i = 0; i < f->n; i++)
        longest = strlen(f->series[i].name) > longest ? strlen(f->series[i].name) : longest;
    bool above = longest > 16;
    const double bar = f->n == 1 ? 36.0 : f->n <= 8 ? 20.0 : 13.0;
    const double head = above ? 19.0 : 0.0, row = head + bar + 8.0;
    double left = above ? 8.0 : longest > 8 ? 8.4 * (double)longest + 12.0 : 78.0;
    const yk__box b = {left, 6.0, YK__WIDTH - left - YK__RIGHT, row * (double)f->n};
    yk_axis x = yk_axis_make(YK_UNIT_PERCENT_EXACT, 0.0, 1.0, 5, true);
    char s[YK_UNIT_SIZE], name[96];
    yk__draw_open(f, " data-bars=\"1\"", b.top + b.height + 26.0, how, out);
    for (int i = 0; i < x.ticks; i++) {
        double at = b.left + b.width * x.tick[i];
        yk_axis_text(&x, x.tick[i], s);
        bool edge = i == x.ticks - 1;
        yk_text_print(out,
                      "<path class=\"grid\" d=\"M%.1f %.0fv%.1f\"/><text class=\"%s\" x=\"%.1f\" "
                      "y=\"%.1f\">%s%s</text>",
                      at, b.top, b.height, edge ? "e" : "m", edge ? b.left + b.width + 8.0 : at,
                      b.top + b.height + 17.0, s, edge ? " %" : "");
    }
    for (size_t i = 0; i < f->n; i++) {
        double y = b.top + row * (double)i + 4.0 + head, at = 0.0;
        shorten(f->series[i].name, 56, name, sizeof name);
        yk_text_print(out, "<g class=\"s\" data-r=\"%d\"><text%s x=\"%.0f\" y=\"%.1f\">", f->series[i].run,
                      above ? "" : " class=\"e\"", above ? b.left : b.left - 8.0,
                      above ? y - 5.0 : y + bar / 2.0 + 4.0);
        yk_html(out, "%s</text>", name);
        for (size_t k = 0; k < f->series[i].n; k++) {
            const yk_point *p = &f->series[i].point[k];
            const double part = p->y;
            const int phase = (int)p->x[0];
            if (part * b.width >= 0.05)
                yk_html(out,
                        "<rect class=\"bar p%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" "
                        "height=\"%.1f\"><title>%s: %s %.1f %%</title></rect>",
                        phase, b.left + b.width * at, y, b.width * part, bar, f->series[i].name,
                        yk_stacked[phase].text, 100.0 * part);
            at += part;
        }
        yk_text_add(out, "</g>");
    }
}

void yk__draw_histogram(const yk_figure *f, yk_draw how, yk_text *out)
{
    const yk__box b = yk__plot_box;
    size_t buckets = 1, shown = f->n < 24 ? f->n : 24; /* more bars would be too thin */
    for (size_t i = 0; i < f->n; i++)
        buckets = f->series[i].n > buckets ? f->series[i].n : buckets;
    yk_axis y = yk_figure_y_axis(f);
    yk__draw_open(f, " data-bars=\"1\"", YK__HEIGHT, how, out);
    yk__draw_y(&y, &b, out);
    double wide = b.width / (double)buckets, thin = wide * 0.8 / (double)shown;
    for (size_t k = 0; k < buckets; k++) {
        char name[YK_BUCKET_SIZE];
        yk_bucket_text(k, name);
        /* every other label, or they would overlap */
        bool crowded = buckets > 9 && k % 2;
        if (!crowded)
            yk_text_print(out, "<text class=\"m\" x=\"%.1f\" y=\"%.0f\">%s</text>",
                          b.left + wide * ((double)k + 0.5), b.top + b.height + 17.0, name);
        for (size_t i = 0; i < shown; i++) {
            const yk_series *s = &f->series[i];
            double part = k < s->n ? s->point[k].y : 0.0, high = b.height * yk_axis_at(&y, part);
            if (part <= 0.0)
                continue;
            high = high < 0.8 ? 0.8 : high;
            yk_html(
                out,
                "<g class=\"s\" data-r=\"%d\"><rect class=\"bar f%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" "
                "height=\"%.1f\"><title>%s: %.2f %% of the updates, staleness %s</title></rect></g>",
                s->run, s->color % YK_COLORS, b.left + wide * ((double)k + 0.1) + thin * (double)i,
                b.top + b.height - high, thin > 3.0 ? thin - 1.0 : thin, high, s->name, 100.0 * part, name);
        }
    }
    yk_text_print(out,
                  "<path class=\"axis\" d=\"M%.0f %.1fh%.0f\"/><text class=\"m\" x=\"%.0f\" "
                  "y=\"%.0f\">updates by other workers between read and write</text>",
                  b.left, b.top + b.height, b.width, b.left + b.width / 2.0, b.top + b.height + 34.0);
}

/* The name of a row in at most this width. */
static void draw_name(const char *class, double x, double y, const char *name, double width, yk_text *out)
{
    char text[96];
    shorten(name, width > 22.2 ? (size_t)(width / 7.4) : 3, text, sizeof text);
    yk_html(out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>", class, x, y, text);
}

/* The color is the share of the row: correct predictions blue, wrong ones orange. */
static void draw_cell(const yk_figure *f, size_t row, size_t column, const yk__box *at, double share,
                      yk_text *out)
{
    const double value = f->series[row].point[column].y;
    char text[32];
    snprintf(text, sizeof text, "%.7g", value);
    const bool fits = 7.4 * (double)strlen(text) < at->width && at->height > 14.0;
    if (value > 0.0)
        yk_html(out,
                "<rect class=\"bar f%d\" fill-opacity=\"%.2f\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                "height=\"%.1f\"><title>label %s, prediction %s: %s (%.1f %% of the label)</title></rect>",
                row != column, 0.05 + 0.95 * share, at->left, at->top, at->width - 1.0, at->height - 1.0,
                f->series[row].name, f->series[column].name, text, 100.0 * share);
    if (fits)
        yk_text_print(out, "<text class=\"m%s\" x=\"%.1f\" y=\"%.1f\">%s</text>", share > 0.5 ? " on" : "",
                      at->left + at->width / 2.0, at->top + at->height / 2.0 + 4.0, text);
}

void yk__draw_matrix(const yk_figure *f, yk_draw how, yk_text *out)
{
    enum { HEAD = 40, MAX_WIDTH = 120, MAX_HEIGHT = 40 };
    const double n = (double)f->n;
    double longest = 0.0;
    for (size_t i = 0; i < f->n; i++)
        longest = fmax(longest, (double)strlen(f->series[i].name));
    const double left = fmin(fmax(8.4 * longest, 40.0), 130.0) + 16.0;
    const double width = fmin((YK__WIDTH - YK__RIGHT - left) / n, MAX_WIDTH),
                 height = fmin(width, MAX_HEIGHT);
    const size_t every = width < 22.0 ? 5 : 1; /* labels would overlap */
    yk__draw_open(f, " data-bars=\"1\"", HEAD + height * n + 6.0, how, out);
    draw_name("e", left - 8.0, HEAD - 7.0, "label", left, out);
    draw_name("m", left + width * n / 2.0, 12.0, f->x_title, 200.0, out);
    for (size_t i = 0; i < f->n; i++) {
        const yk_series *s = &f->series[i];
        double sum = 0.0;
        for (size_t k = 0; k < s->n; k++)
            sum += s->point[k].y;
        yk__box at = {left, HEAD + height * (double)i, width, height};
        if (i % every == 0) {
            draw_name("m", left + width * ((double)i + 0.5), HEAD - 7.0, s->name, width * (double)every, out);
            draw_name("e", left - 8.0, at.top + height / 2.0 + 4.0, s->name, left - 8.0, out);
        }
        yk_text_print(out, "<g class=\"s\" data-r=\"%d\">", s->run);
        for (size_t k = 0; k < s->n; k++, at.left += width)
            draw_cell(f, i, k, &at, sum > 0.0 ? s->point[k].y / sum : 0.0, out);
        yk_text_add(out, "</g>");
    }
}
