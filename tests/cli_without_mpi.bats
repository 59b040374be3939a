#!/usr/bin/env bats
# A host without MPI: --launch works, and mpirun needs a plug-in.

setup() {
    load cli
    cli_setup
    one="train --model softmax --data synth:digits?examples=503 --epochs 1 --test none --out none --quiet"
}
teardown() { cli_teardown; }

copy_program() { # TEST_DIR: without its plug-ins
    mkdir -p "$1"
    cp "$YOKE" "$1/yoke"
}

# Runs COMMAND in a new mount namespace that has an empty file in place of each MPI library.
without_libraries() { # COMMAND...
    unshare -m true 2>/dev/null || skip "mount namespaces need root"
    : >empty
    status=0
    # shellcheck disable=SC2016
    unshare -m sh -c '
        ldconfig -p | sed -n "s/.*=> \(.*\/lib\(mpi\|mpich\)\.so.*\)/\1/p" | while read -r lib; do
            mount --bind empty "$(readlink -f "$lib")" || exit 99
        done
        "$@"' sh "$@" >out 2>err || status=$?
}

@test "the program does not link MPI, and a plug-in exports one function" {
    command -v readelf >/dev/null || skip "readelf is not installed"
    if readelf -d "$YOKE" | grep -i 'NEEDED.*mpi'; then return 1; fi
    for plugin in "${YOKE%/*}"/yoke-mpi-*.so; do
        [ "$(nm -D --defined-only "$plugin" | awk '$2 ~ /[A-Z]/ { print $3 }')" = yk_mpi_plugin_v5 ]
    done
}

@test "without MPI and plug-ins: --launch works; under mpirun, the error names the missing file" {
    copy_program here
    YOKE=$PWD/here/yoke
    PATH=$PWD try $one
    expect 0
    PATH=$PWD try $one --launch 3 --json
    expect 0
    [ "$(field ranks)" -eq 3 ]
    OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 try $one
    expect 4 "started by Open MPI's mpirun, but yoke-mpi-openmpi.so is neither" "$PWD/here" "../lib/yoke"
    OMPI_COMM_WORLD_RANK=0 try $one
    expect 4 "started by Open MPI's mpirun"
    PMI_SIZE=2 PMI_RANK=0 try $one
    expect 4 "started by MPICH's mpirun, but yoke-mpi-mpich.so is neither"
}

@test "yoke version: the name and number of an MPI, and the real path of its plug-in" {
    command -v cc >/dev/null || skip "no C compiler"
    echo '#include <string.h>
int MPI_Get_library_version(char *text, int *n) { *n = (int)strlen(strcpy(text, "MPICH Version:      5.0.2\nMPICH ABI: 1")); return 0; }' >a.c
    mkdir lib
    cc -shared -fPIC -o lib/a.so a.c
    YK_MPI_PLUGIN=$PWD/lib/../lib/a.so try version
    expect 0
    grep -qxF "MPI        MPICH 5.0.2 ($PWD/lib/a.so)" out
    try version --json
    expect 2 "yoke version has no options or arguments: --json"
}

@test "YK_MPI_PLUGIN names the plug-in, and errors in it are reported" {
    export YK_MPI_PLUGIN=$PWD/nowhere.so OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0
    try $one
    expect 4 "YK_MPI_PLUGIN=$PWD/nowhere.so does not exist"
    echo text >nowhere.so
    try $one
    expect 4 "started by Open MPI's mpirun" "nowhere.so cannot be loaded" "install"
    [ "$(grep -c error err)" -eq 1 ]
}

@test "a plug-in in ../lib/yoke is found" {
    ls "${YOKE%/*}"/yoke-mpi-*.so >/dev/null 2>&1 || skip "built without MPI"
    command -v mpirun >/dev/null || skip "mpirun is not installed"
    copy_program bin
    mkdir -p lib/yoke
    cp "${YOKE%/*}"/yoke-mpi-*.so lib/yoke
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n 2 bin/yoke $one --json >out
    [ "$(field ranks)" -eq 2 ]
    field hosts | grep -q MPI
}

@test "under mpirun without the MPI library: the error names the library and the package" {
    ls "${YOKE%/*}"/yoke-mpi-openmpi.so >/dev/null 2>&1 || skip "built without Open MPI"
    export OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0
    # shellcheck disable=SC2086
    without_libraries "$YOKE" $one
    expect 4 "cannot be loaded" "libmpi" "install"
    [ "$(grep -c error err)" -eq 1 ]
}
