#include "report/page.h"

#include "base/clock.h"
#include "report/plot.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* page.css and page.js, compiled into the program. */
extern const unsigned char yk_embedded_report_page_css[], yk_embedded_report_page_js[];
extern const unsigned long yk_embedded_report_page_css_size, yk_embedded_report_page_js_size;

/* The options that all runs have in common, in a line below the title. */
static void in_common(const yk_compare *c, yk_text *out)
{
    static const char *const names[] = {"model",   "data",  "mode",      "workers", "processes",
                                        "servers", "batch", "optimizer", "lr"};
    const char *between = "";
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const bool data = !strcmp(names[k], "data"), lr = !strcmp(names[k], "lr");
        char value[YK_OPTION_SIZE], text[YK_OPTION_SIZE + 16];
        yk_option_text(c, 0, names[k], value);
        if (yk_is_listed(names[k], c->varying) || !*value ||
            (!strcmp(names[k], "processes") && !strcmp(value, "1")) ||
            (!strcmp(names[k], "servers") && !strcmp(value, "0")))
            continue;
        yk__option_phrase(lr ? "learning rate" : names[k], value, text, sizeof text);
        yk_html(out, "%s%s%s", data && *between ? " " : between, data ? "on " : "", text);
        between = " \u00b7 ";
    }
}

static void tile(const char *name, yk_unit unit, double x, const char *text, yk_text *out)
{
    char s[YK_UNIT_SIZE];
    if (!isfinite(x))
        return;
    yk_unit_text(unit, x, s);
    yk_text_print(out, "<div><dt>%s</dt><dd>%s<small>%s</small></dd></div>", name, s, text);
}

/* A number for the small text of a tile; "": unknown. */
static const char *small(char *out /* [96] */, const char *format, double x)
{
    *out = 0;
    if (isfinite(x))
        snprintf(out, 96, format, x);
    return out;
}

static void tiles(const yk_facts *f, yk_text *out)
{
    char text[96], s[YK_UNIT_SIZE];
    const bool best_loss = isfinite(f->best_loss), best_auc = isfinite(f->best_auc);
    yk_text_add(out, "<dl class=\"tiles\">");
    tile("Test accuracy", YK_UNIT_PERCENT_EXACT, f->test_accuracy,
         small(text, "majority class %.3g %%", 100.0 * f->majority), out);
    tile("Test AUC", YK_UNIT_PLAIN, f->test_auc,
         best_auc ? small(text, "best possible %.4f", f->best_auc) : "0.5 is chance", out);
    if (isfinite(f->test_loss))
        tile("Test loss", YK_UNIT_PLAIN, f->test_loss,
             best_loss ? small(text, "best possible %.4f", f->best_loss)
                       : small(text, "training %.4f", f->train_loss),
             out);
    else
        tile("Training loss", YK_UNIT_PLAIN, f->train_loss, "", out);
    tile("Validation loss", YK_UNIT_PLAIN, f->validation_loss,
         small(text, "best model, at step %.0f", f->best_step), out);
    yk_unit_text(YK_UNIT_INTEGER, f->steps, s);
    snprintf(text, sizeof text, "%s step%s, %.3g epoch%s", s, f->steps == 1.0 ? "" : "s", f->epochs,
             f->epochs == 1.0 ? "" : "s");
    tile("Time", YK_UNIT_SECONDS, f->seconds, isfinite(f->epochs) ? text : "", out);
    yk_unit_text(YK_UNIT_COUNT, f->steps_per_second, s);
    snprintf(text, sizeof text, "%s steps/s", s);
    tile("Examples/s", YK_UNIT_COUNT, f->examples_per_second, text, out);
    tile("CPU", YK_UNIT_CORES, f->cpu,
         small(text, f->cores == 1.0 ? "mean, of %.4g core" : "mean, of %.4g cores", f->cores), out);
    tile("Memory", YK_UNIT_BYTES, f->memory_peak, "peak", out);
    if (f->ranks > 1.0 || f->network > 0.0)
        tile("Network", YK_UNIT_RATE, f->network, "mean of the busiest host, one direction", out);
    yk_text_add(out, "</dl>\n");
}

