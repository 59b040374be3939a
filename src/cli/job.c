#include "cli/job.h"

#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/job_status.h"
#include "cli/terminal.h"
#include "comm/comm.h"
#include "lib/internal.h"
#include "train/run_dir.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Whether no engine started this process, and it joins no job. */
static bool is_first(const yk_config *c)
{
    return yk_comm_expected() == 0 && !c->join;
}

/* ---- results ---- */

static yk_status print_results(const yk_config *c, const yk_result *r)
{
    char *text = NULL;
    yk_status st = (c->json ? yk_result_summary : yk_result_text)(c, r, &text);
    if (!st) {
        printf(c->json ? "%s\n" : "%s", text);
        st = yk_cli_flush();
    }
    free(text);
    if (!st && r->profile)
        yk_show_profile(stderr, r);
    return st;
}

/* ---- this process ---- */

static bool prints_json; /* --json, and there is no launcher that prints the results */

/* Reports how this process ended. If it failed, it ends the other processes, too. */
static int leave(yk_config *config, yk_result *result, yk_status st)
{
    yk_comm *comm = result->comm;
    const int code = yk_cli_exit(comm ? yk_comm_explain(comm, st) : st);
    /* if the job continues without this worker, it has not failed */
    const bool others_continue =
        result->dispensable && (st == YK_ELOST || st == YK_ESTOP || st == YK_EINTERRUPTED);
    if (comm && others_continue && st != YK_EINTERRUPTED)
        yk_job_report_lost();
    if (!others_continue && (st || (comm && yk_comm_rank(comm) == 0)))
        yk_job_report_outcome(st);
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
    yk_job_report_outcome(st);
    fflush(NULL);
    _exit(code);
}

/* This process is connected to the others. */
static void ranked(int rank)
{
    if (rank == 0 && prints_json)
        yk_failure_expect();
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
                                  .stage = yk_job_report_stage,
                                  .end_process = end_process,
                                  .ranked = ranked};
    yk_status st = yk_train(config, &host, &result);
    if (!st && result.chief)
        st = print_results(config, &result);
    else if (st && (result.comm ? yk_comm_rank(result.comm) == 0 : is_first(config)) &&
             !yk_result_summary(config, &result, &text))
        yk_failure_print_text(text);
    free(text);
    return leave(config, &result, st);
}

int yk_job(const yoke_options *options, int argc, char **argv)
{
    yk_config config;
    /* the launcher has already warned about options that are ignored */
    const bool silent = yk_comm_expected_rank() > 0 || yk_job_has_launcher();
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
