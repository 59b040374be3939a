#include "cli/supervise.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/number.h"
#include "cli/cli.h"
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The time limits in this file apply to mpirun itself, on this host. The plan has those between the processes of a job; `limit`
 * is its startup timeout.
 *
 * How many seconds mpirun may take to exit after its ranks: usually, and if it has not forwarded the results yet. */
static const double grace = 1.0, result_grace = 10.0;

bool yk_job_has_ended(const yk_output_filter *o, yk_job_outcome *out)
{
    const bool in_file = yk_job_outcome_read(getenv("YK_ENDED"), out);
    if (!in_file && o->ended >= 0)
        *out = (yk_job_outcome){.status = (yk_status)o->ended};
    return in_file || o->ended >= 0;
}

/* ---- processes that die before training begins ----
 *
 * If workers may be lost, mpirun says nothing when a process dies. During start-up, the others do not notice either: they wait
 * inside MPI until the start-up limit. As soon as one child of mpirun executes this program, all its children count as
 * processes of the job; for a job on other hosts, the children are other programs. Nothing is reported as missing before
 * that, or where the kernel does not list children. */

/* The rank of a process that executes this program; -1: it executes another one, or has no rank. */
static int rank_of(pid_t pid)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK=", "PMIX_RANK=", "PMI_RANK="};
    char own[PATH_MAX] = "", exe[PATH_MAX] = "", path[64], text[65536];
    uint64_t rank;
    snprintf(path, sizeof path, "/proc/%ld/exe", (long)pid);
    if (readlink("/proc/self/exe", own, sizeof own - 1) <= 0 || readlink(path, exe, sizeof exe - 1) <= 0 ||
        strcmp(own, exe))
        return -1;
    if (!yk_file_text(text, sizeof text, "/proc/%ld/environ", (long)pid))
        return -1;
    for (size_t at = 0; at + 1 < sizeof text && text[at]; at += strlen(text + at) + 1)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            const size_t n = strlen(names[i]);
            const char *end =
                strncmp(text + at, names[i], n) == 0 ? yk_digits(text + at + n, INT_MAX, &rank) : NULL;
            if (end && !*end)
                return (int)rank;
        }
    return -1;
}

/* Whether a child of mpirun executes this program. Records its rank, and that it is alive. */
static bool add_rank(yk_watchdog *v, pid_t pid)
{
    int i = 0;
    while (i < v->nseen && v->seen[i].pid != pid)
        i++;
    if (i == v->nseen) {
        const int rank = rank_of(pid);
        if (rank < 0 || i == YK_MAX_RANKS_SEEN)
            return false;
        v->seen[v->nseen++] = (yk_rank_seen){.pid = pid, .rank = rank};
    }
    v->seen[i].alive = true;
    return true;
}

/* Whether there are fewer processes than ranks. Then v->missing says which one: "rank 2"; "a process": it had not started this
 * program yet. */
static bool rank_is_missing(yk_watchdog *v)
{
    char text[16384];
    int children = 0, ranks = 0;
    yk_file_text(text, sizeof text, "/proc/%ld/task/%ld/children", (long)v->pid, (long)v->pid);
    const char *at = text;
    for (int i = 0; i < v->nseen; i++)
        v->seen[i].alive = false;
    for (uint64_t pid; (at = yk_word_digits(at, 0, &pid));) {
        children++;
        ranks += add_rank(v, (pid_t)pid);
    }
    snprintf(v->missing, sizeof v->missing, "a process");
    for (int i = 0; i < v->nseen; i++)
        if (!v->seen[i].alive)
            snprintf(v->missing, sizeof v->missing, "rank %d", v->seen[i].rank);
    return ranks > 0 && children < v->ranks;
}

/* ---- hosts that are lost ----
 *
 * If mpirun loses a daemon, it says which one, or only that an agent (ssh) has ended. Then the agents that are still its children
 * tell. */

/* The number of the daemon that this agent runs; 0: none. The command line has "ess_base_vpid 2". */
static int daemon_of(pid_t pid)
{
    static const char option[] = "ess_base_vpid";
    char text[16384] = ""; /* words end with zeros */
    uint64_t daemon;
    if (!yk_file_text(text, sizeof text, "/proc/%ld/cmdline", (long)pid))
        return 0;
    const char *at = memmem(text, sizeof text, option, sizeof option - 1);
    return at && yk_digits(at + sizeof option, INT_MAX, &daemon) ? (int)daemon : 0;
}

