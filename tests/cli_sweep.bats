#!/usr/bin/env bats
# Sweeps on the command line: runs, tables, stored files; stopped, killed and resumed sweeps; errors in sweep files.

setup() { load cli; cli_setup; }
teardown() { cli_teardown; }

small() { # LINES OF [grid]: four short runs by default
    cat >my.ini <<END
[sweep]
repeats = 2
examples = 1000            ; of each run
eval-examples = 500
[train]
model = softmax
data = synth:digits?examples=500&test=100
[grid]
${1:-mode, workers = sync 1 | async 2}
[quick]
repeats = 1
examples = 100
END
}

# Writes long.ini, a sweep that is long enough to be stopped in the middle. Its runs save a checkpoint on SIGTERM.
long() {
    cat >long.ini <<'END'
[sweep]
steps = 16000
[train]
model = logreg
data = synth:ctr?features=5000&examples=5000
workers = 2
eval-every = 1000
[grid]
batch = 5 10
END
}

# Starts a sweep of long.ini in the background ($pid) and waits for the first evaluation of its first run.
start_long() {
    "$YOKE" sweep long.ini --out sweep --no-report >out 2>err 3>&- &
    pid=$!
    for _ in $(seq 600); do
        ! grep -qs '"eval"' sweep/batch-5/metrics.jsonl || return 0
        pause 0.02
    done
    echo "the first run has not started"
    return 1
}

alive() { # PID: it is running, and is not a zombie
    grep -qs '^State:.[^ZX]' /proc/"$1"/status
}

