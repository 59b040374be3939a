#include "report/run.h"

#include "base/number.h"
#include "config/option.h"
#include "format/ini.h"
#include "observe/lines.h"
#include "report/facts.h"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT(name) #name
static const char *const metric_names[] = {YK_METRIC_FIELDS(TEXT)}, *const sample_names[] = {
                                                                        YK_SAMPLE_FIELDS(TEXT)};
enum {
    METRICS = sizeof metric_names / sizeof *metric_names,
    SAMPLES = sizeof sample_names / sizeof *sample_names,
    SAMPLE_DOUBLES = sizeof(yk_run_sample) / sizeof(double),
};

/* ---- files ---- */

static const uint64_t MAX_LOG = (uint64_t)4 << 30; /* bytes */
enum { MAX_LINE = 1 << 20 };                       /* bytes */

/* Calls `take` for each line of such a file, without its newline; `whole` is false for a last line that has none. A file that does
 * not exist has no lines. */
typedef yk_status take_line_function(void *context, char *line, size_t size, bool whole);

static yk_status each_line(const char *dir, const char *name, uint64_t max, take_line_function take,
                           void *context)
{
    int fd;
    yk_status st = yk_file_open_regular(yk_path_of("%s/%s", dir, name).s, max, &fd);
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
        while ((c = getc_unlocked(f)) != EOF && c != '\n') /* also NUL, in damaged files */
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

/* A line through the lowest and the highest point of each pixel column looks like one through all points: it keeps all
 * spikes. */
size_t yk_thin(void *rows, size_t n, size_t size, size_t x, size_t y, size_t max)
{
    char *p = rows;
    if (n <= max || n < 3)
        return n;
    const size_t columns = max < 4 ? 1 : (max - 2) / 2;
    const double first = yk_double_at(p, x),
                 width = (yk_double_at(p + (n - 1) * size, x) - first) / (double)columns;
    size_t kept = 1;
    for (size_t i = 1; i < n - 1;) {
        double column = 0.0;
        size_t low = i, high = i;
        for (size_t begin = i; i < n - 1; i++) {
            /* by number if all x are the same */
            double here = width > 0.0 ? floor((yk_double_at(p + i * size, x) - first) / width)
                                      : floor((double)i * (double)columns / (double)n);
            if (i == begin)
                column = here;
            else if (here > column)
                break;
            const double v = yk_double_at(p + i * size, y), lowest = yk_double_at(p + low * size, y),
                         highest = yk_double_at(p + high * size, y);
            low = v < lowest || isnan(lowest) ? i : low;
            high = v > highest || isnan(highest) ? i : high;
        }
        memmove(p + kept++ * size, p + (low < high ? low : high) * size, size);
        if (low != high)
            memmove(p + kept++ * size, p + (low < high ? high : low) * size, size);
    }
    memmove(p + kept++ * size, p + (n - 1) * size, size);
    return kept;
}

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

/* ---- resources.jsonl ---- */

typedef struct {
    yk_run *run;
    yk_process_log *log;
    size_t samples;
    double weight[SAMPLE_DOUBLES]; /* of the sums in log->mean */
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

/* Adds a sample to the sums and the peaks. */
static void weigh(sample_reader *t, const yk_run_sample *s, double weight)
{
    const double *v = (const double *)s;
    double *sum = (double *)&t->log->mean, *peak = (double *)&t->log->peak;
    for (int i = 0; i < SAMPLE_DOUBLES; i++)
        if (isfinite(v[i])) {
            peak[i] = fmax(peak[i], v[i]); /* ignores NaN */
            sum[i] = yk_known_or(sum[i], 0.0) + weight * v[i];
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
    else if (!strcmp(kind, "alert") && json_array_size(t->log->alerts) < YK_RUN_ROWS) {
        t->log->alerts = t->log->alerts ? t->log->alerts : json_array();
        st = json_array_append(t->log->alerts, o) ? yk_fail_memory(256, "the alerts of a run") : YK_OK;
    }
    json_decref(o);
    return st;
}

static yk_status process_log_read(yk_run *r, yk_process_log *w)
{
    sample_reader t = {.run = r, .log = w};
    unknown(&w->mean, sizeof w->mean);
    unknown(&w->peak, sizeof w->peak);
    unknown(&w->last, sizeof w->last);
    char name[48];
    snprintf(name, sizeof name, "worker-%d/resources.jsonl", w->rank);
    yk_status st = each_line(r->path, name, MAX_LOG, read_resource, &t);
    if (t.samples == 1)
        weigh(&t, &w->last, 1.0);
    for (int i = 0; i < SAMPLE_DOUBLES; i++)
        ((double *)&w->mean)[i] /= t.weight[i];
    return st;
}

enum { MAX_CONFIG = 1 << 20, MAX_SUMMARY = 64 << 20 }; /* bytes */

void yk_run_fini(yk_run *r)
{
    for (size_t i = 0; i < r->logs; i++) {
        free(r->log[i].sample.row);
        json_decref(r->log[i].alerts);
    }
    free(r->path);
    free(r->name);
    json_decref(r->options);
    free(r->train.row);
    free(r->eval.row);
    free(r->log);
    json_decref(r->summary);
    json_decref(r->processes);
    *r = (yk_run){0};
}

const char *yk_run_get(const yk_run *r, const char *option)
{
    return json_string_value(json_object_get(r->options, option));
}

/* ---- config.ini ---- */

static yk_status add_option(yk_run *r, const char *name, const char *value)
{
    r->options = r->options ? r->options : json_object();
    if (json_object_size(r->options) == YK_RUN_OPTIONS)
        return yk_fail(YK_EDATA, "more than %d options", YK_RUN_OPTIONS);
    return json_object_set_new_nocheck(r->options, name, json_string_nocheck(value))
               ? yk_fail_memory(64, "an option of a run")
               : YK_OK;
}

/* The hosts are in a comment, since a file must not choose them (yk_config_save). */
static yk_status read_hosts(yk_run *r, char *comment)
{
    static const char begin[] = "; on the command line: --";
    static const unsigned host_flags = YK_OPT_STARTS_JOB | YK_OPT_SAVED | YK_OPT_COMMAND_LINE_ONLY;
    char *name = strncmp(comment, begin, strlen(begin)) ? NULL : comment + strlen(begin),
         *value = name ? strchr(name, ' ') : NULL;
    if (!value)
        return YK_OK;
    *value++ = '\0';
    const yk_option *o = yk_option_find(name);
    return o && (o->flags & host_flags) == host_flags ? add_option(r, name, value) : YK_OK;
}

static yk_status read_config(yk_run *r)
{
    yk_ini in;
    const yk_path path = yk_path_of("%s/config.ini", r->path);
    yk_status st = yk_ini_open_regular(path.s, MAX_CONFIG, YK_INI_LENIENT | YK_INI_COMMENTS, &in);
    while (yk_ini_next(&in, &st))
        st = in.comment ? read_hosts(r, in.comment) : in.name ? add_option(r, in.name, in.value) : YK_OK;
    return yk_ini_close(&in, st);
}

/* ---- summary.json ---- */

/* Invalid JSON counts as missing: the run was killed while writing, or another program wrote the file. */
static yk_status read_summary(yk_run *r)
{
    int fd;
    yk_status st = yk_file_open_regular(yk_path_of("%s/summary.json", r->path).s, MAX_SUMMARY, &fd);
    if (fd >= 0) {
        r->summary = json_loadfd(fd, 0, NULL);
        close(fd);
    }
    if (r->summary && !json_is_object(r->summary)) {
        json_decref(r->summary);
        r->summary = NULL;
    }
    return st;
}

/* ---- worker-R/ ---- */

static int by_rank(const void *a, const void *b)
{
    return ((const yk_process_log *)a)->rank - ((const yk_process_log *)b)->rank;
}

static yk_status read_logs(yk_run *r)
{
    DIR *d = opendir(r->path);
    if (!d)
        return yk_fail_path(r->path, "cannot open the directory", errno);
    yk_status st = YK_OK;
    const struct dirent *e;
    while (!st && (e = readdir(d))) {
        uint64_t rank;
        const char *end = yk_digits_after("worker-", e->d_name, 9999999, &rank);
        if (!end || *end)
            continue;
        if ((st = YK_RESERVE(r->log, r->log_cap, r->logs + 1, "the logs of a run")))
            break;
        yk_process_log *w = &r->log[r->logs];
        *w = (yk_process_log){.rank = (int)rank, .cores = NAN, .memory = NAN, .link = NAN};
        st = process_log_read(r, w);
        /* a directory may have only TensorBoard events */
        r->logs += w->sample.n || w->alerts || w->host[0];
    }
    closedir(d);
    if (r->logs)
        qsort(r->log, r->logs, sizeof *r->log, by_rank);
    return st;
}

/* ---- processes ---- */

/* Sets a member that is missing; x NAN: not known. Returns 0, or -1 if out of memory. */
static int set_number(json_t *o, const char *name, double x)
{
    return isfinite(x) && !isfinite(yk_number_at(o, name)) ? json_object_set_new(o, name, json_real(x)) : 0;
}

static int set_text(json_t *o, const char *name, const char *s)
{
    return !yk_string_at(o, name) && *s ? json_object_set_new(o, name, json_string_nocheck(s)) : 0;
}

/* Adds what the log of a process tells to its part of the summary. */
static int complete_process(json_t *p, const yk_process_log *w)
{
    const struct {
        const char *name;
        double value;
    } known[] = {{"rank", w->rank},
                 {"seconds", w->last.seconds},
                 {"steps", w->last.steps},
                 {"cpu_mean", w->mean.cpu},
                 {"cpu_peak", w->peak.cpu},
                 {"rss_mean", w->mean.rss},
                 {"rss_peak", fmax(w->peak.rss, w->peak.rss_peak)},
                 {"disk_read_bytes", w->mean.disk_read * w->last.seconds},
                 {"disk_written_bytes", w->mean.disk_written * w->last.seconds},
                 {"bytes_sent", w->last.sent},
                 {"bytes_received", w->last.received},
                 {"sent_rate", w->mean.sent_rate},
                 {"received_rate", w->mean.received_rate},
                 {"switches", w->mean.switches},
                 {"switches_forced", w->mean.switches_forced}};
    int bad = set_text(p, "role", w->role) | set_text(p, "host", w->host);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        bad |= set_number(p, known[i].name, known[i].value);
    if (json_is_object(json_object_get(p, "phases")))
        return bad;
    json_t *phases = json_object();
    for (int k = 0; k < YK_PHASES; k++)
        bad |= set_number(phases, yk_phase_name((yk_phase)k), w->last.phase[k]);
    return bad | json_object_set_new(p, "phases", phases);
}

/* Those of the summary, or else one for each log. */
static yk_status find_processes(yk_run *r)
{
    json_t *listed = json_object_get(r->summary, "processes"), *p;
    size_t i;
    int bad = 0;
    r->processes = json_array_size(listed) ? json_incref(listed) : json_array();
    for (i = 0; !json_array_size(listed) && i < r->logs; i++)
        bad |= json_array_append_new(r->processes, json_pack("{s:i}", "rank", r->log[i].rank));
    json_array_foreach(r->processes, i, p)
    {
        const int rank = (int)yk_known_or(yk_number_at(p, "rank"), (double)i);
        for (size_t k = 0; json_is_object(p) && k < r->logs; k++)
            bad |= r->log[k].rank == rank ? complete_process(p, &r->log[k]) : 0;
        const char *role = yk_string_at(p, "role");
        if (role && !strcmp(role, "chief")) /* version 0.1.0, of rank 0 */
            bad |= json_object_set_new(p, "role",
                                       json_string(yk_value_at(p, "phases.waiting") ? "server" : "worker"));
    }
    return bad ? yk_fail_memory(256, "the processes of a run") : YK_OK;
}

/* ---- metrics.jsonl ---- */

/* The first lines of a stream have no epoch (in old runs, 0), because its length is not known yet. Later lines tell the number of
 * examples per epoch, from which the missing epochs are computed. */
static void fill_epochs(yk_run *r)
{
    const yk_metrics *const all[] = {&r->train, &r->eval};
    double per_epoch = NAN;
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < all[k]->n; i++)
            if (all[k]->row[i].epoch > 0.0)
                per_epoch = all[k]->row[i].examples / all[k]->row[i].epoch;
    if (!(per_epoch > 0.0))
        return;
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < all[k]->n; i++)
            if (!(all[k]->row[i].epoch > 0.0))
                all[k]->row[i].epoch = all[k]->row[i].examples / per_epoch;
}

yk_status yk_run_load(yk_run *r)
{
    yk_status st = r->path && r->name ? read_config(r) : yk_fail_memory(64, "a run");
    if (!st)
        st = read_summary(r);
    if (!st)
        st = each_line(r->path, "metrics.jsonl", MAX_LOG, read_metric, r);
    if (!st)
        fill_epochs(r);
    if (!st)
        st = read_logs(r);
    return st ? st : find_processes(r);
}

/* ---- finding run directories, and naming them ---- */

enum { DEPTH = 8 /* directories below a path */, MAX_PLAN = 64 << 20 /* bytes */ };

void yk_run_list_fini(yk_run_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        yk_run_fini(&l->run[i]);
    free(l->run);
    *l = (yk_run_list){0};
}

bool yk_is_run(const char *path)
{
    struct stat s;
    return stat(yk_path_of("%s/metrics.jsonl", path).s, &s) == 0 && S_ISREG(s.st_mode);
}

/* Adds a path from realpath(), unless it is in the list. */
static yk_status add(yk_run_list *l, const char *path)
{
    for (size_t i = 0; i < l->n; i++)
        if (!strcmp(l->run[i].path, path))
            return YK_OK;
    if (YK_RESERVE(l->run, l->cap, l->n + 1, "the list of runs"))
        return YK_ESYSTEM;
    l->run[l->n] = (yk_run){.path = strdup(path)};
    return l->run[l->n++].path ? YK_OK : yk_fail_memory(strlen(path), "a path");
}

static int wanted(const struct dirent *e)
{
    /* checkpoints and hidden directories have no runs */
    return e->d_name[0] != '.' && strcmp(e->d_name, "checkpoints");
}

typedef struct {
    struct dirent **entry;
    int n, next;
} ordering;

/* The directory of a sweep lists its runs in plan.txt, one "NAME: OPTIONS" per line. They come first, in that order. */
static yk_status order_by_plan(void *context, char *line, size_t size, bool whole)
{
    ordering *o = context;
    int at = o->next;
    (void)size, (void)whole;
    line[strcspn(line, ":")] = '\0';
    while (at < o->n && strcmp(o->entry[at]->d_name, line))
        at++;
    if (at < o->n) {
        struct dirent *found = o->entry[at];
        memmove(o->entry + o->next + 1, o->entry + o->next, (size_t)(at - o->next) * sizeof found);
        o->entry[o->next++] = found;
    }
    return YK_OK;
}

static yk_status walk(yk_run_list *l, const char *path, int depth, bool *found_out)
{
    struct dirent **entry;
    if (yk_is_run(path)) {
        *found_out = true;
        return add(l, path);
    }
    if (depth == 0)
        return YK_OK;
    int n = scandir(path, &entry, wanted, versionsort);
    if (n < 0)
        return errno == ENOTDIR ? YK_OK : yk_fail_path(path, "cannot read the directory", errno);
    yk_status st = YK_OK;
    /* without it: by name */
    each_line(path, "plan.txt", MAX_PLAN, order_by_plan, &(ordering){entry, n, 0});
    for (int i = 0; i < n; i++) {
        const yk_path below = yk_path_of("%s/%s", path, entry[i]->d_name);
        struct stat s;
        if (!st && lstat(below.s, &s) == 0 && S_ISDIR(s.st_mode))
            st = walk(l, below.s, depth - 1, found_out);
        free(entry[i]);
    }
    free(entry);
    return st;
}

/* The last components of a path. */
static const char *tail(const char *path, int parts)
{
    const char *s = path + strlen(path);
    while (s > path && parts > 0)
        if (*--s == '/' && --parts == 0)
            return s + 1;
    return s;
}

/* Names all runs by the last components of their paths, as many as necessary to be unique. */
static yk_status name_all(yk_run_list *l)
{
    int parts = 1;
    for (bool clash = true; clash && parts < 32; parts += clash) {
        clash = false;
        for (size_t i = 0; i < l->n && !clash; i++)
            for (size_t k = 0; k < i && !clash; k++)
                clash = !strcmp(tail(l->run[i].path, parts), tail(l->run[k].path, parts));
    }
    for (size_t i = 0; i < l->n; i++)
        if (!(l->run[i].name = strdup(tail(l->run[i].path, parts))))
            return yk_fail_memory(64, "the name of a run");
    return YK_OK;
}

yk_status yk_runs_find(char *const *paths, size_t n, yk_run_list *out)
{
    *out = (yk_run_list){0};
    yk_status st = YK_OK;
    for (size_t i = 0; !st && i < n; i++) {
        char *path = realpath(paths[i], NULL);
        struct stat s;
        bool found = false;
        const char *why = !path || stat(path, &s) ? strerror(errno)
                          : !S_ISDIR(s.st_mode)   ? "not a directory"
                                                  : NULL;
        if (why)
            st = yk_fail(YK_EUSAGE, "%s: %s; give a run directory (the --out of yoke train)", paths[i], why);
        else if (!(st = walk(out, path, DEPTH, &found)) && !found)
            st = yk_fail(YK_EUSAGE,
                         "%s: no run directory here or below (no metrics.jsonl); give the --out of yoke "
                         "train, or a directory above it",
                         paths[i]);
        free(path);
    }
    if (!st)
        st = name_all(out);
    if (st)
        yk_run_list_fini(out);
    return st;
}
