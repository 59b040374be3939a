/* Pieces of the page: tables, figures, legends, and the data behind them. */
#include "report/page.h"

#include "base/json.h"
#include "report/plot.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void yk__page_key(const yk_compare *c, int run, yk_text *out)
{
    if (run >= 0 && c->n > 1)
        yk_text_print(out, "<i class=\"k c%d d%d\"></i>", run % YK_COLOURS, run / YK_COLOURS % YK_DASHES);
}

static void cell(const yk_column *col, const yk_cell *v, yk_text *out)
{
    char s[YK_UNIT_ROOM];
    if (v->text || col->words) {
        yk_text_add(out, "<td class=\"w\"");
        if (v->text && strlen(v->text) > 36) {
            yk_text_add(out, " title=\"");
            yk_text_html(out, v->text);
            yk_text_add(out, "\"");
        }
        yk_text_add(out, ">");
        return;
    }
    yk_unit_text(col->unit, v->number, s);
    yk_text_print(out, "<td%s data-v=\"",
                  v->mark               ? " class=\"best\""
                  : isfinite(v->number) ? ""
                                        : " class=\"no\"");
    yk_text_number(out, v->number, 9, "");
    yk_text_print(out, "\">%s", s);
    if (isfinite(v->spread)) {
        yk_unit_text(col->unit, v->spread, s);
        char mean[YK_UNIT_ROOM];
        yk_unit_text(col->unit, v->number, mean);
        const char *point = strchr(mean, '.');
        if (col->unit == YK_UNIT_PLAIN && point) /* with as many decimals */
            snprintf(s, sizeof s, "%.*f", (int)strspn(point + 1, "0123456789"), v->spread);
        if (col->unit == YK_UNIT_SHARE) /* the sign of percent is there already */
            s[strcspn(s, " ")] = 0;
        yk_text_print(out, " <span class=\"pm\">\u00b1 %s</span>", s);
    }
}

void yk__page_table(const yk_table *t, const yk_compare *c, yk_text *out)
{
    yk_text_print(out, "<div class=\"scroll\"><table id=\"table-%s\"><thead><tr>", t->id);
    for (size_t k = 0; k < t->columns; k++) {
        yk_text_print(out, "<th class=\"o%s\" scope=\"col\"", t->column[k].words ? " w" : "");
        if (t->column[k].hint) {
            yk_text_add(out, " title=\"");
            yk_text_html(out, t->column[k].hint);
            yk_text_add(out, "\"");
        }
        yk_text_add(out, ">");
        yk_text_html(out, t->column[k].title);
        yk_text_add(out, "</th>");
    }
    yk_text_add(out, "</tr></thead><tbody>\n");
    bool by_run = !strcmp(t->id, "runs");
    for (size_t r = 0; r < t->rows; r++) {
        yk_text_add(out, r && t->lead && !yk_table_together(t, r) ? "<tr class=\"g\">" : "<tr>");
        for (size_t k = 0; k < t->columns; k++) {
            const yk_cell *v = &t->cell[r * t->columns + k];
            cell(&t->column[k], v, out);
            if (k == 0 && by_run)
                yk__page_key(c, t->run[r], out);
            if (k == 0 && by_run && c->n > 1)
                yk_text_print(out, "<a href=\"#run-%d\" style=\"color:inherit;text-decoration:none\">",
                              t->run[r] + 1);
            if (v->text)
                yk_text_html(out, v->text);
            yk_text_add(out, k == 0 && by_run && c->n > 1 ? "</a></td>" : "</td>");
        }
        yk_text_add(out, "</tr>\n");
    }
    yk_text_add(out, "</tbody></table></div>");
    yk_text_add(out, "<div class=\"foot\"><p class=\"note\">");
    if (t->note)
        yk_text_html(out, t->note);
    yk_text_print(out, "</p><button class=\"csv\" type=\"button\" data-t=\"table-%s\">CSV</button></div>\n",
                  t->id);
}

void yk__page_legend(const yk_compare *c, yk_text *out)
{
    if (c->n < 2)
        return;
    yk_text_add(out, "<ul class=\"legend\">");
    for (size_t i = 0; i < c->n; i++) {
        yk_text_print(out, "<li><button type=\"button\" data-r=\"%zu\" aria-pressed=\"true\">", i);
        yk__page_key(c, (int)i, out);
        yk_text_html(out, c->run[i].name);
        yk_text_add(out, "</button></li>");
    }
    yk_text_add(out, "</ul>\n");
}

