#!/usr/bin/env bats
# Local SGD with servers (--local-steps): workers train for some steps on their own copies, and servers apply the deltas. Synchronous
# jobs equal replicas that average every H steps; asynchronous jobs end, learn, and use every example once.

setup() { load cli; load cluster; cluster_setup; }
teardown() { cluster_teardown; }

digits='synth:digits?examples=507'
clicks='synth:ctr?features=5000&examples=1003'

# Three workers with these numbers of servers equal three replicas up to rounding.
equals_replicas() { # SERVERS OPTION...
    local k loss test servers=$1
    shift
    rm -rf run-*
    in_time 60 train "$@" --launch 3 --servers 0 --quiet --json --out run-0
    expect 0
    steps=$(result_of steps) examples=$(result_of examples) loss=$(result_of train_loss) test=$(result_of test_loss)
    for k in $servers; do
        in_time 60 train "$@" --launch $((3 + k)) --servers $k --quiet --json --out "run-$k"
        expect 0
        equal "workers, servers ($*)" "$(result_of workers) $(result_of servers)" "3 $k"
        equal "steps and examples ($*)" "$(result_of steps) $(result_of examples)" "$steps $examples"
        close "$(result_of train_loss)" "$loss"
        close "$(result_of test_loss)" "$test"
        same_weights run-0 "run-$k"
    done
}

# The same with 1 and 2 servers; repeated runs are bit-identical.
equals_replicas_and_itself() { # OPTION...
    equals_replicas "1 2" "$@"
    in_time 60 train "$@" --launch 5 --servers 2 --quiet --out run-again
    expect 0
    same_bits run-2 run-again
}

@test "synchronous softmax, logreg and lenet5 equal replicas with local steps; results are reproducible" {
    equals_replicas_and_itself --model softmax --data "$digits" --batch 10 --epochs 3 --lr 0.3 --local-steps 4
    equals_replicas_and_itself --model logreg --data "$clicks" --batch 20 --epochs 3 --lr 0.5 --local-steps 4
    equals_replicas_and_itself --model lenet5 --data 'synth:digits?examples=150' --batch 8 --lr 0.02 --local-steps 4
}

@test "optimizer state is averaged, too" {
    for rule in "momentum --lr 0.05 --l2 1e-3" "adam --lr 0.01"; do
        equals_replicas 2 --model softmax --data "$digits" --batch 10 --local-steps 4 --optimizer $rule
    done
    for rule in "ftrl --l1 0.01" adagrad; do
        equals_replicas 2 --model logreg --data "$clicks" --batch 20 --local-steps 4 --optimizer $rule
    done
}

@test "lazy weight decay, learning rate schedules, evaluations and checkpoints in the middle of a round" {
    sgd="--model logreg --data $clicks --batch 20 --epochs 2 --lr 0.5 --local-steps 4"
    equals_replicas 2 $sgd --l2 1e-2
    equals_replicas 2 $sgd --l1 1e-3 --l2 1e-3 --lr-schedule inverse --lr-decay 0.1
    equals_replicas 2 $sgd --l2 1e-2 --eval-every 10 --checkpoint-every 7
    equal "tests" "$(grep -c '"test_loss"' run-2/metrics.jsonl)" 5
    [ -e run-2/checkpoints/step-28/DONE ]
    equals_replicas 2 --model softmax --data "$digits" --batch 10 --local-steps 5 --lr 0.3 --lr-schedule step \
        --lr-decay-every 9 --lr-decay 0.5
}

@test "with one worker, local SGD equals serial training" {
    # the mean of a single copy is that copy
    one="train --model logreg --data $clicks --batch 20 --lr 0.5 --l2 1e-3 --quiet --json"
    in_time 60 $one --out serial
    expect 0
    in_time 60 $one --launch 2 --servers 1 --local-steps 6 --out sync
    expect 0
    same_weights serial sync
    in_time 60 $one --launch 3 --servers 2 --mode async --local-steps 6 --out async
    expect 0
    equal "steps and examples" "$(result_of steps) $(result_of examples)" "51 1003"
}

@test "uneven work, streams and --steps within an epoch: every example once" {
    for way in "--servers 1" "--servers 2" "--mode async" "--servers 2 --staleness 5" "--stream always" \
        "--mode async --stream always"; do
        for examples in 1 211; do
            in_time 60 train --model logreg --data "synth:ctr?features=500&examples=$examples" --test none --batch 2 \
                --epochs 3 --local-steps 3 --launch 4 --out none --quiet --json $way
            expect 0
            equal "examples ($examples $way)" "$(result_of examples)" $((3 * examples))
        done
        in_time 60 train --model softmax --data "$digits" --batch 10 --steps 23 --local-steps 5 --launch 4 --out none \
            --quiet --json $way
        expect 0
        case $way in
        *async*stream*) [ "$(result_of steps)" -ge 23 ] ;; # blocks of a stream are not leased: steps in progress count, too
        *) equal "steps ($way)" "$(result_of steps)" 23 ;;
        esac
    done
}

