#!/usr/bin/env bats
# yoke report as a user calls it. YOKE is the program.

setup() {
    load cli
    cli_setup
}

teardown() { cli_teardown; }

trained() { # TEST_DIR OPTION...
    local directory=$1
    shift
    digits --epochs 2 --quiet --out "$directory" "$@"
    expect 0
}

@test "help: examples on stdout; a missing run is a usage error" {
    try report --help
    expect 0
    grep -q "yoke report runs/sync" out
    try report
    expect 2 "RUN is missing"
    silent out
    try help
    grep -q "yoke report" out
}

@test "one run: the page is written to its directory, and stdout names it" {
    trained runs/a
    try report runs/a
    expect 0 "1 run"
    [ "$(cat out)" = runs/a/report.html ]
    grep -q '<!doctype html>' runs/a/report.html
    grep -q 'id="figure-test-accuracy"' runs/a/report.html
    grep -q '</html>' runs/a/report.html
    try report runs/a --quiet -o other.html
    expect 0
    silent err
    [ -s other.html ]
}

@test "several runs, a parent directory of runs, and a title" {
    trained runs/sync --workers 2
    trained runs/async --workers 2 --mode async
    try report runs/sync runs/async -o pair.html --title 'sync & async'
    expect 0 "2 runs"
    grep -q '<h1>sync &amp; async</h1>' pair.html
    grep -q 'id="table-modes"' pair.html
    try report runs/sync
    cp runs/sync/report.html before.html
    for page in compare.html compare-2.html; do # neither replaces the report of a run nor another comparison
        try report runs/sync runs/async
        expect 0 "2 runs"
        [ "$(cat out)" = $page ]
        grep -q 'id="run-2"' $page
    done
    cmp before.html runs/sync/report.html
    [ ! -e runs/async/report.html ]
    try report runs -o all.html
    expect 0 "2 runs"
    grep -q 'id="run-2"' all.html
}

@test "a page loads nothing from elsewhere" {
    trained runs/a
    try report runs/a -o page.html
    expect 0
    sed 's|http://www.w3.org/2000/svg||g' page.html >rest.html # an XML namespace, not a link
    run ! grep -qE 'https?://|@import|src=|url\(' rest.html
}

@test "csv: a name that begins with = is not a formula" {
    digits --steps 2 --quiet --out '=1+1'
    expect 0
    try report ./=1+1 -o page.html --csv numbers
    expect 0
    grep -rqF "'=1+1" numbers
    run ! grep -rqE '(^|,|")=1' numbers
}

@test "csv and svg: files with the data and the plots" {
    trained runs/a
    try report runs/a -o page.html --csv numbers --svg plots/deep
    expect 0
    head -n 1 numbers/test-accuracy.csv | grep -q '^series,step,epoch,examples,seconds,Test accuracy'
    [ "$(wc -l <numbers/test-accuracy.csv)" -eq 3 ]
    [ -s numbers/table-runs.csv ]
    printf 'price,city,clicked\n1,Rome,1\n3,Oslo,0\n2,Rome,1\n5,Oslo,0\n' >clicks.csv
    "$YOKE" train --model logreg --data 'csv:clicks.csv?categorical=city&encode=onehot' --test none --out runs/named --quiet >/dev/null
    try report runs/named -o named.html --csv named
    expect 0
    grep -q '<h3>Largest weights</h3>.*>feature<' named.html
    grep -qE '>city=Rome</td><td[^>]*>0\.[0-9]+<' named.html
    grep -qE '^named,city=Oslo,-0\.[0-9]+' named/table-weights.csv
    for by in step epoch examples seconds; do
        python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "plots/deep/test-accuracy-by-$by.svg"
    done
}

@test "png: images, or a message that names the missing program" {
    trained runs/a
    if command -v rsvg-convert >/dev/null; then
        try report runs/a -o page.html --png plots
        expect 0
        [ "$(head -c 4 plots/test-accuracy-by-epoch.png | tail -c 3)" = PNG ]
    fi
    mkdir bin
    PATH=$PWD/bin try report runs/a -o page.html --png none
    expect 4 "librsvg2-bin" "Use --svg instead"
    [ -s page.html ]
}

@test "latex and markdown: the tables; LaTeX compiles without packages" {
    trained 'runs/a_b%[$' --batch 100
    trained runs/c --batch 200
    try report runs --format latex
    grep -q ', 0 plots, ' err
    expect 0 "2 runs"
    [ "$(cat out)" = runs/report.tex ]
    for id in runs batch resources machines processes; do
        grep -q "^.label{tab:$id}" runs/report.tex
    done
    grep -qF 'a\_b\%{[}\$' runs/report.tex
    if command -v pdflatex >/dev/null; then
        printf '%s\n' '\documentclass{article}\begin{document}' '\input{runs/report}' '\end{document}' >document.tex
        pdflatex -interaction=nonstopmode -halt-on-error document.tex >log || { tail log; false; }
        run ! grep -q Overfull log
    fi
    try report runs --format markdown -o tables.md
    expect 0
    grep -q '^## Machines' tables.md
    grep -qF 'a\_b%\[\$' tables.md
    try report runs --format word
    expect 2 "--format word: must be html, latex or markdown"
}

@test "a path that is not a run: an error with a remedy" {
    mkdir empty
    try report empty
    expect 2 "empty: no run directory here or below" "--out of yoke train"
    try report nowhere
    expect 2 "nowhere: No such file"
    trained runs/a
    try report runs/a/config.ini
    expect 2 "not a directory"
    try report runs/a -o nowhere/page.html
    expect 4 "nowhere/page.html"
}

@test "the page does not replace a file of a run" {
    trained runs/a
    cp -r runs/a before
    ln -s runs/a/summary.json link
    for name in runs/a/config.ini runs/a/metrics.jsonl runs/a/worker-0/resources.jsonl link; do
        try report runs/a -o "$name"
        expect 2 "--out $name: this is a file of a run directory; choose another name"
    done
    (cd runs/a && ! "$YOKE" report . -o trace.json 2>/dev/null)
    diff -r runs/a before
    try report runs/a -o config.ini
    expect 0
}

@test "killed runs and runs of older versions have a page, too" {
    trained runs/a
    rm -rf runs/a/summary.json runs/a/config.ini runs/a/worker-*
    printf '{"kind":"train","step":99' >>runs/a/metrics.jsonl
    try report runs/a
    expect 0
    grep -q "Incomplete run" runs/a/report.html
    : >runs/a/metrics.jsonl
    try report runs/a
    expect 0
}

@test "runs with different --staleness keyed=K are different configurations; their commands include the option" {
    for bound in 4 16; do
        try train --model fm:2 --data 'synth:ctr?features=100&examples=400' --workers 2 --mode async --quiet \
            --staleness keyed=$bound --lr keyed=0.02 --out runs/$bound
        expect 0
    done
    try report runs --out page.html
    expect 0
    grep -q 'stale keyed=4' page.html
    grep -q 'stale keyed=16' page.html
    grep -q -e '--staleness keyed=16' page.html
    grep -q -e '--lr keyed=0.02' page.html
}

@test "a log without line breaks needs no memory" {
    trained runs/a
    truncate -s 300M runs/a/metrics.jsonl
    (
        ulimit -d 200000
        try report runs/a
        expect 0
    )
}
