#!/usr/bin/env bats
# --validation: the best model is selected, kept and used; early stopping, in every mode and placement.

setup() { load cli; load cluster; cluster_setup; }
teardown() { cluster_teardown; }

clicks='synth:ctr?features=500&nnz=10&examples=1500'

overfit() { # RUN OPTION...: overfits after a few epochs
    local run=$1
    shift
    try train --model logreg --data "$clicks" --validation 0.2 --patience 3 --epochs 40 --batch 50 --lr 0.5 --quiet --json --out "$run" "$@"
}

# The best checkpoint is kept, and has the smallest validation loss of the run; the summary has its test loss.
selected() { # RUN
    python3 - "$1" <<'END'
import json, os, sys
run = sys.argv[1]
evals = [e for e in map(json.loads, open(run + "/metrics.jsonl")) if e["kind"] == "eval" and e["step"]]
s = json.load(open(run + "/summary.json"))
best = min(evals, key=lambda e: e["validation_loss"])
assert s["best_step"] == best["step"], (s["best_step"], best)
assert open(run + "/checkpoints/best").read() == "step-%d\n" % best["step"]
assert os.path.exists(run + "/checkpoints/step-%d/DONE" % best["step"])
close = lambda a, b: abs(a - b) < 1e-6
assert close(s["validation_loss"], best["validation_loss"]) and close(s["test_loss"], best["test_loss"]), (s, best)
assert close(s["last_test_loss"], evals[-1]["test_loss"]) and close(s["last_validation_loss"], evals[-1]["validation_loss"])
assert s["steps"] == evals[-1]["step"]
END
}

best() { echo "$1/checkpoints/$(cat "$1/checkpoints/best")"; }
same_model() { cmp "$(best "$1")/model.safetensors" "$(best "$2")/model.safetensors"; }

@test "the best model is kept beside the last two, and eval, predict and warm starts use it" {
    overfit run --checkpoint-every 24
    expect 0
    selected run
    [ "$(field stopped_early) $(field state)" = 'true "done"' ]
    holds "$(field steps) < 40 * 24"
    [ "$(ls run/checkpoints | wc -l)" -eq 4 ] # best, and three checkpoints
    train_best=$(field best_step) loss=$(field test_loss)
    "$YOKE" report run --quiet >/dev/null
    grep -q "best model, at step $train_best<" run/report.html
    grep -q "Validation loss" run/report.html
    rm run/report.html
    grep -qa validation/loss run/events.out.tfevents.*
    try eval -c run -d "$clicks" --json
    expect 0
    holds "abs($(field loss) - $loss) < 1e-6"
    cp out by-run
    for path in run/checkpoints/best run/checkpoints/step-"$train_best"; do
        try eval -c $path -d "$clicks" --json
        expect 0
        cmp out by-run
    done
    try train --model logreg --data "$clicks" --steps 1 --warm-start run/checkpoints/best --out from-best
    expect 0 "starting with the parameters of run/checkpoints/step-$train_best"
    try train --model logreg --data "$clicks" --steps 1 --warm-start run --out from-last
    expect 0 "starting with the parameters of run/checkpoints/step-$(python3 -c 'import json; print(json.load(open("run/summary.json"))["steps"])')"
    try train --model logreg --data "$clicks" --epochs 20 --batch 50 --lr 0.5 --validation 0.2 --patience 3 --out again
    expect 0 "stopped early: no improvement for 3 evaluations; best at step $train_best"
    rm -r run/checkpoints/step-"$train_best" # then the newest is used
    try eval -c run -d "$clicks" --json
    expect 0 "run/checkpoints/best: skipping the checkpoint of the best model, step-$train_best: it does not exist"
    echo step-x >run/checkpoints/best
    try eval -c run -d "$clicks" --json
    expect 0 "run/checkpoints/best: skipping the checkpoint of the best model: it does not name a checkpoint"
}