@test "asynchronous, bounded staleness and quorum: the model learns as well as in synchronous mode" {
    one="train --data synth:digits?examples=3000 --model softmax --batch 10 --lr 0.3 --epochs 4 --out none --quiet --json"
    in_time 60 $one --launch 3 --local-steps 8
    expect 0
    loss=$(result_of test_loss) accuracy=$(result_of test_accuracy)
    holds "$accuracy > 0.75"
    for way in "--launch 4 --mode async" "--launch 5 --servers 2 --mode async" "--launch 4 --staleness 10" \
        "--launch 4 --servers 1 --quorum 2"; do
        in_time 60 $one --local-steps 8 $way
        expect 0
        holds "$(result_of test_loss) < $loss * 1.25 and $(result_of test_accuracy) > $accuracy - 0.06"
    done
}

@test "asynchronous, many local steps: training does not oscillate" {
    # undamped, the deltas of three concurrent workers overshoot (store/local_copy.h)
    for rule in "sgd --lr 0.5" "momentum --lr 0.05" "adagrad --lr 0.1" "adam --lr 0.01" "ftrl --lr 0.3"; do
        in_time 60 train --model logreg --data 'synth:ctr?features=5000&examples=20011' --batch 10 --mode async --launch 4 \
            --local-steps 64 --optimizer $rule --out none --quiet --json
        expect 0
        equal "examples" "$(result_of examples)" 20011
        holds "$(result_of test_loss) < 0.62 and $(result_of test_auc) > 0.6"
    done
}

