#!/usr/bin/env bats
# Jobs of several processes to which something happens: a process is killed, stopped, wakes up again; a server goes; somebody
# presses Ctrl-C. Asynchronous jobs go on, synchronous ones say who is missing or start again, and nothing is left behind.

setup() { load cli; load cluster; cluster_setup; }
teardown() { cluster_teardown; }

# However fast the machine is, something must be able to happen to them: synchronous jobs are endless and end by a signal.
async="train --model softmax --data synth:digits?examples=1003 --batch 2 --mode async --servers 1 --eval-every 400 --json --deadline 2"
sync="train --model softmax --data synth:digits?examples=1003 --batch 4 --eval-every 200 --checkpoint-every 300 --json --deadline 2"

begin_async() { # EPOCHS OPTION...
    begin $async --out run --epochs "$@"
    until_step 400
    remember_job
}

begin_sync() { # OPTION...
    begin $sync --steps 1000000 --out run "$@"
    until_step 400
    remember_job
}

all_examples() { # EPOCHS
    expect 0
    equal examples "$(said examples)" $((1003 * $1))
    [ -e "$(model_of run)" ]
}

@test "async: a worker that is killed does not stop the others; its examples go to them" {
    begin_async 40 --launch 4
    signal_rank KILL 2
    finish 60
    all_examples 40
    expect 0 "rank 2"
    says_not "rank [013] was"
}

@test "async: two of three workers are killed, with two servers" {
    begin_async 40 --launch 5 --servers 2
    signal_rank KILL 4
    signal_rank KILL 2
    finish 60
    all_examples 40
    expect 0 "rank 2" "rank 4"
}

@test "async: a worker that is stopped for good does not stop the others" {
    begin_async 40 --launch 4
    signal_rank STOP 3
    finish 60
    all_examples 40
    expect 0 "rank 3 sent no heartbeat"
}

@test "async: a worker that is stopped and wakes up again is used again, or ends" {
    begin_async 9999 --launch 4
    signal_rank STOP 3
    until_said "rank 3 sent no heartbeat"
    signal_rank CONT 3
    until_said "rank 3 is back"
    kill -INT "$BACKGROUND"
    finish 30
    expect 0
}

@test "async: what was given away while a worker slept is not trained on twice" {
    begin_async 60 --launch 4
    signal_rank STOP 3
    until_said "rank 3 sent no heartbeat"
    signal_rank CONT 3
    finish 60
    all_examples 60
}

@test "async: all workers are lost: an error, not a hang" {
    begin_async 40 --launch 3
    signal_rank KILL 1
    signal_rank KILL 2
    finish 30
    expect 1 "no worker is left"
}

