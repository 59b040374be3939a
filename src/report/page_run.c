/* One run on the page: verdict, processes, alerts, configuration, and how to run it again. */
#include "report/page.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A sentence begins with a capital; a verdict begins with the name of the bottleneck. */
static void sentence(const char *s, yk_text *out)
{
    bool cpu = !strncmp(s, "cpu", 3);
    if (!*s)
        return;
    char first[4] = {(char)toupper((unsigned char)*s), 0};
    yk_text_html(out, cpu ? "CPU" : first);
    yk_text_html(out, s + (cpu ? 3 : 1));
}

void yk__page_verdict(const yk_run *r, const yk_facts *f, yk_text *out)
{
    const json_t *estimates = r->summary ? yk_summary_at(r->summary, "bottleneck.estimates") : NULL, *e;
    size_t i, n = 0;
    if (f->failed) {
        yk_text_print(out, "<p class=\"kind bad\">Failed at step %.0f", isfinite(f->steps) ? f->steps : 0.0);
        yk_text_add(out, "</p><p class=\"say\">");
        sentence(f->error ? f->error : "it did not say why", out);
        yk_text_add(out, "</p>");
    }
    if (f->bottleneck) {
        bool none = !strcmp(f->bottleneck, "none");
        yk_text_print(out, "<p class=\"kind\">%s", none ? "Nothing held it back" : "Held back by ");
        if (!none)
            yk_text_html(out, f->bottleneck);
        if (!none && f->share > 0.0)
            yk_text_print(out, " \u00b7 %.0f %% of the time", 100.0 * f->share);
        yk_text_add(out, "</p>");
    }
    if (f->verdict) {
        yk_text_add(out, "<p class=\"say\">");
        sentence(f->verdict, out);
        yk_text_add(out, "</p>");
    }
    if (f->advice && !(f->verdict && strstr(f->verdict, f->advice))) {
        yk_text_add(out, "<p>");
        sentence(f->advice, out);
        yk_text_add(out, "</p>");
    }
    json_array_foreach(estimates, i, e)
    {
        const char *change = json_string_value(json_object_get(e, "change"));
        const json_t *times = json_object_get(e, "speedup");
        if (!change || !json_is_number(times))
            continue;
        yk_text_add(out, n++ ? "<li>" : "<ul class=\"estimates\"><li>");
        yk_text_html(out, change);
        yk_text_print(out, ": about <b>%.2f \u00d7</b> as fast</li>", json_number_value(times));
    }
    yk_text_add(out, n ? "</ul>\n" : "\n");
}

/* ---- how to run it again ---- */

static void shell_word(const char *s, yk_text *out)
{
    bool safe = *s != 0;
    for (const char *c = s; *c; c++)
        safe &= isalnum((unsigned char)*c) || strchr("-_./:,=+@%", *c);
    if (safe) {
        yk_text_html(out, s);
        return;
    }
    yk_text quoted = {0};
    yk_text_add(&quoted, "'");
    for (; *s; s++) {
        if (*s == '\'')
            yk_text_add(&quoted, "'\\'");
        yk_text_put(&quoted, s, 1);
    }
    yk_text_add(&quoted, "'");
    if (quoted.status && !out->status)
        out->status = quoted.status;
    else
        yk_text_html(out, quoted.s);
    yk_text_fini(&quoted);
}

/* Users copy these commands, and config.ini is untrusted: values are quoted, and anything that is not an option name is
 * left out. */
static void command(const yk_run *r, yk_text *out)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    yk_text_add(out, "<h3>Run it again</h3><pre>yoke train");
    for (size_t i = 0; i < r->options; i++) {
        const char *name = r->option[i].name, *value = r->option[i].value;
        bool flag = !strcmp(value, "true");
        if (!*name || name[strspn(name, letters)])
            continue;
        yk_text_add(out, " <span>--"); /* breaks between options, not within one */
        yk_text_html(out, name);
        if (!flag) {
            yk_text_add(out, " ");
            shell_word(value, out);
        }
        yk_text_add(out, "</span>");
    }
    yk_text_add(out, " <span>--out ANOTHER_DIR</span></pre>");
    yk_text_add(out, "<p class=\"note\">or, where its folder is: <code>yoke train --config ");
    shell_word(r->path, out);
    yk_text_add(out, "/config.ini --out ANOTHER_DIR</code></p>");
}

