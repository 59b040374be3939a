#include "report/page.h"

#include "base/clock.h"
#include "config/config.h"
#include "report/plot.h"
#include <ctype.h>
#include <stdio.h>
#include <time.h>

/* ---- parts: tables, figures, legends, and the data of the figures ---- */

/* A sample of the line of a run; nothing if there is only one run. */
static void page_key(const yk_compare *c, int run, yk_text *out)
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
    yk_text_print(out, "\">%s", mean);
    if (isfinite(v->spread) && *s)
        yk_text_print(out, " <span class=\"pm\">\u00b1 %s</span>", s);
}

/* The CSV of a figure or table, for page.js. Takes it. */
static void page_data(const char *kind, const char *id, yk_text *csv, yk_text *out)
{
    yk_html(out, "<div hidden id=\"data-%s%s\">%s</div>\n", kind, id, csv->s ? csv->s : "");
    out->status = out->status ? out->status : csv->status;
    yk_text_fini(csv);
}

static void page_table(const yk_table *t, const yk_compare *c, yk_text *out)
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
                page_key(c, t->run[r], out);
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
            "type=\"button\" data-f=\"table-%s\">CSV</button></div>\n",
            t->note ? t->note : "", t->id);
    yk_text csv = {0};
    yk_table_csv(t, &csv);
    page_data("table-", t->id, &csv, out);
}

static void page_legend(const yk_compare *c, yk_text *out)
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
static void own_legend(const yk_figure *f, yk_text *out)
{
    const bool lines = f->kind == YK_LINES;
    const size_t n = lines && f->run < 0 && !f->x_title ? 0 : yk_figure_entries(f);
    yk_text_add(out, n ? "<ul class=\"legend\">" : "");
    for (size_t i = 0; i < n; i++) {
        char class[16];
        const char *name = yk_figure_entry(f, i, class);
        if (name)
            yk_html(out, "<li><i class=\"k %s%s\"></i>%s</li>", lines ? "" : "b ", class, name);
    }
    yk_text_add(out, n ? "</ul>" : "");
}

static void page_figure(const yk_figure *f, const char *caption, yk_text *out)
{
    yk_html(out,
            "<figure id=\"figure-%s\"><figcaption><h3>%s</h3><button class=\"csv\" type=\"button\" "
            "data-f=\"%s\">CSV</button>",
            f->id, caption, f->id);
    own_legend(f, out);
    yk_text_add(out, "</figcaption>");
    for (int x = 0; x < yk_figure_drawings(f); x++)
        yk_figure_draw(f, (yk_x)x, YK_DRAW_PAGE, out);
    yk_text csv = {0};
    yk_figure_csv(f, &csv);
    page_data("", f->id, &csv, out);
    yk_text_add(out, "</figure>\n");
}

/* ---- one run: verdict, processes, alerts, options, and the command to run it again ---- */

/* Prints a paragraph with a capital at its beginning; a verdict begins with the name of the bottleneck. */
static void paragraph(const char *class, const char *s, yk_text *out)
{
    bool cpu = !strncmp(s, "cpu", 3);
    char first[4] = {(char)toupper((unsigned char)*s), 0};
    yk_text_print(out, "<p%s>", class);
    yk_html(out, "%s%s</p>", cpu ? "CPU" : first, s + (cpu ? 3 : *s != 0));
}

static void page_verdict(const yk_facts *f, yk_text *out)
{
    if (f->failed) {
        yk_html(out, "<p class=\"kind bad\">Failed at step %.0f</p>", yk_known_or(f->steps, 0.0));
        paragraph(" class=\"text\"", f->error ? f->error : "unknown reason", out);
    }
    if (f->bottleneck) {
        bool none = !strcmp(f->bottleneck, "none");
        yk_html(out, "<p class=\"kind\">%s%s",
                none ? "No bottleneck" : "Bottleneck: ", none ? "" : f->bottleneck);
        if (!none && f->share > 0.0)
            yk_text_print(out, " \u00b7 %.0f %% of the time", 100.0 * f->share);
        yk_text_add(out, "</p>");
    }
    if (f->verdict)
        paragraph(" class=\"text\"", f->verdict, out);
    if (f->advice && !(f->verdict && strstr(f->verdict, f->advice)))
        paragraph("", f->advice, out);
    yk_text_add(out, "\n");
}

/* ---- the command to run it again ---- */

