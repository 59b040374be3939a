#!/usr/bin/env bats
# Networks on the command line, beyond training: the table of --dry-run, the profile, and errors in their options.

setup() { load cli; cli_setup; }
teardown() { cli_teardown; }

net() { # OPTION...: a small network on generated digits
    try train --model 'conv 4 5x5, relu, maxpool 2, dense 10' --data 'synth:digits?examples=200' "$@"
}

@test "dry-run: the layers of lenet5 with shapes, parameters, FLOPs and memory; nothing is trained or written" {
    try train --model lenet5 --data synth:digits --dry-run --optimizer momentum
    expect 0
    silent err
    grep -Eq '^ 0  conv 6 5x5 same +6 x 28 x 28 +156 +0\.235 ' out
    grep -Eq '^ 7  dense 120 +120 +48,120 +0\.096 ' out
    grep -Eq '^parameters +61,706$' out
    grep -Eq '^FLOPs +per image: forward 0\.833 M, backward 1\.43 M$' out
    grep -Eq '^ +per step: 145 M \(64 images\)$' out
    grep -Eq '^memory .*weights 246.8 kB, gradient 246.8 kB, state of momentum 246.8 kB, activations [0-9.]+ [kM]B$' out
    [ ! -e runs ]
}

@test "dry-run: networks too large to train on this machine, and linear models" {
    try train --model alexnet --data 'synth:images?size=256&classes=1000' --dry-run
    expect 0
    grep -Eq '^parameters +61,100,840$' out
    try train --model softmax --data synth:digits --dry-run --workers 3
    expect 0
    grep -Eq '^parameters +7,850$' out
    grep -q 'with 3 workers' out
    try train --model logreg --data synth:ctr --dry-run
    expect 0
    grep -Eq '^parameters +33,762,579$' out
}

@test "a network that does not fit into memory is an error before training" {
    layers='dense 46000'
    for _ in {1..24}; do layers+=', dense 46000'; done
    try train --model "$layers, dense 10" --data 'synth:digits?examples=100' --optimizer adam --out none
    expect 4 "--model needs 81" "GB of memory" "GB is available" "--dry-run"
}

@test "losses of one output: named networks accept them; labels above 1 are an error unless they are numbers" {
    digits='synth:digits?examples=100&test=100'
    for loss in hinge logistic; do
        for model in 'dense 1' lenet5; do
            try train --model "$model" --loss $loss --data "$digits" --out none
            expect 3 "--model $model is for two classes, with the labels 0 and 1; the data has labels up to 9"
        done
    done
    for model in linear lenet5; do
        try train --model $model --loss squared --lr 0.001 --data "$digits" --out $model --json --quiet
        expect 0
        loss=$(field test_loss)
        try eval --checkpoint $model --data "$digits" --json
        expect 0
        holds "abs($(field loss) / $loss - 1) < 1e-5"
    done
}

@test "dry-run: JSON output" {
    try train --model lenet5 --data synth:digits --dry-run --json
    expect 0
    [ "$(wc -l <out)" -eq 1 ]
    [ "$(field parameters)" = 61706 ]
    [ "$(field dry_run)" = true ]
    holds "$(field flops_per_step) == 64 * $(field flops_per_image)"
    python3 -c 'import json; l = json.load(open("out"))["layers"]; assert l[1]["output"] == [6, 28, 28] and len(l) == 13, l'
}

@test "dry-run: an invalid layer list is a usage error" {
    try train --model 'conv 4 5x5, maxpol 2, dense 10' --data synth:digits --dry-run
    expect 2 'unknown layer "maxpol"'
    silent out
}

