#include "cli/mpirun.h"

#include "cli/network.h"
#include "config/hosts.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- lists of arguments ---- */

static void add_two(yk_argv *w, const char *option, const char *value)
{
    yk_argv_add(w, "%s", option);
    yk_argv_add(w, "%s", value);
}

/* A parameter of Open MPI. */
static void add_setting(yk_argv *w, const char *name, const char *value)
{
    yk_argv_add(w, "--mca");
    add_two(w, name, value);
}

/* Adds each word of a text. */
static void add_all(yk_argv *w, const char *text)
{
    for (const char *word = text; *(word += strspn(word, " "));) {
        const int n = (int)strcspn(word, " ");
        yk_argv_add(w, "%.*s", n, word);
        word += n;
    }
}

/* ---- which mpirun ---- */

/* Decided by the file name after resolving links: orterun and prterun belong to Open MPI, mpiexec.hydra to MPICH.
 * Another name (a script) is taken for the MPI that has a plug-in. */
static yk_mpi_kind kind_of(const char *path)
{
    static const struct {
        const char *part;
        yk_mpi_kind kind;
    } known[] = {{"orterun", YK_MPI_OPEN_MPI},
                 {"prte", YK_MPI_OPEN_MPI},
                 {"openmpi", YK_MPI_OPEN_MPI},
                 {"hydra", YK_MPI_MPICH},
                 {"mpich", YK_MPI_MPICH}};
    char real[PATH_MAX];
    const char *end = realpath(path, real) ? real : path, *slash = strrchr(end, '/');
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(slash ? slash : end, known[i].part))
            return known[i].kind;
    return yk_mpi_has_plugin(YK_MPI_OPEN_MPI) ? YK_MPI_OPEN_MPI : YK_MPI_MPICH;
}

yk_status yk_mpirun_find(yk_mpirun *out)
{
    static const char *const names[] = {"mpirun", "mpirun.openmpi", "mpirun.mpich", "mpiexec.hydra"};
    const char *given = getenv("YK_MPIRUN");
    const char *wanted = yk_mpis[yk_mpi_has_plugin(YK_MPI_OPEN_MPI) ? YK_MPI_OPEN_MPI : YK_MPI_MPICH].package;
    yk_status st = yk_mpi_check_any();
    if (st)
        return st;
    if (given) {
        snprintf(out->path, sizeof out->path, "%s", given);
        out->mpi = kind_of(given);
        return YK_OK;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!yk_find_in_path(names[i], out->path))
            continue;
        out->mpi = kind_of(out->path);
        if (yk_mpi_has_plugin(out->mpi))
            return YK_OK;
    }
    return yk_fail(YK_ESYSTEM,
                   "a job of several processes needs mpirun, but PATH has none for which this program "
                   "has an MPI plug-in; install %s, or set YK_MPIRUN to the path of its mpirun",
                   wanted);
}

/* ---- options of mpirun ---- */

/* For other hosts; processes on this host inherit the environment. */
static void pass_environment(yk_argv *w)
{
    static const char *const names[] = {"YK_ENDED", "YK_JOINABLE", "YK_NOT_JOINABLE", "YK_PROGRESS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            add_two(w, "-x", names[i]);
}

/* Ranks on one host use shared memory. Workers that join need TCP, which listens on a port. */
static void add_transports(const yk_config *c, const yk_job_paths *paths, yk_argv *w)
{
    const char *preload = yk_network_original_preload();
    const bool tcp = paths->name_server || !preload;
    if ((!c->mpi_options || !strstr(c->mpi_options, "mca btl ")) && !getenv("OMPI_MCA_btl"))
        add_all(w, tcp ? "--mca btl self,vader,tcp" : "--mca btl self,vader");
    if (preload) {
        yk_argv_add(w, "-x");
        yk_argv_add(w, "LD_PRELOAD=%s", preload);
    }
}

static void add_open_mpi(const yk_config *c, const yk_job_paths *paths, yk_argv *w)
{
    add_all(w, "--oversubscribe --bind-to none --mca mpi_yield_when_idle 1 --mca odls_base_sigkill_timeout 0 "
               "--mca pml ob1 --mca btl_base_warn_component_unused 0 --mca mpi_event_tick_rate 1");
    if (!yk_names_hosts(c)) { /* files of killed processes are removed with the directory */
        add_setting(w, "btl_vader_backing_directory", paths->directory);
        add_setting(w, "orte_tmpdir_base", paths->directory);
    }
    add_transports(c, paths, w);
    if (paths->plan->survives_loss)
        yk_argv_add(w, "--enable-recovery");
    else /* a link that is down ends the job within seconds */
        add_all(w, "--mca oob_tcp_keepalive_time 2 --mca oob_tcp_keepalive_intvl 1 "
                   "--mca oob_tcp_keepalive_probes 3");
    if (paths->name_server) {
        add_two(w, "--ompi-server", paths->name_server);
        /* by default, waiting for a worker to join fails after 300 s */
        add_all(w, "--mca pmix_base_exchange_timeout 1000000");
    }
    /* Open MPI wants an agent even if there is no other host. */
    char path[PATH_MAX];
    const bool local = !yk_names_hosts(c);
    const char *agent = c->agent                                                                  ? c->agent
                        : local && !yk_find_in_path("ssh", path) && !yk_find_in_path("rsh", path) ? "false"
                                                                                                  : NULL;
    if (agent)
        add_setting(w, "plm_rsh_agent", agent);
    if (yk_names_hosts(c)) {
        if (c->hosts)
            add_two(w, "--map-by", "slot");
        add_two(w, c->hosts ? "--host" : "--hostfile", c->hosts ? c->hosts : c->hostfile);
        pass_environment(w);
    }
}

static void add_mpirun(const yk_config *c, const yk_mpirun *mpirun, const yk_job_paths *paths, yk_argv *w)
{
    yk_argv_add(w, "%s", mpirun->path);
    if (mpirun->mpi == YK_MPI_OPEN_MPI)
        add_open_mpi(c, paths, w);
    else if (yk_names_hosts(c))
        add_two(w, c->hosts ? "-hosts" : "-f", c->hosts ? c->hosts : c->hostfile);
    if (c->mpi_options)
        add_all(w, c->mpi_options);
    if (paths->processes) {
        yk_argv_add(w, "-n");
        yk_argv_add(w, "%lld", (long long)paths->processes);
    }
}

/* ---- the command line ---- */

static yk_status add_this_program(yk_argv *w)
{
    char path[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n < 0)
        return yk_fail(YK_ESYSTEM, "cannot determine the path of this program: %s", strerror(errno));
    path[n] = '\0';
    add_two(w, path, "train");
    return YK_OK;
}

yk_status yk_mpirun_argv(const yk_config *c, const yk_mpirun *mpirun, int argc, char **argv,
                         const yk_job_paths *paths, yk_argv *out)
{
    add_mpirun(c, mpirun, paths, out);
    const yk_status st = add_this_program(out);
    if (st)
        return st;
    for (int i = 1; i < argc; i++)
        yk_argv_add(out, "%s", argv[i]);
    if (!c->out && !c->join)
        add_two(out, "--out", paths->out);
    return out->status;
}