@test "a run that is interrupted and resumed selects and stops like one that is not; a finished one stays finished" {
    overfit whole
    expect 0
    overfit run --epochs 8 --checkpoint-every 7 # before it stops
    expect 0
    try train --out run --resume --epochs 40 --quiet
    expect 0
    same_model whole run
    diff <(evaluations whole) <(evaluations run)
    selected run
    finished run 2
    try train --out run --resume --epochs 80 --quiet # it was stopped
    expect 0
    selected run
    same_model whole run
    try train --out run --resume --patience 6 --epochs 80 --json --quiet
    expect 0
    holds "$(field steps) > $(python3 -c 'import json; print(json.load(open("whole/summary.json"))["steps"])')"
    selected run
    # the metrics of the best model, which is older than the resumed checkpoint
    python3 -c 'import json
run, whole = (json.load(open(f"{name}/summary.json")) for name in ("run", "whole"))
assert run["best_step"] == whole["best_step"] and run["test_metrics"] == whole["test_metrics"] != None'
    overfit killed --epochs 9
    rm -rf "$(best killed)"
    try train --out killed --resume --epochs 10
    expect 0 "is missing or damaged: the best of the later models is selected"
}

@test "threads, shards and servers select the same model and stop at the same step; streams and async stop, too" {
    n=0
    for how in "--workers 2" "--launch 2" "--launch 3 --servers 1" "--launch 4 --servers 2"; do
        n=$((n + 1))
        overfit run-$n $how
        expect 0
        selected run-$n
        [ "$(field stopped_early)" = true ]
        same_model run-1 run-$n
        diff <(cut -d, -f1-3 <(evaluations run-1)) <(cut -d, -f1-3 <(evaluations run-$n))
    done
    for how in "--workers 2 --mode async" "--launch 3 --servers 1 --mode async" "--stream always --features 500" \
        "--launch 2 --stream always --features 500"; do
        n=$((n + 1))
        overfit run-$n $how
        expect 0
        selected run-$n
        [ "$(field stopped_early)" = true ]
    done
    for how in "--launch 2 --servers 0" "--workers 2"; do
        n=$((n + 1))
        try train --model softmax --data 'synth:digits?examples=400' --validation 0.2 --patience 3 --lr 0.5 --epochs 60 --quiet --json --out run-$n $how
        expect 0
        selected run-$n
    done
    same_model run-$n run-$((n - 1))
    finished run-3
}

@test "a worker that joins holds back the same rows" {
    seq 5000 | awk '{ print $1 % 3 == 0, ($1 <= 4000 ? $1 % 9 + 1 : 11) ":1" }' >rows.libsvm # feature 11: only in the last fifth
    begin train --model logreg --data 'libsvm:rows.libsvm?base=0' --features 20 --validation last:0.2 --eval-every 2000 \
        --epochs 99999 --batch 4 --mode async --launch 2 --servers 1 --out run
    until [ -e run/join ]; do
        kill -0 "$BACKGROUND" || { cat err; return 1; }
    done
    "$YOKE" train --join run >out2 2>err2 3>&- 4>&- &
    local joiner=$!
    wait_for_message "a worker has joined"
    wait_for_step_after "a worker has joined"
    kill -TERM "$BACKGROUND"
    finish 20
    expect 0
    wait $joiner
    grep -q "trained on [1-9][0-9]* examples" err2
    python3 - <<'END'
import json, struct
data = open(json.load(open("run/summary.json"))["checkpoint"] + "/model.safetensors", "rb").read()
size = struct.unpack("<Q", data[:8])[0]
begin, end = json.loads(data[8:8 + size])["0.weight"]["data_offsets"]
weights = struct.unpack("<20f", data[8 + size + begin:8 + size + end])
assert weights[11] == 0 and weights[1] != 0, weights
END
}

