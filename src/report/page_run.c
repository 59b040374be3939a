/* One run on the page: verdict, processes, alerts, options, and the command to run it again. */
#include "report/page.h"

#include "base/number.h"
#include "config/config.h"
#include "report/run_tables.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Prints a paragraph with a capital at its beginning; a verdict begins with the name of the bottleneck. */
static void paragraph(const char *class, const char *s, yk_text *out)
{
    bool cpu = !strncmp(s, "cpu", 3);
    char first[4] = {(char)toupper((unsigned char)*s), 0};
    yk_text_print(out, "<p%s>", class);
    yk_html(out, "%s%s</p>", cpu ? "CPU" : first, s + (cpu ? 3 : *s != 0));
}

void yk__page_verdict(const yk_facts *f, yk_text *out)
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
    bool safe = *s != 0;
    for (const char *c = s; *c; c++)
        safe &= isalnum((unsigned char)*c) || strchr("-_./:,=+@%", *c);
    yk_text word = {0};
    yk_text_add(&word, safe ? "" : "'");
    for (; *s; s++) {
        yk_text_add(&word, *s == '\'' ? "'\\'" : "");
        yk_text_put(&word, s, 1);
    }
    yk_text_add(&word, safe ? "" : "'");
    if (word.status && !out->status)
        out->status = word.status;
    else
        yk_html(out, "%s", word.s);
    yk_text_fini(&word);
}

/* 0.050000000000000003 becomes 0.05. */
static void shorten(const char *value, char *out, size_t size)
{
    double x;
    const char *end = yk_decimal(value, &x);
    if (end && !*end && strlen(value) > 15)
        yk_number_shortest(x, out, size);
    else
        snprintf(out, size, "%s", value);
}

/* config.ini has the values of some options that were not given, in case a later version changes their defaults. */
static bool is_default(const char *name, const char *value)
{
    const yk_option *o = yk_option_find(name);
    yk_config given, defaults;
    if (!o || o->kind == YK_OPT_TEXT)
        return false;
    yk_config_init(&given);
    yk_config_init(&defaults);
    const bool same =
        !yk_config_set(&given, name, value) &&
        !memcmp((const char *)&given + o->offset, (const char *)&defaults + o->offset, yk_option_size(o));
    yk_config_fini(&given);
    yk_config_fini(&defaults);
    return same;
}

/* Whether yoke started the processes of the run. Otherwise mpirun or srun did, if there are several. */
static bool was_launched(const yk_run *r)
{
    for (const yk_option *o = yk_options; o->name; o++)
        if ((o->flags & YK_OPT_STARTS_JOB) && yk_run_get(r, o->name))
            return true;
    return false;
}

/* People copy this command, and config.ini is untrusted: values are quoted, and lines that are not options are left
 * out. */
static void command(const yk_run *r, const yk_facts *f, yk_text *out)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    yk_text_add(out, "<h3>Run it again</h3><pre>");
    if (f->ranks > 1.0 && !was_launched(r))
        yk_text_print(out, "<span>mpirun -n %.0f</span> ", f->ranks);
    yk_text_add(out, "yoke train");
    for (size_t i = 0; i < r->options; i++) {
        const char *name = r->option[i].name;
        char value[1024];
        if (!*name || name[strspn(name, letters)] || is_default(name, r->option[i].value))
            continue;
        shorten(r->option[i].value, value, sizeof value);
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
    if (!r->options)
        return;
    yk_text_add(out, "<div class=\"cols\"><div>");
    command(r, &p->compare->facts[i], out);
    yk_text_add(out, p->compare->n == 1 ? "</div><div><h3>Options</h3><dl class=\"options\">" : "");
    for (size_t o = 0; p->compare->n == 1 && o < r->options; o++) {
        char value[1024];
        shorten(r->option[o].value, value, sizeof value);
        yk_html(out, "<div><dt>%s</dt><dd>%s</dd></div>", r->option[o].name, value);
    }
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

/* A single worker or process has the numbers of the run. */
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
        yk__page_table(&t, c, out);
        yk_text_add(out, "</div>");
    }
    yk_table_fini(&t);
}