@test "a sweep runs its grid, prints a table and stores all runs" {
    small
    try sweep my.ini --out sweep --no-report
    expect 0 "my: 4 runs, in sweep" "run 1 of 4: mode=sync workers=1 seed=1: " "about 0:0" \
        "run 4 of 4: mode=async workers=2 seed=2: "
    grep -q "^mode   workers  runs  steps  *seconds  examples/s " out
    grep -q "^sync  *1  *2  *16 .* ± " out
    grep -q "^majority class: " out
    [ "$(wc -l <out)" -eq 4 ]
    for run in mode-sync_workers-1_seed-1 mode-sync_workers-1_seed-2 mode-async_workers-2_seed-1 mode-async_workers-2_seed-2; do
        ls sweep/$run/config.ini sweep/$run/summary.json sweep/$run/metrics.jsonl sweep/$run/log.txt \
            sweep/$run/checkpoints/*/DONE
    done
    cmp my.ini sweep/sweep.ini
    python3 - <<'END'
import csv, json
points = list(csv.DictReader(open("sweep/sweep.csv")))
runs = list(csv.DictReader(open("sweep/runs.csv")))
whole = json.load(open("sweep/sweep.json"))
assert [p["done"] for p in points] == ["2", "2"], points
assert [(r["mode"], r["seed"], r["state"], r["steps"]) for r in runs] == [
    ("sync", "1", "done", "16"), ("async", "1", "done", "16"), ("sync", "2", "done", "16"), ("async", "2", "done", "16")], runs
a, b = (float(r["test_loss"]) for r in runs if r["mode"] == "sync")
assert a != b, "the seeds are not used"
assert abs(float(points[0]["test_loss"]) - (a + b) / 2) < 1e-6, points
assert abs(float(points[0]["test_loss_spread"]) - abs(a - b) / 2 ** 0.5) < 1e-6, points
assert whole["done"] == 4 and len(whole["runs"]) == 4 and whole["runs"][0]["summary"]["steps"] == 16, whole
evals = [json.loads(line) for line in open("sweep/mode-sync_workers-1_seed-1/metrics.jsonl")]
assert [e["step"] for e in evals if e["kind"] == "eval"] == [0, 8, 16], evals
END
    # a second time: nothing is left to do
    before=$(find sweep/mode-* -type f -exec sha256sum {} + | sort)
    mv out first
    try sweep my.ini --out sweep --no-report
    expect 0 "4 of 4 runs are already complete"
    diff first out
    [ "$before" = "$(find sweep/mode-* -type f -exec sha256sum {} + | sort)" ]
    try sweep my.ini --out sweep --no-report --json --quiet
    expect 0
    silent err
    [ "$(field "done")" = 4 ]
}

@test "a run of a sweep has the results of the same yoke train command" {
    small "batch = 10 100"
    try sweep my.ini --no-report --quiet
    expect 0
    try train --model softmax --data 'synth:digits?examples=500&test=100' --batch 100 --steps 10 --eval-every 5 --seed 2 --out hand --quiet
    expect 0
    cmp hand/checkpoints/step-10/model.safetensors runs/my/batch-100_seed-2/checkpoints/step-10/model.safetensors
}

@test "--dry-run only prints the runs and their steps; --quick and --set change them" {
    small "batch = 10 50"
    try sweep my.ini --dry-run
    expect 0
    grep -qx "   1  100 steps        batch=10 seed=1" out
    grep -qx "   4  20 steps         batch=50 seed=2" out
    grep -q "^4 runs, 2 combinations with 2 seeds, in runs/my: about 240 steps and 4000 examples in total" out
    try sweep my.ini --dry-run --set data='synth:digits?examples=40000' --set batch=100 --set epochs=1 --set validation=0.25
    tail -n 1 out | grep -q ": about 600 steps and 60000 examples in total"
    try sweep my.ini --dry-run --quick --set epochs=3 --set 'batch=20 | 30 | 40'
    expect 0
    grep -qx "   1  75 steps         batch=20" out # of 500 examples
    grep -qx "   2  51 steps         batch=30" out
    grep -q "^3 runs, 3 combinations with 1 seed, in runs/my-quick: " out
    [ ! -e runs ]
    try sweep my.ini --quick --no-report --quiet
    expect 0
    try sweep my.ini --quick --dry-run
    expect 0
    grep -qx "   1  10 steps         batch=10   (complete)" out
    seq 40 | awk '{ print $1 % 2, ($1 % 9 + 1) ":1" }' >a.libsvm
    try sweep my.ini --dry-run --set model=logreg --set data=libsvm:a.libsvm --set epochs=3
    expect 0
    grep -qx "   1  3 epochs         batch=10 seed=1" out
    grep -q "not known in advance" out
    try sweep my.ini --dry-run --set data=idx:no-such-directory --set epochs=3
    expect 0 "no-such-directory"
}

@test "errors in sweep files: the line and the remedy are named, and nothing is started" {
    try sweep
    expect 2 "FILE is missing"
    try sweep none.ini
    expect 2 "none.ini: cannot read"
    try sweep a.ini b.ini
    expect 2 "unexpected argument 'b.ini': expected one FILE"
    printf '[train]\nmodel = softmax\nbach = 3\n' >a.ini
    try sweep a.ini
    expect 2 "a.ini:3: unknown option bach; did you mean batch?"
    small "mode, workers = sync 1 | async"
    try sweep my.ini
    expect 2 "my.ini:9: 'async' has 1 value for 2 options"
    small "mode = sync async
staleness = 0 3"
    try sweep my.ini
    expect 2 "my.ini: the run mode=sync staleness=3 seed=1: --mode sync means --staleness 0"
    small
    try sweep my.ini --set resume=true
    expect 2 "--set 'resume=true': resume cannot be set here"
    printf '[train]\nmodel = softmax\ndata = synth:digits\n' >a.ini
    try sweep a.ini --quick
    expect 2 "a.ini: no section [quick]"
    [ ! -e runs ]
    silent out
}

@test "a failed run does not stop the others; a second attempt completes it, but does not repeat runs that diverged" {
    small "lr = 0.1 1e9"
    try sweep my.ini --out sweep --no-report
    expect 1 "run 2 of 4: lr=1e9 seed=1 failed: exit status 1: training diverged at step " "sweep/lr-1e9_seed-1/log.txt" \
        "2 of 4 runs failed; sweep/runs.csv lists the errors"
    grep -q "^0.1  *2 " out
    grep -q "^1e9  *0, 2 failed " out
    grep -q "^1e9,1,lr-1e9_seed-1,diverged,.*training diverged at step" sweep/runs.csv
    try sweep my.ini --out sweep --no-report --json
    expect 1 "4 of 4 runs are already complete" "2 of 4 runs failed" "they diverged, so the same command does not repeat them"
    grep -q "^1e9,1,lr-1e9_seed-1,diverged,.*training diverged at step" sweep/runs.csv
    [ "$(wc -l <out)" -eq 1 ] && [ "$(field failed)" -eq 2 ] # the table, and no object for the failure
    # after three runs in a row that cannot start, the sweep stops
    small "batch = 1 2 3 4 5"
    set -- my.ini --out other --no-report --set model=logreg --set data=libsvm:nothing --set repeats=1
    try sweep "$@"
    expect 1 "run 3 of 5: batch=3 failed: exit status 3: " "3 runs in a row failed" "--keep-going"
    [ "$(grep -c "run 4 of 5" err)" = 0 ]
    try sweep "$@" --keep-going
    expect 1 "run 5 of 5: batch=5 failed" "5 of 5 runs failed"
    # runs that were lost count as well, although their exit status is that of a run that diverged
    printf '[ -z "$YOKE_RANK" ] || kill -9 $$\nexec "$@"\n' >shim
    YOKE=$HOOKS YK_SHIM=$PWD/shim try sweep my.ini --out lost --no-report --set launch=2 --set repeats=1
    expect 1 "run 3 of 5: batch=3 failed: exit status 1: " "3 runs in a row failed"
    seq 40 | awk '{ print $1 % 2, ($1 % 9 + 1) ":1" }' >nothing
    try sweep "$@"
    expect 0
}

@test "SIGTERM saves and stops the run; the same command resumes it with bit-identical results" {
    long
    try sweep long.ini --out whole --no-report --quiet
    expect 0
    start_long
    kill -TERM $pid
    status=0
    wait $pid || status=$?
    expect 1 "stopped by a signal: 0 of 2 runs are complete; continue with: yoke sweep long.ini --out sweep --no-report"
    grep -q '"interrupted": *true' sweep/batch-5/summary.json
    ls sweep/batch-5/checkpoints/*/DONE
    [ ! -e sweep/batch-10 ]
    try sweep long.ini --out sweep --dry-run
    expect 0
    grep -q "batch=5   (stopped)" out
    try sweep long.ini --out sweep --no-report
    expect 0 "run 1 of 2: resuming batch=5" "run 2 of 2: batch=10: "
    grep -q "resuming from sweep/batch-5/checkpoints/step-" sweep/batch-5/log.txt
    for batch in 5 10; do
        cmp whole/batch-$batch/checkpoints/step-16000/model.safetensors sweep/batch-$batch/checkpoints/step-16000/model.safetensors
    done
    grep -q "^5,1,0,16000," sweep/sweep.csv
}

