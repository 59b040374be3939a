/* How a process finds the others of its job: the environment that its engine (mpirun, srun, torchrun, Kubernetes, yoke's
 * launcher) has set.
 *
 * Example:
 *     yk_rendezvous r;
 *     yk_status st = yk_rendezvous_read(&r); // r.size 0: no engine started this process
 *     if (!st && !r.mpi)
 *         st = yk_rendezvous_token(&r, "runs/a", 60.0);
 *
 * engines[] in rendezvous.c has a row per engine; the first whose variables are set is used. docs/clusters.md says where rank 0 listens
 * for each. YOKE_PORT overrides the port. If all processes are on this host, rank 0 listens on a Unix socket instead. MPI itself
 * knows rank and size; with a `master`, the job can also run without the MPI plug-in.
 *
 * The job token is in YOKE_TOKEN (64 hexadecimal digits) or in the file YOKE_TOKEN_FILE. One thread calls yk_rendezvous_...().
 */
#ifndef YK_COMM_RENDEZVOUS_H
#define YK_COMM_RENDEZVOUS_H

#include "base/socket.h"

enum { YK_TOKEN_BYTES = 32, YK_TOKEN_TEXT = 2 * YK_TOKEN_BYTES + 1 };

typedef struct {
    const char *engine;                     /* NULL: none */
    int rank, size, local_rank, local_size; /* local_size 0: not known */
    bool mpi;                               /* use the MPI plug-in */
    bool slurm;                             /* the processes can share a token in the run directory */
    char master[YK_ADDRESS_MAX];            /* "": only MPI can connect the processes */
    int listen_fd;                          /* rank 0: listens at `master` already; -1: does not */
    char token[YK_TOKEN_TEXT];              /* "": none */
} yk_rendezvous;

/* YK_EUSAGE: the error names the variable and the remedy. */
yk_status yk_rendezvous_read(yk_rendezvous *out);

/* Whether a launcher has set all variables that yoke needs. */
bool yk_rendezvous_is_complete(void);

/* Reads the token and removes it from the environment. Processes of Slurm without one share RUN/token, which rank 0 creates;
 * run_dir NULL: there is none. Fails if there are several hosts and no token. */
yk_status yk_rendezvous_token(yk_rendezvous *r, const char *run_dir, double timeout);
void yk_rendezvous_done(const yk_rendezvous *r, const char *run_dir); /* all processes have the token */

/* ---- the job token: 256 random bits as hexadecimal digits; a process proves with it that it belongs to the job (native.h). Any thread ---- */

yk_status yk_token_create(char *out /* [YK_TOKEN_TEXT] */);

/* Returns the text after 64 hexadecimal digits, at which the text or its line must end; NULL: there are none. */
const char *yk_token_parse(const char *text, char *out /* [YK_TOKEN_TEXT] */);

/* Reads the start of a file that only its owner, or its group, can read; anything else is YK_EUSAGE. `what` names the option
 * or variable, for errors. yk_token_file() reads the token in its first line. */
yk_status yk_token_text(const char *what, const char *path, char *out, size_t size);
yk_status yk_token_file(const char *what, const char *path, char *out);

#endif