static void shell_word(const char *s, yk_text *out)
{
    yk_text word = {0};
    yk_text_shell(&word, s);
    yk_html(out, "%s", word.s ? word.s : "");
    out->status = out->status ? out->status : word.status;
    yk_text_fini(&word);
}

/* config.ini has the values of some options that were not given, in case a later version changes their defaults. */
static bool is_default(const char *name, const char *value)
{
    const yk_option *o = yk_option_find(name);
    yk_config given;
    char number[512];
    yk_config_init(&given);
    const bool same = o && o->kind != YK_OPT_TEXT && !yk_config_set(&given, name, value) &&
                      !*yk_config_changed(&given, o, number);
    yk_config_fini(&given);
    return same;
}

/* People copy this command, and config.ini is untrusted: values are quoted, and lines that are not options are left
 * out. */
static void command(const yk_run *r, const yk_facts *f, yk_text *out)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    const char *name;
    json_t *option;
    bool launched = false; /* by yoke; otherwise mpirun or srun started the processes, if there are several */
    for (const yk_option *o = yk_options; o->name; o++)
        launched |= (o->flags & YK_OPT_STARTS_JOB) && yk_run_get(r, o->name);
    yk_text_add(out, "<h3>Run it again</h3><pre>");
    if (f->ranks > 1.0 && !launched)
        yk_text_print(out, "<span>mpirun -n %.0f</span> ", f->ranks);
    yk_text_add(out, "yoke train");
    json_object_foreach(r->options, name, option)
    {
        const char *value = json_string_value(option);
        if (!*name || name[strspn(name, letters)] || is_default(name, value))
            continue;
        const bool flag = !strcmp(value, "true");
        yk_html(out, " <span>--%s%s", name, flag ? "" : " "); /* breaks between options, not within one */
        if (!flag)
            shell_word(value, out);
        yk_text_add(out, "</span>");
    }
    yk_text_add(out, " <span>--out ANOTHER_DIR</span></pre><p class=\"note\">or: <code>yoke train --config ");
    shell_word(r->path, out);
    yk_text_add(out, "/config.ini --out ANOTHER_DIR</code></p>");
}

/* Of several runs, the header and the commands have the options. */
static void configuration(const yk_page *p, size_t i, yk_text *out)
{
    const yk_run *r = &p->compare->run[i];
    const char *name;
    json_t *value;
    if (!r->options)
        return;
    yk_text_add(out, "<div class=\"cols\"><div>");
    command(r, &p->compare->facts[i], out);
    yk_text_add(out, p->compare->n == 1 ? "</div><div><h3>Options</h3><dl class=\"options\">" : "");
    json_object_foreach(p->compare->n == 1 ? r->options : NULL, name, value)
        yk_html(out, "<div><dt>%s</dt><dd>%s</dd></div>", name, json_string_value(value));
    yk_text_add(out, p->compare->n == 1 ? "</dl></div></div>\n" : "</div></div>\n");
}

static void passes(const yk_run *r, yk_text *out)
{
    double forward = yk_number_at(r->summary, "passes.forward"),
           backward = yk_number_at(r->summary, "passes.backward");
    if (forward + backward > 0.0)
        yk_text_print(out, "<p class=\"note\">Computing: %.0f %% forward pass, %.0f %% backward pass.</p>",
                      100.0 * forward / (forward + backward), 100.0 * backward / (forward + backward));
}

/* A table of a run, if it has rows: title and table. A single worker or process has the numbers of the run. */
static void show(yk_run_table which, const yk_compare *c, size_t i, yk_text *out)
{
    const size_t min = which == YK_RUN_WORKERS || which == YK_RUN_PROCESSES ? 2 : 1;
    yk_table t;
    char id[48];
    yk_run_table_make(c, (int)i, which, &t);
    snprintf(id, sizeof id, "%s-%zu", t.id, i + 1);
    t.id = id;
    yk_table_drop_empty_columns(&t);
    if (t.status && !out->status)
        out->status = t.status;
    if (t.rows >= min && !t.status) {
        yk_text_print(out, "<div><h3>%s</h3>", t.title);
        page_table(&t, c, out);
        yk_text_add(out, "</div>");
    }
    yk_table_fini(&t);
}

