#!/usr/bin/env python3
"""./dev inject: injects problems and makes healthy runs, and checks what yoke says about them.

    ./dev inject                    all rows, about ten minutes on two cores
    ./dev inject 'link|server'      the rows whose name matches
    ./dev inject --record DIR       also writes the evidence of each bottleneck to DIR, for tests/test_replay.c

At least 23 problems must be identified and no healthy run may be complained about. A row that needs more cores, root or a quiet
host is skipped, with the reason.
"""
import argparse
import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import lan as lans  # noqa: E402
import rows as table  # noqa: E402

TURNS = 3  # of a row on a busy host
LEAST = 23
BUSY = 0.2  # of the cores, used by programs that a row did not start


def descendants(pid):
    parent = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as f:
                    parent[int(name)] = int(f.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                pass
    found, more = set(), {pid}
    while more:
        more = {c for c, p in parent.items() if p in more} - found
        found |= more
    return found


def process_of_rank(pid, rank):
    for child in descendants(pid):
        try:
            with open(f"/proc/{child}/environ") as f, open(f"/proc/{child}/cmdline") as c:
                if f"YOKE_RANK={rank}\0" in f.read() and "yoke" in c.read():
                    return child
        except OSError:
            pass
    return None


def wait_for_rank(process, rank):
    end = time.time() + 20
    target = None
    while target is None and process.poll() is None and time.time() < end:
        time.sleep(0.05)
        target = process_of_rank(process.pid, rank)
    time.sleep(0.2)
    return target


class Limit:
    """A cgroup with a CPU limit, for one process. Of version 1 or 2; removed when the process has ended."""

    def __init__(self, cores):
        one = "/sys/fs/cgroup/cpu"
        self.path = os.path.join(one if os.path.isdir(one) else "/sys/fs/cgroup", f"yoke-inject-{os.getpid()}")
        os.makedirs(self.path, exist_ok=True)
        for name, text in (("cpu.cfs_quota_us", f"{cores * 1e5:.0f}"), ("cpu.max", f"{cores * 1e5:.0f} 100000")):
            if os.path.exists(os.path.join(self.path, name)):
                self.write(name, text)
                return
        self.remove()
        raise OSError("no CPU limits in this cgroup")

    def write(self, name, text):
        with open(os.path.join(self.path, name), "w") as f:
            f.write(text)

    def remove(self):
        os.rmdir(self.path)


def why_no_limit():
    try:
        Limit(0.5).remove()
    except OSError as e:
        return f"cannot limit the CPU time of a process: {e}"
    return ""


def run_stopped(process, rank, stopped, running):
    """Stops a rank in turns until the job ends."""
    target = wait_for_rank(process, rank)
    while target and process.poll() is None:
        try:
            os.kill(target, signal.SIGSTOP)
            time.sleep(stopped)
            os.kill(target, signal.SIGCONT)
        except ProcessLookupError:
            return
        time.sleep(running)


def pin(process, rank, nice):
    """Pins a rank to one core, and starts another program there."""
    target, core = wait_for_rank(process, rank), max(os.sched_getaffinity(0))
    for thread in os.listdir(f"/proc/{target}/task"):
        os.sched_setaffinity(int(thread), {core})
        os.setpriority(os.PRIO_PROCESS, int(thread), nice)
    spinner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    os.sched_setaffinity(spinner.pid, {core})
    return spinner


def write_slowly(path, rate, out):
    """Writes a file to a pipe, at so many bytes per second."""
    with open(path, "rb") as f, out:
        try:
            while piece := f.read(int(rate / 50)):
                out.write(piece)
                out.flush()
                time.sleep(0.02)
        except BrokenPipeError:
            pass


def disturb(process, row, directory, limit, spinners):
    """What the row does to the running job. Returns when the job should be left alone."""
    end = threading.Timer(row.seconds, process.send_signal, (signal.SIGINT,)) if row.seconds else None
    if row.seconds:
        if row.stop or row.limit or row.beside:
            wait_for_rank(process, 0)
        end.start()
    if row.stop:
        run_stopped(process, *row.stop)
    if row.limit:
        limit.write("cgroup.procs", str(wait_for_rank(process, row.limit[0])))
    if row.beside:
        spinners.append(pin(process, *row.beside))
    if row.pipe:
        write_slowly(os.path.join(directory, row.pipe[0]), row.pipe[1], process.stdin)
    process.wait(timeout=90)
    if end:
        end.cancel()


def run(yoke, row, directory, lan=None, evidence=None):
    """The summary of a run, its exit status, and what it wrote to stderr."""
    shutil.rmtree(os.path.join(directory, "run"), ignore_errors=True)
    options = shlex.split(row.command) + ["--json", "--quiet"] + ([] if "--out" in row.command else ["--out", "none"])
    command = lan.command(yoke, options) if lan else [yoke, "train", *options]
    env = {**os.environ, **row.env}
    if evidence:
        env["YK_EVIDENCE"] = evidence
    limit = Limit(row.limit[1]) if row.limit else None
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(row.spin * table.CORES)]
    try:
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = subprocess.Popen(command, cwd=directory, env=env, stdout=out, stderr=err,
                                       stdin=subprocess.PIPE if row.pipe else subprocess.DEVNULL)
            try:
                disturb(process, row, directory, limit, spinners)
            except subprocess.TimeoutExpired:
                process.terminate()
                process.wait()
            out.seek(0)
            err.seek(0)
            said, text = out.read(), err.read()
    finally:
        for s in spinners:
            s.kill()
            s.wait()
        if limit:
            time.sleep(0.2)  # until its processes have left
            limit.remove()
    at = said.find("{")
    try:
        summary = json.loads(said[at:]) if at >= 0 else {}
    except ValueError:
        summary = {}
    return summary, process.returncode, text


