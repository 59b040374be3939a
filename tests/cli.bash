# Helpers for tests of the command line: YOKE=build/yoke bats tests/X.bats.
#
#     setup() { load cli; cli_setup; }
#     teardown() { cli_teardown; }
#
# Each test runs in its own temporary directory. `try` runs the program and sets $status and the files out and err.

bats_require_minimum_version 1.5.0

cli_setup() {
    : "${YOKE:?must be the path of the program to test}"
    YOKE=$(realpath "$YOKE")
    HOOKS=${YOKE}_with_hooks # the same program, with hooks for tests (hooks.c): YOKE=$HOOKS YK_SLOW_WORKER=... try ...
    TEST_DIR=$(mktemp -d)
    exec {SILENCE}<> <(:)
    # bats need not record each line of these helpers for its report of a failure; that of the test is enough
    bats_add_debug_exclude_path "$BATS_TEST_DIRNAME" 2>/dev/null || true
    cd "$TEST_DIR" || return 1
}

cli_teardown() {
    cd / && rm -rf "$TEST_DIR"
}

# `sleep` that starts no process: in loops that wait, processes took more CPU time than what was tested.
pause() { read -rt "$1" _ <&"$SILENCE" || true; } # SECONDS

# Without site-packages, which takes most of the time of a short program.
python3() { command python3 -SE "$@"; }

try() { # ARGUMENT...
    status=0
    "$YOKE" "$@" >out 2>err || status=$?
}

# The program exited with this status, and stderr contains all of these words.
expect() { # STATUS WORDS...
    local wanted=$1 words
    shift
    if [ "$status" -ne "$wanted" ]; then
        echo "status $status, not $wanted; stderr:"
        cat err
        return 1
    fi
    for words; do
        if ! grep -qF -- "$words" err; then
            echo "stderr does not contain '$words':"
            cat err
            return 1
        fi
    done
}

silent() { # FILE: it is empty
    [ ! -s "$1" ] || { echo "$1 is not empty:"; cat "$1"; return 1; }
}

# The value of a field in the last line of `out`, as JSON.
field() { # NAME
    tail -n 1 out | python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)[sys.argv[1]]))' "$1"
}

# The Python expression is true.
holds() { # EXPRESSION
    python3 -c 'import sys; sys.exit(0 if eval(sys.argv[1]) else 1)' "$1" || { echo "not true: $1"; return 1; }
}

digits() { # OPTION...: a small run on generated digits
    try train --model softmax --data 'synth:digits?examples=500' "$@"
}

clicks() {
    try train --model logreg --data 'synth:ctr?features=5000&examples=5000' "$@"
}

# Resumes this finished run a number of times and checks that nothing changes, except for resource samples.
finished() { # RUN [TIMES]
    local again
    rm -rf before
    cp -r "$1" before
    for again in $(seq "${2:-1}"); do
        status=0
        timeout -k 2 60 "$YOKE" train --out "$1" --resume >out 2>err || status=$?
        expect 0 "nothing left to do: the run already has "
        diff -r -x resources.jsonl before "$1" || { echo "resume number $again changed the run"; return 1; }
    done
}

# The evaluations in a run's metrics.jsonl, without values that depend on the clock.
evaluations() { # RUN
    grep '"kind":"eval"' "$1/metrics.jsonl" | sed 's/"seconds":[^,]*,//'
}
