"""The performance model of asynchronous sparse training: predicts examples/s of a cluster from measured costs.

    ./dev bench model                      measures the costs with yoke, checks the model, prints the prediction
    ./dev bench model --save FILE          also writes the measured costs there
    ./dev bench model --costs FILE         predicts from costs that were measured before, such as bench/costs.json

docs/performance-model.md explains it. M hosts have q processes each, P = M q in all. A process has t worker threads, and one
more that serves a shard, sends and receives. A worker trains on a copy of the parameters of E examples, which have k distinct keys
per example. The rate of all hosts together is the least of

    compute    P t / (work + k copy)
    serving    P / (k h s + 4 P message / E)          h: keys of the hottest shard / keys of a mean shard
    cores      M cores busy / (work + k (copy + s) + 4 P message / E)
    network    M link / (bytes that a host sends for each of its examples)

s is the mean cost of serving a key: OWN serve for those of the process itself, serve for those of other processes of its host,
serve_tcp for those of other hosts. busy: how much of its work a hardware thread does while all of them are busy.

Python's standard library only.
"""
import argparse
import json
import math
import os
import statistics
import sys
import tempfile

from harness import CORES, CTR, HERE, TCP, Bench, human, machine

UP, DOWN = 4 + 4, 4  # bytes per key: the key and its delta to the server; its value back
HEADERS = 128 + 64   # bytes: of a message to a server, and of its answer (src/store/messages.h)
DELIVERED = 0.94     # of a link's rate: what TCP leaves of Ethernet frames of 1,500 bytes
COPY = 0.56          # copy / serve, measured with dedicated servers (docs/performance-model.md)
OWN = 0.3            # of `serve`: what looking up and applying take; the rest are messages, which a process's own keys do not need
MESSAGE = 2.15e-6    # seconds to send or receive a small message over TCP, with Open MPI (docs/experiments-log.md: 4.3 us from one to the other)
HOSTS = (2, 4, 8, 16, 32, 64)
GIGABITS = (10, 25)


# ---- the model: pure functions

def hottest(keys, shards):
    """Keys of the hottest shard / keys of a mean shard, in a copy of so many keys. Keys are numbered by frequency, and of each run of
    consecutive keys every shard gets one. So the keys that are in every copy, about half, are spread evenly, the others at random:
    the largest of n such sums is about sqrt(2 ln n) standard deviations above the mean."""
    mean = keys / shards
    return 1.0 if shards == 1 else 1.0 + math.sqrt(2 * math.log(shards) * mean / 2) / mean


def limits(costs, job):
    """Examples/s that each resource allows. job: hosts, processes (of a host), threads (of a process), cores (of a host),
    link (bits/s; 0: no network)."""
    shards, keys, copy = job["hosts"] * job["processes"], costs["keys"], costs["copy_examples"]
    if shards == 1:
        return {"compute": job["threads"] / costs["alone"]}
    hot, serve = hottest(keys * copy, shards), serving(costs, job)
    messages = 4 * shards * costs["message"] / copy  # per example: to all shards and back, each sent and received
    found = {"compute": shards * job["threads"] / (costs["work"] + keys * costs["copy"]),
             "serving": shards / (keys * hot * serve + messages),
             "cores": job["hosts"] * job["cores"] * costs["busy"] / (costs["work"] + keys * (costs["copy"] + serve) + messages)}
    if job["link"] and job["hosts"] > 1:
        away = (job["hosts"] - 1) / job["hosts"]
        sent = away * (keys * (UP + DOWN * hot) + shards * HEADERS / copy)
        found["network"] = job["hosts"] * DELIVERED * job["link"] / 8 / sent
    return found


def serving(costs, job):
    """The mean cost of serving a key: of this process, of others on its host, of other hosts."""
    shards, here = job["hosts"] * job["processes"], job["processes"] - 1
    near = costs["serve_tcp"] if job.get("tcp") else costs["serve"]
    return (OWN * costs["serve"] + here * near + (shards - 1 - here) * costs["serve_tcp"]) / shards


def predict(costs, job):
    """Examples/s, and the resource that limits them."""
    found = limits(costs, job)
    limit = min(found, key=found.get)
    return found[limit], limit


def one_host(run):
    return {"hosts": 1, "processes": run["processes"], "threads": run["threads"], "cores": run["cores"], "link": 0,
            "tcp": run.get("transport") == "tcp"}


def costs_of(costs, run):
    """The costs that apply to a run: its own keys and copies."""
    return {**costs, **{key: run[key] for key in ("keys", "copy_examples") if run.get(key)}}


def solve(costs, run, name, limit):
    """The value of this cost with which that limit is the rate of that run."""
    low, high = 0.0, 1e-6
    for _ in range(60):
        middle = (low + high) / 2
        trial = {**costs_of(costs, run), **{name: middle}}
        low, high = (middle, high) if limits(trial, one_host(run))[limit] > run["rate"] else (low, middle)
    return low


def calibrate(runs, message=MESSAGE):
    """Costs from the runs that are not checks. Each is limited by what it measures."""
    use = {run["use"]: run for run in runs}
    work, serve, busy = use["work"], use["serve"], use["busy"]
    costs = {"alone": use["alone"]["threads"] / use["alone"]["rate"], "message": message, "keys": work["keys"],
             "copy_examples": work["copy_examples"], "work": 1e-9, "copy": 0.0, "serve": 0.0, "serve_tcp": 0.0, "busy": 1.0}
    costs["serve"] = solve(costs, serve, "serve", "serving")
    costs["copy"] = COPY * costs["serve"]
    costs["work"] = solve(costs, work, "work", "compute")
    costs["busy"] = min(1.0, busy["rate"] / limits(costs_of(costs, busy), one_host(busy))["cores"])
    costs["serve_tcp"] = solve(costs, use["tcp"], "serve_tcp", "serving")
    return {**costs, "runs": runs}


