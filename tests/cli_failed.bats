#!/usr/bin/env bats
# A failed run leaves a summary with the error and everything that is known about the run, and a report that shows the error
# first. A killed run leaves no summary, and the report says so.

setup() { load cli; cli_setup; }
teardown() {
    kill -9 ${run:-} 2>/dev/null || true
    cli_teardown
}

run=''

# The value of a field of run/summary.json, as a Python literal.
kept() { # NAME
    python3 -c 'import json, sys; print(repr(json.load(open("run/summary.json"))[sys.argv[1]]))' "$1"
}

# The run failed with this status and message: exit status, stderr, summary and report agree.
failed() { # STATUS WORDS
    expect "$1" "$2"
    [ ! -s out ] || [ "$(field state)" = '"failed"' ] # with --json
    [ "$(kept state)" = "'failed'" ]
    [ "$(kept exit_code)" -eq "$1" ]
    holds "'$2' in $(kept error)"
    [ -z "$(find run -name '*.tmp' -o -name 'summary.json.*')" ]
    grep -qF -- "yoke: error: $(python3 -c 'import json; print(json.load(open("run/summary.json"))["error"])')" err
    try report run -o page.html
    expect 0
    python3 - "$2" <<'END'
import html, re, sys
page = open("page.html", encoding="utf-8").read()
verdict = html.unescape(re.sub(r"<[^>]*>", " ", page[page.index('id="verdict"'):page.index('id="warnings"')]))
assert verdict.index("Failed at step") < verdict.lower().index(sys.argv[1].lower()), verdict[:500]
END
}

# Trains a hundred steps, then resumes with a learning rate that makes it diverge.
diverge() { # OPTION...
    digits --batch 10 --steps 100 --quiet --out run "$@"
    expect 0
    try train --out run --resume --steps 4000 --eval-every 1 --lr 1e30 --json
}

@test "a diverged run: the summary has steps, phases and resources" {
    diverge
    failed 1 "training diverged at step"
    holds "$(kept steps) > 100 and $(kept examples) > 1000 and $(kept seconds) > 0"
    holds "abs(sum($(kept phases).values()) - 1) < 1e-6 and $(kept resources)['memory']['peak'] > 1e6"
    holds "$(kept processes)[0]['steps'] >= 1 and $(kept verdict).startswith('none')"
}

@test "an asynchronous run with several workers that diverges" {
    digits --workers 2 --mode async --epochs 50 --lr 1e30 --out run
    failed 1 "training diverged at step"
    [ "$(kept workers)" -eq 2 ]
}

@test "a bad record in the middle of a stream" {
    "$YOKE" data gen 'synth:ctr?features=500&examples=20000' --out clicks.libsvm --format libsvm >/dev/null 2>&1
    sed -i '15000s/.*/0 nonsense/' clicks.libsvm
    try train --model logreg --data libsvm:clicks.libsvm --features 500 --test none --stream always --shuffle-mb 1 --epochs 3 \
        --out run
    failed 3 "clicks.libsvm"
    holds "$(kept seconds) > 0"
}

@test "a full disk: the disk error is reported, whether or not the summary fits" {
    mkdir disk again
    mount -t tmpfs -o size=80k none disk 2>/dev/null || skip "mounting a small file system needs root"
    clicks --steps 400 --checkpoint-every 10 --log-every 400 --sample-every 0 --out disk/run
    cp -r disk/run run
    umount disk
    failed 4 "No space left on device"
    mount -t tmpfs -o size=24k none again
    clicks --steps 40 --checkpoint-every 10 --sample-every 0 --out again/run
    umount again
    expect 4 "No space left on device"
}

@test "invalid options, and options that conflict with an existing run, leave that run unchanged" {
    digits --steps 20 --out run
    expect 0
    cp run/summary.json before
    digits --steps 20 --out run
    expect 2 "already holds a run"
    try train --out run --resume --model logreg
    [ "$status" -ne 0 ]
    cmp before run/summary.json
    [ "$(kept state)" = "'done'" ]
    try train --out run --resume --steps 40 --lr 1e30
    failed 1 "training diverged" # this error belongs to the existing run, so its summary changes
    holds "$(kept steps) > 20"
}

@test "killed: no summary, and the report says so; resuming a run removes its old summary" {
    digits --steps 20 --out run
    expect 0
    "$YOKE" train --out run --resume --steps 100000000 --eval-every 100 >/dev/null 2>err 3>&- &
    run=$!
    for _ in $(seq 200); do
        ! grep -q '"step":1[0-9][0-9],' run/metrics.jsonl || break
        pause 0.05
    done
    [ ! -e run/summary.json ]
    kill -9 "$run"
    wait "$run" 2>/dev/null || true
    [ ! -e run/summary.json ]
    try report run -o page.html
    expect 0
    grep -q 'Incomplete run' page.html
    grep -q 'has no summary.json: it was killed' page.html
}

@test "failed runs do not win a comparison" {
    digits --steps 300 --quiet --out runs/good
    expect 0
    digits --steps 300 --lr 1e30 --quiet --out runs/bad
    expect 1
    try report runs -o page.html
    expect 0
    grep -q '1 of 2 runs failed' page.html
    grep -q '<td[^>]*>failed</td>' page.html
    run ! grep -q 'Most examples/s' page.html # only one run can be chosen
}

@test "a sweep repeats a run that failed before, unless it diverged" {
    cat >sweep.ini <<'END'
[train]
model = softmax
data = synth:digits?examples=500
steps = 20
batch = 10
lr = 1e30
END
    try sweep sweep.ini --out swept --keep-going
    [ "$status" -ne 0 ]
    grep -q '"state": "failed"' swept/*/summary.json
    try sweep sweep.ini --out swept --keep-going
    [ "$status" -ne 0 ]
    grep -q 'they diverged, so the same command does not repeat them' err
    sed -i '/"diverged"/d' swept/*/summary.json # as if it had failed for another reason
    try sweep sweep.ini --out swept --keep-going
    grep -q 'diverged' err
    run ! grep -q 'are already complete' err
    grep -q '"diverged"' swept/*/summary.json
}

@test "ranks: the failing rank reports the error, and the summary has it" {
    for way in "--servers 0" "--servers 1" "--mode async"; do
        rm -rf run
        diverge --launch 3 $way
        failed 1 "training diverged at step"
        holds "$(kept steps) >= 100 and $(kept ranks) == 3"
        holds "len($(kept processes)) >= 1 and $(kept bytes_sent) > 0"
    done
}
