#!/usr/bin/env bats
# Golden runs: synchronous results are bit-identical to those of commit e987b2e. The table of runs is tests/golden/runs.

setup() { load cli; load cluster; load golden; golden_setup; }
teardown() { cluster_teardown; }

@test "golden: softmax" { golden softmax all; }
@test "golden: logistic regression" { golden logreg all; }
@test "golden: networks" { golden networks all; }
@test "golden: replicas" { golden replicas; }
@test "golden: parameter servers" { golden servers; }
@test "golden: local SGD" { golden local-steps; }
@test "golden: resumed runs" { golden resume; }

@test "golden: results are recorded for every instruction set of this machine" {
    missing=$("$RECORD" --isas "$YOKE" | awk '$2 != "recorded" { print $1 }')
    [ -z "$missing" ] || skip "not recorded: $missing"
}

@test "golden: every group has a test, and every recorded run is in the table" {
    for group in $("$RECORD" --groups); do
        grep -qE "golden $group\b" "$BATS_TEST_DIRNAME"/golden.bats "$BATS_TEST_DIRNAME"/fixture.bats || { echo "no test of $group"; return 1; }
    done
    for file in "$BATS_TEST_DIRNAME"/golden/sums.*; do
        while read -r isa name _; do
            case $isa in '#' | compiler) continue ;; esac
            grep -qE "^$name " "$BATS_TEST_DIRNAME/golden/runs" || { echo "$file: unknown run $name"; return 1; }
        done <"$file"
    done
}

@test "golden: the comparison detects one changed bit, another loss, a missing tensor and a missing record" {
    isa=$(recorded_isas | head -n 1)
    [ -n "$isa" ] || skip "no results are recorded for the instruction sets of this machine"
    mkdir tests
    cp -r "$BATS_TEST_DIRNAME/golden" tests
    sums=golden/sums.$(uname -m)
    changed() { # SED-EXPRESSION: edits the line of one run
        sed "/^$isa softmax-plain /{$1}" "$BATS_TEST_DIRNAME/$sums" >"tests/$sums"
        status=0
        tests/golden/record --check --isa "$isa" "$YOKE" softmax-batch-1 softmax-plain >out 2>err || status=$?
    }
    changed ''
    [ "$status" -eq 0 ] || skip "$(tail -n 1 err)"
    for case in 's/\(0.bias=...............\)./\1x/#0.bias: ' 's/test_loss=[0-9.]*/&1/#test_loss: ' \
        's/$/ velocity=0123456789abcdef/#velocity: missing'; do
        changed "${case%#*}"
        [ "$status" -ne 0 ] # 1, or 77 if another compiler may be the cause
        expect "$status" "$isa softmax-plain: ${case#*#}"
    done
    changed d
    expect 77 "$isa: not recorded: softmax-plain"
}
