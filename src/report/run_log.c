/* The logs of a run, line by line: metrics.jsonl and resources.jsonl. */
#include "report/run.h"

#include "base/file.h"
#include "base/mem.h"
#include "report/line.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
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
                                           "train_loss",
                                           "test_loss",
                                           "test_accuracy",
                                           "test_auc",
                                           "majority_accuracy"};
static const char *const sample_names[] = {
    "seconds",      "cpu_user", "cpu_system",      "cpu_host", "rss",  "rss_peak", "host_memory",
    "net_in",       "net_out",  "lo_in",           "lo_out",   "sent", "received", "disk_read",
    "disk_written", "switches", "switches_forced", "steps"};
enum {
    METRICS = sizeof metric_names / sizeof *metric_names,
    SAMPLES = sizeof sample_names / sizeof *sample_names,
    SAMPLE_DOUBLES = sizeof(yk_run_sample) / sizeof(double),
};
_Static_assert(sizeof(yk_metric) == METRICS * sizeof(double), "a name for each field");
_Static_assert(offsetof(yk_run_sample, cpu) == SAMPLES * sizeof(double),
               "a name for each field that is read");

/* ---- files ---- */

static const uint64_t MOST_OF_LOG = (uint64_t)4 << 30; /* bytes */

typedef struct {
    char *data;
    size_t size;
} mapping;

/* No file: no bytes. The logs of a run that goes on may grow meanwhile; what was there at first is read. */
static yk_status map_file(const char *path, mapping *out)
{
    *out = (mapping){NULL, 0};
    int fd;
    struct stat s;
    yk_status st = yk_file_open_plain(path, MOST_OF_LOG, &fd);
    if (fd < 0)
        return st;
    if (fstat(fd, &s)) {
        st = yk_fail_path(path, "cannot read", errno);
    } else if (s.st_size > 0) {
        char *data = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED)
            st = yk_fail_path(path, "cannot map into memory", errno);
        else
            *out = (mapping){data, (size_t)s.st_size};
    }
    close(fd);
    return st;
}

static void unmap(mapping *m)
{
    if (m->data)
        munmap(m->data, m->size);
}

/* Cuts the next line off. `whole` is false for a last line without an end. */
static bool next_line(mapping *rest, const char **line_out, size_t *size_out, bool *whole_out)
{
    if (!rest->size)
        return false;
    const char *end = memchr(rest->data, '\n', rest->size);
    *line_out = rest->data;
    *whole_out = end != NULL;
    *size_out = end ? (size_t)(end - rest->data) : rest->size;
    size_t used = *size_out + *whole_out;
    rest->data += used;
    rest->size -= used;
    return true;
}

static bool blank(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] != ' ' && s[i] != '\t' && s[i] != '\r' && s[i])
            return false;
    return true;
}

/* ---- fields ---- */

/* The lines of a log have their keys in the same order nearly always: the one after the last is tried first. */
static int find(const yk_field *f, const char *const *names, int n, int *hint)
{
    for (int k = 0; k < n; k++) {
        int i = *hint + k;
        i -= i >= n ? n : 0;
        if (yk_field_is(f, names[i])) {
            *hint = i + 1 < n ? i + 1 : 0;
            return i;
        }
    }
    return -1;
}

static void unknown(void *row, size_t size)
{
    double *v = row;
    for (size_t i = 0; i < size / sizeof *v; i++)
        v[i] = NAN;
}

/* Of every four rows the lowest and the highest by the double at `offset`, in their order; the first row always. */
static size_t halve(void *rows, size_t n, size_t size, size_t offset)
{
    char *p = rows;
    size_t kept = 0;
    for (size_t i = 0; i + 4 <= n; i += 4) {
        size_t low = i, high = i;
        for (size_t k = i; k < i + 4; k++) {
            double x, lowest, highest;
            memcpy(&x, p + k * size + offset, sizeof x);
            memcpy(&lowest, p + low * size + offset, sizeof x);
            memcpy(&highest, p + high * size + offset, sizeof x);
            if (x < lowest || (isnan(lowest) && !isnan(x)))
                low = k;
            if (x > highest || (isnan(highest) && !isnan(x)))
                high = k;
        }
        if (low == high) /* all the same */
            high = i + (low == i ? 3 : 0);
        size_t first = i == 0 ? 0 : low < high ? low : high, second = low < high ? high : low;
        memmove(p + kept++ * size, p + first * size, size);
        if (second != first)
            memmove(p + kept++ * size, p + second * size, size);
    }
    return kept;
}

/* ---- metrics.jsonl ---- */

