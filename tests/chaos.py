#!/usr/bin/env python3
"""Real jobs, real kills: ./dev chaos [KILLS] [--hosts] [--seed S] [--kind NAME]

Each trial starts a short job, kills one of its processes (the launcher, its agent, a server, a worker, a replica, a
joined worker) with SIGKILL at a random time between its start and its last second, and then resumes the run, if it failed. With
--hosts, the job runs on three hosts (network namespaces, each with an sshd, which the program creates and removes) and is
started from a fourth; a trial kills one process, or all processes of a host, or cuts its link, or both at once. A third of the
jobs have --restarts. It checks:

  no hang           the job and the resumed job end, or make progress until a deadline, which grows with the load
  nothing is left   no process on any host, no file in TMPDIR, no temporary file in the run directory
  promised ends     status 0, or 1 with an error that names a rank or a host; a job that survives a loss has status 0
  no wrong bits     a synchronous run that was restarted or resumed ends with the weights of the undisturbed run
  no lost examples  every example was used exactly once per epoch; with a quorum, used or late

The seed decides the kind of job, the time and the process. A failure prints its seed, and keeps the directory of the trial.
SIGTERM and SIGINT end the campaign after the current trial, with its figures."""

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "inject"))
import lan  # noqa: E402

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


def option(kind, name):
    """The value of an option of a kind of job; None: it has none."""
    options = KINDS[kind][1]
    return options[options.index(name) + 1] if name in options else None


def slowness():
    """How many times longer things may take than on an idle machine."""
    return min(max(1.0, os.getloadavg()[0] / os.cpu_count()), 10.0)


