/* The command line that starts a job of several processes: mpirun, its options, this program, the options of the job.
 *
 * Example:
 *     yk_argv w = {0};
 *     if (!yk_mpirun_argv(config, &mpirun, argc, argv, &paths, &w))
 *         execvp(w.arg[0], w.arg); // the list ends with NULL
 *     yk_argv_fini(&w);
 *
 * The options of mpirun allow it to run as root and with more processes than cores, leave threads unpinned, and end the
 * job within seconds when a process dies or a link is down. MPICH needs fewer options than Open MPI. Main thread only.
 */
#ifndef YK_CLI_MPIRUN_H
#define YK_CLI_MPIRUN_H

#include "comm/plugin.h"
#include "lib/internal.h"
#include "train/plan.h"

/* Finds the mpirun that starts jobs, and its MPI: YK_MPIRUN, or the first one in PATH whose MPI has a plug-in.
 * YK_ESYSTEM: the error says what is missing. */
typedef struct {
    char path[PATH_MAX];
    yk_mpi_kind mpi;
} yk_mpirun;

yk_status yk_mpirun_find(yk_mpirun *out);

/* Borrowed. */
typedef struct {
    const char *directory;   /* for temporary files on this host (job_dir.h) */
    const char *out;         /* the run directory */
    const char *name_server; /* the address of the name server, or "file:" and a file with it; NULL: none */
    const yk_plan *plan;
    int64_t processes; /* 0: unknown (config/hosts.h) */
} yk_job_paths;

yk_status yk_mpirun_argv(const yk_config *c, const yk_mpirun *mpirun, int argc, char **argv,
                         const yk_job_paths *paths, yk_argv *out);

#endif
