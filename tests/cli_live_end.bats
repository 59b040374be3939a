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

begin() { # OPTION...: sets PID and URL
    "$YOKE" train --model logreg --data 'synth:ctr?features=5000&examples=5000' --http 0 --out none --json "$@" >out 2>err &
    PID=$!
    for _ in $(seq 100); do
        URL=$(sed -n 's/.*live page: \(http:[^ ]*\) serves.*/\1/p' err)
        [ -z "$URL" ] || return 0
        sleep 0.1
    done
    cat err
    return 1
}

get() { # PATH
    python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())' "$URL$1"
}

@test "the result stays on the page until it is seen, with AUC, majority class and best possible values" {
    begin --epochs 2
    sleep 0.3
    kill -0 "$PID" # it waits
    get metrics >prometheus
    grep -q '^yoke_running 0$' prometheus
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
    begin --epochs 1
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
    command -v mpirun >/dev/null || skip "no mpirun"
    begin --launch 2 --mode async
    get status.json >status
    wait "$PID"
    PID=''
    [ "$(field ranks)" -eq 2 ]
    begin
    kill -INT "$PID"
    wait "$PID"
    PID=''
    [ "$(field state)" = '"done"' ]
}
