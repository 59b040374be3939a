#!/usr/bin/env bats
# --local-steps with servers: workers train on copies of their own for some steps, and servers add how these have changed. In step that
# is what replicas do that average every so many steps; freely it ends, learns, and uses every example once.

setup() { load cli; load cluster; cluster_setup; }
teardown() { cluster_teardown; }

digits='synth:digits?examples=507'
clicks='synth:ctr?features=5000&examples=1003'

# Three workers with 1 and 2 servers come to what three replicas come to, to rounding; and the same way twice to the bit.
equals_replicas() { # OPTION...
    local k loss test
    rm -rf run-*
    in_time 60 train "$@" --launch 3 --servers 0 --quiet --json --out run-0
    expect 0
    steps=$(said steps) examples=$(said examples) loss=$(said train_loss) test=$(said test_loss)
    for k in 1 2; do
        in_time 60 train "$@" --launch $((3 + k)) --servers $k --quiet --json --out "run-$k"
        expect 0
        equal "workers, servers ($*)" "$(said workers) $(said servers)" "3 $k"
        equal "steps and examples ($*)" "$(said steps) $(said examples)" "$steps $examples"
        close "$(said train_loss)" "$loss"
        close "$(said test_loss)" "$test"
        same_weights run-0 "run-$k"
    done
    in_time 60 train "$@" --launch 5 --servers 2 --quiet --out run-again
    expect 0
    same_bits run-2 run-again
}

@test "softmax, logreg and lenet5 in step: what replicas with local steps come to; the same bits each time" {
    equals_replicas --model softmax --data "$digits" --batch 10 --epochs 3 --lr 0.3 --local-steps 4
    equals_replicas --model logreg --data "$clicks" --batch 20 --epochs 3 --lr 0.5 --local-steps 4
    equals_replicas --model lenet5 --data 'synth:digits?examples=150' --batch 8 --lr 0.02 --local-steps 4
}

@test "optimizers with state, which is averaged, too" {
    for rule in "momentum --lr 0.05 --l2 1e-3" adagrad "adam --lr 0.01"; do
        equals_replicas --model softmax --data "$digits" --batch 10 --local-steps 4 --optimizer $rule
    done
    for rule in "ftrl --l1 0.01" adagrad "momentum --lr 0.05"; do
        equals_replicas --model logreg --data "$clicks" --batch 20 --local-steps 4 --optimizer $rule
    done
}

@test "weight decay that is caught up on, rates that fall, tests and checkpoints that cut rounds short" {
    sgd="--model logreg --data $clicks --batch 20 --epochs 2 --lr 0.5 --local-steps 4"
    equals_replicas $sgd --l2 1e-2
    equals_replicas $sgd --l1 1e-3 --l2 1e-3 --lr-schedule inverse --lr-decay 0.1
    equals_replicas $sgd --l2 1e-2 --eval-every 10 --checkpoint-every 7
    equal "tests" "$(grep -c '"test_loss"' run-2/metrics.jsonl)" 4
    [ -e run-2/checkpoints/step-28/DONE ]
    equals_replicas --model softmax --data "$digits" --batch 10 --local-steps 5 --lr 0.3 --lr-schedule step \
        --lr-decay-every 9 --lr-decay 0.5
}

@test "a round of one worker that has all examples is plain training" {
    # a mean of one: the copy's steps are the only ones
    one="train --model logreg --data $clicks --batch 20 --lr 0.5 --l2 1e-3 --quiet --json"
    in_time 60 $one --out serial
    expect 0
    in_time 60 $one --launch 2 --servers 1 --local-steps 6 --out sync
    expect 0
    same_weights serial sync
    in_time 60 $one --launch 3 --servers 2 --mode async --local-steps 6 --out async
    expect 0
    equal "steps and examples" "$(said steps) $(said examples)" "51 1003"
}

@test "uneven ends, streams and --steps in the middle: every example once" {
    for way in "--servers 1" "--servers 2" "--mode async" "--servers 2 --staleness 5" "--stream always" \
        "--mode async --stream always"; do
        for examples in 1 7 211; do
            in_time 60 train --model logreg --data "synth:ctr?features=500&examples=$examples" --test none --batch 2 \
                --epochs 3 --local-steps 3 --launch 4 --out none --quiet --json $way
            expect 0
            equal "examples ($examples $way)" "$(said examples)" $((3 * examples))
        done
        in_time 60 train --model softmax --data "$digits" --batch 10 --steps 23 --local-steps 5 --launch 4 --out none \
            --quiet --json $way
        expect 0
        case $way in
        *async*stream*) [ "$(said steps)" -ge 23 ] ;; # nobody deals those out: what is under way then counts, too
        *) equal "steps ($way)" "$(said steps)" 23 ;;
        esac
    done
}

@test "async, bounded and with a quorum: it learns as much as in step" {
    one="train --data synth:digits?examples=3000 --model softmax --batch 10 --lr 0.3 --epochs 4 --out none --quiet --json"
    in_time 60 $one --launch 3 --local-steps 8
    expect 0
    loss=$(said test_loss) accuracy=$(said test_accuracy)
    holds "$accuracy > 0.75"
    for way in "--launch 4 --mode async" "--launch 5 --servers 2 --mode async" "--launch 4 --staleness 10" \
        "--launch 4 --servers 1 --quorum 2"; do
        in_time 60 $one --local-steps 8 $way
        expect 0
        holds "$(said test_loss) < $loss * 1.25 and $(said test_accuracy) > $accuracy - 0.06"
    done
}

