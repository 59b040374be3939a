#!/usr/bin/env bats
# --quorum M: one step applies M gradients. Steps, epochs, evaluations, checkpoints and learning rate schedules count
# these steps; later gradients are dropped and counted.

setup() { load cli; load cluster; cluster_setup; }
teardown() { cluster_teardown; }

digits='synth:digits?examples=507'
clicks='synth:ctr?features=500&examples=1003'

# The steps of the evaluations in a run's metrics.jsonl, on one line.
evaluated() { # RUN
    sed -n 's/.*"kind":"eval","step":\([0-9]*\),.*/\1/p' "$1/metrics.jsonl" | paste -s -d ' '
}

@test "--steps N takes exactly N steps; evaluations and checkpoints happen at the requested steps" {
    for servers in 1 2; do
        in_time 60 train --model softmax --data "$digits" --batch 10 --launch $((3 + servers)) --servers $servers --mode sync \
            --quorum 2 --steps 60 --eval-every 20 --checkpoint-every 25 --json --out run
        expect 0 "3 workers, synchronous with a quorum of 2, batch 10 per worker (global batch 20)"
        equal "steps, mode, batch" "$(result_of steps) $(result_of mode) $(result_of global_batch)" '60 "sync" 20'
        equal evaluations "$(evaluated run)" "0 20 40 60"
        equal checkpoints "$(ls run/checkpoints | paste -s -d ' ')" "step-50 step-60"
        # every gradient belongs to a step or is late; the last batch of an epoch is short
        holds "60 * 20 - 6 * 9 <= $(result_of examples) <= 60 * 20"
        equal epochs "$(result_of epochs)" $((($(result_of examples) + $(result_of late_examples)) / 507))
        grep -qF "{\"kind\":\"eval\",\"step\":60,\"examples\":$(result_of examples)," run/metrics.jsonl
        rm -rf run
    done
}

@test "--epochs: every example is used or late once per epoch, with one evaluation each; also streamed, from files, with local steps" {
    seq 300 | awk '{ print $1 % 2, ($1 % 9 + 1) ":1" }' >a.libsvm # a stream of unknown length
    while read -r examples servers how; do
        in_time 60 train --batch 10 --epochs 3 --launch $((3 + servers)) --servers $servers --quorum 2 $how --quiet --json --out run
        expect 0
        equal "examples ($how)" $(($(result_of examples) + $(result_of late_examples))) $((3 * examples))
        equal "epochs ($how)" "$(result_of epochs)" 3
        equal "evaluations ($how)" "$(evaluated run | sed 's/^0 //' | wc -w)" 3 # without the one before the first step
        equal "last evaluation ($how)" "$(evaluated run | sed 's/.* //')" "$(result_of steps)"
        rm -rf run
    done <<END
507 1 --model softmax --data $digits
1003 2 --model logreg --data $clicks
507 1 --model softmax --data $digits --stream always --local-steps 4
300 1 --model logreg --data libsvm:a.libsvm --stream always --test none
END
}

@test "a slow worker is late and does not delay the others; a resumed run adds to the late counts" {
    one="train --model softmax --data $digits --batch 10 --launch 4 --servers 1 --quorum 2 --quiet --json --out run"
    YOKE=$HOOKS YK_SLOW_WORKER=0:500ms in_time 60 $one --steps 40 # longer than a step of the others on any host; the last one is late, too
    expect 0
    equal steps "$(result_of steps)" 40
    [ "$(result_of late_gradients)" -gt 0 ]
    in_time 60 $one --resume --epochs 3
    expect 0
    equal "examples and epochs" "$(($(result_of examples) + $(result_of late_examples))) $(result_of epochs)" "1521 3"
}

@test "with local steps, evaluations and the end happen at the requested steps, too" {
    for what in "softmax --data $digits" "logreg --data $clicks"; do
        YOKE=$HOOKS YK_SLOW_WORKER=1:3ms in_time 60 train --model $what --batch 10 --launch 4 --servers 1 --quorum 2 --local-steps 4 \
            --steps 50 --eval-every 15 --quiet --json --out run
        expect 0
        equal steps "$(result_of steps)" 50
        equal evaluations "$(evaluated run)" "0 15 30 45 50"
        rm -rf run
    done
}