class Hosts(lan.Lan):
    """Hosts 1 to 3, with an sshd each, and host 0, from which jobs are started."""

    def __enter__(self):
        super().__enter__()
        os.makedirs("/run/sshd", exist_ok=True)
        for key in "host", "id":
            lan.sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{self.directory}/{key}")
        with open(f"{self.directory}/sshd.conf", "w") as f:
            f.write(f"Port 22\nHostKey {self.directory}/host\nAuthorizedKeysFile {self.directory}/id.pub\nPidFile none\n"
                    "StrictModes no\nUsePAM no\nPermitRootLogin yes\nMaxStartups 100\nAcceptEnv YK_JOB TMPDIR\n"
                    f"SetEnv HOME={self.directory}\n")  # without start-up files of the shell, which a kill must not interrupt
        self.sshd = [subprocess.Popen([*self.on(i), "/usr/sbin/sshd", "-D", "-f", f"{self.directory}/sshd.conf", "-E", "/dev/null"])
                     for i in (1, 2, 3)]
        self.agent = (f"ssh -i {self.directory}/id -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR "
                      "-o SendEnv=YK_JOB -o SendEnv=TMPDIR")
        if not wait_until(lambda: not subprocess.run([*self.on(0), *self.agent.split(), f"{self.net}.3", "true"]).returncode, 20):
            sys.exit("chaos: sshd does not answer")
        return self

    def __exit__(self, *_):
        for i in range(4):
            for pid in self.pids(i):
                os.kill(pid, signal.SIGKILL)
        for sshd in self.sshd:
            sshd.wait()
        super().__exit__()

    def on(self, i):
        """The start of a command that runs on host i."""
        return ["ip", "netns", "exec", self.name(i), "unshare", "--uts", "sh", "-c", f'hostname host{i}; exec "$@"', "sh"]

    def pids(self, i):
        out = subprocess.run(["ip", "netns", "pids", self.name(i)], stdout=subprocess.PIPE, text=True).stdout
        return [int(pid) for pid in out.split()]

    def kill(self, i):
        """Kills all processes of a host, except the sshd that listens."""
        for pid in set(self.pids(i)) - {sshd.pid for sshd in self.sshd}:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def link(self, i, state):
        lan.sh("ip", "-n", self.name(i), "link", "set", "eth0", state)

    def place(self, kind, first):
        """Options that place the processes of a kind of job on the hosts, beginning with host `first`."""
        n = int(option(kind, "--launch"))
        hosts = [f"{self.net}.{1 + (first + i) % 3}" + (":2" if i == 1 and n == 4 else "") for i in range(min(n, 3))]
        return ["--hosts", ",".join(hosts), "--agent", self.agent]


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
        self.kind = kind or self.random.choice(chaos.kinds)
        self.directory = tempfile.mkdtemp(prefix="ykc.", dir="/tmp")
        self.run = os.path.join(self.directory, "run")
        self.problems = []
        self.started = []
        self.options = options_of(self.kind)
        self.hosts = chaos.hosts
        if self.hosts:
            at = self.options.index("--launch")
            self.options[at:at + 2] = self.hosts.place(self.kind, self.random.randrange(3))
        self.down = None  # the host whose link is down

    def start(self, name, *options, host=0):
        command = [*(self.hosts.on(host) if self.hosts else []), self.chaos.yoke, "train", *options]
        with open(f"{self.directory}/{name}.out", "wb") as out, open(f"{self.directory}/{name}.err", "wb") as err:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment(self.directory),
                                       start_new_session=True)  # a signal to the campaign is not for its jobs
        self.started.append(process)
        return process

    def join(self):
        """A worker that joins as soon as the job can be joined, from any host."""
        if wait_until(lambda: os.path.exists(f"{self.run}/join") or self.started[0].poll() is not None, 10 * slowness()):
            self.start("join", "--join", self.run, host=self.random.randrange(4))

    def kill(self, job, seconds):
        """Kills something after some seconds; returns what it was. None: the job had ended."""
        end = time.monotonic() + seconds
        if KINDS[self.kind][4]:
            self.join()
        wait_until(lambda: job.poll() is not None, max(end - time.monotonic(), 0))
        victims = processes(self.directory)
        self.trained = self.progress() > 0
        if job.poll() is not None or not victims:
            return None
        how = self.random.choice(["process"] * 6 + ["processes", "link", "dead", "dead"]) if self.hosts else "process"
        if how == "process":
            if job.pid in victims:
                victims[job.pid] = "launcher" if option(self.kind, "--launch") else "process"
            what = self.random.choice(sorted(set(victims.values())))
            try:
                os.kill(self.random.choice([pid for pid in victims if victims[pid] == what]), signal.SIGKILL)
            except ProcessLookupError:
                return None
            return what
        ranks = {h: sorted(victims[p] for p in self.hosts.pids(h) if victims.get(p, "").startswith("rank")) for h in (1, 2, 3)}
        host = self.random.choice([0] + [h for h in ranks if ranks[h]])
        if not any(ranks.values()):  # ssh may wait for a minute
            how = "processes"
        if how != "processes":
            self.hosts.link(host, "down")
            self.down = host
        if how != "link":
            self.hosts.kill(host)
        what = {"processes": "processes of", "link": "link of", "dead": "host of"}[how]
        return f"{what} the launcher" if host == 0 else f"{what} {', '.join(ranks[host])}"

    def link_up(self):
        if self.down is not None:
            self.hosts.link(self.down, "up")
            self.down = None

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
            if time.time() > max(began, self.progress()) + deadline * slowness():
                self.problems.append(f"{name}: no end and no progress for {deadline * slowness():.0f} s: "
                                     f"{sorted(processes(self.directory).values())}")
                break
            if time.time() > began + 5 and "--restarts" in self.options:
                self.link_up()  # the host is back
            time.sleep(0.02)
        if not wait_until(lambda: not processes(self.directory), 12 * slowness()):  # more than any heartbeat timeout
            self.problems.append(f"{name}: left behind: {sorted(processes(self.directory).values())}")
        self.link_up()
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

    def results(self, name):
        """Checks the results of a run that has ended with status 0."""
        _, _, epochs, synchronous, _ = KINDS[self.kind]
        with open(f"{self.directory}/{name}.out") as f:
            text = f.read()
        if not text.endswith("\n"):
            self.problems.append(f"{name}: no results")
            return
        result = json.loads(text.splitlines()[-1])
        if "examples" not in result:
            self.problems.append(f"{name}: no results: {text}")
            return
        examples = result["examples"] + result["late_examples"]
        if examples != epochs * EXAMPLES:
            self.problems.append(f"{name}: {examples} examples instead of {epochs * EXAMPLES}")
        if synchronous and self.model() != self.chaos.reference[self.kind]:
            self.problems.append(f"{name}: the weights differ from those of the undisturbed run")

    def check_end(self, job, victim):
        """The exit status and the error are as docs/promises.md says."""
        with open(f"{self.directory}/job.err", errors="replace") as f:
            errors = re.findall("yoke: error: (.*)", f.read())
        servers = option(self.kind, "--servers")
        survives = (servers not in (None, "0", "all") and not KINDS[self.kind][3] and self.trained and
                    not any("before training began" in e for e in errors))
        workers = int(option(self.kind, "--launch") or 0) - int(servers) if survives else 0
        rank = int(victim[5:]) if victim and re.fullmatch(r"rank \d+", victim) else 0
        gone = victim in ("launcher", "process", "host of the launcher", "processes of the launcher")
        if job.returncode == 0:
            self.results("job")
        elif gone and job.returncode == -signal.SIGKILL:
            pass
        elif victim is None or "joined" in victim or (survives and rank >= int(servers) and workers > 1):
            self.problems.append(f"job: status {job.returncode} although it survives the loss: {errors}")
        elif job.returncode not in (1, 4) or not any(re.search(r"rank|host|worker|server", e) for e in errors):
            self.problems.append(f"job: status {job.returncode}, with these errors: {errors}")
        elif "--restarts" in self.options and "launcher" not in victim and (self.trained or job.returncode == 1):
            self.problems.append(f"job: status {job.returncode} in spite of --restarts: {errors}")

    def resume(self):
        job = self.start("resumed", *self.options, "--out", self.run, "--resume", "--json")
        self.ended("resumed", self.chaos.deadline)
        if job.returncode:
            self.problems.append(f"resumed: exit status {job.returncode}")
        else:
            self.results("resumed")

    def check_run_directory(self):
        left = [os.path.join(at, n) for at, ds, fs in os.walk(self.run) for n in fs + ds if n.endswith(".tmp") or n == ".saving"]
        if left:
            self.problems.append(f"temporary files in the run directory: {left}")

    def execute(self):
        began = time.monotonic()
        if option(self.kind, "--launch") and self.random.random() < 0.3:
            self.options += ["--restarts", "5"]
        extra = ["--deadline", "3"] if self.hosts else []
        job = self.start("job", *self.options, *extra, "--out", self.run, "--json")
        # start-up and the end are short, but have their own code: a third of the kills each
        begin, end = self.random.choice([(0.0, 0.3), (0.0, 1.1), (0.7, 1.05)])
        seconds = self.random.uniform(begin, end) * self.chaos.seconds[self.kind]
        victim = self.kill(job, seconds)
        killed = time.monotonic()
        self.ended("job", self.chaos.deadline)
        ended = time.monotonic()
        if not victim:  # the machine is less busy than before
            self.chaos.seconds[self.kind] = ended - began
        self.files("job")
        if not self.problems:
            self.check_end(job, victim)
        if not self.problems and job.returncode:
            self.resume()
            self.files("resumed")
        if not self.problems:
            self.check_run_directory()
        text = (f"seed {self.seed}: {self.kind}{' with --restarts' if '--restarts' in self.options else ''}: "
                f"{victim or 'nothing'} killed after {seconds:.2f} s, status {job.returncode} after {ended - killed:.2f} s more, "
                f"all in {time.monotonic() - began:.2f} s")
        if self.problems:
            print(f"FAILED {text}\n    " + "\n    ".join(self.problems) + f"\n    kept: {self.directory}", flush=True)
        else:
            if self.chaos.verbose:
                print(text, flush=True)
            shutil.rmtree(self.directory)
        return victim


