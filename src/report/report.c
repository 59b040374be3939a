#include "report/report.h"

#include "base/number.h"
#include "base/team.h"
#include "report/page.h"
#include "report/plot.h"
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <ftw.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- files: figures and tables ---- */

extern char **environ;

enum { MAX_PATH = PATH_MAX + 256 }; /* of a file in a directory that exists */

/* Saves a text, and frees it. */
static yk_status save(yk_text *t, const char *dir, const char *name, const char *ending)
{
    char path[MAX_PATH];
    snprintf(path, sizeof path, "%s/%s%s", dir, name, ending);
    const yk_status st = yk_text_save(t, NULL, path);
    yk_text_fini(t);
    return st;
}

/* Writes all tables that have rows, those of the comparison and then those of the runs: to a text, or each to a file. */
static yk_status write_tables(const yk_compare *c, void (*write)(const yk_table *t, yk_text *out),
                              const char *dir, yk_text *out)
{
    yk_status st = YK_OK;
    for (size_t i = 0; !st && i < c->tables + YK_RUN_TABLES; i++) {
        yk_table made = {0};
        const yk_table *t = i < c->tables ? &c->table[i] : &made;
        yk_text file = {0};
        char name[64];
        if (t == &made) {
            yk_run_table_make(c, -1, (yk_run_table)(i - c->tables), &made);
            yk_table_drop_empty_columns(&made);
            made.id = strcmp(made.id, "workers") ? made.id : "run-workers"; /* another table has this name */
        }
        snprintf(name, sizeof name, "table-%s", t->id);
        st = t->status;
        if (!st && t->rows)
            write(t, dir ? &file : out);
        if (!st && t->rows && dir)
            st = save(&file, dir, name, ".csv");
        yk_table_fini(&made);
    }
    return st;
}

static yk_status export_csv(const yk_figures *fs, const yk_compare *c, const char *dir)
{
    yk_status st = yk_dir_make(dir);
    for (size_t i = 0; !st && i < fs->n; i++) {
        yk_text t = {0};
        yk_figure_csv(&fs->figure[i], &t);
        st = save(&t, dir, fs->figure[i].id, ".csv");
    }
    return st ? st : write_tables(c, yk_table_csv, dir, NULL);
}

static yk_status export_tables(const yk_compare *c, yk_format format, yk_text *out)
{
    if (format == YK_FORMAT_MARKDOWN)
        return write_tables(c, yk_table_markdown, NULL, out);
    yk_text_add(out, "% For \\input. Needs no packages; with booktabs, the tables have its rules.\n"
                     "\\providecommand{\\toprule}{\\hline}\n"
                     "\\providecommand{\\midrule}{\\hline}\n"
                     "\\providecommand{\\bottomrule}{\\hline}\n");
    return write_tables(c, yk_table_latex, NULL, out);
}

/* ---- PNG: another program converts the SVG ---- */

/* The programs that can convert it, in this order. */
static const char *const converters[] = {"rsvg-convert", "chromium", "chromium-browser", "google-chrome",
                                         NULL};

typedef struct {
    const char *const *program;
    char temp[32]; /* a directory for the SVG files */
} conversion;

/* Returns an errno value. */
static int start(const conversion *c, const char *from, const char *to, int height, pid_t *pid_out)
{
    char shot[MAX_PATH + 16], size[48], data[64];
    snprintf(shot, sizeof shot, "--screenshot=%s", to);
    snprintf(size, sizeof size, "--window-size=%d,%d", YK__WIDTH, height);
    snprintf(data, sizeof data, "--user-data-dir=%s/browser", c->temp); /* another one may be running */
    const char *const simple[] = {*c->program, "--zoom=2", "-o", to, from, NULL};
    /* without a sandbox: root needs that, and the file is ours */
    const char *const browser[] = {*c->program,
                                   "--headless",
                                   "--no-sandbox",
                                   "--disable-gpu",
                                   "--hide-scrollbars",
                                   "--force-device-scale-factor=2",
                                   size,
                                   data,
                                   shot,
                                   from,
                                   NULL};
    char *const *arguments = (char *const *)(c->program == converters ? simple : browser);
    posix_spawn_file_actions_t quiet;
    int error = posix_spawn_file_actions_init(&quiet);
    if (error)
        return error;
    error = posix_spawn_file_actions_addopen(&quiet, STDERR_FILENO, "/dev/null", 1, 0);
    if (!error)
        error = posix_spawnp(pid_out, *c->program, &quiet, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&quiet);
    return error;
}

