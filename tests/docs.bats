#!/usr/bin/env bats
# Documents agree with the program.

load cli.bash

@test "docs/options.md is up to date" {
    "$(dirname "$YOKE")/options_reference" >"$BATS_TEST_TMPDIR/options.md"
    diff -u "$BATS_TEST_DIRNAME/../docs/options.md" "$BATS_TEST_TMPDIR/options.md" || {
        echo "run ./dev docs and commit the result"
        false
    }
}

@test "the man page names the options that a file cannot set" {
    grep 'command line only' "$BATS_TEST_DIRNAME/../docs/options.md" | grep -o '^| `--[a-z-]*' | grep -o -- '--.*' | sort >"$BATS_TEST_TMPDIR/options"
    sed -n 's/^the command line: \(--.*\)\. In a .*/\1/p' "$BATS_TEST_DIRNAME/../doc/yoke.1.scd" | grep -o -- '--[a-z-]*' | sort >"$BATS_TEST_TMPDIR/man"
    diff -u "$BATS_TEST_TMPDIR/options" "$BATS_TEST_TMPDIR/man"
}

@test "the man page has every option of train, and no other" {
    local man="$BATS_TEST_DIRNAME/../doc/yoke.1.scd"
    grep -o '^| `--[a-z0-9-]*' "$BATS_TEST_DIRNAME/../docs/options.md" | grep -o -- '--.*' | sort >"$BATS_TEST_TMPDIR/options"
    sed -n '/^# OPTIONS OF TRAIN/,/^# [^O]/p' "$man" | grep '^\*--' | grep -o -- '--[a-z0-9-]*' | sort -u >"$BATS_TEST_TMPDIR/man"
    diff -u "$BATS_TEST_TMPDIR/options" "$BATS_TEST_TMPDIR/man"
}