static void summary_line(const yk_facts *f, yk_text *out)
{
    char accuracy[YK_UNIT_SIZE], seconds[YK_UNIT_SIZE], speed[YK_UNIT_SIZE];
    yk_unit_text(YK_UNIT_PERCENT_EXACT, f->test_accuracy, accuracy);
    yk_unit_text(YK_UNIT_SECONDS, f->seconds, seconds);
    yk_unit_text(YK_UNIT_COUNT, f->examples_per_second, speed);
    const struct {
        bool known;
        const char *text, *unit;
    } parts[] = {{f->failed, "failed", ""},
                 {isfinite(f->test_accuracy), accuracy, ""},
                 {isfinite(f->seconds), seconds, ""},
                 {isfinite(f->examples_per_second), speed, " examples/s"},
                 {f->bottleneck, f->bottleneck, ""}};
    const char *between = "";
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].known) {
            yk_html(out, "%s%s%s", between, parts[i].text, parts[i].unit);
            between = " \u00b7 ";
        }
}

void yk__page_metrics(const yk_page *p, size_t i, yk_text *out)
{
    const yk_compare *c = p->compare;
    const bool only = c->n == 1;
    if (!yk_value_at(c->run[i].summary, "test_metrics") || c->n > YK_MAX_DETAILED)
        return;
    yk_text_add(out, only ? "<section id=\"metrics\"><h2>Metrics</h2><div class=\"cols\">"
                          : "<div class=\"cols\">");
    show(YK_RUN_METRICS, c, i, out);
    show(YK_RUN_CLASSES, c, i, out);
    yk_text_add(out, "</div><div class=\"figures\">");
    for (size_t k = 0; k < p->figures->n; k++) {
        const yk_figure *f = &p->figures->figure[k];
        if (f->run == (int)i && f->section)
            yk__page_figure(f, f->title, c, out);
    }
    yk_text_add(out, only ? "</div></section>\n" : "</div>\n");
}

void yk__page_run(const yk_page *p, size_t i, yk_text *out)
{
    const yk_compare *c = p->compare;
    bool only = c->n == 1;
    if (!only) {
        yk_text_print(out, "<details class=\"run\" id=\"run-%zu\"><summary>", i + 1);
        yk__page_key(c, (int)i, out);
        yk_html(out, "<b>%s</b><span>", c->label[i]);
        summary_line(&c->facts[i], out);
        yk_text_add(out, "</span></summary><div class=\"body\"><div class=\"verdict\">");
        yk__page_verdict(&c->facts[i], out);
        yk_text_add(out, "</div>");
        yk__page_metrics(p, i, out);
    } else {
        yk_text_add(out, "<section id=\"over-time\"><h2>Resources over time</h2><div class=\"body\">");
    }
    size_t shown = 0;
    for (size_t k = 0; k < p->figures->n; k++)
        if (p->figures->figure[k].run == (int)i && !p->figures->figure[k].section &&
            (!only || p->figures->figure[k].kind == YK_LINES)) {
            if (!shown++)
                yk_text_add(out, "<div class=\"figures\">");
            yk_figure f = p->figures->figure[k];
            char caption[256];
            f.of = NULL; /* the heading has the label of the run */
            yk_figure_name(&f, caption, sizeof caption);
            yk__page_figure(&f, caption, c, out);
        }
    yk_text_add(
        out,
        shown ? "</div>\n"
              : "<p class=\"note\">This run did not record its use of CPU, memory, network and disk.</p>\n");
    if (c->run[i].logs > 4 * YK_MAX_CURVES)
        yk_text_print(out, "<p class=\"note\">The plots show the first %d of %zu processes.</p>",
                      4 * YK_MAX_CURVES, c->run[i].logs);
    passes(&c->run[i], out);
    for (int k = YK_RUN_WORKERS; k < YK_RUN_WEIGHTS; k++)
        show((yk_run_table)k, c, i, out);
    yk_text weights = {0};
    show(YK_RUN_WEIGHTS, c, i, &weights);
    if (only && weights.n)
        yk_text_add(out, "</div></section>\n<section id=\"model\"><div class=\"body\">");
    yk_text_put(out, weights.s ? weights.s : "", weights.n);
    out->status = out->status ? out->status : weights.status;
    yk_text_fini(&weights);
    if (only)
        yk_text_add(out, "</div></section>\n<section id=\"configuration\"><h2>Configuration</h2>");
    configuration(p, i, out);
    yk_text_add(out, only ? "</section>\n" : "</div></details>\n");
}
