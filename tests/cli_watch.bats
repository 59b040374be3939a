#!/usr/bin/env bats
# What a run says about itself, and what is left in its directory. tests/test_replay.c and ./dev inject have the bottlenecks.

setup() { load cli; cli_setup; }
teardown() {
    kill -9 ${run:-} 2>/dev/null || true
    cli_teardown
}

run='' # a process that teardown ends if a test fails

# 100 ms is more than a busy machine adds to a step of the other worker, so this test does not need an idle machine.
@test "verdict on a slow worker: straggler, with its name" {
    YOKE=$HOOKS YK_SLOW_WORKER=1:100ms digits --workers 2 --batch 50 --steps 30 --test none --json --out none
    expect 0
    holds "$(field verdict).startswith('straggler')"
    holds "'worker 1' in $(field verdict) and $(field bottleneck)['numbers']['slowest_worker'] == 1"
    holds "'estimates' not in $(field bottleneck)"
}

@test "the table on stdout has the verdict" {
    YOKE=$HOOKS YK_SLOW_WORKER=1:100ms digits --workers 2 --batch 50 --steps 30 --test none --out none
    expect 0
    grep -q '^bottleneck ' out
    ! grep -q estimated out
}

@test "phases add up to the wall time, in every sample" {
    clicks --workers 2 --batch 10 --epochs 60 --mode async --sample-every 0.1 --out run
    expect 0
    python3 - <<'END'
import json
lines = [json.loads(line) for line in open("run/worker-0/resources.jsonl")]
host, samples = lines[0], [l for l in lines if l["kind"] == "sample"]
assert host["kind"] == "host" and host["cores"] >= 1 and host["role"] == "worker", host
assert samples, lines
for s in samples[1:]:
    wall, total = s["seconds"], sum(s["phases"].values())
    assert abs(total - wall) < 0.02 * wall + 0.02, (wall, total)
    assert s["cpu_user"] >= 0 and s["rss"] > 1e6 and s["steps"] > 0, s
assert [s["seconds"] for s in samples] == sorted(s["seconds"] for s in samples)
END
}

@test "summary.json agrees with the output of --json" {
    digits --epochs 3 --json --out run
    expect 0
    python3 - <<'END'
import json
kept, said = json.load(open("run/summary.json")), json.loads(open("out").read().splitlines()[-1])
assert list(kept) == list(said), set(kept) ^ set(said)
for key in said:
    if key not in ("cpu_seconds", "peak_rss_bytes"):
        assert kept[key] == said[key], key
for key in ("verdict", "bottleneck", "phases", "resources", "hosts", "processes", "traffic", "alerts", "warnings"):
    assert key in said, key
(host,) = said["hosts"]
assert host["cores"] >= host["usable_cores"] > 0 and host["memory_bytes"] > 1e6 and not host["transport"], host
assert all(host[k] for k in ("host", "cpu", "kernel", "compiler", "yoke")) and host["sent_to"] == {}, host
(process,) = said["processes"]
assert process["examples"] == said["examples"] and len(process["workers"]) == 1, process
assert said["resources"]["cpu"]["of"] >= 1 and said["resources"]["memory"]["peak"] > 1e6, said["resources"]
END
}

@test "the timeline has the format that Chrome and Perfetto read" {
    try train --model 'conv 4 3x3, relu, maxpool 2, dense 10' --data 'synth:digits?examples=600' --workers 2 --epochs 2 \
        --trace --out run
    expect 0
    python3 - <<'END'
import json
events = json.load(open("run/trace.json"))["traceEvents"]
slices = [e for e in events if e["ph"] == "X"]
names = {e["name"] for e in slices}
assert {"input", "compute", "workers", "apply", "eval", "checkpoint"} <= names, names
assert {"load images", "conv 4 3x3", "conv 4 3x3, backward", "maxpool 2", "softmax, loss"} <= names, names
threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
assert "worker 0" in threads.values() and "worker 1" in threads.values(), threads
for e in slices:
    assert e["dur"] >= 0 and e["tid"] in threads and e["pid"] == 0, e
# a worker's phases follow each other; its layers lie within them
phases = ("input", "compute", "parameters", "sending", "workers", "apply", "eval", "checkpoint", "other")
for tid, name in threads.items():
    mine = sorted((e["ts"], e["dur"]) for e in slices if e["tid"] == tid and e["name"] in phases)
    for (begin, took), (after, _) in zip(mine, mine[1:]):
        assert begin + took <= after + 0.002, (name, begin, took, after)
END
}

@test "the timeline of a long run stays small" {
    clicks --batch 1 --epochs 40 --test none --trace --out run
    expect 0
    holds "$(stat -c %s run/trace.json) < 8000000"
}

