#!/usr/bin/env bats
# Training, evaluation and prediction on the command line: successful runs, and runs that are stopped by signals.

setup() { load cli; cli_setup; }
teardown() { cli_teardown; }

@test "help: yoke without arguments is a usage error, --help is not" {
    try
    expect 2 "yoke train"
    silent out
    for arguments in help --help -h; do
        try $arguments
        expect 0
        silent err
        grep -q "yoke train" out
    done
    for command in train eval predict inspect data sweep report "data gen" "data convert" "data inspect"; do
        # shellcheck disable=SC2086  # two words
        for arguments in "$command --help" "$command -h" "help $command"; do
            try $arguments
            expect 0
            silent err
            grep -q "^Usage: yoke $command \|^yoke $command " out
            awk 'length > 80' out >wide
            silent wide
        done
    done
    try version
    expect 0
    grep -q "^yoke [0-9]" out
    try nonsense
    expect 2 "unknown command nonsense; yoke --help lists the commands"
}

@test "a batch larger than the data needs no memory for examples that are not there" {
    grep -q '^YK_SANITIZE:STRING=.' "$(dirname "$YOKE")/CMakeCache.txt" && skip "the sanitizer reserves more"
    ulimit -v 4000000 # in this test only
    try train --model softmax --data 'synth:digits?examples=3&test=3' --batch 1000000 --out none --quiet
    expect 0
}

@test "json: one object with every documented field, and nothing else on stdout" {
    digits --epochs 2 --workers 2 --batch 10 --json --out run
    expect 0 "step 50, epoch 2.00"
    [ "$(wc -l <out)" -eq 1 ]
    python3 - <<'END'
import json
o = json.loads(open("out").read())
promised = """model data mode staleness workers workers_per_process ranks servers threads threads_used batch global_batch epochs steps examples seconds
steps_per_second examples_per_second train_loss test_loss test_accuracy test_auc majority_accuracy test_metrics bytes_sent
bytes_received peak_rss_bytes cpu_seconds verdict checkpoint""".split()
missing = [name for name in promised if name not in o]
assert not missing, missing
assert (o["model"], o["mode"], o["staleness"], o["workers"]) == ("softmax", "sync", 0, 2), o
assert (o["batch"], o["global_batch"], o["epochs"], o["steps"], o["examples"]) == (10, 20, 2, 50, 1000), o
assert (o["ranks"], o["servers"], o["bytes_sent"], o["bytes_received"]) == (1, 0, 0, 0), o
assert o["test_auc"] is None and ": " in o["verdict"] and o["bottleneck"]["kind"] in o["verdict"], o
assert o["seconds"] > 0 and o["examples_per_second"] > 0 and o["steps_per_second"] > 0 and o["cpu_seconds"] > 0, o
assert 1e6 < o["peak_rss_bytes"] < 1e9, o
m = o["test_metrics"]
assert (m["loss"], m["accuracy"], m["auc"], m["examples"]) == (o["test_loss"], o["test_accuracy"], None, m["weight"]), m
assert 0 < m["normalized_entropy"] < 1 and 0 < m["brier"] < 1 and 0 < m["calibration_error"] < 1 and "r2" not in m, m
assert len(m["classes"]) == len(m["confusion"]) == 10 and sum(map(sum, m["confusion"])) == m["examples"], m
assert 0.3 < o["test_accuracy"] <= 1 and 0 < o["test_loss"] < 2.3 and 0.1 <= o["majority_accuracy"] < 0.2, o
assert o["checkpoint"] == "run/checkpoints/step-50", o
assert o == json.load(open("run/summary.json")), o
END
}

@test "json: unknown values are null" {
    clicks --test none --out none --mode async --workers 2 --json
    expect 0
    for name in staleness test_loss test_accuracy test_auc majority_accuracy checkpoint; do
        [ "$(field $name)" = null ]
    done
    [ "$(field mode)" = '"async"' ]
    [ ! -e runs ]
}

@test "without --json: a table on stdout, log lines on stderr; with --quiet only the table" {
    digits --out none --quiet
    expect 0
    silent err
    grep -q "^test accuracy " out
    digits --out none
    expect 0 "softmax, 7850 parameters, on synth:digits" "1 worker, synchronous, batch 64 per worker (global batch 64)"
    clicks --out none --epochs 3
    expect 0 "the best that any model can reach on this test set"
    grep -q "^test AUC .*best possible" out
}

@test "a run directory is created, gets a name without --out, and is not overwritten" {
    digits --quiet
    expect 0
    ls runs/softmax-*/config.ini runs/softmax-*/metrics.jsonl runs/softmax-*/checkpoints/step-8/DONE
    grep -q '"keys": 7850' runs/softmax-*/summary.json # 785 rows of 10 classes, which have padding in memory
    digits --quiet --out run
    expect 0
    before=$(sha256sum run/config.ini run/checkpoints/*/*)
    digits --out run
    expect 2 "run already holds a run" --resume --out
    [ "$before" = "$(sha256sum run/config.ini run/checkpoints/*/*)" ]
}