static void name_lost_hosts(const yk_watchdog *v, yk_output_filter *o)
{
    char text[16384];
    int agents = 0;
    if (!yk_file_text(text, sizeof text, "/proc/%ld/task/%ld/children", (long)v->pid, (long)v->pid))
        return;
    for (size_t r = 0; r < o->places; r++)
        o->place[r].lost = o->place[r].daemon > 0;
    const char *at = text;
    for (uint64_t pid; (at = yk_word_digits(at, 0, &pid));) {
        const int daemon = daemon_of((pid_t)pid);
        agents += daemon > 0;
        for (size_t r = 0; daemon > 0 && r < o->places; r++)
            o->place[r].lost &= o->place[r].daemon != daemon;
    }
    if (agents) /* mpirun has not ended the others yet */
        yk_output_filter_name_lost(o);
}

/* ---- supervision ---- */

/* After a signal all ranks save and end. If they do not, mpirun is ended. */
static bool ignores_signal(const yk_watchdog *v, const yk_output_filter *o, double now)
{
    static const double start_grace = 1.0; /* there is nothing to save yet */
    if (v->signaled == 0.0 || (o->training && o->saving))
        return false;
    const double since = o->last_output > v->signaled && o->training ? o->last_output : v->signaled;
    return now - since > (o->training ? v->limit : start_grace);
}

/* Ranks end and report the cause when the limit is reached; the margin lets them do that first. */
static bool startup_timed_out(const yk_watchdog *v, const yk_output_filter *o, double now)
{
    static const double margin = 5.0;
    return !o->training && now - o->last_output > v->limit + margin;
}

/* Whether a process died before training began, and mpirun does not end the job. */
static bool lost_at_start(yk_watchdog *v, const yk_output_filter *o, double now)
{
    if (v->ending_since > 0.0) /* its processes are missing, too */
        return v->lost > 0.0;
    if (o->training || yk_cli_stop || !rank_is_missing(v))
        v->lost = 0.0;
    else if (v->lost == 0.0)
        v->lost = now;
    return v->lost > 0.0 && now - v->lost > grace;
}

/* Seconds for mpirun to end after its ranks have ended, with this status. */
static double grace_of(const yk_watchdog *v, const yk_output_filter *o, yk_status status)
{
    FILE *file = yk_job_results();
    const bool complete = file || (o->results.n && !o->out.n);
    if (file)
        fclose(file);
    return v->results && !status && !complete ? result_grace : grace;
}

/* Whether the job that this worker joined has ended, and the worker does not notice: it may still be connecting. */
static bool job_is_gone(yk_watchdog *v, double now)
{
    static const double leaves_within = 10.0;
    if (!v->joined_run_dir || now - v->checked_at < 1.0)
        return v->gone > 0.0 && now - v->gone > leaves_within;
    v->checked_at = now;
    if (yk_lock_check(v->joined_run_dir)) /* the chief holds the lock */
        v->gone = 0.0;
    else if (v->gone == 0.0)
        v->gone = now;
    return false;
}

/* Asks mpirun to end, then kills it: it may be waiting for a host that is down or stopped. */
static void end_mpirun(yk_watchdog *v, bool ask, double now)
{
    static const double kill_after = 1.0;
    if (v->ending_since == 0.0) {
        v->ending_since = now;
        kill(ask ? v->pid : -v->pid,
             ask ? SIGTERM : SIGKILL); /* SIGTERM: it ends its daemons and cleans up */
    } else if (now - v->ending_since > kill_after) {
        kill(-v->pid, SIGKILL);
    }
}

/* Waits for mpirun and forwards signals. Returns its wait status. */
int yk_supervise(yk_watchdog *v, yk_output_filter *o)
{
    int status = 0;
    o->last_output = yk_now();
    while (waitpid(v->pid, &status, WNOHANG) == 0) {
        yk_job_outcome how = {0};
        yk_output_filter_read(o);
        const double now = yk_now();
        if (o->unreachable && o->connected && !*o->died)
            name_lost_hosts(v, o);
        if (o->training && v->training) {
            v->training(v->context);
            v->training = NULL;
        }
        if (yk_job_has_ended(o, &how) && v->over == 0.0)
            v->over = now;
        if (yk_cli_stop && v->over == 0.0 && now - v->forwarded > 1.0) {
            v->forwarded = now;
            v->signaled = v->signaled > 0.0 ? v->signaled : now;
            kill(v->pid, SIGUSR1); /* mpirun forwards it to all ranks: they save and end */
        }
        if (yk_cli_stop_again)
            kill(-v->pid, SIGKILL);
        v->hung |= v->over == 0.0 && startup_timed_out(v, o, now);
        if (v->over > 0.0 && now - v->over > grace_of(v, o, how.status))
            end_mpirun(v, how.status == YK_OK,
                       now); /* if it is aborting, SIGTERM would make it print messages */
        else if (v->over == 0.0 &&
                 (lost_at_start(v, o, now) || job_is_gone(v, now) || v->hung || ignores_signal(v, o, now)))
            end_mpirun(v, true, now);
        yk_output_filter_wait(o, yk_cli_stop || v->over > 0.0 ? 0.01 : 0.1);
    }
    kill(-v->pid, SIGKILL); /* no process is left behind */
    return status;
}
