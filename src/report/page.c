#include "report/page.h"

#include "report/plot.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Made of page.css and page.js when the program is built. */
extern const unsigned char yk_embedded_report_page_css[], yk_embedded_report_page_js[];
extern const unsigned long yk_embedded_report_page_css_size, yk_embedded_report_page_js_size;

void yk_page_title(const yk_page *p, char *out)
{
    const yk_compare *c = p->compare;
    if (p->title)
        snprintf(out, 256, "%s", p->title);
    else if (c->n == 1)
        snprintf(out, 256, "%s", c->run[0].name);
    else
        snprintf(out, 256, "%zu runs", c->n);
}

/* What all runs have in common, in a line under the title. */
static void in_common(const yk_compare *c, yk_text *out)
{
    static const struct {
        const char *name, *before, *after;
    } words[] = {{"model", "", ""},           {"data", "on ", ""},         {"mode", "", ""},
                 {"workers", "", " workers"}, {"ranks", "", " processes"}, {"servers", "", " servers"},
                 {"batch", "batch ", ""},     {"optimizer", "", ""},       {"lr", "learning rate ", ""}};
    const char *varying[64], *between = "";
    size_t n = c->n > 1 ? yk_compare_varying(c, varying, 64) : 0;
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        char text[YK_OPTION_ROOM];
        bool differs = false;
        for (size_t v = 0; v < n; v++)
            differs |= !strcmp(varying[v], words[k].name);
        yk_option_text(c, 0, words[k].name, text);
        bool alone = (!strcmp(words[k].name, "ranks") && !strcmp(text, "1")) ||
                     (!strcmp(words[k].name, "servers") && !strcmp(text, "0"));
        if (differs || !*text || alone)
            continue;
        bool one = !strcmp(text, "1") && *words[k].after;
        yk_text_print(out, "%s%s", !strcmp(words[k].name, "data") && *between ? " " : between,
                      words[k].before);
        yk_text_html(out, text);
        yk_text_print(out, "%.*s", (int)(strlen(words[k].after) - one), words[k].after);
        between = " \u00b7 ";
    }
}

static void tile(const char *name, yk_unit unit, double x, const char *small, yk_text *out)
{
    char s[YK_UNIT_ROOM];
    if (!isfinite(x))
        return;
    yk_unit_text(unit, x, s);
    yk_text_print(out, "<div><dt>%s</dt><dd>%s<small>%s</small></dd></div>", name, s, small);
}

static void tiles(const yk_facts *f, yk_text *out)
{
    char small[96], s[YK_UNIT_ROOM];
    yk_text_add(out, "<dl class=\"tiles\">");
    *small = 0;
    if (isfinite(f->majority))
        snprintf(small, sizeof small, "commonest class %.3g %%", 100.0 * f->majority);
    tile("Test accuracy", YK_UNIT_SHARE, f->test_accuracy, small, out);
    snprintf(small, sizeof small, "0.5 is guessing");
    if (isfinite(f->best_auc))
        snprintf(small, sizeof small, "best possible %.4f", f->best_auc);
    tile("Test AUC", YK_UNIT_PLAIN, f->test_auc, small, out);
    *small = 0;
    if (isfinite(f->train_loss))
        snprintf(small, sizeof small, "training %.4f", f->train_loss);
    if (isfinite(f->best_loss))
        snprintf(small, sizeof small, "best possible %.4f", f->best_loss);
    if (isfinite(f->test_loss))
        tile("Test loss", YK_UNIT_PLAIN, f->test_loss, small, out);
    else
        tile("Training loss", YK_UNIT_PLAIN, f->train_loss, "", out);
    yk_unit_text(YK_UNIT_WHOLE, f->steps, s);
    snprintf(small, sizeof small, "%s steps, %.4g epochs", s, round(f->epochs * 100.0) / 100.0);
    tile("Time", YK_UNIT_SECONDS, f->seconds, isfinite(f->epochs) ? small : "", out);
    yk_unit_text(YK_UNIT_COUNT, f->steps_per_second, s);
    snprintf(small, sizeof small, "%s steps/s", s);
    tile("Examples/s", YK_UNIT_COUNT, f->examples_per_second, small, out);
    *small = 0;
    if (isfinite(f->cores))
        snprintf(small, sizeof small, "of %.4g cores, on average", f->cores);
    tile("CPU", YK_UNIT_CORES, f->cpu, small, out);
    tile("Memory", YK_UNIT_BYTES, f->memory_peak, "at the peak", out);
    if (f->ranks > 1.0 || f->network > 0.0)
        tile("Network", YK_UNIT_RATE, f->network, "in and out, on average", out);
    yk_text_add(out, "</dl>\n");
}