@test "synchronous results are reproducible, and --staleness 0 equals --mode sync" {
    for run in "a --mode sync" "b --mode sync" "c --mode async --staleness 0"; do
        clicks --workers 3 --batch 10 --quiet --out $run
        expect 0
    done
    cmp a/checkpoints/step-167/model.safetensors b/checkpoints/step-167/model.safetensors
    cmp a/checkpoints/step-167/model.safetensors c/checkpoints/step-167/model.safetensors
}

@test "eval and predict agree with the final results of train" {
    clicks --epochs 2 --quiet --json --out run
    expect 0
    loss=$(field test_loss) accuracy=$(field test_accuracy) auc=$(field test_auc) majority=$(field majority_accuracy)
    for where in run run/checkpoints/step-158; do
        try eval --checkpoint $where --data 'synth:ctr?features=5000&examples=5000' --json
        expect 0
        silent err
        holds "abs($(field loss) / $loss - 1) < 1e-6 and abs($(field accuracy) - $accuracy) < 1e-9"
        holds "abs($(field auc) / $auc - 1) < 1e-6 and abs($(field majority_accuracy) - $majority) < 1e-9"
        python3 - run/summary.json <<'END'
import json, sys
run, new = json.load(open(sys.argv[1]))["test_metrics"], json.load(open("out"))
assert list(run) == list(new) and run["confusion"] == new["confusion"], (list(run), list(new))
for name in "normalized_entropy pr_auc brier calibration_error precision recall f1 macro_f1".split():
    assert abs(run[name] - new[name]) < 1e-6, (name, run[name], new[name])
END
        examples=$(field examples)
    done
    try eval --checkpoint run --data 'synth:ctr?features=5000&examples=5000'
    expect 0
    grep -q "^AUC " out && grep -q "^PR-AUC " out && grep -q "^calibration error " out && grep -q "^labels predictions" out
    try predict --checkpoint run --data 'synth:ctr?features=5000&examples=5000'
    expect 0
    silent err
    [ "$(wc -l <out)" -eq "$examples" ]
    holds "all(0 < float(line) < 1 for line in open('out'))"
    mv out piped
    try predict --checkpoint run --data 'synth:ctr?features=5000&examples=5000' --out lines
    expect 0
    silent out
    cmp piped lines
    # the loss computed from these lines is the one that train printed
    try data convert 'synth:ctr?features=5000&examples=5000' --split test --out test.libsvm
    expect 0
    python3 - "$loss" <<'END'
import math, sys
p = [float(x) for x in open("lines")]
y = [line.split()[0] in ("1", "+1") for line in open("test.libsvm")]
loss = -sum(math.log(a if b else 1 - a) for a, b in zip(p, y)) / len(p)
assert len(p) == len(y) and abs(loss - float(sys.argv[1])) < 1e-4, (loss, sys.argv[1])
END
}

@test "predict with softmax: one probability per class, and they add up to 1" {
    digits --quiet --json --out run
    expect 0
    accuracy=$(field test_accuracy)
    try eval --checkpoint run --data 'synth:digits?examples=500' --json
    expect 0
    holds "abs($(field accuracy) - $accuracy) < 1e-9"
    [ "$(field auc)" = null ]
    try predict --checkpoint run --data 'synth:digits?examples=500'
    expect 0
    holds "all(len(l.split()) == 10 and abs(sum(map(float, l.split())) - 1) < 1e-4 for l in open('out'))"
    try eval --checkpoint run --data 'synth:digits?examples=500' --split train --json
    expect 0
    holds "$(field accuracy) >= $accuracy - 0.05"
}

@test "a configuration file sets options, and the command line overrides them" {
    printf '; mine\nmodel = softmax\ndata = synth:digits?examples=500\nbatch = 20\nsteps = 7\n' >my.ini
    try train --config my.ini --out none --json --quiet
    expect 0
    [ "$(field batch) $(field steps)" = "20 7" ]
    try train --config my.ini --out none --json --quiet --batch 25
    expect 0
    [ "$(field batch) $(field steps) $(field examples)" = "25 7 175" ]
    try train --batch 25 --config my.ini --out none --json --quiet --epochs 2
    expect 0
    [ "$(field batch) $(field epochs) $(field examples)" = "25 2 1000" ]
}

