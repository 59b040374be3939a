/* yoke version: the version, what the program was built with, and which MPI it finds. */
#include "cli/cli.h"

#include "comm/plugin.h"
#include <jansson.h>
#include <libdeflate.h>
#include <microhttpd.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

static void print_mpi(void)
{
    char path[2 * PATH_MAX], version[256], real[PATH_MAX];
    int found = 0;
    for (int kind = 0; kind < YK_MPI_KINDS; kind++) {
        if (!yk_mpi_has_plugin(kind))
            continue;
        found++;
        if (yk_mpi_describe(kind, path, sizeof path, version, sizeof version))
            printf("MPI        %s: %s\n", yk_mpis[kind].name, yk_error());
        else
            printf("MPI        %s (%s)\n", version, realpath(path, real) ? real : path);
    }
    if (!found)
        printf("MPI        none: this program was built without an MPI plug-in\n");
}

int yk_cmd_version(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--help") != 0 && strcmp(argv[1], "-h") != 0)
        return yk_cli_exit(yk_fail(YK_EUSAGE, "yoke version has no options or arguments: %s", argv[1]));
    printf("yoke %s (%s kernels)\n", yoke_version(), yoke_kernels());
    printf("compiler   " COMPILER "\n");
    printf("libraries  zlib " ZLIB_VERSION ", zstd " ZSTD_VERSION_STRING
           ", libdeflate " LIBDEFLATE_VERSION_STRING ", jansson " JANSSON_VERSION
           ", libpng " PNG_LIBPNG_VER_STRING ", libmicrohttpd %s\n",
           MHD_get_version());
    print_mpi();
    return yk_cli_exit(yk_cli_flush());
}