@test "TensorBoard: one run, with tags that have a group; --tensorboard-workers adds one for each worker" {
    digits --workers 3 --epochs 2 --out run
    expect 0
    for tag in train/loss train/mean_loss train/learning_rate test/loss test/accuracy speed/global_step_per_second \
        speed/examples_per_second phases/compute rank0/cpu rank0/memory rank0/disk_read rank0/disk_written rank0/host_cpu \
        rank0/sent rank0/received; do
        grep -aq "$tag" run/events.out.tfevents.*
    done
    [ "$(find run -name 'events.out.tfevents.*' | wc -l)" -eq 1 ]
    digits --workers 3 --epochs 2 --out each --tensorboard-workers
    expect 0
    for i in 0 1 2; do
        for tag in speed/examples_per_second phases/compute; do
            grep -aq "$tag" each/worker-$i/events.out.tfevents.*
        done
    done
    [ ! -e each/worker-3 ]
    digits --workers 2 --mode async --epochs 2 --out async
    expect 0
    grep -aq train/staleness async/events.out.tfevents.*
    try train --model 'conv 4 5x5, relu, dense 10' --data 'synth:digits?examples=200&test=100' --out net
    expect 0
    for layer in conv_0 relu_1 dense_2; do # as --dry-run numbers them
        grep -aq "$layer" net/events.out.tfevents.*
    done
}

@test "the last point of the training curves is written before the last evaluation" {
    for job in '' '--mode async --workers 2' '--launch 2' '--launch 2 --servers 1' '--launch 2 --servers 1 --mode async'; do
        rm -rf run
        # shellcheck disable=SC2086  # a list of words
        digits --epochs 3 --batch 5 --log-every 70 --out run $job
        expect 0
        python3 - <<'END'
import json
lines = [json.loads(line) for line in open("run/metrics.jsonl")]
train, test = [l for l in lines if l["kind"] == "train"][-1], lines[-1]
assert test["kind"] == "eval" and train["step"] == test["step"] and train["step"] % 70, lines[-3:]
assert train["seconds"] < test["seconds"], (train, test)
END
    done
}

@test "a resumed run drops log entries after its checkpoint" {
    digits --steps 40 --eval-every 10 --out run
    expect 0
    echo '{"kind":"eval","step":41,"examples":1,"seconds":1e9}' >>run/metrics.jsonl
    echo '{"kind":"sample","seconds":1e9}' >>run/worker-0/resources.jsonl
    printf '{"kind":"train","step":12,"examp' >>run/metrics.jsonl # cut off by a crash
    try train --out run --resume --steps 60 --eval-every 10
    expect 0
    python3 - <<'END'
import json
lines = [json.loads(line) for line in open("run/metrics.jsonl")]
assert [o["step"] for o in lines] == sorted(o["step"] for o in lines), lines
assert [o["step"] for o in lines if o["kind"] == "eval"] == [0, 10, 20, 30, 40, 50, 60], lines
assert max(o["seconds"] for o in lines) < 1e6, lines
assert all(json.loads(line).get("seconds", 0) < 1e6 for line in open("run/worker-0/resources.jsonl"))
END
}

# Starts a long run with a live page in the background. $url is the address, $run the process id.
serve() { # OPTION...
    "$YOKE" train --model softmax --data 'synth:digits?examples=2000' --epochs 1000000 --http 0 --out run "$@" \
        >served 2>err 3>&- &
    run=$!
    for _ in $(seq 100); do
        url=$(sed -n 's/^\(\[0\] \)\{0,1\}live page: //p' err)
        [ -z "$url" ] || return 0
        sleep 0.1
    done
    cat err
    return 1
}

