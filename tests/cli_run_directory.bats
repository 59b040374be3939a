# yoke does not touch foreign files in a run directory or linked from it. And only one run at a time
# may write to a run directory.

setup() {
    load cli
    cli_setup
    BACKGROUND=()
    log=live.err
    mkdir victim
    echo keep >victim/keep
    for name in DONE model.safetensors metrics.jsonl resources.jsonl; do
        echo "$name of somebody else" >"victim/$name"
    done
    cp -r victim untouched
}

teardown() {
    local pid
    for pid in "${BACKGROUND[@]}"; do
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    cli_teardown
}

short() { # ten steps
    digits --batch 50 --quiet --out run
}

resume() { # saves five more checkpoints, and removes old ones
    try train --out run --resume --epochs 6 --checkpoint-every 10
}

safe() { # nothing in victim/ was changed or added
    diff -r victim untouched
}

linked() { # NAME...: these are still links
    local name
    for name; do
        [ -L "$name" ] || { echo "$name is not a link any more"; ls -lR run; return 1; }
    done
}

# A slow run in the background ($pid).
begin() { # ARGUMENT...
    YK_SLOW_WORKER=0:20ms "$HOOKS" train --model softmax --data 'synth:digits?examples=500' --batch 50 "$@" \
        >live.out 2>"$log" 3>&- &
    pid=$!
    BACKGROUND+=("$pid")
}

# Starts a long run in the background, and waits for its first checkpoint.
live() {
    begin --epochs 100000 --checkpoint-every 20 --out run
    wait_for_file run/checkpoints/step-20/DONE
}

wait_for_file() { # FILE
    for _ in $(seq 1000); do
        [ ! -e "$1" ] || return 0
        pause 0.02
    done
    echo "$1 was not created in time"
    tail -n 5 "$log"
    return 1
}

equal_to() { # WHAT FOUND EXPECTED
    [ "$2" = "$3" ] || { echo "$1: '$2', not '$3'"; return 1; }
}

in_use() { # PID: the last command was rejected because this process uses the run directory
    expect 2 "run: in use by process $1 on host $(uname -n) since " "stop it (kill $1), or choose another --out"
}

@test "a linked checkpoint is read, and neither the link nor its target is removed" {
    short
    expect 0
    # users free space this way: move the checkpoint elsewhere and link it
    mkdir elsewhere
    mv run/checkpoints/step-10 elsewhere/
    cp -r elsewhere saved
    ln -s "$PWD/elsewhere/step-10" run/checkpoints/step-10
    ln -s "$PWD/victim" run/checkpoints/step-7
    ln -s "$PWD/victim" run/checkpoints/step-1000
    resume
    expect 0 "step-1000: skipping this checkpoint" "resuming from run/checkpoints/step-10 (step 10)"
    safe
    diff -r elsewhere saved
    linked run/checkpoints/step-7 run/checkpoints/step-10 run/checkpoints/step-1000
    # it keeps two of its own checkpoints
    [ "$(cd run/checkpoints && find . -mindepth 1 -maxdepth 1 -type d | sort | xargs)" = "./step-50 ./step-60" ]
}

@test "links where yoke would write are rejected before training starts" {
    short
    expect 0
    cp -r run before
    cp run/config.ini victim/
    cp run/config.ini untouched/
    for name in checkpoints checkpoints/.saving worker-0 worker-3 metrics.jsonl summary.json trace.json lock; do
        rm -rf "run/$name"
        case $name in
        *.json* | lock) ln -s "$PWD/victim/keep" "run/$name" ;;
        *) ln -s "$PWD/victim" "run/$name" ;;
        esac
        try train --out run --resume --epochs 6
        expect 4 "run/$name: cannot be used: it is a symbolic link; yoke does not write through links" \
            "remove the link or choose another --out"
        [ ! -e run/checkpoints/step-60 ]
        safe
        linked "run/$name"
        rm -rf run
        cp -r before run
    done
    # a new run in a directory that has such a link, and a dangling link
    mkdir new
    ln -s "$PWD/victim/metrics.jsonl" new/metrics.jsonl
    digits --out new
    expect 4 "new/metrics.jsonl: cannot be used: it is a symbolic link"
    safe
    ln -sfn "$PWD/nowhere" new/metrics.jsonl
    digits --out new
    expect 4 "new/metrics.jsonl: cannot be used: it is a symbolic link"
    [ ! -e nowhere ]
}

