#!/usr/bin/env bats
# Run directories that yoke 0.1.0 wrote (tests/fixtures/run-0.1.0/README.md): they resume, evaluate and report.

setup() {
    load cli; load cluster; load golden; golden_setup
    cp -r "$BATS_TEST_DIRNAME/fixtures/run-0.1.0" runs
}
teardown() { cluster_teardown; }

data_of() { sed -n 's/^data = //p' "runs/$1/config.ini"; }

@test "fixture: eval gives the test loss that the run ended with" {
    for run in softmax logreg network stream async; do
        try eval --checkpoint "runs/$run" --data "$(data_of $run)" --json
        expect 0
        then=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["test_loss"])' "runs/$run/summary.json")
        close "$(field loss)" "$then"
    done
    try eval --checkpoint runs/logreg/checkpoints/step-30 --data "$(data_of logreg)" --json
    expect 0
}

@test "fixture: predict prints one line per example" {
    for run in softmax:203 logreg:503 network:203; do
        try predict --checkpoint "runs/${run%:*}" --data "$(data_of "${run%:*}")" --quiet
        expect 0
        equal "lines of ${run%:*}" "$(wc -l <out)" "${run#*:}"
    done
}

@test "fixture: the report has all runs with their curves and warnings" {
    try report runs --csv csv
    expect 0 "5 runs"
    [ -s runs/report.html ]
    for run in softmax logreg network stream async; do
        equal "evaluations of $run" "$(grep -c "^$run," csv/test-loss.csv)" "$(grep -c '"kind":"eval"' "runs/$run/metrics.jsonl")"
    done
}

@test "fixture: resumed runs give the same bits as yoke 0.1.0" { golden fixture; }

@test "fixture: a resumed asynchronous run uses every example once" {
    try train --out runs/async --resume --quiet --json
    expect 0
    equal "examples, epochs" "$(field examples) $(field epochs)" "2012 4"
}

@test "fixture: a resumed run appends to its metrics and can be reported" {
    before=$(grep -c '"kind":"eval"' runs/softmax/metrics.jsonl)
    try train --out runs/softmax --resume --quiet --json
    expect 0
    equal "examples, steps" "$(field examples) $(field steps)" "1218 78"
    holds "$(grep -c '"kind":"eval"' runs/softmax/metrics.jsonl) > $before"
    try report runs/softmax
    expect 0 "1 run"
}

# Updates the checksums (CRC-32C) in the DONE marker of a checkpoint.
mark() { # CHECKPOINT
    python3 - "$1" <<'EOF'
import os, sys
lines = []
for name in "model.safetensors", "state.safetensors":
    crc, data = 0xffffffff, open(os.path.join(sys.argv[1], name), "rb").read()
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    lines.append(f"{name} {len(data)} {crc ^ 0xffffffff:08x}\n")
open(os.path.join(sys.argv[1], "DONE"), "w").write("".join(lines))
EOF
}

@test "fixture: a checkpoint whose metadata is not a shape is rejected" {
    at=runs/logreg/checkpoints/step-40
    cp $at/model.safetensors good
    mark $at
    try eval --checkpoint $at --data "$(data_of logreg)"
    expect 0
    for change in 'kind":"2/kind":"7' 'kind":"2/kind":"x' 'bias":"1/bias":"9' 'classes":"2/classes":"-' 'dim":"500/dim":"50x' \
        'image":"0x0x0/image":"9x9x9' 'image":"0x0x0/image":"0x0,0'; do
        LC_ALL=C sed "s/$change/" good >$at/model.safetensors
        mark $at
        try eval --checkpoint $at --data "$(data_of logreg)"
        expect 3 model.safetensors "metadata does not describe a model"
    done
}
