#!/usr/bin/env bats
# Observation of jobs of several processes while they run, also if the chief is a server: workers send it telemetry. And
# the summary of a job that lost a process.

setup() { load cli; load cluster; cluster_setup; }
teardown() { cluster_teardown; }

one="train --model softmax --data synth:digits?examples=1003 --deadline 4 --json --out run"

# Waits for a verdict in metrics.jsonl, which has one from the second second on.
wait_for_verdict() {
    for _ in $(seq 300); do
        ! grep -q '"bottleneck"' run/metrics.jsonl || return 0
        sleep 0.1
    done
    tail -n 3 run/metrics.jsonl
    return 1
}

row() { echo "next(p for p in s['processes'] if p['name'] == 'rank $1')"; } # RANK

@test "replicas and further servers send telemetry to the chief, too" {
    serve --steps 100000000 --batch 10 --launch 2
    wait_for_status "s['verdict'] and len(s['processes']) == 2 and s['processes'][1]['steps'] > 0"
    kill -INT "$BACKGROUND"
    finish 30
    expect 0
    rm -rf run
    serve --epochs 100000000 --batch 10 --launch 4 --servers 2 --mode async
    wait_for_status "s['verdict'] and [p['role'] for p in s['processes']] == ['server', 'server', 'worker', 'worker']"
    wait_for_status "s['processes'][1]['bytes_sent'] > 0 and (s['processes'][1]['rss'] or 0) > 1e6"
    kill -INT "$BACKGROUND"
    finish 30
    expect 0
    equal bytes "$(result_of bytes_sent)" "$(result_of bytes_received)"
}

@test "a killed worker keeps its last figures and is marked as lost, also in the summary" {
    serve --epochs 100000000 --batch 10 --launch 4 --servers 1 --mode async
    wait_for_status "len(s['processes']) == 4 and $(row 2)['steps'] > 0"
    signal_rank KILL 2
    wait_for_status "$(row 2)['lost'] and $(row 2)['steps'] > 0"
    equal workers "$(metric yoke_workers)" 2
    equal lost "$(metric 'yoke_worker_lost{worker="2"}') $(metric 'yoke_worker_lost{worker="1"}')" "1 0"
    kill -INT "$BACKGROUND"
    finish 30
    expect 0
    python3 - <<'END'
import json
ranks = json.load(open("run/summary.json"))["processes"]
assert [p["rank"] for p in ranks if p["lost"]] == [2] and not any(p["joined"] for p in ranks), ranks
assert ranks[2]["role"] == "worker" and ranks[2]["steps"] > 0 and ranks[2]["bytes_sent"] > 0, ranks[2]
END
}

@test "the speed on the live page does not include late gradients" {
    serve --epochs 100000000 --batch 10 --launch 4 --servers 1 --quorum 1
    wait_for_status "s['verdict'] and abs(s['examples_per_second'] * s['seconds'] / s['examples'] - 1) < 0.01 \
        and sum(p['examples'] for p in s['processes'] if p['role'] == 'worker') > 1.2 * s['examples']"
    kill -INT "$BACKGROUND"
    finish 30
    expect 0
}

@test "a joined worker is on the live page and in the summary, and has its own directory" {
    serve --epochs 100000000 --batch 10 --launch 3 --servers 1 --mode async
    "$YOKE" train --join run >out2 2>err2 3>&- 4>&- &
    joined=$!
    wait_for_status "any(p['joined'] and p['steps'] > 0 for p in s['processes'])"
    equal workers "$(metric yoke_workers) $(metric 'yoke_worker_joined{worker="3"}')" "3 1"
    kill -INT "$BACKGROUND"
    finish 30
    expect 0
    wait $joined
    python3 - <<'END'
import json
s = json.load(open("run/summary.json"))
(joined,) = [p for p in s["processes"] if p["joined"]]
assert joined["rank"] == 3 and joined["role"] == "worker" and not joined["lost"], joined
told = int(next(line for line in open("err2") if "trained on" in line).split()[2])
assert joined["examples"] == told > 0, (joined, told)
assert sum(p["examples"] for p in s["processes"] if p["role"] == "worker") == s["examples"], s["processes"]
for purpose, t in s["traffic"].items(): # of all ranks, including the joined one
    assert t["sent"] == t["received"] and t["messages"] == t["messages_received"], (purpose, t)
samples = [json.loads(line) for line in open("run/worker-3/resources.jsonl")]
assert samples[0]["rank"] == 3 and samples[-1]["kind"] in ("sample", "alert"), samples[0]
END
    grep -aq rank3/cpu run/events.out.tfevents.*
    in_time 30 report run -o page.html
    expect 0
    grep -q 'worker, joined' page.html
}

@test "a synchronous job that loses a process leaves a summary, whichever process writes it" {
    for way in "KILL --servers 0" "KILL --servers 1" "STOP --servers 1"; do
        begin $one --steps 100000000 --eval-every 200 --batch 4 --launch 3 ${way#* }
        wait_for_step 400
        wait_for_verdict
        signal_rank ${way%% *} 2
        finish 20
        expect 1 "rank 2"
        python3 - <<'END'
import json
s = json.load(open("run/summary.json"))
assert s["state"] == "failed" and s["exit_code"] == 1 and "rank 2" in s["error"], s
assert s["steps"] >= 400 and s["examples"] > 0 and s["seconds"] > 0 and s["restarts"] == 0, s
assert (s["workers"], s["ranks"], s["servers"]) in ((3, 3, 0), (2, 3, 1)), s
assert s["verdict"] and s["bottleneck"]["kind"], s
END
        in_time 30 report run -o page.html
        expect 0
        grep -q 'Failed at step' page.html
        rm -rf run
    done
}

@test "restarts: the summary describes the last attempt, and counts restarts" {
    begin $one --steps 100000000 --eval-every 200 --checkpoint-every 200 --batch 4 --launch 2 --restarts 1
    wait_for_step 400
    signal_rank KILL 1
    wait_for_message "restart 1 of 1"
    wait_for_step_after "resuming from"
    [ ! -e run/summary.json ]
    signal_rank KILL 1
    finish 20
    expect 1
    equal summary "$(grep -E '"(state|restarts|exit_code)"' run/summary.json | tr -d ' \n')" \
        '"state":"failed","exit_code":1,"restarts":1,'
}