# The process of a worker that joined by itself.
joiner_pid() {
    local file
    grep -lszxF -e --join /proc/[0-9]*/cmdline 2>/dev/null | sed 's/cmdline$/environ/' |
        xargs -r grep -lszx "YK_JOB=$YK_JOB" | xargs -r grep -lsz '^OMPI_COMM_WORLD_RANK=' | while read -r file; do
        file=${file#/proc/}
        [ "$(readlink "/proc/${file%/environ}/exe")" != "$YOKE" ] || echo "${file%/environ}"
    done | head -n 1
}

@test "async: a new worker joins a running job and is used; one that joined may die" {
    begin_async 100 --launch 3
    "$YOKE" train --join run >out2 2>err2 3>&- 4>&- &
    first=$!
    until_said "a worker has joined: 3 train now"
    "$YOKE" train --join run >/dev/null 2>&1 3>&- 4>&- &
    second=$!
    until_said "a worker has joined: 4 train now"
    kill -KILL "$(joiner_pid)"
    finish 60
    all_examples 100
    expect 0 "sent no heartbeat"
    # those of the job did not do all of it; those who joined are there, and which of them is lost
    tail -n 1 out | grep -o '"role":"worker","joined":false[^{}]*' | grep -o '"examples":[0-9]*' | tr -dc '0-9\n' |
        awk '{ n += $1 } END { exit !(n > 0 && n < 100300) }'
    equal "joined" "$(tail -n 1 out | grep -o '"role":"worker","joined":true,"lost":[a-z]*' | sort | uniq -c | tr -s ' \n' ' ')" \
        ' 1 "role":"worker","joined":true,"lost":false 1 "role":"worker","joined":true,"lost":true '
    one=0 two=0
    wait $first || one=$?
    wait $second || two=$?
    # one was killed, the other one ended well
    [ $((one == 0)) -ne $((two == 0)) ] || { echo "status $one and $two; it said:"; cat err2; false; }
    in_time 20 train --join run
    expect 2 "no asynchronous job that can be joined is running"
}

@test "bounded staleness: a killed and a stopped worker do not hold the others" {
    begin_async 40 --launch 5 --staleness 4
    signal_rank KILL 2
    signal_rank STOP 3
    finish 60
    all_examples 40
    expect 0 "rank 2" "rank 3"
}

last_step() { awk '$2 == "step" { n = $3 + 0 } END { print n + 0 }' err; }

examples_of() { # RANK
    tail -n 1 out | grep -o "\"rank\":$1,[^{}]*" | grep -o '"examples":[0-9]*' | tr -dc 0-9
}

@test "bounded staleness: one that comes back is not waited for until it has made what it missed" {
    begin_async 9999 --launch 4 --staleness 8
    signal_rank STOP 3
    until_said "rank 3 sent no heartbeat"
    until_step $(($(last_step) + 6000)) # 3,000 of each of the others
    signal_rank CONT 3
    until_said "rank 3 is back"
    until_step $(($(last_step) + 12000)) # enough for it to catch up, if the others waited
    kill -INT "$BACKGROUND"
    finish 30
    expect 0
    holds "$(examples_of 1) - $(examples_of 3) > 1000"
}

@test "sync: a killed process ends the job within 10 s, with its rank" {
    for way in "--launch 3 --servers 0" "--launch 3 --servers 1"; do
        begin_sync $way
        signal_rank KILL 2
        finish 10
        expect 1 "rank 2"
        nobody_is_left
        rm -rf run
    done
}

@test "sync: a stopped process ends the job within 10 s, with its rank" {
    for way in "--launch 3 --servers 0 --deadline 8" "--launch 4 --servers 2"; do
        begin_sync $way
        signal_rank STOP 2
        finish 14
        expect 1 "rank 2"
        nobody_is_left
        rm -rf run
    done
}

@test "sync: a replica of a network that is killed or stopped while gradients go through shared memory" {
    for signal in STOP KILL; do
        begin train --model lenet5 --data 'synth:digits?examples=1003' --batch 64 --steps 1000000 --launch 2 \
            --deadline 4 --out run
        until_said "gradients are all-reduced through shared memory"
        sleep 0.3
        remember_job
        signal_rank $signal 1
        finish 10
        expect 1 "rank 1"
        nobody_is_left
        rm -rf run
    done
}

@test "a server that is killed or stopped ends the job within 10 s, with its rank" {
    # its workers wait for it, and must not be taken for those who are missing
    for signal in KILL STOP; do
        begin_async 40 --launch 4 --servers 2
        signal_rank $signal 1
        finish 12
        expect 1 "rank 1"
        nobody_is_left
        rm -rf run
    done
    begin_async 40 --launch 4 --servers 2
    signal_rank STOP 0
    finish 12
    expect 1 "rank 0"
    nobody_is_left
    rm -rf run
    begin_sync --launch 3 --servers 1
    signal_rank KILL 0
    finish 12
    expect 1
}

# An mpirun that is slow, or is gone before it has passed on what the processes said last.
@test "what a job said last is heard even if mpirun did not pass it on" {
    cat >mpirun <<'END'
#!/bin/sh
printf '\001begun 2\n' >&2
dashes=-----------------------------------------------------------------------------
printf '%s\nmpiexec detected that one or more processes exited, as the user knows\n%s\n' $dashes $dashes >&2
printf '%s\nwords that are cut off\n' $dashes >&2
echo '2 rank 1 has died' >"$YK_ENDED"
sleep 30 # the launcher does not wait for that
END
    chmod +x mpirun
    YK_MPIRUN=$PWD/mpirun in_time 20 $sync --steps 100 --launch 3 --out none
    expect 1 "rank 1 has died" "words that are cut off"
    says_not "without an error message"
    says_not "as the user knows"
}

@test "results that cannot be written are an error of the launcher, too" {
    status=0
    timeout -k 2 60 "$YOKE" $sync --steps 20 --launch 2 --out none >/dev/full 2>err || status=$?
    expect 4 "cannot write the results to stdout"
}

@test "restarts: after kill -9 and SIGSTOP the result is that of an undisturbed run, to the bit" {
    for way in "--launch 3 --servers 0" "--launch 3 --servers 1"; do
        begin_sync $way --restarts 3
        signal_rank KILL 1
        until_said "restart 1 of 3"
        until_said "resuming from"
        sleep 0.3
        signal_rank STOP 2
        until_said "restart 2 of 3"
        until_said "resuming from" 2
        sleep 0.3
        kill -INT "$BACKGROUND"
        finish 15
        expect 0 "restarting from the last checkpoint"
        in_time 60 $sync $way --steps "$(said steps)" --quiet --out whole
        expect 0
        same_bits whole run
        rm -rf whole run
    done
}

@test "restarts: they are limited, and a job that would fail again is not started again" {
    begin_sync --launch 2 --restarts 1
    signal_rank KILL 1
    until_said "restart 1 of 1"
    until_said "resuming from"
    signal_rank KILL 1
    finish 20
    expect 1
    equal restarts "$(grep -c 'restarting from' err)" 1
    in_time 60 train --model softmax --data none-such --launch 3 --restarts 5 --out none
    expect 3 "none-such"
    says_not "restarting from"
    in_time 60 train --model softmax --data 'synth:digits?examples=500' --hosts nowhere --agent /bin/false --restarts 5 --out none
    [ "$status" -ne 0 ]
    [ -s err ]
    says_not "restarting from"
    in_time 60 train --model softmax --data 'synth:digits?examples=500' --lr 1e30 --launch 3 --restarts 5 --out none
    expect 1
    says_not "restarting from"
}

@test "SIGINT and SIGTERM to the launcher save and end all; --resume comes to the same bits" {
    for line in "INT --launch 3 --servers 0" "TERM --launch 3 --servers 1"; do
        begin_sync ${line#* }
        kill "-${line%% *}" "$BACKGROUND"
        finish 15
        expect 0 "stopped at step"
        equal interrupted "$(said interrupted)" true
        [ -e "run/checkpoints/step-$(said steps)/DONE" ]
        nobody_is_left
        more=$(($(said steps) + 250))
        in_time 60 train --out run --resume --steps $more --quiet
        expect 0
        in_time 60 $sync ${line#* } --steps $more --quiet --out whole
        expect 0
        same_bits whole run
        rm -rf whole run
    done
}

@test "SIGINT to an asynchronous job saves and ends; --resume uses every example once" {
    begin_async 9999 --launch 3
    kill -INT "$BACKGROUND"
    finish 15
    expect 0 "stopped at step"
    equal interrupted "$(said interrupted)" true
    nobody_is_left
    epochs=$(($(said examples) / 1003 + 2))
    in_time 60 train --out run --resume --epochs $epochs --quiet --json
    all_examples $epochs
}

@test "a second SIGINT ends at once; kill -9 of the launcher leaves nobody behind" {
    begin_sync --launch 3
    signal_rank STOP 1
    kill -INT "$BACKGROUND"
    sleep 0.3
    kill -INT "$BACKGROUND"
    finish 8
    [ "$status" -ne 0 ]
    nobody_is_left
    rm -rf run
    begin_sync --launch 3
    kill -KILL "$BACKGROUND"
    finish 5
    [ "$status" -eq 137 ]
    nobody_is_left
    # nobody was left to remove its files: whoever starts next does
    in_time 60 $sync --steps 5 --launch 2 --out none --quiet
    expect 0
    nothing_is_left
}

@test "async, sparse data in chunks: a new worker joins and every example is trained once per epoch" {
    begin train --model logreg --data "synth:ctr?features=20000&examples=70003" --mode async --batch 100 --epochs 200 --launch 3 \
        --servers 1 --out run --json
    until_said "train loss"
    "$YOKE" train --join run >out2 2>err2 3>&- 4>&- &
    local second=$!
    until_said "a worker has joined"
    finish 60
    equal "examples" "$(tail -n 1 out | grep -o '"examples":[0-9]*' | head -n 1)" '"examples":14000600'
    wait $second
    grep -q 'trained on [1-9][0-9]* examples' err2
    equal "joined" "$(tail -n 1 out | grep -o '"joined_workers":[0-9]*')" '"joined_workers":1'
}