static void summary_line(const yk_facts *f, yk_text *out)
{
    const struct {
        double x;
        yk_unit unit;
        const char *word;
    } parts[] = {{f->test_accuracy, YK_UNIT_PERCENT_EXACT, ""},
                 {f->seconds, YK_UNIT_SECONDS, ""},
                 {f->examples_per_second, YK_UNIT_COUNT, " examples/s"}};
    const size_t begin = out->n;
    yk_text_add(out, f->failed ? "failed" : "");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char text[YK_UNIT_SIZE];
        if (isfinite(parts[i].x))
            yk_text_print(out, "%s%s%s", out->n > begin ? " \u00b7 " : "",
                          yk_unit_text(parts[i].unit, parts[i].x, text), parts[i].word);
    }
    if (f->bottleneck)
        yk_html(out, "%s%s", out->n > begin ? " \u00b7 " : "", f->bottleneck);
}

/* ---- figures of a run ---- */

/* The id of the section that has a figure; "": the details of its run. */
static const char *section_of(const yk_page *p, const yk_figure *f)
{
    if (f->section)
        return f->section;
    if (f->steps_or_time)
        return "curves";
    if (f->x_title)
        return f->x_title; /* the table that has this column */
    if (f->kind == YK_LINES)
        return f->run < 0 ? "resources" : "";
    return f->run < 0 || p->compare->n == 1 ? "time" : ""; /* a single run has its own phases here too */
}

/* The figures in a section, of one run or all (-1), in a grid. The panels of a figure are small, below their common title. Returns
 * whether there are any. */
static bool show_figures(const yk_page *p, int run, const char *section, const char *class, yk_text *out)
{
    const char *before = NULL; /* the title of the panels that are open; "": a grid of whole figures */
    for (size_t i = 0; i < p->figures->n; i++) {
        const yk_figure *f = &p->figures->figure[i];
        const char *title = *f->panel ? f->title : "";
        if (strcmp(section_of(p, f), section) || (run >= 0 && f->run != run))
            continue;
        if (!before || strcmp(before, title)) {
            yk_text_add(out, before ? "</div>\n" : "");
            if (*title)
                yk_html(out, "<h3 class=\"panels\">%s</h3>", title);
            size_t panels = 0;
            for (const yk_figure *k = f; *title && k < p->figures->figure + p->figures->n; k++)
                panels += k->run == f->run && !strcmp(k->title, title);
            yk_text_print(out, "<div class=\"%s%s\">\n", class,
                          !*title                      ? ""
                          : panels == 2 || panels == 4 ? " small two"
                                                       : " small");
        }
        before = title;
        page_figure(f, *f->panel ? f->panel : f->title, out);
    }
    yk_text_add(out, before ? "</div>\n" : "");
    return before != NULL;
}

/* The test metrics of a run: a section if it is the only one. */
static void page_metrics(const yk_page *p, size_t i, yk_text *out)
{
    const yk_compare *c = p->compare;
    const bool only = c->n == 1;
    if (!yk_value_at(c->run[i].summary, "test_metrics") || c->n > YK_MAX_DETAILED)
        return;
    yk_text_add(out, only ? "<section id=\"metrics\"><h2>Metrics</h2><div class=\"cols\">"
                          : "<div class=\"cols\">");
    show(YK_RUN_METRICS, c, i, out);
    show(YK_RUN_CLASSES, c, i, out);
    yk_text_add(out, "</div>");
    show_figures(p, (int)i, "metrics", "figures", out);
    yk_text_add(out, only ? "</section>\n" : "\n");
}

static void page_run(const yk_page *p, size_t i, yk_text *out)
{
    const yk_compare *c = p->compare;
    bool only = c->n == 1;
    if (!only) {
        yk_text_print(out, "<details class=\"run\" id=\"run-%zu\"><summary>", i + 1);
        page_key(c, (int)i, out);
        yk_html(out, "<b>%s</b><span>", c->label[i]);
        summary_line(&c->facts[i], out);
        yk_text_add(out, "</span></summary><div class=\"body\"><div class=\"verdict\">");
        page_verdict(&c->facts[i], out);
        yk_text_add(out, "</div>");
        page_metrics(p, i, out);
    } else {
        yk_text_add(out, "<section id=\"over-time\"><h2>Resources over time</h2><div class=\"body\">");
    }
    yk_text_add(
        out,
        show_figures(p, (int)i, "", "figures", out)
            ? "\n"
            : "<p class=\"note\">This run did not record its use of CPU, memory, network and disk.</p>\n");
    if (c->run[i].logs > 4 * YK_MAX_CURVES)
        yk_text_print(out, "<p class=\"note\">The plots show the first %d of %zu processes.</p>",
                      4 * YK_MAX_CURVES, c->run[i].logs);
    passes(&c->run[i], out);
    for (int k = YK_RUN_WORKERS; k < YK_RUN_TABLES; k++)
        show((yk_run_table)k, c, i, out);
    if (only)
        yk_text_add(out, "</div></section>\n<section id=\"configuration\"><h2>Configuration</h2>");
    configuration(p, i, out);
    yk_text_add(out, only ? "</section>\n" : "</div></details>\n");
}

