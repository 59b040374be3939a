#!/usr/bin/env bats
# Jobs under an mpirun that behaves as that of Open MPI 5, which is not that of version 4. A script stands in for it.

setup() { load cli; cli_setup; }
teardown() { cli_teardown; }

mpirun_is() { # BODY
    printf '#!/bin/sh\n%s\n' "$1" >mpirun
    chmod +x mpirun
    export YK_MPIRUN=$PWD/mpirun
}

job() { # OPTION...
    try train --model softmax --data 'synth:digits?examples=200' --batch 10 --out none "$@"
}

@test "results are complete and alone on stdout if mpirun mixes stdout and stderr" {
    command -v mpirun >/dev/null || skip "no mpirun"
    mpirun_is 'exec mpirun "$@" 2>&1'
    job --launch 2 --json
    expect 0 "[0] step 10"
    python3 -c 'import json, sys; sys.exit(json.load(open("out"))["ranks"] != 2)'
    mpirun_is 'exec mpirun "$@" 1>&2'
    job --launch 2 --json --quiet
    expect 0
    python3 -c 'import json, sys; sys.exit(json.load(open("out"))["ranks"] != 2)'
    [ ! -s err ]
}

@test "a process died, and mpirun interrupted the others: the job was lost" {
    mpirun_is 'echo "7 stopped by a signal" >"$YK_ENDED"
dashes=$(printf %070d 0 | tr 0 -)
printf "%s\nprterun noticed that process rank 2 with PID 594 on node vm exited on\nsignal 9 (Killed).\n%s\n" "$dashes" "$dashes" >&2
exit 137'
    job --launch 3
    expect 1 "the job was lost: process rank 2 with PID 594 on node vm exited on signal 9 (Killed)"
}

@test "a host that cannot be reached" {
    mpirun_is 'dashes=$(printf %070d 0 | tr 0 -)
printf "%s\nPRTE has lost communication with a remote daemon.\n%s\n" "$dashes" "$dashes" >&2
exit 255'
    job --hosts nohost.invalid:2
    expect 4 "cannot start the job on every host"
    [ -z "$(grep "signal" err)" ]
}
