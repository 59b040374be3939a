#!/usr/bin/env bats
# What a run measures: its own network traffic, every evaluation that is due, enough points, each process, and servers.

setup() { load cli; load cluster; cluster_setup; }
teardown() { cluster_teardown; }

softmax="train --model softmax --data synth:digits?examples=500&test=100 --seed 3 --json"

@test "network: each rank's own traffic, sent and received; the interfaces of a host once" {
    try $softmax --batch 5 --steps 400 --launch 2 --sample-every 0.02 --trace --out run
    expect 0
    try report run -o page.html --csv csv
    expect 0
    python3 - <<'END'
import csv, json
s = json.load(open("run/summary.json"))
assert s["resources"]["sent"]["mean"] > 1e4 and s["resources"]["received"]["mean"] > 1e4, s["resources"]
names = [(i["host"], i["name"]) for i in s["interfaces"]]
assert len(names) == len(set(names)), names
lines = [[json.loads(l) for l in open("run/worker-%d/resources.jsonl" % r)] for r in (0, 1)]
samples = [[l for l in some if l["kind"] == "sample"] for some in lines]
for some in samples:
    assert max(l["sent_rate"] for l in some) > 1e4 and max(l["received_rate"] for l in some) > 1e4, some[-1]
assert all("interfaces" in l for l in samples[0]) and not any("net_in" in l or "interfaces" in l for l in samples[1])
for way in "sent", "received":
    rows = list(csv.reader(open("csv/network-bytes-%s-per-second.csv" % way)))
    assert {r[0] for r in rows[1:]} == {"worker 0", "worker 1"}, rows[:3]
    assert max(float(r[2]) for r in rows[1:]) > 1e4
names = {e["name"] for e in json.load(open("run/trace.json"))["traceEvents"] if e["ph"] == "C"}
assert {"sent MB/s", "received MB/s"} <= names and not "network MB/s" in names, names
END
    grep -q 'host/.*_sent' run/events* || [ "$(ls /sys/class/net)" = lo ]
    [ "$(find run -name "events.out*" | wc -l)" = 1 ] # the chief writes for all ranks
}

# Steps of the lines of one kind in run/metrics.jsonl, on one line.
steps_of() { # KIND
    python3 -c 'import json, sys
print(*[o["step"] for o in map(json.loads, open("run/metrics.jsonl")) if o["kind"] == sys.argv[1]])' "$1"
}

@test "--eval-every: none is skipped in asynchronous runs, and each is at its step" {
    for how in "--workers 2" "--launch 2 --servers 1" "--launch 2 --servers all"; do
        rm -rf run
        try $softmax --batch 2 --steps 160 --eval-every 20 --mode async --out run $how
        expect 0
        equal "evaluations with $how" "$(steps_of eval)" "0 20 40 60 80 100 120 140 160"
    done
}

@test "--eval-every: training waits for an evaluation that takes longer, also on copies of parameters" {
    try train --model logreg --data 'synth:ctr?features=2000&examples=2000&test=30000' --batch 1 --epochs 1 --eval-every 200 \
        --mode async --launch 2 --servers 1 --out run
    expect 0
    equal evaluations "$(steps_of eval | wc -w)" 11
    holds "all(b - a <= 400 for a, b in zip([$(steps_of eval | tr ' ' ,)], [$(steps_of eval | tr ' ' ,)][1:]))"
}

@test "points: about min(steps, 200) to 2,000, the evaluation at step 0 is one, --log-every N sets them" {
    for how in "softmax --batch 1 --workers 1 --steps 3000" "softmax --batch 1 --workers 2 --mode async --steps 3000" \
        "lenet5 --batch 2 --workers 2 --mode async --steps 100"; do
        rm -rf run
        try $softmax --model $how --sample-every 0 --out run
        expect 0
        holds "$(steps_of train | wc -w) >= 0.6 * min(${how##* }, 200) and $(steps_of train | wc -w) <= 2000"
        holds "[$(steps_of eval | tr ' ' ,)][0] == 0 and [$(steps_of train | tr ' ' ,)][-1] == ${how##* }"
    done
    rm -rf run
    try $softmax --batch 1 --steps 100 --log-every 30 --out run
    expect 0
    equal points "$(steps_of train)" "30 60 90 100"
}

