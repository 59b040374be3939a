#!/usr/bin/env python3
"""Real jobs, real kills: ./dev chaos [KILLS] [--seed S] [--kind NAME]

Each trial starts a short job, kills one of its processes (the launcher, its agent, a server, a worker, a replica, a
joined worker) with SIGKILL at a random time between its start and its last second, and then resumes the run. It checks:

  no hang           the job and the resumed job end, or make progress until a deadline
  nothing is left   no process, no file in TMPDIR, no temporary file in the run directory
  no wrong bits     a synchronous run that was resumed ends with the weights of the undisturbed run
  no lost examples  every example was used exactly once per epoch; with a quorum, used or late

The seed decides the kind of job, the time and the process. A failure prints its seed, and keeps the directory of the trial."""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

CLICKS = ["--data", "synth:ctr?features=2000&examples=3000&seed=2", "--test", "none", "--batch", "25", "--lr", "0.01",
          "--seed", "3", "--checkpoint-every", "20"]
EXAMPLES = 3000
LINEAR, FM = "logreg", "fm:4"
DEEP = "linear + fm 4 name=v + (embed 4 name=v, dense 8, relu, dense 1)"

# name: model, options, epochs, synchronous, joins
KINDS = {
    "one-sync": (LINEAR, ["--workers", "2"], 6, True, False),
    "one-async": (LINEAR, ["--workers", "2", "--mode", "async"], 4, False, False),
    "replicas": (LINEAR, ["--launch", "2", "--servers", "0", "--mode", "sync"], 6, True, False),
    "replicas-local": (LINEAR, ["--launch", "2", "--local-steps", "5"], 12, True, False),
    "servers-sync": (LINEAR, ["--launch", "3", "--servers", "1", "--mode", "sync"], 4, True, False),
    "servers-async": (LINEAR, ["--launch", "3", "--servers", "1", "--mode", "async"], 6, False, False),
    "servers-2": (LINEAR, ["--launch", "4", "--servers", "2", "--mode", "async"], 6, False, False),
    "shards": (LINEAR, ["--launch", "2", "--servers", "all", "--mode", "async"], 10, False, False),
    "shards-sync": (LINEAR, ["--launch", "2", "--servers", "all", "--mode", "sync"], 4, True, False),
    "join": (LINEAR, ["--launch", "2", "--servers", "1", "--mode", "async"], 8, False, True),
    "stream": (LINEAR, ["--launch", "3", "--servers", "1", "--mode", "async", "--stream", "always"], 6, False, False),
    "quorum": (LINEAR, ["--launch", "4", "--servers", "1", "--quorum", "2"], 3, False, False),
    "fm-one": (FM, ["--workers", "2"], 4, True, False),
    "fm-replicas": (FM, ["--launch", "2", "--servers", "0", "--mode", "sync"], 4, True, False),
    "fm-servers-2": (FM, ["--launch", "4", "--servers", "2", "--mode", "async"], 4, False, False),
    "fm-quorum": (FM, ["--launch", "4", "--servers", "1", "--quorum", "2"], 3, False, False),
    "fm-join": (FM, ["--launch", "3", "--servers", "1", "--mode", "async"], 6, False, True),
    "deep-servers": (DEEP, ["--launch", "3", "--servers", "1", "--mode", "async"], 4, False, False),
    "deep-shards": (DEEP, ["--launch", "2", "--servers", "all", "--mode", "sync"], 3, True, False),
    "deep-join": (DEEP, ["--launch", "2", "--servers", "1", "--mode", "async"], 5, False, True),
}


def options_of(kind):
    model, options, epochs, _, _ = KINDS[kind]
    return ["--model", model, *CLICKS, *options, "--epochs", str(epochs)]


def environment(directory):
    tmp = os.path.join(directory, "tmp")
    os.makedirs(tmp, exist_ok=True)
    return dict(os.environ, YK_JOB=directory, TMPDIR=tmp)


def processes(directory):
    """The processes of a trial: {pid: what it is}."""
    found = {}
    mark = f"YK_JOB={directory}\0".encode()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                variables = f.read()
            if mark not in variables + b"\0":
                continue
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
            with open(f"/proc/{pid}/stat") as f:
                if f.read().rsplit(")", 1)[1].split()[0] in "ZX":
                    continue
        except OSError:
            continue
        rank = [v for v in variables.split(b"\0") if v.startswith(b"YOKE_RANK=")]
        found[int(pid)] = f"rank {rank[0].split(b'=')[1].decode()}" if rank else "joined worker" if b"--join" in words else "agent"
    return found


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


