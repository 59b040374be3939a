#!/usr/bin/env bats
# Faults in jobs of several processes: a worker or server is killed, stopped, or continued; a user presses Ctrl-C. Asynchronous
# jobs continue; synchronous jobs name the lost rank, or restart. No process or file is left behind.

setup() { load cli; load cluster; cluster_setup; }
teardown() { cluster_teardown; }

# Jobs must be long enough for a fault, however fast the host is: synchronous jobs are endless and are ended by a signal.
async="train --model softmax --data synth:digits?examples=1003 --batch 2 --mode async --servers 1 --eval-every 400 --json --deadline 2"
sync="train --model softmax --data synth:digits?examples=1003 --batch 4 --eval-every 200 --checkpoint-every 300 --json --deadline 2"

begin_async() { # EPOCHS OPTION...
    begin $async --out run --epochs "$@"
    wait_for_step 400
}

begin_sync() { # OPTION...
    begin $sync --steps 1000000 --out run "$@"
    wait_for_step 400
    until compgen -G 'run/checkpoints/*/DONE' >/dev/null; do # written in the background
        kill -0 "$BACKGROUND"
        pause 0.02
    done
}

all_examples() { # EPOCHS
    expect 0
    equal examples "$(result_of examples)" $((1003 * $1))
    [ -e "$(model_of run)" ]
}

# The numbers of examples of the workers, lost ones included, add up to that of the run.
all_accounted_for() { # FILE: output of the run
    python3 -c '
import json, sys
o = json.loads(list(open(sys.argv[1]))[-1])
workers = [p for p in o["processes"] if p["role"] == "worker"]
assert sum(p["examples"] for p in workers) == o["examples"], o
assert sum(p["steps"] for p in workers) == o["steps"], o' "$1"
}

# Ends an endless job, and resumes it up to the end of an epoch: it has used every example once per epoch. `out` has its last results.
end_and_complete() {
    local epochs
    kill -INT "$BACKGROUND"
    finish 30
    expect 0 "stopped at step"
    no_process_is_left
    cp out interrupted
    epochs=$(($(result_of examples) / 1003 + 2))
    in_time 60 train --out run --resume --epochs $epochs --quiet --json
    all_examples $epochs
}

@test "async: after a worker is killed, the others continue and train on its examples" {
    begin_async 20 --launch 4
    signal_rank KILL 2
    finish 60
    all_examples 20
    all_accounted_for out
    expect 0 "rank 2"
    does_not_say "rank [013] was"
}

@test "async, streamed: after a worker is killed, the others read its part of the data" {
    for way in "" "--staleness 3" "--local-steps 4"; do
        begin_async 5 --launch 4 --stream always $way
        signal_rank KILL 2
        finish 60
        all_examples 5
        all_accounted_for out
        expect 0 "rank 2"
        rm -rf run
    done
}

@test "async: two of three workers are killed, two servers" {
    begin_async 20 --launch 5 --servers 2
    signal_rank KILL 4
    signal_rank KILL 2
    finish 60
    all_examples 20
    expect 0 "rank 2" "rank 4"
}

@test "async: after a worker is stopped for good, the others continue" {
    begin_async 20 --launch 4
    signal_rank STOP 3
    finish 60
    all_examples 20
    expect 0 "rank 3 sent no heartbeat"
}

@test "async: a worker that is stopped and continued trains again; reassigned examples are not used twice" {
    begin_async 9999 --launch 4
    signal_rank STOP 3
    wait_for_message "rank 3 sent no heartbeat"
    signal_rank CONT 3
    wait_for_message "rank 3 has sent a message again"
    end_and_complete
    all_accounted_for interrupted # without the gradients of the stopped worker, which were dropped
}

@test "async: losing all workers is an error, not a hang" {
    begin_async 40 --launch 3
    signal_rank KILL 1
    signal_rank KILL 2
    finish 30
    expect 1 "no worker is left"
}