static void plateau(const yk_facts *f, yk_text *out)
{
    char best[YK_UNIT_SIZE], rest[YK_UNIT_SIZE], when[32];
    const bool known = isfinite(f->plateau.epoch);
    if (!f->plateau.reached)
        return;
    yk_unit_text(!strcmp(f->plateau.what, "test accuracy") ? YK_UNIT_PERCENT_EXACT : YK_UNIT_PLAIN,
                 f->plateau.best, best);
    yk_unit_text(YK_UNIT_SECONDS, f->plateau.rest * f->seconds, rest);
    yk_text_print(out,
                  "<p>No improvement after %s of %.*g: by then, the %s was as good as its best value (%s). "
                  "The last %.0f %% of the time (%s) brought no improvement.</p>",
                  yk_when_text(f->plateau.epoch, f->plateau.step, when), known ? 3 : 15,
                  known ? f->epochs : f->steps, f->plateau.what, best, 100.0 * f->plateau.rest, rest);
}

static void bottlenecks(const yk_compare *c, yk_text *out)
{
    const char *between = "<li>Bottlenecks: ";
    for (size_t i = 0; i < c->n; i++) {
        const char *kind = c->facts[i].bottleneck;
        size_t n = 0;
        bool seen = !kind;
        for (size_t k = 0; !seen && k < c->n; k++)
            if (c->facts[k].bottleneck && !strcmp(c->facts[k].bottleneck, kind)) {
                seen = k < i;
                n++;
            }
        if (seen)
            continue;
        yk_text_add(out, between);
        yk_html(out, "%s (%zu %s)", kind, n, n == 1 ? "run" : "runs");
        between = ", ";
    }
    if (*between == ',')
        yk_text_add(out, ".</li>");
}

static void failed_runs(const yk_compare *c, yk_text *out)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        n += c->facts[i].failed;
    if (n)
        yk_text_print(out, "<li>%zu of %zu runs failed%s.</li>", n, c->n,
                      c->highlights ? " (not included above)" : "");
}

static void plateaus(const yk_compare *c, yk_text *out)
{
    size_t n = 0, last = 0;
    double min = INFINITY, max = 0.0; /* epochs, where they are known */
    char when[32], range[64] = "";
    for (size_t i = 0; i < c->n; i++)
        if (c->facts[i].plateau.reached) {
            n++;
            last = i;
            min = fmin(min, c->facts[i].plateau.epoch);
            max = fmax(max, c->facts[i].plateau.epoch);
        }
    if (n == 1)
        yk_html(out, "<li>%s did not improve after %s.</li>", c->label[last],
                yk_when_text(c->facts[last].plateau.epoch, c->facts[last].plateau.step, when));
    else if (n) {
        if (isfinite(min))
            snprintf(range, sizeof range, ", after epochs %.3g to %.3g", min, max);
        yk_html(out, "<li>%zu of %zu runs stopped improving long before the end%s.</li>", n, c->n, range);
    }
}

static void verdict(const yk_page *p, yk_text *out)
{
    const yk_compare *c = p->compare;
    yk_text_add(out, "<section class=\"verdict\" id=\"verdict\">");
    if (c->n == 1) {
        yk__page_verdict(&c->facts[0], out);
        if (!c->facts[0].verdict && !c->facts[0].bottleneck)
            yk_text_add(out, "<p class=\"soft\">The run directory has no verdict.</p>");
        plateau(&c->facts[0], out);
        tiles(&c->facts[0], out);
    } else {
        yk_text_add(out, c->highlights ? "<dl class=\"tiles\">" : "");
        for (size_t i = 0; i < c->highlights; i++)
            yk_html(out, "<div><dt>%s</dt><dd>%s<small>%s</small></dd></div>", c->highlight[i].title,
                    c->highlight[i].value, c->highlight[i].text);
        yk_text_add(out, c->highlights ? "</dl><ul class=\"findings\">" : "<ul class=\"findings\">");
        failed_runs(c, out);
        bottlenecks(c, out);
        plateaus(c, out);
        yk_text_add(out, "</ul>");
    }
    yk_text_add(out, "</section>\n");
}

static void warning_item(const yk_compare *c, int run, const char *text, yk_text *out)
{
    yk_text_add(out, "<li>");
    yk__page_key(c, run, out);
    if (run >= 0 && c->n > 1)
        yk_html(out, "<b>%s</b>: ", c->label[run]);
    yk_html(out, "%s</li>", text);
}

