/* Jobs of several processes: runs the program `yoke` as a child with the same options.
 *
 *     stderr of the child    ->  log; its last error becomes the error of yoke_train()
 *     stdout, the last line  ->  the summary (a file in memory)
 *     RUN/metrics.jsonl      ->  progress and metrics, as they are written
 *     cancel                 ->  SIGINT to the child
 *
 * YK_PARENT has our process id: the child ends when this process ends (cli/main.c). */
#include "lib/internal.h"

#include "base/cgroup.h"
#include "base/log.h"
#include "base/mem.h"
#include "format/json_value.h"
#include "train/run_dir.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

typedef struct {
    const yoke_training *t;
    FILE *out;                   /* stdout, a file in memory */
    int err;                     /* stderr, a pipe; -1: closed */
    char *text;                  /* an incomplete line of stderr */
    size_t n, cap;               /* its bytes */
    char error[2048];            /* the last error on stderr */
    char *run_dir;               /* NULL: none */
    char metrics_path[PATH_MAX]; /* RUN/metrics.jsonl; "": none */
    FILE *metrics;               /* NULL: it does not exist yet */
    long skip;                   /* its size before this job, if the run is resumed */
    bool canceled;
} job;

/* ---- the program ---- */

static bool is_program(const char *path)
{
    struct stat is;
    return stat(path, &is) == 0 && S_ISREG(is.st_mode) && access(path, X_OK) == 0;
}

/* YOKE_PROGRAM, beside the library, or a name that is searched in PATH. */
static yk_status find_program(char out[PATH_MAX])
{
    const char *given = getenv("YOKE_PROGRAM");
    if (given) {
        snprintf(out, PATH_MAX, "%s%s", strchr(given, '/') ? "" : "./", given);
        return is_program(out) ? YK_OK
                               : yk_fail(YK_EUSAGE, "YOKE_PROGRAM: %s is not an executable file", given);
    }
    Dl_info self;
    if (dladdr((void *)find_program, &self) && self.dli_fname) {
        char library[PATH_MAX];
        snprintf(library, sizeof library, "%s", self.dli_fname);
        const char *directory = dirname(library);
        for (int i = 0; i < 2; i++) {
            const int n = snprintf(out, PATH_MAX, i ? "%s/../bin/yoke" : "%s/yoke", directory);
            if (n < PATH_MAX && is_program(out))
                return YK_OK;
        }
    }
    strcpy(out, "yoke");
    return YK_OK;
}

/* yoke train --model=softmax ... */
static yk_status make_command(const job *j, yk_arena *a)
{
    const yoke_options *o = j->t->options;
    yk_arena_print(a, "yoke");
    yk_arena_print(a, "train");
    for (size_t i = 0; i < o->n; i++) {
        const char *name = o->setting[i].name ? o->setting[i].name : "config", *value = o->setting[i].value;
        const yk_option *option = yk_option_find(name);
        if (option->kind != YK_OPT_FLAG)
            yk_arena_print(a, "--%s=%s", name, value);
        else if (strcmp(value, "false"))
            yk_arena_print(a, "--%s", name);
    }
    if (j->run_dir && !yoke_options_get(o, "out"))
        yk_arena_print(a, "--out=%s", j->run_dir);
    if (j->t->data)
        yk_arena_print(a, "--data=%s", j->t->data->spec);
    if (j->t->test)
        yk_arena_print(a, "--test=%s", j->t->test->spec);
    if (j->t->validation)
        yk_arena_print(a, "--validation=%s", j->t->validation->spec);
    yk_arena_print(a, "--json");
    return a->status;
}

