/* yoke train: trains in this process, as a process of a job that the launcher, mpirun or srun has started, or as the launcher of
 * a job of several processes (launch.c).
 *
 * Signals, exit codes and the exit of a process that has lost its peers are handled here, not in the library. */
#include "cli/arguments.h"
#include "cli/channel.h"
#include "cli/cli.h"
#include "cli/terminal.h"
#include "comm/comm.h"
#include "comm/rendezvous.h"
#include "lib/internal.h"
#include "train/run_dir.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Whether no engine started this process, and it joins no job. A launcher ignores variables that another tool has left over. */
static bool is_first(const yk_config *c)
{
    const bool ignores = yk_config_starts_job(c) && !yk_rendezvous_is_complete();
    return !c->join && (ignores || yk_comm_expected().size == 0);
}

static yk_status print_results(const yk_config *c, const yk_result *r)
{
    char *text = NULL;
    yk_status st = (c->json ? yk_result_summary : yk_result_text)(c, r, &text);
    if (!st)
        st = yk_cli_print(text, c->json ? "\n" : "");
    if (st || (st = yk_result_profile(r, &text)))
        return st;
    fputs(text ? text : "", stderr);
    free(text);
    return st;
}

static void report_stage(yk_train_stage stage, int workers)
{
    yk_job_report(YK_FRAME_STAGE, (int)stage, &workers, sizeof workers);
}

/* Tells the launcher how the job, or this process, ended. */
static void report_end(yk_job_frame_kind kind, yk_status status)
{
    enum { MAX = 1024 }; /* one write(): other processes write at the same time */
    const char *text = !status ? "" : *yk_error() ? yk_error() : yk_status_text(status);
    yk_job_report(kind, (int)status, text, strnlen(text, MAX));
}

static bool prints_json; /* --json, and there is no launcher that prints the results */

/* Reports how this process ended. If it failed, it ends the other processes, too. */
static int leave(yk_config *config, yk_result *result, yk_status st)
{
    yk_comm *comm = result->comm;
    /* the rank that ended the job has printed why */
    const bool told = comm && st == YK_ELOST && yk_comm_check(comm) && yk_job_has_launcher();
    const int code = told ? yk_status_exit(st) : yk_cli_exit(comm ? yk_comm_explain(comm, st) : st);
    /* if the job continues without this worker, it has not failed */
    const bool others_continue =
        result->dispensable && (st == YK_ELOST || st == YK_ESTOP || st == YK_EINTERRUPTED);
    if (comm && others_continue && st != YK_EINTERRUPTED)
        report_end(YK_FRAME_LOST, YK_ELOST);
    if (!others_continue && (st || (comm && yk_comm_rank(comm) == 0)))
        report_end(YK_FRAME_ENDED, st);
    if (comm && st && !others_continue) {
        if (prints_json && yk_comm_rank(comm)) /* rank 0 may be about to print the same error */
            yk_sleep(0.5);
        yk_comm_abort(comm, code);
        _exit(code);
    }
    const bool clean = result->clean && !st;
    yk_comm_stop(comm, clean);
    yk_result_fini(result);
    yk_config_fini(config);
    if (comm && !clean) { /* a process was lost, and MPI_Finalize() would wait for it */
        fflush(NULL);
        _exit(code);
    }
    return code;
}

/* Called by another thread if the main thread is stuck or busy before training (comm/startup.h). */
static void end_process(yk_status st)
{
    const int code = yk_cli_exit(st);
    report_end(YK_FRAME_ENDED, st);
    fflush(NULL);
    _exit(code);
}

/* This process is connected to the others. */
static void ranked(int rank)
{
    if (rank == 0 && prints_json)
        yk_json_result_expect();
    yk_terminal_rank(rank);
}