@test "the run directory itself may be a link" {
    mkdir -p disk/real
    ln -s "$PWD/disk/real" run
    short
    expect 0
    resume
    expect 0
    linked run
    [ -e disk/real/checkpoints/step-60/DONE ]
}

@test "foreign files in a checkpoint are kept, yoke's own files are removed" {
    short
    expect 0
    echo mine >run/checkpoints/step-10/notes.txt
    mkdir run/checkpoints/step-10/figures
    ln -s "$PWD/victim/keep" run/checkpoints/step-10/state.safetensors.1-0.tmp
    mkdir run/checkpoints/step-5x
    echo mine >run/checkpoints/step-5x/DONE
    resume
    expect 0 "run/checkpoints/step-10: kept, because it holds files that yoke did not write"
    equal_to "warnings" "$(grep -c "did not write" err)" 1
    [ "$(find run/checkpoints/step-10 -mindepth 1 -printf '%f\n' | sort | xargs)" = "figures notes.txt state.safetensors.1-0.tmp" ]
    [ "$(cat run/checkpoints/step-10/notes.txt run/checkpoints/step-5x/DONE | xargs)" = "mine mine" ]
    safe
}

@test "a foreign file in the way of a checkpoint is renamed" {
    short
    expect 0
    echo mine >run/checkpoints/step-20
    mkdir run/checkpoints/step-30
    echo mine >run/checkpoints/step-30/notes.txt
    ln -s "$PWD/victim" run/checkpoints/step-60
    resume
    expect 0 "run/checkpoints/step-20 has the name of a new checkpoint: renamed to step-20.old-1"
    [ "$(cat run/checkpoints/step-20.old-1 run/checkpoints/step-30.old-1/notes.txt | xargs)" = "mine mine" ]
    linked run/checkpoints/step-60.old-1
    safe
    [ -e run/checkpoints/step-60/DONE ]
}

@test ".saving: leftovers of a killed run are removed, foreign files are kept" {
    short
    expect 0
    mkdir -p run/checkpoints/.saving/deep/er
    echo mine >run/checkpoints/.saving/deep/er/notes.txt
    echo half >run/checkpoints/.saving/model.safetensors.17-0.tmp
    try train --out run --resume --epochs 2
    expect 0
    [ "$(find run/checkpoints -name notes.txt -exec cat {} +)" = mine ]
    [ -z "$(find run/checkpoints -name '*.tmp')" ]
    [ -e run/checkpoints/step-20/DONE ]
    rm -rf run/checkpoints/.saving
    echo mine >run/checkpoints/.saving
    try train --out run --resume --epochs 3
    expect 4 "run/checkpoints/.saving: cannot be used: File exists; a file or directory with this name exists; move it"
    [ "$(cat run/checkpoints/.saving)" = mine ]
}

@test "temporary files of a killed run are removed, foreign files are kept" {
    short
    expect 0
    touch run/config.ini.4711-0.tmp run/summary.json.12-3.tmp run/notes.1-1.tmp run/config.ini.bak
    resume
    expect 0
    [ "$(cd run && echo *.tmp *.bak)" = "notes.1-1.tmp config.ini.bak" ] || { ls run; false; }
}

@test "yoke report does not write through links in a run directory" {
    short
    expect 0
    mkfifo pipe
    ln -s "$PWD/pipe" run/report.html
    status=0
    timeout 10 "$YOKE" report run >out 2>err || status=$?
    expect 4 "run/report.html: cannot create: it is a symbolic link"
    linked run/report.html
}

@test "a sweep that repeats a run keeps foreign files and does not truncate a linked log" {
    printf '[sweep]\nsteps = 10\n[train]\nmodel = softmax\ndata = synth:digits?examples=500\n[grid]\nbatch = 10\n' >my.ini
    try sweep my.ini --out sweep --no-report --quiet
    expect 0
    rm -r sweep/batch-10/checkpoints sweep/batch-10/summary.json
    echo mine >sweep/batch-10/notes.txt
    mkdir sweep/batch-10/checkpoints
    ln -s "$PWD/victim" sweep/batch-10/checkpoints/step-3
    try sweep my.ini --out sweep --no-report
    expect 0
    [ "$(cat sweep/batch-10/notes.txt)" = mine ]
    linked sweep/batch-10/checkpoints/step-3
    safe
    rm -r sweep/batch-10
    mkdir sweep/batch-10
    ln -s "$PWD/victim/keep" sweep/batch-10/log.txt
    try sweep my.ini --out sweep --no-report
    expect 4 "sweep/batch-10/log.txt: cannot write: it is a symbolic link"
    safe
}

