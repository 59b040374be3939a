#!/usr/bin/env bats
# --resume of a finished run changes nothing, in one process. cluster_resume.bats tests several processes.

setup() { load cli; cli_setup; }
teardown() { cli_teardown; }

@test "resuming a finished run changes nothing: threads, modes, --epochs and --steps, in memory and streamed" {
    for workers in 1 2; do
        for mode in "" "--mode async" "--staleness 4"; do
            for end in "--epochs 2 --checkpoint-every 7" "--steps 23" "--epochs 2 --stream always" "--steps 23 --stream always"; do
                digits --batch 40 --workers $workers $mode $end --quiet --out run
                expect 0
                finished run
                rm -rf run
            done
        done
    done
    clicks --batch 400 --mode async --workers 2 --epochs 2 --quiet --out run
    expect 0
    finished run 2
}

@test "resuming a finished run says so and prints its results" {
    digits --epochs 2 --trace --out run
    expect 0
    try train --out run --resume --json
    expect 0 "nothing left to do: the run already has 16 steps" "step 16, epoch 2.00: train loss"
    [ "$(field state) $(field steps) $(field epochs) $(field examples)" = '"done" 16 2 1000' ]
    [ "$(field steps_per_second) $(field examples_per_second)" = 'null null' ] # nothing was trained
    grep -qF "\"train_loss\": $(field train_loss)," run/summary.json
    grep -qF "\"test_loss\": $(field test_loss)," run/summary.json
    finished run 2
    try train --out run --resume --steps 10 --quiet # fewer steps than the run has
    expect 0
    [ "$(ls run/checkpoints)" = step-16 ]
    grep -qE '^steps +16$' out # nothing was trained: no rate
}

@test "a finished run resumes with more epochs or steps, and has each evaluation once" {
    digits --epochs 1 --quiet --out run
    expect 0
    try train --out run --resume --quiet
    expect 0
    try train --out run --resume --epochs 3 --quiet
    expect 0
    digits --epochs 3 --quiet --out whole
    expect 0
    cmp whole/checkpoints/step-24/model.safetensors run/checkpoints/step-24/model.safetensors
    diff <(evaluations whole) <(evaluations run)
}

@test "epochs of a stream of unknown length are counted, also in async mode" {
    seq 400 | awk '{ print $1 % 2, ($1 % 9 + 1) ":1" }' >a.libsvm
    try train --model logreg --data libsvm:a.libsvm --stream always --mode async --workers 2 --epochs 3 --quiet --json --out run
    expect 0
    [ "$(field epochs) $(field examples)" = "3 1200" ]
    finished run
}

@test "a stream of unknown length, resumed in its third epoch, counts epochs correctly" {
    seq 400 | awk '{ print $1 % 2, ($1 % 9 + 1) ":1" }' >a.libsvm
    try train --model logreg --data libsvm:a.libsvm --features 10 --stream always --batch 10 --steps 100 --quiet --out run
    expect 0
    try train --resume --out run --steps 180 --eval-every 20 --quiet --json
    expect 0
    [ "$(field epochs) $(field examples)" = "4 1800" ]
    grep -q '"kind":"eval","step":140,"examples":1400,"epoch":3.5,' run/metrics.jsonl
}

# The epochs in metrics.jsonl: null, or EXAMPLES / LENGTH from the line with FROM examples on.
epochs_are() { # RUN LENGTH FROM
    python3 - "$@" <<'END'
import json, sys
run, length, start = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
for line in map(json.loads, open(run + "/metrics.jsonl")):
    known = line["examples"] >= start or line["examples"] == 0
    assert line["epoch"] is None if not known else abs(line["epoch"] - line["examples"] / length) < 1e-6, line
END
}