static void warnings(const yk_page *p, yk_text *out)
{
    enum { SHOWN = 3 };
    const yk_warnings *w = p->warnings;
    if (!w->n) {
        yk_text_add(
            out, "<p class=\"quiet\">No warnings. The report checks for accuracy no better than the majority "
                 "class, processes that exchanged nothing, rising loss, fewer updates because of a larger "
                 "batch, runs that are too short to compare, and hosts busy with other programs.</p>\n");
        return;
    }
    yk_text_add(out, "<section class=\"warnings\" id=\"warnings\"><h2>Warnings</h2><div class=\"list\">\n");
    for (size_t i = 0; i < YK_WARNING_KINDS; i++) {
        const yk_warning_group *g = &w->group[i];
        const bool many = g->items > SHOWN + 1;
        if (!g->items)
            continue;
        yk_text_print(out, "<div><h3>%s</h3><ul>", yk_warning_texts[i].title);
        for (size_t k = 0; k < g->items; k++) {
            if (many && k == SHOWN)
                yk_text_print(out, "</ul><details><summary>and %zu more</summary><ul>", g->items - SHOWN);
            warning_item(p->compare, g->item[k].run, g->item[k].text, out);
        }
        yk_text_add(out, many ? "</ul></details>" : "</ul>");
        if (*yk_warning_texts[i].advice)
            yk_text_print(out, "<p>%s</p>", yk_warning_texts[i].advice);
        yk_text_add(out, "</div>\n");
    }
    yk_text_add(out, "</div></section>\n");
}

/* ---- figures, by section ---- */

/* The id of the section that has a figure; "": the details of its run. */
static const char *section_of(const yk_page *p, const yk_figure *f)
{
    if (f->section)
        return "";
    if (f->steps_or_time)
        return "curves";
    if (f->x_title)
        return f->x_title; /* the table that has this column */
    if (f->kind == YK_LINES)
        return f->run < 0 ? "resources" : "";
    return f->run < 0 || p->compare->n == 1 ? "time" : ""; /* a single run has its own phases here too */
}

/* Figures in a grid. The panels of a figure are small, below their common title. */
static void show_figures(const yk_page *p, const char *section, const char *class, yk_text *out)
{
    const char *before = NULL; /* the title of the panels that are open; "": a grid of whole figures */
    for (size_t i = 0; i < p->figures->n; i++) {
        const yk_figure *f = &p->figures->figure[i];
        const char *title = *f->panel ? f->title : "";
        if (strcmp(section_of(p, f), section))
            continue;
        if (!before || strcmp(before, title)) {
            yk_text_add(out, before ? "</div>\n" : "");
            if (*title)
                yk_html(out, "<h3 class=\"panels\">%s</h3>", title);
            size_t panels = 0;
            for (size_t k = i; *title && k < p->figures->n && !strcmp(p->figures->figure[k].title, title);
                 k++)
                panels++;
            yk_text_print(out, "<div class=\"%s%s\">\n", class,
                          !*title                      ? ""
                          : panels == 2 || panels == 4 ? " small two"
                                                       : " small");
        }
        before = title;
        yk__page_figure(f, *f->panel ? f->panel : f->title, p->compare, out);
    }
    yk_text_add(out, before ? "</div>\n" : "");
}

static void curves(const yk_page *p, yk_text *out)
{
    static const char *const names[YK_X_COUNT] = {"Steps", "Epochs", "Examples", "Seconds"};
    bool any = false, rings = false;
    for (size_t i = 0; i < p->figures->n; i++) {
        any |= p->figures->figure[i].steps_or_time;
        for (size_t k = 0; k < p->figures->figure[i].n; k++)
            rings |= p->figures->figure[i].series[k].marked;
    }
    if (!any)
        return;
    yk_text_add(out, "<section id=\"curves\">");
    for (int a = 0; a < YK_X_COUNT; a++)
        yk_text_print(out, "<input class=\"pick\" type=\"radio\" name=\"x\" id=\"x%d\"%s>", a,
                      a == YK_X_EPOCH ? " checked" : "");
    yk_text_add(
        out, "<div class=\"bar-of\"><h2>Curves</h2><div class=\"seg\" role=\"group\" aria-label=\"x axis\">");
    for (int a = 0; a < YK_X_COUNT; a++)
        yk_text_print(out, "<label for=\"x%d\">%s</label>", a, names[a]);
    yk_text_add(out, "</div></div>");
    yk__page_legend(p->compare, out);
    show_figures(p, "curves", "figures choice", out);
    if (rings)
        yk_text_add(out, "<p class=\"note\">A ring marks the point after which a curve did not improve.</p>");
    yk_text_add(out, "</section>\n");
}