# The process id of a worker that joined with --join.
joiner_pid() {
    local file
    grep -lszxF -e --join /proc/[0-9]*/cmdline 2>/dev/null | sed 's/cmdline$/environ/' |
        xargs -r grep -lszx "YK_JOB=$YK_JOB" | while read -r file; do
        file=${file#/proc/}
        [ "$(readlink "/proc/${file%/environ}/exe")" != "$YOKE" ] || echo "${file%/environ}"
    done | head -n 1
}

@test "async: a new worker joins a running job at once and trains; a joined worker may be killed" {
    # a table: server, workers and joined workers have to use the same means, values and features
    awk 'BEGIN { srand(3); print "clicked,price,city"; for (i = 0; i < 1003; i++) print i % 2 "," int(90 * rand()) ",c" int(7 * rand()) }' >a.csv
    table='csv:a.csv?categorical=city&encode=dense&scale=standard'
    begin ${async/synth:digits?examples=1003/"$table"} --out run --epochs 9999 --launch 3
    until [ -e run/join ]; do
        kill -0 "$BACKGROUND" || { cat err; return 1; }
    done
    status=0
    timeout 20 "$YOKE" train --join run --batch 7 2>refused || status=$?
    equal "another option" "$status $(cat refused)" \
        "2 yoke: error: --batch 7: the job has 2; leave the option out: a worker that joins uses the options of the job"
    mkdir other
    sed '2s/.*/1,99,c1/' a.csv >other/a.csv
    status=0
    (cd other && timeout 20 "$YOKE" train --join ../run 2>../refused) || status=$?
    equal "other data" "$status $(grep -c "the job refused this worker" refused)" "2 1"
    "$YOKE" train --join run >out2 2>err2 3>&- 4>&- &
    first=$!
    wait_for_message "a worker has joined; 3 are training now"
    "$YOKE" train --join run >/dev/null 2>&1 3>&- 4>&- &
    second=$!
    wait_for_message "a worker has joined; 4 are training now"
    kill -KILL "$(joiner_pid)"
    wait_for_message "has died: declared lost"
    wait_for_step_after "declared lost" # the other one trains
    equal "name in ps" "$(cat "/proc/$(rank_pid 1)/comm")" yoke
    end_and_complete
    # the original workers did not train on all examples; the summary has both joined workers, and marks the lost one
    equal "joined workers" "$(tail -n 1 interrupted | grep -o '"joined_workers":[0-9]*')" '"joined_workers":2'
    tail -n 1 interrupted | grep -o '"role":"worker","joined":false[^{}]*' | grep -o '"examples":[0-9]*' | tr -dc '0-9\n' |
        awk -v all="$(tail -n 1 interrupted | grep -o '"examples":[0-9]*' | head -n 1 | tr -dc 0-9)" \
            '{ n += $1 } END { exit !(n > 0 && n < all) }'
    equal "joined" "$(tail -n 1 interrupted | grep -o '"role":"worker","joined":true,"lost":[a-z]*' | sort | uniq -c | tr -s ' \n' ' ')" \
        ' 1 "role":"worker","joined":true,"lost":false 1 "role":"worker","joined":true,"lost":true '
    one=0 two=0
    wait $first || one=$?
    wait $second || two=$?
    # one was killed, the other exited with status 0
    [ $((one == 0)) -ne $((two == 0)) ] || { echo "status $one and $two; stderr:"; cat err2; false; }
    in_time 20 train --join run
    expect 2 "no asynchronous job that can be joined is running"
}

@test "async: a job that has lost all of its own workers continues with one that joined" {
    begin ${async} --out run --epochs 9999 --launch 2
    wait_for_step 1
    "$YOKE" train --join run >out2 2>err2 3>&- 4>&- &
    wait_for_message "a worker has joined; 2 are training now"
    signal_rank KILL 1
    wait_for_message "has died: declared lost"
    sleep 1.3
    kill -TERM "$BACKGROUND"
    finish 20
    expect 0 "stopped at step"
}

@test "bounded staleness: a killed or stopped worker does not block the others" {
    begin_async 20 --launch 5 --staleness 4
    signal_rank KILL 2
    signal_rank STOP 3
    finish 60
    all_examples 20
    expect 0 "rank 2" "rank 3"
}

last_step() { awk '$2 == "step" { n = $3 + 0 } END { print n + 0 }' err; }

examples_of() { # RANK
    tail -n 1 out | grep -o "\"rank\":$1,[^{}]*" | grep -o '"examples":[0-9]*' | tr -dc 0-9
}

@test "bounded staleness: the others do not wait for a returning worker to make up missed steps" {
    begin_async 9999 --launch 4 --staleness 8
    signal_rank STOP 3
    wait_for_message "rank 3 sent no heartbeat"
    wait_for_step $(($(last_step) + 3000)) # 1,500 steps of each of the others
    signal_rank CONT 3
    wait_for_message "rank 3 has sent a message again"
    wait_for_step $(($(last_step) + 6000)) # enough to catch up, if the others waited
    kill -INT "$BACKGROUND"
    finish 30
    expect 0
    holds "$(examples_of 1) - $(examples_of 3) > 1000"
}

@test "sync: a killed process ends the job within 10 s, and the error names its rank" {
    for way in "--launch 3 --servers 0" "--launch 3 --servers 1"; do
        begin_sync $way
        signal_rank KILL 2
        finish 10
        expect 1 "rank 2"
        no_process_is_left
        rm -rf run
    done
}

@test "sync: a stopped process ends the job within 10 s, and the error names its rank" {
    for way in "--launch 3 --servers 0 --deadline 4" "--launch 4 --servers 2"; do
        begin_sync $way
        signal_rank STOP 2
        finish 10
        expect 1 "rank 2"
        no_process_is_left
        rm -rf run
    done
}

@test "sync: a replica is killed or stopped during an all-reduce through shared memory" {
    for signal in STOP KILL; do
        begin train --model lenet5 --data 'synth:digits?examples=1003' --batch 64 --steps 1000000 --launch 2 \
            --deadline 2 --out run
        wait_for_step_after "gradients are all-reduced through shared memory"
        signal_rank $signal 1
        finish 7
        expect 1 "rank 1"
        no_process_is_left
        rm -rf run
    done
}

@test "a killed or stopped server ends the job within 10 s, and the error names its rank" {
    # its workers wait for it, and must not be declared lost
    for signal in KILL STOP; do
        begin_async 40 --launch 4 --servers 2
        signal_rank $signal 1
        finish 12
        expect 1 "rank 1"
        no_process_is_left
        rm -rf run
    done
    begin_async 40 --launch 4 --servers 2
    signal_rank STOP 0
    finish 12
    expect 1 "rank 0"
    no_process_is_left
    rm -rf run
    begin_sync --launch 3 --servers 1
    signal_rank KILL 0
    finish 12
    expect 1
    grep -q '"lost_workers": null' run/summary.json # only rank 0 knows it
}

@test "the launcher reports results that cannot be written" {
    status=0
    timeout -k 2 60 "$YOKE" $sync --steps 20 --launch 2 --out none >/dev/full 2>err || status=$?
    expect 4 "cannot write the results to stdout"
}

@test "restarts: after kill -9 and SIGSTOP the result is bit-identical to an uninterrupted run" {
    for way in "--launch 3 --servers 0" "--launch 3 --servers 1"; do
        begin_sync $way --restarts 3
        signal_rank KILL 1
        wait_for_message "restart 1 of 3"
        wait_for_step_after "resuming from"
        signal_rank STOP 2
        wait_for_message "restart 2 of 3"
        wait_for_message "resuming from" 2
        wait_for_step_after "resuming from"
        kill -INT "$BACKGROUND"
        finish 15
        expect 0 "restarting from the last checkpoint"
        in_time 60 $sync $way --steps "$(result_of steps)" --quiet --out whole
        expect 0
        same_bits whole run
        rm -rf whole run
    done
}

@test "restarts: their number is limited, and errors that would recur do not cause a restart" {
    begin_sync --launch 2 --restarts 1
    signal_rank KILL 1
    wait_for_message "restart 1 of 1"
    wait_for_message "resuming from"
    signal_rank KILL 1
    finish 20
    expect 1
    equal restarts "$(grep -c 'restarting from' err)" 1
    begin $sync --steps 1000000 --out none --launch 2 --restarts 1
    wait_for_message "step "
    signal_rank KILL 1
    wait_for_message "restarting from the beginning"
    wait_for_message "2 processes" 2
    kill -INT "$BACKGROUND"
    finish 15
    expect 0
    in_time 60 train --model softmax --data none-such --launch 3 --restarts 5 --out none
    expect 3 "none-such"
    does_not_say "restarting from"
    in_time 60 train --model softmax --data 'synth:digits?examples=500' --hosts nowhere --agent /bin/false --restarts 5 --out none
    [ "$status" -ne 0 ]
    [ -s err ]
    does_not_say "restarting from"
    in_time 60 train --model softmax --data 'synth:digits?examples=500' --lr 1e30 --launch 3 --restarts 5 --out none
    expect 1
    does_not_say "restarting from"
}

@test "SIGHUP and SIGTERM to the launcher save and end all processes; --resume gives bit-identical results" {
    for line in "HUP --launch 3 --servers 0" "TERM --launch 3 --servers 1"; do
        begin_sync ${line#* }
        kill "-${line%% *}" "$BACKGROUND"
        finish 15
        expect 0 "stopped at step"
        equal interrupted "$(result_of interrupted)" true
        [ -e "run/checkpoints/step-$(result_of steps)/DONE" ]
        no_process_is_left
        more=$(($(result_of steps) + 250))
        in_time 60 train --out run --resume --steps $more --quiet
        expect 0
        in_time 60 $sync ${line#* } --steps $more --quiet --out whole
        expect 0
        same_bits whole run
        rm -rf whole run
    done
}

# SIGTERM or SIGINT reaches some processes of a job, or all, at any time: one checkpoint, exit 0.
@test "SIGTERM to one process, to the group or to all processes at once: one checkpoint, status 0" {
    for way in "--launch 3 --servers 0" "--launch 3 --servers 1 --mode async"; do
        for to in 0 2 group all; do
            rm -rf run
            : >err
            setsid env --default-signal=INT,QUIT "$YOKE" $sync --steps 1000000 --out run $way >out 2>err 3>&- 4>&- &
            BACKGROUND=$!
            wait_for_step 200
            case $to in
            group) kill -TERM -- "-$BACKGROUND" ;;
            all) processes | xargs kill -INT ;;
            *) signal_rank TERM "$to" ;;
            esac
            finish 15
            expect 0 "stopped at step"
            equal interrupted "$(result_of interrupted)" true
            equal state "$(result_of state)" '"stopped"'
            [ -e "run/checkpoints/step-$(result_of steps)/DONE" ]
            equal "warnings and errors" "$(grep -v 'other programs used' err | grep -c 'yoke: ')" 0
            no_process_is_left
        done
    done
}

