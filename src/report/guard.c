#include "report/guard.h"

#include "base/mem.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *title, *advice, *word;
} about[] = {
#define YK_GUARD_ABOUT(name, title, advice, word) {title, advice, word},
    YK_GUARD_LIST(YK_GUARD_ABOUT)
#undef YK_GUARD_ABOUT
};

enum { KINDS = sizeof about / sizeof *about };

void yk_guards_fini(yk_guards *g)
{
    for (size_t i = 0; i < KINDS; i++) {
        for (size_t k = 0; k < g->guard[i].items; k++)
            free(g->guard[i].item[k].text);
        free(g->guard[i].item);
    }
    *g = (yk_guards){0};
}

/* While they are collected, a guard stands at the place of its kind. */
static yk_status add(yk_guards *g, yk_guard_kind kind, int run, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static yk_status add(yk_guards *g, yk_guard_kind kind, int run, const char *format, ...)
{
    yk_guard *to = &g->guard[kind];
    if (YK_RESERVE(to->item, to->cap, to->items + 1, "the warnings"))
        return YK_ESYSTEM;
    va_list list;
    va_start(list, format);
    int n = vasprintf(&to->item[to->items].text, format, list);
    va_end(list);
    if (n < 0)
        return yk_fail_memory(256, "the warnings");
    to->item[to->items++].run = run;
    return YK_OK;
}

/* ---- of one run ---- */

static yk_status majority(yk_guards *g, const yk_facts *f, int run)
{
    /* half a point, or a fortieth of what there is to win: clicks are decided by less than digits are */
    double room = fmin(0.005, (1.0 - f->majority) / 40.0);
    if (!isfinite(f->test_accuracy) || !(f->test_accuracy <= f->majority + room))
        return YK_OK;
    char auc[64] = "";
    if (isfinite(f->test_auc))
        snprintf(auc, sizeof auc, "; its AUC is %.4f (0.5 is guessing)", f->test_auc);
    return add(g, YK_GUARD_MAJORITY, run, "accuracy %.2f %%; always the commonest class gives %.2f %%%s",
               100.0 * f->test_accuracy, 100.0 * f->majority, auc);
}

static yk_status silent(yk_guards *g, const yk_run *r, const yk_facts *f, int run)
{
    const json_t *processes = r->summary ? yk_summary_at(r->summary, "processes") : NULL, *p;
    size_t i;
    yk_status st = YK_OK;
    if (f->ranks > 1.0 && f->sent + f->received == 0.0)
        return add(g, YK_GUARD_SILENT, run, "%.0f processes sent and received 0 bytes", f->ranks);
    if (!json_is_array(processes) || json_array_size(processes) < 2)
        return YK_OK;
    json_array_foreach(processes, i, p)
    {
        const json_t *sent = json_object_get(p, "bytes_sent"), *got = json_object_get(p, "bytes_received"),
                     *steps = json_object_get(p, "steps");
        const char *role = json_string_value(json_object_get(p, "role"));
        bool works = !role || strcmp(role, "server");
        if (!st && json_is_number(sent) && json_is_number(got) &&
            json_number_value(sent) + json_number_value(got) == 0.0)
            st = add(g, YK_GUARD_SILENT, run, "rank %zu sent and received 0 bytes", i);
        else if (!st && works && json_is_number(steps) && json_number_value(steps) == 0.0)
            st = add(g, YK_GUARD_SILENT, run, "rank %zu made no step", i);
    }
    return st;
}

/* Mean of the tenth of the rows that begins at part `from` of them; NAN where there are too few. */
static double level(const yk_metrics *m, double from)
{
    size_t n = m->n / 10, first = (size_t)(from * (double)m->n);
    double sum = 0.0, k = 0.0;
    if (m->n < 10)
        return NAN;
    for (size_t i = first; i < first + n && i < m->n; i++)
        if (isfinite(m->row[i].loss))
            sum += m->row[i].loss, k++;
    return k > 0.0 ? sum / k : NAN;
}

static yk_status rose(yk_guards *g, const yk_run *r, const yk_facts *f, int run)
{
    if (f->diverged)
        return add(g, YK_GUARD_DIVERGED, run, "the last losses are not numbers");
    double first = level(&r->train, 0.0), last = level(&r->train, 0.9), lowest = first;
    for (double at = 0.1; at < 0.85; at += 0.1)
        lowest = fmin(lowest, level(&r->train, at));
    if (isnan(first) && r->eval.n > 1) { /* a short run: by its tests */
        first = r->eval.row[0].train_loss;
        last = r->eval.row[r->eval.n - 1].train_loss;
        lowest = first;
        for (size_t i = 0; i < r->eval.n; i++)
            lowest = fmin(lowest, r->eval.row[i].train_loss);
    }
    if (last > first * 1.02)
        return add(g, YK_GUARD_ROSE, run, "the training loss was %.4f at first and %.4f at the end", first,
                   last);
    if (last > lowest + 0.2 * (first - lowest) && last > lowest * 1.1)
        return add(g, YK_GUARD_ROSE, run, "the training loss fell to %.4f and rose again to %.4f", lowest,
                   last);
    if (f->flat.worse)
        return add(g, YK_GUARD_OVERFIT, run, "the test loss was %.4f after epoch %.4g and is %.4f at the end",
                   f->flat.low, f->flat.low_epoch, f->flat.last);
    return YK_OK;
}

/* Cores of a host that others used, by all samples of the processes on it. */
static yk_status busy(yk_guards *g, const yk_run *r, int run)
{
    yk_status st = YK_OK;
    for (size_t i = 0; !st && i < r->workers; i++) {
        const yk_run_worker *w = &r->worker[i];
        double ours = 0.0;
        bool seen = false;
        for (size_t k = 0; k < r->workers; k++)
            if (!strcmp(r->worker[k].host, w->host)) {
                seen |= k < i;
                ours += isfinite(r->worker[k].mean.cpu) ? r->worker[k].mean.cpu : 0.0;
            }
        double others = w->mean.cpu_host - ours;
        if (!seen && w->sample.n >= 4 && others > fmax(0.3, 0.15 * w->cores)) {
            char host[96] = "";
            if (r->workers > 1 && w->host[0])
                snprintf(host, sizeof host, " on %s", w->host);
            st =
                isfinite(w->cores)
                    ? add(g, YK_GUARD_BUSY, run, "other programs used %.1f of %.0f cores%s on average",
                          others, w->cores, host)
                    : add(g, YK_GUARD_BUSY, run, "other programs used %.1f cores%s on average", others, host);
        }
    }
    return st;
}

static yk_status too_short(yk_guards *g, const yk_compare *c, size_t i)
{
    const yk_facts *f = &c->facts[i];
    char time[YK_UNIT_ROOM];
    double least = c->n > 1 ? 2.0 : 1.0;
    if (f->seconds < least) {
        yk_unit_text(YK_UNIT_SECONDS, f->seconds, time);
        return add(g, YK_GUARD_SHORT, (int)i, "took %s", time);
    }
    if (f->epochs < 0.995 && f->epochs > 0.0)
        return add(g, YK_GUARD_SHORT, (int)i, "saw %.0f %% of the training data once", 100.0 * f->epochs);
    return YK_OK;
}

static yk_status of_run(yk_guards *g, const yk_compare *c, size_t i)
{
    const yk_run *r = &c->run[i];
    const yk_facts *f = &c->facts[i];
    yk_status st = majority(g, f, (int)i);
    if (!st)
        st = silent(g, r, f, (int)i);
    if (!st)
        st = rose(g, r, f, (int)i);
    if (!st)
        st = busy(g, r, (int)i);
    if (!st)
        st = too_short(g, c, i);
    if (!st && f->failed)
        st = add(g, YK_GUARD_FAILED, (int)i, "at step %.0f: %s", isfinite(f->steps) ? f->steps : 0.0,
                 f->error ? f->error : "it did not say why");
    else if (!st && !f->ended)
        st = add(g, YK_GUARD_UNENDED, (int)i,
                 "ended without a summary (there is no summary.json): it was killed, still runs, or is of an "
                 "older version");
    else if (!st && f->interrupted)
        st = add(g, YK_GUARD_UNENDED, (int)i, "was interrupted after %.4g epochs", f->epochs);
    if (!st && r->bad_lines)
        st = add(g, YK_GUARD_UNREAD, (int)i, "%zu %s of its logs", r->bad_lines,
                 r->bad_lines == 1 ? "line" : "lines");
    return st;
}

/* ---- of several ---- */

/* Of runs that are alike but for batch or workers, and saw as many examples: the most and the fewest updates. */
static yk_status fewer(yk_guards *g, const yk_compare *c, int which)
{
    yk_status st = YK_OK;
    for (size_t a = 0; !st && a < c->groups; a++) {
        const yk_config_group *group = &c->group[a];
        bool first = true;
        size_t most = group->run[0], fewest = group->run[0];
        for (size_t b = 0; b < c->groups; b++) {
            if (strcmp(group->alike[which], c->group[b].alike[which]))
                continue;
            first &= b >= a;
            size_t run = c->group[b].run[0];
            if (!(fabs(c->facts[run].examples - c->facts[group->run[0]].examples) <=
                  0.05 * c->facts[run].examples))
                continue;
            most = c->facts[run].steps > c->facts[most].steps ? run : most;
            fewest = c->facts[run].steps < c->facts[fewest].steps ? run : fewest;
        }
        const yk_facts *m = &c->facts[most], *f = &c->facts[fewest];
        if (first && m->steps >= 1.5 * f->steps && f->global_batch > m->global_batch) {
            char many[YK_UNIT_ROOM], few[YK_UNIT_ROOM];
            yk_unit_text(YK_UNIT_WHOLE, m->steps, many);
            yk_unit_text(YK_UNIT_WHOLE, f->steps, few);
            st =
                add(g, YK_GUARD_FEWER, (int)fewest, "%s updates of %.0f examples, where %s made %s of %.0f%s",
                    few, f->examples / f->steps, c->run[most].name, many, m->examples / m->steps,
                    m->lr == f->lr ? ", at the same learning rate" : "");
        }
    }
    return st;
}

static yk_status unlike(yk_guards *g, const yk_compare *c)
{
    const yk_facts *f = &c->facts[0];
    size_t data = 0, model = 0;
    for (size_t i = 1; i < c->n; i++) {
        const yk_facts *o = &c->facts[i];
        data += strcmp(f->data ? f->data : "", o->data ? o->data : "") != 0;
        model += strcmp(f->model ? f->model : "", o->model ? o->model : "") != 0;
    }
    /* Different models on the same data are what people compare; different data are not. */
    if (data)
        return add(g, YK_GUARD_UNLIKE, -1, "the runs train on different data%s",
                   model ? ", and different models" : "");
    return YK_OK;
}

/* ---- what runs said ---- */

/* Is one of the words, "this|or that", in the text? */
static bool mentions(const char *text, const char *words)
{
    char word[64];
    while (*words) {
        size_t n = strcspn(words, "|");
        snprintf(word, sizeof word, "%.*s", (int)n, words);
        if (strcasestr(text, word))
            return true;
        words += n + (words[n] == '|');
    }
    return false;
}

static yk_status said(yk_guards *g, const yk_run *r, int run)
{
    const json_t *list = r->summary ? yk_summary_at(r->summary, "guards") : NULL, *text;
    size_t i;
    yk_status st = YK_OK;
    if (!json_is_array(list))
        return YK_OK;
    json_array_foreach(list, i, text)
    {
        const char *s = json_string_value(text);
        size_t kind = 0;
        bool there = false;
        if (st || !s)
            continue;
        while (kind < YK_GUARD_SAID && !mentions(s, about[kind].word))
            kind++;
        for (size_t k = 0; kind < YK_GUARD_SAID && k < g->guard[kind].items; k++)
            there |= g->guard[kind].item[k].run == run;
        if (!there)
            st = add(g, (yk_guard_kind)kind, run, "%s", s);
    }
    return st;
}

yk_status yk_guards_make(const yk_compare *c, yk_guards *out)
{
    *out = (yk_guards){0};
    yk_status st = YK_OK;
    for (size_t i = 0; !st && i < c->n; i++)
        st = of_run(out, c, i);
    if (!st && c->n > 1)
        st = unlike(out, c);
    if (!st && c->n > 1)
        st = fewer(out, c, YK_BUT_BATCH);
    if (!st && c->n > 1 && !out->guard[YK_GUARD_FEWER].items)
        st = fewer(out, c, YK_BUT_WORKERS);
    for (size_t i = 0; !st && i < c->n; i++)
        st = said(out, &c->run[i], (int)i);
    if (st) {
        yk_guards_fini(out);
        return st;
    }
    for (size_t kind = 0; kind < KINDS; kind++) /* moves those that there are to the front */
        if (out->guard[kind].items) {
            yk_guard here = out->guard[kind];
            out->guard[kind] = (yk_guard){0};
            here.kind = (yk_guard_kind)kind;
            here.title = about[kind].title;
            here.advice = about[kind].advice;
            out->guard[out->n++] = here;
        }
    return YK_OK;
}