@test "a second process cannot write to a running run; readers are not blocked" {
    live
    cp run/config.ini before.ini
    try train --out run --resume --steps 30
    in_use "$pid"
    digits --out run
    in_use "$pid"
    ln -s run alias
    try train --out alias --resume --steps 30
    expect 2 "alias: in use by process $pid"
    cmp run/config.ini before.ini
    try report run -o page.html
    expect 0
    try eval --checkpoint run --data 'synth:digits?examples=500'
    expect 0
    try predict --checkpoint run --data 'synth:digits?examples=10'
    expect 0
    try train --out run --resume --dry-run
    expect 0
    # the first run is not affected, and ends normally
    kill -TERM "$pid"
    status=0
    wait "$pid" || status=$?
    cp live.err err
    expect 0 "stopped at step"
    [ -f run/lock ] && [ ! -s run/lock ]
    try train --out run --resume --steps 1
    expect 0
}

@test "a run whose owner was killed can be resumed at once" {
    live
    kill -KILL "$pid"
    try train --out run --resume --epochs 20 --checkpoint-every 1000
    expect 0 "resuming from run/checkpoints/step-"
}

@test "a stopped process keeps its lock" {
    live
    kill -STOP "$pid"
    try train --out run --resume --steps 30
    in_use "$pid"
}

@test "if several processes start a run at the same time, one wins" {
    for i in 1 2 3 4; do
        log=err$i
        begin --epochs 100000 --out new/run --resume
    done
    for _ in $(seq 250); do # until three of them have ended
        left=()
        for pid in "${BACKGROUND[@]}"; do
            ! grep -qs '^State:.[^ZX]' "/proc/$pid/status" || left+=("$pid")
        done
        [ "${#left[@]}" -gt 1 ] || break
        pause 0.02
    done
    equal_to "number of processes left" "${#left[@]}" 1
    kill -TERM "${left[0]}"
    codes=
    for pid in "${BACKGROUND[@]}"; do
        status=0
        wait "$pid" || status=$?
        codes="$codes $status"
    done
    equal_to "exit status" "$(tr ' ' '\n' <<<"$codes" | sort | xargs)" "0 2 2 2"
    equal_to "refused" "$(cat err? | grep -c "new/run: in use by")" 3
}

@test "a sweep does not remove a run that a user has resumed manually" {
    printf '[sweep]\nsteps = 10\n[train]\nmodel = softmax\ndata = synth:digits?examples=500\n[grid]\nbatch = 50\n' >my.ini
    try sweep my.ini --out sweep --no-report --quiet
    expect 0
    rm -r sweep/batch-50/checkpoints sweep/batch-50/summary.json sweep/batch-50/worker-0
    begin --out sweep/batch-50 --resume --steps 100000
    wait_for_file sweep/batch-50/worker-0/resources.jsonl
    try sweep my.ini --out sweep --no-report --force
    expect 2 "sweep/batch-50: in use by process $pid on host"
    [ -e sweep/batch-50/config.ini ] && [ -e sweep/batch-50/metrics.jsonl ]
    kill -TERM "$pid"
    wait "$pid"
}

@test "a run whose directory was moved does not write to the next run at that path" {
    live
    mv run moved
    short
    expect 0
    cp -r run before
    wait "$pid" && status=0 || status=$?
    cp live.err err
    expect 4 "run: the run directory was moved, removed or replaced during the run"
    diff -r before run
    [ -e moved/checkpoints/step-20/DONE ]
}

@test "a new run does not replace files that yoke did not write" {
    for name in metrics.jsonl summary.json trace.json lock; do
        mkdir "has-$name"
        echo mine >"has-$name/$name"
        digits --out "has-$name" --trace
        expect 2 "has-$name" "$name"
        [ "$(cat "has-$name/$name")" = mine ]
    done
}