@test "SIGINT to an asynchronous job saves and ends; --resume uses every example once" {
    begin_async 9999 --launch 3
    end_and_complete
    grep -q '"interrupted":true' interrupted
}

@test "a second SIGINT ends the job at once; kill -9 of the launcher or its agent leaves no process and no file behind" {
    begin_sync --launch 3
    signal_rank STOP 1
    kill -INT "$BACKGROUND"
    sleep 0.3
    kill -INT "$BACKGROUND"
    finish 8
    [ "$status" -ne 0 ]
    no_process_is_left
    rm -rf run
    begin_sync --launch 3
    kill -KILL "$BACKGROUND"
    finish 5
    [ "$status" -eq 137 ]
    no_process_is_left
    no_file_is_left
    # its agent: all ranks die with it, and the job restarts
    rm -rf run
    begin_sync --launch 3 --restarts 1
    pkill -KILL -P "$BACKGROUND"
    wait_for_message "restart 1 of 1"
    wait_for_step_after "resuming from"
    pkill -KILL -P "$BACKGROUND"
    finish 5
    expect 1 "the job was lost: ranks 0, 1, 2 on host $(uname -n) were lost: their agent has ended"
}

@test "async, sparse data in chunks: a new worker joins, and every example is used once per epoch" {
    begin train --model logreg --data "synth:ctr?features=20000&examples=70003" --mode async --batch 100 --epochs 99999 --launch 3 \
        --servers 1 --out run --json
    wait_for_message "train loss"
    "$YOKE" train --join run >out2 2>err2 3>&- 4>&- &
    local second=$!
    wait_for_message "a worker has joined"
    wait_for_step_after "a worker has joined" # an epoch
    sleep 0.5 # an epoch takes a few milliseconds, fewer than the first lease of the new worker
    kill -INT "$BACKGROUND"
    finish 30
    expect 0
    wait $second
    grep -q 'trained on [1-9][0-9]* examples' err2
    equal "joined" "$(result_of joined_workers)" 1
    epochs=$(($(result_of examples) / 70003 + 2))
    in_time 60 train --out run --resume --epochs $epochs --quiet --json
    expect 0
    equal "examples" "$(result_of examples)" $((70003 * epochs))
}
