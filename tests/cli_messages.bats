#!/usr/bin/env bats
# Messages about mistakes: what is wrong, and the exit status.

setup() {
    load cli
    cli_setup
}

teardown() {
    cli_teardown
}

@test "a directory of idx files that does not exist" {
    try train --model softmax --data idx:/nowhere
    expect 3 "/nowhere: no such file or directory"
    for format in libsvm idx images cache; do
        try train --model softmax --data $format:nowhere --out none
        expect 3 "error: nowhere: no such file or directory in $PWD"
    done
}

@test "no epochs and no steps" {
    digits --epochs 0
    expect 2 "--epochs 0"
    digits --steps 0
    expect 2 "--steps 0"
    [ ! -e runs ]
}

@test "resuming a run that does not exist, and with another model" {
    try train --out nothere --resume
    expect 2 "nothere: no run to resume in this directory"
    [ ! -e nothere ]
    mkdir empty
    : >empty/config.ini
    try train --out empty --resume
    expect 2 "empty: no run to resume in this directory"
    digits --out run --quiet
    expect 0
    try train --out run --resume --model lenet5
    expect 2 "this run trains --model 'softmax'" "--model 'lenet5'"
    digits --out run --resume --epochs 2
    expect 0
}

@test "a file in a directory that this user may not search" {
    mkdir closed
    echo "1 1:1" >closed/x.libsvm
    cp "$YOKE" yoke
    chmod 0 closed
    chmod 755 .
    as=()
    if [ "$(id -u)" -eq 0 ]; then # root may read everything
        command -v setpriv >/dev/null || skip "no setpriv"
        as=(setpriv --reuid 65534 --regid 65534 --clear-groups)
    fi
    for path in closed/x.libsvm libsvm:closed/x.libsvm 'libsvm:closed/*'; do
        status=0
        "${as[@]}" ./yoke train --model logreg --data "$path" --out none >out 2>err || status=$?
        expect 3 "Permission denied"
    done
    chmod 755 closed
}

@test "converting to a format that does not exist" {
    try data convert 'synth:digits?examples=20' --out x.parquet
    expect 2 "x.parquet: the extension is not that of an output format" ".cache"
    [ ! -e x.parquet ]
    try data convert 'synth:digits?examples=20' --out x.parquet --format cache
    expect 0
}

@test "a host that cannot be reached" {
    printf '#!/bin/sh\necho "ssh: connect to host: No route to host" >&2\nexit 255\n' >agent
    chmod +x agent
    digits --hosts nohost.invalid:2 --agent "$PWD/agent" --out none
    expect 4 "No route to host" "cannot start the job on host nohost.invalid; check that this command works" "$PWD/agent nohost.invalid true"
    [ "$(wc -l <err)" -eq 2 ]
    digits --hosts nohost.invalid,other.invalid --agent "$PWD/agent" --out none
    expect 4 "No route to host" "cannot start the job on host "
    [ "$(wc -l <err)" -le 3 ]
    printf '#!/bin/sh\necho "Last login: never"; printf "\\001yoke agent 0.0\\n"; cat >/dev/null\n' >agent
    digits --hosts nohost.invalid:2 --agent "$PWD/agent" --out none
    expect 4 "host nohost.invalid has version 0.0 of yoke"
    digits --hosts nohost.invalid:2 --agent "$PWD/none-such -x" --out none
    expect 4 "cannot run $PWD/none-such (--agent)"
    digits --hosts a.invalid,b.invalid,c.invalid,d.invalid --agent "$PWD/none-such" --out none
    [ "$(grep -c "cannot run" err)" -eq 1 ]
}

@test "several processes without PATH" {
    status=0
    env -i "$YOKE" train --model softmax --data 'synth:digits?examples=500' --epochs 1 --launch 2 --out none >out 2>err || status=$?
    expect 0
}

@test "threads of a linear model" {
    clicks --threads 2 --out none
    expect 0 "linear models use one thread per worker"
}

@test "a warning that an asynchronous run on a stream of unknown length is evaluated only at the end" {
    seq 100 | awk '{ print $1 % 2, ($1 % 9 + 1) ":1" }' >a.libsvm
    one="train --model logreg --data libsvm:a.libsvm --features 10 --batch 10 --stream always --mode async --workers 2 --out none --quiet"
    try $one --epochs 2 --validation libsvm:a.libsvm
    expect 0 "only at the end: use --eval-every STEPS; without it, --validation keeps the last model"
    try $one --epochs 2 --test libsvm:a.libsvm --eval-every 2
    expect 0
    [ ! -s err ]
    try $one --epochs 2
    expect 0
    [ ! -s err ]
}

@test "help of a command" {
    try train -h
    expect 0
    grep -q "Usage: yoke train" out
    try help train
    expect 0
    grep -q "Usage: yoke train" out
}