@test "a job that is stopped before it trains is not complete" {
    "$YOKE" train --help | grep -q -- --launch || skip "this build has no --launch"
    small "batch = 50"
    printf '[ -z "$YOKE_RANK" ] || { touch started; exec sleep 60; }\nexec "$@"\n' >shim
    YK_SHIM=$PWD/shim "$HOOKS" sweep my.ini --out sweep --no-report --set launch=2 --set repeats=1 >out 2>err 3>&- &
    pid=$!
    for _ in $(seq 600); do
        [ ! -e started ] || break
        pause 0.02
    done
    kill -TERM $pid
    status=0
    wait $pid || status=$?
    expect 1 "stopped by a signal: 0 of 1 runs are complete"
    [ ! -e sweep/batch-50/summary.json ]
}

@test "kill -9 of a sweep also ends its run, and the same command resumes it" {
    long
    start_long
    child=$(cat /proc/$pid/task/$pid/children)
    [ -n "$child" ]
    kill -KILL $pid
    wait $pid || true
    for _ in $(seq 200); do
        alive "$child" || break
        pause 0.05
    done
    if alive "$child"; then false; fi
    try sweep long.ini --out sweep --no-report
    expect 0 "run 2 of 2: batch=10: "
    grep -q "^5,1,0,16000," sweep/sweep.csv
    grep -q "^10,1,0,16000," sweep/sweep.csv
}