def judge(row, summary, status, text):
    """('ok' | 'MISSED' | 'FALSE ALARM' | 'FAILED', what yoke said)."""
    if row.fails:
        return ("ok" if status and row.fails in text else "MISSED"), text.strip().splitlines()[-1] if text.strip() else "nothing"
    if status or not summary:
        return "FAILED", (text.strip().splitlines() or ["no output"])[-1]
    b = summary.get("bottleneck") or {"kind": "none", "text": "none", "advice": ""}
    warnings = {w["kind"]: w["text"] for w in summary.get("warnings", [])}
    about = f"{b['text']} / {b['advice']}"
    if not row.problem:
        unexpected = [w for w in warnings if w != "busy_host"]
        if unexpected:
            return "FALSE ALARM", f"{unexpected[0]}: {warnings[unexpected[0]]}"
        return ("ok" if b["kind"] in row.kinds else "FALSE ALARM"), b["text"]
    if row.kinds and (b["kind"] not in row.kinds or row.words not in about):
        return "MISSED", b["text"]
    named = [w for w in row.warning.split("|") if w in warnings]
    if row.warning and not named:
        return "MISSED", "; ".join(warnings) or "no warning"
    return "ok", b["text"] if row.kinds else warnings[named[0]]


def cpu_of_others():
    """Seconds of all cores in which programs that were not started here ran."""
    with open("/proc/stat") as f:
        ticks = [int(x) for x in f.readline().split()[1:9]]
    own = sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK") - own


def is_disturbed(row, summary, others):
    """Programs that the row did not start used the host (others: cores), so that the run is not the one that was meant."""
    if row.spin:
        return others > BUSY * table.CORES
    kinds = [w["kind"] for w in summary.get("warnings", [])]
    text = (summary.get("bottleneck") or {}).get("text", "")
    return bool(row.kinds) and ("busy_host" in kinds or "other programs use" in text)


def make_tables(put):
    """CSV files of two and of ten classes, with mistakes."""
    r = random.Random(3)
    header = "x1,x2,x3,x4,label\n"

    def table(n, scale=1.0):
        for _ in range(n):
            x = [r.gauss(0, 1) for _ in range(4)]
            yield x, int(x[0] + x[1] + x[2] + r.gauss(0, 0.7) > 0), scale

    def lines(rows):
        return [header] + [",".join(f"{v * (scale if k == 0 else 1):.5g}" for k, v in enumerate(x)) + f",{y}\n" for x, y, scale in rows]

    train = list(table(4000))
    labels = [y for _, y, _ in train]
    r.shuffle(labels)
    put("train.csv", lines(train))
    put("test.csv", lines(table(1000)))
    put("shuffled.csv", lines((x, y, s) for (x, _, s), y in zip(train, labels)))
    put("one-or-two.csv", lines((x, y + 1, s) for x, y, s in train))
    put("rare.csv", lines((x, y, s) for x, y, s in train if not y or r.random() < 0.02))
    put("large.csv", lines((x, y, 1e6) for x, y, _ in train))
    centers = [[r.gauss(0, 2) for _ in range(4)] for _ in range(10)]
    digits = [([c + r.gauss(0, 1) for c in centers[i % 10]], i % 10, 1.0) for i in range(4000)]
    put("digits.csv", lines(digits[:3000]))
    put("from-1.csv", lines((x, y + 1, s) for x, y, s in digits[3000:]))


