#!/usr/bin/env bats
# The report in a real browser: no error on its console, every plot has its points and says its values, tables sort, a phone
# is wide enough, a screenshot is made. Skipped where there is no Chromium. YOKE is the program.
#
#     SCREENSHOTS=DIR bats tests/browser_report.bats      keeps the pictures

setup() {
    load cli
    browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
        skip "there is no chromium (apt-get install chromium)"
    cli_setup
    # three runs, the last of them without what older versions did not write
    digits --epochs 6 --workers 2 --quiet --out runs/sync
    expect 0
    digits --epochs 6 --workers 2 --mode async --quiet --out runs/async
    expect 0
    digits --epochs 3 --batch 200 --quiet --out runs/old
    expect 0
    rm -rf runs/old/summary.json runs/old/worker-0
    for name in sync async; do # a run of a moment has few samples of its own: more of them
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

teardown() { [ -z "${FOLDER:-}" ] || cli_teardown; }

browse() { # OPTION... PAGE: what it writes is in dom, its console in log
    "$browser" --headless=new --no-sandbox --disable-gpu --no-first-run --hide-scrollbars --user-data-dir="$FOLDER/profile" \
        --enable-logging=stderr --virtual-time-budget=8000 "$@" >dom 2>log
    if grep -E 'CONSOLE|Uncaught' log; then
        echo "the browser's console is not empty"
        return 1
    fi
}

# The page, with a script at its end that uses it.
probe() { # PAGE
    { sed '/<\/body>/,$d' "$1" && echo '<script>' && cat "$BATS_TEST_DIRNAME/report_probe.js" && echo '</script></body></html>'; } >probe.html
}

verdict() { # LEAST NUMBER OF PLOTS: nothing was wrong, and so many were looked at
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

picture() { # NAME WIDTH HEIGHT PAGE OPTION...
    local name=$1 size=$2,$3 page=$4
    shift 4
    browse --screenshot="$FOLDER/$name.png" --window-size="$size" "$@" "file://$FOLDER/$page"
    [ "$(wc -c <"$name.png")" -gt 20000 ] || { echo "$name.png is empty"; return 1; }
    [ -z "${SCREENSHOTS:-}" ] || { mkdir -p "$SCREENSHOTS" && cp "$name.png" "$SCREENSHOTS"; }
}

@test "several runs: no error, every plot has its points and its values, tables sort" {
    try report runs -o page.html
    expect 0
    probe page.html
    browse --dump-dom --window-size=1280,900 "file://$FOLDER/probe.html"
    verdict 20
    picture runs-light 1280 2600 page.html
    picture runs-dark 1280 2600 page.html --blink-settings=preferredColorScheme=0
}

@test "one run: the same" {
    try report runs/sync -o page.html
    expect 0
    probe page.html
    browse --dump-dom --window-size=1280,900 "file://$FOLDER/probe.html"
    verdict 15
    picture one-light 1280 2600 page.html
}

@test "on a phone nothing sticks out" {
    try report runs -o page.html
    expect 0
    probe page.html
    # a window may not be as narrow as a phone; a frame may
    cat >phone.html <<'END'
<!doctype html><body style="margin:0"><iframe src="probe.html" style="width:390px;height:2400px;border:0"></iframe>
<script>addEventListener("message", (m) => { const p = document.createElement("pre"); p.id = "probe"; p.textContent = m.data; document.body.append(p); });</script>
END
    browse --dump-dom --window-size=900,2400 "file://$FOLDER/phone.html"
    verdict 20
    grep -q 'width":390' dom
    sed -i 's/probe.html/page.html/' phone.html
    picture phone 500 2400 phone.html
}

@test "printed: some pages of paper" {
    try report runs/sync -o page.html
    expect 0
    browse --print-to-pdf="$FOLDER/page.pdf" --no-pdf-header-footer "file://$FOLDER/page.html"
    [ "$(head -c 5 page.pdf)" = %PDF- ]
    [ -z "${SCREENSHOTS:-}" ] || cp page.pdf "$SCREENSHOTS"
}