@test "profile: the table goes to stderr, only the results to stdout" {
    net --profile --json --out none --quiet --threads 2 --epochs 30
    expect 0 "time of worker 0 by layer and pass (2 threads)" "GFLOP/s per thread, measured before training"
    [ "$(wc -l <out)" -eq 1 ]
    # no closer: one pass in eight is timed, and a thread that loses its core during one of them makes it a thousand times longer
    holds "0 < $(field passes)['forward'] < 1"
    for row in 'conv 4 5x5 +forward +4 x 24 x 24' 'conv 4 5x5 +backward +4 x 24 x 24' 'dense 10 +backward +10' \
        'input +forward +1 x 28 x 28' 'other '; do
        grep -Eq "^$row " err || { echo "no row $row"; cat err; return 1; }
    done
    # sorted by time; the shares add up to 100 %
    python3 - <<'END'
import re
rows = [line for line in open("err").read().split("time by phase")[0].splitlines() if re.search(r" %( |$)", line) and not line.startswith("layer")]
ms = [float(re.search(r"([0-9.]+) +[0-9.]+ %", row).group(1)) for row in rows]
share = [float(re.search(r"([0-9.]+) %", row).group(1)) for row in rows]
assert len(rows) == 11, rows
assert ms[:-1] == sorted(ms[:-1], reverse=True), ms
assert abs(sum(share) - 100) < 1, share
END
    net --out none
    expect 0
    run ! grep -q "where the time" err
}

@test "network options: used in training, stored in the run directory, and used by eval" {
    net --init glorot --init-bias -0.25 --standardize channel --augment flip,crop:2 --bias-lr 2 --bias-decay no --l2 0.001 \
        --lr-schedule step --lr-decay-epochs 1.5 --epochs 2 --out run --json
    expect 0
    loss=$(field test_loss)
    for line in 'init = glorot' 'init-bias = -0.25' 'standardize = channel' 'augment = flip,crop:2' 'bias-lr = 2' \
        'bias-decay = no' 'lr-decay-epochs = 1.5'; do
        grep -qxF -- "$line" run/config.ini || { echo "no line $line"; cat run/config.ini; return 1; }
    done
    run ! grep -Eq 'dry-run|profile' run/config.ini
    try eval --checkpoint run --data 'synth:digits?examples=200' --json
    expect 0
    holds "abs($(field loss) - $loss) < 1e-5"
    try predict --checkpoint run --data 'synth:digits?examples=200'
    expect 0
    [ "$(wc -l <out)" -eq 200 ]
}

# Writes 8x8 gray images of one brightness each: NUMBER in dark/ and NUMBER in light/.
make_images() { # TEST_DIR NUMBER
    python3 - "$1" "$2" <<'END'
import os, struct, sys, zlib
directory, number = sys.argv[1], int(sys.argv[2])
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
for name, least in ("dark", 0), ("light", 200):
    os.makedirs(f"{directory}/{name}")
    for i in range(number):
        rows = (b"\0" + bytes([least + i]) * 8) * 8
        with open(f"{directory}/{name}/{name} {i}.png", "wb") as f:
            f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)) +
                    chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
END
}

@test "predict on images prints the file of each line; other data has no files" {
    make_images seen 40
    make_images new 40
    printf 'no picture' >'new/dark/dark 7.png'
    try train --model 'dense 4, relu, dense 2' --data images:seen --batch 8 --epochs 20 --out run --quiet
    expect 0
    try predict --checkpoint run --data images:new
    expect 3 "new/dark/dark 7.png"
    try predict --checkpoint run --data images:new --skip-bad 1
    expect 0
    cp out lines
    try predict --checkpoint run --data images:new --skip-bad 1 --json
    expect 0
    python3 - <<'END'
import json, os
lines = [line.rstrip("\n").split(" ", 2) for line in open("lines")]
objects = [json.loads(line) for line in open("out")]
files = {f"new/{c}/{f}" for c in ("dark", "light") for f in os.listdir(f"new/{c}")} - {"new/dark/dark 7.png"}
assert len(lines) == len(objects) == 79, len(lines)
assert {line[2] for line in lines} == files
for (dark, light, file), o in zip(lines, objects):
    assert o["file"] == file and set(o) == {"file", "probabilities", "class"} and o["class"] in ("dark", "light", 0, 1), o
    assert abs(o["probabilities"][0] - float(dark)) < 1e-6 and abs(o["probabilities"][1] - float(light)) < 1e-6
    assert (float(light) > 0.5) == ("/light/" in file), (dark, light, file)
END
    digits --epochs 1 --out flat --quiet
    try predict --checkpoint flat --data 'synth:digits?examples=20'
    expect 0
    awk 'NF != 10 { exit 1 }' out
    try predict --checkpoint flat --data 'synth:digits?examples=20' --json
    expect 0
    python3 -c 'import json; a = [json.loads(l) for l in open("out")]; assert len(a) == 20 and all(list(o) == ["probabilities", "class"] for o in a)'
}