yk_status yk_child_start(const char *program, char *const *argv, int err, FILE **out, pid_t *pid_out)
{
    char parent[32], **environment;
    size_t n = 0;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    const int memory = memfd_create("stdout", MFD_CLOEXEC);
    *out = memory >= 0 ? fdopen(memory, "r") : NULL;
    while (environ[n])
        n++;
    environment = calloc(n + 2, sizeof *environment); /* that of this process, and YK_PARENT */
    if (!environment || !*out) {
        free(environment);
        return yk_fail(YK_ESYSTEM, "cannot create a file in memory for %s: %s", program, strerror(errno));
    }
    memcpy(environment, environ, n * sizeof *environment);
    snprintf(parent, sizeof parent, "YK_PARENT=%ld", (long)getpid());
    environment[n] = parent;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, memory, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    const int e = posix_spawnp(pid_out, program, &actions, &attributes, argv, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    free(environment);
    if (e == ENOENT && !strchr(program, '/'))
        return yk_fail(YK_ESYSTEM, "a job of several processes needs the program yoke, which is neither "
                                   "beside the library nor in PATH; set YOKE_PROGRAM to its path");
    return e ? yk_fail(YK_ESYSTEM, "cannot run %s: %s", program, strerror(e)) : YK_OK;
}

static yk_status start(job *j, const char *program, const yk_arena *command, pid_t *pid_out)
{
    int err[2];
    if (pipe2(err, O_CLOEXEC))
        return yk_fail(YK_ESYSTEM, "cannot create a pipe for %s: %s", program, strerror(errno));
    const yk_status st = yk_child_start(program, yk_arena_texts(command), err[1], &j->out, pid_out);
    close(err[1]);
    j->err = err[0];
    return st;
}

/* ---- output of the child ---- */

static void handle_error_line(job *j, const char *line)
{
    static const char error[] = "yoke: error: ", warning[] = "yoke: warning: ";
    if (*line == '[' && strchr(line, ']') && strchr(line, ']')[1] == ' ')
        line = strchr(line, ']') + 2; /* the rank */
    if (strncmp(line, error, strlen(error)) == 0)
        snprintf(j->error, sizeof j->error, "%s", line + strlen(error));
    else if (strncmp(line, warning, strlen(warning)) == 0)
        yk_warn("%s", line + strlen(warning));
    else if (*line)
        yk_note("%s", line);
}

/* Reads available lines of stderr; closes it at its end. */
static yk_status read_errors(job *j)
{
    if (YK_RESERVE(j->text, j->cap, j->n + 65536, "the output of a job"))
        return YK_ESYSTEM;
    const ssize_t got = read(j->err, j->text + j->n, j->cap - j->n - 1);
    if (got <= 0 && !(got < 0 && errno == EINTR)) {
        close(j->err);
        j->err = -1;
    }
    j->n += got > 0 ? (size_t)got : 0;
    j->text[j->n] = '\0';
    char *at = j->text, *end;
    while ((end = memchr(at, '\n', j->n - (size_t)(at - j->text)))) {
        *end = '\0';
        handle_error_line(j, at);
        at = end + 1;
    }
    if (j->err < 0 && at < j->text + j->n)
        handle_error_line(j, at);
    j->n -= (size_t)(at - j->text);
    memmove(j->text, at, j->n);
    return YK_OK;
}

char *yk_last_object(FILE *f)
{
    char *line = NULL, *last = NULL;
    size_t cap = 0;
    rewind(f);
    while (getline(&line, &cap, f) > 0) {
        line[strcspn(line, "\n")] = '\0';
        if (*line == '{') {
            free(last);
            last = strdup(line);
        }
    }
    free(line);
    return last;
}

static int handle_metrics_line(job *j, const json_t *line)
{
    const yoke_training *t = j->t;
    const char *kind = json_string_value(json_object_get(line, "kind"));
    const uint64_t step = (uint64_t)fmax(yk_number_at(line, "step"), 0.0),
                   examples = (uint64_t)fmax(yk_number_at(line, "examples"), 0.0);
    const double epoch = yk_number_at(line, "epoch"), rate = yk_number_at(line, "examples_per_second"),
                 loss = yk_number_at(line, "loss");
    char text[128], done[32] = "";
    if (kind && strcmp(kind, "eval") == 0 && t->metrics) {
        yoke_metrics m = {.step = step, .examples = examples};
        for (int k = 0; yk_metric_names[k]; k++)
            (&m.epoch)[k] = yk_number_at(line, yk_metric_names[k]);
        return t->metrics(t->context, &m);
    }
    if (!kind || strcmp(kind, "train") || !t->progress)
        return 0;
    if (isfinite(epoch))
        snprintf(done, sizeof done, "  epoch %.2f", epoch);
    snprintf(text, sizeof text, "step %llu%s  loss %.3f  %.3g examples/s", (unsigned long long)step, done,
             loss, rate);
    return t->progress(t->context,
                       &(yoke_progress){.step = step,
                                        .examples = examples,
                                        .epoch = epoch,
                                        .loss = loss,
                                        .examples_per_second = rate,
                                        .steps_per_second = yk_number_at(line, "steps_per_second"),
                                        .seconds_left = (double)NAN,
                                        .text = text});
}

/* Passes on the complete lines that were written since the last call. */
static void follow_metrics(job *j)
{
    if (!j->metrics && *j->metrics_path && (j->metrics = fopen(j->metrics_path, "re"))) {
        fseek(j->metrics, 0, SEEK_END); /* resuming removes lines of steps after the checkpoint */
        if (j->skip < ftell(j->metrics))
            fseek(j->metrics, j->skip, SEEK_SET);
    }
    if (!j->metrics)
        return;
    char *line = NULL;
    size_t cap = 0;
    long at = ftell(j->metrics);
    ssize_t n;
    while ((n = getline(&line, &cap, j->metrics)) > 0 && line[n - 1] == '\n') {
        json_t *object = json_loadb(line, (size_t)n, 0, NULL);
        if (object && !j->canceled)
            j->canceled = handle_metrics_line(j, object);
        json_decref(object);
        at = ftell(j->metrics);
    }
    free(line);
    clearerr(j->metrics);
    fseek(j->metrics, at, SEEK_SET);
}

/* ---- the job ---- */

static yk_status follow(job *j, pid_t pid, int *status_out)
{
    const int every_ms = 100;
    bool signaled = false;
    yk_status st = YK_OK;
    while (!st && j->err >= 0) {
        struct pollfd p = {j->err, POLLIN, 0};
        if (poll(&p, 1, every_ms) > 0)
            st = read_errors(j);
        if (j->t->metrics || j->t->progress)
            follow_metrics(j);
        if (!signaled && (j->canceled || (j->t->cancel && *j->t->cancel))) {
            kill(pid, SIGINT);
            signaled = true;
        }
    }
    if (st)
        kill(pid, SIGTERM);
    while (waitpid(pid, status_out, 0) < 0 && errno == EINTR)
        ;
    return st;
}

static yk_status judge(const job *j, int status, const yk_limits *before, char **summary_out)
{
    static const yk_status of_code[] = {YK_OK, YK_ELOST, YK_EUSAGE, YK_EDATA, YK_ESYSTEM};
    yk_limits after;
    char text[400];
    yk_cgroup_limits("/proc", "/sys", &after);
    if (WIFSIGNALED(status) && yk_cgroup_killed(before, &after, text, sizeof text))
        return yk_fail(YK_ESYSTEM, "%s", text);
    if (WIFSIGNALED(status))
        return yk_fail(YK_ELOST, "the program yoke was killed by signal %d", WTERMSIG(status));
    const int code = WEXITSTATUS(status);
    if (code == 0) {
        *summary_out = yk_last_object(j->out);
        return *summary_out ? YK_OK : yk_fail(YK_ESYSTEM, "the program yoke printed no summary");
    }
    return yk_fail(code < 5 ? of_code[code] : YK_ESYSTEM, "%s",
                   *j->error ? j->error : "the program yoke failed without an error message");
}

static void finish(job *j)
{
    if (j->out)
        fclose(j->out);
    if (j->err >= 0)
        close(j->err);
    if (j->metrics)
        fclose(j->metrics);
    free(j->text);
    free(j->run_dir);
}

yk_status yk_child_job(const yoke_training *t, const yk_config *config, char **summary_out)
{
    job j = {.t = t, .err = -1};
    char program[PATH_MAX];
    yk_arena command = {0};
    pid_t pid;
    int status = 0;
    yk_limits limits;
    yk_cgroup_limits("/proc", "/sys", &limits);
    const bool none = config->out && strcmp(config->out, "none") == 0;
    yk_status st = none ? YK_OK : yk_run_dir_choose(config->out, config->model, &j.run_dir);
    if (st)
        return st;
    struct stat before;
    if (j.run_dir)
        snprintf(j.metrics_path, sizeof j.metrics_path, "%s/metrics.jsonl", j.run_dir);
    j.skip = stat(j.metrics_path, &before) == 0 ? (long)before.st_size : 0;
    st = find_program(program);
    if (!st)
        st = make_command(&j, &command);
    if (!st)
        st = start(&j, program, &command, &pid);
    if (!st && !(st = follow(&j, pid, &status)))
        st = judge(&j, status, &limits, summary_out);
    if ((t->metrics || t->progress) && !st)
        follow_metrics(&j);
    yk_arena_free(&command);
    if (st && j.run_dir && !config->out)
        rmdir(j.run_dir); /* created by yk_run_dir_choose(); stays if anything was written */
    finish(&j);
    return st;
}
