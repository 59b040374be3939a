/* MPI, loaded at run time: the program itself links none, and runs on machines that have none.
 *
 *     const yk_transport_ops *mpi;
 *     st = yk_mpi_load(&mpi);          // the MPI whose launcher started this process
 *
 * Each MPI has another binary interface, so that each has a plug-in (mpi_plugin.c, built once per MPI). It is looked for
 * beside the program, then in ../lib/yoke:
 *
 *     yoke-mpi-openmpi.so              Open MPI
 *     yoke-mpi-mpich.so                MPICH, and those that have its binary interface
 *
 * YK_MPI_PLUGIN=FILE names another one. Which MPI it is, the launcher's environment says:
 *
 *     OMPI_COMM_WORLD_SIZE             Open MPI's mpirun          Open MPI
 *     PMIX_RANK                        srun --mpi=pmix            Open MPI, or MPICH if only its plug-in is there
 *     PMI_RANK and SLURM_JOB_ID        srun --mpi=pmi2            MPICH, or Open MPI if only its plug-in is there
 *     PMI_RANK                         MPICH's mpirun             MPICH
 */
#ifndef YK_COMM_PLUGIN_H
#define YK_COMM_PLUGIN_H

#include "base/status.h"
#include "comm/transport.h"

typedef enum { YK_MPI_OPEN_MPI, YK_MPI_MPICH, YK_MPI_KINDS } yk_mpi_kind;

/* What a user sees of an MPI: its name, the plug-in's file, the package that has its library and mpirun. */
typedef struct {
    const char *name, *file, *package;
} yk_mpi;
extern const yk_mpi yk_mpis[YK_MPI_KINDS];

/* Whether the file of its plug-in is there. With YK_MPI_PLUGIN: whether that file is, whichever the MPI. */
bool yk_mpi_is_there(yk_mpi_kind kind);

/* YK_ESYSTEM: what is missing, and what to do. A plug-in stays loaded until the process ends. */
yk_status yk_mpi_load(const yk_transport_ops **out);

/* For the launcher of a job, which calls no MPI itself: whether any plug-in is there; whether one can be loaded. */
yk_status yk_mpi_check_any(void);
yk_status yk_mpi_check(yk_mpi_kind kind);

#endif
