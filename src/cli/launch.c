#include "cli/job.h"

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"
#include "base/team.h"
#include "base/wait.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/supervise.h"
#include "config/hosts.h"
#include "lib/internal.h"
#include "train/run_dir.h"
#include "train/summary.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    const yk_config *config;
    yk_plan plan;
    yk_host *host;
    size_t hosts;
    yk_argv command; /* of a rank */
    char *out;       /* the run directory, the same for all attempts */
} job;

/* ---- an attempt ---- */

typedef struct {
    int exit;
    bool again;       /* another attempt may succeed */
    time_t since;     /* when the attempt began */
    char error[1024]; /* "": none */
} outcome;

/* Writes the summary of an attempt whose processes could not write it. */
static void save_lost(const job *j, const yk_supervisor *s, const outcome *o)
{
    const yk_lost_job lost = {.run_dir = j->out,
                              .error = o->error,
                              .since = o->since,
                              .status = s->status,
                              .exit_code = o->exit,
                              .workers = s->workers,
                              .ranks = j->plan.processes};
    if (strcmp(j->out, "none"))
        yk_summary_save_lost(j->config, &lost);
}

/* How the attempt ended. `before`: the limits of the control group, in which the kernel may have killed a process. */
static outcome classify(const yk_supervisor *s, const yk_limits *before)
{
    yk_limits after;
    outcome o = {.exit = yk_status_exit(s->status),
                 .again = s->lost || s->status == YK_ELOST || (s->reported && s->status == YK_ESTOP)};
    if (s->status == YK_EINTERRUPTED) {
        yk_note("%s", yk_status_text(s->status));
        yk_failure_print(yk_status_text(s->status), 0);
        return o;
    }
    if (!s->status && s->output_failed)
        o.exit = yk_cli_exit(yk_fail(YK_ESYSTEM, "cannot write the results to stdout"));
    if (o.exit == yk_status_exit(YK_ESYSTEM) && s->training && yk_cli_reader_left())
        o.exit = 128 + SIGPIPE; /* as yk_cli_exit() in rank 0 */
    if (!o.exit)
        return o;
    snprintf(o.error, sizeof o.error, "%s", s->status ? s->error : yk_error());
    if (s->status && !s->reported)
        yk_report_error(o.error);
    yk_cgroup_limits("/proc", "/sys", &after);
    if (yk_cgroup_killed(before, &after, o.error, sizeof o.error)) {
        yk_report_error(o.error);
        o.exit = yk_status_exit(YK_ESYSTEM);
    }
    return o;
}

/* Runs the job once. *connected: its processes were connected, in this attempt or before. */
static outcome attempt(job *j, int64_t number, bool *connected)
{
    yk_supervisor s = {.config = j->config, .plan = &j->plan, .host = j->host, .hosts = j->hosts};
    yk_limits before;
    if (number == 1 && !j->config->resume)
        yk_argv_add(&j->command, "--resume");
    s.argv = j->command.arg;
    yk_env_set_number("YK_RESTARTS", (double)number);
    yk_env_set_number("YK_STARTED", number ? yk_now() : yk_cli_started);
    yk_cgroup_limits("/proc", "/sys", &before);
    const time_t since = (time_t)yk_wall();
    yk_supervise(&s);
    outcome o = classify(&s, &before);
    o.since = since;
    o.again |= *connected && !s.reported && s.status == YK_ESYSTEM; /* a host that was lost may come back */
    *connected |= s.connected;
    if (o.exit && s.connected)
        save_lost(j, &s, &o);
    yk_supervisor_fini(&s);
    return o;
}

/* ---- the job ---- */

static yk_status prepare(job *j, int argc, char **argv)
{
    const yk_config *c = j->config;
    struct winsize size = {0};
    int n = 0;
    yk_status st = yk_job_hosts(c, &j->host, &j->hosts);
    for (size_t i = 0; !st && i < j->hosts; i++)
        n += j->host[i].processes;
    /* checks the options before anything is started */
    const yk_topology topology = {.processes = n, .cores = yk_cores_per_process(n)};
    if (st || (st = yk_plan_options(c, &topology, &j->plan)))
        return st;
    if (isatty(STDERR_FILENO) && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0)
        yk_env_set_number("YK_PROGRESS", size.ws_col); /* on other hosts, stderr is a pipe */
    yk_argv_add(&j->command, "yoke");
    yk_argv_add(&j->command, "train");
    for (int i = 1; i < argc; i++)
        yk_argv_add(&j->command, "%s", argv[i]);
    if (!c->out)
        yk_argv_add(&j->command, "--out=%s", j->out);
    return j->command.status;
}

/* Runs the job, restarts it as --restarts allows, and returns the exit status. */
static int run(job *j)
{
    const int64_t max = j->config->restarts;
    bool connected = false;
    for (int64_t i = 0;; i++) {
        if (i > 1) /* a lost host may need time to come back */
            yk_sleep(i < 10 ? 0.1 * (double)(i * i) : 10.0);
        const outcome o = attempt(j, i, &connected);
        if (!o.again || i >= max || yk_cli_stop) {
            if (o.exit) {
                yk_failure_print_summary(j->out, o.since);
                yk_failure_print(o.error, o.exit);
            }
            return o.exit;
        }
        yk_warn("a process was lost; restarting from the last checkpoint (restart %lld of %lld)",
                (long long)(i + 1), (long long)max);
    }
}

int yk_launch(const yk_config *c, int argc, char **argv)
{
    job j = {.config = c};
    yk_status st = yk_run_dir_choose(c->out, c->model, &j.out);
    if (!st)
        st = prepare(&j, argc, argv);
    const int code = st ? yk_cli_exit(st) : run(&j);
    if (code && j.out && !c->out)
        rmdir(j.out); /* created by yk_run_dir_choose(); stays if anything was written */
    yk_argv_fini(&j.command);
    free(j.host);
    free(j.out);
    return code;
}
