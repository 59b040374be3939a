#include "report/warning.h"

#include <stdio.h>
#include <stdlib.h>

void yk_warnings_fini(yk_warnings *w)
{
    for (size_t i = 0; i < YK_WARNING_KINDS; i++) {
        for (size_t k = 0; k < w->group[i].items; k++)
            free(w->group[i].item[k].text);
        free(w->group[i].item);
    }
    *w = (yk_warnings){0};
}

__attribute__((format(printf, 4, 5))) static void add(yk_warnings *w, yk_warning_kind kind, int run,
                                                      const char *format, ...)
{
    yk_warning_group *to = &w->group[kind];
    if (w->status || (w->status = YK_RESERVE(to->item, to->cap, to->items + 1, "warnings")))
        return;
    va_list list;
    va_start(list, format);
    int n = vasprintf(&to->item[to->items].text, format, list);
    va_end(list);
    if (n < 0)
        w->status = yk_fail_memory(256, "a warning");
    else
        to->item[to->items++].run = run;
}

/* ---- one run ---- */

static void check_traffic(yk_warnings *w, const yk_run *r, const yk_facts *f, int run)
{
    const json_t *p;
    size_t i;
    if (f->ranks > 1.0 && f->sent + f->received == 0.0)
        add(w, YK_WARNING_NO_TRAFFIC, run, "%.0f processes sent and received 0 bytes", f->ranks);
    else if (json_array_size(r->processes) > 1)
        json_array_foreach(r->processes, i, p)
        {
            const char *role = yk_string_at(p, "role");
            if (yk_number_at(p, "bytes_sent") + yk_number_at(p, "bytes_received") == 0.0)
                add(w, YK_WARNING_NO_TRAFFIC, run, "rank %zu sent and received 0 bytes", i);
            else if ((!role || strcmp(role, "server")) && yk_number_at(p, "steps") == 0.0)
                add(w, YK_WARNING_NO_TRAFFIC, run, "rank %zu took no step", i);
        }
}

/* A busy host concerns many runs alike: all but the first are only counted. */
static void count_busy_runs(yk_warnings *w)
{
    yk_warning_group *g = &w->group[YK_WARNING_BUSY_HOST];
    const size_t others = g->items - 1;
    char *text;
    if (g->items < 2)
        return;
    if (asprintf(&text, "%s; also in %zu other run%s", g->item[0].text, others, others == 1 ? "" : "s") < 0) {
        w->status = yk_fail_memory(256, "a warning");
        return;
    }
    for (; g->items; g->items--)
        free(g->item[g->items - 1].text);
    g->item[g->items++].text = text;
}

static void check_length(yk_warnings *w, const yk_compare *c, size_t i)
{
    const yk_facts *f = &c->facts[i];
    char time[YK_UNIT_SIZE];
    if (f->seconds < (c->n > 1 ? 2.0 : 1.0)) {
        add(w, YK_WARNING_TOO_SHORT, (int)i, "took %s", yk_unit_text(YK_UNIT_SECONDS, f->seconds, time));
    } else if (f->epochs < 0.995 && f->epochs > 0.0)
        add(w, YK_WARNING_TOO_SHORT, (int)i, "trained on only %.0f %% of the training data",
            100.0 * f->epochs);
}

static void check_run(yk_warnings *w, const yk_compare *c, size_t i)
{
    const yk_run *r = &c->run[i];
    const yk_facts *f = &c->facts[i];
    const bool known = isfinite(f->epochs);
    check_traffic(w, r, f, (int)i);
    check_length(w, c, i);
    if (f->diverged)
        add(w, YK_WARNING_DIVERGED, (int)i, "the last losses are NaN or infinite");
    if (f->failed)
        add(w, YK_WARNING_FAILED, (int)i, "at step %.0f: %s", yk_known_or(f->steps, 0.0),
            f->error ? f->error : "unknown reason");
    else if (!f->ended)
        add(w, YK_WARNING_INCOMPLETE, (int)i,
            "has no summary.json: it was killed, is still running, or was written by an old version");
    else if (f->interrupted)
        add(w, YK_WARNING_INCOMPLETE, (int)i, "was interrupted after %.*g %s", known ? 4 : 15,
            known ? f->epochs : f->steps, known ? "epochs" : "steps");
    if (r->bad_lines)
        add(w, YK_WARNING_BAD_LINES, (int)i, "%zu %s", r->bad_lines, r->bad_lines == 1 ? "line" : "lines");
}

