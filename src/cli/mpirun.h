/* The command line that starts a job of several processes: mpirun with the options that work, this program, its options.
 *
 *     yk_words w = {0};
 *     yk_job_words(config, &mpirun, argc, argv, &paths, &w);
 *     execvp(w.word[0], w.word);               // ends with a NULL
 *     yk_words_fini(&w);
 *
 * "What works" is: as root, with more processes than cores, without pinning threads to one core, and with an end within
 * seconds when a process dies or a link is down. Open MPI has words for all of that; MPICH needs fewer.
 */
#ifndef YK_CLI_MPIRUN_H
#define YK_CLI_MPIRUN_H

#include "comm/plugin.h"
#include "config/plan.h"
#include <limits.h>

enum { YK_MOST_WORDS = 512 };

typedef struct {
    char *word[YK_MOST_WORDS + 2]; /* owned; room for one more, and NULL */
    int n;
    bool full;
} yk_words;

/* Finds the mpirun that starts jobs, and its MPI: YK_MPIRUN, or the first one in PATH whose MPI has a plug-in.
 * YK_ESYSTEM: the error says what is missing. */
typedef struct {
    char path[PATH_MAX];
    yk_mpi_kind mpi;
} yk_mpirun;

yk_status yk_mpirun_find(yk_mpirun *out);

/* Where the job finds things; borrowed. */
typedef struct {
    const char *folder; /* for what it leaves on this machine while it runs */
    const char *out;    /* the run directory */
    const char
        *names; /* the name server's address, or "file:" and the file that has it; NULL: there is none */
    const yk_plan *plan;
} yk_job_paths;

yk_status yk_job_words(const yk_config *c, const yk_mpirun *mpirun, int argc, char **argv,
                       const yk_job_paths *paths, yk_words *out);
void yk_words_fini(yk_words *w);

/* How many processes; 0: mpirun knows, from a hostfile. */
yk_status yk_job_processes(const yk_config *c, int64_t *out);

#endif