@test "points: an asynchronous run whose first worker has no examples has some, too" {
    YOKE=$HOOKS YK_SLOW_WORKER=0:500ms try $softmax --batch 50 --epochs 1 --mode async --workers 2 --out run
    expect 0
    holds "$(steps_of train | wc -w) >= 5"
}

@test "--test-examples: an evaluation uses that many, always the same" {
    try $softmax --batch 5 --steps 20 --eval-every 10 --test-examples 20 --out run
    expect 0
    holds "$(field test_accuracy) * 20 == round($(field test_accuracy) * 20, 9)"
    first=$(field majority_accuracy)
    try $softmax --batch 5 --steps 20 --workers 3 --test-examples 20 --out none
    expect 0
    equal "majority class" "$(field majority_accuracy)" "$first"
    try $softmax --batch 5 --steps 20 --test-examples 2000 --out none
    all=$(field test_loss)
    try $softmax --batch 5 --steps 20 --out none
    equal "all examples" "$(field test_loss)" "$all"
}

@test "servers have phases: in the summary, on the timeline and in the profile, which linear models have, too" {
    YOKE=$HOOKS YK_STALE_RULES=0 try $softmax --batch 5 --steps 200 --mode async --launch 4 --servers 2 --sample-every 0.05 --trace --profile --out run
    expect 0 "time by phase" "server 0 " "server 1 " "worker 2 " "worker 3 "
    python3 - <<'END'
import json
of_servers = ["sending", "apply", "checkpoint", "other", "waiting", "receiving", "lookup"]
for p in json.load(open("run/summary.json"))["processes"][:2]:
    assert list(p["phases"]) == of_servers and abs(sum(p["phases"].values()) - 1) < 1e-6, p
    assert min(p["phases"][k] for k in ("waiting", "receiving", "lookup", "apply", "sending")) > 0, p["phases"]
    assert p["steps"] == 200 and p["examples"] == 1000, p
trace = json.load(open("run/trace.json"))["traceEvents"]
for rank in (0, 1):
    names = {e["name"] for e in trace if e["ph"] == "X" and e["pid"] == rank}
    assert {"waiting", "receiving", "lookup", "apply", "sending"} <= names and "input" not in names, names
    samples = [json.loads(l) for l in open("run/worker-%d/resources.jsonl" % rank)]
    assert any("waiting" in l.get("phases", {}) for l in samples), samples[-1]
END
    # processes that train and own a shard: also what the thread that serves it does
    try $softmax --batch 5 --steps 200 --mode async --launch 2 --servers all --trace --profile --out all
    expect 0 "worker 0 " "worker 1 " "server 0 " "server 1 "
    python3 - <<'END'
import json
for p in json.load(open("all/summary.json"))["processes"]:
    phases = p["serving"]["phases"]
    assert abs(sum(phases.values()) - 1) < 1e-6 and min(phases[k] for k in ("waiting", "receiving", "lookup", "apply")) > 0, phases
trace = json.load(open("all/trace.json"))["traceEvents"]
for rank in (0, 1):
    (server,) = [e["tid"] for e in trace if e["name"] == "thread_name" and e["pid"] == rank and e["args"]["name"] == "server"]
    names = {e["name"] for e in trace if e["ph"] == "X" and e["pid"] == rank and e["tid"] == server}
    assert {"waiting", "receiving", "lookup", "apply", "sending"} <= names and "input" not in names, names
END
    try $softmax --batch 5 --steps 20 --workers 2 --profile --out none
    expect 0 "time by phase" "worker 0 " "worker 1 " "compute"
}