def check(costs):
    """Of each run: (run, predicted examples/s, what limits them, error)."""
    rows = []
    for run in costs["runs"]:
        rate, limit = predict(costs_of(costs, run), one_host(run))
        rows.append((run, rate, limit, rate / run["rate"] - 1))
    return rows


# ---- the costs, measured

def measure(b):
    """Examples/s of 1, 2, 4 and 8 processes on the cores of this machine, in turns."""
    many, half = max(1, CORES // 4), max(1, CORES // 2)
    setups = [("alone", 1, many, ()), ("work", 2, 1, ()), ("serve", 2, many, ()), ("busy", half, 1, ()),
              ("check", 4, max(1, many - 1), ()), ("check", 4, many, ()), ("check", 8, max(1, many // 2), ()), ("tcp", 4, many, TCP),
              ("check", half, 1, TCP)]
    found = [[] for _ in setups]
    for _ in range(3):
        for (_, processes, threads, more), runs in zip(setups, found):
            launch = ("--launch", str(processes)) if processes > 1 else ()
            runs.append(b.train("--model", "logreg", "--data", f"{CTR}&examples=2000000&seed=1", "--test", "none", "--batch", "100",
                                "--mode", "async", "--lr", "0.3", "--epochs", "12", "--eval-every", "1000000000", "--workers",
                                str(threads), *launch, *more))
    costs = calibrate([describe(setup, runs) for setup, runs in zip(setups, found)])
    return {**costs, "machine": machine()}


def describe(setup, runs):
    use, processes, threads, more = setup
    last = runs[-1]
    run = {"use": use, "processes": processes, "threads": threads, "cores": CORES, "transport": "tcp" if more else "memory",
           "rate": statistics.median(s["examples_per_second"] for s in runs),
           "busy": any(w["kind"] == "busy_host" for s in runs for w in s["warnings"])}
    if processes > 1:
        run["keys"] = last["traffic"]["push"]["sent"] / last["examples"] / 4
        run["copy_examples"] = last["copies"]["lifetime"] * last["batch"]
    return run


# ---- tables

def check_table(costs):
    lines = ["| processes x threads, cores | copies | measured | predicted | limit | error | used for |", "|---|---|---|---|---|---|---|"]
    for run, rate, limit, error in check(costs):
        where = ", TCP" if run.get("transport") == "tcp" else ""
        lines.append(f"| {run['processes']} x {run['threads']}, {run['cores']}{where} | {run.get('copy_examples', 0) or '-'} | "
                     f"{run['rate'] / 1e6:.3g} M | {rate / 1e6:.3g} M | {limit} | {100 * error:+.0f} % | {run['use']} |")
    return lines


def cluster_table(costs, processes, threads, cores):
    lines = ["| hosts | " + " | ".join(f"{g} Gbit/s" for g in GIGABITS) + " |", "|---|" + "---|" * len(GIGABITS)]
    for n in HOSTS:
        job = {"hosts": n, "processes": processes, "threads": threads, "cores": cores}
        found = [predict(costs, {**job, "link": gigabit * 1e9}) for gigabit in GIGABITS]
        lines.append(f"| {n} | " + " | ".join(f"{rate / 1e6:,.0f} M, {limit}" for rate, limit in found) + " |")
    return lines


def report(costs, processes, threads, cores):
    yield f"costs: work {1e9 * costs['work']:.0f} ns per example ({1e9 * costs['alone']:.0f} in one process); copy {1e9 * costs['copy']:.1f} ns per key; serve " \
          f"{1e9 * costs['serve']:.1f} ns per key, {1e9 * costs['serve_tcp']:.1f} ns over TCP; message {1e6 * costs['message']:.2f} us; " \
          f"busy {costs['busy']:.2f}; " \
          f"{costs['keys']:.2f} keys per example in copies of {costs['copy_examples']} examples"
    yield ""
    yield from check_table(costs)
    yield ""
    yield from cluster_table(costs, processes, threads, cores)


def main():
    parser = argparse.ArgumentParser(prog="./dev bench model", description=__doc__.split("\n\n")[0])
    parser.add_argument("--yoke", default=os.path.join(HERE, "..", "build", "yoke"), help=argparse.SUPPRESS)
    parser.add_argument("--costs", metavar="FILE", help="costs that were measured before")
    parser.add_argument("--save", metavar="FILE", help="write the measured costs there")
    parser.add_argument("--processes", type=int, default=4, help="processes of each host (4)")
    parser.add_argument("--threads", type=int, default=4, help="worker threads of each process (4)")
    parser.add_argument("--cores", type=int, default=16, help="cores of each host (16)")
    options = parser.parse_args()
    if options.costs:
        with open(options.costs, encoding="utf-8") as f:
            costs = json.load(f)
        costs = {**costs, **calibrate(costs["runs"])}
    else:
        options.against, options.quick = None, False
        with tempfile.TemporaryDirectory(prefix="yoke-bench-") as directory:
            costs = measure(Bench(options, directory))
    if options.save:
        with open(options.save, "w", encoding="utf-8") as f:
            json.dump(costs, f, indent=1)
            f.write("\n")
    print(f"measured on: {costs['machine']}")
    print("\n".join(report(costs, options.processes, options.threads, options.cores)))
    if any(run.get("busy") for run in costs["runs"]):
        print("other programs used the cores during the measurement: measure again on an idle machine")
    worst = max(abs(error) for run, _, _, error in check(costs) if run["use"] == "check")
    print(f"largest error {100 * worst:.0f} %" + ("" if worst <= 0.15 else ": more than 15 %"))
    return 0 if worst <= 0.15 else 1


if __name__ == "__main__":
    sys.exit(main())