class Trial:
    def __init__(self, chaos, seed, kind):
        self.chaos, self.seed = chaos, seed
        self.random = random.Random(seed)
        self.kind = kind or self.random.choice(sorted(KINDS))
        self.directory = tempfile.mkdtemp(prefix="ykc.", dir="/tmp")
        self.run = os.path.join(self.directory, "run")
        self.problems = []
        self.started = []

    def start(self, name, *options):
        with open(f"{self.directory}/{name}.out", "wb") as out, open(f"{self.directory}/{name}.err", "wb") as err:
            process = subprocess.Popen([self.chaos.yoke, "train", *options], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                       env=environment(self.directory))
        self.started.append(process)
        return process

    def join(self):
        """A worker that joins as soon as the job can be joined."""
        if wait_until(lambda: os.path.exists(f"{self.run}/join") or self.started[0].poll() is not None, 10):
            self.start("join", "--join", self.run)

    def kill(self, job, seconds):
        """Kills one process after some seconds; returns what it was."""
        end = time.monotonic() + seconds
        if KINDS[self.kind][4]:
            self.join()
        wait_until(lambda: job.poll() is not None, max(end - time.monotonic(), 0))
        victims = {pid: what for pid, what in processes(self.directory).items() if pid != os.getpid()}
        if job.poll() is not None or not victims:
            return None
        pid = self.random.choice(sorted(victims))
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return None
        return victims[pid] if pid != job.pid else "launcher" if "--launch" in KINDS[self.kind][1] else "process"

    def progress(self):
        """When the run last wrote metrics; 0: never."""
        try:
            return os.stat(f"{self.run}/metrics.jsonl").st_mtime
        except OSError:
            return 0

    def ended(self, name, deadline):
        """All processes of the trial end. Jobs may be slow on a busy machine, but must not stand still."""
        began = time.time()
        while any(process.poll() is None for process in self.started):
            if time.time() > max(began, self.progress()) + deadline:
                self.problems.append(f"{name}: no end and no progress for {deadline:.0f} s: "
                                     f"{sorted(processes(self.directory).values())}")
                break
            time.sleep(0.02)
        if not wait_until(lambda: not processes(self.directory), 5):
            self.problems.append(f"{name}: left behind: {sorted(processes(self.directory).values())}")
        for pid in processes(self.directory):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not processes(self.directory), 5)
        for process in self.started:
            process.wait()
        self.started = []

    def files(self, name):
        left = [os.path.join(at, f) for at, _, fs in os.walk(f"{self.directory}/tmp") for f in fs]
        if left:
            self.problems.append(f"{name}: files are left: {left[:5]}")

    def model(self):
        try:
            steps = sorted(int(n[5:]) for n in os.listdir(f"{self.run}/checkpoints") if n.startswith("step-"))
            with open(f"{self.run}/checkpoints/step-{steps[-1]}/model.safetensors", "rb") as f:
                return hashlib.sha256(f.read()).hexdigest()
        except (OSError, IndexError):
            return None

    def resume(self):
        job = self.start("resumed", *options_of(self.kind), "--out", self.run, "--resume", "--json")
        self.ended("resumed", self.chaos.deadline)
        _, _, epochs, synchronous, _ = KINDS[self.kind]
        if job.returncode:
            self.problems.append(f"resumed: exit status {job.returncode}")
            return
        with open(f"{self.directory}/resumed.out") as f:
            results = f.read()
        if not results.endswith("\n"):
            self.problems.append("resumed: no results")
            return
        result = json.loads(results.splitlines()[-1])
        examples = result["examples"] + result["late_examples"]
        if examples != epochs * EXAMPLES:
            self.problems.append(f"{examples} examples instead of {epochs * EXAMPLES}")
        if synchronous and self.model() != self.chaos.reference[self.kind]:
            self.problems.append("the weights differ from those of the undisturbed run")
        left = [os.path.join(at, n) for at, ds, fs in os.walk(self.run) for n in fs + ds if n.endswith(".tmp") or n == ".saving"]
        if left:
            self.problems.append(f"temporary files in the run directory: {left}")

    def execute(self):
        job = self.start("job", *options_of(self.kind), "--out", self.run, "--json")
        # start-up and the end are short, but have their own code: a third of the kills each
        begin, end = self.random.choice([(0.0, 0.3), (0.0, 1.1), (0.7, 1.05)])
        seconds = self.random.uniform(begin, end) * self.chaos.seconds[self.kind]
        began = time.monotonic()
        victim = self.kill(job, seconds)
        self.ended("job", self.chaos.deadline)
        if not victim:  # the machine is less busy than before
            self.chaos.seconds[self.kind] = time.monotonic() - began
        self.files("job")
        if not self.problems:
            self.resume()
            self.files("resumed")
        text = f"seed {self.seed}: {self.kind}: {victim or 'nothing'} killed after {seconds:.2f} s"
        if self.problems:
            print(f"FAILED {text}\n    " + "\n    ".join(self.problems) + f"\n    kept: {self.directory}", flush=True)
        else:
            if self.chaos.verbose:
                print(text, flush=True)
            shutil.rmtree(self.directory)
        return victim


class Chaos:
    def __init__(self, yoke, verbose, deadline):
        self.yoke, self.verbose, self.deadline = yoke, verbose, deadline
        self.reference, self.seconds = {}, {}

    def undisturbed(self, kind):
        t = Trial(self, 0, kind)
        began = time.monotonic()
        job = t.start("job", *options_of(kind), "--out", t.run, "--json")
        t.ended("undisturbed", 120)
        if job.returncode or t.problems:
            sys.exit(f"chaos: {kind} fails without a kill: see {t.directory}: {t.problems}")
        self.seconds[kind] = time.monotonic() - began
        self.reference[kind] = t.model()
        shutil.rmtree(t.directory)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", nargs="?", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1, help="of the first trial; the next one has the next seed")
    parser.add_argument("--kind", choices=sorted(KINDS), help="only jobs of this kind")
    parser.add_argument("--yoke", default="build/yoke")
    parser.add_argument("--deadline", type=float, default=40.0, help="seconds for a job to end")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    chaos = Chaos(os.path.abspath(options.yoke), options.verbose, options.deadline)
    for kind in [options.kind] if options.kind else sorted(KINDS):
        chaos.undisturbed(kind)
    killed, failed, seed, began = 0, 0, options.seed, time.monotonic()
    victims = {}
    while killed < options.kills:
        t = Trial(chaos, seed, options.kind)
        victim = t.execute()
        killed += victim is not None
        failed += bool(t.problems)
        victims[victim] = victims.get(victim, 0) + 1
        seed += 1
    print(f"{killed} kills in {seed - options.seed} trials, {time.monotonic() - began:.0f} s: {failed} failed")
    print(", ".join(f"{n} {what or 'too late'}" for what, n in sorted(victims.items(), key=lambda v: -v[1])))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
