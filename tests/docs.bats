#!/usr/bin/env bats
# The documentation agrees with the program.

load cli.bash

setup() { ROOT=$(dirname "$BATS_TEST_DIRNAME"); }

same() { # FILE NEW
    diff -u "$1" "$2" || {
        echo "run ./dev docs and commit the result"
        return 1
    }
}

@test "docs/options.md is up to date" {
    "$(dirname "$YOKE")/options_reference" >"$BATS_TEST_TMPDIR/options.md"
    same "$ROOT/docs/options.md" "$BATS_TEST_TMPDIR/options.md"
}

@test "the options in docs/man/yoke-train.1.scd are up to date" {
    "$(dirname "$YOKE")/options_reference" man <"$ROOT/docs/man/yoke-train.1.scd" >"$BATS_TEST_TMPDIR/page"
    same "$ROOT/docs/man/yoke-train.1.scd" "$BATS_TEST_TMPDIR/page"
    [ "$(grep -c '^\*--' "$BATS_TEST_TMPDIR/page")" -eq "$(grep -c '^| `--' "$ROOT/docs/options.md")" ]
}

@test "every command has a man page, with its options" {
    local command file option
    "$YOKE" --help | grep -o '^  yoke [a-z]*' | sed 's/.* //; /version/d' >"$BATS_TEST_TMPDIR/commands"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/commands")" -ge 6 ]
    while read -r command; do
        file=$ROOT/docs/man/yoke-$command.1.scd
        [ -f "$file" ] || { echo "$file does not exist"; return 1; }
        grep -qF "*yoke-$command*(1)" "$ROOT/docs/man/yoke.1.scd" || { echo "yoke.1 does not name yoke-$command"; return 1; }
        case $command in
        data) for verb in gen convert inspect; do "$YOKE" data $verb --help; done ;;
        *) "$YOKE" "$command" --help ;;
        esac | grep -o '^ \{2,6\}\(-[a-z], \)\?--[a-z0-9-]*' | grep -o -- '--[a-z0-9-]*' | grep -v '^--help$' |
            sort -u >"$BATS_TEST_TMPDIR/options"
        [ -s "$BATS_TEST_TMPDIR/options" ]
        while read -r option; do
            grep -q -e "^\*.*\*$option\*" -e "^\*$option\*" "$file" || { echo "yoke-$command.1 lacks $option"; return 1; }
        done <"$BATS_TEST_TMPDIR/options"
    done <"$BATS_TEST_TMPDIR/commands"
}

@test "docs/man/ has the man page of each source" {
    command -v scdoc >/dev/null || skip "scdoc is not installed"
    local page
    [ "$(cd "$ROOT/docs/man" && ls ./*.1)" = "$(cd "$ROOT/docs/man" && ls ./*.scd | sed 's/\.scd$//')" ]
    for page in "$ROOT"/docs/man/*.scd; do
        "$ROOT/tools/man_page" "$page" >"$BATS_TEST_TMPDIR/page"
        same "$ROOT/docs/man/$(basename "$page" .scd)" "$BATS_TEST_TMPDIR/page"
    done
}

@test "man pages build without errors or warnings" {
    command -v scdoc >/dev/null || skip "scdoc is not installed"
    local page file
    for page in "$ROOT"/docs/man/*.scd; do
        file=$BATS_TEST_TMPDIR/$(basename "$page" .scd)
        scdoc <"$page" >"$file" 2>"$BATS_TEST_TMPDIR/err" || { echo "$page:"; cat "$BATS_TEST_TMPDIR/err"; return 1; }
        silent "$BATS_TEST_TMPDIR/err"
        # scdoc puts a .PP after each heading, which is harmless
        if command -v mandoc >/dev/null; then
            mandoc -Tlint -Wwarning "$file" | grep -v 'skipping paragraph macro' >"$BATS_TEST_TMPDIR/err" || true
            silent "$BATS_TEST_TMPDIR/err"
        fi
        if command -v man >/dev/null && command -v groff >/dev/null; then
            MANWIDTH=100 man --warnings=w -l "$file" >"$BATS_TEST_TMPDIR/text" 2>"$BATS_TEST_TMPDIR/err"
            silent "$BATS_TEST_TMPDIR/err"
            grep -q 'SEE ALSO' "$BATS_TEST_TMPDIR/text"
        fi
    done
}

@test "tests named in docs/promises.md exist" {
    python3 - "$ROOT" <<'END'
import re, sys
root = sys.argv[1]
page = open(f"{root}/docs/promises.md", encoding="utf-8").read()
named = re.findall(r"`(\w+\.(?:bats|c))`: (.+?)(?= <br>| \|$)", page, re.M)
missing = []
for file, name in named:
    text = open(f"{root}/tests/{file}", encoding="utf-8").read()
    there = f'@test "{name}" {{' in text if file.endswith(".bats") else f"void {name.strip('`')}(" in text
    if not there:
        missing.append(f"{file}: {name}")
print(len(named), "tests are named", *missing, sep="\n")
sys.exit(bool(missing) or len(named) < 40)
END
}

@test "files and functions named in the pages about the source code exist" {
    python3 - "$ROOT" <<'END'
import glob, os, re, sys
root = sys.argv[1]
page = "".join(open(f"{root}/docs/{p}.md", encoding="utf-8").read() for p in ["design", "jobs", "networks", "checkpoints"])
paths = [p for p in re.findall(r"`((?:src|tests|tools|bench|fuzz|docs)/[\w./-]+)`", page) if "NAME" not in p and "/X" not in p]
source = "".join(open(p, encoding="utf-8", errors="replace").read() for p in glob.glob(f"{root}/src/*/*.[ch]"))
names = re.findall(r"`(yk_\w+|YK_\w+|(?:UP|DOWN)_\w+|\w+\[\])`", page)
wrong = [p for p in paths if not os.path.exists(f"{root}/{p}")] + [n for n in names if n not in source]
print(len(paths), "paths and", len(names), "names; these do not exist:", *wrong)
sys.exit(bool(wrong) or len(paths) < 60 or len(names) < 20)
END
}

@test "docs/design.md has at most 400 lines" {
    [ "$(wc -l <"$ROOT/docs/design.md")" -le 400 ]
}

@test "docs/ has at most 40,000 words, without the generated options.md" {
    [ "$(cat "$ROOT"/docs/*.md | wc -w)" -le $((40000 + $(wc -w <"$ROOT/docs/options.md"))) ]
}

@test "links in README.md and docs/ lead to existing files and headings" {
    python3 "$BATS_TEST_DIRNAME/docs_links.py" "$ROOT"
}