/* What the lines of one figure are, where the legend of the runs does not say it. */
static void own_legend(const yk_figure *f, const yk_compare *c, yk_text *out)
{
    bool bars = f->kind == YK_BARS, of_runs = f->run < 0 && !f->x_title;
    bool histogram = f->kind == YK_HISTOGRAM && f->n <= YK_FEW_RUNS && c->n > 1;
    if (!bars && !histogram && (f->n < 2 || of_runs))
        return;
    yk_text_add(out, "<ul class=\"legend\">");
    for (size_t i = 0; i < (bars ? (size_t)YK_PHASES : f->n); i++) {
        bool any = !bars;
        for (size_t k = 0; bars && k < f->n; k++)
            any |= i < f->series[k].n && f->series[k].y[i] >= 0.0005;
        if (!any)
            continue;
        char class[16];
        if (bars)
            snprintf(class, sizeof class, "b p%zu", i);
        else if (histogram)
            snprintf(class, sizeof class, "b f%d", f->series[i].colour % YK_COLOURS);
        else
            yk_series_class(&f->series[i], class);
        yk_text_print(out, "<li><i class=\"k %s\"></i>", class);
        yk_text_html(out, bars ? yk_stacked[i].text : f->series[i].name);
        yk_text_add(out, "</li>");
    }
    yk_text_add(out, "</ul>");
}

void yk__page_figure(const yk_figure *f, const yk_compare *c, yk_text *out)
{
    yk_x axes[YK_X_COUNT];
    int n = f->steps_or_time ? yk_figure_axes(f, axes) : 1;
    yk_text_print(out, "<figure id=\"figure-%s\"><figcaption><h3>", f->id);
    yk_text_html(out, f->title);
    yk_text_add(out, "</h3>");
    yk_text_print(out, "<button class=\"csv\" type=\"button\" data-f=\"%s\">CSV</button>", f->id);
    own_legend(f, c, out);
    yk_text_add(out, "</figcaption>");
    for (int a = 0; a < n; a++)
        yk_figure_draw(f, f->steps_or_time ? axes[a] : YK_X_STEP, YK_DRAW_PAGE, out);
    yk_text_add(out, "</figure>\n");
}

static void numbers(yk_json *j, const char *name, const double *v, size_t n, int digits)
{
    if (!v) {
        yk_json_null(j, name);
        return;
    }
    j->digits = digits;
    yk_json_array(j, name);
    for (size_t i = 0; i < n; i++)
        if (v[i] == floor(v[i]) && fabs(v[i]) < 1e15) /* shorter, and there are many */
            yk_json_whole(j, NULL, (int64_t)v[i]);
        else
            yk_json_real(j, NULL, v[i]);
    yk_json_end(j);
}

static void one_series(yk_json *j, const yk_series *s, int digits)
{
    char class[16];
    yk_series_class(s, class);
    yk_json_object(j, NULL);
    yk_json_text(j, "n", s->name);
    yk_json_whole(j, "r", s->run);
    yk_json_text(j, "c", class);
    yk_json_array(j, "x");
    numbers(j, NULL, s->x[0], s->n, digits);
    numbers(j, NULL, s->x[1], s->n, 5);
    numbers(j, NULL, s->x[2], s->n, 5);
    yk_json_end(j);
    numbers(j, "y", s->y, s->n, 5);
    yk_json_end(j);
}

void yk__page_data(const yk_figures *fs, yk_text *out)
{
    static const char *const units[] = {
        [YK_UNIT_PLAIN] = "plain", [YK_UNIT_SHORT] = "short", [YK_UNIT_COUNT] = "count",
        [YK_UNIT_WHOLE] = "whole", [YK_UNIT_SHARE] = "share", [YK_UNIT_SECONDS] = "seconds",
        [YK_UNIT_BYTES] = "bytes", [YK_UNIT_RATE] = "rate",   [YK_UNIT_CORES] = "cores",
        [YK_UNIT_TIMES] = "times", [YK_UNIT_POINTS] = "plain"};
    yk_json all = {.html = true}, *j = &all;
    yk_json_object(j, NULL);
    yk_json_object(j, "figures");
    for (size_t i = 0; i < fs->n; i++) {
        const yk_figure *f = &fs->figure[i];
        yk_json_object(j, f->id);
        YK_JSON_TEXTS(j, {"title", f->title}, {"unit", units[f->y_unit]}, {"xUnit", units[f->x_unit]});
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
