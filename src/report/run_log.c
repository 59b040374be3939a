/* The logs of a run, line by line: metrics.jsonl and resources.jsonl. */
#include "report/facts.h"

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

/* Calls `take` for each line of a log; `whole` is false for a last line without an end. No file: no lines. The log of a run
 * that goes on may grow meanwhile; what was there at first is read. */
static yk_status each_line(const char *path,
                           yk_status (*take)(void *context, const char *text, size_t size, bool whole),
                           void *context)
{
    int fd;
    struct stat s;
    yk_status st = yk_file_open_plain(path, MOST_OF_LOG, &fd);
    if (fd < 0)
        return st;
    char *data = NULL;
    size_t size = 0;
    if (fstat(fd, &s))
        st = yk_fail_path(path, "cannot read", errno);
    else if (s.st_size > 0 &&
             (data = mmap(NULL, size = (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
        st = yk_fail_path(path, "cannot map into memory", errno);
    close(fd);
    for (size_t at = 0; !st && at < size;) {
        const char *end = memchr(data + at, '\n', size - at);
        const size_t n = end ? (size_t)(end - data) - at : size - at;
        st = take(context, data + at, n, end != NULL);
        at += n + 1;
    }
    if (data && data != MAP_FAILED)
        munmap(data, size);
    return st;
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
            const double x = yk_double_at(p + k * size, offset);
            const double lowest = yk_double_at(p + low * size, offset);
            const double highest = yk_double_at(p + high * size, offset);
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

/* Appends a row. What comes again, by its first double, begins a new version of everything from there on. When there are too
 * many, half of them go, by the double at `offset`. */
static yk_status add_row(yk_run *r, void *rows, size_t *n, size_t *cap, const void *row, size_t size,
                         size_t offset)
{
    char *p;
    memcpy(&p, rows, sizeof p);
    while (*n && yk_double_at(p + (*n - 1) * size, 0) >= yk_double_at(row, 0))
        --*n;
    if (*n == YK_RUN_ROWS) {
        *n = halve(p, *n, size, offset);
        r->thinned = true;
    }
    if (yk__reserve(rows, cap, *n + 1, size, "the log of a run"))
        return YK_ESYSTEM;
    memcpy(&p, rows, sizeof p);
    memcpy(p + (*n)++ * size, row, size);
    return YK_OK;
}

typedef struct {
    yk_run *run;
    int hint;
} metric_reader;

static yk_status read_metric(void *context, const char *text, size_t size, bool whole)
{
    metric_reader *reader = context;
    yk_run *r = reader->run;
    yk_line line;
    yk_field f;
    yk_metric m;
    int k;
    bool train = false, eval = false;
    unknown(&m, sizeof m);
    int more = yk_line_open(text, size, &line) ? 1 : -1;
    while (more > 0 && (more = yk_line_next(&line, &f)) > 0)
        if (f.kind == YK_FIELD_NUMBER && (k = find(&f, metric_names, METRICS, &reader->hint)) >= 0)
            ((double *)&m)[k] = f.number;
        else if (f.kind == YK_FIELD_TEXT && yk_field_is(&f, "kind")) {
            train = yk_field_says(&f, "train");
            eval = yk_field_says(&f, "eval");
        }
    if (more < 0)
        r->bad_lines += whole && !blank(text, size);
    else if ((train || eval) && isfinite(m.step)) {
        yk_metrics *to = train ? &r->train : &r->eval;
        return add_row(r, &to->row, &to->n, &to->cap, &m, sizeof m,
                       train ? offsetof(yk_metric, loss) : offsetof(yk_metric, test_loss));
    }
    return YK_OK;
}

yk_status yk__run_metrics(yk_run *r)
{
    char *path;
    metric_reader reader = {.run = r};
    if (asprintf(&path, "%s/metrics.jsonl", r->path) < 0)
        return yk_fail_memory(64, "a path");
    yk_status st = each_line(path, read_metric, &reader);
    free(path);
    return st;
}

/* ---- resources.jsonl ---- */

typedef struct {
    yk_run *run;
    yk_run_worker *worker;
    int hint;
    double sum[SAMPLE_DOUBLES], peak[SAMPLE_DOUBLES];
    size_t count[SAMPLE_DOUBLES];
} sample_reader;

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

static yk_status add_sample(sample_reader *t, yk_run_sample *s)
{
    yk_run_worker *w = t->worker;
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
    return add_row(t->run, &w->sample.row, &w->sample.n, &w->sample.cap, s, sizeof *s,
                   offsetof(yk_run_sample, cpu));
}

static yk_status add_alert(yk_run_worker *w, const yk_run_alert *a)
{
    if (w->alerts >= YK_RUN_ROWS)
        return YK_OK;
    if (YK_RESERVE(w->alert, w->alert_cap, w->alerts + 1, "the alerts of a run"))
        return YK_ESYSTEM;
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

static yk_status read_line(void *context, const char *text, size_t size, bool whole)
{
    sample_reader *t = context;
    yk_run_worker *w = t->worker;
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
        if (f.kind == YK_FIELD_NUMBER && (k = find(&f, sample_names, SAMPLES, &t->hint)) >= 0)
            ((double *)&s)[k] = f.number;
        else if (f.kind == YK_FIELD_OBJECT && yk_field_is(&f, "phases"))
            read_phases(&f, &s);
        else if (f.kind == YK_FIELD_OBJECT && yk_field_is(&f, "nic"))
            nic = f;
        else if (f.kind == YK_FIELD_TEXT && yk_field_is(&f, "kind"))
            kind = yk_field_says(&f, "sample")  ? SAMPLE_LINE
                   : yk_field_says(&f, "host")  ? HOST
                   : yk_field_says(&f, "alert") ? ALERT
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
        t->run->bad_lines += whole && !blank(text, size);
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
    return kind == SAMPLE_LINE ? add_sample(t, &s) : kind == ALERT ? add_alert(w, &alert) : YK_OK;
}

yk_status yk__run_resources(yk_run *r, yk_run_worker *w)
{
    char *path;
    sample_reader t = {.run = r, .worker = w};
    if (asprintf(&path, "%s/worker-%d/resources.jsonl", r->path, w->rank) < 0)
        return yk_fail_memory(64, "a path");
    w->cores = w->memory = w->link = NAN;
    unknown(&w->mean, sizeof w->mean);
    unknown(&w->peak, sizeof w->peak);
    unknown(&w->last, sizeof w->last);
    yk_status st = each_line(path, read_line, &t);
    free(path);
    for (int i = 0; i < SAMPLE_DOUBLES; i++)
        if (t.count[i]) {
            ((double *)&w->mean)[i] = t.sum[i] / (double)t.count[i];
            ((double *)&w->peak)[i] = t.peak[i];
        }
    return st;
}