static void configuration(const yk_page *p, size_t i, yk_text *out)
{
    const yk_run *r = &p->compare->run[i];
    const char *varying[48];
    size_t n = p->compare->n > 1 ? yk_compare_varying(p->compare, varying, 48) : 0;
    if (!r->options)
        return;
    yk_text_add(out, "<div class=\"cols\"><div>");
    command(r, out);
    yk_text_add(out, "</div><div><h3>Options</h3><dl class=\"options\">");
    for (size_t o = 0; o < r->options; o++) {
        bool differs = false;
        for (size_t k = 0; k < n; k++)
            differs |= !strcmp(varying[k], r->option[o].name);
        yk_text_add(out, "<dt>");
        yk_text_html(out, r->option[o].name);
        yk_text_print(out, "</dt><dd%s>", differs ? " class=\"differs\"" : "");
        yk_text_html(out, r->option[o].value);
        yk_text_add(out, "</dd>");
    }
    yk_text_add(out, "<dt>folder</dt><dd>");
    yk_text_html(out, r->path);
    yk_text_add(out, "</dd></dl></div></div>\n");
}

/* ---- processes, traffic, alerts ---- */

static double field(const json_t *o, const char *name)
{
    const json_t *x = json_object_get(o, name);
    return json_is_number(x) ? json_number_value(x) : NAN;
}

static void table(yk_table *t, const yk_compare *c, const char *title, yk_text *out)
{
    yk_table_squeeze(t);
    if (t->status && !out->status)
        out->status = t->status;
    if (t->rows && !t->status) {
        yk_text_print(out, "<div><h3>%s</h3>", title);
        yk__page_table(t, c, out);
        yk_text_add(out, "</div>");
    }
    yk_table_fini(t);
}

static void processes(const yk_page *p, size_t i, yk_text *out)
{
    const yk_run *r = &p->compare->run[i];
    const json_t *list = r->summary ? yk_summary_at(r->summary, "processes") : NULL;
    size_t n = json_array_size(list) ? json_array_size(list) : r->workers;
    char id[32];
    snprintf(id, sizeof id, "processes-%zu", i + 1);
    yk_table t = {.id = id};
    yk_table_column(&t, "rank", YK_UNIT_WHOLE, NULL);
    yk_table_words(&t, "role", NULL);
    yk_table_words(&t, "host", NULL);
    yk_table_column(&t, "steps", YK_UNIT_WHOLE, NULL);
    yk_table_column(&t, "examples", YK_UNIT_WHOLE, NULL);
    yk_table_column(&t, "CPU", YK_UNIT_CORES, "cores busy on average");
    yk_table_column(&t, "CPU peak", YK_UNIT_CORES, NULL);
    yk_table_column(&t, "memory peak", YK_UNIT_BYTES, NULL);
    yk_table_column(&t, "sent", YK_UNIT_BYTES, "by the program itself");
    yk_table_column(&t, "received", YK_UNIT_BYTES, "by the program itself");
    yk_table_column(&t, "switches/s", YK_UNIT_COUNT, "context switches per second");
    yk_table_column(&t, "forced/s", YK_UNIT_COUNT,
                    "context switches per second that the process did not ask for");
    for (size_t k = 0; n > 1 && k < n; k++) {
        const json_t *o = json_array_get(list, k), *rank = json_object_get(o, "rank");
        int number = json_is_integer(rank) ? (int)json_integer_value(rank) : o ? (int)k : r->worker[k].rank;
        const yk_run_worker *w = NULL;
        for (size_t m = 0; m < r->workers; m++)
            w = r->worker[m].rank == number ? &r->worker[m] : w;
        const char *said = json_string_value(json_object_get(o, "role")),
                   *host = json_string_value(json_object_get(o, "host"));
        char role[48];
        snprintf(role, sizeof role, "%.16s%s%s",
                 said ? said
                 : w  ? w->role
                      : "",
                 json_is_true(json_object_get(o, "joined")) ? ", joined" : "",
                 json_is_true(json_object_get(o, "lost")) ? ", lost" : "");
        double cpu = field(o, "cpu_mean"), peak = field(o, "cpu_peak"), rss = field(o, "rss_peak"),
               sent = field(o, "bytes_sent"), received = field(o, "bytes_received"),
               steps = field(o, "steps");
        yk_table_row(&t, -1);
        yk_table_number(&t, number, NAN);
        yk_table_text(&t, role);
        yk_table_text(&t, host ? host : w ? w->host : "");
        yk_table_number(&t, w && !isfinite(steps) ? w->last.steps : steps, NAN);
        yk_table_number(&t, field(o, "examples"), NAN);
        yk_table_number(&t, w && !isfinite(cpu) ? w->mean.cpu : cpu, NAN);
        yk_table_number(&t, w && !isfinite(peak) ? w->peak.cpu : peak, NAN);
        yk_table_number(&t, w && !isfinite(rss) ? fmax(w->peak.rss, w->peak.rss_peak) : rss, NAN);
        yk_table_number(&t, w && !isfinite(sent) ? w->last.sent : sent, NAN);
        yk_table_number(&t, w && !isfinite(received) ? w->last.received : received, NAN);
        yk_table_number(&t, w ? w->mean.switches : NAN, NAN);
        yk_table_number(&t, w ? w->mean.switches_forced : NAN, NAN);
    }
    table(&t, p->compare, "Processes", out);
}

