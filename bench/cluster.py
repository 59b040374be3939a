"""Measures jobs of several processes, and compares with targets and, where available, with a peer in the same run.

    ./dev bench cluster               all rows
    ./dev bench cluster logreg        some of them; --list names them

Processes use TCP on the loopback interface unless a row says otherwise. Rates are global: steps of all workers
together when asynchronous, rounds when synchronous. The row `wire` makes three hosts of network namespaces with links of
1 Gbit/s, and needs root.
"""
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from bench import unrelated
from harness import CORES, CTR, TCP, Skip, figure, human, main
from scale import two

GIGABIT = 125e6  # bytes per second


def per_step(summary, key):
    """Bytes of one worker per step; those of servers are not counted: they are the same bytes at the other end."""
    worker = [p for p in summary["processes"] if p["role"] == "worker"]
    mine = sum(p[key] for p in worker) / len(worker)
    rounds = summary["steps"] if summary["mode"] == "sync" else summary["steps"] / len(worker)
    return mine / rounds


def logreg(b):
    """logreg, 33,762,578 features, batch 100, 3 workers + 1 server: bytes and steps"""
    rows = []
    for mode, must in (("async", 3000), ("sync", 1000)):
        best = None
        for _ in range(b.rounds):
            s = b.train("--model", "logreg", "--data", f"{CTR}&examples=600000&seed=1", "--batch", "100", "--lr", "0.2",
                        "--epochs", "2", "--mode", mode, "--launch", "4", "--servers", "1", *TCP)
            best = s if not best or s["steps_per_second"] > best["steps_per_second"] else best
        rate = best["steps_per_second"]
        for key, way in (("bytes_sent", "sent"), ("bytes_received", "received")):
            kb = per_step(best, key) / 1000
            rows.append(figure(f"logreg, {mode}: {way} per worker and step", f"{kb:.1f} KB", "135 MB, dense", "",
                               "<= 40 KB", kb <= 40))
        rows.append(figure(f"logreg, {mode}, batch 100, 3 workers + 1 server", human(rate, "steps/s"), "", "",
                           f">= {must}", rate >= must))
    return rows


def softmax(b):
    """softmax on digits, batch 10, 3 workers + 1 server"""
    alone = b.train("--model", "softmax", "--data", b.digits(), "--batch", "10", "--lr", "0.05", "--epochs", "5",
                    "--eval-every", "1000000")["test_accuracy"]
    rows = []
    for mode, must in (("async", 8000), ("sync", 2500)):
        rate, reached = 0, 0
        for _ in range(b.rounds):
            # synchronous: the rate for three times the batch
            s = b.train("--model", "softmax", "--data", b.digits(), "--batch", "10", "--lr",
                        "0.05" if mode == "async" else "0.15", "--epochs", "5", "--mode", mode, "--launch", "4",
                        "--servers", "1", "--eval-every", "1000000", *TCP)
            rate, reached = max(rate, s["steps_per_second"]), s["test_accuracy"]
        rows.append(figure(f"softmax, {mode}, batch 10, 3 workers + 1 server", human(rate, "steps/s"), "", "",
                           f">= {must}", rate >= must))
        gap = 100 * (reached - alone)
        rows.append(figure(f"softmax, {mode}: test accuracy", f"{100 * reached:.2f} %", f"{100 * alone:.2f} % (one process)",
                           f"{gap:+.2f} points", "within 0.5 points", gap >= -0.5))
    return rows