@test "a sweep is not mixed with the runs of another sweep" {
    small "batch = 10 50"
    try sweep my.ini --out sweep --no-report --quiet
    expect 0
    before=$(find sweep -name model.safetensors -exec sha256sum {} + | sort)
    sed -i '1i ; only a comment' my.ini
    try sweep my.ini --out sweep --no-report
    expect 0 "4 of 4 runs are already complete"
    sed -i 's/^batch = .*/batch = 10 100/' my.ini
    try sweep my.ini --out sweep --no-report
    expect 2 "my.ini: the sweep in sweep was started with different runs" "run 2 is 'batch-50_seed-1'" "another --out" "--force"
    try sweep my.ini --out sweep --no-report --quick
    expect 2 "the sweep in sweep was started with different runs"
    [ "$before" = "$(find sweep -name model.safetensors -exec sha256sum {} + | sort)" ]
    try sweep my.ini --out sweep --no-report --force
    expect 0 "2 of 4 runs are already complete" "run 2 of 4: batch=100 seed=1: "
    cmp my.ini sweep/sweep.ini
    # the same directories, other options: repeated, and only on request
    try sweep my.ini --out sweep --no-report --set lr=0.2
    expect 2 "the sweep in sweep was started with different runs"
    sed -i 's/batch = 10$/batch = 11/' sweep/batch-10_seed-1/config.ini
    try sweep my.ini --out sweep --no-report
    expect 2 "sweep/batch-10_seed-1: the options of this run differ from the plan; --force trains it again"
    try sweep my.ini --out sweep --no-report --force
    expect 0 "3 of 4 runs are already complete" "run 1 of 4: batch=10 seed=1: "
    mkdir other
    touch other/precious
    try sweep my.ini --out other --no-report
    expect 2 "other: the directory is not empty, and has no sweep; choose another --out"
    [ "$(ls -A other)" = precious ]
}

@test "two sweeps cannot use one directory at the same time" {
    long
    start_long
    mv err first
    try sweep long.ini --out sweep --no-report
    expect 2 "sweep: in use by process $pid on host $(uname -n)"
    kill -TERM $pid
    wait $pid || true
}

