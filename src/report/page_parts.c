/* Parts of the page: tables, figures, legends, and the data of the figures. */
#include "report/page.h"

#include "base/json.h"
#include "report/plot.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void yk__page_key(const yk_compare *c, int run, yk_text *out)
{
    if (run < 0 || c->groups < 2)
        return;
    const int line = (int)c->group[c->group_of[run]].line;
    yk_text_print(out, "<i class=\"k c%d d%d\"></i>", line % YK_COLORS, line / YK_COLORS % YK_DASHES);
}

static void cell(const yk_column *col, const yk_cell *v, yk_text *out)
{
    char s[YK_UNIT_SIZE], mean[YK_UNIT_SIZE];
    if (v->text || col->words) {
        if (v->text && strlen(v->text) > 36)
            yk_html(out, "<td class=\"w\" title=\"%s\">", v->text);
        else
            yk_text_add(out, "<td class=\"w\">");
        return;
    }
    yk_unit_pair(col->unit, v->number, v->spread, mean, s);
    yk_text_print(out, "<td%s data-v=\"",
                  v->mark               ? " class=\"best\""
                  : isfinite(v->number) ? ""
                                        : " class=\"no\"");
    yk_text_number(out, v->number, 9);
    yk_text_add(out, "\"");
    if (isfinite(v->spread)) {
        yk_text_add(out, " data-s=\"");
        yk_text_number(out, v->spread, 4);
        yk_text_add(out, "\"");
    }
    yk_text_print(out, ">%s", mean);
    if (isfinite(v->spread) && *s)
        yk_text_print(out, " <span class=\"pm\">\u00b1 %s</span>", s);
}

void yk__page_table(const yk_table *t, const yk_compare *c, yk_text *out)
{
    enum { MANY = 12 }; /* columns */
    yk_text_print(out, "<div class=\"scroll\"><table%s id=\"table-%s\"><thead><tr>",
                  t->columns > MANY ? " class=\"tight\"" : "", t->id);
    for (size_t k = 0; k < t->columns; k++) {
        yk_text_print(out, "<th class=\"o%s\" scope=\"col\"", t->column[k].words ? " w" : "");
        if (t->column[k].hint)
            yk_html(out, " title=\"%s\"", t->column[k].hint);
        yk_html(out, ">%s</th>", t->column[k].title);
    }
    yk_text_add(out, "</tr></thead><tbody>\n");
    bool by_run = !strcmp(t->id, "runs");
    for (size_t r = 0; r < t->rows; r++) {
        yk_text_add(out, r && t->lead && !yk_table_same_group(t, r) ? "<tr class=\"g\">" : "<tr>");
        for (size_t k = 0; k < t->columns; k++) {
            const yk_cell *v = &t->cell[r * t->columns + k];
            cell(&t->column[k], v, out);
            const bool link = k == 0 && by_run && c->n > 1;
            if (link) {
                yk__page_key(c, t->run[r], out);
                yk_text_print(out, "<a href=\"#run-%d\" style=\"color:inherit;text-decoration:none\">",
                              t->run[r] + 1);
            }
            yk_html(out, "%s", v->text ? v->text : "");
            yk_text_add(out, link ? "</a></td>" : "</td>");
        }
        yk_text_add(out, "</tr>\n");
    }
    yk_html(out,
            "</tbody></table></div><div class=\"foot\"><p class=\"note\">%s</p><button class=\"csv\" "
            "type=\"button\" data-t=\"table-%s\">CSV</button></div>\n",
            t->note ? t->note : "", t->id);
}

void yk__page_legend(const yk_compare *c, yk_text *out)
{
    if (c->groups < 2)
        return;
    yk_text_add(out, "<ul class=\"legend\">");
    for (size_t i = 0; i < c->lines; i++)
        yk_html(out,
                "<li><button type=\"button\" data-r=\"%zu\" aria-pressed=\"true\"><i class=\"k c%zu "
                "d%zu\"></i>%s</button></li>",
                i, i % YK_COLORS, i / YK_COLORS % YK_DASHES, c->line[i]);
    yk_text_add(out, "</ul>\n");
}

/* The legend of a figure whose lines are not runs. */
static void own_legend(const yk_figure *f, const yk_compare *c, yk_text *out)
{
    bool bars = f->kind == YK_BARS, of_runs = f->run < 0 && !f->x_title;
    bool histogram = f->kind == YK_HISTOGRAM && c->groups > 1;
    if (f->kind == YK_MATRIX || (!bars && !histogram && (f->n < 2 || of_runs)))
        return;
    yk_text_add(out, "<ul class=\"legend\">");
    for (size_t i = 0; i < (bars ? (size_t)YK_PHASES : f->n); i++) {
        bool any = !bars;
        for (size_t k = 0; bars && k < f->n; k++)
            any |= i < f->series[k].n && f->series[k].point[i].y >= 0.0005;
        if (!any)
            continue;
        char class[16];
        if (bars)
            snprintf(class, sizeof class, "b p%zu", i);
        else if (histogram)
            snprintf(class, sizeof class, "b f%d", f->series[i].color % YK_COLORS);
        else
            yk_series_class(&f->series[i], class);
        yk_html(out, "<li><i class=\"k %s\"></i>%s</li>", class,
                bars ? yk_stacked[i].text : f->series[i].name);
    }
    yk_text_add(out, "</ul>");
}

