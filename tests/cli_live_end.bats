#!/usr/bin/env bats
# The live page at the end of a run: the final result stays until it is seen.

setup() {
    load cli
    cli_setup
}

teardown() {
    [ -z "${PID:-}" ] || kill -KILL "$PID" 2>/dev/null || true
    cli_teardown
}

# A run of half a second; sets PID and URL.
begin() { # OPTION...
    YK_SLOW_WORKER=0:500ms "$HOOKS" train --model logreg --data 'synth:ctr?features=5000&examples=5000' --batch 5000 \
        --http 0 --out none --json "$@" >out 2>err &
    PID=$!
    wait_for 's/.*live page: \(http:[^ ]*\)$/\1/p'
}

wait_for() { # SED SCRIPT: until it prints the address
    for _ in $(seq 1000); do
        URL=$(sed -n "$1" err)
        [ -z "$URL" ] || return 0
        pause 0.01
    done
    cat err
    return 1
}

# The same, with a page that is open, until the run has ended.
watch() { # OPTION...
    begin "$@"
    get status.json >status
    grep -q '"running"' status
    wait_for 's/.*live page: \(http:[^ ]*\) serves.*/\1/p'
}

get() { # PATH; python would take longer than the run
    local port=${URL##*:}
    exec 5<>"/dev/tcp/127.0.0.1/${port%/}" || return 1
    printf 'GET /%s HTTP/1.0\r\nHost: localhost\r\n\r\n' "$1" >&5
    sed '1,/^\r$/d' <&5
    exec 5>&-
}

@test "the result stays on the page until it is seen, with AUC, majority class and best possible values" {
    watch --epochs 2
    sleep 0.3
    kill -0 "$PID" # it waits
    get metrics >prometheus
    grep -q '^yoke_running 0$' prometheus
    grep -q '^yoke_seconds_left 0$' prometheus
    grep -q '^yoke_test_auc 0\.' prometheus
    grep -q '^yoke_majority_accuracy 0\.' prometheus
    grep -q '^yoke_best_loss 0\.' prometheus
    get status.json >status
    wait "$PID"
    PID=''
    [ "$(field state)" = '"done"' ]
    python3 - <<'END'
import json
status, summary = json.load(open("status")), json.load(open("out"))
assert status["state"] == "done" and status["epoch"] == 2 and status["seconds_left"] == 0, status
for key in ["test_auc", "test_loss", "test_accuracy", "majority_accuracy", "best_loss", "best_auc", "examples_per_second"]:
    assert abs(status[key] - summary[key]) <= 1e-4 * abs(summary[key]), (key, status[key], summary[key])
END
}

@test "clients that send slowly do not lock out others" {
    watch --epochs 1
    python3 - "$URL" <<'END'
import socket, sys, urllib.parse, urllib.request
at = urllib.parse.urlparse(sys.argv[1])
slow = [socket.create_connection((at.hostname, at.port)) for _ in range(100)]
for s in slow:
    s.send(b"GET / HT")
assert b"yoke_running" in urllib.request.urlopen(sys.argv[1] + "metrics", timeout=3).read()
END
}

@test "several processes end when it was seen; Ctrl-C ends it, too" {
    watch --launch 3 --servers 1 --quorum 1 --epochs 2
    get status.json >status
    wait "$PID"
    PID=''
    [ "$(field ranks)" -eq 3 ]
    grep -q '"epoch": *2\.0*,' status # late examples count, too
    watch --epochs 1
    kill -INT "$PID"
    wait "$PID"
    PID=''
    [ "$(field state)" = '"done"' ]
}

@test "a run that nobody watches does not wait; requests for metrics do not count" {
    begin --epochs 1
    get metrics >prometheus
    wait "$PID"
    PID=''
    [ "$(field state)" = '"done"' ]
    ! grep -q 'serves the result' err
}

@test "--http: a port that is in use is reported before the data is read" {
    watch --epochs 1
    local port=${URL##*:}
    try train --model logreg --data missing.libsvm --http "${port%/}" --out none
    expect 4 "cannot listen: Address already in use; choose another port"
    try train --model logreg --data synth:ctr --http "${port%/}" --out none --launch 2
    expect 4 "cannot listen: Address already in use; choose another port"
}
