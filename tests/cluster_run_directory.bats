#!/usr/bin/env bats
# The run directory of a job of several processes: only the chief locks it.

setup() {
    load cli
    load cluster
    cluster_setup
    LATER=
    OTHER=
}

teardown() {
    [ -z "$LATER" ] || kill -KILL "$LATER" 2>/dev/null || true
    [ -z "$OTHER" ] || rm -rf "$OTHER"
    cluster_teardown
}

digits="train --model softmax --data synth:digits?examples=1003 --batch 2 --eval-every 400 --deadline 2"

in_use() { # the last command was rejected because rank 0 uses the run directory
    expect 2 "run: in use by process $(rank_pid 0) on host $(uname -n)" "choose another --out"
}

@test "other runs cannot write to the directory of a running job, and workers can join it" {
    # a user's directory that has a name like those of launchers, and a file named lock like run directories
    OTHER=$(mktemp -d /dev/shm/yoke-XXXXXX)
    echo mine >"$OTHER/notes.txt"
    : >"$OTHER/lock"
    begin $digits --mode async --servers 1 --out run --epochs 100000 --launch 3
    wait_for_step 400
    mv err live # the job continues to write there
    equal "notes" "$(cat "$OTHER/notes.txt")" mine
    cp run/config.ini .
    cp run/join .
    in_time 20 train --out run --resume --steps 500 --launch 2
    in_use
    by_mpirun -n 2 yoke train --out run --resume --steps 500 --launch 2
    in_use
    cmp config.ini run/config.ini
    mv live err
    cmp join run/join
    "$YOKE" train --join run >out2 2>err2 3>&- 4>&- &
    LATER=$!
    wait_for_message "a worker has joined; 3 are training now"
    kill -TERM "$BACKGROUND"
    finish 20
    expect 0 "stopped at step"
    [ -z "$LATER" ] || wait "$LATER" || { cat err2; return 1; }
    LATER=
}

@test "restarts: the job takes the lock again right after its chief was killed" {
    begin $digits --mode sync --out run --epochs 100000 --checkpoint-every 300 --launch 2 --restarts 1
    wait_for_step 400
    signal_rank KILL 0
    wait_for_message "resuming from run/checkpoints/step-"
    wait_for_step 800
    kill -TERM "$BACKGROUND"
    finish 20
    expect 0 "restarting from the last checkpoint"
    grep -qE "stopped (at step|by a signal before training began)" err
    does_not_say "in use"
}