/* Who was slow: workers that the others wait for come last to the barriers. */
static void workers(const yk_page *p, size_t i, yk_text *out)
{
    const yk_run *r = &p->compare->run[i];
    const json_t *list = r->summary ? yk_summary_at(r->summary, "processes") : NULL, *process, *one;
    char id[32];
    size_t k, w;
    snprintf(id, sizeof id, "workers-%zu", i + 1);
    yk_table t = {.id = id};
    if (json_array_size(list) > 1)
        yk_table_column(&t, "rank", YK_UNIT_WHOLE, NULL);
    yk_table_column(&t, "worker", YK_UNIT_WHOLE, NULL);
    yk_table_column(&t, "steps", YK_UNIT_WHOLE, NULL);
    yk_table_column(&t, "examples", YK_UNIT_WHOLE, NULL);
    yk_table_column(&t, "steps/s", YK_UNIT_COUNT, "one by the mean time of a step");
    yk_table_column(&t, "\u03bcs per step", YK_UNIT_COUNT, "mean and deviation");
    yk_table_column(&t, "came last", YK_UNIT_SHARE, "part of the barriers at which the others waited for it");
    json_array_foreach(list, k, process)
    {
        json_array_foreach(json_object_get(process, "workers"), w, one)
        {
            const bool old = !json_object_get(one, "barriers"); /* version 0.1.0 */
            double seconds = field(one, "step_seconds"), barriers = field(one, old ? "meetings" : "barriers");
            if (t.rows == 256)
                break;
            yk_table_row(&t, -1);
            if (json_array_size(list) > 1)
                yk_table_number(&t, field(process, "rank"), NAN);
            yk_table_number(&t, field(one, "worker"), NAN);
            yk_table_number(&t, field(one, "steps"), NAN);
            yk_table_number(&t, field(one, "examples"), NAN);
            yk_table_number(&t, seconds > 0.0 ? 1.0 / seconds : NAN, NAN);
            yk_table_number(&t, seconds * 1e6, field(one, "step_deviation") * 1e6);
            yk_table_number(&t, barriers > 0.0 ? field(one, "came_last") / barriers : NAN, NAN);
        }
    }
    if (t.rows < 2)
        yk_table_fini(&t);
    table(&t, p->compare, "Workers", out);
}

/* Where computing is measured in two halves. */
static void passes(const yk_run *r, yk_text *out)
{
    double forward = yk_summary_number(r, "passes.forward"),
           backward = yk_summary_number(r, "passes.backward");
    if (forward + backward > 0.0)
        yk_text_print(out,
                      "<p class=\"note\">Of the computing, %.0f %% was forward and %.0f %% backward.</p>",
                      100.0 * forward / (forward + backward), 100.0 * backward / (forward + backward));
}

static void traffic(const yk_page *p, size_t i, yk_text *out)
{
    const json_t *all =
        p->compare->run[i].summary ? yk_summary_at(p->compare->run[i].summary, "traffic") : NULL;
    char id[32];
    snprintf(id, sizeof id, "traffic-%zu", i + 1);
    yk_table t = {.id = id};
    yk_table_words(&t, "messages of", NULL);
    yk_table_column(&t, "sent", YK_UNIT_BYTES, NULL);
    yk_table_column(&t, "received", YK_UNIT_BYTES, NULL);
    yk_table_column(&t, "messages", YK_UNIT_WHOLE, NULL);
    const char *name;
    json_t *o;
    json_object_foreach((json_t *)all, name, o)
    { /* it is only read */
        if (!json_is_object(o) || !(field(o, "sent") + field(o, "received") > 0.0))
            continue;
        yk_table_row(&t, -1);
        yk_table_text(&t, name);
        yk_table_number(&t, field(o, "sent"), NAN);
        yk_table_number(&t, field(o, "received"), NAN);
        yk_table_number(&t, field(o, "messages"), NAN);
    }
    table(&t, p->compare, "Traffic", out);
}