/* "No better after epoch 37": the sentence, where there is one. */
static void flattened(const yk_facts *f, yk_text *out)
{
    char best[YK_UNIT_ROOM], rest[YK_UNIT_ROOM];
    if (!f->flat.flat)
        return;
    yk_unit_text(!strcmp(f->flat.what, "test accuracy") ? YK_UNIT_SHARE : YK_UNIT_PLAIN, f->flat.best, best);
    yk_unit_text(YK_UNIT_SECONDS, f->flat.rest * f->seconds, rest);
    yk_text_print(out,
                  "<p>No better after epoch %.4g of %.4g: the %s was as good as its best (%s) by then; the "
                  "last %.0f %% of the "
                  "time (%s) brought nothing.</p>",
                  f->flat.epoch, f->epochs, f->flat.what, best, 100.0 * f->flat.rest, rest);
}

static void held_back(const yk_compare *c, yk_text *out)
{
    const char *between = "<li>Held back by: ";
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
        yk_text_html(out, !strcmp(kind, "none") ? "nothing" : kind);
        yk_text_print(out, " (%zu %s)", n, n == 1 ? "run" : "runs");
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
                      !c->says ? ""
                      : n == 1 ? ", and is left out above"
                               : ", and are left out above");
}

static void flat_runs(const yk_compare *c, yk_text *out)
{
    size_t n = 0;
    double least = INFINITY, most = 0.0;
    for (size_t i = 0; i < c->n; i++)
        if (c->facts[i].flat.flat) {
            n++;
            least = fmin(least, c->facts[i].flat.epoch);
            most = fmax(most, c->facts[i].flat.epoch);
        }
    if (n == 1)
        for (size_t i = 0; i < c->n; i++) {
            if (!c->facts[i].flat.flat)
                continue;
            yk_text_add(out, "<li>");
            yk_text_html(out, c->run[i].name);
            yk_text_print(out, " got no better after epoch %.4g.</li>", c->facts[i].flat.epoch);
        }
    if (n > 1)
        yk_text_print(
            out, "<li>%zu of %zu runs got no better well before they ended, after epoch %.4g to %.4g.</li>",
            n, c->n, least, most);
}

static void verdict(const yk_page *p, yk_text *out)
{
    const yk_compare *c = p->compare;
    yk_text_add(out, "<section class=\"verdict\" id=\"verdict\">");
    if (c->n == 1) {
        yk__page_verdict(&c->run[0], &c->facts[0], out);
        if (!c->facts[0].verdict && !c->facts[0].bottleneck)
            yk_text_add(out,
                        "<p class=\"soft\">The run directory holds no verdict on what held it back.</p>");
        flattened(&c->facts[0], out);
        tiles(&c->facts[0], out);
    } else {
        yk_text_add(out, c->says ? "<dl class=\"tiles\">" : "");
        for (size_t i = 0; i < c->says; i++) {
            yk_text_print(out, "<div><dt>%s</dt><dd>%s<small>", c->say[i].title, c->say[i].value);
            yk_text_html(out, c->say[i].text);
            yk_text_add(out, "</small></dd></div>");
        }
        yk_text_add(out, c->says ? "</dl><ul class=\"says\">" : "<ul class=\"says\">");
        failed_runs(c, out);
        held_back(c, out);
        flat_runs(c, out);
        yk_text_add(out, "</ul>");
    }
    yk_text_add(out, "</section>\n");
}

