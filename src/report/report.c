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

/* Saves a text, and frees it. */
static yk_status save(yk_text *t, const char *dir, const char *name, const char *ending)
{
    const yk_status st = yk_text_save(t, NULL, yk_path_of("%s/%s%s", dir, name, ending).s);
    yk_text_fini(t);
    return st;
}

static yk_status export_csv(const yk_figures *fs, const yk_compare *c, const char *dir)
{
    yk_status st = yk_dir_make(dir);
    for (size_t i = 0; !st && i < fs->n + c->tables; i++) {
        const yk_table *table = i < fs->n ? NULL : &c->table[i - fs->n];
        yk_text t = {0};
        char name[256];
        if (table)
            yk_table_csv(table, &t);
        else
            yk_figure_csv(&fs->figure[i], &t);
        snprintf(name, sizeof name, "%s%s", table ? "table-" : "", table ? table->id : fs->figure[i].id);
        st = save(&t, dir, name, ".csv");
    }
    return st;
}

static void export_tables(const yk_compare *c, yk_format format, yk_text *out)
{
    const bool latex = format == YK_FORMAT_LATEX;
    if (latex)
        yk_text_add(out, "% For \\input. Needs no packages; with booktabs, the tables have its rules.\n"
                         "\\providecommand{\\toprule}{\\hline}\n"
                         "\\providecommand{\\midrule}{\\hline}\n"
                         "\\providecommand{\\bottomrule}{\\hline}\n");
    for (size_t i = 0; i < c->tables; i++)
        (latex ? yk_table_latex : yk_table_markdown)(&c->table[i], out);
}

/* ---- PNG: another program converts the SVG ---- */

/* Uses the first program that is installed. $1: the SVG file, $2: the PNG file, $3: its size, $4: a directory. Browsers run without
 * a sandbox: root needs that, and the file is ours. Another one may be running, with another user's data. */
static const char converter[] =
    "exec >/dev/null 2>&1\n"
    "command -v rsvg-convert && exec rsvg-convert --zoom=2 -o \"$2\" \"$1\"\n"
    "for browser in chromium chromium-browser google-chrome; do\n"
    "  command -v $browser && exec $browser --headless --no-sandbox --disable-gpu --hide-scrollbars \\\n"
    "    --force-device-scale-factor=2 --window-size=$3 --user-data-dir=\"$4/browser\" --screenshot=\"$2\" "
    "\"$1\"\n"
    "done\n"
    "exit 127\n";

static yk_status convert(const char *from, const char *to, int height, const char *temp)
{
    char size[48];
    snprintf(size, sizeof size, "%d,%d", YK__WIDTH, height);
    const char *const arguments[] = {"sh", "-c", converter, "sh", from, to, size, temp, NULL};
    pid_t pid;
    int status = 0, error = posix_spawn(&pid, "/bin/sh", NULL, NULL, (char *const *)arguments, environ);
    if (error)
        return yk_fail(YK_ESYSTEM, "cannot start /bin/sh: %s", strerror(error));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return yk_fail(YK_ESYSTEM, "--png needs rsvg-convert (on Debian: apt-get install librsvg2-bin) or "
                                   "chromium; neither is installed. Use --svg instead");
    if (!WIFEXITED(status) || WEXITSTATUS(status) || access(to, R_OK))
        return yk_fail(YK_ESYSTEM,
                       "cannot convert an SVG file to %s; use --svg, which needs no other program", to);
    return YK_OK;
}

static yk_status convert_text(const char *temp, yk_text *svg, const char *dir, const char *name)
{
    static const char label[] = " height=\"";
    uint64_t height = YK__HEIGHT;
    const char *at = svg->status ? NULL : strstr(svg->s, label);
    if (at)
        yk_digits_after(label, at, INT_MAX, &height);
    const yk_status st = save(svg, temp, name, ".svg");
    const yk_path from = yk_path_of("%s/%s.svg", temp, name), to = yk_path_of("%s/%s.png", dir, name);
    return st ? st : convert(from.s, to.s, (int)height, temp);
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)s, (void)kind, (void)at;
    return remove(path);
}

