/* The logs of a run, line by line: metrics.jsonl and resources.jsonl. */
#include "report/facts.h"

#include "base/file.h"
#include "base/mem.h"
#include "observe/lines.h"
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* In the order of the structs: field i is their i-th double. */
static const char *const metric_names[] = {"step",
                                           "examples",
                                           "epoch",
                                           "seconds",
                                           "loss",
                                           "examples_per_second",
                                           "steps_per_second",
                                           "learning_rate",
                                           "dense_learning_rate",
                                           "learning_rate_2",
                                           "learning_rate_3",
                                           "learning_rate_4",
                                           "train_loss",
                                           "test_loss",
                                           "test_accuracy",
                                           "test_auc",
                                           "majority_accuracy",
                                           "validation_loss"};
static const char *const sample_names[] = {
    "seconds",   "cpu_user",     "cpu_system", "cpu_host",        "rss",       "rss_peak",
    "net_in",    "net_out",      "sent",       "received",        "sent_rate", "received_rate",
    "disk_read", "disk_written", "switches",   "switches_forced", "steps"};
enum {
    METRICS = sizeof metric_names / sizeof *metric_names,
    SAMPLES = sizeof sample_names / sizeof *sample_names,
    SAMPLE_DOUBLES = sizeof(yk_run_sample) / sizeof(double),
};
_Static_assert(sizeof(yk_metric) == METRICS * sizeof(double), "a name for each field");
_Static_assert(offsetof(yk_run_sample, cpu) == SAMPLES * sizeof(double),
               "a name for each field that is read");

/* ---- files ---- */

static const uint64_t MAX_LOG = (uint64_t)4 << 30; /* bytes */
enum { MAX_LINE = 1 << 20 };                       /* bytes */

bool yk__run_path(const char *dir, const char *name, char *out)
{
    return snprintf(out, PATH_MAX, "%s/%s", dir, name) < PATH_MAX;
}

yk_status yk__open_in(const char *dir, const char *name, uint64_t max, int *fd_out)
{
    char path[PATH_MAX];
    *fd_out = -1;
    return yk__run_path(dir, name, path) ? yk_file_open_regular(path, max, fd_out)
                                         : yk_fail_in(dir, name, "cannot open", ENAMETOOLONG);
}

yk_status yk__each_line(const char *dir, const char *name, uint64_t max, yk__take_line take, void *context)
{
    int fd;
    yk_status st = yk__open_in(dir, name, max, &fd);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    if (fd >= 0 && !f) {
        close(fd);
        st = yk_fail_memory(BUFSIZ, "a file");
    }
    char *line = f ? malloc(MAX_LINE) : NULL;
    if (f && !line)
        st = yk_fail_memory(MAX_LINE, "a line");
    while (!st && f) {
        size_t n = 0;
        int c;
        while ((c = getc_unlocked(f)) != EOF && c != '\n')
            if (n < MAX_LINE - 1) /* the rest of a longer line is ignored: it is not valid */
                line[n++] = (char)c;
        if (c == EOF && !n)
            break;
        line[n] = 0;
        st = take(context, line, n, c == '\n');
    }
    if (!st && f && !feof(f))
        st = yk_fail_in(dir, name, "cannot read", errno);
    if (f)
        fclose(f);
    free(line);
    return st;
}

/* Counts a line that is not an object; half a line at the end, of a killed run, does not count. */
static bool is_object(yk_run *r, const char *line, size_t n, bool whole)
{
    while (n && memchr(" \t\r", line[n - 1], 4)) /* 4: also NUL */
        n--;
    const bool object = n && line[0] == '{' && line[n - 1] == '}';
    r->bad_lines += n && !object && whole;
    return object;
}

/* ---- rows ---- */

static void unknown(void *row, size_t size)
{
    double *v = row;
    for (size_t i = 0; i < size / sizeof *v; i++)
        v[i] = NAN;
}

/* ---- metrics.jsonl ---- */

/* Appends a row. Rows are sorted by their first double: a row that is not above the last one replaces all rows from there
 * on. If there are too many, keeps half of them, by the double at `offset`. */