def lenet(b):
    """lenet5, batch 64, replicas, 2 ranks against 1, shared memory; compared with PyTorch DDP over gloo"""
    if CORES < 2:
        raise Skip("needs two cores")

    def rate(*more):
        s = b.train("--model", "lenet5", "--data", b.digits(), "--optimizer", "momentum", "--lr", "0.01", "--batch", "64",
                    "--epochs", "2", "--eval-every", "1000000", *more)
        return s["examples_per_second"]

    # The speed of each core varies from second to second: adjacent runs are compared, and the median pair counts.
    pairs, apart, them, version = [], [], None, ""
    for i in range(4 * b.rounds + 1):
        two = rate("--launch", "2") if i % 2 else 0
        one = rate()
        two = two or rate("--launch", "2")
        pairs.append((two / one, one, two))
        apart.append((two / (both := unrelated(rate)), both, two, both / one))
    for _ in range(b.rounds):
        try:
            measured = b.peer("ddp", "64")
            them, version = max(them or 0, measured["rate"]), measured["version"]
        except Skip as why:
            version = str(why)
    _, one, two = sorted(pairs)[len(pairs) // 2]
    rows = [figure("lenet5, 2 ranks against 1, shared memory", human(two, "images/s"), human(one, "images/s (1 process)"),
                   f"{two / one:.2f} x", ">= 1.65 x", two >= 1.65 * one)]
    _, both, together, _ = sorted(apart)[len(apart) // 2]
    has = statistics.median(a[3] for a in apart)  # the throughput that the machine can reach with two processes
    rows.append(figure("the same against two unrelated processes at once", human(together, "images/s"),
                       f"{human(both, 'images/s')}, {has:.2f} x of one", f"{together / both:.2f} x"))
    if them is None:
        rows.append(figure("lenet5, 2 processes, against DDP", human(two, "images/s"), f"skipped: {version}"))
    else:
        rows.append(figure("lenet5, 2 processes, against DDP", human(two, "images/s"),
                           f"{human(them, 'images/s')} ({version})", f"{two / them:.1f} x", "goal 3 x"))
    return rows


class Hosts:
    """Three network namespaces with links of 1 Gbit/s to one bridge, and an agent that starts processes in them."""

    def __init__(self, directory):
        if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
            raise Skip("needs root and iproute2 for network namespaces")
        self.tag = f"yb{os.getpid() % 100000}"
        self.directory = directory
        self.names = [f"{self.tag}h{i}" for i in (1, 2, 3)]

    def sh(self, line):
        subprocess.run(["sh", "-c", line], check=True, capture_output=True)

    def __enter__(self):
        lan = f"{self.tag}lan"
        try:
            self.sh(f"ip netns add {lan}; ip -n {lan} link add br0 type bridge && ip -n {lan} link set br0 up")
            for i, name in enumerate(self.names, 1):
                self.sh(f"ip netns add {name} && ip link add v{i} netns {lan} type veth peer name eth0 netns {name} && "
                        f"ip -n {lan} link set v{i} master br0 up && ip -n {name} link set lo up && "
                        f"ip -n {name} addr add 10.78.0.{i}/24 dev eth0 && ip -n {name} link set eth0 up && "
                        f"ip netns exec {name} tc qdisc replace dev eth0 root tbf rate 1gbit burst 128kb latency 20ms")
        except subprocess.CalledProcessError as e:
            self.__exit__()
            raise Skip(f"no network namespaces: {e.stderr.decode().strip()[-100:]}") from e
        agent = os.path.join(self.directory, "agent")
        with open(agent, "w", encoding="ascii") as f:
            f.write(f'#!/bin/sh\nh=$1; shift; i=${{h##*.}}\nexec ip netns exec {self.tag}h$i unshare --uts '
                    f"sh -c 'hostname {self.tag}h'$i'; exec sh -c \"$*\"' sh \"$@\"\n")
        os.chmod(agent, 0o755)
        self.options = ("--hosts", "10.78.0.1,10.78.0.2,10.78.0.3", "--agent", agent)
        # the launcher runs on the first of them
        self.prefix = ("ip", "netns", "exec", self.names[0], "unshare", "--uts", "sh", "-c",
                       f'hostname {self.names[0]}; exec "$@"', "sh")
        return self

    def __exit__(self, *_):
        for name in (*self.names, f"{self.tag}lan"):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def wire(b):
    """lenet5 over three hosts (network namespaces) at 1 Gbit/s, replicas: communication that is not overlapped with computation"""
    with Hosts(b.directory) as hosts:
        options = ("--model", "lenet5", "--data", "synth:digits?examples=19200", "--optimizer", "momentum", "--lr", "0.01",
                   "--batch", "64", "--epochs", "2", "--eval-every", "1000000")
        best = {}
        for _ in range(b.rounds):
            for name, more, prefix in (("wire", hosts.options, hosts.prefix), ("memory", ("--launch", "3"), ())):
                s = b.train(*options, *more, prefix=prefix)
                if name not in best or s["steps_per_second"] > best[name]["steps_per_second"]:
                    best[name] = s
    step = {name: 1 / s["steps_per_second"] for name, s in best.items()}
    sent = best["wire"]["traffic"]["all-reduce"]["sent"] / best["wire"]["steps"] / 3
    least = sent / GIGABIT
    shown = step["wire"] - step["memory"]
    return [figure("lenet5, 3 hosts at 1 Gbit/s: communication not hidden",
                   f"{1e3 * shown:.2f} of {1e3 * step['wire']:.2f} ms a step",
                   f"{1e3 * least:.2f} ms: {sent / 1e3:.0f} KB at 1 Gbit/s", f"{shown / least:.2f} x", "<= 1.3 x",
                   shown <= 1.3 * least)]


def allreduce(b):
    """61 M floats (alexnet), 2 ranks: the native transport against MPI"""
    program = os.path.join(os.path.dirname(b.yoke), "bench_allreduce")
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    mpirun = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "--mca", "btl"]
    kinds = {"shared memory": ([program, "2"], [*mpirun, "self,vader", "-n", "2", program], {}),
             "TCP": ([program, "2"], [*mpirun, "self,tcp", "-n", "2", program], {"YOKE_SHARED_MEMORY": "0"})}
    rows = []
    for kind, (ours, theirs, more) in kinds.items():
        best = {}
        for _ in range(b.rounds):
            for name, command in (("native", ours), ("MPI", theirs)):
                done = subprocess.run(command, capture_output=True, text=True, env={**environment, **more})
                if done.returncode:
                    raise RuntimeError(done.stderr[-500:])
                s = json.loads(done.stdout.splitlines()[-1])
                best[name] = min(best.get(name, 1e9), s["seconds"])
        ratio = best["MPI"] / best["native"]
        rows.append(figure(f"all-reduce of 61 M floats, 2 ranks, {kind}", f"{best['native']:.3f} s",
                           f"{best['MPI']:.3f} s (Open MPI)", f"{ratio:.2f} x", ">= 0.95 x", ratio >= 0.95))
    return rows


def link(b):
    """61 M floats over a link of 1 Gbit/s between two hosts (network namespaces), against iperf3"""
    if not shutil.which("iperf3"):
        raise Skip("needs iperf3")
    program = os.path.join(os.path.dirname(b.yoke), "bench_allreduce")
    with Hosts(b.directory) as hosts:
        enter = [["ip", "netns", "exec", name] for name in hosts.names]
        server = subprocess.Popen([*enter[1], "iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
        time.sleep(0.5)
        done = json.loads(b.run([*enter[0], "iperf3", "-c", "10.78.0.2", "-t", "3", "-J"]))
        server.wait()
        theirs = done["end"]["sum_received"]["bits_per_second"] / 8
        common = {"YOKE_SIZE": "2", "YOKE_MASTER": "10.78.0.1:29501", "YOKE_TOKEN": os.urandom(32).hex()}
        other = subprocess.Popen([*enter[1], program], env={**os.environ, **common, "YOKE_RANK": "1"})
        s = json.loads(b.run([*enter[0], program], {**common, "YOKE_RANK": "0"}).splitlines()[-1])
        other.wait()
    ours = 4 * s["floats"] / s["seconds"]  # each host sends half of the gradient, then half of the sum
    return [figure("all-reduce of 61 M floats, 2 hosts at 1 Gbit/s: bytes/s in each direction", human(ours, "B/s"),
                   f"{human(theirs, 'B/s')} (iperf3)", f"{ours / theirs:.2f} x", ">= 0.9 x", ours >= 0.9 * theirs)]


def start(b):
    """job of 4 ranks: from the command to the first step"""
    def seconds():
        return b.train("--model", "softmax", "--data", "synth:digits?examples=600", "--test", "none", "--steps", "50", "--launch",
                       "4")["first_step_seconds"]
    best = min(seconds() for _ in range(b.rounds + 2))
    return [figure("4 ranks: from the command to the first step", f"{best:.3f} s", "", "", "< 0.1 s", best < 0.1)]


def recovery(b):
    """kill -9 of a rank with --restarts: from the kill to the first step again"""
    def measure():
        out = tempfile.mkdtemp(dir=b.directory)
        command = [b.yoke, "train", "--model", "softmax", "--data", "synth:digits?examples=6000", "--batch", "10", "--test",
                   "none", "--steps", "60000", "--checkpoint-every", "500", "--launch", "4", "--restarts", "1", "--json",
                   "--out", os.path.join(out, "run")]
        job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=b.directory)
        while not os.path.isdir(os.path.join(out, "run", "checkpoints")):
            time.sleep(0.01)
        time.sleep(0.3)
        victim = next(pid for pid in os.listdir("/proc") if pid.isdigit() and is_rank(pid, out, 2))
        os.kill(int(victim), signal.SIGKILL)
        killed, again = time.time(), None
        for line in job.stderr:
            if "restarting from" in line:
                again = time.time()
                break
        rest = job.stdout.read()
        job.stderr.read()
        if job.wait() or again is None:
            raise RuntimeError("the job did not come back")
        return again - killed + json.loads(rest.splitlines()[-1])["first_step_seconds"]

    best = min(measure() for _ in range(b.rounds))
    return [figure("4 ranks: from kill -9 to the first step again", f"{best:.2f} s", "", "", "< 2 s", best < 2)]


def is_rank(pid, out, rank):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            ours = out.encode() in f.read()
        with open(f"/proc/{pid}/environ", "rb") as f:
            return ours and f"YOKE_RANK={rank}".encode() in f.read().split(b"\0")
    except OSError:
        return False


ROWS = {"logreg": logreg, "two": two, "softmax": softmax, "lenet": lenet, "wire": wire, "allreduce": allreduce, "link": link,
        "start": start, "recovery": recovery}

if __name__ == "__main__":
    sys.exit(main(ROWS, __doc__))