@test "images whose shape differs from the model's: the error names both shapes" {
    net --out run --quiet --steps 3
    for command in eval predict; do
        try $command --checkpoint run --data 'synth:images?examples=20'
        expect 3 "32x32 pixels and 3 channels, but the model was trained on 28x28 and 1"
        run ! grep -q -e --hash-bits err
    done
    make_images seen 2
    try eval --checkpoint run --data 'images:seen?size=14x56&channels=1' # rows of the same length
    expect 3 "14x56 pixels and 1 channel, but the model was trained on 28x28 and 1" "?size=28x28&channels=1"
    try eval --checkpoint run --data 'images:seen?size=28x28&channels=1'
    expect 0
    try train --model alexnet --data 'synth:digits?examples=20' --out none
    expect 2 "alexnet needs images of at least 67x67 pixels, but the data has 28x28"
}

@test "network options: errors are reported" {
    net --init xavier
    expect 2 "unknown --init xavier; choose he, glorot"
    net --init normal:zero
    expect 2 "expected a number above 0"
    net --standardize pixels
    expect 2 "unknown --standardize pixels"
    net --standardize channel:0.5/0.2,0.5/0.2
    expect 2 "of 2 channels are given, but the data has 1 channel"
    net --augment spin
    expect 2 "choose flip, crop:PIXELS or both"
    net --augment crop:28
    expect 2 "is too large for images"
    net --bias-decay sometimes
    expect 2 "must be one of: yes, no"
    net --lr-decay-epochs 2
    expect 2 "no effect without --lr-schedule step"
    digits --init he
    expect 2 "are for networks; --model softmax"
    clicks --bias-lr 2
    expect 2 "models of dense data"
    [ ! -e runs ]
}

@test "threads: the useful number is chosen, logged and stored in the summary; results do not depend on it" {
    local cores alone
    cores=$(nproc)
    for threads in 1 2 64; do
        try train --model lenet5 --data 'synth:digits?examples=320' --batch 40 --epochs 1 --out none --json --threads $threads
        expect 0
        holds "$(field threads) == $threads and 1 <= $(field threads_used) <= min($threads, $cores)"
        alone=${alone:-$(field train_loss)}
        [ "$(field train_loss)" = "$alone" ]
    done
    [ "$cores" -ge 64 ] || grep -q 'of --threads 64: more do not help' err
}

@test "a global batch is divided among workers: those of a process share it, with the result of one worker" {
    try train --model lenet5 --data 'synth:digits?examples=320' --batch 40 --epochs 1 --out none --json
    expect 0
    alone=$(field train_loss)
    try train --model lenet5 --data 'synth:digits?examples=320' --global-batch 40 --workers 4 --epochs 1 --out none --json
    expect 0 "share its batches as threads of one worker"
    [ "$(field train_loss)" = "$alone" ]
    holds "$(field workers) == 1 and $(field threads) == 4 and $(field batch) == 40 and $(field global_batch) == 40"
    try train --model lenet5 --data 'synth:digits?examples=320' --batch 10 --workers 4 --epochs 1 --out none
    expect 0 "computes 16 examples at a time, but the batch of a worker has only 10: --global-batch 40"
    digits --workers 4 --global-batch 42 --out none
    expect 2 "--global-batch 42 cannot be divided equally among 4 workers: use a multiple of 4"
}