/* Saves every drawing as SVG, or as PNG. */
static yk_status export_drawings(const yk_figures *fs, const char *dir, bool png)
{
    char temp[] = "/tmp/yoke-report-XXXXXX"; /* for SVG files */
    yk_status st = yk_dir_make(dir);
    if (!st && png && !mkdtemp(temp))
        st = yk_fail_path(temp, "cannot create a temporary directory", errno);
    if (st)
        return st;
    for (size_t i = 0; i < fs->n; i++) {
        const yk_figure *f = &fs->figure[i];
        for (int x = 0; !st && x < yk_figure_drawings(f); x++) {
            yk_text svg = {0};
            char name[sizeof f->id + 16];
            snprintf(name, sizeof name, f->steps_or_time ? "%s-by-%s" : "%s", f->id, yk_x_names[x]);
            yk_figure_draw(f, (yk_x)x, YK_DRAW_FILE, &svg);
            st = png ? convert_text(temp, &svg, dir, name) : save(&svg, dir, name, ".svg");
        }
    }
    if (png)
        nftw(temp, remove_one, 8, FTW_DEPTH | FTW_PHYS);
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

static void compose(const yk_report *r, const yk_page *page, yk_text *out)
{
    if (r->format == YK_FORMAT_HTML)
        yk_page_write(page, out);
    else
        export_tables(page->compare, r->format, out);
}

static yk_status write_out(const yk_report *r, const yk_page *page, yk_report_result *out)
{
    const bool compares = !r->out && r->n > 1;
    const char *dir = r->out || compares ? NULL : r->paths[0];
    char name[32];
    yk_text text = {0};
    snprintf(name, sizeof name, "report.%s", ending[r->format]);
    compose(r, page, &text);
    out->bytes = text.n;
    yk_status st = compares ? create_comparison(r->format, &out->out) : YK_OK;
    if (!compares && (dir ? asprintf(&out->out, "%s/%s", dir, name) : asprintf(&out->out, "%s", r->out)) < 0)
        st = yk_fail_memory(64, "a path");
    if (!st)
        st = yk_text_save(&text, dir, dir ? name : out->out);
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
    char *path = r->n == 1 ? realpath(r->paths[0], NULL) : NULL, *slash = path ? strrchr(path, '/') : NULL;
    const yk_page page = {r->title, slash && slash[1] ? slash + 1 : NULL, &c, &warnings, &fs};
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
        st = write_out(r, &page, out);
    if (!st && r->png) /* last: it needs another program, which may fail */
        st = export_drawings(&fs, r->png, true);
    out->figures = r->format == YK_FORMAT_HTML || r->svg || r->png ? fs.n : 0;
    out->warnings = warnings.n;
    free(path);
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

/* The page must not replace a file of a run: of its directory, worker-R/ or checkpoints/step-N/. */
static yk_status check_out(const char *out)
{
    static const char names[] = "@(config.ini|metrics.jsonl|summary.json|trace.json|log.txt|join|lock|"
                                "resources.jsonl|events.out.tfevents.*|DONE|*.safetensors)";
    static const char *const up[] = {"", "/..", "/../.."}; /* to the run directory */
    char *real = realpath(out, NULL), path[PATH_MAX];
    snprintf(path, sizeof path, "%s", real ? real : out);
    free(real);
    char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path, *directory = slash ? path : ".";
    if (slash)
        *slash = '\0';
    for (size_t i = 0; i < sizeof up / sizeof *up && fnmatch(names, name, FNM_EXTMATCH) == 0; i++)
        if (yk_is_run(yk_path_of("%s%s", directory, up[i]).s))
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
    l.threads = yk_cores_for(l.list.n);
    st = yk_team_once(l.threads, load_some, &l);
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