/* ---- the page ---- */

/* observe/page.css and page.js, compiled into the program. */
extern const unsigned char yk_embedded_observe_page_css[], yk_embedded_report_page_js[];
extern const unsigned long yk_embedded_observe_page_css_size, yk_embedded_report_page_js_size;

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

static void tile(const char *name, const char *value, const char *small, yk_text *out)
{
    yk_html(out, "<div><dt>%s</dt><dd>%s<small>%s</small></dd></div>", name, value, small);
}

/* The main numbers of a run. `small`: a format for `of`, which is left out if that is unknown, or a text. */
static void tiles(const yk_facts *f, yk_text *out)
{
    char steps[YK_UNIT_SIZE], rate[YK_UNIT_SIZE], time[96] = "", speed[64];
    const bool tested = isfinite(f->test_loss), best_auc = isfinite(f->best_auc),
               best = isfinite(f->best_loss);
    if (isfinite(f->epochs))
        snprintf(time, sizeof time, "%s step%s, %.6g epoch%s", yk_unit_text(YK_UNIT_INTEGER, f->steps, steps),
                 f->steps == 1.0 ? "" : "s", yk_round_epochs(f->epochs), f->epochs == 1.0 ? "" : "s");
    snprintf(speed, sizeof speed, "%s steps/s", yk_unit_text(YK_UNIT_COUNT, f->steps_per_second, rate));
    const struct {
        const char *name;
        yk_unit unit;
        double x;
        const char *small;
        double of;
    } list[] = {
        {"Test accuracy", YK_UNIT_PERCENT_EXACT, f->test_accuracy, "majority class %.3g %%",
         100.0 * f->majority},
        {"Test AUC", YK_UNIT_PLAIN, f->test_auc, best_auc ? "best possible %.4f" : "0.5 is chance",
         f->best_auc},
        {"Test loss", YK_UNIT_PLAIN, f->test_loss, best ? "best possible %.4f" : "training %.4f",
         best ? f->best_loss : f->train_loss},
        {"Training loss", YK_UNIT_PLAIN, tested ? NAN : f->train_loss, "", 0.0},
        {"Validation loss", YK_UNIT_PLAIN, f->validation_loss, "best model, at step %.0f", f->best_step},
        {"Time", YK_UNIT_SECONDS, f->seconds, time, 0.0},
        {"Examples/s", YK_UNIT_COUNT, f->examples_per_second, speed, 0.0},
        {"CPU", YK_UNIT_CORES, f->cpu, f->cores == 1.0 ? "mean, of %.4g core" : "mean, of %.4g cores",
         f->cores},
        {"Memory", YK_UNIT_BYTES, f->memory_peak, "peak", 0.0},
        {"Network", YK_UNIT_RATE, f->ranks > 1.0 || f->network > 0.0 ? f->network : NAN,
         "mean of the busiest host, one direction", 0.0}};
    yk_text_add(out, "<dl class=\"tiles\">");
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        char value[YK_UNIT_SIZE], small[96];
        if (!isfinite(list[i].x))
            continue;
        snprintf(small, sizeof small,
                 isfinite(list[i].of) || !strchr(list[i].small, '%') ? list[i].small : "", list[i].of);
        tile(list[i].name, yk_unit_text(list[i].unit, list[i].x, value), small, out);
    }
    yk_text_add(out, "</dl>\n");
}