@test "a misspelled option" {
    try train --modle softmax
    expect 2 "did you mean --model?"
}

@test "a failed run prints JSON" {
    digits --lr 1e30 --json --out run --quiet
    expect 1
    [ "$(field state)" = '"failed"' ]
    [ "$(field exit_code)" -eq 1 ]
    [ "$(field model)" = '"softmax"' ]
    try train --model softmax --data idx:/nowhere --json
    expect 3
    [ "$(field state)" = '"failed"' ]
    try train --epochs 0 --json
    expect 2
    [ "$(field exit_code)" -eq 2 ]
    [ "$(wc -l <out)" -eq 1 ]
}

@test "with --json, every command that fails early prints state, error and exit_code, and nothing else" {
    local command
    for command in 'train --model softmax --data idx:/nowhere' 'train --model softmax --data synth:digits --optimizer foo' \
        'train --no-such-option' 'eval --checkpoint nowhere --data synth:digits' 'eval' 'data inspect nowhere' \
        'data gen synth:digits' \
        'predict --checkpoint nowhere --data synth:digits' 'predict' 'sweep nowhere.ini' 'sweep'; do
        # shellcheck disable=SC2086  # a list of words
        try $command --json
        [ "$status" -ge 2 ]
        python3 - "$status" <<'END'
import json, sys
out = json.load(open("out"))
assert list(out) == ["state", "error", "exit_code"], out
assert out["state"] == "failed" and out["exit_code"] == int(sys.argv[1]) and out["error"] in open("err").read(), out
END
    done
}

@test "a reader that ends early, such as head, is not an error" {
    digits --epochs 1 --out run --quiet
    expect 0
    python3 - "$YOKE" <<'END'
import os, subprocess, sys
gone, pipe = os.pipe()
os.close(gone)
for words in ("train --help", "predict --checkpoint run --data synth:digits",
              "train --model softmax --data synth:digits?examples=500 --epochs 1 --out none --quiet"):
    for ignored in (False, True): # Python and others start programs with SIGPIPE ignored
        ended = subprocess.run([sys.argv[1], *words.split()], stdout=pipe, stderr=subprocess.PIPE, text=True,
                               restore_signals=not ignored)
        assert ended.returncode in (-13, 141) and "error" not in ended.stderr, (words, ignored, ended)
END
}

@test "a failed job prints JSON" {
    digits --lr 1e30 --json --out run --quiet --launch 2
    expect 1
    [ "$(field state)" = '"failed"' ]
    [ "$(field model)" = '"softmax"' ]
    [ "$(wc -l <out)" -eq 1 ]
}

@test "the progress line fits the narrowest terminals; evaluations keep the loss" {
    command -v script >/dev/null || skip "no script"
    for columns in 1 6 20; do
        script -qec "stty cols $columns; timeout -s INT 2 '$YOKE' train --model logreg --data 'synth:ctr?features=50&examples=100000' \
            --epochs 1000000 --eval-every 1000000 --out none" typescript >/dev/null </dev/null || true
        python3 - "$columns" <<'END'
import re, sys
text = open("typescript", newline="", errors="replace").read()
shown = re.findall("\r\x1b\\[K([^\r\n]+)(?=\r\x1b)", text)
assert (len(shown) > 0) == (sys.argv[1] != "1"), shown
assert all(len(line) < int(sys.argv[1]) for line in shown), shown
assert re.search(r"step \d+.* test loss 0\.\d+", text), text
END
    done
}

@test "the progress line names the bottleneck as such" {
    command -v script >/dev/null || skip "no script"
    script -qec "stty cols 200; '$YOKE' train --model softmax --data 'synth:digits?examples=10000&test=1000' --epochs 25 \
        --out none" typescript >/dev/null
    run ! grep -aqE "  cpu [0-9]+ %" typescript
}

@test "evaluations fit the window of a terminal; elsewhere they are complete" {
    command -v script >/dev/null || skip "no script"
    local columns job task=(train --model logreg --data 'synth:ctr?features=50&examples=500' --epochs 2 --out none)
    while read -r columns job; do
        script -qec "stty cols $columns; '$YOKE' ${task[*]@Q} $job" typescript >/dev/null </dev/null
        python3 - "$columns" <<'END'
import re, sys
text = re.sub(r"\x1b\[K", "", open("typescript", errors="replace").read().replace("\r", "\n"))
lines = [l for l in text.split("\n") if "test loss" in l and "step" in l]
assert lines and all(len(l) <= int(sys.argv[1]) for l in lines), lines
assert sys.argv[1] == "40" or all("AUC" in l for l in lines), lines
assert ("majority" in lines[0]) == (sys.argv[1] == "200"), lines
END
    done <<<$'40\n80\n200\n80 --launch 2'
    try "${task[@]}"
    expect 0
    [ "$(grep -c 'epoch .*train loss .*majority class: .* AUC ' err)" -eq 2 ]
}