/* A step that was there already begins a new version of everything from there on. */
static yk_status add_metric(yk_run *r, yk_metrics *to, const yk_metric *m, size_t offset)
{
    while (to->n && to->row[to->n - 1].step >= m->step)
        to->n--;
    if (to->n == YK_RUN_ROWS) {
        to->n = halve(to->row, to->n, sizeof *to->row, offset);
        r->thinned = true;
    }
    if (to->n == to->cap) {
        yk_metric *row = yk_grow(to->row, &to->cap, to->n + 1, sizeof *row, "the metrics of a run");
        if (!row)
            return YK_ESYSTEM;
        to->row = row;
    }
    to->row[to->n++] = *m;
    return YK_OK;
}

yk_status yk__run_metrics(yk_run *r)
{
    char *path;
    mapping all;
    if (asprintf(&path, "%s/metrics.jsonl", r->path) < 0)
        return yk_fail_memory(64, "a path");
    yk_status st = map_file(path, &all);
    free(path);
    mapping rest = all;
    const char *text;
    size_t size;
    bool whole;
    int hint = 0;
    while (!st && next_line(&rest, &text, &size, &whole)) {
        yk_line line;
        yk_field f;
        yk_metric m;
        int k;
        enum { NEITHER, TRAIN, EVAL } kind = NEITHER;
        unknown(&m, sizeof m);
        int more = yk_line_open(text, size, &line) ? 1 : -1;
        while (more > 0 && (more = yk_line_next(&line, &f)) > 0)
            if (f.kind == YK_FIELD_NUMBER && (k = find(&f, metric_names, METRICS, &hint)) >= 0)
                ((double *)&m)[k] = f.number;
            else if (f.kind == YK_FIELD_TEXT && yk_field_is(&f, "kind"))
                kind = f.size == 5 && !memcmp(f.text, "train", 5)  ? TRAIN
                       : f.size == 4 && !memcmp(f.text, "eval", 4) ? EVAL
                                                                   : NEITHER;
        if (more < 0)
            r->bad_lines += whole && !blank(text, size);
        else if (kind != NEITHER && isfinite(m.step))
            st = kind == TRAIN ? add_metric(r, &r->train, &m, offsetof(yk_metric, loss))
                               : add_metric(r, &r->eval, &m, offsetof(yk_metric, test_loss));
    }
    unmap(&all);
    return st;
}

/* ---- resources.jsonl ---- */

typedef struct {
    double sum[SAMPLE_DOUBLES], peak[SAMPLE_DOUBLES];
    size_t count[SAMPLE_DOUBLES];
} totals;

static void copy_text(const yk_field *f, char *to, size_t room)
{
    size_t n = f->size < room ? f->size : room - 1;
    if (n) /* a field that was not there has no text */
        memcpy(to, f->text, n);
    to[n] = 0;
}

static void read_phases(const yk_field *f, yk_run_sample *s)
{
    yk_line line;
    yk_field g;
    if (yk_line_open(f->text, f->size, &line))
        while (yk_line_next(&line, &g) > 0)
            for (int p = 0; p < YK_PHASES; p++)
                if (g.kind == YK_FIELD_NUMBER && yk_field_is(&g, yk_phase_name((yk_phase)p)))
                    s->phase[p] = g.number;
}

static yk_status add_sample(yk_run *r, yk_run_worker *w, yk_run_sample *s, totals *t)
{
    if (!isfinite(s->seconds))
        return YK_OK;
    if (isfinite(s->cpu_user) || isfinite(s->cpu_system))
        s->cpu =
            (isfinite(s->cpu_user) ? s->cpu_user : 0.0) + (isfinite(s->cpu_system) ? s->cpu_system : 0.0);
    const double *v = (const double *)s;
    for (int i = 0; i < SAMPLE_DOUBLES; i++)
        if (isfinite(v[i])) {
            t->peak[i] = t->count[i] && t->peak[i] > v[i] ? t->peak[i] : v[i];
            t->sum[i] += v[i];
            t->count[i]++;
        }
    w->last = *s;
    /* after a resume: as for metrics */
    while (w->sample.n && w->sample.row[w->sample.n - 1].seconds >= s->seconds)
        w->sample.n--;
    if (w->sample.n == YK_RUN_ROWS) {
        w->sample.n = halve(w->sample.row, w->sample.n, sizeof *s, offsetof(yk_run_sample, cpu));
        r->thinned = true;
    }
    if (w->sample.n == w->sample.cap) {
        yk_run_sample *row =
            yk_grow(w->sample.row, &w->sample.cap, w->sample.n + 1, sizeof *row, "the samples of a run");
        if (!row)
            return YK_ESYSTEM;
        w->sample.row = row;
    }
    w->sample.row[w->sample.n++] = *s;
    return YK_OK;
}

