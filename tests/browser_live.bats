#!/usr/bin/env bats
# The live page of a run in a real browser: no console errors, every plot has its points, workers and verdict are shown, the page
# fits a phone, screenshots work. Skipped without Chromium. YOKE is the path of the program.
#
#     SCREENSHOTS=DIR bats tests/browser_live.bats      keeps the screenshots

setup() {
    load cli
    browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
        skip "chromium is not installed (apt-get install chromium)"
    cli_setup
    "$YOKE" train --model softmax --data 'synth:digits?examples=2000' --workers 2 --epochs 1000000 --eval-every 200 --http 0 \
        --out run >served 2>err 3>&- &
    run=$!
    for _ in $(seq 100); do
        url=$(sed -n 's/^live page: //p' err)
        [ -z "$url" ] || break
        sleep 0.1
    done
    sleep 3 # the first verdict appears after one second, and curves need several points
}

teardown() {
    [ -z "${run:-}" ] || kill -9 "$run" 2>/dev/null || true
    [ -z "${run:-}" ] || wait "$run" 2>/dev/null || true
    [ -z "${TEST_DIR:-}" ] || cli_teardown
}

browse() { # OPTION...: writes the rendered page to dom, and the console to log
    "$browser" --headless=new --no-sandbox --disable-gpu --no-first-run --hide-scrollbars --user-data-dir="$TEST_DIR/profile" \
        --enable-logging=stderr --virtual-time-budget=6000 "$@" "$url" >dom 2>log
    if grep -E 'CONSOLE|Uncaught' log; then
        echo "the browser's console is not empty"
        return 1
    fi
}

@test "every plot has its points; workers and verdict are shown" {
    browse --dump-dom
    python3 - <<'END'
import re
dom = open("dom", encoding="utf-8").read()
plots = re.findall(r'<div class="card"([^>]*)><h2>([^<]+)</h2><svg[^>]*aria-label="[^"]*"[^>]*>(.*?)</svg>', dom, re.S)
names = [name for hidden, name, _ in plots if not hidden]
wanted = ["Loss", "Test accuracy", "Examples per second (recent)", "CPU cores", "Memory", "Network interfaces of the host (all programs)",
          "Disk"]
assert names == wanted, names
assert 'role="progressbar"' in dom
for hidden, name, svg in plots:
    if hidden:
        continue
    points = [p for line in re.findall(r'<polyline[^>]*points="([^"]*)"', svg) for p in line.split()]
    assert len(points) >= 2 or "<circle" in svg, (name, svg[:300])
    for p in points:
        x, y = map(float, p.split(","))
        assert 0 <= x <= 340 and 0 <= y <= 160, (name, p)
assert not re.search(r"NaN|undefined|null", re.sub(r"<script>.*?</script>", "", dom, flags=re.S)), "a number is missing"
assert "<h1 id=\"title\">softmax on synth:digits" in dom
assert re.search(r'<b id="text">[a-z ]+: ', dom), "no verdict"
assert "<td>worker 0</td>" in dom and "<td>worker 1</td>" in dom
assert dom.count('<td class="bar">') == 2
END
    # the same with losses of a regression: an axis over many powers of ten, and no accuracy
    python3 - "$url" <<'END'
import json, sys, urllib.request
page, status = (urllib.request.urlopen(sys.argv[1] + path).read().decode() for path in ("", "status.json"))
status = json.loads(status)
status["test_accuracy"] = None
status["history"]["loss"] = [10.0 ** (5 - min(i, 8)) for i, _ in enumerate(status["history"]["loss"])]
fake = f"fetch = async () => ({{ ok: true, json: async () => ({json.dumps(status)}) }});"
open("page.html", "w").write(page.replace("'use strict';", "'use strict'; " + fake, 1))
END
    url=file://$PWD/page.html
    browse --dump-dom
    python3 - <<'END'
import re
dom = re.sub(r"<script>.*?</script>", "", open("dom", encoding="utf-8").read(), flags=re.S)
marks = re.findall(r'text-anchor="end">([^<]+)<', dom[dom.index('aria-label="Loss"'):dom.index("</svg>")])
assert "0.001" in marks and "10000" in marks and "1e+5" in marks, marks
assert "<dt>test loss</dt>" in dom and "<dt>test accuracy</dt>" not in dom
END
}

@test "screenshots at desktop and phone size" {
    browse --window-size=1200,1200 --screenshot=desk.png
    browse --window-size=500,2200 --screenshot=phone.png
    for name in desk phone; do
        holds "$(stat -c %s $name.png) > 20000"
        [ -z "${SCREENSHOTS:-}" ] || cp $name.png "$SCREENSHOTS/live-$name.png"
    done
}
