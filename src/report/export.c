#include "report/export.h"

#include "base/number.h"
#include "report/plot.h"
#include "report/run_tables.h"
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static yk_status join(const char *dir, const char *name, const char *ending, char *out /* [PATH_MAX] */)
{
    return snprintf(out, PATH_MAX, "%s/%s%s", dir, name, ending) < PATH_MAX
               ? YK_OK
               : yk_fail_in(dir, name, "cannot write", ENAMETOOLONG);
}

/* Takes the text. */
static yk_status save(yk_text *t, const char *dir, const char *name, const char *ending)
{
    char path[PATH_MAX];
    yk_status st = join(dir, name, ending, path);
    if (!st)
        st = yk_text_save(t, NULL, path);
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

yk_status yk_export_csv(const yk_figures *fs, const yk_compare *c, const char *dir)
{
    yk_status st = yk_dir_make(dir);
    for (size_t i = 0; !st && i < fs->n; i++) {
        yk_text t = {0};
        yk_figure_csv(&fs->figure[i], &t);
        st = save(&t, dir, fs->figure[i].id, ".csv");
    }
    return st ? st : write_tables(c, yk_table_csv, dir, NULL);
}

yk_status yk_export_tables(const yk_compare *c, yk_format format, yk_text *out)
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
    char shot[PATH_MAX + 16], size[48], data[64];
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
    char from[PATH_MAX], to[PATH_MAX];
    uint64_t height = YK__HEIGHT;
    const char *at = svg->status ? NULL : strstr(svg->s, label);
    if (at)
        yk_digits_after(label, at, INT_MAX, &height);
    yk_status st = save(svg, c->temp, name, ".svg");
    if (!st)
        st = join(c->temp, name, ".svg", from);
    if (!st)
        st = join(dir, name, ".png", to);
    return st ? st : convert(c, from, to, (int)height);
}

/* Saves every drawing as SVG, or converts it. */
static yk_status save_drawings(const yk_figures *fs, const char *dir, conversion *c)
{
    yk_status st = YK_OK;
    for (size_t i = 0; i < fs->n; i++) {
        const yk_figure *f = &fs->figure[i];
        for (int x = 0; !st && x < yk_figure_drawings(f); x++) {
            yk_text svg = {0};
            char name[sizeof f->id + 16];
            snprintf(name, sizeof name, f->steps_or_time ? "%s-by-%s" : "%s", f->id, yk_x_names[x]);
            yk_figure_draw(f, (yk_x)x, YK_DRAW_FILE, &svg);
            st = c ? convert_text(c, &svg, dir, name) : save(&svg, dir, name, ".svg");
        }
    }
    return st;
}

yk_status yk_export_svg(const yk_figures *fs, const char *dir)
{
    yk_status st = yk_dir_make(dir);
    return st ? st : save_drawings(fs, dir, NULL);
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)s, (void)kind, (void)at;
    return remove(path);
}

yk_status yk_export_png(const yk_figures *fs, const char *dir)
{
    conversion c = {converters, "/tmp/yoke-report-XXXXXX"};
    yk_status st = yk_dir_make(dir);
    if (!st && !mkdtemp(c.temp))
        st = yk_fail_path(c.temp, "cannot create a temporary directory", errno);
    if (st)
        return st;
    st = save_drawings(fs, dir, &c);
    nftw(c.temp, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return st;
}
