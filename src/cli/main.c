/* The program: finds the command and runs it; signals, errors and exit status. */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/number.h"
#include "base/suggest.h"
#include "cli/channel.h"
#include "cli/terminal.h"
#include "comm/comm.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

double yk_cli_started;
volatile sig_atomic_t yk_cli_stop, yk_cli_stop_again;
bool yk_cli_launcher;

static const struct {
    const char *name, *summary, *example;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"train", "train a model", "yoke train --model softmax --data synth:digits", yk_cmd_train},
    {"eval", "print the metrics of a model", "yoke eval --checkpoint runs/x --data idx:DIR", yk_cmd_eval},
    {"predict", "print predictions", "yoke predict --checkpoint runs/x --data new.libsvm", yk_cmd_predict},
    {"inspect", "describe a trained model", "yoke inspect runs/x --data csv:clicks.csv", yk_cmd_inspect},
    {"sweep", "train a grid of options", "yoke sweep experiments/softmax.ini --quick", yk_cmd_sweep},
    {"report", "write an HTML report", "yoke report runs/sync runs/async -o compare.html", yk_cmd_report},
    {"data", "generate, convert, inspect", "yoke data inspect clicks.tfrecord", yk_cmd_data},
    {"version", "print version, libraries, MPI", "yoke version", yk_cmd_version},
    {NULL}};

#define DATA                                                                                                 \
    "idx: tfrecord: csv: parquet: libsvm: libffm: vw: criteo: cifar10: images: cache: synth:digits "         \
    "synth:ctr "                                                                                             \
    "synth:images"

static const struct {
    const char *after, *words;
} following[] = {
    {"yoke", "train eval predict inspect sweep report data version help"},
    {"data", "gen convert inspect"},
    {"--model", "softmax logreg linear fm:8 wide-deep deepfm lenet5 lenet-caffe alexnet"},
    {"--mode", "sync async"},
    {"--optimizer", "sgd momentum nesterov adagrad rowwise-adagrad ftrl adam adamw"},
    {"--lr-schedule", "constant step inverse cosine one-cycle plateau"},
    {"--stream", "auto always never"},
    {"--split", "train test"},
    {"--loss", "logistic softmax squared hinge"},
    {"--data", DATA},
    {"--test", DATA},
};

/* For the completions of shells (completions/): prints the words that may follow a word on a command line. */
static int complete(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof following / sizeof *following; i++)
        if (strcmp(argv[1], following[i].after) == 0)
            puts(following[i].words);
    return yk_cli_exit(yk_cli_flush());
}

static void print_help(FILE *to)
{
    fputs("yoke trains linear models, factorization machines and convolutional networks by stochastic "
          "gradient\n"
          "descent: synchronously or asynchronously, on one thread or on a cluster. After a run, it reports "
          "the\n"
          "bottleneck.\n"
          "\n",
          to);
    for (size_t i = 0; commands[i].name; i++)
        fprintf(to, "  yoke %-8s  %-31s %s\n", commands[i].name, commands[i].summary, commands[i].example);
    fputs("\n"
          "yoke COMMAND --help lists the options of a command. Exit status: 0 success, 1 training failed,\n"
          "2 usage error, 3 bad data, 4 system error.\n",
          to);
}

/* ---- errors and results ---- */

static bool expected; /* the object has not been printed yet */

void yk_json_result_expect(void)
{
    expected = true;
}

void yk_json_result_print(const char *json)
{
    if (!expected)
        return;
    expected = false;
    puts(json);
    fflush(stdout);
}

void yk_failure_print(const char *error, int code)
{
    yk_json j = {0};
    char *text = NULL;
    if (!expected)
        return;
    YK_JSON(&j, YK_OBJECT(NULL), YK_TEXT("state", code ? "failed" : "stopped"), YK_TEXT("error", error),
            YK_INT("exit_code", code), YK_END);
    if ((text = yk_json_take(&j)))
        yk_json_result_print(text);
    free(text);
}

void yk_failure_print_summary(const char *run_dir, time_t since)
{
    char path[PATH_MAX];
    struct stat file;
    int fd;
    snprintf(path, sizeof path, "%s/summary.json", run_dir);
    if (!expected || yk_file_open_regular(path, UINT64_MAX, &fd) || fd < 0)
        return;
    json_t *summary = fstat(fd, &file) == 0 && file.st_mtime >= since ? json_loadfd(fd, 0, NULL) : NULL;
    char *text = summary ? json_dumps(summary, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    if (text)
        yk_json_result_print(text);
    free(text);
    json_decref(summary);
    close(fd);
}

static void fail(const char *error, int code)
{
    yk_report_error(error);
    yk_failure_print(error, code);
}

bool yk_cli_reader_left(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR);
}

int yk_cli_exit(yk_status status)
{
    if (status && ferror(stdout) && yk_cli_reader_left())
        return 128 + SIGPIPE; /* as if the signal, which may be ignored, had ended this program */
    if (status == YK_EINTERRUPTED && !yk_job_has_launcher()) { /* else the launcher reports it */
        yk_note("%s", yk_error());
        yk_failure_print(yk_error(), 0);
    } else if (status && status != YK_EINTERRUPTED)
        fail(*yk_error() ? yk_error() : yk_status_text(status), yk_status_exit(status));
    return yk_status_exit(status);
}

