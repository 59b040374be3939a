/* One run on the page: verdict, processes, alerts, options, and the command to run it again. */
#include "report/page.h"

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

void yk__page_verdict(const yk_run *r, const yk_facts *f, yk_text *out)
{
    const json_t *e;
    size_t i, n = 0;
    if (f->failed) {
        yk_html(out, "<p class=\"kind bad\">Failed at step %.0f</p>", isfinite(f->steps) ? f->steps : 0.0);
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
    json_array_foreach(yk_summary_at(r->summary, "bottleneck.estimates"), i, e)
    {
        const char *change = json_string_value(json_object_get(e, "change"));
        const json_t *times = json_object_get(e, "speedup");
        if (!change || !json_is_number(times))
            continue;
        yk_text_add(out, n++ ? "" : "<ul class=\"estimates\">");
        yk_html(out, "<li>%s: about <b>%.2f \u00d7</b> as fast</li>", change, json_number_value(times));
    }
    yk_text_add(out, n ? "</ul>\n" : "\n");
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

/* People copy this command, and config.ini is untrusted: values are quoted, and lines that are not options are left
 * out. */
static void command(const yk_run *r, yk_text *out)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    yk_text_add(out, "<h3>Run it again</h3><pre>yoke train");
    for (size_t i = 0; i < r->options; i++) {
        const char *name = r->option[i].name, *value = r->option[i].value;
        bool flag = !strcmp(value, "true");
        if (!*name || name[strspn(name, letters)])
            continue;
        yk_html(out, " <span>--%s%s", name, flag ? "" : " "); /* breaks between options, not within one */
        if (!flag)
            shell_word(value, out);
        yk_text_add(out, "</span>");
    }
    yk_text_add(out,
                " <span>--out ANOTHER_DIR</span></pre><p class=\"note\">or, if you have the run directory: "
                "<code>yoke train --config ");
    shell_word(r->path, out);
    yk_text_add(out, "/config.ini --out ANOTHER_DIR</code></p>");
}

static void configuration(const yk_page *p, size_t i, yk_text *out)
{
    const yk_run *r = &p->compare->run[i];
    const char *varying[49];
    if (!r->options)
        return;
    yk_compare_varying(p->compare, varying, 48);
    yk_text_add(out, "<div class=\"cols\"><div>");
    command(r, out);
    yk_text_add(out, "</div><div><h3>Options</h3><dl class=\"options\">");
    for (size_t o = 0; o < r->options; o++) {
        const bool differs = yk_is_listed(r->option[o].name, varying);
        yk_html(out, differs ? "<dt>%s</dt><dd class=\"differs\">%s</dd>" : "<dt>%s</dt><dd>%s</dd>",
                r->option[o].name, r->option[o].value);
    }
    yk_html(out, "<dt>run directory</dt><dd>%s</dd></dl></div></div>\n", r->path);
}

/* ---- processes, traffic, alerts ---- */

static double field(const json_t *o, const char *name)
{
    const json_t *x = json_object_get(o, name);
    return json_is_number(x) ? json_number_value(x) : NAN;
}

static double field_or(const json_t *o, const char *name, double otherwise)
{
    const double x = field(o, name);
    return isfinite(x) ? x : otherwise;
}

/* Prints the table of run i if it has at least `least` rows, and frees it. */
static void show(yk_table *t, size_t i, size_t least, const char *title, const yk_compare *c, yk_text *out)
{
    char id[32];
    snprintf(id, sizeof id, "%s-%zu", t->id, i + 1);
    t->id = id;
    yk_table_squeeze(t);
    if (t->status && !out->status)
        out->status = t->status;
    if (t->rows >= least && !t->status) {
        yk_text_print(out, "<div><h3>%s</h3>", title);
        yk__page_table(t, c, out);
        yk_text_add(out, "</div>");
    }
    yk_table_fini(t);
}

/* The table of processes, also as CSV. */
void yk__process_table(const yk_run *r, yk_table *t)
{
    static const yk_column columns[] = {
        {"rank", NULL, YK_UNIT_WHOLE},
        {"role", .words = true},
        {"host", .words = true},
        {"time", NULL, YK_UNIT_SECONDS},
        {"steps", NULL, YK_UNIT_WHOLE},
        {"examples", NULL, YK_UNIT_WHOLE},
        {"accuracy", "on its share of the training data, before training on it", YK_UNIT_SHARE},
        {"CPU", "mean number of busy cores", YK_UNIT_CORES},
        {"CPU peak", NULL, YK_UNIT_CORES},
        {"memory peak", NULL, YK_UNIT_BYTES},
        {"disk read", NULL, YK_UNIT_BYTES},
        {"disk written", NULL, YK_UNIT_BYTES},
        {"sent", "bytes of messages", YK_UNIT_BYTES},
        {"received", "bytes of messages", YK_UNIT_BYTES},
        {"sent/s", "mean", YK_UNIT_RATE},
        {"received/s", "mean", YK_UNIT_RATE},
        {"switches/s", "context switches per second", YK_UNIT_COUNT},
        {"involuntary/s", "involuntary context switches per second", YK_UNIT_COUNT}};
    yk_process_log unknown;
    yk__process_log_init(0, &unknown);
    *t = (yk_table){.id = "processes"};
    YK_TABLE_COLUMNS(t, columns);
    for (size_t k = 0; k < yk_run_processes(r); k++) {
        const yk_run_process p = yk_run_process_at(r, k);
        const yk_process_log *w = p.log ? p.log : &unknown;
        const json_t *o = p.summary;
        char role[48];
        snprintf(role, sizeof role, "%.16s%s%s", p.role,
                 json_is_true(json_object_get(o, "joined")) ? ", joined" : "",
                 json_is_true(json_object_get(o, "lost")) ? ", lost" : "");
        yk_table_row(t, -1);
        yk_table_number(t, p.rank, NAN);
        yk_table_text(t, role);
        yk_table_text(t, p.host);
        YK_TABLE_NUMBERS(
            t, field_or(o, "seconds", w->last.seconds), field_or(o, "steps", w->last.steps),
            field(o, "examples"), field(o, "train_accuracy"), field_or(o, "cpu_mean", w->mean.cpu),
            field_or(o, "cpu_peak", w->peak.cpu),
            field_or(o, "rss_peak", fmax(w->peak.rss, w->peak.rss_peak)),
            field_or(o, "disk_read_bytes", w->mean.disk_read * w->last.seconds),
            field_or(o, "disk_written_bytes", w->mean.disk_written * w->last.seconds),
            field_or(o, "bytes_sent", w->last.sent), field_or(o, "bytes_received", w->last.received),
            field_or(o, "sent_rate", w->mean.sent_rate), field_or(o, "received_rate", w->mean.received_rate),
            w->mean.switches, w->mean.switches_forced);
    }
}

static void processes(const yk_compare *c, size_t i, yk_text *out)
{
    yk_table t;
    yk__process_table(&c->run[i], &t);
    show(&t, i, 2, "Processes", c, out);
}

/* In a synchronous run, a slow worker is the last one at the barriers. */
static void workers(const yk_compare *c, size_t i, yk_text *out)
{
    static const yk_column columns[] = {
        {"rank", NULL, YK_UNIT_WHOLE},
        {"worker", NULL, YK_UNIT_WHOLE},
        {"steps", NULL, YK_UNIT_WHOLE},
        {"examples", NULL, YK_UNIT_WHOLE},
        {"steps/s", "1 / mean time per step", YK_UNIT_COUNT},
        {"\u03bcs per step", "mean and standard deviation", YK_UNIT_COUNT},
        {"was last", "share of the barriers at which the other workers waited for it", YK_UNIT_SHARE}};
    const json_t *list = yk_summary_at(c->run[i].summary, "processes"), *process, *one;
    const bool several = json_array_size(list) > 1;
    size_t k, w;
    yk_table t = {.id = "workers"};
    YK_TABLE_COLUMNS(&t, columns);
    json_array_foreach(list, k, process)
    {
        json_array_foreach(json_object_get(process, "workers"), w, one)
        {
            const bool old = !json_object_get(one, "barriers"); /* version 0.1.0 */
            const double seconds = field(one, "step_seconds"),
                         barriers = field(one, old ? "meetings" : "barriers");
            if (t.rows == 256)
                break;
            yk_table_row(&t, -1);
            YK_TABLE_NUMBERS(&t, several ? field(process, "rank") : NAN, field(one, "worker"),
                             field(one, "steps"), field(one, "examples"),
                             seconds > 0.0 ? 1.0 / seconds : NAN);
            yk_table_number(&t, seconds * 1e6, field(one, "step_deviation") * 1e6);
            yk_table_number(&t, barriers > 0.0 ? field(one, "came_last") / barriers : NAN, NAN);
        }
    }
    show(&t, i, 2, "Workers", c, out);
}

static void passes(const yk_run *r, yk_text *out)
{
    double forward = yk_summary_number(r, "passes.forward"),
           backward = yk_summary_number(r, "passes.backward");
    if (forward + backward > 0.0)
        yk_text_print(out, "<p class=\"note\">Computing: %.0f %% forward pass, %.0f %% backward pass.</p>",
                      100.0 * forward / (forward + backward), 100.0 * backward / (forward + backward));
}

static void traffic(const yk_compare *c, size_t i, yk_text *out)
{
    static const yk_column columns[] = {{"purpose", .words = true},
                                        {"sent", NULL, YK_UNIT_BYTES},
                                        {"received", NULL, YK_UNIT_BYTES},
                                        {"messages", NULL, YK_UNIT_WHOLE}};
    const char *name;
    json_t *o, *all = (json_t *)yk_summary_at(c->run[i].summary, "traffic"); /* it is only read */
    yk_table t = {.id = "traffic"};
    YK_TABLE_COLUMNS(&t, columns);
    json_object_foreach(all, name, o)
    {
        if (!json_is_object(o) || !(field(o, "sent") + field(o, "received") > 0.0))
            continue;
        yk_table_row(&t, -1);
        yk_table_text(&t, name);
        YK_TABLE_NUMBERS(&t, field(o, "sent"), field(o, "received"), field(o, "messages"));
    }
    show(&t, i, 1, "Traffic", c, out);
}

static void alerts(const yk_compare *c, size_t i, yk_text *out)
{
    static const yk_column columns[] = {{"resource", .words = true},
                                        {"rank", NULL, YK_UNIT_WHOLE},
                                        {"start", NULL, YK_UNIT_SECONDS},
                                        {"duration", NULL, YK_UNIT_SECONDS},
                                        {"level", "share of the capacity", YK_UNIT_SHARE}};
    const yk_run *r = &c->run[i];
    yk_table t = {.id = "alerts",
                  .note =
                      "Times at which a resource stayed above 90 % of its capacity; shaded in the plots."};
    YK_TABLE_COLUMNS(&t, columns);
    for (size_t w = 0; w < r->logs; w++)
        for (size_t k = 0; k < r->log[w].alerts && t.rows < 40; k++) {
            const yk_run_alert *a = &r->log[w].alert[k];
            yk_table_row(&t, -1);
            yk_table_text(&t, a->what);
            YK_TABLE_NUMBERS(&t, r->log[w].rank, a->begin, a->seconds, a->level);
        }
    show(&t, i, 1, "Alerts", c, out);
}

static void summary_line(const yk_facts *f, yk_text *out)
{
    char accuracy[YK_UNIT_SIZE], seconds[YK_UNIT_SIZE], speed[YK_UNIT_SIZE];
    yk_unit_text(YK_UNIT_SHARE, f->test_accuracy, accuracy);
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

void yk__page_run(const yk_page *p, size_t i, yk_text *out)
{
    const yk_compare *c = p->compare;
    bool only = c->n == 1;
    if (!only) {
        yk_text_print(out, "<details class=\"run\" id=\"run-%zu\"><summary>", i + 1);
        yk__page_key(c, (int)i, out);
        yk_html(out, "<b>%s</b><span>", c->run[i].name);
        summary_line(&c->facts[i], out);
        yk_text_add(out, "</span></summary><div class=\"body\"><div class=\"verdict\">");
        yk__page_verdict(&c->run[i], &c->facts[i], out);
        yk_text_add(out, "</div>");
    } else {
        yk_text_add(out, "<section id=\"resources\"><h2>Resources</h2><div class=\"body\">");
    }
    size_t shown = 0;
    for (size_t k = 0; k < p->figures->n; k++)
        if (p->figures->figure[k].run == (int)i && (!only || p->figures->figure[k].kind == YK_LINES)) {
            if (!shown++)
                yk_text_add(out, "<div class=\"figures\">");
            yk__page_figure(&p->figures->figure[k], c, out);
        }
    yk_text_add(
        out,
        shown ? "</div>\n"
              : "<p class=\"note\">This run did not record its use of CPU, memory, network and disk.</p>\n");
    if (c->run[i].logs > 12)
        yk_text_print(out, "<p class=\"note\">The plots show the first 12 of %zu processes.</p>",
                      c->run[i].logs);
    passes(&c->run[i], out);
    workers(c, i, out);
    processes(c, i, out);
    traffic(c, i, out);
    alerts(c, i, out);
    if (only)
        yk_text_add(out, "</div></section>\n<section id=\"configuration\"><h2>Configuration</h2>");
    configuration(p, i, out);
    yk_text_add(out, only ? "</section>\n" : "</div></details>\n");
}
