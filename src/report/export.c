#include "report/export.h"

#include "base/file.h"
#include "report/plot.h"
#include <errno.h>
#include <ftw.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static yk_status save(yk_text *t, const char *folder, const char *prefix, const char *name,
                      const char *ending)
{
    char *path;
    yk_status st = t->status;
    if (!st && asprintf(&path, "%s/%s%s%s", folder, prefix, name, ending) < 0)
        st = yk_fail_memory(64, "a path");
    else if (!st) {
        st = yk_text_save(t, NULL, path);
        free(path);
    }
    yk_text_fini(t);
    return st;
}

yk_status yk_export_csv(const yk_figures *fs, const yk_compare *c, const char *folder)
{
    yk_status st = yk_dir_make(folder);
    for (size_t i = 0; !st && i < fs->n; i++) {
        yk_text t = {0};
        yk_figure_csv(&fs->figure[i], &t);
        st = save(&t, folder, "", fs->figure[i].id, ".csv");
    }
    for (size_t i = 0; !st && i < c->tables; i++) {
        yk_text t = {0};
        yk_table_csv(&c->table[i], &t);
        st = save(&t, folder, "table-", c->table[i].id, ".csv");
    }
    return st;
}

/* Calls `each` for every drawing, with its name. */
static yk_status every(const yk_figures *fs, const char *folder,
                       yk_status (*each)(yk_text *svg, const char *name, const char *folder, void *context),
                       void *context)
{
    static const char *const by[YK_X_COUNT] = {"-step", "-epoch", "-seconds"};
    yk_status st = YK_OK;
    for (size_t i = 0; !st && i < fs->n; i++) {
        const yk_figure *f = &fs->figure[i];
        yk_x axes[YK_X_COUNT] = {YK_X_STEP};
        int n = f->steps_or_time ? yk_figure_axes(f, axes) : 1;
        for (int a = 0; !st && a < n; a++) {
            yk_text svg = {0};
            char name[96];
            snprintf(name, sizeof name, "%s%s", f->id, f->steps_or_time ? by[axes[a]] : "");
            yk_figure_draw(f, axes[a], YK_DRAW_FILE, &svg);
            st = each(&svg, name, folder, context);
        }
    }
    return st;
}

static yk_status as_svg(yk_text *svg, const char *name, const char *folder, void *context)
{
    (void)context;
    return save(svg, folder, "", name, ".svg");
}

yk_status yk_export_svg(const yk_figures *fs, const char *folder)
{
    yk_status st = yk_dir_make(folder);
    return st ? st : every(fs, folder, as_svg, NULL);
}

/* ---- PNG: another program draws the SVG ---- */

typedef struct {
    const char *program; /* NULL: none is there */
    bool browser;
    char folder[32]; /* temporary, for the SVG files */
} converter;

static bool in_path(const char *program)
{
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t n = strcspn(path, ":");
        char *file;
        if (asprintf(&file, "%.*s/%s", (int)n, path, program) < 0)
            return false;
        bool there = access(file, X_OK) == 0;
        free(file);
        if (there)
            return true;
        path += n + (path[n] == ':');
    }
    return false;
}

static yk_status convert(const converter *c, const char *from, const char *to, int height)
{
    char *shot = NULL, size[48], data[64];
    if (asprintf(&shot, "--screenshot=%s", to) < 0)
        return yk_fail_memory(64, "a path");
    snprintf(size, sizeof size, "--window-size=%d,%d", YK__WIDTH, height);
    snprintf(data, sizeof data, "--user-data-dir=%s/browser", c->folder); /* beside one that runs already */
    char *const simple[] = {(char *)c->program, (char *)"--zoom=2", (char *)"-o",
                            (char *)to,         (char *)from,       NULL};
    char *const browser[] = {(char *)c->program,
                             (char *)"--headless",
                             (char *)"--no-sandbox", /* the file is ours, and root has no sandbox */
                             (char *)"--disable-gpu",
                             (char *)"--hide-scrollbars",
                             (char *)"--force-device-scale-factor=2",
                             size,
                             data,
                             shot,
                             (char *)from,
                             NULL};
    posix_spawn_file_actions_t quiet;
    pid_t pid;
    int status = 0;
    int error = posix_spawn_file_actions_init(&quiet);
    if (!error) {
        error = posix_spawn_file_actions_addopen(&quiet, STDERR_FILENO, "/dev/null", 1, 0);
        if (!error)
            error = posix_spawnp(&pid, c->program, &quiet, NULL, c->browser ? browser : simple, environ);
        posix_spawn_file_actions_destroy(&quiet);
    }
    free(shot);
    if (error)
        return yk_fail(YK_ESYSTEM, "%s could not be started: %s", c->program, strerror(error));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status) || WEXITSTATUS(status) || access(to, R_OK))
        return yk_fail(YK_ESYSTEM, "%s could not draw %s; --svg needs no other program", c->program, to);
    return YK_OK;
}

static yk_status as_png(yk_text *svg, const char *name, const char *folder, void *context)
{
    const converter *c = context;
    char *from, *to;
    if (asprintf(&from, "%s/%s.svg", c->folder, name) < 0)
        return yk_fail_memory(64, "a path");
    if (asprintf(&to, "%s/%s.png", folder, name) < 0) {
        free(from);
        return yk_fail_memory(64, "a path");
    }
    int height = YK__HEIGHT;
    const char *said = svg->status ? NULL : strstr(svg->s, " height=\"");
    if (said)
        sscanf(said, " height=\"%d", &height);
    yk_status st = yk_text_save(svg, NULL, from);
    yk_text_fini(svg);
    if (!st)
        st = convert(c, from, to, height);
    unlink(from);
    free(from);
    free(to);
    return st;
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)s, (void)kind, (void)at;
    return remove(path);
}

yk_status yk_export_png(const yk_figures *fs, const char *folder)
{
    static const struct {
        const char *name;
        bool browser;
    } known[] = {
        {"rsvg-convert", false}, {"chromium", true}, {"chromium-browser", true}, {"google-chrome", true}};
    converter c = {.folder = "/tmp/yoke-report-XXXXXX"};
    for (size_t i = 0; !c.program && i < sizeof known / sizeof *known; i++)
        if (in_path(known[i].name)) {
            c.program = known[i].name;
            c.browser = known[i].browser;
        }
    if (!c.program)
        return yk_fail(
            YK_ESYSTEM,
            "--png needs rsvg-convert (on Debian: apt-get install librsvg2-bin) or chromium, and neither is "
            "there; --svg needs nothing");
    yk_status st = yk_dir_make(folder);
    if (!st && !mkdtemp(c.folder))
        st = yk_fail_path(c.folder, "cannot make a temporary folder", errno);
    if (st)
        return st;
    st = every(fs, folder, as_png, &c);
    nftw(c.folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return st;
}