static yk_status add_row(yk_run *r, void *rows, size_t *n, size_t *cap, const void *row, size_t size,
                         size_t offset)
{
    char *p;
    memcpy(&p, rows, sizeof p);
    while (*n && yk_double_at(p + (*n - 1) * size, 0) >= yk_double_at(row, 0))
        --*n;
    if (*n == YK_RUN_ROWS) {
        *n = yk_thin(p, *n, size, 0, offset, *n / 2);
        r->thinned = true;
    }
    if (yk__reserve(rows, cap, *n + 1, size, "the log of a run"))
        return YK_ESYSTEM;
    memcpy(&p, rows, sizeof p);
    memcpy(p + (*n)++ * size, row, size);
    return YK_OK;
}

static yk_status read_metric(void *context, char *text, size_t size, bool whole)
{
    yk_run *r = context;
    char kind[8];
    if (!is_object(r, text, size, whole))
        return YK_OK;
    yk_line_text(text, "kind", kind, sizeof kind);
    const bool train = !strcmp(kind, "train"), eval = !strcmp(kind, "eval");
    yk_metrics *to = train ? &r->train : &r->eval;
    yk_metric m;
    for (size_t i = 0; i < METRICS; i++)
        ((double *)&m)[i] = yk_line_number(text, metric_names[i]);
    if ((!train && !eval) || !isfinite(m.step))
        return YK_OK;
    return add_row(r, &to->row, &to->n, &to->cap, &m, sizeof m,
                   train ? offsetof(yk_metric, loss) : offsetof(yk_metric, test_loss));
}

yk_status yk__run_metrics(yk_run *r)
{
    return yk__each_line(r->path, "metrics.jsonl", MAX_LOG, read_metric, r);
}

/* ---- resources.jsonl ---- */

typedef struct {
    yk_run *run;
    yk_process_log *log;
    size_t samples;
    double sum[SAMPLE_DOUBLES], peak[SAMPLE_DOUBLES], weight[SAMPLE_DOUBLES];
} sample_reader;

static void read_interfaces(const char *line, yk_process_log *w, yk_run_sample *s)
{
    const char *at = yk_line_value(line, "interfaces"), *name;
    json_t *all = at ? json_loads(at, JSON_DISABLE_EOF_CHECK, NULL) : NULL, *rates;
    json_object_foreach(all, name, rates)
    {
        int i = 0;
        while (i < w->nics && strcmp(w->nic[i], name))
            i++;
        if (i == YK_RUN_NICS || !json_is_object(rates))
            continue;
        if (i == w->nics)
            snprintf(w->nic[w->nics++], sizeof w->nic[0], "%s", name);
        s->nic[i][0] = yk_number_at(rates, "in");
        s->nic[i][1] = yk_number_at(rates, "out");
    }
    json_decref(all);
}

/* Version 0.1.0 wrote only the bytes so far. A resumed run counts from 0 again. */
static void set_rates(const yk_process_log *w, yk_run_sample *s)
{
    static const yk_run_sample begin;
    const yk_run_sample *before = isfinite(w->last.seconds) ? &w->last : &begin;
    const double seconds = s->seconds - before->seconds, sent = s->sent - before->sent,
                 received = s->received - before->received;
    if (!isfinite(s->sent_rate) && seconds > 0.0 && sent >= 0.0)
        s->sent_rate = sent / seconds;
    if (!isfinite(s->received_rate) && seconds > 0.0 && received >= 0.0)
        s->received_rate = received / seconds;
}

/* Adds a sample to the means and the peaks. */
static void weigh(sample_reader *t, const yk_run_sample *s, double weight)
{
    const double *v = (const double *)s;
    for (int i = 0; i < SAMPLE_DOUBLES; i++)
        if (isfinite(v[i])) {
            t->peak[i] = t->weight[i] > 0.0 && t->peak[i] > v[i] ? t->peak[i] : v[i];
            t->sum[i] += weight * v[i];
            t->weight[i] += weight;
        }
}

/* Samples count by their time: those of a long run are further apart at its end (watch/resources.h). The first one counts like the
 * second. */
