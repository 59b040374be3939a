#!/usr/bin/env bats
# The live verdict of a job of several processes. No other test runs at the same time: it would use the cores and change
# the verdict.

setup() { load cli; load cluster; cluster_setup; }
teardown() { cluster_teardown; }

one="train --model softmax --data synth:digits?examples=1003 --deadline 4 --json --out run"

@test "a server as chief: live verdict, rows and metrics of every rank; the straggler is named" {
    YOKE=$HOOKS YK_SLOW_WORKER=1:300ms serve --steps 1000000 --batch 10 --launch 4 --servers 1
    wait_for_status "s['verdict'] and s['verdict'].startswith('straggler: rank 2') and len(s['processes']) == 4"
    wait_for_status "all(p['steps'] > 3 and p['examples'] > 0 and p['bytes_sent'] > 0 for p in s['processes'][1:])"
    python3 - <<'END'
import json
s = json.load(open("status"))
assert [p["name"] for p in s["processes"]] == ["rank 0", "rank 1", "rank 2", "rank 3"], s["processes"]
chief, *workers = s["processes"]
assert chief["role"] == "server" and chief["phases"]["waiting"] > 0.5 and chief["steps"] > 3, chief
for w in workers:
    assert w["role"] == "worker" and not w["lost"] and not w["joined"], w
    assert abs(sum(w["phases"].values()) - 1) < 1e-3 and w["rss"] > 1e6 and w["cpu"] is not None, w
    # the slow worker computes, the others wait for it
    assert w["phases"]["compute" if w["name"] == "rank 2" else "workers"] > 0.5, w
    assert (w["last"] > 0.8) == (w["name"] == "rank 2"), w
assert abs(sum(s["phases"].values()) - 1) < 1e-3, s["phases"]
END
    equal workers "$(metric yoke_workers)" 3
    holds "$(metric 'yoke_worker_steps_total{worker="3"}') > 0"
    holds "$(metric 'yoke_worker_phase_seconds_total{worker="1",phase="workers"}') > 0"
    holds "$(metric 'yoke_worker_resident_bytes{worker="0"}') > 1e6"
    holds "$(metric 'yoke_bottleneck_share{kind="straggler"}') > 0.3"
    kill -INT "$BACKGROUND"
    finish 30
    expect 0
    holds "'straggler: rank 2' in '''$(result_of verdict)'''"
    grep -q '"bottleneck":"straggler"' run/metrics.jsonl
}