/* A table and the figures about it, if there are any. */
static void section(const yk_page *p, const char *id, const char *title, yk_text *out)
{
    const yk_table *t = yk_compare_table(p->compare, id);
    bool any = t != NULL;
    for (size_t i = 0; i < p->figures->n; i++)
        any |= !strcmp(section_of(p, &p->figures->figure[i]), id);
    if (!any)
        return;
    yk_text_print(out, "<section id=\"%s\"><h2>%s</h2>", id, t ? t->title : title);
    if (t)
        yk__page_table(t, p->compare, out);
    if (!strcmp(id, "resources"))
        yk__page_legend(p->compare, out);
    show_figures(p, id, "figures", out);
    yk_text_add(out, "</section>\n");
}

static void footer(const yk_page *p, yk_text *out)
{
    time_t now = (time_t)yk_wall();
    struct tm t;
    char when[64] = "";
    if (localtime_r(&now, &t))
        strftime(when, sizeof when, " on %e %B %Y at %H:%M", &t);
    yk_text_print(out, "<footer>Created by yoke %s%s from %zu run %s. ", YK_VERSION, when, p->compare->n,
                  p->compare->n == 1 ? "directory" : "directories");
    yk_text_add(out, "CPU is in cores; sizes are in powers of 1000; \u00b1 is the standard deviation over "
                     "three or more runs that differ only in the seed. Curves with many points show the "
                     "lowest and highest point per pixel.");
    for (size_t i = 0; i < p->compare->n; i++)
        if (p->compare->run[i].thinned) {
            yk_text_print(out, " The same holds for logs with more than %d lines of a kind.", YK_RUN_ROWS);
            break;
        }
    yk_text_add(out, "</footer>\n");
}

void yk_page_write(const yk_page *p, yk_text *out)
{
    const yk_compare *c = p->compare;
    char count[32];
    snprintf(count, sizeof count, "%zu runs", c->n);
    const char *title = p->title       ? p->title
                        : c->n == 1    ? c->run[0].name
                        : p->directory ? p->directory
                                       : count;
    yk_text_add(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
    yk_html(out, "%s \u00b7 yoke</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n", title);
    yk_text_put(out, (const char *)yk_embedded_report_page_css, yk_embedded_report_page_css_size);
    yk_html(out, "</style>\n</head>\n<body>\n<header><div><h1>%s</h1><p>", title);
    if (c->n > 1 && (p->title || p->directory))
        yk_text_print(out, "%zu runs \u00b7 ", c->n);
    in_common(c, out);
    yk_text_add(out, "</p></div><button id=\"theme\" type=\"button\">Theme</button></header>\n<main>\n");
    verdict(p, out);
    warnings(p, out);
    if (c->n > 1)
        section(p, "runs", NULL, out);
    curves(p, out);
    if (c->n == 1)
        yk__page_metrics(p, 0, out);
    static const char *const sections[] = {
        "batch", "workers", "modes", "time", "resources", "traffic-between-hosts", "machines"};
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        section(p, sections[i], !strcmp(sections[i], "time") ? "Where the time went" : "Resources", out);
    if (c->n > 1)
        yk_text_add(out, "<section id=\"each\"><h2>Run details</h2>\n");
    for (size_t i = 0; i < c->n; i++)
        yk__page_run(p, i, out);
    if (c->n > 1)
        yk_text_add(out, "</section>\n");
    yk_text_add(out, "</main>\n");
    footer(p, out);
    yk_text_add(out, "<div id=\"tip\" role=\"status\"></div>\n");
    yk__page_data(p->figures, out);
    yk_text_add(out, "<script>\n");
    yk_text_put(out, (const char *)yk_embedded_report_page_js, yk_embedded_report_page_js_size);
    yk_text_add(out, "</script>\n</body>\n</html>\n");
}
