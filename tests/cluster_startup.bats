#!/usr/bin/env bats
# Failures before training starts: a process or the launcher dies, a process hangs, file descriptors run out, a signal arrives. The job starts or ends within a limit, and leaves no process behind.

setup() { load cli; load cluster; cluster_setup; }
teardown() { cluster_teardown; }

small="train --model softmax --data synth:digits?examples=1003 --quiet --json"

# Ranks first run BODY in sh, with their command line in "$@". Jobs are those of the program with hooks.
with_shim() { # BODY
    printf '%s\nexec "$@"\n' "$1" >shim
    export YK_SHIM=$PWD/shim YOKE=$HOOKS
}

@test "a process that dies before training begins ends the job at once, and the error names its rank and host" {
    with_shim '[ "$YOKE_RANK" != 1 ] || sleep 20; [ "$YOKE_RANK" != 2 ] || kill -KILL $$'
    for mode in sync "async --servers 1"; do
        in_time 5 $small --mode $mode --launch 3 --out "run-${mode%% *}"
        expect 1 "rank 2 on host $(uname -n) was killed by signal 9 (Killed) before training began"
        [[ $(field error) == *"rank 2 on host"* ]]
        no_process_is_left
    done
}

@test "a process that hangs before it connects ends the job within the limit" {
    with_shim '[ "$YOKE_RANK" != 1 ] || exec sleep 100'
    YK_START_LIMIT=1 in_time 15 $small --launch 3 --out none
    expect 1 "rank 1 did not connect within 1 s"
    no_process_is_left
    with_shim 'exec sleep 100'
    YK_START_LIMIT=0.2 in_time 15 $small --launch 2 --out none
    expect 1 "the job did not start: no heartbeat for" "the limit is 8 times --deadline, but at least 60 s"
    [[ $(field error) == *"the job did not start: no heartbeat for"* ]]
}

@test "a process that fails before it connects: its error is that of the job" {
    with_shim '[ "$YOKE_RANK" != 1 ] || set -- "$@" --data none-such'
    in_time 15 $small --launch 3 --restarts 3 --out none
    expect 3 "none-such"
    [[ $(field error) == *"none-such"* ]]
    with_shim '[ "$YOKE_RANK" != 1 ] || exit 5'
    in_time 15 $small --launch 3 --out none
    expect 1 "rank 1 on host $(uname -n) ended with status 5 before training began"
}

@test "one SIGTERM ends a job that hangs during start-up, with status 0: nothing was trained" {
    with_shim '[ "$YOKE_RANK" != 2 ] || exec sleep 100'
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
    # a mistake in the command line: rank 0, but no other rank
    OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 try train --lr -1 --json
    expect 2
    [ "$(cat out)" = '{"state":"failed","error":"--lr -1: must be 0 or more, or auto","exit_code":2}' ]
    OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 try train --lr -1 --json
    expect 2
    [ ! -s out ]
}

@test "loading may take longer than the limit, as heartbeats are sent meanwhile" {
    "$YOKE" data gen 'synth:ctr?features=5000&examples=3000' --out clicks.libsvm --format libsvm >/dev/null 2>&1
    # a reader that takes 4 seconds, however fast the host is
    YOKE=$HOOKS YK_SLOW_READ=$(($(stat -c %s clicks.libsvm) / 4)) YK_START_LIMIT=2 in_time 60 train --model logreg \
        --data libsvm:clicks.libsvm --test none --launch 2 --servers 1 --steps 20 --out none --json
    expect 0
    holds "$(result_of load_seconds) > 2.5"
}

@test "a low limit on open files is an error, not a hang" {
    status=0
    (ulimit -n 32 && exec timeout -k 2 15 "$YOKE" $small --launch 3 --out none >out 2>err 3>&- 4>&-) || status=$?
    expect 4 "open files" "ulimit -n"
}

@test "restarts: a process that dies during start-up is restarted" {
    with_shim '[ "$YOKE_RANK" != 1 ] || ! mkdir died 2>/dev/null || kill -KILL $$'
    in_time 30 $small --launch 2 --restarts 2 --out run
    expect 0 "restart 1 of 2"
    rm -rf died
    in_time 30 $small --launch 3 --mode async --servers 1 --restarts 2 --out run2
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
                pause 0.05
            done
            [ -z "$left" ] || { echo "left behind after $delay s, $mode"; false; }
        done
    done
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

@test "over ssh: output and signals arrive, and if ssh dies, no process is left" {
    [ -x /usr/sbin/sshd ] && [ "$(id -u)" = 0 ] || skip "needs sshd and root"
    ssh-keygen -q -t ed25519 -N '' -f host
    ssh-keygen -q -t ed25519 -N '' -f id
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    mkdir -p /run/sshd
    printf '%s\n' "Port $port" "ListenAddress 127.0.0.1" "HostKey $PWD/host" "AuthorizedKeysFile $PWD/id.pub" "PidFile $PWD/pid" \
        "StrictModes no" "UsePAM no" "SetEnv HOME=$PWD" >sshd.conf # start-up files of the shell may be slow
    /usr/sbin/sshd -f sshd.conf -E sshd.log
    agent="ssh -p $port -i $PWD/id -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    for how in TERM KILL; do
        begin ${small/--quiet/} --batch 4 --steps 1000000 --eval-every 20 --hosts 127.0.0.1:2,localhost --agent "$agent" --out run
        wait_for_step 40
        if [ $how = TERM ]; then
            kill -TERM "$BACKGROUND"
            finish 10
            expect 0 "stopped at step"
            equal "processes" "$(result_of ranks)" 3
        else
            pkill -KILL -P "$BACKGROUND" ssh
            finish 10
            expect 1 "yoke: error: the job was lost: rank"
        fi
        for _ in $(seq 50); do # ssh does not pass YK_JOB on
            pgrep -f "$PWD/run|--out run .*--agent.*$port|$port.*--out run" >left || break
            sleep 0.1
        done
        silent left
        rm -r run
    done
    kill "$(cat pid)"
}