/* ---- several runs ---- */

/* Among runs that differ only in the batch or the workers, and trained on as many examples: the most and the fewest
 * updates. */
static void check_updates(yk_warnings *w, const yk_compare *c, yk_option_set same)
{
    for (size_t a = 0; a < c->groups; a++) {
        const yk_config_group *group = &c->group[a];
        bool first = true;
        size_t max = group->run[0], fewest = group->run[0];
        for (size_t b = 0; b < c->groups; b++) {
            const size_t run = c->group[b].run[0];
            if (!yk__options_same(c, group->run[0], run, same))
                continue;
            first &= b >= a;
            if (!(fabs(c->facts[run].examples - c->facts[group->run[0]].examples) <=
                  0.05 * c->facts[run].examples))
                continue;
            max = c->facts[run].steps > c->facts[max].steps ? run : max;
            fewest = c->facts[run].steps < c->facts[fewest].steps ? run : fewest;
        }
        const yk_facts *m = &c->facts[max], *f = &c->facts[fewest];
        if (first && m->steps >= 1.5 * f->steps && f->global_batch > m->global_batch) {
            char many[YK_UNIT_SIZE], few[YK_UNIT_SIZE];
            add(w, YK_WARNING_FEWER_UPDATES, (int)fewest,
                "%s updates of %.0f examples; %s made %s updates of %.0f example%s%s",
                yk_unit_text(YK_UNIT_INTEGER, f->steps, few), f->examples / f->steps, c->label[max],
                yk_unit_text(YK_UNIT_INTEGER, m->steps, many), m->examples / m->steps,
                m->examples < 1.5 * m->steps ? "" : "s", m->lr == f->lr ? " at the same learning rate" : "");
        }
    }
}

/* ---- warnings that a run wrote ---- */

static void add_own(yk_warnings *w, const yk_run *r, int run)
{
    const json_t *one;
    size_t i;
    json_array_foreach(yk_value_at(r->summary, "warnings"), i, one)
    {
        const char *kind = yk_string_at(one, "kind"), *text = yk_string_at(one, "text");
        if (text)
            add(w, kind ? yk_warning_find(kind) : YK_WARNING_OTHER, run, "%s", text);
    }
    json_array_foreach(yk_value_at(r->summary, "guards"), i, one) /* yoke 0.1.0 */
    {
        if (json_is_string(one))
            add(w, YK_WARNING_OTHER, run, "%s", json_string_value(one));
    }
}

yk_status yk_warnings_make(const yk_compare *c, yk_warnings *out)
{
    yk_warnings *w = out;
    *w = (yk_warnings){0};
    for (size_t i = 0; i < c->n; i++)
        check_run(w, c, i);
    if (c->n > 1) {
        if (yk_is_listed("data", c->varying)) /* different models on the same data can be compared */
            add(w, YK_WARNING_DIFFERENT_DATA, -1, "the runs use different data%s",
                yk_is_listed("model", c->varying) ? " and different models" : "");
        check_updates(w, c, yk__options_except(c, YK__BATCH_OPTIONS));
        if (!w->group[YK_WARNING_FEWER_UPDATES].items)
            check_updates(w, c, yk__options_except(c, YK__WORKER_OPTIONS));
    }
    for (size_t i = 0; i < c->n; i++)
        add_own(w, &c->run[i], (int)i);
    count_busy_runs(w);
    for (size_t kind = 0; kind < YK_WARNING_KINDS; kind++)
        w->n += w->group[kind].items > 0;
    const yk_status st = w->status;
    if (st)
        yk_warnings_fini(w);
    return st;
}