@test "async, steps of many: it does not swing up" {
    # in full, the changes of three workers at once overshoot (store/changes.h)
    for rule in "sgd --lr 0.5" "momentum --lr 0.05" "adagrad --lr 0.1" "adam --lr 0.01" "ftrl --lr 0.3"; do
        in_time 60 train --model logreg --data 'synth:ctr?features=5000&examples=20011' --batch 10 --mode async --launch 4 \
            --local-steps 64 --optimizer $rule --out none --quiet --json
        expect 0
        equal "examples" "$(said examples)" 20011
        holds "$(said test_loss) < 0.62 and $(said test_auc) > 0.6"
    done
}

@test "bounded staleness counts the steps of others, and holds" {
    in_time 60 train --model softmax --data "$digits" --batch 3 --epochs 3 --launch 4 --staleness 12 --local-steps 4 \
        --out none --quiet --json
    expect 0
    # when a worker may go on each of two others is at most 12 - 4 steps behind it, and when it is done at most 12 ahead
    holds "0 < $(tail -n 1 out | grep -o '"observed_staleness":{[^}]*' | grep -o '"max":[0-9.]*' | tr -dc 0-9.) <= 2 * 20"
}

@test "what travels: H steps for one trip, and every byte is accounted for" {
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
            equal steps "$(said steps)" 96
            read -r pull _ <<<"$(traffic pull)"
            read -r push _ <<<"$(traffic push)"
            bytes="$bytes $((pull + push))"
        done
        read -r each eighth <<<"$bytes"
        holds "6.5 < $each / $eighth < 9.5"
    done
}

@test "where it goes: replicas in step, shards otherwise; and what cannot be is said" {
    one="train --model softmax --data $digits --batch 10 --local-steps 4 --out none --json"
    for line in "replicas:" "shards:--mode async" "shards:--staleness 4" "shards:--quorum 2" "servers:--servers 2"; do
        in_time 60 $one --launch 4 ${line#*:}
        expect 0
        equal "placement (${line#*:})" "$(said placement)" "\"${line%%:*}\""
    done
    in_time 60 $one --launch 4 --servers 1
    expect 0 "--local-steps"
    in_time 60 $one --launch 4 --staleness 3
    expect 2 "--staleness 3 cannot be guaranteed with --local-steps 4"
    in_time 60 $one --launch 4 --servers 0 --mode async
    expect 2 "--servers 0 (replicas) needs --mode sync"
    in_time 60 $one
    expect 2 "--launch N"
}

# ---- going on, and faults ----

sync="train --model softmax --data synth:digits?examples=1003 --optimizer momentum --batch 4 --local-steps 3 --eval-every 200
    --checkpoint-every 300 --json --deadline 2"
async="train --model softmax --data synth:digits?examples=1003 --batch 2 --mode async --servers 1 --local-steps 3 --eval-every 400 --json
    --deadline 2"

@test "a stopped job that goes on comes to the same bits, of what is streamed, too" {
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

@test "kill -9 of a worker, with --restarts: the bits of an undisturbed run" {
    begin $sync --steps 1000000 --launch 5 --servers 2 --restarts 3 --out run
    until_step 400
    remember_job
    signal_rank KILL 4
    until_said "restart 1 of 3"
    until_said "resuming from"
    sleep 0.3
    kill -INT "$BACKGROUND"
    finish 15
    expect 0 "restarting from the last checkpoint"
    in_time 60 $sync --launch 5 --servers 2 --steps "$(said steps)" --quiet --out whole
    expect 0
    same_bits whole run
}

@test "async: workers that are killed or stopped do not stop the others, and nothing is used twice" {
    # a round takes more than one run of examples: one that wakes up in it holds some that are not its own any more, and gets new ones
    begin $async --local-steps 40 --epochs 9999 --launch 5 --out run
    until_step 400
    remember_job
    signal_rank KILL 2
    signal_rank STOP 3
    until_said "rank 3 sent no heartbeat"
    signal_rank CONT 3
    until_said "rank 3 is back"
    sleep 0.3
    kill -INT "$BACKGROUND"
    finish 30
    expect 0 "rank 2"
    epochs=$(($(said examples) / 1003 + 2))
    in_time 60 train --out run --resume --epochs $epochs --launch 3 --quiet --json
    expect 0
    equal examples "$(said examples)" $((1003 * epochs))
}

@test "async: one that joins makes local steps as the others do" {
    begin $async --epochs 9999 --launch 3 --out run
    until_step 400
    remember_job
    "$YOKE" train --join run >out2 2>err2 3>&- 4>&- &
    joined=$!
    until_said "a worker has joined: 3 train now"
    sleep 0.5
    kill -INT "$BACKGROUND"
    finish 20
    expect 0
    status=0
    wait $joined || status=$?
    equal "the joined one's end" "$status" 0
    grep -E 'trained on [1-9][0-9]* examples' err2
}

@test "a round that takes longer than the deadline is no silence" {
    # 60 steps of 80 ms: 4.8 s without a push, where 2 s of silence are too many
    YK_SLOW_WORKER=1:80ms in_time 60 train --model softmax --data "$digits" --batch 2 --steps 240 --mode async --launch 3 \
        --local-steps 60 --deadline 4 --out none --json
    expect 0
    says_not "sent no heartbeat"
    equal steps "$(said steps)" 240
}