@test "replicas: waiting for a slow rank is waiting for workers, not sending" {
    for how in '' '--local-steps 2'; do
        # shellcheck disable=SC2086
        YOKE=$HOOKS YK_SLOW_WORKER=1:10ms in_time 60 train --model softmax --data 'synth:digits?examples=2000' --test none --batch 10 \
            --steps 100 --launch 2 --servers 0 --out none --json $how
        expect 0
        tail -n 1 out | python3 -c 'import json, sys
p = json.load(sys.stdin)["processes"][0]["phases"]
assert p["workers"] > 0.5 and p["sending"] < 0.3, p'
    done
}

@test "processes: time, steps, examples, CPU, memory, disk and traffic of each, also of servers" {
    # the run is too short for workers that begin one after the other
    YOKE=$HOOKS YK_STALE_RULES=0 try train --model softmax --data 'synth:digits?examples=500&test=100' --batch 5 --steps 1200 --mode async --launch 3 --servers 1 \
        --sample-every 0.05 --eval-every 50 --out run
    expect 0
    cp out text
    grep -Eq '^process +seconds +steps +examples +CPU +memory +read +written +sent +received$' out
    for who in "server 0" "worker 1" "worker 2"; do grep -Eq "^$who +[0-9.]+ +[0-9]+ +[0-9]+ " out; done
    try report run -o page.html --csv csv
    expect 0
    python3 - <<'END'
import csv, json, re
summary, text = json.load(open("run/summary.json")), open("text").read()
processes = summary["processes"]
assert summary["peak_rss_bytes"] == max(p["rss_peak"] for p in processes), summary["peak_rss_bytes"]
assert [p["role"] for p in processes] == ["server", "worker", "worker"], processes
page = open("page.html").read()
assert ">chief<" not in page and ">server<" in page
# one direction of one host, not the sum of both, over the time of the longest process
longest = max(p["seconds"] for p in processes)
rate = max(sum(p[name] * p["seconds"] / longest for p in processes) for name in ("sent_rate", "received_rate")) * 1e-6
shown = re.search(r"<dt>Network</dt><dd>([0-9.]+) ([kMG])B/s", page)
assert shown, (rate, re.findall(r"<dt>[^<]*</dt><dd>[^<]*", page))
assert abs(float(shown[1]) * {"k": 1e-3, "M": 1, "G": 1e3}[shown[2]] / rate - 1) < 0.05, (shown[0], rate)
# the parts of the seconds add up, less what the server did during training
total, train, test, save, overlap = re.search(
    r"^seconds +([0-9.]+) \(training ([0-9.]+), evaluation ([0-9.]+), checkpoints ([0-9.]+)(?:, ([0-9.]+) of the last two during training)?;", text, re.M).groups("0")
assert abs(float(train) + float(test) + float(save) - float(overlap) - float(total)) < 0.1, text
rows = list(csv.DictReader(open("csv/table-processes.csv")))
assert len(rows) == len(processes) == 3, rows
for p, row in zip(processes, rows):
    for key in ("seconds", "steps", "examples", "train_loss", "cpu_seconds", "rss_mean", "rss_peak", "bytes_sent", "bytes_received",
                "sent_rate", "received_rate"):
        assert p[key] > 0, (key, p)
    assert p["disk_read_bytes"] >= 0 and p["disk_written_bytes"] >= 0, p
    assert "train_accuracy" not in p and "accuracy" not in row, (p, row)
    for key in ("time", "steps", "examples", "CPU", "memory peak", "disk read", "disk written", "sent", "received", "sent/s", "received/s"):
        assert float(row[key]) >= 0, (key, row)
assert sum(p["examples"] for p in processes[1:]) == processes[0]["examples"] == 6000, processes
END
    YOKE=$HOOKS YK_SLOW_WORKER=0:300ms try train --model softmax --data 'synth:digits?examples=20' --batch 10 --steps 2 --test none --out none
    expect 0
    grep -Eq '^steps +2 \([1-9]\.[0-9] per second\)$' out
}
