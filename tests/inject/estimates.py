"""Compares yoke's estimates with measurements: for each base run, the changes that it estimates are made, and the speedup is
measured. Needs a quiet host; with 16 cores, about 50 pairs are measured in ten minutes. It uses only the standard library:

    python3 tests/inject/inject.py --yoke build/yoke --estimates      the same as ./dev inject --estimates

Prints one line per pair, and at the end the table of docs/performance.md. A pattern selects base runs. YK_ESTIMATE_SECONDS: the
length of a run (3), YK_ESTIMATE_ROUNDS: how often each is made (2), and YK_ESTIMATE_LIMIT: no pair starts after so many
seconds (600).
"""
import json
import os
import re
import signal
import subprocess
import tempfile
import time

SECONDS = float(os.environ.get("YK_ESTIMATE_SECONDS", "3"))
ROUNDS = int(os.environ.get("YK_ESTIMATE_ROUNDS", "2"))
START = float(os.environ.get("YK_ESTIMATE_START", "1.4"))  # seconds until the processes of a job train
LIMIT = float(os.environ.get("YK_ESTIMATE_LIMIT", "600"))
CHANGES = ("one more worker", "twice the batch", "asynchronous")
CORES = len(os.sched_getaffinity(0))

DIGITS, CLICKS = "cache:digits.cache", "cache:clicks.cache"


def bases():
    """(model, data, options): runs with at most as many workers and servers as cores."""
    runs = [("softmax", DIGITS, {"workers": w, "batch": b}) for w, b in ((1, 10), (2, 10), (2, 200), (4, 100), (8, 100), (4, 1000))]
    runs += [("logreg", CLICKS, {"workers": w, "batch": b}) for w, b in ((1, 100), (2, 10), (2, 1000), (4, 1000), (8, 1000))]
    runs += [("lenet5", DIGITS, {"workers": w, "batch": b}) for w, b in ((1, 16), (2, 16), (8, 64))]
    runs += [("softmax", DIGITS, {"launch": n, "batch": b, "servers": s}) for n, b, s in ((2, 50, 0), (2, 50, 1), (4, 50, 1))]
    runs += [("lenet5", DIGITS, {"launch": n, "batch": b, "servers": s}) for n, b, s in ((2, 64, 0), (4, 128, 0), (5, 64, 1))]
    return [r for r in runs if r[2].get("workers", r[2].get("launch")) <= CORES]


def changes(options):
    n = "launch" if "launch" in options else "workers"
    workers = options[n] - options.get("servers", 0)
    yield "one more worker", {**options, n: options[n] + 1}
    yield "twice the batch", {**options, "batch": 2 * options["batch"]}
    if workers > 1 and (n == "workers" or options["servers"]):
        yield "asynchronous", {**options, "mode": "async"}


def label(model, options):
    return model + "".join(f" --{k} {v}" for k, v in options.items() if not (k == "servers" and not v))


def run(yoke, directory, model, data, options, evidence):
    command = [yoke, "train", "--model", model, "--data", data, "--test", "none", "--epochs", "1000000", "--json", "--quiet",
               "--out", "none"]
    for k, v in options.items():
        command += [f"--{k}", str(v)]
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "YK_EVIDENCE": evidence}
    process = subprocess.Popen(command, cwd=directory, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(SECONDS + (START if "launch" in options else 0.3))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    at = out.find("{")
    if at < 0:
        raise RuntimeError(f"{' '.join(command)}: {err[-300:]}")
    return json.loads(out[at:])


def make_data(yoke, directory):
    for spec, name in (("synth:digits?examples=20000", DIGITS), ("synth:ctr?features=1000000&examples=300000", CLICKS)):
        subprocess.run([yoke, "data", "convert", spec, "--out", os.path.join(directory, name.split(":")[1]), "--quiet"], check=True,
                       stdout=subprocess.DEVNULL)


def order(runs):
    """Alternates between models and kinds of job, so that a time limit leaves out some of each."""
    kinds = {}
    for r in runs:
        kinds.setdefault((r[0], "launch" in r[2]), []).append(r)
    lists = list(kinds.values())
    return [rows[i] for i in range(max(map(len, lists))) for rows in lists if i < len(rows)]


def measure(args, directory, table):
    """Appends a row per pair to the table. Each run is made ROUNDS times, in turn, because the speed of a host varies."""
    end = time.time() + LIMIT
    for model, data, options in order(bases()):
        name = label(model, options)
        evidence = os.path.join(args.record or directory, name.replace(" ", "_") + ".json")
        if not re.search(args.pattern, name):
            continue
        pairs = dict(changes(options))
        before, after = [], {change: [] for change in pairs}
        for _ in range(ROUNDS):
            if time.time() > end:
                print("out of time: the other pairs were not measured")
                return
            before.append(run(args.yoke, directory, model, data, options, evidence))
            for change, changed in pairs.items():
                after[change].append(run(args.yoke, directory, model, data, changed, os.path.join(directory, "changed.json")))
        for change in pairs:
            add_row(table, name, change, before, after[change])


def mean(values):
    return sum(values) / len(values)


def add_row(table, name, change, before, after):
    rates = [[summary["examples_per_second"] for summary in runs] for runs in (before, after)]
    given = [e["speedup"] for summary in before for e in summary["bottleneck"]["estimates"] if e["change"] == change]
    estimated, kinds = mean(given) if given else None, [summary["bottleneck"]["kind"] for summary in before]
    table.append({"run": name, "change": change, "estimated": estimated, "measured": mean(rates[1]) / mean(rates[0]),
                  "estimates": given, "before": rates[0], "after": rates[1], "bottleneck": kinds})
    far = "  <- more than 25 % off" if estimated is not None and not is_close(table[-1]) else ""
    print(f"{name:48}  {change:16}  {'-' if estimated is None else f'{estimated:.2f}':>6}  {table[-1]['measured']:6.2f}  {kinds[0]}{far}",
          flush=True)


def is_close(row):
    return abs(row["estimated"] / row["measured"] - 1) <= 0.25


def print_table(table):
    """The table of docs/performance.md."""
    print(f"\n| run | {' | '.join(CHANGES)} |\n|---{'|---' * len(CHANGES)}|")
    for name in dict.fromkeys(row["run"] for row in table):
        cells = {row["change"]: f"{'-' if row['estimated'] is None else '%.2f' % row['estimated']} / {row['measured']:.2f}"
                 for row in table if row["run"] == name}
        print(f"| `{name}` | {' | '.join(cells.get(change, '') for change in CHANGES)} |")


def main(args):
    table = []
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as directory:
        make_data(args.yoke, directory)
        measure(args, directory, table)
    given = [row for row in table if row["estimated"] is not None]
    close = [row for row in given if is_close(row)]
    print_table(table)
    print(f"\n{CORES} cores, {ROUNDS} runs of {SECONDS:g} s each: {len(table)} pairs; given for {len(given)}, within 25 % in {len(close)}")
    if args.estimates != "-":
        with open(args.estimates, "w") as f:
            json.dump(table, f, indent=1)
    return 0 if len(given) >= 0.8 * len(table) and len(close) >= 0.9 * len(given) else 1
