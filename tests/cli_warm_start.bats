#!/usr/bin/env bats
# --warm-start: a run begins with the parameters and the optimizer state of another run.
#
# No two rows of the data have a key in common, and a step uses all rows. So the result does not depend on the order of the
# examples, and a run of two epochs after one of two epochs must have the same bits as one run of four epochs.

setup() { load cli; load cluster; cluster_setup; rows 40 >a.libsvm; }
teardown() { cluster_teardown; }

rows() { # N
    awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++)
        printf "%d %d:%g %d:%g\n", i % 3 == 0, 2 * i + 1, 1 + i % 7, 2 * i + 2, i % 5 - 2.5 }'
}

linear() { # OUT OPTION...: a run on a.libsvm
    local out=$1
    shift
    try train --model logreg --no-bias --data a.libsvm --batch 40 --quiet --out "$out" "$@"
    expect 0
}

# Weights and optimizer state of the last checkpoints of two runs are the same bits.
same() { # RUN RUN
    python3 - "$@" <<'END'
import glob, json, struct, sys

def tensors(run):
    last = max(glob.glob(run + "/checkpoints/step-*"), key=lambda path: int(path.rsplit("-", 1)[1]))
    found = {}
    for name in "model", "state":
        with open(f"{last}/{name}.safetensors", "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
            data = file.read()
        found |= {n: data[slice(*t["data_offsets"])] for n, t in header.items() if n != "__metadata__"}
    for name in "counters", "sums", "place", "late", "earlier", "raw_weights", "touched":
        found.pop(name, None)
    return found

a, b = tensors(sys.argv[1]), tensors(sys.argv[2])
different = [n for n in a.keys() | b.keys() if a.get(n) != b.get(n)]
sys.exit(f"these tensors differ: {different}" if different or not a else 0)
END
}

@test "warm start: two epochs after two epochs are four epochs, for every optimizer" {
    for optimizer in "sgd --l2 0.01" momentum adagrad ftrl adam; do
        # shellcheck disable=SC2086
        linear whole --epochs 4 --optimizer $optimizer
        # shellcheck disable=SC2086
        linear first --epochs 2 --optimizer $optimizer
        # shellcheck disable=SC2086
        linear second --epochs 2 --optimizer $optimizer --warm-start first
        same whole second
        rm -rf whole first second
    done
}

@test "warm start: with replicas, servers and shards, and a third run" {
    linear whole --epochs 6 --optimizer adam
    linear first --epochs 2 --optimizer adam
    for job in "--launch 2 --servers 0" "--launch 3 --servers 1" "--launch 2 --servers all"; do
        # shellcheck disable=SC2086
        linear second --epochs 2 --optimizer adam --batch 20 $job --warm-start first
        linear third --epochs 2 --optimizer adam --warm-start second/checkpoints/step-2
        same whole third
        rm -rf second third
    done
}

@test "warm start: new features get initial values, and a run resumes after the earlier run is gone" {
    linear first --optimizer adagrad
    rows 60 >b.libsvm
    for out in whole parts; do
        try train --model logreg --no-bias --data b.libsvm --batch 7 --optimizer adagrad --warm-start first --out $out \
            --steps "$([ $out = whole ] && echo 20 || echo 9)"
        expect 0 "starting with the parameters of first" "40 features are new"
    done
    rm -rf first
    try train --resume --out parts --steps 20
    expect 0 "resuming from"
    same whole parts
    # fewer features: the model keeps those of the earlier run
    linear second --optimizer adagrad --warm-start whole --json
    [ "$(field parameters)" = 120 ]
}

@test "warm start: a bias stays a bias when features are added" {
    try train --model logreg --data a.libsvm --batch 40 --steps 3 --lr 1 --quiet --out first
    expect 0
    rows 60 >b.libsvm
    try train --model logreg --data b.libsvm --batch 60 --steps 1 --lr 1e-30 --warm-start first --quiet --out second
    expect 0
    for run in first second; do
        try predict --checkpoint $run --data a.libsvm
        expect 0
        mv out $run.txt
    done
    cmp first.txt second.txt
}

@test "warm start: from a model file, without the optimizer's state, for every optimizer" {
    linear first --epochs 2 --lr 1
    cp first/checkpoints/step-*/model.safetensors model.safetensors
    try predict --checkpoint model.safetensors --data a.libsvm
    expect 0
    mv out first.txt
    rows 60 >b.libsvm
    for way in sgd momentum adagrad "ftrl --l2 0.1" adam "ftrl --launch 2 --servers all" "sgd --launch 2 --servers 0"; do
        # shellcheck disable=SC2086
        try train --model logreg --no-bias --data b.libsvm --batch 60 --steps 1 --lr 1e-7 --optimizer $way \
            --warm-start model.safetensors --out second
        expect 0 "starting with the parameters of model.safetensors (it has no optimizer state)" "40 features are new"
        try predict --checkpoint second --data a.libsvm
        expect 0
        paste first.txt out | awk '{ d = $1 - $2; bad += d * d > 1e-8 } END { exit NR < 40 || bad }'
        rm -r second
    done
    # so does a new model: a network does not begin with zeros (loss 0.55 after these epochs)
    try train --model 'dense 16, relu, dense 10' --data 'synth:digits?examples=3000' --batch 60 --epochs 3 --optimizer ftrl --lr 0.3 \
        --out none --quiet --json
    expect 0
    holds "$(field test_loss) < 0.48"
    echo text >other
    try train --model logreg --data a.libsvm --warm-start other --out none
    expect 3 "other" "safetensors"
}

@test "warm start: a network keeps the standardization of the earlier model" {
    model() { # OUT DATA OPTION...
        local out=$1 data=$2
        shift 2
        try train --model 'dense 10' --data "synth:digits?examples=300&$data" --steps 2 --quiet --out "$out" "$@"
    }
    values() { grep -ao '"standardize":"channel:[^"]*"' "$1"/checkpoints/step-*/model.safetensors; }
    model first seed=1 --standardize channel
    expect 0
    for job in "--workers 1" "--launch 2" "--launch 2 --servers 1 --mode async"; do
        # shellcheck disable=SC2086
        model second seed=2 --standardize channel --warm-start first $job
        expect 0
        [ "$(values second)" = "$(values first)" ]
        rm -r second
    done
    model second seed=2 --warm-start first
    expect 2 "was trained with --standardize channel, not none: use --standardize channel"
    try train --resume --out first --steps 3 --standardize image
    expect 2 "was trained with --standardize channel, not image"
    model second seed=2 --standardize channel --init torch --warm-start first
    expect 2 "--init and --warm-start cannot be used together"
    try train --resume --out first --steps 3 --init torch
    expect 0 "--init and --init-bias have no effect: the parameters are those of the checkpoint"
}

@test "warm start: what does not fit is an error" {
    linear first --optimizer adam
    refused() { # STATUS WORDS OPTION...
        local wanted=$1 words=$2
        shift 2
        try train --batch 40 --warm-start first --out second "$@"
        expect "$wanted" "--warm-start" "$words"
    }
    refused 2 "has the model 'logreg', but this run trains 'softmax': use the same --model" --model softmax --data a.libsvm
    refused 2 "has no bias: add --no-bias" --model logreg --optimizer adam --data a.libsvm
    refused 2 "the state of the optimizer adam, not of sgd: use --optimizer adam" --model logreg --no-bias --data a.libsvm
    rows 20 >b.libsvm
    refused 2 "first has 80 features; --features 50 is too small" --model logreg --no-bias --optimizer adam \
        --data b.libsvm --features 50
    refused 2 "the keys of a.libsvm are hashed into 64 features, but those of first were not hashed: leave out --hash-bits" --model logreg --no-bias --hash-bits 6 --optimizer adam --data a.libsvm
    refused 2 "--warm-start nowhere: cannot read: No such file or directory" --model logreg --no-bias --warm-start nowhere --data a.libsvm
    linear second --optimizer adam --warm-start first # nothing is left of the errors
}

@test "warm start: keys are hashed as in the earlier run" {
    begin() { # STATUS WORDS START OPTION...
        local wanted=$1 words=$2 start=$3
        shift 3
        rm -rf run
        try train --model logreg --no-bias --batch 40 --quiet --out run ${start:+--warm-start $start} "$@"
        expect "$wanted" ${words:+"$words"}
    }
    # earlier: hashed, not hashed, hashed into a number of columns that is not a power of 2
    begin 0 "" "" --data a.libsvm --hash-bits 7
    mv run hashed
    begin 0 "" "" --data a.libsvm --features 128
    mv run plain
    begin 0 "" "" --data a.libsvm --hash-bits 7 --features 100
    mv run odd

    begin 2 "--warm-start: the keys of a.libsvm are not hashed, but those of hashed were hashed into 128 features: add --hash-bits 7" \
        hashed --data a.libsvm
    begin 2 "add --hash-bits 7" hashed --data a.libsvm --features 128
    begin 2 "add --hash-bits 7 and --features 100" odd --data a.libsvm --features 100
    begin 2 "hashed into 64 features, but those of hashed into 128: use the same --hash-bits or --features" \
        hashed --data a.libsvm --hash-bits 6
    begin 2 "hashed into 128 features, but those of plain were not hashed: leave out --hash-bits" plain --data a.libsvm --hash-bits 7
    begin 0 "" hashed --data a.libsvm --hash-bits 7
    begin 0 "" odd --data a.libsvm --hash-bits 7 --features 100

    # the columns of a cache may be hashes: a run on it may start from either kind of run, and then records which one
    try data convert a.libsvm --hash-bits 7 --out a.cache
    expect 0
    begin 0 "" "" --data a.cache
    mv run unknown
    begin 0 "" unknown --data a.libsvm --hash-bits 7
    begin 0 "" unknown --data a.libsvm
    begin 0 "" plain --data a.cache
    begin 0 "" hashed --data a.cache
    mv run third
    begin 2 "those of third were hashed into 128 features" third --data a.libsvm
    begin 0 "" third --data a.libsvm --hash-bits 7
}