static yk_status add_alert(yk_run_worker *w, const yk_run_alert *a)
{
    if (w->alerts == w->alert_cap) {
        if (w->alerts >= YK_RUN_ROWS)
            return YK_OK;
        yk_run_alert *alert =
            yk_grow(w->alert, &w->alert_cap, w->alerts + 1, sizeof *alert, "the alerts of a run");
        if (!alert)
            return YK_ESYSTEM;
        w->alert = alert;
    }
    w->alert[w->alerts++] = *a;
    return YK_OK;
}

static void read_links(const yk_field *f, yk_run_worker *w)
{
    yk_line line;
    yk_field g;
    double sum = 0.0;
    if (f->size && yk_line_open(f->text, f->size, &line))
        while (yk_line_next(&line, &g) > 0)
            if (g.kind == YK_FIELD_NUMBER && g.number > 0.0)
                sum += g.number;
    if (sum > 0.0)
        w->link = sum;
}

static yk_status read_line(yk_run *r, yk_run_worker *w, const char *text, size_t size, bool whole, int *hint,
                           totals *t)
{
    yk_line line;
    yk_field f, nic = {0}, host = {0}, role = {0};
    yk_run_sample s;
    yk_run_alert alert = {"", NAN, NAN, NAN};
    int k;
    enum { OTHER, HOST, SAMPLE_LINE, ALERT } kind = OTHER;
    double cores = NAN, memory = NAN;
    unknown(&s, sizeof s);
    int more = yk_line_open(text, size, &line) ? 1 : -1;
    while (more > 0 && (more = yk_line_next(&line, &f)) > 0) {
        if (f.kind == YK_FIELD_NUMBER && (k = find(&f, sample_names, SAMPLES, hint)) >= 0)
            ((double *)&s)[k] = f.number;
        else if (f.kind == YK_FIELD_OBJECT && yk_field_is(&f, "phases"))
            read_phases(&f, &s);
        else if (f.kind == YK_FIELD_OBJECT && yk_field_is(&f, "nic"))
            nic = f;
        else if (f.kind == YK_FIELD_TEXT && yk_field_is(&f, "kind"))
            kind = f.size == 6 && !memcmp(f.text, "sample", 6)  ? SAMPLE_LINE
                   : f.size == 4 && !memcmp(f.text, "host", 4)  ? HOST
                   : f.size == 5 && !memcmp(f.text, "alert", 5) ? ALERT
                                                                : OTHER;
        else if (f.kind == YK_FIELD_TEXT && yk_field_is(&f, "host"))
            host = f;
        else if (f.kind == YK_FIELD_TEXT && yk_field_is(&f, "role"))
            role = f;
        else if (f.kind == YK_FIELD_TEXT && yk_field_is(&f, "what"))
            copy_text(&f, alert.what, sizeof alert.what);
        else if (f.kind == YK_FIELD_NUMBER && yk_field_is(&f, "cores"))
            cores = f.number;
        else if (f.kind == YK_FIELD_NUMBER && yk_field_is(&f, "memory_bytes"))
            memory = f.number;
        else if (f.kind == YK_FIELD_NUMBER && yk_field_is(&f, "begin"))
            alert.begin = f.number;
        else if (f.kind == YK_FIELD_NUMBER && yk_field_is(&f, "level"))
            alert.level = f.number;
    }
    if (more < 0) {
        r->bad_lines += whole && !blank(text, size);
        return YK_OK;
    }
    if (kind == HOST) {
        copy_text(&host, w->host, sizeof w->host);
        copy_text(&role, w->role, sizeof w->role);
        w->cores = cores;
        w->memory = memory;
        read_links(&nic, w);
    }
    alert.seconds = s.seconds;
    return kind == SAMPLE_LINE ? add_sample(r, w, &s, t) : kind == ALERT ? add_alert(w, &alert) : YK_OK;
}

yk_status yk__run_resources(yk_run *r, yk_run_worker *w)
{
    char *path;
    mapping all;
    if (asprintf(&path, "%s/worker-%d/resources.jsonl", r->path, w->rank) < 0)
        return yk_fail_memory(64, "a path");
    yk_status st = map_file(path, &all);
    free(path);
    mapping rest = all;
    const char *text;
    size_t size;
    bool whole;
    int hint = 0;
    totals t = {0};
    w->cores = w->memory = w->link = NAN;
    unknown(&w->mean, sizeof w->mean);
    unknown(&w->peak, sizeof w->peak);
    unknown(&w->last, sizeof w->last);
    while (!st && next_line(&rest, &text, &size, &whole))
        st = read_line(r, w, text, size, whole, &hint, &t);
    unmap(&all);
    for (int i = 0; i < SAMPLE_DOUBLES; i++)
        if (t.count[i]) {
            ((double *)&w->mean)[i] = t.sum[i] / (double)t.count[i];
            ((double *)&w->peak)[i] = t.peak[i];
        }
    return st;
}