@test "search = halving continues the better half; the same command continues an interrupted one" {
    cat >halving.ini <<-'INI'
	[sweep]
	steps = 80
	search = halving
	[train]
	model = softmax
	data = synth:digits?examples=2000&test=500
	[grid]
	lr = 0.00001 0.001 0.01 0.1 0.3
	INI
    try sweep halving.ini --out h --json --no-report
    expect 0 'rung 1 of 4: 5 combinations, 1/8' 'rung 2 of 4: 3 combinations' 'rung 4 of 4: 1 combination,'
    python3 - out <<'PY'
import json, sys
runs = json.loads(open(sys.argv[1]).read())["runs"]
assert [(r["options"]["lr"], r["rung"], r["summary"]["steps"]) for r in runs] == [
    ("0.00001", 1, 10), ("0.001", 1, 10), ("0.01", 2, 20), ("0.1", 3, 40), ("0.3", 4, 80)], runs
PY
    cp out all
    # the winner equals a whole run
    try train --model softmax --data 'synth:digits?examples=2000&test=500' --lr 0.3 --steps 80 --json --quiet --out none
    whole=$(field test_loss)
    python3 -c 'import json, sys
s = json.loads(open("all").read())["runs"][4]["summary"]
assert s["test_loss"] == float(sys.argv[1]), s' "$whole"
    # without the results of its last rungs, the sweep trains only these
    rm h/lr-0.3/rung-80-steps.json h/lr-0.1/rung-40-steps.json
    try sweep halving.ini --out h --json --no-report
    expect 0
    python3 -c 'import json
a, b = ([(r["rung"], r["summary"]["test_loss"]) for r in json.loads(open(f).read())["runs"]] for f in ("all", "out"))
assert a == b, (a, b)'
    # a sample of the combinations; the table has the rungs
    try sweep halving.ini --set runs=2 --out two --no-report
    expect 0
    grep -q 'rung' out
    [ "$(find two -name rung-40-steps.json | wc -l)" = 2 ]
    # then all combinations: their rungs are shorter, and runs are compared after the same number of steps
    same_search() { # DIRECTORY
        python3 -c 'import json, sys
a, b = ([(r["rung"], r["summary"]["steps"], r["summary"]["test_loss"]) for r in json.load(open(d + "/sweep.json"))["runs"]] for d in ("h", sys.argv[1]))
assert a == b, (a, b)' "$1"
    }
    try sweep halving.ini --out two --no-report
    expect 0
    same_search two
    # interrupted between the rungs, when all combinations have a result; a finished search trains nothing
    rm err
    "$YOKE" sweep halving.ini --out stopped --no-report >out 2>err 3>&- &
    pid=$!
    until grep -qs "rung 2 of" err; do
        kill -0 $pid
        pause 0.01
    done
    kill -TERM $pid
    status=0
    wait $pid || status=$?
    expect 1 "stopped by a signal: 0 of 5 runs are complete; continue with: yoke sweep halving.ini --out stopped"
    for trained in '[1-6]' 0; do
        try sweep halving.ini --out stopped --no-report
        expect 0
        [[ $(grep -c "^run . of 5" err) = $trained ]]
        same_search stopped
    done
    # runs that diverged or ended by --patience are not trained again, nor is the time of earlier rungs available again
    sed -i 's/^lr = .*/lr = 0.3 1e9/' halving.ini
    for every in 20 5; do # at the last evaluation of a rung; earlier
        set -- halving.ini --set eval-every=$every --set validation=0.2 --set patience=1 --set min-delta=9 --set seconds=1000 --out early-$every --no-report
        try sweep "$@"
        expect 0 "run 1 of 2: lr=0.3: " "run 2 of 2: lr=1e9 failed: exit status 1: training diverged"
        mv out first
        try sweep "$@"
        expect 0
        ! grep "^run . of 2" err || return 1
        diff first out
    done
    sed -i 's/"rung_seconds": [^,}]*/"rung_seconds": 2000/' early-5/lr-0.3/rung-40-steps.json
    try sweep "$@"
    expect 0 "the time limit was reached"
    try sweep halving.ini --set seconds=1000 --out three --dry-run
    expect 0
}

@test "with validation data, --monitor on it ranks the runs: not the loss, not the test set" {
    cat >v.ini <<-'INI'
	[sweep]
	steps = 40
	search = halving
	[train]
	model = softmax
	data = synth:digits?examples=2000&test=500
	validation = 0.2
	monitor = accuracy
	[grid]
	lr = 0.01 0.1 0.3
	INI
    try sweep v.ini --out halving --no-report
    expect 0 "run 1 of 3: lr=0.01: accuracy 44.80 %, test loss 2.2463, validation accuracy 46.52 % in"
    grep -q "accuracy %  validation accuracy %  CPU" out
    grep -Eq "^0.01 .* 54.01  " out
    grep -qx "best validation accuracy: lr=0.3" out
    python3 - <<'END'
import json
runs = json.load(open("halving/sweep.json"))["runs"]
first = [json.load(open(f"halving/{r['folder']}/rung-10-steps.json")) for r in runs]
order = lambda name, sign: sorted((0, 1, 2), key=lambda i: sign * first[i][name])
assert order("best_value", -1) == [2, 0, 1] != order("test_loss", 1) == order("validation_loss", 1), first
assert [r["rung"] for r in runs] == [2, 1, 3], runs
END
    try sweep v.ini --set search=grid --set lr='0.3 1' --set steps=80 --out grid --no-report
    expect 0
    grep -qx "best validation accuracy: lr=0.3" out # lr=1 has the smaller test loss and the larger test accuracy
    python3 -c 'import csv
a, b = csv.DictReader(open("grid/runs.csv"))
assert a["test_loss"] > b["test_loss"] and a["test_accuracy"] < b["test_accuracy"] and a["best_value"] > b["best_value"], (a, b)'
    try sweep v.ini --set test=none --set search=grid --out untested --no-report
    expect 0 "training loss"
    grep -q "examples/s  train loss  validation accuracy %" out # otherwise, the test loss
    try sweep v.ini --set monitor=loss --set search=grid --out loss --no-report
    expect 0
    grep -q "  validation loss  " out
    try sweep v.ini --set search=grid --set lr=0.3 --out one --no-report # the best of one is no news
    expect 0
    ! grep "^best" out || return 1
    try sweep v.ini --set monitor='loss accuracy' --dry-run
    expect 2 "search = halving compares runs by their validation data" "from [grid] to [train]"
}

