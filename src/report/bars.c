/* Plots made of rectangles: stacked bars of phases, and the histogram of staleness. */
#include "report/plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Cut in its middle, where names of runs differ least. */
static void shortened(const char *s, size_t most, char *out, size_t room)
{
    size_t n = strlen(s);
    if (n <= most) {
        snprintf(out, room, "%s", s);
        return;
    }
    size_t head = most / 3, tail = most - head - 1;
    while (head > 0 && (s[head] & 0xc0) == 0x80) /* not within a character */
        head--;
    const char *end = s + n - tail;
    while ((*end & 0xc0) == 0x80)
        end++;
    snprintf(out, room, "%.*s\u2026%s", (int)head, s, end);
}

/* Short names stand beside their bars, long ones above them: that has room on a phone too. */
void yk__draw_bars(const yk_figure *f, yk_draw how, yk_text *out)
{
    size_t longest = 0;
    for (size_t i = 0; i < f->n; i++)
        longest = strlen(f->series[i].name) > longest ? strlen(f->series[i].name) : longest;
    bool above = longest > 16;
    double bar = f->n == 1   ? 36.0
                 : f->n <= 8 ? 20.0
                             : 13.0,
           head = above ? 19.0 : 0.0, row = head + bar + 8.0;
    double left = above ? 8.0 : longest > 8 ? 8.4 * (double)longest + 12.0 : 78.0;
    const yk__box b = {left, 6.0, YK__WIDTH - left - YK__RIGHT, row * (double)f->n};
    yk_axis x = yk_axis_make(YK_UNIT_SHARE, 0.0, 1.0, 5, true);
    char s[YK_UNIT_ROOM], name[96];
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
        shortened(f->series[i].name, 56, name, sizeof name);
        yk_text_print(out, "<g class=\"s\" data-r=\"%d\"><text%s x=\"%.0f\" y=\"%.1f\">", f->series[i].run,
                      above ? "" : " class=\"e\"", above ? b.left : b.left - 8.0,
                      above ? y - 5.0 : y + bar / 2.0 + 4.0);
        yk_text_html(out, name);
        yk_text_add(out, "</text>");
        for (size_t k = 0; k < f->series[i].n; k++) {
            double part = f->series[i].y[k];
            int phase = (int)f->series[i].x[0][k];
            if (part * b.width >= 0.05) {
                yk_text_print(
                    out,
                    "<rect class=\"bar p%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"><title>",
                    phase, b.left + b.width * at, y, b.width * part, bar);
                yk_text_html(out, f->series[i].name);
                yk_text_print(out, ": %s %.1f %%</title></rect>", yk_stacked[phase].text, 100.0 * part);
            }
            at += part;
        }
        yk_text_add(out, "</g>");
    }
    yk__draw_close(how, out);
}

void yk__draw_histogram(const yk_figure *f, yk_draw how, yk_text *out)
{
    const yk__box b = {YK__LEFT, YK__TOP, YK__WIDTH - YK__LEFT - YK__RIGHT,
                       YK__HEIGHT - YK__TOP - YK__BOTTOM};
    size_t buckets = 1, shown = f->n < 24 ? f->n : 24; /* more bars than that are hairs */
    for (size_t i = 0; i < f->n; i++)
        buckets = f->series[i].n > buckets ? f->series[i].n : buckets;
    yk_axis y = yk_figure_y_axis(f);
    yk__draw_open(f, " data-bars=\"1\"", YK__HEIGHT, how, out);
    yk__draw_y(&y, &b, out);
    double wide = b.width / (double)buckets, thin = wide * 0.8 / (double)shown;
    for (size_t k = 0; k < buckets; k++) {
        char name[YK_BUCKET_ROOM];
        yk_bucket_text(k, name);
        /* every other one where they would touch */
        bool crowded = buckets > 9 && k % 2;
        if (!crowded)
            yk_text_print(out, "<text class=\"m\" x=\"%.1f\" y=\"%.0f\">%s</text>",
                          b.left + wide * ((double)k + 0.5), b.top + b.height + 17.0, name);
        for (size_t i = 0; i < shown; i++) {
            const yk_series *s = &f->series[i];
            double part = k < s->n ? s->y[k] : 0.0, high = b.height * yk_axis_at(&y, part);
            if (part <= 0.0)
                continue;
            high = high < 0.8 ? 0.8 : high;
            yk_text_print(
                out,
                "<g class=\"s\" data-r=\"%d\"><rect class=\"bar f%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" "
                "height=\"%.1f\"><title>",
                s->run, s->colour % YK_COLOURS, b.left + wide * ((double)k + 0.1) + thin * (double)i,
                b.top + b.height - high, thin > 3.0 ? thin - 1.0 : thin, high);
            yk_text_html(out, s->name);
            yk_text_print(out, ": %.2f %% with %s</title></rect></g>", 100.0 * part, name);
        }
    }
    yk_text_print(out,
                  "<path class=\"axis\" d=\"M%.0f %.1fh%.0f\"/><text class=\"m\" x=\"%.0f\" "
                  "y=\"%.0f\">updates by others between reading and writing</text>",
                  b.left, b.top + b.height, b.width, b.left + b.width / 2.0, b.top + b.height + 34.0);
    yk__draw_close(how, out);
}
