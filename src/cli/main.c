#include "cli/cli.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"
#include "cli/terminal.h"
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

double yk_cli_started;
volatile sig_atomic_t yk_cli_stop, yk_cli_stop_again;
bool yk_cli_launcher;

static const char help[] =
    "yoke trains linear models and convolutional networks by stochastic gradient descent, from one thread\n"
    "to a cluster, from synchronous to asynchronous, and says what held it back.\n"
    "\n"
    "  yoke train     train a model                     yoke train --model softmax --data synth:digits\n"
    "  yoke eval      loss, accuracy and AUC of a model yoke eval --checkpoint runs/x --data idx:DIR\n"
    "  yoke predict   probabilities, a line an example  yoke predict --checkpoint runs/x --data new.libsvm\n"
    "  yoke sweep     a grid of runs, compared          yoke sweep experiments/softmax.ini --quick\n"
    "  yoke report    one page about some runs          yoke report runs/sync runs/async -o compare.html\n"
    "  yoke data      gen, convert, inspect             yoke data inspect clicks.tfrecord\n"
    "  yoke version   version and instruction set\n"
    "\n"
    "Each command has --help. Exit status: 0 done, 1 training failed, 2 wrong usage, 3 bad data, 4 system "
    "failure.\n";

int yk_cli_exit(yk_status status)
{
    if (status == YK_EINTERRUPTED && !getenv("YK_ENDED")) /* else the launcher says so */
        yk_note("%s", yk_error());
    else if (status && status != YK_EINTERRUPTED)
        yk_report_error(*yk_error() ? yk_error() : yk_status_text(status));
    return yk_status_exit(status);
}

int yk_cli_fail(const yoke_error *error)
{
    yk_terminal_error(error->message);
    return (int)error->status;
}

static void on_signal(int signal)
{
    static double first;
    if (!yk_cli_stop)
        first = yk_now();
    /* a second one: at once; not the same one that was sent to the group as well, nor the launcher's, which it may repeat */
    else if (signal != SIGUSR1 && yk_now() - first > 0.5) {
        if (yk_cli_launcher) { /* it has to end others first */
            yk_cli_stop_again = signal;
            return;
        }
        struct sigaction plain = {.sa_handler = SIG_DFL};
        sigaction(signal, &plain, NULL);
        raise(signal);
    }
    yk_cli_stop = signal;
}

/* A child of the library (lib/child_job.c) ends with the process that started it: as by Ctrl-C, so that it saves. */
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

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } commands[] = {{"train", yk_cmd_train}, {"eval", yk_cmd_eval},     {"predict", yk_cmd_predict},
                    {"data", yk_cmd_data},   {"report", yk_cmd_report}, {"sweep", yk_cmd_sweep}};
    yk_cli_started = yk_env_number("YK_STARTED", yk_now()); /* set by the launcher: when it began */
    yk_terminal_use();
    follow_parent();
    argp_err_exit_status = yk_status_exit(YK_EUSAGE);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is a write error, not a death */

    const char *command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "train") == 0) { /* the others have nothing to save */
        struct sigaction action = {.sa_handler = on_signal};
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        action.sa_flags = SA_RESTART;
        sigaction(SIGUSR1, &action, NULL); /* the launcher's word to save and end, by way of mpirun */
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(command, commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    if (strcmp(command, "version") == 0 || strcmp(command, "--version") == 0) {
        printf("yoke %s (%s kernels)\n", yoke_version(), yoke_kernels());
        return 0;
    }
    if (argc < 2 || strcmp(command, "help") == 0 || strcmp(command, "--help") == 0 ||
        strcmp(command, "-h") == 0) {
        fputs(help, argc < 2 ? stderr : stdout);
        return argc < 2 ? yk_status_exit(YK_EUSAGE) : 0;
    }
    return yk_cli_exit(yk_fail(
        YK_EUSAGE, "there is no command %s; there are: train, eval, predict, sweep, report, data, version",
        command));
}