@test "validation data: other files, the last rows, without a test set, without a run directory" {
    "$YOKE" data gen "$clicks" --out a.libsvm >/dev/null
    head -n 1200 a.libsvm >train.libsvm
    tail -n 300 a.libsvm >last.libsvm
    common="--model logreg --epochs 3 --features 500 --quiet --json"
    try train $common --data a.libsvm --validation last:0.2 --out run-1
    expect 0
    loss="$(field validation_loss) $(field examples) $(field test_loss)"
    try train $common --data train.libsvm --validation last.libsvm --out none
    expect 0
    [ "$loss" = "$(field validation_loss) $(field examples) $(field test_loss)" ]
    try train $common --data a.libsvm --validation 0.2 --test none --out run-2
    expect 0
    rows=$(field examples)
    try train $common --data 'a.libsvm?split=0.8' --validation none --out run-3
    expect 0
    [ "$(field examples) $(field best_step) $(field validation_loss)" = "$rows null null" ]
    [ ! -e run-3/checkpoints/best ]
    try train ${common/--quiet/} --data train.libsvm --validation last.libsvm --monitor pr_auc --patience 1 --out run-4
    expect 0 ", PR-AUC 0."
    python3 -c 'import json
shown = {e["step"]: e["monitored"] for e in map(json.loads, open("run-4/metrics.jsonl")) if e["kind"] == "eval"}
end = json.load(open("run-4/summary.json"))
assert (end["monitor"], end["best_value"]) == ("pr_auc", max(shown.values())) and shown[end["best_step"]] == end["best_value"]'
    try train $common --data train.libsvm --validation last.libsvm --warm-start run-4 --lr 50 --out worse
    expect 0 "no trained model was as good as the initial one: validation loss"
    try train $common --out run-4 --resume --validation none --epochs 5
    expect 0
    [ ! -e run-4/checkpoints/best ]
}

@test "overfitted data: the kept model is near the best one of its run" { # ./dev bench validation is the long form
    for seed in 1 2 3; do
        try train --model 'dense 100, relu, dense 10' --optimizer adam --data "synth:digits?examples=300&test=1000&seed=$seed" \
            --epochs 60 --validation 0.2 --seed $seed --quiet --out run-$seed
        expect 0
        selected run-$seed
    done
    python3 - <<'END'
import json
excess = []
for seed in 1, 2, 3:
    evals = [e for e in map(json.loads, open(f"run-{seed}/metrics.jsonl")) if e["kind"] == "eval" and e["step"]]
    excess.append(json.load(open(f"run-{seed}/summary.json"))["test_loss"] / min(e["test_loss"] for e in evals) - 1)
assert sorted(excess)[1] <= 0.05, excess
END
}

@test "wrong options of validation name the reason and the remedy" {
    digits --patience 5 --out none
    expect 2 "--patience has no effect without --validation"
    digits --monitor auc --out none
    expect 2 "--monitor has no effect without --validation"
    digits --validation 0.1 --min-delta 0.1 --out none
    expect 2 "--min-delta has no effect without --patience"
    digits --validation 0.1 --monitor auc --out none
    expect 2 "--monitor auc is not defined for 10 classes"
    digits --validation 0.1 --monitor acc --out none
    expect 2 "--monitor acc: unknown metric; use one of: loss, "
    for bad in 1.5 0 last:1; do
        digits --validation $bad --out none
        expect 2 "--validation $bad: must be a fraction of the training data between 0 and 1"
    done
    printf '1 1:1\n0 2:1\n' >tiny.libsvm
    try train --model logreg --data tiny.libsvm --validation 0.01 --out none
    expect 3 "--validation 0.01" "no rows are left in this part"
    printf 'a,y,w\n1,0,1\n2,1,1\n3,1,0\n4,0,0\n' >tiny.csv
    try train --model logreg --data 'csv:tiny.csv?label=y&weight=w' --validation last:0.5 --out none
    expect 3 "all examples of the validation set have zero weight: use other data, or other rows, for --validation"
    try train --model logreg --data libsvm:- --features 3 --validation 0.5 --out none <tiny.libsvm
    expect 2 "can be read only once, so none of its rows can be held back"
}

@test "plateaus: a run that is ended and resumed takes the same steps; another --monitor starts the selection again, at the reduced rate" {
    options=(--model logreg --data "$clicks" --validation 0.2 --lr-schedule plateau --lr-decay 0.3 --eval-every 7 --lr 3 --quiet)
    for steps in 64 45; do
        try train "${options[@]}" --steps $steps --out run-$steps
        expect 0
    done
    try train --out run-45 --resume --steps 64 --quiet
    expect 0
    cmp run-{45,64}/checkpoints/step-64/model.safetensors
    try train --out run-45 --resume --steps 90 --monitor auc --quiet
    expect 0 "was selected with another --monitor: the best of the later models is selected"
    holds "$(sed s/step-// run-45/checkpoints/best) > 64"
    sed -n 's/.*"learning_rate":\([^,}]*\).*/\1/p' run-45/metrics.jsonl >rates # it stays reduced
    sort -cgr rates
    holds "$(head -n 1 rates) > $(tail -n 1 rates)"
}