@test "the epoch of a stream is null until its length is known, which a resumed run remembers" {
    seq 400 | awk '{ print $1 % 2, ($1 % 9 + 1) ":1" }' >a.libsvm
    stream() { # OPTION...
        try train --model logreg --data libsvm:a.libsvm --test libsvm:a.libsvm --features 10 --stream always --batch 10 \
            --log-every 1 --eval-every 7 --json "$@"
        expect 0
    }
    stream --steps 30 --out first
    epochs_are first 400 inf
    grep -q '^step 28: train loss' err # without the epoch
    stream --steps 100 --out run
    epochs_are run 400 401
    stream --resume --out run --steps 110 # within the third epoch
    epochs_are run 400 401
    grep -q '"step":101,"examples":1010,"epoch":2.525,' run/metrics.jsonl
    head -n 100 a.libsvm >more.libsvm
    cat more.libsvm >>a.libsvm # the stream grows: the epoch does not go back
    stream --resume --out run --steps 200
    epochs_are run 400 401
    for workers in 1 2; do
        stream --steps 100 --mode async --workers $workers --out async-$workers
        [ "$(field epochs)" = null ]
        epochs_are async-$workers 500 inf
        stream --epochs 2 --mode async --workers $workers --out whole-$workers
        [ "$(field epochs)" = 2 ]
        grep -q '"kind":"eval",.*"examples":1000,"epoch":2.0,' whole-$workers/metrics.jsonl # the end
    done
    try report run async-1 --out page.html --csv numbers
    expect 0
    ! grep -i 'epoch nan\|nan epoch' page.html || false
    grep -q '^async-1,98,' numbers/test-loss.csv # without epochs, it is still among the curves
    grep -q '^run,7,0.175,' numbers/test-loss.csv # now the length of the first epoch is known
}

@test "--resume refuses data with a different number of examples; a stream may grow" {
    seq 400 | awk '{ print $1 % 2, ($1 % 9 + 1) ":1" }' >a.libsvm
    for mode in "" "--mode async"; do
        rm -rf run
        head -n 400 a.libsvm >b.libsvm
        try train --model logreg --data libsvm:b.libsvm --features 10 $mode --batch 10 --epochs 1 --quiet --out run
        expect 0
        head -n 10 a.libsvm >>b.libsvm
        try train --resume --out run --epochs 2 --quiet
        expect 3 "/step-" "was written with 400 training examples, but libsvm:b.libsvm has 410" "--warm-start run"
        try train --resume --out run --epochs 2 --quiet --data libsvm:a.libsvm
        expect 0
    done
    head -n 400 a.libsvm >b.libsvm
    try train --model logreg --data libsvm:b.libsvm --features 10 --stream always --epochs 1 --quiet --out stream
    expect 0
    head -n 10 a.libsvm >>b.libsvm
    try train --resume --out stream --epochs 2 --quiet --json
    expect 0
    [ "$(field examples)" = 810 ]
}

@test "a checkpoint with impossible counters is refused" {
    digits --epochs 2 --mode async --workers 2 --quiet --out run
    expect 0
    python3 - run/checkpoints/step-*/ <<'END'
import json, re, struct, sys
state, done = sys.argv[1] + "state.safetensors", sys.argv[1] + "DONE"
file = bytearray(open(state, "rb").read())
length, = struct.unpack_from("<Q", file)
begin = json.loads(file[8:8 + length])["counters"]["data_offsets"][0]
struct.pack_into("<Q", file, 8 + length + begin, 2**64 - 1)  # steps
open(state, "wb").write(file)
table = []
for i in range(256):
    for _ in range(8):
        i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
    table.append(i)
crc = 2**32 - 1
for byte in file:
    crc = table[(crc ^ byte) & 255] ^ crc >> 8
text = open(done).read()
open(done, "w").write(re.sub(r"(state\S+ \d+) \w+", r"\1 %08x" % (crc ^ 2**32 - 1), text))
END
    try train --out run --resume --epochs 4 --quiet
    expect 3 "18446744073709551615 steps or examples"
}