def make_data(yoke, directory):
    def gen(name, seed, size="features=5000&examples=4000"):
        subprocess.run([yoke, "data", "gen", f"synth:ctr?{size}&seed={seed}", "--out", name, "--format", "libsvm",
                        "--quiet"], cwd=directory, check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(directory, name)) as f:
            return f.readlines()

    def put(name, lines):
        with open(os.path.join(directory, name), "w") as f:
            f.writelines(lines)

    make_tables(put)
    clicks, other = gen("clicks.libsvm", 1), gen("other.libsvm", 2)
    put("large.libsvm", gen("all.libsvm", 1, "features=300&examples=22000")[:20000])
    with open(os.path.join(directory, "all.libsvm")) as f:
        held_out = f.readlines()[20000:]
    put("held-out.libsvm", held_out)
    put("reversed.libsvm", [f"{1 - int(line[0])}{line[1:]}" for line in held_out])
    with open(os.path.join(directory, "large.libsvm")) as f:
        large = f.readlines()
    labels = [line[0] for line in large]
    random.Random(1).shuffle(labels)
    put("shuffled.libsvm", [label + line[1:] for label, line in zip(labels, large)])
    put("constant.libsvm", [f"{line[0]} 1:1 2:0.5 7:1\n" for line in clicks])
    put("mixed.libsvm", other[:800] + clicks[:200])
    put("one.libsvm", [line for line in clicks if line.startswith("1")])
    put("leak.libsvm", [f"{line.strip()} 6000:{1 if line[0] == '1' else -1}\n" for line in clicks])
    put("bad.libsvm", clicks[:100] + ["1 x:y\n", "what\n"] + clicks[100:])


def record(row, evidence, directory):
    name = re.sub(r"[^a-z0-9]+", "-", row.name.lower()).strip("-")
    os.makedirs(directory, exist_ok=True)
    with open(evidence) as f:
        fixture = {"name": row.name, "kinds": list(row.kinds), "words": row.words, "evidence": json.load(f)}
    short = json.loads(json.dumps(fixture).replace(f'"{os.uname().nodename}"', '"host1"'), parse_float=lambda x: float(f"{float(x):.5g}"))
    with open(os.path.join(directory, name + ".json"), "w") as f:
        f.write(json.dumps(short).replace('{"rank"', '\n  {"rank"') + "\n")


def try_row(args, row, directory, lan):
    evidence = os.path.join(directory, "evidence.json")
    for _ in range(TURNS):
        if os.path.exists(evidence):
            os.remove(evidence)
        began, before = time.time(), cpu_of_others()
        summary, status, text = run(args.yoke, row, directory, lan, evidence)
        others = (cpu_of_others() - before) / (time.time() - began)
        result, said = judge(row, summary, status, text)
        if args.record and row.kinds and os.path.exists(evidence):
            record(row, evidence, args.record if result == "ok" else os.path.join(args.record, "missed"))
        if result == "ok" or not is_disturbed(row, summary, others):
            return result, said
    return "skipped", "the host is busy with other programs"


def run_all(args, chosen, directory):
    count = {}
    why = lans.why_not()
    lan = None
    try:
        for row in chosen:
            reason = f"needs {row.cores} cores" if row.cores > table.CORES else why if row.lan else why_no_limit() if row.limit else ""
            began = time.time()
            if row.lan and not reason:
                try:
                    lan = lan or lans.Lan(directory).__enter__()
                    reason = lan.shape(row.lan)
                except OSError as e:
                    reason = why = f"cannot make network namespaces: {e}"
            if reason:
                result, said = "skipped", reason
            else:
                result, said = try_row(args, row, directory, lan if row.lan else None)
            key = (row.problem, result)
            count[key] = count.get(key, 0) + 1
            print(f"{'problem' if row.problem else 'healthy'}  {result:11}  {time.time() - began:4.1f} s  {row.name:44}  {said[:110]}", flush=True)
    finally:
        if lan:
            lan.__exit__()
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--yoke", default="build/yoke_with_hooks")
    parser.add_argument("--record", metavar="DIR")
    args = parser.parse_args()
    args.yoke = os.path.abspath(args.yoke)
    if args.record:
        os.makedirs(args.record, exist_ok=True)
        args.record = os.path.abspath(args.record)
    chosen = [r for r in table.all_rows() if re.search(args.pattern, r.name)]
    with tempfile.TemporaryDirectory() as directory:
        make_data(args.yoke, directory)
        count = run_all(args, chosen, directory)
    problems = sum(n for (problem, _), n in count.items() if problem)
    found, alarms = count.get((True, "ok"), 0), count.get((False, "FALSE ALARM"), 0)
    skipped = sum(n for (_, result), n in count.items() if result == "skipped")
    print(f"\n{found} of {problems} problems identified, {alarms} false alarms in {sum(count.values()) - problems} healthy runs, {skipped} skipped")
    bad = sum(n for (_, result), n in count.items() if result in ("MISSED", "FAILED"))
    return 1 if alarms or (found < LEAST and not args.pattern) or (args.pattern and bad) else 0


if __name__ == "__main__":
    sys.exit(main())