@test "wrong settings of a search name the remedy" {
    printf '[sweep]\nruns = 3\n[train]\nmodel = softmax\ndata = synth:digits\n[grid]\nlr = 0.1 0.2\n' >wrong.ini
    try sweep wrong.ini --out wrong
    expect 2 'add search = halving'
    try sweep wrong.ini --set search=random --out wrong
    expect 2 'expected grid or halving'
    try sweep wrong.ini --set search=halving --set models=drop --out wrong
    expect 2 'models = keep'
    try sweep wrong.ini --set search=halving --out wrong
    expect 2 'epochs, steps or examples'
}

@test "models = drop keeps the results and removes the checkpoints" {
    small "batch = 10 50"
    try sweep my.ini --out sweep --no-report --set models=drop --set repeats=1
    expect 0
    [ ! -e sweep/batch-10/checkpoints ]
    grep -q '"checkpoint": null' sweep/batch-10/summary.json # it was not even written
    try sweep my.ini --out sweep --no-report --set models=drop --set repeats=1
    expect 0 "2 of 2 runs are already complete"
}

@test "a sweep ends with a report of its runs" {
    "$YOKE" report --help >/dev/null 2>&1 || skip "this build has no report command"
    small "batch = 50 10"
    try sweep my.ini --out sweep
    expect 0 "report: sweep/report.html"
    grep -q "<html" sweep/report.html
    grep -q "<h1>my</h1>" sweep/report.html
    [ ! -e sweep/report.log ]
}

@test "processes are a dimension of the grid" {
    "$YOKE" train --help | grep -q -- --launch || skip "this build has no --launch"
    small "launch = - 2
mode = sync async"
    try sweep my.ini --out sweep --no-report --set repeats=1 --set batch=10
    expect 0 "run 4 of 4: launch=2 mode=async: "
    python3 - <<'END'
import csv
runs = {(r["launch"], r["mode"]): r for r in csv.DictReader(open("sweep/runs.csv"))}
steps = {key: int(r["steps"]) for key, r in runs.items()}
# synchronous: two replicas; asynchronous: a server and a worker
assert steps == {("-", "sync"): 100, ("-", "async"): 100, ("2", "sync"): 50, ("2", "async"): 100}, steps
assert all((float(r["bytes_sent"]) > 0) == (key[0] == "2") for key, r in runs.items()), runs
END
    try sweep my.ini --out sweep --no-report --set repeats=1 --set batch=10
    expect 0 "4 of 4 runs are already complete"
}

@test "errors when writing to the directory and to stdout" {
    small
    touch file
    try sweep my.ini --out file/sweep
    expect 4 "file" "--out"
    [ ! -w /dev/full ] || {
        status=0
        "$YOKE" sweep my.ini --out sweep --quick --no-report >/dev/full 2>err || status=$?
        expect 4 "stdout"
    }
}

@test "a full disk: each failure has a reason, although its log is empty" {
    small
    mkdir disk
    for size in 16k 100k; do
        mount -t tmpfs -o size=$size none disk 2>/dev/null || skip "mounting a small file system needs root"
        status=0
        "$YOKE" sweep my.ini --out disk/sweep --set repeats=1 >out 2>err || status=$?
        umount disk
        expect 4 "No space left on device"
        ! grep -E "no error message|report:  \(" err || return 1
    done
}

@test "every file in experiments/ is valid, in full and quick size" {
    for file in "$BATS_TEST_DIRNAME"/../experiments/*.ini; do
        for size in "" --quick; do
            try sweep "$file" $size --dry-run
            expect 0
            silent err
            tail -n 1 out | grep -q " runs, .* steps and .* examples in total"
        done
    done
}
