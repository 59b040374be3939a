#!/bin/sh
# Checks that the runner detects failures: CTest runs a suite of programs that pass, fail, skip, crash, hang and are flaky, and
# tools/tally has to count each of them correctly.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd -P)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

program() { # NAME LINE...
    file=$work/$1
    shift
    { echo '#!/bin/sh'; printf '%s\n' "$@"; } >"$file"
    chmod +x "$file"
}

program good 'echo "[       OK ] a"; echo "[       OK ] b"; echo "[  PASSED  ] 2 test(s)."'
program silent ':'
program bad 'echo "[       OK ] a"; echo "[  FAILED  ] b" >&2; echo "[  FAILED  ] 1 test(s), listed below:" >&2' \
    'echo "[  FAILED  ] b" >&2; exit 1'
program half 'echo "[ RUN      ] a"; echo noise; echo "[       OK ] a"; echo "[ RUN      ] b"; echo "skipped: no data"; echo "[  SKIPPED ] b"; echo "[  SKIPPED ] b"'
program crash 'echo "[       OK ] a"; kill -SEGV $$'
program hang 'echo "[       OK ] a"; exec sleep 60'
program shell 'echo "1..3"; echo "ok 1 one"; echo "ok 2 two # skip not here"; echo "not ok 3 three"; exit 1'
program flaky "[ -e '$work/again' ] || { : >'$work/again'; echo 'not ok 1 one'; exit 1; }" 'echo "ok 1 one"; echo "ok 2 two"'

{
    for name in flaky good silent bad half crash hang shell none; do
        echo "add_test($name \"$work/$name\")"
    done
    echo 'set_tests_properties(hang PROPERTIES TIMEOUT 1)'
} >"$work/CTestTestfile.cmake"

if ctest --test-dir "$work" -j 4 --repeat until-pass:2 >"$work/out" 2>&1; then
    echo "runner: ctest passed a suite with failures in it"
    exit 1
fi
"$root/tools/tally" "$work/Testing/Temporary/LastTest.log" | LC_ALL=C sort >"$work/got"
cat >"$work/expected" <<'END'
fail 5
flaky flaky: not ok 1 one
pass 10
skip half: b: no data
skip shell: two: not here
END
diff -u "$work/expected" "$work/got" || { cat "$work/Testing/Temporary/LastTest.log"; exit 1; }
if "$root/tools/tally" "$work/no-such-log" >"$work/out" 2>&1; then
    echo "runner: a missing log passed"
    exit 1
fi
echo "runner: failures, crashes, timeouts, flaky and missing programs are detected"
