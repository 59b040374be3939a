#!/usr/bin/env bats
# The report in a real browser: no console errors, every plot has its points and shows their values, tables sort, the page fits a
# phone, screenshots work. Skipped without Chromium. YOKE is the path of the program.
#
#     SCREENSHOTS=DIR bats tests/browser_report.bats      keeps the screenshots

setup() {
    load cli
    browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
        skip "chromium is not installed (apt-get install chromium)"
    cli_setup
    # three runs; the last one lacks the files that older versions did not write
    digits --epochs 6 --workers 2 --quiet --out runs/sync
    expect 0
    digits --epochs 6 --workers 2 --mode async --quiet --out runs/async
    expect 0
    digits --epochs 3 --batch 200 --quiet --out runs/old
    expect 0
    rm -rf runs/old/summary.json runs/old/worker-0
    for name in sync async; do # a very short run has few samples: add more
        mkdir -p "runs/$name/worker-0"
        {
            echo '{"kind":"host","rank":0,"role":"worker","host":"a","cores":2,"memory_bytes":8e9,"nic":{"eth0":125000000}}'
            for i in $(seq 40); do
                echo "{\"kind\":\"sample\",\"seconds\":$i,\"cpu_user\":1.$i,\"cpu_system\":0.1,\"cpu_host\":1.9,\"rss\":${i}000000," \
                    "\"net_in\":$i,\"net_out\":1000,\"disk_read\":0,\"disk_written\":$((i % 7))000," \
                    "\"phases\":{\"input\":$i,\"compute\":$i,\"apply\":1}}"
            done
            echo '{"kind":"alert","what":"cpu","begin":10,"seconds":5,"level":0.95}'
        } >"runs/$name/worker-0/resources.jsonl"
    done
}

teardown() { [ -z "${TEST_DIR:-}" ] || cli_teardown; }

browse() { # OPTION... PAGE: writes the rendered page to dom, and the console to log
    "$browser" --headless=new --no-sandbox --disable-gpu --no-first-run --hide-scrollbars --user-data-dir="$TEST_DIR/profile" \
        --enable-logging=stderr --virtual-time-budget=8000 "$@" >dom 2>log
    if grep -E 'CONSOLE|Uncaught' log; then
        echo "the browser's console is not empty"
        return 1
    fi
}

# Writes probe.html: the page with a script at its end that exercises it.
probe() { # PAGE
    { sed '/<\/body>/,$d' "$1" && echo '<script>' && cat "$BATS_TEST_DIRNAME/report_probe.js" && echo '</script></body></html>'; } >probe.html
}

verdict() { # MINIMUM NUMBER OF PLOTS: the probe found no error and checked at least that many plots
    python3 - "$1" <<'END'
import html, json, re, sys
found = re.search(r'<pre id="probe">(.*?)</pre>', open("dom", encoding="utf-8").read(), re.S)
assert found, "the script on the page did not come to its end"
result = json.loads(html.unescape(found.group(1)))
assert not result["wrong"], "\n".join(result["wrong"])
assert result["plots"] >= int(sys.argv[1]), result
assert result["bars"] > 0, result
END
}

take_screenshot() { # NAME WIDTH HEIGHT PAGE OPTION...
    local name=$1 size=$2,$3 page=$4
    shift 4
    browse --screenshot="$TEST_DIR/$name.png" --window-size="$size" "$@" "file://$TEST_DIR/$page"
    [ "$(wc -c <"$name.png")" -gt 20000 ] || { echo "$name.png is empty"; return 1; }
    [ -z "${SCREENSHOTS:-}" ] || { mkdir -p "$SCREENSHOTS" && cp "$name.png" "$SCREENSHOTS"; }
}

@test "several runs: no errors, every plot has its points and values, tables sort" {
    try report runs -o page.html
    expect 0
    probe page.html
    browse --dump-dom --window-size=1280,900 "file://$TEST_DIR/probe.html"
    verdict 20
    take_screenshot runs-light 1280 2600 page.html
    take_screenshot runs-dark 1280 2600 page.html --blink-settings=preferredColorScheme=0
}

@test "one run: no errors, every plot has its points and values" {
    try report runs/sync -o page.html
    expect 0
    probe page.html
    browse --dump-dom --window-size=1280,900 "file://$TEST_DIR/probe.html"
    verdict 15
    take_screenshot one-light 1280 2600 page.html
}

@test "nothing overflows on a phone" {
    try report runs -o page.html
    expect 0
    probe page.html
    # a browser window cannot be as narrow as a phone, but a frame can
    cat >phone.html <<'END'
<!doctype html><body style="margin:0"><iframe src="probe.html" style="width:390px;height:2400px;border:0"></iframe>
<script>addEventListener("message", (m) => { const p = document.createElement("pre"); p.id = "probe"; p.textContent = m.data; document.body.append(p); });</script>
END
    browse --dump-dom --window-size=900,2400 "file://$TEST_DIR/phone.html"
    verdict 20
    grep -q 'width":390' dom
    sed -i 's/probe.html/page.html/' phone.html
    take_screenshot phone 500 2400 phone.html
}

@test "a sweep of 16 runs prints on at most 12 pages, with the details of every run" {
    local i batch from
    for i in $(seq 16); do
        batch=$((i / 2 * 10 + 10))
        from=$([ $((i % 2)) = 0 ] && echo sync || echo async)
        cp -r "runs/$from" "sweep-$i"
        sed -i "s/^batch = .*/batch = $batch/" "sweep-$i/config.ini"
        sed -i "s/\"batch\": *[0-9]*/\"batch\": $batch/" "sweep-$i/summary.json"
    done
    try report sweep-* -o page.html
    expect 0 "16 runs"
    browse --print-to-pdf="$TEST_DIR/page.pdf" --no-pdf-header-footer "file://$TEST_DIR/page.html"
    [ -z "${SCREENSHOTS:-}" ] || cp page.pdf "$SCREENSHOTS"
    pages=$(grep -ac '/Type /Page$' page.pdf)
    echo "$pages pages"
    [ "$pages" -ge 4 ] && [ "$pages" -le 12 ]
    if command -v pdftotext >/dev/null; then
        [ "$(pdftotext page.pdf - | grep -c 'yoke train --model')" -eq 16 ]
    fi
}