static void guard_item(const yk_compare *c, int run, const char *text, yk_text *out)
{
    yk_text_add(out, "<li>");
    yk__page_key(c, run, out);
    if (run >= 0 && c->n > 1) {
        yk_text_add(out, "<b>");
        yk_text_html(out, c->run[run].name);
        yk_text_add(out, "</b>: ");
    }
    yk_text_html(out, text);
    yk_text_add(out, "</li>");
}

static void guards(const yk_page *p, yk_text *out)
{
    enum { SHOWN = 3 };
    const yk_guards *g = p->guards;
    if (!g->n) {
        yk_text_add(out, "<p class=\"quiet\">Checked, and not found: accuracy no better than the commonest "
                         "class, workers that exchanged "
                         "nothing, a loss that rose, fewer updates because the batch grew, runs too short to "
                         "compare, a machine "
                         "that was busy with something else.</p>\n");
        return;
    }
    yk_text_add(out,
                "<section class=\"guards\" id=\"guards\"><h2>Before you conclude</h2><div class=\"list\">\n");
    for (size_t i = 0; i < g->n; i++) {
        const yk_guard *w = &g->guard[i];
        yk_text_print(out, "<div><h3>%s</h3><ul>", w->title);
        for (size_t k = 0; k < w->items && (k < SHOWN || w->items == SHOWN + 1); k++)
            guard_item(p->compare, w->item[k].run, w->item[k].text, out);
        yk_text_add(out, "</ul>");
        if (w->items > SHOWN + 1) {
            yk_text_print(out, "<details><summary>and %zu more runs</summary><ul>", w->items - SHOWN);
            for (size_t k = SHOWN; k < w->items; k++)
                guard_item(p->compare, w->item[k].run, w->item[k].text, out);
            yk_text_add(out, "</ul></details>");
        }
        if (*w->advice)
            yk_text_print(out, "<p>%s</p>", w->advice);
        yk_text_add(out, "</div>\n");
    }
    yk_text_add(out, "</div></section>\n");
}

static bool has_figures(const yk_page *p, bool choice)
{
    bool any = false;
    for (size_t i = 0; i < p->figures->n; i++)
        any |= p->figures->figure[i].steps_or_time == choice;
    return any;
}

static void curves(const yk_page *p, yk_text *out)
{
    static const char *const names[YK_X_COUNT] = {"Step", "Epoch", "Seconds"};
    if (!has_figures(p, true))
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
    yk_text_add(out, "<div class=\"figures choice\">\n");
    for (size_t i = 0; i < p->figures->n; i++)
        if (p->figures->figure[i].steps_or_time)
            yk__page_figure(&p->figures->figure[i], p->compare, out);
    yk_text_add(out, "</div>");
    bool rings = false;
    for (size_t i = 0; i < p->figures->n; i++)
        for (size_t k = 0; k < p->figures->figure[i].n; k++)
            rings |= p->figures->figure[i].series[k].marked;
    if (rings)
        yk_text_add(out, "<p class=\"note\">A ring marks where a curve got no better.</p>");
    yk_text_add(out, "</section>\n");
}

/* A table with the figures whose x is one of its columns. */
static void comparison(const yk_page *p, const yk_table *t, const char *x, yk_text *out)
{
    yk_text_print(out, "<section id=\"%s\"><h2>%s</h2>", t->id, t->title);
    yk__page_table(t, p->compare, out);
    size_t shown = 0;
    for (size_t i = 0; i < p->figures->n; i++) {
        const yk_figure *f = &p->figures->figure[i];
        if (!x || !f->x_title || strcmp(f->x_title, x))
            continue;
        if (!shown++)
            yk_text_add(out, "<div class=\"figures\">");
        yk__page_figure(f, p->compare, out);
    }
    yk_text_add(out, shown ? "</div></section>\n" : "</section>\n");
}