void yk__page_figure(const yk_figure *f, const char *caption, const yk_compare *c, yk_text *out)
{
    yk_html(out,
            "<figure id=\"figure-%s\"><figcaption><h3>%s</h3><button class=\"csv\" type=\"button\" "
            "data-f=\"%s\">CSV</button>",
            f->id, caption, f->id);
    own_legend(f, c, out);
    yk_text_add(out, "</figcaption>");
    for (int x = 0; x < yk_figure_drawings(f); x++)
        yk_figure_draw(f, (yk_x)x, YK_DRAW_PAGE, out);
    yk_text_add(out, "</figure>\n");
}

/* The x of all points on an axis, or with axis -1 their y. */
static void put_numbers(yk_json *j, const char *name, const yk_series *s, int axis, int digits)
{
    if (axis >= s->axes) {
        yk_json_null(j, name);
        return;
    }
    j->digits = digits;
    yk_json_array(j, name);
    for (size_t i = 0; i < s->n; i++) {
        const double v = axis < 0 ? s->point[i].y : s->point[i].x[axis];
        if (v == floor(v) && fabs(v) < 1e15) /* shorter than a real number, and there are many */
            yk_json_int(j, NULL, (int64_t)v);
        else
            yk_json_real(j, NULL, v);
    }
    yk_json_end(j);
}

static void one_series(yk_json *j, const yk_series *s, int digits)
{
    char class[16];
    yk_series_class(s, class);
    yk_json_object(j, NULL);
    yk_json_text(j, "n", s->name);
    yk_json_int(j, "r", s->run);
    yk_json_text(j, "c", class);
    yk_json_array(j, "x");
    for (int a = 0; a < YK_X_COUNT; a++)
        put_numbers(j, NULL, s, a, a == YK_X_STEP || a == YK_X_EXAMPLES ? digits : 5);
    yk_json_end(j);
    put_numbers(j, "y", s, -1, 5);
    bool spread = false;
    for (size_t i = 0; i < s->n; i++)
        spread |= s->point[i].spread > 0.0;
    if (spread) {
        j->digits = 3;
        yk_json_array(j, "s");
        for (size_t i = 0; i < s->n; i++)
            yk_json_real(j, NULL, s->point[i].spread);
        yk_json_end(j);
    }
    yk_json_end(j);
}

void yk__page_data(const yk_figures *fs, yk_text *out)
{
    static const char *const units[] = {
        [YK_UNIT_PLAIN] = "plain",     [YK_UNIT_SHORT] = "short",         [YK_UNIT_COUNT] = "count",
        [YK_UNIT_INTEGER] = "whole",   [YK_UNIT_PERCENT_EXACT] = "share", [YK_UNIT_PERCENT] = "share",
        [YK_UNIT_SECONDS] = "seconds", [YK_UNIT_BYTES] = "bytes",         [YK_UNIT_RATE] = "rate",
        [YK_UNIT_CORES] = "cores",     [YK_UNIT_TIMES] = "times",         [YK_UNIT_POINTS] = "plain"};
    yk_json all = {.html = true}, *j = &all;
    yk_json_object(j, NULL);
    yk_json_object(j, "figures");
    for (size_t i = 0; i < fs->n; i++) {
        const yk_figure *f = &fs->figure[i];
        yk_json_object(j, f->id);
        char name[256];
        yk_figure_name(f, name, sizeof name);
        YK_JSON_TEXTS(j, {"title", name}, {"unit", units[f->y_unit]}, {"xUnit", units[f->x_unit]});
        yk_json_bool(j, "choice", f->steps_or_time);
        yk_json_bool(j, "bars", f->kind != YK_LINES);
        yk_json_text(j, "xTitle",
                     f->x_title                ? f->x_title
                     : f->kind == YK_BARS      ? "phase"
                     : f->kind == YK_HISTOGRAM ? "bucket"
                                               : NULL);
        yk_json_array(j, "series");
        for (size_t k = 0; k < f->n; k++)
            one_series(j, &f->series[k], f->steps_or_time ? 9 : 5);
        yk_json_end(j);
        yk_json_end(j);
    }
    yk_json_end(j);
    yk_json_end(j);
    char *text = yk_json_take(j);
    yk_text_add(out, "<script type=\"application/json\" id=\"data\">");
    if (text)
        yk_text_add(out, text);
    else if (!out->status)
        out->status = YK_ESYSTEM;
    yk_text_add(out, "</script>\n");
    free(text);
}
