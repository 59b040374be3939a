#!/usr/bin/env bats
# Warnings about mistakes, one run for each; and none where there is no mistake. ./dev inject has more of both.

setup() { load cli; cli_setup; }
teardown() { cli_teardown; }

# The kinds of the warnings of the last run, except that the host is busy.
kinds() {
    python3 -c '
import json
print(*(w["kind"] for w in json.load(open("out"))["warnings"] if w["kind"] != "busy_host"))'
}

warned() { # KINDS COMMAND...
    local wanted=$1
    shift
    try train "$@" --json --quiet --out none
    expect 0
    if [ -z "$wanted" ] && grep 'learning rate' err; then return 1; fi
    [ "$(kinds)" = "$wanted" ] || { echo "$*: warnings are '$(kinds)', not '$wanted'"; return 1; }
}

clicks_files() {
    "$YOKE" data gen 'synth:ctr?features=5000&examples=3000' --out clicks.libsvm --format libsvm >/dev/null 2>&1
    awk '$1 > 0' clicks.libsvm >one.libsvm
    awk '{ print $0, "6000:" ($1 > 0 ? 1 : -1) }' clicks.libsvm >leak.libsvm
    awk '{ print $1, "1:1 2:0.5 7:1" }' clicks.libsvm >constant.libsvm
    "$YOKE" data gen 'synth:ctr?features=300&examples=6000' --out all.libsvm --format libsvm >/dev/null 2>&1
    head -n 5000 all.libsvm >train.libsvm
    tail -n 1000 all.libsvm | awk '{ $1 = 1 - $1; print }' >reversed.libsvm
}

softmax="--model softmax --data synth:digits?examples=2000&test=500"

@test "a learning rate that is far too small, and overfitting" {
    warned learning_rate_too_small $softmax --lr 1e-6 --epochs 3
    for schedule in constant cosine one-cycle; do
        warned learning_rate_too_small $softmax --warm-up 1000000 --epochs 3 --lr-schedule $schedule
        holds "'ended after 96 of the 1000000 steps of the warm-up' in '''$(field warnings)'''"
    done
    warned overfitting --model softmax --data 'synth:digits?examples=200&test=500' --lr 1 --epochs 150
    holds "'at epoch' in '''$(field warnings)'''"
}

@test "a regression that is worse than predicting the mean label" {
    seq 400 | awk 'BEGIN { print "y,a,b" } { print 30 + $1 % 9 "," $1 % 9 / 9 "," $1 % 7 / 7 }' >numbers.csv
    regression="--model linear --data csv:numbers.csv?label=y&split=0.5 --test csv:numbers.csv?label=y&split=0.5..1"
    warned worse_than_mean $regression --lr 0.001
    warned "" $regression --epochs 40
    try train $regression --lr 1e30 --out none
    expect 1 "the training loss is"
    run ! grep -q -- "-nan" err
}

@test "data: one class, equal features, reversed labels, a leaked label, test examples in the training set, hash collisions, a batch larger than the data" {
    clicks_files
    clicks="--model logreg --epochs 2 --data"
    warned one_class $clicks libsvm:one.libsvm --test none
    warned constant_features $clicks libsvm:constant.libsvm --test none
    warned worse_than_chance $clicks libsvm:train.libsvm --test libsvm:reversed.libsvm
    warned label_leak $clicks libsvm:leak.libsvm --test none
    warned test_in_training $clicks libsvm:clicks.libsvm --test libsvm:clicks.libsvm --epochs 8
    warned hash_collisions $clicks libsvm:clicks.libsvm --hash-bits 9 --test none
    warned batch_too_large --model softmax --data 'synth:digits?examples=60&test=200' --batch 64 --epochs 20
    try train --model softmax --data 'synth:digits?examples=60&test=20' --batch 64 --epochs 2 --out none
    expect 0 "fewer than the 64 of one global batch: an epoch is a single step; use a smaller --batch"
    [ "$(grep -c 'global batch:' err)" = 1 ]
    sed '/global batch:/,$d' err >before # at the start
    ! grep -q '^step' before
    warned "" $clicks libsvm:clicks.libsvm --hash-bits 20 --test none
}

@test "labels: shuffled, other ones in the test set, counted from 1; features that are not scaled" {
    awk 'function u() { return rand() - 0.5 }
        BEGIN { srand(3); for (i = 0; i < 5000; i++) { a = u(); b = u(); y = a + b + 0.2 * u() > 0
            f = i < 4000 ? "train" : "test"; print y "," a "," b "," u() >f ".csv"
            print (rand() < 0.5) "," a "," b "," u() >"shuffled-" f ".csv"
            print y + 1 "," a "," b >"from-1-" f ".csv"
            if (y || rand() < 0.05) print y "," a "," b "," u() >"rare-" f ".csv"
            print y "," 1e6 * a "," b "," u() >"large-" f ".csv" } }'
    local logreg="--model logreg --epochs 8 --data"
    warned majority_accuracy $logreg csv:shuffled-train.csv --test csv:test.csv
    holds "'nothing was learned' in '''$(field warnings)'''"
    warned "majority_accuracy label_shift" $logreg csv:rare-train.csv --test csv:test.csv
    warned "" $logreg csv:train.csv --test csv:test.csv
    warned unused_class --model softmax --epochs 8 --data csv:from-1-train.csv --test csv:from-1-test.csv
    warned unscaled_features $logreg csv:large-train.csv --test csv:large-test.csv --lr 1e-12
    try train $logreg csv:large-train.csv --test none --out none
    expect 1 "diverged" "column 0 (counted from 0) are about" "scale the features"
    awk '{ print $0 "," NR }' test.csv | head -n 500 >ids.csv
    warned loss_rose --model logreg --data csv:ids.csv --test none # one epoch of 8 steps
    try train $logreg csv:from-1-train.csv --test none --out none
    expect 3 "labels up to 2"
}

@test "asynchronous accuracy that oscillates" {
    export YK_STALE_RULES=0 # which prevent it
    YOKE=$HOOKS
    for _ in 1 2 3; do # whether it does is a matter of chance
        try train --model softmax --data 'synth:digits?examples=20000&test=500' --workers 2 --mode async --batch 1 --lr 1 \
            --eval-every 500 --steps 20000 --no-stop-on-divergence --json --quiet --out none
        expect 0
        case " $(kinds) " in *" oscillating_accuracy "*) return 0 ;; esac
    done
    echo "warnings: $(kinds)"
    return 1
}

@test "no false alarms: a loss over 5 examples, over 2 steps, and the mean of a first epoch" {
    warned "" $softmax --batch 5 --eval-every 100 --steps 301
    warned "" $softmax --batch 5 --lr 0.3 --eval-every 100 --steps 302
    warned "" $softmax --batch 2 --lr 1 --epochs 1 --test none --no-stop-on-divergence
    warned "" --model softmax --data 'synth:digits?examples=5&test=20' --batch 1 --lr 0.5 --epochs 6
}

@test "processes of one host: the verdict does not mention links, nor advice that is already on" {
    for options in "--launch 2" "--launch 3 --servers 1 --mode async"; do
        try train --model softmax --data 'synth:digits?examples=3000' --batch 2 --epochs 2 --test none $options --json --quiet --out none
        expect 0
        holds "not any(w in '''$(field bottleneck)''' for w in ('link', 'network', '--mode async' if 'async' in '''$options''' else '-'*99))"
    done
}