static int train(yk_config *config)
{
    yk_result result = {0};
    char *text = NULL;
    prints_json = config->json && !yk_job_has_launcher();
    if (!is_first(config))
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* no rank outlives its agent, or mpirun */
    const yk_train_caller host = {.stop = &yk_cli_stop,
                                  .started = yk_cli_started,
                                  .stage = report_stage,
                                  .end_process = end_process,
                                  .ranked = ranked};
    yk_status st = yk_train(config, &host, &result);
    if (!st && result.chief)
        st = print_results(config, &result);
    else if (st && (result.comm ? yk_comm_rank(result.comm) == 0 : is_first(config)) &&
             !yk_result_summary(config, &result, &text))
        yk_json_result_print(text);
    free(text);
    return leave(config, &result, st);
}

static int run(const yoke_options *options, int argc, char **argv)
{
    yk_config config;
    /* the launcher has already warned about options that are ignored */
    const bool silent = yk_comm_expected().rank > 0 || yk_job_has_launcher();
    yk_status st = yk_options_resolve(options, silent, &config);
    const bool first = !st && is_first(&config), launch = first && yk_config_starts_job(&config);
    if (launch)
        st = yk_config_check(&config); /* once, not by every process */
    if (!st && first && config.out && strcmp(config.out, "none") && !config.dry_run)
        st = yk_run_dir_check(config.out); /* the chief takes the lock */
    if (st) {
        yk_result none = {0};
        return leave(&config, &none, st);
    }
    if (!launch)
        return train(&config);
    yk_cli_launcher = true;
    const int code = yk_launch(&config, argc, argv);
    yk_config_fini(&config);
    return code;
}

/* ---- the command line ---- */

static const char notes[] = "Examples:\n"
                            "  yoke train --model softmax --data synth:digits --epochs 5\n"
                            "  yoke train --model softmax --data idx:mnist --batch 200 --lr 0.5 --workers 3\n"
                            "  yoke train --model logreg --data 'tfrecord:day*' --mode async --workers 4\n"
                            "  yoke train --model logreg --data synth:ctr --optimizer ftrl --l1 1e-6\n"
                            "  yoke train --model lenet5 --data idx:mnist --lr 0.05 --epochs 6 --threads 2\n"
                            "  yoke train --model \"conv 8 3x3, relu, dense 10\" --data synth:images\n"
                            "  yoke train --model lenet5 --data idx:mnist --launch 4 --http 8080\n"
                            "  yoke train --model logreg --data synth:ctr --mode async --hosts a,b:2\n"
                            "  yoke train --join runs/clicks\n"
                            "  yoke train --out runs/clicks --resume\n"
                            "\n"
                            "Numbers may be written as 1e6, 100k or 2m. Ctrl-C saves a checkpoint and ends\n"
                            "the run, in all processes; a second Ctrl-C ends it immediately.";

/* The options are those of the library. */
static void parse(int argc, char **argv, yoke_options *options)
{
    yk_argument table[YK_MAX_ARGUMENTS + 1] = {{NULL}};
    yoke_option o;
    for (size_t i = 0; i < YK_MAX_ARGUMENTS && yoke_option_at(i, &o); i++)
        table[i] = (yk_argument){.name = o.name,
                                 .value = o.argument,
                                 .help = o.help,
                                 .default_text = o.default_text,
                                 .set = yk_argument_option,
                                 .to = options,
                                 .group = o.group};
    const yk_command_line line = {"yoke train",
                                  "[OPTION...]",
                                  "Train a model.",
                                  table,
                                  .unexpected = "options begin with --; use --data to specify the data",
                                  .notes = notes};
    yk_arguments_parse(&line, argc, argv);
}

int yk_cmd_train(int argc, char **argv)
{
    yoke_options *options = yoke_options_create();
    if (!options)
        return YOKE_SYSTEM_ERROR;
    parse(argc, argv, options);
    signal(SIGPIPE, SIG_IGN); /* if nobody reads the results, writing them fails */
    yk_terminal_quiet(yoke_options_get(options, "quiet"));
    const int code = run(options, argc, argv);
    yoke_options_free(options);
    return code;
}