static void plateau(const yk_facts *f, yk_text *out)
{
    char best[YK_UNIT_SIZE], rest[YK_UNIT_SIZE], when[32];
    const bool known = isfinite(f->plateau.epoch);
    if (!f->plateau.reached)
        return;
    const yk_unit unit = strcmp(f->plateau.what, "test accuracy") ? YK_UNIT_PLAIN : YK_UNIT_PERCENT_EXACT;
    yk_text_print(out,
                  "<p>No improvement after %s of %.*g: by then, the %s was as good as its best value (%s). "
                  "The last %.0f %% of the time (%s) brought no improvement.</p>",
                  yk_when_text(f->plateau.epoch, f->plateau.step, when), known ? 6 : 15,
                  known ? yk_round_epochs(f->epochs) : f->steps, f->plateau.what,
                  yk_unit_text(unit, f->plateau.best, best), 100.0 * f->plateau.rest,
                  yk_unit_text(YK_UNIT_SECONDS, f->plateau.rest * f->seconds, rest));
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
            snprintf(range, sizeof range, ", after epochs %.6g to %.6g", yk_round_epochs(min),
                     yk_round_epochs(max));
        yk_html(out, "<li>%zu of %zu runs stopped improving long before the end%s.</li>", n, c->n, range);
    }
}

static void verdict(const yk_page *p, yk_text *out)
{
    const yk_compare *c = p->compare;
    yk_text_add(out, "<section class=\"verdict\" id=\"verdict\">");
    if (c->n == 1) {
        page_verdict(&c->facts[0], out);
        if (!c->facts[0].verdict && !c->facts[0].bottleneck)
            yk_text_add(out, "<p class=\"soft\">The run directory has no verdict.</p>");
        plateau(&c->facts[0], out);
        tiles(&c->facts[0], out);
    } else {
        yk_text_add(out, c->highlights ? "<dl class=\"tiles\">" : "");
        for (size_t i = 0; i < c->highlights; i++)
            tile(c->highlight[i].title, c->highlight[i].value, c->highlight[i].text, out);
        yk_text_add(out, c->highlights ? "</dl><ul class=\"findings\">" : "<ul class=\"findings\">");
        size_t failed = 0;
        for (size_t i = 0; i < c->n; i++)
            failed += c->facts[i].failed;
        if (failed)
            yk_text_print(out, "<li>%zu of %zu runs failed%s.</li>", failed, c->n,
                          c->highlights ? " (not included above)" : "");
        bottlenecks(c, out);
        plateaus(c, out);
        yk_text_add(out, "</ul>");
    }
    yk_text_add(out, "</section>\n");
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
            const int run = g->item[k].run;
            yk_text_add(out, "<li>");
            page_key(p->compare, run, out);
            if (run >= 0 && p->compare->n > 1)
                yk_html(out, "<b>%s</b>: ", p->compare->label[run]);
            yk_html(out, "%s</li>", g->item[k].text);
        }
        yk_text_add(out, many ? "</ul></details>" : "</ul>");
        if (*yk_warning_texts[i].advice)
            yk_text_print(out, "<p>%s</p>", yk_warning_texts[i].advice);
        yk_text_add(out, "</div>\n");
    }
    yk_text_add(out, "</div></section>\n");
}

/* ---- sections ---- */

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
    page_legend(p->compare, out);
    show_figures(p, -1, "curves", "figures choice", out);
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
        page_table(t, p->compare, out);
    if (!strcmp(id, "resources"))
        page_legend(p->compare, out);
    show_figures(p, -1, id, "figures", out);
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
    yk_text_put(out, (const char *)yk_embedded_observe_page_css, yk_embedded_observe_page_css_size);
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
        page_metrics(p, 0, out);
    static const char *const sections[] = {
        "batch", "workers", "modes", "time", "resources", "traffic-between-hosts", "machines"};
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        section(p, sections[i], !strcmp(sections[i], "time") ? "Where the time went" : "Resources", out);
    if (c->n > 1)
        yk_text_add(out, "<section id=\"each\"><h2>Run details</h2>\n");
    for (size_t i = 0; i < c->n; i++)
        page_run(p, i, out);
    if (c->n > 1)
        yk_text_add(out, "</section>\n");
    yk_text_add(out, "</main>\n");
    footer(p, out);
    yk_text_add(out, "<div id=\"tip\" role=\"status\"></div>\n");
    yk_text_add(out, "<script>\n");
    yk_text_put(out, (const char *)yk_embedded_report_page_js, yk_embedded_report_page_js_size);
    yk_text_add(out, "</script>\n</body>\n</html>\n");
}
