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
rows = list(csv.reader(open("csv/traffic.csv")))
assert {r[0] for r in rows[1:]} == {"chief 0, sent", "chief 0, received", "worker 1, sent", "worker 1, received"}, rows[:3]
assert max(float(r[2]) for r in rows[1:]) > 1e4
names = {e["name"] for e in json.load(open("run/trace.json"))["traceEvents"] if e["ph"] == "C"}
assert {"sent MB/s", "received MB/s"} <= names and not "network MB/s" in names, names
END
    grep -q 'host/.*_sent' run/worker-0/events* || [ "$(ls /sys/class/net)" = lo ]
    ! grep -q 'host/' run/worker-1/events*
}
