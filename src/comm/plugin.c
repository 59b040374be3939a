#include "comm/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const yk_mpi yk_mpis[YK_MPI_KINDS] = {{"Open MPI", "yoke-mpi-openmpi.so", "openmpi-bin"},
                                      {"MPICH", "yoke-mpi-mpich.so", "mpich"}};

/* ---- finding ---- */

/* The directory of this program; "." if /proc is missing. */
static void own_directory(char *out, size_t size)
{
    char path[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = '\0';
    snprintf(out, size, "%s", slash ? path : ".");
}

/* The plug-in's file. `needs` says why it is needed; the error says what is missing. */
static yk_status find(yk_mpi_kind kind, const char *needs, char *out, size_t size)
{
    static const char *const below[] = {"", "/../lib/yoke"};
    const char *given = getenv("YK_MPI_PLUGIN");
    char directory[PATH_MAX];
    own_directory(directory, sizeof directory);
    if (given) {
        snprintf(out, size, "%s", given);
        return access(given, F_OK)
                   ? yk_fail(YK_ESYSTEM, "%s, but the file YK_MPI_PLUGIN=%s does not exist", needs, given)
                   : YK_OK;
    }
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        snprintf(out, size, "%s%s/%s", directory, below[i], yk_mpis[kind].file);
        if (access(out, F_OK) == 0)
            return YK_OK;
    }
    return yk_fail(
        YK_ESYSTEM,
        "%s, but %s is neither beside the program (in %s) nor in ../lib/yoke; build yoke where the "
        "headers of %s are installed, and copy the plug-in with the program",
        needs, yk_mpis[kind].file, directory, yk_mpis[kind].name);
}

bool yk_mpi_has_plugin(yk_mpi_kind kind)
{
    char path[2 * PATH_MAX];
    return !find(kind, "", path, sizeof path);
}

/* ---- which one: the first launcher whose variable is set, or the last one ---- */

static const struct {
    const char *variable, *name;
    yk_mpi_kind kind;
    bool either; /* it can start programs of both MPIs: uses the other one if only its plug-in is installed */
} launchers[] = {{"OMPI_COMM_WORLD_RANK", "Open MPI's mpirun", YK_MPI_OPEN_MPI, false},
                 {"PMIX_RANK", "srun --mpi=pmix", YK_MPI_OPEN_MPI, true},
                 {"SLURM_JOB_ID", "srun --mpi=pmi2", YK_MPI_MPICH, true},
                 {NULL, "MPICH's mpirun", YK_MPI_MPICH, false}};

/* ---- loading ---- */

static yk_status load(yk_mpi_kind kind, int flags, const char *needs, char *path, size_t path_size,
                      void **file_out)
{
    const yk_status st = find(kind, needs, path, path_size);
    if (st || (*file_out = dlopen(path, flags)))
        return st;
    const char *error = dlerror();
    return yk_fail(YK_ESYSTEM, "%s, but %s cannot be loaded: %s; install %s", needs, path,
                   error ? error : "?", yk_mpis[kind].package);
}

yk_status yk_mpi_load(const yk_transport_ops **out)
{
    char path[2 * PATH_MAX], needs[64];
    void *file;
    int by = 0;
    while (launchers[by].variable && !getenv(launchers[by].variable))
        by++;
    const yk_mpi_kind other = launchers[by].kind == YK_MPI_MPICH ? YK_MPI_OPEN_MPI : YK_MPI_MPICH;
    const bool use_other =
        launchers[by].either && !yk_mpi_has_plugin(launchers[by].kind) && yk_mpi_has_plugin(other);
    const yk_mpi_kind kind = use_other ? other : launchers[by].kind;
    snprintf(needs, sizeof needs, "this job was started by %s", launchers[by].name);
    /* MPI's own components need its symbols: RTLD_GLOBAL */
    yk_status st = load(kind, RTLD_NOW | RTLD_GLOBAL, needs, path, sizeof path, &file);
    if (st)
        return st;
    yk_mpi_plugin *plugin = (yk_mpi_plugin *)dlsym(file, YK_MPI_PLUGIN_SYMBOL);
    if (!plugin)
        return yk_fail(
            YK_ESYSTEM,
            "%s is not a plug-in of this version of yoke: it has no %s; use the one that was built "
            "with this program",
            path, YK_MPI_PLUGIN_SYMBOL);
    *out = plugin();
    return YK_OK;
}

yk_status yk_mpi_describe(yk_mpi_kind kind, char *path, size_t path_size, char *version, size_t version_size)
{
    char text[8192 + 1] = "unknown version"; /* MPICH's MPI_MAX_LIBRARY_VERSION_STRING is the largest */
    int size;
    void *file;
    yk_status st = load(kind, RTLD_LAZY | RTLD_LOCAL, "mpirun needs a plug-in", path, path_size, &file);
    if (st)
        return st;
    int (*get)(char *, int *) = (int (*)(char *, int *))dlsym(file, "MPI_Get_library_version");
    if (get)
        get(text, &size);
    text[strcspn(text, ",\n")] = '\0';
    size_t n = 0;
    *version = '\0';
    for (const char *word = text; *(word += strspn(word, " \t")) && n < version_size;) {
        const int length = (int)strcspn(word, " \t");
        if (strncmp(word, "Version: ", 9) != 0) /* "MPICH Version:      5.0.2" */
            n += (size_t)snprintf(version + n, version_size - n, "%s%.*s", n ? " " : "", length, word);
        word += length;
    }
    return YK_OK;
}
