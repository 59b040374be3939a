#include "cli/job_status.h"

#include "base/log.h"
#include "base/number.h"
#include "cli/job_dir.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void send_line(const char *format, ...)
{
    char text[128];
    va_list args;
    if (!getenv("YK_ENDED"))
        return;
    va_start(args, format);
    const size_t n = (size_t)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (write(STDERR_FILENO, text, n < sizeof text ? n : sizeof text - 1) < 0)
        return; /* the launcher has ended: there is no one to report to */
}

void yk_job_report_stage(yk_train_stage stage, int workers)
{
    static const char *const name[] = {[YK_STAGE_ALIVE] = "alive",
                                       [YK_STAGE_CONNECTED] = "connected",
                                       [YK_STAGE_TRAINING] = "training",
                                       [YK_STAGE_SAVING] = "saving",
                                       [YK_STAGE_SAVED] = "saved"};
    send_line("\001%s %d\n", name[stage], workers);
}

/* The address of the daemon that started this process is NAMESPACE.NUMBER;tcp://... */
void yk_job_report_host(int rank)
{
    const char *uri = getenv("PMIX_SERVER_URI41"), *dot = uri ? memrchr(uri, '.', strcspn(uri, ";")) : NULL;
    char name[HOST_NAME_MAX + 1] = "";
    uint64_t daemon;
    gethostname(name, sizeof name - 1);
    if (dot && yk_digits(dot + 1, INT_MAX, &daemon))
        send_line("\001%d %d %s\n", rank, (int)daemon, name);
}

void yk_job_end_with_launcher(void)
{
    char path[PATH_MAX];
    const char *ended = getenv("YK_ENDED");
    if (ended && snprintf(path, sizeof path, "%s", ended) < (int)sizeof path)
        yk_job_dir_watch(dirname(path));
}

void yk_job_report_lost(void)
{
    send_line("\001lost\n");
}

/* Opens a file of the launcher. -1: there is none; this may be another host, so it is not created. */
static int open_named(const char *variable)
{
    const char *path = getenv(variable);
    return path ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
}

void yk_job_report_begin(void)
{
    const int fd = open_named("YK_BEGUN");
    if (fd >= 0 && write(fd, "begun\n", 6) < 0)
        yk_warn("%s: %s", getenv("YK_BEGUN"), strerror(errno));
    if (fd >= 0)
        close(fd);
}

/* One line with one write(): other processes may write at the same time. */
static void write_outcome(int fd, yk_status status)
{
    char text[sizeof(((yk_job_outcome *)0)->error) + 16];
    int n = snprintf(text, sizeof text - 1, "%d %s", (int)status,
                     !status       ? ""
                     : *yk_error() ? yk_error()
                                   : yk_status_text(status));
    n = n < (int)sizeof text - 2 ? n : (int)sizeof text - 2;
    for (char *at = text; (at = strchr(at, '\n'));)
        *at = ' ';
    text[n++] = '\n';
    if (write(fd, text, (size_t)n) != n)
        yk_warn("%s: cannot write the exit status: %s", getenv("YK_ENDED"), strerror(errno));
}

void yk_job_report_outcome(yk_status status)
{
    send_line("\001ended %d\n", (int)status);
    const int fd = open_named("YK_ENDED");
    struct stat file;
    if (fd < 0)
        return;
    if (fstat(fd, &file) == 0 && file.st_size == 0) /* the first process that failed knows the cause */
        write_outcome(fd, status);
    close(fd);
}

void yk_job_redirect_results(void)
{
    const int fd = open_named("YK_RESULTS");
    if (fd < 0)
        return;
    fflush(stdout);
    dup2(fd, STDOUT_FILENO);
    close(fd);
}

/* The files of the launcher. */
static const struct {
    const char *variable, *name;
} files[] = {{"YK_RESULTS", "results"}, {"YK_ENDED", "ended"}, {"YK_BEGUN", "begun"}};
enum { nfiles = sizeof files / sizeof *files };

yk_status yk_job_files_create(const char *directory)
{
    char path[PATH_MAX + 8];
    for (size_t i = 0; i < nfiles; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, files[i].name);
        const int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        if (fd < 0)
            return yk_fail(YK_ESYSTEM, "%s: cannot create the file: %s", path, strerror(errno));
        close(fd);
        setenv(files[i].variable, path, 1);
    }
    return YK_OK;
}

yk_status yk_job_files_clear(void)
{
    for (size_t i = 0; i < nfiles; i++)
        if (truncate(getenv(files[i].variable), 0))
            return yk_fail(YK_ESYSTEM, "%s: %s", getenv(files[i].variable), strerror(errno));
    return YK_OK;
}

static bool has_text(const char *path)
{
    struct stat file;
    return path && stat(path, &file) == 0 && file.st_size > 0;
}

bool yk_job_has_begun(void)
{
    return has_text(getenv("YK_BEGUN"));
}

FILE *yk_job_results(void)
{
    const char *path = getenv("YK_RESULTS");
    return has_text(path) ? fopen(path, "re") : NULL;
}

bool yk_job_outcome_read(const char *path, yk_job_outcome *out)
{
    FILE *f = fopen(path, "re");
    char line[sizeof out->error + 16];
    char *end = NULL;
    const bool complete = f && fgets(line, sizeof line, f) && (end = strchr(line, '\n'));
    if (f)
        fclose(f);
    if (!complete)
        return false;
    *end = '\0';
    uint64_t status = 0;
    const char *rest = yk_digits(line, INT_MAX, &status);
    out->status = (yk_status)status;
    snprintf(out->error, sizeof out->error, "%s", rest && *rest == ' ' ? rest + 1 : "");
    return rest;
}
