#!/usr/bin/env bats
# Failures before training starts: a process, the name server or the launcher dies, a process hangs, file descriptors or
# shared memory run out, a signal arrives. The job starts or ends within a limit, and leaves no process behind.

setup() { load cli; load cluster; cluster_setup; }
teardown() { cluster_teardown; }

small="train --model softmax --data synth:digits?examples=1003 --quiet --json"

# Creates an mpirun whose processes first run BODY in sh, with the real command line in "$@" and the rank in $RANK.
with_shim() { # BODY
    cat >shim <<END
#!/bin/sh
RANK=\$OMPI_COMM_WORLD_RANK
$1
exec "\$@"
END
    cat >mpirun <<'END'
#!/bin/bash
words=()
for word; do
    if [ "$word" = train ]; then
        last=$((${#words[@]} - 1))
        program=${words[$last]}
        words[$last]=$(dirname "$0")/shim
        words+=("$program")
    fi
    words+=("$word")
done
exec mpirun "${words[@]}"
END
    chmod +x shim mpirun
    export YK_MPIRUN=$PWD/mpirun
    FORGIVEN=yes # mpirun itself leaves files in its temporary directory when processes die
}

@test "a process that dies before MPI_Init ends the job within the limit" {
    with_shim '[ "$RANK" != 2 ] || kill -KILL $$'
    for mode in sync "async --servers 1"; do
        YOKE=$HOOKS YK_START_LIMIT=1 in_time 15 $small --mode $mode --launch 3 --out "run-${mode%% *}"
        expect 1
        no_process_is_left
    done
    grep -qE "a process died before training began|MPI_Init did not return within 1 s" err
}

@test "async: a process that dies before training begins ends the job at once, and the error names its rank" {
    with_shim '[ "$RANK" != 1 ] || sleep 20; [ "$RANK" != 2 ] || { sleep 0.5; kill -KILL $$; } &'
    in_time 10 $small --mode async --servers 1 --launch 3 --out run
    expect 1 "rank 2 died before training began"
    no_process_is_left
}

@test "a process that hangs before MPI_Init ends the job within the limit" {
    with_shim '[ "$RANK" != 1 ] || exec sleep 100'
    YOKE=$HOOKS YK_START_LIMIT=1 in_time 15 $small --launch 3 --out none
    expect 1 "MPI_Init did not return within 1 s" "the limit is 8 times --deadline, but at least 60 s"
    no_process_is_left
}

@test "an mpirun that starts no process is ended after the limit" {
    printf '#!/bin/sh\nexec sleep 100\n' >mpirun
    chmod +x mpirun
    YK_MPIRUN=$PWD/mpirun YOKE=$HOOKS YK_START_LIMIT=0.2 in_time 15 $small --launch 3 --out none
    expect 1 "the job did not start: no heartbeat for" "the limit is 8 times --deadline, but at least 60 s"
    [[ $(field error) == *"the job did not start: no heartbeat for"* ]]
}

@test "--json reports the error of a process that fails before MPI_Init, and that mpirun could not start the job" {
    mkdir alone
    cp "$YOKE" alone/yoke # without a plug-in for MPI, as on a host where it was not installed
    with_shim '[ "$RANK" != 1 ] || { shift; set -- alone/yoke "$@"; }'
    in_time 15 $small --launch 3 --out none
    expect 4 "yoke-mpi-"
    [[ $(field error) == *"yoke-mpi-"* ]]
    printf '#!/bin/sh\nexit 3\n' >mpirun
    in_time 15 $small --launch 3 --out none
    expect 4 "mpirun could not start the job (status 3)"
    [[ $(field error) == *"mpirun could not start the job (status 3)"* ]]
    printf '#!/bin/sh\nexit 127\n' >mpirun
    in_time 15 $small --launch 3 --out none
    expect 4
    [[ $(field error) == *"cannot run mpirun"* ]]
}

@test "one SIGTERM ends a job that hangs during start-up, with status 0: nothing was trained" {
    with_shim '[ "$RANK" != 2 ] || exec sleep 100'
    for mode in sync async; do
        begin ${small/--quiet/} --mode $mode --launch 3 --out run-$mode
        sleep 0.7
        kill -TERM "$BACKGROUND"
        finish 5
        expect 0 "stopped by a signal before training began"
        equal "state (JSON)" "$(result_of state)" '"stopped"'
        no_process_is_left
    done
}

@test "one SIGTERM ends a job that is loading its data, with status 0" {
    for way in "--servers 0" "--servers 1"; do
        begin train --model logreg --data 'synth:ctr?examples=12000000' --stream never --test none --launch 2 $way --out run
        sleep 1
        kill -TERM "$BACKGROUND"
        finish 5
        expect 0 "stopped by a signal before training began"
        no_process_is_left
    done
}

@test "under mpirun, a job that fails before training prints state, error and exit_code" {
    by_mpirun -n 2 yoke train --model softmax --data idx:/nowhere --json --out none
    [ "$status" -ne 0 ]
    [ "$(cat out)" = '{"state":"failed","error":"/nowhere: no such file or directory","exit_code":3}' ]
}

@test "loading may take longer than the limit, as heartbeats are sent meanwhile" {
    "$YOKE" data gen 'synth:ctr?features=5000&examples=3000' --out clicks.libsvm --format libsvm >/dev/null 2>&1
    # a reader that takes 4 seconds, however fast the host is
    YOKE=$HOOKS YK_SLOW_READ=$(($(stat -c %s clicks.libsvm) / 4)) YK_START_LIMIT=2 in_time 60 train --model logreg \
        --data libsvm:clicks.libsvm --test none --launch 2 --servers 1 --steps 20 --out none --json
    expect 0
    holds "$(result_of load_seconds) > 2.5"
}

@test "a job whose name server dies still trains" {
    cat >mpirun <<'END'
#!/bin/bash
for process in /proc/[0-9]*; do
    if grep -qsz '^ompi-server$' $process/cmdline && grep -qszx "YK_JOB=$YK_JOB" $process/environ; then
        (sleep 0.12 && kill -KILL "${process#/proc/}") &
    fi
done
exec mpirun "$@"
END
    chmod +x mpirun
    YK_MPIRUN=$PWD/mpirun in_time 20 $small --mode async --servers 1 --launch 3 --epochs 2 --out run
    expect 0
    equal examples "$(result_of examples)" 2006
    equal lines "$(wc -l <out)" 1
}

@test "a low limit on open files is an error, not a hang" {
    status=0
    (ulimit -n 32 && exec timeout -k 2 15 "$YOKE" $small --launch 3 --out none >out 2>err 3>&- 4>&-) || status=$?
    expect 4 "open files" "ulimit -n"
}

@test "a small /dev/shm does not stop a job" {
    unshare -m true 2>/dev/null || skip "mount namespaces need root"
    for mode in sync async; do
        status=0
        unshare -m sh -c 'mount -t tmpfs -o size=8m tmpfs /dev/shm && exec "$@"' sh \
            timeout -k 2 20 "$YOKE" $small --mode $mode --launch 3 --out none >out 2>err || status=$?
        expect 0
    done
}

@test "restarts: a process that dies during start-up is restarted" {
    with_shim '[ "$RANK" != 1 ] || mkdir died 2>/dev/null && [ "$RANK" = 1 ] && kill -KILL $$'
    YOKE=$HOOKS YK_START_LIMIT=2 in_time 30 $small --launch 2 --restarts 2 --out run
    expect 0 "restart 1 of 2"
    rm -rf died
    YOKE=$HOOKS YK_START_LIMIT=2 in_time 30 $small --launch 3 --mode async --servers 1 --restarts 2 --out run2
    expect 0 "restart 1 of 2"
}

@test "kill -9 of the launcher ends all processes within a second, at any time" {
    for mode in sync async; do
        for delay in 0.05 0.2 0.8; do
            begin $small --mode $mode --batch 2 --epochs 99999 --launch 3 --out "run-$mode-$delay"
            sleep $delay
            kill -KILL "$BACKGROUND"
            finish 2
            for _ in $(seq 20); do # a second
                left=$(processes)
                [ -n "$left" ] || break
                sleep 0.05
            done
            [ -z "$left" ] || { echo "left behind after $delay s, $mode"; false; }
        done
    done
}

@test "kill -9 of the launcher: files that a process creates while it starts are removed, too" {
    with_shim '[ "$RANK" != 1 ] || { echo "${YK_ENDED%/*}" >directory; sleep 1; mkdir -p "${YK_ENDED%/*}/late" && touch created; }'
    for _ in 1 2 3 4; do # mpirun may end the process before it creates anything
        rm -rf directory run
        begin $small --launch 2 --out run
        for _ in $(seq 200); do
            [ ! -s directory ] || break
            sleep 0.05
        done
        kill -KILL "$BACKGROUND"
        finish 2
        for _ in $(seq 60); do
            [ ! -e created ] || [ -e "$(cat directory)" ] || break
            sleep 0.05
        done
        [ ! -e created ] || break
    done
    [ -e created ]
    cp directory jobs # removed at the end
    no_process_is_left
    [ ! -e "$(cat directory)" ] || { find "$(cat directory)"; false; }
}

@test "a worker that joined leaves at the first SIGTERM, and the job notices at once" {
    for local in "" "--local-steps 3"; do
        begin ${small/--quiet/} --batch 2 --mode async --servers 1 --epochs 99999 --launch 3 $local --out run
        wait_for_step 400
        env --default-signal=INT "$YOKE" train --join run >out2 2>err2 3>&- 4>&- &
        joined=$!
        wait_for_message "a worker has joined; 3 are training now"
        sleep 0.3
        kill -TERM $joined
        wait_for_message "a worker that had joined has left; 2 are training now"
        left=0
        wait $joined || left=$?
        equal "status of the worker" $left 0
        grep -q "trained on [1-9]" err2
        kill -INT "$BACKGROUND"
        finish 15
        expect 0
        does_not_say "silent"
        equal lost "$(tail -n 1 out | grep -c '"lost":true')" 0
        rm -rf run
    done
}
