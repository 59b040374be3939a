#!/usr/bin/env bats
# The shell examples in README.md and docs/*.md work, and print the figures that the pages show. The rules for pages are in
# docs_examples.py. To check one page:
#
#     YOKE=build/yoke bats tests/docs_examples.bats -f clusters.md

bats_require_minimum_version 1.5.0

setup() {
    : "${YOKE:?names the program to test}"
    ROOT=$(dirname "$BATS_TEST_DIRNAME")
}

page() { # PAGE
    [ -f "$ROOT/$1" ] || skip "$1 does not exist"
    (cd "$ROOT" && python3 tests/docs_examples.py "$YOKE" "$1")
}

@test "README.md" {
    [ "$(wc -l <"$ROOT/README.md")" -le 200 ] # more belongs in docs/
    page README.md
}
@test "docs/README.md" { page docs/README.md; }
@test "docs/checkpoints.md" { page docs/checkpoints.md; }
@test "docs/clusters.md" { page docs/clusters.md; }
@test "docs/commands.md" { page docs/commands.md; }
@test "docs/comparison.md" { page docs/comparison.md; }
@test "docs/convergence.md" { page docs/convergence.md; }
@test "docs/data.md" { page docs/data.md; }
@test "docs/design.md" { page docs/design.md; }
@test "docs/experiments-log.md" { page docs/experiments-log.md; }
@test "docs/file-formats.md" { page docs/file-formats.md; }
@test "docs/jobs.md" { page docs/jobs.md; }
@test "docs/library.md" { page docs/library.md; }
@test "docs/models.md" { page docs/models.md; }
@test "docs/networks.md" { page docs/networks.md; }
@test "docs/observation.md" { page docs/observation.md; }
@test "docs/options.md" { page docs/options.md; }
@test "docs/performance.md" { page docs/performance.md; }
@test "docs/performance-model.md" { page docs/performance-model.md; }
@test "docs/promises.md" { page docs/promises.md; }
@test "docs/python.md" { page docs/python.md; }
@test "docs/tutorial.md" { page docs/tutorial.md; }

@test "every page of docs/ has a test above" {
    for file in "$ROOT"/docs/*.md; do
        grep -qF "page docs/${file##*/};" "$BATS_TEST_FILENAME" || { echo "no test for docs/${file##*/}"; return 1; }
    done
}

# ---- tests of the checker itself

good() { # writes a valid page
    cat <<'END'
# A page
```sh
yoke train --model softmax --data 'synth:digits?examples=500' --epochs 2 --out run
cat note
```
<!-- compare -->
```text
softmax, 7850 parameters, on synth:digits?examples=500: 500 examples, 784 columns, 10 classes
...
steps          16 (2198 per second)
examples       1000 (131906 per second)
```
<!-- skip: needs ssh -->
```sh
ssh nowhere.invalid true
```
END
}

finds() { # LINE WORDS PAGE: the checker fails at this line with these words
    local status=0
    python3 "$BATS_TEST_DIRNAME/docs_examples.py" "$YOKE" "$3" >"$BATS_TEST_TMPDIR/out" 2>&1 || status=$?
    [ "$status" -eq 1 ] && grep -qF "$3:$1: $2" "$BATS_TEST_TMPDIR/out" && return 0
    echo "status $status:"
    cat "$BATS_TEST_TMPDIR/out"
    return 1
}

@test "the checker accepts a valid page" {
    { printf '<!-- file: note -->\n```ini\ntest loss 0.5000, accuracy 91.26 %%\n```\n'; good
      printf '```sh\necho test loss 0.3044, accuracy 91.20 %%\n```\n<!-- compare -->\n```text\ntest loss 0.3041, accuracy 91.26 %%\n```\n'
      printf '```sh\necho "mode   steps  test loss  accuracy %%"; echo "sync    1200  0.3007 ± 0.0054  91.31 ± 0.17"\n```\n'
      printf '<!-- compare: 5 %% -->\n```text\nmode   steps  test loss        accuracy %%\nsync    1200  0.3097 ± 0.0054  90.31\n```\n'
    } >"$BATS_TEST_TMPDIR/page.md"
    python3 "$BATS_TEST_DIRNAME/docs_examples.py" "$YOKE" "$BATS_TEST_TMPDIR/page.md"
}

@test "the checker finds wrong figures, failing commands and blocks without a mark" {
    local at="$BATS_TEST_TMPDIR"
    good | sed '/^cat note/d' >"$at/good.md"
    sed 's/^steps .*/steps          17 (2198 per second)/' "$at/good.md" >"$at/steps.md"
    finds 9 "the page has steps 17; the program prints steps 16" "$at/steps.md"
    sed 's/7850/7851/' "$at/good.md" >"$at/parameters.md"
    finds 7 "the page has" "$at/parameters.md"
    printf '```sh\necho test loss 0.3041\n```\n<!-- compare -->\n```text\ntest loss 0.3141\n```\n' >"$at/loss.md"
    finds 6 "the page has test loss 0.3141; the program prints test loss 0.3041" "$at/loss.md"
    printf '```sh\nfalse\ntrue\n```\n' >"$at/false.md"
    finds 1 "exit status 1" "$at/false.md"
    grep -v 'skip:' "$at/good.md" >"$at/ssh.md"
    finds 12 "exit status 255" "$at/ssh.md" || finds 12 "exit status 127" "$at/ssh.md"
    sed 's/skip: needs ssh/skip/' "$at/good.md" >"$at/reason.md"
    finds 12 "<!-- skip: REASON -->" "$at/reason.md"
    printf '```\ntrue\n```\n' >"$at/bare.md"
    finds 1 "a block needs a language" "$at/bare.md"
    printf '\n    yoke train\n' >"$at/indented.md"
    finds 2 "an example without a fence" "$at/indented.md"
    printf '```sh\necho hello\n```\n<!-- compare -->\n```text\nhello\n```\n' >"$at/nothing.md"
    finds 5 "nothing to compare" "$at/nothing.md"
}
