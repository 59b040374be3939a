/* MPI, loaded at run time: the program itself is not linked to MPI and runs on hosts without it.
 *
 * Example:
 *     const yk_transport_ops *mpi;
 *     yk_status st = yk_mpi_load(&mpi); // the MPI whose launcher started this process
 *
 * Each MPI has its own ABI, so there is one plug-in per MPI (mpi_plugin.c, built once for each). The program looks for
 * it in its own directory, then in ../lib/yoke:
 *
 *     yoke-mpi-openmpi.so              Open MPI
 *     yoke-mpi-mpich.so                MPICH, and MPIs with its ABI
 *
 * YK_MPI_PLUGIN=FILE names another file. The environment set by the launcher identifies the MPI (launchers[] in plugin.c).
 * Any thread may call these functions.
 */
#ifndef YK_COMM_PLUGIN_H
#define YK_COMM_PLUGIN_H

#include "base/status.h"
#include "comm/transport.h"

typedef enum { YK_MPI_OPEN_MPI, YK_MPI_MPICH, YK_MPI_KINDS } yk_mpi_kind;

/* Names of an MPI for messages: the MPI itself, the file of its plug-in, the package with its library and mpirun. */
typedef struct {
    const char *name, *file, *package;
} yk_mpi;
extern const yk_mpi yk_mpis[YK_MPI_KINDS];

/* Whether the file of its plug-in exists. With YK_MPI_PLUGIN: whether that file exists, for any MPI. */
bool yk_mpi_has_plugin(yk_mpi_kind kind);

/* YK_ESYSTEM: the error says what is missing and what to do. A plug-in stays loaded until the process ends. */
yk_status yk_mpi_load(const yk_transport_ops **out);

/* The path of its plug-in, and the version of its MPI ("Open MPI v4.1.4"). YK_ESYSTEM: it cannot be loaded. */
yk_status yk_mpi_describe(yk_mpi_kind kind, char *path, size_t path_size, char *version, size_t version_size);

#endif
