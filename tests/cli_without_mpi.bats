#!/usr/bin/env bats
# A host without MPI: the program trains in one process, and --launch names what is missing.

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
        [ "$(nm -D --defined-only "$plugin" | awk '$2 ~ /[A-Z]/ { print $3 }')" = yk_mpi_plugin_v3 ]
    done
}

@test "without plug-ins: one process trains, --launch names the missing file" {
    copy_program here
    YOKE=$PWD/here/yoke
    try $one
    expect 0
    try $one --launch 2
    expect 4 "yoke-mpi-openmpi.so" "$PWD/here" "../lib/yoke"
    [ "$(grep -c error err)" -eq 1 ]
    OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 try $one
    expect 4 "started by Open MPI's mpirun, but yoke-mpi-openmpi.so is neither"
    PMI_SIZE=2 PMI_RANK=0 try $one
    expect 4 "started by MPICH's mpirun, but yoke-mpi-mpich.so is neither"
    PMIX_RANK=0 SLURM_JOB_ID=1 SLURM_STEP_NUM_TASKS=2 try $one
    expect 4 "started by srun --mpi=pmix, but yoke-mpi-openmpi.so"
}

@test "YK_MPI_PLUGIN names the plug-in, and errors in it are reported" {
    export YK_MPI_PLUGIN=$PWD/nowhere.so
    try $one
    expect 0
    try $one --launch 2
    expect 4 "YK_MPI_PLUGIN=$PWD/nowhere.so does not exist"
    echo text >nowhere.so
    try $one --launch 2
    expect 4 "nowhere.so cannot be loaded" "install"
    [ "$(grep -c error err)" -eq 1 ]
    OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 try $one
    expect 4 "started by Open MPI's mpirun" "nowhere.so cannot be loaded"
}

@test "a plug-in in ../lib/yoke is found" {
    ls "${YOKE%/*}"/yoke-mpi-*.so >/dev/null 2>&1 || skip "built without MPI"
    command -v mpirun >/dev/null || skip "mpirun is not installed"
    copy_program bin
    mkdir -p lib/yoke
    cp "${YOKE%/*}"/yoke-mpi-*.so lib/yoke
    YOKE=$PWD/bin/yoke
    try $one --launch 2 --json
    expect 0
    grep -q '"ranks":2' out
}

@test "without the MPI library: one process trains, --launch names the library and the package" {
    ls "${YOKE%/*}"/yoke-mpi-*.so >/dev/null 2>&1 || skip "built without MPI"
    command -v mpirun >/dev/null || skip "mpirun is not installed"
    # shellcheck disable=SC2086
    without_libraries "$YOKE" $one
    expect 0
    # shellcheck disable=SC2086
    without_libraries "$YOKE" $one --launch 2
    expect 4 "cannot be loaded" "libmpi" "install"
    [ "$(grep -c error err)" -eq 1 ]
}

@test "--launch without mpirun in PATH says what to install" {
    ls "${YOKE%/*}"/yoke-mpi-*.so >/dev/null 2>&1 || skip "built without MPI"
    PATH=$PWD try $one --launch 2
    expect 4 "mpirun" "PATH" "install" "YK_MPIRUN"
}