@test "config.ini repeats a run, also with long and unusual paths" {
    long=$(printf 'x%.0s' $(seq 180))
    where="$long/$long; not a comment # nor this = neither"
    mkdir -p "$where"
    for i in 1 2 3 4 5 6 7 8; do echo "$((i % 2)) $((i % 5 + 1)):1.5"; done >"$where/a.libsvm"
    try train --model logreg --data "libsvm:$where/a.libsvm" --steps 5 --optimizer adagrad --lr 0.123456789012 --out first
    expect 0
    try train --config first/config.ini --out second --quiet
    expect 0
    cmp first/checkpoints/step-5/model.safetensors second/checkpoints/step-5/model.safetensors
    sed 1d first/config.ini >a
    sed 1d second/config.ini >b
    diff a b
    try train --out first --resume --steps 9 --json
    expect 0 "resuming from first/checkpoints/step-5"
    [ "$(field steps)" = 9 ]
}

@test "SIGINT, SIGTERM and SIGHUP save and exit with status 0; --resume gives bit-identical results" {
    long='--model logreg --data synth:ctr?features=5000&examples=5000 --batch 5 --workers 2 --steps 4000 --eval-every 500 --quiet'
    try train $long --out whole
    expect 0
    for signal in INT TERM HUP; do
        # bats starts children with SIGINT ignored: python restores the default
        python3 - "$YOKE" $signal $long --out "run $signal" <<'END'
import os, signal, subprocess, sys, time
yoke, name, *arguments = sys.argv[1:]
arguments.remove("--quiet")
back = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
out = arguments[-1]
p = subprocess.Popen([yoke, "train", *arguments, "--json"], stdout=open("out", "w"), stderr=open("err", "w"), preexec_fn=back)
deadline = time.time() + 60
while time.time() < deadline and p.poll() is None and "step 500," not in open("err").read():
    time.sleep(0.001)
p.send_signal(getattr(signal, "SIG" + name))
assert p.wait(60) == 0, (p.returncode, open("err").read())
END
        if [ "$(field steps)" -lt 4000 ]; then
            [ "$(field interrupted)" = true ]
            grep -q "stopped at step $(field steps), saved in run $signal/checkpoints/step-$(field steps)" err
            grep -qF -- "yoke train --out 'run $signal' --resume" err
        fi
        try train --out "run $signal" --resume --quiet
        expect 0
        cmp whole/checkpoints/step-4000/model.safetensors "run $signal"/checkpoints/step-4000/model.safetensors
    done
}

@test "SIGHUP is ignored after nohup" {
    (trap '' HUP && exec "$YOKE" train --model softmax --data 'synth:digits?examples=2000&test=100' --steps 999999 --eval-every 100 --out none >out 2>err) &
    pid=$!
    until grep -q 'step 100,' err 2>/dev/null; do kill -0 $pid && pause 0.02; done
    kill -HUP $pid
    step=$(grep -c '^step' err)
    for _ in $(seq 500); do
        [ "$(grep -c '^step' err)" -le $((step + 5)) ] || break
        pause 0.02
    done
    kill -TERM $pid # it still runs
    wait $pid
    [ "$(grep -c '^step' err)" -gt $((step + 5)) ]
}

@test "kill -9, repeatedly: the result is that of an uninterrupted run" {
    set -- --model logreg --data 'synth:ctr?features=5000&examples=5000' --batch 5 --steps 6000 --checkpoint-every 50 --quiet
    try train "$@" --out whole
    expect 0
    python3 - "$YOKE" train "$@" --out run --resume <<'END'
import random, subprocess, sys, time
killed = 0
for i in range(8):
    p = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
    time.sleep(random.uniform(0.02, 0.1))
    p.kill()
    killed += p.wait() == -9
assert killed > 0, "it was too fast to be killed"
END
    try train "$@" --out run --resume
    expect 0
    cmp whole/checkpoints/step-6000/model.safetensors run/checkpoints/step-6000/model.safetensors
}

@test "asynchronous: the observed staleness is reported, and all examples are used" {
    clicks --mode async --workers 3 --batch 1 --json --quiet --out none
    expect 0
    [ "$(field examples)" = 5000 ]
    holds "$(field observed_staleness | sed 's/true/True/; s/null/None/')['observed'] > 0"
    clicks --staleness 5 --workers 3 --batch 100 --out none
    expect 0 "a staleness bound of 5"
    grep -q "^staleness " out
}

@test "copies of hot keys: with any staleness bound and with --l2; their lifetime is reported" {
    for bound in 1 4 17 100; do
        clicks --staleness $bound --workers 3 --batch 10 --json --quiet --out none --l2 1e-5
        expect 0
        holds "$(field hot_keys) > 0"
        holds "0 < $(tail -n 1 out | grep -o '"hot_lifetime":{"steps":[0-9.]*' | grep -o '[0-9.]*$') <= max(1, $bound // 4)"
    done
    clicks --mode async --workers 3 --batch 10 --quiet --out none
    expect 0
    grep -q "^copies .* merged every [0-9]* examples ([0-9]* steps)" out
}
