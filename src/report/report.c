#include "report/report.h"

#include "base/team.h"
#include "report/export.h"
#include "report/page.h"
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* File name extensions. */
static const char *const ending[] = {
    [YK_FORMAT_HTML] = "html", [YK_FORMAT_LATEX] = "tex", [YK_FORMAT_MARKDOWN] = "md"};

/* Creates compare.html here, or compare-2.html and so on: never replaces a file. */
static yk_status create_comparison(yk_format format, char **out)
{
    char name[32];
    int fd;
    snprintf(name, sizeof name, "compare.%s", ending[format]);
    for (int i = 2; (fd = open(name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666)) < 0 && errno == EEXIST;)
        snprintf(name, sizeof name, "compare-%d.%s", i++, ending[format]);
    if (fd < 0)
        return yk_fail(YK_ESYSTEM, "%s: cannot create the page: %s; use -o FILE", name, strerror(errno));
    close(fd);
    *out = strdup(name);
    return *out ? YK_OK : yk_fail_memory(sizeof name, "a path");
}

static yk_status compose(const yk_report *r, const yk_compare *c, const yk_warnings *warnings,
                         const yk_figures *fs, yk_text *out)
{
    if (r->format != YK_FORMAT_HTML)
        return yk_export_tables(c, r->format, out);
    char *directory = r->n == 1 ? realpath(r->paths[0], NULL) : NULL,
         *slash = directory ? strrchr(directory, '/') : NULL;
    yk_page_write(&(yk_page){r->title, slash && slash[1] ? slash + 1 : NULL, c, warnings, fs}, out);
    free(directory);
    return YK_OK;
}

static yk_status write_out(const yk_report *r, const yk_compare *c, const yk_warnings *warnings,
                           const yk_figures *fs, yk_report_result *out)
{
    const bool compares = !r->out && r->n > 1;
    yk_text text = {0};
    char name[32];
    snprintf(name, sizeof name, "report.%s", ending[r->format]);
    yk_status st = compose(r, c, warnings, fs, &text);
    out->bytes = text.n;
    if (!st && compares)
        st = create_comparison(r->format, &out->out);
    else if (!st &&
             (r->out ? !(out->out = strdup(r->out)) : asprintf(&out->out, "%s/%s", r->paths[0], name) < 0))
        st = yk_fail_memory(64, "a path");
    if (!st)
        st =
            r->out || compares ? yk_text_save(&text, NULL, out->out) : yk_text_save(&text, r->paths[0], name);
    if (st && compares && out->out)
        unlink(out->out);
    yk_text_fini(&text);
    return st;
}

static yk_status report_on(const yk_report *r, const yk_run *runs, size_t n, yk_report_result *out)
{
    yk_warnings warnings = {0};
    yk_figures fs = {0};
    yk_compare c;
    yk_status st = yk_compare_make(runs, n, &c);
    if (!st)
        st = yk_warnings_make(&c, &warnings);
    if (!st)
        st = yk_figures_make(&c, &fs);
    if (!st && r->csv)
        st = yk_export_csv(&fs, &c, r->csv); /* before thinning: all points */
    yk_figures_thin(&fs, YK_REPORT_BYTES);
    if (!st && r->svg)
        st = yk_export_svg(&fs, r->svg);
    if (!st)
        st = write_out(r, &c, &warnings, &fs, out);
    if (!st && r->png) /* last: it needs another program, which may fail */
        st = yk_export_png(&fs, r->png);
    out->figures = fs.n;
    out->warnings = warnings.n;
    yk_figures_fini(&fs);
    yk_warnings_fini(&warnings);
    yk_compare_fini(&c);
    return st;
}

/* Reading takes most of the time of a large report: several threads read runs. */
typedef struct {
    yk_run_list list;
    int threads;
} loading;

static yk_status load_some(void *context, int me)
{
    loading *l = context;
    yk_status st = YK_OK;
    for (size_t i = (size_t)me; !st && i < l->list.n; i += (size_t)l->threads)
        st = yk_run_load(&l->list.run[i]);
    return st;
}

static yk_status load_all(loading *l)
{
    l->threads = yk_cores_for(l->list.n);
    return yk_team_once(l->threads, load_some, l);
}

static bool is_run_dir(const char *directory, const char *up)
{
    static const char *const names[] = {"config.ini", "metrics.jsonl", "summary.json"};
    int found = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[PATH_MAX];
        found += snprintf(path, sizeof path, "%s%s/%s", directory, up, names[i]) < PATH_MAX &&
                 access(path, F_OK) == 0;
    }
    return found >= 2;
}

/* The page must not replace a file of a run. */
static yk_status check_out(const char *out)
{
    static const struct {
        const char *pattern, *up; /* from its directory to the run directory */
    } written[] = {
        {"@(config.ini|metrics.jsonl|summary.json|trace.json|log.txt|join|lock|events.out.tfevents.*)", ""},
        {"@(resources.jsonl|events.out.tfevents.*)", "/.."},
        {"@(DONE|*.safetensors)", "/../.."}};
    char *real = realpath(out, NULL), path[PATH_MAX];
    snprintf(path, sizeof path, "%s", real ? real : out);
    free(real);
    char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path, *directory = slash ? path : ".";
    if (slash)
        *slash = '\0';
    for (size_t i = 0; i < sizeof written / sizeof *written; i++)
        if (fnmatch(written[i].pattern, name, FNM_EXTMATCH) == 0 && is_run_dir(directory, written[i].up))
            return yk_fail(YK_EUSAGE, "--out %s: this is a file of a run directory; choose another name",
                           out);
    return YK_OK;
}

yk_status yk_report_make(const yk_report *r, yk_report_result *out)
{
    loading l;
    *out = (yk_report_result){0};
    yk_status st = r->out ? check_out(r->out) : YK_OK;
    if (st || (st = yk_runs_find(r->paths, r->n, &l.list)))
        return st;
    st = load_all(&l);
    if (!st)
        st = report_on(r, l.list.run, l.list.n, out);
    out->runs = l.list.n;
    yk_run_list_fini(&l.list);
    if (st) {
        free(out->out);
        out->out = NULL;
    }
    return st;
}