/* Uses the first converter that is installed. */
static yk_status convert(conversion *c, const char *from, const char *to, int height)
{
    pid_t pid;
    int status = 0, error;
    while ((error = start(c, from, to, height, &pid)) == ENOENT && c->program[1])
        c->program++;
    if (error == ENOENT)
        return yk_fail(YK_ESYSTEM, "--png needs rsvg-convert (on Debian: apt-get install librsvg2-bin) or "
                                   "chromium; neither is installed. Use --svg instead");
    if (error)
        return yk_fail(YK_ESYSTEM, "cannot start %s: %s", *c->program, strerror(error));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status) || WEXITSTATUS(status) || access(to, R_OK))
        return yk_fail(YK_ESYSTEM, "%s failed to write %s; use --svg, which needs no other program",
                       *c->program, to);
    return YK_OK;
}

static yk_status convert_text(conversion *c, yk_text *svg, const char *dir, const char *name)
{
    static const char label[] = " height=\"";
    char from[MAX_PATH], to[MAX_PATH];
    uint64_t height = YK__HEIGHT;
    const char *at = svg->status ? NULL : strstr(svg->s, label);
    if (at)
        yk_digits_after(label, at, INT_MAX, &height);
    const yk_status st = save(svg, c->temp, name, ".svg");
    snprintf(from, sizeof from, "%s/%s.svg", c->temp, name);
    snprintf(to, sizeof to, "%s/%s.png", dir, name);
    return st ? st : convert(c, from, to, (int)height);
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)s, (void)kind, (void)at;
    return remove(path);
}

/* Saves every drawing as SVG, or as PNG. */
static yk_status export_drawings(const yk_figures *fs, const char *dir, bool png)
{
    conversion c = {converters, "/tmp/yoke-report-XXXXXX"};
    yk_status st = yk_dir_make(dir);
    if (!st && png && !mkdtemp(c.temp))
        st = yk_fail_path(c.temp, "cannot create a temporary directory", errno);
    if (st)
        return st;
    for (size_t i = 0; i < fs->n; i++) {
        const yk_figure *f = &fs->figure[i];
        for (int x = 0; !st && x < yk_figure_drawings(f); x++) {
            yk_text svg = {0};
            char name[sizeof f->id + 16];
            snprintf(name, sizeof name, f->steps_or_time ? "%s-by-%s" : "%s", f->id, yk_x_names[x]);
            yk_figure_draw(f, (yk_x)x, YK_DRAW_FILE, &svg);
            st = png ? convert_text(&c, &svg, dir, name) : save(&svg, dir, name, ".svg");
        }
    }
    if (png)
        nftw(c.temp, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return st;
}

/* ---- the report ---- */

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
        return export_tables(c, r->format, out);
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
        st = export_csv(&fs, &c, r->csv); /* before thinning: all points */
    yk_figures_thin(&fs, YK_REPORT_BYTES);
    if (!st && r->svg)
        st = export_drawings(&fs, r->svg, false);
    if (!st)
        st = write_out(r, &c, &warnings, &fs, out);
    if (!st && r->png) /* last: it needs another program, which may fail */
        st = export_drawings(&fs, r->png, true);
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
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        char run[PATH_MAX + 8];
        snprintf(run, sizeof run, "%s%s", directory, written[i].up);
        if (fnmatch(written[i].pattern, name, FNM_EXTMATCH) == 0 && yk_is_run(run))
            return yk_fail(YK_EUSAGE, "--out %s: this is a file of a run directory; choose another name",
                           out);
    }
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