int yk_cli_fail(const yoke_error *error)
{
    fail(error->message, (int)error->status);
    return (int)error->status;
}

yk_status yk_cli_flush(void)
{
    return fflush(stdout) || ferror(stdout)
               ? yk_fail(YK_ESYSTEM, "cannot write the results to stdout: %s", strerror(errno))
               : YK_OK;
}

yk_status yk_cli_print(char *text, const char *end)
{
    if (!text)
        return yk_fail_memory(4096, "the results");
    printf("%s%s", text, end);
    free(text);
    return yk_cli_flush();
}

yk_status yk_cli_print_json(yk_json *j)
{
    return yk_cli_print(yk_json_take(j), "\n");
}

/* ---- signals ---- */

static void on_signal(int signal)
{
    static double first;
    const int error = errno; /* of the code that is interrupted */
    /* A second signal ends the program immediately. The same signal may arrive twice within a moment (sent to the process
     * and to its group), mpirun forwards SIGUSR1, and a shell may repeat SIGHUP: these do not count. In a process of a job, any
     * number of signals means the same: the launcher decides. */
    const bool second = yk_cli_stop && signal != SIGUSR1 && signal != SIGHUP && yk_now() - first > 0.5 &&
                        !yk_job_has_launcher();
    if (!yk_cli_stop)
        first = yk_now();
    if (second && yk_cli_launcher) { /* it has to end the job first */
        yk_cli_stop_again = signal;
    } else if (second) {
        struct sigaction plain = {.sa_handler = SIG_DFL};
        sigaction(signal, &plain, NULL);
        raise(signal);
    }
    yk_cli_stop = signal;
    yk_job_report(YK_FRAME_SIGNALED, 0, NULL, 0);
    errno = error;
}

sigset_t yk_cli_stop_signals(void)
{
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGHUP);
    return stop;
}

void yk_cli_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal}, hangup;
    sigset_t all;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) /* nohup */
        sigaction(SIGHUP, &action, NULL);
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, NULL); /* mpirun forwards it: save and end */
    sigemptyset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL); /* the agent of a job blocks them until now */
}

/* A child of the library (lib/child_job.c) ends with its parent, as after Ctrl-C, so that it saves a checkpoint. */
static void follow_parent(void)
{
    const long parent = (long)yk_env_number("YK_PARENT", 0);
    if (!parent)
        return;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        raise(SIGTERM);
    unsetenv("YK_PARENT");
}

/* "yoke help data gen" becomes "yoke data gen --help". */
static void move_help_to_end(int argc, char **argv)
{
    static char help[] = "--help";
    memmove(&argv[1], &argv[2], (size_t)(argc - 2) * sizeof *argv);
    argv[argc - 1] = help;
}

/* If stdin, stdout or stderr is closed, the next file that is opened would take its number, and get what is printed. The
 * substitute is read-only: printing fails, as it does without it. */
static void replace_closed_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0)
            _exit(yk_status_exit(YK_ESYSTEM));
}

int main(int argc, char **argv)
{
    replace_closed_streams();
    prctl(PR_SET_NAME, "yoke");                             /* not "exe": the launcher runs /proc/self/exe */
    yk_cli_started = yk_env_number("YK_STARTED", yk_now()); /* set by the launcher to its own start */
    yk_job_status_open();
    yk_terminal_use();
    follow_parent();
    signal(SIGXFSZ, SIG_IGN); /* writing past the file size limit fails instead of killing the process */

    if (argc > 2 && strcmp(argv[1], "help") == 0)
        move_help_to_end(argc, argv);
    const char *command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "--version") == 0)
        command = "version";
    if (strcmp(command, "train") == 0) /* other commands have nothing to save */
        yk_cli_catch_signals();
    if (strcmp(command, "agent") == 0 && argc == 2) /* not for users: a launcher on another host runs it */
        return yk_agent((yk_channel){.in = STDIN_FILENO, .out = STDOUT_FILENO}, true);
    if (strcmp(command, "complete") == 0) /* not for users: completions run it */
        return complete(argc - 1, argv + 1);
    if (!yk_job_has_launcher() && yk_comm_expected().rank == 0)
        for (int i = 1; i < argc; i++)
            expected |= strcmp(argv[i], "--json") == 0; /* also for errors in the command line */
    for (size_t i = 0; commands[i].name; i++)
        if (strcmp(command, commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    if (argc < 2 || strcmp(command, "help") == 0 || strcmp(command, "--help") == 0 ||
        strcmp(command, "-h") == 0) {
        print_help(argc < 2 ? stderr : stdout);
        return argc < 2 ? yk_status_exit(YK_EUSAGE) : yk_cli_exit(yk_cli_flush());
    }
    const char *other = yk_suggest(command, commands, sizeof *commands);
    return yk_cli_exit(
        other ? yk_fail(YK_EUSAGE, "unknown command %s; did you mean %s?", command, other)
              : yk_fail(YK_EUSAGE, "unknown command %s; yoke --help lists the commands", command));
}