static void tables(const yk_page *p, yk_text *out)
{
    for (size_t i = 0; i < p->compare->tables; i++) {
        const yk_table *t = &p->compare->table[i];
        if (strcmp(t->id, "runs"))
            comparison(p, t, !strcmp(t->id, "modes") ? NULL : t->id, out);
    }
}

/* Phases and staleness are about time; for one run, its own phases belong there too. */
static bool about_time(const yk_page *p, const yk_figure *f)
{
    return f->kind != YK_LINES && (f->run < 0 || p->compare->n == 1);
}

static void section(const yk_page *p, const char *id, const char *title, bool time, yk_text *out)
{
    size_t shown = 0;
    for (size_t i = 0; i < p->figures->n; i++) {
        const yk_figure *f = &p->figures->figure[i];
        bool here =
            time ? about_time(p, f) : f->run < 0 && f->kind == YK_LINES && !f->steps_or_time && !f->x_title;
        if (!here)
            continue;
        if (!shown++) {
            yk_text_print(out, "<section id=\"%s\"><h2>%s</h2>", id, title);
            if (!time && p->compare->n <= YK_FEW_RUNS) /* of many, the one above the curves has to do */
                yk__page_legend(p->compare, out);
            yk_text_add(out, "<div class=\"figures\">\n");
        }
        yk__page_figure(f, p->compare, out);
    }
    if (shown)
        yk_text_add(out, "</div></section>\n");
}

static void footer(const yk_page *p, yk_text *out)
{
    time_t now = time(NULL);
    struct tm t;
    char when[64] = "";
    if (localtime_r(&now, &t))
        strftime(when, sizeof when, " on %e %B %Y at %H:%M", &t);
    yk_text_print(out, "<footer>Made by yoke %s%s from %zu run %s. ", YK_VERSION, when, p->compare->n,
                  p->compare->n == 1 ? "directory" : "directories");
    yk_text_add(out,
                "CPU is in cores; sizes are in powers of 1000; \u00b1 is the standard deviation over runs "
                "that differ in the seed "
                "only. Curves with many points are thinned to their lowest and highest point per pixel.");
    for (size_t i = 0; i < p->compare->n; i++)
        if (p->compare->run[i].thinned) {
            yk_text_print(out, " Logs with more than %d lines of a kind are thinned in the same way.",
                          YK_RUN_ROWS);
            break;
        }
    yk_text_add(out, "</footer>\n");
}

void yk_page_write(const yk_page *p, yk_text *out)
{
    const yk_compare *c = p->compare;
    char title[256];
    yk_page_title(p, title);
    yk_text_add(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
    yk_text_html(out, title);
    yk_text_add(out, " \u00b7 yoke</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n");
    yk_text_put(out, (const char *)yk_embedded_report_page_css, yk_embedded_report_page_css_size);
    yk_text_add(out, "</style>\n</head>\n<body>\n<header><div><h1>");
    yk_text_html(out, title);
    yk_text_add(out, "</h1><p>");
    if (c->n > 1 && p->title)
        yk_text_print(out, "%zu runs \u00b7 ", c->n);
    in_common(c, out);
    yk_text_add(out, "</p></div><button id=\"theme\" type=\"button\">Theme</button></header>\n<main>\n");
    verdict(p, out);
    guards(p, out);
    if (c->n > 1 && c->tables)
        comparison(p, &c->table[0], NULL, out);
    curves(p, out);
    tables(p, out);
    section(p, "time", "Where the time went", true, out);
    section(p, "used", "What the runs used", false, out);
    if (c->n > 1)
        yk_text_add(out, "<section id=\"each\"><h2>Each run</h2>\n");
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