@test "asynchronous, a round is longer than an epoch: evaluates every few epochs, and skips none" {
    # 20 steps per epoch, 10 with two threads in each process; all pushes have up to 32 steps, so that each passes at most one
    for line in "0 40 80 120 160 200 240:" "0 40 80 120:--workers 2"; do
        in_time 60 train --model softmax --data 'synth:digits?examples=1000&test=100' --batch 50 --epochs 12 --mode async --launch 2 \
            --local-steps 32 ${line#*:} --out run
        expect 0 "evaluating every"
        python3 - ${line%%:*} <<'END'
import json, sys
due, steps = list(map(int, sys.argv[1:])), [o["step"] for o in map(json.loads, open("run/metrics.jsonl")) if o["kind"] == "eval"]
# if the threads of a process got different numbers of examples, the last step may come after the last evaluation that was due
assert len(due) <= len(steps) <= len(due) + 1 and all(d <= s < d + 40 for d, s in zip(due, steps)) and steps[-1] < due[-1] + 40, steps
END
        rm -r run
    done
}

@test "the staleness bound counts steps of other workers, and holds" {
    in_time 60 train --model softmax --data "$digits" --batch 3 --epochs 3 --launch 4 --staleness 12 --local-steps 4 \
        --out none --quiet --json
    expect 0
    # when a worker starts a round, each of the three others is at most 12 - 4 steps behind; when it ends, at most 12 ahead
    holds "0 < $(tail -n 1 out | grep -o '"observed_staleness":{[^}]*' | grep -o '"max":[0-9.]*' | tr -dc 0-9.) <= 3 * 20"
}

@test "traffic: one exchange per H steps, and every byte is accounted for" {
    for what in "--model softmax --data $digits" "--model logreg --data $clicks"; do
        for way in "--servers 1" "--servers 2" "--servers 1 --mode async" "--servers 2 --staleness 8"; do
            in_time 60 train $what --batch 5 --local-steps 8 --launch 4 $way --out none --quiet --json
            expect 0
            for purpose in pull push all-reduce control; do
                read -r sent received messages messages_received <<<"$(traffic $purpose)"
                equal "$purpose ($what $way)" "$received" "$sent"
                equal "messages for $purpose ($what $way)" "$messages_received" "$messages"
            done
        done
    done
    for mode in sync async; do
        bytes=
        for h in 0 8; do
            in_time 60 train --model softmax --data "$digits" --batch 5 --steps 96 --mode $mode --local-steps $h --launch 3 \
                --servers 1 --out none --quiet --json
            expect 0
            equal steps "$(result_of steps)" 96
            read -r pull _ <<<"$(traffic pull)"
            read -r push _ <<<"$(traffic push)"
            bytes="$bytes $((pull + push))"
        done
        read -r each eighth <<<"$bytes"
        holds "6.5 < $each / $eighth < 9.5"
    done
}

@test "placement: replicas if synchronous, shards otherwise; invalid combinations are rejected" {
    one="train --model softmax --data $digits --batch 10 --local-steps 4 --out none --json"
    for line in "replicas:" "shards:--mode async" "shards:--staleness 4" "shards:--quorum 2" "servers:--servers 2"; do
        in_time 60 $one --launch 4 ${line#*:}
        expect 0
        equal "placement (${line#*:})" "$(result_of placement)" "\"${line%%:*}\""
    done
    in_time 60 $one --launch 4 --servers 1
    expect 0 "--local-steps"
    in_time 60 $one --launch 4 --staleness 3
    expect 2 "--staleness 3 cannot be guaranteed with --local-steps 4"
    in_time 60 $one --launch 4 --servers 0 --mode async
    expect 2 "--servers 0 (replicas) needs --mode sync"
    in_time 60 $one
    expect 0 "--local-steps has no effect in one process"
}

# ---- resume and faults ----

sync="train --model softmax --data synth:digits?examples=1003 --optimizer momentum --batch 4 --local-steps 3 --eval-every 200
    --checkpoint-every 300 --json --deadline 2"
async="train --model softmax --data synth:digits?examples=1003 --batch 2 --mode async --servers 1 --local-steps 3 --eval-every 400 --json
    --deadline 2"

@test "a stopped job resumes with bit-identical results, also when streaming" {
    for what in "--model logreg --data $clicks --l2 1e-3" "--model logreg --data $clicks --stream always" \
        "--model softmax --data $digits --optimizer adam"; do
        one="$what --batch 10 --launch 4 --servers 2 --local-steps 4 --quiet --checkpoint-every 30"
        in_time 60 train $one --steps 60 --out whole
        expect 0
        in_time 60 train $one --steps 30 --out part
        expect 0
        in_time 60 train --out part --resume --steps 60 --quiet
        expect 0
        same_bits whole part
        rm -rf whole part
    done
}

@test "kill -9 of a worker, with --restarts: bit-identical to an uninterrupted run" {
    begin $sync --steps 1000000 --launch 5 --servers 2 --restarts 3 --out run
    wait_for_step 400
    signal_rank KILL 4
    wait_for_message "restart 1 of 3"
    wait_for_step_after "resuming from"
    kill -INT "$BACKGROUND"
    finish 15
    expect 0 "restarting from the last checkpoint"
    in_time 60 $sync --launch 5 --servers 2 --steps "$(result_of steps)" --quiet --out whole
    expect 0
    same_bits whole run
}

@test "asynchronous: after workers are killed or stopped, the others continue; no example is used twice" {
    # a round uses more than one lease: a worker that is continued in it holds a lease that has expired, and gets a new one
    begin $async --local-steps 40 --epochs 9999 --launch 5 --out run
    wait_for_step 400
    signal_rank KILL 2
    signal_rank STOP 3
    wait_for_message "rank 3 sent no heartbeat"
    signal_rank CONT 3
    wait_for_message "rank 3 has sent a message again"
    sleep 0.3
    kill -INT "$BACKGROUND"
    finish 30
    expect 0 "rank 2"
    epochs=$(($(result_of examples) / 1003 + 2))
    in_time 60 train --out run --resume --epochs $epochs --launch 3 --quiet --json
    expect 0
    equal examples "$(result_of examples)" $((1003 * epochs))
}

@test "asynchronous: a worker that joins makes local steps like the others" {
    begin $async --epochs 9999 --launch 3 --out run
    wait_for_step 400
    "$YOKE" train --join run >out2 2>err2 3>&- 4>&- &
    joined=$!
    wait_for_message "a worker has joined; 3 are training now"
    sleep 0.5
    kill -INT "$BACKGROUND"
    finish 20
    expect 0
    status=0
    wait $joined || status=$?
    equal "exit status of the joined worker" "$status" 0
    grep -E 'trained on [1-9][0-9]* examples' err2
}

@test "a worker in a round longer than the heartbeat timeout is not declared lost" {
    # 60 steps of 80 ms: 4.8 s without a push, with --deadline 4
    YOKE=$HOOKS YK_SLOW_WORKER=1:80ms in_time 60 train --model softmax --data "$digits" --batch 2 --steps 240 --mode async --launch 3 \
        --local-steps 60 --deadline 4 --out none --json
    expect 0
    does_not_say "sent no heartbeat"
    equal steps "$(result_of steps)" 240
}