class Chaos:
    def __init__(self, yoke, verbose, deadline, kinds, hosts):
        self.yoke, self.verbose, self.deadline, self.kinds, self.hosts = yoke, verbose, deadline, kinds, hosts
        self.reference, self.seconds = {}, {}

    def undisturbed(self, kind):
        t = Trial(self, 0, kind)
        began = time.monotonic()
        job = t.start("job", *t.options, "--out", t.run, "--json")
        t.ended("undisturbed", 120)
        if job.returncode or t.problems:
            sys.exit(f"chaos: {kind} fails without a kill: see {t.directory}: {t.problems}")
        self.seconds[kind] = time.monotonic() - began
        self.reference[kind] = t.model()
        shutil.rmtree(t.directory)

    def campaign(self, kills, seed, kind):
        stop = []
        for number in signal.SIGTERM, signal.SIGINT:
            signal.signal(number, lambda *_: stop.append(1))
        for k in self.kinds:
            self.undisturbed(k)
        killed, failed, first, began = 0, 0, seed, time.monotonic()
        victims = {}
        while killed < kills and not stop:
            t = Trial(self, seed, kind)
            victim = t.execute()
            killed += victim is not None
            failed += bool(t.problems)
            what = re.sub(r" of rank.*", " of ranks", re.sub(r"^rank [1-9]\d*", "another rank", victim or "too late"))
            victims[what] = victims.get(what, 0) + 1
            seed += 1
            if (seed - first) % 100 == 0:
                print(f"{killed} kills in {seed - first} trials, {time.monotonic() - began:.0f} s: {failed} failed", flush=True)
        print(f"{killed} kills in {seed - first} trials, {time.monotonic() - began:.0f} s: {failed} failed")
        print(", ".join(f"{n} {what}" for what, n in sorted(victims.items(), key=lambda v: -v[1])))
        return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", nargs="?", type=int, default=100)
    parser.add_argument("--hosts", action="store_true", help="jobs on three hosts; needs root and sshd")
    parser.add_argument("--seed", type=int, default=1, help="of the first trial; the next one has the next seed")
    parser.add_argument("--kind", choices=sorted(KINDS), help="only jobs of this kind")
    parser.add_argument("--yoke", default="build/yoke")
    parser.add_argument("--deadline", type=float, default=75.0, help="seconds for a job to end, on an idle machine")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    kinds = [k for k in sorted(KINDS) if options.kind in (None, k) and (not options.hosts or option(k, "--launch"))]
    chaos = Chaos(os.path.abspath(options.yoke), options.verbose, options.deadline, kinds, None)
    if not options.hosts:
        return chaos.campaign(options.kills, options.seed, options.kind)
    why = lan.why_not() or (not os.path.exists("/usr/sbin/sshd") and "sshd is not installed")
    if why:
        sys.exit(f"chaos: --hosts: {why}")
    with tempfile.TemporaryDirectory(prefix="ykh.", dir="/tmp") as directory, Hosts(directory) as chaos.hosts:
        return chaos.campaign(options.kills, options.seed, options.kind)


if __name__ == "__main__":
    sys.exit(main())