@test "the live page, status.json, and metrics that Prometheus parses" {
    serve --workers 2 --eval-every 100
    sleep 2
    python3 - "$url" <<'END'
import json, re, socket, sys, time, urllib.request, urllib.parse
url = sys.argv[1]
get = lambda path: urllib.request.urlopen(url + path, timeout=10)
page = get("")
assert page.headers["Content-Type"].startswith("text/html")
assert b"status.json" in page.read()
for _ in range(100): # until there are a verdict and an evaluation
    status = json.load(get("status.json"))
    if status["verdict"] and status["evals"]["test_accuracy"]:
        break
    time.sleep(0.1)
assert status["step"] > 0 and len(status["processes"]) == 2 and status["history"]["seconds"], status
assert len(status["evals"]["test_accuracy"]) > 0 and status["verdict"], status
each = status["examples"] / status["step"] # examples/s and steps/s are over the same time
assert abs(status["examples_per_second"] / each / status["steps_per_second"] - 1) < 0.01, status
# a client that never reads its response does not block other clients
where = urllib.parse.urlparse(url)
lazy = [socket.create_connection((where.hostname, where.port)) for _ in range(20)]
for s in lazy:
    s.sendall(b"GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
answer = get("metrics")
assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4"), answer.headers
helped, typed, samples, current = set(), {}, {}, None
for line in answer.read().decode().splitlines():
    if line.startswith("# HELP "):
        current = line.split()[2]
        assert current not in helped, line
        helped.add(current)
    elif line.startswith("# TYPE "):
        assert line.split()[2] == current and current not in typed, line
        typed[current] = line.split()[3]
    else:
        m = re.fullmatch(r'([a-z_:][a-z0-9_:]*)(\{[a-z_]+="(?:[^"\\]|\\.)*"(?:,[a-z_]+="(?:[^"\\]|\\.)*")*\})? (\S+)', line, re.I)
        assert m and m[1] == current, line
        samples[m[1] + (m[2] or "")] = float(m[3])
assert typed["yoke_steps_total"] == "counter" and samples["yoke_steps_total"] > 0, typed
assert samples['yoke_worker_steps_total{worker="1"}'] > 0, samples
assert sum(v for k, v in samples.items() if k.startswith('yoke_worker_phase_seconds_total{worker="0"')) > 0.5
END
    kill -INT "$run"
    wait "$run"
}

@test "the live page of a job has curves of each rank, and what serving a shard takes" {
    serve --launch 2 --servers all --mode async
    python3 - "$url" <<'END'
import json, sys, time, urllib.request
for _ in range(200):
    processes = json.load(urllib.request.urlopen(sys.argv[1] + "status.json", timeout=10))["processes"]
    if len(processes) == 2 and all(len(p["curves"]["seconds"]) > 1 for p in processes):
        break
    time.sleep(0.1)
for p in processes:
    n = len(p["curves"]["seconds"])
    assert n > 1 and all(len(p["curves"][k]) == n for k in ("cpu", "rss", "sent", "received")), p
    assert min(p["curves"]["rss"]) > 1e6 and max(p["curves"]["sent"]) > 0 and p["curves"]["seconds"] == sorted(p["curves"]["seconds"]), p
    assert p["serving"]["phases"]["apply"] > 0, p
END
    kill -INT "$run"
    wait "$run"
}

@test "the live page shows the learning rate and the optimizer of the dense parameters if they differ" {
    serve --model wide-deep:2 --data 'synth:ctr?features=500&examples=500'
    python3 - "$url" <<'END'
import json, sys, time, urllib.request
get = lambda path: urllib.request.urlopen(sys.argv[1] + path, timeout=10).read().decode()
for _ in range(100): # until training has made progress
    status = json.loads(get("status.json"))
    if status["learning_rate"]:
        break
    time.sleep(0.1)
assert abs(status["learning_rate"] - 0.05) < 1e-6 and abs(status["dense_learning_rate"] - 0.001) < 1e-6, status
assert "\nyoke_dense_learning_rate 0.001" in get("metrics")
assert (status["optimizer"], status["dense_optimizer"]) == ("adagrad", "adam") and "s.dense_optimizer" in get(""), status
END
    kill -INT "$run"
    wait "$run"
    : >err # has the address of the first run
    serve --model wide-deep:2 --data 'synth:ctr?features=500&examples=500' --optimizer adagrad --out same
    python3 - "$url" <<'END'
import json, sys, urllib.request
status = json.load(urllib.request.urlopen(sys.argv[1] + "status.json", timeout=10))
assert (status["optimizer"], status["dense_optimizer"]) == ("adagrad", None), status
END
    kill -INT "$run"
    wait "$run"
}

@test "invalid --http addresses, and --trace without a run directory" {
    digits --http nonsense --out none
    expect 2 "[ADDR:]PORT"
    digits --http 99999 --out none
    expect 2 "[ADDR:]PORT"
    digits --trace --out none
    expect 2 "--trace needs a run directory"
    digits --sample-every -1 --out none
    expect 2 "sample-every"
}

@test "nothing is sampled if no output needs samples" {
    digits --epochs 2 --sample-every 0 --json --out run
    expect 0
    [ ! -e run/worker-0/resources.jsonl ]
    holds "$(field resources)['cpu']['mean'] > 0"
}

@test "every rank of a job is in summary, timeline and TensorBoard, on one clock" {
    digits --launch 2 --epochs 40 --batch 20 --test none --trace --json --sample-every 0.1 --out run
    expect 0
    python3 - <<'END'
import json
o = json.loads(open("out").read().splitlines()[-1])
assert [p["rank"] for p in o["processes"]] == [0, 1], o["processes"]
for p in o["processes"]:
    assert p["bytes_sent"] > 0 and abs(sum(p["phases"].values()) - 1) < 1e-6, p
    lines = [json.loads(line) for line in open(f"run/worker-{p['rank']}/resources.jsonl")]
    assert lines[0]["rank"] == p["rank"] and lines[-1]["kind"] in ("sample", "alert"), lines[0]
assert sum(p["examples"] for p in o["processes"]) == o["examples"], o["processes"]
assert any("sent" in l for l in lines), lines[-1]
events = json.load(open("run/trace.json"))["traceEvents"]
ends = {}
for e in events:
    if e["ph"] == "X" and e["name"] == "compute":
        ends.setdefault(e["pid"], []).append(e["ts"] + e["dur"])
# steps are synchronous: both ranks begin and end theirs at about the same time
assert set(ends) == {0, 1}, set(ends)
assert abs(max(ends[0]) - max(ends[1])) < 0.5e6 and abs(min(ends[0]) - min(ends[1])) < 0.5e6, ends
END
    for tag in rank1/cpu rank1/sent rank1/received; do
        grep -aq "$tag" run/events.out.tfevents.*
    done
}