static yk_status add_sample(sample_reader *t, yk_run_sample *s)
{
    yk_process_log *w = t->log;
    if (!isfinite(s->seconds))
        return YK_OK;
    set_rates(w, s);
    if (isfinite(s->cpu_user) || isfinite(s->cpu_system))
        s->cpu = yk_known_or(s->cpu_user, 0.0) + yk_known_or(s->cpu_system, 0.0);
    const double gap = s->seconds - w->last.seconds, weight = gap > 0.0 ? gap : 1.0;
    if (t->samples == 1)
        weigh(t, &w->last, weight);
    if (t->samples++ > 0)
        weigh(t, s, weight);
    w->last = *s;
    return add_row(t->run, &w->sample.row, &w->sample.n, &w->sample.cap, s, sizeof *s,
                   offsetof(yk_run_sample, cpu));
}

static void copy_text(const json_t *o, const char *name, char *out, size_t size)
{
    const char *s = yk_string_at(o, name);
    snprintf(out, size, "%s", s ? s : "");
}

static void read_host(const json_t *line, yk_process_log *w)
{
    const char *name;
    json_t *rate;
    double link = 0.0;
    copy_text(line, "host", w->host, sizeof w->host);
    copy_text(line, "role", w->role, sizeof w->role);
    w->cores = yk_number_at(line, "cores");
    w->memory = yk_number_at(line, "memory_bytes");
    json_object_foreach(json_object_get(line, "nic"), name, rate) link += fmax(0.0, json_number_value(rate));
    w->link = link > 0.0 ? link : w->link;
}

static yk_status read_alert(const json_t *line, yk_process_log *w)
{
    yk_run_alert a = {"", yk_number_at(line, "begin"), yk_number_at(line, "seconds"),
                      yk_number_at(line, "level")};
    copy_text(line, "what", a.what, sizeof a.what);
    if (w->alerts >= YK_RUN_ROWS)
        return YK_OK;
    if (YK_RESERVE(w->alert, w->alert_cap, w->alerts + 1, "the alerts of a run"))
        return YK_ESYSTEM;
    w->alert[w->alerts++] = a;
    return YK_OK;
}

static yk_status read_sample(sample_reader *t, const char *line)
{
    yk_run_sample s;
    unknown(&s, sizeof s);
    for (size_t i = 0; i < SAMPLES; i++)
        ((double *)&s)[i] = yk_line_number(line, sample_names[i]);
    for (int p = 0; p < YK_PHASES; p++)
        s.phase[p] = yk_line_number(line, yk_phase_name((yk_phase)p));
    read_interfaces(line, t->log, &s);
    return add_sample(t, &s);
}

static yk_status read_resource(void *context, char *text, size_t size, bool whole)
{
    sample_reader *t = context;
    yk_status st = YK_OK;
    char kind[8];
    if (!is_object(t->run, text, size, whole))
        return YK_OK;
    yk_line_text(text, "kind", kind, sizeof kind);
    if (!strcmp(kind, "sample"))
        return read_sample(t, text);
    json_t *o = json_loadb(text, size, 0, NULL);
    if (!strcmp(kind, "host"))
        read_host(o, t->log);
    else if (!strcmp(kind, "alert"))
        st = read_alert(o, t->log);
    json_decref(o);
    return st;
}

void yk__process_log_init(int rank, yk_process_log *out)
{
    *out = (yk_process_log){.rank = rank, .cores = NAN, .memory = NAN, .link = NAN};
    unknown(&out->mean, sizeof out->mean);
    unknown(&out->peak, sizeof out->peak);
    unknown(&out->last, sizeof out->last);
}

yk_status yk__process_log_read(yk_run *r, yk_process_log *w)
{
    sample_reader t = {.run = r, .log = w};
    char name[48];
    snprintf(name, sizeof name, "worker-%d/resources.jsonl", w->rank);
    yk_status st = yk__each_line(r->path, name, MAX_LOG, read_resource, &t);
    if (t.samples == 1)
        weigh(&t, &w->last, 1.0);
    for (int i = 0; i < SAMPLE_DOUBLES; i++)
        if (t.weight[i] > 0.0) {
            ((double *)&w->mean)[i] = t.sum[i] / t.weight[i];
            ((double *)&w->peak)[i] = t.peak[i];
        }
    return st;
}