static void alerts(const yk_page *p, size_t i, yk_text *out)
{
    const yk_run *r = &p->compare->run[i];
    char id[32];
    snprintf(id, sizeof id, "alerts-%zu", i + 1);
    yk_table t = {.id = id,
                  .note =
                      "Times at which a resource stayed above 90 % of what there is; shaded in the plots."};
    yk_table_words(&t, "resource", NULL);
    yk_table_column(&t, "rank", YK_UNIT_WHOLE, NULL);
    yk_table_column(&t, "from", YK_UNIT_SECONDS, NULL);
    yk_table_column(&t, "for", YK_UNIT_SECONDS, NULL);
    yk_table_column(&t, "level", YK_UNIT_SHARE, "of what there is");
    for (size_t w = 0; w < r->workers; w++)
        for (size_t k = 0; k < r->worker[w].alerts && t.rows < 40; k++) {
            const yk_run_alert *a = &r->worker[w].alert[k];
            yk_table_row(&t, -1);
            yk_table_text(&t, a->what);
            yk_table_number(&t, r->worker[w].rank, NAN);
            yk_table_number(&t, a->begin, NAN);
            yk_table_number(&t, a->seconds, NAN);
            yk_table_number(&t, a->level, NAN);
        }
    table(&t, p->compare, "Alerts", out);
}

static void summary_line(const yk_facts *f, yk_text *out)
{
    char s[YK_UNIT_ROOM];
    const char *between = "";
    if (f->failed) {
        yk_text_add(out, "failed");
        between = " \u00b7 ";
    }
    if (isfinite(f->test_accuracy)) {
        yk_unit_text(YK_UNIT_SHARE, f->test_accuracy, s);
        yk_text_print(out, "%s%s", between, s);
        between = " \u00b7 ";
    }
    if (isfinite(f->seconds)) {
        yk_unit_text(YK_UNIT_SECONDS, f->seconds, s);
        yk_text_print(out, "%s%s", between, s);
        between = " \u00b7 ";
    }
    if (isfinite(f->examples_per_second)) {
        yk_unit_text(YK_UNIT_COUNT, f->examples_per_second, s);
        yk_text_print(out, "%s%s examples/s", between, s);
    }
    if (f->bottleneck) {
        yk_text_add(out, " \u00b7 ");
        yk_text_html(out, f->bottleneck);
    }
}

void yk__page_run(const yk_page *p, size_t i, yk_text *out)
{
    const yk_compare *c = p->compare;
    bool only = c->n == 1;
    if (!only) {
        yk_text_print(out, "<details class=\"run\" id=\"run-%zu\"><summary>", i + 1);
        yk__page_key(c, (int)i, out);
        yk_text_add(out, "<b>");
        yk_text_html(out, c->run[i].name);
        yk_text_add(out, "</b><span>");
        summary_line(&c->facts[i], out);
        yk_text_add(out, "</span></summary><div class=\"body\"><div class=\"verdict\">");
        yk__page_verdict(&c->run[i], &c->facts[i], out);
        yk_text_add(out, "</div>");
    } else {
        yk_text_add(out, "<section id=\"resources\"><h2>What it used</h2><div class=\"body\">");
    }
    size_t shown = 0;
    for (size_t k = 0; k < p->figures->n; k++)
        if (p->figures->figure[k].run == (int)i && (!only || p->figures->figure[k].kind == YK_LINES)) {
            if (!shown++)
                yk_text_add(out, "<div class=\"figures\">");
            yk__page_figure(&p->figures->figure[k], c, out);
        }
    yk_text_add(out,
                shown ? "</div>\n"
                      : "<p class=\"note\">This run did not record its CPU, memory, network and disk.</p>\n");
    if (c->run[i].workers > 12)
        yk_text_print(out, "<p class=\"note\">The plots show the first 12 of %zu processes.</p>",
                      c->run[i].workers);
    passes(&c->run[i], out);
    workers(p, i, out);
    processes(p, i, out);
    traffic(p, i, out);
    alerts(p, i, out);
    if (only)
        yk_text_add(out, "</div></section>\n<section id=\"configuration\"><h2>Configuration</h2>");
    configuration(p, i, out);
    yk_text_add(out, only ? "</section>\n" : "</div></details>\n");
}