@test "learning rates can decay by steps but not by epochs" {
    one="train --model softmax --data $digits --batch 10 --launch 4 --servers 1 --quorum 2 --lr-schedule step --lr-decay 1e-300 --quiet"
    # the learning rate is 0 from step 10 on
    in_time 60 $one --lr-decay-every 10 --steps 15 --checkpoint-every 10 --out run
    expect 0
    diff -q <(values run/checkpoints/step-10/model.safetensors) <(values run/checkpoints/step-15/model.safetensors)
    weights run | grep -q '[1-9]'
    in_time 60 $one --lr-decay-epochs 1 --out none
    expect 2 "with --quorum the number of steps in an epoch is not known"
}

@test "all servers use the same gradients for a step" {
    for servers in 1 2; do # with one worker, results must be bit-identical
        in_time 60 train --model logreg --data "$clicks" --batch 10 --launch $((1 + servers)) --servers $servers --quorum 1 \
            --epochs 2 --quiet --out run-$servers
        expect 0
    done
    same_bits run-1 run-2
    # with a quorum of all workers, no gradient is late
    in_time 60 train --model softmax --data "$digits" --batch 10 --launch 5 --servers 2 --quorum 3 --epochs 3 --quiet --json --out none
    expect 0
    equal "examples, late" "$(result_of examples) $(result_of late_gradients)" "1521 0"
}

@test "with two servers, the others continue when a worker is killed" {
    begin train --model softmax --data "$digits" --batch 2 --launch 5 --servers 2 --quorum 2 --epochs 20 --eval-every 100 \
        --deadline 2 --json --out none
    wait_for_step 200
    signal_rank KILL 3
    finish 60
    expect 0 "rank 3"
    equal "examples and epochs" "$(($(result_of examples) + $(result_of late_examples))) $(result_of epochs)" "10140 20"
}

@test "streamed: after a worker is killed, the others read its part of the data" {
    begin train --model softmax --data "$digits" --stream always --batch 2 --launch 4 --servers 1 --quorum 2 --epochs 8 \
        --eval-every 100 --deadline 2 --json --out none
    wait_for_step 200
    signal_rank KILL 2
    finish 60
    expect 0 "rank 2"
    equal "examples and epochs" "$(($(result_of examples) + $(result_of late_examples))) $(result_of epochs)" "4056 8"
}

@test "the live page shows the mode as synchronous" {
    begin train --model softmax --data "$digits" --batch 10 --launch 4 --servers 1 --quorum 2 --steps 1000000 --http 0 --out none
    wait_for_message "live page:"
    python3 - "$(sed -n 's/.*live page: //p' err)" <<'END'
import json, sys, urllib.request
url = sys.argv[1]
assert json.loads(urllib.request.urlopen(url + "status.json", timeout=20).read())["mode"] == "synchronous"
assert 'mode="sync"' in urllib.request.urlopen(url + "metrics", timeout=20).read().decode()
END
    kill -INT "$BACKGROUND"
    finish 20
    expect 0
}

@test "a sweep counts the same steps: M gradients per step" {
    cat >my.ini <<END
[sweep]
examples = 1000
eval-examples = 500
[train]
model = softmax
data = synth:digits?examples=500&test=100
batch = 10
launch = 4
[grid]
quorum = 0 2
END
    try sweep my.ini --dry-run
    expect 0
    grep -qx "   1  25 steps         quorum=0" out
    grep -qx "   2  50 steps         quorum=2" out
    grep -q ": about 75 steps and 2000 examples in total" out
    try sweep my.ini --dry-run --set epochs=3
    expect 0
    grep -qx "   2  3 epochs         quorum=2" out
    grep -q "not known in advance" out
    try sweep my.ini --set quorum=2 --no-report --quiet --out s
    expect 0
    equal steps "$(evaluated s/*-*)" "0 25 50"
    grep -q '"examples": 1000,' s/*-*/summary.json
}
